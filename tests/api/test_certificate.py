"""`funcad.testing.certify`: what holds, what is refused, and that what is wrong is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import certificate
from funcad.testing import certify


def newton(a: Any) -> Any:
    x = 1.0 * a
    while abs(x * x - a) > 1e-12:
        x = x - (x * x - a) / (2 * x)
    return x


def written(x: Any) -> Any:
    a = np.zeros(3)
    a[:] = x
    a[1] *= x[0]
    return np.linalg.inv(np.diag(a) + 1)


@pytest.mark.parametrize(
    "f, args",
    [
        (lambda x: {"y": np.sin(x) * x.sum()}, (np.array([0.5, 1.5]),)),
        (lambda p, i: (p["w"][i] ** 2, np.argmax(p["w"])), ({"w": np.array([1.0, 3.0, 2.0])}, 1)),
        (lambda z: abs(z) ** 2 * np.exp(z), (np.array([1 + 2j, 0.5j]),)),
        (lambda x: np.float32(2) * np.tanh(x) @ x, (np.full(3, 0.5, np.float32),)),
        (lambda x: np.argsort(x), (np.array([2.0, 1.0]),)),
        (written, (np.array([0.4, 0.7, 0.3]),)),
    ],
    ids=["pytree", "integers beside", "complex", "float32", "no derivative", "writes"],
)
def test_functions_that_hold(f: Any, args: Any) -> None:
    found = certify(f, *args)
    assert found and not found.failures and not found.refused, found
    assert {c.engine for c in found.checks} >= {"", "numpy", "interpreter"}
    assert "nestings hold" in repr(found) and "hold" in found._repr_html_()


def test_what_is_refused_is_no_failure() -> None:
    found = certify(newton, 7.3)
    assert found and found.refused
    held = {c.nesting for c in found.checks if c.status == "ok"}
    assert {"jit(newton)", "vmap(newton)", "jit(vjp(newton))", "jvp(jit(newton))", "vjp(jvp(newton))"} <= held
    assert "scan(newton)" not in held and "TracerBoolConversionError" in repr(found) and "more" in repr(found)


def test_a_wrong_rule_is_found() -> None:
    @funcad.custom_jvp
    def wrong(x: Any) -> Any:
        return np.sin(x)

    wrong.defjvp(lambda p, t: (wrong(*p), t[0] * np.sin(p[0])))
    found = certify(wrong, 0.5)
    assert not found and {"jvp(wrong)", "vjp(wrong)"} <= {c.nesting for c in found.failures}


def test_a_wrong_second_derivative_is_found() -> None:
    @funcad.custom_jvp
    def flat(x: Any) -> Any:
        return x**3

    flat.defjvp(lambda p, t: (flat(*p), t[0] * funcad.stop_gradient(3 * p[0] ** 2)))
    found = certify(flat, 0.5)
    assert not found and all(c.nesting.count("jvp") + c.nesting.count("vjp") == 2 for c in found.failures)


def test_a_transformation_that_changes_values_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(certificate.SAME, "checkpoint", lambda h: lambda *xs: funcad.tree.map(lambda y: y * 1.001, h(*xs)))
    found = certify(lambda x: np.sin(x), 0.5)
    assert {c.nesting for c in found.failures} >= {"checkpoint(<lambda>)", "jit(checkpoint(<lambda>))"}
    assert not [c for c in found.failures if "checkpoint" not in c.nesting]


def test_errors_of_the_functions_own_are_failures() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise KeyError("mine")
        return x

    found = certify(f, 1.0, depth=1)
    assert not found and {c.status for c in found.checks} == {"raises"} and "mine" in repr(found)
    with pytest.raises(ValueError, match="depth"):
        certify(np.sin, 1.0, depth=3)
