"""Rolls, concatenations, pads and frames as index maps: the same bits, no copies, also where arrays are written later."""

import functools
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import lax
from funcad.backends.native import program_pieces, program_values, wrapper
from funcad.backends.native.program_values import Pieces, Splat
from funcad.backends.native.target import available
from funcad.ir.interpret import eval_jaxpr
from funcad.passes import fuse as fuse_module
from funcad.passes import roll
from funcad.passes import scatters as framing_module
from funcad.passes.pipeline import optimize
from funcad.passes.scatters import framing

at = funcad.numpy.at
needs_native = pytest.mark.skipif(not available(), reason="the native engine is not available")


def check(f: Any, *args: Any) -> Any:
    """The program as one native function, the results of which are those of the program as traced, bit for bit."""
    from funcad.backends.native.program import compile_program

    traced = funcad.make_jaxpr(f)(*args)
    program = compile_program(framing(optimize(traced.jaxpr)))
    with funcad.config.set(engine="interpreter"):
        expected = funcad.tree.leaves(funcad.jit(f)(*args))
    for found, wanted in zip(program([*traced.consts, *args]), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
        if np.asarray(wanted).dtype.kind in "fc":
            np.testing.assert_array_equal(np.signbit(np.real(found)), np.signbit(np.real(wanted)))
    return program


def numbers(shape: tuple, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Small whole numbers, zeros of both signs among them, so that sums are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype) * dtype(-1)


def slices(u: Any) -> Any:
    inside = u[1:-1, 1:-1]
    change = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4.0 * inside
    return at(u)[1:-1, 1:-1].set(inside + 0.25 * change)


def rolls(u: Any) -> Any:
    near = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return u + 0.25 * (near - 4.0 * u)


def pads(u: Any) -> Any:
    y = np.pad(u, 1)
    return u + 0.25 * (y[2:, 1:-1] + y[:-2, 1:-1] + y[1:-1, 2:] + y[1:-1, :-2] - 4.0 * u)


def joins(u: Any) -> Any:
    inside = u[1:-1] + 0.25 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return np.concatenate([u[:1], inside, u[-1:]])


def streams(u: Any) -> Any:
    """Computed values are rolled into the next array: the loop writes them where they go."""
    return np.concatenate([np.roll(0.5 * u[:10] + u[10:20], (1, -1), (0, 1)), 2.0 * u[10:20] - u[:10], u[20:] + 1.0])


STEPS = [slices, rolls, pads, joins, streams]


@needs_native
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("shape", [(40, 40), (23, 37), (64, 4), (22, 130)])
def test_a_step_is_one_loop_between_two_buffers(step: Any, shape: tuple) -> None:
    def f(u: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, u: step(u), u)

    u = 64.0 * numbers(shape)
    program = check(f, u)
    if shape[1] > 16:
        assert program.arena_bytes <= 2 * u.nbytes + 4096  # no copy has room


@needs_native
@pytest.mark.parametrize("step", [slices, rolls, pads, joins])
def test_the_derivative_of_a_step_needs_no_copies_either(step: Any) -> None:
    def f(u: Any) -> Any:
        return np.sum(lax.fori_loop(0, 4, lambda _, u: step(u), u) * u)

    u = 1024.0 * numbers((40, 72))
    program = check(lambda u: funcad.grad(f)(u), u)
    assert program.arena_bytes <= 5.5 * u.nbytes


@needs_native
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128, np.bool_])
def test_all_kinds_of_numbers(dtype: Any) -> None:
    x = numbers((20, 33), 1, np.int64).astype(dtype)
    check(lambda x: np.concatenate([np.roll(x, 2, 1), np.pad(x, 1)[1:-1, 2:]]) + np.concatenate([x, x]), x)
    check(lambda x: at(x)[1:, 1:-1].set(x[:-1, 2:]) + at(x)[:, 2:].add(x[:, :-2]), x)


@pytest.mark.share(3)
@needs_native
@pytest.mark.parametrize("shape", [(40,), (130,), (5, 33), (3, 18, 40), (40, 5), (33, 1), (0, 20), (20, 0), (2, 1, 64)])
def test_index_maps_of_index_maps(shape: tuple) -> None:
    x, y = numbers(shape), numbers(shape, 1)

    def along(axis: int) -> None:
        check(lambda x, y: np.flip(np.concatenate([x, y + 1, x], axis), axis)[..., ::-1] * 2, x, y)
        check(lambda x, y: np.concatenate([x, y], axis).T * 2, x, y)
        check(lambda x, y: np.roll(np.roll(x * y, 2, axis), -1, 0) + x, x, y)
        check(lambda x, y: np.roll(np.concatenate([x + y, x], axis), 3, axis)[None] * np.ones((2, *[1] * x.ndim)), x, y)

    for axis in range(len(shape)):
        along(axis)
    check(lambda x, y: np.pad(x * y, 2)[(slice(1, None),) * x.ndim] + 1, x, y)
    check(lambda x, y: np.sum(np.pad(x, 1), axis=0), x, y)


