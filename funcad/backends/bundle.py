"""Implementations as source text: what an exported program needs of funcad's own functions.

Idea: the implementation of a primitive is an ordinary function over `xp`. Its definition is found in its file by the position
of its code, the annotations are dropped, and the global names and closed-over values it uses are written in front of it in the
same way: functions and classes by their source, NumPy's and Python's own by their names, plain values by their text.
Invariant: the text names nothing of funcad; what cannot be written (thread state, an open file) raises NotImplementedError,
which source.py puts into the user's words. Trap: two modules may use one name for different things, so names are given
per object.
"""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import inspect
import sys
import types
import zlib
from typing import Any

import numpy as np

from funcad.host.devices import namespace_of
from funcad.host.real_types import is_a
from funcad.host.where import GENERATED, is_internal
from funcad.ir.aval import Aval, Stack, StackAval, aval_of, dtype_of, shape_of
from funcad.ir.primitive import Primitive

__all__ = ["Bundle", "array_text", "packed_text"]

SMALL_ARRAY = 64  # elements that are written as numbers
LARGEST_ARRAY = 1 << 20  # bytes of an array that is written at all

# funcad's own names that implementations read, and what stands for them in a module without funcad
STAND_INS = {
    "shape_of": "def {0}(x):\n    return np.shape(x)",
    "dtype_of": "def {0}(x):\n    return x.dtype if hasattr(x, 'dtype') else np.asarray(x).dtype",
    "aval_of": "def {0}(x):\n    return x if hasattr(x, 'dtype') else np.asarray(x)",
    "namespace_of": (
        "def {0}(args):\n"
        "    for a in args:\n"
        "        if hasattr(a, 'dtype') and not isinstance(a, (np.ndarray, np.generic)):\n"
        "            if hasattr(a, '__array_namespace__'):\n"
        "                return a.__array_namespace__()\n"
        "            return __import__(type(a).__module__.partition('.')[0])  # CuPy's have none\n"
        "    return np"
    ),
    "Stack": (
        "class {0}(list):\n    def __init__(self, items, aval):\n        super().__init__(items)\n        self.aval = aval"
    ),
    "StackAval": "class {0}:\n    def __init__(self, element):\n        self.element = element",
    "Aval": (
        "class {0}:\n    def __init__(self, shape, dtype, weak=False):\n"
        "        self.shape, self.dtype, self.weak = tuple(shape), np.dtype(dtype), weak\n"
        "        self.ndim, self.size = len(self.shape), int(np.prod(self.shape, dtype=int))"
    ),
}
_STANDS_FOR = {
    id(value): STAND_INS[value.__name__]
    for value in (shape_of, dtype_of, aval_of, namespace_of, Stack, StackAval, Aval)
}


