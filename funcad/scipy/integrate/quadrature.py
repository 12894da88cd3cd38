"""Integrals of functions of one and of several variables, and of samples.

Idea: `quad`'s value is SciPy's, computed on the host also in jitted programs; its derivatives are Leibniz's rule. That in the
parameters is the integral of the integrand's derivative, by `quad` again, so all orders follow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.tools import ShapeDtypeStruct, eval_shape
from funcad.api.vjp import jvp, vjp
from funcad.configuration import mirrors
from funcad.control.callback import pure_callback
from funcad.control.rules import by_points, closure_convert
from funcad.custom.custom_vjp import custom_vjp
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, aval_of, dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.jitted.jit import jit
from funcad.numpy import calculus
from funcad.numpy.dispatch import is_traced, refuse, where_am_i
from funcad.numpy.fft import floating
from funcad.numpy.promote import array_of, axis_of, python_number
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, move_axis, reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import implements, scipy_function, since_1_18
from funcad.scipy.integrate.ode import found_again, parted


@implements("integrate.fixed_quad", always=True)
def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: tuple = (), n: int = 5) -> tuple[Any, None]:
    """`scipy.integrate.fixed_quad`: func may close over traced values; differentiable in a, b and args."""
    a, b = array_of(a), array_of(b)
    if np.any(np.isinf([x for x in (a, b) if is_a(x, float)])):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    nodes, weights = np.polynomial.legendre.leggauss(n)
    half = (b - a) / 2.0
    values = func(half * (constant(nodes, half) + 1.0) + a, *args)
    return half * np.sum(constant(weights, half) * values, axis=-1), None


# ---- quad

_DOUBLE = Aval((), np.dtype(float))
FEW = 16  # integrals of a program, which take less than to compile the integrand


def _by_points(
    f: Callable[..., Any],
    a: Any,
    params: Any,
    others: Any,
    few: int,
    later: bool,
) -> Iterator[Callable[..., Any]]:
    """For each integral in turn the integrand for SciPy: f of a number, and of the leaves of params and others.

    It is compiled after a few of them where they run `later`, for what holds it may be compiled.
    """
    leaves, structure = tree.flatten((params, others))
    flat = closure_convert(lambda x, *leaves: f(x, *structure.unflatten(leaves)), a, *leaves)[0]
    points = by_points(flat)
    if not later:
        return repeat(points)
    return chain(repeat(points, few), repeat(jit(flat)))


@found_again
def _by_scipy(
    f: Callable[..., Any],
    options: Any,
    a: Any,
    b: Any,
    params: Any,
    others: Any,
) -> Any:
    """(integral, estimate of its error)."""
    options = dict(options)
    integrands = _by_points(f, a, params, others, FEW, options.pop("later"))
    options.pop("moving")

    def host(a: Any, b: Any, params: Any, others: Any) -> Any:
        leaves, value_at = tree.leaves((params, others)), next(integrands)
        value, error = scipy_function("integrate.quad")(lambda x: float(value_at(np.float64(x), *leaves)), a, b, **options)[:2]
        return np.float64(value), np.float64(error)

    return pure_callback(host, (_DOUBLE, _DOUBLE), a, b, params, others, vmap_method="sequential")


_integral = custom_vjp(_by_scipy, nondiff_argnums=(0, 1))


def at_end(f: Any, x: Any, params: Any, others: Any) -> Any:
    """The integrand at an end of the interval, 0 at an infinite one, which does not move."""
    finite = np.isfinite(x)
    return np.where(finite, f(np.where(finite, x, 0.0), params, others), 0.0)


def _weight(options: Any, x: Any) -> Any:
    """What the integrand is multiplied with, at an end that moves."""
    options = dict(options)
    name, over = options.get("weight"), options.get("wvar")
    if name is None or name.startswith("alg"):  # whose ends do not move
        return 1.0
    x = np.where(np.isfinite(x), x, 0.0)
    return 1.0 / (x - over) if name == "cauchy" else (np.cos if name == "cos" else np.sin)(over * x)


def _at_ends(f: Any, options: Any, a: Any, b: Any, params: Any, others: Any) -> list[Any]:
    """What is integrated, at both ends; 0 at one that does not move, where it may be infinite."""
    ends = zip((a, b), dict(options)["moving"])
    return [at_end(f, x, params, others) * _weight(options, x) if moves else 0.0 for x, moves in ends]


def _along(f: Any) -> Any:
    """The integrand's derivative in a direction of its parameters, as an integrand of both."""
    return lambda x, both, others: jvp(lambda params: f(x, params, others), (both[0],), (both[1],))[1]


