"""has_aux, holomorphic, options that come from elsewhere."""

from typing import Any

import numpy as np

from funcad import grad, jvp, value_and_grad, vjp


def loss(w: np.ndarray, x: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
    prediction = x @ w
    return np.sum(prediction**2), {"prediction": prediction}


w, x = np.ones(2), np.ones((3, 2))
slope, record = grad(loss, has_aux=True)(w, x)
print(slope.shape, record["prediction"].shape)
(value, record), slope = value_and_grad(loss, has_aux=True)(w, x)
print(value, record["prediction"].shape, slope.shape)
out, pull, record = vjp(lambda w: loss(w, x), w, has_aux=True)
out, tangent, record = jvp(lambda w: loss(w, x), (w,), (w,), has_aux=True)
print(out, tangent, pull(1.0)[0].shape)
print(grad(lambda z: z**2, holomorphic=True)(1.0 + 2.0j))


def with_options(has_aux: bool, **options: Any) -> Any:
    return grad(loss, has_aux=has_aux, **options)(w, x)


print(with_options(True)[0].shape)
