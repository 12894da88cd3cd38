"""Boxes with nodes, tables of rules, boxes and spaces of users: what programs take from autograd's inner modules."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import funcad
import funcad.autograd as ag
import funcad.autograd.numpy as np
from funcad.autograd import core, tracer
from funcad.autograd.core import JVPNode, VJPNode, backward_pass
from funcad.autograd.extend import Box, SparseObject, VSpace, defjvp, defvjp, primitive, register_notrace, vspace
from funcad.autograd.tracer import find_top_boxed_args, getval, isbox, new_box, notrace_primitives, toposort, trace_stack
from funcad.autograd.util import quick_grad_check
from funcad.errors import MissingRuleError, UnexpectedTracerError
from tests.unseen import unseen

X = onp.array([0.3, -1.2, 2.0])


def by_nodes(g: Any, end: Any) -> dict[Any, Any]:
    """The cotangents of all starts, by each node's own `vjp`."""
    found, starts = {end: g}, {}
    for node in toposort(end):
        g = found.pop(node)
        if not node.parents:
            starts[node] = g
        for parent, more in zip(node.parents, node.vjp(g)):
            found[parent] = found[parent] + more if parent in found else more
    return starts


def several(a: Any) -> Any:
    w, v = np.linalg.eigh(a + a.T)
    return np.sum(w**2) + np.sum(v[0] ** 3) + np.sum(np.concatenate([a, a * 2.0])[1])


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "elements": (lambda x: np.sum((np.sin(x) * x[0]) ** 2), X),
    "number": (lambda x: np.exp(x) * x + 1.0, 0.7),
    "several results": (several, onp.diag([1.0, 2.0, 4.0]) + 0.1),
    "broadcast": (lambda x: np.sum(np.outer(x, x) / (1.0 + x**2)[:, None]), X),
    "jitted": (lambda x: np.sum(funcad.jit(np.tanh)(x) ** 2), X),
    "masked": (lambda x: np.sum(np.where(x > 0, np.log(np.where(x > 0, x, 0.0) * 1.0), 0.0)), X),
    "complex": (lambda x: np.sum(np.abs(x * 1j + x**2) ** 2), X),
}


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("f, x", FUNCTIONS.values(), ids=FUNCTIONS)
def test_boxes_have_nodes_that_go_back(f: Callable[[Any], Any], x: Any) -> None:
    root = VJPNode.new_root()
    box = new_box(x, 0, root)
    out = f(box)
    assert isbox(out) and box._node is root and not isbox(out._value)
    onp.testing.assert_array_equal(out._value, f(x))
    wanted = ag.grad(f)(x)
    for _ in range(2):
        onp.testing.assert_allclose(backward_pass(1.0, out._node), wanted, rtol=1e-12)
    onp.testing.assert_allclose(backward_pass(3.0, out._node), 3.0 * wanted, rtol=1e-12)
    if f is not FUNCTIONS["masked"][0]:  # a single node knows nothing of the zeros of others
        onp.testing.assert_allclose(by_nodes(1.0, out._node)[root], wanted, rtol=1e-12)


def test_jacobians_by_boxes_of_cotangents() -> None:
    """The way of pymoo's gradients."""
    f = lambda x: np.array([x[0] * x[1], np.sum(x**2), x[2]])
    out = f(new_box(X, 0, VJPNode.new_root()))
    rows = [backward_pass(new_box(b, 0, VJPNode.new_root()), out._node) for b in onp.eye(3)]
    onp.testing.assert_allclose(np.stack(rows)._value, ag.jacobian(f)(X))
    pulled = backward_pass(new_box(onp.eye(3)[0], 0, seed := VJPNode.new_root()), out._node)
    onp.testing.assert_allclose(by_nodes(onp.ones(3), pulled._node)[seed], ag.jacobian(f)(X) @ onp.ones(3))


