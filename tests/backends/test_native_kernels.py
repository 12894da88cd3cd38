"""Native kernels of elementwise groups against the reference: random groups, shapes, dtypes and layouts of memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives import arithmetic, comparison, conversion, reduction, shape, transcendental
from funcad.primitives.fused import fused_p
from tests.agreement import assert_agree, same_bits

pytest.importorskip("llvmlite")

from funcad.backends.native import kernels, target
from funcad.backends.plans.element_plan import Unsupported

F64, F32, C128, C64, I64, I8, U8, BOOL = map(np.dtype, ("f8", "f4", "c16", "c8", "i8", "i1", "u1", "?"))
REDUCE = {"sum": reduction.reduce_sum_p, "max": reduction.reduce_max_p, "min": reduction.reduce_min_p}


class Build:
    """A group under construction."""

    def __init__(self, space: tuple[int, ...]):
        self.space = space
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []

    def input(self, dtype: Any, own: tuple[int, ...] | None = None) -> Var:
        self.inputs.append(Var(Aval(self.space if own is None else own, np.dtype(dtype))))
        return self.inputs[-1]

    def put(self, primitive: Any, *operands: Any, **params: Any) -> Var:
        atoms = tuple([o if isinstance(o, Var) else Literal(o) for o in operands])
        out = Var(primitive.abstract_eval(*[a.aval for a in atoms], **params))
        out.aval = Aval(out.aval.shape, out.aval.dtype)
        self.equations.append(Equation(primitive, atoms, params, (out,)))
        return out

    def spread(self, x: Var, axes: tuple[int, ...]) -> Var:
        return self.put(shape.broadcast_in_dim, x, shape=self.space, axes=axes)

    def total(self, kind: str, x: Var) -> Var:
        return self.put(REDUCE[kind], x, axes=tuple(range(len(self.space))))

    def equation(self, *outputs: Var) -> Equation:
        jaxpr = Jaxpr(tuple(self.inputs), tuple(self.equations), outputs)
        params = {"jaxpr": jaxpr, "kind": "elementwise", "shape": self.space}
        return Equation(fused_p, tuple(self.inputs), params, outputs)


def compare(equation: Equation, arrays: list, scale: float = 0.0, call: Any = None) -> list:
    call = kernels.kernel_for(equation) if call is None else call
    before = [np.array(a) for a in arrays]
    found = call(*arrays)
    with np.errstate(all="ignore"):
        expected = fused_p.impl(np, *arrays, **equation.params)
    assert all(same_bits(a, np.asarray(b)) for a, b in zip(before, arrays)), "an operand was changed"
    assert type(found) is list and len(found) == len(expected)
    for i, (f, e) in enumerate(zip(found, expected)):
        if np.shape(f) and np.shape(e):
            assert f.flags.writeable and not any(np.shares_memory(f, a) for a in arrays)
        kind = np.asarray(e).dtype.kind
        own = scale if kind == "c" or kind == "f" and not np.shape(e) else 0.0  # NumPy's complex product may round once less
        assert_agree(f, e, scale=own, what=f"output {i}")
    return found


def numbers(rng: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "iu":
        return rng.integers(0 if dtype.kind == "u" else -100, 100, shape).astype(dtype)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)


def laid_out(rng: Any, a: np.ndarray, how: int) -> np.ndarray:
    """The same numbers, elsewhere in memory."""
    if how == 1 and a.ndim:
        return np.asfortranarray(a)
    if how == 2 and a.ndim:
        wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]), a.dtype)
        wide[..., ::2] = a
        return wide[..., ::2]
    if how == 3 and a.ndim:
        return np.ascontiguousarray(a[::-1])[::-1]
    if how == 4:
        raw = np.zeros(a.nbytes + 1, np.uint8)
        moved = raw[1:].view(a.dtype).reshape(a.shape)
        moved[...] = a
        return moved
    if how == 5:
        return a.astype(a.dtype.newbyteorder())
    if how == 6:
        a = np.array(a)
        a.flags.writeable = False
        return a
    if how == 7 and a.ndim:
        packed = np.zeros(a.shape, [("pad", "i1"), ("x", a.dtype)])
        packed["x"] = a
        return packed["x"]
    if how == 8 and a.ndim > 1:
        order = rng.permutation(a.ndim)
        return np.ascontiguousarray(a.transpose(order)).transpose(np.argsort(order))
    return a


def random_group(rng: Any, space: tuple[int, ...], dtype: np.dtype) -> tuple[Equation, list[Var]]:
    build = Build(space)
    values = [build.input(dtype)]
    for _ in range(rng.integers(0, 3)):
        axes = tuple(sorted(rng.choice(len(space), rng.integers(0, len(space) + 1), replace=False).tolist()))
        own = tuple([space[a] if rng.random() < 0.8 else 1 for a in axes])
        values.append(build.spread(build.input(dtype, own), axes))
    binary = [arithmetic.add, arithmetic.sub, arithmetic.mul]
    for _ in range(rng.integers(1, 6)):
        a = values[rng.integers(len(values))]
        b: Any = values[rng.integers(len(values))]
        choice = rng.random()
        if choice < 0.2 and dtype.kind in "fc":
            b = float(rng.normal())
        if choice > 0.9 and dtype.kind == "f":
            mask = build.put(comparison.lt, a, b)
            values.append(build.put(comparison.select, mask, a, b))
        elif choice > 0.8:
            values.append(build.put(arithmetic.neg, a))
        else:
            values.append(build.put(binary[rng.integers(3)], a, b))
    outputs = [values[-1]]
    if rng.random() < 0.4:
        outputs.append(values[rng.integers(len(build.inputs), len(values))])
    if rng.random() < 0.5:
        outputs.append(build.total("sum", values[-1]))
    if rng.random() < 0.3 and dtype.kind != "c":
        outputs.append(build.total(("max", "min")[rng.integers(2)], values[-1]))
    outputs = [outputs[i] for i in rng.permutation(len(outputs))]
    if rng.random() < 0.3 and len(outputs) > 1:
        outputs.pop()
    return build.equation(*outputs), build.inputs


SPACES = [(1,), (2,), (3,), (7,), (64,), (1000,), (3, 5), (1, 9), (9, 1), (4, 1, 6), (2, 3, 4), (5, 100), (100, 5), (70, 70)]


@pytest.mark.parametrize("seed", range(40))
def test_random_groups_in_every_layout(seed: int) -> None:
    rng = np.random.default_rng(seed)
    space = SPACES[rng.integers(len(SPACES))]
    dtype = [F64, F64, F32, C128, C64, I64, I8, U8][rng.integers(8)]
    equation, inputs = random_group(rng, space, dtype)
    call = kernels.kernel_for(equation)
    for how in (0, *rng.integers(0, 9, 3)):
        arrays = [laid_out(rng, numbers(rng, v.aval.shape, dtype), how) for v in inputs]
        arrays = [a[()] if not a.ndim and how != 6 else a for a in arrays]
        largest = max([float(np.max(np.abs(a), initial=1)) for a in arrays]) ** 8
        compare(equation, arrays, scale=largest * math.prod(space) ** 2, call=call)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40, 600))
def test_many_random_groups(seed: int) -> None:
    test_random_groups_in_every_layout(seed)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [F64, F32, C128, C64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 17, 255, 256, 257, 1025, 65536, 65537, 200_001])
def test_sums_are_as_exact_as_numpys(dtype: np.dtype, n: int) -> None:
    rng = np.random.default_rng(n)
    build = Build((n,))
    x = build.input(dtype)
    square = build.put(arithmetic.mul, x, x)
    equation = build.equation(build.total("sum", square), build.total("sum", x))
    a = numbers(rng, (n,), dtype)
    found = kernels.kernel_for(equation)(a)
    for f, terms in zip(found, (a * a, a)):
        assert type(f) is dtype.type
        for part in ("real", "imag"):
            values = getattr(terms, part)
            exact = math.fsum(values.tolist())
            eps = float(np.finfo(values.dtype).eps)
            assert abs(float(getattr(f, part)) - exact) <= 12 * eps * math.fsum(np.abs(values).tolist())


def test_edges_of_sums() -> None:
    for n in (1, 3, 5, 300):
        build = Build((n,))
        x = build.input(F64)
        equation = build.equation(build.total("sum", x), build.total("max", x), build.total("min", x))
        call = kernels.kernel_for(equation)
        rest = np.zeros(n - 1)
        for first in (0.0, -0.0, np.inf, -np.inf, np.nan, 1e308, 5e-324):
            for fill in (0.0, -0.0, 1.0, np.inf, np.nan):
                compare(equation, [np.r_[first, rest + fill]], call=call)
                compare(equation, [np.r_[rest + fill, first]], call=call)
        compare(equation, [np.full(n, -0.0)], call=call)


@pytest.mark.parametrize("dtype", [I64, I8, U8, BOOL], ids=str)
def test_sums_of_integers_wrap_as_numpys(dtype: np.dtype) -> None:
    rng = np.random.default_rng(3)
    for n in (1, 33, 70_001):
        build = Build((n,))
        x = build.input(dtype)
        outputs = [build.total("sum", x), build.total("max", x), build.total("min", x)]
        compare(build.equation(*outputs), [numbers(rng, (n,), dtype)])


def test_functions_conversions_and_several_dtypes() -> None:
    rng = np.random.default_rng(5)
    for n in (1, 5, 1000):
        build = Build((n,))
        x, i = build.input(F32), build.input(I64)
        wide = build.put(conversion.convert_p, x, dtype=F64, weak=False)
        number = build.put(conversion.convert_p, i, dtype=F64, weak=False)
        y = build.put(transcendental.exp, build.put(arithmetic.mul, wide, 0.5))
        z = build.put(arithmetic.add, y, number)
        big = build.put(comparison.gt, z, 1.0)
        equation = build.equation(z, big, build.put(transcendental.sin, x), build.total("sum", z))
        compare(equation, [numbers(rng, (n,), F32), numbers(rng, (n,), I64)], scale=200.0 * n * n)


def test_special_values_go_through() -> None:
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e308, 1.0, -1.5])
    build = Build((11, 11))
    x, y = build.input(F64, (11,)), build.input(F64, (11,))
    a, b = build.spread(x, (0,)), build.spread(y, (1,))
    names = ("add", "sub", "mul", "div")
    outputs = [build.put(getattr(arithmetic, name), a, b) for name in names] + [build.put(comparison.lt, a, b)]
    compare(build.equation(*outputs), [special, special])


def test_one_operand_read_in_two_ways() -> None:
    build = Build((6, 6))
    x = build.input(F64, (6,))
    rows, columns = build.spread(x, (0,)), build.spread(x, (1,))
    compare(build.equation(build.put(arithmetic.sub, rows, columns)), [np.arange(6.0)])


def test_broadcast_and_literal_as_outputs() -> None:
    build = Build((3, 4))
    x, y = build.input(F64, (4,)), build.input(F64)
    wide = build.spread(x, (1,))
    equation = build.equation(wide, build.put(arithmetic.add, wide, y), wide)
    found = compare(equation, [np.arange(4.0), np.ones((3, 4))])
    assert found[0].flags.writeable


def test_empty_groups_run_on_numpy() -> None:
    build = Build((0, 3))
    x = build.input(F64)
    y = build.put(arithmetic.mul, x, 2.0)
    compare(build.equation(y, build.total("sum", y)), [np.zeros((0, 3))])


def test_scalars_of_every_kind() -> None:
    build = Build((5,))
    s, x = build.input(F64, ()), build.input(F64)
    equation = build.equation(build.put(arithmetic.mul, build.spread(s, ()), x))
    call = kernels.kernel_for(equation)
    x = np.arange(5.0)
    for s in (np.float64(2), np.array(2.0), 2.0, 2, np.float32(2)):
        assert np.array_equal(call(s, x)[0], 2 * x)


def test_transposed_operands_give_transposed_results() -> None:
    build = Build((40, 30))
    x, y = build.input(F64), build.input(F64)
    equation = build.equation(build.put(arithmetic.add, x, y))
    a = np.arange(1200.0).reshape(30, 40)
    (found,) = compare(equation, [a.T, a.T])
    assert found.strides == (a.T + a.T).strides
    compare(equation, [a.T, np.ascontiguousarray(a.T)])


def test_subclasses_and_lists_are_read() -> None:
    build = Build((2, 2))
    x = build.input(F64)
    call = kernels.kernel_for(build.equation(build.put(arithmetic.mul, x, 3.0)))
    for operand in (np.ones((2, 2)).view(np.recarray), [[1.0, 1.0], [1.0, 1.0]], np.ones((2, 2), np.float32)):
        (found,) = call(operand)
        assert type(found) is np.ndarray and np.array_equal(found, np.full((2, 2), 3.0))
    with pytest.raises(TypeError, match="shape"):
        call(np.ones((2, 3)))


def test_many_layouts_of_one_group() -> None:
    """Strides that come and go do not make code without end."""
    build = Build((4, 5, 6))
    x, y = build.input(F64), build.input(F64)
    equation = build.equation(build.put(arithmetic.sub, x, y))
    owner = kernels.ElementwiseKernel(equation.params["jaxpr"], (4, 5, 6))
    rng = np.random.default_rng(0)
    for _ in range(150):
        arrays = []
        for _ in range(2):
            steps = rng.integers(1, 4, 3)
            whole = rng.normal(size=tuple(np.array([4, 5, 6]) * steps))
            arrays.append(laid_out(rng, whole[:: steps[0], :: steps[1], :: steps[2]], int(rng.integers(0, 9))))
        compare(equation, arrays, call=owner.function)
    assert len(owner.texts) <= kernels.VARIANTS
    assert len(owner.variants) <= 64


def test_equal_groups_share_their_code() -> None:
    def made(n: int, factor: float) -> Any:
        build = Build((n,))
        x = build.input(F64)
        equation = build.equation(build.put(arithmetic.mul, build.put(arithmetic.add, x, x), factor))
        return kernels.ElementwiseKernel(equation.params["jaxpr"], (n,))

    a, b, c = made(1001, 2.5), made(2301, 2.5), made(1001, 3.5)  # long enough to be unrolled with vectors of any length
    code = [owner.default.plain().kept[0] for owner in (a, b, c)]
    assert code[0] is code[1] and code[0] is not code[2]


def test_large_results_come_from_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that bypass the caches, of every length."""
    monkeypatch.setattr(kernels, "last_cache", lambda: 1000)
    for n in (100_000, 100_003):
        build = Build((n,))
        x = build.input(F64)
        y = build.put(arithmetic.mul, x, 3.0)
        equation = build.equation(y, build.total("max", y))
        owner = kernels.ElementwiseKernel(equation.params["jaxpr"], (n,))
        assert owner.default.streamed is not None
        compare(equation, [np.arange(float(n))], call=owner.function)
        compare(equation, [np.arange(2.0 * n)[::2]], call=owner.function)
        with funcad.config.set(pool_bytes=0):  # then memory is NumPy's, and may lie anywhere
            compare(equation, [np.arange(float(n))], call=owner.function)


