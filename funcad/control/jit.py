"""`jit`: trace once per signature, keep the program, call it as one equation.

Idea: the signature is the structure of the arguments, the avals of their leaves, the static values and the axis environment.
Programs are cached per function, weakly, so that two `jit(f)` share them; the cache is bounded. Captured NumPy arrays are read
by reference at every call; what Python computed from them while tracing is frozen. A trace that captured tracers is not
cached: they belong to one call. Inside an abstract trace the call is recorded as one equation (or spliced, with `inline`).
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.backends.cost import cost_of
from funcad.backends.interpreter import counters, program_of
from funcad.control.call import call_p
from funcad.control.rewire import forget_interned
from funcad.errors import PlacementError
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, literal_key
from funcad.ir.locks import root_of
from funcad.ir.place import NAMESPACES, device_in_use
from funcad.ir.state import setting, state
from funcad.ir.trace import by_reference, trace_function
from funcad.ir.tracer import Tracer
from funcad.transforms.plumbing import OutTree, api, check_leaves, dress_as, export, flat_function, name_of, positional_names
from funcad.transforms.structural import forget

__all__ = ["jit", "Jitted", "Lowered", "disable_jit", "clear_caches", "CacheInfo"]

MAX_PROGRAMS = 256  # per function; the least recently used goes first


class CacheInfo(NamedTuple):
    """As functools.lru_cache's."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class _Entry:
    """One traced program."""

    __slots__ = ("jaxpr", "consts", "in_tree", "out_tree")

    def __init__(self, jaxpr: Jaxpr, consts: list, in_tree: Any, out_tree: Any):
        self.jaxpr = jaxpr
        self.consts = consts
        self.in_tree = in_tree
        self.out_tree = out_tree


class _Cache:
    """Programs of one function, by signature."""

    __slots__ = ("entries", "hits", "misses", "lock", "tracing", "__weakref__")

    def __init__(self) -> None:
        self.entries: OrderedDict[Any, _Entry] = OrderedDict()
        self.hits = self.misses = 0
        self.lock = threading.RLock()
        self.tracing = threading.RLock()  # so that threads that start together trace once

    def get(self, key: Any) -> _Entry | None:
        with self.lock:
            entry = self.entries.get(key)
            if entry is None:
                self.misses += 1
            else:
                self.hits += 1
                self.entries.move_to_end(key)
            return entry

    def put(self, key: Any, entry: _Entry) -> None:
        with self.lock:
            self.entries[key] = entry
            while len(self.entries) > MAX_PROGRAMS:
                self.entries.popitem(last=False)

    def clear(self) -> None:
        with self.lock:
            self.entries.clear()
            self.hits = self.misses = 0


_caches: weakref.WeakKeyDictionary[Any, _Cache] = weakref.WeakKeyDictionary()
_private: weakref.WeakSet[_Cache] = weakref.WeakSet()


def _cache_for(f: Any) -> _Cache:
    try:
        if hasattr(f, "__self__"):  # bound methods are made anew at each access: their cache belongs to the jit object
            raise TypeError
        cache = _caches.get(f)
        if cache is None:
            cache = _caches[f] = _Cache()
    except TypeError:
        cache = _Cache()
        _private.add(cache)
    return cache


def clear_caches() -> None:
    """Forget every traced and compiled program of every jitted function.

    >>> import funcad
    >>> funcad.clear_caches()
    """
    for cache in (*list(_caches.values()), *list(_private)):
        cache.clear()
    forget_interned()
    forget()


def disable_jit() -> Any:
    """A context in which jitted functions run as plain Python: for debugging with `print` and `pdb`.

    >>> import funcad
    >>> with funcad.disable_jit():
    ...     funcad.jit(lambda x: x if x > 0 else -x)(-2.0)
    2.0
    """
    return setting(jit_disabled=True)


def _indices(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list, range)) else (value,)


