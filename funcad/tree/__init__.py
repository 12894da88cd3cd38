"""Pytrees: nested containers seen as a flat list of leaves and a structure.

Every transform takes functions of nested containers (a dict of parameters, a named tuple of state) and works on flat
lists of arrays. `flatten` goes from one to the other, `unflatten` comes back, and a `TreeDef` is what remains of a tree
when its leaves are taken out.

Containers are list, tuple, dict, OrderedDict, defaultdict, named tuples, None (a container without leaves), the classes
registered here, and objects with fields: dataclasses, attrs objects and SimpleNamespace; anything else is a leaf. The leaves
of a dict come in the sorted order of its keys, or in that of insertion where keys cannot be compared; a dict built again has
its keys as they came. In the fields of an object, and in a named tuple that holds arrays or numbers too, what can hold no
array (a string, a function; in objects also a bool) has no leaf: it is part of the structure, compared by value. Other Python
numbers are leaves; `field(metadata={'static': True})` makes a field part of the structure. Names and signatures are those of
`jax.tree` and `jax.tree_util`.

>>> from dataclasses import dataclass
>>> from funcad import tree
>>> @dataclass
... class Layer:
...     w: float
...     act: str = 'relu'
>>> tree.map(lambda x: 2 * x, Layer(1.5))
Layer(w=3.0, act='relu')
"""

import typing as _typing

from funcad.configuration import later as _later
from funcad.configuration import public_names as _public_names

# isort: off
from funcad.tree.treedef import (
    LEAF as LEAF, TreeDef as TreeDef, flatten as flatten, flatten_axes as flatten_axes, leaves as leaves,
    structure as structure,
)  # fmt: skip
if _typing.TYPE_CHECKING:
    from funcad.tree.functions import (
        all as all, all_leaves as all_leaves, any as any, broadcast as broadcast, flatten_one_level as flatten_one_level,
        flatten_one_level_with_keys as flatten_one_level_with_keys, flatten_with_path as flatten_with_path,
        is_tree_node as is_tree_node, leaves_with_path as leaves_with_path, map as map,
        map_with_path as map_with_path, reduce as reduce, reduce_associative as reduce_associative,
        transpose as transpose, treedef_children as treedef_children, treedef_is_leaf as treedef_is_leaf,
        treedef_tuple as treedef_tuple, unflatten as unflatten,
    )  # fmt: skip
    from funcad.tree.path_keys import (
        DictKey as DictKey, FlattenedIndexKey as FlattenedIndexKey, GetAttrKey as GetAttrKey, SequenceKey as SequenceKey,
        keystr as keystr,
    )  # fmt: skip
    from funcad.tree.registering import (
        Partial as Partial, register_dataclass as register_dataclass, register_pytree_node as register_pytree_node,
        register_pytree_node_class as register_pytree_node_class, register_pytree_with_keys as register_pytree_with_keys,
        register_pytree_with_keys_class as register_pytree_with_keys_class, register_static as register_static,
        static as static,
    )  # fmt: skip
    from funcad.tree.saving import load as load, save as save
    from funcad.tree.telling import describe_difference as describe_difference
# isort: on

_FILES = {  # which a gradient does not need
    "functions": (
        "all all_leaves any broadcast flatten_one_level flatten_one_level_with_keys "
        "flatten_with_path is_tree_node leaves_with_path map map_with_path reduce "
        "reduce_associative transpose treedef_children treedef_is_leaf treedef_tuple "
        "unflatten"
    ),
    "path_keys": "DictKey FlattenedIndexKey GetAttrKey SequenceKey keystr",
    "registering": (
        "Partial register_dataclass register_pytree_node register_pytree_node_class register_pytree_with_keys "
        "register_pytree_with_keys_class register_static static"
    ),
    "saving": "load save",
    "telling": "describe_difference",
}
_FILE_OF, _value_of = _later(globals(), _FILES)


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _value_of
__dir__ = _public_names(globals(), _FILE_OF)
__all__ = __dir__()
