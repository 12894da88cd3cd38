"""`scipy.linalg.lapack`: the solvers of band systems, for which programs call LAPACK itself.

Idea: `?gtsv`, `?ptsv`, `?gbsv` and `?pbsv` give the solution beside the factors that have replaced the matrix. Traced, the
solution is that of `banded_solve`, with its derivatives; factors and pivots are not there: to use one raises. Traps: a matrix
that cannot be factored raises LinAlgError where LAPACK would give `info`; nothing is overwritten.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.dispatch import where_am_i
from funcad.numpy.promote import array_of, promote_dtype
from funcad.primitives.linear_systems import banded_solve, hermitian_band
from funcad.primitives.placement import capture_as_inputs
from funcad.primitives.shape import concatenate, pad, reshape, static_slice
from funcad.scipy.door import implements, scipy_function
from funcad.scipy.linalg.matrix_operands import as_given, conjugated, inexact, system

_DTYPES = {"s": np.dtype("f"), "d": np.dtype("d"), "c": np.dtype("F"), "z": np.dtype("D")}


class _NotThere:
    """Stands for a factor that a traced call does not give."""

    def __init__(self, name: str):
        self._name = name

    def _use(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"scipy.linalg.lapack.{self._name} gave no factors{where_am_i()}: of traced values only the solution is there.\n"
            "Remedy: scipy.linalg.lu, cholesky or cholesky_banded give factors with derivatives."
        )

    __array__ = __getitem__ = __iter__ = __len__ = __bool__ = __float__ = _use
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __neg__ = __matmul__ = _use

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._use()


def _beside(x: Any, left: int, right: int) -> Any:
    """A diagonal as a row of a band matrix."""
    row = pad(x, low=(left,), high=(right,))
    return reshape(row, shape=(1, *shape_of(row)))


def _three(upper: Any, on: Any, lower: Any) -> Any:
    n = shape_of(on)[0]
    parts = [static_slice(x, 0, n - 1) if shape_of(x)[0] >= n else x for x in (upper, lower)]  # LAPACK reads no more
    return concatenate([_beside(parts[0], 1, 0), _beside(on, 0, 0), _beside(parts[1], 0, 1)], axis=0)


def _gtsv(dl: Any, d: Any, du: Any, b: Any) -> Any:
    return _three(du, d, dl), b, 1, 1, False


def _ptsv(d: Any, e: Any, b: Any) -> Any:
    return _three(conjugated(e), d, e), b, 1, 1, True


def _gbsv(kl: Any, ku: Any, ab: Any, b: Any) -> Any:
    kl, ku = int(kl), int(ku)
    return static_slice(ab, kl, 2 * kl + ku + 1), b, kl, ku, False


def _pbsv(ab: Any, b: Any, lower: Any = 0) -> Any:
    width = shape_of(ab)[0] - 1
    return hermitian_band(ab, bool(lower)), b, width, width, True


_SOLVERS: dict[str, tuple[Callable[..., Any], int]] = {  # and how many factors they give
    **{"gtsv": (_gtsv, 3), "ptsv": (_ptsv, 2), "gbsv": (_gbsv, 2), "pbsv": (_pbsv, 1)},
}


def _solver(prefix: str, kind: str) -> Callable[..., Any]:
    name, dtype = prefix + kind, _DTYPES[prefix]
    system_of, factors = _SOLVERS[kind]
    names = tuple(inspect.signature(system_of).parameters)

    def solver(*args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args)), **{k: v for k, v in kwargs.items() if k in names}}
        arrays = {k: array_of(v) for k, v in given.items() if k not in ("kl", "ku", "lower")}
        taken = promote_dtype(capture_as_inputs([*arrays.values()], [*arrays.values()]), dtype)
        ab, b, lower, upper, positive = system_of(**{**given, **dict(zip(arrays, taken))})
        ab, b, vector = system(name, ab, b)
        x = as_given(banded_solve(ab, b, lower=lower, upper=upper, positive=positive), vector)
        return (*[_NotThere(name) for _ in range(factors)], x, 0)

    solver.__name__ = solver.__qualname__ = name
    solver.__doc__ = f"`scipy.linalg.lapack.{name}`; traced, only the solution is there, and `info`, which is 0."
    solver.typecode, solver.dtype = prefix, dtype  # type: ignore[attr-defined]
    public: Callable[..., Any] = implements(f"linalg.lapack.{name}")(solver)
    return public


globals().update({prefix + kind: _solver(prefix, kind) for prefix in _DTYPES for kind in _SOLVERS})


def get_lapack_funcs(names: Any, arrays: Any = (), dtype: Any = None, ilp64: Any = False) -> Any:
    """`scipy.linalg.get_lapack_funcs` with the same arguments, results and errors; solvers of this module take traced values.

    >>> import numpy as np, funcad
    >>> (gtsv,) = funcad.scipy.linalg.get_lapack_funcs(["gtsv"], (np.ones(3),))
    >>> funcad.grad(lambda on: np.sum(gtsv(np.zeros(2), on, np.zeros(2), np.ones((3, 1)))[3]))(np.array([1.0, 2.0, 4.0]))
    array([-1.    , -0.25  , -0.0625])
    """
    dtype = dtype_of(inexact(*arrays)[0]) if len(arrays) else dtype
    found = scipy_function("linalg.get_lapack_funcs")(names, (), dtype, ilp64)
    one = isinstance(names, str)
    functions = [globals().get(f.typecode + n, f) for n, f in zip([names] if one else names, [found] if one else found)]
    return functions[0] if one else functions
