"""spmd over threads is vmap on the stacked arguments: values and derivatives; orders that differ raise; nothing hangs."""

import threading

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.distributed import on_threads, spmd
from funcad.errors import AxesMismatchError, CollectiveError, UnboundAxisNameError
from tests.distributed.programs_over_processes import (
    W,
    compositions,
    data,
    derivatives,
    expected,
    operations,
    over_processes,
)

pytestmark = pytest.mark.share(2)  # of its tables of cases

N = 3
XS = data(N, (N, 2 * N))
YS = np.random.default_rng(5).normal(size=(N, N, 2 * N))
KINDS = list(derivatives(len))


def threads(f, n=N):
    return on_threads(n, f, timeout=60.0)


def close(found, wanted, rtol=1e-10):
    found, wanted = fc.tree.leaves(found), fc.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert np.shape(a) == np.shape(b)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


@pytest.mark.share(4)
@pytest.mark.parametrize("name", operations(N))
def test_operations(name):
    f = operations(N)[name]
    whole = fc.vmap(f, axis_name="i")
    values, pull = fc.vjp(whole, XS)
    weights = np.random.default_rng(1).normal(size=values.shape)
    tangent = fc.jvp(whole, (XS,), (YS,))[1]
    pair = fc.vmap(whole, in_axes=1, out_axes=1)(np.stack([XS, YS], axis=1))

    def process(r):
        g = spmd(f, "i")
        own = fc.vjp(g, XS[r])
        inside = spmd(lambda x, w: fc.vjp(f, x)[1](w)[0], "i")(XS[r], weights[r])
        compiled = fc.jit(g)
        first = compiled(XS[r])
        both = fc.vmap(g)(np.stack([XS[r], YS[r]])), fc.jit(fc.vmap(g))(np.stack([XS[r], YS[r]]))
        return own[0], own[1](weights[r])[0], inside, fc.jvp(g, (XS[r],), (YS[r],))[1], first, compiled(XS[r]), both

    for r, (value, ct, inside, t, first, again, both) in enumerate(threads(process)):
        close([value, first, again], [values[r]] * 3)
        close([ct, inside], [pull(weights)[0][r]] * 2)
        close(t, tangent[r])
        close(both, [pair[r]] * 2)


@pytest.mark.share(4)
@pytest.mark.parametrize(
    "name, kinds",
    [
        pytest.param(name, kinds, marks=marks, id=f"{name}-{len(kinds)}")
        for i, name in enumerate(compositions(N))
        for kinds, marks in ((list(KINDS)[i % 4 :: 4], []), (list(KINDS), [pytest.mark.slow]))
    ],
)
def test_compositions(name, kinds):
    program = compositions(N)[name]
    for kind in kinds:
        g = over_processes(program, kind)
        close(threads(lambda r, g=g: g(W, data(N)[r])), expected(program, kind, N), rtol=1e-9)


# ---------------------------------------------------------------- what the border says


def test_grad_inside_is_the_local_part_and_grad_outside_the_full_one():
    xs = np.array([2.0, 3.0, 7.0])

    def loss(w, x):
        return lax.pmean((w - x) ** 2, "i")

    inside = spmd(fc.grad(loss), "i", in_axes=(None, 0))
    assert threads(lambda r: inside(1.0, xs[r])) == [-2.0, -4.0, -12.0]
    assert list(fc.vmap(fc.grad(loss), in_axes=(None, 0), axis_name="i")(1.0, xs)) == [-2.0, -4.0, -12.0]
    outside = fc.grad(spmd(loss, "i", in_axes=(None, 0), out_axes=None))
    assert threads(lambda r: outside(1.0, xs[r])) == [-6.0] * 3


def test_numbers_and_constants_differ_from_process_to_process():
    assert threads(spmd(lambda r: (lax.psum(r, "i"), lax.pmax(r, "i"), lax.psum(True, "i")), "i")) == [(3, 2, 3)] * N
    assert threads(lambda r: fc.jit(spmd(lambda x: x + lax.psum(float(r), "i"), "i"))(1.0)) == [4.0] * N
    assert threads(lambda r: fc.jit(spmd(lambda x: x + lax.axis_index("i"), "i"))(1.0)) == [1.0, 2.0, 3.0]


