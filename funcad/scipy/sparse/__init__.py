"""`scipy.sparse`: arrays whose elements may be traced, and `sparse.linalg`, loaded when first used."""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.scipy.door import absent as _absent

# isort: off
from funcad.scipy.sparse.sparse_arrays import (
    SparseArray as SparseArray, coo_array as coo_array, coo_matrix as coo_matrix, csc_array as csc_array,
    csc_matrix as csc_matrix, csr_array as csr_array, csr_matrix as csr_matrix, dia_array as dia_array,
    dia_matrix as dia_matrix,
)  # fmt: skip
from funcad.scipy.sparse.sparse_blocks import (
    block_array as block_array, block_diag as block_diag, bmat as bmat, diags as diags, diags_array as diags_array,
    find as find, hstack as hstack, kron as kron, kronsum as kronsum, permute_dims as permute_dims, spdiags as spdiags,
    swapaxes as swapaxes, tril as tril, triu as triu, vstack as vstack,
)  # fmt: skip
# isort: on

__all__ = [
    "SparseArray",
    "block_array",
    "block_diag",
    "bmat",
    "coo_array",
    "coo_matrix",
    "csgraph",
    "csc_array",
    "csc_matrix",
    "csr_array",
    "csr_matrix",
    "dia_array",
    "dia_matrix",
    "diags",
    "diags_array",
    "find",
    "hstack",
    "kron",
    "kronsum",
    "linalg",
    "permute_dims",
    "spdiags",
    "swapaxes",
    "tril",
    "triu",
    "vstack",
]

if _typing.TYPE_CHECKING:
    from funcad.scipy.sparse import csgraph as csgraph
    from funcad.scipy.sparse import linalg as linalg


def _lazy(name: str) -> _Any:
    return _importlib.import_module(f"funcad.scipy.sparse.{name}") if name in ("csgraph", "linalg") else None


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.sparse", _lazy)


def __dir__() -> list[str]:
    return list(__all__)
