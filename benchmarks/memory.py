"""Peak memory of a gradient, in activations: what the backward pass keeps, and what checkpoint saves."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, main, peer

SIZE, LAYERS = 200_000, 50


def tanh_chain(np: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(LAYERS):
            x = np.tanh(x)
        return np.sum(x)

    return f


def add_chain(np: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        for _ in range(LAYERS):
            x = x + 1.0
        return np.sum(x)

    return f


def checkpointed(np: Any, checkpoint: Callable[..., Any]) -> Callable[[Any], Any]:
    """The tanh chain in ten checkpointed segments: about 10 kept, and 5 more while a segment runs again."""

    def segment(x: Any) -> Any:
        for _ in range(LAYERS // 10):
            x = np.tanh(x)
        return x

    kept = checkpoint(segment)

    def f(x: Any) -> Any:
        for _ in range(10):
            x = kept(x)
        return np.sum(x)

    return f


def peak(gradient: Callable[[Any], Any]) -> float:
    """Peak of the Python heap while `gradient` runs, without its argument, in arrays of its argument's size."""
    x = numpy.linspace(-1.0, 1.0, SIZE)
    gradient(x)
    gc.collect()
    tracemalloc.start()
    gradient(x)
    _, top = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return top / x.nbytes


def run(rounds: int) -> list[Row]:
    """Memory does not vary from run to run: one round is enough. JAX allocates where Python cannot see it."""
    autograd = peer("autograd")
    own: dict[str, Any] = {
        f"grad of {LAYERS} tanh": funcad.grad(tanh_chain(numpy)),
        f"grad of {LAYERS} additions": funcad.grad(add_chain(numpy)),
        f"grad of {LAYERS} tanh, 10 checkpoints": funcad.grad(checkpointed(numpy, funcad.checkpoint)),
        f"jit of grad of {LAYERS} tanh": funcad.jit(funcad.grad(tanh_chain(numpy))),
    }
    theirs: dict[str, Any] = {}
    if autograd:
        import autograd.numpy as anp

        functions = (tanh_chain(anp), add_chain(anp), checkpointed(anp, autograd.checkpoint))
        theirs = {what: autograd.grad(f) for what, f in zip(own, functions)}
    rows = []
    for what, gradient in own.items():
        values = {"funcad": peak(gradient)}
        if what in theirs:
            values["autograd"] = peak(theirs[what])
        rows.append(Row(f"peak of {what}", values, "activations"))
    return rows


if __name__ == "__main__":
    main(run, __doc__)
