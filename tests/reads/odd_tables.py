# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined, call-overload"
"""A hundred small reads of one namespace `s`, with what changes there between the calls: one line each."""

from __future__ import annotations

import ast
import base64
import collections
import copy
import dataclasses
import fractions
import functools
import hashlib
import inspect
import json
import math
import operator
import pickle
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.sparse
import scipy.spatial

CASES: dict[str, Callable[[], Any]] = {}


class Plain:
    """An object of the user's with a number and some text."""

    def __init__(self, k: Any = 1.0):
        self.k, self.text = k, "a"


class Special(Plain):
    """Its special methods answer with the number."""

    def _number(self, *_):
        return self.k

    __neg__ = __pos__ = __abs__ = __round__ = __add__ = __radd__ = __sub__ = __mul__ = __matmul__ = __pow__ = __mod__ = _number
    __floordiv__ = __truediv__ = __divmod__ = __getitem__ = __and__ = __or__ = __trunc__ = __floor__ = __ceil__ = _number
    __array_ufunc__ = None

    def __int__(self):
        return int(self.k)

    __len__ = __hash__ = __invert__ = __index__ = __length_hint__ = __int__

    def __complex__(self):
        return complex(self.k)

    def __float__(self):
        return float(self.k)

    def __contains__(self, x):
        return self.k > 2

    def __bool__(self):
        return self.k > 2

    def __lt__(self, other):
        return self.k < other

    def __eq__(self, other):
        return self.k > 2

    def __reversed__(self):
        return iter([self.k])

    def __iter__(self):
        return iter([self.k, 1.0])

    def __str__(self):
        return str(self.k)

    def __repr__(self):
        return f"{self.k!r}"

    def __dir__(self):
        return ["a"] * int(self.k)

    def __class_getitem__(cls, key):
        return cls.held

    held = 1.0

    def __copy__(self):
        return Special(self.k + 1.0)

    def __reduce__(self):
        return Special, (self.k,)


class Ground(np.ndarray):
    """A subclass of arrays."""


def row(name: str, make: Callable[[], Any], f: Callable[[Any, Any], Any], change: Callable[[Any, int], Any]) -> None:
    def made() -> Any:
        s = types.SimpleNamespace(v=make())
        return lambda x: f(s, x), lambda i: change(s, i)

    CASES[name] = made


def number(name: str, f: Callable[[Any, Any], Any]) -> None:
    """An object whose special methods tell its number."""
    row(name, lambda: Special(1.0), f, lambda s, i: setattr(s.v, "k", 2.0 + i))


def later(name: str, method: str, f: Callable[[Any, Any], Any], value: Any) -> None:
    """A class that gets a method between the calls, and loses it again."""

    def make() -> Any:
        class Made:
            k = 1.0

        return Made()

    def change(s: Any, i: int) -> None:
        if i % 2 == 0:
            setattr(type(s.v), method, value)
        else:
            delattr(type(s.v), method)

    row(name, make, f, change)


