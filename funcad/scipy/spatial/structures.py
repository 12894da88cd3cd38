"""What space is made of: neighbours, hulls and triangulations of points, under the names of `scipy.spatial`.

Idea: which points are neighbours, and which make a facet, is asked of SciPy at the values, without derivative; distances,
volumes and weights are formulas of the points that were found. `structure` asks: at once where the values are known, else in a
callback, and how many there are is asked first, as `int` asks, so that jit finds a path and vmap goes lane by lane.
Invariant: an object made of plain points is asked about traced ones by the same formulas as one made of traced points.
Trap: where a neighbour changes, or a facet flips, the derivative is that of the side on which the values are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import numpy as fnp
from funcad.api.tools import ShapeDtypeStruct, stop_gradient
from funcad.control.callback import pure_callback
from funcad.errors import TracerArrayConversionError
from funcad.host.real_types import is_a
from funcad.ir.aval import shape_of
from funcad.ir.tracer import Tracer
from funcad.scipy.door import scipy_function
from funcad.scipy.sparse import coo_array

Like = tuple[type, tuple[int | None, ...]]  # of a result: its dtype, and its shape, None where it depends on the values


def structure(find: Callable[..., tuple[np.ndarray, ...]], like: Sequence[Like], *arrays: Any) -> tuple[Any, ...]:
    """What `find(*arrays)`, a tuple of NumPy arrays, says of the values: without derivative, in every transformation."""
    known = [stop_gradient(fnp.asarray(a)) for a in arrays]
    if all([is_a(a, (np.ndarray, np.generic)) for a in known]):
        return find(*known)
    host = lambda *values: tuple([np.asarray(r, dtype) for r, (dtype, _) in zip(find(*map(np.asarray, values)), like)])
    call = lambda f, results: pure_callback(f, results, *known, vmap_method="sequential")
    unknown = [(i, axis) for i, (_, shape) in enumerate(like) for axis, n in enumerate(shape) if n is None]
    if unknown:

        def sizes(*values: Any) -> np.ndarray:
            results = host(*values)
            return np.array([results[i].shape[axis] for i, axis in unknown], np.int64)

        asked = call(sizes, ShapeDtypeStruct((len(unknown),), np.dtype(np.int64)))
        found = {place: int(asked[k]) for k, place in enumerate(unknown)}
    shapes = [tuple([found[i, axis] if n is None else n for axis, n in enumerate(s)]) for i, (_, s) in enumerate(like)]
    return call(host, tuple([ShapeDtypeStruct(s, np.dtype(t)) for s, (t, _) in zip(shapes, like)]))  # type: ignore[no-any-return]


def is_plain(*values: Any) -> bool:
    """Is nothing traced here, so that SciPy's own answer is all that is asked for?"""
    return not any([type(x) is Tracer or type(x) in (list, tuple) and not is_plain(*x) for x in values])


