"""Every operation that funcad was asked for: formula, derivative, edge conventions, in forward and reverse mode, under vmap
and jit, and to second order.

ROWS is the table: a name, the function, its arguments, the value's and the cotangents' formulas in NumPy (one per
argument; None where there is no derivative). EDGES lists the conventions at kinks, poles and beyond: value and derivative.
"""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import grad, jit, jvp, nn, vjp, vmap
from funcad.errors import MissingRuleError
from funcad.ir.aval import Aval
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.testing import check_grads

EPS = 1e-6
X = np.array([[-1.3, 0.4, 2.2], [0.7, -0.2, -3.1]])
Y = np.array([[0.8, -1.7, 0.35], [-2.6, 0.45, 1.9]])
POSITIVE = np.array([[0.3, 0.9, 2.2], [0.7, 1.2, 3.1]])
P = np.array([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])
Q = np.array([[0.3, 0.3, 0.4], [0.25, 0.35, 0.4]])
SIGNS = np.array([[1.0, -1.0, 1.0], [-1.0, -1.0, 1.0]])
MASK = np.array([[True, False, True], [False, False, True]])
A3, B3 = np.arange(12.0).reshape(2, 2, 3) / 7 - 0.8, np.cos(np.arange(24.0)).reshape(2, 3, 4)
V, W = np.array([0.3, -1.2, 0.7]), np.array([[0.4, -0.3, 1.1], [0.9, 0.2, -0.5]])
N = X.size


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.log1p(np.exp(x))


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _share(wins, loses, g):
    return np.where(wins, g, np.where(loses, 0.0, 0.5 * g))


def _gelu_factor(x):
    c, k = sqrt(2 / pi), 0.044715
    t = np.tanh(c * (x + k * x**3))
    return ((1 + t) + x * (1 - t**2) * c * (1 + 3 * k * x**2)) / 2


def _unary(name, f, x, value, factor):
    """An elementwise function with its local factor: cotangent = factor * g."""
    return (name, f, (x,), value, lambda g, x: (factor(x) * g,))


def _norm_back(x, g, axis, eps=1e-5):
    r = 1 / np.sqrt(x.var(axis, keepdims=True) + eps)
    y = (x - x.mean(axis, keepdims=True)) * r
    return r * (g - g.mean(axis, keepdims=True) - y * (g * y).mean(axis, keepdims=True)), y


def _cosine_back(g, p, t):
    dot, a, b = (p * t).sum(), np.linalg.norm(p), np.linalg.norm(t)
    return g * (dot / (a**3 * b) * p - t / (a * b)), g * (dot / (b**3 * a) * t - p / (a * b))


def _cross_entropy_back(g, z, t):
    log_p = np.log(_softmax(z))
    return g * (_softmax(z) * t.sum(-1, keepdims=True) - t) / 2, -g * log_p / 2


def _scatter_rows(g, x):
    out = np.zeros_like(x)
    np.add.at(out, np.array([1, 0, 1]), g)
    return (out,)


