"""`jit`: its call, its cache, its inspection; loaded when somebody first asks for it."""

from funcad.jitted import derived_programs as _derived_programs  # noqa: F401 -- to which derivatives of jitted functions go