def test_dear_kernels_keep_to_plain_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results bypass the caches where one waits for the memory, not where one waits for the arithmetic of few threads."""
    monkeypatch.setattr(kernels, "last_cache", lambda: 1000)
    build = Build((1_000_000,))
    x = build.input(F64)
    y = x
    for _ in range(6):
        y = build.put(transcendental.tanh, y)
    equation = build.equation(y)
    for threads, streamed in ((1, False), (64, True)):
        monkeypatch.setattr(kernels, "thread_count", lambda threads=threads: threads)
        owner = kernels.ElementwiseKernel(equation.params["jaxpr"], (1_000_000,))
        assert owner.default.parallel
        assert (owner.default.streamed is not None) == streamed


def test_calls_without_the_builtin(monkeypatch: pytest.MonkeyPatch) -> None:
    """On builds of Python whose objects cannot be read natively, calls go through ctypes."""
    monkeypatch.setattr("funcad.backends.native.wrapper.why_not", lambda: "because")
    for n in (3, 100_000):
        build = Build((n,))
        x, s = build.input(F64), build.input(F64, ())
        y = build.put(arithmetic.mul, x, build.spread(s, ()))
        equation = build.equation(build.total("sum", y), y)
        call = kernels.kernel_for(equation)
        for operand in (np.arange(float(n)), np.arange(2.0 * n)[::2], np.arange(float(n), dtype=">f8")):
            for factor in (np.float64(3), 3.0, np.array(3.0)):
                compare(equation, [operand, factor], scale=float(n) ** 3, call=call)


def test_what_has_no_native_code_says_so() -> None:
    build = Build((4,))
    x = build.input(np.float16)
    with pytest.raises(Unsupported, match="float16"):
        kernels.kernel_for(build.equation(build.put(arithmetic.mul, x, 2.0)))


@pytest.mark.parametrize("name", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_code_for_other_processors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if "avx2" not in target.host().features:
        pytest.skip("this processor does not run the code")
    monkeypatch.setenv(target.OVERRIDE, name)
    assert target.host().vector_bits == (256 if name == "x86-64-v3" else 128)
    for seed in range(6):
        test_random_groups_in_every_layout(seed)
    test_sums_are_as_exact_as_numpys(F64, 1025)


def test_vectors_wider_than_the_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loops for 512 bits, on any processor: LLVM splits what the registers cannot hold."""
    machine = target.host()
    monkeypatch.setattr(target, "host", lambda: machine._replace(vector_bits=512))
    for seed in range(6):
        test_random_groups_in_every_layout(seed)
    test_sums_are_as_exact_as_numpys(F32, 1025)


