"""Un-jitted gradients of one case: on arrays, on arrays that the function has written, on numbers.

`GRADIENTS[kind](case)` gives False where it does not apply, True where it held. Un-jitted reverse mode is made of ways of its
own (tapes, rows, what is held), of which the theorem of tests/surface/theorem.py says nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import grad, vjp
from funcad.testing import _direction, _numeric, _pair
from tests.agreement import assert_close
from tests.surface import Case
from tests.surface.checks import STEP, backward_of, differentiated, double, host, rng_of

__all__ = ["GRADIENTS"]

# Of one number the library gives something (a 1 x 1 matrix, an array without axes); ours refuse it where it is traced.
FOR_ARRAYS = {
    *[f"scipy.ndimage.{n}" for n in "correlate convolve laplace median_filter maximum_filter minimum_filter".split()],
    *["scipy.ndimage.rank_filter", "scipy.ndimage.percentile_filter", "scipy.linalg.qr_multiply"],
    *[f"scipy.linalg.{n}" for n in "solve lu_factor solve_circulant fiedler expm sqrtm".split()],
    *["scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_lyapunov", "scipy.linalg.cholesky_banded"],
    "scipy.optimize.lsq_linear",
    *["scipy.ndimage.gaussian_gradient_magnitude", "scipy.ndimage.gaussian_laplace", "scipy.signal.medfilt", "scipy.stats.sem"],
    *(["numpy.linalg.tensorsolve"] if np.lib.NumpyVersion(np.__version__) < "2.4.0" else []),  # stores into a number's shape
    "scipy.optimize.leastsq",  # its tolerance is no base for differences of one residual
}


def gradient(f: Callable[..., Any], leaves: tuple, weights: list[Any]) -> list[Any]:
    """The gradient of the weighted sum of f's results by `grad`, or by `vjp` where that sum is not real and double."""
    if all(np.asarray(x).dtype == np.float64 for x in [*leaves, *weights]):
        total = lambda *xs: sum([np.sum(w * o) for w, o in zip(weights, f(*xs))])
        return list(grad(total, argnums=tuple(range(len(leaves))))(*leaves))
    return list(vjp(f, *leaves)[1](weights))


def weights_of(case: Case, outs: list[Any]) -> list[Any]:
    rng = rng_of(case)
    return [_direction(host(o)[()], rng) for o in outs]


def compared(case: Case, f: Callable[..., Any], leaves: tuple, what: str) -> bool:
    """`gradient` of f on these leaves is the pullback of the case."""
    outs, pullback = backward_of(case)
    weights = weights_of(case, outs)
    rtol = max(1e-9 if double(case) else 1e-3, case.agreement or 0.0)
    for found, wanted in zip(gradient(f, leaves, weights), pullback(weights), strict=True):
        assert_close(host(found), host(wanted), rtol=rtol, what=f"{what} of {case.id}")
    return True


def on_arrays(case: Case) -> bool:
    """`grad` against the pullback of `vjp`, which the table holds against forward mode and differences."""
    pair = differentiated(case)
    return pair is not None and compared(case, *pair, "gradient")


def on_written_arrays(case: Case) -> bool:
    """The function of copies, into which it has written the values that they have."""
    pair = differentiated(case)
    if pair is None or not any(np.ndim(x) and np.size(x) for x in pair[1]):
        return False
    f, leaves = pair

    def writing(*xs: Any) -> Any:
        ys = []
        for x in xs:
            if np.ndim(x):
                y = np.zeros(x.shape, x.dtype)
                y[...] = x
                y[-1:] = 0.5 * x[-1:]
                y[-1:] += 0.5 * x[-1:]
                x = y
            ys.append(x)
        return f(*ys)

    return compared(case, writing, leaves, "gradient through written arrays")


def on_numbers(case: Case) -> bool:
    """The function of the first element of each array, as Python numbers, against differences: wherever it takes numbers."""
    pair = differentiated(case)
    if pair is None or case.name in FOR_ARRAYS or not double(case) or any(not np.size(x) for x in pair[1]):
        return False
    f, leaves = pair[0], tuple(np.asarray(x).ravel()[0] for x in pair[1])
    if not case.name.startswith("ndarray."):
        leaves = tuple(x.item() for x in leaves)
    reference = case.reference_function()
    try:
        if reference is not None:
            case.over(reference, ["diff"])[0](*leaves)
        outs = f(*leaves)
    except Exception:  # it is for arrays
        return False
    if not outs:
        return False
    weights = weights_of(case, outs)
    rng = rng_of(case)
    ts = tuple(_direction(x, rng) for x in leaves)
    found = _pair(gradient(f, leaves, weights), ts)
    wanted = _pair(_numeric(f, leaves, ts, STEP), weights)
    assert_close(found, wanted, rtol=case.tolerance, what=f"gradient of {case.id} at the numbers {leaves}")
    return True


GRADIENTS: dict[str, Callable[[Case], bool]] = {"arrays": on_arrays, "written": on_written_arrays, "numbers": on_numbers}
