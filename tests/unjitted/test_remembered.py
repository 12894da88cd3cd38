"""What a function wrote on a tape is written again for operands of the same kinds: with other values, options and operands."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.special

import funcad
import funcad.numpy as fnp
from funcad.numpy import joining
from funcad.unjitted import remembered, written_again
from funcad.unjitted.kinds import compiled
from funcad.unjitted.tape import Tape

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 1.5, (4, 3))
OTHER = RNG.uniform(0.5, 1.5, (4, 3))
MASK = RNG.uniform(size=(4, 3)) < 0.5
SQUARE = np.eye(3) + 0.1


@pytest.fixture(autouse=True)
def after_few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_SIGHTS", 3)


FUNCTIONS = {
    "reshape": lambda x: np.reshape(x, (3, 4)) * np.arange(12.0).reshape(3, 4),
    "transpose": lambda x: x.T * np.arange(12.0).reshape(3, 4),
    "squeeze": lambda x: np.squeeze(x[:, None]) * OTHER,
    "flip": lambda x: np.flip(x, axis=1) * OTHER,
    "diag": lambda x: np.diag(x[:3]) * OTHER[0],
    "diff": lambda x: np.diff(x, axis=0) ** 2,
    "cumsum": lambda x: np.cumsum(x, axis=1) ** 2,
    "prod": lambda x: np.prod(x, axis=0),
    "sort": lambda x: np.sort(x, axis=0) * OTHER,
    "where": lambda x: np.where(MASK, x, 0.5) ** 2,
    "where broadcast": lambda x: np.where(MASK[:, :1], x, x[0]) ** 2,
    "maximum": lambda x: np.maximum(x, 0.9) ** 2,
    "logaddexp": lambda x: np.logaddexp(x, OTHER[0]),
    "hypot": lambda x: np.hypot(x, 2.0),
    "fmax": lambda x: np.fmax(x, OTHER) ** 2,
    "concatenate": lambda x: np.concatenate([x, OTHER, x]) ** 2,
    "stack": lambda x: np.stack([x, OTHER], axis=1) ** 2,
    "stack of numbers": lambda x: np.stack([x[0, 0], x[1, 1], 2.0]) ** 2,
    "stack of a norm and a number": lambda x: np.stack([np.linalg.norm(x), 2.0]) ** 2,
    "array of a list": lambda x: funcad.numpy.array([x[0, 0], x[1, 1], 2]) ** 2,
    "array of lists": lambda x: funcad.numpy.array([[x[0, 0], 1.0], [2.0, x[1, 1]]]) ** 2,
    "solve with outside vector": lambda x: np.linalg.solve(x[:3] + 3 * np.eye(3), OTHER[0]) ** 2,
    "outer with an array": lambda x: np.outer(x[0], OTHER[0]) ** 2,
    "append": lambda x: np.append(x, OTHER) ** 2,
    "integers": lambda x: np.maximum(x, np.arange(3)) * np.hypot(x, np.arange(3)),
    "stop_gradient": lambda x: np.hypot(x, funcad.stop_gradient(x)) + np.where(x > 1, x, 0.0) + np.where(x[0, 0] < 1, x, 1.0),
    "hstack": lambda x: np.hstack([x, x * 2]) ** 2,
    "einsum": lambda x: np.einsum("ij,ij->i", x, OTHER) ** 2,
    "einsum of one": lambda x: np.einsum("ij->j", x) ** 2,
    "outer": lambda x: np.outer(x[0], x[1]) ** 2,
    "tensordot": lambda x: np.tensordot(x, OTHER, ((1,), (1,))) ** 2,
    "inner": lambda x: np.inner(x, OTHER) ** 2,
    "solve": lambda x: np.linalg.solve(SQUARE, x[0]) ** 2,
    "inv": lambda x: np.linalg.inv(x[:3] + 3 * np.eye(3)),
    "det": lambda x: np.linalg.det(x[:3] + 3 * np.eye(3)),
    "norm": lambda x: np.linalg.norm(x, axis=1),
    "norm 3": lambda x: np.linalg.norm(x, 3.0, axis=1),
    "var": lambda x: np.var(x, axis=0),
    "var of all": lambda x: np.var(x, ddof=1, keepdims=True) ** 2,
    "std": lambda x: np.std(x, axis=(0, 1)),
    "std ** 2": lambda x: np.std(x) ** 2,
    "gammaln": lambda x: scipy.special.gammaln(x),
    "expit": lambda x: scipy.special.expit(x),
    "logsumexp": lambda x: funcad.scipy.special.logsumexp(x, axis=1),
    "logsumexp with weights": lambda x: funcad.scipy.special.logsumexp(x, 1, OTHER),
    "logsumexp of a row": lambda x: funcad.scipy.special.logsumexp(x[0] * 200, 0, OTHER[0]),
    "log_softmax": lambda x: funcad.scipy.special.log_softmax(x[0]) ** 2,
    "x[mask]": lambda x: x[MASK] ** 2,
    "x[mask of rows]": lambda x: x[MASK[:, 0]] ** 2,
    "x[list]": lambda x: x[[0, -1, 0]] ** 2,
    "x[i, j]": lambda x: x[np.array([0, 3]), np.array([-1, 1])] ** 2,
    "x[x > 1]": lambda x: np.where(x > 1, x, 0.0) + np.sum(x[x > 1]),
    "inf norm": lambda x: np.linalg.norm(x, np.inf),
    "nuclear": lambda x: np.linalg.norm(x[:3], "fro"),
    "kron": lambda x: np.kron(x[:2], OTHER[:1]) ** 2,
    "trapezoid": lambda x: np.trapezoid(x, OTHER, axis=0) ** 2,
    "pad": lambda x: np.pad(x, 1, mode="maximum") ** 2,
    "triangles": lambda x: np.tril(x) ** 2 + np.triu(x, 1) ** 3,
    "ptp": lambda x: np.ptp(x, axis=0),
    "cross": lambda x: np.cross(x, OTHER) ** 2,
    "softmax": lambda x: funcad.scipy.special.softmax(x, axis=1) ** 2,
    "x ** 1.5": lambda x: x**1.5,
    "x ** -2": lambda x: x**-2,
    "x ** 3.0": lambda x: x**3.0,
    "array ** s": lambda x: OTHER ** x[0, 0],
    "array / s": lambda x: OTHER / x[0, 0],
    "1.5 ** x": lambda x: 1.5**x,
    "x ** x": lambda x: x**x,
    "np.power": lambda x: np.power(OTHER, x) + np.power(x, 2.0) + np.power(x, 1.5),
    "2 * x": lambda x: 2 * x - 3 + x / 2,
    "abs": lambda x: abs(x - 1) + np.abs(x - 1.1),
    "indices": lambda x: x[1, 2] * x[-1] + x[:, 1:][0, 0] * x[None, 0, ::-1] + x[..., 0, None][0],
    "x[array]": lambda x: x[np.array([0, 2, 2])] ** 2,
    "clip": lambda x: np.clip(x, 0.7, 1.2) ** 2,
    "mean over axes": lambda x: np.mean(x, axis=(0, 1)) ** 2,
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 4, 3)) * 2.0,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_later_calls(name: str, dtype: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sin(FUNCTIONS[name](x)))

    for k in range(5):
        x = np.random.default_rng(k).uniform(0.5, 1.5, X.shape).astype(dtype)
        value, found = funcad.value_and_grad(f)(x)
        plain = f(x)
        tolerance = 1e-10 if dtype == np.float64 else 1e-3
        assert type(value) is type(plain) and found.dtype == dtype
        np.testing.assert_allclose(value, plain, rtol=tolerance)
        expected = funcad.jacfwd(f)(x)  # which has no tape
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_options_are_told_apart() -> None:
    """1, 1.0 and True; 0.0 and -0.0; orders of a norm; exponents: by value, or NumPy's error as at the first call."""
    x = X[0]
    for ord in (3.0, 2.5, np.inf, 3.0):
        norm = partial(np.linalg.norm, ord=ord), partial(lambda ord, x: np.linalg.norm(x, ord), ord)
        for f in norm:
            np.testing.assert_allclose(funcad.grad(f)(x), funcad.jit(funcad.grad(f))(x))
    for n in (2, 2.0, 3.0, 1.5, 2):
        np.testing.assert_allclose(funcad.grad(partial(lambda n, x: np.sum(np.power(x, n)), n))(x), n * x ** (n - 1))
    for axis in (0, 1, 0):
        found = funcad.grad(partial(lambda axis, x: np.sum(np.cumsum(x, axis=axis) * OTHER), axis))(X)
        np.testing.assert_allclose(found, np.flip(np.cumsum(np.flip(OTHER, axis), axis=axis), axis))
    square = X[:3]
    for axis in (0, 1) * 5:  # behind a list
        f = partial(
            lambda axis, x: np.sum(np.concatenate([x, 2 * x], axis)[1] ** 2) + np.sum(np.stack([x, x**2], axis)[0]), axis
        )
        np.testing.assert_allclose(funcad.grad(f)(square), funcad.jit(funcad.grad(f))(square))
    assert funcad.grad(lambda x: np.sum(np.reshape(x, (1, 3)) ** 2))(x).shape == (3,)
    with pytest.raises(TypeError):
        funcad.grad(lambda x: np.sum(np.reshape(x, (1.0, 3.0)) ** 2))(x)
    for index, expected in ((1, [1]), (True, [0, 1, 2]), (1, [1])):
        assert funcad.grad(partial(lambda i, x: np.sum(x[i] ** 2), index))(x).nonzero()[0].tolist() == expected


