"""Arrays of devices: moves between NumPy and CuPy, and element operations that differ there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.errors import PlacementError
from funcad.host.devices import NAMESPACES, device_in_use, namespace_of, resident
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import abstract_trace_of
from funcad.ir.tracer import Tracer, concrete_value


def cupy_module(what: str) -> Any:
    """CuPy, the optional engine; the one door to it."""
    try:
        import cupy
    except ImportError:
        raise PlacementError(
            f"{what} needs CuPy, which is not installed.\n"
            "Remedy: pip install cupy-cuda12x (or cupy-cuda13x, as the driver has it) on a machine with an NVIDIA GPU; "
            "device_put(x, 'cpu') keeps the array in NumPy."
        ) from None
    return cupy


def _to_host(x: Any) -> Any:
    if namespace_of([x]) is np:
        return x if is_a(x, (np.ndarray, np.generic)) else np.asarray(x)[()]
    return x.get() if hasattr(x, "get") else np.asarray(x)


def _to_gpu(x: Any, number: int | None) -> Any:
    xp = namespace_of([x])
    if xp is not np and number is None:
        return x
    cupy = xp if xp is not np else next(iter(NAMESPACES.values()), None) or cupy_module("device_put")
    if number is None:
        return cupy.asarray(x)
    with cupy.cuda.Device(number):
        return cupy.asarray(x)


def _moved(xp: Any, x: Any, *, device: str, number: int | None) -> Any:
    return _to_host(x) if device == "cpu" else _to_gpu(x, number)


def _back(ct: Any, x: Any, *, device: str, number: int | None) -> list[Any]:
    """A cotangent goes where the operand came from: the other side."""
    return [device_put_p(ct, device="cuda" if device == "cpu" and NAMESPACES else "cpu", number=None)]


device_put_p = Primitive(
    "device_put",
    _moved,
    lambda x, *, device, number: Aval(x.shape, x.dtype),
    jvp=lambda tangents, out, x, **params: device_put_p(tangents[0], **params),
    transpose=_back,
    batch=lambda size, args, batched, **params: (device_put_p(args[0], **params), True),
    moves=lambda device, number: device,
    may_share=True,
)


def put(x: Any, device: str, number: int | None) -> Any:
    """x on "cpu" or "cuda" (the given GPU, or the current one); x itself if it is there already."""
    if type(x) is Tracer:
        value = concrete_value(x)
        if device == "cpu" and type(value) is not Tracer and namespace_of([value]) is np:
            return x
        return device_put_p(x, device=device, number=number)
    return _moved(np, x, device=device, number=number)


def on_device_of(captured: Sequence[Any], beside: Sequence[Any], scalars: bool = False) -> list[Any]:
    """Captured NumPy arrays, moved to where the arrays behind `beside` are.

    With `scalars`, only what has rank 0 moves, NumPy scalars too: the seed of a derivative, which nothing else would place.
    """
    if not device_in_use():
        return list(captured)
    xp = namespace_of([concrete_value(x) for x in beside])
    if xp is np:
        return list(captured)
    if scalars:
        numbers: Any = (np.ndarray, np.generic)
        return [xp.asarray(x) if is_a(x, numbers) and not x.ndim else x for x in captured]
    return [resident(xp, x) if type(x) is np.ndarray else x for x in captured]


def each_on_device_of(derivatives: list[Any], primals: Sequence[Any]) -> list[Any]:
    """Derivatives on their primals' device: a rule may have given zeros of NumPy's."""
    if not device_in_use():
        return derivatives
    return [d if d.dtype.kind == "V" else on_device_of([d], [p])[0] for d, p in zip(derivatives, primals)]  # V: float0


def capture_as_inputs(values: Sequence[Any], beside: Sequence[Any]) -> list[Any]:
    """Arrays that meet abstract values in `beside` become inputs of their program, which reads them anew at each run.

    Otherwise what a derivative's or a batching rule makes of them would be computed now, and frozen.
    """
    kinds = {*map(type, values)}
    if np.ndarray not in kinds and kinds.isdisjoint(NAMESPACES) or Tracer not in map(type, beside):
        return list(values)
    trace = abstract_trace_of(beside)
    if trace is None:
        return list(values)
    return [trace.capture(x) if type(x) is np.ndarray or type(x) in NAMESPACES else x for x in values]


# -- elementwise functions whose CuPy counterparts differ from NumPy's and SciPy's at special values
#
# Each takes `(xp, theirs, *operands)`, where `theirs` is CuPy's function of the same name, and gives what NumPy gives: for NaN,
# infinities, signed zeros, and where CuPy's formula loses all digits. They are made of functions that agree (fmod, floor, expm1
# ...) and leave other dtypes to `theirs`. Jitted and un-jitted programs come here alike.


_HALF, _SINGLE, _DOUBLE = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)


def _dtype(args: Any) -> np.dtype:
    """That of the arrays among the operands; scalars beside them have it, or follow it."""
    found = next((a.dtype for a in args if hasattr(a, "dtype") and not is_a(a, np.generic)), None)
    return np.result_type(*args) if found is None else found


def _in(dtype: np.dtype, f: Callable[..., Any], xp: Any, args: Any) -> Any:
    """f of the operands as arrays of this dtype, rounded back to theirs."""
    own = _dtype(args)
    return f(xp, *[xp.asarray(a, dtype=dtype) for a in args]).astype(own, copy=False)


# -- division


def _of_floats(f: Callable[..., Any]) -> Callable[..., Any]:
    """f for floats, the library's own function for others."""

    def divided(xp: Any, theirs: Any, x: Any, y: Any) -> Any:
        dtype = _dtype((x, y))
        return theirs(x, y) if dtype.kind != "f" else _in(_SINGLE if dtype == _HALF else dtype, f, xp, (x, y))

    return divided


