"""NUTS beside NumPyro's: processor's time for four chains of 1000 draws after a warm-up of 1000, per effective draw.

`python -m benchmarks.sampling`. The models are written as their users write them: NumPy's log-densities for funcad, a potential
in JAX for NumPyro; its chains are the lanes of one vmap, as here. "first" is the whole first call, with tracing and compiling;
"later" a call of the same with another key. Both start near zero; what is compared is time by the least effective sample size
over parameters (ArviZ's bulk ESS of rank-normalised draws), since trees and adaptation differ in details.
"""

from __future__ import annotations

import functools
import importlib
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
from funcad import stats

rng = np.random.default_rng(0)
EFFECTS, ERRORS = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
X = rng.normal(size=(1000, 20))
Y = (rng.random(1000) < 1 / (1 + np.exp(-X @ rng.normal(size=20)))).astype(float)
SCALES = np.linspace(0.1, 3, 50)


def normal(np: Any, p: Any) -> Any:
    return -0.5 * np.sum((p / SCALES) ** 2)


def eight_schools(np: Any, p: Any) -> Any:
    mu, log_tau, z = p[0], p[1], p[2:]
    tau = np.exp(log_tau)
    prior = -0.5 * (mu / 5) ** 2 - np.log1p((tau / 5) ** 2) + log_tau - 0.5 * np.sum(z**2)
    return prior - 0.5 * np.sum(((EFFECTS - mu - tau * z) / ERRORS) ** 2)


def logistic(np: Any, p: Any) -> Any:
    z = X @ p
    return np.sum(Y * z - np.logaddexp(0.0, z)) - 0.5 * np.sum(p**2)


MODELS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {
    "normal, 50 scales": (normal, 50),
    "eight schools": (eight_schools, 10),
    "logistic, 1000 x 20": (logistic, 20),
}


def of_funcad(model: Callable[[Any, Any], Any], n: int, seed: int) -> np.ndarray:
    return stats.sample(functools.partial(model, np), np.zeros(n), funcad.random.key(seed)).draws


@functools.cache
def _numpyro(model: Callable[[Any, Any], Any]) -> Any:
    infer = importlib.import_module("numpyro.infer")
    jnp = importlib.import_module("jax.numpy")
    kernel = infer.NUTS(potential_fn=lambda p: -model(jnp, p))
    return infer.MCMC(kernel, num_warmup=1000, num_samples=1000, num_chains=4, chain_method="vectorized", progress_bar=False)


def of_numpyro(model: Callable[[Any, Any], Any], n: int, seed: int) -> np.ndarray:
    jax = importlib.import_module("jax")
    start = np.random.default_rng(seed).uniform(-1, 1, (4, n))
    run = _numpyro(model)
    run.run(jax.random.key(seed), init_params=start)
    return np.asarray(run.get_samples(group_by_chain=True))


def main() -> None:
    warnings.simplefilter("ignore")
    arviz = importlib.import_module("arviz")
    importlib.import_module("jax").config.update("jax_enable_x64", True)
    least = lambda draws: float(np.min([arviz.ess(draws[:, :, i]) for i in range(draws.shape[2])]))
    print("| model | sampler | first | later | least ESS | us per effective draw |")
    print("|---|---|---|---|---|---|")
    for name, (model, n) in MODELS.items():
        samplers = {"funcad": of_funcad, "numpyro": of_numpyro}
        spent: dict[str, list[float]] = {sampler: [] for sampler in samplers}
        worth: dict[str, list[float]] = {sampler: [] for sampler in samplers}
        for seed in range(6):
            for sampler, run in samplers.items():
                begun = time.process_time()
                draws = run(model, n, seed)
                spent[sampler].append(time.process_time() - begun)
                worth[sampler].append(least(draws))
        for sampler in samplers:
            later, ess = np.median(spent[sampler][1:]), np.median(worth[sampler][1:])
            print(f"| {name} | {sampler} | {spent[sampler][0]:.2f} s | {later:.2f} s | {ess:.0f} | {later / ess * 1e6:.0f} |")


if __name__ == "__main__":
    main()
