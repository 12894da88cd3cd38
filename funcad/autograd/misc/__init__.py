"""`autograd.misc`: flatten, optimizers, fixed points, programs that are traced once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from funcad.autograd.misc import fixed_points as fixed_points
from funcad.autograd.misc import optimizers as optimizers
from funcad.autograd.misc.flatten import flatten as flatten
from funcad.jitted.jit import jit


def const_graph(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., Any]:
    """The function of the remaining arguments, traced once and compiled: `funcad.jit(functools.partial(fun, *args, **kwargs))`.

    Its effects happen when it is traced. It is traced again for other shapes and dtypes, and where an `if` goes another way.

    >>> power = const_graph(lambda n, x: x**n, 3)
    >>> float(power(2.0))
    8.0
    """
    return jit(functools.partial(fun, *args, **kwargs))
