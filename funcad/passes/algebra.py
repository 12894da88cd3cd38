"""Algebraic simplification by verified pairs, and constant folding.

Idea: a rule is a pair of ordinary functions, `lhs` and `rhs`, of the same values. Both are traced once, at scalars, into small
programs; where the first is found in a program, the second is written instead. So a rule can test itself: `verify` evaluates
both sides over special values of every dtype of the rule's `kinds`. What depends on shapes or on the value of a literal is an
ordinary Python function (algebra_shapes.py). A replacement is simplified in turn, at once.

Exact rules (the default) keep every bit, signs of zero, infinities and where NaN is; which of two NaN comes out is left open,
as by NumPy itself. Rules with `exact=False` change rounding, NaN, infinities or signs of zero, and run under fast_math only.
Trap: rules that are true of real numbers fail on complex ones, since inf * (1 + 0j) is not inf; so each rule names its kinds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from funcad.host.real_types import impl_of, is_a
from funcad.ir.aval import SCALAR_AVALS, Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, without_sources
from funcad.ir.trace import trace_function
from funcad.memo import remembers
from funcad.passes.algebra_shapes import EXACT, FAST
from funcad.passes.rewrite import Work, fits, recast, rewrite
from funcad.primitives.comparison import and_, logical_and, logical_not, logical_or, not_, or_, select
from funcad.primitives.conversion import conj, imag, make_complex, real, stop_gradient
from funcad.primitives.shape import broadcast_in_dim, reshape, transpose
from funcad.primitives.transcendental import exp, log, logistic, pow_p

from funcad.primitives.arithmetic import (  # isort: skip
    abs_, add, div, integer_pow, maximum, minimum, mul, mul_add_p, neg, reciprocal, sqrt, square, sub,
)

# -- constant folding: an equation of literals whose result is a scalar becomes that literal
#
# The primitive's own implementation computes it, so the value and its type are those of the reference. What NumPy warns of,
# what raises, and what does not come out as the promised scalar is left to run time. Programs hold no arrays: a broadcast
# literal stays an equation, which costs a view, and an element operation on broadcast literals, or a reduction of one, becomes
# the broadcast of another literal.


LONGEST = 1 << 16  # elements of a broadcast literal that are summed up, or otherwise reduced, beforehand
_MOVES = frozenset([reshape, broadcast_in_dim, transpose])


def fold(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its constant scalars computed.

    >>> import numpy as np, funcad
    >>> from funcad.passes.algebra import fold
    >>> from funcad.passes.redundancy import inline
    >>> f = funcad.jit(lambda a, x: np.sqrt(a) * np.sum(x))
    >>> print(fold(inline(funcad.make_jaxpr(lambda x: f(4.0, x))(np.ones(2)).jaxpr)))
    { lambda a:f64[2] . let
        b:f64[] = reduce_sum[axes=(0,)] a
        c:f64[] = mul 2.0:f64[] b
      in (c,) }
    """
    return rewrite(jaxpr, _step)


def _step(work: Work, equation: Equation) -> list[Any] | None:
    literal = fold_equation(equation)
    if literal is not None:
        return [literal]
    return _reduced(work, equation) if equation.primitive.reduction else _filled_at_once(work, equation)


def _reduced(work: Work, equation: Equation) -> list[Any] | None:
    """The reduction of an array that is one literal everywhere."""
    (x,), axes, out = equation.inputs, equation.params["axes"], equation.outputs[0]
    literal = _fill(work, x)
    count = math.prod([x.aval.shape[a] for a in axes])
    if literal is None or not axes or not 0 < count <= LONGEST:
        return None
    value = evaluate(equation.primitive, [np.full(count, literal.value)], {"axes": (0,)})
    if type(value) not in SCALAR_AVALS or SCALAR_AVALS[type(value)].dtype != out.aval.dtype:
        return None
    found = Literal(value)
    if out.aval.shape:
        found = work.add(broadcast_in_dim, [found], {"shape": out.aval.shape, "axes": ()}, equation.source)
    return [found] if fits(found.aval, out.aval) else None


