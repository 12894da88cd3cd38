"""`jax.custom_batching`: `custom_vmap`, `sequential_vmap`."""

from collections.abc import Callable
from typing import Any

from funcad import tree as _tree
from funcad.control.loops import map as _map
from funcad.custom.custom_vmap import custom_vmap as custom_vmap

__all__ = ["custom_vmap", "sequential_vmap"]


def sequential_vmap(f: Callable[..., Any]) -> Any:
    """f, which `vmap` calls for one example after the other.

    >>> import funcad, numpy as np
    >>> funcad.vmap(sequential_vmap(lambda x, y: x * y), in_axes=(0, None))(np.ones(2), 3.0)
    array([3., 3.])
    """
    call = custom_vmap(f)

    def rule(axis_size: int, batched: Any, *args: Any) -> Any:
        leaves, structure = _tree.flatten(args)
        mapped = _tree.leaves(batched)

        def one(row: list[Any]) -> Any:
            rest = iter(row)
            return call(*structure.unflatten([next(rest) if b else x for x, b in zip(leaves, mapped)]))

        out = _map(one, [x for x, b in zip(leaves, mapped) if b])
        return out, _tree.map(lambda _: True, out)

    call.def_vmap(rule)
    return call
