"""Roots: `root` on pytrees, `root_scalar`, `brentq` and its relatives, `newton`, `fixed_point`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.border import api
from funcad.api.grad import grad
from funcad.api.jacobian import jacfwd
from funcad.api.vjp import jvp
from funcad.configuration import mirrors
from funcad.host.progress import counted
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.tree_vectors import Vector

from funcad.scipy.optimize.implicit import (  # isort: skip
    Claim, Hoisted, check_claims, implicit_root, integer, is_abstract, result_of, scipy_optimize, unknown, warn_failure,
)

_INT = np.dtype(np.int64)
_BOOL = np.dtype(bool)


def ravelled(what: str, value: Any, vector: Vector) -> Any:
    """What a function returned, as one vector of the unknowns' dtype."""
    parts = []
    for x in tree.leaves(value):
        aval = aval_of(x)
        x = convert(x, vector.dtype) if aval.dtype != vector.dtype or aval.weak else x
        parts.append(reshape(x, shape=(aval.size,)))
    if not parts:
        return np.zeros(0, vector.dtype)
    return parts[0] if len(parts) == 1 else concatenate(parts, axis=0)


def _square(what: str, f: Callable[[Any], Any], vector: Vector) -> Callable[[Any], Any]:
    def function(v: Any) -> Any:
        out = ravelled(what, f(vector.tree(v)), vector)
        if shape_of(out) != (vector.size,):
            raise ValueError(f"{what}: as many equations as unknowns are needed, got {shape_of(out)[0]} for {vector.size}")
        return out

    return function


def jacobian_claims(what: str, jac: Any, f: Callable[[Any], Any], vector: Vector, start: Any) -> list[Claim]:
    """What is said of f's Jacobian, if anything is."""
    if not callable(jac):
        return []
    given = lambda v: ravelled(what, _dense_rows(jac(vector.tree(v))), vector)
    return [Claim(f"{what}: jac", given, lambda v: fnp.ravel(jacfwd(f)(v)), start)]


def _dense_rows(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "toarray") else rows


def _tuple(args: Any) -> tuple:
    return args if isinstance(args, tuple) else (args,)


def _raise_untraceable(*hoisted: Hoisted) -> None:
    for h in hoisted:
        if h.error is not None:
            raise h.error


