"""Every primitive on cupy: value, jitted value, jvp, vjp and batching beside numpy's. Skipped without cupy and a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vjp, vmap
from funcad.errors import PlacementError
from tests.agreement import assert_close
from tests.ir.test_every_primitive import direction, is_double, partial, stacked
from tests.specs import OpSpec, all_specs

pytestmark = pytest.mark.gpu
cupy = pytest.importorskip("cupy", reason="CuPy is not installed", exc_type=ImportError)


def _has_gpu() -> bool:
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


if not _has_gpu():
    pytest.skip("no GPU", allow_module_level=True)

SPECS = [s for s in all_specs() if "cupy" in s.backends]
every_spec = pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])


def there(x: Any) -> Any:
    return cupy.asarray(x) if isinstance(x, np.ndarray) else x


def assert_same(found: Any, expected: Any, args: tuple, what: str) -> None:
    assert isinstance(found, cupy.ndarray), f"{what}: a result is {type(found)}"
    assert found.dtype == np.asarray(expected).dtype, f"{what}: {found.dtype} and {np.asarray(expected).dtype}"
    assert_close(found.get(), expected, rtol=1e-10 if is_double(args) else 1e-4, what=what)


def samples(op: OpSpec) -> list[tuple]:
    """Those with at least one array: scalars alone stay on the host."""
    return [args for args in op.samples() if any(isinstance(x, np.ndarray) for x in args)]


@every_spec
def test_values(op: OpSpec) -> None:
    for args in samples(op):
        with np.errstate(all="ignore"):
            expected = op.call(*args)
        moved, positions = [there(x) for x in args], op.variables(args)
        f = op.of_variables(moved, positions)
        chosen = [moved[i] for i in positions]
        for name, found in (("value", f(*chosen)), ("jitted value", jit(f)(*chosen))):
            for a, b in zip(found, expected):
                assert_same(a, b, args, f"{name} of {op.id}")


@every_spec
def test_derivatives(op: OpSpec) -> None:
    rng = np.random.default_rng(0)
    for args in samples(op):
        positions = op.differentiable(args)
        with np.errstate(all="ignore"):
            outs = op.call(*args)
        if op.order == 0 or not positions or not any(np.asarray(o).dtype.kind in "fc" for o in outs):
            continue
        chosen = tuple(args[i] for i in positions)
        ts = tuple(direction(x, rng) for x in chosen)
        host, device = partial(op, args, positions), partial(op, tuple(there(x) for x in args), positions)
        moved, moved_ts = tuple(map(there, chosen)), tuple(map(there, ts))
        for a, b in zip(jvp(device, moved, moved_ts)[1], jvp(host, chosen, ts)[1]):
            assert_same(a, b, args, f"jvp of {op.id}")
        out, pull = vjp(host, *chosen)
        cts = [direction(o, rng) for o in out]
        for a, b in zip(vjp(device, *moved)[1](list(map(there, cts))), pull(cts)):
            assert_same(a, b, args, f"vjp of {op.id}")


@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS if s.batch])
def test_batching(op: OpSpec) -> None:
    for args in samples(op):
        positions = [i for i in op.variables(args) if isinstance(args[i], np.ndarray)]
        full = [stacked(args[i]) for i in positions]

        def f(*xs: Any, args: tuple = args, positions: list = positions) -> list[Any]:
            everything = list(args)
            for i, x in zip(positions, xs):
                everything[i] = x
            return op.call(*everything)

        for a, b in zip(vmap(f)(*map(there, full)), vmap(f)(*full)):
            assert_same(a, b, args, f"vmap of {op.id}")


def test_whole_programs_and_placement() -> None:
    host = np.linspace(0.1, 1.0, 5)
    x = cupy.asarray(host)
    captured = np.arange(5.0)

    def f(v: Any) -> Any:
        return np.sum(np.sin(v) * v * captured)

    for g in (grad(f), jit(grad(f)), grad(jit(f)), lambda v: grad(lambda u: np.sum(grad(f)(u)))(v)):
        assert_same(g(x), g(host), (host,), "gradient")
    assert isinstance(f(x.get()), np.float64) and jit(f)(x).shape == ()
    with pytest.raises(PlacementError, match="device_put"):
        jit(lambda a, b: a * b)(x, host)
