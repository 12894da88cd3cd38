"""Python's operators as implementations.

NumPy and CuPy arrays overload them, on NumPy scalars they are several times quicker than ufuncs, and between Python's
own scalars they give Python scalars (weak stays weak). Where Python's scalars behave unlike NumPy's (division by
zero, overflow, a complex root of a negative number) the operation is redone by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def operator_impl(python: Callable[..., Any], ufunc: np.ufunc, device: Any = None) -> Callable[..., Any]:
    """`impl(xp, *args)` by Python's operator, or by the ufunc where Python's own scalars would raise.

    `device(xp, theirs, *args)` computes it where CuPy's operator differs from NumPy's.
    """
    name = ufunc.__name__

    def impl(xp: Any, *args: Any) -> Any:
        if device is not None and xp is not np and not all([type(a) in (bool, int, float, complex) for a in args]):
            return device(xp, getattr(xp, name), *args)
        try:
            return python(*args)
        except (ZeroDivisionError, OverflowError, ValueError, TypeError):
            return ufunc(*args) if xp is np else getattr(xp, name)(*args)

    impl.on_arrays = python  # type: ignore[attr-defined]
    impl.namesake = device is None  # type: ignore[attr-defined]
    return impl


def with_ufunc(primitive: Any, ufunc: np.ufunc) -> Any:
    """The same primitive, with the ufunc that computes it (for dispatch and for results written in place)."""
    primitive.ufunc = primitive.inplace = ufunc
    primitive.label = ufunc.__name__
    return primitive
