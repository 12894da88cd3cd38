"""Writes of elements go over arrays that die, on every engine; what others can see is never written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import cond, fori_loop, grad, jit, jvp, lax, make_jaxpr, scan, vjp, while_loop
from funcad.backends.engines import EngineProgram
from funcad.backends.interpreter import Program
from funcad.backends.memory import carries_of
from funcad.configuration import config
from funcad.primitives.basic_indexing import basic_update
from funcad.show.pretty import shown_as
from tests.specs import all_specs

pytestmark = pytest.mark.share(2)  # of its tables of cases

ENGINES = ("interpreter", "numpy", "native")
SHAPE = (9, 12)  # larger than what is passed over as a whole (transforms/cotangents.py)


class Choices:
    """A random program: what it does is drawn once, and is the same whenever it runs."""

    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.constant = self.rng.normal(size=SHAPE)
        self.steps = [self.step(int(self.rng.integers(3))) for _ in range(int(self.rng.integers(3, 10)))]
        self.length = int(self.rng.integers(0, 4))
        self.inner = [self.step(0) for _ in range(int(self.rng.integers(1, 4)))]
        self.body = [self.step(-1) for _ in range(int(self.rng.integers(1, 4)))]
        self.kept = self.rng.integers(0, 4, size=3)

    def index(self, n: int) -> Any:
        kind = self.rng.integers(4)
        i, j = sorted(self.rng.integers(0, n + 1, size=2).tolist())
        if kind == 0:
            return int(self.rng.integers(-n, n))
        if kind == 1:
            return slice(i, j)
        return slice(None, None, -1) if kind == 2 else slice(j - 1 if j else None, None, -2)

    def step(self, depth: int) -> tuple[str, list[Any]]:
        rng = self.rng
        name = str(rng.choice(["set", "add", "mul", "scalar", "several", "window", "view", "sin", "total", "constant", "swap"]))
        if depth and rng.random() < 0.3:
            name = str(rng.choice(["fori", "scan", "while"] if depth > 0 else ["branch", "nested"]))
        index = (self.index(SHAPE[0]), self.index(SHAPE[1]))
        several = rng.integers(-9, 9, size=int(rng.integers(0, 5)))
        return name, [index, several, rng.integers(0, 4, size=3).tolist(), float(rng.normal()), int(rng.integers(-3, 6))]

    def run(self, steps: list[tuple[str, list[Any]]], arrays: list[Any], i: Any = 0) -> list[Any]:
        arrays = list(arrays)
        for name, (index, several, (a, b, c), number, at) in steps:
            x, y = arrays[a], arrays[b]
            if name in ("set", "add", "mul"):
                method = {"set": "set", "add": "add", "mul": "multiply"}[name]
                arrays[a] = getattr(fnp.at(x)[index], method)(y[index] * number + 0.25)
            elif name == "scalar":
                arrays[a] = fnp.at(x)[i, at % 6].set(y[(i + 1) % 4, 1] * number)
            elif name == "several":
                arrays[a] = fnp.at(x)[several, at % 6].add(number * y[several, 2])
            elif name == "window":
                arrays[a] = lax.dynamic_update_slice(x, lax.dynamic_slice(y, (i, at), (2, 3)) * number, (at, i))
            elif name == "view":  # lives past the writes that follow
                arrays[c] = fnp.broadcast_to(x[index[0]] if isinstance(index[0], int) else x[::-1][0], SHAPE)
            elif name == "sin":
                arrays[a] = fnp.sin(x) + y
            elif name == "total":
                arrays[a] = x * fnp.sum(y[index]) * 0.1
            elif name == "constant":
                arrays[a] = self.constant
            elif name == "swap":
                arrays[a], arrays[b] = y, x
            elif name == "branch":
                branches = [lambda *cs, n=n: tuple(self.run(self.inner[:n], list(cs), 1)) for n in (1, 3)]
                arrays = list(cond(x[0, 0] > number, *branches, *arrays))
            elif name == "nested":
                arrays = list(fori_loop(0, 2, lambda k, cs: tuple(self.run(self.inner, list(cs), k)), tuple(arrays)))
            elif name == "fori":
                arrays = list(fori_loop(0, self.length, lambda k, cs: tuple(self.run(self.body, list(cs), k)), tuple(arrays)))
            elif name == "scan":
                def turn(cs: Any, row: Any) -> Any:
                    cs = self.run(self.body, [fnp.at(cs[0])[0].add(row), *cs[1:]], 1)
                    return tuple(cs), cs[1][0]
                found, rows = scan(turn, tuple(arrays), self.constant[: self.length])
                arrays = list(found)
                arrays[b] = fnp.at(arrays[b])[: self.length].add(rows)
            else:
                test = lambda s: s[0] < self.length
                arrays = list(while_loop(test, lambda s: (s[0] + 1, *self.run(self.body, list(s[1:]), s[0])), (0, *arrays))[1:])
        return arrays

    def __call__(self, x: Any, y: Any) -> Any:
        arrays = self.run(self.steps, [x, y, fnp.zeros(SHAPE), x[::-1]])
        return tuple([arrays[k] for k in self.kept])


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def checked(f: Callable[..., Any], expected: Any, args: tuple[np.ndarray, ...], others: tuple[np.ndarray, ...]) -> None:
    """Run several times (each tier of an engine), look at what others see, and write in the results."""
    before = [a.copy() for a in (*args, *others)]
    for _ in range(4):
        found = f(*args)
        for a, b in zip(found, expected):
            same(a, b)
        for a, b in zip((*args, *others), before):
            assert a.tobytes() == b.tobytes()
        for a in found:
            assert not any([np.shares_memory(a, b) for b in others])
            if type(a) is np.ndarray and a.flags.writeable and not any([np.shares_memory(a, b) for b in args]):
                if not any([np.shares_memory(a, b) for b in found if b is not a]):
                    a += 1.0


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", [*range(12), *[pytest.param(n, marks=pytest.mark.slow) for n in range(12, 40)]])
@pytest.mark.parametrize("engine", ENGINES)
def test_random_programs(seed: int, engine: str) -> None:
    program = Choices(seed)
    x, y, dx, dy = np.random.default_rng(seed + 1000).normal(size=(4, *SHAPE))
    if seed % 2:  # what is computed from these is in their order
        x, y = np.asfortranarray(x), np.asfortranarray(y)
    constant = program.constant
    with config.set(engine="interpreter"):
        expected = [np.array(v) for v in program(x, y)]
        total = lambda *xs: sum([fnp.sum(fnp.sin(v)) for v in (*xs, *program(*xs))])
        slope = jvp(total, (x, y), (dx, dy))[1]
    both = grad(total, (0, 1))
    with config.set(engine=engine):
        checked(jit(program), expected, (x, y), (constant,))
        found = both(x, y)
        same(np.sum(found[0] * dx) + np.sum(found[1] * dy), slope)
        checked(both, found, (x, y), (constant,))
        checked(jit(both), found, (x, y), (constant,))


X = np.linspace(-1.0, 1.0, 200)


def text_of(f: Callable[..., Any], *args: Any) -> str:
    """The function that is exported, without what stands in front of it."""
    return jit(f).source(*args).partition("\ndef run(")[2]


def test_source_writes_carries_in_place() -> None:
    f = lambda x: fori_loop(0, 9, lambda i, x: fnp.at(x)[i].set(x[i] * 2.0), x)
    with config.set(engine="numpy"):
        text = text_of(f, X)
        backward = text_of(grad(lambda x: fnp.sum(fori_loop(0, 9, lambda i, x: fnp.at(x)[i].set(fnp.sin(x[i])), x) ** 2)), X)
    loop = text.partition("for ")[2]
    assert any(line.strip().startswith("c") and "] = v" in line for line in loop.splitlines()) and "array(" not in loop
    loop = backward.rpartition("for ")[2]
    assert "] += v" in loop and "array(" not in loop.partition("return")[0]


def test_a_transposed_read_adds_where_it_was_read() -> None:
    """One array of zeros, whatever the number of reads; all engines add in the same order."""

    def f(x: Any) -> Any:
        total = 0.0
        for i in range(20):
            total = total + fnp.sin(x[i]) * x[i + 1]
        return total

    program = funcad.make_jaxpr(grad(f))(X).jaxpr
    names = [e.primitive.name for e in program.equations]
    assert names.count("basic_place") == 1 and names.count("basic_add") == 39
    expected = grad(f)(X)
    for engine in ENGINES:
        with config.set(engine=engine):
            compiled = jit(grad(f))
            for _ in range(3):
                np.testing.assert_allclose(compiled(X), expected, rtol=1e-15)
    with config.set(engine="numpy"):
        text = text_of(grad(f), X)
    assert text.count("] += ") == 39 and text.count("= basic_place_(") == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_carry_that_is_still_read_is_copied(engine: str) -> None:
    """The old carry is wanted after the write: as a difference, as a row, in the place of another carry, as a view."""

    def difference(x: Any) -> Any:
        return fori_loop(0, 7, lambda i, x: fnp.at(x)[i].set(3.0) + x, x)

    def rows(x: Any) -> Any:
        return scan(lambda x, i: (fnp.at(x)[i].add(1.0), x), x, np.arange(7))

    def exchanged(x: Any) -> Any:
        return fori_loop(0, 7, lambda i, c: (fnp.at(c[1])[i].add(c[0][i + 1]), c[0]), (x, x * 2.0))

    def seen(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            view = c[0][3:9]
            x = fnp.at(c[0])[i].set(view[0] + i)
            return x, c[1] + view

        return fori_loop(0, 7, body, (x, np.zeros(6)))

    for f in (difference, rows, exchanged, seen):
        with config.set(engine="interpreter"), funcad.disable_jit():
            expected = [np.array(v) for v in funcad.tree.leaves(f(X))]
        with config.set(engine=engine):
            compiled = jit(f)
            for _ in range(4):
                for a, b in zip(funcad.tree.leaves(compiled(X)), expected):
                    np.testing.assert_allclose(a, b, rtol=1e-15)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("engine", ENGINES)
def test_rows_that_turns_read_take_away_and_write(engine: str, dtype: str) -> None:
    """The row at the counter is read and then written: the row is copied, if that, and one array serves all turns."""
    x = np.arange(60.0).reshape(12, 5).astype(dtype)
    x[3, 2], x[5, 1], x[7] = np.nan, np.inf, -0.0

    def backwards(x: Any) -> Any:  # as the derivative of a recursion along rows
        def turn(c: Any, _: Any) -> Any:
            i, c = c
            row = lax.dynamic_slice(c, (i, 0), (1, 5))
            c = lax.dynamic_update_slice(c, np.zeros((1, 5), dtype), (i, 0))
            c = lax.dynamic_update_slice(c, lax.dynamic_slice(c, (i + 1, 0), (1, 5)) + row * 0.5, (i + 1, 0))
            return (i + 1, c), row * 0.25

        return scan(turn, (0, x), None, length=11)

    def taken_away(x: Any) -> Any:
        def turn(c: Any, i: Any) -> Any:
            row = lax.dynamic_slice(c, (i, 1), (1, 3))
            column = lax.dynamic_slice(c, (0, 1), (12, 1)).reshape(12)
            return lax.dynamic_update_slice(c, row * 2.0 + column[i], (i + 1, 1)), (row.reshape(3), column, row)

        return scan(turn, x, np.arange(11))

    for f, places in ((backwards, [False, True]), (taken_away, [True])):
        (loop,) = [e.params["loop"] for e in make_jaxpr(f)(x).jaxpr.equations if shown_as(e) == "scan"]
        assert [kind == "place" for kind in carries_of(loop)] == places
        with config.set(engine="interpreter"), funcad.disable_jit():
            expected = [np.array(v) for v in funcad.tree.leaves(f(x))]
        with config.set(engine=engine, jit_patience=0):
            before = x.copy()
            for a, b in zip(funcad.tree.leaves(jit(f)(x)), expected, strict=True):
                np.testing.assert_array_equal(a, b)
            assert x.tobytes() == before.tobytes()


@pytest.mark.parametrize("engine", ENGINES)
def test_cotangents_that_others_hold_are_not_written(engine: str) -> None:
    """The caller's cotangent, and one that two arrays share, stay as they are; a pullback can be called again."""

    def f(x: Any) -> Any:
        y = fnp.at(x)[2].set(x[3] * 2.0)
        return fnp.at(y)[5:9].add(x[:4]), y + fnp.at(x)[1].set(0.0)

    ct = np.cos(X), np.sin(X)
    before = [c.copy() for c in ct]
    with config.set(engine=engine):
        _, pullback = vjp(f, X)
        first = [np.array(v) for v in pullback(ct)]
        pulled = jit(lambda x, *cts: vjp(f, x)[1](cts))
        for found in (pullback(ct), pulled(X, *ct), pulled(X, *ct), pulled(X, *ct)):
            np.testing.assert_allclose(found[0], first[0], rtol=1e-15)
            assert all([a.tobytes() == b.tobytes() for a, b in zip(ct, before)])


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16", "i8", "?"])
@pytest.mark.parametrize("shape", [(0,), (3, 0), (5, 7)])
@pytest.mark.parametrize("engine", ENGINES)
def test_kinds_of_arrays(engine: str, shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 3, shape).astype(dtype)
    u = np.ones_like(x[..., :2])

    def f(x: Any) -> Any:
        def body(i: Any, c: Any) -> Any:
            c = lax.dynamic_update_slice(c, u, (0,) * c.ndim) if u.size else c
            return fnp.at(c)[..., ::-2].set(c[..., ::-2])

        x = fnp.at(x)[..., 1:].add(x[..., 1:])
        return fori_loop(0, 3, body, x)

    with config.set(engine="interpreter"), funcad.disable_jit():
        expected = np.array(f(x))
    for given in (x, np.asfortranarray(x), np.repeat(x, 2, axis=-1)[..., ::2], np.broadcast_to(x, x.shape)):
        with config.set(engine=engine):
            for _ in range(3):
                found = jit(f)(given)
                assert found.dtype == x.dtype and found.tobytes() == expected.tobytes()
        assert given.tobytes() == x.tobytes()


