"""checkpoint: values and derivatives in every nesting, what is kept and what runs again (counted), memory, names."""

import math
import tracemalloc

import numpy as np
import pytest

import funcad as fc
from funcad import checkpoint_policies as policies
from funcad.backends.interpreter import counters
from funcad.control.checkpoint import saved_residuals
from funcad.errors import MissingRuleError, TracerBoolConversionError

X = np.array([0.3, -0.7, 1.1])


def body(x):
    return np.sin(fc.checkpoint_name(np.cos(np.exp(x) * 0.5), "cosine") + x)


POLICIES = {
    "none": None,
    "everything": policies.everything_saveable,
    "nothing": policies.nothing_saveable,
    "dots": policies.dots_saveable,
    "names": policies.save_only_these_names("cosine"),
    "all but names": policies.save_anything_except_these_names("cosine"),
}

USES = {
    "value": lambda f: f(X),
    "grad": lambda f: fc.grad(lambda x: np.sum(f(x)))(X),
    "jit grad": lambda f: fc.jit(fc.grad(lambda x: np.sum(f(x))))(X),
    "grad jit": lambda f: fc.grad(fc.jit(lambda x: np.sum(f(x))))(X),
    "inner jit": lambda f: fc.grad(lambda x: np.sum(fc.jit(f)(x)))(X),
    "jvp": lambda f: fc.jvp(f, (X,), (X,)),
    "linearize": lambda f: fc.linearize(f, X)[1](X),
    "vmap grad": lambda f: fc.vmap(fc.grad(f))(X),
    "grad vmap": lambda f: fc.grad(lambda x: np.sum(fc.vmap(f)(x)))(X),
    "hessian": lambda f: fc.hessian(lambda x: np.sum(f(x)))(X),
    "forward forward": lambda f: fc.jacfwd(fc.jacfwd(lambda x: np.sum(f(x))))(X),
    "reverse reverse": lambda f: fc.jacrev(fc.jacrev(lambda x: np.sum(f(x))))(X),
    "reverse forward": lambda f: fc.jacrev(fc.jacfwd(f))(X),
    "jit hessian jit": lambda f: fc.jit(fc.hessian(fc.jit(lambda x: np.sum(f(x)))))(X),
    "vmap hessian": lambda f: fc.vmap(fc.hessian(f))(X),
    "grad grad": lambda f: fc.grad(fc.grad(f))(1.0),
    "nested": lambda f: fc.grad(lambda x: np.sum(fc.checkpoint(lambda x: f(f(x) * x))(x)))(X),
    "closure": lambda f: fc.grad(lambda a: np.sum(fc.checkpoint(lambda x: f(a * x))(X)))(2.0),
    "scan": lambda f: fc.grad(lambda x: np.sum(fc.scan(lambda c, a: (f(c) * a, f(a)), x, X)[0]))(X),
    "while": lambda f: fc.grad(lambda x: fc.while_loop(lambda s: s[0] < 2, lambda s: (s[0] + 1, f(s[1])), (0, x))[1])(0.4),
    "cond": lambda f: fc.grad(lambda x: fc.cond(x > 0, f, lambda x: f(2 * x), x))(0.4),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("use", USES)
def test_every_nesting(use, policy):
    found, wanted = USES[use](fc.checkpoint(body, policy=POLICIES[policy])), USES[use](body)
    for a, b in zip(fc.tree.leaves(found), fc.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)


# -- counting executions


def counting():
    """The identity, differentiable, and how often it ran."""
    runs = []

    def note(x):
        runs.append(1)
        return x

    f = fc.custom_jvp(lambda x: fc.pure_callback(note, x, x))
    f.defjvp(lambda p, t: (f(p[0]), t[0]))
    return f, runs


@pytest.mark.parametrize("wrap", [lambda g: g, fc.jit], ids=["values", "jit"])
@pytest.mark.parametrize(
    "policy, expected",
    [
        (None, 2),
        (policies.nothing_saveable, 2),
        (policies.everything_saveable, 1),
        (policies.save_only_these_names("kept"), 1),
        (policies.save_only_these_names("other"), 2),
        (policies.save_any_names_but_these("other"), 1),
        (policies.save_anything_except_these_names("kept"), 1),
        (policies.save_from_both_policies(policies.nothing_saveable, policies.save_only_these_names("kept")), 1),
    ],
)
def test_what_is_kept_does_not_run_again(policy, expected, wrap):
    count, runs = counting()

    def f(x):
        return np.sum(np.sin(fc.checkpoint_name(count(np.cos(x)), "kept")))

    g = fc.checkpoint(f, policy=policy)
    gradient = wrap(fc.grad(g))(X)
    np.testing.assert_allclose(gradient, -np.cos(np.cos(X)) * np.sin(X))
    assert len(runs) == expected
    runs.clear()
    fc.jvp(g, (X,), (X,))  # forward mode needs nothing again
    assert len(runs) == 1
    runs.clear()
    g(X)
    assert len(runs) == 1


def test_what_nobody_needs_does_not_run_again():
    count, runs = counting()
    f = fc.checkpoint(lambda x: np.sum(3.0 * count(np.sin(x))))  # linear after the callback: only x is needed
    fc.grad(f)(X)
    assert len(runs) == 1


def test_dots_are_kept():
    weights = np.ones((3, 3))
    batched = np.ones((2, 3, 3))
    f = lambda x: np.sum(np.sin(np.sin(x) @ weights))
    g = lambda x: np.sum(np.sin(np.matmul(np.sin(x), batched)))
    no_batch = policies.dots_with_no_batch_dims_saveable
    kept = lambda f, p: [text for _, text in saved_residuals(fc.checkpoint(f, policy=p), np.ones((2, 3, 3)))]
    assert any("dot_general" in t for t in kept(f, policies.dots_saveable))
    assert any("dot_general" in t for t in kept(f, no_batch))
    assert any("dot_general" in t for t in kept(g, policies.dots_saveable))
    assert not any("dot_general" in t for t in kept(g, no_batch))
    assert not any("dot_general" in t for t in kept(f, None))


def test_names_are_found_inside_jitted_functions():
    inner = fc.jit(lambda x: fc.checkpoint_name(np.cos(x), "kept"))
    f = fc.checkpoint(lambda x: np.sum(np.sin(inner(x))), policy=policies.save_only_these_names("kept"))
    assert [t.split(" from ")[0] for _, t in saved_residuals(f, X)] == ["from the argument x", "named 'kept'"]


def test_effects_happen_once(capsys):
    def f(x):
        fc.debug.print("x = {}", x)
        y = fc.io_callback(lambda v: print("io") or v, 1.0, 1.0)
        return np.sin(np.sin(x)) * y

    for g in (fc.checkpoint(f), fc.checkpoint(fc.jit(f)), fc.checkpoint(f, policy=policies.everything_saveable)):
        for h in (fc.grad(g), fc.jit(fc.grad(g))):
            h(0.5)
            out = capsys.readouterr().out
            assert out.count("x = ") == out.count("io") == 1


@pytest.mark.parametrize("policy", [None, fc.checkpoint_policies.everything_saveable, fc.checkpoint_policies.memory_budget(64)])
def test_effects_in_loops_happen_once(capsys, policy):
    given = iter(range(1, 100))

    def looped(io):
        def step(c, _):
            fc.debug.print("c = {}", c)
            return np.sin(c * (fc.io_callback(lambda: float(next(given)), 1.0, ordered=True) if io else 1.0)), None

        return fc.checkpoint(lambda x: np.sin(fc.scan(step, 2.0 * x, X)[0]) ** 2, policy=policy)

    fc.grad(looped(False))(0.5)
    assert capsys.readouterr().out.count("c = ") == 3
    for wrap in (fc.grad, lambda f: fc.jit(fc.grad(f)), lambda f: fc.grad(fc.jit(f)), fc.grad):
        first = next(given) + 1
        found = wrap(looped(True))(0.5)
        assert next(given) == first + 3 and capsys.readouterr().out.count("c = ") == 3
        close = fc.grad(lambda x, k=first: np.sin(np.sin(np.sin(np.sin(2.0 * x * k) * (k + 1)) * (k + 2))) ** 2)(0.5)
        assert np.isclose(found, close, rtol=1e-12)


# -- memory


def chain(x, wrap):
    def layer(x):
        for _ in range(8):
            x = np.tanh(x)
        return x

    for _ in range(8):
        x = wrap(layer)(x)
    return np.sum(x)


def peak(wrap):
    x = np.full(100_000, 0.5)
    g = fc.grad(lambda x: chain(x, wrap))
    g(x)
    tracemalloc.start()
    try:
        g(x)
        return tracemalloc.get_traced_memory()[1] / x.nbytes
    finally:
        tracemalloc.stop()


def test_peak_memory_falls_as_predicted():
    without, with_checkpoint = peak(lambda f: f), peak(fc.checkpoint)
    assert without >= 62  # 64 activations are kept
    assert with_checkpoint <= 8 + 8 + 6  # the inputs of 8 layers, the activations of one, working space


# -- the public function


def test_static_arguments_keywords_and_pytrees():
    @fc.checkpoint
    def f(p, *, scale):
        return {"y": p["x"] * scale}

    assert fc.grad(lambda x: f({"x": x}, scale=3.0)["y"])(2.0) == 3.0

    def g(x, n, mode="sin"):
        for _ in range(n):
            x = np.sin(x) if mode == "sin" else np.cos(x)
        return x

    for h in (fc.checkpoint(g, static_argnums=(1, 2)), fc.checkpoint(g, static_argnames=("n", "mode"))):
        np.testing.assert_allclose(fc.grad(h)(0.5, 2), np.cos(np.sin(0.5)) * np.cos(0.5))
        np.testing.assert_allclose(fc.grad(lambda x, h=h: h(x, 1, mode="cos"))(0.5), -np.sin(0.5))


def test_decorator_with_options_and_refused_arguments():
    @fc.remat(policy=policies.everything_saveable, prevent_cse=False)
    def f(x):
        return np.sin(x)

    assert f.__name__ == "f" and fc.grad(f)(0.0) == 1.0
    with pytest.raises(TypeError, match="takes a function"):
        fc.checkpoint(3.0)
    with pytest.raises(TypeError, match="checkpoint_policies"):
        fc.checkpoint(np.sin, policy="everything")
    with pytest.raises(TypeError, match="must be a string"):
        fc.checkpoint_name(X, 3)
    with pytest.raises(TracerBoolConversionError, match="checkpoint"):
        fc.grad(fc.checkpoint(lambda x: x if x > 0 else -x))(1.0)


def test_without_traced_values_it_is_a_plain_call():
    seen = []
    f = fc.checkpoint(lambda x: seen.append(type(x)) or x)
    f(1.0)
    assert seen == [float]


def test_closed_over_weights_are_checkpointed_too():
    w = np.ones(3)
    g = lambda w: np.sum(fc.checkpoint(lambda: np.sin(np.cos(w) * 2.0))())
    np.testing.assert_allclose(fc.grad(g)(w), 2 * np.sin(1.0) * -np.cos(2 * np.cos(1.0)) * np.ones(3))
    assert [text for _, text in saved_residuals(g, w)] == ["from the argument w"]


def test_print_saved_residuals(capsys):
    def f(p, x):
        return np.sum(fc.checkpoint_name(np.sin(p["w"] * x), "hidden") * x)

    fc.print_saved_residuals(f, {"w": X}, x=X)
    lines = capsys.readouterr().out.splitlines()
    three = "float64 array of shape (3,)"
    assert f"{three} from the argument p['w']" in lines and f"{three} from the argument x" in lines
    assert any(line.startswith(f"{three} named 'hidden' from ") and "test_checkpoint.py" in line for line in lines)
    fc.print_saved_residuals(fc.checkpoint(f), {"w": X}, X)
    assert capsys.readouterr().out.splitlines() == [f"{three} from the argument p['w']", f"{three} from the argument x"]


def test_the_printed_program_is_marked():
    text = str(fc.make_jaxpr(fc.grad(lambda x: np.sum(fc.checkpoint(body)(x))))(X))
    assert text.count("= checkpoint") == 2


def test_results_of_callbacks_have_no_derivative_here_either():
    """They are kept for the backward pass, but they are no constants."""
    f = lambda x: x * fc.io_callback(lambda v: 2 * np.asarray(v), 1.0, x)
    for g in (fc.grad(f), fc.grad(fc.checkpoint(f)), fc.jit(fc.grad(fc.checkpoint(f)))):
        with pytest.raises(MissingRuleError, match="io_callback has no derivative rule"):
            g(3.0)
    assert fc.grad(fc.checkpoint(lambda x: x * fc.io_callback(lambda: 2.0, 1.0)))(3.0) == 2.0


# -- a `try` in a function outside of loops sees what an operation raises, with the values that raised


def factored(t):
    a = np.array([[t, 2.0], [2.0, t]])
    try:
        return np.sum(np.linalg.cholesky(a))
    except np.linalg.LinAlgError:
        return np.sum(np.linalg.cholesky(a + 9.0 * np.eye(2)))


def checked(t):
    try:
        np.linalg.cholesky(np.array([[t, 2.0], [2.0, t]]))
    except np.linalg.LinAlgError:
        return t * t * 3.0
    return t * t


def logarithm(t):
    try:
        return math.log(t - 2.0) * t
    except ValueError:
        return t * t


@pytest.mark.parametrize("f", [factored, checked, logarithm])
@pytest.mark.parametrize("t", [1.0, 5.0])
def test_a_try_sees_what_raises(f, t):
    g = fc.checkpoint(f)
    value, slope, second = f(t), fc.grad(f)(t), fc.grad(fc.grad(f))(t)
    jitted, slopes = fc.jit(g), fc.jit(fc.grad(g))
    expected = {value: [g(t), jitted(t), jitted(t), jitted(t)]}
    expected[slope] = [fc.grad(g)(t), fc.jvp(g, (t,), (1.0,))[1], slopes(t), slopes(t), slopes(t), fc.grad(jitted)(t)]
    for exact, found in expected.items():
        np.testing.assert_allclose(found, [exact] * len(found), rtol=1e-12)
    assert fc.grad(fc.grad(g))(t) == pytest.approx(second, rel=1e-9, abs=1e-12)
    lanes = np.array([t, 5.0, 1.0, t])
    for transformed, plain in ((g, f), (fc.grad(g), fc.grad(f))):
        np.testing.assert_allclose(fc.vmap(transformed)(lanes), [plain(lane) for lane in lanes], rtol=1e-12)


def test_what_nobody_catches_is_the_plain_error():
    f = lambda t: np.sum(np.linalg.cholesky(t * np.ones((2, 2)) - np.eye(2)))
    for g in (fc.grad(fc.checkpoint(f)), fc.jit(fc.grad(fc.checkpoint(f)))):
        with pytest.raises(np.linalg.LinAlgError) as caught:
            g(1.0)
        assert caught.value.__context__ is None


def test_what_raises_after_an_effect_does_not_run_again(capsys):
    def f(t):
        fc.debug.print("once")
        return factored(t)

    with pytest.raises(np.linalg.LinAlgError):
        fc.grad(fc.checkpoint(f))(1.0)
    assert capsys.readouterr().out == "once\n"


def test_each_call_uses_the_programs_of_the_first():
    layer = fc.checkpoint(body, policy=policies.everything_saveable)
    g = fc.grad(lambda x: np.sum(layer(layer(x))))
    expected = fc.grad(lambda x: np.sum(body(body(x))))(X)
    np.testing.assert_array_equal([g(X), g(X)], [expected] * 2)
    before = counters["programs"]
    np.testing.assert_array_equal(g(X + 0.0), expected)
    assert counters["programs"] == before
