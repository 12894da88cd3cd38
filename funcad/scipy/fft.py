"""Discrete Fourier, cosine and sine transforms under SciPy's names, differentiable.

`overwrite_x` and `workers` are accepted and change no result; a `plan` is refused, as SciPy does.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.configuration import public_names
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy import fft as _numpy
from funcad.numpy.fft import complex_n, floating, irfft_n, norm_of, one_axis, real_operand, resized, rfft_n
from funcad.numpy.promote import axes_of
from funcad.primitives.conversion import conj, convert
from funcad.primitives.fourier import SWAPPED, trigonometric
from funcad.scipy.door import absent, implements

__all__ = [
    *_numpy.__all__,
    "hfft2",
    "ihfft2",
    "hfftn",
    "ihfftn",
    "dct",
    "idct",
    "dst",
    "idst",
    "dctn",
    "idctn",
    "dstn",
    "idstn",
    "next_fast_len",
    "prev_fast_len",
]
__dir__ = public_names(globals())


def _single(x: Any) -> Any:
    """float16 is transformed in float32, which is the result's dtype then."""
    x = floating(x)
    return convert(x, np.dtype(np.float32)) if dtype_of(x).itemsize == 2 else x


def _no_plan(plan: Any) -> None:
    if plan is not None:
        raise NotImplementedError(
            "plan of scipy.fft is not supported: it has no meaning for SciPy's own transforms.\nRemedy: leave it out."
        )


def _one(kind: str) -> Any:
    def transform(
        x: Any,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        _no_plan(plan)
        return one_axis(kind, _single(x), n, axis, norm)

    return implements(f"fft.{kind}")(transform)


def _hfft_n(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    return irfft_n(conj(x) if dtype_of(x).kind == "c" else x, s, axes, SWAPPED[norm_of(norm)])


def _ihfft_n(x: Any, s: Any, axes: Any, norm: Any) -> Any:
    return conj(rfft_n(real_operand(x, "ihfftn"), s, axes, SWAPPED[norm_of(norm)]))


_RULES: dict[str, Any] = {
    "fft": lambda *args: complex_n("fft", *args),
    "ifft": lambda *args: complex_n("ifft", *args),
    "rfft": rfft_n,
    "irfft": irfft_n,
    "hfft": _hfft_n,
    "ihfft": _ihfft_n,
}


def _several(kind: str, suffix: str) -> Any:
    rule = _RULES[kind]

    def transform(
        x: Any,
        s: Any = None,
        axes: Any = None if suffix == "n" else (-2, -1),
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        plan: Any = None,
    ) -> Any:
        _no_plan(plan)
        x, axes = _single(x), (axes,) if is_a(axes, int) else axes
        if s is None and rule in (irfft_n, _hfft_n):  # of an axis with one element SciPy makes one, where NumPy raises
            sizes = _numpy.shape_and_axes(x, None, axes)[0]
            s = sizes if sizes[-1:] == [1] else None
        return rule(x, s, axes, norm)

    return implements(f"fft.{kind}{suffix}")(transform)


fft, ifft, rfft, irfft, hfft, ihfft = [_one(kind) for kind in _RULES]
fft2, ifft2, rfft2, irfft2, hfft2, ihfft2 = [_several(kind, "2") for kind in _RULES]
fftn, ifftn, rfftn, irfftn, hfftn, ihfftn = [_several(kind, "n") for kind in _RULES]
fftshift, ifftshift = _numpy.fftshift, _numpy.ifftshift


@implements("fft.fftfreq")
def fftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """`scipy.fft.fftfreq`; the sample spacing may be traced."""
    return _numpy.fftfreq(n, d)


@implements("fft.rfftfreq")
def rfftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """`scipy.fft.rfftfreq`; the sample spacing may be traced."""
    return _numpy.rfftfreq(n, d)


def _refuse_traced_length(target: Any, real: bool = False) -> int:
    raise TypeError("a transform's length must be a known integer: take it from x.shape, or make it a static argument of jit")


next_fast_len = implements("fft.next_fast_len")(_refuse_traced_length)
prev_fast_len = implements("fft.prev_fast_len")(_refuse_traced_length)


# ---- cosine and sine transforms


def _trigonometric(kind: str, inverse: bool, x: Any, type: Any, n: Any, axis: int, norm: Any, orthogonalize: Any) -> Any:
    type, norm = operator.index(type), norm_of(norm)
    if type not in (1, 2, 3, 4):
        raise ValueError(f"DCT and DST of the types 1, 2, 3 and 4 exist, got type={type}")
    if n is not None:
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"invalid number of data points ({n}) specified")
        x = resized(x, [n], [axis])
    n = shape_of(x)[axis]
    if n < (2 if (kind, type) == ("dct", 1) else 1):
        raise ValueError("DCT-I is not defined for size < 2" if n else f"invalid number of data points ({n}) specified")
    if orthogonalize is None or dtype_of(x).kind == "c":  # SciPy's own disregard the option on complex operands
        orthogonalize = norm == "ortho"
    if inverse:
        type, norm = {1: 1, 2: 3, 3: 2, 4: 4}[type], SWAPPED[norm]
    return trigonometric(x, kind, type, axis, norm=norm, orthogonalize=bool(orthogonalize))


def _one_trigonometric(name: str) -> Any:
    def transform(
        x: Any,
        type: int = 2,
        n: Any = None,
        axis: Any = -1,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:
        x = _single(x)
        if not shape_of(x):
            raise ValueError(f"{name}: the operand must have at least one axis")
        (axis,) = axes_of(operator.index(axis), len(shape_of(x)))
        return _trigonometric(name.removeprefix("i"), name[0] == "i", x, type, n, axis, norm, orthogonalize)

    return implements(f"fft.{name}")(transform)


def _several_trigonometric(name: str) -> Any:
    def transform(
        x: Any,
        type: int = 2,
        s: Any = None,
        axes: Any = None,
        norm: Any = None,
        overwrite_x: bool = False,
        workers: Any = None,
        *,
        orthogonalize: Any = None,
    ) -> Any:
        x = _single(x)
        sizes, places = _numpy.shape_and_axes(x, (s,) if is_a(s, int) else s, (axes,) if is_a(axes, int) else axes)
        if len(set(places)) < len(places):
            raise ValueError("all axes must be unique")
        for n, axis in zip(sizes, places):
            x = _trigonometric(name[:-1].removeprefix("i"), name[0] == "i", x, type, n, axis, norm, orthogonalize)
        return x

    return implements(f"fft.{name}")(transform)


dct, idct, dst, idst = [_one_trigonometric(name) for name in ("dct", "idct", "dst", "idst")]
dctn, idctn, dstn, idstn = [_several_trigonometric(name) for name in ("dctn", "idctn", "dstn", "idstn")]


if not TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = absent("funcad.scipy.fft")
