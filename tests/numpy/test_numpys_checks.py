"""What NumPy refuses is refused with traced values, too: with an error of the same type, where a number came back before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from funcad.errors import WriteError

X = np.array([1.0, 2.0, 3.0])


def third(f: Callable[..., Any], x: np.ndarray) -> Any:
    again = jit(f)
    for _ in range(2):
        with pytest.raises((ValueError, TypeError, ZeroDivisionError)):
            again(x)
    return again(x)


WAYS: dict[str, Callable[..., Any]] = {
    "plain": lambda f, x: f(x),
    "grad": lambda f, x: grad(lambda x: np.sum(f(x)))(x),
    "jvp": lambda f, x: jvp(f, (x,), (x,)),
    "vmap": lambda f, x: vmap(f)(np.stack([x, x])),
    "jit": lambda f, x: jit(f)(x),
    "third call of jit": third,
}

REFUSED: dict[str, Callable[[Any], Any]] = {
    "average": lambda x: np.average(x, weights=[1, -1, 0]),
    "average of rows": lambda x: np.average(np.outer(x, x), axis=1, weights=[1, -1, 0]),
    "negative fweights": lambda x: np.cov(x, fweights=[-1, 2, 3]),
    "broken fweights": lambda x: np.cov(x, fweights=[1.5, 2, 3]),
    "negative aweights": lambda x: np.cov(x, aweights=[-1.0, 2, 3]),
    "broken ddof": lambda x: np.cov(x, ddof=1.5),
    "digitize": lambda x: np.digitize(x, [1, 0, 2]),
    "isin by table": lambda x: np.isin(x, [1.0], kind="table"),
    "isin by nothing": lambda x: np.isin(x, [1.0], kind="none"),  # type: ignore[call-overload]
    "sort": lambda x: np.sort(x, kind="quicksort", stable=True),
    "sort of no kind": lambda x: np.sort(x, kind="none"),  # type: ignore[call-overload]
    "argsort": lambda x: np.argsort(x, kind="quicksort", stable=True),
    "sort in place": lambda x: (x + 0).sort(kind="quicksort", stable=True),
    "partition": lambda x: np.partition(x, 1, kind="none"),  # type: ignore[call-overload]
    "argpartition": lambda x: np.argpartition(x, 1, kind="none"),  # type: ignore[call-overload]
    "lexsort": lambda x: np.lexsort(([1, 2], x)),
    "multi_dot": lambda x: np.linalg.multi_dot([np.outer(x, x)] * 3, out=np.zeros((3, 3), "f4")),
    "vectorize": lambda x: np.vectorize(lambda t: t * (1 + 1j), otypes=["f4"])(x),
    "linspace": lambda x: np.linspace(x[0] * (1 + 1j), 5, 4, dtype=int),
    "clip": lambda x: np.clip(x, 0, 1, min=3),  # type: ignore[call-overload]
    "choose": lambda x: np.choose([0, 0], [x[:2], x[:2]], mode="none"),  # type: ignore[call-overload]
    "bincount": lambda x: np.bincount([1, 2, 3], weights=x, minlength=-1),
    "round": lambda x: np.round(x, 1.5),  # type: ignore[call-overload]
    "block": lambda x: np.block([[x], x]),
    "var": lambda x: np.var(x, ddof=1, correction=1),
    "nanstd": lambda x: np.nanstd(x, ddof=1, correction=1),
    "ediff1d": lambda x: np.ediff1d(x, to_end=1j),
    "broadcast_to": lambda x: np.broadcast_to(x[0], (-1,)),
    "full": lambda x: np.full((-1,), x[0]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REFUSED)
def test_numpys_checks_are_made(name: str, way: str) -> None:
    with pytest.raises((ValueError, TypeError, ZeroDivisionError)) as plain:
        REFUSED[name](X)
    with pytest.raises(plain.type):
        WAYS[way](REFUSED[name], X)


def test_weights_that_are_traced_are_checked_where_they_have_values() -> None:
    with pytest.raises(ZeroDivisionError):
        grad(lambda w: np.average(X, weights=w))(np.array([1.0, -1.0, 0.0]))
    with pytest.raises(ValueError, match="aweights cannot be negative"):
        grad(lambda w: np.cov(X, aweights=w))(-X)
    covariance = jit(lambda w: np.cov(X, aweights=w))
    for _ in range(3):
        np.testing.assert_allclose(covariance(X), np.cov(X, aweights=X))


@pytest.mark.parametrize("way", ["jvp", "vmap"])
def test_linspace_of_integers_goes_down(way: str) -> None:
    found = WAYS[way](lambda x: np.linspace(-2.5 * x[0], x[0], 4, dtype=int), X)
    np.testing.assert_array_equal(found[0], [-3, -2, -1, 1])


def test_vectorize_has_the_dtype_of_the_first_result() -> None:
    f = jit(lambda x: np.vectorize(lambda t: t if t > 1 else 2)(x))
    g = jit(lambda x: np.vectorize(lambda t: 1 if t > 1 else 2, otypes="d")(x))
    for _ in range(3):
        assert f(X + 0.25).dtype == float and f(X).dtype == int and g(X).dtype == float


UNCOPIED: dict[str, Callable[[Any], Any]] = {
    "np.reshape": lambda x: np.reshape(x.T, 6, copy=False),
    "reshape": lambda x: x.T.reshape(6, copy=False),
    "reshape to a shape in two": lambda x: x.T.reshape(3, 2, copy=False),
    "in Fortran's order": lambda x: x.reshape((2, 3), order="F", copy=False),
    "of a broadcast": lambda x: np.reshape(np.broadcast_to(x[0], (3, 2)), 6, copy=False),
    "of a computed one": lambda x: (2 * x).T.reshape(6, copy=False),
    "array in an order": lambda x: np.array(x.T, order="C", copy=False),
    "array of a dtype": lambda x: np.asarray(x, dtype="f4", copy=False),
    "array of a list": lambda x: np.array([x[0], x[1]], copy=False),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", UNCOPIED)
def test_what_would_be_copied_is_refused(name: str, way: str) -> None:
    with pytest.raises(ValueError, match="Unable to avoid"):
        WAYS[way](UNCOPIED[name], X[:, None] * X[:2])


@pytest.mark.parametrize("copy", [True, False, None])
@pytest.mark.parametrize("trace", [grad, lambda f: jit(grad(f))])
def test_reshape_that_shares_takes_writes(copy: bool | None, trace: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        y = x * 1.0
        y[::2].reshape((2, 1), copy=copy)[0] = 7.0
        return y.sum() + np.array(y.reshape(2, 2).T, order="F", copy=False).sum()

    g = trace(f)
    for _ in range(3):
        np.testing.assert_array_equal(g(np.arange(4.0)), [2.0 if copy else 0.0, 2.0, 2.0, 2.0])


@pytest.mark.parametrize("order", ["C", "F", "A"])
@pytest.mark.parametrize("part", [slice(1, None), slice(None, None, 2)])
def test_astype_without_a_copy_shares_where_numpys_does(part: slice, order: Any) -> None:
    def f(x: Any) -> Any:
        y = np.sort(x)
        y[part].astype(float, order=order, copy=False)[0] = 7.0
        return y

    x = np.arange(4.0)
    np.testing.assert_array_equal(jvp(f, (x,), (x,))[0], f(x))
    if part.step == 2:
        np.testing.assert_array_equal(vmap(f)(x[None])[0], f(x))
    else:  # it was a copy, always
        with pytest.raises(WriteError, match="astype"):
            vmap(f)(x[None])


@pytest.mark.parametrize("way", ["jvp", "vmap"])
@pytest.mark.parametrize("gap", [0.0, np.nan])
def test_nanmedian_of_complex_numbers(gap: float, way: str) -> None:
    z = np.array([1 + 2j, gap, 3 - 1j, 3 + 1j, 2.0])
    f = lambda x: np.nanmedian(x[:, None] * z, axis=1)
    np.testing.assert_allclose(WAYS[way](f, X)[0], f(X))


@pytest.mark.parametrize("way", ["jvp", "vmap", "third call of jit"])
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.concatenate([x, np.outer(x, x)]),
        lambda x: np.hstack([x, np.outer(x, x)]),
        lambda x: np.append(np.outer(x, x), x, axis=0),
        lambda x: np.concatenate([np.outer(x, x), np.outer(x, x)[:2]], axis=1),
        lambda x: np.concatenate([np.outer(x, x), x], axis=1),
    ],
)
def test_joins_tell_what_numpys_tell(f: Callable[[Any], Any], way: str) -> None:
    with pytest.raises(ValueError, match="array at index 0") as plain:
        f(X)
    with pytest.raises(ValueError, match=f"^{re.escape(str(plain.value))}"):
        WAYS[way](f, X)


@pytest.mark.parametrize("way", ["jvp", "vmap"])
@pytest.mark.parametrize(
    "text, said", [("i,i->j", "output subscript 'j'"), ("ij,j->i", "operand 0, of shape"), ("i,i->ii", "'i'")]
)
def test_einsum_names_the_operand_and_the_subscript(text: str, said: str, way: str) -> None:
    with pytest.raises(ValueError, match=said):
        WAYS[way](lambda x: np.einsum(text, x, x), X)
