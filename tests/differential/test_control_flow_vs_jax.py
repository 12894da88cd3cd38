"""Control flow against JAX's (x64): values, gradients, Hessians, alone and under vmap and jit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import funcad
from funcad.control.cond import cond, switch
from funcad.control.loops import associative_scan, fori_loop
from funcad.control.loops import map as loop_map
from funcad.control.scan import scan
from funcad.control.solve import custom_linear_solve, custom_root
from funcad.control.while_loop import while_loop

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


OURS = SimpleNamespace(
    np=np, scan=scan, cond=cond, switch=switch, fori=fori_loop, while_=while_loop, map=loop_map,
    associative=associative_scan, solve=custom_linear_solve, root=custom_root,
    grad=funcad.grad, hessian=funcad.hessian, vmap=funcad.vmap, jit=funcad.jit, jvp=funcad.jvp, jacfwd=funcad.jacfwd,
)  # fmt: skip
THEIRS = SimpleNamespace(
    np=jax.numpy, scan=jax.lax.scan, cond=jax.lax.cond, switch=jax.lax.switch, fori=jax.lax.fori_loop,
    while_=jax.lax.while_loop, map=jax.lax.map, associative=jax.lax.associative_scan,
    solve=jax.lax.custom_linear_solve, root=jax.lax.custom_root,
    grad=jax.grad, hessian=jax.hessian, vmap=jax.vmap, jit=jax.jit, jvp=jax.jvp, jacfwd=jax.jacfwd,
)  # fmt: skip
STEPS = np.array([0.5, -0.3, 0.8])


def scanned(m, x):
    carry, ys = m.scan(lambda c, v: (m.np.sin(c * v + x), c * v), x, STEPS, reverse=True)
    return m.np.sum(carry) + m.np.sum(ys * ys)


def branched(m, x):
    y = m.cond(m.np.sum(x) > 0, lambda x: m.np.sin(x) * x, lambda x: m.np.exp(x), x)
    return m.np.sum(m.cond(y[0] > 0.5, lambda: y * x, lambda: x * x * x))


def switched(m, x):
    index = m.cond(x[0] > 0.3, lambda: 2, lambda: m.cond(x[1] > 0, lambda: 1, lambda: 0))
    return m.np.sum(m.switch(index, [m.np.sin, m.np.tanh, lambda v: v * v], x))


def counted(m, x):
    return m.np.sum(m.fori(0, 4, lambda i, c: m.np.sin(c * i) * x, x))


def mapped(m, x):
    return m.np.sum(m.map(lambda v: m.np.tanh(v) * v, x) ** 2)


def prefixes(m, x):
    both = m.associative(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, m.np.cos(x)), reverse=True)
    return m.np.sum(m.np.sin(both[1]))


def solved(m, x):
    d = 2.0 + x * x
    y = m.solve(lambda v: d * v, x, lambda matvec, b: b / d, symmetric=True)
    return m.np.sum(m.np.sin(y))


def rooted(m, x):
    a = 1.0 + m.np.sum(x * x)
    newton = lambda f, guess: m.fori(0, 30, lambda i, v: 0.5 * (v + a / v), guess)
    return m.np.sin(m.root(lambda v: v * v - a, 1.0, newton, lambda g, y: y / g(1.0)))


PROGRAMS = [scanned, branched, switched, counted, mapped, prefixes, solved, rooted]
TRANSFORMS = {
    "value": lambda m, f: f,
    "grad": lambda m, f: m.grad(f),
    "hessian": lambda m, f: m.hessian(f),
    "vmap": lambda m, f: lambda x: m.vmap(f)(m.np.stack([x, -x, 2.0 * x])),
    "vmap grad": lambda m, f: lambda x: m.vmap(m.grad(f))(m.np.stack([x, -x, 2.0 * x])),
    "jit vmap hessian": lambda m, f: lambda x: m.jit(m.vmap(m.hessian(f)))(m.np.stack([x, -x, 2.0 * x])),
    "grad vmap": lambda m, f: m.grad(lambda x: m.np.sum(m.vmap(f)(m.np.stack([x, -x, 2.0 * x])))),
    "hvp": lambda m, f: lambda x: m.jvp(m.grad(f), (x,), (m.np.cos(x),))[1],
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_same_numbers(program, name):
    x = np.array([0.4, -0.7, 0.9])
    found, expected = (TRANSFORMS[name](m, lambda x, m=m: program(m, x))(x) for m in (OURS, THEIRS))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_forward_mode_of_while():
    """JAX has no reverse mode here; ours is compared with its forward mode."""
    f = lambda m: lambda x: m.np.sum(m.while_(lambda c: m.np.sum(c * c) > 0.1, lambda c: m.np.sin(c) * 0.8, x))
    x = np.array([0.4, -0.7, 0.9])
    expected = jax.jacfwd(f(THEIRS))(x)
    np.testing.assert_allclose(funcad.jacfwd(f(OURS))(x), expected, rtol=1e-9)
    np.testing.assert_allclose(funcad.grad(f(OURS))(x), expected, rtol=1e-9)
    second = jax.jacfwd(jax.jacfwd(f(THEIRS)))(x)
    np.testing.assert_allclose(funcad.hessian(f(OURS))(x), second, rtol=1e-9)
    batch = np.stack([x, 2 * x, 0 * x])
    np.testing.assert_allclose(funcad.vmap(funcad.grad(f(OURS)))(batch), jax.vmap(jax.jacfwd(f(THEIRS)))(batch), rtol=1e-9)
