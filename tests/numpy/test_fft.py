"""Fourier transforms: what the tables of tests/specs/fft.py and tests/surface/fft.py do not say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.fft

import funcad
import funcad.numpy as fnp
from funcad.scipy import fft

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
Z = X + 1j * RNG.normal(size=(4, 5))


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("kind", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
@pytest.mark.parametrize("n", [None, 1, 4, 7])
def test_every_length_and_norm(kind: str, norm: str | None, n: int | None) -> None:
    x = X if kind in ("rfft", "ihfft") else Z
    for axis in (0, -1):
        f = lambda x: getattr(np.fft, kind)(x, n, axis, norm)  # noqa: B023
        out, pullback = funcad.vjp(f, x)
        assert np.allclose(out, f(x), rtol=1e-13)
        ct, t = np.asarray(RNG.normal(size=out.shape), out.dtype), np.asarray(RNG.normal(size=x.shape), x.dtype)
        assert np.isclose(np.sum(ct * f(t)).real, np.sum(pullback(ct)[0] * t).real)


def test_round_trips_have_the_identity_as_derivative() -> None:
    assert np.allclose(funcad.jacobian(lambda x: np.fft.irfft(np.fft.rfft(x), 5))(X[0]), np.eye(5))
    assert np.allclose(funcad.jacobian(lambda x: np.fft.ifft(np.fft.fft(x)).real)(X[0]), np.eye(5))


def test_parseval() -> None:
    energy = funcad.grad(lambda x: np.sum(np.abs(np.fft.fftn(x, norm="ortho")) ** 2))
    assert np.allclose(energy(X), 2 * X)


def test_convolution_theorem_in_a_jitted_batch() -> None:
    f = funcad.jit(funcad.vmap(lambda x, y: np.fft.irfft(np.fft.rfft(x, 9) * np.fft.rfft(y, 9), 9)))
    assert np.allclose(f(X, X[::-1]), [np.convolve(a, b) for a, b in zip(X, X[::-1])])


def test_precision_is_kept() -> None:
    single = X.astype(np.float32)
    for f in (np.fft.fft, fnp.fft.rfft, fft.dct):
        out, tangent = funcad.jvp(f, (single,), (single,))
        assert out.dtype == tangent.dtype == f(single).dtype and out.dtype.char in "fF"
    assert funcad.grad(lambda x: np.sum(np.abs(np.fft.fft(x))))(single).dtype == np.float32


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: np.fft.fft(x, n=0), ValueError),
        (lambda x: np.fft.fft(x[:, :0]), ValueError),
        (lambda x: np.fft.fft(x, axis=2), IndexError),
        (lambda x: np.fft.fft(x[0, 0]), IndexError),
        (lambda x: np.fft.fft2(x[0]), IndexError),
        (lambda x: np.fft.rfft(x + 0j), TypeError),
        (lambda x: np.fft.fft(x, norm="other"), ValueError),
        (lambda x: np.fft.fftn(x, s=(2,), axes=(0, 1)), ValueError),
        (lambda x: np.fft.irfft(x[:, :1]), ValueError),
        (lambda x: fft.dct(x, type=5), ValueError),
        (lambda x: fft.dct(x[:, :1], type=1), (ValueError, RuntimeError)),
    ],
)
def test_errors_are_numpys(f: object, error: type) -> None:
    for run in (f, funcad.jit(f)):
        with pytest.raises(error):
            run(X)  # type: ignore[operator]


def test_out_is_refused() -> None:
    outside = np.zeros((4, 5), complex)
    with pytest.raises(TypeError, match="out"):
        funcad.jvp(lambda x: np.fft.fft(x, out=outside), (Z,), (Z,))


def test_frequencies_have_derivatives_in_the_spacing() -> None:
    assert np.allclose(funcad.jacobian(lambda d: np.fft.fftfreq(4) / d)(2.0), -np.fft.fftfreq(4) / 4)
    assert np.allclose(funcad.jacobian(lambda d: fnp.fft.fftfreq(4, d))(2.0), -np.fft.fftfreq(4) / 4)


@pytest.mark.parametrize("kind", ["dct", "dst"])
@pytest.mark.parametrize("type", [1, 2, 3, 4])
@pytest.mark.parametrize("orthogonalize", [None, True, False])
def test_transposes_of_cosine_and_sine_transforms(kind: str, type: int, orthogonalize: bool | None) -> None:
    for norm in ("backward", "ortho", "forward"):
        f = lambda x: getattr(fft, kind)(x, type, norm=norm, orthogonalize=orthogonalize)  # noqa: B023
        matrix = getattr(scipy.fft, kind)(np.eye(5), type, norm=norm, orthogonalize=orthogonalize).T
        assert np.allclose(funcad.jacfwd(f)(X[0]), matrix)
        assert np.allclose(funcad.jacrev(f)(X[0]), matrix)
        inverse = lambda x: getattr(fft, "i" + kind)(f(x), type, norm=norm, orthogonalize=orthogonalize)  # noqa: B023
        assert np.allclose(funcad.jacrev(inverse)(X[0]), np.eye(5))


def test_traced_lengths_are_refused() -> None:
    assert fft.next_fast_len(97) == scipy.fft.next_fast_len(97)
    with pytest.raises(TypeError, match="static"):
        funcad.jit(fft.next_fast_len)(97)


@pytest.mark.parametrize("kind", ["irfftn", "irfft2", "hfftn", "hfft2"])
@pytest.mark.parametrize("shape", [(3, 1), (1, 1), (1, 3), (2, 3, 1)])
def test_axes_of_one_element_are_scipys(kind: str, shape: tuple[int, ...]) -> None:
    f, z = getattr(scipy.fft, kind), np.resize(Z, shape)
    jitted = funcad.jit(f)
    for found in (jitted(z), jitted(z), jitted(z), funcad.vmap(f)(z[None])[0], *funcad.jvp(f, (z,), (z,)), funcad.vjp(f, z)[0]):
        np.testing.assert_allclose(found, f(z), rtol=1e-12, atol=1e-13)
    if kind.startswith("irfft") and shape[-1] == 1:
        with pytest.raises(ValueError, match="data points"):
            funcad.jvp(getattr(np.fft, kind), (z,), (z,))
