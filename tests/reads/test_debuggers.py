"""Debuggers, tracers, profilers and notebooks beside a function that is traced: nobody is disturbed, no answer is another."""

from __future__ import annotations

import ast
import cProfile
import importlib
import linecache
import subprocess
import sys
import textwrap
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit
from funcad.host.where import state
from tests.jitted.captured_cases import module
from tests.unseen import unseen

X = np.array([1.0, 2.0])
MONITORED = sys.version_info >= (3, 12)


def disturbed() -> list[Any]:
    """What a trace may not leave changed."""
    tools = [sys.monitoring.get_tool(i) for i in range(6)] if MONITORED else []  # type: ignore[attr-defined]
    return [sys.getprofile(), sys.gettrace(), state.observer, state.abstract, threading.getprofile(), *tools]


@pytest.fixture(autouse=True)
def _undisturbed() -> Iterator[None]:
    before = disturbed()
    yield
    assert disturbed() == before


# -- pdb

_STOPPED = """
import types, warnings
import numpy as np
from funcad import jit
o = types.SimpleNamespace(k=2.0)
def helper(y):
    z = y * o.k
    return z + 1.0
def f(x):
    a = x * 2.0
    b = helper(a)
    return b - a
g = jit(f)
for i in range(3):
    o.k = 2.0 + i
    print("result", g(np.ones(2)))
"""


def debugged(tmp_path: Path, text: str, commands: list[str], *arguments: str) -> str:
    path = tmp_path / "stopped.py"
    path.write_text(text)
    root = str(Path(funcad.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *arguments, str(path)],
        input="\n".join([*commands, ""]),
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": root, "HOME": str(tmp_path), "PATH": ""},
    )
    return done.stdout + done.stderr


def test_a_breakpoint_of_pdb(tmp_path: Path) -> None:
    commands = ["b 7", "b 11", "c", "p list(locals())", "n", "n", "p list(locals())", "u", "p 'a' in locals(), 'b' in locals()"]
    found = debugged(tmp_path, _STOPPED, [*commands, "cl 1", "cl 2", "c", "q"], "-m", "pdb")
    assert "stopped.py(11)f()\n-> b = helper(a)\n(Pdb) ['x', 'a']" in found, found
    assert "stopped.py(7)helper()\n-> z = y * o.k" in found
    assert "['y', 'z']" in found or "['y']" in found
    assert "(True, False)" in found
    assert [line for line in found.splitlines() if "result [" in line.replace("(Pdb) ", "")] and "result [3. 3.]" in found
    assert "result [5. 5.]" in found and "result [7. 7.]" in found
    assert "twin" not in found.replace(str(tmp_path), "")


def test_a_breakpoint_in_the_text_stops_at_each_call(tmp_path: Path) -> None:
    text = _STOPPED.replace("    b = helper(a)", "    breakpoint()\n    b = helper(a)")
    found = debugged(tmp_path, text, ["p a.tolist()", "c"] * 3)
    assert found.count("[2.0, 2.0]") == 3, found
    assert all([f"result [{k}. {k}.]" in found for k in (3, 5, 7)])
    assert found.count("NotCompiledWarning: jit of f is not compiled: breakpoint stops at each call") == 1


# -- tracers, coverage and profilers

_COVERED = """
import types
o = types.SimpleNamespace(k=2.0)
def helper(y):
    total = y
    for i in range(2):
        if i:
            total = total * o.k
    return total
def f(x):
    try:
        a = [1.0][3]
    except IndexError:
        a = 2.0
    finally:
        b = a + 1.0
    c = helper(
        x * b
    )
    return (lambda y: y - 1.0)(c)
"""


