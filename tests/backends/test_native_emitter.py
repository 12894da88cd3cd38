"""Every `emit=` rule in every dtype, compiled and compared with the primitive on NumPy; memory, masks, reductions."""

from __future__ import annotations

import importlib
import itertools
import math
import pkgutil
import platform
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import funcad.primitives
from funcad.backends.native import ir, lane_memory, target
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.backends.plans.element_plan import Unsupported, operand_dtypes
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import mul
from funcad.primitives.atoms import ELEMENTARY, SCIPY, UFUNCS, formula
from tests.native_lanes import Kernels, equation_of, kernel
from tests.specs import all_specs

if not target.available():
    pytest.skip(f"no native engine: {target.why_not()}", allow_module_level=True)

DTYPES = [np.dtype(t) for t in ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16")]
REAL = [d for d in DTYPES if d.kind != "c"]
FLOATS = [np.dtype("f4"), np.dtype("f8")]


def _primitives() -> dict[str, Primitive]:
    found = {}
    for info in pkgutil.iter_modules(funcad.primitives.__path__):
        module = importlib.import_module(f"funcad.primitives.{info.name}")
        for value in vars(module).values():
            if isinstance(value, Primitive) and value.emit is not None:
                found[value.name] = value
    return found


PRIMITIVES = _primitives()
PARAMS: dict[str, list[dict[str, Any]]] = {  # of all others those in tests/specs
    "integer_pow": [{"n": n} for n in (0, 1, 2, 3, 4, 5, 7, 10, 33, 100, -1, -2, -3, -5)],
    "convert": [{"dtype": d} for d in DTYPES],
}
for _equation in (e for op in all_specs() for e in op.program(op.samples()[0])[0].equations if e.params):
    if _equation.primitive.emit is not None and _equation.primitive.name not in ("integer_pow", "convert"):
        PARAMS.setdefault(_equation.primitive.name, []).append(_equation.params)
ATOMS_OF = {
    name: {
        atom
        for params in PARAMS.get(name, [{}])
        for atom in formula(p.emit, p.emit.__code__.co_argcount - 1, tuple(params.items())).computed
    }
    for name, p in PRIMITIVES.items()
}
EXACT = {name for name, atoms in ATOMS_OF.items() if not {*ELEMENTARY, "integer_pow"}.intersection(atoms)}
SUMS_OF_LOGS = {"logaddexp", "logaddexp2", "softplus", "safe_log"}  # they cancel: NumPy's own error is of the terms' size
NUMPY_ULPS = 4  # the bound is 2 for ours (test_native_elementary.py); NumPy's logarithm of float32 is off by more than 2 itself

X86 = platform.machine().lower() in ("x86_64", "amd64")
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.25, 88.0, 300.0, 1e-310, -1e-40, 1e30]
SPECIAL += [np.inf, -np.inf, np.nan]


