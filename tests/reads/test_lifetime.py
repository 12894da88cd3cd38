"""What a jitted function has read is freed when its user lets go of it; a function is copied and sent as before."""

from __future__ import annotations

import asyncio
import concurrent.futures
import copy
import functools
import gc
import inspect
import multiprocessing
import pickle
import subprocess
import sys
import threading
import traceback
import tracemalloc
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.jitted.jit_cache import MAX_PROGRAMS, MOST_STATES
from funcad.memo import all_lines
from funcad.reads import code_reads, refusals, run
from funcad.show import compile_log
from funcad.twin.twins import is_twin
from tests.forked import CHECKOUT, in_a_child, needs_fork

X = np.array([1.0, 2.0, 3.0])
BIG = 1 << 17  # numbers: 1 MB


@pytest.fixture(autouse=True)
def _nothing_is_said() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", funcad.NotCompiledWarning)
        yield


class Model:
    def __init__(self) -> None:
        self.k, self.w, self.layers, self.table = 0.5, np.ones(BIG), [np.ones(3)], {"a": 1.0}
        self.n = 0

    def apply(self, x: Any) -> Any:
        return x * self.k + np.sum(self.w) * self.layers[0]

    def step(self, x: Any) -> Any:
        self.n += 1
        self.layers[0] = self.layers[0] + x
        return x * self.n + self.rate

    @property
    def rate(self) -> float:
        return self.k * 2.0

    @functools.cached_property
    def half(self) -> float:
        return self.k * 0.5

    @functools.partial(jit, static_argnums=0)
    def static(self, x: Any) -> Any:
        return x * self.k + np.sum(self.w)

    @functools.partial(jit, static_argnums=0)
    def branching(self, x: Any) -> Any:
        return x * self.k if x[0] > 0 else -x * self.half


# -- what is freed: (what stays, what must be free), after calls between which something changes

G: Any = None


def calls(f: Any, *args: Any, change: Callable[[int], Any] = lambda i: None) -> None:
    for i in range(5):
        f(*args, X)
        change(i)


def a_method_and_its_object() -> Any:
    m = Model()
    f = jit(m.apply)
    calls(f, change=lambda i: setattr(m, "k", float(i)))
    return None, [m, m.w, f]


def a_method_that_stores() -> Any:
    m = Model()
    f = jit(m.step)
    calls(f)
    return None, [m, m.w, f]


def a_static_object() -> Any:
    m, other = Model(), Model()
    calls(m.static, change=lambda i: setattr(m, "k", float(i)))
    calls(other.static), calls(m.branching), calls(other.branching)
    m.branching(-X), m.branching(-X)
    return other, [m, m.w]


def a_static_method_and_function() -> Any:
    m, k = Model(), 2.0
    f = jit(lambda g, x: g(x), static_argnums=0)
    calls(f, m.apply), calls(f, m.apply, change=lambda i: setattr(m, "k", float(i)))

    def g(x: Any) -> Any:
        return x * k

    calls(f, g)
    return f, [m, m.w, g]


def a_closure() -> Any:
    m = Model()
    f = jit(lambda x: x * m.k + m.layers[0] + m.table["a"] + m.rate + m.half)
    calls(f, change=lambda i: setattr(m, "k", float(i)))
    return None, [m, m.w, f]


def a_captured_array() -> Any:
    a = np.ones(BIG)
    f = jit(lambda x: x * np.sum(a) + a[0] + np.sort(a)[0])
    calls(f)
    return None, [a, f]


def an_array_that_is_no_more() -> Any:
    """The function stays, and cannot be called any more: nobody would expect it to hold the data."""
    global G
    a = G = np.ones(BIG)
    f = jit(lambda x: x * np.sum(G))
    derivative, mapped = jit(grad(lambda x: np.sum(x * np.sum(G)))), vmap(jit(lambda x: x * np.sum(G)))
    calls(f), calls(derivative), calls(mapped)
    G = None
    return [f, derivative, mapped], [a]


def a_global_model_that_is_replaced() -> Any:
    global G
    m = G = Model()
    f = jit(lambda x: G.apply(x) * G.rate)
    calls(f)
    G = Model()
    return f, [m, m.w]


