"""Cases of funcad.nn."""

import numpy as np
import scipy.special as sp

from tests.surface import case

RNG = np.random.default_rng(7)
X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.25, -3.1]])
T = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
P = np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
Q = np.array([[0.3, 0.3, 0.4], [0.25, 0.35, 0.4]])
MASK = np.array([[True, False, True], [True, True, False]])
CUBE = RNG.normal(size=(2, 3, 4))
IMAGE = RNG.normal(size=(2, 5, 4, 4))
ROW, GAMMA, BETA = np.array([1.5, 0.5, -0.7]), np.array([1.5, 0.5, 2.0]), np.array([0.1, -0.2, 0.3])
QUERY, KEY, VALUE = RNG.normal(size=(2, 3, 4, 3)), RNG.normal(size=(2, 5, 2, 3)), RNG.normal(size=(2, 5, 2, 3))
BIAS, SEEN = RNG.normal(size=(4, 3, 5)), RNG.random((2, 4, 3, 5)) > 0.2
CLASSES = np.array([2, 0])
KEY_0 = np.array([0, 7], np.uint32)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def normal(x, axis=-1, eps=1e-5):
    return (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + eps)


ELEMENTWISE = {
    "identity": lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "sigmoid": sigmoid,
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "sparse_plus": lambda x: np.where(x >= 1, x, np.where(x > -1, (x + 1) ** 2 / 4, 0.0)),
    "sparse_sigmoid": lambda x: 0.5 * np.clip(x + 1, 0, 2),
    "log_sigmoid": lambda x: -np.log1p(np.exp(-x)),
    "tanh": np.tanh,
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "soft_sign": lambda x: x / (1 + abs(x)),
    "smooth_abs": lambda x: np.sqrt(x * x + 1e-6),
    "safe_sqrt": lambda x: np.sqrt(np.maximum(x, 0)),
    "safe_log": lambda x: np.log(np.log1p(np.exp(x)) + 1e-6),
    "safe_reciprocal": lambda x: 1 / (x + 1e-6),
}
LOSSES = "mse_loss mae_loss huber_loss smooth_l1_loss hinge_loss poisson_loss log_cosh_loss cosine_similarity_loss".split()


def pooled(reduce):
    def reference(x, window, **_):
        parts = [x[:, i : i + 4 : 2, j : j + 4 : 2] for i in range(2) for j in range(2)]
        return reduce(np.stack(parts), axis=0)

    return reference


