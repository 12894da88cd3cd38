"""Conversion between dtypes, parts of complex numbers, bits, and stop_gradient.

`real`, `imag`, `conj` and `make_complex` are real-linear. Their transposes follow the one convention for complex
numbers (transposition pairs `Re(ct * t)` and does not conjugate): imag's is `-1j * ct`, conj's is `conj(ct)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.host.real_types import KINDS, dtype_kind, keep, native_dtype, of_copy
from funcad.ir.aval import Aval, aval_of, dtype_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.primitives.families import REAL, elementwise, moved_square, native_order

_PYTHON = {"b": bool, "i": int, "f": float, "c": complex}


def _convert_impl(xp: Any, x: Any, *, dtype: np.dtype, weak: bool = False) -> Any:
    own = getattr(x, "dtype", None)  # not to be compared as it is: None == np.dtype(float)
    if weak and not getattr(x, "shape", ()):
        return _PYTHON[dtype.kind](x)
    if own is not None and own == dtype:
        return x
    if dtype.kind != "c" and (type(x) is complex or own is not None and own.kind == "c"):
        x = x.real if dtype.kind != "b" else x != 0
    if own is not None:
        return x.astype(dtype)
    if type(x) is float and dtype.kind in "iu":  # as arrays do, which never raise
        return np.asarray(x).astype(dtype)[()]
    return dtype.type(x)


def _convert_jvp(tangents: Any, out: Any, x: Any, *, dtype: np.dtype, weak: bool = False) -> Any:
    return convert(tangents[0], dtype) if dtype_kind(dtype) in "fc" else None


def _convert_transpose(ct: Any, x: Any, *, dtype: np.dtype, weak: bool = False) -> list:
    return [convert(ct, x.aval.dtype)]


def _convert_batch(size: int, args: Any, batched: Any, *, dtype: np.dtype, weak: bool = False) -> tuple[Any, bool]:
    return convert_p(args[0], dtype=dtype), True


convert_p: Primitive = Primitive(  # weak: to one of Python's scalars, as `math` gives them
    "convert",
    _convert_impl,
    lambda x, *, dtype, weak=False: Aval(x.shape, dtype, weak),
    jvp=_convert_jvp,
    transpose=_convert_transpose,
    batch=_convert_batch,
    emit=lambda e, x, *, dtype, weak=False: e.convert(x, dtype),
    layout=of_copy,
    square=lambda x, *, dtype, **weak: moved_square(convert_p)(x, dtype=dtype, **weak) if dtype_kind(dtype) in "fc" else None,
    reach="pointwise",
    label="cast",
)


def convert(x: Any, dtype: np.dtype) -> Any:
    """x in another dtype, strong; complex to real takes the real part. A no-op when nothing changes."""
    aval = aval_of(x)
    if not dtype.isnative:
        dtype = native_dtype(dtype)
    if aval.dtype == dtype and not aval.weak:
        return x
    if dtype_kind(dtype) not in KINDS:
        raise TypeError(
            f"funcad computes with bool, int, float and complex arrays; {aval} cannot become {dtype} in a traced "
            "function.\nRemedy: return the value from the traced function first, or take funcad.stop_gradient of it"
        )
    return convert_p(x, dtype=dtype)


# x, of which no derivative is taken.
stop_gradient: Primitive = Primitive(
    "stop_gradient",
    lambda xp, x: x,
    lambda x: Aval(x.shape, x.dtype, x.weak),
    jvp=lambda tangents, out, x: None,
    batch=lambda size, args, batched: (stop_gradient(args[0]), True),
    emit=lambda e, x: x,
    layout=keep,  # the public function gives a copy
    may_share=True,
    passive=True,
)
_COMPLEX: dict[int, np.dtype] = {**dict.fromkeys((1, 2, 4), np.dtype(np.complex64)), 8: np.dtype(np.complex128)}


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts hold values of a real dtype."""
    return dtype if dtype.kind == "c" else _COMPLEX.get(dtype.itemsize) or np.dtype(np.clongdouble)


