"""The names of JAX: `import funcad.jax as jax`, and a program written for JAX on one device runs on NumPy arrays.

`jax.numpy`, `lax`, `random`, `nn`, `scipy`, `tree`, `tree_util`, `flatten_util`, `debug`, `typing`, `dtypes`, `test_util`, and
the transformations, which are funcad's own. `install()` does it for programs that stay as they are. Differences: arrays are
NumPy arrays, mutable, float64 by default; `x.at[i].set(v)` is there on traced values and on what `jax.numpy` made, see
`funcad.jax.jax_arrays`; random bits are funcad's; devices and shardings are one process.

>>> import funcad.jax as jax
>>> from funcad.jax import numpy as jnp
>>> jax.jit(jax.grad(lambda x: jnp.sum(x.at[0].multiply(3.0) ** 2)))(jnp.ones(2))
Array([18.,  2.])
"""

from __future__ import annotations

from typing import Any

from funcad.foreign_names import alias as _alias
from funcad.foreign_names import mirror as _mirror
from funcad.jax.jax_arrays import Array as Array
from funcad.jax.jax_arrays import array_modules as _array_modules

# isort: off
from funcad.jax.jax_top_level import (
    checking_leaks as checking_leaks, config as config, default_backend as default_backend, typeof as typeof,
    default_matmul_precision as default_matmul_precision, device_count as device_count, device_put as device_put,
    effects_barrier as effects_barrier, enable_checks as enable_checks, enable_x64 as enable_x64,
    ensure_compile_time_eval as ensure_compile_time_eval, local_device_count as local_device_count,
    local_devices as local_devices, log_compiles as log_compiles, make_array_from_callback as make_array_from_callback,
    named_call as named_call, numpy_dtype_promotion as numpy_dtype_promotion, numpy_rank_promotion as numpy_rank_promotion,
    pmap as pmap, process_count as process_count, process_index as process_index, transfer_guard as transfer_guard,
)  # fmt: skip
from funcad.jax.sharding import PartitionSpec as P, devices as devices, make_mesh as make_mesh, set_mesh as set_mesh

# isort: on
from funcad.jax.jax_transforms import transforming as _transforming

__version__ = "0.7.1"  # the release of JAX whose names these are
_mirrored, __dir__ = _mirror(__name__, "funcad", dress=_array_modules)


def __getattr__(name: str) -> Any:
    found = globals()[name] = _transforming(name, _mirrored(name))
    return found


__all__ = [
    "Array",
    "P",
    "checking_leaks",
    "config",
    "default_backend",
    "default_matmul_precision",
    "device_count",
    "device_put",
    "devices",
    "effects_barrier",
    "enable_checks",
    "enable_x64",
    "ensure_compile_time_eval",
    "install",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_array_from_callback",
    "make_mesh",
    "named_call",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "pmap",
    "process_count",
    "process_index",
    "set_mesh",
    "transfer_guard",
    "typeof",
]


def install() -> None:
    """Let `import jax`, and the import of its submodules, find `funcad.jax` from now on, in the whole process.

    For programs that stay as they are: call it before they are imported. Calling it again does nothing. JAX need not be
    installed; if it is, it is hidden.

    Raises
    ------
    RuntimeError
        JAX, or a part of it, has been imported before.

    >>> import funcad.jax
    >>> funcad.jax.install()
    >>> import jax, jax.numpy as jnp
    >>> jax.grad(jnp.tanh)(0.0)
    np.float64(1.0)
    """
    _alias("jax", "funcad.jax", "funcad")