@_of_floats  # the remainder with the sign of the divisor; a zero has it, too
def remainder(xp: Any, x: Any, y: Any) -> Any:
    rest = xp.fmod(x, y)
    rest = xp.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)
    return xp.where(rest == 0, xp.copysign(rest, y), rest)


@_of_floats  # the integer n for which x - n y is the remainder
def floor_divide(xp: Any, x: Any, y: Any) -> Any:
    rest, quotient = xp.fmod(x, y), xp.true_divide(x, y)
    n = (x - rest) / y
    n = xp.where((rest != 0) & ((rest < 0) != (y < 0)), n - 1.0, n)
    whole = xp.floor(n)
    whole = xp.where(n - whole > 0.5, whole + 1.0, whole)
    whole = xp.where(n == 0, xp.copysign(n, quotient), whole)
    return xp.where(y == 0, quotient, whole)


# -- logic and logarithms


def logical(xp: Any, theirs: Any, *args: Any) -> Any:
    """A logical operation, of complex numbers too, which are true unless they are 0."""
    return theirs(*[a != 0 for a in args]) if _dtype(args).kind == "c" else theirs(*args)


def logaddexp2(xp: Any, theirs: Any, x: Any, y: Any) -> Any:
    gap = -xp.abs(xp.subtract(x, y))
    gap = xp.where(xp.equal(x, y), xp.zeros_like(gap), gap)  # of equal infinities, too
    return xp.maximum(x, y) + xp.log1p(xp.exp2(gap)) * 1.4426950408889634


# -- special values of what agrees elsewhere


def sinc(xp: Any, theirs: Any, x: Any) -> Any:
    x = xp.asarray(x)
    u = x * np.pi
    return xp.where(x == 0, xp.ones_like(u), xp.sin(u) / xp.where(x == 0, xp.ones_like(u), u))


def patched(*rules: tuple[Callable[..., Any], Callable[..., Any]]) -> Callable[..., Any]:
    """`theirs`, but where `where(xp, *args)` holds the value `value(xp, *args)`; the first rule that holds."""

    def function(xp: Any, theirs: Any, *args: Any) -> Any:
        dtype = _dtype(args)
        args = tuple([xp.asarray(a, dtype=dtype) for a in args])
        out = theirs(*args)
        for where, value in reversed(rules):
            out = xp.where(where(xp, *args), xp.asarray(value(xp, *args), dtype=out.dtype), out)
        return out

    return function


def nan_aside(xp: Any, theirs: Any, x: Any) -> Any:
    """`theirs` of a number that makes a counter of it: nobody says which integer NaN becomes, and it may be a large one."""
    x = xp.asarray(x)
    missing = xp.isnan(x)
    return xp.where(missing, x, theirs(xp.where(missing, xp.ones_like(x), x)))


def in_double(xp: Any, theirs: Any, *args: Any) -> Any:
    """`theirs` in float64, as SciPy computes it for float32, too."""
    return _in(_DOUBLE, lambda xp, *args: theirs(*args), xp, args)


either_nan = patched((lambda xp, x, y: xp.isnan(x) | xp.isnan(y), lambda xp, x, y: x + y))


def at_infinity(value: float, *, negative: bool = False) -> Callable[..., Any]:
    """`theirs`, but this value at infinity (at minus infinity, too), and NaN of NaN."""

    def where(xp: Any, x: Any) -> Any:
        return xp.isinf(x) if negative else x == np.inf

    return patched((where, lambda xp, x: value), (lambda xp, x: xp.isnan(x), lambda xp, x: x))


gammasgn = patched(
    (lambda xp, x: x == 0, lambda xp, x: xp.copysign(xp.ones_like(x), x)),
    (lambda xp, x: x == -np.inf, lambda xp, x: np.nan),
)


def pseudo_huber(xp: Any, theirs: Any, delta: Any, r: Any) -> Any:
    return _in(_DOUBLE, _pseudo_huber, xp, (delta, r))


def _pseudo_huber(xp: Any, delta: Any, r: Any) -> Any:
    ratio = r / delta
    out = delta * delta * xp.expm1(0.5 * xp.log1p(ratio * ratio))
    return xp.where(delta < 0, np.inf, xp.where((delta == 0) | (r == 0), 0.0, out))


def rel_entr(xp: Any, theirs: Any, x: Any, y: Any) -> Any:
    return _in(_DOUBLE, _rel_entr, xp, (x, y))


def _rel_entr(xp: Any, x: Any, y: Any) -> Any:
    ratio = x / y
    near, inside = (ratio > 0.5) & (ratio < 2.0), (ratio > np.finfo(np.float64).tiny) & (ratio < np.inf)
    logarithm = xp.where(inside, xp.log(ratio), xp.log(x) - xp.log(y))
    logarithm = xp.where(near, xp.log1p((x - y) / y), logarithm)
    out = xp.where((x > 0) & (y > 0), x * logarithm, np.inf)
    out = xp.where((x == 0) & (y >= 0), 0.0, out)
    return xp.where(xp.isnan(x) | xp.isnan(y), x + y, out)


def inv_boxcox(after: str) -> Callable[..., Any]:
    """exp(log(1 + m y) / m), or expm1, where m y overflows: 1 makes no difference then."""

    def where(xp: Any, y: Any, m: Any) -> Any:
        return xp.isinf(m * y) & xp.isfinite(m) & xp.isfinite(y) & (m * y > 0)

    def value(xp: Any, y: Any, m: Any) -> Any:
        return getattr(xp, after)((xp.log(xp.abs(y)) + xp.log(xp.abs(m))) / m)

    return patched((where, value))