def _filled_at_once(work: Work, equation: Equation) -> list[Any] | None:
    """An operation on arrays that are one literal everywhere, as such an array."""
    primitive, inputs, outputs = equation.primitive, equation.inputs, equation.outputs
    if primitive.emit is None and primitive is not broadcast_in_dim or primitive.multiple or not outputs[0].aval.shape:
        return None
    literals = [_fill(work, a) for a in inputs]
    if not inputs or any([a is None for a in literals]) or primitive is broadcast_in_dim and literals[0] is inputs[0]:
        return None
    aval = outputs[0].aval
    if primitive is broadcast_in_dim:
        value = literals[0].value
    else:
        value = evaluate(primitive, [a.value for a in literals], equation.params)
    if type(value) not in SCALAR_AVALS or SCALAR_AVALS[type(value)].dtype != aval.dtype:
        return None
    made = work.add(broadcast_in_dim, [Literal(aval.dtype.type(value))], {"shape": aval.shape, "axes": ()}, equation.source)
    return [made] if fits(made.aval, aval) else None


def _fill(work: Work, atom: Any) -> Literal | None:
    """The literal that a value is everywhere, with the dtype that it has there."""
    if type(atom) is Literal:
        return atom
    definition = work.definition(atom, broadcast_in_dim)
    if definition is None or type(definition.inputs[0]) is not Literal:
        return None
    aval = definition.outputs[0].aval
    return Literal(aval.dtype.type(definition.inputs[0].value))


def fold_equation(equation: Equation) -> Literal | None:
    """The literal that the equation computes, or None."""
    inputs = equation.inputs
    for a in inputs:
        if type(a) is not Literal:
            return None
    primitive = equation.primitive
    if not inputs or primitive.multiple or primitive.effect or primitive.barrier:
        return None
    aval = equation.outputs[0].aval
    if aval.shape or type(aval) is StackAval or not (primitive.emit or primitive.reduction or primitive in _MOVES):
        return None
    value = evaluate(primitive, [a.value for a in inputs], equation.params)
    if type(value) not in SCALAR_AVALS:
        return None
    try:
        literal = Literal(value)
    except OverflowError:  # a Python integer that fits no dtype
        return None
    return literal if fits(literal.aval, aval) else None


def evaluate(primitive: Any, values: list[Any], params: dict[str, Any]) -> Any:
    """The result, or None if NumPy would warn or raise."""
    try:
        with np.errstate(all="raise"):
            return impl_of(primitive, values, params)(np, *values, **params)
    except (ArithmeticError, ValueError, TypeError, AttributeError, RuntimeError):  # then it is for run time to say so
        return None


# -- the rules of algebra: pairs of functions that are equal, bit for bit or (`exact=False`) for real numbers
#
# A rule's variables have the shapes and dtypes of the place where it applies; one called `c` is a bool. Numbers are Python
# scalars: they match literals of the same value in any dtype, and 0.0 is not -0.0. Operands of commutative operations match
# both ways around. `kinds` are the dtype kinds for which the rule holds; `verify` checks that it does.


