"""`jax.tree_util`: funcad.tree_util, to which objects of classes that nobody registered are leaves, as they are in JAX."""

from funcad.foreign_names import mirror as _mirror
from funcad.jax.tree import with_objects_as_leaves as _with_objects_as_leaves

__getattr__, __dir__ = _mirror(__name__, "funcad.tree_util", dress=_with_objects_as_leaves)
