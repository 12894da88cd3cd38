"""np.einsum of several arrays, nothing traced: contracted in pairs, in an order that is looked for once for each shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad.numpy as fnp

DRAW = np.random.default_rng(0)
CHAIN = "ij,jk,kl,lm->im"
SQUARES = [DRAW.normal(size=(12, 12)) for _ in range(4)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What NumPy was asked for."""
    seen: list[Any] = []
    real = np.einsum
    monkeypatch.setattr(np, "einsum", lambda *a, **options: seen.append(options.get("optimize")) or real(*a, **options))
    return seen


def test_many_products_are_made_in_pairs(asked: list[Any]) -> None:
    expected = np.linalg.multi_dot(SQUARES)
    np.testing.assert_allclose(fnp.einsum(CHAIN, *SQUARES), expected, rtol=1e-12, atol=1e-12)
    assert asked[0][0] == "einsum_path" and all(len(pair) == 2 for pair in asked[0][1:])
    fnp.einsum(CHAIN, *SQUARES, optimize=False)
    fnp.einsum(CHAIN, *[x[:2, :2] for x in SQUARES])  # little to do
    fnp.einsum("ij,jk", *SQUARES[:2])
    assert not any(asked[1:])


def test_what_numpy_takes() -> None:
    x, v = DRAW.normal(size=(40, 50)), DRAW.normal(size=50)
    out = np.empty(40)
    assert fnp.einsum("...i,i,i->...", x, v, v, out=out) is out
    np.testing.assert_allclose(out, (x * v * v).sum(1), rtol=1e-12)
    whole = [np.arange(144).reshape(12, 12) for _ in range(4)]
    found = fnp.einsum(CHAIN, *[a.tolist() for a in whole])
    assert found.dtype == np.dtype(int)
    np.testing.assert_array_equal(found, np.linalg.multi_dot(whole))
    assert fnp.einsum(CHAIN, *[x.astype("f4") for x in SQUARES]).dtype == np.float32
    for bad in ((CHAIN, *SQUARES[:3]), (CHAIN, *SQUARES[:3], np.ones((5, 5))), ("ij,jk,k->1", *SQUARES[:2], v[:12])):
        with pytest.raises(ValueError) as theirs:
            np.einsum(*bad)
        with pytest.raises(ValueError) as ours:
            fnp.einsum(*bad)
        assert str(ours.value) == str(theirs.value)
