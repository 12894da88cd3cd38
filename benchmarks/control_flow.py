"""Python's control flow on values: un-jitted, jitted, differentiated and over lanes, beside plain Python and JAX.

The programs are plain NumPy with `if`, `while`, `break`; JAX's versions are what its users write instead: `where`, `while_loop`
and `scan` (benchmarks/control_flow_jax.py). A while_loop of JAX's has no reverse mode: its gradients are in forward mode, which
suits the one or two numbers here, or a scan of as many turns as may be needed. "numpy" is the plain function, which has no
gradient: beside gradients it stands for the forward pass. Over lanes it is a loop. Time is the processor's, of all threads.
"""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcad
from benchmarks import control_flow_jax
from benchmarks.harness import Row, Target, interleaved, main, peer

LANES = 1000
BRACKETS = ((0.0, 0.0), (1.0, 0.1), (4.0, 0.25), (9.0, 0.4))
TREE = (2, 0.45, (0, 0.3, (0.5, 0), (3, 0.75, (1.5, 1), (2.0, 2))), (3, 0.7, (1, 0.5, (1.5, 1), (2.0, 2)), (3.0, 3)))


def leaky(x):
    return x if x > 0 else 0.1 * x


def tax(income):
    total = 0.0
    for k, (start, rate) in enumerate(BRACKETS):
        if income <= start:
            break
        end = BRACKETS[k + 1][0] if k + 1 < len(BRACKETS) else np.inf
        total = total + rate * ((income if income < end else end) - start)
    return total


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def bisection(target):
    low, high = 0.0, 8.0
    while high - low > 1e-9:
        middle = 0.5 * (low + high)
        if middle**3 + middle > target:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


def heun(k):
    t, y, h = 0.0, 1.0, 0.1
    f = lambda t, y: np.sin(t) - k * y
    while t < 2.0:
        if t + h > 2.0:
            h = 2.0 - t
        a = f(t, y)
        b = f(t + h, y + h * a)
        error = abs(0.5 * h * (b - a))
        if error < 1e-3:
            t, y = t + h, y + 0.5 * h * (a + b)
            if error < 1e-4:
                h = 2.0 * h
        else:
            h = 0.5 * h
    return y


def huber(errors):
    total = 0.0
    for e in errors:
        if abs(e) <= 0.5:
            total = total + 0.5 * e * e
        else:
            total = total + 0.5 * (abs(e) - 0.25)
    return total


def early_stopping(x):
    for _ in range(60):
        slope = 2.0 * x + 0.3 * np.cos(x)
        if slope @ slope < 1e-8:
            break
        x = x - 0.2 * slope
    return x @ x


def armijo(x):
    f = lambda x: (1.0 - x[0]) ** 2 + 5.0 * (x[1] - x[0] ** 2) ** 2
    for _ in range(5):
        outer = x[1] - x[0] ** 2
        g = np.stack([-2.0 * (1.0 - x[0]) - 20.0 * x[0] * outer, 10.0 * outer])
        t, here, gg = 1.0, f(x), g @ g
        while f(x - t * g) > here - 0.3 * t * gg:
            t = 0.5 * t
        x = x - t * g
    return f(x)


def conjugate_gradients(b):
    x, r = np.zeros(20), b
    p, rr = r, r @ r
    while rr > 1e-20:
        ap = control_flow_jax.MATRIX @ p
        alpha = rr / (p @ ap)
        x, r = x + alpha * p, r - alpha * ap
        rr, old = r @ r, rr
        p = r + (rr / old) * p
    return x @ x


def knock_out(spot):
    s = spot
    for shock in control_flow_jax.SHOCKS:
        s = s * np.exp(0.05 * shock)
        if s < 0.7:
            return 0.0 * s
    return s


