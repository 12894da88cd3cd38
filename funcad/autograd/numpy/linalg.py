"""`autograd.numpy.linalg`: funcad.numpy.linalg, and what that does not have from NumPy."""

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy.linalg", "numpy.linalg")
