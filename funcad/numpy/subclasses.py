"""A user's subclass of np.ndarray with traced elements: `x.view(Image)` of a traced x, with Image's methods and attributes.

Idea: an array subclass holds no traced values, so a class with the same methods stands for it: over `Viewed`, which holds the
traced array and hands ufuncs, functions, indices and methods on to it. What comes out gets the class as NumPy gives it, by
`__array_wrap__` and `__array_finalize__` of the operand with the highest `__array_priority__`; what has no axis is a number.
`__class__` is the user's class.

Invariant: classes of libraries, which read memory in compiled code or mean other things by their operators (np.matrix,
np.memmap), are refused by their name.
"""

from __future__ import annotations

import functools
import operator
import types
from abc import ABCMeta
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.tracer import Tracer
from funcad.memo import weak_table

# Functions and methods whose results are plain arrays and numbers, of subclasses too; all of numpy.fft's are
_PLAIN_RESULTS = frozenset(
    "append argmax argmin argwhere column_stack concat concatenate cond convolve copy corrcoef count_nonzero cov cross det "
    "digitize dstack eig eigh eigvals eigvalsh flatnonzero histogram histogram2d histogram_bin_edges histogramdd hstack interp "
    "intersect1d iscomplex isin item lexsort matrix_norm multi_dot nanargmax nanargmin nanpercentile nanquantile nonzero norm "
    "outer pad percentile poly polyder polydiv polyint polymul polyval quantile resize roots searchsorted select setxor1d sinc "
    "sort_complex stack svdvals tensordot tensorinv trace tril triu union1d unwrap vander vdot vector_norm vstack where".split()
)


def behind(x: Any) -> Any:
    """The traced array, of what stands for an object of a subclass; also in lists, tuples and dicts."""
    kind = type(x)
    if isinstance(kind, type) and issubclass(kind, Viewed):
        return x.array
    if kind not in (list, tuple, dict):
        return x
    parts = x.values() if kind is dict else x
    found = list(map(behind, parts))
    if all(map(operator.is_, found, parts)):
        return x
    return dict(zip(x, found)) if kind is dict else kind(found)


