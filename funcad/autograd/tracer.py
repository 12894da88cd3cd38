"""`autograd.tracer`: boxes, which are traced values; `trace` and `new_box`, which start from nodes (nodes.py).

The node that `trace` returns stands for the whole function, and knows its start; a value behind `new_box` has a node for each
operation. `Box` is the class of all traced values to isinstance, and that of boxes for classes of your own (user_boxes.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from funcad import tree
from funcad.api.border import runs
from funcad.ir.tracer import Tracer

# isort: off
from funcad.autograd.extend import (
    notrace_primitive as notrace_primitive, notrace_primitives as notrace_primitives, primitive as primitive,
    register_notrace as register_notrace,
)  # fmt: skip
from funcad.autograd.nodes import (
    JVPNode, Node as Node, TraceStack as TraceStack, VJPNode, new_box as new_box, toposort as toposort,
    trace_stack as trace_stack,
)  # fmt: skip
from funcad.autograd.user_boxes import Box as Box, getval as getval, isbox as isbox, unboxed
from funcad.autograd.util import subvals as subvals
# isort: on

__all__ = [
    *("Box", "Node", "TraceStack", "box_type_mappings", "box_types", "find_top_boxed_args", "getval", "isbox", "new_box"),
    *("notrace_primitive", "notrace_primitives", "primitive", "register_notrace", "subvals", "toposort", "trace"),
    "trace_stack",
]

box_types, box_type_mappings = Box.types, Box.type_mappings


def find_top_boxed_args(args: Sequence[Any]) -> tuple[list[tuple[int, Any]], int, Any, bool]:
    """The traced values of the innermost trace among args, with their positions; its number; the class of its nodes, if any.

    >>> find_top_boxed_args((1.0, 2.0))
    ([], -1, None, False)
    """
    boxes = [(i, x) for i, x in enumerate(args) if type(x) is Tracer]
    if not boxes:
        return [], -1, None, False
    top = max([x.owner.level for _, x in boxes])
    found = [(i, x) for i, x in boxes if x.owner.level == top]
    owner = found[0][1].owner
    linear = getattr(owner, "linear", None)
    kind = None if linear is None else VJPNode if linear else JVPNode
    return found, top, getattr(owner, "kind", kind), False


def trace(start_node: Any, fun: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """The value of fun at x, and its node: None, with a warning, where the value does not depend on x.

    >>> from funcad.autograd.core import VJPNode, backward_pass
    >>> value, node = trace(VJPNode.new_root(), lambda x: x * x, 3.0)
    >>> float(value), float(backward_pass(1.0, node))
    (9.0, 6.0)
    """
    depends = []

    def observed(start: Any) -> Any:
        start, end = unboxed(start), unboxed(runs(fun)(start))
        here = {id(leaf.owner) for leaf in tree.leaves(start) if type(leaf) is Tracer}
        depends.append(any(type(leaf) is Tracer and id(leaf.owner) in here for leaf in tree.leaves(end)))
        return end

    value, node = start_node.behind(observed, x)
    if any(depends):
        return value, node
    warnings.warn("trace: the output does not depend on the input", stacklevel=2)
    return value, None
