"""What runs over processes and is compared with `vmap` on the stacked arguments: by threads, and under mpirun."""

import numpy as np

import funcad as fc
from funcad import distributed, lax

RNG = np.random.default_rng(0)


def shift(n):
    return [(i, (i + 1) % n) for i in range(n)]


def operations(n):
    """name -> a function of one lane's array of shape (n, 2 n)."""
    return {
        "psum": lambda x: lax.psum(x, "i"),
        "pmean": lambda x: lax.pmean(x, "i"),
        "pmax": lambda x: lax.pmax(x, "i"),
        "pmin": lambda x: lax.pmin(x, "i"),
        "all_gather": lambda x: lax.all_gather(x, "i"),
        "all_gather axis": lambda x: lax.all_gather(x, "i", axis=-1),
        "all_gather tiled": lambda x: lax.all_gather(x, "i", axis=1, tiled=True),
        "psum_scatter": lambda x: lax.psum_scatter(x, "i"),
        "psum_scatter tiled": lambda x: lax.psum_scatter(x, "i", scatter_dimension=1, tiled=True),
        "ppermute": lambda x: lax.ppermute(x, "i", shift(n)),
        "ppermute partial": lambda x: lax.ppermute(x, "i", shift(n)[1:]),
        "pshuffle": lambda x: lax.pshuffle(x, "i", list(range(n))[::-1]),
        "all_to_all": lambda x: lax.all_to_all(x, "i", 0, 0),
        "all_to_all axes": lambda x: lax.all_to_all(x, "i", 0, 1),
        "all_to_all tiled": lambda x: lax.all_to_all(x, "i", 1, 0, tiled=True),
        "axis_index": lambda x: x * lax.axis_index("i"),
        "axis_size": lambda x: x * lax.axis_size("i"),
        "broadcast": lambda x: distributed.broadcast(x, "i", n - 1),
    }


def compositions(n):
    """name -> a function of numbers w that all have and of one lane's data, both of shape (3,): a number that all have."""

    def scanned(w, x):
        def step(c, xi):
            return c + lax.psum(np.sin(c * xi), "i"), c

        return lax.pmean(np.sum(fc.scan(step, w, np.stack([x, 2 * x]))[0]), "i")

    def loops(w, x):
        def body(s):
            return s[0] + 1, lax.pmean(s[1] * s[1] * x, "i")

        return lax.psum(np.sum(fc.while_loop(lambda s: s[0] < 3, body, (0, w))[1]), "i")

    def branches(w, x):
        total = lax.psum(np.sum(x), "i")  # equal on all
        return fc.cond(total > 0, lambda v: lax.psum(np.sum(v**2 * x), "i"), lambda v: lax.pmean(np.sum(np.sin(v) * x), "i"), w)

    @fc.custom_vjp
    def ruled(w):
        return w**2

    ruled.defvjp(lambda w: (w**2, w), lambda w, ct: (3 * w * ct,))

    @fc.custom_jvp
    def tangents(w):
        return lax.psum(w**2, "i")

    tangents.defjvp(lambda p, t: (tangents(*p), lax.psum(5.0 * p[0] * t[0], "i")))

    return {
        "regression": lambda w, x: lax.pmean(np.sum((np.tanh(w) * x - 1.0) ** 2), "i"),
        "normalised": lambda w, x: lax.psum(np.sum(((w * x - lax.pmean(w * x, "i")) / (1.0 + lax.pmean(x**2, "i"))) ** 3), "i"),
        "scan": scanned,
        "cond": branches,
        "custom_vjp": lambda w, x: lax.pmean(np.sum(ruled(w * x) * x), "i"),
        "custom_jvp": lambda w, x: lax.pmean(np.sum(tangents(w * x) * x), "i"),
        "checkpoint": lambda w, x: fc.checkpoint(lambda w: lax.psum(np.sum(np.sin(w * lax.psum(w * x, "i"))), "i"))(w),
        "vmap inside": lambda w, x: lax.psum(np.sum(fc.vmap(lambda a, b: np.sin(a * lax.pmean(b, "i")))(w, x)), "i"),
        "jit inside": lambda w, x: fc.jit(lambda w: lax.psum(np.sum(np.exp(-(w**2)) * x), "i"))(w),
        "gathered": lambda w, x: np.sum(np.sin(lax.all_gather(w * x, "i")) ** 2) + 0.0 * lax.psum(w[0], "i"),
        "replicated alone": lambda w, x: np.sum(w**2) + 0.0 * lax.psum(x[0], "i"),
        "index": lambda w, x: lax.psum(np.sum(np.sin(w * x)) * (1.0 + lax.axis_index("i")), "i"),
        "while": loops,
    }


