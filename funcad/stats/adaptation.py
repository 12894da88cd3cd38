"""What a chain learns before its draws count: the step size of its leapfrogs, and the mass, a covariance.

Source: step sizes by dual averaging, Hoffman and Gelman, "The No-U-Turn Sampler" (2014); windows that double, as in Stan's
reference manual, so that the mass is estimated from the part of the warm-up that has forgotten the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["StepSizes", "inverse_mass_of", "roots_of", "windows"]

FIRST, LAST, SMALLEST = 0.075, 0.05, 25  # shares of the warm-up before and after the windows, and the steps of the first
SHRINKAGE, STABLE, DECAY = 0.05, 10.0, 0.75  # of dual averaging, by its source
PRIOR, PRIOR_DRAWS = 1e-3, 5.0  # what variances are drawn to, and as how many draws it counts


class StepSizes:
    """A step size for each chain, led to where trajectories are accepted as often as wanted."""

    def __init__(self, sizes: np.ndarray, wanted: float):
        self.wanted = wanted
        self.begin(sizes)

    def begin(self, sizes: np.ndarray) -> None:
        """Anew, from these sizes."""
        self.sizes = sizes
        self.centre = np.log(10 * sizes)
        self.error, self.mean, self.count = np.zeros_like(sizes), np.log(sizes), 0

    def learn(self, accepted: np.ndarray) -> None:
        self.count += 1
        part = 1 / (self.count + STABLE)
        self.error = (1 - part) * self.error + part * (self.wanted - np.nan_to_num(accepted))
        log_size = self.centre - np.sqrt(self.count) / SHRINKAGE * self.error
        share = self.count**-DECAY
        self.mean = share * log_size + (1 - share) * self.mean
        self.sizes = np.exp(log_size)

    def settled(self) -> np.ndarray:
        return np.exp(self.mean)


def windows(warmup: int) -> tuple[int, list[int]]:
    """Where the first window begins, and where each of them ends; in a short warm-up there is none."""
    begin, end = round(FIRST * warmup), warmup - round(LAST * warmup)
    if end - begin < SMALLEST:
        return warmup, []
    ends, size = [], SMALLEST
    at = begin
    while at < end:
        at = end if at + size + 2 * size > end else at + size
        ends.append(at)
        size *= 2
    return begin, ends


def inverse_mass_of(draws: np.ndarray, dense: bool) -> np.ndarray:
    """The covariances of the draws (steps, chains, n), or their variances, drawn somewhat to a small number."""
    n = len(draws)
    centred = draws - draws.mean(axis=0)
    weight = n / (n + PRIOR_DRAWS)
    small = PRIOR * PRIOR_DRAWS / (n + PRIOR_DRAWS)
    if not dense:
        return weight * np.sum(centred**2, axis=0) / (n - 1) + small
    return weight * np.einsum("tci,tcj->cij", centred, centred) / (n - 1) + small * np.eye(draws.shape[2])


def roots_of(inverse_mass: np.ndarray) -> Any:
    """What noise is multiplied with to be a momentum: its covariance is the mass."""
    if inverse_mass.ndim == 2:
        return lambda noise: noise / np.sqrt(inverse_mass)
    factors = np.linalg.inv(np.linalg.cholesky(inverse_mass))
    return lambda noise: np.einsum("cji,cj->ci", factors, noise)
