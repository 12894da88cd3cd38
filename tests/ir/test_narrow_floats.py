"""The floats of ml_dtypes: bfloat16 and float8 are differentiated, mapped and compiled, with NumPy's dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.host.real_types import dtype_kind, finfo
from funcad.ir.aval import aval_of
from tests.specs import OpSpec, all_specs

ml_dtypes = pytest.importorskip("ml_dtypes")
NAMES = ("bfloat16", "float8_e5m2", "float8_e4m3fn")
OTHERS = {"random_poisson", "random_binomial", "spacing", "nextafter", "root"}  # in float32 they have other values


def _dtype(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name))


@pytest.fixture(params=NAMES)
def dtype(request: pytest.FixtureRequest) -> np.dtype:
    return _dtype(request.param)


def _close(found: Any, expected: Any, dtype: np.dtype, what: str, steps: int = 2) -> None:
    error = np.abs(np.asarray(found).astype(complex) - np.asarray(expected).astype(complex))
    eps, size = float(finfo(dtype).eps), np.abs(np.asarray(expected).astype(complex))
    fits = (error <= steps * eps * np.maximum(size, 1.0)) | np.isnan(error) | ~np.isfinite(size)
    assert np.all(fits), f"{what}: {found} instead of {expected}"


def _cast(args: Any, dtype: np.dtype) -> tuple:
    return tuple([x.astype(dtype) if isinstance(x, (np.ndarray, np.generic)) and x.dtype == float else x for x in args])


SPECS = [s for s in all_specs() if "numpy" in s.backends and s.id.rpartition("-")[0] not in OTHERS and s.id not in OTHERS]


@pytest.mark.parametrize("chunk", range(12))
@pytest.mark.parametrize("name", NAMES)
def test_every_primitive(name: str, chunk: int) -> None:
    """It has the dtype that is predicted, and the value that it has in float32, rounded."""
    dtype, checked = _dtype(name), 0
    for spec in SPECS[chunk::12]:
        args = spec.samples()[0] if spec.samples() else ()
        if not any([isinstance(x, (np.ndarray, np.generic)) and x.dtype == float for x in args]):
            continue
        narrow = _cast(args, dtype)
        wide = tuple([x.astype(np.float32) if getattr(x, "dtype", None) == dtype else x for x in narrow])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            checked += _agrees(spec, narrow, wide, dtype)
    assert checked > 10


def _agrees(spec: OpSpec, narrow: tuple, wide: tuple, dtype: np.dtype) -> bool:
    try:
        expected = spec.call(*wide)
    except (TypeError, ValueError):  # an operation of float64 alone
        return False
    found = spec.call(*narrow)
    predicted = [v.aval.dtype for v in spec.program(narrow)[0].outputs]
    for x, y, promised in zip(found, expected, predicted):
        assert aval_of(x).dtype == promised, spec.id
        if dtype_kind(promised) != "f" or dtype.name == "bfloat16":
            _close(x, np.asarray(y).astype(dtype) if promised == dtype else y, dtype, spec.id)
    return True


def test_derivatives_have_the_dtype(dtype: np.dtype) -> None:
    x = np.array([0.5, 1.25, -2.0], dtype)
    f: Callable[[Any], Any] = lambda x: np.sum(np.sin(x) * x)
    wide = funcad.grad(f)(x.astype(np.float32))
    for transformed in (funcad.grad(f), funcad.jit(funcad.grad(f)), funcad.grad(funcad.jit(f)), funcad.jacfwd(f)):
        for _ in range(4):  # the third run of a program is another one than the first
            found = transformed(x)
            assert found.dtype == dtype
            _close(found, wide, dtype, "sin(x) * x")
    value, found = funcad.value_and_grad(f)(x)
    assert type(value) is dtype.type and found.dtype == dtype
    _close(funcad.vmap(funcad.grad(lambda v: v * v * v))(x), 3 * x.astype(float) ** 2, dtype, "3 * x**2")
    _close(funcad.hessian(lambda x: np.sum(x**3))(x), np.diag(6 * x.astype(float)), dtype, "6 * x")
    _, tangent = funcad.jvp(lambda x: x * 0.5, (x,), (np.ones_like(x),))
    assert tangent.dtype == (x * 0.5).dtype and tangent.tolist() == [0.5] * 3  # float32 before ml_dtypes 0.7


def test_conversions_have_derivatives(dtype: np.dtype) -> None:
    x = np.array([0.5, 1.25, -2.0], np.float32)
    there = lambda x: np.sum(x.astype(dtype).astype(np.float32) ** 2)
    assert funcad.grad(there)(x).dtype == np.float32
    assert funcad.grad(there)(x).tolist() == [1.0, 2.5, -4.0]
    back = lambda x: np.sum(x.astype(np.float32) ** 2)
    assert funcad.grad(back)(x.astype(dtype)).dtype == dtype
    loss = lambda w, x: np.sum((x.astype(dtype) @ w.astype(dtype)).astype(np.float32))
    assert funcad.jit(funcad.grad(loss))(np.ones((3, 2), np.float32), x).tolist() == [[0.5, 0.5], [1.25, 1.25], [-2.0, -2.0]]


PUBLIC = (
    "x + 1; x + 1.5; 2 * x; x / 3.0; x**2; x**0.5; 2.0**x; x // 1; x % 2; abs(x); x > 0; x + y; M @ x; M @ M; x.sum(); "
    "x.mean(); x.var(); x.max(); x.argmax(); x.cumsum(); np.where(x > 0, x, 0); np.where(x > 0, x, 0.0); np.clip(x, 0, "
    "1); np.maximum(x, 0.0); np.concatenate([x, f]); np.stack([x, y]); x + f; x * f[0]; x * np.float64(2); "
    "x.astype(int); x[0] * 1.5; x[::-1]; x[[0, 1]]; np.sort(x); np.dot(M, x); np.outer(x, y); np.tensordot(M, M); "
    "np.zeros_like(x); np.diff(x); np.sum(x, dtype=np.float32); np.isnan(x); np.sign(x); np.floor(x); np.round(x, 1); "
    "np.array([x, y]); x * 1j; np.arange(3) * x; np.arange(3, dtype=np.int8) * x; x * np.float16(1); np.pad(x, 1); "
    "np.linalg.norm(x); np.linalg.solve(M, x); np.median(x); np.quantile(x, 0.5); np.logaddexp(x, y); np.nextafter(x, "
    "y); np.spacing(x); np.frexp(x); np.nan_to_num(x); np.degrees(x); np.linspace(x[0], x[1], 3); np.gradient(x); "
    "np.convolve(x, y); np.fft.fft(x); np.exp(x); np.tanh(x); np.cbrt(x); np.arctan2(x, y)"
)


@pytest.mark.parametrize("text", PUBLIC.split("; "))
def test_dtypes_are_numpys(text: str, dtype: np.dtype) -> None:
    x, y = np.array([0.5, 1.25, 0.75], dtype), np.array([1.0, 0.5, 2.0], dtype)
    m = (np.arange(9).reshape(3, 3) / 4 + np.eye(3)).astype(dtype)
    f = eval(f"lambda x, M: {text}", {"np": np, "y": y, "f": np.ones(3, np.float32)})
    expected = f(x, m)
    found = funcad.jvp(f, (x, m), (np.ones_like(x), np.ones_like(m)))[0]
    mapped = funcad.vmap(f)(x[None], m[None])
    parts = [[v] if not isinstance(v, tuple) else v for v in (expected, found, mapped)]
    for e, v, lanes in zip(*parts):
        assert e.dtype == v.dtype == lanes.dtype
        _close(v, e, dtype, text)
        _close(lanes[0], e, dtype, text)


def test_sums_are_rounded_once(dtype: np.dtype) -> None:
    """NumPy's own sum of bfloat16 stays at 256, because 256 + 1 is 256 there."""
    x = np.full(300, 0.25, dtype)
    assert float(funcad.jvp(np.sum, (x,), (x,))[0]) == float(dtype.type(75.0))
    assert float(funcad.jvp(np.mean, (x,), (x,))[0]) == 0.25


