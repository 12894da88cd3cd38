"""Why a jitted function traces again: the signature of the call beside the nearest one that has a program.

`with funcad.explain_cache_misses():` says so for the calls of this thread, the setting `funcad.config.explain_cache_misses` for
all. Nothing of this runs on a hit. The distance of two signatures is the number of parts that differ: shapes, dtypes, static
values, axes, options; another structure is farther than any number of leaves.
"""

from __future__ import annotations

import operator
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from funcad.api.border import name_of
from funcad.configuration import config
from funcad.host.progress import working
from funcad.host.where import setting, state, user_source
from funcad.ir.aval import Aval
from funcad.jitted.jit_cache import CHANGED, Cache, Signature
from funcad.jitted.jit_inspect import labels_of
from funcad.show.compile_log import CompileEvent, log
from funcad.tree import describe_difference
from funcad.tree.same import value_of

MANY_SHAPES = 8
_FAR = 10_000  # how much farther another structure is than another leaf


def _print(text: str) -> None:
    print(text, file=sys.stderr)


def explain_cache_misses(report: Callable[[str], Any] | None = None) -> Any:
    """A context in which every call that has to be traced says why: which part of its signature is new.

    Parameters
    ----------
    report : callable, optional
        It is called with the text, which is else printed to stderr.

    Returns
    -------
    context manager
        It holds for all threads.

    Notes
    -----
    A function that has been traced for eight shapes is told once what can be done about it. For good:
    `funcad.config.explain_cache_misses = True`. JAX has a flag of that name, which logs. It raises nothing.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: 2.0 * x)
    >>> with funcad.explain_cache_misses(print):  # doctest: +ELLIPSIS
    ...     y = [f(x) for x in (np.ones(3), np.ones(3), np.ones(4), np.ones(4))]  # the second call of each is traced
    jit of <lambda>: first trace at ...
      x: f64[3]
    jit of <lambda>: traced again at ...
      x: f64[4], before f64[3]
    >>> seen = []
    >>> with funcad.explain_cache_misses(seen.append):
    ...     y = f(np.ones(3))  # known
    >>> seen
    []

    See also
    --------
    jit, funcad.debug.compile_log
    """
    return setting(explain_misses=_print if report is None else report)


def _reporter() -> Callable[[str], Any] | None:
    """Who is to be told of a miss; None for nobody."""
    return state.explain_misses or (_print if config.explain_cache_misses else None)


def missed(cache: Cache, key: Signature, f: Any, names: Sequence[str]) -> AbstractContextManager[Callable[[str], Any]]:
    """A block that traces a function: who asked is told why, it is logged, and it says so if it takes long.

    `names` are those of the positional arguments that are not static. Gives a function that tells more.
    """
    source = user_source()
    return _missed(cache, key, f, names, str(source) if source is not None else "")


@contextmanager
def _missed(cache: Cache, key: Signature, f: Any, names: Sequence[str], place: str) -> Iterator[Callable[[str], Any]]:
    report, name = _reporter(), name_of(f)
    first, beside, texts = _reasons(cache, key, f, names)
    if report is not None:
        how = "first trace" if first else "traced again"
        where = f" at {place}" if place else ""
        report("\n".join([f"jit of {name}: {how}{where}{beside}", *[f"  {text}" for text in texts]]))
        _advise(report, cache, key, name)
    start = time.perf_counter()
    with working(lambda: f"tracing {name}"):
        yield report or _nobody
    why = ("first trace: " if first and texts else "first trace" if first else "") + "; ".join(texts)
    log.append(CompileEvent("traced", name, place, time.perf_counter() - start, why))


def _nobody(text: str) -> None:
    """Nobody asked."""


def _reasons(cache: Cache, key: Signature, f: Any, names: Sequence[str]) -> tuple[bool, str, list[str]]:
    """Is it the first trace; beside how many others; what it is of, or what differs from the nearest of them."""
    with cache.lock:
        known, gone = list(cache.entries), cache.dropped
        cache.dropped = 0
    what = [f"what {gone} dropped programs depended on, such as a static argument, is gone"] if gone else []
    if not known:
        avals = [f"{label}: {_aval(a)}" for label, a in zip(labels_of(key.in_tree, names), key.avals)]
        return not gone, "", [*avals, *what]
    nearest = min(reversed(known), key=lambda other: _distance(key, other))  # of equals the newest
    texts = [*_differences(key, nearest, names), *what]
    if key.answers[-1:] == (CHANGED,):
        before = cache.entries.get(key._replace(answers=key.answers[:-1]))
        if before is not None and before.watched is not None:
            texts += before.watched.changes(f)
    beside = "" if len(known) == 1 else f", beside the nearest of {len(known)} programs"
    return False, beside, texts


