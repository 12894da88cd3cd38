"""funcad.tree: round trips, JAX's conventions, and how two structures differ, word for word."""

import copy
import operator
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from funcad import tree
from funcad.errors import TreeMismatchError
from funcad.tree import DictKey, FlattenedIndexKey, GetAttrKey, SequenceKey

Point = namedtuple("Point", "x y")


@tree.register_pytree_node_class
class Interval:
    """Registered without keys; its static data is a plain value."""

    def __init__(self, low, high, unit=None):
        self.low, self.high, self.unit = low, high, unit

    def tree_flatten(self):
        return (self.low, self.high), self.unit

    @classmethod
    def tree_unflatten(cls, unit, children):
        assert type(children) is tuple
        return cls(*children, unit)

    def __eq__(self, other):
        return type(other) is Interval and vars(self) == vars(other)

    __hash__ = None


@tree.register_pytree_with_keys_class
class Box:
    """Registered with keys; any number of children."""

    def __init__(self, *items):
        self.items = items

    def tree_flatten_with_keys(self):
        return [(DictKey(f"item{i}"), item) for i, item in enumerate(self.items)], None

    @classmethod
    def tree_unflatten(cls, meta, children):
        return cls(*children)


@tree.register_dataclass
@dataclass
class Layer:
    kind: ClassVar[str] = "layer"
    w: object
    act: str = field(default="relu", metadata={"static": True})
    b: object = 0.0


@tree.register_static
@dataclass(frozen=True)
class Config:
    depth: int


@contextmanager
def raises(message, error=TreeMismatchError):
    """The whole message, not a part of it."""
    with pytest.raises(error) as info:
        yield
    assert str(info.value) == message


# ---------------------------------------------------------------- flatten and unflatten

scalars = st.integers() | st.floats(allow_nan=False) | st.text(max_size=2) | st.booleans()
keys = st.text(max_size=2) | st.integers(-3, 3) | st.booleans()


def containers(children):
    lists = st.lists(children, max_size=4)
    dicts = st.dictionaries(keys, children, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        dicts.map(OrderedDict),
        dicts.map(lambda d: defaultdict(list, d)),
        st.builds(Point, children, children),
        st.builds(Interval, children, children, scalars),
        st.builds(Layer, children, st.text(max_size=2), children),
    )


trees = st.recursive(scalars | st.none(), containers, max_leaves=12)


@given(trees)
def test_round_trip(t):
    values, treedef = tree.flatten(t)
    again = tree.unflatten(treedef, values)
    assert again == t and type(again) is type(t)
    assert treedef.num_leaves == len(values)
    assert tree.structure(again) == treedef and hash(tree.structure(again)) == hash(treedef)
    assert tree.leaves(t) == values
    assert treedef.flatten_up_to(t) == values
    assert tree.map(lambda x: x, t) == t
    assert tree.transpose(treedef, tree.structure(0), t) == t


@given(trees)
def test_fast_paths_agree_with_the_general_one(t):
    assert tree.flatten(t, is_leaf=lambda x: False) == tree.flatten(t)


@given(trees)
def test_paths_are_distinct_and_lead_to_the_leaves(t):
    pairs, treedef = tree.flatten_with_path(t)
    assert [leaf for _, leaf in pairs] == tree.leaves(t) and treedef == tree.structure(t)
    for path, leaf in pairs:
        part = t
        for key in path:
            match key:
                case DictKey(k) | SequenceKey(k):
                    part = part[k]
                case GetAttrKey(name):
                    part = getattr(part, name)
                case FlattenedIndexKey(i):
                    part = part.tree_flatten()[0][i]
        assert part is leaf or part == leaf


@given(trees, trees)
def test_equality_is_the_absence_of_a_difference(t, u):
    a, b = tree.structure(t), tree.structure(u)
    assert (a == b) == (tree.describe_difference(a, b, "a", "b") == "")
    assert tree.describe_difference(a, a, "a", "b") == ""
    if a == b:
        assert hash(a) == hash(b)


