"""What a first gradient costs, counted: modules that are loaded, calls of Python, searches in byte code. Numbers only fall."""

from __future__ import annotations

import dis
import json
import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.autograd

ROOT = Path(funcad.__file__).parents[1]
ALL, OWN = 65, 63  # modules that `import funcad` and a first gradient load beside NumPy's; those of funcad among them
AUTOGRAD = 8  # what `import funcad.autograd` and its NumPy load beside that
ENTRY = 8  # calls of Python's before and after the tape of a gradient
WHOLE = 12  # calls of Python's in a gradient of a function that does nothing, its own among them


pytestmark = pytest.mark.usefixtures("no_doors")

PLAIN = "funcad.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))"


def loaded(text: str, before: str = "") -> set[str]:
    """The modules that a line loads in a new process that has imported NumPy, and what `before` says."""
    lines = ["import json, sys, numpy as np", before, "before = set(sys.modules)", text]
    code = "\n".join([*lines, "print(json.dumps(sorted({*sys.modules} - before)))"])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="Python's `inspect` is loaded by NumPy from 2.4 on")
def test_an_import_and_a_first_gradient_load_what_they_need() -> None:
    found = loaded(f"import funcad\n{PLAIN}")
    assert len([m for m in found if m.partition(".")[0] == "funcad"]) <= OWN
    assert len(found) <= ALL
    needless = "ast dataclasses decimal difflib hashlib html importlib.resources inspect pathlib random tempfile tokenize"
    assert found.isdisjoint([*needless.split(), "typing", "zipfile"])
    later = "api.jacobian api.vmap custom jitted lax nn numpy.calculus numpy.linalg numpy.mapping random reads scipy"
    assert found.isdisjoint([f"funcad.{name}" for name in later.split()])


@pytest.mark.parametrize(("before", "after"), [("", "True 0 0"), ("gc.disable()", "False 0 0"), ("gc.freeze()", "True 2 1")])
def test_the_collector_rests_while_funcad_is_imported(before: str, after: str) -> None:
    """It is switched on again if it was, and what the user has frozen stays so."""
    if sys.version_info[:2] == (3, 12) and "freeze" not in before:
        pytest.skip("Python 3.12 has frozen objects of its own when it starts")
    count = "made = []; gc.callbacks.append(lambda phase, info: made.append(phase))"
    lines = ["import gc, numpy", before, count, "import funcad", "n = min(len(made), 2)"]
    text = "\n".join([*lines, "print(gc.isenabled(), n, min(gc.get_freeze_count(), 1))"])
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.stdout.split() == after.split(), done.stderr


def test_an_import_that_fails_leaves_the_collector_on() -> None:
    line = "import gc\ntry: import funcad\nexcept ValueError: print(gc.isenabled())"
    environment = {**os.environ, "FUNCAD_ENGINE": "no such engine"}
    done = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.stdout == "True\n", done.stderr


def test_autograds_names_load_little_more() -> None:
    found = loaded("import funcad.autograd, funcad.autograd.numpy", "import funcad")
    assert len(found) <= AUTOGRAD
    assert found.isdisjoint(["funcad.control.checkpoint", "importlib.resources", "tempfile"])


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("line", "families"),
    [
        ("sp.gammaln(x)", "gamma"),
        ("sp.logsumexp(x)", ""),
        ("sp.gammainc(x, 1.5)", "gamma incomplete"),
        ("sp.ndtr(x)", "errors"),
        ("sp.j0(x)", "gamma logarithms bessel"),
        ("sp.expn(2, x)", "gamma bessel integrals logarithms"),
        ("sp.eval_legendre(2, x)", "polynomials"),
        ("sp.stdtridf(x / 9.0, 0.5)", "gamma incomplete inverses"),
    ],
)
def test_a_special_function_loads_its_families(line: str, families: str) -> None:
    text = f"funcad.grad(lambda x: np.sum({line}))(np.array([1.5, 2.5]))"
    found = loaded(text, "import funcad, scipy.special as sp")
    names = [m.removeprefix("funcad.primitives.special_") for m in found if m.startswith("funcad.primitives.special_")]
    assert set(names) - {"rules"} <= set(families.split())


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "line",
    """solve(x, x[0]) inv(x) det(x) slogdet(x)[1] cholesky(x) eigh(x)[1] eigvalsh(x) svd(x)[1] qr(x)[1] pinv(x) norm(x)
    lstsq(x, x[0])[0] matrix_power(x, 3)""".replace("\n", " ").replace(", ", ",").split(),
)
def test_linear_algebra_of_numpys_needs_no_scipy(line: str) -> None:
    text = f"funcad.grad(lambda x: np.sum(np.linalg.{line}))(np.diag([1.0, 2.0, 3.0]))"
    assert not [m for m in loaded(text, "import funcad") if m.partition(".")[0] == "scipy"]


