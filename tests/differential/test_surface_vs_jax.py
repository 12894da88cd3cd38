"""The whole table of public functions against JAX (x64): values and vector-Jacobian products of what both have.

Kept out of the quick run (`slow`); skipped without JAX. What JAX does not have, or refuses, is left out; DIFFERENT says where
the two differ on purpose.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import tree
from tests.surface import Case, all_cases
from tests.surface.checks import differentiated, host

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROOTS = {"numpy": "jax.numpy", "scipy": "jax.scipy", "nn": "jax.nn", "ops": "jax.ops", "image": "jax.image"}

_SETS = "JAX gives the elements of sets the derivative 0; ours is that of the elements taken, checked against differences"
_SCIPYS = "ours are SciPy's values"
DIFFERENT: dict[str, str] = {  # id of a case -> why the two differ
    **{f"numpy.{n}-2": _SETS for n in "unique unique_values unique_all unique_counts unique_inverse".split()},
    **{f"numpy.{n}-2": _SETS for n in "union1d setdiff1d setxor1d".split()},
    **{f"numpy.unique-{n}": _SETS for n in (5, 7)},
    "numpy.unique_values-3": "NumPy does not sort integers here",
    "numpy.arccosh": "complex, on the left: JAX's derivative has the other sign, against differences",
    "numpy.std-4": "one element: JAX gives NaN, we give the subgradient 0",
    **{f"numpy.{n}": "JAX differentiates 0 ** 0 and gives NaN" for n in ("polyfit", "polyfit-2", "polyfit-3")},
    **{f"ops.segment_{n}": "empty segments: JAX's derivative is infinite" for n in ("max-3", "max-6", "min-3", "min-6")},
    **{f"scipy.linalg.solve-{n}": f"JAX does not look at assume_a and lower as SciPy does; {_SCIPYS}" for n in (4, 5, 7, 9)},
    "scipy.linalg.pascal": f"JAX rounds in float32; {_SCIPYS}",
    **{f"scipy.stats.multinomial.{n}": f"JAX takes other shapes; {_SCIPYS}" for n in ("pmf", "logpmf")},
    **{f"scipy.ndimage.map_coordinates-{n}": f"other treatment of the border; {_SCIPYS}" for n in (3, 8)},
    **{f"numpy.linalg.lstsq-{n}": "no residuals: NumPy's shape is (0,), JAX's (1,)" for n in (3, 4)},
    **{f"nn.dot_product_attention{n}": "JAX takes the softmax in float32" for n in ("", "-2", "-3")},
    **{f"scipy.special.expn{n}": "JAX gives NaN for the derivative of order 0" for n in ("", "-3")},
    "scipy.special.bernoulli": f"JAX computes them in another precision; {_SCIPYS}",
    **{f"scipy.interpolate.RegularGridInterpolator{n}": f"JAX gives NaN; {_SCIPYS}" for n in ("", "-2", "-3")},
}


@pytest.fixture(autouse=True, scope="module")
def double_precision() -> Any:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def theirs(name: str) -> Any:
    """JAX's function of that path, or None."""
    head, *path = name.split(".")
    if head not in ROOTS:
        return None
    found = importlib.import_module(ROOTS[head])
    for i, part in enumerate(path):
        after = getattr(found, part, None)
        if after is None:
            try:
                after = importlib.import_module(".".join([ROOTS[head], *path[: i + 1]]))
            except ModuleNotFoundError:
                return None
        found = after
    return found if callable(found) else None


CASES = [pytest.param(c, id=c.id) for c in all_cases() if theirs(c.name) is not None]


def jax_result(case: Case) -> tuple[Any, Any]:
    """(value, gradient of the sum of the float results), each None if JAX refuses."""
    function = case.function(theirs(case.name))
    f, leaves = case.over(function, ["diff", "traced"])
    arrays = [jax.numpy.asarray(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in leaves]
    try:
        value = [np.asarray(v) for v in jax.tree.leaves(f(*arrays))]
    except Exception:
        return None, None
    if any(v.dtype.kind not in "fciub" for v in value):
        return None, None
    try:
        g, xs = case.over(function, ["diff"])

        def floats(*values: Any) -> Any:
            return [o for o in jax.tree.leaves(g(*values)) if jax.numpy.issubdtype(o.dtype, jax.numpy.inexact)]

        out, pullback = jax.vjp(floats, *[jax.numpy.asarray(x) for x in xs])
        return value, [np.asarray(ct) for ct in pullback([jax.numpy.ones_like(o) for o in out])]
    except Exception:
        return value, None


@functools.cache
def tolerance(case: Case) -> float:
    return max(1e-8, 10 * (case.agreement or 0.0), case.tolerance * 1e-3)


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_are_jaxs(case: Case) -> None:
    if case.id in DIFFERENT:
        pytest.skip(DIFFERENT[case.id])
    value, gradient = jax_result(case)
    if value is None:
        pytest.skip("JAX does not take these arguments")
    rtol = tolerance(case)
    with np.errstate(all="ignore"):
        found = [host(v) for v in tree.leaves(case.function()(*case.args))]
    assert len(found) == len(value)
    for a, b in zip(found, value):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(b.dtype), b, rtol=rtol, atol=rtol, err_msg=f"value of {case.id}")
    pair = differentiated(case) if case.empty("vjp") is None else None
    if gradient is None or pair is None:
        return
    f, leaves = pair
    out, pullback = funcad.vjp(f, *leaves)
    if len(leaves) != len(gradient) or any(
        host(o).dtype != v.dtype for o, v in zip(out, [v for v in value if v.dtype.kind in "fc"])
    ):
        return
    for a, b in zip(pullback([np.ones_like(host(o))[()] for o in out]), gradient):
        np.testing.assert_allclose(host(a), b, rtol=rtol, atol=rtol, err_msg=f"vjp of {case.id}")