def objects_in_a_list() -> Any:
    global G
    models = G = [Model() for _ in range(3)]
    f = jit(lambda x: x * sum([m.k for m in G]))
    calls(f, change=lambda i: setattr(models[1], "k", float(i)))
    G = []
    return f, models[:]


def a_generator() -> Any:
    m = Model()

    def each(x: Any) -> Any:
        for i in range(3):
            yield x * m.k * i

    f = jit(lambda x: sum(each(x)))
    calls(f, change=lambda i: setattr(m, "k", float(i)))
    return None, [m, f, each]


def a_generator_that_is_found() -> Any:
    m = Model()
    it = (m.k * i for i in range(100))
    f = jit(lambda x: x * next(it))
    calls(f)
    return None, [m, it, f]


def a_function_that_is_refused() -> Any:
    m, it = Model(), iter(range(100))
    f = jit(lambda x: x * m.k * next(it))
    calls(f)
    return None, [m, f]


def a_function_that_raises() -> Any:
    m = Model()

    def f(x: Any) -> Any:
        raise ValueError(m.k)

    g = jit(f)
    for _ in range(4):
        with pytest.raises(ValueError):
            g(X)
    return None, [m, f, g]


def paths() -> Any:
    m = Model()
    f = jit(lambda x: x * m.k if x[0] > m.table["a"] else -x * m.w[0])
    for i in range(6):
        f(X * i)
    return None, [m, f]


def transforms() -> Any:
    m = Model()
    f = jit(lambda x: np.sum(x * m.k + m.layers[0]))
    g = jit(lambda x: grad(f)(x) + vmap(lambda y: y * m.k)(x))
    calls(grad(f)), calls(g), calls(vmap(jit(lambda x: x * m.k))), f.lower(X), str(f.explain(X)), f.profile(X)
    return None, [m, f, g]


def a_custom_rule() -> Any:
    m = Model()
    h = funcad.custom_vjp(lambda x: x * m.k)
    h.defvjp(lambda x: (h(x), x), lambda kept, ct: (ct * m.k,))
    f = jit(grad(lambda x: np.sum(h(x))))
    calls(f)
    return None, [m, h, f]


def a_stored_object() -> Any:
    m = Model()
    m.log = []  # type: ignore[attr-defined]

    def f(x: Any) -> Any:
        m.log.append({"x": x + 1.0})  # type: ignore[attr-defined]
        return x * 2.0

    g = jit(f)
    calls(g)
    return None, [m, g, m.log[0]["x"]]  # type: ignore[attr-defined]


def a_cell_of_a_notebook() -> Any:
    names: dict[str, Any] = {"np": np, "jit": jit, "X": X, "__name__": "__main__"}
    text = "class M:\n    k = 2.0\n    def f(self, x):\n        return x * self.k * w[0]\nw, m = np.ones(1 << 17), M()\n"
    exec(compile(text + "g = jit(m.f)\nfor _ in range(5):\n    g(X)\n", "/tmp/ipykernel_1/77.py", "exec"), names)
    return None, [names["M"], names["m"], names["w"], names["g"]]


def tables_by_identity() -> Any:
    m = Model()
    registry, seen, weak = {m: 2.0}, {m}, weakref.WeakKeyDictionary({m: 3.0})
    f = jit(lambda x: x * registry[m] * (2.0 if m in seen else 1.0) * weak[m])
    calls(f)
    return None, [m, f]


def an_object_of_a_thread() -> Any:
    local = threading.local()
    local.m = m = Model()
    f = jit(lambda x: x * local.m.k)
    calls(f)
    local.m = None
    return [f, local], [m]


def a_constant() -> Any:
    global G
    m = G = Model()
    f = jit(lambda x: x * funcad.constant(G).k)
    calls(f)
    G = None
    return f, [m]


KINDS = [a_method_and_its_object, a_method_that_stores, a_static_object, a_static_method_and_function, a_closure]
KINDS += [a_captured_array, an_array_that_is_no_more, a_global_model_that_is_replaced, objects_in_a_list, a_generator]
KINDS += [a_generator_that_is_found, a_function_that_is_refused, a_function_that_raises, paths, transforms, a_custom_rule]
KINDS += [a_stored_object, a_cell_of_a_notebook, tables_by_identity, an_object_of_a_thread, a_constant]


