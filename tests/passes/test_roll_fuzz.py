"""Random programs that repeat themselves, but for a turn: rolled, they give the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, value_and_grad, vmap
from funcad.passes import roll as roll_module
from tests.rolling import close, rolled


def random_program(rng: np.random.Generator) -> tuple[Any, tuple]:
    """A loop with a random body, strides, reads and one turn that may differ; loops in it, buffers that it writes."""
    width, n_state, depth = [int(rng.integers(a, b)) for a, b in ((2, 5), (1, 4), (3, 9))]
    body = [tuple([int(i) for i in rng.integers(0, 100, 4)]) for _ in range(depth)]
    turns = int(rng.integers(20, 60)) + 300 // depth
    odd, odd_step = (int(rng.integers(0, turns)), int(rng.integers(0, depth))) if rng.random() < 0.6 else (-1, 0)
    inner = int(rng.integers(2, 12)) if rng.random() < 0.3 else 1
    reads = range(turns) if rng.random() < 0.3 else [int(t) for t in rng.integers(0, turns, rng.integers(0, 4))]
    stride, numbers, order = int(rng.choice([1, 2, 3])), rng.normal(size=turns), rng.permutation(turns)
    buffered = rng.random() < 0.3

    def operation(k: int, a: Any, b: Any, x: Any, w: Any, t: int, history: list) -> Any:
        return [
            lambda: np.sin(a),
            lambda: a * b,
            lambda: a + 0.5 * b,
            lambda: w @ a,
            lambda: a + x[t * stride],
            lambda: a - x[turns - 1 - t],
            lambda: a * numbers[t],
            lambda: a - history[-1] * history[-2],
            lambda: a * x[t + 1 : t + 2].reshape(width),
            lambda: np.tanh(a) + t,
            lambda: a * np.sum(b),
            lambda: np.concatenate([a[1:], b[:1]]),
            lambda: a + x[int(order[t])],
            lambda: np.where(a > 0, a, b * 0.5),
            lambda: a + x[t, k % width],
            lambda: a / (1.0 + b * b),
        ][k % 16]()

    def f(x: Any, w: Any) -> Any:
        state = [w[i % width] * (i + 1.0) for i in range(n_state)]
        history, out, total = [state[0], state[0] * 0.5], [], x[0] * 0.0
        buffer = np.zeros((turns + 1, width)) * x[0, 0]
        for t in range(turns):
            values = list(state)
            for _ in range(inner):
                for step, (k, i, j, m) in enumerate(body):
                    k = m if (t, step) == (odd, odd_step) else k
                    values.append(operation(k, values[i % len(values)], values[j % len(values)], x, w, t, history))
            state = [np.tanh(values[-1 - i]) for i in range(n_state)]
            history.append(state[0])
            total = total + state[0] * values[len(values) // 2]
            if buffered:
                buffer[t + 1] = buffer[t] * 0.5 + state[0]
            if t in reads:
                out.append(values[len(values) // 2])
        return np.sum(total) + sum([np.sum(o) * (i + 1.0) for i, o in enumerate(out)]) + np.sum(buffer)

    dtype = np.float32 if rng.random() < 0.2 else np.float64
    x, w = rng.normal(size=(3 * turns + 3, width)), rng.normal(size=(width, width)) * 0.5
    kinds = [
        lambda f: f,
        lambda f: grad(f, (0, 1)),
        lambda f: value_and_grad(f, 1),
        lambda f: lambda x, w: vmap(lambda w: f(x, w))(np.stack([w, w * 0.5])),
        lambda f: lambda x, w: jvp(lambda w: grad(f, 1)(x, w), (w,), (w,))[1],
    ]
    return kinds[int(rng.integers(0, 5))](f), (x.astype(dtype), w.astype(dtype))


@pytest.mark.share(8)
@pytest.mark.parametrize("seed", [*range(4), *[pytest.param(n, marks=pytest.mark.slow) for n in range(4, 8)]])
def test_random_programs(seed: int) -> None:
    with np.errstate(all="ignore"):
        f, args = random_program(np.random.default_rng(seed))
        rolled(f, *args)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8, 200))
def test_more_random_programs(seed: int) -> None:
    with np.errstate(all="ignore"):
        f, args = random_program(np.random.default_rng(seed))
        rolled(f, *args)


@pytest.mark.parametrize("engine", ["numpy", "native"])
@pytest.mark.parametrize("seed", [0, *[pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)]])
def test_random_programs_on_engines(seed: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(funcad.config, "engine", engine)
    with np.errstate(all="ignore"):
        f, args = random_program(np.random.default_rng(1000 + seed))
        args = tuple([a.astype(np.float64) for a in args])
        found = jit(f)(*args)
        monkeypatch.setattr(roll_module, "SMALLEST", 10**9)
        close(found, jit(lambda *xs: f(*xs))(*args), 1e-6)
