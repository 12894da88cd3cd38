"""Interpolation between neighbours: on regular grids of any rank, and along one axis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.vmap import vmap
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.axes import array_of, axis_of, move
from funcad.numpy.fft import floating
from funcad.numpy.indexing import getitem
from funcad.primitives.conversion import convert
from funcad.primitives.shape import reshape
from funcad.scipy.interpolate.original import Interpolator, inside
from funcad.scipy.interpolate.splines import PchipInterpolator, make_interp_spline
from funcad.show.docstrings import mirrors

__all__ = ["RegularGridInterpolator", "interpn", "interp1d"]


class RegularGridInterpolator(Interpolator):
    """`scipy.interpolate.RegularGridInterpolator`, all methods.

    Differentiable in the values, in the points of evaluation, and, but for "slinear", "cubic" and "quintic", in the grid's
    points, which must increase or decrease. With
    bounds_error=True (SciPy's default; JAX's is False) points of evaluation without a value, inside jit and vmap, are refused.

    >>> import numpy as np, funcad
    >>> f = funcad.scipy.interpolate.RegularGridInterpolator((np.arange(3.0),), np.array([0.0, 1.0, 4.0]))
    >>> funcad.grad(lambda x: f(np.stack([x]))[0])(1.5)
    np.float64(3.0)
    """

    _name = "RegularGridInterpolator"

    def __init__(
        self,
        points: Any,
        values: Any,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: Any = np.nan,
        **solver: Any,
    ):
        super().__init__(points, values, method, bounds_error, fill_value, **solver)
        self._options = (method, bounds_error, fill_value)
        self._points = [array_of(p) for p in points]
        self._values = floating(values)
        if len(self._points) > len(shape_of(self._values)):
            raise ValueError(
                f"There are {len(self._points)} point arrays, but `values` has {len(shape_of(self._values))} dimensions"
            )
        for i, p in enumerate(self._points):
            if len(shape_of(p)) != 1:
                raise ValueError(f"The points in dimension {i} must be 1-dimensional")
            if shape_of(p)[0] != shape_of(self._values)[i]:
                raise ValueError(f"There are {shape_of(p)[0]} points and {shape_of(self._values)[i]} values in dimension {i}")

    def __call__(self, xi: Any, method: Any = None, *, nu: Any = None) -> Any:
        if self._plainly(xi):
            return self._original()(xi, method, nu=nu)
        own_method, bounds_error, fill_value = self._options
        method = own_method if method is None else method
        if method not in ("linear", "nearest", "pchip", *_DEGREES):
            raise ValueError(f"Method {method!r} is not defined")
        if nu is not None and method not in _DEGREES:
            raise ValueError(f"Can only compute derivatives for methods ['slinear', 'cubic', 'quintic'], got {method!r}.")
        if isinstance(xi, (tuple, list)):
            xi = np.stack(np.broadcast_arrays(*[array_of(x) for x in xi]), axis=-1) if isinstance(xi, tuple) else array_of(xi)
        xi = _double(xi)
        rank = len(self._points)
        xi = reshape(xi, shape=(*shape_of(xi), 1)) if len(shape_of(xi)) == 1 and rank == 1 else xi
        if not shape_of(xi) or shape_of(xi)[-1] != rank:
            raise ValueError(f"The requested sample points xi have dimension {shape_of(xi)[-1:]} but this has dimension {rank}")
        return self._evaluated(xi, method, bounds_error, fill_value, [0] * rank if nu is None else list(nu))

    def _smooth(self, xi: Any, method: str, nu: list[int]) -> Any:
        """One dimension after the other, from the last, as SciPy."""

        def at(x: Any) -> Any:
            values = self._values
            for axis in reversed(range(len(self._points))):
                nodes, values = _ascending(self._points[axis], values, axis)
                if method == "pchip":
                    values = PchipInterpolator(nodes, values, axis)(x[axis])
                else:
                    values = make_interp_spline(nodes, values, _DEGREES[method], axis=axis)(x[axis], nu[axis])
            return values

        rows = reshape(xi, shape=(int(np.prod(shape_of(xi)[:-1])), shape_of(xi)[-1]))
        out = vmap(at)(rows)
        return reshape(out, shape=(*shape_of(xi)[:-1], *shape_of(out)[1:]))

    def _evaluated(self, xi: Any, method: str, bounds_error: bool, fill_value: Any, nu: list[int]) -> Any:
        values, outside = self._values, None
        trailing = len(shape_of(values)) - len(self._points)
        smooth = method == "pchip" or method in _DEGREES
        entries = []
        for axis, nodes in enumerate(self._points):
            x = xi[..., axis]
            nodes, values = _ascending(nodes, values, axis)
            low, high = nodes[0], nodes[-1]
            if bounds_error:
                message = f"One of the requested xi is out of bounds in dimension {axis}"
                inside(x, low, high, "RegularGridInterpolator", message, message)
            beyond = np.logical_or(x < low, x > high)
            outside = beyond if outside is None else np.logical_or(outside, beyond)
            if not smooth:
                entries.append(_neighbours(x, nodes, method == "nearest"))
        total: Any = self._smooth(xi, method, nu) if smooth else 0.0
        for corner in () if smooth else itertools.product(*entries):
            term = getitem(values, tuple([i for i, _ in corner]))
            for _, weight in corner:
                if weight is not None:
                    term = term * reshape(weight, shape=(*shape_of(weight), *[1] * trailing))
            total = total + term
        if not bounds_error and fill_value is not None:
            total = np.where(reshape(outside, shape=(*shape_of(outside), *[1] * trailing)), fill_value, total)
        return total


def _double(x: Any) -> Any:
    """Places are in double precision, and so is what is interpolated at them."""
    x = floating(x)
    return convert(x, np.dtype(float)) if dtype_of(x).itemsize < 8 else x


def _ascending(nodes: Any, values: Any, axis: int) -> tuple[Any, Any]:
    """A grid in increasing order; known points are looked at, traced ones are ordered by what they turn out to be."""
    decreasing = nodes[0] > nodes[-1]
    if is_a(decreasing, (bool, np.bool_)):
        return (np.flip(nodes), np.flip(values, axis)) if decreasing else (nodes, values)
    return np.where(decreasing, np.flip(nodes), nodes), np.where(decreasing, np.flip(values, axis), values)


def _neighbours(x: Any, nodes: Any, nearest: bool) -> list[tuple[Any, Any]]:
    """The indices of the neighbours with their weights; None is a weight of 1."""
    n = shape_of(nodes)[0]
    if n == 1:
        return [(np.zeros(shape_of(x), int), None)]
    i = np.clip(np.searchsorted(nodes, x) - 1, 0, n - 2)
    left, right = getitem(nodes, i), getitem(nodes, i + 1)
    fraction = (x - left) / (right - left)
    if nearest:
        return [(np.where(fraction <= 0.5, i, i + 1), None)]
    return [(i, 1.0 - fraction), (i + 1, fraction)]


def interpn(
    points: Any, values: Any, xi: Any, method: str = "linear", bounds_error: bool = True, fill_value: Any = np.nan
) -> Any:
    """`scipy.interpolate.interpn`, all methods but "splinef2d": a `RegularGridInterpolator`, evaluated once.

    >>> import numpy as np
    >>> interpn((np.arange(3.0),), np.array([0.0, 1.0, 4.0]), np.array([[1.5]]))
    array([2.5])
    """
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)


_DEGREES = {"slinear": 1, "cubic": 3, "quintic": 5}
_SPLINES = {"slinear": 1, "quadratic": 2, "cubic": 3}


class interp1d(Interpolator):
    """`scipy.interpolate.interp1d` of kinds linear, nearest, nearest-up, previous, next, slinear, quadratic and cubic.

    Differentiable in y and the points of evaluation; in x too, but for quadratic and cubic. At a sample the derivative is that
    of the piece to its left. Bounds are checked as RegularGridInterpolator does.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda y: funcad.scipy.interpolate.interp1d(np.arange(3.0), y)(0.25) * 1.0)(np.array([1.0, 2.0, 0.0]))
    array([0.75, 0.25, 0.  ])
    """

    _name = "interp1d"

    def __init__(
        self,
        x: Any,
        y: Any,
        kind: Any = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: Any = None,
        fill_value: Any = np.nan,
        assume_sorted: bool = False,
    ):
        super().__init__(x, y, kind, axis, copy, bounds_error, fill_value, assume_sorted)
        x, y = array_of(x), floating(y)
        if len(shape_of(x)) != 1:
            raise ValueError("the x array must have exactly one dimension.")
        self._axis = axis_of(axis, len(shape_of(y)))
        if shape_of(y)[self._axis] != shape_of(x)[0]:
            raise ValueError("x and y arrays must be equal in length along interpolation axis.")
        if not assume_sorted:
            order = np.argsort(x)
            x, y = getitem(x, order), fnp.take(y, order, axis=self._axis)  # NumPy's looks at y alone
        self._nodes, self._lines = x, move(y, self._axis, 0)
        self._extrapolates = isinstance(fill_value, str) and fill_value == "extrapolate"
        self._fill = fill_value if isinstance(fill_value, tuple) else (fill_value, fill_value)
        self._checks = not self._extrapolates if bounds_error is None else bool(bounds_error)
        self._ends = kind in ("previous", "next")
        kind = {"zero": "previous", 0: "previous"}.get(kind, kind)
        self._kind = {v: k for k, v in _SPLINES.items()}.get(kind, kind)

    def __call__(self, x: Any) -> Any:
        if self._plainly(x):
            return self._original()(x)
        x = floating(x)
        nodes, lines = self._nodes, self._lines
        n = shape_of(nodes)[0]
        if self._checks:
            message = "A value in x_new is {} the interpolation range."
            inside(x, nodes[0], nodes[-1], "interp1d", message.format("below"), message.format("above"))
        if self._kind in ("linear", "slinear"):
            i = np.clip(np.searchsorted(nodes, x), 1, n - 1) - 1
            left, right = getitem(nodes, i), getitem(nodes, i + 1)
            fraction = (x - left) / (right - left)
            fraction = reshape(fraction, shape=(*shape_of(fraction), *[1] * (len(shape_of(lines)) - 1)))
            low, high = getitem(lines, i), getitem(lines, i + 1)
            out = low + fraction * (high - low)
        elif self._kind in _SPLINES:
            out = make_interp_spline(nodes, lines, _SPLINES[self._kind])(x)
        else:
            out = getitem(lines, self._step(x, nodes, n))
        fills: list[tuple[Any, Any]] = list(zip((x < nodes[0], x > nodes[-1]), self._fill))
        if self._extrapolates:  # but before the first sample there is none that is previous
            fills = [(fills[i][0], np.nan) for i, kind in enumerate(("previous", "next")) if kind == self._kind and self._ends]
        trailing = [1] * (len(shape_of(lines)) - 1)
        for beyond, fill in fills:
            out = np.where(reshape(array_of(beyond), shape=(*shape_of(x), *trailing)), fill, out)
        places = list(range(len(shape_of(x)), len(shape_of(out))))
        places[self._axis : self._axis] = range(len(shape_of(x)))
        return np.transpose(out, places) if len(places) > 1 else out

    def _step(self, x: Any, nodes: Any, n: int) -> Any:
        if self._kind == "previous":
            return np.clip(np.searchsorted(nodes, x, side="right") - 1, 0, n - 1)
        if self._kind == "next":
            return np.clip(np.searchsorted(nodes, x, side="left"), 0, n - 1)
        if self._kind in ("nearest", "nearest-up"):
            middles = (nodes[1:] + nodes[:-1]) / 2.0
            return np.searchsorted(middles, x, side="left" if self._kind == "nearest" else "right")
        raise NotImplementedError(
            f"interp1d does not support kind={self._kind!r} with traced values.\n"
            'Remedy: kind="linear", "nearest", "previous", "next", "quadratic" or "cubic", or make_interp_spline(x, y, k).'
        )


mirrors([RegularGridInterpolator, interpn, interp1d], "scipy.interpolate")
