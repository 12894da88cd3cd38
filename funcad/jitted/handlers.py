"""Whether the user's function would see an error that an operation raises here: is the operation inside a `try`?

Idea: Python notes for each function which instructions which handler covers (its exception table). Of the frames between an
operation and the traced function, the user's are looked up there. What leaves a `with` block on an error is a handler if the
manager may keep the error: `contextlib.suppress`, `ExitStack`, and what the user wrote; others go on with it. Which manager it
is, the globals say that the `with` reads; where it reads variables of the function, it may be any.
Trap: an error that a handler does not take, or that leaves a block, comes to the handler around that.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import sys
from collections.abc import Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from funcad.host.where import handlers_around, is_internal, tracing
from funcad.ir.aval import Params
from funcad.ir.jaxpr import Equation, Jaxpr, Var, may_fail
from funcad.memo import remembers
from funcad.passes.subprograms import with_programs
from funcad.primitives.python_numbers import kept
from funcad.reads.code_reads import is_library

_KEEPING = (contextlib.suppress, contextlib.ExitStack)  # of the managers that come with Python


def inside_try(outermost: CodeType) -> bool:
    """Is an operation of the user's that runs now, in a function which `outermost` called, inside a `try`?"""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not outermost:
        if not is_internal(frame.f_code.co_filename):
            covered, managers = _around(frame.f_code, frame.f_lasti)
            if covered or any([_keeps(found) for names in managers for found in _meant(frame, names)]):
                return True
        frame = frame.f_back
    return False


def keep(trace: Any, primitive: Any, args: Any, params: Any, outermost: CodeType | None = None) -> Any:
    """Record an operation that may fail, of a program that runs later: inside a `try` it is there for its error, and stays."""
    around, tries, trace.tries = trace, trace.tries, None
    while outermost is None and around is not None:
        root, around = around, around.outer
    try:
        tried = not primitive.asserts and inside_try(outermost or getattr(root.function, "__code__", keep.__code__))
        out = trace.record(primitive, args, keeping(params) if tried and primitive.multiple else params)
        if tried:
            list(map(kept, out if primitive.multiple else [out]))
        return out
    finally:
        trace.tries = tries


tracing.keep = keep


def keeping(params: Params) -> Params:
    """The parameters of an operation inside a `try`: what may fail in its programs stays, too."""
    return {k: with_programs(v, _keeping) for k, v in params.items()}


def _keeping(jaxpr: Jaxpr) -> Jaxpr:
    if not jaxpr.may_fail:
        return jaxpr
    found = jaxpr.memo.get("keeping")
    if found is None:
        equations: list[Equation] = []
        for e in jaxpr.equations:
            fails = may_fail(e.primitive, e.params) and not e.primitive.asserts
            equations.append(e._replace(params=keeping(e.params)) if fails and e.primitive.multiple else e)
            equations += [Equation(kept, (v,), {}, (Var(v.aval),), e.source) for v in e.outputs if fails]
        found = jaxpr.memo.setdefault("keeping", Jaxpr(jaxpr.inputs, tuple(equations), jaxpr.outputs))
    return found


@remembers(1024)
def _around(code: CodeType, place: int) -> tuple[bool, tuple[tuple[str, ...], ...]]:
    """Is the place inside a `try`, and the names that each `with` around it reads, up to that `try`."""
    managers: list[tuple[str, ...]] = []
    for start, names in handlers_around(code, place):
        if names[0] == "PUSH_EXC_INFO":
            if names[1] != "WITH_EXCEPT_START":
                return True, tuple(managers)
            found = _names_before(code, start)
            if found is None:
                return True, tuple(managers)
            managers.append(found)
    return False, tuple(managers)


def _names_before(code: CodeType, block: int) -> tuple[str, ...] | None:
    """The globals and attributes that the `with` reads whose block starts there; None if it reads variables.

    They are read by the instructions before the block, from the statement's line on.
    """
    before = [op for op in dis.get_instructions(code) if op.offset < block]
    line = before[-1].positions.lineno if before and before[-1].positions else None
    names: list[str] = []
    for at, op in enumerate(reversed(before)):
        here = op.positions.lineno if op.positions else None
        if line is None or here is None or here < line or at > 5 and op.opname in ("BEFORE_WITH", "STORE_FAST"):
            break
        if op.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            return None
        if op.opname == "LOAD_CONST" and type(op.argval) is str and op.argval.isidentifier():
            names.append(op.argval)  # in a twin, where attributes are asked for by a hook
        if op.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD"):
            names.append(op.argval)
    return tuple(reversed(names))


def _meant(frame: FrameType, names: tuple[str, ...]) -> Iterator[Any]:
    """What those names are: globals, and attributes of the modules among them."""
    modules: list[ModuleType] = []
    for name in names:
        for space in (frame.f_globals, vars(builtins), *map(vars, modules)):
            if name in space:
                yield space[name]
                modules += [space[name]] if isinstance(space[name], ModuleType) else []


def _keeps(found: Any) -> bool:
    """May this manager, or what makes it, end an error?"""
    if type(found) is FunctionType:  # one of `contextlib.contextmanager`
        return hasattr(found, "__wrapped__") and not is_library(found.__wrapped__)
    kind = found if isinstance(found, type) else type(found)
    return issubclass(kind, _KEEPING) or hasattr(kind, "__exit__") and not is_library(kind)