def program_of(choices: Any, shape: tuple) -> Any:
    """A program of index maps, writes and arithmetic, the same for the same choices."""
    n = len(shape)
    plan = [(int(choices.integers(9)), [int(r) for r in choices.integers(0, 100, 5)]) for _ in range(choices.integers(2, 9))]

    def f(x: Any, y: Any) -> Any:
        values = [x, y]
        for kind, (i, j, k, start, row) in plan:
            a, b, axis, part = values[i % len(values)], values[j % len(values)], k % n, start % 3
            along = lambda s, axis=axis: tuple([s if i == axis else slice(None) for i in range(n)])
            window = lambda part=part: tuple([slice(part, m - 2 + part) for m in shape])
            inside = (slice(1, -1),) * n
            values.append(
                [
                    lambda: np.roll(a, start % 5 - 2, axis),  # noqa: B023
                    lambda: np.concatenate([a[along(slice(0, 3))], b[along(slice(3, None))]], axis),  # noqa: B023
                    lambda: np.pad(a, 1)[tuple([slice(part, part + m) for m in shape])],  # noqa: B023
                    lambda: a + b,  # noqa: B023
                    lambda: a * 2 - b,  # noqa: B023
                    lambda: -np.flip(a, axis),  # noqa: B023
                    lambda: at(a)[inside].set(b[window()]),  # noqa: B023
                    lambda: at(a)[inside].add(b[window()]),  # noqa: B023
                    lambda: at(a)[along(row % shape[axis])].set(b[along(start % shape[axis])]),  # noqa: B023
                ][kind]()
            )
        return values[-1], values[-2]

    return f


@pytest.mark.share(4)
@needs_native
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_of_index_maps(seed: int) -> None:
    choices = np.random.default_rng(seed)
    shape = [(40,), (130,), (20, 33), (6, 40), (40, 5), (4, 7, 24)][seed % 6]
    f = program_of(choices, shape)
    x, y = numbers(shape, seed), numbers(shape, seed + 1)
    check(f, x, y)
    check(lambda x, y: lax.fori_loop(0, 3, lambda _, c: f(*c), (x, y)), x, y)

    def weighted(x: Any, y: Any) -> Any:
        first, second = lax.scan(lambda c, _: (f(*c), c[0][0]), (x, y), None, length=2)[0]
        return np.sum(first * x) + np.sum(second)

    check(lambda x, y: funcad.grad(weighted, argnums=(0, 1))(x, y), x, y)


@needs_native
def test_pieces_of_an_array_that_is_written_later_are_copies() -> None:
    def f(u: Any) -> Any:
        def step(i: Any, u: Any) -> Any:
            before, first = np.roll(u, 1), np.pad(u, 2)
            u = at(u)[3].set(100.0 * i)
            return at(u)[i].add(before[4] + first[5]) * 1.0 + 0.0 * before + np.roll(u, 1) - np.roll(u, 1)

        return lax.fori_loop(0, 5, step, u)

    check(f, numbers((40,)))

    def only_written(u: Any) -> Any:
        def step(i: Any, u: Any) -> Any:
            old = np.roll(u, 1)
            u = at(u)[i].set(7.0)
            return at(u)[i + 1].set(np.sum(old[:20]) + old[3])

        return lax.fori_loop(0, 5, step, u)

    check(only_written, numbers((40,)))


@needs_native
def test_many_cuts_are_put_in_one_place() -> None:
    x = numbers((400,))
    check(lambda x: np.concatenate([x[i : i + 20] for i in range(0, 400, 20)][::-1]) + 1, x)  # more than MOST pieces
    shifts = range(1, 20, 2)  # more than SEGMENTS of a row
    check(lambda x: sum([np.roll(x, s) for s in shifts], 0.0 * x), x)
    check(lambda x: [np.roll(x * 2 + s, s) for s in shifts], x)


def test_pieces_know_their_elements() -> None:
    x = Splat("x", np.dtype(float), (6, 8))
    ring = program_pieces.rolled(x, 2, 1)
    assert [box for box, _ in ring.cells] == [((0, 6), (0, 2)), ((0, 6), (2, 8))]
    back = program_values.part(ring, [(0, 6, 1), (7, 4, -2)])
    assert back.shape == (6, 4) and [box for box, _ in back.cells] == [((0, 6), (3, 4)), ((0, 6), (0, 3))]
    assert program_values.part(ring, [3, (2, 6, 1)]).shape == (6,)  # one piece is itself
    framed = program_pieces.framed(x, ((1, 7), (0, 8)), (8, 8), "zero")
    assert sorted([box for box, _ in framed.cells]) == [((0, 1), (0, 8)), ((1, 7), (0, 8)), ((7, 8), (0, 8))]
    assert type(program_values.viewed(framed, np.transpose)) is Pieces
    assert program_values.reshaped(framed, (64,)) is None
    assert program_values.reshaped(framed, (8, 1, 8)).cells[0][0] == ((1, 7), (0, 1), (0, 8))


# -- writes to most of an array


def names_of(f: Any, *args: Any) -> list[str]:
    return [e.primitive.name for e in framing(optimize(funcad.jit(f).lower(*args).jaxpr)).equations]


