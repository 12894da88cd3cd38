"""Trees that contain themselves, and trees deeper than Python can recurse: an error that names the place, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import tree
from funcad.errors import FuncadError, TreeDepthError


def cyclic() -> Any:
    inner: list[Any] = [1.0]
    inner.append({"owner": inner})
    return {"model": inner}


def chain(depth: int) -> Any:
    found: Any = 1.0
    for _ in range(depth):
        found = {"next": found, "value": 2.0}
    return found


WALKS = [
    lambda t: tree.leaves(t),
    lambda t: tree.map(lambda x: x, t),
    lambda t: tree.leaves_with_path(t),
    lambda t: tree.leaves(t, is_leaf=lambda x: False),
    lambda t: fc.grad(lambda q: 1.0)(t),
    lambda t: fc.jit(lambda q: 1.0)(t),
    lambda t: fc.jit(lambda x: t)(1.0),
    lambda t: fc.vmap(lambda q: 1.0)(t),
    lambda t: fc.jvp(lambda q: q, (t,), (t,)),
    lambda t: fc.scan(lambda c, x: (c, t), 1.0, np.ones(3)),
    lambda t: fc.debug.doctor(lambda q: 1.0)(t),
]


@pytest.mark.parametrize("walk", WALKS)
def test_a_tree_that_contains_itself(walk):
    with pytest.raises(TreeDepthError, match=r"contains itself: tree.*\['model'\]\[1\]\['owner'\] is tree.*\['model'\] ") as e:
        walk(cyclic())
    assert "Remedy: keep references to parents and owners out of the tree" in str(e.value)
    assert isinstance(e.value, RecursionError) and isinstance(e.value, FuncadError)


@pytest.mark.share(3)
@pytest.mark.parametrize("walk", WALKS)
def test_a_very_deep_tree(walk):
    with pytest.raises(TreeDepthError, match=r"nested 300\d levels deep, at tree.*\['next'\] \.\.\. .*: too deep") as e:
        walk(chain(3000))
    assert "keep a long chain as one list" in str(e.value)


def test_structures_near_the_limit_never_raise_a_bare_error():
    def attempt(work):
        try:
            work()
        except RecursionError as error:
            assert type(error) is TreeDepthError and str(error).startswith("this pytree is nested")

    for depth in range(20, 1000, 45):
        t = chain(depth)
        attempt(lambda t=t: tree.map(lambda x, y: x, t, t))
        attempt(lambda t=t: hash(tree.structure(t)))
        attempt(lambda t=t: repr(tree.structure(t)))
        attempt(lambda t=t: tree.structure(t).paths())
        attempt(lambda t=t: tree.structure(t) == tree.structure(tree.map(float, t)))
        attempt(lambda t=t: fc.jit(lambda q: q["value"])(t))
        attempt(lambda t=t: fc.grad(lambda q: q["value"])(t))


def test_shared_parts_are_no_cycle():
    part = {"w": np.ones(2)}
    empty: tuple = ()
    assert len(tree.leaves([part, (part, [part, empty, empty])])) == 3


def test_the_users_own_recursion_keeps_its_error():
    class Endless:
        pass

    def flatten(x):
        return flatten(x)

    tree.register_pytree_node(Endless, flatten, lambda meta, children: Endless())
    with pytest.raises(RecursionError) as e:
        tree.leaves(Endless())
    assert type(e.value) is RecursionError
    with pytest.raises(RecursionError) as e:
        tree.map(flatten, [1.0])
    assert type(e.value) is RecursionError


def test_a_class_that_makes_its_children_when_opened():
    class Nested:
        pass

    tree.register_pytree_node(Nested, lambda x: ((Nested(),), None), lambda meta, children: Nested())
    with pytest.raises(TreeDepthError, match="nested more than 20000 levels deep"):
        tree.leaves(Nested())


def test_works_again_afterwards():
    with pytest.raises(TreeDepthError):
        fc.grad(lambda q: q["model"][0])(cyclic())
    assert fc.grad(lambda q: q["model"][0] ** 2)({"model": [3.0]}) == {"model": [6.0]}


def test_captured_graphs_are_no_trees():
    """What a function closes over may contain itself: only arguments and results are pytrees."""
    node = [2.0]
    node.append(node)
    for f in (fc.checkpoint(lambda x: x * node[0]), fc.jit(fc.checkpoint(lambda x: x * node[0]))):
        assert fc.grad(f)(3.0) == 2.0

    def leaking(x):
        @fc.custom_vjp
        def g(y):
            return y * node[0] * x

        g.defvjp(lambda y: (y * node[0] * x, None), lambda _, ct: (ct * x,))
        return g(x)

    with pytest.raises(fc.errors.CustomRuleClosureError, match="the variable 'x'"):
        fc.jit(leaking)(3.0)
