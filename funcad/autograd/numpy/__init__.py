"""`autograd.numpy`: funcad.numpy, and what that does not have from NumPy.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import grad
>>> float(grad(np.tanh)(0.0))
1.0
"""

from funcad.foreign_names import mirror as _mirror

# isort: off
from funcad.autograd.numpy.numpy_vjps import (
    column_stack as column_stack, concatenate as concatenate, dstack as dstack, hstack as hstack,
    make_diagonal as make_diagonal, metadata as metadata, stack as stack, vstack as vstack, where as where,
)  # fmt: skip
# isort: on

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy", "numpy")
__all__ = ["make_diagonal", *[name for name in __dir__() if name not in ("test", "testing")]]
