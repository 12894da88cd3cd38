"""`autograd.numpy.random`: NumPy's own. Its numbers are constants to every transform; `funcad.random` has keys instead."""

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "numpy.random")
