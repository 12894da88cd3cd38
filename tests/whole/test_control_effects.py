"""Effects among Python's control flow on values: each once, in Python's order, whatever way was expected or raised."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad

ORDERS = [order for order in itertools.product(range(3), repeat=4) if len(set(order)) == 3]


def sums_of_readings(read: Callable[[Any], Any], limit: Any) -> Any:
    """Reads until it is enough; what is read decides."""
    total = 0.0
    while total < limit:
        value = read(limit)
        if value < 0:
            raise ValueError(f"bad reading {value:.1f} at {total:.1f}")
        total = total + value
    return total


READINGS = [0.5, 1.5, 0.25, 2.0, 0.5, -1.0, 0.75, 3.0, 0.5, 0.5, 1.0, 2.5, -2.0, 0.125, 4.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 5.0]


class Sensor:
    """Gives one reading after the other; each may be taken once."""

    def __init__(self) -> None:
        self.taken: list[float] = []

    def read(self, limit: Any) -> float:
        self.taken.append(READINGS[len(self.taken)])
        return self.taken[-1]

    def traced(self, limit: Any) -> Any:
        return funcad.io_callback(lambda v: np.float64(self.read(v)), np.float64(0.0), limit)


def ends(f: Callable[..., Any], limits: list[float]) -> list[Any]:
    found: list[Any] = []
    for limit in limits:
        try:
            found.append(float(f(limit)))
        except ValueError as error:
            found.append(str(error))
    return found


def test_what_a_callback_gives_decides_and_is_asked_for_once() -> None:
    plain, sensor = Sensor(), Sensor()
    limits = [1.0, 2.0, 1.0, 3.0, 3.0, 2.0, 2.0]
    expected = ends(lambda limit: sums_of_readings(plain.read, limit), limits)
    assert len({type(e) for e in expected}) == 2 and len(plain.taken) > 12
    compiled = funcad.jit(lambda limit: sums_of_readings(sensor.traced, limit))
    assert ends(compiled, limits) == expected
    assert sensor.taken == plain.taken


def three_ways(say: Callable[..., Any], x: Any, fail: bool) -> Any:
    say(0, x)
    if x > 1.0:
        say(1, x)
        if x > 2.0:
            say(2, x)
            x = x * 2.0
            say(3, x)
    elif fail:
        say(4, x)
        raise ValueError(f"x is {x:.2f}")
    say(5, x)
    return x * x


@pytest.mark.share(16)
@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("transformed", ["jit", "grad of jit", "jit of grad", "io in jit"])
def test_every_order_of_ways(transformed: str, fail: bool) -> None:
    """Of four calls that meet all three: each way is met first, again, and where another was expected."""
    inputs = [0.5, 1.5, 2.5]
    for order in ORDERS:
        said: list[tuple] = []
        note = lambda *what: said.append(tuple([float(w) for w in what]))  # noqa: B023

        def debug(where: int, x: Any) -> None:
            funcad.debug.callback(note, where, x)  # noqa: B023

        def io(where: int, x: Any) -> None:
            funcad.io_callback(lambda v: note(where, v), None, x)  # noqa: B023

        f = lambda x: three_ways(io if transformed == "io in jit" else debug, x, fail)
        if transformed == "grad of jit":
            f = funcad.grad(funcad.jit(f))
        else:
            f = funcad.jit(funcad.grad(f) if transformed == "jit of grad" else f)
        expected: list[tuple] = []
        for k in order:
            said.clear()
            expected.clear()
            raised = None
            try:
                three_ways(lambda *what: expected.append(tuple([float(w) for w in what])), inputs[k], fail)  # noqa: B023
            except ValueError as error:
                raised = str(error)
            if raised is None:
                f(inputs[k])
            else:
                with pytest.raises(ValueError) as caught:
                    f(inputs[k])
                assert str(caught.value) == raised
            assert said == expected, (order, k)


def test_a_callback_that_raises_ends_the_call_there() -> None:
    said: list[float] = []

    def refuse_large(v: Any) -> None:
        if v > 5.0:
            raise RuntimeError(f"too large: {float(v)}")
        said.append(float(v))

    def f(x: Any) -> Any:
        funcad.debug.callback(refuse_large, x)
        if x > 1.0:
            funcad.debug.callback(refuse_large, 2.0 * x)
            if x > 2.0:
                funcad.debug.callback(refuse_large, 0.0 * x)
        return x

    compiled = funcad.jit(f)
    for _ in range(3):
        for x, expected, raises in (
            (0.5, [0.5], False),
            (1.5, [1.5, 3.0], False),
            (3.0, [3.0], True),
            (2.5, [2.5, 5.0, 0.0], False),
        ):
            said.clear()
            if raises:
                with pytest.raises(Exception, match="too large: 6.0"):
                    compiled(x)
            else:
                assert compiled(x) == x
            assert said == expected


class Stop(BaseException):
    pass


def test_an_interrupt_leaves_it_usable() -> None:
    """Ctrl-C between two guards of a way that is met for the first time, and of one that is known."""
    stopping, said = [False], []

    def look(v: Any) -> None:
        said.append(float(v))
        if stopping[0]:
            raise Stop

    def f(x: Any) -> Any:
        y = 2.0 * x if x > 0 else -x
        funcad.debug.callback(look, y)
        return y * 3.0 if y > 1.0 else y

    compiled = funcad.jit(f)
    for x, expected in ((1.0, 6.0), (0.25, 0.5), (-2.0, 6.0)):
        for stop in (True, False, True, False, False):
            stopping[0] = stop
            said.clear()
            if stop:
                with pytest.raises(Stop):
                    compiled(x)
            else:
                assert compiled(x) == expected
            assert len(said) == 1


def test_threads_say_what_is_theirs() -> None:
    """One jitted function, ways met by several threads at once."""
    said: dict[int, list[float]] = {}

    def f(thread: Any, n: Any) -> Any:
        k = 0
        while k < n:
            funcad.debug.callback(lambda t, v: said.setdefault(int(t), []).append(float(v)), thread, n - k)
            k += 1
        return n * 2

    compiled = funcad.jit(f)
    found: dict[int, list[int]] = {}

    def work(thread: int) -> None:
        found[thread] = [int(compiled(thread, n)) for n in (1, 3, 2, 3, 0, 4, 1)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    expected = [float(n - k) for n in (1, 3, 2, 3, 0, 4, 1) for k in range(n)]
    for k in range(4):
        assert found[k] == [2, 6, 4, 6, 0, 8, 2] and said[k] == expected


def test_lanes_speak_in_their_order() -> None:
    """Effects of a batch that was split come statement by statement or lane by lane, but never with a later lane first."""
    said: list[tuple] = []

    def f(lane: Any, x: Any) -> Any:
        note = lambda word, *v: said.append((word, *[float(w) for w in v]))
        funcad.debug.callback(note, "begin", lane, x)
        while x > 1.0:
            funcad.debug.callback(note, "turn", lane, x)
            x = 0.5 * x
        funcad.debug.callback(note, "end", lane, x)
        return x

    xs = np.array([0.5, 4.0, 1.5, 3.0, 0.25, 8.0])
    found = funcad.vmap(f)(np.arange(6), xs)
    np.testing.assert_array_equal(found, [0.5, 1.0, 0.75, 0.75, 0.25, 1.0])
    for k, x in enumerate(xs):
        own = [line for line in said if line[1] == k]
        turns = [("turn", k, x / 2**i) for i in range(4) if x / 2**i > 1.0]
        assert own == [("begin", k, x), *turns, ("end", k, found[k])]
    for word in ("begin", "end"):
        assert [line[1] for line in said if line[0] == word] == list(range(6))


def test_a_lane_that_raises_speaks_to_its_end() -> None:
    """And lanes before it to theirs, as a loop over the lanes would."""
    said: list[tuple] = []

    def f(lane: Any, x: Any) -> Any:
        funcad.debug.callback(lambda n, v: said.append((int(n), float(v))), lane, x)
        if x < 0:
            raise ValueError(f"lane with {x:.1f}")
        funcad.debug.callback(lambda n, v: said.append((int(n), float(v))), lane, 10.0 * x)
        return x

    with pytest.raises(ValueError, match="lane with -2.0"):
        funcad.vmap(f)(np.arange(4), np.array([1.0, -2.0, 3.0, -4.0]))
    assert [line for line in said if line[0] == 0] == [(0, 1.0), (0, 10.0)]
    assert [line for line in said if line[0] == 1] == [(1, -2.0)]
