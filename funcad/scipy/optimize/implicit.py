"""What the solvers of this folder share: SciPy runs on the host, the implicit function theorem differentiates.

A user's function is made a function of one vector and of the traced values that it closes over (`Hoisted`). `implicit_root`
hands SciPy's solver to `custom_root` as a host callback, so it works under grad, jit and vmap (lane by lane), at every order.
Values are SciPy's, from the arguments that the caller gave, as in plain Python; a derivative is that of the solution which
Newton's method finds beside them (`settled`, `lend`), so that it is not less exact than differences let SciPy be.
Traps: a function that looks at values in Python (`if x > 0`) cannot be traced abstractly; it works where nothing outside is
traced, and for roots where that has a value: they are found on values, and Newton's steps follow them. A solver that fails
gives a point that is no solution: when a derivative could be taken there, it warns.
Derivatives that the user gives (`jac=`, `hess=`) are compared with funcad's where the search starts (`Claim`).
"""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any, NamedTuple

import numpy as np

import funcad.numpy as fnp
from funcad import tree
from funcad.api.jacobian import hessian, jacfwd
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vjp import jvp
from funcad.api.vmap import vmap
from funcad.control.call import call, interned, memoised
from funcad.control.callback import pure_callback
from funcad.control.rules import by_points, closure_convert
from funcad.control.solve import custom_root
from funcad.custom.custom_jvp import custom_jvp
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from funcad.host.devices import namespace_of
from funcad.host.real_types import is_a
from funcad.host.where import outside, state
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import Table
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.linear_systems import solve
from funcad.primitives.shape import concatenate, reshape
from funcad.scipy.sparse.krylov_solvers import strictly
from funcad.scipy.tree_vectors import Vector
from funcad.tree.same import same_key

DENSE = 500  # unknowns up to which the linear system of a derivative is formed
_CONVERSIONS = (TracerBoolConversionError, TracerArrayConversionError, TracerIntegerConversionError)

OWN = "funcad"  # in the place of a derivative that is left out: it is funcad's

Flat = Callable[..., Any]
_itself = lambda f: f


def scipy_optimize() -> Any:
    """The one door to scipy.optimize."""
    return importlib.import_module("scipy.optimize")


def result_of(**fields: Any) -> Any:
    """SciPy's OptimizeResult, which is made a pytree at its first use: numbers and arrays are leaves, texts are not."""
    cls = scipy_optimize().OptimizeResult
    if tree.structure(cls(x=1)) == tree.structure(1):
        tree.register_pytree_node(cls, _flatten, lambda static, leaves: _unflatten(cls, static, leaves))
    return cls(**fields)


def _flatten(result: Any) -> tuple[list[Any], tuple]:
    texts = tuple((k, v) for k, v in sorted(result.items()) if isinstance(v, str))
    names = tuple(k for k, v in sorted(result.items()) if not isinstance(v, str))
    return [result[k] for k in names], (names, texts)


def _unflatten(cls: type, static: tuple, leaves: Sequence[Any]) -> Any:
    names, texts = static
    return cls(**dict(zip(names, leaves)), **dict(texts))


def _is_nested(x: Any) -> bool:
    """Lists or tuples, in each other perhaps, of plain numbers."""
    return isinstance(x, (list, tuple)) and bool(x) and all(is_a(v, _NUMBERS) or _is_nested(v) for v in x)


_NUMBERS = (int, float, complex, np.generic)


def unknown(what: str, x0: Any, one: bool = False) -> tuple[Vector, Any]:
    """(how a starting point becomes a vector, that vector); lists and tuples of plain numbers are an array, as in SciPy.

    `one`: this function of SciPy's makes a vector of one element of a number, and gives such a vector.
    """
    if _is_nested(x0):
        x0 = np.asarray(x0)
    leaves = tree.leaves(x0)
    if one and len(leaves) == 1 and leaves[0] is x0 and shape_of(x0) == ():
        x0 = reshape(x0, shape=(1,))
    vector = Vector(what, x0)
    return vector, stop_gradient(vector.flat(x0))


