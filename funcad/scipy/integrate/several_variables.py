"""Integrals over several variables, `dblquad`, `tplquad` and `nquad`, and of functions with many values, `quad_vec`.

Idea: an integral over several variables is one over the integral of the others, as SciPy does it: `quad` in `quad`, so values
are SciPy's and Leibniz's rule holds for limits that depend on the outer variables, at every order. `quad_vec` has the same
rule, and in reverse mode integrates the products with all parameters at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.forward import jvp
from funcad.api.tools import ShapeDtypeStruct, eval_shape
from funcad.api.vjp import vjp
from funcad.control.callback import pure_callback
from funcad.control.closure import closure_convert
from funcad.custom.custom_vjp import custom_vjp
from funcad.ir.aval import aval_of, dtype_of, is_inexact, shape_of
from funcad.ir.tracer import Tracer
from funcad.jitted.jit import jit
from funcad.numpy.axes import array_of
from funcad.numpy.dispatch import refuse
from funcad.numpy.fft import floating
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.door import scipy_function
from funcad.scipy.integrate.quadrature import at_end, between, quad
from funcad.show.docstrings import mirrors

__all__ = ["dblquad", "nquad", "quad_vec", "tplquad"]


def _value(x: Any, *outer: Any) -> Any:
    return x(*outer) if callable(x) else x


def _traced(*values: Any) -> bool:
    return any(type(x) is Tracer for x in tree.leaves(values))


def nquad(func: Callable[..., Any], ranges: Sequence[Any], args: Any = (), opts: Any = None, full_output: bool = False) -> Any:
    """`scipy.integrate.nquad` of a real function: (integral, error), differentiable in limits, args and what is closed over.

    With traced values the error is that of the outermost integral, and full_output, points and weight are refused.

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


def _by_scipy(f: Callable[..., Any], options: dict[str, Any], a: Any, b: Any, params: Any, others: Any) -> Any:
    """(integral, estimate of its error)."""
    out = eval_shape(f, a, params, others)
    value = jit(f)

    def host(a: Any, b: Any, params: Any, others: Any) -> Any:
        at = lambda x: np.asarray(value(np.float64(x), params, others))
        integral, error = scipy_function("integrate.quad_vec")(at, float(a), float(b), **options)[:2]
        return np.asarray(integral, out.dtype), np.float64(error)

    shapes = (ShapeDtypeStruct(out.shape, out.dtype), ShapeDtypeStruct((), np.dtype(float)))
    return pure_callback(host, shapes, a, b, params, others, vmap_method="sequential")


_integral = custom_vjp(_by_scipy, nondiff_argnums=(0, 1))


def _pulled(f: Any, structure: Any) -> Any:
    """The integrand of all products with the parameters, as one vector."""

    def integrand(x: Any, both: Any, others: Any) -> Any:
        params, ct = both
        bars = tree.leaves(vjp(lambda params: f(x, params, others), params)[1](ct)[0])
        return concatenate([convert(reshape(v, shape=(aval_of(v).size,)), np.dtype(float)) for v in bars], axis=0)

    return integrand


def _forward(f: Any, options: Any, a: Any, b: Any, params: Any, others: Any) -> tuple[Any, Any]:
    return _integral(f, options, a, b, params, others), (a, b, params, others)


def _backward(f: Any, options: Any, residuals: Any, cts: Any) -> tuple:
    a, b, params, others = residuals
    leaves, structure = tree.flatten(params)
    bars = []
    if leaves:
        options = {k: v for k, v in options.items() if k != "norm"} | {"norm": "max"}
        flat = _integral(_pulled(f, structure), options, a, b, (params, cts[0]), others)[0]
        ends = np.cumsum([aval_of(x).size for x in leaves])
        for x, stop in zip(leaves, ends):
            part = flat[int(stop) - aval_of(x).size : int(stop)]
            bars.append(convert(reshape(part, shape=shape_of(x)), dtype_of(x)))
    moved = [sign * np.sum(cts[0] * at_end(f, x, params, others)) for sign, x in ((-1.0, a), (1.0, b))]
    return (*moved, structure.unflatten(bars), None)


def _tangent(f: Any, options: Any, primals: Any, tangents: Any) -> tuple[Any, Any]:
    a, b, params, others = primals
    ta, tb, t_params, _ = tangents
    out = _integral(f, options, a, b, params, others)
    moved = at_end(f, b, params, others) * tb - at_end(f, a, params, others) * ta
    if tree.leaves(params):
        along = lambda x, both, others: jvp(lambda params: f(x, params, others), (both[0],), (both[1],))[1]
        moved = moved + _integral(along, options, a, b, (params, t_params), others)[0]
    return out, (moved, np.zeros_like(out[1]))


_integral.defvjp(_forward, _backward)
_integral.defjvp(_tangent)


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
    if not _traced(a, b, extra) and not _traced(f(between(a, b), *extra)):
        return scipy_function("integrate.quad_vec")(
            f, a, b, epsabs, epsrel, norm, cache_size, limit, workers, points, quadrature, full_output, args=args
        )
    refuse("integrate.quad_vec", full_output=full_output or None, workers=None if workers == 1 else workers)
    extra = tree.map(array_of, extra)
    ends = [convert(floating(v), np.dtype(float)) for v in (a, b)]
    converted, values = closure_convert(f, ends[0], *extra)
    leaves, structure = tree.flatten((extra, tuple(values)))
    floats = [is_inexact(aval_of(x)) for x in leaves]

    def integrand(x: Any, params: Any, others: Any) -> Any:
        known, unknown = iter(params), iter(others)
        given, hoisted = structure.unflatten([next(known) if is_float else next(unknown) for is_float in floats])
        out = array_of(converted(x, *given, *hoisted))
        if dtype_of(out).kind == "c":
            raise TypeError("quad_vec integrates real functions with traced values; give real and imaginary parts, stacked")
        return convert(out, np.dtype(float))

    params = [x for x, is_float in zip(leaves, floats) if is_float]
    others = [x for x, is_float in zip(leaves, floats) if not is_float]
    options = dict(epsabs=epsabs, epsrel=epsrel, norm=norm, cache_size=cache_size, limit=limit, points=points)
    return _integral(integrand, options | {"quadrature": quadrature}, *ends, params, others)


mirrors([dblquad, nquad, quad_vec, tplquad], "scipy.integrate")
