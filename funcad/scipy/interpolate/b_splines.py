"""B-splines by their knots and coefficients: `BSpline`, `splrep`, `splev`, `splint`, `UnivariateSpline`, `make_lsq_spline`.

Idea: with known knots everything is linear: SciPy's own coefficients of the unit vectors, times the data, are the coefficients,
and these, times SciPy's own polynomials of the unit coefficients, the polynomials between the knots (`Piecewise`). Smoothing
splines choose their knots by the data, and jump: they are refused where the data are traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.aval import shape_of
from funcad.numpy.axes import array_of, axis_of, move
from funcad.numpy.dispatch import is_traced
from funcad.primitives.shape import reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import scipy_function
from funcad.scipy.interpolate.original import inside
from funcad.scipy.interpolate.splines import Piecewise, Spline, checked, double, known, linear
from funcad.show.docstrings import mirrors

__all__ = ["BSpline", "InterpolatedUnivariateSpline", "LSQUnivariateSpline", "UnivariateSpline"]
__all__ += ["make_lsq_spline", "splev", "splint", "splrep"]


def _pieces_of(t: Any, c: Any, k: int, axis: int = 0, extrapolate: Any = True) -> Piecewise:
    """The polynomials between the inner knots; c has the coefficients along its first axis."""
    t = known(t, "splines")
    n = len(t) - k - 1
    units = np.eye(n)
    convert = scipy_function("interpolate.PPoly").from_spline
    inner = slice(k, n)
    matrix = np.stack([convert((t, unit, k)).c[:, inner] for unit in units], axis=-1)
    return Piecewise(constant(t[k : n + 1], c), linear(matrix, c[:n]), axis, extrapolate)


class BSpline(Spline):
    """`scipy.interpolate.BSpline`, differentiable in the coefficients c and the points of evaluation; the knots t are known.

    >>> import numpy as np, funcad
    >>> hat = lambda c: funcad.scipy.interpolate.BSpline(np.arange(5.0), c, 1)(1.25)
    >>> funcad.grad(hat)(np.ones(3))
    array([0.75, 0.25, 0.  ])
    """

    _name = "BSpline"

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0):
        super().__init__(t, c, k, extrapolate, axis)
        self._data = (t, double(c), k, axis, extrapolate)

    def _pieces(self) -> Piecewise:
        t, c, k, axis, extrapolate = self._data
        axis = axis_of(axis, len(shape_of(c)))
        return _pieces_of(t, move(c, axis, 0), k, axis, extrapolate)


def _of_units(fit: Callable[[np.ndarray], Any], n: int) -> tuple[np.ndarray, np.ndarray, int]:
    """(knots, the coefficients of the unit vectors as columns, degree) of a spline whose knots do not depend on the data."""
    found = [fit(unit) for unit in np.eye(n)]
    t, _, k = found[0]
    return t, np.stack([c[: len(t) - k - 1] for _, c, _ in found], axis=1), k


def _interpolating(s: Any, w: Any, name: str) -> None:
    if s is None and w is None and name == "splrep":
        return
    if s is None or is_traced((s,)) or s != 0:
        raise NotImplementedError(
            f"{name} with smoothing chooses its knots by the data and jumps as they change: no derivative in traced ones."
            "\nRemedy: s=0, or known knots: splrep(..., t=), LSQUnivariateSpline, make_lsq_spline."
        )


def splrep(
    x: Any, y: Any, w: Any = None, xb: Any = None, xe: Any = None, k: int = 3, task: int = 0, s: Any = None, t: Any = None,
    full_output: int = 0, per: int = 0, quiet: int = 1,
) -> Any:  # fmt: skip
    """`scipy.interpolate.splrep`: (knots, coefficients, degree), the coefficients differentiable in y; x, w and t are known.

    With traced y: interpolating (s=0) or with known knots (t); smoothing raises NotImplementedError.

    >>> import numpy as np, funcad
    >>> x = np.linspace(0.0, 1.0, 5)
    >>> f = lambda y: funcad.scipy.interpolate.splev(0.5, funcad.scipy.interpolate.splrep(x, y))
    >>> funcad.grad(f)(x**2).round(6) + 0.0
    array([0., 0., 1., 0., 0.])
    """
    original = scipy_function("interpolate.splrep")
    if not is_traced((x, y, w, t, s)):
        return original(x, y, w, xb, xe, k, task, s, t, full_output, per, quiet)
    if full_output or per:
        raise NotImplementedError("splrep supports neither full_output nor per with traced values; see make_interp_spline")
    if t is None:
        _interpolating(s, w, "splrep")
    x, y, _ = checked(x, y, 0)
    x, w, t = known(x, "splrep"), None if w is None else known(w, "splrep: w"), None if t is None else known(t, "splrep: t")
    fit = lambda unit: original(x, unit, w, xb, xe, k, task, 0 if t is None else s, t)
    knots, matrix, k = _of_units(fit, len(x))
    c = np.matmul(constant(matrix, y), y)
    return knots, np.concatenate([c, np.zeros(k + 1)]), k


def _beyond(piecewise: Piecewise, x: Any, ext: Any, der: int, name: str) -> Any:
    """What FITPACK gives outside of the knots: 0 the polynomials, 1 zeros, 2 an error, 3 the value at the end."""
    low, high = piecewise.x[0], piecewise.x[-1]
    code = {"extrapolate": 0, "zeros": 1, "raise": 2, "const": 3}.get(ext, ext)
    x = double(x)
    if code == 2:
        inside(x, low, high, name, "a point is below the knots", "a point is above the knots")
    at = np.minimum(np.maximum(x, low), high) if code == 3 else x
    out = piecewise(at, der)
    return np.where(np.logical_or(x < low, x > high), 0.0, out) if code == 1 or code == 3 and der else out


def splev(x: Any, tck: Any, der: int = 0, ext: int = 0) -> Any:
    """`scipy.interpolate.splev`: a spline or its derivative at x; differentiable in x and the coefficients.

    >>> import numpy as np, funcad
    >>> hat = (np.arange(5.0), np.array([0.0, 1.0, 0.0, 0.0, 0.0]), 1)
    >>> funcad.grad(lambda x: funcad.scipy.interpolate.splev(x, hat))(1.25)
    np.float64(1.0)
    """
    tck = (tck.t, tck.c, tck.k) if hasattr(tck, "tck") else tck
    if not is_traced((x, *tck)):
        return scipy_function("interpolate.splev")(x, tck, der, ext)
    t, c, k = tck
    if isinstance(c, (list, tuple)):  # a curve: one spline for each coordinate
        return [splev(x, (t, one, k), der, ext) for one in c]
    return _beyond(_pieces_of(t, double(c), k), x, ext, der, "splev")


def splint(a: Any, b: Any, tck: Any, full_output: int = 0) -> Any:
    """`scipy.interpolate.splint`: the integral of a spline from a to b, which is 0 outside of its knots.

    >>> import numpy as np, funcad
    >>> hat = (np.arange(5.0), np.array([0.0, 1.0, 0.0, 0.0, 0.0]), 1)
    >>> funcad.grad(lambda b: funcad.scipy.interpolate.splint(1.0, b, hat))(2.25)
    np.float64(0.75)
    """
    if not is_traced((a, b, *tck)):
        return scipy_function("interpolate.splint")(a, b, tck, full_output)
    if full_output:
        raise NotImplementedError("splint does not support full_output with traced values")
    t, c, k = tck
    total = _pieces_of(t, double(c), k).antiderivative()
    low, high = total.x[0], total.x[-1]
    end = lambda v: total(np.minimum(np.maximum(double(v), low), high))
    return end(b) - end(a)


class UnivariateSpline(Spline):
    """`scipy.interpolate.UnivariateSpline`, differentiable in y and the points of evaluation; x and w are known.

    With traced y: s=0 (through all points); smoothing raises NotImplementedError. `derivative`, `antiderivative` and
    `integral` of traced values give objects and numbers that are differentiable too.

    >>> import numpy as np, funcad
    >>> x = np.linspace(0.0, 1.0, 6)
    >>> slope = funcad.grad(funcad.scipy.interpolate.UnivariateSpline(x, x**3, s=0))(0.5)
    >>> bool(np.isclose(slope, 0.75))
    True
    """

    _name = "UnivariateSpline"

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, s: Any = None, ext: Any = 0,
        check_finite: bool = False,
    ):  # fmt: skip
        super().__init__(x, y, w, list(bbox), k, s, ext, check_finite)
        if self._holds_traced:
            _interpolating(s, w, "UnivariateSpline")
        self._prepare(x, y, ext, w, list(bbox), k, s)

    @classmethod
    def of(cls, original: Any) -> UnivariateSpline:
        """That of an object of SciPy's, which is made of known values."""
        own = cls.__new__(cls)
        own._given, own._holds_traced, own._made, own._ext = ((), {}), False, original, original.ext
        return own

    def _prepare(self, x: Any, y: Any, ext: Any, *options: Any) -> None:
        self._xy, self._ext, self._options = (x, y), ext, options

    def _pieces(self) -> Piecewise:
        if not self._holds_traced:
            return _pieces_of(*self._original()._eval_args)
        x, y, _ = checked(*self._xy, 0)
        nodes = known(x, self._name)
        fit = lambda unit: scipy_function(f"interpolate.{self._name}")(nodes, unit, *self._options)._eval_args
        t, matrix, k = _of_units(fit, len(nodes))
        return _pieces_of(t, np.matmul(constant(matrix, y), y), k)

    def __call__(self, x: Any, nu: int = 0, ext: Any = None) -> Any:
        ext = self._ext if ext is None else ext
        if self._plainly(x):
            return self._original()(x, nu, ext)
        return _beyond(self._form(), x, ext, nu, self._name)

    def integral(self, a: Any, b: Any) -> Any:
        """The integral from a to b of the spline, which is 0 outside of its knots."""
        if self._plainly(a, b):
            return self._original().integral(a, b)
        total = self._form().antiderivative()
        end = lambda v: total(np.minimum(np.maximum(double(v), total.x[0]), total.x[-1]))
        return end(b) - end(a)


