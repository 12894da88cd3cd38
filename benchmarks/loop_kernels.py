"""Kernels written as loops, of PolyBench's and NPBench's kind: unmodified NumPy, jitted, and their gradients.

The kernels are those of tests/whole/array_kernels.py, at sizes that take NumPy a millisecond or a few. JAX's are rewritten by
hand, as its users do (loop_kernels_jax.py), and give the same numbers, which is checked before anything is measured. A gradient
is that of the sum of all results by all arrays of numbers; NumPy's column is the forward run, also there. Time is the
processor's. Functions are compiled when they are met (`jit_patience` is 0).
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy

import funcad
from benchmarks.harness import Row, Target, interleaved, main, peer
from tests.whole.array_kernels import KERNELS, positive_definite, some

__all__ = ["SIZES", "candidates", "run"]


def centred(*shape: int) -> numpy.ndarray:
    return some(*shape) - 0.7


def _rows(n: int, each: int) -> numpy.ndarray:
    return numpy.arange(0, n * each + 1, each)


SIZES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "adi": lambda: (5, 100, some(100, 100)),
    "azimint_naive": lambda: (some(40_000), some(40_000), 100),
    "cavity_flow": lambda: (61, 61, 25, 5, some(61, 61), some(61, 61), 0.001, 1 / 30, 1 / 30, some(61, 61), 1.0, 0.1),
    "cholesky": lambda: (positive_definite(60),),
    "conv2d_bias": lambda: (centred(8, 24, 24, 3), centred(5, 5, 3, 8), some(8)),
    "correlation": lambda: (some(250, 200),),
    "covariance": lambda: (250.0, some(250, 200)),
    "deriche": lambda: (0.25, some(200, 150)),
    "durbin": lambda: (0.01 * centred(400),),
    "fdtd_2d": lambda: (20, some(200, 220), some(200, 220), some(200, 220), some(20)),
    "floyd_warshall": lambda: (some(100, 100),),
    "go_fast": lambda: (some(1000, 1000),),
    "gramschmidt": lambda: (some(70, 60),),
    "hdiff": lambda: (some(68, 68, 40), some(64, 64, 40), some(64, 64, 40)),
    "heat_3d": lambda: (25, some(25, 25, 25), some(25, 25, 25)),
    "jacobi_1d": lambda: (800, some(3200), some(3200)),
    "jacobi_2d": lambda: (50, some(150, 150), some(150, 150)),
    "lenet": lambda: (
        *(centred(4, 28, 28, 1), centred(5, 5, 1, 6), some(6), centred(5, 5, 6, 16), some(16)),
        *(centred(256, 120), some(120), 4, 256),
    ),
    "lu": lambda: (positive_definite(60),),
    "ludcmp": lambda: (positive_definite(60), some(60)),
    "mlp": lambda: (centred(8, 3), centred(3, 300), centred(300), centred(300, 100), centred(100)),
    "nbody": lambda: (some(25), centred(25, 3), centred(25, 3), 50, 0.01, 1.0, 0.1),
    "resnet": lambda: (centred(8, 14, 14, 32), centred(1, 1, 32, 8), centred(3, 3, 8, 8), centred(1, 1, 8, 32)),
    "scattering_self_energies": lambda: (
        *(some(2, 10, 6, 6), some(6, 4, 6), numpy.arange(24).reshape(6, 4) % 6),
        *(some(5, 6, 4, 2), some(2, 2, 6, 6)),
    ),
    "seidel_2d": lambda: (8, 50, some(50, 50)),
    "softmax": lambda: (some(16, 16, 64, 64),),
    "spmv": lambda: (_rows(512, 8), numpy.arange(4096) * 37 % 512, some(4096), some(512)),
    "symm": lambda: (1.5, 1.2, some(40, 50), some(40, 40), some(40, 50)),
    "syr2k": lambda: (1.5, 1.2, some(50, 50), some(50, 35), some(50, 35)),
    "syrk": lambda: (1.5, 1.2, some(70, 70), some(70, 50)),
    "trisolv": lambda: (some(600, 600) + 600 * numpy.eye(600), some(600), some(600)),
    "trmm": lambda: (1.5, some(65, 65), some(65, 80)),
    "vadv": lambda: (some(30, 30, 40), some(31, 30, 40), some(30, 30, 40), some(30, 30, 40), some(30, 30, 40), 3.0 / 20.0),
}


def arrays(arguments: tuple[Any, ...]) -> list[int]:
    """The arguments that are arrays of numbers."""
    return [i for i, a in enumerate(arguments) if isinstance(a, numpy.ndarray) and a.dtype.kind == "f"]


def of_arrays(f: Callable[..., Any], arguments: tuple[Any, ...], copy: bool = True) -> Callable[..., Any]:
    """f as a function of its arrays of numbers, which it does not change."""
    where = arrays(arguments)
    others = [None if i in where else a for i, a in enumerate(arguments)]  # what a jitted function reads outside is compared

    def pure(*given: Any) -> Any:
        values = list(others)
        for i, a in zip(where, given):
            values[i] = a.copy() if copy else a
        return f(*values)

    return pure


def total(f: Callable[..., Any]) -> Callable[..., Any]:
    def summed(*given: Any) -> Any:
        found = f(*given)
        return sum([a.sum() for a in (found if isinstance(found, tuple) else (found,))])

    return summed


def candidates(name: str, gradient: bool) -> dict[str, Callable[[], Any]]:
    """funcad, NumPy's forward run and JAX, which agree."""
    arguments = SIZES[name]()
    given = [arguments[i] for i in arrays(arguments)]
    wanted = tuple(range(len(given)))
    f = of_arrays(KERNELS[name].f, arguments)
    own = funcad.jit(funcad.grad(total(f), wanted) if gradient else f)
    calls: dict[str, Callable[[], Any]] = {"funcad": partial(own, *given), "numpy": partial(f, *given)}
    jax = peer("jax")
    if jax is not None:
        from benchmarks.loop_kernels_jax import KERNELS as THEIRS

        g = of_arrays(THEIRS[name], arguments, copy=False)
        compiled = jax.jit(jax.grad(total(g), wanted) if gradient else g)
        theirs = [jax.numpy.asarray(a) for a in given]
        calls["jax"] = lambda: jax.block_until_ready(compiled(*theirs))
    return calls


def checked(name: str, calls: dict[str, Callable[[], Any]]) -> None:
    for one, other in zip(*[funcad.tree_util.tree_leaves(calls[c]()) for c in ("funcad", "jax")], strict=True):
        atol = 1e-8 * max(1.0, float(numpy.max(numpy.abs(other))))
        numpy.testing.assert_allclose(one, other, rtol=1e-6, atol=atol, err_msg=name)


def run(rounds: int) -> list[Row]:
    gc.collect()
    gc.freeze()  # or each collection looks at all of JAX
    rows = []
    with funcad.config.set(jit_patience=0):
        for name in SIZES:
            for gradient in (False, True):
                calls = candidates(name, gradient)
                if "jax" in calls:
                    checked(name, calls)
                target = Target("jax", None, 0.35 if gradient else 0.6)
                what = f"{name}, {'gradient' if gradient else 'value'}"
                rows.append(Row(what, interleaved(calls, rounds, time.process_time), target=target))
    return rows


if __name__ == "__main__":
    main(run, __doc__)
