"""The first call of a signature runs f itself; the second one traces; nobody can tell but by the time."""

from __future__ import annotations

import datetime
import decimal
import fractions
import inspect
import json
import random
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import NotCompiledWarning, grad, jit, vmap
from funcad.backends.interpreter import counters
from funcad.ir.tracer import Tracer
from funcad.jitted import first_calls
from tests.unseen import Noted

pytestmark = pytest.mark.usefixtures("patient")

W = np.arange(4.0)


@pytest.fixture(autouse=True)
def _observes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)


def traces(call: Callable[[], Any]) -> int:
    before = counters["traces"]
    call()
    return counters["traces"] - before


def test_the_first_call_of_a_signature_traces_nothing() -> None:
    f = jit(lambda x: x * 2.0)
    assert [traces(lambda: f(np.ones(3))) for _ in range(4)] == [0, 1, 0, 0]
    assert [traces(lambda: f(np.ones(4))) for _ in range(2)] == [0, 1]
    assert f.cache_info()._asdict() == {"hits": 2, "misses": 2, "maxsize": 256, "currsize": 2, "observed": 2}
    f.clear_cache()
    assert [traces(lambda: f(np.ones(3))) for _ in range(2)] == [0, 1]


def test_it_is_no_miss() -> None:
    said: list[str] = []
    f = jit(lambda x: x * 2.0)
    with funcad.explain_cache_misses(said.append):
        f(1.0)
        assert said == []
        f(1.0)
    assert len(said) == 1 and "first trace" in said[0]


RESULTS: list[tuple[Callable[[Any], Any], Any]] = [
    (lambda x: x * 2, 1.0), (lambda x: x + 1, 3), (lambda x: x > 1, 3.0), (lambda x: 3, 1.0), (lambda x: None, 1.0),
    (lambda x: (x, {"b": x, "a": 2.0}), np.float32(2)), (lambda x: x[1:], W.copy()), (lambda x: x, W.copy()),
    (lambda x: W, 1.0), (lambda x: W[1:], 1.0), (lambda x: x.sum(), W.copy()), (lambda x: x[0], W.copy()),
    (lambda x: np.log(x), np.zeros(2)),
    (lambda x: [x, x], W.copy()), (lambda x: np.broadcast_to(x, (3,)), 1.0), (lambda x: np.zeros(()) + x, np.array(2.0)),
]  # fmt: skip


def shown(out: Any, x: Any) -> list[Any]:
    """What a caller can see of a result."""
    leaves, structure = funcad.tree.flatten(out)
    found: list[Any] = [structure]
    for v in leaves:
        apart = type(v) is not np.ndarray or not (np.shares_memory(v, x) or np.shares_memory(v, W))
        found.append((type(v), getattr(v, "shape", ()), getattr(v, "dtype", None), np.asarray(v).tobytes(), apart))
        found.append(type(v) is not np.ndarray or v.flags.writeable)
    found.append(len({id(v) for v in leaves if type(v) is np.ndarray}))
    return found


@pytest.mark.parametrize(("f", "x"), RESULTS, ids=range(len(RESULTS)))
def test_results_are_like_those_of_later_calls(f: Callable[[Any], Any], x: Any) -> None:
    jitted = jit(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second, third = jitted(x), jitted(x), jitted(x)
    assert shown(first, x) == shown(second, x) == shown(third, x)
    assert all([type(v) is not np.ndarray or not (np.shares_memory(v, x) or v is W) for v in funcad.tree.leaves(first)])


@pytest.mark.parametrize("out", ["text", {1, 2}, object, (1.0, "text")], ids=repr)
def test_what_is_no_result_is_refused_at_once(out: Any) -> None:
    f = jit(lambda x: out)
    with pytest.raises(TypeError, match="expected an array or a number"):
        f(1.0)


def test_what_is_written_and_returned_is_the_callers_own() -> None:
    def add(x: Any, y: Any) -> Any:
        x += y
        return x, x * 2

    f = jit(add)
    for _ in range(3):
        x = np.ones(3)
        same, twice = f(x, np.ones(3))
        assert same is x and np.array_equal(x, [2.0] * 3) and np.array_equal(twice, [4.0] * 3)
    rank_0 = np.array(1.0)
    assert f(rank_0, 1.0)[0] is rank_0


def test_effects_are_plain_pythons(capsys: pytest.CaptureFixture[str]) -> None:
    class Counter:
        n = 0

    c, r = Counter(), random.Random(5)

    def f(x: Any) -> Any:
        c.n += 1
        print("called")
        return x * c.n + r.random()

    jitted, plain = jit(f), random.Random(5)
    for i in range(1, 5):
        assert jitted(2.0) == 2.0 * i + plain.random()
    assert c.n == 4 and capsys.readouterr().out == "called\n" * 4


def test_lanes_say_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    """vmap tries whether something happens, and then calls the function lane by lane: the first one has said nothing yet."""

    def f(x: Any) -> Any:
        if x > 0.0:
            print("lane", x)
        return x * 2.0

    jitted = jit(f)
    for _ in range(3):
        assert vmap(jitted)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]
        assert capsys.readouterr().out == "lane 1.0\nlane 2.0\n"


