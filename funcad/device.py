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
    """x on a device.

    Parameters
    ----------
    x : array, number or container of them
        What is moved.
    device : str, optional
        "cuda" (the default; also "cuda:1" ...) or "cpu".

    Returns
    -------
    like x
        The same structure, shapes and dtypes: CuPy arrays on a GPU, NumPy arrays on the CPU. An array that is there
        already is returned as it is.

    Raises
    ------
    PlacementError
        A GPU is asked for, and CuPy is not installed.
    ValueError
        There is no device of this name.

    Notes
    -----
    It is differentiable. JAX's arrays live on the GPU by default; funcad computes where the operands are. As
    `jax.device_put`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> x = np.ones(2)
    >>> funcad.device_put(x, "cpu") is x
    True
    >>> funcad.device_put({"w": x, "n": 3}, device="cpu")
    {'w': array([1., 1.]), 'n': np.int64(3)}

    See also
    --------
    device_get, devices, default_device
    """
    kind, number = _kind(device, "device_put")
    check_leaves(tree.leaves(x), "device_put: argument", x, given=True)

    return tree.map(lambda leaf: put(leaf, kind, number), x)


@api
def device_get(x: Any) -> Any:
    """x as NumPy arrays.

    Parameters
    ----------
    x : array, number or container of them
        Arrays on any device.

    Returns
    -------
    like x
        The same structure, shapes and dtypes. NumPy arrays are returned as they are.

    Raises
    ------
    TypeError
        A traced value has no contents yet.

    Notes
    -----
    It waits for the GPU. As `jax.device_get`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.device_get({"w": np.ones(2)})
    {'w': array([1., 1.])}

    See also
    --------
    device_put, block_until_ready
    """
    return device_put(x, "cpu")


@api
def block_until_ready(x: Any) -> Any:
    """x, once its arrays have been computed.

    Parameters
    ----------
    x : array, number or container of them
        What is waited for.

    Returns
    -------
    like x
        x itself.

    Raises
    ------
    Exception
        What the computation raised on the device.

    Notes
    -----
    CuPy computes asynchronously, NumPy never does: there it returns at once. Call it before you stop a clock. As
    `jax.block_until_ready`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.block_until_ready(np.ones(2) + 1.0)
    array([2., 2.])

    See also
    --------
    device_get, device_put
    """
    for leaf in tree.leaves(x):
        xp = namespace_of([leaf])
        if xp is not np and hasattr(xp, "cuda"):
            xp.cuda.get_current_stream().synchronize()
    return x


def devices() -> list[str]:
    """The names of the devices.

    Returns
    -------
    list of strs
        "cpu", and "cuda:0" ... if CuPy is installed and finds GPUs.

    Notes
    -----
    `jax.devices` returns objects, without the CPU where there is a GPU. It raises nothing.

    Examples
    --------
    >>> import funcad
    >>> funcad.devices()[0]
    'cpu'

    See also
    --------
    device_put, default_device
    """
    found = ["cpu"]
    try:
        cupy = cupy_module("devices") if "cupy" not in sys.modules else sys.modules["cupy"]
        found += [f"cuda:{i}" for i in range(cupy.cuda.runtime.getDeviceCount())]
    except Exception:
        pass
    return found


def default_device(device: Any) -> Any:
    """A context in which creation functions and `random` make arrays on this device.

    Parameters
    ----------
    device : str
        "cpu" or "cuda".

    Returns
    -------
    context manager

    Raises
    ------
    ValueError
        There is no device of this name.
    PlacementError
        A GPU is asked for, and CuPy is not installed.

    Notes
    -----
    It is for new arrays only: operations run where their operands are. As `jax.default_device`.

    Examples
    --------
    >>> import funcad
    >>> with funcad.default_device("cpu"):
    ...     x = funcad.numpy.ones(3)
    >>> x
    array([1., 1., 1.])

    See also
    --------
    device_put, devices
    """
    kind, number = _kind(device, "default_device")
    if kind == "cuda":
        cupy_module("default_device('cuda')")
        if number is not None:
            raise ValueError("default_device takes 'cpu' or 'cuda'; choose the GPU with cupy.cuda.Device(n).use()")
    return setting(default_device=kind)
