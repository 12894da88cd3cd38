"""Cross-entropy of integer classes picks one element of each slice: the same as by one-hot targets, which are not made."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad import nn
from funcad.primitives.basic_indexing import gather_p

Z = np.random.default_rng(0).normal(size=(5, 4, 3))


@pytest.mark.parametrize("reduction", ["mean", "elements", "sum", "none"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_classes_are_as_one_hot(axis: int, reduction: str) -> None:
    """Also classes that there are not, whose one-hot is zeros."""
    n, shape = Z.shape[axis], tuple(np.delete(Z.shape, axis))
    classes = np.random.default_rng(1).integers(-1, n + 1, shape)
    hot = np.moveaxis((classes[..., None] == np.arange(n)).astype(float), -1, axis)
    f = lambda z, t: np.sum(np.sin(nn.softmax_cross_entropy(z, t, axis=axis, reduction=reduction)))
    for wrapped in (lambda g: g, funcad.jit):
        np.testing.assert_allclose(wrapped(f)(Z, classes), f(Z, hot), rtol=1e-12)
        np.testing.assert_allclose(wrapped(funcad.grad(f))(Z, classes), funcad.grad(f)(Z, hot), rtol=1e-12, atol=1e-14)
    mapped = funcad.vmap(lambda z: f(z, classes))(np.stack([Z, -Z]))
    np.testing.assert_allclose(mapped, [f(Z, hot), f(-Z, hot)], rtol=1e-12)


def test_no_one_hot_is_made() -> None:
    jaxpr = funcad.make_jaxpr(nn.softmax_cross_entropy)(Z, np.zeros((5, 4), int)).jaxpr
    assert [e.primitive for e in jaxpr.equations].count(gather_p) == 1


def test_impossible_classes() -> None:
    z, classes = Z.copy(), np.zeros((5, 4), np.uint8)
    z[0, 0, 0] = -np.inf
    assert nn.softmax_cross_entropy(z, classes) == np.inf
    assert np.isfinite(nn.softmax_cross_entropy(z, classes + np.uint8(1)))
    assert nn.softmax_cross_entropy(z.astype("f4"), classes).dtype == np.float32
    assert nn.softmax_cross_entropy(Z[0, 0], np.array(1)).shape == ()
