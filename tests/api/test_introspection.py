"""What `repr`, `help`, `dir` and completion say of transformed functions, and which names modules show."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import pydoc
import types
from typing import Any

import numpy as np
import pytest

import funcad as fc


def loss(w: Any, x: Any) -> Any:
    """Mean squared error."""
    return np.mean((w * x) ** 2)


X = np.ones(3)


@pytest.mark.parametrize(("made", "text"), [
    (fc.grad(loss), "<grad of loss>"),
    (fc.jit(fc.grad(loss)), "<jit of grad of loss>"),
    (fc.jit(fc.vmap(fc.grad(loss))), "<jit of vmap of grad of loss>"),
    (fc.value_and_grad(fc.jit(loss)), "<value_and_grad of jit of loss>"),
    (fc.hessian(loss), "<hessian of loss>"),
    (fc.hessian(fc.jit(loss)), "<hessian of jit of loss>"),
    (fc.jacfwd(loss), "<jacfwd of loss>"),
    (fc.checkpoint(loss), "<checkpoint of loss>"),
    (fc.vjp(loss, X, X)[1], "<pullback of vjp of loss: takes the cotangent of the output, gives a tuple of cotangents>"),
])  # fmt: skip
def test_repr_says_the_transformations(made: Any, text: str) -> None:
    assert repr(made) == text


@pytest.mark.parametrize(("made", "first"), [
    (fc.grad(loss), "Gradient of loss with respect to w."),
    (fc.grad(loss, argnums=(0, 1)), "Gradient of loss with respect to w, x."),
    (fc.grad(loss, argnums=-1), "Gradient of loss with respect to x."),
    (fc.grad(loss, argnames="x"), "Gradient of loss with respect to x."),
    (fc.value_and_grad(loss, argnums=7), "Value and gradient of loss with respect to argument 7."),
    (fc.grad(fc.jit(loss)), "Gradient of jit of loss with respect to w."),
    (fc.vmap(loss), "loss, mapped over an axis of its arguments."),
    (fc.jacrev(loss), "Jacobian of loss, by reverse mode."),
    (fc.hessian(loss), "Hessian of loss."),
    (fc.jit(loss), "Mean squared error."),
])  # fmt: skip
def test_help_says_the_transformation_first(made: Any, first: str) -> None:
    assert made.__doc__.splitlines()[0] == first
    assert first in pydoc.render_doc(made, renderer=pydoc.plaintext)


def test_the_function_s_own_text_follows() -> None:
    assert fc.grad(loss).__doc__.endswith("\n\nMean squared error.")
    named = np.lib.NumpyVersion(np.__version__) >= "2.4.0"  # ufuncs say their parameters
    assert fc.grad(np.sin).__doc__ == f"Gradient of sin with respect to {'x' if named else 'argument 0'}."
    assert fc.grad(functools.partial(loss, 1.0)).__doc__ == "Gradient of partial with respect to x."


def public(x: Any) -> list[str]:
    return [name for name in dir(x) if not name.startswith("__")]


def test_completion_offers_what_is_public() -> None:
    methods = ["cache_info", "clear_cache", "cuda", "explain", "export", "export_c", "lower", "profile", "source"]
    assert public(fc.jit(loss)) == methods and all(getattr(fc.jit(loss), name).__doc__ for name in methods)
    for made in (fc.grad(loss), fc.vmap(loss), fc.hessian(loss), fc.vjp(loss, X, X)[1]):
        assert public(made) == []
    assert public(fc.custom_vjp(loss)) == ["defjvp", "defvjp"] and public(fc.custom_jvp(loss)) == ["defjvp", "defjvps"]


def test_signatures_are_those_of_the_function() -> None:
    for made in (fc.grad(loss), fc.jit(loss), fc.vmap(loss), fc.jit(fc.vmap(fc.grad(loss))), fc.hessian(loss)):
        assert [*inspect.signature(made).parameters] == ["w", "x"]


@pytest.mark.parametrize("name", ["debug", "errors", "interop", "testing", "optimize", "nn", "stats", "ops", "tree", "random"])
def test_namespaces_do_not_leak(name: str) -> None:
    module = importlib.import_module(f"funcad.{name}")
    shown = dir(module)
    files = {file.name for file in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    foreign = [n for n in shown if isinstance(getattr(module, n), types.ModuleType) and n not in files]
    assert foreign == [] and [n for n in shown if n.startswith("_")] == []
    for n in shown:
        owner = getattr(getattr(module, n), "__module__", None) or "funcad"
        assert owner.partition(".")[0] in ("funcad", "builtins", "numpy"), n
    assert "RandomStateError" in dir(fc.errors)


class Model:
    @fc.jit
    def rate(self, speed: float, steepness: float) -> float:
        return speed * steepness


MADE = {
    "jitted": fc.jit(loss),
    "gradient": fc.grad(loss),
    "gradients": fc.grad(loss, argnums=(0, 1)),
    "mapped": fc.vmap(loss),
    "both": fc.value_and_grad(loss, has_aux=True),
    "nested": fc.jit(fc.vmap(fc.grad(loss))),
    "curvature": fc.hessian(loss),
    "slopes": fc.jacfwd(loss),
    "light": fc.checkpoint(loss),
    "ruled": fc.custom_vjp(loss),
    "model": Model(),
}


@pytest.mark.parametrize(("call", "names"), [
    *[(f"{name}(", ["w", "x"]) for name in MADE if name != "model"],
    ("model.rate(", ["speed", "steepness"]),
    ("optimizer.update(", ["updates", "state", "params", "extra"]),
])  # fmt: skip
def test_notebooks_show_the_parameters(call: str, names: list[str]) -> None:
    """By Jedi, which completes in IPython and Jupyter."""
    jedi = pytest.importorskip("jedi")
    told = jedi.Interpreter(call, [MADE | {"optimizer": fc.optimize.adam(0.1)}]).get_signatures()
    assert [parameter.name for parameter in told[0].params] == names
