"""The functions of whole trees. They bear JAX's names, so `map`, `all` and `any` hide the builtins here."""

from __future__ import annotations

import builtins
import functools
from collections import deque
from itertools import islice

from funcad.configuration import OnDemand
from funcad.errors import TreeMismatchError
from funcad.tree.containers import LEAF_TYPES, OBJECT, kind_of
from funcad.tree.treedef import LEAF, TUPLE, TreeDef, flatten, leaves, structure

path_keys, telling = OnDemand("funcad.tree.path_keys"), OnDemand("funcad.tree.telling")

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar, overload

    import numpy as np

    from funcad.tree.path_keys import KeyPath
    from funcad.tree.treedef import IsLeaf

    Tree = TypeVar("Tree")


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with this structure and these leaves: the inverse of `flatten`.

    Parameters
    ----------
    treedef : TreeDef
        From `structure` or `flatten`.
    leaves : iterable
        As many as the structure has.

    Returns
    -------
    container, or a leaf
        A new tree.

    Raises
    ------
    TreeMismatchError
        There are more or fewer leaves.

    Notes
    -----
    As `jax.tree.unflatten`.

    Examples
    --------
    >>> from funcad import tree
    >>> leaves, structure = tree.flatten({'a': 1, 'b': (2, 3)})
    >>> tree.unflatten(structure, [10 * leaf for leaf in leaves])
    {'a': 10, 'b': (20, 30)}

    See also
    --------
    flatten, structure
    """
    return treedef.unflatten(leaves)


if TYPE_CHECKING:

    @overload
    def map(f: Callable[..., float | np.ndarray[Any, Any]], tree: Tree, *rest: Any, is_leaf: IsLeaf = None) -> Tree: ...
    @overload
    def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any: ...


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """f of each leaf, and of what the other trees have in the same place.

    Parameters
    ----------
    f : callable
        A function of one leaf of each tree.
    tree : any container, or a leaf
        Lists, tuples, dicts, named tuples, registered classes; None is a tree without leaves.
    *rest : like tree
        More trees; where `tree` has a leaf, each has anything.
    is_leaf : callable, optional
        `is_leaf(part)` says that a part is taken for a leaf.

    Returns
    -------
    like tree
        A new tree with the results in the places of the leaves.

    Raises
    ------
    TreeMismatchError
        A tree of `rest` has another structure; the message names the path.

    Notes
    -----
    Dicts are gone through in the order of their keys, as in JAX. As `jax.tree.map`.

    Examples
    --------
    >>> from funcad import tree
    >>> tree.map(lambda x, y: x + y, {'a': 1, 'b': 2}, {'a': 10, 'b': 20})
    {'a': 11, 'b': 22}
    >>> tree.map(len, {'names': ['x', 'y'], 'sizes': [3]}, is_leaf=lambda part: isinstance(part, list))
    {'names': 2, 'sizes': 1}

    See also
    --------
    map_with_path, leaves, reduce, flatten
    """
    if is_leaf is None:
        cls = type(tree)
        if cls in LEAF_TYPES:
            return f(tree, *rest)
        if (cls is tuple or cls is list) and _alike(tree, rest, 4):
            return _mapped(f, tree, rest)
    own, treedef = flatten(tree, is_leaf)
    others = [treedef.parts_of(other, f"rest[{i}]", "tree") for i, other in enumerate(rest)]
    return treedef.unflatten(list(builtins.map(f, own, *others)))


def _alike(tree: Any, others: tuple, deepest: int) -> bool:
    """Is a tuple or list made of leaves, and of tuples and lists of such? And has each other one parts in the same places?"""
    for other in others:
        if type(other) is not type(tree) or len(other) != len(tree):
            return False
    for i, part in enumerate(tree):
        cls = type(part)
        if cls in LEAF_TYPES:
            continue
        if not deepest or cls is not tuple and cls is not list:
            return False
        if not _alike(part, tuple([other[i] for other in others]) if others else others, deepest - 1):
            return False
    return True


def _mapped(f: Callable[..., Any], tree: Any, others: tuple) -> Any:
    """What `map` gives for trees that are alike."""
    found = []
    for parts in zip(tree, *others):
        cls = type(parts[0])
        found.append(_mapped(f, parts[0], parts[1:]) if cls is tuple or cls is list else f(*parts))
    return tuple(found) if type(tree) is tuple else found


_NO_INITIALIZER: Any = object()


def reduce(function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NO_INITIALIZER, is_leaf: IsLeaf = None) -> Any:
    """`functools.reduce` over the leaves."""
    start = () if initializer is _NO_INITIALIZER else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *start)


def reduce_associative(
    operation: Callable[[Any, Any], Any], tree: Any, *, identity: Any = _NO_INITIALIZER, is_leaf: IsLeaf = None
) -> Any:
    """Combines the leaves in pairs, and the pairs in pairs: `operation` is associative, and the depth is logarithmic.

    >>> from funcad import tree
    >>> tree.reduce_associative(lambda x, y: f'({x}{y})', ['a', 'b', {'c': 'c', 'd': 'd'}])
    '((ab)(cd))'
    """
    values = leaves(tree, is_leaf)
    if not values and identity is _NO_INITIALIZER:
        raise TypeError("reduce_associative of a tree without leaves needs an identity.")
    while len(values) > 1:
        pairs = [operation(x, y) for x, y in zip(values[::2], values[1::2])]
        values = pairs + values[2 * len(pairs) :]
    return values[0] if values else identity


def all(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether every leaf is true."""
    return builtins.all(leaves(tree, is_leaf))


