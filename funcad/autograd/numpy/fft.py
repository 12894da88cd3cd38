"""`autograd.numpy.fft`: funcad.numpy.fft, and what that does not have from NumPy."""

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy.fft", "numpy.fft")
