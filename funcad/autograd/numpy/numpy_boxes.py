"""`autograd.numpy.numpy_boxes`: `ArrayBox`, the type of a traced value, whose `_value` is the value without derivative."""

from funcad.autograd.tracer import getval as _getval
from funcad.ir.tracer import Tracer as ArrayBox
from funcad.numpy.methods import ATTRIBUTES as _ATTRIBUTES

__all__ = ["ArrayBox"]

_ATTRIBUTES["_value"] = _getval
