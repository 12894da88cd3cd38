"""`fused`, which only a pass binds: order 0 and no batching, since programs are transformed before they are optimised."""

import numpy as np

from funcad.ir.aval import aval_of
from funcad.ir.trace import trace_function
from funcad.primitives.arithmetic import add, mul, sub
from funcad.primitives.fused import fused_p
from funcad.primitives.reduction import reduce_max, reduce_sum
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.transcendental import exp
from tests.specs import spec


def group(f, kind):
    def run(*args):
        jaxpr, _ = trace_function(f, [aval_of(a) for a in args], name="test")
        return fused_p(*args, jaxpr=jaxpr, kind=kind, shape=args[0].shape)

    return run


def weighted(x, y):
    e = exp(sub(x, broadcast_in_dim(reduce_max(x, axes=(1,)), shape=x.shape, axes=(0,))))
    return [reduce_sum(e, axes=(1,)), reduce_sum(mul(e, y), axes=(0,))]


def softmax_sums(x, y):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return [e.sum(axis=1), (e * y).sum(axis=0)]


def two(rng):
    return rng.normal(size=(3, 2)), rng.normal(size=(3, 2))


SPECS = [
    spec(
        fused_p,
        group(lambda x, y: [add(mul(x, y), exp(x)), reduce_sum(mul(x, y), axes=(0, 1))], "elementwise"),
        [two],
        order=0,
        batch=False,
        reference=lambda x, y: [x * y + np.exp(x), np.sum(x * y)],
    ),
    spec(fused_p, group(weighted, "rows"), [two], order=0, batch=False, reference=softmax_sums),
]
