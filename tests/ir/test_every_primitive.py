"""Every primitive against the contract of `ir/primitive.py`, rule by rule, over the table in `tests/specs`.

One test a spec: it makes all checks that apply to it (`@check` says to which), and tells all that fail. Derivatives of whole
functions are taken to follow from these (tests/surface/theorem.py), so only what takes longest is left out here by default.
"""

from __future__ import annotations

import itertools
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import jit, jvp, linear_transpose, vjp, vmap
from funcad.diagnosis.recording import check_jaxpr
from funcad.errors import FuncadError
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.trace import trace_function
from funcad.testing import _numeric, _pair
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.partial import linearize_jaxpr
from funcad.transforms.transpose import transpose_jaxpr
from tests.agreement import assert_agree, assert_close
from tests.shards import shard
from tests.specs import OpSpec, all_specs

SPECS = all_specs()

STEP = 2.0**-17  # of central differences, in float64


CHECKS: list[tuple[Callable[[OpSpec], bool], Callable[[OpSpec], None]]] = []  # (does it apply?, the check)


def check(applies: Callable[[OpSpec], bool] = lambda s: True) -> Any:
    """One of the checks of a spec: where it applies."""

    def add(function: Callable[[OpSpec], None]) -> Callable[[OpSpec], None]:
        CHECKS.append((applies, function))
        return function

    return add


def differentiable(op: OpSpec) -> bool:
    return op.order > 0


def samples(op: OpSpec) -> list[tuple]:
    """The samples, read-only: a rule that writes into its operands raises."""
    found = op.samples()
    for x in itertools.chain(*found):
        if isinstance(x, np.ndarray):
            x.flags.writeable = False
    return found


def quiet_call(op: OpSpec, *args: Any) -> list[Any]:
    with np.errstate(all="ignore"):
        return op.call(*args)


def partial(op: OpSpec, args: tuple, positions: Any) -> Any:
    """fn as a function of the arguments at some positions; its float results only."""
    positions = list(positions)

    def f(*chosen: Any) -> list[Any]:
        full = list(args)
        for i, x in zip(positions, chosen):
            full[i] = x
        return [o for o in quiet_call(op, *full) if is_inexact(aval_of(o))]

    return f


def has_float_results(op: OpSpec, args: tuple) -> bool:
    return any(is_inexact(aval_of(o)) for o in quiet_call(op, *args))


def direction(x: Any, rng: np.random.Generator) -> Any:
    aval = aval_of(x)
    t = rng.normal(size=aval.shape)
    if aval.dtype.kind == "c":
        t = t + 1j * rng.normal(size=aval.shape)
    return np.asarray(t, aval.dtype)[()] if not aval.shape else np.asarray(t, aval.dtype)


def step_within(op: OpSpec, x: list[Any], t: list[Any]) -> list[Any]:
    """The direction, shortened so that steps stay in the domain (only samples at its very edge need it)."""
    if op.domain is None:
        return t
    low, high = op.domain
    room = [float(np.min(np.minimum(v - low, high - v))) for v in map(np.asarray, x) if v.size and v.dtype.kind == "f"]
    largest = max((float(np.max(np.abs(u))) for u in t if np.size(u)), default=1.0)
    factor = min(1.0, 0.5 * min(room, default=1.0) / (STEP * max(largest, 1e-30)))
    return [u * np.asarray(factor, np.asarray(u).dtype) for u in t] if factor < 1.0 else t


def is_double(args: tuple) -> bool:
    """Differences need double precision."""
    return all(np.asarray(x).dtype.char not in "efF" for x in args)


def cases(op: OpSpec, given: list[tuple]) -> Any:
    """(sample, positions): all differentiable arguments together, and each alone (the others' tangents are None)."""
    for args in given:
        positions = op.differentiable(args)
        if not positions or not has_float_results(op, args):
            continue
        yield args, positions
        if len(positions) > 1:
            for i in positions:
                yield args, [i]