@given(trees)
def test_structures_pickle_and_copy(t):
    treedef = tree.structure(t)
    for again in (pickle.loads(pickle.dumps(treedef)), copy.copy(treedef), copy.deepcopy(treedef)):
        assert again == treedef and hash(again) == hash(treedef) and repr(again) == repr(treedef)
        assert again.paths() == treedef.paths()
        assert tree.unflatten(again, tree.leaves(t)) == t


@given(trees)
def test_axes_of_every_leaf(t):
    treedef = tree.structure(t)
    assert tree.flatten_axes("in_axes", treedef, 0) == [0] * treedef.num_leaves
    assert tree.flatten_axes("in_axes", treedef, None) == [None] * treedef.num_leaves
    numbered = treedef.unflatten(range(treedef.num_leaves))
    assert tree.flatten_axes("in_axes", treedef, numbered) == list(range(treedef.num_leaves))


@given(trees)
def test_broadcast_of_one_value(t):
    assert tree.leaves(tree.broadcast(1, t)) == [1] * len(tree.leaves(t))
    assert tree.broadcast(t, t) == t


def test_what_is_a_leaf():
    class Dict(dict):
        pass

    class Tuple(tuple):
        __slots__ = ()

    for leaf in (1, "text", np.ones(2), Dict(a=1), Tuple((1, 2)), {1, 2}, object(), tree.structure([1, 2])):
        for _ in range(2):  # the second time, the type is known
            values, treedef = tree.flatten(leaf)
            assert len(values) == 1 and values[0] is leaf and treedef is tree.LEAF
            assert treedef.unflatten(values) is leaf


def test_none_is_a_container_without_leaves():
    assert tree.flatten(None) == ([], tree.structure(None))
    assert tree.unflatten(tree.structure([None, 1]), [2]) == [None, 2]
    assert tree.flatten([None, 1], is_leaf=lambda x: x is None)[0] == [None, 1]
    assert tree.map(lambda x: x, None) is None


def test_dicts_sort_their_keys_where_they_can():
    assert tree.flatten({"b": 1, "a": 2})[0] == [2, 1]
    assert tree.structure({"b": 1, "a": 2}) == tree.structure({"a": 1, "b": 2})
    assert list(tree.map(lambda x: x, {"b": 1, "a": 2})) == ["b", "a"]
    assert tree.flatten({"b": 1, 1: 2})[0] == [1, 2]
    assert tree.flatten(OrderedDict(b=1, a=2))[0] == [1, 2]
    assert tree.flatten(defaultdict(int, b=1, a=2))[0] == [2, 1]
    assert tree.structure(OrderedDict(b=1, a=2)) != tree.structure(OrderedDict(a=2, b=1))


def test_equal_keys_of_another_type_are_kept():
    for key in (1, True, 1.0, 1, True):
        (again,) = tree.map(lambda x: x, {key: 0})
        assert again == key and type(again) is type(key)


def test_kinds_of_container_are_told_apart():
    same = [[1, 2], (1, 2), Point(1, 2), Interval(1, 2), {"x": 1, "y": 2}, OrderedDict(x=1, y=2)]
    same += [defaultdict(int, x=1, y=2), defaultdict(list, x=1, y=2), 1, None, [], (), {}]
    structures = [tree.structure(t) for t in same]
    assert len(set(structures)) == len(same)
    assert structures[0] != "a structure" and structures[0] != same[0]


def test_is_leaf_stops_the_descent():
    t = {"a": [1, 2], "b": (3, [4])}
    assert tree.leaves(t, is_leaf=lambda x: type(x) is list) == [[1, 2], 3, [4]]
    assert tree.flatten(t, is_leaf=lambda x: True) == ([t], tree.LEAF)


def test_long_containers():
    for n in (15, 16, 17, 18, 500):
        for t in (list(range(n)), tuple(range(n)), {f"{i:03}": i for i in range(n)}):
            values, treedef = tree.flatten(t)
            assert values == list(range(n)) and treedef.unflatten(values) == t and treedef.flatten_up_to(t) == values


def test_a_dict_seen_with_leaves_may_hold_containers_later():
    assert tree.leaves({"seen": 1, "twice": 2}) == [1, 2]
    assert tree.flatten({"twice": [2, 3], "seen": 1}) == ([1, 2, 3], tree.structure({"seen": 0, "twice": [0, 0]}))


