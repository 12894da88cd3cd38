"""Feedback on long work: when it is given, what it says, and that the work does not notice."""

from __future__ import annotations

import gc
import io
import sys
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.host import progress
from funcad.host.progress import many_objects
from funcad.show.compile_log import log
from tests.unseen import unseen


class Stream(io.StringIO):
    """A standard error stream that is a terminal, or is none; when something is written, `then` is called and `said` is set."""

    then: Any = staticmethod(lambda: None)

    def __init__(self, terminal: bool):
        super().__init__()
        self.terminal = terminal
        self.said = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        self.then()
        self.said.set()
        return written


@pytest.fixture(autouse=True)
def time(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A clock that stands still unless it is moved; no tqdm."""
    now = SimpleNamespace(seconds=0.0, each=0.0)

    def clock() -> float:
        now.seconds += now.each
        return float(now.seconds)

    monkeypatch.setattr(progress, "clock", clock)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    return now


def stream(monkeypatch: pytest.MonkeyPatch, terminal: bool = True) -> Stream:
    made = Stream(terminal)
    monkeypatch.setattr(sys, "stderr", made)
    return made


def test_nothing_is_said_before_two_seconds_nor_where_nobody_reads(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)
    with progress.meter(lambda: "work", 10) as meter:
        for _ in range(10):
            time.seconds += 0.1
            meter.step()
    assert err.getvalue() == ""
    err = stream(monkeypatch, terminal=False)
    with progress.meter(lambda: "work", 10) as meter:
        assert meter is None
    with fc.config.set(progress="off"):
        stream(monkeypatch)
        assert not progress.wanted()
    monkeypatch.setattr(sys, "stderr", None)  # a program without a console
    assert not progress.wanted()
    with fc.config.set(progress="on"):
        assert not progress.wanted()


def test_a_terminal_has_one_line(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)
    with progress.meter(lambda: "work", 100) as meter:
        for i in range(50):
            time.seconds += 0.1
            meter.step(f"loss {50 - i}")
    lines = err.getvalue().split("\r")
    assert lines[0] == "" and lines[1].startswith("funcad: work:  20% (20 of 100), 2.0 s, 8.0 s left, loss 31")
    assert lines[-1].rstrip().endswith("50% (50 of 100), 5.0 s, 5.0 s left, loss 1") and lines[-1].endswith("\n")
    assert len(lines) < 25, "not at every step"


def test_a_file_has_a_line_now_and_then(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch, terminal=False)
    with fc.config.set(progress=True), progress.meter(lambda: "steps") as meter:
        for _ in range(4000):
            time.seconds += 1.0
            meter.step()
    lines = err.getvalue().splitlines()
    assert "\r" not in err.getvalue() and lines[0] == "funcad: steps: 2, 2.0 s"
    assert lines[-1] == "funcad: steps: 4,000, 1:06:40 h"
    assert 300 < len(lines) < 410


def test_tqdm_is_used_where_it_is(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Bar:
        def __init__(self, **options: Any):
            self.n = 0
            seen.append(options)

        def update(self, n: int) -> None:
            self.n += n
            seen.append(self.n)

        def set_postfix_str(self, text: str, refresh: bool) -> None:
            seen.append(text)

        def close(self) -> None:
            seen.append("closed")

    monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    stream(monkeypatch)
    with progress.meter(lambda: "work", 5) as meter:
        for _ in range(5):
            time.seconds += 1.0
            meter.step("x")
    assert seen[0]["desc"] == "work" and seen[0]["total"] == 5 and seen[1:3] == ["x", 2] and seen[-2:] == [5, "closed"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_ends_the_line(error: type[BaseException], time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)
    with pytest.raises(error), progress.meter(lambda: "work", 5) as meter:
        time.seconds += 3.0
        meter.step()
        raise error
    assert err.getvalue().endswith("\n") and "20% (1 of 5)" in err.getvalue()


@pytest.mark.parametrize("reverse", [False, True])
def test_loops_in_python_count_their_turns(reverse: bool, time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)
    time.each = 0.05

    def total(x: Any) -> Any:
        return np.sum(fc.scan(lambda c, y: (np.sin(c) + y, c), x, np.arange(200.0), reverse=reverse)[1])

    with fc.config.set(engine="interpreter"):
        value, slope = fc.value_and_grad(total)(1.0)
    assert "scan at " in err.getvalue() and "of 200" in err.getvalue() and "test_progress.py" in err.getvalue()
    with fc.config.set(progress="off", engine="interpreter"):
        assert fc.value_and_grad(total)(1.0) == (value, slope)
    err = stream(monkeypatch)
    with fc.config.set(engine="interpreter"):
        assert fc.while_loop(lambda c: c < 300.0, lambda c: c + 1.0, 0.0) == 300.0
    assert "while_loop at " in err.getvalue()


@pytest.mark.parametrize("numbers", [True, False], ids=["numbers", "arrays"])
def test_jitted_loops_that_python_turns_count_their_turns(numbers: bool, time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The NumPy engine writes loops as Python, over numbers or over arrays; the outermost one is counted."""
    x = 1.0 if numbers else np.ones((3, 70))

    def scanned(x: Any) -> Any:
        inner = lambda c: fc.fori_loop(0, 3, lambda i, c: np.sin(c) + 0.1 * i, c)
        return np.sum(fc.scan(lambda c, y: (inner(c) + y, None), x, np.arange(200.0))[0])

    def repeated(x: Any) -> Any:
        return fc.while_loop(lambda c: np.sum(c) < 900.0, lambda c: c + (1.0 if numbers else 0.01), x)

    with fc.config.set(engine="numpy", progress="off"):
        jitted = [fc.jit(f) for f in (scanned, repeated)]
        expected = [[f(x) for _ in range(3)][-1] for f in jitted]
    time.each = 0.05
    with fc.config.set(engine="numpy"):
        for f, value, name in zip(jitted, expected, ("scanned", "repeated")):
            err = stream(monkeypatch)
            np.testing.assert_array_equal(f(x), value)
            said = err.getvalue()
            assert "funcad: loop at test_progress.py" in said and f"({name})" in said and "of 3)" not in said
            assert ("(200 of 200)" in said) == (name == "scanned") and said.endswith("\n")


def test_what_cannot_be_counted_says_that_it_runs(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)
    monkeypatch.setattr(progress, "DELAY", 0.0)

    def waits(error: type[BaseException] | None = None) -> None:
        assert err.said.wait(30)  # while it is traced
        time.seconds += 0.0 if error else 7.0
        if error:
            raise error

    waiting = unseen(waits)

    @fc.jit
    def slow(x: Any) -> Any:
        waiting()
        return x + 1.0

    assert slow(1.0) == 2.0
    assert "funcad: tracing slow ...\n" in err.getvalue() and "funcad: tracing slow: 7.0 s\n" in err.getvalue()

    err = stream(monkeypatch)

    @fc.jit
    def failing(x: Any) -> Any:
        waiting(ArithmeticError)

    with pytest.raises(ArithmeticError):
        failing(1.0)
    assert "funcad: tracing failing: 0.0 s\n" in err.getvalue()


def test_without_threads_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    err = stream(monkeypatch)

    class None_:
        def __init__(self, *_: Any):
            self.daemon = False

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

        def cancel(self) -> None:
            """There is nothing to stop."""

    monkeypatch.setattr(progress.threading, "Timer", None_)
    assert fc.jit(lambda x: x * 2.0)(3.0) == 6.0 and err.getvalue() == ""


class Gone(Stream):
    """A terminal that went away: what is written fails, as tqdm's bars do that write there."""

    def __init__(self, error: type[Exception]):
        super().__init__(True)
        self.error = error
        self.tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise self.error("gone")


@pytest.mark.parametrize("error", [BrokenPipeError, ValueError])
@pytest.mark.parametrize("bar", [False, True])
def test_a_stream_that_fails_does_not_fail_the_work(
    bar: bool, error: type[Exception], time: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = Gone(error)

    class Bar:
        n = 0

        def __init__(self, **_: Any):
            self.close()

        def update(self, _: int) -> None:
            gone.write("")

        def close(self) -> None:
            if gone.tried:
                gone.write("")

    monkeypatch.setattr(sys, "stderr", gone)
    if bar:
        monkeypatch.setitem(sys.modules, "tqdm.auto", SimpleNamespace(tqdm=Bar))
    time.each = 0.5
    with fc.config.set(engine="interpreter"):
        assert fc.scan(lambda c, x: (c + x, None), 0.0, np.ones(30))[0] == 30.0
    assert gone.tried
    with progress.meter(lambda: "work", 9) as meter:
        time.seconds += 9.0
        meter.step()
        monkeypatch.setattr(sys, "stderr", None)  # taken away meanwhile
        meter.step()


def test_a_closed_stream_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    assert not progress.wanted() and fc.jit(lambda x: x * 3.0)(2.0) == 6.0


def test_errors_without_threads_have_no_other_error_before_them(monkeypatch: pytest.MonkeyPatch) -> None:
    stream(monkeypatch)

    def start(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Timer, "start", start)
    with pytest.raises(ArithmeticError) as caught, progress.working(lambda: "work"):
        raise ArithmeticError
    assert caught.value.__context__ is None


def test_solvers_count_their_evaluations(time: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    time.each = 0.5
    optimize = fc.scipy.optimize
    xs = np.linspace(0.0, 1.0, 9)
    runs = {
        "minimize": lambda: optimize.minimize(lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.sum(x**4), np.ones(3)),
        "least_squares": lambda: optimize.least_squares(lambda p: np.exp(p[0] * xs) * p[1] - xs, np.ones(2)),
        "root": lambda: optimize.root(lambda x: x**3 - 2.0, np.ones(2)),
        "solve_ivp": lambda: fc.scipy.integrate.solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(2)),
    }
    for what, run in runs.items():
        err = stream(monkeypatch)
        run()
        assert f"funcad: {what}: " in err.getvalue(), what


def test_the_log_says_what_was_traced_and_why() -> None:
    def doubled(x: Any, n: Any = ()) -> Any:
        return 2.0 * x

    f = fc.jit(doubled, static_argnames="n")
    log.clear()
    for x, n in ((np.ones(3), ()), (np.ones(4), ()), (np.ones(4), (1, "a")), (np.ones(4), (2, "a")), (np.ones(4), (2, "a"))):
        f(x, n=n)
    events = [e for e in fc.debug.compile_log() if e.function == "doubled"]
    assert [e.why for e in events[:2]] == ["first trace: x: f64[3]", "x: f64[4], before f64[3]"]
    assert len(events) == 4 and "static n: (2, 'a'), before (1, 'a')" in events[3].why
    assert all([e.what == "traced" and e.seconds > 0 and "test_progress.py" in e.where for e in events])
    found = fc.debug.compile_log()
    text = repr(found).splitlines()
    assert len(text) == len(found) + 1 and text[0].split() == ["seconds", "function", "where", "why"]
    assert found._repr_html_().count("<tr>") == len(text)


def test_a_static_argument_whose_repr_raises_is_traced_as_any_other() -> None:
    class Silent:
        def __init__(self, n: int):
            self.n = n

        def __repr__(self) -> str:
            raise ArithmeticError

    f, one, other = fc.jit(lambda x, config: x * config.n, static_argnums=1), Silent(1), Silent(2)
    assert [f(2.0, config) for config in (one, other)] == [2.0, 4.0]
    assert "a Silent (its repr raises ArithmeticError)" in fc.debug.compile_log()[-1].why
    assert f(2.0, Silent(3)) == 6.0
    gc.collect()
    assert f(2.0, Silent(4)) == 8.0
    assert "what 1 dropped programs depended on, such as a static argument, is gone" in (fc.debug.compile_log()[-1].why)


def test_texts_are_made_of_the_nearest_program_only(monkeypatch: pytest.MonkeyPatch) -> None:
    from funcad.jitted import jit_misses

    f = fc.jit(lambda x, y: x.sum() + y.sum())
    for n in range(2, 12):
        f(np.ones(n), np.ones(n))
    made: list[Any] = []
    text = jit_misses._aval
    monkeypatch.setattr(jit_misses, "_aval", lambda part: made.append(part) or text(part))
    f(np.ones(5), np.ones(6))
    assert len(made) == 2 and fc.debug.compile_log()[-1].why.count("before") == 1


def test_the_setting_takes_the_words_of_the_others() -> None:
    for value, kept in ((True, "on"), (False, "off"), ("1", "on"), ("TRUE", "on"), ("0", "off"), ("", "auto"), (None, "auto")):
        with fc.config.set(progress=value):
            assert fc.config.progress == kept
    with pytest.raises(ValueError, match="progress must be 'auto' or 'on' or 'off', got 'maybe'"):
        fc.config.progress = "maybe"


# -- work that makes many objects


@pytest.fixture
def thresholds() -> Iterator[tuple[int, int, int]]:
    before = gc.get_threshold()
    gc.set_threshold(701, 11, 12)
    yield 701, 11, 12
    gc.set_threshold(*before)


def test_the_collector_is_as_before_afterwards(thresholds: tuple[int, int, int]) -> None:
    with pytest.raises(ZeroDivisionError), many_objects():
        assert gc.get_threshold()[0] == progress.RARELY and gc.isenabled()
        with many_objects():
            pass
        assert gc.get_threshold()[0] == progress.RARELY
        raise ZeroDivisionError
    assert gc.get_threshold() == thresholds


def test_what_others_have_set_meanwhile_stays(thresholds: tuple[int, int, int]) -> None:
    with many_objects():
        gc.set_threshold(5000, 5, 5)
    assert gc.get_threshold() == (5000, 5, 5)
    gc.set_threshold(0, 0, 0)  # off
    with many_objects():
        assert gc.get_threshold()[0] == 0
    assert gc.get_threshold()[0] == 0


def test_the_last_of_several_threads_puts_it_back(thresholds: tuple[int, int, int]) -> None:
    inside, leave = threading.Event(), threading.Event()

    def work() -> None:
        with many_objects():
            inside.set()
            leave.wait(30)

    thread = threading.Thread(target=work)
    with many_objects():
        thread.start()
        assert inside.wait(30)
    assert gc.get_threshold()[0] == progress.RARELY
    leave.set()
    thread.join()
    assert gc.get_threshold() == thresholds
