"""Un-jitted work that the recorder of small operations has no part in, beside HIPS autograd and torch.

Loops as functions (scan, fori_loop, while_loop) and odeint beside the loops and solvers that users of the peers have, einsum,
linear algebra, and arrays so large that the operations themselves are what is measured. Each row is the value and the gradient
of a real objective, in float64, on one core; both peers are written the way their own users write it, with torch's fused
operations where it has them. Traps: a peer that lacks the operation has no figure (autograd has no qr, torch no odeint). On a
busy machine the clock's time means little: it is the processor's, as in real_programs.py.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from statistics import geometric_mean
from typing import Any, NamedTuple

import numpy

import funcad
import funcad.scipy.integrate
import funcad.scipy.linalg
from benchmarks import harness
from benchmarks.harness import Row, Target
from funcad import nn

__all__ = ["run"]

RANDOM = numpy.random.default_rng(14)
Function = Callable[[Any], Any]


class Objective(NamedTuple):
    """A function of one array: funcad's, autograd's for its NumPy, torch's for its module; None where a peer cannot."""

    what: str
    start: numpy.ndarray
    own: Function
    autograd: Callable[[Any], Function] | None
    torch: Callable[[Any], Function] | None


def normal(*shape: int) -> numpy.ndarray:
    return RANDOM.normal(size=shape)


def _positive(x: Any, n: int) -> Any:
    return x @ x.T + n * numpy.eye(n)


# -- loops

TOLERANCES = {"rtol": 1e-6, "atol": 1e-6}
TIMES = numpy.linspace(0.0, 5.0, 30)


def _prey(y: Any, t: Any, p: Any, np: Any) -> Any:
    x, z = y[0], y[1]
    return np.stack([p[0] * x - p[1] * x * z, -p[2] * z + p[3] * x * z])


def _of_prey(p: Any) -> Any:
    f = lambda y, t, p: _prey(y, t, p, numpy)
    return numpy.sum(funcad.scipy.integrate.odeint(f, numpy.array([2.0, 1.0]), TIMES, p, **TOLERANCES) ** 2)


def _prey_autograd(np: Any) -> Function:
    from autograd.builtins import tuple as traced
    from autograd.scipy.integrate import odeint

    stacked = lambda parts: np.array(parts)
    names = type("Names", (), {"stack": staticmethod(stacked)})
    f = lambda y, t, p: _prey(y, t, p, names)
    return lambda p: np.sum(odeint(f, np.array([2.0, 1.0]), TIMES, traced((p,)), **TOLERANCES) ** 2)


INPUTS = normal(200, 16, 8)
INWARDS = normal(8, 32) * 0.3


def _recurrent(w: Any) -> Any:
    step = lambda h, x: (numpy.tanh(h @ w + x @ INWARDS), None)
    return numpy.sum(funcad.scan(step, numpy.zeros((16, 32)), INPUTS)[0] ** 2)


def _recurrent_loop(np: Any) -> Function:
    def f(w: Any) -> Any:
        h = np.zeros((16, 32))
        for x in INPUTS:
            h = np.tanh(np.dot(h, w) + np.dot(x, INWARDS))
        return np.sum(h**2)

    return f


def _recurrent_torch(torch: Any) -> Function:
    inputs, inwards = torch.from_numpy(INPUTS), torch.from_numpy(INWARDS)

    def f(w: Any) -> Any:
        h = torch.zeros(16, 32, dtype=torch.float64)
        for x in inputs:
            h = torch.tanh(torch.addmm(x @ inwards, h, w))
        return h.square().sum()

    return f


def _heat_step(u: Any) -> Any:
    inner = u[1:-1, 1:-1] + 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
    return numpy.pad(inner, 1)


def _heat(u: Any) -> Any:
    return numpy.sum(funcad.fori_loop(0, 100, lambda i, u: _heat_step(u), u) ** 2)


def _heat_autograd(np: Any) -> Function:
    def f(u: Any) -> Any:
        for _ in range(100):
            inner = u[1:-1, 1:-1] + 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
            u = np.pad(inner, ((1, 1), (1, 1)), "constant")
        return np.sum(u**2)

    return f


