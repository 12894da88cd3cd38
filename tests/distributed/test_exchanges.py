"""Groups, parts, borders, rooted collectives and rows of other lengths: over processes what they are over lanes."""

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.distributed import communicator, on_threads, spmd
from funcad.errors import CollectiveError
from tests.distributed.programs_over_processes import operations
from tests.distributed.test_spmd import N, close, threads

XS = np.random.default_rng(4).normal(size=(4, 4, 8))
GROUPED = [name for name in operations(4) if "groups" in name]


@pytest.mark.parametrize("name", GROUPED)
def test_groups_of_two_are_those_of_vmap(name):
    f = operations(4)[name]
    values, pull = fc.vjp(fc.vmap(f, axis_name="i"), XS)
    weights = np.random.default_rng(1).normal(size=values.shape)
    slopes = pull(weights)[0]

    def process(r):
        value, back = fc.vjp(spmd(f, "i"), XS[r])
        return value, back(weights[r])[0], fc.jit(spmd(f, "i"))(XS[r])

    for r, (value, slope, jitted) in enumerate(on_threads(4, process, timeout=60.0)):
        close([value, jitted, slope], [values[r], values[r], slopes[r]])


@pytest.mark.parametrize("what", ["psum", "pmean", "pmax", "all_gather", "broadcast", "reduce_to", "halo"])
def test_results_are_new_memory_on_one_process_too(what):
    """A compiled program writes into what a collective gives it, and so may its caller."""
    f, x = operations(1)[what], np.arange(2.0).reshape(1, 2)
    kept = x.copy()

    def process(r):
        whole = spmd(lambda x: f(x) / 3.0, "i")
        for found in (spmd(f, "i")(x), fc.jit(spmd(f, "i"))(x), *[fc.jit(whole)(x) for _ in range(3)]):
            assert not np.shares_memory(found, x) and np.array_equal(x, kept)

    on_threads(1, process)


def test_groups_by_hand():
    f = lambda x: (lax.psum(x, "i", axis_index_groups=[[0, 3], [1, 2]]), lax.pmin(x, "i", axis_index_groups=[[0, 3], [1, 2]]))
    for found in (
        fc.vmap(f, axis_name="i")(np.arange(4.0)),
        tuple(map(np.array, zip(*on_threads(4, lambda r: spmd(f, "i")(float(r)))))),
    ):
        assert np.array_equal(found[0], [3.0, 3.0, 3.0, 3.0]) and np.array_equal(found[1], [0.0, 1.0, 1.0, 0.0])
    uneven = fc.vmap(lambda x: lax.pmean(x, "i", axis_index_groups=[[2], [0, 1, 3]]), axis_name="i")(
        np.array([1.0, 2.0, 9.0, 6.0])
    )
    assert np.array_equal(uneven, [3.0, 3.0, 9.0, 3.0])
    counted = fc.vmap(lambda x: lax.psum(x > 1, "i", axis_index_groups=[[2], [0, 1, 3]]), axis_name="i")(np.arange(4))
    assert np.array_equal(counted, [1, 1, 1, 1]) and counted.dtype.kind == "i"


def test_what_groups_must_be():
    for groups, words in (([[0, 1], [1, 2]], "each of the 3 lanes once"), ([[0, 1]], "each of the 3 lanes once")):
        with pytest.raises(ValueError, match=words):
            fc.vmap(lambda x, g=groups: lax.psum(x, "i", axis_index_groups=g), axis_name="i")(np.ones(3))
    with pytest.raises(ValueError, match="pmax: .*one size"):
        fc.vmap(lambda x: lax.pmax(x, "i", axis_index_groups=[[0, 1], [2]]), axis_name="i")(np.ones(3))


