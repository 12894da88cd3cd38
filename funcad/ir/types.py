"""The words that types are said in, in ir/ and above: for type checkers and readers, nothing happens here.

`Value` is what a program computes with: an array of NumPy's or of a device, a number, a traced value, a loop's stack. `Tangent`
and `Cotangent` are values, or None for zero. An `Atom` stands for a value in an equation. `Any` is left where no word fits: for
`bind`, which gives one value or a list of them as the primitive has it, and for what a table holds that is everybody's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    import numpy as np

    from funcad.host.devices import DeviceArray
    from funcad.host.where import Source
    from funcad.ir.aval import Aval, Stack, StackAval
    from funcad.ir.jaxpr import Literal, Var
    from funcad.ir.tracer import Tracer

__all__ = ["AnyAval", "Atom", "Cotangent", "Function", "Location", "Number", "Params", "Tangent", "Value"]

Number: TypeAlias = "bool | int | float | complex | np.generic"
Value: TypeAlias = "np.ndarray | DeviceArray | Number | Tracer | Stack"
Tangent: TypeAlias = "Value | None"
Cotangent: TypeAlias = "Value | None"
AnyAval: TypeAlias = "Aval | StackAval"
Atom: TypeAlias = "Var | Literal"
Params: TypeAlias = dict[str, Any]  # of an equation: each primitive has its own
Location: TypeAlias = "Source | None"  # of an equation, where the user wrote it
Function = TypeVar("Function", bound=Callable[..., Any])  # what a decorator gives back with the signature that it was given
