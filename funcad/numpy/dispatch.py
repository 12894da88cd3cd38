"""One table: which function of funcad's answers for which function of NumPy's.

Idea: `@implements("sum")` on a function with NumPy's signature makes (a) the entry of `np.sum` in `TABLE`, which
`__array_function__` and `__array_ufunc__` read when NumPy is called with a traced value, and (b) the public function of
`funcad.numpy`, so the two cannot drift. Invariant: with no tracer among its arguments the public function *is* NumPy's (or,
for device arrays, their library's function of the same name): same result, same warnings, same errors. What NumPy cannot
hand over raises, naming the user's line and the remedy; it never becomes a silent constant.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.configuration import MARGIN, REST, Function, NamedTuple, OnDemand, named_as
from funcad.host.conversions import WRITING_NAMES, is_masked, their_say
from funcad.host.devices import device_in_use, namespace_of, restore_warnings, suppress_warnings
from funcad.host.real_types import contiguous, memory_axes, of_copy, ufunc_behind
from funcad.host.where import state, tracing, user_source
from funcad.ir.aval import SCALAR_AVALS, aval_of
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import table
from funcad.numpy.promote import as_array, made_here, overrides, promote_for, same_aval, strong, with_integer
from funcad.numpy.views import add_at, function_out, out_given, place_of_out, viewing, warn_where, with_out, write_out
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import reshape
from funcad.unjitted.following import with_value
from funcad.unjitted.remembered import remembered

masked = OnDemand("funcad.numpy.masked")
strides = OnDemand("funcad.unjitted.strides")

# -- what derivatives are where a function has none, or an infinite one: ties, kinks, ends of domains
#
# THE TABLE says it once, for the docstrings of the functions, which print it, and for the tests, which compute it: arguments,
# the slope in each argument that has one, and the second derivative in the first. The two rules behind it: where a slope turns,
# the first derivative is 0 (times the outer slope) and the next NaN; at ties, whoever is equal has an equal share.


_INF, _NAN = np.inf, np.nan


class Point(NamedTuple):
    """`second` is None where there is none to tell."""

    args: tuple[Any, ...]
    slopes: tuple[Any, ...]
    second: Any = None

    def __str__(self) -> str:
        at, slopes = (", ".join([str(x).replace("nan", "NaN") for x in given]) for given in (self.args, self.slopes))
        words = ["derivative", "derivatives"][len(self.slopes) > 1] if not isinstance(self.slopes[0], list) else "gradient"
        more = "" if self.second is None else f", the second derivative {str(self.second).replace('nan', 'NaN')}"
        return f"at ({at}) the {words} {'are' if words[-1] == 's' else 'is'} {slopes}{more}"


_ABS = (Point((0.0,), (0.0,), 0.0),)
_STEP = (Point((1.0,), (0.0,), 0.0),)
_TIE = (Point((1.0, 1.0), (0.5, 0.5), 0.0),)
_LOG = (Point((0.0,), (_INF,), -_INF),)
_REST = (Point((2.0, 1.0), (1.0, -2.0), 0.0),)
_QUOTIENT = (Point((1.0, 0.0), (_INF, -_INF), 0.0),)
_NORM = (Point(([0.0, 0.0],), ([0.0, 0.0],), [[_NAN, _NAN], [_NAN, _NAN]]),)
_MIDDLE = (Point(([1.0, 1.0, 3.0],), ([0.0, 1.0, 0.0],)),)
_LARGEST = (Point(([1.0, 1.0, 0.0],), ([0.5, 0.5, 0.0],)),)
_SMALLEST = (Point(([0.0, 0.0, 1.0],), ([0.5, 0.5, 0.0],)),)
_SPREAD = (Point(([1.0, 1.0],), ([0.0, 0.0],), [[_NAN, _NAN], [_NAN, _NAN]]),)
_OF_ALL = (Point(([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],)), Point(([0.0, 0.0, 3.0],), ([0.0, 0.0, 0.0],)))
_SKIPPED = (Point(([_NAN, 1.0],), ([0.0, 1.0],)),)

POINTS: dict[str, tuple[Point, ...]] = {
    **dict.fromkeys(["numpy.abs", "numpy.absolute", "numpy.fabs", "numpy.sign"], _ABS),
    **dict.fromkeys(["numpy.floor", "numpy.ceil", "numpy.trunc", "numpy.rint", "numpy.round", "numpy.fix"], _STEP),
    **dict.fromkeys(["numpy.maximum", "numpy.minimum", "numpy.fmax", "numpy.fmin"], _TIE),
    **dict.fromkeys(["numpy.log", "numpy.log2", "numpy.log10", "scipy.special.logit", "scipy.special.ndtri"], _LOG),
    **dict.fromkeys(["numpy.mod", "numpy.remainder", "numpy.fmod"], _REST),
    **dict.fromkeys(["numpy.divide", "numpy.true_divide"], _QUOTIENT),
    **dict.fromkeys(["numpy.linalg.norm", "numpy.linalg.vector_norm"], _NORM),
    **dict.fromkeys(["numpy.max", "numpy.amax"], _LARGEST),
    **dict.fromkeys(["numpy.min", "numpy.amin"], _SMALLEST),
    **dict.fromkeys(["numpy.nansum", "numpy.nanprod", "numpy.nanmean"], _SKIPPED),
    **dict.fromkeys(["scipy.special.psi", "scipy.special.digamma"], (Point((0.0,), (_INF,), -_INF),)),
    **dict.fromkeys(["scipy.special.rel_entr", "scipy.special.kl_div"], (Point((0.0, 1.0), (-_INF,), _INF),)),
    "numpy.sqrt": (Point((0.0,), (_INF,), -_INF),),
    "numpy.cbrt": (Point((0.0,), (_INF,)),),
    "numpy.reciprocal": (Point((0.0,), (-_INF,), _INF),),
    "numpy.hypot": (Point((0.0, 0.0), (0.0, 0.0), _NAN),),
    "numpy.log1p": (Point((-1.0,), (_INF,), -_INF),),
    "numpy.arcsin": (Point((1.0,), (_INF,), _INF),),
    "numpy.arccos": (Point((1.0,), (-_INF,), -_INF),),
    "numpy.arccosh": (Point((1.0,), (_INF,), -_INF),),
    "numpy.arctanh": (Point((1.0,), (_INF,), _INF),),
    "numpy.arctan2": (Point((0.0, 0.0), (_NAN, _NAN), _NAN),),
    "numpy.angle": (Point((0.0,), (_NAN,), _NAN),),
    "numpy.power": (
        Point((0.0, 2.0), (0.0, 0.0), 2.0),
        Point((0.0, 0.5), (_INF, 0.0), -_INF),
        Point((0.0, 0.0), (0.0, -_INF), 0.0),
    ),
    "numpy.logaddexp": (Point((-_INF, -_INF), (0.5, 0.5), 0.25),),
    "numpy.sinc": (Point((0.0,), (0.0,), -(np.pi**2) / 3),),
    "numpy.heaviside": (Point((0.0, 0.5), (0.0, 1.0), 0.0),),
    "numpy.floor_divide": (Point((2.0, 1.0), (0.0, 0.0), 0.0),),
    "numpy.copysign": (Point((0.0, 1.0), (1.0, 0.0), 0.0),),
    "numpy.clip": (Point((1.0, 0.0, 1.0), (0.5, 0.0, 0.5), 0.0),),
    "numpy.nan_to_num": (Point((_NAN,), (0.0,), 0.0),),
    "numpy.ptp": (Point(([1.0, 1.0, 0.0],), ([0.5, 0.5, -1.0],)),),
    "numpy.nanmax": (Point(([_NAN, 1.0, 1.0],), ([0.0, 0.5, 0.5],)),),
    "numpy.nanmin": (Point(([_NAN, 1.0, 1.0],), ([0.0, 0.5, 0.5],)),),
    "numpy.prod": _OF_ALL,
    "numpy.cumprod": (Point(([0.0, 2.0],), ([3.0, 0.0],)),),
    "numpy.std": _SPREAD,
    "numpy.nanstd": _SPREAD,
    "numpy.median": _MIDDLE,
    "numpy.linalg.det": (Point(([[1.0, 1.0], [1.0, 1.0]],), ([[1.0, -1.0], [-1.0, 1.0]],)),),
    "numpy.linalg.slogdet": (Point(([[1.0, 1.0], [1.0, 1.0]],), ([[_NAN, _NAN], [_NAN, _NAN]],)),),
    "numpy.linalg.eigvalsh": (Point(([[1.0, 0.0], [0.0, 1.0]],), ([[1.0, 0.0], [0.0, 1.0]],)),),
    "numpy.linalg.svdvals": (Point(([[1.0, 0.0], [0.0, 1.0]],), ([[1.0, 0.0], [0.0, 1.0]],)),),
    "scipy.special.xlogy": (Point((0.0, 0.0), (-_INF, 0.0), 0.0),),
    "scipy.special.xlog1py": (Point((0.0, -1.0), (-_INF, 0.0), 0.0),),
    "scipy.special.entr": (Point((0.0,), (_INF,), -_INF),),
    "scipy.special.erfinv": (Point((1.0,), (_INF,), _INF),),
    "scipy.special.gamma": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.gammaln": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.exp1": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.spence": (Point((0.0,), (-_INF,)),),
    "scipy.special.huber": (Point((1.0, 1.0), (0.0, 1.0), 0.0),),
    "scipy.special.logsumexp": (Point(([-_INF, -_INF],), ([0.5, 0.5],)),),
    "scipy.special.k0": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.y0": (Point((0.0,), (_INF,)),),
    "scipy.special.ellipk": (Point((1.0,), (_INF,)),),
}

_RESULTS = {
    "copy": "Of traced values the result is a new array.",
    "view": "Of traced values the result is a view where {library}'s is one: writing it writes the argument.",
    "same": "Of traced values the result is the argument itself where {library} gives that.",
}


def documented(name: str, own: str | None, alias: str = "copy") -> str:
    """The docstring of funcad's function for "numpy.sum" or "scipy.special.gamma", with the text that it has of its own."""
    library = "NumPy" if name.startswith("numpy") else "SciPy"
    if own is None:
        text = (
            f"`{name}`: the same arguments, results and errors, on traced values too.\n\n"
            f"Parameters, shapes, dtypes, what it returns and raises are {library}'s: where nothing is traced, this is\n"
            f"`{name}` itself. {_RESULTS[alias].format(library=library)}"
        )
    else:
        text = f"{own.strip().replace(MARGIN, chr(10))}\n\n{REST} `{name}`."
    if name not in POINTS:
        return text
    points = ";\n".join(map(str, POINTS[name]))
    return f"{text}\n\nSpecial points: {points}."


