"""Steps from a function to what it reads, how each value is told from another one, and the comparison written out as code.

Idea: a `Place` is one step (`.__globals__`, `["lr"]`, `.cell_contents`, `.rate`, its length) from another place, the first of
which is the function. A program's guards are written out as one Python function of the traced function, which takes the steps
that places share once: a global costs some 20 nanoseconds. What goes wrong on the way means that something changed.

Invariant: what is kept refers to no object of the user's but weakly, to scalars, to types and to codes: caches belong to
functions, and a cache that referred to its own function would never be freed. Traps: `==` is never asked of the user's objects;
steps read attributes that were found in an object's or a class's own dict, so no property and no `__getattr__` is called.
"""

from __future__ import annotations

import builtins
import gc
import hashlib
import marshal
import threading
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.memo import remembers
from funcad.reads.code_reads import MISSING, content
from funcad.tree.same import Weakly, again, same, same_key, weakly

INPUTS = ("number", "integer", "aval")  # checks of what is read again as an input of the program
MOST_TOLD = 8  # changes in one container, of which people are told
_HASHED = 1 << 20  # bytes of an array, beyond which they are told by a hash
SCALARS = frozenset([bool, int, float, complex, str, bytes, type(None), slice, range, type(Ellipsis)])
_DATA = frozenset([bool, int, float, complex, str, type(None)])


def is_scalar(x: Any) -> bool:
    """Is x told from others by its type and its bits?"""
    kind = type(x)
    return kind in SCALARS or is_a(x, (np.generic, np.dtype)) and kind is not np.void


def is_number(x: Any) -> bool:
    if type(x) is int:
        return bool(-(2**63) <= x < 2**63)
    return type(x) in (float, complex) or is_a(x, np.number) and x.dtype.kind in "iufc"


def elements_of(x: Any, elements: Any = None) -> tuple[type, set[Any]]:
    """What tells a set: scalars, and tuples of such, by their bits, other elements by identity."""
    return type(x), {key_of(v) for v in (x if elements is None else elements)}


def same_elements(x: Any, known: Any) -> bool:
    return type(x) is known[0] and len(x) == len(known[1]) and elements_of(x) == known


def keys_of(x: dict[Any, Any]) -> list[Any]:
    """The keys of a dict, in their order."""
    keys = OrderedDict.keys(x) if isinstance(x, OrderedDict) else dict.keys(x)
    return [same_key(k) if is_scalar(k) else id(k) for k in keys]


def same_each(x: Sequence[Any], known: Sequence[Any]) -> bool:
    """Are they the objects that these weak references are of?"""
    return len(x) == len(known) and all([k() is v for k, v in zip(known, x)])


def bytes_of(x: Any) -> Any:
    """What tells an array's contents: all of its bytes, or where these are many, a hash of 128 bits that knows their places."""
    if not is_a(x, np.ndarray) or x.dtype.hasobject:
        return None
    x = x.view(np.ndarray)
    if x.nbytes <= _HASHED:
        data = x.tobytes()
    else:
        data = hashlib.blake2b(np.ascontiguousarray(x).view(np.uint8).data, digest_size=16).digest()
    return x.dtype.str, x.shape, x.strides, data


def is_data(x: Any, deep: int = 1) -> bool:
    """Is x a container of Python's own of numbers and texts, or of such containers, no two of which are one?"""
    rows = [x]
    for _ in range(deep):
        dicts = [row for row in rows if type(row) is dict]
        if not {list, tuple, dict}.issuperset(map(type, rows)) or len({*map(id, rows)}) < len(rows):
            return False
        if not _DATA.issuperset(map(type, chain.from_iterable(dicts))):
            return False
        rows = [*chain.from_iterable([row.values() if type(row) is dict else row for row in rows])]
        if _DATA.issuperset(map(type, rows)):
            return True
    return False