number("negative", lambda s, x: x * -s.v)
number("positive", lambda s, x: x * +s.v)
number("inverted", lambda s, x: x * ~s.v)
number("abs", lambda s, x: x * abs(s.v))
number("round", lambda s, x: x * round(s.v))
number("int", lambda s, x: x * int(s.v))
number("float", lambda s, x: x * float(s.v))
number("complex", lambda s, x: x * complex(s.v).real)
number("len", lambda s, x: x * len(s.v))
number("hash", lambda s, x: x * hash(s.v))
number("bool", lambda s, x: x * 2.0 if bool(s.v) else x)
number("not", lambda s, x: x * 2.0 if not s.v else x)
number("and", lambda s, x: x * 2.0 if s.v and True else x)
number("ternary", lambda s, x: x * (2.0 if s.v else 3.0))
number("add", lambda s, x: x * (s.v + 1))
number("radd", lambda s, x: x * (1 + s.v))
number("sub", lambda s, x: x * (s.v - 1))
number("matmul", lambda s, x: x * (s.v @ 1))
number("power", lambda s, x: x * s.v**2)
number("pow", lambda s, x: x * pow(s.v, 2))
number("divmod", lambda s, x: x * divmod(s.v, 2))
number("floordiv", lambda s, x: x * (s.v // 2))
number("bits", lambda s, x: x * (s.v & 2))
number("item", lambda s, x: x * s.v[0])
number("slice", lambda s, x: x * s.v[1:2])
number("contains", lambda s, x: x * 2.0 if 1 in s.v else x)
number("less", lambda s, x: x * 2.0 if s.v < 3.0 else x)
number("less_swapped", lambda s, x: x * 2.0 if 3.0 > s.v else x)
number("equal", lambda s, x: x * 2.0 if s.v == 3.0 else x)
number("equal_in_a_list", lambda s, x: x * 2.0 if [s.v] == [3.0] else x)
number("element_of_a_list", lambda s, x: x * 2.0 if 7.0 in [s.v] else x)
number("reversed", lambda s, x: x * next(reversed(s.v)))
number("iter", lambda s, x: x * next(iter(s.v)))
number("for", lambda s, x: x * sum([1.0 * v for v in s.v]))
number("unpacked", lambda s, x: x * (lambda a, b: a + b)(*s.v))
number("assigned_apart", lambda s, x: [x * a + b for a, b in [s.v]][0])
number("sum", lambda s, x: x * sum(s.v))
number("list", lambda s, x: x * list(s.v)[0])
number("zip", lambda s, x: x * [a for a, _ in zip(s.v, [1, 2])][0])
number("sorted", lambda s, x: x * sorted(s.v)[-1])
number("max", lambda s, x: x * max(s.v))
number("str", lambda s, x: x * float(str(s.v)))
number("repr", lambda s, x: x * float(repr(s.v)))
number("formatted", lambda s, x: x * float(f"{s.v}"))
number("formatted_repr", lambda s, x: x * float(f"{s.v!r}"))
number("percent", lambda s, x: x * float("%s" % s.v))  # noqa: UP031
number("format_method", lambda s, x: x * float("{}".format(s.v)))  # noqa: UP032
number("format_attribute", lambda s, x: x * float(f"{s.v.k}"))
number("dir", lambda s, x: x * len(dir(s.v)))
number("copy", lambda s, x: x * copy.copy(s.v).k)
number("pickle", lambda s, x: x * pickle.loads(pickle.dumps(s.v)).k)
number("math_floor", lambda s, x: x * math.floor(s.v))
number("math_trunc", lambda s, x: x * math.trunc(s.v))
number("index_of_an_array", lambda s, x: x * np.arange(9.0)[s.v])
number("range", lambda s, x: x * len(range(s.v)))
number("product", lambda s, x: [1.0, 2.0] * s.v and x * len([1.0] * operator.index(s.v)))
number("operator_neg", lambda s, x: x * operator.neg(s.v))
number("operator_add", lambda s, x: x * operator.add(s.v, 1))
number("operator_truth", lambda s, x: x * 2.0 if operator.truth(s.v) else x)
number("operator_not", lambda s, x: x * 2.0 if operator.not_(s.v) else x)
number("operator_eq", lambda s, x: x * 2.0 if operator.eq(s.v, 1) else x)
number("operator_getitem", lambda s, x: x * operator.getitem(s.v, 0))
number("operator_contains", lambda s, x: x * 2.0 if operator.contains(s.v, 0) else x)
number("length_hint", lambda s, x: x * operator.length_hint(s.v))
number("vars", lambda s, x: x * vars(s.v)["k"])
number("dict_attribute", lambda s, x: x * s.v.__dict__["k"])
number("getattribute", lambda s, x: x * object.__getattribute__(s.v, "k"))
number("special_by_name", lambda s, x: x * s.v.__neg__())
number("special_of_class", lambda s, x: x * type(s.v).__neg__(s.v))
number("members", lambda s, x: x * dict(inspect.getmembers(s.v, lambda v: type(v) is float))["k"])
number("static_attribute", lambda s, x: x * inspect.getattr_static(s.v, "k"))
row("class_item", lambda: type("Own", (Special,), {}), lambda s, x: x * s.v[int], lambda s, i: setattr(s.v, "held", 2.0 + i))

later("bool_later", "__bool__", lambda s, x: x * 2.0 if s.v else x, lambda self: False)
later("len_later", "__len__", lambda s, x: x * 2.0 if s.v else x, lambda self: 0)
later("eq_later", "__eq__", lambda s, x: x * 2.0 if s.v == 3.0 else x, lambda self, other: True)
later("getattr_later", "__getattr__", lambda s, x: x * getattr(s.v, "j", 5.0), lambda self, name: 7.0)
later("getattribute_later", "__getattribute__", lambda s, x: x * s.v.k, lambda self, name: 7.0)
later("call_later", "__call__", lambda s, x: s.v(x) if callable(s.v) else x, lambda self, x: x * 7.0)
later("str_later", "__str__", lambda s, x: x * len(str(s.v)), lambda self: "abc")
later("contains_later", "__contains__", lambda s, x: x * 2.0 if hasattr(s.v, "__contains__") else x, lambda self, v: True)
later("iter_later", "__iter__", lambda s, x: x * sum(s.v) if hasattr(s.v, "__iter__") else x, lambda self: iter([3.0]))
later("set_later", "__setattr__", lambda s, x: (setattr(s.v, "k", 3.0), x * s.v.k)[1], lambda self, name, v: None)
later("neg_later", "__neg__", lambda s, x: x * -s.v if hasattr(s.v, "__neg__") else x, lambda self: 4.0)
later("rmul_later", "__rmul__", lambda s, x: _tried(lambda: 2.0 * s.v) * x, lambda self, other: 4.0)


def _tried(f: Callable[[], Any]) -> Any:
    try:
        return f()
    except TypeError:
        return 1.0


row(
    "builtin_attribute",
    lambda: Plain(math.sin),
    lambda s, x: x * s.v.k(0.5),
    lambda s, i: setattr(s.v, "k", [math.cos, math.tan][i % 2]),
)
row(
    "builtin_of_class",
    lambda: type("C", (), {"k": math.sin}),
    lambda s, x: x * s.v.k(0.5),
    lambda s, i: setattr(s.v, "k", [math.cos, math.tan][i % 2]),
)
row("builtin_by_name", lambda: math.sin, lambda s, x: x * s.v(0.5), lambda s, i: setattr(s, "v", [math.cos, math.tan][i % 2]))
row(
    "name_of_a_function",
    lambda: types.FunctionType((lambda: 0).__code__, {}),
    lambda s, x: x * len(s.v.__name__),
    lambda s, i: setattr(s.v, "__name__", "f" * (i + 1)),
)
row(
    "doc_of_a_function",
    lambda: types.FunctionType((lambda: 0).__code__, {}),
    lambda s, x: x * len(s.v.__doc__ or ""),
    lambda s, i: setattr(s.v, "__doc__", "f" * (i + 1)),
)
row(
    "notes_of_a_function",
    lambda: types.FunctionType((lambda: 0).__code__, {}),
    lambda s, x: x * len(s.v.__annotations__),
    lambda s, i: s.v.__annotations__.update({f"a{i}": int}),
)
row(
    "signature",
    lambda: lambda a, b=1.0: a,
    lambda s, x: x * inspect.signature(s.v).parameters["b"].default,
    lambda s, i: setattr(s.v, "__defaults__", (2.0 + i,)),
)
row(
    "defaults_replaced",
    lambda: lambda x, b=1.0: x * b,
    lambda s, x: s.v(x),
    lambda s, i: setattr(s.v, "__defaults__", (2.0 + i,)),
)
row(
    "keyword_defaults_replaced",
    lambda: lambda x, *, b=1.0: x * b,
    lambda s, x: s.v(x),
    lambda s, i: setattr(s.v, "__kwdefaults__", {"b": 2.0 + i}),
)
row(
    "name_that_is_asked",
    lambda: [Plain(), "k"],
    lambda s, x: x * len(str(getattr(s.v[0], s.v[1]))),
    lambda s, i: s.v.__setitem__(1, ["text", "k"][i % 2]),
)
row("join", lambda: ["a", "b"], lambda s, x: x * len(",".join(s.v)), lambda s, i: s.v.append("cd"))
row("int_from_bytes", lambda: bytearray(b"ab"), lambda s, x: x * int.from_bytes(s.v, "big"), lambda s, i: s.v.__setitem__(0, i))
row("json", lambda: ["1"], lambda s, x: x * json.loads(s.v[0]), lambda s, i: s.v.__setitem__(0, str(2 + i)))
row("json_dumps", lambda: {"a": [1]}, lambda s, x: x * len(json.dumps(s.v)), lambda s, i: s.v["a"].append(i))
row("literal", lambda: ["1"], lambda s, x: x * ast.literal_eval(s.v[0]), lambda s, i: s.v.__setitem__(0, str(2 + i)))
row("base64", lambda: bytearray(b"ab"), lambda s, x: x * len(base64.b64encode(s.v)), lambda s, i: s.v.extend(b"abc"))
row("hashlib", lambda: bytearray(b"ab"), lambda s, x: x * hashlib.md5(s.v).digest()[0], lambda s, i: s.v.extend(b"abc"))
row(
    "pickled",
    lambda: [pickle.dumps(1.0)],
    lambda s, x: x * pickle.loads(s.v[0]),
    lambda s, i: s.v.__setitem__(0, pickle.dumps(2.0 + i)),
)
row("format_map", lambda: {"k": 1.0}, lambda s, x: x * float("{k}".format_map(s.v)), lambda s, i: s.v.update(k=2.0 + i))
row("format_width", lambda: Plain(3), lambda s, x: x * len(f"{1.5:>{s.v.k}}"), lambda s, i: setattr(s.v, "k", 4 + i))
row("set_union", lambda: ({1, 2}, {2}), lambda s, x: x * len(s.v[0] | s.v[1]), lambda s, i: s.v[1].add(5 + i))
row(
    "subset",
    lambda: ({1, 2}, {2}),
    lambda s, x: x * 2.0 if s.v[1] <= s.v[0] else x,
    lambda s, i: s.v[1].symmetric_difference_update([9]),
)
row(
    "disjoint",
    lambda: ({1, 2}, {3}),
    lambda s, x: x * 2.0 if s.v[1].isdisjoint(s.v[0]) else x,
    lambda s, i: s.v[1].symmetric_difference_update([1]),
)
row(
    "proxy_equal",
    lambda: {"k": 1},
    lambda s, x: x * 2.0 if types.MappingProxyType(s.v) == {"k": 2} else x,
    lambda s, i: s.v.update(k=2 + i % 2),
)
row(
    "user_list_equal",
    lambda: collections.UserList([1]),
    lambda s, x: x * 2.0 if s.v == [2] else x,
    lambda s, i: s.v.__setitem__(0, 2 + i % 2),
)
row(
    "user_dict_equal",
    lambda: collections.UserDict(k=1),
    lambda s, x: x * 2.0 if s.v == {"k": 2} else x,
    lambda s, i: s.v.update(k=2 + i % 2),
)
row("user_list_sum", lambda: collections.UserList([1.0]), lambda s, x: x * sum(s.v), lambda s, i: s.v.append(2.0))
row(
    "user_list_for",
    lambda: collections.UserList([1.0]),
    lambda s, x: x * sum([1.0 * v for v in s.v]),
    lambda s, i: s.v.append(2.0),
)
row("user_list_slice", lambda: collections.UserList([1.0, 2.0]), lambda s, x: x * sum(s.v[1:]), lambda s, i: s.v.append(2.0))
row(
    "user_string",
    lambda: collections.UserString("a"),
    lambda s, x: x * len(s.v),
    lambda s, i: setattr(s.v, "data", "a" * (2 + i)),
)
row(
    "user_string_upper",
    lambda: collections.UserString("1"),
    lambda s, x: x * float(str(s.v)),
    lambda s, i: setattr(s.v, "data", str(2 + i)),
)
row("counter_total", lambda: collections.Counter("ab"), lambda s, x: x * s.v.total(), lambda s, i: s.v.update("abc"))
row(
    "counter_minus",
    lambda: collections.Counter("ab"),
    lambda s, x: x * len(s.v - collections.Counter("a")),
    lambda s, i: s.v.update("ca"),
)
row(
    "min_by_get",
    lambda: {"a": 1.0, "b": 2.0},
    lambda s, x: x * ord(min(s.v, key=s.v.get)),
    lambda s, i: s.v.update(b=[0.0, 3.0][i % 2]),
)
row(
    "sorted_items", lambda: {"b": 1.0, "a": 2.0}, lambda s, x: x * sorted(s.v.items())[0][1], lambda s, i: s.v.update(a=3.0 + i)
)
row("max_values", lambda: {"b": 1.0, "a": 2.0}, lambda s, x: x * max(s.v.values()), lambda s, i: s.v.update(a=3.0 + i))
row("any", lambda: [0, 0], lambda s, x: x * 2.0 if any(s.v) else x, lambda s, i: s.v.__setitem__(0, (i + 1) % 2))
row("filtered", lambda: [0, 1], lambda s, x: x * len(list(filter(None, s.v))), lambda s, i: s.v.append(i))
row("mapped", lambda: ["1", "2"], lambda s, x: x * sum(map(float, s.v)), lambda s, i: s.v.append(str(i)))
row(
    "zipped_apart",
    lambda: [[1.0, 2.0], [3.0, 4.0]],
    lambda s, x: x * list(zip(*s.v))[1][0],
    lambda s, i: s.v[0].__setitem__(1, 5.0 + i),
)
row("count_of", lambda: [1, 2], lambda s, x: x * operator.countOf(s.v, 1), lambda s, i: s.v.append(1))
row(
    "itemgetter_of_two",
    lambda: [1.0, 2.0],
    lambda s, x: x * operator.itemgetter(0, 1)(s.v)[1],
    lambda s, i: s.v.__setitem__(1, 3.0 + i),
)
row(
    "itemgetter_sorted",
    lambda: [[1.0, 5.0], [2.0, 3.0]],
    lambda s, x: x * sorted(s.v, key=operator.itemgetter(1))[0][0],
    lambda s, i: s.v[0].__setitem__(1, [1.0, 9.0][i % 2]),
)
row("reduced", lambda: [1.0, 2.0], lambda s, x: x * functools.reduce(operator.mul, s.v), lambda s, i: s.v.append(2.0 + i))
row(
    "identity",
    lambda: [[], []],
    lambda s, x: x * 2.0 if s.v[0] is s.v[1] else x,
    lambda s, i: s.v.__setitem__(0, s.v[1] if i % 2 == 0 else []),
)
row(
    "identity_by_id",
    lambda: [[], []],
    lambda s, x: x * 2.0 if id(s.v[0]) == id(s.v[1]) else x,
    lambda s, i: s.v.__setitem__(0, s.v[1] if i % 2 == 0 else []),
)
row("cache_clear", lambda: functools.cache(lambda: 1.0), lambda s, x: x * s.v(), lambda s, i: s.v.cache_clear())
row("cached_reads", lambda: [1.0], lambda s, x: x * functools.cache(lambda: s.v[0])(), lambda s, i: s.v.__setitem__(0, 2.0 + i))
row(
    "cache_info",
    lambda: functools.cache(lambda: 1.0),
    lambda s, x: x * (1 + s.v.cache_info().currsize),
    lambda s, i: s.v() if i % 2 == 0 else s.v.cache_clear(),
)
row(
    "fraction_equal",
    lambda: [fractions.Fraction(1, 2)],
    lambda s, x: x * 2.0 if s.v[0] == 0.5 else x,
    lambda s, i: s.v.__setitem__(0, fractions.Fraction(1, 2 + i % 2)),
)
row(
    "fraction_inside",
    lambda: fractions.Fraction(1, 2),
    lambda s, x: x * float(s.v + 1),
    lambda s, i: setattr(s.v, "_numerator", 3 + i),
)
row(
    "dataclass_equal",
    lambda: dataclasses.make_dataclass("P", ["k"])(1),
    lambda s, x: x * 2.0 if s.v == type(s.v)(2) else x,
    lambda s, i: setattr(s.v, "k", 2 + i % 2),
)
row(
    "dataclass_repr",
    lambda: dataclasses.make_dataclass("P", ["k"])(1),
    lambda s, x: x * len(repr(s.v)),
    lambda s, i: setattr(s.v, "k", 10**i * 10),
)
row(
    "weak_reference",
    lambda: [Plain(1.0)],
    lambda s, x: x * weakref.ref(s.v[0])().k,
    lambda s, i: s.v.__setitem__(0, Plain(2.0 + i)),
)
row(
    "weak_method",
    lambda: [Special(1.0)],
    lambda s, x: x * weakref.WeakMethod(s.v[0]._number)()(),
    lambda s, i: setattr(s.v[0], "k", 2.0 + i),
)
row("weak_proxy", lambda: [Plain(1.0)], lambda s, x: x * weakref.proxy(s.v[0]).k, lambda s, i: setattr(s.v[0], "k", 2.0 + i))
row(
    "module_vars",
    lambda: types.ModuleType("m"),
    lambda s, x: x * vars(s.v).get("k", 1.0),
    lambda s, i: setattr(s.v, "k", 2.0 + i),
)
row("module_dir", lambda: types.ModuleType("m"), lambda s, x: x * len(dir(s.v)), lambda s, i: setattr(s.v, f"k{i}", 2.0 + i))

# -- arrays
row("array_sum", lambda: np.ones(3), lambda s, x: x * s.v.sum(), lambda s, i: s.v.__setitem__(0, 2.0 + i))
row("array_norm", lambda: np.ones(3), lambda s, x: x * np.linalg.norm(s.v), lambda s, i: s.v.__setitem__(0, 2.0 + i))
row("array_item", lambda: np.ones(3), lambda s, x: x * s.v.item(0), lambda s, i: s.v.__setitem__(0, 2.0 + i))
row("array_flat", lambda: np.ones(3), lambda s, x: x * s.v.flat[0], lambda s, i: s.v.__setitem__(0, 2.0 + i))
row("array_zero_dim", lambda: np.array(1.0), lambda s, x: x * s.v, lambda s, i: s.v.fill(2.0 + i))
row("array_float", lambda: np.array(1.0), lambda s, x: x * float(s.v), lambda s, i: s.v.fill(2.0 + i))
row("array_bool", lambda: np.array(0.0), lambda s, x: x * 2.0 if s.v else x, lambda s, i: s.v.fill((i + 1) % 2))
row("array_unique", lambda: np.ones(3), lambda s, x: x * len(np.unique(s.v)), lambda s, i: s.v.__setitem__(0, i))
row("array_where", lambda: np.ones(3), lambda s, x: np.where(s.v > 1.5, x, 2.0 * x), lambda s, i: s.v.fill(1.0 + i % 2))
row("array_in", lambda: np.ones(3), lambda s, x: x * 2.0 if 2.0 in s.v else x, lambda s, i: s.v.fill(2.0 + i % 2))
row("array_iter", lambda: np.ones(3), lambda s, x: x * sum(v for v in s.v), lambda s, i: s.v.fill(2.0 + i))
row("array_nditer", lambda: np.ones(3), lambda s, x: x * sum(float(v) for v in np.nditer(s.v)), lambda s, i: s.v.fill(2.0 + i))
row(
    "array_ndenumerate",
    lambda: np.ones(3),
    lambda s, x: x * sum(v for _, v in np.ndenumerate(s.v)),
    lambda s, i: s.v.fill(2.0 + i),
)
row("array_bytes", lambda: np.ones(3), lambda s, x: x * s.v.tobytes()[6], lambda s, i: s.v.fill(2.0**i))
row("array_memory", lambda: np.ones(3), lambda s, x: x * memoryview(s.v)[0], lambda s, i: s.v.fill(2.0 + i))
row(
    "array_interface",
    lambda: np.ones(3),
    lambda s, x: x * s.v.shape[0] * s.v.strides[0],
    lambda s, i: setattr(s, "v", np.ones((3 + i, 2))[:, 0]),
)
row(
    "array_argsort",
    lambda: np.array([3.0, 1.0, 2.0]),
    lambda s, x: np.sum(x) * np.argsort(s.v)[0],
    lambda s, i: s.v.sort() if i % 2 == 0 else s.v.__setitem__(0, 9.0),
)
row(
    "array_index",
    lambda: np.array([0, 1]),
    lambda s, x: np.sum(np.atleast_1d(x)[s.v % np.size(x)]),
    lambda s, i: s.v.fill(i % 3),
)
row(
    "array_mask",
    lambda: np.array([True, False, True]),
    lambda s, x: np.sum((np.zeros(3) + x)[s.v]),
    lambda s, i: s.v.__setitem__(i % 3, not s.v[i % 3]),
)
row(
    "masked_array",
    lambda: np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    lambda s, x: x * float(s.v.sum()),
    lambda s, i: s.v.__setitem__(0, 2.0 + i),
)
row(
    "masked_array_mask",
    lambda: np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]),
    lambda s, x: x * float(s.v.sum()),
    lambda s, i: setattr(s.v, "mask", [i % 2, 1, 0]),
)
row(
    "record_array",
    lambda: np.zeros(2, [("k", "f8")]).view(np.recarray),
    lambda s, x: x + s.v.k[0],
    lambda s, i: s.v.k.__setitem__(0, 2.0 + i),
)
row("record", lambda: np.zeros(2, [("k", "f8")]), lambda s, x: x + s.v[0]["k"], lambda s, i: s.v["k"].__setitem__(0, 2.0 + i))
row(
    "subclass_of_arrays",
    lambda: np.ones(3).view(Ground),
    lambda s, x: x * float(s.v[0]),
    lambda s, i: s.v.__setitem__(0, 2.0 + i),
)
row("matrix", lambda: np.matrix([[1.0, 2.0]]), lambda s, x: x * s.v[0, 1], lambda s, i: s.v.__setitem__((0, 1), 2.0 + i))
row(
    "object_array_inside",
    lambda: np.array([[1.0], None], object),
    lambda s, x: x * s.v[0][0],
    lambda s, i: s.v[0].__setitem__(0, 2.0 + i),
)
row("arrays_in_a_list", lambda: [np.ones(3), np.ones(3)], lambda s, x: x * sum(s.v), lambda s, i: s.v[0].fill(2.0 + i))
row("stacked", lambda: [np.ones(3), np.ones(3)], lambda s, x: x * np.stack(s.v).sum(), lambda s, i: s.v.append(np.ones(3)))
row(
    "datetime",
    lambda: [np.datetime64("2000-01-01")],
    lambda s, x: x * s.v[0].astype(int),
    lambda s, i: s.v.__setitem__(0, np.datetime64("2000-01-02") + i),
)
row(
    "string_array",
    lambda: np.array(["a", "b"]),
    lambda s, x: x * len("".join(s.v)),
    lambda s, i: s.v.__setitem__(0, "" if i % 2 else "c"),
)
row("poly1d_value", lambda: np.poly1d([1.0, 2.0]), lambda s, x: x * s.v(2.0), lambda s, i: s.v.c.__setitem__(0, 2.0 + i))
row(
    "polynomial",
    lambda: np.polynomial.Polynomial([1.0, 2.0]),
    lambda s, x: s.v(x),
    lambda s, i: s.v.coef.__setitem__(0, 2.0 + i),
)
row(
    "sparse_matrix",
    lambda: scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0])),
    lambda s, x: s.v @ (np.ones(3) * x),
    lambda s, i: s.v.data.__setitem__(0, 5.0 + i),
)
row(
    "sparse_value",
    lambda: scipy.sparse.csr_array(np.diag([1.0, 2.0, 3.0])),
    lambda s, x: x * s.v.sum(),
    lambda s, i: s.v.data.__setitem__(0, 5.0 + i),
)
row(
    "interpolator",
    lambda: scipy.interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]),
    lambda s, x: x * float(s.v(1.5)),
    lambda s, i: s.v.c.__imul__(1.1),
)
row(
    "interpolator_of_x",
    lambda: scipy.interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]),
    lambda s, x: s.v(x),
    lambda s, i: s.v.c.__imul__(1.1),
)
row(
    "interp1d",
    lambda: scipy.interpolate.interp1d([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0]),
    lambda s, x: x * float(s.v(1.5)),
    lambda s, i: s.v.y.__imul__(1.1),
)
row("interp", lambda: np.arange(4.0), lambda s, x: np.interp(x, np.arange(4.0), s.v), lambda s, i: s.v.__imul__(1.1))
row(
    "tree_of_points",
    lambda: scipy.spatial.cKDTree(np.eye(3)),
    lambda s, x: x * s.v.query([1.0, 0.0, 0.0])[0],
    lambda s, i: setattr(s, "v", scipy.spatial.cKDTree(np.eye(3) + i)),
)
