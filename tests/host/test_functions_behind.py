"""What a function may call is found behind whatever stands in a class, so that it begins with arrays that can be written.

Each case hands an array of the module's to an object that is called, which might write it: nothing is started again there.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, vmap

X = np.arange(6.0).reshape(3, 2) + 1.0
P = np.array([1.0, 2.0])


class Holder:
    def __init__(self, w: Any) -> None:
        self.w = w

    def __call__(self, x: Any) -> Any:
        return x @ self.w


def of_classmethod() -> Callable[[Any], Any]:
    class Model(Holder):
        @classmethod
        def make(cls, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return cls(w)

    return Model.make


def of_staticmethod() -> Callable[[Any], Any]:
    class Model:
        @staticmethod
        def make(p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    return lambda p: Model.make(p)


def of_inherited_classmethod() -> Callable[[Any], Any]:
    class Base(Holder):
        @classmethod
        def make(cls, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return cls(w)

    class Model(Base):
        pass

    return lambda p: Model.make(p)


def of_inherited_method() -> Callable[[Any], Any]:
    class Base:
        def make(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    class Model(Base):
        pass

    return lambda p: Model().make(p)


def of_property() -> Callable[[Any], Any]:
    class Model(Holder):
        @property
        def model(self) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = self.w
            return Holder(w)

    return lambda p: Model(p).model


def of_cached_property() -> Callable[[Any], Any]:
    class Model(Holder):
        @functools.cached_property
        def model(self) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = self.w
            return Holder(w)

    return lambda p: Model(p).model


def of_partialmethod() -> Callable[[Any], Any]:
    def make(self: Any, scale: float) -> Any:
        w = np.zeros((2, 2))
        w[0, 0], w[1, 1] = scale * self.w
        return Holder(w)

    class Model(Holder):
        model = functools.partialmethod(make, 1.0)

    del make
    return lambda p: Model(p).model()


def of_singledispatchmethod() -> Callable[[Any], Any]:
    class Model(Holder):
        @functools.singledispatchmethod
        def model(self, scale: Any) -> Any:
            return None

        @model.register
        def _(self, scale: float) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = scale * self.w
            return Holder(w)

    return lambda p: Model(p).model(1.0)


def of_singledispatch() -> Callable[[Any], Any]:
    @functools.singledispatch
    def make(scale: Any, p: Any) -> Any:
        return None

    @make.register
    def _(scale: float, p: Any) -> Any:
        w = np.zeros((2, 2))
        w[0, 0], w[1, 1] = scale * p
        return Holder(w)

    return lambda p: make(1.0, p)


def of_contextmanager() -> Callable[[Any], Any]:
    @contextlib.contextmanager
    def made(p: Any) -> Iterator[Any]:
        w = np.zeros((2, 2))
        w[0, 0], w[1, 1] = p
        yield Holder(w)

    def make(p: Any) -> Any:
        with made(p) as model:
            return model

    return make


def of_metaclass() -> Callable[[Any], Any]:
    class Meta(type):
        def __call__(cls, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return super().__call__(w)

    class Model(Holder, metaclass=Meta):
        pass

    return lambda p: Model(p)


def of_nested_class() -> Callable[[Any], Any]:
    class Outer:
        class Model(Holder):
            def __init__(self, p: Any) -> None:
                self.w = np.zeros((2, 2))
                self.w[0, 0], self.w[1, 1] = p

    return lambda p: Outer.Model(p)


def of_new() -> Callable[[Any], Any]:
    class Model(Holder):
        def __new__(cls, p: Any) -> Any:
            model = super().__new__(cls)
            model.made = np.zeros((2, 2))
            model.made[0, 0], model.made[1, 1] = p
            return model

        def __init__(self, p: Any) -> None:
            self.w = self.made

    return lambda p: Model(p)


def of_init_subclass() -> Callable[[Any], Any]:
    class Base:
        def __init_subclass__(cls, p: Any = None) -> None:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            cls.model = Holder(w)

    def make(p: Any) -> Any:
        class Model(Base, p=p):
            pass

        return Model.model

    return make


def of_default_factory() -> Callable[[Any], Any]:
    @dataclasses.dataclass
    class Model:
        w: Any = dataclasses.field(default_factory=lambda: np.zeros((2, 2)))

        @classmethod
        def make(cls, p: Any) -> Any:
            model = cls()
            model.w[0, 0], model.w[1, 1] = p
            return model

        def __call__(self, x: Any) -> Any:
            return x @ self.w

    return lambda p: Model.make(p)


def of_generator() -> Callable[[Any], Any]:
    class Model(Holder):
        @classmethod
        def all(cls, p: Any) -> Iterator[Any]:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            yield cls(w)

    return lambda p: [*Model.all(p)][0]


def of_descriptor() -> Callable[[Any], Any]:
    class Made:
        def __get__(self, owner: Any, kind: Any = None) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = owner.w
            return Holder(w)

    class Model(Holder):
        model = Made()

    return lambda p: Model(p).model


def of_object_in_class() -> Callable[[Any], Any]:
    class Maker:
        def __call__(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    class Model:
        maker = Maker()

    return lambda p: Model.maker(p)


def of_operator() -> Callable[[Any], Any]:
    class Maker:
        def __matmul__(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    maker = Maker()
    return lambda p: maker @ p


def of_methods_of_methods() -> Callable[[Any], Any]:
    class Model:
        def first(self, p: Any) -> Any:
            return self.second(p)

        def second(self, p: Any) -> Any:
            return self.third(p)

        def third(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    model = Model()
    return lambda p: model.first(p)


def of_layers() -> Callable[[Any], Any]:
    class Layer:
        def forward(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    class Model:
        def __init__(self) -> None:
            self.layers = [Layer()]

        def __call__(self, p: Any) -> Any:
            return [layer.forward(p) for layer in self.layers][0]

    model = Model()
    return lambda p: model(p)


def of_abstract_property() -> Callable[[Any], Any]:
    class Base(abc.ABC):
        p: Any = None

        @abc.abstractmethod
        def make(self, p: Any) -> Any: ...

        @property
        def model(self) -> Any:
            return self.make(self.p)

    class Model(Base):
        def make(self, p: Any) -> Any:
            w = np.zeros((2, 2))
            w[0, 0], w[1, 1] = p
            return Holder(w)

    def make(p: Any) -> Any:
        model = Model()
        model.p = p
        return model.model

    return make


CASES = [f for name, f in globals().items() if name.startswith("of_")]
ROWS = np.stack([P, P + 1.0])
WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(P),
    "jvp": lambda f: jvp(f, (P,), (np.ones(2),))[1],
    "vmap": lambda f: vmap(f)(ROWS),
    "jit": lambda f: jit(f)(P),
    "third": lambda f: [j(P) for j in [jit(grad(f))] for _ in range(3)][2],
}
SQUARES = np.sum(X**2, axis=0)  # the loss is the sum of SQUARES * p**2
EXPECTED = {"grad": 2.0 * SQUARES * P, "jvp": 2.0 * SQUARES @ P, "vmap": ROWS**2 @ SQUARES, "jit": SQUARES @ P**2}
EXPECTED["third"] = EXPECTED["grad"]


@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES, ids=lambda f: f.__name__[3:])
def test_right_in_the_first_call(case: Callable[[], Any], way: str) -> None:
    make = case()
    np.testing.assert_allclose(WAYS[way](lambda p: np.sum(make(p)(X) ** 2)), EXPECTED[way], rtol=1e-12)
