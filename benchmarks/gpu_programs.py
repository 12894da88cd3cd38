"""What `benchmarks.gpu` runs: W1 to W10, a scan, a training step, attention and draws, for each library as its users write it.

Idea: a program is a function written with a library's NumPy and a transform of it, as in workload.py; by hand it is CuPy with
the derivative written out, and, for element operations, one kernel of CuPy's own maker. Sizes are those of the CPU's
benchmarks of the same names; `small` ones are for a trial without a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

import numpy

import funcad
from benchmarks import (
    device_calls,
    w1_scalar,
    w2_mlp,
    w3_elementwise,
    w4_logistic,
    w6_softmax,
    w7_layernorm,
    w8_rnn,
    w9_vmap_grad,
    w10_hessian,
)
from benchmarks.harness import peer
from benchmarks.workload import TRANSFORMS

__all__ = ["Program", "programs", "transformed"]

RATE = 1e-3  # of the training step


class Program(NamedTuple):
    """What is computed, on which data, and how each library does it."""

    what: str
    function: Callable[[Any], Callable[..., Any]]  # of a library's NumPy
    transform: str
    data: Callable[[Any, bool], tuple]  # of (dtype, small)
    torch: Callable[[Any], Callable[..., Any]] | None = None
    by_hand: Callable[[Any], Callable[..., Any]] | None = None  # of CuPy; the derivative is written out
    kernel: Callable[[Any], Callable[..., Any]] | None = None  # of CuPy: the whole as one kernel of its maker's
    dtypes: tuple[Any, ...] = (numpy.float64, numpy.float32)
    traffic: bool = False  # is memory what limits it?
    products: bool = False  # does TF32 change it?
    tolerance: float = 1.0
    draws: bool = False  # no two libraries draw the same numbers, and the stand-in has no generator


def step(library: Any, f: Any) -> Any:
    """A step of gradient descent."""
    gradient = library.value_and_grad(f)

    def run(parameters: Any, *rest: Any) -> Any:
        value, slopes = gradient(parameters, *rest)
        return value, tuple([p - RATE * g for p, g in zip(parameters, slopes)])

    return run


def transformed(library: Any, name: str, f: Any) -> Any:
    """f under a transform of funcad's or JAX's."""
    return step(library, f) if name == "step" else TRANSFORMS[name](library, f)


def rescoped(f: Any) -> Callable[[Any], Callable[..., Any]]:
    """A function that is written with the module `numpy`, on another library."""
    return lambda xp: FunctionType(f.__code__, {**f.__globals__, "numpy": xp}, None, None, f.__closure__)


def first(n: int, *arrays: Any) -> tuple:
    return tuple([a[:n] for a in arrays])


# -- one kernel, by CuPy's maker


def polynomial_kernel(cupy: Any) -> Callable[[Any], Any]:
    text = f"T({w3_elementwise.COEFFICIENTS[-1]!r})"
    for c in w3_elementwise.COEFFICIENTS[-2::-1]:
        text = f"({text}) * x + T({c!r})"
    kernel: Callable[[Any], Any] = cupy.ElementwiseKernel("T x", "T y", f"y = {text}", "polynomial")
    return kernel


def transcendental_kernel(cupy: Any) -> Callable[[Any], Any]:
    text = "y = tanh(x) * exp(-x * x) + log1p(x * x)"
    kernel: Callable[[Any], Any] = cupy.ElementwiseKernel("T x", "T y", text, "transcendental")
    return kernel


def transcendental_gradient_kernel(cupy: Any) -> Callable[[Any], Any]:
    text = "T t = tanh(x), s = x * x; y = exp(-s) * (T(1) - t * t - T(2) * x * t) + T(2) * x / (T(1) + s)"
    kernel: Callable[[Any], Any] = cupy.ElementwiseKernel("T x", "T y", text, "transcendental_gradient")
    return kernel


# -- a scan


def scanned(np: Any) -> Callable[..., Any]:
    jax = peer("jax")
    scan = jax.lax.scan if jax and np is jax.numpy else funcad.scan
    return lambda c, xs: np.sum(scan(lambda c, x: (np.sin(c) * 0.9 + x, None), c, xs)[0])


def torch_scanned(torch: Any) -> Callable[..., Any]:
    def f(c: Any, xs: Any) -> Any:
        for x in xs:
            c = torch.sin(c) * 0.9 + x
        return c.sum()

    return f


def scanned_by_hand(c: Any, xs: Any) -> Any:
    kept = []
    for x in xs:
        kept.append(c)
        c = numpy.sin(c) * 0.9 + x
    ct = numpy.ones_like(c)
    for c in reversed(kept):
        ct = ct * numpy.cos(c) * 0.9
    return ct


# -- a training step: three layers


def network(np: Any) -> Callable[..., Any]:
    def loss(parameters: Any, x: Any, y: Any) -> Any:
        w, b, v, c, u, d = parameters
        z = np.dot(np.tanh(np.dot(np.tanh(np.dot(x, w) + b), v) + c), u) + d
        z = z - np.max(z, axis=1, keepdims=True)
        return np.mean(np.log(np.sum(np.exp(z), axis=1)) - np.sum(z * y, axis=1))

    return loss


def torch_network(torch: Any) -> Callable[..., Any]:
    def loss(parameters: Any, x: Any, y: Any) -> Any:
        w, b, v, c, u, d = parameters
        z = torch.addmm(d, torch.tanh(torch.addmm(c, torch.tanh(torch.addmm(b, x, w)), v)), u)
        return torch.nn.functional.cross_entropy(z, y)

    return loss


def network_by_hand(parameters: Any, x: Any, y: Any) -> Any:
    w, b, v, c, u, d = parameters
    h = numpy.tanh(x @ w + b)
    k = numpy.tanh(h @ v + c)
    z = k @ u + d
    z -= z.max(axis=1, keepdims=True)
    e = numpy.exp(z)
    s = e.sum(axis=1, keepdims=True)
    value = numpy.mean(numpy.log(s[:, 0]) - numpy.sum(z * y, axis=1))
    dz = (e / s - y) / len(x)
    dk = (dz @ u.T) * (1.0 - k * k)
    dh = (dk @ v.T) * (1.0 - h * h)
    slopes = x.T @ dh, dh.sum(axis=0), h.T @ dk, dk.sum(axis=0), k.T @ dz, dz.sum(axis=0)
    return value, tuple([p - RATE * g for p, g in zip(parameters, slopes)])


def network_data(dtype: Any, small: bool) -> tuple:
    random = numpy.random.default_rng(0)
    batch, sizes = (8, (12, 6, 5, 4)) if small else (1024, (784, 512, 512, 10))
    parameters = []
    for n, m in zip(sizes, sizes[1:]):
        parameters += [(random.normal(size=(n, m)) / math.sqrt(n)).astype(dtype), numpy.zeros(m, dtype)]
    labels = numpy.eye(sizes[-1], dtype=dtype)[random.integers(0, sizes[-1], batch)]
    return tuple(parameters), random.normal(size=(batch, sizes[0])).astype(dtype), labels


# -- attention, forward and backward


def attention(np: Any) -> Callable[..., Any]:
    def f(operands: Any, weights: Any) -> Any:
        q, k, v = operands
        z = np.matmul(q, np.swapaxes(k, 1, 2)) * (1.0 / math.sqrt(q.shape[2]))
        e = np.exp(z - np.max(z, axis=2, keepdims=True))
        return np.sum(weights * np.matmul(e / np.sum(e, axis=2, keepdims=True), v))

    return f


def torch_attention(torch: Any) -> Callable[..., Any]:
    def f(operands: Any, weights: Any) -> Any:
        return (weights * torch.nn.functional.scaled_dot_product_attention(*[x[None] for x in operands])[0]).sum()

    return f


def attention_by_hand(operands: Any, weights: Any) -> Any:
    q, k, v = operands
    scale = 1.0 / math.sqrt(q.shape[2])
    z = q @ k.swapaxes(1, 2) * scale
    z -= z.max(axis=2, keepdims=True)
    numpy.exp(z, out=z)
    z /= z.sum(axis=2, keepdims=True)
    value = numpy.sum(weights * (z @ v))
    dp = weights @ v.swapaxes(1, 2)
    dz = z * (dp - (dp * z).sum(axis=2, keepdims=True)) * scale
    return value, (dz @ k, dz.swapaxes(1, 2) @ q, z.swapaxes(1, 2) @ weights)


def attention_data(dtype: Any, small: bool) -> tuple:
    random = numpy.random.default_rng(0)
    draw = lambda: random.normal(size=(2, 6, 4) if small else (16, 1024, 64)).astype(dtype)
    return (draw(), draw(), draw()), draw()


# -- draws


def draws(kind: str, n: int) -> Program:
    of_cupy = {"normal": "standard_normal", "uniform": "random"}[kind]
    of_torch = {"normal": "randn", "uniform": "rand"}[kind]

    def ours(np: Any) -> Callable[[Any], Any]:
        jax = peer("jax")
        draw = getattr(jax.random if jax and np is jax.numpy else funcad.random, kind)
        return lambda key: draw(key, (n,), numpy.float32)

    return Program(
        f"random.{kind} of {n:,}", ours, "value", lambda dtype, small: (funcad.random.key(0),),
        lambda torch: lambda key: getattr(torch, of_torch)(n, device=key.device),
        lambda xp: lambda key: getattr(xp.random, of_cupy)(n, dtype=numpy.float32),
        dtypes=(numpy.float32,), traffic=True, draws=True,
    )  # fmt: skip


def programs(small: bool) -> Iterator[Program]:
    """All of them; the sizes in the names are those of the data."""
    n = 300 if small else 10**7
    w3 = lambda dtype, small: w3_elementwise.data(n)(dtype)
    poly, trans = w3_elementwise.polynomial, w3_elementwise.transcendental
    summed = w3_elementwise.summed
    yield Program(
        "W1 gradient", w1_scalar.function, "grad", lambda dtype, small: (numpy.array(0.5, dtype),), w1_scalar.function,
        rescoped(device_calls.scalar_by_hand),
    )  # fmt: skip
    yield Program(
        "W2 network, value and gradient", w2_mlp.function, "value_and_grad", lambda dtype, small: w2_mlp.data(dtype),
        w2_mlp.torch_function, rescoped(w2_mlp.by_hand), products=True,
    )  # fmt: skip
    yield Program(f"W3a polynomial of {n:,}", poly, "value", w3, poly, poly, polynomial_kernel, traffic=True)
    yield Program(
        "W3a its gradient", summed(poly), "grad", w3, summed(poly), rescoped(device_calls.polynomial_by_hand), traffic=True
    )
    yield Program("W3b tanh exp log1p", trans, "value", w3, trans, trans, transcendental_kernel, traffic=True)
    yield Program(
        "W3b its gradient", summed(trans), "grad", w3, summed(trans), rescoped(device_calls.transcendental_by_hand),
        transcendental_gradient_kernel, traffic=True,
    )  # fmt: skip

    def logistic(dtype: Any, small: bool) -> tuple:
        w, X, y = w4_logistic.data(dtype)
        return (w, *first(50, X, y)) if small else (w, X, y)

    def with_direction(dtype: Any, small: bool) -> tuple:
        w, X, y = logistic(dtype, small)
        return w, (w * 2.0).astype(dtype), X, y

    yield Program(
        "W4 logistic regression", w4_logistic.loss, "value_and_grad", logistic, w4_logistic.torch_loss,
        rescoped(w4_logistic.by_hand), traffic=True, products=True,
    )  # fmt: skip
    yield Program(
        "W5 its HVP", w4_logistic.loss, "hvp", with_direction, w4_logistic.torch_loss, rescoped(w4_logistic.hvp_by_hand),
        traffic=True, products=True,
    )  # fmt: skip
    yield Program(
        "W6 softmax cross-entropy", w6_softmax.loss, "value_and_grad",
        lambda dtype, small: first(8 if small else 4096, *w6_softmax.data(dtype)), w6_softmax.torch_loss,
        rescoped(w6_softmax.by_hand), traffic=True,
    )  # fmt: skip

    def normalised(dtype: Any, small: bool) -> tuple:
        (x, gain, bias), c = w7_layernorm.data(dtype)
        rows = 8 if small else len(x)
        return (x[:rows], gain, bias), c[:rows]

    yield Program(
        "W7 layernorm", w7_layernorm.weighted, "value_and_grad", normalised, w7_layernorm.torch_weighted,
        rescoped(w7_layernorm.by_hand), traffic=True, tolerance=10.0,
    )  # fmt: skip

    def recurrent(dtype: Any, small: bool) -> tuple:
        parameters, xs = w8_rnn.data(dtype)
        return parameters, xs[:10] if small else xs

    yield Program(
        "W8 RNN, gradient", w8_rnn.loss, "grad", recurrent, w8_rnn.torch_loss, rescoped(w8_rnn.by_hand), products=True,
        tolerance=100.0,
    )  # fmt: skip
    rosenbrock = w9_vmap_grad.rosenbrock
    yield Program(
        "W9 vmap(grad)", rosenbrock, "vmap_grad", lambda dtype, small: first(50 if small else 10**5, *w9_vmap_grad.data(dtype)),
        w9_vmap_grad.torch_rosenbrock, rescoped(w9_vmap_grad.by_hand), traffic=True,
    )  # fmt: skip
    yield Program(
        "W10 Hessian", rosenbrock, "hessian", lambda dtype, small: first(12 if small else 100, *w10_hessian.data(dtype)),
        w9_vmap_grad.torch_rosenbrock, rescoped(w10_hessian.by_hand),
    )  # fmt: skip
    turns = 10 if small else 1000
    yield Program(
        f"scan of {turns:,}, gradient", scanned, "grad",
        lambda dtype, small: (numpy.ones(8, dtype), numpy.linspace(0.0, 1.0, turns * 8, dtype=dtype).reshape(turns, 8)),
        torch_scanned, rescoped(scanned_by_hand),
    )  # fmt: skip
    yield Program(
        "MLP step of 3 layers", network, "step", network_data, torch_network, rescoped(network_by_hand), products=True
    )
    yield Program(
        "attention, forward and backward", attention, "value_and_grad", attention_data, torch_attention,
        rescoped(attention_by_hand), products=True, tolerance=10.0,
    )  # fmt: skip
    yield draws("normal", 1000 if small else 10**7)
    yield draws("uniform", 1000 if small else 10**7)