def data_of(x: Any, deep: int = 1, but: tuple = ()) -> tuple[Any, ...]:
    """What tells one from others, but for what stands at some places: types, bits, and that no two containers in it are one."""
    rows = () if deep == 1 else x.values() if type(x) is dict else x
    if but:
        x = dict(x) if type(x) is dict else [*x]
        for at in but:
            x[at] = None
    return deep, but, len({*map(id, rows)}) == len(rows), marshal.dumps(x, 2)  # of later versions, which tell it otherwise


def same_data(x: Any, known: tuple[Any, ...]) -> bool:
    return data_of(x, *known[:2]) == known


def array_of(x: Any) -> tuple[Any, ...]:
    """What tells an array whose contents are read at each call: which one it is, and what can be set in place."""
    return weakref.ref(x), x.shape, x.dtype


def reference(x: Any) -> tuple[str, Any]:
    """The comparison by identity: weak, where Python can."""
    try:
        return "ref", weakref.ref(x)
    except TypeError:
        return "is", x


def found_as(x: Any, label: str) -> Place:
    """The place of what is reached by no steps: it is held weakly, where Python can."""
    return Place(None, "constant", x, label) if weakly(x) is None else Place(None, "weak", again(x), label)


def held_weakly(key: Any) -> list[Any]:
    """The objects that the key of static arguments holds weakly."""
    if type(key) is tuple or type(key) is frozenset:
        return [x for part in key for x in held_weakly(part)]
    return [key.ref()] if type(key) is Weakly else []


def dict_of(x: Any) -> dict[str, Any]:
    """The attributes of an instance; {} if it has none."""
    return _dict_of(x) or {}


def has_dict(x: Any) -> bool:
    """Has the object attributes of its own?"""
    return _dict_of(x) is not None


def _dict_of(x: Any) -> dict[str, Any] | None:
    base = threading.local if is_a(x, threading.local) else object  # which has one for each thread
    try:
        found = base.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
    return found if type(found) is dict else {}


def own(x: Any, name: str) -> Any:
    """An attribute of the instance itself; MISSING if it has none of that name."""
    return dict_of(x).get(name, MISSING)


def shown_by(x: types.MappingProxyType[Any, Any]) -> Any:
    """The mapping that a proxy shows."""
    return gc.get_referents(x)[0]


