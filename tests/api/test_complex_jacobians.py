"""Jacobians between real and complex numbers: jacfwd of R -> C, jacrev of C -> R, and what each of them refuses."""

from __future__ import annotations

import numpy as np
import pytest

import funcad as fc
from funcad.errors import NonDifferentiableInputError

A = np.array([[1.0 - 2.0j, 0.5j, 3.0], [2.0, -1.0 + 1.0j, 0.25]])
X = np.array([0.3, -1.2, 2.0])
Z = np.array([0.3 + 1.0j, -1.2 + 0.5j, 0.7 - 2.0j])


def waves(x):
    return A @ np.exp(1j * x)


def energies(z):
    return np.real(z * z * np.conj(z)) + np.imag(z) ** 3 * np.real(z[0])


def of_pairs(f, z, h=1e-6):
    """The Jacobian d/dx - i d/dy of a real function of complex numbers, by differences: `grad`'s convention."""
    columns = []
    for i in range(z.size):
        e = np.zeros(z.shape, complex)
        e[i] = h
        columns.append((f(z + e) - f(z - e) - 1j * (f(z + 1j * e) - f(z - 1j * e))) / (2 * h))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("way", [lambda g: g, fc.jit, lambda g: lambda x: fc.vmap(g)(np.stack([x, x]))[1]])
def test_forward_mode_of_complex_outputs(way):
    np.testing.assert_allclose(way(fc.jacfwd(waves))(X), A * 1j * np.exp(1j * X), rtol=1e-12)
    np.testing.assert_allclose(way(fc.jacfwd(fc.jit(waves)))(X), A * 1j * np.exp(1j * X), rtol=1e-12)
    second = np.einsum("ij,jk->ijk", -A * np.exp(1j * X), np.eye(3))
    np.testing.assert_allclose(way(fc.jacfwd(fc.jacfwd(waves)))(X), second, rtol=1e-12)


@pytest.mark.parametrize("way", [lambda g: g, fc.jit, lambda g: lambda x: fc.vmap(g)(np.stack([x, x]))[1]])
def test_reverse_mode_of_complex_arguments(way):
    expected = of_pairs(energies, Z)
    np.testing.assert_allclose(way(fc.jacrev(energies))(Z), expected, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(way(fc.jacobian(fc.jit(energies)))(Z), expected, rtol=1e-7, atol=1e-7)
    total = fc.grad(lambda z: np.sum(energies(z)))(Z)
    np.testing.assert_allclose(way(fc.jacrev(lambda z: np.sum(energies(z))))(Z), total, rtol=1e-12)


def test_dtypes_and_trees():
    assert fc.jacfwd(lambda x: x * np.complex64(2j))(X.astype(np.float32)).dtype == np.complex64
    assert fc.jacrev(np.abs)(Z.astype(np.complex64)).dtype == np.complex64
    out = fc.jacfwd(lambda d: {"c": np.exp(1j * d["a"]), "r": d["a"] * d["b"]})({"a": X, "b": 2.0})
    assert out["c"]["a"].dtype == complex and out["r"]["a"].dtype == float
    np.testing.assert_allclose(out["r"]["b"], X)
    of_z, of_x = fc.jacrev(lambda z, x: np.real(z * x), argnums=(0, 1))(Z, X)
    assert (of_z.dtype, of_x.dtype) == (complex, float)
    np.testing.assert_allclose(of_x, np.diag(Z.real))


def test_holomorphic_functions_as_before():
    for outer in (fc.jacfwd, fc.jacrev):
        np.testing.assert_allclose(outer(lambda z: z**3, holomorphic=True)(Z), np.diag(3 * Z**2))
        twice = outer(fc.jacrev(lambda z: np.sum(z**3), holomorphic=True), holomorphic=True)(Z)
        np.testing.assert_allclose(twice, np.diag(6 * Z))
    np.testing.assert_allclose(fc.hessian(lambda z: np.sum(z**3), holomorphic=True)(Z), np.diag(6 * Z))


@pytest.mark.parametrize(
    ("jacobian", "f", "x", "options", "remedy"),
    [
        (fc.jacfwd, energies, Z, {}, "jacfwd of energies: the argument is .*Remedy: jacrev, if the outputs are real; or holo"),
        (fc.jacrev, waves, X, {}, "jacrev of waves: the output is .*Remedy: jacfwd, if the arguments are real; or holo"),
        (fc.jacfwd, waves, X, {"holomorphic": True}, "the argument is a float64.*convert it to complex, or leave it out"),
        (fc.jacrev, energies, Z, {"holomorphic": True}, "the output is a float64.*convert it to complex, or leave it out"),
        (fc.hessian, waves, X, {}, "jacfwd, if the arguments are real"),
        (fc.jacrev, np.sin, np.arange(3), {}, "integers and bools have no derivative"),
    ],
)
def test_refusals_name_the_other_mode(jacobian, f, x, options, remedy):
    with pytest.raises(NonDifferentiableInputError, match=f"(?s){remedy}"):
        jacobian(f, **options)(x)


@pytest.mark.parametrize(
    ("f", "x", "options"),
    [
        (energies, Z, {}),
        (waves, X, {}),
        (energies, np.arange(3), {}),
        (lambda x: x > 0.0, X, {}),
        (lambda x: None, X, {}),
        (energies, X, {"argnums": 3}),
        (lambda z: z**2, X, {"holomorphic": True}),
    ],
)
def test_errors_of_hessian_name_it(f, x, options):
    for way in (fc.hessian(f, **options), fc.jit(lambda x: fc.hessian(f, **options)(x))):
        with pytest.raises((NonDifferentiableInputError, TypeError, ValueError), match="hessian") as caught:
            way(x)
        assert not {"jacfwd", "jacrev"} & set(str(caught.value).partition("Remedy")[0].split())
