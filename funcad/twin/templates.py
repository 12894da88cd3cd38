"""From a code object to its rewritten code: the source is found, checked, rewritten and compiled, once per code.

Idea: the statement of the module that holds the function is compiled twice, as it stands and rewritten, and the two are walked
side by side. The first is compared with the function's own code: source that is not that of the function (edited since, asserts
rewritten by a test runner, another level of optimisation) is refused, with the reason. The second becomes a tree of `Rewritten`
codes, in which the places of the hooks are known; `Rewritten.bound` puts the hooks of one root there.

Invariant: nothing here holds a function or its code object. Modules are kept by file name and text, the last few of them;
what was found for a code object goes with it.

Traps: code objects of two files may be equal, so that tables go by identity. The compiler chooses opcodes by what a module
imports, so that its imports are compiled along. Only what stands around the function is: its class without the other methods.
"""

from __future__ import annotations
import __future__

import ast
import inspect
import linecache
import os
import re
import sys
import threading
import types
import warnings
import weakref
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from funcad.memo import table
from funcad.twin.rewriting import AT_LEVEL, MARK, Rewriter

MODULES = 8  # parsed modules that are kept: they are many objects, which the garbage collector visits
_FUTURES = [getattr(__future__, name).compiler_flag for name in __future__.all_feature_names]
_IMPORTS = (ast.Import, ast.ImportFrom)
_BLOCKS = (ast.If, ast.Try, ast.TryStar, ast.With, ast.For, ast.While, ast.ExceptHandler)  # their names are the module's
_BODIES = ("body", "handlers", "orelse", "finalbody")


class Untwinnable(Exception):
    """Why a function has no twin."""


class Origin(NamedTuple):
    """The last constant of a twin's code: of what it is the twin, and who asked for it."""

    rewritten: Rewritten
    code: types.CodeType
    maker: Any

    def __reduce__(self) -> Any:  # of a function that escaped and is pickled by value: it is no twin any more
        return str, ("",)


def origin_of(code: types.CodeType) -> Origin | None:
    constants = code.co_consts
    return constants[-1] if constants and type(constants[-1]) is Origin else None


def inner_codes(code: types.CodeType) -> list[types.CodeType]:
    return [constant for constant in code.co_consts if type(constant) is types.CodeType]


class Rewritten:
    """A rewritten code, and where in its constants hooks and the codes inside it stand."""

    __slots__ = ("code", "makes", "plain_calls", "plain_arguments", "alone", "sites", "_hooks", "_inner", "_is_function")

    def __init__(self, code: types.CodeType) -> None:
        self.code = code
        self.makes = False  # are the hooks told of nothing but what makes something?
        self.plain_calls: Any = frozenset()  # where calls end whose results are only read
        self.plain_arguments: Any = frozenset()  # names of arguments that are
        self.alone = False  # does no call write or keep what it is given?
        self.sites: dict[tuple[bool, int], bool] = {}  # of the code or its rewritten one, and the offset of a call: is it one?
        self._hooks: list[tuple[int, str, int]] = []  # place, kind, levels up
        self._inner: list[tuple[int, Rewritten]] = []
        named = not code.co_name.startswith("<") and bool(code.co_flags & inspect.CO_NEWLOCALS)  # a class's has not the flag
        self._is_function = named or code.co_name == "<lambda>"
        for i, constant in enumerate(code.co_consts):
            if type(constant) is types.CodeType:
                self._inner.append((i, Rewritten(constant)))
            elif type(constant) is str and constant.startswith(MARK):
                kind, _, levels = constant[len(MARK) :].partition(AT_LEVEL)
                self._hooks.append((i, kind, int(levels or 0)))

    def inner(self) -> list[Rewritten]:
        return [rewritten for _, rewritten in self._inner]

    def bound(self, table: Any, original: types.CodeType, maker: Any, level: int = 0) -> types.CodeType:
        """The code with its hooks, of a HookTable; `level`: how many functions deep it is in the root."""
        constants: list[Any] = [*self.code.co_consts, Origin(self, original, maker)]
        for place, kind, levels in self._hooks:
            own = kind in _OF_OTHERS and levels <= level
            constants[place] = table.find(_OF_OTHERS[kind] if own else kind)
        for (place, rewritten), code in zip(self._inner, inner_codes(original)):
            constants[place] = rewritten.bound(table, code, maker, level + rewritten._is_function)
        flags = self.code.co_flags | original.co_flags & inspect.CO_ITERABLE_COROUTINE
        return self.code.replace(co_consts=tuple(constants), co_flags=flags)


_OF_OTHERS = {"load_free": "variable", "will_store_free": "no_store"}  # and what stands there for a variable of the root's own


# -- the source of a code object


