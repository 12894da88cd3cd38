"""Programs that nothing was tuned for, jitted: the list that `benchmarks.cliffs` measures beside JAX."""

from benchmarks.jitted import inference, learning, numerics, physics

PROGRAMS = [*learning.PROGRAMS, *inference.PROGRAMS, *physics.PROGRAMS, *numerics.PROGRAMS]
