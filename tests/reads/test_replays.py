"""What a jitted function says and draws happens at each call, as in plain Python: prints, logs, warnings, clocks, draws."""

from __future__ import annotations

import builtins
import contextlib
import io
import itertools
import logging
import random
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import NotCompiledWarning, grad, jit, vmap
from funcad.jitted import first_calls
from tests.unseen import unseen

LOGGER = logging.getLogger("funcad.tests.replays")
VALUES = (1.5, 2.5, 2.5, -3.0)


def with_numbers(x: Any) -> Any:
    print("x =", x, 3, None, "text", sep="|", end=";\n")
    return x * 2.0


def to_streams(x: Any) -> Any:
    sys.stdout.write("to stdout\n")
    print("to stderr", x, file=sys.stderr)
    return x * 2.0


def of_containers(x: Any) -> Any:
    print({"b": x, "a": [x, (1, "c")]}, np.ones(2))
    return x + 1.0


def with_texts(x: Any) -> Any:
    print(f"{x}", str(x), repr(x), f"{x!r:>8}", "%s %g" % (x, x), f"{x:.3f} {x}", str([x]), f"{x:.1e}")  # noqa: UP031
    return x * len(f"{x}")


def on_branches(x: Any) -> Any:
    print("before")
    if x > 2.0:
        print("large", x)
    elif x < 0.0:
        raise ValueError(f"negative: {x}")
    print("after")
    return x


def caught(x: Any) -> Any:
    try:
        print("trying")
        y = 1.0 / (x - 2.5)
        print("divided")
    except ZeroDivisionError as error:
        print("caught", error)
        y = 0.0
    return y


def into_buffers(x: Any) -> Any:
    print("begin")
    out = np.zeros(2)
    if x > 0.0:
        out[0] = x
    out[1] = 2.0 * x
    print("end", out)
    return out


