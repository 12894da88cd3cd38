"""How far two correct runs of one program may differ: the bar for engines on whole programs.

Idea: the program is run again with noise. After each equation that an engine may round differently (transcendental functions,
sums, products of matrices, complex arithmetic) its result is disturbed by 2 to 4 units in the last place of what it was made
of; what the rest of the program makes of that is the difference that is allowed. So a single transcendental function is held to
4 units (engines were seen 2 apart from NumPy), and a chain is allowed as much more as its conditioning explains. Exact
operations get no noise: results that no noise reaches must agree bit for bit. Where a rounding error decides (a comparison, a
cast to integers, inf - inf after an overflow) the noisy runs disagree among themselves, and only those elements are not
compared. The `Bound`s tell how much is compared how closely, so that a test can see that not everything is let through.

Composite operations are written out first, so that noise enters inside of them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import funcad
from funcad.backends.interpreter import Program
from funcad.ir.aval import Stack, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.ir.primitive import Primitive
from funcad.passes.lower import lower
from funcad.passes.subprograms import kind_of, with_subprograms

__all__ = ["reference", "noisy", "bounds_of", "disagreement", "Bound", "same_numbers"]

EXACT = frozenset(
    "neg add sub mul mul_add div floor_divide mod fmod square reciprocal sqrt abs sign heaviside nextafter floor ceil "
    "rint trunc ldexp mantissa exponent eq ne lt le gt ge and or xor not shift_left shift_right logical_and logical_or "
    "logical_xor logical_not isnan isinf isfinite select maximum minimum fmax fmin clamp relu convert stop_gradient "
    "real imag conj make_complex bitcast reduce_any reduce_all argmax argmin sort argsort argsort_many top_k "
    "searchsorted cummax cummin broadcast_in_dim reshape transpose concatenate slice pad rev roll basic_index "
    "basic_place basic_update window_indices dynamic_slice dynamic_update_slice gather take optimization_barrier stack_empty "
    "stack_lead stack_select tied_spread gcd lcm bit_count spacing shift attains iota pick_lanes".split()
)
SUMS = frozenset(
    "reduce_sum dot_general einsum cumsum place_sum scatter_add reduce_window_sum stack_add stack_sum tied_mean conv".split()
)
PRODUCTS = frozenset("reduce_prod cumprod".split())
SINGLE = frozenset(["arcsin", "arctan2", "tan"])  # of which NumPy's vectors of single precision are off by 3.0 to 3.3 units
EXTREMA = ("reduce_max", "reduce_min")  # exact but for the sign of a zero
COMPLEX = frozenset("mul mul_add div square reciprocal sqrt abs sign".split())  # several roundings in these
ABSOLUTE = frozenset("logsumexp log_softmax logaddexp logaddexp2 cumlogsumexp softplus scatter linear_recurrence".split())
CARRIED = frozenset("add sub neg reshape transpose convert broadcast_in_dim mul_add".split())

AMPLITUDE = 2.0  # times the eps of the dtype: 2 to 4 units in the last place
RUNS = 8  # with noise: all of it upwards, all of it downwards, one unit either way, and mixed


SEVERAL = 1.6  # where errors of several operations meet, a few runs with noise do not show the worst of it,
MANY = 1000  # and where so many elements cancel,
SELDOM = 5.0  # for some of them none comes near it


class _State:
    amplitude = 0.0
    run = signs = 0
    rng = np.random.default_rng(0)


# ---------------------------------------------------------------- noise


def _finite(x: Any, absolute: bool = True) -> Any:
    """|x|, without what is not finite."""
    x = np.asarray(x)
    if x.dtype.kind not in "fc":
        return x
    y = np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)
    return np.where(np.isfinite(y), y, 0).astype(x.dtype.newbyteorder("="))


def _eps(dtype: np.dtype) -> float:
    return float(np.finfo(dtype).eps)


def _signs(shape: tuple) -> np.ndarray:
    """Which way each result is disturbed, and how far: numbers of size up to 1."""
    if _State.run < 2:  # upwards, downwards
        return _State.rng.uniform(0.5, 1.0, shape) * (1 - 2 * _State.run)
    if _State.run < 4:  # by the least there is: what is next to a singular point comes to lie on it
        return np.full(shape, 0.3 * (5 - 2 * _State.run))
    return _State.rng.uniform(0.25, 1.0, shape) * _State.rng.choice([-1.0, 1.0], shape)


def _disturb(primitive: Any, out: Any, operands: Sequence[Any], params: dict, carried: bool) -> Any:
    x = np.asarray(out)
    name = primitive.name
    if name == "convert" and x.dtype.kind in "iu":
        return _unsafe_cast(x, np.asarray(operands[0]))[()]
    if name in ("signbit", "copysign"):  # the sign of a NaN is nobody's promise
        _State.signs += 1  # each in another pattern over the runs
        unclear = np.isnan(operands[-1]) & bool(_State.run >> _State.signs % 3 & 1)
        return np.where(unclear, ~x if name == "signbit" else -x, x)[()]
    if name in EXTREMA:  # which of two equal zeros it is depends on the order
        zeros = [np.any((operands[0] == 0) & (np.signbit(operands[0]) == s), axis=params["axes"]) for s in (False, True)]
        return np.where((x == 0) & zeros[0] & zeros[1] & (_signs(x.shape) < 0), -x, x)[()]
    if x.dtype.kind not in "fc":
        return out
    far = name == "cbrt" or name in SINGLE and x.dtype.char in "fF"  # NumPy's is off by up to 3.3 units
    noise = _State.amplitude * _eps(x.dtype) * (2.0 if far else 1.0)
    if name in SUMS:
        size: Any = primitive.impl(np, *[_finite(v) for v in operands], **params)
        loose_zero = name != "reduce_sum"
        shapes = [np.shape(v) for v in operands]
        terms = (
            np.asarray(operands[0]).size / max(x.size, 1)
            if name == "reduce_sum"
            else max([n for s in shapes for n in s], default=1)
        )
        noise *= max(1.0, terms / 8)
    elif name in PRODUCTS:
        size, loose_zero = _finite(x), False
        noise *= max(1.0, np.asarray(operands[0]).size / max(x.size if name == "reduce_prod" else 1, 1) / 4)
    elif carried:
        size = sum(_finite(v) if np.ndim(v) else _finite(v) + np.zeros(x.shape, x.dtype) for v in operands)
        loose_zero = True
    elif name in ABSOLUTE:
        size = np.asarray(_finite(x)).real + max(
            [float(np.max(np.real(_finite(v)), initial=0.0)) for v in operands if np.asarray(v).dtype.kind in "fc"]
        )
        loose_zero = False
    elif x.dtype.kind == "c" or name == "abs":
        size, loose_zero = _finite(x), True
        if name in ("mul", "mul_add"):
            size = primitive.impl(np, *[_finite(v) for v in operands])
    else:
        size, loose_zero = _finite(x), False
    size = np.real(np.asarray(size)) + np.zeros(x.shape, np.real(x).dtype)
    overflow = ~np.isfinite(size * 1.5)
    if name == "reduce_prod":
        overflow = overflow | _may_overflow(np.asarray(operands[0]), params["axes"])
    step = size * noise
    tiny = np.finfo(x.dtype).smallest_subnormal
    step = np.where((step < 4 * tiny) & (size != 0), 4 * tiny, step)
    moved = x + step * _signs(x.shape)
    if x.dtype.kind == "c":
        moved = moved + 1j * step * _signs(x.shape)
    moved = moved.astype(x.dtype)
    keep = (step == 0) if x.dtype.kind != "c" else (step == 0) | ~np.isfinite(x)
    if x.dtype.kind == "f":
        keep = keep | ~np.isfinite(x)
        moved = np.where(keep, x, moved)
        if loose_zero:  # the sign of a zero depends on the order
            moved = np.where((moved == 0) & (_signs(x.shape) < 0), -moved, moved)
        order = (_State.run + (np.arange(x.size).reshape(x.shape) if _State.run > 3 else np.zeros(x.shape, int))) % 5
        elsewhere = np.array([np.nan, np.inf, -np.inf, 1.0, -1.0], x.dtype)[order]  # all alike, then each another
        moved = np.where(overflow, elsewhere, moved)
    else:
        moved = np.where(keep, x, moved)
        bad = overflow | ~np.isfinite(x)  # Infinities of complex numbers: which part is NaN depends on the formula
        kinds = [np.nan, np.inf, -np.inf, 0.0]  # all alike at first, then each another
        pick = lambda: _State.rng.choice(kinds, x.shape) if _State.run > 3 else np.full(x.shape, kinds[_State.run])
        special = np.empty(x.shape, x.dtype)
        special.real, special.imag = pick(), pick()
        moved = np.where(bad, special, moved)
    return moved.astype(x.dtype)[()] if not x.ndim else moved.astype(x.dtype)


def _may_overflow(x: np.ndarray, axes: tuple) -> Any:
    """Does a product overflow or underflow in some order of its factors?"""
    logs = np.log2(np.where(_finite(x) == 0, 1, _finite(x)).real.astype(float))
    info = np.finfo(x.dtype)
    high = np.sum(np.maximum(logs, 0), axis=axes) >= info.maxexp - 1
    return high | (np.sum(np.minimum(logs, 0), axis=axes) <= info.minexp + 1)


def _unsafe_cast(x: np.ndarray, operand: np.ndarray) -> np.ndarray:
    """What a cast to integers makes of numbers that do not fit is the processor's business."""
    if operand.dtype.kind not in "fc":
        return x
    info = np.iinfo(x.dtype)
    value = operand.real.astype(np.float64)
    fits = np.isfinite(value) & (value > info.min - 1.0) & (value < float(info.max) - (1024 if info.max > 2**60 else 0))
    return np.where(fits, x, _State.rng.integers(info.min, info.max, x.shape, x.dtype, endpoint=True)).astype(x.dtype)