def test_boxes_within_gradients_are_differentiated() -> None:
    def squared(x: Any) -> Any:
        out = np.sum(np.sin(b := new_box(x, 0, VJPNode.new_root())) * b**2)
        return np.sum(backward_pass(1.0, out._node) ** 2)

    plain = lambda x: np.sum(ag.grad(lambda b: np.sum(np.sin(b) * b**2))(x) ** 2)
    onp.testing.assert_allclose(ag.grad(squared)(X), ag.grad(plain)(X))
    onp.testing.assert_allclose(ag.deriv(squared)(X), ag.deriv(plain)(X))
    for around in (funcad.jit(squared), lambda x: funcad.vmap(squared)(x[None])):
        with pytest.raises(NotImplementedError, match="make_vjp"):
            around(X)
    onp.testing.assert_allclose(funcad.vmap(lambda x: core.make_vjp(np.sin, x)[0](x))(X), X * onp.cos(X))  # the remedy


def test_boxes_of_one_trace_are_its_inputs() -> None:
    one, two = VJPNode.new_root(), VJPNode.new_root()
    with trace_stack.new_trace() as t:
        x = new_box(X, t, one)
        y = np.sin(x)
        z = new_box(2.0, t, two)
        out = np.sum(y * z)
        assert x._trace == z._trace == out._trace and trace_stack.top == t
        found = by_nodes(1.0, out._node)
        onp.testing.assert_allclose(found[one], 2.0 * onp.cos(X))
        onp.testing.assert_allclose(found[two], onp.sum(onp.sin(X)))
        onp.testing.assert_allclose(backward_pass(1.0, np.sum(y)._node), onp.cos(X))
        boxes, top, kind, dispatched = find_top_boxed_args((1.0, x, X, z))
        assert [i for i, _ in boxes] == [1, 3] and top == x._trace and kind is VJPNode and not dispatched
    assert trace_stack.top == -1
    apart = new_box(X, 0, one) * new_box(2.0, 0, two)
    with pytest.raises(NotImplementedError, match="new_trace"):
        apart._node  # noqa: B018


def test_boxes_of_forward_mode() -> None:
    box = new_box(X, 0, JVPNode.new_root(onp.ones(3)))
    out = np.sin(box) * box
    value, tangent = ag.make_jvp(lambda x: np.sin(x) * x)(X)(onp.ones(3))
    onp.testing.assert_array_equal(out._value, value)
    onp.testing.assert_allclose(out._node.g, tangent)
    assert type(out._node) is JVPNode and find_top_boxed_args((out,))[2] is JVPNode
    assert find_top_boxed_args((X,)) == ([], -1, None, False)


def test_nodes_of_a_gradient_that_runs() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = np.sin(x)
        seen.extend([x._node.parents, x._node.vjp(1.0), y._node.parents == [x._node], (y * 2.0)._node.parents == [y._node]])
        seen.append(backward_pass(1.0, y._node))
        return y

    onp.testing.assert_allclose(ag.grad(f)(0.3), onp.cos(0.3))
    assert seen[:4] == [[], (), True, True]
    onp.testing.assert_allclose(seen[4], onp.cos(0.3))
    with pytest.raises(AttributeError, match="trace"):
        funcad.make_jaxpr(lambda x: x._node)(X)


def test_what_boxes_take_and_leave() -> None:
    for value in (3, [1.0], "x", onp.arange(3)):
        with pytest.raises(TypeError, match="floats"):
            new_box(value, 0, VJPNode.new_root())
    big = onp.ones((300, 300))
    out = np.sum((box := new_box(big, 0, VJPNode.new_root())) ** 3)
    assert len(funcad.debug.locked_arrays()) == 1 and onp.all(backward_pass(1.0, out._node) == 3.0)
    del box, out
    gc.collect()
    assert funcad.debug.locked_arrays() == [] and big.flags.writeable


class Pair:
    """A value of a user's: its derivatives are pairs, too."""

    def __init__(self, a: Any, b: Any, name: str = "p"):
        self.a, self.b, self.name = a, b, name


class PairSpace(VSpace):
    def __init__(self, value: Pair):
        self.shape_of_b = onp.shape(value.b)

    def zeros(self) -> Pair:
        return Pair(0.0, onp.zeros(self.shape_of_b))

    def _add(self, x: Pair, y: Pair) -> Pair:
        return Pair(x.a + y.a, x.b + y.b)

    def _inner_prod(self, x: Pair, y: Pair) -> Any:
        return x.a * y.a + np.sum(x.b * y.b)