class Bundle:
    """Definitions, in the order in which they are needed."""

    def __init__(self, taken: set[str], lists: bool = False):
        self.taken = taken
        self.lists = lists  # may stacks be lists?
        self.names: dict[int, str] = {}
        self.kept: list[Any] = []  # keeps the objects alive, so that their ids stay theirs
        self.definitions: list[str] = []
        self.imports: dict[str, str] = {}  # statement -> name

    # -- names

    def _name(self, wanted: str, value: Any) -> str:
        wanted = wanted if wanted.isidentifier() else "value"
        name, k = wanted, 2
        while name in self.taken or hasattr(builtins, name):
            name, k = f"{wanted}_{k}", k + 1
        self.taken.add(name)
        self.names[id(value)] = name
        self.kept.append(value)
        return name

    def refuse(self, what: str) -> NotImplementedError:
        """For whoever knows the operation that needs it, and says so to the user."""
        return NotImplementedError(f"{what} has no text of its own")

    def define(self, name: str, value: Any) -> None:
        """The value under this name, which the lines use."""
        if id(value) in _STANDS_FOR:
            self.names[id(value)] = name
            self.definitions.append(_STANDS_FOR[id(value)].format(name))
        else:
            self.definitions.append(f"{name} = {self.text(value, name)}")
            self.names[id(value)] = name
        self.kept.append(value)

    # -- values

    def text(self, value: Any, hint: str = "value") -> str:
        """An expression for a value; what it needs is defined before."""
        if value is None or value is Ellipsis or type(value) in (bool, int, str, bytes):
            return repr(value)
        if type(value) in (float, complex):
            return _number(value)
        if id(value) in self.names:
            return self.names[id(value)]
        if isinstance(value, types.ModuleType):
            return self._module(value)
        if type(value) in (tuple, list, set, frozenset):
            inner = ", ".join([self.text(v, hint) for v in value])
            if type(value) is tuple:
                return f"({inner}{',' if len(value) == 1 else ''})"
            return f"[{inner}]" if type(value) is list else f"{type(value).__name__}([{inner}])"
        if type(value) is dict:
            return "{" + ", ".join([f"{self.text(k)}: {self.text(v, hint)}" for k, v in value.items()]) + "}"
        if type(value) is slice:
            return f"slice({self.text(value.start)}, {self.text(value.stop)}, {self.text(value.step)})"
        if isinstance(value, np.dtype):
            return f"np.dtype({value.str!r})"
        if is_a(value, np.generic):
            return _scalar(value)
        if is_a(value, np.ndarray) and value.nbytes <= LARGEST_ARRAY and value.dtype.kind in "biufc":
            return self._define(hint, value, self._array(value))
        if id(value) in _STANDS_FOR:
            name = self._name(value.__name__, value)
            self.definitions.append(_STANDS_FOR[id(value)].format(name))
            return name
        if type(value) is Stack:
            items = self.text(list(value), hint)
            return items if self.lists else f"{self.text(Stack)}({items}, {self.text(value.aval)})"
        if type(value) is StackAval:
            return f"{self.text(StackAval)}({self.text(value.element)})"
        if isinstance(value, Aval):
            return f"{self.text(Aval)}({value.shape!r}, {self.text(value.dtype)}, {value.weak!r})"
        if isinstance(value, functools.partial):
            parts = [self.text(value.func), *[self.text(a) for a in value.args]]
            parts += [f"{k}={self.text(v)}" for k, v in value.keywords.items()]
            self.imports["import functools"] = "functools"
            return f"functools.partial({', '.join(parts)})"
        if type(value) is Primitive:
            return self._primitive(value)
        found = self._public(value)
        if found is not None:
            return found
        wrapped = inspect.unwrap(value) if callable(value) else value
        if isinstance(wrapped, types.FunctionType):
            return self._function(wrapped, value)
        if isinstance(value, type):
            return self._class(value)
        raise self.refuse(f"a {type(value).__name__} ({hint})")

    def _define(self, hint: str, value: Any, text: str) -> str:
        name = self._name(hint, value)
        self.definitions.append(f"{name} = {text}")
        return name

    def _closed_over(self, name: str, value: Any) -> str:
        """A closed-over value as a name: `0 is None` in the place of `n is None` would warn."""
        if value is None or type(value) in (bool, int, float, str):
            chosen, k = name, 2
            while chosen in self.taken or hasattr(builtins, chosen):
                chosen, k = f"{name}_{k}", k + 1
            self.taken.add(chosen)
            self.definitions.append(f"{chosen} = {self.text(value)}")
            return chosen
        return self.text(value, name)

    def _array(self, value: np.ndarray) -> str:
        if value.size <= SMALL_ARRAY:
            return array_text(value)
        self.imports.update({"import base64": "base64", "import zlib": "zlib"})
        return packed_text(value)

    def _module(self, module: types.ModuleType) -> str:
        if module is np:
            return "np"
        root = module.__name__.partition(".")[0]
        if root == "funcad" or root.startswith("_"):
            raise self.refuse(f"the module {module.__name__}")
        name = module.__name__.replace(".", "_") if "." in module.__name__ else module.__name__
        self.taken.add(name)
        self.imports[f"import {module.__name__} as {name}" if name != module.__name__ else f"import {name}"] = name
        return name

    def _public(self, value: Any) -> str | None:
        """NumPy's, SciPy's and Python's own, by their public names."""
        name = getattr(value, "__name__", None)
        if not isinstance(name, str):
            return None
        if getattr(np, name, None) is value:
            return f"np.{name}"
        if getattr(builtins, name, None) is value:
            return name
        module = getattr(value, "__module__", None) or ""
        module = {"_operator": "operator", "_functools": "functools", "itertools": "itertools"}.get(module, module)
        root = module.partition(".")[0]
        if not root or root == "funcad":
            return None
        try:
            parts = __import__(module, fromlist=["_"])
        except ImportError:
            return None
        if getattr(parts, name, None) is not value or any([p.startswith("_") for p in module.split(".")]):
            return None
        return f"{self._module(parts)}.{name}"

    # -- functions

    def _primitive(self, primitive: Primitive) -> str:
        """An implementation that computes by another operation."""
        impl, where = self.text(primitive.impl, primitive.name), self.text(namespace_of)
        name = self._name(primitive.name, primitive)
        self.definitions.append(f"def {name}(*args, **params):\n    return {impl}({where}(args), *args, **params)")
        self.definitions.append(f"{name}.impl = {impl}")
        return name

    def _function(self, function: types.FunctionType, original: Any) -> str:
        if not is_internal(function.__code__.co_filename):
            raise self.refuse(f"the Python function {function.__qualname__}, which it calls back")
        node = _definition(function)
        if node is None:
            raise self.refuse(f"the function {function.__qualname__}")
        wanted = function.__name__ if function.__name__ != "<lambda>" else "function"
        name = self._name(wanted, original)
        self.names[id(function)] = name
        self.kept.append(function)
        free = dict(inspect.getclosurevars(function).nonlocals)
        node = self._standing_alone(node, dict(function.__globals__), free)
        if isinstance(node, ast.Lambda):
            self.definitions.append(f"{name} = {ast.unparse(node)}")
        else:
            node.name = name
            self.definitions.append(ast.unparse(ast.fix_missing_locations(node)))
        return name

    def _standing_alone(self, node: Any, values: dict[str, Any], free: dict[str, Any]) -> Any:
        """The definition with the texts of what its names stand for."""
        local = _bound_names(node)
        renamed: dict[str, str] = {}
        modules: dict[str, types.ModuleType] = {}
        for used in _loaded_names(node):
            if used in local and used not in free:
                continue
            if used in free:
                renamed[used] = self._closed_over(used, free[used])
            elif used in values and _is_ours(values[used]):
                modules[used] = values[used]
            elif used in values:
                renamed[used] = self.text(values[used], used)
            elif not hasattr(builtins, used):
                raise self.refuse(f"the name {used}")
        aliases: dict[str, str] = {}
        for used, text in renamed.items():
            if text == used:
                continue
            tree = ast.parse(text, mode="eval").body
            for name in _loaded_names(tree):
                if name in local and name not in aliases:  # a variable of the function's own, which would be taken for it
                    aliases[name] = self._alias(name, local)
            renamed[used] = ast.unparse(_Renamed(aliases).visit(tree))
        node = _Attributes(self, modules).visit(node)
        return _Renamed(renamed).visit(node)

    def _alias(self, name: str, local: set[str]) -> str:
        """Another name for what has this one in the module."""
        k = 2
        while (alias := f"{name}_{k}") in local or alias in self.taken:
            k += 1
        self.taken.add(alias)
        self.definitions.append(f"{alias} = {name}")
        return alias

    def _class(self, kind: type) -> str:
        module = sys.modules.get(kind.__module__)
        tree = _tree(module.__file__ or "") if module is not None and _is_ours(module) else None
        found = [n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == kind.__qualname__] if tree else []
        if not found or kind.__bases__ != (object,) or found[0].decorator_list:
            raise self.refuse(f"the class {kind.__qualname__}")
        name = self._name(kind.__name__, kind)
        node = self._standing_alone(_plain(ast.parse(ast.unparse(found[0])).body[0]), vars(module), {})
        node.name = name
        self.definitions.append(ast.unparse(ast.fix_missing_locations(node)))
        return name


