"""What checkers and editors see: 44 expressions as users write them, of which none is Any but inside an array's type."""

from dataclasses import dataclass
from typing import reveal_type

import numpy as np

import funcad

from funcad import (  # isort: skip
    checkpoint, cond, fori_loop, grad, hessian, hvp, jacfwd, jacobian, jit, jvp, linearize, optimize, random, scan,
    stop_gradient, switch, tree, value_and_grad, vjp, vmap, while_loop,
)

x: np.ndarray = np.ones(3)


@dataclass
class Line:
    slope: np.ndarray
    offset: float


def loss(w: np.ndarray, x: np.ndarray) -> float:
    return float(np.sum(w * x))


def with_aux(w: np.ndarray, x: np.ndarray) -> tuple[float, str]:
    return float(np.sum(w * x)), "aux"


def model(line: Line, x: np.ndarray) -> np.ndarray:
    return line.slope * x + line.offset


def step(carry: float, row: float) -> tuple[float, float]:
    return carry + row, carry


line = Line(x, 1.0)
reveal_type(grad(loss))
reveal_type(grad(loss)(x, x))
reveal_type(grad(loss, argnums=1)(x, x))
reveal_type(grad(loss, argnums=(0, 1))(x, x))
reveal_type(grad(loss, argnums=(0, 1)))
reveal_type(grad(with_aux, has_aux=True)(x, x))

reveal_type(value_and_grad(loss)(x, x))
reveal_type(value_and_grad(with_aux, has_aux=True)(x, x))
reveal_type(value_and_grad(loss, argnums=(0, 1))(x, x))
reveal_type(jit(loss))
reveal_type(jit(loss)(x, x))
reveal_type(jit(grad(loss))(x, x))
reveal_type(jit(model)(line, x))
reveal_type(jit(loss, static_argnums=0)(x, x))
reveal_type(jit(loss).lower(x, x))
reveal_type(jit(loss).source(x, x))
reveal_type(jit(loss).cache_info().hits)
reveal_type(vmap(loss))
reveal_type(vmap(loss)(x, x))
reveal_type(vmap(model, in_axes=(None, 0))(line, x))
reveal_type(vmap(grad(loss))(x, x))
reveal_type(jvp(loss, (x, x), (x, x)))
reveal_type(vjp(loss, x, x))
reveal_type(vjp(loss, x, x)[1](1.0))
reveal_type(linearize(loss, x, x)[1](x, x))
reveal_type(hvp(lambda x: np.sum(x**2), (x,), (x,)))
reveal_type(jacfwd(model)(line, x))
reveal_type(jacobian(np.sin)(x))
reveal_type(hessian(loss)(x, x))
reveal_type(scan(step, 0.0, x)[0])
reveal_type(cond(True, lambda a: a, lambda a: a, x))
reveal_type(while_loop(lambda v: v[1] < 3, lambda v: (v[0], v[1] + 1), (x, 0)))
reveal_type(fori_loop(0, 3, lambda i, v: v * 2.0, x))
reveal_type(tree.map(np.add, line, line))
reveal_type(tree.structure(line))
reveal_type(optimize.adam(0.1))
reveal_type(optimize.adam(0.1).init(line))
reveal_type(optimize.adam(0.1).update(line, optimize.adam(0.1).init(line), line))
reveal_type(optimize.apply_updates(line, line))
reveal_type(funcad.numpy.linalg.solve(np.eye(3), x))
reveal_type(random.normal(random.key(0), (3,)))
reveal_type(checkpoint(loss)(x, x))
reveal_type(stop_gradient(x))
reveal_type(switch(0, [model, model], line, x))
