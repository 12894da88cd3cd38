"""`source` and `export`: a program as a module of its own, which needs NumPy but not funcad.

    source_of(jaxpr, consts=(), names=None, title="", device=False) -> str
        the module's text: `run(<arguments>, xp=numpy) -> list of outputs`. `consts` are the values of the program's leading
        inputs (captured arrays), written into the text; `names` name the other inputs (`argument_names` makes them).
    export_to(path, jaxpr, consts=(), names=None, title="") -> list of the files written
        the same as a file `path` (".py" is added if it is missing); constants that are too large for text lie beside it, in
        an .npz file of the same name, which the module loads when it is imported.

`device`: the module takes CuPy's arrays, and is written as the program runs on these.

Idea: the same emission as the NumPy engine's, with `xp.` for `np.`: lines, loops and tiles are the ones that run, so results
are equal bit for bit (with threads up to the order of sums over tiles, and `erf` up to SciPy's last bits). Above each run of
lines stands the line of the user's program that they come from; a value that the user's line names keeps that name. Operations
without text of their own bring their implementation along (below). Trap: what is called back (pure_callback) or has no text
raises NotImplementedError.
"""

from __future__ import annotations

import ast
import base64
import builtins
import functools
import inspect
import keyword
import linecache
import os
import re
import sys
import types
import zlib
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from funcad.backends.emission import Emission, lowered
from funcad.backends.memory import Storage, Value
from funcad.backends.py_loops import MAX_DEPTH, read_by_loops_alone
from funcad.backends.text import Line, Writer
from funcad.host.devices import namespace_of
from funcad.host.real_types import is_a
from funcad.host.where import GENERATED, file_label, is_internal
from funcad.ir.aval import Aval, Stack, StackAval, aval_of, dtype_of, shape_of
from funcad.ir.jaxpr import Jaxpr, Var, subjaxprs
from funcad.ir.primitive import Primitive
from funcad.memo import table
from funcad.primitives.families import Composed
from funcad.primitives.fused import fused_p
from funcad.primitives.host import HostCall
from funcad.primitives.python_numbers import NotTheSame
from funcad.show.pretty import shown_as

# -- implementations as source text: what an exported program needs of funcad's own functions
#
# Idea: the implementation of a primitive is an ordinary function over `xp`. Its definition is found in its file by the position
# of its code, the annotations are dropped, and the global names and closed-over values it uses are written in front of it in
# the same way: functions and classes by their source, NumPy's and Python's own by their names, plain values by their text.
# Invariant: the text names nothing of funcad; what cannot be written (thread state, an open file) raises NotImplementedError,
# which source.py puts into the user's words. Trap: two modules may use one name for different things, so names are given per
# object.


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
    "NotTheSame": "class {0}(ArithmeticError):\n    pass",
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
    for value in (shape_of, dtype_of, aval_of, namespace_of, NotTheSame, Stack, StackAval, Aval)
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
        if type(value) is Composed:
            value = value.function
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


_trees = table("backends.trees", "file name: its syntax tree, or None", same=None)


def _tree(filename: str) -> ast.Module | None:
    if filename not in _trees:
        try:
            with open(filename, encoding="utf8") as file:
                _trees[filename] = ast.parse(file.read())
        except (OSError, SyntaxError):
            _trees[filename] = None
    return _trees[filename]  # type: ignore[no-any-return]


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


# -- `source` and `export`


INLINE = 64  # elements of a constant that are written as numbers
_EITHER = "It needs NumPy only (and SciPy where the text imports it); with `xp=cupy` it takes CuPy arrays."
_DEVICE = "It needs CuPy, whose arrays it takes."
EMBEDDED = 4 * 1024 * 1024  # bytes of constants that `source_of` writes into the text
_RESERVED = {"xp", "np", "cp", "run", "_constants"}


def argument_names(paths: Sequence[str]) -> list[str]:
    """Identifiers for arguments, from texts such as `params['w'][0]`.

    >>> from funcad.backends.source import argument_names
    >>> argument_names(["x", "params['w'][0]", "x"])
    ['x', 'params_w_0', 'x_2']
    """
    found: list[str] = []
    for path in paths:
        name = re.sub(r"\W+", "_", path).strip("_") or "argument"
        if name[0].isdigit() or keyword.iskeyword(name) or name in _RESERVED or hasattr(builtins, name):
            name = f"{name}_" if not name[0].isdigit() else f"argument_{name}"
        chosen, k = name, 2
        while chosen in found:
            chosen, k = f"{name}_{k}", k + 1
        found.append(chosen)
    return found


