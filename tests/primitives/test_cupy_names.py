"""Every function of CuPy's that funcad calls exists in the real package, and takes what it is given. Needs the wheel, no GPU.

The op table runs on the stand-in (tests/standin.py), which writes down what it is asked for; that is bound against CuPy's own
signatures and the types of its ufuncs. And what the stand-in says CuPy lacks, or has, is compared with the package.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funcad import jit, jvp, vjp, vmap
from tests import standin, standin_names
from tests.ir.test_every_primitive import direction, partial, stacked
from tests.specs import OpSpec, all_specs

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # that it finds no GPU
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda12x", exc_type=ImportError)
    special = importlib.import_module("cupyx.scipy.special")


def everything(op: OpSpec) -> None:
    """Values, jit, derivatives and batching of one line of the table, on the stand-in."""
    there = standin.to_device
    for args in op.samples():
        if not any(isinstance(x, np.ndarray) for x in args):
            continue
        outs = op.call(*args)
        moved, positions = [there(x) for x in args], op.variables(args)
        jitted = jit(op.of_variables(moved, positions))
        for _ in range(2):  # the second run is of the lines that were written
            jitted(*[moved[i] for i in positions])
        positions = op.differentiable(args)
        if op.order and positions and any(np.asarray(o).dtype.kind in "fc" for o in outs):
            rng = np.random.default_rng(0)
            chosen = tuple(there(args[i]) for i in positions)
            f = partial(op, tuple(moved), positions)
            jvp(f, chosen, tuple(there(direction(args[i], rng)) for i in positions))
            out, pull = vjp(f, *chosen)
            pull(list(out))
        if op.batch:
            positions = [i for i in op.variables(args) if isinstance(args[i], np.ndarray)]
            vmap(op.of_variables(args, positions))(*[there(stacked(args[i])) for i in positions])


@pytest.fixture(scope="module")
def calls() -> Iterator[dict[str, set]]:
    with standin.registered(), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        standin.calls = {}
        for op in all_specs():
            if "cupy" in op.backends:
                everything(op)
        found, standin.calls = standin.calls, None
    yield found


def real(path: str) -> Any:
    """CuPy's function of that path in the stand-in."""
    parts = path.split(".")
    roots = {"special": special, "ndarray": cupy.ndarray}
    found = roots.get(parts[0], cupy)
    for name in parts[1:] if parts[0] in roots else parts:
        found = getattr(found, name)
    return found


def signature(function: Any) -> inspect.Signature | None:
    """That of a function, of a compiled one as the first line of its docstring has it; None if nobody says."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        first = (function.__doc__ or "").partition("\n")[0]
    written = re.search(r"\((.*)\)", first)
    if written is None:
        return None
    scope: dict[str, Any] = {}
    plain = ", ".join([p.split("=")[0].split()[-1] + p[len(p.split("=")[0]) :] for p in written[1].split(", ")])  # no C types
    exec(f"def f({plain}): pass", scope)
    return inspect.signature(scope["f"])


def test_what_is_called_exists_and_takes_its_arguments(calls: dict[str, set]) -> None:
    assert len(calls) > 150 and {"linalg.solve", "add.at", "special.erf", "ndarray.reshape", "where"} <= set(calls)
    wrong, unknown = [], set()
    for path, ways in calls.items():
        if path.startswith("scipy.linalg."):
            continue  # it takes cuBLAS to import it: see below
        function = real(path)
        for count, keywords, dtypes in ways:
            if isinstance(function, cupy.ufunc):
                if count not in (function.nin, function.nargs) or set(keywords) - {"out", "dtype", "casting", "where"}:
                    wrong.append((path, count, keywords))
                elif dtypes and not has_loop(function, dtypes[: function.nin]):  # behind them, the result
                    wrong.append((path, dtypes))
                continue
            known = signature(function)
            if known is None:
                unknown.add(path)
                continue
            own = path.endswith(".at")  # a method of the ufunc, whose docstring counts `self`
            try:
                known.bind(*[None] * (count + own), **dict.fromkeys(keywords))
            except TypeError as error:
                wrong.append((path, count, keywords, str(error)))
    assert not wrong, wrong
    assert not unknown, unknown


def has_loop(ufunc: Any, dtypes: str) -> bool:
    """Can arrays of these dtypes be cast to what one of the loops takes?"""
    loops = [loop.partition("->")[0] for loop in ufunc.types]
    known = [c for c in loops if len(c) >= len(dtypes) and set(c) <= set(np.typecodes["All"])]  # bfloat16 is none of NumPy's
    return any([all([np.can_cast(d, c) for d, c in zip(dtypes, loop)]) for loop in known])


def test_what_the_stand_in_lacks_and_has_is_what_cupy_lacks_and_has() -> None:
    def missing(ours: Any, theirs: Any) -> set[str]:
        return {n for n in dir(ours) if not n.startswith("_") and callable(getattr(ours, n)) and not hasattr(theirs, n)}

    machine = {n for n in dir(np) if re.fullmatch(r"(float|complex|int|uint)\d+", n)}  # of the size of a long double, say
    assert missing(np, cupy) - machine <= standin_names.ABSENT[""]
    assert not {n for n in standin_names.ABSENT[""] if hasattr(cupy, n)}
    assert {n for n in np.linalg.__all__ if not hasattr(cupy.linalg, n)} == standin_names.ABSENT["linalg"]
    assert {n for n in standin_names.SPECIAL if not hasattr(special, n)} == set()
    source = Path(importlib.util.find_spec("cupyx.scipy").origin).parent / "linalg" / "__init__.py"  # type: ignore
    imports = [n for n in ast.walk(ast.parse(source.read_text(encoding="utf8"))) if isinstance(n, ast.ImportFrom)]
    assert standin_names.LINALG <= {a.asname or a.name for n in imports for a in n.names}
    for name in dir(standin.DeviceArray):
        if name.startswith("__") and name not in dir(object) and name not in ("__module__", "__getattr__", "__dict__"):
            assert hasattr(cupy.ndarray, name), name


def test_version() -> None:
    assert int(cupy.__version__.partition(".")[0]) >= 14  # as setup.cfg asks for
