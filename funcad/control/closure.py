"""`closure_convert`: values that a function closes over become arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import OutTree, api, check_leaves, flat_function, flat_values, name_of
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer

__all__ = ["closure_convert"]


@api
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the traced values that `fun` closes over into arguments: `(converted, values)`.

    `converted(*args, *values)` is `fun(*args)` for arguments with the structure, shapes and dtypes of `example_args`; so a
    function can be handed to `custom_vjp` and its rules as a non-differentiable argument, with `values` beside it as ordinary
    ones. Arrays that are not being traced stay inside. `fun` is traced with abstract values. As JAX's.
    TypeError where an example is no array or number.

    >>> import numpy as np, funcad
    >>> def f(a):
    ...     converted, values = funcad.closure_convert(lambda x: a * x, 1.0)
    ...     return converted(3.0, *values) + len(values)
    >>> float(funcad.grad(f)(2.0))
    3.0
    """
    leaves, in_tree = flat_values((example_args, {}))
    check_leaves(leaves, f"closure_convert of {name_of(fun)}: argument", example_args)
    store = OutTree()
    avals = [aval_of(x) for x in leaves]
    jaxpr, captured = trace_function(
        flat_function(fun, in_tree, store), avals, name=f"closure_convert({name_of(fun)})", staging=True
    )
    hoisted = [type(c) is Tracer for c in captured]
    fixed = [None if h else c for c, h in zip(captured, hoisted)]
    values = [c for c, h in zip(captured, hoisted) if h]
    n_args = len(example_args)

    @functools.wraps(fun)
    @api
    def converted(*args: Any) -> Any:
        if len(args) != n_args + len(values):
            raise TypeError(
                f"{name_of(fun)}, converted by closure_convert, takes {n_args} argument(s) and the {len(values)} value(s) that "
                f"closure_convert returned; got {len(args)}"
            )
        given, given_tree = flat_values((args[:n_args], {}))
        if given_tree != in_tree:
            raise TypeError(
                f"{name_of(fun)}, converted by closure_convert: "
                + tree.describe_difference(given_tree, in_tree, "the arguments", "the example arguments")
            )
        found = iter(args[n_args:])
        consts = [next(found) if h else c for c, h in zip(fixed, hoisted)]
        return store.tree.unflatten(eval_jaxpr(jaxpr, [*consts, *given]))

    return converted, values
