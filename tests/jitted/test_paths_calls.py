"""Functions with guards in everything that a jitted function can do: threads, errors, limits, explanations, nesting."""

from __future__ import annotations

import contextlib
import pickle
import threading

import numpy as np
import pytest
import scipy.optimize

import funcad as fc
from funcad.backends.interpreter import counters
from funcad.errors import (
    NanError,
    PathError,
    SharedMemoryError,
    TracerArrayConversionError,
    TracerBoolConversionError,
)
from funcad.jitted import account


def relu(x):
    return x * 3.0 if x > 0 else x * 0.1


def newton(a):
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = (x + a / x) / 2
    return x


def paths_of(f):
    return next(iter(f._core.cache.entries.values())).paths


@pytest.mark.parametrize("inner", ["jvp", "vjp", "has_aux", "nested"])
def test_what_a_mask_selects_leaves_a_transformation_as_an_array(inner):
    def f(x):
        return x[x > 0] * 2.0

    ways = {
        "jvp": lambda x: fc.jvp(f, (x,), (np.ones(3),)),
        "vjp": lambda x: fc.vjp(f, x)[0],
        "has_aux": lambda x: fc.grad(lambda x: (np.sum(x**2), f(x)), has_aux=True)(x),
        "nested": lambda x: fc.jvp(lambda x: fc.jvp(f, (x,), (x,))[1], (x,), (np.ones(3),)),
    }
    g = fc.jit(ways[inner])
    for x in (np.array([1.0, -2.0, 3.0]), np.array([-1.0, -2.0, -3.0]), np.array([1.0, 2.0, 3.0])) * 2:
        for a, b in zip(fc.tree.leaves(g(x)), fc.tree.leaves(ways[inner](x)), strict=True):
            np.testing.assert_allclose(a, b)


def test_threads_learn_paths_together():
    f, wrong = fc.jit(newton), []

    def work(seed):
        rng = np.random.default_rng(seed)
        for _ in range(30):
            a = np.float64(10 ** rng.uniform(-3, 9))
            if abs(f(a) - newton(a)) > 1e-9 * a or abs(fc.grad(f)(a) - fc.grad(newton)(a)) > 1e-9:
                wrong.append(a)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    check_trie(f)


def check_trie(f):
    """Every node is reached from its parent, and every variable that is read is made before."""
    trie = paths_of(f).trie
    todo = [(trie.root, set(trie.inputs))]
    while todo:
        node, known = todo.pop()
        known = known | {v for v, _ in node.consts}
        for e in node.equations:
            assert all([type(a).__name__ == "Literal" or a in known for a in e.inputs])
            known |= set(e.outputs)
        assert set(node.ends) <= known
        assert (node.leaf is None) != (not node.children)
        for child in node.children.values():
            assert child.parent is node
            todo.append((child, known))


def test_recordings_that_wait_for_each_other():
    barrier = threading.Barrier(2)

    @fc.jit
    def f(x):
        fc.debug.callback(lambda v: barrier.wait(60), x)
        return x if x > 0 else -x

    for _ in range(2):
        found = {}
        threads = [threading.Thread(target=lambda v=v, found=found: found.update({v: f(v)})) for v in (1.0, -2.0)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == {1.0: 1.0, -2.0: 2.0}


class Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, ValueError])
def test_interrupted_recordings_leave_nothing(error):
    stops = [True]

    @fc.jit
    def f(x):
        y = x * 2
        if x > 0:
            if stops[0] and x > 5:
                raise error
            return y if y > 4 else -y
        return x

    assert f(-1.0) == -1.0
    with pytest.raises(error):
        f(6.0)
    if error is not ValueError:
        stops[0] = False
        assert f(6.0) == 12.0 and f(1.0) == -2.0
    for _ in range(2):
        assert f(-1.0) == -1.0 and f(1.0) == -2.0 and f(4.0) == 8.0
    check_trie(f)


