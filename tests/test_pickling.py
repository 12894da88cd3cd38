"""Jitted functions go to other processes: by pickle where their function has a name, and as they are through fork."""

from __future__ import annotations

import copy
import functools
import multiprocessing
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad.backends.interpreter import counters

X = np.arange(3.0)


@fc.jit
def decorated(x: Any) -> Any:
    return np.sin(x) * 2.0


@functools.partial(fc.jit, static_argnums=1, fast_math=True)
def with_options(x: Any, n: int) -> Any:
    return x * n


def plain(x: Any, scale: float = 2.0) -> Any:
    return np.sum(np.sin(x)) * scale


named = fc.jit(plain)


class Model:
    def __init__(self, scale: float):
        self.scale = scale

    @functools.partial(fc.jit, static_argnums=0)
    def apply(self, x: Any) -> Any:
        return self.scale * x

    def value(self, x: Any) -> Any:
        return self.scale * np.sum(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Model) and self.scale == other.scale

    def __hash__(self) -> int:
        return hash(self.scale)


def shadowed(x: Any) -> Any:
    return x


original, shadowed = shadowed, None  # type: ignore[assignment]


def there_and_back(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


def test_decorated_functions_pickle_by_name() -> None:
    assert there_and_back(decorated) is decorated
    assert there_and_back(with_options) is with_options
    assert there_and_back(Model.apply) is Model.apply


PICKLED = [
    named,
    fc.jit(functools.partial(plain, scale=3.0)),
    fc.jit(functools.partial(functools.partial(plain), scale=named(1.0))),
    fc.jit(fc.grad(plain)),
    fc.jit(fc.jit(fc.value_and_grad(functools.partial(plain, scale=4.0)))),
    fc.jit(Model(2.0).value),
    functools.partial(named, scale=3.0),
    Model(3.0).apply,
]


@pytest.mark.parametrize("f", PICKLED, ids=repr)
def test_functions_by_name_partials_and_methods_pickle(f: Any) -> None:
    expected = f(X)
    loaded = there_and_back(f)
    for a, b in zip(fc.tree.leaves(loaded(X)), fc.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def test_options_are_kept() -> None:
    f = there_and_back(fc.jit(plain, static_argnames="scale", fast_math=True))
    assert f._core.options["static_argnums"] == (1,) and f._core.fast_math
    assert f(X, scale=2.0) == plain(X)


def local() -> Any:
    return fc.jit(lambda x: x * 2.0), fc.jit(lambda_maker())


def lambda_maker() -> Any:
    def inner(x: Any) -> Any:
        return x * 2.0

    return inner


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: fc.jit(lambda x: x), "lambdas have no name"),
        (lambda: fc.jit(lambda_maker()), r"lambda_maker.<locals>.inner is made when another function runs"),
        (lambda: fc.jit(functools.partial(lambda_maker(), 1.0)), "made when another function runs"),
        (lambda: fc.jit(fc.grad(lambda x: x)), "lambdas have no name"),
        (lambda: fc.jit(fc.jit(lambda x: x)), "lambdas have no name"),
        (lambda: fc.jit(original), "shadowed is now something else"),
        (lambda: fc.jit(type("Local", (), {"f": lambda self, x: x})().f), "the class Local of the method <lambda>"),
    ],
)
def test_what_has_no_name_says_what_to_do(make: Any, reason: str) -> None:
    with pytest.raises(pickle.PicklingError, match=f"(?s){reason}.*Remedy: define the function at the top level"):
        pickle.dumps(make())


def test_copies() -> None:
    f = fc.jit(lambda x: x * 2.0, inline=True)
    for g in (copy.copy(f), copy.deepcopy(f), copy.deepcopy([f])[0]):
        assert g is not f and g(2.0) == 4.0 and g._core.inline


def test_picklers_that_copy_functions_may_do_so() -> None:
    cloudpickle = pytest.importorskip("cloudpickle", reason="a pickler that copies functions: pip install cloudpickle")
    f = pickle.loads(cloudpickle.dumps(fc.jit(lambda x: x * 2.0)))
    assert f(2.0) == 4.0


def work(f: Any, x: Any, answers: Any) -> None:
    """In another process: the value, the gradient, and how often was traced there."""
    before = counters["traces"]
    values = [f(x) for _ in range(4)]
    assert all(np.allclose(v, values[0], rtol=1e-14) for v in values)
    answers.put((values[0], fc.grad(lambda x: np.sum(f(x)))(x), counters["traces"] - before))


METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("f", [decorated, named], ids=repr)
def test_jitted_functions_in_other_processes(method: str, f: Any) -> None:
    expected = [f(X) for _ in range(4)][-1]
    context = multiprocessing.get_context(method)
    answers = context.Queue()
    process = context.Process(target=work, args=(f, X, answers))
    process.start()
    value, gradient, traces = answers.get(timeout=60)
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_allclose(value, expected, rtol=1e-14)  # a compiled program and its first run differ by some ulp
    np.testing.assert_allclose(gradient, fc.grad(lambda x: np.sum(f(x)))(X), rtol=1e-14)
    assert traces == (0 if method == "fork" else 1), "a forked child has its parent's programs"


@pytest.mark.skipif("fork" not in METHODS or sys.platform == "darwin", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_forked_while_another_thread_traces() -> None:
    """The thread that held the locks does not exist in the child."""
    import threading

    tracing, go_on = threading.Event(), threading.Event()

    def slow(x: Any) -> Any:
        if threading.current_thread() is thread:
            tracing.set()
            go_on.wait(60)
        return x * 2.0

    f = fc.jit(slow)
    thread = threading.Thread(target=f, args=(1.0,))
    thread.start()
    assert tracing.wait(60)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    process = context.Process(target=lambda: answers.put(f(3.0)))
    process.start()
    try:
        assert answers.get(timeout=60) == 6.0
    finally:
        go_on.set()
        thread.join()
        process.join(60)