class Interned(NamedTuple):
    """`f(*vectors, *values)` as a program of both; equal if the programs are."""

    program: Any
    structure: Any
    n_values: int

    def __call__(self, *args: Any) -> Any:
        n = len(args) - self.n_values
        return self.structure.unflatten(call(self.program, *args[n:], *args[:n], name="function"))

    @property
    def traced(self) -> tuple[Any, list, Any]:  # as a function of `closure_convert` has it
        return self.program, [None] * self.n_values, self.structure


_rules = partial(Table, "scipy.rules", "a rule and its operands: its program", 64)


def found_again(rule: Callable[..., Any]) -> Callable[..., Any]:
    """`rule(f, options, *operands)` as a program, which hangs on f's: un-jitted calls trace, derive and compile it once."""

    @wraps(rule)
    def run(f: Any, options: Any, *operands: Any) -> Any:
        leaves, structure = tree.flatten(operands)
        if not isinstance(f, tuple) or f.program.axis_names or namespace_of(leaves) is not np:
            return rule(f, options, *operands)
        avals = list(map(aval_of, leaves))
        try:
            key = rule, f[1:], same_key(options), structure, *avals
        except TypeError:  # of what can be changed
            return rule(f, options, *operands)

        def make() -> tuple:
            results = []

            def flat(*leaves: Any) -> list[Any]:
                outs, found = tree.flatten(rule(f, options, *structure.unflatten(leaves)))
                results.append(found)
                return outs

            return (*trace_function(flat, avals, name=rule.__name__, staging=True), results[-1])

        rules = memoised(f.program, "rules", _rules)
        jaxpr, consts, found = rules.get(key) or rules.put(key, make())
        return found.unflatten(call(jaxpr, *consts, *leaves, name=rule.__name__))

    return run


_transformed = found_again(lambda f, options, *args: options[0](f)(*args))


class Hoisted:
    """A function of vectors, and the arrays that it closes over.

    `function(*vectors, *values)`; none of `values` is traced if it depends on nothing that is. For SciPy to call there are, of
    NumPy's vectors and values, `plain()`, in whose results each bit is NumPy's, as differences by steps of 1e-8 want it, and
    `compiled(transform)`.
    `what` finds roots of it, which `followed` gives the derivatives that they have by what is traced outside.
    """

    def __init__(self, f: Flat, *examples: Any, what: str = ""):
        self.error: Exception | None = None
        self.values: list[Any] = []
        self.what = what
        try:
            converted, self.values = closure_convert(f, *examples)
            jaxpr, fixed, structure = converted.traced  # type: ignore[attr-defined]
            traced = iter(self.values)
            self.function: Any = converted
            if not jaxpr.axis_names:
                self.values = [next(traced) if c is None else c for c in fixed]
                self.function = Interned(interned(jaxpr), structure, len(fixed))
        except _CONVERSIONS as error:  # it needs values to run: then it must not depend on traced ones
            self.function, self.error = f, error
            if what:
                error.args = (re.sub(r"closure_convert\(\S*\)", what, error.args[0]), *error.args[1:])

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [aval.shape for aval in self.function.traced[0].out_avals]

    def plain(self) -> Flat:
        if self.error is not None:
            return self._checked(self.function)
        at = by_points(self.function)
        return lambda *args: tree.map(np.array, at(*args))

    def compiled(self, transform: Callable[[Flat], Flat] = _itself) -> Flat:
        f = self.function
        return partial(_transformed, f, (transform,)) if self.error is None else self._checked(transform(f))

    def _checked(self, derived: Flat) -> Flat:
        def checked(*args: Any) -> Any:
            out = derived(*args)
            traced = [x for x in tree.leaves(out) if type(x) is Tracer]
            if traced and (not self.what or is_abstract(*map(concrete_value, traced))):
                self.refuse()
            return tree.map(concrete_value, out) if traced else out

        return checked

    def refuse(self) -> None:
        """It looks at values which are not there: under jit the calls run as they are."""
        if self.what and state.observer is not None:
            state.observer.refuse(f"the function of {self.what} looks at values")
        raise self.error  # type: ignore[misc]

    def start(self, x: Any) -> Any:
        """From where the search starts, which is no matter of derivatives."""
        return x if self.error is None else concrete_value(x)

    def followed(self, root: Any, failure: Any = "") -> Any:
        """A root that was found on values: each of Newton's steps doubles the order of the derivatives that it has."""
        depth = 0 if self.error is None else max(map(_depth, tree.leaves(self.function(root))))
        if not depth:
            return root
        if failure:
            warn_failure(self.what, failure)
        x = reshape(root, shape=(-1,))
        flat = lambda v: reshape(self.function(reshape(v, shape=shape_of(root))), shape=shape_of(x))
        for _ in range(depth.bit_length()):
            x = _newton(flat, x)[0]
        return lend(root, reshape(x, shape=shape_of(root)))

    def check_callback(self, what: str, callback: Any, *more: Any) -> None:
        """Raise where the solver runs later than the function that calls it, which may read what the callback stored."""
        if callback is not None and any([type(concrete_value(v)) is Tracer for v in (*self.values, *more)]):
            raise NotImplementedError(
                f"{what}: inside jit and vmap the solver runs after the function has been traced, so that what the callback "
                "stores is not there when the function reads it.\nRemedy: leave callback out; the result's nit and nfev are "
                "there."
            )


