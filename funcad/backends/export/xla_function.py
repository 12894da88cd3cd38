"""A program as one operation of JAX's, with all of JAX's transformations by funcad's rules.

Idea: the operation `funcad` has a program as its parameter. Its value is the program in lax (xla_program); its jvp is the
program's linearization, in two operations of the same kind, one that gives the residuals and a linear one; its transpose and
batch rule are the program's. So every order and every nesting of jax.jvp, grad, vmap, jit, checkpoint, scan is a program
derived by funcad, and none is differentiated in lax. Only when XLA's text is written does the operation go: nothing of it is
left in what jax.jit compiles and jax.export writes. Trap: in shard_map operands of one operation must vary along the same axes
of the mesh, which functions of lax see to by themselves and an operation must do.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.backends.export import xla_matrices, xla_rules, xla_special
from funcad.backends.export.xla_program import as_dtype, jax, lax, run
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Jaxpr, prune, subjaxprs
from funcad.memo import remembers
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_jaxpr
from funcad.transforms.partial import linearize_jaxpr
from funcad.transforms.transpose import transpose_jaxpr

TABLES = (xla_rules, xla_matrices, xla_special)  # loaded, so that their rules are known


def call(program: Jaxpr, values: Sequence[Any]) -> list[Any]:
    """The program's results, of JAX's arrays or traced values."""
    given = [as_dtype(x, v.aval.dtype) for x, v in zip(values, program.inputs, strict=True)]
    found: list[Any] = _operation().bind(*_varying_alike(given), program=program)
    return found


def _axes(aval: Any) -> frozenset:
    """The axes of a mesh along which a value varies inside shard_map."""
    found = getattr(aval, "vma", None)
    return found if found is not None else getattr(getattr(aval, "mat", None), "varying", frozenset())


def _varying_alike(values: list[Any]) -> list[Any]:
    axes = [_axes(jax.typeof(x)) for x in values]
    every = frozenset().union(*axes)
    cast = lambda x, more: lax.pcast(x, tuple(more), to="varying") if more else x
    return [cast(x, every - own) for x, own in zip(values, axes)]


@remembers()
def _operation() -> Any:
    """JAX's primitive."""
    ad, batching = importlib.import_module("jax.interpreters.ad"), importlib.import_module("jax.interpreters.batching")
    mlir = importlib.import_module("jax.interpreters.mlir")
    operation = importlib.import_module("jax.extend.core").Primitive("funcad")
    operation.multiple_results = True

    def compiled(*values: Any, program: Jaxpr) -> list[Any]:
        found = program.memo.get("xla")
        if found is None:
            found = program.memo.setdefault("xla", jax.jit(lambda *xs: run(program, xs)))
        return found(*values)  # type: ignore[no-any-return]

    def abstract_eval(*avals: Any, program: Jaxpr) -> list[Any]:
        return [_like(avals, a.shape, jax.dtypes.canonicalize_dtype(a.dtype)) for a in program.out_avals]

    def jvp(primals: Sequence[Any], tangents: Sequence[Any], *, program: Jaxpr) -> tuple[list, list]:
        nonzero = tuple([type(t) is not ad.Zero for t in tangents])
        ts = [t for t in tangents if type(t) is not ad.Zero]
        halves = linearize_jaxpr(program, nonzero)
        n = len(program.outputs)
        if has_stacks(halves.forward) or has_stacks(halves.linear):
            outs, (found, flags) = call(program, primals), _forward_only(program, nonzero, [*primals, *ts])
        else:
            every = call(halves.forward, [*halves.consts, *primals])
            outs, flags, found = every[:n], halves.out_nonzero, []
            if any(flags):
                found = call(halves.linear, [*halves.collect(primals, every), *ts])
        rest = iter(found)
        zero = lambda x: ad.Zero(jax.typeof(x).to_tangent_aval())
        return outs, [next(rest) if z else zero(x) for x, z in zip(outs, flags)]

    def transpose(cts: Sequence[Any], *inputs: Any, program: Jaxpr) -> list[Any]:
        if program.memo.get("forward only"):
            raise NotImplementedError(
                "to_jax: reverse mode of a while loop whose number of turns depends on values: XLA has no arrays for what it "
                "keeps of them.\nRemedy: scan, or fori_loop with known bounds; or forward mode (jax.jvp, jax.jacfwd)."
            )
        linear = tuple([ad.is_undefined_primal(x) for x in inputs])
        nonzero = tuple([type(ct) is not ad.Zero for ct in cts])
        derived, consts, flags = transpose_jaxpr(program, linear, nonzero)
        known = [x for x, lin in zip(inputs, linear) if not lin]
        found = iter(call(derived, [*consts, *known, *[ct for ct, z in zip(cts, nonzero) if z]]))
        given = iter([next(found) if z else None for z in flags])
        found = [next(given) if lin else None for lin in linear]
        return [ad.Zero(x.aval) if lin and ct is None else ct for x, lin, ct in zip(inputs, linear, found)]

    def batch(args: Sequence[Any], dims: Sequence[Any], *, program: Jaxpr) -> tuple[list, list]:
        batched = tuple([d is not None for d in dims])
        size = next(x.shape[d] for x, d in zip(args, dims) if d is not None)
        moved = [x if d is None else jax.numpy.moveaxis(x, d, 0) for x, d in zip(args, dims)]
        derived, consts, flags = batch_jaxpr(program, size, batched)
        return call(derived, [*consts, *moved]), [0 if b else None for b in flags]

    operation.def_impl(compiled)
    operation.def_abstract_eval(abstract_eval)
    ad.primitive_jvps[operation] = jvp
    ad.primitive_transposes[operation] = transpose
    batching.primitive_batchers[operation] = batch
    written = mlir.lower_fun(lambda *xs, program: run(program, xs), multiple_results=True)

    def lowering(context: Any, *values: Any, program: Jaxpr) -> Any:
        """The operation has been checked as a whole: inside of it, nobody asks along which axes a value varies."""
        bare = lambda avals: [jax.core.ShapedArray(a.shape, a.dtype) for a in avals]
        context = context.replace(avals_in=bare(context.avals_in), avals_out=bare(context.avals_out))
        return written(context, *values, program=program)

    mlir.register_lowering(operation, lowering)
    return operation


