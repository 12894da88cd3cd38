"""Small kernels around an `Emitter`, for the tests of element operations: load, compute, store, with a masked end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.native import ir, target
from funcad.backends.native.emitter import Emitter
from funcad.backends.native.lane_types import Lane
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Literal, Var

__all__ = ["Kernels", "equation_of", "kernel"]

Write = Callable[..., Lane]


class Kernels:
    """Several kernels in one module: `add` them, `compile`, then `run(name, *arrays)`."""

    def __init__(self, host: Any = None) -> None:
        self.host = host or target.host()
        self.module = ir.Module()
        self.outputs: dict[str, np.dtype] = {}
        self.compiled: Any = None

    def add(self, name: str, write: Write, inputs: Sequence[Any], output: Any, lanes: int) -> None:
        """write(emitter, *lanes) gives the lane to store; nothing is added if it raises Unsupported."""
        parameters = [("ptr", f"%p{i}") for i in range(len(inputs) + 1)]
        function = ir.Function(self.module, name, [*parameters, ("i64", "%n")])
        emitter = Emitter(function, lanes, self.host)

        def step(index: str, mask: str | None) -> None:
            values = [emitter.load(d, f"%p{i}", index, mask=mask) for i, d in enumerate(inputs)]
            out = write(emitter, *values)
            assert out.dtype == np.dtype(output), f"{name}: {out.dtype} instead of {output}"
            emitter.store(out, f"%p{len(inputs)}", index, mask=mask)

        whole = function.put(f"and i64 %n, {-lanes}")
        with function.loop(0, whole, lanes) as loop:
            step(loop.index, None)
        if lanes > 1:
            rest = function.put(f"sub i64 %n, {whole}")
            with function.when(function.put(f"icmp ne i64 {rest}, 0")):
                step(whole, emitter.mask(rest))
        function.do("ret void")
        self.module.add(function)
        self.outputs[name] = np.dtype(output)

    def compile(self) -> None:
        self.compiled = target.compile_module(self.module.text(), list(self.outputs))

    def run(self, name: str, *arrays: np.ndarray) -> np.ndarray:
        if self.compiled is None:
            self.compile()
        out = np.empty(arrays[0].size, self.outputs[name])
        arguments = [ctypes.c_void_p] * (len(arrays) + 1) + [ctypes.c_int64]
        function = ctypes.CFUNCTYPE(None, *arguments)(self.compiled.address[name])
        function(*[a.ctypes.data for a in arrays], out.ctypes.data, out.size)
        return out


def kernel(write: Write, inputs: Sequence[Any], output: Any, lanes: int, host: Any = None) -> Callable[..., np.ndarray]:
    kernels = Kernels(host)
    kernels.add("k", write, inputs, output, lanes)
    return lambda *arrays: kernels.run("k", *arrays)


def equation_of(primitive: Any, operands: Sequence[Any], **params: Any) -> Equation:
    """An elementwise equation over vectors: operands are dtypes, or scalars, which become literals."""
    atoms = [Var(Aval((8,), a)) if isinstance(a, np.dtype) else Literal(a) for a in operands]
    out = primitive.abstract_eval(*[a.aval for a in atoms], **params)
    return Equation(primitive, tuple(atoms), params, (Var(out),))
