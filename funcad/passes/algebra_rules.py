"""The rules of algebra: pairs of functions that are equal, bit for bit or (`exact=False`) for real numbers.

A rule's variables have the shapes and dtypes of the place where it applies; one called `c` is a bool. Numbers are Python
scalars: they match literals of the same value in any dtype, and 0.0 is not -0.0. Operands of commutative operations match both
ways around. `kinds` are the dtype kinds for which the rule holds; `verify` checks that it does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from funcad.primitives.arithmetic import (
    abs_,
    add,
    div,
    integer_pow,
    mul,
    mul_add_p,
    neg,
    reciprocal,
    sqrt,
    square,
    sub,
)
from funcad.primitives.comparison import (
    and_,
    logical_and,
    logical_not,
    logical_or,
    not_,
    or_,
    select,
)
from funcad.primitives.conversion import conj, imag, make_complex, real, stop_gradient
from funcad.primitives.extrema import maximum, minimum
from funcad.primitives.powers import pow_p
from funcad.primitives.transcendental import exp, log, logistic

__all__ = ["RULES", "Rule", "names_of", "same_values", "special_values"]


class Rule(NamedTuple):
    """`lhs(*values)` may be replaced by `rhs(*values)` for values of these dtype kinds.

    `ulps`: how far NumPy's own results for equal numbers lie apart, because its vectors and its single steps round differently
    and which of them it takes depends on the strides, the alignment and the processor. No rule can be closer than that.
    """

    name: str
    lhs: Callable[..., Any]
    rhs: Callable[..., Any]
    kinds: str = "f"
    exact: bool = True
    ulps: int = 0

    def verify(self) -> int:
        """Evaluate both sides over special values of every dtype; AssertionError where they differ. How many were compared."""
        compared = 0
        for dtype in [d for k in self.kinds for d in _DTYPES[k]]:
            for values in self._samples(dtype):
                with np.errstate(all="ignore"):
                    found, expected = np.asarray(self.rhs(*values)), np.asarray(self.lhs(*values))
                if found.dtype != expected.dtype:  # then the pass does not apply it
                    continue
                found = np.broadcast_to(found, expected.shape)
                equal = same_values(found, expected, self.ulps) if self.exact else _near(found, expected)
                assert equal, (self.name, dtype, values)
                compared += found.size
        assert compared, f"{self.name}: nothing to compare"
        return compared

    def _samples(self, dtype: Any) -> Iterator[list[Any]]:
        """Arrays of all combinations of special values, and the same as scalars."""
        names = names_of(self.lhs)
        special = special_values(dtype) if self.exact else ordinary_values(dtype)
        columns = [np.array([False, True]) if n == "c" else special for n in names]
        grid = [a.ravel() for a in np.meshgrid(*columns, indexing="ij")]
        yield grid
        yield [np.ascontiguousarray(a[::-1])[::-1] for a in grid]
        for i in range(0, grid[0].size, max(grid[0].size // 64, 1)):
            yield [a[i] for a in grid]


def names_of(f: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a plain function's parameters."""
    return f.__code__.co_varnames[: f.__code__.co_argcount]


_DTYPES: dict[str, list[Any]] = {
    "b": [np.bool_],
    "i": [np.int8, np.int16, np.int32, np.int64],
    "u": [np.uint8, np.uint16, np.uint32, np.uint64],
    "f": [np.float16, np.float32, np.float64, np.longdouble],
    "c": [np.complex64, np.complex128],
}


