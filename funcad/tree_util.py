"""`jax.tree_util`: the functions of `funcad.tree` under JAX's older names.

Not here: `default_registry`, the object of JAX's own registry (there is one registry; `register_pytree_node` and the like write
into it, `is_tree_node` and `flatten_one_level` read it). `KeyEntry` and `KeyPath` are for annotations:
`Any` and `tuple[Any, ...]`.

>>> from funcad import tree_util
>>> tree_util.tree_map(lambda x: 2 * x, {'w': 1.5})
{'w': 3.0}
"""

from typing import Any

# isort: off
from funcad.tree.functions import (
    all as tree_all, all_leaves as all_leaves, broadcast as tree_broadcast, flatten_one_level as flatten_one_level,
    flatten_one_level_with_keys as flatten_one_level_with_keys, flatten_with_path as tree_flatten_with_path,
    is_tree_node as is_tree_node, leaves as tree_leaves, leaves_with_path as tree_leaves_with_path, map as tree_map,
    map_with_path as tree_map_with_path, reduce as tree_reduce, reduce_associative as tree_reduce_associative,
    structure as tree_structure, transpose as tree_transpose, treedef_children as treedef_children,
    treedef_is_leaf as treedef_is_leaf, treedef_tuple as treedef_tuple, unflatten as tree_unflatten,
)  # fmt: skip
from funcad.tree.path_keys import (
    DictKey as DictKey, FlattenedIndexKey as FlattenedIndexKey, GetAttrKey as GetAttrKey, SequenceKey as SequenceKey,
    keystr as keystr,
)  # fmt: skip
from funcad.tree.registering import (
    Partial as Partial, register_dataclass as register_dataclass, register_pytree_node as register_pytree_node,
    register_pytree_node_class as register_pytree_node_class, register_pytree_with_keys as register_pytree_with_keys,
    register_pytree_with_keys_class as register_pytree_with_keys_class, register_static as register_static,
)  # fmt: skip
from funcad.tree.treedef import TreeDef as PyTreeDef, flatten as tree_flatten
# isort: on

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