def _noise_impl(xp: Any, out: Any, *operands: Any, primitive: Any, given: Any, carried: bool) -> Any:
    if _State.amplitude == 0.0:
        return out
    with np.errstate(all="ignore"):
        return _disturb(primitive, out, operands, dict(given), carried)


noise_p = Primitive("noise", _noise_impl, lambda x, *_, **__: x)


def _is_exact(equation: Equation) -> bool:
    name = equation.primitive.name
    if any([isinstance(v.aval, StackAval) for v in equation.outputs]):
        return True
    avals = [a.aval for a in (*equation.inputs, *equation.outputs)]
    if name == "integer_pow":
        return equation.params["n"] in (-1, 0, 1, 2) and avals[0].dtype.kind != "c"
    if name == "convert" and equation.outputs[0].aval.dtype.kind in "iu":
        return avals[0].dtype.kind not in "fc"
    if name in ("signbit", "copysign"):
        return False
    if name in EXTREMA:
        return avals[0].dtype.kind != "f"
    if name == "scatter":
        return equation.params["mode"] not in ("add", "mul") or avals[0].dtype.kind not in "fc"
    if name in COMPLEX and any([a.dtype.kind == "c" for a in avals]):
        return False
    return name in EXACT or all([v.aval.dtype.kind not in "fc" for v in equation.outputs])


