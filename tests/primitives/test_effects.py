"""debug.print, debug.callback, debug.breakpoint, pure_callback, io_callback: once per execution, iteration and lane."""

import builtins
import sys

import numpy as np
import pytest

import funcad as fc
from funcad import debug
from funcad.errors import MissingRuleError, TreeMismatchError

X = np.arange(3.0)


def noisy(x):
    debug.print("x = {}", x)
    debug.print("here")
    return np.sum(np.sin(x))


ONCE = {
    "plain": lambda f: f,
    "jit": fc.jit,
    "grad": fc.grad,
    "grad jit": lambda f: fc.grad(fc.jit(f)),
    "jit grad": lambda f: fc.jit(fc.grad(f)),
    "jit grad jit": lambda f: fc.jit(fc.grad(fc.jit(f))),
    "value_and_grad": fc.value_and_grad,
    "jvp": lambda f: lambda x: fc.jvp(f, (x,), (x,)),
    "jvp jit": lambda f: lambda x: fc.jvp(fc.jit(f), (x,), (x,)),
    "vjp": lambda f: lambda x: fc.vjp(f, x)[1](1.0),
    "linearize": lambda f: lambda x: fc.linearize(fc.jit(f), x)[1](x),
    "hessian": fc.hessian,
    "hessian jit": lambda f: fc.hessian(fc.jit(f)),
    "checkpoint": lambda f: fc.grad(fc.checkpoint(f)),
    "cond": lambda f: fc.grad(lambda x: fc.cond(x[0] < 1, f, lambda x: np.sum(x), x)),
    "jit cond": lambda f: fc.jit(lambda x: fc.cond(x[0] < 1, f, lambda x: np.sum(x), x)),
}


@pytest.mark.parametrize("name", ONCE)
def test_once_per_execution(name, capsys):
    g = ONCE[name](noisy)
    for _ in range(2):  # a second call prints again
        g(X)
        assert capsys.readouterr().out == "x = [0. 1. 2.]\nhere\n"


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["values", "jit"])
def test_vmap_prints_once_per_lane(wrap, capsys):
    f = wrap(fc.vmap(lambda x: debug.print("{x} of {n}", x=x, n=3)))
    f(X)
    f(X)
    assert capsys.readouterr().out == "0.0 of 3\n1.0 of 3\n2.0 of 3\n" * 2
    wrap(fc.vmap(fc.vmap(lambda x: debug.print("{}", x))))(np.arange(4.0).reshape(2, 2))
    assert capsys.readouterr().out == "0.0\n1.0\n2.0\n3.0\n"


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit, fc.grad, lambda f: fc.jit(fc.grad(f))])
def test_scan_prints_once_per_iteration(wrap, capsys):
    def step(c, x):
        debug.print("{:.1f} {:.1f}", c, x)
        return c * x, None

    wrap(lambda x: fc.scan(step, x, np.array([2.0, 3.0]))[0])(1.0)
    assert capsys.readouterr().out == "1.0 2.0\n2.0 3.0\n"


def test_loops_print_once_per_iteration(capsys):
    def step(s):
        debug.print("{}", s[0])
        return s[0] + 1, s[1] * 2.0

    f = lambda x: fc.while_loop(lambda s: s[0] < 3, step, (0, x))[1]
    for g in (f, fc.jit(f), fc.grad(f), fc.jit(fc.grad(f))):
        g(1.0)
        assert capsys.readouterr().out == "0\n1\n2\n"


def test_only_the_taken_branch_prints(capsys):
    def branch(name):
        def f(x):
            debug.print(name)
            return x * 2.0

        return f

    f = lambda x: fc.cond(x > 0, branch("positive"), branch("negative"), x)
    for g in (f, fc.jit(f), fc.grad(f), fc.jit(fc.grad(f))):
        g(1.0)
        g(-1.0)
        assert capsys.readouterr().out == "positive\nnegative\n"


def test_effects_are_never_removed_and_keep_their_order(capsys):
    def f(x):
        debug.print("a {}", np.sin(x))
        unused = np.cos(x)
        debug.print("b {}", unused)
        fc.io_callback(lambda v: print("c", v), None, x)
        return 1.0

    fc.jit(f)(0.0)
    assert capsys.readouterr().out == "a 0.0\nb 1.0\nc 0.0\n"
    text = str(fc.make_jaxpr(f)(0.0))
    assert text.count("debug_callback") == 2 and text.count("io_callback") == 1


def test_print_checks_its_format_at_the_users_line():
    with pytest.raises(IndexError):
        fc.jit(lambda x: debug.print("{} {}", x))(1.0)
    with pytest.raises(KeyError):
        debug.print("{y}", x=1.0)
    with pytest.raises(TypeError, match="format string first"):
        debug.print(1.0)


def test_arguments_may_be_pytrees_of_anything(capsys):
    fc.jit(lambda x: debug.print("{} {} {p[x]:.2f}", "text", [x, None], p={"x": x}))(2.0)
    assert capsys.readouterr().out == "text [2.0, None] 2.00\n"


def test_callback():
    seen = []
    f = fc.jit(lambda x: debug.callback(lambda v, scale: seen.append((type(v), scale, v.flags.writeable)), x, scale=2))
    f(X)
    f(X)
    assert seen == [(np.ndarray, 2, False)] * 2
    with pytest.raises(TypeError, match="takes a function first"):
        debug.callback("f")


