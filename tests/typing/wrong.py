"""Programs with one mistake a line: each line that says so is an error to both checkers, and no other."""

import numpy as np

import funcad
from funcad import custom_vjp, grad, jit, scan, vmap
from funcad.scipy import special


def f(x: np.ndarray, y: float) -> float:
    return np.sum(x) * y


@jit
def g(x: np.ndarray) -> float:
    return np.sum(x)


@custom_vjp
def h(x: np.ndarray) -> np.ndarray:
    return x


def body(carry: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, float]:
    return carry + x, 0.0


x = np.ones(2)
g("text")  # wrong: not an array
g()  # wrong: an argument is missing
g(x, z=3.0)  # wrong: no such parameter
grad(f)(x)  # wrong: an argument is missing
grad(f, argnum=1)  # wrong: it is called argnums
grad(3.0)  # wrong: not a function
vmap(f, in_axis=0)  # wrong: it is called in_axes
jit(f, static_argnum=0)  # wrong: it is called static_argnums
g.lowered(x)  # wrong: no such method
g(x).shape  # wrong: a number
h.defvjp(lambda x: (x, None))  # wrong: bwd is missing
h("text")  # wrong: not an array
scan(body, "text", x)  # wrong: the carry is an array
funcad.gradient(f)  # wrong: no such name
special.gamaln(x)  # wrong: no such name
