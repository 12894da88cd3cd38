"""What the special functions' primitives have in common: the door to scipy.special, and how a rule is refused.

Values come from `scipy.special` (from `cupyx.scipy.special` on CuPy arrays), imported at the first use. float16 is computed in
float32 and rounded back; what is computed here rather than there is computed in float64 and rounded (`in_double`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.ir.primitive import Primitive
from funcad.memo import remembers
from funcad.primitives.arithmetic import div
from funcad.primitives.comparison import and_, eq, select
from funcad.primitives.families import elementwise


def special_of(xp: Any) -> Any:
    """The one door: scipy.special for numpy, cupyx.scipy.special for cupy, what another library says is beside it."""
    if hasattr(xp, "companion"):
        return xp.companion("special")
    return importlib.import_module("scipy.special" if xp is np else "cupyx.scipy.special")


def ufunc_behind(function: Any) -> Any:
    """The ufunc of a function that SciPy puts before it with SCIPY_ARRAY_API=1; other functions are left alone."""
    inner = getattr(function, "__wrapped__", None)
    return inner if type(inner) is np.ufunc else function


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
