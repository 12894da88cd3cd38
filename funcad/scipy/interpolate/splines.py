"""Piecewise polynomials: cubic splines, monotone and Hermite cubics, interpolating B-splines.

Idea: all of them end in polynomials between breakpoints, as SciPy's PPoly: c[k, i] multiplies the power K - k of the distance
to breakpoint i. The coefficients of a spline are linear in the values, so with known x they are SciPy's own coefficients of the
unit vectors, times the values: O(n**2) memory, exact derivatives. The slopes of monotone and Hermite cubics are formulas, in
which x may be traced too.
"""

from __future__ import annotations

from collections.abc import Callable
from math import factorial
from typing import Any

import numpy as np

from funcad.configuration import mirrors
from funcad.host.devices import namespace_of
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.trace import plain_values
from funcad.ir.tracer import Tracer, concrete_value
from funcad.numpy.dispatch import is_traced
from funcad.numpy.fft import floating
from funcad.numpy.indexing import getitem
from funcad.numpy.promote import array_of, axis_of, python_number
from funcad.primitives.conversion import convert
from funcad.primitives.shape import move_axis, reshape
from funcad.scipy.constants import constant
from funcad.scipy.door import scipy_function

# -- what all interpolators share: SciPy's own object behind them, for everything that is not traced


def _is_plain(args: tuple, kwargs: dict[str, Any]) -> bool:
    """Is everything plain numbers and NumPy's arrays, so that SciPy can do it?"""
    return (
        not is_traced(args, kwargs)
        and namespace_of([b for a in args for b in (a if isinstance(a, (tuple, list)) else (a,))]) is np
    )


class Interpolator:
    """An object made from arguments of which some may be traced; SciPy's own is made when it is first needed."""

    _name = ""

    def __init__(self, *args: Any, **kwargs: Any):
        self._given = (args, kwargs)
        self._holds_traced = not _is_plain(args, kwargs)
        self._made: Any = None
        if not self._holds_traced:
            self._original()  # its checks of the arguments are ours

    def _original(self) -> Any:
        if self._made is None:
            args, kwargs = self._given
            self._made = scipy_function(f"interpolate.{self._name}")(*args, **kwargs)
        return self._made

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_given" not in self.__dict__:
            raise AttributeError(name)
        if self._holds_traced:
            raise AttributeError(
                f"{self._name} of traced values has no attribute {name!r}.\n"
                "Remedy: make it of funcad.stop_gradient(x), outside of jit and vmap: that has it, without derivative."
            )
        return getattr(self._original(), name)

    def _plainly(self, *args: Any) -> bool:
        """Is nothing traced, neither here nor in the arguments of the call?"""
        return not self._holds_traced and _is_plain(args, {})


def inside(x: Any, low: Any, high: Any, name: str, below: str, above: str) -> None:
    """Raise ValueError where a known x leaves [low, high], and NotImplementedError where x has no value."""
    values = [concrete_value(v) for v in (x, low, high)]
    if any(type(v) is Tracer for v in values):
        raise NotImplementedError(
            f"{name} cannot check the bounds of traced values inside jit or vmap.\n"
            "Remedy: bounds_error=False, with fill_value=np.nan to see what was outside, or fill_value=None (extrapolate)."
        )
    x, low, high = values
    if np.any(x < low):
        raise ValueError(below)
    if np.any(x > high):
        raise ValueError(above)


# -- piecewise polynomials


def _wide(x: Any, like: Any, lead: int = 0) -> Any:
    """x with axes of size 1 behind, as many as `like` has after its first."""
    return reshape(x, shape=(*shape_of(x), *[1] * (len(shape_of(like)) - 1 - lead)))


