"""Texts of traced values and the time of now are made at each call: they may be printed, logged and stored."""

from __future__ import annotations

import datetime
import json
import logging
import re
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import NotCompiledWarning, grad, jit, vmap
from tests.reads.users_functions import asserts
from tests.unseen import unseen

LOGGER = logging.getLogger("funcad.tests.later")
VALUES = (1.0, 2.5, -0.0, 2.5, 1e100)


class Failed(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(f"<{text}>")
        self.text = text


class Plain(Exception): ...


def of_f_strings(x: Any) -> Any:
    print(f"{x} {x:.3f} {x!r:>12} {x:{'.1e'}} {x=} {x > 2.0} {3} {[x, 1]}", f"{np.ones(2) * x}", f"{x}b", sep="|")
    return x * 2.0


def of_functions(x: Any) -> Any:
    print(str(x), repr(x), format(x, ".1f"), "%s %.2f" % (x, x), ", ".join([f"{x}", "b"]))  # noqa: UP031
    print("{:.2e}|{a}".format(x, a=x))  # noqa: UP032
    return x


def of_texts(x: Any) -> Any:
    text = "a " + f"{x:.2f}"
    text += f" and {x * 2.0:.1f}"
    print(text.ljust(30) + "|", text.upper(), isinstance(text, str), type(text) is str)
    return x


def in_parts(x: Any) -> Any:
    parts = []
    for i in range(3):
        parts.append(f"{i}: {x * i:>6.1f}")
    print("; ".join(parts), [parts[0]], {"b": parts[1], "a": x})
    return x


def to_streams(x: Any) -> Any:
    sys.stdout.write(f"{x}\n")
    LOGGER.warning(f"at {x:.1f}")
    warnings.warn(f"large: {x:.0f}", stacklevel=1)
    return x


def of_written(x: Any) -> Any:
    out = np.ones(2) * x
    text = f"{out}"
    out[0] = 7.0
    print(text, out)
    return out


def of_derivatives(x: Any) -> Any:
    texts = []

    def cube(y: Any) -> Any:
        texts.append(f"y = {y}")
        return y**3

    slope = grad(cube)(x)
    print(texts, f"{slope:.2f}")
    return slope


SAID = [of_f_strings, of_functions, of_texts, in_parts, to_streams, of_written, of_derivatives]


@pytest.mark.parametrize("f", SAID, ids=lambda f: f.__name__)
def test_texts_are_made_by_the_program(
    f: Callable[[Any], Any], capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """One program for all values, which says what plain Python says; a text is of the values of its line."""
    found = []
    g = jit(f)
    for call in (f, g):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            results = [np.asarray(call(v)).tolist() for v in VALUES]
        logged = [r.getMessage() for r in caplog.records]
        found.append((results, [str(w.message) for w in warned], capsys.readouterr().out, logged))
        caplog.clear()
    assert found[1] == found[0]
    assert g.cache_info()._asdict() | {"maxsize": 0} == {"hits": 4, "misses": 1, "maxsize": 0, "currsize": 1, "observed": 0}


def test_texts_of_lanes_and_under_derivatives(capsys: pytest.CaptureFixture[str]) -> None:
    f = jit(lambda x: (print(f"x = {x:.1f}"), x * x)[1])
    assert grad(f)(3.0) == 6.0
    assert capsys.readouterr().out == "x = 3.0\n"
    assert vmap(f)(np.array([1.0, 2.0])).tolist() == [1.0, 4.0]
    assert capsys.readouterr().out == "x = 1.0\nx = 2.0\n"


def compared(x: Any) -> Any:
    text = f"{x:.1f}"
    return x + 1.0 if text == "1.0" or text in ("2.5",) else x - 1.0


def as_a_key(x: Any) -> Any:
    return x * {"1.0": 2.0, "2.5": 3.0}.get(f"{x}", 4.0) + {"1.0": 5.0}.setdefault(f"{x}", 6.0)


def taken_apart(x: Any) -> Any:
    text = f"{x}"
    first, *_ = text
    return x * len(text) + (1.0 if first == "-" else 0.0) + len(text[1:]) + len(text.split(".")) + sum([c == "0" for c in text])


def handed_over(x: Any) -> Any:
    return x * len(json.dumps({"a": [f"{x}"]})) + float(f"{x:.1e}") + max(f"{x}", "0").count("0")


def matched(x: Any) -> Any:
    match f"{x}":
        case "1.0":
            return x
        case _:
            return x * 2.0 if f"{x}" else x


def raised(x: Any) -> Any:
    if x > 2.0:
        raise Failed(f"large: {x}")
    if x < 1.0:
        raise Plain(f"small: {x}")
    return asserts(x)


@pytest.mark.parametrize("f", [compared, as_a_key, taken_apart, handed_over, matched, raised], ids=lambda f: f.__name__)
def test_who_asks_for_a_text_asks_for_the_number(f: Callable[[Any], Any]) -> None:
    def results(f: Callable[[Any], Any]) -> list[Any]:
        found: list[Any] = []
        for v in VALUES * 2:
            try:
                found.append(f(v))
            except Exception as error:
                found += [type(error), str(error), error.args, vars(error)]
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert results(jit(f)) == results(f)


def test_what_text_cannot_be_followed_is_not_compiled() -> None:
    counted = unseen(lambda text: len("a" + text))
    names: dict[str, Any] = {}
    exec("def taken(text): return len('a' + text) + len(text.upper())", names)  # it has no source
    taken = names["taken"]
    refused: list[Callable[[Any], Any]] = [lambda x: x * taken(f"{x}"), lambda x: x * len({f"{x}": 1}) + len({f"{x}"})]
    for f in refused:
        g = jit(f)
        with pytest.warns(NotCompiledWarning, match="the text of a traced value, and goes where nobody sees"):
            assert [g(v) for v in VALUES] == [f(v) for v in VALUES]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = jit(lambda x: x * counted(f"{x}"))
        assert [g(v) for v in VALUES] == [v * counted(f"{v}") for v in VALUES]
        with pytest.raises(TypeError, match="expected an array or a number"):
            jit(lambda x: {"text": f"{x}"})(1.0)


def test_errors_of_formats_are_raised_at_their_line(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any, wrong: Any) -> Any:
        try:
            text = f"{x:zz}" if wrong is None else f"{x * np.ones(2):.2f}" if wrong else "%d" % x  # noqa: UP031
        except (ValueError, TypeError, OverflowError) as error:
            text = str(error)
        print(text)
        return x

    g = jit(f, static_argnums=1)
    said = []
    for call in (f, g):
        for wrong in (None, True, False):
            for x in (1.0, np.inf, np.nan):
                call(x, wrong)
        said.append(capsys.readouterr().out)
    assert said[1] == said[0] and "Unknown format code" in said[0] or "Invalid format" in said[0]


def test_how_arrays_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        text = f"{x * np.ones(2)}"
        with np.printoptions(precision=2):
            print(x * np.ones(2), text, f"{x * np.ones(2)}")
        return x

    with pytest.warns(NotCompiledWarning, match="led elsewhere|the text of a traced array"):
        for call in (jit(f), f):
            for x in (1.23456, 2.0):
                call(x)
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == lines[2:] and lines[0].startswith("[1.23 1.23] [1.23456")
    g = jit(lambda x: (print(f"{x}"), x)[1])
    g(np.ones(2) / 3.0)
    with np.printoptions(precision=2):  # outside, it holds for what is printed then
        g(np.ones(2) / 3.0)
    assert capsys.readouterr().out == "[0.33333333 0.33333333]\n[0.33 0.33]\n"

    def sets(x: Any) -> Any:
        np.set_printoptions(precision=4)
        return x

    with np.printoptions(), pytest.warns(NotCompiledWarning, match="set_printoptions"):
        jit(sets)(1.0)


# -- the time of now


class Log:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.last: Any = None

    def step(self, x: Any) -> Any:
        self.last = datetime.datetime.now()
        self.lines.append(f"{datetime.datetime.now():%Y-%m-%d %H:%M:%S.%f}")
        return x * 2.0


def moments(x: Any) -> Any:
    now = datetime.datetime.now()
    print(now, now.isoformat(), now.date(), now.strftime("%j"), f"{now:%H} {now.year} {x:.1f}", now.time(), sep="|")
    return x


def of_the_module_time(x: Any) -> Any:
    print(time.ctime(), time.asctime(), time.strftime("%F"), time.strftime("%H", time.localtime()), time.gmtime(), sep="|")
    print(time.gmtime(0).tm_year, time.strftime("%Y", time.gmtime(0)), datetime.date.today(), time.localtime().tm_year)
    return x


def of_zones(x: Any) -> Any:
    print(datetime.datetime.now(datetime.UTC), datetime.datetime.now(tz=datetime.timezone(datetime.timedelta(hours=3))))
    print(datetime.datetime.utcnow(), datetime.datetime.today())
    return x


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noon of a day; each reading is a second later than the one before."""
    readings = iter(range(1_790_000_000, 1_790_001_000))
    monkeypatch.setattr(time, "time_ns", unseen(lambda: next(readings) * 10**9 + 123_456_789))


@pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow")
@pytest.mark.parametrize("f", [moments, of_the_module_time, of_zones], ids=lambda f: f.__name__)
def test_the_time_is_read_at_each_call(f: Callable[[Any], Any], clock: None, capsys: pytest.CaptureFixture[str]) -> None:
    g = jit(f)
    assert [g(v) for v in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 * (2 if f is not moments else 1) and len(set(lines[:: len(lines) // 3])) == 3
    assert g.cache_info()[:2] == (2, 1)
    f(1.0)
    plain = capsys.readouterr().out.splitlines()
    assert list(map(shape_of, plain)) == list(map(shape_of, lines[-len(plain) :]))


def shape_of(line: str) -> str:
    """What is printed of a moment, whichever it is: a day of one digit has a space before it."""
    line = re.sub(r"tm_\w+=\d+", "", re.sub(r"[A-Z][a-z]{2}", "Mon", line))
    return re.sub(r"\d", "0", re.sub(r"(?<=Mon  )\d", "00", line).replace("Mon  ", "Mon "))


def test_one_reading_is_one_moment(clock: None, capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        now = datetime.datetime.now()
        later = datetime.datetime.now()
        print(now, now, (later - now).total_seconds() * 2, later - now, now + datetime.timedelta(days=1))
        return x

    g = jit(f)
    for _ in range(2):
        g(1.0)
        day, hour, again, hour_again, twice, between, _, after = capsys.readouterr().out.split()
        assert (day, hour) == (again, hour_again) and hour.endswith(".123456") and after == hour
        assert (twice, between) == ("2.0", "0:00:01")


def test_times_are_stored(clock: None) -> None:
    log = Log()
    f = jit(log.step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [f(v) for v in (1.0, 2.0, 3.0)] == [2.0, 4.0, 6.0]
    assert [type(line) for line in log.lines] == [str] * 3 and len(set(log.lines)) == 3
    assert type(log.last) is datetime.datetime and log.lines[-1] > f"{log.last:%Y-%m-%d %H:%M:%S.%f}"


BRANCHES: list[Callable[[Any], Any]] = [
    lambda x: x if datetime.datetime.now().year > 2000 else -x,
    lambda x: x * datetime.datetime.now().year,
    lambda x: x * len(time.ctime()),
    lambda x: x if time.strftime("%Y") > "2000" else -x,
    lambda x: x if datetime.date.today() > datetime.date(2000, 1, 1) else -x,
    lambda x: x * float(str(np.datetime64("now"))[:4]),
    lambda x: x * funcad.numpy.float64(time.localtime().tm_year),
]


@pytest.mark.parametrize("f", BRANCHES, ids=range(len(BRANCHES)))
def test_a_clock_that_meets_a_value_or_a_branch_is_not_compiled(f: Callable[[Any], Any]) -> None:
    g = jit(f)
    with pytest.warns(NotCompiledWarning, match="reads a clock") as said:
        assert [g(v) for v in (1.0, 2.0)] == [f(v) for v in (1.0, 2.0)]
    assert len(said) == 1


def test_a_clock_in_the_body_of_a_loop_is_not_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: Any, x: Any) -> Any:
        print(time.ctime())
        return c + x, None

    def f(x: Any) -> Any:
        return funcad.scan(body, x, np.ones(3))[0]

    assert f(1.0) == 4.0
    lines = len(capsys.readouterr().out.splitlines())
    g = jit(f)
    with pytest.warns(NotCompiledWarning, match="reads a clock"):
        assert [g(1.0) for _ in range(3)] == [4.0] * 3
    assert len(capsys.readouterr().out.splitlines()) == 3 * lines