CASES = [
    *[case(f"nn.{name}", X, reference=f) for name, f in ELEMENTWISE.items()],
    case("nn.gelu", X, kwargs={"approximate": False}, reference=lambda x, **_: x * sp.ndtr(x)),
    case("nn.leaky_relu", X, 0.3, reference=False),
    case("nn.elu", X, 0.7, reference=False),
    case("nn.celu", X, ROW + 2.0, reference=False),
    case("nn.squareplus", X, 2.0, reference=False),
    case("nn.shifted_log", P, reference=lambda x: np.log(x + 1e-6)),
    case("nn.log1mexp", P, reference=lambda x: np.log(-np.expm1(-x))),
    case("nn.safe_divide", X, P, reference=lambda x, y: x / (y + 1e-6)),
    case("nn.clamp", X, -1.0, 1.0, reference=np.clip),
    case("nn.glu", CUBE, reference=lambda x: x[..., :2] * sigmoid(x[..., 2:])),
    # -- along axes
    case("nn.softmax", X, reference=lambda x: sp.softmax(x, -1)),
    case("nn.softmax", CUBE, kwargs={"axis": (0, 2)}, reference=lambda x, axis: sp.softmax(x, axis)),
    case("nn.softmax", X, kwargs={"where": MASK}, reference=lambda x, where: sp.softmax(np.where(where, x, -np.inf), -1)),
    case("nn.log_softmax", X, reference=lambda x: sp.log_softmax(x, -1)),
    case("nn.log_softmax", CUBE, kwargs={"axis": None}, reference=lambda x, axis: sp.log_softmax(x, axis)),
    case("nn.logsumexp", CUBE, kwargs={"axis": (0, 1), "keepdims": True}, reference=sp.logsumexp),
    case("nn.logsumexp", X, 0, P, reference=lambda x, axis, b: sp.logsumexp(x, axis, b)),
    case("nn.logsumexp", X, 1, T, kwargs={"return_sign": True}, reference=lambda x, a, b, **k: sp.logsumexp(x, a, b, **k)),
    case("nn.logmeanexp", X, kwargs={"axis": 1}, reference=lambda x, axis: np.log(np.exp(x).mean(axis))),
    case("nn.logmeanexp", X, kwargs={"where": MASK}, reference=lambda x, where: np.log(np.exp(x[where]).mean())),
    case("nn.standardize", X, reference=normal),
    case("nn.standardize", X, kwargs={"where": MASK, "axis": None}, reference=False),
    case("nn.standardize", X, -1, ROW, P + 1.0, reference=lambda x, _, m, v: (x - m) / np.sqrt(v + 1e-5)),
    # -- normalisation
    case("nn.layer_norm", X, GAMMA, BETA, reference=lambda x, g, b: g * normal(x) + b),
    case("nn.rms_norm", X, GAMMA, reference=lambda x, g: g * x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)),
    case("nn.batch_norm", X, reference=lambda x: (normal(x, 0), x.mean(0), x.var(0))),
    case("nn.batch_norm", CUBE, GAMMA, BETA, (0, 2), reference=False),
    case("nn.group_norm", CUBE, 2, reference=lambda x, _: normal(x.reshape(2, 3, 2, 2), (1, 3)).reshape(x.shape)),
    case("nn.group_norm", CUBE, 3, GAMMA, BETA, kwargs={"channel_axis": 1}, reference=False),
    case("nn.instance_norm", CUBE, reference=lambda x: normal(x, 1)),
    # -- layers
    case("nn.linear", T, np.array([0.5, -0.5]), X, reference=lambda w, b, x: x @ w.T + b),
    case("nn.bmm", CUBE, np.swapaxes(CUBE, 1, 2).copy(), reference=np.matmul),
    case("nn.embedding", CLASSES, T.T.copy(), reference=lambda i, w: w[i]),
    case("nn.embedding", P, T.T.copy(), reference=np.matmul),
    case("nn.one_hot", CLASSES, 3, reference=lambda i, n: np.eye(n)[i]),
    case("nn.dropout", KEY_0, X, 0.4, nondiff=(2,), reference=False),
    case("nn.slice_range", X.T.copy(), 1, 2, reference=lambda x, i, n: x[i : i + n]),
    case("nn.dot_product_attention", QUERY, KEY, VALUE, BIAS, reference=False),
    case("nn.dot_product_attention", QUERY, KEY, VALUE, BIAS, SEEN, kwargs={"scale": 0.3}, reference=False),
    case(
        "nn.dot_product_attention", QUERY, KEY, VALUE, reference=False,
        kwargs={"is_causal": True, "local_window_size": (1, 2), "return_residual": True},
    ),
    case(
        "nn.dot_product_attention", QUERY, KEY, VALUE, reference=False,
        kwargs={"query_seq_lengths": np.array([2, 3]), "key_value_seq_lengths": np.array([5, 3])},
    ),
    case("nn.conv", IMAGE, RNG.normal(size=(2, 3, 4, 2)), BETA[:2], kwargs={"padding": "SAME"}, reference=False),
    case(
        "nn.conv", CUBE, RNG.normal(size=(6, 1, 2)), reference=False,
        kwargs={"data_format": "NCW", "groups": 3, "strides": 2, "padding": 1},
    ),
    case("nn.conv_transpose", CUBE, RNG.normal(size=(2, 4, 2)), kwargs={"strides": 2}, reference=False),
    case("nn.max_pool", IMAGE, (2, 2), reference=pooled(np.max)),
    case("nn.min_pool", IMAGE, (2, 2), reference=pooled(np.min)),
    case("nn.avg_pool", IMAGE, (2, 2), reference=pooled(np.mean)),
    case("nn.avg_pool", IMAGE, 3, 2, "SAME", kwargs={"data_format": "NCHW", "count_include_pad": False}, reference=False),
    # -- losses
    *[case(f"nn.{name}", X, T, reference=False) for name in LOSSES],
    case("nn.huber_loss", X, T, 2.0, nondiff=(2,), reference=False),
    case("nn.cross_entropy", Q, P, reference=lambda q, p: -(p * np.log(q)).sum(-1).mean()),
    case("nn.softmax_cross_entropy", X, P, reference=lambda z, p: -(p * sp.log_softmax(z, -1)).sum(-1).mean()),
    case("nn.softmax_cross_entropy", X, CLASSES, reference=lambda z, c: -sp.log_softmax(z, -1)[[0, 1], c].mean()),
    case("nn.binary_cross_entropy", P, Q, reference=lambda p, t: -(t * np.log(p) + (1 - t) * np.log1p(-p)).mean()),
    case(
        "nn.sigmoid_binary_cross_entropy", X, Q,
        reference=lambda z, t: -(t * np.log(sigmoid(z)) + (1 - t) * np.log(sigmoid(-z))).mean(),
    ),
    case("nn.kl_div_loss", X, P, reference=lambda q, t: (t * (np.log(t) - q)).sum(-1).mean()),
]  # fmt: skip
