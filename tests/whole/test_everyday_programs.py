"""Programs as people write them: lists, heaps, memos, dataclasses, trees of points, sparse systems, filters, tables.

Each is differentiated, mapped and compiled as it stands; values are NumPy"s, derivatives those of differences.
"""

from __future__ import annotations

import functools
import heapq
import math
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from scipy.spatial import Delaunay, cKDTree
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.spatial.transform import Rotation, Slerp

import funcad

rng = np.random.default_rng(0)


def lotka_euler_lists(p: Any) -> Any:
    prey = [10.0]
    pred = [5.0]
    for _ in range(30):
        a, b = (prey[-1], pred[-1])
        prey.append(a + 0.05 * (p[0] * a - 0.1 * p[1] * a * b))
        pred.append(b + 0.05 * (0.05 * a * b - p[2] * b))
    return np.mean(np.array(prey) ** 2) + np.max(np.asarray(pred))


def truss(x: Any) -> Any:
    bars = [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3), (1, 2)]
    K = np.zeros((8, 8))
    for i, j in bars:
        d = x[j] - x[i]
        L = np.hypot(*d)
        c, s = d / L
        T = np.outer([-c, -s, c, s], [-c, -s, c, s]) / L
        dof = [2 * i, 2 * i + 1, 2 * j, 2 * j + 1]
        K[np.ix_(dof, dof)] += T
    free = [3, 4, 5, 6, 7]
    f = np.zeros(5)
    f[-1] = -1.0
    return f @ np.linalg.solve(K[np.ix_(free, free)] + 0.001 * np.eye(5), f)


def kalman(th: Any) -> Any:
    F = np.array([[1.0, 0.1], [0.0, 1.0]])
    F[0, 1] = th[0]
    Q = np.diag(np.exp(th[1:3]))
    R = np.exp(th[3])
    H = np.array([[1.0, 0.0]])
    m = np.zeros((2, 1))
    m[:, 0] = th[4:]
    Pm = np.eye(2)
    ll = 0.0
    for y in np.sin(np.arange(15) * 0.3):
        m = F @ m
        Pm = F @ Pm @ F.T + Q
        S = H @ Pm @ H.T + R
        v = y - H @ m
        K = np.linalg.solve(S.T, (Pm @ H.T).T).T
        m = m + K @ v
        Pm = (np.eye(2) - K @ H) @ Pm
        ll -= 0.5 * (np.log(np.linalg.det(S)) + (v.T @ np.linalg.inv(S) @ v).item())
    return ll


def hmm_forward(e: Any) -> Any:
    A = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
    alpha = np.full(3, 1 / 3) * e[0]
    lz = 0.0
    for row in e[1:]:
        c = alpha.sum()
        lz += math.log(c)
        alpha = alpha / c @ A * row
    return lz + np.log(alpha.sum())


def dtw(p: Any) -> Any:
    a = p[0] * np.sin(np.linspace(0, 3, 8) + p[1])
    b = np.cos(np.linspace(0, 3, 7)) * p[2]
    D = np.full((9, 8), np.inf)
    D[0, 0] = 0
    for i in range(1, 9):
        for j in range(1, 8):
            D[i, j] = abs(a[i - 1] - b[j - 1]) + min(D[i - 1, j], D[i, j - 1], D[i - 1, j - 1])
    return D[-1, -1]


def dijkstra_heap(x: Any) -> Any:
    w = squareform(pdist(x))
    dist = {0: 0.0}
    heap = [(0.0, 0)]
    done = set()
    while heap:
        d, u = heapq.heappop(heap)
        if u in done:
            continue
        done.add(u)
        for v in range(len(x)):
            if v != u and w[u, v] < 2.5:
                nd = d + w[u, v] ** 2
                if v not in dist or nd < dist[v]:
                    dist[v] = nd
                    heapq.heappush(heap, (nd, v))
    return sum(dist.values())


def lennard_jones_neighbours(x: Any) -> Any:
    tree = cKDTree(x)
    e = 0.0
    for i, j in tree.query_pairs(1.5):
        r2 = np.sum((x[i] - x[j]) ** 2) + 0.1
        e += 4 * (r2 ** (-6) * 0.001 - r2 ** (-3) * 0.01)
    return e


def odes_events(p: Any) -> Any:
    s = scipy.integrate.solve_ivp(lambda t, y: [y[1], -p[0] * y[1] - p[1] * np.sin(y[0])], (0, 3), [p[2], 0.0],
                                  rtol=1e-09, atol=1e-09, t_eval=np.linspace(0, 3, 7))  # fmt: skip
    return np.sum(s.y[0] ** 2)


def fit_inside(p: Any) -> Any:
    t = np.linspace(0, 1, 12)
    y = p[0] * np.exp(-p[1] * t) + p[2]
    c = np.polyfit(t, y, 3)
    r = np.polyval(c, 0.5)
    return r + np.roots(c[:3]).real.sum() * 0.01


