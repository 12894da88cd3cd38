# mypy: disable-error-code="no-untyped-def, no-untyped-call, attr-defined"
"""Objects in C that call, count or hold what nobody sees: (the function, what changes between the calls)."""

from __future__ import annotations

import contextvars
import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

CASES: dict[str, Callable[[], Any]] = {}
KNOWN = np.array([1.0, 2.0])
VARIABLE = contextvars.ContextVar("odd_variable", default=1.0)


def made() -> types.SimpleNamespace:
    VARIABLE.set(1.0)
    k = [1.0]
    s = types.SimpleNamespace(k=k, table={1.0: 10.0, 2.0: 20.0}, turn=[itertools.cycle([1.0, 2.0, 4.0])])
    s.count = itertools.count().__next__
    s.one, s.two = np.frompyfunc(lambda a: a * k[0], 1, 1), np.frompyfunc(lambda a, b: a * b + k[0], 2, 1)
    s.both, s.get = np.frompyfunc(lambda a: (a * k[0], a), 1, 2), np.frompyfunc(s.table.get, 1, 1)
    s.send = (float(i) for i in range(1000)).__next__
    s.context, s.add = contextvars.copy_context(), k.__getitem__
    s.context.run(VARIABLE.set, 2.0)
    s.eye = {name: scipy.sparse.csr_array(2.0 * np.eye(3)).asformat(name) for name in "csr csc coo bsr dia lil dok".split()}
    return s


def changed(s, i):
    s.k[0] = s.table[1.0] = 2.0 + i
    s.context.run(VARIABLE.set, 3.0 + i)


def case(name: str, change: Callable[[Any, int], Any] = changed) -> Callable[[Any], None]:
    def noted(f: Callable[[Any, Any], Any]) -> None:
        def make():
            s = made()
            return (lambda x: f(s, x)), (lambda i: change(s, i))

        CASES[name] = make

    return noted


def helper(x):
    return x * VARIABLE.get()


case("ufunc of known numbers")(lambda s, x: x * np.sum(s.one(KNOWN).astype(float)))
case("ufunc of a number")(lambda s, x: x * s.one(2.0))
case("ufunc of two")(lambda s, x: x * s.two(2.0, 3.0))
case("ufunc that gives two")(lambda s, x: x * s.both(2.0)[0])
case("ufunc, one after another")(lambda s, x: x * s.two.reduce(KNOWN))
case("ufunc, with each other")(lambda s, x: x * np.sum(s.two.outer(KNOWN, KNOWN).astype(float)))
case("ufunc of traced numbers")(lambda s, x: np.sum(s.one(x)))
case("ufunc of a method")(lambda s, x: x * np.sum(s.get(KNOWN).astype(float)))
case("method of a count")(lambda s, x: x * s.count())
case("method of a generator")(lambda s, x: x * s.send())
case("method of an iterator in a list")(lambda s, x: x * s.turn[0].__next__())
case("method of a list")(lambda s, x: x * s.add(0))
case("in a context")(lambda s, x: x * s.context.run(VARIABLE.get))
case("function in a context")(lambda s, x: s.context.run(helper, x))
case("item of a context")(lambda s, x: x * s.context[VARIABLE])
case("values of a context")(lambda s, x: x * sum(v for v in s.context.values() if type(v) is float))
case("in a context of now", lambda s, i: VARIABLE.set(2.0 + i))(lambda s, x: contextvars.copy_context().run(helper, x))


def elements(name):
    return lambda s, i: s.eye[name].data.flat.__setitem__(i % 3, 5.0 + i)


for _name in ("csr", "csc", "coo", "bsr", "dia"):
    case(f"elements of {_name}", elements(_name))(lambda s, x, name=_name: s.eye[name] @ x)


def places(name, part):
    return lambda s, i: getattr(s.eye[name], part).__setitem__(1, [0, 2, 1, 0][i])


for _name, _part in [
    pair.split() for pair in ("csr indptr", "csr indices", "csc indptr", "csc indices", "coo row", "bsr indices")
]:
    case(f"{_part} of {_name}", places(_name, _part))(lambda s, x, name=_name: s.eye[name] @ x)
case("pointers that are others", lambda s, i: setattr(s.eye["csr"], "indptr", np.array([0, i % 2, 2, 3], np.int32)))(
    lambda s, x: s.eye["csr"] @ x
)
case("items of dok", lambda s, i: s.eye["dok"].__setitem__((1, i % 3), 5.0 + i))(lambda s, x: s.eye["dok"] @ x)
case("items of lil", lambda s, i: s.eye["lil"].__setitem__((1, i % 3), 5.0 + i))(lambda s, x: s.eye["lil"] @ x)
case("offsets of dia", lambda s, i: s.eye["dia"].offsets.__setitem__(0, [1, -1, 2, 0][i]))(lambda s, x: s.eye["dia"] @ x)