def source_of(
    jaxpr: Jaxpr,
    consts: Sequence[Any] = (),
    names: Sequence[str] | None = None,
    title: str = "",
    traced: Jaxpr | None = None,
    device: bool = False,
) -> str:
    """The text of a module whose `run` computes what the program computes; see the module's text.

    `traced` is the program before the passes, if it went through some: it tells which values have the user's names.

    >>> import numpy as np, funcad
    >>> from funcad.backends.source import source_of
    >>> text = source_of(funcad.jit(lambda x: np.sin(x) * 2.0).lower(np.ones(3)).jaxpr, names=["x"])
    >>> module = {}
    >>> exec(text, module)
    >>> module["run"](np.zeros(2))
    [array([0., 0.])]
    """
    text, large = _module(jaxpr, consts, names, title, traced or jaxpr, device, beside=False)
    assert not large
    return text


def export_to(
    path: str | os.PathLike,
    jaxpr: Jaxpr,
    consts: Sequence[Any] = (),
    names: Sequence[str] | None = None,
    title: str = "",
    traced: Jaxpr | None = None,
    device: bool = False,
) -> list[str]:
    """Write the module of `source_of` to a file, large constants to an .npz file beside it; gives the paths written.

    >>> import numpy as np, funcad, os, tempfile
    >>> from funcad.backends.source import export_to
    >>> jaxpr = funcad.jit(lambda x: np.sin(x) * 2.0).lower(np.ones(3)).jaxpr
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [os.path.basename(p) for p in export_to(os.path.join(folder, "program"), jaxpr, names=["x"])]
    ['program.py']
    """
    path = os.fspath(path)
    if not path.endswith(".py"):
        path += ".py"
    text, large = _module(jaxpr, consts, names, title, traced or jaxpr, device, beside=True)
    written = [path]
    if large:
        np.savez(path[:-3] + ".npz", **large)  # type: ignore[arg-type]
        written.append(path[:-3] + ".npz")
    with open(path, "w", encoding="utf8") as file:
        file.write(text)
    return written


def _module(
    jaxpr: Jaxpr, consts: Sequence[Any], names: Sequence[str] | None, title: str, traced: Jaxpr, device: bool, beside: bool
) -> tuple[str, dict[str, np.ndarray]]:
    n = len(consts)
    given = list(names) if names is not None else [f"x{i}" for i in range(len(jaxpr.inputs) - n)]
    if len(given) != len(jaxpr.inputs) - n:
        raise TypeError(f"source_of: {len(jaxpr.inputs) - n} arguments have {len(given)} names")
    w = Writer(np_name="xp", device=device)
    for name in (*_RESERVED, *keyword.kwlist, *dir(builtins), "functools", "operator", "math", "os"):
        w.scope[name] = None  # not to be given to a value
    given = [w.reserve(name) for name in argument_names(given)]
    e = Emission(w, names=_user_names(jaxpr, traced))
    e.lists = read_by_loops_alone(jaxpr)
    captured = [w.reserve(f"constant{i}") for i in range(n)]
    placed = [_placed(name, x, e.lists) for name, x in zip(captured, consts)]
    local = [name if text is None else w.reserve(f"c{i}") for i, (name, text) in enumerate(zip(captured, placed))]
    for name, constant, text in zip(local, captured, placed):
        if text is not None:
            w.line(f"{name} = {text}")
        e.counts[constant] += 1
    inputs = [e.value(name, v.aval, [Storage(False)]) for name, v in zip([*local, *given], jaxpr.inputs)]
    outputs = e.program(jaxpr, inputs)
    w.equation = None
    w.line(f"return [{', '.join(map(_result, outputs))}]")

    bundle = Bundle({*w.scope, *_RESERVED, *w._taken} - set(dir(builtins)), e.lists)
    for name, value in [*w.scope.items(), *zip(captured, consts)]:
        if value is Stack or type(value) in (Stack, StackAval):
            bundle.define(name, value)
    callees = [f"    {name} = {_callee(bundle, *called)}" for name, called in w.callees.items()]
    definitions, large = _constants(captured, consts, beside)
    for name, value in w.scope.items():
        if name in w.spelled:
            definitions.append(f"{name} = {w.spelled[name]}")
        elif value is not None and name not in w.callees and not (value is Stack or type(value) is StackAval):
            definitions.append(f"{name} = {bundle.text(value, name)}")
    body: list[Line] = []
    for block in w.functions:
        body += [Line(line.depth + 1, line.text, line.equation) for line in block.lines()]
    lines = _commented([*body, *w.top.lines()])
    arguments = ", ".join([*given, "xp=cp" if device else "xp=np"])
    embedded = [d for d in definitions if "frombuffer(" in d]
    written = [d for d in definitions if "frombuffer(" not in d]
    described = f" of {title}" if title else ""
    count = f"{len(outputs)} result" + "s" * (len(outputs) != 1)
    parts = [
        f'"""Written by funcad{described}: `run({", ".join(given)})` gives the list of its {count}.\n\n'
        f"{_DEVICE if device else _EITHER}\n\"\"\"\n",
        *_imports(bundle, large, definitions),
        *(["import cupy as cp"] if device else []),
        "import numpy as np",
        *(["", *_loader(large)] if large else []),
        *(["", *written] if written else []),
        *[f"\n\n{d}" if d.startswith("def ") else d for d in bundle.definitions],
        f"\n\ndef run({arguments}):",
        *callees,
        *lines,
        *(["\n", *embedded] if embedded else []),
    ]
    return "\n".join(parts) + "\n", large