def _forward(
    f: Any,
    options: Any,
    a: Any,
    b: Any,
    params: Any,
    others: Any,
) -> tuple[Any, Any]:
    return _integral(f, options, a, b, params, others), (a, b, params, others)


@found_again
def _backward(f: Any, options: Any, residuals: Any, cts: Any) -> tuple:
    a, b, params, others = residuals
    ct = cts[0]
    leaves, structure = tree.flatten(params)
    params_bar = []
    for i, x in enumerate(leaves):
        size = aval_of(x).size
        parts = []
        for k in range(size):
            direction = [np.zeros(shape_of(p)) for p in leaves]
            direction[i] = reshape(np.eye(size)[k], shape=shape_of(x))
            unit = structure.unflatten([constant(d, p, aval_of(p).dtype) for d, p in zip(direction, leaves)])
            parts.append(_integral(_along(f), options, a, b, (params, unit), others)[0])
        bar = ct * np.stack(parts) if parts else np.zeros(0)
        params_bar.append(convert(reshape(bar, shape=shape_of(x)), aval_of(x).dtype))
    low, high = _at_ends(f, options, a, b, params, others)
    return (-low * ct, high * ct, structure.unflatten(params_bar), None)


@found_again
def _tangent(f: Any, options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, b, params, others = primals
    ta, tb, t_params, _ = tangents
    out = _integral(f, options, a, b, params, others)
    low, high = _at_ends(f, options, a, b, params, others)
    moved = high * tb - low * ta
    if tree.leaves(params):
        moved = moved + _integral(_along(f), options, a, b, (params, t_params), others)[0]
    return out, (moved, np.zeros_like(out[1]))


_integral.defvjp(_forward, _backward)
_integral.defjvp(_tangent)


def _problem(func: Callable[..., Any], ends: Sequence[Any], extra: Any, options: dict[str, Any], check: Any) -> tuple:
    """The operands of `_integral`: the integrand as a program, and whether it runs in one that is compiled."""

    @functools.wraps(func)
    def checked(x: Any, *args: Any) -> Any:
        out = array_of(func(x, *args))
        check(out)
        return convert(out, np.dtype(float))

    f, params, others = parted(*closure_convert(checked, ends[0], *extra), 1, extra, [np.dtype(float)])
    later = any([type(concrete_value(v)) is Tracer for v in (*params, *others)])
    options |= {"moving": tuple(map(is_traced, zip(ends))), "later": later}
    return (f, tuple(options.items()), *ends, params, others)


def between(a: Any, b: Any) -> float:
    """A point inside the interval, to see whether the integrand holds traced values."""
    low, high = [float(x) if np.isfinite(x) else None for x in (a, b)]
    if low is None:
        return 0.0 if high is None else high - 1.0
    return low + 1.0 if high is None else 0.5 * (low + high)


_KNOWN = ("points", "weight", "wvar", "wopts", "maxp1", "limlst")  # they go to SciPy's integrals as they are


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    *more: Any,
    **options: Any,
) -> tuple[Any, Any]:
    """`scipy.integrate.quad`, differentiable in a, b, args and what func closes over: (integral, error).

    With traced values func is traced once, abstractly; points, weight and wvar are known numbers, an algebraic weight has ends
    that are known, and full_output is refused. Each number among the parameters costs one more integral in
    reverse mode.

    >>> import numpy as np, funcad
    >>> area = lambda w: funcad.scipy.integrate.quad(lambda x: np.exp(-w * x**2), -np.inf, np.inf)[0]
    >>> bool(np.isclose(funcad.grad(area)(2.0), -0.25 * np.sqrt(np.pi / 2.0)))
    True
    """
    extra = args if isinstance(args, tuple) else (args,)
    options |= dict(zip((*_KNOWN, "complex_func"), more))
    if not is_traced((a, b, *tree.leaves((extra, options)))) and not isinstance(func(between(a, b), *extra), Tracer):
        return scipy_function("integrate.quad")(func, a, b, args, full_output, epsabs, epsrel, limit, **options)
    if options.pop("complex_func", False):
        each = [lambda x, *p, part=part: part(func(x, *p)) for part in (np.real, np.imag)]
        options |= dict(epsabs=epsabs, epsrel=epsrel, limit=limit)
        (x, error), (y, other) = [quad(f, a, b, args, full_output, **options) for f in each]
        return x + 1j * y, error + 1j * other
    refused = {k: v or None for k, v in options.items() if k not in _KNOWN}
    refuse("integrate.quad", full_output=full_output or None, **refused)
    options = {k: v for k, v in options.items() if k in _KNOWN and v is not None}
    if _traced(options) or str(options.get("weight")).startswith("alg") and _traced(a, b):
        raise TypeError(
            f"integrate.quad{where_am_i()}: points and wvar, and the ends beside an algebraic weight, must be known numbers.\n"
            "Remedy: write the weight into func, and split the integral at points that move; for weight='cauchy' integrate "
            "func(x + wvar) from a - wvar to b - wvar, with wvar=0.0."
        )
    extra = tree.map(array_of, extra)
    ends = [convert(floating(v), np.dtype(float)) for v in (a, b)]

    def check(out: Any) -> None:
        if dtype_of(out).kind == "c" or shape_of(out):
            remedy = "complex_func=True for complex numbers, quad_vec for arrays"
            raise TypeError(f"quad integrates functions with one real value; func returned {said(out)}.\nRemedy: {remedy}.")

    options |= dict(epsabs=epsabs, epsrel=epsrel, limit=limit)
    integral, error = _integral(*_problem(func, ends, extra, options, check))
    return python_number(integral), python_number(error)


