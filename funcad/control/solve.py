"""Implicit differentiation: `custom_linear_solve` and `custom_root`.

Idea: a solution is differentiated by the equation that it satisfies, not through the steps that found it. With A x = b,
A dx = db - dA x, so the tangent is another solve with the same A; and the solve is linear in b, so its transpose is a solve
with A transposed. With f(x, p) = 0, df/dx dx = -df/dp dp. The callables are traced when called, so they may close over traced
values, with respect to which the solution is differentiable; what only the solver reads (a preconditioner) has no influence
on the derivative. Where all values are known, what finds a root runs on them, and its program is only that root.

Trap: a solver that ignores its `matvec` argument cannot be reused for the transposed system, which would silently give a wrong
gradient; whether it calls its argument is noted while it is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from funcad import tree
from funcad.api.border import api, checked_pair, own_memory
from funcad.backends.engines import run_jaxpr
from funcad.control.body import check_structure, prepare, strengthened
from funcad.control.call import call, call_p, coerce, interned, rewire, scatter
from funcad.errors import MissingRuleError
from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of, said, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import any_tracer, trace_function
from funcad.ir.tracer import concrete_value
from funcad.masks.masked_rules import cleaned
from funcad.primitives.arithmetic import neg, sub
from funcad.primitives.loop import lead, zero_value
from funcad.primitives.placement import on_device_of
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.partial import linearize_eval
from funcad.transforms.transpose import transpose_jaxpr


def _strong(avals: Sequence[Any]) -> list[Any]:
    return [Aval(a.shape, a.dtype) for a in avals]


def _zeros_for(values: Sequence[Any], like: Sequence[Any]) -> list[Any]:
    """The values with a zero, of the aval of its counterpart, in place of each None."""
    zeros = on_device_of([zero_value(Aval(a.shape, a.dtype)) for a in map(aval_of, like)], like)
    return [z if v is None else v for v, z in zip(values, zeros)]


def _parameter_tangents(
    jaxpr: Jaxpr, consts: Sequence[Any], tangents: Sequence[Any], x: Sequence[Any], linear: bool
) -> list[Any]:
    """Tangents of `jaxpr(consts, x)` due to the consts alone (None: zero)."""
    if all(t is None for t in tangents):
        return [None] * len(jaxpr.outputs)
    rule: Any = call_p.linearize if linear else call_p.primal_and_jvp
    found = rule([*consts, *x], [*tangents, *[None] * len(x)], jaxpr=jaxpr, name="parameters")[1]
    return [cleaned(t) for t in found]


# ---------------------------------------------------------------- linear systems


class _System(NamedTuple):
    """The operands of one linear_solve: constants of matvec, solve and the transposed solve, and b."""

    matvec: list[Any]
    solve: list[Any]
    transpose: list[Any]
    b: list[Any]


def _parts(values: Sequence[Any], n_consts: tuple[int, int, int]) -> _System:
    return _System(*split(values, *n_consts))


def _solve_abstract(
    *avals: Any, matvec: Jaxpr, solve: Jaxpr, transpose_solve: Jaxpr | None, n_consts: tuple[int, int, int]
) -> list:
    return [strip_literal(o.aval) for o in solve.outputs]


def _solve_impl(
    xp: Any, *args: Any, matvec: Jaxpr, solve: Jaxpr, transpose_solve: Jaxpr | None, n_consts: tuple[int, int, int]
) -> list:
    system = _parts(args, n_consts)
    return run_jaxpr(solve, [*system.solve, *system.b])


def _solve_tangents(primals: Sequence[Any], tangents: Sequence[Any], linear: bool, params: dict) -> tuple[list, list]:
    outs = linear_solve_p(*primals, **params)
    system, ts = _parts(primals, params["n_consts"]), _parts(tangents, params["n_consts"])
    n = len(system.b)
    x = outs[:n]
    from_matrix = _parameter_tangents(params["matvec"], system.matvec, ts.matvec, x, linear)
    rhs = []
    for db, da_x in zip(ts.b, from_matrix):
        rhs.append(db if da_x is None else neg(da_x) if db is None else sub(db, da_x))
    if all(r is None for r in rhs):
        return outs, [None] * len(outs)
    rhs = _zeros_for(rhs, x)
    dx = linear_solve_p(*system.matvec, *system.solve, *system.transpose, *rhs, **params)[:n]
    return outs, [*dx, *[None] * (len(outs) - n)]


def _transposed_matvec(matvec: Jaxpr, n_consts: int) -> tuple[Jaxpr, list[Any]]:
    """(captured, matvec consts, y) -> x: the transposed matrix applied to a vector, and the captured values."""
    n = len(matvec.inputs) - n_consts
    flags = tuple([False] * n_consts + [True] * n)
    derived, captured, found = transpose_jaxpr(matvec, flags, (True,) * len(matvec.outputs))
    if all(found):
        return derived, captured
    avals = _strong(matvec.in_avals[n_consts:])

    def filled(*values: Any) -> list[Any]:
        outs = scatter(eval_jaxpr(derived, values), found)
        return [zero_value(a) if o is None else o for o, a in zip(outs, avals)]

    jaxpr, more = trace_function(filled, list(map(strip_literal, derived.in_avals)), name="transpose", abstract=False)
    return jaxpr, [*more, *captured]


def _solve_transpose(
    cts: Sequence[Any],
    *inputs: Any,
    matvec: Jaxpr,
    solve: Jaxpr,
    transpose_solve: Jaxpr | None,
    n_consts: tuple[int, int, int],
) -> list[Any]:
    system = _parts(inputs, n_consts)
    n = len(system.b)
    if transpose_solve is None:
        raise MissingRuleError(
            "reverse mode through custom_linear_solve needs transpose_solve: the solve function does not call its matvec "
            "argument, so it cannot be used for the transposed system.\nRemedy: give transpose_solve=, or symmetric=True."
        )
    cts = _zeros_for(cts[:n], [x.aval if is_linear(x) else x for x in system.b])
    transposed, captured = _transposed_matvec(matvec, n_consts[0])
    back = rewire(solve, solve.inputs, solve.outputs[:n])
    consts = [*captured, *system.matvec]
    outs = linear_solve_p(
        *consts, *system.transpose, *system.solve, *cts,
        matvec=transposed, solve=transpose_solve, transpose_solve=back,
        n_consts=(len(consts), n_consts[2], n_consts[1]),
    )  # fmt: skip
    return [*[None] * sum(n_consts), *outs]


def _solve_batch(
    size: int,
    args: Sequence[Any],
    batched: Sequence[bool],
    *,
    matvec: Jaxpr,
    solve: Jaxpr,
    transpose_solve: Jaxpr | None,
    n_consts: tuple[int, int, int],
) -> tuple[list, list]:
    system, flags = _parts(args, n_consts), _parts(batched, n_consts)
    n = len(system.b)
    b = [x if f else lead(x, size) for x, f in zip(system.b, flags.b)]
    every = (True,) * n
    mat, mat_captured, _ = batch_jaxpr(matvec, size, (*flags.matvec, *every), every)
    n_aux = len(solve.outputs) - n
    sol, sol_captured, out_batched = batch_jaxpr(solve, size, (*flags.solve, *every), (*every, *[False] * n_aux))
    back, back_captured = None, []
    if transpose_solve is not None:
        back, back_captured, _ = batch_jaxpr(transpose_solve, size, (*flags.transpose, *every), every)
    groups = [
        [*mat_captured, *system.matvec],
        [*sol_captured, *system.solve],
        [*back_captured, *system.transpose],
    ]
    outs = linear_solve_p(
        *groups[0], *groups[1], *groups[2], *b,
        matvec=mat, solve=sol, transpose_solve=back, n_consts=tuple(map(len, groups)),
    )  # fmt: skip
    return outs, out_batched


linear_solve_p = Primitive(
    "linear_solve",
    _solve_impl,
    _solve_abstract,
    primal_and_jvp=lambda primals, tangents, **params: _solve_tangents(primals, tangents, False, params),
    linearize=lambda primals, tangents, **params: _solve_tangents(primals, tangents, True, params),
    transpose=_solve_transpose,
    batch=_solve_batch,
    multiple=True,
    may_share=True,
)


class _Vectors:
    """The structure and avals of the unknown: flattening and checking what the user's functions return."""

    def __init__(self, what: str, example: Any, name: str):
        self.what = what
        self.name = name
        self.leaves, self.structure = prepare(what, example, name)
        self.avals = _strong(map(aval_of, self.leaves))

    def flat(self, value: Any, name: str) -> list[Any]:
        leaves, found = prepare(self.what, value, name)
        check_structure(self.what, found, self.structure, name, self.name)
        for path, x, aval in zip(self.structure.paths(), leaves, self.avals):
            got = aval_of(x)
            if got.shape != aval.shape or (got.dtype != aval.dtype and not got.weak):
                where = tree.keystr(path)
                raise TypeError(
                    f"{self.what}: {name}{where} must have the shape and dtype of {self.name}{where}, {aval:a}; got {said(x)}"
                )
        return leaves

    def trace(
        self, f: Callable[..., list], n: int = 1, before: Iterable[Any] = ()
    ) -> tuple[Jaxpr, list[Any]]:
        """Trace a function of n flat vectors, behind others, that returns one, or one and further outputs."""
        jaxpr, consts = trace_function(f, [*before, *self.avals * n], name=self.what)
        rest = [strip_literal(o.aval) for o in jaxpr.outputs[len(self.avals) :]]
        return interned(coerce(jaxpr, [*self.avals, *rest])), consts