def _advise(report: Callable[[str], Any], cache: Cache, key: Signature, name: str) -> None:
    """Say once what can be done about many shapes."""
    with cache.lock:
        known = list(cache.entries)
    if not cache.advised and _shapes(key, known) >= MANY_SHAPES:
        cache.advised = True
        report(
            f"jit of {name} has been traced for {MANY_SHAPES} shapes; each one is traced and compiled for itself.\n"
            "Pad the arrays to a few sizes; or, if the function is a map over the first axis, jit the function of one row and "
            "call vmap(..., chunk_size=n) of it, which runs one program on n rows at a time."
        )


def _shapes(key: Signature, known: Sequence[Signature]) -> int:
    """How many signatures differ from this one in shapes only, and this one."""
    kinds = [(dtype, weak) for _, dtype, weak in key.avals]
    alike = [k for k in known if k._replace(avals=()) == key._replace(avals=())]
    return 1 + sum([[(dtype, weak) for _, dtype, weak in k.avals] == kinds for k in alike])


def _distance(new: Signature, old: Signature) -> int:
    """How many parts differ: this is counted at every miss for every program, so that texts are made of the nearest only."""
    distance = sum(map(operator.ne, new, old)) - (new.avals != old.avals)
    if new.in_tree != old.in_tree:
        return distance + _FAR
    return distance + sum([a is not b and sum(map(operator.ne, a, b)) for a, b in zip(new.avals, old.avals)])


def _differences(new: Signature, old: Signature, names: Sequence[str]) -> Iterator[str]:
    """What is said of each part that differs."""
    if new.in_tree != old.in_tree:
        yield describe_difference(new.in_tree, old.in_tree, "(args, kwargs)", "(args, kwargs) before")
    else:
        for label, a, b in zip(labels_of(new.in_tree, names), new.avals, old.avals):
            if a != b:
                yield f"{label}: {_aval(a)}, before {_aval(b)}{_weakness(a, b)}"
        if None not in (new.orders, old.orders) and new.orders != old.orders:
            yield "the keys of a dict come in another order, which the function can see"
    if new.statics != old.statics:
        yield from _static_differences(new.statics, old.statics)
    if new.options != old.options:
        yield "options of jit (static arguments, fast_math): others than before"
    if new.axes != old.axes:
        yield f"named axes around the call: {_axes(new.axes)}, before {_axes(old.axes)}"
    if new.device != old.device:
        yield f"default_device: {new.device}, before {old.device}"
    last, before = [next((a for a in reversed(s.answers) if a != CHANGED), None) for s in (new, old)]
    if last is not None and (before is None or last.strides != before.strides) and last.strides:
        yield "the memory order of arguments, which the function asks for (order='K' or 'A'), is another than before"
    if last is not None and last.numbers is not None and (before is None or last.numbers != before.numbers):
        yield "arrays of rank 0 where numbers were before, or numbers where arrays were: the function asks for types"
    if new.arrays is not old.arrays:
        yield f"arrays: {new.arrays.__module__}'s, before {old.arrays.__module__}'s"


def _axes(axes: Sequence[tuple]) -> str:
    return ", ".join([f"{name}={size}" for name, size, *_ in axes]) or "none"


def _static_differences(new: Any, old: Any) -> Iterator[str]:
    positions, named = new or ((), ())
    positions_before, named_before = old or ((), ())
    if len(positions) != len(positions_before) or [k for k, _ in named] != [k for k, _ in named_before]:
        yield "static arguments: others are given than before"
        return
    for i, (a, b) in enumerate(zip(positions, positions_before)):
        if a != b:
            yield f"static argument {i} of {len(positions)}: {_value(a)}, before {_value(b)}"
    for (name, a), (_, b) in zip(named, named_before):
        if a != b:
            yield f"static {name}: {_value(a)}, before {_value(b)}"


def _value(key: Any) -> str:
    value = value_of(key)
    try:
        return f"{key[0].__name__}{value!r:.60}" if type(value) is tuple and key[0] is not tuple else f"{value!r:.60}"
    except Exception as error:  # nobody may have asked for the text, which must not stop the call
        return f"a {key[0].__name__} (its repr raises {type(error).__name__})"


def _aval(part: Any) -> str:
    return Aval(*part).short


def _weakness(a: Any, b: Any) -> str:
    if a[:2] == b[:2] and a[2] != b[2]:
        return " (* is a Python number, which adapts to the dtype that it meets)"
    return ""
