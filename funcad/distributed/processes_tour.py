"""`mpirun -n 2 python -m funcad tour --distributed`: a regression whose data lie on several processes."""

from __future__ import annotations

import numpy as np

from funcad import distributed, lax
from funcad.api.grad import grad

STEPS = 200


def _loss(w: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return lax.pmean(np.mean((x @ w - y) ** 2), "i")


def main() -> int:
    """Fit the regression on all processes, and print what came out from the first."""
    comm = distributed.current()
    draw = np.random.default_rng(comm.rank)  # other data on each process
    truth = np.array([1.0, -2.0, 0.5])
    x = draw.normal(size=(1000, 3))
    y = x @ truth + 0.01 * draw.normal(size=1000)
    slope = grad(distributed.spmd(_loss, "i", in_axes=(None, 0, 0), out_axes=None))
    w = np.zeros(3)
    for _ in range(STEPS):
        w = w - 0.1 * slope(w, x, y)
    every = distributed.gather(w[None])
    equal = all(row.tobytes() == every[0].tobytes() for row in every)
    if comm.rank == 0:
        print(f"{comm.size} processes, {1000 * comm.size} rows, {STEPS} steps of gradient descent")
        print(f"found {np.round(w, 3)}, the data were made with {truth}")
        print(f"equal bits on all processes: {equal}")
        print(f"each process sent {comm.sent} bytes in {comm.count} collectives")
    return 0 if equal and np.abs(w - truth).max() < 0.01 else 1