# -- one table


TABLE: dict[Any, Callable[..., Any]] = {}
_REFUSING = (operator.truediv, operator.pow)
QUICK: dict[Any, tuple[Any, Any]] = {}  # ufunc -> what has a short way, see `_by_short_way`; None: the ufunc
_METHODS: dict[tuple[Any, str], Callable[..., Any]] = {}  # (ufunc, "reduce" | "accumulate") -> function(x, axis, ...)


_OURS = {Tracer, np.ndarray, list, tuple, *SCALAR_AVALS}  # types of operands that have no say in what is done with them


_ndarray = np.ndarray


def _others(kinds: Iterable[type], method: str) -> bool:
    return any([kind not in _OURS and overrides(kind, method) for kind in kinds])


def is_traced(args: Sequence[Any], kwargs: dict[str, Any] | None = None) -> bool:
    """Is there a tracer among the arguments, or inside lists and tuples among them?"""
    for a in args:
        kind = type(a)
        if kind is Tracer or (kind is list or kind is tuple) and is_traced(a):
            return True
    return bool(kwargs) and is_traced(tuple(kwargs.values()))  # type: ignore[union-attr]


def where_am_i() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


def refuse(name: str, **arguments: Any) -> None:
    """Raise for the first argument that was given: it cannot work on traced values."""
    for argument, value in arguments.items():
        if value is None or value is np._NoValue:
            continue
        raise TypeError(
            f"{name} does not support {argument}={value!r:.40} with traced values{where_am_i()}.\n"
            "Remedy: leave the argument out."
        )


