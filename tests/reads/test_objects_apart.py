"""What a jitted function changes may become one with something else that it reads, or be apart from it again."""

from __future__ import annotations

import copy
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import explain_cache_misses, grad, jit
from funcad.errors import NotCompiledWarning
from funcad.jitted import first_calls


class Node:
    """Something of the user's with a number."""

    def __init__(self, n: float = 1.0, other: Any = None):
        self.n, self.other = n, other

    def moves(self, x: Any) -> Any:
        self.n += 1.0
        return x * self.other.n


def of_objects(h: Any, x: Any) -> Any:
    h.a.n += 1.0
    return x * h.b.n


def of_dicts(h: Any, x: Any) -> Any:
    h.a["n"] = h.a["n"] + 1.0
    return x * h.b["n"]


def of_lists(h: Any, x: Any) -> Any:
    h.a[0] += 1.0
    return x * sum(h.b)


def of_a_list_that_grows(h: Any, x: Any) -> Any:
    h.a.append(2.0)
    return x * len(h.b)


def of_nested(h: Any, x: Any) -> Any:
    h.a["in"]["n"] = h.a["in"]["n"] * 0.5 + 1.0
    return x * h.b["in"]["n"]


def by_method(h: Any, x: Any) -> Any:
    h.a.other = h.b
    return h.a.moves(x)


def of_a_copy(h: Any, x: Any) -> Any:
    own = copy.deepcopy([h.a, h.b])
    own[0].append(5.0)
    return x * sum(own[1])


MAKERS: dict[Callable[..., Any], Callable[[], Any]] = {
    of_objects: Node, of_dicts: lambda: {"n": 1.0}, of_lists: lambda: [1.0, 2.0], of_a_list_that_grows: lambda: [1.0],
    of_nested: lambda: {"in": {"n": 1.0}}, by_method: Node, of_a_copy: lambda: [1.0],
}  # fmt: skip


@pytest.mark.parametrize("way", ["jit", "jit(grad)", "grad(jit)", "jit(jit)"])
@pytest.mark.parametrize("step", MAKERS, ids=lambda f: f.__name__)
def test_two_become_one_and_two_again(step: Callable[..., Any], way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    made = MAKERS[step]
    state, plain = (types.SimpleNamespace(a=made(), b=made()) for _ in range(2))
    f, g = (lambda h: lambda x: step(h, x))(state), (lambda h: lambda x: step(h, x))(plain)
    jitted = {"jit": jit, "jit(grad)": lambda f: jit(grad(f)), "grad(jit)": lambda f: grad(jit(f)),
              "jit(jit)": lambda f: (lambda inner: jit(lambda x: inner(x) * 1.0))(jit(f))}[way](f)  # fmt: skip
    wanted = grad(g) if "grad" in way else g

    def told(h: Any) -> str:
        return repr([vars(x) if isinstance(x, Node) else x for x in (h.a, h.b)]).replace("0x", "")[:40]

    def check() -> None:
        for _ in range(3):
            assert jitted(2.0) == wanted(2.0)
            if step is not by_method:
                assert told(state) == told(plain)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        check()
        for h in (state, plain):
            h.b = copy.copy(h.a)
        check()
        for h in (state, plain):
            h.b = h.a
        check()
        for h in (state, plain):
            h.b = copy.deepcopy(h.a)
        check()
        for h in (state, plain):
            h.a = h.b
        check()


def test_a_graph_of_objects_that_share() -> None:
    def network() -> list[Node]:
        nodes = [Node(float(i)) for i in range(5)]
        for i, node in enumerate(nodes):
            node.other = nodes[(i + 1) % 5]
        return nodes

    mine, plain = network(), network()

    def step(nodes: list[Node], x: Any) -> Any:
        total = x
        for node in nodes:
            node.n = node.n * 0.5 + node.other.n
            total = total * 0.5 + node.n
        return total

    jitted = jit(lambda x: step(mine, x))
    for k in range(12):
        assert jitted(1.0) == pytest.approx(step(plain, 1.0), rel=1e-14)
        np.testing.assert_allclose([node.n for node in mine], [node.n for node in plain], rtol=1e-14)
        if k in (4, 8):
            for nodes in (mine, plain):
                nodes[1].other = nodes[k // 4]
                nodes[3] = nodes[0]


def test_it_is_told_why() -> None:
    said: list[str] = []
    state = types.SimpleNamespace(a={"n": 1.0}, b={"n": 1.0})

    def f(x: Any) -> Any:
        state.a["n"] = state.a["n"] + 1.0
        return x * state.b["n"]

    jitted = jit(f)
    with explain_cache_misses(said.append):
        for _ in range(3):
            assert jitted(2.0) == 2.0
        state.b = state.a
        assert jitted(2.0) == 10.0
    assert "closure variable state.a, closure variable state.b: some are one" in said[-1], said


ONE = np.ones(2)


def of_two(a: Any, b: Any) -> Any:
    return a + 1.0 if a is b else a - b


def of_a_dict(d: Any, _: Any) -> Any:
    return d["a"] - d["b"] if d["a"] is not d["b"] else d["a"] * 3.0


def by_id(a: Any, b: Any) -> Any:
    return a * len({id(a), id(b)})


def of_what_was_there(a: Any, b: Any) -> Any:
    return a * 2.0 if a is ONE else b * 3.0


@pytest.mark.parametrize("f", [of_two, of_a_dict, by_id, of_what_was_there])
def test_arguments_that_are_one_object(f: Callable[[Any, Any], Any]) -> None:
    other = np.full(2, 5.0)
    calls = [(ONE, ONE), (ONE, ONE), (ONE, other), (other, ONE), (other, other)] * 2
    if f is of_a_dict:
        calls = [({"a": a, "b": b}, a) for a, b in calls]
    jitted = jit(f)
    with pytest.warns(NotCompiledWarning, match="argument"):
        found = [jitted(*args).tolist() for args in calls]
    assert found == [f(*args).tolist() for args in calls]


def test_what_an_argument_is_compared_with_that_is_no_array() -> None:
    mode = object()
    jitted = jit(lambda a, b=None: a if b is None and a is not mode and a is a else a * 2.0, not_compiled="raise")
    assert [jitted(2.0), jitted(2.0), jitted(2.0, 1.0)] == [2.0, 2.0, 4.0]