def _carried_sums(jaxpr: Jaxpr, outputs: Sequence[Any]) -> set[Var]:
    """Sums that end in these outputs: over the steps of a loop they may be taken in another order."""
    found = {v for v in outputs if type(v) is Var}
    for e in reversed(jaxpr.equations):
        if e.primitive.name in CARRIED and found.intersection(e.outputs) and e.outputs[0].aval.dtype.kind in "fc":
            found.update(a for a in e.inputs if type(a) is Var)
    return found


def noisy(jaxpr: Jaxpr, carry: Sequence[Any] = ()) -> tuple[Jaxpr, bool]:
    """The program with noise, and whether there is any."""
    jaxpr = lower(jaxpr)
    sums = _carried_sums(jaxpr, carry) if carry else set()
    equations: list[Equation] = []
    any_noise = False
    for e in jaxpr.equations:
        if kind_of(e) is not None:
            counted = kind_of(e) == "loop" and e.params["loop"].cond is None
            n_carry = e.params["loop"].n_carry if counted else 0
            inner: list[bool] = []

            def change(j: Jaxpr, n: int = n_carry, inner: list[bool] = inner) -> Jaxpr:
                made, has = noisy(j, j.outputs[:n])
                inner.append(has)
                return made

            equations.append(with_subprograms(e, change))
            any_noise = any_noise or any(inner)
            continue
        carried = e.primitive.name in CARRIED and e.outputs[0] in sums and e.primitive.name in ("add", "sub", "mul_add")
        if e.primitive.multiple or (_is_exact(e) and not carried):
            equations.append(e)
            continue
        any_noise = True
        raw = Var(e.outputs[0].aval)
        equations.append(e._replace(outputs=(raw,)))
        params = {"primitive": e.primitive, "given": tuple(e.params.items()), "carried": carried}
        equations.append(Equation(noise_p, (raw, *e.inputs), params, e.outputs, e.source))
    return Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs), any_noise


