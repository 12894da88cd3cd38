"""make_jaxpr, eval_shape, ShapeDtypeStruct, named_scope, stop_gradient, debug_nans, debug_checks, devices."""

import threading

import numpy as np
import pytest

import funcad as fc
from funcad.errors import InfError, NanError, PlacementError
from funcad.host.where import state
from tests import standin

X = np.arange(3.0)


# -- programs and shapes


def test_make_jaxpr():
    c = np.ones(3)
    closed = fc.make_jaxpr(lambda x, y: {"a": np.sin(x) * c, "b": y})(X, 2)
    assert [a.short for a in closed.in_avals] == ["f64[3]", "i64*[]"]
    assert [a.short for a in closed.out_avals] == ["f64[3]", "i64*[]"]
    assert closed.consts[0] is c
    assert [e.primitive.name for e in closed.eqns] == ["sin", "mul"]
    assert str(closed) == str(closed.jaxpr) == repr(closed)
    assert "sin" in str(closed)


def test_make_jaxpr_options():
    closed, shape = fc.make_jaxpr(lambda x, n: (x * n, [x[0]]), static_argnums=1, return_shape=True)(X, 3)
    assert shape == (fc.ShapeDtypeStruct((3,), float), [fc.ShapeDtypeStruct((), float)])
    assert len(closed.in_avals) == 1
    assert len(fc.make_jaxpr(lambda x, *, k: x * k)(X, k=X).in_avals) == 2
    single = fc.ShapeDtypeStruct((2,), np.float32)
    assert fc.make_jaxpr(fc.grad(lambda x: np.sum(np.sin(x))))(single).out_avals[0].dtype == np.float32
    with pytest.raises(TypeError, match="expected an array or a number"):
        fc.make_jaxpr(lambda x: x)("text")


def test_eval_shape_computes_nothing():
    def f(p, n):
        fc.debug.print("never")
        return {"y": p["w"] @ p["w"].T, "n": n}

    out = fc.eval_shape(f, {"w": fc.ShapeDtypeStruct((1000000, 2), np.float32)}, n=np.int8(3))
    assert out == {"y": fc.ShapeDtypeStruct((1000000, 1000000), np.float32), "n": fc.ShapeDtypeStruct((), np.int8)}


def test_shape_dtype_struct():
    s = fc.ShapeDtypeStruct([2, 3], "f4")
    assert (s.shape, s.dtype, s.ndim, s.size, len(s), s.weak_type) == ((2, 3), np.float32, 2, 6, 2, False)
    assert s == fc.ShapeDtypeStruct((2, 3), np.float32) and hash(s) == hash(fc.ShapeDtypeStruct((2, 3), np.float32))
    assert s != fc.ShapeDtypeStruct((2, 3), np.float32, weak_type=True)
    assert repr(s) == "ShapeDtypeStruct(shape=(2, 3), dtype=float32)"
    with pytest.raises(TypeError, match=r"write \(3,\)"):
        fc.ShapeDtypeStruct(3, float)
    with pytest.raises(TypeError, match="dtype"):
        fc.ShapeDtypeStruct((3,), object)
    with pytest.raises(TypeError):
        len(fc.ShapeDtypeStruct((), float))
    assert "f64[2]" in fc.jit(lambda x: x + 1.0).lower(fc.ShapeDtypeStruct((2,), float)).as_text()


def test_named_scope():
    @fc.named_scope("layer")
    def f(x):
        with fc.named_scope("inner"):
            y = np.sin(x)
        return np.cos(y)

    sin, cos = fc.make_jaxpr(f)(X).eqns
    assert (sin.source.scope, cos.source.scope) == (("layer", "inner"), ("layer",))
    assert "layer/inner" in str(sin.source)
    scopes = {e.source.scope for e in fc.make_jaxpr(fc.grad(lambda x: np.sum(f(x))))(X).eqns if e.source}
    assert ("layer", "inner") in scopes
    with pytest.raises(ZeroDivisionError), fc.named_scope("broken"):
        raise ZeroDivisionError
    assert state.scope == ()
    with pytest.raises(TypeError, match="takes a string"):
        fc.named_scope(3)
    with pytest.raises(TypeError, match="takes a string"):
        fc.named_scope(f)


def test_stop_gradient():
    f = lambda p: p["a"] * fc.stop_gradient(p)["b"]
    assert fc.grad(f)({"a": 2.0, "b": 3.0}) == {"a": 3.0, "b": 0.0}
    assert fc.grad(lambda x: x * float(fc.stop_gradient(x)))(3.0) == 3.0
    assert fc.jit(fc.grad(lambda x: x * fc.stop_gradient(x * x)))(3.0) == 9.0
    np.testing.assert_array_equal(fc.vmap(fc.grad(lambda x: x * fc.stop_gradient(x)))(X), X)
    stopped = fc.stop_gradient({"x": X, "name": "n"})  # a copy, as of traced values: a write into it is not one into X
    assert stopped["name"] == "n" and not np.shares_memory(stopped["x"], X)
    np.testing.assert_array_equal(stopped["x"], X)
    assert fc.jvp(fc.stop_gradient, (X,), (X,))[1].tolist() == [0.0] * 3
    assert fc.jvp(lambda x: fc.grad(lambda y: y * fc.stop_gradient(y) * x)(x), (2.0,), (1.0,))[1] == 2.0


