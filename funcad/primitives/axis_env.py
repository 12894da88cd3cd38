"""Named axes: which are bound here, and what collectives are where processes stand behind one."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.configuration import also_says
from funcad.errors import UnboundAxisNameError
from funcad.host.devices import namespace_of
from funcad.host.where import state, user_source
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import div
from funcad.primitives.comparison import select
from funcad.primitives.conversion import convert
from funcad.primitives.shape import transpose, with_lanes


class ProcessAxis:
    """What stands in the place of an index tracer where an axis goes over processes: how many, and which one this is."""

    __slots__ = ("size", "rank", "asked")
    on_device = False  # does it take arrays of a device as they are?

    def __init__(self, size: int, rank: int):
        self.size = size
        self.rank = rank
        self.asked = 0  # how often a function asked for a collective, to be run or recorded


def bound(name: Any, what: str) -> tuple[int, Any]:
    """(size, index) of a bound axis name."""
    for known, size, index in reversed(state.axis_env):
        if known == name:
            return size, index
    names = ", ".join(repr(n) for n, _, _ in state.axis_env) or "none"
    raise UnboundAxisNameError(
        f"{what}: the axis name {name!r} is not bound; bound names here: {names}.\n"
        f"Remedy: call it inside a function that is mapped with funcad.vmap(f, axis_name={name!r}), or with\n"
        "funcad.distributed.spmd."
    )


def axes_key() -> tuple:
    """What of the bound axes a program depends on: the index of a lane is its input, that of a process stands in it."""
    if not state.axis_env:
        return ()
    return tuple([(name, size, i if isinstance(i, ProcessAxis) else None) for name, size, i in state.axis_env])


processes_here: set[str] = set()  # what joined this process to others: their programs must be alike from the first call on
if any([os.environ.get(name, "1") != "1" for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")]):
    processes_here.add("a launcher")


def over_processes() -> bool:
    """Does an axis go over processes here, which may wait for each other?"""
    return bool(state.axis_env) and any([isinstance(i, ProcessAxis) for _, _, i in state.axis_env])


def communicator(name: Any) -> Any:
    """The communicator of a bound axis that goes over processes; None if it goes over lanes."""
    for known, _, index in reversed(state.axis_env):
        if known == name:
            return index if isinstance(index, ProcessAxis) else None
    return None


def bound_names(axis_name: Any, what: str) -> tuple:
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    for name in names:
        bound(name, what)
    if len(set(names)) != len(names):
        raise ValueError(f"{what}: axis_name={axis_name!r} names an axis twice")
    return names


def single(axis_name: Any, what: str) -> tuple[Any, int]:
    names = bound_names(axis_name, what)
    if len(names) != 1:
        raise NotImplementedError(
            f"{what} takes one axis name, got {axis_name!r}.\nRemedy: apply it to one axis after the other."
        )
    return names[0], bound(names[0], what)[0]


def groups_of(axis_index_groups: Any, size: int, what: str) -> tuple[tuple[int, ...], ...]:
    """Groups of lanes, each in one of them. Only sums take groups of different sizes."""
    groups = tuple([tuple([i.__index__() for i in group]) for group in axis_index_groups])
    if sorted([i for group in groups for i in group]) != list(range(size)):
        raise ValueError(f"{what}: axis_index_groups={axis_index_groups!r} must name each of the {size} lanes once")
    if len(set(map(len, groups))) > 1 and what not in ("psum", "pmean"):
        raise ValueError(
            f"{what}: axis_index_groups={axis_index_groups!r} must be groups of one size.\n"
            "Remedy: groups of one size; psum and pmean alone take others."
        )
    return groups


def tell_what_is_shared(collective: Any) -> None:
    """Put into the docstring of a collective what all of them have in common."""
    has_groups = "axis_index_groups" in collective.__code__.co_varnames
    told = "\n`axis_index_groups`, lists of lanes with each lane in one of them, are as many collectives side by side."
    groups = told if has_groups else ""
    also_says(
        collective,
        "`axis_name` is a name that an enclosing `vmap(axis_name=...)` binds, or a tuple of names where several axes go\n"
        f"together; one that is not bound raises UnboundAxisNameError.{groups}\nReturns what this lane gets; as JAX's.",
    )


# -- collectives between processes: what `psum` and the others are where a communicator is bound to their axis (`spmd`)
#
# Idea: such an axis has a communicator in the place of its index tracer in `state.axis_env`. A collective over it is an
# operation of its own, with an implementation, whose parameter `call` says which communicator, what, and from which line. It is
# an effect: never repeated, merged or reordered by what values are, since every process has to send the same sequence. It is
# linear too, so its derivatives are those of the collectives of `vmap`: sums are their own transposes, a gather's is a sum of
# which each process keeps its part.
#
# Trap: a value that is no tracer differs from process to process all the same, so it is sent, too.


class CollectiveCall(NamedTuple):
    """Which collective: its communicator, its name there, what else that must know, and the user's line."""

    comm: Any
    what: str
    more: Any
    line: str
    place: int = 0  # of that line, the same on all machines
    agreed: bool = False  # is it one of those that `agree_on_p` compares beforehand?

    def __repr__(self) -> str:
        return f"{self.what} over {self.comm}"

    def tag(self, x: Any) -> str:
        """What has to be equal on all processes; x: the operand, or its aval."""
        return f"{self.what} {x.dtype.str} {x.shape} {self.more}"  # NumPy makes the text of a dtype anew each time

    def where(self, x: Any) -> str:
        return f"{self.what} of {x.dtype.type.__name__}{list(x.shape)} at {self.line}"


