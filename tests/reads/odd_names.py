# mypy: disable-error-code="no-untyped-def, no-untyped-call"
"""Odder things that a function can read beside its arguments: (the function, what changes between the calls).

Each is made anew for each way to call it, and `change` sets what it sets by the number of the change alone.
"""

from __future__ import annotations

import abc
import cmath
import dataclasses
import enum
import fractions
import math
import numbers
import operator
import types
import typing
from collections.abc import Callable
from math import exp, sin
from typing import Any

import numpy as np
import numpy as xp

CASES: dict[str, Callable[[], Any]] = {}
root = np.sqrt
limit = 2.0


def case(make: Callable[[], Any]) -> Callable[[], Any]:
    CASES[make.__name__.removesuffix("_is_read")] = make
    return make


def _set(name: str, value: Any) -> None:
    globals()[name] = value


# -- names that stand for what is a library's


@case
def rebound_function_is_read() -> Any:
    _set("exp", math.exp)
    return (lambda x: x * exp(0.5)), lambda i: _set("exp", [np.exp2, math.log, cmath.cosh, math.exp][i])


@case
def rebound_function_of_x_is_read() -> Any:
    _set("sin", np.sin)
    return (lambda x: sin(x)), lambda i: _set("sin", [np.cos, np.tanh, np.sin, np.exp][i])


@case
def rebound_module_is_read() -> Any:
    other = types.ModuleType("other")
    other.cos = np.exp  # type: ignore[attr-defined]
    _set("xp", np)
    return (lambda x: xp.cos(x)), lambda i: _set("xp", [other, np, other, np][i])


@case
def name_of_another_function_is_read() -> Any:
    _set("root", np.sqrt)
    return (lambda x: root(x) * 2.0), lambda i: _set("root", [np.log, np.sqrt, np.square, np.log][i])


@case
def builtin_that_is_hidden_is_read() -> Any:
    globals().pop("abs", None)

    def change(i):
        if i % 2:
            del globals()["abs"]
        else:
            _set("abs", np.square)

    return (lambda x: x * abs(-3.0)), change


@case
def builtin_of_x_that_is_hidden_is_read() -> Any:
    globals().pop("round", None)
    return (lambda x: x + len([1, 2])), lambda i: _set("len", lambda v: 5.0 + i) if i % 2 == 0 else globals().pop("len")


@case
def rebound_in_a_closure_is_read() -> Any:
    f = np.sin

    def g(x):
        return f(x)

    def change(i):
        nonlocal f
        f = [np.cos, np.exp, np.sin, np.tanh][i]

    return g, change


@case
def rebound_module_in_a_closure_is_read() -> Any:
    m = math

    def change(i):
        nonlocal m
        m = [cmath, math, np, math][i]

    return (lambda x: x * m.cos(0.5).real), change


@case
def rebound_attribute_is_read() -> Any:
    ops = types.SimpleNamespace(sin=np.sin)
    return (lambda x: ops.sin(x)), lambda i: setattr(ops, "sin", [np.cos, np.exp, np.sin, np.tanh][i])


@case
def rebound_class_attribute_is_read() -> Any:
    class Ops:
        sin = np.sin

    return (lambda x: Ops.sin(x)), lambda i: setattr(Ops, "sin", [np.cos, np.exp, np.sin, np.tanh][i])


@case
def rebound_in_a_dict_is_read() -> Any:
    ops = {"sin": np.sin}
    return (lambda x: ops["sin"](x)), lambda i: ops.update(sin=[np.cos, np.exp, np.sin, np.tanh][i])


@case
def rebound_in_a_module_is_read() -> Any:
    m = types.ModuleType("of_the_user")
    m.sin = np.sin  # type: ignore[attr-defined]
    return (lambda x: m.sin(x)), lambda i: setattr(m, "sin", [np.cos, np.exp, np.sin, np.tanh][i])


@case
def rebound_name_of_a_callee_is_read() -> Any:
    _set("root", np.sqrt)

    def helper(x):
        return root(x)

    return (lambda x: helper(x) + 1.0), lambda i: _set("root", [np.log, np.sqrt, np.square, np.log][i])


