"""What users and reviewers found wrong in the compiler once: each a program of a few lines, run on every engine."""

from __future__ import annotations

import tempfile
import threading

import numpy as np
import pytest

import funcad
from funcad.backends import engines
from funcad.passes import roll
from tests.forked import in_a_child, needs_fork

ENGINES = ["interpreter", "numpy", "native"]
RUNS = 4  # the reference, compiling, and calls after that


@pytest.fixture(params=["numpy", "native"])
def setting(request):
    """The engine of a program that is compiled by hand."""
    if request.param == "native":
        pytest.importorskip("llvmlite", reason="the native engine needs llvmlite")
    return request.param


@pytest.fixture(params=ENGINES)
def engine(request):
    if request.param == "native":
        pytest.importorskip("llvmlite", reason="the native engine needs llvmlite")
    with funcad.config.set(engine=request.param):
        yield request.param


class Plain(np.ndarray):
    """A subclass without ideas of its own."""


def _mapped(values):
    with tempfile.TemporaryFile() as file:
        array = np.memmap(file, dtype=values.dtype, mode="w+", shape=values.shape)
    array[...] = values
    return array


@pytest.mark.parametrize("dress", [lambda x: x.view(Plain), _mapped], ids=["subclass", "memmap"])
def test_arrays_of_subclasses_give_arrays_of_ones_own(engine, dress):
    f = funcad.jit(lambda x: (x, x + 1.0, x.T, np.sin(x), x @ x))
    x = dress(np.ones((3, 3)))
    for _ in range(RUNS):
        for out in f(x):
            assert type(out) is (Plain if type(x) is Plain else np.ndarray) and not np.shares_memory(out, x)
            out.fill(7.0)
    assert (np.asarray(x) == 1.0).all()


def test_captured_subclass_is_read_by_reference(engine):
    data = _mapped(np.zeros(3))
    f = funcad.jit(lambda x: (x + data, data))
    for i in range(RUNS):
        data[:] = i
        for out in f(np.zeros(3)):
            assert type(out) is np.ndarray and (out == i).all() and not np.shares_memory(out, data)


def test_donated_buffer_that_another_argument_shows(engine):
    f = funcad.jit(lambda x, y: (x + 1.0, x * y), donate_argnums=0)
    for _ in range(RUNS):
        x = np.arange(40000.0)
        y = np.frombuffer(x)  # its base is a memoryview
        first, second = f(x, y)
        assert np.array_equal(first, np.arange(40000.0) + 1.0) and np.array_equal(second, np.arange(40000.0) ** 2)


# ---------------------------------------------------------------- exported text


def _run(f, *args):
    module = {}
    exec(funcad.jit(f).source(*args), module)
    return module["run"](*args)


def test_source_with_numbers_that_are_not_finite_or_long():
    numbers = (np.float64("nan"), np.float32("-inf"), np.longdouble(1) / 3, np.complex64(complex(np.inf, -0.0)))

    def f(x):
        return tuple([np.where(x > 0, x, c) for c in numbers])

    x = np.array([-1.0, 2.0])
    for found, expected in zip(_run(f, x), f(x)):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "draw",
    [
        lambda key: funcad.random.normal(key, (3,)),
        lambda key: funcad.random.gamma(key, 2.0, (3,)),
        lambda key: funcad.random.poisson(key, 3.0, (3,)),
        lambda key: funcad.vmap(lambda k: funcad.random.normal(k, (2,)))(funcad.random.split(key, 3)),
    ],
    ids=["normal", "gamma", "poisson", "mapped"],
)
def test_source_of_random_numbers(draw):
    key = funcad.random.key(3)
    (found,) = _run(draw, key)
    np.testing.assert_array_equal(found, draw(key))


def test_source_of_branches_chosen_by_lane():
    def f(x, k):
        return funcad.vmap(lambda x, k: funcad.switch(k, [np.sin, lambda x: 1.0 / x, np.exp], x))(x, k)

    x, k = np.array([0.0, 1.0, 2.0]), np.array([0, 1, 2])
    np.testing.assert_allclose(_run(f, x, k)[0], f(x, k))


# ---------------------------------------------------------------- threads, forks, long programs


