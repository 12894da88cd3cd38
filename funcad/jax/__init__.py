"""The names of JAX: `import funcad.jax as jax`, and a program written for JAX on one device runs on NumPy arrays.

`jax.numpy`, `lax`, `random`, `nn`, `scipy`, `tree`, `tree_util`, `flatten_util`, `debug`, `typing`, `dtypes`, `test_util`, and
the transformations, which are funcad's own. `install()` does it for programs that stay as they are. Differences: arrays are
NumPy arrays, mutable, float64 by default; `x.at[i].set(v)` is there on traced values and on what `jax.numpy` made, see
`funcad.jax.jax_arrays`; random bits are funcad's; devices and shardings are one process.

>>> import funcad.jax as jax
>>> from funcad.jax import numpy as jnp
>>> jax.jit(jax.grad(lambda x: jnp.sum(x.at[0].multiply(3.0) ** 2)))(jnp.ones(2))
array([18.,  2.])
"""

from __future__ import annotations

from funcad.foreign_names import alias as _alias
from funcad.foreign_names import mirror as _mirror
from funcad.jax.jax_arrays import Array as Array
from funcad.jax.jax_arrays import array_modules as _array_modules
from funcad.jax.jax_top_level import config as config
from funcad.jax.jax_top_level import default_backend as default_backend
from funcad.jax.jax_top_level import device_count as device_count
from funcad.jax.jax_top_level import device_put as device_put
from funcad.jax.jax_top_level import log_compiles as log_compiles
from funcad.jax.jax_top_level import named_call as named_call
from funcad.jax.jax_top_level import pmap as pmap
from funcad.jax.jax_top_level import typeof as typeof
from funcad.jax.sharding import PartitionSpec as P
from funcad.jax.sharding import make_mesh as make_mesh
from funcad.jax.sharding import set_mesh as set_mesh

__version__ = "0.7.1"  # the release of JAX whose names these are
__getattr__, __dir__ = _mirror(__name__, "funcad", dress=_array_modules)
__all__ = [
    "Array",
    "P",
    "config",
    "default_backend",
    "device_count",
    "device_put",
    "install",
    "log_compiles",
    "make_mesh",
    "named_call",
    "pmap",
    "set_mesh",
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
