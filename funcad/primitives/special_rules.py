"""What the special functions' primitives have in common: the door to scipy.special, how a rule is refused, and the tables.

Values come from `scipy.special` (from `cupyx.scipy.special` on CuPy arrays), imported at the first use. float16 is computed in
float32 and rounded back; what is computed here rather than there is computed in float64 and rounded (`in_double`).

By tables: one primitive whose values are SciPy's, one for derivatives that only numerics know. `TABLE[name, which]` holds a
partial derivative per argument of the output `which` of scipy.special's function `name`, as a function of the output and the
arguments; None where it is zero, a text where none is known. Families fill it, one statement per function. `numeric` binds the
other primitive: `KERNELS[name]` gives any mixed partial derivative of that function, whose orders by the arguments are a
parameter, so that its own rules are more of itself.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from math import factorial, pi
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.host.real_types import ufunc_behind
from funcad.ir.primitive import Primitive
from funcad.memo import remembers
from funcad.primitives.arithmetic import add, div, mul
from funcad.primitives.comparison import and_, eq, select
from funcad.primitives.families import elementwise


def special_of(xp: Any) -> Any:
    """The one door: scipy.special for numpy, cupyx.scipy.special for cupy, what another library says is beside it."""
    if xp is np:
        return sys.modules.get("scipy.special") or importlib.import_module("scipy.special")
    return xp.companion("special") if hasattr(xp, "companion") else importlib.import_module("cupyx.scipy.special")


def function_of(xp: Any, name: str) -> Any:
    found = ufunc_behind(getattr(special_of(xp), name, None))
    if found is None and xp is np:
        raise NotImplementedError(f"scipy.special.{name}: this SciPy has no such function.\nRemedy: a newer SciPy has it.")
    if found is None:
        raise NotImplementedError(
            f"{name}: cupyx.scipy.special has no such function.\n"
            f"Remedy: compute it on the CPU: funcad.device_get(x), then funcad.device_put of the result."
        )
    return found


def scipy_impl(name: str, which: int | None = None, device: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The value of scipy.special's function (of several, the one at the position `which`).

    `device(xp, theirs, *args)` computes it where CuPy's function differs, see placement.py.
    """

    def impl(xp: Any, *args: Any) -> Any:
        function = function_of(xp, name)
        out = function(*args) if xp is np or device is None else device(xp, function, *args)
        out = out if which is None else out[which]
        for a in args:
            if getattr(a, "dtype", None) == np.float16:
                return out.astype(np.float16)
        return out

    return impl


def ufunc(
    name: str,
    *jvp: Any,
    transpose: Any = None,
    of: str | None = None,
    which: int | None = None,
    device: Any = None,
    emit: Callable[..., Any] | None = None,
) -> Primitive:
    """scipy.special's function of that name (or of the name `of`), with a rule per operand; with `emit`, it is an atom."""
    return elementwise(name, scipy_impl(of or name, which, device), jvp, transpose=transpose, emit=emit)


def missing(name: str, argument: str) -> Callable[..., Any]:
    """The rule of an argument in which no derivative is known."""

    def rule(t: Any, out: Any, *args: Any, **params: Any) -> Any:
        raise MissingRuleError(
            f"{name} has no derivative with respect to its argument {argument} (there is no closed form).\n"
            f"Remedy: take funcad.stop_gradient({argument}), or give the function that uses it a rule with funcad.custom_jvp."
        )

    return rule


def rising(a: Any, k: int) -> Any:
    out: Any = 1.0
    for i in range(k):
        out = out * (a + i)
    return out


def in_double(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`impl` from a kernel of equal float64 vectors; the result has the operands' dtype."""

    def impl(xp: Any, *args: Any, **params: Any) -> Any:
        dtype = next((a.dtype for a in args if hasattr(a, "dtype")), np.dtype(np.float64))
        arrays = xp.broadcast_arrays(*[xp.asarray(a, dtype=np.float64) for a in args])
        with np.errstate(all="ignore"):
            out = kernel(xp, *[a.reshape(-1) for a in arrays], **params).reshape(arrays[0].shape).astype(dtype)
        return out[()] if xp is np and not out.ndim else out

    return impl


def numerical(name: str, kernel: Callable[..., Any], *jvp: Any) -> Primitive:
    """A function that scipy.special does not have, computed by a kernel of float64 vectors."""
    return elementwise(name, in_double(kernel), jvp)


@remembers()
def gauss(count: int) -> tuple[list, list]:
    """Gauss-Legendre points and weights on (0, 1)."""
    points, weights = np.polynomial.legendre.leggauss(count)
    return ((points + 1) / 2).tolist(), (weights / 2).tolist()


TINY = 1e-60


def bend(score: Any) -> Any:
    """f'' / f from f' / f at a real place with TINY for an imaginary part: exact to rounding, as nothing is subtracted."""
    return score.real * score.real + score.imag / TINY


def ratio(x: Any, y: Any) -> Any:
    """x / y, 0 for 0 / 0."""
    return div(x, select(and_(eq(x, 0.0), eq(y, 0.0)), 1.0, y))


# -- functions by tables

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
