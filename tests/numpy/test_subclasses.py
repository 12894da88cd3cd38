"""Users' subclasses of np.ndarray: views of traced values, constants beside them, and arguments."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
import scipy.stats

import funcad
from funcad import grad, jit, jvp, vmap

X = np.array([1.0, 2.0, 3.0])
A = np.array([[2.0, 1.0], [0.5, 3.0]])


class Info(np.ndarray):
    """An attribute that results inherit, as NumPy's manual writes it."""

    def __new__(cls, data: Any, info: Any = None) -> Any:
        made = np.asarray(data).view(cls)
        made.info = info
        return made

    def __array_finalize__(self, template: Any) -> None:
        if template is not None:
            self.info = getattr(template, "info", None)


class Vector(np.ndarray):
    """Methods and properties."""

    def length(self) -> Any:
        return np.sqrt((self * self).sum())

    @property
    def unit(self) -> Any:
        return self / self.length()

    def project(self, other: Any) -> Any:
        return (self @ other) / self.length() ** 2 * self

    @classmethod
    def of(cls, *parts: Any) -> Any:
        return np.array(parts).view(cls)


class Shifted(Vector):
    """A subclass of a subclass, with super()."""

    def length(self) -> Any:
        return super().length() + 1.0

    def __array_finalize__(self, template: Any) -> None:
        super().__array_finalize__(template)
        self.origin = getattr(template, "origin", 0.5)


class Unit(np.ndarray):
    """Ufuncs of its own."""

    __array_priority__ = 1000

    def __new__(cls, data: Any, unit: str = "") -> Any:
        made = np.asarray(data).view(cls)
        made.unit = unit
        return made

    def __array_finalize__(self, template: Any) -> None:
        self.unit = getattr(template, "unit", "")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        units = [x.unit for x in inputs if isinstance(x, Unit)]
        plain = [np.asarray(x) if isinstance(x, Unit) else x for x in inputs]
        out = getattr(ufunc, method)(*plain, **kwargs)
        return Unit(out, "*".join(units) if ufunc is np.multiply else units[0])


