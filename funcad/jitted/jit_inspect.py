"""What a jitted function tells of its programs: `lower`, `compile`, costs, `source`, `cuda`, `export`, `explain` and `profile`.

The methods of `Jitted` end here; they are given an entry of the cache, traced for arguments or for ShapeDtypeStructs. Trap: the
modules that write text are loaded when somebody asks for text, never at `import funcad`.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, name_of, own_memory
from funcad.api.tools import ShapeDtypeStruct
from funcad.backends import engines
from funcad.backends.cost import cost_of
from funcad.backends.engines import program_of
from funcad.configuration import escape
from funcad.control.call import call_p
from funcad.host.devices import is_device, namespace_of
from funcad.ir.aval import aval_of, said
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.tracer import Tracer
from funcad.jitted.jit_cache import Entry
from funcad.jitted.path_report import outside
from funcad.primitives.families import avals_text
from funcad.primitives.placement import put


def labels_of(in_tree: Any, names: Sequence[str]) -> list[str]:
    """The leaves as the function's author knows them: `params['w']`; `names` are those of the positional arguments."""
    labels = []
    for path in in_tree.paths():
        keyword, step = path[0].idx == 1, path[1]
        labels.append((step.key if keyword else names[step.idx]) + tree.keystr(path[2:]))
    return labels


def _compiled_program(entry: Entry) -> Jaxpr:
    """The program as the passes leave it, in groups."""
    outputs, batch = [importlib.import_module(f"funcad.passes.{name}") for name in ("pipeline", "example_loops")]
    program: Jaxpr = batch.grouped(outputs.pipeline_end(entry.jaxpr))
    return program


def _check_wide(jaxpr: Jaxpr, why: str) -> None:
    if jaxpr.narrow:
        raise NotImplementedError(
            f"the program has values of bfloat16 or float8, which run operation by operation: {why}.\n"
            "Remedy: pass x.astype(np.float32), and take result.astype(x.dtype)."
        )


def _to_write(entry: Entry, leaves: Sequence[Any]) -> tuple[Jaxpr, list[Any], bool]:
    """(the program, its captured values on the host, are its arrays those of a device?) as text is made of them."""
    _check_wide(entry.jaxpr, "there is no text of them")
    library, program = namespace_of([*entry.consts, *leaves]), program_of(entry.jaxpr)
    if library is np or entry.jaxpr.moves:
        return _compiled_program(entry), list(entry.consts), False
    jaxpr = program.on_device(library).optimized if isinstance(program, engines.EngineProgram) else entry.jaxpr
    return jaxpr, [put(x, "cpu", None) if is_device(type(x)) else x for x in entry.consts], True


def source_text(entry: Entry, leaves: Sequence[Any], names: Sequence[str], title: str) -> str:
    """The program as the text of a Python module; for arrays of a device, the calls of CuPy's that run there."""
    write = importlib.import_module("funcad.backends.source").source_of
    program, consts, device = _to_write(entry, leaves)
    text: str = write(program, consts, labels_of(entry.in_tree, names), title, entry.jaxpr, device)
    return text


def exported(
    path: Any,
    entry: Entry,
    leaves: Sequence[Any],
    names: Sequence[str],
    title: str,
) -> list[str]:
    """The program written to a file; the paths of all files written."""
    write = importlib.import_module("funcad.backends.source").export_to
    program, consts, device = _to_write(entry, leaves)
    paths: list[str] = write(path, program, consts, labels_of(entry.in_tree, names), title, entry.jaxpr, device)
    return paths


def exported_to_c(
    path: Any, functions: Sequence[tuple[str, Any, tuple, dict]], overwrite: bool, constants: str
) -> list[str]:
    """A library of C's, of (the name in the library, the core of a jitted function, its arguments)."""
    library = importlib.import_module("funcad.backends.export.c_library")
    prefix, parts = os.path.basename(os.fspath(path)), []
    for name, core, args, kwargs in functions:
        entry, names, title = core.program("export_c", args, kwargs), core.argument_names(args), name_of(core.f)
        refused = "writes into its arguments" if entry.written else "stores what it computed" if entry.stores else ""
        if refused or entry.jaxpr.moves:
            raise NotImplementedError(
                f"export_c of {title}: the function {refused or 'moves arrays between devices'}, one of C's gives results.\n"
                "Remedy: return the new value."
            )
        labels = []
        for steps in entry.in_tree.paths():
            first = steps[1].key if steps[0].idx == 1 else names[steps[1].idx].replace(" ", "")
            labels.append("_".join([str(first), *[tree.keystr((step,), simple=True) for step in steps[2:]]]))
        outs = ["_".join(["out", *[tree.keystr((step,), simple=True) for step in steps]]) for steps in entry.out_tree.paths()]
        symbol = f"{prefix}_{name}" if name else prefix
        parts.append(library.Exported(symbol, entry.jaxpr, entry.consts, labels, outs))
    found: list[str] = library.write_library(path, parts, overwrite, constants)
    return found


