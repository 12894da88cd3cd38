"""funcad.tree: objects that nobody registered: dataclasses, attrs objects, SimpleNamespaces, and labels in named tuples."""

import dataclasses
import enum
import functools
import pickle
import re
from collections import OrderedDict
from dataclasses import KW_ONLY, InitVar, dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar, NamedTuple

import numpy as np
import pytest

from funcad import tree
from funcad.tree import GetAttrKey
from tests.workers import name_of

calls = []


@dataclass
class Layer:
    w: object
    act: str = "relu"


@dataclass(frozen=True, slots=True)
class Frozen:
    w: object
    options: dict = field(default_factory=lambda: {"names": ["a", "b"], "rate": 0.5})


@dataclass
class Base:
    a: object
    made: list = field(default_factory=list)


@dataclass
class Derived(Base):
    kind: ClassVar[str] = "derived"
    scale: InitVar[float] = 2.0
    _: KW_ONLY
    b: object = 1.0
    n: int = field(default=3, metadata={"static": True})
    twice: object = field(init=False)

    def __post_init__(self, scale):
        calls.append("derived")
        self.twice = self.a * scale
        self.undeclared = "kept"


class Fewer(Derived):  # derives without the decorator
    pass


@dataclass(slots=True, kw_only=True)
class SlottedBase:
    a: object


@dataclass(slots=True, kw_only=True)
class Slotted(SlottedBase):
    b: object
    c: object = field(init=False)


@dataclass
class Guarded:
    w: object

    def __setattr__(self, name, value):
        calls.append(name)
        super().__setattr__(name, value)


