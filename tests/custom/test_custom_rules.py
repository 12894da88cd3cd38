"""custom_jvp, custom_vjp, custom_gradient: rules, nestings, borders, errors."""

import functools
import warnings

import numpy as np
import pytest
from scipy import integrate

import funcad as fc
from funcad import lax, tree
from funcad.autograd.extend import defvjp, primitive
from funcad.errors import CustomRuleClosureError, MissingRuleError, TangentMismatchError, TreeMismatchError

XS = np.array([0.3, -0.7, 1.1])


def plain(x, y):
    return np.sin(x) * y


def with_jvp():
    f = fc.custom_jvp(plain)
    f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * p[1] * t[0] + np.sin(p[0]) * t[1]))
    return f


def with_vjp(jvp=False):
    f = fc.custom_vjp(plain)
    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda r, ct: (np.cos(r[0]) * r[1] * ct, np.sin(r[0]) * ct))
    if jvp:
        f.defjvp(lambda p, t: (f(*p), np.cos(p[0]) * p[1] * t[0] + np.sin(p[0]) * t[1]))
    return f


def with_gradient():
    return fc.custom_gradient(lambda x, y: (np.sin(x) * y, lambda ct: (np.cos(x) * y * ct, np.sin(x) * ct)))


def nested():
    inner = with_jvp()
    f = fc.custom_vjp(lambda x, y: inner(x, y))
    f.defvjp(lambda x, y: (inner(x, y), (x, y)), lambda r, ct: (np.cos(r[0]) * r[1] * ct, np.sin(r[0]) * ct))
    return f


FUNCTIONS = {
    "jvp": with_jvp,
    "vjp": with_vjp,
    "both": lambda: with_vjp(True),
    "gradient": with_gradient,
    "nested": nested,
    "jitted": lambda: fc.jit(with_vjp()),
    "checkpointed": lambda: fc.checkpoint(with_vjp(True)),
}

WRAPPERS = {
    "plain": lambda f: f,
    "jit": lambda f: fc.jit(lambda x, y: f(x, y) * f(y, x)),
    "checkpoint": lambda f: fc.checkpoint(lambda x, y: f(x, y) * f(y, x)),
    "scan": lambda f: lambda x, y: fc.scan(lambda c, a: (f(c, a) + y, f(a, c)), x, np.array([0.5, 1.5]))[0],
    "cond": lambda f: lambda x, y: fc.cond(x > 0.0, lambda x: f(x, y), lambda x: f(y, x), x),
    "while": lambda f: lambda x, y: fc.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1], y)), (0, x))[1],
}

USES = {
    "value": lambda f: f(0.3, 0.7),
    "grad": lambda f: fc.grad(f, argnums=(0, 1))(0.3, 0.7),
    "jit grad": lambda f: fc.jit(fc.grad(f))(0.3, 0.7),
    "jvp": lambda f: fc.jvp(f, (0.3, 0.7), (1.0, 2.0)),
    "linearize": lambda f: fc.linearize(f, 0.3, 0.7)[1](1.0, 2.0),
    "grad grad": lambda f: fc.grad(fc.grad(f))(0.3, 0.7),
    "hessian": lambda f: fc.hessian(f, argnums=(0, 1))(0.3, 0.7),
    "jvp grad": lambda f: fc.jvp(fc.grad(f), (0.3, 0.7), (1.0, 2.0)),
    "forward forward": lambda f: fc.jacfwd(fc.jacfwd(f))(0.3, 0.7),
    "reverse forward": lambda f: fc.jacrev(fc.jacfwd(f))(0.3, 0.7),
    "vmap": lambda f: fc.vmap(f)(XS, XS),
    "vmap first": lambda f: fc.vmap(fc.grad(f, argnums=(0, 1)), in_axes=(0, None))(XS, 0.7),
    "vmap second": lambda f: fc.vmap(fc.grad(f, argnums=(0, 1)), in_axes=(None, 0))(0.3, XS),
    "grad vmap, unmapped": lambda f: fc.grad(lambda a: np.sum(fc.vmap(f, in_axes=(0, None))(XS, a)))(0.7),
    "grad vmap, mapped": lambda f: fc.grad(lambda x: np.sum(fc.vmap(f, in_axes=(0, None))(x, 0.7)))(XS),
    "jacfwd vmap": lambda f: fc.jacfwd(lambda a: fc.vmap(f, in_axes=(None, 0))(a, XS))(0.7),
    "jit vmap hessian": lambda f: fc.jit(fc.vmap(fc.hessian(f), in_axes=(0, None)))(XS, 0.7),
}


