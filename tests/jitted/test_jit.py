"""jit: caching, statics, donation, inlining, lowering, captured arrays, errors."""

import functools
import gc
import threading
import weakref

import numpy as np
import pytest
import scipy.signal

import funcad as fc
from funcad.backends.interpreter import counters
from tests.unseen import Noted


def traces():
    return counters["traces"]


def test_traces_once_per_signature():
    calls = Noted()

    @fc.jit
    def f(x):
        calls.note(x.dtype)
        return x * 2.0

    x = np.ones(3)
    for _ in range(3):
        np.testing.assert_array_equal(f(x), 2 * x)
    assert len(calls) == 1
    f(np.ones(4)), f(np.ones(3, np.float32)), f(1.0), f(np.float64(1.0))
    assert len(calls) == 5
    assert f.cache_info() == (2, 5, 256, 5, 0)
    f.clear_cache()
    assert f.cache_info() == (0, 0, 256, 0, 0)


def test_two_jits_share_programs_and_the_cache_is_weak():
    def f(x):
        return x + 1.0

    a, b = fc.jit(f), fc.jit(f)
    a(1.0)
    before = traces()
    b(1.0)
    assert traces() == before
    ref = weakref.ref(f)
    del f, a, b
    gc.collect()
    assert ref() is None


def test_cache_is_bounded():
    f = fc.jit(lambda x: x)
    for n in range(260):
        f(np.zeros(n))
    assert f.cache_info().currsize == 256


def test_static_arguments():
    @functools.partial(fc.jit, static_argnums=1, static_argnames="mode")
    def f(x, n, mode="a"):
        for _ in range(n):
            x = x * 2.0
        return x if mode == "a" else -x

    assert f(1.0, 3) == 8.0
    assert f(1.0, n=2) == 4.0
    assert f(1.0, 2, mode="b") == -4.0
    assert fc.grad(f)(1.0, 3) == 8.0


def test_statics_are_told_apart_by_type_and_bits():
    @functools.partial(fc.jit, static_argnums=0)
    def f(n):
        return str(type(n)) and n

    assert type(f(1)) is int and type(f(1.0)) is float and type(f(True)) is bool
    assert np.signbit(f(-0.0)) and not np.signbit(f(0.0))


def test_unhashable_static_says_what_to_do():
    f = fc.jit(lambda x, n: x, static_argnums=1)
    with pytest.raises(TypeError, match="static argument 1 is a list, which is not hashable"):
        f(1.0, [1])


def test_without_guards_python_control_flow_inside_is_refused():
    with pytest.raises(fc.errors.TracerBoolConversionError, match="Remedy: np.where"):
        fc.jit(lambda x: x if x > 0 else -x, guards=False)(1.0)


def test_reuse_after_an_error():
    @fc.jit
    def f(x):
        if x.shape == (3,):
            raise RuntimeError("mine")
        return x * 2.0

    with pytest.raises(RuntimeError, match="mine"):
        f(np.ones(3))
    np.testing.assert_array_equal(f(np.ones(2)), [2.0, 2.0])
    with pytest.raises(RuntimeError, match="mine"):
        f(np.ones(3))
    assert fc.grad(lambda x: np.sum(f(x)))(np.ones(2)).tolist() == [2.0, 2.0]


def test_captured_arrays_are_read_by_reference():
    w = np.array([1.0, 2.0])
    f = fc.jit(lambda x: x * w)
    np.testing.assert_array_equal(f(np.ones(2)), [1.0, 2.0])
    w[:] = 5.0
    np.testing.assert_array_equal(f(np.ones(2)), [5.0, 5.0])


def test_captured_arrays_are_locked_only_while_tracing():
    w = np.ones(2)

    def f(x):
        y = x * w
        w[0] = 3.0
        return y

    with pytest.warns(fc.NotCompiledWarning, match="closure variable w is written in place"):
        np.testing.assert_array_equal(fc.jit(f)(np.ones(2)), [1.0, 1.0])
    assert w.flags.writeable and w[0] == 3.0


def test_results_never_alias_arguments_or_each_other():
    x = np.ones(3)
    a, b = fc.jit(lambda x: (x, x))(x)
    assert not np.shares_memory(a, x) and not np.shares_memory(a, b)
    a[0] = 7.0
    assert x[0] == 1.0 and b[0] == 1.0


