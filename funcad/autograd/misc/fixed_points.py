"""Fixed points, differentiable by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.autograd.extend import defvjp, primitive
from funcad.configuration import OnDemand
from funcad.ir.aval import aval_of

loop = OnDemand("funcad.control.while_loop")
pullbacks = OnDemand("funcad.api.vjp")

__all__ = ["fixed_point"]


@primitive
def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Callable[[Any, Any], Any], tol: float
) -> Any:
    """The x with f(a)(x) = x, by iteration from x0 until distance(x, x_before) <= tol; differentiable in a.

    The derivative is the fixed point of the linearized iteration: no iteration is differentiated. f(a) is traced once, so it
    must not branch on values.

    >>> from funcad.autograd import grad
    >>> newton = lambda a: lambda x: 0.5 * (x + a / x)
    >>> round(float(grad(lambda a: fixed_point(newton, a, 1.0, lambda x, y: abs(x - y), 1e-12))(4.0)), 6)
    0.25
    """
    step = f(a)
    # x0 may be of another dtype (a Python number, say): the first step decides
    start = step(x0)
    steps = loop.while_loop(lambda pair: distance(*pair) > tol, lambda pair: (step(pair[0]), pair[0]), (start, x0))
    return steps[0]


def _vjp(ans: Any, f: Any, a: Any, x0: Any, distance: Any, tol: float) -> Callable[[Any], Any]:
    def rev_iter(params: Any) -> Callable[[Any], Any]:
        a, x_star, x_star_bar = params
        pullback = pullbacks.vjp(f(a), x_star)[1]
        return lambda g: tree.map(lambda u, v: u + v, pullback(g)[0], x_star_bar)

    pullback = pullbacks.vjp(lambda a: f(a)(ans), a)[1]
    zeros = tree.map(lambda x: np.zeros(aval_of(x).shape, aval_of(x).dtype), ans)
    return lambda g: pullback(fixed_point(rev_iter, (a, ans, g), zeros, distance, tol))[0]


defvjp(fixed_point, None, _vjp, None)
