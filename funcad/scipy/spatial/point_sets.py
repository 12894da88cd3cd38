"""Functions of whole sets of points under the names of `scipy.spatial`, by their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.api.tools import stop_gradient
from funcad.ir.aval import dtype_of, shape_of
from funcad.scipy.door import implements


def _array(x: Any) -> Any:
    x = fnp.asarray(x)
    return fnp.astype(x, np.promote_types(dtype_of(x), np.float64))


@implements("spatial.minkowski_distance_p")
def minkowski_distance_p(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance_p`: the sum of |x - y|**p along the last axis, its maximum for p = inf.

    >>> from funcad.scipy.spatial import minkowski_distance_p
    >>> minkowski_distance_p([[0, 0], [0, 0]], [[1, 1], [0, 1]])
    array([2., 1.])
    """
    apart = abs(fnp.atleast_1d(_array(y) - _array(x)))
    if p == np.inf:
        return fnp.max(apart, axis=-1)
    return fnp.sum(apart if p == 1 else apart**p, axis=-1)


@implements("spatial.minkowski_distance")
def minkowski_distance(x: Any, y: Any, p: Any = 2.0) -> Any:
    """`scipy.spatial.minkowski_distance`: the norm of x - y of order p along the last axis; p is no traced value.

    >>> from funcad.scipy.spatial import minkowski_distance
    >>> minkowski_distance([[0, 0], [0, 0]], [[3, 4], [0, 1]])
    array([5., 1.])
    """
    return fnp.linalg.norm(fnp.atleast_1d(_array(y) - _array(x)), ord=p, axis=-1)


@implements("spatial.procrustes")
def procrustes(data1: Any, data2: Any) -> tuple[Any, Any, Any]:
    """`scipy.spatial.procrustes`: two sets of points, (n, d), centred and scaled, the second turned onto the first.

    Gives both sets, and the sum of the squares of what is left between them.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import procrustes
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    >>> procrustes(corners, 3.0 * corners[:, ::-1])[2].round(6)
    np.float64(0.0)
    """
    a, b = _array(data1), _array(data2)
    if len(shape_of(a)) != 2 or len(shape_of(b)) != 2:
        raise ValueError("Input matrices must be two-dimensional")
    if shape_of(a) != shape_of(b):
        raise ValueError("Input matrices must be of same shape")
    if not a.size:
        raise ValueError("Input matrices must be >0 rows and >0 cols")
    a, b = a - fnp.mean(a, axis=0), b - fnp.mean(b, axis=0)
    a, b = a / fnp.linalg.norm(a), b / fnp.linalg.norm(b)
    u, s, vt = fnp.linalg.svd(fnp.matmul(fnp.transpose(a), b))
    b = fnp.matmul(b, fnp.matmul(fnp.transpose(vt), fnp.transpose(u))) * fnp.sum(s)
    return a, b, fnp.sum((a - b) ** 2)


@implements("spatial.geometric_slerp")
def geometric_slerp(start: Any, end: Any, t: Any, tol: float = 1e-7) -> Any:
    """`scipy.spatial.geometric_slerp`: places on the great circle from `start` to `end`, (d,), at shares t from 0 to 1.

    That both lie on the unit sphere and are not opposite is checked where the values are known.

    >>> from funcad.scipy.spatial import geometric_slerp
    >>> geometric_slerp([1.0, 0.0], [0.0, 1.0], 1.0).round(6)
    array([0., 1.])
    """
    start, end, t = _array(start), _array(end), _array(t)
    if len(shape_of(start)) != 1 or len(shape_of(end)) != 1:
        raise ValueError("Start and end coordinates must be one-dimensional")
    if shape_of(start) != shape_of(end):
        raise ValueError("The dimensions of start and end must match (have same size)")
    known, other = stop_gradient(start), stop_gradient(end)
    for point in (known, other):
        if type(point) is np.ndarray and not np.allclose(np.linalg.norm(point), 1.0, rtol=1e-9, atol=0):
            raise ValueError("start and end are not on a unit n-sphere")
    cosine, sine = fnp.dot(start, end), fnp.linalg.norm(end - fnp.dot(start, end) * start)
    angle = fnp.arctan2(sine, cosine)
    near = sine < tol
    over = fnp.where(near, 1.0, sine)
    one = fnp.where(near, 1.0 - t, fnp.sin((1.0 - t) * angle) / over)
    two = fnp.where(near, t, fnp.sin(t * angle) / over)
    return one[..., None] * start + two[..., None] * end


@implements("spatial.tsearch")
def tsearch(tri: Any, xi: Any) -> Any:
    """`scipy.spatial.tsearch`: the simplices of a Delaunay triangulation in which points lie; without derivative.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import Delaunay, tsearch
    >>> tsearch(Delaunay(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]])), np.array([[0.5, 0.25]]))
    array([0], dtype=int32)
    """
    return tri.find_simplex(xi)