def test_donated_buffers_take_results_and_nothing_else_is_written():
    f = fc.jit(lambda x, y: (x + y, x * 1.0), donate_argnums=0)
    g = fc.jit(lambda x, y: x + y, donate_argnums=0)
    x, y = np.ones(4), np.arange(4.0)
    address = x.ctypes.data
    out = g(x, y)
    assert out.ctypes.data == address
    np.testing.assert_array_equal(out, 1 + np.arange(4.0))
    np.testing.assert_array_equal(y, np.arange(4.0))
    x = np.ones(4)
    a, b = f(x, y)
    np.testing.assert_array_equal(a, 1 + y)
    np.testing.assert_array_equal(b, np.ones(4))
    np.testing.assert_array_equal(y, np.arange(4.0))


@pytest.mark.parametrize("kind", ["view", "readonly", "strided", "twice"])
def test_unsuitable_donations_are_left_alone(kind):
    base = np.arange(8.0)
    x = {"view": base[:4], "readonly": np.arange(4.0), "strided": base[::2], "twice": np.arange(4.0)}[kind]
    if kind == "readonly":
        x.flags.writeable = False
    y = x if kind == "twice" else np.ones(4)
    before = x.copy()
    out = fc.jit(lambda x, y: x + y, donate_argnums=0)(x, y)
    np.testing.assert_array_equal(out, before + (before if kind == "twice" else 1))
    np.testing.assert_array_equal(x, before)


