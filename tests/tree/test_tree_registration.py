"""funcad.tree: registering classes, static data, and Partial."""

import functools
import operator
import pickle
import re
import subprocess
import sys
from collections import namedtuple
from dataclasses import KW_ONLY, InitVar, dataclass, field

import numpy as np
import pytest

from funcad import tree
from funcad.tree import GetAttrKey


@tree.register_pytree_node_class
class Range:
    def __init__(self, low, high, unit=None):
        self.low, self.high, self.unit = low, high, unit

    def tree_flatten(self):
        return (self.low, self.high), self.unit

    @classmethod
    def tree_unflatten(cls, unit, children):
        return cls(*children, unit)


@tree.register_dataclass
@dataclass
class Dense:
    w: object
    act: str = field(default="relu", metadata={"static": True})
    b: object = 0.0


def raises(message, error):
    """The whole message, not a part of it."""
    return pytest.raises(error, match=f"^{re.escape(message)}$")


def test_register_pytree_node():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    assert tree.structure(Pair(1, 2)) is tree.LEAF
    # Any iterable of children will do.
    tree.register_pytree_node(Pair, lambda p: (iter([p.a, p.b]), None), lambda _, children: Pair(*children))
    assert tree.leaves([Pair(1, 2)]) == [1, 2]
    assert tree.map(operator.add, Pair(1, 2), Pair(3, 4)).b == 6

    class Keyed(Pair):
        pass

    def with_keys(p):
        return ((GetAttrKey("a"), p.a), (GetAttrKey("b"), p.b)), None

    def without_keys(p):
        return (p.a, p.b), None

    tree.register_pytree_node(Keyed, without_keys, lambda _, children: Keyed(*children), with_keys)
    assert tree.leaves_with_path(Keyed(1, 2)) == [((GetAttrKey("a"),), 1), ((GetAttrKey("b"),), 2)]
    assert tree.map(operator.neg, Keyed(1, 2)).b == -2
    assert repr(tree.structure(Keyed(1, 2))) == "PyTreeDef(Keyed(a=*, b=*))"

    class Keyed2(Pair):
        pass

    tree.register_pytree_with_keys(Keyed2, with_keys, lambda _, children: Keyed2(*children), without_keys)
    assert tree.leaves_with_path(Keyed2(1, 2))[1] == ((GetAttrKey("b"),), 2)


def test_a_registered_named_tuple_follows_its_registration():
    Only = namedtuple("Only", "x note")
    assert tree.leaves(Only(1, 2)) == [1, 2]
    tree.register_pytree_node(Only, lambda t: ((t.x,), t.note), lambda note, children: Only(children[0], note))
    assert tree.leaves(Only(1, 2)) == [1] and tree.map(operator.neg, Only(1, 2)) == Only(-1, 2)


def test_registration_mistakes():
    with raises("Range is already registered as a pytree. Register each class once.", ValueError):
        tree.register_pytree_node_class(Range)
    with raises("dict is already registered as a pytree. Register each class once.", ValueError):
        tree.register_static(dict)
    with raises("only a class can be registered as a pytree, not 3.", TypeError):
        tree.register_static(3)


def test_register_dataclass():
    @dataclass
    class Derived(Dense):
        pass

    tree.register_dataclass(Derived)  # a subclass is registered by itself
    assert tree.map(operator.neg, Derived(1, "tanh", 3)) == Derived(-1, "tanh", -3)

    @dataclass
    class Cached:
        x: int
        scale: InitVar[int] = 2
        twice: int = field(init=False, default=0)

        def __post_init__(self, scale):
            self.twice = scale * self.x

    message = "register_dataclass({}): the field 'twice' has init=False, so it cannot be passed to the constructor. "
    message += "If __post_init__ sets it, name it in drop_fields."
    with raises(message.format(Cached.__qualname__), ValueError):
        tree.register_dataclass(Cached)
    assert tree.register_dataclass(Cached, drop_fields=["twice"]) is Cached
    assert tree.map(lambda x: x + 1, Cached(1)).twice == 4

    @functools.partial(tree.register_dataclass, data_fields=["y", "x"], meta_fields=[])
    @dataclass
    class Reversed:
        x: int
        y: int

    assert tree.leaves(Reversed(1, 2)) == [2, 1] and tree.map(operator.neg, Reversed(1, 2)) == Reversed(-1, -2)

    class Plain:
        def __init__(self, *, w):
            self.w = w

    tree.register_dataclass(Plain, ["w"], [])
    assert tree.map(operator.neg, Plain(w=1)).w == -1


def test_keyword_only_marker_is_no_field():
    @dataclass
    class Point:
        x: float
        _: KW_ONLY
        y: float = 1.0

    tree.register_dataclass(Point)
    assert tree.map(lambda v: 2 * v, Point(1.0, y=3.0)) == Point(2.0, y=6.0)

    class Same(Point):  # adds nothing: what it inherits is known
        pass

    tree.register_dataclass(Same)
    assert tree.leaves(Same(1.0, y=3.0)) == [1.0, 3.0]