class Logged(np.ndarray):
    """NumPy's own `__array_ufunc__` by super(), on plain views."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        plain = [x.view(np.ndarray) if isinstance(x, Logged) else x for x in inputs]
        found = getattr(ufunc, method)(*plain, **kwargs)
        return np.asarray(found).view(Logged) if np.ndim(found) else found


class Mat(np.ndarray):
    """Operators of its own, as np.matrix has them."""

    def __mul__(self, other: Any) -> Any:
        return (np.asarray(self) @ np.asarray(other)).view(Mat)

    def __rmul__(self, other: Any) -> Any:
        return (np.asarray(other) @ np.asarray(self)).view(Mat)


class Wrapped(np.ndarray):
    """Results that say where they come from."""

    made_by = "user"

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        out = super().__array_wrap__(array, context, return_scalar)
        out.made_by = context[0].__name__ if context else "method"
        return out


class Point(np.ndarray):
    """A property that is set, and a path of points, which is walked."""

    @property
    def height(self) -> Any:
        return self[0]

    @height.setter
    def height(self, value: Any) -> None:
        self[0] = value

    def steps(self) -> Any:
        for a, b in zip(self[:-1], self[1:]):
            yield b - a

    def apart(self, other: Any) -> Any:
        return np.linalg.norm(self - other)


class Periodic(np.ndarray):
    """Indices of its own."""

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index % len(self) if isinstance(index, int) else index)


def in_place(x: Any) -> Any:
    y = (x * 2.0).view(Info)
    y += x
    y[0] = x[1] * 3.0
    return (y * y).sum()


def attributes(x: Any) -> Any:
    y = Info(x, {"scale": 3.0})
    z = np.sin(y)[1:] * 2.0
    assert isinstance(y, Info) and isinstance(z, Info) and isinstance(z.T.copy().reshape(-1), Info)
    assert y.shape == (3,) and len(z) == 2 and z.ndim == 1 and y.dtype == float
    return z.sum() * z.info["scale"]


def which(x: Any) -> Any:
    y = x.view(Vector)
    kinds = [isinstance(f(y), Vector) for f in (np.sort, np.cumsum, np.flip, np.diff, np.fft.fft, np.outer and np.hstack)]
    assert kinds == [True, True, True, True, False, False]
    return np.sum(np.sort(y) * np.cumsum(y))


def units(x: Any) -> Any:
    found = Unit(x, "m") * Unit(X, "s") * 2.0
    assert isinstance(found, Unit) and found.unit.startswith("m*s")
    return np.asarray(found).sum()


def wrapped(x: Any) -> Any:
    y = np.exp(x.view(Wrapped))
    assert y.made_by == "exp"
    return (y * x).sum()


def lifted(x: Any) -> Any:
    p = x.copy().view(Point)
    p.height = p.height ** 2
    p.sort()
    return p.sum() * p[1] + p.apart(np.zeros(3)) if p.height > 0.0 else p.max()


PROGRAMS: dict[str, Any] = {
    "attributes": (attributes, X),
    "method": (lambda x: x.view(Vector).length(), X),
    "property": (lambda x: (x.view(Vector).unit * X[::-1]).sum(), X),
    "method with an argument": (lambda x: x.view(Vector).project(np.array([1.0, 0.0, 2.0])).sum(), X),
    "class method": (lambda x: Vector.of(x[0], x[1] * x[2], 2.0).length(), X),
    "super": (lambda x: x.view(Shifted).length() * x.view(Shifted).origin, X),
    "ufuncs of its own": (units, X),
    "constant with ufuncs of its own": (lambda x: np.asarray(x * Unit(X, "m")).sum(), X),
    "ufuncs by super": (lambda x: (np.log(x.view(Logged)) * x).sum(), X),
    "operators of its own": (lambda a: np.sum(np.asarray(a.view(Mat) * A.view(Mat)) ** 2), A),
    "constant with operators of its own": (lambda a: np.sum(np.asarray(A.view(Mat) * a) ** 2), A),
    "reflected operators of its own": (lambda a: np.sum(np.asarray(a * A.view(Mat)) ** 2), A),
    "wrap": (wrapped, X),
    "indices of its own": (lambda x: x.view(Periodic)[4] * x.view(Periodic)[-1], X),
    "in place": (in_place, X),
    "which results have the class": (which, X),
    "argument": (lambda x: np.sum(x * x), Info(X, "known")),
    "constant": (lambda x: np.sum(Info(X) * x + np.zeros_like(Info(X))), X),
    "view of a view": (lambda x: np.sum(x.view(Info).view(Vector).view(np.ndarray) ** 2), X),
    "a property that is set": (lifted, X),
    "walked": (lambda a: sum([(s**2).sum() for s in a.view(Point).steps()]), A),
    "SciPy's functions": (lambda x: scipy.linalg.norm(x.view(Point)) * np.sum(scipy.special.expit(x.view(Point))), X),
    "lists of them": (lambda x: (np.array([x.view(Point), X]) * np.vstack([x.view(Point), x])).sum(), X),
    "products": (lambda x: np.einsum("i,i", x.view(Point), x.view(Point)) + np.multiply.outer(x.view(Point), X).sum(), X),
    "as any array": (lambda x: np.asanyarray(x.view(Point)).apart(1.0), X),
    "where and comparisons": (lambda x: np.where(x.view(Info) > 1.5, x.view(Info), 0.0).sum(), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_subclasses(name: str) -> None:
    g, x = PROGRAMS[name]
    f = lambda x: np.asarray(g(x)) ** 2
    plain = np.asarray(x)
    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    step = 1e-6 * direction
    slope = float(np.asarray(f(x + step) - f(x - step)).sum() / 2e-6)
    gradient = grad(f)(x)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(jit(grad(f))(x), gradient, rtol=1e-12)
    value, tangent = jvp(f, (x,), (direction,))
    assert float(value) == float(f(x)) and float(tangent) == pytest.approx(slope, rel=1e-6)
    lanes = vmap(grad(f))(np.stack([plain, plain]))
    np.testing.assert_allclose(lanes, [gradient, gradient], rtol=1e-12)
    second = grad(lambda x: np.sum(grad(f)(x) * direction))(x)
    rise = np.sum((grad(f)(x + step) - grad(f)(x - step)) * direction) / 2e-6
    assert np.sum(second * direction) == pytest.approx(rise, rel=1e-5, abs=1e-6)


def product_of_matrices(m: Any) -> Any:
    assert isinstance(m, Mat)
    return np.trace(np.asarray(m * m))


def kept_unit(x: Any) -> Any:
    assert isinstance(x, Unit) and x.unit == "m"
    return np.asarray(np.sin(x) * x).sum()


def method_of_it(x: Any) -> Any:
    assert isinstance(x, Shifted) and isinstance(x[1:], Shifted) and isinstance(np.exp(x), Vector) and x.origin == 0.5
    return x.length() * x.project(X).sum() + x.origin


def attribute_of_it(tree: Any) -> Any:
    image = tree["image"]
    assert isinstance(image, Info) and image.info == {"scale": 3.0} and image[1:].info is image.info
    return np.sum(image**2) * image.info["scale"] + np.sum(tree["plain"])


ARGUMENTS: dict[str, Any] = {
    "operators": (product_of_matrices, A.view(Mat)),
    "ufuncs": (kept_unit, Unit(X, "m")),
    "methods": (method_of_it, X.view(Shifted)),
    "indices": (lambda x: x[4] * x[-1], X.view(Periodic)),
    "attributes": (attribute_of_it, {"image": Info(X, {"scale": 3.0}), "plain": X}),
    "a property that is set": (lambda x: [setattr(x, "height", x[1] ** 2), x.apart(np.zeros(3))][1], X.view(Point)),
    "elements that are set": (lambda x: [x.__setitem__(0, 2.0 * x[1]), x.sort(), x.sum() * x[1]][2], X.view(Info)),
}


def perturbed(x: Any, step: float) -> Any:
    return funcad.tree.map(lambda leaf: leaf + step * np.cos(np.arange(leaf.size)).reshape(leaf.shape), x)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_keep_their_class_and_get_it_again(name: str) -> None:
    """The derivative by an object is an object of its class, with its attributes."""
    f, x = ARGUMENTS[name]
    fresh = lambda: perturbed(x, 0.0)
    direction = funcad.tree.map(lambda leaf: np.cos(np.arange(leaf.size)).reshape(leaf.shape), fresh())
    slope = float(f(perturbed(x, 1e-6)) - f(perturbed(x, -1e-6))) / 2e-6
    for transform in (grad, lambda f: jit(grad(f)), lambda f: grad(jit(f)), lambda f: lambda x: funcad.vjp(f, x)[1](1.0)[0]):
        gradient = transform(f)(fresh())
        assert funcad.tree.structure(gradient) == funcad.tree.structure(fresh())
        along = sum(map(np.vdot, funcad.tree.leaves(gradient), funcad.tree.leaves(direction)))
        assert along == pytest.approx(slope, rel=1e-6)
    value, tangent = jvp(f, (fresh(),), (direction,))
    assert float(value) == float(f(fresh())) and float(tangent) == pytest.approx(slope, rel=1e-6)
    assert float(jit(f)(fresh())) == pytest.approx(float(f(fresh())))
    lanes = vmap(f)(funcad.tree.map(lambda leaf: np.stack([leaf, 2.0 * leaf]), fresh()))
    assert lanes[0] == pytest.approx(float(f(fresh())))
    turned = lambda x: jvp(f, (x,), (direction,))[1]
    second = float(turned(perturbed(x, 1e-6)) - turned(perturbed(x, -1e-6))) / 2e-6
    assert float(jvp(turned, (fresh(),), (direction,))[1]) == pytest.approx(second, rel=1e-5, abs=1e-6)


def test_a_plain_direction_will_do_and_so_does_one_with_other_attributes() -> None:
    f = lambda x: x * 2.0
    for direction in (X, Info(X, "another")):
        value, tangent = jvp(f, (Info(X, "known"),), (direction,))
        assert type(value) is Info and value.info == "known" and np.array_equal(tangent, 2.0 * X)
    assert np.array_equal(jvp(f, (X,), (Info(X, "known"),))[1], 2.0 * X)
    out, pull = funcad.vjp(f, Info(X, "known"))
    assert type(out) is Info and np.array_equal(pull(X)[0], 2.0 * X)


def test_results_are_of_the_class_that_numpy_gives() -> None:
    for transform in (jit, lambda f: lambda x: jvp(f, (x,), (X,))[0], lambda f: lambda x: funcad.vjp(f, x)[0]):
        for f in (lambda x: Info(x, {"step": 2}) * 2.0, lambda x: x.view(Shifted), lambda x: np.hstack([x.view(Info), x])):
            for _ in range(3):
                found, expected = transform(f)(X), f(X)
                assert type(found) is type(expected) and vars_of(found) == vars_of(expected)
                np.testing.assert_array_equal(found, expected)


def vars_of(x: Any) -> Any:
    return getattr(x, "__dict__", None)


def test_an_attribute_with_a_traced_value_leaves_with_the_result() -> None:
    def f(x: Any) -> Any:
        y = x.view(Shifted)
        y.origin = np.sum(x**2)
        return y + 1.0

    for found in (jit(f)(X), jvp(f, (X,), (X,))[0], vmap(f)(np.stack([X, X])), funcad.vjp(f, X)[0]):
        assert type(found) is Shifted
        np.testing.assert_array_equal(found.origin, [14.0, 14.0] if found.ndim == 2 else 14.0)
    assert jvp(f, (X,), (X,))[1].origin == 28.0


def test_attributes_are_asked_at_each_call() -> None:
    class Owner:
        scale = 1.0

    owner, offset = Owner(), np.zeros(3)
    f = jit(lambda x: np.sum(x * x.info["owner"].scale + x.info["offset"] * (x.info["offset"][0] > 0.0)))
    image = Info(X, {"owner": owner, "offset": offset})
    found = [float(f(image))]
    owner.scale = 2.0
    found.append(float(f(image)))
    offset += 1.0
    found.append(float(f(image)))
    image.info["owner"] = Owner()
    found.append(float(f(image)))
    assert found == [6.0, 12.0, 15.0, 9.0]
    total = jit(lambda x: np.sum(x * x.info))
    assert [float(total(Info(X, k))) for k in (1, 1.0, 2, np.float32(3.0))] == [6.0, 6.0, 12.0, 18.0]


def test_loops_rules_and_writes_see_the_class() -> None:
    def step(carry: Any, x: Any) -> Any:
        assert isinstance(carry, Vector)
        return carry.unit * x, carry.length()

    for transform in (lambda f: f, jit):
        last, lengths = transform(lambda v: funcad.scan(step, v, X))(X.view(Vector))
        assert type(last) is Vector
        np.testing.assert_allclose(lengths, [np.sqrt(14.0), 1.0, 2.0])

    def stretched(v: Any) -> Any:
        v *= 2.0
        v[0] = 7.0
        return v.length()

    for f in (stretched, jit(stretched)):
        x = X.copy().view(Vector)
        assert float(f(x)) == pytest.approx(np.sqrt(49.0 + 16.0 + 36.0)) and np.array_equal(x, [7.0, 4.0, 6.0])

    rule = funcad.custom_vjp(lambda v: v.length())
    rule.defvjp(lambda v: (v.length(), v), lambda v, ct: (3.0 * ct * np.asarray(v.unit),))
    np.testing.assert_allclose(grad(rule)(X.view(Vector)), 3.0 * X / np.sqrt(14.0))


def test_classes_of_python_that_are_also_abstract() -> None:
    class Abstract(np.ndarray, metaclass=ABCMeta):
        __slots__ = ("tag",)

        def doubled(self) -> Any:
            return self * 2.0

    x = X.view(Abstract)
    x.tag = "seen"
    g = grad(lambda x: np.sum(x.doubled() ** 2) if x.tag == "seen" else 0.0)(x)
    assert type(g) is Abstract and g.tag == "seen"
    np.testing.assert_allclose(g, 8.0 * X)


def test_a_class_of_another_metaclass_is_refused_by_its_name() -> None:
    class Meta(type):
        pass

    class Odd(np.ndarray, metaclass=Meta):
        pass

    with pytest.raises(TypeError, match=r"(?s)a Odd holds no traced values.*Remedy: write functions of x"):
        grad(lambda x: np.sum(x**2))(X.view(Odd))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_classes_of_numpys_are_refused_by_name_and_the_remedy_works() -> None:
    with pytest.raises(TypeError, match=r"(?s)x.view\(matrix\).*x @ y for \* of matrices"):
        grad(lambda a: np.sum(np.asmatrix(a) * np.asmatrix(a)))(A)
    with pytest.raises(TypeError, match=r"a matrix means something else.*\n.*np.asarray\(x\) of a matrix"):
        grad(lambda a: np.sum(a @ np.asmatrix(A)))(A)
    np.testing.assert_allclose(grad(lambda a: np.sum(a @ np.asarray(np.asmatrix(A))))(A), np.ones((2, 2)) @ A.T)


def test_dicts_that_functions_of_libraries_change_stay_themselves() -> None:
    """Once a subclass was seen, arguments of lifted code are looked through; SciPy's distributions change a dict in place."""
    f = jit(lambda x: x * 2.0)
    for _ in range(3):
        f(X.view(Vector))
    points = np.array([0.1, 0.2])
    assert grad(lambda s: np.sum(scipy.stats.Uniform(a=0.0, b=s).logpdf(points)))(1.5) == pytest.approx(-2 / 1.5)
