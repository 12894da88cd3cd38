"""A function of NumPy's or SciPy's by its own code: the installed code object, on funcad's functions.

Idea: most functions of the two libraries are Python over a few hundred compiled ones. `lifted(f)` is a function with f's own
code object and other globals: modules of the two libraries are seen through `_SeenModule`, whose names are stand-ins. A
function that funcad has a rule for is funcad's; one in Python is lifted in turn, with its closure and defaults; a class is made
again with lifted methods, and a result gets the library's class back; what is compiled and unknown raises, with its name, when
it meets a traced value. What makes an array gives one that can be written with traced values.

What stands in for makers of arrays, for Python's number types and for helpers that look at memory: `np.zeros(n)` gives an array
that takes traced values when it is written. `float(x)` of a traced x is x; `float` stays a class, equal to Python's, of which
Python's floats are instances, so that `isinstance` and `dtype=float` hold. SciPy's helpers that pick elements by a mask and put
them back have stand-ins of their own (stand_ins.py).

Invariants: nothing of the libraries is copied, changed or stored on disk; a lifted function stores nothing in a module's
globals (refused when it is lifted); it is kept by the function and its code, so that a patched or upgraded one is lifted anew.

Traps: a function with a door has the door's code, and its own in `doors`: `tracing.own_code` knows it. `super()` finds the
class in a cell, so cells are translated too. What a *helper* of
another module refers to is looked up once.
"""

from __future__ import annotations

import abc
import ast
import builtins
import cmath
import contextlib
import functools
import inspect
import math
import sys
import textwrap
import types
import warnings
from collections.abc import Callable, Iterator
from dis import get_instructions
from typing import Any

import numpy as np

from funcad.errors import TracerArrayConversionError
from funcad.host.real_types import is_a
from funcad.host.where import outside, tracing
from funcad.ir.tracer import Tracer
from funcad.lifting.compiled_rules import RULES
from funcad.lifting.stand_ins import array_behind, helper
from funcad.memo import remembers, table, weak_table
from funcad.numpy.dispatch import TABLE, is_traced, where_am_i
from funcad.tree.same import slots_of
from funcad.writes.plain import buffer, lent

# -- numbers and types


class _StandsFor(type):
    """A class that stands for another one: it is equal to it, has its instances, and is called for it."""

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, cls.stands_for)  # type: ignore[attr-defined]

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, cls.stands_for)  # type: ignore[attr-defined]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) is Tracer:
            return cls.of_traced(args[0])  # type: ignore[attr-defined]
        return cls.stands_for(*args, **kwargs)  # type: ignore[attr-defined]

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.stands_for  # type: ignore[attr-defined]

    def __hash__(cls) -> int:
        return hash(cls.stands_for)  # type: ignore[attr-defined]

    def __getattr__(cls, name: str) -> Any:
        return getattr(type.__getattribute__(cls, "stands_for"), name)


def _standing_for(kind: type, of_traced: Callable[[Any], Any], **more: Any) -> Any:
    return _StandsFor(
        kind.__name__,
        (),
        {"stands_for": kind, "of_traced": staticmethod(of_traced), **more},
    )


def _as_number(kind: type) -> Callable[[Any], Any]:
    dtype = np.dtype(kind)

    def of_traced(x: Any) -> Any:
        if x.size != 1 or dtype.kind == "f" and x.dtype.kind == "c":
            return kind(x)  # which raises
        x = x.reshape(()) if x.ndim else x
        return x if x.dtype == dtype else x.astype(dtype)

    return of_traced


NUMBERS: dict[str, Any] = {
    **{kind.__name__: _standing_for(kind, _as_number(kind), dtype=np.dtype(kind)) for kind in (float, complex)},
    "type": _standing_for(type, lambda x: x.__class__),
}

# -- makers


_FILLS = {
    "zeros": 0,
    "zeros_like": 0,
    "empty": 0,
    "empty_like": 0,
    "ones": 1,
    "ones_like": 1,
}
_MAKERS = {*_FILLS, "full", "full_like", "array", "copy", "eye", "identity"}


