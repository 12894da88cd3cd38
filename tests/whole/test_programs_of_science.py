"""94 programs over SciPy as people write them: value, gradient, jvp, jit, vmap and Hessian-vector product of each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap
from tests.whole.programs_of_science import PROGRAMS

pytestmark = pytest.mark.filterwarnings("ignore")
# where only values say how many numbers there are; the messages say what to write. Here jit traces at the first call; where an
# un-jitted call came before, it warns and runs un-jitted.
REFUSED: dict[tuple[str, str], Any] = {
    ("ivp", "jit"): NotImplementedError,
    ("ivp", "vmap"): NotImplementedError,
}
LOOSE = {"minim": 1e-2, "curve": 3e-2, "odeint": 1e-6}  # solvers' own tolerances


def transforms(f: Any, x: np.ndarray, v: np.ndarray) -> dict[str, Any]:
    """What each transformation gives, and what it should be."""
    h, rows = 1e-6, np.stack([x, 1.01 * x, 0.99 * x])
    slope = lambda at: grad(f)(at)
    return {
        "grad": lambda: (np.sum(slope(x) * v), (f(x + h * v) - f(x - h * v)) / (2 * h), 2e-5),
        "jvp": lambda: (np.stack(jvp(f, (x,), (v,))), np.stack([f(x), np.sum(slope(x) * v)]), 1e-7),
        "jit": lambda: (np.stack([compiled(f)(x), np.sum(compiled(grad(f))(x) * v)]), [f(x), np.sum(slope(x) * v)], 1e-7),
        "vmap": lambda: (vmap(f)(rows), [f(row) for row in rows], 1e-7),
        "vmap(grad)": lambda: (vmap(grad(f))(rows), [slope(row) for row in rows], 1e-6),
        "hvp": lambda: (jvp(grad(f), (x,), (v,))[1], (slope(x + h * v) - slope(x - h * v)) / (2 * h), 1e-3),
    }


def compiled(f: Any) -> Any:
    """Called twice, so that the second call runs a program where there is one."""
    g = jit(f)
    return lambda x: (g(x), g(x))[1]


@pytest.mark.share(10)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_transformation(name: str) -> None:
    f, x = PROGRAMS[name]
    v = np.random.default_rng(1).normal(size=x.shape)
    for transform, found in transforms(f, x, v).items():
        refused = REFUSED.get((name, transform.removesuffix("(grad)")))
        if refused is not None:
            with pytest.raises(refused):
                found()
            continue
        value, expected, bound = found()
        bound = max(bound, LOOSE.get(name, 0.0))
        size = 1.0 + np.max(np.abs(expected))
        np.testing.assert_allclose(value, expected, rtol=bound, atol=bound * size, err_msg=transform)
