"""Every public function, over the table in `tests/surface`: value, plain NumPy call, derivatives, vmap, jit, device, dtype."""

from __future__ import annotations

import importlib
import importlib.util
import types
from typing import Any

import pytest

from tests.surface import BROKEN, Case, all_cases, resolve
from tests.surface.checks import check

CASES = all_cases()

NAMESPACES = [
    "numpy",
    "numpy.linalg",
    "numpy.fft",
    "scipy.special",
    "scipy.linalg",
    "scipy.stats",
    "scipy.fft",
    "scipy.signal",
    "scipy.ndimage",
    "scipy.interpolate",
    "scipy.integrate",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "random",
    "nn",
    "nn.initializers",
    "optimize",
    "ops",
    "image",
    "flatten_util",
]

_FILES = "reads or writes files, NumPy's own: arrays of numbers come in and go out untraced"
_TEXT = "makes text of numbers, NumPy's own: a traced value prints itself"
_SETTINGS = "NumPy's own settings, which act on un-jitted code"
_SPARSE = "takes sparse arrays: tests/scipy/test_sparse_solvers.py"
LEFT_OUT: dict[str, str] = {  # public functions without a case, and why
    **{f"numpy.{n}": _FILES for n in "fromfile genfromtxt load loadtxt save savetxt savez savez_compressed".split()},
    **{f"numpy.{n}": _TEXT for n in "base_repr binary_repr format_float_positional format_float_scientific".split()},
    **{f"numpy.{n}": _SETTINGS for n in "geterr seterr get_printoptions set_printoptions printoptions".split()},
    "nn.initializers.Initializer": "a protocol",
    "optimize.plot_loss": "draws",
    "scipy.optimize.milp": "refused: whole numbers have no derivative; tests/scipy/test_scipy_linear_problems.py",
    "scipy.integrate.tplquad": "nquad with three ranges: tests/scipy/test_solving_differential_equations.py",
    "scipy.integrate.solve_bvp": "not inside jit and vmap: tests/scipy/test_solving_differential_equations.py",
    "numpy.frompyfunc": "refused: object ufuncs cannot be traced",
    **{f"scipy.sparse.linalg.{n}": _SPARSE for n in "spsolve splu factorized LinearOperator aslinearoperator".split()},
    "scipy.stats.gaussian_kde.integrate_box": "raises, as JAX's: several dimensions at once have no derivative",
    "scipy.stats.gaussian_kde.set_bandwidth": "raises, as JAX's: estimates do not change",
}


def cases(cell: str) -> Any:
    """Parametrize over the cases that a cell may apply to."""
    chosen = CASES if cell != "plain" else [c for c in CASES if c.name.startswith("numpy.")]
    return pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in chosen])


@cases("value")
def test_value(case: Case) -> None:
    check("value", case)


@cases("plain")
def test_numpys_own_function_called_on_traced_values(case: Case) -> None:
    check("plain", case)


@cases("jvp")
def test_jvp(case: Case) -> None:
    check("jvp", case)


@cases("vjp")
def test_vjp(case: Case) -> None:
    check("vjp", case)


@cases("second")
def test_second_order(case: Case) -> None:
    check("second", case)


@cases("vmap")
def test_vmap(case: Case) -> None:
    check("vmap", case)


@cases("jit")
def test_jit(case: Case) -> None:
    check("jit", case)


@cases("cupy")
def test_device(case: Case) -> None:
    check("cupy", case)


@cases("dtype")
def test_float32(case: Case) -> None:
    check("dtype", case)


# -- completeness


def test_every_file_of_cases_can_be_imported() -> None:
    assert not BROKEN, BROKEN


def public_callables(namespace: str) -> dict[str, Any]:
    """Name under funcad -> function, of what can be called in that namespace; distributions by their methods."""
    module = importlib.import_module(f"funcad.{namespace}")
    found: dict[str, Any] = {}
    for name in getattr(module, "__all__", None) or dir(module):
        value = getattr(module, name)
        if name.startswith("_") or isinstance(value, types.ModuleType):
            continue
        if isinstance(value, type) and namespace.startswith("numpy"):
            continue  # dtypes
        if namespace == "scipy.stats" and not isinstance(value, types.FunctionType):
            methods = [m for m in dir(value) if not m.startswith("_") and callable(getattr(value, m))]
            found.update({f"{namespace}.{name}.{m}": getattr(value, m) for m in methods})
        elif callable(value):
            found[f"{namespace}.{name}"] = value
    return found


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_public_function_has_a_case(namespace: str) -> None:
    names = {c.name for c in CASES}
    known = [resolve(name)[0] for name in names if name.startswith(namespace + ".")]
    without = [
        name
        for name, function in public_callables(namespace).items()
        if name not in names and name not in LEFT_OUT and not any(function is k for k in known)
    ]
    assert not without, f"{len(without)} without a case: {without}"


def test_left_out_names_exist_and_have_no_case() -> None:
    names = {c.name for c in CASES}
    for name in LEFT_OUT:
        assert resolve(name)[0] is not None
        assert name not in names, f"{name} has a case: take it off the list"


def test_no_case_names_an_unknown_function() -> None:
    unknown = []
    for name in sorted({c.name for c in CASES}):
        try:
            resolve(name)
        except LookupError:
            unknown.append(name)
    assert not unknown, unknown


def test_public_modules_are_listed() -> None:
    assert set(importlib.import_module("funcad.scipy")._MODULES) - {"sparse"} <= {
        n.split(".")[1] for n in NAMESPACES if n.startswith("scipy.")
    }
