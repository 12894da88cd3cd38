"""`rolled` and `table`, which only a pass binds, after everything has been differentiated and mapped: order 0, no batching."""

import numpy as np

from funcad.ir.aval import Aval, aval_of
from funcad.ir.trace import trace_function
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.loop import Loop, rolled_p, table_p
from tests.specs import spec

NUMBERS = np.array([0.5, -0.0, np.inf])


def sums(reverse):
    """Running sums of c * x + carry, from the start or from the end."""

    def run(c, carry, xs):
        row = Aval(xs.shape[1:], aval_of(xs).dtype)
        body, _ = trace_function(
            lambda c, carry, x: [total := add(carry, mul(c, x)), total], [aval_of(c), aval_of(carry), row], name="test"
        )
        return rolled_p(c, carry, xs, loop=Loop(body, 1, 1, xs.shape[0], reverse))

    return run


def forward(c, carry, xs):
    ys = carry + np.cumsum(c * xs, axis=0)
    return [ys[-1], ys]


def backward(c, carry, xs):
    last, ys = forward(c, carry, xs[::-1])
    return [last, ys[::-1]]


def three(rng):
    return rng.normal(size=2), rng.normal(size=2), rng.normal(size=(3, 2))


def numbers(x):
    return [mul(x, x), table_p(data=NUMBERS.tobytes(), dtype=NUMBERS.dtype)]


SPECS = [
    spec(rolled_p, sums(False), [three], order=0, batch=False, reference=forward),
    spec(rolled_p, sums(True), [three], order=0, batch=False, reference=backward),
    spec(table_p, numbers, [(np.float64(2.0),)], order=0, batch=False, reference=lambda x: [x * x, NUMBERS]),
]
