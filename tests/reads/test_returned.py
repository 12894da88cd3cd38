"""What a jitted function returns of what was there before is what is there at each call."""

from __future__ import annotations

import dataclasses
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcad import NotCompiledWarning, grad, jit
from funcad.jitted import first_calls


@dataclasses.dataclass
class Rate:
    k: float


def stored(s: Any, x: Any) -> Any:
    s["a"] = s["a"] + x.sum()
    return s


def appended(s: Any, x: Any) -> Any:
    s.append(x.sum())
    return s


def stored_in_an_object(s: Any, x: Any) -> Any:
    s.k = s.k + x.sum()
    return s


def double(s: Any) -> None:
    s.k = s.k * 2.0 + 1.0


CASES: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "dict": (lambda: {"k": 1.0}, lambda s, x: (x, s), lambda s: s.update(k=s["k"] + 4.0)),
    "longer dict": (lambda: {"k": 1.0}, lambda s, x: (x, s), lambda s: s.update(z=3.0)),
    "order": (lambda: {"k": 1.0, "l": 2.0}, lambda s, x: (x, s), lambda s: s.update(k=s.pop("k"))),
    "list": (lambda: [1.0, 2], lambda s, x: (x, s), lambda s: s.append(3)),
    "item": (lambda: [1.0, 2], lambda s, x: {"x": x, "s": (s,)}, lambda s: s.__setitem__(1, s[1] + 1)),
    "type": (lambda: [1.0, 2], lambda s, x: (x, s), lambda s: s.__setitem__(1, 2.0)),
    "nested": (
        lambda: {"p": {"w": 1.0}, "l": [1, 2]},
        lambda s, x: (x, {"q": s["p"], "l": s["l"]}),
        lambda s: (s["p"].update(w=9.0), s["l"].append(3)),
    ),
    "tuple": (lambda: {"t": (1.0, 2.0)}, lambda s, x: (x, s["t"]), lambda s: s.update(t=(3.0,))),
    "arrays": (lambda: [np.ones(2)], lambda s, x: (x, s), lambda s: s.__setitem__(0, np.zeros(2))),
    "array in place": (lambda: [np.ones(2)], lambda s, x: (x, s), lambda s: s[0].__setitem__(0, 9.0)),
    "array in a list": (lambda: [np.ones(2)], lambda s, x: (x, [s[0]]), lambda s: s.__setitem__(0, np.zeros(2))),
    "dataclass": (lambda: Rate(1.0), lambda s, x: (x, s), double),
    "namespace": (lambda: types.SimpleNamespace(k=1.0), lambda s, x: (x, [s]), double),
    "stored": (lambda: {"a": 0.0, "b": [1.0]}, stored, lambda s: s.update(a=7.0)),
    "stored array": (lambda: {"a": np.zeros(2)}, stored, lambda s: s.update(a=np.ones(2))),
    "appended": (lambda: [1.0], appended, lambda s: s.pop()),
    "stored in an object": (lambda: Rate(1.0), stored_in_an_object, double),
}


def same(a: Any, b: Any) -> bool:
    if isinstance(a, (dict, list, tuple)):
        if type(a) is not type(b) or len(a) != len(b):
            return False
        keys = list(a) == list(b) if isinstance(a, dict) else True
        return keys and all(map(same, *(v.values() if isinstance(v, dict) else v for v in (a, b))))
    return same(vars(a), vars(b)) if isinstance(a, (Rate, types.SimpleNamespace)) else np.array_equal(a, b)


@pytest.mark.parametrize("observes", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_it_is_what_is_there_now(name: str, observes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", observes)
    make, step, change = CASES[name]
    mine, plain = make(), make()
    jitted = jit(lambda x: step(mine, x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotCompiledWarning)
        for i in range(10):
            x = np.array([float(i)])
            assert same(jitted(x), step(plain, x)) and same(mine, plain)
            if i in (3, 5, 6, 8):
                change(mine)
                change(plain)


@pytest.mark.parametrize("name", ["dict", "nested", "arrays", "dataclass"])
def test_beside_a_derivative(name: str) -> None:
    make, step, change = CASES[name]
    mine = make()
    f = jit(grad(lambda x: (np.sum(x * x), step(mine, 0.0)[1]), has_aux=True))
    for i in range(6):
        slope, beside = f(np.ones(2))
        assert np.array_equal(slope, [2.0, 2.0]) and same(beside, step(mine, 0.0)[1])
        if i in (2, 4):
            change(mine)
