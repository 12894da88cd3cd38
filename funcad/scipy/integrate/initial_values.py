"""Initial value and boundary value problems.

Idea: with t_eval everything has a known shape and works inside jit. Without it, and with events, SciPy runs first on the values
behind the traced ones (so these must have some: grad, jvp, jacobians outside jit and vmap); it says at which times there is a
result, and the traced computation is made at these times. The time of an event is the root of the event's function along the
solution, differentiated implicitly. Values are SciPy's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import name_of
from funcad.api.jacobian import jacfwd
from funcad.configuration import mirrors
from funcad.control.rules import by_points, closure_convert
from funcad.control.solve import custom_root
from funcad.host.devices import namespace_of
from funcad.host.progress import counted, working
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import array_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.door import scipy_function
from funcad.scipy.integrate.ode import RK23, RK45, Options, floats, integrate, prepared, sign_of, slopes_jacobian
from funcad.scipy.interpolate.splines import CubicHermiteSpline
from funcad.scipy.optimize.implicit import Claim, implicit_root, result_of, warn_failure

_METHODS = {"RK45": RK45, "RK23": RK23, "DOP853": None, "Radau": None, "BDF": None, "LSODA": None}


class OdeSolution(NamedTuple):
    """What `solve_ivp` gives for traced values: the times, the states (n, len(t)), the dense output and the events."""

    t: Any
    y: Any
    sol: Any = None
    t_events: Any = None
    y_events: Any = None
    status: int = 0

    @property
    def success(self) -> Any:
        """Has every time a state?"""
        return np.all(np.isfinite(self.y))


def _is_traced(*values: Any) -> bool:
    return any(type(x) is Tracer for x in tree.leaves(values))


def _vector(x: Any) -> Any:
    """x as an array: SciPy takes lists of numbers, here traced ones too, for states and slopes."""
    return np.stack([array_of(v) for v in x]) if isinstance(x, (list, tuple)) and x else array_of(x)


def _valued(given: Any, ours: Any) -> Any:
    """SciPy's numbers with our derivatives."""
    return given + (ours - stop_gradient(ours))


class _Problem:
    """One call of solve_ivp on traced values."""

    def __init__(self, fun: Callable[..., Any], t_span: Any, y0: Any, extra: tuple, method: str, options: dict[str, Any]):
        y = _vector(y0)
        y = floats(convert(y, np.dtype(float)) if dtype_of(y).kind in "iub" else y, "solve_ivp")
        if len(shape_of(y)) != 1:
            raise ValueError("`y0` must be 1-dimensional.")
        self.y0 = convert(y, np.result_type(dtype_of(y), float))  # as SciPy
        self.dtype = np.dtype(float)
        self.ends = [convert(array_of(v), self.dtype) for v in t_span]
        self.method, self.options = method, options
        slopes = lambda y, t, *args: _vector(fun(t, y, *args))
        self.f, self.params, self.others = prepared(slopes, self.y0, self.ends[0], extra, "solve_ivp")

    def states(self, times: Any) -> Any:
        """The states (m, n) at times (m,) in the direction of the integration, which begins at the start of the interval."""
        rtol, atol = self.options.get("rtol", 1e-3), float(self.options.get("atol", 1e-6))
        longest, first = self.options.get("max_step", np.inf), self.options.get("first_step")
        tableau = _METHODS[self.method]
        by_scipy = self.method if tableau is None else None
        times = np.concatenate([reshape(self.ends[0], shape=(1,)), times])
        how = Options(rtol, atol, np.inf, longest, tableau or RK45, first, sign_of(times), by_scipy)
        return integrate(self.f, how, self.y0, times, self.params, self.others)[1:]

    def by_scipy(self, t_eval: Any, dense: bool, events: Sequence[Any]) -> Any:
        """SciPy's own result for the values behind the traced ones."""
        known = tree.map(concrete_value, (self.y0, self.ends, self.params, self.others, [e.values for e in events]))
        if _is_traced(known):
            raise NotImplementedError(
                "solve_ivp without t_eval, and with events, has results whose number only values tell, which there are not "
                "inside jit and vmap.\nRemedy: t_eval=np.linspace(t0, t1, n), or t_eval=[t1] for the final state; for events, "
                "solve_ivp outside jit and vmap, with what is around it jitted."
            )
        y0, ends, params, others, of_events = known
        options = dict(self.options)
        if self.method in ("Radau", "BDF", "LSODA") and dtype_of(y0).kind == "f":
            options["jac"] = lambda t, y: np.asarray(slopes_jacobian(self.f, (), y, np.float64(t), params, others))
        return scipy_function("integrate.solve_ivp")(
            lambda t, y: np.asarray(self.f(y, np.float64(t), params, others)),
            [float(e) for e in ends], np.asarray(y0), self.method,
            t_eval, dense, [e.for_scipy(values) for e, values in zip(events, of_events)] or None, **options,
        )  # fmt: skip


