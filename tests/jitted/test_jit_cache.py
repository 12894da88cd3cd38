"""The cache of jitted functions: what is told apart, what is explained, and what threads may do to it at the same time."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.jitted import jit_cache, jit_misses
from tests.unseen import Noted, unseen
from tests.whole.test_threads import THREADS, in_threads

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

# -- what is told apart


def test_signatures_that_are_told_apart() -> None:
    traced = Noted()

    @functools.partial(fc.jit, static_argnames="mode")
    def f(tree: Any, mode: Any = None) -> Any:
        traced.note()
        return fc.tree.map(lambda x: x * 2.0, tree)

    different: list[tuple[Any, ...]] = [
        (1.0,),
        (1,),
        (True,),
        (np.float64(1.0),),
        (np.float32(1.0),),
        (np.ones(1),),
        (np.ones((1, 1)),),
        ([1.0],),
        ((1.0,),),
        ({"a": 1.0},),
        ({"b": 1.0},),
        (None,),
        (1.0, 1),
        (1.0, 1.0),
        (1.0, True),
        (1.0, (1,)),
        (1.0, (True,)),
        (1.0, (1.0,)),
        (1.0, "1"),
    ]
    for _ in range(4):
        for args in different:
            f(*args)
    assert len(traced) == len(different)
    fc.vmap(lambda x: x * f(1.0), axis_name="i")(np.ones(3))
    assert len(traced) == len(different) + 1


def test_fast_math_is_an_option_of_the_program_and_of_those_derived_from_it() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(x))

    exact, fast = fc.jit(f), fc.jit(f, fast_math=True)
    x = np.ones(2)
    assert exact(x) == fast(x)
    assert exact.cache_info().currsize == 2, "the two have a program each"
    assert fast.lower(x).jaxpr.memo.get("fast_math") and not exact.lower(x).jaxpr.memo.get("fast_math")
    for g, expected in ((fast, True), (exact, None)):
        outer = fc.make_jaxpr(fc.grad(g))(x).jaxpr
        programs = [e.params["jaxpr"] for e in outer.equations if e.primitive.name == "call"]
        assert programs and all(p.memo.get("fast_math") is expected for p in programs)


# -- second calls


def _second_call_does_nothing(*work: Any) -> None:
    for f in work:
        f()
        before = dict(counters)
        f()
        assert counters == before, f


def test_second_calls_trace_and_compile_nothing() -> None:
    x, many = np.ones(3), np.ones((4, 3))
    f = fc.jit(lambda x: np.sum(np.sin(x) * x))
    nested = fc.jit(lambda x: f(x) * f(2.0 * x))

    def loop(x: Any) -> Any:
        return fc.scan(lambda c, y: (np.sin(c) * y, c), 1.0, x)[0]

    _second_call_does_nothing(
        lambda: fc.grad(f)(x),
        lambda: fc.grad(nested)(x),
        lambda: fc.hvp(f, (x,), (x,)),
        lambda: fc.hvp(nested, (x,), (x,)),
        lambda: fc.hessian(f)(x),
        lambda: fc.jvp(f, (x,), (x,)),
        lambda: fc.vjp(f, x)[1](1.0),
        lambda: fc.vmap(f)(many),
        lambda: fc.vmap(fc.grad(f))(many),
        lambda: fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(many),
        lambda: fc.jit(f)(x),
        lambda: fc.grad(fc.jit(loop))(x),
    )


def test_second_gradients_of_loops_compile_nothing() -> None:
    x = np.linspace(0.1, 1.0, 5)

    def loop(x: Any) -> Any:
        return fc.scan(lambda c, y: (np.sin(c) * y, c), 1.0, x)[0]

    def programs(f: Any) -> int:
        before = counters["programs"]
        f()
        return counters["programs"] - before

    for f in (lambda: fc.grad(loop)(x), lambda: fc.hvp(loop, (x,), (x,))):
        for _ in range(3):
            f()
        assert programs(f) == 0


# -- explanations


def explained(f: Any, *calls: Any) -> list[str]:
    texts: list[str] = []
    with fc.explain_cache_misses(texts.append):
        for args in calls:
            f(*args)
    return texts


def test_a_miss_names_what_differs_from_the_nearest_program() -> None:
    def step(params: Any, x: Any, n: int = 1) -> Any:
        return fc.tree.map(lambda p: p * np.sum(x) * n, params)

    f = fc.jit(step, static_argnums=2)
    params = {"w": np.ones(3), "b": 1.0}
    texts = explained(
        f,
        (params, np.ones(2), 1),
        (params, np.ones(2), 1),
        ({**params, "w": np.ones(4)}, np.ones(2), 1),
        ({**params, "w": np.ones(4, np.float32)}, np.ones(2), 1),
        (params, np.ones(2), 3),
        ({**params, "b": np.float64(1.0)}, np.ones(2), 1),
        ({"w": np.ones(3)}, np.ones(2), 1),
    )
    assert len(texts) == 6
    heads, bodies = zip(*[t.split("\n", 1) for t in texts])
    assert all("test_jit_cache.py:" in h and "(explained)" in h for h in heads), "the line of the call"
    assert heads[0].startswith("jit of step: first trace at ")
    assert heads[2].startswith("jit of step: traced again at ") and heads[2].endswith("beside the nearest of 2 programs")
    assert bodies == (
        "  params['b']: f64*[]\n  params['w']: f64[3]\n  x: f64[2]",
        "  params['w']: f64[4], before f64[3]",
        "  params['w']: f32[4], before f64[4]",
        "  static argument 0 of 1: 3, before 1",
        "  params['b']: f64[], before f64*[] (* is a Python number, which adapts to the dtype that it meets)",
        "  (args, kwargs)[0][0] is a dict without the key 'b', unlike (args, kwargs) before[0][0].",
    )


def test_misses_of_keywords_axes_and_options() -> None:
    def f(x: Any, *, scale: Any, mode: str = "a") -> Any:
        return x * scale

    g = fc.jit(f, static_argnames="mode")
    texts: list[str] = []
    with fc.explain_cache_misses(texts.append):
        g(1.0, scale=2.0, mode="a")
        g(1.0, scale=2, mode="a")
        g(1.0, scale=2, mode="b")
        fc.vmap(lambda x: x * g(1.0, scale=2, mode="b"), axis_name="i")(np.ones(3))
        fc.jit(f, static_argnames="mode", fast_math=True)(1.0, scale=2, mode="b")
    assert [t.split("\n", 1)[1] for t in texts[1:]] == [
        "  scale: i64*[], before f64*[]",
        "  static mode: 'b', before 'a'",
        "  named axes around the call: i=3, before none",
        "  options of jit (static arguments, fast_math): others than before",
    ]


def test_many_shapes_are_advised_on_once() -> None:
    f = fc.jit(lambda x: x * 2.0)
    texts = explained(f, *[(np.ones(n),) for n in range(1, 20)])
    advice = [t for t in texts if "chunk_size" in t]
    assert len(advice) == 1 and texts.index(advice[0]) == jit_misses.MANY_SHAPES
    assert "has been traced for 8 shapes" in advice[0]
    assert not [t for t in explained(fc.jit(lambda x: x), *[(np.ones(n),) for n in range(1, 8)]) if "chunk_size" in t]


def test_a_program_that_is_not_kept_says_why() -> None:
    texts: list[str] = []

    def outer(y: Any) -> Any:
        return fc.jit(lambda x: x * y)(2.0)

    with fc.explain_cache_misses(texts.append):
        fc.grad(outer)(1.0)
    assert texts[-1] == "jit of <lambda>: the program is not kept, because it captured traced values"


def test_explanations_go_to_stderr_and_end_with_the_context(capsys: pytest.CaptureFixture[str]) -> None:
    f = fc.jit(lambda x: x)
    with fc.explain_cache_misses():
        f(1.0)
    f(1)
    assert capsys.readouterr().err.count("jit of <lambda>") == 1
    with fc.config.set(explain_cache_misses=True):
        f(np.ones(2))
    f(np.ones(3))
    assert capsys.readouterr().err.count("traced again") == 1


# -- text


def test_source_and_export_name_the_arguments(tmp_path: Any) -> None:
    w = np.arange(3.0)
    f = fc.jit(lambda params, x, *, scale, unused=0: {"y": np.sin(params["a"] * x) * scale + w}, static_argnames="unused")
    params, x = {"a": np.ones(3)}, np.arange(3.0)
    shapes = {"a": fc.ShapeDtypeStruct((3,), np.float64)}, fc.ShapeDtypeStruct((3,), np.float64)
    text = f.source(*shapes, scale=fc.ShapeDtypeStruct((), np.float64))
    assert "params_a" in text and "scale" in text and "funcad" not in text.partition("def run")[2]
    module: dict[str, Any] = {}
    exec(text, module)
    (y,) = module["run"](params["a"], x, np.float64(2.0))
    np.testing.assert_allclose(y, f(params, x, scale=np.float64(2.0))["y"], rtol=1e-15)
    paths = f.export(str(tmp_path / "program.py"), params, x, scale=np.float64(2.0))
    assert paths == [str(tmp_path / "program.py")]


# -- threads


@pytest.mark.share(2)
@pytest.mark.parametrize("duration", [0.0, 1.5], ids=["quick", "slow"])
def test_threads_that_start_together_trace_and_compile_once(duration: float) -> None:
    traced = Noted()

    @unseen
    def work_for() -> None:
        end = time.monotonic() + duration
        while time.monotonic() < end:
            sum(range(1000))

    def f(x: Any) -> Any:
        traced.note(x.shape)
        work_for()
        return np.sin(x) * 2.0

    g = fc.jit(f)
    before = counters["programs"]

    def work(i: int) -> None:
        for k in range(5):
            x = np.full(3, float(i + k))
            np.testing.assert_array_equal(g(x), np.sin(x) * 2.0)

    in_threads(work)
    assert traced == [(3,)]
    assert counters["programs"] == before + 1
    assert g.cache_info()[:2] == (THREADS * 5 - g.cache_info().misses, g.cache_info().misses)


def test_threads_that_transform_together_agree_on_the_programs() -> None:
    f = fc.jit(lambda x: np.sum(np.sin(x) * x))
    x = np.ones(3)
    f(x)
    expected = fc.grad(lambda x: np.sum(np.sin(x) * x))(x)

    def work(i: int) -> None:
        for _ in range(20):
            np.testing.assert_allclose(fc.grad(f)(x), expected, rtol=1e-15)

    in_threads(work)
    before = dict(counters)
    fc.grad(f)(x)
    assert counters == before


@pytest.mark.slow
def test_functions_that_call_each_other_in_two_threads() -> None:
    """Each thread traces one and needs the other, which the other thread traces: neither waits for ever."""
    both = threading.Barrier(2)
    waited = set()

    @unseen
    def once(name: str) -> None:
        if name not in waited:
            waited.add(name)
            both.wait(30)

    f = fc.jit(lambda x: once("f") or x * 2.0 + (g(x, False) if x.shape == () else 0.0))
    g = fc.jit(lambda x, again=True: once("g") or x * 3.0 + (f(np.ones(2)).sum() if again else 0.0), static_argnums=1)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(f, 1.0), pool.submit(g, 1.0)
        assert first.result(timeout=60) == 5.0
        assert second.result(timeout=60) == 3.0 + 4.0


def test_a_trace_may_wait_for_a_thread_that_calls_the_same_function() -> None:
    calls: list[int] = []

    @unseen
    def first() -> bool:
        calls.append(1)
        return len(calls) == 1

    @unseen
    def in_a_thread(h: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(h, 1.0).result(timeout=60)

    def f(x: Any) -> Any:
        return x + in_a_thread(g) if first() else x * 2.0

    g = fc.jit(f)
    assert g(1.0) == 3.0


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say what a thread does")
def test_who_computes_without_a_step_of_python_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit_cache, "STALLED_AFTER", 0.05)
    monkeypatch.setattr(jit_cache, "POLL", 0.01)
    calls: list[int] = []

    @unseen
    def computed() -> None:
        calls.append(1)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 1_000_000)  # other threads run meanwhile

    def f(x: Any) -> Any:
        computed()
        return x * 2.0

    g = fc.jit(f)
    with ThreadPoolExecutor(3) as pool:
        assert [found.result(timeout=60) for found in [pool.submit(g, 1.0) for _ in range(3)]] == 3 * [2.0]
    assert len(calls) == 1


@pytest.mark.slow
def test_clearing_while_others_run() -> None:
    f = fc.jit(lambda x: np.sum(x * x))
    done = threading.Event()

    def clear() -> None:
        while not done.is_set():
            fc.clear_caches()
            f.clear_cache()

    thread = threading.Thread(target=clear)
    thread.start()

    def work(i: int) -> None:
        for k in range(60):
            x = np.full(1 + k % 3, float(i))
            assert f(x) == x.size * float(i) ** 2
            np.testing.assert_array_equal(fc.grad(f)(x), 2 * x)

    try:
        in_threads(work)
    finally:
        done.set()
        thread.join()


def test_errors_while_tracing_in_threads_leave_the_function_usable() -> None:
    fail = [True]

    def f(x: Any) -> Any:
        if fail[0]:
            raise RuntimeError("mine")
        return x * 2.0

    g = fc.jit(f)

    def work(i: int) -> None:
        with pytest.raises(RuntimeError, match="mine"):
            g(1.0)

    in_threads(work)
    fail[0] = False
    assert [g(1.0) for _ in range(4)] == [2.0] * 4


def test_a_function_that_calls_itself_with_another_signature() -> None:
    f = fc.jit(lambda x: x.sum() if x.shape[0] == 1 else f(x[1:]) + x[0])
    for _ in range(4):
        assert f(np.arange(5.0)) == 10.0
    assert f.cache_info().currsize == 5


class Interrupted:
    """A lock whose thread is interrupted as soon as it has it."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def acquire(self, **options: Any) -> bool:
        self.lock.acquire(**options)
        raise KeyboardInterrupt

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lock, name)


@pytest.mark.parametrize("inside", [False, True])
def test_an_interrupt_leaves_no_turn_taken(inside: bool) -> None:
    """Other threads would wait for ever, for a thread that has long been doing something else."""
    lock = threading.RLock()
    turn = jit_cache.Turn(Interrupted(lock))
    with lock if inside else contextlib.nullcontext():
        if not inside:
            with pytest.raises(KeyboardInterrupt), turn.taken():
                pass
        else:  # whoever has the lock takes no second one
            with pytest.raises(KeyboardInterrupt), turn.taken():
                raise KeyboardInterrupt
            assert lock._is_owned()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(lock.acquire, timeout=5.0).result()