def test_an_index_out_of_bounds_after_a_write_leaves_the_argument_alone() -> None:
    x = X.copy()
    f = lambda x, i: fnp.at(fnp.at(x)[0].set(9.0))[i].add(1.0)
    for engine in ENGINES:
        with config.set(engine=engine):
            compiled = jit(f)
            for _ in range(3):
                with pytest.raises(IndexError):
                    compiled(x, 200)
                assert compiled(x, 1)[1] == x[1] + 1.0 and x.tobytes() == X.tobytes()


@pytest.mark.slow
def test_derivatives_of_what_was_written() -> None:
    """The second derivatives of both nestings, of batches and of bodies that are run again."""

    def f(x: Any) -> Any:
        y = fnp.at(x)[3].set(x[4] * x[5])
        y = fori_loop(0, 6, lambda i, y: fnp.at(y)[i + 1].multiply(fnp.sin(y[i])), y)
        y = fnp.at(y)[np.array([2, 2, 9])].add(lax.dynamic_slice(y, (x.size - 5,), (3,)))
        return fnp.sum(y[::3] * y[1] * y[7]) + fnp.sum(y[10:14] ** 3)

    v = np.cos(X)
    hvp = lambda g: jvp(g, (X,), (v,))[1]
    expected = hvp(grad(f))
    step = 1e-6
    np.testing.assert_allclose(expected, (grad(f)(X + step * v) - grad(f)(X - step * v)) / (2 * step), atol=1e-8)
    again = funcad.checkpoint(f)
    for engine in ENGINES:
        with config.set(engine=engine):
            for g in (grad(f), jit(grad(f)), grad(jit(f)), grad(again), jit(grad(again))):
                for _ in range(3):
                    np.testing.assert_allclose(hvp(g), expected, rtol=1e-10, atol=1e-12)
            for g in (f, jit(f)):
                other = grad(lambda x, g=g: fnp.sum(grad(g)(x) * v))
                np.testing.assert_allclose(other(X), expected, rtol=1e-10, atol=1e-12)
            rows = np.stack([X, v, X * v])
            for _ in range(3):
                found = funcad.vmap(grad(f))(rows)
                np.testing.assert_allclose(found, [grad(f)(r) for r in rows], rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(funcad.hessian(f)(X) @ v, expected, rtol=1e-10, atol=1e-10)


WRITERS = [s for s in all_specs() if s.primitives[0].over is not None]


@pytest.mark.parametrize("spec", WRITERS, ids=lambda s: s.id)
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_what_is_written_over_is_what_a_copy_would_be(spec: Any, order: str) -> None:
    """In arrays of any memory order; the result is the array itself, and the other operands stay as they are."""
    for args in spec.samples():
        program, values = spec.program(args)
        (equation,) = [e for e in program.equations if e.primitive.over is not None]
        known = dict(zip(program.inputs, values))
        x, *others = [known[a] if a in known else a.value for a in equation.inputs]
        if not np.ndim(x):
            continue
        orders = {"C": np.array(x, order="C"), "F": np.array(x, order="F"), "strided": np.repeat(x, 2, axis=0)[::2]}
        given, before = orders[order], [np.array(v) for v in others]
        expected = equation.primitive.impl(np, x.copy(), *others, **equation.params)
        found = equation.primitive.over(np, given, *others, **equation.params)
        assert found is given and found.tobytes() == expected.tobytes()
        assert all([np.array_equal(a, b) for a, b in zip(others, before)])


@pytest.mark.parametrize("engine", ENGINES)
def test_an_array_that_is_written_whole_is_not_the_array_that_was_written_there(engine: str) -> None:
    """Seed 1012894 of the engine fuzz: native code gave the argument itself, which a framed write that covers all is."""
    program = make_jaxpr(lambda a, b: basic_update(b, a, ((0, 17, 1),)))(np.zeros(17), np.zeros(17)).jaxpr
    with config.set(engine=engine):
        compiled = EngineProgram(program, engine) if engine != "interpreter" else Program(program)
        compiled.written_out()
        a, b = np.arange(17.0), np.ones(17)
        (out,) = compiled.run([a, b])
        assert out.tolist() == a.tolist() and not np.shares_memory(out, a) and not np.shares_memory(out, b)
