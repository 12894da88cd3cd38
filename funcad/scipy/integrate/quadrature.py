"""Integrals of functions: Gauss's rule of fixed order, and SciPy's adaptive `quad`.

Idea: `quad`'s value is SciPy's, computed on the host also in jitted programs; its derivatives are Leibniz's rule. That in the
parameters is the integral of the integrand's derivative, by `quad` again, so all orders follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.forward import jvp
from funcad.control.callback import pure_callback
from funcad.control.closure import closure_convert
from funcad.custom.custom_vjp import custom_vjp
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, aval_of, is_inexact, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import array_of
from funcad.numpy.dispatch import is_traced
from funcad.numpy.fft import floating
from funcad.primitives.conversion import convert
from funcad.primitives.shape import reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import implements, refuse, scipy_function
from funcad.show.docstrings import mirrors

__all__ = ["at_end", "between", "fixed_quad", "quad"]


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


def _by_scipy(f: Callable[..., Any], options: dict[str, Any], a: Any, b: Any, params: Any, others: Any) -> Any:
    """(integral, estimate of its error)."""

    def host(a: Any, b: Any, params: Any, others: Any) -> Any:
        value, error = scipy_function("integrate.quad")(lambda x: float(f(np.float64(x), params, others)), a, b, **options)[:2]
        return np.float64(value), np.float64(error)

    return pure_callback(host, (_DOUBLE, _DOUBLE), a, b, params, others, vmap_method="sequential")


_integral = custom_vjp(_by_scipy, nondiff_argnums=(0, 1))


def at_end(f: Any, x: Any, params: Any, others: Any) -> Any:
    """The integrand at an end of the interval, 0 at an infinite one, which does not move."""
    finite = np.isfinite(x)
    return np.where(finite, f(np.where(finite, x, 0.0), params, others), 0.0)


def _along(f: Any) -> Any:
    """The integrand's derivative in a direction of its parameters, as an integrand of both."""
    return lambda x, both, others: jvp(lambda params: f(x, params, others), (both[0],), (both[1],))[1]


def _forward(f: Any, options: Any, a: Any, b: Any, params: Any, others: Any) -> tuple[Any, Any]:
    return _integral(f, options, a, b, params, others), (a, b, params, others)


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
    ends = -ct * at_end(f, a, params, others), ct * at_end(f, b, params, others)
    return (*ends, structure.unflatten(params_bar), None)


def _tangent(f: Any, options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, b, params, others = primals
    ta, tb, t_params, _ = tangents
    out = _integral(f, options, a, b, params, others)
    moved = at_end(f, b, params, others) * tb - at_end(f, a, params, others) * ta
    if tree.leaves(params):
        moved = moved + _integral(_along(f), options, a, b, (params, t_params), others)[0]
    return out, (moved, np.zeros_like(out[1]))


_integral.defvjp(_forward, _backward)
_integral.defjvp(_tangent)


def between(a: Any, b: Any) -> float:
    """A point inside the interval, to see whether the integrand holds traced values."""
    low, high = [float(x) if np.isfinite(x) else None for x in (a, b)]
    if low is None:
        return 0.0 if high is None else high - 1.0
    return low + 1.0 if high is None else 0.5 * (low + high)


def quad(
    func: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    **options: Any,
) -> tuple[Any, Any]:
    """`scipy.integrate.quad` of a real function, differentiable in a, b, args and what func closes over: (integral, error).

    With traced values func is traced once, abstractly, and full_output, points, weight and complex_func are refused. Each
    number among the parameters costs one more integral in reverse mode.

    >>> import numpy as np, funcad
    >>> area = lambda w: funcad.scipy.integrate.quad(lambda x: np.exp(-w * x**2), -np.inf, np.inf)[0]
    >>> bool(np.isclose(funcad.grad(area)(2.0), -0.25 * np.sqrt(np.pi / 2.0)))
    True
    """
    extra = args if isinstance(args, tuple) else (args,)
    if not is_traced((a, b, *tree.leaves(extra))) and not isinstance(func(between(a, b), *extra), Tracer):
        return scipy_function("integrate.quad")(func, a, b, args, full_output, epsabs, epsrel, limit, **options)
    refuse("integrate.quad", full_output=full_output or None, **{k: v or None for k, v in options.items()})
    extra = tree.map(array_of, extra)
    ends = [convert(floating(v), np.dtype(float)) for v in (a, b)]
    converted, values = closure_convert(func, ends[0], *extra)
    leaves, structure = tree.flatten((extra, tuple(values)))
    floats = [is_inexact(aval_of(x)) for x in leaves]

    def f(x: Any, params: Any, others: Any) -> Any:
        known, unknown = iter(params), iter(others)
        given, hoisted = structure.unflatten([next(known) if is_float else next(unknown) for is_float in floats])
        out = array_of(converted(x, *given, *hoisted))
        if aval_of(out).dtype.kind == "c" or shape_of(out):
            raise TypeError(f"quad integrates functions with one real value; func returned {aval_of(out)}")
        return convert(out, np.dtype(float))

    params = [x for x, is_float in zip(leaves, floats) if is_float]
    others = [x for x, is_float in zip(leaves, floats) if not is_float]
    return _integral(f, dict(epsabs=epsabs, epsrel=epsrel, limit=limit), *ends, params, others)


mirrors([fixed_quad, quad], "scipy.integrate")
