"""The short ways of forward mode beside its general way: the same bits, types, warnings and errors."""

from __future__ import annotations

import random
import sys
import warnings

import numpy as np
import pytest

import funcad
from funcad import grad, hvp, jit, jvp, vmap
from funcad.errors import UnexpectedTracerError
from funcad.ir.primitive import Primitive
from funcad.primitives import arithmetic, transcendental
from funcad.primitives.arithmetic import add, div, mul, sub
from funcad.primitives.shape import rule_of
from funcad.unjitted import pushes

_UNARY = [np.sin, np.cos, np.exp, np.log, np.sqrt, np.tanh, np.expm1, np.log1p, np.square, np.reciprocal, np.exp2, np.log2]
_UNARY += [np.negative, np.log10, abs, lambda x: -x, lambda x: x**2, lambda x: x**3, lambda x: x**-1, lambda x: x**0.5]
_UNARY += [lambda x: x**0, lambda x: x**1, np.arctan, np.sinh, lambda x: x**2.5, lambda x: np.where(x > 0.5, x, 2.0 * x)]
_UNARY += [lambda x: np.maximum(x, 0.7), lambda x: x * x, lambda x: x + x, lambda x: x - x, lambda x: x / x]
_UNARY += [lambda x: x[1:] if np.ndim(x) else x, lambda x: x[::-1] if np.ndim(x) else x, lambda x: np.where(x > 0.5, x, 0.0)]
_UNARY += [lambda x: np.concatenate([x, x]) if np.ndim(x) else x, lambda x: x[0] if np.ndim(x) else x]
_BINARY = [
    *(lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x * y, lambda x, y: x / y, lambda x, y: y / x),
    *(lambda x, y: y - x, np.add, np.subtract, np.multiply, np.divide, np.maximum, np.hypot),
]
_REDUCED = [np.sum, np.mean, lambda x: np.sum(x, axis=0), lambda x: np.sum(x, axis=-1, keepdims=True), np.max, np.std]
_REDUCED += [np.linalg.norm, lambda x: x.sum(), lambda x: np.dot(x, x) if np.ndim(x) == 1 else x, lambda x: x.T @ x]
_CONSTANTS = [2, 0, -3, 0.5, -1.5, np.float64(1.25), np.float32(0.5), np.int64(3), True, np.array(0.75), np.ones(3, np.float32)]
_CONSTANTS += [np.linspace(0.2, 1.0, 3), np.linspace(0.5, 2.0, 12).reshape(4, 3), np.array([[0.5], [1.5], [2.5], [0.1]])]
_CONSTANTS += [np.asfortranarray(np.linspace(0.5, 2.0, 12).reshape(4, 3)), np.arange(3), 1j]
_POINTS = [1.5, 0.0, np.float64(0.7), np.array(0.3), np.linspace(0.1, 0.9, 3), np.linspace(-0.5, 2.0, 12).reshape(4, 3)]
_POINTS += [np.array([0.0, -0.0, 1.0]), np.asfortranarray(np.linspace(0.1, 1.0, 12).reshape(4, 3)), np.ones((4, 1))]
_POINTS += [np.linspace(0.1, 0.9, 3, dtype=np.float32), np.float32(0.5)]


def _program(seed):
    """A random program of a few operations on one value, and a point."""
    chosen = random.Random(seed)
    steps = []
    for _ in range(chosen.randint(1, 6)):
        kind = chosen.random()
        if kind < 0.35:
            steps.append((chosen.choice(_UNARY), None))
        elif kind < 0.55:
            steps.append((chosen.choice(_BINARY), chosen.choice(_CONSTANTS)))
        elif kind < 0.85:
            steps.append((chosen.choice(_BINARY), chosen.random()))
        else:
            steps.append((chosen.choice(_REDUCED), None))

    def program(x):
        values = [x]
        for step, other in steps:
            if other is None:
                values.append(step(values[-1]))
            elif type(other) is float and other not in (0.5, -1.5):  # an earlier value
                values.append(step(values[-1], values[int(other * len(values))]))
            else:
                values.append(step(values[-1], other))
        return values[-1]

    return program, chosen.choice(_POINTS)


def _direction(x):
    return type(x)(0.75) if not isinstance(x, np.ndarray) else np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)


