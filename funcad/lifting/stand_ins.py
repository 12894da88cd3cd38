"""What stands in for helpers of NumPy's and SciPy's in lifted code (own_code.py): those that pick elements, or look at memory.

Idea: helpers that compute elements by a mask are told elementwise, since nobody knows how many elements a mask without a
value picks: both branches of all elements, and a selection. Helpers that look at memory are told by the places of elements, and
give views.
Invariant: with nothing traced the result is the library's. Trap: an unselected branch reaches no derivative, so it is computed
quietly.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.errors import WriteError
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.real_types import strided
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer, snapshot
from funcad.numpy.dispatch import is_traced, where_am_i
from funcad.numpy.promote import as_array
from funcad.numpy.views import placed
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.linear_systems import triangular_inverse
from funcad.primitives.shape import reshape
from funcad.writes.boxes import ViewStep, linked
from funcad.writes.plain import PLAIN


def array_behind(x: Any) -> Any:
    """The array, of one that was made here and has nothing traced in it; everything else as it is."""
    return PLAIN.value(x) if type(x) is Tracer and x.owner is PLAIN else x


def quietly(f: Callable[..., Any], *args: Any) -> Any:
    """The function's value, without NumPy's warnings of elements that are not selected."""
    token = suppress_warnings()
    try:
        with np.errstate(all="ignore"):
            return f(*args)
    finally:
        restore_warnings(token)


def _apply_where(
    cond: Any,
    args: Any,
    f1: Any,
    f2: Any = None,
    /,
    *,
    fill_value: Any = None,
    xp: Any = None,
    **options: Any,
) -> Any:
    """`xpx.apply_where`: both functions of all elements, and the selection of their results."""
    operands = args if isinstance(args, tuple) else (args,)
    if not is_traced(operands) and not is_traced((cond,)):  # a closure may hold what is traced
        held = np.broadcast_arrays(cond, *operands)
        if held[0].all() and held[0].size:
            return f1(*held[1:])
        if not held[0].any() and f2 is not None and held[0].size:
            return f2(*held[1:])
    fnp = Tracer.namespace.numpy
    cond, *operands = fnp.broadcast_arrays(cond, *operands)
    first = of_elements(f1, operands)
    other = fill_value if f2 is None else of_elements(f2, operands)
    return fnp.where(cond, first, other)


def of_elements(f: Callable[..., Any], operands: Sequence[Any]) -> Any:
    """f of arrays that have an axis at least, as those are that a mask picks."""
    out = quietly(f, *[x if np.ndim(x) else np.reshape(x, (1,)) for x in operands])
    return out if np.ndim(operands[0]) or not np.ndim(out) else np.reshape(out, ())


def _lazyselect(
    condlist: Sequence[Any],
    choicelist: Sequence[Any],
    arrays: Any,
    default: Any = 0,
) -> Any:
    """`_lazyselect`: of conditions that overlap the last one holds."""
    fnp = Tracer.namespace.numpy
    arrays = fnp.broadcast_arrays(*arrays)
    out = fnp.full(np.shape(arrays[0]), default, dtype=np.result_type(*arrays, np.float32))
    for cond, f in zip(condlist, choicelist):
        out = fnp.where(cond, of_elements(f, arrays), out)
    return out


class _IndexedCopy:
    """`xpx.at(x, i).set(y)`: writes what this code made, and gives a new array in the place of all others."""

    def __init__(self, x: Any, index: Any = None, /):
        self.x, self.index = x, index

    def __getitem__(self, index: Any) -> _IndexedCopy:
        return _IndexedCopy(self.x, index)

    def set(self, y: Any, /, copy: Any = None, xp: Any = None) -> Any:
        fnp, x = Tracer.namespace.numpy, self.x
        if copy is not True and type(x) is Tracer and x.ndim and x.box is not None:  # it was made by this code
            x[self.index] = y
            return x
        if is_traced((self.x, self.index, y)):
            return fnp.at(fnp.asarray(self.x))[self.index].set(y)
        out = np.array(self.x)
        out[self.index] = y
        return out

    def _updated(ufunc: np.ufunc) -> Callable[..., Any]:  # type: ignore[misc]
        def update(self: _IndexedCopy, y: Any, /, copy: Any = None, xp: Any = None) -> Any:
            return self.set(ufunc(Tracer.namespace.numpy.asarray(self.x)[self.index], y))

        return update

    add, subtract, multiply = (
        _updated(np.add),
        _updated(np.subtract),
        _updated(np.multiply),
    )
    divide, power, min, max = (
        _updated(np.divide),
        _updated(np.power),
        _updated(np.minimum),
        _updated(np.maximum),
    )


def _trimseq(seq: Any) -> Any:
    """`trimseq` of polynomials: of traced coefficients none goes, since one that is zero now has a derivative all the same."""
    if type(seq) is Tracer or not len(seq):
        return seq
    return seq[: max(np.flatnonzero(seq), default=0) + 1]


class _InMemory(ViewStep):
    """Elements at known places of the base, counted in C's order; an element may be in several windows."""

    __slots__ = ("places", "of_memory", "writeable")

    def __init__(self, places: np.ndarray, of_memory: Callable[[np.ndarray], np.ndarray], writeable: bool):
        self.places, self.of_memory, self.writeable = places, of_memory, writeable

    def look(self, base: Any) -> Any:
        return np.take(reshape(snapshot(base), shape=(aval_of(base).size,)), self.places)

    def put(self, base: Any, value: Any) -> Any:
        if not self.writeable:
            raise ValueError("assignment destination is read-only")
        if np.unique(self.places).size < self.places.size:
            raise WriteError(
                f"a write{where_am_i()} into overlapping windows (as_strided, sliding_window_view): which value of an "
                "element stays is not known here.\nRemedy: write into the array that the windows are of; they see it."
            )
        return placed(base, self.places, value)

    def lies(self, layout: np.ndarray) -> np.ndarray:
        return self.of_memory(layout)


