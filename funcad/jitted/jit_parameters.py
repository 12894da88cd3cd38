"""The options of `jit` that name parameters, and where arguments may lie: what is checked before anything is traced.

Idea: an argument can be named by its position or by its name; each option is completed to both, so that a call may give it
either way. What f has not raises when `jit` is called. Trap: what has no signature (many builtins) is not checked.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np

from funcad.api.border import name_of
from funcad.errors import PlacementError
from funcad.host.devices import NAMESPACES
from funcad.tree.same import same_key


def indices(value: Any) -> tuple[int, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, (tuple, list, range)) else (value,)


def names(value: Any) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def resolve(nums: tuple, named: tuple, positional: tuple) -> tuple[tuple, tuple]:
    """Numbers and names of the same arguments, each completed from the other."""
    if not nums and not named:
        return (), ()
    all_nums = (*nums, *[positional.index(n) for n in named if n in positional and positional.index(n) not in nums])
    all_names = (
        *named,
        *[positional[i] for i in nums if -len(positional) <= i < len(positional) and positional[i] not in named],
    )
    return all_nums, all_names


def check_parameters(f: Any, **options: Any) -> None:
    """ValueError if an option names a parameter that f has not; what has no signature is not checked."""
    if all([given is None for given in options.values()]):
        return
    try:
        parameters = inspect.signature(f).parameters.values()
    except (ValueError, TypeError):
        return
    kinds = {p.kind for p in parameters}
    n = len([p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for option, given in options.items():
        if option.endswith("names"):
            wrong: list[Any] = [k for k in names(given) if k not in known and inspect.Parameter.VAR_KEYWORD not in kinds]
            has = f"its parameters are {', '.join(sorted(known)) or 'none'}"
        else:
            wrong = [i for i in indices(given) if not -n <= i < n and inspect.Parameter.VAR_POSITIONAL not in kinds]
            has = f"it takes {n} positional argument{'' if n == 1 else 's'}"
        if wrong:
            raise ValueError(f"jit of {name_of(f)}: {option} names {', '.join(map(repr, wrong))}, but {has}.")


def check_placement(leaves: list, f: Any) -> None:
    device = [x for x in leaves if type(x) in NAMESPACES]
    host = [x for x in leaves if type(x) is np.ndarray and x.ndim]
    if device and host:
        raise PlacementError(
            f"jit of {name_of(f)} got a NumPy array of shape {host[0].shape} and dtype {host[0].dtype} together with a "
            f"{NAMESPACES[type(device[0])].__name__} array of shape {device[0].shape} and dtype {device[0].dtype}.\n"
            "Remedy: funcad.device_put(x) puts the NumPy array on the GPU; funcad.device_get(x) brings the other one back."
        )


def writable(donated: list, inputs: list) -> frozenset[int]:
    """Ids of the donated buffers that may really be written."""
    ids = set()
    for x in donated:
        kind = type(x)
        if kind is not np.ndarray and kind not in NAMESPACES:
            continue
        flags, xp = x.flags, NAMESPACES.get(kind, np)
        if getattr(flags, "writeable", True) and flags.owndata and flags.c_contiguous and x.ndim:  # CuPy's all are writeable
            others = [y for y in inputs if type(y) is kind and y is not x]
            if sum([y is x for y in inputs]) == 1 and not any([xp.may_share_memory(x, y) for y in others]):
                ids.add(id(x))
    return frozenset(ids)


def _hashable(value: Any) -> str:
    """What to pass instead as a static argument."""
    if type(value) is list:
        return "pass a tuple, tuple(x)"
    if type(value) is dict:
        return "pass tuple(x.items()), and make a dict of it inside"
    if type(value) is set:
        return "pass a frozenset"
    return "pass it as an ordinary argument, if it is an array or holds some; else give its class __hash__ and __eq__"


def refuse_unhashable(values: list[tuple[str, Any]], name: str) -> None:
    """TypeError for the static values, with their labels, that cannot be part of a signature."""
    for label, value in values:
        try:
            hash(same_key(value))
        except TypeError:
            raise TypeError(
                f"jit of {name}: static {label} is a {type(value).__name__}, which is not hashable.\n"
                f"Static values are part of the signature.\nRemedy: {_hashable(value)}."
            ) from None