# -- checks


def logarithm(x):
    y = x * 2.0
    return np.log(y)  # the line that is named


LINE = logarithm.__code__.co_firstlineno + 2


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("chain", ["jit", "grad", "grad jit", "jit grad", "vmap", "jit vmap", "vmap grad"])
def test_debug_nans_names_the_line(chain):
    x = np.array([-1.0, 1.0]) if "vmap" in chain else -1.0
    f = logarithm
    for name in reversed(chain.split()):
        f = getattr(fc, name)(f)
    f(x)
    with fc.debug_nans(), pytest.raises(NanError, match=rf"log made a NaN .*test_tools\.py:{LINE} \(logarithm\)"):
        f(x)
    with fc.debug_nans():
        assert np.isfinite(f(np.abs(x))).all()
        with fc.debug_nans(False):
            f(x)
        with pytest.raises(FloatingPointError):
            f(x)
    f(x)


@pytest.mark.parametrize("how", ["grad", "vmap", "vjp", "jvp"])
def test_warnings_under_debug_nans_name_the_line(how):
    def f(x):
        return np.sum(np.log(x))

    x = np.zeros((2, 2))
    run = {"vjp": lambda: fc.vjp(f, x), "jvp": lambda: fc.jvp(f, (x,), (x + 1.0,))}.get(how, lambda: getattr(fc, how)(f)(x))

    with pytest.warns(RuntimeWarning, match="divide by zero encountered in log") as told, fc.debug_nans():
        run()
    assert {(w.filename, w.lineno) for w in told} == {(__file__, f.__code__.co_firstlineno + 1)}


def test_debug_nans_in_the_backward_pass():
    def f(x):
        return np.sqrt(x) * 0.0

    line = f.__code__.co_firstlineno + 1
    for g in (fc.grad(f), fc.jit(fc.grad(f)), fc.grad(fc.jit(f))):
        assert np.isnan(g(0.0))
        with fc.debug_nans(), pytest.raises(NanError, match=rf"test_tools\.py:{line} \(f\)"):
            g(0.0)


def test_debug_nans_lets_given_nans_pass():
    with fc.debug_nans():
        assert np.isnan(fc.jit(np.sin)(np.nan))
        assert fc.jit(lambda x: np.arange(3) + x)(1).tolist() == [1, 2, 3]
        assert fc.jit(lambda x: x > np.nan)(1.0) == False  # noqa: E712
        with pytest.raises(NanError):
            fc.jit(lambda x: x - x)(np.inf)


@pytest.mark.filterwarnings("ignore:divide by zero:RuntimeWarning")
@pytest.mark.parametrize("chain", ["jit", "grad", "grad jit", "jit grad", "vmap", "jit vmap", "vmap grad"])
def test_debug_infs_names_the_line(chain):
    x = np.array([0.0, 1.0]) if "vmap" in chain else 0.0
    f = logarithm
    for name in reversed(chain.split()):
        f = getattr(fc, name)(f)
    f(x)
    with fc.debug_infs(), pytest.raises(InfError, match=rf"log made an infinity .*test_tools\.py:{LINE} \(logarithm\)"):
        f(x)
    with fc.debug_infs():
        assert np.isfinite(f(np.abs(x) + 1.0)).all()
        with fc.debug_infs(False):
            f(x)
    f(x)


def test_debug_infs_sees_loops_and_slopes():
    def f(x):
        return np.sum(np.sqrt(x))

    line = f.__code__.co_firstlineno + 1
    for g in (fc.grad(f), fc.jit(fc.grad(f)), fc.grad(fc.jit(f))):
        with fc.debug_infs(), pytest.raises(InfError, match=rf"test_tools\.py:{line} \(f\)"):
            g(np.zeros(2))

    def step(carry, x):
        return carry / x, carry

    with fc.debug_infs(), pytest.raises(InfError, match="div made an infinity"):
        fc.jit(lambda xs: fc.scan(step, 1.0, xs))(np.array([1.0, 0.0]))


def test_debug_nans_and_infs_combine():
    with fc.debug_infs():
        assert np.isinf(fc.jit(lambda x: x + 1.0)(np.inf))  # a given infinity passes, and what is not asked for
        assert np.isnan(fc.jit(lambda x: x - x)(np.inf))
        with fc.debug_nans():
            with pytest.raises(InfError):
                fc.jit(lambda x: 1.0 / x)(np.float64(0.0))
            with pytest.raises(NanError):
                fc.jit(lambda x: x - x)(np.inf)
        with fc.debug_nans(False), pytest.raises(InfError):
            fc.jit(lambda x: 1.0 / x)(np.float64(0.0))
    assert state.checked is None
    assert np.isinf(fc.jit(lambda x: 1.0 / x)(np.float64(0.0)))


