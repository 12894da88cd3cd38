"""Numeric checks of derivatives and of batching, for your own functions and custom rules.

Idea: along one random direction a derivative is one number per output, so central differences check a whole Jacobian with two
calls of f. `check_jvp` compares forward mode with differences, `check_vjp` compares reverse mode with differences through
<ct, J t> = <J^T ct, t>, `check_grads` does both to any order, and `check_batch` compares `vmap` with a Python loop. They take
pytrees, ignore integer leaves, and raise AssertionError saying which output or argument differs, at which order and in which
mode. Complex numbers: a direction is complex, and the pairing is the real part of sum(a * b), without conjugation, as in
`funcad.vjp`. Trap: differences mean nothing at a kink or beside a pole; move the arguments away from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import float0
from funcad.api.vjp import jvp, vjp
from funcad.api.vmap import vmap
from funcad.certificate import Certificate, Check, certify
from funcad.host.real_types import dtype_kind, is_a
from funcad.ir.aval import aval_of, is_inexact, said

__all__ = ["check_jvp", "check_vjp", "check_grads", "check_batch", "certify", "Certificate", "Check"]


def __dir__() -> list[str]:
    return sorted(__all__)

# (step of the differences, tolerance), by bytes of the narrowest real number involved
_DEFAULTS = {2: (2.0**-4, 1e-1), 4: (2.0**-8, 2e-3), 8: (2.0**-17, 1e-6), 16: (2.0**-17, 1e-6)}
_BATCH_TOLERANCE = {2: 1e-2, 4: 1e-5, 8: 1e-11, 16: 1e-11}


def _host(x: Any) -> np.ndarray:
    """x as a NumPy array, whichever device it is on."""
    return np.asarray(x.get() if hasattr(x, "get") and not is_a(x, np.generic) else x)


def _width(leaves: Sequence[Any]) -> int:
    """Bytes of the narrowest float among the leaves (of a complex number: of its parts)."""
    widths = [a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) for a in map(aval_of, leaves) if is_inexact(a)]
    return min(widths, default=8)


def _direction(x: Any, rng: np.random.Generator) -> Any:
    """A random tangent for x: in its dtype, on its device; float0 if it has no derivative."""
    aval = aval_of(x)
    if not is_inexact(aval):
        return np.zeros(aval.shape, float0)
    t = rng.normal(size=aval.shape)
    if aval.dtype.kind == "c":
        t = t + 1j * rng.normal(size=aval.shape)
    if not aval.shape:
        return aval.dtype.type(t)
    return _like(np.asarray(t, aval.dtype), x)


def _like(array: np.ndarray, x: Any) -> Any:
    """The array on the device of x."""
    if is_a(x, (np.ndarray, np.generic, bool, int, float, complex)):
        return array
    moved = type(x)(array.shape, array.dtype)
    moved.set(array)
    return moved


def _step(x: Any, t: Any, h: float) -> Any:
    if not is_inexact(aval_of(x)):
        return x
    moved = x + t * aval_of(x).dtype.type(h)
    return moved.astype(aval_of(x).dtype) if hasattr(moved, "astype") else moved


def _numeric(f: Callable[..., Any], args: tuple, tangents: tuple, eps: float) -> list[Any]:
    """Central differences of every float leaf of f's output along `tangents` (None for the other leaves)."""
    up = tree.leaves(f(*tree.map(lambda x, t: _step(x, t, eps), args, tangents)))
    down = tree.leaves(f(*tree.map(lambda x, t: _step(x, t, -eps), args, tangents)))
    wide = [np.result_type(_host(u).dtype, np.float64) for u in up]
    return [
        (_host(u).astype(w) - _host(d).astype(w)) / (2 * eps) if is_inexact(aval_of(u)) else None
        for u, d, w in zip(up, down, wide)
    ]


def _pair(xs: Any, ys: Any) -> float:
    """Real part of sum(x * y) over all float leaves."""
    total = 0.0
    for x, y in zip(tree.leaves(xs), tree.leaves(ys)):
        x, y = _host(x), _host(y)
        if dtype_kind(x.dtype) in "fc" and dtype_kind(y.dtype) in "fc":
            total += float(np.sum(x.astype(complex) * y).real)
    return total


def _path(example: Any, i: int) -> str:
    return tree.keystr(tree.flatten_with_path(example)[0][i][0])


def _label(kind: str, path: str) -> str:
    return f"{kind} {path}" if path else f"the {kind}"


def _short(x: Any) -> str:
    return np.array2string(np.asarray(x), precision=10, threshold=12)


def _mismatch(numeric: Any, analytic: Any, atol: float, rtol: float) -> str | None:
    """What is wrong, or None. The tolerance is relative to the largest element: the small ones carry its rounding errors."""
    numeric, analytic = np.asarray(numeric), np.asarray(analytic)
    if numeric.shape != analytic.shape:
        return f"shapes differ: {numeric.shape} and {analytic.shape}"
    if numeric.size == 0:
        return None
    if not np.isfinite(numeric).all():
        return "the numeric derivative is not finite here: choose other arguments"
    difference = np.abs(numeric - analytic)
    bound = atol + rtol * np.max(np.abs(numeric))
    if np.all(difference <= bound):
        return None
    return f"largest difference {np.max(difference):.3g}, allowed {bound:.3g}"


