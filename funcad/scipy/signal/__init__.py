"""Signal processing under SciPy's names, differentiable: convolutions, recursive filters, spectra, smoothing.

Windows are constants: `get_window` and the module `windows` are SciPy's own.

>>> import numpy as np, funcad
>>> from funcad.scipy import signal
>>> funcad.grad(lambda a: signal.lfilter(np.array([1.0]), np.stack([1.0, a]), np.ones(3))[-1])(-0.5)
np.float64(-2.0)
"""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.scipy.door import absent as _absent
from funcad.scipy.ndimage.ranked_images import medfilt as medfilt
from funcad.scipy.ndimage.ranked_images import medfilt2d as medfilt2d
from funcad.scipy.signal.convolutions import choose_conv_method as choose_conv_method
from funcad.scipy.signal.convolutions import convolve as convolve
from funcad.scipy.signal.convolutions import convolve2d as convolve2d
from funcad.scipy.signal.convolutions import correlate as correlate
from funcad.scipy.signal.convolutions import correlate2d as correlate2d
from funcad.scipy.signal.convolutions import correlation_lags as correlation_lags
from funcad.scipy.signal.convolutions import fftconvolve as fftconvolve
from funcad.scipy.signal.convolutions import oaconvolve as oaconvolve
from funcad.scipy.signal.filters import filtfilt as filtfilt
from funcad.scipy.signal.filters import lfilter as lfilter
from funcad.scipy.signal.filters import lfilter_zi as lfilter_zi
from funcad.scipy.signal.filters import sosfilt as sosfilt
from funcad.scipy.signal.filters import sosfilt_zi as sosfilt_zi
from funcad.scipy.signal.filters import sosfiltfilt as sosfiltfilt
from funcad.scipy.signal.smoothing import detrend as detrend
from funcad.scipy.signal.smoothing import get_window as get_window
from funcad.scipy.signal.smoothing import hilbert as hilbert
from funcad.scipy.signal.smoothing import resample as resample
from funcad.scipy.signal.smoothing import savgol_filter as savgol_filter
from funcad.scipy.signal.spectra import coherence as coherence
from funcad.scipy.signal.spectra import csd as csd
from funcad.scipy.signal.spectra import istft as istft
from funcad.scipy.signal.spectra import periodogram as periodogram
from funcad.scipy.signal.spectra import spectrogram as spectrogram
from funcad.scipy.signal.spectra import stft as stft
from funcad.scipy.signal.spectra import welch as welch

__all__ = [n for n, v in globals().items() if not n.startswith("_") and type(v) is not type(_importlib)]

if _typing.TYPE_CHECKING:
    from types import ModuleType as _ModuleType

    windows: _ModuleType  # SciPy's own


def _lazy(name: str) -> _Any:
    return _importlib.import_module("scipy.signal.windows") if name == "windows" else None


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.signal", _lazy)


def __dir__() -> list[str]:
    return sorted([*__all__, "windows"])