def _depth(x: Any) -> int:
    """How many traces a value is in, one in the other."""
    return 1 + _depth(x.primal) if type(x) is Tracer else 0


class Claim(Hoisted):
    """A derivative that the user gives, which SciPy's search goes by, and funcad's of the same function, to compare with."""

    def __init__(self, name: str, given: Flat, own: Flat, start: Any):
        super().__init__(lambda v: (given(v), own(v)), start, what=name)  # whose values are compared
        self.name, self.size = name, shape_of(start)[0]

    def check(self, start: Any, values: Sequence[Any]) -> None:
        given, own = [np.asarray(x) for x in self.compiled()(start, *values)]
        if given.shape != own.shape:
            raise ValueError(f"{self.name} must return {own.size} numbers, got {given.size}")
        known = np.isfinite(own)  # where there is no derivative, nothing can be said
        gap, size = [np.abs(x[known]).max(initial=0.0) for x in (given - own, own)]
        if not gap <= 1e-4 * (1.0 + size):
            warnings.warn(
                f"{self.name} differs by {gap:.3g} from the function's derivative, at the start of the search.\n"
                "The search goes by yours, the derivative of its result by funcad's; correct yours, or leave it out.",
                RuntimeWarning,
                stacklevel=outside(2),
            )


class Handed:
    """What SciPy is handed beside the function: derivatives and constraints of the caller's, and what they close over.

    `values` are those that the function closes over, then theirs.
    """

    def __init__(self, function: Hoisted, dtype: Any):
        self.dtype = dtype
        self.traced = False
        self.parts = [function]
        self.values = [*function.values]

    def add(self, given: Any, flat: Flat, *examples: Any) -> Callable[[Sequence[Any]], Any]:
        """What SciPy gets in the place of `given`, from a run's operands: `flat` if that is a function, of NumPy vectors."""
        if not callable(given):
            return lambda values: given
        part, first = Hoisted(flat, *examples, what=self.parts[0].what), len(self.values)
        self.parts.append(part)
        self.values += part.values
        plain, last = part.plain(), len(self.values)
        narrow = lambda v: np.asarray(v).astype(self.dtype)
        return lambda values: lambda *vectors: np.asarray(plain(*map(narrow, vectors), *values[first:last]))

    def derivative(self, given: Any, flat: Flat, *examples: Any) -> Callable[[Sequence[Any]], Any]:
        """`add`; where the caller's function looks at values that a trace does not have, the derivative is funcad's."""
        hand = self.add(given, flat, *examples)
        if not callable(given) or self.parts[-1].error is None:
            return hand
        self.parts.pop()
        return lambda values: OWN if self.traced else hand(values)

    def slope(self, given: Any, flat: Flat, *examples: Any) -> Callable[[Sequence[Any]], Any]:
        """A first derivative; of single precision, whose differences are noise, it is funcad's if it is no function."""
        given = given if callable(given) or np.finfo(self.dtype).bits >= 64 else OWN
        return self.derivative(given, flat, *examples)

    def known(self, claims: Sequence[Claim], start: Any, *more: Any) -> bool:
        """Is nothing traced? Then the claims are checked here; otherwise none of the functions may look at values."""
        if not is_abstract(start, *self.values, *more):
            for claim in claims:
                if not is_abstract(*claim.values):
                    claim.check(start, claim.values)
            return True
        for part in self.parts:
            if part.error is not None:
                part.refuse()
        self.traced = True
        return False


