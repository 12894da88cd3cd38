"""Random programs on every engine: tests/random_programs.py draws them, tests/fuzzing.py runs and compares them.

By default 200 small programs each for the NumPy engine, the same in tiny tiles, native programs and native kernels
(compiling costs more than running) and a few large ones. `pytest -m slow` runs FUNCAD_FUZZ_PROGRAMS others (20,000) on every
engine, or as many as FUNCAD_FUZZ_SECONDS allow; FUNCAD_SLOW_SHARD=k/n an n-th of them. A failure names its seed and prints the
program made small. The last tests plant bugs, to see that the fuzz finds them: a test that cannot fail is worthless.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.native import target
from funcad.passes import pipeline
from funcad.passes.pipeline import copy_aliased_outputs, optimize
from funcad.primitives.transcendental import arctan2
from tests.fuzzing import ENGINES, NATIVE, Mismatch, check, check_case, compiled, minimised
from tests.random_programs import Case, random_case, trace
from tests.rounding import Bound, bounds_of, disagreement, reference

pytestmark = pytest.mark.filterwarnings("ignore")
native_only = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))
BLOCK = 12
FIRST = 1_000_000  # seed of the slow run
NUMPY = ("numpy", "tiny")


def some(first: int, count: int, engines: Sequence[str], big: bool = False) -> None:
    for seed in range(first, first + count):
        check_case(random_case(seed, big), engines)


FIRSTS = [*range(0, 96, BLOCK), *[pytest.param(n, marks=pytest.mark.slow) for n in range(96, 400, BLOCK)]]


@pytest.mark.share(8)
@pytest.mark.parametrize("first", FIRSTS)
def test_numpy_engine(first: int) -> None:
    some(first, BLOCK, ["numpy" if first % (2 * BLOCK) else "tiny"])


@pytest.mark.share(8)
@native_only
@pytest.mark.parametrize("first", FIRSTS)
def test_native_engine(first: int) -> None:
    some(first, BLOCK, ["native" if first % (2 * BLOCK) else "kernels"])


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "engine", ["numpy", pytest.param("native", marks=native_only), pytest.param("kernels", marks=native_only)]
)
def test_large_programs(engine: str) -> None:
    """1e5 elements and more: tiles, threads, pooled memory."""
    some(0, 6, [engine], big=True)


def seeds_of_this_run() -> Iterator[int]:
    """This shard's part of the FUNCAD_FUZZ_PROGRAMS programs; without end while FUNCAD_FUZZ_SECONDS have not passed."""
    shard, shards = map(int, os.environ.get("FUNCAD_SLOW_SHARD", "1/1").split("/"))
    seconds = os.environ.get("FUNCAD_FUZZ_SECONDS")
    if seconds is None:
        yield from range(FIRST + shard - 1, FIRST + int(os.environ.get("FUNCAD_FUZZ_PROGRAMS", "20000")), shards)
        return
    until = time.monotonic() + float(seconds)
    for seed in itertools.count(FIRST + shard - 1, shards):
        if time.monotonic() > until:
            return
        yield seed


@pytest.mark.slow
def test_many_programs() -> None:
    engines = ENGINES if target.available() else NUMPY
    for seed in seeds_of_this_run():
        check_case(random_case(seed), engines)
        if seed % 40 == 0:
            check_case(random_case(seed, big=True), [e for e in engines if e != "tiny"])


def test_what_takes_too_much_memory_is_no_program() -> None:
    """Nobody reads the rows, but the reference would make them: 2.4 GB, and the bounds of rounding as many four times over."""
    x, i = np.ones((40, 50, 60), "c8"), np.zeros(100_000, int)
    assert check_case(Case(lambda x, i: (x[i], x[0])[1], (x, i), "too large"), NUMPY) is None


def test_the_shards_share_the_programs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FUNCAD_FUZZ_SECONDS", raising=False)
    monkeypatch.setenv("FUNCAD_FUZZ_PROGRAMS", "50")
    found = []
    for shard in range(1, 8):
        monkeypatch.setenv("FUNCAD_SLOW_SHARD", f"{shard}/7")
        found += seeds_of_this_run()
    assert sorted(found) == list(range(FIRST, FIRST + 50))
    monkeypatch.setenv("FUNCAD_FUZZ_SECONDS", "0")
    assert not list(seeds_of_this_run())


# ---------------------------------------------------------------- is this a test?