def _heat_torch(torch: Any) -> Function:
    def f(u: Any) -> Any:
        for _ in range(100):
            inner = u[1:-1, 1:-1] + 0.2 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * u[1:-1, 1:-1])
            u = torch.nn.functional.pad(inner, (1, 1, 1, 1))
        return u.square().sum()

    return f


def _kepler(m: Any) -> Any:
    """Kepler's equation by Newton's method until all anomalies stand still."""
    step = lambda e: e - (e - 0.3 * numpy.sin(e) - m) / (1.0 - 0.3 * numpy.cos(e))
    going = lambda carry: numpy.max(numpy.abs(carry[0] - carry[1])) > 1e-12
    return numpy.sum(funcad.while_loop(going, lambda carry: (step(carry[0]), carry[0]), (m, m + 1.0))[0] ** 2)


def _kepler_loop(np: Any) -> Function:
    def f(m: Any) -> Any:
        e, before = m, m + 1.0
        while np.max(np.abs(e - before)) > 1e-12:
            e, before = e - (e - 0.3 * np.sin(e) - m) / (1.0 - 0.3 * np.cos(e)), e
        return np.sum(e**2)

    return f


# -- contractions and linear algebra

CORES = [normal(24, 24) for _ in range(3)]
POINTS = normal(150, 3)
SMALL = normal(200, 6, 6) + 6.0 * numpy.eye(6)
DISTANCES = ((POINTS[:, None] - POINTS) ** 2).sum(-1)
TARGETS = normal(150)
SQUARE = normal(60, 60) + 8.0 * numpy.eye(60)
TALL = normal(120, 40)


def _of_cores(np: Any, cores: list, **options: Any) -> Function:
    return lambda x: np.sum(np.einsum("ij,jk,kl,lm->im", x, *cores, **options) ** 2)


def _evidence(np: Any, solve_triangular: Any) -> Function:
    """A Gaussian process' negative log likelihood in log scales, by a Cholesky factor."""

    def f(theta: Any) -> Any:
        k = np.exp(theta[0]) * np.exp(-0.5 * DISTANCES * np.exp(theta[1])) + (np.exp(theta[2]) + 1e-6) * numpy.eye(150)
        factor = np.linalg.cholesky(k)
        white = solve_triangular(factor, TARGETS, lower=True)
        return 0.5 * np.sum(white**2) + np.sum(np.log(np.diag(factor)))

    return f


def _evidence_autograd(np: Any) -> Function:
    from autograd.scipy.linalg import solve_triangular

    return _evidence(np, solve_triangular)


def _evidence_torch(torch: Any) -> Function:
    distances, targets = torch.from_numpy(DISTANCES), torch.from_numpy(TARGETS)[:, None]
    identity = torch.eye(150, dtype=torch.float64)

    def f(theta: Any) -> Any:
        k = theta[0].exp() * torch.exp(-0.5 * distances * theta[1].exp()) + (theta[2].exp() + 1e-6) * identity
        factor = torch.linalg.cholesky(k)
        white = torch.linalg.solve_triangular(factor, targets, upper=False)
        return 0.5 * white.square().sum() + factor.diagonal().log().sum()

    return f


def _algebra(what: str, start: numpy.ndarray, f: Callable[[Any, Any], Any], autograd: bool = True) -> Objective:
    """An objective that reads the same in all libraries: `f(np, x)`; `autograd`: has it what is asked?"""
    written = lambda np: lambda x: f(np, x)
    return Objective(what, start, written(numpy), written if autograd else None, written)