def test_an_error_in_a_callback():
    log = []

    def note(v):
        log.append(float(v))
        if v == 3.0:
            raise RuntimeError("three")

    @fc.jit
    def f(x):
        fc.debug.callback(note, x)
        if x > 0:
            fc.debug.callback(note, x + 1)
        return x if x < 10 else -x

    for v in (1.0, -1.0, 2.0, 1.0, 2.0, 3.0, 1.0):
        log.clear()
        if v in (2.0, 3.0):
            with pytest.raises(RuntimeError, match="three"):
                f(v)
            assert log == ([2.0, 3.0] if v == 2.0 else [3.0])
        else:
            assert f(v) == v
            assert log == [v, v + 1][: 1 + (v > 0)]


def test_draws_and_io_happen_once_on_mispredicted_paths():
    drawn = []

    def draw():
        drawn.append(len(drawn))
        return np.float64(len(drawn))

    @fc.jit
    def f(x):
        u = fc.io_callback(draw, fc.ShapeDtypeStruct((), np.float64))
        if x > 0:
            v = fc.io_callback(draw, fc.ShapeDtypeStruct((), np.float64))
            return u + 10 * v if x > 1 else u - v
        return u * x

    for x in (-1.0, 0.5, 2.0, 2.0, 0.5, -1.0, 2.0, 0.5, -1.0):
        n = len(drawn)
        expected = (n + 1) * x if x <= 0 else (n + 1) + 10 * (n + 2) if x > 1 else -1.0
        assert f(x) == expected
        assert len(drawn) == n + 1 + (x > 0)


def test_rejection_sampling_draws_as_without_jit():
    def f(key):
        n = 0
        while True:
            key, sub = fc.random.split(key)
            u = fc.random.uniform(sub)
            n += 1
            if u < 0.4:
                return u, n

    j = fc.jit(f)
    for seed in (0, 1, 2, 3, 4, 0, 1, 2, 3, 4):
        assert j(fc.random.key(seed)) == f(fc.random.key(seed))


def test_numbers_that_are_asked_for_may_have_any_number_of_answers():
    f = fc.jit(lambda x, n: sum([x * i for i in range(n)]))
    for n in (*range(20), *range(20)):
        assert f(2.0, n) == n * (n - 1)
    f = fc.jit(lambda x: x + float(x))
    for v in (0.0, -0.0, np.nan, np.nan, *range(20)):
        np.testing.assert_array_equal(f(float(v)), v + v)
    assert str(f(-0.0)) == "-0.0"


def test_where_there_is_no_room_for_more_paths_known_ones_stay(monkeypatch):
    def f(x, i):
        for k in range(12):
            if i == k:
                return np.sin(x) ** (k + 2) if k % 2 else x[k % 3] * k
        return x.sum()

    j, x = fc.jit(f), np.arange(3.0)
    for i in (0, 0, 1, 1, 2):
        np.testing.assert_allclose(j(x, i), f(x, i))
    monkeypatch.setattr(account, "MOST_BYTES", paths_of(j).trie.n_bytes)
    for i in (11, 11, 12, 0, 11, 12, 5, 0):
        np.testing.assert_allclose(j(x, i), f(x, i))
    assert paths_of(j).trie.full and len(j.explain(x, 0).paths) == 3
    assert "no room" in str(j.cost())
    traces = counters["traces"]
    j(x, 0), j(x, 1), j(x, 12), j(x, 11)
    assert counters["traces"] == traces
    check_trie(j)


