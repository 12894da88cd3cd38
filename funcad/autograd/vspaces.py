"""autograd's vector spaces: what `vspace(value)` knows of the numbers in a value, for code that asks for zeros or a basis.

Idea: a value is a pytree of arrays and numbers; its space is the product of theirs. A complex number is two real coordinates.
funcad itself needs none of this: tangents have the structure of their values. A class that is registered with its space is a
pytree of its attributes from then on, if it was none before.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.autograd.user_boxes import unboxed
from funcad.host.where import tracing
from funcad.ir.aval import Aval, aval_of
from funcad.tree.containers import kind_of, register_object

__all__ = ["SparseObject", "VSpace", "dense", "vspace"]
_asarray, _ndarray, _randn, _sum = np.asarray, np.ndarray, np.random.randn, np.add.reduce  # which no door stands before
_LEAF = tree.structure(0.0)


class VSpace:
    """The vector space that a value belongs to: an array, a number, or a container of them; traced or not.

    `shape`, `ndim`, `dtype` and `iscomplex` are those of a single array; `size` counts real coordinates.

    >>> space = VSpace([1.0, np.zeros(2)])
    >>> space.size, space.ones()
    (3, [array(1.), array([1., 1.])])
    """

    def __init__(self, value: Any):
        if type(value) is _ndarray:
            self._structure, self._avals = _LEAF, [aval_of(value)]
            return
        leaves, self._structure = tree.flatten(value)
        self._avals = list(map(aval_of, leaves))

    @cached_property
    def size(self) -> int:
        return sum([aval.size * (2 if aval.dtype.kind == "c" else 1) for aval in self._avals])

    mappings: dict[type, Callable[[Any], Any]] = {}  # the classes of users that were registered

    @classmethod
    def register(cls, value_type: type, vspace_maker: Callable[[Any], Any] | None = None) -> None:
        """Values of that class have this space (or that which `vspace_maker(value)` makes), and are differentiated as pytrees.

        >>> class Pair:
        ...     def __init__(self, a, b):
        ...         self.a, self.b = a, b
        >>> VSpace.register(Pair)
        >>> vspace(Pair(1.0, np.zeros(2))).size
        3
        """
        if kind_of(value_type) is None:
            register_object(value_type)
        VSpace.mappings[value_type] = cls if vspace_maker is None else vspace_maker

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
        if self._structure is _LEAF:
            return make(self._avals[0])
        return self._structure.unflatten(list(map(make, self._avals)))

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
            real = _asarray(_randn(*aval.shape))
            if aval.dtype is real.dtype:
                return real
            return (real + 1j * _randn(*aval.shape) if aval.dtype.kind == "c" else real).astype(aval.dtype, copy=False)

        return self._made(draw)

    # what is public calls what a space of the user's may define

    def add(self, x: Any, y: Any) -> Any:
        return self._add(x, y)

    def mut_add(self, x: Any, y: Any) -> Any:
        """x + y, where x may be changed; None is zero."""
        return self._mut_add(self.zeros() if x is None else x, y)

    def scalar_mul(self, x: Any, a: Any) -> Any:
        return self._scalar_mul(x, a)

    def covector(self, x: Any) -> Any:
        """The complex conjugate."""
        return self._covector(x)

    def inner_prod(self, x: Any, y: Any) -> Any:
        """The sum of the products of the real coordinates."""
        return self._inner_prod(x, y)

    def _add(self, x: Any, y: Any) -> Any:
        return x + y if type(x) is _ndarray else tree.map(operator.add, x, y)

    def _mut_add(self, x: Any, y: Any) -> Any:
        return self._add(x, y)

    def _scalar_mul(self, x: Any, a: Any) -> Any:
        return x * a if type(x) is _ndarray else tree.map(lambda leaf: leaf * a, x)

    def _covector(self, x: Any) -> Any:
        return x if type(x) is _ndarray and x.dtype.kind == "f" else tree.map(_conjugate, x)

    def _inner_prod(self, x: Any, y: Any) -> Any:
        if type(x) is type(y) is _ndarray:
            return _product(x, y)
        return sum([_product(a, b) for a, b in zip(tree.leaves(x), tree.leaves(y))], 0.0)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key()) if hasattr(self, "_avals") else hash(type(self))

    def _key(self) -> Any:
        if not hasattr(self, "_avals"):  # a class of the user's that does not call `VSpace.__init__`
            return vars(self)
        return self._structure, tuple([(aval.shape, aval.dtype) for aval in self._avals])

    def __repr__(self) -> str:
        held = self._structure.unflatten(self._avals) if hasattr(self, "_avals") else vars(self)
        return f"{type(self).__name__}({held})"


class _Known(type):
    """Of autograd's classes of spaces, for isinstance and to inherit from: `vspace` gives a VSpace."""

    def __instancecheck__(cls, x: object) -> bool:
        kinds, zero = vars(cls).get("kinds"), type(x) is VSpace and x.zeros()
        if kinds == (complex,):
            return np.iscomplexobj(zero) and type(zero) is _ndarray
        return super().__instancecheck__(x) if kinds is None else isinstance(zero, kinds)

    def __call__(cls, *args: Any) -> Any:
        return VSpace(*args) if "kinds" in vars(cls) else super().__call__(*args)