def _call(comm: Any, what: str, more: Any = None) -> CollectiveCall:
    source = state.source or user_source(3)
    comm.asked += 1
    line = str(source) if source is not None else "an unknown line"
    return CollectiveCall(comm, what, more, line, place_of(line))


_FOLDERS = re.compile(r"\S*[/\\]")


def place_of(line: str) -> int:
    """A number for a line of the user's, whichever folder a machine has its file in."""
    return int.from_bytes(_FOLDERS.sub("", line).encode()) % 4294967291  # a prime below 2**32


def _run(xp: Any, x: Any, *, call: CollectiveCall) -> Any:
    if state.before_effect is not None:
        state.before_effect()
    given = _sent(x, call)
    out = call.comm.run(call, np.asarray(given) if namespace_of([given]) is np else given)
    if xp is not np:
        return xp.asarray(out)
    return out if out.ndim else out[()]


def _sent(x: Any, call: CollectiveCall) -> Any:
    """x as its communicator takes it: a device's array too, if it can."""
    return x if namespace_of([x]) is np or call.comm.on_device and call.what in ON_DEVICE else x.get()


ON_DEVICE = {"sum", "all_gather", "sum_scatter", "permute", "exchange", "broadcast"}  # they need nothing of NumPy's


def _again(call: CollectiveCall, **changed: Any) -> CollectiveCall:
    """The collective that a derivative needs, on the line of the one that it is of."""
    return call._replace(**changed)


def _behind(x: Any) -> Any:
    """Axes 0 and 1 in each other's place."""
    return transpose(x, perm=(1, 0, *range(2, len(shape_of(x)))))


def _carried(
    name: str,
    shape: Callable[[tuple, CollectiveCall], tuple],
    jvp: Callable[..., Any],
    transposed: Callable[[Any, CollectiveCall], Any] | None,
    takes: bool = False,
    gives: bool = False,
) -> Primitive:
    """`takes`, `gives`: axis 0 of the operand, of the result counts the processes; an axis of examples goes behind it."""

    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, call: CollectiveCall) -> tuple[Any, bool]:
        out = primitive(_behind(args[0]) if takes else args[0], call=call)
        return _behind(out) if gives else out, True

    primitive = Primitive(
        name,
        _run,
        lambda x, *, call: Aval(shape(x.shape, call), x.dtype),
        jvp=jvp,
        transpose=None if transposed is None else lambda ct, x, *, call: [transposed(ct, call)],
        batch=batch,
        effect=True,
        silent=True,
        reach="ends",
    )
    return primitive