def _horner(n: int, dtype: Any = F64) -> Equation:
    build = Build((n,))
    x = build.input(dtype)
    y = build.put(arithmetic.mul, x, 0.5)
    for c in (0.25, -1.5, 3.0):
        y = build.put(arithmetic.mul, build.put(arithmetic.add, y, c), x)
    return build.equation(y)


def _text(equation: Equation, lanes: int, unroll: int, far: bool = False) -> str:
    group = kernels.analysed(equation.params["jaxpr"])
    return kernels.kernel_text(group, target.host(), lanes, unroll, ["1"] * len(group.accesses), far=far)


def test_chains_run_several_vectors_abreast() -> None:
    """An operation that waits for the one before it leaves the processor idle, unless other vectors have work for it."""
    small, large = [target.Host("example", frozenset(), bits) for bits in (256, 512)]
    horner = kernels.analysed(_horner(1000).params["jaxpr"])
    assert kernels._unroll(horner, small) == 4
    lines = [line.split()[2] for line in _text(_horner(1000), 4, 4).splitlines() if " = fmul " in line or " = fadd " in line]
    assert lines[:12] == ["fmul"] * 4 + ["fadd"] * 4 + ["fmul"] * 4

    build = Build((1000,))
    values = [build.input(F64) for _ in range(7)]  # all are needed at the end
    while len(values) > 1:
        values.append(build.put(arithmetic.mul, values.pop(), values.pop()))
    many = kernels.analysed(build.equation(values[0]).params["jaxpr"])
    assert (kernels._alive(many), kernels._unroll(many, small), kernels._unroll(many, large)) == (7, 2, 4)

    build = Build((1000,))
    x = build.input(F64)
    text = build.put(transcendental.tanh, build.put(transcendental.exp, x))
    long = kernels.analysed(build.equation(text).params["jaxpr"])
    assert kernels._unroll(long, small) == 1  # its text is long