mirrors([fixed_quad, quad], "scipy.integrate")


# -- integrals over several variables, `dblquad`, `tplquad` and `nquad`, and of functions with many values, `quad_vec`
#
# Idea: an integral over several variables is one over the integral of the others, as SciPy does it: `quad` in `quad`, so values
# are SciPy's and Leibniz's rule holds for limits that depend on the outer variables, at every order. `quad_vec` has the same
# rule, and in reverse mode integrates the products with all parameters at once.


def _value(x: Any, *outer: Any) -> Any:
    return x(*outer) if callable(x) else x


def _traced(*values: Any) -> bool:
    return any(type(x) is Tracer for x in tree.leaves(values))


def nquad(
    func: Callable[..., Any],
    ranges: Sequence[Any],
    args: Any = (),
    opts: Any = None,
    full_output: bool = False,
) -> Any:
    """`scipy.integrate.nquad` of a real function: (integral, error), differentiable in limits, args and what is closed over.

    With traced values the error is that of the outermost integral, and full_output is refused.

    >>> import numpy as np, funcad
    >>> volume = lambda c: funcad.scipy.integrate.nquad(lambda x, y: c * x * y, [lambda y: (0.0, y), (0.0, 2.0)])[0]
    >>> funcad.grad(volume)(1.0).round(6)
    np.float64(2.0)
    """
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    n = len(ranges)
    options = [opts] * n if opts is None or isinstance(opts, dict) or callable(opts) else list(opts)

    def middle() -> bool:
        """Is there a traced value in the limits, or in what func gives between them?"""
        outer: tuple = ()
        for level in reversed(range(n)):
            low, high = _value(ranges[level], *outer, *args)
            if _traced(low, high):
                return True
            outer = (between(low, high), *outer)
        return _traced(func(*outer, *args))

    if not _traced(args) and not middle():
        return scipy_function("integrate.nquad")(func, ranges, args, opts, full_output)
    refuse("integrate.nquad", full_output=full_output or None)

    def integral(level: int, outer: tuple) -> tuple[Any, Any]:
        low, high = _value(ranges[level], *outer, *args)
        chosen = _value(options[level], *outer, *args) or {}
        inner = lambda x: integral(level - 1, (x, *outer))[0] if level else func(x, *outer, *args)
        return quad(inner, low, high, **chosen)

    return integral(n - 1, ())


