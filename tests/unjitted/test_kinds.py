"""Kinds of rows: what they have in common is derived once, and told apart by all that a rule looks at."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
from funcad import grad, hessian, jacrev, jit, jvp, value_and_grad, vjp, vmap
from funcad.backends.interpreter import counters
from funcad.nn import clamp
from funcad.unjitted import kinds as kinds_module
from funcad.unjitted import tape as tape_module
from funcad.unjitted.kinds import kinds
from funcad.unjitted.tape import Tape
from tests.forked import in_a_process


def loss(w, x, rate=0.5):
    h = np.tanh(x @ w * rate)
    z = h - np.max(h, axis=1, keepdims=True)
    return -np.mean(np.log(np.sum(np.exp(z), axis=1))) + rate * np.sum(w**2) / 3.0


W, X = np.random.default_rng(0).normal(size=(4, 3)), np.random.default_rng(1).normal(size=(5, 4))


def test_a_changing_literal_makes_nothing_new():
    found = [grad(loss)(W, X, 0.1 * i) for i in range(1, 6)]
    before = counters["programs"]
    for i, g in enumerate(found, 1):
        np.testing.assert_array_equal(g, grad(loss)(W, X, 0.1 * i))
    assert counters["programs"] == before


def test_values_are_not_remembered():
    for scale in (1.0, -2.0, 0.0, np.nan):
        x = X * scale
        found = grad(loss)(W, x)
        structural_free = funcad.jit(grad(loss))(W, x)
        np.testing.assert_allclose(found, structural_free, rtol=1e-12, atol=1e-14, equal_nan=True)


def test_control_flow_on_values():
    f = lambda x: x * x * 3.0 if x > 0 else np.sin(x) * x
    for x in (1.0, -1.0, 2.0, -2.0, 3.0, -3.0):
        expected = 6 * x if x > 0 else np.cos(x) * x + np.sin(x)
        assert grad(f)(x) == pytest.approx(expected)


@pytest.mark.parametrize(
    "one, other",
    [
        (lambda x: np.sum(x, axis=0) @ x[0], lambda x: np.sum(x, axis=1) @ x[0]),  # parameters
        (lambda x: np.sum(x * x[0]), lambda x: np.sum(x[0] * x)),  # wiring
        (lambda x: np.sum(np.sin(x) * 2.0), lambda x: np.sum(np.sin(x) * np.float32(2.0))),  # types of literals
        (lambda x: np.sum(x**2 * x), lambda x: np.sum(x**3 * x)),  # exponents
        (lambda x: np.sum(clamp(x, 0.0, 1.0) * x), lambda x: np.sum(clamp(x, 0.0, 1.0, boundary_grad=1.0) * x)),
    ],
)
def test_different_programs_do_not_meet(one, other):
    x = np.array([[0.0, 1.0], [0.5, 2.0]])
    expected = [grad(one)(x), grad(other)(x)]
    for _ in range(3):
        for f, g in zip((one, other), expected):
            np.testing.assert_array_equal(grad(f)(x), g)


def test_shapes_and_dtypes_are_told_apart():
    f = lambda x: np.sum(np.exp(x) * x)
    for x in (np.ones(3), np.ones(4), np.ones(3, np.float32), np.ones((3, 1)), np.float64(1.0), 1.0, np.ones(3)):
        for _ in range(3):
            g = grad(f)(x)
            assert np.shape(g) == np.shape(x) and np.result_type(g) == np.result_type(x)
            np.testing.assert_allclose(g, 2 * np.e * np.ones(np.shape(x)), rtol=1e-6)


def test_vjp_with_missing_and_several_cotangents():
    def f(x, y):
        return np.sin(x) * y, np.cos(y) + 0.0 * x, x

    for _ in range(3):
        _, pull = vjp(f, 1.0, 2.0)
        np.testing.assert_allclose(pull((1.0, 1.0, 2.0)), (2 * np.cos(1.0) + 2.0, np.sin(1.0) - np.sin(2.0)))
        np.testing.assert_allclose(pull((1.0, 0.0, 0.0)), (2 * np.cos(1.0), np.sin(1.0)))


def test_nested_transformations_and_batches_are_not_confused():
    f = lambda x: np.sum(np.sin(x) * x)
    x = np.arange(3.0)
    for _ in range(3):
        np.testing.assert_allclose(jvp(grad(f), (x,), (np.ones(3),))[1], 2 * np.cos(x) - x * np.sin(x))
        np.testing.assert_allclose(grad(lambda x: np.sum(grad(f)(x)))(x), 2 * np.cos(x) - x * np.sin(x))
        np.testing.assert_allclose(vmap(grad(f))(np.stack([x, x])), np.stack([np.cos(x) * x + np.sin(x)] * 2))


def test_rules_of_users_run_every_time():
    calls = []

    @funcad.custom_vjp
    def f(x):
        return x * 2.0

    def backward(residuals, ct):
        calls.append(1)
        return (ct * len(calls),)

    f.defvjp(lambda x: (f(x), None), backward)
    assert [float(grad(lambda x: f(x) * 3.0)(1.0)) for _ in range(4)] == [3.0, 6.0, 9.0, 12.0]


def test_the_table_of_kinds_is_bounded():
    for n in range(1, 5000):
        grad(lambda x: np.sum(x * x))(np.ones(n))
    assert len(kinds) <= kinds.bound
    funcad.clear_caches()
    assert not kinds


def test_errors_leave_the_table_usable():
    def f(x):
        if x > 1:
            raise KeyError("mine")
        return np.sin(x) * x

    for _ in range(3):
        with pytest.raises(KeyError, match="mine"):
            grad(f)(2.0)
        assert grad(f)(1.0) == pytest.approx(np.sin(1.0) + np.cos(1.0))


def test_threads_share_it():
    expected = value_and_grad(loss)(W, X)
    wrong = []

    def work():
        for i in range(50):
            value, g = value_and_grad(loss)(W, X)
            value2, _ = value_and_grad(lambda w, i=i: np.sum(w * w * (i % 5 + 1.0)))(W)
            same = np.allclose(value, expected[0], rtol=1e-12) and np.allclose(g, expected[1], rtol=1e-12)
            if not same or not np.isfinite(value2):  # after many runs an engine rounds as it does
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_threads_fill_a_full_table_and_empty_it(monkeypatch):
    monkeypatch.setattr(kinds, "bound", 3)
    wrong = []

    def work(n):
        for i in range(60):
            size = (i * n) % 7 + 1
            if not np.array_equal(grad(lambda x: np.sum(x * x * 2.0))(np.ones(size)), np.full(size, 4.0)):
                wrong.append(size)
            if i % 20 == n:
                kinds.clear()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and len(kinds) <= 3


@pytest.mark.parametrize("first", ["grad(grad(f))(0.0)", "hessian(f)(0.0)", "jvp(grad(f), (0.0,), (1.0,))"])
@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_a_value_that_is_the_object_of_a_constant_is_not_that_constant(name, first):
    """In code that was compiled together, 0.0 is one object: a rule that looks whether operands are one sees the operands."""
    code = (
        "import warnings; warnings.simplefilter('ignore')\nimport numpy as np\nfrom funcad import grad, hessian, jvp\n"
        f"f = lambda x: np.{name}(x, 0.0)\n{first}\nprint(*[float(grad(f)(x)) for x in (-1.0, 0.0, 1.0)])"
    )
    assert in_a_process(code) == ("0.0 0.5 1.0" if name == "maximum" else "1.0 0.5 0.0")


@pytest.mark.parametrize("joined", [np.concatenate, np.stack])
def test_constants_of_a_rule_are_kept_by_the_kind(joined: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a rule makes of shapes alone, here zeros in the place of operands without a tangent, is not kept by each row."""
    module = sys.modules["funcad.api.grad"]
    others, kept = [np.ones(3)] * 5, []

    def noted(tape: Any, cotangents: Any, **options: Any) -> Any:
        kept.extend([x for row in tape.kept for x in row if type(x) is np.ndarray])
        return pull(tape, cotangents, **options)

    pull = module.pull
    monkeypatch.setattr(module, "pull", noted)
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_array_equal(grad(lambda x: np.sum(joined([*others, x, *others])))(x), np.ones(3))
    assert kept == []


