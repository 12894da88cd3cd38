"""Whose variable a name is: Python's rules of scopes, read off the syntax tree.

Idea: one walk makes a `Scope` of each module, class, function, comprehension and list of type parameters, and notes what each
binds. `Scope.find` then says of a name whether reading it reads a local variable, a global, or a variable of an outer function.

Invariant: a scope's `level` counts the functions around it, itself included. Comprehensions and classes do not count, so that
it means the same whether Python gives a comprehension a code object of its own (3.11) or none (3.12).

Trap: the names of a class are seen by its own body alone, neither by its methods nor by comprehensions in it.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Where(NamedTuple):
    """`kind` is local, global, free (of an outer function) or class (bound in the class's body); `level` is the binder's."""

    kind: str
    level: int


class Scope:
    def __init__(self, node: ast.AST, parent: Scope | None) -> None:
        self.node = node
        self.parent = parent
        self.is_module = parent is None
        self.is_class = isinstance(node, ast.ClassDef)
        self.level: int = (parent.level if parent is not None else 0) + isinstance(node, FUNCTIONS)
        self.bound: set[str] = set()
        self.globals: set[str] = set()
        self.nonlocals: set[str] = set()

    def find(self, name: str) -> Where:
        scope: Scope | None = self
        while scope is not None and not scope.is_module:
            seen = scope is self or not scope.is_class
            if seen and name in scope.globals:
                break
            if seen and name in scope.bound and name not in scope.nonlocals:
                own = "class" if scope.is_class else "local"
                return Where(own if scope is self else "free", scope.level)
            scope = scope.parent
        return Where("global", 0)

    def stored_outside(self) -> list[str]:
        """The names of globals and of outer functions that this scope binds or deletes."""
        return sorted(self.bound & (self.globals | self.nonlocals))


def all_arguments(arguments: ast.arguments) -> list[ast.arg]:
    extra = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *extra]


class Scopes(ast.NodeVisitor):
    """All scopes of a module by their nodes. `type_parameters` are scopes of their own, kept by the node that has them."""

    def __init__(self, module: ast.Module) -> None:
        self.of: dict[ast.AST, Scope] = {}
        self.type_parameters: dict[ast.AST, Scope] = {}
        self.unbound: set[str] = set()  # names that some scope deletes
        self._class: str = ""  # names are bound as Python mangles them
        self._now = self.of[module] = Scope(module, None)
        self.generic_visit(module)

    def _inside(self, scope: Scope, *nodes: ast.AST | list) -> None:
        before, self._now = self._now, scope
        for node in nodes:
            for part in node if isinstance(node, list) else [node]:
                self.visit(part)
        self._now = before

    def bind(self, name: str) -> None:
        self._now.bound.add(mangled(name, self._class))

    # -- scopes

    def _after_type_parameters(self, node: ast.AST) -> Scope:
        """The scope in which a function's or a class's own lies."""
        parameters = getattr(node, "type_params", None)
        if not parameters:
            return self._now
        scope = self.type_parameters[node] = Scope(node.type_params[0], self._now)  # type: ignore[attr-defined]
        scope.bound.update(mangled(parameter.name, self._class) for parameter in parameters)
        return scope

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.bind(node.name)
        self._inside(self._now, node.decorator_list)
        self._function(node, node.args, node.body)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._function(node, node.args, [node.body])

    def _function(self, node: ast.AST, arguments: ast.arguments, body: list) -> None:
        self._inside(self._now, arguments.defaults, [default for default in arguments.kw_defaults if default is not None])
        scope = self.of[node] = Scope(node, self._after_type_parameters(node))
        scope.bound.update(mangled(argument.arg, self._class) for argument in all_arguments(arguments))
        self._inside(scope, body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.bind(node.name)
        self._inside(self._now, node.decorator_list)
        outer = self._after_type_parameters(node)
        self._inside(outer, node.bases, node.keywords)
        scope = self.of[node] = Scope(node, outer)
        before, self._class = self._class, node.name
        self._inside(scope, node.body)
        self._class = before

    def visit_TypeAlias(self, node: ast.AST) -> None:
        self.visit(node.name)  # type: ignore[attr-defined]

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> None:
        scope = self.of[node] = Scope(node, self._now)
        self.visit(node.generators[0].iter)  # is evaluated outside
        for i, generator in enumerate(node.generators):
            self._inside(scope, generator.target, generator.ifs, *([generator.iter] if i else []))
        self._inside(scope, *([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]))

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # -- names

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self.bind(node.id)
        if isinstance(node.ctx, ast.Del):
            self.unbound.add(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        scope = self._now
        while isinstance(scope.node, COMPREHENSIONS) and scope.parent is not None:
            scope = scope.parent
        scope.bound.add(mangled(node.target.id, self._class))

    def visit_Global(self, node: ast.Global) -> None:
        self._now.globals.update(mangled(name, self._class) for name in node.names)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> None:
        self._now.nonlocals.update(mangled(name, self._class) for name in node.names)

    def visit_alias(self, node: ast.alias) -> None:
        self.bind((node.asname or node.name).partition(".")[0])

    def _captured(self, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            self.bind(node.name)
            self.unbound.add(node.name)
        self.generic_visit(node)

    visit_ExceptHandler = visit_MatchAs = visit_MatchStar = _captured

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.bind(node.rest)
        self.generic_visit(node)


def mangled(name: str, class_name: str) -> str:
    """The name as Python has it in a class: `__x` in `class _A` is `_A__x`."""
    if not name.startswith("__") or name.endswith("__") or "." in name or not class_name.strip("_"):
        return name
    return f"_{class_name.lstrip('_')}{name}"
