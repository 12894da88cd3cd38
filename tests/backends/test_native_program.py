"""Whole programs as native code agree with the reference: the programs of tests/programs.py, each operation, random ones."""

from __future__ import annotations

import functools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad
import funcad.numpy as fnp
from funcad import tree
from funcad.backends.interpreter import Program
from funcad.backends.native import target, wrapper
from funcad.backends.native.program import compile_program, program_text
from funcad.backends.native.program_values import Arena, View, contiguous_strides, reshaped
from funcad.backends.plans.element_plan import Unsupported
from funcad.passes.pipeline import optimize
from tests.agreement import assert_agree
from tests.programs import PROGRAMS

pytestmark = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 5e-324, 1e308, -2.5e-310, 3.0])


def check(f, *args, ulps=2, scale=0.0, plain=True):
    lowered = funcad.jit(f).lower(*args)
    values = [*lowered._entry.consts, *tree.leaves(args)]
    with np.errstate(all="ignore"):
        expected = Program(lowered.jaxpr).run(list(values))
        for jaxpr in (optimize(lowered.jaxpr), *([lowered.jaxpr] if plain else [])):
            program = compile_program(jaxpr)
            for found, wanted in zip(program(list(values)), expected, strict=True):
                assert_agree(found, wanted, ulps=ulps, scale=scale)
    return program


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


# -- the programs of the composition test

UNSUPPORTED = {  # program -> what the reason says; a change here is worth a look
    "complex_numbers": "sin of complex",
    "matrix_functions": "expm",
    "reductions": "sort",
    "complex_parts": "complex",
    "printing": "effects",
    "ordered_callback": "effects",
    "callback": "pure_callback",
    "random_draw": "",
}


@pytest.mark.parametrize("program", [p for p in PROGRAMS if not p.following], ids=lambda p: p.name)
def test_programs(program):
    try:
        check(program.f, *program.make_args(), ulps=256, scale=256.0)
    except Unsupported as reason:
        assert UNSUPPORTED[program.name] in str(reason)


@pytest.mark.share(3)
@pytest.mark.parametrize("program", [p for p in PROGRAMS if p.order and not p.following], ids=lambda p: p.name)
def test_gradients_of_programs(program):
    args = program.make_args()
    real = lambda x: np.asarray(x).dtype == np.float64
    nums = tuple([i for i, x in enumerate(args) if tree.leaves(x) and all(map(real, tree.leaves(x)))])
    if not nums:
        return

    def total(*args):
        parts = [np.sum(np.real(x)) for x in tree.leaves(program.f(*args)) if getattr(x, "dtype", np.dtype(float)).kind in "fc"]
        return functools.reduce(lambda a, b: a + b, parts, 0.0)

    if program.name == "passed_through":  # warns that it does not depend on an argument
        return
    try:
        single = {"mixed_precision": 2.0**30}.get(program.name, 0.0)  # sums in float32 on the way
        check(funcad.grad(total, argnums=nums), *args, ulps=1024, scale=1024.0 + single, plain=False)
    except Unsupported as reason:
        assert str(reason)


# -- operations


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "i8", "u2", "?", "c16"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (8,), (13,), (4, 5), (3, 1, 7), (0, 3), (2, 3, 4)])
def test_arithmetic_of_every_shape_and_dtype(dtype, shape):
    rng = np.random.default_rng(1)
    top, factor = 2 if dtype == "?" else 7, 1 if dtype != "c16" else 1 + 0.5j
    x, y = [(rng.integers(0, top, shape) * factor).astype(dtype) for _ in "xy"]
    x, y = x[()], y[()]
    check(lambda x, y: (np.equal(x, y), np.maximum(x, y) if dtype != "c16" else x, np.where(x == y, x, y)), x, y)
    if dtype != "?":
        check(lambda x, y: (x + y * x, (x - y) * (x - y), -x if dtype[0] != "u" else x), x, y)