def is_abstract(*values: Any) -> bool:
    """Is any of the values traced?"""
    return any(type(v) is Tracer for v in values)


def integer(result: Any, name: str) -> np.int64:
    """A count from SciPy's result, 0 if this solver does not count it."""
    return np.int64(result.get(name, 0) or 0)


def warn_degenerate(what: str, why: str) -> None:
    warnings.warn(
        f"{what} found a degenerate solution: {why}.\n"
        "To one side it moves otherwise than to the other: its derivative is one of several.",
        RuntimeWarning,
        stacklevel=outside(2),
    )


def warn_failure(what: str, message: Any) -> None:
    warnings.warn(
        f"{what} did not converge: {message}\nIts derivative is that of a solution, which this point is not; look at success.",
        RuntimeWarning,
        stacklevel=outside(2),
    )


def _dense(g: Callable[[Any], Any], y: Any) -> Any:
    """x with g(x) = y, g linear on vectors, by its matrix."""
    n = shape_of(y)[0]
    matrix = vmap(g)(np.eye(n, dtype=y.dtype)).T
    return reshape(solve(matrix, reshape(y, shape=(n, 1))), shape=(n,))


def _solver(n: int, symmetric: bool, dense: int = DENSE) -> Callable[..., Any]:
    return _dense if n <= dense else lambda g, y: strictly(g, y, float(np.finfo(y.dtype).eps) ** 0.75, symmetric)


def _after(claim: Claim, host: Callable[..., Any], count: int) -> Callable[..., Any]:
    """`host`, which takes the first `count` operands, after the claim has been checked with those behind them."""

    def checked(start: Any, *operands: Any) -> Any:
        claim.check(np.asarray(start)[: claim.size], operands[count:])
        return host(start, *operands[:count])

    return checked


def host_call(
    host: Callable[..., tuple[Any, dict]], shapes: Any, start: Any, operands: Sequence[Any], claims: Sequence[Claim]
) -> Any:
    """`host(start, *operands)` on NumPy arrays, lane by lane under vmap, after the claims have been checked.

    `claims` are about the function of the first of `start`'s elements; one that cannot be traced cannot be checked here.
    """
    for claim in [c for c in claims if c.error is None]:
        host = _after(claim, host, len(operands))
        operands = [*operands, *claim.values]
    vector, fields = shapes
    shapes = (vector, {k: d if type(d) is ShapeDtypeStruct else ShapeDtypeStruct((), d) for k, d in fields.items()})
    return pure_callback(host, shapes, start, *tree.map(stop_gradient, list(operands)), vmap_method="sequential")


def implicit_root(
    residual: Callable[[Any], Any],
    start: Any,
    host: Callable[..., tuple[Any, dict]],
    operands: Sequence[Any],
    fields: dict[str, Any],
    symmetric: bool = False,
    claims: Sequence[Claim] = (),
    dense: int = DENSE,
) -> tuple[Any, dict]:
    """(z, aux) with residual(z) = 0, as `host(start, *operands)` finds it on NumPy arrays; aux has the dtypes `fields`.

    Differentiable in everything that `residual` closes over; `symmetric` says that its Jacobian is. Up to `dense` unknowns the
    linear system of the derivative is formed. `claims` are those of `host_call`.
    """
    n = shape_of(start)[0]
    shape = ShapeDtypeStruct((n,), start.dtype)
    solver = lambda f, guess: host_call(host, (shape, fields), guess, operands, claims)
    return custom_root(residual, start, solver, _solver(n, symmetric, dense), has_aux=True)


