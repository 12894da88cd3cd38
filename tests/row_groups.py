"""Groups of kind "rows" for tests of engines: known ones, and random ones with everything that the normal form allows."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives import arithmetic
from funcad.primitives import arithmetic as ar
from funcad.primitives import comparison as cmp
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.primitives.transcendental import exp, log, sin, tanh

__all__ = ["ALONG", "DOWN", "Group", "arguments", "layernorm", "random_group", "regression", "softmax"]

ALONG, DOWN = {"axes": (1,)}, {"axes": (0,)}


class Group:
    """A group under construction."""

    def __init__(self, rows: int, columns: int, dtype: Any):
        self.shape = (rows, columns)
        self.dtype = np.dtype(dtype)
        self.inputs: list[Var] = []
        self.equations: list[Equation] = []
        self.kind: dict[Var, str] = {}

    def input(self, kind: str, dtype: Any = None) -> Var:
        shape = {"full": self.shape, "row": self.shape[:1], "column": self.shape[1:], "scalar": ()}[kind]
        v = Var(Aval(shape, np.dtype(dtype or self.dtype)))
        self.inputs.append(v)
        self.kind[v] = kind
        return v

    def do(self, primitive: Any, *operands: Any, kind: str = "", **params: Any) -> Var:
        atoms = tuple([a if isinstance(a, (Var, Literal)) else Literal(a) for a in operands])
        aval = primitive.abstract_eval(*[a.aval for a in atoms], **params)
        out = Var(Aval(aval.shape, aval.dtype))
        self.equations.append(Equation(primitive, atoms, params, (out,)))
        kinds = [self.kind[a] for a in atoms if isinstance(a, Var)]
        self.kind[out] = kind or kinds[0]
        return out

    def full(self, v: Var) -> Var:
        axes = {"row": (0,), "column": (1,), "scalar": ()}.get(self.kind[v])
        return v if axes is None else self.do(broadcast_in_dim, v, kind="full", shape=self.shape, axes=axes)

    def along(self, primitive: Any, v: Var) -> Var:
        return self.do(primitive, v, kind="row", **ALONG)

    def down(self, primitive: Any, v: Var) -> Var:
        return self.do(primitive, v, kind="column" if self.kind[v] == "full" else "scalar", **DOWN)

    def dot(self, full: Var, v: Var) -> Var:
        along = self.kind[v] == "column"
        numbers = (((1,), (0,)) if along else ((0,), (0,)), ((), ()))
        return self.do(dot_general_p, full, v, kind="row" if along else "column", dimension_numbers=numbers)

    def jaxpr(self, *outputs: Var) -> Jaxpr:
        return Jaxpr(tuple(self.inputs), tuple(self.equations), outputs)


def arguments(jaxpr: Jaxpr, rng: Any) -> list[Any]:
    found = []
    for v in jaxpr.inputs:
        x = rng.standard_normal(v.aval.shape)
        x = x > 0 if v.aval.dtype.kind == "b" else (x if v.aval.dtype.kind in "fc" else x * 10)
        x = np.abs(x) if v.aval.dtype.kind == "u" else x  # C leaves open what negative floats become
        found.append(np.asarray(x).astype(v.aval.dtype))
    return found


def random_group(rng: Any, rows: int, columns: int, dtype: Any) -> Jaxpr:
    """A few levels of everything that the normal form allows, with values that stay near 1."""
    g = Group(rows, columns, dtype)
    for kind in ("full", "full", "row", "column", "scalar"):
        if rng.random() < 0.75 or kind == "full" and not g.inputs:
            g.input(kind)
    values = list(g.inputs)

    def some(*kinds: str) -> Var | None:
        fit = [v for v in values if g.kind[v] in kinds and v.aval.dtype == g.dtype]
        return fit[int(rng.integers(len(fit)))] if fit else None

    ends: list[Var] = []
    for _ in range(int(rng.integers(4, 22))):
        choice = int(rng.integers(12))
        x = some("full") if choice < 7 or choice > 8 else some("row", "row", "full")
        if x is None:
            continue
        own = (g.kind[x],)
        if choice == 0:
            v = some("row", "column", "scalar")
            y = g.do(ar.mul, x, g.full(v)) if v is not None else g.do(ar.neg, x)
        elif choice == 1:
            y = g.do([tanh, sin, ar.abs_][int(rng.integers(3))], x)
        elif choice == 2:
            y = g.do(exp, g.do(arithmetic.minimum, x, 1.0))
        elif choice == 3:
            y = g.do(cmp.select, g.do(cmp.gt, x, 0.25), x, some(*own))
        elif choice == 4:
            y = g.along([reduce_max_p, reduce_min_p][int(rng.integers(2))], x)
        elif choice == 5:
            y = g.do(ar.mul, g.along(reduce_sum_p, x), 1.0 / columns)
        elif choice == 6:
            w = some("column")
            y = g.do(ar.mul, g.dot(x, w), 1.0 / columns) if w in g.inputs else g.do(ar.mul, x, 0.5)
        elif choice in (7, 8):
            y = g.do(ar.add if choice == 7 else ar.sub, g.do(ar.mul, x, 0.5), some(*own))
            if own == ("row",) and rng.random() < 0.3:
                ends.append(g.down([reduce_sum_p, reduce_max_p][int(rng.integers(2))], y))
        elif choice == 9:
            v = some("row")
            ends.append(g.down(reduce_sum_p, x) if v is None or rng.random() < 0.5 else g.dot(x, v))
            continue
        elif choice == 10:
            v = some("row", "column", "scalar")
            y = g.do(ar.sub, x, g.full(v)) if v is not None else g.do(ar.div, x, 3.0)
        else:
            y = g.do(ar.div, x, g.do(ar.add, g.do(ar.abs_, some("full")), 1.0))
        values.append(y)
    made = [v for v in values if v not in g.inputs and g.kind[v] in ("full", "row")]
    ends += [v for i, v in enumerate(made) if i == len(made) - 1 or rng.random() < 0.3]
    return g.jaxpr(*ends)


def softmax(rows: int, columns: int, dtype: Any) -> Jaxpr:
    g = Group(rows, columns, dtype)
    z = g.input("full")
    top = g.along(reduce_max_p, z)
    e = g.do(exp, g.do(ar.sub, z, g.full(top)))
    total = g.along(reduce_sum_p, e)
    p = g.do(ar.div, e, g.full(total))
    logs = g.do(ar.add, g.do(log, total), top)
    return g.jaxpr(p, logs, g.down(reduce_sum_p, logs), g.down(reduce_sum_p, p))


def layernorm(rows: int, columns: int, dtype: Any) -> Jaxpr:
    """Forward and backward."""
    g = Group(rows, columns, dtype)
    x, gamma, beta, ct = (g.input(k) for k in ("full", "column", "column", "full"))
    d = g.do(ar.sub, x, g.full(g.do(ar.div, g.along(reduce_sum_p, x), float(columns))))
    var = g.do(ar.div, g.along(reduce_sum_p, g.do(ar.mul, d, d)), float(columns))
    inv = g.full(g.do(ar.div, 1.0, g.do(ar.sqrt, g.do(ar.add, var, 1e-5)), kind="row"))
    n = g.do(ar.mul, d, inv)
    y = g.do(ar.add, g.do(ar.mul, n, g.full(gamma)), g.full(beta))
    k = g.do(ar.mul, ct, g.full(gamma))
    a = g.full(g.do(ar.div, g.along(reduce_sum_p, k), float(columns)))
    b = g.full(g.do(ar.div, g.along(reduce_sum_p, g.do(ar.mul, k, n)), float(columns)))
    dx = g.do(ar.mul, g.do(ar.sub, g.do(ar.sub, k, a), g.do(ar.mul, n, b)), inv)
    return g.jaxpr(y, dx, g.down(reduce_sum_p, g.do(ar.mul, ct, n)), g.down(reduce_sum_p, ct))


def regression(rows: int, columns: int, dtype: Any) -> Jaxpr:
    """Value and gradient of a logistic regression."""
    g = Group(rows, columns, dtype)
    x, w, y = (g.input(k) for k in ("full", "column", "row"))
    z = g.dot(x, w)
    p = g.do(ar.div, 1.0, g.do(ar.add, g.do(exp, g.do(ar.neg, z)), 1.0), kind="row")
    loss = g.do(ar.sub, g.do(log, g.do(ar.add, g.do(exp, z), 1.0)), g.do(ar.mul, z, y))
    return g.jaxpr(g.down(reduce_sum_p, loss), g.dot(x, g.do(ar.sub, p, y)))
