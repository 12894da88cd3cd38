"""Write random_draws.npz: what JAX gives for each draw of random_calls.py. Needs jax; `python -m tests.vectors.make_random`."""

from __future__ import annotations

from pathlib import Path

import jax
import numpy as np

from tests.vectors.random_calls import CALLS, INITIALIZERS, SEED

STORE = Path(__file__).with_name("random_draws.npz")


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_threefry_partitionable", True)
    found = {}
    for prefix, calls, module in (("", CALLS, jax.random), ("nn-", INITIALIZERS, jax.nn.initializers)):
        for name, (call, _) in calls.items():
            found[prefix + name] = np.asarray(call(module, jax.random.PRNGKey(SEED)))
    np.savez_compressed(STORE, **found)
    print(f"{len(found)} draws by jax {jax.__version__}: {STORE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