class PairBox(Box):
    __slots__ = ()

    def dot(self, x: Any) -> Any:
        return dot(self, x)

    def __add__(self, other: Any) -> Any:
        return added(self, other)


PairSpace.register(Pair)
PairBox.register(Pair)


@primitive
def dot(pair: Pair, x: Any) -> Any:
    assert type(pair) is Pair
    return pair.a * np.sum(pair.b * x)


@primitive
def added(x: Pair, y: Pair) -> Pair:
    return Pair(x.a + y.a, x.b + y.b)


defvjp(
    dot,
    lambda ans, pair, x: lambda g: Pair(g * np.sum(pair.b * x), g * pair.a * x),
    lambda ans, pair, x: lambda g: g * pair.a * pair.b,
)
defvjp(added, lambda ans, x, y: lambda g: g, lambda ans, x, y: lambda g: g)


def test_values_of_classes_of_users_take_part() -> None:
    seen: list[Any] = []

    def f(pair: Any) -> Any:
        seen.append((type(pair), isinstance(pair, Box), isbox(pair), type(getval(pair)), type(pair._value)))
        return (pair + pair).dot(X) ** 2

    found = ag.grad(f)(Pair(1.5, 2.0 * X))
    assert seen == [(PairBox, True, True, Pair, Pair)] and type(found) is Pair and found.name == "p"
    a, b = ag.grad(lambda ab: (2.0 * ab[0] * np.sum(2.0 * ab[1] * X)) ** 2)((1.5, 2.0 * X))
    onp.testing.assert_allclose([found.a, *found.b], [a, *b])
    value, gradient = ag.value_and_grad(f)(Pair(1.5, X))
    onp.testing.assert_allclose(value, (6.0 * onp.sum(X * X)) ** 2)
    onp.testing.assert_allclose(ag.grad(lambda x: dot(Pair(2.0, x), X))(X), 2.0 * X)
    twice = ag.grad(lambda c: ag.grad(lambda pair: pair.dot(X) ** 2)(Pair(c, X)).a)(1.5)  # derivatives of derivatives
    onp.testing.assert_allclose(twice, 2.0 * onp.sum(X * X) ** 2)
    space = vspace(Pair(1.0, X))
    assert type(space) is PairSpace and space == vspace(Pair(2.0, X)) and space != vspace(Pair(2.0, 1.0))
    total = space.mut_add(None, space.add(Pair(1.0, X), Pair(2.0, X)))
    assert total.a == 3.0 and space.inner_prod(total, total) == 9.0 + 4.0 * onp.sum(X * X)
    with pytest.raises(TypeError, match="class PairBox"):
        Box.register(Pair)


class Poly:
    """Coefficients by their powers."""

    def __init__(self, c: dict[int, Any]):
        self.c = c


class PolySpace(VSpace):
    def __init__(self, value: Poly):
        pass

    def zeros(self) -> Poly:
        return Poly({})


PolySpace.register(Poly)


@primitive
def at(p: Poly, x: float) -> Any:
    return sum([v * x**k for k, v in p.c.items()], 0.0)


defvjp(at, lambda ans, p, x: lambda g: Poly({k: g * x**k for k in range(3)}), None)


@pytest.mark.parametrize(
    "way",
    [
        lambda f, p: ag.grad(f)(p),
        lambda f, p: ag.value_and_grad(f)(p)[1],
        lambda f, p: ag.make_vjp(f)(p)[0](1.0),
        lambda f, p: ag.grad(lambda held: f(held["p"]))({"p": p})["p"],
        lambda f, p: ag.grad(lambda x, p: x * f(p), (0, 1))(1.0, p)[1],
        lambda f, p: [slope(p) for slope in [funcad.jit(ag.grad(f))] for _ in range(3)][2],
    ],
)
def test_a_value_without_numbers_has_no_silent_zero(way: Any) -> None:
    f = lambda p: at(p, 2.0) * 3.0 + at(p, 1.0)
    with pytest.raises(TypeError, match="Remedy: zeros in the Poly"):
        way(f, Poly({}))
    assert way(f, Poly({0: 0.0, 1: 0.0, 2: 0.0})).c == {0: 4.0, 1: 7.0, 2: 13.0}


