"""What the NumPy engine writes into the bodies of loops: few calls per turn, and those that start quickly."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, scan, vjp, while_loop
from funcad.backends import number_lines
from funcad.backends.interpreter import Program
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import optimize
from funcad.primitives.basic_indexing import place_sum_p
from tests.backends.test_numpy_engine import W, X, Y, before_and_after, check, lowered


@pytest.fixture(autouse=True)
def by_calls_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """These arrays are small, so that most of these loops would be lines about numbers (test_number_loops.py)."""
    monkeypatch.setattr(number_lines, "worth", lambda equation: False)


def loop_of(text: str, which: int = 0) -> tuple[str, list[str]]:
    """(what stands in front of one of the text's loops, the lines of its body)"""
    before, *loops = text.split("    for ")
    body = [line.strip() for line in loops[which].splitlines()[1:] if line.startswith(" " * 8)]
    return before if not which else "", body


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("length", [0, 1, 6])
@pytest.mark.parametrize("reverse", [False, True])
def test_turns_of_a_recurrent_net(dtype: Any, length: int, reverse: bool) -> None:
    """Products by the method that starts quickly and without views, slopes before the loop, no copies of what came in."""

    def f(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = np.tanh(np.dot(w, h) + x)
            return h, np.sum(h * h)

        return np.sum(scan(step, h, xs, reverse=reverse)[1])

    args = W.astype(dtype), Y[0].astype(dtype), np.linspace(-1, 1, 4 * length, dtype=dtype).reshape(length, 4)
    program = check(*lowered(grad(f, (0, 1, 2)), *args), passes=lambda j: fuse(optimize(j)))
    if length:
        (_, forward), (_, backward) = [loop_of(program.text, i) for i in (0, 1)]
        assert [re.sub(r"[a-z]+[0-9]+", "v", line) for line in forward] == [
            "v.dot(v, v)", "np.add(v, v, v)", "np.tanh(v, v)", "v = v"
        ]  # fmt: skip
        assert [re.sub(r"[a-z]+[0-9]+", "v", line) for line in backward] == [
            "np.add(v, v, v)", "np.multiply(v, v, v)", "v.dot(v, v)", "v, v = v, v"
        ]  # fmt: skip


def test_products_of_vectors_in_loops() -> None:
    """A vector multiplies the transpose of a matrix from the other side; results that are numbers come from the method, too."""
    f = lambda c: scan(lambda c, _: ((c @ W.T) * np.dot(c, c), None), c, None, length=3)
    program = check(*lowered(f, Y[0]), passes=lambda j: fuse(optimize(j)))
    assert "matmul" not in program.text and " @ " not in program.text and ".T" not in program.text
    assert program.text.count(".dot(") == 2
    matrices = check(*lowered(lambda c: scan(lambda c, _: (c.T @ W, None), c, None, length=3), W))
    assert re.search(r"v\d+\.dot\(v\d+, s\d+\)", matrices.text)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.filterwarnings("ignore:invalid")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("number", [0.1, 3, -2.5, 1e30])
def test_numbers_in_loops_are_arrays(dtype: Any, number: float) -> None:
    """A number that no turn changes is an array from the start, once, with the bits it has in the ufunc."""
    f = lambda c, s: scan(lambda c, _: (number * c + s, c - number), c, None, length=4)
    args = np.linspace(-1, 1, 5).astype(dtype), dtype(0.3)
    jaxpr, leaves = lowered(f, *args)
    program = check(jaxpr, leaves)
    _, turn = loop_of(program.text)
    found = [name for line in turn for name in re.findall(r"\bk(?:_?\d+)?\b", line)]
    assert len(found) == 2 and len({*found}) == 1
    c = args[0]
    for _ in range(4):
        last, c = c, number * c + args[1]
    final, ys = program.function(list(leaves))
    assert final.tobytes() == c.tobytes() and ys[-1].tobytes() == (last - number).tobytes()


def test_numbers_that_a_loop_changes_stay_numbers() -> None:
    f = lambda c, s: scan(lambda c, x: ((c[0] * c[1], c[1] + 0.5), x * c[0]), (c, s), X)
    program = check(*lowered(f, Y[0], np.float64(0.5)))
    assert re.search(r"np.multiply\(c\d+, c\d+, ", program.text) and len(re.findall(r"np.array\(", program.text)) == 1


def test_a_collected_carry_is_copied_after_the_loop() -> None:
    """Where a carry is collected both as it comes in and as it goes out, one array is the other, a step later."""

    program = check(*lowered(lambda c: scan(before_and_after, c, X), Y[0]))
    assert "[...] =" not in program.text and "[1:] = " in program.text
    program = check(*lowered(lambda c: scan(before_and_after, c, X, reverse=True), Y[0]))
    assert "[...] =" not in program.text and "[:-1] = " in program.text
    wide = check(*lowered(lambda c: scan(before_and_after, c, X[:, 0]), np.ones(1000)))
    assert "[...] =" in wide.text  # a row that takes longer to read again than to copy on the way


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_choices_in_loops_make_no_arrays(dtype: Any) -> None:
    """np.where gives a new array each time; small ones are written over the operand that dies, or into memory that is there."""

    def step(c: Any, x: Any) -> Any:
        big = np.abs(c) > 0.7
        new = np.where(big, x, np.where(x.real > 0, 0.5, c * x))
        return new, (np.where(big, c, x), np.where(big, 2.0, -0.0 * x))

    x = np.concatenate([X.ravel(), [np.nan, -0.0, np.inf]]).reshape(3, 5).astype(dtype)
    program = check(*lowered(lambda c, x: scan(step, c, x), x[0], x))
    assert "np.where" not in program.text and len(re.findall(r"np\.putmask\(", program.text)) == 4
    reversed_rows = lambda c, x: scan(lambda c, r: (np.where(r > 0, c, r[::-1]), None), c, x)
    broadcast = check(*lowered(reversed_rows, X, X[:, :1, None] * X))
    assert "np.where" not in broadcast.text
    wide = np.linspace(-1.0, 1.0, 4000)
    assert "np.where" in check(*lowered(lambda c, x: scan(lambda c, s: (np.where(c > s, c, s * c), c), c, x), wide, X[0])).text


def test_pieces_that_cover_an_array_are_joined() -> None:
    """The derivative of taking an array apart: one concatenation, whatever the order; zeros have the sign of a sum with 0.0."""

    def loss(c: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            a, b = c[:3] * x[0], c[3:] * x[1]
            return np.concatenate([b, a, a])[:5] * 0.5, np.sum(b)

        final, sums = scan(step, c, xs)
        return np.sum(final) + np.sum(sums)

    args = np.linspace(-1, 1, 5), np.array([[1.0, -0.0], [-0.0, 2.0], [0.5, 0.0]])
    jaxpr, leaves = lowered(grad(loss), *args)
    program = check(jaxpr, leaves, passes=lambda j: fuse(optimize(j)))
    assert "place_sum_" not in program.text and "np.concatenate((" in program.text
    with np.errstate(all="ignore"):
        assert np.array_equal(np.signbit(program.function(list(leaves))[0]), np.signbit(Program(jaxpr).run(leaves)[0]))


def place_sum(shape: tuple, *indices: tuple) -> tuple[Any, list]:
    xs = [np.full([e[1] for e in index if type(e) is tuple], -0.0) for index in indices]
    return lowered(lambda *xs: place_sum_p(*xs, indices=indices, shape=shape), *xs)


@pytest.mark.parametrize(
    "shape, indices, joined",
    [
        ((5,), (((2, 3, 1),), ((0, 2, 1),)), True),
        ((2, 5), (((0, 2, 1), (0, 4, 1)), ((0, 2, 1), (4, 1, 1))), True),
        ((5,), (((3, 2, 1),), ((0, 2, 1),)), False),  # one element is nobody's
        ((5,), (((1, 4, 1),), ((0, 2, 1),)), False),  # one is both's
        ((4,), (((0, 2, 2),), ((1, 2, 2),)), False),
        ((2, 2), (((0, 1, 1), (0, 2, 1)), ((1, 1, 1), (0, 1, 1))), False),
        ((2, 3), ((0, (0, 3, 1)), (1, (0, 3, 1))), False),
    ],
)
def test_which_pieces_are_joined(shape: tuple, indices: tuple, joined: bool) -> None:
    jaxpr, leaves = place_sum(shape, *indices)
    program = check(jaxpr, leaves)
    assert ("concatenate" in program.text) == joined
    (found,), (expected,) = program.function(list(leaves)), Program(jaxpr).run(leaves)
    assert np.array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("derive", [False, True])
def test_numbers_in_an_array_are_assigned(dtype: Any, derive: bool) -> None:
    """`np.stack([a, b])` in a loop is one assignment per number; its derivative places numbers into zeros the same way."""

    def final(y: Any, k: Any) -> Any:
        f = lambda y: np.stack([y[1], -k * np.sin(y[0])])
        return scan(lambda y, _: (y + dtype(0.1) * f(y + dtype(0.5) * f(y)), y), y, None, length=4)

    f = grad(lambda y, k: np.sum(final(y, k)[1]), (0, 1)) if derive else final
    program = check(*lowered(f, np.array([1.0, 0.25], dtype), dtype(2.0)), passes=lambda j: fuse(optimize(j)))
    loop = program.text[program.text.index("    for ") :]
    for call in ("np.concatenate", "np.reshape", "np.stack", "place_sum_", "basic_place_", "np.zeros"):
        assert call not in loop, program.text
    assert len(re.findall(r"\w+\[[01]\] = \w+\n", loop)) >= 4


def test_numbers_and_pieces_in_one_array() -> None:
    def step(c: Any, x: Any) -> Any:
        joined = np.concatenate([np.sum(c).reshape(1), c[:2], x.reshape(1), c[2:2]])
        return joined[1:] * 0.5, (joined, np.sum(c).reshape(1))

    program = check(*lowered(lambda c, xs: scan(step, c, xs), X[0, :3], X[0]))
    assert re.search(r"(y\d+)\[0\] = \w+\n +\1\[1:3\] = \w+\n +\1\[3\] = \w+\n", program.text), program.text


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.complex64, bool])
@pytest.mark.parametrize("derive", [False, True])
def test_numbers_of_straight_programs_are_arrays_by_one_call(dtype: Any, derive: bool) -> None:
    def f(x: Any, y: Any) -> Any:
        several = [x[0], x[3], x[1] + x[2], x[0]]
        return np.array(several), np.concatenate([x[:2], *[v.reshape(1) for v in several], y])

    kind = np.dtype(dtype).kind
    if derive and kind == "f":
        f = grad(lambda x, y, f=f: sum([np.sum(v**2) for v in f(x, y)]), (0, 1))
    elif derive:
        f = funcad.vmap(f, in_axes=(1, None))
    x, y = np.arange(4).astype(dtype), np.ones(3, dtype)
    program = check(*lowered(f, np.stack([x, x], 1) if derive and kind != "f" else x, y))
    if not derive:
        assert program.text.count("np.array([") == 2 and "reshape" not in program.text, program.text
        assert len(re.findall(r"np\.concatenate\(", program.text)) == 1, program.text


def test_placements_in_loops_are_zeros_with_something_in_them() -> None:
    f = lambda c, xs: scan(lambda c, x: (c * grad(lambda v: np.sum(np.sin(v[1:3, ::2])))(c) + x, None), c, xs)[0]
    program = check(*lowered(f, W, np.arange(3.0)), passes=lambda j: fuse(optimize(j)))
    (view, array), *_ = re.findall(r"(w\d+) = (s\d+)\[1:3, 0:4:2\]", program.text.partition("    for ")[0])
    assert re.search(rf"{array}\[\.\.\.\] = 0\n +{view}\[\.\.\.\] = ", program.text), program.text


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("start", [0.25, 100.0])  # the second makes no turn
def test_stacks_are_lists_that_loops_fill_and_read_backwards(dtype: Any, start: float) -> None:
    f = lambda x, k: np.sum(while_loop(lambda s: np.sum(s) < 20.0, lambda s: s * s * k + np.exp(s), x))
    args = np.full(3, start, dtype), dtype(0.5)
    program = check(*lowered(grad(f, (0, 1)), *args), passes=lambda j: fuse(optimize(j)))
    before, forward, backward = program.text.split("    for ")
    forward = before + forward
    assert "in turns(None" in forward and "while_loop" not in program.text and "scan" not in program.text
    assert backward.splitlines()[0].count("reversed(stack") == forward.count(".append(") == forward.count(" = Stack([], ")
    assert forward.count("np.exp(") == 1 and "exp" not in backward


def test_a_carry_that_is_kept_is_handed_to_the_stack() -> None:
    """Not copied: the next one is computed into a new array."""
    f = lambda x: np.sum(while_loop(lambda s: np.sum(s) < 20.0, lambda s: np.exp(s) * s, x))
    program = check(*lowered(grad(f), np.full(3, 0.5)), passes=lambda j: fuse(optimize(j)))
    turns = program.text[program.text.index("in turns(None") : program.text.index("np.int64(")]
    assert re.search(r"\.append\(c\d+\)", turns) and "[...] =" not in turns and "np.array(" not in turns


@pytest.mark.parametrize("engine", ["numpy", "native"])
def test_entries_of_stacks_are_out_of_the_users_reach(engine: str) -> None:
    x = np.full(3, 0.5)
    f = lambda x, n: while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, np.exp(s[1]) * s[1]), (0, x))[1]
    with funcad.config.set(engine=engine):
        jitted = jit(f)
        for n in (0, 1, 2, 2):
            x[:] = 0.5
            _, pull = vjp(lambda x, n=n: jitted(x, n), x)
            expected = pull(np.ones(3))[0].copy()
            x[:] = np.nan
            assert np.array_equal(pull(np.ones(3))[0], expected)


