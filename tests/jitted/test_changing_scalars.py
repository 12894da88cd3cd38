"""A number that keeps changing, in a global, a cell or an attribute, becomes an input of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.reads.observer import Observer
from tests.jitted.captured_cases import X, module
from tests.unseen import unseen

_CLASSES = """
import dataclasses, functools, types
class Model:
    rate = 1.0
    def __init__(self):
        self.k, self.w = 1.0, np.ones(3)
    def apply(self, x):
        return x * self.k + self.w
    def rated(self, x):
        return x * self.rate
@dataclasses.dataclass
class Record:
    k: float = 1.0
    other: int = 2
Pair = __import__("collections").namedtuple("Pair", "k other")
o = types.SimpleNamespace(k=1.0)
model, record, pair, table = Model(), Record(), Pair(1.0, 2), {"a": [1.0, 2.0]}
k, same = 1.0, 1.0
def make():
    n = 1.0
    def f(x):
        return x * n
    def change(v):
        nonlocal n
        n = v
    return f, change
"""


def _set(made: Any, value: Any) -> None:
    made.k = value


# text of f, what changes
INPUTS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "global": ("def f(x):\n    return x * k", _set),
    "read twice": ("def h(x):\n    return np.sin(x) * k\ndef f(x):\n    return h(x) + k", _set),
    "in a nested function": ("def f(x):\n    return sum([(lambda v: v * k)(x) for _ in range(2)])", _set),
    "another name holds the same object": ("def f(x):\n    return x * k + same", _set),
    "closure": ("f, change = make()", lambda made, v: made.change(v)),
    "namespace": ("def f(x):\n    return x * o.k", lambda made, v: setattr(made.o, "k", v)),
    "dataclass": ("def f(x):\n    return x * record.k", lambda made, v: setattr(made.record, "k", v)),
    "named tuple": ("def f(x):\n    return x * pair.k", lambda made, v: setattr(made, "pair", made.Pair(v, 2))),
    "containers": ("def f(x):\n    return x * table['a'][1]", lambda made, v: made.table["a"].__setitem__(1, v)),
    "self": ("f = model.apply", lambda made, v: setattr(made.model, "k", v)),
    "an object": ("def f(x):\n    return x * model.k", lambda made, v: setattr(made.model, "k", v)),
    "class attribute through an instance": ("f = model.rated", lambda made, v: setattr(made.Model, "rate", v)),
    "partial": ("f = functools.partial(lambda o, x: x * o.k, o)", lambda made, v: setattr(made.o, "k", v)),
    "default": (
        "def f(x, table={'k': 1.0}):\n    return x * table['k']",
        lambda made, v: made.f.__defaults__[0].update(k=v),
    ),
    "gradient of a function": ("f = funcad.grad(lambda x: np.sum(np.sin(x) * k))", _set),
    "gradient inside": ("def h(x):\n    return np.sum(x ** 2 * k)\ndef f(x):\n    return funcad.grad(h)(x)", _set),
    "jit inside": ("@funcad.jit\ndef h(x):\n    return np.sin(x) * k\ndef f(x):\n    return h(x) * 2", _set),
    "vmap inside": ("def h(x):\n    return np.sin(x) * k\ndef f(x):\n    return funcad.vmap(h)(x)", _set),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", INPUTS)
def test_it_becomes_an_input(name: str) -> None:
    text, change = INPUTS[name]
    made = module(_CLASSES + text)
    program = jit(made.f)
    for i in range(12):
        change(made, 0.5 + i)
        for _ in range(4):
            np.testing.assert_allclose(program(X), made.f(X), rtol=1e-12)
    assert program.cache_info().misses <= 4


WATCHED: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "range": ("def f(x):\n    return sum([x * j for j in range(int(k) + 1)])", _set),
    "if": ("def f(x):\n    return x if k > 3 else 2 * x", _set),
    "shape": ("def f(x):\n    return np.zeros(int(k)) + x[0]", _set),
    "text": ("def f(x):\n    return x * len(f'{k:.3f}')", _set),
    "callback": ("def f(x):\n    return funcad.pure_callback(lambda v: v * k, x, x)", _set),
    "custom rule": (
        "@funcad.custom_vjp\ndef h(v):\n    return v * k\n"
        "h.defvjp(lambda v: (v * k, None), lambda kept, g: (g * k,))\n"
        "def f(x):\n    return funcad.grad(funcad.jit(lambda v: np.sum(h(v))))(x)",
        _set,
    ),
    "class": ("def f(x):\n    return x * Model.rate", lambda made, v: setattr(made.Model, "rate", v)),
    "type": ("def f(x):\n    return x * {float: 2, int: 3}[type(k)]", _set),
    "kept in a container": ("def f(x):\n    table['b'] = 1\n    table['a'].append(2.0)\n    return x * table['a'][0]",
                            lambda made, v: made.table.update(a=[v])),  # fmt: skip
}


@pytest.mark.parametrize("name", WATCHED)
def test_where_its_value_is_needed_it_is_traced(name: str) -> None:
    text, change = WATCHED[name]
    program_module, plain_module = module(_CLASSES + text), module(_CLASSES + text)
    program = jit(program_module.f)
    for i in range(6):
        change(program_module, 0.5 + i)
        change(plain_module, 0.5 + i)
        np.testing.assert_allclose(program(X), plain_module.f(X), rtol=1e-12)


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", [float, int, complex, np.float32, np.float64, np.int32, np.complex64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_dtypes_are_the_plain_functions(kind: Any, dtype: Any) -> None:
    made = module("k = 1\ndef f(x):\n    return x * k, x + k")
    program, x = jit(made.f), X.astype(dtype)
    for i in range(6):
        made.k = kind(i + 1)
        for _ in range(3):
            for a, b in zip(program(x), made.f(x)):
                np.testing.assert_allclose(a, b, rtol=1e-6)
                assert a.dtype == b.dtype
    assert program.cache_info().misses <= 3
    made.k = 2.5  # of another kind
    for a, b in zip(program(x), made.f(x)):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        assert a.dtype == b.dtype


def test_special_values() -> None:
    made = module("k = 1.0\ndef f(x):\n    return x * k")
    program = jit(made.f)
    for k in (1.0, 2.0, 3.0, np.nan, np.inf, -0.0, 0.0, 2**40, 2**70, True, 5.0):
        made.k = k
        np.testing.assert_array_equal(program(X), made.f(X))
        np.testing.assert_array_equal(np.signbit(program(X)), np.signbit(made.f(X)))


def test_transforms_of_it() -> None:
    made = module("k = 1.0\ndef f(x):\n    return np.sum(np.sin(x) * k)")
    program = jit(made.f)
    for i in range(6):
        made.k = 0.5 + i
        np.testing.assert_allclose(program(X), made.f(X))
        np.testing.assert_allclose(grad(program)(X), grad(made.f)(X))
        np.testing.assert_allclose(funcad.hvp(program, (X,), (X,))[1], funcad.hvp(made.f, (X,), (X,))[1])
        np.testing.assert_allclose(vmap(program)(X[None]), [made.f(X)])
    assert program.cache_info().misses <= 3


def test_a_rule_that_runs_later() -> None:
    made = module(
        "k = 1.0\n@funcad.custom_vjp\ndef h(v):\n    return v * k\n"
        "h.defvjp(lambda v: (v * k, None), lambda kept, g: (g * k,))\ndef f(x):\n    return np.sum(h(x))"
    )
    program = jit(made.f)
    for i in range(6):
        made.k = 0.5 + i
        np.testing.assert_allclose(program(X), made.f(X))
        np.testing.assert_allclose(grad(program)(X), made.k * np.ones(3))


def test_loops_with_a_changing_number() -> None:
    made = module(
        "k = 1.0\ndef turn(v):\n    return v * k\n"
        "def f(x):\n    n, y = funcad.lax.while_loop(lambda c: c[0] < k, lambda c: (c[0] + 1, turn(c[1])), (0.0, x))\n"
        "    return y + funcad.checkpoint(turn)(x) + funcad.lax.cond(k > 2, turn, np.sin, x)"
    )
    program = jit(made.f)
    for i in range(6):
        made.k = 0.5 + i
        np.testing.assert_allclose(program(X), made.f(X))


def test_what_shows_a_program_shows_the_numbers_of_now() -> None:
    made = module("k = 1.0\ndef f(x):\n    return x * k")
    program = jit(made.f)
    for i in range(6):
        made.k = 0.5 + i
        program(X)
        np.testing.assert_array_equal(program.lower(X).compile()(X), made.f(X))
        text: dict[str, Any] = {}
        exec(program.source(X), text)
        np.testing.assert_array_equal(text["run"](X)[0], made.f(X))


def test_writes_and_donation() -> None:
    made = module("k = 1.0\ndef f(x):\n    x[0] = k\n    return x * k\ndef g(x):\n    return x * k")
    f, g = jit(made.f), jit(made.g, donate_argnums=0)
    for i in range(6):
        made.k = 0.5 + i
        x, y = X.copy(), X.copy()
        np.testing.assert_array_equal(f(x), made.f(y))
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(g(X.copy()), made.g(X))


def test_no_thread_sees_a_traced_value() -> None:
    made = module("k = 1.0\ndef f(x):\n    y = x * k\n    wait()\n    return y")
    made.ask, made.answered = threading.Event(), threading.Event()
    made.wait = unseen(lambda: (made.ask.set(), made.answered.wait(10), made.answered.clear()))
    seen: list[type] = []

    def reader() -> None:
        for _ in range(3):
            made.ask.wait(10)
            made.ask.clear()
            seen.append(type(made.k))
            made.answered.set()

    thread = threading.Thread(target=reader)
    thread.start()
    program = jit(made.f)
    for i in range(6):
        made.k = 0.5 + i
        program(X)
    thread.join()
    assert program.cache_info().misses == 3
    assert seen == [float] * 3


def test_errors_of_the_function_are_its_own() -> None:
    made = module("k = 1.0\ndef f(x):\n    if x.ndim > 1:\n        raise ValueError('the user')\n    return x * k")
    program = jit(made.f)
    for i in range(5):
        made.k = 0.5 + i
        np.testing.assert_array_equal(program(X), made.f(X))
        with pytest.raises(ValueError, match="the user"):
            program(X[None])


def test_inputs_are_handed_in_the_order_in_which_they_are_read() -> None:
    """Not in that of the closure's variables, and of two that hold one object the one that is read first."""

    class Held:
        k = 2.0

    def make() -> tuple[Any, Any]:
        a, b = 2.0, 10.0

        def f(x: Any) -> Any:
            return x * b - a

        def change(u: float, v: float) -> None:
            nonlocal a, b
            a, b = u, v

        return f, change

    f, change = make()
    g = jit(f)
    for i in range(8):
        change(2.0 + i, 10.0 * i)
        assert g(3.0) == f(3.0)
    held = Held()
    table = [held]
    h = jit(lambda x: x * table[0].k + held.k)
    for i in range(4):
        held.k = float(i)
        assert h(3.0) == 4.0 * i


def test_a_number_that_cannot_be_placed_stays_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is watched less is what was placed: where nothing can be, each value is a program of its own, and no wrong one."""
    tried: list[Any] = []

    def fails(self: Observer, place: Any, x: Any) -> Any:
        tried.append(x)
        raise self.not_placed()

    monkeypatch.setattr(Observer, "_input", fails)
    table = {"k": 0.0}
    f = jit(lambda x: x * table["k"])
    for k in (1.0, 2.0, 3.0, 4.0, 5.0, 1.0):
        table["k"] = k
        assert [f(2.0), f(2.0)] == [2.0 * k] * 2
    assert len(tried) == 1 and f.cache_info().misses >= 5