def call_key(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
    """The arguments of a call that is made again at each comparison, objects held weakly; None where they cannot be kept so."""
    key = [" ".join(kwargs)]
    for x in (*args, *kwargs.values()):
        if not (is_scalar(x) or type(x) is tuple and all(map(is_scalar, x))):
            x = weakly(x)
            if type(x) is not Weakly:
                return None
        key.append(x)
    return tuple(key)


def _called(f: Any, key: tuple[Any, ...]) -> Any:
    """The call, made again. A cache that has forgotten is not filled: this path may not be the one that is taken."""
    misses, names = key[0], key[1].split()
    args = [x.ref() if type(x) is Weakly else x for x in key[2:]]
    if f.cache_info().misses < misses or any([x is None and type(kept) is Weakly for x, kept in zip(args, key[2:])]):
        raise LookupError("the cache was cleared, or an argument is gone")
    n = len(args) - len(names)
    return f(*args[:n], **dict(zip(names, args[n:])))


# name -> when it holds, as text: of what is there, {x}, and of what was found, {k}
CHECKS = {
    "is": "{x} is {k}",
    "name": "{x} is {k}",  # of what is a library's
    "ref": "{k}() is {x}",
    "scalar": "({x} is {k} or _same({x}, {k}))",
    "number": "type({x}) is {k}",  # an input of the program
    "integer": "(type({x}) is int and -9223372036854775808 <= {x} < 9223372036854775808)",  # one, too
    "given": "(type({x}) is {k} and ({k} is not int or -9223372036854775808 <= {x} < 9223372036854775808))",  # an argument
    "code": "{x}.__code__ is {k}",
    "class": "{k}() is type({x})",
    "items": "(type({x}) is {k}[0] and len({x}) == {k}[1])",
    "sized": "({x} is {k}[0] and len({x}) == {k}[1])",
    "keys": "(type({x}) is {k}[0] and _keys_of({x}) == {k}[1])",
    "each": "_same_each({x}, {k})",
    "long": "len({x}) == {k}",
    "set": "_same_elements({x}, {k})",
    "array": "({k}[0]() is {x} and {x}.shape == {k}[1] and {x}.dtype is {k}[2])",
    "bytes": "_bytes_of({x}) == {k}",
    "data": "_same_data({x}, {k})",
    "aval": "(type({x}) is _nd and {x}.shape == {k}[0] and {x}.dtype == {k}[1])",  # an array that is an input
    "names": "_keys_of({x}) == {k}",
}
_SCOPE = {
    "_M": MISSING,
    "_nd": np.ndarray,
    "_same": same,
    "_own": own,
    "_content": content,
    "_hidden": object.__getattribute__,
    "_entry": dict.get,
    "_called": _called,
    "_shown_by": shown_by,
    "_keys_of": keys_of,
    "_bytes_of": bytes_of,
    "_same_data": same_data,
    "_same_each": same_each,
    "_same_elements": same_elements,
}
_HOLDS = {name: eval(f"lambda x, k: {text.format(x='x', k='k')}", _SCOPE) for name, text in CHECKS.items()}
# name -> (the step, the same as text); {k} is the key as it is, {c} as a constant
STEPS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "root": (lambda x, key: x, "{p}"),
    "constant": (lambda x, key: key, "{c}"),
    "attribute": (getattr, "{p}.{k}"),
    "hidden": (object.__getattribute__, "_hidden({p}, {c})"),  # of objects with a `__getattribute__` of their own
    "item": (lambda x, key: x[key], "{p}[{c}]"),
    # of dicts with a `__getitem__` or a `__missing__` of their own, neither of which is called
    "entry": (lambda x, key: dict.get(x, key, MISSING), "_entry({p}, {c}, _M)"),
    "get": (lambda x, key: x.get(key, MISSING), "{p}.get({c}, _M)"),
    "cell": (lambda x, key: x[key].cell_contents, "{p}[{k}].cell_contents"),
    "filled": (lambda x, key: content(x[key]), "_content({p}[{k}])"),  # the same, or nothing
    "type": (lambda x, key: type(x), "type({p})"),
    "base": (lambda x, key: x.__mro__[key[0]].__dict__[key[1]], "{p}.__mro__[{c}[0]].__dict__[{c}[1]]"),
    "raw": (lambda x, key: x.__dict__[key], "{p}.__dict__[{c}]"),  # of a class, as it stands there
    "asked": (lambda x, key: getattr(x, key, MISSING), "getattr({p}, {c}, _M)"),  # of objects that have no dict
    "own": (lambda x, key: x.__dict__.get(key, MISSING), "{p}.__dict__.get({c}, _M)"),  # in an instance's dict, or nothing
    "again": (lambda x, key: x, "{p}"),  # the same place, for another comparison
    "has": (lambda x, key: key in x, "({c} in {p})"),
    "length": (lambda x, key: len(x), "len({p})"),
    "names": (lambda x, key: " ".join(dir(x)), "' '.join(dir({p}))"),
    "memory": (lambda x, key: memoryview(x).tobytes(), "memoryview({p}).tobytes()"),
    "call": (lambda x, key: x(), "{p}()"),
    "called": (_called, "_called({p}, {c})"),  # of a function with a cache, see `call_key`
    "set": (lambda x, key: x.get(MISSING), "{p}.get(_M)"),  # of a context variable
    "shows": (lambda x, key: shown_by(x), "_shown_by({p})"),  # of a proxy of a mapping
    "weak": (lambda x, key: key(), "{c}()"),  # an object that is found from nowhere
}


