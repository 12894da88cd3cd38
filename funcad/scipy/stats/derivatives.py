"""Derivatives that are said rather than derived: of inverses, of functions through singular points, of SciPy's own values."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.api.forward import jvp
from funcad.api.tools import ShapeDtypeStruct, stop_gradient
from funcad.control.callback import pure_callback
from funcad.custom.custom_jvp import custom_jvp
from funcad.host.devices import device_in_use, namespace_of
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import is_traced
from funcad.numpy.promote import promote, promote_shaped
from funcad.scipy.door import scipy_function
from funcad.scipy.stats.arguments import replaced

__all__ = ["from_scipy", "inverse_of", "known_density", "with_ends", "with_rule"]


def with_rule(value: Callable[..., Any], rule: Callable[..., Any]) -> Callable[..., Any]:
    """`value(y, *parameters)` with the derivative `rule(out, args, tangents)`, where a tangent is None if it is zero."""

    @functools.cache
    def function(known: tuple[int, ...]) -> Any:  # arguments that are not traced have no derivative to be computed
        f = custom_jvp(value, nondiff_argnums=known)

        def jvp_rule(*given: Any) -> tuple[Any, Any]:
            *constants, primals, tangents = given
            pairs = list(zip(primals, tangents))
            for i, constant in zip(known, constants):
                pairs.insert(i, (constant, None))
            args = [p for p, _ in pairs]
            out = f(*args)
            return out, rule(out, args, [t for _, t in pairs])

        f.defjvp(jvp_rule)
        return f

    def call(*args: Any) -> Any:
        args = tuple(promote(*args))
        known = tuple([i for i, a in enumerate(args) if type(a) is not Tracer])
        return value(*args) if len(known) == len(args) else function(known)(*args)

    return call


def _by_parameters(f: Callable[..., Any], parameters: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The tangent of `f(*parameters)`; None if all are zero."""
    moved = [i for i, t in enumerate(tangents) if t is not None]
    if not moved:
        return None

    def of_moved(*values: Any) -> Any:
        full = list(parameters)
        for i, value in zip(moved, values):
            full[i] = value
        return f(*full)

    return jvp(of_moved, tuple([parameters[i] for i in moved]), tuple([tangents[i] for i in moved]))[1]


def _sum(s: Any, t: Any) -> Any:
    return t if s is None else s if t is None else s + t


def known_density(cdf: Callable[..., Any], logpdf: Callable[..., Any]) -> Callable[..., Any]:
    """The distribution function of a density that is symmetric about 0, whose derivative in y is said to be the density.

    For formulas that are singular at 0, where the distribution is not: there, the derivative in the parameters is 0.
    """

    def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
        y, *parameters = args
        centre = y == 0
        beside = replaced(y, centre, 1.0)
        t = _by_parameters(lambda *p: cdf(beside, *p), parameters, tangents[1:])
        t = None if t is None else replaced(t, centre, 0.0)
        return t if tangents[0] is None else _sum(fnp.exp(logpdf(*args)) * tangents[0], t)

    return with_rule(cdf, rule)


def inverse_of(goal: Callable[..., Any], slope: Callable[..., Any], values: Callable[..., Any]) -> Callable[..., Any]:
    """x with goal(x, *parameters) = q, computed by `values(q, *parameters)`; `slope` is the derivative of goal in x."""

    def rule(out: Any, args: Sequence[Any], tangents: Sequence[Any]) -> Any:
        parameters = args[1:]
        t = _by_parameters(lambda *p: goal(out, *p), parameters, tangents[1:])
        t = _sum(tangents[0], None if t is None else -t)
        return t / slope(out, *parameters)

    return with_rule(values, rule)


def with_ends(logpdf: Callable[..., Any], at_ends: Callable[..., Any], ends: Sequence[float] = (0.0,)) -> Callable[..., Any]:
    """The density exp(logpdf); at ends of the support, where its logarithm is infinite, `at_ends` computes it directly."""

    def pdf(y: Any, *parameters: Any) -> Any:
        ended = y == ends[0]
        for end in ends[1:]:
            ended = ended | (y == end)
        inside = fnp.exp(logpdf(replaced(y, ended, 0.5), *parameters))
        if type(ended) is not Tracer and not ended.any():
            return inside
        return fnp.where(ended, at_ends(fnp.where(ended, y, 0.5), *parameters), inside)

    return pdf


def from_scipy(path: str, *args: Any) -> Any:
    """`scipy.<path>(*args)`, elementwise and without derivative; compiled programs call it when they run."""

    def call(*values: Any) -> Any:
        values = tuple([np.asarray(v) for v in values])
        return np.asarray(scipy_function(path)(*values), dtype=values[0].dtype)

    if not is_traced(args):
        if device_in_use() and namespace_of(args) is not np:
            raise NotImplementedError(
                f"scipy.{path} is computed on the CPU only.\n"
                "Compute it there: funcad.device_get(x), then funcad.device_put of the result."
            )
        return call(*args)[()]
    args = tuple(promote_shaped(*[stop_gradient(a) for a in args]))
    result = ShapeDtypeStruct(shape_of(args[0]), dtype_of(args[0]))
    return pure_callback(call, result, *args, vmap_method="broadcast_all")
