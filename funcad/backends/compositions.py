"""The equations of a program as the NumPy engine writes them.

`lowered` replaces compositions (a * b + c * d, ...) by the equations that their implementations are made of, so that their
temporaries take part in the memory plan. `shortened` replaces what small arrays spend their time on, calls of NumPy: a total of
row totals is one reduction, a sum of squares one product, and sums of the rows of a small matrix are a product with ones.
Invariant of both: the same values, sums up to rounding. Trap: BLAS adds to a zero, so a sum of -0.0 alone would come out as
0.0; a product stands for a sum only where -0.0 cannot occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.arithmetic import abs_p, add_p, div_p, mul_p, neg_p, sqrt_p, sub_p
from funcad.primitives.comparison import select_p, signbit_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.extrema import maximum_p, minimum_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim_p
from funcad.primitives.transcendental import exp_p

__all__ = ["lowered", "shortened"]


def lowered(jaxpr: Jaxpr) -> list[Equation]:
    """The equations, compositions replaced by their parts."""
    result: list[Equation] = []
    for equation in jaxpr.equations:
        parts = PARTS.get(equation.primitive.name)
        aval = equation.outputs[0].aval if equation.outputs else None
        if parts is None or not isinstance(aval, Aval) or not aval.shape or any([_loose(a, aval) for a in equation.inputs]):
            result.append(equation)
            continue
        steps: list[Equation] = []

        def do(primitive: Any, *inputs: Any, out: Any = None, steps: list = steps, equation: Any = equation) -> Var:
            inputs = tuple([a if isinstance(a, (Var, Literal)) else Literal(a) for a in inputs])
            known = [a.aval for a in inputs]
            var = Var(primitive.abstract_eval(*known)) if out is None else out
            steps.append(Equation(primitive, inputs, {}, (var,), equation.source))
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


PARTS: dict[str, Callable[..., Any]] = {
    "mul_add": _mul_add,
    "tanh_linear": _tanh_linear,
    "logistic_linear": _logistic_linear,
    "logistic": _logistic,
    "integer_pow": _integer_pow,
    "rsqrt": _rsqrt,
}


# ---------------------------------------------------------------- fewer calls

FEW = 8192  # elements of a matrix whose rows are summed by a product; in larger ones the work outweighs the call
_EXTREMA = (reduce_max_p, reduce_min_p)
_PASS_ON = frozenset([add_p, mul_p, div_p, sqrt_p, maximum_p, minimum_p, reduce_sum_p, broadcast_in_dim_p, *_EXTREMA])


def shortened(equations: list[Equation], outputs: Sequence[Any]) -> list[Equation]:
    """The equations, in fewer calls of NumPy."""
    if not any([e.primitive is reduce_sum_p or e.primitive in _EXTREMA for e in equations]):
        return equations
    reads = Counter([a for e in equations for a in e.inputs if type(a) is Var])
    reads.update([o for o in outputs if type(o) is Var])
    place = {e.outputs[0]: i for i, e in enumerate(equations) if len(e.outputs) == 1}
    result: list[Equation | None] = list(equations)
    positive: set[Var] = set()

    def inner(equation: Equation, primitive: Any) -> Equation | None:
        """What makes the operand, if it is of this kind and nobody else reads it."""
        x = equation.inputs[0]
        made = result[place[x]] if x in place and reads[x] == 1 else None
        return made if made is not None and made.primitive is primitive else None

    for i, equation in enumerate(equations):
        if equation.primitive is reduce_sum_p or equation.primitive in _EXTREMA:
            part = None if equation.outputs[0].aval.shape else inner(equation, equation.primitive)
            if part is not None:
                x = part.inputs[0]
                result[place[part.outputs[0]]] = None
                equation = equation._replace(inputs=(x,), params={"axes": tuple(range(len(x.aval.shape)))})
            if equation.primitive is reduce_sum_p:
                equation = _sum(equation, inner, result, place, positive)
            result[i] = equation
        if len(equation.outputs) == 1 and _never_minus_zero(equation, positive):
            positive.add(equation.outputs[0])
    return [e for e in result if e is not None]


def _sum(equation: Equation, inner: Callable[..., Any], result: list, place: dict[Var, int], positive: set[Var]) -> Equation:
    """A sum as a product, where that gives the same."""
    x, axes = equation.inputs[0], equation.params["axes"]
    if x.aval.dtype.char not in "fd" or not x.aval.size:
        return equation
    if len(axes) == len(x.aval.shape):
        square = inner(equation, mul_p)
        if square is not None and square.inputs[0] is square.inputs[1] and _made(square.inputs[0], result, place):
            result[place[x]] = None
            numbers = ((axes, axes), ((), ()))
            return Equation(dot_general_p, square.inputs, {"dimension_numbers": numbers}, equation.outputs, equation.source)
    elif x in positive and len(x.aval.shape) == 2 and x.aval.size <= FEW and _made(x, result, place):
        return equation._replace(params={"axes": axes, "positive": True})
    return equation


def _made(x: Var, result: list, place: dict[Var, int]) -> bool:
    """Is it an array, not a broadcast that is left to its readers?"""
    equation = result[place[x]] if x in place else None
    return equation is None or equation.primitive is not broadcast_in_dim_p


def _never_minus_zero(equation: Equation, positive: set[Var]) -> bool:
    """Is every element of the result 0.0, above zero, or NaN?"""
    primitive, inputs = equation.primitive, equation.inputs
    if primitive is exp_p or primitive is abs_p:
        return True
    if primitive is mul_p and inputs[0] is inputs[1]:
        return bool(inputs[0].aval.dtype.kind == "f")
    if primitive is convert_p:
        return bool(inputs[0].aval.dtype.kind == "b")
    if primitive in _PASS_ON:
        return all([_positive(a, positive) for a in inputs])
    return primitive is select_p and all([_positive(a, positive) for a in inputs[1:]])


def _positive(atom: Any, positive: set[Var]) -> bool:
    if type(atom) is Literal:
        value = atom.value
        return atom.aval.dtype.kind in "iuf" and bool(value >= 0) and not np.signbit(value)
    return atom in positive
