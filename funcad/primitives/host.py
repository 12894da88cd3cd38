"""Host: Python functions that a program calls while it runs (print, callbacks).

Idea: the Python function is a parameter, a `HostCall` on flat arrays that checks what comes back. `debug_callback` and
`io_callback` are effects: recorded in the innermost open abstract trace even without traced operands, never removed,
duplicated or reordered. `pure_callback` is a function: it is removed when nobody reads its results. None has a derivative;
an effect happens once, with the primal. Under vmap the function is called lane by lane, in order, or once on whole batches
(`vmap_method` of `pure_callback`).

Trap: the function gets read-only views of the program's own buffers, and what it returns is copied: a scratch buffer that it
reuses must not change a program's values. Un-jitted it runs in the user's own `np.errstate` (hence `silent`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from funcad.errors import MissingRuleError, RandomStateError
from funcad.host.devices import namespace_of
from funcad.host.locks import lent_to, read_only
from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import state
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import subjaxprs
from funcad.ir.primitive import Primitive
from funcad.primitives.shape import with_lanes

VMAP_METHODS = (None, "sequential", "expand_dims", "broadcast_all")
_PYTHON_KINDS = {bool: "b", int: "biufc", float: "fc", complex: "c"}


def _given(x: Any) -> Any:
    """An operand as the function sees it: rank-0 values are scalars, arrays are NumPy's and read-only."""
    if type(x) is not np.ndarray:
        if namespace_of([x]) is np:
            return x
        x = x.get()  # from the GPU: the function is NumPy's
    if not x.ndim:
        return x[()]
    return read_only(x)


def _returned(x: Any, aval: Aval, what: str) -> Any:
    """A result as the declared aval says: checked and copied."""
    kind = type(x)
    if aval.weak and kind in _PYTHON_KINDS and np.dtype(kind) == aval.dtype and not aval.shape:
        return x
    if kind in _PYTHON_KINDS and aval.dtype.kind in _PYTHON_KINDS[kind]:
        x = aval.dtype.type(x)
    elif not (hasattr(x, "dtype") and hasattr(x, "shape")):
        x = np.asarray(x)
    if x.shape != aval.shape or x.dtype != aval.dtype:
        found = Aval(x.shape, x.dtype) if dtype_kind(x.dtype) in "biufc" else f"an array of dtype {x.dtype}"
        raise TypeError(f"{what} was declared as {aval:a}, but the function returned {found:a}")
    if is_a(x, np.generic):
        return x
    x = x.copy("K") if namespace_of([x]) is np else x.get()
    return x if x.ndim else x[()]


def _on_device(xp: Any, results: list[Any]) -> list[Any]:
    """Results go where the operands are."""
    return results if xp is np else [xp.asarray(r) for r in results]


class HostCall:
    """A Python function on flat arrays, with the avals and the labels of its results.

    `rewind`, of a function that moves a generator alone: notes where it is, and gives what puts it back there. `seeded`: is the
    generator in a known state, as the function that is traced has seeded it?
    """

    __slots__ = ("name", "function", "avals", "labels", "rewind", "seeded")

    def __init__(
        self,
        name: str,
        function: Callable[..., Sequence[Any]],
        avals: Sequence[Aval],
        labels: Sequence[str],
        rewind: Callable[[], Callable[[], Any]] | None = None,
        seeded: bool = False,
    ):
        self.name = name
        self.seeded = seeded
        self.rewind = rewind
        self.function = function
        self.avals = avals
        self.labels = labels

    def __repr__(self) -> str:
        return self.name

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *values: Any) -> list[Any]:
        results = lent_to(f"the callback {self.name}", self.function, [_given(v) for v in values])
        return [_returned(r, a, label) for r, a, label in zip(results, self.avals, self.labels)]

    def whole(self, size: int) -> HostCall:
        """The same function, called once on batches."""
        return HostCall(self.name, self.function, [a.batched(size) for a in self.avals], self.labels)

    def per_lane(self, size: int, batched: Sequence[bool]) -> HostCall:
        """The function called once per lane, in order."""
        avals = self.avals

        def loop(*values: Any) -> list[Any]:
            columns: list[list[Any]] = [[] for _ in avals]
            for i in range(size):
                for column, r in zip(columns, self(*[v[i] if b else v for v, b in zip(values, batched)])):
                    column.append(r)
            return [np.stack(c) if c else np.empty((0, *a.shape), a.dtype) for c, a in zip(columns, avals)]

        return HostCall(self.name, loop, [a.batched(size) for a in avals], self.labels)


def _lane_by_lane(primitive_of: Callable[[], Primitive]) -> Callable[..., tuple[list, list]]:
    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, call: HostCall, **params: Any) -> tuple[list, list]:
        outs = primitive_of()(*args, call=call.per_lane(size, batched), **params)
        return outs, [True] * len(outs)

    return batch


