"""Derivatives by Taylor series: jets, Laplacians, the Hessian's diagonal.

Idea of the forward Laplacian: beside its value every intermediate y carries its columns dy/dx_i, along a new axis, and its own
Laplacian. Through y = p(x) columns go as tangents do, all at once; the Laplacian goes through the same linear map, plus the sum
over i of the second derivative of p in the direction of column i, which is the jvp of p's jvp rule (series.py, `JvpProgram`). A
linear operation adds nothing, so that most of the work is one batched forward pass, where n Hessian-vector products are n of
them and n backward.

Source: Li and others, "A computational framework for neural network-based variational Monte Carlo with Forward Laplacian",
Nature Machine Intelligence 6 (2024).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import factorial
from typing import Any, NamedTuple

import numpy as np

from funcad import random, tree
from funcad import sparse as _sparse
from funcad.api.border import OutTree, Transformed, api, check_leaves, check_second, flat_function, name_of, own_memory
from funcad.api.jacobian import hvp, selected
from funcad.api.vmap import vmap
from funcad.errors import NonDifferentiableInputError, NonScalarOutputError, TangentMismatchError
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, aval_of, is_inexact, said, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal
from funcad.ir.trace import any_tracer, bind, trace_function
from funcad.ir.tracer import concrete_value
from funcad.jitted.path_recording import Recorder
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.conversion import convert
from funcad.primitives.families import reduce_sum
from funcad.primitives.placement import on_device_of
from funcad.scipy.tree_vectors import Vector
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_eval
from funcad.unjitted.strides import Given

from funcad.taylor.series import (  # isort: skip
    INLINED, JvpProgram, Taylor, as_series, coefficients, inexact, series_rules, strong, written_at, zeros_like,
)

# -- `jet`: a function of power series


def traced_at(f: Callable[..., Any], args: tuple, what: str) -> tuple[Jaxpr, list[Any], OutTree, list[Any]]:
    """f as a program for these arguments: (jaxpr, consts, structure of the output, leaves).

    Where the arguments have values, Python's control flow reads them; else it asks the traces around.
    """
    leaves, in_tree = tree.flatten((args, {}))
    check_leaves(leaves, f"{what} of {name_of(f)}: argument", args, given=True)
    store = OutTree()
    flat = flat_function(f, in_tree, store, f"{what} of {name_of(f)}")
    values = list(map(concrete_value, leaves))
    known = not any_tracer(values) and all([shape_of(v) == shape_of(x) for v, x in zip(values, leaves)])
    flat = Recorder(values if known else leaves).watching(flat)
    jaxpr, consts = trace_function(flat, [aval_of(x) for x in leaves], name=f"{what} of {name_of(f)}", given=Given(leaves))
    return jaxpr, consts, store, leaves


@api
def jet(f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
    """f along a curve: the value and the derivatives of `f(x(t))` at t = 0, to any order.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any output.
    primals : tuple or list
        The point x(0): one entry for each positional argument of f.
    series : tuple or list
        For each argument a list of n values like it: the derivatives x'(0), x''(0), ... of order 1 to n.

    Returns
    -------
    value : like the output of f
        f(x(0)).
    derivatives : list
        n values like the output: the derivatives of f(x(t)) at t = 0, of order 1 to n.

    Raises
    ------
    TangentMismatchError
        Structures, shapes or lengths differ.
    NonDifferentiableInputError
        An argument has integers.

    Notes
    -----
    The work grows as n squared, where nested `jvp` grows exponentially. It goes through loops, branches, linear solves
    and custom rules, and can be differentiated, mapped and jitted. At a kink it takes the side on which the value is,
    as `jvp` does. `jax.experimental.jet.jet` takes arrays only, has rules for some operations, and gives a tuple of
    lists for a tuple.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> value, (first, second, third) = funcad.jet(np.exp, (0.0,), ([2.0, 0.0, 0.0],))
    >>> float(first), float(second), float(third)
    (2.0, 4.0, 8.0)
    >>> value, (first, second) = funcad.jet(lambda x, y: x * y, (2.0, 3.0), ([1.0, 0.0], [1.0, 0.0]))
    >>> float(first), float(second)
    (5.0, 2.0)

    See also
    --------
    jvp, laplacian, hessian_diagonal
    """
    if not is_a(primals, (tuple, list)) or not is_a(series, (tuple, list)) or len(primals) != len(series):
        raise TangentMismatchError(
            "jet takes tuples with one entry per argument of f: jet(f, (x,), ([x1, x2, ...],)), got "
            f"{type(primals).__name__} and {type(series).__name__}"
            + (f" of {len(primals)} and {len(series)}" if is_a(primals, (tuple, list)) and is_a(series, (tuple, list)) else "")
        )
    lengths = {len(terms) if is_a(terms, (tuple, list)) else None for terms in series}
    if len(lengths) > 1 or None in lengths:
        raise TangentMismatchError(f"jet: series must hold a list for each argument, all of one length, got {series!r}")
    order = lengths.pop() if lengths else 0
    behind: list[list[Any]] = []
    for i, (x, terms) in enumerate(zip(primals, series)):
        columns = [_leaves_like(x, term, i, k + 1) for k, term in enumerate(terms)]
        behind += [list(column) for column in zip(*columns)] if columns else [[] for _ in tree.leaves(x)]
    jaxpr, consts, store, leaves = traced_at(f, tuple(primals), "jet")
    run = Taylor(order, series_rules)
    results = run.run(jaxpr, [*as_series(consts, [[]] * len(consts)), *as_series(leaves, behind)])
    values = own_memory([x[0] for x in results], [*consts, *leaves])
    higher = [coefficients(x, order) for x in results]
    terms = [[mul(c[k], float(factorial(k + 1))) if k else c[k] for c in higher] for k in range(order)]
    flat = own_memory([c for column in terms for c in column], [*values, *consts, *leaves, *[c for b in behind for c in b]])
    n = len(values)
    return store.tree.unflatten(values), [store.tree.unflatten(flat[k * n : (k + 1) * n]) for k in range(order)]


def _leaves_like(x: Any, term: Any, argument: int, k: int) -> list[Any]:
    """The coefficients that a derivative says, of Taylor's kind."""
    leaves, structure = tree.flatten(x)
    found, other = tree.flatten(term)
    what = f"jet: series[{argument}][{k - 1}]"
    if other != structure:
        raise TangentMismatchError(tree.describe_difference(other, structure, what, f"primals[{argument}]"))
    check_leaves(found, what, term)
    result = []
    for value, t in zip(leaves, found):
        aval, given = aval_of(value), aval_of(t)
        if not is_inexact(aval):
            raise NonDifferentiableInputError(
                f"jet: primals[{argument}] must be float, got {said(value)}; integers have no derivatives.\n"
                "Remedy: convert it with .astype(float), or let f close over it."
            )
        if given.shape != aval.shape or given.dtype.kind == "c" and aval.dtype.kind != "c":
            raise TangentMismatchError(f"{what}: expected {aval:a}, as in primals[{argument}], got {said(t)}")
        t = convert(t, aval.dtype)
        result.append(div(t, float(factorial(k))) if k > 1 else t)
    return result