# ---------------------------------------------------------------- bounds


def reference(jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
    """What the reference computes."""
    with funcad.config.set(engine="interpreter"):
        return Program(jaxpr).run(list(values))


class Bound:
    """Of one result: `pattern` says where NaN, infinities, signs of zero and integers are certain, `allowed` how far off."""

    __slots__ = ("pattern", "allowed", "exact", "lost")

    def __init__(self, expected: Any, runs: list[Any], exact: bool):
        x = np.asarray(expected)
        self.exact = exact
        self.pattern = np.ones(x.shape, bool)
        self.allowed = np.zeros(x.shape)
        for r in [] if exact else map(np.asarray, runs):
            if r.dtype == object or r.shape != x.shape or r.dtype != x.dtype:
                self.pattern = np.zeros(x.shape, bool)
                continue
            if x.dtype.kind not in "fc":
                self.pattern &= r == x
                continue
            for a, b in zip(_parts(r), _parts(x)):
                self.pattern &= _kinds(a) == _kinds(b)
                with np.errstate(all="ignore"):
                    distance = np.abs(a.astype(np.longdouble) - b.astype(np.longdouble)).astype(float)
                self.allowed = np.maximum(self.allowed, np.where(np.isfinite(distance), distance, 0.0))
        self._level(x)
        with np.errstate(all="ignore"):  # no digit is certain: NaN or infinity may as well come out
            self.lost = self.allowed > 0.1 * np.abs(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)

    def _level(self, x: np.ndarray) -> None:
        """Elements that by chance no noise reached are as uncertain as most of their neighbours."""
        if x.dtype.kind in "fc" and self.allowed.any():
            sizes = np.abs(np.where(np.isfinite(x) & (x != 0), x, 1))
            ratios = (self.allowed / sizes)[self.pattern]
            if ratios.size:
                self.allowed = np.maximum(self.allowed, float(np.quantile(ratios, 0.75)) * sizes)


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def _kinds(x: np.ndarray) -> np.ndarray:
    """0: a number; otherwise which special value."""
    sign = np.signbit(x)
    return np.where(np.isnan(x), 5, np.where(np.isinf(x), 1 + sign, np.where(x == 0, 3 + 3 * sign, 0)))


def bounds_of(jaxpr: Jaxpr, values: Sequence[Any], expected: list[Any], seed: int = 0) -> list[Bound]:
    """How far another engine may be off, for each result."""
    disturbed, any_noise = noisy(jaxpr)
    runs = []
    if any_noise:
        for i in range(RUNS):
            _State.run, _State.signs, _State.amplitude, _State.rng = i, 0, AMPLITUDE, np.random.default_rng([seed, i])
            try:
                runs.append(reference(disturbed, values))
            except Exception:  # rounding decides whether it fails (an index, a singular matrix)
                runs.append(None)
            finally:
                _State.amplitude = 0.0
    found = [Bound(x, [r and r[i] for r in runs], not any_noise) for i, x in enumerate(expected)]
    if _sources(disturbed) > 1:
        for bound in found:
            bound.allowed *= SEVERAL if bound.allowed.size <= MANY else SELDOM
    return found


def _sources(jaxpr: Jaxpr) -> int:
    """Of noise, in the program and those inside of it."""
    return sum([(e.primitive is noise_p) + sum(map(_sources, subjaxprs(e.params))) for e in jaxpr.equations])


def same_numbers(a: Any, b: Any) -> bool:
    """The same bits, but any NaN for NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("=") or a.shape != b.shape:
        return False
    if a.dtype.kind not in "fc":
        return np.array_equal(a, b)
    return all(
        np.array_equal(x, y, equal_nan=True) and np.array_equal(_kinds(x), _kinds(y)) for x, y in zip(_parts(a), _parts(b))
    )


def disagreement(found: Any, expected: Any, bound: Bound, loose: bool = False) -> str | None:
    """Why this is not the expected result, or None; `loose`: a 0-d array may stand for a scalar."""
    if isinstance(expected, Stack):
        return None if len(found) == len(expected) else "stacks of different lengths"
    if type(found) is not type(expected) and not (
        loose and np.shape(found) == () and isinstance(found, (np.ndarray, np.generic))
    ):
        return f"{type(found)} instead of {type(expected)}"
    a, b = np.asarray(found), np.asarray(expected)
    if a.dtype.newbyteorder("=") != b.dtype.newbyteorder("=") or a.shape != b.shape:
        return f"{a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
    if same_numbers(a, b):
        return None
    if a.dtype.kind not in "fc":
        wrong = (a != b) & bound.pattern
        return _where(wrong, a, b) if wrong.any() else None
    if bound.exact:
        return _where(
            np.logical_or.reduce([(_kinds(x) != _kinds(y)) | ((x != y) & (x == x)) for x, y in zip(_parts(a), _parts(b))]), a, b
        )
    for x, y in zip(_parts(a), _parts(b)):
        plain = np.isfinite(x) & np.isfinite(y) & ~((x == 0) & (y == 0))  # these are compared as numbers
        wrong = (_kinds(x) != _kinds(y)) & bound.pattern & ~plain & ~bound.lost
        if wrong.any():
            return _where(wrong, a, b)
        numbers = bound.pattern & plain
        x, y = np.where(numbers, x, 0), np.where(numbers, y, 0)
        distance = np.abs(x.astype(np.longdouble) - y.astype(np.longdouble))
        least = 2.0 * np.spacing(np.maximum(np.abs(x), np.abs(y))) if bound.allowed.any() else 0.0  # no noise came here
        wrong = distance > np.maximum(bound.allowed, least)
        if wrong.any():
            return _where(wrong, a, b) + f" differ by {np.max(distance[wrong]):.3g}, allowed {np.min(bound.allowed[wrong]):.3g}"
    return None


def _where(wrong: np.ndarray, a: np.ndarray, b: np.ndarray) -> str:
    first = tuple([int(i) for i in np.argwhere(wrong)[0]])
    return f"{int(wrong.sum())} of {wrong.size} elements, first at {first}: {a[first]!r} instead of {b[first]!r}"