def test_plain_numbers_are_read_at_each_call() -> None:
    for c in (0.5, 1.0, 7.0, np.float64(0.9), 2, np.nan):
        f = partial(lambda c, x: np.sum(np.where(MASK, x, c) * np.maximum(x, c) * np.hypot(x, c)), c)
        np.testing.assert_allclose(funcad.grad(f)(X), funcad.jit(funcad.grad(f))(X))


def test_arrays_are_read_at_each_call() -> None:
    weights = OTHER.copy()

    def f(x: Any) -> Any:
        first = np.sum(np.einsum("ij,ij->i", x, weights))
        weights[:] *= 2
        return first + np.sum(np.einsum("ij,ij->i", x, weights))

    for k in range(6):
        weights[:] = OTHER + k
        np.testing.assert_allclose(funcad.grad(f)(X), 3 * (OTHER + k))


def test_what_is_made_of_arrays_is_made_at_each_call() -> None:
    """A vector from outside is reshaped for `solve`, and outer's for its product: with the contents of the moment."""
    b = OTHER[0].copy()
    a = X[:3] + 3 * np.eye(3)

    def f(a: Any) -> Any:
        y = np.sum(np.linalg.solve(a, b))
        b[:] *= 2
        return y + np.sum(np.outer(a[0], b)) + np.sum(np.linalg.solve(a, b))

    for k in range(6):
        b[:] = OTHER[0] + k
        inverse = np.linalg.inv(a)
        expected = -3 * np.outer(inverse.T @ np.ones(3), inverse @ b)
        expected[0] += 2 * b.sum()
        np.testing.assert_allclose(funcad.grad(f)(a), expected)


