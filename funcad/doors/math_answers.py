"""`math`, `cmath` and `statistics` on traced numbers: NumPy's functions, with Python's errors where the value is known.

A function that gives no float (`isnan`, `floor`) reads the value if there is one.
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sized
from typing import Any

import numpy as np

from funcad.doors.answers import Maker, ours
from funcad.doors.asking import holds_traced, is_tracing
from funcad.doors.codes import Answer
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import python_number
from funcad.primitives.conversion import convert
from funcad.primitives.python_numbers import checked, fsum_p

_DOUBLE, _COMPLEX = np.dtype(float), np.dtype(complex)


def _number(x: Any, name: str) -> Any:
    """x as the double that `math` would make of it, or the complex number of `cmath`."""
    if type(x) is not Tracer:
        return x
    aval = x.aval
    dtype = _COMPLEX if name.startswith("cmath.") and not name.endswith(".rect") else _DOUBLE
    if aval.dtype.kind == "c" and dtype is _DOUBLE:
        raise TypeError(f"{name.rpartition('.')[2]}: must be real number, not complex")
    if aval.shape:
        (float if dtype is _DOUBLE else complex)(
            np.ones(aval.shape)
        )  # raises what NumPy says of such an array
        x = np.reshape(x, ())
    return x if aval.dtype == dtype else convert(x, dtype)


def _as_python(x: Any) -> Any:
    """A result as Python's numbers."""
    if type(x) is tuple:
        return tuple([_as_python(v) for v in x])
    return python_number(x)


def _checked(formula: Callable[..., Any]) -> Maker:
    """The formula of traced numbers; the original raises what it has to say about their values (python_numbers.py)."""

    def answer(name: str, original: Callable[..., Any]) -> Answer:
        def own(*args: Any) -> Any:
            numbers = [_number(x, name) for x in args]
            values = [concrete_value(x) for x in numbers]
            if Tracer not in map(type, values):
                original(*values)
                return _as_python(formula(*numbers))
            with np.errstate(all="ignore"):  # Python raises where NumPy would warn
                found = _as_python(formula(*numbers))
            return checked(found, *numbers, function=name) if type(found) is Tracer else found

        return holds_traced, own

    return answer


def _read(formula: Callable[..., Any], refuses: bool = False) -> Maker:
    """What has no derivative: the original of the values, or the formula where there are none.

    `refuses`: the original raises of some values, or gives what no program can (python_numbers.py).
    """

    def answer(name: str, original: Callable[..., Any]) -> Answer:
        def own(*args: Any, **kwargs: Any) -> Any:
            numbers = [_number(x, name) for x in args]
            values = [concrete_value(x) for x in numbers]
            if Tracer not in map(type, values):
                return original(*values, **kwargs)
            if not refuses:
                return _as_python(formula(*numbers, **kwargs))
            with np.errstate(all="ignore"):
                return _as_python(checked(formula(*numbers), *numbers, function=name))

        return holds_traced, own

    return answer


def _of_sequences(formula: Callable[..., Any]) -> Maker:
    """The formula of arrays of doubles, which are what `math` makes of a sequence's numbers."""

    def answer(name: str, original: Callable[..., Any]) -> Answer:
        def own(*args: Any) -> Any:
            return _as_python(
                formula(
                    *[
                        ours("numpy.array")([_number(x, name) for x in a], dtype=float)
                        for a in args
                    ]
                )
            )

        return holds_traced, own

    return answer


def _multiplied(name: str, original: Callable[..., Any]) -> Answer:
    """`math.prod`: the operator, one number after the other."""
    return holds_traced, lambda xs, /, *, start=1: functools.reduce(operator.mul, xs, start)


