"""A pytree of arrays as one vector and back: what solvers on vectors need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import check_leaves
from funcad.ir.aval import aval_of
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, reshape, static_slice


class Vector:
    """How pytrees like an example become vectors of one float or complex dtype.

    `what` names the function and the argument in error messages, `given` is that of `check_leaves`. Integers become floats of
    the common dtype.
    """

    def __init__(self, what: str, example: Any, given: bool = False):
        leaves, self.structure = tree.flatten(example)
        check_leaves(leaves, what, example, given=given)
        avals = [aval_of(x) for x in leaves]
        kinds = {a.dtype.kind for a in avals}
        if "c" in kinds and kinds != {"c"}:
            dtypes = sorted({str(a.dtype) for a in avals})
            raise TypeError(f"{what}: the arrays must be all real or all complex, got dtypes {dtypes}")
        dtype = np.result_type(*[a.dtype for a in avals]) if avals else np.dtype(float)
        self.what = what
        self.dtype = dtype if dtype.kind in "fc" else np.dtype(float)
        self.shapes = [a.shape for a in avals]
        self.dtypes = [a.dtype if a.dtype.kind in "fc" else self.dtype for a in avals]
        self.sizes = [a.size for a in avals]
        self.size = sum(self.sizes)

    def flat(self, value: Any, name: str = "the value") -> Any:
        """The vector of a pytree with the example's structure and shapes."""
        leaves, structure = tree.flatten(value)
        if structure != self.structure:
            difference = tree.describe_difference(structure, self.structure, name, "the example")
            raise TypeError(f"{self.what}: {name} must have its structure.\n{difference}")
        check_leaves(leaves, f"{self.what}: {name}", value)
        parts = []
        for x, shape, n in zip(leaves, self.shapes, self.sizes):
            found = aval_of(x)
            if found.shape != shape:
                shapes = [aval_of(v).shape for v in leaves]
                raise ValueError(f"{self.what}: {name} must have the shapes {self.shapes}, got {shapes}")
            if found.dtype.kind == "c" and self.dtype.kind != "c":
                raise TypeError(f"{self.what}: {name} is complex, the example real.\nRemedy: give a complex example, b + 0j.")
            x = convert(x, self.dtype) if found.dtype != self.dtype or found.weak else x
            parts.append(x if len(shape) == 1 else reshape(x, shape=(n,)))
        if not parts:
            return np.zeros(0, self.dtype)
        return parts[0] if len(parts) == 1 else concatenate(parts, axis=0)

    def tree(self, vector: Any) -> Any:
        """The pytree of a vector."""
        return self.structure.unflatten(self._leaves(vector))

    def _leaves(self, vector: Any) -> Sequence[Any]:
        start, leaves = 0, []
        for shape, n, dtype in zip(self.shapes, self.sizes, self.dtypes):
            x = static_slice(vector, start, start + n)
            start += n
            x = x if len(shape) == 1 else reshape(x, shape=shape)
            leaves.append(convert(x, dtype) if dtype != self.dtype else x)
        return leaves
