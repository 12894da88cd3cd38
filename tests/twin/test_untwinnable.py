"""Which functions have no twin, and why; how long what twins need is kept; threads; debuggers."""

from __future__ import annotations

import bdb
import gc
import importlib
import linecache
import os
import subprocess
import sys
import threading
import types
import warnings
import weakref
from pathlib import Path
from typing import Any

import pytest

from funcad.twin import templates
from funcad.twin.hooks import Hooks
from funcad.twin.net import Net
from funcad.twin.templates import Untwinnable
from funcad.twin.twins import Twins, is_twin
from tests.forked import in_a_child, needs_fork
from tests.twin import constructs

ASK = """
from funcad.twin.templates import Untwinnable
from funcad.twin.twins import Twins

def f(x):
    "doc"
    assert x
    return x + 1

try:
    print("twin", Twins().of(f)(1))
except Untwinnable as error:
    print("none:", error)
"""


def ran(*arguments: str, text: str | None = None) -> str:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], input=text, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_where_the_source_is_not_to_be_had(tmp_path: Path) -> None:
    had = sys.version_info >= (3, 13)  # Python itself keeps the text then
    assert ran("-c", ASK) == ("twin 2" if had else "none: it has no source: it comes from python -c or exec")
    assert ran("-", text=ASK).startswith("none: it has no source: it comes from the standard input")
    file = tmp_path / "asked.py"
    file.write_text(f"exec({ASK!r})")
    assert ran(str(file)).startswith("none: it has no source: it comes from python -c or exec")


def test_optimised_code_is_compared_with_source_optimised_alike(tmp_path: Path) -> None:
    file = tmp_path / "asked.py"
    file.write_text(ASK)
    for options in ([], ["-O"], ["-OO"], ["-X", "no_debug_ranges"]):
        assert ran(*options, str(file)) == "twin 2"


def why(f: Any) -> str:
    with pytest.raises(Untwinnable) as first:
        Twins().of(f)
    with pytest.raises(Untwinnable) as second:
        Twins().of(f)
    assert str(first.value) == str(second.value)
    return str(first.value)


def rewritten_by_pytest(x: Any) -> None:
    assert x, "pytest compiles another assertion"


def test_source_that_is_not_what_runs() -> None:
    assert why(rewritten_by_pytest).startswith("its source is not what runs")
    f = module("def f(x):\n    return x + 1\n").f
    assert Twins().of(f)(1) == 2
    g = types.FunctionType(f.__code__.replace(co_name="g", co_qualname="g"), f.__globals__)
    assert why(g).startswith("its source is not what runs")
    deep = module("def f(x):\n    return " + " + ".join(["x"] * 500) + "\n").f
    assert why(deep).startswith("its source cannot be rewritten")


def test_what_is_not_written_in_python() -> None:
    frozen = vars(importlib._bootstrap)["_handle_fromlist"]
    assert "it has no source: it comes from a frozen module" in why(frozen)
    for x in (len, Hooks, Hooks(frozen).load_global):
        with pytest.raises(Untwinnable, match="no function written in Python, but a"):
            Twins().of(x)


files = iter(range(10**6))


def module(text: str, filename: str = "") -> Any:
    """A module that has no file, but source."""
    filename = filename or f"<module {next(files)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    made = types.ModuleType("made")
    exec(compile(text, filename, "exec", dont_inherit=True), made.__dict__)
    return made


