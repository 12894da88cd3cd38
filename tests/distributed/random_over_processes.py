"""Random programs with collectives in everything that a program can stand in: the same over lanes and over processes."""

import numpy as np

import funcad as fc
from funcad import distributed, lax
from tests.distributed.programs_over_processes import shift


def _scaled(rule):
    """A function with one derivative rule for forward mode and one for reverse mode, each with a collective in it."""

    @rule
    def f(v):
        return np.sin(v) + lax.pmean(v**2, "i")

    if rule is fc.custom_jvp:
        f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * t[0] + lax.pmean(2.0 * p[0] * t[0], "i")))
    else:
        f.defvjp(lambda v: (f(v), v), lambda v, ct: (np.cos(v) * ct + 2.0 * v * lax.pmean(ct, "i"),))
    return f


def _without(v):
    """A rule without collectives. It is the derivative: of another one, second derivatives depend on what runs again."""

    @fc.custom_vjp
    def f(v):
        return np.tanh(v)

    f.defvjp(lambda v: (np.tanh(v), v), lambda v, ct: ((1.0 - np.tanh(v) ** 2) * ct,))
    return f(v)


def steps(n):
    """name -> (v, w, x) -> v, all of shape (3,)."""
    return {
        "sine": lambda v, w, x: np.sin(v) * x,
        "psum": lambda v, w, x: v + lax.psum(np.tanh(v), "i"),
        "pmean": lambda v, w, x: v * lax.pmean(w * x, "i"),
        "ppermute": lambda v, w, x: lax.ppermute(v, "i", shift(n)) - 0.5 * w,
        "partial": lambda v, w, x: lax.ppermute(v * w, "i", shift(n)[1:]) + x,
        "gather": lambda v, w, x: np.sum(lax.all_gather(v * w, "i") ** 2, axis=0) / (1.0 + v**2),
        "pmax": lambda v, w, x: v - lax.pmax(v, "i"),
        "pmin": lambda v, w, x: v * np.exp(-(lax.pmin(x, "i") ** 2)) + lax.axis_index("i"),
        "exchange": lambda v, w, x: lax.all_to_all(np.stack([v] * n), "i", 0, 0)[n - 1] * x,
        "scatter": lambda v, w, x: lax.psum_scatter(np.stack([v * w] * n), "i"),
        "broadcast": lambda v, w, x: distributed.broadcast(v * x, "i", n - 1) + w,
        "where": lambda v, w, x: np.where(x > 0, v, w),
        "scalar": lambda v, w, x: v / (1.0 + lax.psum(np.sum(v**2), "i")),
        "two": lambda v, w, x: lax.psum(v * w, "i") * lax.psum(np.cos(x), "i") + lax.psum(np.sum(v), "i"),
        "custom_jvp": lambda v, w, x: _scaled(fc.custom_jvp)(v) * x,
        "custom_vjp": lambda v, w, x: _scaled(fc.custom_vjp)(v) + w,
        "rule alone": lambda v, w, x: lax.psum(_without(v * x), "i"),
        "jvp inside": lambda v, w, x: fc.jvp(lambda a: np.sin(a) * lax.pmean(a, "i"), (v,), (w,))[1],
        "grad inside": lambda v, w, x: fc.grad(lambda a: np.sum(np.sin(a) * lax.psum(a * x, "i")))(v),
        "vmap inside": lambda v, w, x: fc.vmap(lambda a, b: a + lax.pmean(b * a, "i"))(v, w),
        "named inside": lambda v, w, x: fc.vmap(lambda a: a / (1.0 + lax.psum(a**2, ("i", "j"))), axis_name="j")(v),
        "stop": lambda v, w, x: v * fc.stop_gradient(lax.pmean(v, "i")),
    }


def _scanned(f):
    return lambda v, w, x: fc.scan(lambda c, t: (np.tanh(f(c, w, x) + t), c), v, np.stack([x, w]))[0]


def _while(f):
    def looped(v, w, x):
        return fc.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, np.tanh(f(s[1], w, x))), (0, v))[1]

    return looped


def _cond(f):
    def chosen(v, w, x):
        return fc.cond(lax.psum(np.sum(x), "i") > 0, lambda v: f(v, w, x), lambda v: v - f(2.0 * v, w, x), v)

    return chosen


def _jitted(f):
    return lambda v, w, x: fc.jit(f)(v, w, x)


def _checkpointed(f):
    return lambda v, w, x: fc.checkpoint(f)(v, w, x)


def _policy(f):
    return lambda v, w, x: fc.checkpoint(f, policy=fc.checkpoint_policies.everything_saveable)(v, w, x)


def _mapped(f):
    return lambda v, w, x: np.sum(fc.vmap(lambda a: f(a * v, w, x))(np.array([0.5, 1.5])), axis=0)


def _loop(f):
    return lambda v, w, x: fc.fori_loop(0, 2, lambda i, c: np.tanh(f(c, w, x)), v)


WRAPPERS = {
    "scan": _scanned,
    "while": _while,
    "cond": _cond,
    "jit": _jitted,
    "checkpoint": _checkpointed,
    "policy": _policy,
    "vmap": _mapped,
    "fori": _loop,
}


def random_step(draw, n, depth):
    """(name, function): an operation, a chain of them, or one of the wrappers around such."""
    some = steps(n)
    if depth == 0 or draw.random() < 0.35:
        name = str(draw.choice(list(some)))
        return name, some[name]
    if draw.random() < 0.3:
        chain = [random_step(draw, n, depth - 1) for _ in range(2)]

        def both(v, w, x):
            for _, f in chain:
                v = np.tanh(f(v, w, x))
            return v

        return f"[{', '.join([name for name, _ in chain])}]", both
    wrapper = str(draw.choice(list(WRAPPERS)))
    name, f = random_step(draw, n, depth - 1)
    return f"{wrapper}({name})", WRAPPERS[wrapper](f)


def random_program(seed, n):
    """A random chain of steps that ends in a number that all have: f(w, x), w replicated and x own, of shape (3,)."""
    draw = np.random.default_rng(seed)
    chosen = [random_step(draw, n, 2) for _ in range(draw.integers(1, 4))]

    def program(w, x):
        v = w * x
        for _, f in chosen:
            v = np.tanh(f(v, w, x))
        return lax.pmean(np.sum(v), "i") + lax.psum(np.sum(w * x), "i")

    program.__name__ = ", ".join([name for name, _ in chosen])
    return program
