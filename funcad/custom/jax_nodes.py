"""A function of JAX's as an operation: what `interop.from_jax` makes.

Idea: `jax_call` has a node as its parameter, a function of a flat list of JAX's arrays. Each rule is a node of the same kind,
made by JAX: jax.jvp of the operands with tangents, jax.linear_transpose of the linear operands, jax.vmap. So every order and
nesting is one, compiled by jax.jit once for a combination of shapes; it computes the function once more. Traps: JAX makes
arrays with NumPy's functions while it traces, which must not be recorded; without `jax_enable_x64` it computes with 32 bits, so
that cotangents are brought to the dtype of the operand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind
from funcad.host.where import setting
from funcad.ir.aval import Aval, dtype_of
from funcad.ir.primitive import Primitive, is_linear
from funcad.memo import remembers


def _alone() -> Any:
    """While JAX traces, what funcad traces around it is not open: JAX makes arrays of its own with NumPy's functions."""
    tracing = dict.fromkeys(["running", "staging", "abstract", "batching", "observer", "lender"])
    return setting(**tracing, axis_env=())


class JaxNode:
    """A function of JAX's arrays that gives a list of them, and the nodes of its derivatives, of the same kind."""

    def __init__(self, jax: Any, flat: Callable[..., tuple[list[Any], Any]], dtypes: Any = None):
        self.jax = jax
        self.flat = flat
        self.dtypes = dtypes  # of the results, where they are to be others than JAX gives
        self.out_tree: Any = None
        self.compiled = jax.jit(self.function)
        self.derived = remembers(same=None)(lambda how, *signature: JaxNode(jax, *getattr(self, how)(*signature)))

    def function(self, *values: Any) -> list[Any]:
        outs, self.out_tree = self.flat(*values)
        return outs

    def avals(self, avals: Sequence[Any]) -> list[Aval]:
        zero = {"b": False, "i": 0, "u": 0, "f": 0.0, "c": 0j}
        given = [zero[a.dtype.kind] if a.weak else self.jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals]
        with _alone():
            outs = self.jax.eval_shape(self.function, *given)
        return [Aval(x.shape, np.dtype(d)) for x, d in zip(outs, self.dtypes or [x.dtype for x in outs])]

    def run(self, values: Sequence[Any]) -> list[Any]:
        with _alone():
            outs = [np.asarray(x) for x in self.compiled(*values)]
        outs = [np.array(x, d) for x, d in zip(outs, self.dtypes or [x.dtype for x in outs])]
        return [x if x.ndim else x[()] for x in outs]

    # the functions of derived nodes, with the dtypes of their results

    def tangent(self, nonzero: tuple, dtypes: tuple) -> tuple:
        """(operands, tangents of some) -> tangents of the inexact results."""

        def pushed(*values: Any) -> tuple[list[Any], None]:
            primals, ts = values[: len(nonzero)], values[len(nonzero) :]

            def of_some(*some: Any) -> list[Any]:
                given = iter(some)
                outs = self.function(*[next(given) if z else x for x, z in zip(primals, nonzero)])
                return [x for x, d in zip(outs, dtypes) if d is not None]

            asarray = self.jax.numpy.asarray
            some = [asarray(x) for x, z in zip(primals, nonzero) if z]
            return self.jax.jvp(of_some, some, [asarray(t, x.dtype) for x, t in zip(some, ts)])[1], None

        return pushed, [d for d in dtypes if d is not None]

    def transposed(self, avals: tuple, nonzero: tuple) -> tuple:
        """(known operands, cotangents of some results) -> cotangents of the linear operands, those with avals."""

        def pulled(*values: Any) -> tuple[list[Any], None]:
            n = len([a for a in avals if a is None])
            known, cts = values[:n], values[n:]

            def of_linear(*some: Any) -> list[Any]:
                given, rest = iter(some), iter(known)
                outs = self.function(*[next(rest) if a is None else next(given) for a in avals])
                return [x for x, z in zip(outs, nonzero) if z]

            canonical = self.jax.dtypes.canonicalize_dtype
            linear = [self.jax.ShapeDtypeStruct(a.shape, canonical(a.dtype)) for a in avals if a is not None]
            likes = self.jax.eval_shape(of_linear, *linear)
            cts = [self.jax.numpy.asarray(ct, like.dtype) for ct, like in zip(cts, likes)]
            return list(self.jax.linear_transpose(of_linear, *linear)(cts)), None

        return pulled, [a.dtype for a in avals if a is not None]

    def batched(self, size: int, flags: tuple) -> tuple:
        axes = [0 if b else None for b in flags]
        return lambda *values: (self.jax.vmap(self.function, axes, axis_size=size)(*values), None), self.dtypes


def _jax_jvp(tangents: Sequence[Any], outs: Sequence[Any], *primals: Any, node: JaxNode) -> list[Any]:
    dtypes = tuple([dtype_of(x) if dtype_kind(dtype_of(x)) in "fc" else None for x in outs])
    nonzero = tuple([t is not None for t in tangents])
    pushed = node.derived("tangent", nonzero, dtypes)
    found = iter(jax_call_p(*primals, *[t for t in tangents if t is not None], node=pushed))
    return [None if d is None else next(found) for d in dtypes]


def _jax_transpose(cts: Sequence[Any], *inputs: Any, node: JaxNode) -> list[Any]:
    avals = tuple([x.aval if is_linear(x) else None for x in inputs])
    pulled = node.derived("transposed", avals, tuple([ct is not None for ct in cts]))
    known = [x for x, a in zip(inputs, avals) if a is None]
    found = iter(jax_call_p(*known, *[ct for ct in cts if ct is not None], node=pulled))
    return [None if a is None else next(found) for a in avals]


def _jax_batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, node: JaxNode) -> tuple[Any, list[bool]]:
    outs = jax_call_p(*args, node=node.derived("batched", size, tuple(batched)))
    return outs, [True] * len(outs)


jax_call_p = Primitive(
    "jax_call",
    lambda xp, *values, node: node.run(values),
    lambda *avals, node: node.avals(avals),
    jvp=_jax_jvp,
    transpose=_jax_transpose,
    batch=_jax_batch,
    multiple=True,
)