ALGEBRA = [
    _algebra("solve, 60 x 60", SQUARE, lambda np, x: (np.linalg.solve(x, x.T) ** 2).sum()),
    _algebra("inv, 60 x 60", SQUARE, lambda np, x: (np.linalg.inv(x) ** 2).sum()),
    _algebra("slogdet, 60 x 60", SQUARE, lambda np, x: np.linalg.slogdet(x)[1]),
    _algebra("cholesky, 60 x 60", SQUARE, lambda np, x: (np.linalg.cholesky(x @ x.T) ** 3).sum()),
    _algebra("eigh, 60 x 60", SQUARE, lambda np, x: (np.linalg.eigh(x @ x.T)[0] ** 1.5).sum()),
    _algebra("svd, 120 x 40", TALL, lambda np, x: (np.linalg.svd(x, full_matrices=False)[1] ** 1.5).sum()),
    _algebra("qr, 120 x 40", TALL, lambda np, x: (np.linalg.qr(x)[1] ** 3).sum(), autograd=False),
    _algebra("batched inv, 200 of 6 x 6", SMALL, lambda np, x: (np.linalg.inv(x) ** 2).sum()),
]

# -- large arrays

LARGE = normal(1_000_000)
LAYER, FEATURES = normal(256, 256) * 0.1, normal(512, 256)
IMAGES, KERNEL = normal(8, 3, 32, 32), normal(16, 3, 3, 3)
LOGITS, LABELS = normal(4096, 256), RANDOM.integers(0, 256, 4096)
NODES = RANDOM.integers(0, 5000, (2, 100_000))


def _chain(np: Any, x: Any) -> Any:
    y = np.exp(-0.5 * x * x) * (1.0 + 0.3 * x)
    return (y * np.sqrt(1.0 + y * y) - np.log(1.0 + x * x)).sum()


def _cross_entropy(np: Any) -> Function:
    def f(z: Any) -> Any:
        z = z - np.max(z, axis=1, keepdims=True)
        z = z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))
        return -np.mean(z[numpy.arange(4096), LABELS])

    return f


def _cross_entropy_torch(torch: Any) -> Function:
    labels = torch.from_numpy(LABELS)
    return lambda z: torch.nn.functional.cross_entropy(z, labels)


def _graph(np: Any) -> Function:
    return lambda x: np.sum((x[NODES[0]] - x[NODES[1]]) ** 2)


def _graph_torch(torch: Any) -> Function:
    a, b = torch.from_numpy(NODES[0]), torch.from_numpy(NODES[1])
    return lambda x: (x.index_select(0, a) - x.index_select(0, b)).square().sum()


def _layers(tanh: Any, features: Any) -> Function:
    return lambda w: (tanh(tanh(tanh(features @ w) @ w) @ w) ** 2).sum()


def _convolved(k: Any) -> Any:
    return (numpy.tanh(nn.conv(IMAGES, k, padding="SAME", data_format="NCHW")) ** 2).sum()


def _convolved_torch(torch: Any) -> Function:
    images = torch.from_numpy(IMAGES)
    return lambda k: torch.nn.functional.conv2d(images, k, padding=1).tanh().square().sum()


def _tensors(arrays: list, torch: Any) -> list:
    return [torch.from_numpy(a) for a in arrays]


OBJECTIVES = [
    Objective("odeint: predator and prey", numpy.array([1.0, 0.4, 0.8, 0.3]), _of_prey, _prey_autograd, None),
    Objective("scan: 200 steps of a network", normal(32, 32) * 0.2, _recurrent, _recurrent_loop, _recurrent_torch),
    Objective("fori_loop: 100 steps of heat, 64 x 64", normal(64, 64), _heat, _heat_autograd, _heat_torch),
    Objective("while_loop: Kepler's equation, 1,000", numpy.linspace(0.1, 6.0, 1000), _kepler, _kepler_loop, _kepler_loop),
    Objective(
        "einsum of four", normal(24, 24), _of_cores(numpy, CORES), lambda np: _of_cores(np, CORES, optimize="greedy"),
        lambda torch: _of_cores(torch, _tensors(CORES, torch)),
    ),
    Objective(
        "Gaussian process, 150", numpy.zeros(3), _evidence(numpy, funcad.scipy.linalg.solve_triangular), _evidence_autograd,
        _evidence_torch,
    ),
    *ALGEBRA,
    _algebra("elementwise chain, 1e6", LARGE, _chain),
    _algebra("sin and tanh, 1e6", LARGE, lambda np, x: (np.sin(x) * np.tanh(x)).sum()),
    Objective(
        "three layers, 512 x 256", LAYER, _layers(numpy.tanh, FEATURES), lambda np: _layers(np.tanh, FEATURES),
        lambda torch: _layers(torch.tanh, torch.from_numpy(FEATURES)),
    ),
    Objective("convolution, 8 images", KERNEL, _convolved, None, _convolved_torch),
    Objective("cross-entropy by labels", LOGITS, _cross_entropy(numpy), _cross_entropy, _cross_entropy_torch),
    Objective("the same, by one function", LOGITS, lambda z: nn.softmax_cross_entropy(z, LABELS), None, _cross_entropy_torch),
    Objective("differences over 100,000 edges", normal(5000, 4), _graph(numpy), _graph, _graph_torch),
]  # fmt: skip


