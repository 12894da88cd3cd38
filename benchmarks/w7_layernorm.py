"""W7: layer normalisation of 8,192 x 512, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.harness import Row, Target, main
from benchmarks.workload import Workload, rows

EPSILON = 1e-5


def weighted(np: Any) -> Callable[..., Any]:
    """The normalised rows, weighted with a cotangent `c` and summed up, so that the gradient is the backward pass of c."""

    def f(parameters: Any, c: Any) -> Any:
        x, gain, bias = parameters
        centred = x - np.mean(x, axis=1, keepdims=True)
        variance = np.mean(centred * centred, axis=1, keepdims=True)
        return np.sum(c * (centred / np.sqrt(variance + EPSILON) * gain + bias))

    return f


def torch_weighted(torch: Any) -> Callable[..., Any]:
    def f(parameters: Any, c: Any) -> Any:
        x, gain, bias = parameters
        return (c * torch.nn.functional.layer_norm(x, (x.shape[1],), gain, bias, EPSILON)).sum()

    return f


def by_hand(parameters: Any, c: Any) -> Any:
    x, gain, bias = parameters
    n = x.shape[1]
    centred = x - x.mean(axis=1, keepdims=True)
    scale = 1.0 / numpy.sqrt((centred * centred).mean(axis=1, keepdims=True) + numpy.asarray(EPSILON, x.dtype))
    normal = centred * scale
    value = numpy.sum(c * (normal * gain + bias))
    g = c * gain
    dx = (g - g.mean(axis=1, keepdims=True) - normal * ((g * normal).sum(axis=1, keepdims=True) / n)) * scale
    return value, (dx, (c * normal).sum(axis=0), c.sum(axis=0))


def data(dtype: Any) -> tuple:
    random = numpy.random.default_rng(0)
    draw = lambda *shape: random.normal(size=shape).astype(dtype)
    return (draw(8192, 512), 1 + draw(512) / 10, draw(512)), draw(8192, 512)


def run(rounds: int) -> list[Row]:
    target = Target("torch.compile", 1.0, 0.3)
    return rows(
        [Workload("W7 layernorm", weighted, data, "value_and_grad", target, torch_weighted, by_hand, tolerance=10.0)],
        min(rounds, 9),
    )


if __name__ == "__main__":
    main(run, __doc__)