def assert_trees(found, wanted):
    a, structure = tree.flatten(found)
    b, expected = tree.flatten(wanted)
    assert structure == expected
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)
        assert np.asarray(x).dtype == np.asarray(y).dtype


@pytest.mark.share(6)
@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("use", USES)
def test_every_nesting(use, wrapper):
    wanted = USES[use](WRAPPERS[wrapper](plain))
    for name, make in FUNCTIONS.items():
        if wrapper != "plain" and name in ("gradient", "jitted", "checkpointed"):
            continue
        assert_trees(USES[use](WRAPPERS[wrapper](make())), wanted)


# -- which rule runs, and how often


def counted():
    """A function whose derivative by jvp is 10, by vjp 20."""
    calls = dict.fromkeys(("f", "jvp", "fwd", "bwd"), 0)
    get, put = calls.__getitem__, calls.__setitem__  # out of jit's sight: rules run later

    def note(name, value):
        put(name, get(name) + 1)
        return value

    f = fc.custom_vjp(lambda x: note("f", x * 1.0))
    f.defvjp(lambda x: note("fwd", (x * 1.0, None)), lambda _, ct: note("bwd", (20.0 * ct,)))
    f.defjvp(lambda p, t: note("jvp", (p[0] * 1.0, 10.0 * t[0])))
    return f, calls


def test_forward_mode_uses_jvp_and_reverse_mode_vjp():
    f, calls = counted()
    assert fc.jvp(f, (1.0,), (1.0,))[1] == 10.0
    assert calls == {"f": 0, "jvp": 1, "fwd": 0, "bwd": 0}
    assert fc.grad(f)(1.0) == 20.0
    assert calls == {"f": 0, "jvp": 1, "fwd": 1, "bwd": 1}
    assert fc.jvp(fc.jit(f), (1.0,), (1.0,))[1] == 10.0
    assert fc.grad(fc.jit(f))(1.0) == 20.0
    assert fc.linearize(f, 1.0)[1](1.0) == 10.0  # the value of the linear equation is the jvp rule's
    np.testing.assert_allclose(fc.jacfwd(f)(1.0), 10.0)
    np.testing.assert_allclose(fc.jacrev(f)(1.0), 20.0)


def test_a_call_without_traced_arguments_is_plain():
    f, calls = counted()
    assert f(2.0) == 2.0
    assert type(f(np.ones(3))) is np.ndarray
    assert calls == {"f": 2, "jvp": 0, "fwd": 0, "bwd": 0}


def test_with_a_jvp_rule_only():
    f = fc.custom_jvp(lambda x: x * 1.0)
    f.defjvp(lambda p, t: (p[0] * 1.0, 10.0 * t[0]))
    assert fc.grad(f)(1.0) == 10.0 == fc.grad(fc.jit(f))(1.0) == fc.jit(fc.grad(f))(1.0)


def test_rules_are_not_traced_again_on_the_second_call():
    f, calls = counted()
    g = fc.grad(fc.jit(f))
    g(1.0)
    before = dict(calls)
    g(2.0)
    assert calls == before


