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
        "reduce_to": lambda x: distributed.reduce_to(x, "i", n - 1),
        "gather_to": lambda x: distributed.gather_to(x, "i", n - 1),
        "scatter_from": lambda x: distributed.scatter_from(x, "i", n - 1),
        "send_recv": lambda x: distributed.send_recv(x, "i", n - 1, 0),
        "halo": lambda x: distributed.halo(x, 1, "i") ** 2,
        "halo periodic": lambda x: distributed.halo(x, (2, 1), "i", axis=1, periodic=True),
        "psum groups": lambda x: lax.psum(x, "i", axis_index_groups=uneven(n)),
        "pmean groups": lambda x: lax.pmean(x, "i", axis_index_groups=uneven(n)),
        "pmax groups": lambda x: lax.pmax(x, "i", axis_index_groups=even(n)),
        "all_gather groups": lambda x: lax.all_gather(x, "i", axis_index_groups=even(n), axis=1, tiled=True),
        "psum_scatter groups": lambda x: lax.psum_scatter(x, "i", axis_index_groups=even(n), scatter_dimension=1, tiled=True),
        "all_to_all groups": lambda x: lax.all_to_all(x, "i", 1, 0, axis_index_groups=even(n), tiled=True),
    }


def uneven(n):
    return [[0, n - 1], list(range(1, n - 1))] if n > 2 else [[0, 1]]


def even(n):
    return [[0, 2], [3, 1]] if n == 4 else [[i] for i in range(n)] if n == 3 else [[1, 0]]


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


def data(n, shape=(3,)):
    return np.random.default_rng(n).normal(size=(n, *shape))


W = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, 2.0, -0.5])


def _outer_rule(g, x):
    """g by w, in a function with a rule of its own that calls g's derivative; its gradient is three times g's."""

    @fc.custom_vjp
    def f(w):
        return g(w, x)

    f.defvjp(lambda w: (g(w, x), w), lambda w, ct: (3.0 * ct * fc.grad(lambda v: g(v, x))(w),))
    return f


def _outer_tangents(g, x):
    @fc.custom_jvp
    def f(w):
        return g(w, x)

    f.defjvp(lambda p, t: (g(p[0], x), 2.0 * fc.jvp(lambda v: g(v, x), p, t)[1]))
    return f


def _outer_scan(g, w, x):
    return fc.scan(lambda c, t: (np.tanh(c * t + g(c, x)), np.sum(c)), w, np.array([0.5, 1.5]))[0] @ V


def _outer_while(g, w, x):
    return fc.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.sin(s[1]) * g(s[1], x)), (0, w))[1] @ V


def _outer_cond(g, w, x):
    return fc.cond(np.sum(w) > 0, lambda w: g(w, x) ** 2, lambda w: g(2.0 * w, x), w)


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
        "jit hvp": fc.jit(lambda w, x: fc.jvp(fc.grad(lambda w: g(w, x)), (w,), (V,))[1]),
        "jit twice": lambda w, x: [f(w, x) for f in [fc.jit(g)] for _ in range(3)],
        "vmap": lambda w, x: fc.vmap(lambda w: g(w, x))(np.stack([w, 2 * w])),
        "vmap grad": lambda w, x: fc.vmap(fc.grad(lambda w: g(w, x)))(np.stack([w, 2 * w])),
        "jit vmap grad": fc.jit(lambda w, x: fc.vmap(fc.grad(lambda w: g(w, x)))(np.stack([w, 2 * w]))),
        "grad checkpoint": lambda w, x: fc.grad(fc.checkpoint(lambda w: np.sin(g(np.sin(w), x))))(w),
        "grad scan": lambda w, x: fc.grad(lambda w: _outer_scan(g, w, x))(w),
        "jit grad scan": fc.jit(lambda w, x: fc.grad(lambda w: _outer_scan(g, w, x))(w)),
        "grad while": lambda w, x: fc.grad(lambda w: _outer_while(g, w, x))(w),
        "grad cond": lambda w, x: fc.grad(lambda w: _outer_cond(g, w, x))(w),
        "grad custom_vjp": lambda w, x: fc.grad(lambda w: _outer_rule(g, x)(w) ** 2)(w),
        "jit grad custom_jvp": fc.jit(lambda w, x: fc.grad(lambda w: _outer_tangents(g, x)(w) ** 2)(w)),
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
