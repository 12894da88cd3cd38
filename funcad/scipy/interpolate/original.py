"""What all interpolators share: SciPy's own object behind them, for everything that is not traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.devices import namespace_of
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import is_traced
from funcad.scipy.door import scipy_function

__all__ = ["Interpolator", "inside"]


def _is_plain(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Is everything plain numbers and NumPy's arrays, so that SciPy can do it?"""
    return (
        not is_traced(args, kwargs)
        and namespace_of([b for a in args for b in (a if isinstance(a, (tuple, list)) else (a,))]) is np
    )


class Interpolator:
    """An object made from arguments of which some may be traced; SciPy's own is made when it is first needed."""

    _name = ""

    def __init__(self, *args: Any, **kwargs: Any):
        self._given = (args, kwargs)
        self._holds_traced = not _is_plain(args, kwargs)
        self._made: Any = None
        if not self._holds_traced:
            self._original()  # its checks of the arguments are ours

    def _original(self) -> Any:
        if self._made is None:
            args, kwargs = self._given
            self._made = scipy_function(f"interpolate.{self._name}")(*args, **kwargs)
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_given" not in self.__dict__:
            raise AttributeError(name)
        if self._holds_traced:
            raise AttributeError(f"{self._name} of traced values has no attribute {name!r}")
        return getattr(self._original(), name)

    def _plainly(self, *args: Any) -> bool:
        """Is nothing traced, neither here nor in the arguments of the call?"""
        return not self._holds_traced and _is_plain(args, {})


def inside(x: Any, low: Any, high: Any, name: str, below: str, above: str) -> None:
    """Raise ValueError where a known x leaves [low, high], and NotImplementedError where x has no value."""
    values = [concrete_value(v) for v in (x, low, high)]
    if any(type(v) is Tracer for v in values):
        raise NotImplementedError(
            f"{name} cannot check the bounds of traced values inside jit or vmap.\n"
            "Remedy: bounds_error=False, with fill_value=np.nan to see what was outside, or fill_value=None (extrapolate)."
        )
    x, low, high = values
    if np.any(x < low):
        raise ValueError(below)
    if np.any(x > high):
        raise ValueError(above)