def test_the_second_derivative_of_an_operation_with_one_operand_twice():
    """Of `k[i, i]` the pull keeps both indices, which are one; the tangent program knows the operand once."""

    def f(x: Any) -> Any:
        k = np.array(np.ones((2, 2)) + np.eye(2))
        k[np.diag_indices(2)] += x[0]
        k[0, 1] = x[1]
        return np.linalg.det(k)

    np.testing.assert_allclose(hessian(f)(np.array([3.0, 1.0])), [[2.0, 0.0], [0.0, 0.0]], atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2)])
@pytest.mark.parametrize("shift", [1, -1])
def test_a_parameter_that_is_of_the_kind_tells_kinds_apart(axis, shift):
    """The shift of a roll is of no kind, its axis is; the shape of a broadcast is not, its axes are."""
    x = np.cos(np.arange(24.0)).reshape(2, 3, 4)
    f = lambda x: np.sum(np.roll(x, shift, axis) * x[::-1])
    g = lambda x: np.sum(x.mean(axis, keepdims=True) * x) + np.sum(np.expand_dims(x.sum(axis), axis) * x**2)
    for h in (f, g):
        direction = np.sin(x)
        along = (h(x + 1e-6 * direction) - h(x - 1e-6 * direction)) / 2e-6
        np.testing.assert_allclose(np.sum(grad(h)(x) * direction), along, rtol=1e-7)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(x[np.arange(2), [0, 1]] ** 2),
        lambda x: np.sum(x[[2, 0, 0]] ** 2),
        lambda x: np.sum(scipy.special.gammaln(x * x + 1.0)),
        lambda x: np.sum(np.real(x) ** 2 * x),
        lambda x: np.sum(np.linalg.inv(x[:3, :3] + 3.0 * np.eye(3))),
    ],
    ids=["by arrays", "by a list", "gammaln", "real", "inv"],
)
def test_a_kind_serves_all_sizes(f):
    """Also of what is linear in one operand, and of functions of one operand that have no formula."""
    first, *others = [np.cos(np.arange(float(n * m))).reshape(n, m) for n, m in ((3, 4), (5, 3), (4, 6))]
    grad(f)(first)
    before = len(kinds)
    found = [grad(f)(x) for x in others]
    assert len(kinds) == before
    for x, g in zip(others, found):
        np.testing.assert_allclose(g, funcad.jit(grad(f))(x), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(hessian(f)(x), funcad.jit(hessian(f))(x), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 4), (5, 3)])