def special_values(dtype: Any) -> np.ndarray:
    """Zeros of both signs, ones, infinities, NaN, the smallest and the largest numbers, and a few ordinary ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1] + [-1, -2] * (dtype.kind == "i"), dtype)
    parts = np.dtype(dtype.type(0).real.dtype)
    limits = np.finfo(parts)
    ordinary = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.1, 3.3, np.inf, -np.inf, np.nan]
    extreme = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal, limits.eps]
    real = np.array(ordinary, parts)
    real = np.concatenate([real, np.array(extreme, parts)])
    if dtype.kind == "f":
        return real
    few = real[[0, 1, 2, 6, 8, 10, 11]]
    pairs = list(product(few, few))
    out = np.empty(len(pairs), dtype)
    out.real, out.imag = [a for a, _ in pairs], [b for _, b in pairs]
    return out


def ordinary_values(dtype: Any) -> np.ndarray:
    """Positive numbers, far from overflow."""
    return np.array([0.3, 0.7, 1.0, 1.9, 2.5], dtype)


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def same_values(a: np.ndarray, b: np.ndarray, ulps: int = 0) -> bool:
    """The same bits; any NaN is as good as another. `ulps` more for finite numbers that are not zero."""
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    for x, y in zip(_parts(a), _parts(b)):
        equal = (x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
        if ulps:
            rounded = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
            with np.errstate(invalid="ignore", over="ignore"):
                equal |= rounded & (np.abs(x - y) <= ulps * np.spacing(np.abs(y)))
        if not equal.all():
            return False
    return True


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    limit = 64 * np.finfo(b.dtype).eps
    return bool((np.abs(a - b) <= limit * np.maximum(np.abs(b), 1)).all())


RULES = (
    # neutral elements
    Rule("x * 1", lambda x: mul(x, 1), lambda x: x, "iuf"),
    Rule("x / 1", lambda x: div(x, 1), lambda x: x),
    Rule("x - 0", lambda x: sub(x, 0), lambda x: x, "iufc"),
    Rule("x + 0 of integers", lambda x: add(x, 0), lambda x: x, "iu"),
    Rule("x + -0.0", lambda x: add(x, -0.0), lambda x: x),
    Rule("x ** 1", lambda x: integer_pow(x, 1), lambda x: x, "iuf"),
    # signs
    Rule("-(-x)", lambda x: neg(neg(x)), lambda x: x, "iufc"),
    Rule("x - (-y)", lambda x, y: sub(x, neg(y)), lambda x, y: add(x, y), "iufc"),
    Rule("x + (-y)", lambda x, y: add(x, neg(y)), lambda x, y: sub(x, y), "iufc"),
    Rule("(-x) * (-y)", lambda x, y: mul(neg(x), neg(y)), mul, "iuf"),
    Rule("(-x) / (-y)", lambda x, y: div(neg(x), neg(y)), div),
    Rule("x * -1", lambda x: mul(x, -1), neg, "if"),
    Rule("|-x|", lambda x: abs_(neg(x)), abs_, "if"),
    Rule("|-z|", lambda z: abs_(neg(z)), abs_, "c", ulps=2),
    Rule("||x||", lambda x: abs_(abs_(x)), abs_, "iuf"),
    # powers that NumPy computes by products
    Rule("square(x)", square, lambda x: mul(x, x), "iuf"),
    Rule("x ** 2", lambda x: integer_pow(x, 2), lambda x: mul(x, x), "iufc"),
    Rule("x ** 3 of integers", lambda x: integer_pow(x, 3), lambda x: mul(mul(x, x), x), "iu"),
    # equal operands
    Rule("maximum(x, x)", lambda x: maximum(x, x), lambda x: x, "biuf"),
    Rule("minimum(x, x)", lambda x: minimum(x, x), lambda x: x, "biuf"),
    Rule("x & x", lambda x: and_(x, x), lambda x: x, "biu"),
    Rule("x | x", lambda x: or_(x, x), lambda x: x, "biu"),
    Rule("c and c", lambda c: logical_and(c, c), lambda c: c, "b"),
    Rule("c or c", lambda c: logical_or(c, c), lambda c: c, "b"),
    Rule("select(c, x, x)", lambda c, x: select(c, x, x), lambda c, x: x, "biufc"),
    # choices
    Rule("not not c", lambda c: logical_not(logical_not(c)), lambda c: c, "b"),
    Rule("~~x", lambda x: not_(not_(x)), lambda x: x, "biu"),
    Rule("select(not c)", lambda c, x, y: select(logical_not(c), x, y), lambda c, x, y: select(c, y, x), "biufc"),
    Rule("select(~c)", lambda c, x, y: select(not_(c), x, y), lambda c, x, y: select(c, y, x), "biufc"),
    Rule("select(c, x, select(c, y, z))", lambda c, x, y, z: select(c, x, select(c, y, z)),
         lambda c, x, y, z: select(c, x, z), "biuf"),
    Rule("select(c, select(c, x, y), z)", lambda c, x, y, z: select(c, select(c, x, y), z),
         lambda c, x, y, z: select(c, x, z), "biuf"),
    # parts of complex numbers
    Rule("real(complex)", lambda x, y: real(make_complex(x, y)), lambda x, y: x),
    Rule("imag(complex)", lambda x, y: imag(make_complex(x, y)), lambda x, y: y),
    Rule("conj(conj(x))", lambda x: conj(conj(x)), lambda x: x, "c"),
    # nothing differentiates any more
    Rule("stop_gradient(x)", lambda x: stop_gradient(x), lambda x: x, "biufc"),
    # of real numbers only
    Rule("x + 0", lambda x: add(x, 0), lambda x: x, exact=False),
    Rule("x * 0", lambda x: mul(x, 0), lambda x: 0.0, exact=False),
    Rule("0 / x", lambda x: div(0.0, x), lambda x: 0.0, exact=False),
    Rule("0 - x", lambda x: sub(0, x), neg, exact=False),
    Rule("x - x", lambda x: sub(x, x), lambda x: 0.0, exact=False),
    Rule("x / x", lambda x: div(x, x), lambda x: 1.0, exact=False),
    Rule("-(x - y)", lambda x, y: neg(sub(x, y)), lambda x, y: sub(y, x), exact=False),
    Rule("log(exp(x))", lambda x: log(exp(x)), lambda x: x, exact=False),
    Rule("exp(log(x))", lambda x: exp(log(x)), lambda x: x, exact=False),
    Rule("exp(x) * exp(y)", lambda x, y: mul(exp(x), exp(y)), lambda x, y: exp(add(x, y)), exact=False),
    Rule("sqrt(x * x)", lambda x: sqrt(mul(x, x)), abs_, exact=False),
    Rule("sqrt(x) * sqrt(x)", lambda x: mul(sqrt(x), sqrt(x)), lambda x: x, exact=False),
    Rule("1 / (1 + exp(-x))", lambda x: div(1, add(1, exp(neg(x)))), logistic, exact=False),
    Rule("1 / (1 / x)", lambda x: div(1, div(1, x)), lambda x: x, exact=False),
    Rule("x * reciprocal(y)", lambda x, y: mul(x, reciprocal(y)), div, exact=False),
    Rule("x ** 0.5", lambda x: pow_p(x, 0.5), sqrt, exact=False),
    Rule("x ** 3", lambda x: integer_pow(x, 3), lambda x: mul(mul(x, x), x), exact=False),
    Rule("x ** 4", lambda x: integer_pow(x, 4), lambda x: mul(mul(x, x), mul(x, x)), exact=False),
    Rule("x ** -1", lambda x: integer_pow(x, -1), lambda x: div(1.0, x), exact=False),
    Rule("x ** -2", lambda x: integer_pow(x, -2), lambda x: div(1.0, mul(x, x)), exact=False),
    Rule("a * 0 + b * y", lambda a, b, y: mul_add_p(a, 0, b, y), lambda a, b, y: mul(b, y), exact=False),
)  # fmt: skip
