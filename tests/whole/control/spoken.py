"""Programs that speak: what they say, how often and in which order is part of the answer."""

from __future__ import annotations

import numpy as np

from tests.whole.control.program import draws, program


@program((1.0,), (-0.5,), (-2.0,), speaks=True)
def says_its_way(say, x):
    say("begin", x)
    if x > 0:
        return 2.0 * x
    say("negative", x)
    if x < -1.0:
        say("large", x)
    return 3.0 * x


@program((2.0,), (50.0,), (0.3,), speaks=True)
def says_each_turn(say, a):
    x = a
    while abs(x * x - a) > 1e-6 * a:
        x = 0.5 * (x + a / x)
        say("turn", x)
    say("done", x)
    return x


@program((4.0,), (-4.0,), (0.25,), speaks=True)
def says_until_it_raises(say, x):
    say("before", x)
    y = x * x
    if x < 0:
        say("bad", y)
        raise ValueError(f"negative: {x}")
    say("after", y)
    return y


@program((6,), (1,), (7,), speaks=True)
def says_whole_numbers(say, n):
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            say("odd", n)
            n = 3 * n + 1
    say("one", n)
    return n


@program(*[(draws(i, 4, low=-1.0),) for i in range(3)], speaks=True)
def says_in_handlers(say, x):
    total = 0.0
    for v in x:
        try:
            say("try", v)
            if v < 0:
                raise ArithmeticError
            total = total + np.sqrt(v)
        except ArithmeticError:
            say("except", v)
        finally:
            say("finally", total + 0.0 * v)
    return total


@program((1.0, 3), (2.0, 0), (0.5, 5), speaks=True)
def says_without_values(say, x, n):
    """Some calls have no traced value at all."""
    say("begin")
    for k in range(int(n)):
        say("turn", k)
        x = x + 0.1
        if x > 1.15:
            say("enough")
            break
    say("end", x)
    return x