@custom_jvp
def lend(value: Any, moving: Any) -> Any:
    """`value`, with the derivative of `moving`."""
    return value


@lend.defjvp
def _lent(primals: Any, tangents: Any) -> Any:
    return lend(*primals), tangents[1]  # of which an outer derivative is taken


def _newton(g: Flat, v: Any, symmetric: bool = False) -> tuple[Any, Any]:
    """One step of Newton's method: (the next point, the residual here)."""
    r = g(v)
    return v - _solver(shape_of(v)[0], symmetric)(lambda t: jvp(g, (v,), (t,))[1], r), r


class Solved(NamedTuple):
    """`value(f, options, z, *operands) = 0`, of which a solution is z; `lent(f, options, z, *operands)`: what is known by it.

    Both read nothing but their arguments, and f is a Hoisted's function, so that their programs are found again.
    """

    value: Callable[..., Any]
    lent: Callable[..., Any]
    options: Any = ()
    symmetric: bool = False

    def at(self, f: Any, *operands: Any) -> Flat:
        return lambda z: self.value(f, self.options, z, *operands)


_residual = found_again(lambda f, equation, z, *operands: equation.at(f, *operands)(z))
_next = found_again(lambda f, equation, z, *operands: _newton(equation.at(f, *operands), z, equation.symmetric))


def near(f: Any, equation: Solved, found: Any, *operands: Any) -> tuple[np.ndarray, float]:
    """(the root that Newton's method finds, or `found` where none is near it; the largest residual there)."""
    size = lambda v: float(np.abs(v).max(initial=0.0))
    found = np.asarray(found)
    here, left = found, size(_residual(f, equation, found, *operands))
    first, room = left, 0.1 * (1.0 + size(found))
    for _ in range(20):
        if not left > 0.0:
            break
        try:
            there = np.asarray(_next(f, equation, here, *operands)[0])
        except np.linalg.LinAlgError:  # the derivative says so, where it is asked for
            break
        if not size(there - found) <= room:
            return found, first
        after = size(_residual(f, equation, there, *operands))
        if not after <= 0.5 * left:
            break
        here, left = there, after
    return here, left


@found_again
def settled(f: Any, equation: Solved, found: Any, *operands: Any) -> Any:
    """What the root beside `found`, a point that is nearly one, gives to be lent: its derivatives are wanted.

    Programs that take no derivative do not compute it: nothing of it is read then.
    """
    beside = lambda z, *operands: (near(f, equation, z, *operands)[0], {})
    z = implicit_root(equation.at(f, *operands), found, beside, operands, {}, equation.symmetric)[0]
    return equation.lent(f, equation.options, z, *operands)


# -- bounds and constraints of `minimize`, and the equations that a constrained minimum satisfies
#
# Bounds: x - clip(x - gradient, low, high) = 0; its derivative is the Hessian's rows where x is free, and holds x at a bound
# that is active. Constraints: the equations of Karush, Kuhn and Tucker for (x, multipliers), in which an inequality c >= 0 with
# multiplier m contributes c if it is active (c <= m) and m otherwise. They determine the derivative if the gradients of the
# active constraints are independent and no active one has the multiplier 0; a singular system raises LinAlgError.


def bounds_of(bounds: Any, vector: Vector) -> tuple[Any, Any] | None:
    """(low, high) as vectors, from SciPy's Bounds or a sequence of pairs, in which None and traced numbers are allowed."""
    if bounds is None:
        return None
    n = vector.size
    if hasattr(bounds, "lb"):
        low, high = (fnp.broadcast_to(fnp.asarray(v, vector.dtype), (n,)) for v in (bounds.lb, bounds.ub))
        return low, high
    pairs = list(bounds)
    if len(pairs) != n or any(len(p) != 2 for p in pairs):
        raise ValueError(f"minimize: bounds must be {n} pairs (low, high), one per element of x0, got {len(pairs)}")
    sides = []
    for side, open_end in ((0, -np.inf), (1, np.inf)):
        values = [open_end if p[side] is None else p[side] for p in pairs]
        stacked = fnp.stack([fnp.asarray(v) for v in values]) if any(type(v) is Tracer for v in values) else np.asarray(values)
        sides.append(convert(stacked, vector.dtype))
    return sides[0], sides[1]


