"""Programs as people write them, with helpers, classes, counters, tables and libraries around the arrays: compared with plain
Python and with differences, in all transformations."""

from __future__ import annotations

import collections
import dataclasses
import functools
import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial
import scipy.special
import scipy.stats

from funcad import grad, hvp, jit, jvp, vmap

X = np.array([0.7, 1.3, 0.4, 0.9])
V = np.array([0.3, -0.2, 0.5, 0.1])
RNG = np.random.default_rng(11)
DATA = RNG.normal(size=(20, 4))
TARGET = DATA @ np.array([1.0, -0.5, 0.3, 2.0]) + 0.1 * RNG.normal(size=20)
GRID = np.linspace(0.0, 2.0, 9)
PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(f)
    return f


class Counter:
    def __init__(self) -> None:
        self.n, self.seen = 0, collections.defaultdict(int)

    def tick(self, name: str) -> None:
        self.n += 1
        self.seen[name] += 1


@program
def bank_of_filters(x):
    """An ARMA recursion whose buffers are copies."""
    state, out = np.zeros(4).copy(), []
    for y in TARGET[:8]:
        state[1:] = state[:-1].copy()
        state[0] = y - x @ state
        out.append(state[0])
    return np.mean(np.square(out))


@program
def elimination(x):
    a = np.diag(np.arange(3.0, 7.0)) + np.outer(DATA[0], DATA[1])
    a = a + 0
    a[0] = a[0] + x
    b = x.copy()
    for k in range(4):
        for i in range(k + 1, 4):
            factor = a[i, k] / a[k, k]
            a[i, k:] -= factor * a[k, k:]
            b[i] -= factor * b[k]
    for k in reversed(range(4)):
        b[k] = (b[k] - a[k, k + 1 :] @ b[k + 1 :]) / a[k, k]
    return (b**2).sum()


@dataclasses.dataclass
class Body:
    mass: float
    place: Any
    speed: Any


@program
def three_bodies(x):
    bodies = [Body(1.0 + i, np.array([x[i], float(i)]), np.array([0.0, x[3] * (i - 1)])) for i in range(3)]
    for _ in range(4):
        for a, b in itertools.permutations(bodies, 2):
            d = b.place - a.place
            a.speed = a.speed + 0.01 * b.mass * d / (d @ d + 0.1) ** 1.5
        for body in bodies:
            body.place = body.place + 0.01 * body.speed
    return sum([body.mass * (body.speed @ body.speed) for body in bodies])


@program
def shortest_path(x):
    """Dijkstra with a heap: the path is chosen at the values."""
    edges = {0: [(1, x[0]), (2, x[1] * 3)], 1: [(2, x[2]), (3, 4.0)], 2: [(3, x[3])], 3: []}
    best: dict[int, Any] = {0: 0.0}
    heap = [(0.0, 0)]
    while heap:
        length, node = heapq.heappop(heap)
        for other, weight in edges[node]:
            new = best[node] + weight**2
            if other not in best or new < best[other]:
                best[other] = new
                heapq.heappush(heap, (new, other))
    return best[3]


@program
def viterbi(x):
    score = np.log(np.full(3, 1 / 3)) * 1.0
    for y in (0, 1, 1, 0):
        emit = np.stack([-((y - x[0]) ** 2), -((y - x[1]) ** 2), -np.abs(y - x[2])])
        score = np.array([np.max(score + np.log(0.2 + 0.4 * (np.arange(3) == k))) for k in range(3)]) + emit
    return scipy.special.logsumexp(score) * x[3]


@program
def memory_of_a_recursion(x):
    @functools.cache
    def bernstein(i: int, n: int) -> Any:
        if n == 0:
            return 1.0 if i == 0 else 0.0
        left = bernstein(i - 1, n - 1) if i else 0.0
        right = bernstein(i, n - 1) if i < n else 0.0
        return x[0] * left + (1 - x[0]) * right

    return sum([x[i] * bernstein(i, 3) for i in range(4)])


