"""The special cases of the array API standard hold for the functions of `x.__array_namespace__()`, traced or not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends.native import target
from funcad.numpy import array_api as xp
from tests.fuzzing import ENGINES, NATIVE
from tests.special_cases import COMPLEX, DERIVED, PAIRS, REAL, complex_cases, pair_cases, real_cases

pytestmark = [
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*does not depend on"),
]
MANY = 37  # copies of each case: vectors, their rest, and single elements


def agrees(found: float, expected: float, sign: bool, tolerance: float) -> bool:
    if math.isnan(expected):
        return math.isnan(found)
    if not sign:
        found, expected = abs(found), abs(expected)
    if expected == 0 or math.isinf(expected):
        return found == expected and math.copysign(1.0, found) == math.copysign(1.0, expected)
    return abs(found - expected) <= tolerance * abs(expected)


def runs(name: str, operands: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The results of `name` by every way to call it; each way sees all cases at once, except for scalars."""

    def of_namespace(*x: Any) -> Any:
        return getattr(x[0].__array_namespace__(), name)(*x)

    many = [np.repeat(x, MANY) for x in operands]
    function = getattr(xp, name)
    found = {
        "arrays": function(*many)[::MANY],
        "strided": function(*operands),
        "scalars": np.array([function(*[x[i] for x in operands]) for i in range(operands[0].size)]),
        "vjp": funcad.vjp(of_namespace, *many)[0][::MANY],
    }
    for engine in ("numpy", "native"):
        if engine in ENGINES and (engine not in NATIVE or target.available()):
            with funcad.config.set(engine=engine):
                jitted = funcad.jit(of_namespace)
                for _ in range(2):
                    found[f"jit, {engine}"] = np.asarray(jitted(*many))[MANY - 1 :: MANY]
    return found


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("name", REAL)
def test_real_operand(name: str, dtype: Any) -> None:
    cases = list(real_cases(name))
    tolerance = 8 * np.finfo(dtype).eps
    for way, results in runs(name, [np.array([x for x, _ in cases], dtype)]).items():
        assert results.dtype == dtype
        for (x, (expected, sign)), found in zip(cases, results.tolist()):
            assert agrees(found, expected, sign, tolerance), f"{name}({x}): {found} {way}, not {expected}"


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["f4", "f8"])
@pytest.mark.parametrize("name", PAIRS)
def test_two_real_operands(name: str, dtype: Any) -> None:
    cases = list(pair_cases(name))
    tolerance = 8 * np.finfo(dtype).eps
    operands = [np.array([x for x, _, _ in cases], dtype), np.array([y for _, y, _ in cases], dtype)]
    for way, results in runs(name, operands).items():
        for (x, y, (expected, sign)), found in zip(cases, results.tolist()):
            assert agrees(found, expected, sign, tolerance), f"{name}({x}, {y}): {found} {way}, not {expected}"


def parts_agree(found: complex, expected: list[tuple[float, bool]], tolerance: float) -> bool:
    return all([agrees(f, *e, tolerance) for f, e in zip((found.real, found.imag), expected)])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["c8", "c16"])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_operand(name: str, dtype: Any) -> None:
    cases = list(complex_cases(name))
    tolerance = 8 * np.finfo(dtype).eps
    z = np.empty(len(cases), dtype)
    z.real, z.imag = [a for a, _, _ in cases], [b for _, b, _ in cases]
    for way, results in runs(name, [z]).items():
        for (a, b, expected), found in zip(cases, results.tolist()):
            assert parts_agree(complex(found), expected, tolerance), f"{name}({a}, {b}): {found} {way}, not {expected}"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128], ids=["c8", "c16"])
@pytest.mark.parametrize("name", DERIVED)
def test_complex_operand_by_another_function(name: str, dtype: Any) -> None:
    """`sin(z)` is `-1j * sinh(1j * z)`, and so on: the products only turn, so no part meets the other."""
    other, _, back = DERIVED[name]
    cases = list(complex_cases(other))
    tolerance = 8 * np.finfo(dtype).eps
    z = np.empty(len(cases), dtype)
    z.real, z.imag = [b for _, b, _ in cases], [-a for a, _, _ in cases]  # 1j * (b - a j) is a + b j
    for way, results in runs(name, [z]).items():
        for (a, b, (re, im)), found in zip(cases, results.tolist()):
            expected = [re, im] if back == 1.0 else [im, (-re[0], re[1])]
            assert parts_agree(found, expected, tolerance), f"{name}({b}, {-a}): {found} {way}, not {expected}"


OTHERWISE = [("pow", (0.5,)), ("pow", (2,)), ("floor_divide", (2,)), ("floor_divide", (2.5,)), ("expm1", ()), ("sign", ())]
OPERANDS = [np.zeros(0), np.zeros((2, 0), "f4"), np.array([1, 2]), np.array(4.0)]
OPERANDS += [np.float64(3.0), 3, 3.0, np.int32(5), np.float16(2)]


@pytest.mark.parametrize("name,rest", OTHERWISE)
def test_between_special_cases_they_are_numpys(name: str, rest: tuple) -> None:
    numpys, ours = getattr(np, name), getattr(xp, name)
    for x in OPERANDS:
        expected = numpys(x, *rest)
        assert type(ours(x, *rest)) is type(expected)
        for found in (ours(x, *rest), funcad.jit(lambda x: ours(x, *rest))(x)):
            assert np.asarray(found).dtype == np.asarray(expected).dtype
            np.testing.assert_allclose(found, expected, rtol=1e-6 if np.asarray(found).dtype.itemsize < 8 else 1e-15)
    v = np.array([0.3, 2.0, 5.0])
    for transform in (lambda f: funcad.grad(f), lambda f: funcad.jit(funcad.grad(f)), lambda f: funcad.jit(funcad.hessian(f))):
        a, b = [transform(lambda v, f=f: np.sum(f(v, *rest) * v))(v) for f in (ours, numpys)]
        np.testing.assert_allclose(a, b, rtol=1e-14)
    z = np.array([1 + 2j, -0.5j])
    if not rest:
        a, b = [funcad.jvp(f, (z,), (z + 1,))[1] for f in (ours, numpys)]
        np.testing.assert_allclose(a, b, rtol=1e-14)
