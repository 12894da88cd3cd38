"""Run one program on one engine and compare it with the reference; make a failing program small.

`check(jaxpr, values, engine)` runs the compiled program several times. Each run must agree with the reference; the results of
earlier runs must stay as they were, and a result that the caller overwrites must not show up in the next run; inputs must stay
as they were; errors must be of the same class and name a line of the user's program. One program in three runs with donated
arguments, too.

Engines are "numpy", "tiny" (the same with tiles of a few numbers, threads and pooled memory for everything), "native" and
"kernels" (native code for fused groups only, never for a program as a whole).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.backends import buffers, emission, tiles
from funcad.backends.engines import EngineProgram
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.passes.algebra import algebra
from funcad.passes.redundancy import dce, inline
from funcad.passes.subprograms import with_subprograms
from funcad.show.pretty import shown_as
from tests.random_programs import Case, trace
from tests.rounding import Bound, bounds_of, disagreement, reference

__all__ = ["ENGINES", "NATIVE", "check", "check_case", "minimised", "Mismatch", "compiled", "tiny_tiles"]

NATIVE = ("native", "kernels")
ENGINES = ("numpy", "tiny", *NATIVE)
RUNS = 3


class Mismatch(AssertionError):
    """An engine's result is not the reference's."""


@contextmanager
def tiny_tiles() -> Iterator[None]:
    """Every group is tiled, every tile has four numbers, every result is pooled, every tile may go to a thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles, "SMALL", 0)
        patch.setattr(tiles, "TILE_BYTES", 32)
        patch.setattr(tiles, "THREADED_NS", 0)
        for module in (emission, buffers):
            patch.setattr(module, "LARGE", 8)
        patch.setattr(emission, "CLEAR", 0)
        patch.setattr(emission, "CLEAR_IN_LOOPS", 0)
        yield


@contextmanager
def _kernels_only(pooled: bool) -> Iterator[None]:
    """`pooled`: results of kernels have memory from the pool, or that of donated arguments, however small they are."""
    from funcad.backends.native import kernels, program
    from funcad.backends.plans.element_plan import Unsupported

    def refuse(jaxpr: Jaxpr) -> Any:
        raise Unsupported("this test is of kernels")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(program, "compile_program", refuse)
        if pooled:
            patch.setattr(kernels, "LARGE", 8)
        yield


def _setting(engine: str, pooled: bool) -> Any:
    return tiny_tiles() if engine == "tiny" else _kernels_only(pooled) if engine == "kernels" else nullcontext()


def compiled(jaxpr: Jaxpr, engine: str) -> EngineProgram:
    """The program, compiled for an engine."""
    program = EngineProgram(jaxpr, "numpy" if engine in ("numpy", "tiny") else "native")
    program.written_out()
    return program


def _needed(jaxpr: Jaxpr) -> Jaxpr:
    """The program without what no result needs: a choice between x and x needs no mask, say."""
    equations = tuple([with_subprograms(e, _needed) for e in dce(jaxpr).equations])
    return dce(algebra(inline(Jaxpr(jaxpr.inputs, equations, jaxpr.outputs))))


def _result(run: Any) -> tuple[list[Any] | None, Exception | None]:
    try:
        return run(), None
    except Exception as error:  # any class may be the right one
        return None, error


def _copy(x: Any) -> Any:
    return x.copy() if isinstance(x, np.ndarray) else x


def _unchanged(x: Any, before: Any) -> bool:
    return not isinstance(before, np.ndarray) or x.tobytes() == before.tobytes()


def _shares(x: Any, others: Sequence[Any]) -> bool:
    arrays = [y for y in others if isinstance(y, np.ndarray)]
    return isinstance(x, np.ndarray) and any([np.may_share_memory(x, y) for y in arrays])