def test_python_control_flow_on_values_outside_jit():
    f = fc.custom_vjp(lambda x: x * 2.0)

    def fwd(x):
        return (x * 2.0, (x, "right")) if x > 0 else (x * 3.0, (x, "left"))

    def bwd(residuals, ct):
        x, side = residuals
        return (ct * 2.0,) if side == "right" and x > 0 else (ct * 3.0,)

    f.defvjp(fwd, bwd)
    assert fc.grad(f)(1.0) == 2.0
    assert fc.grad(f)(-1.0) == 3.0
    np.testing.assert_allclose(fc.hessian(f)(1.0), 0.0)
    assert fc.jvp(f, (-1.0,), (1.0,))[1] == 3.0
    g = fc.custom_jvp(lambda x: x * 2.0)
    g.defjvp(lambda p, t: (p[0] * 2.0, t[0] * 2.0) if p[0] > 0 else (p[0] * 2.0, t[0] * 3.0))
    assert (fc.grad(g)(1.0), fc.grad(g)(-1.0)) == (2.0, 3.0)


def test_rules_obey_and_do_not_disturb_warnings():
    f = fc.custom_jvp(lambda x: np.sqrt(x))
    f.defjvp(lambda p, t: (np.sqrt(p[0]), t[0] / np.sqrt(p[0])))
    assert fc.grad(f)(0.0) == np.inf  # tangent work never warns


# -- arguments and structures


@pytest.mark.filterwarnings("ignore:grad. the output of")  # that is what None says
def test_pytrees_and_none_for_a_part():
    @fc.custom_vjp
    def f(params, x):
        return {"y": params["w"] * x, "n": params["b"][0] + x}

    def fwd(params, x):
        return f(params, x), {"w": params["w"], "x": x, "tag": "static", "flag": True}

    def bwd(r, ct):
        assert r["tag"] == "static" and r["flag"] is True
        return {"w": r["x"] * ct["y"], "b": None}, None

    f.defvjp(fwd, bwd)

    def loss(p, x):
        out = f(p, x)
        return np.sum(out["y"]) + np.sum(out["n"])

    p, x = {"w": XS, "b": (XS, 1.0)}, XS * 2
    for g in (fc.grad(loss, argnums=(0, 1)), fc.jit(fc.grad(loss, argnums=(0, 1))), fc.grad(fc.jit(loss), argnums=(0, 1))):
        gp, gx = g(p, x)
        np.testing.assert_allclose(gp["w"], x)
        np.testing.assert_array_equal(gp["b"][0], np.zeros(3))
        assert gp["b"][1] == 0.0
        np.testing.assert_array_equal(gx, np.zeros(3))


def test_integer_arguments_have_no_cotangent():
    f = fc.custom_vjp(lambda x, n: x * n)
    f.defvjp(lambda x, n: (x * n, n), lambda n, ct: (ct * n, None))
    assert fc.grad(f)(2.0, 3) == 3.0
    assert fc.jit(fc.grad(f))(2.0, 3) == 3.0
    assert fc.jvp(lambda x: f(x, 3), (2.0,), (1.0,))[1] == 3.0
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(XS, np.arange(3)), np.arange(3.0))
    g = fc.custom_jvp(lambda x, n: x * n)
    g.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1]) if t[1].dtype == fc.float0 else None)
    assert fc.grad(g)(2.0, 3) == 3.0 == fc.grad(fc.jit(g))(2.0, 3)


def test_integer_outputs():
    f = fc.custom_vjp(lambda x: (x * 2.0, np.sign(x).astype(int) if hasattr(x, "astype") else 1))
    f.defvjp(lambda x: ((x * 2.0, np.arange(3)), None), lambda _, ct: (ct[0] * 2.0,) if ct[1].dtype == fc.float0 else None)
    assert fc.grad(lambda x: f(x)[0])(1.0) == 2.0


