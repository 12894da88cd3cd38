"""Abstract values: what is known of an array before it has a value.

`Aval(shape, dtype, weak)`. `weak` marks Python scalars, which follow NumPy's rule (NEP 50): they adapt to the dtype of what
they meet. `LiteralAval` is the aval of a constant written into an equation: the only rank-0 operand that may stand beside
shaped ones, because variables must match exactly (a rank-0 variable beside a shaped operand once gave a cotangent of the
wrong shape, silently). `StackAval(element)` is the opaque run-time list that reverse mode of `while_loop` fills and drains.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from funcad.host.conversions import conversion_of, means_other, no_aval
from funcad.host.real_types import KINDS, NUMBERS, dtype_kind, is_a, native_dtype, seen

if TYPE_CHECKING:
    from funcad.host.devices import DeviceArray
    from funcad.host.where import Source
    from funcad.ir.jaxpr import Literal, Var
    from funcad.ir.tracer import Tracer


# -- the words that types are said in, in ir/ and above
#
# `Value` is what a program computes with: an array of NumPy's or of a device, a number, a traced value, a loop's stack.
# `Tangent` and `Cotangent` are values, or None for zero. An `Atom` stands for a value in an equation. `Any` is left where no
# word fits: for `bind`, which gives one value or a list of them as the primitive has it, and for what a table holds that is
# everybody's.


Number: TypeAlias = "bool | int | float | complex | np.generic"
Value: TypeAlias = "np.ndarray | DeviceArray | Number | Tracer | Stack"
Tangent: TypeAlias = "Value | None"
Cotangent: TypeAlias = "Value | None"
AnyAval: TypeAlias = "Aval | StackAval"
Atom: TypeAlias = "Var | Literal"
Params: TypeAlias = dict[str, Any]  # of an equation: each primitive has its own
Location: TypeAlias = "Source | None"  # of an equation, where the user wrote it


# -- abstract values


_FLOAT64 = np.dtype(np.float64)
FLOAT0 = np.dtype([("float0", np.void, 0)])  # of the tangents of integers and bools at the borders: passes through, as data
_SHORT = {"b": "bool", "V": "float0", "i": "i", "u": "u", "f": "f", "c": "c"}


class Aval:
    """Shape, dtype and weakness of an array; immutable, hashable."""

    __slots__ = ("shape", "dtype", "weak")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, weak: bool = False):
        self.shape = shape
        self.dtype = dtype
        self.weak = weak

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for n in self.shape:
            size *= n
        return size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Aval)
            and self.shape == other.shape
            and self.dtype == other.dtype
            and self.weak == other.weak
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak))

    @property
    def short(self) -> str:
        """As programs are printed: `f64[3]`, `i64*[]`."""
        kind, dtype = dtype_kind(self.dtype), self.dtype
        name = _SHORT[kind] if kind in "bV" else f"{_SHORT[kind]}{dtype.itemsize * 8}"
        if dtype.num > 255:  # bf16, f8_e4m3fn
            name = dtype.name.replace("float", "f", 1)
        return f"{name}{'*' if self.weak else ''}[{','.join(map(str, self.shape))}]"

    def __str__(self) -> str:
        kind = dtype_kind(self.dtype)
        name = "float0" if kind == "V" else self.dtype.name.rstrip("0123456789") if self.weak else self.dtype.name
        return f"{name} array of shape {self.shape}" if self.shape else name if self.weak or kind == "b" else f"{name} scalar"

    def __format__(self, article: str) -> str:
        """`f"{aval:a}"` has an article: "an int64 array of shape (3,)"."""
        return f"{'an' if article and self.dtype.kind == 'i' else article} {self!s}".lstrip()

    def __repr__(self) -> str:
        return f"Aval({self.short})"

    def update(self, shape: tuple[int, ...] | None = None, dtype: np.dtype | None = None, weak: bool = False) -> Aval:
        """A strong copy with another shape or dtype."""
        return Aval(self.shape if shape is None else shape, self.dtype if dtype is None else dtype, weak)

    def unbatched(self) -> Aval:
        return Aval(self.shape[1:], self.dtype)

    def batched(self, size: int) -> Aval:
        return Aval((size, *self.shape), self.dtype)


class LiteralAval(Aval):
    """The aval of a constant inside an equation."""

    __slots__ = ()


def strip_literal(aval: AnyAval) -> AnyAval:
    """The aval of a variable (never a LiteralAval)."""
    return Aval(aval.shape, aval.dtype, aval.weak) if type(aval) is LiteralAval else aval


class StackAval:
    """A run-time list of values of one aval, `element`: one per executed iteration of a loop of unknown length.

    An empty list stands for zeros of any length: a cotangent that nobody contributed to, a branch that was not taken.
    """

    __slots__ = ("element",)

    def __init__(self, element: AnyAval):
        self.element = element

    shape = ()
    dtype = np.dtype(bool)  # carries no derivative of its own accord: only loops differentiate their stacks
    weak = False
    ndim = 0
    size = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StackAval) and self.element == other.element

    def __hash__(self) -> int:
        return hash((StackAval, self.element))

    @property
    def short(self) -> str:
        return f"stack[{self.element.short}]"

    def __str__(self) -> str:
        return f"stack of {self.element} for each turn"

    def __format__(self, article: str) -> str:
        return f"{article} {self!s}".lstrip()

    def __repr__(self) -> str:
        return self.short

    def update(self) -> StackAval:
        return self  # never weak

    def unbatched(self) -> StackAval:
        return StackAval(self.element.unbatched())

    def batched(self, size: int) -> StackAval:
        return StackAval(self.element.batched(size))


_INT64 = np.dtype(np.int64)
SCALAR_AVALS: dict[type, Aval] = {
    bool: LiteralAval((), np.dtype(bool), True),
    int: LiteralAval((), np.dtype(int), True),
    float: LiteralAval((), np.dtype(float), True),
    complex: LiteralAval((), np.dtype(complex), True),
}
for _kind in "?bhilqBHILQefdgFDG":
    SCALAR_AVALS[np.dtype(_kind).type] = LiteralAval((), np.dtype(_kind))


seen.append(lambda dtype: SCALAR_AVALS.update({dtype.type: LiteralAval((), dtype)}))


class Stack(list[Any]):
    """The run-time value of a `StackAval`; `packed`: the same entries as one array, if whoever filled it had them so."""

    __slots__ = ("aval", "packed")

    def __init__(self, items: Iterable[Value], aval: StackAval, packed: np.ndarray | None = None):
        super().__init__(items)
        self.aval = aval
        self.packed = packed


def _is_known(dtype: np.dtype) -> bool:
    return dtype_kind(dtype) in KINDS or dtype == FLOAT0


TRACERS: set[type] = set()  # Tracer, which tracer.py puts there: it stands above this file


def aval_of(x: Any) -> AnyAval:
    """The aval of an array, a scalar or a tracer; TypeError for anything else."""
    kind = type(x)
    if kind is np.ndarray:
        dtype = x.dtype
        if dtype is _FLOAT64:
            return Aval(x.shape, dtype)
        if dtype.num not in NUMBERS and not _is_known(dtype):
            raise no_aval(x)
        return Aval(x.shape, dtype if dtype.isnative else dtype.newbyteorder("="))
    if kind in TRACERS:
        return x.aval
    aval = SCALAR_AVALS.get(kind)
    if aval is not None:
        if kind is int and not -(2**63) <= x < 2**63:
            raise OverflowError(f"Python integer {x} does not fit int64, the dtype that NumPy gives to Python integers")
        return aval
    aval = getattr(x, "aval", None)
    if isinstance(aval, (Aval, StackAval)) and hasattr(kind, "aval"):  # pint hands on what its magnitude has
        return aval
    if is_a(x, (bool, int, float, complex)) and not is_a(x, np.generic):
        return next(a for kind, a in SCALAR_AVALS.items() if isinstance(x, kind))
    shape, dtype = getattr(x, "shape", None), getattr(x, "dtype", None)
    if aval is None and type(shape) is tuple and isinstance(dtype, np.dtype) and _is_known(dtype):
        if is_labelled(kind) or not means_other(kind) and conversion_of(kind) is None:
            return SCALAR_AVALS.get(kind) or Aval(shape, dtype)  # which is_narrow has told of, if it is one's number
    raise no_aval(x)


def is_labelled(kind: type) -> bool:
    """Is it a class of pandas' that has labels? Its objects are operands, but no arguments."""
    return hasattr(kind, "__pandas_priority__") and kind not in TRACERS


