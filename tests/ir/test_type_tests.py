"""Type tests of traced values: they take the branch that the values they stand for would take."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import functools
import json
import numbers
import pickle
import typing
import warnings
from enum import IntEnum

import numpy as np
import pytest

import funcad as fc
import funcad.numpy as fnp
from tests.standin import DeviceArray, registered, to_device
from tests.unseen import Noted

KINDS = [
    np.ndarray, np.generic, np.number, np.floating, np.float64, np.float32, np.integer, np.int64, np.complexfloating, np.bool_,
    float, int, bool, complex, str, list, tuple, numbers.Number, numbers.Complex, numbers.Real, numbers.Integral,
    collections.abc.Iterable, collections.abc.Sized, collections.abc.Container, collections.abc.Collection,
    collections.abc.Sequence, collections.abc.Mapping, type(None),
]  # fmt: skip


@functools.singledispatch
def dispatched(x):
    return "object"


for _kind in (float, int, np.ndarray, np.generic, collections.abc.Iterable):
    dispatched.register(_kind, functools.partial(lambda name, x: name, _kind.__name__))


def matched(x):
    match x:
        case bool():
            return "bool"
        case int():
            return "int"
        case float(value):
            return "float", value is x
        case complex():
            return "complex"
        case np.ndarray(shape=shape):
            return "array", shape
        case np.generic():
            return "generic"
        case [*_]:
            return "sequence"
    return "other"


def answers(x):
    """What Python and NumPy say of the type of x."""
    return {
        "isinstance": [k.__name__ for k in KINDS if isinstance(x, k)],
        "subclass": [k.__name__ for k in (np.ndarray, np.generic, float) if issubclass(x.__class__, k)],
        "class": x.__class__,
        "isscalar": np.isscalar(x),
        "public isscalar": fnp.isscalar(x),
        "iterable": np.iterable(x),
        "singledispatch": dispatched(x),
        "match": matched(x),
        "len": hasattr(x, "__len__"),
        "numerator": hasattr(x, "numerator"),
    }


VALUES = [
    2.5, 3, True, 1.5 + 2j, np.float64(2.5), np.float32(2.5), np.int64(3), np.int32(3), np.bool_(True), np.complex64(1j),
    np.array([1.0, 2.0]), np.zeros((2, 0), np.float32), np.arange(6).reshape(2, 3)[:, ::-1], np.array([True]), np.array([1j]),
]  # fmt: skip


def recorded(transform, *args):
    """The answers inside a transformed function."""
    found = Noted()

    def f(*xs):
        found.note(answers(xs[-1]))
        return xs[0] * 1.0

    transform(f)(*args)
    return found


@pytest.mark.share(3)
@pytest.mark.parametrize("x", VALUES, ids=repr)
def test_jitted_values_answer_as_what_they_stand_for(x):
    for found in recorded(fc.jit, x) + recorded(lambda f: fc.jit(fc.jit(f)), x):
        assert found == answers(x)


@pytest.mark.parametrize("x", [v for v in VALUES if np.asarray(v).dtype.kind == "f"] + [np.array(2.5)], ids=repr)
def test_differentiated_values_answer_as_what_they_stand_for(x):
    total = lambda f: lambda v: np.sum(f(v) ** 2)
    for transform in (
        lambda f: lambda v: fc.jvp(f, (v,), (v,)),
        lambda f: fc.grad(total(f)),
        lambda f: fc.grad(lambda v: np.sum(fc.grad(total(f))(v))),
        lambda f: lambda v: fc.vjp(f, v),
        lambda f: lambda v: fc.linearize(f, v),
        lambda f: fc.hessian(total(f)),
    ):
        for found in recorded(transform, x):
            assert found == answers(x)


def test_values_on_the_way():
    """Python's arithmetic gives Python's numbers, NumPy's functions NumPy's, reductions scalars."""

    def f(x, v):
        made = [x * 2.0, np.sin(x), x > 0, v * x, np.sum(v), v[0], v[:1], v > 0, x * np.float32(2), v.reshape(1, 2)]
        found.note([answers(y) for y in made])
        return np.sum(v) * x

    found = Noted()
    f(0.5, np.ones(2))
    for transform in (lambda f: f, fc.jit, fc.grad, lambda f: fc.jit(fc.grad(f)), lambda f: fc.grad(fc.jit(f))):
        transform(f)(0.5, np.ones(2))
        assert found[-1] == found[0]


def test_lanes_and_rows_are_numbers():
    scalar, row = answers(np.float64(1.0)), answers(np.ones(2))
    assert recorded(fc.vmap, np.ones(3)) == [scalar]
    assert recorded(lambda f: fc.vmap(fc.grad(f)), np.ones(3)) == [scalar]
    assert recorded(lambda f: fc.vmap(fc.vmap(f)), np.ones((3, 2))) == [scalar]
    assert recorded(fc.vmap, np.ones((3, 2))) == [row]
    seen = Noted()
    body = lambda c, x: (seen.note((answers(c), answers(x))), (c + np.sum(x), None))[1]
    for run in (fc.scan, fc.jit(fc.scan, static_argnums=0), fc.grad(lambda c, xs: fc.scan(body, c, xs)[0])):
        run(*([body] if run is not None and "scan" in getattr(run, "__name__", "") else []), np.float64(0.0), np.ones((3, 2)))
    assert seen and all(pair == (scalar, row) for pair in seen)


def test_bodies_of_control_flow_and_custom_rules():
    x, seen = np.ones(2), Noted()

    def f(v):
        seen.note(answers(v))
        return v * 2.0

    rule = fc.custom_jvp(f)
    rule.defjvp(lambda primals, tangents: (f(primals[0]), 2.0 * tangents[0]))
    for program in (
        lambda v: fc.cond(np.all(v > 0), f, f, v),
        lambda v: fc.while_loop(lambda w: np.all(f(w) < 3.0), f, v),
        lambda v: fc.fori_loop(0, 2, lambda i, w: f(w), v),
        fc.checkpoint(f),
        rule,
    ):
        for transform in (fc.jit, lambda p: fc.jacfwd(p), lambda p: fc.vmap(p, in_axes=1)):
            transform(program)(np.stack([x, x]))
    assert seen and all(found["class"] is np.ndarray for found in seen)


def branching(x):
    """A function whose value depends on types only."""
    if isinstance(x, np.ndarray):
        return np.sum(x**2)
    if np.isscalar(x) and isinstance(x, float):
        return x**3 if type(x * 1) is not str else x
    return 5 * x


def test_the_branches_are_those_of_plain_python():
    assert fc.grad(branching)(3.0) == 27.0
    assert fc.grad(branching)(np.float64(3.0)) == 27.0
    assert fc.grad(branching)(np.float32(3.0)) == np.float32(5.0)
    np.testing.assert_array_equal(fc.grad(branching)(np.array([3.0])), [6.0])
    assert fc.grad(branching)(np.array(3.0)) == 6.0
    np.testing.assert_array_equal(fc.vmap(fc.grad(branching))(np.array([1.0, 2.0])), [3.0, 12.0])
    assert fc.jit(fc.hessian(branching))(2.0) == 12.0
    assert [fc.jit(branching)(x) for x in (2.0, 2, np.float32(2), np.ones(2))] == [8.0, 10, 10.0, 2.0]


ARRAY, SCALAR = np.array(3.0), np.float64(3.0)  # of one aval: only the program of a function that asks tells them apart


def by_type(x):
    return x**2 if isinstance(x, np.ndarray) else 5 * x


@pytest.mark.parametrize(
    "way",
    [
        lambda f: f, fc.jit, fc.checkpoint, lambda f: lambda x: fc.jit(f)(x) * 1.0, lambda f: lambda x: fc.cond(True, f, f, x),
        lambda f: lambda x: fc.cond(np.sum(x) > 0, f, f, x),
    ],
    ids=["plain", "jit", "checkpoint", "called", "cond", "traced cond"],
)  # fmt: skip
def test_arrays_of_rank_0_are_no_scalars(way):
    """In both orders and warm, when calls are written out for a signature and compiled programs compare dtypes only."""
    for first, second in ((ARRAY, SCALAR), (SCALAR, ARRAY)):
        value, slope = fc.jit(way(lambda x: by_type(x))), fc.jit(fc.grad(way(lambda x: by_type(x))))
        for _ in range(12):
            for x in (first, second):
                assert value(x) == by_type(x) == (9.0 if x is ARRAY else 15.0)
                assert slope(x) == (6.0 if x is ARRAY else 5.0)
        assert value.cache_info().currsize == slope.cache_info().currsize == 2
    assert [fc.grad(way(by_type))(x) for x in (ARRAY, SCALAR)] == [6.0, 5.0]


def test_arrays_of_rank_0_among_others():
    pair = fc.jit(lambda p: by_type(p["a"]) + by_type(p["b"][0]))
    for _ in range(8):
        for a in (ARRAY, SCALAR):
            for b in (ARRAY, SCALAR):
                assert pair({"a": a, "b": (b,)}) == by_type(a) + by_type(b)
    assert pair.cache_info().currsize == 4
    silent = fc.jit(lambda x: x * 2.0)
    for _ in range(8):
        assert silent(ARRAY) == silent(SCALAR) == 6.0
    assert silent.cache_info().currsize == 1  # nobody asked: one program serves both
    for x, expected in ((ARRAY, 9.0), (SCALAR, 15.0)):
        np.testing.assert_array_equal(fc.vmap(lambda a, b: a * by_type(b), in_axes=(0, None))(np.ones(2), x), [expected] * 2)
    named = fc.vmap(lambda a: fc.psum(a, "i") * 0 + by_type(a), axis_name="i")
    np.testing.assert_array_equal(named(np.full(2, 3.0)), [15.0, 15.0])  # lanes of an array are numbers


def test_arrays_on_a_device():
    """Programs are traced for NumPy's arrays or for the device's: one program never answers for both."""

    def new():
        def f(x):
            seen.append((isinstance(x, DeviceArray), isinstance(x, np.ndarray), isinstance(np.sum(x), DeviceArray)))
            return np.sum(x * x)

        return f

    seen = []
    f = new()
    loop = lambda f: lambda x: fc.while_loop(lambda c: f(c) < 9.0, lambda c: c + 1.0, x)
    with registered():
        x = to_device(np.arange(3.0))
        for program in (
            fc.grad(new()), fc.jit(new()), fc.grad(fc.jit(new())), fc.jit(fc.grad(new())), fc.checkpoint(new()),
            fc.jit(fc.checkpoint(new())), lambda x: fc.cond(to_device(np.array(True)), new(), new(), x), loop(new()),
            lambda x: fc.scan(lambda c, _: (c + f(c), None), x, length=2)[0],
            lambda x: fc.vmap(loop(f))(to_device(np.ones((2, 3)))),
        ):  # fmt: skip
            seen.clear()
            program(x)
            assert set(seen) == {(True, False, True)}
        jitted = fc.jit(new())
        assert float(jitted(x)) == jitted(np.arange(3.0)) == 5.0
        assert seen[-1] == (False, True, False)
        assert jitted.cache_info().currsize == 2


# -- what looks at types on the way to something else


@dataclasses.dataclass
class Point:
    x: typing.Any
    y: typing.Any = 0.0


class Level(IntEnum):
    TWO = 2


def test_copies_containers_and_texts():
    def f(x):
        assert copy.copy(x) is x and copy.deepcopy({"a": [x]})["a"][0] is x
        assert dataclasses.asdict(Point(x))["x"] is x
        assert dataclasses.replace(Point(1.0), y=x).y is x
        assert dir(x) == sorted(dir(x)) and "__float__" in dir(x)
        texts.append((f"{x}", str(x), format(x, ""), f"{x:.2f}", repr(x).startswith("Tracer<")))
        return x * 2.0

    texts = []
    fc.grad(f)(1.5)
    assert texts == [("1.5", "1.5", "1.5", "1.50", True)]
    fc.jit(lambda x: copy.deepcopy([x])[0])(np.ones(2))
    with pytest.warns(fc.NotCompiledWarning, match="the text of a traced array"):
        fc.jit(lambda x: (x, repr(x) == "")[0])(np.ones(2))


@pytest.mark.parametrize("write", [np.array2string, np.array_repr, np.array_str])
@pytest.mark.parametrize("x", [np.array([1 / 3, 2.0]), np.array([[1 / 3]], np.float32), np.eye(2) * 1j])
def test_texts_by_numpy(write, x):
    def f(x):
        texts.append((write(x), write(x, precision=3, suppress_small=True)))
        return np.sum(np.real(x * x))

    texts = []
    f(x)
    plain = texts.copy()
    for g in (fc.grad(f), fc.grad(lambda x: np.sum(np.real(fc.grad(f)(x)))), lambda x: fc.jvp(f, (x,), (x,))):
        texts.clear()
        g(x)
        assert texts == plain
    texts.clear()
    fc.vmap(f)(np.stack([x, x + 1.0]))
    lanes = texts.copy()
    texts.clear()
    f(x), f(x + 1.0)
    assert sorted(set(lanes)) == sorted(texts)
    with pytest.raises(fc.errors.TracerArrayConversionError, match="inside make_jaxpr"):
        fc.make_jaxpr(f)(x)


@pytest.mark.parametrize("x", [1.5, np.ones(2)], ids=["number", "array"])
@pytest.mark.parametrize(
    "transform", [functools.partial(fc.jit, guards=False), lambda f: lambda x: fc.jvp(f, (x,), (x,))], ids=["jit", "jvp"]
)
def test_what_needs_real_memory_refuses(transform, x):
    def of(convert):
        return lambda v: (convert(v), v * 1.0)[1]

    with pytest.raises(fc.errors.TracerArrayConversionError, match="Remedy"):
        transform(of(np.float64))(x)
    for convert in (pickle.dumps, lambda v: pickle.dumps([v], 2), json.dumps, lambda v: json.dumps({"a": v}, indent=1)):
        with pytest.raises(TypeError):
            transform(of(convert))(x)


def test_numbers_have_the_attributes_of_numbers():
    def f(x, n):
        assert n.numerator is n and n.denominator == 1 and n + 0 is not n
        assert not hasattr(x, "numerator")
        with pytest.raises(TypeError, match="has no len"):
            len(n)
        return np.where(x.is_integer(), 1.0, 2.0) + 0 * n

    assert [fc.jit(f)(v, 3) for v in (2.0, 2.5, np.inf, np.nan)] == [1.0, 2.0, 2.0, 2.0]
    assert fc.jvp(lambda x: 1.0 * x.is_integer(), (2.0,), (1.0,))[0] == 1.0
    assert len(recorded(fc.jit, np.ones((4, 2)))) == 1
    assert fc.jit(lambda x: x * len(x))(np.ones((4, 2))).sum() == 32.0
    with pytest.raises(TypeError, match="unsized"):
        fc.grad(lambda x: x * len(x))(np.array(1.0))


def test_subclasses_of_numbers_compute_as_numbers():
    class Length(float):
        pass

    for two in (Level.TWO, Length(2.0)):
        for f in (lambda x, t=two: x * t, lambda x, t=two: np.multiply(t, x), lambda x, t=two: x**t / t):
            for x in (3.0, np.array([3.0, 4.0])):
                np.testing.assert_array_equal(fc.jit(f)(x), f(x))
                np.testing.assert_array_equal(fc.jvp(f, (x,), (np.ones_like(x) if np.ndim(x) else 1.0,))[0], f(x))


def test_a_tracer_is_still_found_by_its_own_type():
    from funcad.host.real_types import is_a
    from funcad.ir.tracer import Tracer

    def f(x):
        assert isinstance(x, Tracer) and type(x) is Tracer and is_a(x, Tracer)
        assert isinstance(x, float) and not is_a(x, float)
        assert isinstance(x, fnp.ndarray)
        return x * 1.0

    assert fc.grad(f)(2.0) == 1.0


@pytest.mark.parametrize("value", VALUES, ids=[f"{i}-{type(x).__name__}" for i, x in enumerate(VALUES)])
def test_the_type_in_a_jitted_function(value):
    found = []

    def f(x):
        found.append((type(x), type(CAPTURED[0])))
        return x * 1

    CAPTURED = [value]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.NotCompiledWarning)  # of what is appended
        fc.jit(f)(value)
    assert set(found) == {(type(value), type(value))}


@pytest.mark.parametrize("ask", [lambda k: type(k) is int, lambda k: isinstance(k, int), lambda k: k.__class__ is int])
def test_a_branch_by_the_type_of_a_captured_number_that_has_become_an_input(ask):
    k = 1

    def f(x):
        return x * k if ask(k) else x + 10 * k

    jitted = fc.jit(f)
    for value in (1, 2, 3, 4, 5, 1.0, 2.0, True, np.float64(2.0), 6):
        k = value
        assert jitted(3.0) == f(3.0)


def test_the_types_that_plain_grad_shows_are_those_in_a_jitted_function():
    found = []

    def f(x):
        found.append(type(x) is float)
        return x * x

    fc.grad(f)(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fc.NotCompiledWarning)
        fc.jit(fc.grad(f))(2.0)
    assert len(set(found)) == 1
