"""`autograd.tracer`: `getval`, `isbox`, `notrace_primitive`, `Box`, the type of traced values, and `trace` with its nodes.

There is no graph of all operations: the node that `trace` returns stands for the whole function, and knows its start.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from funcad import tree
from funcad.autograd.extend import notrace_primitive as notrace_primitive
from funcad.autograd.extend import primitive as primitive
from funcad.ir.tracer import Tracer
from funcad.ir.tracer import Tracer as Box
from funcad.primitives.conversion import stop_gradient

__all__ = ["Box", "Node", "getval", "isbox", "new_box", "notrace_primitive", "primitive", "trace"]


def isbox(x: Any) -> bool:
    """Is x a value that a transform traces?

    >>> isbox(1.0)
    False
    """
    return type(x) is Tracer


def getval(x: Any) -> Any:
    """x without its derivative: outside jit and vmap the plain array. As `funcad.stop_gradient`, for any leaf.

    >>> from funcad import grad
    >>> float(grad(lambda x: x * getval(x))(3.0))
    3.0
    """
    return tree.map(lambda leaf: stop_gradient(leaf) if isbox(leaf) else leaf, x)


class Node:
    """What `trace` starts from: a `VJPNode` or a `JVPNode` of `autograd.core`, made by `new_root`."""

    __slots__: tuple[str, ...] = ()

    def initialize_root(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}.new_root: the class does not say what a root is: `initialize_root`")

    @classmethod
    def new_root(cls, *args: Any, **kwargs: Any) -> Any:
        root = cls.__new__(cls)
        root.initialize_root(*args, **kwargs)
        return root

    def behind(self, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
        """The value of fun at x, and the node of that value, whose start this is."""
        raise NotImplementedError(
            f"trace: the node is a {type(self).__name__}, and no node of its own is made for each operation.\n"
            "Remedy: start from VJPNode.new_root() or JVPNode.new_root(g) of autograd.core; "
            "`funcad.make_jaxpr(fun)(x)` lists the operations."
        )


def trace(start_node: Any, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """The value of fun at x, and its node: None, with a warning, where the value does not depend on x.

    >>> from funcad.autograd.core import VJPNode, backward_pass
    >>> value, node = trace(VJPNode.new_root(), lambda x: x * x, 3.0)
    >>> float(value), float(backward_pass(1.0, node))
    (9.0, 6.0)
    """
    depends = []

    def observed(start: Any) -> Any:
        end = fun(start)
        here = {id(leaf.owner) for leaf in tree.leaves(start) if isbox(leaf)}
        depends.append(any(isbox(leaf) and id(leaf.owner) in here for leaf in tree.leaves(end)))
        return end

    value, node = start_node.behind(observed, x)
    if any(depends):
        return value, node
    warnings.warn("trace: the output does not depend on the input", stacklevel=2)
    return value, None


def new_box(value: Any, trace: Any, node: Any) -> NoReturn:
    """Refused, with what to use: traced values of funcad's are made by transforms, for one run of a function."""
    raise NotImplementedError(
        "new_box: a traced value belongs to the run of a function that a transform started, so none is made outside of one.\n"
        "Remedy: `value, node = trace(VJPNode.new_root(), fun, x)`, then `backward_pass(g, node)` for each g; "
        "or `autograd.core.make_vjp(fun, x)`, `autograd.jacobian(fun)(x)`."
    )