@contextmanager
def traced_lines(made: Any) -> Iterator[set[int]]:
    found: set[int] = set()

    def told(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != made.f.__code__.co_filename:
            return None
        if event == "line":
            found.add(frame.f_lineno)
        return told

    before = sys.gettrace()
    sys.settrace(told)
    try:
        yield found
        assert sys.gettrace() is told
    finally:
        sys.settrace(before)


@contextmanager
def monitored_lines(made: Any) -> Iterator[set[int]]:
    """As coverage does from Python 3.14 on."""
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    found: set[int] = set()

    def told(code: Any, line: int) -> Any:
        if code.co_filename != made.f.__code__.co_filename:
            return monitoring.DISABLE
        found.add(line)
        return None

    monitoring.use_tool_id(monitoring.COVERAGE_ID, "mine")
    try:
        monitoring.register_callback(monitoring.COVERAGE_ID, monitoring.events.LINE, told)
        monitoring.set_events(monitoring.COVERAGE_ID, monitoring.events.LINE)
        yield found
        assert monitoring.get_tool(monitoring.COVERAGE_ID) == "mine"
        assert monitoring.get_events(monitoring.COVERAGE_ID) == monitoring.events.LINE
    finally:
        monitoring.set_events(monitoring.COVERAGE_ID, 0)
        monitoring.free_tool_id(monitoring.COVERAGE_ID)


@pytest.mark.parametrize("way", [traced_lines, *([monitored_lines] if MONITORED else [])])
def test_lines_are_covered_as_without_jit(way: Callable[[Any], Any]) -> None:
    found = []
    for make in (lambda f: f, jit):
        made = module(_COVERED)
        f = make(made.f)
        with way(made) as lines:
            for k in (2.0, 3.0, 3.0):
                made.o.k = k
                np.testing.assert_array_equal(f(X), X * 3.0 * k - 1.0)
        found.append(lines)
    assert found[0] == found[1] and len(found[0]) > 10


def test_what_a_profiler_sees() -> None:
    made = module(_COVERED)
    f, profiler = jit(made.f), cProfile.Profile()
    for k in (2.0, 3.0, 3.0):
        made.o.k = k
        profiler.enable()
        try:
            found = f(X)
        finally:
            profiler.disable()
        np.testing.assert_array_equal(found, X * 3.0 * k - 1.0)
    names = [
        getattr(entry.code, "co_name", "") for entry in profiler.getstats() if made.f.__code__.co_filename in str(entry.code)
    ]
    assert {"f", "helper"} <= set(names)


def test_a_profile_function_of_the_users_stays_and_sees_everything() -> None:
    """On Python 3.11 there is no net then: what code that has no twin reads is found by the walk."""
    made = module(_COVERED)
    by_a_library = funcad.custom_jvp(lambda x: x * made.o.k)
    by_a_library.defjvp(lambda primals, tangents: (by_a_library(*primals), tangents[0] * made.o.k))
    f, seen = jit(lambda x: made.f(x) + by_a_library(x)), []
    slope = jit(grad(lambda x: np.sum(by_a_library(x))))

    def told(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(told)
    try:
        for k in (2.0, 3.0, 3.0, 4.0, 5.0):
            made.o.k = k
            np.testing.assert_array_equal(f(X), X * 3.0 * k - 1.0 + X * k)
            np.testing.assert_array_equal(slope(X), [k, k])
        assert sys.getprofile() is told
    finally:
        sys.setprofile(None)
    assert "helper" in seen


# -- two at once


def test_two_threads_that_trace_at_once_see_their_own() -> None:
    both, found, errors = threading.Barrier(2, timeout=60), {}, []

    def work(name: str, k: float) -> None:
        o = types.SimpleNamespace(k=k, n=0, log=[], name=name)

        def f(x: Any) -> Any:
            o.n += 1
            waits()
            o.log.append(x[0] * o.k)
            waits()
            return x * o.k + o.n

        def plain(x: Any) -> Any:
            return x * o.k + (o.n + 1)

        waits = unseen(lambda: both.wait() if next(turns) < 2 else None)
        turns, g = iter(range(1000)), jit(f)
        try:
            for i in range(8):
                o.k = k + i
                expected = plain(X)
                np.testing.assert_array_equal(g(X), expected)
            found[name] = o.n, [float(v) for v in o.log], g.cache_info().misses
        except BaseException as error:
            errors.append(error)
            both.abort()

    threads = [threading.Thread(target=work, args=(name, k)) for name, k in (("a", 10.0), ("b", 200.0))]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not errors, errors
    for name, k in (("a", 10.0), ("b", 200.0)):
        assert found[name][:2] == (8, [k + i for i in range(8)])


# -- interrupted


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("where", ["in f", "in a helper", "in a library", "in a gradient"])
def test_what_stops_a_trace_leaves_nothing_behind(error: type[BaseException], where: str) -> None:
    o = types.SimpleNamespace(n=0, k=2.0, stop=True)

    def stop(*_: Any) -> int:
        if o.stop:
            raise error("stopped")
        return 0

    def f(x: Any) -> Any:
        o.n += 1
        if where == "in f" and o.stop:
            raise error("stopped")
        if where == "in a helper":
            stop()
        if where == "in a library":
            sorted([1, 2], key=stop)
        if where == "in a gradient":
            return grad(lambda y: np.sum(y * y) * o.k + stop())(x) * 0.5
        return x * o.k

    g, before = jit(f), disturbed()
    for i in range(2):
        with pytest.raises(error, match="stopped"):
            g(X)
        assert disturbed() == before
        assert o.n in (0, i + 1)  # what an error leaves is what un-jitted leaves; what interrupts may come at any place
    o.stop, begun = False, o.n
    for i in range(5):
        o.k = 3.0 + i
        np.testing.assert_array_equal(g(X), X * o.k)
        assert o.n == begun + i + 1


# -- notebooks


def cell(names: dict[str, Any], filename: str, text: str, stored: bool = True) -> None:
    """Run a cell as IPython does: its text lies in linecache, under a name that is no file's."""
    text = textwrap.dedent(text)
    if stored:
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), names)


