"""`scipy.sparse`: arrays whose elements may be traced, and `sparse.linalg`, loaded when first used."""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.scipy.door import absent as _absent

# isort: off
from funcad.scipy.sparse.sparse_arrays import (
    SparseArray as SparseArray, coo_array as coo_array, csc_array as csc_array, csr_array as csr_array,
)  # fmt: skip
# isort: on

__all__ = ["SparseArray", "coo_array", "csc_array", "csr_array", "linalg"]

if _typing.TYPE_CHECKING:
    from funcad.scipy.sparse import linalg as linalg


def _lazy(name: str) -> _Any:
    return _importlib.import_module("funcad.scipy.sparse.linalg") if name == "linalg" else None


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.sparse", _lazy)


def __dir__() -> list[str]:
    return list(__all__)
