"""Functions of Python's and NumPy's that read by other ways than their arguments, and what is answered in their place.

Idea: who asks for an attribute by name, a length, an identity, a module or a generator reads something that no argument tells.
Each answer makes the guard or refuses; MISSING means that nothing is to be done but to call the function.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import importlib.util
import operator
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.tracer import Tracer
from funcad.reads.code_reads import MISSING, is_library
from funcad.reads.later import is_live, now, text
from funcad.reads.observer import Observer, how_printed, is_argument
from funcad.reads.places import reference
from funcad.reads.refusals import constant
from funcad.reads.replays import spoken
from funcad.reads.selections import SELECTIONS

from funcad.reads.attributes import (  # isort: skip
    attribute, delete_attribute, imported, method_of, raw_of, store_attribute,
)  # fmt: skip


def _type(observer: Observer, args: tuple, kwargs: dict) -> Any:
    """The type of a value: where f is given no tracer when it runs as it is, that of the value that is traced."""
    x = args[0] if len(args) == 1 else None
    if type(x) is Tracer or raw_of(type(x), "as_operand")[1] is not MISSING:  # or it is what a mask selects
        return x.__class__ if getattr(x, "owner", None) is observer.trace else type(x)
    return type(*args, **kwargs)


def _getattr(observer: Observer, args: tuple, kwargs: dict) -> Any:
    return attribute(*args) if len(args) > 1 and type(args[1]) is str else MISSING


def _hasattr(observer: Observer, args: tuple, kwargs: dict) -> Any:
    nothing = object()
    if len(args) != 2 or type(args[0]) is Tracer:
        return MISSING
    return attribute(*args, nothing) is not nothing


def _setattr(observer: Observer, args: tuple, kwargs: dict) -> Any:
    return store_attribute(*args) if len(args) == 3 and type(args[1]) is str else MISSING


def _delattr(observer: Observer, args: tuple, kwargs: dict) -> Any:
    return delete_attribute(*args) if len(args) == 2 and type(args[1]) is str else MISSING


def _next(observer: Observer, args: tuple, kwargs: dict) -> Any:
    place = observer.of(args[0]) if args else None
    if place is not None:
        observer.refuse(f"{place.label} is an iterator, which moves on")
    return MISSING


def _identified(observer: Observer, args: tuple, kwargs: dict) -> Any:
    """id, or a hash that is no more."""
    if args and is_argument(args[0]):
        observer.refuse("the identity of an argument is asked")
    place = observer.origin.get(id(args[0])) if args and type(args[0]) is not Tracer else None
    if place is not None and place.parent is not None:
        observer.guard(place, *reference(args[0]))
    return MISSING


def _hashed(observer: Observer, args: tuple, kwargs: dict) -> Any:
    return _identified(observer, args, kwargs) if type(args[0]).__hash__ is object.__hash__ else MISSING


def _dir(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if not args:
        observer.refuse("dir() lists the names of the function itself")
    method = method_of(observer, type(args[0]), "__dir__") if not is_library(type(args[0])) else None
    if method is not None:
        return sorted(method(args[0]))
    place = observer.of(args[0])
    if place is not None:
        names = observer.place(place, "names", None, f"the names in {place.label}")
        observer.guard(names, "scalar", " ".join(dir(args[0])))
    return MISSING


def _vars(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if not args:
        observer.refuse("vars() gives the variables of the function itself")
    place = observer.of(args[0])
    if place is not None:
        inside = args[0].__dict__
        observer.known_as(inside, observer.place(place, "attribute", "__dict__", place.label))
        observer.spread(inside)
    return MISSING


def _length(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if len(args) != 1 or type(args[0]) is Tracer:
        return MISSING
    x = observer.behind(args[0])
    method = method_of(observer, type(x), "__len__")
    if method is not None:
        return method(x)
    place = observer.of(x)
    if place is None or type(x) is np.ndarray:
        return len(x) if type(x) is np.ndarray else MISSING
    observer.stores.measured(x)
    observer.sized(place, len(x))
    return len(x)


def _memory(observer: Observer, args: tuple, kwargs: dict) -> Any:
    place = observer.of(args[0]) if args else None
    if place is not None:
        observer.refuse(f"memoryview hands out the memory of {place.label}")
    return MISSING


def _errors(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if not {"raise", "call"}.isdisjoint([v for v in (*args, *kwargs.values()) if type(v) is str]):
        observer.refuse("errors of arithmetic are raised, or call a function")
    return MISSING


def _filters(observer: Observer, args: tuple, kwargs: dict) -> Any:
    """Who asks for warnings, as errors or in a list, gets those of NumPy's, which programs do not give."""
    if "error" in (*args[:1], kwargs.get("action")):
        observer.refuse("warnings are raised as errors")
    if kwargs.get("record"):
        observer.refuse("warnings are recorded")
    return MISSING