@pytest.mark.parametrize("filename", ["<ipython-input-1-abc>", "/tmp/ipykernel_1/123.py"])
def test_a_cell_that_is_run_again_with_another_text(filename: str) -> None:
    names: dict[str, Any] = {"np": np, "jit": jit, "__name__": "__main__", "k": 2.0, "X": X}
    cell(names, filename, "@jit\ndef f(x):\n    return helper(x) * k\n\ndef helper(x):\n    return x + 1.0\n")
    old = names["f"]
    for k in (2.0, 3.0, 4.0):
        names["k"] = k
        np.testing.assert_array_equal(names["f"](X), (X + 1.0) * k)
    cell(
        names, filename, "k = 5.0\ndef helper(x):\n    return x - 1.0\n\n@jit\ndef f(x):\n    y = helper(x)\n    return y * k\n"
    )
    for k in (5.0, 6.0, 7.0):
        names["k"] = k
        np.testing.assert_array_equal(names["f"](X), (X - 1.0) * k)
        np.testing.assert_array_equal(old(X), (X - 1.0) * k)  # whose text is gone
    cell(names, filename, "def helper(x):\n    return x[5]\n")
    with pytest.raises(IndexError) as info:
        names["f"](X)
    shown = traceback.extract_tb(info.value.__traceback__)[-1]
    assert (shown.filename, shown.lineno, shown.name) == (filename, 2, "helper")


def test_functions_beside_imports_in_a_cell_are_twinned() -> None:
    """IPython compiles each statement of a cell by itself: Python does not know there that `np` is a module."""
    filename = "/tmp/ipykernel_1/321.py"
    text = """
    import numpy as np

    def loss(w, x):
        return np.mean((x * w) ** 2)

    class Trainer:
        def __init__(self, w):
            self.w = w

        def step(self, x):
            self.w = self.w - 0.1 * np.mean(x * loss(self.w, x))
            return self.w
    """
    text = textwrap.dedent(text)
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    names: dict[str, Any] = {"__name__": "__main__"}
    for node in ast.parse(text).body:
        exec(compile(ast.Module([node], []), filename, "exec"), names)
    trainer, plain = names["Trainer"](X), names["Trainer"](X)
    step = jit(trainer.step, not_compiled="raise")
    for _ in range(5):
        np.testing.assert_allclose(step(X), plain.step(X))