def has_stacks(program: Jaxpr) -> bool:
    """Does it, or a program in it, keep what a loop of unknown length gives?"""
    found = program.memo.get("stacks")
    if found is None:
        avals = [v.aval for e in program.equations for v in e.outputs]
        inner = [jaxpr for e in program.equations for jaxpr in subjaxprs(e.params)]
        held = any([type(a) is StackAval for a in avals]) or any(map(has_stacks, inner))
        found = program.memo.setdefault("stacks", held)
    return bool(found)


def _forward_only(program: Jaxpr, nonzero: tuple, values: list[Any]) -> tuple[list[Any], list[bool]]:
    """The tangents of a program that has no linear half of known size."""
    derived, consts, flags = jvp_jaxpr(program, nonzero)
    key = ("tangents", nonzero)
    alone = derived.memo.get(key)
    if alone is None:
        n = len(program.outputs)
        alone = derived.memo.setdefault(key, prune(derived, [i >= n for i in range(len(derived.outputs))]))
        alone.memo.setdefault("forward only", True)
    return call(alone, [*consts, *values]), flags


def _like(avals: Sequence[Any], shape: tuple, dtype: np.dtype) -> Any:
    """What JAX knows of a result: in shard_map it varies as the operands do."""
    if not avals or not _axes(avals[0]):
        return jax.core.ShapedArray(shape, dtype)
    first = avals[0]
    return first.update(shape=shape, dtype=dtype, weak_type=False, sharding=first.sharding.update(spec=jax.P()))