def _import(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if args and type(args[0]) is str and len(args) < 5 and "level" not in kwargs:
        package = [p for p in (*args[1:], *kwargs.values()) if type(p) is str]
        imported(observer, importlib.util.resolve_name(args[0], *package or [None]), {})
    return MISSING


def _generator(observer: Observer, args: tuple, kwargs: dict, name: str = "default_rng") -> Any:
    if (*args, *kwargs.values())[:1] in ((), (None,)):
        observer.refuse(f"{name}() begins with other numbers at each call")
    return MISSING


_WITH_RNG = {  # what begins with numbers of a generator of its own, where none is given
    "scipy.stats._qmc": "Sobol Halton LatinHypercube PoissonDisk MultivariateNormalQMC MultinomialQMC",
    "scipy.stats._resampling": "PermutationMethod MonteCarloMethod BootstrapMethod",
    "scipy.stats._multicomp": "dunnett",
    "scipy.stats._sensitivity_analysis": "sobol_indices",
    "scipy.stats._bws_test": "bws_test",
    "scipy.stats._distribution_infrastructure": "UnivariateDistribution.sample",
    "scipy.linalg.interpolative": "interp_decomp svd estimate_rank",
    "scipy.integrate._quadrature": "qmc_quad",
}


def _with_rng(observer: Observer, args: tuple, kwargs: dict, name: str) -> Any:
    given = [kwargs[n] for n in ("rng", "seed", "random_state", "qrng") if kwargs.get(n) is not None]
    return _generator(observer, tuple(given), {}, name)


def _seed(f: str) -> Callable[[Observer, tuple, dict], Any]:
    """A class of NumPy's that takes a seed, of which there is a path for each."""

    def made(observer: Observer, args: tuple, kwargs: dict) -> Any:
        if Tracer not in map(type, (*args, *kwargs.values())):
            return _generator(observer, args, kwargs, f)
        given = [operator.index(a) if type(a) is Tracer and not a.shape else a for a in args]
        return getattr(np.random, f)(*given, **{k: operator.index(a) if type(a) is Tracer else a for k, a in kwargs.items()})

    return made


def _datetime64(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if args and args[0] in ("now", "today"):
        observer.refuse(f"np.datetime64({args[0]!r}) reads a clock")
    return MISSING


def _printed(observer: Observer, args: tuple, kwargs: dict) -> Any:
    observer.asks(how_printed, "how arrays are printed")
    return MISSING


def _constant(observer: Observer, args: tuple, kwargs: dict) -> Any:
    if len(args) == 1:
        observer.constant(args[0])
        return args[0]
    return MISSING


def _text(f: Any) -> Callable[[Observer, tuple, dict], Any]:
    """str, repr, format or ascii."""

    def made(observer: Observer, args: tuple, kwargs: dict) -> Any:
        live = not kwargs and any([is_live(observer, a) for a in args])
        found = text(observer, f, [*args]) if live else MISSING
        if found is not MISSING or not args:
            return found
        return f(spoken(observer, args[0]), *map(now, args[1:]), **kwargs)

    return made


TEXTS = frozenset([builtins.str, builtins.repr, builtins.format, builtins.ascii])

answers: dict[Any, Callable[[Observer, tuple, dict], Any]] = {
    **{f: _text(f) for f in TEXTS},
    type: _type,
    getattr: _getattr,
    hasattr: _hasattr,
    setattr: _setattr,
    delattr: _delattr,
    next: _next,
    memoryview: _memory,
    vars: _vars,
    dir: _dir,
    id: _identified,
    hash: _hashed,
    **dict.fromkeys((importlib.import_module, builtins.__import__), _import),
    len: _length,
    np.errstate: _errors,
    np.seterr: _errors,
    **dict.fromkeys((warnings.simplefilter, warnings.filterwarnings, warnings.catch_warnings), _filters),
    ("numpy.random", "default_rng"): _generator,
    random.Random: functools.partial(_generator, name="Random"),
    **{(m, n): functools.partial(_with_rng, name=n) for m, names in _WITH_RNG.items() for n in names.split()},
    ("numpy.random.bit_generator", "SeedSequence"): _seed("SeedSequence"),
    **{(f"numpy.random._{name.lower()}", name): _seed(name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")},
    constant: _constant,
    **dict.fromkeys((np.array2string, np.array_repr, np.array_str), _printed),
    np.datetime64: _datetime64,
    **SELECTIONS,
}