def check(jaxpr: Jaxpr, values: Sequence[Any], engine: str, bounds: list[Bound] | None = None) -> list[Bound]:
    """Mismatch if the engine does not do what the reference does; the bounds that were used."""
    expected, first = _result(lambda: reference(jaxpr, values))
    error = first
    if first is not None:  # an operation that no result needs may be left out, and its error with it
        expected, error = _result(lambda: reference(_needed(jaxpr), values))
    if bounds is None:
        needed = jaxpr if first is None else _needed(jaxpr)
        bounds = bounds_of(needed, values, expected) if expected is not None else []
    before = [_copy(x) for x in values]
    loose = any([isinstance(x, np.ndarray) and not x.ndim for x in values])  # 0-d arrays handed through
    strict = not loose and not _chooses(jaxpr)
    setting = "numpy" if engine in ("numpy", "tiny") else "native"
    donating = len(jaxpr.equations) % 3 == 0
    with funcad.config.set(engine=setting), _setting(engine, donating):
        program = compiled(jaxpr, engine)
        kept: list[tuple[list[Any], list[Any]]] = []
        for run in range(RUNS):
            found, other = _result(lambda: program.run(list(values)))
            _compare_errors(error, other)
            if found is None or expected is None:
                continue
            for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                why = disagreement(a, b, bounds[i], loose)
                if why is not None:
                    raise Mismatch(f"run {run}, result {i}: {why}")
                if strict and isinstance(b, np.ndarray) and b.size and b.flags.writeable and not a.flags.writeable:
                    raise Mismatch(f"run {run}, result {i} is read-only")
                if strict and _shares(a, values) and not _shares(b, values):
                    raise Mismatch(f"run {run}, result {i} shares memory with an argument")
            kept.append((found, [_copy(x) for x in found]))
            for old, copies in kept:
                for i, (x, y) in enumerate(zip(old, copies)):
                    if not _unchanged(x, y):
                        raise Mismatch(f"result {i} of an earlier run was changed by run {run}")
            if run == 1:
                _overwrite(kept, expected, values)
        if donating and first is None and expected is not None:
            _donate(program, before, expected, bounds, loose)
        for i, (x, y) in enumerate(zip(values, before)):
            if not _unchanged(x, y):
                raise Mismatch(f"argument {i} was changed")
    return bounds


def _donate(program: EngineProgram, values: Sequence[Any], expected: list[Any], bounds: list[Bound], loose: bool) -> None:
    """A run that may write over every other array, and one that may write over all of them."""
    for step in (2, 1):
        given = [_copy(x) for x in values]
        arrays = [x for x in given if isinstance(x, np.ndarray) and x.ndim and x.flags.c_contiguous and x.flags.owndata]
        donated = frozenset(map(id, arrays[::step]))
        found = program.run(list(given), donated)
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            why = disagreement(a, b, bounds[i], loose)
            if why is not None:
                raise Mismatch(f"with donated arguments, result {i}: {why}")
        for i, (x, y) in enumerate(zip(given, values)):
            if id(x) not in donated and not _unchanged(x, y):
                raise Mismatch(f"with other arguments donated, argument {i} was changed")


def _chooses(jaxpr: Jaxpr) -> bool:
    """Does it depend on values which of its arrays it hands through?"""
    return any([shown_as(e) in ("cond", "while_loop") or any(map(_chooses, subjaxprs(e.params))) for e in jaxpr.equations])


def _overwrite(kept: list[tuple[list[Any], list[Any]]], expected: list[Any], values: Sequence[Any]) -> None:
    """The caller writes into results: nothing but these results may notice."""
    found, _ = kept.pop()
    for x in found:
        if isinstance(x, np.ndarray) and x.flags.writeable and not _shares(x, values):
            x[...] = 1


def _compare_errors(expected: Exception | None, found: Exception | None) -> None:
    if type(expected) is not type(found):
        raise Mismatch(f"error {found!r} instead of {expected!r}") from found
    notes = lambda error: [n for n in getattr(error, "__notes__", []) if n.startswith("funcad: while running")]
    if expected is not None and notes(expected) and not notes(found):
        raise Mismatch(f"the error {found!r} does not name the user's line")


