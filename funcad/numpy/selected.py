"""What a mask selects while its values are not known: `x[mask]` inside jit, vmap and the bodies of loops.

Idea: how many elements there are is not known, but where each of them stands is. So `Selected` keeps all elements beside the
mask: it computes elementwise on all of them, adds up where the mask holds, and `x[mask] = selected` is a select. Whatever
needs the elements closed up, or meets what another mask selects, raises `TracerBoolConversionError`; under jit with guards,
which can ask how many there are, they are closed up then (`closed_up`), and from then on they are that one array, which can
be written and viewed. Invariant: elements that are not selected never come out; what is computed of them is discarded, so it
does not warn.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import to_close_up
from funcad.configuration import OnDemand
from funcad.errors import TracerBoolConversionError
from funcad.host.where import state, user_source
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.jaxpr import Equation, Literal, Var, params_key
from funcad.ir.tracer import Tracer, snapshot
from funcad.numpy.index_plan import can_count, closed, is_selected, refuse, selected_places, unknown_count
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_in_dim
from funcad.writes.plain import lent

same = OnDemand("funcad.tree.same")

_SUMS = ("sum", "prod", "mean", "var", "std", "any", "all")  # the reductions that take `where`
_ELEMENTWISE = {  # functions that are so in their first arguments: how many these are
    **{"clip": 3, "full_like": 2, "isclose": 2, "where": 3},
    **dict.fromkeys("i0 interp nan_to_num ones_like round sinc zeros_like".split(), 1),
}
_DEEPEST = 8  # steps back, in the comparison of two masks


class Selected:
    """The elements of an array where a traced mask holds."""

    __slots__ = ("_all", "_mask", "_array", "_body")
    __array_priority__ = 2000.0  # operators of traced values leave it to us

    def __init__(self, x: Any, mask: Tracer):
        shape = shape_of(x)
        if mask.shape != shape[: mask.ndim]:
            refuse(shape, mask, f"boolean index of shape {mask.shape} did not match the indexed array")
        self._all = snapshot(x)
        self._mask = snapshot(mask)
        self._array: Any = None  # closed up, once it is
        self._body = state.abstract  # in which it was made

    # -- closed up

    def closed_up(self) -> Any:
        """The elements as an array of its own: the path depends on how many there are."""
        if self._array is not None:
            return self._array
        array = self._all[selected_places(self._mask)]
        if state.abstract is self._body:  # an inner body runs several times, but would write once
            self._array = array = lent(array)
        return array

    as_operand = closed_up

    def is_of(self, mask: Tracer) -> bool:
        """Does the same mask select?"""
        return self._array is None and _same(self._mask, mask)

    # -- what is known

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """That of arrays, which `isinstance` and `match` ask for."""
        return self._mask.__class__

    @property
    def owner(self) -> Any:
        """The innermost trace, as a traced value's."""
        return max([x.owner for x in (self._mask, self._all) if type(x) is Tracer], key=lambda trace: trace.level)

    @property
    def dtype(self) -> np.dtype:
        return aval_of(self._all).dtype

    @property
    def ndim(self) -> int:
        return len(self._rest) + 1

    @property
    def size(self) -> Any:
        """How many elements there are, a traced number."""
        return np.sum(self._mask) * int(np.prod(self._rest, dtype=int))

    @property
    def _rest(self) -> tuple[int, ...]:
        return shape_of(self._all)[self._mask.ndim :]

    def elements(self, mask: Tracer, rest: tuple[int, ...]) -> Any:
        """All elements, for who writes them where `mask` holds."""
        if self._array is not None or self._rest != rest or not _same(self._mask, mask):
            raise unknown_count(mask)
        return self._all

    # -- elementwise

    def _with(self, x: Any) -> Selected:
        return Selected(x, self._mask)

    def _operand(self, x: Any) -> Any:
        """All elements of another operand: those of the same mask, or values that are the same for all that is selected."""
        if type(x) is Selected:
            return x.elements(self._mask, self._rest)
        shape = np.shape(x)
        if len(shape) == len(self._rest) + 1 and shape[0] == 1:
            x, shape = x[0], shape[1:]
        if len(shape) > len(self._rest):
            raise unknown_count(self._mask)
        np.broadcast_shapes(shape, self._rest)  # or NumPy's error
        return x

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        try:
            return self._elementwise(ufunc, method, *inputs, **kwargs)
        except TracerBoolConversionError:
            if not can_count(self._mask):
                raise
            return getattr(ufunc, method)(*closed(inputs), **closed(kwargs))

    def _elementwise(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        is_closed = any([type(x) is Selected and x._array is not None for x in inputs])
        if is_closed or method != "__call__" or not {"dtype", "casting"}.issuperset(kwargs):
            raise unknown_count(self._mask)
        operands = [self._operand(x) for x in inputs]
        with np.errstate(all="ignore"):
            out = ufunc(*operands, **kwargs)
        return tuple(map(self._with, out)) if type(out) is tuple else self._with(out)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = getattr(function, "__name__", "")
        if name in _SUMS and args and args[0] is self:
            return getattr(self, name)(*args[1:], **kwargs)
        if name in _ELEMENTWISE and self._array is None and (name != "where" or len(args) == 3):
            n, options = _ELEMENTWISE[name], tuple(kwargs.values())
            numbers = not {"out", "shape"} & kwargs.keys() and not any([is_selected(v) or np.ndim(v) for v in options])
            if numbers and not any(map(is_selected, args[n:])):
                try:
                    with np.errstate(all="ignore"):
                        return self._with(function(*map(self._operand, args[:n]), *args[n:], **kwargs))
                except TracerBoolConversionError:
                    if not can_count(self._mask):
                        raise
        return function(*closed(args), **closed(kwargs))

    def astype(self, dtype: Any) -> Any:
        return self._with(self._all.astype(dtype)) if self._array is None else self._array.astype(dtype)

    def copy(self) -> Any:
        return self._with(self._all) if self._array is None else self._array.copy()

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> Any:
        return self.copy()

    def conj(self) -> Any:
        return self._with(np.conj(self._all)) if self._array is None else np.conj(self._array)

    conjugate = conj

    # -- added up

    def _reduced(self, name: str, axis: Any = None, **options: Any) -> Any:
        if self._array is not None or axis not in (None, 0) or not {"dtype", "ddof"}.issuperset(options):
            return getattr(np, name)(self.closed_up(), axis=axis, **options)
        mask = self._mask
        held = broadcast_in_dim(mask, shape=shape_of(self._all), axes=tuple(range(mask.ndim)))
        axes = None if axis is None else tuple(range(mask.ndim))
        with np.errstate(all="ignore"):
            return getattr(np, name)(self._all, axis=axes, where=held, **options)

    # -- what is not known

    @property
    def shape(self) -> tuple[int, ...]:
        return shape_of(self.closed_up())

    def __setitem__(self, index: Any, value: Any) -> None:
        self.closed_up()
        if self._array is None:  # the write would be lost
            raise unknown_count(self._mask)
        self._array[closed(index)] = closed(value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(
                f"what a traced mask selects has no attribute {name!r}.\nRemedy: np.where(mask, x, 0.0), which keeps the shape."
            )
        return getattr(self.closed_up(), name)

    def __repr__(self) -> str:
        source = user_source()
        return f"<elements of {aval_of(self._all)} that a traced mask selects{f', at {source}' if source is not None else ''}>"


def _of_array(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: getattr(self.closed_up(), name)(*closed(args), **kwargs)


def _operator(ufunc: Any, reflected: bool) -> Callable[..., Any]:
    def method(self: Selected, *others: Any) -> Any:
        return self.__array_ufunc__(ufunc, "__call__", *((*others, self) if reflected else (self, *others)))

    return method


def _in_place(name: str, ufunc: Any) -> Callable[[Selected, Any], Selected]:
    def method(self: Selected, other: Any) -> Selected:
        out = self.__array_ufunc__(ufunc, "__call__", self, other) if self._array is None else None
        if type(out) is not Selected:
            if self._array is None:
                raise unknown_count(self._mask)
            self._array = getattr(operator, name)(self._array, closed(other))
            return self
        if out.dtype != self.dtype and not np.can_cast(out.dtype, self.dtype, "same_kind"):
            own = np.empty(0, self.dtype)
            ufunc(own, np.empty(0, out.dtype), out=own)  # NumPy's TypeError
        self._all = convert(out._all, self.dtype)
        return self

    return method


def _reduction(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self._reduced(name, *args, **kwargs)


_OPERATORS = {
    **{"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide},
    **{"mod": np.remainder, "pow": np.power, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor},
    **{"lshift": np.left_shift, "rshift": np.right_shift},
}
for _name, _ufunc in _OPERATORS.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
    setattr(Selected, f"__r{_name}__", _operator(_ufunc, True))
    setattr(Selected, f"__i{_name}__", _in_place(f"__i{_name}__", _ufunc))
for _name, _ufunc in {"lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
for _name, _ufunc in {"eq": np.equal, "ne": np.not_equal, "neg": np.negative, "pos": np.positive, "abs": np.absolute}.items():
    setattr(Selected, f"__{_name}__", _operator(_ufunc, False))
Selected.__invert__ = _operator(np.invert, False)  # type: ignore[attr-defined]
Selected.__hash__ = None  # type: ignore[assignment]
for _name in _SUMS:
    setattr(Selected, _name, _reduction(_name))
for _name in ("array", "bool", "complex", "float", "getitem", "index", "int", "iter", "len", "matmul", "rmatmul"):
    setattr(Selected, f"__{_name}__", _of_array(f"__{_name}__"))


# -- equal masks


def _same(mask: Tracer, other: Tracer) -> bool:
    """Are two masks one value, or computed in the same way from the same values?"""
    if mask.owner is not other.owner or mask.atom is None:
        return mask is other
    return _equal(mask.owner.equations, mask.atom, other.atom, _DEEPEST)


def _equal(equations: list[Equation], x: Any, y: Any, depth: int) -> bool:
    if x is y:
        return True
    if type(x) is Literal and type(y) is Literal:
        return x.aval == y.aval and bool(same.same_key(x.value) == same.same_key(y.value))
    if type(x) is not Var or type(y) is not Var or x.aval != y.aval or depth == 0:
        return False
    found = [next((e for e in reversed(equations) if operator.contains(e.outputs, v)), None) for v in (x, y)]
    if found[0] is None or found[1] is None:
        return False
    a, b = found
    key = params_key(a.params)
    return (
        a.primitive is b.primitive
        and not a.primitive.effect
        and a.outputs.index(x) == b.outputs.index(y)
        and key is not None
        and key == params_key(b.params)
        and len(a.inputs) == len(b.inputs)
        and all([_equal(equations, u, v, depth - 1) for u, v in zip(a.inputs, b.inputs)])
    )


to_close_up.add(Selected)
