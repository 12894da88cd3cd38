"""Interpolation between points of a grid, and between scattered points."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad.numpy as fnp
from funcad.api.tools import ShapeDtypeStruct
from funcad.api.vmap import vmap
from funcad.configuration import mirrors
from funcad.control.callback import pure_callback
from funcad.host.real_types import is_a
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.dispatch import is_traced
from funcad.numpy.fft import floating
from funcad.numpy.indexing import getitem
from funcad.numpy.promote import array_of, axis_of
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.linear_systems import solve
from funcad.primitives.shape import move_axis, reshape
from funcad.scipy.door import scipy_function
from funcad.scipy.interpolate.splines import Interpolator, PchipInterpolator, double, inside, make_interp_spline


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
        by_axes, rank = isinstance(xi, tuple), len(self._points)
        xi = _double(_places(xi))
        if len(shape_of(xi)) == 1 and not by_axes and shape_of(xi)[0] % rank == 0:  # as many points as fit
            xi = reshape(xi, shape=(shape_of(xi)[0] // rank, rank))
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


def _places(xi: Any) -> Any:
    """Points of evaluation as an array, of a tuple with an array for each axis along its last one."""
    if isinstance(xi, tuple):
        return np.stack(np.broadcast_arrays(*[array_of(x) for x in xi]), axis=-1)
    return array_of(xi) if isinstance(xi, list) else xi


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
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(_places(xi))


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
        self._nodes, self._lines = x, move_axis(y, self._axis, 0)
        self.x, self.y = x, y
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


# -- interpolation between scattered points: `RBFInterpolator` and `griddata`
#
# Radial functions are a linear system and a sum, in which everything may be traced. `griddata` asks SciPy in which triangle a
# point lies; the weights of its corners are formulas.


def _apart(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """f of squared distances; 0 where they are 0, with derivative 0."""

    def radial(s: Any) -> Any:
        near = s == 0.0
        return np.where(near, 0.0, f(np.where(near, 1.0, s)))

    return radial


_KERNELS: dict[str, tuple[int, Callable[[Any], Any]]] = {  # the least degree of the polynomials; of the squared distance
    "linear": (0, _apart(lambda s: -np.sqrt(s))),
    "thin_plate_spline": (1, _apart(lambda s: 0.5 * s * np.log(s))),
    "cubic": (1, _apart(lambda s: s * np.sqrt(s))),
    "quintic": (2, _apart(lambda s: -s * s * np.sqrt(s))),
    "multiquadric": (0, lambda s: -np.sqrt(s + 1.0)),
    "inverse_multiquadric": (-1, lambda s: 1.0 / np.sqrt(s + 1.0)),
    "inverse_quadratic": (-1, lambda s: 1.0 / (s + 1.0)),
    "gaussian": (-1, lambda s: np.exp(-s)),
}
_SCALE_FREE = ("linear", "thin_plate_spline", "cubic", "quintic")


class RBFInterpolator(Interpolator):
    """`scipy.interpolate.RBFInterpolator`, differentiable in y, d, smoothing, epsilon and the points of evaluation.

    With traced values `neighbors` must be left out (TypeError): which ones are near would jump.

    >>> import numpy as np, funcad
    >>> y = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    >>> f = funcad.scipy.interpolate.RBFInterpolator(y, y @ np.array([2.0, 3.0]))
    >>> funcad.grad(lambda x: f(x[None])[0])(np.array([0.3, 0.4])).round(6)
    array([2., 3.])
    """

    _name = "RBFInterpolator"

    def __init__(
        self, y: Any, d: Any, neighbors: Any = None, smoothing: Any = 0.0, kernel: str = "thin_plate_spline",
        epsilon: Any = None, degree: int | None = None,
    ):  # fmt: skip
        super().__init__(y, d, neighbors, smoothing, kernel, epsilon, degree)
        if kernel.lower() not in _KERNELS:
            raise ValueError(f"`kernel` must be one of {set(_KERNELS)}.")
        if epsilon is None and kernel.lower() not in _SCALE_FREE:
            raise ValueError(f"`epsilon` must be specified if `kernel` is not one of {set(_SCALE_FREE)}.")
        least, self._radial = _KERNELS[kernel.lower()]
        self._epsilon = 1.0 if epsilon is None else epsilon
        self._degree = max(least, 0) if degree is None else degree
        self._parts = (double(y), double(d), smoothing, neighbors)
        self._solved: Any = None

    def _system(self) -> tuple[Any, ...]:
        """(coefficients as columns, middle, half width of y)."""
        if self._solved is None:
            y, d, smoothing, neighbors = self._parts
            if neighbors is not None:
                raise TypeError(
                    "RBFInterpolator(neighbors=) is not there for traced values: which ones are near would jump.\n"
                    "Remedy: leave neighbors out."
                )
            low, high = np.min(y, axis=0), np.max(y, axis=0)
            middle, half = (low + high) / 2.0, (high - low) / 2.0
            half = np.where(half == 0.0, 1.0, half)
            n = shape_of(y)[0]
            columns = reshape(d, shape=(n, int(np.prod(shape_of(d)[1:]))))
            squares = self._distances(y, y)
            kernel = self._radial(squares) + np.eye(n) * smoothing
            powers = self._polynomials((y - middle) / half)
            r = shape_of(powers)[1]
            matrix = np.block([[kernel, powers], [np.transpose(powers), np.zeros((r, r))]]) if r else kernel
            right = np.concatenate([columns, np.zeros((r, shape_of(columns)[1]), dtype_of(columns))])
            self._solved = solve(matrix, right), middle, half
        return self._solved  # type: ignore[no-any-return]

    def _distances(self, x: Any, y: Any) -> Any:
        apart = (reshape(x, shape=(shape_of(x)[0], 1, shape_of(x)[1])) - y) * self._epsilon
        return np.sum(apart * apart, axis=-1)

    def _polynomials(self, x: Any) -> Any:
        rank = shape_of(x)[1]
        columns = []
        for total in range(self._degree + 1):
            for chosen in itertools.combinations_with_replacement(range(rank), total):
                column = np.ones_like(x[:, 0])
                for axis in chosen:
                    column = column * x[:, axis]
                columns.append(column)
        return np.stack(columns, axis=1) if columns else np.zeros((shape_of(x)[0], 0))

    def __call__(self, x: Any) -> Any:
        if self._plainly(x, self._epsilon):
            return self._original()(x)
        x = double(x)
        y, d, _, _ = self._parts
        if len(shape_of(x)) != 2 or shape_of(x)[1] != shape_of(y)[1]:
            raise ValueError(f"`x` must be a 2-dimensional array with {shape_of(y)[1]} columns.")
        coefficients, middle, half = self._system()
        rows = np.concatenate([self._radial(self._distances(x, y)), self._polynomials((x - middle) / half)], axis=1)
        return reshape(np.matmul(rows, coefficients), shape=(shape_of(x)[0], *shape_of(d)[1:]))


def _places(x: Any) -> Any:
    """Points as rows, also of a tuple of coordinates."""
    return np.stack(np.broadcast_arrays(*[array_of(v) for v in x]), axis=-1) if isinstance(x, tuple) else array_of(x)


def griddata(
    points: Any, values: Any, xi: Any, method: str = "linear", fill_value: Any = np.nan, rescale: bool = False
) -> Any:
    """`scipy.interpolate.griddata`, methods "linear" and "nearest" of traced values.

    Differentiable in the values; "linear" in the points and in xi too, within one triangle. In one dimension interp1d's.

    >>> import numpy as np, funcad
    >>> corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> at = lambda v: funcad.scipy.interpolate.griddata(corners, v, np.array([[0.25, 0.25]]))[0]
    >>> funcad.grad(at)(np.array([1.0, 2.0, 3.0]))
    array([0.5 , 0.25, 0.25])
    """
    if not is_traced((points, values, xi, fill_value)):
        return scipy_function("interpolate.griddata")(points, values, xi, method, fill_value, rescale)
    if method not in ("linear", "nearest"):
        raise NotImplementedError(
            f'griddata supports the methods "linear" and "nearest" with traced values, got {method!r}.\n'
            "Remedy: RBFInterpolator, which is smooth."
        )
    points, values, at = double(_places(points)), double(values), double(_places(xi))
    if len(shape_of(points)) == 1 or shape_of(points)[1] == 1:
        flat = reshape(points, shape=(shape_of(points)[0],))
        at = reshape(at, shape=shape_of(at)[:-1]) if shape_of(at) and len(shape_of(points)) == 2 else at
        return interp1d(flat, values, method, axis=0, bounds_error=False, fill_value=fill_value)(at)
    rank = shape_of(points)[1]
    lead = shape_of(at)[:-1]
    rows = reshape(at, shape=(int(np.prod(lead)), rank))
    corners = 1 if method == "nearest" else rank + 1

    def host(points: Any, rows: Any) -> Any:
        if rescale:
            middle, width = points.mean(axis=0), np.ptp(points, axis=0)
            points, rows = [(v - middle) / np.where(width > 0, width, 1.0) for v in (points, rows)]
        if method == "nearest":
            found = scipy_function("spatial.cKDTree")(points).query(rows)[1].reshape(-1, 1)
            return found.astype(np.int64), np.ones(len(rows), bool)
        triangles = scipy_function("spatial.Delaunay")(points)
        of = triangles.find_simplex(rows)
        return triangles.simplices[of].astype(np.int64), of >= 0

    n = shape_of(rows)[0]
    shapes = (ShapeDtypeStruct((n, corners), np.dtype(np.int64)), ShapeDtypeStruct((n,), np.dtype(bool)))
    near, known = pure_callback(host, shapes, stop_gradient(points), stop_gradient(rows), vmap_method="sequential")
    around = getitem(values, near)  # (n, corners, ...)
    if method == "nearest":
        out = around[:, 0]
    else:
        vertices = getitem(points, near)
        edges = np.swapaxes(vertices[:, 1:] - vertices[:, :1], 1, 2)
        shares = solve(edges, reshape(rows - vertices[:, 0], shape=(n, rank, 1)))[..., 0]
        weights = np.concatenate([1.0 - np.sum(shares, axis=1, keepdims=True), shares], axis=1)
        trailing = [1] * (len(shape_of(values)) - 1)
        out = np.sum(around * reshape(weights, shape=(n, corners, *trailing)), axis=1)
        out = np.where(reshape(known, shape=(n, *trailing)), out, fill_value)
    return convert(reshape(out, shape=(*lead, *shape_of(values)[1:])), dtype_of(out))


def _given(args: tuple[Any, ...]) -> Any:
    """Places as arguments: one array, of which one row may be a vector, or the coordinates."""
    at = _places(args[0] if len(args) == 1 else args)
    single = len(args) == 1 and not isinstance(args[0], tuple) and len(shape_of(at)) == 1
    return reshape(at, shape=(1, *shape_of(at))) if single else at


class LinearNDInterpolator:
    """`scipy.interpolate.LinearNDInterpolator`: values between points by the corners of the simplex in which they lie.

    `points` (n, d), `values` (n, ...), `fill_value` and the places of evaluation may be traced; a Delaunay triangulation may
    stand for its points. Differentiable in all of them, within one simplex.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.interpolate import LinearNDInterpolator
    >>> plane = LinearNDInterpolator(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), np.array([0.0, 2.0, 3.0]))
    >>> funcad.grad(lambda x: plane(x)[0])(np.array([0.5, 0.25])).round(6)
    array([1., 3.])
    """

    def __init__(self, points: Any, values: Any, fill_value: Any = np.nan, rescale: bool = False) -> None:
        self.points, self.values = _places(getattr(points, "points", points)), array_of(values)
        self.fill_value, self.rescale = fill_value, rescale

    def __call__(self, *args: Any) -> Any:
        """The values at places: one array (..., d), or the d coordinates as arrays that broadcast."""
        if not is_traced((self.points, self.values, self.fill_value, args)):
            theirs = scipy_function("interpolate.LinearNDInterpolator")
            return theirs(self.points, self.values, self.fill_value, self.rescale)(*args)
        return griddata(self.points, self.values, _given(args), "linear", self.fill_value, self.rescale)


class NearestNDInterpolator:
    """`scipy.interpolate.NearestNDInterpolator`: the value of the nearest point. Differentiable in the values.

    `x` (n, d), `y` (n, ...) and the places of evaluation may be traced. `tree_options` are refused.

    >>> import numpy as np
    >>> from funcad.scipy.interpolate import NearestNDInterpolator
    >>> float(NearestNDInterpolator(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([1.0, 5.0]))(1.5, 0.0))
    5.0
    """

    def __init__(self, x: Any, y: Any, rescale: bool = False, tree_options: dict[str, Any] | None = None) -> None:
        if tree_options:
            raise TypeError("NearestNDInterpolator takes no tree_options beside traced values.\nRemedy: leave them out.")
        self.points, self.values, self.rescale = _places(getattr(x, "points", x)), array_of(y), rescale

    def __call__(self, *args: Any) -> Any:
        """The values at places: one array (..., d), or the d coordinates as arrays that broadcast."""
        if not is_traced((self.points, self.values, args)):
            return scipy_function("interpolate.NearestNDInterpolator")(self.points, self.values, self.rescale)(*args)
        return griddata(self.points, self.values, _given(args), "nearest", rescale=self.rescale)


mirrors([RBFInterpolator, griddata, LinearNDInterpolator, NearestNDInterpolator], "scipy.interpolate")