def check_case(case: Case, engines: Sequence[str]) -> list[Bound] | None:
    """Check a random program on engines; Mismatch shows it made small. None if it cannot be traced."""
    try:
        jaxpr, values = trace(case)
    except (TypeError, ValueError, IndexError):  # a derivative that does not exist, say
        return None
    bounds: list[Bound] | None = None
    for engine in engines:
        try:
            bounds = check(jaxpr, values, engine, bounds)
        except Exception as error:  # a crash of the compiler is a failure too
            small, inputs = minimised(jaxpr, values, engine)
            shown = "\n".join([f"{v.aval}: {x!r:.400} {_layout(x)}" for v, x in zip(small.inputs, inputs)])
            raise Mismatch(f"{case.label}, engine {engine}: {type(error).__name__}: {error}\n{small}\n{shown}") from error
    return bounds


def _layout(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return ""
    aligned = "" if x.flags.aligned else ", unaligned"
    return f"(strides {x.strides}{aligned}{'' if x.flags.writeable else ', read-only'})"


# ---------------------------------------------------------------- making failures small


def _fails(jaxpr: Jaxpr, values: Sequence[Any], engine: str) -> bool:
    try:
        check(jaxpr, values, engine)
    except Exception:  # see above
        return True
    return False


def _pruned(jaxpr: Jaxpr, values: Sequence[Any]) -> tuple[Jaxpr, list[Any]]:
    """Without equations and inputs that no output needs."""
    needed = {o for o in jaxpr.outputs if type(o) is Var}
    equations: list[Equation] = []
    for e in reversed(jaxpr.equations):
        if needed.intersection(e.outputs):
            equations.append(e)
            needed.update(a for a in e.inputs if type(a) is Var)
    kept = [(v, x) for v, x in zip(jaxpr.inputs, values) if v in needed]
    return Jaxpr(tuple([v for v, _ in kept]), tuple(equations[::-1]), jaxpr.outputs), [x for _, x in kept]


def minimised(jaxpr: Jaxpr, values: Sequence[Any], engine: str) -> tuple[Jaxpr, list[Any]]:
    """A smaller program that still fails, and its inputs (the program itself if it does not fail by itself)."""
    if not _fails(jaxpr, values, engine):
        return jaxpr, list(values)
    best = (jaxpr, list(values))

    def attempt(j: Jaxpr, v: Sequence[Any]) -> bool:
        nonlocal best
        j, v = _pruned(j, v)
        if _fails(j, v, engine):
            best = (j, list(v))
            return True
        return False

    attempt(*best)
    for o in best[0].outputs if len(best[0].outputs) > 1 else ():
        if attempt(Jaxpr(best[0].inputs, best[0].equations, (o,)), best[1]):
            break
    for e in reversed(jaxpr.equations):  # results earlier in the program as outputs: what follows is dropped
        j, v = best
        if e in j.equations and len(j.outputs) == 1 and e.outputs != j.outputs:
            attempt(Jaxpr(j.inputs, j.equations, e.outputs), v)
    for e in jaxpr.equations:  # results as inputs: what comes before is dropped
        j, v = best
        if e not in j.equations or len(j.equations) == 1:
            continue
        made, error = _result(lambda j=j, v=v, e=e: reference(Jaxpr(j.inputs, j.equations, e.outputs), v))
        if error is None and made is not None and not any([type(x).__name__ == "Stack" for x in made]):
            rest = tuple([q for q in j.equations if q is not e])
            attempt(Jaxpr((*j.inputs, *e.outputs), rest, j.outputs), [*v, *made])
    for i, old in enumerate(best[1]):  # plain inputs
        j, v = best
        if i < len(v) and isinstance(old, np.ndarray) and not (old.flags.c_contiguous and old.flags.aligned):
            _fails(j, [*v[:i], np.ascontiguousarray(v[i]), *v[i + 1 :]], engine) and attempt(
                j, [*v[:i], np.ascontiguousarray(v[i]), *v[i + 1 :]]
            )
    return best