def _joined(lists: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Lists of indices one behind the other, and the length of each."""
    lengths = np.array([len(a) for a in lists], np.int64)
    return np.concatenate([np.asarray(a, np.int64) for a in lists]) if len(lists) else np.zeros(0, np.int64), lengths


def _apart(indices: Any, lengths: Any, count: int) -> list[Any]:
    """The lists of `_joined`: Python's own where the values are known."""
    if type(indices) is np.ndarray:
        return [a.tolist() for a in np.split(indices, np.cumsum(lengths)[:-1])] if count else []
    ends = np.cumsum([int(lengths[i]) for i in range(count)])
    return [indices[end - int(lengths[i]) : end] for i, end in enumerate(ends)]


def _objects(lists: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return lists[0]
    out = np.empty(len(lists), object)
    for i, found in enumerate(lists):
        out[i] = found
    return out.reshape(shape)


# ---------------------------------------------------------------- neighbours


class KDTree:
    """`scipy.spatial.KDTree` of points that may be traced: neighbours from the values, distances with derivatives.

    `data` is (n, m). Parameters, methods and results are SciPy's: `leafsize`, `compact_nodes`, `copy_data` and
    `balanced_tree` are those of its tree. `x`, `data` and `boxsize` may be traced, orders of norms may not. In jit and vmap
    the lists of `query_ball_point` are arrays of indices, and `query_pairs` gives an array (`output_type="ndarray"`).

    >>> import numpy as np, funcad
    >>> from funcad.scipy.spatial import KDTree
    >>> nearest = lambda x: KDTree(np.array([[0.0, 0.0], [3.0, 4.0]])).query(x)[0]
    >>> funcad.grad(nearest)(np.array([0.0, 2.0]))
    array([0., 1.])
    """

    def __init__(
        self, data: Any, leafsize: int = 10, compact_nodes: bool = True, copy_data: bool = False, balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:  # fmt: skip
        self.data = fnp.astype(fnp.asarray(data), np.float64)
        if len(shape_of(self.data)) != 2:
            raise ValueError("data must be 2 dimensions")
        self.n, self.m = shape_of(self.data)
        self.leafsize, self.boxsize = (
            leafsize,
            None if boxsize is None else fnp.broadcast_to(fnp.asarray(boxsize), (self.m,)),
        )
        self._options = (leafsize, compact_nodes, copy_data, balanced_tree)
        self._made: Any = None  # SciPy's tree of known points
        if is_plain(self.data, self.boxsize):
            self._made = self._tree(self.data, *([] if boxsize is None else [self.boxsize]))
            self.data = self._made.data

    @classmethod
    def of(cls, theirs: Any) -> KDTree:
        """Of a tree of SciPy's."""
        mine = cls.__new__(cls)
        mine.data, mine.leafsize, mine._made = theirs.data, theirs.leafsize, theirs
        mine.boxsize = None if theirs.boxsize is None else np.asarray(theirs.boxsize)
        mine.n, mine.m = theirs.data.shape
        mine._options = (theirs.leafsize, True, False, True)
        return mine

    # what SciPy's tree has, too
    @property
    def maxes(self) -> Any:
        return fnp.max(self.data, axis=0)

    @property
    def mins(self) -> Any:
        return fnp.min(self.data, axis=0)

    def _points(self) -> list[Any]:
        return [self.data] if self.boxsize is None else [self.data, self.boxsize]

    def _tree(self, points: Any, box: Any = None) -> Any:
        return self._made if self._made is not None else scipy_function("spatial.cKDTree")(points, *self._options, box)

    def _asked(self, find: Callable[..., tuple[np.ndarray, ...]], like: Sequence[Like], *more: Any) -> tuple[Any, ...]:
        """`find(tree, *more)`, with SciPy's tree."""
        points = self._points()
        return structure(
            lambda *values: find(self._tree(*values[: len(points)]), *values[len(points) :]),
            like,
            *points,
            *more,
        )

    def _asked_beside(self, find: Callable[..., Any], like: Sequence[Like], other: KDTree, r: Any) -> tuple[Any, ...]:
        """`find(tree, other tree, r)`."""
        return self._asked(lambda tree, r, *points: find(tree, other._tree(*points), r), like, r, *other._points())

    def _distances(self, x: Any, y: Any, p: Any) -> Any:
        d = x - y
        if self.boxsize is not None:  # the nearest image of y
            box = self.boxsize
            d = fnp.where(box > 0, d - box * stop_gradient(fnp.round(d / fnp.where(box > 0, box, 1.0))), d)
        return fnp.linalg.norm(d, ord=p, axis=-1)

    def query(
        self,
        x: Any,
        k: Any = 1,
        eps: Any = 0.0,
        p: Any = 2.0,
        distance_upper_bound: Any = np.inf,
        workers: int = 1,
    ) -> tuple[Any, Any]:
        """Distances, which are differentiable, and indices of the `k` nearest points; both as SciPy's.

        Where there are fewer than `k` within the bound, the distance is infinite and the index n.
        """
        if is_plain(x, distance_upper_bound) and self._made is not None:
            return self._made.query(x, k, eps, p, distance_upper_bound, workers)  # type: ignore[no-any-return]
        x = fnp.astype(fnp.asarray(x), np.float64)
        lead = shape_of(x)[:-1]
        if not shape_of(x) or shape_of(x)[-1] != self.m:
            raise ValueError(f"x must consist of vectors of length {self.m} but has shape {shape_of(x)}")
        whole = is_a(k, (int, np.integer))
        columns = () if whole and k == 1 else (int(k) if whole else len(k),)
        find = lambda tree, x, r: (np.asarray(tree.query(x, k, eps, p, float(r), workers)[1], np.int64),)
        (at,) = self._asked(find, [(np.int64, (*lead, *columns))], x, distance_upper_bound)
        there = at < self.n
        nearest = fnp.asarray(self.data)[fnp.where(there, at, 0)]
        distances = self._distances(x[..., None, :] if columns else x, nearest, p)
        return fnp.where(there, distances, np.inf), at

    def query_ball_point(
        self, x: Any, r: Any, p: Any = 2.0, eps: Any = 0, workers: int = 1, return_sorted: bool | None = None,
        return_length: bool = False,
    ) -> Any:  # fmt: skip
        """The indices of the points within `r` of each x, or how many there are."""
        if is_plain(x, r) and self._made is not None:
            return self._made.query_ball_point(x, r, p, eps, workers, return_sorted, return_length)
        lead = shape_of(fnp.asarray(x))[:-1]
        find = lambda tree, x, r: tree.query_ball_point(x, r, p, eps, workers, return_sorted, return_length)
        if return_length:
            return self._asked(lambda *a: (np.asarray(find(*a), np.int64),), [(np.int64, lead)], x, r)[0]
        lists = lambda *a: _joined(list(np.asarray(find(*a), object).ravel()) if lead else [find(*a)])
        count = math.prod(lead)
        found = _apart(*self._asked(lists, [(np.int64, (None,)), (np.int64, (count,))], x, r), count)
        if not lead:
            return found[0]
        out = np.empty(count, object)
        for i, indices in enumerate(found):
            out[i] = indices
        return out.reshape(lead)

    def query_ball_tree(self, other: Any, r: Any, p: Any = 2.0, eps: Any = 0) -> list[Any]:
        """For each point of this tree, the indices of the points of another one within `r`."""
        find = lambda mine, theirs, r: _joined(mine.query_ball_tree(theirs, float(r), p, eps))
        like: list[Like] = [(np.int64, (None,)), (np.int64, (self.n,))]
        return _apart(*self._asked_beside(find, like, tree_of(other), r), self.n)

    def query_pairs(self, r: Any, p: Any = 2.0, eps: Any = 0, output_type: str = "set") -> Any:
        """The pairs (i, j), i < j, of points within `r` of each other."""
        if output_type not in ("set", "ndarray"):
            raise ValueError(f"Invalid output type: {output_type}")
        pairs = lambda tree, r: (np.asarray(tree.query_pairs(float(r), p, eps, "ndarray"), np.int64),)
        (found,) = self._asked(pairs, [(np.int64, (None, 2))], r)
        if output_type == "ndarray":
            return found
        return set(map(tuple, _values(found).tolist()))

    def count_neighbors(self, other: Any, r: Any, p: Any = 2.0, weights: Any = None, cumulative: bool = True) -> Any:
        """How many pairs of points of two trees are within each r. It has no derivative; weights must not be traced."""
        if not is_plain(weights):
            raise TypeError(
                "KDTree.count_neighbors got traced weights, for which SciPy's compiled code has no derivative.\n"
                "Remedy: sum weights[i] * weights[j] over the pairs of sparse_distance_matrix or query_pairs."
            )
        find = lambda mine, theirs, r: (np.asarray(mine.count_neighbors(theirs, r, p, weights, cumulative)),)
        kind = np.int64 if weights is None else np.float64
        return self._asked_beside(find, [(kind, shape_of(r))], tree_of(other), r)[0]

    def sparse_distance_matrix(self, other: Any, max_distance: Any, p: Any = 2.0, output_type: str = "dok_matrix") -> Any:
        """The distances of points of two trees up to a bound, with derivatives: a sparse array of funcad's, or a dict.

        Its places are asked for; inside jit and vmap they have no values, and TypeError says what to write.
        """
        if output_type not in ("dok_matrix", "coo_matrix", "dict"):
            raise ValueError(
                f"sparse_distance_matrix(output_type={output_type!r}) is not there for traced points.\n"
                "Remedy: 'coo_matrix', whose row, col and data are arrays."
            )
        other = tree_of(other)

        def find(mine: Any, theirs: Any, r: Any) -> tuple[np.ndarray, ...]:
            found = mine.sparse_distance_matrix(theirs, float(r), p, "ndarray")
            return found["i"].astype(np.int64), found["j"].astype(np.int64)

        places = self._asked_beside(find, [(np.int64, (None,))] * 2, other, max_distance)
        i, j = [_values(v) for v in places]
        distances = self._distances(fnp.asarray(self.data)[i], fnp.asarray(other.data)[j], p)
        if output_type == "dict":
            return {(int(a), int(b)): distances[k] for k, (a, b) in enumerate(zip(i, j))}
        return coo_array((distances, (i, j)), shape=(self.n, other.n))


class cKDTree(KDTree):
    """`scipy.spatial.cKDTree`, as `KDTree`, with 16 points in a leaf: `data`, `leafsize`, `boxsize` ... are as there.

    `compact_nodes`, `copy_data` and `balanced_tree` are those of SciPy's tree.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import cKDTree
    >>> float(cKDTree(np.array([[0.0, 0.0], [3.0, 4.0]])).query([0.0, 1.0])[0])
    1.0
    """

    def __init__(
        self, data: Any, leafsize: int = 16, compact_nodes: bool = True, copy_data: bool = False, balanced_tree: bool = True,
        boxsize: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(data, leafsize, compact_nodes, copy_data, balanced_tree, boxsize)


def tree_of(tree: Any) -> KDTree:
    """funcad's tree of a tree, which may be SciPy's, or have funcad's behind it (doors/scipy_answers.py)."""
    tree = getattr(tree, "__dict__", {}).get("_funcad", tree)
    return tree if isinstance(tree, KDTree) else KDTree.of(tree)


def _values(found: Any) -> np.ndarray:
    """Indices that are keys: their values, asked one by one where there is only a trace."""
    if type(found) is np.ndarray:
        return found
    return np.array([int(i) for i in found.reshape(-1)], np.int64).reshape(found.shape)


# ---------------------------------------------------------------- hulls and triangulations


_NUMERIC = (
    "equations",
    "paraboloid_scale",
    "paraboloid_shift",
    "plane_distance",
    "lift_points",
    "add_points",
)  # SciPy's


class _Figure:
    """A figure that SciPy's qhull finds over points: what is combinatorial comes from there, numbers are formulas below."""

    kind = ""
    structural = ""  # attributes of SciPy's figure that have no derivative

    def __init__(self, points: Any, *args: Any, **kwargs: Any) -> None:
        self.points = fnp.astype(fnp.asarray(points), np.float64)
        if len(shape_of(self.points)) != 2:
            raise ValueError("`points` must be a two-dimensional array")
        if kwargs.pop("incremental", False) or args and args[-1] is True:
            raise TypeError(f"{self.kind}(incremental=True) is not for traced points.\nRemedy: make it anew from all points.")
        self.npoints, self.ndim = shape_of(self.points)
        find = scipy_function(f"spatial.{self.kind}")
        self._theirs = None
        known = stop_gradient(self.points)
        if type(known) is np.ndarray:
            self._theirs = find(known, *args, **kwargs)
            return
        like = self._like(self.ndim)

        def read(points: Any) -> tuple[np.ndarray, ...]:
            figure = find(points, *args, **kwargs)
            return tuple([self._read(figure, name) for name in like])

        self.__dict__.update(zip(like, structure(read, list(like.values()), known)))

    def _like(self, d: int) -> dict[str, Like]:
        """What is asked for where points have no values."""
        return {"simplices": (np.int64, (None, d)), "neighbors": (np.int64, (None, d))}

    def _read(self, figure: Any, name: str) -> np.ndarray:
        return np.asarray(getattr(figure, name))

    @classmethod
    def of(cls, theirs: Any) -> Any:
        """Of a figure of SciPy's."""
        mine = cls.__new__(cls)
        mine.points, mine._theirs = np.asarray(theirs.points), theirs
        mine.npoints, mine.ndim = mine.points.shape
        return mine

    def __getattr__(self, name: str) -> Any:
        theirs = self.__dict__.get("_theirs")
        if theirs is not None and name in self.structural.split():
            return getattr(theirs, name)
        if name not in (*self.structural.split(), *_NUMERIC) or name[:1] == "_":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        remedy = f"Remedy: {self.kind}(funcad.stop_gradient(points)), outside of jit and vmap, has it, without derivative."
        if name in _NUMERIC:
            raise AttributeError(f"{self.kind}.{name} of traced points: funcad has no formula for it.\n{remedy}")
        raise TracerArrayConversionError(f"{self.kind}.{name} of traced points has no value inside jit and vmap.\n{remedy}")

    @property
    def nsimplex(self) -> int:
        return shape_of(self.simplices)[0]

    @property
    def min_bound(self) -> Any:
        return fnp.min(self.points, axis=0)

    @property
    def max_bound(self) -> Any:
        return fnp.max(self.points, axis=0)


class ConvexHull(_Figure):
    """`scipy.spatial.ConvexHull` of points that may be traced, (n, d): volume, area and equations with their derivatives.

    `simplices`, `neighbors` and `vertices` are found from the values. `incremental` is refused.

    >>> import numpy as np, funcad
    >>> from funcad.scipy.spatial import ConvexHull
    >>> corners = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    >>> funcad.grad(lambda x: ConvexHull(x).volume)(corners).round(6)
    array([[-0.5, -1. ],
           [ 0.5, -1. ],
           [ 0.5,  1. ],
           [-0.5,  1. ]])
    """

    kind, structural = "ConvexHull", "simplices neighbors vertices good coplanar"

    def _like(self, d: int) -> dict[str, Like]:
        return {**super()._like(d), "vertices": (np.int64, (None,))}

    def _facets(self) -> tuple[Any, Any]:
        """The corners of each facet, seen from a point inside, which may be any: no result depends on it."""
        inside = stop_gradient(fnp.mean(self.points[self.vertices], axis=0))
        return self.points[self.simplices] - inside, inside

    @property
    def volume(self) -> Any:
        """The volume inside: of the simplices over the facets, with their tips inside. In the plane, the area."""
        corners, _ = self._facets()
        return fnp.sum(abs(fnp.linalg.det(corners))) / math.factorial(self.ndim)

    @property
    def area(self) -> Any:
        """The area of the facets, by Gram's determinants. In the plane, the perimeter."""
        corners, _ = self._facets()
        edges = corners[:, 1:] - corners[:, :1]
        gram = fnp.linalg.det(fnp.matmul(edges, fnp.swapaxes(edges, 1, 2)))
        return fnp.sum(fnp.sqrt(gram)) / math.factorial(self.ndim - 1)

    @property
    def equations(self) -> Any:
        """For each facet its outward normal n, of length 1, and b: the inside has n @ x + b <= 0."""
        corners, inside = self._facets()
        outward = fnp.linalg.solve(corners, fnp.ones_like(corners[..., :1]))[..., 0]
        length = fnp.linalg.norm(outward, axis=1, keepdims=True)
        normal = outward / length
        return fnp.concatenate([normal, -1.0 / length - fnp.matmul(normal, inside[:, None])], axis=1)


class Delaunay(_Figure):
    """`scipy.spatial.Delaunay` triangulation of points that may be traced, (n, d): simplices and barycentric weights.

    `simplices`, `neighbors` and `find_simplex` are found from the values; `transform` has derivatives. `incremental` is
    refused.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import Delaunay
    >>> triangles = Delaunay(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0]]))
    >>> triangles.find_simplex(np.array([[0.5, 0.25], [3.0, 3.0]]))
    array([ 0, -1], dtype=int32)
    """

    kind = "Delaunay"
    structural = "simplices neighbors coplanar good vertex_to_simplex vertex_neighbor_vertices convex_hull furthest_site"

    def __init__(self, points: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(points, *args, **kwargs)
        self._options = (args, kwargs)

    def _like(self, d: int) -> dict[str, Like]:
        return {"simplices": (np.int64, (None, d + 1)), "neighbors": (np.int64, (None, d + 1))}

    @property
    def transform(self) -> Any:
        """For each simplex the inverse of the matrix of its edges to its last corner, and that corner below."""
        corners = self.points[self.simplices]
        edges = fnp.swapaxes(corners[:, :-1] - corners[:, -1:], 1, 2)
        return fnp.concatenate([fnp.linalg.inv(edges), corners[:, -1:]], axis=1)

    def find_simplex(self, xi: Any, bruteforce: bool = False, tol: float | None = None) -> Any:
        """The number of the simplex in which each point lies, or -1; without derivative."""
        xi = fnp.asarray(xi)
        if self._theirs is not None:
            find = lambda x: (np.asarray(self._theirs.find_simplex(x, bruteforce, tol)),)
            return structure(find, [(np.int32, shape_of(xi)[:-1])], xi)[0]
        args, kwargs = self._options
        make = scipy_function("spatial.Delaunay")
        find_in = lambda x, points: (np.asarray(make(points, *args, **kwargs).find_simplex(x, bruteforce, tol)),)
        return structure(find_in, [(np.int32, shape_of(xi)[:-1])], xi, self.points)[0]


class Voronoi(_Figure):
    """`scipy.spatial.Voronoi` diagram of points that may be traced, (n, d): `vertices` with their derivatives.

    A vertex is the centre of the sphere through d + 1 of its points, which are found from the values, as are `ridge_points`,
    `ridge_vertices`, `regions` and `point_region` where values are known. `incremental` is refused.

    >>> import numpy as np
    >>> from funcad.scipy.spatial import Voronoi
    >>> Voronoi(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [3.0, 3.0]])).vertices
    array([[1.  , 1.  ],
           [1.75, 1.75]])
    """

    kind, structural = (
        "Voronoi",
        "ridge_points ridge_vertices regions point_region furthest_site _around",
    )

    def _like(self, d: int) -> dict[str, Like]:
        regions = {"ridge_points": (np.int64, (None, 2)), "point_region": (np.int64, (self.npoints,))}
        return {"_around": (np.int64, (None, d + 1)), **regions}

    def _read(self, figure: Any, name: str) -> np.ndarray:
        return _around(figure) if name == "_around" else super()._read(figure, name)

    @property
    def vertices(self) -> Any:
        around = self.__dict__["_around"] if self._theirs is None else _around(self._theirs)
        corners = self.points[around]
        edges = corners[:, 1:] - corners[:, :1]
        half = fnp.sum(edges * edges, axis=2, keepdims=True) / 2.0
        return corners[:, 0] + fnp.linalg.solve(edges, half)[..., 0]


def _around(figure: Any) -> np.ndarray:
    """For each vertex of a Voronoi diagram d + 1 points that are equally far from it and in no common plane."""
    d = figure.points.shape[1]
    near: list[set[int]] = [set() for _ in figure.vertices]
    for points, vertices in zip(figure.ridge_points, figure.ridge_vertices):
        for v in vertices:
            if v >= 0:
                near[v].update(map(int, points))
    found = np.empty((len(near), d + 1), np.int64)
    for v, points in enumerate(near):
        chosen = sorted(points)
        edges = figure.points[chosen[1:]] - figure.points[chosen[0]]
        if len(chosen) > d + 1:  # pivots: the edges that span the most
            order = scipy_function("linalg.qr")(edges.T, mode="r", pivoting=True)[1][:d]
            chosen = [chosen[0], *[chosen[1 + k] for k in order]]
        found[v] = chosen
    return found
