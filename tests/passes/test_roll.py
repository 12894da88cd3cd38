"""Loops that are found in what repeats itself: the same bits as the program written out, and never a loop that is none."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, value_and_grad, vmap
from funcad.backends.engines import program_of
from funcad.passes import roll as roll_module
from funcad.passes.pipeline import optimize
from funcad.passes.redundancy import inline
from funcad.passes.rewrite import size_of
from funcad.passes.roll import roll
from funcad.passes.turns import looks, stretches
from funcad.primitives.basic_indexing import basic_add_p, basic_place_p
from tests.rolling import close, lengths, rolled

RNG = np.random.default_rng(0)


# ---------------------------------------------------------------- programs that repeat themselves


def rnn(p: Any, xs: Any) -> Any:
    w, u, b = p
    h, loss = np.zeros(3), 0.0
    for t in range(60):
        h = np.tanh(w @ h + u @ xs[t] + b)
        loss = loss + np.sum((h - xs[t]) ** 2)
    return loss


def rows(xs: Any) -> Any:
    h, hs = xs[0] * 0.0, []
    for x in xs:
        h = np.tanh(h * 0.5 + x)
        hs.append(np.sin(h) * 2.0 + h)
    return np.stack(hs, axis=1)


def stencil(u: Any) -> Any:
    for _ in range(60):
        u = np.concatenate([u[:1], u[1:-1] + 0.1 * (u[2:] - 2.0 * u[1:-1] + u[:-2]), u[-1:]])
    return u


def leapfrog(u: Any) -> Any:
    v = u * 0.9
    for _ in range(60):
        u, v = 2.0 * u - v + 0.01 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)), u
    return u + v


def third_order(x: Any) -> Any:
    a, b, c = x, x * 0.5, x * 0.25
    for _ in range(80):
        a, b, c = np.sin(a * c) + b, a, b
        a = a * 0.9
    return a - b * c


def adam(w: Any, x: Any) -> Any:
    m = v = w * 0.0
    for t in range(1, 50):
        g = w * x - 1.0
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.01 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w


def windows(x: Any) -> Any:
    s = x[:3] * 0.0
    for i in range(60):
        s = np.tanh(s + x[2 * i : 2 * i + 3] * x[i + 1]) + x[120 - i]
    return np.sum(s)


def table(x: Any) -> Any:
    s, order = x[0] * 0.0, np.random.default_rng(1).permutation(60)
    for i in order:
        s = np.tanh(s + x[int(i)]) * 0.5 + x[int(i) // 2]
    return np.sum(s)


def writes(x: Any) -> Any:
    u = np.zeros((60, 2)) * x[0, 0]
    u[0] = x[0]
    for i in range(1, 60):
        u[i] = np.maximum(u[i - 1] * 0.9 + x[i], x[i - 1])
    return u


def nested(x: Any, w: Any) -> Any:
    c = w[0] * 0.0
    for i in range(16):
        a = x[i]
        for j in range(12):
            a = np.tanh(a + w[j] * x[i])
            c = c + a * w[j]
        c = c / (1.0 + i)
    return c


def two_layers(p: Any, xs: Any) -> Any:
    a, b = p
    h = g = xs[0] * 0.0
    for t in range(50):
        h = np.tanh(a @ h + xs[t])
        h, g = g, np.tanh(b @ g + h)
    return np.sum(g * h)


def alternating(p: Any, x: Any) -> Any:
    for i in range(80):
        x = np.tanh(p[i % 2] @ x) * 0.9
        x = x + 0.1 * np.sin(x)
    return x


def read_later(x: Any) -> Any:
    seen = []
    for _ in range(80):
        x = np.sin(x) * 1.1 + 0.1
        seen.append(x * x)
    return seen[3], seen[-1] - seen[-2], sum(seen[::8]), np.concatenate(seen[10:70])


P = (RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=(3, 3)) * 0.5, RNG.normal(size=3))
XS = RNG.normal(size=(60, 3))
LONG = RNG.normal(size=140)
PROGRAMS = [  # f, arguments, loops at least, equations that may be left
    (rnn, (P, XS), 1, 60),
    (rows, (XS,), 1, 20),
    (stencil, (XS[:, 0],), 1, 20),
    (leapfrog, (XS[:5, 0],), 1, 20),
    (third_order, (XS[:5, 0] * 0.1,), 1, 30),
    (adam, (P[2], XS[0]), 1, 30),
    (windows, (LONG,), 1, 30),
    (table, (XS,), 1, 40),
    (writes, (XS[:, :2],), 1, 40),
    (nested, (XS[:16], XS[20:32]), 2, 60),
    (two_layers, (P[:2], XS), 1, 40),
    (alternating, (P[:2], XS[0]), 1, 40),
    (read_later, (XS[0],), 1, 60),
]
programs = pytest.mark.parametrize(("f", "args", "loops", "left"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])


def total(f: Any) -> Any:
    """The sum of all results, weighted."""

    def g(*args: Any) -> Any:
        return sum([np.sum(o * (i + 1.0)) for i, o in enumerate(funcad.tree_util.tree_leaves(f(*args)))])

    return g


@programs
def test_values(f: Any, args: Any, loops: int, left: int) -> None:
    found = rolled(f, *args)
    assert len(lengths(found)) >= loops and size_of(found) <= left, found


@programs
def test_gradients_are_rolled_forwards_and_backwards(f: Any, args: Any, loops: int, left: int) -> None:
    positions = tuple(range(len(args)))
    before = inline(funcad.make_jaxpr(value_and_grad(total(f), positions))(*args).jaxpr)
    found = rolled(value_and_grad(total(f), positions), *args)
    assert len(lengths(found)) >= 2 * loops and size_of(found) <= size_of(before) / 3, (size_of(before), found)


@pytest.mark.share(4)
@programs
def test_other_transformations(f: Any, args: Any, loops: int, left: int) -> None:
    g = total(f)
    two = funcad.tree_util.tree_map(lambda x: np.stack([x, x * 0.5]), args)
    assert lengths(rolled(vmap(g), *two))
    assert lengths(rolled(lambda *xs: jvp(grad(g), xs, xs)[1], *args))


@pytest.mark.share(8)
@pytest.mark.parametrize("engine", ["numpy", "native"])
@programs
def test_engines(f: Any, args: Any, loops: int, left: int, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(funcad.config, "engine", engine)
    g = value_and_grad(total(f), tuple(range(len(args))))
    compiled = jit(g)
    expected = g(*args)
    for _ in range(2):
        close(compiled(*args), expected, 1e-9)
    single = funcad.tree_util.tree_map(lambda x: x.astype(np.float32), args)
    close(jit(f)(*single), f(*single), 2e-4)
    assert jit(f).explain(*args).rolled


def test_a_loop_that_is_found_needs_no_rules() -> None:
    """Where nobody has written a `scan`, what says the loop's rules is not loaded; it runs by what the primitive is."""
    code = """if True:
        import sys
        import numpy as np
        import funcad
        from funcad.backends.interpreter import Program
        from funcad.passes.redundancy import inline
        from funcad.passes.roll import roll

        def f(x):
            kept = []
            for _ in range(300):
                x = np.sin(x) + 0.1 * x[::-1]
                kept.append(x)
            return x, sum(kept[::-1])

        x = np.linspace(0.0, 1.0, 7)
        before = inline(funcad.make_jaxpr(f)(x).jaxpr)
        after = roll(before)
        assert any(e.primitive.name == "loop" for e in after.equations) and len(after.equations) < 20
        for a, b in zip(Program(before).run([x]), Program(after).run([x]), strict=True):
            assert a.tobytes() == b.tobytes()
        assert "funcad.control.loop_rules" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_it_is_shown() -> None:
    f = jit(stencil)
    assert "60 turns of" in str(f.explain(XS[:, 0])) and "test_roll.py" in f.explain(XS[:, 0]).rolled[0]
    assert "rolled into a loop" in f.explain(XS[:, 0])._repr_html_()
    text = f.source(XS[:, 0])
    module: dict[str, Any] = {}
    exec(text, module)
    assert "for _ in range(60):" in text
    assert np.array_equal(module["run"](XS[:, 0])[0], stencil(XS[:, 0]))


# ---------------------------------------------------------------- what must not be rolled, or not with the others


ODD = {
    "operation": lambda h, w, x, t: np.cos(h) * w + x,
    "order": lambda h, w, x, t: np.sin(w) * h + x,
    "literal": lambda h, w, x, t: np.sin(h) * w + x * 2.0,
    "constant": lambda h, w, x, t: np.sin(h) * h + x,
    "more": lambda h, w, x, t: np.sin(h) * w + x + x,
    "fewer": lambda h, w, x, t: np.sin(h) + x,
}


@pytest.mark.share(3)
@pytest.mark.parametrize("turn", [0, 1, 37, 88, 89])
@pytest.mark.parametrize("kind", ODD)
def test_one_turn_that_differs(kind: str, turn: int) -> None:
    def f(h: Any, w: Any, xs: Any) -> Any:
        for t in range(90):
            step = ODD[kind] if t == turn else lambda h, w, x, t: np.sin(h) * w + x
            h = step(h, w, xs[t], t)
        return h

    args = XS[0], XS[1], RNG.normal(size=(90, 3))
    found = lengths(rolled(f, *args))
    assert found and sum(found) <= 90 and max(found) <= max(turn + 1, 90 - turn), found
    assert lengths(rolled(grad(total(f), (0, 1, 2)), *args))


def test_an_operand_of_another_turn() -> None:
    def f(x: Any, turn: int) -> Any:
        before = [x, x * 0.5, x * 0.25]
        for t in range(100):
            a = before[-3] if t == turn else before[-1]
            before.append(np.sin(a) * before[-2] + 0.1)
        return before[-1]

    for turn in (1, 2, 50, 99):
        assert lengths(rolled(lambda x, turn=turn: f(x, turn), XS[0]))
        rolled(grad(lambda x, turn=turn: np.sum(f(x, turn))), XS[0])


def test_an_index_that_jumps() -> None:
    def f(x: Any) -> Any:
        s = x[0] * 0.0
        for t in range(60):
            s = np.sin(s + x[t if t != 31 else 7]) * x[59 - t] + 0.5
        return s

    assert lengths(rolled(f, XS))
    assert lengths(rolled(grad(total(f)), XS))


def test_effects_keep_their_order_and_number() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        for t in range(60):
            for _ in range(20):
                x = np.sin(x) + 0.1
            if t % 20 == 0:
                funcad.debug.callback(lambda v: seen.append(float(v)), x)
        return x

    compiled = jit(f)
    compiled(np.float64(0.3))
    first, seen[:] = list(seen), []
    f(np.float64(0.3))
    assert len(first) == 3 and first == seen
    assert len(lengths(roll(inline(funcad.make_jaxpr(f)(np.float64(0.3)).jaxpr)))) == 3


def test_sums_of_placements_have_no_negative_zero_that_was_none() -> None:
    x = np.zeros((60, 2))

    def f(x: Any) -> Any:
        s = 0.0
        for t in range(0, 60):
            s = s + np.sum(x[t] * -0.0) * x[59 - t, 0] + x[t, 1] * x[0, 0]
        return s

    found = rolled(grad(f), x)
    assert lengths(found) and not [e for e in found.equations if e.primitive.name == "dynamic_add"]


def test_small_and_irregular_programs_stay_as_they_are() -> None:
    def f(x: Any, n: int) -> Any:
        for _ in range(n):
            x = np.sin(x) * 1.5
        return x

    jaxpr = funcad.make_jaxpr(lambda x: f(x, 100))(XS).jaxpr
    assert roll(jaxpr) is jaxpr

    def irregular(x: Any) -> Any:
        values, rng = [x, x + 1.0], np.random.default_rng(0)
        for _ in range(600):
            a, b = [values[-int(i)] for i in rng.integers(1, min(len(values), 9), 2)]
            values.append([np.add, np.multiply, np.maximum, np.subtract][rng.integers(4)](a, b))
        return values[-1]

    jaxpr = funcad.make_jaxpr(irregular)(XS).jaxpr
    assert roll(jaxpr) is jaxpr


def test_large_values_are_not_put_together() -> None:
    """Each layer has parameters of its own; stacking them would cost more than the layers."""
    layers = [RNG.normal(size=(40, 40)) * 0.1 for _ in range(100)]

    def f(ws: Any, x: Any) -> Any:
        for w in ws:
            x = np.tanh(w @ x) + x
        return x

    jaxpr = funcad.make_jaxpr(f)(layers, np.ones(40)).jaxpr
    assert roll(jaxpr) is jaxpr


def test_python_numbers_stay() -> None:
    """Weak values are no carries: what Python computes with is left to it."""

    def f(n: Any) -> Any:
        for i in range(300):
            n = n + i * n
        return n

    x = jit(f)(1.0)
    assert x == f(1.0)


def test_finding_stretches() -> None:
    n = 20_000
    for words in (list(range(n)), [0] * n, [i % 7 for i in range(n)], [(i * i) % 101 % 7 for i in range(n)]):
        found = stretches(words)
        assert all([words[s : e - p] == words[s + p : e] for s, p, e in found])
    assert stretches([i % 7 for i in range(700)]) == [(0, 7, 700)]
    assert stretches([*range(100, 150), *[i % 7 for i in range(700)], *range(50, 99)]) == [(50, 7, 750)]
    equations = funcad.make_jaxpr(stencil)(XS[:, 0]).jaxpr.equations
    assert [(p, s, e) for s, p, e in stretches(looks(equations))] == [(len(equations) // 60, 0, len(equations))]


def test_numbers_that_python_computes_stay_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        u = np.zeros(80) * x
        for i in range(1, 80):
            u[i] = np.sin(u[i - 1]) * x + 0.5 / i
        return u

    monkeypatch.setattr(roll_module, "compiles_numbers", lambda: True)
    assert lengths(rolled(f, 0.3 * np.ones(())))
    monkeypatch.setattr(roll_module, "compiles_numbers", lambda: False)
    assert not lengths(rolled(f, 0.3 * np.ones(())))
    assert lengths(rolled(stencil, XS[:, 0]))
    monkeypatch.setattr(roll_module, "NUMBERS", 100)
    assert lengths(rolled(f, 0.3 * np.ones(())))


@pytest.mark.parametrize("first", ["native", "numpy"])
@pytest.mark.parametrize("times", [0, 400])
def test_a_program_is_optimised_for_the_engine_that_runs_it(first: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_module, "_llvm", lambda: True)

    def f(x: Any) -> Any:
        for _ in range(times):
            x = np.sin(x) * 0.5
        return x

    jaxpr = funcad.make_jaxpr(f)(1.0).jaxpr
    engines = (first, "numpy" if first == "native" else "native")
    for engine in (*engines, *engines):
        with funcad.config.set(engine=engine):
            written_out = len(optimize(jaxpr).equations)
            made = program_of(jaxpr)
        assert 0 <= written_out - 2 * times <= 1 if engine == "numpy" else written_out < 4  # 1.0 becomes a number of NumPy's
        assert len(made.optimized.equations) == written_out  # type: ignore[attr-defined]


def test_a_program_keeps_the_engine_that_it_was_made_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_module, "_llvm", lambda: True)

    def f(x: Any) -> Any:
        for _ in range(400):
            x = np.sin(x) * 0.5
        return x

    for mine, other, is_rolled in (("numpy", "native", False), ("native", "numpy", True)):
        with funcad.config.set(engine=mine):
            made = program_of(funcad.make_jaxpr(f)(1.0).jaxpr)
        with funcad.config.set(engine=other):
            assert (len(made.optimized.equations) < 400) == is_rolled  # type: ignore[attr-defined]


def test_large_values_that_are_rarely_read_end_a_loop() -> None:
    def f(u: Any, *, last: int = 0) -> Any:
        seen = []
        for t in range(160):
            u = np.sin(u) * 1.1 + 0.1
            if t % 40 == 20 or t >= 160 - last:
                seen.append(u)
        return seen

    large, small = np.linspace(0.0, 1.0, 2000), np.linspace(0.0, 1.0, 5)
    found = rolled(f, large)
    assert lengths(found) == [40, 40, 40]
    assert max([v.aval.size for e in found.equations for v in e.outputs]) == 2000
    assert lengths(rolled(f, small)) == [160]
    assert max([v.aval.size for e in rolled(lambda u: f(u, last=2), large).equations for v in e.outputs]) == 2000
    assert lengths(rolled(grad(total(f)), large))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [0.0, -0.0, np.inf])  # which times 0.0 is the processor's NaN, as all others here
def test_placements_in_a_sum_are_added_at_their_places(dtype: Any, start: float) -> None:
    """Windows over two axes, rows and columns in one sum: no zeros are made in the turns, and not a bit changes."""
    rng = np.random.default_rng(3)
    x = rng.choice([0.0, -0.0, 1.5, -2.25, np.inf], size=(14, 12)).astype(dtype)

    def windows(x: Any) -> Any:
        total = np.full((14, 12), start, dtype) * x
        for i in range(12):
            for j in range(10):
                total = total + basic_place_p(x[i : i + 3, j : j + 3] * -1.0, index=((i, 3, 1), (j, 3, 1)), shape=(14, 12))
        return total

    def rows_and_columns(x: Any) -> Any:
        total = np.full((14, 12), start, dtype) * x
        for i in range(12):
            total = total + basic_place_p(x[0] * x[i, i], index=(i, (0, 12, 1)), shape=(14, 12))
            total = basic_place_p(x[:, i] * -1.0, index=((0, 14, 1), i), shape=(14, 12)) + total
            total = basic_add_p(total, x[i + 1] * 2.0, index=(i + 1, (0, 12, 1)))
        for i in range(81):
            total = total + basic_place_p(x[0] * x[i % 14, i % 12], index=(i % 14, (0, 12, 1)), shape=(14, 12))
            total = basic_place_p(x[:, i % 12] * -1.0, index=((0, 14, 1), i % 12), shape=(14, 12)) + total
        return total

    with np.errstate(all="ignore"):
        for f in (windows, rows_and_columns):
            program = rolled(f, x)
            loops = [e.params["loop"] for e in program.equations if e.primitive.name == "loop"]
            assert loops and all(["dynamic_add" in [e.primitive.name for e in loop.body.equations] for loop in loops])
            if f is windows:
                assert not any([e.primitive.name == "broadcast_in_dim" for loop in loops for e in loop.body.equations])


def test_windows_that_stand_still_move_in_the_loop_around() -> None:
    """Gauss-Seidel: the inner loop's row is another one in each turn of the outer one, forwards and backwards."""

    def f(x: Any) -> Any:
        x = x.copy()
        for i in range(1, 19):
            x[i, 1:-1] += x[i - 1, 1:-1] * x[i + 1, :-2]
            for j in range(1, 15):
                x[i, j] = (x[i, j] + x[i, j - 1] + x[i - 1, j]) / 3.0
        return x

    x = RNG.uniform(0.5, 1.5, (20, 16))
    for g in (f, grad(lambda x: np.sum(f(x) ** 2))):
        found = rolled(g, x)
        assert len(found.equations) < 60
        assert any([14 in lengths(e.params["loop"].body) for e in found.equations if "loop" in e.params])
    close(jit(f)(x), f(x), 1e-14)
    close(jit(grad(lambda x: np.sum(f(x) ** 2)))(x), grad(lambda x: np.sum(f(x) ** 2))(x), 1e-12)