def test_special_values():
    x, y = [v.reshape(11, 11).copy() for v in np.meshgrid(SPECIAL, SPECIAL)]
    def f(x, y):
        some = x + y, x * y, x - y, x / y, np.maximum(x, y), np.minimum(x, y)
        return *some, np.sqrt(x), x < y, x == y, np.abs(x), np.sign(x)

    check(f, x, y)
    with np.errstate(all="ignore"):
        x, y = x.astype(np.float32), y.astype(np.float32)
    check(f, x, y)
    check(lambda x: (np.exp(x), np.log(x), np.tanh(x), np.sin(x), np.log1p(x), np.expm1(x)), SPECIAL[SPECIAL != 1e308])
    for v in SPECIAL[:7]:
        check(lambda x: (x * 2.0, np.exp(x), x / 0.0, np.tanh(x), np.where(x > 0, x, -x)), v)
    check(lambda x: (np.max(x), np.min(x), np.sum(x), np.max(x, axis=0), np.argmax(x), np.argmin(x)), SPECIAL)


AXES = [None, 0, 1, 2, (0, 1), (0, 2), (1, 2)]


@pytest.mark.share(3)
@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 1, 17), (33, 4, 2), (1, 1, 1), (3, 40, 9)])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_reductions(shape, axis):
    x = normal(*shape)
    scale = 4.0 * x.size * np.abs(x).max()
    check(lambda x: (np.sum(x, axis), np.sum(x.T, axis), np.sum(x[::-1, :, ::2], axis)), x, scale=scale)
    check(lambda x: (np.max(x, axis), np.min(x.T, axis), np.any(x > 1, axis), np.all(x < 2, axis)), x)
    check(lambda x: (np.prod(1 + 0.01 * x, axis), np.mean(np.exp(x), axis)), x, scale=scale)
    check(lambda x: (np.sum(x, axis), np.max(x, axis), np.prod(x % 3 + 1, axis)), (10 * x).astype(np.int64))
    check(lambda x: (np.sum(x, axis), np.max(x, axis)), x.astype(np.float32), scale=scale)
    if isinstance(axis, int):
        check(lambda x: (np.argmax(x, axis), np.argmin(x.T, axis), np.cumsum(x, axis), np.cumprod(x, axis)), x, plain=False)


def test_sums_of_nothing_and_of_zeros():
    check(lambda x: (np.sum(x), np.sum(x, 0), np.sum(x, 1), np.prod(x, 0), np.any(x, 1)), np.zeros((0, 3)))
    check(lambda x: (np.sum(x), np.sum(x, 0), np.sum(x, 1)), np.full((2, 3), -0.0))


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "c16"])
def test_products(dtype):
    def make(*shape):
        x = normal(*shape, seed=len(shape) + sum(shape))
        return (x * 3).astype(dtype) if dtype != "c16" else x + 1j * x[::-1]

    scale = 600.0
    for m, n, k in [(1, 1, 1), (4, 8, 3), (5, 9, 7), (8, 32, 32), (13, 21, 300), (1, 17, 6), (17, 1, 6), (3, 2, 0), (0, 4, 3)]:
        a, b = make(m, k), make(k, n)
        check(lambda a, b: (a @ b, np.tanh((b.T @ a.T).real)), a, b, scale=scale * (k + 1), plain=False)
        check(lambda a, b: (a @ b.T, b @ a.T), make(m, k), make(n, k), scale=scale * (k + 1))
        check(lambda a, v, w: (a @ v, w @ a, a.T @ w, v @ a.T), a, make(k), make(m), scale=scale * (k + 1))
    check(lambda a, b: (a @ b, a[1] @ b[0], np.einsum("bij,bkj->bik", a, a)), make(3, 4, 5), make(3, 5, 6), scale=scale * 6)
    check(lambda a, b: np.tensordot(a, b, 2), make(3, 4, 5), make(4, 5, 6), scale=scale * 20)
    check(lambda a, b: np.einsum("ijk,ljk->il", a, b), make(3, 4, 5)[:, :, ::2], make(6, 4, 3), scale=scale * 20)
    check(lambda a, b: (np.outer(a, b), a @ a), make(5), make(9), scale=scale * 6)
    check(lambda a: (a.T @ a[:, ::-1], a[::-1] @ a.T[:, ::2]), make(12, 12), scale=scale * 12)


