"""Programs as users write them: `import numpy as np`, nothing of funcad's inside, gradients beside differences."""

import copy
import functools
import pickle

import numpy as np
import pytest

import funcad

random = np.random.default_rng(0)
x6, A = random.normal(size=6), random.normal(size=(6, 6))


def differences(f, x, step=1e-6):
    gradient = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += step
        down[i] -= step
        gradient[i] = (f(up) - f(down)) / (2 * step)
    return gradient


PROGRAMS = {
    "sum of Python": (lambda x: sum(x**2), x6),
    "unpacked": (lambda x: (lambda a, b, *rest: a * b)(*x), x6),
    "comprehension": (lambda x: np.stack([a * a for a in x]).sum(), x6),
    "einsum, bilinear": (lambda x: np.einsum("i,ij,j", x, A, x), x6),
    "einsum, product": (lambda a: np.sum(np.einsum("ij,jk->ik", a, A) ** 2), A),
    "outer": (lambda x: np.sum(np.outer(x, x) ** 2), x6),
    "where": (lambda x: np.sum(np.where(x > 0, x**2, np.exp(x))), x6),
    "maximum": (lambda x: np.sum(np.maximum(x, 0.3) * x), x6),
    "clip": (lambda x: np.sum(np.clip(x, -0.5, 0.5) * x), x6),
    "abs, power": (lambda x: np.sum(np.abs(x) ** 1.5), x6),
    "var, std": (lambda x: np.var(x) + np.std(x), x6),
    "mean by columns": (lambda a: np.sum(a.mean(axis=0) ** 2), A),
    "T, dot": (lambda a: np.sum(a.T.dot(a)), A),
    "list index": (lambda x: np.sum(x[[0, 2, 2]] ** 2), x6),
    "reversed slice": (lambda x: np.sum(x[::-1] * np.arange(6.0)), x6),
    "newaxis": (lambda x: np.sum((x[:, None] - x[None]) ** 2), x6),
    "ellipsis": (lambda a: np.sum(a[..., 1] ** 2), A),
    "stack": (lambda x: np.sum(np.stack([x, x**2]) ** 2), x6),
    "concatenate": (lambda x: np.sum(np.concatenate([x, x * 2, np.ones(2)]) ** 2), x6),
    "hstack of numbers": (lambda x: np.sum(np.hstack([x[0], x[1]]) ** 2), x6),
    "cumsum": (lambda x: np.sum(np.cumsum(x) ** 2), x6),
    "cumprod, prod": (lambda x: np.sum(np.cumprod(x)) + np.prod(x), x6),
    "sort": (lambda x: np.sum(np.sort(x) * np.arange(6.0)), x6),
    "argmax": (lambda x: x[np.argmax(x)] ** 2, x6),
    "diff, roll": (lambda x: np.sum(np.diff(x) ** 2) + np.sum(np.roll(x, 1) * x), x6),
    "tile, repeat": (lambda x: np.sum(np.tile(x, 2) ** 2) + np.sum(np.repeat(x, 3)), x6),
    "pad": (lambda x: np.sum(np.pad(x, 2) ** 2), x6),
    "convolve": (lambda x: np.sum(np.convolve(x, np.ones(3)) ** 2), x6),
    "interp": (lambda x: np.sum(np.interp(x, np.linspace(-3, 3, 7), np.arange(7.0) ** 2)), x6),
    "trace, diag, triu": (lambda a: np.trace(a) + np.sum(np.diag(a) ** 2) + np.sum(np.triu(a) ** 2), A),
    "kron": (lambda x: np.sum(np.kron(x, x)), x6),
    "polyval": (lambda x: np.sum(np.polyval([1.0, 2.0, 3.0], x)), x6),
    "logaddexp": (lambda x: np.sum(np.logaddexp(x, 0)), x6),
    "arctan2, hypot": (lambda x: np.sum(np.arctan2(x, 1.0) + np.hypot(x, 2.0)), x6),
    "mod": (lambda x: np.sum(x % 0.7), x6),
    "complex in between": (lambda x: np.sum(np.abs(np.exp(1j * x) + 1) ** 2), x6),
    "real, imag": (lambda x: np.sum(((x + 1j) ** 2).real + ((x + 2j) ** 2).imag), x6),
    "stacked matrices": (lambda a: np.sum((a.reshape(2, 3, 6) @ A) ** 2), A),
    "tensordot": (lambda a: np.sum(np.tensordot(a, A, axes=([0], [1])) ** 2), A),
    "max by rows": (lambda a: np.sum(a.max(axis=1) ** 2), A),
    "median, quantile": (lambda x: np.median(x) + np.quantile(x, 0.3), x6),
    "average": (lambda x: np.average(x, weights=np.arange(1.0, 7.0)), x6),
    "meshgrid": (lambda x: np.sum(np.meshgrid(x, x)[0] ** 2), x6),
    "split": (lambda x: np.sum(np.split(x, 2)[0] ** 2), x6),
    "ones_like": (lambda x: np.sum(np.ones_like(x) * x), x6),
    "methods": (lambda a: a.flatten().cumsum().sum(), A),
    "select": (lambda x: np.sum(np.select([x > 1, x > 0], [x, x**2], 0.0)), x6),
    "searchsorted": (lambda x: np.sum(x * np.searchsorted(np.arange(3.0), x)), x6),
    "nan_to_num": (lambda x: np.sum(np.nan_to_num(x) ** 2), x6),
    "sinc": (lambda x: np.sum(np.sinc(x)), x6),
}
NEEDS_VALUES = {
    "max of Python": (lambda x: max(x), x6),
    "sorted of Python": (lambda x: sorted(x)[0], x6),
    "mask": (lambda x: np.sum(np.sort(x[x > 0])), x6),
    "nonzero": (lambda x: np.sum(x[np.nonzero(x > 0)] ** 2), x6),
    "loop until": (lambda x: functools.reduce(lambda s, a: s + a if a > 0 else s * 2, x, 1.0), x6),
}


