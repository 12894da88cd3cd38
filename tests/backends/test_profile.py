"""`jit(f).explain` and `jit(f).profile`: what they say is true of the program, on every engine; no measured time is judged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import profile as profiling
from funcad.backends.native import target
from tests.programs import PROGRAMS
from tests.show.test_sight import read
from tests.standin import registered, to_device

SPEC = funcad.ShapeDtypeStruct


@pytest.fixture(params=["interpreter", "numpy", "native"])
def engine(request: Any) -> Iterator[str]:
    if request.param == "native":
        pytest.importorskip("llvmlite")
    with funcad.config.set(engine=request.param):
        yield request.param


@pytest.fixture(autouse=True)
def quick(monkeypatch: Any) -> None:
    monkeypatch.setattr(profiling, "BUDGET", 0.02)
    monkeypatch.setattr(profiling, "SHORT", 1e-6)


def cross_entropy(params: Any, x: Any, y: Any) -> Any:
    z = x @ params["w"] + params["b"]
    z = z - np.max(z, axis=-1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(z), axis=-1)) - np.sum(z * y, axis=-1))


def arguments(n: int) -> tuple:
    random = np.random.default_rng(0)
    return {"w": random.normal(size=(6, 4)), "b": np.zeros(4)}, random.normal(size=(n, 6)), np.eye(4)[np.arange(n) % 4]


def recurrence(w: Any, xs: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        wave = np.sin(w * carry + x)
        return np.tanh(wave), wave

    return np.sum(funcad.scan(step, np.zeros(3), xs)[1])


def names_of(lines: Any) -> set[str]:
    return {line.source.partition(" ")[2] for line in lines}


# -- explain


def test_explain_says_which_engine_and_why(engine: str) -> None:
    funcad.clear_caches()  # or the function has programs of other sizes, and this one waits before it becomes native
    found = funcad.jit(cross_entropy).explain(*arguments(5))
    assert found.engine == engine
    assert str(found).startswith(f"jit of cross_entropy: engine {engine} ({found.why})")
    assert found.why == {
        "interpreter": "config.engine is 'interpreter'",
        "numpy": "config.engine is 'numpy'",
        "native": "the whole program is one native function",
    }[engine]


def test_explain_names_groups_with_their_lines(engine: str) -> None:
    specs = funcad.tree.map(lambda x: SPEC(x.shape, x.dtype), arguments(200_000))  # no data is needed
    found = funcad.jit(cross_entropy).explain(*specs)
    if engine == "interpreter":
        assert not found.groups and "run as they were traced" in str(found)
        return
    (group,) = found.groups
    assert found.engine == "numpy" and group["engine"] == engine  # too much work for one native function
    assert group["kind"] == "rows" and group["shape"] == (200_000, 4)
    assert {"exp", "log", "reduce_max", "reduce_sum"} <= set(group["operations"])
    assert len(group["lines"]) == 3 and all("(cross_entropy)" in line for line in group["lines"])
    assert f"rows 200000x4, {engine}: " in str(found)
    assert {"operation": "dot_general", "why": "a matrix product: BLAS is better alone"}.items() <= found.alone[0].items()
    if engine == "native":
        assert "native kernels for 1 of 1 groups" in found.why and "outside loops" in found.reasons[0]


def test_explain_counts_equations(engine: str) -> None:
    before, after = funcad.jit(lambda x: np.exp(x) + np.exp(x)).explain(np.ones(3)).counts
    assert before == 3 and after == (3 if engine == "interpreter" else 2)


def test_explain_looks_into_loops(engine: str) -> None:
    found = funcad.jit(lambda w, xs: recurrence(w, xs)).explain(0.5, np.ones((4, 3)))  # whose only size this is
    if engine == "native":
        assert [(g["inside"], g["kind"]) for g in found.groups] == [("", "whole program"), ("scan > ", "body")]
        assert "tanh" in found.groups[1]["operations"]
    elif engine == "numpy":
        assert [g["kind"] for g in found.groups if g["inside"] == "scan > " and "tanh" in g["operations"]] == ["elementwise"]
        assert "see inside" in next(a["why"] for a in found.alone if a["operation"] == "scan")


def test_explain_without_llvmlite(monkeypatch: Any) -> None:
    monkeypatch.setattr(target, "_verdict", "llvmlite is not installed (pip install llvmlite)")
    with funcad.config.set(engine="auto"):
        found = funcad.jit(lambda x: np.sin(x) * x).explain(np.ones(3))
    assert found.engine == "numpy" and "pip install llvmlite" in found.why
    assert [g["engine"] for g in found.groups] == ["numpy"]


def test_explain_merges_equal_rows_and_tells_of_fast_math() -> None:
    def f(x: Any) -> Any:
        for _ in range(5):
            x = x @ x
        return x

    with funcad.config.set(engine="numpy"):
        found = funcad.jit(f, fast_math=True).explain(np.ones((2, 2)))
    assert len(found.alone) == 5 and str(found).count("dot_general") == 1 and "5 x dot_general" in str(found)
    assert "fast_math" in str(found).splitlines()[0]


def test_explain_of_effects_and_statics() -> None:
    def f(x: Any, n: int) -> Any:
        funcad.debug.print("x is {}", x)
        return x * n

    with funcad.config.set(engine="numpy"):
        found = funcad.jit(f, static_argnums=1).explain(np.ones(3), 2)
    assert "has effects, which keep their order" in [a["why"] for a in found.alone]


@pytest.mark.parametrize("method", ["explain", "profile"])
def test_what_is_no_array_is_refused_as_by_a_call(method: str) -> None:
    jitted = funcad.jit(lambda x, y: x)
    with pytest.raises(TypeError) as called:
        jitted(1.0, {"a": "text"})
    with pytest.raises(TypeError) as asked:
        getattr(jitted, method)(1.0, {"a": "text"})
    assert str(asked.value) == str(called.value)


# -- profile


def test_profile_tells_equations_and_lines(engine: str) -> None:
    found = funcad.jit(funcad.grad(cross_entropy)).profile(*arguments(50))
    assert found.engine == engine and found.seconds > 0 and found.parts > 0
    assert names_of(found.lines) >= {"(cross_entropy)"} and len([e for e in found.lines if "(cross_entropy)" in e.source]) == 3
    assert sum([line.seconds for line in found.lines]) == pytest.approx(found.parts)
    assert sum([line.flops for line in found.lines]) == pytest.approx(sum([line.flops for line in found.equations]))
    products = [e for e in found.equations if e.what == "dot_general"]
    assert [e.flops for e in products] == [2 * 50 * 6 * 4] * 2 and products[0].bytes == 8 * (50 * 6 + 6 * 4 + 50 * 4)
    assert found.peak >= 8 * (50 * 6 + 50 * 4) and found.peak == max([e.live for e in found.equations])
    assert {e.engine for e in found.equations} <= {engine, "numpy"}
    assert "by line:" in str(found) and "dot_general" in str(found)


def test_profile_shares_the_time_of_a_loop_out_to_its_body(engine: str) -> None:
    found = funcad.jit(recurrence).profile(0.5, np.ones((20, 3)))
    scan = next(e for e in found.equations if e.what == "scan")
    body = [e for e in found.equations if e.inside == "scan > "]
    work = profiling.TRANSCENDENTAL * 20 * 3
    assert sum([e.flops for e in body if "tanh" in e.what or "sin" in e.what]) >= 2 * work  # one group, or two operations
    assert sum([e.seconds for e in body]) == pytest.approx(scan.seconds)
    assert "(step)" in names_of(found.lines)
    assert sum([line.seconds for line in found.lines]) == pytest.approx(found.parts)


def test_profile_enters_while_loops_and_branches(engine: str) -> None:
    def f(x: Any) -> Any:
        x = funcad.while_loop(lambda y: np.sum(y) < 100.0, lambda y: y * 1.5, x)
        return funcad.cond(x[0] > 0, lambda y: np.exp(-y), lambda y: y * y * y, x)

    found = funcad.jit(f).profile(np.ones(4))
    turns = [e for e in found.equations if e.inside == "while_loop > " and "mul" in e.what]
    assert sum([e.flops for e in turns]) == 8 * 4  # 1.5**8 * 4 > 100
    branch = [e.what for e in found.equations if e.inside == "cond > "]
    assert any(["exp" in what for what in branch]) and not any(["mul" in what for what in branch])


def test_profile_of_nested_loops_and_of_no_turns(engine: str) -> None:
    def rows(xs: Any) -> Any:
        inner = lambda c, x: (c + np.sin(x), c)
        return funcad.scan(lambda c, x: (funcad.scan(inner, c, x)[0], c), 0.0, xs)

    found = funcad.jit(rows).profile(np.ones((3, 5)))
    assert next(e for e in found.equations if "sin" in e.what).flops >= 15 * profiling.TRANSCENDENTAL
    found = funcad.jit(rows).profile(np.ones((0, 5)))
    assert not [e for e in found.equations if e.inside]


def test_profile_leaves_arguments_alone(engine: str) -> None:
    random = np.random.default_rng(0)
    x, y, captured = random.normal(size=(40, 30)), random.normal(size=(30, 40)).T, random.normal(size=30)
    before = x.copy(), y.copy(), captured.copy()
    jitted = funcad.jit(lambda x, *, y: {"a": (x * 2.0 + captured) * y, "b": x + 1.0}, donate_argnums=0)
    for _ in range(3):
        jitted.profile(x, y=y)
    assert all(map(np.array_equal, (x, y, captured), before)) and x.flags.writeable
    assert np.array_equal(jitted(x.copy(), y=y)["a"], (before[0] * 2.0 + captured) * y)


def test_profile_of_tiny_programs(engine: str) -> None:
    for f, args in ((lambda x: x, (1.0,)), (lambda: 3.0, ()), (lambda x: x + 1, (2,)), (lambda x: np.sum(x), (np.ones(0),))):
        found = funcad.jit(f).profile(*args)
        read(found._repr_html_())
        assert str(found).startswith("jit of <lambda>: ") and found.seconds > 0


def test_profile_of_long_programs_shows_what_matters(engine: str) -> None:
    def f(x: Any) -> Any:
        for i in range(120):
            x = np.sort(x * (i + 2.0))
        return x

    found = funcad.jit(f).profile(np.ones(8))
    assert len(found.equations) == 240 and len(str(found).splitlines()) < 60 and "and 200 more" in str(found)


def test_what_has_effects_runs_once(engine: str) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        funcad.debug.callback(lambda v: seen.append(float(v)), x)
        funcad.scan(lambda c, v: (funcad.debug.callback(lambda u: seen.append(float(u)), v), c)[1:] * 2, 0.0, np.arange(3.0))
        return np.sin(x)

    found = funcad.jit(f).profile(5.0)
    assert seen == [5.0, 0.0, 1.0, 2.0]
    assert found.seconds == found.parts > 0 and "ran once" in str(found)


def test_profile_needs_values() -> None:
    jitted = funcad.jit(np.sin)
    with pytest.raises(TypeError, match=r"it needs arrays; got a float64 array of shape \(3,\)"):
        jitted.profile(SPEC((3,), np.float64))
    with pytest.raises(TypeError, match="it needs arrays"):
        funcad.vmap(lambda x: jitted.profile(x).seconds)(np.ones(3))


def test_errors_name_the_line(engine: str) -> None:
    with pytest.raises(IndexError) as raised:
        funcad.jit(lambda x, i: x[i]).profile(np.ones(3), np.array([5]))
    assert "test_profile.py" in "".join(raised.value.__notes__)


def test_no_warnings(engine: str) -> None:
    funcad.jit(lambda x: np.log(x) / x + np.sum(np.sqrt(x - 1.0))).profile(np.zeros(2000))


def test_on_a_device() -> None:
    with registered(), funcad.config.set(engine="auto"):
        x = to_device(np.ones(3))
        jitted = funcad.jit(lambda x: np.sin(x) * 2.0)
        explanation = jitted.explain(x)
        profile = jitted.profile(x)
        assert explanation.engine == profile.engine == "cupy"
        assert {e.engine for e in profile.equations} == {"cupy"} and {e.what for e in profile.equations} == {"sin", "mul"}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.f.__name__)
def test_every_program(program: Any) -> None:
    if program.following:
        pytest.skip("follows values: not for jit")
    with funcad.config.set(engine="numpy"):
        try:
            explanation = funcad.jit(program.f).explain(*program.make_args())
        except (TypeError, ValueError):
            return  # takes Python values that are not arrays
        read(explanation._repr_html_())
        found = funcad.jit(program.f).profile(*program.make_args())
    read(found._repr_html_())
    assert found.seconds > 0 and str(found) and str(explanation)
    assert sum([line.seconds for line in found.lines]) == pytest.approx(found.parts)
