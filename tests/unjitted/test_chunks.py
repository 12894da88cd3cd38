"""Long recordings are cut into chunks: the gradients are those of one program, and loops of all lengths find their chunks."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import funcad as fc
from funcad import grad, hessian, hvp, value_and_grad
from funcad.backends.interpreter import counters
from funcad.unjitted import chunk_cuts, chunks, row_by_row, structural, tape_ends, tape_rows
from tests.agreement import same_bits


@pytest.fixture(autouse=True)
def an_empty_table() -> Iterator[None]:
    structural.forget()
    before, fc.config.engine = fc.config.engine, "interpreter"
    yield
    fc.config.engine = before
    structural.forget()


def cut_finely(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(chunks, "CHUNKED", 2)
    monkeypatch.setattr(chunks, "SIGHTS", 1)
    monkeypatch.setattr(chunk_cuts, "SHORTEST", min(2, rows))
    monkeypatch.setattr(chunk_cuts, "USUAL", rows)
    monkeypatch.setattr(chunk_cuts, "LONGEST", rows)
    monkeypatch.setattr(chunk_cuts, "AHEAD", 4 * rows)


def compiled() -> int:
    return sum([type(entry) is tuple for key, entry in structural._table.items() if key[0] in ("chunk", "rows")])


def turns(body: list[int], n: int) -> list[int]:
    return [100, 101, 102, *body * n, 103, 104]


def test_cuts_end_where_the_rows_do() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        lines = random.integers(0, random.choice([2, 5, 50, 1000]), random.integers(0, 3000)).tolist()
        ends = list(chunk_cuts.cuts(lines))
        assert ends == sorted(set(ends))
        assert ends[-1:] == [len(lines)] * bool(lines)
        assert all([b - a <= chunk_cuts.LONGEST + chunk_cuts.SHORTEST for a, b in zip([0, *ends], ends)])


@pytest.mark.parametrize("body", [[1], [1, 2, 3, 4, 5], [1, 2, 2, 2, 3], [7, 8, 1, 8, 2, 8, 3], list(range(60)) + [5, 6] * 20])
def test_loops_of_all_lengths_are_made_of_few_kinds_of_chunks(body: list[int]) -> None:
    kinds = set()
    for n in range(2, 800 // len(body)):
        lines = turns(body, n)
        ends = [0, *chunk_cuts.cuts(lines)]
        kinds |= {tuple(lines[a:b]) for a, b in zip(ends, ends[1:])}
    assert len(kinds) < 60


def scalars(x: Any) -> Any:
    y, total = x * 1.0, 0.0
    for i in range(12):
        y = y - 0.1 * (y * y - np.sin(x)) / (1.0 + i)
        total = total + y
    return total


def vectors(x: Any) -> Any:
    a, y = np.exp(x) * np.arange(3.0), np.ones(3)
    kept = []
    for _ in range(6):
        y = np.tanh(a * y) + y[::-1] * x
        kept.append(np.sum(y * a))
    return np.sum(np.stack(kept) ** 2) + kept[2]


def slices(x: Any) -> Any:
    y = np.stack([x, x * x, x + 1.0])
    for _ in range(4):
        y = np.stack([y[1] * y[2], np.sqrt(y[0]), y[1] + y[0]])
        y = np.concatenate([y[:2] * 0.5, np.exp(-y[2:])])
    return np.sum(np.pad(y, 1)[1:4] * y)


def matrices(x: Any) -> Any:
    a = np.arange(9.0).reshape(3, 3) / 9.0 + np.eye(3) * x
    for _ in range(3):
        values, vectors = np.linalg.eigh(a + a.T)
        first, second = np.split(vectors @ np.diag(values), [1])
        a = np.concatenate([second, first * x]) + np.outer(values, values) * 0.1
    return np.sum(a * a)


def constants(x: Any) -> Any:
    y = x
    for i in range(8):
        z = y * float(i)
        y = y + np.float32(0.5) * z if i % 3 else y * y
        np.sin(z)  # leads nowhere
    return y


LOOPS = [scalars, vectors, slices, matrices, constants]


def whole(monkeypatch: pytest.MonkeyPatch, f: Callable[..., Any], *args: Any) -> Any:
    with monkeypatch.context() as m:
        m.setattr(chunks, "CHUNKED", 10**9)
        return f(*args)


def same(a: Any, b: Any) -> None:
    for x, y in zip(fc.tree.leaves(a), fc.tree.leaves(b), strict=True):
        assert type(x) is type(y) and same_bits(x, y)


@pytest.mark.share(6)
@pytest.mark.parametrize("rows", [2, 3, 7])
@pytest.mark.parametrize("x", [0.75, np.float64(0.75), np.float32(0.75), np.complex128(0.75)], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("f", LOOPS, ids=lambda f: f.__name__)
def test_the_same_bits_as_by_one_program(f: Any, x: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules, by programs that are derived, and by programs that are found again."""
    if type(x) is np.complex128:
        f = lambda x, f=f: np.real(f(x)) if f is not matrices else np.real(x)
    g = value_and_grad(f)
    expected = whole(monkeypatch, g, x)
    other = type(x)(0.8125)
    expected_of_other = whole(monkeypatch, g, other)
    cut_finely(monkeypatch, rows)
    for _ in range(4):
        same(g(x), expected)
        same(g(other), expected_of_other)
    assert compiled() or type(x) is np.complex128
    before = counters["programs"]
    same(g(x), expected)
    assert counters["programs"] == before


