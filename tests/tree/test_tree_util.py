"""funcad.tree_util and what funcad.tree has beyond tests/tree/test_tree.py."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import pytest

from funcad import grad, tree, tree_util

JAX_NAMES = """
    tree_map tree_leaves tree_flatten tree_unflatten tree_structure register_pytree_node register_pytree_node_class
    register_dataclass Partial keystr tree_map_with_path tree_flatten_with_path tree_leaves_with_path tree_reduce tree_transpose
    tree_all register_pytree_with_keys register_static DictKey SequenceKey GetAttrKey FlattenedIndexKey KeyEntry KeyPath
    PyTreeDef
    all_leaves flatten_one_level flatten_one_level_with_keys is_tree_node register_pytree_with_keys_class tree_broadcast
    tree_reduce_associative treedef_children treedef_is_leaf treedef_tuple
""".split()


class Pair(NamedTuple):
    first: Any
    second: Any


def test_names() -> None:
    assert sorted(tree_util.__all__) == sorted(JAX_NAMES)
    for name in JAX_NAMES:
        assert getattr(tree_util, name) is not None
        if name.startswith("tree_"):
            assert getattr(tree_util, name) is getattr(tree, name[5:])


def test_reduce_associative() -> None:
    seen = []

    def join(x: str, y: str) -> str:
        seen.append((x, y))
        return f"({x}{y})"

    assert tree.reduce_associative(join, list("abcde")) == "(((ab)(cd))e)"
    assert len(seen) == 4
    assert tree.reduce_associative(join, ["a"]) == "a"
    assert tree.reduce_associative(join, [], identity="-") == "-"
    assert tree.reduce_associative(join, {"a": ("x", "y"), "b": "z"}, is_leaf=lambda x: isinstance(x, tuple)) == "(('x', 'y')z)"
    with pytest.raises(TypeError, match="identity"):
        tree.reduce_associative(join, [])


def test_is_leaf_that_takes_the_path() -> None:
    data = {"a": [1, {"x": 2}], "b": Pair(3, (4, None))}
    asked = []

    def stops(path: Any, part: Any) -> bool:
        asked.append((tree.keystr(path), part))
        return tree.keystr(path) in ("['a'][1]", ".second", "['b'].second")

    pairs, treedef = tree.flatten_with_path(data, stops, is_leaf_takes_path=True)
    assert [(tree.keystr(p), x) for p, x in pairs] == [
        ("['a'][0]", 1),
        ("['a'][1]", {"x": 2}),
        ("['b'].first", 3),
        ("['b'].second", (4, None)),
    ]
    assert treedef.unflatten([x for _, x in pairs]) == data
    assert [p for p, _ in asked] == ["", "['a']", "['a'][0]", "['a'][1]", "['b']", "['b'].first", "['b'].second"]
    assert tree.leaves_with_path(data, stops, is_leaf_takes_path=True) == pairs
    found = tree.map_with_path(lambda p, x, y: (len(p), y), data, data, is_leaf=stops, is_leaf_takes_path=True)
    assert found == {"a": [(2, 1), (2, {"x": 2})], "b": Pair((2, 3), (2, (4, None)))}


def test_static_fields() -> None:
    @tree.register_dataclass
    @dataclass
    class Layer:
        w: Any
        act: str = tree.static(default="relu", metadata={"doc": "which"})
        sizes: tuple = tree.static(default_factory=tuple)

    layer = Layer(np.ones(2))
    assert len(tree.leaves(layer)) == 1
    assert dict(fields(Layer)[1].metadata) == {"static": True, "doc": "which"}
    g = grad(lambda layer: (layer.w**2).sum() if layer.act == "relu" else 0.0)(layer)
    assert isinstance(g, Layer) and g.act == "relu"
    np.testing.assert_array_equal(g.w, [2.0, 2.0])
    assert tree.structure(layer) != tree.structure(Layer(np.ones(2), "tanh"))


def test_one_level() -> None:
    assert tree.flatten_one_level({"b": 1, "a": [2]}) == ([[2], 1], ("a", "b"))
    assert tree.flatten_one_level(None) == ([], None)
    children, meta = tree.flatten_one_level_with_keys(Pair(1, [2]))
    assert children == [(tree.GetAttrKey("first"), 1), (tree.GetAttrKey("second"), [2])] and meta is Pair
    for function in (tree.flatten_one_level, tree.flatten_one_level_with_keys):
        with pytest.raises(ValueError, match="leaf"):
            function(3.0)


def test_leaves_and_nodes() -> None:
    assert tree.all_leaves([1, "a", np.ones(2)]) and tree.all_leaves([])
    assert not tree.all_leaves([1, [2]]) and not tree.all_leaves([None])
    assert tree.all_leaves([1, [2]], is_leaf=lambda x: isinstance(x, list))
    assert tree.is_tree_node(type(None)) and tree.is_tree_node(Pair) and tree.is_tree_node(tree.Partial)
    assert not tree.is_tree_node(np.ndarray) and not tree.is_tree_node(str)


def test_structures_of_structures() -> None:
    x, y = [1, (2, 3)], {"a": 4}
    both = tree.treedef_tuple([tree.structure(x), tree.structure(y)])
    assert both == tree.structure((x, y)) and hash(both) == hash(tree.structure((x, y)))
    assert tree.treedef_children(both) == [tree.structure(x), tree.structure(y)]
    assert tree.treedef_tuple([]) == tree.structure(())
    assert tree.treedef_is_leaf(tree.structure(1)) and not tree.treedef_is_leaf(tree.structure(()))
    with pytest.raises(TypeError, match="structures"):
        tree.treedef_tuple([1])