ROWS: list[tuple[str, Any, tuple, Any, Any]] = [
    ("add", fnp.add, (X, Y), np.add, lambda g, a, b: (g, g)),
    ("sub", fnp.subtract, (X, Y), np.subtract, lambda g, a, b: (g, -g)),
    ("mul", fnp.multiply, (X, Y), np.multiply, lambda g, a, b: (g * b, g * a)),
    ("div", fnp.divide, (X, Y), np.divide, lambda g, a, b: (g / b, -g * a / b**2)),
    ("safe_div", nn.safe_divide, (X, Y), lambda x, y: x / (y + EPS), lambda g, x, y: (g / (y + EPS), -g * x / (y + EPS) ** 2)),
    ("neg", fnp.negative, (X,), np.negative, lambda g, x: (-g,)),
    _unary("scale", lambda x: 2.5 * x, X, lambda x: 2.5 * x, lambda x: 2.5),
    _unary("square", fnp.square, X, np.square, lambda x: 2 * x),
    _unary("pow", lambda x: fnp.power(x, 2.5), POSITIVE, lambda x: x**2.5, lambda x: 2.5 * x**1.5),
    _unary("reciprocal", fnp.reciprocal, X, lambda x: 1 / x, lambda x: -1 / x**2),
    _unary("safe_inv", nn.safe_reciprocal, X, lambda x: 1 / (x + EPS), lambda x: -1 / (x + EPS) ** 2),
    _unary("abs", fnp.abs, X, np.abs, np.sign),
    _unary("smooth_abs", nn.smooth_abs, X, lambda x: np.sqrt(x * x + EPS), lambda x: x / np.sqrt(x * x + EPS)),
    _unary("sqrt", nn.safe_sqrt, POSITIVE, np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    _unary("sqrt raw", fnp.sqrt, POSITIVE, np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    _unary("exp", fnp.exp, X, np.exp, np.exp),
    _unary("log", fnp.log, POSITIVE, np.log, lambda x: 1 / x),
    _unary("log2", fnp.log2, POSITIVE, np.log2, lambda x: 1 / (x * np.log(2))),
    _unary("safe_log", nn.safe_log, X, lambda x: np.log(_softplus(x) + EPS), lambda x: _sigmoid(x) / (_softplus(x) + EPS)),
    _unary("shifted_log", nn.shifted_log, POSITIVE, lambda x: np.log(x + EPS), lambda x: 1 / (x + EPS)),
    _unary("sin", fnp.sin, X, np.sin, np.cos),
    _unary("cos", fnp.cos, X, np.cos, lambda x: -np.sin(x)),
    _unary("clamp", lambda x: nn.clamp(x, -0.5, 1.0), X, lambda x: np.clip(x, -0.5, 1.0), lambda x: (x > -0.5) & (x < 1.0)),
    ("maximum", fnp.maximum, (X, Y), np.maximum, lambda g, a, b: (_share(a > b, a < b, g), _share(b > a, b < a, g))),
    ("minimum", fnp.minimum, (X, Y), np.minimum, lambda g, a, b: (_share(a < b, a > b, g), _share(b < a, b > a, g))),
    (
        "where",
        lambda a, b: fnp.where(MASK[: len(a)], a, b) if a.ndim == 2 else fnp.where(MASK[0], a, b),
        (X, Y),
        lambda a, b: np.where(MASK, a, b),
        lambda g, a, b: (np.where(MASK, g, 0), np.where(MASK, 0, g)),
    ),
    _unary("relu", nn.relu, X, lambda x: np.maximum(x, 0), lambda x: x > 0),
    _unary("leaky_relu", nn.leaky_relu, X, lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1, 0.01)),
    _unary("elu", nn.elu, X, lambda x: np.where(x > 0, x, np.expm1(x)), lambda x: np.where(x > 0, 1, np.exp(x))),
    _unary(
        "gelu",
        nn.gelu,
        X,
        lambda x: x * (1 + np.tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))) / 2,
        _gelu_factor,
    ),
    _unary("sigmoid", nn.sigmoid, X, _sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x))),
    _unary("tanh", nn.tanh, X, np.tanh, lambda x: 1 - np.tanh(x) ** 2),
    _unary("softplus", nn.softplus, X, _softplus, _sigmoid),
    (
        "softmax",
        nn.softmax,
        (X,),
        _softmax,
        lambda g, x: (_softmax(x) * (g - (g * _softmax(x)).sum(-1, keepdims=True)),),
    ),
    (
        "log_softmax",
        nn.log_softmax,
        (X,),
        lambda x: np.log(_softmax(x)),
        lambda g, x: (g - _softmax(x) * g.sum(-1, keepdims=True),),
    ),
    ("sum", fnp.sum, (X,), np.sum, lambda g, x: (np.full(x.shape, g),)),
    ("mean", fnp.mean, (X,), np.mean, lambda g, x: (np.full(x.shape, g / N),)),
    ("reduce_sum", lambda x: fnp.sum(x, axis=-1), (X,), lambda x: x.sum(-1), lambda g, x: (np.repeat(g[:, None], 3, 1),)),
    ("reshape", lambda x: fnp.reshape(x, -1), (X,), np.ravel, lambda g, x: (g.reshape(x.shape),)),
    ("transpose", fnp.transpose, (X,), np.transpose, lambda g, x: (g.T,)),
    ("identity", nn.identity, (X,), lambda x: x, lambda g, x: (g,)),
    ("replicate", lambda a: fnp.full((2, 3), a), (np.float64(1.5),), lambda a: np.full((2, 3), a), lambda g, a: (g.sum(),)),
    (
        "concatenate",
        lambda a, b: fnp.concatenate([a, b], axis=0),
        (X, Y),
        lambda a, b: np.concatenate([a, b]),
        lambda g, a, b: (g[:2], g[2:]),
    ),
    (
        "slice_range",
        lambda x: nn.slice_range(x, 1, 1),
        (X,),
        lambda x: x[1:2],
        lambda g, x: (np.concatenate([np.zeros_like(g), g]),),
    ),
    ("gather", lambda x: fnp.take(x, np.array([1, 0, 1]), axis=0), (X,), lambda x: x[[1, 0, 1]], _scatter_rows),
    ("matmul", fnp.matmul, (X, Y.T), np.matmul, lambda g, a, b: (g @ b.T, a.T @ g)),
    ("matmul captured", lambda a: fnp.matmul(a, Y.T), (X,), lambda a: a @ Y.T, lambda g, a: (g @ Y,)),
    ("bmm", nn.bmm, (A3, B3), np.matmul, lambda g, a, b: (g @ b.transpose(0, 2, 1), a.transpose(0, 2, 1) @ g)),
    (
        "linear",
        nn.linear,
        (W, np.array([0.1, -0.4]), V),
        lambda w, b, x: w @ x + b,
        lambda g, w, b, x: (np.outer(g, x), g, w.T @ g),
    ),
    (
        "linear batched",
        nn.linear,
        (W, np.array([0.1, -0.4]), X),
        lambda w, b, x: x @ w.T + b,
        lambda g, w, b, x: (g.T @ x, g.sum(0), g @ w),
    ),
    ("embedding", nn.embedding, (np.eye(3)[[1, 1]], Y.T), np.matmul, lambda g, a, w: (g @ w.T, a.T @ g)),
    ("broadcast add", fnp.add, (X, V), np.add, lambda g, a, b: (g, g.sum(0))),
    ("broadcast mul", fnp.multiply, (X[:, :1], Y), np.multiply, lambda g, a, b: ((g * b).sum(1, keepdims=True), g * a)),
    (
        "mse_loss",
        nn.mse_loss,
        (X, Y),
        lambda p, t: ((p - t) ** 2).mean(),
        lambda g, p, t: (g * 2 / N * (p - t), -g * 2 / N * (p - t)),
    ),
    (
        "mae_loss",
        nn.mae_loss,
        (X, Y),
        lambda p, t: np.abs(p - t).mean(),
        lambda g, p, t: (g * np.sign(p - t) / N, -g * np.sign(p - t) / N),
    ),
    (
        "huber_loss",
        lambda p, t: nn.huber_loss(p, t, delta=1.5),
        (X, Y),
        lambda p, t: np.where(abs(p - t) < 1.5, (p - t) ** 2 / 2, 1.5 * (abs(p - t) - 0.75)).mean(),
        lambda g, p, t: (g * np.clip(p - t, -1.5, 1.5) / N, -g * np.clip(p - t, -1.5, 1.5) / N),
    ),
    (
        "smooth_l1_loss",
        lambda p, t: nn.smooth_l1_loss(p, t, beta=1.5),
        (X, Y),
        lambda p, t: np.where(abs(p - t) < 1.5, (p - t) ** 2 / 3, abs(p - t) - 0.75).mean(),
        lambda g, p, t: (g * np.clip((p - t) / 1.5, -1, 1) / N, -g * np.clip((p - t) / 1.5, -1, 1) / N),
    ),
    (
        "cross_entropy of probabilities",
        nn.cross_entropy,
        (Q, P),
        lambda q, p: -(p * np.log(q)).sum() / 2,
        lambda g, q, p: (-g * p / q / 2, -g * np.log(q) / 2),
    ),
    (
        "cross_entropy of logits",
        nn.softmax_cross_entropy,
        (X, Q),
        lambda z, t: -(t * np.log(_softmax(z))).sum() / 2,
        _cross_entropy_back,
    ),
    (
        "cross_entropy of logits, targets that do not sum to one",
        nn.softmax_cross_entropy,
        (X, POSITIVE),
        lambda z, t: -(t * np.log(_softmax(z))).sum() / 2,
        _cross_entropy_back,
    ),
    (
        "binary_cross_entropy",
        nn.binary_cross_entropy,
        (P, Q),
        lambda p, y: -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean(),
        lambda g, p, y: (g * (p - y) / (p * (1 - p)) / N, -g * np.log(p / (1 - p)) / N),
    ),
    (
        "cosine_similarity_loss",
        nn.cosine_similarity_loss,
        (X, Y),
        lambda p, t: 1 - (p * t).sum() / (np.linalg.norm(p) * np.linalg.norm(t)),
        _cosine_back,
    ),
    (
        "hinge_loss",
        nn.hinge_loss,
        (X, SIGNS),
        lambda p, t: np.maximum(0, 1 - t * p).mean(),
        lambda g, p, t: (np.where(1 - t * p > 0, -t, 0) * g / N, np.where(1 - t * p > 0, -p, 0) * g / N),
    ),
    (
        "poisson_loss",
        nn.poisson_loss,
        (X, POSITIVE),
        lambda p, t: (np.exp(p) - t * p).mean(),
        lambda g, p, t: (g * (np.exp(p) - t) / N, -g * p / N),
    ),
    (
        "log_cosh_loss",
        nn.log_cosh_loss,
        (X, Y),
        lambda p, t: np.log(np.cosh(p - t)).mean(),
        lambda g, p, t: (g * np.tanh(p - t) / N, -g * np.tanh(p - t) / N),
    ),
    (
        "layer_norm",
        nn.layer_norm,
        (X, V, V + 0.5),
        lambda x, a, b: a * (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) + b,
        lambda g, x, a, b: (_norm_back(x, a * g, -1)[0], (g * _norm_back(x, g, -1)[1]).sum(0), g.sum(0)),
    ),
    (
        "batch_norm",
        lambda x: nn.batch_norm(x)[0],
        (X,),
        lambda x: (x - x.mean(0)) / np.sqrt(x.var(0) + 1e-5),
        lambda g, x: (_norm_back(x, g, 0)[0],),
    ),
]