def test_one_jitted_function_for_all_threads():
    g = fc.jit(fc.grad(spmd(lambda x: lax.psum(x * lax.axis_index("i"), "i") ** 2, "i", out_axes=None)))
    for _ in range(3):
        assert threads(lambda r: g(float(r))) == [0.0, 10.0, 20.0]


def test_guards_on_reduced_values():
    """The recorder's first call, paths that it knows, and a new one send one sequence."""

    @fc.jit
    def f(w, x):
        if lax.psum(x, "i") > 0:
            return lax.psum(w * x, "i")
        return lax.pmean(np.sin(w) * x, "i")

    g = spmd(f, "i", in_axes=(None, 0), out_axes=None)

    def process(r):
        return [float(h(2.0, s * (r + 1.0))) for h in (g, fc.grad(g)) for s in (1.0, 1.0, -1.0, -1.0, 1.0)]

    sine, cosine = -2 * np.sin(2.0), -2 * np.cos(2.0)
    close(threads(process), [[12.0, 12.0, sine, sine, 12.0, 6.0, 6.0, cosine, cosine, 6.0]] * N)


def test_two_kinds_of_axes():
    x = np.random.default_rng(3).normal(size=(N, 4))
    both = fc.vmap(fc.vmap(lambda v: v / lax.psum(v**2, ("i", "j")), axis_name="j"), axis_name="i")(x)
    over = fc.vmap(lambda v: v / lax.psum(v**2, ("i", "j")), axis_name="j")
    close(threads(lambda r: spmd(over, "i")(x[r])), [both[r] for r in range(N)])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.complex128, np.int8, np.uint64, np.longdouble])
def test_dtypes_and_layouts(dtype):
    x = np.arange(24).reshape(2, 3, 4).astype(dtype)

    def process(r):
        g = spmd(lambda v: (lax.psum(v, "i"), lax.all_gather(v, "i"), distributed.broadcast(v, "i", 1)), "i")
        return g(x.T[::2] + dtype(r)), g(np.empty((0, 3), dtype)), g(x.astype(x.dtype.newbyteorder()))

    for (total, everything, one), empty, swapped in threads(process):
        assert total.dtype == dtype and total.shape == (2, 3, 2)
        close([total, everything[2], one], [3 * x.T[::2] + dtype(3), x.T[::2] + dtype(2), x.T[::2] + dtype(1)])
        assert empty[0].shape == (0, 3) and empty[1].shape == (N, 0, 3)
        close(swapped[0], 3 * x)


def test_broadcast_keeps_bits():
    values = np.array([-0.0, 0.0, np.nan, np.inf, -np.inf])
    for found in threads(lambda r: spmd(lambda v: distributed.broadcast(v, "i", 1), "i")(values if r == 1 else values[::-1])):
        assert np.array_equal(found, values, equal_nan=True) and np.signbit(found[0]) and not np.signbit(found[1])
    flags = np.array([True, False])
    found = threads(lambda r: spmd(lambda v: distributed.broadcast(v, "i"), "i")(flags ^ bool(r)))
    assert all(np.array_equal(f, flags) for f in found)


def test_nan_wins_in_extrema():
    for found in threads(lambda r: spmd(lambda v: (lax.pmax(v, "i"), lax.pmin(v, "i")), "i")(np.nan if r == 1 else float(r))):
        assert np.isnan(found).all()


def test_shard_and_gather():
    x = np.arange(10.0).reshape(5, 2)
    parts = threads(lambda r: distributed.shard({"x": x})["x"])
    assert [len(p) for p in parts] == [2, 2, 1]
    for whole in threads(lambda r: distributed.gather(parts[r])):
        assert np.array_equal(whole, x)


def test_value_and_grad_of_data_in_parts():
    xs, ys = np.random.default_rng(2).normal(size=(2, N, 5))

    def loss(p, x, y):
        return np.mean((p["a"] * x + p["b"] - y) ** 2)

    p = {"a": 0.5, "b": np.float64(-1.0)}
    whole = fc.value_and_grad(loss)(p, xs, ys)
    found = threads(lambda r: (distributed.value_and_grad(loss)(p, xs[r], ys[r]), distributed.current().count))
    for part, count in found:
        close(part, whole, rtol=1e-12)
        assert count == 1 and part == found[0][0]


# ---------------------------------------------------------------- the same sequence everywhere