def test_what_shows_one_program_is_refused_and_explain_lists_paths(tmp_path):
    @fc.jit
    def f(x):
        if x > 0:
            return x * 3.0
        return x * 0.1

    for x in (1.0, 2.0, 3.0, -1.0):
        f(x)
    for show in (f.lower, f.source, lambda x: f.export(tmp_path / "f.py", x)):
        with pytest.raises(PathError, match="np.where"):
            show(1.0)
    found = f.explain(1.0)
    assert [(p.taken, p.conditions[0].answer, p.raises) for p in found.paths] == [(3, True, ""), (1, False, "")]
    assert "test_paths_calls.py" in str(found) and "2 paths" in str(found)
    assert f.profile(2.0).seconds > 0
    assert f.cache_info().currsize == 1
    f.clear_cache()
    assert f.cache_info().currsize == 0 and f(-2.0) == -0.2


def fails(x):
    if x > 2:
        raise KeyError("large")
    return x


def test_explain_counts_errors():
    f = fc.jit(fails)
    for x in (1.0, 3.0, 3.0):
        if x > 2:
            with pytest.raises(KeyError):
                f(x)
        else:
            f(x)
    assert {(p.taken, p.raises) for p in f.explain(1.0).paths} == {(1, ""), (2, "KeyError")}


def test_pickle_methods_and_contexts():
    f = pickle.loads(pickle.dumps(fc.jit(relu)))
    assert f(2.0) == 6.0 and f(-2.0) == -0.2
    with fc.disable_jit():
        assert f(-2.0) == -0.2
    with fc.debug_nans():
        assert f(2.0) == 6.0
        with pytest.raises(NanError):
            fc.jit(lambda x: np.log(x) if x < 0 else x)(-1.0)
    assert fc.jit(relu, fast_math=True, inline=True)(2.0) == 6.0

    class Model:
        scale = 2.0

        @fc.jit
        def call(self, x):
            return x * self.scale if x > 0 else x

    fc.tree_util.register_pytree_node(Model, lambda m: ((), None), lambda meta, children: Model())
    for x in (1.0, -1.0, 1.0):
        assert Model().call(x) == (2.0 if x > 0 else -1.0)


def test_strides_that_only_one_path_asks_for():
    f = fc.jit(lambda x: (x * 1.0).ravel(order="K") if np.sum(x) > 0 else x.ravel())
    c = np.arange(12.0).reshape(3, 4)
    for x in (-c, c, np.asfortranarray(c), c, np.asfortranarray(c), -np.asfortranarray(c), c):
        np.testing.assert_array_equal(f(x), (x * 1.0).ravel(order="K") if np.sum(x) > 0 else x.ravel())


def test_strides_that_only_some_calls_know():
    """What is recorded depends on them: an array has strides, a value of a body that is traced has none."""

    manager = contextlib.nullcontext

    @fc.jit
    def f(x):
        with manager():  # might keep an error, so whether there is one is asked for
            return np.linalg.cholesky(np.conj(x[None].T) @ x[None] + np.eye(3))

    x = np.arange(6.0).reshape(2, 3)
    expected = [np.linalg.cholesky(np.outer(v, v) + np.eye(3)) for v in x]
    for _ in range(2):
        np.testing.assert_allclose(f(x[0]), expected[0], rtol=1e-12)
        np.testing.assert_allclose(fc.vmap(f)(x), expected, rtol=1e-12)
        np.testing.assert_allclose(fc.scan(lambda c, v: (c, f(v)), 0.0, x)[1], expected, rtol=1e-12)


def test_buffers_learned_in_the_middle():
    def of(zeros):
        @fc.jit
        def f(x):
            b = zeros(3)
            if x > 0:
                b[0] = x
            else:
                b[1] = x
            return b

        return f

    f = of(lambda n: np.zeros(n))
    for v in (1.0, -1.0, 2.0, -3.0, 1.0):
        np.testing.assert_array_equal(f(v), [v, 0.0, 0.0] if v > 0 else [0.0, v, 0.0])
    f = of(np.zeros)  # NumPy's own, by another name: it is called by the user's line all the same
    for v in (1.0, -1.0, 2.0):
        np.testing.assert_array_equal(f(v), [v, 0.0, 0.0] if v > 0 else [0.0, v, 0.0])


