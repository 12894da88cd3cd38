"""custom_vmap and closure_convert."""

import functools

import numpy as np
import pytest

import funcad as fc
from tests.unseen import unseen

XS = np.array([0.3, -0.7, 1.1])


def plain(x, y):
    return np.sin(x) * y


def mapped():
    calls = []
    note = unseen(lambda *given: calls.append(given))
    f = fc.custom_vmap(plain)

    @f.def_vmap
    def rule(size, batched, x, y):
        note(size, batched)
        return np.sin(x) * y, batched[0] or batched[1]

    return f, calls


def test_custom_vmap():
    f, calls = mapped()
    assert f(1.0, 2.0) == plain(1.0, 2.0)
    np.testing.assert_allclose(fc.vmap(f)(XS, XS), plain(XS, XS))
    np.testing.assert_allclose(fc.vmap(f, in_axes=(None, 0))(0.5, XS), plain(0.5, XS))
    assert calls == [(3, [True, True]), (3, [False, True])]
    calls.clear()
    np.testing.assert_allclose(fc.jit(fc.vmap(f))(XS, XS), plain(XS, XS))
    out, tangent = fc.vmap(lambda x, t: fc.jvp(lambda x: f(x, x), (x,), (t,)))(XS, 2 * XS)
    np.testing.assert_allclose(tangent, (np.cos(XS) * XS + np.sin(XS)) * 2 * XS)
    np.testing.assert_allclose(fc.grad(lambda x: np.sum(fc.vmap(f)(x, XS)))(XS), np.cos(XS) * XS)
    assert len(calls) == 3
    np.testing.assert_allclose(fc.vmap(fc.grad(f))(XS, XS), np.cos(XS) * XS)
    np.testing.assert_allclose(fc.vmap(fc.vmap(f))(np.ones((2, 3)), np.ones((2, 3))), np.full((2, 3), np.sin(1.0)))


def test_custom_vmap_rule_is_checked():
    f = fc.custom_vmap(lambda x: x)
    f.def_vmap(lambda n, b, x: x)
    with pytest.raises(TypeError, match="must return a pair"):
        fc.vmap(f)(XS)
    f.def_vmap(lambda n, b, x: ((x, x), True))
    with pytest.raises(ValueError, match="must return what the function returns"):
        fc.vmap(f)(XS)
    f.def_vmap(lambda n, b, x: (x[:2], True))
    with pytest.raises(ValueError, match="axis 0 must have size 3"):
        fc.vmap(f)(XS)
    with pytest.raises(TypeError, match="no rule yet"):
        fc.custom_vmap(lambda x: x)(1.0)


def test_pullbacks_are_containers_of_what_they_keep():
    f = lambda x: np.sum(np.sin(x) * x)
    x, both = np.arange(3.0), np.stack([np.arange(3.0), np.arange(3.0) + 1])
    expected = fc.grad(f)(x)
    np.testing.assert_allclose(fc.jit(lambda x: fc.vjp(f, x)[1])(x)(1.0)[0], expected)
    np.testing.assert_allclose(fc.jit(lambda pull, ct: pull(ct))(fc.vjp(f, x)[1], 2.0)[0], 2 * expected)
    mapped = fc.vmap(lambda x: fc.vjp(f, x)[1])(both)
    with pytest.raises(ValueError, match="have other shapes or dtypes than when it was made(.|\n)*call it inside"):
        mapped(1.0)
    np.testing.assert_allclose(fc.vmap(lambda pull, ct: pull(ct), (0, None))(mapped, 1.0)[0], fc.vmap(fc.grad(f))(both))


def test_closure_convert():
    @functools.partial(fc.custom_vjp, nondiff_argnums=0)
    def apply(h, x, *values):
        return h(x, *values)

    def fwd(h, x, *values):
        out, pull = fc.vjp(h, x, *values)
        return out, (pull, x)

    apply.defvjp(fwd, lambda h, residuals, ct: residuals[0](ct))

    def loss(a, x):
        h, values = fc.closure_convert(lambda x: np.sin(a * x), x)
        return apply(h, x, *values)

    for g in (fc.grad(loss, (0, 1)), fc.jit(fc.grad(loss, (0, 1))), fc.grad(fc.jit(loss), (0, 1))):
        np.testing.assert_allclose(g(2.0, 0.3), [0.3 * np.cos(0.6), 2 * np.cos(0.6)])
    np.testing.assert_allclose(fc.vmap(fc.grad(loss), in_axes=(None, 0))(2.0, XS), XS * np.cos(2 * XS))
    converted, values = fc.closure_convert(lambda x: x + XS, XS)
    assert values == []
    np.testing.assert_array_equal(converted(XS), 2 * XS)
    with pytest.raises(TypeError, match="takes 1 argument"):
        converted(XS, XS)