def maker(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    """The rule of NumPy's function of that name; what it makes anew takes traced values when it is written."""
    if name == "broadcast_arrays":
        return lambda *args, **kwargs: (
            type(out := rule(*args, **kwargs))(map(lent, out)) if is_traced(args) else rule(*args)
        )
    if name not in _MAKERS:
        return rule
    fill, empty = _FILLS.get(name), name.startswith("empty")

    def make(*args: Any, **kwargs: Any) -> Any:
        out = rule(*args, **kwargs)
        if type(out) is not np.ndarray or out.dtype.kind not in "fcb" or kwargs.get("copy", True) is not True:
            return out
        if empty:
            out[...] = 0
        return buffer(out, fill)

    make.__name__ = name
    return make


# -- where things come from

LIBRARIES = ("numpy", "scipy")
_SEEN_THROUGH = {
    *LIBRARIES,
    "math",
    "cmath",
    "warnings",
}  # modules whose names are looked up here
_SAME: Any = object()


def library_of(x: Any) -> str:
    """The package that something comes from: "numpy" for a function of numpy.lib's."""
    found = getattr(x, "__module__", None)
    return found.partition(".")[0] if type(found) is str else ""


def public_name(f: Any) -> str:
    """How a user calls it: "scipy.stats.skew"."""
    parts = str(getattr(f, "__module__", "")).split(".")
    shown = [p for p in parts if not p.startswith("_")]
    if parts[0] == "numpy" and shown != parts:
        shown = ["numpy"]
    return ".".join(
        [
            *shown,
            getattr(f, "__qualname__", getattr(f, "__name__", type(f).__name__)),
        ]
    )


# -- modules


class _SeenModule:
    """A module of the two libraries as lifted code sees it: its names are stand-ins."""

    def __init__(self, origin: types.ModuleType):
        self.__dict__["_origin"] = origin
        self.__dict__["__name__"] = origin.__name__

    def __getattr__(self, name: str) -> Any:
        value = stand_in(getattr(self._origin, name))
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        raise _stores(f"{self._origin.__name__}.{name}")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return self._origin is getattr(other, "_origin", other)

    def __hash__(self) -> int:
        return hash(self._origin)

    def __dir__(self) -> list[str]:
        return dir(self._origin)


_modules = table("lifting.modules", "name of a module: what lifted code sees of it", same=None)


def module_seen(origin: types.ModuleType) -> Any:
    found = _modules.get(origin.__name__)
    if found is None or found._origin is not origin:
        found = _modules[origin.__name__] = _SeenModule(origin)
        if origin is warnings:
            found.__dict__["warn"] = _warn
        elif origin in (math, cmath):
            found.__dict__.update({name: _math(f) for name, f in vars(origin).items() if callable(f) and name[0] != "_"})
    return found


def _warn(
    message: Any,
    category: Any = None,
    stacklevel: int = 1,
    source: Any = None,
    **options: Any,
) -> None:
    """`warnings.warn` of lifted code: at the user's line."""
    warnings.warn(message, category, outside(1), source, **options)


@remembers(256)
def _math(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of math or cmath, which takes traced values where its door does."""

    def call(*args: Any) -> Any:
        args = tuple(map(array_behind, args))
        return (tracing.door_of(f) if is_traced(args) else f)(*args)

    call.__name__ = f.__name__
    return call


def _stores(what: str) -> TracerArrayConversionError:
    return TracerArrayConversionError(
        f"code of a library was to run on traced values{where_am_i()}, and it stores into {what}, where a traced value "
        "would stay.\nRemedy: call it in funcad.pure_callback, and that in a funcad.custom_jvp function if it is to have a "
        "derivative."
    )


# -- functions


class _Names(dict[str, Any]):
    """The globals of lifted functions of one module: a name is looked up in the module when it is first read."""

    def __init__(self, origin: dict[str, Any]):
        super().__init__()
        self.origin = origin
        self.read: dict[str, Any] = {}  # what the module had
        for name in ("__name__", "__package__", "__file__"):
            if name in origin:
                self[name] = origin[name]
        self["__builtins__"] = _builtins_over(self)

    def __missing__(self, name: str) -> Any:
        found = self.origin[name]
        value = stand_in(found)
        self[name] = value
        self.read[name] = found
        return value

    def renew(self) -> None:
        """Forget what has been exchanged in the module since."""
        get = self.origin.get
        for name in [n for n, found in self.read.items() if get(n) is not found]:
            del self[name], self.read[name]


_names = table(
    "lifting.names",
    "id of a module's globals: the globals of its lifted functions",
    same=None,
)


def _builtins_over(names: _Names) -> dict[str, Any]:
    """Python's builtins, with numbers and types of traced values, and imports of what stands in."""

    def import_seen(
        name: str,
        globals: Any = None,
        locals: Any = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        return stand_in(builtins.__import__(name, names.origin, locals, fromlist, level))

    return {**builtins.__dict__, **NUMBERS, "__import__": import_seen}


def all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from all_codes(constant)


class Lifted:
    """What is kept of a function: the code that was lifted, the function made of it, and whether it iterates."""

    __slots__ = ("code", "run", "names", "where")

    def __init__(self, code: types.CodeType, run: Callable[..., Any], names: _Names):
        self.code, self.run, self.names = code, run, names


_lifted = weak_table(
    "lifting.functions",
    "function of a library: the same code with other globals",
    same=None,
)


def lifted(f: types.FunctionType) -> Callable[..., Any]:
    """The function that runs f's code on funcad's functions."""
    code = tracing.own_code(f)
    found = _lifted.get(f)
    if found is not None and found.code is code:
        return found.run  # type: ignore[no-any-return]
    names = _names.get(id(f.__globals__))
    if names is None:
        names = _names.put(id(f.__globals__), _Names(f.__globals__))
    run = _function(f, code, names)
    _lifted[f] = Lifted(code, run, names)
    return run


def current(f: types.FunctionType) -> Callable[..., Any]:
    """`lifted(f)`, after a look at what its module has now; or what stands in for it."""
    found = helper(f)
    if found is not None:
        return found  # type: ignore[no-any-return]
    run = lifted(f)
    _lifted[f].names.renew()
    return run


def _function(f: types.FunctionType, code: types.CodeType, names: _Names) -> Callable[..., Any]:
    stored = [
        i.argval
        for c in all_codes(code)
        for i in get_instructions(c)
        if i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL")
    ]
    if stored:
        return _refusing(f"{f.__module__}.{stored[0]}")
    cells = None if f.__closure__ is None else tuple([types.CellType() for _ in f.__closure__])
    run = types.FunctionType(code, names, f.__name__, None, cells)
    run.__qualname__, run.__module__, run.__doc__ = (
        f.__qualname__,
        f.__module__,
        f.__doc__,
    )
    _lifted[f] = Lifted(code, run, names)  # before its cells, which may lead here again
    for cell, own in zip(cells or (), f.__closure__ or ()):
        try:
            cell.cell_contents = stand_in(own.cell_contents)
        except ValueError:  # an empty cell
            pass
    run.__defaults__ = None if f.__defaults__ is None else tuple([stand_in(d) for d in f.__defaults__])
    options = {k: stand_in(d) for k, d in (f.__kwdefaults__ or {}).items() if k in code.co_varnames}  # a door has one more
    run.__kwdefaults__ = options or None
    for name, value in vars(f).items():
        if name not in ("__wrapped__", "_implementation"):
            run.__dict__[name] = value
    if "__wrapped__" in vars(f):
        with contextlib.suppress(ValueError):  # it wraps a ufunc, which has none before NumPy 2.4
            run.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]  # of what it wraps
    loop = _iterates(f, code)
    return run if loop is None else _once_only(f, run, loop)


def _refusing(what: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise _stores(what)

    return refused


# -- iteration


# Functions whose loops end by sizes or by what is no result, though they compare; calls of the tests run through them. The book
# of `_kmeans` is means of rows with labels that are asked at the values: its derivative is that of its last step.
_FINITE = frozenset(
    [
        "numpy.lib._arraypad_impl.pad",
        "numpy.lib._polynomial_impl.polydiv",
        "numpy.polynomial.chebyshev._zseries_div",
        "scipy.cluster.vq._kmeans",
        "scipy.cluster.vq._vq_impl._kmeans",  # from SciPy 1.18 on
        "scipy.interpolate._bsplines.fpcheck",
        "scipy.signal._signaltools.lfilter_zi",
        "scipy.stats._axis_nan_policy._masked_arrays_2_sentinel_arrays",
    ]
)


def _iterates(f: types.FunctionType, code: types.CodeType) -> int | None:
    """The line of a loop that ends when values have converged: a `while`, or a `for` that breaks."""
    if f"{f.__module__}.{f.__qualname__}" in _FINITE or not any(
        ["BACKWARD" in i.opname for i in get_instructions(code)]
    ):
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError):  # no source: a loop is a loop
        return code.co_firstlineno
    if code.co_name not in ["<lambda>", *[getattr(n, "name", None) for n in ast.walk(tree)]]:
        return code.co_firstlineno  # another's source: under "<string>" Python 3.13 finds that of `python -c`
    for loop in ast.walk(tree):
        if isinstance(loop, (ast.While, ast.For)):
            inner = [
                n
                for n in ast.walk(loop)
                if isinstance(n, ast.If) and any(isinstance(s, ast.Break) for s in n.body)
            ]
            tests = [n.test for n in inner] + ([loop.test] if isinstance(loop, ast.While) else [])
            if any([_asks_values(test, loop) for test in tests]):
                return code.co_firstlineno + loop.lineno - 1
    return None


def _asks_values(test: ast.expr, loop: ast.While | ast.For) -> bool:
    """Does a test compare, by order, what the loop computes? Not what it counts, nor what it was given."""
    given = [n for n in ast.walk(loop) if isinstance(n, ast.Assign)]
    computed: dict[str, list[ast.expr]] = {}
    for n in given:
        for target in n.targets:
            for name in [t.id for t in ast.walk(target) if isinstance(t, ast.Name)]:
                computed.setdefault(name, []).append(n.value)
    asked = [
        test,
        *[v for n in ast.walk(test) if isinstance(n, ast.Name) for v in computed.get(n.id, [])],
    ]
    for compared in [c for t in asked for c in ast.walk(t) if isinstance(c, ast.Compare)]:
        names = {n.id for n in ast.walk(compared) if isinstance(n, ast.Name)}
        ordered = any([isinstance(op, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)) for op in compared.ops])
        moved = [v for name in names for v in computed.get(name, []) if not _counts(v)]
        if ordered and moved:
            return True
    return False


def _counts(value: ast.expr) -> bool:
    """Is it a number, a name, a length, or one of these more or less a number?"""
    if isinstance(value, ast.BinOp):
        return _counts(value.left) and _counts(value.right)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func) in ("len", "int", "min", "max", "range")
    return isinstance(value, (ast.Constant, ast.Name))