def find(module: Any, path: Sequence[str]) -> Any:
    """The function of that name in a library, or None."""
    for part in path:
        module = getattr(module, part, None)
    return module


def _lookup(name: str) -> Any:
    return find(np, name.split("."))


def lifted(implementation: Callable[..., Any]) -> Callable[..., Any]:
    """An implementation whose array arguments are read by reference where they meet abstract ones."""

    def with_references(*args: Any, **kwargs: Any) -> Any:
        values = capture_as_inputs([*args, *kwargs.values()], [*args, *kwargs.values()])
        return implementation(*values[: len(args)], **dict(zip(kwargs, values[len(args) :])))

    return named_as(with_references, implementation)


def public_function(
    implementation: Callable[..., Any], name: str, original: Any, on_device: Callable[[Any], Any], always: bool
) -> Callable[..., Any]:
    """`original` where nothing is traced, `on_device(namespace)` for device arrays, otherwise the implementation.

    The implementation also answers where the library has no such function (`original` or what `on_device` gives is None).
    """

    traced = with_out(implementation, name)

    def public(*args: Any, **kwargs: Any) -> Any:
        if kwargs and kwargs.get("where", True) is None:  # no mask, as in JAX; NumPy takes it for False
            del kwargs["where"]
        if always or original is None or is_traced(args, kwargs):
            return traced(*args, **kwargs)
        if device_in_use():
            xp = namespace_of([b for a in (*args, *kwargs.values()) for b in (a if type(a) in (list, tuple) else (a,))])
            if xp is not np:
                theirs: Any = on_device(xp)
                return implementation(*args, **kwargs) if theirs is None else theirs(*args, **kwargs)
        return original(*args, **kwargs)

    named_as(public, implementation)
    public.__name__ = public.__qualname__ = name.rpartition(".")[2]
    return public


def implements(
    *names: str,
    alias: str = "copy",
    always: bool = False,
    lift: bool = False,
    by_kind: bool = False,
    numbers: bool = False,
    plain: Callable[..., Any] | None = None,
) -> Callable[[Function], Function]:
    """Decorate the implementation for traced arguments of `np.<name>`; gives the public function of the first name.

    `alias`: what NumPy's results share with the operands (see promote.py, and `alias_of`). A name that this version of NumPy
    does not have is public all the same, computed by the implementation; `always` asks for that too (functions that have an
    option more than NumPy's). `lift`: array arguments beside abstract ones are read by reference (see `capture_as_inputs`), for
    functions made of several operations, some of them on those arguments alone. `by_kind`: what it does depends on the kinds of
    its operands and on its options alone; with `numbers` plain floats are operands (see unjitted/remembered.py). `plain`: how
    NumPy's function is called where nothing is traced.
    """

    def decorate(implementation: Any) -> Any:
        if lift:
            implementation = lifted(implementation)
        if by_kind:
            implementation = remembered(implementation, numbers)
        originals = list(map(_lookup, names))
        original = originals[0]
        if alias != "copy":
            implementation = viewing(original, implementation, alias)
        implementation.alias = alias
        TABLE.update([(known, implementation) for known in originals if known is not None])
        path = names[0].split(".")
        public = public_function(implementation, names[0], plain or original, lambda xp: find(xp, path), always)
        public.__doc__ = documented(f"numpy.{names[0]}", implementation.__doc__, alias)
        public.numpy_function = original  # type: ignore[attr-defined]
        return public

    return decorate


def alias_of(function: Any) -> str:
    """What the results of a function of NumPy's or funcad's, or of a method of traced values, may share with its operands."""
    found = function if hasattr(function, "alias") else implementation_of(function)
    return getattr(found, "alias", "copy")


# -- ufuncs


def _whole_numbers(operands: list[Any]) -> list[Any]:
    """Python's integers as NumPy's: a ufunc computes in 64 bits, where Python's operators have as many as it takes."""
    for x in operands:
        aval = aval_of(x)
        if not aval.weak or aval.dtype.kind != "i":
            return operands
    return [strong(x) for x in operands]


_UFUNC_METHODS = ("reduce", "accumulate", "outer", "at", "reduceat")