class _Event:
    """A function of the user's whose zeros are wanted, and the traced values it closes over."""

    def __init__(self, f: Callable[..., Any], problem: _Problem, extra: tuple):
        one = lambda t, y: convert(reshape(array_of(f(t, y, *extra)), shape=()), problem.dtype)
        self.original = f
        self.function, self.values = closure_convert(one, problem.ends[0], problem.y0)

    def for_scipy(self, values: Sequence[Any]) -> Callable[..., Any]:
        of_values = by_points(self.function, compiled=True)
        event = lambda t, y: float(of_values(np.float64(t), y, *values))
        for name in ("terminal", "direction"):
            if hasattr(self.original, name):
                setattr(event, name, getattr(self.original, name))
        return event

    def times(self, problem: _Problem, found: np.ndarray) -> Any:
        """The times that SciPy found, as functions of everything that is traced."""
        if not len(found):
            return found
        along = lambda times: [self.function(t, y, *self.values) for t, y in zip(times, problem.states(times))]
        residual = lambda times: np.stack(along(times))
        return custom_root(residual, found, lambda f, x: x, lambda g, v: v / g(np.ones(len(found))))


class _Dense:
    """The solution at any times, as SciPy's `OdeSolution`."""

    def __init__(self, problem: _Problem, original: Any):
        self._problem, self._original = problem, original

    def __call__(self, t: Any) -> Any:
        times = convert(_vector(t), self._problem.dtype)
        flat = reshape(times, shape=(int(np.prod(shape_of(times))),))
        start, end = self._problem.ends
        order = np.argsort(np.where(end >= start, flat, -flat))
        states = self._problem.states(flat[order])[np.argsort(order)]
        at = concrete_value(flat)
        if self._original is not None and type(at) is not Tracer:
            states = _valued(self._original(np.asarray(at)).T, states)
        return np.transpose(states) if shape_of(times) else states[0]


tree.register_pytree_node(_Dense, lambda dense: ((), dense), lambda dense, _: dense)