def test_tables_of_rules_are_the_rules() -> None:
    double = primitive(lambda x: 2.0 * x)
    assert double not in core.primitive_vjps and core.primitive_vjps.pop(double, None) is None
    core.primitive_vjps[double] = lambda argnums, ans, args, kwargs: lambda g: (5.0 * g,)
    core.primitive_jvps[double] = lambda argnums, gs, ans, args, kwargs: 7.0 * gs[0]
    assert ag.grad(double)(1.0) == 5.0 and ag.deriv(double)(1.0) == 7.0
    maker = core.primitive_vjps[double]
    assert maker((0,), 2.0, (1.0,), {})(1.0) == (5.0,) and core.primitive_vjps.get(double) is maker
    assert core.primitive_vjps.pop(double) is maker and core.primitive_jvps.pop(double)
    with pytest.raises(MissingRuleError):
        ag.grad(double)(1.0)
    for function in (np.sin, double):
        with pytest.raises(KeyError, match="make_vjp"):
            core.primitive_vjps[function]
    with pytest.raises(TypeError, match="primitive"):
        core.primitive_vjps[np.sin] = maker
    assert core.translate_vjp(None, double, 0)(2.0, X)(1.0).shape == (3,)
    assert core.translate_vjp(maker, double, 0) is maker and core.translate_jvp(None, double, 0)(1.0, X).shape == (3,)
    assert core.translate_jvp("same", np.multiply, 1)(3.0, 2.0, 5.0, 7.0) == 15.0
    for wrong in (core.translate_vjp, core.translate_jvp):
        with pytest.raises(TypeError, match="bad"):
            wrong(3, double, 0)
    assert core.sum_outgrads([X, X, X]).tolist() == (X + X + X).tolist() and core.add_outgrads(None, 1.0) == (1.0, False)
    assert core.identity_vjp((0,), 1.0)(3.0) == 3.0 and core.identity_jvp(3.0, 1.0) == 3.0


def test_rules_may_return_sparse_cotangents() -> None:
    picked = primitive(lambda x, i: x[i])

    def maker(ans: Any, x: Any, i: Any) -> Callable[[Any], Any]:
        def into(a: Any, g: Any) -> Any:
            onp.add.at(a, i, g)
            return a

        return lambda g: SparseObject(vspace(x), lambda a: into(a, g))

    defvjp(picked, maker, None)
    f = lambda x: np.sum(picked(x, [0, 0, 2]) ** 3)
    plain = lambda x: np.sum(x[onp.array([0, 0, 2])] ** 3)
    onp.testing.assert_allclose(ag.grad(f)(X), ag.grad(plain)(X))
    onp.testing.assert_allclose(ag.jacobian(ag.grad(f))(X), ag.hessian(plain)(X))
    sparse = SparseObject(vspace(X), lambda a: a + 1.0)
    assert (core.sum_outgrads([X, sparse]) == X + 1.0).all() and type(sparse) in core.sparse_object_types


def test_primitives_without_derivatives_in_a_mode() -> None:
    rounded = primitive(np.round)
    defjvp(rounded, lambda g, ans, x: 3.0 * g)
    register_notrace(VJPNode, rounded)
    f = lambda x: x * rounded(x)
    assert ag.grad(f)(2.2) == 2.0 and ag.deriv(f)(2.2) == 2.0 + 3.0 * 2.2 and rounded in notrace_primitives[VJPNode]
    notrace_primitives[JVPNode].add(rounded)
    assert ag.deriv(f)(2.2) == 2.0
    with pytest.raises(TypeError, match="notrace_primitive"):
        register_notrace(VJPNode, np.sin)
    with pytest.raises(TypeError, match="VJPNode or JVPNode"):
        register_notrace(tracer.Node, rounded)


