"""Copy, view or same: every public function says what NumPy's results share with its operands, and traced results are
the operand's own object exactly where NumPy's are."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import tree
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import TABLE, alias_of
from funcad.numpy.methods import ARRAY_METHODS as OF_ARRAYS
from funcad.numpy.methods import ATTRIBUTES
from funcad.numpy.methods import METHODS as OF_OPERATORS
from tests.surface import all_cases, resolve

OLD = np.lib.NumpyVersion(np.__version__) < "2.2.0"  # some functions have fewer options
ORDER = ("copy", "view", "same")
FLOATS = [np.array([1.5]), np.array([1.0, 2.0, 3.0]), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[2.0]]), np.array(1.5)]
OTHERS = [np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]), np.ones((2, 2, 2)), np.zeros(0), np.array([1.0, 2.0], np.float32)]
OTHERS += [np.array([1 + 2j, 3]), np.array([1, 2]), np.array([1, 2], np.uint8), np.array([True, False])]


def calls(x: np.ndarray) -> Iterator[tuple[tuple, dict]]:
    """Calls that might have nothing to do: no axis, no shift, one piece, the shape and the dtype that it has."""
    everything = np.ones(x.shape, bool)
    positions = (
        0,
        1,
        2,
        -1,
        (),
        (0,),
        None,
        1.0,
        x.shape,
        x.dtype,
        float,
        "C",
        "K",
        "F",
        x,
        Ellipsis,
        (Ellipsis,),
        slice(None),
    )
    starts = [(x,), ([x],), (True, x), (0, [x]), (x, 0, 0), (x, 1, 0), (x, -np.inf, np.inf), (x, None, None), (x, 0, -1)]
    starts += [
        (x, ((0, 0),) * x.ndim),
        (x, [everything], [lambda a: a]),
        (x, np.zeros(0, int)),
        (x, x, x),
        (x, [x]),
        (x, "cpu"),
    ]
    starts += [(text, x) for text in ("i->i", "ij->ij", "ii->i", "ij->ji", "...->...")] + [(x, p) for p in positions]
    starts += [(lambda a: a, 0, x), (lambda a, axis: a, x, ()), (lambda a, axis: np.take(a, [0], axis), x, 0)]
    options = [{"axis": a} for a in (None, 0, ())] + [{"copy": c} for c in (True, False, None)] + [{"order": o} for o in "CFAK"]
    options += [{"k": 0}, {"n": 0}, {"decimals": 0}, {"decimals": 2}, {"ndmin": 0}, {"ndmin": 2}, {"keepdims": True}]
    options += [{"dtype": d} for d in (None, x.dtype)] + [{"copy": c, "sparse": True} for c in (True, False)]
    yield from itertools.product(starts, [{}])
    for start in ((x,), ([x],), (x, 1), (x, x.dtype), (x, float), (x, x)):
        for option in options:
            yield start, option


def method(name: str) -> Callable[..., Any]:
    def of(x: Any, *args: Any, **kwargs: Any) -> Any:
        found = getattr(x, name)
        return found(*args, **kwargs) if callable(found) else found

    return of


def numpys_method(name: str) -> Callable[..., Any]:
    found = getattr(np.ndarray, name)
    return found if callable(found) else method(name)


def functions() -> dict[str, tuple[Callable[..., Any], Callable[..., Any], Any]]:
    """name -> (funcad's, NumPy's, that which says the alias)."""
    found: dict[str, Any] = {}
    for ours, theirs, prefix in ((fnp, np, ""), (fnp.linalg, np.linalg, "linalg."), (fnp.fft, np.fft, "fft.")):
        for name in dir(ours):
            function, original = getattr(ours, name), getattr(theirs, name, None)
            if name.startswith("_") or not callable(original) or isinstance(original, type):
                continue
            if original in TABLE or getattr(function, "numpy_function", None) is not None:
                found[prefix + name] = function, original, original
    of_arrays = {n: f for n, f in {**OF_ARRAYS, **ATTRIBUTES}.items() if hasattr(np.ndarray, n) and n not in WITHOUT}
    found |= {f"ndarray.{n}": (method(n), numpys_method(n), f) for n, f in of_arrays.items()}
    for name in "pos neg abs invert getitem add mul sub truediv pow floordiv mod matmul".split():
        found[f"operator.{name}"] = (getattr(operator, name),) * 2 + (OF_OPERATORS[f"__{name}__"],)
    for function in (copy.copy, copy.deepcopy):
        found[f"copy.{function.__name__}"] = function, function, None
    return found


WITHOUT = "sort partition fill put resize itemset setflags view flat tolist device __dlpack__ __dlpack_device__".split()
FUNCTIONS = functions()
CASES = [c for c in all_cases() if c.name.startswith(("numpy.", "ndarray.", "operator."))]


def replaced(args: Any, x: Any, new: Any) -> Any:
    return type(args)([replaced(a, x, new) for a in args]) if type(args) in (list, tuple) else new if args is x else args


def own(out: Any, x: Any) -> list[bool]:
    return [o is x for o in tree.leaves(out)]


def same_value(out: Any, x: np.ndarray) -> bool:
    """Could one of the results be x?"""
    arrays = [o for o in tree.leaves(out) if isinstance(o, np.ndarray)]
    return any(
        o.shape == x.shape and o.dtype == x.dtype and np.array_equal(o, x, equal_nan=x.dtype.kind in "fc") for o in arrays
    )


@functools.cache
def signature(f: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(f)
    except ValueError:  # a function in C that does not show its parameters
        return None


def without_out(theirs: Any, args: tuple, kwargs: dict) -> bool:
    """Does this call leave the argument `out` alone, at whatever place it stands?"""
    if isinstance(theirs, np.ufunc):
        return len(args) <= theirs.nin
    known = signature(theirs)
    if known is None:  # `out` is the third operand, or comes later
        return sum(a is args[0] for a in args) < 3
    try:
        return "out" not in known.bind(*args, **kwargs).arguments
    except TypeError:
        return False


REFUSED = (TypeError, ValueError, IndexError, NotImplementedError, AttributeError)


def traced_results(
    f: Callable[..., Any], args: tuple, kwargs: dict, place: np.ndarray, x: np.ndarray
) -> Iterator[tuple[str, list[bool], bool]]:
    """The call with a traced x in a place: how traced, which results were the tracer, was its memory in a plain result?"""
    found: list = []

    def g(t: Any) -> float:
        out = f(*replaced(args, place, t), **kwargs)
        array = t.primal if type(t) is Tracer and type(t.primal) is np.ndarray else None
        shared = any(type(o) is np.ndarray and array is not None and np.shares_memory(o, array) for o in tree.leaves(out))
        found[:] = own(out, t), shared
        return 0.0

    ways: dict[str, Callable[[], Any]] = {"jit": lambda: funcad.jit(g)(x)}
    if x.dtype.kind in "fc":
        ways["vjp"] = lambda: funcad.vjp(g, x)
        ways["jvp"] = lambda: funcad.jvp(g, (x,), (np.ones_like(x),))
        ways["vjp of jvp"] = lambda: funcad.vjp(lambda y: funcad.jvp(g, (y,), (np.ones_like(x),))[0], x)
    for how, run in ways.items():
        found.clear()
        try:
            run()
        except REFUSED:  # an option that traced values do not have
            continue
        yield how, *found


def numpys(theirs: Any, args: tuple, kwargs: dict) -> Any:
    """What NumPy gives, or None where there is no such call."""
    if not without_out(theirs, args, kwargs):
        return None
    try:
        return theirs(*args, **kwargs)
    except Exception:  # what NumPy refuses is no sample
        return None


def shared(out: Any, x: np.ndarray) -> int:
    """The place in ORDER of what NumPy gave."""
    if any(own(out, x)):
        return 2
    return int(any(isinstance(o, np.ndarray) and np.shares_memory(o, x) for o in tree.leaves(out)))


def seen_in_the_table(name: str) -> int:
    """The most that the functions of tests/surface share with an argument."""
    most = 0
    for case in CASES:
        if case.name in (f"numpy.{name}", name):
            f, leaves = case.over(case.function(resolve(case.name)[1]), ["diff", "traced"])
            arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in leaves]
            out = numpys(f, tuple(arrays), {}) if arrays else None
            most = max([most, *[shared(out, x) for x in arrays if isinstance(x, np.ndarray) and out is not None]])
    return most


@pytest.mark.share(64)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_the_operand_itself_where_numpys_are(name: str) -> None:
    ours, theirs, says = FUNCTIONS[name]
    most = seen_in_the_table(name)
    for x in FLOATS + OTHERS:
        for args, kwargs in calls(x):
            y = x.copy(order="K")
            out = numpys(theirs, replaced(args, x, y), kwargs)
            if out is None or type(out) is list and type(args[0]) is list:  # a list that is given back is no array
                continue
            most = max(most, shared(out, y))
            if not same_value(out, y):
                continue
            for how, found, memory in traced_results(ours, args, kwargs, x, y):
                call = f"{how} of {name}{replaced(args, x, 'x')}, {kwargs}, x: {x.dtype}{x.shape}"
                assert any(found) == any(own(out, y)), f"{call}: {found}, in NumPy {own(out, y)}"
                assert not memory or shared(out, y), f"{call}: a plain result has the operand's memory"
    if says is not None:
        said = ORDER.index(alias_of(says))
        assert said == most or said > most and OLD, f"{name} says {ORDER[said]}, NumPy gives {ORDER[most]}"
        assert alias_of(ours) == ORDER[said] or name.startswith(("ndarray.", "operator."))


# -- another object has the same value and the same derivatives

X = np.array([1.5, -2.5, 0.5])
COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": lambda x: x.copy(),
    "plus": lambda x: +x,
    "concatenate": lambda x: np.concatenate([x]),
    "view": lambda x: x[...],
    "transpose": lambda x: x.T,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "in a deep copy": lambda x: copy.deepcopy({"a": [x]})["a"][0],
}


@pytest.mark.share(3)
@pytest.mark.parametrize("how", COPIES)
def test_derivatives_go_through_another_object(how: str) -> None:
    another = COPIES[how]

    def f(x: Any) -> Any:
        y = another(x)
        assert y is not x
        return np.sum(x * another(y) * y)

    cubes = lambda x: np.sum(x * x * x)
    for transform in (
        funcad.grad,
        funcad.hessian,
        lambda g: funcad.jit(funcad.grad(g)),
        lambda g: funcad.grad(funcad.jit(g)),
        lambda g: lambda x: funcad.vmap(funcad.grad(g))(np.stack([x, 2.0 * x])),
        lambda g: lambda x: funcad.jvp(funcad.grad(g), (x,), (X,))[1],
        lambda g: funcad.grad(lambda x: np.sum(funcad.jvp(g, (x,), (X,))[1])),
        lambda g: funcad.grad(lambda x: np.sum(funcad.grad(lambda y: g(y * x))(another(x)))),
        lambda g: funcad.grad(lambda x: funcad.scan(lambda c, _: (c * another(x), np.sum(c)), x, None, 2)[1].sum() + g(x)),
    ):
        for _ in range(2):  # the second time by what the first one left
            np.testing.assert_allclose(transform(f)(X), transform(cubes)(X), rtol=1e-14)


def test_another_object_lies_in_memory_as_the_first() -> None:
    """Of `w @ w.T` it is not known how NumPy would lay it out, so not of its copies either."""
    w = np.arange(6.0).reshape(2, 3)

    def f(x: Any) -> Any:
        y = np.einsum("ij,kj->ik", x, x)
        for again in (y, copy.copy(y), np.transpose(y, (0, 1))):
            with pytest.raises(TypeError, match="as it lies in memory"):
                again.ravel(order="K")
        return np.sum(fnp.asfortranarray(x).copy("K").ravel("K") * np.arange(6.0))

    assert np.array_equal(funcad.grad(f)(w), np.array([[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]]))
    assert funcad.jvp(f, (w,), (w,))[1] == np.sum(w.ravel("F") * np.arange(6.0))


def test_a_plain_operand_is_copied_as_well() -> None:
    """Beside traced values NumPy's arrays go through the same functions."""
    w = np.arange(3.0)

    def f(x: Any) -> Any:
        for out in (np.choose(1, [x, w]), np.append(w, x[:0]), np.concatenate([w, x[:0]])):
            assert out is not w and not np.shares_memory(np.asarray(funcad.stop_gradient(out)), w)
        return np.sum(x)

    assert np.array_equal(funcad.grad(f)(X), np.ones(3))


def test_numpys_functions_and_methods_say_it() -> None:
    assert [alias_of(f) for f in (np.transpose, np.linalg.diagonal, np.add, np.squeeze)] == ["view", "view", "copy", "same"]
    assert [alias_of(f) for f in (OF_ARRAYS["reshape"], OF_ARRAYS["conj"], OF_OPERATORS["__getitem__"])] == [
        "view",
        "same",
        "view",
    ]