def _is_ours(value: Any) -> bool:
    return isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "funcad"


class _Attributes(ast.NodeTransformer):
    """`module.name`, of one of funcad's modules, replaced by what it is."""

    def __init__(self, bundle: Bundle, modules: dict[str, types.ModuleType]):
        self.bundle = bundle
        self.modules = modules

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            value = getattr(self.modules[node.value.id], node.attr)
            return ast.parse(self.bundle.text(value, node.attr), mode="eval").body
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id in self.modules:
            raise self.bundle.refuse(f"the module {self.modules[node.id].__name__}")
        return node


class _Renamed(ast.NodeTransformer):
    """Global names replaced by expressions."""

    def __init__(self, texts: dict[str, str]):
        self.texts = {k: ast.parse(v, mode="eval").body for k, v in texts.items() if v != k}

    def visit_Name(self, node: ast.Name) -> Any:
        found = self.texts.get(node.id)
        return found if found is not None and isinstance(node.ctx, ast.Load) else node


def _bound_names(node: ast.AST) -> set[str]:
    """Names that the function or functions inside it bind."""
    found = set()
    for n in ast.walk(node):
        if isinstance(n, ast.arg):
            found.add(n.arg)
        elif isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            found.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n is not node:
            found.add(n.name)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0] for a in n.names}
        elif isinstance(n, ast.ExceptHandler) and n.name:
            found.add(n.name)
    return found


