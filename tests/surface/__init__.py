"""The table of public functions: what `tests/numpy/test_surface.py` checks of every function that users can call.

Each file of this folder holds one area, `CASES = [case(...), ...]`. A case names a function by its path under funcad and says
on what to call it:

    case("scipy.special.betainc", 1.5, 2.0, np.array([0.1, 0.7]))

* `name`: resolved to funcad's function and, unless `reference` says otherwise, to NumPy's or SciPy's function of the same path.
  `"ndarray.sum"` is the method or attribute of an array, `"operator.add"` the operator.
* positional arguments: arrays and floats are traced and differentiated, except at the positions in `nondiff` (arrays there are
  traced without derivative, everything else there is static). Arrays of integers, bools and keys are traced without derivative.
  Python ints, bools, strings, None, callables are static. Lists, tuples and dicts are pytrees of all these.
* `static`: positions whose arguments are passed as they are, arrays too.
* `kwargs`: static keyword arguments.
* `order`: how often it may be differentiated: 0, 1 or 2. A derivative of higher order must raise.
* `tolerance`: relative to the largest element, for first derivatives; second ones get a hundred times more.
* `reference`: a callable of the same arguments, instead of NumPy's or SciPy's function; False: there is none.
* `gauge`: a function of the outputs, applied before anything is compared or differentiated (the sign of eigenvectors, one
  field of a result); written with NumPy functions, so that it works on traced values.
* `call`: `call(function, *args, **kwargs)`, for what is not a plain call: `lambda vectorize, x: vectorize(f)(x)`.
* `missing`: `{cell: reason}` for the cells of CELLS that are empty. Such a cell must raise, except "dtype" (the result of
  float32 has another dtype on purpose).
* `elsewhere`: `{cell: where}` for cells that hold but cannot be checked here (a derivative that is not that of the numbers
  themselves); the page counts them as held, and says where they are tested.
* `agreement`: relative tolerance of jit and vmap against the plain call, where 2 ulp are too strict (iterative methods);
  None: strict.
* `quiet`: run under np.errstate(all="ignore").

Shapes small (3 x 3), values away from kinks and poles; several cases per function for its options.
"""

from __future__ import annotations

import importlib
import operator
import pkgutil
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import funcad
from funcad import tree
from tests.specs import OpSpec, all_specs

__all__ = ["case", "all_cases", "resolve", "Case", "CELLS", "BROKEN"]

CELLS = ("plain", "jvp", "vjp", "second", "vmap", "jit", "cupy", "dtype")

BROKEN: list[tuple[str, Exception]] = []  # files of this folder that could not be imported


class Case:
    """One line of the table; see the module's text."""

    __slots__ = (
        "name",
        "args",
        "kwargs",
        "order",
        "nondiff",
        "static",
        "tolerance",
        "reference",
        "gauge",
        "call",
        "missing",
        "elsewhere",
        "agreement",
        "quiet",
        "id",
    )

    def __init__(self, **fields: Any):
        for name, value in fields.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"<case {self.id}>"

    def empty(self, cell: str) -> str | None:
        """Why the cell is empty; None if it is to work."""
        if cell in self.missing:
            return self.missing[cell]
        if "jvp" in self.missing and cell in ("vjp", "second"):
            return self.missing["jvp"]
        if "vjp" in self.missing and cell == "second":
            return self.missing["vjp"]
        if cell in ("jvp", "vjp") and self.order < 1 or cell == "second" and self.order < 2:
            return f"differentiable {['never', 'once'][self.order]}"
        return None

    def function(self, which: Any = None) -> Callable[..., Any]:
        """The function of the positional arguments, gauge included; `which`: another function than funcad's."""
        fn = resolve(self.name)[0] if which is None else which
        call, gauge, kwargs = self.call, self.gauge, self.kwargs

        def run(*args: Any) -> Any:
            with np.errstate(all="ignore") if self.quiet else np.errstate():
                out = fn(*args, **kwargs) if call is None else call(fn, *args, **kwargs)
                return out if gauge is None else gauge(out)

        return run

    def reference_function(self) -> Callable[..., Any] | None:
        if self.reference is False:
            return None
        if self.reference is None:
            found = resolve(self.name)[1]
            return None if found is None else self.function(found)
        reference, gauge = self.reference, self.gauge

        def run(*args: Any) -> Any:
            with np.errstate(all="ignore") if self.quiet else np.errstate():
                out = reference(*args, **self.kwargs)
                return out if gauge is None else gauge(out)

        return run

    def leaves(self) -> list[tuple[Any, str]]:
        """(leaf, "diff" | "traced" | "static") of all positional arguments."""
        found: list[tuple[Any, str]] = []
        for i, a in enumerate(self.args):
            found += [(leaf, self._kind(leaf, i)) for leaf in tree.leaves(a)]
        return found

    def _kind(self, leaf: Any, position: int) -> str:
        if position in self.static:
            return "static"
        if isinstance(leaf, np.ndarray):
            if leaf.dtype.kind in "fc":
                return "traced" if position in self.nondiff else "diff"
            return "traced" if leaf.dtype.kind in "iub" else "static"
        inexact = isinstance(leaf, (float, complex, np.inexact))
        return "diff" if inexact and position not in self.nondiff else "static"

    def over(self, function: Callable[..., Any], kinds: Sequence[str]) -> tuple[Callable[..., Any], list[Any]]:
        """(the function of the list of leaves of those kinds alone, these leaves)."""
        leaves, structure = tree.flatten(tuple(self.args))
        chosen = [i for i, (_, kind) in enumerate(self.leaves()) if kind in kinds]

        def f(*values: Any) -> Any:
            full = list(leaves)
            for i, v in zip(chosen, values):
                full[i] = v
            return function(*structure.unflatten(full))

        return f, [leaves[i] for i in chosen]


