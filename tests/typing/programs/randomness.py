"""Keys, samples, a network in the style of JAX."""

import numpy as np

from funcad import jit, lax, nn, random, value_and_grad

Layers = list[tuple[np.ndarray, np.ndarray]]


def init(key: np.ndarray, sizes: list[int]) -> Layers:
    keys = random.split(key, len(sizes))
    pairs = zip(keys, sizes[:-1], sizes[1:])
    return [(nn.initializers.glorot_normal()(k, (n, m)), np.zeros(m)) for k, n, m in pairs]


def forward(layers: Layers, x: np.ndarray) -> np.ndarray:
    for w, b in layers[:-1]:
        x = nn.relu(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def loss(layers: Layers, x: np.ndarray, labels: np.ndarray) -> float:
    return -np.mean(nn.log_softmax(forward(layers, x))[np.arange(len(labels)), labels])


layers = init(random.key(0), [4, 8, 3])
x = random.normal(random.key(1), (10, 4))
labels = random.randint(random.key(2), (10,), 0, 3)
value, slopes = jit(value_and_grad(loss))(layers, x, labels)
layers = [(w - 0.1 * dw, b - 0.1 * db) for (w, b), (dw, db) in zip(layers, slopes)]
print(value > 0, layers[0][0].shape, lax.stop_gradient(x).shape, lax.top_k(x, 2)[0].shape)
