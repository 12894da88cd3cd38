"""What checkers are told is what there is: names, parameters, and what `dir` and tab completion show."""

from __future__ import annotations

import ast
import importlib
import inspect
import rlcompleter
import types
from pathlib import Path
from typing import Any

import pytest

import funcad
import funcad.numpy as fnp
from funcad.host.real_types import NUMPY
from tests import stubs
from tests.numpy.test_surface import NAMESPACES

STUB = ast.parse(Path(funcad.__file__).with_suffix(".pyi").read_text(encoding="utf8"))
PACKAGES = ["", ".autograd", ".lax", ".scipy", ".tree", *[f".{name}" for name in NAMESPACES]]
MIRRORS = ["autograd.numpy", *[f"autograd.scipy.{n}" for n in ("linalg", "special", "stats")], "jax.numpy", "jax.random"]


def stub_names() -> set[str]:
    names = set()
    for node in STUB.body:
        if isinstance(node, ast.ImportFrom):
            names |= {a.asname for a in node.names if a.asname == a.name}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names.add(ast.unparse(target))
    return {name for name in names if not name.startswith("_")}


def stub_functions() -> list[tuple[str, ast.FunctionDef]]:
    found = [(node.name, node) for node in STUB.body if isinstance(node, ast.FunctionDef)]
    classes = [node for node in STUB.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    methods = [(c.name, f) for c in classes for f in c.body if isinstance(f, ast.FunctionDef)]
    return found + [(f"{name}.{f.name}", f) for name, f in methods if not f.name.startswith("__")]


def test_static_names_are_the_public_names() -> None:
    assert stub_names() == {*funcad.__all__, "jax"}  # which `from funcad import *` leaves out


@pytest.mark.skipif(NUMPY < (2, 4), reason="functions of an older NumPy have no signatures")
def test_numpy_stub_is_what_is_written_from_the_signatures() -> None:
    """After a change of a signature: `python -m tests.stubs`."""
    assert stubs.FILE.read_text(encoding="utf8") == stubs.numpy_stub()


@pytest.mark.parametrize(("name", "node"), stub_functions())
def test_parameters_are_those_of_the_function(name: str, node: ast.FunctionDef) -> None:
    """Each overload takes parameters that there are, positional ones in their order; without overloads it takes them all."""
    function: Any = funcad
    for part in name.split("."):
        function = getattr(function, part)
    there = inspect.signature(function).parameters
    a = node.args
    positional = [p.arg for p in (*a.posonlyargs, *a.args)]
    stars = [p.arg for p in (a.vararg, a.kwarg) if p is not None]
    said = [*positional, *[p.arg for p in a.kwonlyargs], *stars]
    assert set(said) <= set(there)
    assert positional == list(there)[: len(positional)]
    defaults = {p.arg for p in positional_defaults(a)} | {p.arg for p, d in zip(a.kwonlyargs, a.kw_defaults) if d is not None}
    assert all(there[p].default is not inspect.Parameter.empty for p in defaults)
    if not any(ast.unparse(d) == "overload" for d in node.decorator_list):
        assert set(said) == set(there)


def positional_defaults(a: ast.arguments) -> list[ast.arg]:
    return a.args[len(a.args) - len(a.defaults) :] if a.defaults else []


@pytest.mark.parametrize("name", PACKAGES)
def test_dir_shows_public_names_only(name: str) -> None:
    package = importlib.import_module(f"funcad{name}")
    shown = dir(package)
    assert shown and not [n for n in shown if n.startswith("_")]
    public = {*funcad.__all__, "jax"}
    modules = {n for n in shown if isinstance(getattr(package, n), types.ModuleType)}
    further = {"linalg", "fft", "array_api", "initializers", "windows", *funcad.scipy.__all__}
    further |= {"distance", "transform", "lapack"}  # of scipy.spatial, of scipy.linalg
    further |= {"builtins", "core", "extend", "misc", "test_util", "tracer", "util", "wrap_util"}  # autograd's
    assert modules <= public | further
    assert not {"Any", "Callable", "annotations"} & set(shown)


@pytest.mark.parametrize("name", MIRRORS)
def test_mirrors_show_what_they_have_and_no_files_of_the_library(name: str) -> None:
    mirror = importlib.import_module(f"funcad.{name}")
    shown = dir(mirror)
    assert all(hasattr(mirror, n) for n in shown)
    assert not {"add_newdocs", "basic", "decomp", "mstats", "decompositions", "random_gamma_p", "Any"} & set(shown)
    assert name != "autograd.scipy.linalg" or {"expm", "solve", "LinAlgError"} <= set(shown)


def test_tab_completion_and_suggestions() -> None:
    assert "elementwise_grad" not in dir(funcad) and hasattr(funcad, "elementwise_grad")
    completer = rlcompleter.Completer({"funcad": funcad, "fnp": fnp})
    assert completer.attr_matches("funcad.value_and_g") == ["funcad.value_and_grad("]
    assert completer.attr_matches("funcad.back") == [] and completer.attr_matches("fnp.elementw") == []
    with pytest.raises(AttributeError) as caught:
        funcad.value_and_gard  # noqa: B018
    assert caught.value.name == "value_and_gard" and caught.value.obj is funcad


WRITTEN = """
from funcad import checkpoint, grad, jacfwd, jit, value_and_grad, vmap
def loss(w, x): ...
@jit
def jitted(w, x): ...
@jit(static_argnums=1)
def static(w, x): ...
@checkpoint
def light(w, x): ...
class Model:
    @jit
    def method(self, w, x): ...
    @staticmethod
    @jit
    def alone(w, x): ...
    @grad
    def slope(self, w, x): ...
model = Model()
"""


@pytest.mark.parametrize("expression", [
    "jitted", "static", "light", "model.method", "model.alone", "model.slope", "jit(loss)", "jit(loss, static_argnums=1)",
    "grad(loss)", "grad(loss, 1)", "grad(loss, argnums=(0, 1))", "value_and_grad(loss, has_aux=True)", "grad(jitted)",
    "vmap(loss, (0, None))", "jit(vmap(grad(loss)))", "jit(model.method)", "jacfwd(loss, argnums=1)",
])  # fmt: skip
def test_editors_show_the_parameters_without_running_the_program(expression: str) -> None:
    """By Jedi, which knows no ParamSpec, in a program that is only read."""
    jedi = pytest.importorskip("jedi")
    text = f"{WRITTEN}{expression}("
    project = jedi.Project(Path(funcad.__file__).parents[1])
    told = jedi.Script(text, project=project).get_signatures(text.count("\n") + 1, len(expression) + 1)
    assert [[parameter.name for parameter in signature.params] for signature in told] == [["w", "x"]]
    if "jit" in expression.partition("(")[0] or expression in ("static", "model.method"):
        text = f"{WRITTEN}{expression}.cache_i"
        names = jedi.Script(text, project=project).complete(text.count("\n") + 1, len(expression) + 8)
        assert [name.name for name in names] == ["cache_info"]