@pytest.mark.slow
def test_most_results_are_compared_closely() -> None:
    """The bounds are not so wide that everything passes."""
    limits = {4: 0.25, 64: 0.12, 1e6: 0.08}  # times eps: this part of a result may be allowed more, or not compared
    loose = dict.fromkeys(limits, 0.0)
    results = 0
    for seed in range(150):
        try:
            jaxpr, values = trace(random_case(seed))
            expected = reference(jaxpr, values)
        except (TypeError, ValueError, IndexError):
            continue
        for x, bound in zip(map(np.asarray, expected), bounds_of(jaxpr, values, expected)):
            if x.dtype == object or not x.size:
                continue
            results += 1  # each once, however many elements it has: one large array decides nothing
            size = np.where(np.isfinite(x) & (x != 0), np.abs(x), 1)
            eps = np.finfo(x.dtype).eps if x.dtype.kind in "fc" else 1.0
            for limit in limits if not bound.exact else ():
                loose[limit] += float(np.mean(~bound.pattern | (bound.allowed > limit * eps * size)))
    assert results > 200
    assert all([loose[limit] < part * results for limit, part in limits.items()]), (results, loose)


@pytest.mark.parametrize("f", [np.sin, np.exp, np.tanh, np.log1p, np.arctan, np.log], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_one_function_is_held_to_four_units(f: Any, dtype: str) -> None:
    x = np.linspace(0.1, 5.0, 200).astype(dtype)
    jaxpr, values = trace(Case(f, (x,), ""))
    expected = reference(jaxpr, values)
    (bound,) = bounds_of(jaxpr, values, expected)
    y = expected[0]
    unit = np.spacing(np.abs(y))
    assert np.all(bound.allowed <= 4.5 * unit) and np.all(bound.allowed >= unit)
    near, far = y.copy(), y.copy()
    near[7] += 2 * unit[7]
    far[7] += 6 * unit[7]
    assert disagreement(near, y, bound) is None and disagreement(far, y, bound) is not None


def test_what_no_noise_reaches_is_exact() -> None:
    x = np.linspace(0.1, 5.0, 20)
    jaxpr, values = trace(Case(lambda x: (np.sin(x), x * 3.0), (x,), ""))
    expected = reference(jaxpr, values)
    bounds = bounds_of(jaxpr, values, expected)
    assert disagreement(np.nextafter(expected[0], 9.0), expected[0], bounds[0]) is None
    assert disagreement(np.nextafter(expected[1], 99.0), expected[1], bounds[1]) is not None


def test_a_disagreement_is_seen() -> None:
    x = np.array([1.0, -0.0, np.nan, np.inf])
    exact = Bound(x, [], True)
    assert disagreement(x.copy(), x, exact) is None
    for i, wrong in enumerate([np.nextafter(1.0, 2.0), 0.0, 1.0, -np.inf]):
        y = x.copy()
        y[i] = wrong
        assert disagreement(y, x, exact) is not None
    assert disagreement(x.astype(np.float32), x, exact) is not None
    assert disagreement(x[0], x, exact) is not None
    noise = Bound(x, [x * (1 + 1e-15), x * (1 - 1e-15)], False)
    assert disagreement(x * (1 + 8e-16), x, noise) is None
    assert disagreement(x * (1 + 8e-15), x, noise) is not None
    assert disagreement(np.array([1.0, -0.0, np.inf, np.inf]), x, noise) is not None
    assert disagreement(np.array([1, 2]), np.array([1, 3]), Bound(np.array([1, 3]), [np.array([1, 3])], False)) is not None


def finds(engines: Sequence[str], seeds: int = 300) -> str:
    """The report of the first failure among some programs."""
    for seed in range(seeds):
        try:
            check_case(random_case(seed), engines)
        except Mismatch as error:
            return str(error)
    return ""


def test_planted_bug_in_the_copies_of_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "sub", arctan2)
    report = finds(["numpy"], 400)
    assert "instead of" in report and re.search(r"seed \d+, engine numpy: Mismatch", report)


@pytest.mark.slow
def test_planted_bug_in_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    import funcad.passes.pipeline as pipeline

    def swapped(jaxpr: Any) -> Any:
        equations = [
            e._replace(inputs=e.inputs[::-1]) if e.primitive.name in ("sub", "maximum", "lt") else e for e in jaxpr.equations
        ]
        return type(jaxpr)(jaxpr.inputs, tuple(equations), jaxpr.outputs)

    monkeypatch.setattr(pipeline, "PIPELINE", (*pipeline.PIPELINE, swapped))
    assert "instead of" in finds(["numpy"])