class Model:
    """A callable object whose attributes have the names of our methods."""

    def __init__(self):
        self.defvjp = self.defjvp = self.def_vmap = self.fun = self._call = "mine"

    def __call__(self, x):
        return x * 3.0


def test_attributes_of_callable_objects_hide_nothing():
    twice = fc.custom_jvp(Model())
    twice.defjvp(lambda primals, tangents: (primals[0] * 3.0, tangents[0] * 4.0))
    assert fc.grad(twice)(1.0) == 4.0
    back = fc.custom_vjp(Model())
    back.defvjp(lambda x: (x * 3.0, None), lambda residuals, ct: (ct * 5.0,))
    assert fc.grad(back)(1.0) == 5.0
    mapped = fc.custom_vmap(Model())
    mapped.def_vmap(lambda size, batched, x: (x * 6.0, True))
    np.testing.assert_array_equal(fc.vmap(mapped)(np.ones(2)), [6.0, 6.0])
    assert fc.jit(fc.grad(Model()))(1.0) == 3.0


def times_hundred():
    """A function whose rule shows in its result, and the batches that the rule was given."""
    batches = []
    note = unseen(lambda *given: batches.append(given))
    f = fc.custom_vmap(lambda x, w: x * w)

    @f.def_vmap
    def rule(size, batched, x, w):
        note(size, list(batched))
        return 100 * x * w, batched[0] or batched[1]

    return f, batches


def by_its_result(f, x):
    y = f(x, 2.0)
    return y if y > 300 else -y


def one_way(f, x):
    return f(x, 2.0) if x > 1.5 else 0 * x


def in_jit(f, x):
    return fc.jit(f)(x, 2.0) if x > 1.5 else 0 * x


def in_loop(f, x):
    return fc.fori_loop(0, 1, lambda i, c: f(c, 2.0), x) if x > 1.5 else 0 * x


def in_vmap(f, x):
    return fc.vmap(f, (0, None))(np.stack([x, x]), 2.0)[1] if x > 1.5 else 0 * x


def by_error(f, x):
    try:
        if x < 1.5:
            raise ValueError
        return f(x, 2.0)
    except ValueError:
        return 0 * x


def catching_all(f, x):
    try:
        return f(x, 2.0) if x > 1.5 else 0 * x
    except BaseException:  # noqa: B036 as users write it
        return -x


WAYS = [one_way, in_jit, in_loop, in_vmap, by_error, catching_all]


@pytest.mark.parametrize("xs", [[1.0, 2.0, 3.0], [1.0, 1.0, 3.0], [3.0]], ids=str)
@pytest.mark.parametrize("way", WAYS, ids=lambda f: f.__name__)
def test_lanes_that_part_keep_the_rule(way, xs):
    f, batches = times_hundred()
    expected = [200 * x if x > 1.5 else 0 for x in xs]
    for _ in range(3):
        np.testing.assert_array_equal(fc.vmap(functools.partial(way, f))(np.array(xs)), expected)
    assert all([batched == [True, False] for _, batched in batches])
    rows = np.array([xs, xs[::-1]])
    np.testing.assert_array_equal(fc.vmap(fc.vmap(functools.partial(way, f)))(rows), [expected, expected[::-1]])


def test_lanes_part_by_what_the_rule_gave():
    f, _ = times_hundred()
    for _ in range(3):
        np.testing.assert_array_equal(fc.vmap(functools.partial(by_its_result, f))(np.arange(1.0, 4.0)), [-200, 400, 600])
    of_each = lambda x: f(x, float(x))
    np.testing.assert_array_equal(fc.vmap(of_each)(np.arange(20.0)), 100 * np.arange(20.0) ** 2)
    np.testing.assert_array_equal(fc.vmap(fc.grad(functools.partial(one_way, f)))(np.arange(1.0, 4.0)), [0, 2, 2])
    pushed = lambda x: fc.jvp(lambda y: f(y, 2.0), (x,), (1.0,))[1] if x > 2.5 else 0 * x
    np.testing.assert_array_equal(fc.vmap(pushed)(np.arange(1.0, 4.0)), [0, 0, 200])