def _whole(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: f(x).astype(int)


def _special(name: str) -> Callable[..., Any]:
    return lambda x: ours(f"scipy.special.{name}")(x)


def _log(x: Any, base: Any = None) -> Any:
    return np.log(x) if base is None else np.log(x) / np.log(base)


def _close(a: Any, b: Any, *, rel_tol: float = 1e-09, abs_tol: float = 0.0) -> Any:
    near = np.abs(a - b) <= np.maximum(rel_tol * np.maximum(np.abs(a), np.abs(b)), abs_tol)
    return np.where(np.isinf(a) | np.isinf(b), a == b, near)


# name in math -> how it is computed
_SAME = "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees exp exp2 expm1 fabs fmod frexp ldexp log10 log1p"
_SAME += " log2 modf nextafter pow radians sin sinh sqrt tan tanh"
MATH: dict[str, Maker] = {
    **{name: _checked(getattr(np, name)) for name in _SAME.split() if hasattr(np, name)},
    "log": _checked(_log),
    "hypot": _checked(
        lambda *xs: functools.reduce(np.hypot, xs) if len(xs) > 1 else np.abs(*xs)
    ),
    "remainder": _checked(lambda x, y: x - y * np.rint(x / y)),
    "fma": _checked(lambda x, y, z: x * y + z),
    "erf": _checked(_special("erf")),
    "erfc": _checked(_special("erfc")),
    "gamma": _checked(_special("gamma")),
    "lgamma": _checked(
        lambda x: np.where(np.isneginf(x), np.inf, ours("scipy.special.gammaln")(x))
    ),  # SciPy's is -inf
    "isfinite": _read(np.isfinite),
    "isinf": _read(np.isinf),
    "isnan": _read(np.isnan),
    "isclose": _read(_close),
    "floor": _read(_whole(np.floor), refuses=True),
    "ceil": _read(_whole(np.ceil), refuses=True),
    "trunc": _read(_whole(np.trunc), refuses=True),
    "ulp": _read(lambda x: np.nextafter(np.abs(x), np.inf) - np.abs(x)),
    "fsum": _of_sequences(fsum_p),
    "prod": _multiplied,
    "sumprod": _of_sequences(np.dot),
    "dist": _of_sequences(lambda p, q: np.sqrt(np.sum((p - q) ** 2))),
}
CMATH: dict[str, Maker] = {
    **{name: _checked(getattr(np, name)) for name in _SAME.split() if hasattr(np, name)},
    "log": _checked(_log),
    "phase": _checked(np.angle),
    "polar": _checked(lambda z: (np.abs(z), np.angle(z))),
    "rect": _checked(lambda r, phi: r * (np.cos(phi) + 1j * np.sin(phi))),
    "isfinite": _read(np.isfinite),
    "isinf": _read(np.isinf),
    "isnan": _read(np.isnan),
    "isclose": _read(_close),
}


def _mean(xs: Any, weights: Any = None) -> Any:
    return fsum_p(xs) / len(xs) if weights is None else fsum_p(xs * weights) / fsum_p(weights)


def _spread(count: int, root: bool = False) -> Callable[..., Any]:
    """Variance, or its root, by sums that are exact; `count` is taken off the number of values."""

    def formula(xs: Any, center: Any = None) -> Any:
        found = fsum_p((xs - (_mean(xs) if center is None else center)) ** 2) / (
            len(xs) - count
        )
        return np.sqrt(found) if root else found

    return formula


def _products(xs: Any, ys: Any) -> Any:
    return fsum_p((xs - _mean(xs)) * (ys - _mean(ys)))


def _correlation(xs: Any, ys: Any, *, method: str = "linear") -> Any:
    if method == "ranked":
        xs, ys = [
            np.sum(v[:, None] > v, axis=1) + 0.5 * np.sum(v[:, None] == v, axis=1)
            for v in (xs, ys)
        ]
    return _products(xs, ys) / np.sqrt(_products(xs, xs) * _products(ys, ys))


def _line(xs: Any, ys: Any, *, proportional: bool = False) -> tuple:
    slope = (
        fsum_p(xs * ys) / fsum_p(xs * xs)
        if proportional
        else _products(xs, ys) / _products(xs, xs)
    )
    return slope, 0.0 if proportional else _mean(ys) - slope * _mean(xs)


STATISTICS: dict[
    str, Callable[..., Any]
] = {  # the others are Python that runs on traced numbers
    "mean": _mean,
    "fmean": _mean,
    "geometric_mean": lambda xs: np.exp(_mean(np.log(xs))),
    "harmonic_mean": lambda xs, weights=None: 1 / _mean(1 / xs, weights),
    "variance": _spread(1),
    "pvariance": _spread(0),
    "stdev": _spread(1, True),
    "pstdev": _spread(0, True),
    "covariance": lambda xs, ys: _products(xs, ys) / (len(xs) - 1),
    "correlation": _correlation,
    "linear_regression": _line,
}


def _is_several(x: Any) -> bool:
    return bool(x.aval.shape) if type(x) is Tracer else is_a(x, Sized) and type(x) is not str


def _row(x: Any) -> Any:
    """A sequence of numbers as an array of doubles; anything else is itself."""
    return (
        ours("numpy.array")([_number(v, "math.") for v in x], dtype=float)
        if _is_several(x)
        else x
    )


def _plain(x: Any, row: Any) -> Any:
    """The same numbers without tracers, of the same types; others in their place where they are not known."""
    value = concrete_value(row)
    if not (_is_several(x) or type(x) is Tracer):
        return x
    numbers = range(1, np.size(row) + 1) if type(value) is Tracer else np.ravel(value)
    plain = [
        float(v)
        if (t.aval.weak if type(t) is Tracer else not is_a(t, np.generic))
        else np.float64(v)
        for t, v in zip(x if _is_several(x) else [x], numbers)
    ]
    return plain if _is_several(x) else plain[0]


def _mean_of_integers(original: Callable[..., Any], x: Any) -> Any:
    """Of Python's an int where it is whole, which is asked; of NumPy's what is cut to their type. None: there are others."""
    avals = [aval_of(v) for v in (x if _is_several(x) else ())]
    strong = {a.dtype for a in avals if not a.weak}
    if not avals or len(strong) > 1 or not all([a.dtype.kind in ("iu" if not a.weak else "bi") for a in avals]):
        return None
    n = len(avals)
    total = sum([v if a.weak else convert(v, np.dtype(np.int64)) for v, a in zip(x, avals)])
    if strong:
        dtype = strong.pop()
        cut = type(original([dtype.type(1), dtype.type(2)])) is dtype.type
        return convert(np.sign(total) * (np.abs(total) // n), dtype) if cut else None
    return total // n if total % n == 0 else total / n


def in_statistics(name: str, original: Callable[..., Any]) -> Answer:
    """Of `statistics`, which computes with fractions: formulas with exact sums, some ulps from it."""
    formula, signature = STATISTICS[name.rpartition(".")[2]], inspect.signature(original)

    def own(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        args = tuple([list(a) if is_a(a, Iterator) else a for a in given.args])
        if not holds_traced(args, {}):
            return original(*args, **given.kwargs)
        found = _mean_of_integers(original, *args) if name == "statistics.mean" else None
        if found is not None:
            return found
        rows = [_row(a) for a in args]
        found = original(
            *map(_plain, args, rows), **given.kwargs
        )  # raises what it has to say; of which type is its result?
        traced = formula(*rows, **given.kwargs)
        if type(found[0] if is_a(found, tuple) else found) is float:
            traced = _as_python(traced)
        return found._make(traced) if is_a(found, tuple) else traced

    return lambda args, kwargs: is_tracing(), own


def in_math(name: str, original: Callable[..., Any]) -> Answer:
    """Of a name of `math` or `cmath`; what this version of NumPy lacks is Python's own."""
    module, _, function = name.partition(".")
    maker = (MATH if module == "math" else CMATH).get(function)
    return (lambda args, kwargs: False, original) if maker is None else maker(name, original)
