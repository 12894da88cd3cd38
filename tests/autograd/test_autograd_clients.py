"""What libraries written for HIPS autograd ask for beside its operators: aliases, boxes, spaces, loose inputs."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as onp
import pytest

import funcad
import funcad.autograd as ag
import funcad.autograd.numpy as np
from funcad.autograd import core
from funcad.autograd.builtins import DictBox, ListBox, SequenceBox, TupleBox
from funcad.autograd.extend import Box, VSpace, vspace
from funcad.autograd.misc import const_graph
from funcad.autograd.numpy.numpy_boxes import ArrayBox
from funcad.autograd.numpy.numpy_vjps import match_complex, metadata, replace_zero, unbroadcast, unbroadcast_f
from funcad.autograd.scipy.signal import convolve
from funcad.autograd.scipy.stats import multivariate_normal
from funcad.autograd.test_util import check_grads, scalar_close
from funcad.autograd.tracer import Node, getval, trace
from funcad.autograd.util import func, subval, subvals
from funcad.autograd.wrap_util import unary_to_nary
from funcad.errors import NonDifferentiableInputError
from tests.forked import in_a_process
from tests.unseen import Noted

X = onp.array([0.3, -1.2, 2.0])


def test_install_finds_every_part_under_autograds_names() -> None:
    assert in_a_process("""
import funcad.autograd
funcad.autograd.install()
funcad.autograd.install()
import autograd, autograd.numpy as np, autograd.numpy.linalg, autograd.scipy.special, autograd.scipy.stats.norm
from autograd import grad, elementwise_grad, numpy
from autograd.core import make_vjp
from autograd.extend import primitive, defvjp
from autograd.misc.optimizers import adam
from autograd.numpy.numpy_boxes import ArrayBox
assert autograd is funcad.autograd and np is numpy is funcad.autograd.numpy and np.linalg is funcad.autograd.numpy.linalg
assert autograd.__spec__.name == "funcad.autograd" and np.__name__ == "funcad.autograd.numpy"
for missing in ("autograd.nothing", "autograd.numpy.nothing"):
    try:
        __import__(missing)
    except ModuleNotFoundError as error:
        assert missing in str(error), error
    else:
        raise SystemExit("found")
print(grad(lambda x: np.sum(x**2))(np.ones(2)))
""") == "[2. 2.]"


def test_install_comes_first() -> None:
    assert "autograd has been imported already" in in_a_process("""
import sys, types
sys.modules["autograd"] = types.ModuleType("autograd")
sys.modules["autograd"].__file__ = "elsewhere"
import funcad.autograd
try:
    funcad.autograd.install()
except RuntimeError as error:
    print(error)
""")


def test_submodules_are_found_without_an_import_of_their_own() -> None:
    assert in_a_process("""
