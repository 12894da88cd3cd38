"""`source` and `export`: a program as a module of its own, which needs NumPy but not funcad.

    source_of(jaxpr, consts=(), names=None, title="", device=False) -> str
        the module's text: `run(<arguments>, xp=numpy) -> list of outputs`. `consts` are the values of the program's leading
        inputs (captured arrays), written into the text; `names` name the other inputs (`argument_names` makes them).
    export_to(path, jaxpr, consts=(), names=None, title="") -> list of the files written
        the same as a file `path` (".py" is added if it is missing); constants that are too large for text lie beside it, in
        an .npz file of the same name, which the module loads when it is imported.

`device`: the module takes CuPy's arrays, and is written as the program runs on these.

Idea: the same emission as the NumPy engine's, with `xp.` for `np.`: lines, loops and tiles are the ones that run, so results
are equal bit for bit (with threads only up to the order of sums over tiles). Above each run of lines stands the line of the
user's program that they come from; a value that the user's line names keeps that name. Operations without text of their own
bring their implementation along (bundle.py). Trap: what is called back (pure_callback) or has no text raises
NotImplementedError.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import linecache
import os
import re
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from funcad.backends.bundle import Bundle, array_text, packed_text
from funcad.backends.compositions import lowered
from funcad.backends.emission import Emission
from funcad.backends.memory import Storage, Value
from funcad.backends.py_loops import MAX_DEPTH
from funcad.backends.stacks import read_by_loops_alone
from funcad.backends.text import Line, Writer
from funcad.host.real_types import is_a
from funcad.host.where import file_label
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Jaxpr, Var, subjaxprs
from funcad.primitives.fused import fused_p
from funcad.primitives.host import HostCall
from funcad.primitives.loop import LOOPS

__all__ = ["source_of", "export_to", "argument_names"]

INLINE = 64  # elements of a constant that are written as numbers
_EITHER = "It needs NumPy only (and SciPy where the text imports it); with `xp=cupy` it takes CuPy arrays."
_DEVICE = "It needs CuPy, whose arrays it takes."
EMBEDDED = 4 * 1024 * 1024  # bytes of constants that `source_of` writes into the text
_RESERVED = {"xp", "np", "cp", "run", "_constants"}


def argument_names(paths: Sequence[str]) -> list[str]:
    """Identifiers for arguments, from texts such as `params['w'][0]`.

    >>> from funcad.backends.source import argument_names
    >>> argument_names(["x", "params['w'][0]", "x"])
    ['x', 'params_w_0', 'x_2']
    """
    found: list[str] = []
    for path in paths:
        name = re.sub(r"\W+", "_", path).strip("_") or "argument"
        if name[0].isdigit() or keyword.iskeyword(name) or name in _RESERVED or hasattr(builtins, name):
            name = f"{name}_" if not name[0].isdigit() else f"argument_{name}"
        chosen, k = name, 2
        while chosen in found:
            chosen, k = f"{name}_{k}", k + 1
        found.append(chosen)
    return found


def source_of(
    jaxpr: Jaxpr,
    consts: Sequence[Any] = (),
    names: Sequence[str] | None = None,
    title: str = "",
    traced: Jaxpr | None = None,
    device: bool = False,
) -> str:
    """The text of a module whose `run` computes what the program computes; see the module's text.

    `traced` is the program before the passes, if it went through some: it tells which values have the user's names.

    >>> import numpy as np, funcad
    >>> from funcad.backends.source import source_of
    >>> text = source_of(funcad.jit(lambda x: np.sin(x) * 2.0).lower(np.ones(3)).jaxpr, names=["x"])
    >>> module = {}
    >>> exec(text, module)
    >>> module["run"](np.zeros(2))
    [array([0., 0.])]
    """
    text, large = _module(jaxpr, consts, names, title, traced or jaxpr, device, beside=False)
    assert not large
    return text


def export_to(
    path: str | os.PathLike,
    jaxpr: Jaxpr,
    consts: Sequence[Any] = (),
    names: Sequence[str] | None = None,
    title: str = "",
    traced: Jaxpr | None = None,
    device: bool = False,
) -> list[str]:
    """Write the module of `source_of` to a file, large constants to an .npz file beside it; gives the paths written.

    >>> import numpy as np, funcad, os, tempfile
    >>> from funcad.backends.source import export_to
    >>> jaxpr = funcad.jit(lambda x: np.sin(x) * 2.0).lower(np.ones(3)).jaxpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [os.path.basename(p) for p in export_to(os.path.join(folder, "program"), jaxpr, names=["x"])]
    ['program.py']
    """
    path = os.fspath(path)
    if not path.endswith(".py"):
        path += ".py"
    text, large = _module(jaxpr, consts, names, title, traced or jaxpr, device, beside=True)
    written = [path]
    if large:
        np.savez(path[:-3] + ".npz", **large)  # type: ignore[arg-type]
        written.append(path[:-3] + ".npz")
    with open(path, "w", encoding="utf8") as file:
        file.write(text)
    return written


def _module(
    jaxpr: Jaxpr, consts: Sequence[Any], names: Sequence[str] | None, title: str, traced: Jaxpr, device: bool, beside: bool
) -> tuple[str, dict[str, np.ndarray]]:
    n = len(consts)
    given = list(names) if names is not None else [f"x{i}" for i in range(len(jaxpr.inputs) - n)]
    if len(given) != len(jaxpr.inputs) - n:
        raise TypeError(f"source_of: {len(jaxpr.inputs) - n} arguments have {len(given)} names")
    w = Writer(np_name="xp", device=device)
    for name in (*_RESERVED, *keyword.kwlist, *dir(builtins), "functools", "operator", "math", "os"):
        w.scope[name] = None  # not to be given to a value
    given = [w.reserve(name) for name in argument_names(given)]
    e = Emission(w, names=_user_names(jaxpr, traced))
    e.lists = read_by_loops_alone(jaxpr)
    captured = [w.reserve(f"constant{i}") for i in range(n)]
    placed = [_placed(name, x, e.lists) for name, x in zip(captured, consts)]
    local = [name if text is None else w.reserve(f"c{i}") for i, (name, text) in enumerate(zip(captured, placed))]
    for name, constant, text in zip(local, captured, placed):
        if text is not None:
            w.line(f"{name} = {text}")
        e.counts[constant] += 1
    inputs = [e.value(name, v.aval, [Storage(False)]) for name, v in zip([*local, *given], jaxpr.inputs)]
    outputs = e.program(jaxpr, inputs)
    w.equation = None
    w.line(f"return [{', '.join(map(_result, outputs))}]")

    bundle = Bundle({*w.scope, *_RESERVED, *w._taken} - set(dir(builtins)), e.lists)
    for name, value in [*w.scope.items(), *zip(captured, consts)]:
        if value is Stack or type(value) in (Stack, StackAval):
            bundle.define(name, value)
    callees = [f"    {name} = {_callee(bundle, *called)}" for name, called in w.callees.items()]
    definitions, large = _constants(captured, consts, beside)
    for name, value in w.scope.items():
        if name in w.spelled:
            definitions.append(f"{name} = {w.spelled[name]}")
        elif value is not None and name not in w.callees and not (value is Stack or type(value) is StackAval):
            definitions.append(f"{name} = {bundle.text(value, name)}")
    body: list[Line] = []
    for block in w.functions:
        body += [Line(line.depth + 1, line.text, line.equation) for line in block.lines()]
    lines = _commented([*body, *w.top.lines()])
    arguments = ", ".join([*given, "xp=cp" if device else "xp=np"])
    embedded = [d for d in definitions if "frombuffer(" in d]
    written = [d for d in definitions if "frombuffer(" not in d]
    described = f" of {title}" if title else ""
    count = f"{len(outputs)} result" + "s" * (len(outputs) != 1)
    parts = [
        f'"""Written by funcad{described}: `run({", ".join(given)})` gives the list of its {count}.\n\n'
        f"{_DEVICE if device else _EITHER}\n\"\"\"\n",
        *_imports(bundle, large, definitions),
        *(["import cupy as cp"] if device else []),
        "import numpy as np",
        *(["", *_loader(large)] if large else []),
        *(["", *written] if written else []),
        *[f"\n\n{d}" if d.startswith("def ") else d for d in bundle.definitions],
        f"\n\ndef run({arguments}):",
        *callees,
        *lines,
        *(["\n", *embedded] if embedded else []),
    ]
    return "\n".join(parts) + "\n", large