@pytest.mark.parametrize("options", [{"nondiff_argnums": (0, 2)}, {"nondiff_argnames": ("h", "options")}])
def test_nondiff_arguments_are_plain_python_values(options):
    f = fc.custom_vjp(lambda h, x, options: h(x) * options["scale"], **options)

    def bwd(h, options, r, ct):
        assert options == {"scale": 3.0}
        return (ct * np.cos(r) * options["scale"],)

    f.defvjp(lambda h, x, options: (h(x) * options["scale"], x), bwd)
    for g in (fc.grad(f, argnums=1), lambda *a: fc.grad(lambda x: f(a[0], x, a[2]))(a[1])):
        np.testing.assert_allclose(g(np.sin, 0.5, {"scale": 3.0}), 3.0 * np.cos(0.5))
    np.testing.assert_allclose(fc.jit(lambda x: f(np.sin, x, {"scale": 3.0}))(0.5), 3.0 * np.sin(0.5))
    np.testing.assert_allclose(fc.vmap(fc.grad(lambda x: f(np.sin, x, {"scale": 3.0})))(XS), 3.0 * np.cos(XS))
    j = fc.custom_jvp(lambda h, x: h(x), nondiff_argnums=0)
    j.defjvp(lambda h, p, t: (h(p[0]), 10.0 * t[0]))
    assert fc.grad(lambda x: j(np.sin, x))(0.5) == 10.0 == fc.jit(fc.grad(lambda x: j(np.sin, x)))(0.5)


def test_keywords_and_defaults_arrive_by_position():
    f = fc.custom_jvp(lambda x, y=2.0: x * y)
    f.defjvp(lambda p, t: (p[0] * p[1], t[0] * p[1] + p[0] * t[1]))
    assert fc.grad(lambda x: f(x))(3.0) == 2.0
    assert fc.grad(lambda x: f(y=x, x=5.0))(3.0) == 5.0
    only = fc.custom_jvp(lambda x, *, k: x * k)
    only.defjvp(lambda p, t: None)
    with pytest.raises(TypeError, match="by keyword only"):
        fc.grad(lambda x: only(x, k=2.0))(1.0)


def test_methods_and_decorators():
    class Model:
        @functools.partial(fc.custom_jvp, nondiff_argnums=0)
        def scale(self, x):
            return x * 2.0

        @scale.defjvp
        def _(self, p, t):
            return p[0] * 2.0, t[0] * 7.0

    assert fc.grad(Model().scale)(1.0) == 7.0


@pytest.mark.filterwarnings("ignore:grad. the output of")
def test_defjvps():
    f = fc.custom_jvp(lambda x, y: x * y)
    f.defjvps(lambda t, out, x, y: t * y, None)
    assert fc.grad(f, argnums=(0, 1))(2.0, 3.0) == (3.0, 0.0)
    g = fc.custom_jvp(lambda x: {"a": x, "b": 2.0 * x})
    g.defjvps(lambda t, out, x: {"a": t, "b": 5.0 * t})
    assert fc.grad(lambda x: g(x)["b"])(1.0) == 5.0
    f.defjvps(None)
    with pytest.raises(TypeError, match="1 rule"):
        fc.grad(f)(2.0, 3.0)


def test_custom_gradient_of_pytrees():
    f = fc.custom_gradient(lambda p: (p["x"] * 2.0, lambda ct: ({"x": 5.0 * ct * p["x"]},)))
    assert fc.grad(f)({"x": 3.0}) == {"x": 15.0}
    np.testing.assert_allclose(fc.vmap(fc.grad(f))({"x": XS})["x"], 5 * XS)
    np.testing.assert_allclose(fc.hessian(f)({"x": 3.0})["x"]["x"], 5.0)


def test_complex_numbers():
    f = fc.custom_vjp(lambda z: z * z)
    f.defvjp(lambda z: (z * z, z), lambda z, ct: (2.0 * z * ct,))
    z = np.array([1 + 2j, -1j])
    loss = lambda g: lambda z: np.sum(np.real(g(z) * (2 - 1j)))
    np.testing.assert_allclose(fc.grad(loss(f))(z), fc.grad(loss(lambda z: z * z))(z))
    np.testing.assert_allclose(fc.jvp(f, (z,), (1j * z,))[1], 2j * z * z)