@pytest.mark.filterwarnings("ignore:grad. the output")
def test_several_inputs_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    params = {"w": np.linspace(-1.0, 1.0, 6).reshape(2, 3), "b": np.float32(0.5), "unused": np.ones(2), "n": 3}

    def loss(params: Any, x: Any) -> Any:
        h = x
        for _ in range(params["n"]):
            h = np.tanh(params["w"].T @ (params["w"] @ h) + params["b"])
        return np.sum(h), (h, params["w"] * 2.0)

    g = value_and_grad(lambda w, b, u, x: loss({"w": w, "b": b, "unused": u, "n": 3}, x), argnums=(0, 1, 2, 3), has_aux=True)
    args = params["w"], params["b"], params["unused"], np.array([0.25, 0.5, -1.0])
    expected = whole(monkeypatch, lambda: g(*args))
    cut_finely(monkeypatch, 3)
    for _ in range(4):
        same(g(*args), expected)
    for _ in range(3):
        assert grad(lambda x: [x * x * x, x][1])(2.0) == 1.0


def chosen(x: Any) -> Any:
    with np.errstate(all="ignore"):
        a = np.sqrt(x - 1.0)
        b = np.log(x - 1.0)
        c = b * a + 1.0 / (x - 1.0)
        y = np.where(x > 1.0, c, x * 2.0)
        z = np.where(x > 2.0, np.exp(y), np.where(x > 1.0, y, 0.0))
        return np.sum(z * x)


def both_ways(x: Any) -> Any:
    with np.errstate(all="ignore"):
        a, b = np.log(x), np.sqrt(-x)
        return np.sum(np.where(x > 0, a, b) * x)


