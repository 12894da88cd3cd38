"""What draws other numbers at each call, because nobody gave a seed, is not compiled."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

from funcad import grad, jit
from funcad.errors import NotCompiledWarning

MAKES: dict[str, Callable[[], Any]] = {
    "default_rng": lambda: np.random.default_rng().normal(),
    "default_rng of None": lambda: np.random.default_rng(None).normal(),
    "Generator": lambda: np.random.Generator(np.random.PCG64()).normal(),
    "SeedSequence": lambda: np.random.SeedSequence().generate_state(1)[0],
    "Random": lambda: random.Random().random(),
    "Sobol": lambda: scipy.stats.qmc.Sobol(1).random(1)[0, 0],
    "bootstrap": lambda: scipy.stats.bootstrap((np.arange(5.0),), np.mean, n_resamples=9, rng=None).standard_error,
}
SEEDED: dict[str, Callable[[], Any]] = {
    "default_rng": lambda: np.random.default_rng(3).normal(),
    "Generator": lambda: np.random.Generator(np.random.PCG64(3)).normal(),
    "Random": lambda: random.Random(3).random(),
    "Sobol": lambda: scipy.stats.qmc.Sobol(1, rng=3).random(1)[0, 0],
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "jit": jit,
    "grad": lambda f: grad(jit(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MAKES)
def test_nobody_gave_a_seed(name: str, way: str) -> None:
    draw = MAKES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        f = WAYS[way](lambda x: x * draw())
        found = [float(f(1.0)) for _ in range(6)]
    assert len(set(found)) > 4  # a standard error of nine means may come twice


@pytest.mark.parametrize("name", SEEDED)
def test_a_seed_gives_the_same_numbers(name: str) -> None:
    draw = SEEDED[name]
    f = jit(lambda x: x * draw())
    assert [f(2.0) for _ in range(4)] == [2.0 * draw()] * 4
    assert f.cache_info().misses == 1