def test_bounded_residuals_are_protected():
    x = np.arange(3.0)
    f = fc.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, x), lambda x, ct: (2.0 * x * ct,))
    _, pull = fc.vjp(f, x)
    x[:] = 100.0  # small: it was copied
    np.testing.assert_array_equal(pull(np.ones(3))[0], [0.0, 2.0, 4.0])


def test_collectives_in_rules():
    f = fc.custom_vjp(lambda x: x / lax.psum(x, "i"))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * lax.psum(x, "i"),))
    for g in (fc.grad(f), fc.grad(fc.jit(f)), fc.jit(fc.grad(f))):
        np.testing.assert_allclose(fc.vmap(g, axis_name="i")(np.array([1.0, 3.0])), [4.0, 4.0])


def test_collectives_in_rules_of_unmapped_values():
    f = fc.custom_vjp(lambda x: x / lax.psum(x, "i"))
    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * lax.psum(x, "i"),))
    for g in (f, fc.jit(f)):
        lanes = fc.vmap(lambda y, g=g: y * fc.linearize(g, 3.0)[1](1.0), axis_name="i")
        np.testing.assert_allclose(lanes(np.ones(2)), [6.0, 6.0])
        lanes = fc.vmap(lambda y, g=g: y * fc.linearize(fc.jit(g), y)[1](1.0), axis_name="i")
        np.testing.assert_allclose(lanes(np.array([1.0, 3.0])), [4.0, 12.0])
        np.testing.assert_allclose(fc.vmap(lambda y, g=g: y * fc.grad(g)(3.0), axis_name="i")(np.ones(2)), [6.0, 6.0])


# -- errors


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["values", "jit"])
def test_wrong_results_of_bwd(wrap):
    def gradient(result):
        f = fc.custom_vjp(lambda p: p["w"] * 1.0)
        f.defvjp(lambda p: (p["w"] * 1.0, None), lambda _, ct: result(ct))
        return fc.grad(wrap(lambda p: np.sum(f(p))))({"w": XS})

    with pytest.raises(TypeError, match=r"bwd of <lambda> must return a tuple with one cotangent .* here 1; it returned"):
        gradient(lambda ct: ct)
    with pytest.raises(TypeError, match="tuple of length 2"):
        gradient(lambda ct: (ct, ct))
    with pytest.raises(TreeMismatchError, match=r"cotangent\[0\]"):
        gradient(lambda ct: ({"w": ct, "b": ct},))
    with pytest.raises(TangentMismatchError, match=r"cotangent\[0\]\['w'\] must have the shape of argument\[0\]\['w'\]"):
        gradient(lambda ct: ({"w": ct[:2]},))
    with pytest.raises(TangentMismatchError, match=r"cotangent\[0\]\['w'\] must have the dtype .* float64; got a float32"):
        gradient(lambda ct: ({"w": np.zeros(3, np.float32)},))


@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["values", "jit"])
def test_wrong_results_of_jvp_rules(wrap):
    def gradient(result):
        f = fc.custom_jvp(lambda x: {"y": x * 1.0})
        f.defjvp(lambda p, t: result(p[0] * 1.0, t[0]))
        return fc.grad(wrap(lambda x: np.sum(f(x)["y"])))(XS)

    with pytest.raises(TypeError, match=r"jvp rule of <lambda> must return a pair"):
        gradient(lambda y, t: {"y": y})
    with pytest.raises(TreeMismatchError, match="output_tangent"):
        gradient(lambda y, t: ({"y": y}, {"z": t}))
    with pytest.raises(TangentMismatchError, match=r"output_tangent\['y'\] must have the shape of output\['y'\], \(3,\)"):
        gradient(lambda y, t: ({"y": y}, {"y": t[:2]}))
    assert gradient(lambda y, t: ({"y": y}, {"y": 2.0 * t})).tolist() == [2.0] * 3


