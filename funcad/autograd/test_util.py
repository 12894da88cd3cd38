"""`autograd.test_util`: numeric checks, by those of `funcad.testing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from funcad import testing, tree

__all__ = ["check_grads", "check_vjp", "check_jvp", "check_equivalent", "combo_check"]


def check_grads(f: Callable[..., Any], modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> Callable[..., None]:
    """A function of f's arguments that compares the derivatives up to `order` with differences; AssertionError if they differ.

    >>> import numpy as np
    >>> check_grads(np.sin, modes=["rev"], order=2)(np.array([0.1, 0.2]))
    """

    def check(*args: Any, **kwargs: Any) -> None:
        testing.check_grads(lambda *xs: f(*xs, **kwargs), args, order, modes=tuple(modes))

    return check


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    """Compare reverse mode with differences.

    >>> import numpy as np
    >>> check_vjp(np.sin, np.array([0.1, 0.2]))
    """
    testing.check_grads(f, (x,), 1, modes=("rev",))


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    """Compare forward mode with differences.

    >>> import numpy as np
    >>> check_jvp(np.sin, np.array([0.1, 0.2]))
    """
    testing.check_grads(f, (x,), 1, modes=("fwd",))


def check_equivalent(x: Any, y: Any) -> None:
    """AssertionError unless x and y have the same structure and nearly the same numbers.

    >>> check_equivalent([1.0], [1.0 + 1e-12])
    """
    tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), x, y)


def combo_check(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., None]:
    """check_grads for every combination of the given lists of arguments and keyword arguments.

    >>> import numpy as np
    >>> combo_check(np.sum, ["rev"])([np.ones((2, 2))], axis=[None, 0])
    """
    check = check_grads(fun, *args, **kwargs)

    def check_all(*lists: Any, **named: Any) -> None:
        for values in product(*lists, *named.values()):
            check(*values[: len(lists)], **dict(zip(named, values[len(lists) :])))

    return check_all
