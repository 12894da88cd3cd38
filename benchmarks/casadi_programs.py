"""The twelve programs of `benchmarks.c_library` in CasADi: its expressions, its derivatives, the C that it writes.

Each is written as CasADi's users write it: small ones in scalars (SX), arrays and loops in matrices (MX, mapaccum).
"""

from __future__ import annotations

import ctypes
import importlib
import os
import subprocess
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import c_library as own

ca: Any = importlib.import_module("casadi")


def lorenz() -> Any:
    s, p = ca.SX.sym("s", 3), ca.SX.sym("p", 3)

    def slope(s: Any) -> Any:
        return ca.vertcat(p[0] * (s[1] - s[0]), s[0] * (p[1] - s[2]) - s[1], s[0] * s[1] - p[2] * s[2])

    a = slope(s)
    b = slope(s + 0.005 * a)
    c = slope(s + 0.005 * b)
    step = ca.Function("step", [s, p], [s + 0.01 / 6 * (a + 2 * b + 2 * c + slope(s + 0.01 * c))])
    q = ca.MX.sym("q", 3)
    end = step.mapaccum("steps", 500)(np.ones(3), ca.repmat(q, 1, 500))[:, -1]
    return [q], [ca.gradient(ca.sumsqr(end), q)]


def mlp() -> Any:
    w, v = ca.MX.sym("w", 32, 16), ca.MX.sym("v", 16)
    loss = ca.sumsqr(ca.tanh(ca.DM(own.DATA) @ w) @ v - own.LABELS[:, 0]) / 64
    return [w, v], [loss, ca.gradient(loss, w), ca.gradient(loss, v)]


def kalman() -> Any:
    m, p, noise, y = ca.SX.sym("m", 4), ca.SX.sym("p", 4, 4), ca.SX.sym("noise"), ca.SX.sym("y", 2)
    a, h = ca.DM(own.A), ca.DM(own.H)
    m1, p1 = a @ m, a @ p @ a.T + 0.1 * ca.DM.eye(4)
    s = h @ p1 @ h.T + ca.exp(noise) * ca.DM.eye(2)
    gain, rest = ca.solve(s, h @ p1).T, y - h @ m1
    loss = ca.dot(rest, ca.solve(s, rest)) + ca.log(ca.det(s))
    state = ca.vertcat(m1 + gain @ rest, ca.vec(p1 - gain @ h @ p1))
    step = ca.Function("step", [ca.vertcat(m, ca.vec(p)), noise, y], [state, loss])
    t = ca.MX.sym("t")
    start = ca.vertcat(ca.DM.zeros(4), ca.vec(ca.DM.eye(4)))
    losses = step.mapaccum("steps", 50)(start, ca.repmat(t, 1, 50), own.SEEN.T)[1]
    return [t], [ca.gradient(ca.sum2(losses), t)]


def process() -> Any:
    t = ca.SX.sym("t", 3)
    distances, y = ca.DM((own.PLACES[:, None] - own.PLACES) ** 2), ca.DM(np.sin(6 * own.PLACES))
    k = ca.exp(t[0]) * ca.exp(-0.5 * distances / ca.exp(t[1])) + (ca.exp(t[2]) + 1e-6) * ca.DM.eye(20)
    r = ca.chol(ca.densify(k))
    z = ca.solve(r.T, y)
    return [t], [ca.gradient(0.5 * ca.sumsqr(z) + ca.sum1(ca.log(ca.diag(r))), t)]


def newton() -> Any:
    z = ca.SX.sym("z", 8)
    second, first = ca.hessian(ca.sum1(100 * (z[1:] - z[:-1] ** 2) ** 2 + (1 - z[:-1]) ** 2), z)
    return [z], [z - ca.solve(second, first)]