class Rule(NamedTuple):
    """`lhs(*values)` may be replaced by `rhs(*values)` for values of these dtype kinds.

    `ulps`: how far NumPy's own results for equal numbers lie apart, because its vectors and its single steps round differently
    and which of them it takes depends on the strides, the alignment and the processor. No rule can be closer than that.
    """

    name: str
    lhs: Callable[..., Any]
    rhs: Callable[..., Any]
    kinds: str = "f"
    exact: bool = True
    ulps: int = 0

    def verify(self) -> int:
        """Evaluate both sides over special values of every dtype; AssertionError where they differ. How many were compared."""
        compared = 0
        for dtype in [d for k in self.kinds for d in _DTYPES[k]]:
            for values in self._samples(dtype):
                with np.errstate(all="ignore"):
                    found, expected = np.asarray(self.rhs(*values)), np.asarray(self.lhs(*values))
                if found.dtype != expected.dtype:  # then the pass does not apply it
                    continue
                found = np.broadcast_to(found, expected.shape)
                equal = same_values(found, expected, self.ulps) if self.exact else _near(found, expected)
                assert equal, (self.name, dtype, values)
                compared += found.size
        assert compared, f"{self.name}: nothing to compare"
        return compared

    def _samples(self, dtype: Any) -> Iterator[list[Any]]:
        """Arrays of all combinations of special values, and the same as scalars."""
        names = names_of(self.lhs)
        special = special_values(dtype) if self.exact else ordinary_values(dtype)
        columns = [np.array([False, True]) if n == "c" else special for n in names]
        grid = [a.ravel() for a in np.meshgrid(*columns, indexing="ij")]
        yield grid
        yield [np.ascontiguousarray(a[::-1])[::-1] for a in grid]
        for i in range(0, grid[0].size, max(grid[0].size // 64, 1)):
            yield [a[i] for a in grid]


def names_of(f: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a plain function's parameters."""
    return f.__code__.co_varnames[: f.__code__.co_argcount]


_DTYPES: dict[str, list[Any]] = {
    "b": [np.bool_],
    "i": [np.int8, np.int16, np.int32, np.int64],
    "u": [np.uint8, np.uint16, np.uint32, np.uint64],
    "f": [np.float16, np.float32, np.float64, np.longdouble],
    "c": [np.complex64, np.complex128],
}


def special_values(dtype: Any) -> np.ndarray:
    """Zeros of both signs, ones, infinities, NaN, the smallest and the largest numbers, and a few ordinary ones."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1] + [-1, -2] * (dtype.kind == "i"), dtype)
    parts = np.dtype(dtype.type(0).real.dtype)
    limits = np.finfo(parts)
    ordinary = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.1, 3.3, np.inf, -np.inf, np.nan]
    extreme = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, -limits.smallest_subnormal, limits.eps]
    real = np.array(ordinary, parts)
    real = np.concatenate([real, np.array(extreme, parts)])
    if dtype.kind == "f":
        return real
    few = real[[0, 1, 2, 6, 8, 10, 11]]
    pairs = list(product(few, few))
    out = np.empty(len(pairs), dtype)
    out.real, out.imag = [a for a, _ in pairs], [b for _, b in pairs]
    return out


def ordinary_values(dtype: Any) -> np.ndarray:
    """Positive numbers, far from overflow."""
    return np.array([0.3, 0.7, 1.0, 1.9, 2.5], dtype)


def _parts(x: np.ndarray) -> list[np.ndarray]:
    return [x.real, x.imag] if x.dtype.kind == "c" else [x]


def same_values(a: np.ndarray, b: np.ndarray, ulps: int = 0) -> bool:
    """The same bits; any NaN is as good as another. `ulps` more for finite numbers that are not zero."""
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    for x, y in zip(_parts(a), _parts(b)):
        equal = (x == y) & (np.signbit(x) == np.signbit(y)) | np.isnan(x) & np.isnan(y)
        if ulps:
            rounded = np.isfinite(x) & np.isfinite(y) & (x != 0) & (y != 0)
            with np.errstate(invalid="ignore", over="ignore"):
                equal |= rounded & (np.abs(x - y) <= ulps * np.spacing(np.abs(y)))
        if not equal.all():
            return False
    return True


def _near(a: np.ndarray, b: np.ndarray) -> bool:
    limit = 64 * np.finfo(b.dtype).eps
    return bool((np.abs(a - b) <= limit * np.maximum(np.abs(b), 1)).all())


RULES = (
    # neutral elements
    Rule("x * 1", lambda x: mul(x, 1), lambda x: x, "iuf"),
    Rule("x / 1", lambda x: div(x, 1), lambda x: x),
    Rule("x - 0", lambda x: sub(x, 0), lambda x: x, "iufc"),
    Rule("x + 0 of integers", lambda x: add(x, 0), lambda x: x, "iu"),
    Rule("x + -0.0", lambda x: add(x, -0.0), lambda x: x),
    Rule("x ** 1", lambda x: integer_pow(x, 1), lambda x: x, "iuf"),
    # signs
    Rule("-(-x)", lambda x: neg(neg(x)), lambda x: x, "iufc"),
    Rule("x - (-y)", lambda x, y: sub(x, neg(y)), lambda x, y: add(x, y), "iufc"),
    Rule("x + (-y)", lambda x, y: add(x, neg(y)), lambda x, y: sub(x, y), "iufc"),
    Rule("(-x) * (-y)", lambda x, y: mul(neg(x), neg(y)), mul, "iuf"),
    Rule("(-x) / (-y)", lambda x, y: div(neg(x), neg(y)), div),
    Rule("x * -1", lambda x: mul(x, -1), neg, "if"),
    Rule("|-x|", lambda x: abs_(neg(x)), abs_, "if"),
    Rule("|-z|", lambda z: abs_(neg(z)), abs_, "c", ulps=2),
    Rule("||x||", lambda x: abs_(abs_(x)), abs_, "iuf"),
    # powers that NumPy computes by products
    Rule("square(x)", square, lambda x: mul(x, x), "iuf"),
    Rule("x ** 2", lambda x: integer_pow(x, 2), lambda x: mul(x, x), "iufc"),
    Rule("x ** 3 of integers", lambda x: integer_pow(x, 3), lambda x: mul(mul(x, x), x), "iu"),
    # equal operands
    Rule("maximum(x, x)", lambda x: maximum(x, x), lambda x: x, "biuf"),
    Rule("minimum(x, x)", lambda x: minimum(x, x), lambda x: x, "biuf"),
    Rule("x & x", lambda x: and_(x, x), lambda x: x, "biu"),
    Rule("x | x", lambda x: or_(x, x), lambda x: x, "biu"),
    Rule("c and c", lambda c: logical_and(c, c), lambda c: c, "b"),
    Rule("c or c", lambda c: logical_or(c, c), lambda c: c, "b"),
    Rule("select(c, x, x)", lambda c, x: select(c, x, x), lambda c, x: x, "biufc"),
    # choices
    Rule("not not c", lambda c: logical_not(logical_not(c)), lambda c: c, "b"),
    Rule("~~x", lambda x: not_(not_(x)), lambda x: x, "biu"),
    Rule("select(not c)", lambda c, x, y: select(logical_not(c), x, y), lambda c, x, y: select(c, y, x), "biufc"),
    Rule("select(~c)", lambda c, x, y: select(not_(c), x, y), lambda c, x, y: select(c, y, x), "biufc"),
    Rule("select(c, x, select(c, y, z))", lambda c, x, y, z: select(c, x, select(c, y, z)),
         lambda c, x, y, z: select(c, x, z), "biuf"),
    Rule("select(c, select(c, x, y), z)", lambda c, x, y, z: select(c, select(c, x, y), z),
         lambda c, x, y, z: select(c, x, z), "biuf"),
    # parts of complex numbers
    Rule("real(complex)", lambda x, y: real(make_complex(x, y)), lambda x, y: x),
    Rule("imag(complex)", lambda x, y: imag(make_complex(x, y)), lambda x, y: y),
    Rule("conj(conj(x))", lambda x: conj(conj(x)), lambda x: x, "c"),
    # nothing differentiates any more
    Rule("stop_gradient(x)", lambda x: stop_gradient(x), lambda x: x, "biufc"),
    # of real numbers only
    Rule("x + 0", lambda x: add(x, 0), lambda x: x, exact=False),
    Rule("x * 0", lambda x: mul(x, 0), lambda x: 0.0, exact=False),
    Rule("0 / x", lambda x: div(0.0, x), lambda x: 0.0, exact=False),
    Rule("0 - x", lambda x: sub(0, x), neg, exact=False),
    Rule("x - x", lambda x: sub(x, x), lambda x: 0.0, exact=False),
    Rule("x / x", lambda x: div(x, x), lambda x: 1.0, exact=False),
    Rule("-(x - y)", lambda x, y: neg(sub(x, y)), lambda x, y: sub(y, x), exact=False),
    Rule("log(exp(x))", lambda x: log(exp(x)), lambda x: x, exact=False),
    Rule("exp(log(x))", lambda x: exp(log(x)), lambda x: x, exact=False),
    Rule("exp(x) * exp(y)", lambda x, y: mul(exp(x), exp(y)), lambda x, y: exp(add(x, y)), exact=False),
    Rule("sqrt(x * x)", lambda x: sqrt(mul(x, x)), abs_, exact=False),
    Rule("sqrt(x) * sqrt(x)", lambda x: mul(sqrt(x), sqrt(x)), lambda x: x, exact=False),
    Rule("1 / (1 + exp(-x))", lambda x: div(1, add(1, exp(neg(x)))), logistic, exact=False),
    Rule("1 / (1 / x)", lambda x: div(1, div(1, x)), lambda x: x, exact=False),
    Rule("x * reciprocal(y)", lambda x, y: mul(x, reciprocal(y)), div, exact=False),
    Rule("x ** 0.5", lambda x: pow_p(x, 0.5), sqrt, exact=False),
    Rule("x ** 3", lambda x: integer_pow(x, 3), lambda x: mul(mul(x, x), x), exact=False),
    Rule("x ** 4", lambda x: integer_pow(x, 4), lambda x: mul(mul(x, x), mul(x, x)), exact=False),
    Rule("x ** -1", lambda x: integer_pow(x, -1), lambda x: div(1.0, x), exact=False),
    Rule("x ** -2", lambda x: integer_pow(x, -2), lambda x: div(1.0, mul(x, x)), exact=False),
    Rule("a * 0 + b * y", lambda a, b, y: mul_add_p(a, 0, b, y), lambda a, b, y: mul(b, y), exact=False),
)  # fmt: skip


# -- algebraic simplification by verified pairs


MOST_STEPS = 16  # replacements in a row at one place: rules shorten programs, so this is never reached


def algebra(jaxpr: Jaxpr) -> Jaxpr:
    """The program, simplified without changing a bit of its results.

    >>> import numpy as np, funcad
    >>> from funcad.passes.algebra import algebra
    >>> print(algebra(funcad.make_jaxpr(lambda x: -(-x) * 1.0 - 0.0)(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
        b:f64[2] = neg a
      in (a,) }
    """
    return rewrite(jaxpr, _Simplifier(False).step)


def fast_algebra(jaxpr: Jaxpr) -> Jaxpr:
    """The program, simplified as real numbers allow: results may differ in rounding, and where there are NaN or infinities.

    >>> import numpy as np, funcad
    >>> from funcad.passes.algebra import fast_algebra
    >>> print(fast_algebra(funcad.make_jaxpr(lambda x: x + 0.0)(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
      in (a,) }
    """
    return rewrite(jaxpr, _Simplifier(True).step)


# ---------------------------------------------------------------- patterns


class Pattern:
    """One way to find the left side of a rule, and its right side as a program."""

    __slots__ = ("rule", "inputs", "root", "heads", "definitions")

    def __init__(self, rule: Any, left: Jaxpr):
        self.rule = rule
        self.inputs = left.inputs
        self.root = left.equations[-1]
        self.definitions = {e.outputs[0]: e for e in left.equations}
        self.heads = tuple([self._head(a) for a in self.root.inputs])
    def _head(self, atom: Any) -> Any:
        """What an operand must be: Literal, the primitive that makes it, or None for anything."""
        if type(atom) is Literal:
            return Literal
        return self.definitions[atom].primitive if atom in self.definitions else None

    def match(self, work: Work, equation: Equation) -> dict[Var, Any] | None:
        """What the variables of the replacement stand for, if the equation (with those that feed it) is of this form."""
        if self.root.params != equation.params:
            return None
        bound: dict[Var, Any] = {}
        for p, a in zip(self.root.inputs, equation.inputs):
            if not self._matches(work, p, a, bound):
                return None
        for v in self.inputs:
            aval = bound[v].aval
            if type(aval) is StackAval or aval.dtype.kind not in (self.rule.kinds if v.aval.dtype.kind != "b" else "b"):
                return None
        return dict(zip(_right(self.rule).inputs, [bound[v] for v in self.inputs]))

    def _matches(self, work: Work, pattern: Any, atom: Any, bound: dict[Var, Any]) -> bool:
        if type(pattern) is Literal:
            return type(atom) is Literal and same_number(atom.value, pattern.value)
        made = self.definitions.get(pattern)
        if made is None:
            if pattern not in bound:
                bound[pattern] = atom
                return True
            return bound[pattern] is atom or _equal_literals(bound[pattern], atom)
        found = work.definition(atom, made.primitive)
        if found is None or found.params != made.params:
            return False
        return all([self._matches(work, p, a, bound) for p, a in zip(made.inputs, found.inputs)])


def same_number(a: Any, b: Any) -> bool:
    """Are two scalars one number, signs of zero included? 1 and 1.0 are; True is not a number."""
    if is_a(a, (bool, np.bool_)) or is_a(b, (bool, np.bool_)):
        return type(a) is type(b) and bool(a == b)
    if is_a(a, (complex, np.complexfloating)) or is_a(b, (complex, np.complexfloating)):
        return False
    return bool(a == b) and (a != 0 or bool(np.signbit(a)) == bool(np.signbit(b)))


def _equal_literals(a: Any, b: Any) -> bool:
    return type(a) is Literal and type(b) is Literal and a.aval == b.aval and same_number(a.value, b.value)


def _scalar_aval(name: str, kinds: str) -> Aval:
    """A pattern's variable: a bool if it is called `c`, else of the rule's kind (complex only if nothing else is allowed)."""
    if name == "c" or kinds == "b":
        return Aval((), np.dtype(bool))
    return Aval((), np.dtype(np.complex128 if kinds == "c" else np.float64 if "f" in kinds else np.int64))


def _traced(f: Callable[..., Any], avals: list[Aval]) -> Jaxpr:
    jaxpr, captured = trace_function(lambda *xs: [f(*xs)], avals, name="a rule", abstract=False)
    assert not captured, "a rule holds numbers only"
    return without_sources(jaxpr)


def _variants(left: Jaxpr) -> list[Jaxpr]:
    """The left side with the operands of each commutative operation both ways around."""
    choices = []
    for equation in left.equations:
        swapped = equation._replace(inputs=equation.inputs[::-1])
        choices.append([equation, swapped] if equation.primitive.commutes else [equation])
    found: dict[Any, Jaxpr] = {}
    for equations in product(*choices):
        key = tuple([tuple([a if type(a) is Var else repr(a) for a in e.inputs]) for e in equations])
        found.setdefault(key, Jaxpr(left.inputs, tuple(equations), left.outputs))
    return list(found.values())


def _avals_of(rule: Any) -> list[Aval]:
    return [_scalar_aval(name, rule.kinds) for name in names_of(rule.lhs)]


@remembers()
def _right(rule: Any) -> Jaxpr:
    return _traced(rule.rhs, _avals_of(rule))


def patterns_of(rule: Any) -> list[Pattern]:
    """All forms of a rule."""
    return [Pattern(rule, left) for left in _variants(_traced(rule.lhs, _avals_of(rule)))]


@remembers(2)
def _table(fast_math: bool) -> dict[Any, tuple[tuple[Pattern, ...], tuple[Callable[..., Any], ...]]]:
    """For each primitive that a rule starts from: the patterns and the functions to try."""
    patterns: dict[Any, list[Pattern]] = {}
    for rule in RULES:
        if rule.exact or fast_math:
            for pattern in patterns_of(rule):
                patterns.setdefault(pattern.root.primitive, []).append(pattern)
    functions: dict[Any, list[Callable[..., Any]]] = {}
    for source in (EXACT, FAST) if fast_math else (EXACT,):
        for primitive, function in source:
            functions.setdefault(primitive, []).append(function)
    return {p: (tuple(patterns.get(p, ())), tuple(functions.get(p, ()))) for p in {**patterns, **functions}}


# ---------------------------------------------------------------- the walk


class _Simplifier:
    def __init__(self, fast_math: bool):
        self.table = _table(fast_math)

    def step(self, work: Work, equation: Equation) -> list[Any] | None:
        if equation.primitive not in self.table:
            return None
        found = self.reduced(work, equation)
        if found is equation:
            return None
        if type(found) is Equation:  # other operands, perhaps another operation; the same output
            work.keep(found)
            return list(found.outputs)
        return [found]

    def reduced(self, work: Work, equation: Equation) -> Any:
        """The equation itself, a better one with the same output, or the atom that its output is."""
        for _ in range(MOST_STEPS):
            found = self.once(work, equation)
            if found is None:
                return equation
            if type(found) is not Equation:
                return found
            equation = found
            literal = fold_equation(equation)
            if literal is not None:
                return literal
        return equation

    def once(self, work: Work, equation: Equation) -> Any:
        """One replacement: None, a new equation with the same output, or an atom."""
        entry = self.table.get(equation.primitive)
        if entry is None:
            return None
        patterns, functions = entry
        aval = equation.outputs[0].aval
        for function in functions:
            found = function(work, equation)
            if found is not None:
                if type(found) is not Equation:
                    found = recast(found, aval)
                if found is not None:
                    return found
        if not patterns:
            return None
        definitions = work.definitions
        heads: list[Any] = []
        for a in equation.inputs:
            if type(a) is Literal:
                heads.append(Literal)
            else:
                made = definitions.get(a)
                heads.append(None if made is None else made.primitive)
        for pattern in patterns:
            for wanted, head in zip(pattern.heads, heads):
                if wanted is not None and wanted is not head:
                    break
            else:
                bound = pattern.match(work, equation)
                if bound is not None:
                    found = self.instance(work, _right(pattern.rule), bound, equation)
                    if found is not None:
                        return found
        return None

    def instance(self, work: Work, program: Jaxpr, bound: dict[Var, Any], equation: Equation) -> Any:
        """The right side of a rule in place of the equation, or None if its result would have another aval."""
        aval, source = equation.outputs[0].aval, equation.source
        result = program.outputs[0]
        if type(result) is Literal:
            return _filled(work, result.value, aval, equation)
        if result in bound:
            return recast(bound[result], aval)
        names: dict[Any, Any] = dict(bound)
        made = []
        for e in program.equations:
            inputs = tuple([names.get(a, a) for a in e.inputs])
            output = Var(e.primitive.abstract_eval(*[a.aval for a in inputs], **e.params))
            names[e.outputs[0]] = output
            made.append(Equation(e.primitive, inputs, e.params, (output,), source))
        last = made[-1]
        if not fits(last.outputs[0].aval, aval):
            return None
        for e in made[:-1]:
            found = self.reduced(work, e)
            if type(found) is Equation:
                work.keep(found)
            else:
                names = {e.outputs[0]: found}
                made = [m._replace(inputs=tuple([names.get(a, a) for a in m.inputs])) for m in made]
                last = made[-1]
        return last._replace(outputs=equation.outputs)


def _filled(work: Work, value: Any, aval: Any, equation: Equation) -> Any:
    """A constant as the result of an equation."""
    if not aval.shape:
        return Literal(value) if aval.weak else Literal(aval.dtype.type(value))
    params = {"shape": aval.shape, "axes": ()}
    return Equation(broadcast_in_dim, (Literal(aval.dtype.type(value)),), params, equation.outputs, equation.source)
