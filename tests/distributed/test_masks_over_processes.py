"""What no path leads to on one process is reached from another: masks of derivatives do not go over processes."""

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from tests.distributed.test_spmd import N, close, threads

XS = np.array([[1.0, -1.0, 2.0], [-1.0, -1.0, 1.0], [1.0, 1.0, -3.0]])
W = np.array([0.3, -0.7, 1.1])


@fc.custom_vjp
def ruled(v):
    return lax.psum(v, "i")


ruled.defvjp(lambda v: (ruled(v), None), lambda _, ct: (lax.psum(ct, "i"),))

BETWEEN = {
    "replicated": lambda v: v,
    "psum": lambda v: lax.psum(v, "i"),
    "ppermute": lambda v: lax.ppermute(v, "i", [(i, (i + 1) % N) for i in range(N)]),
    "gather": lambda v: lax.all_gather(v, "i")[0],
    "scatter": lambda v: lax.psum_scatter(np.stack([v] * N), "i"),
    "exchange": lambda v: lax.all_to_all(np.stack([v] * N), "i", 0, 0)[0],
    "broadcast": lambda v: distributed.broadcast(v, "i", 1),
    "pmax": lambda v: lax.pmax(v, "i"),
    "custom_vjp": ruled,
    "checkpoint": fc.checkpoint(lambda v: lax.psum(np.sin(v), "i")),
    "scan": lambda v: fc.scan(lambda c, _: (lax.psum(np.sin(c), "i"), None), v, None, length=2)[0],
    "while": lambda v: fc.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, lax.psum(np.sin(s[1]), "i")), (0, v))[1],
    "cond": lambda v: fc.cond(True, lambda v: lax.psum(np.sin(v), "i"), lambda v: v, v),
    "jit": lambda v: fc.jit(lambda v: lax.psum(np.sin(v), "i"))(v),
}


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "name, whole",
    [pytest.param(n, w, marks=[pytest.mark.slow] * (i % 2 == w)) for i, n in enumerate(BETWEEN) for w in (False, True)],
)
def test_a_choice_on_both_sides(name, whole):
    """Whole values, and elements of arrays; a factor that could be infinite stands before."""
    between = BETWEEN[name]
    w, xs = (W[0], XS[:, 0]) if whole else (W, XS)

    def chosen(v, x):
        return np.where(x > 0, v, 1.0)

    def f(w, x):
        return lax.pmean(np.sum(chosen(np.exp(between(chosen(np.cos(w) * 1.5, x) if name != "replicated" else w)), x)), "i")

    mapped = fc.vmap(f, in_axes=(None, 0), axis_name="i")
    g = distributed.spmd(f, "i", in_axes=(None, 0), out_axes=None)
    t = np.ones_like(w)
    for wrap in (lambda h: h, fc.jit):
        for kind in (
            lambda h: fc.grad(lambda w: h(np.sin(w) / w)),
            lambda h: fc.grad(lambda w: np.sum(fc.grad(lambda w: h(np.sin(w)))(w) * t)),
            lambda h: lambda w: fc.jvp(lambda w: h(np.sin(w) * w), (w,), (t,))[1],
        ):
            wanted = wrap(kind(lambda w: mapped(w, xs)[0]))(w)
            found = threads(lambda r, k=kind, wrap=wrap: wrap(k(lambda w: g(w, xs[r])))(w))
            close(found, [wanted] * N)