def rotated() -> Any:
    q, v = ca.SX.sym("q", 4), ca.SX.sym("v", 50, 3)
    w, x, y, z = ca.vertsplit(q / ca.sqrt(ca.sumsqr(q)))
    r = ca.vertcat(
        ca.horzcat(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        ca.horzcat(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        ca.horzcat(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
    loss = ca.sum1(ca.vec((v @ r.T) ** 3))
    return [q, v], [ca.gradient(loss, q), ca.gradient(loss, v)]


def spline() -> Any:
    c, t = ca.SX.sym("c", 10), np.linspace(0.0, 1.0, 200) * 7
    i = np.minimum(t.astype(int), 6)
    f = t - i
    parts = ((1 - f) ** 3, i), (3 * f**3 - 6 * f**2 + 4, i + 1), (f**3, i + 3)
    basis = np.zeros((200, 10))
    for weight, place in parts:
        basis[np.arange(200), place] += weight / 6
    return [c], [ca.gradient(ca.sumsqr(ca.sparsify(ca.DM(basis)) @ c - np.sin(t)), c)]


def _control() -> tuple[Any, Any]:
    u, s, loss = ca.SX.sym("u", 20), ca.SX(ca.DM([1.0, 0.0])), 0.0
    for k in range(20):
        s = s + 0.1 * ca.vertcat(s[1], u[k] - 0.1 * s[1] - ca.sin(s[0]))
        loss = loss + ca.sumsqr(s) + 0.1 * u[k] ** 2
    return u, loss


def control_gradient() -> Any:
    u, loss = _control()
    return [u], [ca.gradient(loss, u)]


def control_hessian() -> Any:
    u, loss = _control()
    return [u], [ca.densify(ca.hessian(loss, u)[0])]


def normalised() -> Any:
    x = ca.MX.sym("x", 2000, 64)
    d = x - ca.repmat(ca.sum2(x) / 64, 1, 64)
    y = d / ca.repmat(ca.sqrt(ca.sum2(d**2) / 64 + 1e-5), 1, 64)
    return [x], [ca.gradient(ca.sum1(ca.vec(ca.tanh(y))), x)]


def bell() -> Any:
    x = ca.MX.sym("x", 100_000)
    return [x], [ca.gradient(ca.sum1(x * (x * (x * (x + 0.5) - 1.5) + 0.25) - 2.0 * ca.exp(-x * x)), x)]


def heat() -> Any:
    u = ca.MX.sym("u", 64, 64)
    rolled = lambda v: ca.vertcat(v[-1, :], v[:-1, :]) + ca.vertcat(v[1:, :], v[0, :])
    step = ca.Function("step", [u], [u + 0.1 * (rolled(u) + rolled(u.T).T - 4 * u)])
    x = ca.MX.sym("x", 64, 64)
    end = step.fold(20)(x)
    return [x], [ca.gradient(ca.sum1(ca.vec(end**3)), x)]


MAKERS: list[Callable[[], Any]] = [
    lorenz, mlp, kalman, process, newton, rotated, spline, control_gradient, control_hessian, normalised, bell, heat,
]  # fmt: skip


def row(folder: str, number: int, args: tuple, expected: list[np.ndarray]) -> list[str]:
    """Microseconds, KiB of text and of the library, ms to compile; the results are compared with funcad's."""
    name = f"casadi{number}"
    inputs, outputs = MAKERS[number]()
    f = ca.Function(name, inputs, [ca.densify(o) for o in outputs])
    here = os.getcwd()
    os.chdir(folder)  # where CasADi writes
    try:
        f.generate(f"{name}.c", {"with_header": False})
    finally:
        os.chdir(here)
    path, library = os.path.join(folder, f"{name}.c"), os.path.join(folder, f"lib{name}.so")
    begun = time.perf_counter()
    subprocess.run(["gcc", *own.FLAGS, path, "-o", library, "-lm"], check=True, timeout=300)
    compiled = time.perf_counter() - begun
    function = getattr(ctypes.CDLL(library), name)
    columns = [np.asfortranarray(x, float).reshape(-1, order="F") for x in own.funcad.tree.leaves(args)]
    results = [np.zeros(x.size) for x in expected]
    table = lambda arrays, spare: (ctypes.c_void_p * (len(arrays) + spare))(*[x.ctypes.data for x in arrays])
    work = np.empty(f.sz_w() + 1), np.empty(f.sz_iw() + 1, np.int64)
    given = table(columns, f.sz_arg()), table(results, f.sz_res()), work[1].ctypes.data, work[0].ctypes.data
    call = lambda: function(given[0], given[1], ctypes.c_void_p(given[2]), ctypes.c_void_p(given[3]), 0)
    assert call() == 0
    for found, x in zip(results, expected, strict=True):
        scale = max(1.0, float(np.max(np.abs(x))))
        np.testing.assert_allclose(found.reshape(x.shape, order="F"), x, rtol=1e-6, atol=1e-8 * scale)
    sizes = [os.path.getsize(p) / 1024 for p in (path, library)]
    return [f"{1e6 * own.least(call):,.1f}", *[f"{s:,.0f}" for s in sizes], f"{1e3 * compiled:,.0f}"]
