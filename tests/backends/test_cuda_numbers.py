"""The prelude of kernels in CUDA C++: what it computes of special values in each dtype, beside NumPy.

CUDA's own exp, log and sin are not executed here: where the prelude calls them, the C library's run. What they are on a GPU
only a GPU tells.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from funcad.backends.cuda.elements import PRELUDE, Elements, ElementValue, c_type, literal
from funcad.backends.plans.element_plan import Unsupported
from funcad.primitives.atoms import ELEMENTARY, UFUNCS
from tests import cuda_shim
from tests.cuda_shim import Module
from tests.standin import to_device, to_host

pytestmark = pytest.mark.skipif(not cuda_shim.available(), reason="there is no g++ to run kernels with")
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -3.0, 7.0, 2.5, -2.5, 88.0, 65519.0]
REAL += [1e-300, 5e-324, 1e16, -1e300, np.inf, -np.inf, np.nan]
NUMBERS = [*range(-5, 6), 7, 100, 127, 128, 255, 31, 32, 63, 64, 2**31 - 1, 2**31, 2**63 - 1, -(2**63), 2**64 - 1]
PARTS = [0.0, -0.0, 1.0, -1.5, 0.6, 1e-8, -3e7, -0.8]
WILD = [np.inf, -np.inf, np.nan, 1.0, 0.0, -0.0, 1e300, 5e-324]
ALL = ["?", *"bhiqBHIQ", "e", "f", "d", "F", "D"]
SHORT = ["?", "b", "Q", "e", "d", "D"]
OPEN_SIGNS = {"maximum", "minimum", "fmax", "fmin"}  # of zeros: NumPy leaves them open
LEFT = {  # what has no code, and why
    **{f"arc{f} of {d}": "CuPy's own do" for f in "sin cos tan sinh cosh tanh".split() for d in "FD"},
    **{f"pow of {d}": "NumPy raises at negative exponents, which a kernel cannot" for d in "bhiqBHIQ"},
    **{f"reciprocal of {d}": "what becomes of 0 is C's" for d in "bhiqBHIQ"},
}  # fmt: skip


def samples(char: str, parts: list[float] = PARTS) -> np.ndarray:
    dtype = np.dtype(char)
    with np.errstate(all="ignore"):
        if dtype.kind == "b":
            return np.array([False, True])
        if dtype.kind in "iu":
            return np.unique(np.array([n % 2 ** (8 * dtype.itemsize) for n in NUMBERS], np.uint64).astype(dtype))
        if dtype.kind == "c":
            return np.array([complex(a, b) for a, b in itertools.product(parts, parts)]).astype(dtype)
        tiny = np.finfo(dtype).smallest_subnormal
        return np.array([*REAL, tiny, 3 * tiny, np.finfo(dtype).max, np.finfo(dtype).eps]).astype(dtype)


def loop_of(ufunc: np.ufunc, char: str) -> np.dtype | None:
    """The dtype of the result, if NumPy computes in this dtype."""
    one = np.ones(1, char)
    try:
        with np.errstate(all="ignore"):
            found: np.dtype = ufunc(*[one] * ufunc.nin).dtype
    except TypeError:
        return None
    inside = ufunc.resolve_dtypes((*[np.dtype(char)] * ufunc.nin, None))
    return found if inside[0] == np.dtype(char) else None


def module(cases: list[tuple[str, str]]) -> tuple[dict[tuple[str, str], str], str, set[str]]:
    """A kernel for each atom and dtype: their names, the text, and those that have none."""
    names, parts, missing = {}, [PRELUDE], set()
    for name, char in cases:
        dtype, e = np.dtype(char), Elements()
        operands = [ElementValue(dtype, f"in{k}[i]") for k in range(UFUNCS[name].nin)]
        try:
            found = e.atom(name, *[e.put(dtype, x.text) for x in operands])
        except Unsupported:
            missing.add(f"{name} of {char}")
            continue
        expected = loop_of(UFUNCS[name], char)
        assert found.dtype == expected, f"{name} of {char}: {found.dtype}, NumPy has {expected}"
        names[name, char] = f"k{len(names)}"
        arguments = ", ".join([f"const {c_type(dtype)}* in{k}" for k in range(len(operands))])
        head = f'extern "C" __global__ void __launch_bounds__(32) {names[name, char]}({arguments}, {c_type(found.dtype)}* out'
        lines = [*e.lines, f"out[i] = {found.text};"]
        parts.append(f"{head}, const long long n) {{\nfor (int i = threadIdx.x; i < n; i += 32) {{ {' '.join(lines)} }}\n}}\n")
    return names, "".join(parts), missing


def check(name: str, function: Any, given: list[np.ndarray]) -> None:
    ufunc, dtype = UFUNCS[name], given[0].dtype
    with np.errstate(all="ignore"):
        expected = ufunc(*given)
    out = to_device(np.zeros(expected.shape, expected.dtype))
    function((1,), (32,), (*map(to_device, given), out, np.int64(expected.size)))
    found = to_host(out)
    what = f"{name} of {dtype}"
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    eps = 2.0**-10 if dtype.char == "e" else float(np.finfo(dtype).eps)
    tiny = float(np.finfo(dtype).smallest_subnormal)
    if dtype.kind == "c":
        near(found, expected, given, 64 * eps, what)
        return
    if name not in ELEMENTARY:
        eps = tiny = 0.0
    np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=8 * eps, atol=2 * tiny, err_msg=what)
    zero = (expected == 0) & (found == 0)
    if name not in OPEN_SIGNS:
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]), err_msg=what)


def near(found: np.ndarray, expected: np.ndarray, given: list[np.ndarray], rtol: float, what: str) -> None:
    """Complex numbers differ by a few units of the larger part, where NumPy's own are that good."""
    with np.errstate(all="ignore"):
        far = ~(np.abs(found - expected) <= rtol * np.abs(expected) + 1e-300) & np.isfinite(expected)
    far |= np.isfinite(found.real) & np.isfinite(found.imag) & ~np.isfinite(expected)
    wrong = [(*[g[i] for g in given], found[i], expected[i]) for i in np.flatnonzero(far)]
    assert not wrong, f"{what}: {len(wrong)}, first {wrong[:3]}"