def test_deprecated_ways_to_give_rules() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y

    product, by_spaces, nothing = core.primitive(f), core.primitive(f), core.primitive(f)
    with pytest.warns(UserWarning, match="deprecated"):
        product.defgrad(lambda ans, x, y: lambda g: y * g)
        product.defgrad(lambda ans, x, y: lambda g: x * g, argnum=1)
    with pytest.warns(UserWarning, match="deprecated"):
        by_spaces.defvjp(lambda g, ans, vs, gvs, x, y: y * g * vs.size)
        by_spaces.defvjp(lambda g, ans, vs, gvs, x, y: x * g * gvs.size, argnum=1)
    with pytest.warns(UserWarning, match="deprecated"):
        nothing.defvjp_is_zero([0, 1])
    assert ag.grad(product, (0, 1))(2.0, 3.0) == ag.grad(by_spaces, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    assert ag.grad(lambda x: nothing(x, 3.0) + x)(2.0) == 1.0
    with pytest.warns(UserWarning, match="check_grads"):
        quick_grad_check(lambda x, y: x**2 + y, 1.0, (2.0,))
    with warnings.catch_warnings(), pytest.raises(AssertionError):
        warnings.simplefilter("ignore")
        wrong = core.primitive(f)
        wrong.defgrad(lambda ans, x, y: lambda g: 7.0 * g)
        quick_grad_check(wrong, 1.0, (2.0,))


def test_a_call_of_a_primitive_is_one_row() -> None:
    calls: list[str] = []
    note = unseen(lambda what: calls.append(what))

    @primitive
    def product(x: Any, y: Any) -> Any:
        note("f")
        return x * y

    def maker(ans: Any, x: Any, y: Any) -> Callable[[Any], Any]:
        note("rule")
        return lambda g: g * y

    defvjp(product, maker, lambda ans, x, y: lambda g: g * x)
    rows: list[int] = []

    def f(x: Any) -> Any:
        y = product(x, x) + product(2.0, x)
        if type(x) is not onp.ndarray and x.owner.tape is not None:
            rows.append(len(x.owner.tape.pulls))
        return np.sum(product(y, X))

    onp.testing.assert_allclose(ag.grad(f)(X), (2 * X + 2.0) * X)
    assert rows == [3] and calls == ["f", "f", "f", "rule", "rule"]
    for point in (X, X.astype(onp.float32)):
        onp.testing.assert_allclose(ag.hessian(f)(point), onp.diag(2 * X), rtol=1e-6)
        onp.testing.assert_allclose(ag.jacobian(lambda x: product(x, X))(point), onp.diag(X), rtol=1e-6)
        slope = ag.deriv(lambda t, p=point: f(t * p))(1.0)
        onp.testing.assert_allclose(slope, ((2 * point + 2.0) * X * point).sum(), rtol=1e-6)
        assert ag.grad(f)(point).dtype == point.dtype
    onp.testing.assert_allclose(funcad.jit(ag.grad(f))(X), (2 * X + 2.0) * X)


def test_what_a_row_of_a_primitive_keeps_is_safe_and_what_its_rule_returns_is_looked_at() -> None:
    scratch = onp.zeros(3)

    @primitive
    def into_scratch(x: Any) -> Any:
        scratch[:] = onp.exp(x)
        return scratch

    defvjp(into_scratch, lambda ans, x: lambda g: g * ans)
    both = ag.grad(lambda x: np.sum(into_scratch(x)) + np.sum(into_scratch(2.0 * x)))(X)
    onp.testing.assert_allclose(both, onp.exp(X) + 2.0 * onp.exp(2.0 * X))
    writes = primitive(lambda x: x.__iadd__(1.0))
    defvjp(writes, lambda ans, x: lambda g: g)
    with pytest.raises(ValueError, match="read-only"):
        ag.grad(lambda x: np.sum(writes(x)))(X)
    wrong = primitive(lambda x: 2.0 * x)
    defvjp(wrong, lambda ans, x: lambda g: onp.ones(7))
    with pytest.raises(funcad.errors.TangentMismatchError, match="bwd"):
        ag.grad(lambda x: np.sum(wrong(x)))(X)
    pair = primitive(lambda x: (2.0 * x, 7))
    defvjp(pair, lambda ans, x: lambda g: 2.0 * g[0])
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(pair(x)[0]))(X), [2.0] * 3)
    zero = primitive(onp.sign)
    defvjp(zero, None)
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(zero(x) * x))(X), onp.sign(X))


