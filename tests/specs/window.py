"""Windows: funcad/primitives/convolution.py, and the barrier of funcad/primitives/fused.py."""

from __future__ import annotations

import math

import numpy as np

from funcad.primitives import convolution as w
from funcad.primitives import fused, python_numbers
from tests.specs import spec


def _windows(window, strides, padding, base_dilation, window_dilation):
    return dict(
        window=window, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation
    )


PLAIN = _windows((2, 2), (1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1))
SPREAD = _windows((2, 2), (2, 1), ((1, 0), (0, 1)), (1, 1), (1, 2))
HOLES = _windows((3, 2), (1, 2), ((1, 1), (-1, 2)), (2, 1), (1, 1))
CASES = (PLAIN, SPREAD, HOLES)


def _reference(f, neutral):
    def reduce(x, window, strides, padding, base_dilation, window_dilation):
        shape = [(n - 1) * b + 1 + low + high for n, b, (low, high) in zip(x.shape, base_dilation, padding)]
        full = np.full(shape, neutral)
        for index in np.ndindex(x.shape):
            place = tuple(i * b + low for i, b, (low, _) in zip(index, base_dilation, padding))
            if all(0 <= p < n for p, n in zip(place, shape)):
                full[place] = x[index]
        out = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(shape, window, window_dilation, strides)]
        result = np.empty(out)
        for index in np.ndindex(*out):
            cut = tuple(slice(i * s, i * s + (k - 1) * d + 1, d) for i, s, k, d in zip(index, strides, window, window_dilation))
            result[index] = f(full[cut])
        return result

    return reduce


def distinct(rng):
    return (rng.permutation(12).reshape(3, 4) * 0.4 - 2.0,)


def with_maxima(params):
    def sample(rng):
        (x,) = distinct(rng)
        return rng.normal(size=x.shape), x, w.reduce_window_max(x, **params)

    return sample


def with_cotangent(params):
    def sample(rng):
        (x,) = distinct(rng)
        out = w.reduce_window_max(x, **params)
        return rng.normal(size=out.shape), x, out

    return sample


SPECS = [
    *[
        spec(primitive, fn, [distinct], params=p, dtypes=("f4", "i4"),
             reference=lambda x, f=f, n=n, p=p: _reference(f, n)(x, **p),
             jax=None if p is SPREAD  # JAX has no derivative of dilated windows
             else lambda j, name=name, n=n, p=p: lambda x: j.lax.reduce_window(x, n, getattr(j.lax, name), *p.values()))
        for primitive, fn, f, n, name in (
            (w.reduce_window_sum, w.reduce_window_sum, np.sum, 0.0, "add"),
            (w.reduce_window_max, w.reduce_window_max, np.max, -np.inf, "max"),
            (w.reduce_window_min, w.reduce_window_min, np.min, np.inf, "min"),
        )
        for p in CASES
    ],
    *[spec(w.window_mean_p, w.window_mean_p, [with_maxima(p)], params=p, nondiff=(1, 2)) for p in CASES],
    *[spec(w.window_spread_p, w.window_spread_p, [with_cotangent(p)], params=p, nondiff=(1, 2)) for p in CASES],
    spec(
        python_numbers.checked, lambda x, y: python_numbers.checked(x * 1.0, x, y, function="/"),
        [(np.array([0.5, -1.0]), np.array([2.0, 3.0])), (np.float64(0.5), np.float64(2.0))], nondiff=(1,),
    ),
    spec(python_numbers.kept, python_numbers.kept, [(np.array([0.5, -1.0]),)]),
    spec(
        python_numbers.round_p, python_numbers.round_p, [(np.array([0.15, -1.25, 2.675]),), (np.float64(0.35),)],
        params={"digits": 1}, order=0, reference=np.vectorize(lambda v: round(float(v), 1)),
    ),
    spec(
        python_numbers.fsum_p, python_numbers.fsum_p,
        [(np.array([0.75, 1.5, -2.5, 0.25]),), (np.array([[0.5, 2.0], [-1.0, 3.0]]),)],
        reference=lambda x: np.array([math.fsum(row) for row in x.reshape(-1, x.shape[-1])]).reshape(x.shape[:-1]),
    ),
    spec(fused.optimization_barrier, fused.optimization_barrier, [(np.array([0.5, -1.0]), np.array([[2.0], [3.0]]))]),
]