def _linear(primitive: Callable[[], Primitive]) -> Callable[..., Any]:
    return lambda tangents, out, x, *, call: primitive()(tangents[0], call=call)


def _turned(call: CollectiveCall) -> CollectiveCall:
    return _again(call, more=tuple([(d, s) for s, d in call.more]))


sum_over_p = _carried(
    "sum_over_processes",
    lambda shape, call: shape,
    _linear(lambda: sum_over_p),
    lambda ct, call: sum_over_p(ct, call=call),
)
gather_over_p = _carried(
    "gather_over_processes",
    lambda shape, call: (call.comm.size, *shape),
    _linear(lambda: gather_over_p),
    lambda ct, call: scatter_over_p(ct, call=_again(call, what="sum_scatter")),
    gives=True,
)
scatter_over_p = _carried(
    "scatter_over_processes",
    lambda shape, call: shape[1:],
    _linear(lambda: scatter_over_p),
    lambda ct, call: gather_over_p(ct, call=_again(call, what="all_gather")),
    takes=True,
)
permute_over_p = _carried(
    "permute_over_processes",
    lambda shape, call: shape,
    _linear(lambda: permute_over_p),
    lambda ct, call: permute_over_p(ct, call=_turned(call)),
)
exchange_over_p = _carried(
    "exchange_over_processes",
    lambda shape, call: shape,
    _linear(lambda: exchange_over_p),
    lambda ct, call: exchange_over_p(ct, call=call),
    takes=True,
    gives=True,
)

broadcast_over_p = _carried(
    "broadcast_over_processes",
    lambda shape, call: shape,
    _linear(lambda: broadcast_over_p),
    lambda ct, call: reduce_over_p(ct, call=_again(call, what="reduce")),
)
reduce_over_p = _carried(
    "reduce_over_processes",
    lambda shape, call: shape,
    _linear(lambda: reduce_over_p),
    lambda ct, call: broadcast_over_p(ct, call=_again(call, what="broadcast")),
)
gather_to_p = _carried(
    "gather_to_process",
    lambda shape, call: (call.comm.size, *shape),
    _linear(lambda: gather_to_p),
    lambda ct, call: scatter_from_p(ct, call=_again(call, what="scatter")),
    gives=True,
)
scatter_from_p = _carried(
    "scatter_from_process",
    lambda shape, call: shape[1:],
    _linear(lambda: scatter_from_p),
    lambda ct, call: gather_to_p(ct, call=_again(call, what="gather")),
    takes=True,
)
ROOTED = {"broadcast": broadcast_over_p, "reduce": reduce_over_p, "gather": gather_to_p, "scatter": scatter_from_p}


def _run_extremum(xp: Any, x: Any, *, call: CollectiveCall) -> list[Any]:
    """The result, whether this process has it, and how many have it, of which no process asks the others once more."""
    x = x if namespace_of([x]) is np else x.get()
    both = _run(np, x, call=call)
    found = [both["value"], both["value"] == x, both["count"].astype(np.int64)]
    return [xp.asarray(v) if xp is not np else v if np.ndim(v) else v[()] for v in found]


def _extremum_jvp(tangents: Sequence[Any], outs: Sequence[Any], x: Any, *, call: CollectiveCall) -> list[Any]:
    """Ties share the derivative. Who has it was found with the value: computed again it may differ by its last bit."""
    _, tied, count = outs
    dtype = dtype_of(x)
    total = sum_over_p(select(tied, tangents[0], dtype.type(0)), call=_again(call, what="sum"))
    return [div(total, convert(count, dtype)), None, None]


