"""The draws whose numbers are compared with JAX's: `CALLS`, each `name -> (call(random, key), tolerance)`.

`random` is funcad.random or jax.random. Tolerance 0 means equal bits; otherwise it is relative to the larger of the element and
a thousandth of the largest (NumPy's log and XLA's differ in the last bit).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["CALLS", "INITIALIZERS", "SEED"]

SEED = 20
CALLS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {}
F8, F4, F2 = 2e-14, 3e-5, 8e-3


def add(name: str, call: Callable[[Any, Any], Any], tolerance: float = 0) -> None:
    assert name not in CALLS, name
    CALLS[name] = (call, tolerance)


def floats(name: str, call: Callable[..., Any], exact: bool = False) -> None:
    """The call in each float dtype."""
    for dtype, tolerance in (("float64", F8), ("float32", F4), ("float16", F2)):
        add(f"{name}-{dtype}", lambda r, k, d=dtype: call(r, k, np.dtype(d)), 0 if exact else tolerance)


A = np.array([0.02, 0.3, 0.9, 1.0, 1.5, 4.0, 30.0, 1000.0])
PROBABILITIES = np.array([0.1, 0.25, 0.05, 0.6])
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]]))
COVARIANCE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.2], [0.1, -0.2, 0.7]])
MEAN = np.array([1.0, -2.0, 0.5])

# -- keys and bits
for seed in (0, 1, -1, 2**40 + 5, -(2**63)):
    add(f"PRNGKey-{seed}", lambda r, k, s=seed: r.PRNGKey(s))
add("PRNGKey-int32", lambda r, k: r.PRNGKey(np.int32(-7)))
add("PRNGKey-uint64", lambda r, k: r.PRNGKey(np.uint64(2**64 - 3)))
add("split", lambda r, k: r.split(k))
add("split-20", lambda r, k: r.split(k, 20))
add("split-tuple", lambda r, k: r.split(k, (2, 3)))
add("fold_in", lambda r, k: r.fold_in(k, 1234567))
add("fold_in-large", lambda r, k: r.fold_in(k, 2**32 - 1))
add("fold_in-int64", lambda r, k: r.fold_in(k, np.int64(-5)))
for size in (8, 16, 32, 64):
    add(f"bits-uint{size}", lambda r, k, s=size: r.bits(k, (3, 7), np.dtype(f"uint{s}")))
add("bits-scalar", lambda r, k: r.bits(k))

# -- the basic ones
floats("uniform", lambda r, k, d: r.uniform(k, (3, 7), d), exact=True)
floats("uniform-bounds", lambda r, k, d: r.uniform(k, (20,), d, -3.0, 7.5))  # XLA contracts to a fused multiply-add
add(
    "uniform-arrays",
    lambda r, k: r.uniform(k, (4, 3), None, np.array([0.0, 1.0, -2.0]), np.array([[1.0], [2.0], [3.0], [4.0]])),
    F8,
)
floats("normal", lambda r, k, d: r.normal(k, (50,), d))
add("normal-scalar", lambda r, k: r.normal(k), F8)
add("normal-complex128", lambda r, k: r.normal(k, (9,), np.dtype("complex128")), F8)
add("normal-complex64", lambda r, k: r.normal(k, (9,), np.dtype("complex64")), F4)
for size in (8, 16, 32, 64):
    for sign in ("int", "uint"):
        add(f"randint-{sign}{size}", lambda r, k, d=f"{sign}{size}": r.randint(k, (20,), 3, 100, np.dtype(d)))
add("randint-power-of-two", lambda r, k: r.randint(k, (20,), -8, 8))
add("randint-huge", lambda r, k: r.randint(k, (20,), -(2**62), 2**62 + 12345))
add("randint-int32-huge", lambda r, k: r.randint(k, (20,), -(2**31), 2**31, np.dtype("int32")))
add("randint-uint8-all", lambda r, k: r.randint(k, (20,), 0, 256, np.dtype("uint8")))
add("randint-empty-range", lambda r, k: r.randint(k, (4,), 5, 5))
add("randint-arrays", lambda r, k: r.randint(k, (2, 3), np.array([0, -5, 10]), np.array([[3], [40]])))
add("randint-arrays-int32", lambda r, k: r.randint(k, (2, 2), np.array([0, -5]), np.array([7, 2**31]), np.dtype("int32")))
add("bernoulli", lambda r, k: r.bernoulli(k, 0.3, (40,)))
add("bernoulli-array", lambda r, k: r.bernoulli(k, PROBABILITIES))
add("bernoulli-float32", lambda r, k: r.bernoulli(k, PROBABILITIES.astype("f4"), (5, 4)))
add("bernoulli-high", lambda r, k: r.bernoulli(k, PROBABILITIES, (5, 4), mode="high"))
add("rademacher", lambda r, k: r.rademacher(k, (30,)))
add("rademacher-int8", lambda r, k: r.rademacher(k, (30,), np.dtype("int8")))
floats("truncated_normal", lambda r, k, d: r.truncated_normal(k, -2.0, 1.5, (30,), d))
add("truncated_normal-arrays", lambda r, k: r.truncated_normal(k, np.array([-1.0, 0.0, 2.0]), np.array([0.5, 4.0, 2.5])), F8)

# -- continuous
floats("exponential", lambda r, k, d: r.exponential(k, (30,), d))
floats("gumbel", lambda r, k, d: r.gumbel(k, (30,), d))
floats("gumbel-high", lambda r, k, d: r.gumbel(k, (30,), d, mode="high"))
floats("gumbel-highest", lambda r, k, d: r.gumbel(k, (30,), d, mode="highest"))
floats("laplace", lambda r, k, d: r.laplace(k, (30,), d))
floats("logistic", lambda r, k, d: r.logistic(k, (30,), d))
floats("cauchy", lambda r, k, d: r.cauchy(k, (30,), d))
floats("pareto", lambda r, k, d: r.pareto(k, A[2:].astype(d), (5, 6), d))
floats("weibull_min", lambda r, k, d: r.weibull_min(k, 1.5, 2.5, (30,), d))
floats("rayleigh", lambda r, k, d: r.rayleigh(k, A.astype(d), (3, 8), d))
floats("triangular", lambda r, k, d: r.triangular(k, -1.0, 0.5, 2.0, (30,), d))
floats("lognormal", lambda r, k, d: r.lognormal(k, 0.5, (30,), d))
floats("maxwell", lambda r, k, d: r.maxwell(k, (20,), d))
floats("double_sided_maxwell", lambda r, k, d: r.double_sided_maxwell(k, 0.5, 2.0, (20,), d))
floats("wald", lambda r, k, d: r.wald(k, np.array([0.5, 1.0, 3.0]).astype(d), (8, 3), d))

# -- gamma and its relatives
floats("gamma", lambda r, k, d: r.gamma(k, A.astype(d), (12, 8), d))
floats("loggamma", lambda r, k, d: r.loggamma(k, A.astype(d), (12, 8), d))
floats("beta", lambda r, k, d: r.beta(k, np.array([0.5, 2.0]).astype(d), 3.0, (12, 2), d))
floats("dirichlet", lambda r, k, d: r.dirichlet(k, np.array([0.3, 1.0, 5.0]).astype(d), (10,), d))
floats("chisquare", lambda r, k, d: r.chisquare(k, np.array([1.0, 7.0]).astype(d), (12, 2), d))
floats("f", lambda r, k, d: r.f(k, np.array([3.0, 4.0]).astype(d), np.array([1.0, 7.0]).astype(d), (2,), d))
floats("t", lambda r, k, d: r.t(k, np.array([1.0, 7.0]).astype(d), (12, 2), d))
floats("generalized_normal", lambda r, k, d: r.generalized_normal(k, 3.0, (20,), d))
floats("ball", lambda r, k, d: r.ball(k, 3, 2.0, (8,), d))

# -- discrete
add("categorical", lambda r, k: r.categorical(k, LOGITS))
add("categorical-shape", lambda r, k: r.categorical(k, LOGITS, shape=(20, 2)))
add("categorical-axis", lambda r, k: r.categorical(k, LOGITS, axis=0, shape=(10, 3)))
add("categorical-float32", lambda r, k: r.categorical(k, LOGITS.astype("f4"), shape=(20, 2)))
add("categorical-without", lambda r, k: r.categorical(k, LOGITS, shape=(3, 2), replace=False))
add("categorical-high", lambda r, k: r.categorical(k, LOGITS, shape=(9, 2), mode="high"))
add("poisson", lambda r, k: r.poisson(k, np.array([0.0, 0.1, 2.0, 9.0, 10.0, 60.0, 5000.0]), (20, 7)))
add("poisson-int16", lambda r, k: r.poisson(k, 3.0, (30,), np.dtype("int16")))
add("poisson-invalid", lambda r, k: r.poisson(k, np.array([-1.0, np.nan])))
add(
    "binomial",
    lambda r, k: r.binomial(k, np.array([1, 10, 100, 5000]), np.array([[0.02], [0.5], [0.7], [1.0], [0.0]]), (6, 5, 4)[1:]),
)
add("binomial-many", lambda r, k: r.binomial(k, np.array([40.0, 200.0]), 0.4, (50, 2)))
add("binomial-float32", lambda r, k: r.binomial(k, 100, np.float32(0.3), (30,), np.dtype("float32")))
add("binomial-invalid", lambda r, k: r.binomial(k, np.array([-1.0, 5.0, 5.0, np.nan]), np.array([0.5, -0.1, 1.2, 0.5])))
add("multinomial", lambda r, k: r.multinomial(k, np.array([10.0, 200.0]), np.stack([PROBABILITIES, PROBABILITIES[::-1]])))
add("geometric", lambda r, k: r.geometric(k, np.array([0.05, 0.5, 0.9]), (20, 3)))

# -- arrays
add("permutation-number", lambda r, k: r.permutation(k, 50))
add("permutation-vector", lambda r, k: r.permutation(k, np.linspace(0.0, 1.0, 30)))
add("permutation-matrix", lambda r, k: r.permutation(k, np.arange(30).reshape(10, 3)))
add("permutation-axis", lambda r, k: r.permutation(k, np.arange(30).reshape(3, 10), axis=1))
add("permutation-independent", lambda r, k: r.permutation(k, np.arange(30).reshape(3, 10), axis=1, independent=True))
add("choice", lambda r, k: r.choice(k, 11, (20,)))
add("choice-array", lambda r, k: r.choice(k, np.arange(12.0).reshape(4, 3), (5,), axis=1))
add("choice-without", lambda r, k: r.choice(k, 30, (4, 5), replace=False))
add("choice-array-without", lambda r, k: r.choice(k, np.arange(12.0).reshape(4, 3), (2,), replace=False))
add("choice-weighted", lambda r, k: r.choice(k, 4, (30,), p=PROBABILITIES))
add("choice-weighted-without", lambda r, k: r.choice(k, np.arange(4.0), (3,), replace=False, p=PROBABILITIES))
for method in ("cholesky", "eigh", "svd"):
    add(
        f"multivariate_normal-{method}",
        lambda r, k, m=method: r.multivariate_normal(k, MEAN, COVARIANCE, (6,), method=m),
        1e-12,
    )
add("multivariate_normal-float32", lambda r, k: r.multivariate_normal(k, MEAN.astype("f4"), COVARIANCE.astype("f4")), 1e-5)
add("orthogonal", lambda r, k: r.orthogonal(k, 4, (2,)), 1e-12)
add("orthogonal-wide", lambda r, k: r.orthogonal(k, 2, m=3), 1e-12)
add("orthogonal-tall-float32", lambda r, k: r.orthogonal(k, 4, dtype=np.dtype("float32"), m=3), 1e-4)

# -- funcad.nn.initializers; `random` is the module of initializers here
INITIALIZERS: dict[str, tuple[Callable[[Any, Any], Any], float]] = {}


def initial(name: str, call: Callable[[Any, Any], Any], tolerance: float = 1e-13) -> None:
    INITIALIZERS[name] = (call, tolerance)


for kind in ("glorot", "he", "lecun", "xavier", "kaiming"):
    for law in ("normal", "uniform"):
        initial(f"{kind}_{law}", lambda i, k, n=f"{kind}_{law}": getattr(i, n)()(k, (3, 4)))
initial("glorot_normal-float32", lambda i, k: i.glorot_normal(dtype=np.dtype("float32"))(k, (3, 4)), 3e-5)
initial("he_normal-axes", lambda i, k: i.he_normal(in_axis=(0, 1), out_axis=3, batch_axis=2)(k, (2, 3, 2, 4)))
initial("geometric", lambda i, k: i.variance_scaling(2.0, "fan_geo_avg", "normal")(k, (3, 2, 4)))
for law in ("normal", "uniform", "truncated_normal"):
    initial(f"complex-{law}", lambda i, k, n=law: i.variance_scaling(1.0, "fan_out", n)(k, (3, 4), np.dtype("complex128")))
initial("uniform", lambda i, k: i.uniform(0.5)(k, (7,)))
initial("normal", lambda i, k: i.normal()(k, (7,)))
initial("truncated_normal", lambda i, k: i.truncated_normal(2.0, lower=-1.0, upper=3.0)(k, (7,)))
initial("zeros", lambda i, k: i.zeros(k, (2, 3)), 0)
initial("ones", lambda i, k: i.ones(k, (2, 3), np.dtype("float32")), 0)
initial("constant", lambda i, k: i.constant(np.array([1.0, 2.0]))(k, (3, 2)), 0)
initial("orthogonal", lambda i, k: i.orthogonal(2.0)(k, (3, 2, 4)), 1e-12)
initial("orthogonal-columns", lambda i, k: i.orthogonal(column_axis=0)(k, (3, 5)), 1e-12)
initial("orthogonal-empty", lambda i, k: i.orthogonal()(k, (3, 0)), 0)
for shape in ((3, 2, 4), (3, 4, 2, 2), (2, 3, 3, 2, 3)):
    initial(f"delta_orthogonal-{len(shape)}", lambda i, k, s=shape: i.delta_orthogonal()(k, s), 1e-12)
