"""Flattening a tree into its leaves and its `TreeDef`.

A `TreeDef` is `(kind, meta, children)`, equal to another when kinds and children are, and metas are the same (same.py);
`LEAF` is the only leaf. Being part of the key under which a compiled program is kept, it is immutable and remembers its hash.
The common containers of leaves have prepared TreeDefs (`_TUPLES`, `_LISTS`, `_DICTS`), so that flattening them is one look-up
and comparing them an `is`.

Invariant: the children of a dict are in the sorted order of its keys, and the dict that a TreeDef makes has the order that its
keys came in. That order is no part of the structure: dicts of equal keys match. It is told by `orders` to whoever keeps what
a function made of such a dict, as the function can see it.
"""

from __future__ import annotations

from itertools import islice, repeat
from operator import itemgetter

from funcad.configuration import OnDemand, escape
from funcad.errors import TreeMismatchError
from funcad.memo import table

from funcad.tree.containers import (  # isort: skip
    DATA_TYPES, DEFAULT_DICT, DICT, KINDS, LEAF_TYPES, LIST, MOST_REMEMBERED, NAMED_TUPLE, NONE, OBJECT, ORDERED_DICT, STATIC,
    TUPLE, VIEW, ContainerKind, kind_of,
)

telling, objects = OnDemand("funcad.tree.telling"), OnDemand("funcad.tree.objects")
paths, same = OnDemand("funcad.tree.path_keys"), OnDemand("funcad.tree.same")
are_strings = frozenset([str]).issuperset

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from funcad.tree.path_keys import KeyPath


# -- treedef


if TYPE_CHECKING:


    IsLeaf = Callable[[Any], bool] | None

# ---------------------------------------------------------------- structures