def _torch_call(torch: Any, f: Function, start: numpy.ndarray) -> Callable[[], Any]:
    x = torch.from_numpy(start.copy())

    def call() -> Any:
        leaf = x.detach().requires_grad_()
        value = f(leaf)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    return call


def candidates(objective: Objective) -> dict[str, Callable[[], Any]]:
    """One call of each library that is there, checked against funcad's result."""
    own = funcad.value_and_grad(objective.own)
    calls = {"funcad": lambda: own(objective.start)}
    autograd, torch = harness.peer("autograd"), harness.peer("torch")
    if autograd and objective.autograd is not None:
        from autograd import numpy as anp

        theirs = autograd.value_and_grad(objective.autograd(anp))
        calls["autograd"] = lambda: theirs(objective.start)
    if torch and objective.torch is not None:
        torch.set_num_threads(1)
        calls["torch"] = _torch_call(torch, objective.torch(torch), objective.start)
    value, gradient = calls["funcad"]()
    for name, call in calls.items():
        v, g = [numpy.asarray(a) for a in call()]
        scale = float(numpy.max(numpy.abs(gradient)))
        tolerance = 1e-3 if "odeint" in objective.what else 1e-7
        numpy.testing.assert_allclose(v, value, rtol=tolerance, err_msg=f"{objective.what}: {name}")
        numpy.testing.assert_allclose(g, gradient, rtol=0, atol=tolerance * scale, err_msg=f"{objective.what}: {name}")
    return calls


def run(rounds: int) -> list[Row]:
    """Medians of the value and gradient; the aim is the time of the faster peer."""
    rows = []
    for objective in OBJECTIVES:
        seconds = harness.interleaved(candidates(objective), rounds, time.process_time)
        peers = {name: s for name, s in seconds.items() if name != "funcad"}
        target = Target(min(peers, key=peers.__getitem__), 1.0, 1.0) if peers else None
        rows.append(Row(objective.what, seconds, target=target))
    return rows


def report(rows: list[Row]) -> str:
    lines = [["value and gradient", "funcad", "autograd", "torch", "/ autograd", "/ torch"]]
    for row in rows:
        own = row.values["funcad"]
        times = [harness.formatted(row.values[n], "s") if n in row.values else "" for n in lines[0][1:4]]
        quotients = [f"{own / row.values[n]:.2f}" if n in row.values else "" for n in ("autograd", "torch")]
        lines.append([row.what, *times, *quotients])
    text = harness.markdown(lines)
    for name in ("autograd", "torch"):
        found = [r.values["funcad"] / r.values[name] for r in rows if name in r.values]
        if found:
            text += f"\n\n{name}: {sum(x <= 1.0 for x in found)} of {len(found)} at least as fast, "
            text += f"geometric mean {geometric_mean(found):.2f}, worst {max(found):.2f}."
    return text


if __name__ == "__main__":
    options = harness.arguments((__doc__ or "").partition("\n")[0])
    print(f"{datetime.date.today()}, {harness.versions()}", end="\n\n", flush=True)
    print(report(run(options.rounds)), flush=True)