def test_reads_of_all_sizes_for_many_cotangents(shape):
    x = np.cos(np.arange(float(np.prod(shape)))).reshape(shape)
    places = np.array([1, 0, 1]), np.array([0, 2, 0])
    expected = np.zeros((3, *shape))
    expected[(np.arange(3), *places)] = 2.0
    np.testing.assert_array_equal(jacrev(lambda x: 2.0 * x[places])(x), expected)
    _, pull = vjp(lambda x: 2.0 * x[places], x)
    np.testing.assert_array_equal(vmap(pull)(np.eye(3))[0], expected)
    twice = lambda x: np.sum(grad(lambda x: np.sum(x[places] ** 3))(x))
    np.testing.assert_allclose(grad(twice)(x), funcad.jit(grad(twice))(x), rtol=1e-12)


SIZES = {  # what a kind of which no size is known serves
    "np.outer(x, x)": lambda x: np.outer(x, x),
    "np.inner(a, a)": lambda x: (lambda a: np.inner(a, a))(np.stack([x, 2.0 * x])),
    "np.tensordot(a, a, (0, 0))": lambda x: (lambda a: np.tensordot(a, a, (0, 0)))(np.stack([x, 2.0 * x])),
    "np.einsum('ij,ij->j', a, a)": lambda x: (lambda a: np.einsum("ij,ij->j", a, a))(np.stack([x, 2.0 * x])),
    "np.stack([a, a], axis=2)": lambda x: (lambda a: np.stack([a, a], axis=2))(np.stack([x, 2.0 * x])),
    "np.repeat(x, 3)": lambda x: np.repeat(x, 3),
    "np.tile(x, 2)": lambda x: np.tile(x, 2),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_new_size_derives_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    f = SIZES[name]
    times: list[Any] = []
    found = kinds_module._ahead
    kinds.clear()  # what a test that had no tables has left
    monkeypatch.setattr(kinds_module, "_ahead", lambda *args: [times.append(args), found(*args)][1])
    for n in (41, 43, 47, 53):  # which no other test has had so often that the call is remembered
        x = np.linspace(1.0, 2.0, n)
        g = grad(lambda x, weights: np.sum(f(x) * weights))
        weights = np.cos(np.arange(f(x).size)).reshape(f(x).shape)
        np.testing.assert_allclose(g(x, weights), jit(g)(x, weights), rtol=1e-12)
        if n == 41:
            times.clear()
    assert not times


@pytest.mark.parametrize("f", [np.isnan, np.argsort, np.floor, np.argmax, lambda x: np.equal(x, 1.0)])
def test_what_has_no_tangent_records_none(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    init = tape_module.ByRule.__init__
    monkeypatch.setattr(tape_module.ByRule, "__init__", lambda *args: [made.append(1), init(*args)][1])
    np.testing.assert_array_equal(grad(lambda x: np.sum(x * (0.0 * np.sum(f(x)) + 2.0)))(np.array([3.0, 1.0])), [2.0, 2.0])
    assert not made


@pytest.mark.parametrize("f", [lambda x: np.maximum(x, 0.5), lambda x: np.clip(x, 0.2, 0.8), lambda x: np.fmin(x, 0.5)])
def test_masks_of_known_values_are_not_recorded(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a gradient within a gradient, which is about a mask no more than the plain one; ties and NaN are halved as always."""
    twice = lambda x: grad(lambda x: np.sum(grad(lambda x: np.sum(f(x) ** 3))(x)))(x)
    x = np.array([0.1, 0.5, 0.8, 0.2, np.nan, 0.9])
    first = twice(x)
    recorded: list[str] = []
    record = Tape.record
    monkeypatch.setattr(Tape, "record", lambda self, *args: recorded.append(args[0].name) or record(self, *args))
    np.testing.assert_array_equal(twice(x), first)
    np.testing.assert_array_equal(first, funcad.jit(twice)(x))
    y = np.array([0.1, 0.3, 0.7, 0.25, -1.0, 0.9])
    np.testing.assert_allclose(twice(y), funcad.jit(twice)(y), rtol=1e-14)
    assert {"gt", "lt", "eq", "ne", "or", "and", "maximum", "minimum"}.isdisjoint(recorded)
