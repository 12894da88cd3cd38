"""Docstrings of public functions: what is said of special points is so, parameters are those of the library, and are named."""

from __future__ import annotations

import enum
import inspect
import re
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.numpy.dispatch import POINTS, Point
from tests.numpy.test_surface import NAMESPACES, public_callables

EVERY_POINT = [(name, point) for name, points in POINTS.items() for point in points]


def public(name: str) -> Any:
    found: Any = funcad
    for part in name.split("."):
        found = getattr(found, part)
    return found


def same(found: Any, told: Any) -> None:
    np.testing.assert_allclose(found, told, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:.*does not depend on the argument")  # of functions that are constant in steps
@pytest.mark.parametrize(("name", "point"), EVERY_POINT, ids=[f"{name}{point.args}" for name, point in EVERY_POINT])
def test_special_points_are_as_the_docstrings_say(name: str, point: Point) -> None:
    function, args = public(name), [np.array(a) if isinstance(a, list) else a for a in point.args]
    positions = tuple(range(len(point.slopes)))
    total = lambda *given: sum([np.sum(out) for out in _parts(function(*given))])
    with np.errstate(all="ignore"):
        for slope, told in zip(funcad.grad(total, argnums=positions)(*args), point.slopes):
            same(slope, told)
        if point.second is not None:
            same(funcad.hessian(total)(*args), point.second)
    assert str(point) in inspect.getdoc(function)


def _parts(out: Any) -> tuple:
    return tuple(out) if isinstance(out, tuple) else (out,)


NUMPY = np.lib.NumpyVersion(np.__version__)
MIRRORED = sorted(
    name for name, f in [(name, getattr(funcad.numpy, name)) for name in dir(funcad.numpy)]  # some are loaded now
    if getattr(f, "numpy_function", None) is not None and not isinstance(f.numpy_function, np.ufunc)
)  # fmt: skip


@pytest.mark.parametrize("name", MIRRORED)
def test_parameters_are_numpys(name: str) -> None:
    """As `help` and editors show them; an option that NumPy does not have is explained."""
    function = getattr(funcad.numpy, name)
    try:
        theirs = dict(inspect.signature(function.numpy_function).parameters)
    except ValueError:
        pytest.skip("NumPy's compiled functions say their parameters from 2.4 on")
    ours = inspect.signature(function).parameters
    if NUMPY < "2.4.0":  # deprecated for years, gone in 2.4
        for gone in {"corrcoef": ("bias", "ddof")}.get(name, ("interpolation",)):
            theirs.pop(gone, None)
    if name == "trim_zeros" and NUMPY < "2.2.0":
        theirs["axis"] = ours["axis"]
    renamed = {"empty_like": {"prototype": "a"}}.get(name, {})
    takes_any = {p.kind for p in ours.values()} & {inspect.Parameter.VAR_KEYWORD}
    for parameter in theirs:
        assert renamed.get(parameter, parameter) in ours or parameter == "kwargs" or takes_any, parameter
    for option in set(ours) - set(theirs) - set(renamed.values()) if "kwargs" not in theirs else ():
        assert re.search(rf"\b{option}\b", inspect.getdoc(function) or ""), f"{name} does not explain {option}"


SECTIONS = {  # of a docstring, each in words of its own; parameters are asked for by their names
    "what it returns": r"\b(return|result|value|giv)",
    "what it raises": r"Error|[Rr]aise",
    "how it differs": r"(?i)JAX|NumPy|autograd|SciPy",
    "an example": r">>>",
}


def unnamed(function: Any) -> list[str]:
    """Parameters that the docstring does not name; variable ones may have any name there."""
    if isinstance(function, type) and issubclass(function, enum.Enum):
        return []  # nobody calls one
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    text = inspect.getdoc(function) or ""
    names = [p.name for p in parameters if p.kind not in VARIABLE and p.name != "self"]
    return [name for name in names if not re.search(rf"\b{name}\b", text)]


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
TOP = sorted(name for name in funcad.__all__ if callable(getattr(funcad, name)) and not inspect.ismodule(getattr(funcad, name)))


@pytest.mark.parametrize("name", TOP)
def test_public_functions_say_all_that_a_reader_asks(name: str) -> None:
    function = getattr(funcad, name)
    if name == "config":
        return
    text = inspect.getdoc(function) or ""
    missing = [section for section, words in SECTIONS.items() if not re.search(words, text, re.IGNORECASE)]
    if inspect.isclass(function) and issubclass(function, BaseException):
        missing = []
    assert missing == [] and unnamed(function) == [], f"funcad.{name} does not tell {missing} {unnamed(function)}"


# Functions that mirror NumPy's and SciPy's are left out: their parameters are explained there.
MIRRORS = re.compile(r"the same arguments, results and errors|Else parameters, results and errors are those of `")


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_docstrings_name_their_parameters_and_have_an_example(namespace: str) -> None:
    poor = []
    for name, function in public_callables(namespace).items():
        text = inspect.getdoc(function) or ""
        if not MIRRORS.search(text) and (unnamed(function) or ">>>" not in text):
            poor.append(name)
    assert poor == []
