"""Arrays that a function makes, by whatever call, operator or index, as arrays that take traced values when it writes them.

Idea: `np.zeros` has a door (doors/makers.py); `A.copy()`, `A + 0` and `A[[0, 1]]` can have none. Where a traced value was
written into a plain array all the same, the function is started again as its twin, and whatever that makes anew is lent to it
(writes/plain.py). Its code is remembered (`makers` in host/conversions.py): from then on it begins so. Under jit the twin that
is there anyway does the same (seeing.py, calls.py).

Invariant: only what is new is lent, an array that shares no memory with an operand, so that nobody else misses a write. Trap: a
function without a source has no twin; its error stays as it was.
"""

from __future__ import annotations

import array
import copy
import functools
import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import handing, setting, state, tracing
from funcad.ir.tracer import Tracer
from funcad.reads.attributes import is_users_function, raw_of
from funcad.reads.code_reads import is_library
from funcad.twin.hooks import Hooks
from funcad.twin.templates import Untwinnable, is_alone
from funcad.twin.twins import Twins, is_twin
from funcad.unjitted.outside import COPIED
from funcad.writes.plain import PLAIN, PlainAdded, buffer, lent

_BUILTIN = types.BuiltinFunctionType
_FUNCTIONS = frozenset([types.FunctionType, types.MethodType, functools.partial])
_SPARSE = frozenset(["toarray", "todense", "diagonal", "dot"])
_MEMORY = frozenset([bytes, bytearray, memoryview, array.array])
_CONTAINERS = frozenset([list, dict, set, str])  # whose methods make no arrays
_ARRAY_LIBRARIES = frozenset(["numpy", "scipy", "funcad"])
_PYTHONS = frozenset([abs, divmod, isinstance, len, print, round])  # make no arrays, call nobody, and have no doors
_TEXTS, _PERCENTS = (str, bytes), (operator.mod, operator.imod)
_CALLING = frozenset([map, filter, functools.reduce, sorted, min, max])  # what they are handed


def lend_new(out: Any, operands: Sequence[Any], own: bool = True) -> Any:
    """What an operation made of these operands, to be written; what it shares with one of them stays as it is.

    `own=False`: somebody else may keep it, so that it is copied when it is written.
    """
    kind = type(out)
    if kind is list or kind is tuple:
        if not any([type(v) is np.ndarray for v in out]):
            return out
        made = [lend_new(v, [*operands, *[w for w in out if w is not v]], own) for v in out]
        if kind is tuple:
            return tuple(made)
        out[:] = made
        return out
    if kind is not np.ndarray or out.dtype.kind not in ("fc" if state.abstract is None else "fciub"):
        return out
    return out if any([_shares(x, out) for x in operands]) else buffer(out) if own else lent(out)


def _shares(x: Any, out: np.ndarray) -> bool:
    kind = type(x)
    if kind in (list, tuple):
        return any([_shares(v, out) for v in x])
    if kind is Tracer:
        return x.owner is PLAIN and np.may_share_memory(x.primal, out)
    if is_a(x, np.ndarray):
        return np.may_share_memory(x, out)
    return kind in _MEMORY or not is_a(x, (np.generic, type)) and hasattr(x, "__array__")  # who knows; a type is a dtype


def library_of(f: Any) -> str:
    """Which library's function or method makes something: "numpy", "scipy", "copy", "funcad" for its NumPy; "" of others."""
    owner = getattr(f, "__self__", None)
    if type(owner) is np.ndarray or f is np.ndarray:
        return "numpy"
    module = getattr(f, "__module__", None) or type(owner).__module__
    library = str(module).partition(".")[0]
    if library == "funcad":
        return library if ".numpy." in f"{module}." else ""
    if library == "scipy":
        bound = owner is not None and not isinstance(owner, types.ModuleType)
        return library if not bound or f.__name__ in _SPARSE else ""
    return library if library in ("numpy", "copy") and not (isinstance(f, type) and f is not np.ndarray) else ""