def test_only_what_writes_most_of_an_array_is_framed() -> None:
    x = numbers((40, 40))
    assert "concatenate" in names_of(lambda x: at(x)[1:-1, 1:-1].set(2.0 * x[2:, 2:]), x)
    for index in ((3,), (slice(0, 10),), (slice(0, 40, 2),), (slice(None), slice(0, 1))):
        assert "basic_update" in names_of(lambda x, index=index: at(x)[index].set(7.0 + x[index]), x)


def test_a_frame_moves_in_front_of_a_formula_only_to_the_bit() -> None:
    def places(c: float) -> Any:
        return lambda x: np.pad(c * x[1:-1, 1:-1], 1) + at(x)[2:, 2:].add(x[2:, 2:] - c * x[2:, 2:])

    for c in (0.5, -0.5, np.inf, 0.0):
        x = numbers((20, 20))
        program = framing(optimize(funcad.jit(places(c)).lower(x).jaxpr))
        with funcad.config.set(engine="interpreter"), np.errstate(all="ignore"):
            (found,) = eval_jaxpr(program, [x])
            wanted = funcad.jit(places(c))(x)
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


def test_only_a_cheap_formula_of_one_array_is_repeated() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x * y + x
        return np.roll(z, 1) + np.roll(z, 2)

    assert names_of(f, numbers((40,)), numbers((40,))).count("mul") == 1
    assert names_of(lambda x: np.roll(2.0 * x, 1) + np.roll(2.0 * x, 2), numbers((40,))).count("mul") == 2
    many = framing_module.REPEATED + 1
    power = lambda x: np.roll(functools.reduce(lambda y, _: y * x + 2.0, range(many), x), 1)
    assert names_of(power, numbers((40,)))[-1] == "roll"
    assert names_of(lambda x: np.roll(np.sin(x), 1), numbers((40,)))[-1] == "roll"


# -- loops of any size, groups of any length


@needs_native
def test_loops_over_large_grids_are_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapper, "KEPT_ARENA", 1 << 16)
    program = check(lambda u: lax.fori_loop(0, 20, lambda _, u: slices(u), u), 4.0**20 * numbers((80, 90)))
    assert program.arena_bytes > 1 << 16  # it comes and goes with each call


def rows(x: Any) -> Any:
    for _ in range(60):
        x = x * 0.875 + np.sum(x, axis=1)[:, None] * 0.001
    return x


def test_long_groups_over_rows_are_cut_where_little_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "SMALLEST", 10**9)
    x = np.linspace(0.5, 1.0, 60).reshape(6, 10)
    whole = funcad.jit(rows)
    assert "part 1 of" not in str(whole.explain(x)) and whole.explain(x).alone == []
    monkeypatch.setattr(fuse_module, "LONGEST", 50)
    with funcad.config.set(engine="numpy"):
        cut = funcad.jit(lambda x: rows(x))
        explained = cut.explain(x)
        assert "operations, cut where the fewest bytes cross)" in str(explained)
        assert len(explained.groups) > 1
        assert all(len(g["operations"]) - g["operations"].count("broadcast_in_dim") <= 50 for g in explained.groups)
        np.testing.assert_allclose(cut(x), rows(x), rtol=1e-12)
    np.testing.assert_allclose(whole(x), rows(x), rtol=1e-12)


def test_a_cut_lies_where_one_value_crosses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_module, "LONGEST", 24)

    def f(x: Any) -> Any:
        for _ in range(6):
            x = (x + 1.0) * (x - 2.0) * (x + 3.0) * (x - 4.0)
        return x

    program = fuse_module.fuse(optimize(funcad.make_jaxpr(f)(np.ones(100)).jaxpr))
    assert len(program.equations) > 1
    assert [len(e.outputs) for e in program.equations] == [1] * len(program.equations)
    assert max(len(e.inputs) for e in program.equations) == 1


@needs_native
def test_chains_longer_than_pythons_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll, "SMALLEST", 10**9)

    def f(x: Any) -> Any:
        y = x
        for i in range(700):
            y = y * 0.5 + x if i % 2 else x - y
        return np.sum(y, axis=1), y

    x = np.linspace(0.0, 1.0, 4000).reshape(40, 100)
    found = funcad.jit(f)
    assert "1 of 1 groups" in found.explain(x).why or found.explain(x).engine == "native"
    for a, b in zip(found(x), f(x)):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@needs_native
def test_long_programs_copy_rather_than_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    from funcad.backends.native import program_region

    monkeypatch.setattr(roll, "SMALLEST", 10**9)

    def f(x: Any) -> Any:
        for i in range(12):
            y = np.roll(x, 1) + np.roll(x, 3) + np.roll(x, 5)
            x = functools.reduce(lambda z, _: np.minimum(np.abs(z - x), 4.0) + y, range(10), y) - i
        return x

    most = check(f, numbers((40,))).lines
    monkeypatch.setattr(program_region, "MAX_LINES", 4 * most // 5)
    assert check(f, numbers((40,))).lines < most
