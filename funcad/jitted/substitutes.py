"""Scalars that keep changing become inputs of the program: f is traced with traced values in their place.

Idea: the user's own objects are never touched, because other threads may read them. f is made anew, and so is everything on the
way from f to the scalar (functions with other globals or cells, copies of containers and of objects), with the traced value at
its end; what is not on the way is shared. The scalars are read again at every call, as the comparison of what is watched
passes them.

Traps: what f would change in a copy would be lost, so the copies are looked at afterwards; and where no copy can be made (a
class, an object with slots), a callback or a custom rule would go on using one, or Python needs the scalar's value (`range(n)`,
a shape), f is traced with it, as with any other value.
"""

from __future__ import annotations

import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

from funcad.api.border import Remade
from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of
from funcad.ir.jaxpr import Jaxpr, Var, subjaxprs
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.primitives.host import HostCall
from funcad.reads.code_reads import content, is_library
from funcad.reads.places import Place, evaluated

TELLING = frozenset(["type", "id", "hasattr"])  # functions of Python's that tell a traced value from a number without a word


class Unsuited(Exception):
    """Something on the way cannot be copied."""


class Substitutes:
    """Makes f anew for a trace; `copies`: what was copied and how the copies were when they were made."""

    def __init__(self, f: Any, watches: Sequence[Place], chosen: Sequence[Place], first: Callable[[Any], Place | None]):
        self.f = f
        self.chosen = chosen
        self.values = {w: x for w, x, _ in evaluated(watches, f)}
        self.children: dict[Place, list[Place]] = {}
        self.first = first  # the watch that found an object first, and what is behind it
        for w in watches:
            if w in self.values and w.parent is not None:
                self.children.setdefault(w.parent, []).append(w)
        self.root = watches[0]
        self.made: dict[Place, Any] = {}
        self.copies: list[tuple[Any, list[Any]]] = []

    def function(self) -> Any:
        """f with traced values; to be called while the trace is open."""
        if not self.chosen:  # none of them is read now
            return self.f
        self.made, self.copies = {}, []
        trace: Any = state.running
        if type(trace) is not AbstractTrace:
            raise Unsuited
        for i, w in enumerate(self.chosen):
            x = self.values[w]
            aval = aval_of(x)
            variable, _ = trace.captured.setdefault(("read", i), (Var(Aval(aval.shape, aval.dtype, aval.weak)), x))
            trace.stands_for[variable] = x
            self.made[w] = Tracer(trace, variable)
            state.unread += (variable,)
        return self.rebuilt(self.root)

    def checked(self, watched: Any, jaxpr: Jaxpr) -> Any:
        """What is watched, if the copies are as they were made, no program keeps one, and all of the numbers could be kept."""
        if self.chosen and keeps_functions(jaxpr):
            raise Unsuited
        same = all([len(now := _items(x)) == len(before) and all(map(operator.is_, now, before)) for x, before in self.copies])
        if not same or (watched.inputs if watched is not None else 0) != len(self.chosen):
            raise Unsuited
        return watched

    def rebuilt(self, w: Place) -> Any:
        if w in self.made:
            if self.made[w] is self:
                raise Unsuited  # it refers to itself
            return self.made[w]
        self.made[w] = self
        x = self.values[w]
        first = self.first(x) or w
        new = x
        if first is not w:
            new = self.rebuilt(first)
        else:
            kids = [(c, self.rebuilt(c)) for c in self.children.get(w, ()) if c in self.values]
            changed = [(c, v) for c, v in kids if v is not self.values[c]]
            if changed:
                new = self.copy(x, changed)
        self.made[w] = new
        return new

    def copy(self, x: Any, changed: list[tuple[Place, Any]]) -> Any:
        kind = type(x)
        steps = {c.step for c, _ in changed}
        new = {c.key: v for c, v in changed}
        made: Any
        if kind is types.FunctionType:
            made = types.FunctionType(
                x.__code__,
                new.get("__globals__", x.__globals__),
                x.__name__,
                new.get("__defaults__", x.__defaults__),
                new.get("__closure__", x.__closure__),
            )
            made.__kwdefaults__ = new.get("__kwdefaults__", x.__kwdefaults__)
            made.__dict__.update(x.__dict__)
            made.__qualname__, made.__module__ = x.__qualname__, x.__module__
            return made
        if type(x).__module__.startswith("funcad.custom"):  # its rules would go on using the number
            raise Unsuited
        if isinstance(x, Remade):
            inner, make = x.remaking()
            return make(next(v for c, v in changed if self.values[c] is inner or isinstance(v, types.FunctionType)))
        if kind is types.MethodType:
            return types.MethodType(new.get("__func__", x.__func__), new.get("__self__", x.__self__))
        if kind is functools.partial:
            return functools.partial(new.get("func", x.func), *new.get("args", x.args), **new.get("keywords", x.keywords))
        if steps == {"cell"}:
            return tuple([types.CellType(new[i]) if i in new else cell for i, cell in enumerate(x)])
        if kind is dict and steps <= {"item"}:
            made = {**x, **new}
        elif kind in (list, tuple) and steps <= {"item"}:
            made = kind([new.get(i, v) for i, v in enumerate(x)])
        elif issubclass(kind, tuple) and hasattr(kind, "_make") and steps <= {"item"}:
            made = kind._make([new.get(i, v) for i, v in enumerate(x)])
        elif kind is types.ModuleType and new.keys() == {"__dict__"}:
            made = types.ModuleType(x.__name__)
            made.__dict__.update(new["__dict__"])
        elif steps <= {"attribute", "hidden"} and kind.__dictoffset__ and _is_plain(kind):
            made = object.__new__(kind) if kind is not types.SimpleNamespace else kind()
            made.__dict__.update(x.__dict__, **new)
        else:
            raise Unsuited
        self.copies.append((made, _items(made)))
        return made


def keeps_functions(jaxpr: Jaxpr) -> bool:
    """Does it call functions of the user's when it runs or is differentiated (callbacks, custom rules)?"""
    for e in jaxpr.equations:
        if not e.primitive.fresh and any(map(_calls, e.params.values())) or any(map(keeps_functions, subjaxprs(e.params))):
            return True
    return False


def _calls(x: Any) -> bool:
    if type(x) in (tuple, list):
        return any(map(_calls, x))
    if type(x) is HostCall:
        return _calls(x.function)
    if type(x) is types.FunctionType and is_library(x):
        return any([_calls(content(cell)) for cell in x.__closure__ or ()])
    return type(x).__module__.startswith("funcad.custom") or callable(x) and not isinstance(x, type) and not is_library(x)


def _is_plain(kind: type) -> bool:
    """Is all that its instances hold in their `__dict__`?"""
    if kind is types.SimpleNamespace:
        return True
    slots = [raw for base in kind.__mro__ for raw in base.__dict__.values() if type(raw) is types.MemberDescriptorType]
    return not slots and kind.__basicsize__ == _Plain.__basicsize__ and kind.__new__ is object.__new__


class _Plain:
    pass


def _items(x: Any) -> list[Any]:
    items = x if type(x) is dict else list(x) if isinstance(x, (list, tuple)) else x.__dict__
    return [*items, *items.values()] if type(items) is dict else items
