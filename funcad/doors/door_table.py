"""THE TABLE of doors: every function of NumPy's, Python's and SciPy's that looks for traced values, and who answers for it.

`IN_MODULES`: functions written in C, by module and name. `IN_CODE`: functions and methods written in Python, by the module
that is waited for, and the path in it. To add a door, add its name.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.doors.codes import Answer
from funcad.doors.makers import making, making_of

from funcad.doors.answers import (  # isort: skip
    Maker, along_axis, array_of, by_name, by_twin, calling, comparing, enumerating, for_users, from_memory, fromiter,
    holding_arrays, instead, joined, labelled, odeint, of_masked, over_memory, stepping, vectorized,
)  # fmt: skip


def _later(path: str, *parameters: str) -> Maker:
    """An answer of a module that is loaded when what it answers for is there, and its doors are hung."""

    def maker(name: str, original: Callable[..., Any]) -> Answer:
        module, answer = path.split(".")
        found = getattr(importlib.import_module(f"funcad.doors.{module}"), answer)
        return (found(*parameters) if parameters else found)(name, original)  # type: ignore[no-any-return]

    return maker


_SCIPY = "scipy_answers."
in_math = _later("math_answers.in_math")
drawing, seeding, shuffling, unseeded = [_later(f"draws.{name}") for name in ("drawing", "seeding", "shuffling", "unseeded")]
backend = _later(_SCIPY + "backend")
operator_dot = _later(_SCIPY + "operator_dot")
operator_of = _later(_SCIPY + "operator_of")
operator_dtype = _later(_SCIPY + "operator_dtype")
of_ufuncs = _later(_SCIPY + "of_ufuncs")
distribution = _later("distribution_answers.distribution")
expectation = _later("distribution_answers.expectation")
method_of = _later("distribution_answers.method_of")
interpolator = _later(_SCIPY + "interpolator")
rotation = _later(_SCIPY + "rotation")
operator_product = _later(_SCIPY + "operator_product")
solving = _later(_SCIPY + "solving")
spatial_object = _later(_SCIPY + "spatial_object")
sparse_made, sparse_written = _later(_SCIPY + "sparse_made"), _later(_SCIPY + "sparse_written")
sparse_beside = _later(_SCIPY + "sparse_beside")
sparse_by_name = _later(_SCIPY + "sparse_by_name")
sparse_diagonal = _later(_SCIPY + "sparse_diagonal")
factorizing = _later(_SCIPY + "factorizing")
sparse_product = _later(_SCIPY + "sparse_product")
sparse_reflected = _later(_SCIPY + "sparse_reflected")
sparse_multiply = _later(_SCIPY + "sparse_multiply")
sparse_quotient = _later(_SCIPY + "sparse_quotient")


def without(remedy: str) -> Maker:
    return _later("scipy_answers.without", remedy)


def frozen(*parameters: str) -> Maker:
    return _later("distribution_answers.frozen", *parameters)


def _all(answer: Maker, *names: str) -> dict[str, Maker]:
    return dict.fromkeys(" ".join(names).split(), answer)


_MATH = _all(  # of both modules
    in_math,
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh degrees dist erf erfc exp exp2 expm1 fabs floor",
    "fma fmod frexp fsum gamma hypot isclose isfinite isinf isnan ldexp lgamma log log10 log1p log2 modf nextafter",
    "phase polar pow prod radians rect remainder sin sinh sqrt sumprod tan tanh trunc ulp",
)
IN_MODULES: dict[str, dict[str, Maker]] = {
    "numpy": {
        **_all(array_of, "asarray asanyarray ascontiguousarray asfortranarray"),
        **_all(making_of(array_of), "array copy"),
        **_all(making, "zeros empty arange linspace"),
        **_all(making_of(by_name), "zeros_like empty_like ones_like full_like"),
        **{"frombuffer": from_memory, "fromiter": fromiter},
        **_all(_later("iterators.iterating"), "broadcast nditer"),
    },
    "math": _MATH,
    "cmath": _MATH,
    "numpy.ma": _all(
        of_masked,
        "abs absolute add anom arccos arcsin arctan arctan2 array asanyarray asarray average ceil compressed concatenate cos",
        "cosh count cumsum divide dot exp filled fix_invalid floor getdata getmask getmaskarray hypot log log10 log2",
        "masked_array masked_equal masked_greater masked_greater_equal masked_inside masked_invalid masked_less",
        "masked_less_equal masked_not_equal masked_outside masked_values masked_where max maximum mean median min minimum",
        "multiply",
        "negative power prod ptp ravel reshape sin sinh sqrt std subtract sum tan tanh transpose var where",
        "argmax argmin argsort clip column_stack diagonal diff dstack hstack outer repeat sort squeeze stack",
        "swapaxes take vstack",
    ),
    "scipy.optimize": {"linear_sum_assignment": by_name},
    "scipy.sparse.csgraph": _all(
        without("scipy.sparse.csr_array(graph), whose elements that are 0 are no edges"),
        "csgraph_from_dense csgraph_masked_from_dense csgraph_to_dense construct_dist_matrix reconstruct_path",
    )
    | {"yen": without("scipy.sparse.csgraph.shortest_path(graph)")}
    | _all(
        sparse_by_name,
        "bellman_ford breadth_first_order breadth_first_tree connected_components depth_first_order depth_first_tree dijkstra",
        "floyd_warshall johnson maximum_bipartite_matching min_weight_full_bipartite_matching minimum_spanning_tree",
        "reverse_cuthill_mckee shortest_path structural_rank",
    ),
    "scipy.linalg.lapack": _all(by_twin, *[kind + name for kind in "sdcz" for name in ("gbsv", "gtsv", "pbsv", "ptsv")]),
    "numpy.random": {
        **_all(
            drawing,
            "beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric laplace",
            "logistic lognormal logseries multinomial multivariate_normal negative_binomial noncentral_chisquare noncentral_f",
            "normal pareto permutation poisson power rand randint randn random random_integers random_sample ranf rayleigh",
            "sample standard_cauchy standard_exponential standard_gamma standard_normal standard_t triangular uniform vonmises",
            "wald weibull zipf",
        ),
        "seed": seeding,
        "shuffle": shuffling,
        **_all(unseeded, "default_rng RandomState"),
    },
}

LEARNED: dict[str, dict[str, Maker]] = {  # hung when a function has needed it: everybody asks for np.ndarray all the time
    "numpy": {"ndarray": making_of(over_memory)},
}

_FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")  # of SciPy's sparse arrays
IN_CODE: dict[str, dict[str, Maker]] = {
    "numpy": {
        **_all(making, "ones eye identity tri"),
        "full": making_of(by_name),
        "r_.__getitem__": joined,
        "vectorize.__call__": vectorized,
        "apply_along_axis": along_axis,
        "ndenumerate.__init__": enumerating,
    },
    "numpy.ma": _all(
        of_masked,
        *[f"MaskedArray.__{r}{name}__" for name in ("add", "floordiv", "mul", "pow", "sub", "truediv") for r in ("", "r")],
        *[f"MaskedArray.__{name}__" for name in ("eq", "ge", "gt", "le", "lt", "ne")],
    ),
    "numpy.testing": _all(
        comparing,
        "assert_allclose assert_almost_equal assert_approx_equal assert_array_almost_equal assert_array_almost_equal_nulp",
        "assert_array_equal assert_array_less assert_array_max_ulp assert_equal",
    ),
    "pandas": {
        **_all(labelled(np.dot), "DataFrame.dot Series.dot"),
        **_all(labelled(lambda values, x: np.matmul(x, values)), "DataFrame.__rmatmul__ Series.__rmatmul__"),
    },
    "statistics": _all(
        _later("math_answers.in_statistics"),
        "correlation covariance fmean geometric_mean harmonic_mean linear_regression mean pstdev pvariance stdev variance",
    ),
    "scipy.fft": _all(by_name, "fftshift ifftshift"),
    "scipy.fft._backend": {"_ScipyBackend.__ua_function__": backend},
    "scipy.integrate": {
        **_all(by_name, "cumulative_simpson cumulative_trapezoid romb simpson trapezoid"),
        **_all(calling, "dblquad fixed_quad nquad quad quad_vec solve_bvp solve_ivp tplquad"),
        "odeint": odeint,
        "ode.integrate": stepping,
    },
    "scipy.interpolate": {
        **_all(interpolator, "CubicSpline.__init__ CubicHermiteSpline.__init__ PchipInterpolator.__init__"),
        **_all(interpolator, "PPoly.__call__ PPoly.derivative PPoly.antiderivative PPoly.integrate"),
        **_all(interpolator, "BSpline.__call__ BSpline.derivative BSpline.antiderivative BSpline.integrate"),
        **_all(interpolator, "BSpline.__init__ Akima1DInterpolator.__init__ interp1d.__init__ interp1d.__call__"),
        **_all(interpolator, "UnivariateSpline.__init__ UnivariateSpline.__call__ UnivariateSpline.derivative"),
        **_all(interpolator, "UnivariateSpline.antiderivative UnivariateSpline.integral LSQUnivariateSpline.__init__"),
        **_all(interpolator, "InterpolatedUnivariateSpline.__init__ RBFInterpolator.__init__ RBFInterpolator.__call__"),
        **_all(interpolator, "RegularGridInterpolator.__init__ RegularGridInterpolator.__call__"),
        **_all(interpolator, "LinearNDInterpolator.__init__ LinearNDInterpolator.__call__ NearestNDInterpolator.__init__"),
        **_all(interpolator, "NearestNDInterpolator.__call__"),
        **_all(by_name, "griddata interpn make_interp_spline make_lsq_spline splev splint splrep"),
    },
    "scipy.linalg": {"get_lapack_funcs": for_users} | _all(
        by_name,
        "block_diag cho_factor cho_solve cholesky circulant companion convolution_matrix coshm cosm det eig eigh",
        "eigh_tridiagonal eigvals eigvalsh eigvalsh_tridiagonal expm expm_frechet fiedler hankel inv khatri_rao leslie logm",
        "lstsq lu lu_factor lu_solve norm orthogonal_procrustes pinv pinvh polar qr rq schur sinhm sinm solve solve_banded",
        "solve_circulant solve_continuous_lyapunov solve_discrete_lyapunov solve_lyapunov solve_sylvester solve_toeplitz",
        "solve_triangular solveh_banded sqrtm svd svdvals tanhm tanm toeplitz null_space orth qr_multiply solve_continuous_are",
        "solve_discrete_are fractional_matrix_power cholesky_banded cho_solve_banded eig_banded eigvals_banded",
    ),
    "scipy.ndimage": _all(
        by_name,
        "convolve convolve1d correlate correlate1d gaussian_filter gaussian_filter1d laplace map_coordinates prewitt sobel",
        "spline_filter spline_filter1d uniform_filter uniform_filter1d affine_transform rotate shift zoom gaussian_laplace",
        "gaussian_gradient_magnitude label maximum_filter median_filter minimum_filter percentile_filter",
        "rank_filter",
    ),
    "scipy.optimize": {
        **_all(calling, "bisect brenth brentq curve_fit fixed_point least_squares minimize newton ridder root root_scalar"),
        "toms748": calling,
        "OptimizeResult.__getattr__": _later("scipy_answers.field_of_result"),
        **_all(holding_arrays, "Bounds.__init__ LinearConstraint.__init__ NonlinearConstraint.__init__"),
        **_all(calling, "fsolve leastsq minimize_scalar"),
        **_all(by_name, "linprog lsq_linear milp nnls"),
        **_all(
            instead("funcad.scipy.optimize.root(fun, x0).x"),
            "anderson broyden1 broyden2 diagbroyden excitingmixing linearmixing newton_krylov",
        ),
        **_all(instead("funcad.scipy.optimize.minimize_scalar(fun).x"), "brent fminbound golden"),
        **_all(
            instead("funcad.scipy.optimize.minimize(fun, x0).x, from a start that is near the minimum"),
            "basinhopping brute differential_evolution direct dual_annealing fmin fmin_bfgs fmin_cg fmin_cobyla fmin_l_bfgs_b",
            "fmin_ncg fmin_powell fmin_slsqp fmin_tnc shgo",
        ),
    },
    "scipy.signal": _all(
        by_name,
        "coherence convolve convolve2d correlate correlate2d csd detrend fftconvolve filtfilt hilbert istft lfilter lfilter_zi",
        "medfilt medfilt2d oaconvolve periodogram resample savgol_filter sosfilt sosfilt_zi sosfiltfilt spectrogram stft",
        "upfirdn welch",
    ),
    "scipy.sparse": {
        **_all(sparse_product, "csr_array._matmul_dispatch coo_array._matmul_dispatch"),
        **_all(sparse_reflected, "csr_array._rmatmul_dispatch coo_array._rmatmul_dispatch"),
        "csr_array.__truediv__": sparse_quotient,
        **_all(sparse_multiply, "csr_array.multiply dia_array.multiply"),
        **_all(sparse_made, *[f"{format}_{kind}.__init__" for format in _FORMATS for kind in ("array", "matrix")]),
        **_all(sparse_written, *[f"{format}_{kind}.__setitem__" for format in ("csr", "lil") for kind in ("array", "matrix")]),
        "expand_dims": without("functions of NumPy's of A.toarray()"),
        **_all(sparse_diagonal, "csr_array.setdiag lil_array.setdiag"),
        **_all(sparse_beside, "csr_array.__add__ csr_array.__sub__"),
        **_all(sparse_by_name, "block_array block_diag bmat diags diags_array find hstack kron kronsum"),
        **_all(sparse_by_name, "permute_dims spdiags swapaxes tril triu vstack"),
    },
    "scipy.sparse.linalg": {
        **_all(solving, "bicgstab cg eigsh expm_multiply gmres lsmr lsqr minres svds"),
        **_all(sparse_by_name, "expm inv norm spsolve spsolve_triangular"),
        **_all(factorizing, "factorized splu"),
        "aslinearoperator": operator_of,
        **_all(without("scipy.sparse.linalg.gmres(A, b) or bicgstab(A, b)"), "bicg cgs gcrotmk lgmres qmr tfqmr"),
        "eigs": without("np.linalg.eig(A.toarray())"),
        "lobpcg": without("scipy.sparse.linalg.eigsh(A, k)"),
        "onenormest": without("scipy.sparse.linalg.norm(A, 1)"),
        "spilu": without("scipy.sparse.linalg.splu(A)"),
        **{"LinearOperator._init_dtype": operator_dtype, "LinearOperator.dot": operator_dot},
        **_all(operator_product, "LinearOperator.matvec LinearOperator.rmatvec LinearOperator.matmat LinearOperator.rmatmat"),
    },
    "scipy.spatial": {
        **_all(by_name, "distance_matrix geometric_slerp procrustes"),
        **_all(by_name, "minkowski_distance minkowski_distance_p"),
        **_all(spatial_object, "ConvexHull.__init__ Voronoi.__init__"),
        **_all(spatial_object, "Delaunay.__init__ Delaunay.find_simplex"),
        **_all(spatial_object, "KDTree.__init__ KDTree.query"),
        **_all(spatial_object, "KDTree.query_ball_point KDTree.query_ball_tree"),
        **_all(spatial_object, "KDTree.query_pairs KDTree.count_neighbors"),
        **_all(spatial_object, "KDTree.sparse_distance_matrix"),
    },
    "scipy.spatial.distance": _all(
        by_name,
        "braycurtis canberra cdist chebyshev cityblock correlation cosine dice directed_hausdorff euclidean hamming",
        "is_valid_dm is_valid_y jaccard jensenshannon mahalanobis minkowski num_obs_dm num_obs_y pdist rogerstanimoto",
        "russellrao seuclidean sokalsneath sqeuclidean squareform yule",
    ),
    "scipy.spatial.transform": {
        **_all(rotation, "Rotation.from_quat Rotation.from_matrix"),
        **_all(rotation, "Rotation.from_rotvec Rotation.from_mrp"),
        **_all(rotation, "Rotation.from_euler Rotation.align_vectors"),
        **_all(rotation, "Rotation.apply Rotation.__pow__"),
        "Rotation.concatenate": rotation,
        **_all(spatial_object, "Slerp.__init__ Slerp.__call__"),
    },
    "scipy.special": {
        **_all(by_name, "comb factorial lambertw log_softmax logsumexp multigammaln perm polygamma softmax softplus zeta"),
        **{"diric": by_name, "sph_harm_y.__call__": of_ufuncs},
    },
    "scipy.stats": {
        **_all(distribution, "rv_continuous.freeze rv_continuous.pdf rv_continuous.logpdf rv_discrete.pmf rv_discrete.logpmf"),
        **_all(distribution, *[f"{kind}.{m}" for kind in ("rv_continuous", "rv_discrete") for m in
               "cdf logcdf sf logsf ppf isf".split()]),
        **_all(expectation, "rv_continuous.expect rv_discrete.expect"),
        **_all(distribution, *[f"rv_continuous.{m}" for m in
               "mean var std median stats moment entropy interval support rvs".split()]),
        **_all(spatial_object, "gaussian_kde.__init__ gaussian_kde.evaluate gaussian_kde.logpdf"),
        **_all(spatial_object, "gaussian_kde.integrate_box_1d gaussian_kde.integrate_kde"),
        **_all(spatial_object, "gaussian_kde.integrate_box gaussian_kde.integrate_gaussian"),
        **_all(method_of, "multivariate_normal.__call__ multivariate_normal.logpdf multivariate_normal.pdf"),
        **_all(method_of, "dirichlet.__call__ dirichlet.logpdf dirichlet.pdf"),
        **_all(method_of, "multinomial.__call__ multinomial.logpmf multinomial.pmf"),
        **_all(by_name, "mode rankdata sem"),
    },
    "scipy.stats._multivariate": {
        **_all(frozen("mean", "cov"), "multivariate_normal_frozen.logpdf multivariate_normal_frozen.pdf"),
        **_all(frozen("alpha"), "dirichlet_frozen.logpdf dirichlet_frozen.pdf"),
        **_all(frozen("n", "p"), "multinomial_frozen.logpmf multinomial_frozen.pmf"),
    },
}  # fmt: skip

# Modules all of whose functions in Python have a door: where there is none in the table above, the function's own code answers.
BY_OWN_CODE = (
    *["numpy.lib.stride_tricks", "numpy.polynomial.polyutils"],
    *[f"numpy.polynomial.{n}" for n in "polynomial chebyshev legendre hermite hermite_e laguerre".split()],
    *[f"scipy.{n}" for n in "cluster.vq fft integrate interpolate linalg ndimage optimize signal special stats".split()],
    *["scipy.signal.windows", "scipy.sparse.csgraph", "scipy.stats.contingency", "scipy.stats.mstats", "scipy.stats.qmc"],
)

# Modules of a package all of whose classes have doors at their public methods, behind which the methods' own code answers.
CLASSES_BY_OWN_CODE = {
    "scipy.interpolate": "_bary_rational _fitpack2 _interpolate _ndbspline _polyint _rbf",
    "scipy.signal": "_ltisys _czt _short_time_fft",
    "scipy.stats": "_continuous_distns _covariance _distribution_infrastructure _distn_infrastructure _multivariate "
    "_new_distributions _stats_py _survival",
    "scipy.spatial": "_kdtree",
}
