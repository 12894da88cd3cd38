"""Tracer's operators: Python's, so between Python scalars they stay weak."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.numpy.promote import promote, strengthen
from funcad.primitives import arithmetic, reduction, shape, transcendental


def add(x, y):
    return arithmetic.add(*promote(x, y))


def sub(x, y):
    return arithmetic.sub(*promote(x, y))


def mul(x, y):
    return arithmetic.mul(*promote(x, y))


def truediv(x, y):
    return arithmetic.div(*promote(x, y))


def neg(x):
    return arithmetic.neg(x)


def array_ufunc(ufunc, method, inputs, kwargs):
    return _UFUNCS[ufunc](*inputs)


def array_function(f, args, kwargs):
    return _FUNCS[f](*args, **kwargs)


def attribute(x, name):
    raise AttributeError(name)


def _sum(x, axis=None):
    axes = tuple(range(x.ndim)) if axis is None else (axis % x.ndim,)
    return reduction.reduce_sum(x, axes=axes)


def _f(f):
    return lambda x: f(strengthen(x))


_UFUNCS = {
    np.sin: _f(transcendental.sin), np.cos: _f(transcendental.cos), np.exp: _f(transcendental.exp), np.tanh: _f(transcendental.tanh),
    np.log: _f(transcendental.log), np.add: add, np.multiply: mul, np.subtract: sub,
}
_FUNCS = {np.sum: _sum}
