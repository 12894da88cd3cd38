"""Moving arrays between NumPy and CuPy, as a primitive: a move has a derivative, a move back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.errors import PlacementError
from funcad.host.devices import NAMESPACES, device_in_use, namespace_of, resident
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import abstract_trace_of
from funcad.ir.tracer import Tracer, concrete_value

__all__ = ["put", "on_device_of", "each_on_device_of", "capture_as_inputs", "cupy_module", "device_put_p"]


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
    trace = abstract_trace_of(beside)
    if trace is None:
        return list(values)
    return [trace.capture(x) if type(x) is np.ndarray or type(x) in NAMESPACES else x for x in values]