def _known(name: str, *kinds: type) -> Any:
    return _Known(name, (VSpace,), {"kinds": kinds})


ArrayVSpace = _known("ArrayVSpace", _ndarray)
ComplexArrayVSpace = _known("ComplexArrayVSpace", complex)
ContainerVSpace = _known("ContainerVSpace", list, tuple, dict)
SequenceVSpace = _known("SequenceVSpace", list, tuple)
ListVSpace = _known("ListVSpace", list)
TupleVSpace = _known("TupleVSpace", tuple)
DictVSpace = _known("DictVSpace", dict)


def _conjugate(leaf: Any) -> Any:
    kind = leaf.dtype.kind if type(leaf) is _ndarray else aval_of(leaf).dtype.kind
    return fnp.conj(leaf) if kind == "c" else leaf


def _product(a: Any, b: Any) -> Any:
    each = (a if type(a) is _ndarray and a.dtype.kind == "f" else _conjugate(a)) * b
    if type(each) is _ndarray and each.dtype.kind == "f":
        return _sum(each, axis=None)
    return fnp.real(fnp.sum(each))


def vspace(value: Any) -> Any:
    """The vector space of a value.

    >>> list(vspace(np.zeros(2)).standard_basis())
    [array([1., 0.]), array([0., 1.])]
    """
    value = unboxed(value)
    return VSpace.mappings.get(type(value), VSpace)(value)


def check_held(x: Any) -> None:
    """Refuses values of a class of the user's in which there is no number yet, and so no place for a derivative."""
    for part in tree.leaves(x, is_leaf=lambda part: type(part) in VSpace.mappings):
        if type(part) in VSpace.mappings and not tree.leaves(part):
            name = type(part).__name__
            raise TypeError(
                f"a {name} without numbers cannot be differentiated: its gradient has the structure of the value, not that of "
                f"its VSpace's zeros().\nRemedy: zeros in the {name} for all numbers whose derivatives are wanted."
            )


class SparseObject:
    """A cotangent that is zero but where `mut_add` adds: `mut_add(zeros)` gives the array. Rules may return it.

    >>> from funcad.autograd.core import sparse_add
    >>> second = SparseObject(vspace(np.zeros(3)), lambda a: a + np.array([0.0, 7.0, 0.0]))
    >>> sparse_add(second.vs, None, second)
    array([0., 7., 0.])
    """

    __slots__ = ("vs", "mut_add")

    def __init__(self, vs: Any, mut_add: Callable[[Any], Any]):
        self.vs, self.mut_add = vs, mut_add


def dense(g: Any) -> Any:
    """A cotangent as an array."""
    return g.mut_add(tree.map(tracing.lend, g.vs.zeros())) if type(g) is SparseObject else g
