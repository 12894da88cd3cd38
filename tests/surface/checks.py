"""The checks of one case: `CHECKS[cell](case)` raises if that cell does not hold.

Each takes one random direction instead of whole Jacobians. A check gives False where the cell does not apply (nothing to
differentiate, nothing to trace), True where it held. The checks of one case, one after the other, share its value, its
reference, and the un-jitted runs of forward and reverse mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import jit, jvp, tree, vjp, vmap
from funcad.api import split_batch
from funcad.errors import FuncadError
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function
from funcad.testing import _direction, _numeric, _pair
from tests import standin
from tests.agreement import assert_agree, assert_close
from tests.surface import Case, resolve

__all__ = ["CHECKS", "RAISES", "STEP", "check", "check_dtype", "same", "host", "double", "floats", "rng_of"]
__all__ += ["differentiated", "forward_of", "backward_of", "traced_or_none"]

STEP = 2.0**-17  # of central differences, in float64
RAISES = (FuncadError, TypeError, ValueError, NotImplementedError, IndexError)


def host(x: Any) -> Any:
    return np.asarray(standin.to_host(x))


def read_only(case: Case) -> None:
    """An implementation that writes into its arguments raises."""
    for x, _ in case.leaves():
        if isinstance(x, np.ndarray):
            x.flags.writeable = False


def same(found: Any, expected: Any, what: str, rtol: float | None, scale: float = 0.0) -> None:
    """Equal containers, shapes, dtypes and values; `rtol` None: the rule of tests/agreement.py, with `scale`."""
    a, b = tree.leaves(found), tree.leaves(expected)
    assert len(a) == len(b), f"{what}: {len(a)} results instead of {len(b)}"
    if isinstance(expected, (list, dict)) or type(expected) is tuple:
        assert isinstance(found, type(expected)), f"{what}: {type(found).__name__} instead of {type(expected).__name__}"
    for x, y in zip(a, b):
        if not _is_array(y):
            assert x == y, f"{what}: {x!r} instead of {y!r}"
            continue
        x, y = host(x), host(y)
        assert x.shape == y.shape, f"{what}: shape {x.shape} instead of {y.shape}"
        assert x.dtype == y.dtype, f"{what}: dtype {x.dtype} instead of {y.dtype}"
        if y.dtype.kind not in "fciub":
            assert np.array_equal(x, y), f"{what}: {x} instead of {y}"
        elif rtol is None:
            size = float(np.sum(np.abs(y[np.isfinite(y)]))) + 1.0
            assert_agree(x[()], y[()], ulps=8, scale=scale * size, what=what)
        else:
            assert_close(x, y, rtol=rtol, what=what)


def double(case: Case) -> bool:
    """Differences need double precision."""
    return all(np.asarray(x).dtype.char not in "efF" for x, kind in case.leaves() if kind == "diff")


def floats(f: Callable[..., Any]) -> Callable[..., Any]:
    """The inexact results of f, as a list."""
    return lambda *args: _inexact(f(*args))


def _inexact(out: Any) -> list[Any]:
    return [o for o in tree.leaves(out) if _is_array(o) and is_inexact(aval_of(o))]


def _is_array(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex)) or hasattr(x, "shape") and not isinstance(x, (np.dtype, type))


def _arrays(out: Any) -> bool:
    return all(_is_array(x) for x in tree.leaves(out))


# -- what the checks of a case share: each is made once, for the case that is being checked


@functools.lru_cache(maxsize=1)
def value_of(case: Case) -> Any:
    """What the function gives without tracers."""
    read_only(case)
    return case.function()(*case.args)


@functools.lru_cache(maxsize=1)
def reference_of(case: Case) -> Any:
    """What the reference gives."""
    read_only(case)
    reference = case.reference_function()
    assert reference is not None
    return reference(*case.args)


def differentiated(case: Case, function: Any = None) -> tuple[Callable[..., Any], tuple] | None:
    """(function of the differentiable leaves giving float results, these leaves), or None: nothing to differentiate."""
    f, leaves = case.over(function or case.function(), ["diff"])
    if not leaves:
        return None
    value = value_of(case) if function is None else f(*leaves)
    return (floats(f), tuple(leaves)) if _inexact(value) else None


@functools.lru_cache(maxsize=1)
def forward_of(case: Case) -> tuple[tuple, list[Any], list[Any]]:
    """(a direction, results, tangents) of the un-jitted `jvp`."""
    f, leaves = differentiated(case)  # type: ignore[misc]
    ts = tuple(_direction(x, rng_of(case)) for x in leaves)
    return (ts, *jvp(f, leaves, ts))


@functools.lru_cache(maxsize=1)
def backward_of(case: Case) -> tuple[list[Any], Callable[..., Any]]:
    """(results, pullback) of the un-jitted `vjp`."""
    f, leaves = differentiated(case)  # type: ignore[misc]
    return vjp(f, *leaves)


def rng_of(case: Case) -> np.random.Generator:
    return np.random.default_rng(len(case.id))


def check_value(case: Case) -> bool:
    """The function without tracers against the reference."""
    found = value_of(case)
    if case.reference_function() is None:
        return False
    rtol = 1e-6 * case.tolerance if double(case) else 1e-5
    if case.reference is not None or case.agreement is not None:
        rtol = max(rtol, case.agreement or 1e-10)
    same(found, reference_of(case), f"value of {case.id}", rtol)
    return True


def check_plain(case: Case) -> bool:
    """NumPy's own function, called with traced values; in a following trace and in an abstract one."""
    if not case.name.startswith("numpy."):
        return False
    plain = resolve(case.name)[1]
    if plain is None:
        return False
    read_only(case)
    expected = reference_of(case) if case.reference is None else case.function(plain)(*case.args)
    rtol = case.agreement or 1e-12 if double(case) else 1e-5
    done = False
    if "jit" not in case.missing:
        f, leaves = case.over(case.function(plain), ["diff", "traced"])
        if leaves:
            done = True
            same(_under_jit(f, leaves, expected), expected, f"np call of {case.id} under jit", rtol)
    f, leaves = case.over(case.function(plain), ["diff"])
    if case.empty("jvp") is None and leaves:
        done = True
        out = _under_jvp(f, tuple(leaves), expected, rng_of(case))
        same(out, expected, f"np call of {case.id} under jvp", rtol)
    return done


