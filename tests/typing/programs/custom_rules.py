"""Derivative rules of one's own, as decorators with and without options."""

from functools import partial
from typing import Any, assert_type

import numpy as np

from funcad import custom_gradient, custom_jvp, custom_vjp, custom_vmap, grad, jvp, stop_gradient, vmap


@custom_jvp
def safe_log(x: np.ndarray) -> np.ndarray:
    return np.log(x)


@safe_log.defjvp
def _(primals: tuple[np.ndarray], tangents: tuple[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    (x,), (dx,) = primals, tangents
    return safe_log(x), dx / np.maximum(x, 1e-3)


@custom_vjp
def clipped(x: np.ndarray, bound: float) -> np.ndarray:
    return x


def clipped_fwd(x: np.ndarray, bound: float) -> tuple[np.ndarray, float]:
    return x, bound


def clipped_bwd(bound: float, ct: np.ndarray) -> tuple[np.ndarray, None]:
    return np.clip(ct, -bound, bound), None


clipped.defvjp(clipped_fwd, clipped_bwd)


@partial(custom_vjp, nondiff_argnums=(0,))
def applied(f: Any, x: float) -> float:
    return f(x)


applied.defvjp(lambda f, x: (f(x), x), lambda f, x, ct: (2.0 * ct,))


@custom_gradient
def doubled(x: float) -> tuple[float, Any]:
    return x, lambda ct: (2.0 * ct,)


@custom_vmap
def sines(x: np.ndarray) -> np.ndarray:
    return np.sin(x)


@sines.def_vmap
def _(axis_size: int, in_batched: list[bool], x: np.ndarray) -> tuple[np.ndarray, bool]:
    return np.sin(x), in_batched[0]


x = np.ones(2)
assert_type(safe_log(x), np.ndarray)
assert_type(clipped(x, 2.0), np.ndarray)
assert_type(doubled(1.0), float)
print(grad(lambda x: np.sum(3.0 * clipped(x, 1.0)))(x), jvp(safe_log, (x,), (x,))[1])
print(grad(lambda x: applied(np.sin, x))(0.5), grad(doubled)(1.0), vmap(sines)(x).shape, stop_gradient(x).shape)