extremum_over_p = Primitive(
    "extremum_over_processes",
    _run_extremum,
    lambda x, *, call: [Aval(x.shape, x.dtype), Aval(x.shape, np.dtype(bool)), Aval(x.shape, np.dtype(np.int64))],
    jvp=_extremum_jvp,
    batch=lambda size, args, batched, *, call: (extremum_over_p(args[0], call=call), [True] * 3),
    effect=True,
    silent=True,
    multiple=True,
    reach="ends",
)


# ---------------------------------------------------------------- what programs are made to call (passes/together.py)


def _packed(xs: Sequence[Any], call: CollectiveCall) -> Any:
    """Arrays of one dtype behind each other; one alone is given as it is."""
    given = [_sent(x, call) for x in xs]
    parts = [x.reshape(-1) if namespace_of([x]) is not np else np.ravel(x) for x in given]
    return namespace_of(parts).concatenate(parts) if len(parts) > 1 else parts[0]


def _unpacked(xp: Any, total: Any, shapes: Sequence[tuple]) -> list[Any]:
    flat, parts, end = total.reshape(-1), [], 0
    for shape in shapes:
        start, end = end, end + math.prod(shape)
        parts.append(flat[start:end].reshape(shape))
    return [xp.asarray(p) if xp is not np else p if p.ndim else p[()] for p in parts]


def _sums_of_some(values: Sequence[Any], call: CollectiveCall) -> list[Any]:
    """The sums of those that are not None."""
    some = [v for v in values if v is not None]
    sums = iter(sums_over_p(*some, call=_again(call, more=tuple(map(shape_of, some)))) if some else ())
    return [None if v is None else next(sums) for v in values]


def _batch_of_sums(size: int, args: Sequence[Any], batched: Sequence[bool], *, call: CollectiveCall) -> tuple[list, list]:
    args = with_lanes(size, args, batched)
    return sums_over_p(*args, call=_again(call, more=tuple(map(shape_of, args)))), [True] * len(args)


sums_over_p = Primitive(
    "sums_over_processes",
    lambda xp, *xs, call: _unpacked(xp, _run(namespace_of([packed := _packed(xs, call)]), packed, call=call), call.more),
    lambda *xs, call: [Aval(x.shape, x.dtype) for x in xs],
    jvp=lambda tangents, outs, *xs, call: _sums_of_some(tangents, call),
    transpose=lambda cts, *xs, call: _sums_of_some(cts, call),
    batch=_batch_of_sums,
    reach="ends",
    effect=True,
    silent=True,
    multiple=True,
)


def _start(xp: Any, *xs: Any, call: CollectiveCall) -> list[Any]:
    if state.before_effect is not None:
        state.before_effect()
    return [np.int64(call.comm.start(call, _packed(xs, call)))]


def _finish(xp: Any, number: Any, *kept: Any, of: Started) -> list[Any]:
    return _unpacked(xp, of.comm.finish(int(number)), [a.shape for a in of.avals])


class Started(NamedTuple):
    """What a sum that has been started will give."""

    comm: Any
    avals: tuple[Aval, ...]

    def __repr__(self) -> str:
        return f"{len(self.avals)} over {self.comm}"


start_sums_p = Primitive(  # gives the number by which `finish_sums_p` waits for them
    "start_sums_over_processes",
    _start,
    lambda *xs, call: [Aval((), np.dtype(np.int64))],
    effect=True,
    silent=True,
    multiple=True,
)
finish_sums_p = Primitive(
    "finish_sums_over_processes",
    _finish,
    lambda number, *kept, of: list(of.avals),
    effect=True,
    silent=True,
    multiple=True,
)


class Agreement(NamedTuple):
    """What processes compare before several collectives.

    The tag of the first, a number for all tags, the place of the first, a number for all places, how many they are, and the
    lengths of loops: three numbers each, see `loops` in passes/together.py.
    """

    comm: Any
    first: str
    every: int
    place: int
    places: int
    count: int
    where: str
    loops: tuple[tuple[int, int, int], ...]

    def __repr__(self) -> str:
        return f"{self.count} collectives over {self.comm}"


def _run_agreement(xp: Any, *, agreement: Agreement) -> list[Any]:
    if state.before_effect is not None:
        state.before_effect()
    agreement.comm.agree_on(agreement)
    return []