def _placed(name: str, value: Any, lists: bool) -> str | None:
    """The text that moves a captured value to the device; None: it need not be moved."""
    if type(value) is Stack:
        entries = f"[xp.asarray(v) for v in {name}]"
        if not value or not value.aval.element.shape:
            return None
        return entries if lists else f"type({name})({entries}, {name}.aval)"
    return f"xp.asarray({name})" if is_a(value, np.ndarray) and value.shape else None


def _result(value: Value) -> str:
    """An output's text: what may be a 0-d array that was handed through becomes a scalar, as jit's results are."""
    handed = bool(value.storages) and isinstance(value.aval, Aval) and not value.aval.shape and not value.aval.weak
    return f"xp.asarray({value.text})[()]" if handed else value.text


def _imports(bundle: Bundle, large: dict, definitions: list[str]) -> list[str]:
    found = set(bundle.imports)
    if large:
        found.add("import os")
    if any(["frombuffer(" in d for d in definitions]):
        found |= {"import base64", "import zlib"}
    return [*sorted(found), *([""] if found else [])]


def _loader(large: dict) -> list[str]:
    lines = ['_constants = np.load(os.path.splitext(os.path.abspath(__file__))[0] + ".npz")']
    return [*lines, *[f'{name} = _constants["{name}"]' for name in large]]


