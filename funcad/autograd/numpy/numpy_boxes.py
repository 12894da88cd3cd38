"""`autograd.numpy.numpy_boxes`: `ArrayBox`, the type of a traced value, whose `_value` is the value without derivative."""

import funcad.autograd.nodes as _nodes  # which gives traced values `_value`, `_node` and `_trace`
from funcad.ir.tracer import Tracer as ArrayBox

__all__ = ["ArrayBox"]

assert _nodes