@program
def ridge_by_class(x):
    class Ridge:
        def __init__(self, penalty: Any) -> None:
            self.penalty = penalty

        def fit(self, a: Any, b: Any) -> Any:
            self.weights = np.linalg.solve(a.T @ a + self.penalty * np.eye(4), a.T @ b)
            return self

        def score(self, a: Any, b: Any) -> Any:
            return 1 - np.sum((b - a @ self.weights) ** 2) / np.sum((b - b.mean()) ** 2)

    return Ridge(np.exp(x[0])).fit(DATA * x, TARGET).score(DATA, TARGET)


@program
def heat_with_a_counter(x):
    counter, u = Counter(), np.ones(9) * x[0]
    while counter.n < 6:
        counter.tick("steps")
        u = np.pad(u[1:-1] + 0.2 * x[1] * (u[2:] - 2 * u[1:-1] + u[:-2]), 1, constant_values=0.0)
    return (u * GRID).sum() + counter.seen["steps"] * x[2] ** 2


@program
def upwind_with_in_place_rows(x):
    u = np.tile(np.exp(-((GRID - 1) ** 2)), (3, 1))
    for row in range(1, 3):
        u[row] = u[row - 1]
        u[row, 1:] -= 0.3 * x[0] * (u[row - 1, 1:] - u[row - 1, :-1])
    return u[-1] @ np.sin(GRID * x[1])


@program
def sums_by_keys(x):
    groups: dict[str, list[Any]] = {}
    for name, v in zip("abab", x):
        groups.setdefault(name, []).append(v)
    return sum([np.var(v) * len(k) for k, v in sorted(groups.items())]) + np.prod(groups["a"])


@program
def horner_in_a_table(x):
    table = np.empty((4, 4))
    table[:, 0] = x
    for j in range(1, 4):
        for i in range(4 - j):
            table[i, j] = (table[i + 1, j - 1] - table[i, j - 1]) / (0.5 * j)
    return table[0, 3] ** 2 + table[1, 2]


@program
def spline_through_points(x):
    spline = scipy.interpolate.CubicSpline(GRID[::2][:4], x)
    return spline(np.array([0.2, 0.9])).sum() + spline(0.4, 1)


@program
def smoothing_by_convolution(x):
    kernel = np.exp(-(np.arange(-2, 3) ** 2) / (2 * x[0] ** 2))
    smooth = scipy.signal.fftconvolve(TARGET, kernel / kernel.sum(), mode="same")
    return np.mean((smooth - TARGET) ** 2) + x[1] ** 2


@program
def exponential_of_generator(x):
    q = np.zeros((3, 3))
    q[0, 1], q[1, 2], q[2, 0] = x[0] ** 2, x[1] ** 2, x[2] ** 2
    q = q - np.diag(q.sum(axis=1))
    return -np.log(scipy.linalg.expm(q * 0.7)[0, 2])


@program
def mixture_by_em_steps(x):
    means = x[:2].copy()
    for _ in range(3):
        weights = np.exp(-0.5 * (TARGET[:, None] - means) ** 2)
        weights /= weights.sum(axis=1, keepdims=True)
        means = (weights * TARGET[:, None]).sum(axis=0) / weights.sum(axis=0)
    return means @ np.array([1.0, 2.0]) + x[2:].sum()


@program
def quadrature_of_a_closure(x):
    value, _ = scipy.integrate.quad(lambda t: np.exp(-x[0] * t) * np.cos(x[1] * t), 0.0, 2.0)
    return value * x[2]


@program
def root_of_kepler(x):
    anomaly = scipy.optimize.brentq(lambda e: e - 0.3 * x[0] * np.sin(e) - x[1], 0.0, 4.0)
    return np.cos(anomaly) * x[2]


@program
def sparse_network(x):
    k = scipy.sparse.lil_matrix((4, 4))
    for i, (a, b) in enumerate([(0, 1), (1, 2), (2, 3), (3, 0)]):
        c = x[i] ** 2 + 0.5
        k[a, a] += c
        k[b, b] += c
        k[a, b] -= c
        k[b, a] -= c
    k = (k + scipy.sparse.eye(4)).tocsr()
    return scipy.sparse.linalg.spsolve(k, np.array([1.0, 0.0, -1.0, 0.5])) @ np.arange(4.0)