def _under_jit(f: Callable[..., Any], leaves: list[Any], expected: Any) -> Any:
    """jit(f), or what f gave when it was traced, if that is not made of arrays (a dtype, a path)."""
    if _arrays(expected):
        return jit(f)(*leaves)
    found: list[Any] = []
    jit(lambda *xs: found.append(f(*xs)))(*leaves)
    return found[0]


def _under_jvp(f: Callable[..., Any], leaves: tuple, expected: Any, rng: np.random.Generator) -> Any:
    """What f gives in a following trace."""
    ts = tuple(_direction(x, rng) for x in leaves)
    if _arrays(expected):
        return jvp(f, leaves, ts)[0]
    found: list[Any] = []
    jvp(lambda *xs: found.append(f(*xs)), leaves, ts)
    return found[0]


def check_jvp(case: Case) -> bool:
    """Forward mode against central differences along one direction; the value against the function without tracers."""
    read_only(case)
    pair = differentiated(case)
    if pair is None:
        return False
    f, leaves = pair
    ts, out, tangents = forward_of(case)
    same(out, _inexact(value_of(case)), f"value of {case.id} under jvp", case.agreement or 1e-12 if double(case) else 1e-5)
    for o, t in zip(out, tangents):
        o, t = aval_of(o), aval_of(t)
        assert (o.shape, o.dtype) == (t.shape, t.dtype), f"{case.id}: tangent {t} of {o}"
    if double(case):
        for n, t in zip(_numeric(f, leaves, ts, STEP), tangents):
            assert_close(t, n, rtol=case.tolerance, what=f"jvp of {case.id}")
    return True


def check_vjp(case: Case) -> bool:
    """<ct, J t> = <J^T ct, t>."""
    read_only(case)
    pair = differentiated(case)
    if pair is None:
        return False
    _, leaves = pair
    ts, _, tangents = forward_of(case)
    out, pullback = backward_of(case)
    rng = np.random.default_rng(len(case.id) + 1)
    cts = [_direction(o, rng) for o in out]
    found = pullback(cts)
    for x, ct in zip(leaves, found):
        a, b = aval_of(x), aval_of(ct)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), f"{case.id}: cotangent {b} of {a}"
    forward, backward = _pair(cts, tangents), _pair(found, ts)
    size = sum(abs(_pair([c], [t])) for c, t in zip(cts, tangents)) + 1.0
    rtol = 1e-9 if double(case) else 2e-3
    rtol = max(rtol, case.agreement or 0.0)
    assert abs(forward - backward) <= rtol * size, f"{case.id}: <ct, J t> = {forward}, <J^T ct, t> = {backward}"
    return True