def test_register_dataclass_mistakes():
    class Plain:
        pass

    message = (
        "register_dataclass({}): give both data_fields and meta_fields, or neither for a class that is a dataclass "
        "already (@register_dataclass goes above @dataclass)."
    )
    with raises(message.format(Plain.__qualname__), TypeError):
        tree.register_dataclass(Plain)
    with raises(message.format(Plain.__qualname__), TypeError):
        tree.register_dataclass(Plain, ["w"])

    class Below(Dense):  # the decorators in the wrong order: the new field is not known yet
        extra: int = 0

    with raises(message.format(Below.__qualname__), TypeError):
        tree.register_dataclass(Below)

    @dataclass
    class Two:
        x: int
        y: int

    message = (
        "register_dataclass({}): the fields that the constructor takes are ['x', 'y'], but data_fields and meta_fields "
        "together are {}. List every field, or name it in drop_fields."
    )
    with raises(message.format(Two.__qualname__, ["x"]), ValueError):
        tree.register_dataclass(Two, ["x"], [])
    with raises(message.format(Two.__qualname__, ["x", "y", "z"]), ValueError):
        tree.register_dataclass(Two, ["x", "y"], ["z"])
    with raises(f"register_dataclass({Two.__qualname__}): a field is listed twice in ['x', 'x', 'y'].", ValueError):
        tree.register_dataclass(Two, ["x", "y"], ["x"])


def test_partial():
    add = tree.Partial(operator.add, 1)
    assert add(2) == 3 and isinstance(add, functools.partial)
    assert tree.leaves(tree.Partial(max, 1, [2], key=3)) == [1, 2, 3]
    doubled = tree.map(lambda x: 2 * x, tree.Partial(sorted, [3, 1], reverse=True))
    assert type(doubled) is tree.Partial and doubled() == [6, 2]
    assert tree.structure(tree.Partial(max, 1)) == tree.structure(tree.Partial(max, 2))
    assert tree.structure(tree.Partial(max, 1)) != tree.structure(tree.Partial(min, 1))
    assert pickle.loads(pickle.dumps(add))(4) == 5
    # Partials of Partials merge; the arguments of a plain partial stay static.
    assert tree.leaves(tree.Partial(tree.Partial(max, 1), 2)) == [1, 2]
    static = tree.Partial(functools.partial(max, 5), 2)
    assert tree.leaves(static) == [2] and static() == 5 and tree.map(operator.neg, static)() == 5
    assert tree.structure(static) == tree.structure(tree.Partial(functools.partial(max, 5), 3))
    assert hash(tree.structure(static)) == hash(tree.structure(tree.Partial(functools.partial(max, 5), 3)))
    assert tree.structure(static) != tree.structure(tree.Partial(functools.partial(max, 6), 2))
    assert repr(static.func) == repr(functools.partial(max, 5))


STATIC = (
    "the static data of Range cannot be hashed and compared: {}. Compiled functions are kept by their static data, "
    "so it must be hashable, and == on it must give True or False: turn a list into a tuple, and make an array a child "
    "(a data field)."
)


def test_static_data_that_cannot_be_hashed_or_compared():
    listed = tree.structure(Range(1, 2, ["m"]))
    assert listed == tree.structure(Range(1, 2, ["m"]))
    with raises(STATIC.format("['m']"), TypeError):
        hash(listed)
    with raises(STATIC.format("['m']"), TypeError):
        hash(tree.structure([Range(1, 2, ["m"])]))
    array = np.ones(2)
    one, other = tree.structure(Range(1, 2, array)), tree.structure(Range(1, 2, np.ones(2)))
    with raises(STATIC.format("array([1., 1.])"), TypeError):
        assert one == other
    with raises(STATIC.format("array([1., 1.])"), TypeError):
        one.flatten_up_to(Range(1, 2, np.ones(2)))
    assert one == tree.structure(Range(1, 2, array))


def test_unpickling_needs_the_registration():
    source = (
        "import pickle, sys, types; from funcad import tree\n"
        "sys.modules['shapes'] = shapes = types.ModuleType('shapes')\n"
        "shapes.Disc = type('Disc', (), {'__module__': 'shapes'})\n"
    )
    register = "tree.register_pytree_node(shapes.Disc, lambda d: ((1,), None), lambda m, c: shapes.Disc())\n"
    dump = "sys.stdout.buffer.write(pickle.dumps(tree.structure(shapes.Disc())))"
    pickled = subprocess.run(
        [sys.executable, "-c", source + register + dump], capture_output=True, check=True
    ).stdout
    load = "try: print(pickle.load(sys.stdin.buffer))\nexcept TypeError as error: print(error)"

    def output(script):
        return subprocess.run([sys.executable, "-c", script], input=pickled, capture_output=True, check=True).stdout

    assert output(source + register + load).decode().strip() == "PyTreeDef(Disc(*))"
    assert output(source + load).decode().strip() == (
        "this PyTreeDef has a Disc in it, which is not registered as a pytree in this process. Import the module that "
        "registers it before unpickling."
    )