def _as_strided(
    x: Any,
    shape: Any = None,
    strides: Any = None,
    subok: bool = False,
    writeable: bool = True,
    **options: Any,
) -> Any:
    """`as_strided` of a traced array: its elements, by where they lie in memory."""
    if not is_traced((x,)):
        return np.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable, **options)
    x = as_array(x)
    own, size = x.strides, x.itemsize
    shape, strides = x.shape if shape is None else shape, own if strides is None else strides
    held, asked = _offsets(x.shape, own) // size, _offsets(shape, strides) // size
    places = np.full(held.max() - held.min() + 1, -1)
    places[held - held.min()] = np.arange(held.size).reshape(held.shape)
    asked = asked - held.min()
    if asked.size and (asked.min() < 0 or asked.max() >= places.size or (places[asked] < 0).any()):
        raise ValueError(
            f"as_strided{where_am_i()} reaches beyond the memory of a traced array of shape {x.shape}.\n"
            "Remedy: np.lib.stride_tricks.sliding_window_view, whose windows lie inside."
        )
    return _seen(x, _InMemory(places[asked], lambda layout: strided(layout, shape, strides), writeable))


def _sliding_window_view(
    x: Any,
    window_shape: Any,
    axis: Any = None,
    *,
    subok: bool = False,
    writeable: bool = False,
) -> Any:
    """`sliding_window_view` of a traced array, by its elements' places."""
    windows = lambda x: np.lib.stride_tricks.sliding_window_view(x, window_shape, axis, subok=subok, writeable=writeable)
    if not is_traced((x,)):
        return windows(x)
    x = as_array(x)
    return _seen(x, _InMemory(windows(np.arange(x.size).reshape(x.shape)), windows, writeable))


def _seen(x: Tracer, step: _InMemory) -> Any:
    return linked(step.look(x), x, step)


def _neighbours(points: Any, *args: Any, **kwargs: Any) -> Any:
    """`cKDTree`, which takes traced points as `KDTree` does."""
    points = array_behind(points)
    spatial = Tracer.namespace.scipy.spatial if is_traced((points,)) else sys.modules["scipy.spatial"]
    return spatial.KDTree(points, *args, **kwargs)


def _by_nodes(
    x: Any,
    points: Any,
    weights: Any,
    values: Any,
    over: Any,
    sums: Callable[[Any], tuple[Any, Any]],
) -> Any:
    """The quotient of two sums over nodes, and at a node its value, with the derivatives of the quotient there, too.

    `sums` gives both of the terms `over / (x - points)`, of which that of x's own node is left out.
    """
    apart = x[:, None] - points
    at = apart == 0.0
    node = at.any(axis=1)[:, None]
    top, bottom = sums(np.where(at, 0.0, over / np.where(at, 1.0, apart)))
    k = np.argmax(at, axis=1)
    value, step = values[k], (x - points[k])[:, None]
    beside = step * (top - value * bottom) / np.where(node, weights[k][:, None] + step * bottom, 1.0)
    return np.where(node, value + beside, top / np.where(node, 1.0, bottom))