# -- the Laplacian in one pass, and the diagonal of a Hessian


class _Carried(NamedTuple):
    """A value with its columns (n, *shape) and its Laplacian; both None if it does not depend on the arguments."""

    value: Any
    columns: Any = None
    laplacian: Any = None


@api
def laplacian(f: Callable[..., Any], argnums: int | Sequence[int] | None = None) -> Callable[..., Any]:
    """The Laplacian of f: the sum of its second derivatives in all elements of an argument.

    Parameters
    ----------
    f : callable
        A function of arrays or numbers, or containers of them, and of further arguments, with any output.
    argnums : int or sequence of ints, optional
        In which argument, by default the first; of several, the sum is over the elements of all.

    Returns
    -------
    callable
        It takes the arguments of f. The result has the structure, shapes and dtypes of the output of f.

    Raises
    ------
    NonDifferentiableInputError
        When it is called with such an argument that is not real.

    Notes
    -----
    One forward pass carries values, first derivatives and Laplacians, for less than a third of the work of one `hvp`
    for each element. f is traced at each call: put the result into `jit`. JAX has no such function.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.laplacian(lambda x: np.sum(x**3) + x[0] * x[1])(np.array([1.0, 2.0]))
    np.float64(18.0)
    >>> float(funcad.laplacian(lambda x, y: x**3 * y**2, argnums=(0, 1))(1.0, 2.0))
    26.0
    >>> harmonic = funcad.jit(funcad.laplacian(lambda x, scale: scale * (x[0] ** 2 - x[1] ** 2)))
    >>> float(harmonic(np.array([1.0, 2.0]), 5.0))
    0.0

    See also
    --------
    hessian_diagonal, hessian, jet
    """
    check_second(f, argnums, "laplacian", "argnums")

    @api
    def laplacian_of(*args: Any, **kwargs: Any) -> Any:
        g, x = _of_chosen(f, argnums, args, kwargs, "laplacian")
        vector = Vector("laplacian: the argument", x, given=True)
        _check_real(vector, x, "laplacian")
        columns = _columns(vector, x)
        jaxpr, consts, store, leaves = traced_at(g, (x,), "laplacian")
        inputs = [*map(_Carried, consts), *[_Carried(v, c, None) for v, c in zip(leaves, columns)]]
        results = _run(jaxpr, inputs, vector.size)
        values = [zeros_like(r.value) if r.laplacian is None else r.laplacian for r in results]
        return store.tree.unflatten(own_memory(values, [*consts, *leaves]))

    return Transformed(laplacian_of, f, functools.partial(laplacian, argnums=argnums))


