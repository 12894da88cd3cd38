"""What stands for a method may be exchanged, whatever way a jitted function has come to it: jit follows."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad as fc


def _classes() -> types.SimpleNamespace:
    """Classes and a function of this call, which may be changed."""

    class Base:
        k = 1.0
        w: float

        def base(self, x: Any) -> Any:
            return 2.0 * x

        @property
        def p(self) -> float:
            return 1.0

    class A(Base):
        def __init__(self) -> None:
            self.w = 1.0

        def m(self, x: Any) -> Any:
            return x * self.w * self.k + self.p + self.base(x)

        def __call__(self, x: Any) -> Any:
            return self.m(x)

    class B(Base):
        k = 5.0

        @property
        def p(self) -> float:
            return 3.0

        def m(self, x: Any) -> Any:
            return x * 100.0

        def __call__(self, x: Any) -> Any:
            return self.m(x) * 7.0

    def g(x: Any, k: float = 2.0) -> Any:
        return x * k

    def h(x: Any, k: float = 9.0) -> Any:
        return x * k + 1.0

    return types.SimpleNamespace(**locals())


def _other(self: Any, x: Any) -> Any:
    return x * 1000.0


def _of_static(jit: Any) -> Any:
    f = lambda a, x: a.m(x)
    return fc.jit(f, static_argnums=0) if jit is fc.jit else f


CHANGES: dict[str, Callable[[Any, Any], Any]] = {
    "the class of the object": lambda n, a: setattr(a, "__class__", n.B),
    "a method of the class": lambda n, a: setattr(n.A, "m", _other),
    "a method of the object": lambda n, a: setattr(a, "m", types.MethodType(_other, a)),
    "the code of a method": lambda n, a: setattr(n.A.m, "__code__", n.B.m.__code__),
    "a method of the base": lambda n, a: setattr(n.Base, "base", _other),
    "a method that hides that of the base": lambda n, a: setattr(n.A, "base", _other),
    "the code of the base's method": lambda n, a: setattr(n.Base.base, "__code__", _other.__code__),
    "a property": lambda n, a: setattr(n.Base, "p", property(lambda self: 50.0)),
    "what the object calls": lambda n, a: setattr(n.A, "__call__", _other),
    "the bases": lambda n, a: setattr(n.A, "__bases__", (n.B,)),
    "__dict__": lambda n, a: setattr(a, "__dict__", {"w": 42.0}),
    "an attribute of the class": lambda n, a: setattr(n.A, "k", 66.0),
    "__getattribute__": lambda n, a: setattr(n.A, "__getattribute__", lambda self, k: object.__getattribute__(n.B(), k)),
    "defaults": lambda n, a: setattr(n.g, "__defaults__", (8.0,)),
    "code": lambda n, a: setattr(n.g, "__code__", n.h.__code__),
}
WAYS: dict[str, Callable[[Any, Any, Any], Any]] = {  # jit or nothing, the classes, the object
    "method": lambda jit, n, a: jit(a.m),
    "method in a lambda": lambda jit, n, a: jit(lambda x: a.m(x)),
    "object": lambda jit, n, a: jit(a),
    "object in a lambda": lambda jit, n, a: jit(lambda x: a(x)),
    "captured method": lambda jit, n, a: (lambda m: jit(lambda x: m(x)))(a.m),
    "partial": lambda jit, n, a: jit(functools.partial(a.m)),
    "captured partial": lambda jit, n, a: (lambda m: jit(lambda x: m(x)))(functools.partial(a.m)),
    "of the class": lambda jit, n, a: jit(functools.partial(n.A.m, a)),
    "in a dict": lambda jit, n, a: (lambda d: jit(lambda x: d["m"](x) + d["g"](x)))({"m": a.m, "g": n.g}),
    "map": lambda jit, n, a: jit(lambda x: sum(map(a.m, [x]))),
    "grad": lambda jit, n, a: jit(fc.grad(a.m)),
    "captured grad": lambda jit, n, a: (lambda m: jit(lambda x: m(x)))(fc.grad(a.m)),
    "jvp": lambda jit, n, a: jit(lambda x: fc.jvp(a.m, (x,), (1.0,))[1]),
    "vmap": lambda jit, n, a: (lambda m: jit(lambda x: m(x * np.ones(2))[0]))(fc.vmap(a.m)),
    "checkpoint": lambda jit, n, a: (lambda m: jit(lambda x: m(x) + 1.0))(fc.checkpoint(a.m)),
    "jit": lambda jit, n, a: (lambda m: jit(lambda x: m(x) + 1.0))(jit(a.m)),
    "static": lambda jit, n, a: functools.partial(_of_static(jit), a),
    "function": lambda jit, n, a: jit(n.g),
    "captured function": lambda jit, n, a: jit(lambda x: n.g(x)),
    "partial of a function": lambda jit, n, a: jit(functools.partial(n.g)),
    "jitted function": lambda jit, n, a: (lambda g: jit(lambda x: g(x) + 1.0))(jit(n.g)),
    "gradient of a function": lambda jit, n, a: (lambda g: jit(lambda x: g(x)))(fc.grad(n.g)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_what_is_called_then_is_what_plain_python_calls(way: str, change: str) -> None:
    def found(jit: Any) -> list[Any]:
        n = _classes()
        a = n.A()
        f = WAYS[way](jit, n, a)
        values: list[Any] = [float(f(x)) for x in np.arange(1.0, 5.0)]
        CHANGES[change](n, a)
        for x in np.arange(1.0, 5.0):
            try:
                values.append(float(f(x)))
            except AttributeError as error:  # without `w`
                values.append(str(error))
        return values

    assert found(fc.jit) == found(lambda f: f)


def test_the_class_is_exchanged_of_an_object_whose_method_is_decorated() -> None:
    class A:
        k = 2.0

        @fc.jit
        def m(self, x: Any) -> Any:
            return self.k * x

    class B(A):
        k = 5.0

    a = A()
    assert [float(a.m(1.0)) for _ in range(3)] == [2.0] * 3
    a.__class__ = B
    assert [float(a.m(1.0)) for _ in range(3)] == [5.0] * 3