@pytest.mark.parametrize("kind", KINDS, ids=lambda f: f.__name__)
def test_what_was_dropped_is_free(kind: Callable[[], Any]) -> None:
    kept, free = kind()
    names = [type(x).__name__ for x in free]
    references = [weakref.ref(x) for x in free]
    free.clear()
    gc.collect()
    assert [name for name, x in zip(names, references) if x() is not None] == []
    del kept


def test_a_dead_guard_drops_its_program() -> None:
    f = jit(lambda m, x: x * m.k, static_argnums=0)
    models = [Model() for _ in range(20)]
    for m in models:
        f(m, X), f(m, X), f(m, X)
    assert f.cache_info().currsize == 20
    m = models[7]
    m.k = 9.0
    del models[:], m
    gc.collect()
    assert f.cache_info().currsize == 0
    new = Model()
    np.testing.assert_array_equal(f(new, X), X * 0.5)
    assert f.cache_info().currsize == 1


def test_the_programs_after_a_dead_one_are_found() -> None:
    global G
    G = first = np.ones(3)
    f = jit(lambda x: x * G)
    f(X)
    second = G = np.full(3, 2.0)
    f(X)
    assert f.cache_info().currsize == 2
    del first
    gc.collect()
    assert f.cache_info().currsize == 1
    misses = f.cache_info().misses
    for _ in range(4):
        np.testing.assert_array_equal(f(X), X * second)
    assert f.cache_info().misses == misses


def test_an_array_in_the_place_of_one_that_is_gone() -> None:
    """It may have its identity, too."""
    global G
    f = jit(lambda x: x * np.sum(G))
    for i in range(30):
        G = np.full(BIG, float(i))
        for _ in range(3):
            np.testing.assert_array_equal(f(X), X * (i * BIG))
    assert f.cache_info().currsize == 1


def test_programs_are_bounded() -> None:
    f = jit(lambda n, x: x * n, static_argnums=0)
    for n in range(MAX_PROGRAMS + 50):
        f(n, 2.0)
    assert f.cache_info().currsize == MAX_PROGRAMS
    o = types.SimpleNamespace(name="")
    g = jit(lambda x: x * len(o.name))
    for n in range(3 * MOST_STATES):
        o.name = "a" * n
        assert g(2.0) == 2.0 * n
    assert g.cache_info().currsize <= MOST_STATES + 1


def sizes() -> dict[str, int]:
    return {line.name: line.size for line in all_lines()}


def test_hundreds_of_closures_leave_nothing() -> None:
    def one(i: int) -> None:
        k, o, it = float(i % 7), types.SimpleNamespace(k=2.0), iter([1.0, 2.0])
        f = jit(lambda x: x * k + o.k)
        assert f(2.0) == 2.0 * k + 2.0
        if i % 25 == 0:
            o.k = 3.0
            assert f(2.0) == 2.0 * k + 3.0
            jit(lambda x: x * next(it))(2.0)
            assert jit(Model().apply)(X)[0] > 0

    def measured() -> int:
        compile_log.log.clear()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start(1)
    try:
        for i in range(50):
            one(i)
        before, held = measured(), sizes()
        grown = []
        for block in range(6):
            for i in range(100):
                one(100 * block + i)
            before, start = measured(), before
            grown.append(before - start)
    finally:
        tracemalloc.stop()
    assert min(grown) < 4_000, grown  # 40 bytes for each; bounded tables may still grow in some blocks
    assert {name: size for name, size in sizes().items() if size > held.get(name, 0) + 5} == {}


def test_what_was_said_goes_with_the_code() -> None:
    text = "import random\ndef f(x):\n    return x * random.random()\n"

    def made(filename: str) -> Any:
        names: dict[str, Any] = {"__name__": "users"}
        exec(compile(text, filename, "exec"), names)
        return names["f"]

    gc.collect()
    before = len(refusals.given_reasons)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(3):
            first = made("a.py")
            jit(first)(2.0), jit(types.FunctionType(first.__code__, first.__globals__))(2.0)  # two functions of one code
        assert len(said) == 1  # whose code is the same, and in the same place
        jit(made("b.py"))(2.0)
        assert len(said) == 2
    del first
    said.clear()
    code_reads.reads_of.cache_clear()  # type: ignore[attr-defined]
    run._names_in.cache_clear()  # type: ignore[attr-defined]
    gc.collect()
    assert len(refusals.given_reasons) == before


