"""Cases of funcad.scipy.optimize and funcad.scipy.sparse.linalg."""

import numpy as np
import scipy.optimize

from tests.surface import case

HOST = {
    "cupy": "SciPy's solvers run on the CPU",
    "dtype": "the result has the dtype of x0; SciPy's solvers always give float64",
}
A = np.array([1.2, 0.7])
X0 = np.array([0.4, 0.3])
TIMES = np.linspace(0.0, 2.0, 6)
DATA = 2.0 * np.exp(-1.3 * TIMES) + np.array([0.05, -0.03, 0.02, -0.04, 0.01, 0.03])
SYMMETRIC = np.array([[4.0, 0.5, -0.3], [0.5, 3.0, 0.2], [-0.3, 0.2, 5.0]])
GENERAL = np.array([[4.0, 0.5, -0.3], [0.9, 3.0, 0.2], [-0.3, 1.2, 5.0]])
B = np.array([0.6, -1.7, 2.3])


def bowl(x, a):
    return np.sum((x - a) ** 2) + np.sum(x**4) + x[0] * x[1]


def smaller(x, a):
    return np.cos(a * x) - x


def decay(t, a, b):
    return a * np.exp(-b * t)


def equations(x, a):
    return np.exp(x[::-1] * a) - 2.0 * x - a


def solution(out):
    return out.x


def of(name, *args, **fields):
    return case(
        f"scipy.optimize.{name}", *args, **{"agreement": 2e-6, "tolerance": 1e-4, "missing": HOST, "nondiff": (1,), **fields}
    )


def first(out):
    return out[0]


def direct(a, b, *rest, **options):
    return (np.linalg.solve(a, b),)


def iterative(name, *args, **fields):
    defaults = {"agreement": 1e-9, "tolerance": 1e-5, "gauge": first, "reference": direct, "nondiff": (2,)}
    return case(f"scipy.sparse.linalg.{name}", *args, **defaults | fields)


def sparse(name, *args, **fields):
    defaults = {"agreement": 1e-9, "tolerance": 1e-5, "missing": HOST}
    return case(f"scipy.sparse.linalg.{name}", *args, **defaults | fields)


def of_symmetric(function, a, k):
    """Whatever is changed in a, what is looked at stays symmetric."""
    return function((a + a.T) / 2, k)


def squared(out):
    return out[0], out[1] ** 2


def by_bfgs(f, x0, args, *method, **options):
    return scipy.optimize.minimize(f, x0, args, method="BFGS", tol=1e-7)


CLOSE = {"kwargs": {"tol": 1e-10}, "gauge": solution, "reference": by_bfgs}
TIGHT = {"kwargs": {"tol": 1e-12}}