def same_aval(a: Any, b: Any) -> bool:
    a, b = aval_of(a), aval_of(b)
    return a.shape == b.shape and a.dtype == b.dtype


def loose(op: OpSpec, args: tuple, factor: float = 1.0) -> float:
    return op.tolerance * factor if is_double(args) else 2e-3


# -- values


@check(lambda s: s.reference is not None)
def value_is_numpys(op: OpSpec) -> None:
    for args in samples(op):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = op.reference(*args)
        expected = list(expected) if isinstance(expected, (list, tuple)) else [expected]
        found = quiet_call(op, *args)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            assert_close(a, b, rtol=op.tolerance * (1e-6 if is_double(args) else 1.0), what=f"{op.id}{args}")


def variants(op: OpSpec, args: tuple) -> Any:
    """The sample, and the sample in other float dtypes."""
    yield args, True
    if not any(np.asarray(x).dtype == np.float64 for x in args):
        return
    for name in op.dtypes:
        dtype = np.dtype(name)
        yield tuple(np.asarray(x, dtype)[()] if np.asarray(x).dtype == np.float64 else x for x in args), dtype.kind != "c"


def traced(op: OpSpec, args: tuple) -> tuple[Any, list[Any], list[int]]:
    """(jaxpr, consts, positions of its arguments)."""
    positions = op.variables(args)
    return (*trace_function(op.of_variables(args, positions), [aval_of(args[i]) for i in positions], name="test"), positions)


@check()
def abstract_eval_predicts_the_result(op: OpSpec) -> None:
    for sample in samples(op):
        for args, must_work in variants(op, sample):
            try:
                found, avals = quiet_call(op, *args), traced(op, args)[0].out_avals
            except (TypeError, ValueError, FuncadError):
                if must_work:
                    raise
                continue
            assert len(found) == len(avals)
            for x, aval in zip(found, avals):
                assert np.shape(x) == aval.shape, f"{op.id}: predicted {aval}, got shape {np.shape(x)} for {args}"
                dtype = np.asarray(x).dtype
                assert dtype == aval.dtype, f"{op.id}: predicted {aval}, got {dtype} for {args}"


@check()
def jitted_agrees_with_unjitted(op: OpSpec) -> None:
    for args in op.samples():
        before = [np.array(x) for x in args]
        positions = op.variables(args)
        found = jit(op.of_variables(args, positions))(*[args[i] for i in positions])
        expected = [x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x for x in quiet_call(op, *args)]
        n = sum(np.size(x) for x in args)
        for a, b in zip(found, expected):
            size = n * float(np.sum(np.abs(np.extract(np.isfinite(b), b))))
            assert_agree(a, b, scale=size, what=f"jit of {op.id}{args}")
        unchanged(op, args, before)


def rearranged(x: Any) -> list[Any]:
    """The same values in other memory layouts."""
    if not isinstance(x, np.ndarray) or x.ndim == 0:
        return [x, x, x]
    spread = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    spread[..., ::2] = x
    backwards = np.flip(np.flip(x).copy())
    return [spread[..., ::2], np.asfortranarray(x), backwards]


@check()
def memory_layout_does_not_matter(op: OpSpec) -> None:
    for args in samples(op):
        expected = quiet_call(op, *args)
        for layout in zip(*[rearranged(x) for x in args]):
            for a, b in zip(quiet_call(op, *layout), expected):
                assert_close(a, b, rtol=1e-12 if is_double(args) else 1e-5, what=f"{op.id}, other memory layout")


@check()
def byte_order_does_not_matter(op: OpSpec) -> None:
    for args in samples(op):
        swapped = [x.astype(x.dtype.newbyteorder()) if isinstance(x, np.ndarray) else x for x in args]
        for a, b in zip(quiet_call(op, *swapped), quiet_call(op, *args), strict=True):
            a = np.asarray(a)
            assert_close(a.astype(a.dtype.newbyteorder("=")), b, rtol=1e-12 if is_double(args) else 1e-5, what=f"{op.id}{args}")


