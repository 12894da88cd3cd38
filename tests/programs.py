"""Small programs that together use everything the composition test should see: `PROGRAMS`.

Each is a function of arrays (pytrees allowed) with arguments: few elements, since the reference takes one forward-mode run per
element, and values away from kinks under small changes (vmap stacks the arguments with 0.9 times themselves; integers with one
less). Results may hold integers; the test drops them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
import funcad.debug
import funcad.lax
import funcad.numpy as fnp
from funcad import grad, jit, jvp, vmap

__all__ = ["PROGRAMS", "Program"]


class Program:
    """A function, its arguments, and what the test has to know of it."""

    __slots__ = ("name", "f", "make_args", "order", "following", "tolerance", "differences", "step")

    def __init__(
        self,
        f: Callable[..., Any],
        make_args: Callable[[], tuple],
        order: int = 3,
        following: bool = False,
        tolerance: float = 1e-9,
        differences: bool = True,
        step: float | None = None,
    ):
        self.name = f.__name__
        self.f = f
        self.make_args = make_args
        self.order = order  # how many derivatives it has
        self.following = following  # Python control flow on values: only outside jit, vmap and checkpoint
        self.tolerance = tolerance
        self.differences = differences  # are its derivatives those of its value (no stop_gradient)?
        self.step = step  # of central differences


PROGRAMS: list[Program] = []
MISSING: list[str] = []  # programs that cannot run yet, with what they need


def program(*args: Any, needs: str = "", **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put a function, with its arguments, on the list."""

    def add(f: Callable[..., Any]) -> Callable[..., Any]:
        found: Any = funcad
        for part in needs.split(".") if needs else []:
            found = getattr(found, part, None)
        if found is None:
            MISSING.append(f"{f.__name__} needs funcad.{needs}")
        else:
            PROGRAMS.append(Program(f, lambda: args, **options))
        return f

    return add


def vector(n: int, start: float = 0.3, step: float = 0.4) -> np.ndarray:
    return start + step * np.arange(n)


# -- straight programs


@program(vector(3))
def elementwise(x):
    return np.sin(x) * np.exp(-x) + np.tanh(x) - np.log(x + 1.0)


@program(0.7)
def python_scalar(x):
    return 2 * x * np.sin(x) - 1


@program(np.float64(0.7), vector(2))
def scalar_and_vector(a, x):
    return a * x + np.cos(a)


@program({"w": vector(2), "b": (np.float64(0.1), None)}, [vector(2, 0.5)])
def pytrees(params, data):
    (x,) = data
    hidden = np.tanh(params["w"] * x + params["b"][0])
    return {"sum": np.sum(hidden), "parts": [hidden, (x,)]}


CAPTURED = vector(3, 1.0)


@program(vector(3))
def captured_array(x):
    return np.sum(CAPTURED * np.sin(x * CAPTURED))


@program(vector(2), vector(2))
def passed_through(x, unused):
    return x, x, 1.5, CAPTURED, x * 0.0


@program(np.zeros((0, 2)), vector(2))
def empty_arrays(x, y):
    return np.sin(x) * 2.0, np.sum(x) + np.sum(y * y)


@program(vector(2).astype(np.float32), tolerance=2e-4, step=2.0**-8, differences=False)
def float32(x):
    return np.sin(x) * x


@program(vector(2) + 0.5j * vector(2))
def complex_numbers(z):
    return z * z * np.sin(z) + (1 - 2j) * z


@program(vector(2), 3)
def integer_argument(x, n):
    return x * n, n


# -- transforms inside


@program(vector(2))
def inner_jit(x):
    square = jit(lambda y: y * y * x)
    return square(np.sin(x)) + square(x)


scaled = jit(lambda a, x: {"out": a * np.sin(x), "again": x})


@program(np.float64(0.7), vector(2))
def jitted_twice(a, x):
    return scaled(a, scaled(a, x)["out"])["out"]


@program(vector(2))
def inner_grad(x):
    return grad(lambda y: np.sum(np.sin(x * y) * y))(x) * x


@program(np.float64(0.7))
def perturbations_not_confused(x):
    return x * jvp(lambda y: x * y * y, (2.0,), (1.0,))[1]


@program(vector(2), np.float64(0.4))
def inner_vmap(x, a):
    return vmap(lambda b, c: b * np.sin(c * b), in_axes=(0, None))(x, a)


@program(vector(2))
def jit_of_grad_of_jit(x):
    inner = jit(lambda y: np.sum(np.exp(y) * x))
    return jit(grad(inner))(x) * x


# -- indexing, contraction, linear algebra, complex parts


@program(vector(4))
def gather_and_scatter(x):
    picked = x[np.array([2, 0, 2])] * x[1:]
    return fnp.at(x * 2.0)[np.array([1, 1, 3])].add(picked), x[::-1][:2], x[x.shape[0] - 1]


@program(vector(2), np.array([1, 0]))
def traced_indices(x, i):
    return np.sin(x)[i] * x, np.take(x, i[0])


@program(vector(4).reshape(2, 2), vector(2))
def einsum(a, x):
    return np.einsum("ij,j->i", a, np.sin(x)), np.einsum("ij,kj->ik", a, a)


