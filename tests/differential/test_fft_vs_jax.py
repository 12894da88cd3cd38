"""Transforms, signals, images, interpolation and differential equations against JAX: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import scipy as fsp

jax = pytest.importorskip("jax")
jnp = jax.numpy
ode = pytest.importorskip("jax.experimental.ode")
jsp = pytest.importorskip("jax.scipy")
for _name in ("fft", "signal", "ndimage", "interpolate", "integrate"):
    pytest.importorskip(f"jax.scipy.{_name}")

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def double_precision() -> Any:
    with jax.enable_x64(True):
        yield


RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4, 5))
Z = X + 1j * RNG.normal(size=X.shape)
LINE, SHORT = RNG.normal(size=40), RNG.normal(size=7)
MATRIX, KERNEL = RNG.normal(size=(6, 7)), RNG.normal(size=(3, 2))
PLACES = RNG.uniform(-1.0, 7.0, size=(2, 9))


def weighted(xp: Any, out: Any) -> Any:
    """A real number that depends on all of a result, complex parts too."""
    total = 0.0
    for o in out if isinstance(out, (tuple, list)) else [out]:
        weights = np.cos(np.arange(np.prod(o.shape, dtype=int))).reshape(o.shape)
        total = total + xp.sum(xp.real(o) * weights) + xp.sum(xp.imag(o) * (weights + 0.5))
    return total


def agree(f: Any, g: Any, *args: Any, rtol: float = 1e-9, count: int | None = None) -> None:
    """Value and gradients of funcad's f and JAX's g; gradients of complex arguments have JAX's convention."""
    expected, found = g(*args), f(*args)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
    numbers = tuple(range(len(args) if count is None else count))
    own = funcad.grad(lambda *xs: weighted(np, f(*xs)), numbers)(*args)
    theirs = jax.grad(lambda *xs: weighted(jnp, g(*xs)), numbers)(*args)
    for a, b in zip(own, theirs):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1.0, float(np.max(np.abs(b)))))


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
@pytest.mark.parametrize("name", "fft ifft rfft irfft hfft ihfft".split())
def test_one_axis(name: str, norm: str) -> None:
    x = X if name in ("rfft", "ihfft") else Z
    for n, axis in ((None, -1), (3, 0), (6, 1)):
        agree(
            lambda x: getattr(np.fft, name)(x, n, axis, norm),  # noqa: B023
            lambda x: getattr(jnp.fft, name)(x, n, axis, norm),  # noqa: B023
            x,
        )


@pytest.mark.parametrize("name", "fft ifft rfft irfft".split())
def test_several_axes(name: str) -> None:
    x = X if name == "rfft" else Z
    for s, axes in ((None, None), ((2, 6), (0, 2)), ((3, 5), (2, 1))):
        agree(
            lambda x: getattr(np.fft, name + "n")(x, s, axes),  # noqa: B023
            lambda x: getattr(jnp.fft, name + "n")(x, s, axes),  # noqa: B023
            x,
        )


def test_cosine_transforms() -> None:
    for name in ("dct", "idct", "dctn", "idctn"):
        for norm in (None, "ortho"):
            agree(
                lambda x: getattr(fsp.fft, name)(x, norm=norm),  # noqa: B023
                lambda x: getattr(jsp.fft, name)(x, norm=norm),  # noqa: B023
                X,
            )


def test_convolutions() -> None:
    for name in ("convolve", "correlate", "fftconvolve"):
        for mode in ("full", "same", "valid"):
            f, g = getattr(fsp.signal, name), getattr(jsp.signal, name)
            agree(lambda x, y: f(x, y, mode=mode), lambda x, y: g(x, y, mode=mode), LINE, SHORT)  # noqa: B023
            agree(lambda x, y: f(x, y, mode=mode), lambda x, y: g(x, y, mode=mode), MATRIX, KERNEL)  # noqa: B023
    agree(fsp.signal.convolve2d, jsp.signal.convolve2d, MATRIX, KERNEL)
    agree(fsp.signal.correlate2d, jsp.signal.correlate2d, MATRIX, KERNEL)


def test_spectra() -> None:
    for name in ("welch", "stft"):
        f, g = getattr(fsp.signal, name), getattr(jsp.signal, name)
        agree(lambda x: f(x, nperseg=16)[-1], lambda x: g(x, nperseg=16)[-1], LINE)  # noqa: B023
    spectrum = np.asarray(fsp.signal.stft(LINE, nperseg=8)[2])
    agree(lambda z: fsp.signal.istft(z, nperseg=8)[1], lambda z: jsp.signal.istft(z, nperseg=8)[1], spectrum)
    agree(lambda x: fsp.signal.csd(x, x[::-1], nperseg=16)[1], lambda x: jsp.signal.csd(x, x[::-1], nperseg=16)[1], LINE)
    agree(fsp.signal.detrend, jsp.signal.detrend, LINE)


def test_images() -> None:
    for order in (0, 1):
        for mode in ("nearest", "wrap", "mirror", "reflect"):
            if mode == "wrap":  # JAX's has period n, which SciPy calls grid-wrap
                own = "grid-wrap"
            else:
                own = mode
            agree(
                lambda x, c: fsp.ndimage.map_coordinates(x, c, order=order, mode=own),  # noqa: B023
                lambda x, c: jsp.ndimage.map_coordinates(x, list(c), order=order, mode=mode),  # noqa: B023
                MATRIX,
                PLACES,
                count=1 if order == 0 else 2,
            )


def test_grids() -> None:
    points = (np.arange(6.0), np.arange(7.0))
    inside = RNG.uniform(0.1, 4.9, size=(8, 2))
    for method in ("linear", "nearest"):
        own = lambda v, x: fsp.interpolate.RegularGridInterpolator(points, v, method, False)(x)  # noqa: B023
        theirs = lambda v, x: jsp.interpolate.RegularGridInterpolator(points, v, method, False)(x)  # noqa: B023
        agree(own, theirs, MATRIX, inside, count=2 if method == "linear" else 1)


def test_integrals() -> None:
    agree(fsp.integrate.trapezoid, jsp.integrate.trapezoid, LINE)
    nodes = np.sort(LINE)
    agree(fsp.integrate.trapezoid, jsp.integrate.trapezoid, LINE, nodes)


def test_odeint() -> None:
    def f(xp: Any) -> Any:
        return lambda y, t, a: xp.stack([y[1], -a * xp.sin(y[0]) + 0.1 * t])

    args = (np.array([0.8, -0.4]), np.array([0.0, 0.3, 0.9, 2.0]), 1.5)
    agree(lambda *a: fsp.integrate.odeint(f(np), *a), lambda *a: ode.odeint(f(jnp), *a), *args, rtol=1e-6)