def _of_chosen(f: Any, argnums: Any, args: tuple, kwargs: dict, what: str) -> tuple[Any, Any]:
    """f as a function of one value, and that value: the argument that is chosen, or the tuple of several."""
    partial, chosen, single = selected(f, argnums, args, kwargs, what)
    return (partial, chosen[0]) if single else (functools.wraps(partial)(lambda xs: partial(*xs)), chosen)


def _check_real(vector: Vector, x: Any, what: str) -> None:
    for leaf in tree.leaves(x):
        if aval_of(leaf).dtype.kind != "f":
            raise NonDifferentiableInputError(
                f"{what}: the argument must be real, got {said(leaf)}.\nRemedy: convert it with .astype(float)."
            )


def _columns(vector: Vector, x: Any) -> list[Any]:
    """Of each leaf: the derivatives in all elements, along a new axis 0."""
    start, found = 0, []
    for leaf, size in zip(tree.leaves(x), vector.sizes):
        column = np.zeros((vector.size, size), aval_of(leaf).dtype)
        column[range(start, start + size), range(size)] = 1
        start += size
        found += on_device_of([column.reshape(vector.size, *shape_of(leaf))], [leaf])
    return found


def _run(jaxpr: Jaxpr, inputs: Sequence[_Carried], n: int) -> list[_Carried]:
    env: dict[Any, _Carried] = dict(zip(jaxpr.inputs, inputs))
    read = lambda a: _Carried(a.value) if type(a) is Literal else env[a]
    for equation in jaxpr.equations:
        operands = [read(a) for a in equation.inputs]
        with written_at(equation):
            if equation.primitive in INLINED:
                found = _run(equation.params["jaxpr"], operands, n)
            else:
                found = _through(equation, operands, n)
        env.update(zip(equation.outputs, found))
    return [read(o) for o in jaxpr.outputs]


