"""Signals and images: what the tables of tests/surface do not say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.ndimage
import scipy.signal

import funcad
from funcad.scipy import ndimage, signal

RNG = np.random.default_rng(0)
LONG, SHORT = RNG.normal(size=700), RNG.normal(size=400)


def test_long_convolutions_go_by_fourier_transforms() -> None:
    assert signal.choose_conv_method(LONG, SHORT) == "fft"
    assert signal.choose_conv_method(LONG, SHORT[:3]) == "direct"
    f = funcad.jit(lambda x, y: signal.convolve(x, y))
    assert "fft" in str(f.lower(LONG, SHORT).jaxpr)
    assert np.allclose(f(LONG, SHORT), np.convolve(LONG, SHORT))
    found = funcad.grad(lambda y: np.sum(signal.convolve(LONG, y) ** 2))(SHORT)
    assert np.allclose(found, 2 * np.correlate(np.convolve(LONG, SHORT), LONG, "valid"))


def test_modes_of_correlation_for_every_pair_of_lengths() -> None:
    for n in range(1, 6):
        for m in range(1, 6):
            x, y = RNG.normal(size=n), RNG.normal(size=m) + 1j
            for mode in ("full", "same", "valid"):
                for method in ("direct", "fft"):
                    f = lambda x: signal.correlate(x, y, mode, method)  # noqa: B023
                    expected = scipy.signal.correlate(x, y, mode, method)
                    assert np.allclose(funcad.jvp(f, (x,), (x,))[0], expected), (n, m, mode, method)


def test_a_filter_in_pieces_is_the_filter() -> None:
    b, a = scipy.signal.butter(3, 0.3)

    def pieces(b, a, x):
        first, state = signal.lfilter(b, a, x[:9], zi=np.zeros(3))
        second, _ = signal.lfilter(b, a, x[9:], zi=state)
        return np.concatenate([first, second])

    x = LONG[:20]
    for f in (pieces, signal.lfilter):
        assert np.allclose(funcad.jit(f)(b, a, x), scipy.signal.lfilter(b, a, x))
    for i in range(3):
        assert np.allclose(funcad.jacrev(pieces, i)(b, a, x), funcad.jacfwd(signal.lfilter, i)(b, a, x))


def test_filters_over_batches_of_filters() -> None:
    b, a = RNG.normal(size=(3, 2)), np.array([[1.0, 0.3], [2.0, -0.4], [1.0, 0.1]])
    x = RNG.normal(size=(3, 4, 6))
    for axes in ((0, 0, 0), (0, 0, None), (None, 0, 0), (0, None, 0)):
        args = [v if axis == 0 else v[0] for v, axis in zip((b, a, x), axes)]
        found = funcad.vmap(signal.lfilter, axes)(*args)
        pick = [[v[i] if axis == 0 else v for v, axis in zip(args, axes)] for i in range(3)]
        assert np.allclose(found, [scipy.signal.lfilter(*p) for p in pick])


def test_the_impulse_response_of_a_resonator_has_the_closed_form_derivative() -> None:
    impulse = np.eye(1, 12)[0]
    response = lambda r: signal.lfilter(np.ones(1), np.stack([1.0, -r]), impulse)
    powers = np.arange(12)
    assert np.allclose(funcad.jacobian(response)(0.9), powers * 0.9 ** np.maximum(powers - 1, 0))
    second = funcad.jacfwd(funcad.jacrev(response))(0.9)
    assert np.allclose(second, powers * (powers - 1) * 0.9 ** np.maximum(powers - 2.0, 0))


def test_stft_and_back() -> None:
    def there_and_back(x):
        return signal.istft(signal.stft(x, nperseg=16)[2], nperseg=16)[1]

    x = LONG[:64]
    assert np.allclose(there_and_back(x), x)
    assert np.allclose(funcad.jacrev(there_and_back)(x), np.eye(64), atol=1e-12)


def test_refusals_name_the_remedy() -> None:
    x = LONG[:20]
    for f, error, words in (
        (lambda x: signal.filtfilt(np.ones(2), np.ones(1), x, method="gust"), NotImplementedError, "pad"),
        (lambda x: signal.sosfiltfilt(x[:12].reshape(2, 6), x), TypeError, "padlen"),
        (lambda x: signal.savgol_filter(x, 4, 2), NotImplementedError, "window_length"),
        (lambda x: signal.convolve(x, x, mode="other"), ValueError, "mode"),
        (lambda x: signal.lfilter(x[:2], x[:3], x, zi=x[:5]), ValueError, "zi"),
        (lambda x: ndimage.gaussian_filter(x, x[0]), TypeError, "radius"),
        (lambda x: ndimage.map_coordinates(x, [x], output=x[:3] + 0), ValueError, "output array has the shape"),
        (lambda x: ndimage.map_coordinates(x, [x, x]), RuntimeError, "coordinate"),
    ):
        with pytest.raises(error, match=words):
            funcad.jit(f)(x)


MODES = ("reflect", "constant", "grid-constant", "nearest", "mirror", "grid-wrap", "wrap")


@pytest.mark.share(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("order", range(6))
def test_interpolated_images_in_every_mode(mode: str, order: int) -> None:
    image = RNG.normal(size=(5, 6))
    places = np.concatenate([RNG.uniform(-9, 14, size=(2, 30)), RNG.integers(-9, 14, size=(2, 10))], axis=1)
    f = lambda image, places: ndimage.map_coordinates(image, places, order=order, mode=mode, cval=1.5)
    assert np.allclose(funcad.jit(f)(image, places), f(image, places), rtol=1e-9, atol=1e-9)


def test_splines_through_a_smooth_function_have_its_slope() -> None:
    x = np.arange(31.0)
    slope = funcad.grad(lambda c: ndimage.map_coordinates(np.sin(x / 3), c, order=5, mode="mirror")[0])(np.array([[15.3]]))
    assert np.isclose(slope[0, 0], np.cos(15.3 / 3) / 3, rtol=1e-3)


def test_the_width_of_a_gaussian_has_a_derivative() -> None:
    f = lambda s: np.sum(ndimage.gaussian_filter1d(LONG[:9], s, radius=3) ** 2)
    assert np.isclose(funcad.grad(f)(1.1), (f(1.1 + 1e-6) - f(1.1 - 1e-6)) / 2e-6)
    assert np.isclose(f(1.1), np.sum(scipy.ndimage.gaussian_filter1d(LONG[:9], 1.1, radius=3) ** 2))
