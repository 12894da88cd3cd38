"""The NumPy engine against the reference backend: results, memory, loops, groups, scalars, errors."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import (
    ShapeDtypeStruct,
    cond,
    config,
    fori_loop,
    grad,
    io_callback,
    jit,
    jvp,
    pure_callback,
    scan,
    tree,
    value_and_grad,
    vmap,
    while_loop,
)
from funcad.backends import tiles
from funcad.backends.emission import generate
from funcad.backends.interpreter import Program
from funcad.ir.aval import Stack
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from funcad.primitives.arithmetic import add, mul, sub
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.transcendental import exp, sin, tanh
from funcad.scipy import special
from tests.agreement import assert_agree
from tests.fuzzing import tiny_tiles
from tests.programs import PROGRAMS
from tests.specs import all_specs

pytestmark = pytest.mark.filterwarnings("ignore:grad. the output of f does not depend")


def lowered(f: Any, *args: Any) -> tuple[Jaxpr, list[Any]]:
    low = jit(f).lower(*args)
    return low.jaxpr, [*low._entry.consts, *tree.leaves(args)]


def size(x: Any) -> float:
    x = np.asarray(x)
    return float(np.sum(np.abs(x[np.isfinite(x)]))) if x.dtype.kind in "fc" else 0.0


def check(jaxpr: Jaxpr, leaves: list[Any], passes: Any = fuse, what: str = "") -> Any:
    """The generated program gives what the reference gives, and writes no input."""
    before = [np.array(x) if isinstance(x, np.ndarray) else x for x in leaves]
    with np.errstate(all="ignore"):
        program = generate(passes(jaxpr))
        values = list(leaves)
        try:
            expected = Program(jaxpr).run(list(leaves))
        except ArithmeticError as error:  # what Python refuses
            with pytest.raises(type(error), match=re.escape(str(error))):
                program.function(values)
            return program
        found = program.function(values)
        assert not values
    for a, b in zip(found, expected, strict=True):
        if isinstance(b, Stack):
            assert len(a) == len(b)
            continue
        a, b = [x[()] if isinstance(x, np.ndarray) and not x.ndim else x for x in (a, b)]
        assert_agree(a, b, scale=1e3 * max(1.0, size(b)), what=f"{what}\n{program.text}")
    for x, old in zip(leaves, before):
        assert not isinstance(old, np.ndarray) or x.tobytes() == old.tobytes(), f"{what} wrote an input\n{program.text}"
    return program


@pytest.fixture
def tiny() -> Iterator[None]:
    with tiny_tiles():
        yield


STRAIGHT = [p for p in PROGRAMS if not p.following and "callback" not in p.name]


def floats_of(args: tuple) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(args) if all(np.asarray(x).dtype.kind == "f" for x in tree.leaves(a)))


def total(p: Any) -> Any:
    def f(*args: Any) -> Any:
        leaves = [x for x in tree.leaves(p.f(*args)) if funcad.ir.aval.dtype_of(x).kind in "fc"]
        return sum(np.sum(np.real(x)) for x in leaves)

    return f


@pytest.mark.share(3)
@pytest.mark.parametrize("p", STRAIGHT, ids=lambda p: p.name)
def test_programs(p: Any) -> None:
    args = p.make_args()
    check(*lowered(p.f, *args), what=p.name)
    if p.order and floats_of(args):
        check(*lowered(grad(total(p), floats_of(args)), *args), what=f"grad of {p.name}")


@pytest.mark.share(3)
@pytest.mark.parametrize("p", STRAIGHT, ids=lambda p: p.name)
def test_programs_in_tiny_tiles(p: Any, tiny: None) -> None:
    args = p.make_args()
    check(*lowered(p.f, *args), what=p.name)
    if p.order and floats_of(args):
        check(*lowered(grad(total(p), floats_of(args)), *args), what=f"grad of {p.name}")


@pytest.mark.slow  # tests/backends/test_engines.py has them in larger tiles
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in all_specs()])
def test_every_operation(op: Any, tiny: None) -> None:
    for args in op.samples():
        jaxpr, leaves = lowered(op.of_variables(args), *[args[i] for i in op.variables(args)])
        for x in leaves:
            if isinstance(x, np.ndarray):
                x.flags.writeable = False
        check(jaxpr, leaves, what=op.id)


# ---- random programs


def random_program(seed: int) -> tuple[Any, list[np.ndarray]]:
    rng = np.random.default_rng(seed)
    shape = [(5, 7), (6, 6), (1, 4), (8, 1), (3, 2, 4), (9,), (0, 3)][seed % 7]
    dtype = [np.float64, np.float32, np.complex128][seed % 3]
    args = [rng.normal(size=s).astype(dtype) for s in (shape, shape[-1:], shape)]
    steps = rng.integers(0, 12, size=14)
    picks = rng.integers(0, 1000, size=(14, 2))

    def f(*xs: Any) -> list[Any]:
        values = list(xs)
        for step, (i, j) in zip(steps, picks):
            a, b = values[i % len(values)], values[j % len(values)]
            made = [
                lambda a, b: a + b,
                lambda a, b: a * 0.5 - b,
                lambda a, b: np.sin(a) * b,
                lambda a, b: np.tanh(a),
                lambda a, b: np.exp(-a * a) if a.dtype.kind == "f" else a * 2.0,
                lambda a, b: a - np.mean(a, axis=-1, keepdims=True) if a.size else a,
                lambda a, b: a * np.sum(b),
                lambda a, b: np.where(np.real(a) > 0, a, b * 0.1),
                lambda a, b: a[..., ::-1] + b,
                lambda a, b: np.sum(a, axis=0) + b,
                lambda a, b: a.T.reshape(-1)[: a.size],
                lambda a, b: np.real(a) + b,
            ][step]
            try:
                values.append(made(a, b))
            except ValueError:  # these two do not broadcast
                values.append(a)
        return values[3:]

    return f, args


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(42))
def test_random_programs(seed: int) -> None:
    f, args = random_program(seed)
    check(*lowered(f, *args))


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(42))
def test_random_programs_in_tiny_tiles(seed: int, tiny: None) -> None:
    f, args = random_program(seed)
    jaxpr, leaves = lowered(f, *args)
    check(jaxpr, leaves)
    check(jaxpr, [np.asfortranarray(x) for x in leaves])
    check(jaxpr, [np.flip(np.flip(x).copy()) for x in leaves])
    check(jaxpr, [np.broadcast_to(x.reshape(-1)[:1].reshape((1,) * x.ndim), x.shape) if x.size else x for x in leaves])


# ---- loops

X, Y = np.linspace(-1.0, 1.0, 12).reshape(3, 4), np.linspace(0.3, 2.0, 12).reshape(3, 4)
W = np.linspace(-0.5, 0.5, 16).reshape(4, 4)



def before_and_after(c: Any, r: Any) -> Any:
    new = np.sin(c) * 0.9 + r
    return new, (c, new, c)


LOOPS = {
    "rows": lambda x, y: scan(lambda c, r: (np.tanh(c + r), c * r), y[0], x),
    "fibonacci": lambda x, y: scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (x, y), None, length=5),
    "same twice": lambda x, y: scan(lambda c, _: ((c[0] + c[1],) * 2, c[1]), (x, y), None, length=4),
    "fixed": lambda x, y: scan(lambda c, r: ((c[0], c[1] * 0.5), c[0]), (x, y), x),
    "constant carry": lambda x, y: scan(lambda c, r: (y, c + r[0]), x, x),
    "transposed": lambda x, y: scan(lambda c, _: (c.T @ W, c), W, None, length=3),
    "view of the carry": lambda x, y: scan(lambda c, _: (np.sin(c)[::-1], np.sum(c)), x, None, length=4),
    "before and after": lambda x, y: scan(before_and_after, y[0], x),
    "numbers before and after": lambda x, y: scan(before_and_after, 0.25, x[0], reverse=True),
    "one step": lambda x, y: scan(before_and_after, y[0], x[:1]),
    "no step": lambda x, y: scan(before_and_after, y[0], x[:0]),
    "before and after in rows": lambda x, y: scan(lambda c, r: scan(before_and_after, c, y), x[0], x),
    "reverse": lambda x, y: scan(lambda c, r: (c * 0.9 + r, (c, np.sum(c))), y[0], x, reverse=True),
    "scalars": lambda x, y: scan(lambda c, r: (c + r, (c, 2.0 * r)), 0.5, x[0]),
    "counter": lambda x, y: scan(lambda c, r: ((c[0] + 1, c[1] * c[0]), c[0]), (0, x), None, length=3),
    "empty": lambda x, y: scan(lambda c, r: (c + r, c), y[0], x[:0]),
    "nested": lambda x, y: scan(lambda c, r: scan(lambda d, s: (d * 0.5 + s, d), c, y), x[0], x),
    "nested state": lambda x, y: scan(
        lambda c, r: (scan(lambda d, s: (np.sin(d) @ W + s, None), c, y)[0], c), x[0], x
    ),
    "conditional": lambda x, y: scan(
        lambda c, r: (cond(np.sum(c) > 0, lambda c: np.sin(c) + r, lambda c: c * 2.0, c), c), y[0], x
    ),
    "while": lambda x, y: while_loop(lambda s: np.sum(s[1]) < 30, lambda s: (s[0] + 1, s[1] * 1.5 + y, s[2]), (0, y, x)),
    "while swap": lambda x, y: while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[2], np.sin(s[1]) + s[2]), (0, x, y)),
    "branches": lambda x, y: funcad.switch(
        np.where(x[0, 0] > 0, 2, 1), [lambda x: (x, x), lambda x: (x * 2, y), lambda x: (y, x.T.reshape(3, 4))], x
    ),
    "gradient": lambda x, y: grad(
        lambda w: np.sum(scan(lambda h, r: (np.tanh(h @ w + r), h), y, np.broadcast_to(x, (5, 3, 4)))[0])
    )(W),
    "gradient of while": lambda x, y: grad(
        lambda x: np.sum(y * while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, np.sin(s[1])), (0, x))[1])
    )(x),
    "tangent": lambda x, y: jvp(lambda x: scan(lambda c, r: (c * r, np.exp(c)), y[0], x), (x,), (y,)),
    "mapped": lambda x, y: vmap(lambda r, s: scan(lambda c, q: (c + np.sin(q), c), s[0], r))(x, y),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", list(LOOPS))
@pytest.mark.parametrize("order", ["C", "F"])
def test_loops(name: str, order: Any) -> None:
    jaxpr, leaves = lowered(LOOPS[name], X.copy(order=order), Y.copy(order=order))
    program = check(jaxpr, leaves, what=name)
    first = program.function(list(leaves))
    kept = [np.array(a) if not isinstance(a, Stack) else None for a in first]
    for _ in range(3):
        program.function([np.array(x) * 0.5 if isinstance(x, np.ndarray) else x for x in leaves])
    for a, b in zip(first, kept):
        assert b is None or np.array_equal(a, b, equal_nan=True)


def test_a_recurrent_net_allocates_nothing_in_its_loop() -> None:
    f, args = LOOPS["gradient"], (X, Y)
    text = generate(lowered(f, *args)[0]).text
    for line in text[text.index("for ") : text.rindex("return")].splitlines():
        call = line.strip()
        if line.startswith(" " * 8) and call.startswith("np."):
            assert call.count("(") == 1 and call[3:].startswith(("add(", "multiply(", "subtract(", "tanh(")), call


# ---- groups, built by hand


def group(kind: str, shape: tuple, inputs: list[Var], equations: list[Equation], outputs: list[Var]) -> Jaxpr:
    inner = Jaxpr(tuple(inputs), tuple(equations), tuple(outputs))
    outer_in = tuple([Var(v.aval) for v in inputs])
    outer_out = tuple([Var(v.aval) for v in outputs])
    params = {"jaxpr": inner, "kind": kind, "shape": shape}
    return Jaxpr(outer_in, (Equation(fused_p, outer_in, params, outer_out),), outer_out)


def var(*shape: int, dtype: Any = np.float64) -> Var:
    return Var(funcad.ir.aval.Aval(shape, np.dtype(dtype)))


@pytest.mark.parametrize("shape", [(5, 5), (4, 7), (64, 300), (300, 300), (1, 9), (9, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_groups_of_rows(shape: tuple, dtype: Any, tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "TILE_BYTES", 4096)
    R, N = shape
    full, row, column, scalar = [var(*s, dtype=dtype) for s in ((R, N), (R,), (N,), ())]
    names = ["rb", "cb", "sb", "a", "b", "e", "z", "sum", "max", "cs", "rs", "out"]
    v = {n: var(R, N, dtype=dtype) for n in names}
    v.update(z=var(R, dtype=dtype), max=var(R, dtype=dtype), cs=var(N, dtype=dtype), rs=var(dtype=dtype))

    def eq(p: Any, inputs: tuple, out: str, **params: Any) -> Equation:
        return Equation(p, inputs, params, (v[out],))

    equations = [
        eq(broadcast_in_dim, (row,), "rb", shape=shape, axes=(0,)),
        eq(broadcast_in_dim, (column,), "cb", shape=shape, axes=(1,)),
        eq(broadcast_in_dim, (scalar,), "sb", shape=shape, axes=()),
        eq(mul, (full, v["cb"]), "a"),
        eq(sub, (v["a"], v["rb"]), "b"),
        eq(tanh, (v["b"],), "e"),
        eq(reduce_sum_p, (v["e"],), "z", axes=(1,)),
        eq(reduce_max_p, (v["e"],), "max", axes=(1,)),
        eq(reduce_sum_p, (v["e"],), "cs", axes=(0,)),
        eq(reduce_sum_p, (v["z"],), "rs", axes=(0,)),
        eq(mul, (v["e"], v["sb"]), "out"),
    ]
    jaxpr = group("rows", shape, [full, row, column, scalar], equations, [v[n] for n in ("out", "z", "max", "cs", "rs")])
    rng = np.random.default_rng(0)
    leaves = [rng.normal(size=s).astype(dtype)[()] for s in ((R, N), (R,), (N,), ())]
    check(jaxpr, leaves, passes=lambda j: j)
    check(jaxpr, [np.asfortranarray(leaves[0]), *leaves[1:]], passes=lambda j: j)


@pytest.mark.parametrize("shape", [(12,), (3, 1000), (1000, 3), (2, 3, 50)])
def test_elementwise_groups(shape: tuple, tiny: None) -> None:
    full, other = var(*shape), var(*[n if i else 1 for i, n in enumerate(shape)])
    wide, a, b, c, s, m = var(*shape), var(*shape), var(*shape), var(*shape), var(), var()
    equations = [
        Equation(broadcast_in_dim, (other,), {"shape": shape, "axes": tuple(range(len(shape)))}, (wide,)),
        Equation(mul, (full, wide), {}, (a,)),
        Equation(sin, (a,), {}, (b,)),
        Equation(reduce_sum_p, (b,), {"axes": tuple(range(len(shape)))}, (s,)),
        Equation(reduce_max_p, (a,), {"axes": tuple(range(len(shape)))}, (m,)),
        Equation(add, (b, Literal(1.0)), {}, (c,)),
    ]
    jaxpr = group("elementwise", shape, [full, other], equations, [c, a, s, m])
    rng = np.random.default_rng(1)
    check(jaxpr, [rng.normal(size=full.aval.shape), rng.normal(size=other.aval.shape)], passes=lambda j: j)


@pytest.mark.parametrize("shape", [(40, 30), (30, 3), (7, 12, 5)])
@pytest.mark.parametrize("derive", [lambda f: f, value_and_grad], ids=["value", "gradient"])
def test_groups_over_parts_of_arrays_copy_no_operand(shape: tuple, derive: Any, tiny: None) -> None:
    """Where rows lie apart, a group is cut along the first axis; flattening would copy each operand."""
    inside = (slice(1, -1),) * len(shape)
    before, after = (slice(None, -2), *inside[1:]), (*inside[:-1], slice(2, None))

    def step(u: Any, _: Any) -> Any:
        change = u[before] + u[after] - 4.0 * u[inside]
        return u.at[inside].set(u[inside] + 0.2 * change), None

    f = derive(lambda u: np.sum(scan(step, u, None, length=5)[0] ** 2))
    u = np.random.default_rng(0).normal(size=shape)
    expected = f(u)
    with funcad.config.set(engine="numpy"):
        j = jit(f)
        for _ in range(3):
            for a, b in zip(tree.leaves(j(u)), tree.leaves(expected)):
                np.testing.assert_allclose(a, b, rtol=1e-12)
        text = j.source(u)
    body = text[text.index("for _ in range(5)") :].partition("    u = None")[0]
    assert "fused(" in body and "reshape(-1)" not in body


def test_kernels_take_the_place_of_groups() -> None:
    x, y = var(4), var(4)
    jaxpr = group("elementwise", (4,), [x], [Equation(exp, (x,), {}, (y,))], [y])
    program = generate(jaxpr, kernels=lambda equation: lambda a: [a + 1.0])
    assert "kernel_(v0)" in program.text
    assert program.function([np.zeros(4)])[0].tolist() == [1.0] * 4


# ---- memory


def test_results_are_kept_while_the_program_runs_again() -> None:
    n = 50_000  # pooled
    jaxpr, leaves = lowered(lambda x, y: (np.sin(x) * y, x + y, np.sum(x), (x * y)[::2]), np.ones(n), np.arange(n) * 1.0)
    program = generate(fuse(jaxpr))
    kept = []
    for i in range(100):
        outs = program.function([leaves[0] * i, leaves[1]])
        kept = kept[-5:] + [(i, outs, outs[3][10:20], [np.array(o) for o in outs])]
        for j, results, view, copies in kept:
            assert all(np.array_equal(a, b) for a, b in zip(results, copies)), (i, j)
            assert np.array_equal(view, copies[3][10:20])
        arrays = [a for _, results, *_ in kept for a in results if isinstance(a, np.ndarray)]
        for k, a in enumerate(arrays):
            assert not any(np.shares_memory(a, b) for b in arrays[:k])


def test_donated_inputs_are_written_and_no_others() -> None:
    jaxpr, (x, y) = lowered(lambda x, y: np.tanh(x * y + x), np.ones(8), np.ones(8) * 2.0)
    x.flags.writeable = False
    program = generate(jaxpr, donated={1})
    (out,) = program.function([x, y])
    assert np.array_equal(out, np.full(8, np.tanh(3.0)))
    assert generate(jaxpr).function([x, np.full(8, 2.0)])[0].base is None
    (again,) = generate(lowered(lambda x: np.sin(x) + 1.0, y)[0], donated={0}).function([y])
    assert again is y


def test_a_callback_keeps_what_it_saw() -> None:
    seen: list[Any] = []

    def look(x: Any) -> Any:
        seen.append(x)
        return np.float64(0)

    jaxpr, leaves = lowered(lambda x: np.tanh(np.sin(x) * 2.0 + pure_callback(look, np.float64(0), np.sin(x))), np.ones(500))
    program = generate(jaxpr)
    for i in range(3):
        program.function([leaves[0] * i])
        assert all(np.array_equal(s, np.sin(np.ones(500) * k)) for k, s in enumerate(seen))


def _seen_by(kind: str, keep: list[Any]) -> Any:
    """A function that gives its argument back, after a callback of this kind has kept that, with a copy."""

    def note(a: Any) -> Any:
        keep.append((a, np.array(a)))
        return None if kind in ("debug", "io") else a

    as_it_is = lambda c: ShapeDtypeStruct(c.shape, c.dtype)
    return {
        "debug": lambda c: (funcad.debug.callback(note, c), c)[1],
        "io": lambda c: (io_callback(note, None, c, ordered=True), c)[1],
        "io with a result": lambda c: io_callback(note, as_it_is(c), c),
        "pure": lambda c: pure_callback(note, as_it_is(c), c, vmap_method="sequential"),
    }[kind]


SEEN_IN_LOOPS = {
    "scan": lambda r: lambda x: scan(lambda c, t: (r(c) + t, None), x, np.ones((4, x.size)))[0],
    "a temporary": lambda r: lambda x: scan(lambda c, t: (c + r(np.cumsum(c) * t), None), x, np.ones((4, x.size)))[0],
    "a row": lambda r: lambda x: scan(lambda c, t: (r(c + t), c + t), x, np.ones((4, x.size))),
    "a part": lambda r: lambda x: fori_loop(0, 4, lambda i, c: c + np.sum(r(c[1:])), x),
    "while": lambda r: lambda x: while_loop(lambda c: c[0] < 3, lambda c: r(c) + 1, x),
    "exchanged": lambda r: lambda x: fori_loop(0, 4, lambda i, c: (r(c[1]) * 1.5, c[0] + 1), (x, x * 2)),
    "nested": lambda r: lambda x: fori_loop(0, 3, lambda i, c: fori_loop(0, 3, lambda j, d: r(d) + 1, r(c)) * 2, x),
    "a branch": lambda r: lambda x: fori_loop(0, 4, lambda i, c: cond(c[0] > 2, lambda c: r(c) + 1, lambda c: r(c) + 2, c), x),
}
WAYS = {"plain": lambda f: f, "jit": jit, "vmap": vmap, "jvp": lambda f: lambda x: jvp(f, (x,), (x,))}


@pytest.mark.share(4)
@pytest.mark.parametrize("engine", ["numpy", "auto"])
@pytest.mark.parametrize("kind", ["debug", "io", "io with a result", "pure"])
@pytest.mark.parametrize("loop", SEEN_IN_LOOPS)
@pytest.mark.parametrize("way", WAYS)
def test_a_callback_in_a_loop_keeps_what_it_saw(engine: str, kind: str, loop: str, way: str) -> None:
    keep: list[Any] = []
    if way == "jvp" and kind in ("pure", "io with a result"):
        pytest.skip("it has no derivative")
    with config.set(engine=engine):
        f = WAYS[way](SEEN_IN_LOOPS[loop](_seen_by(kind, keep)))
        for _ in range(4):
            before = len(keep)
            results = f(np.full((2, 5) if way == "vmap" else 5, 0.1))
            if loop == "a row":
                tree.leaves(results)[-1][...] = -7.0  # the user's own
            first = [copy for _, copy in keep[:before]] or [copy for _, copy in keep]
            now = [copy for _, copy in keep[before:]]
            assert len(now) and all(np.allclose(a, b) for a, b in zip(now, first, strict=False))
    assert all(np.array_equal(a, copy) for a, copy in keep)


# ---- scalars

SCALARS = {
    "arithmetic": lambda x: np.sin(x) * x + np.exp(-x * x) / (1.0 + x**2) - np.tanh(x) ** 3,
    "comparison": lambda x: np.where(x > 0, np.log(x), 0.0) + np.maximum(x, 0.25),
    "weak": lambda x: x * 2 + 1,
    "integers": lambda x: np.where(x > 1, 2.0 * x, 0) * -1,
    "powers": lambda x: x**-1 + np.sqrt(x) + x**0.5 + np.arctan2(x, 2.0),
    "predicate": lambda x: (x > 0.5, np.isnan(x), x == x),
}


@pytest.mark.parametrize("name", list(SCALARS))
@pytest.mark.parametrize("derive", [lambda f: f, value_and_grad], ids=["value", "gradient"])
@pytest.mark.parametrize("kind", [float, np.float64])
def test_scalar_programs(name: str, derive: Any, kind: Any) -> None:
    f = SCALARS[name] if name == "predicate" else derive(SCALARS[name])
    jaxpr, _ = lowered(f, kind(0.7))
    assert generate(jaxpr).quiet
    for x in (0.7, 1.5, -2.0, 0.0, -0.0, 1e300, -1e-320, np.inf, -np.inf, np.nan):
        check(jaxpr, [kind(x)], passes=lambda j: j, what=f"{name} at {x}")


def test_math_agrees_with_numpy_to_an_ulp() -> None:
    rng = np.random.default_rng(0)
    for name in "sin cos tan exp log log1p expm1 tanh sinh cosh arctan sqrt log2 log10 arcsinh".split():
        jaxpr, _ = lowered(getattr(np, name), 1.0)
        run = generate(jaxpr).function
        for x in np.abs(rng.normal(size=200)):
            assert_agree(run([float(x)])[0], getattr(np, name)(x), ulps=2, what=name)


# ---- errors


def singular(m: Any) -> Any:
    s = m * 1.0
    return np.linalg.inv(s)


@pytest.mark.parametrize(
    "f",
    [
        singular,
        lambda m: scan(lambda c, _: (singular(c), None), m, None, length=3)[0],
        lambda m: cond(np.sum(m) < 1.0, singular, lambda u: u, m),
        lambda m: while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, singular(s[1])), (0, m))[1],
        jit(singular),
    ],
    ids=["plain", "scan", "cond", "while", "call"],
)
def test_errors_name_the_users_line(f: Any) -> None:
    jaxpr, leaves = lowered(f, np.zeros((2, 2)))
    program = generate(jaxpr)
    with pytest.raises(np.linalg.LinAlgError) as caught, np.errstate(invalid="ignore"):  # as all who call it do
        program.function(leaves)
    program.note(caught.value)
    (note,) = caught.value.__notes__
    assert f"{__file__}:{singular.__code__.co_firstlineno + 2} " in note
    assert [e.filename for e in traceback.extract_tb(caught.value.__traceback__)].count("<funcad>") == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_logistic_function_asks_no_mask(dtype: Any) -> None:
    x = np.array([-np.inf, -800.0, -1.5, -0.0, 0.0, 2.5, 90.0, np.inf, np.nan], dtype)
    f = lambda x: special.expit(x)
    program = check(*lowered(f, x), passes=lambda j: fuse(optimize(j)))
    assert "where" not in program.text and "minimum" in program.text
    with config.set(engine="interpreter"):
        expected = f(x)
    with config.set(engine="numpy"):
        np.testing.assert_array_max_ulp(jit(f)(x)[:-1], expected[:-1], 2)


def test_operations_on_broadcasts_that_are_not_made() -> None:
    """v (1 - v) of a column is computed for the column; what a sum reads is made."""
    spread = lambda a, v: np.broadcast_to(v[:, None], a.shape)
    a, v = np.arange(12.0).reshape(3, 4), np.linspace(0.0, 1.0, 3)
    for f, broadcasts in (
        (lambda a, v: a * (spread(a, v) * (1.0 - spread(a, v))) + np.exp(spread(a, v) * 2.0), 0),
        (lambda a, v: np.sum(np.exp(spread(a, v) * 2.0), axis=0) + a, 1),
    ):
        text = check(*lowered(f, a, v), passes=lambda j: j).text
        assert text.count("broadcast_in_dim_") == broadcasts, text