def lend_called(f: Any, out: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What a function or method of a library's gave."""
    if type(out) not in (np.ndarray, list, tuple, dict):
        return out
    library = library_of(f)
    if library == "copy":
        return _copied(out, f is copy.deepcopy, args)
    if not library:
        return out
    return lend_new(out, [getattr(f, "__self__", None), *args, *kwargs.values()], library == "numpy")


def _copied(out: Any, deep: bool, args: Sequence[Any]) -> Any:
    if type(out) is dict and deep:
        out.update({k: _copied(v, True, args) for k, v in out.items()})
    elif type(out) is list and deep:
        out[:] = [_copied(v, True, args) for v in out]
    elif type(out) is tuple and deep:
        return tuple([_copied(v, True, args) for v in out])
    return lend_new(out, args) if type(out) is np.ndarray else out


def run_lending(f: Any, how: Callable[[Any], Any] | None, *args: Any, **kwargs: Any) -> Any:
    """`how(f)(*args, **kwargs)`, where the user's functions that run get what they make as arrays that can be written."""
    with Twins(_Lending, makes=True) as twins, setting(lender=_Lender(twins)):
        how = how or (state.observer or state.lender).runs_as
        return how(f)(*args, **kwargs)


class _Lender:
    """What stands in the place of a function of the user's that a transformation runs."""

    __slots__ = ("_twins", "_called")

    def __init__(self, twins: Twins):
        self._twins = twins
        self._called: dict[int, tuple[Any, Any, Any]] = {}  # the function, its code, and what is called

    def called(self, f: types.FunctionType) -> Any:
        """What is called in the place of a function of the user's."""
        twin = self.twin(f)
        found = _reading(twin) if twin is not f and is_alone(f) else twin
        self._called[id(f)] = f, f.__code__, found
        return found

    def twin(self, f: Any) -> Any:
        try:
            return self._twins.of(f)
        except Untwinnable:
            return f

    def runs_as(self, f: Any) -> Any:
        """What is called in the place of f."""
        kind = type(f)
        known = self._called.get(id(f))
        if known is not None and known[0] is f and (kind is not types.FunctionType or known[1] is f.__code__):
            return known[2]
        if kind is types.BuiltinFunctionType and type(f.__self__) in _CONTAINERS or f is range:
            return f
        if kind is types.FunctionType:
            if is_twin(f.__code__):
                return f
            return self.called(f) if is_users_function(f) else self._library(f)
        if kind is types.MethodType:
            theirs = is_users_function(f.__func__)
            return types.MethodType(self.called(f.__func__), f.__self__) if theirs else self._library(f)
        if kind is functools.partial:
            return functools.partial(self.runs_as(f.func), *f.args, **f.keywords)
        if isinstance(f, type):
            return self._library(f) if is_library(f) else self._class(f)
        method = raw_of(kind, "__call__")[1]
        return types.MethodType(self.twin(method), f) if is_users_function(method) else self._library(f)

    def _library(self, f: Any) -> Any:
        calls = type(f) in (type, types.BuiltinFunctionType) and f in _CALLING
        library = library_of(f)
        found = _LibraryCall(f, library) if calls or library or tracing.door_of(f) is not f else f
        if library and type(f) is types.FunctionType:
            self._called[id(f)] = f, f.__code__, found
        return found

    def _class(self, f: Any) -> Any:
        new, begin = f.__new__, f.__init__
        theirs = is_users_function(new)
        if type(f) is not type or not theirs and (new is not object.__new__ or not is_users_function(begin)):
            return f

        def make(*args: Any, **kwargs: Any) -> Any:
            made = self.twin(new)(f, *args, **kwargs) if theirs else object.__new__(f)
            if begin is not object.__init__ and isinstance(made, f):
                self.twin(begin)(made, *args, **kwargs)
            return made

        return make


def _reading(twin: types.FunctionType) -> Any:
    """The twin of a function that only reads what it is given, while nobody else runs: small arrays go to it bare."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if state.abstract is None:
            args = tuple([_bare(x) if type(x) is Tracer else x for x in args])
            if kwargs:
                kwargs = {name: _bare(x) if type(x) is Tracer else x for name, x in kwargs.items()}
        return twin(*args, **kwargs)

    return call


def _bare(x: Tracer) -> Any:
    """Of a small buffer the array, which rows copy when they keep it."""
    return x.primal if x.owner is PLAIN and type(x.primal) is np.ndarray and x.primal.nbytes < COPIED else x


def call_lending(f: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A library's function or method; what it makes is lent."""
    owner, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
    if name == "shuffle" and len(args) == 1 and type(args[0]) is Tracer and not kwargs:
        if hasattr(owner, "permutation") and tracing.door_of(f) is f:  # of a generator: by the same steps
            args[0][...] = args[0][f.__self__.permutation(len(args[0]))]
            return None
    if name == "astype" and type(owner) is np.ndarray and owner.dtype == object and Tracer in map(type, owner.flat):
        return Tracer.namespace.numpy.array(owner.tolist()).astype(*args, **kwargs)
    out = tracing.door_of(f)(*args, **kwargs)
    if f is np.ndarray and type(out) is np.ndarray and out.base is None and dtype_kind(out.dtype) in "biufc":
        out[...] = 0  # see makers.py
    return lend_called(f, out, args, kwargs)


class _LibraryCall:
    """A call of a library's function: what it makes is lent."""

    __slots__ = ("f", "library")

    def __init__(self, f: Any, library: str = ""):
        self.f = f
        self.library = library if type(f) is types.FunctionType and f.__name__ not in ("astype", "shuffle") else ""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if _FUNCTIONS.isdisjoint(map(type, args)) and self.library in _ARRAY_LIBRARIES:  # at a glance, as most are
            out = tracing.door_of(self.f)(*args, **kwargs)
            if type(out) not in (np.ndarray, list, tuple, dict):
                return out
            return lend_new(out, [*args, *kwargs.values()], self.library == "numpy")
        handed = lambda x: state.lender.runs_as(x) if type(x) in _FUNCTIONS else x
        return call_lending(self.f, tuple(map(handed, args)), {name: handed(x) for name, x in kwargs.items()})


handing.update([_LibraryCall.__call__.__code__, call_lending.__code__])


class _Lending(Hooks):
    """The hooks of a twin that gets what it makes as arrays that can be written."""

    def call(self, function: Any) -> Any:
        if function is range or state.lender is None:
            return function
        if type(function) is _BUILTIN and (type(function.__self__) in _CONTAINERS or function in _PYTHONS):
            return function
        return state.lender.runs_as(function)

    def call_read(self, function: Any) -> Any:
        """What it makes is only read."""
        if function is range or type(function) is _BUILTIN and (type(function.__self__) in _CONTAINERS or function in _PYTHONS):
            return function
        read_only = getattr(function, "read_only", None)  # of a door
        if read_only is not None and state.abstract is None:
            return read_only
        lender = state.lender
        found = function if lender is None else lender.runs_as(function)
        bare = type(found) is _LibraryCall and getattr(function, "__name__", "") != "astype" and library_of(function)
        return tracing.door_of(function) if bare else found

    def binary(self, op: Any, a: Any, b: Any) -> Any:
        out = a % b if type(a) in _TEXTS and op in _PERCENTS else op(a, b)  # `makes_text` looks for the sign
        return lend_new(out, (a, b)) if type(out) is np.ndarray and state.lender is not None else out

    def unary(self, op: Any, a: Any) -> Any:
        out = op(a)
        return lend_new(out, (a,)) if type(out) is np.ndarray and state.lender is not None else out

    def load_item(self, owner: Any, key: Any) -> Any:
        out = owner[key]
        return out if type(out) is not np.ndarray else lend_item(owner, out)

    def augmented(self, owner: Any, op: Any) -> Any:
        """Arrays take what `owner[key] += value` has made; what others keep of it may be written."""
        kind = type(owner)
        if kind is Tracer:
            if owner.owner is PLAIN and owner.box is not None and not owner.box.doubtful:
                return PlainAdded(owner)
            return tracing.added(owner) if op is operator.iadd and owner.owner.holds else owner
        if kind.__module__.startswith("scipy.sparse"):
            adding = getattr(kind, "adding", None)  # of one that stands in for traced elements
            return owner if adding is None or op is not operator.iadd else adding(owner)
        return owner if kind is np.ndarray or state.lender is None else _Keeper(owner)


class _Keeper:
    """Stands for a list, a dict or another object in `owner[key] += value`: what the sum has made is lent."""

    __slots__ = ("owner", "old")

    def __init__(self, owner: Any) -> None:
        self.owner = owner

    def __getitem__(self, key: Any) -> Any:
        self.old = out = lend_item(self.owner, self.owner[key])
        return out

    def __setitem__(self, key: Any, value: Any) -> None:
        self.owner[key] = lend_new(value, (self.old,), False) if value is not self.old else value


def lend_item(owner: Any, out: Any) -> Any:
    """`owner[key]`, where that is an array that NumPy has made (of positions, of a mask, by np.mgrid)."""
    if type(out) is not np.ndarray or state.lender is None:
        return out
    if out.base is None and out.dtype.kind in "fc" and type(owner) is np.ndarray and owner.dtype.kind in "fc":
        return buffer(out)  # of its own
    made = type(owner) is np.ndarray or type(owner).__module__.partition(".")[0] in ("numpy", "scipy")
    return lend_new(out, (owner,)) if made else out
