"""`autograd.numpy`: funcad.numpy, and what that does not have from NumPy.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import grad
>>> float(grad(np.tanh)(0.0))
1.0
"""

import importlib as _importlib
import typing as _typing

from funcad.foreign_names import mirror as _mirror

# loaded when first used
_OWN = "column_stack concatenate dstack hstack make_diagonal metadata stack vstack where wrap_namespace".split()
_mirrored, __dir__ = _mirror(__name__, "funcad.numpy", "numpy")
__all__ = ["make_diagonal", *[name for name in __dir__() if name not in ("test", "testing")]]


def __getattr__(name: str) -> _typing.Any:
    if name == "numpy_vspaces":
        return _importlib.import_module("funcad.autograd.vspaces")
    if name == "numpy_wrapper":
        return _importlib.import_module("funcad.autograd.numpy")
    if name not in _OWN:
        return _mirrored(name)
    if name not in globals():
        globals()[name] = getattr(_importlib.import_module("funcad.autograd.numpy.numpy_vjps"), name)
    return globals()[name]
