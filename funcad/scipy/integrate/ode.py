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
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import name_of
from funcad.api.jacobian import jacfwd
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vjp import jvp, vjp
from funcad.api.vmap import vmap
from funcad.control.call import call, coerce, interned
from funcad.control.callback import pure_callback
from funcad.control.rules import closure_convert
from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.custom.custom_vjp import custom_vjp
from funcad.host.progress import working
from funcad.ir.aval import Aval, aval_of, dtype_of, is_inexact, said, shape_of
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import array_of
from funcad.primitives.conversion import convert, real, stop_gradient
from funcad.primitives.families import REAL
from funcad.primitives.runge_kutta import advance, control_p
from funcad.primitives.shape import reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import scipy_function
from funcad.scipy.optimize.implicit import Hoisted, found_again

# -- embedded Runge-Kutta methods with step control and dense output, on a state that is one vector
#
# Idea: the methods, the control of the steps and the interpolation are those of SciPy's RK45 and RK23 (Dormand-Prince with
# Shampine's interpolant, Bogacki-Shampine), so results agree step by step. One attempted step is one turn of `while_loop`; a
# scan over the times reads the interpolant off. Time runs upwards inside, by its sign. What cannot be integrated (the step
# shrinks to nothing, `mxstep` is exceeded, the derivative is NaN) gives NaN from there on. The step's size comes from the state
# alone and carries no derivative: the derivatives of this solver are the equations of this file, not those of its arithmetic.


class Tableau(NamedTuple):
    """The last stage of each method is the derivative at the new state, which starts the next step."""

    order: int  # of the error estimate
    nodes: tuple
    stages: tuple  # weights of the earlier stages, per stage from the second on
    new: tuple
    error: tuple
    dense: tuple  # per stage, the coefficients of the powers 1, 2, ... of the step's fraction