@program(vector(4).reshape(2, 2), vector(2))
def matmul(a, x):
    return np.tanh(a @ x) @ a, x @ x


@program(vector(3), vector(3, 0.5))
def reductions(x, y):
    return np.max(x * y), np.mean(x) * np.prod(y), np.cumsum(x * x), np.sort(y * x)[:2]


@program(vector(2), vector(2, 0.5))
def complex_parts(x, y):
    z = x + 1j * y
    return np.abs(z), np.real(z * z), np.imag(np.exp(z))


@program(np.array([[2.0, 0.3], [0.1, 1.5]]), vector(2), tolerance=1e-8, needs="numpy.linalg.solve")
def linear_solve(a, b):
    return np.linalg.solve(a, b)


@program(np.array([[2.0, 0.3], [0.1, 1.5]]), vector(2), tolerance=1e-8, needs="scipy.linalg.expm")
def matrix_functions(a, b):
    solve = lambda matvec, r: np.linalg.solve(a, r)
    x = funcad.custom_linear_solve(lambda v: a @ v, b, solve, lambda vecmat, r: np.linalg.solve(a.T, r))
    return funcad.scipy.linalg.expm(0.3 * a) @ x, funcad.scipy.linalg.solve_triangular(a, b)


@program(vector(2), differences=False, needs="stop_gradient")
def stopped(x):
    return x * funcad.stop_gradient(np.sin(x))


@program(vector(2), tolerance=2e-4, differences=False)
def mixed_precision(x):
    half = np.sin(x.astype(np.float32))
    return half * 2, (half * half).astype(np.float64) * x


# -- control flow


@program(vector(2), np.float64(0.3), needs="scan")
def scan_with_an_integer_carry(xs, start):
    def body(carry, x):
        i, total = carry
        total = total * np.cos(x) + x * i
        return (i + 1, total), total * x

    (_, last), ys = funcad.scan(body, (1, start), xs)
    return last, ys


@program(vector(2), needs="scan")
def scan_backwards_over_captured(x):
    def body(carry, y):
        return carry * x[0] + y, np.sin(carry) * y

    return funcad.scan(body, x[1], (x * 2.0), reverse=True)


@program(vector(2), np.float64(0.6), needs="cond")
def cond_by_closure(x, a):
    b = np.sin(a)
    return funcad.cond(np.sum(x) > 0.9, lambda: x * b, lambda: np.cos(x) - b)


@program(vector(2), 2, needs="switch")
def switch(x, i):
    return funcad.switch(i, [np.sin, lambda y: y * y, lambda y: y * x], x)


@program(np.float64(0.7), vector(2), needs="while_loop")
def while_with_values(limit, x):
    def body(carry):
        n, y = carry
        return n + 1, y * 1.5 + np.sin(x) * limit

    n, y = funcad.while_loop(lambda carry: np.sum(carry[1]) < 4.0 * limit + 1.0, body, (0, x))
    return n, y


@program(np.float64(0.7), vector(2), needs="while_loop")
def while_in_while(a, x):
    def outer(carry):
        i, y = carry
        inner = lambda c: (c[0] + 1, np.sin(c[1]) * a + c[1] * x)
        _, y = funcad.while_loop(lambda c: c[0] < i, inner, (0, y))
        return i + 1, y * 1.1

    return funcad.while_loop(lambda carry: carry[0] < 2 + a, outer, (0, x))[1]


@program(vector(2), np.float64(0.5), needs="while_loop")
def while_in_a_branch(x, a):
    """Only one branch has stacks among its residuals; under vmap, lanes of both kinds meet."""

    def loop(y):
        return funcad.while_loop(lambda c: np.sum(c) < 3.0, lambda c: c * (1.3 + a) + np.sin(c * y), y)

    grown = funcad.cond(a > 0.47, loop, lambda y: np.sin(y) * a, x)
    return grown + funcad.cond(np.sum(x) > 0.95, loop, lambda y: y * y, x * a)


@program(vector(2), 3, needs="fori_loop")
def fori_loop_of_unknown_length(x, n):
    return funcad.fori_loop(0, n, lambda i, y: y * x + i * np.sin(y), x * 0.5)


@program(vector(2), needs="map")
def map_over_rows(x):
    return funcad.map(lambda y: np.sum(np.sin(y) * x), np.stack([x, x * x]))


# -- custom rules


def _safe_log_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return np.log(x), t / x


def _with_jvp():
    f = funcad.custom_jvp(lambda x: np.log(x))
    f.defjvp(_safe_log_jvp)
    return f


def _with_vjp():
    f = funcad.custom_vjp(lambda x, y: np.sin(x) * y)
    f.defvjp(lambda x, y: (np.sin(x) * y, (x, y)), lambda saved, ct: (ct * np.cos(saved[0]) * saved[1], ct * np.sin(saved[0])))
    return f


def _with_both():
    f = funcad.custom_vjp(lambda x: x * x * x)
    f.defvjp(lambda x: (x * x * x, {"x": x}), lambda saved, ct: (3.0 * ct * saved["x"] * saved["x"],))
    f.defjvp(lambda primals, tangents: (primals[0] * primals[0] * primals[0], 3.0 * primals[0] * primals[0] * tangents[0]))
    return f