CASES = [
    of("minimize", bowl, X0, (A,), **CLOSE),
    *[of("minimize", bowl, X0, (A,), method, **CLOSE) for method in ("BFGS", "trust-ncg", "Newton-CG", "Nelder-Mead")],
    of("minimize", bowl, X0, (A,), "L-BFGS-B", kwargs={"tol": 1e-14, "bounds": [(None, 0.3), (0.1, None)]}, gauge=solution),
    of(
        "minimize", bowl, X0, (A,), "SLSQP", gauge=solution,
        kwargs={"tol": 1e-14, "constraints": {"type": "eq", "fun": lambda x: x[0] + 2 * x[1] - 0.5}},
    ),
    of("minimize", bowl, X0, (A,), **{**CLOSE, "gauge": lambda out: out.fun}),
    of("root", equations, X0, (A,), kwargs={"tol": 1e-12}, gauge=solution),
    of("root", equations, X0, (A,), "lm", kwargs={"tol": 1e-12}, gauge=solution),
    of("root_scalar", smaller, (1.1,), nondiff=(), kwargs={"bracket": [0.0, 1.5]}, gauge=lambda out: out.root),
    of("root_scalar", smaller, (1.1,), nondiff=(), kwargs={"x0": 0.5, "x1": 0.6}, gauge=lambda out: out.root),
    of("root_scalar", smaller, (1.1,), nondiff=(), kwargs={"x0": 0.5, "method": "newton"}, gauge=lambda out: out.root,
       reference=lambda f, args, **k: scipy.optimize.root_scalar(f, args, x0=0.5, x1=0.6)),
    *[of(name, smaller, 0.0, 1.5, (1.1,), nondiff=(1, 2)) for name in ("bisect", "brenth", "brentq", "ridder", "toms748")],
    of("newton", smaller, X0, None, (A,)),
    of("newton", smaller, 0.5, None, (1.1,)),
    of("fixed_point", lambda x, a: np.cos(a * x), X0, (A,), kwargs={"xtol": 1e-12}),
    of("least_squares", np.ones(2), DATA, gauge=solution, nondiff=(0,), reference=False,
       call=lambda f, x0, y: f(lambda p: decay(TIMES, p[0], p[1]) - y, x0, xtol=1e-15, ftol=1e-15, gtol=1e-15)),
    of("least_squares", np.ones(2), DATA, gauge=lambda out: (out.cost, out.x), nondiff=(0,), reference=False,
       call=lambda f, x0, y: f(lambda p: decay(TIMES, p[0], p[1]) - y, x0, xtol=1e-15, ftol=1e-15, gtol=1e-15, loss="soft_l1")),
    of("curve_fit", decay, TIMES, DATA, nondiff=(), kwargs={"p0": np.ones(2)}),
    of("curve_fit", decay, TIMES, DATA, nondiff=(), kwargs={"sigma": np.linspace(0.1, 0.2, 6), "absolute_sigma": True}),
    iterative("cg", SYMMETRIC, B, **TIGHT),
    iterative("cg", SYMMETRIC, B, np.array([0.1, 0.2, 0.3]), **TIGHT),
    iterative("cg", SYMMETRIC, B, kwargs={"tol": 1e-12, "M": np.diag(1 / np.diag(SYMMETRIC))}),
    iterative("bicgstab", GENERAL, B, **TIGHT),
    iterative("bicgstab", GENERAL + 0.3j * SYMMETRIC, B + 0.1j, **TIGHT),
    iterative("gmres", GENERAL, B, **TIGHT),
    iterative("gmres", GENERAL, B, kwargs={"tol": 1e-12, "restart": 2}),
    iterative("gmres", GENERAL + 0.3j * SYMMETRIC, B + 0.1j, **TIGHT),
    iterative("minres", SYMMETRIC, B, kwargs={"rtol": 1e-13}),
    sparse("lsqr", GENERAL[:, :2], B, kwargs={"atol": 1e-14, "btol": 1e-14}, gauge=first),
    sparse("lsqr", GENERAL, B, 0.5, kwargs={"atol": 1e-14, "btol": 1e-14}, gauge=first),
    sparse("lsmr", GENERAL[:, :2], B, kwargs={"atol": 1e-14, "btol": 1e-14}, gauge=first),
    sparse("lsmr", GENERAL[:2], B[:2], kwargs={"atol": 1e-14, "btol": 1e-14}, gauge=first),
    sparse("eigsh", SYMMETRIC, 2, call=of_symmetric, gauge=squared),
    sparse("svds", GENERAL, 2, gauge=lambda out: (out[0] ** 2, out[1], out[2] ** 2)),
    sparse("expm_multiply", 0.3 * GENERAL, B),
    sparse("expm_multiply", 0.3 * GENERAL, B, 0.1, 1.2, kwargs={"num": 3}),
]  # fmt: skip
MATRIX, RIGHT = np.array([[1.0, 0.4], [0.3, -1.2], [0.8, 0.5]]), np.array([0.7, -1.1, 0.4])
LP = (np.array([-1.0, -2.0]), np.array([[1.0, 1.0], [0.2, 1.0]]), np.array([4.0, 2.5]))
CASES += [
    of("fsolve", equations, X0, (A,), kwargs={"xtol": 1e-13}),
    of("leastsq", lambda x, y: decay(TIMES, x[0], x[1]) - y, np.ones(2), (DATA,), gauge=first, kwargs={"xtol": 1e-13}),
    of("minimize_scalar", lambda x, a: (x - a) ** 2 + x**4, kwargs={"args": (1.2,), "tol": 1e-12}, gauge=solution, nondiff=()),
    of("lsq_linear", MATRIX, RIGHT, gauge=solution, nondiff=(), kwargs={"bounds": (-0.1, 0.7), "tol": 1e-14}),
    of("nnls", MATRIX, RIGHT, nondiff=()),
    of("linprog", *LP, gauge=solution, nondiff=()),
    of("linear_sum_assignment", GENERAL, nondiff=(), missing={}, call=lambda f, cost: cost[f(cost)]),
]
