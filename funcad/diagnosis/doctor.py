"""The border of the doctor: arguments in, one run, the report out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, name_of, normalize_argnums, positional_names
from funcad.diagnosis.findings import arguments, backward_findings, forward_findings
from funcad.diagnosis.recording import Recording, follow
from funcad.diagnosis.report import Diagnosis
from funcad.host.devices import namespace_of
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.tracer import Tracer

__all__ = ["diagnose"]


def diagnose(f: Callable[..., Any], argnums: int | Sequence[int] | None, has_aux: bool) -> Callable[..., Diagnosis]:
    """`funcad.debug.doctor`, which says what it does."""

    @api
    def examined(*args: Any, **kwargs: Any) -> Diagnosis:
        leaves, in_tree = tree.flatten((args, kwargs))
        paths = _paths(f, (args, kwargs))
        chosen = _chosen(args, kwargs, argnums)
        known = [_is_array(x) for x in leaves]
        if any(type(x) is Tracer for x in leaves):
            raise TypeError("doctor runs a function on values; call it outside of jit, grad and vmap, and let it look inside")
        if namespace_of([x for x, k in zip(leaves, known) if k]) is not np:
            raise TypeError("doctor looks at NumPy arrays; funcad.device_get(x) brings the arguments back from the device")
        differentiated = [k and c and is_inexact(aval_of(x)) for x, k, c in zip(leaves, known, chosen)]
        run = Recording()

        def flat(*xs: Any) -> list[Any]:
            given, keywords = in_tree.unflatten(xs)
            out = f(*given, **keywords)
            if has_aux:
                if not (isinstance(out, tuple) and len(out) == 2):
                    got = type(out).__name__
                    raise TypeError(f"with has_aux=True, {name_of(f)} must return a pair (output, aux); it returned {got}")
                out = out[0]
            return [x for x in tree.leaves(out) if _is_array(x)]

        try:
            with np.errstate(all="ignore"):
                follow(run, flat, leaves, differentiated)
        except Exception as error:
            _note(error, run, f, paths)
            raise
        return Diagnosis(
            name_of(f),
            _result(run),
            _remark(run, differentiated),
            len(run.entries),
            forward_findings(run, paths),
            backward_findings(run),
            arguments(run, paths, leaves, [k and c for k, c in zip(known, chosen)]),
        )

    return examined


def _is_array(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def _paths(f: Any, example: tuple[tuple, dict]) -> list[str]:
    """How the user would write each leaf: `x`, `params['w'][0]`."""
    names = positional_names(f)
    result = []
    for path, _ in tree.flatten_with_path(example)[0]:
        kind, first, *rest = path
        if kind.idx == 1:
            name = str(first.key)
        else:
            name = names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
        result.append(name + tree.keystr(tuple(rest)))
    return result


def _chosen(args: tuple, kwargs: dict, argnums: Any) -> list[bool]:
    """Which leaves the report is about."""
    positions = range(len(args)) if argnums is None else normalize_argnums(argnums, len(args), "doctor")[0]
    flags: list[bool] = []
    for i, a in enumerate(args):
        flags += [i in positions] * tree.structure(a).num_leaves
    return flags + [argnums is None] * tree.structure(kwargs).num_leaves


def _result(run: Recording) -> str:
    texts = [str(aval_of(x)).replace("*", "") for x, _ in run.outputs]
    if len(texts) == 1 and not np.shape(run.outputs[0][0]):
        return f"{texts[0]} = {np.asarray(run.outputs[0][0])[()]}"
    return f"({', '.join(texts)})" if len(texts) != 1 else texts[0]


def _remark(run: Recording, differentiated: Sequence[bool]) -> str:
    if not any(differentiated):
        return "no argument is of floating point, so there is nothing to differentiate; only NumPy saw the values"
    if len(run.outputs) == 1 and not np.shape(run.outputs[0][0]):
        return ""
    return "the result is not one number: the sum of all its elements is differentiated (a vjp with ones)"


def _note(error: Exception, run: Recording, f: Any, paths: Sequence[str]) -> None:
    """The report cannot be given, but what was seen before the error can."""
    found = forward_findings(run, paths)
    first = f"the first value that is not finite: {found[0]}  {found[0].place}".rstrip() if found else ""
    seen = first or "every value was finite"
    error.add_note(f"doctor: {name_of(f)} raised this after {len(run.entries)} operations; {seen}")
