"""`jax.random`: funcad.random, whose arrays have `x.at[i].set(v)` here. The bits are funcad's own, not JAX's.

>>> import funcad.jax as jax
>>> jax.random.normal(jax.random.key(0), (2,), out_sharding=None).shape
(2,)
"""

from funcad.foreign_names import mirror as _mirror
from funcad.jax.jax_arrays import dressed as _dressed

__getattr__, __dir__ = _mirror(__name__, "funcad.random", dress=_dressed)