def elementwise_ufunc(
    name: str, bound: Callable[..., Any], kinds: str = "fc", *, reduce: Any = None, accumulate: Any = None, by_kind: bool = True
) -> Callable[..., Any]:
    """The public function for a ufunc whose traced meaning is `bound`, a function of operands of one dtype and one shape.

    `kinds`: the dtype kinds that the ufunc keeps as they are (the fast path); others go by NumPy's own table of loops.
    `by_kind`: as of `implements`, False where `bound` looks at the value of a number or has no derivative.
    """
    ufunc = getattr(np, name)
    if ufunc.nin == 1:

        def implementation(x: Any, *, dtype: Any = None) -> Any:
            if type(x) is Tracer and dtype is None:
                if type(x.primal) is np.ndarray and x.primal.dtype.kind in kinds and x.primal.dtype.num < 256:
                    return bound(x)
                if type(x.primal) is float and "f" in kinds:
                    return strong(bound(x))
                aval = x.aval
                if aval.dtype.kind in kinds and aval.dtype.num < 256 and not aval.weak:
                    return bound(x)
            return strong(bound(*_whole_numbers(promote_for(ufunc, (x,), dtype))))

    else:

        def implementation(x: Any, y: Any, *, dtype: Any = None) -> Any:  # type: ignore[misc]
            if dtype is None and same_aval(x, y):
                aval = x.aval if type(x) is Tracer else y.aval
                if aval.dtype.kind in kinds and aval.dtype.num < 256 and not aval.weak:
                    return bound(x, y)
            elif dtype is None and "f" in kinds:
                pair = with_integer(x, y)
                if pair is not None:
                    return strong(bound(*pair))
            return strong(bound(*_whole_numbers(promote_for(ufunc, (x, y), dtype))))

    implementation.__name__ = name
    implementation.__doc__ = documented(f"numpy.{name}", None)
    if by_kind:
        implementation = remembered(implementation, numbers=True)
    TABLE[ufunc] = implementation
    if reduce is not None:
        _METHODS[ufunc, "reduce"] = reduce
    if accumulate is not None:
        _METHODS[ufunc, "accumulate"] = accumulate

    def public(*args: Any, **kwargs: Any) -> Any:
        for a in args:
            kind = type(a)
            if kind is Tracer or (kind is list or kind is tuple) and is_traced(a):
                if kind is Tracer and len(args) == ufunc.nin:
                    out = ufunc_of_tracer(a, ufunc, "__call__", *args, **kwargs)
                else:
                    out = array_ufunc(ufunc, "__call__", args, kwargs)
                return ufunc(*args, **kwargs) if out is NotImplemented else out  # NumPy asks the other operand
        if kwargs and is_traced((), kwargs):
            return array_ufunc(ufunc, "__call__", args, kwargs)
        if device_in_use():
            xp = namespace_of(args)
            if xp is not np:
                theirs = getattr(xp, ufunc.__name__, None)
                return implementation(*args, **kwargs) if theirs is None else theirs(*args, **kwargs)
        return ufunc(*args, **kwargs)

    made = public.__dict__
    for method in _UFUNC_METHODS:
        made[method] = partial(_ufunc_method, ufunc, method)
    made["numpy_function"] = ufunc
    return named_as(public, implementation)


def _ufunc_method(ufunc: np.ufunc, method: str, /, *args: Any, **kwargs: Any) -> Any:
    """`np.add.reduce` and other methods of ufuncs, on traced values too."""
    if is_traced(args, kwargs) or device_in_use() and namespace_of(args) is not np:
        return array_ufunc(ufunc, method, args, kwargs)
    return getattr(ufunc, method)(*args, **kwargs)


def array_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What `__array_ufunc__` of a traced value does."""
    if method == "__call__":
        if len(inputs) > 1 and not _OURS.issuperset(map(type, inputs)):
            if any(map(is_masked, map(type, inputs))):
                return masked.of_ufunc(ufunc, *inputs, **kwargs)
            if _others(map(type, inputs), "__array_ufunc__"):
                return their_say(*inputs)
        implementation = TABLE.get(ufunc)
        if implementation is None and any([type(x) is Tracer and x.owner.level for x in inputs]):  # and no buffer
            implementation = _specials.get(ufunc)
        if implementation is None:
            implementation = implementation_of(ufunc) if getattr(np, ufunc.__name__, None) is ufunc else None
            if implementation is None and all([kinds.strip("O->") == "" for kinds in ufunc.types]):
                return _of_objects(ufunc, *inputs)
            if implementation is None and not is_traced(known := plain_values(inputs), kwargs):  # nothing but buffers
                return ufunc(*known, **kwargs)
            implementation = implementation or _specials.setdefault(ufunc, _special(ufunc))
        if kwargs or len(inputs) != ufunc.nin:
            return _with_options(ufunc, implementation, inputs, kwargs)
        return implementation(*inputs, **kwargs)
    if method == "at":
        return add_at(ufunc, *inputs)
    if method == "outer":
        return _outer(ufunc, *inputs, **kwargs)
    if ufunc not in TABLE and getattr(np, ufunc.__name__, None) is ufunc:
        implementation_of(ufunc)
    implementation = _METHODS.get((ufunc, method))
    if implementation is None:
        if ufunc.nin != 2 or ufunc.nout != 1:
            raise ValueError(f"{method} only supported for binary functions")
        own = "reduce" if method == "reduceat" else method
        implementation = _METHODS.get((ufunc, own)) or partial(_one_after_another, ufunc, own)
    run = {"reduce": _reduce, "accumulate": _accumulate, "reduceat": _reduceat}[method]
    out, args, kwargs = out_given(run, (ufunc, implementation, *inputs), kwargs)
    result = run(*args, **kwargs)
    return result if out is None else function_out(f"{ufunc.__name__}.{method}", out, result)


def _with_options(ufunc: Any, implementation: Callable[..., Any], inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A ufunc's call with options, or with what is to be written as a further operand."""
    options = dict(kwargs)
    out = options.pop("out", None) if len(inputs) == ufunc.nin else tuple(inputs[ufunc.nin :])
    if out is None or type(out) is tuple and all([o is None for o in out]):
        order = options.pop("order") if options.get("order") in ("C", "F") else "K"
        made = implementation(*inputs, **checked_options(ufunc, inputs, options))
        if order == "K":
            return made
        return tuple([laid_out(v, order) for v in made]) if type(made) is tuple else laid_out(made, order)
    operands = inputs[: ufunc.nin]
    options.pop("order", None)  # that of what is written
    where, casting = options.pop("where", True), options.pop("casting", "same_kind")
    chosen = checked_options(ufunc, operands, options)
    if where is True:
        result = implementation(*operands, **chosen)
    else:
        warn_where(ufunc, operands, where, options)
        token = suppress_warnings()
        try:
            result = implementation(*operands, **chosen)
        finally:
            restore_warnings(token)
    return write_out(ufunc, operands, out, where, casting, result)