def dblquad(
    func: Callable[..., Any], a: Any, b: Any, gfun: Any, hfun: Any, args: Any = (), epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> Any:  # fmt: skip
    """`scipy.integrate.dblquad`: the integral of func(y, x) for y from gfun(x) to hfun(x) and x from a to b; see `nquad`.

    >>> import numpy as np, funcad
    >>> moment = lambda c: funcad.scipy.integrate.dblquad(lambda y, x: c * x * y, 0.0, 2.0, 0.0, lambda x: x)[0]
    >>> funcad.grad(moment)(1.0).round(6)
    np.float64(2.0)
    """
    limits = lambda x, *_: [_value(gfun, x), _value(hfun, x)]
    return nquad(func, [limits, (a, b)], args, {"epsabs": epsabs, "epsrel": epsrel})


def tplquad(
    func: Callable[..., Any], a: Any, b: Any, gfun: Any, hfun: Any, qfun: Any, rfun: Any, args: Any = (),
    epsabs: float = 1.49e-8, epsrel: float = 1.49e-8,
) -> Any:  # fmt: skip
    """`scipy.integrate.tplquad`: the integral of func(z, y, x) for z from qfun(x, y) to rfun(x, y), y and x as in `dblquad`."""
    inner = lambda y, x, *_: [_value(qfun, x, y), _value(rfun, x, y)]
    limits = lambda x, *_: [_value(gfun, x), _value(hfun, x)]
    return nquad(func, [inner, limits, (a, b)], args, {"epsabs": epsabs, "epsrel": epsrel})


# ---- quad_vec


@found_again
def _box_by_scipy(
    f: Callable[..., Any],
    options: Any,
    a: Any,
    b: Any,
    params: Any,
    others: Any,
) -> Any:
    """(integral, estimate of its error)."""
    out = eval_shape(f, a, params, others)
    options = dict(options)
    integrands = _by_points(f, a, params, others, 0, options.pop("later"))
    options.pop("moving")

    def host(a: Any, b: Any, params: Any, others: Any) -> Any:
        leaves, value_at = tree.leaves((params, others)), next(integrands)
        at = lambda x: np.array(value_at(np.float64(x), *leaves))
        integral, error = scipy_function("integrate.quad_vec")(at, float(a), float(b), **options)[:2]
        return np.asarray(integral, out.dtype), np.float64(error)

    shapes = (ShapeDtypeStruct(out.shape, out.dtype), ShapeDtypeStruct((), np.dtype(float)))
    return pure_callback(host, shapes, a, b, params, others, vmap_method="sequential")


_box_integral = custom_vjp(_box_by_scipy, nondiff_argnums=(0, 1))


def _pulled(f: Any, structure: Any) -> Any:
    """The integrand of all products with the parameters, as one vector."""

    def integrand(x: Any, both: Any, others: Any) -> Any:
        params, ct = both
        bars = tree.leaves(vjp(lambda params: f(x, params, others), params)[1](ct)[0])
        return concatenate([convert(reshape(v, shape=(aval_of(v).size,)), np.dtype(float)) for v in bars], axis=0)

    return integrand


def _box_forward(
    f: Any,
    options: Any,
    a: Any,
    b: Any,
    params: Any,
    others: Any,
) -> tuple[Any, Any]:
    return _box_integral(f, options, a, b, params, others), (a, b, params, others)


@found_again
def _box_backward(f: Any, options: Any, residuals: Any, cts: Any) -> tuple:
    a, b, params, others = residuals
    leaves, structure = tree.flatten(params)
    bars = []
    if leaves:
        options = tuple((dict(options) | {"norm": "max"}).items())
        flat = _box_integral(_pulled(f, structure), options, a, b, (params, cts[0]), others)[0]
        ends = np.cumsum([aval_of(x).size for x in leaves])
        for x, stop in zip(leaves, ends):
            part = flat[int(stop) - aval_of(x).size : int(stop)]
            bars.append(convert(reshape(part, shape=shape_of(x)), dtype_of(x)))
    low, high = _at_ends(f, options, a, b, params, others)
    return (-np.sum(cts[0] * low), np.sum(cts[0] * high), structure.unflatten(bars), None)


@found_again
def _box_tangent(f: Any, options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, b, params, others = primals
    ta, tb, t_params, _ = tangents
    out = _box_integral(f, options, a, b, params, others)
    low, high = _at_ends(f, options, a, b, params, others)
    moved = high * tb - low * ta
    if tree.leaves(params):
        along = lambda x, both, others: jvp(lambda params: f(x, params, others), (both[0],), (both[1],))[1]
        moved = moved + _box_integral(along, options, a, b, (params, t_params), others)[0]
    return out, (moved, np.zeros_like(out[1]))


_box_integral.defvjp(_box_forward, _box_backward)
_box_integral.defjvp(_box_tangent)


def quad_vec(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    norm: str = "2",
    cache_size: float = 1e8,
    limit: float = 10000,
    workers: Any = 1,
    points: Any = None,
    quadrature: Any = None,
    full_output: bool = False,
    *,
    args: Any = (),
) -> Any:
    """`scipy.integrate.quad_vec`: (integral, error) of a real function whose values are arrays.

    Differentiable in a, b, args and what f closes over; reverse mode costs one more integral for all parameters together. With
    traced values full_output and other workers than 1 are refused.

    >>> import numpy as np, funcad
    >>> moments = lambda w: funcad.scipy.integrate.quad_vec(lambda x: x ** np.arange(3) * np.exp(-w * x), 0.0, np.inf)[0]
    >>> funcad.jacobian(moments)(1.0).round(6)
    array([-1., -2., -6.])
    """
    extra = args if isinstance(args, tuple) else (args,)
    # at two points: SciPy's own integrands of infinite intervals, which come here too, are plain zeros in the middle
    if not _traced(a, b, extra) and not _traced([f(x, *extra) for x in (between(a, b), between(a, between(a, b)))]):
        return scipy_function("integrate.quad_vec")(
            f, a, b, epsabs, epsrel, norm, cache_size, limit, workers, points, quadrature, full_output, args=args
        )
    refuse("integrate.quad_vec", full_output=full_output or None, workers=None if workers == 1 else workers)
    extra = tree.map(array_of, extra)
    ends = [convert(floating(v), np.dtype(float)) for v in (a, b)]

    def check(out: Any) -> None:
        if dtype_of(out).kind == "c":
            raise TypeError(
                "quad_vec integrates real functions with traced values.\n"
                "Remedy: give the real and the imaginary part, stacked."
            )

    options = dict(epsabs=epsabs, epsrel=epsrel, norm=norm, cache_size=cache_size, limit=limit, points=points)
    return _box_integral(*_problem(f, ends, extra, options | {"quadrature": quadrature}, check))


mirrors([dblquad, nquad, quad_vec, tplquad], "scipy.integrate")


# -- integrals of sampled functions: the rules of trapezoids, of Simpson and of Romberg


@implements("integrate.trapezoid", lift=True)
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    return calculus.trapezoid(y, x, dx, axis)


def _lines(y: Any, axis: int) -> tuple[Any, int, int]:
    """y with the axis at the end, the axis and the rank."""
    y = floating(y)
    rank = len(shape_of(y))
    axis = axis_of(axis, rank)
    return move_axis(y, axis, rank - 1), axis, rank


def _steps(x: Any, dx: Any, y: Any, axis: int, rank: int) -> Any:
    """The widths of the intervals, broadcasting against y's last axis."""
    n = shape_of(y)[-1]
    if x is None:
        if is_a(dx, (int, float, np.generic)):
            return constant(np.full(n - 1, dx), y)
        dx = array_of(dx)
        if len(shape_of(dx)) > 1:
            dx = move_axis(dx, axis_of(axis, len(shape_of(dx))), len(shape_of(dx)) - 1)
        return np.broadcast_to(dx, (*shape_of(dx)[:-1], n - 1)) if len(shape_of(dx)) != 1 else dx
    x = array_of(x)
    if len(shape_of(x)) == 1:
        if shape_of(x)[0] != n:
            raise ValueError("If given, length of x along axis must be the same as y.")
        return np.diff(x)
    if len(shape_of(x)) != rank:
        raise ValueError("If given, shape of x must be 1-D or the same as y.")
    x = move_axis(x, axis, rank - 1)
    if shape_of(x)[-1] != n:
        raise ValueError("If given, length of x along axis must be the same as y.")
    return np.diff(x)


def _with_initial(result: Any, initial: Any, axis: int, rank: int) -> Any:
    if initial is not None:
        result = np.concatenate([np.zeros_like(result[..., :1]) + initial, result], axis=-1)
    return move_axis(result, rank - 1, axis)


@implements("integrate.cumulative_trapezoid", lift=True)
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    y, axis, rank = _lines(y, axis)
    if not shape_of(y)[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    parts = _steps(x, dx, y, axis, rank) * (y[..., 1:] + y[..., :-1]) / 2.0
    return _with_initial(np.cumsum(parts, axis=-1), initial, axis, rank)


@implements("integrate.simpson", lift=True)
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """`scipy.integrate.simpson`: with an even number of samples the last interval has a rule of its own."""
    y, axis, rank = _lines(y, axis)
    n = shape_of(y)[-1]
    h = _steps(x, dx, y, axis, rank)
    h = h if n == 2 or x is None or since_1_18() else _double(h)  # as SciPy
    if n == 2:
        return np.sum(h * (y[..., :1] + y[..., 1:]) / 2.0, axis=-1)
    stop = n if n % 2 else n - 1
    h0, h1 = h[..., 0 : stop - 1 : 2], h[..., 1 : stop - 1 : 2]
    y0, y1, y2 = [y[..., i : stop - 2 + i : 2] for i in range(3)]
    total, ratio = h0 + h1, _ratio(h0, h1)
    middle = _ratio(total * total, h0 * h1)
    parts = total / 6.0 * (y0 * (2.0 - _ratio(1.0, ratio)) + y1 * middle + y2 * (2.0 - ratio))
    result = np.sum(parts, axis=-1)
    if n % 2 or n < 2:
        return result
    h0, h1 = h[..., -2], h[..., -1]
    last = _ratio(2 * h1**2 + 3 * h0 * h1, 6 * (h1 + h0))
    before = _ratio(h1**2 + 3 * h0 * h1, 6 * h0)
    first = _ratio(h1**3, 6 * h0 * (h0 + h1))
    return result + last * y[..., -1] + before * y[..., -2] - first * y[..., -3]


def _ratio(a: Any, b: Any) -> Any:
    """a / b, and 0 where b is 0: intervals of no width add nothing."""
    empty = np.equal(b, 0.0)
    return np.where(empty, 0.0, a / np.where(empty, 1.0, b))


def _parabolas(y: Any, h: Any) -> Any:
    """The integral of the parabola through three neighbours over the first of their two intervals."""
    h0, h1 = h[..., :-1], h[..., 1:]
    share = h0 / (h0 + h1)
    excess = share * h0 / h1
    return h0 / 6.0 * ((3.0 - share) * y[..., :-2] + (3.0 + excess + share) * y[..., 1:-1] - excess * y[..., 2:])


@implements("integrate.cumulative_simpson", lift=True)
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    y, axis, rank = _lines(y, axis)
    h = _steps(x, dx, y, axis, rank)
    n = shape_of(y)[-1]
    h = _double(h) if n > 2 and x is None else h  # as SciPy
    if n < 3:
        result = np.cumsum(h * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    else:
        h = np.broadcast_to(h, (*shape_of(y)[:-1], n - 1))
        first = _parabolas(y, h)
        second = np.flip(_parabolas(np.flip(y, -1), np.flip(h, -1)), -1)
        even, odd = first[..., ::2], second[..., ::2]  # by the parabola to the right, by that to the left
        both = np.stack([even, odd], axis=-1)
        parts = reshape(both, shape=(*shape_of(both)[:-2], 2 * shape_of(both)[-2]))
        if n % 2 == 0:
            parts = np.concatenate([parts[..., : n - 2], second[..., -1:]], axis=-1)
        result = np.cumsum(parts, axis=-1)
    if initial is not None:
        result = _double(result) + initial
    return _with_initial(result, initial, axis, rank)


def _double(x: Any) -> Any:
    return convert(x, np.result_type(dtype_of(x), float))