def unread(x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.log(np.atleast_1d(x) * np.arange(3.0))  # -inf
        z = np.sqrt(y * y)
        return z[-1] * 2.0 + np.sum(z[1:] * z[2:])


def padded(x: Any) -> Any:
    with np.errstate(all="ignore"):
        y = np.concatenate([np.atleast_1d(x)[:1], np.zeros(2)])
        z = np.sqrt(y)  # of what came from outside, the slope is infinite
        w = z * z
        return np.sum(w[:1] * z[0]) + np.sum(np.maximum(w, 0.0)[np.array([0, 0])])


MASKED = [chosen, both_ways, unread, padded]


@pytest.mark.share(3)
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
@pytest.mark.parametrize("x", [np.float64(0.5), np.float64(1.0), np.array([0.5, 1.0, 1.5]), np.array([2.5, 0.0, 1.0])], ids=str)
@pytest.mark.parametrize("f", MASKED, ids=lambda f: f.__name__)
def test_masks_cross_borders(f: Any, x: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An element that no path leads to stays zero, though the factor that it meets is infinite and in another chunk."""
    g = value_and_grad(f)
    expected = whole(monkeypatch, g, x)
    cut_finely(monkeypatch, rows)
    for _ in range(4):
        np.testing.assert_allclose(g(x)[1], expected[1], rtol=1e-14)
        np.testing.assert_equal(g(x)[0], expected[0])
    assert compiled()


def test_a_mask_saves_what_is_not_chosen_chunks_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        with np.errstate(all="ignore"):
            y = np.log(x)
            for _ in range(5):
                y = y * 2.0 + 1.0
            return np.sum(np.where(x > 0, y, 0.0))

    cut_finely(monkeypatch, 2)
    for _ in range(4):
        np.testing.assert_array_equal(grad(f)(np.array([0.0, 2.0])), [0.0, 16.0])
        np.testing.assert_array_equal(grad(lambda x: f(x) + np.sum(0.0 * np.log(x[:1])))(np.array([2.0, 0.0])), [16.0, 0.0])
    with np.errstate(all="ignore"):  # a zero that is a number is none of a mask
        for _ in range(4):
            assert np.isnan(grad(lambda x: 0.0 * (np.log(x) * 2.0 + 1.0) * 3.0)(0.0))


def newton(a: Any, steps: int) -> Any:
    b = np.sqrt(a) + 0.0
    x, i = a, 0
    while i < steps and not x < 0:
        x = 0.5 * (x + b * b / x)
        i += 1
    return x


@pytest.mark.slow
def test_a_solver_whose_number_of_steps_changes_finds_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    g = grad(newton)
    for steps in (110, 250, 333, 400, 511, 128, 300):
        g(2.0, steps)
        g(2.0, steps)
    before = counters["programs"]
    for steps in range(120, 420, 7):
        expected = whole(monkeypatch, g, 2.0, steps) if steps % 3 == 0 else 0.5 / np.sqrt(2.0)
        np.testing.assert_allclose(g(2.0, steps), expected, rtol=1e-12)
    assert counters["programs"] <= before + 20


def test_turns_that_are_not_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inner loops of other lengths at each call and each turn."""
    random = np.random.default_rng(3)

    def f(x: Any, inner: Any) -> Any:
        y = x
        for n in inner:
            z = y * 1.5
            for _ in range(n):
                z = z - (z * z - y) / (2.0 * z + 1.0)
            y = np.cos(z) + x
        return y

    for _ in range(12):
        inner = random.integers(1, 4, random.integers(60, 90)).tolist()
        np.testing.assert_allclose(grad(f)(1.25, inner), whole(monkeypatch, grad(f), 1.25, inner), rtol=1e-12)
    assert compiled()
    before = counters["programs"]
    grad(f)(1.25, random.integers(1, 4, 80).tolist())
    assert counters["programs"] - before < 12


def test_more_rows_than_one_program_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tape_rows, "MAX_ROWS", 1000)
    monkeypatch.setattr(tape_ends, "MAX_ROWS", 1000)

    def f(x: Any, n: int) -> Any:
        y = x
        for _ in range(n):
            y = y * 1.0 + x
        return y

    for _ in range(3):
        assert grad(f)(2.0, 2600) == 2601.0
    before = counters["programs"]
    assert grad(f)(2.0, 5001) == 5002.0
    assert counters["programs"] <= before + 3
    for _ in range(3):  # one program would be too long
        assert hvp(lambda x: f(x, 700) ** 2, (2.0,), (1.0,)) == 2.0 * 701.0**2
        np.testing.assert_array_equal(hessian(lambda x: np.sum(f(x, 700) ** 2))(np.ones(2)), np.eye(2) * 2.0 * 701.0**2)
        np.testing.assert_array_equal(fc.jacrev(lambda x: f(x, 700))(np.ones(2)), np.eye(2) * 701.0)


def test_rows_of_large_arrays_end_earlier(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would keep what the rules do not."""
    monkeypatch.setattr(tape_rows, "MAX_ROWS", 100)
    monkeypatch.setattr(tape_rows, "MAX_BYTES", 200 * 8 * 50)
    kept = []

    def f(x: Any) -> Any:
        y = x
        for _ in range(300):
            y = y * 1.0
            kept.append(len(y.owner.tape.places) if y.owner.tape is not None else None)
        return np.sum(y)

    np.testing.assert_array_equal(grad(f)(np.ones(50)), np.ones(50))
    assert max([n for n in kept if n is not None]) == 201 and kept[-1] is None
    kept.clear()
    np.testing.assert_array_equal(grad(f)(np.ones(5)), np.ones(5))
    assert kept[-1] == 301


def test_arrays_from_outside_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 3)
    weights = np.array([1.0, 2.0])

    def f(x: Any) -> Any:
        w = weights.copy()
        y = x
        for _ in range(5):
            y = y * w
            w *= 2.0  # its rows keep what it was
        return np.sum(y)

    for scale in (1.0, 1.0, 1.0, 3.0, 0.5):
        weights[:] = np.array([1.0, 2.0]) * scale
        np.testing.assert_array_equal(grad(f)(np.ones(2)), np.array([1.0, 32.0]) * scale**5 * 2.0**10)


def test_warnings_errors_and_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 3)

    def f(x: Any, by: float, stop: bool = False) -> Any:
        y = x
        for i in range(6):
            y = y / (by - i) + x
            if stop and i == 4:
                raise ValueError("stop")
        return y

    expected = whole(monkeypatch, grad(f), 2.0, 0.5)
    for _ in range(4):
        with pytest.warns(RuntimeWarning, match="divide by zero") as caught:
            grad(lambda x: f(np.float64(1.0) * x, 3.0))(2.0)
        assert [w.filename for w in caught] == [__file__]
        with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
            grad(lambda x: f(np.float64(1.0) * x, 3.0))(2.0)
        with pytest.raises(ValueError, match="stop"):
            grad(f)(2.0, 0.5, True)
        assert grad(f)(2.0, 0.5) == expected
    structural.forget()
    seen = 0
    derived = chunks.derive

    def broken(*args: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen % 2:
            raise KeyboardInterrupt
        return derived(*args)

    monkeypatch.setattr(chunks, "derive", broken)
    for _ in range(20):
        try:
            assert grad(f)(2.0, 0.5) == expected
        except KeyboardInterrupt:
            pass
    assert compiled()
    assert grad(f)(2.0, 0.5) == expected


def test_a_chunk_without_a_program_goes_by_its_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 4)
    expected = [whole(monkeypatch, grad(f), 0.75) for f in LOOPS]
    masked = whole(monkeypatch, grad(chosen), np.array([0.5, 1.0, 1.5]))
    monkeypatch.setattr(chunks, "_derived", lambda *args: False)
    monkeypatch.setattr(chunks, "derive", lambda *args: False)
    row_by_row._pointwise.clear()
    for _ in range(3):
        for f, slope in zip(LOOPS, expected):
            same(grad(f)(0.75), slope)
        same(grad(chosen)(np.array([0.5, 1.0, 1.5])), masked)


def test_an_error_of_a_rule_names_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from funcad.primitives.transcendental import sin

    cut_finely(monkeypatch, 3)

    def f(x: Any) -> Any:
        y = x * 2.0 + x
        y = np.sin(y) * 3.0 * x
        return y * y * x

    value = grad(f)(1.0)
    monkeypatch.setattr(chunks, "_derived", lambda *args: False)
    monkeypatch.setattr(chunks, "derive", lambda *args: False)
    row_by_row._pointwise.clear()

    def no_rule(*args: Any) -> Any:
        raise ArithmeticError("no slope")

    with monkeypatch.context() as m:
        m.setattr(sin, "jvp", no_rule)
        with pytest.raises(ArithmeticError, match="no slope"):
            grad(f)(1.0)
    assert grad(f)(1.0) == value


def test_threads_share_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 5)
    lengths = (7, 12, 13, 30)
    expected = {n: whole(monkeypatch, grad(newton), 2.0, n) for n in lengths}
    wrong = []

    def work(i: int) -> None:
        for k in range(40):
            n = lengths[(i + k) % 4]
            if grad(newton)(2.0, n) != expected[n]:
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_what_is_known_of_chunks_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 5)
    monkeypatch.setattr(chunks, "_MOST_KNOWN", 500)
    for n in range(10, 60):
        np.testing.assert_allclose(grad(newton)(2.0, n), 0.5 / np.sqrt(2.0))
        assert chunks._known[0] <= 500
    for _ in range(3):  # longer than all that may be known
        np.testing.assert_allclose(grad(newton)(2.0, 300), 0.5 / np.sqrt(2.0))
        assert chunks._known[0] <= 500
    monkeypatch.setattr(structural, "MAX_BYTES", 100_000)
    for n in range(10, 60):
        np.testing.assert_allclose(grad(lambda x, n: newton(x, n) * n)(2.0, n), n * 0.5 / np.sqrt(2.0))
        assert structural._bytes[None] <= 100_000


def test_programs_that_left_the_table_live_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    cut_finely(monkeypatch, 5)
    made: list[Any] = []

    class Run:  # in the place of the program, which has no weak references
        def __init__(self, run: Any):
            self.run, self.size = run, run.size

        def __call__(self, values: list[Any]) -> Any:
            return self.run(values)

    def noted(derived: Any) -> Any:
        def derive(*args: Any) -> Any:
            run, kinds = derived(*args)
            run = Run(run)
            made.append(weakref.ref(run))
            return run, kinds

        return derive

    for name in ("_derived", "derive"):
        monkeypatch.setattr(chunks, name, noted(getattr(chunks, name)))
    monkeypatch.setattr(structural, "MAX_PROGRAMS", 20)

    def f(x: Any, n: int) -> Any:
        for i in range(20):
            x = np.sin(x) * np.ones(n) + x[i % n]
        return np.sum(x)

    for n in range(1, 12):
        for _ in range(3):
            grad(f)(np.ones(n), n)
    gc.collect()
    alive = {id(r()) for r in made} - {id(None)}
    assert len(made) > 20
    assert alive <= {id(entry[0]) for entry in structural._table.values() if type(entry) is tuple}
