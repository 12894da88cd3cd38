"""Gradients of a loss that is a mean over the data of all processes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import api, name_of
from funcad.api.grad import value_and_grad as _value_and_grad
from funcad.distributed.communicator import Communicator
from funcad.distributed.spmd import current
from funcad.flatten_util import ravel_pytree
from funcad.host.where import outside
from funcad.primitives.carried import reduce_over

__all__ = ["value_and_grad"]


@api
def value_and_grad(loss: Callable[..., Any], comm: Communicator | None = None) -> Callable[..., tuple[Any, Any]]:
    """(mean, gradient) of `loss(parameters, *data)` over the processes: each has data of its own, all have the parameters.

    The loss is this process's alone; one sum of one array carries value and gradient, which are equal bit by bit on all
    processes. A loss that calls collectives over these processes is warned of: its own gradient is a part of the whole one
    only. Processes count equally, whatever the sizes of their data. Raises what `funcad.value_and_grad` raises. JAX has none.

    >>> from funcad import distributed
    >>> full = distributed.value_and_grad(lambda w, x: (w - x) ** 2)
    >>> [tuple(map(float, v)) for v in distributed.on_threads(2, lambda rank: full(1.0, [2.0, 4.0][rank]))]
    [(5.0, -4.0), (5.0, -4.0)]
    """
    local = _value_and_grad(loss)
    warned = False

    def everywhere(parameters: Any, *data: Any) -> tuple[Any, Any]:
        nonlocal warned
        over = current(comm)
        before = over.asked, over.count
        value, slope = local(parameters, *data)
        if not warned and (over.asked, over.count) != before:
            warned = True
            warnings.warn(
                f"value_and_grad of {name_of(loss)}: the loss calls collectives over the processes whose mean is taken, and "
                "its gradient inside is this process's part only.\nRemedy: leave them out of the loss; or write "
                "value_and_grad(spmd(loss, 'i', in_axes=(None, 0), out_axes=None)), with funcad's own value_and_grad.",
                UserWarning,
                stacklevel=outside(2),
            )
        flat, rebuilt = ravel_pytree((value, slope))
        return rebuilt(reduce_over(flat, over) / np.asarray(over.size, flat.dtype))

    return everywhere