@program
def likelihood_of_two_families(x):
    gamma = scipy.stats.gamma.logpdf(np.abs(TARGET) + 0.1, np.exp(x[0]), scale=np.exp(x[1])).sum()
    return gamma + scipy.stats.norm.logcdf(DATA[:, 0], x[2], np.exp(x[3])).sum()


@program
def lens_by_rotation(x):
    r = scipy.spatial.transform.Rotation.from_euler("xyz", x[:3])
    return (r.apply(DATA[:5, :3]) ** 3).sum() * 0.1


@program
def kernel_of_distances(x):
    d = scipy.spatial.distance.cdist(DATA[:6] * x, DATA[6:10] * x)
    return np.exp(-d).sum()


@program
def bessel_and_gamma(x):
    return scipy.special.jv(1, x[0] * 3) + scipy.special.gammaln(x[1] + 2) * scipy.special.erf(x[2])


@program
def lotka_volterra(x):
    y = np.array([x[0] + 1, x[1]])
    for _ in range(10):
        dy = np.array([y[0] * (x[2] - y[1]), y[1] * (y[0] - x[3])])
        y += 0.02 * dy
    return np.log(y).sum()


@program
def attention_by_einsum(x):
    q, k, v = DATA[:5] * x, DATA[5:10] * x[::-1], DATA[10:15]
    w = np.einsum("id,jd->ij", q, k) / math.sqrt(4)
    w = np.exp(w - w.max(axis=1, keepdims=True))
    return np.einsum("ij,jd->", w / w.sum(axis=1, keepdims=True), v)


@program
def image_by_shifts(x):
    image = np.outer(np.sin(GRID * x[0]), np.cos(GRID * x[1]))
    return (scipy.ndimage.gaussian_filter(image, 1.0) * image).sum() + np.roll(image, 2, 0)[3, 4]


@program
def polynomial_of_roots(x):
    p = np.poly1d(np.stack([1.0, -x[0]])) * np.poly1d(np.stack([1.0, x[1]]))
    return p(2.0) + p.deriv()(x[2])


@program
def running_statistics(x):
    """Welford's way, in a dictionary."""
    stats = {"n": 0, "mean": 0.0, "m2": 0.0}
    for v in np.concatenate([x, x**2]):
        stats["n"] += 1
        delta = v - stats["mean"]
        stats["mean"] += delta / stats["n"]
        stats["m2"] += delta * (v - stats["mean"])
    return stats["m2"] / (stats["n"] - 1)


@program
def masks_and_choices(x):
    a = np.where(DATA > 0, DATA * x, -(DATA**2))
    b = np.select([a > 0.5, a < -0.5], [a**2, np.tanh(a)], default=0.0)
    return b[np.abs(DATA) > 0.1].sum() + np.clip(a, -1, 1).mean()


@program
def stack_of_deques(x):
    window: collections.deque[Any] = collections.deque(maxlen=2)
    total = 0.0
    for v in x:
        window.append(v**2)
        total = total + np.prod(list(window))
    return total


@program
def generator_of_terms(x):
    def terms():
        t = 1.0
        for k in range(1, 8):
            yield t
            t = t * x[0] / k

    return sum(terms()) + functools.reduce(lambda a, b: a * b, x)


@program
def leapfrog_of_a_chain(x):
    q, p = x.copy(), np.zeros_like(x)
    force = lambda q: -np.diff(np.concatenate([[0.0], np.diff(np.concatenate([[0.0], q, [0.0]])) ** 3]))[:4]
    for _ in range(3):
        p += 0.05 * force(q)
        q += 0.1 * p
        p += 0.05 * force(q)
    return 0.5 * p @ p + 0.25 * (np.diff(q) ** 4).sum()


@program
def cross_validation(x):
    errors = []
    for fold in np.array_split(np.arange(20), 4):
        rest = np.setdiff1d(np.arange(20), fold)
        w = np.linalg.solve(DATA[rest].T @ DATA[rest] + np.diag(np.exp(x)), DATA[rest].T @ TARGET[rest])
        errors.append(np.mean((DATA[fold] @ w - TARGET[fold]) ** 2))
    return np.mean(errors)