class TreeDef:
    """The structure of a tree: what is left when its leaves are taken out.

    >>> from funcad import tree
    >>> treedef = tree.structure({'a': 1, 'b': (2, 3)})
    >>> treedef, treedef.num_leaves, treedef.unflatten('xyz')
    (PyTreeDef({'a': *, 'b': (*, *)}), 3, {'a': 'x', 'b': ('y', 'z')})
    """

    __slots__: tuple[str, ...] = ("_kind", "_meta", "_children", "_keys", "_order", "_came", "_num_leaves", "_flat", "_hash")
    __slots__ += ("orders", "stays", "__weakref__")
    _num_leaves: int
    stays: Any  # bool: is it remembered, for tuples, lists and dicts of such and of leaves?
    orders: Any  # in which the keys of dicts came, at any depth; None if there is no dict of several keys

    def __init__(
        self,
        kind: ContainerKind | None,
        meta: Any,
        children: tuple[TreeDef, ...],
        keys: tuple[Any, ...] | None = None,
        order: tuple[int, ...] | None = None,
    ) -> None:
        self._kind = kind  # None for the leaf
        self._meta = meta
        self._children = children
        self._keys = keys  # the path keys where only the tree could give them; they are not compared
        self._order = order  # of a dict's children, where its keys did not come sorted; it is not compared
        self._came: Any = None  # then: what puts children into this order, and the meta in it
        if order is not None:
            rearranged = itemgetter(*order)
            self._came = rearranged, rearranged(meta) if kind is DICT else (meta[0], rearranged(meta[1]))
        self._flat = True  # all children are leaves
        self._hash: int | None = None
        self.stays = False
        number: int = len(children)
        several = number > 1 and (kind is DICT or kind is DEFAULT_DICT)
        for child in children:
            if child is not LEAF:
                number += child._num_leaves - 1
                self._flat = False
                several = several or child.orders is not None
        self._num_leaves = number
        self.orders = (order, () if self._flat else tuple([child.orders for child in children])) if several else None

    @property
    def num_leaves(self) -> int:
        return self._num_leaves

    @property
    def num_nodes(self) -> int:
        return 1 + sum([child.num_nodes for child in self.children()])

    @property
    def is_array(self) -> bool:
        """Is it a leaf, or an object of a subclass of np.ndarray?"""
        return self is LEAF or self._kind is VIEW and len(self._children) == 1

    def children(self) -> list[TreeDef]:
        """The structures of the children of the root."""
        return list(self._children)

    def paths(self) -> list[KeyPath]:
        """The path of every leaf, in order."""
        try:
            return self._paths()
        except RecursionError as error:
            raise telling.structure_too_deep(self, error) from None

    def _paths(self) -> list[KeyPath]:
        if self is LEAF:
            return [()]
        return [(key, *path) for key, child in zip(self._child_keys(), self._children) for path in child._paths()]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with this structure and these leaves."""
        if type(leaves) is not list and type(leaves) is not tuple:
            leaves = list(leaves)
        number = self._num_leaves
        if len(leaves) != number:
            noun = "leaf" if number == 1 else "leaves"
            raise TreeMismatchError(f"{telling.short(repr(self))} has {number} {noun}, but {len(leaves)} came.")
        if self is LEAF:
            return leaves[0]
        try:
            if self._flat and self._came is None:
                children = tuple(leaves)
                return children if self._kind is TUPLE else self._kind.unflatten(self._meta, children)  # type: ignore[union-attr]
            return self._build(iter(leaves))
        except RecursionError as error:
            raise telling.structure_too_deep(self, error) from None

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of `tree` where this structure has its leaves; `tree` may go deeper than the structure.

        >>> from funcad import tree
        >>> tree.structure({'a': 0, 'b': 0}).flatten_up_to({'a': [1, 2], 'b': 3})
        [[1, 2], 3]
        """
        return self.parts_of(tree, "tree", "treedef")

    def parts_of(self, tree: Any, name: str, own_name: str) -> list[Any]:
        """`flatten_up_to`, with the names that the message gives to the tree and to this structure."""
        parts: list[Any] = []
        try:
            if self._collect(tree, parts):
                return parts
            found = flatten(tree)[1]
            steps = telling.first_difference(self, found, prefix=True)
        except RecursionError as error:
            raise telling.structure_too_deep(self, error) from None
        assert steps is not None, "one walk finds a difference and the other does not"
        mismatch = TreeMismatchError(telling.say_difference(found, self, steps, name, own_name, tree))
        mismatch.add_note("Remedy: give both the same keys and lengths.")
        raise mismatch

    def fitting(self, tree: Any, leaves: list[Any], found: TreeDef) -> list[Any] | None:
        """The leaves of a tree of this structure, whose arrays may be of other classes; None of other trees.

        `leaves` and `found` are what `flatten` gave of it.
        """
        if self == found:
            return leaves
        parts: list[Any] = []
        if not self._collect(tree, parts) or len(parts) != len(leaves):
            return None
        return leaves if all([flatten(part)[1].is_array for part in parts]) else None

    def _collect(self, tree: Any, parts: list[Any]) -> bool:
        """Appends the parts; False if the structures differ."""
        if self is LEAF:
            parts.append(tree)
            return True
        kind = kind_of(type(tree))
        if self._kind is VIEW and len(self._children) == 1 and (kind is None or kind is VIEW):
            parts.append(tree if kind is None else kind.open(tree)[0][0])  # whatever its class and attributes are
            return True
        if kind is None or kind is not self._kind:
            return self._kind is STATIC and kind is None and self._meta == objects.Static(tree)
        if kind is TUPLE or kind is LIST:
            if len(tree) != len(self._children):
                return False
            children = tree
        elif kind is DICT:
            if len(tree) != len(self._meta) or not all([key in tree for key in self._meta]):
                return False
            children = tuple([tree[key] for key in self._meta])
        else:
            children, meta, _ = kind.open(tree)
            if len(children) != len(self._children) or not same_meta(kind, self._meta, meta):
                return False
        if self._flat:
            parts.extend(children)
            return True
        return all(child._collect(part, parts) for child, part in zip(self._children, children))

    def _build(self, leaves: Iterator[Any]) -> Any:
        if self._flat:
            children = tuple(islice(leaves, self._num_leaves))
        else:
            children = tuple([next(leaves) if child is LEAF else child._build(leaves) for child in self._children])
        if self._came is not None:
            return self.close(children)
        return children if self._kind is TUPLE else self._kind.unflatten(self._meta, children)  # type: ignore[union-attr]

    def close(self, children: tuple[Any, ...]) -> Any:
        """The container of these children, without looking at their structures."""
        if self._came is None:
            return self._kind.unflatten(self._meta, children)  # type: ignore[union-attr]
        rearranged, meta = self._came
        return self._kind.unflatten(meta, rearranged(children))  # type: ignore[union-attr]

    def _child_keys(self) -> list[Any]:
        if self._keys is not None:
            return list(self._keys)
        return list(self._kind.keys(self._meta, len(self._children)))  # type: ignore[union-attr]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(other) is not TreeDef:
            return NotImplemented
        try:
            return not differ(self, other) and self._children == other._children
        except RecursionError as error:
            raise telling.structure_too_deep(self, error, inner=True) from None

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                meta = self._meta
                plain = meta is None or type(meta) is type or type(meta) is tuple and are_strings(map(type, meta))
                own = hash(meta if plain else same.same_key(meta))
            except TypeError as error:
                raise _static_error(self._kind, self._meta) from error
            try:
                self._hash = hash((self._kind, own, self._children))
            except RecursionError as error:
                raise telling.structure_too_deep(self, error, inner=True) from None
        return self._hash

    def __reduce__(self) -> str | tuple[Any, ...]:
        return "LEAF" if self is LEAF else (TreeDef, (self._kind, self._meta, self._children, self._keys, self._order))

    def __repr__(self) -> str:
        try:
            return f"PyTreeDef({telling.text_of(self)})"
        except RecursionError as error:
            raise telling.structure_too_deep(self, error) from None


    def _repr_html_(self) -> str:
        return f'<div style="font-family:monospace;white-space:pre-wrap">{escape(repr(self))}</div>'