def _names(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


@api
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    inline: bool = False,
) -> Any:
    """Trace f once per signature (structure, shapes, dtypes, statics) and run the program from then on.

    Arguments named by `static_argnums` or `static_argnames` are ordinary hashable Python values, part of the signature.
    Buffers of donated arguments may be overwritten by results if they are writeable, contiguous, own their data and share
    memory with no other argument; use them no more. `inline=True` splices the program into an enclosing one. Inside, values
    are abstract: `if x > 0` raises TracerBoolConversionError. NumPy arrays that f captures are read by reference at every
    call; what Python computed from them while tracing is frozen. Jitted programs never warn. Also a decorator, with or
    without options. Methods: `lower(*args)`, `cache_info()`, `clear_cache()`.

    >>> import numpy as np, funcad
    >>> @funcad.jit
    ... def norm(x):
    ...     return np.sqrt(np.sum(x * x))
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    if f is None:
        return functools.partial(
            jit,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            inline=inline,
        )
    if not callable(f):
        raise TypeError(f"jit takes a function, got {type(f).__name__}")
    return Jitted(f, static_argnums, static_argnames, donate_argnums, donate_argnames, inline)


class Jitted:
    """What `jit` returns."""

    def __init__(
        self, f: Any, static_argnums: Any, static_argnames: Any, donate_argnums: Any, donate_argnames: Any, inline: bool
    ):
        dress_as(self, f)
        self.f = f
        self.inline = inline
        positional = positional_names(f)
        self.static_nums, self.static_names = _resolve(_indices(static_argnums), _names(static_argnames), positional)
        self.donate_nums, self.donate_names = _resolve(_indices(donate_argnums), _names(donate_argnames), positional)
        both = set(self.static_nums) & set(self.donate_nums) or set(self.static_names) & set(self.donate_names)
        if both:
            raise ValueError(f"jit: {both} is both static and donated; a static value has no buffer")
        self.cache = _cache_for(f)

    def __repr__(self) -> str:
        return f"<jit of {name_of(self.f)}>"

    def __reduce__(self) -> Any:  # pickled and deep-copied as what made it, without its programs
        options = {
            "static_argnums": self.static_nums,
            "static_argnames": self.static_names,
            "donate_argnums": self.donate_nums,
            "donate_argnames": self.donate_names,
            "inline": self.inline,
        }
        return functools.partial(jit, **options), (self.f,)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if state.jit_disabled:
            return self.f(*args, **kwargs)
        return self._call(args, kwargs)

    @api
    def _call(self, args: tuple, kwargs: dict) -> Any:
        leaves, entry = self._traced(args, kwargs)
        if device_in_use():
            _check_placement(leaves, self.f)
        inputs = [*entry.consts, *leaves]
        if self.inline and any(type(x) is Tracer for x in inputs):
            return entry.out_tree.unflatten(eval_jaxpr(entry.jaxpr, by_reference(inputs, inputs)))
        if (self.donate_nums or self.donate_names) and not any(type(x) is Tracer for x in inputs):
            donated = self._donated(args, kwargs, inputs)
            outs = program_of(entry.jaxpr).run(inputs, donated)
            foreign = [x for x in inputs if id(x) not in donated]
        else:
            outs = call_p(*inputs, jaxpr=entry.jaxpr, name=name_of(self.f))
            foreign = inputs
        return entry.out_tree.unflatten(export(outs, foreign))

    def _traced(self, args: tuple, kwargs: dict) -> tuple[list, _Entry]:
        statics, dynamic, keywords = self._split(args, kwargs)
        leaves, in_tree = tree.flatten((dynamic, keywords))
        avals = []
        for x in leaves:
            try:
                avals.append(aval_of(x))
            except TypeError:
                check_leaves(leaves, f"jit of {name_of(self.f)}: argument", (dynamic, keywords))
        options = (self.static_nums, self.static_names)
        env = tuple([(name, size) for name, size, _ in state.axis_env])
        key = (in_tree, tuple([(a.shape, a.dtype, a.weak) for a in avals]), statics, options, env, state.default_device)
        try:
            entry = self.cache.get(key)
        except TypeError:
            self._refuse_unhashable(args, kwargs)
            raise
        if entry is None:
            # a bounded wait: functions that call each other, or that wait for a thread, would block for ever; tracing twice
            # only costs time
            owned = self.cache.tracing.acquire(timeout=1.0)
            try:
                entry = self.cache.entries.get(key)
                if entry is None:
                    entry = self._trace(args, kwargs, in_tree, avals)
                    if not any(type(c) is Tracer for c in entry.consts):
                        self.cache.put(key, entry)
            finally:
                if owned:
                    self.cache.tracing.release()
        return leaves, entry

    def _trace(self, args: tuple, kwargs: dict, in_tree: Any, avals: list) -> _Entry:
        counters["traces"] += 1
        store = OutTree()

        def full(*dynamic: Any, **keywords: Any) -> Any:
            it = iter(dynamic)
            merged = [a if self._is_static(i, len(args)) else next(it) for i, a in enumerate(args)]
            return self.f(*merged, **{k: keywords.get(k, v) for k, v in kwargs.items()})

        jaxpr, consts = trace_function(
            flat_function(full, in_tree, store, f"jit of {name_of(self.f)}"), avals, name=f"jit({name_of(self.f)})"
        )
        return _Entry(jaxpr, consts, in_tree, store.tree)

    def _is_static(self, i: int, n: int) -> bool:
        return i in self.static_nums or i - n in self.static_nums

    def _split(self, args: tuple, kwargs: dict) -> tuple[Any, tuple, dict]:
        if not self.static_nums and not self.static_names:
            return None, args, kwargs
        n = len(args)
        statics = tuple([_static_key(a) for i, a in enumerate(args) if self._is_static(i, n)])
        named = tuple([(k, _static_key(v)) for k, v in sorted(kwargs.items()) if k in self.static_names])
        dynamic = tuple([a for i, a in enumerate(args) if not self._is_static(i, n)])
        return (statics, named), dynamic, {k: v for k, v in kwargs.items() if k not in self.static_names}

    def _refuse_unhashable(self, args: tuple, kwargs: dict) -> None:
        values = [(f"argument {i}", a) for i, a in enumerate(args) if self._is_static(i, len(args))]
        values += [(f"argument {k!r}", v) for k, v in kwargs.items() if k in self.static_names]
        for label, value in values:
            try:
                hash(value)
            except TypeError:
                raise TypeError(
                    f"jit of {name_of(self.f)}: static {label} is a {type(value).__name__}, which is not hashable.\n"
                    "Static values are part of the signature: use a tuple instead of a list, "
                    "or pass arrays as ordinary arguments."
                ) from None

    def _donated(self, args: tuple, kwargs: dict, inputs: list) -> frozenset[int]:
        """Ids of the donated buffers that may really be written."""
        n = len(args)
        chosen = [a for i, a in enumerate(args) if i in self.donate_nums or i - n in self.donate_nums]
        chosen += [v for k, v in kwargs.items() if k in self.donate_names]
        buffers = [x for x in tree.leaves(chosen) if type(x) is np.ndarray]
        ids = set()
        for x in buffers:
            flags = x.flags
            if flags.writeable and flags.owndata and flags.c_contiguous and x.ndim:
                others = [y for y in inputs if type(y) is np.ndarray and y is not x]
                if sum(y is x for y in inputs) == 1 and not any(root_of(y) is x for y in others):
                    ids.add(id(x))
        return frozenset(ids)

    @api
    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The traced program for these arguments (ShapeDtypeStructs will do), without running it."""
        _, entry = self._traced(args, kwargs)
        return Lowered(entry, name_of(self.f))

    def cache_info(self) -> CacheInfo:
        """Hits, misses and size of the program cache, as functools.lru_cache's."""
        return CacheInfo(self.cache.hits, self.cache.misses, MAX_PROGRAMS, len(self.cache.entries))

    def clear_cache(self) -> None:
        """Forget this function's programs."""
        self.cache.clear()


