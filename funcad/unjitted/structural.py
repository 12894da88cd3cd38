"""Programs of gradients that un-jitted vmap maps, found by the structure of what was recorded (mapped.py).

Idea: `vmap(grad(f))(x)` in a loop does the same at every step, so its backward program is derived once and compiled, and later
steps only run it. The key is everything that the derivation may look at: primitives, parameters by bits, wiring, shapes and
dtypes. A program is derived when its structure has come so often by the rules that it would have repaid that; the table is
bounded by number and bytes and holds no user arrays.

Invariant: whatever the key cannot tell apart is not cached: parameters that hold functions or programs, device arrays, named
axes. Trap: the equations of the derived program have no source, since functions at several places share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import config
from funcad.host.locks import held_over_forks
from funcad.host.where import state, user_source
from funcad.ir.jaxpr import Jaxpr
from funcad.memo import alike_but_for_weakness, compare, table

MAX_PROGRAMS = 1024  # the entry that was not used for longest goes first
MAX_BYTES = 64 << 20  # of keys and programs, roughly
KEY_BYTES = 40  # of an element of a key, of which a row has six
SIGHTS = 2  # by the rules of a structure, which together cost more than its program by what deriving that takes
MAX_EQUATIONS = 2000  # of longer programs the key would cost more than it saves
# key -> the number of sights until now, (run, ...), or False (cannot be cached)
_table = table(
    "unjitted.structures",
    "a recording's structure: its derived program",
    MAX_PROGRAMS,
    alike_but_for_weakness,
)
_bytes: dict[tuple | None, int] = {None: 0}  # of each entry; None: of all
_guard = threading.RLock()  # re-entrant: what the collector finalises meanwhile may take gradients
held_over_forks(_guard)
_forgetting: list[Callable[[], None]] = []  # of those who remember entries by other means
_compile: list[Callable[[Jaxpr], Callable[[list], list]]] = []


def compile_with(compiler: Callable[[Jaxpr], Callable[[list], list]]) -> None:
    """Backends say here how a program is compiled: `compiler(jaxpr)(values) -> outputs`, which empties the list `values`.

    What the compiler returns has a `size`, in bytes.
    """
    _compile[:] = [compiler]


def forget() -> None:
    """Empty the table."""
    with _guard:
        _table.clear()
        _bytes.clear()
        _bytes[None] = 0
        for done in _forgetting:
            done()


def forgetting(done: Callable[[], None]) -> None:
    """`done()` is called whenever the table is emptied, or a program leaves it."""
    _forgetting.append(done)


UNSEEN = object()


def cached(key: tuple, derive: Callable[[], Any]) -> Any:
    """The entry of a key, derived when it has come by the rules a number of times; UNSEEN before.

    False if that raises: a rule needs values, and what is truly wrong is raised by the rules.
    """
    with _guard:
        entry = _table.pop(key, 0)
    if type(entry) is int:
        entry = entry + 1 if entry < SIGHTS else _attempted(derive)
    elif config.audit:
        compare(_table.name, key, entry, _attempted(derive), _table.same)
    seen = type(entry) is int
    size = KEY_BYTES * len(key) + (0 if seen or not entry else entry[0].size)
    with _guard:
        _table[key] = entry
        _bytes[None] += size - _bytes.get(key, 0)
        _bytes[key] = size
        while len(_table) > 1 and (len(_table) > MAX_PROGRAMS or _bytes[None] > MAX_BYTES):
            oldest = next(iter(_table))
            if type(_table.pop(oldest)) is tuple:  # a program, which nobody else may keep
                for done in _forgetting:
                    done()
            _bytes[None] -= _bytes.pop(oldest)
    return UNSEEN if seen else entry


def _attempted(derive: Callable[[], Any]) -> Any:
    saved, state.source = state.source, state.source or user_source()  # programs of this kind have no lines: nobody looks again
    try:
        return derive()
    except Exception:
        return False
    finally:
        state.source = saved


def compiled(derived: Jaxpr, consts: list[Any]) -> Callable[[list], list]:
    """`run(values) -> outputs`, which empties the list of values, of a derived program without its sources."""
    plain = Jaxpr(derived.inputs, tuple([e._replace(source=None) for e in derived.equations]), derived.outputs)
    run = _compile[0](plain)
    if not consts:
        return run
    for c in consts:
        if type(c) is np.ndarray:
            c.flags.writeable = False  # if an output is one of them, `own_memory` copies it

    return _WithConstants(run, consts)


class _WithConstants:
    __slots__ = ("run", "consts", "size")

    def __init__(self, run: Any, consts: list[Any]):
        self.run = run
        self.consts = consts
        self.size = run.size + sum([getattr(c, "nbytes", 0) for c in consts])

    def __call__(self, values: list[Any]) -> list[Any]:
        values[:0] = self.consts  # in the same list, which `run` empties
        return self.run(values)