def test_jit_that_was_compiled_before_keeps_the_rule_in_a_lane():
    f, _ = times_hundred()
    compiled = fc.jit(lambda x, w: f(x, w))
    for _ in range(10):
        assert compiled(1.0, 2.0) == 2.0
    one = lambda x: compiled(x, 2.0) if x > 2.5 else 0 * x
    for _ in range(3):
        np.testing.assert_array_equal(fc.vmap(one)(np.arange(1.0, 4.0)), [0, 0, 600])


@pytest.mark.parametrize("calls", [0, 1, 3, 40])
def test_jit_along_paths_keeps_the_rule_in_a_lane(calls):
    f, _ = times_hundred()
    compiled = fc.jit(lambda x, w: f(x, w) if x > 0 else f(-x, 3.0))
    for i in range(calls):
        assert compiled(1.0 if i % 2 else -1.0, 2.0) == (2.0 if i % 2 else 3.0)
    one = lambda x: compiled(x, 2.0) if abs(x) > 1.5 else 0 * x
    for _ in range(3):
        np.testing.assert_array_equal(fc.vmap(one)(np.array([1.0, 2.0, -3.0])), [0, 400, 900])
    assert calls == 0 or compiled(1.0, 2.0) == 2.0


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("asks", [False, True])
def test_jit_with_effects_keeps_the_rule_in_a_lane(asks, known):
    """What has happened while it was traced does not happen again."""
    f, _ = times_hundred()
    seen = []
    note = unseen(lambda v: seen.append(float(v)))

    def acting(x):
        fc.debug.callback(note, x)
        y = 2 * x if asks and x > 2.5 else x
        return f(y, 2.0)

    compiled = fc.jit(acting)
    for _ in range(10 if known else 0):
        compiled(1.0)
    for _ in range(4):
        seen.clear()
        one = lambda x: compiled(x) if x > 1.5 else 0 * x
        np.testing.assert_array_equal(fc.vmap(one)(np.arange(1.0, 4.0)), [0, 400, 1200 if asks else 600])
        assert seen == [2.0, 3.0]


def test_jit_of_what_has_no_rule_is_compiled_in_a_lane():
    times_hundred()
    runs = []
    note = unseen(lambda: runs.append(0))

    def plain(x):
        note()
        return np.sin(x) * 2.0

    compiled = fc.jit(plain)
    ways = {1.0: np.cos, 2.0: np.exp, 3.0: np.tanh}
    one = lambda x: compiled(ways[float(x)](x))
    for _ in range(10):
        np.testing.assert_allclose(fc.vmap(one)(np.arange(1.0, 4.0)), [2 * np.sin(ways[x](x)) for x in (1.0, 2.0, 3.0)])
    assert compiled.cache_info().hits > 20 and len(runs) < 6


def test_an_error_of_the_rule_is_no_reason_to_do_without_it():
    f = fc.custom_vmap(lambda x: x * 1)
    f.def_vmap(lambda n, b, x: 1 / 0)
    for one in (f, lambda x: f(x) if x > 2.5 else x, lambda x: fc.jit(f)(x)):
        mapped = fc.vmap(one)
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                mapped(np.arange(1.0, 4.0))


@pytest.mark.parametrize("call", [one_way, in_jit, in_vmap], ids=lambda f: f.__name__)
def test_lanes_with_effects_keep_the_rule(call):
    f, _ = times_hundred()
    seen = []

    def effect_first(x):
        fc.debug.callback(unseen(lambda v: seen.append(float(v))), x)
        return call(f, x)

    def rule_first(x):
        y = f(x, 2.0)
        fc.debug.callback(unseen(lambda v: seen.append(float(v))), x)
        return y if x > 1.5 else 0 * x

    for g in (effect_first, rule_first):
        seen.clear()
        np.testing.assert_array_equal(fc.vmap(g)(np.arange(1.0, 4.0)), [0, 400, 600])
        assert seen == [1.0, 2.0, 3.0]


def test_where_a_lane_with_effects_cannot_keep_the_rule_it_says_so():
    f, _ = times_hundred()

    def loop(x):
        fc.debug.callback(lambda v: None, x)
        return in_loop(f, x)

    with pytest.raises(fc.errors.LanesError, match="has a vmap rule(.|\n)*Remedy: leave the effect out"):
        fc.vmap(loop)(np.arange(1.0, 4.0))
    chosen = lambda x: fc.cond(x > 1.5, lambda: fc.fori_loop(0, 1, lambda i, c: f(c, 2.0), x), lambda: 0 * x)
    np.testing.assert_array_equal(fc.vmap(chosen)(np.arange(1.0, 4.0)), [0, 400, 600])
