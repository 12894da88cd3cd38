"""`jax.tree_util`: the functions of `funcad.tree` under JAX's older names.

Not here: `default_registry`, the object of JAX's own registry (there is one registry; `register_pytree_node` and the like write
into it, `is_tree_node` and `flatten_one_level` read it). `KeyEntry` and `KeyPath` are for annotations:
`Any` and `tuple[Any, ...]`.

>>> from funcad import tree_util
>>> tree_util.tree_map(lambda x: 2 * x, {'w': 1.5})
{'w': 3.0}
"""

from typing import Any

from funcad.tree.containers import DictKey as DictKey
from funcad.tree.containers import FlattenedIndexKey as FlattenedIndexKey
from funcad.tree.containers import GetAttrKey as GetAttrKey
from funcad.tree.containers import Partial as Partial
from funcad.tree.containers import SequenceKey as SequenceKey
from funcad.tree.containers import keystr as keystr
from funcad.tree.containers import register_dataclass as register_dataclass
from funcad.tree.containers import register_pytree_node as register_pytree_node
from funcad.tree.containers import register_pytree_node_class as register_pytree_node_class
from funcad.tree.containers import register_pytree_with_keys as register_pytree_with_keys
from funcad.tree.containers import register_pytree_with_keys_class as register_pytree_with_keys_class
from funcad.tree.containers import register_static as register_static
from funcad.tree.functions import all as tree_all
from funcad.tree.functions import all_leaves as all_leaves
from funcad.tree.functions import broadcast as tree_broadcast
from funcad.tree.functions import flatten_one_level as flatten_one_level
from funcad.tree.functions import flatten_one_level_with_keys as flatten_one_level_with_keys
from funcad.tree.functions import flatten_with_path as tree_flatten_with_path
from funcad.tree.functions import is_tree_node as is_tree_node
from funcad.tree.functions import leaves as tree_leaves
from funcad.tree.functions import leaves_with_path as tree_leaves_with_path
from funcad.tree.functions import map as tree_map
from funcad.tree.functions import map_with_path as tree_map_with_path
from funcad.tree.functions import reduce as tree_reduce
from funcad.tree.functions import reduce_associative as tree_reduce_associative
from funcad.tree.functions import structure as tree_structure
from funcad.tree.functions import transpose as tree_transpose
from funcad.tree.functions import treedef_children as treedef_children
from funcad.tree.functions import treedef_is_leaf as treedef_is_leaf
from funcad.tree.functions import treedef_tuple as treedef_tuple
from funcad.tree.functions import unflatten as tree_unflatten
from funcad.tree.treedef import TreeDef as PyTreeDef
from funcad.tree.treedef import flatten as tree_flatten

KeyEntry = Any
KeyPath = tuple[Any, ...]

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyEntry",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]