def test_effects_and_errors_of_loops_that_fill_stacks() -> None:
    """Effects happen in order, once; an error names the line of the body."""
    seen: list[float] = []

    def note(v: Any) -> None:
        seen.append(float(v))
        if len(seen) > 5:
            raise ValueError("enough")

    def body(s: Any) -> Any:
        funcad.debug.callback(note, s)
        return s * s

    with funcad.config.set(engine="numpy"):
        f = jit(grad(lambda x: while_loop(lambda s: s < 10.0, body, x)))
        f(3.0)
        seen.clear()
        assert f(1.5) == 2 * 1.5 * 2 * 1.5**2 * 2 * 1.5**4
        assert seen == [1.5, 2.25, 5.0625]
        with pytest.raises(ValueError, match="enough") as caught:
            f(1.01)
        assert f"test_loop_texts.py:{body.__code__.co_firstlineno + 1}" in "".join(caught.value.__notes__)


def test_views_are_made_in_front_and_exchanged_with_their_arrays() -> None:
    """Three terms of a recurrence: three arrays are exchanged in turn, and so are their views."""

    def f(x: Any, y: Any) -> Any:
        def step(c: Any, _: Any) -> Any:
            before, now = c
            inner = np.zeros(9)
            inner = np.concatenate([now[:1], now[2:] + now[:-2] - now[1:-1], now[-1:]])
            return (now, inner - before), None

        return scan(step, (x, y), None, length=5)[0]

    program = check(*lowered(f, np.linspace(-1.0, 1.0, 9), np.linspace(2.0, 1.0, 9)), passes=lambda j: fuse(optimize(j)))
    before, body = loop_of(program.text)
    inside = "\n".join(body)
    assert not re.search(r"\[[-\d]*:", inside), inside
    (exchange,) = [line for line in body if re.match(r"c\d+, c\d+.* = ", line)]
    left, right = [sorted(part.split(", ")) for part in exchange.split(" = ")]
    assert left == right and len(left) > 4 and before.count("[2:9]") == 3, exchange