def _once_only(f: types.FunctionType, run: Callable[..., Any], line: int) -> Callable[..., Any]:
    """f, which takes no traced values: it goes on until they have converged."""

    @functools.wraps(run)
    def iterating(*args: Any, **kwargs: Any) -> Any:
        if is_traced([array_behind(a) for a in (*args, *kwargs.values())]):
            raise TracerArrayConversionError(
                f"{public_name(f)} was called with traced values{where_am_i()}: its own code goes on until values have "
                f"converged (line {line} of {f.__module__}), and the derivative of its steps is not that of its result.\n"
                "Remedy: funcad.custom_root with the equation that the result solves; or funcad.stop_gradient(x) of its "
                "arguments if no derivative is wanted."
            )
        return run(*args, **kwargs)

    return iterating


# -- classes and objects

# Which hold values; and np.vectorize, whose call has a door
_PLAIN_BASES = (
    np.vectorize,
    tuple,
    np.ndarray,
    np.generic,
    np.dtype,
    BaseException,
    type,
    str,
    int,
    float,
)
_classes = table("lifting.classes", "class of a library: the same with lifted methods", same=None)
_kinds = table("lifting.kinds", "class with lifted methods: the library's", same=None)


_SLOTS = (
    types.MemberDescriptorType,
    types.GetSetDescriptorType,
)  # that a class makes for itself


