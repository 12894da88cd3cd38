"""Transformed functions go to other processes: by pickle where their function has a name; jitted ones through fork too."""

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
from tests.unseen import unseen
from tests.workers import name_of

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


@pytest.mark.parametrize("f", PICKLED, ids=name_of)
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


# ---------------------------------------------------------------- every transform


def square(x: Any) -> Any:
    return np.sum(x * x), x


def triple(x: Any, ct: Any) -> Any:
    return (3.0 * ct * x,)


def pair(x: Any) -> Any:
    return np.sum(x), functools.partial(triple, x)


def doubled(primals: Any, tangents: Any) -> Any:
    return np.sum(primals[0]), 2.0 * np.sum(tangents[0])


def mapped_rule(size: int, batched: Any, x: Any) -> Any:
    return 10.0 * x, batched[0]


def core(x: Any) -> Any:
    return np.sum(x * x)


def with_vjp(f: Any) -> Any:
    found = fc.custom_vjp(f)
    found.defvjp(square, triple)
    return found


def with_jvp(f: Any) -> Any:
    found = fc.custom_jvp(f)
    found.defjvp(doubled)
    return found


def with_vmap(f: Any) -> Any:
    found = fc.custom_vmap(f)
    found.def_vmap(mapped_rule)
    return found


TRANSFORMS = [
    fc.vmap,
    functools.partial(fc.vmap, in_axes=(0,), out_axes=0, chunk_size=2),
    fc.grad,
    functools.partial(fc.grad, argnums=(0,)),
    functools.partial(fc.value_and_grad, argnames="x"),
    fc.jacfwd,
    functools.partial(fc.jacrev, argnums=(0,), chunk_size=1),
    fc.hessian,
    fc.jit,
    fc.checkpoint,
    functools.partial(fc.checkpoint, policy=fc.checkpoint_policies.everything_saveable),
    fc.make_jaxpr,
    fc.debug.doctor,
    fc.numpy.vectorize,
    with_vjp,
    with_jvp,
    with_vmap,
    lambda f: fc.grad(with_vjp(f)),
    lambda f: fc.jit(fc.vmap(fc.grad(f))),
    lambda f: fc.hessian(fc.checkpoint(fc.jit(f))),
    fc.elementwise_grad,
    fc.autograd.grad,
    fc.autograd.hessian,
    fc.autograd.multigrad_dict,
    functools.partial(fc.grad_named, argname="x"),
]
REMAKERS = [there_and_back, copy.copy, copy.deepcopy, functools.partial(pickle.dumps, protocol=2)]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: getattr(t, "__name__", name_of(t)))
@pytest.mark.parametrize("again", REMAKERS, ids=["pickle", "copy", "deepcopy", "protocol 2"])
def test_what_every_transform_returns_pickles_and_copies(transform: Any, again: Any) -> None:
    for f in (core, functools.partial(core), Model(2.0).value):
        made = transform(f)
        other = again(made)
        if isinstance(other, bytes):
            other = pickle.loads(other)
        assert other is not made and repr(other).partition(" at 0x")[0] == repr(made).partition(" at 0x")[0]
        assert str(other(X)) == str(made(X))


def test_a_gradient_of_own_pullback_pickles() -> None:
    f = fc.custom_gradient(pair)
    for other in (there_and_back(f), copy.copy(f), copy.deepcopy(f)):
        assert isinstance(other, fc.custom_vjp) and np.array_equal(fc.grad(other)(X), fc.grad(f)(X))


@fc.vmap
def decorated_vmap(x: Any) -> Any:
    return x * 2.0


@fc.grad
def decorated_grad(x: Any) -> Any:
    return np.sum(x**2)


@fc.custom_jvp
def decorated_rule(x: Any) -> Any:
    return np.sum(x)


@decorated_rule.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return decorated_rule(*primals), 5.0 * np.sum(tangents[0])


@pytest.mark.parametrize("f", [decorated_vmap, decorated_grad, decorated_rule])
def test_what_decorators_made_is_found_by_its_name(f: Any) -> None:
    assert there_and_back(f) is f
    assert np.array_equal(there_and_back(fc.jit(f))(X), f(X))
    assert copy.copy(f) is not f and np.array_equal(copy.deepcopy(f)(X), f(X))


class Mapped:
    scale = 3.0

    @fc.vmap
    def not_bound(x: Any) -> Any:
        return x

    @functools.partial(fc.vmap, in_axes=(None, 0))
    def rows(self, x: Any) -> Any:
        return self.scale * x

    @fc.checkpoint
    def again(self: Any, x: Any) -> Any:
        return self.scale * x


fc.tree.register_static(Mapped)


def test_transforms_decorate_methods() -> None:
    model = Mapped()
    assert np.array_equal(model.rows(X), 3.0 * X) and np.array_equal(Mapped.not_bound(X), X)
    assert fc.grad(lambda x: model.again(x))(2.0) == 3.0
    assert np.array_equal(there_and_back(model.rows)(X), 3.0 * X)


@pytest.mark.parametrize("transform", [t for t in TRANSFORMS if t is not fc.make_jaxpr])
def test_every_transform_says_why_it_does_not_pickle(transform: Any) -> None:
    with pytest.raises(pickle.PicklingError, match="(?s)lambdas have no name.*Remedy: define the function at the top level"):
        pickle.dumps(transform(lambda x: x))
    made = transform(lambda x: np.sum(x * x))
    assert str(copy.deepcopy(made)(X)) == str(copy.copy(made)(X)) == str(made(X))


def test_a_rule_without_a_name_is_the_reason() -> None:
    f = fc.custom_vjp(core)
    f.defvjp(square, lambda x, ct: (ct * x,))
    with pytest.raises(pickle.PicklingError, match="lambdas have no name"):
        pickle.dumps(fc.grad(f))


def test_pullbacks_belong_to_their_call() -> None:
    _, pullback = fc.vjp(core, X)
    with pytest.raises(TypeError, match="(?s)holds the program and the values of one call.*Remedy"):
        pickle.dumps(pullback)
    assert copy.copy(pullback) is pullback and copy.deepcopy({"p": pullback})["p"] is pullback


# ---------------------------------------------------------------- other processes


def work(f: Any, x: Any, answers: Any) -> None:
    """In another process: the value, the gradient, and how often was traced there."""
    before = counters["traces"]
    values = [f(x) for _ in range(4)]
    assert all(np.allclose(v, values[0], rtol=1e-14) for v in values)
    answers.put((values[0], fc.grad(lambda x: np.sum(f(x)))(x), counters["traces"] - before))


METHODS = [m for m in ("fork", "spawn") if m in multiprocessing.get_all_start_methods()]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("f", [decorated, named], ids=name_of)
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

    @unseen
    def wait() -> None:
        if threading.current_thread() is thread:
            tracing.set()
            go_on.wait(60)

    def slow(x: Any) -> Any:
        wait()
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
