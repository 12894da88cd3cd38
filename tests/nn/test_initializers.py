"""funcad.nn.initializers: JAX's numbers (stored), and errors."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import jit, random
from funcad.nn import initializers
from tests import standin
from tests.random.test_random import STORED, assert_like_jax
from tests.vectors.random_calls import INITIALIZERS, SEED

KEY = random.key(SEED)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_values_are_those_of_jax(name: str) -> None:
    call, tolerance = INITIALIZERS[name]
    assert_like_jax(call(initializers, KEY), STORED[f"nn-{name}"], tolerance)


@pytest.mark.parametrize("name", INITIALIZERS)
def test_values_are_the_same_under_jit(name: str) -> None:
    call, _ = INITIALIZERS[name]
    expected = call(initializers, KEY)
    np.testing.assert_allclose(
        jit(lambda k: call(initializers, k))(KEY), expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-12, atol=1e-12
    )


def test_all_names() -> None:
    assert set(initializers.__all__) <= set(dir(initializers))
    assert initializers.xavier_normal is initializers.glorot_normal
    assert all(isinstance(f, initializers.Initializer) for f in (initializers.zeros, initializers.he_normal()))


def test_on_the_device() -> None:
    with standin.registered():
        key = standin.to_device(KEY)
        for init in (initializers.zeros, initializers.constant(2.0), initializers.glorot_normal(), initializers.orthogonal()):
            found = init(key, (3, 2))
            assert type(found) is standin.DeviceArray
            np.testing.assert_allclose(found.get(), init(KEY, (3, 2)), rtol=1e-10, atol=1e-14)


def test_errors() -> None:
    with pytest.raises(ValueError, match="in_axis"):
        initializers.he_normal()(KEY, (3,))
    with pytest.raises(ValueError, match="fan_sum"):
        initializers.variance_scaling(1.0, "fan_sum", "normal")(KEY, (3, 3))
    with pytest.raises(ValueError, match="cauchy"):
        initializers.variance_scaling(1.0, "fan_in", "cauchy")(KEY, (3, 3))
    with pytest.raises(ValueError, match="two axes"):
        initializers.orthogonal()(KEY, (3,))
    with pytest.raises(ValueError, match="fan_out"):
        initializers.delta_orthogonal()(KEY, (3, 4, 2))
    with pytest.raises(ValueError, match="axes"):
        initializers.delta_orthogonal()(KEY, (3, 4))
    with pytest.raises(ValueError, match="dtype"):
        initializers.normal()(KEY, (3,), int)