def spectrum_of_signal(x: Any) -> Any:
    f, p = scipy.signal.welch(x, fs=2.0, nperseg=8)
    b, a = scipy.signal.butter(2, 0.3)
    y = scipy.signal.filtfilt(b, a, x)
    return np.trapezoid(p, f) + np.var(y)


def image_pipeline(im: Any) -> Any:
    g = scipy.ndimage.gaussian_filter(im, 1.0)
    s = np.hypot(scipy.ndimage.sobel(g, 0), scipy.ndimage.sobel(g, 1))
    m = s > np.percentile(s, 60)
    lab, n = scipy.ndimage.label(np.asarray(m))
    return sum(s[lab == k].mean() for k in range(1, n + 1)) + scipy.ndimage.zoom(im, 0.5, order=1).sum()


def option_binomial(p: Any) -> Any:
    s, r, vol = (p[2] * 100, p[1] * 0.1, p[0])
    n = 12
    dt = 1 / n
    u = np.exp(vol * np.sqrt(dt))
    d = 1 / u
    q = (np.exp(r * dt) - d) / (u - d)
    S = s * d ** np.arange(n, -1, -1) * u ** np.arange(0, n + 1)
    C = np.maximum(S - 100, 0)
    while len(C) > 1:
        C = np.exp(-r * dt) * (q * C[1:] + (1 - q) * C[:-1])
    return C[0]


def kmeans_like(x: Any) -> Any:
    c = x[:2].copy()
    for _ in range(3):
        lab = np.argmin(cdist(x, c), axis=1)
        for k in range(2):
            if np.any(lab == k):
                c[k] = x[lab == k].mean(0)
    return np.sum((x - c[lab]) ** 2)


@dataclass
class Layer:
    W: np.ndarray
    b: np.ndarray
    act: str = "tanh"

    def __call__(self, x: Any) -> Any:
        return getattr(np, self.act)(x @ self.W + self.b)


def mlp_classes(w: Any) -> Any:
    net = [Layer(w[:8].reshape(2, 4), w[8:12]), Layer(w[12:16].reshape(4, 1), w[16:17], "sinh")]
    x = np.stack([np.linspace(-1, 1, 5), np.ones(5)], -1)
    return np.mean((functools.reduce(lambda h, l: l(h), net, x)[:, 0] - x[:, 0] ** 2) ** 2)


def sparse_heat(p: Any) -> Any:
    n = 12
    bands = [p[0] * np.ones(n - 1), -2 * p[0] * np.ones(n) - p[2], p[0] * np.ones(n - 1)]
    A = scipy.sparse.diags(bands, [-1, 0, 1], format="csc")
    u = np.exp(-np.linspace(-2, 2, n) ** 2 * p[1])
    lu = scipy.sparse.linalg.splu(scipy.sparse.identity(n, format="csc") - 0.1 * A)
    for _ in range(4):
        u = lu.solve(u)
    return u @ u


def root_and_quad(p: Any) -> Any:
    r = scipy.optimize.brentq(lambda z: z ** 3 - p[0] - p[1] * np.cos(z), 0, 5)
    return r + scipy.integrate.quad(lambda t: np.exp(-p[1] * t) * np.sin(r * t), 0, 2)[0]


def memo_recursion(x: Any) -> Any:
    memo = {}

    def best(i):
        if i < 0:
            return 0.0
        if i not in memo:
            memo[i] = max(best(i - 1), best(i - 2) + x[i])
        return memo[i]
    return best(len(x) - 1) ** 2


def einsum_attention(q: Any) -> Any:
    k = np.roll(q, 1, 0)
    s = np.einsum("id,jd->ij", q, k) / np.sqrt(q.shape[-1])
    s -= s.max(-1, keepdims=True)
    w = np.exp(s)
    w /= w.sum(-1, keepdims=True)
    return np.einsum("ij,jd->", w, np.triu(np.ones((3, 4))) * q)


def rotations_slerp(r: Any) -> Any:
    R = Rotation.from_rotvec(np.vstack([r, 2 * r[::-1]]))
    s = Slerp([0, 1], R)
    return s([0.25, 0.5]).apply([1.0, 2.0, 3.0]).sum() + R[0].as_euler("xyz")[1]


def gamma_mixture(p: Any) -> Any:
    x = np.linspace(0.1, 4, 9)
    density = 0.3 * scipy.stats.gamma(p[0], scale=p[1]).pdf(x) + 0.7 * scipy.stats.lognorm.pdf(x, p[1])
    return np.log(density).sum() - scipy.special.betaln(*p)


def delaunay_area(x: Any) -> Any:
    t = Delaunay(x)
    a = x[t.simplices]
    u, v = (a[:, 1] - a[:, 0], a[:, 2] - a[:, 0])
    return np.sum(np.abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) ** 1.5)