def test_wrong_results_of_fwd():
    f = fc.custom_vjp(lambda x: x)
    f.defvjp(lambda x: x * 2.0, lambda _, ct: (ct,))
    with pytest.raises(TypeError, match="fwd of <lambda> must return a pair"):
        fc.grad(f)(1.0)


def test_missing_rules_and_refused_options():
    with pytest.raises(TypeError, match="has no rule yet"):
        fc.custom_jvp(lambda x: x)(1.0)
    with pytest.raises(TypeError, match="has no reverse rule yet"):
        fc.custom_vjp(lambda x: x)(1.0)
    with pytest.raises(NotImplementedError, match="symbolic_zeros"):
        fc.custom_jvp(lambda x: x).defjvp(lambda p, t: (p, t), symbolic_zeros=True)
    with pytest.raises(NotImplementedError, match="optimize_remat"):
        fc.custom_vjp(lambda x: x).defvjp(None, None, optimize_remat=True)
    with pytest.raises(TypeError, match="takes a function"):
        fc.custom_vjp(3.0)
    f = fc.custom_vjp(lambda x: x, nondiff_argnums=3)
    f.defvjp(lambda x: (x, None), lambda _, ct: (ct,))
    with pytest.raises(ValueError, match="nondiff_argnums"):
        fc.grad(f)(1.0)


def test_forward_mode_of_a_bwd_that_is_not_linear():
    f = fc.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (np.tanh(ct),))
    assert fc.grad(f)(1.0) == np.tanh(1.0)
    with pytest.raises(MissingRuleError) as caught:
        fc.jvp(f, (1.0,), (1.0,))
    assert any("not linear in the cotangent" in note for note in caught.value.__notes__)


def closing_over(part):
    def outer(weight):
        f = fc.custom_vjp(lambda x: x * weight if part == "f" else x * 1.0)
        f.defvjp(
            lambda x: (x * (weight if part == "fwd" else 1.0), None),
            lambda _, ct: (ct * (weight if part == "bwd" else 1.0),),
        )
        return f(weight * 2.0)

    return outer


@pytest.mark.parametrize("part", ["f", "fwd", "bwd"])
def test_closures_over_traced_values_are_refused(part):
    outer = closing_over(part)
    transforms = [lambda f: fc.vmap(fc.grad(fc.jit(f)), axis_size=2, in_axes=None)]
    if part != "f":  # on values f is not called
        transforms = [fc.grad, lambda f: fc.jit(fc.grad(f)), lambda f: fc.grad(fc.jit(f))]
    for transform in transforms:
        with pytest.raises(CustomRuleClosureError, match="closes over the variable 'weight', which is being traced"):
            transform(outer)(1.0)


def test_closures_without_traced_arguments_are_refused():
    def outer(weight):
        f = fc.custom_jvp(lambda x: x * weight)
        f.defjvp(lambda p, t: (f(*p), t[0]))
        return f(2.0)

    with pytest.raises(CustomRuleClosureError, match="'weight'"):
        fc.grad(outer)(1.0)


def test_traced_nondiff_arguments_are_refused():
    f = fc.custom_jvp(lambda n, x: n * x, nondiff_argnums=0)
    f.defjvp(lambda n, p, t: (n * p[0], n * t[0]))
    with pytest.raises(CustomRuleClosureError, match="argument 0 is in nondiff_argnums"):
        fc.grad(lambda x: f(x, x))(1.0)


