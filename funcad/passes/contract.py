"""Chains of matrix products in the cheapest order; under fast_math only.

`(A @ B) @ v` costs a product of matrices, `A @ (B @ v)` two products with a vector. The results are the same for real numbers
and differ by rounding (and by where they overflow) for floats, so the order that the user wrote stays unless fast_math allows
to change it. A chain is a maximal tree of products of matrices and vectors whose inner results nobody else reads; its best
order is found by dynamic programming. A transposed result is the chain of the transposed factors in reverse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.contraction import dot_general_p

LONGEST = 40  # factors of one chain


class _Factor(NamedTuple):
    """A matrix, taken transposed or not, or a vector."""

    atom: Any
    transposed: bool

    @property
    def rows(self) -> int:
        shape = self.atom.aval.shape
        return shape[-1] if self.transposed else shape[0]

    @property
    def columns(self) -> int:
        shape = self.atom.aval.shape
        return shape[0] if self.transposed else shape[-1]


def _is_product(equation: Equation | None) -> bool:
    """Two matrices, or a matrix and a vector, with one axis summed."""
    if equation is None or equation.primitive is not dot_general_p or any([type(a) is Literal for a in equation.inputs]):
        return False
    (cx, _), (bx, _) = equation.params["dimension_numbers"]
    dims = sorted([a.aval.ndim for a in equation.inputs])
    return len(cx) == 1 and not bx and dims in ([1, 2], [2, 2])


class _ChainProgram:
    """The program under construction."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.makers = {e.outputs[0]: e for e in jaxpr.equations if _is_product(e)}
        self.readers: dict[Any, list[Any]] = {o: [None] for o in jaxpr.outputs}
        for e in jaxpr.equations:
            for a in e.inputs:
                self.readers.setdefault(a, []).append(e)

    def inner(self, v: Any) -> Equation | None:
        """The product that makes v, if only another product reads it and it is a matrix (a vector ends a chain)."""
        e = self.makers.get(v)
        if e is None or v.aval.ndim != 2 or len(self.readers.get(v, ())) != 1:
            return None
        return e if _is_product(self.readers[v][0]) else None

    def factors(self, top: Equation) -> list[_Factor]:
        result: list[_Factor] = []
        stack: list[tuple[Any, bool]] = [(top, False)]
        while stack:
            node, flipped = stack.pop()
            if type(node) is not Equation:
                e = self.inner(node)
                if e is None:
                    result.append(_Factor(node, flipped))
                    continue
                node = e
            (cx, cy), _ = node.params["dimension_numbers"]
            x, y = node.inputs
            left = (x, x.aval.ndim == 2 and cx[0] == 0)
            right = (y, y.aval.ndim == 2 and cy[0] == 1)
            if flipped:
                left, right = (y, not right[1] if y.aval.ndim == 2 else False), (x, not left[1] if x.aval.ndim == 2 else False)
            stack += [right, left]
        return result

    def run(self) -> Jaxpr:
        dropped: set[int] = set()
        new: dict[int, list[Equation]] = {}
        for e in self.jaxpr.equations:
            if not _is_product(e) or self.inner(e.outputs[0]) is not None:
                continue
            factors = self.factors(e)
            if not 2 < len(factors) <= LONGEST:
                continue
            cost, splits = _best_order(factors)
            if cost < self.cost(e):
                new[id(e)] = _written(factors, splits, e)
                dropped.update(self.members(e))
        if not new:
            return self.jaxpr
        equations: list[Equation] = []
        for e in self.jaxpr.equations:
            if id(e) in new:
                equations += new[id(e)]
            elif id(e) not in dropped:
                equations.append(e)
        return Jaxpr(self.jaxpr.inputs, tuple(equations), self.jaxpr.outputs)

    def tree(self, top: Equation) -> list[Equation]:
        found, stack = [], [top]
        while stack:
            e = stack.pop()
            found.append(e)
            stack += [m for a in e.inputs if (m := self.inner(a)) is not None]
        return found

    def members(self, top: Equation) -> list[int]:
        return [id(e) for e in self.tree(top)]

    def cost(self, top: Equation) -> int:
        return sum([_multiplications(e) for e in self.tree(top)])


def _multiplications(e: Equation) -> int:
    (cx, _), _ = e.params["dimension_numbers"]
    return e.outputs[0].aval.size * e.inputs[0].aval.shape[cx[0]]


def _best_order(factors: list[_Factor]) -> tuple[int, dict[tuple[int, int], int]]:
    """The least number of multiplications, and where to cut each part of the chain."""
    n = len(factors)
    first, last = factors[0], factors[-1]
    sizes = [1 if first.atom.aval.ndim == 1 else first.rows]
    sizes += [f.rows for f in factors[1:]] + [1 if last.atom.aval.ndim == 1 else last.columns]
    costs = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [(costs[i, k] + costs[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            costs[i, j], splits[i, j] = min(options)
    return costs[0, n - 1], splits


def _written(factors: list[_Factor], splits: dict[tuple[int, int], int], top: Equation) -> list[Equation]:
    """The products in this order; the last one has the chain's own result."""
    equations: list[Equation] = []

    def part(i: int, j: int, out: Var | None = None) -> _Factor:
        if i == j:
            return factors[i]
        k = splits[i, j]
        left, right = part(i, k), part(k + 1, j)
        x, y = left.atom, right.atom
        cx = 0 if left.transposed or x.aval.ndim == 1 else 1
        cy = 1 if right.transposed else 0
        params = {"dimension_numbers": (((cx,), (cy,)), ((), ()))}
        if out is None:
            aval = dot_general_p.abstract_eval(x.aval, y.aval, **params)
            out = Var(Aval(aval.shape, aval.dtype))
        equations.append(Equation(dot_general_p, (x, y), params, (out,), top.source))
        return _Factor(out, False)

    part(0, len(factors) - 1, top.outputs[0])
    return equations


def contract(jaxpr: Jaxpr) -> Jaxpr:
    """The program with chains of matrix products in the order of least work. Rounding changes: for fast_math.

    >>> import numpy as np, funcad
    >>> from funcad.passes.contract import contract
    >>> jaxpr = funcad.make_jaxpr(lambda a, b, v: a @ b @ v)(np.ones((9, 8)), np.ones((8, 7)), np.ones(7)).jaxpr
    >>> [e.outputs[0].aval.short for e in contract(jaxpr).equations]
    ['f64[8]', 'f64[9]']
    """
    if sum([e.primitive is dot_general_p for e in jaxpr.equations]) < 2:
        return jaxpr
    return _ChainProgram(jaxpr).run()