def spline_and_table(y: Any) -> Any:
    c = scipy.interpolate.CubicSpline(np.arange(5.0), y, bc_type="natural")
    i = scipy.interpolate.interp1d(np.arange(5), y, kind="linear")
    return c(np.linspace(0, 4, 9)).sum() + c.integrate(0, 3) + c(1.3, 1) + i(2.2) + np.interp(1.7, np.arange(5), y)


def deque_window(x: Any) -> Any:
    w = deque(maxlen=3)
    out = np.empty(10)
    s = defaultdict(float)
    for i, v in enumerate(x):
        w.append(v)
        out[i] = sum(w) / len(w)
        s[i % 3] += v * v
    return np.dot(out, out) + max(s.values())


def qr_gram(a: Any) -> Any:
    q = np.zeros_like(a)
    for j in range(4):
        v = a[:, j].copy()
        for i in range(j):
            v -= q[:, i] @ a[:, j] * q[:, i]
        q[:, j] = v / np.linalg.norm(v)
    return np.sum(q * np.arange(16).reshape(4, 4)) + np.linalg.slogdet(a)[1]


PROGRAMS: dict[str, tuple[Any, Any]] = {
    "lotka_euler_lists": (lotka_euler_lists, [0.8, 0.2, 1.5]),
    "truss": (truss, [[0.0, 0.1], [1.2, 0.0], [0.2, 1.1], [1.0, 1.3]]),
    "kalman": (kalman, rng.normal(size=6)),
    "hmm_forward": (hmm_forward, rng.uniform(0.2, 1.0, size=(4, 3))),
    "dtw": (dtw, [1.0, 0.5, 0.3]),
    "dijkstra_heap": (dijkstra_heap, rng.normal(size=(5, 2))),
    "lennard_jones_neighbours": (lennard_jones_neighbours, rng.uniform(-1, 1, size=(6, 3))),
    "odes_events": (odes_events, [0.3, 1.2, 2.0]),
    "fit_inside": (fit_inside, [1.0, 2.0, 0.5]),
    "spectrum_of_signal": (spectrum_of_signal, rng.normal(size=20)),
    "image_pipeline": (image_pipeline, rng.normal(size=(6, 6))),
    "option_binomial": (option_binomial, [0.5, 0.2, 1.03]),
    "kmeans_like": (kmeans_like, rng.normal(size=(7, 2))),
    "mlp_classes": (mlp_classes, rng.normal(size=17)),
    "sparse_heat": (sparse_heat, [1.0, 0.7, 0.2]),
    "root_and_quad": (root_and_quad, [2.0, 0.4]),
    "memo_recursion": (memo_recursion, rng.uniform(0.5, 2.0, size=8)),
    "einsum_attention": (einsum_attention, rng.normal(size=(3, 4))),
    "rotations_slerp": (rotations_slerp, [0.1, 0.9, -0.4]),
    "gamma_mixture": (gamma_mixture, [1.5, 0.8]),
    "delaunay_area": (delaunay_area, rng.uniform(0, 1, size=(8, 2))),
    "spline_and_table": (spline_and_table, [0.3, 0.6, 0.2, 0.9, 0.5]),
    "deque_window": (deque_window, rng.normal(size=10)),
    "qr_gram": (qr_gram, rng.normal(size=(4, 4))),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::funcad.NotCompiledWarning")
def test_programs_of_everyday(name: str) -> None:
    f, point = PROGRAMS[name]
    x = np.asarray(point, float)
    direction = np.cos(np.arange(x.size) * 1.3 + 1.0).reshape(x.shape)
    step = 1e-5 * direction
    value, slope = float(f(x)), float(f(x + step) - f(x - step)) / 2e-5
    close = lambda found, expected, rel: np.testing.assert_allclose(found, expected, rel, rel)
    found, gradient = funcad.value_and_grad(f)(x)
    close(found, value, 1e-12)
    close(np.sum(gradient * direction), slope, 1e-4)
    close(funcad.jvp(f, (x,), (direction,))[1], slope, 1e-4)
    compiled, both = funcad.jit(f), funcad.jit(funcad.grad(f))
    for _ in range(3):
        close(compiled(x), value, 1e-9)
        close(np.sum(both(x) * direction), slope, 1e-4)
    close(funcad.vmap(f)(np.stack([x, x + 0.01 * direction])), [value, float(f(x + 0.01 * direction))], 1e-8)
    close(np.sum(funcad.vmap(funcad.grad(f))(np.stack([x, x]))[1] * direction), slope, 1e-4)
    rise = np.sum((funcad.grad(f)(x + step) - funcad.grad(f)(x - step)) * direction) / 2e-5
    close(np.sum(funcad.jvp(funcad.grad(f), (x,), (direction,))[1] * direction), rise, 1e-3)
