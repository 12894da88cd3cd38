"""Who answers at a door, for functions of NumPy's and SciPy's that have a counterpart of the same name in funcad.

An answer is made from a door's name ("scipy.linalg.expm"), and for functions in Python from the original: (which arguments
are for us, what is called then). funcad's module is loaded when the first traced value arrives.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import itertools
import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from funcad.api.value_reads import asked
from funcad.configuration import OnDemand
from funcad.doors.asking import any_traced, holds_traced, is_tracing, keeps_traced, lists_traced, users_call
from funcad.doors.codes import Answer, Maker
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from funcad.host.where import caller, state, user_source, users_frame
from funcad.ir.tracer import Tracer, concrete_value, has_value
from funcad.memo import remembers
from funcad.numpy.dispatch import refuse, whole_table
from funcad.numpy.promote import values_of

index_plan, tree = OnDemand("funcad.numpy.index_plan"), OnDemand("funcad.tree")


def ours(name: str) -> Callable[..., Any]:
    """funcad's function of that name: funcad.scipy.linalg.expm for "scipy.linalg.expm"."""
    found: Any = Tracer.namespace
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _plain(x: Any) -> Any:
    """Nested lists without named tuples and other subclasses."""
    return [_plain(v) for v in x] if isinstance(x, (list, tuple)) else x


def array_of(name: str, original: Callable[..., Any]) -> Answer:
    """np.array and its relatives, whose first argument may be nested lists. Compiled code takes the result for memory."""

    def own(*args: Any, **kwargs: Any) -> Any:
        if name == "numpy.asanyarray" and args and hasattr(type(args[0]), "stands_for"):
            return args[0]
        args, kwargs = _bare(args), _bare(kwargs)
        key = next((k for k in ("object", "a") if k in kwargs), None)
        if args:
            args = (_plain(args[0]), *args[1:])
        elif key is not None:
            kwargs[key] = _plain(kwargs[key])
        return ours(name)(*args, **kwargs)

    own.lines = True  # type: ignore[attr-defined]
    return holds_traced, own


def _bare(args: Any) -> Any:
    """The arguments, with arrays in the place of what stands for them (numpy/subclasses.py, numpy/selected.py)."""
    subclasses = sys.modules.get("funcad.numpy.subclasses")
    args = args if subclasses is None else subclasses.behind(args)
    return index_plan.closed(args) if "funcad.numpy.selected" in sys.modules else args


def by_name(name: str, original: Callable[..., Any]) -> Answer:
    def own(*args: Any, **kwargs: Any) -> Any:
        if args and index_plan.is_selected(args[0]):
            return args[0].__array_function__(ours(name), (), args, kwargs)
        return ours(name)(*_bare(args), **_bare(kwargs))

    return holds_traced, own


def by_twin(name: str, original: Callable[..., Any]) -> Answer:
    """A function in C that users import by its name: where it was met without its door, f starts again as its twin."""
    is_for_us, own = by_name(name, original)
    own.by_twin = True  # type: ignore[attr-defined]
    return is_for_us, own


def for_users(name: str, original: Callable[..., Any]) -> Answer:
    """What gives functions that may be called with traced values later; SciPy, which calls it too, has none for them."""
    is_for_us = lambda args, kwargs: users_call() and not str(users_frame(2).f_globals.get("__name__")).startswith("scipy.")
    return is_for_us, lambda *args, **kwargs: ours(name)(*args, **kwargs)


