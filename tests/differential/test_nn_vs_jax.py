"""funcad.nn beside jax.nn: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import grad, hvp, nn

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(4, 6)) * 3

PAIRS: list[tuple[Any, Any]] = [
    *[
        (getattr(nn, name), getattr(jax.nn, name))
        for name in (
            "relu relu6 leaky_relu elu selu celu gelu silu swish mish sigmoid hard_sigmoid hard_silu log_sigmoid tanh "
            "hard_swish sparse_plus sparse_sigmoid hard_tanh "
            "softplus squareplus soft_sign glu softmax log_softmax standardize identity"
        ).split()
    ],
    (lambda x: nn.gelu(x, approximate=False), lambda x: jax.nn.gelu(x, approximate=False)),
    (lambda x: nn.logsumexp(x, axis=0), lambda x: jax.nn.logsumexp(x, axis=0)),
    (lambda x: nn.softmax(x, axis=0), lambda x: jax.nn.softmax(x, axis=0)),
    (lambda x: nn.log1mexp(x * x), lambda x: jax.nn.log1mexp(x * x)),
]


@pytest.mark.parametrize("ours,theirs", PAIRS, ids=lambda f: getattr(f, "__name__", "f"))
def test_activation(ours: Any, theirs: Any) -> None:
    with jax.enable_x64(True):
        np.testing.assert_allclose(ours(X), theirs(jax.numpy.asarray(X)), rtol=1e-10, atol=1e-13)
        expected = jax.grad(lambda x: jax.numpy.sum(jax.numpy.sin(theirs(x))))(jax.numpy.asarray(X))
        found = grad(lambda x: fnp.sum(fnp.sin(ours(x))))(X)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)


CUBE = np.random.default_rng(2).normal(size=(3, 4, 5)) * 2
MASK = np.random.default_rng(3).random(CUBE.shape) > 0.3
MASK[0] = True  # something in every column
ROWS = np.random.default_rng(4).normal(size=(4, 5))


def compare(ours: Any, theirs: Any, *args: Any, tolerance: float = 1e-9) -> None:
    """Values, gradients and Hessian-vector products of the sine of all finite results."""
    argnums = tuple(range(len(args)))

    def total(f: Any, library: Any) -> Any:
        def of(*args: Any) -> Any:
            outs = jax.tree.leaves(f(*args))
            return sum(library.sum(library.sin(library.where(library.isfinite(o), o, 0.0))) for o in outs)

        return of

    with jax.enable_x64(True):
        given = tuple(map(jax.numpy.asarray, args))
        expected = jax.grad(total(theirs, jax.numpy), argnums)(*given)
        curved = jax.jvp(jax.grad(total(theirs, jax.numpy), argnums), given, given)[1]
        values = jax.tree.leaves(theirs(*given))
    for a, b in zip(jax.tree.leaves(ours(*args)), values):
        assert np.shape(a) == b.shape
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    for a, b in zip(grad(total(ours, fnp), argnums=argnums)(*args), expected):
        np.testing.assert_allclose(a, b, rtol=10 * tolerance, atol=10 * tolerance)
    found = hvp(total(ours, fnp), args, args)
    for a, b in zip(found if isinstance(found, tuple) else (found,), curved):
        np.testing.assert_allclose(a, b, rtol=100 * tolerance, atol=100 * tolerance)


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), (2, 0), None])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logmeanexp"])
def test_sums_of_exponentials(name: str, axis: Any) -> None:
    for where in (None, MASK):
        options = {"axis": axis, "where": where}
        compare(lambda x, o=options: getattr(nn, name)(x, **o), lambda x, o=options: getattr(jax.nn, name)(x, **o), CUBE)


@pytest.mark.parametrize("axis", [-1, 0, (0, 2), None])
def test_logsumexp_and_standardize(axis: Any) -> None:
    signed = {"axis": axis, "return_sign": True}
    compare(lambda x, b: nn.logsumexp(x, b=b, **signed), lambda x, b: jax.nn.logsumexp(x, b=b, **signed), CUBE, ROWS)
    some = {"axis": axis, "where": MASK, "keepdims": True}
    compare(lambda x: nn.logsumexp(x, **some), lambda x: jax.nn.logsumexp(x, **some), CUBE)
    stable = {"algorithm": "stable"}
    compare(lambda x: nn.standardize(x, axis, where=MASK), lambda x: jax.nn.standardize(x, axis, where=MASK, **stable), CUBE)
    compare(lambda x, m: nn.standardize(x, axis, m), lambda x, m: jax.nn.standardize(x, axis, m, **stable), CUBE, ROWS)
    variance = ROWS**2
    compare(lambda x, v: nn.standardize(x, axis, None, v), lambda x, v: jax.nn.standardize(x, axis, None, v), CUBE, variance)


LENGTHS = {"query_seq_lengths": np.array([3, 5], np.int32), "key_value_seq_lengths": np.array([7, 4], np.int32)}


@pytest.mark.parametrize(
    "options",
    [{}, {"is_causal": True}, {"local_window_size": 2}, {"is_causal": True, "local_window_size": (1, 3)}, LENGTHS],
    ids=lambda o: "-".join(o),
)
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention(options: dict, heads: int) -> None:
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(2, 7, heads, 3)), rng.normal(size=(2, 7, heads, 3))
    bias, mask = rng.normal(size=(2, 1, 5, 7)), rng.random((2, 4, 5, 7)) > 0.2
    compare(
        lambda *args: nn.dot_product_attention(*args, mask, scale=0.4, **options),
        lambda *args: jax.nn.dot_product_attention(*args, mask, scale=0.4, **options),
        *(q, k, v, bias),
        tolerance=3e-5,  # JAX takes the softmax in float32
    )


@pytest.mark.parametrize("strides,padding,dilation", [(1, "VALID", 1), ((2, 1), "SAME", (1, 2)), (2, ((1, 2), (0, 1)), 1)])
def test_conv(strides: Any, padding: Any, dilation: Any) -> None:
    rng = np.random.default_rng(1)
    pair = lambda v: (v, v) if isinstance(v, int) else v
    compare(
        lambda x, k: nn.conv(x, k, None, strides, padding, dilation=dilation, groups=2),
        lambda x, k: jax.lax.conv_general_dilated(
            *(x, k, pair(strides), padding), None, pair(dilation), ("NHWC", "HWIO", "NHWC"), feature_group_count=2
        ),
        *(rng.normal(size=(2, 7, 6, 4)), rng.normal(size=(3, 2, 2, 6))),
    )


def test_one_hot() -> None:
    x = np.array([[0, 2], [5, 1]])
    for axis in (-1, 0, 1):
        np.testing.assert_array_equal(nn.one_hot(x, 3, axis=axis), jax.nn.one_hot(x, 3, axis=axis))
