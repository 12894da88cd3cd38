"""Methods are jitted; a dataclass holds the parameters."""

from dataclasses import dataclass, replace
from typing import Any, assert_type

import numpy as np

from funcad import grad, jit, value_and_grad


@dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray


class Model:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    @jit(static_argnums=0)
    def predict(self, layer: Layer, x: np.ndarray) -> np.ndarray:
        return np.tanh(x @ layer.w + layer.b)

    @jit
    def scaled(self, x: np.ndarray) -> np.ndarray:
        return x * self.rate

    @grad
    def slope(self, x: np.ndarray) -> float:
        return np.sum(x**2) * self.rate

    @value_and_grad
    def both(self, x: np.ndarray) -> float:
        return np.sum(x**2) * self.rate

    def loss(self, layer: Layer, x: np.ndarray, y: np.ndarray) -> float:
        return float(np.mean((self.predict(layer, x) - y) ** 2))

    def update(self, layer: Layer, x: np.ndarray, y: np.ndarray) -> Layer:
        slope = grad(lambda layer: np.mean((self.predict(layer, x) - y) ** 2))(layer)
        return replace(layer, w=layer.w - self.rate * slope.w, b=layer.b - self.rate * slope.b)


@jit
def norm_of(layer: Layer) -> float:
    return np.sum(layer.w**2) + np.sum(layer.b**2)


model = Model(0.1)
layer = Layer(np.full((3, 2), 0.5), np.zeros(2))
x, y = np.ones((4, 3)), np.zeros((4, 2))
assert_type(norm_of(layer), float)
assert_type(grad(norm_of)(layer), Layer)
for _ in range(3):
    layer = model.update(layer, x, y)
out: np.ndarray[Any, Any] = model.predict(layer, x)
print(out.shape, model.loss(layer, x, y), norm_of.cache_info().misses)
assert_type(model.scaled(np.ones(2)), np.ndarray)
point: np.ndarray = np.ones(2)
assert_type(model.slope(point), np.ndarray)
assert_type(model.both(point), tuple[float, np.ndarray])