def test_cells_warn_once_each() -> None:
    names: dict[str, Any] = {"jit": jit, "__name__": "__main__", "it": iter(range(100))}
    text = "f = jit(lambda x: x * next(it))\nfor _ in range(3):\n    f(2.0)\n"
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cell(names, "/tmp/ipykernel_1/456.py", text)
        cell(names, "/tmp/ipykernel_1/456.py", text.replace("2.0", "3.0").replace("x *", "x +"))
        cell(names, "/tmp/ipykernel_1/789.py", text)
    assert [(w.filename, w.lineno) for w in said] == [
        ("/tmp/ipykernel_1/456.py", 3),
        ("/tmp/ipykernel_1/456.py", 3),
        ("/tmp/ipykernel_1/789.py", 3),
    ]


_LOADED = """
k = 2.0
class Model:
    b = 1.0
    def apply(self, x):
        return x * k + self.b
def f(x):
    return x * k
"""
_LOADED_AGAIN = """
k = 3.0


class Model:
    b = 5.0
    def apply(self, x):
        return x / k + self.b
def f(x):
    y = x - k
    return y
"""


def test_a_module_that_is_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "loaded_again_27.py"
    path.write_text(_LOADED)
    loaded: Any = importlib.import_module("loaded_again_27")
    model, first = loaded.Model(), loaded.f
    direct, through, method = jit(loaded.f), jit(lambda x: loaded.f(x) + 1.0), jit(model.apply)
    for _ in range(3):
        np.testing.assert_array_equal(direct(X), X * 2.0)
        np.testing.assert_array_equal(through(X), X * 2.0 + 1.0)
        np.testing.assert_array_equal(method(X), X * 2.0 + 1.0)
    path.write_text(_LOADED_AGAIN)
    importlib.invalidate_caches()
    importlib.reload(loaded)
    for _ in range(3):
        np.testing.assert_array_equal(direct(X), first(X))  # the old code, which reads what is now in the module
        np.testing.assert_array_equal(direct(X), X * 3.0)
        np.testing.assert_array_equal(through(X), X - 3.0 + 1.0)
        np.testing.assert_array_equal(method(X), X * 3.0 + 1.0)
    first.__code__ = loaded.f.__code__  # and this is what %autoreload does, for functions and for instances
    model.__class__ = loaded.Model
    for _ in range(3):
        np.testing.assert_array_equal(direct(X), X - 3.0)
        np.testing.assert_array_equal(jit(model.apply)(X), X / 3.0 + 5.0)
    del sys.modules["loaded_again_27"]


# -- without a source

_ELSEWHERE = """
import types
import numpy as np, funcad
o = types.SimpleNamespace(k=1.0, n=0)
def helper(x):
    assert x is not None, "never"
    return x * o.k
def f(x):
    y = helper(x)
    return y + o.k if __debug__ else y - o.k
class Model:
    def __init__(self):
        self.rate = 0.5
    def step(self, x):
        return f(x) * self.rate
model = Model()
g, h = funcad.jit(f), funcad.jit(model.step)
for i in range(5):
    o.k += 1.0
    model.rate *= 0.5
    if float(g(2.0)) != f(2.0): raise SystemExit((g(2.0), f(2.0)))
    if float(h(2.0)) != model.step(2.0): raise SystemExit((h(2.0), model.step(2.0)))
print("the same", g.cache_info().currsize > 0)
"""


@pytest.mark.parametrize("how", ["-c", "stdin", "-O -c", "-O file", "-OO file", "exec"])
def test_processes_of_their_own(how: str, tmp_path: Path) -> None:
    path = tmp_path / "elsewhere.py"
    path.write_text(_ELSEWHERE if how != "exec" else f"exec({_ELSEWHERE!r}, {{'__name__': 'elsewhere'}})")
    given: dict[str, Any] = {"input": _ELSEWHERE} if how == "stdin" else {}
    flags = [how.split()[0]] if how.startswith("-O") else []
    what = ["-"] if how == "stdin" else ["-c", _ELSEWHERE] if how.endswith("-c") else [str(path)]
    root = str(Path(funcad.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", *flags, *what],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": root, "HOME": str(tmp_path), "PATH": ""},
        **given,
    )
    assert done.stdout == "the same True\n", done.stderr
    assert done.stderr == ""