def case(
    name: str,
    *args: Any,
    kwargs: dict[str, Any] | None = None,
    order: int = 2,
    nondiff: Sequence[int] = (),
    static: Sequence[int] = (),
    tolerance: float = 1e-6,
    reference: Any = None,
    gauge: Callable[[Any], Any] | None = None,
    call: Callable[..., Any] | None = None,
    missing: dict[str, str] | None = None,
    elsewhere: dict[str, str] | None = None,
    agreement: float | None = None,
    quiet: bool = False,
    id: str | None = None,
) -> Case:
    """One line of the table; see the module's text."""
    missing = dict(missing or {})
    for cell, reason in missing.items():
        if cell not in CELLS:
            raise ValueError(f"case {name}: missing={cell!r} is not one of {CELLS}")
        if not reason or not isinstance(reason, str):
            raise ValueError(f"case {name}: missing[{cell!r}] needs its reason")
    return Case(
        name=name,
        args=args,
        kwargs=dict(kwargs or {}),
        order=order,
        nondiff=tuple(nondiff),
        static=tuple(static),
        tolerance=tolerance,
        reference=reference,
        gauge=gauge,
        call=call,
        missing=missing,
        elsewhere=dict(elsewhere or {}),
        agreement=agreement,
        quiet=quiet,
        id=id or name,
    )


def all_cases() -> list[Case]:
    """The cases of every file of this folder, in alphabetical order of files; ids made unique by a number."""
    found: list[Case] = []
    BROKEN.clear()
    for module in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        try:
            found += getattr(importlib.import_module(f"{__name__}.{module.name}"), "CASES", [])
        except Exception as error:
            BROKEN.append((module.name, error))
    found += [_of_spec(op) for op in all_specs() if op.public is not None]
    seen: dict[str, int] = {}
    for c in found:
        n = seen[c.id] = seen.get(c.id, 0) + 1
        if n > 1:
            c.id = f"{c.id}-{n}"
    return found


def _of_spec(op: OpSpec) -> Case:
    """The line of a primitive whose spec names its public function."""
    name, kwargs = op.public
    reference = False if op.reference is None else lambda *args, **kwargs: op.reference(*args)
    fields: dict[str, Any] = {"order": op.order, "nondiff": op.nondiff, "tolerance": op.tolerance, "reference": reference}
    return case(name, *op.samples()[0], kwargs=kwargs, **fields)


def _method(name: str) -> Callable[..., Any]:
    def method(x: Any, *args: Any, **kwargs: Any) -> Any:
        found = getattr(x, name)
        return found(*args, **kwargs) if callable(found) else found

    method.__name__ = name
    return method


def _walk(root: Any, module: str, path: Sequence[str]) -> Any:
    """The attribute at that path; modules on the way are imported. None if it does not exist."""
    found = root
    for i, part in enumerate(path):
        after = getattr(found, part, None)
        if after is None:
            try:
                after = importlib.import_module(".".join([module, *path[: i + 1]]))
            except ModuleNotFoundError:
                return None
        found = after
    return found


def resolve(name: str) -> tuple[Any, Any]:
    """(funcad's function, NumPy's or SciPy's function of the same path or None)."""
    head, *path = name.split(".")
    if head == "ndarray":
        return (_method(path[0]),) * 2
    if head == "operator":
        return (getattr(operator, path[0]),) * 2
    function = _walk(funcad, "funcad", [head, *path])
    if function is None:
        raise LookupError(f"funcad has no {name}")
    if head not in ("numpy", "scipy"):
        return function, None
    return function, _walk(importlib.import_module(head), head, path)
