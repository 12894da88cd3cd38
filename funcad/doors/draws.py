"""Doors of numpy.random's own functions: in a program, `np.random.normal(size=3)` draws at each run, as in the plain function.

Idea: a draw is an effect (primitives/host.py): the program calls NumPy's function when it runs, in the plain function's
order, once; what runs again (a checkpoint, a backward pass) keeps the numbers. The shape and dtype are found by a draw from a
generator of the door's own, so the user's does not move. A Python number is drawn as one that adapts to the dtype it meets.

Traps: a function that was imported by name (`from numpy.random import normal`) has no door, and a draw that gives no numbers
is NumPy's own: what moved the generator raises when jit's trace ends (jitted/left_behind.py). Where nothing is recorded, as in
gradients outside jit, NumPy draws as ever.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.doors.asking import holds_traced, is_tracing
from funcad.doors.codes import Answer
from funcad.errors import RandomStateError
from funcad.host.real_types import is_a
from funcad.host.where import state, tracing, user_source
from funcad.ir.aval import Aval
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer
from funcad.numpy.views import destination
from funcad.primitives.host import HostCall, random_draw_p, rewinding

_own: list[np.random.RandomState] = []  # draws that nobody sees; made when the first is needed


def _example(name: str, args: tuple, kwargs: dict[str, Any]) -> Any:
    if not _own:
        _own.append(np.random.RandomState(0))
    return getattr(_own[0], name)(*args, **kwargs)


def _aval(x: Any) -> Aval | None:
    """Of a draw; None if it is none of numbers."""
    if type(x) in (float, int, bool):
        return Aval((), np.dtype(type(x)), type(x) is not bool)
    if is_a(x, (np.ndarray, np.generic)) and x.dtype.kind in "biufc":
        return Aval(x.shape, x.dtype)
    return None


def drawing(name: str, original: Callable[..., Any]) -> Answer:
    short = name.rpartition(".")[2]

    def own(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten((args, kwargs))
        args, kwargs = structure.unflatten(plain_values(leaves))  # of buffers, the arrays
        if holds_traced(args, kwargs):
            raise RandomStateError(
                f"{name} got a traced parameter at {user_source()}: NumPy would need its value, and its derivative would be "
                "lost.\nRemedy: draw standard numbers and compute with them, `mu + sigma * np.random.standard_normal(size)`; "
                "or use funcad.random."
            )
        aval = _aval(_example(short, args, kwargs))
        if aval is None:
            return original(*args, **kwargs)
        rewind = rewinding(np.random.mtrand._rand)
        seeded = getattr(state.abstract, "seeded", False)
        call = HostCall(name, lambda: [original(*args, **kwargs)], [aval], [f"a draw of {name}"], rewind, seeded)
        return random_draw_p(call=call)[0]

    is_for_us: Any = lambda args, kwargs: state.abstract is not None and is_tracing()
    is_for_us.makes = True
    return is_for_us, own


def _of_values(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """A seed is asked for its value, as Python's control flow asks: jit has a path for each, vmap runs each example."""
    leaves, structure = tree.flatten((args, kwargs))
    args, kwargs = structure.unflatten([operator.index(x) if type(x) is Tracer and not x.shape else x for x in leaves])
    return args, kwargs


def seeding(name: str, original: Callable[..., Any]) -> Answer:
    """np.random.seed(k): the program does it each time it runs, and what it draws then is known."""

    def own(*args: Any, **kwargs: Any) -> None:
        args, kwargs = _of_values(args, kwargs)
        known = any([v is not None for v in (*args, *kwargs.values())])

        def seed() -> list[Any]:
            original(*args, **kwargs)
            return []

        if state.abstract is None:
            seed()
            return
        random_draw_p(call=HostCall(name, seed, [], [], rewinding(np.random.mtrand._rand), known))
        state.abstract.seeded = known

    is_for_us: Any = lambda args, kwargs: (state.abstract is not None or holds_traced(args, kwargs)) and is_tracing()
    is_for_us.makes = True
    return is_for_us, own


def shuffling(name: str, original: Callable[..., Any]) -> Answer:
    """np.random.shuffle(x) of an array: its elements at drawn positions, by the same steps as NumPy's permutation."""

    def own(x: Any) -> None:
        if is_a(x, np.ndarray) or type(x) is Tracer:
            x = destination(x, name)
            x[...] = x[tracing.door_of(np.random.permutation)(len(x))]
        elif state.observer is not None:
            state.observer.refuse("np.random.shuffle moves the generator")
        elif state.abstract.seeded:
            raise RandomStateError(
                f"np.random.shuffle of a list at {user_source()}, behind np.random.seed in the function that is traced.\n"
                "Remedy: shuffle an array of positions, or take np.random.permutation(n)."
            )
        else:
            original(x)

    is_for_us: Any = lambda args, kwargs: (state.abstract is not None or Tracer in map(type, args)) and is_tracing()
    is_for_us.makes = True
    return is_for_us, own


def unseeded(name: str, original: Callable[..., Any]) -> Answer:
    """np.random.default_rng() and RandomState(), which another call of the plain function seeds anew."""

    def own(*args: Any, **kwargs: Any) -> Any:
        if all([v is None for v in (*args, *kwargs.values())]):
            raise RandomStateError(
                f"{name}() without a seed at {user_source()}: each call of the function would draw other numbers, and every "
                "call of its program the same.\nRemedy: give it a seed, or draw with np.random.normal(size=3) and the like, "
                "which are drawn anew at each call; or make the generator outside and pass the numbers as an argument."
            )
        args, kwargs = _of_values(args, kwargs)
        return original(*args, **kwargs)

    is_for_us: Any = lambda args, kwargs: (state.abstract is not None or holds_traced(args, kwargs)) and is_tracing()
    is_for_us.makes = True
    return is_for_us, own