real_p = elementwise(
    "real",
    lambda xp, x: x.real,
    [lambda t, out, x: real(t)],
    transpose=lambda ct, x: [convert(ct, x.aval.dtype)],
    dtype=REAL,
    weak=True,
    layout=lambda x: x.real,
    may_share=True,
)
# The imaginary part of a complex x.
imag = elementwise(
    "imag",
    lambda xp, x: x.imag,
    [lambda t, out, x: imag(t)],
    transpose=lambda ct, x: [conj(make_complex(0.0, ct))],
    dtype=REAL,
    weak=True,
    layout=lambda x: x.imag if x.dtype.kind == "c" else keep(x),
    may_share=True,
)
conj_p = elementwise("conj", np.conjugate, [lambda t, out, x: conj(t)], transpose=lambda ct, x: [conj(ct)])


def _make_complex_impl(xp: Any, re: Any, im: Any) -> Any:
    dtype = next((v.dtype for v in (re, im) if hasattr(v, "dtype")), np.dtype(np.float64))
    out = xp.empty(getattr(re, "shape", ()) or getattr(im, "shape", ()), complex_dtype(dtype))
    out.real, out.imag = re, im
    return out[()] if xp is np and not out.ndim else out


def _make_complex_jvp(tangents: Any, out: Any, re: Any, im: Any) -> Any:
    t, u = tangents
    return make_complex(0.0 if t is None else t, 0.0 if u is None else u)


# re + 1j * im, without the products (which would turn inf into NaN).
make_complex = elementwise(
    "make_complex",
    _make_complex_impl,
    _make_complex_jvp,
    transpose=lambda ct, re, im: [real(ct) if is_linear(re) else None, imag(conj(ct)) if is_linear(im) else None],
    dtype=complex_dtype,
)


def real(x: Any) -> Any:
    """The real part; a real x itself."""
    return real_p(x) if dtype_of(x).kind == "c" else x


def conj(x: Any) -> Any:
    """The complex conjugate; a real x itself."""
    return conj_p(x) if dtype_of(x).kind == "c" else x


def _bitcast_impl(xp: Any, x: Any, *, dtype: np.dtype) -> Any:
    return (native_order(x) if hasattr(x, "view") else aval_of(x).dtype.type(x)).view(dtype)


def _bitcast_abstract(x: Aval, *, dtype: np.dtype) -> Aval:
    if x.dtype.itemsize != dtype.itemsize:
        raise TypeError(f"bitcast: {x} and {dtype} have different sizes; convert or reshape to equal sizes first")
    return Aval(x.shape, dtype)


bitcast_p: Primitive = Primitive(
    "bitcast",
    _bitcast_impl,
    _bitcast_abstract,
    batch=lambda size, args, batched, *, dtype: (bitcast_p(args[0], dtype=dtype), True),
    may_share=True,
)


def bitcast(x: Any, dtype: np.dtype) -> Any:
    """The same bits read as another dtype of equal size."""
    dtype = native_dtype(dtype)
    _bitcast_abstract(aval_of(x), dtype=dtype)
    return bitcast_p(x, dtype=dtype)


def _reduce_precision_impl(xp: Any, x: Any, *, exponent_bits: int, mantissa_bits: int) -> Any:
    x = native_order(xp.asarray(x))
    info = np.finfo(x.dtype)
    bits = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    one = bits.dtype.type(1)
    drop = info.nmant - mantissa_bits
    if drop > 0:  # round the dropped bits to nearest, ties to even; a carry moves into the exponent, as it should
        half = bits.dtype.type((1 << (drop - 1)) - 1)
        bits = bits + half + ((bits >> bits.dtype.type(drop)) & one)
        bits = bits & bits.dtype.type(~((1 << drop) - 1) & (1 << info.bits) - 1)
    out = xp.where(xp.isfinite(x), bits.view(x.dtype), x)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent_bits < info.nexp:
        magnitude = xp.abs(out)
        out = xp.where(xp.isfinite(x) & (magnitude >= 2.0 ** (bias + 1)), xp.copysign(x.dtype.type(np.inf), x), out)
        out = xp.where(magnitude < 2.0 ** (1 - bias), xp.copysign(x.dtype.type(0), x), out)
    return out[()] if xp is np and not out.ndim else out


# x rounded to a format with fewer bits, in its own dtype; subnormals of that format become zero. Tangents too.
reduce_precision: Primitive = Primitive(
    "reduce_precision",
    _reduce_precision_impl,
    lambda x, *, exponent_bits, mantissa_bits: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, **bits: reduce_precision(tangents[0], **bits),
    transpose=lambda ct, x, **bits: [reduce_precision(ct, **bits)],
    batch=lambda size, args, batched, **bits: (reduce_precision(args[0], **bits), True),
    reach="pointwise",
)