class ModuleText:
    """One module, parsed once; its functions are rewritten when they are asked for, by the top-level statement or method."""

    def __init__(self, text: str, filename: str, makes: bool) -> None:
        self.text, self._filename, self._makes = text, filename, makes
        self._tree = ast.parse(text, filename)
        self._done: set[ast.AST] = set()
        self._alone: set[ast.AST] = set()
        self._found: dict[tuple[str, int], list[tuple[types.CodeType, Rewritten]]] = {}
        self._imports = [node for node in _of_module(self._tree.body) if isinstance(node, _IMPORTS)]

    def find(self, code: types.CodeType) -> Rewritten:
        around = _around(self._tree.body, code.co_firstlineno)
        if around and not self._done.issuperset(around.parts):
            self._done.update(around.parts)
            self._rewrite(around.statements, code.co_flags, self._imports)
        found = self._same(code)
        if not found and around and self._imports and not self._alone.issuperset(around.parts):
            self._alone.update(around.parts)  # a cell of a notebook is compiled statement by statement, without its imports
            anew = _around(ast.parse(self.text, self._filename).body, code.co_firstlineno)  # the other is rewritten
            self._rewrite(anew.statements if anew else [], code.co_flags, [])
            found = self._same(code)
        if not found:
            raise Untwinnable("its source is not what runs: was the file edited, or rewritten when it was imported?")
        same_place = [pair for pair in found if list(pair[0].co_positions()) == list(code.co_positions())]  # lambdas on a line
        return (same_place or found)[0][1]

    def _same(self, code: types.CodeType) -> list[tuple[types.CodeType, Rewritten]]:
        return [pair for pair in self._found.get((code.co_qualname, code.co_firstlineno), []) if same_code(pair[0], code)]

    def _rewrite(self, statements: list[ast.stmt], flags: int, imports: list[Any]) -> None:
        imports = [node for node in imports if getattr(node, "module", None) != "__future__"]
        module = ast.Module([*imports, *[statement for statement in statements if statement not in imports]], [])
        futures = sum([flag for flag in _FUTURES if flag & flags]) | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        original = compile(module, self._filename, "exec", futures, dont_inherit=True)
        rewriter = Rewriter(module, self._makes)
        module = ast.fix_missing_locations(rewriter.visit(module))
        made = compile(module, self._filename, "exec", futures, dont_inherit=True)
        for plain, rewritten in _pairs(original, Rewritten(made)):
            rewritten.plain_calls, rewritten.plain_arguments = rewriter.plain_calls, rewriter.plain_arguments
            rewritten.alone = (plain.co_name, plain.co_firstlineno) in rewriter.alone
            rewritten.makes = self._makes
            self._found.setdefault((plain.co_qualname, plain.co_firstlineno), []).append((plain, rewritten))


def _pairs(plain: types.CodeType, rewritten: Rewritten) -> Iterator[tuple[types.CodeType, Rewritten]]:
    yield plain, rewritten
    inside, other = inner_codes(plain), rewritten.inner()
    if len(inside) != len(other):
        raise Untwinnable(f"{plain.co_qualname} has {len(inside)} inner codes, but {len(other)} when rewritten")
    for code, more in zip(inside, other):
        yield from _pairs(code, more)


class _Around(NamedTuple):
    """The statements in which a line stands, and of these the innermost ones: whole functions and simple statements."""

    statements: list[ast.stmt]
    parts: list[ast.stmt]


def _around(body: list[Any], line: int) -> _Around | None:
    """Classes are made anew with nothing but what holds the line; from blocks of the module, what holds it is taken out."""
    held = [node for node in body if _first_line(node) <= line <= node.end_lineno]
    if len(held) == 1 and isinstance(held[0], (ast.ClassDef, *_BLOCKS)):
        node = held[0]
        inside = _around([part for name in _BODIES for part in getattr(node, name, [])], line)
        if inside is not None and isinstance(node, ast.ClassDef):
            parts: dict[str, Any] = {"type_params": getattr(node, "type_params", [])} if sys.version_info >= (3, 12) else {}
            parts |= {"bases": [], "keywords": [], "decorator_list": []}  # what a method means does not depend on them
            made = ast.ClassDef(name=node.name, body=inside.statements, **parts)
            return _Around([ast.copy_location(made, node)], inside.parts)
        if inside is not None and line > node.lineno:
            return inside
    return _Around(held, held) if held else None


def _first_line(node: Any) -> int:
    return min([node.lineno, *[decorator.lineno for decorator in getattr(node, "decorator_list", [])]])


def _of_module(body: list[Any]) -> Iterator[ast.AST]:
    """The statements that are the module's own, those in its blocks as well."""
    for node in body:
        yield node
        for name in _BODIES if isinstance(node, _BLOCKS) else ():
            yield from _of_module(getattr(node, name, []))


def same_code(a: types.CodeType, b: types.CodeType) -> bool:
    """Do they do the same? Names of files and positions may differ."""
    facts = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_exceptiontable", "co_argcount", "co_name")
    return all([getattr(a, fact) == getattr(b, fact) for fact in facts]) and (
        len(a.co_consts) == len(b.co_consts) and all([_same_constant(x, y) for x, y in zip(a.co_consts, b.co_consts)])
    )


