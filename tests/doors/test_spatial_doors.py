"""SciPy's own names of scipy.spatial, imported as users import them, on traced values in every transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from scipy.spatial import ConvexHull, Delaunay, KDTree, Voronoi, cKDTree, distance_matrix
from scipy.spatial.distance import cdist, euclidean, pdist, squareform
from scipy.spatial.transform import Rotation, Slerp

import funcad as fc
from funcad import config
from funcad.testing import check_grads

RNG = np.random.default_rng(0)
X, Q, V = RNG.uniform(size=(30, 2)), RNG.uniform(size=(7, 2)), RNG.normal(size=(4, 3))
VALUES = RNG.normal(size=30)
TREE, TRIANGLES, TURNS = KDTree(X), Delaunay(X), Rotation.from_rotvec(V)
LINEAR, NEAREST = LinearNDInterpolator(X, VALUES), NearestNDInterpolator(X, VALUES)
PYTHONS = tuple(map(int, scipy.__version__.split(".")[:2])) >= (1, 17)  # rotations were compiled before


def distances(x: Any) -> Any:
    squares = np.sum(cdist(x, x) ** 2) + pdist(x, "cosine").sum()
    return squares + squareform(pdist(x)).sum() + euclidean(x[0], x[1]) + distance_matrix(x, Q).sum()


def hull(x: Any) -> Any:
    found = ConvexHull(x)
    return found.volume * found.area + x[found.vertices].sum()


def tree(x: Any) -> Any:
    mine = KDTree(x)
    nearest, at = mine.query(x, k=2)
    pairs = mine.query_pairs(0.2, output_type="ndarray")
    close = np.sum((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2) + mine.count_neighbors(mine, 0.1)
    return nearest.sum() + close + mine.n + sum([np.sum(x[i]) for i in mine.query_ball_tree(TREE, 0.1)[:2]])


def tree_of_numbers(x: Any) -> Any:
    return TREE.query(x[:5] * 0.9)[0].sum() + sum([np.sum(X[i]) for i in TREE.query_ball_point(x[:3], 0.2)])


def triangles(x: Any) -> Any:
    return np.sum(Delaunay(x).transform[:5]) + TRIANGLES.find_simplex(x[:3] * 0.5 + 0.2).sum()


def diagram(x: Any) -> Any:
    return np.sum(Voronoi(x).vertices[:3])


def scattered(x: Any) -> Any:
    y = x[:4] * 0.3 + 0.35
    of_traced = np.nansum(LinearNDInterpolator(x, VALUES)(Q * 0.3 + 0.35)) + LinearNDInterpolator(X, x[:, 0])(0.5, 0.5)
    return np.nansum(LINEAR(y)) + NEAREST(y).sum() + of_traced


def rotations(v: Any) -> Any:
    turned = np.sum(Rotation.from_rotvec(v).apply(V) ** 2 * np.arange(3)) + (TURNS.apply(v) * np.arange(3)).sum()
    between = Slerp([0, 1, 2, 3], TURNS)(v[:, 0] ** 2 / 9).magnitude().sum()
    return turned + between + (TURNS * Rotation.from_euler("xyz", v)).magnitude().sum()


PROGRAMS = [distances, hull, tree, tree_of_numbers, triangles, diagram, scattered]


@pytest.mark.parametrize("f", [*PROGRAMS, pytest.param(rotations, marks=pytest.mark.skipif(not PYTHONS, reason="compiled"))])
def test_scipys_names(f: Any) -> None:
    x = V if f is rotations else X
    check_grads(f, (x,), order=1, rtol=1e-4)
    value, slope = f(x), fc.grad(f)(x)
    jitted, both = fc.jit(f), fc.jit(fc.grad(f))
    for _ in range(2):
        np.testing.assert_allclose(jitted(x), value, rtol=1e-12)
        np.testing.assert_allclose(both(x), slope, rtol=1e-10, atol=1e-12)
    other = x * 0.9 + 0.01
    np.testing.assert_allclose(fc.vmap(f)(np.stack([x, other])), [value, f(other)], rtol=1e-10)
    np.testing.assert_allclose(both(other), fc.grad(f)(other), rtol=1e-9, atol=1e-12)


def test_lists_of_neighbours_are_those_of_the_values() -> None:
    """Molecular dynamics: a list of neighbours that changes as the particles move, in every transformation."""

    def energy(x: Any) -> Any:
        pairs = KDTree(x).query_pairs(0.3, output_type="ndarray")
        return np.sum(np.exp(-np.sum((x[pairs[:, 0]] - x[pairs[:, 1]]) ** 2, axis=1)))

    force = fc.jit(fc.grad(energy))
    for step in range(6):
        x = X + 0.03 * step * RNG.normal(size=X.shape)
        np.testing.assert_allclose(force(x), fc.grad(energy)(x), rtol=1e-12)
    np.testing.assert_allclose(fc.hvp(energy, (X,), (np.ones_like(X),)), 0.0, atol=1e-9)  # it is moved as a whole


def test_a_tree_of_traced_points_is_a_tree() -> None:
    def f(x: Any) -> Any:
        mine = KDTree(x)
        assert isinstance(mine, KDTree) and mine.n == 30 and mine.m == 2
        return np.sum(mine.data) + mine.maxes.sum()

    fc.jit(f).lower(X)
    sets = fc.jit(lambda x: sum([x[i, 0] * x[j, 1] for i, j in sorted(KDTree(x).query_pairs(0.1))]))
    for moved in (X, X, X * 1.5, X):  # by the values of each
        pairs = KDTree(moved).query_pairs(0.1)
        assert float(sets(moved)) == pytest.approx(float(sum([moved[i, 0] * moved[j, 1] for i, j in pairs])))
    dense = fc.jit(lambda x: KDTree(x).sparse_distance_matrix(KDTree(x), 0.1).toarray())
    for _ in range(2):
        np.testing.assert_allclose(dense(X), KDTree(X).sparse_distance_matrix(KDTree(X), 0.1).toarray())
    with pytest.raises(TypeError, match="np.arange"):
        fc.scan(lambda carry, x: (carry + len(KDTree(x).query_pairs(0.1)), None), 0, X[None])
    assert len(fc.grad(lambda x: KDTree(x).query(Q)[0].sum())(X)) == 30
    assert type(KDTree(X)) is KDTree and type(ConvexHull(X)) is ConvexHull


def test_doors_are_taken_away() -> None:
    fc.grad(hull)(X)
    with config.set(doors=False):
        assert not hasattr(ConvexHull.__init__, "__wrapped__")
        assert ConvexHull(X).volume > 0
        with pytest.raises(TypeError, match="a traced"):
            fc.grad(hull)(X)
    fc.grad(hull)(X)


def test_figures_refuse_what_they_have_no_formula_for() -> None:
    with pytest.raises(AttributeError, match="no formula for it(.|\n)*stop_gradient"):
        fc.grad(lambda x: Delaunay(x).equations.sum())(X)
    regions = fc.jit(lambda x: float(len(Voronoi(x).regions)))
    with pytest.raises(TypeError, match="Voronoi.regions of traced points has no value"):
        regions(X), regions(X)
    with pytest.raises(TypeError, match="incremental"):
        fc.grad(lambda x: ConvexHull(x, incremental=True).volume)(X)


PLACES = np.random.default_rng(0).normal(size=(20, 2))
FIRST = Rotation.from_rotvec([0.1, 0.2, 0.3])


def of_a_compiled_tree(x: Any) -> Any:
    tree = cKDTree(PLACES)
    return tree.query(x[:2])[0] ** 2 + (cKDTree(PLACES * x[0]).query(np.array([x[1], x[2]]), k=3)[0] ** 2).sum()


def of_pairs(x: Any) -> Any:
    points = PLACES * x[0]
    pairs = cKDTree(points).query_pairs(0.8, output_type="ndarray")
    return ((points[pairs[:, 0]] - points[pairs[:, 1]]) ** 2).sum()


def of_rotations_by_name(x: Any) -> Any:
    turned = Rotation.from_euler("xyz", x) * FIRST
    return (FIRST.apply(x) ** 3).sum() + turned.as_quat()[0] + (Rotation.from_rotvec(x).as_matrix() ** 3).sum()


@pytest.mark.parametrize("f", [of_a_compiled_tree, of_pairs, of_rotations_by_name])
def test_compiled_classes_by_name(f: Any) -> None:
    x = np.array([0.7, 1.3, 0.4])
    slopes = [(f(x + 1e-6 * e) - f(x - 1e-6 * e)) / 2e-6 for e in np.eye(3)]
    np.testing.assert_allclose(fc.grad(f)(x), slopes, rtol=1e-5, atol=1e-7)
    compiled = fc.jit(f)
    for _ in range(3):
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12)
    np.testing.assert_allclose(fc.vmap(f)(np.stack([x, x])), [f(x)] * 2, rtol=1e-12)


def test_what_is_refused_names_what_to_take() -> None:
    values = PLACES[:, 0]
    with pytest.raises(TypeError, match="RBFInterpolator"):
        fc.grad(lambda x: scipy.interpolate.CloughTocher2DInterpolator(PLACES, values * x)([[0.1, 0.2]])[0])(1.0)
    slope = fc.grad(lambda x: scipy.interpolate.LinearNDInterpolator(PLACES, values * x)([[0.1, 0.2]])[0])(1.0)
    np.testing.assert_allclose(slope, scipy.interpolate.LinearNDInterpolator(PLACES, values)([[0.1, 0.2]])[0])

    walls = np.array([[-1.0, 0, 0], [0, -1, 0], [1, 0, -1], [0, 1, -1]])
    inside = np.array([0.5, 0.5])
    with pytest.raises(TypeError, match="np.linalg.solve"):
        fc.grad(lambda x: scipy.spatial.HalfspaceIntersection(walls * x, inside).intersections.sum())(1.0)

    def corners(x: Any) -> Any:
        mine = np.array(walls)
        mine[:, 2] = mine[:, 2] * x
        found = scipy.spatial.HalfspaceIntersection(fc.stop_gradient(mine), inside)
        pairs = [f for f in found.dual_facets if len(f) == 2]
        return sum([np.linalg.solve(mine[f, :2], -mine[f, 2]).sum() for f in pairs])

    np.testing.assert_allclose(fc.grad(corners)(1.0), 4.0)
    with pytest.raises(TypeError, match="regions"):
        fc.grad(lambda r: scipy.spatial.SphericalVoronoi(np.eye(3) * r, radius=r).calculate_areas().sum())(1.0)
