"""Numbers that a function advances and of which its Python asks: its paths take them as further arguments."""

from __future__ import annotations

import importlib.util
import random
import sys
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funcad import NotCompiledWarning, grad, jit, vmap


class Holder:
    v = 0.0


class State:
    def __init__(self) -> None:
        self.t, self.k, self.best, self.u = 0, 1, 9.0, 2
        self.log: list[Any] = []
        self.d: dict[Any, Any] = {}
        self.o = Holder()

    def told(self) -> str:
        numbers = self.t, self.k, self.best, self.u, self.o.v
        return repr((numbers, self.log, self.d, [type(v).__name__ for v in numbers]))


def every_third(s: State, x: Any) -> Any:
    s.t += 1
    return x * 2.0 if s.t % 3 == 0 else x * s.t


def best_so_far(s: State, x: Any) -> Any:
    if x < s.best:
        s.best = x
        s.k += 1
    return x * 2.0 + s.k


def in_a_text(s: State, x: Any) -> Any:
    s.t += 1
    s.log.append(f"{s.t % 2}")
    return x * s.t


def in_a_loop(s: State, x: Any) -> Any:
    s.t += 1
    for _ in range(s.t % 3):
        x = x * 1.5
    return x


def with_an_error(s: State, x: Any) -> Any:
    s.t += 1
    if s.t % 4 == 0:
        raise ValueError(f"t {s.t}")
    s.k += 1
    return x * s.k


def with_an_error_after_a_print(s: State, x: Any) -> Any:
    s.t += 1
    print("at", s.t)
    if s.t % 4 == 0:
        raise ValueError(f"t {s.t}")
    s.k += 1
    return x * s.k


def only_at_times(s: State, x: Any) -> Any:
    s.t += 1
    return x * s.t if s.u < 2 else x if s.t % 3 == 0 else -x


def says_after_what_it_catches(s: State, x: Any) -> Any:
    s.best = -s.best
    try:
        x = x / (s.t % 2)
    except ZeroDivisionError:
        s.k = 0
    print(s.best, x)
    return x


def stores_and_prints_before_an_error(s: State, x: Any) -> Any:
    s.k = x
    print(s.u, x)
    if s.u > s.k:
        raise ValueError(str(s.u))
    return x


def divides(s: State, x: Any) -> Any:
    s.t += 1
    try:
        return x / (s.t % 3 - 1)
    except ZeroDivisionError:
        return x * 100.0


def outcome(f: Callable[..., Any], s: State, x: Any) -> tuple[str, str]:
    try:
        found = repr(f(x))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    return found, s.told()


ALL = [
    every_third,
    best_so_far,
    in_a_text,
    in_a_loop,
    with_an_error,
    with_an_error_after_a_print,
    only_at_times,
    divides,
    says_after_what_it_catches,
    stores_and_prints_before_an_error,
]


@pytest.mark.parametrize("f", ALL, ids=lambda f: f.__name__)
def test_they_have_paths_and_agree(f: Any, capsys: pytest.CaptureFixture[str]) -> None:
    state, plain = State(), State()
    jitted = jit(types.MethodType(f, state), not_compiled="raise")
    for i in range(30):
        state.u = plain.u = i // 8 % 2 + 1
        x = float(5 - i)
        assert outcome(jitted, state, x) == outcome(types.MethodType(f, plain), plain, x)
        said = capsys.readouterr().out.splitlines()
        assert said[: len(said) // 2] == said[len(said) // 2 :]
    raises_at_first = f is stores_and_prints_before_an_error  # which is not kept, and traced anew
    assert jitted.cache_info().misses <= (15 if raises_at_first else 8)


def test_explain_lists_the_paths_and_the_number() -> None:
    state = State()
    f = jit(types.MethodType(every_third, state))
    for _ in range(9):
        f(1.0)
    found = f.explain(1.0)
    assert [path.conditions[0].answer for path in found.paths] == [False, True]
    assert {"s.t", "self.t"} & {one["what"] for one in found.outside if one["how"] == "read"}
    assert f.cache_info().misses == 2 or f.cache_info().observed


@pytest.mark.parametrize("transform", [
    lambda f: grad(f), lambda f: jit(grad(f)), lambda f: jit(f), lambda f: grad(jit(f)),
    lambda f: jit(lambda x: f(x) + f(2.0 * x)),
    lambda f: grad(lambda x: f(x) * f(x + 1.0)), lambda f: lambda x: vmap(f)(np.array([x, 2.0 * x])).sum(),
], ids=range(7))  # fmt: skip
def test_transformations_advance_it_once_for_each_call(transform: Any) -> None:
    state, plain = State(), State()
    jitted = transform(jit(types.MethodType(every_third, state)))
    wanted = transform(types.MethodType(every_third, plain))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for i in range(12):
            np.testing.assert_allclose(jitted(1.5 + i), wanted(1.5 + i), rtol=1e-14)
            assert state.t == plain.t


def test_threads_lose_no_count() -> None:
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # one thread traces what another one traces, or calls
    try:
        for _ in range(6):
            state = State()
            f = jit(types.MethodType(every_third, state), not_compiled="raise")
            with ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda _: [f(1.0) for _ in range(50)], range(8)))  # noqa: B023 it has ended
            assert state.t == 400
    finally:
        sys.setswitchinterval(often)