def _solution_of(
    vectors: _Vectors, out: Any, f: Any, has_aux: bool, aux_tree: list[Any]
) -> list[Any]:
    """The leaves of what a solver returned, its auxiliary output behind the solution."""
    aux: list[Any] = []
    if has_aux:
        out, rest = checked_pair(f, out, "solution")
        aux, structure = prepare(vectors.what, rest, "aux")
        aux_tree[:] = [structure]
    return [*vectors.flat(out, "the solution"), *aux]


@api
def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The solution x of `matvec(x) = b`, found by a solver of your own and differentiated implicitly.

    Parameters
    ----------
    matvec : callable
        A linear function from values like b to values like b. It may close over traced values.
    b : array, number or container of them
        The right-hand side.
    solve : callable
        `solve(matvec, b)` returns the solution.
    transpose_solve : callable, optional
        `transpose_solve(vecmat, ct)` solves the transposed system, for reverse mode.
    symmetric : bool
        matvec is its own transpose, so that solve serves for both.
    has_aux : bool
        solve returns `(x, aux)`, and so does this; aux has no derivative.

    Returns
    -------
    like b
        The solution.

    Raises
    ------
    TypeError
        matvec or a solver returns another structure, shape or dtype; the message names the path.
    MissingRuleError
        Reverse mode is asked for without transpose_solve, and solve does not call its first argument.

    Notes
    -----
    Without transpose_solve, reverse mode calls `solve(vecmat, ct)`. As `jax.lax.custom_linear_solve`, which asks for
    transpose_solve.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> a = np.array([2.0, 4.0])
    >>> funcad.custom_linear_solve(lambda x: a * x, np.ones(2), lambda matvec, b: b / a)
    array([0.5 , 0.25])
    >>> solution = lambda b: funcad.custom_linear_solve(lambda x: a * x, b, lambda matvec, b: b / a, symmetric=True)
    >>> funcad.grad(lambda b: np.sum(solution(b)))(np.ones(2))
    array([0.5 , 0.25])

    See also
    --------
    custom_root, linear_transpose, funcad.scipy.sparse.linalg.cg
    """
    vectors = _Vectors("custom_linear_solve", b, "b")
    unflatten = vectors.structure.unflatten

    def matvec_flat(*x: Any) -> list[Any]:
        return vectors.flat(matvec(unflatten(x)), "matvec(x)")

    mat, mat_consts = vectors.trace(matvec_flat)
    called: list[bool] = []

    def noted(x: Any) -> Any:
        called.append(True)
        return matvec(x)

    aux_tree: list[Any] = []
    sol, sol_consts = vectors.trace(
        lambda *b: _solution_of(vectors, solve(noted, unflatten(b)), solve, has_aux, aux_tree)
    )
    inputs = [*mat_consts, *sol_consts, *vectors.leaves]
    back, back_consts = None, []
    if symmetric:
        n = len(vectors.avals)
        back, back_consts = rewire(sol, sol.inputs, sol.outputs[:n]), sol_consts
    elif any_tracer(inputs) and (transpose_solve is not None or called):
        back, back_consts = _trace_transposed(vectors, mat, mat_consts, solve, transpose_solve, has_aux)
    values = strengthened(vectors.leaves, vectors.avals)
    inputs = [*mat_consts, *sol_consts, *back_consts, *values]
    outs = linear_solve_p(
        *inputs, matvec=mat, solve=sol, transpose_solve=back,
        n_consts=(len(mat_consts), len(sol_consts), len(back_consts)),
    )  # fmt: skip
    outs = own_memory(outs, inputs)
    x = unflatten(outs[: len(values)])
    return (x, aux_tree[0].unflatten(outs[len(values) :])) if has_aux else x


def _trace_transposed(
    vectors: _Vectors, mat: Jaxpr, mat_consts: list[Any], solve: Any, transpose_solve: Any, has_aux: bool
) -> tuple[Jaxpr | None, list[Any]]:
    try:
        transposed, captured = _transposed_matvec(mat, len(mat_consts))
    except MissingRuleError:
        if transpose_solve is None:
            return None, []  # forward mode needs no transpose
        raise
    unflatten = vectors.structure.unflatten

    def vecmat(y: Any) -> Any:
        return unflatten(eval_jaxpr(transposed, [*captured, *mat_consts, *vectors.flat(y, "the argument of vecmat")]))

    def flat(*ct: Any) -> list[Any]:
        if transpose_solve is not None:
            return vectors.flat(transpose_solve(vecmat, unflatten(ct)), "transpose_solve(vecmat, b)")
        out = solve(vecmat, unflatten(ct))
        return vectors.flat(out[0] if has_aux else out, "the solution")

    return vectors.trace(flat)


# ---------------------------------------------------------------- roots


def _root_abstract(
    *avals: Any, f: Jaxpr, solve: Jaxpr, tangent_solve: Jaxpr, n_consts: tuple[int, int, int]
) -> list:
    return [strip_literal(o.aval) for o in solve.outputs]


def _root_impl(
    xp: Any, *args: Any, f: Jaxpr, solve: Jaxpr, tangent_solve: Jaxpr, n_consts: tuple[int, int, int]
) -> list:
    _, consts, _, guess = split(args, *n_consts)
    return run_jaxpr(solve, [*consts, *guess])


def _root_tangents(primals: Sequence[Any], tangents: Sequence[Any], linear: bool, params: dict) -> tuple[list, list]:
    outs = root(*primals, **params)
    f_consts, _, tangent_consts, guess = split(primals, *params["n_consts"])
    n = len(guess)
    x = outs[:n]
    rhs = _parameter_tangents(params["f"], f_consts, tangents[: len(f_consts)], x, linear)
    if all(r is None for r in rhs):
        return outs, [None] * len(outs)
    rhs = _zeros_for(rhs, x)
    found = call(params["tangent_solve"], *tangent_consts, *x, *rhs, name="tangent_solve")
    return outs, [*map(neg, found), *[None] * (len(outs) - n)]


def _root_batch(
    size: int,
    args: Sequence[Any],
    batched: Sequence[bool],
    *,
    f: Jaxpr,
    solve: Jaxpr,
    tangent_solve: Jaxpr,
    n_consts: tuple[int, int, int],
) -> tuple[list, list]:
    consts, (f_flags, s_flags, t_flags, g_flags) = split(args, *n_consts), split(batched, *n_consts)
    guess = [x if flag else lead(x, size) for x, flag in zip(consts[3], g_flags)]
    every = (True,) * len(guess)
    n_aux = len(solve.outputs) - len(guess)
    fun, fun_captured, _ = batch_jaxpr(f, size, (*f_flags, *every), every)
    sol, sol_captured, out_batched = batch_jaxpr(solve, size, (*s_flags, *every), (*every, *[False] * n_aux))
    tan, tan_captured, _ = batch_jaxpr(tangent_solve, size, (*t_flags, *every, *every), every)
    groups = [[*fun_captured, *consts[0]], [*sol_captured, *consts[1]], [*tan_captured, *consts[2]]]
    outs = root(
        *groups[0], *groups[1], *groups[2], *guess,
        f=fun, solve=sol, tangent_solve=tan, n_consts=tuple(map(len, groups)),
    )  # fmt: skip
    return outs, out_batched


root = Primitive(
    "root",
    _root_impl,
    _root_abstract,
    primal_and_jvp=lambda primals, tangents, **params: _root_tangents(primals, tangents, False, params),
    linearize=lambda primals, tangents, **params: _root_tangents(primals, tangents, True, params),
    batch=_root_batch,
    multiple=True,
    may_share=True,
)


@api
def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """The x with `f(x) = 0`, found by a solver of your own and differentiated implicitly.

    Parameters
    ----------
    f : callable
        It takes a value like initial_guess and returns one like it. The root is differentiable with respect to the
        traced values that it closes over.
    initial_guess : array, number or container of them
        Where the solver starts; the root does not depend on it.
    solve : callable
        `solve(f, initial_guess)` returns the root; it need not be differentiable. It runs on values, so it may ask for
        them (`while abs(f(x)) > 1e-12`); under `jit` and `vmap` it is traced.
    tangent_solve : callable
        `tangent_solve(g, y)` returns the x with `g(x) = y` for a linear g; for a scalar, `lambda g, y: y / g(1.0)`.
    has_aux : bool
        solve returns `(x, aux)`, and so does this; aux, of arrays and numbers, has no derivative.

    Returns
    -------
    like initial_guess
        The root.

    Raises
    ------
    TypeError
        f or a solver returns another structure, shape or dtype; the message names the path.

    Notes
    -----
    The derivative is that of the implicit function: it solves one linear equation, however many steps the solver took.
    As `jax.lax.custom_root`. `funcad.scipy.optimize.root` is a solver that needs none of this.

    Examples
    --------
    >>> import funcad
    >>> def root(a):
    ...     newton = lambda f, x: funcad.fori_loop(0, 20, lambda i, x: x - f(x) / (2 * x), x)
    ...     return funcad.custom_root(lambda x: x * x - a, 1.0, newton, lambda g, y: y / g(1.0))
    >>> round(float(funcad.grad(root)(4.0)), 6)
    0.25
    >>> told = lambda f, x: (2.0, 7)  # a solver that knows the root, and says how many steps it took
    >>> funcad.custom_root(lambda x: x * x - 4.0, 1.0, told, lambda g, y: y / g(1.0), has_aux=True)
    (np.float64(2.0), 7)

    See also
    --------
    custom_linear_solve, while_loop, custom_jvp
    """
    vectors = _Vectors("custom_root", initial_guess, "initial_guess")
    unflatten = vectors.structure.unflatten
    fun, fun_consts = vectors.trace(lambda *x: vectors.flat(f(unflatten(x)), "f(x)"))
    aux_tree: list[Any] = []

    def solution(f: Callable[[Any], Any], *x: Any) -> list[Any]:
        return _solution_of(vectors, solve(f, unflatten(x)), solve, has_aux, aux_tree)

    n = len(vectors.avals)
    guess = strengthened(vectors.leaves, vectors.avals)
    consts, start = split(list(map(concrete_value, [*fun_consts, *guess])), len(fun_consts))
    if state.abstract is None and state.checked is None and not any_tracer([*consts, *start]):  # the solver runs on values
        at = lambda x: unflatten(run_jaxpr(fun, [*consts, *vectors.flat(x, "the argument of f")]))
        sol_consts = list(map(concrete_value, solution(at, *[x.copy() for x in start])))
        sol, _ = vectors.trace(lambda *x: list(x[: len(sol_consts)]), before=map(aval_of, sol_consts))
    else:
        sol, sol_consts = vectors.trace(partial(solution, f))

    def tangent_flat(*values: Any) -> list[Any]:
        x, y = split(values, n)
        flags = [False] * len(fun_consts) + [True] * n
        outs, nonzero, linear, residuals = linearize_eval(fun, [*fun_consts, *x], flags)

        def g(v: Any) -> Any:
            found = scatter(eval_jaxpr(linear, [*residuals, *vectors.flat(v, "the argument of g")]), nonzero)
            return unflatten(_zeros_for(found, outs))

        return vectors.flat(tangent_solve(g, unflatten(y)), "tangent_solve(g, y)")

    tan, tan_consts = vectors.trace(tangent_flat, 2)
    inputs = [*fun_consts, *sol_consts, *tan_consts, *guess]
    outs = root(
        *inputs, f=fun, solve=sol, tangent_solve=tan, n_consts=(len(fun_consts), len(sol_consts), len(tan_consts))
    )
    outs = own_memory(outs, inputs)
    x = unflatten(outs[:n])
    return (x, aux_tree[0].unflatten(outs[n:])) if has_aux else x
