"""funcad.random and funcad.nn.initializers. The numbers themselves are compared with JAX's in tests/random/test_random.py."""

import numpy as np

from funcad import random
from tests.surface import case

KEY = random.key(3)
A, B = np.array([0.7, 2.0]), np.array([1.5, 4.0])
COV = np.array([[2.0, 0.3], [0.3, 1.0]])
LOGITS = np.array([[0.1, 1.0, -0.5], [0.0, 0.2, 0.4]])
DEFAULT = {"dtype": "the result is float64 unless dtype= says otherwise"}
SIZE = {"shape": (4,)}


def keys_only(name, *args, **kwargs):
    """A draw without parameters that could be differentiated."""
    return case(f"random.{name}", KEY, *args, order=0, nondiff=range(1, 9), reference=False, kwargs=kwargs, missing=DEFAULT)


def smooth(name, *args, order=2, tolerance=1e-6, missing=(), **kwargs):
    """A draw that is a smooth function of its parameters at a fixed key."""
    return case(
        f"random.{name}", KEY, *args, order=order, reference=False, kwargs=kwargs, tolerance=tolerance,
        missing={**DEFAULT, **dict(missing)},
    )  # fmt: skip


def implicit(name, *args, **kwargs):
    """Differentiable at a fixed value of the distribution function, not at a fixed key."""
    return case(f"random.{name}", KEY, *args, order=0, nondiff=range(1, 9), reference=False, kwargs=kwargs, missing=DEFAULT,
                agreement=1e-12, elsewhere=dict.fromkeys(["jvp", "vjp"], IMPLICIT))  # fmt: skip


IMPLICIT = "an implicit derivative, not that of the number which a fixed key gives: tested in tests/random/test_random.py"


def discrete(name, *args):
    return case(f"random.{name}", KEY, *args, order=0, nondiff=range(1, 9), reference=False, missing=DEFAULT)


CASES = [
    case("random.key", 5, reference=lambda seed: np.array([0, seed], np.uint32)),
    case("random.PRNGKey", -1, reference=lambda seed: np.full(2, 2**32 - 1, np.uint32)),
    keys_only("split"),
    keys_only("split", num=(2, 3)),
    keys_only("fold_in", 7),
    case("random.clone", KEY, reference=lambda key: key),
    case("random.key_data", KEY, reference=lambda key: key),
    case("random.wrap_key_data", KEY, reference=lambda key: key),
    case("random.key_impl", KEY, reference=lambda key: "threefry2x32", static=(0,)),
    case("random.key_dtype", reference=lambda: np.dtype(np.uint32)),
    keys_only("bits", (3,)),
    keys_only("bits", (3,), dtype="uint8"),
    keys_only("uniform", (3,)),
    keys_only("normal", (2, 3)),
    keys_only("normal", (3,), dtype="complex128"),
    keys_only("randint", (3,), 0, 10),
    keys_only("randint", (2,), np.array([0, 5]), np.array([3, 50])),
    keys_only("rademacher", (3,)),
    keys_only("exponential", (3,)),
    keys_only("gumbel", (3,)),
    keys_only("gumbel", (3,), mode="high"),
    keys_only("laplace", (3,)),
    keys_only("logistic", (3,)),
    keys_only("cauchy", (3,)),
    keys_only("maxwell", (3,)),
    keys_only("orthogonal", 3),
    keys_only("permutation", 5),
    keys_only("choice", 7, (3,)),
    keys_only("choice", 7, (3,), replace=False),
    keys_only("choice", 3, (4,), True, np.array([0.2, 0.3, 0.5])),
    smooth("uniform", (2,), None, A, B),
    smooth("truncated_normal", -A, B, tolerance=1e-5),
    smooth("pareto", A),
    smooth("weibull_min", 1.5, B, shape=(2,)),
    smooth("rayleigh", A),
    smooth("triangular", A, B, B + 1.0),
    smooth("lognormal", A),
    smooth("double_sided_maxwell", 0.5, B),
    smooth("wald", A),
    smooth("permutation", A),
    smooth("permutation", COV, axis=1, independent=True),
    smooth("choice", B, (3,)),
    case(
        "random.multivariate_normal",
        KEY,
        A,
        COV,
        reference=False,
        missing=DEFAULT,
        call=lambda draw, key, mean, c: draw(key, mean, c @ c.T),
    ),  # differences of a covariance must keep it symmetric
    case(
        "random.multivariate_normal",
        KEY,
        A,
        COV,
        order=0,
        nondiff=(1, 2),
        reference=False,
        missing=DEFAULT,
        agreement=1e-10,
        kwargs={"shape": (3,), "method": "eigh"},
    ),
    case(
        "random.random_gamma_p",
        KEY,
        A,
        order=0,
        nondiff=(1,),
        reference=False,
        call=lambda primitive, key, a: primitive(key, a, log_space=False),
    ),
    implicit("gamma", A),
    implicit("loggamma", A),
    implicit("beta", A, B),
    implicit("dirichlet", B),
    implicit("chisquare", B),
    implicit("f", A, B),
    implicit("t", B),
    implicit("generalized_normal", 3.0, **SIZE),
    implicit("ball", 3, 3.0),
    case("random.bernoulli", KEY, np.array([0.3, 0.8]), order=0, nondiff=(1,), reference=False, kwargs={"shape": (3, 2)}),
    case("random.categorical", KEY, LOGITS, order=0, nondiff=(1,), reference=False),
    case("random.categorical", KEY, LOGITS, order=0, nondiff=(1,), reference=False, kwargs={"replace": False, "shape": (2, 2)}),
    case("random.poisson", KEY, np.array([3.0, 40.0]), order=0, nondiff=(1,), reference=False),
    discrete("binomial", np.array([5.0, 90.0]), np.array([0.3, 0.6])),
    discrete("multinomial", 20.0, np.array([0.3, 0.6, 0.1])),
    case("random.geometric", KEY, np.array([0.3, 0.8]), order=0, nondiff=(1,), reference=False),
]


def made(name, *args, shape=(3, 4), **kwargs):
    """The initializer that a maker gives, called."""
    return case(
        f"nn.initializers.{name}", KEY, reference=False, order=0, missing=DEFAULT, agreement=1e-12,
        call=lambda maker, key: maker(*args, **kwargs)(key, shape),
    )  # fmt: skip


CASES += [
    *[made(f"{kind}_{law}") for kind in ("glorot", "he", "lecun", "xavier", "kaiming") for law in ("normal", "uniform")],
    made("variance_scaling", 2.0, "fan_avg", "normal"),
    made("normal"),
    made("uniform"),
    made("truncated_normal"),
    made("constant", 0.5),
    made("orthogonal"),
    made("delta_orthogonal", shape=(3, 2, 3)),
    case("nn.initializers.zeros", KEY, (2, 3), order=0, missing=DEFAULT, reference=lambda key, shape: np.zeros(shape)),
    case("nn.initializers.ones", KEY, (2, 3), order=0, missing=DEFAULT, reference=lambda key, shape: np.ones(shape)),
]
