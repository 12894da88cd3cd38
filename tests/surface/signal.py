"""Cases of funcad.scipy.signal."""

import numpy as np

from tests.surface import case

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=7), RNG.normal(size=4)
M, K = RNG.normal(size=(4, 5)), RNG.normal(size=(2, 3))
C = Y + 1j * Y[::-1]
I, J = np.array([3, -4, 7, 2, 5]), np.array([1, 2, -1])
LONG = RNG.normal(size=(2, 24))
B, A = np.array([0.5, 0.2, -0.1]), np.array([1.5, -0.4, 0.3])
SOS = np.array([[0.5, 0.2, 0.1, 1.0, -0.3, 0.2], [0.3, -0.4, 0.2, 1.0, 0.1, -0.4]])
STATE = RNG.normal(size=(2, 2))
Z = RNG.normal(size=(5, 4)) + 1j * RNG.normal(size=(5, 4))
MODES = ("full", "same", "valid")
SPECTRAL = dict(nperseg=8, fs=2.0)


def sections(sosfilt, sos, *args, **kwargs):
    """SciPy insists on ones in the fourth column: they are no variables."""
    return sosfilt(np.concatenate([sos[:, :3], 0.0 * sos[:, 3:4] + 1.0, sos[:, 4:]], axis=1), *args, **kwargs)


def second(spectra):
    """Without frequencies and times, which are constants."""
    return spectra[-1]


CASES = [
    *[
        case(f"scipy.signal.{n}", X, Y, kwargs=dict(mode=mode))
        for n in ("convolve", "correlate", "fftconvolve", "oaconvolve")
        for mode in MODES
    ],
    *[case(f"scipy.signal.{n}", X, C, kwargs=dict(mode="same")) for n in ("convolve", "correlate", "fftconvolve")],
    *[case(f"scipy.signal.{n}", C, X, kwargs=dict(method="fft")) for n in ("convolve", "correlate")],
    *[case(f"scipy.signal.{n}", M, K) for n in ("convolve", "correlate", "fftconvolve", "oaconvolve")],
    *[case(f"scipy.signal.{n}", M, M[:, :2], kwargs=dict(axes=1)) for n in ("fftconvolve", "oaconvolve")],
    *[case(f"scipy.signal.{n}", I, J) for n in ("convolve", "correlate")],
    *[
        case(f"scipy.signal.{n}", M, K, kwargs=dict(mode=mode, boundary=boundary))
        for n in ("convolve2d", "correlate2d")
        for mode in MODES
        for boundary in ("fill", "wrap", "symm")
    ],
    case("scipy.signal.convolve2d", M, K, kwargs=dict(fillvalue=1.5)),
    case("scipy.signal.choose_conv_method", X, Y, order=0, missing={"jvp": "a choice"}),
    case("scipy.signal.correlation_lags", 4, 3),
    case("scipy.signal.get_window", "hann", 6),
    case("scipy.signal.lfilter", B, A, X),
    case("scipy.signal.lfilter", B, A, LONG, kwargs=dict(axis=0)),
    case("scipy.signal.lfilter", B, A, LONG[:, :5], -1, STATE),
    case("scipy.signal.lfilter", B, A[:1], X),
    case("scipy.signal.lfilter", B[:1], A, X + 0.5j),
    case("scipy.signal.lfilter_zi", B, A),
    case("scipy.signal.sosfilt", SOS, X, call=sections),
    case("scipy.signal.sosfilt", SOS, X, -1, STATE, call=sections),
    case("scipy.signal.sosfilt_zi", SOS, call=sections),
    *[case("scipy.signal.filtfilt", B, A, LONG, kwargs=dict(padtype=p)) for p in ("odd", "even", "constant", None)],
    case("scipy.signal.filtfilt", B, A, LONG.T, kwargs=dict(axis=0, padlen=3)),
    case("scipy.signal.sosfiltfilt", SOS, LONG, kwargs=dict(padlen=5), call=sections),
    *[case("scipy.signal.detrend", LONG, kwargs=k) for k in (dict(type="constant"), dict(bp=[10]), dict(axis=0))],
    *[
        case("scipy.signal.savgol_filter", LONG, kwargs=dict(window_length=5, polyorder=2, mode=mode))
        for mode in ("interp", "mirror", "constant", "nearest", "wrap")
    ],
    case("scipy.signal.hilbert", LONG),
    *[case("scipy.signal.resample", x, n) for x, n in ((X, 4), (X, 10), (C, 3), (LONG, 2))],
    *[case(f"scipy.signal.{n}", LONG, kwargs=SPECTRAL, gauge=second) for n in ("stft", "welch", "spectrogram")],
    *[case(f"scipy.signal.{n}", LONG[0], LONG[1], kwargs=SPECTRAL, gauge=second) for n in ("csd", "coherence")],
    case(
        "scipy.signal.welch",
        LONG.T,
        kwargs=dict(nperseg=8, detrend="linear", scaling="spectrum", axis=0, nfft=10),
        gauge=second,
    ),
    case("scipy.signal.welch", LONG, kwargs=dict(nperseg=6, average="median", return_onesided=False), gauge=second),
    case(
        "scipy.signal.stft",
        X + 0.5j,
        kwargs=dict(nperseg=4, boundary="even", padded=False, scaling="psd", return_onesided=False),
        gauge=second,
    ),
    case("scipy.signal.spectrogram", LONG[0], kwargs=dict(nperseg=8, mode="magnitude"), gauge=second),
    case("scipy.signal.periodogram", LONG, kwargs=dict(window="hann", nfft=16), gauge=second),
    case("scipy.signal.istft", Z, kwargs=dict(fs=2.0), gauge=second),
    case("scipy.signal.istft", Z, kwargs=dict(input_onesided=False, boundary=False, window="hamming"), gauge=second),
]
for c in CASES:
    c.agreement = 1e-12  # SciPy computes in another order, and by FFT where funcad convolves directly
CASES += [
    case("scipy.signal.medfilt", np.random.default_rng(22).normal(size=11), kwargs={"kernel_size": 3}),
    case("scipy.signal.upfirdn", np.array([1.0, 0.5, 0.2]), np.random.default_rng(24).normal(size=(2, 7)), 3, 2),
    case("scipy.signal.medfilt2d", np.random.default_rng(23).normal(size=(5, 6))),
]
