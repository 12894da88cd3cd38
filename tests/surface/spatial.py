"""Cases of funcad.scipy.spatial, and of the interpolators over scattered points."""

import numpy as np
from scipy.spatial import Delaunay

from tests.surface import case

RNG = np.random.default_rng(5)
U, V, W = RNG.uniform(0.2, 1.0, 4), RNG.uniform(0.2, 1.0, 4), np.array([0.5, 1.0, 2.0, 0.7])
A, B = RNG.uniform(0.2, 1.0, (5, 3)), RNG.uniform(0.2, 1.0, (4, 3))
FLAT = RNG.uniform(size=(9, 2))
INSIDE = FLAT.mean(axis=0) + 0.05 * (FLAT[:3] - 0.5)
TRUTHS = (np.array([True, False, True, True]), np.array([True, True, False, True]))
TURNS = RNG.normal(size=(3, 3))
CPU = {"cupy": "SciPy's compiled code takes arrays of NumPy's"}
SCIPYS = {"plain": "SciPy's function is a class in compiled code: tests/doors/test_spatial_doors.py calls it"}
D = "scipy.spatial.distance"
WEIGHTED = "braycurtis canberra chebyshev cityblock correlation cosine euclidean sqeuclidean".split()
INVERSE = np.linalg.inv(np.cov(A.T))


def of(method, *args, **kwargs):
    """The method of what is made of the first argument."""
    return lambda make, x: getattr(make(x), method)(*args, **kwargs)


CASES = [
    *[case(f"{D}.{name}", U, V) for name in WEIGHTED],
    *[case(f"{D}.{name}", U, V, W) for name in WEIGHTED],
    *[case(f"{D}.{name}", *TRUTHS) for name in "dice hamming jaccard rogerstanimoto russellrao sokalsneath yule".split()],
    case(f"{D}.hamming", U, V, order=0, nondiff=(0, 1)),
    case(f"{D}.minkowski", U, V, kwargs=dict(p=3)),
    case(f"{D}.seuclidean", U, V, W),
    case(f"{D}.mahalanobis", A[0], B[0], INVERSE),
    case(f"{D}.jensenshannon", U, V),
    case(f"{D}.jensenshannon", A, B[:1], kwargs=dict(base=2.0, axis=1, keepdims=True)),
    case(f"{D}.directed_hausdorff", A, B),
    *[case(f"{D}.cdist", A, B, kwargs=dict(metric=m)) for m in ("euclidean", "sqeuclidean", "cosine", "canberra")],
    case(f"{D}.cdist", A, B, call=lambda f, a, b: f(a, b, "minkowski", p=3)),
    case(f"{D}.pdist", A, kwargs=dict(metric="seuclidean")),
    case(f"{D}.pdist", A),
    case(f"{D}.squareform", U[:3]),
    case(f"{D}.num_obs_y", U[:3], order=0, nondiff=(0,)),
    case(f"{D}.num_obs_dm", np.zeros((2, 2)), order=0, nondiff=(0,)),
    case(f"{D}.is_valid_y", U[:3], order=0, nondiff=(0,)),
    case(f"{D}.is_valid_dm", np.zeros((2, 2)), order=0, nondiff=(0,)),
    case("scipy.spatial.distance_matrix", A, B),
    case("scipy.spatial.minkowski_distance", A, B[:1], kwargs=dict(p=3.0)),
    case("scipy.spatial.minkowski_distance_p", A, B[:1], kwargs=dict(p=3.0)),
    case("scipy.spatial.procrustes", A, A[::-1] ** 2),
    case("scipy.spatial.geometric_slerp", np.array([1.0, 0.0]), np.array([0.6, 0.8]), np.array([0.2, 0.7]), static=(0, 1)),
    case("scipy.spatial.KDTree", A, B, missing=CPU, call=lambda make, a, b: make(a).query(b, 2)[0]),
    case("scipy.spatial.cKDTree", A, B, missing={**CPU, **SCIPYS}, call=lambda make, a, b: make(a, boxsize=2.0).query(b)[0]),
    *[
        case("scipy.spatial.ConvexHull", FLAT, tolerance=1e-5, call=lambda make, x, n=n: getattr(make(x), n))
        for n in ("volume", "area")
    ],
    case("scipy.spatial.Delaunay", FLAT, call=lambda make, x: make(x).transform[2]),
    case("scipy.spatial.Voronoi", FLAT, call=lambda make, x: make(x).vertices[:3]),
    case("scipy.spatial.tsearch", INSIDE, order=0, nondiff=(0,), missing=CPU, call=lambda f, x: f(Delaunay(FLAT), x)),
    case("scipy.spatial.transform.Rotation", TURNS, call=lambda make, x: make.from_rotvec(x + 0.0).as_matrix()),
    case("scipy.spatial.transform.Slerp", np.array([0.3, 1.4]), missing=CPU, call=lambda make, t: slerp(make, t)),
    case(
        "scipy.interpolate.LinearNDInterpolator",
        FLAT,
        FLAT[:, 0] ** 2,
        INSIDE,
        missing=CPU,
        call=lambda make, p, v, x: make(p, v)(x),
    ),
    case(
        "scipy.interpolate.NearestNDInterpolator",
        FLAT,
        FLAT[:, 0] ** 2,
        INSIDE,
        missing=CPU,
        call=lambda make, p, v, x: make(p, v)(x),
    ),
]
for c in CASES:
    c.agreement = 1e-11


def slerp(make, t):
    from scipy.spatial.transform import Rotation

    return make([0.0, 1.0, 2.0], Rotation.from_rotvec(TURNS.copy()))(t).as_matrix()