class InterpolatedUnivariateSpline(UnivariateSpline):
    """`scipy.interpolate.InterpolatedUnivariateSpline`: `UnivariateSpline` with s=0."""

    _name = "InterpolatedUnivariateSpline"

    def __init__(
        self, x: Any, y: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0, check_finite: bool = False
    ):
        Spline.__init__(self, x, y, w, list(bbox), k, ext, check_finite)
        self._prepare(x, y, ext, w, list(bbox), k)


class LSQUnivariateSpline(UnivariateSpline):
    """`scipy.interpolate.LSQUnivariateSpline`: the least squares of a spline with known inner knots t."""

    _name = "LSQUnivariateSpline"

    def __init__(
        self, x: Any, y: Any, t: Any, w: Any = None, bbox: Any = (None, None), k: int = 3, ext: Any = 0,
        check_finite: bool = False,
    ):  # fmt: skip
        Spline.__init__(self, x, y, t, w, list(bbox), k, ext, check_finite)
        self._prepare(x, y, ext, t, w, list(bbox), k)


class _LeastSquaresSpline(Spline):
    """What `make_lsq_spline` gives."""

    _name = "make_lsq_spline"

    def __init__(self, x: Any, y: Any, t: Any, k: int, w: Any, axis: int, **options: Any):
        super().__init__(x, y, t, k, w, axis, **options)
        self._data, self._options = checked(x, y, axis), (t, k, w)

    def _pieces(self) -> Piecewise:
        x, y, axis = self._data
        nodes, (t, k, w) = known(x, "make_lsq_spline"), self._options
        c = scipy_function("interpolate.make_lsq_spline")(nodes, np.eye(len(nodes)), t, k, w).c
        flat = np.matmul(constant(c, y), reshape(y, shape=(len(nodes), int(np.prod(shape_of(y)[1:])))))
        return _pieces_of(t, reshape(flat, shape=(len(c), *shape_of(y)[1:])), k, axis)


def make_lsq_spline(
    x: Any, y: Any, t: Any, k: int = 3, w: Any = None, axis: int = 0, check_finite: bool = True, **options: Any
) -> Any:
    """`scipy.interpolate.make_lsq_spline`: the least squares of a B-spline with known knots t, differentiable in y.

    >>> import numpy as np, funcad
    >>> x, t = np.linspace(0.0, 1.0, 9), np.array([0.0, 0.0, 0.5, 1.0, 1.0])
    >>> round(float(np.sum(funcad.grad(lambda y: funcad.scipy.interpolate.make_lsq_spline(x, y, t, 1)(0.3))(x))), 6)
    1.0
    """
    return _LeastSquaresSpline(array_of(x), y, t, k, w, axis, check_finite=check_finite, **options)


mirrors(
    [BSpline, InterpolatedUnivariateSpline, LSQUnivariateSpline, UnivariateSpline, make_lsq_spline, splev, splint, splrep],
    "scipy.interpolate",
)