def kernel_text(entry: Entry, leaves: Sequence[Any], name: str) -> str:
    """The kernels of the program as it would run on a device, in CUDA C++."""
    _check_wide(entry.jaxpr, "there are no kernels of them")
    if entry.jaxpr.moves:
        raise ValueError(f"cuda of jit of {name}: there are no kernels, because the program moves arrays")
    sketches, programs = [importlib.import_module(f"funcad.backends.{module}") for module in ("cuda.sketches", "cupy_program")]
    fused = programs.OnDevice(program_of(entry.jaxpr, "cuda"), sketches.on_paper).fused
    values = zip(fused.inputs, [*entry.consts, *leaves])
    known = {v: sketches.outline_of(x) for v, x in values if is_device(type(x))}
    text: str = sketches.listing(fused, known, name)
    return text


def explained(entry: Entry, leaves: Sequence[Any], name: str) -> Any:
    """What the compiler made of the program; shapes without arrays are a GPU's where the engine is for those alone."""
    values = [*entry.consts, *leaves]
    shapes = any([isinstance(x, ShapeDtypeStruct) for x in leaves])
    found = importlib.import_module("funcad.backends.explain").Explanation(program_of(entry.jaxpr), values, name, shapes)
    found.outside = outside(entry)
    return found


def profiled(entry: Entry, leaves: Sequence[Any], name: str) -> Any:
    """Where the time of the program goes; it runs."""
    values = [*entry.consts, *leaves]
    for x in values:
        if isinstance(x, (ShapeDtypeStruct, Tracer)):
            raise TypeError(
                f"profile of jit of {name} runs the program, so it needs arrays; got {said(x)} without a "
                "value.\nexplain(...) and lower(...).cost_analysis() take shapes and dtypes."
            )
    return importlib.import_module("funcad.backends.profile").RunProfile(program_of(entry.jaxpr), values, name)


class Lowered:
    """A traced program: `.jaxpr`, `.as_text()`, `.compile()`, `.cost_analysis()`."""

    def __init__(self, entry: Entry, name: str, ordered: bool):
        self._entry = entry
        self.name = name
        self._ordered = ordered  # the function can tell the order of keyword arguments

    @property
    def jaxpr(self) -> Jaxpr:
        return self._entry.jaxpr

    def __repr__(self) -> str:
        jaxpr = self.jaxpr
        avals = ", ".join([a.short for a in jaxpr.in_avals[len(self._entry.consts) :]])
        outs = ", ".join([a.short for a in jaxpr.out_avals])
        return f"<{self.name} lowered for ({avals}): {len(jaxpr.equations)} equations -> ({outs}); as_text() shows them>"

    def _repr_html_(self) -> str:
        return f"<div><b>{escape(repr(self))}</b></div>{self.jaxpr._repr_html_()}"

    def as_text(self) -> str:
        """The program as text."""
        return str(self._entry.jaxpr)

    def compile(self) -> Compiled:
        """The program compiled now, for arguments of exactly these shapes and dtypes; calls of the function use it, too.

        A `Compiled`. It raises nothing that `lower` does not. As JAX's, whose calls of the function compile anew.

        >>> import numpy as np, funcad
        >>> f = funcad.jit(lambda x: 2.0 * x)
        >>> f.lower(np.ones(2)).compile()(np.ones(2))
        array([2., 2.])
        """
        program = program_of(self._entry.jaxpr)
        if isinstance(program, engines.EngineProgram):
            program.written_out()
        return Compiled(self._entry, self.name, self._ordered)

    def cost_analysis(self) -> dict[str, float]:
        """Estimates for one run: "flops", "transcendentals", "bytes accessed"."""
        return cost_of(self._entry.jaxpr)


class Compiled:
    """A program for one signature; calling it checks the arguments against the signature."""

    def __init__(self, entry: Entry, name: str, ordered: bool):
        self._entry = entry
        self.name = name
        self._ordered = ordered  # the function can tell the order of keyword arguments

    @api
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entry = self._entry
        leaves, in_tree = tree.flatten((args, kwargs if self._ordered else dict(sorted(kwargs.items()))))
        if in_tree != entry.in_tree:
            raise TypeError(
                f"compiled {self.name} takes the dynamic arguments that it was lowered for (static ones are part of it).\n"
                + tree.describe_difference(in_tree, entry.in_tree, "(args, kwargs)", "(args, kwargs) of lower")
            )
        if entry.ordered and in_tree.orders != entry.in_tree.orders:
            raise TypeError(
                f"compiled {self.name} was lowered for dicts whose keys come in another order, which the function can see.\n"
                "Remedy: call the jitted function itself; or give the keys in the order that they had in lower."
            )
        expected = entry.jaxpr.in_avals[len(entry.consts) :]
        found = [aval_of(x) for x in leaves]
        if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
            raise TypeError(
                f"compiled {self.name} was lowered for {avals_text(expected)}; got {avals_text(found)}. "
                "Remedy: call the jitted function itself for other shapes and dtypes."
            )
        told = entry.answers_for(leaves)
        if told is not None and entry.answers is not None and told.strides != entry.answers.strides:
            raise TypeError(
                f"compiled {self.name} asks for the memory order of its arguments (order='K' or 'A'), and was lowered for "
                "another one. Call the jitted function itself."
            )
        outs = call_p(*entry.consts, *leaves, jaxpr=entry.jaxpr, name=self.name)
        return entry.out_tree.unflatten(own_memory(outs, [*entry.consts, *leaves], entry.orders))

    def cost_analysis(self) -> dict[str, float]:
        """As `Lowered.cost_analysis`."""
        return cost_of(self._entry.jaxpr)