def _rational(self: Any, z: Any) -> Any:
    """`FloaterHormannInterpolator.__call__`, whose own code writes the values of nodes over 0/0."""
    fnp, weights = Tracer.namespace.numpy, self.weights[:, None]
    z = fnp.asarray(z)
    x, values = z.ravel(), fnp.reshape(self._support_values, (len(self.weights), -1))
    far = np.isinf(x)
    points, products = self._support_points, weights * values
    sums = lambda terms: (terms @ products, terms @ weights)
    r = quietly(_by_nodes, np.where(far, 0.5, x), points, self.weights, values, 1.0, sums)
    r = np.where(far[:, None], np.sum(products, axis=0) / np.sum(weights), r).reshape(z.shape + self._shape)
    return np.moveaxis(r, 0, self._axis) if z.ndim else r


def _polynomial(self: Any, x: Any) -> Any:
    """`BarycentricInterpolator._evaluate`, likewise."""
    sums = lambda terms: (terms @ self.yi, np.sum(terms, axis=-1)[:, None])
    return quietly(_by_nodes, x, self.xi, self.wi, self.yi, self.wi, sums)


def _psd(self: Any, M: Any, *args: Any, **kwargs: Any) -> None:
    """`_PSD.__init__`, whose own code goes through eigenvectors, which have no derivative where eigenvalues coincide.

    What its users read does not depend on their choice: the pseudo-inverse U U^T and the logarithm of the determinant. With
    the U of the values and D = U^T (M - values) U these are U (1 + D)^-1 U^T and log det (1 + D) more. D is zero, its
    derivative is not. Of a singular matrix only what moves within its range counts.
    """
    theirs = sys.modules["scipy.stats._multivariate"]
    own = importlib.import_module("funcad.lifting.own_code").lifted(theirs._PSD.__init__)
    if not is_traced((M,)):
        return own(self, M, *args, **kwargs)  # type: ignore[no-any-return]
    fnp, M = Tracer.namespace.numpy, as_array(M)
    values = stop_gradient(M)
    own(self, values, *args, **kwargs)
    self._M = M
    change = self.U.T @ (M - values) @ self.U
    factor = fnp.linalg.cholesky(np.eye(len(M)) + change)
    self.U = self.U @ triangular_inverse(factor).T
    self.log_pdet = self.log_pdet + 2.0 * fnp.sum(fnp.log(fnp.diagonal(factor)))


def _offsets(shape: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """How far each element is from the first one, in bytes."""
    steps = [np.arange(n) * s for n, s in zip(shape, strides)]
    return np.asarray(sum(np.ix_(*steps)) if steps else 0)


def _datacopied(arr: Any, original: Any) -> bool:
    """`_datacopied`: what is traced shares no memory that compiled code might write."""
    return arr is not original and (type(arr) is Tracer or arr.base is None)


# name -> where the library has it, and what stands in
HELPERS: dict[str, tuple[str, Any]] = {
    "apply_where": ("scipy._", _apply_where),
    "_lazyselect": ("scipy._", _lazyselect),
    "_datacopied": ("scipy.linalg.", _datacopied),
    "at": ("scipy._", _IndexedCopy),
    "trimseq": ("numpy.polynomial.", _trimseq),
    "cKDTree": ("scipy.spatial._ckdtree", _neighbours),
    "as_strided": ("numpy.lib.", _as_strided),
    "sliding_window_view": ("numpy.lib.", _sliding_window_view),
    "_BarycentricRational.__call__": ("scipy.interpolate.", _rational),
    "BarycentricInterpolator._evaluate": ("scipy.interpolate.", _polynomial),
    "_PSD.__init__": ("scipy.stats.", _psd),
}


def helper(f: Any) -> Any:
    """What stands in for a helper, or None."""
    found = HELPERS.get(getattr(f, "__qualname__", None) or "")
    return found[1] if found is not None and str(f.__module__).startswith(found[0]) else None
