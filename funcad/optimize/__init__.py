"""First-order optimisers as pairs of pure functions on pytrees, with optax's signatures.

`optimizer = adam(1e-3)`, `state = optimizer.init(params)`, `updates, state = optimizer.update(grads, state, params)`,
`params = apply_updates(params, updates)`. State is a pytree of arrays, so that a step goes under `jit`, `scan` and `vmap`
and can be differentiated, also with respect to the learning rate. Parameters keep their dtype.

>>> import numpy as np, funcad
>>> from funcad import optimize
>>> loss = lambda x: np.sum((x - 3.0) ** 2)
>>> optimizer = optimize.sgd(0.1, momentum=0.5)
>>> x = np.zeros(2)
>>> state = optimizer.init(x)
>>> for _ in range(40):
...     updates, state = optimizer.update(funcad.grad(loss)(x), state, x)
...     x = optimize.apply_updates(x, updates)
>>> x.round(3)
array([3., 3.])
"""

from funcad.configuration import public_names as _public_names

# isort: off
from funcad.optimize.lbfgs import (
    LbfgsState as LbfgsState, lbfgs as lbfgs, value_and_grad_from_state as value_and_grad_from_state,
)  # fmt: skip
from funcad.optimize.optimizers import (
    EmptyState as EmptyState, GradientTransformation as GradientTransformation, adagrad as adagrad, adam as adam,
    adamw as adamw, add_decayed_weights as add_decayed_weights, apply_updates as apply_updates, chain as chain,
    clip_by_global_norm as clip_by_global_norm, clip_by_value as clip_by_value, global_norm as global_norm,
    plot_loss as plot_loss, rmsprop as rmsprop, scale as scale, scale_by_adam as scale_by_adam,
    scale_by_learning_rate as scale_by_learning_rate, scale_by_rms as scale_by_rms, scale_by_rss as scale_by_rss,
    scale_by_schedule as scale_by_schedule, sgd as sgd, trace as trace,
)  # fmt: skip
from funcad.optimize.schedules import (
    constant_schedule as constant_schedule, cosine_decay_schedule as cosine_decay_schedule,
    exponential_decay as exponential_decay, join_schedules as join_schedules, linear_schedule as linear_schedule,
    piecewise_constant_schedule as piecewise_constant_schedule, polynomial_schedule as polynomial_schedule,
    warmup_cosine_decay_schedule as warmup_cosine_decay_schedule,
)  # fmt: skip
# isort: on

__dir__ = _public_names(globals())