def test_a_view_that_the_turn_writes_is_written_in_its_place() -> None:
    def f(x: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            c = c.copy()
            c[:, 1] = c[:, 0] * k + c[:, 1]
            return c, None

        return scan(step, x, np.arange(1.0, 4.0))[0]

    program = check(*lowered(f, X), passes=lambda j: fuse(optimize(j)))
    _, body = loop_of(program.text)
    assert not [line for line in body if re.search(r"\[[-\d]*:", line)], body


@pytest.mark.parametrize("shape", [(6,), (4, 6), (2, 3, 6)])
@pytest.mark.parametrize("shift", [1, 2, 3, 5, -1])
def test_rolls_of_whole_arrays(shape: tuple, shift: int) -> None:
    """Along the last axis all elements move in one piece, then the edge that they do not come to."""

    def f(x: Any) -> Any:
        step = lambda c, k: (np.roll(c, shift, -1) * k + np.roll(c, shift, 0), None)
        return scan(step, x, np.arange(1.0, 4.0))[0]

    x = np.arange(float(np.prod(shape))).reshape(shape)
    x.flat[::3] *= -0.0
    program = check(*lowered(f, x), passes=lambda j: fuse(optimize(j)))
    assert (".reshape(-1)" in program.text) == (len(shape) > 1)


def _reshaped_columns(x):
    def body(m, t):
        y, z = np.reshape(m[:, 1:], -1), np.reshape(m[::2].T, (-1, 2))
        s = np.sum(y[:9]) + np.sum(z[:5] * t)
        return np.tanh(m + 0.01 * s) * 1.1, s

    return funcad.lax.scan(body, x, np.arange(6.0))


def _exchanged_and_reshaped(x):
    def body(pair, _):
        a, b = pair
        u, v = np.reshape(a[:, :-1], -1), np.reshape(b[1:].T, -1)
        s = np.sum(u[:8] * v[:8])
        return (b * 0.99 + 0.01 * s, np.sin(a)), np.concatenate([u[:3], v[:3]])

    return funcad.lax.scan(body, (x, x * 2), None, length=6)


@pytest.mark.parametrize("f", [_reshaped_columns, _exchanged_and_reshaped])
@pytest.mark.parametrize("shape", [(4, 6), (40, 60)])
def test_a_reshaped_part_of_a_carry_is_made_anew_in_each_turn(f, shape):
    """It is a copy: named once in front of the loop, it would stay what it was."""
    x = np.random.default_rng(0).normal(size=shape)
    loss = lambda x: sum([np.sum(np.sin(leaf)) for leaf in funcad.tree.leaves(f(x))])
    with funcad.config.set(engine="numpy", jit_patience=0):
        for found, expected in zip(funcad.tree.leaves(funcad.jit(f)(x)), funcad.tree.leaves(f(x))):
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(funcad.jit(funcad.grad(loss))(x), funcad.grad(loss)(x), rtol=1e-9)