def samples(dtype: np.dtype, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        edges = [0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1, info.bits - 1, info.bits]
        edges = [*edges, -1, -2, -7] if dtype.kind == "i" else edges
        values = np.array(edges, dtype)
        wild = rng.integers(info.min, info.max, count, dtype, endpoint=True)
        wild[::2] = (wild[::2] % 17).astype(dtype)
        wild[: count // 2] = rng.choice(values, count // 2)
        return rng.permutation(wild)
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            part = np.dtype(f"f{dtype.itemsize // 2}")
            return samples(part, count, seed) + dtype.type(1j) * rng.normal(size=count).astype(part)
        wild = np.concatenate([rng.normal(size=count // 4), rng.normal(size=count // 4) * 30, rng.choice(SPECIAL, count // 2)])
        return rng.permutation(np.resize(wild, count).astype(dtype))


def same(found: np.ndarray, expected: np.ndarray, ulps: float, terms: np.ndarray | float = 0.0) -> np.ndarray:
    """Where they agree: bit for bit (any NaN for NaN) with ulps=0; the sign of a zero always counts."""
    if found.dtype.kind == "c":
        return same(found.real, expected.real, ulps, terms) & same(found.imag, expected.imag, ulps, terms)
    if found.dtype.kind != "f":
        return found == expected
    with np.errstate(all="ignore"):
        equal = (found == expected) & (np.signbit(found) == np.signbit(expected)) | np.isnan(found) & np.isnan(expected)
        unit = np.spacing(np.maximum(np.maximum(np.abs(found), np.abs(expected)), terms).astype(found.dtype))
        near = np.isfinite(found) & np.isfinite(expected) & (np.abs(found - expected) <= ulps * unit)
    return equal | near if ulps else equal


def operands_of(primitive: Primitive, dtype: np.dtype) -> list[np.dtype]:
    operands = [dtype] * (primitive.emit.__code__.co_argcount - 1)
    return [np.dtype(bool), *operands[1:]] if primitive.name == "select" else operands


def reference(primitive: Primitive, arrays: list[np.ndarray], params: dict[str, Any]) -> np.ndarray | None:
    """What NumPy computes, None where it refuses."""
    with np.errstate(all="ignore"):
        if primitive.name in SCIPY and arrays[0].dtype.kind == "f":  # SciPy's own errors are larger, and grow in the tail
            return np.array([getattr(math, primitive.name)(x) for x in arrays[0]]).astype(arrays[0].dtype)
        try:
            return np.asarray(primitive.impl(np, *arrays, **params))
        except (TypeError, ValueError, AttributeError, OverflowError):
            return None


def check(name: str, lanes: int, dtypes: list[np.dtype] = DTYPES, count: int = 515) -> set[tuple[str, Any]]:
    """Compare on all dtypes; gives the dtypes (and params) that are Unsupported."""
    primitive, kernels, cases, refused = PRIMITIVES[name], Kernels(), [], set()
    for (i, params), dtype in itertools.product(enumerate(PARAMS.get(name, [{}])), dtypes):
        operands = operands_of(primitive, dtype)
        arrays = [samples(d, count, 7 * j + dtype.num) for j, d in enumerate(operands)]
        expected = reference(primitive, arrays, params)
        label = f"k{i}_{dtype.name}"
        key = (dtype.name, params.get("n", getattr(params.get("dtype"), "name", None)))
        if expected is None:
            continue
        equation = equation_of(primitive, operands, **params)
        try:
            kernels.add(label, lambda e, *x: e.apply(equation, x), operands, equation.outputs[0].aval.dtype, lanes)  # noqa: B023
        except Unsupported:
            refused.add(key)
            continue
        if expected.dtype != equation.outputs[0].aval.dtype:  # NumPy would have promoted: programs convert first
            continue
        cases.append((label, params, arrays, expected))
    for label, params, arrays, expected in cases:
        found = kernels.run(label, *arrays)
        size = name == "abs" and arrays[0].dtype.kind == "c"
        exact = name in EXACT and not size or found.dtype.kind in "biu" or params.get("n") in (0, 1, 2, -1)
        terms: Any = 0.0
        if name in SUMS_OF_LOGS:
            terms = np.max([np.where(np.isfinite(a), np.abs(a), 0) for a in [*arrays, np.ones_like(arrays[0])]], axis=0)
        if found.dtype.kind == "c" and name not in ("neg", "add", "sub", "convert", "select"):
            exact = False  # NumPy's loops fuse some of the products
            size = np.abs(expected)
            terms = np.where(np.isfinite(size), size, 0)
            if name == "mul_add":
                terms = np.max([terms, *[np.where(np.isfinite(a), np.abs(a), 0) for a in arrays]], axis=0)
        good = same(found, expected, 0 if exact else NUMPY_ULPS, terms)
        good |= _unspecified(name, arrays[0], found.dtype)
        bad = np.flatnonzero(~good)
        assert not bad.size, f"{name} {label}: {[a[bad[:5]] for a in arrays]} gave {found[bad[:5]]}, NumPy {expected[bad[:5]]}"
    return refused


def _unspecified(name: str, x: np.ndarray, dtype: np.dtype) -> np.ndarray | bool:
    """Floats that an integer dtype does not hold. C leaves open what they become, and processors differ; on x86, NumPy's
    vectors and its single steps agree on them, except in uint32.
    """
    if name != "convert" or dtype.kind not in "iu" or x.dtype.kind not in "fc" or (X86 and dtype != np.uint32):
        return False
    info = np.iinfo(dtype)
    return ~((x.real > float(info.min) - 1.0) & (x.real < float(info.max) + 1.0))


REFUSED_REAL = {  # what keeps to NumPy, by primitive: everything else must have code
    "square": {"bool"},
    "integer_pow": {"bool"},
    "sign": set(),
    "reciprocal": {d.name for d in REAL if d.kind != "f"},
}
OF_FLOATS = {atom for atom, ufunc in UFUNCS.items() if not any(loop.startswith("q") for loop in ufunc.types)}
FLOAT_ONLY = {name for name, atoms in ATOMS_OF.items() if (OF_FLOATS | ELEMENTARY).intersection(atoms)}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_every_rule(name: str) -> None:
    refused = check(name, lanes=4)
    for dtype, detail in refused:
        if np.dtype(dtype).kind == "f":
            pytest.fail(f"{name} {detail} has no code for {dtype}")
        if name not in FLOAT_ONLY and np.dtype(dtype).kind in "iu" and name not in REFUSED_REAL:
            pytest.fail(f"{name} {detail} has no code for {dtype}")


@pytest.mark.share(3)
@pytest.mark.parametrize("name", sorted(PRIMITIVES))
def test_scalars(name: str) -> None:
    check(name, lanes=1, dtypes=[np.dtype(t) for t in ("?", "i4", "u1", "f4", "f8", "c16")], count=120)


@pytest.mark.parametrize("lanes", [2, 8, 16])
def test_other_widths(lanes: int) -> None:
    for name in ("add", "mod", "exp", "log1p", "tanh", "sin", "pow", "select", "lt", "convert", "logistic"):
        check(name, lanes=lanes, dtypes=[np.dtype(t) for t in ("i4", "f4", "f8")], count=100)


def test_literals_take_the_dtype_of_the_others() -> None:
    wide = np.float64(1e300)
    for literal, dtype in ((2.5, "f4"), (wide, "f8"), (3, "i2"), (-0.0, "f8"), (np.float32(np.nan), "f4"), (1, "c16")):
        dtype = np.dtype(dtype)
        equation = equation_of(mul, [dtype, literal])
        assert operand_dtypes(equation) == [dtype, dtype]
        run = kernel(lambda e, x: e.apply(equation, [x, e.literal(literal, dtype)]), [dtype], dtype, 4)  # noqa: B023
        x = samples(dtype, 37, 0)
        with np.errstate(all="ignore"):
            assert same(run(x), x * dtype.type(literal), 0 if dtype.kind != "c" else 2).all()


def test_weak_operands_are_converted() -> None:
    single, double = np.dtype("f4"), np.dtype("f8")
    equation = equation_of(mul, [single, 0.1])
    run = kernel(lambda e, x: e.apply(equation, [x, e.literal(0.1, double)]), [single], single, 4)
    x = samples(single, 50, 1)
    with np.errstate(all="ignore"):
        assert same(run(x), x * np.float32(0.1), 0).all()
    with pytest.raises(Unsupported, match="computes in"):
        kernel(lambda e, x: e.apply(equation_of(mul, [single, single]), [x, e.literal(1.0, double)]), [single], single, 4)


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lanes", [1, 4, 8])
def test_memory(dtype: np.dtype, lanes: int) -> None:
    """Adjacent and masked elements, and some that are a number of bytes apart, read and written."""
    x = samples(dtype, 128, 3)
    out = np.zeros(128, dtype)

    def check(stride: int, count: int, write: Any) -> None:
        module = ir.Module()
        function = ir.Function(module, "k", [("ptr", "%x"), ("ptr", "%y"), ("i64", "%s"), ("i64", "%n")])
        write(Emitter(function, lanes, target.host()))
        function.do("ret void")
        module.add(function)
        out[:] = 0
        _call(module, x[60:].ctypes.data, out[60:].ctypes.data, stride * dtype.itemsize, count)
        expected = np.zeros(128, dtype)
        for i in range(count):
            expected[60 + i * stride] = x[60 + i * stride]
        assert out.tobytes() == expected.tobytes(), (stride, count)

    def adjacent(e: Emitter, mask: str | None) -> None:
        e.store(e.load(dtype, "%x", "0", mask), "%y", "0", mask)

    def apart(step: Any, e: Emitter) -> None:
        lane_memory.scatter(e, lane_memory.gather(e, dtype, "%x", step), "%y", step)

    check(1, lanes, lambda e: adjacent(e, None))
    for count in {lanes, max(lanes - 1, 1), 1}:
        check(1, count, lambda e: adjacent(e, e.mask("%n")))
    for stride, step in ((3, 3 * dtype.itemsize), (-2, -2 * dtype.itemsize), (5, "%s"), (-1, "%s")):
        check(stride, lanes, partial(apart, step))


def _call(module: ir.Module, *arguments: int) -> None:
    import ctypes

    compiled = target.compile_module(module.text(), ["k"])
    pointers = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * (len(arguments) - 2)
    ctypes.CFUNCTYPE(None, *pointers)(compiled.address["k"])(*arguments)


def test_nontemporal_store() -> None:
    x = np.arange(64, dtype=float)
    buffer = np.zeros(64 + 8)
    start = -buffer.ctypes.data % 64 // 8
    module = ir.Module()
    function = ir.Function(module, "k", [("ptr", "%x"), ("ptr", "%y")])
    emitter = Emitter(function, 4, target.host())
    with function.loop(0, 64, 4) as loop:
        emitter.store(emitter.load(float, "%x", loop.index), "%y", loop.index, nontemporal=True)
    function.do("ret void")
    module.add(function)
    _call(module, x.ctypes.data, buffer[start:].ctypes.data)
    assert (buffer[start : start + 64] == x).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_horizontal(dtype: np.dtype, kind: str, lanes: int) -> None:
    def write(e: Emitter, x: Lane) -> Lane:
        return e.splat(e.horizontal(kind, e.combine(kind, x, e.identity(kind, x.dtype))))

    if dtype.kind == "c" and kind != "add":
        with pytest.raises(Unsupported):
            kernel(write, [dtype], dtype, lanes)
        return
    run = kernel(write, [dtype], dtype, lanes)
    x = samples(dtype, 256, 5)
    if kind == "add" and dtype.kind in "fc":
        x = np.where(np.isfinite(x) & (np.abs(x) < 1e6), x, dtype.type(-0.0))
    found = run(x)
    blocks = x.reshape(-1, lanes)
    with np.errstate(all="ignore"):
        if kind == "add":
            expected = blocks.any(1) if dtype.kind == "b" else blocks.sum(1, dtype=dtype)
        else:
            expected = blocks.max(1) if kind == "maximum" else blocks.min(1)
    expected = np.repeat(expected, lanes)
    if kind == "add" and dtype.kind in "fc":
        assert (np.abs(found - expected) <= 1e-6 * np.repeat(np.abs(blocks).sum(1), lanes)).all()
    else:
        assert np.array_equal(found, expected, equal_nan=dtype.kind == "f")


def test_constants_keep_their_bits() -> None:
    doubles = [("f8", 0x7FF8000000000123), ("f8", 0xFFF0000000000000)]
    for dtype, bits in [*doubles, ("f4", 0x7FC00123), ("f4", 0x80000000), ("f4", 1)]:
        dtype = np.dtype(dtype)
        value = np.array(bits, f"u{dtype.itemsize}").view(dtype)[()]
        run = kernel(lambda e, x: e.literal(value, x.dtype), [dtype], dtype, 4)  # noqa: B023
        assert run(np.zeros(9, dtype)).tobytes() == np.full(9, value).tobytes()


def test_shared_functions_are_written_once() -> None:
    kernels = Kernels()
    single = np.dtype("f4")
    if not Emitter(ir.Function(kernels.module, "k", []), 2, kernels.host).fused:
        pytest.skip("functions of the C library are called where they are needed")
    for name in ("a", "b"):
        kernels.add(name, lambda e, x: e.arctan(e.arctan(x)), [single], single, 4)
    assert sum("arctan" in f for f in kernels.module.functions) == 1
    x = samples(single, 20, 2)
    assert same(kernels.run("b", x), np.arctan(np.arctan(x)), 4).all()


def test_without_fused_multiply_add() -> None:
    """Lane by lane the C library's functions: the same results as on scalars."""
    host = target.Host("generic", frozenset({"sse2"}), 128)
    if Emitter(ir.Function(ir.Module(), "k", []), 2, host).fused:
        pytest.skip("this architecture always has it")
    for name in ("exp", "sin", "pow", "logistic", "softplus", "integer_pow", "logaddexp"):
        equation = equation_of(PRIMITIVES[name], operands_of(PRIMITIVES[name], np.dtype("f8")), **PARAMS.get(name, [{}])[-1])
        write = lambda e, *x: e.apply(equation, x)  # noqa: B023
        dtypes = [np.dtype("f8")] * len(equation.inputs)
        arrays = [samples(d, 64, 11 + i) for i, d in enumerate(dtypes)]
        found = kernel(write, dtypes, np.dtype("f8"), 2, host)(*arrays)
        assert same(found, kernel(write, dtypes, np.dtype("f8"), 1)(*arrays), 1).all(), name


def test_what_is_refused() -> None:
    half = np.dtype("f2")
    with pytest.raises(Unsupported, match="float16"):
        kernel(lambda e, x: x, [half], half, 4)
    with pytest.raises(Unsupported, match="longdouble|float128|native"):
        Emitter(ir.Function(ir.Module(), "k", []), 2, target.host()).literal(1.0, np.longdouble)
    integers = np.dtype("i4")
    with pytest.raises(Unsupported, match="negative powers"):
        kernel(lambda e, x: e.integer_pow(x, -2), [integers], integers, 4)


@pytest.mark.parametrize("bits", [128, 256, 512])
def test_truth_values_are_combined_in_the_width_of_the_elements(bits: int) -> None:
    """LLVM packs vectors of i1 to half their width and back where the processor has no registers for them."""
    host = target.Host("example", frozenset(), bits)
    function = ir.Function(ir.Module(), "f", [("ptr", "%x")])
    emitter = Emitter(function, bits // 32, host)
    x = emitter.load(np.float32, "%x", "0")
    zero = emitter.literal(0, np.float32)
    emitter.or_(emitter.logical_and(emitter.lt(x, zero), emitter.isnan(x)), emitter.gt(x, zero))
    used = {line.split(" = ")[1].split(" %")[0] for line in function.lines if " = and " in line or " = or " in line}
    kind = "i1" if bits == 512 else "i32"
    assert used == {f"and <{bits // 32} x {kind}>", f"or <{bits // 32} x {kind}>"}