def test_comparisons_are_of_the_values() -> None:
    def f(x: Any) -> Any:
        seen.append([x > 1, 1 > x, x <= OTHER, x == x, x[0, 0] != 0.5, x[0, 0] >= 1.0, float(1) > x[0, 0]])
        return np.sum(x)

    seen: list[Any] = []
    funcad.grad(f)(X)
    x = X
    expected = [x > 1, 1 > x, x <= OTHER, x == x, x[0, 0] != 0.5, x[0, 0] >= 1.0, float(1) > x[0, 0]]
    for a, b in zip(seen[0], expected):
        assert type(a) is type(b)
        np.testing.assert_array_equal(a, b)
    seen.clear()
    funcad.grad(lambda x: seen.append([x > 1, 1 == x, x < 2]) or x)(1.5)
    assert seen == [[True, False, True]] and {type(v) for v in seen[0]} == {bool}
    with pytest.raises(TypeError):
        funcad.grad(lambda x: pow(x, 2, 3))(2.0)


def test_one_operand_twice() -> None:
    """A rule looks whether two operands are one."""
    for _ in range(6):
        np.testing.assert_allclose(funcad.grad(lambda x: np.sum(np.maximum(x, x)))(X), np.ones_like(X))
        np.testing.assert_allclose(funcad.grad(lambda x: np.sum(np.maximum(x, x * 0.5)))(X), np.ones_like(X))
        np.testing.assert_allclose(funcad.grad(lambda x: np.sum(np.multiply(x, x)))(X), 2 * X)


def test_memory_order_is_asked_at_each_call() -> None:
    for order in ("C", "F") * 5:
        x = np.asarray(X, order=order)
        found = funcad.grad(lambda x: np.sum(np.ravel(x, order="K") * np.arange(12.0)))(x)
        expected = np.arange(12.0).reshape((4, 3) if order == "C" else (3, 4))
        np.testing.assert_array_equal(found, expected if order == "C" else expected.T)