@pytest.mark.parametrize(
    "f", [with_numbers, to_streams, of_containers, with_texts, on_branches, caught, into_buffers], ids=lambda f: f.__name__
)
def test_prints_are_plain_pythons(f: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    def all_of(f: Callable[..., Any]) -> tuple[Any, list[Any]]:
        results: list[Any] = []
        for v in VALUES * 2:
            try:
                results.append(f(v))
            except ValueError as error:
                results.append(str(error))
        return capsys.readouterr(), results

    (said, found), (wanted, plain) = all_of(jit(f)), all_of(f)
    assert said == wanted
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_said_is_said_by_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    """Not by its trace: a known signature prints without Python, `lower` prints nothing, transforms print the primal once."""
    f = jit(with_numbers)
    f.lower(1.5)
    assert capsys.readouterr().out == ""
    assert [f(1.5), f(2.5)] == [3.0, 5.0] and f.cache_info().misses == 1
    assert capsys.readouterr().out == "x =|1.5|3|None|text;\nx =|2.5|3|None|text;\n"
    assert grad(f)(2.0) == 2.0
    assert capsys.readouterr().out == "x =|2.0|3|None|text;\n"
    np.testing.assert_array_equal(vmap(f)(np.array([1.0, 2.0])), [2.0, 4.0])
    assert capsys.readouterr().out == "x =|1.0|3|None|text;\nx =|2.0|3|None|text;\n"


def test_arrays_are_printed_as_they_are_at_the_call(capsys: pytest.CaptureFixture[str]) -> None:
    captured = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        print(captured, x, np.sum(x * captured))
        return x * captured

    g = jit(f)
    for value in (1.0, 5.0, 1.0):
        captured[0] = value
        for call in (g, f):
            call(np.ones(2))
        first, second = capsys.readouterr().out.splitlines()
        assert first == second


def test_output_that_is_led_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            print("hidden", x)
        return x * len(text.getvalue())

    with pytest.warns(NotCompiledWarning, match="print is led elsewhere"):
        assert [jit(f)(v) for v in (1.0, 22.0)] == [f(1.0), f(22.0)]
    text = io.StringIO()
    g = jit(with_numbers)
    g(1.0)
    with contextlib.redirect_stdout(text):  # outside it is followed
        g(2.0)
    assert "x =|2.0" in text.getvalue() and "2.0" not in capsys.readouterr().out


class Catching(warnings.catch_warnings):  # type: ignore[type-arg]
    def __init__(self) -> None:
        super().__init__(record=True)


def recording(f: Any, x: Any) -> list[str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        f(x)
    return [str(w.message) for w in said]


def on_a_stack(f: Any, x: Any) -> list[str]:
    with contextlib.ExitStack() as stack:
        said = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        f(x)
    return [str(w.message) for w in said]


def by_a_class(f: Any, x: Any) -> list[str]:
    with Catching() as said:
        warnings.simplefilter("always")
        f(x)
    return [str(w.message) for w in said or ()]


def by_pytest(f: Any, x: Any) -> list[str]:
    with pytest.warns(Warning) as said:
        f(x)
    return [str(w.message) for w in said]


def as_errors(f: Any, x: Any) -> list[str]:
    with warnings.catch_warnings(action="error"):
        try:
            f(x)
        except RuntimeWarning as error:
            return [str(error)]
    return []


@pytest.mark.parametrize("record", [recording, on_a_stack, by_a_class, by_pytest, as_errors])
@pytest.mark.parametrize("way", [lambda f: f, lambda f: grad(lambda x: np.sum(f(x) * x)), vmap], ids=["itself", "grad", "vmap"])
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_a_function_that_asks_for_warnings_gets_them(record: Any, way: Any) -> None:
    """NumPy's, which programs do not give, and the user's own."""

    def f(x: Any) -> Any:
        said = record(np.log, x)
        return x * len(said) * ("in log" in "".join(said))

    def g(x: Any) -> Any:
        return x * len(record(lambda x: warnings.warn("mind this", RuntimeWarning, 2), x))

    x = np.array([-1.0, -2.0 if record is by_pytest else 1.0])  # it fails where nothing warns
    for function in (f, g):
        with pytest.raises(NotCompiledWarning, match="warnings .*(recorded|raised as errors)"):
            jit(way(function), not_compiled="raise")(x)
        jitted = jit(way(function))
        for _ in range(3):
            np.testing.assert_array_equal(jitted(x), way(function)(x))
            np.testing.assert_array_equal(way(jit(function))(x), way(function)(x))
        if way is vmap:  # one example's warnings are its own
            np.testing.assert_array_equal(way(function)(x), [function(v) for v in x])


def catches(x: Any) -> Any:
    try:
        return np.log(x)
    except RuntimeWarning:
        return x * 0.0


def catches_several(x: Any) -> Any:
    try:
        return np.log(x)
    except (ZeroDivisionError, np.exceptions.ComplexWarning, Warning):
        return x * 0.0


class Catches:
    def method(self, x: Any) -> Any:
        return catches(x)


@pytest.mark.parametrize("f", [catches, catches_several, Catches().method])
@pytest.mark.parametrize("way", [lambda f: f, lambda f: grad(lambda x: np.sum(f(x) * x)), vmap], ids=["itself", "grad", "vmap"])
@pytest.mark.filterwarnings("error::RuntimeWarning", "ignore::funcad.NotCompiledWarning")
def test_a_function_that_catches_warnings_as_errors_catches_them(f: Any, way: Any) -> None:
    """Where the filters around the call raise them."""
    x = np.array([-1.0, 1.0])
    with pytest.raises(NotCompiledWarning, match=r"warnings that are raised as errors are caught, at .*\(catches"):
        jit(way(f), not_compiled="raise")(x)
    jitted = jit(way(f))
    for _ in range(3):
        np.testing.assert_array_equal(jitted(x), np.zeros(2))
        np.testing.assert_array_equal(way(jit(f))(x), np.zeros(2))


def test_a_function_that_silences_warnings_is_compiled() -> None:
    def f(x: Any) -> Any:
        with warnings.catch_warnings(record=False):
            warnings.simplefilter("ignore")
            return np.log(x)

    g = jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(g(np.array([1.0, 0.0])), [0.0, -np.inf])
    assert g.cache_info().misses == 1


class Shown:
    def __init__(self, x: Any) -> None:
        self.x = x

    def __str__(self) -> str:
        return f"<{self.x}>"


def test_objects_are_not_said_later(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print(Shown(x))
        return x

    g = jit(f)
    with pytest.warns(NotCompiledWarning, match="print shows an object, a Shown"):
        g(1.0)
    g(2.0)
    assert capsys.readouterr().out == "<1.0>\n<2.0>\n"


def test_logs(caplog: pytest.LogCaptureFixture) -> None:
    def f(x: Any) -> Any:
        LOGGER.info("x is %s of %d", x, 3)
        LOGGER.debug("unseen %s", x)
        logging.warning("of the root %.1f", x)
        LOGGER.log(35, "level", extra={"mine": 1})
        return x

    def said(f: Callable[..., Any]) -> list[Any]:
        caplog.clear()
        with caplog.at_level(logging.INFO):
            f(1.0), f(2.5)
        return [
            (r.name, r.levelno, r.getMessage(), r.pathname, r.lineno, r.funcName, r.__dict__.get("mine"))
            for r in caplog.records
        ]

    jitted, plain = said(jit(f)), said(f)
    assert jitted == plain and len(plain) == 6


def test_warnings_come_from_their_line() -> None:
    def f(x: Any) -> Any:
        warnings.warn("mind this", stacklevel=1)
        warnings.warn(DeprecationWarning("old"), stacklevel=1)
        return x

    def said(f: Callable[..., Any], action: Any) -> list[Any]:
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter(action)
            f(1.0), f(2.0)
        return [(str(w.message), w.category, w.filename, w.lineno) for w in found]

    for action, n in (("always", 4), ("default", 2), ("ignore", 0)):
        assert said(jit(f), action) == (plain := said(f, action)) and len(plain) == n
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="mind this"):
            jit(f)(1.0)


DRAWS: dict[str, Callable[[Any], Any]] = {
    "number": lambda r: r.normal(),
    "array": lambda r: r.normal(size=3),
    "integers": lambda r: r.integers(10) if hasattr(r, "integers") else r.randint(10),
    "choice": lambda r: r.choice([1.0, 2.0, 5.0]),
    "permutation": lambda r: r.permutation(4),
    "several": lambda r: r.normal() * r.uniform(1.0, 2.0),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState], ids=["Generator", "RandomState"])
def test_draws_of_a_captured_generator(name: str, make: Callable[[int], Any]) -> None:
    draw = DRAWS[name]
    a, b = make(5), make(5)
    f, g = jit(lambda x: x + draw(a)), lambda x: x + draw(b)
    for _ in range(4):
        found, wanted = f(1.0), g(1.0)
        np.testing.assert_array_equal(found, wanted)
        assert type(found) is type(wanted)
    assert f.cache_info().misses == 1
    assert a.random() == b.random()


def test_draws_of_pythons_random() -> None:
    own, other = random.Random(3), random.Random(3)

    def f(x: Any, r: Any = own) -> Any:
        return x * random.random() + random.gauss(0.0, 1.0) + sum(random.sample([1, 2, 3, 4], 2)) + r.uniform(0.0, 1.0)

    g = jit(f)
    random.seed(4)
    found = [g(2.0) for _ in range(4)]
    random.seed(4)
    assert found == [f(2.0, other) for _ in range(4)] and len(set(found)) == 4
    assert g.cache_info().misses == 1


def test_draws_under_transforms() -> None:
    def made(seed: int) -> Callable[[Any], Any]:
        rng = np.random.default_rng(seed)
        return lambda x: x * rng.normal()

    for transform in (
        lambda f: lambda: grad(f)(1.0),
        lambda f: lambda: vmap(f)(np.ones(3)),
        lambda f: lambda: jit(lambda x: f(x))(1.0),
    ):
        a, b = transform(jit(made(1))), transform(made(1))
        for _ in range(3):
            np.testing.assert_array_equal(a(), b())


def test_another_generator_is_seen() -> None:
    class Model:
        rng = np.random.default_rng(1)

    model = Model()
    f = jit(lambda x: x + model.rng.normal())
    f(0.0)
    model.rng = np.random.default_rng(7)
    assert f(0.0) == np.random.default_rng(7).normal()


def test_what_cannot_be_drawn_later_is_not_compiled() -> None:
    rng, own = np.random.default_rng(0), np.random.default_rng(0)

    def f(x: Any, rng: Any = rng) -> Any:
        items = [1, 2, 3, 4]
        rng.shuffle(items)
        return x * items[0] + rng.normal(x)

    with pytest.warns(NotCompiledWarning):
        g = jit(f)
        assert [g(1.0) for _ in range(3)] == [f(1.0, own) for _ in range(3)]


def test_nothing_happens_twice_where_a_call_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The function has asked for values, so its first call runs while it is recorded; then it comes to what is refused."""

    def made() -> Callable[[Any], Any]:
        rng, it = np.random.default_rng(2), itertools.count(1)

        def f(x: Any) -> Any:
            print("once")
            y = x if x > 0.0 else -x
            z = y * rng.normal() + random.random()
            return z * next(it) if z < 1e9 else z

        return f

    found, plain = jit(made()), made()
    random.seed(1)
    with pytest.warns(NotCompiledWarning, match="iterator"):
        results = [found(v) for v in VALUES]
    said = capsys.readouterr()
    random.seed(1)
    assert results == [plain(v) for v in VALUES]
    assert said == capsys.readouterr()


def test_clocks_are_read_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        begun = time.perf_counter()
        y = np.sin(x)
        print("took", time.perf_counter() - begun)
        return y, time.time_ns()

    g = jit(f)
    stamps = [g(1.0)[1] for _ in range(3)]
    assert stamps == sorted(set(stamps)) and all([type(v) is int for v in stamps])
    took = [float(line.split()[1]) for line in capsys.readouterr().out.splitlines()]
    assert len(took) == 3 and all([0.0 <= t < 10.0 for t in took])
    assert g.cache_info().misses == 1


def test_in_the_body_of_a_loop_things_happen_as_without_jit(capsys: pytest.CaptureFixture[str]) -> None:
    def body(c: Any, x: Any) -> Any:
        print("body")
        return c + x, None

    def f(x: Any) -> Any:
        return funcad.scan(body, x, np.ones(3))[0]

    assert jit(f)(1.0) == 4.0
    said = capsys.readouterr()
    assert f(1.0) == 4.0
    assert said == capsys.readouterr()


def says_it(x: Any) -> Any:
    print(x)
    return x * x


def logs_it(x: Any) -> Any:
    print("start")
    print(f"v {x}")
    sys.stdout.write("w " + str(x) + "\n")
    return x * x


def sums(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: np.sum(f(x))


MAPPED: dict[str, Callable[..., Any]] = {
    "vmap": vmap,
    "vmap in a function": lambda f: lambda x: np.sum(vmap(f)(x)),
    "in parts": lambda f: vmap(f, chunk_size=1),
    "vmap of grad": lambda f: vmap(grad(f)),
    "grad of vmap": lambda f: grad(sums(vmap(f))),
    "vmap of checkpoint": lambda f: vmap(funcad.checkpoint(f)),
}


@pytest.mark.parametrize("f", [says_it, logs_it], ids=lambda f: f.__name__)
@pytest.mark.parametrize("way", MAPPED.values(), ids=MAPPED)
def test_what_vmap_maps_says_it_for_each_example_at_each_call(
    f: Callable[..., Any], way: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    g = way(f)
    h = jit(g)
    with pytest.warns(NotCompiledWarning, match="that vmap maps"):
        h(np.arange(2.0)), h(np.arange(2.0))
    capsys.readouterr()
    for i in range(3):
        x = np.arange(2.0) + i
        np.testing.assert_array_equal(h(x), g(x))
        said = [line for line in capsys.readouterr().out.splitlines() if line != "start"]
        assert said == [line for v in x for line in ([f"{v}"] if f is says_it else [f"v {v}", f"w {v}"])] * 2


@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_says_nothing_of_an_example_is_said_at_each_call_of_what_vmap_maps(caplog: pytest.LogCaptureFixture) -> None:
    times: list[float] = []

    def f(x: Any) -> Any:
        warnings.warn("warned", stacklevel=1)
        LOGGER.warning("logged")
        times.append(time.perf_counter())
        return x * x

    g = jit(vmap(f))
    with pytest.warns(UserWarning, match="warned") as said:
        for _ in range(4):
            g(np.arange(2.0))
    assert len([w for w in said if str(w.message) == "warned"]) == 4
    assert [r.getMessage() for r in caplog.records] == ["logged"] * 4 and times == sorted(set(times)) and len(times) == 4


ONCE: dict[str, Callable[..., Any]] = {
    "checkpoint": funcad.checkpoint,
    "grad of checkpoint": lambda f: grad(sums(funcad.checkpoint(f))),
    "hvp of checkpoint": lambda f: lambda x: funcad.hvp(sums(funcad.checkpoint(f)), (x,), (x,)),
    "cond": lambda f: lambda x: funcad.cond(np.sum(x) > -1.0, f, lambda x: x, x),
    "grad of cond": lambda f: grad(lambda x: np.sum(funcad.cond(np.sum(x) > -1.0, f, lambda x: x, x))),
    "laplacian": lambda f: lambda x: funcad.laplacian(sums(f))(x),
    "custom_jvp": lambda f: with_jvp(f),
    "custom_vmap": lambda f: with_vmap(f),
}


def with_jvp(f: Callable[..., Any]) -> Callable[..., Any]:
    made = funcad.custom_jvp(f)
    made.defjvp(lambda primals, tangents: (made(*primals), 2.0 * primals[0] * tangents[0]))
    return made


def with_vmap(f: Callable[..., Any]) -> Callable[..., Any]:
    made = funcad.custom_vmap(f)
    made.def_vmap(lambda size, batched, x: (x * x, True))
    return made


@pytest.mark.parametrize("way", ONCE.values(), ids=ONCE)
@pytest.mark.parametrize("f", [says_it, logs_it], ids=lambda f: f.__name__)
def test_bodies_that_run_once_say_it_at_each_call(
    f: Callable[..., Any], way: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    h = jit(way(f))
    h(np.zeros(2)), h(np.zeros(2))
    capsys.readouterr()
    for i in range(3):
        x = np.arange(2.0) + i
        h(x)
        assert capsys.readouterr().out == (f"{x}\n" if f is says_it else f"start\nv {x}\nw {x}\n")
    assert h.cache_info().misses == 1


def test_a_clock_is_read_at_each_call_of_a_checkpoint() -> None:
    f = jit(funcad.checkpoint(lambda x: (x, time.time_ns())[1]))
    found = [f(1.0) for _ in range(4)]
    assert found == sorted(set(found))


def test_the_names_are_those_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """A `print` of the user's own is a function like others."""
    said: list[Any] = []
    monkeypatch.setitem(globals(), "print", lambda *args: said.append(args[1]))
    f = jit(with_numbers_by_name)
    assert [f(1.0), f(2.0)] == [1.0, 2.0] and said == [1.0, 2.0]
    monkeypatch.delitem(globals(), "print")
    assert print is builtins.print


def with_numbers_by_name(x: Any) -> Any:
    print("x", x)
    return x


class Recorded:
    """A method that says something, draws, and stores before and after what may fail."""

    def __init__(self) -> None:
        self.n, self.log, self.rng, self.last = 0, [], np.random.default_rng(3), {}  # type: ignore[var-annotated]

    def step(self, x: Any) -> Any:
        self.n += 1
        print("begin", self.n, x[0, 0])
        drawn = self.rng.normal()
        self.log.append(drawn)
        self.last["drawn"] = drawn
        print("drawn", drawn)
        y = np.linalg.inv(x) * drawn
        print("after")
        self.n += 100
        self.log.append(np.sum(y))
        return y


@pytest.mark.parametrize("engine", ["native", "numpy", "interpreter"])
def test_an_error_after_something_was_said(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is said or drawn twice, and what was stored before the error is stored."""
    matrices = [np.eye(2), 2.0 * np.eye(2), 3.0 * np.eye(2), np.zeros((2, 2)), np.eye(2), np.zeros((2, 2)), np.eye(2)]
    found = []
    with funcad.config.set(engine=engine), warnings.catch_warnings():
        warnings.simplefilter("error")  # it is compiled
        for wrap in (lambda f: f, jit):
            recorded = Recorded()
            f, states = wrap(recorded.step), []
            for x in matrices:
                try:
                    states.append(f(x).tolist())
                except np.linalg.LinAlgError as error:
                    states.append(str(error))
                states.append((recorded.n, [*recorded.log], {**recorded.last}))
            found.append((states, capsys.readouterr().out))
    assert found[1] == found[0]


def says_and_looks_up(table: dict[str, float]) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        print("begin", np.sum(x))
        warnings.warn("it may fail", stacklevel=1)
        LOGGER.warning("drawn %s", random.random())
        y = np.linalg.inv(x)
        print("inverted")
        return y * table["rate"]

    return f


@pytest.mark.parametrize("observes", [True, False])
def test_an_error_of_what_was_there_before_after_something_was_said(
    observes: bool, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is met while the function is traced, and no value was asked for: what comes before it happens, once, before it."""
    monkeypatch.setattr(first_calls, "OBSERVES", observes)
    one, singular = np.eye(2), np.zeros((2, 2))
    calls = [(one, 1), (one, 0), (one, 0), (singular, 0), (one, 1), (one, 1), (one, 0)]
    found = []
    for transform in (lambda f: f, jit):
        table: dict[str, float] = {}
        f, results = transform(says_and_looks_up(table)), []
        random.seed(7)
        for x, there in calls + calls:
            table.update({"rate": 2.0} if there else {})
            with warnings.catch_warnings(record=True) as warned:
                warnings.simplefilter("always")
                try:
                    results.append(f(x).tolist())
                except (LookupError, np.linalg.LinAlgError) as error:
                    assert error.__context__ is None
                    results.append(repr(error))
            results.append([(str(w.message), w.filename, w.lineno) for w in warned])
            table.clear()
        found.append((results, capsys.readouterr().out, [r.getMessage() for r in caplog.records]))
        caplog.clear()
    assert found[1] == found[0]
    assert "KeyError('rate')" in found[0][0] and "LinAlgError('Singular matrix')" in found[0][0]


def test_a_draw_and_a_branch(capsys: pytest.CaptureFixture[str]) -> None:
    """The path is found by a call that draws: the generator has been moved by that draw, and by nothing else."""
    rng = np.random.default_rng(3)

    def f(x: Any) -> Any:
        print("drawn", rng.normal())
        return x if x > 50.0 else x * 2.0

    g = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [g(v) for v in (1.0, 60.0, 2.0, 70.0)] == [2.0, 60.0, 4.0, 70.0]
    other = np.random.default_rng(3)
    assert capsys.readouterr().out == "".join([f"drawn {other.normal()}\n" for _ in range(4)])


def test_a_draw_that_nobody_sees_beside_one_that_is_seen() -> None:
    rng = np.random.default_rng(3)
    hidden = unseen(lambda: rng.normal())
    g = jit(lambda x: (x if x > 50.0 else x * 2.0) + rng.normal() * hidden())
    with pytest.warns(NotCompiledWarning, match="moves the generator"):
        found = [g(1.0) for _ in range(3)]
    other = np.random.default_rng(3)
    assert found == [2.0 + other.normal() * other.normal() for _ in range(3)]


def test_a_print_before_a_draw_before_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the path is found the draw happens first; the run that stores what comes before the error draws nothing."""

    class State:
        t = 0

    def made(wrap: Any) -> Any:
        state, table = State(), {"k": 1.0}

        def f(x: Any) -> Any:
            print("p", x)
            y = x + random.random()
            state.t += 1
            y = y if state.t % 2 else -y
            return y * table["k"]

        return wrap(f), state, table

    found = []
    for wrap in (lambda f: f, jit):
        f, state, table = made(wrap)
        random.seed(4)
        results: list[Any] = []
        for there in (1, 1, 1, 0, 0, 1, 1, 0, 1):
            table.update({"k": 2.0} if there else {})
            try:
                results += [f(1.5), state.t]
            except KeyError as error:
                results += [repr(error), state.t]
            table.clear()
        found.append((results, random.random(), capsys.readouterr().out))
    assert found[1] == found[0]
