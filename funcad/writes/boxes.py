"""Values that can be written: what a traced array knows of its memory.

Idea: what the user holds is a handle that names a value. A write computes the new value, and the same handle names it from
then on (`assign`), so that every alias sees it and the program stays pure. A view has a base and a step: `look` gives the
view's value from the base's, `put` the base's from the view's. A written view writes its base, and a written base derives its
living views anew, which it knows by weak references.

Invariants: recorders keep snapshots of handles, never handles (`snapshot` of ir/tracer.py). An array belongs to the body (of
jit, vmap, a loop) in which it was made: the body is traced once, so a write from an inner body raises. Traps: a value of rank 0
is an array, and can be written, if it has a box or an array of rank 0 behind it; else it is a number. Whether a reshape is a
view depends on how its base lies in memory, and is asked for when one of the two is written.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.errors import SharedMemoryError, WriteError
from funcad.host.where import state, user_source
from funcad.ir.aval import said, shape_of
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.primitives.basic_indexing import basic_update
from funcad.unjitted.following import with_value
from funcad.unjitted.linearizing import FOLLOWING

strides = OnDemand("funcad.unjitted.strides")
_new: Any = object.__new__
_MANY = 64  # weak references, among which those to what is gone are looked for


class ViewStep:
    """How a view lies in its base. `look(base)`: the view's value; `put(base, value)`: the base's after a write of the view."""

    __slots__ = ()
    copied = False  # are views of the view copies?

    def look(self, base: Any) -> Any:
        raise NotImplementedError

    def put(self, base: Any, value: Any) -> Any:
        raise NotImplementedError

    def write(self, base: Tracer, value: Any, view: Tracer | None) -> None:
        """The same of the base's handle; `view` is the one that is written."""
        now, box = snapshot(base), base.box
        now.box = Box(box.base, box.step)  # for questions for the memory order
        now.box.first, now.box.doubtful = box.first, box.doubtful
        write(base, self.put(now, value), view)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        """How the view of a base with this layout lies in memory."""
        raise NotImplementedError

    def shares(self, base: Any) -> bool:
        """Is it a view of this base, or did NumPy have to copy?"""
        return True

    def apart(self, base: Any, index: tuple) -> bool:
        """Does it surely read no element of the base at this canonical basic index?"""
        return False


class Box:
    """The memory of a handle: its base and the step from there, if it is a view, and weak references to its own views.

    Of a buffer (plain.py) also whether nobody else has the array behind it, what it was filled with, and where.
    """

    own = False
    fill: Any = None
    body: float = 0  # the level of the body in which it was made
    doubtful = False  # of a buffer: may it lie in memory otherwise than NumPy's would?
    made: float = 0  # the level of the trace whose function made it
    first: Any = None  # of an array that has been written: what it was before, which lay in the same memory
    base: Any = None
    step: Any = None
    views: Any = ()  # weak references, some to what is gone, in a list that `linked` makes

    def __init__(self, base: Any = None, step: Any = None):
        self.base = base
        self.step = step


def linked(view: Any, base: Tracer, step: ViewStep) -> Any:
    """`view`, a traced result, as a view of its base; a handle of its own if it is the base's. Of a number there are none."""
    if type(view) is not Tracer:
        return view
    if view is base:
        view = base.owner.again(snapshot(view))
    if type(base.primal) is not np.ndarray and not is_array(base):
        view.box = Box()
        return view
    box = base.box
    if box is None:
        box = base.box = _new(Box)
    elif box.step is not None and box.step.copied:
        return view
    view.box = own = _new(Box)
    own.base, own.step = base, step
    if box.body:
        own.body = box.body
    views = box.views
    if not views:
        views = box.views = []
    views.append(weakref.ref(view))
    if not len(views) % _MANY:
        views[:] = [ref for ref in views if ref() is not None]
    return view


def is_array(x: Tracer) -> bool:
    """Is it an array, which can be written, and no number?"""
    if x.shape or x.box is not None:
        return True
    value: Any = concrete_value(x)
    if type(value) is not Tracer:
        return type(value) is np.ndarray
    given = value.owner.stands_for.get(value.atom)
    if given is not None:
        value.owner.asked = True
    return type(given) is np.ndarray


def root_of(x: Tracer) -> Tracer:
    """The array whose memory x is or is a view of."""
    while x.box is not None and x.box.base is not None and x.box.step.shares(x.box.base):
        x = x.box.base
    return x


def assign(x: Tracer, value: Any) -> None:
    """A write of the whole of x: from now on x names what `value` is now, of its shape and dtype, as do its aliases, views."""
    check_write(x)
    write(x, snapshot(value))  # it may be a view of what is written: np.copyto(x, x.T)


def check_write(x: Tracer) -> None:
    """Raise if x cannot be written as in NumPy."""
    root = root_of(x)
    trace, own = state.running, root.owner.level if root.owner.level else root.box.made
    while trace is not None and trace.level != int(own):  # that in front of a trace is half a level higher
        trace.writes_outside = True
        trace = trace.outer
    if state.abstract is not None:
        _check_owner(x, root)
    _check_arguments(x, root)
    if shape_of(root) and (root.box is None or root.box.first is None):
        _keep_layout(root)


