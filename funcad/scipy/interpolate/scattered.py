"""Interpolation between scattered points: `RBFInterpolator` and `griddata`.

Radial functions are a linear system and a sum, in which everything may be traced. `griddata` asks SciPy in which triangle a
point lies; the weights of its corners are formulas.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.ir.aval import dtype_of, shape_of
from funcad.numpy.axes import array_of
from funcad.numpy.dispatch import is_traced
from funcad.numpy.indexing import getitem
from funcad.primitives.conversion import convert, stop_gradient
from funcad.primitives.linear_systems import solve
from funcad.primitives.shape import reshape
from funcad.scipy.door import scipy_function
from funcad.scipy.interpolate.grid import interp1d
from funcad.scipy.interpolate.original import Interpolator
from funcad.scipy.interpolate.splines import double
from funcad.show.docstrings import mirrors

__all__ = ["RBFInterpolator", "griddata"]


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
                raise TypeError("RBFInterpolator: leave neighbors out with traced values; which ones are near would jump")
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


mirrors([RBFInterpolator, griddata], "scipy.interpolate")
