"""Choices between numbers: `a if c else b`, and an `if` whose branches assign numbers to variables.

Idea: where both sides do nothing but compute, they may both be computed, and a selection takes the place of Python's question.
So `x = a if c else b` becomes `x = <chosen>() if <either>(c) and <tried>(a', b') else a if <asked>() else b`: `either` says
whether the condition is a traced one, a' and b' are the sides with hooks that never raise, and `tried` whether they are numbers
of one type. If not, Python goes on as it stands, with the condition that it has. An `if` is written in the same way.

Invariants: what the user wrote is evaluated once, unless it is what computes only; a variable that is not sure to be bound is
not read. Trap: a later assignment of a branch must not read what an earlier one has assigned, as they happen together.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

MOST = 80  # nodes of the two sides: what is longer is worth a question
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow, ast.USub, ast.UAdd)
_COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_Branch = dict[str, ast.expr]  # what is assigned to each variable


def choice(r: Any, test: ast.expr, body: ast.expr | list[ast.stmt], orelse: ast.expr | list[ast.stmt]) -> Any:
    """`(names, <either>(test) and <tried>(body', orelse'), the test that Python asks)`; None: it stays a question.

    `r`: the rewriter, which knows the variables that are sure to be bound.
    """
    first, more = (test.values[0], test.values[1:]) if isinstance(test, ast.BoolOp) else (test, [])
    one, other = _branch(body), _branch(orelse)
    if isinstance(first, (ast.BoolOp, ast.Constant)) or one is None or other is None:
        return None
    names = list({**one, **other})
    if not names or any([name and not r.is_local(name) for name in names]):
        return None
    if any([name not in branch and not r.is_bound(name) for name in names for branch in (one, other)]):
        return None
    sides = [branch.get(name) or ast.Name(name, ast.Load()) for branch in (one, other) for name in names]
    if sum(map(_size, sides)) > MOST or not all([is_sure(r, x) for x in (*sides, *more)]):
        return None
    given = [sure(r, ast.copy_location(copy.deepcopy(side), test)) for side in sides]
    conditions = [sure(r, copy.deepcopy(x)) for x in more]
    rest = [r.truth(x, False, "asked_too") for x in more]
    found = [r.hook("either", test, r.visit(first))]
    if more:
        found.append(r.hook("also", test, r.mark(type(test.op).__name__, test), *conditions))  # type: ignore[attr-defined]
    found.append(r.hook("tried", test, *given))
    asked: Any = r.hook("asked", test)
    if more:
        asked = ast.copy_location(ast.BoolOp(test.op, [asked, *rest]), test)  # type: ignore[attr-defined]
    return names, ast.copy_location(ast.BoolOp(ast.And(), found), test), asked


def _size(node: ast.AST) -> int:
    return sum([1 for _ in ast.walk(node)])


def _branch(side: ast.expr | list[ast.stmt]) -> _Branch | None:
    """What a side assigns; an expression has no name."""
    if isinstance(side, ast.expr):
        return {"": side}
    found: _Branch = {}
    for statement in side:
        pairs = _assigned(statement)
        read = {n.id for _, value in pairs or () for n in ast.walk(value) if isinstance(n, ast.Name)}
        if pairs is None or not read.isdisjoint(found) or any([name in found for name, _ in pairs]):
            return None
        found.update(pairs)
    return found


def _assigned(statement: ast.stmt) -> list[tuple[str, ast.expr]] | None:
    """The names that it assigns to, and the values."""
    if isinstance(statement, ast.Pass):
        return []
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        name = ast.copy_location(ast.Name(statement.target.id, ast.Load()), statement)
        value: ast.expr = ast.copy_location(ast.BinOp(name, statement.op, statement.value), statement)
        return [(statement.target.id, value)]
    if isinstance(statement, ast.If) and statement.orelse:
        one, other = _branch(statement.body), _branch(statement.orelse)
        if one is None or other is None or len(one) != 1 or one.keys() != other.keys():
            return None
        return [(name, ast.copy_location(ast.IfExp(statement.test, one[name], other[name]), statement)) for name in one]
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple) or len(target.elts) != len(value.elts):
        return None
    if not all([isinstance(x, ast.Name) for x in target.elts]):
        return None
    return [(x.id, y) for x, y in zip(target.elts, value.elts)]  # type: ignore[attr-defined]


def is_sure(r: Any, node: ast.expr) -> bool:
    """Does it compute, and no more?"""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Name):
        return bool(r.is_bound(node.id))
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return isinstance(node.op, _OPERATORS) and all([is_sure(r, x) for x in _operands(node)])
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and isinstance(node.ops[0], _COMPARISONS) and all([is_sure(r, x) for x in _operands(node)])
    if isinstance(node, ast.IfExp):
        return all([is_sure(r, x) for x in (node.test, node.body, node.orelse)])
    if isinstance(node, ast.BoolOp):
        return all([is_sure(r, x) for x in node.values])
    if isinstance(node, ast.Subscript):
        keys = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return is_sure(r, node.value) and all([is_sure(r, x) for x in keys])
    if not isinstance(node, ast.Call) or node.keywords:
        return False
    f = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return isinstance(f, ast.Name) and is_sure(r, f) and all([is_sure(r, x) for x in node.args])


def _operands(node: Any) -> list[ast.expr]:
    if isinstance(node, ast.Compare):
        return [node.left, node.comparators[0]]
    return [node.operand] if isinstance(node, ast.UnaryOp) else [node.left, node.right]


def sure(r: Any, node: Any) -> Any:
    """The expression with hooks that never raise."""
    if isinstance(node, (ast.Constant, ast.Name)):
        return r.visit(node)
    if isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare)):
        op = node.ops[0] if isinstance(node, ast.Compare) else node.op
        return r.hook("sure", node, r.mark(type(op).__name__, node), *[sure(r, x) for x in _operands(node)])
    if isinstance(node, ast.IfExp):
        return r.hook("sure_choice", node, *[sure(r, x) for x in (node.test, node.body, node.orelse)])
    if isinstance(node, ast.BoolOp):
        return r.hook("sure_truth", node, r.mark(type(node.op).__name__, node), *[sure(r, x) for x in node.values])
    if isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Tuple):
            node.slice.elts = [sure(r, x) for x in node.slice.elts]
        key = node.slice if isinstance(node.slice, ast.Tuple) else sure(r, node.slice)
        return r.hook("sure_item", node, sure(r, node.value), key)
    f = node.func
    found = r.hook("sure_attribute", f, r.visit(f.value), f.attr) if isinstance(f, ast.Attribute) else r.visit(f)
    return r.hook("sure_call", node, found, *[sure(r, x) for x in node.args])
