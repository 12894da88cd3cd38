"""funcad.optimize: recurrences by hand, dtypes, jit, scan, vmap, derivatives through training, L-BFGS, schedules, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from funcad import grad, hvp, jit, optimize, scan, tree, value_and_grad, vmap

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(3, 2)), "b": [RNG.normal(size=4).astype(np.float32)]}
GRADS = [tree.map(lambda p: RNG.normal(size=p.shape).astype(p.dtype), PARAMS) for _ in range(6)]


def run(optimizer: Any, params: Any = PARAMS, grads: Any = GRADS) -> Any:
    state = optimizer.init(params)
    for g in grads:
        updates, state = optimizer.update(g, state, params)
        params = optimize.apply_updates(params, updates)
    return params


# -- the recurrences, one array at a time, in float64


def by_sgd(p, gs, momentum=0.0, nesterov=False, decay=0.0):
    t = 0.0
    for g in gs:
        g = g + decay * p
        t = g + momentum * t
        p = p - 0.1 * (g + momentum * t if nesterov else t)
    return p


def by_adam(p, gs, b1=0.9, b2=0.999, eps=1e-8, root=0.0, decay=0.0, nesterov=False):
    m = v = 0.0
    for i, g in enumerate(gs, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g**2
        first = m / (1 - b1**i)
        if nesterov:
            first = b1 * m / (1 - b1 ** (i + 1)) + (1 - b1) * g / (1 - b1**i)
        p = p - 0.1 * (first / (np.sqrt(v / (1 - b2**i) + root) + eps) + decay * p)
    return p


def by_rmsprop(p, gs, decay=0.9, eps=1e-8, start=0.0, centered=False, momentum=0.0, inside=True):
    v, m, t = start, 0.0, 0.0
    for g in gs:
        v, m = decay * v + (1 - decay) * g**2, decay * m + (1 - decay) * g
        variance = v - m**2 if centered else v
        t = -0.1 * g / (np.sqrt(variance + eps) if inside else np.sqrt(variance) + eps) + momentum * t
        p = p + t
    return p


def by_adagrad(p, gs, start=0.1, eps=1e-7):
    s = start
    for g in gs:
        s = s + g**2
        p = p - 0.1 * g / np.sqrt(s + eps)
    return p


OPTIMIZERS: dict[str, tuple[Any, Any]] = {
    "sgd": (optimize.sgd(0.1), by_sgd),
    "momentum": (optimize.sgd(0.1, 0.9), lambda p, gs: by_sgd(p, gs, 0.9)),
    "nesterov": (optimize.sgd(0.1, 0.9, nesterov=True), lambda p, gs: by_sgd(p, gs, 0.9, True)),
    "sgd with decay": (optimize.sgd(0.1, 0.9, weight_decay=0.2), lambda p, gs: by_sgd(p, gs, 0.9, decay=0.2)),
    "adam": (optimize.adam(0.1), by_adam),
    "adam's options": (optimize.adam(0.1, 0.8, 0.9, 1e-3, 1e-2), lambda p, gs: by_adam(p, gs, 0.8, 0.9, 1e-3, 1e-2)),
    "nadam": (optimize.adam(0.1, nesterov=True), lambda p, gs: by_adam(p, gs, nesterov=True)),
    "adamw": (optimize.adamw(0.1, weight_decay=0.2), lambda p, gs: by_adam(p, gs, decay=0.2)),
    "rmsprop": (optimize.rmsprop(0.1), by_rmsprop),
    "rmsprop outside": (optimize.rmsprop(0.1, eps_in_sqrt=False), lambda p, gs: by_rmsprop(p, gs, inside=False)),
    "centered": (
        optimize.rmsprop(0.1, 0.8, 1e-3, 0.5, centered=True, momentum=0.9),
        lambda p, gs: by_rmsprop(p, gs, 0.8, 1e-3, 0.5, True, 0.9),
    ),
    "adagrad": (optimize.adagrad(0.1), by_adagrad),
    "schedule": (optimize.adam(optimize.constant_schedule(0.1)), by_adam),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_recurrence_by_hand(name: str) -> None:
    optimizer, by_hand = OPTIMIZERS[name]
    found = run(optimizer)
    compiled = jit(lambda params, grads: run(optimizer, params, grads))(PARAMS, GRADS)
    columns = zip(tree.leaves(PARAMS), zip(*[tree.leaves(g) for g in GRADS]), tree.leaves(found), tree.leaves(compiled))
    for p, gs, ours, jitted in columns:
        assert ours.dtype == jitted.dtype == p.dtype
        expected = by_hand(p.astype(np.float64), [g.astype(np.float64) for g in gs])
        tolerance = 1e-12 if p.dtype == np.float64 else 2e-6
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(jitted, ours, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_state_stays_what_it_is_under_scan(name: str) -> None:
    optimizer = OPTIMIZERS[name][0]
    stacked = tree.map(lambda *gs: np.stack(gs), *GRADS)

    def step(carry: Any, g: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(g, state, params)
        return (optimize.apply_updates(params, updates), state), None

    (params, _), _ = scan(step, (PARAMS, optimizer.init(PARAMS)), stacked)
    for a, b in zip(tree.leaves(params), tree.leaves(run(optimizer))):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-6 if a.dtype == np.float32 else 1e-13)


MAKERS = [optimize.sgd, optimize.adam, optimize.adamw, optimize.rmsprop, optimize.adagrad]


def trained(make: Any, learning_rate: Any, start: Any = (1.0, 2.0)) -> Any:
    """The loss after five steps; the second parameter has no gradient at all."""
    optimizer, params = make(learning_rate), np.array(start) if type(start) is tuple else start
    state = optimizer.init(params)
    for _ in range(5):
        g = grad(lambda p: np.sum(p**2 * np.array([1.0, 0.0])))(params)
        updates, state = optimizer.update(g, state, params)
        params = optimize.apply_updates(params, updates)
    return np.sum(params**2)


@pytest.mark.share(3)
@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_derivative_through_training(make: Any) -> None:
    f = lambda rate: trained(make, rate)
    expected = (f(0.1 + 1e-6) - f(0.1 - 1e-6)) / 2e-6
    np.testing.assert_allclose(grad(f)(0.1), expected, rtol=1e-6)
    np.testing.assert_allclose(grad(jit(f))(0.1), expected, rtol=1e-6)
    curvature = (grad(f)(0.1 + 1e-5) - grad(f)(0.1 - 1e-5)) / 2e-5
    np.testing.assert_allclose(hvp(f, (0.1,), (1.0,)), curvature, rtol=1e-5)
    start = np.array([1.0, 2.0])
    by_start = grad(lambda x: trained(make, 0.1, x))(start)
    assert np.all(np.isfinite(by_start))
    step = np.array([1e-6, 0.0])
    difference = (trained(make, 0.1, start + step) - trained(make, 0.1, start - step)) / 2e-6
    np.testing.assert_allclose(by_start[0], difference, rtol=1e-5)


@pytest.mark.parametrize("make", MAKERS, ids=lambda f: f.__name__)
def test_many_runs_at_once(make: Any) -> None:
    rates = np.array([0.01, 0.1, 0.3])
    np.testing.assert_allclose(vmap(lambda r: trained(make, r))(rates), [trained(make, r) for r in rates], rtol=1e-12)


def test_learning_rate_as_array_keeps_dtypes() -> None:
    found = run(optimize.adam(np.float64(0.1)))
    assert found["b"][0].dtype == np.float32
    np.testing.assert_allclose(found["w"], run(optimize.adam(0.1))["w"], rtol=1e-14)


def test_mask_of_weight_decay() -> None:
    zeros = [tree.map(np.zeros_like, PARAMS)]
    for mask in ({"w": True, "b": False}, lambda params: {"w": True, "b": [False]}):
        found = run(optimize.adamw(0.1, weight_decay=0.5, mask=mask), grads=zeros)
        np.testing.assert_allclose(found["w"], 0.95 * PARAMS["w"])
        np.testing.assert_array_equal(found["b"][0], PARAMS["b"][0])
    with pytest.raises(ValueError, match="params"):
        optimize.adamw(0.1).update(GRADS[0], optimize.adamw(0.1).init(PARAMS))


def test_clipping() -> None:
    g = {"a": np.array([3.0, 0.0]), "b": np.array([[4.0]])}
    update = lambda t: t.update(g, t.init(g))[0]
    clipped = update(optimize.clip_by_global_norm(1.0))
    np.testing.assert_allclose(clipped["a"], [0.6, 0.0])
    np.testing.assert_allclose(optimize.global_norm(clipped), 1.0)
    np.testing.assert_array_equal(update(optimize.clip_by_global_norm(5.5))["a"], g["a"])
    np.testing.assert_array_equal(update(optimize.clip_by_value(2.0))["b"], [[2.0]])
    assert grad(lambda x: optimize.global_norm([x]))(np.zeros(2)).tolist() == [0.0, 0.0]
    zero = tree.map(np.zeros_like, g)
    assert np.all(optimize.clip_by_global_norm(1.0).update(zero, optimize.EmptyState())[0]["a"] == 0.0)


def test_complex_parameters() -> None:
    f = lambda z: np.sum(np.abs(z - (1.0 + 2.0j)) ** 2)
    for make in (optimize.sgd, optimize.adam, optimize.rmsprop):
        optimizer, z = make(0.1), np.zeros(2, np.complex64)
        state = optimizer.init(z)
        for _ in range(120):
            updates, state = optimizer.update(np.conj(grad(f)(z)), state, z)
            z = optimize.apply_updates(z, updates)
        assert z.dtype == np.complex64
        np.testing.assert_allclose(z, 1.0 + 2.0j, atol=0.1)


def test_chain_refuses_another_state() -> None:
    optimizer = optimize.sgd(0.1)
    with pytest.raises(ValueError, match="init"):
        optimizer.update(1.0, (optimize.EmptyState(),))


# -- schedules


def test_schedules() -> None:
    steps = np.arange(16)
    values = lambda s: [float(s(int(i))) for i in steps]
    decay = optimize.exponential_decay(0.1, 5, 0.5, 2, staircase=True, end_value=0.03)
    np.testing.assert_allclose(values(decay), np.maximum(0.1 * 0.5 ** (np.maximum(steps - 2, 0) // 5), 0.03))
    cosine = optimize.cosine_decay_schedule(0.1, 10, 0.2, 2.0)
    wave = (1 + np.cos(np.pi * np.minimum(steps, 10) / 10)) / 2
    np.testing.assert_allclose(values(cosine), 0.1 * (0.8 * wave**2 + 0.2))
    poly = optimize.polynomial_schedule(0.1, 0.01, 3, 7, 2)
    np.testing.assert_allclose(values(poly), 0.09 * (1 - np.clip(steps - 2, 0, 7) / 7) ** 3 + 0.01)
    piecewise = optimize.piecewise_constant_schedule(0.1, {3: 0.5, 6: 0.1})
    np.testing.assert_allclose(values(piecewise), np.select([steps < 3, steps < 6], [0.1, 0.05], 0.005))
    warm = optimize.warmup_cosine_decay_schedule(0.0, 1.0, 4, 12, 0.1)
    late = 0.9 * (1 + np.cos(np.pi * np.clip(steps - 4, 0, 8) / 8)) / 2 + 0.1
    np.testing.assert_allclose(values(warm), np.where(steps < 4, steps / 4, late))
    for s in (decay, cosine, poly, piecewise, warm):
        np.testing.assert_allclose(s(steps), values(s))
        np.testing.assert_allclose(jit(s)(steps), values(s))
    np.testing.assert_allclose(grad(lambda peak: optimize.linear_schedule(0.0, peak, 4)(3))(1.0), 0.75)


def test_schedules_without_steps_stay_where_they_begin() -> None:
    for steps in (0, -3):
        assert optimize.linear_schedule(0.25, 1.0, steps)(7) == optimize.polynomial_schedule(0.25, 1.0, 2, steps)(7) == 0.25
    warm = optimize.warmup_cosine_decay_schedule(0.0, 1.0, 0, 10)
    np.testing.assert_allclose([warm(0), warm(5), warm(10)], [1.0, 0.5, 0.0])


def test_a_learning_rate_may_keep_the_sign_or_be_none() -> None:
    once = lambda scaled: scaled.update(2.0, scaled.init(2.0))[0]
    rate = optimize.scale_by_learning_rate
    assert once(rate(0.5)) == -1.0 and once(rate(0.5, flip_sign=False)) == 1.0 and once(rate(None)) == once(rate()) == 2.0
    schedule = optimize.constant_schedule(0.5)
    assert once(rate(schedule)) == -1.0 and once(rate(schedule, flip_sign=False)) == 1.0


def test_schedules_refuse_what_cannot_be() -> None:
    with pytest.raises(ValueError, match="transition_steps"):
        optimize.exponential_decay(1.0, 0, 0.5)
    with pytest.raises(ValueError, match="Remedy: piecewise_constant"):
        optimize.exponential_decay(1.0, 10, 0.0)
    with pytest.raises(ValueError, match="decay_steps"):
        optimize.warmup_cosine_decay_schedule(0.0, 1.0, 10, 10)
    with pytest.raises(ValueError, match="boundary"):
        optimize.join_schedules([optimize.constant_schedule(1.0)], [3])


# -- L-BFGS


def rosenbrock(x: Any) -> Any:
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def descend(optimizer: Any, f: Any, x: Any, steps: int) -> Any:
    both = optimize.value_and_grad_from_state(f)
    state = optimizer.init(x)
    for _ in range(steps):
        value, g = both(x, state)
        updates, state = optimizer.update(g, state, x, value=value, value_fn=f)
        x = optimize.apply_updates(x, updates)
    return x, state


def test_lbfgs_finds_the_minimum_of_rosenbrocks_function() -> None:
    x, state = descend(optimize.lbfgs(), rosenbrock, np.array([-1.2, 1.0, 0.5]), 60)
    np.testing.assert_allclose(x, 1.0, atol=1e-6)
    np.testing.assert_allclose(state.value, rosenbrock(x), atol=1e-12)
    np.testing.assert_allclose(state.gradient, grad(rosenbrock)(x), atol=1e-9)


def test_lbfgs_on_a_quadratic_ends_in_as_many_steps_as_dimensions() -> None:
    a = np.diag([1.0, 3.0, 10.0])
    x, _ = descend(optimize.lbfgs(memory_size=5), lambda x: 0.5 * x @ a @ x + np.sum(x), np.ones(3), 25)
    np.testing.assert_allclose(x, -1.0 / np.diag(a), atol=1e-7)


def test_lbfgs_on_trees_of_several_dtypes_under_jit_and_scan() -> None:
    params = {"w": np.full((2, 2), -1.0), "b": np.array([2.0], np.float32)}
    f = lambda p: np.sum((p["w"] ** 2 - 1.0) ** 2 + p["w"]) + np.sum((p["b"] - 3.0) ** 4 + p["b"] ** 2)
    optimizer, both = optimize.lbfgs(), optimize.value_and_grad_from_state(f)

    def step(carry: Any, _: Any) -> Any:
        params, state = carry
        value, g = both(params, state)
        updates, state = optimizer.update(g, state, params, value=value, value_fn=f)
        return (optimize.apply_updates(params, updates), state), value

    (found, _), values = jit(lambda p: scan(step, (p, optimizer.init(p)), None, length=20))(params)
    assert found["b"].dtype == np.float32
    eager, _ = descend(optimizer, f, params, 20)
    np.testing.assert_allclose(found["w"], eager["w"], rtol=1e-6)
    assert np.all(np.diff(values) <= 1e-6)
    assert optimize.global_norm(grad(f)(found)) < 1e-3


def test_lbfgs_with_a_fixed_step() -> None:
    optimizer = optimize.lbfgs(0.5)
    f = lambda x: np.sum(np.array([1.0, 5.0, 20.0]) * x**2)
    x = np.ones(3)
    state = optimizer.init(x)
    for _ in range(40):
        updates, state = optimizer.update(grad(f)(x), state, x)
        x = optimize.apply_updates(x, updates)
    np.testing.assert_allclose(x, 0.0, atol=1e-8)
    assert np.isnan(state.value)


def test_derivative_through_lbfgs() -> None:
    def end(x: Any) -> Any:
        f = lambda x: np.sum(x**4 + x**2)
        optimizer = optimize.lbfgs()
        state = optimizer.init(x)
        for _ in range(2):
            value, g = value_and_grad(f)(x)
            updates, state = optimizer.update(g, state, x, value=value, value_fn=f)
            x = optimize.apply_updates(x, updates)
        return np.sum(x)

    x, step = np.array([0.5, 0.7]), np.array([1e-6, 0.0])
    np.testing.assert_allclose(grad(end)(x)[0], (end(x + step) - end(x - step)) / 2e-6, rtol=1e-6)


def test_the_line_search_leaves_a_region_of_nan() -> None:
    f = lambda x: np.sum(x - np.log(x))
    with np.errstate(invalid="ignore", divide="ignore"):
        x, _ = descend(optimize.lbfgs(), f, np.array([5.0, 0.1]), 25)
    np.testing.assert_allclose(x, 1.0, atol=1e-5)


def test_lbfgs_says_what_it_needs() -> None:
    optimizer, x = optimize.lbfgs(), np.ones(2)
    with pytest.raises(TypeError, match="value_fn"):
        optimizer.update(x, optimizer.init(x), x)
    with pytest.raises(ValueError, match="parameters"):
        optimizer.update(x, optimizer.init(x))
    with pytest.raises(TypeError, match="real float"):
        optimizer.init(np.ones(2, complex))
    with pytest.raises(ValueError, match="memory_size"):
        optimize.lbfgs(memory_size=0)