def line_of(f, offset):
    return f"{f.__code__.co_filename}:{f.__code__.co_firstlineno + offset}"


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["un-jitted", "jitted"])
def test_different_collectives_raise_and_name_both_lines(wrap):
    def f(x):
        if lax.axis_index("i") == 0:
            return lax.psum(x, "i") * lax.pmax(x, "i")
        a = lax.pmax(x, "i")
        return a * lax.psum(x, "i")

    with pytest.raises(CollectiveError) as info:
        threads(lambda r: wrap(spmd(f, "i"))(float(r)))
    assert line_of(f, 2) in str(info.value) and line_of(f, 3) in str(info.value)


def test_cond_on_a_value_of_one_process_raises():
    f = fc.jit(lambda x: fc.cond(x > 0, lambda v: lax.psum(v, "i"), lambda v: lax.pmax(v, "i") * 2.0, x))
    with pytest.raises(CollectiveError, match="different collectives"):
        threads(lambda r: spmd(f, "i")(float(r)))


def test_while_loops_of_different_lengths_raise():
    def f(x):
        return fc.while_loop(lambda v: v < 10.0, lambda v: v + 1.0 + 0.0 * lax.psum(v, "i"), x)

    with pytest.raises(CollectiveError, match="has returned"):
        threads(lambda r: spmd(fc.jit(f), "i")(float(r)))


def test_shapes_and_dtypes_that_differ_raise():
    for other in (np.ones(3), np.ones(2, np.float32)):
        with pytest.raises(CollectiveError, match="different collectives"):
            threads(lambda r, other=other: spmd(lambda v: lax.psum(v, "i"), "i")(np.ones(2) if r else other))


def test_equal_operations_are_not_merged_by_values():
    """On process 0 both collectives have the same operand, on the others they have not."""

    def f(x, y):
        return lax.psum(x, "i") + lax.psum(y, "i")

    def process(r):
        c = (2.0, 3.0)[r > 0]
        return fc.jit(spmd(lambda v: f(v * 2.0, v * c), "i"))(1.0), fc.jit(spmd(f, "i"))(*([1.0] * 2 if r else [2.0, 1.0]))

    close(threads(process), [(6.0 + 8.0, 4.0 + 3.0)] * N)


def test_checkpoint_keeps_what_collectives_gave():
    def count(wrap):
        def process(r):
            comm = distributed.current()
            f = wrap(lambda w: np.sin(lax.psum(np.cos(w), "i")) * w)
            fc.grad(spmd(f, "i", out_axes=0))(1.0)
            return comm.count

        return threads(process)

    assert count(fc.checkpoint) == count(lambda f: f)


# ---------------------------------------------------------------- when things go wrong


def test_an_error_in_one_process_ends_all():
    def process(r):
        if r == 1:
            raise ZeroDivisionError("mine")
        return spmd(lambda v: lax.psum(v, "i"), "i")(1.0)

    with pytest.raises(ZeroDivisionError, match="mine") as info:
        threads(process)
    assert "in process 1 of 3" in info.value.__notes__


def test_a_process_that_waits_too_long_says_for_whom():
    over = threading.Event()

    def process(r):
        if r == 2:
            over.wait(60)
            return None
        try:
            return spmd(lambda v: lax.psum(v, "i"), "i")(1.0)
        finally:
            over.set()

    with pytest.raises(CollectiveError, match="waited 0.2 s in sum of float64"):
        on_threads(N, process, timeout=0.2)


def test_replicated_arguments_are_compared_on_request():
    f = spmd(lambda w, x: w * x, "i", in_axes=(None, 0), check=True)
    assert threads(lambda r: f(2.0, float(r))) == [0.0, 2.0, 4.0]
    with pytest.raises(CollectiveError, match="is replicated differs"):
        threads(lambda r: f(float(r), 1.0))


def test_mistakes():
    with pytest.raises(AxesMismatchError, match="0 for what a process has of its own"):
        threads(lambda r: spmd(lambda x: x, "i", in_axes=1)(np.ones((2, 2))))
    with pytest.raises(AxesMismatchError, match="entries"):
        threads(lambda r: spmd(lambda x: x, "i", in_axes=(0, 0))(1.0))
    with pytest.raises(UnboundAxisNameError, match="'j' is not bound"):
        threads(lambda r: spmd(lambda x: lax.psum(x, "j"), "i")(1.0))
    with pytest.raises(TypeError, match="must be a communicator"):
        spmd(lambda x: x, "i", comm=3)(1.0)