def kalman(ys):
    mean, variance, likelihood = 0.0, 1.0, 0.0
    for y in ys:
        variance = variance + 0.1
        if np.isnan(y):
            continue
        s = variance + 0.2
        gain = variance / s
        likelihood = likelihood - 0.5 * (np.log(2.0 * np.pi * s) + (y - mean) ** 2 / s)
        mean, variance = mean + gain * (y - mean), (1.0 - gain) * variance
    return likelihood


def tree(x):
    node = TREE
    while len(node) == 4:
        feature, threshold, low, high = node
        node = low if x[feature] < threshold else high
    scale, which = node
    return scale * x[which] + x[0]


def mandelbrot(c):
    z, n = 0.0 * c, 0
    while n < 50 and z[0] * z[0] + z[1] * z[1] <= 4.0:
        z = np.stack([z[0] * z[0] - z[1] * z[1], 2.0 * z[0] * z[1]]) + c
        n += 1
    return n


def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


class Case(NamedTuple):
    function: Callable[..., Any]
    lanes: np.ndarray
    slopes: bool = True


def cases() -> list[Case]:
    rng = np.random.default_rng(0)
    missing = rng.normal(size=(LANES, 50))
    missing[:, ::7] = np.nan
    return [
        Case(leaky, rng.normal(size=LANES)),
        Case(tax, rng.uniform(0.5, 12.0, LANES)),
        Case(newton, rng.uniform(0.5, 50.0, LANES)),
        Case(bisection, rng.uniform(0.5, 50.0, LANES), slopes=False),
        Case(heun, rng.uniform(0.5, 3.0, LANES)),
        Case(huber, rng.normal(size=(LANES, 20))),
        Case(early_stopping, rng.normal(size=(LANES, 20))),
        Case(armijo, rng.uniform(0.2, 1.5, (LANES, 2))),
        Case(conjugate_gradients, rng.normal(size=(LANES, 20))),
        Case(knock_out, rng.uniform(0.6, 1.4, LANES)),
        Case(kalman, missing),
        Case(tree, rng.uniform(size=(LANES, 4))),
        Case(mandelbrot, rng.uniform(-1.5, 1.0, (LANES, 2)), slopes=False),
        Case(collatz, rng.integers(1, 1000, LANES), slopes=False),
    ]


# ---------------------------------------------------------------- what the issue asks of guards


def stable(x):
    """Ten guards that always answer alike."""
    for k in range(10):
        x = 0.9 * x + 0.1 if x > -1.0 - k else x * x
    return x


def straight(x):
    for _ in range(10):
        x = 0.9 * x + 0.1
    return x


def never_the_same(xs):
    total = 0.0
    for x in xs:
        total = total + np.sin(x) if x > 0 else total * 0.5 - x
    return total


def many_ifs(xs):
    total = 0.0
    for x in xs:
        total = total + x if x > 0 else total - 0.5 * x
    return total


# ---------------------------------------------------------------- rows


def timed(what: str, calls: dict[str, Callable[[], Any] | None], rounds: int, target: Target | None = None) -> Row:
    return Row(what, interleaved({n: f for n, f in calls.items() if f is not None}, rounds, time.process_time), target=target)


def waited(f: Callable[..., Any] | None, x: Any) -> Callable[[], Any] | None:
    """A call of JAX's, or None without it."""
    jax = peer("jax")
    if f is None or jax is None:
        return None
    given = jax.numpy.asarray(x)
    return lambda: jax.block_until_ready(f(given))


def checked(rows: dict[str, Any], what: str) -> None:
    """All that is timed gives the same."""
    expected = np.asarray(rows.get("numpy", rows["funcad"]))
    for name, found in rows.items():
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-7, err_msg=f"{what}, {name}")