class Viewed:
    """What stands for an object of a subclass; `standing_for` makes its classes."""

    array: Any  # which is traced
    stands_for: type = np.ndarray

    __array_priority__ = 0.0

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self).stands_for

    def __array_finalize__(self, template: Any) -> None:
        pass

    def __array_wrap__(
        self, array: Any, context: Any = None, return_scalar: bool = False
    ) -> Any:
        return made(type(self), array, self)

    def _wrapped(self, out: Any, context: Any = None) -> Any:
        if type(out) in (tuple, list):
            return type(out)([self._wrapped(o) for o in out])
        return (
            self.__array_wrap__(out, context)
            if type(out) is Tracer and out.ndim
            else out
        )

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any
    ) -> Any:
        targets = kwargs.pop("out", ())
        if targets:
            kwargs["out"] = behind(targets)
        out = getattr(ufunc, method)(*behind(inputs), **behind(kwargs))
        if targets:
            return targets[0] if len(targets) == 1 else targets
        return _leader(inputs)._wrapped(out, (ufunc, inputs, 0))

    def __array_function__(
        self, function: Any, types: Any, args: Any, kwargs: Any
    ) -> Any:
        out = function(*behind(args), **behind(kwargs))
        module = getattr(function, "__module__", "")
        return (
            out
            if function.__name__ in _PLAIN_RESULTS or module == "numpy.fft"
            else self._wrapped(out)
        )

    def __getitem__(self, index: Any) -> Any:
        return self._wrapped(self.array[behind(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.array[behind(index)] = behind(value)

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def view(self, *args: Any, **kwargs: Any) -> Any:
        out = self.array.view(*args, **kwargs)
        return made(type(out), out.array, self) if is_viewed(out) else out

    def __getattr__(self, name: str) -> Any:
        if (
            name == "array" or name[:2] == "__"
        ):  # not made yet; Python's own names stand in the class
            raise AttributeError(name)
        found = getattr(self.array, name)
        if name in ("shape", "dtype", "ndim", "size", "flags", "strides"):
            return found
        if not callable(found):
            return self._wrapped(found)
        return lambda *args, **kwargs: self._called(name, found, args, kwargs)

    def _called(self, name: str, method: Any, args: Any, kwargs: Any) -> Any:
        out = method(*behind(args), **behind(kwargs))
        return (
            out
            if name in _PLAIN_RESULTS and name != "copy"
            else self._wrapped(out)
        )

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("shape", "real", "imag", "flat"):
            setattr(self.array, name, behind(value))
        else:
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"{self.stands_for.__name__}({self.array!r})"

    __hash__ = None  # type: ignore[assignment]


def is_viewed(x: Any) -> bool:
    return issubclass(type(x), Viewed)


def _leader(inputs: Any) -> Any:
    """The operand whose class the result gets."""
    return max(filter(is_viewed, inputs), key=lambda x: x.__array_priority__)


def made(kind: Any, array: Any, template: Any) -> Any:
    """An object of a standing class, as NumPy makes one from a template."""
    new = object.__new__(kind)
    object.__setattr__(new, "array", array)
    new.__array_finalize__(template)
    return new


def _operators() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    binary = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "floordiv": np.floor_divide,
              "mod": np.remainder, "pow": np.power, "matmul": np.matmul, "and": np.bitwise_and, "or": np.bitwise_or,
              "xor": np.bitwise_xor}  # fmt: skip
    for name, ufunc in binary.items():
        found[f"__{name}__"] = lambda self, other, ufunc=ufunc: ufunc(
            self, other
        )
        found[f"__r{name}__"] = lambda self, other, ufunc=ufunc: ufunc(
            other, self
        )
        found[f"__i{name}__"] = lambda self, other, ufunc=ufunc: ufunc(
            self, other, out=(self,)
        )
    compared = {
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
        "eq": np.equal,
    }
    compared["ne"] = np.not_equal
    for name, ufunc in compared.items():
        found[f"__{name}__"] = lambda self, other, ufunc=ufunc: ufunc(
            self, other
        )
    for name, ufunc in {
        "neg": np.negative,
        "pos": np.positive,
        "abs": np.absolute,
        "invert": np.invert,
    }.items():
        found[f"__{name}__"] = lambda self, ufunc=ufunc: ufunc(self)
    for name in "len bool float int complex index contains array".split():
        found[f"__{name}__"] = (
            lambda self, *args, name=f"__{name}__", **kwargs: getattr(
                self.array, name
            )(*args, **kwargs)
        )
    return found


for _name, _operator in _operators().items():
    setattr(Viewed, _name, _operator)

_standing = weak_table(
    "numpy.subclasses",
    "user's subclass of np.ndarray: what stands for it",
    same=None,
)


def standing_for(kind: type) -> Any:
    """The class that stands for a user's subclass of np.ndarray; None for those of libraries."""
    if kind is np.ndarray:
        return Viewed
    if type(kind) not in (type, ABCMeta) or kind.__module__.partition(".")[0] == "numpy":
        return None
    found = _standing.get(kind)
    if found is None:
        bases = tuple(
            [
                standing_for(base) if issubclass(base, np.ndarray) else base
                for base in kind.__bases__
            ]
        )
        if None in bases:
            return None
        cell = types.CellType()  # where `super()` finds the class
        plain = {
            name: member
            for name, member in vars(kind).items()
            if name not in ("__dict__", "__weakref__", "__new__", "__slots__")
            and not is_a(member, types.MemberDescriptorType)
        }
        plain = {
            name: _with_cell(member, cell) for name, member in plain.items()
        }
        plain["stands_for"] = kind
        found = cell.cell_contents = _standing[kind] = type(kind)(
            kind.__name__, bases, plain
        )
    return found


def _with_cell(member: Any, cell: types.CellType) -> Any:
    """A method or property whose `super()` begins at the standing class."""
    if isinstance(member, (classmethod, staticmethod)):
        return type(member)(_with_cell(member.__func__, cell))
    if type(member) is property:
        return property(
            *[
                _with_cell(f, cell)
                for f in (member.fget, member.fset, member.fdel)
            ],
            doc=member.__doc__,
        )
    if (
        not is_a(member, types.FunctionType)
        or "__class__" not in member.__code__.co_freevars
    ):
        return member
    named = zip(member.__code__.co_freevars, member.__closure__ or ())
    cells = tuple(
        [cell if name == "__class__" else own for name, own in named]
    )
    new = types.FunctionType(
        member.__code__,
        member.__globals__,
        member.__name__,
        member.__defaults__,
        cells,
    )
    new.__kwdefaults__ = member.__kwdefaults__
    return functools.update_wrapper(new, member)