def test_a_view_of_a_donated_buffer_keeps_its_contents():
    f = fc.jit(lambda x: (np.reshape(x, (2, 2)) * 1.0, np.reshape(x, (2, 2)), x + 1.0), donate_argnums=0)
    a, b, c = f(np.arange(4.0))
    np.testing.assert_array_equal(a, [[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(b, [[0.0, 1.0], [2.0, 3.0]])
    np.testing.assert_array_equal(c, [1.0, 2.0, 3.0, 4.0])


def test_static_and_donated_clash():
    with pytest.raises(ValueError, match="both static and donated"):
        fc.jit(lambda x: x, static_argnums=0, donate_argnums=0)


def test_inline_splices_the_body():
    inner = lambda x: np.sin(x) * 2.0
    nested = fc.jit(lambda x: fc.jit(inner)(x) + 1.0).lower(1.0).as_text()
    spliced = fc.jit(lambda x: fc.jit(inner, inline=True)(x) + 1.0).lower(1.0).as_text()
    assert "call" in nested and "call" not in spliced and "sin" in spliced


def test_lowered_and_compiled():
    f = fc.jit(lambda x, y: np.sum(np.exp(x) * y))
    lowered = f.lower(np.ones((2, 3)), 2.0)
    assert lowered.as_text() == str(lowered.jaxpr)
    cost = lowered.cost_analysis()
    assert cost["transcendentals"] == 6 and cost["flops"] == 12
    compiled = lowered.compile()
    assert compiled(np.ones((2, 3)), 2.0) == pytest.approx(f(np.ones((2, 3)), 2.0), rel=1e-14)
    expected = r"was lowered for a float64 array of shape \(2, 3\) and a float; got a float64 array of shape \(2,\) and a float"
    with pytest.raises(TypeError, match=expected):
        compiled(np.ones(2), 2.0)


def test_a_scan_costs_its_turns():
    product = fc.jit(lambda x: fc.scan(lambda c, row: (np.sin(c) * row, None), 1.0, x)[0])
    cost = [product.lower(np.ones(n)).cost_analysis() for n in (3, 300)]
    assert cost[1]["transcendentals"] == 300 and cost[1]["flops"] == 100 * cost[0]["flops"]


def test_second_calls_of_transformed_jits_trace_and_compile_nothing():
    f = fc.jit(lambda x: np.sum(np.sin(x) * x))
    x = np.ones(3)

    def everything():
        fc.grad(f)(x)
        fc.hvp(f, (x,), (x,))
        fc.vmap(f)(np.ones((4, 3)))
        fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(np.ones((4, 3)))

    everything()
    before = dict(counters)
    everything()
    assert counters == before


def test_disable_jit():
    with fc.disable_jit():
        assert fc.jit(lambda x: x if x > 0 else -x, guards=False)(-2.0) == 2.0
    with pytest.raises(TypeError):
        fc.jit(lambda x: x if x > 0 else -x, guards=False)(-2.0)


def test_decorators_and_methods():
    class Model:
        scale = 3.0

        @fc.jit
        def apply(self, x):
            return self.scale * x

        @functools.partial(fc.jit, static_argnums=0)
        def static(self, x):
            return self.scale * x

    assert Model().apply(1.0) == 3.0
    assert Model().static(2.0) == 6.0
    model = Model()
    bound = fc.jit(model.static)
    assert bound(2.0) == 6.0


def test_pytrees_and_keyword_arguments():
    out = fc.jit(lambda p, *, scale: {"a": p["w"] * scale, "b": (p["v"], None)})({"w": np.ones(2), "v": 1}, scale=3.0)
    np.testing.assert_array_equal(out["a"], [3.0, 3.0])
    assert out["b"] == (1, None)


def test_threads_trace_once():
    calls = Noted()
    start = threading.Barrier(8)

    @fc.jit
    def f(x):
        calls.note()
        return np.sin(x) * 2.0

    results = [None] * 8

    def work(i):
        start.wait()
        results[i] = f(np.full(3, float(i)))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(calls) == 1
    for i, r in enumerate(results):
        np.testing.assert_array_equal(r, np.sin(np.full(3, float(i))) * 2.0)


def test_odd_shapes_and_layouts():
    f = fc.jit(lambda x: np.sin(x) + 1.0)
    for x in (
        np.zeros((0, 3)),
        np.array(2.0),
        np.ones((1, 1)),
        np.arange(12.0).reshape(3, 4)[::-1, ::2],
        np.ones((2, 3)).T,
    ):
        np.testing.assert_array_equal(f(x), np.sin(x) + 1.0)


@pytest.mark.parametrize("engine", ["auto", "numpy"])
def test_no_result_is_a_part_of_a_larger_array(engine):
    x = np.arange(40.0).reshape(4, 10)
    functions = {
        "columns": lambda x: (x * 2.0)[..., :-1],
        "every second": lambda x: (x * 2.0)[..., ::2],
        "row": lambda x: np.sort(x)[1],
        "spectrum": lambda x: np.fft.fft(x)[:, :5],
        "real part": lambda x: np.fft.fft(x).real,
        "differences": lambda x: np.diff(x, n=2),
        "parts": lambda x: np.split(np.cumsum(x, axis=1), [3, 7], axis=1),
        "windows": lambda x: np.lib.stride_tricks.sliding_window_view(x * 2.0, 3, axis=1),
        "convolved": lambda x: scipy.signal.fftconvolve(x, np.ones((2, 3)), mode="same"),
        "filtered": lambda x: scipy.signal.filtfilt([0.5, 0.5], [1.0], x),
        "medians": lambda x: scipy.signal.medfilt(x, 3),
    }
    for name, f in functions.items():
        jitted, expected = fc.jit(f), f(x)
        for _ in range(5):
            with fc.config.set(engine=engine):
                found = jitted(x)
            for a, b in zip(found, expected) if type(expected) is list else [(found, expected)]:
                assert a.flags.c_contiguous and (a.base is None or a.base.nbytes == a.nbytes), name
                np.testing.assert_allclose(a, b, atol=1e-12, err_msg=name)
    x = np.ones((200, 200))
    part, convolved = fc.jit(lambda x: np.fft.fft(x)[:2]), fc.jit(lambda x: scipy.signal.fftconvolve(x, x[:9, :9], "same"))
    for _ in range(4):
        with fc.config.set(engine=engine):
            assert part(x).base is None and convolved(x).base is None and convolved(x).flags.c_contiguous


def test_jit_of_nothing_and_constants():
    assert fc.jit(lambda: 3.0)() == 3.0
    np.testing.assert_array_equal(fc.jit(lambda x: np.arange(3))(1.0), np.arange(3))


def test_an_error_while_running_names_the_users_line():
    def f(x):
        return x[np.array([5])] * 1.0  # the line

    with pytest.raises(IndexError) as info:
        fc.jit(f)(np.ones(3))
    assert any(
        "test_jit.py" in note and "(f)" in note for note in getattr(info.value, "__notes__", [])
    ) or "test_jit" in str(info.traceback[-1].path)
