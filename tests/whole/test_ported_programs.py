"""Whole programs as users of autograd, JAX and SciPy write them, with what the guide says about porting as the only changes."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from scipy import integrate as scipy_integrate
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import funcad
import funcad.autograd.numpy as anp
import funcad.autograd.numpy.random as npr
import funcad.autograd.scipy.signal as asignal
import funcad.autograd.scipy.stats.multivariate_normal as mvn
import funcad.numpy as jnp
from funcad import autograd as ag
from funcad import lax, random
from funcad.autograd.builtins import tuple as ag_tuple
from funcad.autograd.misc.flatten import flatten
from funcad.autograd.scipy.integrate import odeint
from funcad.autograd.scipy.special import logsumexp
from funcad.errors import TracerArrayConversionError, TracerIntegerConversionError
from funcad.scipy.integrate import solve_ivp


def slope(f: Callable[[Any], Any], x: Any, direction: Any, h: float = 1e-6) -> float:
    """The derivative of f at the pytree x along a direction, by differences."""
    moved = [funcad.tree.map(lambda a, d, s=s: a + s * h * d, x, direction) for s in (1.0, -1.0)]
    return float(f(moved[0]) - f(moved[1])) / (2 * h)


def check_gradient(f: Callable[[Any], Any], x: Any, gradient: Any, tolerance: float = 1e-6) -> None:
    """One random direction tells a wrong gradient from a right one."""
    rng = np.random.default_rng(0)
    direction = funcad.tree.map(lambda a: rng.normal(size=np.shape(a)), x)
    inner = sum(np.sum(g * d) for g, d in zip(funcad.tree.leaves(gradient), funcad.tree.leaves(direction)))
    assert inner == pytest.approx(slope(f, x, direction), rel=tolerance, abs=tolerance)


# ---------------------------------------------------------------- written for autograd


def test_gaussian_process_with_scipy_minimize() -> None:
    rs = npr.RandomState(0)
    x = anp.linspace(0, 4, 20)[:, None]
    y = anp.cos(2 * x[:, 0]) + 0.1 * rs.randn(20)

    def covariance(params, a, b):
        scale, lengths = anp.exp(params[0]), anp.exp(params[1:])
        difference = anp.expand_dims(a / lengths, 1) - anp.expand_dims(b / lengths, 0)
        return scale * anp.exp(-0.5 * anp.sum(difference**2, axis=2))

    def objective(params):
        noise = anp.exp(params[1]) + 1e-4
        return -mvn.logpdf(y, params[0] * anp.ones(len(y)), covariance(params[2:], x, x) + noise * anp.eye(len(y)))

    start = 0.1 * rs.randn(4)
    check_gradient(objective, start, ag.grad(objective)(start))
    found = minimize(ag.value_and_grad(objective), start, jac=True, method="CG", options={"maxiter": 40})
    assert found.fun < objective(start) - 10.0
    assert type(found.x) is np.ndarray


def test_lstm_in_a_python_loop() -> None:
    rs = npr.RandomState(0)
    size, symbols = 6, 4
    names = ["change", "forget", "ingate", "outgate"]
    params = {name: 0.3 * rs.randn(symbols + size + 1, size) for name in names}
    params |= {"hidden": 0.1 * rs.randn(1, size), "cells": 0.1 * rs.randn(1, size), "predict": rs.randn(size + 1, symbols)}
    sequences = anp.eye(symbols)[rs.randint(0, symbols, (7, 3))]

    def sigmoid(x):
        return 0.5 * (anp.tanh(x) + 1.0)

    def multiply(weights, *inputs):
        return anp.dot(anp.hstack((*inputs, anp.ones((inputs[0].shape[0], 1)))), weights)

    def loss(params):
        hidden = anp.repeat(params["hidden"], 3, axis=0)
        cells = anp.repeat(params["cells"], 3, axis=0)
        total = 0.0
        for inputs, targets in zip(sequences[:-1], sequences[1:]):
            change = anp.tanh(multiply(params["change"], inputs, hidden))
            forget, ingate, outgate = (sigmoid(multiply(params[n], inputs, hidden)) for n in names[1:])
            cells = cells * forget + ingate * change
            hidden = outgate * anp.tanh(cells)
            outputs = multiply(params["predict"], hidden)
            total = total - anp.sum((outputs - logsumexp(outputs, axis=1, keepdims=True)) * targets)
        flat, _ = flatten(params)
        return total + 0.5 * anp.dot(flat, flat)

    gradient = ag.grad(loss)(params)
    check_gradient(loss, params, gradient)
    for name, value in funcad.jit(ag.grad(loss))(params).items():
        np.testing.assert_allclose(value, gradient[name], rtol=1e-10, atol=1e-12)


def test_fluid_simulation_by_rolled_grids() -> None:
    n = 8
    rng = np.random.RandomState(0)
    smoke, target = rng.rand(n, n), rng.rand(n, n)

    def project(vx, vy):
        div = anp.roll(vx, -1, axis=0) - anp.roll(vx, 1, axis=0) + anp.roll(vy, -1, axis=1) - anp.roll(vy, 1, axis=1)
        div = -0.5 / n * div
        p = anp.zeros(vx.shape)
        for _ in range(5):
            p = (div + anp.roll(p, 1, 0) + anp.roll(p, -1, 0) + anp.roll(p, 1, 1) + anp.roll(p, -1, 1)) / 4.0
        return vx - 0.5 * n * (anp.roll(p, -1, 0) - anp.roll(p, 1, 0)), vy - 0.5 * n * (anp.roll(p, -1, 1) - anp.roll(p, 1, 1))

    def advect(f, vx, vy):
        rows, columns = anp.meshgrid(anp.arange(n), anp.arange(n))
        x, y = (columns - vx).ravel(), (rows - vy).ravel()
        left, top = anp.floor(x).astype(int), anp.floor(y).astype(int)
        right, bottom = x - left, y - top
        i, j, k, m = anp.mod(left, n), anp.mod(top, n), anp.mod(left + 1, n), anp.mod(top + 1, n)
        flat = (1 - right) * ((1 - bottom) * f[i, j] + bottom * f[i, m]) + right * ((1 - bottom) * f[k, j] + bottom * f[k, m])
        return anp.reshape(flat, (n, n))

    def objective(v):
        vx, vy = anp.reshape(v[: n * n], (n, n)), anp.reshape(v[n * n :], (n, n))
        final = smoke
        for _ in range(3):
            vx, vy = project(advect(vx, vx, vy), advect(vy, vx, vy))
            final = advect(final, vx, vy)
        return anp.mean((final - target) ** 2)

    v = 0.3 * rng.randn(2 * n * n)
    check_gradient(objective, v, ag.grad(objective)(v), 1e-5)
    assert str(funcad.make_jaxpr(lambda x: np.roll(x, (1, -1), (0, 1)))(smoke)).count("roll") == 2


@pytest.mark.parametrize("mode", ["valid", "full"])
def test_convnet_by_convolutions_of_named_axes(mode: str) -> None:
    rs = npr.RandomState(0)
    images, kernels = rs.randn(3, 2, 6, 5), rs.randn(2, 4, 3, 2)

    def layer(images, kernels):
        return asignal.convolve(images, kernels, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode=mode)

    one = lambda image, o: sum(asignal.convolve(a, k, mode=mode) for a, k in zip(image, kernels[:, o]))
    expected = [[one(image, o) for o in range(4)] for image in images]
    np.testing.assert_allclose(layer(images, kernels), expected, atol=1e-12)
    for argnum in (0, 1):
        f = lambda x, i=argnum: anp.sum(anp.tanh(layer(*((x, kernels) if i == 0 else (images, x)))))
        x = (images, kernels)[argnum]
        check_gradient(f, x, ag.grad(f)(x))


def test_convolve_exchanges_its_operands_and_refuses_what_has_no_meaning() -> None:
    rs = npr.RandomState(0)
    small, large = rs.randn(3, 4), rs.randn(2, 9)
    found = asignal.convolve(small, large, axes=([1], [1]), mode="valid")
    expected = [[np.convolve(a, b, "valid") for b in large] for a in small]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    with pytest.raises(ValueError, match="valid"):
        asignal.convolve(small, large, axes=([1], [1]), mode="wrap")
    with pytest.raises(ValueError, match="as many axes"):
        asignal.convolve(small, large, axes=([1], [0, 1]))


def test_ode_net_with_arguments_in_a_tuple() -> None:
    start, t = np.array([2.0, 0.0]), np.linspace(0.0, 1.0, 5)
    matrix = np.array([[-0.1, 2.0], [-2.0, -0.1]])
    observed = odeint(lambda y, t, a: anp.dot(y**3, a), start, t, args=(matrix,), rtol=1e-8)
    np.testing.assert_array_equal(  # plain arrays: SciPy's own result
        observed, scipy_integrate.odeint(lambda y, t, a: np.dot(y**3, a), start, t, args=(matrix,), rtol=1e-8)
    )

    def network(y, t, params):
        (w, b), (v, c) = params
        return anp.dot(anp.tanh(anp.dot(y, w) + b), v) + c

    rs = npr.RandomState(0)
    params = [(rs.randn(2, 5) * 0.3, rs.randn(5) * 0.3), (rs.randn(5, 2) * 0.3, rs.randn(2) * 0.3)]

    def loss(params):
        return anp.mean((odeint(network, start, t, args=ag_tuple((params,)), rtol=1e-10, atol=1e-10) - observed) ** 2)

    check_gradient(loss, params, ag.grad(loss)(params), 1e-5)
    backwards = lambda rate: odeint(lambda t, y, r: -r * y, 1.0, [0.0, 1.0], (rate,), tfirst=True)[-1, 0]
    assert ag.grad(backwards)(2.0) == pytest.approx(-np.exp(-2.0), rel=1e-6)
    with pytest.raises(TypeError, match="Dfun"):
        ag.grad(lambda r: odeint(lambda y, t, r: -r * y, 1.0, t, (r,), Dfun=lambda y, t, r: -r)[-1, 0])(2.0)


# ---------------------------------------------------------------- written for JAX


def test_training_loop_by_scan_with_keys() -> None:
    def adam(rate, b1=0.9, b2=0.999, eps=1e-8):
        def update(g, state):
            m, v, t = state
            t = t + 1
            m = funcad.tree.map(lambda m, g: b1 * m + (1 - b1) * g, m, g)
            v = funcad.tree.map(lambda v, g: b2 * v + (1 - b2) * jnp.square(g), v, g)
            step = lambda m, v: -rate * (m / (1 - b1**t)) / (jnp.sqrt(v / (1 - b2**t)) + eps)
            return funcad.tree.map(step, m, v), (m, v, t)

        return lambda p: (funcad.tree.map(jnp.zeros_like, p), funcad.tree.map(jnp.zeros_like, p), 0), update

    def apply(params, x):
        *hidden, last = params
        for layer in hidden:
            x = funcad.nn.relu(x @ layer["w"] + layer["b"])
        return x @ last["w"] + last["b"]

    data, init, order = random.split(random.PRNGKey(0), 3)
    x = random.normal(data, (64, 5))
    y = (jnp.sin(x[:, 0]) + x[:, 1] > 0).astype(jnp.int32)
    sizes = [5, 16, 2]
    params = [
        {"w": random.normal(k, (m, n)) / jnp.sqrt(m), "b": jnp.zeros(n)}
        for k, m, n in zip(random.split(init, 2), sizes[:-1], sizes[1:])
    ]
    start, update = adam(2e-2)

    def loss(params, x, y):
        return -jnp.mean(jnp.take_along_axis(funcad.nn.log_softmax(apply(params, x)), y[:, None], axis=1))

    def epoch(params, state, key):
        def body(carry, rows):
            params, state = carry
            value, g = funcad.value_and_grad(loss)(params, jnp.take(x, rows, 0), jnp.take(y, rows, 0))
            updates, state = update(g, state)
            return (funcad.tree.map(lambda a, b: a + b, params, updates), state), value

        return lax.scan(body, (params, state), random.permutation(key, 64).reshape(4, 16))

    compiled, history = funcad.jit(epoch), []
    carry, _ = epoch(params, start(params), order)
    same, _ = compiled(params, start(params), order)
    for a, b in zip(funcad.tree.leaves(carry), funcad.tree.leaves(same)):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    for key in random.split(order, 15):
        carry, values = compiled(*carry, key)
        history.append(values.mean())
    assert history[-1] < 0.2 * history[0]
    each = funcad.vmap(funcad.grad(loss), (None, 0, 0))(params, x[:, None], y[:, None])
    check_gradient(lambda p: loss(p, x, y), params, funcad.tree.map(lambda g: g.mean(0), each))


def test_kalman_filter_by_scan_is_the_joint_density() -> None:
    a, h = jnp.array([[1.0, 0.1], [0.0, 0.9]]), jnp.array([[1.0, 0.0]])
    ys = jnp.cumsum(random.normal(random.PRNGKey(5), (12, 1)) * 0.1, axis=0)

    def negative_log_likelihood(theta):
        q, r = jnp.exp(theta[0]) * jnp.eye(2), jnp.exp(theta[1]) * jnp.eye(1)

        def step(carry, y):
            m, p, total = carry
            m, p = a @ m, a @ p @ a.T + q
            s = h @ p @ h.T + r
            gain = jnp.linalg.solve(s, h @ p).T
            total = total + funcad.scipy.stats.multivariate_normal.logpdf(y, h @ m, s)
            return (m + gain @ (y - h @ m), p - gain @ s @ gain.T, total), m

        (_, _, total), _ = lax.scan(step, (jnp.zeros(2), jnp.eye(2), 0.0), ys)
        return -total

    theta = np.array([-3.0, -2.0])
    powers = [np.linalg.matrix_power(a, k) for k in range(13)]
    state = lambda i, j: sum(np.exp(-3.0) * powers[i - k] @ powers[j - k].T for k in range(1, min(i, j) + 1))
    joint = [[(h @ (powers[i] @ powers[j].T + state(i, j)) @ h.T).item() for j in range(1, 13)] for i in range(1, 13)]
    expected = -multivariate_normal.logpdf(ys[:, 0], np.zeros(12), np.array(joint) + np.exp(-2.0) * np.eye(12))
    value, gradient = funcad.jit(funcad.value_and_grad(negative_log_likelihood))(theta)
    assert value == pytest.approx(expected)
    check_gradient(negative_log_likelihood, theta, gradient)
    hessian = funcad.hessian(negative_log_likelihood)(theta)
    np.testing.assert_allclose(hessian, funcad.jacrev(funcad.jacrev(negative_log_likelihood))(theta), rtol=1e-8)
    batch = funcad.vmap(negative_log_likelihood)(np.stack([theta, theta + 1.0]))
    np.testing.assert_allclose(batch, [value, negative_log_likelihood(theta + 1.0)])


def test_hamiltonian_monte_carlo_of_many_chains() -> None:
    scales = jnp.array([1.0, 2.0])
    log_density = lambda q: -0.5 * jnp.sum((q / scales) ** 2)

    def kernel(q, key):
        first, second = random.split(key)
        p = random.normal(first, q.shape)

        def leap(_, state):
            q, p = state
            p = p + 0.15 * funcad.grad(log_density)(q)
            q = q + 0.3 * p
            return q, p + 0.15 * funcad.grad(log_density)(q)

        q_new, p_new = lax.fori_loop(0, 6, leap, (q, p))
        change = log_density(q_new) - log_density(q) - 0.5 * (p_new @ p_new - p @ p)
        accepted = jnp.log(random.uniform(second)) < change
        q = jnp.where(accepted, q_new, q)
        return q, (q, accepted)

    keys = random.split(random.PRNGKey(0), 60)
    sample = lambda q, key: lax.scan(kernel, q, random.split(key, 60))[1]
    chains, accepted = funcad.jit(funcad.vmap(sample))(jnp.zeros((60, 2)), keys)
    np.testing.assert_allclose(chains[3], sample(jnp.zeros(2), keys[3])[0], rtol=1e-8, atol=1e-10)
    assert accepted.mean() > 0.9
    np.testing.assert_allclose(chains[:, 20:].reshape(-1, 2).std(0), scales, rtol=0.1)


def test_physics_informed_network_by_nested_jvp() -> None:
    keys = random.split(random.PRNGKey(0), 3)
    params = [(random.normal(k, (m, n)), jnp.zeros(m)) for k, (m, n) in zip(keys, [(8, 2), (8, 8), (1, 8)])]

    def u(params, x, t):
        out = jnp.stack([x, t])
        for w, b in params[:-1]:
            out = jnp.tanh(w @ out + b)
        return (params[-1][0] @ out + params[-1][1])[0]

    def residual(params, x, t):
        ut = funcad.jvp(lambda t: u(params, x, t), (t,), (jnp.ones_like(t),))[1]
        ux = lambda x: funcad.jvp(lambda x: u(params, x, t), (x,), (jnp.ones_like(x),))[1]
        uxx = funcad.jvp(ux, (x,), (jnp.ones_like(x),))[1]
        return ut + u(params, x, t) * ux(x) - 0.01 * uxx

    xt = random.uniform(random.PRNGKey(1), (16, 2))
    loss = lambda params: jnp.mean(funcad.vmap(residual, (None, 0, 0))(params, xt[:, 0], xt[:, 1]) ** 2)
    x, t = xt[0]
    first = funcad.grad(lambda z: u(params, z[0], z[1]))(xt[0])
    second = funcad.hessian(lambda z: u(params, z[0], z[1]))(xt[0])
    assert residual(params, x, t) == pytest.approx(first[1] + u(params, x, t) * first[0] - 0.01 * second[0, 0])
    gradient = funcad.grad(loss)(params)
    check_gradient(loss, params, gradient, 1e-5)
    for a, b in zip(funcad.tree.leaves(funcad.jit(funcad.grad(loss))(params)), funcad.tree.leaves(gradient)):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10)


def test_meta_learning_differentiates_its_inner_steps() -> None:
    keys = random.split(random.PRNGKey(0), 3)
    params = {name: random.normal(k, (6,)) for name, k in zip("wbv", keys)}
    error = lambda p, x, y: jnp.mean((jnp.tanh(x[:, None] * p["w"] + p["b"]) @ p["v"] - y) ** 2)

    def adapted(p, x, y):
        step = lambda p, _: (funcad.tree.map(lambda p, g: p - 0.1 * g, p, funcad.grad(error)(p, x, y)), None)
        return lax.scan(step, p, None, length=3)[0]

    xs = jnp.linspace(-2, 2, 10) * jnp.ones((4, 1))
    ys = jnp.linspace(0.5, 2.0, 4)[:, None] * jnp.sin(xs)
    tasks = funcad.vmap(lambda p, x, y: error(adapted(p, x, y), x + 0.1, y), (None, 0, 0))
    loss = lambda p: jnp.mean(tasks(p, xs, ys))
    gradient = funcad.grad(loss)(params)
    check_gradient(loss, params, gradient)
    for name, value in funcad.jit(funcad.grad(loss))(params).items():
        np.testing.assert_allclose(value, gradient[name], rtol=1e-9, atol=1e-11)
    _, tangent = funcad.jvp(loss, (params,), (params,))
    assert tangent == pytest.approx(sum(np.sum(gradient[n] * params[n]) for n in "wbv"))


def test_implicit_layers_agree() -> None:
    theta = {"w": 0.3 * random.normal(random.PRNGKey(0), (4, 4)), "b": jnp.arange(4.0) / 4}
    layer = lambda th, x: jnp.tanh(th["w"] @ x + th["b"])

    def newton(f, guess):
        def body(state):
            x, _, count = state
            change = jnp.linalg.solve(funcad.jacobian(f)(x), -f(x))
            return x + change, jnp.linalg.norm(change), count + 1

        return lax.while_loop(lambda s: (s[1] > 1e-12) & (s[2] < 50), body, (guess, jnp.inf, 0))[0]

    def by_root(th):
        solve = lambda g, y: jnp.linalg.solve(funcad.jacobian(g)(y), y)
        return lax.custom_root(lambda x: x - layer(th, x), jnp.zeros(4), newton, solve)

    @functools.partial(funcad.custom_vjp, nondiff_argnums=(0,))
    def fixed_point(f, a, guess):
        body = lambda carry: (carry[1], f(a, carry[1]))
        return lax.while_loop(lambda c: jnp.max(jnp.abs(c[0] - c[1])) > 1e-13, body, (guess, f(a, guess)))[1]

    def forward(f, a, guess):
        out = fixed_point(f, a, guess)
        return out, (a, out)

    def backward(f, residuals, g):
        a, out = residuals
        adjoint = fixed_point(lambda packed, u: packed[2] + funcad.vjp(f, *packed[:2])[1](u)[1], (a, out, g), g)
        return funcad.vjp(f, a, out)[1](adjoint)[0], jnp.zeros_like(out)

    fixed_point.defvjp(forward, backward)
    by_iteration = lambda th: fixed_point(layer, th, jnp.zeros(4))
    np.testing.assert_allclose(by_root(theta), by_iteration(theta), rtol=1e-10)
    losses = [lambda th, f=f: jnp.sum(f(th) ** 2) for f in (by_root, by_iteration)]
    for loss in losses:
        check_gradient(loss, theta, funcad.grad(loss)(theta))
        check_gradient(loss, theta, funcad.jit(funcad.grad(loss))(theta))


# ---------------------------------------------------------------- written for SciPy


def test_initial_value_problem_with_lists() -> None:
    def final(p):
        prey = lambda t, y, a, b: [a * y[0] - b * y[0] * y[1], -y[1] + b * y[0] * y[1]]
        return solve_ivp(prey, [0, 2], [1, 0.5], args=(p[0], p[1]), rtol=1e-9, atol=1e-9, t_eval=[2]).y[0, -1]

    p = np.array([1.1, 0.4])
    check_gradient(final, p, funcad.grad(final)(p), 1e-5)
    whole = lambda k: solve_ivp(lambda t, y: [-k * y[0]], (0.0, 1.0), [2], t_eval=[1.0], rtol=1e-8).y[0, 0]
    assert funcad.grad(whole)(1.5) == pytest.approx(-2 * np.exp(-1.5), rel=1e-5)
    free = lambda k: solve_ivp(lambda t, y: -k * y, (0.0, 1.0), [1.0], rtol=1e-8).y[0, -1]
    assert funcad.grad(free)(1.0) == pytest.approx(-np.exp(-1.0), rel=1e-5)


# ---------------------------------------------------------------- what the errors say

TABLE = np.arange(12.0).reshape(4, 3)


@pytest.mark.parametrize(
    ("program", "error", "remedy"),
    [
        (lambda i: TABLE[i], TracerArrayConversionError, "numpy.take(TABLE, i, 0) instead of TABLE[i]"),
        (lambda i: TABLE[i, 1], TracerArrayConversionError, "numpy.at(TABLE)[i, 1].get() instead of TABLE[i, 1]"),
        (lambda i: TABLE[np.array([0, 1]), i], TracerArrayConversionError, "numpy.at(TABLE)[np.array([0, 1]), i].get()"),
        (lambda i: TABLE[i : i + 2], TracerIntegerConversionError, "lax.dynamic_slice_in_dim(TABLE, start, n)"),
        (lambda i: [1.0, 2.0][i], TracerIntegerConversionError, "numpy.take([1.0, 2.0], i, 0) instead of [1.0, 2.0][i]"),
    ],
)
def test_a_computed_index_into_a_plain_array_names_take(program: Callable[..., Any], error: type, remedy: str) -> None:
    with pytest.raises(error) as info:
        funcad.jit(program, guards=False)(1)
    assert f"\nRemedy: funcad.{remedy}" in str(info.value)
    np.testing.assert_array_equal(funcad.jit(program)(1), program(1))
    cut = lambda i: lax.dynamic_slice(TABLE, (i, 0), (1, 3))[0]
    for other in (lambda i: jnp.take(TABLE, i, 0), lambda i: jnp.at(TABLE)[i].get(), cut):
        np.testing.assert_array_equal(funcad.jit(other)(1), TABLE[1])


def test_other_conversions_do_not_speak_of_indices() -> None:
    with pytest.raises(TracerArrayConversionError, match=r"Remedy: write x.astype\(np.float64\) instead[\s\S]*stop_gradient"):
        funcad.grad(lambda x: np.float64(x).sum())(np.ones(2))
    with pytest.raises(TracerArrayConversionError, match=r"Remedy: make n a static argument"):
        funcad.jit(lambda n: np.arange(n).sum())(3.0)


@pytest.mark.parametrize(
    ("name", "program"),
    [
        ("take", lambda f, x: f(np.arange(3.0), np.argmax(x), 0) * x[0]),
    ],
)
def test_numpy_functions_that_do_not_look_for_traced_values_name_funcads_own(name: str, program: Callable[..., Any]) -> None:
    with pytest.raises(TracerArrayConversionError, match=rf"Remedy: call funcad.numpy.{name} instead of np.{name}, which"):
        funcad.jit(lambda x: program(getattr(np, name), x), guards=False)(np.array([0.5, 2.0]))
    found = funcad.jit(lambda x: program(getattr(funcad.numpy, name), x))(np.array([0.5, 2.0]))
    np.testing.assert_allclose(found, program(getattr(np, name), np.array([0.5, 2.0])))


def test_rules_of_a_function_with_any_number_of_arguments() -> None:
    @funcad.custom_vjp
    def weighted(first, *rest):
        return first + sum(rest)

    weighted.defvjp(lambda *xs: (weighted(*xs), len(xs)), lambda n, g: tuple(10.0 * g * i for i in range(n)))
    assert funcad.grad(weighted, argnums=(0, 1, 2))(1.0, 2.0, 3.0) == (0.0, 10.0, 20.0)
    assert funcad.grad(weighted)(1.0) == 0.0
    with pytest.raises(TypeError, match="first"):
        funcad.grad(lambda x: weighted() * x)(1.0)


def test_scipy_called_with_traced_values_names_funcads_own() -> None:
    remedy = r"call funcad\.scipy\.linalg\.expm, which takes traced"
    with funcad.config.set(doors=False), pytest.raises(TracerArrayConversionError, match=remedy):
        funcad.grad(lambda x: scipy.linalg.expm(x * np.eye(2)).sum())(1.0)


def test_a_mirror_finds_a_name_once() -> None:
    assert anp.arctanh is anp.arctanh
    assert vars(anp)["arctanh"] is funcad.numpy.arctanh
