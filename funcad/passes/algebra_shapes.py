"""The rules of algebra that pairs of functions cannot say: they look at shapes, dtypes, parameters or the value of a literal.

A rule is `(primitive, function)`; `function(work, equation)` gives the atom that the equation's result is, a better equation
with the same output, or None. Operations that move or copy elements are composed with those that feed them; a literal that was
broadcast becomes a literal again beside shaped operands. Trap: NumPy's power takes short cuts for scalar exponents, which are
not bitwise those for arrays, so a power keeps its operands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.ir.jaxpr import Equation, Literal
from funcad.passes.rewrite import Work, fits
from funcad.primitives.arithmetic import add, div, maximum, minimum, mul, mul_add_p, neg, sub
from funcad.primitives.basic_indexing import basic_place_p, basic_update_p
from funcad.primitives.comparison import and_, eq, ge, gt, le, logical_and, logical_or, logical_xor, lt, ne, or_, select, xor
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.reduction import reduce_max_p, reduce_min_p, reduce_prod_p, reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, concatenate_p, pad_p, reshape, rev_p, slice_p, transpose

Found = Any  # an atom, an Equation with the same output, or None
ShapeRule = Callable[[Work, Equation], Found]


def _with(equation: Equation, inputs: tuple, params: dict[str, Any] | None = None, primitive: Any = None) -> Equation:
    """The equation with other operands (and parameters, and primitive)."""
    return Equation(
        primitive or equation.primitive,
        inputs,
        equation.params if params is None else params,
        equation.outputs,
        equation.source,
    )


# ---------------------------------------------------------------- moving elements


def _reshape(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    shape = equation.params["shape"]
    if x.aval.shape == shape and not x.aval.weak:
        return x
    made = work.definition(x, reshape)
    return None if made is None else _with(equation, made.inputs)


def _transpose(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    perm = equation.params["perm"]
    if perm == tuple(range(len(perm))) and not x.aval.weak:
        return x
    made = work.definition(x, transpose)
    if made is None:
        return None
    inner = made.params["perm"]
    return _with(equation, made.inputs, {"perm": tuple([inner[i] for i in perm])})


def _broadcast(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    shape, axes = equation.params["shape"], equation.params["axes"]
    if x.aval.shape == shape and axes == tuple(range(len(shape))) and not x.aval.weak:
        return x
    made = work.definition(x, broadcast_in_dim)
    if made is not None:
        return _with(equation, made.inputs, {"shape": shape, "axes": tuple([axes[a] for a in made.params["axes"]])})
    made = work.definition(x, reshape)
    if made is None:
        return None
    (y,) = made.inputs  # of which x is a view with more, or fewer, axes of size 1
    places = _places(y.aval.shape, x.aval.shape)
    if places is None:
        return None
    return _with(equation, (y,), {"shape": shape, "axes": tuple([axes[i] for i in places])})


def _places(shape: tuple, other: tuple) -> list[int] | None:
    """The axes of `other` that the axes of `shape` are, if `other` has besides them axes of size 1 only."""
    places, i = [], 0
    for n in shape:
        while i < len(other) and other[i] != n:
            if other[i] != 1:
                return None
            i += 1
        if i == len(other):
            return None
        places.append(i)
        i += 1
    return places if all(n == 1 for n in other[i:]) else None


def _reverse(work: Work, equation: Equation) -> Found:
    axes = set(equation.params["axes"])
    if not axes:
        return equation.inputs[0]
    made = work.definition(equation.inputs[0], rev_p)
    if made is None:
        return None
    left = tuple(sorted(axes ^ set(made.params["axes"])))
    return _with(equation, made.inputs, {"axes": left}) if left else made.inputs[0]


def _slice(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    if x.aval.shape == equation.outputs[0].aval.shape:  # steps are positive, so nothing is left out
        return x
    made = work.definition(x, slice_p)
    if made is None:
        return None
    start, limit, steps = _slice_params(equation)
    inner, _, inner_steps = _slice_params(made)
    (y,) = made.inputs
    first = tuple([a + s * k for a, s, k in zip(inner, start, inner_steps)])
    strides = tuple([k * m for k, m in zip(inner_steps, steps)])
    counts = equation.outputs[0].aval.shape
    last = tuple([a + (n - 1) * k + 1 if n else a for a, n, k in zip(first, counts, strides)])
    if any(a > n for a, n in zip(last, y.aval.shape)):  # an empty slice beyond the end
        return None
    return _with(equation, (y,), {"start": first, "limit": last, "strides": None if set(strides) <= {1} else strides})


def _slice_params(equation: Equation) -> tuple[tuple, tuple, tuple]:
    params = equation.params
    return params["start"], params["limit"], params["strides"] or (1,) * len(params["start"])


def _written(work: Work, equation: Equation) -> Found:
    """A write to all elements, or a placement at all, gives what is written."""
    found = equation.inputs[-1]
    whole = tuple([(0, n, 1) for n in equation.outputs[0].aval.shape])
    return found if equation.params["index"] == whole and found.aval.shape == equation.outputs[0].aval.shape else None


def _pad(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    return x if x.aval.shape == equation.outputs[0].aval.shape else None


def _concatenate(work: Work, equation: Equation) -> Found:
    axis = equation.params["axis"]
    inputs = tuple([x for x in equation.inputs if x.aval.shape[axis]])
    if len(inputs) == 1:
        return inputs[0]
    return _with(equation, inputs) if inputs and len(inputs) < len(equation.inputs) else None


def _no_axes(work: Work, equation: Equation) -> Found:
    return None if equation.params["axes"] else equation.inputs[0]


# ---------------------------------------------------------------- conversions


def _convert(work: Work, equation: Equation) -> Found:
    (x,) = equation.inputs
    aval = equation.outputs[0].aval
    if fits(x.aval, aval):
        return x
    made = work.definition(x, convert_p)
    if made is None or made.params.get("weak"):
        return None
    (y,) = made.inputs
    if y.aval.weak or not _holds(y.aval.dtype, x.aval.dtype):
        return None
    kinds = y.aval.dtype.kind, x.aval.dtype.kind, aval.dtype.kind
    if kinds[2] in "iu" and len(set(kinds)) > 1 and kinds[0] != "b" and not _holds(y.aval.dtype, aval.dtype):
        return None  # what a number out of range becomes depends on the way it takes
    return y if fits(y.aval, aval) else _with(equation, (y,))


_EXACT_INTEGERS = {2: 1, 4: 2, 8: 4}  # size of a float dtype -> largest size of the integers that it holds exactly


def _holds(small: np.dtype, large: np.dtype) -> bool:
    """Does the second dtype hold every value of the first, exactly?"""
    if small.kind == large.kind:
        return small.itemsize <= large.itemsize
    if small.kind == "b":
        return True
    size = large.itemsize // 2 if large.kind == "c" else large.itemsize
    if small.kind == "f":
        return large.kind == "c" and small.itemsize <= size
    if small.kind == "u" and large.kind == "i":
        return small.itemsize < size
    return small.kind in "iu" and large.kind in "fc" and small.itemsize <= _EXACT_INTEGERS.get(size, 0)


# ---------------------------------------------------------------- literals


def _literal_operands(work: Work, equation: Equation) -> Found:
    """Operands that are broadcast literals, as literals; one shaped operand must stay."""
    inputs = equation.inputs
    found: list[Any] = []
    shaped = changed = False
    for a in inputs:
        made = work.definitions.get(a)
        if made is not None and made.primitive is broadcast_in_dim and type(made.inputs[0]) is Literal:
            literal = made.inputs[0]
            found.append(Literal(a.aval.dtype.type(literal.value)) if literal.aval.weak else literal)
            changed = True
        else:
            shaped = shaped or type(a) is not Literal
            found.append(a)
    return _with(equation, tuple(found)) if shaped and changed else None


def _select(work: Work, equation: Equation) -> Found:
    c, x, y = equation.inputs
    if type(c) is not Literal:
        return None
    chosen, aval = (x if c.value else y), equation.outputs[0].aval
    if type(chosen) is Literal and aval.shape:
        value = aval.dtype.type(chosen.value)
        return _with(equation, (Literal(value),), {"shape": aval.shape, "axes": ()}, broadcast_in_dim)
    return chosen


def _factor(equation: Equation, dtype: np.dtype) -> tuple[Any, Literal] | None:
    """(x, c) of a product x * c (or a sum) of floats with a literal c."""
    x, y = equation.inputs
    if dtype.kind != "f" or (type(x) is Literal) == (type(y) is Literal):
        return None
    return (y, x) if type(x) is Literal else (x, y)


def _product(work: Work, equation: Equation) -> Found:
    """(-x) * c is x * -c; (x * a) * c is x * (a * c) where one of them doubles and nothing else is rounded."""
    dtype = equation.outputs[0].aval.dtype
    found = _factor(equation, dtype)
    if found is None or found[0].aval.dtype.kind != "f":
        return None
    x, c = found
    made = work.definition(x, neg)
    if made is not None:
        return _with(equation, (made.inputs[0], _negative(c)))
    made = work.definition(x, mul)
    inner = None if made is None else _factor(made, dtype)
    if inner is None or inner[0].aval.dtype != dtype or not _doubles(inner[1], c, dtype):
        return None
    both = _combined(np.multiply, inner[1], c, dtype)
    return _with(equation, (inner[0], both)) if np.isfinite(both.value) else None


def _doubles(a: Literal, c: Literal, dtype: np.dtype) -> bool:
    """Is (x * a) * c the same as x * (a * c), whatever x is? Neither step may lose what the other would have kept: a power of
    two from 1 on only moves the point, an integer leaves the smallest numbers exact, and neither brings a number back from
    infinity."""
    first, then = [dtype.type(literal.value) for literal in (a, c)]
    if not (1 <= abs(first) < np.inf and 1 <= abs(then) < np.inf):
        return False
    power_of_two = lambda value: abs(np.frexp(value)[0]) == 0.5
    return bool(power_of_two(first) or power_of_two(then) and first == np.rint(first))


def _sign(work: Work, equation: Equation) -> Found:
    """x * (-y) is -(x * y), where nothing else needs -y: a sum takes the sign for nothing."""
    dtype = equation.outputs[0].aval.dtype
    for x, y in (equation.inputs, equation.inputs[::-1]):
        made = work.definition(y, neg)
        if made is None or type(x) is Literal or dtype.kind != "f" or work.shared(y):
            continue
        if any([a.aval.dtype != dtype or a.aval.shape != equation.outputs[0].aval.shape for a in (x, y)]):
            continue
        product = work.add(mul, (x, made.inputs[0]), {}, equation.source)
        return _with(equation, (product,), {}, neg)
    return None


def _negative(c: Literal) -> Literal:
    return Literal(-float(c.value) if c.aval.weak else -c.value)


def _negation(work: Work, equation: Equation) -> Found:
    """-(x * c) is x * -c, and -(x / c) is x / -c, unless both are needed."""
    aval = equation.outputs[0].aval
    if work.shared(equation.inputs[0]):
        return None
    for primitive in (mul, div):
        made = work.definition(equation.inputs[0], primitive)
        if made is None or aval.dtype.kind != "f":
            continue
        x, y = made.inputs
        if type(y) is Literal and type(x) is not Literal and x.aval.dtype.kind == "f":
            return _with(equation, (x, _negative(y)), {}, primitive)
        if type(x) is Literal and type(y) is not Literal and y.aval.dtype.kind == "f":
            return _with(equation, (_negative(x), y), {}, primitive)
    return None


def _quotient(work: Work, equation: Equation) -> Found:
    """x / 2**k is x * 2**-k, to the last bit. Of one number it saves nothing: a mean over 2**k has the text of other means."""
    x, c = equation.inputs
    dtype = equation.outputs[0].aval.dtype
    if not equation.outputs[0].aval.shape:
        return None
    if type(c) is not Literal or type(x) is Literal or dtype.kind != "f" or x.aval.dtype != dtype:
        return None
    inverse = _exact_inverse(c, dtype)
    return None if inverse is None else _with(equation, (x, inverse), {}, mul)


def _exact_inverse(c: Literal, dtype: np.dtype) -> Literal | None:
    if c.aval.dtype.kind not in "fiu":
        return None
    with np.errstate(all="ignore"):
        value = dtype.type(c.value)
        if not np.isfinite(value) or value == 0 or abs(np.frexp(value)[0]) != 0.5:
            return None
        inverse = dtype.type(1) / value
    if not np.isfinite(inverse) or abs(inverse) < np.finfo(dtype).tiny:
        return None
    return Literal(float(inverse) if c.aval.weak else inverse)


def _outer(work: Work, equation: Equation) -> Found:
    """A product of tensors of which one is a literal number is a product of numbers."""
    x, y = equation.inputs
    if equation.params != _OUTER or x.aval.dtype != y.aval.dtype or (type(x) is Literal) == (type(y) is Literal):
        return None
    if x.aval.shape and y.aval.shape:
        return None
    return _with(equation, (x, y), {}, mul)


_OUTER = {"dimension_numbers": (((), ()), ((), ()))}


def _sum_of_one(work: Work, equation: Equation) -> Found:
    """The sum of n times the same number is its product with n."""
    (x,) = equation.inputs
    (out,) = equation.outputs
    made = work.definition(x, broadcast_in_dim)
    c = None if made is None else made.inputs[0]
    if type(c) is not Literal or out.aval.dtype != x.aval.dtype or x.aval.dtype.kind != "f" or x.aval.dtype.itemsize < 4:
        return None
    with np.errstate(all="ignore"):
        total = x.aval.dtype.type(c.value) * x.aval.dtype.type(x.aval.size // max(1, out.aval.size))
    if not np.isfinite(total) or not total:
        return None
    return _with(equation, (Literal(total),), {"shape": out.aval.shape, "axes": ()}, broadcast_in_dim)


# ---------------------------------------------------------------- of real numbers only


def _any_quotient(work: Work, equation: Equation) -> Found:
    """x / c is x * (1 / c)."""
    x, c = equation.inputs
    dtype = equation.outputs[0].aval.dtype
    if type(c) is not Literal or type(x) is Literal or dtype.kind != "f" or x.aval.dtype != dtype:
        return None
    with np.errstate(all="ignore"):
        inverse = dtype.type(1) / dtype.type(c.value)
    if not np.isfinite(inverse) or abs(inverse) < np.finfo(dtype).tiny:
        return None
    return _with(equation, (x, Literal(float(inverse) if c.aval.weak else inverse)), {}, mul)


def _gathered(primitive: Any, ufunc: Any) -> ShapeRule:
    """(x * a) * b is x * (a * b), and (x + a) + b is x + (a + b)."""

    def rule(work: Work, equation: Equation) -> Found:
        dtype = equation.outputs[0].aval.dtype
        found = _factor(equation, dtype)
        if found is None:
            return None
        x, b = found
        made = work.definition(x, primitive)
        inner = None if made is None else _factor(made, dtype)
        if inner is None or inner[0].aval.dtype != dtype:
            return None
        y, a = inner
        return _with(equation, (y, _combined(ufunc, a, b, dtype)))

    return rule


def _combined(ufunc: Any, a: Literal, b: Literal, dtype: np.dtype) -> Literal:
    with np.errstate(all="ignore"):
        value = ufunc(dtype.type(a.value), dtype.type(b.value))
    return Literal(float(value) if a.aval.weak and b.aval.weak else dtype.type(value))


# ---------------------------------------------------------------- the lists


_BITWISE = (add, sub, mul, div, mul_add_p, maximum, minimum, select, eq, ne, lt, le, gt, ge)
_LOGIC = (and_, or_, xor, logical_and, logical_or, logical_xor)

EXACT: tuple[tuple[Any, ShapeRule], ...] = (
    *[(p, _literal_operands) for p in (*_BITWISE, *_LOGIC)],
    (select, _select),
    (mul, _product),
    (mul, _sign),
    (neg, _negation),
    (div, _quotient),
    (dot_general_p, _outer),
    (convert_p, _convert),
    (reshape, _reshape),
    (transpose, _transpose),
    (broadcast_in_dim, _broadcast),
    (rev_p, _reverse),
    (slice_p, _slice),
    (pad_p, _pad),
    *[(p, _written) for p in (basic_update_p, basic_place_p)],
    (concatenate_p, _concatenate),
    (reduce_sum_p, _sum_of_one),
    *[(p, _no_axes) for p in (reduce_sum_p, reduce_prod_p, reduce_max_p, reduce_min_p)],
)
FAST: tuple[tuple[Any, ShapeRule], ...] = (
    (div, _any_quotient),
    (mul, _gathered(mul, np.multiply)),
    (add, _gathered(add, np.add)),
)
