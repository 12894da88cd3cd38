"""The native engine's own elementary functions: at most 2 ulp from the exact value everywhere, at special values as NumPy's.

The exact values are mpmath's, in 60 digits. Samples are random bit patterns (every magnitude), and points where functions are
hard: around 0 and 1 and every k pi/2, at the borders of the reduced intervals, where results underflow and overflow.
"""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
from funcad.backends.native import ir, target
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from tests.native_lanes import equation_of, kernel

pytest.importorskip("llvmlite")
mp = pytest.importorskip("mpmath", reason="the exact values that code is compared with are mpmath's: pip install mpmath")
if not target.available():
    pytest.skip(f"no native engine: {target.why_not()}", allow_module_level=True)


def _cbrt(x: Any) -> Any:
    return mp.cbrt(x) if x >= 0 else -mp.cbrt(-x)


def _erfc(x: Any) -> Any:
    return mp.erfc(x) if abs(x) < 1e3 else mp.mpf(0 if x > 0 else 2)


def _softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


UNARY: dict[str, tuple[Callable[[Any], Any], float, float]] = {  # exact function, and the open interval on which it is defined
    "exp": (mp.exp, -math.inf, math.inf),
    "exp2": (lambda x: mp.power(2, x), -math.inf, math.inf),
    "expm1": (mp.expm1, -math.inf, math.inf),
    "log": (mp.log, 0.0, math.inf),
    "log2": (lambda x: mp.log(x, 2), 0.0, math.inf),
    "log10": (mp.log10, 0.0, math.inf),
    "log1p": (mp.log1p, -1.0, math.inf),
    "sin": (mp.sin, -math.inf, math.inf),
    "cos": (mp.cos, -math.inf, math.inf),
    "tan": (mp.tan, -math.inf, math.inf),
    "sinh": (mp.sinh, -math.inf, math.inf),
    "cosh": (mp.cosh, -math.inf, math.inf),
    "tanh": (mp.tanh, -math.inf, math.inf),
    "arcsin": (mp.asin, -1.0, 1.0),
    "arccos": (mp.acos, -1.0, 1.0),
    "arctan": (mp.atan, -math.inf, math.inf),
    "arcsinh": (mp.asinh, -math.inf, math.inf),
    "arccosh": (mp.acosh, 1.0, math.inf),
    "arctanh": (mp.atanh, -1.0, 1.0),
    "cbrt": (_cbrt, -math.inf, math.inf),
    "erf": (mp.erf, -math.inf, math.inf),
    "erfc": (_erfc, -math.inf, math.inf),
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {"pow": mp.power, "arctan2": mp.atan2, "hypot": mp.hypot}
LANES = {"float64": 4, "float32": 8}
FUSED = Emitter(ir.Function(ir.Module(), "k", []), 2, target.host()).fused
BOUND = 1.5 if FUSED else 4.0  # 2 ulp are promised; without fused multiply-add it is the C library's own error
SPECIAL = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 4.0, -5.0, 8.0, 1.5, -1.5, 2.5, 7.0, math.inf, -math.inf),
    *(math.nan, 5e-324, -5e-324, 1e-310, -1e-310, 2.0**-1022, 1.7976931348623157e308, -1.7976931348623157e308, 1e300, 1e-300),
    *(1e-20, -1e-20, 1e-45, 1e-40, -1e-40, 2.0**-126, 3.4028234e38, -3.4028234e38, 1e10, 1e22, -1e22, 2.0**30, -(2.0**30)),
    *(2.0**54, 1024.0, -1074.0, -1075.0, -1076.0, 128.0, -149.0, -150.0, 709.78, 709.79, 710.4758, 710.476, 711.0, -745.0),
    *(-745.2, -746.0, 88.72, 88.73, 89.0, 89.42, -103.9, -104.0, -88.0, 2.0**53, 2.0**53 + 2, 2.0**52 + 1, 1e19, -1e19),
    *(0.999999, 1.0000001, 17.0, 22.0, 40.0),
]


