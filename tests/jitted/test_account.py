"""The account of a jitted function: what is spent is counted, so decisions repeat, and it must be repaid."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import funcad as fc
from funcad.backends.engines import made, program_of
from funcad.backends.interpreter import counters
from funcad.host.where import noted
from funcad.jitted import account, first_calls
from funcad.jitted.account import COSTS, Account
from funcad.jitted.path_programs import PathProgram
from funcad.jitted.paths import Paths
from tests.jitted.test_paths_calls import paths_of
from tests.unseen import Noted

FREE = COSTS["free"]
pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def much_is_free(monkeypatch):
    monkeypatch.setitem(COSTS, "free", 1.0)


def sorted_sum(*xs):
    return sum([(k + 1.0) * x for k, x in enumerate(sorted(xs))])


def walk_of(x):
    s = 0.0
    for i in range(len(x)):
        s = s + x[i] if s < 1.0 else 0.9 * s - abs(x[i])
    return s


def walk(x):
    return walk_of(x[:100])


def long_walk(x):
    for i in range(2000):
        x = x * 0.99 + i if x > 0 else -x
    return x


def long_walk_with_questions(x):
    for i in range(4000):
        x = x * 0.5 + i if x > -1e9 else x
    return x


def irregular(x):
    """No loop of it is rolled."""
    for i in np.random.default_rng(0).integers(0, 3, 3000):
        x = [np.sin, np.tanh, np.arctan][i](x) + 1.0
    return x


def decisions_of(f, calls):
    j = fc.jit(lambda x: f(x))
    results = [j(x) for x in calls]
    return j.cost(), results


def test_the_same_calls_decide_the_same():
    calls = [np.random.default_rng(k % 7).normal(size=100) for k in range(300)]
    (first, results), (second, again) = decisions_of(walk, calls), decisions_of(walk, calls)
    assert first == second and len(first.decisions) > 1
    assert np.array(results).tobytes() == np.array(again).tobytes()


def decisions_of_gradients():
    """Of a gradient whose paths run step by step, then as programs: what was decided, and the bits of the results."""
    points = [np.random.default_rng(k % 5).normal(size=20) for k in range(40)]
    cost, results = decisions_of(fc.grad(lambda x: sorted_sum(*[x[i] for i in range(4)]) ** 2 + walk_of(x)), points)
    return cost, np.array(results).tobytes().hex()


@pytest.mark.parametrize(
    ("text", "met"),
    [("t.decisions_of(t.long_walk, [1.0 + k for k in range(9)])", "given up"), ("t.decisions_of_gradients()", "compiled")],
)
def test_the_same_calls_decide_the_same_in_another_process(text, met):
    text = f"import tests.jitted.test_account as t; print(*{text}, sep=chr(10))"
    outputs = [subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout for _ in "ab"]
    assert outputs[0] == outputs[1] and met in outputs[0]


def test_nothing_is_spent_beyond_what_is_free_and_what_the_calls_took():
    j = fc.jit(lambda x: long_walk(x))
    for k in range(200):
        j(1.0 + k)
        cost = j.cost()
        assert cost.recording + cost.compiling <= COSTS["over"] * (FREE + cost.unjitted)
    assert cost.calls == 200


def test_a_recording_that_is_given_up_leaves_nothing_behind():
    calls, shared = Noted(), {"n": 0}

    def f(x):
        shared["n"] += 1
        calls.note(type(x))
        try:
            for i in range(4000):
                x = x * 0.5 + i if x > -1e9 else x
        except:  # noqa: E722 takes everything, and the recording is given up all the same
            x = x * 0.0 - 1.0
        return x

    j = fc.jit(f)
    expected = [f(float(k)) for k in range(4)]
    shared["n"] = 0
    assert [j(float(k)) for k in range(4)] == expected
    assert shared["n"] == 4
    assert "given up" in str(j.cost())


@pytest.mark.parametrize("transform", [lambda f: f, fc.grad], ids=["value", "grad"])
def test_a_recording_that_was_given_up_is_told_as_the_reason(monkeypatch, transform):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    j = fc.jit(transform(long_walk_with_questions))
    with pytest.raises(fc.errors.TracerBoolConversionError):
        j.explain(1.0)  # it was never called
    for k in range(4):
        j(1.0 + k)
    found = j.explain(1.0)
    assert "more calls will have repaid" in found.reason and "its calls run un-jitted" in str(found)
    with pytest.raises((TypeError, ValueError), match="argument"):
        j.explain()
    with fc.config.set(jit_patience=1e-9):  # it is repaid
        j(1.0), j(1.0)
    assert j.explain(1.0).paths


def test_a_path_that_comes_again_is_one_program(much_is_free):
    def f(x):
        s, n = x[0], 0
        for i in range(80):
            if s > 10.0:
                s, n = s - 10.0, n + 1
                assert n < 80
            s = s * 1.01 + x[i % 3]
        return s * n

    j, x = fc.jit(fc.grad(f)), np.array([1.0, 2.0, 3.0])
    for _ in range(5):
        np.testing.assert_allclose(j(x), fc.grad(f)(x), rtol=1e-12)
    (program,) = paths_of(j).programs
    assert len(program.keys) == 80 and paths_of(j).trie.segments.made == 0
    traces, hits = counters["traces"], paths_of(j).hits
    np.testing.assert_allclose(j(x), fc.grad(f)(x), rtol=1e-12)
    assert counters["traces"] == traces and paths_of(j).hits == hits + 1
    for k in range(20):  # another path: its answer is right whatever is run
        y = np.array([1.0, 2.0, 3.0 + 0.4 * (k % 3)])
        np.testing.assert_allclose(j(y), fc.grad(f)(y), rtol=1e-12)


def test_paths_of_a_derivative_run_step_by_step_until_they_are_compiled():
    """Un-jitted, a gradient takes longer than its equations: a path that was recorded is never run un-jitted again."""
    gradient = fc.grad(lambda x: sorted_sum(*[x[i] for i in range(4)]) ** 2)
    j = fc.jit(gradient)
    points = [np.array(p) for p in ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0], [4.0, 3.0, 2.0, 1.0])]
    for _ in range(3):
        for x in points:
            np.testing.assert_allclose(j(x), gradient(x), rtol=1e-12)
    paths = paths_of(j)
    assert paths.by_steps and len(paths.programs) <= COSTS["at once"]  # others when steps have cost as much
    compiled, traces, rows = made["compiled"], counters["traces"], noted.rows
    for x in points:
        j(x)
    assert (made["compiled"], counters["traces"], noted.rows) == (compiled, traces, rows)
    assert not any([program_of(p.jaxpr).function for known in paths.trie.segments._programs.values() for p in known])
    other = np.array([1.0, 2.0, 4.0, 3.0])  # unknown, and known ones still run so
    np.testing.assert_allclose(j(other), gradient(other), rtol=1e-12)
    rows = noted.rows
    j(points[0])
    assert noted.rows == rows


def test_a_native_path_is_met_each_time_it_comes_among_others(monkeypatch):
    """Its code is tried again at once after the others, each of which costs many times as much."""
    pytest.importorskip("llvmlite")
    gradient = fc.grad(lambda x: sorted_sum(*[x[i] for i in range(4)]) ** 2)
    j = fc.jit(gradient)
    points = [np.array(p) for p in ([1.0, 2.0, 3.0, 4.0], [2.0, 1.0, 3.0, 4.0], [1.0, 3.0, 2.0, 4.0])]
    with fc.config.set(engine="native"):
        for _ in range(40):
            for x in points:
                j(x)
        paths = paths_of(j)
        paths.programs, paths.waiting = tuple([p for p in paths.programs if p.is_native()][:1]), None
        (program,), right, run = paths.programs, [], PathProgram.run

        def noted_run(self, leaves):
            outs = run(self, leaves)
            right.append(outs[-1] == len(self.keys))
            return outs

        monkeypatch.setattr(Paths, "_repaid", lambda self, account, node: False)
        monkeypatch.setattr(PathProgram, "run", noted_run)
        for _ in range(12):
            for x in points:
                np.testing.assert_allclose(j(x), gradient(x), rtol=1e-12)
        assert paths.programs == (program,) and sum(right) >= 11


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.nan, np.inf])
def test_what_is_met_after_a_wrong_answer_is_dropped(wrong, much_is_free):
    def f(m, x):
        total = 0.0
        for _ in range(70):
            if x > 0:
                total = total + np.linalg.inv(m)[0, 0] * np.log(x)
            else:
                total = total + 1.0
        return total

    j, good = fc.jit(f), np.eye(2)
    for _ in range(4):
        assert j(good, 2.0) == pytest.approx(f(good, 2.0))
    assert paths_of(j).programs
    singular = np.zeros((2, 2))
    if wrong == np.inf:
        for _ in range(2):
            with pytest.raises(np.linalg.LinAlgError):
                j(singular, 1.0)
    else:
        assert j(singular, wrong) == f(singular, wrong)


def test_a_path_with_effects_keeps_its_segments():
    seen = Noted()

    def f(x):
        for i in range(3):
            if x > i:
                fc.debug.callback(seen.note, x)
            x = x + 1.0
        return x

    j = fc.jit(f)
    for _ in range(4):
        j(1.0)
    assert paths_of(j).programs == () and len(seen) == 12


def test_f_runs_itself_where_a_program_that_waits_takes_longer_by_its_equations(monkeypatch):
    """The selections of a walk, each of whose pulls adds to all elements, are more equations than f makes rows."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    j, f = fc.jit(fc.grad(walk_of)), fc.grad(walk_of)
    rows = []
    for k in range(8):
        x, before = np.random.default_rng(k).normal(size=200), noted.rows
        found = j(x)
        rows.append(noted.rows - before)
        np.testing.assert_array_equal(found, f(x))
    cost = j.cost()
    assert min(rows[3:]) >= 400 and cost.calls == 8 and cost.compiling == 0
    assert cost.decisions[-1] == "call 3: a recording of 3,586 equations"
    with fc.config.set(jit_patience=1e-9):  # it is repaid, so the next call compiles
        np.testing.assert_allclose(j(x), found, rtol=1e-12)
    before = noted.rows
    np.testing.assert_allclose(j(x), found, rtol=1e-12)
    assert noted.rows == before and "equations of it compiled" in j.cost().decisions[-1]