# -- pickled, copied, forked, sent


class Counter:
    def __init__(self) -> None:
        self.n, self.k = 0, 2.0

    def step(self, x: Any) -> Any:
        self.n += 1
        return x * self.n * self.k


def doubled(x: Any) -> Any:
    return x * SCALE[0]


SCALE = [2.0]
double = jit(doubled)


def test_a_function_is_pickled_and_copied_without_its_twin() -> None:
    double(X), double(X)
    for again in (pickle.loads(pickle.dumps(double)), copy.deepcopy(double), copy.copy(double)):
        np.testing.assert_array_equal(again(X), X * SCALE[0])
    k = 3.0

    def make() -> Any:
        o = types.SimpleNamespace(k=k)
        return jit(lambda x: x * o.k + (lambda y: y * 2.0)(x))

    f = make()
    f(X), f(X), f(X)
    sent = cloudpickle.dumps(f)
    assert b"funcad.twin" not in sent
    np.testing.assert_array_equal(pickle.loads(sent)(X), X * 5.0)
    counter = Counter()
    g = jit(counter.step)
    g(X), g(X), g(X)
    other = copy.deepcopy(counter)
    h = pickle.loads(cloudpickle.dumps(g))
    np.testing.assert_array_equal(h(X), X * 8.0)
    np.testing.assert_array_equal(jit(other.step)(X), X * 8.0)
    np.testing.assert_array_equal(g(X), X * 8.0)
    assert (counter.n, other.n) == (4, 4)


def test_what_is_pickled_while_a_function_is_traced() -> None:
    sent: list[bytes] = []

    def f(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return y * 3.0

        keep(cloudpickle.dumps(inner), cloudpickle.dumps(f))
        return inner(x)

    keep = types.FunctionType(
        (lambda *x: sent.extend(x)).__code__, {"__name__": "numpy"}, "keep", None, (types.CellType(sent),)
    )
    g = jit(f)
    for _ in range(3):
        np.testing.assert_array_equal(g(X), X * 3.0)
    for one in sent:
        again = pickle.loads(one)
        assert not is_twin(again.__code__) and sent
    assert pickle.loads(sent[0])(2.0) == 6.0


def sent_to(x: float) -> float:
    """Runs in another process."""
    return float(double(x)) + float(jit(Counter().step)(x))


@pytest.mark.parametrize("way", [pytest.param("fork", marks=needs_fork), "spawn"])
def test_processes_of_concurrent_futures(way: str) -> None:
    double(2.0), double(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that this process has threads
        with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context(way)) as pool:
            assert list(pool.map(sent_to, [2.0, 3.0, 3.0])) == [8.0, 12.0, 12.0]
            assert pool.submit(double, 5.0).result() == 10.0


@needs_fork
def test_a_fork_in_the_midst_of_a_trace() -> None:
    """As Dask's and PyTorch's workers are made."""
    counter, done = Counter(), []

    def child() -> None:
        assert [float(jit(Counter().step)(2.0)) for _ in range(2)] == [4.0, 4.0]
        assert float(double(2.0)) == 4.0
        assert float(jit(counter.step)(1.0)) == 2.0 * (counter.n)

    def fork(x: Any) -> None:
        in_a_child(child)
        done.append(1)

    hidden = types.FunctionType(fork.__code__, {**globals(), "__name__": "numpy"}, "fork", None, fork.__closure__)
    f = jit(lambda x: (hidden(None), x * counter.k)[1])
    np.testing.assert_array_equal(f(X), X * 2.0)
    assert done


_ENDING = """
import numpy as np, funcad, types, weakref
o = types.SimpleNamespace(k=2.0, w=np.ones(3), n=0)
class M:
    def f(self, x):
        o.n += 1
        return x * o.k + o.w
m = M()
f, g = funcad.jit(m.f), funcad.jit(lambda m, x: m.f(x), static_argnums=0)
for i in range(4):
    f(np.ones(3)), g(m, np.ones(3))
"""


def test_nothing_is_said_when_python_ends(tmp_path: Path) -> None:
    path = tmp_path / "ending.py"
    path.write_text(_ENDING)
    done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, env={"PYTHONPATH": CHECKOUT, "PATH": ""})
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