def own_code(name: str, original: Callable[..., Any]) -> Answer:
    """A function that funcad has no rule for: its own code runs on traced values (funcad/lifting)."""

    def own(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("funcad.lifting.own_answers").own_answer(original, name)(*_bare(args), **_bare(kwargs))

    return holds_traced, own


def own_method(name: str, original: Callable[..., Any]) -> Answer:
    """A method of a class of SciPy's: its own code runs where an argument is traced, or what the object keeps."""

    def own(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("funcad.lifting.own_answers").own_method(original, name)(*_bare(args), **_bare(kwargs))

    return lambda args, kwargs: is_tracing() and (holds_traced(args, kwargs) or any([keeps_traced(a) for a in args])), own


own_method.by_own_code = True  # type: ignore[attr-defined]


def of_lists(name: str, original: Callable[..., Any]) -> Answer:
    """A function that finds traced arrays by itself, but not in lists: hung where that was met."""
    return lists_traced, lambda *args, **kwargs: ours(name)(*args, **kwargs)


def holding_arrays(name: str, original: Callable[..., Any]) -> Answer:
    """What makes NumPy's arrays of lists, in code of SciPy's."""
    array = lambda v: ours("numpy.array")(v) if isinstance(v, (list, tuple)) else v

    def own(*args: Any, **kwargs: Any) -> Any:
        return original(*map(array, args), **{k: array(v) for k, v in kwargs.items()})

    return lists_traced, own


class _Traced(BaseException):
    """A function that SciPy called gave a traced value. No Exception: SciPy catches some of these."""


def _watched(f: Callable[..., Any], raised: list[Any] | None = None) -> Callable[..., Any]:
    """f, which raises `_Traced` where it gives a traced value; the refusals that it raises itself are `raised`."""

    @functools.wraps(f)
    def watched(*args: Any, **kwargs: Any) -> Any:
        try:
            out = f(*args, **kwargs)
        except TracerArrayConversionError as error:
            if raised is not None:
                raised[:] = [error]
            raise
        if any_traced((out,)):
            raise _Traced
        return out

    try:
        watched.__signature__ = inspect.signature(f)  # type: ignore[attr-defined]
    except (TypeError, ValueError):  # of a function in C: there is none to be seen
        pass
    return watched


def calling(name: str, original: Callable[..., Any], answer: Callable[..., Any] | None = None) -> Answer:
    """Functions that call the user's, which may close over traced values: SciPy's own begins, and ends where one turns up."""

    def own(*args: Any, **kwargs: Any) -> Any:
        if not (any_traced(args) or any_traced(kwargs.values())):
            key = next((k for k in ("fun", "func", "f") if k in kwargs), None)
            given = args[0] if args else kwargs.get(key)
            if not callable(given):
                return original(*args, **kwargs)
            raised: list[Any] = []
            try:
                if args:
                    return original(_watched(given, raised), *args[1:], **kwargs)
                return original(**{**kwargs, key: _watched(given, raised)})  # type: ignore[dict-item]
            except (_Traced, TracerArrayConversionError) as error:  # of the function, or of what stands beside it
                if error in raised:  # which funcad's would only run again
                    raise
        absent = _only_theirs(answer or ours(name), original)
        given = {k: v for k, v in kwargs.items() if k in absent}
        kwargs = {k: v for k, v in kwargs.items() if k not in absent}
        off = lambda k, v: type(v) in (bool, int) and v == absent[k]
        refuse(name, **{k: v for k, v in given.items() if not off(k, v)})
        return (answer or _with_their_defaults(ours(name), original))(*args, **kwargs)

    return lambda args, kwargs: users_call(), own


@remembers(256, same=None)
def _only_theirs(function: Callable[..., Any], original: Callable[..., Any]) -> dict[str, Any]:
    """The options of SciPy's function that funcad's does not have, and what they are if left out."""
    own = inspect.signature(function).parameters
    if any(p.kind is p.VAR_KEYWORD for p in own.values()):
        return {}
    theirs = inspect.signature(original).parameters
    return {name: p.default for name, p in theirs.items() if name not in own}


@remembers(256, same=None)
def _with_their_defaults(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Derivatives that are left out are funcad's in funcad's function; here what SciPy takes for them."""
    places = list(inspect.signature(function).parameters.items())
    theirs = inspect.signature(original).parameters
    left_out = {name: (i, theirs[name].default) for i, (name, p) in enumerate(places) if p.default == "funcad"}

    def called(*args: Any, **kwargs: Any) -> Any:
        defaults = {name: d for name, (i, d) in left_out.items() if i >= len(args) and name not in kwargs}
        return function(*args, **kwargs, **defaults)

    return called


def _met_traced(remedy: str, name: str, *args: Any, **kwargs: Any) -> Any:
    library, outer = caller()  # dblquad is nquad
    name = f"scipy.{outer[0]}" if library == "scipy" else name
    raise TracerArrayConversionError(
        f"{name} met a traced value at {user_source()}, as an argument or as a result of the function that it calls: it "
        f"computes with plain numbers, and the derivative would be lost.\nRemedy: {remedy}."
    )


def instead(remedy: str) -> Maker:
    """Functions that call the user's and are not in funcad.scipy, which has another one for that: the error names it."""
    return lambda name, original: calling(name, original, functools.partial(_met_traced, remedy, name))


def stepping(name: str, original: Callable[..., Any]) -> Answer:
    """`ode.integrate`, which hands the user's functions to code in C: that loses the errors which they raise, and may call them
    again. So nothing is raised there: what was is raised behind it, and until then there is no slope.
    """
    refused = functools.partial(_met_traced, "scipy.integrate.solve_ivp(f, (t0, t1), y0), which takes traced values", name)

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        if any_traced((self._y, *self.f_params, *self.jac_params, *args)):
            refused()
        kept, before, raised = (self.f, self.jac), (self._y, self.t), []

        def noting(f: Any, rank: int) -> Any:
            def noted(t: Any, y: Any, *given: Any) -> Any:
                try:
                    if not raised:
                        return f(t, y, *given)
                except BaseException as error:
                    raised.append(error)
                return np.zeros((len(y),) * rank)

            f = _watched(f)
            return noted

        self.f, self.jac = [f if f is None else noting(f, rank) for rank, f in enumerate(kept, 1)]
        try:
            out = original(self, *args, **kwargs)
        except BaseException:
            if not raised:
                raise
        finally:
            self.f, self.jac = kept
        if not raised:
            return out
        self._y, self.t = before
        if isinstance(raised[0], (_Traced, TracerArrayConversionError)):
            refused()
        raise raised[0]

    return lambda args, kwargs: is_tracing(), own


def _odeint(
    func: Callable[..., Any], y0: Any, t: Any, args: Any = (), *, rtol: Any = None, atol: Any = None, hmax: float = 0.0,
    mxstep: int = 0, tfirst: bool = False,
) -> Any:  # fmt: skip
    """SciPy's signature, where funcad's function has JAX's."""
    array = ours("numpy.array")
    args = args if isinstance(args, tuple) else (args,)
    options = {"rtol": rtol, "atol": atol, "hmax": hmax or None, "mxstep": mxstep or None}
    rate = lambda y, t, *rest: array(func(t, y, *rest) if tfirst else func(y, t, *rest))
    y0 = np.atleast_1d(array(y0))
    return ours("scipy.integrate.odeint")(rate, y0, t, *args, **{k: v for k, v in options.items() if v is not None})


def labelled(product: Callable[..., Any]) -> Maker:
    """`frame @ x` and `x @ frame` of pandas: of its values."""
    return lambda name, original: (holds_traced, lambda self, other: product(values_of(self), other))


def odeint(name: str, original: Callable[..., Any]) -> Answer:
    return calling(name, original, _odeint)


def from_memory(name: str, original: Callable[..., Any]) -> Answer:
    """`np.frombuffer` of a traced array: its elements one behind the other."""

    def own(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, **options: Any) -> Any:
        x, dtype = ours("numpy.ravel")(buffer), np.dtype(dtype)
        if x.dtype != dtype or offset % dtype.itemsize:
            raise TypeError(
                f"np.frombuffer(x, {dtype}, offset={offset}) of a traced {x.dtype} array at {user_source()}: it has no bytes.\n"
                f"Remedy: np.frombuffer(x, x.dtype), and .astype({dtype.name!r}) of the numbers."
            )
        first = offset // dtype.itemsize
        return x[first : None if count < 0 else first + count]

    return holds_traced, own


def over_memory(name: str, original: Callable[..., Any], kind: Any = np.ndarray) -> Answer:
    """`np.ndarray(shape, dtype, x)` of a traced x: its elements, in an array of that class."""

    def own(
        shape: Any, dtype: Any = float, buffer: Any = None, offset: int = 0, strides: Any = None, order: Any = None
    ) -> Any:
        if not holds_traced((buffer,), {}):
            return original(shape, dtype, buffer, offset, strides, order)
        x, n = ours("numpy.ravel")(buffer), math.prod(np.atleast_1d(shape).tolist())
        first = offset // x.dtype.itemsize
        if x.dtype != np.dtype(dtype) or offset % x.dtype.itemsize or strides is not None or first + n > x.size:
            raise TypeError(
                f"{kind.__name__}({shape}, {np.dtype(dtype)}, x) of a traced {x.dtype} array at {user_source()}: "
                "it has no bytes.\n"
                "Remedy: np.asarray(x).view(cls), which takes traced values."
            )
        return x[first : first + n].reshape(shape, order=order or "C").view(kind)

    return holds_traced, own


def fromiter(name: str, original: Callable[..., Any]) -> Answer:
    """np.fromiter: only whoever takes the elements sees whether one is traced."""

    def own(iter: Iterable[Any], dtype: Any, count: int = -1, *, like: Any = None) -> Any:
        items = list(iter if count < 0 else itertools.islice(iter, count))
        if not any_traced(items) or like is not None:
            return original(items, dtype, len(items), like=like)
        if len(items) < count:
            raise ValueError(f"iterator too short: Expected {count} but iterator had only {len(items)} items.")
        return ours("numpy.array")(items, dtype)

    return lambda args, kwargs: is_tracing(), own


def _one_by_one(f: np.vectorize, args: tuple, kwargs: dict[str, Any]) -> Any:
    """As NumPy does it, with values that Python can read: pyfunc may say `if`."""
    names = list(kwargs)
    values = [*args, *kwargs.values()]
    free = [i for i in range(len(args)) if i not in f.excluded]
    free += [len(args) + i for i, n in enumerate(names) if n not in f.excluded]
    columns = dict(zip(free, np.broadcast_arrays(*[values[i] for i in free])))
    shape = np.shape(columns[free[0]])
    results = []
    for at in np.ndindex(shape):
        here = [columns[i][at] if i in columns else v for i, v in enumerate(values)]
        results.append(f.pyfunc(*here[: len(args)], **dict(zip(names, here[len(args) :]))))
    make, several = ours("numpy.array"), isinstance(results[0], tuple)
    made = []
    for i, column in enumerate(zip(*results) if several else [results]):
        dtype = f.otypes[i] if f.otypes else make(column[0]).dtype  # the first result says it
        made.append(np.reshape(make(list(column), dtype), shape))
    return tuple(made) if several else made[0]


def vectorized(name: str, original: Callable[..., Any]) -> Answer:
    """`np.vectorize(f)(x)`: all elements at once, by vmap; where f asks for values, one by one as NumPy."""

    def own(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not holds_traced(args, kwargs):
            try:
                f = np.vectorize(_watched(self.pyfunc), self.otypes, None, self.excluded, self.cache, self.signature)
                return original(f, *args, **kwargs)
            except _Traced:  # what the function closes over is traced
                pass
        options = {"otypes": self.otypes, "excluded": self.excluded, "signature": self.signature}
        try:
            return ours("numpy.vectorize")(self.pyfunc, **options)(*args, **kwargs)
        except (TracerBoolConversionError, TracerIntegerConversionError):
            given = [*args, *kwargs.values()]
            if self.signature is not None or not all([has_value(x) or index_plan.can_count(x) for x in given]):
                raise
        return _one_by_one(self, args, kwargs)

    return lambda args, kwargs: users_call(), own


def along_axis(name: str, original: Callable[..., Any]) -> Answer:
    """np.apply_along_axis of a plain array, by a function that may close over traced values, or of a list of these."""

    def own(func1d: Callable[..., Any], axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
        if not holds_traced((arr, *args), kwargs):
            try:
                return original(_watched(func1d), axis, arr, *args, **kwargs)
            except _Traced:
                pass
        return whole_table()[np.apply_along_axis](func1d, axis, ours("numpy.asanyarray")(arr), *args, **kwargs)

    return lambda args, kwargs: users_call(), own


def comparing(name: str, original: Callable[..., Any]) -> Answer:
    """np.testing.assert_allclose and its like: of the values, which jit and vmap are asked for as by `if`."""

    def value(x: Any) -> Any:
        if type(x) is not Tracer:
            return x
        found = concrete_value(x)
        if type(found) is Tracer:
            found = asked(found, "array")
        return np.asarray(found) if type(found) is not Tracer else found

    def own(*args: Any, **kwargs: Any) -> Any:
        if state.observer is not None and state.abstract is not None:
            state.observer.refuse(f"{name} compares values")
        leaves, structure = tree.flatten((_bare(args), _bare(kwargs)))
        args, kwargs = structure.unflatten(list(map(value, leaves)))
        return original(*args, **kwargs)

    return holds_traced, own


def of_masked(name: str, original: Callable[..., Any]) -> Answer:
    """np.ma's functions of traced data."""

    def own(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("funcad.numpy.masked").function_of(name.rpartition(".")[2])(*args, **kwargs)

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        masked = sys.modules.get("funcad.numpy.masked")
        values = (*args, *kwargs.values())
        return holds_traced(args, kwargs) or is_tracing() and masked is not None and masked.holds_masked(values)

    return is_for_us, own


def enumerating(name: str, original: Callable[..., Any]) -> Answer:
    """`np.ndenumerate(x)`: its elements in the order of their places."""

    def own(self: Any, arr: Any) -> None:
        self.iter = _Places(arr)

    return holds_traced, own


class _Places:
    """The elements of a traced array one by one, and where the next one is."""

    def __init__(self, x: Any):
        self._x, self._places = x, np.ndindex(np.shape(x))
        self.coords = next(self._places, None)

    def __next__(self) -> Any:
        if self.coords is None:
            raise StopIteration
        found, self.coords = self._x[self.coords], next(self._places, None)
        return found


def joined(name: str, original: Callable[..., Any]) -> Answer:
    """`np.r_[...]` and `np.c_[...]`, which share their method."""

    def own(self: Any, key: Any) -> Any:
        short = "r_" if self is np.r_ else "c_" if self is np.c_ else None
        return original(self, key) if short is None else ours(f"numpy.{short}")[key]

    def is_for_us(args: tuple, kwargs: dict[str, Any]) -> bool:
        parts = args[1:]
        if any(isinstance(part, tuple) for part in parts):
            parts = tuple([p for part in parts for p in (part if isinstance(part, tuple) else (part,))])
        slices = [v for p in parts if isinstance(p, slice) for v in (p.start, p.stop, p.step)]
        return holds_traced((*parts, *slices), kwargs)

    return is_for_us, own
