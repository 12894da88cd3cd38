"""The syntax tree of a function, rewritten so that each operation passes a hook.

Idea: `a.x + f(b)` becomes `<binary>(<Add>, <load_attribute>(a, "x"), <call>(f)(b))`, where `<binary>` is a constant: a
text that begins with MARK. The code is compiled with these texts, once; whoever makes a twin puts a function in the place of
each (templates.py). So nothing is added to the user's namespaces, and one rewritten code serves every closure.

Invariant: no function, lambda, comprehension or class is added or left out, so that the compiled original and the compiled
rewritten tree have the same codes in the same order; and each hook stands where, and is evaluated when, its operation was.

Traps: what is evaluated once must stay evaluated once, without a variable to keep it in (`locals()` would show it). Truths are
asked once, too: in `if a or b` the hooks stand around `a` and `b`, not around the whole. Constant expressions stay as they are,
because Python folds them and then leaves out code that cannot be reached.
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from funcad.twin.choices import choice
from funcad.twin.scopes import Scope, Scopes, all_arguments, mangled
from funcad.twin.written import makes_nothing, read_only, runs_alone

MARK = "\0funcad:"  # what the constants begin with that hooks take the place of
AT_LEVEL = "@"  # `load_free@2`: of a variable of the function that is 2 around this one
_CODES = frozenset(["__code__", "f_code", "gi_code", "cr_code", "ag_code"])  # attributes that show a function's code


def is_constant(node: ast.expr) -> bool:
    """Does Python know this value when it compiles?"""
    if isinstance(node, ast.BinOp):
        return is_constant(node.right) and is_constant(node.left)
    if isinstance(node, ast.UnaryOp):
        return is_constant(node.operand)
    if isinstance(node, ast.Tuple):
        return all([is_constant(part) for part in node.elts])
    return isinstance(node, ast.Constant) or isinstance(node, ast.Name) and node.id == "__debug__"


def unpacking_depth(target: ast.AST | None) -> int:
    """How many levels `target = value` takes apart: 0 in `a = v`, 1 in `a, b = v`, 2 in `a, (b, c) = v`."""
    if isinstance(target, ast.Starred):
        return unpacking_depth(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return 1 + max([unpacking_depth(part) for part in target.elts], default=0)
    return 0


class Rewriter(ast.NodeTransformer):
    """Rewrites what is inside functions; code of the module itself stays as it is.

    `makes`: the hooks are told of nothing but calls, and of what makes something that may be written (reads/lending.py).
    """

    def __init__(self, module: ast.Module, makes: bool = False) -> None:
        self._makes = makes
        self._scopes = Scopes(module)
        self._now: Scope = self._scopes.of[module]
        self._class = ""
        self._read_only, self.plain_arguments = read_only(module)
        self.alone = runs_alone(module) if makes else set[tuple[str, int]]()
        self.plain_calls = {(n.end_lineno, n.end_col_offset) for n in self._read_only if isinstance(n, ast.Call)}  # their ends
        self._left = makes_nothing(module) if makes else set()  # as they stand
        self._sure: set[str] = set()  # local variables that are bound where the walk is
        imports = [n for n in module.body if isinstance(n, (ast.Import, ast.ImportFrom))]
        self._imports = {(alias.asname or alias.name).partition(".")[0] for n in imports for alias in n.names}

    # -- parts

    def mark(self, kind: str, at: ast.AST) -> Any:
        return ast.copy_location(ast.Constant(MARK + kind), at)

    def hook(self, kind: str, at: ast.AST, *arguments: Any) -> Any:
        """`<kind>(*arguments)`; texts and numbers among the arguments become constants."""
        nodes: list[Any] = [a if isinstance(a, ast.AST) else ast.copy_location(ast.Constant(a), at) for a in arguments]
        return ast.copy_location(ast.Call(self.mark(kind, at), nodes, []), at)

    @property
    def _live(self) -> bool:
        return self._now.level > 0

    @property
    def _told(self) -> bool:
        """Are the hooks told of everything?"""
        return self._now.level > 0 and not self._makes

    def _inside(self, node: ast.AST, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a function or class, rewritten; it begins by telling which outer names it may bind."""
        before, self._now = self._now, self._scopes.of[node]
        docstring = body[:1] if ast.get_docstring(node, clean=False) is not None else []  # type: ignore[arg-type]
        rest = body[len(docstring) :]
        arguments = all_arguments(node.args) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) else []
        sure, self._sure = self._sure, {a.arg for a in arguments}
        outside = self._now.stored_outside() if self._told else []
        told = [self._will_store(name, (rest or body)[0]) for name in outside]
        rewritten = self._statements(rest)
        self._now, self._sure = before, sure
        return [*docstring, *told, *rewritten]

    def _statements(self, body: list[ast.stmt], bound: ast.AST | None = None) -> list[ast.stmt]:
        """`bound`: the target that is bound where they begin."""
        out: list[ast.stmt] = []
        sure, self._sure = self._sure, self._sure | _bound_by(bound)
        for statement in body:
            now = _bound_by(statement)
            new = self.visit(statement)
            out += new if isinstance(new, list) else [new]
            self._sure |= now
        self._sure = sure
        return out

    def is_bound(self, name: str) -> bool:
        """Is the variable sure to have a value here, as far as this function can make sure?"""
        where = self._now.find(mangled(name, self._class))
        if name == "" or where.kind == "global" or where.kind == "free" and where.level < self._now.level:
            return name not in ("__class__", "__debug__")
        return where.kind in ("local", "free") and name in self._sure and name not in self._scopes.unbound

    def is_local(self, name: str) -> bool:
        return self._now.find(mangled(name, self._class)).kind == "local"

    def _will_store(self, name: str, at: ast.AST) -> ast.stmt:
        where = self._now.find(name)
        kind = "will_store_global" if where.kind == "global" else f"will_store_free{AT_LEVEL}{self._now.level - where.level}"
        return ast.copy_location(ast.Expr(self.hook(kind, at, name)), at)

    # -- scopes

    def _decorators(self, node: Any) -> None:
        found = [self.visit(decorator) for decorator in node.decorator_list]
        node.decorator_list = [self.hook("call", decorator, decorator) for decorator in found] if self._live else found

    def _defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(default) for default in arguments.defaults]
        arguments.kw_defaults = [default and self.visit(default) for default in arguments.kw_defaults]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        self._decorators(node)
        self._defaults(node.args)
        node.body = self._inside(node, node.body)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self._defaults(node.args)
        before, self._now = self._now, self._scopes.of[node]
        sure, self._sure = self._sure, {a.arg for a in all_arguments(node.args)}
        node.body = self.visit(node.body)
        self._now, self._sure = before, sure
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._decorators(node)
        before = self._now
        self._now = self._scopes.type_parameters.get(node, before)
        node.bases = [self.visit(base) for base in node.bases]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        self._now = before
        outer, self._class = self._class, node.name
        node.body = self._inside(node, node.body)
        self._class = outer
        return node

    def visit_TypeAlias(self, node: ast.AST) -> ast.AST:  # is evaluated when somebody asks for it
        return node

    def _comprehension(self, node: Any) -> ast.AST:
        before, inner = self._now, self._scopes.of[node]
        sure, self._sure = self._sure, self._sure.union(*[_bound_by(generator.target) for generator in node.generators])
        for i, generator in enumerate(node.generators):
            self._now = inner if i else before
            generator.iter = self._iterated(generator)
            self._now = inner
            generator.target = self.visit(generator.target)
            generator.ifs = [self.truth(condition) for condition in generator.ifs]
        for part in ("key", "value", "elt"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self._now, self._sure = before, sure
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # -- loads

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not self._told or not isinstance(node.ctx, ast.Load) or node.id in ("__class__", "__debug__"):
            return node
        name = mangled(node.id, self._class)
        where = self._now.find(name)
        if where.kind == "global":
            return self.hook("load_global", node, name, node)
        if where.kind == "class":
            return self.hook("load_class_name", node, name, node)
        if where.kind == "local" or where.level == self._now.level:
            return node
        return self.hook(f"load_free{AT_LEVEL}{self._now.level - where.level}", node, name, node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.value = self.visit(node.value)
        if not self._told and (not self._live or node.attr not in _CODES):
            return node
        if not isinstance(node.ctx, ast.Load):
            node.value = self.hook("target", node.value, node.value)
            return node
        kind = "load_code" if node.attr in _CODES else "load_attribute"
        return self.hook(kind, _at_the_name(node, node), node.value, mangled(node.attr, self._class))

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load) and self._told:
            node.value = self.hook("target", node.value, node.value)
        loads = isinstance(node.ctx, ast.Load) and self._is_hooked(node)
        node.slice = self._key(node.slice) if loads else self.visit(node.slice)
        return self.hook(self._made("load_item", node), node, node.value, node.slice) if loads else node

    def _key(self, node: ast.expr) -> ast.expr:
        """What stands in brackets, as an argument of a call: without colons."""
        if isinstance(node, ast.Slice):
            ends = [None if end is None else self.visit(end) for end in (node.lower, node.upper, node.step)]
            return self.hook("slice", node, *ends)
        if isinstance(node, ast.Tuple):
            node.elts = [self._key(part) for part in node.elts]
            return node
        return self.visit(node)

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        told = [self.hook("will_import", alias, 0, alias.name) for alias in node.names if self._told]
        return [*[ast.copy_location(ast.Expr(hook), node) for hook in told], node]

    def _imported(self, node: ast.ImportFrom) -> list[ast.stmt]:
        """What an import has bound is stored once more, after its hook."""
        if not self._told:
            return [node]
        names = [alias.name for alias in node.names]
        told = self.hook("will_import", node, node.level, node.module or "", *names)
        out: list[ast.stmt] = [ast.copy_location(ast.Expr(told), node), node]
        for alias in node.names:
            bound = alias.asname or alias.name
            found = [node.level, node.module or "", alias.name, _name(bound, ast.Load(), alias)]
            value = self.hook("load_imported", alias, *found)
            out.append(ast.copy_location(ast.Assign([_name(bound, ast.Store(), alias)], value), alias))
        return out

    visit_ImportFrom = _imported

    # -- calls, iteration

    def visit_Call(self, node: ast.Call) -> ast.AST:
        at = _at_the_name(node, node.func) if self._is_method_call(node) else node
        node.func = self.visit(node.func)
        if self._live and node not in self._left:
            node.func = self.hook(self._made("call", node), node.func, node.func)
        node.args = [self.visit(argument) for argument in node.args]
        node.keywords = [self.visit(keyword) for keyword in node.keywords]
        return ast.copy_location(node, at)

    def _is_method_call(self, node: ast.Call) -> bool:
        """Does Python compile it as one, rather than as a read and a call?"""
        starred = any([isinstance(argument, ast.Starred) for argument in node.args])
        unpacks = starred or any([keyword.arg is None for keyword in node.keywords])
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        return not (unpacks or owner is None or isinstance(owner, ast.Name) and owner.id in self._imports)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.value = self._spread(node.value) if node.arg is None else self.visit(node.value)
        return node

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        values = [self.visit(value) if key is not None else self._spread(value) for key, value in zip(node.keys, node.values)]
        node.keys, node.values = [key and self.visit(key) for key in node.keys], values
        return node

    def _spread(self, value: ast.expr) -> ast.expr:
        value = self.visit(value)
        return self.hook("spread", value, value) if self._told else value

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        node.value = self.visit(node.value)
        if self._told and isinstance(node.ctx, ast.Load):
            node.value = self.hook("iterate", node.value, node.value, 1)
        return node

    def visit_YieldFrom(self, node: ast.YieldFrom) -> ast.AST:
        node.value = self.visit(node.value)
        if self._told:
            node.value = self.hook("iterate", node.value, node.value, 1)
        return node

    def _iterated(self, node: ast.For | ast.comprehension) -> ast.expr:
        value = self.visit(node.iter)
        if not self._told or getattr(node, "is_async", False):
            return value
        return self.hook("iterate", value, value, 1 + unpacking_depth(node.target))

    def visit_For(self, node: ast.For) -> ast.AST:
        node.iter = self._iterated(node)
        body = self._statements(node.body, node.target)
        node.target, node.body, node.orelse = self.visit(node.target), body, self._statements(node.orelse)
        return node

    def visit_With(self, node: ast.With) -> ast.AST:
        for item in node.items:
            manager = self.visit(item.context_expr)
            depth = unpacking_depth(item.optional_vars)
            item.context_expr = self.hook("enter", manager, manager, depth) if self._told else manager
            item.optional_vars = item.optional_vars and self.visit(item.optional_vars)
        node.body = self._statements(node.body)
        return node

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.AST:
        node.type = node.type and self.visit(node.type)
        node.body = [*self._caught(node), *self._statements(node.body)]
        return node

    def visit_Try(self, node: ast.Try | ast.TryStar) -> ast.AST:
        self.generic_visit(node)
        node.finalbody = [*(self._caught(node.finalbody[0]) if node.finalbody else []), *node.finalbody]
        return node

    visit_TryStar = visit_Try

    def _caught(self, at: ast.AST) -> list[ast.stmt]:
        return [ast.copy_location(ast.Expr(self.hook("caught", at)), at)] if self._live else []

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        self.generic_visit(node)
        spec = node.format_spec
        return self.hook("formatted", node.value, node.value, node.conversion, spec) if self._told else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        return self.hook("joined", node, *node.values) if self._told else node

    # -- truths

    def truth(self, node: ast.expr, kept: bool = False, hook: str = "test") -> ast.expr:
        """An expression whose truth is asked, where it stands; `kept`: its value is used, too."""
        if isinstance(node, ast.BoolOp):
            node.values = [self.truth(value, kept, hook) for value in node.values]
            return node
        if isinstance(node, ast.IfExp):
            node.test = self.truth(node.test)
            node.body, node.orelse = self.truth(node.body, kept), self.truth(node.orelse, kept)
            return node
        found = self.visit(node)
        is_bool = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
        return found if not self._told or is_bool or is_constant(node) else self.hook(hook, found, found, kept)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        node.values = [*[self.truth(value, True) for value in node.values[:-1]], self.visit(node.values[-1])]
        return node

    def _tested(self, node: Any) -> ast.AST:
        node.test = self.truth(node.test)
        node.body, node.orelse = self._statements(node.body), self._statements(node.orelse)
        return node

    visit_While = _tested

    def visit_If(self, node: ast.If) -> ast.AST:
        found = choice(self, node.test, node.body, node.orelse) if self._told else None
        if found is None:
            return self._tested(node)
        names, tried, asked = found
        targets: list[ast.expr] = [_name(name, ast.Store(), node) for name in names]
        target = targets[0] if len(names) == 1 else ast.copy_location(ast.Tuple(targets, ast.Store()), node)
        chosen = ast.copy_location(ast.Assign([target], self.hook("chosen", node)), node)
        other = ast.If(asked, self._statements(node.body), self._statements(node.orelse))
        return ast.copy_location(ast.If(tried, [chosen], [ast.copy_location(other, node)]), node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        found = choice(self, node.test, node.body, node.orelse) if self._told else None
        test = self.truth(node.test) if found is None else found[2]
        asked = ast.copy_location(ast.IfExp(test, self.visit(node.body), self.visit(node.orelse)), node)
        return asked if found is None else ast.copy_location(ast.IfExp(found[1], self.hook("chosen", node), asked), node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.test, node.msg = self.truth(node.test), node.msg and self.visit(node.msg)
        if self._told and node.msg is not None and not is_constant(node.msg):
            node.msg = self.hook("message", node.msg, node.msg)
        return node

    # -- operators

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.Not):
            node.operand = self.truth(node.operand)
            return node
        if not self._is_hooked(node):
            return node if is_constant(node) else self.generic_visit(node)
        return self.hook(self._made("unary", node), node, self.mark(type(node.op).__name__, node), self.visit(node.operand))

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if not self._is_hooked(node):
            return node if is_constant(node) else self.generic_visit(node)
        op = self.mark(type(node.op).__name__, node)
        return self.hook(self._made("binary", node), node, op, self.visit(node.left), self.visit(node.right))

    def _is_hooked(self, node: ast.expr) -> bool:
        """An operator or an index: is the hook told of it?"""
        return self._live and not is_constant(node) and not (self._makes and (node in self._read_only or node in self._left))

    def _made(self, kind: str, node: ast.AST) -> str:
        """The kind of hook of what makes something."""
        return f"{kind}_read" if node in self._read_only else kind

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        sides = [self.visit(node.left), *[self.visit(side) for side in node.comparators]]
        ops = [self.mark(type(op).__name__, node) for op in node.ops]
        if self._told and len(ops) == 1:
            return self.hook("compare", node, ops[0], *sides)
        for i, op in enumerate(ops if self._told else []):
            for j in (i, i + 1):
                sides[j] = self.hook("chained", sides[j], op, sides[j])
        node.left, node.comparators = sides[0], sides[1:]
        return node

    # -- stores

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        node.value = self.visit(node.value)
        depths = [unpacking_depth(target) for target in node.targets]
        node.targets = [self.visit(target) for target in node.targets]
        if not self._told or not any(depths):
            return node
        if len(depths) == 1:
            node.value = self.hook("iterate", node.value, node.value, depths[0])
            return node
        node.value = self.hook("iterate_each", node.value, node.value, tuple(depths))  # to `a, (b, c) = <each>(v)`
        node.targets = [ast.copy_location(ast.Tuple(node.targets, ast.Store()), node.targets[0])]
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.value = node.value and self.visit(node.value)
        node.target = self.visit(node.target)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target = node.target
        if not self._live:
            return self.generic_visit(node)
        op = self.mark("i" + type(node.op).__name__, node)
        if isinstance(target, ast.Name):
            read = self.visit(_name(target.id, ast.Load(), target))
            return ast.copy_location(ast.Assign([target], self.hook("binary", node, op, read, self.visit(node.value))), node)
        if isinstance(target, ast.Attribute):
            name = mangled(target.attr, self._class)
            begun = self.hook("augment_attribute", _at_the_name(target, target), self.visit(target.value), name, op)
        elif self._makes:
            node.value, target.value, target.slice = map(self.visit, (node.value, target.value, target.slice))
            target.value = self.hook("augmented", target.value, target.value, op)
            return node
        else:
            begun = self.hook("augment_item", target, self.visit(target.value), self._key(target.slice), op)
        return ast.copy_location(ast.Expr(ast.copy_location(ast.Call(begun, [self.visit(node.value)], []), node)), node)

    # -- patterns

    def visit_Match(self, node: ast.Match) -> ast.AST | list[ast.stmt]:
        """The classes of patterns may be names and attributes of names only: their hooks stand before the statement."""
        if not self._told:
            return self.generic_visit(node)
        patterns = [n for case in node.cases for n in ast.walk(case.pattern) if isinstance(n, ast.MatchClass)]
        before = [self._looked_at(pattern.cls) for pattern in patterns]
        node.subject = self.hook("match", node.subject, self.visit(node.subject))
        for case in node.cases:
            case.pattern = self.visit(case.pattern)
            case.guard = case.guard and self.truth(case.guard)
            case.body = self._statements(case.body)
        return [*before, node]

    def _looked_at(self, node: ast.expr) -> ast.stmt:
        read = ast.Expr(self.visit(copy.deepcopy(node)))
        handler = ast.ExceptHandler(self.mark("absent", node), None, [ast.copy_location(ast.Pass(), node)])
        made = ast.Try([ast.copy_location(read, node)], [ast.copy_location(handler, node)], [], [])
        return ast.copy_location(made, node)

    def visit_MatchClass(self, node: ast.MatchClass) -> ast.AST:
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        node.kwd_patterns = [self.visit(pattern) for pattern in node.kwd_patterns]
        return node

    def visit_MatchMapping(self, node: ast.MatchMapping) -> ast.AST:
        node.keys = [self._pattern_value(key) for key in node.keys]
        node.patterns = [self.visit(pattern) for pattern in node.patterns]
        return node

    def visit_MatchValue(self, node: ast.MatchValue) -> ast.AST:
        node.value = self._pattern_value(node.value)
        return node

    def _pattern_value(self, node: ast.expr) -> ast.expr:
        if not self._told or not isinstance(node, ast.Attribute):
            return node
        return ast.copy_location(ast.Attribute(self.hook("boxed", node, self.visit(node)), "value", ast.Load()), node)


def _bound_by(node: ast.AST | None) -> set[str]:
    """The variables that a target is sure to bind, or a statement."""
    if isinstance(node, ast.Name):
        return {node.id}
    if isinstance(node, (ast.Tuple, ast.List)):
        return set().union(*map(_bound_by, node.elts))
    if isinstance(node, ast.Starred):
        return _bound_by(node.value)
    if isinstance(node, ast.Assign):
        return set().union(*map(_bound_by, node.targets))
    return _bound_by(node.target) if isinstance(node, ast.AugAssign) else set()


def _name(name: str, context: ast.expr_context, at: ast.AST) -> ast.Name:
    return ast.copy_location(ast.Name(name, context), at)


def _at_the_name(node: Any, function: ast.expr) -> Any:
    """Where Python says that `a.b` is read, or `a.b()` called: on the line of `b`, where a chain of calls has several lines."""
    if not isinstance(function, ast.Attribute) or function.end_lineno == node.lineno:
        return node
    column = max((function.end_col_offset or 0) - len(function.attr), 0)
    place: dict[str, Any] = {"lineno": function.end_lineno, "col_offset": column}
    return ast.Pass(**place, end_lineno=node.end_lineno, end_col_offset=node.end_col_offset)