class _SeenClass(abc.ABCMeta):
    """Of classes with lifted methods: the library's objects are theirs, too."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """An object; the library's own, where somebody answers when one is made, and so for its methods."""
        kind = _kinds.get(cls)
        if kind is None or not _has_door(kind.__init__):
            return super().__call__(*args, **kwargs)
        return kind(*map(array_behind, args), **{k: array_behind(a) for k, a in kwargs.items()})

    def __instancecheck__(cls, x: Any) -> bool:
        return type.__instancecheck__(cls, x) or cls in _kinds and isinstance(x, _kinds[cls])


def lifted_class(kind: type) -> type:
    """The class with lifted methods and bases; the class itself where it only holds values. See `as_of_library`."""
    if not _can_lift(kind):
        return kind
    found = _classes.get(kind)
    if found is None:
        plain = {
            k: v for k, v in vars(kind).items() if _member(v, False) is _SAME and not isinstance(v, _SLOTS)
        }
        found = _classes[kind] = _SeenClass(kind.__name__, tuple(map(lifted_class, kind.__bases__)), plain)
        for name, member in vars(kind).items():
            new = _member(member)
            if new is not _SAME:
                setattr(found, name, new)
                if isinstance(new, functools.cached_property):
                    new.__set_name__(found, name)
        abc.update_abstractmethods(found)
        _kinds[found] = kind
    return found