import funcad.autograd as ag
assert ag.scipy.signal.convolve.__module__ == "funcad.autograd.scipy.signal"
assert ag.numpy.numpy_boxes.ArrayBox and ag.numpy.linalg.norm and ag.scipy.stats.norm.pdf
print(ag.numpy.__version__ == __import__("numpy").__version__)
""") == "True"


@pytest.mark.parametrize("dtype", [int, onp.uint8, bool])
def test_arrays_of_integers_are_differentiated_as_floats(dtype: Any) -> None:
    x = onp.array([0, 1, 1], dtype)
    onp.testing.assert_allclose(ag.elementwise_grad(np.sin)(x), onp.cos(x.astype(float)))
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(x**2))(x), 2.0 * x)
    onp.testing.assert_allclose(ag.deriv(np.exp)(x), onp.exp(x.astype(float)))
    onp.testing.assert_allclose(ag.jacobian(lambda x: 0.5 * x)(x), 0.5 * onp.eye(3))
    onp.testing.assert_allclose(ag.hessian(lambda x: np.sum(x**3))(x), 6.0 * onp.diag(x))
    onp.testing.assert_allclose(ag.make_vjp(lambda x: x * x)(x)[0](onp.ones(3)), 2.0 * x)
    onp.testing.assert_allclose(ag.grad(lambda pair: np.sum(pair[0] * pair[1]))((x, X))[0], X)
    assert x.dtype == dtype
    for number in (3, onp.int64(3), onp.array(3), True):
        with pytest.raises(NonDifferentiableInputError, match="integers and bools"):
            ag.grad(lambda x: x * 1.0)(number)


def test_cotangents_of_integers_and_bools_are_taken_as_zeros() -> None:
    pullback, value = core.make_vjp(lambda x: x > 1.0, 2.0)
    assert value and pullback(1.0) == 0.0
    pullback, (low, values) = core.make_vjp(lambda x: (np.argmin(x), x**2), X)
    assert low == 1
    onp.testing.assert_allclose(pullback((1.0, onp.ones(3))), 2 * X)


def test_core_makes_them_at_a_point() -> None:
    pullback, value = core.make_vjp(lambda x: x**2, X)
    onp.testing.assert_allclose(value, X**2)
    onp.testing.assert_allclose(pullback(X), 2 * X**2)
    value, tangent = core.make_jvp(lambda x: x**2, X)(X)
    onp.testing.assert_allclose(tangent, 2 * X**2)


def test_unary_to_nary() -> None:
    @unary_to_nary
    def hessian_diagonal(fun: Any, x: Any, scale: float = 1.0) -> Any:
        return scale * ag.elementwise_grad(ag.elementwise_grad(fun))(x)

    cubes = lambda x, y: x**3 + y**2
    onp.testing.assert_allclose(hessian_diagonal(cubes)(X, X), 6 * X)
    onp.testing.assert_allclose(hessian_diagonal(cubes, 1, scale=3.0)(X, X), [6.0] * 3)
    onp.testing.assert_allclose(hessian_diagonal(cubes, 0, 2.0)(X, X), 12 * X)
    both = unary_to_nary(lambda fun, pair: fun((pair[0] + 1.0, pair[1])))(lambda x, y: x * y, (0, 1))(2.0, 3.0)
    assert both == 9.0


VALUES = {
    "array": onp.zeros((3, 2)),
    "number": 0.0,
    "complex": onp.zeros((2, 1)) * 1j,
    "single": onp.zeros(2, onp.float32),
    "nested": {"x": [0.0, onp.zeros((3, 1))], "y": ({"a": 1j}, [0.0])},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_vspaces(value: Any) -> None:
    space = vspace(value)
    basis = list(space.standard_basis())
    assert len(basis) == space.size
    for vector in [space.zeros(), space.ones(), space.randn(), *basis]:
        assert vspace(vector) == space and hash(vspace(vector)) == hash(space)
    x, y = space.randn(), space.randn()
    coordinates = [space.inner_prod(b, x) for b in basis]
    total = space.zeros()
    for c, b in zip(coordinates, basis):
        total = space.add(total, space.scalar_mul(b, c))
    for got, wanted in zip(funcad.tree.leaves(total), funcad.tree.leaves(x)):
        onp.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert scalar_close(space.inner_prod(x, y), space.inner_prod(y, x))
    assert space.inner_prod(x, x) > 0 and space.inner_prod(space.ones(), space.ones()) == space.size
    assert vspace(space.covector(x)) == space
    assert space != vspace((value, 1.0))


def test_vspace_of_an_array_and_of_a_traced_one() -> None:
    seen = []
    funcad.grad(lambda x: (seen.append(vspace(x)), np.sum(x))[1])(X)
    space = seen[0]
    assert (space.shape, space.ndim, space.dtype, space.size, space.iscomplex) == ((3,), 1, float, 3, False)
    assert vspace(1j * X).size == 6 and vspace(1j * X).iscomplex
    with pytest.raises(TypeError, match="no one shape"):
        vspace([X, X]).shape  # noqa: B018
    VSpace.register(dict)  # a pytree already
    assert vspace({"a": X}).size == 3
    del VSpace.mappings[dict]


def test_boxes() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.extend([type(x) is ArrayBox, isinstance(x, Box) and issubclass(ArrayBox, Box), x._value])
        return np.sum(x**2)

    ag.grad(f)(X)
    assert seen[:2] == [True, True] and type(seen[2]) is onp.ndarray and (seen[2] == X).all()
    for kind in (SequenceBox, TupleBox, ListBox, DictBox):
        assert not isinstance([], kind) and not isinstance({}, kind)
        with pytest.raises(TypeError, match="containers are not wrapped"):
            kind([1.0])
    ag.grad(lambda d: (seen.append(isinstance(d, DictBox)), d["a"])[1])({"a": 1.0})
    assert seen[-1] is False


def test_helpers_of_rules() -> None:
    assert metadata(1j * X) == ((3,), 1, onp.dtype(complex), True)
    for shape in [(), (1,), (3,), (2, 1), (2, 3), (1, 1, 3)]:
        target = onp.zeros(shape)
        given = onp.ones(onp.broadcast_shapes(shape, (4, 2, 3)))
        found = unbroadcast(given, metadata(target))
        assert onp.shape(found) == shape and onp.sum(found) == given.size
    assert unbroadcast(onp.ones((2, 3, 5)), metadata(onp.zeros((2, 3))), -1).shape == (2, 3)
    assert (unbroadcast_f(X, lambda g: g * (1 + 1j))(onp.ones((2, 3))) == 2.0).all()
    assert match_complex(1j, X).dtype == complex and match_complex(X, 1j * X).dtype == float
    assert (replace_zero(onp.array([0.0, 2.0]), 7.0) == [7.0, 2.0]).all()
    assert subvals([1, 2, 3], [(0, 5)]) == (5, 2, 3) and subval([1, 2], 1, 0) == (1, 0) and func(len) is len


def test_joining_takes_iterators_and_where_takes_names() -> None:
    rows = {"a": X, "b": 2 * X}
    for name in ("stack", "vstack", "hstack", "dstack", "column_stack"):
        whole, join = getattr(onp, name)([X, 2 * X]), getattr(np, name)
        for given in (rows.values(), (r for r in rows.values()), map(onp.asarray, rows.values()), list(rows.values())):
            onp.testing.assert_array_equal(join(given), whole)
    onp.testing.assert_array_equal(np.concatenate(rows.values(), axis=0), onp.concatenate([X, 2 * X]))
    onp.testing.assert_allclose(ag.grad(lambda x: np.sum(np.stack(x * c for c in (1.0, 2.0))))(X), [3.0] * 3)
    folded = lambda x: np.sum(np.where(condition=x > 0, x=x**2, y=-x))
    onp.testing.assert_allclose(ag.grad(folded)(X), onp.where(X > 0, 2 * X, -1))
    assert (np.where([True, False, True])[0] == [0, 2]).all()
    assert np.make_diagonal(onp.ones((2, 3)), axis1=-1, axis2=-2).shape == (2, 3, 3)
    with pytest.raises(NotImplementedError, match="axis1=-1"):
        np.make_diagonal(X)


def test_check_grads_looks_at_the_chosen_arguments() -> None:
    @ag.primitive
    def f(x: Any, y: Any) -> Any:
        return x * y

    ag.extend.defvjp(f, lambda ans, x, y: lambda g: g * y, lambda ans, x, y: lambda g: 1.1 * g * x)
    check_grads(f, modes=["rev"], order=1)(2.0, 3.0)
    for argnum in (1, (0, 1)):
        with pytest.raises(AssertionError, match=r"\(VJP\) check of f failed"):
            check_grads(f, argnum, modes=["rev"], order=1)(2.0, 3.0)


def test_const_graph_traces_once() -> None:
    calls = Noted()

    def f(x: Any, y: Any) -> Any:
        calls.note()
        return ag.grad(lambda x: np.sin(x) + x * 2)(x * y)

    g = const_graph(f, 1.0)
    assert scalar_close(g(0.5), onp.cos(0.5) + 2) and scalar_close(g(1.5), onp.cos(1.5) + 2)
    assert len(calls) == 1


def test_convolutions_along_axes() -> None:
    rng = onp.random.default_rng(0)
    a, b = rng.standard_normal((3, 5)), rng.standard_normal((3, 4))
    for mode in ("valid", "full"):
        onp.testing.assert_allclose(convolve(a, b, axes=([], []), dot_axes=([0], [0]), mode=mode), a.T @ b)
    long, short = rng.standard_normal((2, 7)), rng.standard_normal((2, 4))
    same = convolve(long, short, axes=([1], [1]), mode="same")
    assert same.shape == (2, 2, 7)
    for i in range(2):
        for j in range(2):
            onp.testing.assert_allclose(same[i, j], onp.convolve(long[i], short[j], "full")[1:8])
    with pytest.raises(ValueError, match="mode"):
        convolve(long, short, axes=([1], [1]), mode="wrap")


def test_entropy_of_a_normal_distribution() -> None:
    from scipy.stats import multivariate_normal as plain

    cov = onp.array([[2.0, 0.5], [0.5, 1.0]])
    assert scalar_close(multivariate_normal.entropy(onp.zeros(2), cov), plain(onp.zeros(2), cov).entropy())
    onp.testing.assert_allclose(ag.grad(multivariate_normal.entropy, 1)(onp.zeros(2), cov), 0.5 * onp.linalg.inv(cov))


def test_builtins_are_found_at_the_top() -> None:
    assert (ag.tuple, ag.list, ag.dict, ag.isinstance, ag.type) == (tuple, list, dict, isinstance, type)
    assert isinstance(ag.numpy, types.ModuleType)


def test_rules_for_functions_that_have_theirs_change_nothing() -> None:
    from funcad.autograd.scipy.special import expit

    ag.extend.defjvp(expit, lambda g, ans, x: 7.0 * g)
    ag.extend.defvjp(expit, lambda ans, x: lambda g: 7.0 * g)
    assert scalar_close(ag.grad(expit)(0.0), 0.25) and scalar_close(ag.deriv(expit)(0.0), 0.25)


def test_rules_for_functions_that_are_no_primitives_have_no_effect_and_say_so() -> None:
    def cube(x: Any) -> Any:
        return x**3

    for fun in (cube, onp.sin, functools.partial(cube)):
        with pytest.warns(UserWarning, match="@primitive"):
            ag.extend.defvjp(fun, lambda ans, x: lambda g: 7.0 * g)
        with pytest.warns(UserWarning, match="@primitive"):
            ag.extend.defjvp(fun, lambda g, ans, x: 7.0 * g)
    assert ag.grad(cube)(2.0) == 12.0 and ag.deriv(cube)(2.0) == 12.0 and ag.grad(onp.sin)(0.0) == 1.0
    own = ag.extend.primitive(cube)  # the remedy
    ag.extend.defvjp(own, lambda ans, x: lambda g: 7.0 * g)
    assert ag.grad(own)(2.0) == 7.0
    with pytest.raises(TypeError, match="takes a function"):
        ag.extend.defvjp(3, None)


def test_a_trace_has_a_node_that_goes_back_many_times() -> None:
    def f(x: Any) -> Any:
        return np.sin(x) * x[0]

    def back(x: Any) -> Any:
        value, node = trace(core.VJPNode.new_root(), f, x)
        onp.testing.assert_array_equal(getval(value), onp.sin(getval(x)) * getval(x)[0])
        return np.stack([core.backward_pass(row, node) for row in onp.eye(3)])

    onp.testing.assert_allclose(back(X), ag.jacobian(f)(X))
    inside = ag.grad(lambda x: np.sum(back(x) ** 2))(X)  # a trace within a transform
    onp.testing.assert_allclose(inside, ag.grad(lambda x: np.sum(ag.jacobian(f)(x) ** 2))(X))
    start = core.VJPNode.new_root()
    middle, first = trace(start, f, X)
    end, last = trace(first, np.sum, middle)  # a trace goes on where another ended
    assert last.parents == [first] and first.parents == [start] and start.parents == [] and start.vjp(1.0) == ()
    onp.testing.assert_allclose(core.backward_pass(1.0, last), ag.grad(lambda x: np.sum(f(x)))(X))
    value, node = trace(core.JVPNode.new_root(onp.ones(3)), f, X)
    onp.testing.assert_allclose(node.g, funcad.jvp(f, (X,), (onp.ones(3),))[1])


def test_traces_that_are_none_and_what_is_refused_of_nodes() -> None:
    for root in (core.VJPNode.new_root(), core.JVPNode.new_root(onp.ones(3))):
        with pytest.warns(UserWarning, match="does not depend"):
            value, node = trace(root, lambda x: 7.0, X)
        assert value == 7.0 and node is None

    def outer(y: Any) -> Any:  # traced, but not by the trace
        with pytest.warns(UserWarning, match="does not depend"):
            value, node = trace(core.VJPNode.new_root(), lambda x: y, X)
        assert node is None
        return value

    assert ag.grad(outer)(2.0) == 1.0
    assert not isinstance(X, Box)

    with pytest.raises(NotImplementedError, match="initialize_root"):
        Node.new_root()


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("shape", [(3, 3), (2, 3, 3)])
def test_eigenvalues_of_one_triangle(triangle: str, shape: tuple[int, ...]) -> None:
    """As NumPy computes them: the other triangle has no influence, and no derivative."""
    a = onp.random.default_rng(0).normal(size=shape) + onp.diag([0.0, 5.0, 10.0])
    for f in (lambda x: np.linalg.eigvalsh(x, triangle), lambda x: np.linalg.eigh(x, UPLO=triangle)[1] ** 2):
        check_grads(f, modes=["fwd", "rev"], order=2)(a)
        slope = ag.grad(lambda x, f=f: np.sum(np.sin(f(x))))(a)
        other = onp.triu(slope, 1) if triangle == "L" else onp.tril(slope, -1)
        assert onp.any(slope) and not onp.any(other)
    onp.testing.assert_array_equal(np.linalg.eigvalsh(a, triangle), onp.linalg.eigvalsh(a, triangle))
    hermitian = onp.random.default_rng(1).normal(size=(3, 3)) + 1j * onp.random.default_rng(2).normal(size=(3, 3))
    check_grads(lambda x: np.linalg.eigvalsh(x, triangle), modes=["rev"], order=1)(hermitian)
    with pytest.raises(ValueError, match="UPLO"):
        ag.grad(lambda x: np.sum(np.linalg.eigvalsh(x, "X")))(a)
