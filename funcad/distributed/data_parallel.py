"""Gradients of a loss that is a mean over the data of all processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import api
from funcad.api.grad import value_and_grad as _value_and_grad
from funcad.distributed.communicator import Communicator
from funcad.distributed.spmd import current
from funcad.flatten_util import ravel_pytree
from funcad.primitives.carried import reduce_over

__all__ = ["value_and_grad"]


@api
def value_and_grad(loss: Callable[..., Any], comm: Communicator | None = None) -> Callable[..., tuple[Any, Any]]:
    """(mean, gradient) of `loss(parameters, *data)` over the processes: each has data of its own, all have the parameters.

    The loss is this process's alone and calls no collectives between processes; one sum of one array carries value and
    gradient, which are equal bit by bit on all processes. Processes count equally, whatever the sizes of their data. Raises
    what `funcad.value_and_grad` raises. JAX has none.

    >>> from funcad import distributed
    >>> full = distributed.value_and_grad(lambda w, x: (w - x) ** 2)
    >>> [tuple(map(float, v)) for v in distributed.on_threads(2, lambda rank: full(1.0, [2.0, 4.0][rank]))]
    [(5.0, -4.0), (5.0, -4.0)]
    """
    local = _value_and_grad(loss)

    def everywhere(parameters: Any, *data: Any) -> tuple[Any, Any]:
        over = current(comm)
        value, slope = local(parameters, *data)
        flat, rebuilt = ravel_pytree((value, slope))
        return rebuilt(reduce_over(flat, over) / np.asarray(over.size, flat.dtype))

    return everywhere
