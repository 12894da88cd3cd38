"""`custom_gradient`: a function that returns its output together with its own pullback."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import OutTree, api, flat_values, name_of
from funcad.custom.custom_vjp import custom_vjp
from funcad.ir.aval import Aval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import trace_function

__all__ = ["custom_gradient"]


class _TracedVjp:
    """The traced vjp function of `custom_gradient`, as a static residual."""

    __slots__ = ("jaxpr", "in_tree")

    def __init__(self, jaxpr: Jaxpr, in_tree: Any):
        self.jaxpr = jaxpr
        self.in_tree = in_tree


class _OwnPullback(custom_vjp):
    """What `custom_gradient` returns: rules that are made of the function itself."""

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._target.f.__wrapped__, custom_gradient


@api
def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """A function that computes its output and its own pullback: `fun(*args)` returns `(output, vjp_function)`.

    `vjp_function(cotangent)` returns a tuple with one cotangent per argument (the cotangent itself if there is one argument).
    It is traced with an abstract cotangent. As JAX's; forward mode works too.
    TypeError where `fun` does not return such a pair, or the pullback another number of cotangents.

    >>> import numpy as np, funcad
    >>> square = funcad.custom_gradient(lambda x: (x * x, lambda ct: 3.0 * ct * x))
    >>> float(funcad.grad(square)(2.0))
    6.0
    """

    @functools.wraps(fun)
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    def fwd(*args: Any) -> tuple[Any, Any]:
        out, pullback = fun(*args)
        outs, out_tree = flat_values(out)
        store = OutTree()

        def flat(*cts: Any) -> list[Any]:
            result = pullback(out_tree.unflatten(cts))
            if len(args) == 1 and not (isinstance(result, tuple) and len(result) == 1):
                result = (result,)
            leaves, store.tree = flat_values(tuple(result))
            return leaves

        avals = [Aval(aval_of(o).shape, aval_of(o).dtype) for o in outs]
        jaxpr, consts = trace_function(flat, avals, name=f"pullback of {name_of(fun)}")
        return out, (consts, _TracedVjp(jaxpr, store.tree))

    def bwd(residuals: tuple, ct: Any) -> tuple:
        consts, pullback = residuals
        return pullback.in_tree.unflatten(eval_jaxpr(pullback.jaxpr, [*consts, *tree.leaves(ct)]))

    wrapped = _OwnPullback(value)
    wrapped.defvjp(fwd, bwd)
    return wrapped