def samples(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    whole = np.dtype(f"i{dtype.itemsize}")
    info = np.iinfo(whole)
    n = -(-count // 12)
    near_one = rng.normal(0, 1e-2, n)
    multiples = rng.integers(-(2**19), 2**19, n) * (math.pi / 2)
    scale = 750.0 if dtype.itemsize == 8 else 110.0
    with np.errstate(all="ignore"):
        parts = [
            rng.integers(info.min, info.max, 2 * n, whole, endpoint=True).view(dtype),
            *[rng.uniform(-a, a, n) for a in (1.0, 2.0, 30.0, scale, 1e6)],
            *(rng.normal(0, 1e-3, n), 1 + near_one, -1 + near_one, multiples, np.exp(rng.uniform(-30, 30, n))),
        ]
        return np.concatenate([np.asarray(p).astype(dtype) for p in parts])


def pairs(name: str, dtype: np.dtype, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = samples(dtype, count // 2, seed), samples(dtype, count // 2, seed + 1)
    y = rng.permutation(y)
    if name != "pow":
        return x, y
    n = count // 2
    base = np.concatenate([np.exp(rng.uniform(-20, 20, n)), 1 + rng.normal(0, 1e-3, n)])
    size = 745.0 if dtype.itemsize == 8 else 100.0
    power = rng.uniform(-size, size, 2 * n) / np.maximum(np.abs(np.log(np.abs(base))), 1e-3)
    with np.errstate(all="ignore"):
        return np.concatenate([np.abs(x), base]).astype(dtype), np.concatenate([y, power]).astype(dtype)


def errors(found: np.ndarray, exact: list[Any]) -> np.ndarray:
    """In units of the last place of the exact value; where it overflows, inf and the largest number are both right."""
    out = np.zeros(found.size)
    largest = np.finfo(found.dtype).max
    with np.errstate(all="ignore"):
        for i, (value, t) in enumerate(zip(found, exact, strict=True)):
            rounded = np.abs(found.dtype.type(float(t)))
            if not np.isfinite(value) or np.isinf(rounded):
                out[i] = 0.0 if np.abs(value) >= largest and rounded >= largest else math.inf
            else:
                out[i] = abs(mp.mpf(float(value)) - t) / mp.mpf(float(np.spacing(rounded)))
    return out


def agree_with_numpy(found: np.ndarray, expected: np.ndarray, *operands: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        same = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
        near = np.abs(found - expected) <= 3 * np.spacing(np.maximum(np.abs(found), np.abs(expected)))
    near &= np.isfinite(found) & np.isfinite(expected) & ((found != 0) | (expected != 0))
    bad = np.flatnonzero(~(same | near))
    assert not bad.size, f"{[o[bad[:6]] for o in operands]} gave {found[bad[:6]]}, NumPy gives {expected[bad[:6]]}"


def compiled(name: str, arity: int, dtype: np.dtype, lanes: int | None = None) -> Callable[..., np.ndarray]:
    return kernel(lambda e, *x: getattr(e, name)(*x), [dtype] * arity, dtype, lanes or LANES[dtype.name])


def points(name: str, dtype: np.dtype, count: int) -> list[np.ndarray]:
    """Operands at which the result is a number."""
    seed = zlib.crc32(name.encode())
    if name in UNARY:
        _, low, high = UNARY[name]
        x = samples(dtype, count, seed)
        return [x[(x > low) & (x < high)]]
    x, y = pairs(name, dtype, count, seed)
    with np.errstate(all="ignore"):
        keep = np.isfinite(x) & np.isfinite(y)
        if name == "pow":
            keep &= (x > 0) & (np.abs(y * np.log(x.astype(float))) < 2000)
    return [x[keep], y[keep]]


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_accuracy(name: str, dtype: str) -> None:
    operands = points(name, np.dtype(dtype), 1500)
    function = UNARY[name][0] if name in UNARY else BINARY[name]
    found = compiled(name, len(operands), np.dtype(dtype))(*operands)
    with mp.workdps(60):
        size = errors(found, [function(*[mp.mpf(float(v)) for v in values]) for values in zip(*operands)])
    i = int(np.argmax(size))
    assert size[i] <= BOUND, ([o[i] for o in operands], found[i])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [n for n in [*UNARY, *BINARY] if hasattr(np, n)])
def test_accuracy_dense(name: str, dtype: str) -> None:
    """A million points beside the C library's long double, where that has 11 bits more."""
    if np.finfo(np.longdouble).nmant < 63:
        pytest.skip("long double is no wider than double here")
    assert dense(name, np.dtype(dtype), 1_000_000) <= max(BOUND, 2.0)


def reference(name: str) -> Any:
    """NumPy's function, or SciPy's."""
    return getattr(np, name, None) or getattr(scipy.special, name)


def dense(name: str, dtype: np.dtype, count: int) -> float:
    """The largest error, in ulp."""
    operands = points(name, dtype, count)
    found = compiled(name, len(operands), dtype)(*operands)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(*[o.astype(np.longdouble) for o in operands])
        rounded = np.abs(exact.astype(dtype))
        largest = np.finfo(dtype).max
        over = (np.abs(found) >= largest) & (rounded >= largest)
        size = np.abs(found.astype(np.longdouble) - exact) / np.spacing(np.minimum(rounded, largest)).astype(np.longdouble)
    return float(np.max(np.where(over, 0.0, size)))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: str) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        x = np.array(SPECIAL).astype(dtype)
        expected = reference(name)(x)
    for lanes in (LANES[dtype], 1):
        agree_with_numpy(compiled(name, 1, x.dtype, lanes)(x), expected, x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*BINARY, "logaddexp", "logaddexp2"])
def test_special_pairs(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        s = np.array(SPECIAL).astype(dtype)
        if name.startswith("logaddexp"):  # sums near 0 have the error of their terms, NumPy's too
            s = s[~((np.abs(s) > 0.4) & (np.abs(s) < 3))]
        x, y = (v.ravel().copy() for v in np.meshgrid(s, s))
        agree_with_numpy(compiled(name, 2, x.dtype)(x, y), getattr(np, name)(x, y), x, y)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", ["logistic", "softplus"])
def test_rules_made_of_them(name: str, dtype: str) -> None:
    """The emit rules of sigmoid and softplus: whole range, and special values as their NumPy code has them."""
    from funcad.primitives.activation import softplus
    from funcad.primitives.transcendental import logistic_p

    primitive, exact = {"logistic": (logistic_p, _sigmoid), "softplus": (softplus, _softplus)}[name]
    kind = np.dtype(dtype)
    equation = equation_of(primitive, [kind])
    run = kernel(lambda e, x: e.apply(equation, [x]), [kind], kind, LANES[dtype])
    mp.mp.dps = 60
    x = samples(kind, 1500, 5)
    x = x[np.isfinite(x) & (np.abs(x) < 1e5)]
    with mp.workdps(60):
        error = errors(run(x), [exact(mp.mpf(float(v))) for v in x])
    assert error.max() <= max(BOUND, 2.0), x[np.argmax(error)]
    with np.errstate(all="ignore"):
        x = np.array(SPECIAL).astype(dtype)
        agree_with_numpy(run(x), primitive.impl(np, x), x)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_integer_powers(dtype: str) -> None:
    kind = np.dtype(dtype)
    rng = np.random.default_rng(0)
    for n in (3, 4, 5, 7, 13, 31, 64, -2, -3, -6, -33):
        run = kernel(lambda e, x: e.integer_pow(x, n), [kind], kind, LANES[dtype])  # noqa: B023
        size = (700 if dtype == "float64" else 85) / abs(n)
        x = (np.exp(rng.uniform(-1.2 * size, size, 150)) * rng.choice([-1, 1], 150)).astype(dtype)
        with mp.workdps(60):
            error = errors(run(x), [mp.mpf(float(v)) ** n for v in x])
        assert error.max() <= BOUND, (n, x[np.argmax(error)])
        with np.errstate(all="ignore"):
            x = np.array(SPECIAL).astype(dtype)
            agree_with_numpy(run(x), np.power(x, n), x)


@pytest.mark.share(2)
@pytest.mark.skipif(not FUSED, reason="the C library's functions")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_tanh_where_its_quotient_is_poor(dtype: str) -> None:
    """Below 0.35 each of three roundings of E / (E + 2) can show in full: 2.5 ulp without the correction."""
    x = np.random.default_rng(3).uniform(0.1, 0.36, 20000).astype(dtype)
    with mp.workdps(40):
        size = errors(compiled("tanh", 1, x.dtype)(x), [mp.tanh(mp.mpf(float(v))) for v in x])
    assert size.max() <= 2.0, x[np.argmax(size)]


@pytest.mark.skipif(not FUSED, reason="the C library's functions")
@pytest.mark.parametrize("name", ["tanh", "log1p", "log"])
def test_one_division(name: str) -> None:
    """Divisions and choices take the longest: the text of a function has few of them."""
    module = ir.Module()
    function = ir.Function(module, "f", [("<4 x double>", "%x")], "<4 x double>")
    emitter = Emitter(function, 4, target.host())
    getattr(emitter, name)(Lane(np.dtype(float), ("%x",)))
    text = function.text()
    assert text.count("fdiv") == 1
    assert text.count(" select ") <= {"tanh": 2, "log1p": 3, "log": 5}[name]


SIGNS: dict[str, tuple[Any, str | None]] = {
    "abs": (lambda e, x: e.abs(x), "size"),
    "square": (lambda e, x: e.mul(x, x), "size"),
    "times its negative": (lambda e, x: e.mul(e.neg(x), x), "fall"),
    "halved": (lambda e, x: e.div(e.neg(e.mul(x, x)), e.literal(2.0, x.dtype)), "fall"),
    "times a constant": (lambda e, x: e.mul(e.literal(-0.5, x.dtype), e.mul(x, x)), "fall"),
    "one more": (lambda e, x: e.add(e.literal(1.0, x.dtype), e.mul(x, x)), "size"),
    "one less": (lambda e, x: e.add(e.literal(-1.0, x.dtype), e.mul(x, x)), None),
    "twice fallen": (lambda e, x: e.mul(e.neg(e.abs(x)), e.neg(e.abs(x))), "size"),
    "exp": (lambda e, x: e.exp(x), "size"),
    "exp of what falls": (lambda e, x: e.exp(e.neg(e.mul(x, x))), "unit"),
    "product": (lambda e, x: e.mul(x, e.abs(x)), None),
    "cube": (lambda e, x: e.mul(e.mul(x, x), x), None),
}


@pytest.mark.skipif(not FUSED, reason="the C library's functions")
@pytest.mark.parametrize("what", SIGNS)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_signs_that_are_known(what: str, dtype: str) -> None:
    """What is known of a value spares limits and choices: no upper limit of exp, no pole of log1p; bits stay the same."""
    rule, expected = SIGNS[what]
    lane, element = Lane(np.dtype(dtype), ("%x",)), {"float64": "double", "float32": "float"}[dtype]
    counts = {}
    for name in ("exp", "log1p"):
        for known in (True, False):
            function = ir.Function(ir.Module(), "f", [(f"<4 x {element}>", "%x")], f"<4 x {element}>")
            emitter = Emitter(function, 4, target.host())
            value = rule(emitter, lane)
            assert emitter.known.signs.get(value.name) == expected
            if not known:
                emitter.known.signs.clear()
            before = function.text().count(" select ")
            getattr(emitter, name)(value)
            counts[name, known] = function.text().count(" select ") - before
    assert counts["exp", False] - counts["exp", True] == (1 if expected == "fall" else 0)
    assert counts["log1p", False] - counts["log1p", True] == {None: 0, "fall": 0, "size": 2, "unit": 1}[expected]


@pytest.mark.skipif(not FUSED, reason="the C library's functions")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_functions_of_squares_at_the_edges(dtype: str) -> None:
    """Where the limits are left out: zeros, infinities, NaN, what overflows and what underflows."""
    x = np.concatenate([samples(np.dtype(dtype), 3000, 5), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])
    bells = (lambda x: np.exp(-x * x), lambda x: np.exp(-0.5 * x**2))
    squares = (*bells, lambda x: np.log1p(x * x), lambda x: np.log1p(np.exp(x)))
    with np.errstate(all="ignore"), funcad.config.set(engine="native"):
        for f in squares:
            found = funcad.jit(f)
            found(x)
            np.testing.assert_array_max_ulp(found(x), f(x), 3 if dtype == "float64" else 4)


def test_symmetry() -> None:
    """Odd functions are odd and even ones even, bit for bit."""
    x = samples(np.dtype(float), 3000, 9)
    x = x[~np.isnan(x)]
    for name in ("sin", "tan", "sinh", "tanh", "arcsin", "arctan", "arcsinh", "arctanh", "cbrt"):
        run = compiled(name, 1, x.dtype)
        assert np.array_equal(run(x), -run(-x), equal_nan=True), name
    for name in ("cos", "cosh"):
        run = compiled(name, 1, x.dtype)
        assert np.array_equal(run(x), run(-x), equal_nan=True), name
