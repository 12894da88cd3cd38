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

from funcad.names import public_names as _public_names
from funcad.optimize.base import EmptyState as EmptyState
from funcad.optimize.base import GradientTransformation as GradientTransformation
from funcad.optimize.base import apply_updates as apply_updates
from funcad.optimize.base import chain as chain
from funcad.optimize.base import global_norm as global_norm
from funcad.optimize.lbfgs import LbfgsState as LbfgsState
from funcad.optimize.lbfgs import lbfgs as lbfgs
from funcad.optimize.lbfgs import value_and_grad_from_state as value_and_grad_from_state
from funcad.optimize.optimizers import adagrad as adagrad
from funcad.optimize.optimizers import adam as adam
from funcad.optimize.optimizers import adamw as adamw
from funcad.optimize.optimizers import rmsprop as rmsprop
from funcad.optimize.optimizers import sgd as sgd
from funcad.optimize.plotting import plot_loss as plot_loss
from funcad.optimize.schedules import constant_schedule as constant_schedule
from funcad.optimize.schedules import cosine_decay_schedule as cosine_decay_schedule
from funcad.optimize.schedules import exponential_decay as exponential_decay
from funcad.optimize.schedules import join_schedules as join_schedules
from funcad.optimize.schedules import linear_schedule as linear_schedule
from funcad.optimize.schedules import piecewise_constant_schedule as piecewise_constant_schedule
from funcad.optimize.schedules import polynomial_schedule as polynomial_schedule
from funcad.optimize.schedules import warmup_cosine_decay_schedule as warmup_cosine_decay_schedule
from funcad.optimize.transformations import add_decayed_weights as add_decayed_weights
from funcad.optimize.transformations import clip_by_global_norm as clip_by_global_norm
from funcad.optimize.transformations import clip_by_value as clip_by_value
from funcad.optimize.transformations import scale as scale
from funcad.optimize.transformations import scale_by_adam as scale_by_adam
from funcad.optimize.transformations import scale_by_learning_rate as scale_by_learning_rate
from funcad.optimize.transformations import scale_by_rms as scale_by_rms
from funcad.optimize.transformations import scale_by_rss as scale_by_rss
from funcad.optimize.transformations import scale_by_schedule as scale_by_schedule
from funcad.optimize.transformations import trace as trace

__dir__ = _public_names(globals())