def test_treedef_is_a_value():
    treedef = tree.structure({"a": 1, "b": (2, 3)})
    assert treedef.children() == [tree.LEAF, tree.structure((0, 0))]
    assert tree.LEAF.children() == [] and tree.LEAF.num_leaves == 1 and tree.LEAF.paths() == [()]
    with pytest.raises(AttributeError):
        treedef.num_leaves = 3
    with pytest.raises(AttributeError):
        treedef.note = "there is no room for attributes"
    assert pickle.loads(pickle.dumps(tree.LEAF)) is tree.LEAF
    assert treedef.unflatten(iter("xyz")) == {"a": "x", "b": ("y", "z")}


@pytest.mark.parametrize(
    ("t", "text"),
    [
        (1, "*"),
        (None, "None"),
        ((), "()"),
        ((1,), "(*,)"),
        ({"a": 1, "b": (1, 2)}, "{'a': *, 'b': (*, *)}"),
        ([{}, [None]], "[{}, [None]]"),
        (Point(1, [2]), "Point(x=*, y=[*])"),
        (OrderedDict(b=1, a=2), "OrderedDict({'b': *, 'a': *})"),
        (defaultdict(list, a=1), "defaultdict(list, {'a': *})"),
        (defaultdict(None, a=1), "defaultdict(None, {'a': *})"),
        (Interval(1, (2,)), "Interval(*, (*,))"),
        (Interval(1, 2, "m"), "Interval['m'](*, *)"),
        (Interval(1, 2, "m" * 200), f"Interval['{'m' * 76}...](*, *)"),
        (Box(1, 2), "Box(*, *)"),
        (Layer(1), "Layer(w=*, b=*, act='relu')"),
        (Config(3), "Config[Config(depth=3)]()"),
    ],
)
def test_repr(t, text):
    assert repr(tree.structure(t)) == f"PyTreeDef({text})"


# ---------------------------------------------------------------- functions of trees


def test_map():
    assert tree.map(operator.add, {"a": 1, "b": [2]}, {"a": 10, "b": [20]}) == {"a": 11, "b": [22]}
    # The first tree is a prefix of the others.
    assert tree.map(lambda x, y: (x, y), [1, 2], [{"a": 3}, (4, 5)]) == [(1, {"a": 3}), (2, (4, 5))]
    assert tree.map(len, [[1, 2], [3]], is_leaf=lambda x: x == [3] or x == [1, 2]) == [2, 1]
    assert tree.map(operator.add, [1, None], [2, None]) == [3, None]


def test_reduce_all_any():
    t = {"a": 1, "b": [2, None, 3]}
    assert tree.reduce(operator.sub, t) == -4
    assert tree.reduce(operator.add, t, 10) == 16
    assert tree.reduce(operator.add, [], 10) == 10
    assert tree.reduce(lambda total, x: total + len(x), [[1, 2], [3]], 0, is_leaf=lambda x: x in ([1, 2], [3])) == 3
    with pytest.raises(TypeError, match="empty"):
        tree.reduce(operator.add, None)
    assert tree.all(t) and tree.any([0, 1]) and not tree.all([0, 1]) and not tree.any([0, [0]])
    assert tree.all({}) is True and tree.any({}) is False
    assert tree.all([[]], is_leaf=lambda x: x == []) is False and tree.any([[0]], is_leaf=lambda x: x == [0]) is True


def test_transpose():
    outer, inner = tree.structure([0, 0, 0]), tree.structure({"a": 0, "b": (0,)})
    t = [{"a": i, "b": (i + 10,)} for i in range(3)]
    turned = {"a": [0, 1, 2], "b": ([10, 11, 12],)}
    assert tree.transpose(outer, inner, t) == turned
    assert tree.transpose(outer, None, t) == turned
    assert tree.transpose(inner, outer, turned) == t
    assert tree.transpose(tree.structure([]), inner, []) == {"a": [], "b": ([],)}
    with raises("outer_treedef has no leaves to take inner_treedef from. Pass inner_treedef."):
        tree.transpose(tree.structure([]), None, [])
    with raises("pytree_to_transpose is a list of length 2, but outer_treedef is a list of length 3."):
        tree.transpose(outer, inner, t[:2])
    with raises("pytree_to_transpose[1]['b'] is a leaf, but inner_treedef['b'] is a tuple of length 1."):
        tree.transpose(outer, inner, [t[0], {"a": 1, "b": 2}, t[2]])