RK45 = Tableau(
    order=4,
    nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    stages=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    new=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    error=(-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40),
    dense=(
        (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
        (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
        (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
        (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
        (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
    ),
)
RK23 = Tableau(
    order=2,
    nodes=(1 / 2, 3 / 4),
    stages=((1 / 2,), (0.0, 3 / 4)),
    new=(2 / 9, 1 / 3, 4 / 9),
    error=(5 / 72, -1 / 12, -1 / 9, 1 / 8),
    dense=((1.0, -4 / 3, 5 / 9), (0.0, 1.0, -2 / 3), (0.0, 4 / 3, -8 / 9), (0.0, -1.0, 1.0)),
)


class Options(NamedTuple):
    rtol: float
    atol: Any
    mxstep: float
    hmax: float
    tableau: Tableau
    first: Any = None  # the first step's size
    sign: Any = None  # 1.0 for increasing times, -1.0 for decreasing ones, None if that is not known
    by_scipy: str | None = None  # the name of SciPy's method that makes the steps, instead of the tableau

    @property
    def is_stiff(self) -> bool:
        """Is the method for equations that cannot be integrated backwards?"""
        return self.by_scipy in ("Radau", "BDF", "LSODA")


def _size(x: Any, scale: Any) -> Any:
    """The root of the mean square, relative to a scale."""
    return np.sqrt(np.mean(np.square(np.abs(x) / scale)))


def _first_step(rate: Callable[..., Any], t: Any, y: Any, f: Any, end: Any, options: Options) -> Any:
    """Hairer, Norsett and Wanner, section II.4."""
    scale = options.atol + np.abs(y) * options.rtol
    d0, d1 = _size(y, scale), _size(f, scale)
    flat = np.logical_or(d0 < 1e-5, d1 < 1e-5)
    h0 = np.minimum(np.where(flat, 1e-6, 0.01 * d0 / np.where(flat, 1.0, d1)), end - t)
    still = h0 <= 0.0
    guess = np.where(still, 1e-6, h0)
    d2 = _size(rate(y + guess.astype(dtype_of(y)) * f, t + guess) - f, scale) / guess
    largest = np.maximum(d1, d2)
    tiny = largest <= 1e-15
    h1 = np.where(
        tiny, np.maximum(1e-6, guess * 1e-3), (0.01 / np.where(tiny, 1.0, largest)) ** (1.0 / (options.tableau.order + 1))
    )
    return np.minimum(np.minimum(np.minimum(100.0 * guess, h1), end - t), options.hmax)


def _attempt(rate: Callable[..., Any], y: Any, f: Any, t: Any, h: Any, tableau: Tableau) -> tuple[Any, list[Any]]:
    """One step: the new state, and the slopes of all stages."""
    slopes = [f]
    for weights, node in zip(tableau.stages, tableau.nodes):
        slopes.append(rate(advance(y, h, slopes, weights), t + h if node == 1.0 else t + node * h))
    new = advance(y, h, slopes, tableau.new)
    slopes.append(rate(new, t + h))
    return new, slopes


def solve(rate: Callable[..., Any], y0: Any, times: Any, options: Options) -> Any:
    """The states (m, n) at `times` (m,), not decreasing, of dy/dt = rate(y, t), y(times[0]) = y0."""
    if shape_of(times)[0] == 1 or not shape_of(y0)[0]:
        return np.broadcast_to(y0, (shape_of(times)[0], *shape_of(y0)))
    tableau = options.tableau
    dtype, n = dtype_of(y0), shape_of(y0)[0]
    end = times[-1]
    f0 = rate(y0, times[0])
    h = _first_step(rate, times[0], y0, f0, end, options) if options.first is None else options.first + 0.0 * end
    h = h.astype(dtype_of(times))
    powers = np.arange(1, len(tableau.dense[0]) + 1)
    limits = dict(rtol=options.rtol, atol=options.atol, hmax=options.hmax, order=tableau.order, error=tableau.error)

    def unfinished(state: Any) -> Any:
        count, target, (t, h, *_), _ = state
        more = np.logical_and(t < target, h > 0.0)
        return more if options.mxstep == np.inf else np.logical_and(more, count < options.mxstep)

    def step(state: Any) -> Any:
        count, target, ends, kept = state
        t, h, y = ends[0], ends[1], ends[4]
        used = np.minimum(h, end - t)
        new, tried = _attempt(rate, y, kept[-1], t, used, tableau)
        out = control_p(*ends, used, end, new, *kept, *tried, **limits)
        return count if options.mxstep == np.inf else count + 1, target, tuple(out[:6]), tuple(out[6:])

    def reach(state: Any, target: Any) -> tuple[Any, Any]:
        _, _, ends, kept = while_loop(unfinished, step, (0, target, *state))
        t, _, _, t_old, y, y_old = ends
        width = t - t_old
        fraction = np.where(width > 0.0, (target - t_old) / np.where(width > 0.0, width, 1.0), 0.0).astype(REAL(dtype))
        weights = np.matmul(constant(tableau.dense, y), fraction ** constant(powers, y))
        between = y_old + width.astype(dtype) * np.matmul(weights.astype(dtype), np.stack(kept))
        at_target = np.where(target == t, y, between)
        return (ends, kept), np.where(t >= target, at_target, np.nan)

    start = ((times[0], h, False, times[0], y0, y0), (*[np.zeros_like(y0)] * (len(tableau.error) - 1), f0))
    _, found = scan(reach, start, times[1:])
    return np.concatenate([np.reshape(y0, (1, n)), found])


# -- methods whose steps SciPy makes, called from the program: DOP853, Radau, BDF and LSODA
#
# Their Jacobians are funcad's.


def solve_by_scipy(rate: Callable[..., Any], y0: Any, times: Any, options: Options) -> Any:
    """The states (m, n) at `times` (m,), not decreasing, as `runge_kutta_solvers.solve` gives them; NaN where there is none."""
    hoisted = Hoisted(rate, y0, times[0])
    if hoisted.error is not None:
        raise hoisted.error
    value = hoisted.compiled()
    slope = hoisted.compiled(jacfwd) if options.is_stiff and dtype_of(y0).kind == "f" else None
    m, n, dtype = shape_of(times)[0], shape_of(y0)[0], dtype_of(y0)

    def host(y0: Any, times: Any, *values: Any) -> Any:
        y0, times = np.asarray(y0), np.asarray(times)
        at, places = np.unique(times, return_inverse=True)
        if len(at) < 2:
            return np.broadcast_to(y0, (m, n)).astype(dtype)
        more: dict[str, Any] = {}
        if slope is not None:
            more["jac"] = lambda t, y: np.asarray(slope(y.astype(dtype), times.dtype.type(t), *values))
        slopes = lambda t, y: np.asarray(value(y.astype(dtype), times.dtype.type(t), *values))
        found = scipy_function("integrate.solve_ivp")(
            slopes, (at[0], at[-1]), y0, options.by_scipy, t_eval=at, rtol=options.rtol,
            atol=options.atol, max_step=options.hmax, first_step=options.first, **more,
        )  # fmt: skip
        states = np.full((len(at), n), np.nan, dtype)
        states[: found.y.shape[1]] = found.y.T
        return states[places.reshape(-1)]

    return pure_callback(host, ShapeDtypeStruct((m, n), dtype), y0, times, *hoisted.values, vmap_method="sequential")


# -- ode


# ---------------------------------------------------------------- the solver and its rules


class Slopes(NamedTuple):
    """f(*leading, params, others) as a program of what func read, its arguments and what leads; equal if the programs are."""

    program: Jaxpr
    floats: tuple[bool, ...]  # which of the values are among the params
    structure: Any  # of the result

    def __call__(self, *args: Any) -> Any:
        *leading, params, others = args
        known, unknown = iter(params), iter(others)
        values = [next(known) if is_float else next(unknown) for is_float in self.floats]
        return self.structure.unflatten(call(self.program, *values, *tree.leaves(leading), name="slopes"))


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


@found_again
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
            f"reverse mode through solve_ivp(method={options.by_scipy!r}) takes real states and parameters.\n"
            "Remedy: forward mode (jvp, jacfwd), or the real and imaginary parts as the state."
        )
    bars = []
    for i, x in enumerate(leaves):

        def along(unit: Any, i: int = i) -> Any:
            direction = structure.unflatten([unit if k == i else np.zeros_like(v) for k, v in enumerate(leaves)])
            start = (first, times, params, others)
            moved = _tangent(f, options, start, (direction[0], None, direction[1]))[1]
            return sum(np.sum(a * convert(b, dtype_of(a))) for a, b in zip(tree.leaves(moved), tree.leaves(cts)))

        units = np.eye(aval_of(x).size, dtype=dtype_of(x)).reshape(-1, *shape_of(x))
        products = vmap(along)(units) if len(units) else np.zeros(0)
        bars.append(convert(reshape(products, shape=shape_of(x)), dtype_of(x)))
    y0_bar, params_bar = structure.unflatten(bars)
    dtype = dtype_of(times)
    t_bars = vmap(lambda y, t, ct: _pairing(f(y, t, params, others), ct, dtype))(ys, times, cts)
    t0_bar = _pairing(f(first, times[0], params, others), y0_bar, dtype)
    return y0_bar, t_bars - t0_bar * np.eye(1, shape_of(times)[0], dtype=dtype)[0], params_bar, None


@found_again
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


@found_again
def _tangent(f: Any, options: Options, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
    y0, times, params, others = primals
    ty0, t_times, t_params = tangents
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


def _moved(f: Any, options: Options, primals: tuple, tangents: tuple) -> Any:
    return _tangent(f, options, primals, tangents[:3])  # of the others there are none


def _instantiated(x: Any, t: Any) -> Any:
    return np.zeros_like(x) if t is None else t


integrate.defvjp(_forward, _backward)
integrate.defjvp(_moved)


# ---------------------------------------------------------------- JAX's odeint


@found_again
def slopes_jacobian(f: Any, options: Any, y: Any, t: Any, params: Any, others: Any) -> Any:
    return jacfwd(f)(y, t, params, others)


def floats(y0: Any, what: str) -> Any:
    leaves, structure = tree.flatten(y0)
    arrays = [array_of(x) for x in leaves]
    for x in arrays:
        if dtype_of(x).kind not in "fc":
            raise TypeError(f"{what}: the state must be of floats or complex numbers, got {said(x)}; use x.astype(float)")
    if not arrays:
        raise ValueError(f"{what}: the state has no arrays")
    return structure.unflatten(arrays)


def prepared(
    func: Callable[..., Any],
    y0: Any,
    t0: Any,
    args: tuple,
    what: str,
) -> tuple[Slopes, Any, Any]:
    """(f(y, t, params, others), params, others): what func reads, as arguments, apart by whether they have derivatives."""
    args = tree.map(array_of, args)
    leaves, expected = tree.flatten(y0)
    converted, values = closure_convert(func, y0, t0, *args)
    jaxpr, fixed, found = converted.traced  # type: ignore[attr-defined]
    if found != expected:
        raise TypeError(f"{what}: " + tree.describe_difference(found, expected, "what func returns", "the state"))
    for x, out in zip(leaves, jaxpr.out_avals):
        if out.shape != shape_of(x):
            raise ValueError(f"{what}: func must return the state's shapes; it returned {out:a} for {shape_of(x)}")
        if out.dtype.kind == "c" and dtype_of(x).kind != "c":
            raise TypeError(f"{what}: func returned complex values for a real state; start from y0.astype(complex)")
    return parted(converted, values, len(leaves) + 1, args, list(map(dtype_of, leaves)))


def parted(converted: Any, values: Sequence[Any], n: int, args: tuple, dtypes: Sequence[Any]) -> tuple[Slopes, Any, Any]:
    """`prepared` of what `closure_convert` gave for n leading leaves and args; its results get these dtypes."""
    jaxpr, fixed, structure = converted.traced
    jaxpr = coerce(jaxpr, [Aval(a.shape, dtype) for a, dtype in zip(jaxpr.out_avals, dtypes)])
    read, leading, rest = split(jaxpr.inputs, len(fixed), n)
    program = Jaxpr((*read, *rest, *leading), jaxpr.equations, jaxpr.outputs)
    traced = iter(values)
    given = [next(traced) if c is None else c for c in fixed]
    given += tree.leaves(args)
    known = [c is not None for c in fixed] + [False] * len(rest)
    floats = tuple([not c and is_inexact(aval_of(x)) for x, c in zip(given, known)])
    params = [x for x, is_float in zip(given, floats) if is_float]
    others = [x for x, is_float in zip(given, floats) if not is_float]
    return Slopes(interned(program), floats, structure), params, others


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
            raise TypeError(
                f"odeint: {name} must be a known number, not a traced value.\n"
                "Remedy: a number of Python's, or funcad.stop_gradient(x) outside of jit."
            )
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