class Model:
    """Methods of a thousand operations on arrays, none of whose loops is rolled; `calls` is unseen by jit."""

    def __init__(self):
        self.calls, self.last = Noted(), None

    def value(self, x):
        self.calls.note(type(x) is np.ndarray)
        for i in np.random.default_rng(0).integers(0, 3, 700):
            x = [np.sin, np.tanh, np.arctan][i](x) + 1.0
        return x

    def stores(self, x):
        self.last = self.value(x)
        return self.last, x.sum()

    def stores_and_asks(self, x):
        if x[0] > 1e9:
            raise ValueError
        return self.stores(x)

    def writes(self, x):
        x[0] = 0.5
        return self.value(x)

    def maps(self, x):
        return fc.vmap(self.value)(x)


@pytest.mark.parametrize("name", ["value", "stores", "stores_and_asks", "writes", "maps"])
def test_a_plain_function_runs_itself_while_its_program_waits(monkeypatch, name):
    """Equation by equation it makes the same calls of NumPy, and more beside them; what traces takes longer un-jitted."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    model, other = Model(), Model()
    j, f = fc.jit(getattr(model, name)), getattr(other, name)
    for k in range(9):
        x, y = np.full(4, 0.1 * k), np.full(4, 0.1 * k)
        found, expected = fc.tree.leaves(j(x)), fc.tree.leaves(f(y))
        np.testing.assert_array_equal(x, y)
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, b)
        found[0][:] = np.nan  # is the caller's own
        if other.last is not None:
            np.testing.assert_array_equal(model.last, other.last)
    assert j.cost().compiling < j.cost().recording
    assert len(model.calls) == 2 if name == "maps" else sum(model.calls) >= 9, list(model.calls)
    with fc.config.set(jit_patience=1e-9):  # it is repaid
        j(np.ones(4)), j(np.ones(4))
        before = len(model.calls)
        j(np.ones(4))
    assert len(model.calls) == before or name == "stores_and_asks"  # which rests for some calls


def straight(n):
    def f(x):
        for k in range(n):
            x = np.sin(x) + 1.0 / (k + 1)
        return x.sum()

    return fc.grad(f)


def spent_after(f, x, calls):
    j = fc.jit(f)
    for _ in range(calls):
        j(x)
    cost = j.cost()
    return cost.recording + cost.compiling, cost


def test_what_is_spent_grows_with_the_size_without_a_step(monkeypatch):
    """A straight gradient of any length, recorded after its first call."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    sizes = [116, 120, 127, 128, 129, 140, 156]
    found = [spent_after(straight(n), np.linspace(0.5, 1.5, 160), 12)[0] for n in sizes]
    each = [seconds / n for n, seconds in zip(sizes, found)]
    assert max(each) <= 1.25 * min(each), list(zip(sizes, found))