def unchanged(op: OpSpec, args: Any, before: list[Any]) -> None:
    """Operands that can be written have not been: compiled code does not ask whether an array is read-only."""
    for x, old in zip(args, before):
        assert np.asarray(x).tobytes() == old.tobytes(), f"{op.id} changed an operand, a tangent or a cotangent"


# -- derivatives


@check(differentiable)
def jvp_is_the_derivative_and_vjp_its_transpose(op: OpSpec) -> None:
    rng = np.random.default_rng(1)
    for args, positions in cases(op, op.samples()):
        where = f"{op.id} in arguments {positions} at {args}"
        f, chosen = partial(op, args, positions), tuple(args[i] for i in positions)
        wide = [direction(x, rng) for x in chosen]
        ts = tuple(step_within(op, list(chosen), wide))
        before = [np.array(x) for x in (*args, *ts)]
        out, tangents = jvp(f, chosen, ts)
        unchanged(op, (*args, *ts), before)
        for o, t in zip(out, tangents):
            assert same_aval(t, o), f"{op.id}: tangent {aval_of(t)} of {aval_of(o)}"
        if is_double(args):
            for n, t in zip(_numeric(f, chosen, ts, STEP), tangents):
                assert_close(t, n, rtol=loose(op, args), what=f"jvp of {where}")
        if any(u is not t for u, t in zip(wide, ts)):  # shortened: the transpose is held against larger numbers
            ts = tuple(wide)
            tangents = jvp(f, chosen, ts)[1]
        out, pullback = vjp(f, *chosen)
        cts = [direction(o, rng) for o in out]
        before = [np.array(x) for x in (*args, *cts)]
        found = pullback(cts)
        unchanged(op, (*args, *cts), before)
        for x, ct in zip(chosen, found):
            assert same_aval(ct, x), f"{op.id}: cotangent {aval_of(ct)} of {aval_of(x)}"
        size = max(1.0, sum(abs(_pair([a], [b])) for a, b in zip(tangents, cts)))
        difference = abs(_pair(tangents, cts) - _pair(found, ts))
        assert difference <= loose(op, args, 1e-3) * size, f"{where}: <ct, J t> and <J^T ct, t> differ by {difference}"


