"""Forward mode for users: jvp and linearize; and linear_transpose.

Outside jit they *follow* (following.py): the user's function runs once, on its real values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.api.border import (
    AbstractOutput,
    OutTree,
    api,
    check_leaves,
    check_tangents,
    flat_function,
    flat_values,
    name_of,
    own_memory,
    tangent_aval,
    with_aux,
    zeros_for,
)
from funcad.api.jitted_derivatives import derivative_of
from funcad.api.linearized import Linearized, linearized
from funcad.errors import NonDifferentiableInputError
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import push
from funcad.primitives.placement import each_on_device_of
from funcad.transforms.jvp import jvp_eval
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.following import follow
from funcad.unjitted.strides import Given

__all__ = ["jvp", "linearize", "linear_transpose", "pushforward_of"]


@api
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Value of f and its derivative along a direction (forward mode).

    `primals` and `tangents` are tuples or lists of pytrees of equal structure, shapes and dtypes; integer and bool leaves
    take `np.zeros(shape, funcad.float0)`. Returns `(output, output_tangent)`, and `(output, output_tangent, aux)` with
    has_aux. Raises TangentMismatchError naming the path that does not fit. As JAX's, but Python `if` and `while` on values
    work.
    Returns arrays like the output of f, twice.

    >>> import numpy as np, funcad
    >>> y, dy = funcad.jvp(np.sin, (0.0,), (1.0,))
    >>> float(dy)
    1.0
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp: primals and tangents must be tuples or lists with one entry per argument, got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    compiled = derivative_of(f, ("jvp", has_aux), lambda g: lambda ps, ts: jvp(g, ps, ts, has_aux), same=False)
    if compiled is not None:
        found = compiled(tuple(primals), tuple(tangents))
        if found is not NotImplemented:
            return found
    p_leaves, t_leaves, in_tree = check_tangents(tuple(primals), tuple(tangents), "jvp", "primals", "tangents")
    store = OutTree()
    box: dict[str, Any] = {}
    g = with_aux(f, has_aux, box)

    def flat(*leaves: Any) -> list[Any]:
        out, store.tree = flat_values(g(*in_tree.unflatten(leaves)))
        return out

    outs, touts = follow(flat, p_leaves, t_leaves)
    n = box.get("n", len(outs))
    check_leaves(outs[:n], f"jvp: output of {name_of(f)}")
    touts = each_on_device_of([zeros_for(o) if t is None else t for o, t in zip(outs[:n], touts)], outs[:n])
    count = len(outs)
    both = own_memory([*outs, *touts], [*p_leaves, *t_leaves])
    outs, touts = both[:count], both[count:]
    if not has_aux:
        return store.tree.unflatten(outs), store.tree.unflatten(touts)
    out_tree, _ = store.tree.children()
    out, aux = store.tree.unflatten(outs)
    return out, out_tree.unflatten(touts), aux


@api
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of f and its derivative at `primals` as a function of tangents, to be applied to many of them.

    Returns `(output, f_jvp)`, and `(output, f_jvp, aux)` with has_aux; f runs once. `f_jvp(*tangents)` takes one pytree per
    argument and returns the output's tangent. As JAX's.
    `f_jvp` raises TangentMismatchError where a tangent does not fit its primal.

    >>> import numpy as np, funcad
    >>> y, f_jvp = funcad.linearize(np.exp, 0.0)
    >>> float(f_jvp(2.0))
    2.0
    """
    found = linearized(f, primals, has_aux, "linearize")
    return found.out, pushforward_of(f, primals, found), *found.aux


def pushforward_of(f: Any, primals: Sequence[Any], linear: Linearized) -> Callable[..., Any]:
    """The derivative as a function of tangents."""
    outs, jaxpr, residuals, locks = linear.outs, linear.jaxpr, linear.residuals, linear.locks

    @api
    def f_jvp(*tangents: Any) -> Any:
        held = locks  # the residuals stay locked as long as this function lives
        held.check()
        _, ts, _ = check_tangents(tuple(primals), tangents, f"derivative of {name_of(f)}", "primals", "tangents")
        found = iter(push(jaxpr, residuals, [t for t, d in zip(ts, linear.differentiable) if d], jvp_eval))
        touts = each_on_device_of([next(found) if z else zeros_for(o) for o, z in zip(outs, linear.nonzero)], outs)
        del held
        return linear.out_tree.unflatten(own_memory(touts, [t for t in ts if t is not None] + residuals))

    return f_jvp


@api
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple]:
    """The transpose of a linear function: output cotangents in, a tuple of argument cotangents out.

    Only shapes and dtypes of `primals` are read (ShapeDtypeStructs will do). f is traced, not run; an operation that is not
    linear in the arguments raises MissingRuleError. As JAX's; complex numbers are not conjugated.
    Returns that function, which raises TangentMismatchError where a cotangent does not fit.

    >>> import numpy as np, funcad
    >>> transposed = funcad.linear_transpose(lambda x: 3.0 * x, np.ones(2))
    >>> transposed(np.array([1.0, 2.0]))
    (array([3., 6.]),)
    """
    leaves, in_tree = flat_values((primals, {}))
    for x in leaves:
        if not is_inexact(aval_of(x)):
            raise NonDifferentiableInputError(f"linear_transpose: arguments must be float or complex, got {aval_of(x)}")
    store = OutTree()
    jaxpr, consts = trace_function(
        flat_function(f, in_tree, store, f"linear_transpose of {name_of(f)}"),
        [tangent_aval(x) for x in leaves],
        name="linear_transpose",
        given=Given(leaves),
    )
    n = len(consts)
    linear = [False] * n + [True] * len(leaves)

    @api
    def transposed(cotangent: Any) -> tuple:
        outs = store.tree.unflatten([AbstractOutput(a) for a in jaxpr.out_avals])
        _, cts, _ = check_tangents(outs, cotangent, f"linear_transpose of {name_of(f)}", "output", "cotangent")
        found = transpose_eval(jaxpr, linear, [*consts, *[None] * len(leaves)], cts)
        grads = [zeros_for(x) if ct is None else ct for x, ct in zip(leaves, found)]
        return in_tree.children()[0].unflatten(own_memory(grads, [*cts, *consts]))

    return transposed