@pytest.mark.parametrize("dtype", [F64, F32, C128])
def test_several_vectors_abreast_of_every_length(dtype: np.dtype) -> None:
    for n in (256, 257, 511, 512, 513, 1000, 70_001):
        equation = _horner(n, dtype)
        compare(equation, [np.linspace(-2.0, 2.0, n).astype(dtype)])


def test_operands_that_no_near_cache_holds_are_asked_for_ahead() -> None:
    sizes = (1000, 65_536, 65_537)
    assert [kernels.ElementwiseKernel(_horner(n).params["jaxpr"], (n,)).far for n in sizes] == [False, False, True]
    assert "prefetch" not in _text(_horner(1000), 4, 4)
    calls = [line for line in _text(_horner(1000), 4, 4, far=True).splitlines() if "call void @llvm.prefetch" in line]
    assert len(calls) == 2  # the lines of the cache that four vectors of 256 bits take


def test_what_hands_out_parts_is_not_optimised() -> None:
    """`kernel` runs a few instructions per call, `part` all elements: only that one is worth the compiler's time."""
    x, y = Var(Aval((100_000,), np.dtype(float))), Var(Aval((100_000,), np.dtype(float)))
    group = kernels.analysed(Jaxpr((x,), (Equation(transcendental.exp, (x,), {}, (y,)),), (y,)))
    for split in (True, False):
        text = kernels.kernel_text(group, target.host(), 2, 1, ("1",), split=split)
        slow = [line for line in text.split("\n") if line.startswith("define ") and "optnone" in line]
        assert ["@kernel(" in line for line in slow] == ([True] if split else [])