def test_answers_for_scipy_are_loaded_with_it_or_where_one_is_asked_for() -> None:
    assert "funcad.doors.distribution_answers" in loaded("import funcad, scipy.stats")
    first = f"import scipy.stats, funcad\n{PLAIN}"  # there was nobody who saw it
    assert "funcad.doors.distribution_answers" not in loaded(first)
    found = loaded("funcad.grad(lambda x: np.sum(scipy.stats.norm.logpdf(x)))(np.ones(2))", first)
    assert "funcad.doors.distribution_answers" in found and "funcad.doors.scipy_answers" not in found


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("first", "line", "without"),
    [
        ("", "funcad.grad(lambda x, y: np.sum(x * y), (0, 1))(np.ones(2), np.ones(2))", "tree"),
        ("", "funcad.elementwise_grad(np.sin)(np.ones(2))", "tree"),
        ("", "funcad.grad(lambda x: np.sum(x @ x.T))(np.ones((2, 2)))", "numpy.shaping"),
        ("", "funcad.grad(lambda x: np.sum(np.roll(x, 1) ** 2))(np.ones(2))", "numpy.shaping numpy.index_plan"),
        ("", "funcad.grad(lambda x: np.sum(np.where(x > 0, x, 0.0)))(np.ones(2))", "numpy.ufuncs"),
        ("", "funcad.grad(lambda x: np.fft.rfft(x)[1].real)(np.ones(4))", "numpy.creation primitives.convolution"),
        ("", "funcad.grad(lambda x: np.linalg.solve(x, x[0])[0])(np.eye(2))", "primitives.eigen primitives.factorizations"),
        (
            "import scipy.linalg as la",
            "funcad.grad(lambda x: np.sum(la.solve_triangular(x, x[0], lower=True)))(np.eye(2))",
            "scipy.linalg.bands scipy.linalg.decompositions numpy.linalg primitives.eigen primitives.matrix_functions",
        ),
        ("import scipy.stats as st", "funcad.grad(lambda x: st.norm.logpdf(x))(1.0)", "tree primitives.special_rules"),
        (
            "import scipy.stats as st",
            "funcad.grad(lambda x: st.multivariate_normal.logpdf(x, np.zeros(2)))(np.ones(2))",
            "tree api.tools scipy.stats.summary",
        ),
        (
            "f = funcad.custom_vjp(lambda x: x * 2.0); f.defvjp(lambda x: (f(x), x), lambda x, g: (g * 2.0,))",
            "funcad.grad(lambda x: np.sum(f(x)))(np.ones(2))",
            "masks.masked_rules tree.functions",
        ),
    ],
)
def test_a_first_call_loads_no_module_that_it_does_not_use(first: str, line: str, without: str) -> None:
    found = loaded(line, f"import funcad\n{first}")
    assert not found & {f"funcad.{name}" for name in without.split()}


def entry(g: Callable[..., Any], x: Any) -> list[str]:
    """The functions of funcad's that a call of a gradient goes through before and after its tape.

    That is: those that are not called by what stands in unjitted/, and all that stand in api/ and autograd/.
    """
    for _ in range(3):
        g(x)
    found: list[str] = []
    home = str(ROOT / "funcad") + "/"

    def notice(frame: types.FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(home):
            return
        name = code.co_filename.removeprefix(home)
        above = frame.f_back
        while above is not None and not above.f_code.co_filename.startswith(home + "unjitted"):
            above = above.f_back
        if name.startswith(("api/", "autograd/")) or above is None and not name.startswith("unjitted/"):
            found.append(f"{name} {code.co_qualname}")

    sys.setprofile(notice)
    try:
        g(x)
    finally:
        sys.setprofile(None)
    return found


def total(x: Any) -> Any:
    return np.sum(np.sin(x))


@pytest.mark.parametrize("x", [np.ones(3), np.ones((2, 2), np.float32)])
@pytest.mark.parametrize("make", [funcad.grad, funcad.value_and_grad, funcad.autograd.grad, funcad.autograd.value_and_grad])
def test_the_way_to_the_tape_is_short(make: Callable[..., Any], x: Any) -> None:
    found = entry(make(total), x)
    assert "api/grad.py Gradient.__call__" in found
    assert len(found) <= ENTRY, "\n".join(found)


@pytest.mark.parametrize("make", [funcad.grad, funcad.autograd.grad])
def test_a_number_goes_the_short_way_too(make: Callable[..., Any]) -> None:
    found = entry(make(np.sin), 0.5)
    assert len(found) <= ENTRY, "\n".join(found)


@pytest.mark.parametrize("make", [funcad.grad, funcad.autograd.grad])
def test_a_gradient_of_nothing_is_few_calls(make: Callable[..., Any]) -> None:
    g = make(lambda x: x)
    assert g(0.5) == g(1.5) == 1.0
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_qualname) if event == "call" else None)
    try:
        g(2.5)
    finally:
        sys.setprofile(None)
    assert len(calls) <= WHOLE, "\n".join(calls)


