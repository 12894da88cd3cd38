"""Pytrees: nested containers seen as a flat list of leaves and a structure.

Every transform takes functions of nested containers (a dict of parameters, a named tuple of state) and works on flat
lists of arrays. `flatten` goes from one to the other, `unflatten` comes back, and a `TreeDef` is what remains of a tree
when its leaves are taken out.

Containers are list, tuple, dict, OrderedDict, defaultdict, named tuples, None (a container without leaves), the classes
registered here, and objects with fields: dataclasses, attrs objects and SimpleNamespace; anything else is a leaf. The keys of
a dict are sorted, or keep their order of insertion where they cannot be compared. In the fields of an object, and in a named
tuple that holds arrays or numbers too, what can hold no array (a string, a function; in objects also a bool) has no leaf: it is
part of the structure, compared by value. Other Python numbers are leaves; `field(metadata={'static': True})` makes a field part
of the structure. Names and signatures are those of `jax.tree` and `jax.tree_util`.

>>> from dataclasses import dataclass
>>> from funcad import tree
>>> @dataclass
... class Layer:
...     w: float
...     act: str = 'relu'
>>> tree.map(lambda x: 2 * x, Layer(1.5))
Layer(w=3.0, act='relu')
"""

from funcad.names import public_names as _public_names
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
from funcad.tree.containers import static as static
from funcad.tree.functions import all as all
from funcad.tree.functions import all_leaves as all_leaves
from funcad.tree.functions import any as any
from funcad.tree.functions import broadcast as broadcast
from funcad.tree.functions import flatten_one_level as flatten_one_level
from funcad.tree.functions import flatten_one_level_with_keys as flatten_one_level_with_keys
from funcad.tree.functions import flatten_with_path as flatten_with_path
from funcad.tree.functions import is_tree_node as is_tree_node
from funcad.tree.functions import leaves as leaves
from funcad.tree.functions import leaves_with_path as leaves_with_path
from funcad.tree.functions import map as map
from funcad.tree.functions import map_with_path as map_with_path
from funcad.tree.functions import reduce as reduce
from funcad.tree.functions import reduce_associative as reduce_associative
from funcad.tree.functions import structure as structure
from funcad.tree.functions import transpose as transpose
from funcad.tree.functions import treedef_children as treedef_children
from funcad.tree.functions import treedef_is_leaf as treedef_is_leaf
from funcad.tree.functions import treedef_tuple as treedef_tuple
from funcad.tree.functions import unflatten as unflatten
from funcad.tree.saving import load as load
from funcad.tree.saving import save as save
from funcad.tree.treedef import LEAF as LEAF
from funcad.tree.treedef import TreeDef as TreeDef
from funcad.tree.treedef import describe_difference as describe_difference
from funcad.tree.treedef import flatten as flatten
from funcad.tree.treedef import flatten_axes as flatten_axes

__dir__ = _public_names(globals())