def as_of_library(x: Any) -> Any:
    """A result as an object of the library's own class."""
    kind = _kinds.get(type(x))
    if kind is not None and hasattr(kind, "__slots__") and slots_of(kind):
        return _of_class(x, kind)
    if kind is not None:
        x.__class__ = kind
    return x


def slots_as(source: Any, target: Any, lift: bool = False) -> None:
    """What one of two objects that share a dict keeps beside it, in the other one too; a function `lift`ed for the other."""
    for name in slots_of(type(target)) if hasattr(type(target), "__slots__") else ():
        if hasattr(source, name):
            value = getattr(source, name)
            if not isinstance(value, types.FunctionType):
                setattr(target, name, value)
            elif lift or not hasattr(target, name):
                setattr(target, name, stand_in(value) if lift else value)


def _of_class(x: Any, kind: type) -> Any:
    found = object.__new__(kind)
    object.__setattr__(found, "__dict__", x.__dict__)
    slots_as(x, found)
    return found


def _can_lift(kind: type) -> bool:
    if library_of(kind) not in LIBRARIES or issubclass(kind, _PLAIN_BASES) or not kind.__flags__ & (1 << 9):
        return False
    return type(kind).__module__ in ("builtins", "abc")


def _has_door(f: Any) -> bool:
    """Is it a function for which somebody answers, not by its own code?"""
    return isinstance(f, types.FunctionType) and tracing.own_code(f) is not f.__code__ and not tracing.by_own_code(f)


def _member(member: Any, now: bool = True) -> Any:
    """A method, property or the like, lifted if that is to be `now`; `_SAME` of everything else."""
    functions = (types.FunctionType, classmethod, staticmethod, property, functools.cached_property)
    if not now:
        return _SAME if not isinstance(member, functions) else None
    if isinstance(member, types.FunctionType):
        return member if _has_door(member) else helper(member) or lifted(member)
    if isinstance(member, (classmethod, staticmethod)):
        return type(member)(stand_in(member.__func__))
    if isinstance(member, functools.cached_property):
        return functools.cached_property(stand_in(member.func))
    if type(member) is property:
        parts = [m if m is None else stand_in(m) for m in (member.fget, member.fset, member.fdel)]
        return property(*parts, doc=member.__doc__)
    return _SAME if not isinstance(member, functions) else member