class Color(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: object
    label: object = "here"


def twice(x):
    return 2 * x


def same_again(x):
    """What `tree.map` makes of x: of the same structure."""
    calls.clear()
    leaves, structure = tree.flatten(x)
    again = structure.unflatten(leaves)
    assert type(again) is type(x) and again is not x and not calls
    assert tree.structure(again) == structure and hash(tree.structure(again)) == hash(structure)
    assert [a is b for a, b in zip(tree.leaves(again), leaves)] == [True] * len(leaves)
    assert pickle.loads(pickle.dumps(structure)) == structure
    return again


def test_fields_are_children_and_what_holds_no_array_is_static():
    layer = Layer(np.ones(2))
    assert tree.leaves_with_path(layer)[0][0] == (GetAttrKey("w"),) and len(tree.leaves(layer)) == 1
    assert repr(tree.structure(layer)) == "PyTreeDef(Layer(w=*, act='relu'))"
    again = same_again(layer)
    assert again.w is layer.w and vars(again).keys() == vars(layer).keys() and again.act == layer.act
    assert tree.map(twice, Layer(1.5)) == Layer(3.0)
    assert tree.structure(Layer(1.0)) != tree.structure(Layer(1.0, "tanh"))
    assert tree.is_tree_node(Layer) and not tree.all_leaves([layer])
    assert tree.leaves([Layer(1.0), {"a": Layer(2.0)}]) == [1.0, 2.0]
    assert tree.structure(Layer) is tree.LEAF  # the class itself


def test_frozen_slots_and_options_by_value():
    one, other = Frozen(1.0), Frozen(2.0)
    assert tree.structure(one) == tree.structure(other) and hash(tree.structure(one)) == hash(tree.structure(other))
    assert tree.leaves(one) == [1.0, 0.5]  # a number is a leaf, in options too
    again = same_again(one)
    assert again == one and again.options is not one.options
    one.options["names"].append("c")
    assert tree.structure(one) != tree.structure(other)
    assert tree.structure(again) == tree.structure(other)


@pytest.mark.parametrize("cls", [Derived, Fewer])
def test_inheritance_and_what_the_constructor_does(cls):
    x = cls(1.0, 5.0, b=2.0) if cls is Base else cls(1.0, [4.0], 5.0, b=2.0)
    again = same_again(x)
    assert vars(again) == vars(x) and again.undeclared == "kept" and again.twice == 5.0
    assert tree.leaves(x) == [1.0, 4.0, 2.0, 5.0]  # n is marked static
    mapped = tree.map(twice, x)
    assert (mapped.a, mapped.made, mapped.b, mapped.twice, mapped.n) == (2.0, [8.0], 4.0, 10.0, 3) and not calls
    assert tree.structure(x) != tree.structure(dataclasses.replace(x, scale=5.0, n=4))


def test_slots_that_are_empty():
    x = Slotted(a=1.0, b=2.0)
    again = same_again(x)
    assert (again.a, again.b) == (1.0, 2.0) and not hasattr(again, "c")
    x.c = 3.0
    assert tree.leaves(x) == [1.0, 2.0, 3.0] and same_again(x).c == 3.0
    assert tree.structure(x) != tree.structure(again)


def test_a_class_that_sets_no_attributes_itself():
    assert same_again(Guarded(1.0)).w == 1.0


def test_cached_properties_belong_to_the_old_arrays():
    @dataclass
    class Cached:
        w: object

        @functools.cached_property
        def doubled(self):
            return 2 * self.w

    x = Cached(1.0)
    assert x.doubled == 2.0 and tree.leaves(x) == [1.0]
    assert tree.map(twice, x).doubled == 4.0


def test_simple_namespaces():
    x = SimpleNamespace(b=[1.0], a=2.0, name="n")
    assert tree.leaves(x) == [2.0, 1.0] and same_again(x) == x
    assert tree.structure(x) == tree.structure(SimpleNamespace(name="n", a=0.0, b=[0.0]))
    assert tree.map(twice, x) == SimpleNamespace(a=4.0, b=[2.0], name="n")
    assert same_again(SimpleNamespace()) == SimpleNamespace()


def test_attrs_objects():
    attrs = pytest.importorskip("attrs")

    @attrs.frozen(cache_hash=True)
    class Cell:
        w: object
        act: str = "tanh"
        n: int = attrs.field(default=1, metadata={"static": True})

        def __attrs_post_init__(self):
            calls.append("attrs")

    x = Cell(1.0)
    hash(x)
    structure = tree.structure(x)
    assert tree.leaves(x) == [1.0] and structure == tree.structure(Cell(2.0)) != tree.structure(Cell(1.0, n=2))
    calls.clear()
    doubled = tree.map(twice, x)
    assert doubled == Cell(2.0) and hash(doubled) == hash(Cell(2.0)) and calls == ["attrs", "attrs"]  # this line's own


def test_classes_that_look_like_attrs_need_no_attrs():
    class Cell:
        __attrs_attrs__ = (SimpleNamespace(name="w", metadata={}), SimpleNamespace(name="n", metadata={"static": True}))

        def __init__(self, w, n):
            self.w, self.n = w, n

    assert tree.leaves(Cell(1.0, 2)) == [1.0] and tree.map(twice, Cell(1.0, 2)).n == 2


STATIC = ["text", b"bytes", True, np.tanh, twice, len, Color.RED, np.dtype("f4"), Path("a"), slice(1, 2), {"a", "b"}]
STATIC += [frozenset([1]), np.float32, functools.partial(twice), range(3), ..., re.compile("a"), Layer.__init__]


@pytest.mark.parametrize("value", STATIC, ids=name_of)
def test_what_is_static(value):
    assert tree.leaves(Layer(1.0, value)) == [1.0]
    assert tree.leaves(Layer(1.0, [value, {"a": (value,)}])) == [1.0]
    again = tree.map(twice, Layer(1.0, value)).act
    assert again == value and type(again) is type(value)
    structure = tree.structure(Layer(1.0, value))
    assert structure == tree.structure(Layer(2.0, value)) and hash(structure) == hash(tree.structure(Layer(2.0, value)))


class Callable:
    def __init__(self, **held):
        self.__dict__.update(held)

    def __call__(self):
        return 0


def test_what_is_not_static():
    for value in (1, 2.0, 1j, np.float64(1.0), np.bool_(True), np.ones(2), object(), Callable(w=np.ones(2))):
        assert tree.leaves(Layer(1.0, value))[1] is value
    assert len(tree.leaves(Layer(1.0, Callable(parts=[Layer(np.ones(2))])))) == 2  # what it hides would have no gradient
    assert len(tree.leaves(Layer(1.0, Callable(name="n")))) == 1
    assert tree.structure(Layer(1.0, None)) == tree.structure(Layer(2.0, None)) != tree.structure(Layer(2.0, "relu"))


def test_static_values_are_compared_by_type_and_bits():
    @dataclass
    class Marked:
        x: object = field(metadata={"static": True})

    def structure(x):
        return tree.structure(Marked(x))

    assert structure(float("nan")) == structure(float("nan")) and structure([1, {"a": 2}]) == structure([1, {"a": 2}])
    assert structure(0.0) != structure(-0.0) and structure(1) != structure(True) != structure(1.0)
    assert tree.leaves(Marked([1.0, Layer(2.0)])) == []
    with pytest.raises(TypeError, match="cannot be hashed and compared"):
        hash(structure(np.ones(2)))
    items = {"a"}
    before = structure(items)
    items.add("b")
    assert before != structure(items) and before.unflatten([]).x == {"a"}


def test_explicit_registration_wins():
    @dataclass
    class Mine:
        a: object
        b: object

    assert tree.leaves(Mine(1.0, "b")) == [1.0]
    tree.register_dataclass(Mine, ["b"], ["a"])
    assert tree.leaves(Mine(1.0, "b")) == ["b"]
    assert tree.leaves(Layer(Mine(1.0, "b"))) == ["b"]  # inside another object too


def test_classes_that_cannot_be_made_again_are_leaves():
    @dataclass
    class Mapping(dict):
        a: int = 0

    @dataclass
    class ArrayLike:
        w: object

        def __array__(self):
            return self.w

    for x in (Mapping(), ArrayLike(np.ones(2))):
        assert tree.structure(x) is tree.LEAF


def test_named_tuples_keep_their_labels():
    assert tree.leaves(Point(1.0)) == [1.0] and same_again(Point(np.ones(2), {"f": twice})).label == {"f": twice}
    assert repr(tree.structure(Point(1.0))) == "PyTreeDef(Point(x=*, label='here'))"
    assert tree.map(twice, Point(1.0)) == Point(2.0)
    # Alone they are leaves, so that a tree of labels fits the tree that they are for.
    assert tree.leaves(Point("adam", "sgd")) == ["adam", "sgd"]
    assert tree.map(lambda label, x: (label, x), Point("adam", "sgd"), Point(1.0, 2.0)) == Point(("adam", 1.0), ("sgd", 2.0))
    assert tree.leaves(Point(1.0, True)) == [1.0, True]  # numbers, as ever
    assert tree.leaves(Point(1.0), is_leaf=lambda x: isinstance(x, str)) == [1.0, "here"]
    assert tree.leaves(Layer(1.0), is_leaf=lambda x: isinstance(x, str)) == [1.0, "relu"]


def test_prefixes_and_axes():
    full = Layer({"a": 1.0, "b": 2.0})
    assert tree.structure(Layer(0)).flatten_up_to(full) == [full.w]
    assert tree.broadcast(Layer(7), full) == Layer({"a": 7, "b": 7})
    assert tree.flatten_axes("in_axes", tree.structure(full), Layer(0, None)) == [0, 0]
    assert tree.flatten_axes("in_axes", tree.structure([full]), [Layer({"a": 0, "b": None})]) == [0, None]
    assert tree.transpose(tree.structure(Layer(0)), None, Layer((1, 2))) == (Layer(1), Layer(2))
    assert tree.leaves_with_path(full, is_leaf=lambda path, x: len(path) == 1, is_leaf_takes_path=True)[0][1] is full.w


def test_differences_name_the_field():
    def difference(a, b):
        return tree.describe_difference(tree.structure(a), tree.structure(b), "a", "b")

    assert difference(Layer(1.0), Layer(1.0, "tanh")) == "a.act is 'relu', but b.act is 'tanh'."
    assert difference(Layer([1.0]), Layer(1.0)) == "a.w is a list of length 1, but b.w is a leaf."
    assert difference(Layer(1.0), Frozen(1.0)) == "a is a Layer, but b is a Frozen."
    assert difference(Layer(1.0, 2.0), Layer(1.0)) == "a.act is a leaf, but b.act is 'relu'."
    assert difference(SimpleNamespace(a=1), SimpleNamespace(a=1, b=2)) == (
        "a is a SimpleNamespace with the field 'a', but b is a SimpleNamespace with the fields 'a', 'b'."
    )
    with pytest.raises(tree.functions.TreeMismatchError, match=r"^rest\[0\].act is 'tanh', but tree.act is 'relu'."):
        tree.map(twice, Layer(1.0), Layer(1.0, "tanh"))


def test_objects_that_contain_themselves():
    x = Layer(1.0)
    x.w = [x]
    with pytest.raises(RecursionError, match=r"this pytree contains itself: tree.w\[0\] is tree again"):
        tree.flatten(x)


def test_other_containers_are_as_they_were():
    for x in ({"b": 1, "a": "text"}, OrderedDict(b="x", a=2), ["a", True, np.tanh], ("a",), None):
        leaves, structure = tree.flatten(x)
        assert structure.unflatten(leaves) == x and len(leaves) == len(x or ())