@needs_fork
def test_a_child_of_a_fork_amid_compilation_can_compile():
    f = funcad.jit(lambda x: np.tanh(x) * 2.0)
    f(np.ones(2))
    f(np.ones(2))  # what is imported when first needed is there now
    started, release = threading.Event(), threading.Event()

    def slowly():
        with engines.compiling:
            started.set()
            release.wait(0.3)

    thread = threading.Thread(target=slowly)
    thread.start()
    started.wait()

    def check():
        g = funcad.jit(lambda x: np.sin(x) + 1.0)
        assert all([np.allclose(g(np.ones(3)), np.sin(1.0) + 1.0) for _ in range(3)])

    ended = in_a_child(check)
    release.set()
    thread.join()
    ended()


@pytest.mark.parametrize("by_equation", [0.0, 10.0])
def test_a_long_program_on_small_arrays_compiles_as_long_as_its_length_earns(monkeypatch, by_equation):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(engines, "BUDGET", 0.0)
    monkeypatch.setattr(engines, "EARNED", 0.0)
    monkeypatch.setattr(engines, "BY_EQUATION", by_equation)
    monkeypatch.setattr(roll, "SMALLEST", 10**9)

    def f(x):
        x = np.sort(x)  # which has no native code: the groups have
        for i in range(300):
            x = np.sin(x) + i * 1e-3
        return x

    with funcad.config.set(engine="native"):
        g = funcad.jit(f)
        for _ in range(RUNS):
            np.testing.assert_allclose(g(np.ones(3)), f(np.ones(3)), rtol=1e-12)
        assert any(["took long enough" in r for r in g.explain(np.ones(3)).reasons]) == (by_equation == 0.0)


@pytest.mark.parametrize("choose", [np.min, lambda x: x[1], lambda x: x.reshape(2, 1)[0, 0]], ids=["min", "index", "reshape"])
def test_an_element_of_a_repeated_weak_number_is_a_numpy_scalar(engine, choose):
    def f(x):
        _, count = funcad.while_loop(lambda s: s[1] < 3, lambda s: (s[0], s[1] + 1), (x, 0))
        _, counts = funcad.scan(lambda c, _: (c, c), count, None, length=2)
        return choose(counts), x

    jitted = funcad.jit(f)
    for _ in range(RUNS):
        chosen, _ = jitted(np.ones(2))
        assert chosen == 3
        assert type(chosen) is np.int64


def test_a_view_that_was_writable_does_not_become_repeated_elements(setting):
    """One number, once as a view and once broadcast, is one array after the passes; the view is still writable."""
    def f(x):
        angle = np.arctan2(np.broadcast_to(x.reshape(()), (1,)), x)
        return x[0, None], x**x, angle.astype(np.int16)

    x = np.array([0.5], np.float32)
    program = engines.EngineProgram(funcad.make_jaxpr(f)(x).jaxpr, setting)
    for _ in range(RUNS):
        assert all([r.flags.writeable for r in program.run([x])])


def test_repeated_elements_of_a_copy_do_not_become_those_of_the_argument(setting):
    x = np.arange(16).reshape(4, 4)
    program = engines.EngineProgram(funcad.make_jaxpr(lambda x: np.broadcast_to(1 * x, (2, 4, 4)))(x).jaxpr, setting)
    for _ in range(RUNS):
        assert not np.may_share_memory(program.run([x])[0], x)


def test_a_choice_between_a_number_and_a_large_sum(engine):
    """A sum that a group computes is a number, not an array that a choice could be written into."""

    def f(x):
        return np.where(np.sum(x) > 0.5, 0.0, np.sum(np.sin(x) * x))

    jitted = funcad.jit(f)
    x = np.linspace(0.0, 1.0, 200_000)
    for _ in range(RUNS):
        assert jitted(x) == 0.0
        np.testing.assert_allclose(jitted(-x), f(-x), rtol=1e-12)


def test_a_float_that_does_not_fit_an_integer_dtype_does_what_an_element_does(engine):
    def f(x):
        return (x * 1.0).astype(np.uint8), np.stack([x * 1.0]).astype(np.uint8)[0]

    for _ in range(RUNS):
        one, other = funcad.jit(f)(-1.25)
        assert one == other
        assert type(one) is np.uint8


def test_a_view_that_checkpoint_gives_of_steps_that_are_all_alike_is_writable(setting):
    def f(x):
        order = np.argsort(x, axis=1)
        total, steps = funcad.scan(lambda c, row: (np.sum(np.cumprod(row)) + c, order), 0.0, x)
        return total, funcad.checkpoint(lambda s: s[::-1, 1])(steps)

    x = np.linspace(0.0, 1.0, 12).reshape(4, 3)
    program = engines.EngineProgram(funcad.make_jaxpr(f)(x).jaxpr, setting)
    for _ in range(RUNS):
        assert program.run([x])[1].flags.writeable