def test_gradient_of_products():
    check(funcad.grad(lambda a, b: np.sum(np.sin(a @ b) @ b.T), (0, 1)), normal(6, 7), normal(7, 5), scale=600.0)


def test_shapes_and_moves():
    x = normal(3, 4)
    check(lambda x: (x.T.reshape(6, 2), x.reshape(2, 2, 3).transpose(2, 0, 1), x[::-1, ::-2].reshape(-1)), x)
    check(lambda x: (x[1, 2], x[None, :, 1]), x)
    check(lambda x: (np.concatenate([x, x[:1] * 2]), np.stack([x, -x], 1), np.concatenate([x[:0], x], 0)), x)
    check(lambda x: (np.pad(x, 1), np.roll(x, 1, 0), np.roll(x, -3, 1), np.flip(x, 0) + 1, fnp.at(x)[1:, ::2].set(0.0)), x)
    check(lambda x: (np.broadcast_to(np.sum(x), (2, 3)), np.broadcast_to(x[:, :1], (3, 4)) * 1.0), x, scale=50.0)
    check(lambda x: np.ones((2, 2)) * x[0, 0], x)
    check(funcad.grad(lambda x: np.sum(x[1:, :-1] * x[:-1, 1:] ** 2 + np.sin(x[::2, 1:3])[0, 0])), x, scale=50.0)
    check(funcad.grad(lambda x: np.sum(x[1:] * x[:-1]) - np.prod(x[2:5])), normal(9), scale=50.0)
    check(funcad.hessian(lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)), normal(12), scale=1e5)


def test_gather_and_scatter():
    x, i = normal(5, 3), np.array([[0, -1], [4, 2]])
    check(lambda x, i: (x[i], np.take(x, i, 1 % 1), x[i[0, 0]], fnp.at(x)[i].add(1.0), fnp.at(x)[i[0]].set(x[i[1]])), x, i)
    check(funcad.grad(lambda x, i: np.sum(np.sin(x[i]) * x[i] + x[i[0, 1], 2])), x, i, scale=100.0)
    check(funcad.vmap(lambda x, i: (x[i], fnp.at(x)[i].mul(2.0))), x, np.array([0, 2, 1, -1, 0]))
    check(lambda x, i: x[i], x, np.array([1, 0], np.uint8))
    for repeated in (np.array([2, 0, -3, 0, 2]), np.array([[1, -4], [1, 3]]), np.array(3), np.zeros((0, 2), int)):
        u = normal(*repeated.shape, 3)  # what is written over has no derivative
        check(funcad.grad(lambda x, u, i: np.sum(fnp.at(x)[i].set(u) ** 2), (0, 1)), x, u, repeated, scale=100.0)
    lanes = np.array([[0, 1, 0], [-1, 4, 4]]), normal(2, 3, 3)
    slopes = funcad.grad(lambda u, i, x: np.sum(fnp.at(x)[i].set(u) ** 2))
    check(funcad.vmap(slopes, (0, 0, None)), *lanes[::-1], x, scale=100.0)
    program = check(lambda x, i: x[i] * 2.0, x, i)
    for bad in (5, -6):
        wrong = i.copy()
        wrong[1, 1] = bad
        with pytest.raises(IndexError):
            program([x, wrong])


def test_softmax_and_its_gradient():
    def loss(x, w, y):
        z = np.tanh(x @ w)
        z = z - np.max(z, 1, keepdims=True)
        return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), 1, keepdims=True))), 1))

    x, w, y = normal(6, 4), normal(4, 5), np.eye(5)[[0, 1, 4, 2, 2, 3]]
    check(funcad.value_and_grad(loss, (0, 1)), x, w, y, scale=200.0)
    check(funcad.grad(lambda x: np.sum(np.max(x, 1) ** 2)), np.round(x), scale=50.0)
    check(funcad.jit(lambda x: funcad.jvp(lambda v: np.max(v, 0), (x,), (x + 1,))), np.round(x), scale=50.0)