def _keep_layout(x: Tracer) -> None:
    """What is written stays where it is: how x lies in memory is asked of the value that it names now."""
    primal: Any = x.primal
    if type(primal) is np.ndarray:  # which would be kept
        primal = strides.stand_in(primal)
    if x.box is None:
        x.box = Box()
    x.box.first = first = Tracer(x.owner, x.atom, primal, x.tangent, x.source)
    if x.box.doubtful:
        first.box = Box()
        first.box.doubtful = True


def write(x: Tracer, value: Any, view: Tracer | None = None) -> None:
    """`assign` without checks, through the steps of a view; `view` is the view of x that was written, if it was one."""
    box = x.box
    if box is not None and box.base is not None:
        if box.step.shares(box.base):
            box.step.write(box.base, value, x)
        else:
            _part(x)
    rebind(x, value)
    if box is not None:
        refresh(x, view)


def _part(x: Tracer) -> None:
    """x is no view after all."""
    box = x.box
    box.base.box.views[:] = [ref for ref in box.base.box.views if ref() is not x]
    box.base = box.step = None


def refresh(x: Tracer, written: Tracer | None, index: tuple | None = None) -> None:
    """Derive the living views of x anew, but for the one that was written; `index`: the elements that were, if it is known."""
    views = x.box.views
    if not views:
        return
    views[:] = [ref for ref in views if ref() is not None]
    for ref in list(views):
        view = ref()
        if view is None or view is written or view.box is None or view.box.base is not x:
            continue
        if index is not None and view.box.step.apart(x, index):
            continue
        if view.box.step.shares(x):
            rebind(view, view.box.step.look(x))
            refresh(view, None)
        else:
            _part(view)


def rebind(x: Tracer, value: Any) -> None:
    """x names `value` from now on; its views do not know yet."""
    if type(value) is not Tracer and not x.owner.level:
        x.primal, x.box = np.array(value), x.box or Box()  # of a buffer
        x.box.own, x.box.fill = True, None
        return
    if type(value) is not Tracer:
        shape = shape_of(x)
        value = basic_update(snapshot(x), value, tuple([(0, n, 1) for n in shape]))
    value = _lying_as(x, value)
    if x.box is None and not shape_of(x):
        x.box = Box()  # it stays an array, of rank 0, and does not become a number
    x.owner, x.atom, x.primal, x.tangent = value.owner, value.atom, value.primal, value.tangent
    x.source, x.aval = value.source, value.aval
    trace = x.owner
    if trace.settle is not None:
        trace.settle(x)


def _lying_as(x: Tracer, value: Tracer) -> Tracer:
    """The value as it lies in x's memory, whatever order it was computed in."""
    old, new = x.primal, value.primal
    if type(old) is np.ndarray and type(new) is np.ndarray and old.ndim and old.strides != new.strides:
        like = np.empty_like(old)  # in order "K"
        if like.strides != new.strides:
            like[...] = new
            return with_value(value, like) if value.owner.level else Tracer(value.owner, None, like)
    return value


def _check_owner(x: Tracer, root: Tracer) -> None:
    body = state.abstract
    if body is None or root.owner.level >= body.level or root.box is not None and root.box.body == body.level:
        return
    if any([made is root for made in body.hoisted]):
        return
    source = user_source()
    raise WriteError(
        f"a write into {said(x)}{f' at {source}' if source is not None else ''}, which was made outside of the body that is "
        f"being traced ({body.name}): the body is traced once, but its writes would have to happen each time it runs.\n"
        "Remedy: pass the array to the body as an argument or carry, write a copy there, and return it."
    )


def _check_arguments(x: Tracer, root: Tracer) -> None:
    """An argument that is written may share no memory with another argument, which would not see it."""
    trace: Any = root.owner
    if not trace.level and not root.box.own and type(state.running) in FOLLOWING:  # lent by the caller
        trace = state.running
    if type(trace) in FOLLOWING:
        if len(trace.arguments) < 2:
            return
        arrays, own = trace.arguments, concrete_value(root)
    elif isinstance(trace, AbstractTrace) and trace.given and not trace.given.commits and root.atom in trace.inputs:
        arrays, own = trace.given.values, trace.given.values[trace.inputs.index(root.atom)]
    else:
        return
    if type(own) is not np.ndarray:
        return
    shared = [a for a in map(concrete_value, arrays) if type(a) is np.ndarray and np.may_share_memory(a, own)]
    if len(shared) > 1 and sum([np.shares_memory(a, own) for a in shared]) > 1:
        source = user_source()
        raise SharedMemoryError(
            f"a write into {said(x)}{f' at {source}' if source is not None else ''}, which shares memory with another "
            f"argument of the function that {trace.name} traces: the other one would not see it.\n"
            "Remedy: pass a copy, x.copy()."
        )