def pairs(char: str, operands: int) -> list[np.ndarray]:
    one = samples(char)
    if operands == 1:
        return [one]
    one = one[::3] if np.dtype(char).kind == "c" else one
    return [np.ascontiguousarray(a.ravel()) for a in np.meshgrid(one, one)]


def check_all(chars: list[str]) -> None:
    cases = [(name, char) for name, ufunc in UFUNCS.items() for char in chars if loop_of(ufunc, char) is not None]
    names, text, missing = module(cases)
    assert not (missing - set(LEFT)), sorted(missing - set(LEFT))
    kernels = Module(text)
    for (name, char), kernel in names.items():
        given = pairs(char, UFUNCS[name].nin)
        if name in ("shift_left", "shift_right") and np.dtype(char).kind == "i":
            given = [g[given[1] >= 0] for g in given]  # what NumPy does by a negative number is C's
        if name == "pow" and np.dtype(char).kind == "c":
            fair = (given[0] != 0) & (abs(given[1]) < 10)  # of 0 NumPy has changed its mind; exponents magnify errors
            given = [g[fair] for g in given]
        check(name, kernels.get_function(kernel), given)


@pytest.mark.parametrize("chars", [SHORT, pytest.param([c for c in ALL if c not in SHORT], marks=pytest.mark.slow)], ids=str)
def test_atoms_beside_numpy(chars: list[str]) -> None:
    check_all(chars)


@pytest.mark.parametrize("char", ["D", pytest.param("F", marks=pytest.mark.slow)])
def test_infinities_and_nans_in_complex_numbers(char: str) -> None:
    cases = [(name, char) for name, u in UFUNCS.items() if u.nin == 1 and loop_of(u, char) is not None]
    names, text, _ = module(cases)
    for (name, _), kernel in names.items():
        check(name, Module(text).get_function(kernel), [samples(char, WILD)])


MUTATIONS = [  # atom, dtype, the function of the prelude, what it says, what it says instead
    ("maximum", "d", "fc_maximum_f(", "a != a", "false"),
    ("fmin", "d", "fc_fmin_f(", "b != b", "false"),
    ("mod", "d", "fc_mod_f(", "v0 + b", "v0"),
    ("mod", "d", "fc_mod_f(", "copysign(T(0x0.0p+0), b)", "T(0x0.0p+0)"),
    ("floor_divide", "b", "fc_floor_divide_i(", "v14 ? v15 : v8", "v8"),
    ("floor_divide", "b", "fc_floor_divide_i(", "v0 ? T(0) : v16", "v16"),
    ("shift_right", "b", "fc_shift_right_i(", "v0 ? b : v1", "v0 ? b : T(0)"),
    ("add", "e", "fc_to_half(double x) {\n", "rint(ldexp(size, 11 - e))", "floor(ldexp(size, 11 - e))"),
    ("div", "D", "fc_div_c(", "v0 >= v1", "true"),
    ("lt", "D", "fc_lt(", "(a.re == b.re && a.im < b.im)", "false"),
    ("sqrt", "D", "fc_sqrt_c(", "copysign(v27, a.im)", "v27"),
]