def test_an_array_from_outside_is_written_un_jitted():
    """A path would write it when it is recorded, and never again."""
    outside = np.zeros(3)

    @fc.jit
    def f(x):
        if x > 0:
            outside[1] = x * 2.0
        return np.sum(outside)

    assert f(-1.0) == 0.0
    with pytest.warns(fc.NotCompiledWarning, match="closure variable outside is written in place"):
        assert f(1.0) == 2.0
    for v in (2.0, 3.0):
        assert f(v) == f(-1.0) == 2.0 * v
    np.testing.assert_array_equal(outside, [0.0, 6.0, 0.0])


def test_written_arguments_that_share_memory():
    def f(x, y):
        if np.sum(y) > 0:
            x[0] = 5.0
        return np.sum(y)

    j = fc.jit(f)
    for _ in range(3):
        x, y = np.ones(3), np.ones(3)
        assert j(x, x) == 7.0 and x[0] == 5.0
        assert j(y, np.ones(3)) == 3.0 and y[0] == 5.0
        assert j(np.ones(3), -y) == -7.0

    def g(x, y):
        fc.debug.callback(lambda v: None, y)
        return f(x, y)

    x = np.ones(3)
    with pytest.raises(SharedMemoryError, match="copy"):
        fc.jit(g)(x, x)
    assert x[0] == 1.0


def test_values_of_traces_around():
    f = lambda y: fc.jit(lambda x: x * y if y > 0 else x)(2.0)
    assert f(3.0) == 6.0 and fc.grad(f)(3.0) == 2.0 and fc.jit(f)(3.0) == 6.0 and fc.jit(fc.grad(f))(3.0) == 2.0
    body = lambda x: fc.lax.scan(lambda c, v: (c + v if x > 0 else c - v, v), x, np.ones(3))[0]
    for x in (1.0, -1.0, 1.0):
        assert fc.jit(body)(x) == (4.0 if x > 0 else -4.0)
    inner = fc.jit(lambda x: fails(x) if x > 0 else x)
    with pytest.raises(TracerBoolConversionError):
        fc.jit(lambda x: fc.lax.scan(lambda c, v: (inner(c), v), x, np.ones(3))[0])(1.0)
    with pytest.raises(TracerArrayConversionError, match="derivative"):
        fc.grad(fc.jit(lambda x: x * float(x)))(2.0)
    cut = fc.jit(lambda x: x * float(x))
    assert cut(2.0) == 4.0
    with pytest.raises(TracerArrayConversionError, match="derivative"):
        fc.grad(cut)(2.0)


def test_auxiliary_values_and_structures():
    def f(x):
        return (x * x, {"a": x}) if x > 0 else (x, [x, -x])

    inside = fc.jit(fc.value_and_grad(f, has_aux=True))
    outside = fc.value_and_grad(fc.jit(f), has_aux=True)
    for x in (3.0, -3.0, 3.0, -3.0):
        assert inside(x) == outside(x) == fc.value_and_grad(f, has_aux=True)(x)


def test_the_derivative_of_a_known_path_derives_nothing():
    f = fc.jit(newton)
    g = fc.grad(f)
    for _ in range(3):
        g(2.0)
    before = dict(counters)
    for a in (2.0, 2.1, 2.0):
        g(a)
    assert counters == before


def test_paths_that_share_a_solver_of_scipys():
    """Its function, and the programs around it, are made anew at each recording, and do the same."""

    def f(a):
        root = scipy.optimize.brentq(lambda x: x * x - a, 0.0, 10.0)
        return 2.0 * root if root > 1 else -root

    j = fc.jit(f)
    for a in (2.0, 0.25, 3.0, 0.3):
        np.testing.assert_allclose(j(a), f(a))
        np.testing.assert_allclose(fc.grad(j)(a), fc.grad(f)(a))
        np.testing.assert_allclose(fc.jit(lambda a: j(a) + 1.0 if a > 0 else a)(a), f(a) + 1)
