"""dot_general, matmul and einsum: values, every way to bring operands to BLAS, derivatives of all orders, vmap, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import funcad
from funcad.primitives.contraction import canonical_einsum, dot_general, dot_general_p, einsum, matmul
from funcad.testing import check_grads

MATMUL_SHAPES = [
    ((2, 3), (3, 4)),
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 1, 2, 3), (7, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((4, 1, 2, 3), (1, 5, 3, 2)),
    ((1, 1, 2, 3), (1, 1, 3, 2)),
    ((6, 5, 2, 3), (5, 3, 4)),
    ((0, 2, 3), (3, 2)),
    ((2, 0), (0, 3)),
]


def test_smoke_gradient_of_a_quadratic_form():
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    g = funcad.grad(lambda x: matmul(x, matmul(a, x)))(np.array([1.0, -1.0]))
    np.testing.assert_allclose(g, (a + a.T) @ [1.0, -1.0])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128, np.int64, np.int8, np.bool_])
@pytest.mark.parametrize("shapes", MATMUL_SHAPES)
def test_matmul_is_numpys(shapes, dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 3, s).astype(dtype) for s in shapes)
    out = matmul(x, y)
    np.testing.assert_array_equal(out, x @ y)
    assert type(out) is type(x @ y) and out.dtype == (x @ y).dtype


@pytest.mark.parametrize("shapes", [s for s in MATMUL_SHAPES if 0 not in s[0]])
def test_matmul_derivatives(shapes):
    rng = np.random.default_rng(1)
    check_grads(matmul, tuple(rng.normal(size=s) for s in shapes), order=2)


def test_matmul_errors_are_value_errors():
    for x, y in (((2, 3), (4, 2)), ((), (3,)), ((2, 2, 3), (3, 3, 4))):
        with pytest.raises(ValueError):
            matmul(np.ones(x), np.ones(y))


def test_dot_general_against_einsum_over_all_axis_orders():
    rng = np.random.default_rng(2)
    sizes = dict(zip("bcdef", (2, 3, 2, 4, 2)))  # batch, summed, summed, free of x, free of y
    for px in itertools.permutations("bcde"):
        x = rng.normal(size=[sizes[c] for c in px])
        for py in (("b", "c", "d", "f"), ("f", "d", "b", "c"), ("c", "f", "d", "b"), ("d", "c", "b", "f")):
            y = rng.normal(size=[sizes[c] for c in py])
            numbers = ((px.index("c"), px.index("d")), (py.index("c"), py.index("d")))
            out = dot_general(x, y, dimension_numbers=(numbers, ((px.index("b"),), (py.index("b"),))))
            np.testing.assert_allclose(out, np.einsum(x, list(map(ord_, px)), y, list(map(ord_, py)), [1, 4, 5]))


def ord_(c):
    return ord(c) - ord("a")


def test_dot_general_takes_non_contiguous_operands():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(6, 8))[::2, ::2], rng.normal(size=(5, 4)).T
    np.testing.assert_allclose(dot_general(x, y, dimension_numbers=(((1,), (0,)), ((), ()))), x @ y)


def test_dot_general_in_a_preferred_dtype():
    x, y = np.full((2, 3), 100, np.int8), np.full((3, 2), 100, np.int8)
    numbers = (((1,), (0,)), ((), ()))
    wide = dot_general(x, y, dimension_numbers=numbers, preferred_dtype=np.dtype(np.int32))
    assert wide.dtype == np.int32 and (wide == 30000).all()
    narrow = dot_general(x.astype(float), y.astype(float), dimension_numbers=numbers, preferred_dtype=np.dtype(np.float32))
    assert narrow.dtype == np.float32


def test_dot_general_errors_name_the_operands():
    x, y = np.ones((2, 3)), np.ones((4, 2))
    with pytest.raises(ValueError, match=r"axis 1 of a float64 .*\(2, 3\) and axis 0 of a float64 .*\(4, 2\)"):
        funcad.jit(lambda x, y: dot_general(x, y, dimension_numbers=(((1,), (0,)), ((), ()))))(x, y)
    with pytest.raises(TypeError, match="equal dtypes"):
        funcad.jit(lambda x, y: matmul(x, y))(x, np.ones((3, 2), np.float32))


EINSUMS = [
    ("ij,jk", (2, 3), (3, 4)),
    ("ij->ji", (2, 3)),
    ("ii", (3, 3)),
    ("ii->i", (3, 3)),
    ("iij->ji", (3, 3, 2)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (2, 2, 2)),
    ("...ij,...jk", (5, 1, 2, 3), (4, 3, 2)),
    ("b...,b->...", (3, 2, 4), (3,)),
    ("...,...", (2, 3), (3,)),
    ("i,i,i->i", (3,), (3,), (3,)),
    ("i,j,k->kij", (3,), (2,), (4,)),
    ("ab,bc,cd,de", (2, 3), (3, 4), (4, 5), (5, 2)),
    ("ab,ab,cd->c", (2, 3), (2, 3), (4, 5)),
    ("aab,bc", (2, 2, 3), (3, 4)),
    ("ij,jk,ki->", (1, 3), (3, 4), (4, 2)),
    ("ab,cd,ef,gh->abh", (2, 3), (2, 3), (2, 3), (2, 3)),
    (",ij", (), (2, 3)),
    ("a,b,c,d,a->", (2,), (3,), (2,), (1,), (2,)),
    ("abc,abd,acd,bcd->", (2, 3, 4), (2, 3, 5), (2, 4, 5), (3, 4, 5)),
    ("i j , j -> i", (2, 3), (3,)),
    ("i->", (0,)),
]


def summed(subscripts):
    def f(*xs):
        canonical, operands = canonical_einsum(subscripts, *xs)
        return einsum(canonical, *operands)

    return f


@pytest.mark.parametrize("subscripts, shapes", [(s, shapes) for s, *shapes in EINSUMS])
def test_einsum_is_numpys_with_derivatives(subscripts, shapes):
    rng = np.random.default_rng(4)
    xs = tuple(rng.normal(size=s) for s in shapes)
    f = summed(subscripts)
    np.testing.assert_allclose(f(*xs), np.einsum(subscripts, *xs), atol=1e-12)
    np.testing.assert_allclose(funcad.jit(f)(*xs), np.einsum(subscripts, *xs), atol=1e-12)
    if all(x.size for x in xs):
        check_grads(f, xs, order=2)


@pytest.mark.parametrize("subscripts, shapes", [(s, shapes) for s, *shapes in EINSUMS if "->" in s])
def test_einsum_under_vmap_for_each_subset_of_batched_operands(subscripts, shapes):
    rng = np.random.default_rng(5)
    for mask in itertools.product([False, True], repeat=len(shapes)):
        if any(mask):
            xs = [rng.normal(size=(3, *s) if m else s) for s, m in zip(shapes, mask)]
            out = funcad.vmap(summed(subscripts), in_axes=tuple(0 if m else None for m in mask))(*xs)
            for i in range(3):
                one = np.einsum(subscripts, *[x[i] if m else x for x, m in zip(xs, mask)])
                np.testing.assert_allclose(out[i], one, atol=1e-12)


def test_einsum_of_complex_operands():
    rng = np.random.default_rng(6)
    xs = tuple(rng.normal(size=s) + 1j * rng.normal(size=s) for s in ((2, 3), (3, 2), (2, 2)))
    f = summed("ab,bc,ca->")
    np.testing.assert_allclose(f(*xs), np.einsum("ab,bc,ca->", *xs))
    gradient = funcad.grad(lambda *a: f(*a).real, argnums=1)(*xs)
    np.testing.assert_allclose(gradient, np.einsum("ab,ca->bc", xs[0], xs[2]))


def test_canonical_einsum_reads_all_forms():
    x, y = np.ones((2, 3)), np.ones((3, 4))
    assert canonical_einsum("ij, jk", x, y)[0] == "ij,jk->ik"
    assert canonical_einsum("ba", x)[0] == "ba->ab"
    text, operands = canonical_einsum(x, [0, 1], y, [1, 2], [2, 0])
    assert len(operands) == 2 and einsum(text, *operands).shape == (4, 2)
    text, operands = canonical_einsum(x, [Ellipsis, 0], y, [0, 1])
    assert einsum(text, *operands).shape == (2, 4)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("ij,jk", (2, 3)),
        ("ijk", (2, 3)),
        ("ij->ik", (2, 3)),
        ("ij->ii", (2, 3)),
        ("i$", (2, 3)),
        ("...i->i", (2, 3)),
        ("ij,ij", (2, 3), (2, 4)),
    ],
)
def test_wrong_einsums_raise_value_errors_as_numpy_does(arguments):
    xs = [a if isinstance(a, str) else np.ones(a) for a in arguments]
    with pytest.raises(ValueError):
        np.einsum(*xs)
    with pytest.raises(ValueError, match="einsum"):
        text, operands = canonical_einsum(*xs)
        einsum(text, *operands)


def test_the_sum_over_all_axes_of_both_is_a_numpy_scalar():
    x = np.ones((2, 3))
    axes = (0, 1)
    out = dot_general_p(x, x, dimension_numbers=((axes, axes), ((), ())))
    assert out == 6.0
    assert type(out) is np.float64