agree_on_p = Primitive(
    "agree_on_collectives",
    _run_agreement,
    lambda *, agreement: [],
    effect=True,
    silent=True,
    multiple=True,
)


# ---------------------------------------------------------------- the collectives


def reduce_over(x: Any, comm: Any) -> Any:
    return sum_over_p(x, call=_call(comm, "sum"))


def tie_over(x: Any, comm: Any, what: str) -> Any:
    """The greatest ("max") or the smallest ("min")."""
    return extremum_over_p(x, call=_call(comm, what))[0]


def gather_over(x: Any, comm: Any) -> Any:
    """The values of all processes along a new axis 0."""
    return gather_over_p(x, call=_call(comm, "all_gather"))


def scatter_over(x: Any, comm: Any) -> Any:
    """The sum over the processes, of which each keeps its part along axis 0."""
    return scatter_over_p(x, call=_call(comm, "sum_scatter"))


def permute_over(x: Any, comm: Any, pairs: tuple) -> Any:
    return permute_over_p(x, call=_call(comm, "permute", pairs))


def exchange_over(x: Any, comm: Any) -> Any:
    """Part i along axis 0 goes to process i; what came from process i stands at i."""
    return exchange_over_p(x, call=_call(comm, "exchange"))


def rooted_over(x: Any, comm: Any, what: str, root: int) -> Any:
    """One of `ROOTED`: from one process, or to one, zeros on the others."""
    return ROOTED[what](x, call=_call(comm, what, root))


def reduce_all_over(xs: Sequence[Any], comm: Any) -> list[Any]:
    """The sums of several arrays, as one where they have one dtype; in a program they start as soon as they can."""
    found: dict[int, Any] = {}
    for dtype in dict.fromkeys([dtype_of(x) for x in xs]):
        places = [i for i, x in enumerate(xs) if dtype_of(x) == dtype]
        call = _call(comm, "sum", tuple([shape_of(xs[i]) for i in places]))
        found.update(zip(places, sums_over_p(*[xs[i] for i in places], call=call)))
    return [found[i] for i in range(len(xs))]


# ---------------------------------------------------------------- the border of spmd


def _border(
    name: str, impl: Callable[..., Any], jvp: Any, transposed: Callable[[Any, CollectiveCall], Any], effect: bool
) -> Primitive:
    primitive = Primitive(
        name,
        impl,
        lambda x, *, call: Aval(x.shape, x.dtype),
        jvp=jvp,
        transpose=lambda ct, x, *, call: [transposed(ct, call)],
        batch=lambda size, args, batched, *, call: (primitive(args[0], call=call), True),
        effect=effect,
        barrier=True,  # equal values on one process need not be equal on another, so neither are they merged
        silent=True,
        may_share=True,
        reach="ends",
    )
    return primitive


def _shared(ct: Any, call: CollectiveCall) -> Any:
    """Outside, the sum is one number again that all have: so it leaves, and its own derivative is right."""
    return leave_p(sum_over_p(ct, call=_again(call, what="sum")), call=call)


def _parted(ct: Any, call: CollectiveCall) -> Any:
    return div(enter_p(ct, call=call), dtype_of(ct).type(call.comm.size))


enter_p = _border("enter_replicated", lambda xp, x, *, call: x, _linear(lambda: enter_p), _shared, False)
checked_p = _border("enter_checked", _run, _linear(lambda: enter_p), _shared, True)
leave_p = _border("leave_replicated", lambda xp, x, *, call: x, _linear(lambda: leave_p), _parted, False)


def enter(x: Any, comm: Any, check: bool) -> Any:
    """An input that all processes have: each has a part of its cotangent."""
    return (checked_p if check else enter_p)(x, call=_call(comm, "same"))


def leave(x: Any, comm: Any) -> Any:
    """A result that all processes have: its cotangent is seeded once, a part on each."""
    return leave_p(x, call=_call(comm, "leave"))