def test_what_is_read_as_a_whole_is_not_taken() -> None:
    state, plain = State(), State()

    def f(s: State, x: Any) -> Any:
        s.log[s.t % 3] = x
        s.t += 1
        return sum(s.log) * 1.0

    state.log, plain.log = [0.0] * 3, [0.0] * 3
    jitted = jit(types.MethodType(f, state))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for i in range(20):
            assert outcome(jitted, state, float(i)) == outcome(types.MethodType(f, plain), plain, float(i))
    assert len([w for w in said if w.category is NotCompiledWarning]) == 1


class Tagged:
    def __init__(self) -> None:
        self.generator, self.tags, self.n = np.random.default_rng(5), {}, 0

    def step(self, x: Any) -> Any:
        t = x + self.generator.normal()
        self.tags = {**self.tags, self.n: t}
        self.n += 1
        return t


def test_a_draw_before_what_a_trace_refuses_is_made_once() -> None:
    plain, tagged = Tagged(), Tagged()
    jitted = jit(tagged.step, not_compiled="ignore")
    assert [jitted(0.0) for _ in range(6)] == [plain.step(0.0) for _ in range(6)]
    assert tagged.tags == plain.tags and tagged.n == 6


# -- programs that are made at random

NAMES = ["s.t", "s.k", "s.best", "s.u"]
LINES = [
    "{a} += 1", "{a} = {b} + 1", "{a} = y", "y = y + {a}", "if {a} % 3 == 0:\n  y = y * 2.0\n  {b} += 1", "{a} = -{a}",
    "if y < {a}:\n  {a} = y\n  y = y - 1.0", "y = y + len(f'{{{a}}}')", "for _ in range(int({a}) % 3):\n  y = y + {b}",
    "s.log.append({a})", "if {a} > {b}:\n  raise ValueError(str({a}))", "s.d[int({a}) % 3] = {b}", "print({a}, y)",
    "y = y + s.d.get(int({a}) % 2, 0.0)", "y = y + max({a}, {b})", "s.o.v = {a}\n y = y + s.o.v",
    "w = [{a}, {b}]\n w.sort()\n y = y + w[0]",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    body = [rng.choice(LINES).format(a=rng.choice(NAMES), b=rng.choice(NAMES)) for _ in range(rng.randint(2, 6))]
    (path := tmp_path / f"advancing_{seed}.py").write_text("\n ".join(["def f(s, x):", "y = x * 1.0", *body, "return y\n"]))
    spec: Any = importlib.util.spec_from_file_location(path.stem, path)
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    state, plain = State(), State()
    jitted = jit(types.MethodType(module.f, state), not_compiled="ignore")
    for _ in range(12):
        x, found = rng.randint(-3, 5) / 2.0, []
        for f, s in ((jitted, state), (types.MethodType(module.f, plain), plain)):
            found.append((outcome(f, s, x), capsys.readouterr().out))
        assert found[0] == found[1], path.read_text()