@program
def tridiagonal_by_bands(x):
    bands = np.zeros((3, 4))
    bands[0, 1:], bands[1], bands[2, :-1] = -0.3, 2 + x**2, -x[1:]
    return scipy.linalg.solve_banded((1, 1), bands, np.arange(1.0, 5.0)).sum()


@program
def phases_of_a_signal(x):
    t = np.arange(16) / 16
    signal = sum([x[k] * np.sin(2 * np.pi * (k + 1) * t) for k in range(4)])
    spectrum = np.fft.rfft(signal * np.exp(x[0] * t))
    return np.abs(spectrum[1:4]).sum() + np.angle(spectrum[2])


@program
def interpolation_in_a_table(x):
    rates = np.interp(x, GRID, np.sin(GRID))
    return np.trapezoid(np.outer(rates, rates), axis=0).sum()


@program
def ordering(x):
    order = np.argsort(x)
    ranked = x[order]
    ranked[1:] -= 0.5 * ranked[:-1]
    return np.cumsum(ranked) @ np.array([1.0, 0.5, 0.25, 0.125])


@program
def orthogonal_basis(x):
    basis: list[Any] = []
    for v in (x, DATA[0], DATA[1]):
        for b in basis:
            v = v - (v @ b) * b
        basis.append(v / np.linalg.norm(v))
    return np.stack(basis)[:, 0].sum() + np.linalg.slogdet(np.eye(3) + np.stack(basis)[:, :3] * 0.1)[1]


@program
def game_of_payoffs(x):
    payoff = np.array([[x[0], -x[1], 0.2], [0.1, x[2], -0.4], [-x[3], 0.3, 0.5]])
    p = np.ones(3) / 3
    for step in range(5):
        p = p * np.exp(0.2 / (1 + step) * (payoff @ p))
        p = p / p.sum()
    return p @ payoff @ p


@program
def tree_of_tuples(x):
    def value(node: Any) -> Any:
        match node:
            case ("add", a, b):
                return value(a) + value(b)
            case ("mul", a, b):
                return value(a) * value(b)
            case ("sin", a):
                return np.sin(value(a))
            case int():
                return x[node]

    return value(("add", ("mul", 0, ("sin", 1)), ("mul", 2, ("mul", 3, 3))))


@program
def newton_steps(x):
    z = np.array([1.0, 1.0])
    for _ in range(6):
        f = np.array([z[0] ** 2 + x[0] * z[1] - 2, z[1] ** 3 - x[1] * z[0]])
        jacobian = np.array([[2 * z[0], x[0]], [-x[1], 3 * z[1] ** 2]])
        z = z - np.linalg.solve(jacobian, f)
    return z @ x[2:]


def slopes(f: Callable[[Any], Any], x: Any, h: float = 1e-5) -> np.ndarray:
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(4)])


cases = pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)


@pytest.mark.share(3)
@cases
def test_derivatives(f):
    expected = slopes(f, X)
    assert grad(f)(X) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    value, tangent = jvp(f, (X,), (V,))
    assert value == pytest.approx(f(X), rel=1e-12) and tangent == pytest.approx(expected @ V, rel=1e-5, abs=1e-6)


@pytest.mark.share(3)
@cases
def test_second_order(f):
    expected = (grad(f)(X + 1e-5 * V) - grad(f)(X - 1e-5 * V)) / 2e-5
    assert hvp(f, (X,), (V,)) == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.share(6)
@cases
def test_jit(f):
    compiled, slope = jit(f), jit(grad(f))
    for x in (X, X * 1.1, X):
        assert compiled(x) == pytest.approx(f(x), rel=1e-10)
        assert slope(x) == pytest.approx(grad(f)(x), rel=1e-9, abs=1e-11)


@pytest.mark.share(3)
@cases
def test_vmap(f):
    rows = np.stack([X, X * 1.05, X * 0.9])
    assert vmap(f)(rows) == pytest.approx(np.array([f(x) for x in rows]), rel=1e-10)
    assert vmap(grad(f))(rows) == pytest.approx(np.array([grad(f)(x) for x in rows]), rel=1e-9, abs=1e-11)
