"""`autograd.core`: `make_vjp(fun, x)`, `make_jvp(fun, x)` at a point, nodes for `trace`, and the names of `autograd.extend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.autograd import differential_operators as _operators
from funcad.autograd.extend import def_linear as def_linear
from funcad.autograd.extend import defjvp as defjvp
from funcad.autograd.extend import defjvp_argnum as defjvp_argnum
from funcad.autograd.extend import defjvp_argnums as defjvp_argnums
from funcad.autograd.extend import defvjp as defvjp
from funcad.autograd.extend import defvjp_argnum as defvjp_argnum
from funcad.autograd.extend import defvjp_argnums as defvjp_argnums
from funcad.autograd.extend import primitive as primitive
from funcad.autograd.tracer import Node
from funcad.autograd.vspaces import VSpace as VSpace
from funcad.autograd.vspaces import vspace as vspace

__all__ = ["JVPNode", "VJPNode", "backward_pass", "make_vjp", "make_jvp", "primitive", "vspace"]


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """The pair (vjp, value) of a function of one argument at x.

    >>> pullback, value = make_vjp(lambda x: x * x, 3.0)
    >>> float(pullback(1.0)), float(value)
    (6.0, 9.0)
    """
    return _operators.make_vjp(fun)(x)


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function `v -> (value, Jacobian times v)` of a function of one argument at x.

    >>> [float(v) for v in make_jvp(lambda x: x * x, 3.0)(1.0)]
    [9.0, 6.0]
    """
    return _operators.make_jvp(fun)(x)


class VJPNode(Node):
    """Reverse mode's node: `vjp(g)` gives the cotangents of its `parents`. `VJPNode.new_root()` starts a trace."""

    __slots__ = ("parents", "vjp")

    def initialize_root(self) -> None:
        self.parents: list[Any] = []
        self.vjp: Callable[[Any], tuple] = lambda g: ()

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        pullback, value = make_vjp(fun, x)
        node = type(self).new_root()
        node.parents, node.vjp = [self], lambda g: (pullback(g),)
        return value, node


class JVPNode(Node):
    """Forward mode's node: `g` is the tangent. `JVPNode.new_root(g)` starts a trace."""

    __slots__ = ("g",)

    def initialize_root(self, g: Any) -> None:
        self.g = g

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        value, g = make_jvp(fun, x)(self.g)
        return value, type(self).new_root(g)


def backward_pass(g: Any, end_node: Any) -> Any:
    """The cotangent of the start of the trace that ended in `end_node`, for the cotangent g of its end.

    >>> from funcad.autograd.tracer import trace
    >>> value, node = trace(VJPNode.new_root(), lambda x: x**3, 2.0)
    >>> float(value), float(backward_pass(1.0, node)), float(backward_pass(2.0, node))
    (8.0, 12.0, 24.0)
    """
    while end_node.parents:
        (g,), (end_node,) = end_node.vjp(g), end_node.parents
    return g
