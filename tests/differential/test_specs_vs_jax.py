"""Values, tangents and cotangents of the table's primitives beside JAX's, for the specs that name a JAX function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import jvp, vjp
from tests.agreement import assert_close
from tests.ir.test_every_primitive import direction, is_double, partial, quiet_call
from tests.specs import OpSpec, all_specs

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
SPECS = [s for s in all_specs() if s.jax is not None]


# Derivatives that are not compared, by primitive: where JAX 0.4 to 0.9 is wrong or refuses. Ours are right against central
# differences, which tests/ir/test_every_primitive.py takes of the same samples.
NOT_COMPARED = {
    "spence": "JAX's derivative is NaN beside 1",
    "arccosh": "JAX's derivative has the wrong sign left of the imaginary axis",
    "reduce_window_max": "JAX raises for padded windows",
    "reduce_window_min": "JAX raises for padded windows",
    "sqrtm": "JAX has no derivative of Schur forms",
    "betainc": "JAX has none with respect to a and b",
}


def as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (list, tuple)) else [out]


def tolerance(args: tuple) -> float:
    return 1e-9 if is_double(args) else 1e-4


@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_value_and_derivatives(op: OpSpec) -> None:
    theirs = op.jax(jax)
    rng = np.random.default_rng(0)
    for args in op.samples():
        rtol = tolerance(args)
        expected = as_list(theirs(*args))
        found = quiet_call(op, *args)
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            b = np.asarray(b)
            same = np.asarray(a).dtype == b.dtype or b.dtype.kind in "iu"  # positions are int32 in JAX here and there
            assert same and np.asarray(a).dtype.kind == b.dtype.kind, f"{op.id}: {np.asarray(a).dtype}, JAX's {b.dtype}"
            assert_close(a, b, rtol=rtol, what=f"value of {op.id}")
        positions = op.differentiable(args)
        kept = [i for i, b in enumerate(expected) if np.asarray(b).dtype.kind in "fc"]
        if op.order == 0 or not positions or not kept or op.primitives[0].name in NOT_COMPARED:
            continue

        def f(*chosen: Any, args: tuple = args, positions: list = positions, kept: list = kept) -> list[Any]:
            full = list(args)
            for i, x in zip(positions, chosen):
                full[i] = x
            return [as_list(theirs(*full))[i] for i in kept]

        chosen = tuple(np.asarray(args[i])[()] for i in positions)
        tangents = tuple(direction(x, rng) for x in chosen)
        own = partial(op, args, positions)
        _, pushed = jvp(own, chosen, tangents)
        _, theirs_pushed = jax.jvp(f, chosen, tangents)
        for a, b in zip(pushed, theirs_pushed):
            assert_close(a, b, rtol=rtol, what=f"jvp of {op.id} at {args}")
        out, pull = vjp(own, *chosen)
        cts = [direction(o, rng) for o in out]
        theirs_out, theirs_pull = jax.vjp(f, *chosen)
        for a, b in zip(pull(cts), theirs_pull([np.asarray(ct) for ct in cts])):
            assert_close(a, b, rtol=rtol, what=f"vjp of {op.id} at {args}")


def test_there_is_something_to_compare() -> None:
    assert SPECS