def solve_ivp(
    fun: Callable[..., Any],
    t_span: Any,
    y0: Any,
    method: str = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """`scipy.integrate.solve_ivp`, all methods; differentiable in y0, t_span, t_eval, args and what fun and events close over.

    With traced values the result is a named tuple (t, y, sol, t_events, y_events, status). t_eval=None and events, whose
    results have no fixed shape, raise NotImplementedError inside jit and vmap. Times of events move with the parameters; times
    of steps do not, but for both ends. Derivatives as `odeint`; in reverse mode the stiff methods (Radau, BDF, LSODA)
    integrate one tangent equation for each number in y0 and the parameters. A `jac` that is given is compared with funcad's
    at the start, where that has a value, and a difference warns; `jac_sparsity`, `lband` and `uband` make nothing quicker here.

    >>> import numpy as np, funcad
    >>> def final(rate):
    ...     f = lambda t, y: -rate * y
    ...     return funcad.scipy.integrate.solve_ivp(f, (0.0, 1.0), np.ones(1), t_eval=np.array([1.0]), rtol=1e-8).y[0, 0]
    >>> bool(np.isclose(funcad.grad(final)(2.0), -np.exp(-2.0)))
    True
    """
    extra = tuple(args) if args is not None else ()
    given = [] if events is None else [events] if callable(events) else list(events)
    traced = _is_traced(list(t_span), y0, t_eval, extra) or namespace_of((y0,)) is not np
    if not traced and not _is_traced([f(t_span[0], np.asarray(y0), *extra) for f in (fun, *given)]):
        original = scipy_function("integrate.solve_ivp")
        with counted(fun, lambda: "solve_ivp") as fun:
            return original(fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options)
    if method not in _METHODS:
        raise NotImplementedError(
            f"solve_ivp(method={method!r}) is not there for traced values.\nRemedy: one of {', '.join(_METHODS)}."
        )
    stiff = _METHODS[method] is None and method != "DOP853"
    jac = options.pop("jac", None) if stiff else None
    for name in ("jac_sparsity", "lband", "uband") if stiff else ():
        options.pop(name, None)
    unknown = sorted(set(options) - {"rtol", "atol", "max_step", "first_step"})
    if unknown:
        raise TypeError(f"solve_ivp does not support {', '.join(unknown)} with traced values.\nRemedy: leave it out.")
    with working(lambda: f"solve_ivp of {name_of(fun)}"):
        problem = _Problem(fun, t_span, y0, extra, method, options)
        if callable(jac):
            _check_jacobian(problem, lambda y: jac(problem.ends[0], y, *extra))
        if t_eval is None or given:
            return _by_plan(problem, t_eval, dense_output, [_Event(e, problem, extra) for e in given])
        at = convert(_vector(t_eval), np.result_type(problem.dtype, dtype_of(_vector(t_eval))))
        states = problem.states(np.concatenate([at, reshape(problem.ends[1], shape=(1,))]))
    return OdeSolution(at, np.transpose(states[:-1]), _Dense(problem, None) if dense_output else None)


def _check_jacobian(problem: _Problem, given: Callable[[Any], Any]) -> None:
    own = jacfwd(lambda y: problem.f(y, problem.ends[0], problem.params, problem.others))
    rows = lambda y: (lambda j: array_of(j.toarray() if hasattr(j, "toarray") else j))(given(y))
    claim = Claim("solve_ivp: jac", lambda y: np.ravel(rows(y)), lambda y: np.ravel(own(y)), problem.y0)
    start, *values = [concrete_value(v) for v in (problem.y0, *claim.values)]
    if claim.error is None and not _is_traced(start, values):
        claim.check(start, values)


def _by_plan(problem: _Problem, t_eval: Any, dense: bool, events: list[_Event]) -> OdeSolution:
    """SciPy says when; see the idea above."""
    times = None if t_eval is None else _vector(t_eval)
    known = None if times is None else concrete_value(times)
    if type(known) is Tracer:
        raise NotImplementedError(
            "solve_ivp with events takes times t_eval that have values, not those of jit and vmap.\n"
            "Remedy: t_eval from outside of the traced function."
        )
    plan = problem.by_scipy(known, dense, events)
    found = [e.times(problem, t) for e, t in zip(events, plan.t_events or [])]
    if times is not None:
        times = convert(times, problem.dtype)[: len(plan.t)]
    else:
        last = problem.ends[1]
        if plan.status == 1:
            i, k = next((i, len(t) - 1) for i, t in enumerate(plan.t_events) if len(t) and t[-1] == plan.t[-1])
            last = found[i][k]
        last = plan.t[-1] if plan.status < 0 else last
        first = reshape(problem.ends[0], shape=(1,))
        times = np.concatenate([first, plan.t[1:-1], reshape(array_of(last), shape=(1,))]) if len(plan.t) > 1 else first
    y = _valued(plan.y, np.transpose(problem.states(times)))
    at_events = [_valued(y, problem.states(t)) if len(y) else y for t, y in zip(found, plan.y_events or [])]
    sol = _Dense(problem, plan.sol) if dense else None
    return OdeSolution(times, y, sol, found if events else None, at_events if events else None, plan.status)


mirrors([solve_ivp], "scipy.integrate")


# -- `solve_bvp`: SciPy finds the mesh and the solution, whose collocation equations on that mesh define the derivative


def _stacked(x: Any) -> Any:
    return np.stack([fnp.asarray(v) for v in x]) if isinstance(x, (list, tuple)) else fnp.asarray(x)


def _on_values(f: Callable[..., Any]) -> Callable[..., Any]:
    """f on plain arrays, with the values behind what it closes over; traced anew for each number of nodes."""
    traced: dict[tuple, tuple] = {}

    def of_values(*args: Any) -> np.ndarray:
        shapes = tuple([np.shape(x) for x in args])
        if shapes not in traced:
            function, values = closure_convert(lambda *args: _stacked(f(*args)), *args)
            known = [concrete_value(v) for v in values]
            if any(type(v) is Tracer for v in known):
                raise NotImplementedError(
                    "solve_bvp chooses the nodes of its mesh by values, which there are not inside jit and vmap.\n"
                    "Remedy: solve_bvp outside of them (grad, jvp and jacobians are fine), with what is around it jitted."
                )
            traced[shapes] = by_points(function, compiled=True), known
        function, known = traced[shapes]
        return np.asarray(function(*args, *known))

    return of_values


def solve_bvp(
    fun: Callable[..., Any],
    bc: Callable[..., Any],
    x: Any,
    y: Any,
    p: Any = None,
    S: Any = None,
    fun_jac: Any = None,
    bc_jac: Any = None,
    tol: float = 1e-3,
    max_nodes: int = 1000,
    verbose: int = 0,
    bc_tol: float | None = None,
) -> Any:
    """`scipy.integrate.solve_bvp`: y, p, yp and sol of the result are differentiable in what fun and bc close over.

    With traced values S, fun_jac and bc_jac must be left out (TypeError); the mesh has as many nodes as values tell, so inside
    jit and vmap it raises NotImplementedError. The derivative is that of the collocation equations on the final mesh, which
    stands still.

    >>> import numpy as np, funcad
    >>> def middle(k):
    ...     bend = lambda x, y: np.stack([y[1], -k * y[0]])
    ...     ends = lambda ya, yb: np.stack([ya[0], yb[0] - 1.0])
    ...     x = np.linspace(0.0, 1.0, 5)
    ...     return funcad.scipy.integrate.solve_bvp(bend, ends, x, np.ones((2, 5)), tol=1e-8).sol(0.5)[0]
    >>> bool(np.isclose(funcad.grad(middle)(1.0), np.tan(0.5) / 8 / np.cos(0.5)))
    True
    """
    x, y = np.asarray(concrete_value(x), float), np.asarray(concrete_value(y))
    known = () if p is None else (np.asarray(concrete_value(p), float),)
    if any(type(v) is Tracer for v in tree.leaves((fun(x, y, *known), bc(y[:, 0], y[:, -1], *known)))):
        for name, given in (("S", S), ("fun_jac", fun_jac), ("bc_jac", bc_jac)):
            if given is not None:
                raise TypeError(
                    f"solve_bvp does not support {name} with traced values: Jacobians are funcad's.\nRemedy: leave it out."
                )
    else:
        original = scipy_function("integrate.solve_bvp")
        return original(fun, bc, x, y, p, S, fun_jac, bc_jac, tol, max_nodes, verbose, bc_tol)
    y = y.astype(float)
    n = len(y)
    found = scipy_function("integrate.solve_bvp")(
        _on_values(fun), _on_values(bc), x, y, *(known or (None,)), None, None, None, tol, max_nodes, verbose, bc_tol
    )
    if not found.success:
        warn_failure("solve_bvp", found.message)
    mesh, m = found.x, len(found.x)
    h = np.diff(mesh)

    def parts(z: Any) -> tuple[Any, tuple]:
        return reshape(z[: n * m], shape=(n, m)), tuple([z[n * m :]] * len(known))

    def residual(z: Any) -> Any:
        y, p = parts(z)
        f = _stacked(fun(mesh, y, *p))
        middle = 0.5 * (y[:, 1:] + y[:, :-1]) - 0.125 * h * (f[:, 1:] - f[:, :-1])
        at_middle = _stacked(fun(mesh[:-1] + 0.5 * h, middle, *p))
        steps = y[:, 1:] - y[:, :-1] - h / 6.0 * (f[:, :-1] + f[:, 1:] + 4.0 * at_middle)
        ends = fnp.ravel(_stacked(bc(y[:, 0], y[:, -1], *p)))
        return concatenate([reshape(steps, shape=(n * (m - 1),)), ends], axis=0)

    solution = np.concatenate([found.y.ravel(), found.p if known else np.zeros(0)])
    z, _ = implicit_root(residual, solution, lambda start: (np.asarray(start), {}), [], {}, dense=4000)
    y, p = parts(z)
    yp = _stacked(fun(mesh, y, *p))
    return result_of(
        x=mesh, y=y, yp=yp, p=p[0] if known else None, sol=CubicHermiteSpline(mesh, y, yp, axis=1), niter=found.niter,
        rms_residuals=found.rms_residuals, status=found.status, success=found.success, message=found.message,
    )  # fmt: skip


mirrors([solve_bvp], "scipy.integrate")