def test_a_python_integer_becomes_a_float_before_it_is_rounded_to_float32(engine):
    """It lies between two numbers of float32; rounded to float64 it is in their middle, and goes to the even one."""
    k = 2**60 + 2**36 + 1
    f = funcad.jit(lambda x, k: (x * k, x.astype(np.complex64) * k, k * np.float32(1.0)))
    x = np.ones(3, np.float32)
    for _ in range(RUNS):
        product, of_complex, of_number = f(x, k)
        assert (product == x * k).all() and (of_complex.real == x * k).all() and of_number == np.float32(1.0) * k
    g = funcad.jit(lambda k: k.astype(np.float32))
    for _ in range(RUNS):
        assert g(np.array([k])) == np.array([k]).astype(np.float32)  # an array's elements are rounded once


def test_every_block_of_examples_reads_the_shared_number(engine):
    def f(x):
        return x - np.min(x), np.reshape(x, (-1, 1))

    jitted = funcad.jit(f)
    x = np.arange(100_000)[::-1]
    for _ in range(RUNS):
        for found, expected in zip(jitted(x), f(x)):
            np.testing.assert_array_equal(found, expected)


def test_zero_times_nan_in_a_product_with_one_element(engine):
    """np.dot scales by it, and leaves the scaling out if it is 0."""
    x, y = np.array([[1.0, -1.0, np.nan, np.inf]]), np.array([0.0])
    f = funcad.jit(lambda x, y: (x.T @ y, y @ x))
    for _ in range(RUNS):
        for found in f(x, y):
            assert np.isnan(found).tolist() == [False, False, True, True]


def test_a_donated_array_that_a_loop_hands_through_twice(engine):
    def f(x):
        _, a, b = funcad.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, s[2], s[1]), (0, x, x))
        return np.ceil(x), a % 2.0, np.log1p(b)

    x = np.linspace(0.5, 3.0, 5)
    jitted = funcad.jit(f, donate_argnums=0)
    for _ in range(RUNS):
        for found, expected in zip(jitted(x.copy()), f(x)):
            np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (lambda b: np.maximum(b, b))(np.real(x)),
        lambda x: np.imag(x) * 1.0,
        lambda x: 1.0 * funcad.stop_gradient(np.real(x)),
        lambda x: funcad.lax.dynamic_slice(np.real(x), (0, 0), (2, 1)) + 0.0,
    ],
    ids=["maximum", "imag", "stop_gradient", "dynamic_slice"],
)
def test_results_do_not_become_views_of_complex_arguments(setting, f):
    """The engines see to it themselves: the border of jit is not the only place where programs run."""
    x = np.array([[1.0 - 2.0j], [0.5 + 1.0j], [3.0]])
    program = engines.EngineProgram(funcad.make_jaxpr(f)(x).jaxpr, setting)
    for _ in range(RUNS):
        (found,) = program.run([x])
        assert not np.shares_memory(found, x) and np.array_equal(found, f(x))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("x", [float("nan"), float("inf"), 1e30, -3.7, 7.9])
def test_floats_of_python_become_integers_as_arrays_do(engine, x, dtype):
    f = funcad.jit(lambda x: x.astype(dtype))
    with np.errstate(invalid="ignore"):
        expected = np.asarray(x).astype(dtype)[()]
    for _ in range(RUNS):
        found = f(x)
        assert type(found) is dtype and found == expected


def test_repeated_elements_that_a_loop_captures_and_gives_are_copied(setting):
    """complex(broadcast(x)) has its elements for itself, broadcast(complex(x)), which the passes make of it, has not.

    One argument has the other byte order, so that native code, which copies, leaves the call to NumPy.
    """

    def f(x, a, swapped, start):
        wide = np.broadcast_to(x, (4, 3)).astype(complex)
        step = lambda c, row: ((wide, c[1] + a, c[2] + swapped), None)
        return funcad.scan(step, (start, a, swapped), np.ones(4))[0]

    args = [np.float32(2.0), np.ones(4, np.float32), np.ones(4, ">f4"), np.zeros((4, 3), complex)]
    traced = funcad.make_jaxpr(f)(*args)
    program = engines.EngineProgram(traced.jaxpr, setting)
    for _ in range(RUNS):
        found = program.run([*traced.consts, *args])
        assert all([r.flags.writeable for r in found])
        found[0][0, 0] = 7.0
        assert found[0][1, 1] == 2.0
