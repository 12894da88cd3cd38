"""autograd's vector spaces: what `vspace(value)` knows of the numbers in a value, for code that asks for zeros or a basis.

Idea: a value is a pytree of arrays and numbers; its space is the product of theirs. A complex number is two real coordinates.
funcad itself needs none of this: tangents have the structure of their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.ir.aval import Aval, aval_of

__all__ = ["VSpace", "vspace"]


class VSpace:
    """The vector space that a value belongs to: an array, a number, or a container of them; traced or not.

    `shape`, `ndim`, `dtype` and `iscomplex` are those of a single array; `size` counts real coordinates.

    >>> space = VSpace([1.0, np.zeros(2)])
    >>> space.size, space.ones()
    (3, [array(1.), array([1., 1.])])
    """

    def __init__(self, value: Any):
        leaves, self._structure = tree.flatten(value)
        self._avals = [aval_of(leaf) for leaf in leaves]
        self.size = sum([aval.size * (2 if aval.dtype.kind == "c" else 1) for aval in self._avals])

    @classmethod
    def register(cls, value_type: type, vspace_maker: Any = None) -> NoReturn:
        raise TypeError(
            f"VSpace.register({value_type.__name__}): funcad's vectors are pytrees, not classes of vector spaces.\n"
            f"Remedy: funcad.tree.register_pytree_node({value_type.__name__}, flatten, unflatten)."
        )

    def _array(self) -> Aval:
        if len(self._avals) != 1:
            raise TypeError(f"{self!r} is the space of a container, which has no one shape and dtype")
        return self._avals[0]

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array().shape

    @property
    def ndim(self) -> int:
        return self._array().ndim

    @property
    def dtype(self) -> np.dtype:
        return self._array().dtype

    @property
    def iscomplex(self) -> bool:
        return self._array().dtype.kind == "c"

    def _made(self, make: Callable[[Aval], Any]) -> Any:
        return self._structure.unflatten([make(aval) for aval in self._avals])

    def zeros(self) -> Any:
        """The zero of the space; arrays also where the value had numbers."""
        return self._made(lambda aval: np.zeros(aval.shape, aval.dtype))

    def ones(self) -> Any:
        """All coordinates one: 1 + 1j for complex numbers."""
        return self._made(lambda aval: np.full(aval.shape, 1 + 1j if aval.dtype.kind == "c" else 1, aval.dtype))

    def standard_basis(self) -> Iterator[Any]:
        """The unit vectors, one after the other; of a complex number 1 and 1j."""
        for i, aval in enumerate(self._avals):
            for place in np.ndindex(aval.shape):
                for one in (1, 1j) if aval.dtype.kind == "c" else (1,):
                    arrays = [np.zeros(a.shape, a.dtype) for a in self._avals]
                    arrays[i][place] = one
                    yield self._structure.unflatten(arrays)

    def randn(self) -> Any:
        """A vector of standard normal coordinates, from NumPy's global generator."""

        def draw(aval: Aval) -> Any:
            real = np.asarray(np.random.randn(*aval.shape))
            return (real + 1j * np.random.randn(*aval.shape) if aval.dtype.kind == "c" else real).astype(aval.dtype)

        return self._made(draw)

    def add(self, x: Any, y: Any) -> Any:
        return tree.map(lambda a, b: a + b, x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        return tree.map(lambda leaf: leaf * a, x)

    def covector(self, x: Any) -> Any:
        """The complex conjugate."""
        return tree.map(fnp.conj, x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """The sum of the products of the real coordinates."""
        pairs = zip(tree.leaves(x), tree.leaves(y))
        return sum([fnp.real(fnp.sum(fnp.conj(a) * b)) for a, b in pairs], 0.0)

    def __eq__(self, other: object) -> bool:
        return type(other) is VSpace and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._structure, tuple([(aval.shape, aval.dtype) for aval in self._avals])

    def __repr__(self) -> str:
        return f"VSpace({self._structure.unflatten(self._avals)})"


def vspace(value: Any) -> VSpace:
    """The vector space of a value.

    >>> list(vspace(np.zeros(2)).standard_basis())
    [array([1., 0.]), array([0., 1.])]
    """
    return VSpace(value)