def test_contexts_belong_to_their_thread():
    seen = []
    with fc.debug_nans(), fc.debug_checks():
        assert state.debug_checks
        thread = threading.Thread(target=lambda: seen.append((state.debug_nans, state.debug_checks)))
        thread.start()
        thread.join()
    assert seen == [(False, False)]
    assert not state.debug_checks


# -- devices


def test_devices_without_cupy():
    assert fc.devices()[0] == "cpu"
    assert fc.device_put(X, "cpu") is X
    assert fc.device_get({"x": X})["x"] is X
    assert type(fc.device_get(3.0)) is np.float64
    assert fc.block_until_ready((X, 1.0))[0] is X
    with fc.default_device("cpu"):
        assert state.default_device == "cpu"
    np.testing.assert_array_equal(fc.grad(lambda x: np.sum(fc.device_put(x, "cpu") * x))(X), 2 * X)
    np.testing.assert_array_equal(fc.jit(fc.vmap(lambda x: fc.device_get(x)))(X), X)
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        fc.device_put(X, "tpu")
    with pytest.raises(TypeError, match="device_put: argument"):
        fc.device_put("text", "cpu")


def test_what_needs_cupy_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cupy", None)
    for act in (lambda: fc.device_put(X), lambda: fc.device_put(X, "cuda:0"), lambda: fc.default_device("cuda")):
        with pytest.raises(PlacementError, match="pip install"):
            act()
    assert fc.devices() == ["cpu"]


# -- rules, callbacks and collectives on device arrays: they stay there, and NumPy zeros and indices are moved to them


def pair(x, y):
    return np.sin(x) * y, np.cos(y)


def with_rules():
    f = fc.custom_vjp(pair)
    f.defvjp(
        lambda x, y: (pair(x, y), (x, y)),
        lambda r, ct: (np.cos(r[0]) * r[1] * ct[0], np.sin(r[0]) * ct[0] - np.sin(r[1]) * ct[1]),
    )
    g = fc.custom_jvp(pair)
    g.defjvp(lambda p, t: (pair(*p), (np.cos(p[0]) * p[1] * t[0] + np.sin(p[0]) * t[1], -np.sin(p[1]) * t[1])))
    return f, g, fc.checkpoint(pair)


ON_DEVICE = {
    "grad": lambda f, x: fc.grad(lambda x: np.sum(f(x, x)[0]))(x),
    "grad jit": lambda f, x: fc.grad(fc.jit(lambda x: np.sum(f(x, x)[0])))(x),
    "jit grad": lambda f, x: fc.jit(fc.grad(lambda x: np.sum(f(x, x)[0])))(x),
    "one argument": lambda f, x: fc.grad(lambda y: np.sum(f(x, y)[1]))(x),
    "jvp": lambda f, x: fc.jvp(lambda y: f(x, y)[0], (x,), (x,))[1],
    "vmap": lambda f, x: fc.vmap(fc.grad(lambda x: f(x, x)[0]))(x),
}


@pytest.mark.parametrize("use", ON_DEVICE)
def test_rules_on_device_arrays(use):
    x = np.arange(1.0, 4.0)
    wanted = ON_DEVICE[use](pair, x)
    with standin.registered():
        for f in with_rules():
            found = ON_DEVICE[use](f, standin.to_device(x))
            assert type(found) is standin.DeviceArray
            np.testing.assert_allclose(found.get(), wanted)


def test_callbacks_and_collectives_on_device_arrays():
    x = np.arange(3.0)
    seen = []
    programs = [
        lambda x: fc.jit(lambda x: x + fc.pure_callback(lambda v: seen.append(type(v)) or np.cumsum(v), x, x))(x),
        lambda x: fc.vmap(lambda x: x + fc.pure_callback(lambda v: 2 * v, 1.0, x, vmap_method="sequential"))(x),
        lambda x: fc.vmap(lambda x: x / fc.lax.psum(x, "i") + fc.lax.axis_index("i") * fc.lax.pmax(x, "i"), axis_name="i")(x),
        lambda x: fc.vmap(lambda x: fc.lax.ppermute(x, "i", [(0, 1), (1, 2)]), axis_name="i")(x),
        lambda x: fc.vmap(fc.grad(lambda x: fc.lax.pmax(x * x, "i")), axis_name="i")(x),
        lambda x: fc.grad(lambda x: np.sum(fc.device_get(x * x) * 2.0))(x),
    ]
    for program in programs:
        wanted = program(x)
        with standin.registered():
            found = program(standin.to_device(x))
            assert type(found) is standin.DeviceArray
            np.testing.assert_allclose(found.get(), wanted)
            assert type(fc.device_get(found)) is np.ndarray and fc.device_put(found) is found
    assert seen == [np.ndarray] * 2


def test_static_argnums_of_make_jaxpr_exist():
    with pytest.raises(ValueError, match="make_jaxpr of <lambda>: static_argnums names 3, but it has 1"):
        fc.make_jaxpr(lambda x: x, static_argnums=3)(1.0)
    assert fc.make_jaxpr(lambda x, n=2: x * n, static_argnums=1)(1.0).in_avals
    with pytest.raises(TypeError, match="make_jaxpr of <lambda>: output at"):
        fc.make_jaxpr(lambda x: [x, "text"])(1.0)