def test_a_file_that_is_edited_and_loaded_anew(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"

    def load(text: str) -> Any:
        file.write_text(text)
        space: dict[str, Any] = {}
        exec(compile(text, str(file), "exec"), space)
        return space["f"]

    first = load("def f(x):\n    return x + 1\n")
    assert Twins().of(first)(1) == 2
    second = load("# a line more\ndef f(x):\n    return x + 20\n")
    assert Twins().of(second)(1) == 21
    assert Twins().of(first)(1) == 2  # its rewritten code is kept with it
    third = load("def f(x):\n    return x + 300\n")
    file.write_text("def f(x):\n    return x - 1\n")
    assert why(third).startswith("its source is not what runs")


def test_lambdas_of_one_line_are_told_apart() -> None:
    fs = module("fs = [lambda x: x + 1, lambda x: x - 1, lambda x: x + 1]; g, h = (lambda: 1), (lambda: 1)\n").fs
    twins = [Twins().of(f) for f in fs]
    assert [t(10) for t in twins] == [11, 9, 11]
    assert [list(t.__code__.co_positions())[-1] for t in twins] == [list(f.__code__.co_positions())[-1] for f in fs]


def test_warnings_of_the_compiler_are_given_once() -> None:
    text = "def f(x):\n    return x is 5, '\\d', [1, 2](0) if x == 7 else 2\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = module(text).f
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Twins().of(f)(1) == (False, "\\d", 2)


NESTED = """
import sys
if sys:
    try:
        class A:
            def a(self):
                return __class__, self.__b, lambda: self

            class B:
                @staticmethod
                def b(x): return x + 1; c = lambda: 2

                def d(self, x=lambda: 5): return x()

            e = lambda self: 3
            __b = 4
    finally:
        for f in [lambda: 6]: g = lambda: 7
        handler = (lambda: 8)
@(lambda f: f)
def decorated(): return 9
"""


def test_functions_are_found_wherever_they_stand() -> None:
    made = module(NESTED)
    a, b = made.A(), made.A.B()
    of = Twins().of
    assert of(made.A.a)(a)[:2] == (made.A, 4) and is_twin(of(made.A.a)(a)[2].__code__)
    assert [of(made.A.B.b)(1), of(made.A.B.d)(b), of(made.A.B.d.__defaults__[0])(), of(made.A.e)(a)] == [2, 5, 5, 3]
    assert [of(made.f)(), of(made.g)(), of(made.handler)(), of(made.decorated)()] == [6, 7, 8, 9]


# -- lifetime


class Data: ...


def test_a_twin_dies_with_its_trace_and_rewritten_code_with_its_function() -> None:
    made = module("def outer(data):\n    def f():\n        global g\n        g = lambda: (f, data)\n    return f\n")
    data = Data()
    f = made.outer(data)
    with Twins() as twins:
        t = twins.of(f)
        t()  # leaves an inner function in the module, which holds f, whose module holds it
    assert is_twin(made.g.__code__)
    held = [weakref.ref(x) for x in (data, f, t, t.__code__, made.g.__code__)]
    code, identity = weakref.ref(f.__code__), id(f.__code__)
    del data, f, t, twins
    made.g = None
    gc.collect()
    assert [x() for x in held] == [None] * 5
    assert code() is not None and (identity, False) in templates._codes
    del made
    gc.collect()
    assert code() is None and (identity, False) not in templates._codes


def test_a_reason_keeps_no_code_alive() -> None:
    made = module("def f():\n    return 1\n")
    linecache.cache.pop(made.f.__code__.co_filename)
    assert why(made.f).startswith("it has no source")
    code, identity = weakref.ref(made.f.__code__), id(made.f.__code__)
    assert (identity, False) in templates._codes
    del made
    gc.collect()
    assert code() is None and (identity, False) not in templates._codes


def test_the_tables_are_bounded() -> None:
    for i in range(templates.MODULES + 10):
        Twins().of(module(f"def f():\n    return {i}\n").f)
    assert len(templates._modules) == templates.MODULES


# -- threads and debuggers


def test_many_threads_at_once() -> None:
    made = module("".join(f"def f{i}(x):\n    return [x + k for k in range({i})]\n" for i in range(60)))
    failures: list[Any] = []

    def work() -> None:
        for i in range(60):
            f = getattr(made, f"f{i}")
            if Twins().of(f)(1) != f(1):
                failures.append(i)
        done.append(1)

    done: list[int] = []
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 8 and failures == []


@needs_fork
def test_a_fork_while_another_thread_makes_a_twin_and_has_a_net() -> None:
    made = module("def f(x):\n    return x + 1\n")
    inside, over = threading.Event(), threading.Event()

    def work() -> None:
        with templates._lock, Net():
            inside.set()
            over.wait(30)

    def child() -> None:
        assert Twins().of(made.f)(1) == 2
        with Net(lambda code, globals_: code is made.f.__code__) as net:
            made.f(1)
        assert net.why is None and net.seen == [made.f.__code__]

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(30)
    try:
        in_a_child(child)()
    finally:
        over.set()
        thread.join()


def test_a_breakpoint_stops_in_a_twin() -> None:
    line = constructs.Point.__init__.__code__.co_firstlineno + 1
    stops = []

    class Debugger(bdb.Bdb):
        def user_line(self, frame: types.FrameType) -> None:
            if self.break_here(frame):
                stops.append((frame.f_code.co_name, frame.f_lineno))
            self.set_continue()

    before = sys.gettrace()
    debugger = Debugger()
    debugger.set_break(constructs.__file__, line)
    t = Twins().of(constructs.Point.__init__)
    try:
        debugger.runcall(t, types.SimpleNamespace(), 1, 2)
    finally:
        debugger.clear_all_breaks()
        sys.settrace(before)
    assert stops == [("__init__", line)]
