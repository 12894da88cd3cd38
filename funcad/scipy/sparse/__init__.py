"""`scipy.sparse`: of it, funcad has `sparse.linalg`, the iterative solvers of linear systems, loaded when first used."""

import importlib as _importlib
from typing import Any as _Any

__all__ = ["linalg"]


def __getattr__(name: str) -> _Any:
    if name == "linalg":
        return _importlib.import_module("funcad.scipy.sparse.linalg")
    raise AttributeError(f"module 'funcad.scipy.sparse' has no attribute {name!r}")


def __dir__() -> list[str]:
    return list(__all__)