def test_paths():
    t = {"a": [1, Point(2, Interval(3, 4))], "l": Layer(5, b=Box(6, 7)), "p": tree.Partial(max, 8, key=9)}
    paths = [tree.keystr(path) for path, _ in tree.leaves_with_path(t)]
    assert paths == [
        "['a'][0]",
        "['a'][1].x",
        "['a'][1].y[<flat index 0>]",
        "['a'][1].y[<flat index 1>]",
        "['l'].w",
        "['l'].b['item0']",
        "['l'].b['item1']",
        "['p'].args[0]",
        "['p'].keywords['key']",
    ]
    path = (DictKey("a"), GetAttrKey("b"), SequenceKey(0), FlattenedIndexKey(2))
    assert tree.keystr(path) == "['a'].b[0][<flat index 2>]"
    assert tree.keystr(path, simple=True, separator="/") == "a/b/0/2"
    assert tree.keystr((".mine", 3)) == ".mine3"
    assert tree.leaves_with_path([[1]], is_leaf=lambda x: x == [1]) == [((SequenceKey(0),), [1])]
    assert tree.leaves_with_path(OrderedDict(b=1)) == [((DictKey("b"),), 1)]
    assert tree.leaves_with_path(defaultdict(int, b=1)) == [((DictKey("b"),), 1)]


def test_map_with_path():
    named = tree.map_with_path(lambda path, x, y: f"{tree.keystr(path)}={x}{y}", {"a": [1, 2]}, {"a": [3, None]})
    assert named == {"a": ["['a'][0]=13", "['a'][1]=2None"]}
    assert tree.map_with_path(lambda path, x: (len(path), x), [[1]], is_leaf=lambda x: x == [1]) == [(1, [1])]


def test_keys_are_values():
    key_classes = [DictKey, SequenceKey, GetAttrKey, FlattenedIndexKey]
    assert len({cls(1) for cls in key_classes} | {cls(1) for cls in key_classes}) == 4
    assert [repr(cls(1)) for cls in key_classes] == [
        "DictKey(key=1)",
        "SequenceKey(idx=1)",
        "GetAttrKey(name=1)",
        "FlattenedIndexKey(key=1)",
    ]
    assert (DictKey(1).key, SequenceKey(1).idx, GetAttrKey(1).name, FlattenedIndexKey(1).key) == (1, 1, 1, 1)
    for cls in key_classes:
        assert pickle.loads(pickle.dumps(cls(1))) == copy.deepcopy(cls(1)) == cls(1) != cls(2)
    with raises("DictKey is immutable", AttributeError):
        DictKey(1)._value = 2


def test_broadcast():
    assert tree.broadcast({"a": 1, "b": 2}, {"a": [0, (0,)], "b": None}) == {"a": [1, (1,)], "b": None}
    assert tree.broadcast([(0, 1), None], [{"x": 1}, None], is_leaf=lambda x: type(x) is tuple) == [{"x": (0, 1)}, None]
    with raises("full_tree[0] is a leaf of type int, but prefix_tree[0] is a tuple of length 2."):
        tree.broadcast([(0, 1)], [1])
    with raises("full_tree is a leaf of type float, but prefix_tree is None (which has no leaves)."):
        tree.broadcast(None, 1.0)


def test_registered_classes_are_containers():
    assert tree.map(lambda x: -x, Interval(1, 2, "m")) == Interval(-1, -2, "m")
    assert tree.map(lambda x: -x, Box(1, [2])).items == (-1, [-2])
    assert tree.map(lambda x: -x, Layer(1, "tanh", 3)) == Layer(-1, "tanh", -3)
    assert tree.flatten(Config(3))[0] == [] and tree.map(lambda x: -x, [Config(3), 1]) == [Config(3), -1]
    assert tree.structure(Config(3)) == tree.structure(Config(3)) != tree.structure(Config(4))


