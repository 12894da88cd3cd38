"""Where arrays live: moving them between NumPy and CuPy. Without CuPy everything is on the CPU, and nothing here imports it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, check_leaves
from funcad.host.devices import namespace_of
from funcad.host.where import setting
from funcad.primitives.placement import cupy_module, put

_CPU = ("cpu", "numpy")
_GPU = ("cuda", "gpu", "cupy")


def _kind(device: Any, what: str) -> tuple[str, int | None]:
    """("cpu", None) or ("cuda", number or None) for "cpu", "cuda", "cuda:1" and the names of other libraries."""
    if device is None:
        return "cuda", None
    name, _, number = str(device).partition(":")
    if name in _CPU and not number.strip("0"):
        return "cpu", None
    if name in _GPU and (not number or number.isdigit()):
        return "cuda", int(number) if number else None
    raise ValueError(f"{what}: unknown device {device!r}; use 'cpu', 'cuda' or 'cuda:0'")


@api
def device_put(x: Any, device: Any = None) -> Any:
    """x on a device: "cuda" (the default, also "cuda:1") or "cpu"; x may be a pytree.

    An array that is there already is returned as it is. Raises PlacementError without CuPy, ValueError for unknown names. It
    is differentiable. Unlike JAX, whose arrays live on the GPU by default, funcad computes where its operands are.
    Returns a pytree like x.

    >>> import numpy as np, funcad
    >>> x = np.ones(2)
    >>> funcad.device_put(x, "cpu") is x
    True
    """
    kind, number = _kind(device, "device_put")
    check_leaves(tree.leaves(x), "device_put: argument", x)

    return tree.map(lambda leaf: put(leaf, kind, number), x)


@api
def device_get(x: Any) -> Any:
    """x as NumPy arrays; x may be a pytree. NumPy arrays are returned as they are.

    Returns a pytree like x; TypeError for a traced value of unknown contents. As jax.device_get.

    >>> import numpy as np, funcad
    >>> funcad.device_get({"w": np.ones(2)})
    {'w': array([1., 1.])}
    """
    return device_put(x, "cpu")


@api
def block_until_ready(x: Any) -> Any:
    """x, once its arrays have been computed: CuPy computes asynchronously, NumPy never does.

    Returns x, a pytree; raises what the computation raised on the device. As jax.block_until_ready.

    >>> import funcad
    >>> funcad.block_until_ready(1.0)
    1.0
    """
    for leaf in tree.leaves(x):
        xp = namespace_of([leaf])
        if xp is not np and hasattr(xp, "cuda"):
            xp.cuda.get_current_stream().synchronize()
    return x


def devices() -> list[str]:
    """The names of the devices: "cpu", and "cuda:0" ... if CuPy is installed and finds GPUs.

    Returns strings, where jax.devices has objects; raises nothing.

    >>> import funcad
    >>> funcad.devices()[0]
    'cpu'
    """
    found = ["cpu"]
    try:
        cupy = cupy_module("devices") if "cupy" not in sys.modules else sys.modules["cupy"]
        found += [f"cuda:{i}" for i in range(cupy.cuda.runtime.getDeviceCount())]
    except Exception:
        pass
    return found


def default_device(device: Any) -> Any:
    """A context in which creation functions and `random` make arrays on this device: "cpu" or "cuda".

    Returns a context manager; ValueError for a name that is not known, PlacementError for a GPU without CuPy. As
    jax.default_device, for new arrays only: operations run where their operands are.

    >>> import funcad
    >>> with funcad.default_device("cpu"):
    ...     pass
    """
    kind, number = _kind(device, "default_device")
    if kind == "cuda":
        cupy_module("default_device('cuda')")
        if number is not None:
            raise ValueError("default_device takes 'cpu' or 'cuda'; choose the GPU with cupy.cuda.Device(n).use()")
    return setting(default_device=kind)
