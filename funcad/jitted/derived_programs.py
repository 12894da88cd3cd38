"""Jitted functions behind the derivatives of jitted functions, see api/border.py.

Their programs are with those of the function, in its cache, so that two `jit(f)` share them as they share f's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import derivatives_by
from funcad.host.where import open_traces, state
from funcad.ir.aval import SCALAR_AVALS
from funcad.ir.tracer import Tracer
from funcad.jitted.jit import Core, Jitted
from funcad.jitted.jit_cache import Cache


class _Core(Core):
    """Takes calls with arrays and numbers where no trace is open."""

    __slots__ = ()

    def enter(self, /, *args: Any, **kwargs: Any) -> Any:
        if open_traces or state.jit_disabled or not all(map(_is_plain, tree.leaves(self._split(args, kwargs)[1:]))):
            return NotImplemented
        return super().enter(*args, **kwargs)


def _is_plain(x: Any) -> bool:
    if type(x) is np.ndarray:
        return x.dtype.kind != "V"  # as tangents of integers are
    return type(x) in SCALAR_AVALS or type(x) is Tracer


class _Derivative(Jitted):
    __slots__ = ()
    _kind = _Core

    def __init__(self, f: Any, cache: Cache, **options: Any):
        super().__init__(f, **options)
        self._core.cache = cache


def _derivative(jitted: Jitted, key: Any, make: Callable[[Any], Any], same: bool) -> Any:
    core = jitted._core
    if not same and (core.static_nums or core.static_names):
        return None
    try:
        found = core.derivatives.get(key)
    except TypeError:  # an option that cannot be hashed is refused by the transform
        return None
    if found is None:
        options = {name: None if name.startswith("donate") else option for name, option in core.options.items()}
        if not same:
            options.update(static_argnums=None, static_argnames=None)
        cache = core.cache.derived.setdefault(key, Cache())
        found = core.derivatives.setdefault(key, _Derivative(make(core.f), cache, **{**options, "inline": False}))
    return found


derivatives_by(_derivative, Jitted)
derivatives_by(_derivative, _Derivative)