def any(tree: Any, *, is_leaf: IsLeaf = None) -> bool:
    """Whether a leaf is true."""
    return builtins.any(leaves(tree, is_leaf))


def transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any) -> Any:
    """Turns an outer tree of inner trees into an inner tree of outer trees; None: as the first inner tree is.

    >>> from funcad import tree
    >>> tree.transpose(tree.structure([0, 0]), tree.structure({'a': 0}), [{'a': 1}, {'a': 2}])
    {'a': [1, 2]}
    """
    parts = outer_treedef.parts_of(pytree_to_transpose, "pytree_to_transpose", "outer_treedef")
    if inner_treedef is None:
        if not parts:
            raise TreeMismatchError("outer_treedef has no leaves to take inner_treedef from. Pass inner_treedef.")
        inner_treedef = structure(parts[0])
    rows = []
    for path, part in zip(outer_treedef.paths(), parts):
        row, found = flatten(part)
        if found != inner_treedef:
            name = f"pytree_to_transpose{path_keys.keystr(path)}"
            raise TreeMismatchError(telling.describe_difference(found, inner_treedef, name, "inner_treedef"))
        rows.append(row)
    columns = zip(*rows) if rows else [()] * inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """`flatten`, with each leaf in a pair with its path; if asked, `is_leaf(path, part)` is told the path too."""
    if is_leaf is not None and is_leaf_takes_path:
        is_leaf = _of_paths(tree, is_leaf)
    values, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.paths(), values)), treedef


def _of_paths(tree: Any, is_leaf: Callable[[KeyPath, Any], bool]) -> Callable[[Any], bool]:
    """A function of the parts of `tree`, called on them in the order of `flatten`, that calls `is_leaf(path, part)`."""
    paths: list[KeyPath] = [()]

    def stops(part: Any) -> bool:
        path = paths.pop()
        kind = kind_of(type(part))
        if is_leaf(path, part):
            return True
        if kind is not None:
            children, meta, keys = kind.open(part)
            steps = kind.keys(meta, len(children)) if keys is None else keys
            paths.extend(reversed([(*path, step) for step in steps]))
        return False

    return stops


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[KeyPath, Any]]:
    """The pairs of path and leaf; options as of `flatten_with_path`.

    >>> from funcad import tree
    >>> [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path({'w': [1, 2]})]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """f of the path of each leaf, and of the leaf.

    Parameters
    ----------
    f : callable
        `f(path, leaf, *others)`, where path is a tuple of keys, which `keystr` writes as text.
    tree : any container, or a leaf
        The tree.
    *rest : like tree
        More trees; where `tree` has a leaf, each has anything.
    is_leaf : callable, optional
        `is_leaf(part)` says that a part is taken for a leaf.
    is_leaf_takes_path : bool
        is_leaf is called as `is_leaf(path, part)`.

    Returns
    -------
    like tree
        A new tree with the results in the places of the leaves.

    Raises
    ------
    TreeMismatchError
        A tree of `rest` has another structure; the message names the path.

    Notes
    -----
    As `jax.tree.map_with_path`.

    Examples
    --------
    >>> from funcad import tree
    >>> tree.map_with_path(lambda path, x: tree.keystr(path), {'w': [1, 2]})
    {'w': ["['w'][0]", "['w'][1]"]}
    >>> tree.map_with_path(lambda path, x, y: x + y if path[-1].idx else x, [1, 2], [10, 20])
    [1, 22]

    See also
    --------
    map, keystr, leaves_with_path
    """
    pairs, treedef = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [treedef.parts_of(other, f"rest[{i}]", "tree") for i, other in enumerate(rest)]
    return treedef.unflatten([f(*pair, *values) for pair, *values in zip(pairs, *others)])


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree like `full_tree`, filled with the leaves of `prefix_tree`, each of which stands for a part of it.

    >>> from funcad import tree
    >>> tree.broadcast({'a': 1, 'b': 2}, {'a': [0, 0], 'b': 0})
    {'a': [1, 1], 'b': 2}
    """
    values, prefix = flatten(prefix_tree, is_leaf)
    parts = prefix.parts_of(full_tree, "full_tree", "prefix_tree")
    spread = [value for value, part in zip(values, parts) for _ in leaves(part)]
    return structure(full_tree).unflatten(spread)