@api
def root(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """The pytree x with `fun(x, *args) = 0`, from x0, by SciPy's solvers; an OptimizeResult, its x like x0.

    A number as x0 becomes a vector of one element by "hybr" and "lm", and stays a number by the other methods, as in SciPy.
    The Jacobian is funcad's; a `jac` that is given (True: fun returns both) is compared with it at x0, and a difference
    warns. `fun` returns as many numbers as x0 has (ValueError).
    The result's `x` is differentiable, in both modes and at any order, in `args` and whatever `fun` closes over; not in x0.
    Traced, a solver that fails warns, besides `success`, and what SciPy returns only for the record is left out.

    >>> import numpy as np, funcad
    >>> positive = lambda a: funcad.scipy.optimize.root(lambda x, a: x * x - a, np.ones(1), (a,)).x[0]
    >>> round(float(funcad.grad(positive)(4.0)), 6)
    0.25
    """
    args = _tuple(args)
    if jac is True:  # SciPy's meaning: fun returns both
        fun, jac = (lambda x, *a, both=fun: both(x, *a)[0]), (lambda x, *a, both=fun: both(x, *a)[1])
    by_jacobian = method in ("hybr", "lm")
    vector, start = unknown("root: x0", x0, one=by_jacobian)
    square = _square("root", lambda x: fun(x, *args), vector)
    equations = Hoisted(square, start)
    claims = jacobian_claims("root", jac and (lambda x: jac(x, *args)), square, vector, start)
    value, slope = equations.compiled(), equations.compiled(jacfwd)
    dtype = vector.dtype

    def run(x: Any, *values: Any) -> Any:
        narrow = lambda v: np.asarray(v).astype(dtype)
        f = lambda v: np.asarray(value(narrow(v), *values), dtype.char.replace("f", "d").replace("F", "D"))
        more: dict[str, Any] = {"jac": lambda v: np.asarray(slope(narrow(v), *values), float)} if by_jacobian else {}
        if callback is not None:
            more["callback"] = lambda v, *rest: callback(vector.tree(narrow(v)), *rest)
        with counted(f, lambda: "root", note=lambda r: f"largest residual {np.max(np.abs(r), initial=0.0):.3g}") as f:
            return scipy_optimize().root(f, x, method=method, tol=tol, options=options, **more)

    if not is_abstract(start, *equations.values):
        check_claims(claims, start)
        found = run(start)
        return result_of(**{**found, "x": vector.tree(np.asarray(found.x).astype(dtype))})
    _raise_untraceable(equations)
    equations.check_callback("root", callback, start)

    def host(x: Any, *values: Any) -> tuple[Any, dict]:
        found = run(x, *values)
        before, after = (np.abs(np.asarray(value(np.asarray(v).astype(dtype), *values))).max(initial=0) for v in (x, found.x))
        if not found.success or after > max(1e-6, 1e-3 * before):  # some of the methods claim success too easily
            warn_failure("root", found.message)
        counts = {"success": np.bool_(found.success), "status": integer(found, "status"), "nfev": integer(found, "nfev")}
        return np.asarray(found.x).astype(dtype), counts

    residual = lambda v: equations.function(v, *equations.values)
    fields = {"success": _BOOL, "status": _INT, "nfev": _INT}
    x, counts = implicit_root(residual, start, host, equations.values, fields, claims=claims)
    return result_of(x=vector.tree(x), fun=residual(x), **counts)


# -- one unknown


def _scalar_problem(what: str, f: Callable[..., Any], args: Any, points: list[Any]) -> tuple[Hoisted, list[Any], Any]:
    """(the function of a vector of one element, the given points without derivative, the dtype)."""
    args = _tuple(args)
    given = [None if p is None else stop_gradient(p if not is_a(p, (int, bool)) else float(p)) for p in points]
    dtypes = [aval_of(p).dtype for p in given if p is not None]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
    dtype = dtype if dtype.kind in "fc" else np.dtype(float)
    if any(shape_of(p) != () for p in given if p is not None):
        raise ValueError(f"{what}: the unknown must be a number, got {[shape_of(p) for p in given if p is not None]}")
    one = Hoisted(lambda x: number_of(what, f(x, *args), dtype), dtype.type(1))
    return one, given, dtype


def number_of(what: str, value: Any, dtype: Any) -> Any:
    if aval_of(value).size != 1:
        raise ValueError(f"{what}: the function must return a number, got the shape {shape_of(value)}")
    value = reshape(value, shape=()) if shape_of(value) else value
    return convert(fnp.asarray(value), dtype)


@api
def root_scalar(
    f: Callable[..., Any],
    args: tuple = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """A root of `f(x, *args)` by SciPy's methods for one unknown; as `scipy.optimize.root_scalar`.

    Derivatives for "newton" and "halley" are funcad's; `fprime` and `fprime2` (functions, or True: f returns the value and its
    derivatives) are compared with them where the search starts, and a difference warns. The result's `root` is differentiable
    in `args` and whatever f closes over, not in where the search starts. Traced, the result holds root, converged, iterations
    and function_calls, and a failure warns.

    >>> import funcad
    >>> f = lambda a: funcad.scipy.optimize.root_scalar(lambda x, a: x * x - a, (a,), bracket=[0.0, 9.0]).root
    >>> round(float(funcad.grad(f)(4.0)), 6)
    0.25
    """
    several = f
    if fprime is True or fprime2 is True:  # SciPy's meaning: f returns the value, then the derivatives
        f = lambda x, *a: several(x, *a)[0]
        fprime = (lambda x, *a: several(x, *a)[1]) if fprime is True else fprime
        fprime2 = (lambda x, *a: several(x, *a)[2]) if fprime2 is True else fprime2
    ends = list(bracket) if bracket is not None else [None, None]
    one, points, dtype = _scalar_problem("root_scalar", f, args, [x0, x1, *ends])
    kind = method
    if kind is None and bracket is None and x1 is None:
        kind = "halley" if callable(fprime2) else "newton"
    claims = _slope_claims("root_scalar", f, (fprime, fprime2), args, next(p for p in [*points, 1.0] if p is not None), dtype)
    value, slope = one.compiled(), one.compiled(grad)
    bend = one.compiled(lambda g: grad(grad(g)))

    def run(numbers: list[Any], values: Any) -> Any:
        narrow = dtype.type
        more: dict[str, Any] = {}
        if kind in ("newton", "halley"):
            more["fprime"] = lambda x: float(slope(narrow(x), *values))
        if kind == "halley":
            more["fprime2"] = lambda x: float(bend(narrow(x), *values))
        start, second, low, high = numbers
        if low is not None:
            more["bracket"] = [float(low), float(high)]
        return scipy_optimize().root_scalar(
            lambda x: float(value(narrow(x), *values)),
            method=kind,
            x0=None if start is None else float(start),
            x1=None if second is None else float(second),
            xtol=xtol, rtol=rtol, maxiter=maxiter, options=options, **more,
        )  # fmt: skip

    if not is_abstract(*points, *one.values):
        check_claims(claims, claims[0].start if claims else None)
        return run(points, ())
    _raise_untraceable(one)
    return _one_root("root_scalar", one, points, dtype, run, claims)


class _SlopeClaim(Claim):
    """A claim about a function of one number."""

    def __init__(self, name: str, given: Any, own: Any, start: Any):
        super().__init__(name, given, own, start)
        self.start = start


def _slope_claims(what: str, f: Any, given: tuple, args: Any, at: Any, dtype: Any) -> list[_SlopeClaim]:
    """What is said of the first and the second derivative of f."""
    args, start = _tuple(args), reshape(convert(fnp.asarray(at), dtype), shape=(1,))
    own: Any = lambda x: number_of(what, f(x, *args), dtype)
    claims = []
    for name, g in zip(("fprime", "fprime2"), given):
        own = grad(own)
        if callable(g):
            number = lambda v, g=g: reshape(number_of(what, g(v[0], *args), dtype), shape=(1,))
            claims.append(_SlopeClaim(f"{what}: {name}", number, lambda v, own=own: reshape(own(v[0]), shape=(1,)), start))
    return claims


def _one_root(
    what: str, one: Hoisted, points: list[Any], dtype: Any, run: Callable[..., Any], claims: list[_SlopeClaim]
) -> Any:
    """The traced form: `run(points, values)` gives SciPy's RootResults."""
    present = [p is not None for p in points]
    known = [p for p in points if p is not None]

    def host(_: Any, *operands: Any) -> tuple[Any, dict]:
        it = iter(operands)
        numbers = [next(it) if here else None for here in present]
        found = run(numbers, operands[len(known) :])
        if not found.converged:
            warn_failure(what, found.flag)
        counts = {"iterations": integer(found, "iterations"), "function_calls": integer(found, "function_calls")}
        return np.asarray([found.root], dtype), {"converged": np.bool_(found.converged), **counts}

    residual = lambda v: reshape(one.function(v[0], *one.values), shape=(1,))
    guess = claims[0].start if claims else np.zeros(1, dtype)
    fields = {"converged": _BOOL, "iterations": _INT, "function_calls": _INT}
    x, counts = implicit_root(residual, guess, host, [*known, *one.values], fields, claims=claims)
    return result_of(root=x[0], **counts)


def _bracketing(name: str) -> Callable[..., Any]:
    @api
    def method(
        f: Callable[..., Any],
        a: Any,
        b: Any,
        args: tuple = (),
        xtol: float = 2e-12,
        rtol: float = 4 * float(np.finfo(float).eps),
        maxiter: int = 100,
        full_output: bool = False,
        disp: bool = True,
    ) -> Any:
        one, points, dtype = _scalar_problem(name, f, args, [a, b])
        value = one.compiled()

        def run(numbers: list[Any], values: Any, full: bool = True) -> Any:
            return getattr(scipy_optimize(), name)(
                lambda x: float(value(dtype.type(x), *values)), float(numbers[0]), float(numbers[1]),
                xtol=xtol, rtol=rtol, maxiter=maxiter, full_output=full, disp=disp,
            )  # fmt: skip

        if not is_abstract(*points, *one.values):
            return run(points, (), full_output)
        _raise_untraceable(one)
        found = _one_root(name, one, points, dtype, lambda numbers, values: run(numbers, values)[1], [])
        return (found.root, found) if full_output else found.root

    method.__name__ = method.__qualname__ = name
    method.__doc__ = (
        f"A root of `f(x, *args)` between a and b, where f changes its sign, as `scipy.optimize.{name}`.\n\n"
        "Differentiable in `args` and whatever f closes over, not in a and b.\n\n"
        ">>> import funcad\n"
        f">>> root = lambda c: funcad.scipy.optimize.{name}(lambda x: x * x - c, 0.0, 9.0)\n"
        ">>> round(float(funcad.grad(root)(4.0)), 6)\n"
        "0.25\n"
    )
    return method


bisect = _bracketing("bisect")
brenth = _bracketing("brenth")
brentq = _bracketing("brentq")
ridder = _bracketing("ridder")
_by_toms748 = _bracketing("toms748")


@api
def toms748(
    f: Callable[..., Any],
    a: Any,
    b: Any,
    args: tuple = (),
    k: int = 1,
    xtol: float = 2e-12,
    rtol: float = 4 * float(np.finfo(float).eps),
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root of `f(x, *args)` between a and b, where f changes its sign, as `scipy.optimize.toms748` with k = 1.

    Differentiable in `args` and whatever f closes over, not in a and b; another k raises TypeError.

    >>> import funcad
    >>> root = lambda c: funcad.scipy.optimize.toms748(lambda x: x * x - c, 0.0, 9.0)
    >>> round(float(funcad.grad(root)(4.0)), 6)
    0.25
    """
    if k != 1:
        raise TypeError(f"toms748: k must be 1, got {k}")
    return _by_toms748(f, a, b, args, xtol, rtol, maxiter, full_output, disp)


# -- arrays of unknowns, element by element


@api
def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: tuple = (),
    tol: float = 1.48e-08,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """A root of `func(x, *args)` near x0 by Newton's method, element by element if x0 is an array, as `scipy.optimize.newton`.

    The derivative is funcad's; a `fprime` that is given is compared with it at x0, and a difference warns. Of arrays of
    unknowns `fprime2` and `x1` (Halley's method and that of secants) must be left out, and so must `full_output` (TypeError):
    the root is the same. Of one number they are as in `root_scalar`. Differentiable in `args` and whatever func closes over,
    not in x0.

    >>> import funcad
    >>> root = lambda c: funcad.scipy.optimize.newton(lambda x: x * x - c, 3.0)
    >>> round(float(funcad.grad(root)(4.0)), 6)
    0.25
    """
    args = _tuple(args)
    vector, start = unknown("newton: x0", x0)
    if len(vector.shapes) != 1:
        raise TypeError("newton: x0 must be one array or number; use root for other pytrees")
    for name, given in (("fprime2", fprime2), ("x1", x1), ("full_output", full_output or None)):
        if given is None:
            continue
        if vector.shapes[0]:
            raise TypeError(f"newton: of arrays of unknowns leave {name} out; the root is the same")
        kind = ("secant" if x1 is not None else "newton") if fprime is None else "halley" if fprime2 is not None else "newton"
        slopes = (fprime, fprime2 if kind == "halley" else None)
        found = root_scalar(func, args, kind, None, *slopes, x0, x1 if kind == "secant" else None, tol, rtol or None, maxiter)
        converged = concrete_value(found.converged)
        if disp and type(converged) is not Tracer and not converged:
            raise RuntimeError(f"Failed to converge after {maxiter} iterations, value is {concrete_value(found.root)}.")
        return (found.root, found) if full_output else found.root
    square = _square("newton", lambda x: func(x, *args), vector)
    equations = Hoisted(square, start)
    slope = lambda v: jvp(square, (v,), (np.ones_like(v),))[1]
    claims = []
    if fprime is not None:
        claims = [Claim("newton: fprime", _square("newton: fprime", lambda x: fprime(x, *args), vector), slope, start)]
    value = equations.compiled()
    along = equations.compiled(lambda f: lambda v, *values: jvp(lambda u: f(u, *values), (v,), (np.ones_like(v),))[1])

    def run(x: Any, *values: Any) -> Any:
        shape = (lambda v: v) if vector.shapes[0] else (lambda v: v[0])
        narrow = lambda v: np.asarray(v, vector.dtype).reshape(vector.size)
        f, fp = (lambda v, g=g: shape(np.asarray(g(narrow(v), *values))) for g in (value, along))
        out = scipy_optimize().newton(f, shape(np.asarray(x)), fp, tol=tol, maxiter=maxiter, rtol=rtol, disp=disp)
        return np.asarray(out, vector.dtype).reshape(vector.size)

    return _on_vectors("newton", vector, equations, start, run, claims)


def _on_vectors(
    what: str, vector: Vector, equations: Hoisted, start: Any, run: Callable[..., Any], claims: Sequence[Claim] = ()
) -> Any:
    """`run(start, *values)` gives the root, or raises."""
    if not is_abstract(start, *equations.values):
        check_claims(claims, start)
        return vector.tree(run(start))
    _raise_untraceable(equations)
    residual = lambda v: equations.function(v, *equations.values)
    x, _ = implicit_root(residual, start, lambda v, *values: (run(v, *values), {}), equations.values, {}, claims=claims)
    return vector.tree(x)


@api
def fixed_point(
    func: Callable[..., Any], x0: Any, args: tuple = (), xtol: float = 1e-8, maxiter: int = 500, method: str = "del2"
) -> Any:
    """The pytree x with `func(x, *args) = x`, from x0, as `scipy.optimize.fixed_point`.

    Differentiable in `args` and whatever func closes over, not in x0; RuntimeError if it does not converge.

    >>> import funcad
    >>> root = lambda c: funcad.scipy.optimize.fixed_point(lambda x: 0.5 * (x + c / x), 3.0)
    >>> round(float(funcad.grad(root)(4.0)), 6)
    0.25
    """
    args = _tuple(args)
    vector, start = unknown("fixed_point: x0", x0)
    mapped = _square("fixed_point", lambda x: func(x, *args), vector)
    equations = Hoisted(lambda v: mapped(v) - v, start)
    value = equations.compiled()

    def run(x: Any, *values: Any) -> Any:
        step = lambda v: value(np.asarray(v, vector.dtype), *values) + v
        found = scipy_optimize().fixed_point(step, np.asarray(x), xtol=xtol, maxiter=maxiter, method=method)
        return np.asarray(found, vector.dtype)

    return _on_vectors("fixed_point", vector, equations, start, run)


mirrors([root, root_scalar, bisect, brenth, brentq, ridder, toms748, newton, fixed_point], "scipy.optimize")