@case
def rebound_name_without_source_is_read() -> Any:
    names: dict[str, Any] = {"np": np, "exp": math.exp}
    exec("def f(x): return np.sin(x) * exp(0.5)", names)
    return names["f"], lambda i: names.update(exp=[np.exp2, math.log, math.cosh, math.exp][i])


@case
def builtin_without_source_is_read() -> Any:
    names: dict[str, Any] = {"np": np}
    exec("def f(x): return np.sin(x) * abs(-2.0)", names)
    return names["f"], lambda i: names.update(abs=lambda v: v * i)


@case
def rebound_class_is_read() -> Any:
    _set("limit", float)
    return (lambda x: x * limit("2.5")), lambda i: _set("limit", [len, float, fractions.Fraction, float][i])


@case
def rebound_random_module_is_read() -> Any:
    made = types.SimpleNamespace(e=math.e)
    names = types.SimpleNamespace(m=math)
    return (lambda x: x * names.m.e), lambda i: setattr(names, "m", made if i % 2 else math)


# -- classes


@case
def bases_is_read() -> Any:
    class A:
        k = 1.0

    class B:
        k = 2.0

    class C(A):
        pass

    def change(i):
        C.__bases__ = (B,) if i % 2 == 0 else (A,)

    return (lambda x: x * C.k), change


@case
def bases_of_an_object_is_read() -> Any:
    class A:
        def m(self):
            return 1.0

    class B:
        def m(self):
            return 2.0

    class C(A):
        pass

    c = C()

    def change(i):
        C.__bases__ = (B,) if i % 2 == 0 else (A,)

    return (lambda x: x * c.m()), change


@case
def bases_isinstance_is_read() -> Any:
    class A:
        pass

    class B:
        pass

    class C(A):
        pass

    c = C()

    def change(i):
        C.__bases__ = (B,) if i % 2 == 0 else (A,)

    return (lambda x: x * 2.0 if isinstance(c, B) else x), change


@case
def bases_of_operators_is_read() -> Any:
    class A:
        def __rmul__(self, x):
            return x

        __array_ufunc__ = None

    class B:
        def __rmul__(self, x):
            return x * 5.0

        __array_ufunc__ = None

    class C(A):
        pass

    c = C()

    def change(i):
        C.__bases__ = (B,) if i % 2 == 0 else (A,)

    return (lambda x: x * c), change


@case
def super_after_bases_is_read() -> Any:
    class A:
        def m(self):
            return 1.0

    class B:
        def m(self):
            return 2.0

    class C(A):
        def m(self):
            return super().m() + 1.0

    c = C()

    def change(i):
        C.__bases__ = (B,) if i % 2 == 0 else (A,)

    return (lambda x: x * c.m()), change


@case
def abc_register_is_read() -> Any:
    class A(abc.ABC):  # noqa: B024 others are registered
        pass

    class C:
        pass

    c = C()
    return (lambda x: x * 2.0 if isinstance(c, A) else x), lambda i: A.register(C) if i == 1 else None


@case
def abc_register_issubclass_is_read() -> Any:
    class A(abc.ABC):  # noqa: B024 others are registered
        pass

    class C:
        pass

    return (lambda x: x * 2.0 if issubclass(C, A) else x), lambda i: A.register(C) if i == 1 else None


@case
def abc_of_python_register_is_read() -> Any:
    class C:
        pass

    c = C()
    return (lambda x: x * 2.0 if isinstance(c, numbers.Number) else x), lambda i: numbers.Number.register(C) if i else None


@case
def subclass_hook_is_read() -> Any:
    s = [False]

    class A(abc.ABC):  # noqa: B024 others are registered
        @classmethod
        def __subclasshook__(cls, other):
            return s[0]

    return (lambda x: x * 2.0 if issubclass(int, A) else x), lambda i: (s.__setitem__(0, i % 2 == 0), A._abc_caches_clear())


