"""Every memo table of the package: what was computed once and is handed out again, and the audit of all that.

Idea: a table says its name, what it holds for which key, its bound, and how two of its values are compared. While
`config.audit` is on, a table that is asked for what it holds answers that it holds nothing. The caller computes it again, as
at a miss, and the table compares the two when it is given the second. So a value is computed again with all that its key may
have forgotten. Invariants: without the audit a table is a plain dict and a function is `functools.lru_cache`'s own, so neither
costs a call of Python; a hit gives the value that was kept first, audited or not. Traps: only `get` asks and only `setdefault`
and `put` answer, so what is read by `[]` or `in` is not audited; an error of the audit may fall into somebody's `except
Exception`, so it is counted as well (`all_lines`). What a process has once (a library, a lock, a folder) is not compared:
`same=None`.
"""

from __future__ import annotations

import gc
import re
import sys
import types
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache, partial, wraps
from typing import Any

import numpy as np

from funcad.configuration import Function, NamedTuple, config, listeners
from funcad.errors import CacheAuditError

Same = Callable[[Any, Any], bool] | None
_NONE: Any = object()


class CacheLine(NamedTuple):
    """A table: `hits` and `misses` are counted while the audit is on, those of functions always; None: they are not counted."""

    name: str
    holds: str
    size: int
    bound: int | None
    hits: int | None
    misses: int | None
    differences: int  # that the audit has found


# -- comparison

compared_by: dict[type, Callable[[Any], Any]] = {}  # class -> what of its objects is compared, as text; they say so themselves


