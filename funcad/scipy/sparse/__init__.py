"""`scipy.sparse`: of it, funcad has `sparse.linalg`, the iterative solvers of linear systems, loaded when first used."""

import importlib as _importlib
from typing import Any as _Any

from funcad.scipy.door import absent as _absent

__all__ = ["linalg"]


def _lazy(name: str) -> _Any:
    return _importlib.import_module("funcad.scipy.sparse.linalg") if name == "linalg" else None


__getattr__ = _absent("funcad.scipy.sparse", _lazy)


def __dir__() -> list[str]:
    return list(__all__)