def check_second(case: Case) -> bool:
    """Reverse over forward mode against central differences of forward mode."""
    read_only(case)
    pair = differentiated(case)
    if pair is None or not double(case):
        return False
    f, leaves = pair
    rng = rng_of(case)
    ts = tuple(_direction(x, rng) for x in leaves)
    us = tuple(_direction(x, rng) for x in leaves)

    def pushed(*xs: Any) -> Any:
        return jvp(f, xs, ts)[1]

    out, pullback = vjp(pushed, *leaves)
    cts = [_direction(o, rng) for o in out]
    found = _pair(pullback(cts), us)
    differences = _numeric(pushed, leaves, us, STEP)
    numeric = _pair([0.0 if n is None else n for n in differences], cts)
    size = 1.0 + sum(float(np.sum(np.abs(host(n)))) for n in differences) + sum(float(np.sum(np.abs(host(o)))) for o in out)
    assert abs(found - numeric) <= 100 * case.tolerance * size, f"{case.id}: second derivative {found}, differences {numeric}"
    return True


def _lane(x: Any, i: int) -> Any:
    """Example i: slightly other values that keep order, sign and symmetry; integers in another order."""
    if isinstance(x, np.ndarray) and x.dtype.kind in "iub":
        return np.flip(x, 0) if i and x.ndim else x
    x = np.asarray(x)
    return (x * (1 + i * 2.0**-6)).astype(x.dtype)[()]


def check_vmap(case: Case) -> bool:
    """vmap against a loop: every traced argument batched, then one alone."""
    read_only(case)
    f, leaves = case.over(case.function(), ["diff", "traced"])
    if not leaves or not _arrays(value_of(case)):
        return False
    n = len(leaves)
    for axes in [[0] * n] if n == 1 else [[0] * n, [0] + [None] * (n - 1), [None] * (n - 1) + [0]]:
        batched = [np.stack([_lane(x, 0), _lane(x, 1)]) if a == 0 else x for x, a in zip(leaves, axes)]
        lanes = [value_of(case), f(*[_lane(x, 1) if a == 0 else x for x, a in zip(leaves, axes)])]
        split_batch.asking.clear()  # all cases have this lambda, and one that asked for values would speak for the others
        found = vmap(lambda *xs: f(*xs), in_axes=tuple(axes))(*batched)
        expected = [np.stack([host(u), host(v)]) for u, v in zip(*map(tree.leaves, lanes))]
        rtol = case.agreement or (1e-10 if double(case) else 1e-5)
        same(tree.leaves(found), expected, f"vmap of {case.id}, in_axes={axes}", rtol)
    return True


def check_jit(case: Case) -> bool:
    """jit against the function without tracers."""
    read_only(case)
    f, leaves = case.over(case.function(), ["diff", "traced"])
    expected = value_of(case)
    if not _arrays(expected):
        return False
    found = jit(f)(*leaves)
    n = 8.0 + sum(np.size(x) for x in leaves)
    largest = max((float(np.max(np.abs(x))) for x in leaves if np.size(x) and np.isfinite(x).all()), default=1.0)
    same(found, expected, f"jit of {case.id}", case.agreement, scale=n * max(1.0, largest))
    return True


def traced_or_none(case: Case) -> Jaxpr | None:
    """The case as one program of its arrays, if it is one: jit may need several."""
    f, leaves = case.over(case.function(), ["diff", "traced"])
    arrays = lambda *xs: [o for o in tree.leaves(f(*xs)) if _is_array(o)]
    try:
        return trace_function(arrays, [aval_of(x) for x in leaves], name="case")[0]
    except RAISES:
        return None


