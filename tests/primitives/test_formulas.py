"""Implementations that follow from the formula of an element: every composite, on scalars, small and large arrays."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from funcad.backends import text
from funcad.ir.primitive import Primitive
from funcad.primitives import composite_atoms, families
from funcad.primitives.atoms import ATOMS, ELEMENTARY, formula
from funcad.primitives.families import MANY, elementwise, implementation
from tests.ir.test_facts import PRIMITIVES
from tests.specs import all_specs

COMPOSITES = [p for p in PRIMITIVES if getattr(p.impl, "formula", None) is not None]
SPECIAL = [0.0, -0.0, 0.3, 1.0, -1.0, -2.5, 40.0, -800.0, 1e4, 5e-8, np.inf, -np.inf, np.nan]


@cache
def params_of(primitive: Primitive) -> dict[str, Any]:
    """Those of the table."""
    for op in all_specs():
        if primitive in op.primitives:
            for equation in op.program(op.samples()[0])[0].equations:
                if equation.primitive is primitive:
                    return dict(equation.params)
    raise AssertionError(primitive)


def operands_of(primitive: Primitive, size: int, dtype: Any) -> list[np.ndarray]:
    count = primitive.emit.__code__.co_argcount - 1
    rng = np.random.default_rng(0)
    values = [np.where(rng.random(size) < 0.2, rng.choice(SPECIAL, size), rng.standard_normal(size)) for _ in range(count)]
    with np.errstate(all="ignore"):
        return [x.astype(dtype) for x in values]


def same(found: Any, expected: Any, primitive: Primitive | None = None) -> None:
    """Bit for bit, but for elementary functions, which NumPy computes otherwise where numbers lie otherwise in memory."""
    if primitive is None or not ELEMENTARY.intersection(formula_of_primitive(primitive)):
        np.testing.assert_array_equal(found, expected, strict=True)
    else:
        eps = 8 * np.finfo(np.asarray(expected).dtype).eps
        np.testing.assert_allclose(found, expected, eps, eps, strict=True)
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype.kind in "fc":
        assert np.all((np.signbit(found.real) == np.signbit(expected.real)) | np.isnan(expected.real))


def formula_of_primitive(primitive: Primitive) -> list[str]:
    return formula(primitive.emit, primitive.emit.__code__.co_argcount - 1, tuple(params_of(primitive).items())).computed


def test_which() -> None:
    names = {p.name for p in COMPOSITES}
    assert names >= set("logistic softplus safe_log clamp tanh_linear mul_add turn log_cosh attains rooted".split())
    assert {p.name for p in PRIMITIVES if p.emit is not None and p.ufunc is None} - names == {
        "select", "convert", "integer_pow", "stop_gradient", "erf", "erfc",
    }  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("primitive", COMPOSITES, ids=lambda p: p.name)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.complex128])
def test_large_arrays_are_computed_as_small_ones(primitive: Primitive, dtype: Any) -> None:
    """Where results are written over one another; no operand is written, whatever its strides."""
    params = params_of(primitive)
    xs = operands_of(primitive, 2 * MANY + 6, dtype)
    before = [x.copy() for x in xs]
    with np.errstate(all="ignore"):
        try:
            expected = [primitive.impl(np, *[x[i : i + 100] for x in xs], **params) for i in range(0, len(xs[0]), 100)]
        except TypeError:
            assert np.dtype(dtype).kind == "c"  # which have no order
            return
        expected = np.concatenate(expected)
        same(primitive.impl(np, *xs, **params), expected, primitive)
        same(primitive.impl(np, *[x[::-1] for x in xs], **params), expected[::-1], primitive)
        same(primitive.impl(np, *[x.reshape(2, -1).T for x in xs], **params), expected.reshape(2, -1).T, primitive)
        copies = [xs[0].copy() for _ in xs]
        same(primitive.impl(np, *[xs[0]] * len(xs), **params), primitive.impl(np, *copies, **params), primitive)
        column = primitive.impl(np, *[x[:-6].reshape(2, -1)[:, : 1 if i else None] for i, x in enumerate(xs)], **params)
        rows = [primitive.impl(np, *[x[:-6].reshape(2, -1)[k] if not i else x[:-6].reshape(2, -1)[k, 0]
                                     for i, x in enumerate(xs)], **params) for k in (0, 1)]  # fmt: skip
        same(column, np.stack(rows), primitive)
    for x, old in zip(xs, before):
        assert x.tobytes() == old.tobytes()


@pytest.mark.share(3)
@pytest.mark.parametrize("primitive", COMPOSITES, ids=lambda p: p.name)
def test_scalars(primitive: Primitive) -> None:
    """NumPy's, and Python's, which never raise; rank 0 gives numbers."""
    params = params_of(primitive)
    xs = operands_of(primitive, 300, np.float64)
    with np.errstate(all="ignore"):
        expected = primitive.impl(np, *xs, **params)
        for i in range(300):
            same(primitive.impl(np, *[x[i] for x in xs], **params), expected[i], primitive)
            own = primitive.impl(np, *[float(x[i]) for x in xs], **params)
            assert not isinstance(own, np.ndarray)
            same(np.float64(own), np.float64(expected[i]), primitive)
            rank_0 = primitive.impl(np, *[x[i : i + 1].reshape(()) for x in xs], **params)
            assert not isinstance(rank_0, np.ndarray)


def test_an_operation_needs_no_implementation() -> None:
    calls = []

    def emit(e: Any, x: Any, *, power: int) -> Any:
        calls.append(power)
        return e.add(x, x) if power == 1 else e.integer_pow(x, power)

    impl = implementation(emit)  # it branches on the parameter: a text for each
    x = np.arange(4.0)
    for _ in range(2):
        same(impl(np, x, power=1), x + x)
        same(impl(np, x, power=3), x**3)
        same(impl(np, x, power=3.0), x**3)
    assert calls[1:] == [1, 3, 3.0]
    named = implementation(lambda e, x, *, scale: e.mul(x, e.const(scale)))
    same(named(np, x, scale=2.0), x * 2.0)
    assert np.signbit(named(np, np.ones(2), scale=-0.0)).all()
    assert np.isnan(implementation(lambda e, x: e.add(x, e.const(float("nan"))))(np, x)).all()
    with pytest.raises(AttributeError, match="'gamma', which is no atom"):
        elementwise("bad", emit=lambda e, x: e.gamma(x))(1.0)
    with pytest.raises(AttributeError, match="erf, no atom that others are composed of"):
        elementwise("bad", emit=lambda e, x: e.add(e.erf(x), e.const(1.0)))(1.0)


def test_writers_are_tables_of_atoms() -> None:
    assert set(families.TEXTS) <= ATOMS
    assert set(text.TEXTS) <= ATOMS
    assert {name for name, _ in composite_atoms.COMPOSITES} <= ATOMS


def test_what_a_formula_says_twice_is_computed_once() -> None:
    said = formula(lambda e, x: e.mul(e.exp(x), e.exp(x)), 1, ())
    assert said.computed == ["exp", "mul"] and said.read_often() == {0} and said.last_reads() == {-1: 0, 0: 1}
    assert formula(lambda e, x: e.add(e.const(1), e.const(1.0)), 1, ()).calls[1].told == (1.0,)  # 1 and 1.0 differ
