"""Distances, rotations, hulls and trees beside SciPy's, where values are traced; special points and errors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from scipy import spatial as theirs
from scipy.cluster.vq import vq
from scipy.spatial import distance as their_distance
from scipy.spatial.transform import Rotation as TheirRotation
from scipy.spatial.transform import Slerp as TheirSlerp

import funcad as fc
from funcad.scipy import spatial
from funcad.scipy.spatial import distance
from funcad.scipy.spatial.transform import Rotation, Slerp
from funcad.testing import check_grads

RNG = np.random.default_rng(0)
A, B, W = RNG.uniform(0.1, 1, (6, 3)), RNG.uniform(0.1, 1, (4, 3)), np.array([0.5, 1.0, 2.0])
TURNS, PLACES = RNG.normal(size=(5, 3)), RNG.normal(size=(5, 3))
SEQUENCES = ["xyz", "XYZ", "zxz", "ZYX", "yxy", "ZXZ", "YXZ", "xzy"]


def close(found: Any, expected: Any, tolerance: float = 1e-11) -> None:
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def traced(f: Any, *args: Any) -> Any:
    """f by its formulas: in a program, where nothing has a value."""
    return fc.jit(f).lower(*args).compile()(*args)


@pytest.mark.parametrize("metric", distance.METRICS, ids=lambda m: m.names.split()[0])
def test_matrices_of_distances(metric: Any) -> None:
    name = metric.names.split()[0]
    a, b = (A > 0.5, B > 0.5) if metric.of is bool else (A, B)
    for options in [{}, {"w": W}] if "w" in metric.options.split() else [{}]:
        options = {**options, "p": 3} if name == "minkowski" else options
        between = functools.partial(distance.cdist, **options)
        for alias in metric.names.split():
            close(
                traced(lambda x, y, alias=alias, f=between: f(x, y, alias), a, b), their_distance.cdist(a, b, alias, **options)
            )
        within = functools.partial(distance.pdist, metric=name, **options)
        close(traced(within, a), their_distance.pdist(a, name, **options))
        if metric.of is not bool:
            check_grads(lambda x, y, f=between: f(x, y, name), (a, b), order=1)


def test_distances_of_equal_points_harm_no_gradient() -> None:
    for metric in "euclidean seuclidean mahalanobis minkowski jensenshannon cityblock chebyshev canberra".split():
        slope = fc.grad(lambda x, metric=metric: np.sum(distance.cdist(x, x, metric)))(A)
        assert np.isfinite(slope).all(), metric
    assert (fc.grad(distance.euclidean)(A[0], A[0].copy()) == 0).all()
    assert np.isfinite(fc.hessian(lambda x: np.sum(distance.pdist(x, "sqeuclidean")))(A)).all()


def test_metrics_of_the_users() -> None:
    mine = lambda u, v: np.sum(np.abs(u - v) ** 1.5)
    close(traced(lambda x, y: distance.cdist(x, y, mine), A, B), their_distance.cdist(A, B, mine))
    close(traced(lambda x: distance.pdist(x, mine), A), their_distance.pdist(A, mine))
    with pytest.raises(ValueError, match="Unknown Distance Metric: nothing"):
        fc.grad(lambda x: distance.pdist(x, "nothing").sum())(A)
    with pytest.raises(TypeError, match="cosine takes no option 'p'"):
        fc.grad(lambda x: distance.pdist(x, "cosine", p=2).sum())(A)
    with pytest.raises(ValueError, match="non-negative"):
        fc.grad(lambda x: distance.pdist(x, "cityblock", w=-W).sum())(A)
    with pytest.raises(ValueError, match="too small"):
        fc.grad(lambda x: distance.pdist(x, "mahalanobis").sum())(A[:3])


def test_squareform_and_its_checks() -> None:
    vector = their_distance.pdist(A)
    close(traced(distance.squareform, vector), their_distance.squareform(vector))
    close(traced(distance.squareform, their_distance.squareform(vector)), vector)
    with pytest.raises(ValueError, match="must be symmetric"):
        fc.grad(lambda m: distance.squareform(m).sum())(np.arange(9.0).reshape(3, 3))
    with pytest.raises(ValueError, match="binomial"):
        fc.grad(lambda v: distance.squareform(v).sum())(np.ones(4))
    good, bad = their_distance.squareform(vector), their_distance.squareform(vector) + np.eye(6)
    asked = fc.jit(lambda m: distance.is_valid_dm(m))
    assert [asked(m) for m in (good, good, bad, bad, A @ A.T, good)] == [True, True, False, False, False, True]


@pytest.mark.parametrize("make", ["from_rotvec", "from_mrp", "from_quat"])
def test_rotations(make: str) -> None:
    made_of = {"from_rotvec": TURNS, "from_mrp": 0.3 * TURNS, "from_quat": RNG.normal(size=(5, 4))}[make]
    a, b = getattr(TheirRotation, make)(made_of), getattr(Rotation, make)(made_of)
    for ask in ("as_matrix", "as_rotvec", "as_mrp", "magnitude"):
        close(getattr(b, ask)(), getattr(a, ask)())
    close(b.as_quat(canonical=True, scalar_first=True), a.as_quat(canonical=True, scalar_first=True))
    close(b.apply(PLACES, inverse=True), a.apply(PLACES, inverse=True))
    close((b * b.inv()[0]).as_matrix(), (a * a.inv()[0]).as_matrix())
    close((b**2.5).as_matrix(), (a**2.5).as_matrix())
    close(b.mean().as_matrix(), a.mean().as_matrix())
    close(Rotation.from_matrix(a.as_matrix()).as_matrix(), a.as_matrix())
    for sequence in SEQUENCES:
        angles = a.as_euler(sequence)
        close(b.as_euler(sequence), angles, 1e-9)
        close(Rotation.from_euler(sequence, angles).as_matrix(), TheirRotation.from_euler(sequence, angles).as_matrix())
    close(b.as_euler("zyx", degrees=True), a.as_euler("zyx", degrees=True), 1e-9)


def test_nearest_rotations_and_gimbal_lock() -> None:
    matrices = RNG.normal(size=(4, 3, 3))
    matrices[np.linalg.det(matrices) < 0, 0] *= -1
    close(Rotation.from_matrix(matrices).as_matrix(), TheirRotation.from_matrix(matrices).as_matrix(), 1e-9)
    for sequence, middle in (("xyz", 0.5), ("XYZ", -0.5), ("zxz", 0.0), ("ZXZ", 1.0)):
        turn = TheirRotation.from_euler(sequence, [0.3, middle * np.pi, 0.4])
        with pytest.warns(UserWarning, match="Gimbal lock"):
            expected = turn.as_euler(sequence)
        close(Rotation.from_quat(turn.as_quat()).as_euler(sequence), expected, 1e-7)
    found, left = Rotation.align_vectors(TURNS, PLACES)
    expected, theirs_left = TheirRotation.align_vectors(TURNS, PLACES)
    close(found.as_matrix(), expected.as_matrix(), 1e-9)
    close(left, theirs_left, 1e-9)


@pytest.mark.share(3)
@pytest.mark.parametrize("f", [
    lambda v: Rotation.from_rotvec(v).as_matrix(),
    lambda v: Rotation.from_rotvec(v).as_euler("xyz"),
    lambda v: Rotation.from_rotvec(v).as_rotvec(),
    lambda v: Rotation.from_matrix(Rotation.from_rotvec(v).as_matrix()).as_quat(canonical=True),
    lambda v: Rotation.from_euler("zyx", v).apply(PLACES),
    lambda v: Rotation.align_vectors(v + PLACES, PLACES)[0].as_matrix(),
    lambda v: Rotation.from_rotvec(v).mean(weights=np.arange(1.0, 6.0)).as_matrix(),
    lambda v: Slerp(np.arange(5.0), Rotation.from_rotvec(v))(np.array([0.3, 1.2, 3.7])).as_matrix(),
])  # fmt: skip
def test_derivatives_of_rotations(f: Any) -> None:
    check_grads(f, (0.4 * TURNS,), order=2)
    close(traced(f, 0.4 * TURNS), f(0.4 * TURNS))


def test_the_identity_is_a_point_like_others() -> None:
    nothing = np.zeros(3)
    close(fc.jacobian(lambda v: Rotation.from_rotvec(v).as_rotvec())(nothing), np.eye(3))
    curved = lambda v: Rotation.from_rotvec(v).apply(PLACES[0]) @ PLACES[1]
    near = np.array([2e-3, 1e-3, -2e-3])  # beyond the series
    close(fc.hessian(curved)(nothing), fc.hessian(curved)(near), 1e-1)
    assert np.isfinite(fc.hessian(lambda v: Rotation.from_rotvec(v).as_rotvec().sum())(nothing)).all()


def test_rotations_are_containers() -> None:
    turn = fc.jit(lambda r, x: (r * r).apply(x))
    row = Rotation.from_rotvec(TURNS)
    for _ in range(2):
        close(turn(row, PLACES), (row * row).apply(PLACES))
    each = fc.vmap(lambda v: Rotation.from_rotvec(v))(TURNS)
    assert isinstance(each, Rotation) and len(each) == 5 and each[0].single and [r.single for r in each] == [True] * 5
    slope = fc.grad(lambda r: r.apply(PLACES).sum())(row)
    assert isinstance(slope, Rotation) and slope.as_quat().shape == (5, 4)
    with pytest.raises(ValueError, match="have shape"):
        Rotation.from_rotvec(np.ones(4))
    with pytest.raises(ValueError, match="consecutive axes"):
        Rotation.from_euler("xxy", np.ones(3))
    between = TheirSlerp(np.arange(5), TheirRotation.from_rotvec(TURNS))
    times = np.array([0.0, 0.3, 1.2, 3.7, 4.0])
    close(Slerp(np.arange(5), row)(times).as_matrix(), between(times).as_matrix())
    with pytest.raises(ValueError, match="must be within the range"):
        Slerp(np.arange(5), row)(4.5)


@pytest.mark.parametrize("box", [None, 1.0])
def test_trees(box: float | None) -> None:
    x, q = RNG.uniform(size=(30, 3)), RNG.uniform(size=(7, 3))
    tree = theirs.KDTree(x, boxsize=box)
    for k in (1, 3, [1, 2], 40):
        nearest = traced(lambda x, q, k=k: spatial.KDTree(x, boxsize=box).query(q, k), x, q)
        for found, expected in zip(nearest, tree.query(q, k)):
            close(found, expected)
    bounded = traced(lambda x, q: spatial.KDTree(x, boxsize=box).query(q, 2, distance_upper_bound=0.1), x, q)
    for found, expected in zip(bounded, tree.query(q, 2, distance_upper_bound=0.1)):
        close(found, expected)
    check_grads(lambda x, q: spatial.KDTree(x, boxsize=box).query(q, 3)[0], (x, q), order=2)
    matrix = fc.grad(lambda x: spatial.KDTree(x, boxsize=box).sparse_distance_matrix(tree, 0.3).toarray().sum())(x)
    pairs = tree.sparse_distance_matrix(tree, 0.3, output_type="dict")
    ours = lambda x: sum(spatial.KDTree(x, boxsize=box).sparse_distance_matrix(tree, 0.3, output_type="dict").values())
    close(ours(x), sum(pairs.values()))
    assert matrix.shape == x.shape and np.isfinite(matrix).all()


@pytest.mark.parametrize("d", [2, 3, 4])
def test_hulls_and_triangulations(d: int) -> None:
    x = RNG.uniform(size=(14, d))
    hull, triangles, diagram = theirs.ConvexHull(x), theirs.Delaunay(x), theirs.Voronoi(x)
    for name in ("volume", "area", "equations", "simplices", "vertices"):
        found = fc.jvp(lambda x, name=name: 1.0 * getattr(spatial.ConvexHull(x), name), (x,), (x,))[0]
        close(found, getattr(hull, name), 1e-9)
    close(fc.jvp(lambda x: spatial.Delaunay(x).transform, (x,), (x,))[0], triangles.transform, 1e-7)
    close(fc.jvp(lambda x: spatial.Voronoi(x).vertices, (x,), (x,))[0], diagram.vertices, 1e-7)
    # by Euler: a volume is homogeneous of degree d, an area of d - 1
    close(np.sum(fc.grad(lambda x: spatial.ConvexHull(x).volume)(x) * x), d * hull.volume)
    close(np.sum(fc.grad(lambda x: spatial.ConvexHull(x).area)(x) * x), (d - 1) * hull.area)
    jitted = fc.jit(lambda x: (spatial.ConvexHull(x).volume, spatial.Voronoi(x).vertices, spatial.Delaunay(x).nsimplex))
    for y in (x, x, x**2, x):
        volume, vertices, count = jitted(y)
        close(volume, theirs.ConvexHull(y).volume)
        close(vertices, theirs.Voronoi(y).vertices, 1e-6)
        assert count == theirs.Delaunay(y).nsimplex


@pytest.mark.parametrize("n", [1, 2, 4])
def test_second_derivatives_of_a_mean_rotation(n: int) -> None:
    q = RNG.normal(size=(n, 4))
    f = lambda q: TheirRotation.from_quat(q).mean().as_matrix()[0, 1]
    differences = np.zeros((n, 4, n, 4))
    for i in np.ndindex(n, 4):
        step = np.zeros((n, 4))
        step[i] = 1e-5
        differences[i] = (fc.grad(f)(q + step) - fc.grad(f)(q - step)) / 2e-5
    jitted = fc.jit(fc.hessian(f))
    for found in (fc.hessian(f)(q), jitted(q), jitted(q), jitted(q)):
        np.testing.assert_allclose(found, differences, atol=1e-7 * max(1.0, abs(differences).max()))


def test_rotations_that_are_single_compare_as_scipys() -> None:
    one, other = TURNS[0], TURNS[1]
    for row in (one, TURNS):
        f = lambda a, row=row: TheirRotation.from_rotvec(a).approx_equal(TheirRotation.from_rotvec(row))
        for a in (one, other):
            expected, found = f(a), traced(f, a)
            assert np.shape(found) == np.shape(expected) and np.array_equal(found, expected)


def test_codes_of_a_code_book_are_int32() -> None:
    f = lambda a: vq(a, B)[0]
    for found in (f(A), fc.jit(f)(A), fc.vmap(f)(A[None])[0]):
        assert found.dtype == np.int32 and np.array_equal(found, f(A))
