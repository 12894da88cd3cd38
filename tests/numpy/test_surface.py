"""Every public function, over the table in `tests/surface`: value, plain NumPy call, derivatives, vmap, jit, device, dtype.

One test a function: the checks of a case share what they compute, and all that fails is told together, cell by cell.
"""

from __future__ import annotations

import importlib
import importlib.util
import types
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.scipy.test_special_tables import POINTS
from tests.shards import shard
from tests.surface import BROKEN, Case, all_cases, resolve
from tests.surface.checks import check, check_dtype
from tests.surface.gradients import GRADIENTS
from tests.surface.theorem import follows

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
    "scipy.spatial",
    "scipy.spatial.distance",
    "scipy.spatial.transform",
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
    **dict.fromkeys(["numpy.copyto", "numpy.putmask"], "write into their first argument: tests/whole/writes"),
    **{f"numpy.{n}": _FILES for n in "fromfile genfromtxt load loadtxt save savetxt savez savez_compressed".split()},
    **{f"numpy.{n}": _TEXT for n in "base_repr binary_repr format_float_positional format_float_scientific".split()},
    **{f"numpy.{n}": _SETTINGS for n in "geterr seterr get_printoptions set_printoptions printoptions".split()},
    **{f"scipy.special.{n}": "tests/scipy/test_special_tables.py has them all" for n in POINTS},
    "nn.initializers.Initializer": "a protocol",
    "optimize.plot_loss": "draws",
    "scipy.linalg.get_lapack_funcs": "gives functions; tests/scipy/test_band_solvers.py",
    "scipy.optimize.milp": "refused: whole numbers have no derivative; tests/scipy/test_scipy_linear_problems.py",
    "scipy.integrate.tplquad": "nquad with three ranges: tests/scipy/test_solving_differential_equations.py",
    "scipy.integrate.solve_bvp": "not inside jit and vmap: tests/scipy/test_solving_differential_equations.py",
    "numpy.frompyfunc": "refused: object ufuncs cannot be traced",
    **{f"scipy.sparse.linalg.{n}": _SPARSE for n in "expm factorized LinearOperator aslinearoperator".split()},
    **{f"scipy.sparse.linalg.{n}": _SPARSE for n in "inv norm splu spsolve spsolve_triangular".split()},
    "scipy.stats.gaussian_kde.integrate_box": "raises, as JAX's: several dimensions at once have no derivative",
    "scipy.stats.gaussian_kde.set_bandwidth": "raises, as JAX's: estimates do not change",
}


NAMES: dict[str, list[Case]] = {}  # in the order of the table
for _case in CASES:
    NAMES.setdefault(_case.name, []).append(_case)
DERIVED = ("jvp", "vjp", "second", "vmap", "cupy")
EVEN_LATER = ("jvp", "vjp")  # of all cases, where they do not follow from what tests/surface/theorem.py names
DISTRIBUTIONS_LEAVE = ("second", "vmap", "cupy")
LONG = (  # these run for a second or more where others take a hundredth: some cells are left to the slow test
    "scipy.stats.vonmises.", "scipy.integrate.odeint", "scipy.integrate.solve_ivp", "scipy.integrate.nquad",
    "scipy.integrate.dblquad", "scipy.optimize.minimize", "scipy.optimize.least_squares", "scipy.optimize.curve_fit",
    "scipy.sparse.linalg.gmres",
)  # fmt: skip
LONG_LEAVE = ("second", "vmap", "cupy")
THEOREM_LEAVES = ("jvp", "vjp", "second", "vmap", "cupy")  # of two functions in three: they follow


def is_of_a_distribution(name: str) -> bool:
    """Is it scipy.stats.norm.pdf, or another method?"""
    return name.startswith("scipy.stats.") and name.count(".") == 3


def left_out(name: str) -> tuple[str, ...]:
    """The cells that are not checked by default, even of the first case, where they follow from what primitives are."""
    if is_of_a_distribution(name):
        return DISTRIBUTIONS_LEAVE
    return THEOREM_LEAVES if zlib.crc32(name.encode()) % 3 else ()


class Findings:
    """What does not hold of one function, cell by cell: all of it is told at the end."""

    def __init__(self, name: str):
        self.name = name
        self.errors: list[Exception] = []

    def check(self, cell: str, case: Case, how: Callable[..., Any], *args: Any) -> bool:
        """Did the cell hold?"""
        try:
            return how(*args) is True
        except Exception as error:
            error.add_note(f"in the cell {cell!r} of the case {case.id!r}")
            self.errors.append(error)
            return True

    def tell(self) -> None:
        if len(self.errors) == 1:
            raise self.errors[0]
        if self.errors:
            raise ExceptionGroup(self.name, self.errors)


@pytest.mark.filterwarnings("ignore:grad. the output of .* does not depend on")
@pytest.mark.share(4)
@pytest.mark.parametrize("name", NAMES)
def test_function(name: str) -> None:
    """Value, jit and dtype in every case; the other cells, and NumPy's own call, in the first to which they apply.

    Derivatives are checked in later ones, too, where they do not follow from what tests/surface/theorem.py names. Un-jitted
    gradients of arrays, of written arrays and of numbers are checked once. Of the methods of distributions, which are many,
    only what does not follow is batched, differentiated twice, and run on the device; of what takes long, nothing is. What
    follows from what primitives are is checked for one function in three.
    """
    found, done = Findings(name), set(left_out(name))
    for case in NAMES[name]:
        theorem = follows(case)
        for cell in ("value", "jit"):
            found.check(cell, case, check, cell, case)
        if case is NAMES[name][0] and name.startswith("numpy."):
            found.check("plain", case, check, "plain", case)
        if case.empty("dtype") is None:
            found.check("dtype", case, check_dtype, case, False)
        for cell in DERIVED if not name.startswith(LONG) else [cell for cell in DERIVED if cell not in LONG_LEAVE]:
            if (cell not in done or not theorem and cell in EVEN_LATER) and found.check(cell, case, check, cell, case):
                done.add(cell)
        for kind, gradient in GRADIENTS.items() if case.empty("vjp") is None else ():
            if kind not in done and found.check(f"gradient, {kind}", case, gradient, case):
                done.add(kind)
    found.tell()


@pytest.mark.slow
@pytest.mark.parametrize("name", shard(list(NAMES)))
def test_the_cells_left_out(name: str) -> None:
    """All cells of later cases, and of the first what the quick test leaves out of distributions and of what takes long."""
    found = Findings(name)
    of_the_first = LONG_LEAVE if name.startswith(LONG) else left_out(name)
    for i, case in enumerate(NAMES[name]):
        for cell in (*(DERIVED if i else of_the_first), "dtype", *["plain"] * name.startswith("numpy.")):
            found.check(cell, case, check, cell, case)
    found.tell()


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