def _same_constant(a: Any, b: Any) -> bool:
    if type(a) is not type(b):
        return False
    if type(a) is types.CodeType:
        return same_code(a, b)
    if type(a) is tuple:
        return len(a) == len(b) and all([_same_constant(x, y) for x, y in zip(a, b)])
    return a == b if type(a) in (str, int, bytes, frozenset) else repr(a) == repr(b)


# -- tables

_modules = table("twin.modules", "file: its text, parsed and rewritten; the last used come last", MODULES, same=None)
_codes = table(
    "twin.codes", "identity of a code object, as long as it lives, and what hooks are told of: the rewritten code", same=None
)
_lock = threading.RLock()


def rewritten_code(code: types.CodeType, globals_: dict[str, Any], makes: bool = False) -> Rewritten:
    """The rewritten code of a function (`makes`: see Rewriter). Raises Untwinnable, each time for the same reason."""
    at = id(code), makes
    known = _codes.get(at)
    if known is None or known[0]() is not code:
        with _lock:
            try:
                found: Rewritten | Untwinnable = _searched(code, globals_, makes)
            except Untwinnable as error:
                found = Untwinnable(*error.args)  # a new one: what it was raised among would be kept with it
            forget = partial(_forget, at=at, codes=_codes)  # for codes that live until Python takes modules apart
            known = _codes[at] = (weakref.ref(code, forget), found)
    if isinstance(known[1], Untwinnable):
        raise Untwinnable(*known[1].args)
    return known[1]


def is_only_read(frame: types.FrameType, look: bool) -> bool:
    """Is the result of the call that the user's code is at only read by it? `look`: for its source, if nobody has done so."""
    code, place = frame.f_code, frame.f_lasti
    origin = origin_of(code)
    if origin is not None:
        rewritten = origin.rewritten
    else:
        makes = (id(code), False) not in _codes
        if not look and makes and (id(code), True) not in _codes:
            return False
        try:
            rewritten = rewritten_code(code, frame.f_globals, makes)
        except Untwinnable:
            return False
    found = rewritten.sites.get((origin is None, place))
    if found is None:
        _, line, _, column = next(islice(code.co_positions(), place // 2, None))
        found = rewritten.sites[origin is None, place] = (line, column) in rewritten.plain_calls
    return found


def arguments_only_read(f: Any) -> list[bool]:
    """Of the arguments by position of a function whose source has been found: is each only read?"""
    at = id(f.__code__) if type(f) is types.FunctionType else 0
    known = _codes.get((at, True)) or _codes.get((at, False))
    if known is None or type(known[1]) is not Rewritten:
        return []
    return [name in known[1].plain_arguments for name in f.__code__.co_varnames[: f.__code__.co_argcount]]


def is_alone(f: types.FunctionType) -> bool:
    """Does no call of it write or keep what it is given, as the source says that has been found for its twin?"""
    known = _codes.get((id(f.__code__), True))
    return known is not None and type(known[1]) is Rewritten and known[1].alone


def _forget(gone: weakref.ref, at: Any, codes: dict[Any, Any]) -> None:
    known = codes.get(at)
    if known is not None and known[0] is gone:
        del codes[at]


# Hooks look like texts that are called; and Python has given the user's own warnings. Those of other threads pass.
_UNSAID = [("ignore", None, SyntaxWarning, None, 0), ("ignore", re.compile("invalid"), DeprecationWarning, None, 0)]


def _searched(code: types.CodeType, globals_: dict[str, Any], makes: bool) -> Rewritten:
    try:
        return _found(code, globals_, makes)
    except Untwinnable:
        linecache.checkcache(code.co_filename)  # the module may have been loaded anew from a file that has been edited
        return _found(code, globals_, makes)


def _found(code: types.CodeType, globals_: dict[str, Any], makes: bool) -> Rewritten:
    filename = code.co_filename
    text = "".join(linecache.getlines(filename, globals_))
    if not text:
        raise Untwinnable(_no_source(filename))
    module = _modules.pop((filename, makes), None)
    filters: Any = warnings.filters  # this list: another one is the user's `catch_warnings` to the traces of other threads
    filters[:0] = _UNSAID
    try:
        if module is None or module.text != text:
            module = ModuleText(text, filename, makes)
        _modules[filename, makes] = module
        while len(_modules) > MODULES:
            del _modules[next(iter(_modules))]
        return module.find(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        _modules.pop((filename, makes), None)  # it may be half rewritten
        raise Untwinnable(f"its source cannot be rewritten: {type(error).__name__}: {error}") from None
    finally:
        for entry in _UNSAID:
            if entry in filters:
                filters.remove(entry)


def _after_fork() -> None:
    """Another thread may have held the lock, and is gone."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _no_source(filename: str) -> str:
    known = {"<string>": "python -c or exec", "<stdin>": "the standard input or the prompt"}
    where = known.get(filename, "a frozen module" if filename.startswith("<frozen") else filename)
    return f"it has no source: it comes from {where}"