class Piecewise:
    """Polynomials between breakpoints x (m,), with coefficients c (K + 1, m - 1, ...), highest power first.

    Called with points and an order of derivative; `derivative`, `antiderivative` and `integrate` as SciPy's PPoly.
    """

    def __init__(self, x: Any, c: Any, axis: int = 0, extrapolate: Any = True):
        self.x, self.c, self.axis, self.extrapolate = x, c, axis, extrapolate

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if nu:
            part = self.derivative(nu) if nu > 0 else self.antiderivative(-nu)
            return part(x, 0, self.extrapolate if extrapolate is None else extrapolate)
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        x = floating(x)
        first, last = self.x[0], self.x[-1]
        outside = None
        if isinstance(extrapolate, str) and extrapolate == "periodic":
            x = first + np.remainder(x - first, last - first)
        elif not extrapolate:
            outside = np.logical_or(x < first, x > last)
        m = shape_of(self.x)[0]
        i = np.clip(np.searchsorted(self.x, x, side="right") - 1, 0, m - 2)
        step = x - getitem(self.x, i)
        pieces = getitem(self.c, (slice(None), i))
        trailing = [1] * (len(shape_of(pieces)) - 1 - len(shape_of(x)))
        step = reshape(step, shape=(*shape_of(step), *trailing))
        out = pieces[0]
        for k in range(1, shape_of(pieces)[0]):
            out = out * step + pieces[k]
        if outside is not None:
            out = np.where(reshape(outside, shape=(*shape_of(x), *trailing)), np.nan, out)
        rank = len(shape_of(x))
        places = list(range(rank, len(shape_of(out))))
        places[self.axis : self.axis] = range(rank)
        return np.transpose(out, places) if places else out

    def derivative(self, nu: int = 1) -> Piecewise:
        """The derivative of order nu, as an object of the same kind."""
        if nu < 0:
            return self.antiderivative(-nu)
        c = self.c
        for _ in range(nu):
            degree = shape_of(c)[0] - 1
            powers = constant(np.arange(degree, 0, -1.0), c)
            c = c[:-1] * reshape(powers, shape=(degree, *[1] * (len(shape_of(c)) - 1))) if degree else np.zeros_like(c)
        return Piecewise(self.x, c, self.axis, self.extrapolate)

    def antiderivative(self, nu: int = 1) -> Piecewise:
        """The antiderivative of order nu that is 0 at the first breakpoint."""
        if nu < 0:
            return self.derivative(-nu)
        c = self.c
        for _ in range(nu):
            degree = shape_of(c)[0]
            powers = constant(1.0 / np.arange(degree, 0, -1.0), c)
            c = c * reshape(powers, shape=(degree, *[1] * (len(shape_of(c)) - 1)))
            width = _wide(np.diff(self.x), c, 1)
            grown = c[0]
            for k in range(1, degree):
                grown = grown * width + c[k]
            offsets = np.cumsum(grown * width, axis=0)
            offsets = np.concatenate([np.zeros_like(offsets[:1]), offsets[:-1]])
            c = np.concatenate([c, reshape(offsets, shape=(1, *shape_of(offsets)))])
        return Piecewise(self.x, c, self.axis, self.extrapolate)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        """The definite integral from a to b."""
        extrapolate = self.extrapolate if extrapolate is None else extrapolate
        total = self.antiderivative()
        if not isinstance(extrapolate, str):
            return total(b, 0, extrapolate) - total(a, 0, extrapolate)
        first, period = self.x[0], self.x[-1] - self.x[0]
        a, b = floating(a), floating(b)
        turns = np.floor_divide(b - first, period) - np.floor_divide(a - first, period)
        return turns * total(self.x[-1], 0, True) + (total(b, 0, extrapolate) - total(a, 0, extrapolate))

    def solve(self, y: Any = 0.0, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """Where it is y: how often is asked at the values; two steps of Newton's from there have the roots' derivatives."""
        extrapolate = bool(self.extrapolate if extrapolate is None else extrapolate)  # "periodic" goes on, too
        if len(shape_of(self.c)) != 2:
            raise ValueError("solve takes polynomials with one value")
        kind = scipy_function("interpolate.PPoly")
        find = lambda x, c, y: (kind(c, x).solve(float(y), bool(discontinuity), extrapolate),)
        structure = Tracer.namespace.scipy.spatial.structures.structure
        (at,) = structure(find, [(np.float64, (None,))], self.x, self.c, y)
        root = at
        width = self.x[-1] - self.x[0]
        at_break = np.any(at[:, None] == self.x, axis=1)
        for _ in range(2):
            slope = self(root, 1, extrapolate)
            miss = self(root, 0, extrapolate) - y
            jump = at_break & (abs(miss) > 1e-6 * abs(slope) * width)  # over y: it stays at the breakpoint
            flat = (slope == 0.0) | np.isnan(at) | jump  # NaN stands for a piece that is y everywhere
            root = root - np.where(flat, 0.0, miss / np.where(flat, 1.0, slope))
        return at + (root - Tracer.namespace.stop_gradient(root))

    def roots(self, discontinuity: bool = True, extrapolate: Any = None) -> Any:
        """Where it is 0."""
        return self.solve(0.0, discontinuity, extrapolate)


class Spline(Interpolator):
    """An interpolator whose traced form is a `Piecewise`."""

    _of_pieces: tuple[str, ...] = ("x", "c", "axis", "extrapolate", "solve", "roots")

    def _pieces(self) -> Piecewise:
        raise NotImplementedError(f"{type(self).__name__} must say what its pieces are: define _pieces()")

    def _form(self) -> Piecewise:
        if "_form_made" not in self.__dict__:
            self._form_made = self._pieces()
        return self._form_made

    def __getattr__(self, name: str) -> Any:
        if name in self._of_pieces and self.__dict__.get("_holds_traced"):
            return getattr(self._form(), name)
        return super().__getattr__(name)

    def __call__(self, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
        if self._plainly(x):
            return self._original()(x, nu, extrapolate)
        return self._form()(x, nu, extrapolate)

    def derivative(self, nu: int = 1) -> Any:
        return self._form().derivative(nu)

    def antiderivative(self, nu: int = 1) -> Any:
        return self._form().antiderivative(nu)

    def integrate(self, a: Any, b: Any, extrapolate: Any = None) -> Any:
        if self._plainly(a, b):
            return self._original().integrate(a, b, extrapolate)
        return self._form().integrate(a, b, extrapolate)


def double(x: Any) -> Any:
    """SciPy's splines are of doubles."""
    x = floating(x)
    return convert(x, np.result_type(dtype_of(x), float))


def checked(x: Any, y: Any, axis: int) -> tuple[Any, Any, int]:
    """x and y with the axis in front."""
    x, y = double(x), double(y)
    axis = axis_of(axis, len(shape_of(y)))
    if len(shape_of(x)) != 1:
        raise ValueError("`x` must be 1-dimensional.")
    if shape_of(x)[0] < 2:
        raise ValueError("`x` must contain at least 2 elements.")
    if shape_of(x)[0] != shape_of(y)[axis]:
        raise ValueError(f"The length of `y` along `axis`={axis} doesn't match the length of `x`")
    return x, move_axis(y, axis, 0), axis


def known(x: Any, name: str) -> np.ndarray:
    (x,) = plain_values([x])
    if isinstance(x, Tracer):
        raise TypeError(
            f"{name}: x must be a known array: its coefficients have derivatives in y only, and x is traced.\n"
            "Remedy: funcad.stop_gradient(x) outside jit, or a NumPy array; PchipInterpolator and interp1d take a traced x."
        )
    return np.asarray(concrete_value(x))


def linear(matrix: np.ndarray, y: Any) -> Any:
    """Coefficients (..., of y's other axes) from those of the unit vectors, (..., n)."""
    *lead, n = matrix.shape
    columns = reshape(y, shape=(n, int(np.prod(shape_of(y)[1:]))))
    flat = np.matmul(constant(matrix.reshape(-1, n), y, dtype_of(y)), columns)
    return reshape(flat, shape=(*lead, *shape_of(y)[1:]))


def _units(n: int, periodic: bool) -> np.ndarray:
    """The unit vectors; for periodic data the last value is the first."""
    units = np.eye(n)
    if periodic:
        units = units[:, :-1]
        units[-1, 0] = 1.0
    return units


class CubicSpline(Spline):
    """`scipy.interpolate.CubicSpline`, differentiable in y and the points of evaluation; x is known.

    Also in the values of bc_type. O(n**2) memory for n samples with traced y.

    >>> import numpy as np, funcad
    >>> x = np.linspace(0.0, 3.0, 7)
    >>> slope = funcad.grad(funcad.scipy.interpolate.CubicSpline(x, np.sin(x)))(1.0)
    >>> bool(abs(slope - np.cos(1.0)) < 1e-2)
    True
    """

    _name = "CubicSpline"

    def __init__(self, x: Any, y: Any, axis: int = 0, bc_type: Any = "not-a-knot", extrapolate: Any = None):
        super().__init__(x, y, axis, bc_type, extrapolate)
        self._data = checked(x, y, axis)
        self._bc_type = bc_type
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        self._extrapolate = ("periodic" if periodic else True) if extrapolate is None else extrapolate

    def _pieces(self) -> Piecewise:
        x, y, axis = self._data
        nodes = known(x, "CubicSpline")
        make, bc_type = scipy_function("interpolate.CubicSpline"), self._bc_type
        n = len(nodes)
        periodic = isinstance(bc_type, str) and bc_type == "periodic"
        ends = [] if isinstance(bc_type, str) else [i for i, b in enumerate(bc_type) if not isinstance(b, str)]
        homogeneous = [(b[0], np.zeros(n)) if i in ends else b for i, b in enumerate(bc_type)] if ends else bc_type
        c = linear(make(nodes, _units(n, periodic), 0, homogeneous).c, y[:-1] if periodic else y)
        for end in ends:  # the coefficients are linear in what is asked for there, too
            unit = [(b[0], float(i == end)) if i in ends else b for i, b in enumerate(bc_type)]
            value = np.broadcast_to(array_of(bc_type[end][1]), shape_of(y)[1:])
            c = c + constant(make(nodes, np.zeros(n), 0, unit).c.reshape((4, n - 1, *[1] * value.ndim)), y, dtype_of(y)) * value
        return Piecewise(constant(nodes, y), c, axis, self._extrapolate)


def _hermite(x: Any, y: Any, slopes: Any) -> Any:
    width = _wide(np.diff(x), y)
    rise = np.diff(y, axis=0) / width
    bend = (slopes[:-1] + slopes[1:] - 2 * rise) / width
    return np.stack([bend / width, (rise - slopes[:-1]) / width - bend, slopes[:-1], y[:-1]])


class CubicHermiteSpline(Spline):
    """`scipy.interpolate.CubicHermiteSpline`, differentiable in x, y, dydx and the points of evaluation."""

    _name = "CubicHermiteSpline"

    def __init__(self, x: Any, y: Any, dydx: Any, axis: int = 0, extrapolate: Any = None):
        super().__init__(x, y, dydx, axis, extrapolate)
        self._data = checked(x, y, axis)
        self._slopes = move_axis(double(dydx), self._data[2], 0)
        self._extrapolate = True if extrapolate is None else extrapolate

    def _pieces(self) -> Piecewise:
        x, y, axis = self._data
        return Piecewise(x, _hermite(x, y, self._slopes), axis, self._extrapolate)


class PchipInterpolator(Spline):
    """`scipy.interpolate.PchipInterpolator` (monotone cubics), differentiable in x, y and the points of evaluation.

    Where neighbouring slopes change sign the slope at the sample is 0, with derivative 0.
    """

    _name = "PchipInterpolator"

    def __init__(self, x: Any, y: Any, axis: int = 0, extrapolate: Any = None):
        super().__init__(x, y, axis, extrapolate)
        self._data = checked(x, y, axis)
        self._extrapolate = True if extrapolate is None else extrapolate

    def _pieces(self) -> Piecewise:
        x, y, axis = self._data
        return Piecewise(x, _hermite(x, y, _monotone(x, y)), axis, self._extrapolate)


def _monotone(x: Any, y: Any) -> Any:
    """Fritsch and Butland's slopes: weighted harmonic means of the neighbouring ones."""
    h = _wide(np.diff(x), y)
    rise = np.diff(y, axis=0) / h
    if shape_of(rise)[0] == 1:
        return np.concatenate([rise, rise])
    left, right = rise[:-1], rise[1:]
    flat = left * right <= 0.0
    flat = np.logical_or(flat, np.sign(left) != np.sign(right))
    w1, w2 = 2 * h[1:] + h[:-1], h[1:] + 2 * h[:-1]
    mean = (w1 / np.where(flat, 1.0, left) + w2 / np.where(flat, 1.0, right)) / (w1 + w2)
    inner = np.where(flat, 0.0, 1.0 / np.where(flat, 1.0, mean))
    first = _end_slope(h[:1], h[1:2], rise[:1], rise[1:2])
    last = _end_slope(h[-1:], h[-2:-1], rise[-1:], rise[-2:-1])
    return np.concatenate([first, inner, last])


def _end_slope(h0: Any, h1: Any, m0: Any, m1: Any) -> Any:
    slope = ((2 * h0 + h1) * m0 - h0 * m1) / (h0 + h1)
    steep = np.logical_and(np.sign(m0) != np.sign(m1), np.abs(slope) > 3.0 * np.abs(m0))
    return np.where(np.sign(slope) != np.sign(m0), 0.0, np.where(steep, 3.0 * m0, slope))


class Akima1DInterpolator(Spline):
    """`scipy.interpolate.Akima1DInterpolator` ("akima" and "makima"), differentiable in x, y and the points of evaluation.

    >>> import numpy as np, funcad
    >>> x = np.arange(6.0)
    >>> funcad.grad(lambda y: funcad.scipy.interpolate.Akima1DInterpolator(x, y)(2.0))(np.sin(x)).round(6) + 0.0
    array([0., 0., 1., 0., 0., 0.])
    """

    _name = "Akima1DInterpolator"

    def __init__(self, x: Any, y: Any, axis: int = 0, *, method: str = "akima", extrapolate: Any = None):
        super().__init__(x, y, axis, method=method, extrapolate=extrapolate)
        if method not in ("akima", "makima"):
            raise NotImplementedError(f"`method`={method} is unsupported.")
        self._data, self._modified = checked(x, y, axis), method == "makima"
        self._extrapolate = bool(extrapolate)

    def _pieces(self) -> Piecewise:
        x, y, axis = self._data
        return Piecewise(x, _hermite(x, y, _akima(x, y, self._modified)), axis, self._extrapolate)


def _akima(x: Any, y: Any, modified: bool) -> Any:
    """Akima's slopes: means of the neighbouring ones, weighted by how much those on the other side change."""
    rise = np.diff(y, axis=0) / _wide(np.diff(x), y)
    if shape_of(rise)[0] == 1:
        return np.concatenate([rise, rise])
    first, last = 2 * rise[:1] - rise[1:2], 2 * rise[-1:] - rise[-2:-1]
    m = np.concatenate([2 * first - rise[:1], first, rise, last, 2 * last - rise[-1:]])
    change = np.abs(np.diff(m, axis=0))
    if modified:
        change = change + 0.5 * np.abs(m[1:] + m[:-1])
    left, right = change[2:], change[:-2]
    both = left + right
    steady = both > 1e-9 * np.max(both)
    weighted = (left * m[1:-2] + right * m[2:-1]) / np.where(steady, both, 1.0)
    return np.where(steady, weighted, 0.5 * (m[3:] + m[:-3]))


mirrors([Akima1DInterpolator, CubicSpline, PchipInterpolator, CubicHermiteSpline], "scipy.interpolate")


# -- B-splines by their knots and coefficients: `BSpline`, `splrep`, `splev`, `splint`, `UnivariateSpline`, `make_lsq_spline`
#
# Idea: with known knots everything is linear: SciPy's own coefficients of the unit vectors, times the data, are the
# coefficients, and these, times SciPy's own polynomials of the unit coefficients, the polynomials between the knots
# (`Piecewise`). Smoothing splines choose their knots by the data, and jump: they are refused where the data are traced.


def _polynomials(t: Any, c: Any, k: int) -> Any:
    """Of shape (k + 1, pieces, ...): splines in powers, between the inner knots. SciPy's conversion crashes from k = 8 on."""
    spline = scipy_function("interpolate.BSpline")(t, c, k)
    return np.stack([spline(t[k : len(t) - k - 1], m) / factorial(m) for m in range(k, -1, -1)])


def pieces_of(t: Any, c: Any, k: int, axis: int = 0, extrapolate: Any = True) -> Piecewise:
    """The polynomials between the inner knots; c has the coefficients along its first axis."""
    t = known(t, "splines")
    n = len(t) - k - 1
    matrix = _polynomials(t, np.eye(n), k)
    return Piecewise(constant(t[k : n + 1], c), linear(matrix, c[:n]), axis, extrapolate)


class BSplines(Spline):
    """One that has knots and coefficients of B-splines, as SciPy's has them."""

    _of_pieces = ("axis", "extrapolate")

    def _coefficients(self) -> tuple[Any, Any, int]:
        raise NotImplementedError(f"{type(self).__name__} must say what its B-splines are: define _coefficients()")

    def __getattr__(self, name: str) -> Any:
        if name in ("t", "c", "k", "tck") and self.__dict__.get("_holds_traced"):
            t, c, k = self._coefficients()
            c = move_axis(c, 0, self._form().axis)
            return {"t": t, "c": c, "k": k, "tck": (t, c, k)}[name]
        return super().__getattr__(name)

    def _by_units(self, method: str, *args: Any) -> Any:
        """What that method of SciPy's makes, whose coefficients are linear in these: those of unit vectors tell how."""
        t, c, k = self._coefficients()
        n, form = len(t) - k - 1, self._form()
        units = getattr(scipy_function("interpolate.BSpline")(t, np.eye(n), k, form.extrapolate), method)(*args)
        return self._made_of(units.t, linear(units.c, c[:n]), units.k, units.extrapolate, form.axis)

    def _made_of(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> Any:
        return BSpline(t, move_axis(c, 0, axis), k, extrapolate, axis)

    def derivative(self, nu: int = 1) -> Any:
        return self._by_units("derivative", nu)

    def antiderivative(self, nu: int = 1) -> Any:
        return self._by_units("antiderivative", nu)

    def insert_knot(self, x: Any, m: int = 1) -> Any:
        """The same spline with one more knot."""
        return self._by_units("insert_knot", x, m)


class BSpline(BSplines):
    """`scipy.interpolate.BSpline`, differentiable in the coefficients c and the points of evaluation; the knots t are known.

    >>> import numpy as np, funcad
    >>> hat = lambda c: funcad.scipy.interpolate.BSpline(np.arange(5.0), c, 1)(1.25)
    >>> funcad.grad(hat)(np.ones(3))
    array([0.75, 0.25, 0.  ])
    """

    _name = "BSpline"

    def __init__(self, t: Any, c: Any, k: int, extrapolate: Any = True, axis: int = 0):
        super().__init__(t, c, k, extrapolate, axis)
        self._data = (known(t, "BSpline"), double(c), k, axis, extrapolate)

    def _coefficients(self) -> tuple[Any, Any, int]:
        t, c, k, axis, _ = self._data
        return t, move_axis(c, axis_of(axis, len(shape_of(c))), 0), k

    def _pieces(self) -> Piecewise:
        _, c, _, axis, extrapolate = self._data
        return pieces_of(*self._coefficients(), axis_of(axis, len(shape_of(c))), extrapolate)


class _InterpolatingSpline(BSplines):
    """What `make_interp_spline` gives."""

    _name = "make_interp_spline"

    def __init__(
        self, x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
    ):
        super().__init__(x, y, k, t, bc_type, axis, check_finite)
        self._data = checked(x, y, axis)
        self._options = (k, t, bc_type)

    def _coefficients(self) -> tuple[Any, Any, int]:
        x, y, _ = self._data
        k, t, ends = self._options
        nodes = known(x, "make_interp_spline")
        n = len(nodes)
        if ends == "periodic":
            spline = scipy_function("interpolate.make_interp_spline")(nodes, _units(n, True), k, t, ends)
            return spline.t, linear(spline.c, y[:-1]), k
        sides = ends if isinstance(ends, (tuple, list)) else (ends, ends)
        given = [pair for side in sides if isinstance(side, (tuple, list)) for pair in side]
        units = np.eye(n + len(given))  # of the samples, and of the derivatives at the ends
        rows = iter(units[n:])
        told = []
        for side in sides:
            pairs = isinstance(side, (tuple, list))
            told.append([(order, next(rows)) for order, _ in side] if pairs else side)
        spline = scipy_function("interpolate.make_interp_spline")(nodes, units[:n], k, t, told if given else ends)
        values = [reshape(double(v), shape=(1, *shape_of(y)[1:])) for _, v in given]
        return spline.t, linear(spline.c, np.concatenate([y, *values]) if values else y), k

    def _pieces(self) -> Piecewise:
        periodic = self._options[2] == "periodic"
        return pieces_of(*self._coefficients(), self._data[2], "periodic" if periodic else True)


def make_interp_spline(
    x: Any, y: Any, k: int = 3, t: Any = None, bc_type: Any = None, axis: int = 0, check_finite: bool = True
) -> Any:
    """`scipy.interpolate.make_interp_spline`: a B-spline of degree k through the samples, differentiable in y.

    The result is called with points of evaluation, traced or not, and an order of derivative. x is known.

    >>> import numpy as np
    >>> round(float(make_interp_spline(np.arange(5.0), np.arange(5.0) ** 3)(1.5)), 6)
    3.375
    """
    return _InterpolatingSpline(x, y, k, t, bc_type, axis, check_finite)


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
        raise NotImplementedError(
            "splrep supports neither full_output nor per with traced values.\n"
            "Remedy: make_interp_spline(x, y, bc_type='periodic') for periodic splines."
        )
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
    return _beyond(pieces_of(t, double(c), k), x, ext, der, "splev")


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
        raise NotImplementedError("splint does not support full_output with traced values.\nRemedy: leave it out.")
    t, c, k = tck
    total = pieces_of(t, double(c), k).antiderivative()
    low, high = total.x[0], total.x[-1]
    end = lambda v: total(np.minimum(np.maximum(double(v), low), high))
    return python_number(end(b) - end(a))


class UnivariateSpline(BSplines):
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

    def _made_of(self, t: Any, c: Any, k: int, extrapolate: Any, axis: int) -> Any:
        own = UnivariateSpline.__new__(UnivariateSpline)
        own._given, own._holds_traced, own._told, own._ext = ((), {}), True, (t, c, k), self._ext
        return own

    def _prepare(self, x: Any, y: Any, ext: Any, *options: Any) -> None:
        self._xy, self._ext, self._options = (x, y), ext, options

    def _pieces(self) -> Piecewise:
        return pieces_of(*self._coefficients())

    def _coefficients(self) -> tuple[Any, Any, int]:
        made: tuple[Any, Any, int] | None = self.__dict__.get("_told")
        if made is not None or not self._holds_traced:
            return made or self._original()._eval_args  # type: ignore[no-any-return]
        x, y, _ = checked(*self._xy, 0)
        nodes = known(x, self._name)
        fit = lambda unit: scipy_function(f"interpolate.{self._name}")(nodes, unit, *self._options)._eval_args
        t, matrix, k = _of_units(fit, len(nodes))
        return t, linear(matrix, y), k

    def get_coeffs(self) -> Any:
        """The coefficients of the B-splines."""
        t, c, k = self._coefficients()
        return c[: len(t) - k - 1]

    def get_knots(self) -> Any:
        """The knots, each once."""
        t, _, k = self._coefficients()
        return t[k : len(t) - k]

    def derivatives(self, x: Any) -> Any:
        """All of them at one place, that of order 0 first."""
        return np.stack([self(x, nu) for nu in range(self._coefficients()[2] + 1)])

    def roots(self) -> Any:
        """Where a cubic spline is 0."""
        return self._form().roots(False, False)

    def get_residual(self) -> Any:
        """The sum of the squares of what is left of the samples."""
        x, y, _ = checked(*self._xy, 0)
        return python_number(np.sum((y - self(x)) ** 2))

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
        return python_number(end(b) - end(a))


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


class _LeastSquaresSpline(BSplines):
    """What `make_lsq_spline` gives."""

    _name = "make_lsq_spline"

    def __init__(self, x: Any, y: Any, t: Any, k: int, w: Any, axis: int, **options: Any):
        super().__init__(x, y, t, k, w, axis, **options)
        t, w = plain_values([t, w])
        self._data, self._options = checked(x, y, axis), (t, k, w)

    def _coefficients(self) -> tuple[Any, Any, int]:
        x, y, _ = self._data
        nodes, (t, k, w) = known(x, "make_lsq_spline"), self._options
        c = scipy_function("interpolate.make_lsq_spline")(nodes, np.eye(len(nodes)), t, k, w).c
        return t, linear(c, y), k

    def _pieces(self) -> Piecewise:
        return pieces_of(*self._coefficients(), self._data[2])


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
    [BSpline, InterpolatedUnivariateSpline, LSQUnivariateSpline, UnivariateSpline, make_interp_spline, make_lsq_spline],
    "scipy.interpolate",
)
mirrors([splev, splint, splrep], "scipy.interpolate")