def stores_an_entry(params: Any) -> Any:
    params["w"] = params["w"] * 2.0
    return params["w"]


def returns_what_it_changed(params: Any) -> Any:
    params["w"] = params["w"] * 2.0
    return params


def stores_deeper(params: Any) -> Any:
    params["in"][0]["z"] = params["w"] * 2.0
    return params["in"][0]["z"]


def appends(params: Any) -> Any:
    params["list"].append(params["w"])
    return params["list"][-1] * 2.0


def takes_away(params: Any) -> Any:
    return params.pop("v") * params["w"]


def writes_into_an_array(params: Any) -> Any:
    params["w"] *= 2.0
    return params["w"]


def changes_a_copy(params: Any) -> Any:
    own = dict(params, list=[*params["list"]])
    own["w"] = own["w"] * 2.0
    own["list"].append(own["w"])
    return own["list"][-1]


@pytest.mark.parametrize("f", [
    stores_an_entry, returns_what_it_changed, stores_deeper, appends, takes_away, writes_into_an_array, changes_a_copy,
], ids=lambda f: f.__name__)  # fmt: skip
def test_containers_among_the_arguments_are_the_callers(f: Callable[[Any], Any]) -> None:
    def made() -> Any:
        return {"w": np.ones(2), "v": np.full(2, 3.0), "in": [{"z": np.zeros(2)}], "list": [np.ones(2)]}

    jitted, given, wanted = jit(f), made(), made()
    with warnings.catch_warnings():
        warnings.simplefilter("error" if f in (writes_into_an_array, changes_a_copy) else "ignore", NotCompiledWarning)
        for _ in range(4):
            assert repr(jitted(given)) == repr(f(wanted))
            assert repr(given) == repr(wanted)
            given.setdefault("v", np.ones(2))
            wanted.setdefault("v", np.ones(2))


def test_integers_of_any_size() -> None:
    f = jit(lambda n: n**50)
    assert [f(7) for _ in range(3)] == [7**50] * 3


def test_a_function_that_calls_itself() -> None:
    factorial: Any = jit(lambda n: 1.0 if n <= 1 else n * factorial(n - 1))
    assert [factorial(5) for _ in range(4)] == [120.0] * 4


TAKES_NUMBERS: list[Callable[[Any], Any]] = [
    lambda x: float(decimal.Decimal(x)), lambda x: float(fractions.Fraction(x)), lambda x: json.loads(json.dumps(x)),
    lambda x: datetime.timedelta(x).total_seconds(),
]  # fmt: skip


@pytest.mark.parametrize("f", TAKES_NUMBERS, ids=range(len(TAKES_NUMBERS)))
def test_what_takes_numbers_only_is_not_compiled(f: Callable[[Any], Any]) -> None:
    """Libraries raise TypeError at a stand-in; the function that was right at its first call is right at all."""
    jitted = jit(f)
    with pytest.warns(NotCompiledWarning, match="it fails while it is traced") as said:
        assert [jitted(1.5) for _ in range(4)] == [f(1.5)] * 4
    assert len(said) == 1 and str(said[0].message).count("Remedy: ") == 1
    assert "it fails while it is traced" in str(jitted.explain(1.5))


def _calls_looked_at(f: Any, values: list[Any], times: int) -> int:
    """How many of these calls, all of which must be right, were observed or traced."""

    def looks() -> int:
        return f.cache_info().observed + counters["traces"]

    before = looks()
    for x in values * times:
        assert f(x) == np.sum(next(iter(x.values())) if type(x) is dict else x)
    return looks() - before