def questions(n):
    """Of each of them two ways, which are no choice of numbers."""

    def f(x):
        s, turns = x[0], 0
        for i in range(n):
            if s < 1.0:
                s, turns = s + np.sin(x[i]), turns + 1
                continue
            s = s * 0.5 - np.cos(x[i])
        return s * turns

    return f


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "value"])
@pytest.mark.parametrize("n", [64, 128])
def test_one_question_more_costs_no_more_than_its_share(monkeypatch, much_is_free, gradient, n):
    """Three paths in turn, with as many questions as once were a limit, and one more."""
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    spent, ways = [], set()
    for more in (0, 1):
        f = questions(n + more)
        j = fc.jit(fc.grad(f) if gradient else f)
        for k in range(12):
            j(np.random.default_rng(k % 3).normal(size=160))
        cost, paths = j.cost(), paths_of(j)
        spent.append(cost.recording + cost.compiling)
        ways.add((len(paths.programs), paths.by_steps, paths.trie.segments.made > 0))
    assert len(ways) == 1 and spent[1] - spent[0] <= 2 * spent[0] / n, (spent, ways)


@pytest.mark.parametrize("n", [64, 65, 200])
def test_as_many_numbers_as_there_are_have_one_that_is_the_largest(n):
    f = lambda x: max([x[i] for i in range(n)]) - min([x[i] for i in range(n)])
    j = fc.jit(fc.grad(f))
    for k in range(4):
        x = np.random.default_rng(k).normal(size=n)
        np.testing.assert_array_equal(j(x), fc.grad(f)(x))
    assert all(e.paths is None for e in j._core.cache.entries.values()) and j.cost().recording > 0


