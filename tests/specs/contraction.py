"""Contractions: funcad/primitives/contraction.py."""

from __future__ import annotations

import numpy as np

from funcad.primitives import contraction as c
from tests.specs import spec

NONE = ((), ())
KINDS = ("f4", "i4", "c16", "?")


def normal(*shapes):
    return lambda rng: tuple(rng.normal(size=s) for s in shapes)


def cplx(*shapes):
    return lambda rng: tuple(rng.normal(size=s) + 1j * rng.normal(size=s) for s in shapes)


def dot(numbers, reference, *shapes, **fields):
    return spec(
        c.dot_general_p,
        c.dot_general,
        [normal(*shapes), cplx(*shapes)],
        params={"dimension_numbers": numbers},
        reference=reference,
        dtypes=KINDS,
        jax=lambda j: lambda x, y: j.lax.dot_general(x, y, numbers),
        **fields,
    )


def summed(subscripts, *shapes):
    return spec(
        c.einsum_p,
        lambda *xs, subscripts: c.einsum(subscripts, *xs),
        [normal(*shapes), cplx(*shapes)],
        params={"subscripts": subscripts},
        reference=lambda *xs: np.einsum(subscripts, *xs),
        jax=lambda j: lambda *xs: j.numpy.einsum(subscripts, *xs),
        dtypes=("f4", "c16"),
    )


SPECS = [
    dot((((1,), (0,)), NONE), np.matmul, (2, 3), (3, 2)),
    dot((((0,), (0,)), NONE), np.dot, (3,), (3,)),
    dot((((1,), (0,)), NONE), np.matmul, (2, 3), (3,)),
    dot((((0,), (1,)), NONE), lambda x, y: x.T @ y.T, (3, 2), (2, 3)),
    dot((NONE, NONE), lambda x, y: np.multiply.outer(x, y), (3,), (2, 2)),
    dot((NONE, ((0,), (1,))), lambda x, y: x[:, :, None] * y.T[:, None], (2, 3), (3, 2)),
    dot((((1,), (1,)), ((0,), (0,))), lambda x, y: (x * y).sum(1), (2, 3), (2, 3)),
    dot((((2,), (1,)), ((0,), (0,))), np.matmul, (2, 1, 3), (2, 3, 2)),
    dot((((1,), (1,)), NONE), lambda x, y: np.einsum("ab,cbd->acd", x, y), (2, 3), (2, 3, 2)),
    dot((((0,), (1,)), NONE), lambda x, y: np.einsum("ba,cbd->acd", x, y), (3, 2), (2, 3, 2)),
    dot((((2, 0), (1, 3)), ((1,), (2,))), lambda x, y: np.einsum("abc,dcba->bd", x, y), (2, 3, 2), (2, 2, 3, 2)),
    dot((((1,), (0,)), NONE), np.matmul, (2, 0), (0, 3)),
    summed("ab,bc,cd->ad", (2, 3), (3, 2), (2, 3)),
    summed("ab,bc,ca->", (2, 3), (3, 2), (2, 2)),
    summed("a,ab,c->bc", (2,), (2, 3), (2,)),
    summed("ab,b,cd->ca", (2, 3), (3,), (3, 2)),  # d belongs to one operand
    summed("a,a,a,a->a", (3,), (3,), (3,), (3,)),
    *[
        spec(
            c.cross_p,
            c.cross_p,
            [normal(shape, shape), cplx(shape, shape)],
            reference=np.cross,
            jax=lambda j: j.numpy.cross,
            dtypes=("f4", "i4", "c16"),
        )
        for shape in ((3,), (2, 3), (0, 3))
    ],
]