def test_programs_name_them() -> None:
    x = np.ones(3, _dtype("bfloat16"))
    assert "a:bf16[3]" in str(funcad.make_jaxpr(np.sin)(x))
    assert "f8_e4m3fn[3]" in str(funcad.make_jaxpr(np.sin)(x.astype(_dtype("float8_e4m3fn"))))
    assert str(aval_of(x)) == "bfloat16 array of shape (3,)"


@pytest.mark.parametrize("name", ["int4", "float8_e8m0fnu"])
def test_what_is_no_signed_float_is_refused(name: str) -> None:
    x = np.ones(3, _dtype(name))
    with pytest.raises(TypeError, match=rf"got dtype {name}(.|\n)*Remedy: x.astype\(np.float32\)"):
        funcad.grad(lambda x: np.sum(x * x))(x)
    assert funcad.grad(lambda x: np.sum(x * x))(x.astype(np.float32)).astype(x.dtype).tolist() == [2.0] * 3


def test_what_has_no_text_says_so() -> None:
    x = np.ones(3, _dtype("bfloat16"))
    f = funcad.jit(lambda x: np.sin(x) * x)
    assert "it has bfloat16 or float8 values" in str(f.explain(x))
    for ask in (f.source, f.cuda):
        with pytest.raises(NotImplementedError, match=r"operation by operation(.|\n)*Remedy: pass x.astype\(np.float32\)"):
            ask(x)
    assert "sin" in f.source(x.astype(np.float32)) and f(x.astype(np.float32)).astype(x.dtype).dtype == x.dtype


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_numpys_own(name: str, tmp_path: Any) -> None:
    x = np.ones(3, _dtype(name))
    with pytest.raises(TypeError, match=f"of dtype {name}; files hold NumPy's arrays"):
        funcad.tree.save(tmp_path / "state.npz", {"x": x})


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: funcad.scan(lambda c, v: (c * v + v, c), x[0], x)[0],
    "while": lambda x: funcad.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * c[1]), (0, x))[1].sum(),
    "cond": lambda x: funcad.cond(x[0] > 0, np.sin, lambda x: x, x).sum(),
    "checkpoint": lambda x: funcad.checkpoint(lambda x: np.sin(x) * x)(x).sum(),
    "branch": lambda x: x.sum() if x[0] > 0 else -x.sum(),
    "softmax": lambda x: funcad.nn.softmax(x)[0],
    "attention": lambda x: funcad.nn.dot_product_attention(*[x.reshape(1, 3, 1, 1)] * 3).sum(),
}


@pytest.mark.parametrize("name", LOOPS)
def test_control_flow_and_layers(name: str) -> None:
    x, f, dtype = np.array([0.5, 1.25, 0.75]), LOOPS[name], _dtype("bfloat16")
    value, gradient = funcad.value_and_grad(f)(x)
    compiled = funcad.jit(funcad.value_and_grad(f))
    lanes = funcad.vmap(funcad.value_and_grad(f))(np.stack([x, x]).astype(dtype))
    narrow = x.astype(dtype)
    for found in (funcad.value_and_grad(f)(narrow), *[compiled(narrow) for _ in range(4)], [v[0] for v in lanes]):
        assert found[0].dtype == found[1].dtype == dtype
        _close(found[0], value, dtype, name, 4)
        _close(found[1], gradient, dtype, name, 4)