def test_inputs_in_any_order_agree():
    x = normal(6, 8)
    jaxpr = optimize(funcad.jit(lambda x: (np.sin(x) @ x.T, np.sum(x, 0), x * 2)).lower(x[:, :5].copy()).jaxpr)
    program = compile_program(jaxpr)
    for view in (x[:, 1:6], x.T[:6, :5] if x.T.shape[0] >= 6 else x, x[::-1, 4::-1], np.asfortranarray(x[:, :5])):
        if view.shape == (6, 5):
            for _ in range(3):
                for found, wanted in zip(program([view]), Program(jaxpr).run([view]), strict=True):
                    assert_agree(found, wanted, scale=200.0)


# -- random programs


def random_program(seed):
    """A function of two matrices and a vector made of random operations on shapes that fit."""
    rng = np.random.default_rng(seed)

    def f(a, b, v):
        draw = np.random.default_rng(seed)
        pool = [a, b, v, a @ b, np.float64(0.5) * np.sum(v)]
        for _ in range(14):
            x = pool[draw.integers(len(pool))]
            y = pool[draw.integers(len(pool))]
            match draw.integers(12):
                case 0:
                    z = np.tanh(x) * 0.5
                case 1:
                    z = x + y if x.shape == y.shape else x * 2.0 - 1.0
                case 2:
                    z = x * y if x.shape == y.shape else np.sin(x)
                case 3:
                    z = np.sum(x, draw.integers(x.ndim)) if x.ndim else np.cos(x)
                case 4:
                    z = x.T
                case 5:
                    z = x @ y if x.ndim and y.ndim and x.shape[-1] == y.shape[0] else np.exp(-x * x)
                case 6:
                    z = x[::-1] if x.ndim else x[None] * np.ones(3)
                case 7:
                    z = np.where(x > 0.1, x, 0.3 - x)
                case 8:
                    z = np.max(x, 0) if x.ndim and x.shape[0] else np.abs(x)
                case 9:
                    z = np.concatenate([x[1:], x[:1] * 3]) if x.ndim else x / (1 + x * x)
                case 10:
                    z = x.reshape(-1)
                case _:
                    z = x - np.mean(x) if x.ndim else np.broadcast_to(x, (2, 3))
            pool.append(z)
        return pool[3:]

    m, n, k = rng.integers(1, 9, 3)
    return f, (normal(m, k, seed=seed), normal(k, n, seed=seed + 1), normal(rng.integers(1, 12), seed=seed + 2))


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(30))
def test_random_programs(seed):
    f, args = random_program(seed)
    check(f, *args, ulps=2**16, scale=2.0**16, plain=False)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1400))
def test_more_random_programs(seed):
    f, args = random_program(seed)
    check(f, *args, ulps=2**16, scale=2.0**16)


# -- rules and parts


def test_large_programs_are_left_to_kernels(monkeypatch):
    big = np.zeros((400, 400))
    for f, reason in ((lambda x: x @ x @ x, "outside loops"), (lambda x: np.exp(np.exp(x).T), "ms")):
        with pytest.raises(Unsupported, match=reason):
            compile_program(optimize(funcad.jit(f).lower(np.zeros((4000, 400)) if reason == "ms" else big).jaxpr))
    wide = np.zeros((60, 3000))
    monkeypatch.setattr(wrapper, "KEPT_ARENA", 1 << 20)
    with pytest.raises(Unsupported, match="bytes of working memory"):
        compile_program(optimize(funcad.jit(lambda x: np.sum(np.concatenate([x + 1, x * 2]).T[::-1], 0)).lower(wide).jaxpr))
    with pytest.raises(Unsupported, match="float16"):
        compile_program(funcad.jit(lambda x: x + 1).lower(np.zeros(3, np.float16)).jaxpr)


