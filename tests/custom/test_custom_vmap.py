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