# ---------------------------------------------------------------- messages

OtherPoint = type("Point", (Point,), {"__module__": "elsewhere", "__qualname__": "Point"})

DIFFERENCES = [
    ({"w": (1, 2)}, {"w": 3}, "a['w'] is a tuple of length 2, but b['w'] is a leaf."),
    ([1, (2, 3)], [1, (2, 3, 4)], "a[1] is a tuple of length 2, but b[1] is a tuple of length 3."),
    ((1,), [1], "a is a tuple of length 1, but b is a list of length 1."),
    ([None], [1], "a[0] is None (which has no leaves), but b[0] is a leaf."),
    ({"x": 1}, {"x": 1, "y": 2}, "a is a dict without the key 'y', unlike b."),
    ({"x": 1, "z": 1}, {"x": 1}, "a is a dict with the extra key 'z', unlike b."),
    (
        [{"u": 1, "v": 1}],
        [{"w": 1}],
        "a[0] is a dict without the key 'w' and with the extra keys 'u', 'v', unlike b[0].",
    ),
    (
        {i: i for i in range(7)},
        {},
        "a is a dict with the extra keys 0, 1, 2, 3, 4 and 2 more, unlike b.",
    ),
    ({"x": 1}, [1], "a is a dict with the key 'x', but b is a list of length 1."),
    ({}, 1, "a is a dict without keys, but b is a leaf."),
    (
        OrderedDict(x=1, y=2),
        OrderedDict(y=1, x=2),
        "a is an OrderedDict with the keys 'x', 'y', but b is an OrderedDict with the keys 'y', 'x'.",
    ),
    ({"x": 1}, OrderedDict(x=1), "a is a dict with the key 'x', but b is an OrderedDict with the key 'x'."),
    (
        defaultdict(list, x=1),
        defaultdict(None, x=1),
        "a is a defaultdict with the factory list, but b is a defaultdict with the factory None.",
    ),
    (defaultdict(list, x=1), {"x": 1}, "a is a defaultdict with the key 'x', but b is a dict with the key 'x'."),
    (defaultdict(list, x=1), defaultdict(list), "a is a defaultdict with the extra key 'x', unlike b."),
    (Point(1, 2), (1, 2), "a is a Point, but b is a tuple of length 2."),
    (Point(1, 2), OtherPoint(1, 2), f"a is a {__name__}.Point, but b is an elsewhere.Point."),
    (Point(1, [2]), Point(1, 2), "a.y is a list of length 1, but b.y is a leaf."),
    (
        Interval(1, 2, "m"),
        Interval(1, 2, "s"),
        "a is an Interval with the static data 'm', but b is an Interval with the static data 's'.",
    ),
    (Interval(1, 2), Layer(1), "a is an Interval, but b is a Layer."),
    (Layer([1]), Layer(1), "a.w is a list of length 1, but b.w is a leaf."),
    (Layer(1, "relu"), Layer(1, "tanh"), "a is a Layer with act='relu', but b is a Layer with act='tanh'."),
    (Box(1, 2), Box(1), "a is a Box with 2 children, but b is a Box with 1 child."),
    (Box(1, (2,)), Box(1, 2), "a['item1'] is a tuple of length 1, but b['item1'] is a leaf."),
    (Interval(1, [2]), Interval(1, 2), "a[<flat index 1>] is a list of length 1, but b[<flat index 1>] is a leaf."),
    (
        Config(1),
        Config(2),
        "a is a Config with the static data Config(depth=1), but b is a Config with the static data Config(depth=2).",
    ),
]


@pytest.mark.parametrize(("a", "b", "message"), DIFFERENCES)
def test_describe_difference(a, b, message):
    assert tree.describe_difference(tree.structure(a), tree.structure(b), "a", "b") == message


def test_only_the_first_difference_is_told():
    a, b = tree.structure([1, {"x": (2, 3)}, (4,)]), tree.structure([1, {"x": 2}, 4])
    message = "tangents[1]['x'] is a tuple of length 2, but primals[1]['x'] is a leaf."
    assert tree.describe_difference(a, b, "tangents", "primals") == message