def check_dtype(case: Case, run: bool = True) -> bool:
    """float32 in: the result dtype of the reference, traced or not; without `run`: as a program of it says, if there is one."""
    read_only(case)
    _, structure = tree.flatten(tuple(case.args))
    narrow = [_narrow(x) if kind == "diff" or kind == "traced" else x for x, kind in case.leaves()]
    if not any(isinstance(x, np.ndarray) and x.dtype.char in "fF" for x in narrow):
        return False
    other = Case(**{**{name: getattr(case, name) for name in Case.__slots__}, "args": structure.unflatten(narrow)})
    reference = other.reference_function()
    with np.errstate(all="ignore"):
        if reference is None:
            for o in floats(other.function())(*other.args):
                assert aval_of(o).dtype.char in "fF", f"{case.id}: {aval_of(o)} from float32"
            expected = other.function()(*other.args)
        else:
            expected = reference(*other.args)
    wanted = [aval_of(o).dtype for o in tree.leaves(expected) if _is_array(o)]
    program = None if run else traced_or_none(other)
    if program is not None:
        found = [a.dtype for a in program.out_avals]
        assert found == wanted, f"{case.id}: float32 gives {found} where it is traced, the reference {wanted}"
        return True
    runs = {"": other.function()(*other.args)}
    if "jit" not in case.missing and _arrays(expected):
        f, leaves = other.over(other.function(), ["diff", "traced"])
        runs["under jit"] = jit(f)(*leaves)
    f, leaves = other.over(other.function(), ["diff"])
    if case.empty("jvp") is None and leaves and _arrays(expected):
        runs["under jvp"] = jvp(f, tuple(leaves), tuple(_direction(x, rng_of(case)) for x in leaves))[0]
    for how, out in runs.items():
        found = [aval_of(o).dtype for o in tree.leaves(out) if _is_array(o)]
        assert found == wanted, f"{case.id}: float32 gives {found} {how}, the reference {wanted}"
    return True


def _narrow(x: Any) -> Any:
    if isinstance(x, np.ndarray) and x.dtype.char in "dD":
        return x.astype(np.float32 if x.dtype.char == "d" else np.complex64)
    return x


class _OnDevice(Case):
    """A case with every array among its arguments on the stand-in device."""

    __slots__ = ("original",)

    def __init__(self, case: Case):
        super().__init__(**{name: getattr(case, name) for name in Case.__slots__})
        self.original = case
        leaves, structure = tree.flatten(tuple(case.args))
        self.args = structure.unflatten([standin.to_device(x) for x in leaves])
        self.kwargs = {k: tree.map(standin.to_device, v) for k, v in case.kwargs.items()}

    def leaves(self) -> list[tuple[Any, str]]:
        return [(d, kind) for d, (_, kind) in zip(tree.leaves(tuple(self.args)), self.original.leaves())]


def check_cupy(case: Case) -> bool:
    """On the stand-in device: the same value and the same derivative, both staying there."""
    expected = value_of(case)
    if not any(isinstance(x, np.ndarray) and kind != "static" for x, kind in case.leaves()):
        return False
    pair = differentiated(case) if case.empty("vjp") is None else None
    with standin.registered():
        moved = _OnDevice(case)
        found = moved.function()(*moved.args)
        for x, y in zip(tree.leaves(found), tree.leaves(expected)):
            if isinstance(y, (np.ndarray, np.generic)):
                assert type(x) is standin.DeviceArray, f"{case.id}: the result is a {type(x).__name__}, not on the device"
        if pair is not None:
            f, xs = moved.over(moved.function(), ["diff"])
            g = floats(f)
            out, pullback = vjp(g, *xs)
            gradients = pullback([standin.wrap(np.ones_like(host(o))) for o in out])
    rtol = case.agreement or (1e-10 if double(case) else 1e-5)
    same([host(x) for x in tree.leaves(found)], [host(x) for x in tree.leaves(expected)], f"{case.id} on the device", rtol)
    if pair is not None:
        out, pullback = backward_of(case)
        wanted = pullback([np.ones_like(host(o))[()] for o in out])
        for x, y in zip(gradients, wanted):
            assert_close(host(x), host(y), rtol=max(rtol, 1e-9), what=f"vjp of {case.id} on the device")
    return True


CHECKS: dict[str, Callable[[Case], bool]] = {
    "value": check_value,
    "plain": check_plain,
    "jvp": check_jvp,
    "vjp": check_vjp,
    "second": check_second,
    "vmap": check_vmap,
    "jit": check_jit,
    "cupy": check_cupy,
    "dtype": check_dtype,
}


def check(cell: str, case: Case) -> bool | None:
    """Run the check of a cell; None for an empty one, which must raise (only "dtype" may be left out)."""
    reason = case.empty(cell)
    if reason is None or cell == "value":
        return CHECKS[cell](case)
    if cell == "dtype":
        return None
    if cell in ("jvp", "vjp", "second"):
        pair = differentiated(case)
        if pair is None:
            return False
    try:
        ran = CHECKS[cell](case)
    except RAISES:
        return None
    except AssertionError as error:
        raise AssertionError(
            f"{case.id}: {cell} is to be missing ({reason}), so it must raise; it gave a wrong result: {error}"
        ) from None
    assert not ran, f"{case.id}: {cell} is to be missing ({reason}), but it works: take it out of missing="
    return False
