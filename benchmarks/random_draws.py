"""Random draws: a million uniform or normal numbers, and a hundred, beside NumPy's Generator and JAX."""

from __future__ import annotations

import numpy as np

from benchmarks.harness import Row, main, measure, peer
from funcad import random


def run(rounds: int) -> list[Row]:
    jax = peer("jax")
    key, generator = random.key(0), np.random.default_rng(0)
    rows = []
    for n in (10**6, 100):
        theirs = {
            "uniform": generator.random,
            "normal": generator.standard_normal,
            "exponential": generator.standard_exponential,
        }
        for name, f in theirs.items():
            ours = getattr(random, name)
            candidates = {"funcad": lambda f=ours, n=n: f(key, (n,)), "numpy": lambda f=f, n=n: f(n)}
            if jax:
                draw, jax_key = getattr(jax.random, name), jax.random.PRNGKey(0)
                candidates["jax"] = lambda f=draw, k=jax_key, n=n: f(k, (n,)).block_until_ready()
            rows.append(measure(f"{name}, {n:,}", candidates, rounds))
    rows.append(
        measure(
            "gamma(2.5), 100,000",
            {
                "funcad": lambda: random.gamma(key, 2.5, (100_000,)),
                "numpy": lambda: generator.standard_gamma(2.5, 100_000),
                "jax": (lambda: jax.random.gamma(jax_key, 2.5, (100_000,)).block_until_ready()) if jax else None,
            },
            rounds,
        )
    )
    rows.append(
        measure(
            "permutation, 100,000",
            {
                "funcad": lambda: random.permutation(key, 100_000),
                "numpy": lambda: generator.permutation(100_000),
                "jax": (lambda: jax.random.permutation(jax_key, 100_000).block_until_ready()) if jax else None,
            },
            rounds,
        )
    )
    rows.append(
        measure(
            "split, 2",
            {
                "funcad": lambda: random.split(key),
                "jax": (lambda: jax.random.split(jax_key).block_until_ready()) if jax else None,
            },
            rounds,
        )
    )
    return rows


if __name__ == "__main__":
    main(run, __doc__)