def test_text_holds_no_addresses():
    text = program_text(optimize(funcad.jit(lambda x: np.sin(x) @ x).lower(np.ones((3, 3))).jaxpr))
    assert "inttoptr" not in text and text == program_text(
        optimize(funcad.jit(lambda x: np.sin(x) @ x).lower(np.ones((3, 3))).jaxpr)
    )


def test_the_arena_reuses_what_is_free():
    arena = Arena()
    a, b, c = arena.take(100), arena.take(64), arena.take(10)
    assert (a.offset, b.offset, c.offset, arena.size) == (0, 128, 192, 256)
    arena.give(b)
    arena.give(a)
    d = arena.take(192)
    assert d.offset == 0 and arena.size == 256
    arena.give(c)
    assert arena.take(128).offset == 192 and arena.size == 320


@pytest.mark.parametrize("seed", range(40))
def test_reshaped_views_are_those_of_numpy(seed):
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(1, 5)))
    x = np.arange(float(np.prod(shape))).reshape(shape).transpose(rng.permutation(len(shape)))
    sizes = [n for n in x.shape for n in ([1, n] if rng.random() < 0.3 else [n])]
    new = (int(np.prod(sizes[:2])), *map(int, sizes[2:])) if rng.random() < 0.6 else tuple(map(int, sizes))
    view = reshaped(View("%x", x.dtype, x.shape, tuple(s // 8 for s in x.strides)), new)
    if view is not None:
        found = np.lib.stride_tricks.as_strided(x, new, tuple(8 * s for s in view.strides))
        assert np.array_equal(found, x.reshape(new))
    else:
        assert not np.shares_memory(x, x.reshape(new))
    assert contiguous_strides((2, 3, 4)) == (12, 4, 1)


# -- backwards


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32, np.uint8, np.bool_, np.complex128])
def test_arrays_are_read_and_written_backwards(dtype):
    def f(x, y):
        y = y.copy()
        y[::-1] = x * x
        y[2:9] += x[9:2:-1]
        return x[::-1] * y, np.sum(y[::-1] * x), y

    for n in (10, 16, 37):
        x = (10 * normal(n)).astype(dtype)
        check(f, x, (10 * normal(n, seed=1)).astype(dtype), scale=1e5)
    if dtype in (np.float64, np.float32):
        assert "i32 1, i32 0>" in program_text(optimize(funcad.jit(f).lower(x, x).jaxpr))


def test_a_long_program_has_one_function_for_loops_of_one_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums, products, additions in place, copies and groups over 60 lengths: the same bits as with each loop written out."""
    from funcad.backends.native import program as module

    def f(x, z):
        total, y, s = x[0], x.copy(), 0.5
        for k in range(9, 69):
            s = s * 0.5 + np.sum(x[:k]) + x[:k][::-1] @ y[:k]
            y[1 : k + 1] += np.where(x[:k] > 0.5, s * 1e-3, x[:k]) / 3.0
            z = z * (1.0 + 1e-3j * k) + z[::-1]
            total = total + np.max(y[3:k]) + np.sum(z[: k // 4]).real
        return total, y, z

    x, z = normal(70) * 0.1, normal(20) + 1j * normal(20, seed=1)
    lowered = funcad.jit(f).lower(x, z)
    values = [*lowered._entry.consts, x, z]
    found = []
    for long in (300, 10**9):
        monkeypatch.setattr(module, "LONG", long)
        text = program_text(lowered.jaxpr)
        assert (text.count("call void @loops") > 100 > text.count("define void @loops")) is (long == 300)
        assert ("call double @loops" in text) is (long == 300)
        found.append([np.asarray(a).tobytes() for a in compile_program(lowered.jaxpr)(list(values))])
    assert found[0] == found[1]
    np.testing.assert_allclose(compile_program(lowered.jaxpr)(values)[0], f(x, z)[0], rtol=1e-10)