def is_numerically_linear(f: Any, x: Any, rng: np.random.Generator) -> bool:
    """Is f(a x + b y) = a f(x) + b f(y) for random real x, y, a, b?"""
    if np.size(x) == 0:
        return False
    a, b = np.asarray(1.7, np.asarray(x).real.dtype), np.asarray(-0.6, np.asarray(x).real.dtype)
    u, v = 2 * direction(x, rng), 2 * direction(x, rng)
    try:
        both, fu, fv = f((a * u + b * v).astype(u.dtype)), f(u), f(v)
    except (TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return False
    if not both:
        return False
    with np.errstate(all="ignore"):
        return all(np.size(o) > 0 and np.allclose(o, a * p + b * q, rtol=1e-4, atol=1e-4) for o, p, q in zip(both, fu, fv))


@check(differentiable)
def transpose_of_every_linear_argument(op: OpSpec) -> None:
    rng = np.random.default_rng(3)
    p = op.primitives[0]
    if p.transpose is None and (p.jvp is not None or p.primal_and_jvp is not None):
        return  # its derivative is made of other primitives: these are what reverse mode transposes
    for args in samples(op):
        for i in op.differentiable(args):
            f = partial(op, args, [i])
            if not is_numerically_linear(f, args[i], rng):
                continue
            assert p.transpose is not None, f"{op.id} is linear in argument {i}: transpose?"
            x = direction(args[i], rng)
            out = f(x)
            cts = [direction(o, rng) for o in out]
            (found,) = linear_transpose(f, args[i])(cts)
            size = max(1.0, sum(abs(_pair([a], [b])) for a, b in zip(out, cts)))
            difference = abs(_pair(out, cts) - _pair([found], [x]))
            assert difference <= loose(op, args, 1e-3) * size, f"{op.id}: <Ax, y> and <x, A^T y> differ by {difference}"


def pushed(f: Any, ts: tuple) -> Any:
    return lambda *xs: list(jvp(f, xs, ts)[1])


def pulled(f: Any, cts: list) -> Any:
    return lambda *xs: list(vjp(f, *xs)[1](cts))


@check(lambda s: s.order >= 2)
def second_derivatives(op: OpSpec) -> None:
    rng = np.random.default_rng(4)
    for args in samples(op):
        positions = op.differentiable(args)
        if not positions or not has_float_results(op, args):
            continue
        f, chosen = partial(op, args, positions), tuple(args[i] for i in positions)
        ts = tuple(direction(x, rng) for x in chosen)
        again = tuple(step_within(op, list(chosen), [direction(x, rng) for x in chosen]))
        cts = [direction(o, rng) for o in f(*chosen)]
        for name, g in (("jvp", pushed(f, ts)), ("vjp", pulled(f, cts))):
            out, tangents = jvp(g, chosen, again)
            if is_double(args):
                for n, t in zip(_numeric(g, chosen, again, STEP), tangents):
                    assert_close(t, n, rtol=100 * op.tolerance, what=f"jvp of {name} of {op.id} at {args}")
            _, pullback = vjp(g, *chosen)
            second = [direction(o, rng) for o in out]
            found = pullback(second)
            size = max(1.0, sum(abs(_pair([a], [b])) for a, b in zip(tangents, second)))
            difference = abs(_pair(tangents, second) - _pair(found, again))
            assert difference <= loose(op, args, 1e-2) * size, f"vjp of {name} of {op.id} differs by {difference}"


# -- batching


LANES = (1, 2)  # of three that are mapped, those that are compared with a call of their own


def stacked(x: Any) -> np.ndarray:
    """Three examples like x: floats scaled a little, integers turned."""
    x = np.asarray(x)
    if x.dtype.kind in "fc":
        return np.stack([x, x * x.dtype.type(1.02), x * x.dtype.type(0.97)])
    return np.stack([np.roll(x, i, axis=0) if x.ndim else x for i in range(3)])


def subsets(variables: list[int]) -> Any:
    """Nonempty sets of arguments that can be mapped."""
    for n in range(1, len(variables) + 1):
        yield from itertools.combinations(variables, n)


@check(lambda s: s.batch)
def batched_is_a_loop(op: OpSpec) -> None:
    for args in samples(op):
        rtol = 1e-10 if is_double(args) else 1e-4
        for subset in subsets(op.variables(args)):
            full = [stacked(x) if i in subset else x for i, x in enumerate(args)]
            mapped = vmap(op.of_variables(args, subset))
            found = mapped(*[full[i] for i in subset])
            for k in LANES:
                expected = quiet_call(op, *[x[k] if i in subset else x for i, x in enumerate(full)])
                for a, b in zip(found, expected):
                    assert a.dtype == np.asarray(b).dtype, f"{op.id} batched in {subset}: {a.dtype}, {np.asarray(b).dtype}"
                    assert_close(a[k], b, rtol=rtol, what=f"{op.id} batched in {subset}, example {k}")
            empty = mapped(*[full[i][:0] for i in subset])
            for a, b in zip(empty, found):
                assert (a.shape, a.dtype) == ((0, *b.shape[1:]), b.dtype), f"{op.id}: a batch of size 0 gave {aval_of(a)}"


@check(lambda s: s.batch and s.order > 0)
def derivatives_batch(op: OpSpec) -> None:
    rng = np.random.default_rng(5)
    for args in samples(op):
        positions = op.differentiable(args)
        if not positions or not has_float_results(op, args):
            continue
        f, full = partial(op, args, positions), [stacked(args[i]) for i in positions]
        ts = tuple(direction(x, rng) for x in full)
        cts = [direction(np.stack([o] * 3), rng) for o in f(*[x[0] for x in full])]
        tangents = vmap(lambda xs, us, f=f: jvp(f, xs, us)[1])(tuple(full), ts)
        cotangents = vmap(lambda xs, us, f=f: vjp(f, *xs)[1](us))(tuple(full), cts)
        for k in LANES:
            one = tuple(x[k] for x in full)
            for a, b in zip(tangents, jvp(f, one, tuple(t[k] for t in ts))[1]):
                assert_close(a[k], b, rtol=1e-9 if is_double(args) else 1e-3, what=f"vmap of jvp of {op.id}")
            for a, b in zip(cotangents, vjp(f, *one)[1]([ct[k] for ct in cts])):
                assert_close(a[k], b, rtol=1e-9 if is_double(args) else 1e-3, what=f"vmap of vjp of {op.id}")


# -- programs


@check()
def derived_programs_are_well_formed(op: OpSpec) -> None:
    for args in samples(op):
        positions = op.differentiable(args)
        jaxpr, consts, variables = traced(op, args)
        check_jaxpr(jaxpr)
        n = len(consts)
        mask = tuple([False] * n + [i in positions for i in variables])
        if op.order and positions and has_float_results(op, args):
            check_jaxpr(jvp_jaxpr(jaxpr, mask)[0])
            halves = linearize_jaxpr(jaxpr, mask)
            check_jaxpr(halves.forward)
            check_jaxpr(halves.linear)
            m = len(halves.residuals)
            linear = tuple([False] * m + [True] * (len(halves.linear.inputs) - m))
            check_jaxpr(transpose_jaxpr(halves.linear, linear, (True,) * len(halves.linear.outputs))[0])
        if op.batch:
            check_jaxpr(batch_jaxpr(jaxpr, 3, (False,) * n + (True,) * len(variables))[0])


# -- the tests


# By default second derivatives and batched ones are those of the first sample of every other spec: both are made of the rules
# of primitives, each of which all samples check. Of these specs they take a third of all the time here, and none is checked.
LONG = {"logm", "logm_linear", "carlson_moment", "carlson_moment-2", "sine_moment"}
DERIVED = (second_derivatives, derivatives_batch)
FEW = 1  # sample


class Few:
    """A spec with its first sample only."""

    def __init__(self, op: OpSpec):
        self.op = op

    def __getattr__(self, name: str) -> Any:
        return getattr(self.op, name)

    def samples(self) -> list[tuple]:
        return self.op.samples()[:FEW]


def run_checks(op: OpSpec | Few, chosen: list[Callable[[Any], None]]) -> None:
    """All of these checks, although some may fail; an error names its check."""
    errors: list[Exception] = []
    for function in chosen:
        try:
            function(op)
        except Exception as error:
            error.add_note(f"in the check {function.__name__!r} of {op.id!r}")
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup(op.id, errors)


def has_derived(op: OpSpec) -> bool:
    """Does the quick test check derivatives of derivatives, and batched ones?"""
    return op.id not in LONG and zlib.crc32(op.id.encode()) % 4 == 0


def needs_all(op: OpSpec) -> bool:
    """Has the quick test left out something?"""
    return op.order > 0 and (not has_derived(op) or len(op.samples()) > FEW)


@pytest.mark.filterwarnings("ignore:dtype=>.* is not supported by lfilter")  # SciPy 1.16 says so and goes on
@pytest.mark.share(4)
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_primitive(op: OpSpec) -> None:
    chosen = [function for applies, function in CHECKS if applies(op)]
    run_checks(op, [function for function in chosen if function not in DERIVED])
    if has_derived(op):
        run_checks(Few(op), [function for function in chosen if function in DERIVED])


@pytest.mark.slow
@pytest.mark.parametrize("op", shard([pytest.param(s, id=s.id) for s in SPECS if needs_all(s)]))
def test_long_checks(op: OpSpec) -> None:
    run_checks(op, [function for applies, function in CHECKS if applies(op) and function in DERIVED])