def test_squares_know_what_they_are_made_of() -> None:
    """np.square of a norm is exact; of the same kinds of operands, where there was no norm before, it asks nobody."""
    zero = np.zeros(3)
    for _ in range(6):
        np.testing.assert_array_equal(funcad.grad(lambda x: np.square(np.sum(x)))(zero), zero)
        np.testing.assert_allclose(funcad.hessian(lambda x: np.square(np.linalg.norm(x)))(zero), 2 * np.eye(3))
        np.testing.assert_array_equal(funcad.grad(lambda x: np.square(np.linalg.norm(x)))(zero), zero)
        np.testing.assert_array_equal(funcad.grad(lambda x: np.std(x) ** 2)(zero), zero)
        np.testing.assert_array_equal(funcad.grad(lambda x: np.std(x))(zero), zero)


def test_warnings_at_the_line() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.reciprocal(x)) + np.sum(np.var(x))

    for _ in range(6):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            funcad.grad(f)(np.array([0.0, 1.0]))
        texts = [str(w.message) for w in caught]
        assert texts[0] == "divide by zero encountered in reciprocal"
        assert {w.filename for w in caught} == {__file__}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            funcad.grad(lambda x: np.var(x))(np.array([np.inf, 1.0]))
        with warnings.catch_warnings(record=True) as plain:
            warnings.simplefilter("always")
            np.var(np.array([np.inf, 1.0]))
        assert [str(w.message) for w in caught] == [str(w.message) for w in plain]
        with np.errstate(all="raise"), pytest.raises(FloatingPointError):
            funcad.grad(f)(np.array([0.0, 1.0]))


def test_errors_come_again() -> None:
    for _ in range(6):
        with pytest.raises(ValueError, match="cannot reshape"):
            funcad.grad(lambda x: np.sum(np.reshape(x, (5, 3))))(X)
        with pytest.raises(np.linalg.LinAlgError):
            funcad.grad(lambda x: np.sum(np.linalg.inv(x)))(np.zeros((2, 2)))
        with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size 4"):
            funcad.grad(lambda x: np.sum(x[4]))(X)
        assert np.isfinite(funcad.grad(lambda x: np.sum(np.linalg.inv(x)))(np.eye(2))).all()


def test_within_other_transformations() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.stack([np.cumsum(x), np.std(x) * x]) ** 2) + np.sum(np.where(x > 1, x, 0.5) ** 3)

    x = X[0]
    for _ in range(6):
        first = funcad.grad(f)(x)
        np.testing.assert_allclose(funcad.jit(funcad.grad(f))(x), first)
        np.testing.assert_allclose(funcad.grad(funcad.jit(f))(x), first)
        np.testing.assert_allclose(funcad.vmap(funcad.grad(f))(x[None])[0], first)
        np.testing.assert_allclose(funcad.jacfwd(f)(x), first)
        second = funcad.hessian(f)(x)
        np.testing.assert_allclose(funcad.jacrev(funcad.grad(f))(x), second)
        np.testing.assert_allclose(funcad.jacfwd(funcad.grad(f))(x), second)
        np.testing.assert_allclose(funcad.jvp(funcad.grad(f), (x,), (x,))[1], second @ x)
        np.testing.assert_allclose(funcad.grad(lambda x: funcad.grad(f)(x) @ x)(x), second @ x + first)


def test_more_rows_than_a_tape_has() -> None:
    def f(x: Any) -> Any:
        for _ in range(700):
            x = np.flip(np.diff(np.concatenate([x, x[:1]])), 0) * 0.5
        return np.sum(x)

    found = [funcad.grad(f)(X[0]) for _ in range(6)]
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered._memo, "bound", 8)
    remembered._memo.clear()
    for n in range(1, 30):
        np.testing.assert_array_equal(funcad.grad(lambda x: np.sum(np.cumsum(x)))(np.ones(n)), np.arange(n, 0, -1.0))
    assert len(remembered._memo) <= 8