def test_rules_that_write_their_tangent_into_a_buffer():
    @fc.custom_jvp
    def f(x):
        return np.sin(x)

    @f.defjvp
    def _(primals, tangents):
        (x,), (t,) = primals, tangents
        out = np.zeros(3)
        for i in range(3):
            out[i] = np.cos(x[i]) * t[i]
        return np.sin(x), out

    x, v = np.array([0.3, 1.3, 2.3]), np.array([1.0, 2.0, 3.0])
    inner = lambda x: fc.jvp(f, (x,), (v,))[1]
    np.testing.assert_allclose(fc.jvp(inner, (x,), (v,))[1], -np.sin(x) * v * v, rtol=1e-12)
    np.testing.assert_allclose(fc.grad(lambda x: inner(x).sum())(x), -np.sin(x) * v, rtol=1e-12)


@pytest.mark.parametrize("kind", [fc.custom_jvp, fc.custom_vjp])
@pytest.mark.parametrize("make", [fc.jacfwd, fc.jacrev, lambda f: fc.jacfwd(fc.jit(f)), lambda f: fc.jit(fc.jacfwd(f))])
@pytest.mark.parametrize("shape", [(1,), (2,)])
def test_a_buffer_without_derivative_is_an_argument_like_others(kind, make, shape):
    """An array made in the function, which has been written with numbers only, is traced by nobody when f is called."""

    @kind
    def f(x):
        return np.sin(x)

    if kind is fc.custom_jvp:
        f.defjvps(lambda t, out, x: np.cos(x) * t)
    else:
        f.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (np.cos(x) * ct,))

    def g(x):
        y = np.zeros_like(x)
        y[0] = 2.0
        return x * f(y) + f(np.empty_like(x) * 0)

    y = np.zeros(shape)
    y[0] = 2.0
    np.testing.assert_allclose(make(g)(np.ones(shape)), np.diag(np.sin(y)), rtol=1e-12)


def _doubling(kind, buffer, other):
    def twice(x):
        return np.multiply(x, 2, out=buffer)

    def by_jvp(primals, tangents):
        np.cos(primals[0], out=other)
        return twice(primals[0]), 2 * tangents[0] * other / np.cos(primals[0])

    if kind == "jvp":
        f = fc.custom_jvp(twice)
        f.defjvp(by_jvp)
    elif kind == "gradient":
        return fc.custom_gradient(lambda x: (twice(x), lambda ct: 2 * ct))
    elif kind == "primitive":
        f = primitive(twice)
        defvjp(f, lambda ans, x: lambda g: 2 * g)
    elif kind == "two results":
        f = fc.custom_vjp(lambda x: (x * 2, x))
        f.defvjp(lambda x: ((twice(x), np.cos(x, out=other)), None), lambda _, ct: (2 * ct[0],))
        return lambda x: f(x)[0]
    else:
        f = fc.custom_vjp(twice)
        f.defvjp(lambda x: (twice(x), None), lambda _, ct: (2 * ct,))
    return f


@pytest.mark.parametrize("n", [3, 20_000])
@pytest.mark.parametrize("kind", ["vjp", "jvp", "gradient", "primitive", "two results"])
def test_a_rule_may_use_its_arrays_again(kind, n):
    """What a derivative keeps of small ones is copied; large ones are locked, which says so."""
    f, x = _doubling(kind, np.zeros(n), np.zeros(n)), np.linspace(0.1, 1, n)
    slope = fc.grad(lambda x: np.sum(f(x) ** 2) + np.sum(np.sin(f(x * 3))))
    if n == 3:
        np.testing.assert_allclose(slope(x), 8 * x + 6 * np.cos(6 * x))
    else:
        with pytest.raises(ValueError, match="read-only"):
            slope(x)


@fc.custom_jvp
def ordered(y):
    if len(y) > 100:
        warnings.warn("many", stacklevel=2)
    return fc.pure_callback(np.sort, fc.ShapeDtypeStruct(y.shape, y.dtype), y, vmap_method="sequential")


@ordered.defjvp
def _ordered_slope(primals, tangents):
    (y,), (v,) = primals, tangents
    return ordered(y), v[np.argsort(y)]