def ufunc_of_tracer(self: Tracer, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
    """`Tracer.__array_ufunc__`, which looks at once for the short ways of a derivative."""
    short = self.owner.short
    if short is not None and method == "__call__" and not kwargs:
        quick = QUICK.get(ufunc)
        if quick is not None:
            out = short.unary(quick[0], ufunc, self) if quick[1] is None else _by_short_way(*quick, *inputs)
            if out is not None:
                return out
    if not self.owner.level and state.running is None:
        given = inputs[:1] if method == "at" else kwargs.get("out", inputs[ufunc.nin :] if method == "__call__" else ())
        if np.ndarray in map(type, given):
            return _outside(ufunc if method == "__call__" else getattr(ufunc, method), inputs, kwargs)
    return array_ufunc(ufunc, method, inputs, kwargs)


def _outside(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Where nothing is traced, and a plain array is written: a buffer that a run has left is the array behind it."""
    return function(*map(_bare, args), **{name: _bare(x) for name, x in kwargs.items()})


def _bare(x: Any) -> Any:
    if type(x) is list or type(x) is tuple:
        return type(x)(map(_bare, x))
    return plain_values([x])[0]


def function_of_tracer(self: Tracer, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """`Tracer.__array_function__`, without a frame in between for what the table has."""
    if len(types) > 1 and (len(types) > 2 or _ndarray not in types) and _others(types, "__array_function__"):
        return NotImplemented  # of two types one is ours and the other mostly NumPy's
    if not self.owner.level and state.running is None:
        given = kwargs.get("out", args[0] if args and function.__name__ in WRITING_NAMES else None)
        if type(given) is np.ndarray or implementation_of(function) is None:
            return _outside(function, args, kwargs)
    implementation = TABLE.get(function)
    if implementation is None or kwargs and "out" in kwargs or len(args) > 2 and len(args) > place_of_out(implementation):
        return array_function(function, args, kwargs)
    return implementation(*args, **kwargs)


def _by_short_way(primitive: Any, operation: Any, x: Any, y: Any = None) -> Any:
    """The result by the short way of a derivative, of two operands or of one where the slope turns; or None."""
    trace = (x if type(x) is Tracer else y).owner
    if y is None:
        out = trace.short.unary(primitive, operation, x)
        if out is not None and not trace.turned:
            trace.turned = True
        return out
    if (type(operation) is np.ufunc or operation in _REFUSING) and _of_number(x) and _of_number(y):
        return None  # of Python's numbers, where NumPy's function warns and Python's operator raises
    if operation is operator.pow and type(y) is not Tracer:  # `power` looks at a constant exponent
        return None
    if trace.short is None or trace.turned and x is y:  # a square, which may be known exactly
        return None
    if operation is np.matmul:
        return trace.short.product(x, y)
    out = trace.short.binary(primitive, operation, x, y)
    return out if out is None or type(out.primal) in _STRONG else strong(out)


_STRONG = frozenset([np.ndarray, np.float64, np.float32])  # whose values are


def _of_number(x: Any) -> bool:
    return type(concrete_value(x) if type(x) is Tracer else x) in (float, int)


def checked_options(ufunc: Any, inputs: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Of a ufunc's options, `dtype` works on traced values; defaults are accepted."""
    name = f"np.{ufunc.__name__}"
    rest = dict(kwargs)
    where = rest.pop("where", True)
    if where is not True:
        raise TypeError(
            f"{name} does not support where= with traced values{where_am_i()}: without out= its other elements would be "
            f"uninitialised.\nRemedy: np.where(condition, {name}(x), other)."
        )
    for option, default in (("casting", "same_kind"), ("order", "K")):
        if rest.pop(option, default) != default:
            refuse(name, **{option: kwargs[option]})
    rest.pop("subok", None)  # no traced value is of a subclass
    dtype = rest.pop("dtype", None)
    kept = {"axis": rest.pop("axis")} if "axis" in rest and ufunc is getattr(np, "vecdot", None) else {}
    refuse(name, **rest)
    if dtype is None:
        return kept
    if ufunc not in TABLE:
        refuse(name, dtype=dtype)
    return {"dtype": dtype, **kept}


_specials = table("dispatch.specials", "ufunc of SciPy's that was given traced values: its function here")


def _special(ufunc: Any) -> Callable[..., Any]:
    """scipy.special's ufuncs, found by name among those of `funcad.scipy.special`, which is loaded at the first."""
    name = ufunc.__name__
    if ufunc_behind(getattr(sys.modules.get("scipy.special"), name, None)) is ufunc:
        found = getattr(Tracer.namespace.scipy.special, name, None)
        if found is not None:
            return getattr(found, "__wrapped__", found)  # the part of it for traced values
        where = "scipy.special"
    elif ufunc is np._core.umath.clip:  # of `a.clip(low, high)`
        return implementation_of(np.clip)  # type: ignore[return-value]
    else:
        where = "np" if getattr(np, name, None) is ufunc else "the ufunc"
    label = f"{where}.{name}" if where != "the ufunc" else f"{where} {name}"
    raise TypeError(
        f"{label} was called with traced values{where_am_i()}; funcad has no implementation of it.\n"
        "Remedy: write it with functions that funcad has, wrap it in funcad.custom_jvp or funcad.pure_callback, or take "
        "funcad.stop_gradient of the arguments first if no derivative is wanted."
    )


def _outer(ufunc: Any, x: Any, y: Any, **kwargs: Any) -> Any:
    x, y = as_array(x), as_array(y)
    shape = np.shape(x)
    x = reshape(x, shape=(*shape, *[1] * np.ndim(y))) if np.ndim(y) and shape else x
    return array_ufunc(ufunc, "__call__", (x, y), kwargs)


def _reduce(
    ufunc: Any,
    implementation: Any,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = np._NoValue,
    where: Any = True,
) -> Any:
    options: dict[str, Any] = {}
    if dtype is not None and ufunc in (np.maximum, np.minimum):  # an element is the result
        array = as_array(array).astype(dtype)
    elif dtype is not None:
        options["dtype"] = dtype
    if initial is not np._NoValue and initial is not None:
        options["initial"] = initial
    if where is not True:
        options["where"] = where
    return implementation(array, axis=axis, keepdims=keepdims, **options)


def _accumulate(ufunc: Any, implementation: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    return implementation(array, axis=axis, **({} if dtype is None else {"dtype": dtype}))


def _reduceat(
    ufunc: Any, implementation: Any, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
) -> Any:
    """From each index to the next one, if that is larger; else the element itself, in the result's dtype."""
    x = np.moveaxis(as_array(array), axis, 0)
    starts, n = [int(i) for i in indices], np.shape(x)[0]
    if any([not 0 <= i < n for i in starts]):
        ufunc.reduceat(np.zeros(n, aval_of(x).dtype), starts)  # NumPy's error
    ends = [max(i + 1, j) for i, j in zip(starts, [*starts[1:], n])]
    options = {} if dtype is None else {"dtype": dtype}
    parts, i = [], 0
    while i < len(starts):  # those of one size that follow each other are rows
        first, begin, size = i, starts[i], ends[i] - starts[i]
        while i < len(starts) and starts[i] == begin + (i - first) * size == ends[i] - size:
            i += 1
        rows = np.reshape(x[begin : begin + (i - first) * size], (i - first, size, *np.shape(x)[1:]))
        part = implementation(rows, axis=1, keepdims=False, **options)
        parts.append(part if size > 1 else rows[:, 0].astype(aval_of(part).dtype))  # hypot of one element is no sum
    return np.moveaxis(np.concatenate(parts), 0, axis)


def _one_after_another(
    ufunc: Any, method: str, array: Any, axis: Any = 0, dtype: Any = None, keepdims: bool = False, initial: Any = None,
    where: Any = True,
) -> Any:  # fmt: skip
    """`reduce` and `accumulate` of ufuncs that have no rule of their own: the elements in their order, as NumPy takes them."""
    x = as_array(array) if dtype is None else as_array(array).astype(dtype)
    rank = np.ndim(x)
    axes = tuple(range(rank)) if axis is None else tuple([a % rank for a in (axis if type(axis) is tuple else (axis,))])
    if method == "reduce" and len(axes) != 1:
        ufunc.reduce(np.ones([1] * rank), axis=axes)  # which raises, if their order matters
    rest = [n for a, n in enumerate(np.shape(x)) if a not in axes]
    lines = lambda v: np.reshape(np.moveaxis(v, axes, range(len(axes))), (-1, *rest))
    objects = all([kinds.strip("O->") == "" for kinds in ufunc.types])  # made by np.frompyfunc
    step, kept = lambda carry, v: (ufunc(carry, v),) * 2, ()
    if where is not True:
        if objects:
            refuse(f"np.{ufunc.__name__}.{method}", where=where)
        ufunc.reduce(np.ones(2), where=[True, False], initial=np._NoValue if initial is None else 1)  # NumPy's error
        kept = (lines(np.broadcast_to(where is not None and as_array(where), np.shape(x))),)
        step = lambda carry, v: (np.where(v[1], ufunc(carry, np.where(v[1], v[0], 1)), carry),) * 2
    x = lines(x)
    if not objects:
        x = x.astype(getattr(ufunc, method)(np.ones(2, x.dtype)).dtype)
    if initial is None and method == "reduce" and not objects:
        initial = ufunc.identity
    if initial is not None:
        x = np.concatenate([np.broadcast_to(np.asarray(initial, x.dtype), (1, *np.shape(x)[1:])), x])
    if not np.shape(x)[0]:
        if method == "accumulate":
            return np.moveaxis(x, 0, axes[0])
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    if objects:
        rows = [x[0]]
        for v in x[1:]:
            rows.append(ufunc(rows[-1], v))
        last, steps = rows[-1], np.stack(rows)[1:]
    else:
        last, steps = Tracer.namespace.scan(step, x[0], (x[1:], *kept) if kept else x[1:])
    if method == "accumulate":
        return np.moveaxis(np.concatenate([x[:1], steps]), 0, axes[0])
    return np.expand_dims(last, axes) if keepdims else last


def _of_objects(ufunc: Any, *operands: Any) -> Any:
    """A ufunc that `np.frompyfunc` made: its function is called for each element, and gives traced numbers."""
    arrays = np.broadcast_arrays(*operands)
    shape = np.shape(arrays[0])
    elements = [np.empty(shape, object) for _ in arrays]
    for x, own in zip(arrays, elements):
        for place in np.ndindex(shape):
            own[place] = x[place]
    results = ufunc(*elements)
    if not shape:  # numbers, not arrays of them
        return results
    parts = results if ufunc.nout > 1 else (results,)
    made = [anew(Tracer.namespace.numpy.array(np.asarray(r, object).tolist())) for r in parts]
    return tuple(made) if ufunc.nout > 1 else made[0]


# -- functions

# Modules that `import funcad` does not load: they are when a function of NumPy's is called that is not in the table yet.
LATER_NAMES = {  # name -> the module of funcad.numpy that is loaded when it is first asked for
    name: module
    for module, names in {
        "array_writes": "copyto putmask",
        "calculus": """
            convolve correlate diff ediff1d gradient interp polyadd polyder polyint polymul polysub
            polyval trapezoid unwrap vander
        """,
        "creation": """
            arange array asanyarray asarray ascontiguousarray asfortranarray astype copy empty
            empty_like eye fromfunction frompyfunc full full_like geomspace identity indices ix_
            linspace logspace meshgrid ones ones_like tri zeros zeros_like
        """,
        "elementwise": "angle around clip divmod fix frexp ldexp modf nan_to_num real_if_close round sinc",
        "histograms": "histogram histogram2d histogram_bin_edges histogramdd",
        "joining": """
            append array_split block column_stack concat concatenate delete dsplit dstack hsplit hstack
            insert pad repeat resize roll split stack tile unstack vsplit vstack
        """,
        "linear": """
            cross diag diagflat diagonal dot einsum einsum_path inner kron matmul matrix_transpose matvec
            outer permute_dims tensordot trace transpose vdot vecdot vecmat
        """,
        "mapping": """
            apply_along_axis apply_over_axes c_ diag_indices_from r_ ravel_multi_index tril_indices_from
            triu_indices_from unravel_index vectorize
        """,
        "polynomials": "poly polydiv polyfit roots",
        "rare": "array2string array_repr array_str bitwise_count gcd i0 lcm packbits spacing unpackbits",
        "questions": """
            allclose array_equal array_equiv can_cast common_type isclose iscomplex iscomplexobj
            isneginf isposinf isreal isrealobj isscalar min_scalar_type ndim result_type shape
            size
        """,
        "searching": """
            argpartition argsort argwhere bincount choose compress digitize extract flatnonzero
            lexsort nonzero partition piecewise place put put_along_axis searchsorted select sort
            sort_complex take take_along_axis where
        """,
        "sets": """
            intersect1d isin setdiff1d setxor1d trim_zeros union1d unique unique_all unique_counts
            unique_inverse unique_values
        """,
        "shaping": """
            atleast_1d atleast_2d atleast_3d broadcast_arrays broadcast_to
            expand_dims fill_diagonal flip fliplr flipud moveaxis ravel
            reshape rollaxis rot90 squeeze swapaxes tril triu
        """,
        "ufuncs": """
            absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or
            bitwise_xor cbrt ceil conjugate copysign cos cosh deg2rad degrees divide equal exp exp2
            expm1 fabs float_power floor floor_divide fmax fmin fmod greater greater_equal heaviside
            hypot imag invert isfinite isinf isnan left_shift less less_equal log log10 log1p log2 logaddexp
            logaddexp2 logical_and logical_not logical_or logical_xor maximum minimum multiply negative
            nextafter not_equal positive power rad2deg radians real reciprocal remainder right_shift
            rint sign signbit sin sinh sqrt square subtract tan tanh trunc
        """,
        "statistics": """
            average corrcoef cov median nanargmax nanargmin nancumprod nancumsum nanmax nanmean
            nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar percentile quantile
            std var
        """,
    }.items()
    for name in names.split()
}
_SUBMODULES = ("linalg", "linalg_seldom", "fft")
LATER = tuple([f"funcad.numpy.{n}" for n in (*_SUBMODULES, *sorted(set(LATER_NAMES.values())))])


def whole_table() -> dict[Any, Callable[..., Any]]:
    """The table, when all modules are there that have a part of it."""
    for name in LATER:
        importlib.import_module(name)
    ufuncs = importlib.import_module("funcad.numpy.ufuncs")
    for name in ufuncs.UFUNCS:
        getattr(ufuncs, name)
    return TABLE


def implementation_of(function: Any) -> Callable[..., Any] | None:
    """What the table has for a function of NumPy's, if it has it; the module that may have it is loaded first."""
    if function in TABLE:
        return TABLE[function]
    named = LATER_NAMES.get(function.__name__)
    likely = f"funcad.{getattr(function, '__module__', '')}" if named is None else f"funcad.numpy.{named}"
    for name in (likely, *LATER) if likely in LATER else LATER:
        if function in TABLE:
            break
        module = importlib.import_module(name)  # costs nothing the second time, and waits for another thread that is at it
        getattr(module, function.__name__, None)  # a ufunc is made when it is asked for
    return TABLE.get(function)


def array_function(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What `__array_function__` of a traced value does."""
    implementation = implementation_of(function)
    if implementation is not None:
        out, args, kwargs = out_given(implementation, args, kwargs)
        result = implementation(*args, **kwargs)
        return result if out is None else function_out(function.__name__, out, result)
    own_code = tracing.own_answer(function)
    if own_code is not None:
        return own_code(*args, **kwargs)
    if not is_traced(known := plain_values(args), kwargs):  # nothing but buffers
        return function(*known, **kwargs)
    name = f"{getattr(function, '__module__', 'numpy')}.{function.__name__}".replace("numpy.", "np.", 1)
    raise TypeError(
        f"{name} was called with traced values{where_am_i()}; funcad has no implementation of it.\n"
        "Remedy: write it with functions that funcad.numpy has, wrap it in funcad.custom_jvp or funcad.pure_callback, or take "
        "funcad.stop_gradient of the arguments first if no derivative is wanted."
    )


# -- `order=`: reading a traced value as it lies in memory, and giving it another memory order
#
# Values do not depend on memory order, except through order="K" and order="A", which read elements as they lie in memory; what
# these would find in plain NumPy is known (unjitted/strides.py) or refused, never guessed. A copy in another order has the same
# values: outside jit and vmap the array behind it is laid out anew; inside, the trace notes how NumPy would lay it out.


def order_of(order: Any, allowed: str, default: str) -> str:
    """An argument `order`, checked in NumPy's words."""
    if order is None:
        return default
    if isinstance(order, str) and order.upper() in allowed and len(order) == 1:
        return order.upper()
    names = ", ".join([repr(c) for c in allowed])
    raise ValueError(f"order must be one of {names} (got {order!r})")


def _known_layout(x: Any, what: str, order: str) -> np.ndarray:
    layout = strides.layout_of(x)
    if layout is None:
        raise TypeError(
            f"{what} with order={order!r}{where_am_i()} reads a traced {aval_of(x)} as it lies in memory, and how NumPy would "
            "lay it out is not known here: only of arguments, captured arrays, their views, and what was computed from them "
            "element by element or by sums.\nRemedy: order='C' or order='F', which say in which order the elements are read."
        )
    return layout


def is_fortran(x: Any, what: str) -> bool:
    """What order="A" asks: does x lie in Fortran's order, and not in C's?"""
    shape = aval_of(x).shape
    if len([n for n in shape if n != 1]) < 2 or 0 in shape:
        return False
    flags = _known_layout(x, what, "A").flags
    return flags.f_contiguous and not flags.c_contiguous


def in_order(x: Any, what: str) -> list[int]:
    """The axes of x from the outermost in memory to the innermost: what order="K" asks."""
    shape = aval_of(x).shape
    if len([n for n in shape if n != 1]) < 2 or 0 in shape:
        return list(range(len(shape)))
    return memory_axes([_known_layout(x, what, "K")])


def laid_out(x: Any, order: str) -> Any:
    """A traced x as a copy in this order would lie in memory; with "K" and "A" as it is, where nothing is known of it."""
    if type(x) is not Tracer:
        return x
    aval = aval_of(x)
    long = len([n for n in aval.shape if n != 1])
    if not long or 0 in aval.shape:
        return x
    if long == 1:  # all orders are one; but x may lie in steps, or backwards
        order = "C"
    value = concrete_value(x)
    if type(value) is np.ndarray:
        if _lies_in(value, order) or order in "KA" and strides.layout_of(x, ask=False) is None:
            return x
        return made_here(with_value(x, np.array(value, order=order, copy=True)))
    if type(value) is not Tracer:
        return x
    # asked for: what is recorded depends on it, and calls with other strides have a program of their own
    own = strides.layout_of(x)
    if order in "KA" if own is None else _lies_in(own, order):
        return x
    made = reshape(x, shape=aval.shape)
    inner = concrete_value(made)
    strides.layouts_of(inner.owner)[inner.atom] = _copied(aval, own, order), {"own": value} if order in "KA" else {}
    return made


def anew(x: Any) -> Any:
    """A result that NumPy makes in memory of its own, one element after the other; of its program nothing is known.

    A number that is broadcast may lie in steps of 0, and is taken for a number beside a device's arrays: it stays so there.
    """
    value = concrete_value(x)
    if type(value) is not np.ndarray or value.flags.c_contiguous or device_in_use():
        return strides.doubt(x)
    made = np.ascontiguousarray(value)
    return strides.doubt(made_here(with_value(x, made))) if type(x) is Tracer else made


def _lies_in(layout: np.ndarray, order: str) -> bool:
    """Would a copy in this order have the same strides?"""
    flags = layout.flags
    return flags.c_contiguous if order == "C" else flags.f_contiguous if order == "F" else flags.forc


def _copied(aval: Any, own: Any, order: str) -> np.ndarray:
    if order == "K":
        return of_copy(own)
    if order == "C" or order == "A" and not own.flags.f_contiguous:
        return contiguous(aval.shape, aval.dtype)
    return contiguous(aval.shape, aval.dtype, range(len(aval.shape))[::-1])
