"""Transforms as decorators of methods: ordinary classes, dataclasses, class and static methods, properties, inheritance."""

import dataclasses
import functools
import gc
import inspect
import pickle
import threading
import warnings
import weakref

import numpy as np
import pytest

import funcad as fc

X = np.array([1.0, 2.0, 3.0])


class Model:
    """An ordinary class, whose methods are decorated in every way."""

    count = 0

    def __init__(self, w):
        self.w = w
        self.steps = 0

    @fc.jit
    def predict(self, x):
        """Says what it does."""
        return np.sin(x) * self.w

    @fc.grad
    def slope(self, x):
        return np.sum(x**2) * self.w

    @fc.value_and_grad
    def both(self, x, scale=1.0):
        return np.sum(x**2) * self.w * scale

    @functools.partial(fc.grad, argnums=2)
    def second(self, x, y):
        return np.sum(x * y**2) * self.w

    @functools.partial(fc.grad, argnames="y")
    def named(self, x, y):
        return np.sum(x * y**2) * self.w

    @fc.vmap
    def each(self, x, y):
        return x * y * self.w

    @functools.partial(fc.vmap, in_axes=(None, 0, None))
    def each_x(self, x, y):
        return x @ y * self.w

    @fc.jacfwd
    def forward(self, x):
        return x**2 * self.w

    @fc.jacrev
    def reverse(self, x):
        return x**2 * self.w

    @fc.hessian
    def curvature(self, x):
        return np.sum(x**3) * self.w

    @fc.checkpoint
    def again(self, x):
        return np.sin(x) * self.w

    @fc.jit
    @fc.grad
    def jitted_slope(self, x):
        return np.sum(x**2) * self.w

    @fc.grad
    @fc.jit
    def slope_of_jitted(self, x):
        return np.sum(x**2) * self.w

    @fc.vmap
    @fc.grad
    def slopes(self, x):
        return x**2 * self.w

    @fc.jit
    @fc.vmap
    def jitted_each(self, x):
        return x**2 * self.w

    @fc.jit
    def advance(self, x):
        self.steps += 1
        self.last = x * self.steps
        return x / self.steps

    @functools.partial(fc.jit, static_argnames="n")
    def power(self, x, n):
        return x**n * self.w if n > 1 else x

    @functools.partial(fc.jit, donate_argnums=1)
    def taken(self, x):
        return x * self.w

    @classmethod
    @fc.jit
    def of_class(cls, x):
        return x * (cls.count + 1.0)

    @fc.jit
    @classmethod
    def jit_of_class(cls, x):
        return x * (cls.count + 1.0)

    @classmethod
    @fc.grad
    def class_slope(cls, x):
        return x**2 * (cls.count + 1.0)

    @classmethod
    @functools.partial(fc.value_and_grad, argnums=2)
    def class_both(cls, x, y):
        return x * y**2 * (cls.count + 1.0)

    @classmethod
    @functools.partial(fc.vmap, in_axes=(None, 0, None))
    def class_each(cls, x, y):
        return x @ y * (cls.count + 1.0)

    @classmethod
    @fc.jit
    @fc.grad
    def class_jitted_slope(cls, x):
        return x**2 * (cls.count + 1.0)

    @classmethod
    @fc.vmap
    @fc.grad
    def class_slopes(cls, x):
        return x**2 * (cls.count + 1.0)

    @fc.hessian
    @classmethod
    def class_curvature(cls, x):
        return np.sum(x**3) * (cls.count + 1.0)

    @staticmethod
    @fc.jit
    def free(x):
        return x * 2.0

    @fc.jit
    @staticmethod
    def free_too(x):
        return x * 2.0

    @fc.grad
    @staticmethod
    def free_slope(x):
        return x**2

    @property
    @fc.jit
    def norm(self):
        return np.sqrt(np.sum(np.asarray(self.w) ** 2))

    @fc.jit
    @property
    def norm_too(self):
        return np.sqrt(np.sum(np.asarray(self.w) ** 2))

    @fc.jit
    def __call__(self, x):
        return x + self.w


class Deeper(Model):
    count = 4

    @fc.jit
    def predict(self, x):
        return super().predict(x) + 1.0

    @fc.grad
    def slope(self, x):
        return np.sum(x) * np.sum(super().slope(x))