def _loaded_names(node: ast.AST) -> list[str]:
    found = [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    return list(dict.fromkeys(found))


_trees: dict[str, ast.Module | None] = {}


def _tree(filename: str) -> ast.Module | None:
    if filename not in _trees:
        try:
            with open(filename, encoding="utf8") as file:
                _trees[filename] = ast.parse(file.read())
        except (OSError, SyntaxError):
            _trees[filename] = None
    return _trees[filename]


def _definition(function: types.FunctionType) -> Any:
    """A copy of the function's definition, without annotations, decorators and docstring."""
    if function.__code__.co_filename == GENERATED:
        text = getattr(function, "text", None)
        return None if text is None else ast.parse(text).body[0]
    code = function.__code__
    tree = _tree(code.co_filename)
    if tree is None:
        return None
    names = tuple(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    candidates = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda) and code.co_name == "<lambda>" or isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *[d.lineno for d in getattr(node, "decorator_list", [])]])
            own = getattr(node, "name", "<lambda>") == code.co_name
            arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            if own and first == code.co_firstlineno and tuple(arguments) == names:
                candidates.append(node)
    if code.co_name == "<lambda>" and len(candidates) > 1:
        positions = {(line, column) for line, _, column, _ in code.co_positions() if line is not None and column is not None}
        candidates = [n for n in candidates if (n.body.lineno, n.body.col_offset) in positions]
    if not candidates:
        return None
    node = ast.parse(ast.unparse(candidates[0]), mode="exec").body[0]
    if isinstance(node, ast.Expr):
        return _plain(node.value)
    return _plain(node)


def _plain(node: Any) -> Any:
    for n in ast.walk(node):
        if isinstance(n, ast.arg):
            n.annotation = None
        if isinstance(n, ast.FunctionDef):
            n.returns = None
            n.decorator_list = []
            text = ast.get_docstring(n)
            if text is not None and len(n.body) > 1:
                n.body = n.body[1:]
    return _Unannotated().visit(node)


class _Unannotated(ast.NodeTransformer):
    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return None
        return ast.copy_location(ast.Assign([node.target], node.value), node)


def _number(value: Any) -> str:
    if is_a(value, (complex, np.complexfloating)):
        return f"complex({_number(value.real)}, {_number(value.imag)})"
    if np.isnan(value):
        return 'float("-nan")' if np.signbit(value) else 'float("nan")'
    return repr(value) if np.isfinite(value) else f'float("{value}")'


def _scalar(value: np.generic) -> str:
    """`np.float64(0.1)`; numbers longer than Python's by their digits."""
    kind, name = value.dtype.kind, value.dtype.name
    if kind == "c" and value.dtype.itemsize > 16:
        return f"np.array([{_scalar(value.real)}, {_scalar(value.imag)}]).view(np.clongdouble)[0]"
    if kind == "f" and value.dtype.itemsize > 8:
        return f"np.longdouble({str(value)!r})"
    return f"np.{'bool_' if name == 'bool' else name}({_number(value.item()) if kind in 'fc' else repr(value.item())})"


def packed_text(x: np.ndarray) -> str:
    """An array as compressed text."""
    text = base64.b85encode(zlib.compress(np.ascontiguousarray(x).tobytes(), 6)).decode("ascii")
    array = f"np.frombuffer(zlib.decompress(base64.b85decode({text!r})), np.dtype({x.dtype.str!r}))"
    return f"{array}.reshape({x.shape!r})"


def array_text(x: np.ndarray) -> str:
    """A small array as text that reads back bit by bit (but for the payload of NaN)."""
    if x.dtype.kind == "c":
        flat = ", ".join([_number(complex(v)) for v in x.ravel().tolist()])
    else:
        flat = ", ".join([_number(v) if x.dtype.kind == "f" else repr(v) for v in x.ravel().tolist()])
    text = f"np.array([{flat}], np.dtype({x.dtype.str!r}))"
    return text if x.ndim == 1 else f"{text}.reshape({x.shape!r})"