def text_of(x: Any) -> str:
    """The text of an object without addresses."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(x))


def alike(a: Any, b: Any) -> bool:
    """Are two values the same: type, dtype and bits of numbers and arrays, programs by text, other things by their parts?

    >>> alike((1, 0.0), (1, 0.0)), alike(0.0, -0.0), alike(1, True)
    (True, False, False)
    """
    return difference(a, b, set()) is None


def difference(a: Any, b: Any, seen: set[tuple[int, int]]) -> tuple[str, Any, Any] | None:
    """Where two values differ, as Python writes the way to it, and what is there; `seen` are those on the way."""
    kind, pair = type(a), (id(a), id(b))
    if a is b or pair in seen:  # a part that is compared already, around a circle
        return None
    parts = _parts(a, b) if kind is type(b) else False
    if parts is True:
        return None
    if parts is False:
        return "", a, b
    seen.add(pair)
    for way, x, y in parts:
        found = difference(x, y, seen)
        if found is not None:
            return way + found[0], found[1], found[2]
    return None


def _parts(a: Any, b: Any) -> Any:
    """Are two objects of one type the same; or the parts by which that is decided: (the way there, one, the other)."""
    kind = type(a)
    if kind in compared_by:
        return [("", *[text_of(compared_by[kind](x)) for x in (a, b)])]
    if kind is Table or kind is Derived:  # which is audited for itself
        return True
    if kind is np.ndarray or issubclass(kind, np.generic):
        if a.dtype != b.dtype or a.shape != b.shape:
            return False
        return a.dtype.hasobject or a.tobytes() == b.tobytes()
    if kind is float or kind is complex:
        return np.complex128(a).tobytes() == np.complex128(b).tobytes()
    if issubclass(kind, (tuple, list)):
        return len(a) == len(b) and [(f"[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b))]
    if issubclass(kind, dict):
        pairs = enumerate(zip(a.items(), b.items()))
        return len(a) == len(b) and [(f".items[{i}]", x, y) for i, (x, y) in pairs]
    if kind is partial:
        return [(".func", a.func, b.func), (".args", a.args, b.args), (".keywords", a.keywords, b.keywords)]
    if kind is types.FunctionType:
        return [(".__code__", a.__code__, b.__code__), (".variables", _variables(a), _variables(b))]
    if kind.__eq__ is not object.__eq__:
        return bool(a == b)
    ours, theirs = _attributes(a), _attributes(b)
    if not ours or ours.keys() != theirs.keys():
        return False
    return [(f".{name}", x, theirs[name]) for name, x in ours.items()]


def _variables(f: types.FunctionType) -> list[Any]:
    """What a function has beside its code; one that was generated has its constants among its globals."""
    own = [f.__defaults__, *[cell.cell_contents for cell in f.__closure__ or ()]]
    if f.__code__.co_filename.startswith("<funcad"):
        own += [value for name, value in f.__globals__.items() if name in f.__code__.co_names]
    return own


def _attributes(x: Any) -> dict[str, Any]:
    found = dict(getattr(x, "__dict__", {}))
    for base in type(x).__mro__:
        for name in getattr(base, "__slots__", ()):
            if name not in ("__weakref__", "__dict__") and hasattr(x, name):
                found[name] = getattr(x, name)
    return found


_differences: dict[str, int] = {}  # by the table's name


def compare(name: str, key: Any, held: Any, new: Any, same: Same = alike) -> None:
    """Raise CacheAuditError, and note it, where a table does not hold what is computed now.

    For code that must not ask its table by `get`: it computes the value again by itself while `config.audit` is on.
    """
    if same is None or held is new or same(held, new):
        return
    _differences[name] = _differences.get(name, 0) + 1
    way, old, now = difference(held, new, set()) or ("", held, new)
    raise CacheAuditError(
        f"the table {name!r} does not hold what is computed now, for the key\n{_short(key)}\nIt holds{way and f' at {way}'}\n"
        f"{_short(old)}\nand now that is\n{_short(now)}"
    )


def _short(x: Any) -> str:
    text = text_of(x)
    return text if len(text) < 2000 else f"{text[:1000]} ... {text[-1000:]}"


# -- tables


class Table(dict[Any, Any]):
    """A dict that remembers: `get(key)`, and at a miss `put(key, value)`, which gives what is held from then on.

    >>> halves = Table("halves", "number: its half", 100)
    >>> def half(x):
    ...     found = halves.get(x)
    ...     return halves.put(x, x / 2) if found is None else found
    >>> half(3.0), half(3.0), halves
    (1.5, 1.5, {3.0: 1.5})
    """

    __slots__ = ("name", "holds", "bound", "same", "hits", "misses")

    def __init__(self, name: str, holds: str, bound: int | None = None, same: Same = alike):
        self.name, self.holds, self.bound, self.same = name, holds, bound, same
        self.hits = self.misses = 0

    def put(self, key: Any, value: Any) -> Any:
        """Keep a value; a table that is full begins anew."""
        if self.bound is not None and len(self) >= self.bound and key not in self:
            self.clear()
        return self.setdefault(key, value)

    def line(self) -> CacheLine:
        counts = self.hits, self.misses
        return line_of(self.name, self.holds, len(self), self.bound, counts if any(counts) else None)


class WeakTable(weakref.WeakKeyDictionary[Any, Any]):
    """What is remembered of objects as long as these live."""

    bound: int | None = None
    hits = misses = 0

    def __init__(self, name: str, holds: str, same: Same = alike):
        super().__init__()
        self.name, self.holds, self.same = name, holds, same

    line = Table.line


class WeakValues(weakref.WeakValueDictionary[Any, Any]):
    """What is remembered as long as somebody else uses it; there is one of each, so nothing is compared."""

    bound: int | None = None
    hits = misses = 0

    def __init__(self, name: str, holds: str):
        super().__init__()
        self.name, self.holds = name, holds

    line = Table.line


_tables: list[Any] = []  # of modules, which live as long as the process


def table(name: str, holds: str, bound: int | None = None, same: Same = alike) -> Table:
    """The table of a module; `holds` says "key: value".

    With more than `bound` entries it begins anew; None: there is no bound, for its keys are few. `same(held, new)` compares in
    the audit; None: nothing is compared.
    """
    found = Table(name, holds, bound, same)
    _tables.append(found)
    return found


def weak_table(name: str, holds: str, same: Same = alike) -> WeakTable:
    """The table of a module whose keys are held weakly; it is bounded by what lives."""
    found = WeakTable(name, holds, same)
    _tables.append(found)
    return found


def weak_values(name: str, holds: str) -> WeakValues:
    """The table of a module whose values are held weakly."""
    found = WeakValues(name, holds)
    _tables.append(found)
    return found


class Derived(dict[Any, Any]):
    """What hangs on a program: derived from it alone, by a key whose first part says what it is, or notes about it."""

    __slots__ = ()


# about a program, by whoever made it, or about its runs: nothing computes them again
NOTES = frozenset(
    ["account", "asked", "at once", "batched", "cut", "fast_math", "framing", "index_sets", "is_optimized"]
    + ["joined", "part", "pull", "siblings", "sizes", "sums apart", "together"]
)
_counts: dict[str, list[int]] = {}  # of what hangs on programs, by its kind: hits and misses


def _kind(key: Any) -> str:
    first = key[0] if type(key) is tuple else key
    return first if type(first) is str else getattr(first, "__name__", str(first))


# -- functions


_functions: list[tuple[str, Any, Same]] = []  # its name, the cached function, and how its values are compared
_audits: dict[Any, Any] = {}  # the cached function: the one that compares, once an audit has asked for it


def remembers(bound: int | None = None, same: Same = alike) -> Callable[[Function], Function]:
    """Decorate a function of hashable arguments: its results are kept; those go first that were not used for longest.

    What the table holds, the function's docstring says. A function that is made anew at each call of one around it has no
    table of its own in the audit: it takes `same=None`, or a Table in its place.
    """

    def decorate(f: Function) -> Function:
        cached: Any = lru_cache(bound)(f)
        name = f"{f.__module__.removeprefix('funcad.')}.{f.__qualname__}"
        if "<locals>" not in f.__qualname__:
            _functions.append((name, cached, same))
        elif same is not None:
            around = "each call of the function around it"
            raise TypeError(f"{name} is made anew at {around}: give that a Table")
        return audited(name, cached, same) if config.audit else cached  # type: ignore[no-any-return]

    return decorate


def audited(name: str, cached: Any, same: Same) -> Any:
    """The function that is called in the place of a cached one while the audit is on."""
    if same is None:
        return cached
    found = _audits.get(cached)
    if found is None:
        f = cached.__wrapped__

        @wraps(f)
        def found(*args: Hashable, **kwargs: Hashable) -> Any:
            hits = cached.cache_info().hits
            held = cached(*args, **kwargs)
            if cached.cache_info().hits != hits:
                compare(name, (*args, *kwargs.items()), held, f(*args, **kwargs), same)
            return held

        found.cache_info, found.cache_clear = cached.cache_info, cached.cache_clear
        _audits[cached] = found
    return found


# -- the audit


def _asked(self: Any, key: Any, default: Any = None) -> Any:
    """`get` under the audit: nothing is there."""
    held = _plain_get(self, key, _NONE)
    if held is _NONE:
        self.misses += 1
        return default
    self.hits += 1
    return held if self.same is None else default


def _given(self: Any, key: Any, value: Any = None) -> Any:
    """`setdefault` under the audit: what is there must be the same."""
    held = _plain_get(self, key, _NONE)
    if held is _NONE or self.same is None:
        return _of_base(self).setdefault(self, key, value)
    compare(self.name, key, held, value, self.same)
    return held


def _of_base(self: Any) -> Any:
    return dict if isinstance(self, dict) else weakref.WeakKeyDictionary


def _plain_get(self: Any, key: Any, default: Any) -> Any:
    return _of_base(self).get(self, key, default)


def _asked_of_program(self: Derived, key: Any, default: Any = None) -> Any:
    held = dict.get(self, key, _NONE)
    kind = _kind(key)
    if kind in NOTES:
        return default if held is _NONE else held
    _counts.setdefault(kind, [0, 0])[held is _NONE] += 1
    return default


def _given_of_program(self: Derived, key: Any, value: Any = None) -> Any:
    held = dict.get(self, key, _NONE)
    kind = _kind(key)
    if held is _NONE or kind in NOTES:
        return dict.setdefault(self, key, value)
    compare(f"of a program: {kind}", key, held, value)
    return held


_AUDITED = [
    (Table, _asked, _given),
    (WeakTable, _asked, _given),
    (Derived, _asked_of_program, _given_of_program),
]
after_switch: list[Callable[[], None]] = []  # who else answers from what it knows, and must ask the tables again


def _switch() -> None:
    """The setting has changed: the tables ask, or answer, from now on."""
    for kind, asked, given in _AUDITED:
        if config.audit:
            kind.get, kind.setdefault = asked, given  # type: ignore[attr-defined]
        elif "get" in vars(kind):
            del kind.get, kind.setdefault  # type: ignore[attr-defined]
    both = [(known[1], audited(*known)) for known in _functions]
    pairs = both if config.audit else [(of_audit, cached) for cached, of_audit in both]
    now = {id(old): new for old, new in pairs}
    for module in [m for name, m in list(sys.modules.items()) if name.startswith("funcad.")]:
        for name, value in list(vars(module).items()):
            if id(value) in now:
                setattr(module, name, now[id(value)])
    for done in after_switch:
        done()


listeners["audit"] = _switch
if config.audit:
    _switch()


# -- what there is

further: list[Callable[[], Iterator[CacheLine]]] = []  # the lines of caches that are no tables of this module


def all_lines() -> list[CacheLine]:
    """All tables, by name; those of objects of one kind, and what hangs on programs, are one line for each kind."""
    lines = [found.line() for found in _tables]
    for name, cached, _ in _functions:
        info = cached.cache_info()
        holds = (cached.__doc__ or cached.__name__).partition("\n")[0]
        lines.append(line_of(name, holds, info.currsize, info.maxsize, (info.hits, info.misses)))
    lasting = set(map(id, _tables))
    sizes: dict[str, int] = {}
    others: dict[str, list[Table]] = {}
    for x in gc.get_objects():
        if type(x) is Derived:
            for kind in [_kind(key) for key in list(x)]:
                sizes[kind] = sizes.get(kind, 0) + (kind not in NOTES)
        elif type(x) is Table and id(x) not in lasting:
            others.setdefault(x.name, []).append(x)
    for name, found in others.items():
        counts = sum([t.hits for t in found]), sum([t.misses for t in found])
        size = sum(map(len, found))
        lines.append(line_of(name, found[0].holds, size, found[0].bound, counts if any(counts) else None))
    for kind in {**sizes, **_counts}:
        if kind not in NOTES:
            what = "what was derived from a program"
            lines.append(line_of(f"of a program: {kind}", what, sizes.get(kind, 0), None, _counts.get(kind)))
    for more in further:
        lines += more()
    return sorted(lines)


def line_of(name: str, holds: str, size: int, bound: int | None, counts: Sequence[int] | None) -> CacheLine:
    """The line of a cache; `counts` are its hits and misses, if they are counted."""
    hits, misses = counts or (None, None)
    return CacheLine(name, holds, size, bound, hits, misses, _differences.get(name, 0))
