"""Cases of funcad.optimize: a few steps of each optimiser as a function of parameters, gradients and learning rate."""

import numpy as np

from funcad import optimize
from tests.surface import case

X = np.array([[1.3, -0.4], [0.7, 2.1]])
G = np.array([[0.6, -1.7], [1.2, 0.5]])
TREE = {"w": X, "b": np.array([0.5, -1.5])}
GRADS = {"w": G, "b": np.array([0.3, -0.2])}
TINY = 1e-3  # epsilons at which differences are accurate


def steps(*args, count=3, **options):
    """`call` for optimisers: parameters after a few steps, with gradients that depend on the parameters."""

    def call(make, params, grads, *hyper):
        optimizer = make(*hyper, *args, **options)
        state = optimizer.init(params)
        for _ in range(count):
            g = optimize.apply_updates(grads, params)
            updates, state = optimizer.update(g, state, params)
            params = optimize.apply_updates(params, updates)
        return params

    return call


def once(make, updates, *args):
    """`call` for single transformations."""
    return make(*args).update(updates, make(*args).init(updates), updates)[0]


def at(*args, **kwargs):
    """`call` for schedules: their values at some counts."""
    return lambda make, *hyper: np.stack([make(*hyper, *args, **kwargs)(i) for i in (0, 3, 8, 20)])


def minimised(make, x):
    def f(x):
        return np.sum(x**4 + x**2)

    optimizer = make()
    state = optimizer.init(x)
    value_and_grad = optimize.value_and_grad_from_state(f)
    for _ in range(2):
        value, g = value_and_grad(x, state)
        updates, state = optimizer.update(g, state, x, value=value, value_fn=f)
        x = optimize.apply_updates(x, updates)
    return x


def looked_up(make, x):
    return make(lambda x: np.sum(x**3))(x, optimize.lbfgs().init(x))


ITERATED = 1e-9  # a step found by a search under jit may differ by roundings

CASES = [
    case("optimize.sgd", X, G, 0.1, call=steps(0.9), reference=False),
    case("optimize.sgd", TREE, GRADS, 0.1, call=steps(0.9, True, weight_decay=0.1), reference=False),
    case("optimize.adam", X, G, 0.1, 0.8, 0.9, call=steps(), reference=False, agreement=1e-12),
    case("optimize.adam", TREE, GRADS, 0.1, call=steps(nesterov=True), reference=False, agreement=1e-12),
    case("optimize.adamw", TREE, GRADS, 0.1, call=steps(weight_decay=0.2), reference=False, agreement=1e-12),
    case("optimize.rmsprop", X, G, 0.1, 0.9, call=steps(TINY, centered=True, momentum=0.5), reference=False, agreement=1e-12),
    case("optimize.adagrad", TREE, GRADS, 0.1, call=steps(), reference=False),
    case("optimize.lbfgs", X, call=minimised, reference=False, agreement=ITERATED),
    case("optimize.value_and_grad_from_state", X, call=looked_up, reference=lambda x: (np.sum(x**3), 3 * x**2)),
    case("optimize.apply_updates", TREE, GRADS, reference=lambda p, u: {"b": p["b"] + u["b"], "w": p["w"] + u["w"]}),
    case("optimize.global_norm", X, reference=np.linalg.norm),
    case(
        "optimize.chain", X, 0.5, reference=lambda g, s: s * g,
        call=lambda chain, g, s: once(lambda: chain(optimize.scale(s), optimize.scale(1.0)), g),
    ),
    case("optimize.GradientTransformation", X, reference=lambda g: 2 * g,
         call=lambda pair, g: once(lambda: pair(lambda p: (), lambda u, s, p: (2 * u, s)), g)),
    case("optimize.EmptyState", X, call=lambda state, x: (state(), x), reference=lambda x: ((), x)),
    case("optimize.LbfgsState", *[X[0]] * 9, reference=lambda *fields: fields),
    case("optimize.scale", X, 0.5, call=once, reference=lambda g, s: s * g),
    case("optimize.scale_by_learning_rate", X, 0.5, call=once, reference=lambda g, s: -s * g),
    case("optimize.scale_by_schedule", X, call=lambda make, g: once(make, g, lambda i: 0.5 + i), reference=lambda g: 0.5 * g),
    case("optimize.trace", X, 0.5, call=once, reference=lambda g, d: g),
    case("optimize.scale_by_adam", X, call=lambda make, g: once(make, g, 0.9, 0.999, TINY), reference=False),
    case("optimize.scale_by_rms", X, 0.75, TINY, call=once, reference=lambda g, d, e: g / np.sqrt((1 - d) * g**2 + e)),
    case("optimize.scale_by_rss", X, 0.1, TINY, call=once, reference=lambda g, a, e: g / np.sqrt(a + g**2 + e)),
    case("optimize.add_decayed_weights", X, 0.5, call=once, reference=lambda g, d: g + d * g),
    case("optimize.clip_by_global_norm", X, 0.5, call=once, reference=lambda g, m: g * (m / np.linalg.norm(g))),
    case("optimize.clip_by_value", X, 0.5, call=once, reference=lambda g, m: np.clip(g, -m, m)),
    # -- schedules, as functions of their values
    case("optimize.constant_schedule", 0.5, call=at(), reference=lambda v: np.full(4, v)),
    case("optimize.linear_schedule", 1.0, 0.2, call=at(10), reference=False),
    case("optimize.polynomial_schedule", 1.0, 0.2, call=at(2, 10, 1), reference=False),
    case("optimize.exponential_decay", 1.0, call=at(5, 0.5), reference=lambda a: a * 0.5 ** (np.array([0, 3, 8, 20]) / 5)),
    case("optimize.cosine_decay_schedule", 1.0, call=at(10, 0.1), reference=False),
    case("optimize.warmup_cosine_decay_schedule", 0.1, 1.0, call=at(4, 12, 0.05), reference=False),
    case("optimize.piecewise_constant_schedule", 1.0, call=at({3: 0.5}), reference=lambda a: a * np.array([1, 0.5, 0.5, 0.5])),
    case(
        "optimize.join_schedules", 1.0, 0.5, reference=lambda a, b: np.array([a, b, b, b]),
        call=lambda join, a, b: np.stack([join([lambda i: a, lambda i: b], [3])(i) for i in (0, 3, 8, 20)]),
    ),
]  # fmt: skip
