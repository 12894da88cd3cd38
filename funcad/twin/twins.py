"""The twin of a function: rewritten code with hooks, on the function's own cells, globals and defaults.

Idea: `Twins` makes them for one trace and keeps them as long as it lives. Only rewritten code outlives a trace (templates.py):
it knows no function, so that a twin keeps nothing alive that its function does not, and functions need not know their twins.

Invariant: a twin looks like its function: name, file, lines, signature, attributes. Its code alone is another, and `f.__code__`
read inside a twin gives the user's. Functions that a twin makes are twins with their root's hooks; `plain` undoes that.

Traps: an inner function may outlive its trace and meet the next one. It is then made anew there, with hooks of that trace.
Python's garbage collector does not look into code objects, and hooks stand in them: whatever hooks hold would live as long as
such a function, and in a circle with it for ever: an error's traceback holds codes. Therefore twins are closed when their trace
ends, and they and their hooks let go.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import Any

from funcad.host.where import tracing
from funcad.twin.hooks import Hooks, HookTable
from funcad.twin.templates import Origin, Rewritten, Untwinnable, origin_of, rewritten_code


class Twins:
    """The twins of one trace: `with Twins(hooks_for) as twins`, which closes them. `hooks_for(root)` gives a root's hooks.

    `makes`: which are told of nothing but calls, and of what makes something that may be written.
    """

    def __init__(self, hooks_for: Callable[[types.FunctionType], Hooks] = Hooks, makes: bool = False) -> None:
        self._hooks_for, self._makes = hooks_for, makes
        self._made: dict[int, tuple[types.FunctionType, types.CodeType, types.FunctionType]] = {}  # holds the functions, too
        self._hooks: list[Hooks] = []

    def __enter__(self) -> Twins:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Twins that have escaped go on, doing what Python does."""
        self._hooks_for = Hooks
        self._made.clear()
        while self._hooks:
            self._hooks.pop().close()

    def of(self, f: Any) -> types.FunctionType:
        """The twin of a function; f itself where it is one of these twins. Raises Untwinnable, which says why there is none."""
        known = self._made.get(id(f))
        if known is not None and known[1] is f.__code__:
            return known[2]
        if type(f) is not types.FunctionType:
            raise Untwinnable(f"it is no function written in Python, but a {type(f).__name__}")
        origin = origin_of(f.__code__)
        if origin is not None and origin.maker is self:
            return f
        code = f.__code__ if origin is None else origin.code
        if origin is not None and origin.rewritten.makes == self._makes:
            rewritten = origin.rewritten
        else:
            rewritten = rewritten_code(code, f.__globals__, self._makes)
        twin = self._twin(f, code, rewritten)
        self._made[id(f)] = f, f.__code__, twin
        return twin

    def says(self, x: Any) -> bool:
        """Is x, a tuple or a frozenset, a constant in the code of one of these twins?"""
        return any([_holds(twin.__code__.co_consts, x) for _, _, twin in self._made.values()])

    def _twin(self, f: types.FunctionType, code: types.CodeType, rewritten: Rewritten) -> types.FunctionType:
        if set(rewritten.code.co_freevars) != set(f.__code__.co_freevars):
            raise Untwinnable(f"rewritten, it needs other variables: {rewritten.code.co_freevars}")
        hooks = self._hooks_for(f)
        self._hooks.append(hooks)
        return _with_code(f, rewritten.bound(HookTable(hooks, shown_code), code, self))


def _holds(constants: Any, x: Any) -> bool:
    if type(constants) is types.CodeType:
        constants = constants.co_consts
    return constants is x or type(constants) in (tuple, frozenset) and any([_holds(c, x) for c in constants])


def is_twin(code: types.CodeType) -> bool:
    return origin_of(code) is not None


def shown_code(code: Any) -> Any:
    """The user's code, of a twin's; of anything else, it."""
    origin = origin_of(code) if type(code) is types.CodeType else None
    if origin is None:
        return code
    flags = code.co_flags  # which types.coroutine may have changed since
    return origin.code if origin.code.co_flags == flags else origin.code.replace(co_flags=flags)


def plain(f: types.FunctionType) -> types.FunctionType:
    """A function that a twin made, as the user wrote it: the same cells, without hooks. Of any other function, it."""
    return _with_code(f, shown_code(f.__code__)) if is_twin(f.__code__) else f


def _with_code(f: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    """f with another code, whose closure's variables may come in another order."""
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    closure = tuple([cells[name] for name in code.co_freevars])
    new = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    new.__kwdefaults__ = f.__kwdefaults__
    new.__qualname__, new.__module__, new.__doc__ = f.__qualname__, f.__module__, f.__doc__
    new.__dict__ = f.__dict__  # the same one: what f stores on itself is f's
    if sys.version_info >= (3, 14):  # annotations are worked out when somebody asks for them
        new.__annotate__ = f.__annotate__
    else:
        new.__annotations__ = f.__annotations__
    if sys.version_info >= (3, 12):
        new.__type_params__ = f.__type_params__
    return new


tracing.origin, tracing.shown_code = Origin, shown_code