def _through(equation: Equation, operands: list[_Carried], n: int) -> list[_Carried]:
    primitive, params = equation.primitive, equation.params
    values = [x.value for x in operands]
    out = bind(primitive, *values, **params)
    outs = list(out) if primitive.multiple else [out]
    token = suppress_warnings()
    try:
        return _moved(equation, operands, values, outs, n)
    finally:
        restore_warnings(token)


def _moved(equation: Equation, operands: list[_Carried], values: list[Any], outs: list[Any], n: int) -> list[_Carried]:
    """The results with their columns and Laplacians."""
    primitive, params = equation.primitive, equation.params
    moving = [x.columns is not None and inexact(aval_of(x.value)) for x in operands]
    if primitive.passive or not any(moving):
        return [_Carried(o) for o in outs]
    rule = JvpProgram(primitive, params, values, moving, outs)
    columns = [x.columns if m else None for x, m in zip(operands, moving)]
    given = [*rule.captured, *rule.inputs(outs, values, columns)]
    m = sum(moving)
    flags = [False] * (len(given) - m) + [True] * m
    out_columns = _mapped(rule.jaxpr, n, flags, given)
    laplacians: list[Any] = [None] * len(out_columns)
    if any([x.laplacian is not None for x in operands]):
        filled = [zeros_like(x.value) if x.laplacian is None else x.laplacian for x in operands]
        laplacians = eval_jaxpr(rule.jaxpr, [*rule.captured, *rule.inputs(outs, values, filled)])
    if not rule.is_linear():
        placed = rule.placed(out_columns)
        more = _second(rule, outs, values, placed, columns, n)
        laplacians = [s if x is None else x if s is None else add(x, s) for x, s in zip(laplacians, more)]
    pairs = zip(rule.placed(out_columns), rule.placed(laplacians))
    return [_Carried(o, c, x) for o, (c, x) in zip(outs, pairs)]


def _mapped(jaxpr: Jaxpr, n: int, flags: list[bool], values: list[Any]) -> list[Any]:
    """The program for n examples of the values that are flagged; all results have the axis."""
    derived, captured, _ = batch_jaxpr(jaxpr, n, tuple(flags), (True,) * len(jaxpr.outputs))
    return eval_jaxpr(derived, [*captured, *values])


def _second(
    rule: JvpProgram, outs: list[Any], values: list[Any], out_columns: list[Any], columns: list[Any], n: int
) -> list[Any]:
    """Of each result the sum over all directions of its second derivative."""
    moved = [c for c in columns if c is not None]
    slopes = [c for c in out_columns if c is not None]
    first = [*rule.captured, *outs, *[v for v, g in zip(values, rule.given) if g]]
    present: list[bool] = []

    def program(*given: Any) -> list[Any]:
        ts, touts = given[len(first) : len(first) + len(moved)], iter(given[len(first) + len(moved) :])
        of_outs = [None if c is None else next(touts) for c in out_columns]
        it = iter(ts)
        of_values = [next(it) if c is not None else None for c, g in zip(columns, rule.given) if g]
        tangents = [*[None] * len(rule.captured), *of_outs, *of_values, *[None] * len(ts)]
        found = jvp_eval(rule.jaxpr, [*given[: len(first)], *ts], tangents)[1]
        present[:] = [t is not None for t in found]
        return [t for t in found if t is not None]

    avals = [aval_of(x) for x in first]
    avals = [a if type(a) is not Aval else Aval(a.shape, a.dtype, a.weak) for a in avals]
    avals += [strong(aval_of(c)).unbatched() for c in [*moved, *slopes]]
    jaxpr, captured = trace_function(program, avals, name="laplacian")
    flags = [False] * (len(captured) + len(first)) + [True] * (len(moved) + len(slopes))
    found = iter(_mapped(jaxpr, n, flags, [*captured, *first, *moved, *slopes]))
    return [reduce_sum(next(found), axes=(0,)) if p else None for p in present]


