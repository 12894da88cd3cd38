"""CONTRIBUTING.md tells the truth: its declarations are run, and the operations are complete and fast from these alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jit, jvp, vmap
from funcad.backends.emission import generate
from funcad.backends.native import target
from funcad.ir.primitive import Reduction
from funcad.ir.trace import trace_function
from funcad.passes import roll
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from funcad.primitives import activation, shape
from funcad.primitives import reduction as reductions
from funcad.primitives.arithmetic import abs_, square
from funcad.testing import check_grads
from funcad.unjitted.kinds import has_rows
from tests.agreement import assert_agree
from tests.standin import registered, to_device, to_host

TEXT = (Path(__file__).parent.parent / "CONTRIBUTING.md").read_text(encoding="utf8")
BLOCKS = [b for b in re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL) if not b.startswith("# tests/")]
OPERATIONS: dict[str, Any] = {**vars(shape), **vars(reductions), **vars(activation), "abs_": abs_, "square": square}
for block in BLOCKS:
    exec(block, OPERATIONS)
softsign, reduce_sumsq, swapped = primitives = [OPERATIONS[name] for name in ("softsign", "reduce_sumsq", "swapped")]
logaddexp_p = reductions.reduction("reduce_logaddexp", Reduction(np.logaddexp, -np.inf))

X = np.random.default_rng(0).normal(size=(6, 5))
FUNCTIONS = {  # (the operation among neighbours, the same in NumPy)
    "softsign": (lambda x: softsign(x * 2.0) + 1.0, lambda x: x * 2.0 / (1 + abs(x * 2.0)) + 1.0),
    "sumsq": (lambda x: reduce_sumsq(np.sin(x), axes=(0, 1)), lambda x: np.sum(np.sin(x) ** 2)),
    "sumsq_rows": (lambda x: reduce_sumsq(np.sin(x), axes=(1,)) * 2.0, lambda x: np.sum(np.sin(x) ** 2, 1) * 2.0),
    "sumsq_columns": (lambda x: reduce_sumsq(np.sin(x), axes=(0,)), lambda x: np.sum(np.sin(x) ** 2, 0)),
    "swapped": (lambda x: swapped(x * 2.0, axis=0, at=2) * x, lambda x: np.roll(x * 2.0, -2, 0) * x),
}
functions = pytest.mark.parametrize("name", FUNCTIONS)


def test_blocks_are_found() -> None:
    assert len(BLOCKS) == 3 and set(re.findall(r"^(?:def )?(\w+)(?:\(| =)", "".join(BLOCKS), re.MULTILINE)) == {
        "softsign", "reduce_sumsq", "_swapped", "swapped",
    }  # fmt: skip


@functions
def test_operations_are_complete(name: str) -> None:
    f, numpys = FUNCTIONS[name]
    assert_agree(f(X), numpys(X), scale=1e2)
    assert_agree(jit(f)(X), numpys(X), scale=1e2)
    check_grads(f, (X,), order=2)
    total = lambda x: np.sum(f(x))
    derivative = grad(total)
    _, along = jvp(total, (X,), (X,))
    np.testing.assert_allclose(along, np.sum(derivative(X) * X), rtol=1e-12)
    batch = np.stack([X, -2 * X, X + 1])
    for g in (f, derivative, jit(derivative), hessian(total)):
        np.testing.assert_allclose(vmap(g)(batch), np.stack([g(x) for x in batch]), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(hessian(total)(X), jit(hessian(total))(X), rtol=1e-12, atol=1e-12)
    assert f(X[:0].astype(np.float32) if name != "swapped" else X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("size", [0, 1, 2, 7, 64])
def test_operations_run_on_a_device(size: int) -> None:
    """CuPy folds by its own functions where it has them, else by halves."""
    x = np.random.default_rng(0).normal(size=(size, 5, 3))
    with registered():
        given = to_device(x)
        for primitive, params in (
            (softsign, {}),
            (reduce_sumsq, {"axes": (0, 2)}),
            (swapped, {"axis": 1, "at": 2}),
            (logaddexp_p, {"axes": (0,)}),
            (logaddexp_p, {"axes": (0, 2)}),
        ):
            out = primitive(given, **params)
            assert type(out) is type(given)
            np.testing.assert_allclose(to_host(out), primitive(x, **params), rtol=1e-12, strict=True)


@functions
def test_operations_join_their_neighbours_loops(name: str) -> None:
    """In the NumPy engine as in the native one, in large programs and in small ones."""
    f, numpys = FUNCTIONS[name]
    jit(f)(X)  # the first size of a function is native without delay
    large = np.random.default_rng(1).normal(size=(700, 400))
    with funcad.config.set(engine="numpy"):
        assert_agree(jit(f)(large), numpys(large), scale=1e5)
        if name != "swapped":
            explained = jit(f).explain(large)
            assert explained.groups and not explained.alone, str(explained)
    if not target.available():
        return
    with funcad.config.set(engine="auto"):
        found = jit(f).explain(X)
        assert found.engine == "native", str(found)
        assert_agree(jit(f)(large), numpys(large), scale=1e5)


def test_rows_are_written_down() -> None:
    for primitive in primitives:
        assert has_rows(primitive)


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("shape", [(6, 5), (300, 517), (1, 3), (40000, 3)])
def test_any_atom_that_combines_fuses(axes: tuple, shape: tuple) -> None:
    """One that takes no element twice, and starts from minus infinity: neither a sum nor an extremum."""
    x = np.random.default_rng(2).normal(size=shape)
    f = lambda x: logaddexp_p(x * 2.0, axes=axes)
    expected = np.logaddexp.reduce(x * 2.0, axis=axes if len(axes) > 1 else axes[0])
    np.testing.assert_allclose(f(x), expected, rtol=1e-12)
    for engine in ("numpy", "auto"):
        with funcad.config.set(engine=engine):
            g = jit(f)
            np.testing.assert_allclose(g(x), expected, rtol=1e-11)
            found = g.explain(x)
            assert found.groups and not found.alone, str(found)
    repeated = jit(lambda r: logaddexp_p(np.broadcast_to(r, shape) * 1.0, axes=axes))  # no axis is dropped
    row = x[0]
    expected = np.logaddexp.reduce(np.broadcast_to(row, shape), axis=axes if len(axes) > 1 else axes[0])
    np.testing.assert_allclose(repeated(row), expected, rtol=1e-11)


def test_folds_without_an_atom_stay_alone() -> None:
    gcd_p = reductions.reduction("reduce_gcd", Reduction(np.gcd, 0))
    x = np.arange(6, 600, 6)
    found = jit(lambda x: gcd_p(x * 2, axes=(0,)) + 1).explain(x)
    assert "combines elements by np.gcd, for which engines have no code" in str(found)
    assert jit(lambda x: gcd_p(x * 2, axes=(0,)) + 1)(x) == 13
    jaxpr, _ = trace_function(lambda x: [gcd_p(x, axes=(0,))], [funcad.ir.aval.aval_of(x)], name="gcd")
    assert generate(fuse(optimize(jaxpr))).function([x]) == [6]


def test_why_operations_are_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "SMALLEST", 10**9)  # what repeats itself stays as it is written
    def alone(f: Any, *args: Any) -> dict[str, str]:
        with funcad.config.set(engine="numpy"):
            return {a["operation"]: a["why"] for a in jit(f).explain(*args).alone}

    big = np.ones(1000)
    assert alone(lambda x: np.sinc(x) + 1.0, big)["sinc"].startswith("has no formula of an element")
    assert alone(lambda x: np.sort(x) + 1.0, big)["sort"] == "works on whole arrays"
    any_of = alone(lambda x: reductions.reduce_any(np.sort(x), axes=(0,)), big)["reduce_any"]
    assert any_of == "its result has another dtype than the elements"

    def many_rows(x: Any) -> Any:
        for _i in range(90):
            x = np.sin(x) * 0.9 + np.sum(x, axis=1)[:, None]
        return x

    assert alone(many_rows, np.ones((3, 4))) == {}  # however long, one loop over rows

    def many(x: Any) -> Any:
        for i in range(90):
            x = np.sin(x) * 0.9 + i
        return np.sum(x)

    assert alone(many, big) == {}
    np.testing.assert_allclose(jit(many)(big), many(big), rtol=1e-12)
    if target.available():
        def wide(x: Any) -> Any:
            for i in range(200):
                x = np.cumsum(np.exp(x) * 1e-3 + i) * np.prod(x)
            return x

        with funcad.config.set(engine="auto"):
            assert "native functions" in jit(wide).explain(np.ones(5)).why  # too long for one
