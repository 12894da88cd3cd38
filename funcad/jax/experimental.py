"""`jax.experimental`, what of it means something on one device: 64 bits, meshes of one device, `io_callback`, `odeint`.

>>> with enable_x64():
...     mesh_utils.create_device_mesh((1, 1)).shape
(1, 1)
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.control.callback import io_callback as io_callback
from funcad.jax.jax_top_level import enable_x64 as enable_x64
from funcad.jax.jax_transforms import transforming
from funcad.jax.sharding import make_mesh
from funcad.jitted.jit import jit

__all__ = ["enable_x64", "io_callback", "mesh_utils", "ode", "pjit"]
_integrate = OnDemand("funcad.scipy.integrate")


def _device_mesh(mesh_shape: Sequence[int], devices: Any = None, **options: Any) -> np.ndarray:
    """The one device as an array of that shape."""
    return make_mesh(mesh_shape, [str(i) for i in range(len(mesh_shape))], devices=devices).devices


mesh_utils = SimpleNamespace(create_device_mesh=_device_mesh)


def odeint(*args: Any, **options: Any) -> Any:
    """`funcad.scipy.integrate.odeint`, whose signature is that of `jax.experimental.ode.odeint`."""
    return _integrate.odeint(*args, **options)


ode = SimpleNamespace(odeint=odeint)
pjit = SimpleNamespace(pjit=transforming("jit", jit))
