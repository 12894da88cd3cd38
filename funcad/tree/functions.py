"""The functions of whole trees. They bear JAX's names, so `map`, `all` and `any` hide the builtins here."""

from __future__ import annotations

import builtins
import functools

from funcad.errors import TreeMismatchError
from funcad.tree.containers import keystr
from funcad.tree.treedef import describe_difference, flatten

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from funcad.tree.containers import KeyPath
    from funcad.tree.treedef import IsLeaf, TreeDef


def unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The tree with this structure and these leaves: the inverse of `flatten`."""
    return treedef.unflatten(leaves)


def leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves of `tree`, in order."""
    return flatten(tree, is_leaf)[0]


def structure(tree: Any, is_leaf: IsLeaf = None) -> TreeDef:
    """The structure of `tree`."""
    return flatten(tree, is_leaf)[1]


def map(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`f` of each leaf, and of what the trees of `rest` have in the same place.

    >>> from funcad import tree
    >>> tree.map(lambda x, y: x + y, {'a': 1, 'b': 2}, {'a': 10, 'b': 20})
    {'a': 11, 'b': 22}
    """
    own, treedef = flatten(tree, is_leaf)
    others = [treedef.parts_of(other, f"rest[{i}]", "tree") for i, other in enumerate(rest)]
    return treedef.unflatten(list(builtins.map(f, own, *others)))


_NO_INITIALIZER: Any = object()


def reduce(
    function: Callable[[Any, Any], Any], tree: Any, initializer: Any = _NO_INITIALIZER, is_leaf: IsLeaf = None
) -> Any:
    """`functools.reduce` over the leaves."""
    start = () if initializer is _NO_INITIALIZER else (initializer,)
    return functools.reduce(function, leaves(tree, is_leaf), *start)


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
            name = f"pytree_to_transpose{keystr(path)}"
            raise TreeMismatchError(describe_difference(found, inner_treedef, name, "inner_treedef"))
        rows.append(row)
    columns = zip(*rows) if rows else [()] * inner_treedef.num_leaves
    return inner_treedef.unflatten([outer_treedef.unflatten(column) for column in columns])


def flatten_with_path(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, Any]], TreeDef]:
    """`flatten`, with each leaf in a pair with its path."""
    values, treedef = flatten(tree, is_leaf)
    return list(zip(treedef.paths(), values)), treedef


def leaves_with_path(tree: Any, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """The pairs of path and leaf.

    >>> from funcad import tree
    >>> [(tree.keystr(path), leaf) for path, leaf in tree.leaves_with_path({'w': [1, 2]})]
    [("['w'][0]", 1), ("['w'][1]", 2)]
    """
    return flatten_with_path(tree, is_leaf)[0]


def map_with_path(f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: IsLeaf = None) -> Any:
    """`map`, where `f` takes the path of the leaf first."""
    paths = iter(structure(tree, is_leaf).paths())
    return map(lambda *values: f(next(paths), *values), tree, *rest, is_leaf=is_leaf)


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