def test_a_rule_may_call_its_function_which_runs_as_a_twin():
    """What it gives is lent to the rule, and is a value for all that."""
    x = np.array([3.0, 1.0, 2.0])
    value, tangent = fc.jvp(ordered, (x,), (np.array([1.0, 2.0, 3.0]),))
    np.testing.assert_array_equal(value, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(tangent, [2.0, 3.0, 1.0])
    np.testing.assert_array_equal(fc.grad(lambda x: ordered(x) @ np.array([5.0, 6.0, 7.0]))(x), [7.0, 5.0, 6.0])


def _of_zero_slope(kind):
    if kind == "primitive":
        product = primitive(lambda a, x: a * x)
        defvjp(product, lambda ans, a, x: lambda g: g * x, None)
        return lambda x: product(2.0, x)
    f = fc.custom_vjp(lambda x: 2 * x)
    f.defvjp(lambda x: (2 * x, None), lambda _, ct: (None,))
    return f


@pytest.mark.filterwarnings("ignore:grad:UserWarning")
@pytest.mark.parametrize("kind", ["primitive", "custom_vjp"])
@pytest.mark.parametrize(
    "way",
    [
        lambda f, x: fc.grad(f)(x),
        lambda f, x: fc.value_and_grad(f)(x)[1],
        lambda f, x: fc.autograd.grad(f)(x),
        lambda f, x: fc.vmap(fc.grad(f))(np.array([x, x]))[1],
        lambda f, x: fc.autograd.elementwise_grad(f)(np.array([x, x]))[1],
        lambda f, x: fc.grad(lambda v: np.sum(f(v)))(np.array([x, x]))[1],
        lambda f, x: fc.jit(fc.grad(f))(x),
        lambda f, x: [slope(v) for slope in [fc.jit(fc.grad(f))] for v in (x, 1.0, 2.0)][2],
        lambda f, x: fc.jvp(fc.grad(f), (x,), (1.0,))[1],
        lambda f, x: fc.grad(fc.grad(f))(x),
        lambda f, x: fc.grad(lambda p: f(p["x"]))({"x": x})["x"],
    ],
)
def test_none_of_a_rule_is_zero(kind, way):
    slope = way(_of_zero_slope(kind), 3.0)
    assert slope == 0.0 and slope.dtype == np.float64


def test_a_rule_that_differentiates_a_mapped_function_which_makes_arrays_of_lists():
    def f(x, s):
        return np.sum(np.array([[s, x[0]], [x[1], s]]) ** 2)

    def mapped(x, s):
        return np.sum(fc.vmap(f, in_axes=(0, None))(np.stack([x, x]), s))

    h = fc.custom_jvp(mapped)
    h.defjvp(lambda primals, tangents: fc.jvp(mapped, primals, tangents))
    x = np.array([1.0, -0.5])
    for way in (fc.grad(h), fc.jit(fc.grad(h)), lambda x, s: fc.jvp(fc.grad(h), (x, s), (x, 0.0))[0]):
        np.testing.assert_allclose(way(x, 0.8), 4 * x)


def test_a_call_that_is_linear_has_a_transpose():
    triple, sine = [fc.custom_vjp(f) for f in (lambda x: 3.0 * x, np.sin)]
    triple.defvjp(lambda x: (3.0 * x, None), lambda _, ct: (3.0 * ct,))
    sine.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (np.cos(x) * ct,))
    ct = np.array([1.0, -2.0])
    np.testing.assert_array_equal(fc.linear_transpose(lambda x: triple(x) - x, ct)(ct)[0], 2.0 * ct)
    with pytest.raises(MissingRuleError, match="not linear in these operands"):
        fc.linear_transpose(sine, ct)(ct)
    integral = lambda a: integrate.quad(lambda t: np.exp(-a * t), 0.0, np.inf)[0]  # computed by a callback
    assert fc.linear_transpose(lambda t: fc.jvp(integral, (2.0,), (t,))[1], 1.0)(3.0)[0] == pytest.approx(-0.75)