def test_breakpoint(monkeypatch):
    stops = []
    monkeypatch.setattr(builtins, "breakpoint", lambda: stops.append(1))

    def f(x):
        debug.breakpoint()
        return x * 2.0

    f(1.0)
    fc.grad(f)(1.0)
    assert len(stops) == 2
    g = fc.jit(f)
    g(1.0)
    g(2.0)
    assert len(stops) == 4
    fc.vmap(f)(X)
    assert len(stops) == 7


@pytest.mark.parametrize("way", [lambda f: f, fc.jit, lambda f: fc.jit(fc.grad(f)), lambda f: fc.grad(fc.jit(f))])
def test_a_breakpoint_shows_the_local_variables_of_the_user(monkeypatch, way):
    found = []

    def stop():
        frame = sys._getframe(1)
        while frame.f_code.co_name != "f" and "variables" not in frame.f_locals:
            frame = frame.f_back
        found.append(frame.f_locals.get("variables", frame.f_locals))

    def f(x):
        y = x * 2.0
        debug.breakpoint()
        return y * x

    monkeypatch.setattr(builtins, "breakpoint", stop)
    g = way(f)
    for x in (1.0, 2.0, 3.0):
        g(x)
    assert len(found) == 3 and all({"x", "y"} == {*variables} for variables in found)


# -- pure_callback and io_callback


def test_pure_callback():
    runs = []

    def host(x, scale):
        runs.append(type(x["a"]))
        return {"sum": np.float64(np.sum(x["a"]) * scale), "same": x["a"]}

    shapes = {"sum": fc.ShapeDtypeStruct((), float), "same": X}
    f = lambda x: fc.pure_callback(host, shapes, {"a": x}, scale=2.0)
    for g in (f, fc.jit(f)):
        out = g(X)
        assert out["sum"] == 6.0 and isinstance(out["sum"], np.float64)
        np.testing.assert_array_equal(out["same"], X)
        assert out["same"] is not X
    assert runs == [np.ndarray] * 2


@pytest.mark.parametrize("method, calls", [("sequential", 2), ("expand_dims", 1), ("broadcast_all", 1)])
@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["values", "jit"])
def test_vmap_methods(wrap, method, calls):
    shapes = []

    def host(x, y):
        shapes.append((x.shape, np.shape(y)))
        return x * y

    f = lambda x, y: fc.pure_callback(host, x, x, y, vmap_method=method)
    y = np.array([1.0, 2.0, 3.0])
    x = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(wrap(fc.vmap(f, in_axes=(0, None)))(x, y), x * y)
    assert shapes == {
        "sequential": [((3,), (3,))] * 2,
        "expand_dims": [((2, 3), (1, 3))],
        "broadcast_all": [((2, 3), (2, 3))],
    }[method]
    nested = wrap(fc.vmap(fc.vmap(f, in_axes=(0, None)), in_axes=(None, 0)))(x, np.stack([y, y]))
    np.testing.assert_array_equal(nested, np.stack([x * y] * 2))


def test_pure_callback_needs_a_vmap_method_and_a_derivative():
    f = lambda x: fc.pure_callback(lambda v: v, x, x)
    with pytest.raises(MissingRuleError, match="vmap_method='sequential'"):
        fc.vmap(f)(X)
    with pytest.raises(ValueError, match="vmap_method must be one of"):
        fc.pure_callback(lambda v: v, X, X, vmap_method="vectorized")
    with pytest.raises(MissingRuleError, match=r"(?s)pure_callback has no derivative rule.*custom_jvp"):
        fc.grad(lambda x: np.sum(f(x)))(X)
    integers = lambda x: np.sum(x * fc.pure_callback(lambda v: v > 1, fc.ShapeDtypeStruct((3,), bool), x))
    np.testing.assert_array_equal(fc.grad(integers)(X), [0.0, 0.0, 1.0])


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["values", "jit"])
def test_results_are_checked(wrap):
    def call(result, declared):
        return wrap(lambda x: fc.pure_callback(lambda v: result, declared, x))(X)

    with pytest.raises(TypeError, match=r"result\['a'\] was declared as a .*\(3,\), but the function returned .*\(2,\)"):
        call({"a": X[:2]}, {"a": X})
    with pytest.raises(TypeError, match=r"declared as a float32 array .*, but the function returned a float64 array"):
        call(X, fc.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(TreeMismatchError, match="result_shape_dtypes"):
        call(X, (X, X))
    assert call(3, fc.ShapeDtypeStruct((), np.float32)).dtype == np.float32  # Python numbers adapt


def test_reused_scratch_buffers_are_copied():
    scratch = np.zeros(3)

    def host(x):
        scratch[:] = x
        return scratch

    f = fc.jit(lambda x: fc.pure_callback(host, x, x) + fc.pure_callback(host, x, 2 * x))
    np.testing.assert_array_equal(f(X), 3 * X)


def test_io_callback():
    log = []

    def host(x):
        log.append(float(x))
        return np.float64(len(log))

    f = lambda x: fc.io_callback(host, 1.0, x, ordered=True)
    assert fc.jit(f)(2.0) == 1.0
    np.testing.assert_array_equal(fc.vmap(f)(X), [2.0, 3.0, 4.0])
    np.testing.assert_array_equal(fc.jit(fc.vmap(f))(X), [5.0, 6.0, 7.0])
    assert log == [2.0, 0.0, 1.0, 2.0, 0.0, 1.0, 2.0]
    fc.jit(lambda: fc.io_callback(lambda: log.append(9.0), None))()
    assert log[-1] == 9.0


def test_size_zero_lanes():
    f = lambda x: fc.io_callback(lambda v: v, 1.0, x)
    assert fc.vmap(f)(np.zeros(0)).shape == (0,)
