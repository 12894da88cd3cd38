"""What a twin does in the place of each operation of Python's.

Idea: `Hooks` is a class with one method per kind of operation; the base class does what Python does, a subclass sees and
decides. One object serves one *root*, the function that was asked for, and all functions, lambdas, comprehensions and
classes that are made inside it.

Invariant: a method that is given an operation (`load_attribute`, `binary`, `store_item` ...) performs it; one that is given a
value (`load_global`, `iterate`, `call` ...) returns what is used in its place, in the simplest case the value itself. What runs
the user's code in the base class is a function in C, so that Python's tracebacks and `sys._getframe` see no frame of it.

Trap: order. Python evaluates the value of `a.x = v` first, then `a`, and then stores; therefore what is stored into is wrapped
(`StoreTarget`) and the store itself stays where it was.
"""

from __future__ import annotations

import importlib.util
import operator
import sys
import types
from collections.abc import Callable
from functools import cached_property
from threading import get_ident
from typing import Any

from funcad.host.where import strip_traceback

MISSING: Any = object()
_operate: Any = staticmethod(operator.call)


def contains(a: Any, b: Any) -> bool:
    """`a in b`"""
    return a in b


def lacks(a: Any, b: Any) -> bool:
    """`a not in b`"""
    return a not in b


class Hooks:
    """Does what Python does. `function` is the root that is twinned; `cells` holds its closure's cells by name."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function: Any = function
        self._choosing: dict[int, list[Any]] = {}  # of threads that are between `either` and what comes after it

    def __reduce__(self) -> Any:  # of a function that escaped and is pickled by value: it does what Python does, and no more
        return Hooks, (_nobody,)

    def close(self) -> None:
        """The trace has ended: hold nothing of the user's any more, and do what Python does."""
        self.function = _nobody
        self._choosing.clear()
        self.__dict__.pop("cells", None)

    @property
    def globals(self) -> dict[str, Any]:
        return self.function.__globals__

    @cached_property
    def cells(self) -> dict[str, types.CellType]:
        return dict(zip(self.function.__code__.co_freevars, self.function.__closure__ or ()))

    # -- loads

    def load_global(self, name: str, value: Any) -> Any:
        """A global or a builtin has been read."""
        return value

    def load_free(self, name: str, value: Any) -> Any:
        """A variable of the root's closure has been read; variables that this call of the root has made are not told."""
        return value

    load_attribute: Callable[[Any, str], Any] = staticmethod(getattr)  # (owner, name), as mangled
    load_item: Callable[[Any, Any], Any] = staticmethod(operator.getitem)  # (owner, key)

    # -- stores

    store_attribute: Callable[[Any, str, Any], None] = staticmethod(setattr)  # (owner, name, value)
    store_item: Callable[[Any, Any, Any], None] = staticmethod(operator.setitem)  # (owner, key, value)
    delete_attribute: Callable[[Any, str], None] = staticmethod(delattr)
    delete_item: Callable[[Any, Any], None] = staticmethod(operator.delitem)

    def will_store_global(self, name: str) -> None:
        """A function begins that may bind or delete this global, in whatever way."""

    def will_store_free(self, name: str) -> None:
        """A function begins that may bind or delete this variable of the root's closure."""

    def will_import(self, level: int, module: str, *names: str) -> None:
        """A module is about to be imported, or `names` from it."""

    # -- calls and operators

    def call(self, function: Any) -> Any:
        """What is called in the place of `function`; its arguments are not evaluated yet. Decorators are called, too."""
        return function

    binary: Callable[[Any, Any, Any], Any] = _operate  # (operator.add or operator.iadd ..., a, b)
    unary: Callable[[Any, Any], Any] = _operate  # (operator.neg ..., a)
    compare: Callable[[Any, Any, Any], Any] = _operate  # (operator.lt, operator.is_, contains ..., a, b)

    def chained(self, op: Any, value: Any) -> Any:
        """An operand of `a < b < c`, where Python itself compares; b is told twice."""
        return value

    def augmented(self, owner: Any, op: Any) -> Any:
        """What reads and stores in `owner[key] += value` (`op`: `operator.iadd`), where hooks are told of what makes."""
        return owner

    # -- values of which more is asked than what they are

    def iterate(self, value: Any, depth: int) -> Any:
        """`for`, `*value`, `yield from`, unpacking; `depth` levels are taken apart: 2 in `for a, b in value`."""
        return value

    def spread(self, value: Any) -> Any:
        """`**value`"""
        return value

    def test(self, value: Any, kept: bool) -> Any:
        """Its truth is asked; `kept`: by `and` or `or` whose value is used, so that nothing else may be returned."""
        return value

    # -- choices: see choices.py

    def either(self, condition: Any) -> bool:
        """The condition of a choice: are both sides to be computed?"""
        self._choosing[get_ident()] = [condition, condition]
        return False

    def asked(self) -> Any:
        """They were not: the condition, whose truth is asked."""
        return self.test(self._choosing.pop(get_ident())[0], False)

    def asked_too(self, value: Any, kept: bool) -> Any:
        """A further part of the condition, whose truth is asked then."""
        return self.test(value, kept)

    def never(self, *given: Any) -> Any:
        """What is called where `either` has said yes."""
        raise NotImplementedError

    also = tried = chosen = sure = sure_item = sure_attribute = sure_call = sure_choice = sure_truth = never

    def match(self, value: Any) -> Any:
        """The subject of `match`."""
        return value

    def formatted(self, value: Any, conversion: int, spec: Any) -> Any:
        """`{value!r:spec}` in an f-string; the conversion is a letter's number or -1, the spec a text or None."""
        return format(_CONVERSIONS[conversion](value) if conversion in _CONVERSIONS else value, spec or "")

    def message(self, value: Any) -> Any:
        """What an assertion says that has failed."""
        return value

    def joined(self, *parts: Any) -> Any:
        """The texts that an f-string is made of."""
        return parts[0] if len(parts) == 1 else "".join(parts)

    def enter(self, manager: Any, depth: int) -> Any:
        """`with manager`; `depth` levels are taken apart of what it hands out: 1 in `as (a, b)`, else 0."""
        return manager