# -- what the user's code sees of itself


def shown(error: BaseException) -> list[tuple[str, int]]:
    return [(s.name, s.lineno or 0) for s in traceback.extract_tb(error.__traceback__) if s.filename == __file__]


def raises_in_a_generator(x: Any) -> Any:
    def each() -> Any:
        yield x
        raise KeyError("stopped")

    return sum(each())


def raises_in_a_lambda(x: Any) -> Any:
    f = lambda y: (
        y[0] + [1.0][3])  # fmt: skip
    return f(x)


def raises_in_a_coroutine(x: Any) -> Any:
    async def inner() -> Any:
        await asyncio.sleep(0)
        raise RuntimeError("stopped")

    async def outer() -> Any:
        return await inner()

    return asyncio.run(outer())


def raises_in_an_operator(x: Any) -> Any:
    class Odd:
        def __add__(self, other: Any) -> Any:
            raise ValueError("stopped")

    return (
        x
        + (Odd() + 1)
    )  # fmt: skip


def raises_in_a_finally(x: Any) -> Any:
    try:
        raise ValueError("first")
    finally:
        {}["second"]


RAISING = [raises_in_a_generator, raises_in_a_lambda, raises_in_a_coroutine, raises_in_an_operator, raises_in_a_finally]


@pytest.mark.parametrize("f", RAISING, ids=lambda f: f.__name__)
def test_tracebacks_are_those_of_python(f: Callable[[Any], Any]) -> None:
    g, found = jit(f), []
    for call in (f, g, g, g):
        with pytest.raises(Exception) as info:
            call(X)
        contexts = [shown(info.value.__context__)] if info.value.__context__ is not None else []
        found.append((type(info.value), str(info.value), shown(info.value)[1:], contexts))
    assert found[0] == found[1] == found[2] == found[3]


def holds(fact: bool) -> None:
    """An `assert` in the function would be rewritten by pytest, which then has no twin."""
    if not fact:
        raise RuntimeError(inspect.stack()[1].lineno)


def looks(x: Any) -> Any:
    frame = sys._getframe()
    me, names = double_look.__wrapped__, []  # type: ignore[attr-defined]
    holds(frame.f_code is me.__code__ and frame.f_code.co_name == "looks" and set(frame.f_locals) >= {"x", "me"})
    holds(not any(map(callable, me.__code__.co_consts)))
    holds(inspect.getsource(me).startswith("def looks") and str(inspect.signature(me)) == "(x: 'Any') -> 'Any'")
    holds(inspect.stack()[0].function == "looks" and traceback.extract_stack()[-1].name == "looks")

    def inner(y: Any) -> Any:
        names.extend([s.function for s in inspect.stack()[:2]])
        return y + 1.0

    holds(
        inspect.isfunction(inner) and inner.__code__.co_consts[-1] in (1.0, 2) and inner.__qualname__ == "looks.<locals>.inner"
    )
    holds(not any(map(callable, inner.__code__.co_consts)))
    y = inner(x)
    holds(names == ["inner", "looks"])
    try:
        [1.0][3] + x
    except IndexError as error:
        text = traceback.format_exc()
        holds("/funcad/reads/" not in text)
        holds([s.name for s in traceback.extract_tb(error.__traceback__)] == ["looks"])
    try:
        sorted([x, x], key=lambda z: z.nothing)
    except AttributeError as error:
        holds([s.name for s in traceback.extract_tb(error.__traceback__)] == ["looks", "<lambda>"])
    return y


double_look = jit(looks)


def test_a_function_sees_itself_and_its_callers() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            np.testing.assert_array_equal(double_look(X), X + 1.0)
    assert double_look.cache_info().currsize == 1
