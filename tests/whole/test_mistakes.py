"""Mistakes that users of NumPy, autograd and JAX make: what each is told, and that what it is told to write works.

Each text names the operation and the types (`says`), the user's line, in the text or as the last line of the traceback, and
one remedy; `right` is the program with the remedy in it, and gives `value`.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import funcad
from funcad import cond, fori_loop, grad, jit, scan, switch, vmap, while_loop
from funcad.errors import FuncadError

X = np.array([1.0, 2.0, 3.0])
ADAM = funcad.optimize.adam(0.1)
A = np.array([[2.0, 1.0], [1.0, 3.0]])
NO_NUMBER = "Python scalars" if np.lib.NumpyVersion(np.__version__) < "2.4.0" else "0-dimensional"  # NumPy's words
plainly = functools.partial(jit, guards=False)
SHORT = re.compile(r"\b([fiuc](8|16|32|64|128)|bool)\*?\[[\d,]*\]")  # the notation of printed programs is none for people


class Mistake(NamedTuple):
    name: str
    kind: type[BaseException]  # what `except` of a NumPy user's catches it
    wrong: Callable[[], Any]
    says: list[str]
    remedy: str
    right: Callable[[], Any]
    value: Any


class Model:
    def __init__(self) -> None:
        self.w, self.name = np.ones(3), "linear"

    @functools.partial(grad, argnums=0)
    def slope(self, x):
        return np.sum(self.w) * x

    @functools.partial(grad, argnums=1)
    def slope_right(self, x):
        return np.sum(self.w) * x


def add_up(total, x):
    return total + x, None


def no_return(c):
    c * 2.0


@funcad.custom_vjp
def product(x, y):
    return x * y


product.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (ct * kept[1],))


@funcad.custom_vjp
def product_right(x, y):
    return x * y


product_right.defvjp(lambda x, y: (x * y, (x, y)), lambda kept, ct: (ct * kept[1], ct * kept[0]))


@funcad.custom_vjp
def doubled(x):
    return x * 2.0


doubled.defvjp(lambda x: x * 2.0, lambda kept, ct: (ct * 2.0,))


@funcad.custom_vjp
def doubled_right(x):
    return x * 2.0


doubled_right.defvjp(lambda x: (x * 2.0, None), lambda kept, ct: (ct * 2.0,))


@funcad.custom_jvp
def cubed(x):
    return x**3


@funcad.custom_jvp
def cubed_right(x):
    return x**3


cubed_right.defjvp(lambda primals, tangents: (primals[0] ** 3, 3 * primals[0] ** 2 * tangents[0]))


@functools.lru_cache
def remembered(x):
    return x * 2.0


def by_if(x):
    if x > 0.0:
        return x
    return -x


def by_while(x):
    while x < 10.0:
        x = x * 2.0
    return x


def by_range(n):
    total = 0.0
    for i in range(n):
        total = total + i
    return total


def with_assert(x):
    assert x > 0.0
    return x * 2.0


def printed(x):
    return "%.1f" % x  # noqa: UP031 what users write


def writes_outside(x):
    table = np.zeros(3)

    def f(x):
        table[0] = x
        return table.sum()

    return grad(f)(x)


def writes_a_copy(x):
    table = np.zeros(3)

    def f(x):
        mine = np.array(table)
        mine[0] = x
        return mine.sum()

    return grad(f)(x)


def writes_what_is_locked():
    big = np.ones(20_000)

    def f(x):
        total = (big * x).sum()
        big[0] = 2.0
        return total

    return grad(f)(1.0)


def writes_a_copy_of_what_is_locked():
    big = np.ones(20_000)

    def f(x):
        mine = np.array(big)
        total = (mine * x).sum()
        mine[0] = 2.0
        return total

    return grad(f)(1.0)


def keeps_a_value():
    kept = []
    grad(jit(lambda x: kept.append(x * 2.0) or x))(1.0)


def uses_a_value_later():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x * x

    grad(f)(1.0)
    return kept[0] + 1.0


def draws():
    rng = np.random.default_rng(0)
    return jit(lambda x: x + rng.permuted([1.0, 2.0], out=np.zeros(2)).sum(), not_compiled="raise")(1.0)


def draws_before():
    rng = np.random.default_rng(0)
    return jit(lambda x, noise: x + 0.0 * noise)(1.0, rng.normal())


def finite(f, x):
    with funcad.debug_nans():
        return f(x)


def times_two(x, n, zero):
    @funcad.custom_vjp
    def doubled(x, n):
        return 2 * x

    doubled.defvjp(lambda x, n: (2 * x, None), lambda _, ct: (2 * ct, zero))
    return doubled(x, n)


TABLE = [1.0, 2.0, 3.0]
CARRY = np.zeros(2)
f32 = np.float32

MISTAKES = [
    # -- grad and its kind, as they are called
    Mistake("grad of an array", TypeError, lambda: grad(lambda x: x * x)(X), ["grad", "shape ()", "shape (3,)"],
            "return out.sum()", lambda: grad(lambda x: (x * x).sum())(X), 2 * X),
    Mistake("grad(f, x)", TypeError, lambda: grad(lambda x: x.sum(), X), ["grad", "argnums", "float64 array of shape (3,)"],
            "grad(f)(x) instead of grad(f, x)", lambda: grad(lambda x: x.sum())(X), np.ones(3)),
    Mistake("hessian(f, x)", TypeError, lambda: funcad.hessian(lambda x: x @ x, X), ["hessian", "argnums", "shape (3,)"],
            "hessian(f)(x)", lambda: funcad.hessian(lambda x: x @ x)(X), 2 * np.eye(3)),
    Mistake("grad(f(x))", TypeError, lambda: grad(np.sin(1.0)), ["grad takes a function", "float64"],
            "grad(f)(x) instead of grad(f(x))", lambda: grad(np.sin)(0.0), 1.0),
    Mistake("jacfwd(f(x))", TypeError, lambda: funcad.jacfwd(np.sin(1.0)), ["jacfwd takes a function", "float64"],
            "jacfwd(f)(x) instead of jacfwd(f(x))", lambda: funcad.jacfwd(np.sin)(0.0), 1.0),
    Mistake("jit(f(x))", TypeError, lambda: jit(np.sin(1.0)), ["jit takes a function", "float64"],
            "jit(f)(x) instead of jit(f(x))", lambda: jit(np.sin)(0.0), 0.0),
    Mistake("an argument twice", ValueError, lambda: grad(operator.mul, argnums=(0, 0))(2.0, 3.0), ["argnums=(0, 0)"],
            "name each once", lambda: grad(operator.mul, argnums=(0,))(2.0, 3.0)[0], 3.0),
    Mistake("Jacobian of nothing", TypeError, lambda: funcad.jacrev(print)(1.0), ["jacrev: print returned None"],
            "return the result", lambda: funcad.jacrev(np.sin)(0.0), 1.0),
    Mistake("Jacobian of an integer", TypeError, lambda: funcad.jacfwd(lambda x: {"y": x, "n": 3})(X),
            ["jacfwd of <lambda>", "at ['n']", "the int 3"], "return 3.0",
            lambda: funcad.jacfwd(lambda x: {"y": x, "n": 3.0})(X)["n"], np.zeros(3)),
    Mistake("Jacobian of a text", TypeError, lambda: funcad.hessian(lambda x: [x @ x, "text"])(X),
            ["output of <lambda> at [1]", "str: 'text'"], "make text of them outside",
            lambda: funcad.hessian(lambda x: [x @ x])(X)[0], 2 * np.eye(3)),
    Mistake("Jacobian in a text", TypeError, lambda: funcad.jacfwd(lambda p: p["w"] ** 2)({"w": 2.0, "name": "linear"}),
            ["jacfwd: argument of <lambda>", "['name']", "str: 'linear'"], "in a closure",
            lambda: funcad.jacfwd(lambda p: p["w"] ** 2)({"w": 2.0})["w"], 4.0),
    Mistake("0 for an integer", TypeError, lambda: grad(lambda x: times_two(x, 3, 0))(1.0), ["bwd of doubled", "the int 0"],
            "", lambda: grad(lambda x: times_two(x, 3, None))(1.0), 2.0),
    Mistake("a ufunc of a list", TypeError,  # by code without a source, which has no twin
            lambda: grad(eval("lambda x: np.logaddexp.reduce([x[0], x[1]])", {"np": np}))(np.zeros(2)),
            ["traced float64 scalar", "carries a derivative"], "write np.logaddexp.reduce(np.stack(x)) instead",
            lambda: grad(lambda x: np.logaddexp.reduce(np.stack([x[0], x[1]])))(np.zeros(2)), [0.5, 0.5]),
    Mistake("argnum=", TypeError, lambda: grad(operator.mul, argnum=1), ["grad", "argnum"],
            "grad(..., argnums=...)", lambda: grad(operator.mul, argnums=1)(2.0, 3.0), 2.0),
    Mistake("static_argnum=", TypeError, lambda: jit(operator.mul, static_argnum=1), ["jit", "static_argnum"],
            "jit(..., static_argnums=...)", lambda: jit(operator.mul, static_argnums=1)(2.0, 3.0), 6.0),
    Mistake("in_axis=", TypeError, lambda: vmap(operator.mul, in_axis=0), ["vmap", "in_axis"],
            "vmap(..., in_axes=...)", lambda: vmap(operator.mul, in_axes=0)(X, X), X * X),
    Mistake("argnums too large", ValueError, lambda: grad(np.sin, argnums=1)(1.0), ["grad", "argnums=1", "out of range"],
            "argnums counts from 0: the last one here is argnums=0", lambda: grad(np.sin, argnums=0)(0.0), 1.0),
    Mistake("argument by name", ValueError, lambda: grad(lambda x: x * x)(x=3.0), ["grad", "0 positional"],
            "pass the argument by position", lambda: grad(lambda x: x * x)(3.0), 6.0),
    Mistake("argnums by name", TypeError, lambda: grad(lambda x: x * x, argnums="x")(3.0), ["argnums must be an int", "'x'"],
            "argnames='x'", lambda: grad(lambda x: x * x, argnames="x")(x=3.0), 6.0),
    Mistake("an integer", TypeError, lambda: grad(lambda x: x * x)(3), ["grad of <lambda>", "int", "no derivative"],
            "pass 3.0 instead of 3", lambda: grad(lambda x: x * x)(3.0), 6.0),
    Mistake("integers in a dict", TypeError, lambda: grad(lambda p: p["n"].sum() * 1.0)({"n": np.arange(3)}),
            ["['n']", "int64 array of shape (3,)"], "convert it with .astype(float)",
            lambda: grad(lambda p: p["n"].sum() * 1.0)({"n": np.arange(3).astype(float)})["n"], np.ones(3)),
    Mistake("an integer as output", TypeError, lambda: grad(lambda x: x.astype(int).sum())(X), ["the output is the int64 6"],
            "return a float", lambda: grad(lambda x: x.sum())(X), np.ones(3)),
    Mistake("a complex output", TypeError, lambda: grad(lambda x: (x * 1j).sum())(X), ["the output is a complex128 scalar"],
            "return a real number (np.real, np.abs)", lambda: grad(lambda x: np.abs(x * 1j).sum())(X), np.ones(3)),
    Mistake("no return", TypeError, lambda: grad(lambda x: None)(1.0), ["<lambda> returned None"],
            "return the loss", lambda: grad(lambda x: x * x)(1.0), 2.0),
    Mistake("loss and aux", TypeError, lambda: grad(lambda x: (x * x, x))(1.0), ["returned a tuple of length 2"],
            "return the loss alone, or (loss, aux) with has_aux=True",
            lambda: grad(lambda x: (x * x, x), has_aux=True)(1.0)[0], 2.0),
    Mistake("three with has_aux", TypeError, lambda: grad(lambda x: (x, 1, 2), has_aux=True)(1.0),
            ["has_aux=True", "a tuple of length 3"], "return output, aux",
            lambda: grad(lambda x: (x, (1, 2)), has_aux=True)(1.0)[0], 1.0),
    # -- arguments
    Mistake("an object", TypeError, lambda: grad(lambda m: m.w.sum())(Model()), ["grad: argument", "got Model"],
            "make its class a pytree", lambda: grad(lambda w: w.sum())(Model().w), np.ones(3)),
    Mistake("a string under jit", TypeError, lambda: jit(lambda x, mode: x)(1.0, "fast"),
            ["jit of <lambda>", "argument mode", "str: 'fast'"], "jit(..., static_argnames='mode')",
            lambda: jit(lambda x, mode: x, static_argnames="mode")(1.0, "fast"), 1.0),
    Mistake("a string under vmap", TypeError, lambda: vmap(lambda x, mode: x)(X, "fast"), ["vmap of <lambda>", "str: 'fast'"],
            "leave it out of the arguments, in a closure", lambda: vmap(lambda x: (lambda x, mode: x)(x, "fast"))(X), X),
    Mistake("an array of strings", TypeError, lambda: jit(lambda x: x)(np.array(["b", "a"])), ["argument x", "<U1"],
            "np.unique(x, return_inverse=True)[1]",
            lambda: jit(lambda x: x)(np.unique(np.array(["b", "a"]), return_inverse=True)[1]), [1, 0]),
    Mistake("an array of objects", TypeError, lambda: grad(np.sum)(np.array([1.0, 2.0], object)), ["dtype object"],
            "x.astype(float)", lambda: grad(np.sum)(np.array([1.0, 2.0], object).astype(float)), np.ones(2)),
    Mistake("a generator", TypeError, lambda: jit(lambda xs: sum(xs))(x for x in X), ["argument xs", "generator"],
            "pass a list, list(x)", lambda: jit(lambda xs: sum(xs))(list(X)), 6.0),
    Mistake("a set", TypeError, lambda: jit(lambda xs: 1.0)({1.0, 2.0}), ["argument xs", "set"],
            "pass a sorted list", lambda: jit(lambda xs: sum(xs))(sorted({1.0, 2.0})), 3.0),
    Mistake("a list as static", TypeError, lambda: jit(lambda x, s: x, static_argnums=1)(1.0, [2]),
            ["static argument 1", "list", "not hashable"], "pass a tuple, tuple(x)",
            lambda: jit(lambda x, s: x, static_argnums=1)(1.0, (2,)), 1.0),
    # -- Python's control flow where there are no values
    Mistake("if", TypeError, lambda: plainly(by_if)(-1.0), ["truth", "bool", "jit(by_if)"],
            "np.where(condition, a, b)", lambda: plainly(lambda x: np.where(x > 0.0, x, -x))(-1.0), 1.0),
    Mistake("if in a scan", TypeError, lambda: scan(lambda c, x: (by_if(x) + c, None), 0.0, X), ["truth", "body of scan"],
            "np.where(condition, a, b)", lambda: scan(lambda c, x: (np.where(x > 0, x, -x) + c, None), 0.0, X)[0], 6.0),
    Mistake("while", TypeError, lambda: plainly(by_while)(1.0), ["truth", "bool", "jit(by_while)"],
            "funcad.while_loop(cond_fun, body_fun, carry)",
            lambda: plainly(lambda x: while_loop(lambda x: x < 10.0, lambda x: x * 2.0, x))(1.0), 16.0),
    Mistake("assert", TypeError, lambda: plainly(with_assert)(1.0), ["truth", "bool"],
            "assert in funcad.debug.callback(f, x)",
            lambda: plainly(lambda x: funcad.debug.callback(with_assert, x) or x * 2.0)(1.0), 2.0),
    Mistake("and", TypeError, lambda: plainly(lambda x: (x > 0.0) and (x < 2.0))(1.0), ["truth", "bool"],
            "np.logical_and(a, b)", lambda: plainly(lambda x: np.logical_and(x > 0.0, x < 2.0))(1.0), True),
    Mistake("max", TypeError, lambda: plainly(lambda x, y: max(x, y))(1.0, 2), ["truth", "bool"],
            "np.maximum(a, b) instead of max(a, b)", lambda: plainly(lambda x, y: np.maximum(x, y))(1.0, 2), 2.0),
    Mistake("sorted", TypeError, lambda: plainly(lambda x: sorted(x))(X), ["truth", "bool"],
            "np.sort(x) instead of sorted(x)", lambda: plainly(lambda x: np.sort(x))(X), X),
    Mistake("range", TypeError, lambda: plainly(by_range)(4), ["index", "int", "jit(by_range)"],
            "funcad.fori_loop(0, n, body_fun, carry)",
            lambda: plainly(lambda n: fori_loop(0, n, lambda i, total: total + i, 0.0))(4), 6.0),
    Mistake("a list's index", TypeError, lambda: plainly(lambda i: TABLE[i])(1), ["index", "int"],
            "funcad.numpy.take(TABLE, i, 0) instead of TABLE[i]",
            lambda: plainly(lambda i: funcad.numpy.take(TABLE, i, 0))(1), 2.0),
    Mistake("an array's slice", TypeError, lambda: plainly(lambda i: X[i:i + 2])(1), ["int"],
            "funcad.lax.dynamic_slice_in_dim(X, start, n) instead of X[i:i + 2]",
            lambda: plainly(lambda i: funcad.lax.dynamic_slice_in_dim(X, i, 2))(1), X[1:]),
    Mistake("a shape", TypeError, lambda: plainly(lambda n: np.zeros(n))(3), ["np.zeros", "a traced number as shape"],
            "make the argument static, jit(..., static_argnums=...)",
            lambda: plainly(lambda n: np.zeros(n), static_argnums=0)(3), np.zeros(3)),
    Mistake("a mask", TypeError, lambda: plainly(lambda x: np.sort(x[x > 1.0]))(X), ["mask", "bool array of shape (3,)"],
            "np.where(mask, x, 0)", lambda: plainly(lambda x: np.sum(np.where(x > 1.0, x, 0)))(X), 5.0),
    Mistake("nonzero", TypeError, lambda: plainly(lambda x: np.nonzero(x)[0])(X), ["np.nonzero", "float64 array of shape (3,)"],
            "np.where(mask, x, fill) keeps the shape", lambda: plainly(lambda x: np.where(x > 1, x, 0.0))(X), [0.0, 2.0, 3.0]),
    # -- data and functions in each other's places
    Mistake("scan, data first", TypeError, lambda: scan(0.0, add_up, X), ["scan takes functions", "the float 0.0"],
            "scan(f, init, xs)", lambda: scan(add_up, 0.0, X)[0], 6.0),
    Mistake("while_loop, data first", TypeError, lambda: while_loop(1.0, lambda c: c < 9.0, lambda c: c * 2.0),
            ["while_loop takes functions", "the float 1.0"], "while_loop(cond_fun, body_fun, init_val)",
            lambda: while_loop(lambda c: c < 9.0, lambda c: c * 2.0, 1.0), 16.0),
    Mistake("fori_loop, the body first", TypeError, lambda: fori_loop(lambda i, c: c * 2.0, 0, 3, 1.0),
            ["fori_loop takes functions", "the int 3"], "fori_loop(lower, upper, body_fun, init_val)",
            lambda: fori_loop(0, 3, lambda i, c: c * 2.0, 1.0), 8.0),
    Mistake("map, data first", TypeError, lambda: funcad.map(X, lambda x: x * 2.0), ["map takes functions", "float64 array"],
            "map(f, xs)", lambda: funcad.map(lambda x: x * 2.0, X), 2.0 * X),
    Mistake("one branch", TypeError, lambda: switch(0, lambda x: x, 1.0), ["switch: branches is a list", "a function"],
            "switch(index, [f, g], *operands)", lambda: switch(0, [lambda x: x], 1.0), 1.0),
    Mistake("no return", TypeError, lambda: while_loop(lambda c: c[0] < 9.0, no_return, np.ones(1)),
            ["while_loop", "no_return", "None"], "return the new value",
            lambda: while_loop(lambda c: c[0] < 9.0, lambda c: c * 2.0, np.ones(1)), [16.0]),
    # -- PyTorch's habits
    Mistake("step", AttributeError, lambda: ADAM.step(), ["init and update", "'step'"],
            "updates, state = optimizer.update(gradient, state, params)",
            lambda: ADAM.update(X, ADAM.init(X), X)[0].shape, (3,)),
    Mistake("lr", TypeError, lambda: funcad.optimize.adam(lr=0.1), ["adam()", "'lr'"], "learning_rate",
            lambda: funcad.optimize.adam(learning_rate=0.1).update(1.0, ADAM.init(1.0))[0].round(3), -0.1),
    Mistake("a shape in two", TypeError, lambda: funcad.random.normal(funcad.random.key(0), 3, 2), ["normal: dtype", "2"],
            "the shape is one argument", lambda: funcad.random.normal(funcad.random.key(0), (3, 2)).shape, (3, 2)),
    Mistake("a target that does not fit", ValueError, lambda: funcad.nn.mse_loss(X, np.ones(2)), ["mse_loss", "(2,)", "(3,)"],
            "give both the same shape", lambda: funcad.nn.mse_loss(X, X), 0.0),
    Mistake("a loss that was not called", TypeError, lambda: grad(lambda x: x.sum)(X), ["<lambda>", "returned"],
            "call what it returns, as in x.sum()", lambda: grad(lambda x: x.sum())(X), np.ones(3)),
    Mistake("a Jacobian at an integer", TypeError, lambda: funcad.jacobian(lambda x: x * X)(3), ["jacrev", "the int 3"],
            "pass 3.0", lambda: funcad.jacobian(lambda x: x * X)(3.0), X),
    Mistake("cpu", AttributeError, lambda: grad(lambda x: x.cpu().sum())(X), ["'cpu'", "float64 array"], "leave it out",
            lambda: grad(lambda x: x.sum())(X), np.ones(3)),
    Mistake("unsqueeze", AttributeError, lambda: grad(lambda x: x.unsqueeze(0).sum())(X), ["'unsqueeze'", "float64 array"],
            "x[None]", lambda: grad(lambda x: x[None].sum())(X), np.ones(3)),
    # -- numbers and arrays of traced values
    Mistake("float", TypeError, lambda: grad(lambda x: float(x) ** 2)(3.0), ["float(x)", "float", "carries a derivative"],
            "keep x as it is instead of float(x)", lambda: grad(lambda x: x**2)(3.0), 6.0),
    Mistake("float under jit", TypeError, lambda: plainly(lambda x: float(x))(3.0), ["float(x)", "float", "no value"],
            "keep x as it is instead of float(x)", lambda: plainly(lambda x: x)(3.0), 3.0),
    Mistake("np.float64", TypeError, lambda: grad(lambda x: np.float64(x) ** 2)(3.0), ["float", "carries a derivative"],
            "write x.astype(np.float64) instead of np.float64(x)",
            lambda: grad(lambda x: x.astype(np.float64) ** 2)(np.float64(3.0)), 6.0),
    Mistake("a text", UserWarning, lambda: jit(printed, guards=False, not_compiled="raise")(1.0),
            ["jit of printed", "the text of a traced value"],
            "pass what changes as an argument", lambda: jit(lambda x: funcad.debug.print("{:.1f}", x) or x)(1.0), 1.0),
    Mistake("vectorize", TypeError, lambda: plainly(lambda x: np.vectorize(lambda v: v if v > 1 else 0.0)(x))(X),
            ["truth", "bool", "vmap"], "np.where(condition, a, b)",
            lambda: plainly(lambda x: np.vectorize(lambda v: np.where(v > 1, v, 0.0))(x))(X), [0.0, 2.0, 3.0]),
    Mistake("a key of a dict", TypeError, lambda: grad(lambda x: remembered(x))(1.0), ["unhashable", "float"],
            "take its name or position as the key", lambda: grad(lambda x: remembered.__wrapped__(x))(1.0), 2.0),
    Mistake("a misspelt method", AttributeError, lambda: jit(lambda x: x.summ())(X), ["float64 array of shape (3,)", "'summ'"],
            "x.sum", lambda: jit(lambda x: x.sum())(X), 6.0),
    # -- SciPy's functions
    Mistake("broyden1", TypeError, lambda: grad(lambda a: scipy.optimize.broyden1(lambda x: x * x - a, 1.0))(4.0),
            ["scipy.optimize.broyden1", "traced"], "funcad.scipy.optimize.root(fun, x0).x",
            lambda: grad(lambda a: funcad.scipy.optimize.root(lambda x: x * x - a, 1.0).x[0])(4.0), 0.25),
    Mistake("fmin", TypeError, lambda: grad(lambda a: scipy.optimize.fmin(lambda x: ((x - a) ** 2).sum(), np.zeros(1))[0])(2.0),
            ["scipy.optimize.fmin", "traced"], "funcad.scipy.optimize.minimize(fun, x0).x",
            lambda: grad(lambda a: funcad.scipy.optimize.minimize(lambda x: ((x - a) ** 2).sum(), np.zeros(1)).x[0])(2.0), 1.0),
    Mistake("milp", TypeError, lambda: grad(lambda c: scipy.optimize.milp(c, integrality=1).fun)(X), ["milp", "jump"],
            "then call linprog with the integer unknowns fixed by their bounds",
            lambda: grad(lambda c: funcad.scipy.optimize.linprog(c, bounds=[(1, 1)] * 3).fun)(X), 1.0),
    # -- writes, leaks, draws
    Mistake("a write outside", TypeError, lambda: writes_outside(1.0), ["float", "plain NumPy array"],
            "K = np.array(K) inside the traced function", lambda: writes_a_copy(1.0), 1.0),
    Mistake("out=", TypeError, lambda: grad(lambda x: np.multiply(x, 2.0, out=X).sum())(X + 1.0),
            ["np.multiply(..., out=)", "plain NumPy array"], "K = np.array(K) inside the traced function",
            lambda: grad(lambda x: np.multiply(x, 2.0).sum())(X), 2 * np.ones(3)),
    Mistake("a locked array", ValueError, writes_what_is_locked, ["read-only", "funcad has locked the array until the call"],
            "K = np.array(K) inside the function", writes_a_copy_of_what_is_locked, 20_000.0),
    Mistake("a derivative kept under jit", UserWarning, keeps_a_value, ["jit of <lambda>", "kept[...] is given", "derived"],
            "pass what changes as an argument", lambda: [jit(lambda x: x * 2.0)(1.0)][0], 2.0),
    Mistake("a leak out of grad", RuntimeError, uses_a_value_later, ["float", "had returned", "It was made at"],
            "return the value from the function",
            lambda: grad(lambda x: (x * x, x * 2.0), has_aux=True)(1.0)[1] + 1.0, 3.0),
    Mistake("a generator's draw", UserWarning, draws, ["jit of <lambda>", "variable rng.permuted"],
            "pass what changes as an argument", draws_before, 1.0),
    Mistake("a draw under vmap", RuntimeError, lambda: vmap(lambda x: x + np.random.normal())(X),
            ["numpy.random.normal", "vmap"], "draw for all examples outside",
            lambda: vmap(lambda x, noise: x + 0.0 * noise)(X, np.random.default_rng(0).normal(size=3)), X),
    Mistake("no key", TypeError, lambda: funcad.random.normal(0, (3,)), ["normal: a key is a uint32 array", "int64"],
            "funcad.random.key(seed)", lambda: funcad.random.normal(funcad.random.key(0), (3,)).shape, (3,)),
    Mistake("a shape for a key", TypeError, lambda: funcad.random.normal((3,)), ["normal: the first argument", "tuple"],
            "funcad.random.key(seed)", lambda: funcad.random.normal(funcad.random.key(0), (3,)).shape, (3,)),
    Mistake(".at of a plain array", AttributeError, lambda: jit(lambda v: X.at[0].set(v))(9.0), ["ndarray", "'at'"],
            "funcad.numpy.at(x)[i].set(v)", lambda: jit(lambda v: funcad.numpy.at(X)[0].set(v))(9.0), [9.0, 2.0, 3.0]),
    # -- vmap
    Mistake("sizes differ", ValueError, lambda: vmap(np.add)(np.ones(2), np.ones(3)),
            ["vmap of add", "argument [0] has size 2", "argument [1] has size 3"], "None in in_axes",
            lambda: vmap(np.add, in_axes=(0, None))(np.ones(2), 1.0), 2 * np.ones(2)),
    Mistake("too many in_axes", ValueError, lambda: vmap(np.sin, in_axes=(0, None))(X), ["vmap of sin", "2 entries"],
            "one entry per argument, as in_axes=(0,)", lambda: vmap(np.sin, in_axes=(0,))(0 * X), np.zeros(3)),
    Mistake("an axis too many", ValueError, lambda: vmap(np.sin, in_axes=1)(X), ["vmap of sin", "axis 1", "shape (3,)"],
            "an axis below 1", lambda: vmap(np.sin, in_axes=0)(0 * X), np.zeros(3)),
    Mistake("a number mapped", ValueError, lambda: vmap(lambda x, s: x * s)(X, 2.0), ["axis 0 of argument [1]", "float"],
            "None in in_axes", lambda: vmap(lambda x, s: x * s, in_axes=(0, None))(X, 2.0), 2 * X),
    Mistake("nothing mapped", ValueError, lambda: vmap(np.sin, in_axes=None)(X), ["vmap of sin", "size is unknown"],
            "in_axes=0 for what is to be mapped", lambda: vmap(np.sin, in_axes=0)(0 * X), np.zeros(3)),
    Mistake("in_axes of another tree", ValueError, lambda: vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": X}),
            ["in_axes[0]", "'a'", "'b'"], "one axis (an int or None) for the whole",
            lambda: vmap(lambda p: p["a"], in_axes=(0,))({"a": X}), X),
    Mistake("out_axes too large", ValueError, lambda: vmap(np.sin, out_axes=2)(X), ["vmap of sin", "out_axes=2"],
            "out_axes=0", lambda: vmap(np.sin, out_axes=0)(0 * X), np.zeros(3)),
    Mistake("out_axes=None of a mapped value", ValueError, lambda: vmap(np.sin, out_axes=None)(X), ["out_axes is None"],
            "out_axes=0", lambda: vmap(np.sin, out_axes=0)(0 * X), np.zeros(3)),
    Mistake("vmap(f, x)", TypeError, lambda: vmap(np.sin, X), ["vmap", "in_axes", "float64 array of shape (3,)"], "vmap(f)(x)",
            lambda: vmap(np.sin)(0 * X), np.zeros(3)),
    Mistake("an axis name that is not bound", NameError, lambda: vmap(lambda x: funcad.psum(x, "j"), axis_name="i")(X),
            ["psum", "'j'", "'i'"], "mapped with funcad.vmap(f, axis_name='j')",
            lambda: vmap(lambda x: funcad.psum(x, "j"), axis_name="j")(X), 6 * np.ones(3)),
    # -- loops and branches
    Mistake("no pair from scan's body", TypeError, lambda: scan(lambda c, x: c + x, 0.0, X), ["scan: <lambda>", "a float64"],
            "return carry, y", lambda: scan(lambda c, x: (c + x, None), 0.0, X)[0], 6.0),
    Mistake("a carry that grows", TypeError, lambda: scan(lambda c, x: (np.append(c, x), None), np.zeros(1), X),
            ["scan: carry", "(1,)", "(2,)"], "a carry keeps its shape", lambda: scan(lambda c, x: (c, x), 0.0, X)[1], X),
    Mistake("a carry of another dtype", TypeError, lambda: scan(lambda c, x: (c + x, None), f32(0.0), X),
            ["scan: carry", "32", "float64"], "start from float64", lambda: scan(lambda c, x: (c + x, None), 0.0, X)[0], 6.0),
    Mistake("fori_loop's body of one argument", TypeError, lambda: fori_loop(0, 3, lambda c: c + 1.0, 0.0),
            ["takes 1 positional argument but 2 were given"], "fori_loop calls body_fun(i, carry)",
            lambda: fori_loop(0, 3, lambda i, c: c + 1.0, 0.0), 3.0),
    Mistake("fori_loop to a float", TypeError, lambda: fori_loop(0, 3.0, lambda i, c: c, 0.0), ["upper", "float"], "int(n)",
            lambda: fori_loop(0, int(3.0), lambda i, c: c + 1.0, 0.0), 3.0),
    Mistake("a condition that is a number", TypeError, lambda: while_loop(lambda c: c, lambda c: c - 1.0, 3.0),
            ["while_loop", "one bool of shape ()", "float"], "compare it (x > 0)",
            lambda: while_loop(lambda c: c > 0, lambda c: c - 1.0, 3.0), 0.0),
    Mistake("branches of other shapes", TypeError, lambda: jit(lambda x: cond(x > 0, lambda: x, lambda: np.zeros(3)))(1.0),
            ["cond", "true_fun and false_fun differ", "float", "float64 array of shape (3,)"], "np.broadcast_to(..., (3,))",
            lambda: jit(lambda x: cond(x > 0, lambda: np.broadcast_to(x, (3,)), lambda: np.zeros(3)))(1.0), np.ones(3)),
    Mistake("branches of other dtypes", TypeError,
            lambda: jit(lambda x: cond(x[0] > 0, lambda: x, lambda: x.astype(np.float32)))(X), ["shape (3,)", "float32 array"],
            ".astype(np.float64)", lambda: jit(lambda x: cond(x[0] > 0, lambda: x, lambda: x.astype(np.float64)))(X), X),
    Mistake("values as branches", TypeError, lambda: jit(lambda x: cond(x > 0, x, -x))(-1.0), ["cond", "functions", "float"],
            "np.where(pred, a, b)", lambda: jit(lambda x: np.where(x > 0, x, -x))(-1.0), 1.0),
    Mistake("a branch without its operand", TypeError, lambda: cond(False, lambda: 1.0, lambda x: -x),
            ["missing 1 required positional argument"], "cond(pred, f, g, *operands)",
            lambda: cond(False, lambda x: 1.0, lambda x: -x, 2.0), -2.0),
    Mistake("a predicate of an array", TypeError, lambda: cond(X > 2.0, lambda: 1.0, lambda: 0.0), ["cond", "bool array"],
            "np.where chooses element by element", lambda: np.where(X > 2.0, 1.0, 0.0), [0.0, 0.0, 1.0]),
    Mistake("switch by a float", TypeError, lambda: switch(1.0, [lambda: 1.0, lambda: 2.0]), ["switch", "float"],
            "index.astype(int)", lambda: switch(np.float64(1.0).astype(int), [lambda: 1.0, lambda: 2.0]), 2.0),
    # -- rules and what goes with derivatives
    Mistake("too few cotangents", TypeError, lambda: grad(product)(2.0, 3.0), ["bwd of product", "2", "length 1"],
            "return (ct0, ct1)", lambda: grad(product_right)(2.0, 3.0), 3.0),
    Mistake("no residuals", TypeError, lambda: grad(doubled)(1.0), ["fwd of doubled", "pair (output, residuals)"],
            "return f(x), residuals", lambda: grad(doubled_right)(1.0), 2.0),
    Mistake("no rule", TypeError, lambda: grad(cubed)(1.0), ["custom_jvp function cubed"], "cubed.defjvp(rule)",
            lambda: grad(cubed_right)(1.0), 3.0),
    Mistake("a callback's derivative", NotImplementedError, lambda: grad(lambda x: funcad.pure_callback(np.sin, x, x))(1.0),
            ["pure_callback", "no derivative rule"], "on funcad.stop_gradient(x)",
            lambda: grad(lambda x: x + funcad.pure_callback(np.sin, 1.0, funcad.stop_gradient(x)))(1.0), 1.0),
    Mistake("a tangent's shape", ValueError, lambda: funcad.jvp(np.sin, (X,), (np.ones(2),)), ["jvp: tangents[0]", "(2,)"],
            "np.ones_like", lambda: funcad.jvp(np.sin, (0 * X,), (np.ones_like(X),))[1], np.ones(3)),
    Mistake("a cotangent's dtype", ValueError, lambda: funcad.vjp(np.sin, X)[1](X.astype(f32)), ["vjp of sin", "float32 array"],
            ".astype(np.float64)", lambda: funcad.vjp(np.sin, 0 * X)[1](np.ones_like(X))[0], np.ones(3)),
    Mistake("a NaN", ArithmeticError, lambda: finite(jit(np.log), -1.0), ["log", "NaN"], "np.log(np.where(x > 0, x, 1.0))",
            lambda: finite(jit(lambda x: np.log(np.where(x > 0, x, 1.0))), -1.0), 0.0),
    # -- shapes, settings, trees: NumPy's own words, where it has some
    Mistake("shapes that do not broadcast", ValueError, lambda: jit(lambda x: x + np.ones(2))(X), ["(3,)", "(2,)"], "",
            lambda: jit(lambda x: x + np.ones(3))(X), X + 1),
    Mistake("a product of other sizes", ValueError, lambda: grad(lambda x: (A @ x).sum())(X), ["matmul", "3", "2"], "",
            lambda: grad(lambda x: (A @ x).sum())(X[:2]), A.sum(0)),
    Mistake("a reshape", ValueError, lambda: jit(lambda x: x.reshape(2, 2))(X), ["size 3", "(2, 2)"], "",
            lambda: jit(lambda x: x.reshape(3, 1))(X).shape, (3, 1)),
    Mistake("an axis out of bounds", IndexError, lambda: grad(lambda x: x.sum(axis=1))(X), ["axis 1", "dimension 1"], "",
            lambda: grad(lambda x: x.sum(axis=0))(X), np.ones(3)),
    Mistake("an index out of bounds", IndexError, lambda: jit(lambda x: x[5])(X), ["index 5", "size 3"], "",
            lambda: jit(lambda x: x[2])(X), 3.0),
    Mistake("floats into integers", TypeError, lambda: jit(lambda x: np.add(x, 1.5, out=x))(np.arange(3)),
            ["'add'", "float64", "int64"], "", lambda: jit(lambda x: np.add(x, 1, out=x))(np.arange(3)), [1, 2, 3]),
    Mistake("a setting that is not there", AttributeError, lambda: funcad.config.update("dors", False), ["'dors'"],
            "config.doors", lambda: funcad.config.update("doors", True), None),
    Mistake("an engine that is not there", ValueError, lambda: funcad.config.update("engine", "nativ"),
            ["engine", "'nativ'", "'native'"], "", lambda: funcad.config.update("engine", "auto"), None),
    Mistake("math of an array", TypeError, lambda: grad(lambda x: math.sin(x))(X), [NO_NUMBER],
            "np.sin(x) takes arrays", lambda: grad(lambda x: np.sum(np.sin(x)))(X), np.cos(X)),
    Mistake("torch's backward", AttributeError, lambda: grad(lambda x: np.sum(x**2).backward())(X), ["'backward'"],
            "funcad.grad(f)(x)", lambda: grad(lambda x: np.sum(x**2))(X), 2 * X),
    Mistake("torch's detach", AttributeError, lambda: grad(lambda x: np.sum(x.detach() * x))(X), ["'detach'"],
            "funcad.stop_gradient(x)", lambda: grad(lambda x: np.sum(funcad.stop_gradient(x) * x))(X), X),
    Mistake("jvp without tuples", TypeError, lambda: funcad.jvp(np.sin, X, X), ["tuples", "ndarray"],
            "jvp(f, (x,), (v,))", lambda: funcad.jvp(np.sin, (X,), (X,))[1], X * np.cos(X)),
    Mistake("an optimiser's state of other parameters", ValueError,
            lambda: ADAM.update(X, ADAM.init(np.ones(4)), X), ["(3,)", "(4,)"],
            "state = optimizer.init(params)", lambda: ADAM.update(X, ADAM.init(X), X)[0], [-0.1, -0.1, -0.1]),
    Mistake("a state of another structure", ValueError, lambda: ADAM.update(X, ADAM.init({"w": X}), X), ["(3,)", "a dict"],
            "state = optimizer.init(params)", lambda: ADAM.update(X, ADAM.init(X), X)[0], [-0.1, -0.1, -0.1]),
    Mistake("json of a traced number", TypeError, lambda: grad(lambda x: json.dumps({"x": x}) and x)(1.0), ["JSON"],
            "write it outside", lambda: float(json.dumps({"x": float(grad(lambda x: x)(1.0))})[6:-1]), 1.0),
    Mistake("an integer alone", TypeError, lambda: grad(lambda x: x**2)(3), ["the int 3"],
            "pass 3.0 instead of 3.", lambda: grad(lambda x: x**2)(3.0), 6.0),
    Mistake("a gradient with no pullback", TypeError, lambda: grad(funcad.custom_gradient(lambda x: x))(1.0),
            ["a pair (output, pullback)"], "", lambda: grad(funcad.custom_gradient(lambda x: (x, lambda ct: ct)))(1.0), 1.0),
    Mistake("argnums of a method", TypeError, lambda: Model().slope(1.0), ["argument 0 is self"],
            "argnums=1", lambda: Model().slope_right(1.0), 3.0),
    Mistake("trees that differ", ValueError, lambda: funcad.tree.map(np.add, {"w": 1.0}, {"v": 1.0}), ["'w'", "'v'"],
            "give both the same keys and lengths", lambda: funcad.tree.map(np.add, {"w": 1.0}, {"w": 1.0})["w"], 2.0),
]  # fmt: skip


PAGES = set(
    "start derivatives modes sharp_bits writes control_flow jit pytrees custom_rules linear_algebra implicit random debugging "
    "performance cupy special_functions".split()
)


def told(error: BaseException) -> str:
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
@pytest.mark.filterwarnings("ignore:.*does not depend on the argument")
def test_what_a_mistake_is_told_is_enough(mistake: Mistake) -> None:
    with pytest.raises(mistake.kind) as info:
        mistake.wrong()
    text = told(info.value)
    for part in mistake.says:
        assert part in text, text
    assert "Tracer<" not in text and len(text) < 800, text
    assert not SHORT.search(text), text
    if mistake.remedy:
        assert text.count("Remedy: ") == 1 and mistake.remedy in text[text.index("Remedy: ") :], text
    # the user's line stands in the text, or is where the traceback ends; NumPy's own frames may follow
    frames = [frame.filename for frame in traceback.extract_tb(info.value.__traceback__)]
    assert __file__ in text or __file__ in frames
    package = str(Path(funcad.__file__).parent)
    assert len([name for name in frames if name.startswith(package)]) <= 3, frames  # those that took the others away


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.name)
def test_what_it_is_told_to_write_works(mistake: Mistake) -> None:
    found = mistake.right()
    if mistake.value is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, mistake.value, rtol=1e-5, atol=1e-8)


def test_pages_of_the_manual_that_errors_name_are_there() -> None:
    pages = {kind.page for kind in vars(funcad.errors).values() if isinstance(kind, type) and issubclass(kind, FuncadError)}
    sources = Path(funcad.__file__).parent.rglob("*.py")
    pages |= {page for path in sources for page in re.findall(r"\bdocs/(\w+)", path.read_text("utf8"))} - {""}
    assert pages - {""} <= PAGES
    docs = Path(funcad.__file__).parents[1] / "docs"
    if (docs / "start.md").exists():  # where the manual is: an installed package has none
        assert {page for page in PAGES if not (docs / f"{page}.md").exists()} == set()


def test_a_traced_value_in_another_library_ends_at_the_user_s_line() -> None:
    """matplotlib's frames, and what it tried before, say nothing to those who called it, as in a new process."""
    pytest.importorskip("matplotlib.pyplot")
    code = """
import traceback, numpy as np, matplotlib.pyplot as plt
from funcad import grad
plt.switch_backend("agg")
try:
    grad(lambda x: np.sum(x) * len(plt.plot(x)))(np.ones(3))
except Exception as error:
    traceback.print_exception(error)
"""
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert "Remedy: call the library in funcad.debug.callback" in text
    assert len(text.splitlines()) < 25