@pytest.mark.parametrize("sizes", [257, 400, 3000])
@pytest.mark.parametrize("order", ["in turn", "random", "dict"])
def test_more_signatures_than_are_remembered_are_not_looked_at(sizes: int, order: str) -> None:
    f = jit(lambda x: np.sum(x["x"] if type(x) is dict else x))
    values: list[Any] = [np.ones(n) for n in range(1, sizes + 1)]
    if order == "random":
        values = [values[i] for i in np.random.default_rng(0).permutation(sizes)]
    elif order == "dict":
        values = [{"x": x} for x in values]
    times = 1 + 4000 // sizes
    _calls_looked_at(f, values, times)
    assert _calls_looked_at(f, values, times) < 0.1 * sizes * times
    assert f(np.ones(1 << 18)) == 1 << 18 and f.lower(np.ones(1 << 18))  # a large one is traced at once


def test_few_signatures_are_traced_after_many_that_came_in_vain() -> None:
    f = jit(lambda x: np.sum(x))
    _calls_looked_at(f, [np.ones(n) for n in range(1, 1000)], 3)
    few = [np.ones(n) for n in range(2000, 2010)]
    _calls_looked_at(f, few, 2000)
    assert f.cache_info().currsize >= 10 and _calls_looked_at(f, few, 10) == 0


def test_what_rests_has_written_calls_before_it() -> None:
    """A signature that has a program keeps it while others, of which a trace is not repaid, run un-jitted."""
    calls = Noted()

    def f(x: Any) -> Any:
        calls.note()
        return np.sum(x)

    jitted, x = jit(f), np.ones(3)
    for _ in range(5):
        jitted(x)
    _calls_looked_at(jitted, [np.ones(n) for n in range(4, 1000)], 3)
    del calls[:]
    assert [float(jitted(x)) for _ in range(3)] == [3.0] * 3 and not calls
    assert grad(jitted)(np.ones(5000)).tolist() == [1.0] * 5000 and jitted(np.float32(3)) == 3


def test_an_error_is_no_first_call() -> None:
    fails = [True]

    def f(x: Any) -> Any:
        if fails:
            raise KeyError("once")
        return x * 2.0

    jitted = jit(f)
    for _ in range(2):
        with pytest.raises(KeyError, match="once"):
            jitted(1.0)
    fails.clear()
    assert traces(lambda: jitted(1.0)) == 0 and traces(lambda: jitted(1.0)) == 1


CANNOT: list[Callable[[Any], Any]] = [
    lambda x: vmap(lambda v: [v, -v][int(v < 0)])(x),
    lambda x: vmap(lambda v: v if v > 0 else -v)(x),
]


@pytest.mark.parametrize("f", CANNOT, ids=range(len(CANNOT)))
def test_what_a_trace_cannot_do_runs_un_jitted(f: Callable[[Any], Any]) -> None:
    x = np.array([-1.0, 2.0])
    jitted = jit(f)
    np.testing.assert_array_equal(jitted(x), f(x))
    with pytest.warns(NotCompiledWarning, match="it fails while it is traced") as said:
        np.testing.assert_array_equal(jitted(x), f(x))
    np.testing.assert_array_equal(jitted(x), f(x))
    text = str(said[0].message)
    assert text.count("Remedy: ") == 1 and "pass what changes" not in text  # it is the error's own


_KEPT: dict[Any, float] = {1.0: 5.0}
AT_ONCE: dict[str, Callable[[Any], Any]] = {
    "it writes into an array that it found": lambda x: np.subtract(W, x[0], out=W).sum() + x,
    "a key of a dict": lambda x: _KEPT.get(x[0], 2.0) * x,
    "a member of a set": lambda x: x * 2.0 if x[0] in {1.0} else x,
    "the memory of an array": lambda x: x.view(np.int64) * 1,
    "an attribute of arrays only": lambda x: x * len(x.data),
    "a library that takes numbers": lambda x: float(decimal.Decimal(float(x[0]))) * x,
}


@pytest.mark.parametrize("patience", [0, 1])
@pytest.mark.parametrize("name", AT_ONCE)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_a_trace_cannot_do_runs_un_jitted_without_patience_too(name: str, patience: int) -> None:
    f = AT_ONCE[name]
    jitted, x = jit(lambda x: f(x)), np.array([1.0, 2.0])
    with funcad.config.set(jit_patience=patience):
        for k in (1.0, 1.0, 3.0, 1.0):
            W[:] = np.arange(4.0)
            expected, at = f(k * x), W.copy()
            W[:] = np.arange(4.0)
            np.testing.assert_array_equal(jitted(k * x), expected)
            np.testing.assert_array_equal(W, at)
    W[:] = np.arange(4.0)