def projected(x: Any, gradient: Any, bounds: tuple[Any, Any] | None) -> Any:
    """What is zero at a minimum within bounds; the gradient if there are none."""
    if bounds is None:
        return gradient
    low, high = bounds
    return x - np.minimum(np.maximum(x - gradient, low), high)


def _ravel(x: Any, dtype: Any) -> Any:
    x = fnp.asarray(x)
    x = x if aval_of(x).dtype == dtype else convert(x, dtype)
    return reshape(x, shape=(aval_of(x).size,))


def _asked(limits: Any) -> Any:
    """The numbers of traced limits, asked for one by one as `float` asks."""
    if not is_abstract(limits):
        return limits
    flat = reshape(stop_gradient(limits), shape=(aval_of(limits).size,))
    return np.reshape([float(flat[i]) for i in range(shape_of(flat)[0])], shape_of(limits))


def _parts(constraint: Any, vector: Vector) -> tuple[Callable[[Any], list[Any]], Callable[[Any], list[Any]]]:
    """(values that must be 0, values that must not be negative) of one constraint, as functions of the vector."""
    if isinstance(constraint, dict):
        kind, f, args = constraint.get("type", "").lower(), constraint["fun"], constraint.get("args", ())
        if kind not in ("eq", "ineq"):
            raise ValueError(f"Unknown constraint type {constraint.get('type')!r}: it must be 'eq' or 'ineq'")
        values = lambda v: [_ravel(f(vector.tree(v), *args), vector.dtype)]
        nothing: Callable[[Any], list[Any]] = lambda v: []
        return (values, nothing) if kind == "eq" else (nothing, values)
    if hasattr(constraint, "A"):
        matrix = constraint.A.toarray() if hasattr(constraint.A, "toarray") else np.atleast_2d(constraint.A)
        matrix = matrix.astype(vector.dtype)
        value = lambda v: matrix @ v
    elif hasattr(constraint, "fun"):
        value = lambda v: _ravel(constraint.fun(vector.tree(v)), vector.dtype)
    else:
        raise TypeError(f"minimize: constraints are dicts, LinearConstraints or NonlinearConstraints, got {type(constraint)}")

    limits = [fnp.asarray(b, vector.dtype) for b in (constraint.lb, constraint.ub)]
    low, high = [np.asarray(_asked(b)) for b in limits]  # which of them there are is asked at the values
    same = low == high

    def split(v: Any) -> tuple[list[Any], list[Any]]:
        c = value(v)
        over, under = [sign * (c - b) for sign, b in zip((1, -1), limits)]
        among = lambda which: np.flatnonzero(np.broadcast_to(which, shape_of(c)))
        below, above = among(np.isfinite(low) & ~same), among(np.isfinite(high) & ~same)
        return [over[among(same)]], [over[below], under[above]]

    return (lambda v: split(v)[0]), (lambda v: split(v)[1])


def constraint_function(constraints: Any, vector: Vector) -> Callable[[Any], tuple[Any, Any]]:
    """The vector -> (all values that must be 0, all that must not be negative)."""
    given: Sequence[Any] = constraints if isinstance(constraints, (list, tuple)) else [constraints]
    parts = [_parts(c, vector) for c in given]

    def function(v: Any) -> tuple[Any, Any]:
        result = []
        for side in (0, 1):
            values = [c for p in parts for c in p[side](v)]
            result.append(concatenate(values, axis=0) if values else np.zeros(0, vector.dtype))
        return result[0], result[1]

    return function