CASES = {
    "predict": ((X,), lambda m: np.sin(X) * m.w),
    "slope": ((X,), lambda m: 2 * X * m.w),
    "both": ((X,), lambda m: (np.sum(X**2) * m.w, 2 * X * m.w)),
    "second": ((X, X), lambda m: 2 * X * X * m.w),
    "named": ((X, X), lambda m: 2 * X * X * m.w),
    "each": ((X, X), lambda m: X * X * m.w),
    "each_x": ((np.ones((2, 3)), X), lambda m: np.array([6.0, 6.0]) * m.w),
    "forward": ((X,), lambda m: np.diag(2 * X) * m.w),
    "reverse": ((X,), lambda m: np.diag(2 * X) * m.w),
    "curvature": ((X,), lambda m: np.diag(6 * X) * m.w),
    "again": ((X,), lambda m: np.sin(X) * m.w),
    "jitted_slope": ((X,), lambda m: 2 * X * m.w),
    "slope_of_jitted": ((X,), lambda m: 2 * X * m.w),
    "slopes": ((X,), lambda m: 2 * X * m.w),
    "jitted_each": ((X,), lambda m: X**2 * m.w),
    "__call__": ((X,), lambda m: X + m.w),
    "of_class": ((X,), lambda m: X * (m.count + 1.0)),
    "jit_of_class": ((X,), lambda m: X * (m.count + 1.0)),
    "class_slope": ((3.0,), lambda m: 6.0 * (m.count + 1.0)),
    "class_both": ((3.0, 2.0), lambda m: (12.0 * (m.count + 1.0), 12.0 * (m.count + 1.0))),
    "class_each": ((np.ones((2, 3)), X), lambda m: np.array([6.0, 6.0]) * (m.count + 1.0)),
    "class_jitted_slope": ((3.0,), lambda m: 6.0 * (m.count + 1.0)),
    "class_slopes": ((X,), lambda m: 2 * X * (m.count + 1.0)),
    "class_curvature": ((X,), lambda m: np.diag(6 * X) * (m.count + 1.0)),
    "free": ((X,), lambda m: X * 2.0),
    "free_too": ((X,), lambda m: X * 2.0),
    "free_slope": ((3.0,), lambda m: 6.0),
}


@pytest.mark.parametrize("name", CASES)
def test_each_transform_as_a_decorator(name):
    args, expected = CASES[name]
    model = Model(2.0)
    for w in [2.0, 2.0, 2.0, 5.0, 7.0, 9.0]:  # observed, traced, called, and traced again where self has changed
        model.w = w
        for found in [getattr(model, name)(*args), getattr(Model(w), name)(*args)]:
            for one, other in zip(fc.tree.leaves(found), fc.tree.leaves(expected(model)), strict=True):
                np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("name", [name for name in CASES if "class" not in name and "free" not in name])
def test_called_through_the_class(name):
    args, expected = CASES[name]
    model = Model(3.0)
    for _ in range(3):
        found = getattr(Model, name)(model, *args)
        for one, other in zip(fc.tree.leaves(found), fc.tree.leaves(expected(model)), strict=True):
            np.testing.assert_allclose(one, other)


def test_inheritance_and_super():
    deeper = Deeper(2.0)
    for _ in range(3):
        np.testing.assert_allclose(deeper.predict(X), np.sin(X) * 2.0 + 1.0)
        np.testing.assert_allclose(Model.predict(deeper, X), np.sin(X) * 2.0)
        np.testing.assert_allclose(Deeper.of_class(X), X * 5.0)
        np.testing.assert_allclose(Model.of_class(X), X)
    deeper.w = 3.0
    np.testing.assert_allclose(deeper.predict(X), np.sin(X) * 3.0 + 1.0)
    np.testing.assert_allclose(fc.jacrev(deeper.predict)(X), np.diag(np.cos(X) * 3.0))
    np.testing.assert_allclose(deeper.slope(X), np.sum(2 * X * 3.0) + np.sum(X) * 6.0)


def test_what_a_method_stores_is_stored():
    model = Model(1.0)
    for i in range(1, 6):
        np.testing.assert_allclose(model.advance(X), X / i)
        assert model.steps == i
        np.testing.assert_allclose(model.last, X * i)


def test_one_program_for_each_instance_which_dies():
    models = [Model(float(i)) for i in range(4)]
    Model.predict.clear_cache()
    for _ in range(3):
        for model in models:
            model.predict(X)
    assert Model.predict.cache_info().currsize == 4
    dead = [weakref.ref(model) for model in models]
    del models, model
    gc.collect()
    assert [ref() for ref in dead] == [None] * 4


