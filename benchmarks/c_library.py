"""Twelve programs as C libraries, beside the same programs under jit: time, size of the code, what compiling takes.

`python -m benchmarks.c_library`: processor's time, the least of some repeats, BLAS on one thread; gcc -O3 -march=native, called
by its pointer. `--casadi`, where CasADi is installed: beside the C that it writes of the same programs.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
from funcad import grad, hessian, jit, scan, value_and_grad

FLAGS = ["-std=c99", "-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
RNG = np.random.default_rng(0)
W1, W2, DATA, LABELS = [RNG.normal(size=s) for s in ((32, 16), (16, 1), (64, 32), (64, 1))]
A, H, SEEN = np.eye(4) + 0.1 * RNG.normal(size=(4, 4)), RNG.normal(size=(2, 4)), RNG.normal(size=(50, 2))
PLACES = np.linspace(0.0, 1.0, 20)


def lorenz(p: Any) -> Any:
    def slope(s: Any) -> Any:
        return np.stack([p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2]])

    def step(s: Any, _: Any) -> Any:  # Runge and Kutta's
        a = slope(s)
        b = slope(s + 0.005 * a)
        c = slope(s + 0.005 * b)
        return s + 0.01 / 6 * (a + 2 * b + 2 * c + slope(s + 0.01 * c)), None

    return np.sum(scan(step, np.ones(3), None, length=500)[0] ** 2)


def mlp(w: Any, v: Any) -> Any:
    return np.mean((np.tanh(DATA @ w) @ v - LABELS) ** 2)


def kalman(noise: Any) -> Any:
    def step(carry: Any, y: Any) -> Any:
        m, p = A @ carry[0], A @ carry[1] @ A.T + 0.1 * np.eye(4)
        s = H @ p @ H.T + np.exp(noise) * np.eye(2)
        gain, rest = np.linalg.solve(s, H @ p).T, y - H @ m
        loss = rest @ np.linalg.solve(s, rest) + np.linalg.slogdet(s)[1]
        return (m + gain @ rest, p - gain @ H @ p), loss

    return np.sum(scan(step, (np.zeros(4), np.eye(4)), SEEN)[1])


def process(t: Any) -> Any:
    distances = (PLACES[:, None] - PLACES) ** 2
    k = np.exp(t[0]) * np.exp(-0.5 * distances / np.exp(t[1])) + (np.exp(t[2]) + 1e-6) * np.eye(20)
    y = np.sin(6 * PLACES)
    return 0.5 * y @ np.linalg.solve(k, y) + np.sum(np.log(np.diag(np.linalg.cholesky(k))))


def valley(z: Any) -> Any:
    return np.sum(100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2)


def newton(z: Any) -> Any:
    return z - np.linalg.solve(hessian(valley)(z), grad(valley)(z))


def rotated(q: Any, v: Any) -> Any:
    w, x, y, z = q / np.sqrt(np.sum(q * q))
    r = np.stack([
        np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
        np.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
        np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
    ])  # fmt: skip
    return np.sum((v @ r.T) ** 3)


def spline(c: Any) -> Any:
    t = np.linspace(0.0, 1.0, 200) * 7
    i = np.minimum(t.astype(int), 6)
    f = t - i
    return np.sum((((1 - f) ** 3 * c[i] + (3 * f**3 - 6 * f**2 + 4) * c[i + 1] + f**3 * c[i + 3]) / 6 - np.sin(t)) ** 2)


def control(u: Any) -> Any:  # a step of model predictive control: a cart, twenty steps ahead
    def step(s: Any, a: Any) -> Any:
        s = s + 0.1 * np.stack([s[1], a - 0.1 * s[1] - np.sin(s[0])])
        return s, s @ s + 0.1 * a * a

    return np.sum(scan(step, np.array([1.0, 0.0]), u)[1])


def normalised(x: Any) -> Any:
    m = np.mean(x, axis=1, keepdims=True)
    v = np.mean((x - m) ** 2, axis=1, keepdims=True)
    return np.sum(np.tanh((x - m) / np.sqrt(v + 1e-5)))


def bell(x: Any) -> Any:
    return np.sum(x * (x * (x * (x + 0.5) - 1.5) + 0.25) - 2.0 * np.exp(-x * x))


def heat(u: Any) -> Any:
    def step(u: Any, _: Any) -> Any:
        return u + 0.1 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u), None

    return np.sum(scan(step, u, None, length=20)[0] ** 3)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple]] = {
    "RK4 of Lorenz, 500 steps, gradient": (grad(lorenz), (np.array([10.0, 28.0, 8 / 3]),)),
    "MLP 32-16-1 on 64 rows, value and gradient": (value_and_grad(mlp, (0, 1)), (0.3 * W1, 0.3 * W2)),
    "Kalman filter, 50 steps, gradient": (grad(kalman), (np.float64(0.1),)),
    "Gaussian process of 20 points, gradient": (grad(process), (np.full(3, -1.0),)),
    "Newton step of 8 variables": (newton, (RNG.normal(size=8),)),
    "rotated body of 50 points, gradient": (grad(rotated, (0, 1)), (RNG.normal(size=4), RNG.normal(size=(50, 3)))),
    "spline of 10 knots at 200 points, gradient": (grad(spline), (RNG.normal(size=10),)),
    "MPC step of 20 controls, gradient": (grad(control), (RNG.normal(size=20),)),
    "MPC step of 20 controls, Hessian": (hessian(control), (RNG.normal(size=20),)),
    "layer norm, 2000 x 64, gradient": (grad(normalised), (RNG.normal(size=(2000, 64)),)),
    "polynomial and exp, 100,000, gradient": (grad(bell), (RNG.normal(size=100_000),)),
    "heat, 64 x 64, 20 steps, gradient": (grad(heat), (RNG.normal(size=(64, 64)),)),
}


def least(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    turns = 1
    while True:
        begun = time.process_time()
        for _ in range(turns):
            call()
        if (spent := time.process_time() - begun) > 0.02:
            break
        turns *= 4
    found = [spent / turns]
    for _ in range(5):
        begun = time.process_time()
        for _ in range(turns):
            call()
        found.append((time.process_time() - begun) / turns)
    return min(found)


def pointers(function: Any, leaves: list[Any], expected: list[np.ndarray]) -> Callable[[], Any]:
    """A call as a program in C makes it: by the addresses of arrays that are there."""
    work = np.empty(function.work // 8 + 1)
    arrays = [*[np.ascontiguousarray(x) for x in leaves], *[np.empty_like(x) for x in expected], work]
    addresses = [x.ctypes.data for x in arrays]
    return lambda arrays=arrays: function.pointer(*addresses)


def row(folder: str, number: int, f: Callable[..., Any], args: tuple) -> list[str]:
    name, g = f"model{number}", jit(f)
    path = os.path.join(folder, name)
    expected = [np.asarray(x) for x in funcad.tree.leaves(g(*args))]
    begun = time.perf_counter()
    g.export_c(path, *args)
    written = time.perf_counter() - begun
    library = os.path.join(folder, f"lib{name}.so")
    begun = time.perf_counter()
    subprocess.run(["gcc", *FLAGS, f"{path}.c", "-o", library, "-lm"], check=True)
    compiled = time.perf_counter() - begun
    function = getattr(funcad.load_c(library), name)
    leaves = funcad.tree.leaves(args)
    found = function(*leaves)
    for a, b in zip(found if type(found) is tuple else (found,), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9 * max(1.0, np.max(np.abs(b))))
    call = pointers(function, leaves, expected)
    sizes = [os.path.getsize(p) / 1024 for p in (f"{path}.c", library)]
    times = [f"{1e6 * least(c):,.1f}" for c in (call, lambda: g(*args))]
    return [*times, f"{sizes[0]:.0f}", f"{sizes[1]:.0f}", f"{1e3 * written:.0f}", f"{1e3 * compiled:.0f}"]


def beside_casadi() -> int:
    casadi = importlib.import_module("benchmarks.casadi_programs")
    print("| program | C, us | CasADi, us | text, KiB | CasADi's | library, KiB | CasADi's |\n|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (f, args)) in enumerate(PROGRAMS.items()):
            expected = [np.asarray(x) for x in funcad.tree.leaves(f(*args))]
            ours, theirs = row(folder, number, f, args), casadi.row(folder, number, args, expected)
            cells = [ours[0], theirs[0], ours[2], theirs[1], ours[3], theirs[2]]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return 0


def main() -> int:
    if "--casadi" in sys.argv:
        return beside_casadi()
    print(
        "| program | C, us | jit, us | text, KiB | library, KiB | written, ms | compiled, ms |\n|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (f, args)) in enumerate(PROGRAMS.items()):
            print(f"| {name} | {' | '.join(row(folder, number, f, args))} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
