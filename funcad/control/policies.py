"""`funcad.checkpoint_policies`: which intermediate results a checkpointed function keeps.

A policy is a predicate on equations, `policy(primitive, *avals, **params) -> bool`: True keeps the results of that equation
from the forward to the backward pass, False computes them again. The functions whose names begin with `save` make policies
from names given by `checkpoint_name`. Names and signatures are those of jax.checkpoint_policies.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from funcad.host.real_types import is_a

__all__ = [
    "everything_saveable",
    "nothing_saveable",
    "dots_saveable",
    "checkpoint_dots",
    "dots_with_no_batch_dims_saveable",
    "checkpoint_dots_with_no_batch_dims",
    "save_any_names_but_these",
    "save_only_these_names",
    "save_anything_except_these_names",
    "save_from_both_policies",
    "memory_budget",
]

Policy = Callable[..., bool]


def everything_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Keep every result that the backward pass reads: as without checkpoint."""
    return True


def nothing_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Keep only the inputs; compute everything else again. The default."""
    return False


def dots_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Keep the results of contractions and convolutions, which are costly to compute again."""
    return primitive.name in ("dot_general", "einsum", "conv")


def dots_with_no_batch_dims_saveable(primitive: Any, *avals: Any, **params: Any) -> bool:
    """Keep the results of contractions without batch axes: products with weights, not with other activations."""
    if primitive.name == "dot_general":
        _, (batch, _) = params["dimension_numbers"]
        return not batch
    if primitive.name == "einsum":
        inputs, _, output = params["subscripts"].partition("->")
        operands = inputs.split(",")
        return not any(sum(letter in o for o in operands) > 1 for letter in output)
    return False


checkpoint_dots = dots_saveable
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keep the values that `checkpoint_name` gave one of these names, and nothing else."""
    names = frozenset(names_which_can_be_saved)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return primitive.name == "name" and params["name"] in names

    return policy


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keep the values that have a name, but none of these; and nothing else."""
    names = frozenset(names_not_to_save)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return primitive.name == "name" and params["name"] not in names

    return policy


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keep every result except the values with one of these names."""
    names = frozenset(names_not_to_save)

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return not (primitive.name == "name" and params["name"] in names)

    return policy


def save_from_both_policies(policy_1: Policy, policy_2: Policy) -> Policy:
    """Keep what either policy keeps."""

    def policy(primitive: Any, *avals: Any, **params: Any) -> bool:
        return policy_1(primitive, *avals, **params) or policy_2(primitive, *avals, **params)

    return policy


_UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([KMG]?i?B?)\s*", re.IGNORECASE)


class MemoryBudget(NamedTuple):
    """A policy by what is kept in all: so many bytes. Made by `memory_budget`."""

    size: int

    def __call__(self, primitive: Any, *avals: Any, **params: Any) -> bool:
        raise TypeError("a memory budget decides on no single equation; give it to checkpoint or to a loop as policy")


def memory_budget(size: int | str) -> MemoryBudget:
    """Keep at most `size` bytes between the forward and the backward pass: an int, or text such as "64MB" or "1.5 GiB".

    As policy of `scan` and `fori_loop`, states of the loop are kept by a binomial schedule, and the turns between them run
    again, as few as that memory allows (Griewank and Walther, "Algorithm 799: Revolve", 2000); of `while_loop`, states that get
    further apart the longer the loop runs. As policy of `checkpoint`, the results that cost most to compute again for their
    size are kept, and loops in the function and in its branches share the budget. Inputs, results and cotangents do not count.
    Gradients are those without a budget, to the last bit. JAX has no such policy.

    >>> import numpy as np, funcad
    >>> policy = funcad.checkpoint_policies.memory_budget("4 kB")
    >>> def loss(x):
    ...     return funcad.scan(lambda c, _: (np.sin(c), None), x, length=1000, policy=policy)[0]
    >>> round(float(funcad.grad(loss)(1.0)), 8)
    0.00012436
    """
    if isinstance(size, str):
        found = _SIZE.fullmatch(size)
        unit = found and _UNITS.get(found[2].upper())
        if not found or unit is None:
            raise ValueError(f"memory_budget: {size!r} is no size; write it as 64_000_000, '64MB' or '61 MiB'")
        size = int(float(found[1]) * unit)
    if not is_a(size, int) or is_a(size, bool) or size <= 0:
        raise ValueError(f"memory_budget: the size must be a positive number of bytes, got {size!r}")
    return MemoryBudget(size)
