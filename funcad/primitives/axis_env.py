"""The named axes that are bound here: `state.axis_env` holds (name, size, index tracer) for each, innermost last."""

from __future__ import annotations

from typing import Any

from funcad.errors import UnboundAxisNameError
from funcad.host.state import state
from funcad.show.docstrings import also_says

__all__ = ["ProcessAxis", "axes_key", "bound", "bound_names", "communicator", "over_processes", "single", "refuse_groups"]
__all__ += ["tell_what_is_shared"]


class ProcessAxis:
    """What stands in the place of an index tracer where an axis goes over processes: how many, and which one this is."""

    __slots__ = ("size", "rank", "asked")

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
        raise NotImplementedError(f"{what} takes one axis name, got {axis_name!r}; apply it to one axis after the other")
    return names[0], bound(names[0], what)[0]


def refuse_groups(axis_index_groups: Any, what: str) -> None:
    if axis_index_groups is not None:
        raise NotImplementedError(
            f"{what}: axis_index_groups is not supported.\nRemedy: map two nested axes instead, and reduce over one of them."
        )


def tell_what_is_shared(collective: Any) -> None:
    """Put into the docstring of a collective what all of them have in common."""
    has_groups = "axis_index_groups" in collective.__code__.co_varnames
    groups = " `axis_index_groups` must be None, else NotImplementedError." if has_groups else ""
    also_says(
        collective,
        "`axis_name` is a name that an enclosing `vmap(axis_name=...)` binds, or a tuple of names where several axes go\n"
        f"together; one that is not bound raises UnboundAxisNameError.{groups}\nReturns what this lane gets; as JAX's.",
    )