@pytest.mark.slow
@pytest.mark.parametrize("name, char, function, correct, wrong", MUTATIONS)
def test_a_wrong_prelude_is_caught(name: str, char: str, function: str, correct: str, wrong: str) -> None:
    names, text, _ = module([(name, char)])
    before, head, rest = text.partition(function)
    assert correct in rest.partition("\n}\n")[0]
    given = pairs(char, UFUNCS[name].nin)
    if name == "shift_right":
        given = [g[given[1] >= 0] for g in given]
    check(name, Module(text).get_function(names[name, char]), given)
    with pytest.raises(AssertionError):
        check(name, Module(before + head + rest.replace(correct, wrong, 1)).get_function(names[name, char]), given)


def test_every_float16() -> None:
    e = Elements()
    half, double = np.dtype("e"), np.dtype("d")
    up, down = e.convert(ElementValue(half, "in[i]"), double), e.convert(ElementValue(double, "wide[i]"), half)
    arguments = "const fc_half* in, const double* wide, double* out, fc_half* cut"
    head = f'extern "C" __global__ void __launch_bounds__(32) kernel({arguments}'
    body = " ".join([*e.lines, f"out[i] = {up.text}; cut[i] = {down.text};"])
    text = f"{PRELUDE}{head}, const long long n) {{ for (int i = threadIdx.x; i < n; i += 32) {{ {body} }} }}\n"
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    finite = np.sort(every[np.isfinite(every)].astype(float))
    middle = (finite[1:] + finite[:-1]) / 2  # halfway, and the next numbers to it
    near_it = [np.nextafter(middle, 9e9), np.nextafter(middle, -9e9)]
    wide = np.resize(np.concatenate([every.astype(float), middle, *near_it, [65519.9, 65520, 1e300]]), 4 * len(every))
    out, cut = to_device(np.zeros(len(wide))), to_device(np.zeros(len(wide), np.float16))
    given = np.resize(every, len(wide))
    Module(text).get_function("kernel")((1,), (32,), (to_device(given), to_device(wide), out, cut, np.int64(len(wide))))
    np.testing.assert_array_equal(to_host(out), given.astype(float))
    with np.errstate(all="ignore"):
        expected = wide.astype(np.float16)
    assert np.array_equal(to_host(cut), expected, equal_nan=True)
    assert np.array_equal(np.signbit(to_host(cut))[wide == 0], np.signbit(expected)[wide == 0])


@pytest.mark.parametrize("char", ["e", "D", pytest.param("F", marks=pytest.mark.slow)])
def test_conversions(char: str) -> None:
    """From each dtype, and to it; what does not fit an integer is C's."""
    parts, cases = [PRELUDE], []
    for a, b in [(char, c) for c in ALL] + [(c, char) for c in ALL]:
        e = Elements()
        found = e.convert(ElementValue(np.dtype(a), "in[i]"), np.dtype(b))
        head = f'extern "C" __global__ void __launch_bounds__(32) k{len(cases)}(const {c_type(a)}* in, {c_type(b)}* out, '
        body = " ".join([*e.lines, f"out[i] = {found.text};"])
        parts.append(f"{head}const long long n) {{ for (int i = threadIdx.x; i < n; i += 32) {{ {body} }} }}\n")
        cases.append((a, b))
    module = Module("".join(parts))
    for k, (a, b) in enumerate(cases):
        given = samples(a)
        if np.dtype(a).kind in "fc" and np.dtype(b).kind in "iu":
            sign = 1 if np.dtype(b).kind == "u" else -1
            given = np.array([0, sign, 2.75, 100 * sign]).astype(a)
        real = np.dtype(a).kind == "c" and b not in "FD?"
        with np.errstate(all="ignore"):
            expected = (given.real if real else given).astype(b)
        out = to_device(np.zeros(expected.shape, b))
        module.get_function(f"k{k}")((1,), (32,), (to_device(given), out, np.int64(len(given))))
        np.testing.assert_array_equal(to_host(out), expected, err_msg=f"{a} to {b}")


def test_literals() -> None:
    """Numbers come back bit for bit."""
    text = PRELUDE
    for k, char in enumerate(ALL):
        lines = [f"out[{i}] = {literal(x, np.dtype(char)).text};" for i, x in enumerate(samples(char))]
        head = f'extern "C" __global__ void __launch_bounds__(32) k{k}({c_type(char)}* out) {{ if (threadIdx.x == 0) {{ '
        text += head + " ".join(lines) + " } }\n"
    kernels = Module(text)
    for k, char in enumerate(ALL):
        values = samples(char)
        out = to_device(np.zeros(values.shape, char))
        kernels.get_function(f"k{k}")((1,), (32,), (out,))
        found, floats = to_host(out), np.dtype(char).kind in "fc"
        assert np.array_equal(found, values, equal_nan=floats)
        if floats:
            for a, b in ((found.real, values.real), (found.imag, values.imag)):
                np.testing.assert_array_equal(np.signbit(a[b == b]), np.signbit(b[b == b]))