@program(vector(2, 0.5), needs="custom_jvp")
def custom_jvp(x):
    return _with_jvp()(x) * x


@program(vector(2), np.float64(0.7), needs="custom_vjp")
def custom_vjp(x, y):
    f = _with_vjp()
    return f(x, y * x) + f(y, y)


@program(vector(2), needs="custom_vjp")
def custom_both_rules(x):
    return np.sin(_with_both()(x))


@program(vector(2), np.float64(0.7), needs="custom_vjp")
def custom_vjp_in_a_scan(x, y):
    f = _with_vjp()
    return funcad.scan(lambda carry, v: (f(carry, v), carry * v), y, x)


# -- checkpoint, collectives, effects


@program(vector(2), np.float64(0.5), needs="checkpoint")
def checkpoint_by_closure(x, a):
    return funcad.checkpoint(lambda y: np.sin(np.sin(y) * a))(x)


@program(vector(4).reshape(2, 2), needs="checkpoint_policies")
def checkpoint_with_a_policy(x):
    policy = funcad.checkpoint_policies.dots_saveable
    return funcad.checkpoint(lambda y: np.tanh(np.tanh(y @ y) * y), policy=policy)(x)


@program(vector(2), needs="lax.psum")
def collective(x):
    lanes = vmap(lambda y: y / funcad.lax.psum(y * y, "lanes") * funcad.lax.axis_index("lanes"), axis_name="lanes")
    return lanes(np.sin(x))


@program(vector(4).reshape(2, 2), needs="lax.all_to_all")
def collectives(x):
    def lane(y):
        largest, smallest = funcad.lax.pmax(y, "lanes"), funcad.lax.pmin(y, "lanes")
        everyone = funcad.lax.all_gather(np.sin(y), "lanes")
        own = funcad.lax.psum_scatter(everyone * y, "lanes") + funcad.lax.all_to_all(y, "lanes", 0, 0)
        return largest * smallest, own * funcad.lax.ppermute(y, "lanes", [(0, 1), (1, 0)])

    return vmap(lane, axis_name="lanes")(x)


@program(vector(2), needs="debug.print")
def printing(x):
    y = np.sin(x)
    funcad.debug.print("y = {}", y)
    return y * x


@program(vector(2), order=0, needs="io_callback")
def ordered_callback(x):
    shape = funcad.ShapeDtypeStruct((2,), np.dtype(float))
    return funcad.io_callback(lambda v: np.asarray(v) + 1.0, shape, x, ordered=True)


@program(vector(2), np.float64(2.0), needs="custom_vmap")
def custom_vmap(x, a):
    @funcad.custom_vmap
    def f(y, b):
        return np.sin(y) * b

    @f.def_vmap
    def rule(size, batched, y, b):
        y, b = [v if is_batched else np.stack([v] * size) for v, is_batched in zip((y, b), batched)]
        return np.sin(y) * (b[:, None] if b.ndim < y.ndim else b), True

    return f(x, a)


@program(np.float64(2.0), vector(2), tolerance=1e-7, needs="custom_root")
def implicit_root(a, x):
    solve = lambda f, y: funcad.fori_loop(0, 40, lambda i, y: y - f(y) / (2.0 * y), y)
    y = funcad.custom_root(lambda y: y * y - a, a, solve, lambda g, b: b / g(np.ones_like(b)))
    return y * x


@program(vector(2, 1.0), vector(2), tolerance=1e-8, needs="custom_linear_solve")
def implicit_linear_solve(d, b):
    solve = lambda matvec, b: b / matvec(np.ones_like(b))
    return funcad.custom_linear_solve(lambda x: d * x, b, solve, symmetric=True)


@program(vector(2), needs="checkpoint_name")
def named_values(x):
    policy = funcad.checkpoint_policies.save_only_these_names("kept")
    return funcad.checkpoint(lambda y: np.sin(funcad.checkpoint_name(np.exp(y), "kept")) * y, policy=policy)(x)


@program(vector(2), order=0, needs="ShapeDtypeStruct")
def callback(x):
    shape = funcad.ShapeDtypeStruct((2,), np.dtype(float))
    return funcad.pure_callback(lambda v: np.asarray(v) * 2.0, shape, x, vmap_method="sequential") * x


@program(vector(2), needs="random.normal")
def random_draw(x):
    return x * funcad.random.normal(funcad.random.key(0), (2,))


# -- Python control flow on values


@program(vector(2), following=True)
def python_if(x):
    if np.sum(x) > 0.5:
        return np.sin(x) * x
    return x


@program(np.float64(2.0), following=True, tolerance=1e-8)
def newton_while(a):
    x, steps = a * 0.8, 0
    while abs(x * x - a) > 1e-9 or steps < 6:
        x = x - (x * x - a) / (2.0 * x)
        steps += 1
    return x


@program(vector(4), following=True)
def boolean_mask(x):
    return np.sum(x[x > 0.5] ** 2), [np.sin(y) for y in x if y < 1.0]
