"""Compiled functions of SciPy's told by formulas, so that the Python around them runs on traced values (own_code.py).

Idea: what a compiled function decides (which samples are peaks, which pieces a place is in, which neighbours are pooled) is
asked at the values, in every transform (`structure`); what it then computes is a formula of the traced values. Invariant: with
nothing traced the library's own function runs. Trap: some write into an array that they are given.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from funcad.custom.custom_jvp import custom_jvp
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import is_traced


def _ours(path: str) -> Any:
    """A function or module of funcad.scipy, which is loaded when a rule is asked."""
    return reduce(getattr, path.split("."), Tracer.namespace.scipy)


def _asked(theirs: Callable[..., Any], like: Any, *arrays: Any) -> Any:
    """What it says of the values, without derivative."""
    return _ours("spatial.structures.structure")(theirs, like, *arrays)


def _whole(x: Any) -> Any:
    return np.ascontiguousarray(x, np.intp)


def _double(x: Any) -> Any:
    return np.ascontiguousarray(x, np.float64)


# -- peaks of a signal


def _peaks(theirs: Any, x: Any) -> Any:
    return _asked(lambda x: theirs(_double(x)), [(np.intp, (None,))] * 3, x)


def _far_apart(theirs: Any, peaks: Any, priority: Any, distance: Any) -> Any:
    find = lambda peaks, priority: (theirs(_whole(peaks), _double(priority), distance),)
    return _asked(find, [(np.bool_, np.shape(peaks))], peaks, priority)[0]


def _prominences(theirs: Any, x: Any, peaks: Any, wlen: Any) -> Any:
    find = lambda x, peaks: theirs(_double(x), _whole(peaks), wlen)[1:]
    left, right = _asked(find, [(np.intp, np.shape(peaks))] * 2, x, peaks)
    return x[peaks] - np.maximum(x[left], x[right]), left, right


def _widths(theirs: Any, *given: Any) -> Any:
    x, peaks, rel_height, prominences, *bases = given

    def find(x: Any, peaks: Any, prominences: Any, *bases: Any) -> Any:
        known = rel_height, _double(prominences), *map(_whole, bases)
        ends = theirs(_double(x), _whole(peaks), *known)[2:]
        return np.floor(ends[0]).astype(np.intp), np.ceil(ends[1]).astype(np.intp)

    left, right = _asked(find, [(np.intp, np.shape(peaks))] * 2, x, peaks, prominences, *bases)
    height = x[peaks] - prominences * rel_height

    def crossing(at: Any, towards: int) -> Any:
        """Where the line at that height meets the signal between a sample and the next one."""
        beyond = np.clip(at + towards, 0, len(x) - 1)
        below = (x[at] < height) & (beyond != at)
        rise = np.where(below, x[beyond] - x[at], 1.0)
        return at + np.where(below, towards * (height - x[at]) / rise, 0.0)

    begins, ends = crossing(left, 1), crossing(right, -1)
    return ends - begins, height, begins, ends


# -- images: neighbourhoods, and what multiplies their Fourier transforms

_MODES = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")


def _extreme_of_line(theirs: Any, *given: Any) -> Any:
    x, size, axis, output, mode, cval, origin, minimum = given
    ranked = _ours("ndimage")
    sizes, origins = [1] * x.ndim, [0] * x.ndim
    sizes[axis], origins[axis] = size, origin
    of = ranked.minimum_filter if minimum else ranked.maximum_filter
    output[...] = of(x, tuple(sizes), mode=_MODES[mode], cval=cval, origin=tuple(origins))


def _extreme(theirs: Any, *given: Any) -> Any:
    x, footprint, structure, output, mode, cval, origins, minimum = given
    near = _ours("ndimage.image_filters.neighbours")(x, footprint, _MODES[mode], cval, tuple(origins))
    if structure is not None:
        heights = np.reshape(structure[footprint], (-1, *[1] * x.ndim))
        near = near - heights if minimum else near + heights
    output[...] = np.min(near, axis=0) if minimum else np.max(near, axis=0)


def _of_neighbours(theirs: Any, *given: Any) -> Any:
    x, f, footprint, output, mode, cval, origins, more, named = given
    near = _ours("ndimage.image_filters.neighbours")(x, footprint, _MODES[mode], cval, tuple(origins))
    windows = np.reshape(near, (len(near), -1)).T
    found = Tracer.namespace.vmap(lambda w: f(w, *more, **named))(windows)
    output[...] = np.reshape(found, x.shape)


def _frequencies(shape: Any, n: int, axis: int) -> list[Any]:
    """Of each axis, in cycles per sample; `n`, where it is no -1, is the length of the real axis."""
    found = []
    for i, size in enumerate(shape):
        f = np.arange(size) / n if i == axis and n >= 0 else np.fft.fftfreq(size)
        found.append(np.reshape(f, [-1 if j == i else 1 for j in range(len(shape))]))
    return found


def _fourier_filter(theirs: Any, *given: Any) -> Any:
    x, params, n, axis, output, kind = given
    if is_traced((params,)):
        factor = 1.0
        for f, p in zip(_frequencies(x.shape, n, axis), params):
            factor = factor * (np.exp(-2.0 * (np.pi * f * p) ** 2) if kind == 0 else np.sinc(f * p))
        if kind == 2:
            raise NotImplementedError(
                "scipy.ndimage.fourier_ellipsoid: its size is traced, and has no derivative.\nRemedy: fourier_gaussian or "
                "fourier_uniform, whose sizes have one."
            )
    else:
        factor = np.ones(x.shape)
        theirs(factor.copy(), params, n, axis, factor, kind)
    output[...] = x * factor


def _fourier_shift(theirs: Any, *given: Any) -> Any:
    x, shifts, n, axis, output = given
    phase = sum([f * s for f, s in zip(_frequencies(x.shape, n, axis), shifts)])
    output[...] = x * np.exp(-2j * np.pi * phase)


# -- pieces of polynomials


def _evaluate(theirs: Any, *given: Any) -> Any:
    c, x, at, nu, extrapolate, out = given
    out[...] = _ours("interpolate.splines.Piecewise")(x, c, 0, bool(extrapolate))(at, int(nu))


def _integrate(theirs: Any, *given: Any) -> Any:
    c, x, a, b, extrapolate, out = given
    out[...] = _ours("interpolate.splines.Piecewise")(x, c, 0, bool(extrapolate)).integrate(a, b)


def _evaluate_bernstein(theirs: Any, *given: Any) -> Any:
    """In powers of the way from the left end of a piece."""
    c, x, at, nu, extrapolate, out = given
    k, width = len(c) - 1, np.reshape(np.diff(x), (-1, 1))
    powers = [
        math.comb(k, s)
        * sum([(-1) ** (s - a) * math.comb(s, a) * c[a] for a in range(s + 1)])
        / width**s
        for s in range(k, -1, -1)
    ]
    _evaluate(theirs, np.stack(powers), x, at, nu, extrapolate, out)


def _real_roots(theirs: Any, *given: Any) -> Any:
    c, x, y, report, extrapolate = given
    made = _ours("interpolate.splines.Piecewise")
    return [made(x, c[:, :, i], 0, extrapolate).solve(y, report) for i in range(c.shape[2])]


def _spline_pieces(t: Any, c: Any, k: int) -> Any:
    return _ours("interpolate.splines.pieces_of")(t, c, k, 0, True)


def _all_derivatives(theirs: Any, t: Any, c: Any, order: int, x: Any) -> Any:
    return np.stack([_spline_pieces(t, c, order - 1)(x, nu) for nu in range(order)]), 0


def _zeros(theirs: Any, t: Any, c: Any, most: Any) -> Any:
    found = _spline_pieces(t, c, 3).roots(False, False)
    return found, len(found), 0


def _basis(t: Any, k: int, x: Any, nu: int = 0) -> Any:
    """The B-splines (or derivatives, or integrals from the left end) at x, as columns; beyond the knots as at their ends."""
    splines = _spline_pieces(t, np.eye(len(t) - k - 1), k)
    return splines(np.clip(x, t[k], t[len(t) - k - 1]), nu)


def _on_grid(theirs: Any, *given: Any) -> Any:
    """`bispev`, and `parder`, which takes the orders of the derivatives before x and y."""
    tx, ty, c, kx, ky, *orders, x, y = given
    dx, dy = orders or (0, 0)
    return _basis(tx, kx, x, dx) @ _coefficients(tx, kx, c) @ _basis(ty, ky, y, dy).T, 0


def _at_places(theirs: Any, *given: Any) -> Any:
    """`bispeu` and `pardeu`: the same of pairs of places."""
    tx, ty, c, kx, ky, *orders, x, y = given
    dx, dy = orders or (0, 0)
    along = _basis(tx, kx, x, dx) @ _coefficients(tx, kx, c)
    return np.sum(along * _basis(ty, ky, y, dy), axis=1), 0


def _slopes(theirs: Any, *given: Any) -> Any:
    """`pardtc`: the coefficients of a partial derivative, which are differences over differences of knots."""
    tx, ty, c, kx, ky, dx, dy = given
    c = _coefficients(tx, kx, c)
    for t, k, order in ((tx, kx, dx), (ty, ky, dy)):
        for _ in range(order):
            apart = t[k + 1 : -1] - t[1 : -k - 1]
            wide = apart[:, None] > 0
            slope = (c[1:] - c[:-1]) * k
            c = np.where(wide, slope / np.where(wide, apart[:, None], 1.0), 0.0)
            t, k = t[1:-1], k - 1
        c = c.T
    return np.ravel(c), 0


def _coefficients(tx: Any, kx: int, c: Any) -> Any:
    return np.reshape(c, (len(tx) - kx - 1, -1))


def _integral_of_surface(theirs: Any, *given: Any) -> Any:
    tx, ty, c, kx, ky, xa, xb, ya, yb = given
    along = _basis(tx, kx, xb, -1) - _basis(tx, kx, xa, -1)
    return along @ _coefficients(tx, kx, c) @ (_basis(ty, ky, yb, -1) - _basis(ty, ky, ya, -1))


def _through_grid(theirs: Any, x: Any, y: Any, z: Any, *options: Any) -> Any:
    """Through all values: the knots depend on x and y alone, and the coefficients are linear in z."""
    kx, ky, s = options[4:7]
    if is_traced((x, y, s)) or s != 0:
        raise NotImplementedError(
            "RectBivariateSpline with smoothing, or of a traced grid, chooses its knots by traced values and jumps as they "
            "change.\nRemedy: s=0, and x and y that are known."
        )
    nx, tx, ny, ty, *_ = theirs(x, y, np.zeros(len(x) * len(y)), *options)
    tx, ty = tx[:nx], ty[:ny]
    left, right = np.linalg.inv(_basis(tx, kx, x)), np.linalg.inv(_basis(ty, ky, y))
    c = np.ravel(left @ np.reshape(z, (len(x), len(y))) @ right.T)
    return nx, tx, ny, ty, c, 0.0, -1


def _through_grid_from(theirs: Any, start: Any, *args: Any) -> Any:
    """The same in SciPy 1.18, which says first that it starts anew."""
    return _through_grid(partial(theirs, start), *args)


def _pooled(theirs: Any, x: Any, weights: Any, starts: Any) -> Any:
    """Which neighbours have one value is asked; that is the mean of theirs."""
    n = len(x)
    find = lambda x, w: (lambda r, b: (r[: b + 1],))(
        *theirs(x.copy(), w.copy(), np.full(n + 1, -1, np.intp))[2:]
    )
    (starts,) = _asked(find, [(np.intp, (None,))], x, weights)
    block = np.searchsorted(starts, np.arange(n), side="right") - 1
    zeros, at = Tracer.namespace.numpy.zeros(n), Tracer.namespace.numpy.at
    total = at(zeros)[block].add(weights)
    means = at(zeros)[block].add(weights * x) / np.where(total > 0, total, 1.0)
    return means[block], total, starts, len(starts) - 1


def _gegenbauer(theirs: Any, n: Any, alpha: Any, x: Any) -> Any:
    """Of a whole degree, which `scipy.special.gegenbauer` gives as a float."""
    return theirs(int(n) if type(n) is float and n.is_integer() else n, alpha, x)


def _nearest(theirs: Any, obs: Any, code_book: Any) -> tuple[Any, Any]:
    """The nearest row of the code book to each row, and its distance."""
    fnp = Tracer.namespace.numpy
    apart = fnp.expand_dims(obs, 1) - code_book
    square = fnp.sum((apart * apart).reshape(*apart.shape[:2], -1), axis=-1)
    code = fnp.argmin(square, axis=1)
    least = fnp.take_along_axis(square, code[:, None], 1)[:, 0]
    apart = least > 0  # a row that is alone is its own mean, and stays so
    return fnp.astype(code, np.int32), fnp.where(apart, fnp.sqrt(fnp.where(apart, least, 1.0)), 0.0)


def _means(theirs: Any, obs: Any, labels: Any, n: int) -> tuple[Any, Any]:
    """The mean of the rows with each label, and which labels there are."""
    count = lambda labels: (np.bincount(labels, minlength=n),)
    members = _asked(count, [(np.intp, (n,))], labels)[0]
    fnp = Tracer.namespace.numpy
    totals = fnp.at(fnp.zeros((n, *np.shape(obs)[1:]), obs.dtype))[labels].add(obs)
    return totals / np.reshape(np.maximum(members, 1), (n, *[1] * (np.ndim(obs) - 1))), members > 0


# -- spherical Bessel functions: their equation gives the second derivative by the function and the first


def _spherical(theirs: Any, n: Any, z: Any) -> Any:
    kind, _, sloped = theirs.__name__.removeprefix("_spherical_").partition("_")
    funcad, ufuncs = Tracer.namespace, sys.modules["scipy.special._ufuncs"]
    by_name = lambda end, z: _spherical(getattr(ufuncs, f"_spherical_{kind}{end}"), n, z)
    sign = 1.0 if kind in ("in", "kn") else -1.0

    def value(z: Any) -> Any:
        if not is_traced((z,)):
            return theirs(n, z)
        like = funcad.ShapeDtypeStruct(np.broadcast_shapes(np.shape(n), np.shape(z)), z.dtype)
        return funcad.pure_callback(
            lambda z: np.asarray(theirs(n, z)), like, z, vmap_method="sequential"
        )

    def rule(primals: Any, tangents: Any) -> Any:
        (z,) = primals
        slope = by_name("_d", z)
        if not sloped:
            return value(z), slope * tangents[0]
        return slope, ((sign + n * (n + 1.0) / z**2) * by_name("", z) - 2.0 / z * slope) * tangents[0]

    function = custom_jvp(value)
    function.defjvp(rule)
    return function(z)


_FITPACK: dict[str, tuple[int, Callable[..., Any]]] = {
    "spalde": (-1, _all_derivatives),
    "sproot": (-1, _zeros),
    "parder": (-1, _on_grid),
    "bispev": (-1, _on_grid),
    "pardeu": (-1, _at_places),
    "bispeu": (-1, _at_places),
    "dblint": (-1, _integral_of_surface),
    "pardtc": (-1, _slopes),
}
_CLUSTERS: dict[str, tuple[int, Callable[..., Any]]] = {"vq": (-1, _nearest), "update_cluster_means": (-1, _means)}
_KINDS = ("jn", "yn", "in", "kn")
_SPHERICAL = [f"_spherical_{kind}{end}" for kind in _KINDS for end in ("", "_d")]
# Of a module of SciPy's, the compiled function's name: which argument it writes (-1: none), and the rule(theirs, *arguments)
RULES: dict[str, dict[str, tuple[int, Callable[..., Any]]]] = {
    "scipy.signal._peak_finding_utils": {
        "_local_maxima_1d": (-1, _peaks),
        "_select_by_peak_distance": (-1, _far_apart),
        "_peak_prominences": (-1, _prominences),
        "_peak_widths": (-1, _widths),
    },
    "scipy.ndimage._nd_image": {
        "min_or_max_filter1d": (3, _extreme_of_line),
        "min_or_max_filter": (3, _extreme),
        "generic_filter": (3, _of_neighbours),
        "fourier_filter": (4, _fourier_filter),
        "fourier_shift": (4, _fourier_shift),
    },
    "scipy.interpolate._ppoly": {
        "evaluate": (5, _evaluate),
        "integrate": (5, _integrate),
        "evaluate_bernstein": (5, _evaluate_bernstein),
        "real_roots": (-1, _real_roots),
    },
    "scipy.interpolate._dfitpack": {**_FITPACK, "regrid_smth": (-1, _through_grid)},
    "scipy.interpolate._fitpack": {**_FITPACK, "regrid": (-1, _through_grid_from)},  # from SciPy 1.18 on
    "scipy.cluster._vq": _CLUSTERS,
    "scipy.cluster.vq._vq": _CLUSTERS,  # from SciPy 1.18 on
    "scipy.optimize._pava_pybind": {
        "pava": (-1, _pooled),
    },
    "scipy.special._ufuncs": {
        "eval_gegenbauer": (-1, _gegenbauer),
        **dict.fromkeys(_SPHERICAL, (-1, _spherical)),
    },
}