_CONVERSIONS: dict[int, Callable[[Any], str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


def _nobody() -> None:
    """The root of hooks that have been pickled."""


# -- what a rewritten function calls beside a method


class StoreTarget:
    """Stands for an object whose part is stored or deleted, in whatever statement: the hooks do it."""

    __slots__ = ("_hooks", "_owner")

    def __init__(self, hooks: Hooks, owner: Any) -> None:
        _set_hooks(self, hooks)
        _set_owner(self, owner)

    def __setattr__(self, name: str, value: Any) -> None:
        _hooks_of(self).store_attribute(_owner_of(self), name, value)

    def __delattr__(self, name: str) -> None:
        _hooks_of(self).delete_attribute(_owner_of(self), name)

    def __setitem__(self, key: Any, value: Any) -> None:
        _hooks_of(self).store_item(_owner_of(self), key, value)

    def __delitem__(self, key: Any) -> None:
        _hooks_of(self).delete_item(_owner_of(self), key)


_slots: Any = vars(StoreTarget)  # the user's attribute may have the name of a slot: they are reached past `__setattr__`
_set_hooks, _set_owner = _slots["_hooks"].__set__, _slots["_owner"].__set__
_hooks_of, _owner_of = _slots["_hooks"].__get__, _slots["_owner"].__get__

CONSTANTS: dict[str, Any] = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "MatMult": operator.matmul, "Div": operator.truediv,
    "FloorDiv": operator.floordiv, "Mod": operator.mod, "Pow": operator.pow, "LShift": operator.lshift,
    "RShift": operator.rshift, "BitOr": operator.or_, "BitXor": operator.xor, "BitAnd": operator.and_,
    "iAdd": operator.iadd, "iSub": operator.isub, "iMult": operator.imul, "iMatMult": operator.imatmul,
    "iDiv": operator.itruediv, "iFloorDiv": operator.ifloordiv, "iMod": operator.imod, "iPow": operator.ipow,
    "iLShift": operator.ilshift, "iRShift": operator.irshift, "iBitOr": operator.ior, "iBitXor": operator.ixor,
    "iBitAnd": operator.iand,
    "UAdd": operator.pos, "USub": operator.neg, "Invert": operator.invert,
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.is_, "IsNot": operator.is_not, "In": contains, "NotIn": lacks,
    "And": operator.and_, "Or": operator.or_, "slice": slice, "absent": (NameError, AttributeError),
}  # fmt: skip


class HookTable:
    """What stands in the code of a twin for each kind of hook: methods of the hooks, and what is made of them."""

    def __init__(self, hooks: Hooks, shown_code: Callable[[Any], Any]) -> None:
        self._hooks = hooks
        self._shown_code = shown_code
        self._found: dict[str, Any] = CONSTANTS.copy()

    def find(self, kind: str) -> Any:
        found = self._found.get(kind, MISSING)
        if found is MISSING:
            own = getattr(self, sys.intern("_" + kind), MISSING)  # new texts would fill the cache of names of Python
            if own is MISSING:  # what is made there and only read: where nothing else is to be done, as what is written
                own = getattr(self._hooks, kind, MISSING) if kind.endswith("_read") else getattr(self._hooks, kind)
            found = self._found[kind] = getattr(self._hooks, kind.removesuffix("_read")) if own is MISSING else own
        return found

    @staticmethod
    def _variable(name: str, value: Any) -> Any:
        """A variable that this call of the root has made."""
        return value

    @staticmethod
    def _no_store(name: str) -> None:
        """It will bind a variable that this call of the root has made."""

    def _load_class_name(self, name: str, value: Any) -> Any:
        """A name in the body of a class that binds it: the class's, or the global where the class has not bound it yet."""
        return self._hooks.load_global(name, value) if self._hooks.globals.get(name, MISSING) is value else value

    def _load_code(self, owner: Any, name: str) -> Any:
        """`f.__code__` and `frame.f_code`: what the user wrote."""
        return self._shown_code(self._hooks.load_attribute(owner, name))

    def _load_imported(self, level: int, module: str, name: str, value: Any) -> Any:
        """What `from module import name` has bound."""
        if level:
            module = importlib.util.resolve_name("." * level + module, self._hooks.globals.get("__package__") or "")
        owner = sys.modules.get(module)
        return self._hooks.load_attribute(owner, name) if getattr(owner, name, MISSING) is value else value

    def _target(self, owner: Any) -> StoreTarget:
        return StoreTarget(self._hooks, owner)

    def _augment_attribute(self, owner: Any, name: str, op: Any) -> Callable[[Any], None]:
        """`owner.name += value` reads, then evaluates the value, which is given to what is returned, and stores."""
        hooks, old = self._hooks, self._hooks.load_attribute(owner, name)
        return lambda value: hooks.store_attribute(owner, name, hooks.binary(op, old, value))

    def _augment_item(self, owner: Any, key: Any, op: Any) -> Callable[[Any], None]:
        hooks, old = self._hooks, self._hooks.load_item(owner, key)
        return lambda value: hooks.store_item(owner, key, hooks.binary(op, old, value))

    def _iterate_each(self, value: Any, depths: tuple[int, ...]) -> tuple[Any, ...]:
        """The value of `a = b, c = value`, for each target."""
        return tuple([self._hooks.iterate(value, depth) if depth else value for depth in depths])

    @staticmethod
    def _caught() -> None:
        """A handler begins, or a `finally`: the user's code may look at the traceback, which shows no frames of hooks."""
        error = sys.exception()
        if error is not None:
            error.__traceback__ = strip_traceback(error.__traceback__)

    @staticmethod
    def _boxed(value: Any) -> types.SimpleNamespace:
        """A pattern's value: patterns may hold attributes, whatever they are read of."""
        return types.SimpleNamespace(value=value)
