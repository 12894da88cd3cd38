"""The first call of a signature is observed: f itself runs, and nothing is traced.

Idea: a trace costs as much as many plain calls, so what is called once never pays for one. The second call of a signature
traces; it counts as the first that missed. Where programs of many sizes share a text, a new size traces at its fourth call:
most sizes of such a function are met once or twice. What is too dear to be traced now is called itself for a while. So is a
function whose signatures are more than are remembered: the more came in vain, the longer nobody looks at the next ones.

Invariant: who calls cannot tell which of the two it was, but by the time: the output is checked as that of a trace, results own
their memory, and NumPy does not warn. What a trace cannot do, and f could, is a reason to run un-jitted, no error.

Traps: the first call traces where something else is traced around it; over processes, whose calls must be alike; on a device;
where arrays are so large that a run costs more than a trace; where lanes of vmap try whether something happens; where a trace
is to tell something (`guards=False`, `not_compiled="raise"`, checks of numbers); where arguments are donated or of classes of
the user's; where f says `constant`, which is of the first call, or `x.at[i]`, which only traced values have, or warns, of a
line that is so many calls up, or asks how NumPy warns, or records or catches warnings: while f is observed, there are none; and
once f has failed because it indexes a plain array by a traced value, as `x[i]` in the body of a loop, where x is traced.
An array that f writes and returns is the caller's own.
"""

from __future__ import annotations

import dis
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

import numpy as np

from funcad.api.border import Remade, check_leaves, flat_values, name_of, own_memory
from funcad.configuration import OnDemand, config
from funcad.host.devices import enter, error_mode
from funcad.host.where import is_internal, noted, outside, state, tracing, written_for_others
from funcad.ir.trace import next_level
from funcad.ir.tracer import Tracer
from funcad.jitted.account import COSTS
from funcad.jitted.path_entries import LARGE, Resting
from funcad.jitted.paths import GIVEN_TO_PLAIN, LONGEST
from funcad.memo import weak_table
from funcad.primitives.axis_env import over_processes, processes_here
from funcad.reads.code_reads import awaits_warning, content
from funcad.tree.containers import DICT, LIST, NONE, TUPLE

acting = OnDemand("funcad.host.acting")
OBSERVES = True
_KINDS = frozenset([TUPLE, LIST, DICT, NONE])
_PLAIN = frozenset([np.ndarray, float, int, bool, complex])
_FIRST = frozenset(["constant", "warn", "geterr", "geterrcall"])
_GIVEN = frozenset(["stacklevel", "record"])  # keywords
_RESTS = _PLAIN.union([tuple, list, dict, str, type(None)])


def is_observed(core: Any, key: Any, leaves: list) -> bool:
    """Is this call, whose signature has no program, to run f itself?"""
    if not may_run_itself(core, key, leaves) or not may_wait(core):
        return False
    if not core.cache.account.affords_recording():
        return True
    small = sum([x.nbytes for x in leaves if type(x) is np.ndarray]) <= LARGE
    return OBSERVES and small and bool(core.cache.observe(key, COSTS["of a size"] if core.cache.shares_texts() else 1))


def may_run_itself(core: Any, key: Any, leaves: list) -> bool:
    """May f itself be run in the place of a trace?"""
    if state.before_effect is not None or Tracer in map(type, leaves) or _is_ours(core.f):
        return False
    return _runs_plainly(core, key, leaves)


def may_replace(core: Any, key: Any, leaves: list) -> bool:
    """May f itself be run where a trace fails? Then its arguments may be those of a derivative, or lanes of vmap."""
    return OBSERVES and _runs_plainly(core, key, leaves)


def _runs_plainly(core: Any, key: Any, leaves: list) -> bool:
    if not core.guards or core.inline or core.donate_nums or core.donate_names:
        return False
    if state.staging is not None or state.abstract is not None or state.checked is not None:
        return False
    if key.axes or state.debug_checks or key.device != "cpu" or key.arrays is not np.ndarray:
        return False
    if processes_here or over_processes() or (core.not_compiled or config.not_compiled) == "raise":
        return False
    if written_for_others(_own(core.f)):
        return False
    others = set(map(type, leaves)) - _PLAIN - {Tracer}
    return (not others or all([issubclass(kind, np.generic) for kind in others])) and _is_plain(key.in_tree)


def _is_ours(f: Any) -> bool:
    """Is it a function of funcad's?"""
    code = getattr(_own(f), "__code__", None)
    return code is not None and is_internal(code.co_filename)


def may_wait(core: Any) -> bool:
    """May a trace of f come later, or be given up? Not if f says what makes the first call trace; it runs if that fails."""
    return bool(config.jit_patience) and core.cache.runs_itself() and not _traces(_own(core.f), set())


def _own(f: Any) -> Any:
    f = f.func if type(f) is partial else f
    return getattr(f, "__func__", f)


def _is_plain(structure: Any) -> bool:
    """Are all containers Python's own?"""
    return structure.stays or structure._kind in _KINDS and all([_is_plain(child) for child in structure._children])