def given_constraints(
    constraints: Any, vector: Vector, given: Handed, start: Any, left_out: tuple[bool, bool]
) -> Callable[[Sequence[Any]], Any]:
    """The constraints as the caller gave them, of functions on NumPy vectors, from a run's operands.

    `left_out`: are slopes and bends that the caller does not give funcad's?
    """
    if isinstance(constraints, (list, tuple)):
        made = [_given_constraint(c, vector, given, start, left_out) for c in constraints]
        return lambda values: [m(values) for m in made]
    return _given_constraint(constraints, vector, given, start, left_out)


def _given_constraint(
    c: Any, vector: Vector, given: Handed, start: Any, left_out: tuple[bool, bool]
) -> Callable[[Sequence[Any]], Any]:
    known = isinstance(c, dict)
    low: Any = None
    high: Any = None
    if not known:
        low, high = [_handed(b, vector, given, start) for b in (c.lb, c.ub)]
    if hasattr(c, "A"):
        matrix = _handed(c.A, vector, given, start)
        return lambda values: type(c)(matrix(values), low(values), high(values), c.keep_feasible)
    f, args = (c["fun"], c.get("args", ())) if known else (c.fun, ())
    flat = lambda v: _ravel(f(vector.tree(v), *args), vector.dtype)
    fun, jac = given.add(f, flat, start), c.get("jac") if known else c.jac
    if callable(jac):
        slope = given.add(jac, lambda v: fnp.asarray(dense_rows(jac(vector.tree(v), *args))), start)
    else:
        slope = given.add(_ravel, jacfwd(flat), start) if left_out[0] else lambda values: jac
    if known:
        return lambda values: {"type": c["type"], "fun": fun(values), "jac": slope(values)}
    bend: Any = lambda values: c.hess
    if callable(c.hess) or left_out[1]:
        own = lambda v, m: hessian(lambda u: np.sum(m * flat(u)))(v)
        user = lambda v, m: fnp.asarray(dense_rows(c.hess(vector.tree(v), m)))
        multipliers = np.zeros(shape_of(flat(start)), vector.dtype)
        bend = given.add(_ravel, user if callable(c.hess) else own, start, multipliers)
    more = {
        "keep_feasible": c.keep_feasible,
        "finite_diff_rel_step": c.finite_diff_rel_step,
        "finite_diff_jac_sparsity": c.finite_diff_jac_sparsity,
    }
    return lambda values: type(c)(fun(values), low(values), high(values), slope(values), bend(values), **more)


def _handed(x: Any, vector: Vector, given: Handed, start: Any) -> Callable[[Sequence[Any]], Any]:
    """An array of a constraint's, from a run's operands if it is traced."""
    if not is_abstract(x):
        return lambda values: x
    found = given.add(_ravel, lambda v: x, start)
    return lambda values: found(values)(np.zeros(vector.size))


def dense_rows(rows: Any) -> Any:
    return rows.toarray() if hasattr(rows, "toarray") else rows


def multipliers_of(x: Any, gradient: Any, values: Any, jacobians: Any, bounds: Any) -> tuple[np.ndarray, np.ndarray]:
    """Multipliers at a minimum: the gradient, where x is free, as a combination of the constraints' gradients."""
    equal, unequal = values
    j_equal, j_unequal = (np.asarray(j, float).reshape(len(c), len(x)) for j, c in zip(jacobians, values))
    free = np.ones(len(x), bool)
    if bounds is not None:
        room = 1e-7 * (1 + np.abs(x))
        free = (x - bounds[0] > room) & (bounds[1] - x > room)
    active = np.flatnonzero(unequal <= 1e-5 * (1 + np.abs(unequal).max(initial=0)))
    columns = np.concatenate([j_unequal[active], j_equal, -j_equal]).T[free]
    found = scipy_optimize().nnls(columns, np.asarray(gradient, float)[free])[0] if columns.size else np.zeros(columns.shape[1])
    m = np.zeros(len(unequal))
    m[active] = found[: len(active)]
    rest = found[len(active) :]
    return rest[: len(equal)] - rest[len(equal) :], m