def _constants(names: list[str], consts: Sequence[Any], beside: bool) -> tuple[list[str], dict[str, np.ndarray]]:
    """Definitions of the captured arrays, and those that go into a file."""
    definitions, large, total = [], {}, 0
    for name, value in zip(names, consts):
        if type(value) is Stack:
            continue  # the bundle has defined it
        if not is_a(value, np.ndarray):
            definitions.append(f"{name} = {Bundle(set()).text(value, name)}")
        elif value.size <= INLINE:
            definitions.append(f"{name} = {array_text(value)}")
        elif beside:
            large[name] = value
        else:
            total += value.nbytes
            if total > EMBEDDED:
                raise ValueError(
                    f"source: the function captures more than {EMBEDDED} bytes of arrays ({name} has shape {value.shape}).\n"
                    "Remedy: pass them as arguments, or use export, which writes them into a file beside the module."
                )
            definitions.append(f"{name} = {packed_text(value)}")
    return definitions, large


def _callee(bundle: Bundle, equation: Any, rule: str) -> str:
    """The implementation of an operation, `impl` or `over`, for this equation's parameters."""
    primitive = equation.primitive
    try:
        name = bundle.text(getattr(primitive, rule), f"{primitive.name}_{rule}")
        params = [f"{key}={bundle.text(value, key)}" for key, value in equation.params.items()]
    except NotImplementedError:
        raise _refusal(equation) from None
    return f"lambda *args: {', '.join([f'{name}(xp, *args', *params])})"


