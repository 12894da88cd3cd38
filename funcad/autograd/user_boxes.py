"""Boxes: what `isinstance(x, Box)` says, and boxes for values of classes of your own.

Idea: a value of a class that has a vector space (`VSpace.register`) is a pytree of its attributes, so that derivatives go
through it as through any container. Where such a value holds traced arrays and its class has a box (`Box.register`), functions
that autograd's operators differentiate, and what primitives return, show the box: an object of the class that was registered,
whose `_value` is the value. Primitives get the value, and so do their rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad import tree
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import stop_gradient

__all__ = ["Box", "boxed", "getval", "isbox", "unboxed"]


class _AlsoTraced(type):
    """Traced arrays and numbers are boxes, too."""

    def __instancecheck__(cls, x: Any) -> bool:
        return cls is Box and type(x) is Tracer or cls in type(x).__mro__

    def __subclasscheck__(cls, kind: type) -> bool:
        return cls is Box and kind is Tracer or cls in kind.__mro__


class Box(metaclass=_AlsoTraced):
    """The class of traced values to `isinstance`; inherit from it for boxes of values of your own, and register these.

    >>> from funcad import grad
    >>> from funcad.autograd.extend import VSpace, defvjp, primitive
    >>> class Temperature:
    ...     def __init__(self, kelvin):
    ...         self.kelvin = kelvin
    >>> class TemperatureBox(Box):
    ...     __slots__ = ()
    ...     def doubled(self):
    ...         return double(self)
    >>> VSpace.register(Temperature)
    >>> TemperatureBox.register(Temperature)
    >>> double = primitive(lambda t: 2.0 * t.kelvin)
    >>> defvjp(double, lambda ans, t: lambda g: Temperature(2.0 * g))
    >>> from funcad.autograd import grad
    >>> float(grad(lambda t: t.doubled() ** 2)(Temperature(3.0)).kelvin)
    24.0
    """

    __slots__ = ("_value", "_trace", "_node")
    types: set[type] = {Tracer}
    type_mappings: dict[type, type] = dict.fromkeys(
        (np.ndarray, float, complex, *[np.dtype(c).type for c in "efdgFDG"], Tracer), Tracer
    )

    def __init__(self, value: Any, trace: Any = None, node: Any = None):
        self._value, self._trace, self._node = value, trace, node

    def __bool__(self) -> bool:
        return bool(self._value)

    def __str__(self) -> str:
        return f"{type(self).__name__} of {self._value}"

    @classmethod
    def register(cls, value_type: type) -> None:
        """Let values of that class, when they hold traced arrays, be shown as boxes of this class."""
        if cls is Box:
            raise TypeError(
                f"Box.register({value_type.__name__}): Box itself has no methods for it.\n"
                f"Remedy: class {value_type.__name__}Box(Box), and {value_type.__name__}Box.register({value_type.__name__})."
            )
        Box.types.add(cls)
        Box.type_mappings[value_type] = Box.type_mappings[cls] = cls


def boxed(x: Any) -> Any:
    """x, in which values that hold traced arrays are in the boxes of their classes."""
    if len(Box.types) == 1:
        return x

    def box_of(part: Any) -> Any:
        return Box.type_mappings.get(type(part), Tracer)

    def show(part: Any) -> Any:
        kind = box_of(part)
        if kind is Tracer:
            return part
        owners = [leaf.owner for leaf in tree.leaves(part) if type(leaf) is Tracer]
        return kind(part, max([owner.level for owner in owners]), None) if owners else part

    return tree.map(show, x, is_leaf=lambda part: box_of(part) is not Tracer)


def unboxed(x: Any) -> Any:
    """x with the values of boxes in their places."""
    own = lambda part: type(part) is not Tracer and type(part) in Box.types
    return x if len(Box.types) == 1 else tree.map(lambda part: part._value if own(part) else part, x)


def isbox(x: Any) -> bool:
    """Is x a value that a transform traces?

    >>> isbox(1.0)
    False
    """
    return type(x) in Box.types


def getval(x: Any) -> Any:
    """x without its derivative: outside jit and vmap the plain array. As `funcad.stop_gradient`, for any leaf.

    >>> from funcad import grad
    >>> float(grad(lambda x: x * getval(x))(3.0))
    3.0
    """
    return tree.map(lambda leaf: stop_gradient(leaf) if type(leaf) is Tracer else leaf, unboxed(x))