def of(case: Case, rounds: int) -> list[Row]:
    f, x, name = case.function, case.lanes[0], case.function.__name__
    x = x.item() if np.ndim(x) == 0 else x
    value, slope, values, slopes = control_flow_jax.versions(name)
    rows = []

    def row(what: str, calls: dict[str, Callable[[], Any] | None], target: Target | None = None, among: bool = True) -> None:
        checked({n: g() for n, g in calls.items() if g is not None and (n != "numpy" or among)}, f"{name}, {what}")
        rows.append(timed(f"{name}: {what}", calls, rounds, target))

    jitted = funcad.jit(f)
    row("value, jit", {"funcad": lambda: jitted(x), "numpy": lambda: f(x), "jax": waited(value, x)})
    if case.slopes:
        plain, outer, inner = funcad.grad(f), funcad.jit(funcad.grad(f)), funcad.grad(jitted)
        calls = {"un-jitted": lambda: plain(x), "numpy": lambda: f(x), "jax": waited(slope, x)}
        target = Target("un-jitted", None, 0.05) if f is newton else None
        row("gradient, jit(grad)", {"funcad": lambda: outer(x), **calls}, target, among=False)
        row("gradient, grad(jit)", {"funcad": lambda: inner(x), **calls}, among=False)
    mapped, lanes = funcad.vmap(f), case.lanes
    loop = lambda: np.stack([f(v) for v in lanes])
    row(f"{LANES} lanes, vmap", {"funcad": lambda: mapped(lanes), "numpy": loop, "jax": waited(values, lanes)})
    if case.slopes:
        mapped_slopes = funcad.vmap(funcad.grad(f))
        calls = {"funcad": lambda: mapped_slopes(lanes), "numpy": loop, "jax": waited(slopes, lanes)}
        np.testing.assert_allclose(mapped_slopes(lanes)[:5], [plain(v) for v in lanes[:5]], rtol=1e-6, err_msg=name)
        row(f"{LANES} lanes, vmap(grad)", calls, among=False)
    return rows


def of_guards(rounds: int) -> list[Row]:
    rng = np.random.default_rng(1)
    rows = []
    with_guards, without = funcad.jit(stable), funcad.jit(straight)
    calls = {"funcad": lambda: with_guards(0.5), "numpy": lambda: stable(0.5)}
    rows.append(timed("ten guards that always answer alike", calls, rounds))
    rows.append(timed("the same without guards", {"funcad": lambda: without(0.5), "numpy": lambda: straight(0.5)}, rounds))
    fresh, changing = funcad.jit(never_the_same), funcad.vmap(many_ifs)
    draws = (rng.normal(size=24) for _ in itertools.count())
    calls = {"funcad": lambda: fresh(next(draws)), "un-jitted": lambda: never_the_same(next(draws))}
    rows.append(timed("24 guards whose answers never repeat, jit", calls, rounds, Target("un-jitted", None, 1.3)))
    gradient, fresh_gradient = funcad.grad(never_the_same), funcad.jit(funcad.grad(never_the_same))
    calls = {"funcad": lambda: fresh_gradient(next(draws)), "un-jitted": lambda: gradient(next(draws))}
    rows.append(timed("24 guards whose answers never repeat, jit(grad)", calls, rounds, Target("un-jitted", None, 1.3)))
    lanes, many = rng.normal(size=(64, 400)), rng.uniform(0.1, 1e6, 10_000)
    calls = {"funcad": lambda: changing(lanes), "numpy": lambda: [many_ifs(v) for v in lanes]}
    rows.append(timed("64 lanes of 400 guards, vmap", calls, rounds, Target("numpy", None, 1.0)))
    mapped = funcad.vmap(newton)
    calls = {"funcad": lambda: mapped(many), "jax": waited(control_flow_jax.versions("newton")[2], many)}
    rows.append(timed("10,000 lanes of Newton's iteration, vmap", calls, rounds))
    return rows


def run(rounds: int) -> list[Row]:
    gc.collect()
    gc.freeze()  # or each collection looks at all of JAX
    return [*of_guards(rounds), *[row for case in cases() for row in of(case, rounds)]]


if __name__ == "__main__":
    main(run, __doc__)