@pytest.mark.parametrize("row", [pytest.param(r, id=r[0]) for r in ROWS])
def test_row(row: Any) -> None:
    _, f, args, value, back = row
    rng = np.random.default_rng(0)
    out, pullback = vjp(f, *args)
    np.testing.assert_allclose(out, value(*args), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(f(*args), out, rtol=1e-14)  # un-traced
    g = np.asarray(rng.normal(size=np.shape(out)))[()]
    cts = pullback(g)
    for found, expected in zip(cts, back(g, *args)):
        np.testing.assert_allclose(found, np.broadcast_to(expected, np.shape(found)), rtol=1e-9, atol=1e-12)
    ts = tuple(np.asarray(rng.normal(size=np.shape(x)))[()] for x in args)
    tangent = jvp(f, args, ts)[1]
    np.testing.assert_allclose(np.sum(g * tangent), sum(np.sum(c * t) for c, t in zip(cts, ts)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(jit(f)(*args), out, rtol=1e-13, atol=1e-15)
    found = jit(lambda *xs: vjp(f, *xs)[1](g))(*args)
    for a, b in zip(found, cts):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)
    check_grads(f, args, 2)


@pytest.mark.parametrize("row", [pytest.param(r, id=r[0]) for r in ROWS])
def test_row_under_vmap(row: Any) -> None:
    _, f, args, *_ = row
    stacked = tuple(np.stack([x, 0.9 * x, x]) for x in args)
    found = vmap(f)(*stacked)
    for i in range(3):
        np.testing.assert_allclose(found[i], f(*[x[i] for x in stacked]), rtol=1e-12, atol=1e-14)
    total = grad(lambda x: fnp.sum(fnp.sin(vmap(f, in_axes=(0, *[None] * (len(args) - 1)))(x, *args[1:]))))(stacked[0])
    one = grad(lambda x: fnp.sum(fnp.sin(f(x, *args[1:]))))(stacked[0][1])
    np.testing.assert_allclose(total[1], one, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("row", [pytest.param(r, id=r[0]) for r in ROWS if "captured" not in r[0]])
def test_row_keeps_float32(row: Any) -> None:
    _, f, args, value, _ = row
    args32 = tuple(x.astype(np.float32) for x in args)
    out, pullback = vjp(f, *args32)
    assert out.dtype == np.float32
    assert all(ct.dtype == np.float32 for ct in pullback(np.ones(out.shape, np.float32)[()]))
    np.testing.assert_allclose(out, value(*args), rtol=2e-5, atol=1e-6)


nan, inf = np.nan, np.inf
EDGES: list[tuple[str, Any, float, float, float]] = [  # name, function, x, value, derivative
    ("abs at 0", fnp.abs, 0.0, 0.0, 0.0),
    ("pow 0 at 0", lambda x: fnp.power(x, 0.0), 0.0, 1.0, 0.0),
    ("pow 1 at 0", lambda x: fnp.power(x, 1.0), 0.0, 0.0, 1.0),
    ("pow 1/2 at 0", lambda x: fnp.power(x, 0.5), 0.0, 0.0, inf),
    ("exponent of 0", lambda y: fnp.power(0.0, y), 2.0, 0.0, 0.0),
    ("sqrt raw at 0", fnp.sqrt, 0.0, 0.0, inf),
    ("safe_sqrt at 0", nn.safe_sqrt, 0.0, 0.0, 0.0),
    ("safe_sqrt below 0", nn.safe_sqrt, -3.0, 0.0, 0.0),
    ("safe_sqrt at -inf", nn.safe_sqrt, -inf, 0.0, 0.0),
    ("safe_sqrt of NaN", nn.safe_sqrt, nan, nan, 0.0),
    ("smooth_abs at 0", nn.smooth_abs, 0.0, 1e-3, 0.0),
    ("log raw at 0", fnp.log, 0.0, -inf, inf),
    ("safe_log far left", nn.safe_log, -800.0, np.log(EPS), 0.0),
    ("safe_log far right", nn.safe_log, 1e6, np.log(1e6 + EPS), 1e-6),
    ("clamp at lo", lambda x: nn.clamp(x, -1.0, 1.0), -1.0, -1.0, 0.0),
    ("clamp at hi", lambda x: nn.clamp(x, -1.0, 1.0), 1.0, 1.0, 0.0),
    ("clamp at lo, boundary 1", lambda x: nn.clamp(x, -1.0, 1.0, boundary_grad=1.0), -1.0, -1.0, 1.0),
    ("clamp at hi, boundary 1/4", lambda x: nn.clamp(x, -1.0, 1.0, boundary_grad=0.25), 1.0, 1.0, 0.25),
    ("clamp with lo > hi", lambda x: nn.clamp(x, 2.0, 1.0), 0.0, 1.0, 0.0),
    ("clamp with lo > hi, boundary 1", lambda x: nn.clamp(x, 2.0, 1.0, boundary_grad=1.0), 1.0, 1.0, 0.0),
    ("clamp of NaN", lambda x: nn.clamp(x, -1.0, 1.0), nan, nan, 0.0),
    ("clip at a bound", lambda x: fnp.clip(x, -1.0, 1.0), 1.0, 1.0, 0.5),
    ("maximum at a tie", lambda x: fnp.maximum(x, 2.0), 2.0, 2.0, 0.5),
    ("minimum at a tie", lambda x: fnp.minimum(x, 2.0), 2.0, 2.0, 0.5),
    ("maximum of NaN", lambda x: fnp.maximum(x, 2.0), nan, nan, nan),
    ("relu at 0", nn.relu, 0.0, 0.0, 0.0),
    ("relu of NaN", nn.relu, nan, nan, 0.0),
    ("leaky_relu at 0", nn.leaky_relu, 0.0, 0.0, 0.01),
    ("elu at 0", lambda x: nn.elu(x, 2.5), 0.0, 0.0, 2.5),
    ("elu far right", nn.elu, 1e4, 1e4, 1.0),
    ("sigmoid far left", nn.sigmoid, -700.0, np.exp(-700.0), np.exp(-700.0)),
    ("sigmoid at -inf", nn.sigmoid, -inf, 0.0, 0.0),
    ("softplus far right", nn.softplus, 1e4, 1e4, 1.0),
    ("softplus far left", nn.softplus, -1e4, 0.0, 0.0),
    ("softmax of a scalar", nn.softmax, 3.0, 1.0, 0.0),
    ("log_softmax of a scalar", nn.log_softmax, 3.0, 0.0, 0.0),
    ("mae where equal", lambda x: nn.mae_loss(x, 2.0), 2.0, 0.0, 0.0),
    ("huber at delta", lambda x: nn.huber_loss(x, 0.0, 2.0), 2.0, 2.0, 2.0),
    ("hinge on the margin", lambda x: nn.hinge_loss(x, 1.0), 1.0, 0.0, 0.0),
    ("cross_entropy at the clip", lambda q: nn.cross_entropy(fnp.stack([q]), np.ones(1)), 1 - EPS, -np.log(1 - EPS), 0.0),
    ("cross_entropy beyond the clip", lambda q: nn.cross_entropy(fnp.stack([q]), np.ones(1)), 0.0, -np.log(EPS), 0.0),
    ("binary_cross_entropy beyond", lambda p: nn.binary_cross_entropy(p, 1.0), 0.0, -np.log(EPS), 0.0),
    ("log_cosh far away", lambda x: nn.log_cosh_loss(x, 0.0), 1e4, 1e4 - np.log(2), 1.0),
]


@pytest.mark.filterwarnings("ignore:grad. the output")  # x**0 does not depend on x, and grad says so
@pytest.mark.parametrize("name,f,x,value,derivative", EDGES, ids=[e[0] for e in EDGES])
def test_edge(name: str, f: Any, x: float, value: float, derivative: float) -> None:
    with np.errstate(all="ignore"):
        found, by_grad = funcad.value_and_grad(f)(x)
        tangent = jvp(f, (x,), (1.0,))[1]
        jitted = jit(funcad.value_and_grad(f))(x)
        mapped = vmap(grad(f))(np.array([x]))[0]
    np.testing.assert_allclose(found, value, rtol=1e-12)
    for other in (by_grad, tangent, jitted[1], mapped):
        np.testing.assert_allclose(other, derivative, rtol=1e-12, atol=1e-300, err_msg=name)


@pytest.mark.parametrize("f,x", [(nn.relu, -1.0), (nn.safe_sqrt, -1.0), (lambda x: nn.clamp(x, 0.0, 1.0), 5.0)])
def test_masks_select_and_do_not_multiply(f: Any, x: float) -> None:
    assert vjp(f, x)[1](np.float64(np.inf))[0] == 0.0


def test_second_derivatives_at_special_points() -> None:
    second = lambda f, x: grad(grad(f))(x)
    assert second(lambda x: x**3, 0.0) == 0.0
    assert second(lambda x: x**2, 0.0) == 2.0
    assert second(lambda x: nn.log_cosh_loss(x, 0.0), 0.0) == 1.0
    assert second(fnp.sinc, 0.0) == pytest.approx(-(pi**2) / 3)
    assert grad(lambda x: fnp.modf(x)[0])(-2.0) == 1.0
    assert second(nn.smooth_abs, 0.0) == pytest.approx(1e3)
    assert funcad.hessian(nn.relu)(0.0) == 0.0


def test_the_jvp_of_log_softmax_is_not_its_vjp() -> None:
    u, p = Y[0], _softmax(X[0])
    np.testing.assert_allclose(jvp(nn.log_softmax, (X[0],), (u,))[1], u - np.sum(p * u))
    np.testing.assert_allclose(vjp(nn.log_softmax, X[0])[1](u)[0], u - p * np.sum(u))


def test_safe_log_is_one_primitive() -> None:
    jaxpr, _ = trace_function(lambda x: [nn.safe_log(x)], [Aval((), np.dtype(float))], name="test")
    assert [e.primitive.name for e in jaxpr.equations] == ["safe_log"]


def test_rows_of_minus_infinity_are_finite() -> None:
    x = np.full((2, 3), -np.inf)
    np.testing.assert_allclose(nn.softmax(x), np.full((2, 3), 1 / 3))
    assert np.all(nn.logsumexp(x, axis=1) == -np.inf)
    for f in (nn.softmax, nn.log_softmax, lambda x: nn.logsumexp(x, axis=1)):
        out, pullback = vjp(f, x)
        assert np.all(np.isfinite(pullback(np.ones_like(out))[0]))


def test_the_empty_loss_is_zero() -> None:
    assert nn.mse_loss(np.zeros((0, 3)), np.zeros((0, 3))) == 0.0


def test_cosine_loss_of_a_zero_prediction() -> None:
    t = np.array([3.0, 4.0])
    np.testing.assert_allclose(grad(lambda p: nn.cosine_similarity_loss(p, t))(np.zeros(2)), -t / (EPS * 5.0))


def test_cross_entropy_reductions() -> None:
    each = -(P * np.log(Q)).sum(-1)
    np.testing.assert_allclose(nn.cross_entropy(Q, P, reduction="none"), each)
    np.testing.assert_allclose(nn.cross_entropy(Q, P, reduction="sum"), each.sum())
    np.testing.assert_allclose(nn.cross_entropy(Q, P, reduction="elements"), each.sum() / N)
    np.testing.assert_allclose(nn.cross_entropy(Q, P), each.mean())


def test_struct_field_and_map_lookup() -> None:
    tree = {"b": np.array([1.0, 2.0]), "a": {"c": 3.0}}
    found = grad(lambda p: fnp.sum(p["b"] ** 2))(tree)
    assert list(found) == list(grad(lambda p: p["a"]["c"] * 1.0)(tree))
    np.testing.assert_allclose(found["b"], [2.0, 4.0])
    assert found["a"]["c"] == 0.0
    with pytest.raises(KeyError):
        grad(lambda p: p["missing"])(tree)


def test_inputs_and_parameters() -> None:
    f = lambda w, x: fnp.sum(w * x)
    np.testing.assert_allclose(grad(f, argnums=1)(V, V + 1), V)
    np.testing.assert_allclose(grad(f)(V, V) + grad(f)(V, V), 2 * V)


def test_an_operation_without_a_jvp_is_loud() -> None:
    reverse_only = Primitive("reverse_only", lambda xp, x: x, lambda x: x)
    with pytest.raises(NotImplementedError, match="reverse_only") as caught:
        jvp(reverse_only, (1.0,), (1.0,))
    assert isinstance(caught.value, MissingRuleError)


def test_shapes_are_checked_at_once() -> None:
    with pytest.raises(IndexError, match="slice_range"):
        nn.slice_range(V, 1, 3)
    assert nn.slice_range(V, 3, 0).shape == (0,)
    with pytest.raises(ValueError, match="bmm"):
        nn.bmm(A3, B3[:1])
    with pytest.raises(ValueError, match="linear"):
        nn.linear(W.T, None, V)
    with pytest.raises(ValueError, match="reduction"):
        nn.mse_loss(X, Y, reduction="average")
    with pytest.raises(ValueError, match="delta"):
        nn.huber_loss(X, Y, delta=0.0)
    with pytest.raises(np.exceptions.AxisError):
        nn.softmax(X, axis=2)
