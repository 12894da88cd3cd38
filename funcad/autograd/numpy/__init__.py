"""`autograd.numpy`: funcad.numpy, and what that does not have from NumPy.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import grad
>>> float(grad(np.tanh)(0.0))
1.0
"""

from funcad.autograd.numpy.loose_functions import column_stack as column_stack
from funcad.autograd.numpy.loose_functions import concatenate as concatenate
from funcad.autograd.numpy.loose_functions import dstack as dstack
from funcad.autograd.numpy.loose_functions import hstack as hstack
from funcad.autograd.numpy.loose_functions import make_diagonal as make_diagonal
from funcad.autograd.numpy.loose_functions import stack as stack
from funcad.autograd.numpy.loose_functions import vstack as vstack
from funcad.autograd.numpy.loose_functions import where as where
from funcad.autograd.numpy.numpy_vjps import metadata as metadata
from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.numpy", "numpy")
__all__ = ["make_diagonal", *[name for name in __dir__() if name not in ("test", "testing")]]
