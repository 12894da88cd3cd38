"""`autograd.tracer`: `getval`, `isbox`, `notrace_primitive`, and `Box`, the type of traced values."""

from __future__ import annotations

from typing import Any

from funcad import tree
from funcad.autograd.extend import notrace_primitive as notrace_primitive
from funcad.autograd.extend import primitive as primitive
from funcad.ir.tracer import Tracer
from funcad.ir.tracer import Tracer as Box
from funcad.primitives.conversion import stop_gradient

__all__ = ["Box", "getval", "isbox", "notrace_primitive", "primitive"]


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
