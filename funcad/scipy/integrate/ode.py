"""Ordinary differential equations, differentiable in both modes.

Idea: the solver is a function with rules of its own, so nothing of its steps is kept. Reverse mode integrates the adjoint
equations backwards from each time to the one before, starting from the stored states; forward mode integrates the tangent
equations beside the state. Both are differential equations again, solved by the same function: all orders follow. What `func`
closes over becomes an argument. Tangents and cotangents are brought to the size 1 before they are integrated, so that the
absolute tolerance means the same for all of them.
Trap: a stiff equation cannot be integrated backwards, where it explodes. There reverse mode integrates the tangent equations of
every number in the state and the parameters, forwards, and multiplies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import name_of
from funcad.api.forward import jvp
from funcad.api.vjp import vjp
from funcad.api.vmap import vmap
from funcad.control.closure import closure_convert
from funcad.control.scan import scan
from funcad.custom.custom_vjp import custom_vjp
from funcad.host.progress import working
from funcad.ir.aval import aval_of, dtype_of, is_inexact, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.axes import array_of
from funcad.primitives.conversion import convert, real, stop_gradient
from funcad.primitives.shape import reshape
from funcad.scipy.integrate.runge_kutta_solvers import RK45, Options, solve
from funcad.scipy.integrate.steps_of_scipy import solve_by_scipy

__all__ = ["floats", "integrate", "odeint", "prepared", "sign_of"]


# ---------------------------------------------------------------- the solver and its rules


def _pack(leaves: Sequence[Any], dtype: np.dtype) -> Any:
    """The leaves as one vector."""
    flat = []
    for x in leaves:
        x = x if len(shape_of(x)) == 1 else reshape(x, shape=(aval_of(x).size,))
        x = real(x) if dtype_of(x).kind == "c" and dtype.kind != "c" else x
        flat.append(x if dtype_of(x) == dtype else convert(x, dtype))
    return np.concatenate(flat) if len(flat) != 1 else flat[0]


def _unpack(vector: Any, avals: Sequence[Any], lead: tuple = ()) -> list[Any]:
    """The leaves behind the last axis of an array with leading axes `lead`."""
    leaves, start = [], 0
    for aval in avals:
        part = vector if len(avals) == 1 else vector[..., start : start + aval.size]
        start += aval.size
        part = real(part) if dtype_of(part).kind == "c" and aval.dtype.kind != "c" else part
        part = part if dtype_of(part) == aval.dtype else convert(part, aval.dtype)
        leaves.append(part if shape_of(part) == (*lead, *aval.shape) else reshape(part, shape=(*lead, *aval.shape)))
    return leaves


def _trajectory(f: Callable[..., Any], options: Options, y0: Any, times: Any, params: Any, others: Any) -> Any:
    """y at all times, with a leading axis; f is f(y, t, params, others)."""
    leaves, structure = tree.flatten(y0)
    avals = [aval_of(x) for x in leaves]
    dtype = np.result_type(*[a.dtype for a in avals])
    sign = np.where(times[-1] >= times[0], 1.0, -1.0) if options.sign is None else options.sign

    def rate(vector: Any, t: Any) -> Any:
        slope = f(structure.unflatten(_unpack(vector, avals)), _signed(sign, t), params, others)
        return _signed(sign, _pack(tree.leaves(slope), dtype))

    engine = solve if options.by_scipy is None else solve_by_scipy
    states = engine(rate, _pack(leaves, dtype), _signed(sign, times), options)
    return structure.unflatten(_unpack(states, avals, shape_of(times)))


def _signed(sign: Any, x: Any) -> Any:
    if type(sign) is float:
        return x if sign > 0.0 else -x
    return x * sign.astype(dtype_of(x))


integrate = custom_vjp(_trajectory, nondiff_argnums=(0, 1))


def _largest(values: Any) -> Any:
    """The largest absolute value among the leaves, 1 if all are zero; a constant."""
    sizes = [np.max(np.abs(stop_gradient(x))) for x in tree.leaves(values) if aval_of(x).size and is_inexact(aval_of(x))]
    if not sizes:
        return 1.0
    largest = sizes[0]
    for s in sizes[1:]:
        largest = np.maximum(largest, s)
    return np.where(np.logical_and(largest > 0.0, np.isfinite(largest)), largest, 1.0)


def _scaled(values: Any, factor: Any) -> Any:
    return tree.map(lambda x: x * _as(factor, x), values)


def _as(number: Any, x: Any) -> Any:
    return number if type(number) is float else convert(number, dtype_of(x))


def _pairing(x: Any, y: Any, dtype: np.dtype) -> Any:
    """The real sum of products of two trees."""
    total: Any = 0.0
    for a, b in zip(tree.leaves(x), tree.leaves(y)):
        term = np.sum(a * b)
        total = total + (real(term) if dtype_of(term).kind == "c" else term)
    return convert(array_of(total), dtype)


def _forward(f: Any, options: Options, y0: Any, times: Any, params: Any, others: Any) -> tuple[Any, Any]:
    ys = integrate(f, options, y0, times, params, others)  # so that another derivative finds the rules, not the steps
    return ys, (ys, times, params, others)


def _adjoint(f: Any, t: Any, params: Any, others: Any, y: Any, lam: Any) -> tuple[Any, Any, Any]:
    """f and the products of lam with its derivatives in y and in the parameters."""
    slope, pull = vjp(lambda y, params: f(y, t, params, others), y, params)
    return (slope, *pull(lam))


def _by_sensitivities(f: Any, options: Options, residuals: Any, cts: Any) -> tuple:
    ys, times, params, others = residuals
    first = tree.map(lambda y: y[0], ys)
    leaves, structure = tree.flatten((first, params))
    if any(dtype_of(x).kind == "c" for x in leaves):
        raise NotImplementedError(
            f"reverse mode through {options.by_scipy} takes real states and parameters.\n"
            "Remedy: forward mode (jvp, jacfwd), or the real and imaginary parts as the state."
        )
    bars = []
    for i, x in enumerate(leaves):

        def along(unit: Any, i: int = i) -> Any:
            direction = structure.unflatten([unit if k == i else np.zeros_like(v) for k, v in enumerate(leaves)])
            start = (first, times, params, others)
            moved = _tangent(f, options, start, (direction[0], None, direction[1], None))[1]
            return sum(np.sum(a * convert(b, dtype_of(a))) for a, b in zip(tree.leaves(moved), tree.leaves(cts)))

        units = np.eye(aval_of(x).size, dtype=dtype_of(x)).reshape(-1, *shape_of(x))
        products = vmap(along)(units) if len(units) else np.zeros(0)
        bars.append(convert(reshape(products, shape=shape_of(x)), dtype_of(x)))
    y0_bar, params_bar = structure.unflatten(bars)
    dtype = dtype_of(times)
    t_bars = vmap(lambda y, t, ct: _pairing(f(y, t, params, others), ct, dtype))(ys, times, cts)
    t0_bar = _pairing(f(first, times[0], params, others), y0_bar, dtype)
    return y0_bar, t_bars - t0_bar * np.eye(1, shape_of(times)[0], dtype=dtype)[0], params_bar, None


def _backward(f: Any, options: Options, residuals: Any, cts: Any) -> tuple:
    if options.is_stiff:
        return _by_sensitivities(f, options, residuals, cts)
    ys, times, params, others = residuals
    backwards = options._replace(first=None, sign=None if options.sign is None else -options.sign)
    scale = _largest(cts)
    cts = _scaled(cts, 1.0 / scale)

    def equations(state: Any, t: Any, params: Any, others: Any) -> Any:
        y, lam, _ = state
        slope, y_bar, params_bar = _adjoint(f, t, params, others, y, lam)
        return slope, tree.map(np.negative, y_bar), tree.map(np.negative, params_bar)

    def one_back(carry: Any, x: Any) -> tuple[Any, Any]:
        lam, params_bar = carry
        y, ct, t, before = x
        lam = tree.map(np.add, lam, ct)
        t_bar = _pairing(f(y, t, params, others), ct, dtype_of(times))
        state = integrate(equations, backwards, (y, lam, params_bar), np.stack([t, before]), params, others)
        _, lam, params_bar = tree.map(lambda s: s[1], state)
        return (lam, params_bar), t_bar

    first = tree.map(lambda y: y[0], ys)
    start = (tree.map(np.zeros_like, first), tree.map(np.zeros_like, params))
    rest = (tree.map(lambda y: y[1:], ys), tree.map(lambda c: c[1:], cts), times[1:], times[:-1])
    (lam, params_bar), t_bars = scan(one_back, start, rest, reverse=True)
    t0_bar = -_pairing(f(first, times[0], params, others), lam, dtype_of(times))
    y0_bar = tree.map(lambda a, c: a + c[0], lam, cts)
    times_bar = np.concatenate([np.reshape(t0_bar, (1,)), t_bars])
    return (*_scaled((y0_bar, times_bar, params_bar), scale), None)


def _tangent(f: Any, options: Options, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    y0, times, params, others = primals
    ty0, t_times, t_params, _ = tangents
    ty0, t_params = [
        tree.map(_instantiated, x, t) if t is not None else tree.map(np.zeros_like, x)
        for x, t in ((y0, ty0), (params, t_params))
    ]
    t_times = np.zeros_like(times) if t_times is None else t_times
    scale = _largest((ty0, t_times, t_params))
    ty0, t_times, t_params = _scaled((ty0, t_times, t_params), 1.0 / scale)

    def equations(state: Any, t: Any, both: Any, others: Any) -> Any:
        params, t_params = both
        return jvp(lambda y, params: f(y, t, params, others), (state[0], params), (state[1], t_params))

    slope = f(y0, times[0], params, others)
    moved = tree.map(lambda ty, s: ty - s * convert(t_times[0], dtype_of(s)), ty0, slope)
    ys, tys = integrate(equations, options, (y0, moved), times, (params, t_params), others)
    slopes = vmap(lambda y, t: f(y, t, params, others))(ys, times)

    def with_times(ty: Any, s: Any) -> Any:
        return ty + s * convert(np.reshape(t_times, (-1, *[1] * (len(shape_of(s)) - 1))), dtype_of(s))

    return ys, _scaled(tree.map(with_times, tys, slopes), scale)


def _instantiated(x: Any, t: Any) -> Any:
    return np.zeros_like(x) if t is None else t


integrate.defvjp(_forward, _backward)
integrate.defjvp(_tangent)


# ---------------------------------------------------------------- JAX's odeint


def floats(y0: Any, what: str) -> Any:
    leaves, structure = tree.flatten(y0)
    arrays = [array_of(x) for x in leaves]
    for x in arrays:
        if dtype_of(x).kind not in "fc":
            raise TypeError(f"{what}: the state must be of floats or complex numbers, got {aval_of(x)}; use x.astype(float)")
    if not arrays:
        raise ValueError(f"{what}: the state has no arrays")
    return structure.unflatten(arrays)


def prepared(func: Callable[..., Any], y0: Any, t0: Any, args: tuple, what: str) -> tuple[Any, Any, Any]:
    """(f(y, t, params, others), params, others): what func reads, as arguments, apart by whether they have derivatives."""
    args = tree.map(array_of, args)
    converted, values = closure_convert(func, y0, t0, *args)
    leaves, structure = tree.flatten((args, tuple(values)))
    floats = [is_inexact(aval_of(x)) for x in leaves]
    params = [x for x, is_float in zip(leaves, floats) if is_float]
    others = [x for x, is_float in zip(leaves, floats) if not is_float]
    expected = tree.structure(y0)
    shapes = [shape_of(x) for x in tree.leaves(y0)]
    dtypes = [dtype_of(x) for x in tree.leaves(y0)]

    def f(y: Any, t: Any, params: Any, others: Any) -> Any:
        known, unknown = iter(params), iter(others)
        args, values = structure.unflatten([next(known) if is_float else next(unknown) for is_float in floats])
        slope = converted(y, t, *args, *values)
        found, found_tree = tree.flatten(slope)
        if found_tree != expected:
            raise TypeError(f"{what}: " + tree.describe_difference(found_tree, expected, "what func returns", "the state"))
        result = []
        for x, shape, dtype in zip(found, shapes, dtypes):
            if shape_of(x) != shape:
                raise ValueError(f"{what}: func must return the state's shapes; it returned {aval_of(x)} for {shape}")
            if dtype_of(x).kind == "c" and dtype.kind != "c":
                raise TypeError(f"{what}: func returned complex values for a real state; start from y0.astype(complex)")
            result.append(convert(array_of(x), dtype))
        return found_tree.unflatten(result)

    return f, params, others


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = np.inf,
    hmax: float = np.inf,
) -> Any:
    """Solve dy/dt = func(y, t, *args), y(t[0]) = y0, at the times t, by Dormand and Prince's method of order 5.


    y0 and args are pytrees of arrays; the result is y0's tree with a leading axis for t, which is increasing or decreasing.
    func is traced once (no Python `if` on its values) and may close over traced values. Differentiable in y0, t, args and what
    func closes over: reverse mode by the adjoint equations, in memory that does not depend on the number of steps, forward mode
    by the tangent equations, both to the same tolerances. What cannot be integrated (the step shrinks to nothing, more than
    mxstep steps between two times) is NaN from there on. The signature is that of JAX's `jax.experimental.ode.odeint`, whose
    forward mode raises; SciPy's `odeint` takes args as one tuple.
    `rtol` and `atol` bound the error of a step, `hmax` its length.

    >>> import numpy as np, funcad
    >>> y = funcad.scipy.integrate.odeint(lambda y, t, rate: -rate * y, 1.0, np.array([0.0, 1.0]), 2.0)
    >>> bool(np.isclose(y[-1], np.exp(-2.0)))
    True
    """
    for name, value in (("rtol", rtol), ("atol", atol), ("mxstep", mxstep), ("hmax", hmax)):
        if type(value) is Tracer:
            raise TypeError(f"odeint: {name} must be a known number, not a traced value; make it a static argument")
    y0 = floats(y0, "odeint")
    times = array_of(t)
    if len(shape_of(times)) != 1 or not shape_of(times)[0]:
        raise ValueError(f"odeint: t must be a vector of times that is not empty, got shape {shape_of(times)}")
    times = times if dtype_of(times).kind == "f" else convert(times, np.dtype(float))
    f, params, others = prepared(func, y0, times[0], args, "odeint")
    with working(lambda: f"odeint of {name_of(func)}"):
        return integrate(f, Options(rtol, atol, mxstep, hmax, RK45, sign=sign_of(times)), y0, times, params, others)


def sign_of(times: Any) -> float | None:
    """The direction of time, if it is known."""
    times = concrete_value(times)
    return None if type(times) is Tracer else 1.0 if times[-1] >= times[0] else -1.0