class Place:
    """A step, and what was found there; without a `check` it is only on the way."""

    __slots__ = ("parent", "step", "key", "label", "check", "known", "path", "source")
    path: Any

    def __init__(self, parent: Place | None, step: str, key: Any, label: str, check: str | None = None, known: Any = None):
        self.parent = parent
        self.step = step
        self.key = key
        self.label = label  # what the user calls it
        self.check = check
        self.known = known  # an "alias" knows the watch that found the same object, "distinct" those that found others
        self.source: Any = None  # the user's line that read it

    def value(self, found: dict[Place, Any], f: Any) -> Any:
        return STEPS[self.step][0](f if self.parent is None else found[self.parent], self.key)

    def value_of(self, parent: Any) -> Any:
        return STEPS[self.step][0](parent, self.key)

    def weakly(self) -> Callable[[], Any] | None:
        """The weak reference by which what is here is told from all other objects."""
        if self.step == "weak" and self.check is None:
            return self.key  # type: ignore[no-any-return]
        return self.known if self.check == "ref" else self.known[0] if self.check == "array" else None

    def holds(self, x: Any, found: dict[Place, Any]) -> bool:
        if self.check is None:
            return True
        if self.check == "distinct":
            return len({id(found[w]) for w in self.known}) == len(self.known)
        return x is found.get(self.known) if self.check == "alias" else _HOLDS[self.check](x, self.known)


def key_of(key: Any) -> Any:
    """By what a step's key is told from others."""
    if type(key) is str:
        return key
    plain = is_scalar(key) and type(key) is not slice or type(key) is tuple and all(map(is_scalar, key))
    return same_key(key) if plain else id(key)


def value_at(place: Place, f: Any) -> Any:
    """What is at a place now."""
    return STEPS[place.step][0](f if place.parent is None else value_at(place.parent, f), place.key)


def path_of(place: Place | None) -> Any:
    """By what places of two runs are the same."""
    return None if place is None else (path_of(place.parent), place.step, key_of(place.key))


def is_below(place: Place | None, other: Place) -> bool:
    """Is a place that one, or reached through it?"""
    while place is not None and place is not other:
        place = place.parent
    return place is other


def labels_of(place: Place) -> list[str]:
    """What all that is told there at once is called."""
    held = marshal.loads(place.known[3])
    return [f"{place.label}[{k!r:.40}]" for k in (held if type(held) is dict else range(len(held)))]


def needed(places: Sequence[Place]) -> list[Place]:
    """Those with a comparison, and what leads to them, which comes before them."""
    ordered: dict[Place, None] = {}
    for place in places:
        todo = [place] if place.check is not None else []
        while todo:
            at = todo[-1]
            n = len(todo)
            for p in (at.parent, *(at.known if at.check == "distinct" else [at.known] if at.check == "alias" else ())):
                if p is not None and p not in ordered:
                    todo.append(p)
            if len(todo) == n:
                ordered[todo.pop()] = None
    return list(ordered)


def _is_a_name(w: Place) -> bool:
    """Is it a global or a closure variable, of one function, for what is a library's or Python's?"""
    names = w.parent
    if names is None or not (w.check == "name" or w.check == "is" and w.step == "has"):
        return False
    if names.step == "constant":
        return type(names.key) is dict  # a namespace, see `Seen._names`
    of = names.parent
    if of is None or names.step != "attribute" or names.key not in ("__globals__", "__closure__"):
        return False
    if of.step == "attribute" and of.key == "__func__" and of.parent is not None:
        of = of.parent
    return of.check is None and of.step in ("root", "weak")


def evaluated(watches: Sequence[Place], f: Any) -> Iterator[tuple[Place, Any, bool]]:
    """(watch, what is there now, is it what was found?), of those that can be reached still."""
    found: dict[Place, Any] = {}
    for w in watches:
        if w.parent is not None and w.parent not in found:
            continue
        try:
            x = w.value(found, f)
            holds = w.holds(x, found)
        except Exception:  # deleted, emptied, or of another kind than it was
            yield w, MISSING, False
            continue
        if holds:
            found[w] = x
        yield w, x, holds