@pytest.mark.parametrize("what", ["recording", "compiling"])
def test_the_table_has_no_cliff(what):
    """One equation more is never dearer than the dearest equation of the table, wherever a size of the table lies."""

    def seconds(n):
        if what == "compiling":
            return account.compile_cost(n, 0)
        known = Account()
        known.recorded([equation] * n, False, True, 0)
        return known.recording

    (equation,) = fc.make_jaxpr(np.sin)(1.0).equations
    named = [COSTS[name] for name in ("many", "thousands")]
    dearest = 2 * COSTS["scalar of many"] + COSTS["scalar"] if what == "compiling" else COSTS["recorded"] + COSTS["made ready"]
    for n in [1, 10, 100, 1000, 3000, *named]:
        for size in range(n - 1, n + 2):
            assert 0 < seconds(size + 1) - seconds(size) <= 1.001 * dearest, size


def test_no_patience_compiles_at_first_sight():
    with fc.config.set(jit_patience=0):
        j, traces = fc.jit(lambda x: long_walk(x)), counters["traces"]
        assert j(3.0) == long_walk(3.0) and counters["traces"] == traces + 1
        assert j(3.0) == long_walk(3.0) and j.cost().recording + j.cost().compiling > FREE
    with pytest.raises(ValueError, match="jit_patience"):
        fc.config.update("jit_patience", -1)


def test_idle_recordings_are_dearer_each_time():
    books = Account()
    equations = fc.make_jaxpr(fc.grad(irregular))(1.0).jaxpr.equations
    books.recorded(equations[:100], True, True)
    books.called(1000)
    waits = []
    for _ in range(6):
        books.recorded(equations[:2000], True, True)
        books.unused()
        waits.append(books.until(books.size))
    assert all([b > a for a, b in zip(waits[1:], waits[2:])])
    books.comes_again()
    assert books.until(books.size) < waits[-1]


def test_recordings_are_bounded_by_bytes():
    j = fc.jit(lambda x: walk(x))
    x = np.random.default_rng(0).normal(size=100)
    with fc.config.set(jit_bytes=100 * account.EQUATION_BYTES):
        for _ in range(4):
            assert j(x) == walk(x)
    assert "given up of 1" in str(j.cost())