def changed_object(treedef: TreeDef, tree: Any, leaves: Iterable[Any], result: Any) -> str:
    """What is new in an object of `tree`, which `treedef` and `leaves` had made; empty if they all are as they were.

    It looks at objects that need no registration only, and not at those that are part of `result`.
    """
    for node, part, own in _objects(treedef, tree, iter(leaves)) if has_object(treedef) else ():
        values, found = flatten(part)
        new = [""]
        if found == node:
            changed = [path for path, x, y in zip(node.paths(), values, own) if x is not y]
            new = [path_keys.keystr(path) for path in changed]
        if new and not builtins.any([part is other for _, other, _ in _objects(structure(result), result, None)]):
            name = type(part).__name__
            said = telling.describe_difference(found, node, name, f"the given {name}")
            return said or f"{name}{new[0]} is another value."
    return ""


def has_object(node: TreeDef) -> bool:
    return node._kind is OBJECT or not node._flat and True in [has_object(child) for child in node._children]


def _objects(node: TreeDef, tree: Any, leaves: Iterator[Any] | None) -> Iterator[tuple[TreeDef, Any, list[Any]]]:
    """The outermost objects of a tree, with their structures and leaves; a part of another structure is left out."""
    kind = node._kind
    if kind is OBJECT and kind_of(type(tree)) is OBJECT:
        yield node, tree, [] if leaves is None else list(islice(leaves, node.num_leaves))
        return
    parts = kind.open(tree)[0] if kind is not None and kind_of(type(tree)) is kind else ()
    if len(parts) == len(node._children) > 0:
        for child, part in zip(node._children, parts):
            yield from _objects(child, part, leaves)
    elif leaves is not None:
        deque(islice(leaves, node.num_leaves), 0)


# ---------------------------------------------------------------- one level of a tree


def all_leaves(iterable: Iterable[Any], is_leaf: IsLeaf = None) -> bool:
    """Whether no item is a container (None is one).

    >>> from funcad import tree
    >>> tree.all_leaves([1, 'a']), tree.all_leaves([1, (2, 3)])
    (True, False)
    """
    return builtins.all([(is_leaf is not None and is_leaf(item)) or kind_of(type(item)) is None for item in iterable])


def is_tree_node(typ: type) -> bool:
    """Whether instances of the class are containers: built in, registered, named tuples or objects with fields.

    >>> from funcad import tree
    >>> tree.is_tree_node(dict), tree.is_tree_node(float)
    (True, False)
    """
    return kind_of(typ) is not None


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of a container and its static data; ValueError for a leaf.

    >>> from funcad import tree
    >>> tree.flatten_one_level({'a': [1, 2], 'b': 3})
    ([[1, 2], 3], ('a', 'b'))
    """
    children, meta, _ = _opened(tree)
    return list(children), meta


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """As `flatten_one_level`, each child in a pair with its path key.

    >>> from funcad import tree
    >>> tree.flatten_one_level_with_keys([7])
    ([(SequenceKey(idx=0), 7)], None)
    """
    children, meta, keys = _opened(tree)
    return list(zip(keys, children)), meta


def _opened(tree: Any) -> tuple[tuple[Any, ...], Any, list[Any]]:
    kind = kind_of(type(tree))
    if kind is None:
        raise ValueError(f"a {type(tree).__qualname__} is a leaf, no container: register its class, or use leaves(tree).")
    children, meta, keys = kind.open(tree)
    return children, meta, list(kind.keys(meta, len(children)) if keys is None else keys)


def treedef_children(treedef: TreeDef) -> list[TreeDef]:
    """The structures of the children of the root.

    >>> from funcad import tree
    >>> tree.treedef_children(tree.structure([1, (2, 3)]))
    [PyTreeDef(*), PyTreeDef((*, *))]
    """
    return treedef.children()


def treedef_is_leaf(treedef: TreeDef) -> bool:
    """Whether the structure is that of a leaf.

    >>> from funcad import tree
    >>> tree.treedef_is_leaf(tree.structure(1)), tree.treedef_is_leaf(tree.structure([1]))
    (True, False)
    """
    return treedef is LEAF


def treedef_tuple(treedefs: Iterable[TreeDef]) -> TreeDef:
    """The structure of the tuple of trees with these structures.

    >>> from funcad import tree
    >>> tree.treedef_tuple([tree.structure(1), tree.structure([2])])
    PyTreeDef((*, [*]))
    """
    children = tuple(treedefs)
    for child in children:
        if type(child) is not TreeDef:
            raise TypeError(f"treedef_tuple takes structures (tree.structure(x)), got a {type(child).__name__}.")
    return TreeDef(TUPLE, None, children)
