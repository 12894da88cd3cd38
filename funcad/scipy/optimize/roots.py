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
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vjp import jvp
from funcad.configuration import mirrors
from funcad.host.progress import counted
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.promote import python_number
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.tree_vectors import Vector

from funcad.scipy.optimize.implicit import (  # isort: skip
    OWN, Claim, Solved, Handed, Hoisted, dense_rows, host_call, integer, lend, result_of, scipy_optimize, settled,
    unknown, warn_failure,
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


def jacobian_claims(what: str, rows: Any, f: Callable[[Any], Any], start: Any) -> list[Claim]:
    """What is said of f's Jacobian, if anything is."""
    if rows is None:
        return []
    return [Claim(f"{what}: jac", lambda v: fnp.ravel(rows(v)), lambda v: fnp.ravel(jacfwd(f)(v)), start)]


def _tuple(args: Any) -> tuple:
    return args if isinstance(args, tuple) else (args,)


# equations of a root, and what it gives to be lent
_zero = lambda f, options, v, *values: f(v, *values)
_scalar_zero = lambda f, options, v, *values: reshape(f(v[0], *values), shape=(1,))
_alone = lambda f, options, v, *values: v
_with_residual = lambda f, options, v, *values: (v, f(v, *values))


@api
def root(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple = (),
    method: str = "hybr",
    jac: Any = OWN,
    tol: float | None = None,
    callback: Any = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """The pytree x with `fun(x, *args) = 0`, from x0, by SciPy's solvers; an OptimizeResult, its x like x0.

    A number as x0 becomes a vector of one element by "hybr" and "lm", and stays a number by the other methods, as in SciPy.
    `jac` left out is funcad's Jacobian, None is SciPy's differences; a function (True: fun returns both) is compared with
    funcad's at x0, and a difference warns. `fun` returns as many numbers as x0 has (ValueError).
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
    equations = Hoisted(square, start, what="root")
    start = equations.start(start)
    rows = lambda v: fnp.asarray(dense_rows(jac(vector.tree(v), *args)))
    claims = jacobian_claims("root", rows if callable(jac) else None, square, start)
    value, slope = equations.plain(), equations.compiled(jacfwd)
    given, dtype = Handed(equations, vector.dtype), vector.dtype
    given_slope = given.slope(jac, rows, start)

    def run(x: Any, *values: Any) -> Any:
        own = values[: len(equations.values)]
        narrow = lambda v: np.asarray(v).astype(dtype)
        f = lambda v: np.asarray(value(narrow(v), *own))
        j = given_slope(values)
        if j == OWN:
            f = lambda v: np.asarray(value(narrow(v), *own), dtype.char.replace("f", "d").replace("F", "D"))
            j = (lambda v: np.asarray(slope(narrow(v), *own), float)) if by_jacobian else None
        more: dict[str, Any] = {"jac": j}
        if callback is not None:
            more["callback"] = lambda v, *rest: callback(vector.tree(narrow(v)), *rest)
        with counted(f, lambda: "root", note=lambda r: f"largest residual {np.max(np.abs(r), initial=0.0):.3g}") as f:
            return scipy_optimize().root(f, x, method=method, tol=tol, options=options, **more)

    if given.known(claims, start):
        found = run(start, *given.values)
        x = equations.followed(np.asarray(found.x).astype(dtype), "" if found.success else found.message)
        return result_of(**{**found, "x": vector.tree(x)})
    equations.check_callback("root", callback, start)

    def host(x: Any, *values: Any) -> tuple[Any, dict]:
        found = run(x, *values)
        at = lambda v: value(np.asarray(v).astype(dtype), *values[: len(equations.values)])
        size = lambda v: np.abs(at(v)).max(initial=0)
        if not found.success or size(found.x) > max(1e-6, 1e-3 * size(x)):  # some of the methods claim success too easily
            warn_failure("root", found.message)
        counts = {"success": np.bool_(found.success), "status": integer(found, "status"), "nfev": integer(found, "nfev")}
        x = np.asarray(found.x).astype(dtype)
        return x, {"x": x, "fun": np.asarray(found.fun).astype(dtype).reshape(x.shape), **counts}

    whole = ShapeDtypeStruct((vector.size,), dtype)
    fields = {"x": whole, "fun": whole, "success": _BOOL, "status": _INT, "nfev": _INT}
    x, aux = host_call(host, (whole, fields), start, given.values, claims)
    x, fun = settled(equations.function, Solved(_zero, _with_residual), x, *equations.values)
    x, fun = lend(aux.pop("x"), x), lend(aux.pop("fun"), fun)
    return result_of(x=vector.tree(x), fun=fun, **aux)


# -- one unknown


_IN_C = frozenset(["bisect", "brenth", "brentq", "ridder"])  # SciPy computes in C, whose root is a number of Python's


def _scalar_problem(
    what: str, f: Callable[..., Any], args: Any, points: list[Any], in_c: bool = False
) -> tuple[Hoisted, list[Any], Any]:
    """(the function of a vector of one element, the given points without derivative, the dtype)."""
    args = _tuple(args)
    given = [None if p is None else stop_gradient(p if not is_a(p, (int, bool)) else float(p)) for p in points]
    dtypes = [aval_of(p).dtype for p in given if p is not None]
    dtype = np.result_type(*dtypes) if dtypes else np.dtype(float)
    dtype = dtype if dtype.kind in "fc" and not in_c else np.dtype(float)
    if any(shape_of(p) != () for p in given if p is not None):
        raise ValueError(f"{what}: the unknown must be a number, got {[shape_of(p) for p in given if p is not None]}")
    one = Hoisted(lambda x: number_of(what, f(x, *args), dtype), dtype.type(1), what=what)
    return one, list(map(one.start, given)), dtype


_slope = lambda f: lambda x, *values: grad(f, holomorphic=aval_of(x).dtype.kind == "c")(x, *values)
_bend = lambda f: _slope(_slope(f))
_along = lambda f: lambda v, *values: jvp(lambda u: f(u, *values), (v,), (np.ones_like(v),))[1]


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
    fprime: Any = OWN,
    fprime2: Any = OWN,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """A root of `f(x, *args)` by SciPy's methods for one unknown; as `scipy.optimize.root_scalar`.

    Derivatives left out are funcad's for "newton" and "halley"; None is what it means for SciPy. Functions as `fprime` and
    `fprime2` (True: f returns the value and its derivatives) are compared with funcad's where the search starts, and a
    difference warns. The result's `root` is differentiable
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
    in_c = (method or ("" if bracket is None else "brentq")).lower() in _IN_C
    one, points, dtype = _scalar_problem("root_scalar", f, args, [x0, x1, *ends], in_c)
    kind = method
    if kind is None and bracket is None and x1 is None:
        kind = "halley" if callable(fprime2) else "newton" if fprime is not None or dtype.itemsize < 8 else None
    at = next(p for p in [*points, 1.0] if p is not None)
    claims, slopes = _slope_claims("root_scalar", f, (fprime, fprime2), args, at, dtype)
    number = complex if dtype.kind == "c" else float
    value = one.plain()
    own_slopes = one.compiled(_slope), one.compiled(_bend)
    given = Handed(one, dtype)
    handed = [given.slope(d, said, dtype.type(1)) for d, said in zip((fprime, fprime2), slopes)]

    def run(numbers: list[Any], values: Any) -> Any:
        narrow, own = dtype.type, values[: len(one.values)]
        more: dict[str, Any] = {}
        for name, hand, ours in zip(("fprime", "fprime2"), handed, own_slopes):
            d = hand(values)
            if d == OWN:
                here = kind == "halley" or kind == "newton" and name == "fprime"
                d = (lambda x, ours=ours: number(ours(narrow(x), *own))) if here else None
            more[name] = (lambda x, d=d: number(d(x))) if callable(d) else d
        start, second, low, high = numbers
        if low is not None:
            more["bracket"] = [float(low), float(high)]
        return scipy_optimize().root_scalar(
            lambda x: number(value(narrow(x), *own)),
            method=kind,
            x0=None if start is None else number(start),
            x1=None if second is None else number(second),
            xtol=xtol,
            rtol=rtol,
            maxiter=maxiter,
            options=options,
            **more,
        )

    if given.known(claims, claims[0].start if claims else None, *points):
        found = _followed(one, run(points, given.values))
    else:
        found = _one_root("root_scalar", one, points, dtype, run, claims, given.values)
    return _of_c(found) if in_c else found


def _followed(one: Hoisted, found: Any) -> Any:
    """SciPy's RootResults."""
    found.root = one.followed(found.root, "" if found.converged else found.flag)
    return found


def _of_c(found: Any) -> Any:
    found.root = python_number(found.root)
    return found


class _SlopeClaim(Claim):
    """A claim about a function of one number."""

    def __init__(self, name: str, given: Any, own: Any, start: Any):
        super().__init__(name, given, own, start)
        self.start = start


def _slope_claims(
    what: str, f: Any, given: tuple, args: Any, at: Any, dtype: Any
) -> tuple[list[_SlopeClaim], list[Any]]:  # fmt: skip
    """What is said of the first and the second derivative of f, and the functions that say it, of a number."""
    args, start = _tuple(args), reshape(convert(fnp.asarray(at), dtype), shape=(1,))
    own: Any = lambda x: number_of(what, f(x, *args), dtype)
    claims, slopes = [], []
    for name, g in zip(("fprime", "fprime2"), given):
        own = grad(own, holomorphic=dtype.kind == "c")
        slopes.append(lambda x, g=g: number_of(what, g(x, *args), dtype))
        if callable(g):
            number = lambda v, g=slopes[-1]: reshape(g(v[0]), shape=(1,))
            ours = lambda v, own=own: reshape(own(v[0]), shape=(1,))
            claims.append(_SlopeClaim(f"{what}: {name}", number, ours, start))
    return claims, slopes


def _one_root(
    what: str,
    one: Hoisted,
    points: list[Any],
    dtype: Any,
    run: Callable[..., Any],
    claims: list[_SlopeClaim],
    values: Sequence[Any],
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
        whole = {"root": dtype.type(found.root), "converged": np.bool_(found.converged), **counts}
        return np.asarray([found.root], dtype), whole

    guess = claims[0].start if claims else np.zeros(1, dtype)
    fields = {"root": dtype, "converged": _BOOL, "iterations": _INT, "function_calls": _INT}
    x, aux = host_call(host, (ShapeDtypeStruct((1,), guess.dtype), fields), guess, [*known, *values], claims)
    x = settled(one.function, Solved(_scalar_zero, _alone), x, *one.values)
    return result_of(root=lend(aux.pop("root"), x[0]), **aux)


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
        one, points, dtype = _scalar_problem(name, f, args, [a, b], name in _IN_C)
        value = one.plain()

        def run(numbers: list[Any], values: Any) -> Any:
            return getattr(scipy_optimize(), name)(
                lambda x: float(value(dtype.type(x), *values)),
                float(numbers[0]),
                float(numbers[1]),
                xtol=xtol,
                rtol=rtol,
                maxiter=maxiter,
                full_output=True,
                disp=disp,
            )[1]

        if Handed(one, dtype).known((), None, *points):
            found = _followed(one, run(points, one.values))
        else:
            found = _one_root(name, one, points, dtype, run, [], one.values)
        found = _of_c(found) if name in _IN_C else found
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
    fprime: Any = OWN,
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

    `fprime` left out is funcad's derivative, None is SciPy's method of secants; a function is compared with funcad's at x0, and
    a difference warns, as that of `fprime2` does for one unknown. Differentiable in `args` and whatever func closes over, not
    in x0. With `full_output` of one unknown the second result is `root_scalar`'s; of arrays of unknowns it is refused
    (TypeError).

    >>> import funcad
    >>> root = lambda c: funcad.scipy.optimize.newton(lambda x: x * x - c, 3.0)
    >>> round(float(funcad.grad(root)(4.0)), 6)
    0.25
    """
    args = _tuple(args)
    vector, start = unknown("newton: x0", x0)
    if len(vector.shapes) != 1:
        raise TypeError("newton: x0 must be one array or number; use root for other pytrees")
    if not vector.shapes[0]:
        kind = "secant" if fprime is None else "newton" if fprime2 is None else "halley"
        kind = "secant" if x1 is not None and fprime == OWN else kind
        slopes = (None if kind == "secant" else fprime, fprime2 if kind == "halley" else None)
        second = x1 if kind == "secant" else None
        found = root_scalar(func, args, kind, None, *slopes, x0, second, tol, rtol or None, maxiter)
        converged = concrete_value(found.converged)
        if disp and type(converged) is not Tracer and not converged:
            raise RuntimeError(f"Failed to converge after {maxiter} iterations, value is {concrete_value(found.root)}.")
        return (found.root, found) if full_output else found.root
    if full_output:
        raise TypeError("newton: of arrays of unknowns leave full_output out; the root is the same")
    square = _square("newton", lambda x: func(x, *args), vector)
    equations = Hoisted(square, start, what="newton")
    slope = lambda v: jvp(square, (v,), (np.ones_like(v),))[1]
    rows = _square("newton: fprime", lambda x: fprime(x, *args), vector)
    claims = [Claim("newton: fprime", rows, slope, start)] if callable(fprime) else []
    value = equations.plain()
    along = equations.compiled(_along)
    given = Handed(equations, vector.dtype)
    first = given.derivative(fprime, rows, start)
    second = given.add(fprime2, _square("newton: fprime2", lambda x: fprime2(x, *args), vector), start)

    def run(x: Any, *values: Any) -> Any:
        own = values[: len(equations.values)]
        narrow = lambda v: np.asarray(v, vector.dtype).reshape(vector.size)
        f, fp = (lambda v, g=g: np.asarray(g(narrow(v), *own)) for g in (value, along))
        slope = first(values)
        slope = slope if slope != OWN else fp if x1 is None else None
        other = x1
        if other is not None:
            other = np.broadcast_to(np.asarray(x1, vector.dtype), vector.shapes[0]).ravel()
        more = {"fprime2": second(values), "x1": other, "rtol": rtol, "disp": disp}
        out = scipy_optimize().newton(f, np.asarray(x), slope, tol=tol, maxiter=maxiter, **more)
        return np.asarray(out, vector.dtype).reshape(vector.size)

    return _on_vectors("newton", vector, equations, start, run, claims, given)


def _on_vectors(
    what: str,
    vector: Vector,
    equations: Hoisted,
    start: Any,
    run: Callable[..., Any],
    claims: Sequence[Claim],
    given: Handed,
) -> Any:
    """`run(start, *values)` gives the root, or raises."""
    start = equations.start(start)
    if given.known(claims, start):
        return vector.tree(equations.followed(run(start, *given.values)))
    fields = {"x": ShapeDtypeStruct((vector.size,), vector.dtype)}

    def host(v: Any, *values: Any) -> tuple[Any, dict]:
        x = run(v, *values)
        return x, {"x": x}

    x, aux = host_call(host, (fields["x"], fields), start, given.values, claims)
    x = settled(equations.function, Solved(_zero, _alone), x, *equations.values)
    return vector.tree(lend(aux["x"], x))


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
    equations = Hoisted(lambda v: mapped(v) - v, start, what="fixed_point")
    given = Handed(equations, vector.dtype)
    step_of = given.add(func, mapped, start)

    def run(x: Any, *values: Any) -> Any:
        step = step_of(values)
        found = scipy_optimize().fixed_point(step, np.asarray(x), xtol=xtol, maxiter=maxiter, method=method)
        return np.asarray(found, vector.dtype)

    return _on_vectors("fixed_point", vector, equations, start, run, (), given)


mirrors([root, root_scalar, bisect, brenth, brentq, ridder, toms748, newton, fixed_point], "scipy.optimize")