def test_where_it_traces_at_once() -> None:
    large = np.ones(first_calls.LARGE // 8 + 1)
    table = {"rate": 2.0}
    cases: list[tuple[Callable[..., Any], tuple]] = [
        (jit(lambda x: x * 2.0), (large,)),
        (jit(lambda x: x * 2.0, guards=False), (1.0,)),
        (jit(lambda x: x * 2.0, donate_argnums=0), (np.ones(3),)),
        (jit(lambda x: x * 2.0, not_compiled="raise"), (1.0,)),
        (jit(lambda x: x * funcad.constant(table["rate"])), (1.0,)),
        (grad(lambda x: jit(lambda y: y * 2.0)(x)), (1.0,)),
        (vmap(jit(lambda x: x * 2.0)), (np.ones(3),)),
        (jit(lambda x: jit(lambda y: y * 2.0)(x)).lower, (1.0,)),
    ]
    assert [traces(lambda f=f, args=args: f(*args)) > 0 for f, args in cases] == [True] * len(cases)
    with funcad.config.set(not_compiled="raise"), pytest.raises(NotCompiledWarning):
        jit(lambda x: x * next(iter([2.0])) + open("/dev/null").fileno())(1.0)


def test_a_constant_is_of_the_first_call() -> None:
    table = {"rate": 2.0}
    f = jit(lambda x: x * funcad.constant(table["rate"]))
    assert f(1.0) == 2.0
    table["rate"] = 3.0
    assert f(1.0) == 2.0


def test_what_is_made_anew_at_each_call_never_traces() -> None:
    assert traces(lambda: [jit(lambda x, i=i: x * i)(2.0) for i in range(20)]) == 0


def test_f_is_given_no_traced_value_first() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(type(x) is Tracer)
        return x + 1.0

    jit(f)(1.0)
    assert seen == [False]


def test_in_threads_each_call_is_right() -> None:
    f = jit(lambda x: np.sum(np.sin(x)) * 2.0)
    x = np.arange(5.0)
    results: list[float] = []
    threads = [threading.Thread(target=lambda: results.extend([float(f(x)) for _ in range(5)])) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 40 and np.allclose(results, float(np.sum(np.sin(x)) * 2.0), rtol=1e-14)
    assert f.cache_info().observed == 1


def _slopes(x: Any) -> Any:
    """jit does not compile it: lanes ask for values."""
    return vmap(grad(lambda row: np.sum(row) if row[0] > 0 else -np.prod(row)))(x)


def _in_threads(*calls: Callable[[], Any]) -> list[Any]:
    """What they give, or raise; each runs in a thread of its own."""
    found: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        try:
            found[i] = calls[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return found


def test_a_first_call_is_one_while_another_thread_traces() -> None:
    x, f, tracing, called = np.ones((3, 2)) * [[1.0], [-1.0], [2.0]], jit(_slopes), threading.Event(), threading.Event()

    def traced(row: Any) -> Any:
        tracing.set()
        return row * float(called.wait(60))

    def call() -> Any:
        tracing.wait(60)
        try:
            return f(x)
        finally:
            called.set()

    found = _in_threads(lambda: vmap(traced)(x), call)
    assert found[0].tolist() == x.tolist() and found[1].tolist() == _slopes(x).tolist()
    assert f.cache_info().observed == 1


def test_who_waits_for_a_trace_that_fails_runs_the_function() -> None:
    """Which signatures have run is forgotten then, but what waits knew it before."""
    x, tracing, waiting = np.ones((3, 2)) * [[1.0], [-1.0], [2.0]], threading.Event(), threading.Event()

    def slopes(x: Any) -> Any:
        if type(x) is Tracer and not tracing.is_set():
            tracing.set()
            waiting.wait(0.2)  # nobody says that a thread waits for a lock
        return _slopes(x)

    def call() -> Any:
        tracing.wait(60)
        return f(x)

    f = jit(slopes)
    f(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        found = _in_threads(lambda: f(x), call)
    assert [a.tolist() for a in found] == [_slopes(x).tolist()] * 2


def test_a_warning_names_the_line_of_the_call_at_the_first_call_too() -> None:
    def helper(x: Any) -> Any:
        warnings.warn("mind this", stacklevel=3)
        return x

    for f in (lambda x: helper(x) * 2.0, lambda x: (warnings.warn("mind that", UserWarning, 2), x)[1]):
        jitted = funcad.jit(f)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            lines = [(jitted(1.0), inspect.currentframe().f_lineno)[1] for _ in range(3)]  # type: ignore[union-attr]
        assert [(w.filename, w.lineno) for w in said] == [(__file__, line) for line in lines]


def test_what_says_x_at_is_traced() -> None:
    """Plain arrays have no `at`; `np.add.at(x, i, v)` is a call, which they take."""
    f, g = funcad.jit(lambda x: np.sum(x.at[0].set(5.0))), funcad.jit(_with_two_ones)
    assert f(np.ones(3)) == 7.0 and f.cache_info().observed == 0
    assert g(np.ones(2)).tolist() == [3.0, 1.0] and g.cache_info().observed == 1
    h = funcad.jit(lambda x: f(x) + 1.0)
    assert h(np.ones(3)) == 8.0 and h.cache_info().observed == 1


INDEXED: dict[str, Callable[[Any], Any]] = {  # plain arrays take no traced index, traced ones do
    "fori_loop": lambda x: funcad.fori_loop(0, 3, lambda i, c: c * x[i], 1.0),
    "scan": lambda x: funcad.scan(lambda c, i: (c * x[i], None), 1.0, np.arange(3))[0],
    "while_loop": lambda x: funcad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * x[c[0]]), (0, 1.0))[1],
    "map": lambda x: np.prod(funcad.map(lambda i: x[i], np.arange(3))),
}


def _written_first(x: Any) -> Any:
    x[0] += 1.0
    return INDEXED["fori_loop"](x)


@pytest.mark.parametrize("name", INDEXED)
def test_what_a_loop_indexes_is_traced_at_once(name: str) -> None:
    for x in (np.array([2.0, 3.0, 5.0]), np.ones(3)):
        f = jit(lambda x: INDEXED[name](x))
        assert [f(x) for _ in range(4)] == [np.prod(x)] * 4 and f.cache_info().misses <= 1
        assert traces(lambda f=f: f(np.ones(4))) == 1  # from now on at the first call of each signature


@pytest.mark.parametrize("n", [3, 200_000])
def test_what_a_loop_indexes_is_traced_along_paths_too(n: int) -> None:
    """Nor does f itself run where no path is known yet, or while it rests."""
    f = jit(lambda x: funcad.fori_loop(0, 3, lambda i, c: c * x[i], 1.0) if x[0] > 0 else 0.0)
    x = np.arange(1.0, n + 1)
    assert [f(x if i % 3 else -x) for i in range(40)] == [6.0 if i % 3 else 0.0 for i in range(40)]


def test_what_was_done_before_a_first_call_failed_is_done_once() -> None:
    f, x = jit(_written_first), np.array([2.0, 3.0, 5.0])
    assert [f(x) for _ in range(3)] == [45.0, 60.0, 75.0] and x.tolist() == [5.0, 3.0, 5.0]
    calls: list[int] = []

    def acting(x: Any) -> Any:
        calls.append(len(calls))
        return INDEXED["scan"](x)

    g = jit(acting)
    with pytest.raises(funcad.errors.TracerArrayConversionError):  # as un-jitted, once
        g(x)
    assert calls == [0]
    assert g(x) == 75.0 and g(x) == 75.0 and calls == [0, 1, 2]
    table = np.ones(3)
    h = jit(lambda x: funcad.fori_loop(0, 3, lambda i, c: c * table[i], x[0]))
    for _ in range(3):
        with pytest.raises(funcad.errors.TracerArrayConversionError):
            h(x)


def _with_two_ones(x: Any) -> Any:
    y = x.copy()
    np.add.at(y, [0, 0], 1.0)
    return y


def _how() -> Any:
    return np.geterr()["divide"]


ASKING: dict[str, Callable[[Any], Any]] = {
    "what is said": lambda x: x if np.geterr()["divide"] == "warn" else -x,
    "a function that asks": lambda x: x if _how() == "warn" else -x,
    "who is called": lambda x: x if np.geterrcall() is None else -x,
}


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_who_asks_how_numpy_warns_is_told_the_users_setting(name: str) -> None:
    with np.errstate(divide="warn", call=None):
        jitted = jit(ASKING[name])
        assert [jitted(1.0) for _ in range(3)] == [1.0] * 3