@pytest.mark.slow
@native_only
def test_planted_bug_in_an_emitter_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    from funcad.backends.native.emitter import Emitter

    base, wrong = Emitter.base, {"gt": "lt", "lt": "gt", "exp": "expm1"}
    monkeypatch.setattr(Emitter, "base", lambda e, name, *rest: base(e, wrong.get(name, name), *rest))
    assert "instead of" in finds(["native"])
    assert "instead of" in finds(["kernels"])


def test_minimised_program_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    import funcad.passes.pipeline as pipeline

    def wrong(jaxpr: Any) -> Any:
        equations = [e._replace(inputs=(e.inputs[1], e.inputs[0])) if e.primitive.name == "div" else e for e in jaxpr.equations]
        return type(jaxpr)(jaxpr.inputs, tuple(equations), jaxpr.outputs)

    monkeypatch.setattr(pipeline, "PIPELINE", (*pipeline.PIPELINE, wrong))

    def f(x: Any, y: Any) -> Any:
        z = np.sin(x) + y
        for _ in range(5):
            z = np.tanh(z) * x
        return np.exp(z / y) - x, z

    jaxpr, values = trace(Case(f, (np.array([1.0, 2.0]), np.array([3.0, 0.5])), ""))
    small, inputs = minimised(jaxpr, values, "numpy")
    assert [e.primitive.name for e in small.equations] == ["div"] and len(inputs) == 2


# ---------------------------------------------------------------- what the fuzz has found

engines = pytest.mark.parametrize("engine", [pytest.param(e, marks=[native_only] if e in NATIVE else []) for e in ENGINES])


def on(engine: str, f: Callable[..., Any], *args: Any) -> None:
    jaxpr, values = trace(Case(f, args, ""))
    check(jaxpr, values, engine)


@engines
def test_arrays_of_the_other_byte_order(engine: str) -> None:
    x = np.arange(6.0).reshape(2, 3).astype(">f8" if np.little_endian else "<f8")
    on(engine, lambda x: (np.sum(x), np.prod(x, axis=0), np.cumsum(x), np.mean(x), np.einsum("ij,kl->ij", x, x)), x)


@engines
def test_a_broadcast_that_an_operation_reads_twice(engine: str) -> None:
    x = np.arange(6.0).reshape(2, 3)
    on(engine, lambda x: (lambda b: (np.argmin(b, axis=2), np.multiply(b, b), b))(np.broadcast_to(np.sin(x), (2, 2, 3))), x)


@engines
@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * 1.0,
        lambda x: (x - 0.0, x - 0.0),
        lambda x: (np.where(x > 0, x, x), x.T * 1.0),
        lambda x: (lambda y: (y, y, y.T))(x / 1.0),
        lambda x: np.broadcast_to(x[0, 0], (2, 3)) * 1.0,
        lambda x: funcad.scan(lambda c, v: (c + v, x), x[0], x)[1],
        lambda x: funcad.checkpoint(lambda y: np.where(y > 0, x, x))(x),
        lambda x: (np.sin(x), np.sin(x)),
        lambda x: funcad.scan(lambda c, _: (np.sin(c),) * 2, funcad.scan(lambda c, v: (c + v, x[1]), x[0], x[:1])[1], length=0),
    ],
)
def test_results_are_arrays_of_their_own(f: Any, engine: str) -> None:
    """The caller may write into a result: neither an argument nor another result is the same memory."""
    x = np.arange(6.0).reshape(2, 3)
    on(engine, f, x)
    jaxpr, values = trace(Case(f, (x,), ""))
    results = compiled(jaxpr, engine).run(list(values))
    before = np.array(x)
    for r in results:
        r *= 2.0
    assert np.array_equal(x, before)


def test_views_that_were_asked_for_stay_views() -> None:
    jaxpr = funcad.jit(lambda x: (x[1:], x.T, x)).lower(np.ones((2, 3))).jaxpr
    assert copy_aliased_outputs(jaxpr, optimize(jaxpr)) is optimize(jaxpr)


def test_planted_bug_in_the_generated_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result of an earlier run is reused as scratch memory."""
    from funcad.backends import emission

    kept: dict[Any, np.ndarray] = {}

    def shared(shape: Any, dtype: Any = float, *args: Any) -> np.ndarray:
        key = (shape if isinstance(shape, tuple) else (shape,), np.dtype(dtype))
        return kept.setdefault(key, np.empty(shape, dtype))

    monkeypatch.setattr(emission, "empty", shared)
    assert finds(["tiny"])
