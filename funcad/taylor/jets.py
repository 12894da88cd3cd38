"""`jet`: a function of power series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

from funcad import tree
from funcad.api.border import OutTree, api, check_leaves, flat_function, name_of, own_memory
from funcad.errors import NonDifferentiableInputError, TangentMismatchError
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import any_tracer, trace_function
from funcad.jitted.path_recording import Recorder
from funcad.primitives.arithmetic import div, mul
from funcad.primitives.conversion import convert
from funcad.taylor.series import Taylor
from funcad.taylor.series_loops import as_series, coefficients, series_rules
from funcad.unjitted.strides import Given

__all__ = ["jet", "traced_at"]


def traced_at(f: Callable[..., Any], args: tuple, what: str) -> tuple[Jaxpr, list[Any], OutTree, list[Any]]:
    """f as a program for these arguments: (jaxpr, consts, structure of the output, leaves).

    Where the arguments have values, Python's control flow reads them.
    """
    leaves, in_tree = tree.flatten((args, {}))
    check_leaves(leaves, f"{what} of {name_of(f)}: argument", args)
    store = OutTree()
    flat = flat_function(f, in_tree, store, f"{what} of {name_of(f)}")
    if not any_tracer(leaves):
        flat = Recorder(leaves).watching(flat)
    jaxpr, consts = trace_function(flat, [aval_of(x) for x in leaves], name=f"{what} of {name_of(f)}", given=Given(leaves))
    return jaxpr, consts, store, leaves


@api
def jet(f: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]]) -> tuple[Any, list[Any]]:
    """f along a curve: the value and the derivatives of `f(x(t))` at t = 0, of those of x(t), to any order.

    primals: a tuple with one entry per argument of f, pytrees: x(0).
    series: for each argument a list of n pytrees like it, the derivatives x'(0), x''(0), ... x^(n)(0).

    Returns `(value, derivatives)`: f(x(0)), and a list of n pytrees like it, d/dt^k f(x(t)) at 0. The work is quadratic in n,
    where nested jvp's is exponential; it goes through loops, branches, linear solves and custom rules, and is differentiable,
    mapped and jitted as other functions are. At kinks the side is taken that the value is on, ties as `jvp` does.

    Raises TangentMismatchError where structures, shapes or lengths differ; NonDifferentiableInputError for integers. JAX's
    `jax.experimental.jet.jet` takes arrays only, and has rules for some operations; its derivatives of a tuple are a tuple of
    lists.

    >>> import numpy as np, funcad
    >>> value, (first, second, third) = funcad.jet(np.exp, (0.0,), ([2.0, 0.0, 0.0],))
    >>> float(first), float(second), float(third)
    (2.0, 4.0, 8.0)
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
                f"jet: primals[{argument}] must be float, got {aval}; integers have no derivatives.\n"
                "Remedy: convert it with .astype(float), or let f close over it."
            )
        if given.shape != aval.shape or given.dtype.kind == "c" and aval.dtype.kind != "c":
            raise TangentMismatchError(f"{what}: expected {aval}, as in primals[{argument}], got {given}")
        t = convert(t, aval.dtype)
        result.append(div(t, float(factorial(k))) if k > 1 else t)
    return result
