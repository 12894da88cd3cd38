"""`funcad.checkpoint_policies`: which intermediate results a checkpointed function keeps.

A policy is a predicate on equations, `policy(primitive, *avals, **params) -> bool`: True keeps the results of that equation
from the forward to the backward pass, False computes them again. The functions whose names begin with `save` make policies
from names given by `checkpoint_name`. Names and signatures are those of jax.checkpoint_policies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