@case
def instancecheck_is_read() -> Any:
    s = [False]

    class M(type):
        def __instancecheck__(cls, x):
            return s[0]

    class A(metaclass=M):
        pass

    return (lambda x: x * 2.0 if isinstance(3, A) else x), lambda i: s.__setitem__(0, i % 2 == 0)


@case
def protocol_is_read() -> Any:
    @typing.runtime_checkable
    class Closes(typing.Protocol):
        def close(self): ...

    a = types.SimpleNamespace()
    return (
        lambda x: x * 2.0 if isinstance(a, Closes) else x
    ), lambda i: setattr(a, "close", len) if i % 2 == 0 else delattr(a, "close")


@case
def callable_by_class_is_read() -> Any:
    class A:
        pass

    a = A()

    def change(i):
        if i % 2 == 0:
            A.__call__ = lambda self: 1.0
        else:
            del A.__call__

    return (lambda x: x * 2.0 if callable(a) else x), change


@case
def methodcaller_is_read() -> Any:
    class A:
        def m(self):
            return 1.0

    class B(A):
        pass

    b, call = B(), operator.methodcaller("m")

    def change(i):
        if i % 2 == 0:
            B.m = lambda self: 3.0 + i
        else:
            del B.m

    return (lambda x: x * call(b)), change


@case
def methodcaller_of_attributes_is_read() -> Any:
    class A:
        k = 1.0

        def m(self, v):
            return self.k * v

    a, call = A(), operator.methodcaller("m", 2.0)
    return (lambda x: x * call(a)), lambda i: setattr(A if i % 2 else a, "k", 2.0 + i)


@case
def attrgetter_of_a_class_is_read() -> Any:
    class A:
        k = 1.0

    class B(A):
        pass

    b, get = B(), operator.attrgetter("k")
    return (lambda x: x * get(b)), lambda i: setattr([B, A, b, B][i], "k", 2.0 + i)


@case
def attrgetter_of_a_property_is_read() -> Any:
    s = [1.0]

    class A:
        @property
        def k(self):
            return s[0]

    a, get = A(), operator.attrgetter("k")
    return (lambda x: x * get(a)), lambda i: s.__setitem__(0, 2.0 + i)


@case
def sorted_by_attrgetter_is_read() -> Any:
    class A:
        k = 1.0

        def __init__(self, v):
            self.v = v

    a, b = A(1.0), A(2.0)
    b.k = 2.0
    get = operator.attrgetter("k")
    return (lambda x: x * sorted([b, a], key=get)[0].v), lambda i: setattr(A, "k", 3.0 if i % 2 == 0 else 1.0)


@case
def map_of_methodcaller_is_read() -> Any:
    class A:
        k = 1.0

        def m(self):
            return self.k

    made = [A(), A()]
    return (lambda x: x * sum(map(operator.methodcaller("m"), made))), lambda i: setattr(A, "k", 2.0 + i)


@case
def init_subclass_is_read() -> Any:
    made: list[type] = []

    class A:
        def __init_subclass__(cls, **kwargs):
            made.append(cls)

    return (lambda x: x * (1.0 + len(made))), lambda i: type(f"B{i}", (A,), {})


@case
def subclasses_is_read() -> Any:
    class A:
        pass

    held: list[type] = []
    return (lambda x: x * (1.0 + len(A.__subclasses__()))), lambda i: held.append(type(f"B{i}", (A,), {}))


@case
def set_name_is_read() -> Any:
    class Field:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, x, kind=None):
            return x.__dict__[self.name]

    class A:
        k = Field()

    a = A()
    a._k = 1.0
    return (lambda x: x * a.k), lambda i: setattr(a, "_k", 2.0 + i)


@case
def metaclass_call_is_read() -> Any:
    class Single(type):
        held: dict[type, Any] = {}

        def __call__(cls, *args):
            if cls not in Single.held:
                Single.held[cls] = super().__call__(*args)
            return Single.held[cls]

    class A(metaclass=Single):
        k = 1.0

    Single.held = {}
    return (lambda x: x * A().k), lambda i: setattr(A() if i % 2 else A, "k", 2.0 + i)


