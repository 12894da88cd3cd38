"""`autograd.test_util`: numeric checks, by those of `funcad.testing`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from funcad import testing, tree
from funcad.api.border import name_of
from funcad.autograd.wrap_util import unary_to_nary

__all__ = ["check_grads", "check_vjp", "check_jvp", "check_equivalent", "combo_check", "scalar_close"]


@unary_to_nary
def check_grads(f: Callable[..., Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """`check_grads(f, argnum=0, modes=..., order=2)(*args)` compares the derivatives up to that order with differences.

    argnum is a position or a tuple of positions, as of `autograd.grad`. AssertionError if they differ.

    >>> import numpy as np
    >>> check_grads(np.sin, modes=["rev"], order=2)(np.array([0.1, 0.2]))
    >>> check_grads(np.multiply, (0, 1))(2.0, 3.0)
    """
    try:
        testing.check_grads(f, (x,), order, modes=tuple(modes))
    except AssertionError as error:
        kinds = " and ".join({"fwd": "(JVP)", "rev": "(VJP)"}[mode] for mode in modes)
        raise AssertionError(f"{kinds} check of {name_of(f)} failed: {error}") from error


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


def scalar_close(a: Any, b: Any) -> bool:
    """Are two numbers nearly the same?

    >>> scalar_close(1.0, 1.0 + 1e-12), scalar_close(1.0, 1.1)
    (True, False)
    """
    return bool(np.isclose(a, b, rtol=1e-6, atol=1e-6))


def combo_check(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., None]:
    """check_grads for every combination of the given lists of arguments and keyword arguments.

    >>> import numpy as np
    >>> combo_check(np.sum, modes=["rev"])([np.ones((2, 2))], axis=[None, 0])
    """
    check = check_grads(fun, *args, **kwargs)

    def check_all(*lists: Any, **named: Any) -> None:
        for values in product(*lists, *named.values()):
            check(*values[: len(lists)], **dict(zip(named, values[len(lists) :])))

    return check_all