@pytest.mark.parametrize("name", [*PROGRAMS, *NEEDS_VALUES])
def test_gradient(name):
    f, x = {**PROGRAMS, **NEEDS_VALUES}[name]
    np.testing.assert_allclose(funcad.grad(f)(x), differences(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_jitted_gradient_is_the_same(name):
    f, x = PROGRAMS[name]
    np.testing.assert_allclose(funcad.jit(funcad.grad(f))(x), funcad.grad(f)(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NEEDS_VALUES)
def test_what_needs_values_says_so_under_jit(name):
    f, x = NEEDS_VALUES[name]
    with pytest.raises((funcad.errors.TracerBoolConversionError, funcad.errors.TracerIntegerConversionError)) as caught:
        funcad.jit(f, guards=False)(x)
    assert "test_user_programs.py" in str(caught.value)
    for _ in range(3):
        np.testing.assert_allclose(funcad.jit(f)(x), f(x), rtol=1e-12)


def test_weights_updated_in_place():
    w = np.ones(100_000)
    for _ in range(3):
        w -= 0.1 * funcad.grad(lambda w: np.sum(w * w))(w)
    np.testing.assert_allclose(w, 0.8**3)


def test_scratch_buffer_used_again():
    def f(x):
        buffer, total = np.empty(3), 0.0
        for i in range(3):
            buffer[:] = i
            total = total + np.sum(x * buffer)
        return total

    np.testing.assert_array_equal(funcad.grad(f)(np.ones(3)), np.full(3, 3.0))


def test_value_can_be_formatted(capsys):
    def f(x):
        print(f"{x:.2f}", x)
        return x * x

    funcad.grad(f)(1.5)
    assert capsys.readouterr().out == "1.50 1.5\n"
    funcad.jit(f)(1.5)
    assert capsys.readouterr().out == "1.50 1.5\n"


@pytest.mark.parametrize("transform", [funcad.jit, funcad.grad, funcad.value_and_grad])
def test_transformed_functions_can_be_copied_and_pickled(transform):
    f = transform(np.sin)
    expected = f(0.5)
    for other in (copy.copy(f), copy.deepcopy({"model": f})["model"], pickle.loads(pickle.dumps(f))):
        assert other(0.5) == expected


def test_pickled_jit_keeps_its_options():
    f = pickle.loads(pickle.dumps(funcad.jit(np.full, static_argnames="shape", donate_argnums=1, inline=True)))
    g = funcad.jit(np.full, static_argnames="shape", donate_argnums=1, inline=True)
    assert f._core.options == g._core.options
