"""What `to_jax` gives to XLA: every operation of the table under jax.jit, without callbacks, equal or listed."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from funcad import jit
from tests.agreement import assert_close
from tests.specs import OpSpec, all_specs

pytestmark = [pytest.mark.jax, pytest.mark.filterwarnings("ignore")]
SPECS = all_specs()
PRIMITIVES = {p.name for op in SPECS for p in op.primitives}

# refused: NotImplementedError names the operation
REFUSED = frozenset(
    # what a while loop keeps for its derivative
    "stack_add stack_empty stack_lead stack_select stack_sum "
    # functions of matrices that JAX lacks
    "logm logm_linear "
    # special functions
    "carlson_moment hyp0f1 hyperu iv iv_order ive ive_order kummer_slope lambertw modfresnelm modfresnelm_phase "
    "modfresnelp modfresnelp_phase modstruve sine_moment special_derivative special_function "
    "sph_harm_y struve wrightomega".split()
)


def test_nine_in_ten_have_code() -> None:
    assert REFUSED <= PRIMITIVES
    assert len(REFUSED) <= len(PRIMITIVES) / 10


@pytest.mark.share(12)
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
def test_every_operation_is_equal_or_listed(op: OpSpec, jax: Any) -> None:
    xla = importlib.import_module("funcad.backends.export.xla_function")
    name = op.primitives[0].name
    refused = 0
    for args in op.samples():
        given = [args[i] for i in op.variables(args)]
        f = jit(op.of_variables(args))
        entry = f.lower(*given)._entry
        expected = f(*given)
        compiled = jax.jit(lambda *xs, entry=entry: xla.run(entry.jaxpr, [*entry.consts, *xs]))
        try:
            text = compiled.lower(*given).as_text()
        except NotImplementedError as error:
            assert str(error).startswith("to_jax: ") and "Remedy" in str(error)
            refused += 1
            continue
        assert "callback" not in text
        for a, b in zip(compiled(*given), expected if isinstance(expected, (list, tuple)) else [expected], strict=True):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype and a.shape == b.shape, f"{op.id}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
            assert_close(a, b, rtol=2e-5 if b.dtype in (np.float32, np.complex64) else 1e-11, what=f"{op.id} of {given}")
    assert bool(refused) == (name in REFUSED), f"{op.id} is {'' if refused else 'not '}refused"


def test_programs_of_32_bits(jax: Any) -> None:
    """Without 64 bits all is computed with 32, integers too."""
    from_numpy = importlib.import_module("funcad.interop").to_jax

    def f(x: Any) -> Any:
        order = np.argsort(x)
        return np.sum(x[order][:2] * np.arange(2)), order

    with jax.enable_x64(False):
        value, order = jax.jit(from_numpy(f))(np.array([3.0, 1.0, 2.0], np.float32))
        assert (value.dtype, order.dtype) == (np.float32, np.int32)
        assert float(value) == 2.0 and order.tolist() == [1, 2, 0]
