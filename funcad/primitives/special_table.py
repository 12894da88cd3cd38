"""Special functions by tables: one primitive whose values are SciPy's, one for derivatives that only numerics know.

`TABLE[name, which]` holds a partial derivative per argument of the output `which` of scipy.special's function `name`, as a
function of the output and the arguments; None where it is zero, a text where none is known. Families fill it, one statement per
function. `numeric` binds the other primitive: `KERNELS[name]` gives any mixed partial derivative of that function, whose orders
by the arguments are a parameter, so that its own rules are more of itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial, pi
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.memo import remembers
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.families import elementwise
from funcad.primitives.special_rules import function_of, in_double, missing

TABLE: dict[tuple[str, int], tuple] = {}
KERNELS: dict[str, Callable[..., Any]] = {}
COUNTS: dict[str, tuple[int, ...]] = {}


@remembers()
def _counts(name: str) -> frozenset[int]:
    """The arguments that are integers in some loop of SciPy's."""
    loops = [loop.partition("->")[0] for loop in function_of(np, name).types]
    return frozenset([i for loop in loops for i, letter in enumerate(loop) if letter == "l"])


def _whole_numbers(xp: Any, a: Any) -> Any:
    a = xp.asarray(a)
    return a.astype(np.int64) if (xp.isfinite(a) & (a == xp.floor(a))).all() else a


def _tabled_impl(xp: Any, *args: Any, name: str, which: int, whole: int) -> Any:
    function = function_of(xp, name)
    dtype = next((a.dtype for a in args if hasattr(a, "dtype")), np.dtype(np.float64))
    # SciPy has loops of its own for counts that are integers, and warns of some that are given as floats
    counted = range(whole) if name.startswith("eval_") else _counts(name)
    args = tuple([_whole_numbers(xp, a) if i in counted else a for i, a in enumerate(args)])
    out = function(*args)
    return (out[which] if type(out) is tuple else out).astype(dtype)


def _tabled_jvp(tangents: Any, out: Any, *primals: Any, name: str, which: int, whole: int) -> Any:
    total = None
    for position, (t, partial) in enumerate(zip(tangents, TABLE[name, which])):
        if t is None or partial is None or position < whole:
            continue
        if type(partial) is str:
            missing(name, partial)(t, out)
        term = mul(partial(out, *primals, **({"whole": whole} if whole else {})), t)
        total = term if total is None else add(total, term)
    return total


tabled_p = elementwise("special_function", _tabled_impl, _tabled_jvp)


def partials(name: str, *by_argument: Any, which: int = 0) -> Callable[..., Any]:
    """Enter a function's partial derivatives; gives the function itself.

    Of its arguments the first `whole` are integers, given as floats.
    """
    TABLE[name, which] = by_argument
    return lambda *args, whole=0: tabled_p(*args, name=name, which=which, whole=whole)


def several(name: str, *outputs: tuple) -> tuple[Callable[..., Any], ...]:
    """As `partials`, for a function of several results: a tuple of partial derivatives for each."""
    return tuple([partials(name, *rules, which=which) for which, rules in enumerate(outputs)])


def _numeric_jvp(tangents: Any, out: Any, *primals: Any, name: str, orders: tuple) -> Any:
    total = None
    for position, t in enumerate(tangents):
        if t is None or position in COUNTS[name]:
            continue
        if sum(orders) > 1:
            raise MissingRuleError(
                f"{name} has derivatives up to the second where one of its parameters takes part, this one is the third.\n"
                "Remedy: differentiate once less, or take funcad.stop_gradient of the parameter."
            )
        more = tuple([n + (i == position) for i, n in enumerate(orders)])
        term = mul(numeric_p(*primals, name=name, orders=more), t)
        total = term if total is None else add(total, term)
    return total


numeric_p = elementwise(
    "special_derivative", in_double(lambda xp, *args, name, orders: KERNELS[name](xp, *args, orders=orders)), _numeric_jvp
)


def numeric(name: str, *args: Any, orders: tuple) -> Any:
    return numeric_p(*args, name=name, orders=orders)


def by(name: str, position: int, count: int) -> Callable[..., Any]:
    """The partial derivative by one of `count` arguments, from `KERNELS[name]`."""
    orders = tuple([int(i == position) for i in range(count)])
    return lambda out, *args: numeric(name, *args, orders=orders)


def kernel(name: str, counts: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Decorate `(xp, *vectors, orders)`, which computes a mixed partial derivative of the function of that name.

    `counts`: the positions of arguments that are integers, whatever their dtype, and have no derivative.
    """

    def enter(f: Callable[..., Any]) -> Callable[..., Any]:
        KERNELS[name], COUNTS[name] = f, counts
        return f

    return enter


def circle(f: Callable[..., Any], args: Any, orders: Any, radii: Any, points: int = 32) -> Any:
    """A mixed derivative of a function that is analytic in complex arguments, by Cauchy's integral over a circle for each.

    The trapezoidal rule is exact but for terms beyond `points`; nothing is subtracted that is nearly equal, as differences do.
    """
    turning = [i for i, n in enumerate(orders) if n]
    if not turning:
        return f(*args).real
    total = 0.0
    angles = np.exp(2j * pi * (np.arange(points) + 0.5) / points)
    for place in np.ndindex(*[points] * len(turning)):
        if place[0] >= points // 2:  # the other half has conjugate values
            continue
        moved, weight = list(args), 2.0
        for i, j in zip(turning, place):
            moved[i] = args[i] + radii[i] * angles[j]
            weight = weight * factorial(orders[i]) / points * angles[j] ** -orders[i] / radii[i] ** orders[i]
        total = total + (weight * f(*moved)).real
    return total