LEAF: TreeDef = TreeDef(None, None, ())
LEAF._num_leaves = 1


def same_meta(kind: ContainerKind | None, a: Any, b: Any) -> bool:
    if a is b or same.same(a, b):
        return True
    try:
        bool(a == b)  # raises if there are arrays, which are no static data
    except Exception as error:
        raise _static_error(kind, a) from error
    return False


def _static_error(kind: ContainerKind | None, meta: Any) -> TypeError:
    name = kind.cls.__name__ if kind else "a tree"
    return TypeError(
        f"the static data of {name} cannot be hashed and compared: {telling.short(repr(meta))}. Compiled functions are kept "
        "by their static data, so it must be hashable, and == on it must give True or False: turn a list into a tuple, "
        "and make an array a child (a data field)."
    )


# ---------------------------------------------------------------- flatten

_SMALL = 17  # longer tuples and lists get their TreeDef on the spot
_TUPLES = [TreeDef(TUPLE, None, (LEAF,) * n) for n in range(_SMALL)]
_LISTS = [TreeDef(LIST, None, (LEAF,) * n) for n in range(_SMALL)]
for _known in (LEAF, *_TUPLES, *_LISTS):
    _known.stays = True
# The TreeDefs of dicts of leaves, as they come, by their keys in order of insertion; the sorted keys are with them.
# Only keys that are str: 1 and True are equal but not the same.
_DICTS = table(
    "tree.dicts",
    "keys in order of insertion: the keys sorted, and the TreeDef",
    MOST_REMEMBERED,
)
_NESTED = table(
    "tree.nested",
    "tuple or list, and which of the structures above its parts have: the TreeDef",
    MOST_REMEMBERED,
)
_all_leaf_types = LEAF_TYPES.issuperset
_all_data_types = DATA_TYPES.issuperset
_OWN_KINDS = (TUPLE, LIST, DICT, ORDERED_DICT, DEFAULT_DICT, NONE, NAMED_TUPLE, OBJECT)


def flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeDef]:
    """The leaves of a tree, and its structure.

    Parameters
    ----------
    tree : any container, or a leaf
        The tree.
    is_leaf : callable, optional
        `is_leaf(part)` says that a part is taken for a leaf.

    Returns
    -------
    leaves : list
        The leaves, in order; those of dicts in the order of their keys.
    structure : TreeDef
        What `unflatten` takes.

    Notes
    -----
    As `jax.tree.flatten`. It raises nothing.

    Examples
    --------
    >>> from funcad import tree
    >>> tree.flatten((1, None, {'b': [2, 3], 'a': 4}))
    ([1, 4, 2, 3], PyTreeDef((*, None, {'a': *, 'b': [*, *]})))
    >>> tree.flatten([(1, 2), 3], is_leaf=lambda part: isinstance(part, tuple))[0]
    [(1, 2), 3]

    See also
    --------
    unflatten, leaves, structure
    """
    if is_leaf is None:
        cls = type(tree)
        if cls in LEAF_TYPES:
            return [tree], LEAF
        if (cls is tuple or cls is list) and len(tree) < _SMALL and _all_leaf_types(map(type, tree)):
            return list(tree), (_TUPLES if cls is tuple else _LISTS)[len(tree)]
    leaves: list[Any] = []
    try:
        return leaves, _flatten_into(leaves, tree, is_leaf)
    except RecursionError as error:
        raise telling.tree_too_deep(tree, is_leaf, error) from None


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of a tree.

    Parameters
    ----------
    tree : any container, or a leaf
        The tree.
    is_leaf : callable, optional
        `is_leaf(part)` says that a part is taken for a leaf.

    Returns
    -------
    list
        The leaves, in order; those of dicts in the order of their keys.

    Notes
    -----
    None has no leaves. As `jax.tree.leaves`, but keys that cannot be ordered are no error. It raises nothing.

    Examples
    --------
    >>> from funcad import tree
    >>> tree.leaves({'b': [2, 3], 'a': 1, 'c': None})
    [1, 2, 3]
    >>> tree.leaves({'a': 1, 'c': None}, is_leaf=lambda part: part is None)
    [1, None]

    See also
    --------
    flatten, structure, map
    """
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """The structure of a tree: what is left without its leaves.

    Parameters
    ----------
    tree : any container, or a leaf
        The tree.
    is_leaf : callable, optional
        `is_leaf(part)` says that a part is taken for a leaf.

    Returns
    -------
    TreeDef
        A hashable value. Two trees have equal structures if `map` can take both.

    Notes
    -----
    As `jax.tree.structure`. It raises nothing.

    Examples
    --------
    >>> from funcad import tree
    >>> tree.structure({'a': 1, 'b': (2, None)})
    PyTreeDef({'a': *, 'b': (*, None)})
    >>> tree.structure([1, (2, 3)], is_leaf=lambda part: isinstance(part, tuple)) == tree.structure([0, 0])
    True

    See also
    --------
    flatten, unflatten, leaves
    """
    return flatten(tree, is_leaf)[1]


def _flatten_into(leaves: list[Any], tree: Any, is_leaf: IsLeaf) -> TreeDef:
    cls = type(tree)
    if is_leaf is not None:
        if is_leaf(tree):
            leaves.append(tree)
            return LEAF
    elif cls in LEAF_TYPES:
        leaves.append(tree)
        return LEAF
    elif cls is tuple or cls is list:
        if _all_leaf_types(map(type, tree)):
            leaves += tree
            n = len(tree)
            return (_TUPLES if cls is tuple else _LISTS)[n] if n < _SMALL else TreeDef(KINDS[cls], None, (LEAF,) * n)
        return _nested(leaves, tree)
    elif cls is dict and (known := _DICTS.get(tuple(tree))) is not None and are_strings(map(type, tree)):
        values = [tree[key] for key in known[0]]
        if _all_leaf_types(map(type, values)):
            leaves += values
            return known[1]
    kind = KINDS.get(cls)
    if kind is None:
        kind = kind_of(cls)
        if kind is NAMED_TUPLE:
            return _tuple_into(leaves, tree, is_leaf)
        if kind is OBJECT:
            return _object_into(leaves, tree, OBJECT, is_leaf, False)
        if kind is None:
            leaves.append(tree)
            if len(LEAF_TYPES) < MOST_REMEMBERED:
                LEAF_TYPES.add(cls)
            return LEAF
    parts, meta, keys = kind.open(tree)
    node = TreeDef(kind, meta, tuple([_flatten_into(leaves, part, is_leaf) for part in parts]), keys, _order(kind, tree, meta))
    if cls is dict and node._flat and are_strings(map(type, meta)):
        node.stays = True
        _DICTS.put(tuple(tree), (meta, node))
    return node


def _nested(leaves: list[Any], tree: Any) -> TreeDef:
    """The structure of a tuple or list that holds containers: one object for all alike, where those of its parts are."""
    children: list[TreeDef] = []
    stays = len(tree) < _SMALL
    for part in tree:
        cls = type(part)
        if cls in LEAF_TYPES:
            child = LEAF
            leaves.append(part)
        elif (cls is tuple or cls is list) and len(part) < _SMALL and _all_leaf_types(map(type, part)):
            child = (_TUPLES if cls is tuple else _LISTS)[len(part)]
            leaves += part
        else:
            child = _flatten_into(leaves, part, None)
            stays = stays and child.stays
        children.append(child)
    cls = type(tree)
    key = (cls, *map(id, children))  # which the TreeDef that is found keeps alive
    known = _NESTED.get(key)
    if known is None:
        known = TreeDef(KINDS[cls], None, tuple(children))
        if stays:
            known.stays = True
            _NESTED.put(key, known)
    return known


def _order(kind: ContainerKind, tree: Any, meta: Any) -> tuple[int, ...] | None:
    """In which order a dict has its sorted keys; None if in that one."""
    if kind is not DICT and kind is not DEFAULT_DICT:
        return None
    keys, came = meta if kind is DICT else meta[1], tuple(tree)
    if came == keys:
        return None
    places = {key: i for i, key in enumerate(keys)}
    return tuple([places[key] for key in came])


def _tuple_into(leaves: list[Any], tree: Any, is_leaf: IsLeaf) -> TreeDef:
    """A named tuple: what could be static data is so beside arrays and numbers; alone it is a tree of labels, as in JAX."""
    start = len(leaves)
    taken: list[Any] = []
    stops = is_leaf and (lambda part: is_leaf(part) and (taken.append(part) or True))  # type: ignore[func-returns-value]
    node = TreeDef(NAMED_TUPLE, type(tree), tuple([_flatten_into(leaves, part, stops) for part in tree]))
    own = leaves[start:]
    if _all_data_types(map(type, own)):
        return node
    labels = [type(x) is not bool and objects.is_static(x) and not any([x is part for part in taken]) for x in own]
    if all(labels) or not any(labels):
        return node
    leaves[start:] = []
    return _without_labels(leaves, node, iter(zip(own, labels)))


def _without_labels(leaves: list[Any], node: TreeDef, own: Iterator[tuple[Any, bool]]) -> TreeDef:
    """The structure with its labels as parts of it, the other leaves appended; what was registered keeps its leaves."""
    if node is LEAF:
        x, is_label = next(own)
        if is_label:
            return TreeDef(STATIC, objects.Static(x), ())
        leaves.append(x)
        return LEAF
    if node._kind not in _OWN_KINDS:
        leaves += [x for x, _ in islice(own, node._num_leaves)]
        return node
    children = tuple([_without_labels(leaves, c, own) for c in node._children])
    return TreeDef(node._kind, node._meta, children, node._keys, node._order)


def _object_into(leaves: list[Any], tree: Any, kind: ContainerKind, is_leaf: IsLeaf, marked: bool) -> TreeDef:
    """An object, or a container in one: leaves that are static data are parts of the structure; `marked`: all leaves."""
    parts, meta, keys = kind.open(tree)
    if kind not in _OWN_KINDS and not marked:
        return TreeDef(kind, meta, tuple([_flatten_into(leaves, part, is_leaf) for part in parts]), keys)
    static = objects.marked_fields(meta[0]) if kind is OBJECT else ()
    nodes = []
    for part, name in zip(parts, meta[1] if static else repeat(None)):
        cls = type(part)
        if is_leaf is not None and is_leaf(part):
            leaves.append(part)
            nodes.append(LEAF)
            continue
        inner = None if cls in LEAF_TYPES else kind_of(cls)
        if inner is not None:
            nodes.append(_object_into(leaves, part, inner, is_leaf, marked or name in static))
        elif marked or name in static or objects.is_static(part):
            nodes.append(TreeDef(STATIC, objects.Static(part), ()))
        else:
            leaves.append(part)
            nodes.append(LEAF)
    return TreeDef(kind, meta, tuple(nodes), keys, _order(kind, tree, meta))


def flatten_axes(name: str, treedef: TreeDef, axes_tree: Any) -> list[Any]:
    """One axis for each leaf of `treedef`, from a prefix tree of axes, where None is an axis too.

    >>> from funcad import tree
    >>> tree.flatten_axes('in_axes', tree.structure(({'w': 1, 'b': 2}, 3)), (0, None))
    [0, 0, None]
    """
    axes: list[Any] = []
    _spread_axes(axes, name, treedef, axes_tree, ())
    return axes


def _spread_axes(axes: list[Any], name: str, treedef: TreeDef, given: Any, path: KeyPath) -> None:
    kind = None if given is None else kind_of(type(given))
    if kind is None:
        axes += [given] * treedef._num_leaves
        return
    parts, meta, keys = kind.open(given)
    found = TreeDef(kind, meta, (LEAF,) * len(parts), keys)
    if differ(found, treedef):
        how = telling.say_difference(found, treedef, (), name + paths.keystr(path), "the value there")
        structure = "" if treedef is LEAF else " for the whole of it, or its structure with an axis for each leaf"
        raise TreeMismatchError(f"{how}\nRemedy: one axis (an int or None){structure}.")
    for key, child, part in zip(found._child_keys(), treedef._children, parts):
        _spread_axes(axes, name, child, part, (*path, key))


def differ(a: TreeDef, b: TreeDef) -> bool:
    """Whether the roots differ."""
    return a._kind is not b._kind or len(a._children) != len(b._children) or not same_meta(a._kind, a._meta, b._meta)
