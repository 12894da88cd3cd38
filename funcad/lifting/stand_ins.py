"""What stands in, in lifted code, for makers of arrays, for Python's number types, and for helpers that look at memory.

Idea: `np.zeros(n)` in lifted code gives an array that takes traced values when it is written. `float(x)` of a traced x is x;
`float` stays a class, equal to Python's, of which Python's floats are instances, so that `isinstance` and `dtype=float` hold.
SciPy's helpers that pick elements by a mask and put them back are told elementwise: of a mask without a value nobody knows how
many elements it picks, and an unselected branch reaches no derivative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import is_internal
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import is_traced
from funcad.writes.plain import PLAIN, buffer, lent

# -- numbers and types


class _Kind(type):
    """A class that stands for another one: it is equal to it, has its instances, and is called for it."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.stands_for)  # type: ignore[attr-defined]

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.stands_for)  # type: ignore[attr-defined]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) is Tracer:
            return cls.of_traced(args[0])  # type: ignore[attr-defined]
        return cls.stands_for(*args, **kwargs)  # type: ignore[attr-defined]

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.stands_for  # type: ignore[attr-defined]

    def __hash__(cls) -> int:
        return hash(cls.stands_for)  # type: ignore[attr-defined]

    def __getattr__(cls, name: str) -> Any:
        return getattr(type.__getattribute__(cls, "stands_for"), name)


def mark_kind(kind: type, of_traced: Callable[[Any], Any], **more: Any) -> Any:
    return _Kind(kind.__name__, (), {"stands_for": kind, "of_traced": staticmethod(of_traced), **more})


def _as_number(kind: type) -> Callable[[Any], Any]:
    dtype = np.dtype(kind)

    def of_traced(x: Any) -> Any:
        if x.size != 1 or dtype.kind == "f" and x.dtype.kind == "c":
            return kind(x)  # which raises
        x = x.reshape(()) if x.ndim else x
        return x if x.dtype == dtype else x.astype(dtype)

    return of_traced


NUMBERS: dict[str, Any] = {
    **{kind.__name__: mark_kind(kind, _as_number(kind), dtype=np.dtype(kind)) for kind in (float, complex)},
    "type": mark_kind(type, lambda x: x.__class__),
}

# -- makers


_FILLS = {"zeros": 0, "zeros_like": 0, "empty": 0, "empty_like": 0, "ones": 1, "ones_like": 1}
_MAKERS = {*_FILLS, "full", "full_like", "array", "copy", "eye", "identity"}


def MAKERS(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:  # noqa: N802
    """The rule of NumPy's function of that name; what it makes anew takes traced values when it is written."""
    if name == "broadcast_arrays":
        return lambda *args, **kwargs: type(out := rule(*args, **kwargs))(map(lent, out)) if is_traced(args) else rule(*args)
    if name not in _MAKERS:
        return rule
    fill, empty = _FILLS.get(name), name.startswith("empty")

    def make(*args: Any, **kwargs: Any) -> Any:
        out = rule(*args, **kwargs)
        if type(out) is not np.ndarray or out.dtype.kind not in "fc" or kwargs.get("copy", True) is not True:
            return out
        if empty:
            out[...] = 0
        return buffer(out, fill)

    make.__name__ = name
    return make


def array_behind(x: Any) -> Any:
    """The array, of one that was made here and has nothing traced in it; everything else as it is."""
    return PLAIN.value(x) if type(x) is Tracer and x.owner is PLAIN else x


# -- helpers


def quietly(f: Callable[..., Any], *args: Any) -> Any:
    """The function's value, without NumPy's warnings of elements that are not selected."""
    token = suppress_warnings()
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    finally:
        restore_warnings(token)


def _apply_where(
    cond: Any, args: Any, f1: Any, f2: Any = None, /, *, fill_value: Any = None, xp: Any = None, **options: Any
) -> Any:
    """`xpx.apply_where`: both functions of all elements, and the selection of their results."""
    operands = args if isinstance(args, tuple) else (args,)
    if not is_traced(operands) and not is_traced((cond,)):  # a closure may hold what is traced
        held = np.broadcast_arrays(cond, *operands)
        if held[0].all() and held[0].size:
            return f1(*held[1:])
        if not held[0].any() and f2 is not None and held[0].size:
            return f2(*held[1:])
    fnp = Tracer.namespace.numpy
    cond, *operands = fnp.broadcast_arrays(cond, *operands)
    first = of_elements(f1, operands)
    other = fill_value if f2 is None else of_elements(f2, operands)
    return fnp.where(cond, first, other)


def of_elements(f: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """f of arrays that have an axis at least, as those are that a mask picks."""
    out = quietly(f, *[x if np.ndim(x) else np.reshape(x, (1,)) for x in operands])
    return out if np.ndim(operands[0]) or not np.ndim(out) else np.reshape(out, ())


def _lazyselect(condlist: Sequence[Any], choicelist: Sequence[Any], arrays: Any, default: Any = 0) -> Any:
    """`_lazyselect`: of conditions that overlap the last one holds."""
    fnp = Tracer.namespace.numpy
    arrays = fnp.broadcast_arrays(*arrays)
    out = fnp.full(np.shape(arrays[0]), default, dtype=np.result_type(*arrays, np.float32))
    for cond, f in zip(condlist, choicelist):
        out = fnp.where(cond, of_elements(f, arrays), out)
    return out


class _At:
    """`xpx.at(x, i).set(y)`: gives a new array, whatever x is."""

    def __init__(self, x: Any, index: Any = None, /):
        self.x, self.index = x, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self.x, index)

    def set(self, y: Any, /, copy: Any = None, xp: Any = None) -> Any:
        fnp = Tracer.namespace.numpy
        if is_traced((self.x, self.index, y)):
            return fnp.at(fnp.asarray(self.x))[self.index].set(y)
        out = np.array(self.x)
        out[self.index] = y
        return out

    def _updated(ufunc: np.ufunc) -> Callable[..., Any]:  # type: ignore[misc]
        def update(self: _At, y: Any, /, copy: Any = None, xp: Any = None) -> Any:
            return self.set(ufunc(Tracer.namespace.numpy.asarray(self.x)[self.index], y))

        return update

    add, subtract, multiply = _updated(np.add), _updated(np.subtract), _updated(np.multiply)
    divide, power, min, max = _updated(np.divide), _updated(np.power), _updated(np.minimum), _updated(np.maximum)


def _trimseq(seq: Any) -> Any:
    """`trimseq` of polynomials: of traced coefficients none goes, since one that is zero now has a derivative all the same."""
    if type(seq) is Tracer or not len(seq):
        return seq
    return seq[: max(np.flatnonzero(seq), default=0) + 1]


# name -> where the library has it, and what stands in
HELPERS: dict[str, tuple[str, Any]] = {
    "apply_where": ("scipy._", _apply_where),
    "_lazyselect": ("scipy._", _lazyselect),
    "at": ("scipy._", _At),
    "trimseq": ("numpy.polynomial.", _trimseq),
}
