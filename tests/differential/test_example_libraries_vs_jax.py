"""Layers and optimizers of `jax.example_libraries` against JAX's own, with the same keys."""

from __future__ import annotations

import numpy as np
import pytest

from funcad import random, tree
from funcad.jax.example_libraries import optimizers, stax
from tests.jax.test_example_libraries import RULES, network, trained

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
their_optimizers = pytest.importorskip("jax.example_libraries.optimizers")
their_stax = pytest.importorskip("jax.example_libraries.stax")
pytestmark = pytest.mark.slow
SCHEDULES: list[tuple[str, tuple]] = [
    ("constant", (0.1,)), ("exponential_decay", (0.1, 3, 0.9)), ("inverse_time_decay", (0.1, 3, 0.9, True)),
    ("polynomial_decay", (0.1, 3, 0.01, 2.0)), ("piecewise_constant", ([1, 3], [0.1, 0.2, 0.3])),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "args"), RULES)
def test_optimizers_are_jaxs(rule: str, args: tuple) -> None:
    for x, y in zip(trained(optimizers, rule, args), trained(their_optimizers, rule, args)):
        np.testing.assert_allclose(x, np.asarray(y), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("name", "args"), SCHEDULES)
def test_schedules_are_jaxs(name: str, args: tuple) -> None:
    for step in range(6):
        found, expected = [getattr(library, name)(*args)(step) for library in (optimizers, their_optimizers)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_layers_are_jaxs() -> None:
    x = random.normal(random.key(1), (2, 8, 9, 3))
    params = [network(s)[0](key, (2, 8, 9, 3))[1] for s, key in ((stax, random.key(3)), (their_stax, jax.random.PRNGKey(3)))]
    for a, b in zip(tree.leaves(params[0]), jax.tree.leaves(params[1])):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-6)
    found = network(stax)[1](params[0], x, rng=random.key(4))
    np.testing.assert_allclose(found, np.asarray(network(their_stax)[1](params[1], x, rng=jax.random.PRNGKey(4))), rtol=1e-6)
