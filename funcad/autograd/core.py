"""`autograd.core`: `make_vjp(fun, x)` and `make_jvp(fun, x)` at a point, and the names of `autograd.extend`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.autograd import differential_operators as _operators
from funcad.autograd.extend import def_linear as def_linear
from funcad.autograd.extend import defjvp as defjvp
from funcad.autograd.extend import defjvp_argnum as defjvp_argnum
from funcad.autograd.extend import defjvp_argnums as defjvp_argnums
from funcad.autograd.extend import defvjp as defvjp
from funcad.autograd.extend import defvjp_argnum as defvjp_argnum
from funcad.autograd.extend import defvjp_argnums as defvjp_argnums
from funcad.autograd.extend import primitive as primitive
from funcad.autograd.vspaces import VSpace as VSpace
from funcad.autograd.vspaces import vspace as vspace

__all__ = ["make_vjp", "make_jvp", "primitive", "vspace"]


def make_vjp(fun: Callable[..., Any], x: Any) -> tuple[Callable[[Any], Any], Any]:
    """The pair (vjp, value) of a function of one argument at x.

    >>> pullback, value = make_vjp(lambda x: x * x, 3.0)
    >>> float(pullback(1.0)), float(value)
    (6.0, 9.0)
    """
    return _operators.make_vjp(fun)(x)


def make_jvp(fun: Callable[..., Any], x: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The function `v -> (value, Jacobian times v)` of a function of one argument at x.

    >>> [float(v) for v in make_jvp(lambda x: x * x, 3.0)(1.0)]
    [9.0, 6.0]
    """
    return _operators.make_jvp(fun)(x)
