"""`autograd.numpy`: funcad.numpy, and what that does not have from NumPy.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import grad
>>> float(grad(np.tanh)(0.0))
1.0
"""

from funcad.autograd.mirror import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy", "numpy")
__all__ = [name for name in __dir__() if name not in ("test", "testing")]