def test_classes_with_an_equality_of_their_own():
    class Equal:
        def __init__(self, w):
            self.w = w

        def __eq__(self, other):
            return True

        @fc.jit
        def times(self, x):
            return self.w * x

        @fc.grad
        def slope(self, x):
            return self.w * x**2

    one, two = Equal(1.0), Equal(2.0)
    for _ in range(4):
        assert (one.times(3.0), two.times(3.0), one.slope(3.0), two.slope(3.0)) == (3.0, 6.0, 6.0, 12.0)


def test_slots_without_weak_references():
    class Slotted:
        __slots__ = ("w",)

        def __init__(self, w):
            self.w = w

        @fc.jit
        def times(self, x):
            return self.w * x

    slotted = Slotted(2.0)
    for w in [2.0, 2.0, 2.0, 3.0, 4.0, 5.0]:
        slotted.w = w
        assert slotted.times(3.0) == 3.0 * w


@dataclasses.dataclass
class Line:
    slope: np.ndarray
    offset: float = 0.0
    calls: int = 0

    @fc.jit
    def at(self, x):
        return self.slope * x + self.offset

    @fc.grad
    def derivative(self, x):
        return np.sum(self.slope * x**2)

    @functools.partial(fc.grad, argnums=0)
    def of_parameters(self, x):
        return np.sum(self.slope * x)

    @fc.jit
    def counted(self, x):
        self.calls += 1
        return self.slope * x * self.calls

    @fc.vmap
    def each(self, x):
        return np.sum(self.slope) * x


def test_dataclasses_are_arguments():
    Line.at.clear_cache()
    for i in range(5):  # another instance of the same shapes runs the same program
        line = Line(X * i, float(i))
        np.testing.assert_allclose(line.at(2.0), X * i * 2.0 + i)
        np.testing.assert_allclose(Line.at(line, 2.0), X * i * 2.0 + i)
        np.testing.assert_allclose(line.derivative(X), 2 * X * X * i)
        np.testing.assert_allclose(Line.derivative(line, X), 2 * X * X * i)
        np.testing.assert_allclose(line.each(X), np.sum(X * i) * X)
    assert Line.at.cache_info().currsize == 1
    found = Line(X, 1.0).of_parameters
    with pytest.raises(fc.errors.NonDifferentiableInputError, match="calls"):
        found(2.0)  # with respect to all of self, of which `calls` is an int


def test_dataclasses_in_which_a_method_stores():
    line = Line(X)
    for i in range(1, 5):
        np.testing.assert_allclose(line.counted(1.0), X * i)
        assert line.calls == i


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: float

    @functools.partial(fc.grad, argnums=0)
    def of_self(self, x):
        return self.w**2 * x

    @functools.partial(fc.grad, argnums=(0, 1))
    def of_two(self, x):
        return self.w**2 * x


def test_a_gradient_with_respect_to_self():
    assert Frozen(3.0).of_self(2.0) == Frozen(12.0)
    assert Frozen(3.0).of_two(2.0) == (Frozen(12.0), 9.0)


def test_self_of_an_ordinary_class_has_no_gradient():
    class Plain:
        @functools.partial(fc.grad, argnums=0)
        def f(self, x):
            return x

    with pytest.raises(TypeError, match="Plain"):
        Plain().f(1.0)


def test_properties():
    model = Model(X)
    for _ in range(3):
        assert model.norm == model.norm_too == np.sqrt(14.0)
    model.w = 2 * X
    assert model.norm == model.norm_too == np.sqrt(56.0)


def test_static_and_donated_arguments_count_self():
    model = Model(2.0)
    for n in (1, 2, 3, 2):
        np.testing.assert_allclose(model.power(X, n), X**n * 2.0 if n > 1 else X)
        np.testing.assert_allclose(model.power(x=X, n=n), X**n * 2.0 if n > 1 else X)
    np.testing.assert_allclose(model.taken(X.copy()), X * 2.0)