def random_program(seed, n):
    """A random chain of operations, of the same kind as `compositions`."""
    draw = np.random.default_rng(seed)
    some = [
        lambda v, w, x: np.sin(v) * x,
        lambda v, w, x: v + lax.psum(np.tanh(v), "i"),
        lambda v, w, x: v * lax.pmean(w * x, "i"),
        lambda v, w, x: lax.ppermute(v, "i", shift(n)) - 0.5 * w,
        lambda v, w, x: np.sum(lax.all_gather(v * w, "i") ** 2, axis=0) / (1.0 + v**2),
        lambda v, w, x: v - lax.pmax(v, "i"),
        lambda v, w, x: v * np.exp(-(lax.pmin(x, "i") ** 2)) + lax.axis_index("i"),
        lambda v, w, x: fc.jit(lambda v: np.cos(v) * lax.psum(v, "i"))(v),
        lambda v, w, x: fc.checkpoint(lambda v: np.sin(v) + lax.pmean(v**2, "i"))(v),
        lambda v, w, x: lax.all_to_all(np.stack([v] * n), "i", 0, 0)[n - 1] * x,
        lambda v, w, x: lax.psum_scatter(np.stack([v * w] * n), "i"),
        lambda v, w, x: np.where(x > 0, v, w),
    ]
    chosen = [some[i] for i in draw.integers(len(some), size=draw.integers(2, 6))]

    def program(w, x):
        v = w * x
        for step in chosen:
            v = np.tanh(step(v, w, x))
        return lax.pmean(np.sum(v), "i") + lax.psum(np.sum(w * x), "i")

    return program


def data(n, shape=(3,)):
    return np.random.default_rng(n).normal(size=(n, *shape))


W = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, 2.0, -0.5])


def derivatives(g):
    """name -> function of (w, x) for the one that gives a number from replicated w and own x."""
    return {
        "value": g,
        "grad": fc.grad(g, argnums=(0, 1)),
        "jvp": lambda w, x: fc.jvp(lambda w: g(w, x), (w,), (V,)),
        "vjp": lambda w, x: fc.vjp(g, w, x)[1](2.0),
        "hvp": lambda w, x: fc.jvp(fc.grad(lambda w: g(w, x)), (w,), (V,))[1],
        "grad of grad": lambda w, x: fc.grad(lambda w: fc.grad(lambda w: g(w, x))(w) @ V)(w),
        "jit grad": fc.jit(fc.grad(g)),
        "grad jit": fc.grad(fc.jit(g), argnums=(0, 1)),
        "vmap": lambda w, x: fc.vmap(lambda w: g(w, x))(np.stack([w, 2 * w])),
        "vmap grad": lambda w, x: fc.vmap(fc.grad(lambda w: g(w, x)))(np.stack([w, 2 * w])),
    }


def expected(program, name, n):
    """What `derivatives` give where lanes of vmap stand for the processes; per process where the argument is its own."""
    xs = data(n)
    mapped = fc.vmap(program, in_axes=(None, 0), out_axes=0, axis_name="i")
    whole = derivatives(lambda w, x: mapped(w, x)[0])[name](W, xs)
    if name in ("grad", "grad jit", "vjp"):
        return [(whole[0], whole[1][i]) for i in range(n)]
    return [whole] * n


def over_processes(program, name):
    g = distributed.spmd(program, "i", in_axes=(None, 0), out_axes=None)
    return derivatives(g)[name]
