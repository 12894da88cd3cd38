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

DEEP = 8  # choices in one another: so many times a line is written at most; a longer chain of `elif` begins with questions
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_SIGNS = (ast.USub, ast.UAdd)
_ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OPERATORS = (*_ARITHMETIC, *_SIGNS, *_ORDERS, ast.And, ast.Or)
_HOOKS: dict[type, str] = {
    ast.BinOp: "sure",
    ast.UnaryOp: "sure",
    ast.Compare: "sure",
    ast.IfExp: "sure_choice",
    ast.BoolOp: "sure_truth",
    ast.Subscript: "sure_item",
    ast.Call: "sure_call",
}
_Branch = dict[str, ast.expr]  # what is assigned to each variable


def choice(r: Any, test: ast.expr, body: ast.expr | list[ast.stmt], orelse: ast.expr | list[ast.stmt]) -> Any:
    """`(names, <either>(test) and <tried>(body', orelse'), the test that Python asks)`; None: it stays a question.

    `r`: the rewriter, which knows the variables that are sure to be bound.
    """
    first, more = test, []
    if isinstance(test, ast.BoolOp):
        first, *more = test.values
    one, other = _branch(body), _branch(orelse)
    if one is None or other is None:
        return None
    if isinstance(first, (ast.BoolOp, ast.Constant)):
        return None
    names = list({**one, **other})
    if not names or not all([_may_be_set(r, x, one, other) for x in names]):
        return None
    sides: list[ast.expr] = []
    for branch in (one, other):
        sides += [branch.get(x) or ast.Name(x, ast.Load()) for x in names]
    if any([_is_deeper(x, DEEP - 1) for x in sides]) or not all([is_sure(r, x) for x in (*sides, *more)]):
        return None
    given = [sure(r, _copied(x, test)) for x in sides]
    conditions = [sure(r, copy.deepcopy(x)) for x in more]
    rest = [r.truth(x, False, "asked_too") for x in more]
    asked: Any = r.hook("asked", test)
    found = [r.hook("either", test, r.visit(first))]
    if isinstance(test, ast.BoolOp):
        op = r.mark(type(test.op).__name__, test)
        found.append(r.hook("also", test, op, *conditions))
        asked = ast.BoolOp(test.op, [asked, *rest])
    found.append(r.hook("tried", test, *given))
    tried = ast.BoolOp(ast.And(), found)
    return names, _at(tried, test), _at(asked, test)


def _may_be_set(r: Any, name: str, one: _Branch, other: _Branch) -> bool:
    """A variable that one branch leaves as it is must have a value."""
    if name in one and name in other:
        return not name or bool(r.is_local(name))
    return bool(r.is_local(name) and r.is_bound(name))


def _copied(node: ast.expr, place: ast.expr) -> ast.expr:
    return _at(copy.deepcopy(node), place)


def _is_deeper(node: ast.AST, levels: int) -> bool:
    """Are there more choices in one another than so many?"""
    levels -= isinstance(node, ast.IfExp)
    return levels < 0 or any(_is_deeper(x, levels) for x in ast.iter_child_nodes(node))


def _branch(side: ast.expr | list[ast.stmt]) -> _Branch | None:
    """What a side assigns; an expression has no name."""
    if isinstance(side, ast.expr):
        return {"": side}
    found: _Branch = {}
    for statement in side:
        pairs = _assigned(statement)
        values = [value for _, value in pairs or ()] if found else []  # nothing is assigned before the first
        read = {n.id for value in values for n in ast.walk(value) if isinstance(n, ast.Name)}
        if pairs is None or not read.isdisjoint(found) or any([name in found for name, _ in pairs]):
            return None
        found.update(pairs)
    return found


def _assigned(statement: ast.stmt) -> list[tuple[str, ast.expr]] | None:
    """The names that it assigns to, and the values."""
    if isinstance(statement, ast.Pass):
        return []
    if isinstance(statement, ast.AugAssign):
        return _augmented(statement)
    if isinstance(statement, ast.If):
        return _nested(statement)
    if not isinstance(statement, ast.Assign):
        return None
    if len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Name):
        return [(target.id, value)]
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    names = [x.id for x in target.elts if isinstance(x, ast.Name)]
    if not len(names) == len(target.elts) == len(value.elts):
        return None
    return list(zip(names, value.elts))


def _augmented(node: ast.AugAssign) -> list[tuple[str, ast.expr]] | None:
    """`x += y` of numbers is `x = x + y`."""
    if not isinstance(node.target, ast.Name):
        return None
    name = node.target.id
    read = _at(ast.Name(name, ast.Load()), node)
    value = ast.BinOp(read, node.op, node.value)
    return [(name, _at(value, node))]


def _nested(node: ast.If) -> list[tuple[str, ast.expr]] | None:
    """An `if` in a branch, as after `elif`: both ways set one variable."""
    one, other = _branch(node.body), _branch(node.orelse)
    if one is None or other is None:
        return None
    if len(one) != 1 or one.keys() != other.keys():
        return None
    (name,) = one
    value = ast.IfExp(node.test, one[name], other[name])
    return [(name, _at(value, node))]


def _at(node: Any, place: ast.AST) -> Any:
    return ast.copy_location(node, place)


def is_sure(r: Any, node: ast.expr) -> bool:
    """Does it compute, and no more?"""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.Name):
        return bool(r.is_bound(node.id))
    parts = _parts(node)
    return bool(parts) and all([is_sure(r, x) for x in parts])


def _parts(node: Any) -> list[ast.expr]:
    """What it computes with; nothing if it may do something else."""
    kind, op = type(node), _operator(node)
    if op is not None and not isinstance(op, _OPERATORS):
        return []
    if kind is ast.BinOp:
        return [node.left, node.right]
    if kind is ast.UnaryOp:
        return [node.operand]
    if kind is ast.Compare:
        return [node.left, *node.comparators] if len(node.ops) == 1 else []
    if kind is ast.IfExp:
        return [node.test, node.body, node.orelse]
    if kind is ast.BoolOp:
        return list(node.values)
    if kind is ast.Subscript:
        key = node.slice
        keys = key.elts if isinstance(key, ast.Tuple) else [key]
        return [node.value, *keys]
    if kind is not ast.Call or node.keywords:
        return []
    f = node.func
    f = f.value if isinstance(f, ast.Attribute) else f
    return [f, *node.args] if isinstance(f, ast.Name) else []


def _operator(node: Any) -> ast.AST | None:
    if isinstance(node, ast.Compare):
        return node.ops[0]
    return getattr(node, "op", None)


def sure(r: Any, node: Any) -> Any:
    """The expression with hooks that never raise."""
    hook = _HOOKS.get(type(node))
    if hook is None:
        return r.visit(node)
    parts = [sure(r, x) for x in _parts(node)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        f = node.func
        parts[0] = r.hook("sure_attribute", f, parts[0], f.attr)
    op = _operator(node)
    if op is not None:
        parts.insert(0, r.mark(type(op).__name__, node))
    return r.hook(hook, node, *parts)