def test_what_a_class_holds_that_is_no_function_stays_unbound():
    class Holder:
        sine_slope = fc.grad(np.sin)
        jitted_partial = fc.jit(functools.partial(np.multiply, 2.0))
        partial_slope = fc.grad(functools.partial(np.multiply, 2.0))
        of_another = fc.grad(Model(2.0).__call__)
        slope_of_jitted = fc.grad(fc.jit(np.sin))

    class Plain:
        partial = functools.partial(np.multiply, 2.0)

    assert Holder().sine_slope(0.0) == Holder.sine_slope(0.0) == Holder().slope_of_jitted(0.0) == 1.0
    assert Holder().of_another(3.0) == Holder.of_another(3.0) == 1.0
    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        assert Plain().partial(3.0) == 6.0
    with warnings.catch_warnings(record=True) as found:  # Python 3.13 says there that it will bind partials
        warnings.simplefilter("always")
        assert Holder().jitted_partial(3.0) == 6.0 and Holder().partial_slope(3.0) == 2.0
    assert [(w.category, str(w.message)) for w in found] == 2 * [(w.category, str(w.message)) for w in plain]


def test_a_function_of_the_first_argument_called_through_the_class():
    class Functions:
        slope = fc.grad(lambda x: x**2)

    assert Functions.slope(3.0) == 6.0


def test_introspection():
    model = Model(1.0)
    assert model.predict.__name__ == "predict" and model.predict.__doc__ == "Says what it does."
    assert model.predict.__self__ is model
    assert [*inspect.signature(model.predict).parameters] == ["x"]
    assert [*inspect.signature(Model.predict).parameters] == ["self", "x"]
    assert [*inspect.signature(model.slope).parameters] == ["x"]
    assert "sin" in str(Model.predict.lower(model, X).jaxpr)
    assert Model.predict.explain(model, X).engine
    assert "def run" in Model.predict.source(model, X)


def test_transforms_of_bound_methods():
    model = Model(2.0)
    np.testing.assert_allclose(fc.vmap(model.predict)(X), np.sin(X) * 2.0)
    np.testing.assert_allclose(fc.jit(model.slope)(X), 4.0 * X)
    for _ in range(3):
        np.testing.assert_allclose(fc.jit(lambda x: model.predict(x) + model.slope(x))(X), np.sin(X) * 2.0 + 4.0 * X)
    model.w = 3.0
    np.testing.assert_allclose(fc.hessian(lambda x: np.sum(model.predict(x)))(X), -np.diag(np.sin(X)) * 3.0)


def test_derivatives_with_respect_to_what_self_holds():
    def loss(w):
        return np.sum(Model(w).predict(X) + Model(w).slope(X))

    for _ in range(3):
        np.testing.assert_allclose(fc.grad(loss)(2.0), np.sum(np.sin(X) + 2 * X))
        np.testing.assert_allclose(fc.jit(fc.grad(loss))(2.0), np.sum(np.sin(X) + 2 * X))


def test_pickling():
    model = pickle.loads(pickle.dumps(Model(2.0)))
    method = pickle.loads(pickle.dumps(model.predict))
    np.testing.assert_allclose(method(X), np.sin(X) * 2.0)
    for name in ("slope", "each_x", "slopes", "class_slope"):
        args, expected = CASES[name]
        np.testing.assert_allclose(pickle.loads(pickle.dumps(getattr(model, name)))(*args), expected(model))


def test_threads():
    model, results = Model(2.0), []

    def work():
        own = Model(3.0)
        results.extend([model.predict(X), own.predict(X) * 2 / 3, own.slope(X) * 0 + np.sin(X) * 2])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 12
    for result in results:
        np.testing.assert_allclose(result, np.sin(X) * 2.0)


def test_errors_name_the_user_s_line():
    class Wrong:
        @fc.jit
        def f(self, x):
            return x @ self.missing

    with pytest.raises(AttributeError, match="missing"):
        Wrong().f(X)
    with pytest.raises(TypeError, match="expected an array or a number"):
        fc.jit(lambda m, x: x)(Wrong(), X)


def test_a_jitted_method_that_counts_calls_a_decorated_one():
    class Oscillator:
        def __init__(self):
            self.stiffness, self.steps = 4.0, 0

        @fc.grad
        def force(self, x):
            return -np.sum(self.stiffness * x**2) / 2

        @fc.jit
        def step(self, x):
            self.steps += 1
            return x + 0.1 * self.force(x)

    oscillator, x = Oscillator(), X
    for i in range(1, 6):
        before, x = x, oscillator.step(x)  # a NotCompiledWarning would be an error here
        np.testing.assert_allclose(x, before * 0.6)
        assert oscillator.steps == i
    assert Oscillator.step.cache_info().currsize > 0
