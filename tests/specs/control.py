"""Higher-order primitives, called through their public functions, and what they need of stacks and lanes."""

import numpy as np

from funcad.control import cond as conditional
from funcad.control import loop_rules as loops
from funcad.control import solve
from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.trace import trace_function
from funcad.primitives import lanes, loop
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.comparison import lt
from funcad.primitives.conversion import convert
from funcad.primitives.loop import Loop
from funcad.primitives.transcendental import sin
from tests.specs import spec

INTEGER = Aval((), np.dtype(np.int64))


def some(*shapes):
    return lambda rng: tuple(rng.normal(size=shape) for shape in shapes)


def push(x, n=2):
    """A stack of x, 2x, ... (from a while loop) and its length."""

    def body(x, i):
        factor = convert(add(i, 1), aval_of(x).dtype)
        return [add(i, 1), mul(x, stack_factor(factor, aval_of(x)))]

    step, captured = trace_function(body, [Aval(aval_of(x).shape, aval_of(x).dtype), INTEGER], name="test")
    test, _ = trace_function(lambda i: [lt(i, n)], [INTEGER], name="test")
    count, _, items = loops.loop_p(*captured, x, np.int64(0), loop=Loop(step, len(captured) + 1, 1, cond=test))
    return items, count


def stack_factor(factor, aval):
    return lanes.broadcast_in_dim(factor, shape=aval.shape, axes=()) if aval.shape else factor


def total(items, count):
    """The sum of the sines of a stack's entries."""
    element = aval_of(items).element
    body, captured = trace_function(lambda c, s: [add(c, sin(s))], [element, element], name="test")
    zero = np.zeros(element.shape, element.dtype)[()]
    return loops.loop_p(count, *captured, zero, items, loop=Loop(body, len(captured), 1))[0]


def added(x, y):
    (a, n), (b, _) = push(x), push(y)
    return total(loop.stack_add_p(a, b), n)


def led(x):
    items, n = push(x)
    return total(loop.stack_lead_p(items, size=3, axis=1), n)


def summed(x):
    items, n = push(x)
    return total(loop.stack_sum_p(items, axis=0, size=2), n)


def with_empty(x):
    items, n = push(x)
    empty = loop.stack_empty(StackAval(Aval(aval_of(x).shape, aval_of(x).dtype)))
    return total(loop.add_values(items, empty), n)


def selected(mask, x, y):
    (a, n), (b, _) = push(x), push(y)
    return total(loop.stack_select(mask, a, b), n)


def looped(x):
    return while_loop(lambda c: lt(c[0], 3), lambda c: (add(c[0], 1), sin(mul(c[1], x))), (0, x))[1]


def borrowed(x, mask):
    """Only lanes that take part may be used: the others are dropped here."""
    return lanes.select_lanes(mask, sin(lanes.pick_lanes(x, mask)), mul(x, 0.5))


def borrowed_linearly(x, mask):
    return lanes.select_lanes(mask, mul(lanes.pick_lanes(x, mask), 2.0), mul(x, 0.5))


def scanned(c, xs):
    return list(scan(lambda c, x: (sin(mul(c, x)), mul(c, c)), c, xs))


def chosen(k, x):
    return conditional.switch(k, [sin, lambda v: mul(v, v), lambda v: mul(v, 3.0)], x)


def diagonal(a, b):
    return solve.custom_linear_solve(lambda x: mul(a, x), b, lambda matvec, b: b / a, symmetric=True)


def square_root(a):
    def newton(f, guess):
        return scan(lambda x, _: ((x + a / x) * 0.5, None), guess, None, length=30)[0]

    return solve.custom_root(lambda x: mul(x, x) - a, np.full(2, 1.5, a.dtype), newton, lambda g, y: y / g(np.ones(2, a.dtype)))


MASK = np.array([True, False])
NUMBERS = np.array([0.5, -0.0, np.inf])


def running_sums(reverse):
    """Of c * x + carry, from the start or from the end."""

    def run(c, carry, xs):
        row = Aval(xs.shape[1:], aval_of(xs).dtype)
        step = lambda c, carry, x: [total := add(carry, mul(c, x)), total]
        body, _ = trace_function(step, [aval_of(c), aval_of(carry), row], name="test")
        return loops.loop_p(c, carry, xs, loop=Loop(body, 1, 1, xs.shape[0], reverse))

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
    return [mul(x, x), loop.table_p(data=NUMBERS.tobytes(), dtype=NUMBERS.dtype)]


SPECS = [
    spec(loops.loop_p, scanned, [some((2,), (3, 2)), some((), (4,)), some((2,), (0, 2))]),
    spec(loops.loop_p, running_sums(False), [three], reference=forward),
    spec(loops.loop_p, running_sums(True), [three], reference=backward),
    spec(loops.loop_p, looped, [some((2,)), some(()), some((0,))]),
    spec(conditional.cond_p, chosen, [(np.array(k), np.array([0.3, 0.8])) for k in (0, 1, 2)]),
    spec(solve.linear_solve_p, diagonal, [lambda rng: (rng.uniform(1, 2, 2), rng.normal(size=2))],
         reference=lambda a, b: b / a),
    spec(solve.root, square_root, [(np.array([2.0, 3.0]),)], reference=np.sqrt),
    spec(loop.stack_add_p, added, [some((2,), (2,)), some((), ())],
         reference=lambda x, y: np.sin(x + y) + np.sin(2 * (x + y))),
    spec(loop.stack_lead_p, led, [some((2,))], reference=lambda x: np.repeat((np.sin(x) + np.sin(2 * x))[:, None], 3, 1)),
    spec(loop.stack_sum_p, summed, [some((2, 3))], reference=lambda x: np.sin(x.sum(0)) + np.sin(2 * x.sum(0))),
    spec(loop.stack_empty_p, with_empty, [some((2,))], reference=lambda x: np.sin(x) + np.sin(2 * x)),
    spec(loop.stack_select, selected, [(MASK, np.array([0.1, 0.2]), np.array([0.7, -0.3]))]),
    spec(
        lanes.pick_lanes, borrowed, [(np.array([0.1, 0.2]), MASK), (np.ones((2, 3)), MASK)],
        reference=lambda x, mask: np.where(mask.reshape((2,) + (1,) * (x.ndim - 1)), np.sin(x), x * 0.5),
    ),
    spec(loop.table_p, numbers, [(np.float64(2.0),)], order=0, batch=False,  # which only a pass binds
         reference=lambda x: [x * x, NUMBERS]),
    spec(lanes.pick_lanes, borrowed_linearly, [(np.array([0.1, 0.2]), mask) for mask in (MASK, ~MASK, MASK & ~MASK)]),
]  # fmt: skip