def _effect(xp: Any, *args: Any, call: HostCall) -> list[Any]:
    if state.before_effect is not None:
        state.before_effect()
    return _on_device(xp, _results(call, args))


def _results(call: HostCall, args: Sequence[Any] = ()) -> list[Any]:
    """What the function gives."""
    return call(*args) if state.happened is None else results_of(call.name, partial(call, *args))


def results_of(name: str, run: Callable[[], list[Any]]) -> list[Any]:
    """What an effect of this name gives, where these are counted; in a run that is made again, what it gave before."""
    now, before = state.happened
    at = next((i for i, (known, _) in enumerate(before) if known == name), None)
    results = run() if at is None else before.pop(at)[1]
    now.append((name, results))
    return results  # type: ignore[no-any-return]


debug_callback_p = Primitive(
    "debug_callback",
    _effect,
    lambda *avals, call: list(call.avals),
    batch=_lane_by_lane(lambda: debug_callback_p),
    multiple=True,
    effect=True,
    silent=True,
    may_share=True,
)


def debug_callback(call: HostCall, *operands: Any) -> None:
    """Call it when the program runs."""
    debug_callback_p(*operands, call=call)


io_callback_p = Primitive(
    "io_callback",
    _effect,
    lambda *avals, call: list(call.avals),
    batch=_lane_by_lane(lambda: io_callback_p),
    multiple=True,
    effect=True,
    silent=True,
    may_share=True,
)


def _no_lanes(size: int, args: Sequence[Any], batched: Sequence[bool], *, call: HostCall) -> NoReturn:
    raise RandomStateError(
        f"{call.name} inside vmap: NumPy's generator gives one number after the other, and examples that run at once have "
        "no order.\nRemedy: seed it in the function, np.random.seed(0), and every example draws the same; or draw for all "
        "examples outside and map over the numbers; or use funcad.random with keys."
    )


random_draw_p = Primitive(
    "random_draw",
    lambda xp, *, call: _on_device(xp, _results(call)),
    lambda *, call: list(call.avals),
    batch=_no_lanes,
    multiple=True,
    effect=True,
    fresh=True,
    silent=True,
)


def rewinding(generator: Any) -> Callable[[], Callable[[], Any]]:
    """Of a generator of NumPy's or of Python's, see `HostCall`."""

    def rewind() -> Callable[[], Any]:
        if hasattr(generator, "bit_generator"):
            bits = generator.bit_generator
            return partial(setattr, bits, "state", bits.state)
        read, write = ("get_state", "set_state") if hasattr(generator, "get_state") else ("getstate", "setstate")
        return partial(getattr(generator, write), getattr(generator, read)())

    return rewind


# a clock, a generator of the user's: read at each run, once for all examples, as Python does
host_read_p = Primitive(
    "host_read",
    lambda xp, *, call: _on_device(xp, _results(call)),
    lambda *, call: list(call.avals),
    multiple=True,
    effect=True,
    silent=True,
)


def _pure_batch(
    size: int, args: Sequence[Any], batched: Sequence[bool], *, call: HostCall, vmap_method: str | None
) -> tuple[list, list]:
    if vmap_method is None:
        raise MissingRuleError(
            f"pure_callback of {call.name} cannot be mapped: say how with vmap_method='sequential' (once per lane), "
            "'expand_dims' (once, unmapped arguments with a new axis of size 1) or "
            "'broadcast_all' (once, every argument batched)."
        )
    if vmap_method == "sequential":
        outs = pure_callback_p(*args, call=call.per_lane(size, batched), vmap_method=vmap_method)
    else:
        leading = size if vmap_method == "broadcast_all" else 1
        outs = pure_callback_p(*with_lanes(leading, args, batched), call=call.whole(size), vmap_method=vmap_method)
    return outs, [True] * len(outs)


pure_callback_p = Primitive(
    "pure_callback",
    lambda xp, *args, call, vmap_method: _on_device(xp, call(*args)),
    lambda *avals, call, vmap_method: list(call.avals),
    batch=_pure_batch,
    multiple=True,
    fails=True,
    silent=True,
    may_share=True,
)


def refuse_fresh(primitive: Primitive, size: int, params: dict[str, Any]) -> None:
    """All examples would share what is drawn once."""
    seeded = primitive is random_draw_p and params["call"].seeded  # by each example: they do draw the same
    if primitive.fresh and primitive.batch is not None and not seeded:
        primitive.batch(size, (), (), **params)
    for e in [e for jaxpr in subjaxprs(params) if jaxpr.has_effects for e in jaxpr.equations]:
        refuse_fresh(e.primitive, size, e.params)
