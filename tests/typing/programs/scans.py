"""Loops and branches with functions as bodies."""

from typing import assert_type

import numpy as np

from funcad import associative_scan, checkpoint, cond, fori_loop, grad, jit, map, scan, switch, while_loop


def walk(state: np.ndarray, force: np.ndarray) -> tuple[np.ndarray, float]:
    state = 0.9 * state + force
    return state, np.sum(state**2)


@jit
def rollout(start: np.ndarray, forces: np.ndarray) -> float:
    last, energies = scan(walk, start, forces)
    assert_type(last, np.ndarray)
    return np.sum(last) + np.mean(energies)


print(grad(rollout)(np.zeros(2), np.ones((5, 2))).shape)
total, running = scan(lambda carry, x: (carry + x, carry), 0.0, np.ones(4))
print(total, running.shape)
count, value = while_loop(lambda s: s[1] > 1e-3, lambda s: (s[0] + 1, s[1] / 2), (0, 1.0))
print(count, value)
print(fori_loop(0, 5, lambda i, x: x + i, 0.0))


def power(i: int, x: np.ndarray) -> np.ndarray:
    return x * 1.1


assert_type(fori_loop(0, 3, power, np.ones(2)), np.ndarray)
print(cond(True, lambda x: x + 1.0, lambda x: x - 1.0, 2.0))
print(switch(1, [np.sin, np.cos], 0.0))
print(map(lambda x: x**2, np.arange(3.0)).shape)
print(associative_scan(np.add, np.arange(4.0))[-1])


@checkpoint
def block(x: np.ndarray) -> np.ndarray:
    return np.tanh(x)


@checkpoint(static_argnums=(1,))
def repeated(x: np.ndarray, times: int) -> np.ndarray:
    for _ in range(times):
        x = np.tanh(x)
    return x


assert_type(block(np.ones(2)), np.ndarray)
assert_type(repeated(np.ones(2), 3), np.ndarray)
print(grad(lambda x: np.sum(repeated(block(x), 2)))(np.ones(2)).shape)