def _settings(args: tuple, atol: Any, rtol: Any, eps: Any) -> tuple[float, float, float]:
    step, tolerance = _DEFAULTS[_width(tree.leaves(args))]
    return tolerance if atol is None else atol, tolerance if rtol is None else rtol, step if eps is None else eps


def _as_args(args: Any, what: str) -> tuple:
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"{what}: args must be a tuple with one entry per argument of f, got {type(args).__name__}: write (x,)")
    return tuple(args)


def check_jvp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Compare forward mode of `f(*args)` with central differences along a random direction.

    `args` is a tuple of pytrees; integer leaves stay as they are. `eps` is the step, `atol` and `rtol` the tolerances (by
    default chosen by the narrowest dtype: 1e-6 for float64); rtol is relative to the largest element of an output. Raises
    AssertionError naming the output that differs.

    >>> import numpy as np, funcad.testing
    >>> funcad.testing.check_jvp(lambda x: {"y": np.sin(x)}, (np.ones(3),))
    """
    _check_jvp(f, _as_args(args, "check_jvp"), _settings(tuple(args), atol, rtol, eps), np.random.default_rng(seed), "fwd", 1)


def _check_jvp(f: Callable[..., Any], args: tuple, settings: tuple, rng: np.random.Generator, mode: str, order: int) -> None:
    atol, rtol, eps = settings
    tangents = tree.map(lambda x: _direction(x, rng), args)
    out, out_tangents = jvp(f, args, tangents)
    numeric = _numeric(f, args, tangents, eps)
    for i, (n, t) in enumerate(zip(numeric, tree.leaves(out_tangents))):
        if n is None:
            continue
        wrong = _mismatch(n, _host(t), atol, rtol)
        if wrong:
            raise AssertionError(
                f"derivative of order {order}, mode {mode}: {_label('output', _path(out, i))} differs from central differences "
                f"({wrong}).\nnumeric:  {_short(n)}\nanalytic: {_short(_host(t))}"
            )


def check_vjp(
    f: Callable[..., Any],
    args: Sequence[Any],
    *,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    seed: int = 0,
) -> None:
    """Compare reverse mode of `f(*args)` with central differences, through <ct, J t> = <J^T ct, t> for random ct and t.

    Options as `check_jvp`; also checks that every cotangent has its argument's shape and dtype. Raises AssertionError
    naming the argument that differs.

    >>> import numpy as np, funcad.testing
    >>> funcad.testing.check_vjp(lambda x, y: x * np.exp(y), (np.ones(3), np.zeros(3)))
    """
    _check_vjp(f, _as_args(args, "check_vjp"), _settings(tuple(args), atol, rtol, eps), np.random.default_rng(seed), "rev", 1)


def _check_vjp(f: Callable[..., Any], args: tuple, settings: tuple, rng: np.random.Generator, mode: str, order: int) -> None:
    atol, rtol, eps = settings
    tangents = tree.map(lambda x: _direction(x, rng), args)
    out, pullback = vjp(f, *args)
    cotangents = tree.map(lambda x: _direction(x, rng), out)
    found = tree.leaves(pullback(cotangents))
    where = f"derivative of order {order}, mode {mode}"
    for i, (x, ct) in enumerate(zip(tree.leaves(args), found)):
        aval = aval_of(x)
        if is_inexact(aval) and (ct.shape != aval.shape or ct.dtype != aval.dtype):
            raise AssertionError(f"{where}: the cotangent of {_label('argument', _path(args, i))} is {said(ct)}, not {aval}")
    numeric = _paired_numeric(f, args, tangents, cotangents, eps)
    analytic = _pair(found, tangents)
    size = sum(abs(_pair([ct], [t])) for ct, t in zip(found, tree.leaves(tangents)))
    if abs(numeric - analytic) <= atol + rtol * max(size, abs(numeric)):
        return
    lines = []
    leaves, structure = tree.flatten(tangents)
    for i, t in enumerate(leaves):  # one argument at a time, to say which
        alone = structure.unflatten([u if i == j else np.zeros_like(u) for j, u in enumerate(leaves)])
        n, a = _paired_numeric(f, args, alone, cotangents, eps), _pair([found[i]], [t])
        if not abs(n - a) <= atol + rtol * abs(n):
            lines.append(f"{_label('argument', _path(args, i))}: numeric {n:.10g}, analytic {a:.10g}")
    lines = lines or [f"all arguments together: numeric {numeric:.10g}, analytic {analytic:.10g}"]
    raise AssertionError(f"{where}: differs from central differences.\n" + "\n".join(lines))


def _paired_numeric(f: Callable[..., Any], args: tuple, tangents: Any, cotangents: Any, eps: float) -> float:
    numeric = _numeric(f, args, tangents, eps)
    return _pair([0.0 if n is None else n for n in numeric], cotangents)


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
    *,
    seed: int = 0,
) -> None:
    """Compare all derivatives of `f(*args)` up to an order with central differences.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any output.
    args : tuple or list
        Its arguments, away from kinks. Integers stay as they are.
    order : int
        The highest order; 2 by default.
    modes : sequence of {"fwd", "rev"}
        Which modes to nest, in every way: of order 2 "fwd over fwd", "fwd over rev" and so on.
    atol, rtol : float, optional
        The tolerances, chosen by the narrowest dtype: 1e-6 for float64. rtol is relative to the largest element of an
        output.
    eps : float, optional
        The step of the differences.
    seed : int
        Of the random directions.

    Returns
    -------
    None

    Raises
    ------
    AssertionError
        A derivative differs. The message names the order, the mode, and the output or argument.

    Notes
    -----
    As `jax.test_util.check_grads`.

    Examples
    --------
    >>> import numpy as np, funcad.testing
    >>> funcad.testing.check_grads(lambda x: np.sum(np.sin(x) * x), (np.linspace(0.0, 1.0, 4),))
    >>> wrong = funcad.custom_vjp(np.sin)
    >>> wrong.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (2.0 * ct * np.cos(x),))
    >>> funcad.testing.check_grads(wrong, (1.0,), order=1, modes=["rev"])  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    AssertionError: ...

    See also
    --------
    check_jvp, check_vjp, check_batch, certify
    """
    for mode in modes:
        if mode not in ("fwd", "rev"):
            raise ValueError(f'check_grads: modes must hold "fwd" and "rev", got {mode!r}')
    args = _as_args(args, "check_grads")
    _check_grads(f, args, order, modes, _settings(args, atol, rtol, eps), np.random.default_rng(seed), "", 1)


def _check_grads(
    f: Callable[..., Any], args: tuple, orders: int, modes: Sequence[str], settings: tuple, rng: Any, over: str, order: int
) -> None:
    if orders < 1:
        return
    for mode in modes:
        name = f"{mode} over {over}" if over else mode
        (_check_jvp if mode == "fwd" else _check_vjp)(f, args, settings, rng, name, order)
        if orders == 1:
            continue
        derivative = _pushed(f, args, rng) if mode == "fwd" else _pulled(f, args, rng)
        _check_grads(derivative, args, orders - 1, modes, settings, rng, name, order + 1)


def _pushed(f: Callable[..., Any], args: tuple, rng: np.random.Generator) -> Callable[..., Any]:
    tangents = tree.map(lambda x: _direction(x, rng), args)
    return lambda *xs: _inexact_leaves(jvp(f, xs, tangents)[1])


def _pulled(f: Callable[..., Any], args: tuple, rng: np.random.Generator) -> Callable[..., Any]:
    cotangents = tree.map(lambda x: _direction(x, rng), f(*args))
    return lambda *xs: _inexact_leaves(vjp(f, *xs)[1](cotangents))


def _inexact_leaves(values: Any) -> list[Any]:
    """The leaves that are not float0."""
    return [x for x in tree.leaves(values) if getattr(x, "dtype", None) != float0]


def check_batch(
    f: Callable[..., Any],
    args: Sequence[Any],
    in_axes: Any = 0,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> None:
    """Compare `vmap(f, in_axes)(*args)` with a Python loop over the mapped axes.

    `args` already have their mapped axes. Raises AssertionError naming the output that differs, in shape, dtype or value.

    >>> import numpy as np, funcad.testing
    >>> funcad.testing.check_batch(lambda x, y: np.sin(x) * y, (np.ones((5, 3)), np.ones(3)), in_axes=(0, None))
    """
    args = _as_args(args, "check_batch")
    tolerance = _BATCH_TOLERANCE[_width(tree.leaves(args))]
    atol, rtol = tolerance if atol is None else atol, tolerance if rtol is None else rtol
    leaves, structure = tree.flatten(args)
    axes = tree.flatten_axes("in_axes", structure, in_axes)
    found = vmap(f, in_axes=in_axes)(*args)
    size = next(aval_of(x).shape[a] for x, a in zip(leaves, axes) if a is not None)
    for i in range(size):
        one = [x if a is None else x[(slice(None),) * (a % x.ndim) + (i,)] for x, a in zip(leaves, axes)]
        expected = f(*structure.unflatten(one))
        for j, (e, b) in enumerate(zip(tree.leaves(expected), tree.leaves(found))):
            e, b = _host(e), _host(b[i])
            where = f"vmap: {_label('output', _path(expected, j))} of example {i}"
            if e.shape != b.shape or e.dtype != b.dtype:
                raise AssertionError(f"{where} should have shape {e.shape} and dtype {e.dtype}; got {b.shape}, {b.dtype}")
            if not np.allclose(b, e, rtol=rtol, atol=atol, equal_nan=True):
                raise AssertionError(f"{where} differs from f of that example.\nloop: {_short(e)}\nvmap: {_short(b)}")