def _placed(name: str, value: Any, lists: bool) -> str | None:
    """The text that moves a captured value to the device; None: it need not be moved."""
    if type(value) is Stack:
        entries = f"[xp.asarray(v) for v in {name}]"
        if not value or not value.aval.element.shape:
            return None
        return entries if lists else f"type({name})({entries}, {name}.aval)"
    return f"xp.asarray({name})" if is_a(value, np.ndarray) and value.shape else None


def _result(value: Value) -> str:
    """An output's text: what may be a 0-d array that was handed through becomes a scalar, as jit's results are."""
    handed = bool(value.storages) and isinstance(value.aval, Aval) and not value.aval.shape and not value.aval.weak
    return f"xp.asarray({value.text})[()]" if handed else value.text


def _imports(bundle: Bundle, large: dict, definitions: list[str]) -> list[str]:
    found = set(bundle.imports)
    if large:
        found.add("import os")
    if any(["frombuffer(" in d for d in definitions]):
        found |= {"import base64", "import zlib"}
    return [*sorted(found), *([""] if found else [])]


def _loader(large: dict) -> list[str]:
    lines = ['_constants = np.load(os.path.splitext(os.path.abspath(__file__))[0] + ".npz")']
    return [*lines, *[f'{name} = _constants["{name}"]' for name in large]]


def _constants(names: list[str], consts: Sequence[Any], beside: bool) -> tuple[list[str], dict[str, np.ndarray]]:
    """Definitions of the captured arrays, and those that go into a file."""
    definitions, large, total = [], {}, 0
    for name, value in zip(names, consts):
        if type(value) is Stack:
            continue  # the bundle has defined it
        if not is_a(value, np.ndarray):
            definitions.append(f"{name} = {Bundle(set()).text(value, name)}")
        elif value.size <= INLINE:
            definitions.append(f"{name} = {array_text(value)}")
        elif beside:
            large[name] = value
        else:
            total += value.nbytes
            if total > EMBEDDED:
                raise ValueError(
                    f"source: the function captures more than {EMBEDDED} bytes of arrays ({name} has shape {value.shape}).\n"
                    "Remedy: pass them as arguments, or use export, which writes them into a file beside the module."
                )
            definitions.append(f"{name} = {packed_text(value)}")
    return definitions, large


def _callee(bundle: Bundle, equation: Any, rule: str) -> str:
    """The implementation of an operation, `impl` or `over`, for this equation's parameters."""
    primitive = equation.primitive
    try:
        name = bundle.text(getattr(primitive, rule), f"{primitive.name}_{rule}")
        params = [f"{key}={bundle.text(value, key)}" for key, value in equation.params.items()]
    except NotImplementedError:
        raise _refusal(equation) from None
    return f"lambda *args: {', '.join([f'{name}(xp, *args', *params])})"


