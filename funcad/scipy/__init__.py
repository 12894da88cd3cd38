"""SciPy's names, differentiable: values come from SciPy's own functions, the derivatives are funcad's.

Each module is loaded when it is first used. SciPy's own functions cannot be called on traced values (its ufuncs can):
`funcad.scipy.linalg.expm(x)` instead of `scipy.linalg.expm(x)`.

>>> import numpy as np, funcad
>>> funcad.grad(lambda x: funcad.scipy.special.gammaln(x))(2.0).round(6)
np.float64(0.422784)
"""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

if _typing.TYPE_CHECKING:  # what is loaded when it is first used
    from funcad.scipy import fft as fft
    from funcad.scipy import integrate as integrate
    from funcad.scipy import interpolate as interpolate
    from funcad.scipy import linalg as linalg
    from funcad.scipy import ndimage as ndimage
    from funcad.scipy import optimize as optimize
    from funcad.scipy import signal as signal
    from funcad.scipy import sparse as sparse
    from funcad.scipy import spatial as spatial
    from funcad.scipy import special as special
    from funcad.scipy import stats as stats

_MODULES = [
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]
__all__ = list(_MODULES)


def _loaded(name: str) -> _Any:
    if name in _MODULES:
        return _importlib.import_module(f"funcad.scipy.{name}")
    raise AttributeError(f"module 'funcad.scipy' has no attribute {name!r}")


if not _typing.TYPE_CHECKING:  # seen by a checker, it would make every misspelt name one of type Any
    __getattr__ = _loaded


def __dir__() -> list[str]:
    return sorted(_MODULES)
