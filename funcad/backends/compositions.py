"""Compositions (a * b + c * d, ...) replaced by the equations that their implementations are made of.

So their temporaries take part in the memory plan, and each part is written as any other equation. Invariant: the parts compute
what the implementation computes, operation by operation, zeros' signs included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.arithmetic import abs_p, add_p, div_p, mul_p, neg_p, sqrt_p, sub_p
from funcad.primitives.comparison import select_p, signbit_p
from funcad.primitives.indexing import place_sum_p
from funcad.primitives.shape import concatenate_p, reshape_p
from funcad.primitives.transcendental import exp_p

__all__ = ["lowered"]


def lowered(jaxpr: Jaxpr) -> list[Equation]:
    """The equations, compositions replaced by their parts."""
    result: list[Equation] = []
    for equation in jaxpr.equations:
        parts = PARTS.get(equation.primitive.name)
        aval = equation.outputs[0].aval if equation.outputs else None
        fits = parts is not None and isinstance(aval, Aval) and aval.shape
        if not fits or equation.primitive is not place_sum_p and any([_loose(a, aval) for a in equation.inputs]):
            result.append(equation)
            continue
        steps: list[Equation] = []

        def do(primitive: Any, *inputs: Any, out: Any = None, steps: list = steps, at: Any = equation, **params: Any) -> Var:
            inputs = tuple([a if isinstance(a, (Var, Literal)) else Literal(a) for a in inputs])
            known = [a.aval for a in inputs]
            var = Var(primitive.abstract_eval(*known, **params)) if out is None else out
            steps.append(Equation(primitive, inputs, params, (var,), at.source))
            return var

        if parts(do, equation.outputs[0], *equation.inputs, **equation.params) is None:
            result.append(equation)
        else:
            result += steps
    return result


def _loose(atom: Any, aval: Aval) -> bool:
    """An operand that does not have the result's shape and dtype, apart from literals of the same kind."""
    if type(atom) is Literal:
        return not atom.aval.weak and atom.aval.dtype != aval.dtype
    return atom.aval.shape != aval.shape or atom.aval.dtype != aval.dtype


def _mul_add(do: Any, out: Var, a: Any, b: Any, c: Any, d: Any) -> Any:
    for pair in ((a, b), (c, d)):
        if all([type(x) is Literal for x in pair]):
            return None
    return do(add_p, do(mul_p, a, b), do(mul_p, c, d), out=out)


def _tanh_linear(do: Any, out: Var, t: Any, y: Any) -> Any:
    if type(y) is Literal:
        return None
    return do(mul_p, t, do(sub_p, 1.0, do(mul_p, y, y)), out=out)


def _logistic_linear(do: Any, out: Var, t: Any, y: Any) -> Any:
    if type(y) is Literal:
        return None
    return do(mul_p, t, do(mul_p, y, do(sub_p, 1.0, y)), out=out)


def _logistic(do: Any, out: Var, x: Any) -> Any:
    if out.aval.dtype.kind != "f":
        return None
    small = do(exp_p, do(neg_p, do(abs_p, x)))
    return do(div_p, do(select_p, do(signbit_p, x), small, 1.0), do(add_p, 1.0, small), out=out)


def _integer_pow(do: Any, out: Var, x: Any, n: int) -> Any:
    return do(mul_p, x, x, out=out) if n == 2 else None


def _rsqrt(do: Any, out: Var, x: Any) -> Any:
    return do(div_p, 1.0, do(sqrt_p, x), out=out) if out.aval.dtype.kind in "fc" else None


def _place_sum(do: Any, out: Var, *xs: Any, indices: tuple, shape: tuple) -> Any:
    """Pieces that lie beside each other along one axis and leave nothing out are joined, and added to zero all the same."""
    if len(xs) < 2 or out.aval.dtype.kind not in "fc" or any([type(x) is Literal for x in xs]):
        return None
    if len(shape) == 1:  # numbers are pieces, too
        xs = tuple([do(reshape_p, x, shape=(1,)) if type(index[0]) is int else x for x, index in zip(xs, indices)])
        indices = tuple([((index[0], 1, 1),) if type(index[0]) is int else index for index in indices])
    if any([len(index) != len(shape) or not all([type(entry) is tuple for entry in index]) for index in indices]):
        return None
    axes = {i for index in indices for i, (entry, n) in enumerate(zip(index, shape)) if entry != (0, n, 1)}
    if len(axes) != 1:
        return None
    (axis,) = axes
    order = sorted(range(len(xs)), key=lambda k: indices[k][axis][0])
    end = 0
    for k in order:
        start, count, step = indices[k][axis]
        if start != end or step != 1 and count != 1:
            return None
        end += count
    return do(add_p, do(concatenate_p, *[xs[k] for k in order], axis=axis), 0.0, out=out) if end == shape[axis] else None


PARTS: dict[str, Callable[..., Any]] = {
    "mul_add": _mul_add,
    "tanh_linear": _tanh_linear,
    "logistic_linear": _logistic_linear,
    "logistic": _logistic,
    "integer_pow": _integer_pow,
    "rsqrt": _rsqrt,
    "place_sum": _place_sum,
}