def said(x: Any) -> str:
    """What a value is, in the words of errors: "the int 3", "a float64 array of shape (3,)", "a tuple of length 2"."""
    kind = type(x)
    if kind in (tuple, list):
        return f"a {kind.__name__} of length {len(x)}"
    if kind in SCALAR_AVALS or kind is str:
        return f"the {kind.__name__} {x if kind is not str else repr(x)[:40]}"
    try:
        return f"{aval_of(x):a}"
    except TypeError:
        return "None" if x is None else f"{'an' if kind.__name__[0] in 'aeiouAEIOU' else 'a'} {kind.__name__}"


def shape_of(x: Any) -> tuple[int, ...]:
    kind = type(x)
    if kind is np.ndarray:
        return x.shape
    if kind in TRACERS:
        return x.primal.shape if type(x.primal) is np.ndarray else x.aval.shape
    return () if kind in SCALAR_AVALS else aval_of(x).shape


def dtype_of(x: Any) -> np.dtype:
    if type(x) in TRACERS and type(x.primal) is np.ndarray:
        x = x.primal
    return native_dtype(x.dtype) if type(x) is np.ndarray else aval_of(x).dtype


def is_inexact(aval: AnyAval) -> bool:
    """Can a value of this aval carry a derivative (float or complex)?"""
    return aval.dtype.kind in "fc" or dtype_kind(aval.dtype) in "fc"
