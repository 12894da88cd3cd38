"""`jax.numpy`: funcad.numpy, whose arrays have `x.at[i].set(v)` here. Floats are float64 unless said otherwise.

>>> from funcad.jax import numpy as jnp
>>> jnp.ones(2).at[0].add(1.0)
Array([2., 1.])
"""

from funcad.foreign_names import mirror as _mirror
from funcad.jax.jax_arrays import Array as ndarray
from funcad.jax.jax_arrays import dressed as _dressed

__all__ = ["ndarray"]
__getattr__, __dir__ = _mirror(__name__, "funcad.numpy", "numpy", dress=_dressed)