def test_byte_code_is_searched_once_per_code(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[types.CodeType] = []
    search = dis.get_instructions

    def noticed(code: Any, **options: Any) -> Any:
        searched.append(code)
        return search(code, **options)

    monkeypatch.setattr(dis, "get_instructions", noticed)

    def make(scale: float) -> Callable[..., Any]:
        def loss(w: Any, data: Any) -> Any:
            start = np.zeros(3)
            start[0] = scale
            return np.sum((np.dot(data, w) - scale) ** 2) + np.sum(start)

        return loss

    for scale in (1.0, 2.0):
        funcad.grad(make(scale))(np.ones(3), np.ones((4, 3)))
    once = len(searched)
    for scale in (3.0, 4.0, 5.0):
        funcad.grad(make(scale))(np.ones(3), np.ones((4, 3)))
    assert len(searched) == once


# -- what the short way must not change


def one_element(x: Any) -> Any:
    return np.sum(x**2, keepdims=True)


def test_outputs_of_one_element_keep_their_shape_through_autograd() -> None:
    x = np.arange(3.0)
    value, gradient = funcad.autograd.value_and_grad(one_element)(x)
    assert value.shape == (1,) and value[0] == 5.0
    assert gradient.tolist() == [0.0, 2.0, 4.0]
    value[0] = gradient[0] = 7.0  # both are the user's own
    assert funcad.autograd.grad(one_element)(x).tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(funcad.errors.NonScalarOutputError, match="shape"):
        funcad.grad(one_element)(x)


def test_a_value_that_is_the_argument_is_the_users_own() -> None:
    x = np.array([2.0])
    value, gradient = funcad.autograd.value_and_grad(lambda x: x)(x)
    assert value.tolist() == [2.0] and gradient.tolist() == [1.0]
    value[0] = 9.0
    gradient[0] = 9.0
    assert x[0] == 2.0


@pytest.mark.parametrize("make", [funcad.grad, funcad.autograd.grad])
def test_other_arguments_and_keywords(make: Callable[..., Any]) -> None:
    f = lambda a, b, *, c: np.sum(a * b) * c
    a, b = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert make(f)(a, b, c=2.0).tolist() == [6.0, 8.0]
    assert make(f, 1)(a, b, c=2.0).tolist() == [2.0, 4.0]


def test_a_function_that_writes_into_another_argument_does_so_in_its_own() -> None:
    def f(x: Any, work: Any) -> Any:
        work[0] = x[0] ** 2
        return np.sum(work)

    work = np.zeros(2)
    assert funcad.grad(f)(np.array([3.0]), work).tolist() == [6.0]
    assert work.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [funcad.grad, funcad.autograd.grad])
def test_gradients_that_are_mapped_and_nested(make: Callable[..., Any]) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert funcad.vmap(make(lambda v: np.sum(v**3)))(x).tolist() == (3 * x**2).tolist()
    assert funcad.jit(make(lambda v: np.sum(v**3)))(x).tolist() == (3 * x**2).tolist()
    inner = lambda v: np.sum(make(lambda u: np.sum(u**3))(v))
    assert make(inner)(x).tolist() == (6 * x).tolist()


def test_what_does_not_depend_is_zero_with_a_warning_at_the_users_line() -> None:
    g = funcad.value_and_grad(lambda x: 3.0)
    with pytest.warns(UserWarning, match="argnums=0") as noted:
        assert g(np.ones(2))[1].tolist() == [0.0, 0.0]
    assert noted[0].filename == __file__
