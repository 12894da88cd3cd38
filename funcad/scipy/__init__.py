"""SciPy's names, differentiable: values come from SciPy's own functions, the derivatives are funcad's.

Each module is loaded when it is first used. SciPy's own functions cannot be called on traced values (its ufuncs can):
`funcad.scipy.linalg.expm(x)` instead of `scipy.linalg.expm(x)`.

>>> import numpy as np, funcad
>>> funcad.grad(lambda x: funcad.scipy.special.gammaln(x))(2.0).round(6)
np.float64(0.422784)
"""

import importlib as _importlib
from typing import Any as _Any

_MODULES = [
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "special",
    "stats",
]
__all__ = list(_MODULES)


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _importlib.import_module(f"funcad.scipy.{name}")
    raise AttributeError(f"module 'funcad.scipy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_MODULES)