_objects = weak_table(
    "lifting.objects",
    "object of a library: one that shares its attributes, and has lifted methods",
    same=None,
)


def lifted_object(x: Any) -> Any:
    """An object with the attributes of x, the same dict, whose methods are lifted."""
    kind = lifted_class(type(x)) if type(x) is not Tracer else Tracer
    if kind is type(x) or not hasattr(x, "__dict__") or "__weakref__" not in dir(type(x)):
        return x
    kept = type(x).__hash__ is not None
    found = _objects.get(x) if kept else None
    if found is None or type(found) is not kind:
        found = _of_class(x, kind)
        if kept:
            _objects[x] = found
    slots_as(x, found, lift=True)
    return found


# -- what stands for what


def _compiled(f: Any) -> Callable[..., Any]:
    """A compiled function without a rule, which says its name when it meets a traced value."""
    name = public_name(f)

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__module__", "__doc__"))
    def compiled(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = (
            tuple(map(array_behind, args)),
            {k: array_behind(a) for k, a in kwargs.items()},
        )
        if is_traced(args, kwargs):
            raise TracerArrayConversionError(
                f"{name} is compiled code, and was called with traced values{where_am_i()} by the code of the library's "
                "function that was called there.\nRemedy: call that function in funcad.pure_callback, and that in a "
                "funcad.custom_jvp function if it is to have a derivative; or take funcad.stop_gradient(x) of its arguments."
            )
        return f(*args, **kwargs)

    return compiled


def ruled(f: Any) -> Callable[..., Any] | None:
    """What stands in for a compiled function that has a formula (compiled_rules.py)."""
    name = str(getattr(f, "__name__", "")).rpartition(" ")[2]
    rules = [r for r in RULES if name in RULES[r] and getattr(sys.modules.get(r), name, None) is f]
    if not rules:
        return None
    out, rule = RULES[rules[0]][name]

    @functools.wraps(f, assigned=("__name__", "__qualname__", "__module__", "__doc__"))
    def told(*args: Any, **kwargs: Any) -> Any:
        plain = tuple(map(array_behind, args))
        named = {k: array_behind(v) for k, v in kwargs.items()}
        if not is_traced(plain, named):
            return f(*plain, **named)
        kept = [a if i == out else b for i, (a, b) in enumerate(zip(args, plain))]
        return rule(f, *kept, **{k: kwargs[k] if k == "out" else v for k, v in named.items()})

    return told


_SHARING = {f.__name__: f for f in (np.may_share_memory, np.shares_memory)}


def _of_numpy(f: Any) -> Any:
    """funcad's function for one of NumPy's, which NumPy has under its name; None of all others."""
    name = getattr(f, "__name__", None)
    if type(name) is not str or isinstance(f, (type, np.ufunc)):
        return None
    for library, path in ((np, ()), (np.linalg, ("linalg",)), (np.fft, ("fft",))):
        public = vars(library).get(name)
        if public is None or public is not f and getattr(public, "_implementation", None) is not f:
            continue
        if name in _SHARING:  # an array that is traced is that of the value which it names
            return functools.partial(_shares, _SHARING[name])
        ours = functools.reduce(getattr, path, Tracer.namespace.numpy)
        rule = getattr(ours, name, None)
        if callable(rule) and not isinstance(rule, type):
            return maker(name, rule) if library is np else rule
    return None


def _shares(f: Callable[..., bool], x: Any, y: Any, max_work: Any = None) -> bool:
    return x is y if is_traced((x, y)) else f(x, y)


def counterpart(f: Any) -> Any:
    """funcad's own function for one of NumPy's or SciPy's, or None."""
    rule = _of_numpy(f)
    parts = str(getattr(f, "__module__", "")).split(".")
    name = getattr(f, "__name__", None)
    if rule is not None or parts[0] != "scipy" or len(parts) < 2 or type(name) is not str:
        return rule
    whole = ".".join([p for p in parts[1:] if p[:1] != "_"])
    for path in {parts[1], whole}:  # scipy.spatial, and scipy.spatial.distance
        public = getattr(sys.modules.get(f"scipy.{path}"), name, None)
        if public is None or public is not f and getattr(public, "__wrapped__", None) is not f:
            continue
        ours = Tracer.namespace.scipy
        for part in path.split("."):
            ours = getattr(ours, part, None)
        if name in dir(ours):
            rule = getattr(ours, name)
            return None if hasattr(rule, "by_own_code") else _of_arrays(rule)
    return None


def _of_arrays(f: Any) -> Any:
    """A function of SciPy's, for which arrays that this code made are arrays."""
    if not callable(f) or isinstance(f, type):
        return f

    @functools.wraps(f)
    def of_arrays(*args: Any, **kwargs: Any) -> Any:
        return f(
            *map(array_behind, args),
            **{k: array_behind(a) for k, a in kwargs.items()},
        )

    return of_arrays


def _namespace_of_arrays(*arrays: Any) -> Any:
    """`array_namespace` for traced values: NumPy's functions, with the names of the array API standard."""
    return module_seen(sys.modules["scipy._lib._array_api"].np_compat)


_COMPILED = (types.BuiltinFunctionType, type(np.ufunc.reduce))
_COMPILED_NAMES = ("cython_function_or_method", "fused_cython_function")


def _density_of_ncx2(x: Any, df: Any, nc: Any) -> Any:
    """The compiled density of non-central chi-square, by the library's own formula of its logarithm."""
    log = sys.modules["scipy.stats._continuous_distns"]._ncx2_log_pdf
    return np.exp(lifted(log)(x, df, nc))


def _holds_functions(x: Any) -> bool:
    """Are there functions of the libraries in a container, to which lifted code compares its own?"""
    held = x.values() if type(x) is dict else x
    return any(
        [
            isinstance(v, types.FunctionType)
            and library_of(v) in LIBRARIES
            or type(v) in (tuple, list)
            and _holds_functions(v)
            for v in held
        ]
    )


def stand_in(x: Any) -> Any:
    """What lifted code finds in the place of something that its module has."""
    if type(x) is Tracer:
        return x
    if isinstance(x, types.ModuleType):
        return module_seen(x) if x.__name__.partition(".")[0] in _SEEN_THROUGH else x
    if type(x) in (dict, tuple, list) and _holds_functions(x):  # of names and functions
        return {k: stand_in(v) for k, v in x.items()} if type(x) is dict else type(x)(map(stand_in, x))
    if is_a(x, np.ufunc):
        return _density_of_ncx2 if x.__name__ == "_ncx2_pdf" else ruled(x) or x
    if is_a(x, (int, float, str, tuple, list, dict, np.ndarray, np.generic)) or x is None:
        return x
    if type(x).__name__ == "fortran":
        return ruled(x) or x
    name = getattr(x, "__qualname__", None)
    if name == "array_namespace":
        return _namespace_of_arrays
    if helper(x) is not None:
        return helper(x)
    if isinstance(x, functools.partial):
        return functools.partial(stand_in(x.func), *x.args, **x.keywords)
    if isinstance(x, types.BuiltinFunctionType) and library_of(x) in ("math", "cmath"):
        return _math(x)
    if library_of(x) not in LIBRARIES and library_of(type(x)) not in LIBRARIES:
        return x
    if x is np.nditer:  # which would read memory that is not there
        return _compiled(x)
    if isinstance(x, type):
        return lifted_class(x)
    rule = counterpart(x)
    if rule is not None:
        return rule
    if hasattr(x, "_implementation") and x in TABLE:  # NumPy hands it over by itself
        return x
    f = getattr(x, "_implementation", x)
    if isinstance(f, types.FunctionType):
        return lifted(f)
    if isinstance(f, types.MethodType) and isinstance(f.__func__, types.FunctionType):
        return types.MethodType(lifted(f.__func__), stand_in(f.__self__))
    if isinstance(f, _COMPILED) or type(f).__name__ in _COMPILED_NAMES:
        owner = getattr(f, "__self__", None)
        return f if is_a(owner, (np.ufunc, np.ndarray)) else ruled(f) or _compiled(f)
    return lifted_object(x)
