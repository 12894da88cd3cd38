"""Algebraic simplification by verified pairs.

Idea: a rule is a pair of ordinary functions, `lhs` and `rhs`, of the same values. Both are traced once, at scalars, into small
programs; where the first is found in a program, the second is written instead. So a rule can test itself: `verify` evaluates
both sides over special values of every dtype of the rule's `kinds`. What depends on shapes or on the value of a literal is an
ordinary Python function (algebra_shapes.py). A replacement is simplified in turn, at once.

Exact rules (the default) keep every bit, signs of zero, infinities and where NaN is; which of two NaN comes out is left open,
as by NumPy itself. Rules with `exact=False` change rounding, NaN, infinities or signs of zero, and run under fast_math only.
Trap: rules that are true of real numbers fail on complex ones, since inf * (1 + 0j) is not inf; so each rule names its kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from itertools import product
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import trace_function
from funcad.passes.algebra_rules import RULES, names_of
from funcad.passes.algebra_shapes import EXACT, FAST
from funcad.passes.fold import fold_equation
from funcad.passes.rewrite import Work, fits, recast, rewrite
from funcad.primitives.shape import broadcast_in_dim

__all__ = ["algebra", "fast_algebra", "Pattern", "patterns_of", "same_number"]

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
    return jaxpr


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


@cache
def _right(rule: Any) -> Jaxpr:
    return _traced(rule.rhs, _avals_of(rule))


def patterns_of(rule: Any) -> list[Pattern]:
    """All forms of a rule."""
    return [Pattern(rule, left) for left in _variants(_traced(rule.lhs, _avals_of(rule)))]


@lru_cache(maxsize=2)
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