def test_an_error_while_a_call_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tape is an ordinary one again."""
    seen = []

    def interrupted(*args: Any) -> Any:
        raise KeyboardInterrupt

    def f(x: Any) -> Any:
        for _ in range(remembered._SIGHTS):  # which are not watched
            np.cumsum(x, axis=0)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(written_again, "_call_of", interrupted)
            np.cumsum(x, axis=0)
        seen.append((type(x.owner.tape).__name__, x.owner.tape.notes))
        return np.sum(np.cumsum(x, axis=0))

    remembered._memo.clear()
    expected = np.repeat([[4.0], [3.0], [2.0], [1.0]], 3, axis=1)
    np.testing.assert_array_equal(funcad.grad(f)(X), expected)
    assert seen == [("Tape", None)]


def test_a_constant_that_is_the_first_argument() -> None:
    """One object is the value of x in the first call and a constant in the function: the next x is another object."""
    one = 1.0
    for _ in range(4):
        funcad.grad(lambda x: fnp.array([x, one])[0] * np.exp(x))(one)
    np.testing.assert_allclose(funcad.grad(lambda x: fnp.array([x, one]).sum() * np.exp(x))(0.0), 2.0)
    number = np.float64(3.0)
    f = funcad.grad(lambda x: fnp.array([x, number]).prod())
    assert [f(number) for _ in range(4)] == [3.0] * 4 and f(np.float64(5.0)) == 3.0
    array = np.array([1.0, 2.0])
    g = funcad.grad(lambda x: np.sum(np.stack([x, np.exp(array)]) * np.stack([array, x])))
    for _ in range(4):
        np.testing.assert_allclose(g(array), array + np.exp(array))
    np.testing.assert_allclose(g(array + 5.0), array + np.exp(array))


def test_the_lines_for_other_shapes_are_compiled_once() -> None:
    """What is written for a call names no shapes: arrays that grow do not compile anew."""

    def f(x: Any) -> Any:
        return np.sum(np.clip(x, 0.7, 1.2)) + np.sum(np.diff(x)) + np.sum(np.concatenate([x, x]))

    for n in (5, 6):
        funcad.grad(f)(np.linspace(0.5, 1.5, n))
    before = compiled.cache_info().misses
    for n in range(101, 106):
        funcad.grad(f)(np.linspace(0.5, 1.5, n))
    assert compiled.cache_info().misses == before


def test_a_number_beside_an_array_has_a_shape() -> None:
    """Rules ask for it: the number is NumPy's in a row that is written again, too."""
    x, y = np.array([[-1.3, 0.4, 2.1], [0.2, 0.3, -2.0]]), np.array([0.5, -3.0])
    for f in (lambda x, low, high: np.sum(x.clip(low, high)), lambda x, low, high: np.sum(np.clip(x, low, high) * y[0])):
        factor = f(np.ones(1), 0.0, 2.0)
        for _ in range(6):
            for g in (funcad.grad(f, argnums=(0, 1, 2)), lambda *a, f=f: funcad.vjp(f, *a)[1](1.0)):
                inside, low, high = g(x, -1.0, 1.0)
                np.testing.assert_array_equal(inside, np.array([[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]) * factor)
                assert (low, high) == (2.0 * factor, 1.0 * factor)


@pytest.mark.parametrize(
    "call", [lambda x: np.concatenate([x, x]), lambda x: fnp.concatenate([x, x]), lambda x: joining.concatenate([x, x])]
)
def test_the_line_is_the_users_whoever_calls(call: Any) -> None:
    """Through NumPy's function, or the one here: how many frames are ours differs."""
    lines = []

    def f(x: Any) -> Any:
        for _ in range(remembered._SIGHTS + 5):
            y = call(x)
            code, at, _ = y.source
            lines.append((code.co_name, [*code.co_positions()][at // 2][0]))
        return np.sum(y)

    funcad.grad(f)(np.ones(3))
    assert set(lines) == {("<lambda>", call.__code__.co_firstlineno)}


def test_other_answers_after_a_call_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row whose rule asked is written again by the answer that it had; a tie or a NaN is another one."""
    asked: list[Any] = []
    written = Tape.written
    monkeypatch.setattr(Tape, "written", lambda self, *args: asked.append(args[0].name) or written(self, *args))
    g = funcad.grad(lambda x: np.sum(np.clip(x, -1.0, 1.0)))
    for _ in range(6):
        np.testing.assert_array_equal(g(np.array([-2.0, 0.3, 2.0])), [0.0, 1.0, 0.0])
    asked.clear()
    np.testing.assert_array_equal(g(np.array([0.5, -3.0, 4.0])), [1.0, 0.0, 0.0])
    assert not asked
    np.testing.assert_array_equal(g(np.array([-1.0, np.nan, 1.0])), [0.5, np.nan, 0.5])
    assert asked == ["maximum", "minimum"]
    np.testing.assert_array_equal(g(np.array([0.5, -3.0, 1.0])), [1.0, 0.0, 0.5])
    for _ in range(6):  # the first calls have ties
        f = funcad.grad(lambda x: np.sum(np.fmax(x, 1.0)))
        np.testing.assert_array_equal(f(np.array([[1.0, 2.0]])), [[0.5, 1.0]])
    np.testing.assert_array_equal(f(np.array([[0.0, 2.0]])), [[0.0, 1.0]])