def test_map_mismatch():
    with raises("rest[0]['w'] is a list of length 2, but tree['w'] is a tuple of length 2."):
        tree.map(operator.add, {"w": (1, 2)}, {"w": [1, 2]})
    with raises("rest[1] is a dict without the key 'b', unlike tree."):
        tree.map(max, {"a": 1, "b": 2}, {"a": 1, "b": 2}, {"a": 1})
    with raises("rest[0][0] is a leaf of type ndarray, but tree[0] is a list of length 1."):
        tree.map(operator.add, [[1]], [np.ones(1)])
    with raises("rest[0].b is None (which has no leaves), but tree.b is a list of length 1."):
        tree.map(operator.add, Layer(1, b=[2]), Layer(1, b=None))


def test_flatten_up_to_mismatch():
    treedef = tree.structure({"a": [1, 2], "b": 3})
    with raises("tree['a'] is a list of length 3, but treedef['a'] is a list of length 2."):
        treedef.flatten_up_to({"a": [1, 2, 3], "b": 3})
    with raises("tree is a leaf of type float, but treedef is a dict with the keys 'a', 'b'."):
        treedef.flatten_up_to(1.0)


def test_unflatten_mismatch():
    with raises("PyTreeDef((*, *)) has 2 leaves, but 1 came."):
        tree.unflatten(tree.structure((1, 2)), [1])
    with raises("PyTreeDef(*) has 1 leaf, but 0 came."):
        tree.unflatten(tree.LEAF, [])
    with raises(f"PyTreeDef([{'*, ' * 22}... has 100 leaves, but 3 came."):
        tree.unflatten(tree.structure([0] * 100), iter("abc"))


def test_flatten_axes():
    treedef = tree.structure(({"w": 1, "b": [2, 3]}, 4, None))
    assert tree.flatten_axes("in_axes", treedef, (0, None, 1)) == [0, 0, 0, None]
    assert tree.flatten_axes("in_axes", treedef, ({"w": 1, "b": None}, 2, None)) == [None, None, 1, 2]
    assert tree.flatten_axes("in_axes", treedef, ({"w": 1, "b": [2, 3]}, "any leaf", None)) == [2, 3, 1, "any leaf"]
    with raises(
        "in_axes[0] is a dict without the key 'b', unlike the value there.\nRemedy: one axis (an int or None) for the "
        "whole of it, or its structure with an axis for each leaf."
    ):
        tree.flatten_axes("in_axes", treedef, ({"w": 0}, 0, 0))
    with raises(
        "in_axes[0]['b'] is a list of length 1, but the value there is a list of length 2.\nRemedy: one axis (an int or "
        "None) for the whole of it, or its structure with an axis for each leaf."
    ):
        tree.flatten_axes("in_axes", treedef, ({"w": 0, "b": [0]}, 0, 0))
    with raises("out_axes[1] is a tuple of length 2, but the value there is a leaf.\nRemedy: one axis (an int or None)."):
        tree.flatten_axes("out_axes", treedef, (0, (0, 1), 0))
    with raises(
        "in_axes is a tuple of length 2, but the value there is a tuple of length 3.\nRemedy: one axis (an int or None) "
        "for the whole of it, or its structure with an axis for each leaf."
    ):
        tree.flatten_axes("in_axes", treedef, (0, 0))


def test_nested_tuples_and_lists_of_leaves_have_one_structure_at_any_depth() -> None:
    def made(last: object) -> tuple:
        return ([(1.0, [2.0, {"b": 3.0, "a": 4.0}]), (5.0, 6.0)], [[[last]]]), {}

    leaves, structure = tree.flatten(made(7.0))
    assert leaves == [1.0, 2.0, 4.0, 3.0, 5.0, 6.0, 7.0]
    assert tree.structure(made(8.0)) is structure
    assert tree.unflatten(structure, leaves) == made(7.0)
    others = [tree.structure(made(x)) for x in ((7.0,), [7.0], None, {"a": 7.0})]
    assert len({structure, *others}) == 5  # which other parts below do not take for the same