class Told(tracer.Node):
    """A node of one's own: what the value was made of."""

    def initialize_root(self, text: str = "x") -> None:
        self.text, self.made = text, None

    def __init__(self, value: Any, fun: Any, args: Any, kwargs: Any, parent_argnums: Any, parents: Any) -> None:
        told: list[Any] = ["-"] * len(args)
        for i, parent in zip(parent_argnums, parents):
            told[i] = parent.text
        self.text, self.made = f"{fun.__name__}({', '.join(told)})", (value, fun, args, kwargs, parent_argnums, parents)

    def again(self, x: Any) -> Any:
        """The value for another x: the operations once more."""
        if self.made is None:
            return x
        _, fun, args, kwargs, argnums, parents = self.made
        given = dict(zip(argnums, [parent.again(x) for parent in parents]))
        return fun(*[given.get(i, a) for i, a in enumerate(args)], **kwargs)


def filled(x: Any) -> Any:
    y = onp.zeros(3)
    y[0] = x[1]
    y[1:] = 2.0 * x[0]
    return np.sum(y)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("f, x", [*FUNCTIONS.values(), (filled, X)], ids=[*FUNCTIONS, "written"])
def test_a_class_of_ones_own_is_told_of_each_operation(f: Callable[[Any], Any], x: Any) -> None:
    value, end = tracer.trace(Told.new_root(), f, x)
    onp.testing.assert_allclose(value, f(x), rtol=1e-14)
    onp.testing.assert_allclose(end.made[0], value)
    onp.testing.assert_allclose(end.again(x), value)
    onp.testing.assert_allclose(end.again(1.1 * x), f(1.1 * x), rtol=1e-12)
    onp.testing.assert_allclose(ag.grad(end.again)(x), ag.grad(f)(x), rtol=1e-12)
    slope = ag.grad(f)(x)
    if f is not filled:  # whose slope is a constant
        of_slope = tracer.trace(Told.new_root(), ag.grad(f), x)[1]
        onp.testing.assert_allclose(of_slope.again(1.1 * x), ag.grad(f)(1.1 * x), rtol=1e-9)
    inside = ag.grad(lambda y: tracer.trace(Told.new_root(), f, y)[0])(x)
    onp.testing.assert_allclose(inside, slope, rtol=1e-12)


def test_nodes_of_ones_own_tell_names_and_places() -> None:
    calls: list[Any] = []

    @primitive
    def scaled(x: Any, by: str) -> Any:
        calls.append(by)
        return 2.0 * x

    defvjp(scaled, lambda ans, x, by: lambda g: 2.0 * g)
    told = lambda f, x=X: tracer.trace(Told.new_root(), f, x)[1].text
    assert told(lambda x: np.sin(x) * 3.0 - x) == "subtract(multiply(sin(x), -), x)"
    assert told(lambda x: scaled(x, "twice"), 1.0) == "getitem(scaled(x), -)" and calls == ["twice"]
    assert told(lambda x: (x, 3.0, [x + 1.0])) == "unflatten(x, -, add(x, -))"
    assert told(lambda d: d["a"] * d["b"], {"a": X, "b": X}) == "multiply(x, x)"
    box = new_box(X, 0, Told.new_root("y"))
    assert (box * 2.0)._node.text == "multiply(y, -)" and find_top_boxed_args((1.0, box))[2] is Told
    leaked: list[Any] = []
    tracer.trace(Told.new_root(), lambda x: leaked.append(x) or x * 1.0, 2.0)
    with pytest.raises(UnexpectedTracerError):
        leaked[0] * 2.0
    with pytest.warns(UserWarning, match="does not depend"):
        assert tracer.trace(Told.new_root(), lambda x: (x > 1.0) + 0.0, 2.0) == (1.0, None)
    with pytest.raises(ZeroDivisionError):
        tracer.trace(Told.new_root(), lambda x: 1 / 0, 2.0)

    class Silent(tracer.Node):
        def initialize_root(self) -> None:
            """It has nothing to know."""

    with pytest.raises(NotImplementedError, match="Silent.*__init__"):
        tracer.trace(Silent.new_root(), np.sin, X)
    with pytest.raises(NotImplementedError, match="initialize_root"):
        tracer.Node.new_root()