def _traces(f: Any, met: set[Any]) -> bool:
    """Does f, or what it calls by name, say what makes the first call trace?"""
    f = _own(f)
    while isinstance(f, Remade):
        f = _own(f.remaking()[0])
    if type(f) is not FunctionType or f in met or is_internal(f.__code__.co_filename):
        return False
    met.add(f)
    names, asks = _names_in(f.__code__)
    if asks or not _FIRST.isdisjoint(names):
        return True
    for x in (*map(content, f.__closure__ or ()), *map(f.__globals__.get, names)):
        if (type(x) is FunctionType or type(x) is MethodType) and _traces(x, met):
            return True
    return False


_names = weak_table("jitted.names", "code: the names in it, and whether it says what makes the first call trace")


def _names_in(code: CodeType) -> tuple[frozenset[str], bool]:
    """The names in a code and in those nested in it, and whether one gives `stacklevel` or `record`, or says `x.at[i]`."""
    found = _names.get(code)
    if found is None:
        nested = [_names_in(c) for c in code.co_consts if type(c) is CodeType]
        given = [name for c in code.co_consts if type(c) is tuple for name in c if type(name) is str]
        asks = not _GIVEN.isdisjoint(given) or awaits_warning(code) is not None or "at" in code.co_names and _says_at(code)
        names = frozenset(code.co_names).union(*[names for names, _ in nested])
        found = _names[code] = names, asks or any([also for _, also in nested])
    return found  # type: ignore[no-any-return]


def _says_at(code: CodeType) -> bool:
    """`x.at[i]`, which traced values have and plain arrays have not; `np.add.at(x, i, v)` is a call, and there for all."""
    loads = [i for i in dis.get_instructions(code) if i.opname == "LOAD_ATTR" and i.argval == "at"]
    return any([sys.version_info < (3, 12) or not (i.arg or 0) & 1 for i in loads])  # whose last bit is of calls


def _unsaid() -> Callable[[str, int], None]:
    """NumPy's call where it would warn: nothing is said, but where f has filters or a handler for it, which may raise."""
    filters = warnings.filters

    def said(error: str, flag: int) -> None:
        if warnings.filters is not filters or any([awaits_warning(code) is not None for code in _running()]):
            warnings.warn(f"{error} encountered", RuntimeWarning, stacklevel=outside(2))

    return said


def _running() -> Iterator[CodeType]:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not observed.__code__:
        yield tracing.shown_code(frame.f_code)
        frame = frame.f_back


def observed(
    core: Any, args: tuple, kwargs: dict, in_tree: Any, leaves: list, key: Any, result: list, may_trace: bool = True
) -> bool:
    """Put the result of f, as a program would give it, into `result`; False: f is to be traced in its place.

    That is where f fails as it gives a traced value to a plain array, which is traced in a trace. Where f has done something
    before that, only the next call is traced.
    """
    before = {id(x): x.copy("K") for x in leaves if type(x) is np.ndarray and x.flags.writeable}
    rows, level, mode = noted.rows, next_level(), error_mode()
    try:
        with np.errstate(all="call", call=_unsaid()):
            found = core.f(*args, **kwargs)
        outs, structure = flat_values(found)
        check_leaves([0 if type(x) is int else x for x in outs], f"jit of {name_of(core.f)}: output", found)
    except BaseException as error:
        enter(mode)  # again: Ctrl-C may have come where NumPy did so
        core.cache.forget(key)
        if not isinstance(error, GIVEN_TO_PLAIN):
            raise
        core.cache.at_once = True
        if not may_trace or acting.acts(core.f) and not _only_computes(core, args, kwargs):
            raise
        for x in leaves:
            if id(x) in before:
                x[...] = before[id(x)]
        return False
    account = core.cache.account
    account.observed(noted.rows - rows, next_level() == level + 1)
    owned = own_memory(outs, outs)  # f may keep what it gives
    written = [id(x) in before and x.tobytes() != before[id(x)].tobytes() for x in outs]
    rests(core, 0 if any(written) else core.cache.in_vain(), args, kwargs)
    result.append(structure.unflatten([x if was else own for x, own, was in zip(outs, owned, written)]))
    return True


def _only_computes(core: Any, args: tuple, kwargs: dict) -> bool:
    """Has f a program that neither stores nor acts, as is seen by a trace? It may write into its arguments."""
    try:
        entry = core.traced(args, kwargs)[1]
    except Exception:  # f has an error of its own
        return False
    return entry.paths is None and not entry.stores and not entry.jaxpr.has_effects


def rests(core: Any, calls: int, args: tuple, kwargs: dict) -> bool:
    """Are the next calls, so many, of f itself? Then it begins."""
    core.cache.account.rest = min(calls, LONGEST)
    found = calls > 0 and _RESTS.issuperset(map(type, (*args, *kwargs.values())))
    if found:
        Resting(core, core.cache.account).begin()
    return found
