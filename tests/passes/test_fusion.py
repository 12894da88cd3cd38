"""Fusion (passes/fuse.py): what runs together, the normal form of groups, and that the program means what it meant."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.interpreter import Program
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, subjaxprs
from funcad.passes.fuse import MATRIX, fuse
from funcad.primitives.atoms import fold_of
from tests.agreement import assert_agree
from tests.programs import PROGRAMS


def lowered(f: Any, *args: Any) -> Jaxpr:
    return funcad.jit(f).lower(*args).jaxpr


def groups(jaxpr: Jaxpr) -> list[Equation]:
    return [e for e in jaxpr.equations if e.primitive.name == "fused"]


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.primitive.name for e in jaxpr.equations]


def check_group(equation: Equation) -> None:
    """The normal form that primitives/fused.py promises to engines."""
    inner, kind, shape = (equation.params[k] for k in ("jaxpr", "kind", "shape"))
    assert len(inner.equations) > 1 and not any(isinstance(o, Literal) or o in inner.inputs for o in inner.outputs)
    shapes = {shape} if kind == "elementwise" else {shape, shape[:1], shape[1:], ()}
    accumulated = set()
    for e in inner.equations:
        name, (out,) = e.primitive.name, e.outputs
        variables = [a for a in e.inputs if not isinstance(a, Literal)]
        assert not accumulated & set(variables), "an accumulated value is read inside"
        if name == "broadcast_in_dim":
            assert e.inputs[0] in inner.inputs or kind == "rows"
            assert out.aval.shape in shapes
        elif fold_of(e.primitive) or name == "dot_general":
            if kind == "elementwise":
                assert e.params["axes"] == tuple(range(len(shape)))
                accumulated.add(out)
            elif fold_of(e.primitive):
                (x,) = e.inputs
                assert x.aval.shape in (shape, shape[:1]) and len(e.params["axes"]) == 1
                if e.params["axes"] == (0,):
                    accumulated.add(out)
            else:
                assert [len(v.aval.shape) for v in variables] == [2, 1]
                if e.params["dimension_numbers"][0][0] == (0,):
                    accumulated.add(out)
        else:
            assert e.primitive.emit is not None, name
            assert {v.aval.shape for v in variables} <= {out.aval.shape} and out.aval.shape in shapes
    for v in inner.inputs:
        assert kind == "elementwise" or v.aval.shape in shapes


def check(jaxpr: Jaxpr, args: Any = None, seed: int = 0) -> Jaxpr:
    """The fused program, checked; its results compared on random arguments."""
    fused = fuse(jaxpr)
    check_jaxpr(fused)
    for e in groups(fused):
        check_group(e)
    rng = np.random.default_rng(seed)
    if args is None:
        args = [np.asarray(rng.normal(size=v.aval.shape)).astype(v.aval.dtype)[()] for v in jaxpr.inputs]
    with np.errstate(all="ignore"):
        expected, found = Program(jaxpr).run(list(args)), Program(fused).run(list(args))
    for x, y in zip(found, expected):
        # contractions and full sums may be split into rows
        size = max([np.size(a) for a in args], default=1)
        largest = max([float(np.max(np.abs(a), initial=0.0)) for a in args if np.asarray(a).dtype.kind in "fc"], default=1.0)
        assert_agree(x, y, scale=size * max(largest, 1.0) ** 3)
    return fused


def test_elementwise_chain_is_one_group() -> None:
    x = np.linspace(0.1, 1.0, 12).reshape(3, 4)
    fused = check(lowered(lambda x: np.sin(x) * np.exp(-x * x) + 1.0, x))
    assert names(fused) == ["fused"] and groups(fused)[0].params["kind"] == "elementwise"


def test_sum_over_everything_is_accumulated() -> None:
    fused = check(lowered(lambda x: np.sum(np.sin(x) * x), np.ones((3, 4))))
    assert names(fused) == ["fused"] and groups(fused)[0].params["kind"] == "elementwise"


def test_broadcast_belongs_to_its_readers() -> None:
    def f(x: Any, b: Any) -> Any:
        return np.tanh(x + b) * b

    fused = check(lowered(f, np.ones((3, 4)), np.ones(4)))
    assert names(fused) == ["fused"]
    assert groups(fused)[0].inputs[1].aval.shape == (4,)


def test_broadcast_with_another_reader_stays_outside_too() -> None:
    def f(x: Any, b: Any) -> Any:
        wide = np.broadcast_to(b, (3, 4))
        return np.tanh(x + wide) * 2.0, np.cumsum(wide, axis=0)

    fused = check(lowered(f, np.ones((3, 4)), np.ones(4)))
    assert names(fused).count("broadcast_in_dim") == 1 and names(fused).count("fused") == 1


def test_softmax_is_one_loop_over_rows() -> None:
    def softmax(x: Any) -> Any:
        e = np.exp(x - funcad.numpy.expand_dims(np.max(x, axis=-1), -1))
        return e / funcad.numpy.expand_dims(np.sum(e, axis=-1), -1)

    def by_rows(x: Any) -> Any:  # with the broadcasts that passes make of it
        from funcad.primitives.shape import broadcast_in_dim

        wide = lambda r: broadcast_in_dim(r, shape=x.shape, axes=(0,))
        e = np.exp(x - wide(np.max(x, axis=-1)))
        return e / wide(np.sum(e, axis=-1))

    x = np.random.default_rng(0).normal(size=(5, 7))
    fused = check(lowered(by_rows, x))
    assert names(fused) == ["fused"] and groups(fused)[0].params == {
        "jaxpr": groups(fused)[0].params["jaxpr"],
        "kind": "rows",
        "shape": (5, 7),
    }
    np.testing.assert_allclose(Program(fused).run([x])[0], softmax(x), rtol=1e-15)


def test_vector_of_rows_and_of_columns_is_two_inputs_of_a_square_group() -> None:
    from funcad.primitives.shape import broadcast_in_dim

    def f(x: Any) -> Any:
        s = np.sum(x * x, axis=1)
        return x * broadcast_in_dim(s, shape=x.shape, axes=(0,)) - 1.0, np.sum(x, axis=0)

    def g(x: Any, b: Any) -> Any:
        y = x - broadcast_in_dim(b, shape=x.shape, axes=(1,))
        return np.sum(y, axis=1) * b, y

    x = np.ones((3, 3))
    check(lowered(f, x))
    fused = check(lowered(g, x, np.ones(3)))
    (group,) = groups(fused)
    assert group.inputs[1] is group.inputs[2]


def test_leading_axes_are_collapsed() -> None:
    from funcad.primitives.shape import broadcast_in_dim

    def f(x: Any) -> Any:
        s = np.sum(x * x, axis=(2, 3))
        return np.sqrt(s), x / broadcast_in_dim(s, shape=x.shape, axes=(0, 1))

    fused = check(lowered(f, np.ones((2, 3, 4, 5))))
    assert groups(fused)[0].params["shape"] == (6, 20) and len(groups(fused)) == 1


def test_sums_over_rows_are_complete_after_the_loop() -> None:
    def f(x: Any) -> Any:
        mean = np.sum(x * x, axis=0)
        return np.exp(x) - mean  # reads the column sums: a second loop

    fused = check(lowered(f, np.ones((5, 3))))
    assert len(fused.equations) >= 2


def test_matrix_with_two_products_is_read_once() -> None:
    rows = MATRIX // 8
    rng = np.random.default_rng(0)
    X, w, y = rng.normal(size=(rows, 8)), rng.normal(size=8), rng.normal(size=rows)

    def loss(w: Any, X: Any, y: Any) -> Any:
        z = X @ w
        return np.mean(np.log1p(np.exp(z)) - y * z)

    jaxpr = lowered(funcad.grad(loss), w, X, y)
    fused = check(jaxpr, [w, X, y] if len(jaxpr.inputs) == 3 else None)
    inner = [n for g in groups(fused) for n in names(g.params["jaxpr"])]
    assert inner.count("dot_general") == 2 and "dot_general" not in names(fused)


def test_single_products_stay_with_blas() -> None:
    fused = check(lowered(lambda X, w: np.tanh(X @ w) * 2.0, np.ones((MATRIX // 8, 8)), np.ones(8)))
    assert "dot_general" in names(fused)


def test_independent_chains_are_groups_of_their_own() -> None:
    fused = check(lowered(lambda x, y: (np.sin(x) * 2.0, np.cos(y) * 3.0), np.ones(4), np.ones(4)))
    assert len(groups(fused)) == 2


def test_groups_do_not_wait_for_each_other() -> None:
    def f(x: Any) -> Any:
        a = np.sin(x) * 2.0
        b = np.cumsum(a)  # not fusible, between two element operations on the same values
        return np.cos(a) * b + a

    fused = check(lowered(f, np.linspace(0.0, 1.0, 9)))
    assert len(groups(fused)) == 2


def test_operation_moves_to_its_only_reader() -> None:
    def f(x: Any) -> Any:
        scale = np.exp(x)  # read after the cumsum only
        return np.cumsum(x) * scale

    fused = check(lowered(f, np.linspace(0.0, 1.0, 9)))
    assert names(fused) == ["cumsum", "fused"]


def test_effects_keep_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        y = np.sin(x) * 2.0
        funcad.debug.print("first {}", y.sum())
        z = np.cos(y) * x
        funcad.debug.print("second {}", z.sum())
        return z

    jaxpr = lowered(f, np.ones(3))
    fused = fuse(jaxpr)
    check_jaxpr(fused)
    Program(fused).run([np.ones(3)])
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["first", "second"]


def test_bodies_of_loops_and_branches_are_fused() -> None:
    def f(x: Any, xs: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            return np.tanh(c * x) + 1.0, np.sum(np.sin(c) * x)

        x, ys = funcad.scan(body, x, xs)
        return funcad.cond(ys[0] > 0, lambda x: np.sin(x) * 2.0, lambda x: x, x), ys

    fused = check(lowered(f, np.ones(3), np.ones((4, 3))))
    inside = [sub for e in fused.equations for sub in subjaxprs(e.params)]
    assert sum(len(groups(sub)) for sub in inside) == 2


def test_long_chains_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("funcad.passes.fuse.LONGEST", 160)

    def f(x: Any) -> Any:
        for _ in range(400):
            x = np.sin(x) + 0.1
        return x

    fused = check(lowered(f, np.linspace(0.0, 1.0, 5)))
    assert len(groups(fused)) == 5  # of two operations for each turn, cut where one value crosses


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), ()])
def test_nothing_to_loop_over_is_left_alone(shape: tuple) -> None:
    jaxpr = lowered(lambda x: np.sin(x) * 2.0 + x, np.ones(shape))
    assert not groups(fuse(jaxpr))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.f.__name__)
def test_programs(program: Any) -> None:
    if program.following:
        pytest.skip("follows values: not for jit")
    args = program.make_args()
    jitted = funcad.jit(program.f)
    try:
        jaxpr = jitted.lower(*args).jaxpr
    except (TypeError, ValueError):
        return  # takes Python values that are not arrays
    check_nested(fuse(jaxpr))


def check_nested(jaxpr: Jaxpr) -> None:
    check_jaxpr(jaxpr)
    for e in jaxpr.equations:
        if e.primitive.name == "fused":
            check_group(e)
        for sub in subjaxprs(e.params):
            check_jaxpr(sub)


# -- random programs


def random_program(rng: np.random.Generator, shape: tuple) -> Any:
    """A function of three arrays: shape, its rows, its columns; element operations, reductions, broadcasts, sorts."""
    from funcad.primitives.shape import broadcast_in_dim

    choices = [(int(rng.integers(12)), int(rng.integers(100)), int(rng.integers(100))) for _ in range(14)]

    def f(x: Any, r: Any, c: Any) -> Any:
        full, row, col, out = [x], [r], [c], []
        for op, i, j in choices:
            a, b = full[i % len(full)], full[j % len(full)]
            u, v = row[i % len(row)], row[j % len(row)]
            if op < 2:
                full.append(np.sin(a) + b)
            elif op < 4:
                full.append(np.maximum(a, b) * 0.5)
            elif op == 4:
                row.append(np.sum(a, axis=1))
            elif op == 5:
                row.append(np.max(a, axis=1))
            elif op == 6:
                full.append(a - broadcast_in_dim(u, shape=shape, axes=(0,)))
            elif op == 7:
                row.append(np.tanh(u) * v)
            elif op == 8:
                full.append(a * broadcast_in_dim(col[i % len(col)], shape=shape, axes=(1,)))
            elif op == 9:
                col.append(np.sum(a, axis=0))
            elif op == 10:
                out.append(np.sum(a) if j % 2 else np.min(u))
            else:
                full.append(np.sort(a, axis=0))
        return full[-1], row[-1], col[-1], *out

    return f


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(150))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = ((4, 6), (1, 5), (5, 1), (3, 3))[seed % 4]
    f = random_program(rng, shape)
    args = rng.normal(size=shape), rng.normal(size=shape[:1]), rng.normal(size=shape[1:])
    g = f if seed % 3 else lambda *a: funcad.vjp(f, *a)[1](tuple(np.ones_like(y) for y in f(*args)))
    jaxpr = lowered(g, *args)
    check(jaxpr, seed=seed)


def test_cost_is_linear_in_the_number_of_equations() -> None:
    def f(x: Any) -> Any:
        for i in range(1500):
            x = np.sin(x) if i % 3 else np.cumsum(x)
        return x

    jaxpr = lowered(f, np.ones(3))
    assert len(fuse(jaxpr).equations) == 1000