def _total(f):
    return lambda x: np.sum(np.real(f(x)))


def _ways(f, x):
    """The transforms that forward mode has a part in."""
    v = _direction(x)
    lanes = np.stack([np.asarray(x) * 0.5, np.asarray(x)])
    yield lambda: jvp(f, (x,), (v,))
    yield lambda: jvp(grad(_total(f)), (x,), (v,))
    yield lambda: grad(lambda y: np.sum(np.real(jvp(f, (y,), (v,))[1])))(x)
    yield lambda: jvp(lambda y: jvp(f, (y,), (v,))[1], (x,), (v,))
    yield lambda: vmap(lambda y: jvp(f, (y,), (v,))[1])(lanes)
    yield lambda: jvp(vmap(f), (lanes,), (lanes,))
    yield lambda: hvp(_total(f), (x,), (v,))


def _seen(run):
    """What a user sees of a call: results with types, bits and strides, the error, warnings with their lines."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            out = run()
        except Exception as error:
            out = type(error), str(error)
    told = [(w.category, str(w.message), w.filename, w.lineno) for w in caught]
    return _parts(out), told


def _parts(out):
    if isinstance(out, (tuple, list)):
        return [_parts(o) for o in out]
    if isinstance(out, np.ndarray):
        return "array", out.dtype, out.shape, out.strides, out.tobytes()
    return type(out), np.asarray(out).tobytes() if isinstance(out, (float, complex, np.generic)) else out


def _both(run, monkeypatch):
    _seen(run)  # what the levels of rules are is learned at a first call (masked_rules.py), by either way
    short = _seen(run)
    with monkeypatch.context() as m:
        m.setattr(pushes, "Pushes", lambda trace: None)
        return short, _seen(run)


@pytest.mark.share(4)
@pytest.mark.parametrize("block", range(8))
def test_random_programs(block, monkeypatch):
    for seed in range(block * 25, block * 25 + 25):
        f, x = _program(seed)
        for i, run in enumerate(_ways(f, x)):
            short, general = _both(run, monkeypatch)
            assert short == general, (seed, i)


_CALM = [p for m in (arithmetic, transcendental) for p in vars(m).values() if type(p) is Primitive and p.calm]


@pytest.mark.parametrize("primitive", {p.name: p for p in _CALM if p.emit and p.name != "complex_logistic"}.values(), ids=str)
def test_rules_read_plainly(primitive):
    rng = np.random.default_rng(0)
    n = 2 if primitive in (add, sub, mul, div) else 1
    params = {"n": 3} if primitive is arithmetic.integer_pow_p else {}
    for shape in ((), (5,)):
        xs, ts = [[np.float64(v) if not shape else v for v in rng.uniform(0.1, 1.0, (n, *shape))] for _ in range(2)]
        out = primitive(*xs, **params)
        for which in range(1, 2**n):
            tangents = [t if which >> i & 1 else None for i, t in enumerate(ts)]
            expected = rule_of(primitive, xs, tangents, out, params)
            found = pushes.plainly(primitive.jvp)(tangents, out, *xs, **params)
            assert type(found) is type(expected) and np.asarray(found).tobytes() == np.asarray(expected).tobytes()


def test_short_ways_are_taken(monkeypatch):
    seen, run = [], pushes.Pushes._pushed
    noted = lambda self, primitive, *rest: seen.append(primitive.name) or run(self, primitive, *rest)
    monkeypatch.setattr(pushes.Pushes, "_pushed", noted)
    x, A = np.linspace(0.1, 1.0, 4), np.eye(4)
    jvp(lambda x: np.sin(x) * np.sum(x**2) + (A @ x) / 2 - x, (x,), (x,))
    assert seen == ["sin", "integer_pow", "reduce_sum", "mul", "dot_general", "div", "add", "sub"]


def test_a_rule_that_was_replaced(monkeypatch):
    f = lambda x: np.sin(x) * x
    before = jvp(f, (0.5,), (1.0,))[1]
    monkeypatch.setattr(transcendental.sin, "jvp", lambda tangents, out, x: arithmetic.neg(tangents[0]))
    assert jvp(f, (0.5,), (1.0,))[1] == -0.5 + np.sin(0.5)
    monkeypatch.setattr(transcendental.sin, "jvp", lambda tangents, out, x: None)
    assert jvp(f, (0.5,), (1.0,))[1] == np.sin(0.5)
    monkeypatch.undo()
    assert jvp(f, (0.5,), (1.0,))[1] == before


def _divides(x):
    y = x / 0.0
    return y - np.log(x * 0.0)


@pytest.mark.parametrize("x", [np.float64(1.0), np.ones(3), np.array([0.0, 1.0]), 1.0], ids=str)
def test_warnings_and_modes(x, monkeypatch):
    v = _direction(x)
    short, general = _both(lambda: jvp(_divides, (x,), (v,)), monkeypatch)
    assert short == general and (short[1] or type(x) is float)
    for mode in ("raise", "ignore"):
        with np.errstate(all=mode):
            short, general = _both(lambda: jvp(_divides, (x,), (v,)), monkeypatch)
        assert short == general and not short[1]


def test_silent_tangents_and_nans(monkeypatch):
    with np.errstate(all="raise"):  # the operation is fine, its slope is not
        assert jvp(np.sqrt, (0.0,), (1.0,))[1] == np.inf
    with funcad.debug_nans():
        short, general = _both(lambda: jvp(lambda x: np.sqrt(x) * 0.0, (np.zeros(2),), (np.ones(2),)), monkeypatch)
    assert short == general


def test_masks_begin_and_are_kept(monkeypatch):
    x = np.array([0.0, 0.0, 4.0])
    f = lambda x: np.sqrt(np.where(x > 1.0, x, 0.0)) * 2.0 + np.where(x > 1.0, np.sqrt(x) / x, x)
    with np.errstate(invalid="ignore"):
        short, general = _both(lambda: jvp(f, (x,), (np.ones(3),)), monkeypatch)
        assert short == general and not np.isnan(jvp(f, (x,), (np.ones(3),))[1]).any()


def test_squares_are_exact(monkeypatch):
    def product(x):
        r = 3.0 * np.hypot(x, x)
        return r * r

    for f in (lambda x: np.linalg.norm(x * 2.0) ** 2, lambda x: abs(-x) ** 2, product):
        for x in (np.zeros(3), np.float64(0.0)):
            short, general = _both(lambda f=f, x=x: jvp(lambda y: jvp(f, (y,), (x + 1.0,)), (x,), (x + 1.0,)), monkeypatch)
            assert short == general


def test_a_tracer_that_leaked():
    kept = []
    jvp(lambda x: kept.append(x) or x * 2.0, (1.0,), (1.0,))
    with pytest.raises(UnexpectedTracerError):
        kept[0] * 2.0
    with pytest.raises(UnexpectedTracerError):
        jvp(lambda x: x * kept[0], (1.0,), (1.0,))


def test_within_jit_and_beside_it():
    x = np.linspace(0.1, 1.0, 5)
    f = lambda x: np.exp(np.sin(x)) * np.sum(x) / x
    value, slope = jit(lambda x: jvp(f, (x,), (x,)))(x)
    assert np.allclose(slope, jvp(f, (x,), (x,))[1], rtol=1e-14)
    value, slope = jvp(jit(f), (x,), (x,))
    assert np.allclose(slope, jvp(f, (x,), (x,))[1], rtol=1e-14)


def test_values_written_in_place(monkeypatch):
    def f(x):
        y = x * 1.0
        y[1:] *= 2.0
        z = y[::-1]
        y += x / 2
        return np.sum(np.sin(z) * y) - y[0]

    x = np.linspace(0.1, 1.0, 5)
    short, general = _both(lambda: jvp(f, (x,), (np.cos(x),)), monkeypatch)
    assert short == general


@pytest.mark.skipif(funcad.config.audit, reason="the audit makes again what was found")
def test_calls_of_python():
    x, calls = np.linspace(0.1, 1.0, 20), []
    run = lambda: jvp(lambda x: np.sin(x) * np.sum(x**2), (x,), (x,))
    run()
    sys.setprofile(lambda frame, event, argument: calls.append(event) if event == "call" else None)
    try:
        run()
    finally:
        sys.setprofile(None)
    assert len(calls) <= 120  # 78; more where other tests have loaded devices. The general way takes 170
