"""`funm_sym`: a function of a Hermitian matrix, differentiable at equal eigenvalues.

The public name is `funcad.scipy.linalg.funm_sym`. Trap: the function may not close over values that are being traced,
because its derivatives are taken when a rule runs, outside the trace that these values belong to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.host.user_warnings import restore_warnings, suppress_warnings
from funcad.ir.aval import Aval, dtype_of, shape_of
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.numpy.axes import array_of
from funcad.primitives.conversion import convert
from funcad.primitives.linear_systems import square_aval
from funcad.primitives.matrix_function import symmetric_function
from funcad.primitives.shape import full
from funcad.unjitted.following import follow

__all__ = ["funm_sym"]


class _Derivatives:
    """f and all its derivatives, element by element; equal if made of the same functions."""

    __slots__ = ("func", "dfunc")

    def __init__(self, func: Callable[..., Any], dfunc: Callable[..., Any] | None):
        self.func = func
        self.dfunc = dfunc

    def __eq__(self, other: object) -> bool:
        return type(other) is _Derivatives and (self.func, self.dfunc) == (other.func, other.dfunc)

    def __hash__(self) -> int:
        return hash((self.func, self.dfunc))

    def __repr__(self) -> str:
        return getattr(self.func, "__name__", repr(self.func))

    def __call__(self, order: int, x: Any) -> Any:
        if not order:
            return self.func(x)
        if order == 1 and self.dfunc is not None:
            return self.dfunc(x)
        ones = full(Aval(shape_of(x), dtype_of(x)), 1)
        token = suppress_warnings()
        try:
            (out,), (t,) = follow(lambda y: [self(order - 1, y)], [x], [ones])
        finally:
            restore_warnings(token)
        return full(Aval(shape_of(out), dtype_of(out)), 0) if t is None else t


def _check(f: Callable[..., Any], argument: str, dtype: np.dtype) -> None:
    jaxpr, captured = trace_function(lambda x: [f(x)], [Aval((2,), dtype)], name=f"funm_sym: {argument}")
    if any(type(c) is Tracer for c in captured):
        raise TypeError(
            f"funm_sym: {argument} uses a value that is being traced, whose derivative would be lost.\n"
            "Let the matrix carry it (exp(c * x) of a is exp of c * a), or take funcad.stop_gradient of the value."
        )
    shape = jaxpr.out_avals[0].shape
    if shape != (2,):
        raise ValueError(f"funm_sym: {argument} must act element by element; for an argument of shape (2,) it gave {shape}")


def funm_sym(a: Any, func: Callable[..., Any], dfunc: Callable[..., Any] | None = None) -> Any:
    """The function `func` of Hermitian matrices: v diag(func(w)) v^H, with the eigenvalues w and eigenvectors v of a.

    a: shape (..., n, n), of which the lower triangle is read; the result has a's shape. `func` acts element by element on
    real arrays (np.exp, np.log, lambda x: x**0.5 ...); `dfunc` is its derivative, taken by funcad if not given. Derivatives
    of every order are right and finite wherever func is smooth, at equal eigenvalues too: use it in place of eigenvectors,
    which have none there. Gradients are Hermitian, as those of `numpy.linalg.eigh`. `func` must not use values that
    are being traced. Neither SciPy nor JAX has it; `scipy.linalg.funm` is for general matrices.

    >>> import numpy as np, funcad
    >>> from funcad.numpy.funm import funm_sym
    >>> np.round(funcad.grad(lambda a: np.trace(funm_sym(a, np.sqrt)))(4 * np.eye(2)), 6)
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """
    a = array_of(a)
    if dtype_of(a).kind not in "fc":
        a = convert(a, np.dtype(np.float64))
    square_aval("funm_sym", Aval(shape_of(a), dtype_of(a)))
    dtype = np.dtype(np.float32) if dtype_of(a).itemsize == (8 if dtype_of(a).kind == "c" else 4) else np.dtype(np.float64)
    _check(func, "func", dtype)
    if dfunc is not None:
        _check(dfunc, "dfunc", dtype)
    return symmetric_function(a, _Derivatives(func, dfunc))