def test_a_grid_of_two_by_two_with_nested_spmd():
    """Row sums inside, column maxima outside, the gradient by what all four have."""
    xs = np.random.default_rng(3).normal(size=(2, 2, 5))

    def f(w, x):
        share = np.sum(np.tanh(w * x)) / (1.0 + lax.psum(np.sum(x**2), "column"))
        return lax.pmean(share * (1.0 + lax.axis_index("row")), ("row", "column"))

    mapped = fc.vmap(fc.vmap(f, in_axes=(None, 0), axis_name="column"), in_axes=(None, 0), axis_name="row")
    value, slope = fc.value_and_grad(lambda w: mapped(w, xs)[0, 0])(0.7)

    def process(r):
        comm = distributed.current()
        options = {"in_axes": (None, 0), "out_axes": None}
        inner = spmd(f, "column", comm=comm.split(r // 2), **options)
        both = fc.value_and_grad(spmd(inner, "row", comm=comm.split(r % 2), **options))
        return both(0.7, xs[r // 2, r % 2]), fc.jit(both)(0.7, xs[r // 2, r % 2])

    close(on_threads(4, process, timeout=60.0), [((value, slope), (value, slope))] * 4)


def test_rows_of_other_lengths_have_derivatives():
    sizes = (3, 0, 2)
    rows = [np.random.default_rng(r).normal(size=(n, 2)) for r, n in enumerate(sizes)]
    weights = np.random.default_rng(9).normal(size=(5, 2))
    whole = np.concatenate(rows)

    def process(r):
        f = lambda x: np.sum(distributed.gather(np.sin(x), sizes=sizes) * weights)
        return distributed.gather(rows[r]), fc.grad(f)(rows[r]), fc.jit(fc.grad(f))(rows[r])

    starts = np.cumsum([0, *sizes])
    for r, (gathered, slope, jitted) in enumerate(threads(process)):
        wanted = N * (np.cos(whole) * weights)[starts[r] : starts[r + 1]]  # each process has its own loss, which has all rows
        assert np.array_equal(gathered, whole)
        close([slope, jitted], [wanted, wanted])
    with pytest.raises(ValueError, match="needs the rows of each process"):
        threads(lambda r: fc.grad(lambda x: np.sum(distributed.gather(x)))(rows[0]))
    with pytest.raises((ValueError, CollectiveError), match="has 3 rows"):
        threads(lambda r: distributed.gather(rows[0], sizes=(1, 1, 1)))


def test_a_stencil_over_blocks_is_the_one_of_the_whole():
    u = np.random.default_rng(0).normal(size=12)
    whole = lambda u: np.sum((np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) ** 2 * np.sin(u))

    def block(v):
        w = distributed.halo(v, 1, "i", periodic=True)
        return lax.psum(np.sum((w[:-2] - 2.0 * v + w[2:]) ** 2 * np.sin(v)), "i")

    g = spmd(block, "i", out_axes=None)
    for wrap in (lambda f: f, fc.jit):
        slopes = threads(lambda r, wrap=wrap: wrap(fc.grad(g))(np.split(u, N)[r]))
        close(np.concatenate(slopes), fc.grad(whole)(u))
    products = threads(lambda r: fc.jvp(fc.grad(g), (np.split(u, N)[r],), (np.split(u**2, N)[r],))[1])
    close(np.concatenate(products), fc.hvp(whole, (u,), (u**2,)))


def test_what_halo_says():
    for width, axis, words in ((3, 0, "must be 0 to 2"), (-1, 0, "must be 0 to 2"), (1, 2, "out of bounds")):
        with pytest.raises(ValueError, match=words):
            fc.vmap(lambda x, w=width, a=axis: distributed.halo(x, w, "i", axis=a), axis_name="i")(np.ones((3, 2)))
    assert fc.vmap(lambda x: distributed.halo(x, 0, "i"), axis_name="i")(np.ones((3, 2))).shape == (3, 2)
    with pytest.raises(ValueError, match="axis 0 of .* must have the size 3"):
        fc.vmap(lambda x: distributed.scatter_from(x, "i"), axis_name="i")(np.ones((3, 2)))
    with pytest.raises(ValueError, match="root must be one of the 3 lanes"):
        fc.vmap(lambda x: distributed.reduce_to(x, "i", 3), axis_name="i")(np.ones(3))


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.longdouble, np.complex64])
def test_large_values_go_in_parts_with_the_same_results(dtype, monkeypatch):
    """As what is longer than a few kilobytes does; NaN and ties included."""
    draw = np.random.default_rng(0).integers(-3, 4, size=(N, 5, 3)).astype(dtype)
    if draw.dtype.kind == "f":
        draw[1, 0, 0] = np.nan

    def f(x):
        return lax.psum(x, "i"), *([] if draw.dtype.kind == "c" else [lax.pmax(x, "i"), lax.pmin(x, "i")])

    def slope(x):
        return fc.grad(lambda v: np.sum(spmd(lambda v: lax.pmax(v, "i"), "i")(v)))(x) if draw.dtype.char == "d" else x

    plain = threads(lambda r: (*spmd(f, "i")(draw[r]), slope(draw[r])))
    monkeypatch.setattr(communicator, "SMALL", 0)
    monkeypatch.setattr("funcad.distributed.communicator.Threads.start_sum", communicator.Communicator.start_sum)
    for before, after in zip(plain, threads(lambda r: (*spmd(f, "i")(draw[r]), slope(draw[r])))):
        for a, b in zip(before, after):
            assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=draw.dtype.kind in "fc")


def test_a_state_in_parts_is_the_whole_one_and_is_read_by_another_number_of_processes(tmp_path):
    """Momentum of which each process has its part; saved by 4, read by 2."""
    x, w0 = np.random.default_rng(1).normal(size=(16, 8)), np.linspace(-1.0, 1.0, 8)
    error = lambda w, rows: np.mean(np.tanh(rows @ w) ** 2)

    def step(w, m, rows):
        n = lax.axis_size("i")
        m = 0.9 * m + lax.psum_scatter(fc.grad(error)(w, rows), "i", tiled=True) / n
        return lax.all_gather(w.reshape(n, -1)[lax.axis_index("i")] - 0.1 * m, "i", tiled=True), m

    def steps(n, many, read=None, write=None):
        def process(r):
            state = fc.tree.load(read, shard=(r, n)) if read else {"w": w0, "m": np.zeros(8 // n)}
            f = fc.jit(spmd(step, "i", in_axes=(None, 0, 0), out_axes=(None, 0)))
            for _ in range(many):
                state["w"], state["m"] = f(state["w"], state["m"], distributed.shard(x))
            if write:
                fc.tree.save(write, state, shard=(r, n), axes={"w": None, "m": 0})
            return state["w"]

        return on_threads(n, process, timeout=60.0)[0]

    w, m = w0, np.zeros(8)
    for _ in range(6):
        m = 0.9 * m + fc.grad(error)(w, x)
        w = w - 0.1 * m
    steps(4, 3, write=tmp_path / "state.npz")
    close([steps(2, 6), steps(2, 3, read=tmp_path / "state.npz")], [w, w])
