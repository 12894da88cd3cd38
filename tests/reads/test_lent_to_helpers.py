"""Arrays that a function makes, and gives to helpers of the user's: bare where a helper only reads them, else to be written.

Each program is compared with itself on plain numbers, and has a trap: what looks as if it only read runs later, calls somebody
who writes, writes by another name, or keeps what it is given.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import grad, jit, jvp, value_and_grad, vmap
from funcad.ir.tracer import Tracer
from funcad.twin.written import runs_alone

PROGRAMS: dict[str, Callable[[Any], Any]] = {}
SEEN: list[Any] = [None, None]


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__] = f
    return f


def called_later(p):
    return lambda: p[0] * 2.0


def goes_on_later(p):
    for i in range(3):
        yield p[i] * 2.0


def calls(p, write):
    write()
    return p[0] * 2.0


def writes_elsewhere(p):
    SEEN[0][0] = SEEN[1]
    return p[0] * 2.0


def writes_the_other(p, q):
    q[0] = SEEN[1]
    return p[0] * 2.0


def returns(p):
    q = p[1:]
    return q


def in_a_list(p):
    return [p]


def adds(p):
    q = p
    q += 1.0
    return p[0] * 2.0


def fills(p, k):
    e = np.zeros(3)
    e[0] = k
    e[1] = p[0]
    return e


def only_reads(p, k):
    e = np.array([p[1] - p[0], p[2]])
    return k * (e @ e) / (4.0 + p[0]), e


class Kept:
    p: Any

    def keep(self, p):
        self.p = p
        return p[0] * 1.0

    def reads(self, p):
        return p[0] * 2.0 + p[1]


@program
def later(x):
    p = np.zeros(3)
    g, turns = called_later(p), goes_on_later(p)
    p[0] = x
    return g() * x + sum(turns)


@program
def meanwhile(x):
    p = np.zeros(3)

    def write():
        p[0] = x * x

    return calls(p, write) * x


@program
def by_other_names(x):
    p = SEEN[0] = np.ones(3)
    SEEN[1] = x * x
    return writes_elsewhere(p) + writes_the_other(p, p) * x + writes_the_other(p[:2], p) * x * x


@program
def returned(x):
    p, r = np.ones(3), np.ones(3)
    q, s = returns(p), in_a_list(r)[0]
    q[0] = x
    s[0] = x
    return p[1] * 3.0 + r[0] * x + adds(p) + p[0] * x


@program
def kept(x):
    p, c = np.ones(3), Kept()
    first = c.keep(p) + c.reads(p)
    p[0] = x
    return c.p[0] * 2.0 + first * x + c.reads(p)


@program
def read(x):
    p = np.ones(3)
    p[1] += 4.0
    a, e = only_reads(p, x)
    y = x * only_reads(p=p, k=x)[0] + fills(p, x)[1]  # rows keep what was handed over
    p[1] += 5.0
    e[0] = x
    b = only_reads(p, x)[0] + fills(p[::-1], x)[0]
    p[2] = x
    return a * e[0] + b * y + only_reads(p, x)[0]


@program
def rows_of_a_matrix(x):
    p, s = np.ones((3, 3)), 0.0
    for i in range(3):
        row = p[i]
        s = s + only_reads(row, x)[0]
        p[i, 0] += 2.0
        s = s + only_reads(row, x)[0]
        p[i] = x
        s = s + only_reads(row, x)[0]
    return s


@program
def added_at_places(x):
    b, places, mask = np.zeros(3), np.array([0, 1, 0]), np.array([True, False, True])
    for _ in range(3):
        b[places] += 1.5
        b[places] -= 0.25
        b[places] *= 2.0
        b[mask] **= 1.1
        b[1:] += b[:-1]
    b[places] += x
    b[places] += 2.0
    b[mask] += x
    return np.sum(b * b)


@program
def parts_of_plain_arrays(x):
    v = np.zeros(6)
    v[0] = 1.0
    v[2:4] = np.array([1.0, 2.0])
    v[4:] = v[2:4]
    v[1:4] = v[0:3]
    w = v[1:3]
    v[1:3] = w * 2
    w[0] = x
    return np.sum(v * np.arange(6.0)) * x


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    f, x, step = PROGRAMS[name], 1.3, 1e-6
    slope = (f(x + step) - f(x - step)) / (2 * step)
    for _ in range(2):  # again, when it is known that it writes
        value, found = value_and_grad(f)(x)
        assert value == pytest.approx(f(x), rel=1e-14)
        assert found == pytest.approx(slope, rel=1e-7)
    assert jvp(f, (x,), (1.0,))[1] == pytest.approx(slope, rel=1e-7)
    assert jit(grad(f))(x) == pytest.approx(slope, rel=1e-7)
    np.testing.assert_allclose(vmap(grad(f))(np.array([x, x])), [slope, slope], rtol=1e-7)


def test_errors_of_casts_are_numpys() -> None:
    def f(x: Any) -> Any:
        b = np.ones(3, int)
        b[np.array([0])] += 0.5
        return x * b[0]

    with pytest.raises(np._core._exceptions._UFuncOutputCastingError):
        grad(f)(1.0)


def test_helpers_that_only_read_get_numpys_arrays() -> None:
    kinds = set()

    def seen(p: Any) -> Any:
        return type(p[:2]) is Tracer

    def f(x: Any) -> Any:
        p, big = np.zeros(3), np.zeros(1000)
        for _ in range(100):
            kinds.add((seen(p), seen(big)))
        p[0] = big[0] = x
        return p[0] * big[0]

    grad(f)(1.0)
    grad(f)(1.0)
    assert kinds <= {(False, True), (False, False)}


ALONE = {
    "return k * p[0], p @ p": True,
    "e = np.zeros(3)\ne[0] = k\nreturn e": True,
    "e = np.zeros(3)\ne[0], e[1] = k, 1\nreturn e": False,
    "e = np.zeros(3, object)\ne[0] = k\nreturn e": False,
    "e = np.zeros(3)\ne = [0]\ne[0] = k\nreturn e": False,
    "for e in p:\n    e[0] = 1": False,
    "return np.sum([p[i] for i in range(3)])": False,
    "p[0] = 1": False,
    "q = np.ravel(p)\nq += 1": False,
    "return p": False,
    "G[0] = k": False,
    "q = G\nq[0] = k": False,
    "k.a = 1": False,
    "return h(k)": False,
    "return k.update()": False,
    "return np.apply_along_axis(k, 0, p)": False,
    "return max(p, key=k)": False,
    "return lambda: p[0] * 1.0": False,
    "return (x * 2 for x in p)": False,
    "yield p[0] * 2": False,
    "global G\nG = p * 1": False,
    "with k:\n    return p * 1": False,
    "return eval('p')": False,
}


@pytest.mark.parametrize("text", ALONE)
def test_what_runs_alone(text: str) -> None:
    module = ast.parse("import numpy as np\ndef g(p, k):\n" + textwrap.indent(text, "    "))
    assert runs_alone(module) == ({("g", 2)} if ALONE[text] else set())