def test_lower_and_compile_compile_now_and_calls_use_it():
    def f(x):
        return np.sin(x) * 2.0 + x

    j = fc.jit(f)
    compiled = j.lower(np.ones(3)).compile()
    (entry,) = j._core.cache.entries.values()
    assert program_of(entry.jaxpr).function is not None
    traces, programs = counters["traces"], counters["programs"]
    np.testing.assert_allclose(j(np.ones(3)), f(np.ones(3)))
    np.testing.assert_allclose(compiled(np.ones(3)), f(np.ones(3)))
    assert (counters["traces"], counters["programs"]) == (traces, programs)


def test_a_long_program_is_compiled_when_its_calls_have_repaid_it():
    f = irregular
    j = fc.jit(f)
    j.lower(1.0)  # traces it
    for k in range(6):
        assert j(1.0 + k) == pytest.approx(f(1.0 + k))
    (entry,) = j._core.cache.entries.values()
    assert program_of(entry.jaxpr).function is None and "account" in entry.jaxpr.memo
    j.lower(1.0).compile()
    assert program_of(entry.jaxpr).function is not None and j(2.0) == pytest.approx(f(2.0))


def test_a_long_program_of_equal_turns_is_compiled_soon(monkeypatch):
    def f(x):
        for i in range(600):
            x = np.sin(x) + i
        return x

    j = fc.jit(f)
    for k in range(4):
        assert j(1.0 + k) == pytest.approx(f(1.0 + k))
    assert "1,200 equations, made shorter" in str(j.cost()) and j.cost().compiling < 0.03


def test_the_rows_of_a_gradient_tell_how_long_a_recording_is(monkeypatch):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    j, traces = fc.jit(fc.grad(irregular)), counters["traces"]
    for k in range(4):
        np.testing.assert_allclose(j(1.0 + k), fc.grad(irregular)(1.0 + k))
    cost = j.cost()
    assert counters["traces"] == traces and cost.recording == 0.0  # where it cannot be repaid yet, nothing is tried
    assert cost.unjitted == pytest.approx(4 * 6000 * COSTS["row"], rel=0.01)


def test_what_takes_less_than_a_call_of_a_program_is_called_itself(monkeypatch):
    monkeypatch.setitem(COSTS, "call", 4e-6)

    def f(x):
        return x * 3.0 if np.sum(x) > 0.0 else x * 0.1

    j = fc.jit(f)
    for k in range(8):
        assert j(1.0 - k) == f(1.0 - k)
    assert j.cost().compiling == 0.0 and j.cost().calls == 8 and paths_of(j).tiny == 1
    for k in range(8):  # of another type: a call of that is long enough
        x = np.full(100_000, 1.0 - k % 2)
        np.testing.assert_array_equal(j(x), f(x))
    assert j.cost().compiling > 0.0
    with fc.config.set(jit_patience=0):
        for k in range(4):
            assert j(1.0 - k) == f(1.0 - k)


def test_explain_tells_the_cost():
    j, straight = fc.jit(lambda x: walk(x)), fc.jit(lambda x: x * 2.0)
    x = np.random.default_rng(0).normal(size=100)
    for _ in range(3):
        j(x), straight(1.0)
    for f, argument in ((j, x), (straight, 1.0)):
        found = f.explain(argument)
        assert found.cost == f.cost() and "calls counted" in str(found) and found.cost.recording > 0


def writes(x, n):
    for i in range(80):
        if x[i % 4] > 0:
            x[i % 4] = x[i % 4] * 0.5 - 0.01 * n
        else:
            x[i % 4] += 1.0
    return x


def aliases(x):
    s = 0.0
    for i in range(80):
        s = s + 1.0 if x[i % 4] > s * 0.01 else s
    return x, x[::-1], x * s


def indexes(x, k):
    out = 0.0
    for _ in range(70):
        k = k * 3 % 7
        out = out + x[k] if x[k] > 0 else out - x[k] * 2
    return out


def divides(x):
    s = 1.0
    for _ in range(70):
        s = s + 1 / x if x > -0.5 else s * 2
    return s