@case
def metaclass_getattr_is_read() -> Any:
    s = {"k": 1.0}

    class M(type):
        def __getattr__(cls, name):
            return s[name]

    class A(metaclass=M):
        pass

    return (lambda x: x * A.k), lambda i: s.update(k=2.0 + i)


@case
def annotations_is_read() -> Any:
    class A:
        k: int

    return (lambda x: x * len(A.__annotations__)), lambda i: A.__annotations__.update({f"b{i}": int})


@case
def docstring_is_read() -> Any:
    class A:
        """A"""

    return (lambda x: x * len(A.__doc__)), lambda i: setattr(A, "__doc__", "A" * (i + 2))


@case
def mro_entry_is_read() -> Any:
    class A:
        k = 1.0

    class B:
        k = 5.0

    class C(A, B):
        pass

    def change(i):
        if i % 2 == 0:
            del A.k
        else:
            A.k = 2.0

    return (lambda x: x * C().k), change


@case
def dict_of_a_class_is_read() -> Any:
    class A:
        k = 1.0

    return (lambda x: x * sum(v for k, v in vars(A).items() if k[:1] == "k")), lambda i: setattr(A, f"k{i}", 1.0)


@case
def slots_dataclass_is_read() -> Any:
    @dataclasses.dataclass(slots=True)
    class P:
        k: float = 1.0

    p = P()
    return (lambda x: x * p.k), lambda i: setattr(p, "k", 2.0 + i)


@case
def slots_dataclass_compared_is_read() -> Any:
    @dataclasses.dataclass(slots=True, order=True)
    class P:
        k: float = 1.0

    p, q = P(), P(2.5)
    return (lambda x: x * 2.0 if p < q else x), lambda i: setattr(p, "k", 2.0 + i)


@case
def dataclass_fields_is_read() -> Any:
    @dataclasses.dataclass
    class P:
        k: float = 1.0
        j: float = 2.0

    p = P()
    return (lambda x: x * sum(getattr(p, f.name) for f in dataclasses.fields(p))), lambda i: setattr(p, "j", 3.0 + i)


@case
def replace_of_a_dataclass_is_read() -> Any:
    @dataclasses.dataclass
    class P:
        k: float = 1.0
        j: float = 2.0

    p = P()
    return (lambda x: x * dataclasses.replace(p, k=3.0).j), lambda i: setattr(p, "j", 3.0 + i)


@case
def named_tuple_replace_is_read() -> Any:
    class P(typing.NamedTuple):
        k: float = 1.0
        j: float = 2.0

    h = [P()]
    return (lambda x: x * h[0]._replace(k=2.0).j), lambda i: h.__setitem__(0, h[0]._replace(j=3.0 + i))


@case
def property_with_setter_is_read() -> Any:
    class A:
        _k = 1.0

        @property
        def k(self):
            return self._k

        @k.setter
        def k(self, v):
            self._k = 2.0 * v

    a = A()

    def f(x):
        a.k = a.k + 1.0
        return x * a.k

    return f, lambda i: setattr(a, "k", 1.0 + i)


@case
def called_object_is_read() -> Any:
    class A:
        n = 0

        def __call__(self, x):
            self.n += 1
            return x * self.n

    a = A()
    return (lambda x: a(x)), lambda i: setattr(a, "n", 10 * i)


@case
def called_class_swap_is_read() -> Any:
    class A:
        def __call__(self, x):
            return x

    class B:
        def __call__(self, x):
            return x * 2.0

    a = A()
    return (lambda x: a(x)), lambda i: setattr(a, "__class__", B if i % 2 == 0 else A)


@case
def flags_is_read() -> Any:
    class F(enum.Flag):
        A = 1
        B = 2
        C = 4

    h = [F.A]
    return (lambda x: x * 2.0 if F.B in h[0] else x * h[0].value), lambda i: h.__setitem__(0, h[0] | [F.B, F.C, F.A, F.B][i])


@case
def enum_member_value_is_read() -> Any:
    class E(enum.Enum):
        A = 1.0
        B = 2.0

    E.A.rate = 1.0
    return (lambda x: x * E.A.rate), lambda i: setattr(E.A, "rate", 2.0 + i)