def _refusal(equation: Any) -> NotImplementedError:
    """Why the operation cannot be exported, in the words of the user's program."""
    name, source = equation.primitive.name, equation.source
    called = {"debug_callback": "a function of funcad.debug"}.get(name, name)
    where = f" at {source}" if source is not None else ""
    if any([type(value) is HostCall for value in equation.params.values()]):
        return NotImplementedError(
            f"source: this program calls back into Python ({called}{where}), so it cannot run without funcad.\n"
            "Remedy: leave the call out of the exported function: return what it was to get, and call it with the result; "
            "or run the function with funcad."
        )
    if name in LOOPS or name == "cond":
        return NotImplementedError(
            f"source: {name}{where} is inside {MAX_DEPTH} or more loops and branches, too deep for Python's own.\n"
            "Remedy: make one of the loops around it a vmap or a longer loop, or run the function with funcad."
        )
    return NotImplementedError(
        f"source: {name}{where} needs parts of funcad that cannot be written out, so it cannot run without funcad.\n"
        "Remedy: compute it before and give the exported function the result as an argument, or run the function with funcad."
    )


# ---------------------------------------------------------------- the user's names and lines


def _place(equation: Any) -> tuple[str, int] | None:
    source = None if equation is None else equation.source
    return None if source is None else (source.code.co_filename, source.line)


def _commented(lines: list[Line]) -> list[str]:
    """The lines, below comments that say which of the user's lines they come from."""
    result, last = [], None
    for line in lines:
        place = _place(line.equation)
        if place is not None and place != last:
            last = place
            filename, number = place
            written = linecache.getline(filename, number).strip()
            where = f"{os.path.basename(file_label(filename))}:{number}"
            result.append(f"{'    ' * line.depth}# {where}{': ' + written if written else ''}")
        result.append("    " * line.depth + line.text)
    return result


def _user_names(jaxpr: Jaxpr, traced: Jaxpr) -> dict[Var, str]:
    """Names that the user's lines give to values: of each line that assigns to one name, its last equation's result.

    `traced`, the program before the passes, tells shape and dtype of what a line assigns. What a gradient computes for a line
    is something else; it comes after later lines of the same function.
    """
    assigned = _assigned_avals(traced)
    found: dict[tuple[str, int], Var] = {}
    equations = list(_in_order(jaxpr))
    reached: dict[CodeType, int] = {}  # the last line of each function so far
    done: set[tuple[str, int]] = set()
    for equation, following in zip(equations, [*equations[1:], None]):
        place = _place(equation)
        if place is None or place[1] < reached.get(equation.source.code, 0):
            continue
        reached[equation.source.code] = place[1]
        (var, *others) = equation.outputs or (None,)
        if place not in done and not others and var is not None and _kind(var) == assigned.get(place):
            found[place] = var
        if place in found and place != _place(following):
            done.add(place)
    names = {v: _assigned(linecache.getline(*place)) for place, v in found.items()}
    return {v: name for v, name in names.items() if name is not None}


def _kind(var: Var) -> tuple | None:
    aval = var.aval
    return (aval.shape, aval.dtype) if isinstance(aval, Aval) else None


def _assigned_avals(traced: Jaxpr) -> dict[tuple[str, int], Any]:
    """Shape and dtype of the value that each line of the user's ends with when it runs for the first time."""
    found: dict[tuple[str, int], Any] = {}
    done: set[tuple[str, int]] = set()
    last = None
    for equation in traced.equations:
        place = _place(equation)
        if place != last and last is not None:
            done.add(last)
        if place is not None and place not in done and equation.outputs:
            found[place] = _kind(equation.outputs[0])
        last = place
    for equation in traced.equations:
        for inner in subjaxprs(equation.params):
            found = {**_assigned_avals(inner), **found}
    return found


def _in_order(jaxpr: Jaxpr) -> Iterator[Any]:
    """The equations as they are written, those of groups in the place of the group."""
    for equation in lowered(jaxpr):
        if equation.primitive is fused_p:
            yield from _in_order(equation.params["jaxpr"])
        else:
            yield equation


def _assigned(line: str) -> str | None:
    """The name that a line assigns to, if it is one assignment to one name."""
    try:
        body = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    if len(body) == 1 and isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        target = body[0].targets[0]
        if isinstance(target, ast.Name) and not hasattr(builtins, target.id) and target.id not in _RESERVED:
            return target.id
    return None