def outcome(f, arguments):
    """Results, what became of the arguments, and which results are arguments; or the error."""
    given = [a.copy() if isinstance(a, np.ndarray) else a for a in arguments]
    try:
        results = fc.tree.leaves(f(*given))
    except ArithmeticError as error:
        return type(error)
    written = f.__name__ == "writes" and [r is given[0] for r in results]
    return [np.asarray(r).tolist() for r in results], [np.asarray(a).tolist() for a in given], written


@pytest.mark.parametrize("free", [0.0, FREE, 5.0])
@pytest.mark.parametrize(
    "f, calls",
    [
        (writes, [(np.random.default_rng(i % 4).normal(size=4), 1.0 + i % 2) for i in range(12)]),
        (aliases, [(np.random.default_rng(i % 3).normal(size=4),) for i in range(12)]),
        (indexes, [(np.arange(7.0) - 3, 1 + i % 5) for i in range(20)]),
        (divides, [(x,) for x in (1.0, 2.0, 0.0, -1.0, 2.0, 0.0, 1.0, -0.0, np.inf) * 2]),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_results_are_pythons_whatever_is_spent(monkeypatch, f, calls, free):
    monkeypatch.setitem(COSTS, "free", free)
    j = fc.jit(f)
    j.clear_cache()
    for arguments in calls:
        expected, found = outcome(f, arguments), outcome(j, arguments)
        if type(expected) is type:
            assert found is expected
            continue
        for a, b in zip(expected[:2], found[:2]):
            for x, y in zip(a, b):
                np.testing.assert_allclose(y, x, rtol=1e-12)
        assert found[2] == expected[2]
    j.clear_cache()


@pytest.mark.parametrize("engine", ["numpy", "auto"])
def test_a_new_size_costs_one_trace_and_nothing_else(engine):
    def f(x):
        return np.sum(np.tanh(x @ np.ones((x.shape[1], 5)) + 0.5) ** 2)

    j = fc.jit(fc.value_and_grad(f))
    with fc.config.set(engine=engine):
        for n in (40, 50, 33, 45):  # the first is native, or not: three texts are learnt from
            for _ in range(4):
                j(np.ones((n, 7)))
        before, traces, spent = dict(made), counters["traces"], j.cost().compiling
        sizes = [21, 39, 55, 37]
        for n in sizes:
            value, gradient = fc.value_and_grad(f)(x := np.linspace(-1.0, 1.0, 7 * n).reshape(n, 7))
            for _ in range(3):
                found = j(x)
                np.testing.assert_allclose(found[0], value, rtol=1e-12)
                np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-14)
    assert counters["traces"] - traces == len(sizes)
    assert made == {"compiled": before["compiled"], "taken over": before["taken over"] + len(sizes)}
    assert j.cost().compiling - spent == pytest.approx(len(sizes) * COSTS["text"])  # no pass has looked at them
    assert all("text of other sizes" in d or "recording" in d for d in j.cost().decisions[-2 * len(sizes) :])


def test_a_new_size_among_others_runs_itself_until_it_has_come_again(monkeypatch):
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    f = fc.value_and_grad(lambda x: np.sum(np.tanh(x @ np.ones((x.shape[1], 5)) + 0.5) ** 2))
    j, few = fc.jit(f), int(COSTS["of a size"])
    with fc.config.set(engine="numpy"):
        for n in (40, 50, 33, 45):
            for _ in range(4):
                j(np.ones((n, 7)))
        assert j._core.cache.shares_texts()
        for n in (21, 39, 55):
            traces, texts = counters["traces"], made["taken over"]
            for k in range(few + 3):
                value, gradient = f(x := np.linspace(-1.0, 1.0 + k, 7 * n).reshape(n, 7))
                found = j(x)
                np.testing.assert_allclose(found[0], value, rtol=1e-12)
                np.testing.assert_allclose(found[1], gradient, rtol=1e-9, atol=1e-14)
                assert (counters["traces"] - traces, made["taken over"] - texts) == ((1, 1) if k >= few else (0, 0))


def test_many_sizes_have_few_texts():
    j = fc.jit(lambda x: np.sum(np.sin(x) * 2.0 + 1.0, axis=0) / x.shape[0])
    before = dict(made)
    for n in range(70, 137):
        for _ in range(3):
            j(np.ones((n, 3)))
    compiled, taken = [made[k] - before[k] for k in ("compiled", "taken over")]
    assert 3 <= compiled <= 4 and taken >= 30