def shown(x: Any) -> str:
    """A value, for messages."""
    if x is MISSING:
        return "nothing"
    if type(x) is weakref.ref:
        x = x()
        return "another object" if x is None else shown(x)
    if is_scalar(x):
        return f"{x!r:.60}"
    if is_a(x, np.ndarray):
        return f"an array of shape {x.shape} and dtype {x.dtype}"
    if type(x) in (list, tuple, dict, set):
        return f"a {type(x).__name__} of {len(x)}"
    return f"a {type(x).__name__}"


def written_out(watches: Sequence[Place], handed: Sequence[Place]) -> Callable[[Any], Any]:
    """`holds(f)`: is everything as it was found? The inputs are returned, and then what is at the places that are `handed`."""
    scope: dict[str, Any] = {**_SCOPE}
    names: dict[int, str] = {}
    lines = ["def _holds(f):", "    try:"]
    for i, w in enumerate(watches):
        names[id(w)] = x = f"x{i}"
        scope[f"c{i}"], scope[f"k{i}"] = w.key, w.known
        constant = repr(w.key) if type(w.key) in (str, int) else f"c{i}"
        parent = "f" if w.parent is None else names[id(w.parent)]
        lines.append(f"        {x} = " + STEPS[w.step][1].format(p=parent, k=w.key, c=constant))
        if w.check == "alias":
            lines.append(f"        if {x} is not {names[id(w.known)]}: return False")
        elif w.check == "distinct":
            each = ", ".join([f"id({names[id(other)]})" for other in w.known])
            lines.append(f"        if len({{{each}}}) != {len(w.known)}: return False")
        elif w.check is not None:
            lines.append(f"        if not {CHECKS[w.check].format(x=x, k=f'k{i}')}: return False")
    inputs = "".join([f"{names[id(w)]}, " for w in [*[w for w in watches if w.check in INPUTS], *handed]])
    inputs = inputs and f"({inputs})"
    lines += ["    except Exception:", "        return False"]  # deleted, or of another kind than it was
    lines.append(f"    return {inputs or True}")
    exec(_compiled("\n".join(lines)), scope)
    holds: Callable[[Any], Any] = scope.pop("_holds")
    return holds


@remembers(512)
def _compiled(text: str) -> types.CodeType:
    return builtins.compile(text, f"{__file__}<holds>", "exec")


