"""Operands that are no arrays of ours beside traced values: other libraries' arrays, subclasses with a meaning of their own."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import funcad as fc
import funcad.numpy as fnp


class Reflected:
    """Has Python's reflected operators, which say so."""

    def _reflected(self, *others):
        return "reflected"

    __radd__ = __rsub__ = __rmul__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = _reflected
    __rdivmod__ = __rand__ = __ror__ = __rxor__ = __rlshift__ = __rrshift__ = _reflected
    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = _reflected


class Priority(Reflected):
    __array_priority__ = 5000.0


class Declined(Reflected):
    __array_ufunc__ = None


class Overriding(Reflected):
    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"{method} {ufunc.__name__}"

    def __array_function__(self, function, types, args, kwargs):
        return function.__name__


class Shaped(Overriding):
    """Looks like an array: a data frame's column, a lazy array."""

    shape, dtype, ndim = (2,), np.dtype(float), 1


class Mixed(np.lib.mixins.NDArrayOperatorsMixin):
    """Its operators are NumPy's ufuncs, which it overrides: how most libraries do it."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"ufunc {ufunc.__name__} {kwargs}"


class Units(np.ndarray):
    """A subclass that overrides ufuncs, as those with physical units do."""

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return f"units {ufunc.__name__}"

    def __array_function__(self, function, types, args, kwargs):
        return f"units {function.__name__}"


class Important(np.ndarray):
    __array_priority__ = 5000.0

    def __rmul__(self, other):
        return "important"


class Plain(np.ndarray):
    """A subclass without a meaning of its own computes as an array."""


OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.matmul,
    divmod, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


def inside(transform, x, compute):
    """What `compute(traced x)` gave."""
    found = []

    def f(v):
        found.append(compute(v))
        return v * 1

    transform(f)(x)
    return found[0]


WAYS = {
    "jit": fc.jit,
    "vmap": lambda f: lambda x: fc.vmap(f)(np.stack([x, x])),
    "jvp": lambda f: lambda x: fc.jvp(f, (x,), (x,)),
    "vjp": lambda f: lambda x: fc.vjp(f, x),
    "nested": lambda f: fc.jit(fc.jacfwd(f)),
}
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


@pytest.mark.share(3)
@ways
@pytest.mark.parametrize("duck", [Priority(), Declined(), Overriding(), Shaped()], ids=lambda d: type(d).__name__)
def test_reflected_operators_have_their_say(way, duck):
    for x in (np.array([1.0, 2.0]), 3.0):
        if np.ndim(x) or way is not WAYS["vmap"]:
            for op in OPERATORS:
                assert inside(way, x, lambda v, op=op: op(v, duck)) == "reflected", op


def test_bits_and_shifts():
    for duck in (Priority(), Declined()):
        for op in BITS:
            assert inside(fc.jit, np.array([1, 2]), lambda v, op=op, duck=duck: op(v, duck)) == "reflected"


@ways
@pytest.mark.parametrize("op", [o for o in OPERATORS if o is not divmod], ids=lambda o: o.__name__)
def test_operators_of_those_that_override_ufuncs(way, op):
    x = np.array([1.0, 2.0])
    for duck in (Mixed(), np.ones(2).view(Units)):
        expected, found = op(x, duck), inside(way, x, lambda v, duck=duck: op(v, duck))
        mirrored = {"less": "greater", "greater": "less"}
        other = expected
        for a, b in mirrored.items():
            if a in expected:
                other = expected.replace(a, b)
                break
        assert found in (expected, other)  # Python asks the right operand for the reflected comparison


@ways
def test_ufuncs_and_functions_of_those_that_override_them(way):
    x = np.array([1.0, 2.0])
    for duck in (Overriding(), Shaped(), Mixed(), np.ones(2).view(Units)):
        for ufunc in (np.multiply, np.add, np.hypot, np.maximum):
            public = getattr(fnp, ufunc.__name__)
            for compute in (ufunc, lambda v, d, u=ufunc: u(d, v), public):
                assert inside(way, x, lambda v, d=duck, c=compute: c(v, d)) == compute(x, duck)
    for duck in (Overriding(), np.ones(2).view(Units)):
        for compute in (lambda v, d: np.dot(v, d), lambda v, d: np.where(True, d, v), lambda v, d: np.concatenate([v, d])):
            assert inside(way, x, lambda v, d=duck, c=compute: c(v, d)) == compute(x, duck)


@ways
def test_subclasses_by_their_priority(way):
    x = np.array([1.0, 2.0])
    assert inside(way, x, lambda v: v * np.ones(2).view(Important)) == "important"
    for duck in (np.array([3.0, 4.0]).view(Plain), np.array([3.0, 4.0]).view(np.recarray)):
        np.testing.assert_array_equal(fc.jvp(lambda v, d=duck: v * d + np.multiply(d, v), (x,), (x,))[1], [6.0, 16.0])
        np.testing.assert_array_equal(fc.jit(lambda v, d=duck: d - v)(x), [2.0, 2.0])


def test_who_cannot_be_combined_is_refused():
    for compute in (lambda v: v * object(), lambda v: np.multiply(v, object()), lambda v: divmod(v, "a"), lambda v: v + None):
        for transform in (fc.jit, fc.grad):
            with pytest.raises(TypeError):
                transform(compute)(2.0)

    class Silent:
        def __array_ufunc__(self, *args, **kwargs):
            return NotImplemented

    with pytest.raises(TypeError, match="NotImplemented"):
        fc.grad(lambda v: np.multiply(v, Silent()))(2.0)
    with pytest.raises(TypeError, match="unsupported operand"):
        fc.grad(lambda v: v * Silent())(2.0)
