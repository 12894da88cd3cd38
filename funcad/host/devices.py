"""Which array library runs an operation, and what may be moved there.

An operation runs on CuPy if any array among its arguments is a CuPy array. Scalars, 0-d NumPy arrays, literals and fills (one
number broadcast to a shape, as the zeros that rules make) follow, and what a trace captured is moved once (`on_device_of`);
another shaped NumPy argument meeting a CuPy argument raises, naming both. `NAMESPACES` maps array types to modules; CuPy's
type is added when the first CuPy array is seen (nothing here imports cupy), and tests add a stand-in.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.errors import PlacementError
from funcad.host.locks import is_constant
from funcad.host.where import outside

if TYPE_CHECKING:
    from typing import Protocol

    class DeviceArray(Protocol):
        """What is known of an array of another library than NumPy."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype: ...
        @property
        def ndim(self) -> int: ...


__all__ = ["NAMESPACES", "namespace_of", "is_device", "place", "device_in_use", "on_device", "resident"]

NAMESPACES: dict[type, Any] = {}  # array types other than numpy.ndarray -> their module


def _discover(kind: type) -> Any:
    if kind.__module__.partition(".")[0] == "cupy" and kind.__name__ == "ndarray":
        module = NAMESPACES[kind] = sys.modules["cupy"]
        return module
    return None


def is_device(kind: type) -> bool:
    """Is this the type of a device's arrays?"""
    return kind in NAMESPACES or _discover(kind) is not None


def device_in_use() -> bool:
    """Could any array of this process be elsewhere than in NumPy?

    A cheap question before `namespace_of`, never an answer: who has imported cupy computes with NumPy's arrays all the same.
    """
    return bool(NAMESPACES) or "cupy" in sys.modules


def namespace_of(args: Sequence[Any]) -> ModuleType | Any:
    """numpy, or the module of the first device array among the arguments."""
    if not NAMESPACES and "cupy" not in sys.modules:
        return np
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            continue
        found = NAMESPACES.get(kind) or _discover(kind)
        if found is None and kind is not list and issubclass(kind, list) and a:  # what a loop has kept (Stack of ir/aval.py)
            found = namespace_of(a[-1:])
            found = None if found is np else found
        if found is not None:
            return found
    return np


def on_device(args: Sequence[Any]) -> bool:
    """Is any array among the arguments elsewhere than in NumPy?"""
    return (bool(NAMESPACES) or "cupy" in sys.modules) and namespace_of(args) is not np


def place(xp: Any, args: Sequence[Any], what: str) -> list[Any]:
    """The arguments as `xp` can take them: scalars, 0-d arrays and fills moved, another shaped NumPy array refused."""
    placed = []
    for a in args:
        if type(a) is np.ndarray:
            if any(a.strides) and a.size:
                device = next(b for b in args if type(b) in NAMESPACES)
                raise PlacementError(
                    f"{what} got a NumPy array of shape {a.shape} and dtype {a.dtype} together with a {xp.__name__} array "
                    f"of shape {device.shape} and dtype {device.dtype}.\nRemedy: move one of them: funcad.device_put(x) puts a "
                    "NumPy array on the GPU, funcad.device_get(x) brings a GPU array back."
                )
            a = xp.broadcast_to(xp.asarray(a[(0,) * a.ndim]), a.shape) if a.ndim and a.size else xp.asarray(a)
        placed.append(a)
    return placed


# (id of a NumPy array, device) -> the array, its copy there, and its contents if they may change
_resident: dict[tuple[int, int], tuple[weakref.ref, Any, Any]] = {}
_copied: dict[int, weakref.ref] = {}  # large arrays that were copied, by id
LARGE = 1 << 20  # bytes
_warned = [False]


def resident(xp: Any, x: np.ndarray, lent: bool = False) -> Any:
    """A captured NumPy array on the device. Of one that is read-only the copy is kept as long as the array lives.

    Others may change before the next call, so they are copied at each; of the first large one that is, a warning tells. Who
    only borrows the copy (`lent`) gets the same of one that is not large while its contents are the same.
    """
    key = id(x), xp.cuda.runtime.getDevice() if hasattr(xp, "cuda") else 0
    constant = is_constant(x)
    if constant or lent and x.nbytes <= LARGE:
        contents = None if constant else (x.dtype.str, x.shape, x.tobytes())
        entry = _resident.get(key)
        if entry is None or entry[0]() is not x or entry[2] != contents:
            entry = weakref.ref(x, lambda _: _resident.pop(key, None)), xp.asarray(x), contents
            if hasattr(xp, "cuda"):
                xp.cuda.get_current_stream().synchronize()  # programs on other streams read it, too
            _resident[key] = entry
        return entry[1]
    _resident.pop(key, None)  # it can be written again
    if x.nbytes > LARGE and not _warned[0]:
        seen = _copied.get(key[0])
        if seen is not None and seen() is x:
            _warned[0] = True
            warn_again(x, xp.__name__)
        else:
            _copied[key[0]] = weakref.ref(x, lambda _: _copied.pop(key[0], None))
    return xp.asarray(x)


def warn_again(x: np.ndarray, library: str) -> None:
    warnings.warn(
        f"a NumPy array of shape {x.shape} and dtype {x.dtype} ({x.nbytes / 1e6:.1f} MB), captured by a program on {library} "
        "arrays, is copied to the device at each call.\nRemedy: capture funcad.device_put(array) instead, or make it read-only "
        "(array.flags.writeable = False): then its copy is kept.",
        UserWarning,
        stacklevel=outside(2),
    )