class Guards:
    """What a program depends on beside its arguments."""

    __slots__ = ("places", "inputs", "handed", "_holds")

    def __init__(self, places: list[Place]):
        self.places = places
        self.inputs = len([w for w in places if w.check in INPUTS])  # the first captured values of the program
        self.handed: Sequence[Place] = ()  # of captured arrays, which the program does not hold itself
        self._holds: Callable[[Any], Any] | None = None

    def hand(self, arrays: Sequence[Any]) -> list[bool]:
        """Which of these objects are told by identity? `holds` gives them from now on, in this order."""
        at = {id(of()): w for w in self.places if (of := w.weakly()) is not None}
        found = [id(x) in at for x in arrays]
        self.handed, self._holds = [at[id(x)] for x, known in zip(arrays, found) if known], None
        return found

    def apart(self, f: Any) -> tuple[list[tuple[Place, Any]], Guards | None]:
        """Names that stand for what is a library's, each with the namespace or cells it is in; the others."""
        names = [w for w in self.places if _is_a_name(w)]
        rest = needed([w for w in self.places if w not in names])
        others = Guards([*rest, *[w for w in self.handed if w not in rest]])
        others.handed = self.handed
        found = [(w, value_at(w.parent, f)) for w in names if w.parent is not None]
        return found, others if others.places else None

    def objects(self) -> list[Any]:
        """What must live, if the program is to be right ever again."""
        found = [of() for w in self.places if (of := w.weakly()) is not None]
        return [getattr(x, "__self__", x) if type(x) is types.MethodType else x for x in found]  # which is made at each access

    def joined(self, others: Guards | None) -> Guards:
        """These and others; itself if they say nothing new."""
        if others is None:
            return self
        at: dict[Any, Place] = {}
        for place in self.places:
            place.path = (place.parent.path if place.parent is not None else None, place.step, key_of(place.key))
            at[place.path] = place
        more: list[Place] = []
        new = False
        for place in others.places:
            place.path = (place.parent.path if place.parent is not None else None, place.step, key_of(place.key))
            new = new or place.check is not None and (place.path not in at or at[place.path].check is None)
            more.append(place)
        return Guards([*self.places, *more]) if new else self

    @property
    def holds(self) -> Callable[[Any], Any]:
        """`holds(f)`: is everything as it was when f was traced? The inputs and what is handed, if there are some."""
        if self._holds is None:
            self._holds = written_out(self.places, self.handed)
        return self._holds

    def listed(self) -> list[tuple[str, str, str]]:
        """(what is read, what is done with it at each call, the line that reads it), for people."""
        found = {}
        for w in self.places:
            if w.check == "class" and w.source is None:  # of the object itself, which no line reads
                continue
            if w.label and w.check not in (None, "alias", "distinct", "name") and not _is_a_name(w):
                how = "read" if w.check in (*INPUTS, "array", "given") else "compared"
                found.setdefault(w.label, (w.label, how, w.source.short() if w.source is not None else ""))
        return list(found.values())

    def changed_numbers(self, f: Any) -> set[str]:
        """Labels of the numbers that are others now."""
        found = [other for w, x, holds in evaluated(self.places, f) if not holds for other in _others(w, x, 1)]
        return {label for label, x, known in found if is_number(x) and is_number(known)}

    def changed(self, f: Any) -> tuple[str, str]:
        """Something that is no longer as it was, and the line that reads it."""
        found = [(w.label, str(w.source or "")) for w, _, holds in evaluated(self.places, f) if not holds]
        return found[0] if found else ("what it reads", "")

    def changes(self, f: Any) -> list[str]:
        """What changed, for people."""
        return [text for w, x, holds in evaluated(self.places, f) if not holds for text in _told(w, x)]


def _told(w: Place, x: Any) -> list[str]:
    if w.check not in ("scalar", "data"):
        return [f"{w.label}: " + ("some are one" if w.check == "distinct" else f"{shown(x)}, before {_known(w)}")]
    found = list(_others(w, x, 2))
    more = [f"{w.label}: {len(found) - MOST_TOLD:,} more"] * (len(found) > MOST_TOLD)
    return [f"{label}: {shown(now)}, before {shown(known)}" for label, now, known in found[:MOST_TOLD]] + more


def _others(w: Place, x: Any, deep: int) -> Iterator[tuple[str, Any, Any]]:
    """(label, what is there, what was there) of scalars, so deep in data."""
    if w.check == "scalar":
        yield w.label, x, w.known
    elif w.check == "data" and w.known[0] <= deep:
        yield from _differences(w.label, x, marshal.loads(w.known[3]), w.known[1])


def _differences(label: str, x: Any, known: Any, but: tuple = ()) -> Iterator[tuple[str, Any, Any]]:
    if not (is_data(x, 2) and is_data(known, 2)) or len(x) != len(known):
        yield label, x, known
        return
    now = dict(x if type(x) is dict else enumerate(x))
    for k, v in known.items() if type(known) is dict else enumerate(known):
        if k not in but and (k not in now or marshal.dumps(now[k], 2) != marshal.dumps(v, 2)):
            yield from _differences(f"{label}[{k!r:.40}]", now.get(k, MISSING), v)


def _known(w: Place) -> str:
    if w.check == "items":
        return f"a {w.known[0].__name__} of {w.known[1]}"
    if w.check in ("keys", "set"):
        return f"a {w.known[0].__name__} of {len(w.known[1])}"
    return "another function" if w.check == "code" else "another object" if w.check in ("ref", "class") else shown(w.known)