def _refusal(equation: Any) -> NotImplementedError:
    """Why the operation cannot be exported, in the words of the user's program."""
    name, source = shown_as(equation), equation.source
    called = {"debug_callback": "a function of funcad.debug"}.get(name, name)
    where = f" at {source}" if source is not None else ""
    if any([type(value) is HostCall for value in equation.params.values()]):
        return NotImplementedError(
            f"source: this program calls back into Python ({called}{where}), so it cannot run without funcad.\n"
            "Remedy: leave the call out of the exported function: return what it was to get, and call it with the result; "
            "or run the function with funcad."
        )
    if equation.primitive.name in ("loop", "cond"):
        return NotImplementedError(
            f"source: {name}{where} is inside {MAX_DEPTH} or more loops and branches, too deep for Python's own.\n"
            "Remedy: make one of the loops around it a vmap or a longer loop, or run the function with funcad."
        )
    return NotImplementedError(
        f"source: {name}{where} needs parts of funcad that cannot be written out, so it cannot run without funcad.\n"
        "Remedy: compute it before and give the exported function the result as an argument, or run the function with funcad."
    )


# ---------------------------------------------------------------- the user's names and lines


def _place(equation: Any) -> tuple[str, int] | None:
    source = None if equation is None else equation.source
    return None if source is None else (source.code.co_filename, source.line)


def _commented(lines: list[Line]) -> list[str]:
    """The lines, below comments that say which of the user's lines they come from."""
    result, last = [], None
    for line in lines:
        place = _place(line.equation)
        if place is not None and place != last:
            last = place
            filename, number = place
            written = linecache.getline(filename, number).strip()
            where = f"{os.path.basename(file_label(filename))}:{number}"
            result.append(f"{'    ' * line.depth}# {where}{': ' + written if written else ''}")
        result.append("    " * line.depth + line.text)
    return result


def _user_names(jaxpr: Jaxpr, traced: Jaxpr) -> dict[Var, str]:
    """Names that the user's lines give to values: of each line that assigns to one name, its last equation's result.

    `traced`, the program before the passes, tells shape and dtype of what a line assigns. What a gradient computes for a line
    is something else; it comes after later lines of the same function.
    """
    assigned = _assigned_avals(traced)
    found: dict[tuple[str, int], Var] = {}
    equations = list(_in_order(jaxpr))
    reached: dict[CodeType, int] = {}  # the last line of each function so far
    done: set[tuple[str, int]] = set()
    for equation, following in zip(equations, [*equations[1:], None]):
        place = _place(equation)
        if place is None or place[1] < reached.get(equation.source.code, 0):
            continue
        reached[equation.source.code] = place[1]
        (var, *others) = equation.outputs or (None,)
        if place not in done and not others and var is not None and _kind(var) == assigned.get(place):
            found[place] = var
        if place in found and place != _place(following):
            done.add(place)
    names = {v: _assigned(linecache.getline(*place)) for place, v in found.items()}
    return {v: name for v, name in names.items() if name is not None}


def _kind(var: Var) -> tuple | None:
    aval = var.aval
    return (aval.shape, aval.dtype) if isinstance(aval, Aval) else None


def _assigned_avals(traced: Jaxpr) -> dict[tuple[str, int], Any]:
    """Shape and dtype of the value that each line of the user's ends with when it runs for the first time."""
    found: dict[tuple[str, int], Any] = {}
    done: set[tuple[str, int]] = set()
    last = None
    for equation in traced.equations:
        place = _place(equation)
        if place != last and last is not None:
            done.add(last)
        if place is not None and place not in done and equation.outputs:
            found[place] = _kind(equation.outputs[0])
        last = place
    for equation in traced.equations:
        for inner in subjaxprs(equation.params):
            found = {**_assigned_avals(inner), **found}
    return found


def _in_order(jaxpr: Jaxpr) -> Iterator[Any]:
    """The equations as they are written, those of groups in the place of the group."""
    for equation in lowered(jaxpr):
        if equation.primitive is fused_p:
            yield from _in_order(equation.params["jaxpr"])
        else:
            yield equation


def _assigned(line: str) -> str | None:
    """The name that a line assigns to, if it is one assignment to one name."""
    try:
        body = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    if len(body) == 1 and isinstance(body[0], ast.Assign) and len(body[0].targets) == 1:
        target = body[0].targets[0]
        if isinstance(target, ast.Name) and not hasattr(builtins, target.id) and target.id not in _RESERVED:
            return target.id
    return None
