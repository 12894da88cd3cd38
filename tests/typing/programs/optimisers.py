"""The optimisers, as optax's."""

from typing import Any, assert_type

import numpy as np

from funcad import grad, jit, optimize


def loss(params: dict[str, np.ndarray]) -> float:
    return np.sum((params["x"] - 3.0) ** 2)


schedule = optimize.cosine_decay_schedule(0.5, 100)
optimizer = optimize.chain(optimize.clip_by_global_norm(1.0), optimize.adam(schedule))
assert_type(optimizer, optimize.GradientTransformation)


@jit
def step(params: dict[str, np.ndarray], state: Any) -> tuple[dict[str, np.ndarray], Any]:
    updates, state = optimizer.update(grad(loss)(params), state, params)
    return optimize.apply_updates(params, updates), state


params = {"x": np.zeros(2)}
state = optimizer.init(params)
for _ in range(5):
    params, state = step(params, state)
print(params["x"].shape)
solver = optimize.lbfgs()
carry = solver.init(params)
value, slope = optimize.value_and_grad_from_state(loss)(params, carry)
updates, carry = solver.update(slope, carry, params, value=value, grad=slope, value_fn=loss)
print(optimize.apply_updates(params, updates)["x"].round(3))
