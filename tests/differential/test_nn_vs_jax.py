"""funcad.nn beside jax.nn: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp
from funcad import grad, nn

jax = pytest.importorskip("jax")

pytestmark = pytest.mark.slow

X = np.random.default_rng(0).normal(size=(4, 6)) * 3

PAIRS: list[tuple[Any, Any]] = [
    *[
        (getattr(nn, name), getattr(jax.nn, name))
        for name in (
            "relu relu6 leaky_relu elu selu celu gelu silu swish mish sigmoid hard_sigmoid hard_silu log_sigmoid tanh "
            "hard_tanh softplus squareplus soft_sign glu softmax log_softmax standardize identity"
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


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
@pytest.mark.parametrize("heads", [1, 2, 4])
def test_attention(options: dict, heads: int) -> None:
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(2, 5, 4, 3)), rng.normal(size=(2, 7, heads, 3)), rng.normal(size=(2, 7, heads, 3))
    bias, mask = rng.normal(size=(2, 1, 5, 7)), rng.random((2, 4, 5, 7)) > 0.2
    with jax.enable_x64(True):

        def theirs(*args: Any) -> Any:
            return jax.numpy.sum(jax.numpy.sin(jax.nn.dot_product_attention(*args, bias=bias, mask=mask, **options)))

        def ours(*args: Any) -> Any:
            return fnp.sum(fnp.sin(nn.dot_product_attention(*args, bias=bias, mask=mask, **options)))

        expected = jax.grad(theirs, argnums=(0, 1, 2))(*map(jax.numpy.asarray, (q, k, v)))
        for a, b in zip(grad(ours, argnums=(0, 1, 2))(q, k, v), expected):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)  # JAX takes the softmax in float32


def test_one_hot() -> None:
    x = np.array([[0, 2], [5, 1]])
    for axis in (-1, 0, 1):
        np.testing.assert_array_equal(nn.one_hot(x, 3, axis=axis), jax.nn.one_hot(x, 3, axis=axis))