@api
def hessian_diagonal(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, *, method: str = "jet", key: Any = None, samples: int = 1
) -> Callable[..., Any]:
    """The second derivative of f in each element of an argument.

    Parameters
    ----------
    f : callable
        A function whose output is one real number of shape ().
    argnums : int or sequence of ints, optional
        In which argument, by default the first.
    method : {"jet", "sparse", "hutchinson"}
        "jet", the default, is exact: one series of second order for each element, all at once. "sparse" is exact, too:
        it colours the Hessian (`funcad.sparse`), for functions of which each term reads few elements. "hutchinson"
        estimates, from Hessian-vector products with random signs.
    key : array of shape (2,) and dtype uint32, optional
        For "hutchinson": the key of the random signs (`funcad.random.key`).
    samples : int
        For "hutchinson": how many products to average.

    Returns
    -------
    callable
        It takes the arguments of f. The result has the structure, shapes and dtypes of the argument; for a sequence of
        `argnums` it is a tuple.

    Raises
    ------
    NonScalarOutputError
        When it is called, and f does not return one number.
    NonDifferentiableInputError
        When it is called with such an argument that is not real.
    ValueError
        There is no such method.

    Notes
    -----
    The estimate has no bias; its error is that of the elements beside the diagonal (Bekas, Kokiopoulou and Saad, 2007).
    JAX has no such function.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> f = lambda x: np.sum(x**3) * x[0]
    >>> funcad.hessian_diagonal(f)(np.array([1.0, 2.0]))
    array([12., 12.])
    >>> estimate = funcad.hessian_diagonal(lambda x: np.sum(x**3), method="hutchinson", key=funcad.random.key(0))
    >>> estimate(np.array([1.0, 2.0]))  # of a diagonal matrix it is exact
    array([ 6., 12.])

    See also
    --------
    hessian, laplacian, hvp
    """
    if method not in ("jet", "sparse", "hutchinson"):
        raise ValueError(f"hessian_diagonal: method must be 'jet', 'sparse' or 'hutchinson', got {method!r}")
    if (method == "hutchinson") != (key is not None):
        raise TypeError("hessian_diagonal: method='hutchinson' needs key=funcad.random.key(seed), and only that takes one")
    check_second(f, argnums, "hessian_diagonal", "argnums")

    @api
    def diagonal_of(*args: Any, **kwargs: Any) -> Any:
        of_chosen, x = _of_chosen(f, argnums, args, kwargs, "hessian_diagonal")
        vector = Vector("hessian_diagonal: the argument", x, given=True)
        _check_real(vector, x, "hessian_diagonal")
        start = vector.flat(x)

        def g(v: Any) -> Any:
            value = of_chosen(vector.tree(v))
            if tree.structure(value) != tree.structure(0.0) or shape_of(value) != ():
                raise NonScalarOutputError(
                    f"hessian_diagonal: f must return one number, got {value!r}.\nRemedy: np.sum; laplacian takes any."
                )
            return value

        if method == "sparse":
            return vector.tree(np.asarray(_sparse.hessian(g)(start).diagonal()))
        if method == "hutchinson":
            (signs,) = on_device_of([random.rademacher(key, (samples, vector.size), vector.dtype)], [start])
            products = vmap(lambda s: s * hvp(g, (start,), (s,)))(signs)
            return vector.tree(np.mean(products, axis=0))
        basis, still = on_device_of([np.eye(vector.size, dtype=vector.dtype), np.zeros(vector.size, vector.dtype)], [start])
        return vector.tree(vmap(lambda e: jet(g, (start,), ([e, still],))[1][1])(basis))

    options = {"argnums": argnums, "method": method, "key": key, "samples": samples}
    return Transformed(diagonal_of, f, functools.partial(hessian_diagonal, **options))
