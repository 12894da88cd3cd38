"""`autograd.core`: `make_vjp(fun, x)`, `make_jvp(fun, x)` at a point, nodes, tables of rules, and `autograd.extend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.autograd import differential_operators as _operators

# isort: off
from funcad.autograd.extend import (
    def_linear as def_linear, defjvp as defjvp, defjvp_argnum as defjvp_argnum, defjvp_argnums as defjvp_argnums,
    defvjp as defvjp, defvjp_argnum as defvjp_argnum, defvjp_argnums as defvjp_argnums,
)  # fmt: skip
from funcad.autograd.nodes import JVPNode as JVPNode, Node as Node, VJPNode as VJPNode, backward_pass as backward_pass
from funcad.autograd.rule_tables import (
    OldPrimitive, add_outgrads as add_outgrads, identity_jvp as identity_jvp, identity_vjp as identity_vjp,
    primitive_jvps as primitive_jvps, primitive_vjps as primitive_vjps, sparse_add as sparse_add,
    sum_outgrads as sum_outgrads, translate_jvp as translate_jvp, translate_vjp as translate_vjp,
)  # fmt: skip
from funcad.autograd.tracer import Box as Box, getval as getval, isbox as isbox, trace as trace
from funcad.autograd.util import func as func, subval as subval, toposort as toposort
from funcad.autograd.vspaces import SparseObject as SparseObject, VSpace as VSpace, vspace as vspace
# isort: on

__all__ = [
    *("Box", "JVPNode", "Node", "SparseBox", "SparseObject", "VJPNode", "VSpace", "add_outgrads", "backward_pass", "func"),
    *("getval", "identity_jvp", "identity_vjp", "isbox", "make_jvp", "make_vjp", "primitive", "primitive_jvps"),
    *("primitive_vjps", "sparse_add", "sparse_object_types", "subval", "sum_outgrads", "toposort", "trace", "translate_jvp"),
    *("translate_vjp", "vspace"),
]


primitive = OldPrimitive


class SparseBox(Box):
    """Stands for autograd's traced sparse cotangents, of which funcad has none: a rule's `SparseObject` is made dense."""

    __slots__ = ()


sparse_object_types = {SparseObject, SparseBox}


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """The pair (vjp, value) of a function of one argument at x.

    >>> pullback, value = make_vjp(lambda x: x * x, 3.0)
    >>> float(pullback(1.0)), float(value)
    (6.0, 9.0)
    """
    if not callable(fun):
        return _operators.make_vjp(fun)(x)  # type: ignore[no-any-return] which says what is wrong
    return _operators.at(_operators.with_pullback, fun, 0, x)  # type: ignore[no-any-return]


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function `v -> (value, Jacobian times v)` of a function of one argument at x.

    >>> [float(v) for v in make_jvp(lambda x: x * x, 3.0)(1.0)]
    [9.0, 6.0]
    """
    if not callable(fun):
        return _operators.make_jvp(fun)(x)  # type: ignore[no-any-return]
    return _operators.at(_operators.with_push, fun, 0, x)  # type: ignore[no-any-return]