def _resolve(nums: tuple, names: tuple, positional: tuple) -> tuple[tuple, tuple]:
    """Numbers and names of the same arguments, each completed from the other."""
    all_nums = (*nums, *[positional.index(n) for n in names if n in positional and positional.index(n) not in nums])
    all_names = (
        *names,
        *[positional[i] for i in nums if -len(positional) <= i < len(positional) and positional[i] not in names],
    )
    return all_nums, all_names


def _static_key(value: Any) -> Any:
    """Statics that are numbers compare by type and bits (1, 1.0 and True are different programs)."""
    return literal_key(value) if isinstance(value, (bool, int, float, complex, np.generic)) else (type(value), value)


def _check_placement(leaves: list, f: Any) -> None:
    device = [x for x in leaves if type(x) in NAMESPACES]
    host = [x for x in leaves if type(x) is np.ndarray and x.ndim]
    if device and host:
        raise PlacementError(
            f"jit of {name_of(f)} got a NumPy array of shape {host[0].shape} and dtype {host[0].dtype} together with a "
            f"{NAMESPACES[type(device[0])].__name__} array of shape {device[0].shape} and dtype {device[0].dtype}.\n"
            "Move one of them: funcad.device_put(x) puts a NumPy array on the GPU, funcad.device_get(x) brings it back."
        )


class Lowered:
    """A traced program: `.jaxpr`, `.as_text()`, `.compile()`, `.cost_analysis()`."""

    def __init__(self, entry: _Entry, name: str):
        self._entry = entry
        self.name = name

    @property
    def jaxpr(self) -> Jaxpr:
        return self._entry.jaxpr

    def as_text(self) -> str:
        """The program as text."""
        return str(self._entry.jaxpr)

    def compile(self) -> Compiled:
        """The program made ready to run on arguments of exactly these shapes and dtypes."""
        program_of(self._entry.jaxpr)
        return Compiled(self._entry, self.name)

    def cost_analysis(self) -> dict[str, float]:
        """Estimates for one run: "flops", "transcendentals", "bytes accessed"."""
        return cost_of(self._entry.jaxpr)


class Compiled:
    """A program for one signature; calling it checks the arguments against the signature."""

    def __init__(self, entry: _Entry, name: str):
        self._entry = entry
        self.name = name

    @api
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        entry = self._entry
        leaves, in_tree = tree.flatten((args, kwargs))
        if in_tree != entry.in_tree:
            raise TypeError(
                f"compiled {self.name} takes the dynamic arguments that it was lowered for (static ones are part of it).\n"
                + tree.describe_difference(in_tree, entry.in_tree, "(args, kwargs)", "(args, kwargs) of lower")
            )
        expected = entry.jaxpr.in_avals[len(entry.consts) :]
        found = [aval_of(x) for x in leaves]
        if [(a.shape, a.dtype) for a in found] != [(a.shape, a.dtype) for a in expected]:
            raise TypeError(
                f"compiled {self.name} was lowered for {', '.join(map(str, expected))}; got {', '.join(map(str, found))}. "
                "Call the jitted function itself for other shapes and dtypes."
            )
        outs = call_p(*entry.consts, *leaves, jaxpr=entry.jaxpr, name=self.name)
        return entry.out_tree.unflatten(export(outs, [*entry.consts, *leaves]))

    def cost_analysis(self) -> dict[str, float]:
        """As `Lowered.cost_analysis`."""
        return cost_of(self._entry.jaxpr)
