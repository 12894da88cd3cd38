"""A jitted function's call written out for one signature, so that a warm call does little besides running its program.

Idea: once a signature is seen to come again, `specialised_call` writes a Python function that knows it: it compares the types,
dtypes and shapes of the leaves where they lie in the arguments, hands them to the program, and puts the outputs into their
structure. Nothing is flattened, hashed or looked up. Where the compiled program offers `fast`, a builtin which makes those
comparisons itself, only the structure is compared here. Names that stand for what is a library's are compared as Python reads
them: the namespace of f's module stands behind the call's own, where Python's names are else.

Invariants: a call that does not fit in every respect goes to `following`, another written call or in the end the general way,
which decides anew; so the comparisons may refuse too much, and never too little. A thread that traces, or is in a context such
as `debug_nans` or `default_device`, keeps `open_traces` from being empty: then nobody takes the short way. Results that may
share memory with arguments, captured arrays or each other are found by looking at them and go through `unshared`.

`program.fast(*inputs)`, if it is not None: `inputs` are those of the jaxpr, captured arrays first. It returns what
`program.run` would (the value itself if there is one output, else a tuple), or NotImplemented if a type, dtype, rank, shape or
layout is another than it was compiled for. Ints beyond int64 count as such.
"""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Sequence
from keyword import iskeyword
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from funcad.api.border import sees_order, unshared
from funcad.configuration import config
from funcad.host.where import interrupted, open_traces
from funcad.ir.aval import SCALAR_AVALS
from funcad.jitted.jit_cache import MAX_PROGRAMS, Entry
from funcad.memo import remembers
from funcad.reads.places import Place
from funcad.reads.stores import lock, write_back
from funcad.tree.containers import DICT, LIST, NAMED_TUPLE, NONE, OBJECT, STATIC, TUPLE
from funcad.tree.same import Weakly, are_strings, itself, same, same_key, weakly
from funcad.tree.treedef import LEAF

# what a written call uses of Python's own; it finds the names of the function's module where others find these
_OURS: dict[str, Any] = {x.__name__: x for x in (type, len, tuple, list, dict, int, str, set, getattr)}
_OURS |= {"NotImplemented": NotImplemented, "Exception": Exception, "BaseException": BaseException}
_TAKEN = frozenset([*_OURS, "error", "stop"])
_MISSING: Any = object()
_FILE = f"{__file__}<call>"  # in tracebacks, as a frame of ours around the program's


class _Unsuited(Exception):
    """This signature takes the general way."""


def static_key(x: Any) -> Any:
    """The key of a static argument, of which programs hold no object that is told by identity."""
    return same_key(x, known=weakly)


def specialised_call(
    entry: Entry, args: tuple, kwargs: dict, is_static: Callable[[Any], bool], program: Any, tick: Any, f: Any, knows_self: bool
) -> Any:
    """A function for calls like `f(*args, **kwargs)`, or None if their kind is not provided for.

    `is_static` tells of a position or a keyword whether its argument is static; the first one is told by identity if the call
    `knows_self`. Three of the function's globals are to be set:
    `_next_call`, where calls go that do not fit, `_failed`, where a call goes whose program raises, with the error before its
    arguments, and `_upgrade`, which is called when the program has got a `fast`.
    """
    writer = _Writer(entry, program, f, knows_self)
    try:
        text = writer.text(args, kwargs, is_static)
    except _Unsuited:
        return None
    scope = writer.scope
    scope.update(_OURS, _tick=tick, _program=program)
    scope["__builtins__"] = builtins if writer.table is None else writer.table
    exec(_compiled(text), scope)
    scope["__builtins__"] = builtins  # of C code that imports
    return scope.pop("_call")  # out of its own globals: the program and what it captured die with the function


@remembers(512)
def _compiled(text: str) -> CodeType:
    """Signatures of one kind have one text: what differs is in the scope."""
    return compile(text, _FILE, "exec")


def _again(following: Any, args: tuple, rest: tuple, named: dict, kwargs: dict) -> Any:
    """The call as it came in, handed on."""
    given = [a for a in args if a is not _MISSING]
    return following(*given, *rest, **{k: v for k, v in named.items() if v is not _MISSING}, **kwargs)


def _is_name(keyword: str) -> bool:
    """Can it be a parameter of the written function?"""
    return keyword.isidentifier() and not iskeyword(keyword) and keyword[0] != "_" and keyword not in _TAKEN


def _clash(outputs: tuple, inputs: tuple) -> bool:
    """Is an output one of the inputs, or another output?"""
    seen = set(map(id, inputs))
    n = len(seen)
    seen.update(map(id, outputs))
    return len(seen) < n + len(outputs)


class _Writer:
    """The text of one call and the scope that it runs in."""

    def __init__(self, entry: Entry, program: Any, f: Any, knows_self: bool):
        self.entry = entry
        self.knows_self = knows_self
        self.ordered = sees_order(f)
        self.fast = getattr(program, "fast", None) if not entry.asked else None  # which compares no strides
        self.may_get_fast = self.fast is None and hasattr(program, "fast") and not entry.asked and entry.paths is None
        self.asked = dict(zip(entry.asked, entry.answers.strides if entry.answers else ()))
        self.numbers = entry.answers is not None and entry.answers.numbers is not None
        self.count = 0  # of leaves
        self.scope: dict[str, Any] = {
            "_M": _MISSING,
            "_nd": np.ndarray,
            "_open": open_traces,
            "_settings": vars(config),
            "_engine": config.engine,
            "_again": _again,
            "_same": same,
            "_static_key": static_key,
            "_clash": _clash,
            "_export": functools.partial(unshared, orders=entry.orders) if entry.orders else unshared,
            "_partial": functools.partial,
            "_interrupted": interrupted,
            "_fast": self.fast,
            "_consume": program.consume,
        }
        self.stores = entry.stores if entry.paths is None else ()  # a program of paths stores by itself
        if self.stores:
            self.scope.update(_lock=lock, _store=write_back, _stores=self.stores, _f=f)
        self.structure: list[str] = []  # comparisons of containers and statics
        if entry.code is not None:
            self.scope.update(_code=entry.code, _f=f)
            self.structure.append("_f.__code__ is _code")
        self.names, rest = entry.watched.apart(f) if entry.watched is not None else ([], None)
        tables = {id(table): table for w, table in self.names if w.step == "item"}
        self.table = max(tables.values(), key=lambda t: sum([t is of for _, of in self.names]), default=None)
        if rest is not None:
            self.scope.update(_holds=rest.holds, _f=f)
            self.structure.append("(_p := _holds(_f))")
        self.leaves: list[str] = []  # comparisons of leaves
        self.inputs: list[str] = []  # names of the program's inputs
        self.arrays: list[tuple[str, Any]] = []  # (name, (shape, dtype)) of those that are arrays
        self.constants: dict[Any, str] = {}  # their names in the scope
        self.parts = 0  # of containers, which have names too

    def constant(self, value: Any, key: Any = None) -> str:
        key = id(value) if key is None else key
        name = self.constants.get(key)
        if name is None:
            name = self.constants[key] = f"_k{len(self.constants)}"
            self.scope[name] = value
        return name

    def text(self, args: tuple, kwargs: dict, is_static: Callable[[Any], bool]) -> str:
        n = self.entry.watched.inputs if self.entry.watched is not None else 0
        self.inputs += [f"_p[{i}]" for i in range(n)]
        handed = n
        for i, x in enumerate(self.entry.consts[n:], n):
            if type(x) is not np.ndarray and type(x) not in SCALAR_AVALS:
                raise _Unsuited
            if self.entry.weak and self.entry.weak[i]:
                self.inputs.append(f"_p[{handed}]")
                handed += 1
            else:
                self.inputs.append(self.constant(x))
            if type(x) is np.ndarray:
                if not x.dtype.isnative:
                    raise _Unsuited
                self.arrays.append((self.inputs[-1], (x.shape, x.dtype)))
                self.leaves.append(f"{self.inputs[-1]}.shape == {self.constant(x.shape, ('shape', x.shape))}")
        together = self.ordered and len(kwargs) > 1  # the keywords, as their order counts
        if not all(map(_is_name, kwargs)) or together and any(map(is_static, kwargs)):
            raise _Unsuited
        for i, a in enumerate(args):
            if self.knows_self and not i:
                key = itself(a)
                self.structure.append(f"_a0 is {self.constant(key.ref) + '()' if type(key) is Weakly else self.constant(a)}")
            elif is_static(i):
                self.static(f"_a{i}", a)
        for name, a in kwargs.items():
            if is_static(name):
                self.static(name, a)
        positions = [f"_a{i}" for i in range(len(args)) if not is_static(i)]
        tree_args, tree_kwargs = self.entry.in_tree._children
        for name, part in zip(positions, tree_args._children):
            self.compare(name, part, args[int(name[2:])])
        if together:
            self.compare("_kw", tree_kwargs, kwargs)
        else:
            for key, part in zip(tree_kwargs._meta, tree_kwargs._children):
                self.compare(key, part, kwargs[key])
        return self.function([f"_a{i}" for i in range(len(args))], list(kwargs), together)

    def static(self, name: str, value: Any) -> None:
        """Comparisons of a static value: as exact as those of the cache's keys."""
        kind = type(value)
        if kind is int or kind is str:
            self.structure.append(f"type({name}) is {kind.__name__} and {name} == {self.constant(value)}")
        elif kind is tuple:
            self.structure.append(f"type({name}) is tuple and len({name}) == {len(value)}")
            for i, item in enumerate(value):
                self.static(self.part(f"{name}[{i}]"), item)
        elif value is None or kind is bool:
            self.structure.append(f"{name} is {self.constant(value)}")
        elif type(key := weakly(value)) is Weakly:
            self.structure.append(f"{name} is not None and {name} is {self.constant(key.ref)}()")
        else:
            key = static_key(value)
            self.structure.append(f"type({name}) is {self.constant(kind)} and _static_key({name}) == {self.constant(key)}")

    def compare(self, name: str, part: Any, value: Any) -> None:
        """Comparisons of an argument, or of a part of one, in the order of the leaves."""
        if part is LEAF:
            self.leaf(name, value)
            return
        kind, children = part._kind, part._children
        if kind is NONE:
            self.structure.append(f"{name} is None")
            return
        if kind is DICT:
            keys = tuple(value)
            self.structure.append(f"type({name}) is dict and len({name}) == {len(keys)}")
            if keys:  # they are nearly always the same objects; and in this order, which counts
                first, *others = [f"[{i}] is {self.constant(key)}" for i, key in enumerate(keys)]
                alike = " and ".join([f"(_keys := [*{name}]){first}", *[f"_keys{other}" for other in others]])
                if self.entry.ordered or self.entry.paths is not None:  # which give f these keys
                    self.structure.append(f"({alike} or _same((*_keys,), {self.constant(keys)}))")
                else:
                    self.structure.append(f"({alike} or _same({{*_keys}}, {self.constant({*keys})}))")
            for key, child in zip(part._meta, children):
                item = f"{name}[{self.constant(key)}]"
                is_number = child is LEAF and type(value[key]) in SCALAR_AVALS  # read once
                self.compare(item if is_number else self.part(item), child, value[key])
            return
        elif kind is STATIC:
            if type(value) in (str, int):
                return self.static(name, value)
            if type(value) is set:  # the same one may have other items by then
                raise _Unsuited
            self.structure.append(f"{name} is {self.constant(value)}")
            return
        elif kind is OBJECT:
            return self.attributes(name, part, value)
        elif kind in (TUPLE, LIST, NAMED_TUPLE):
            steps = [f"{name}[{i}]" for i in range(len(children))]
            items = list(value)
        else:
            raise _Unsuited
        own = self.constant(type(value)) if kind is NAMED_TUPLE else kind.cls.__name__
        self.structure.append(f"type({name}) is {own} and len({name}) == {len(children)}")
        for step, child, item in zip(steps, children, items):
            self.compare(self.part(step), child, item)

    def attributes(self, name: str, part: Any, value: Any) -> None:
        """Comparisons of an object that needs no registration."""
        cls, names = part._meta
        self.structure.append(f"type({name}) is {self.constant(cls)}")
        held = getattr(value, "__dict__", None)
        if held is None:
            steps = [f"getattr({name}, {field!r}, _M)" for field in names]
        else:
            if held.keys() != set(names):
                raise _Unsuited
            inside = self.part(f"{name}.__dict__")
            self.structure.append(f"len({inside}) == {len(names)}")
            steps = [f"{inside}.get({field!r}, _M)" for field in names]
        items = held or {field: object.__getattribute__(value, field) for field in names}
        for step, child, field in zip(steps, part._children, names):
            self.compare(self.part(step), child, items[field])

    def part(self, step: str) -> str:
        """A name for a part of a container."""
        name = f"_x{self.parts}"
        self.parts += 1
        self.structure.append(f"({name} := {step}) is not _M")
        return name

    def leaf(self, name: str, x: Any) -> None:
        kind = type(x)
        strides = self.asked.get(self.count)
        self.count += 1
        self.inputs.append(name)
        if self.numbers and (kind is np.ndarray and not x.ndim or issubclass(kind, np.generic)):
            self.structure.append(f"type({name}) is {self.constant(kind)}")  # which a program's `fast` need not compare
        if kind is np.ndarray:
            if x.dtype.isbuiltin != 1:
                raise _Unsuited
            shape, dtype = self.constant(x.shape, ("shape", x.shape)), self.constant(x.dtype)
            self.arrays.append((name, (x.shape, x.dtype)))
            same_dtype = f"({name}.dtype is {dtype} or {name}.dtype == {dtype})"  # unpickled arrays have dtypes of their own
            self.leaves.append(f"type({name}) is _nd and {name}.shape == {shape} and {same_dtype}")
            if strides is not None:
                self.leaves.append(f"{name}.strides == {self.constant(strides, ('strides', strides))}")
        elif kind is int:
            self.leaves.append(f"type({name}) is int and {-(2**63)} <= {name} < {2**63}")
        elif kind in SCALAR_AVALS:
            self.leaves.append(f"type({name}) is {self.constant(kind)}")
        else:
            raise _Unsuited

    def function(self, positions: list[str], keywords: list[str], together: bool) -> str:
        keywords = [] if together else keywords
        parameters = "".join([f"{p}=_M, " for p in positions]) + "/, " * bool(positions) + "*_rest, "
        parameters += "".join([f"{k}=_M, " for k in keywords]) + "**_kw"
        inputs = ", ".join(self.inputs)
        lines = [
            f"def _call({parameters}):",
            f"    if not (_rest or {'' if together else '_kw or '}_open or _settings['engine'] is not _engine):",
            "        try:",
        ]
        self.structure[:0] = [self.named(w, table, keywords) for w, table in self.names]
        indent = " " * 12
        if self.stores:  # no other thread may store meanwhile
            lines.append(f"{indent}with _lock:")
            indent += "    "
        result, outputs, checks = self.results()
        n = len(self.entry.jaxpr.outputs)
        copied = []
        if checks:
            copied = [f"if {' or '.join(checks)}:", f"    {outputs}{',' if n == 1 else ''} = _export([{outputs}], [{inputs}])"]
        if self.stores:
            first = n - sum([store.count for store in self.stores])
            names, leaves = outputs.split(", ")[first:], self.inputs[len(self.entry.consts) :]
            copied.append(f"_store(_stores, _f, [{', '.join(names)}], [{', '.join(leaves)}], None, '')")
        if self.fast is not None and n:
            deeper = indent
            if self.structure:
                lines.append(f"{indent}if {' and '.join(self.structure)}:")
                deeper += "    "
            lines.append(f"{deeper}_r = _fast({inputs})")
            lines.append(f"{deeper}if _r is not NotImplemented:")
            lines += [f"{deeper}    {line}" for line in ("_tick()", f"{outputs} = _r", *copied, f"return {result}")]
        conditions = " and ".join([*self.structure, *self.leaves]) or "True"
        lines.append(f"{indent}if {conditions}:")
        body = ["_tick()"]
        if self.may_get_fast:
            body.append("if _program.fast is not None: _upgrade()")
        body.append(f"{outputs}{',' if n == 1 else ''} = _consume([{inputs}])" if n else f"_consume([{inputs}])")
        lines += [indent + "    " + line for line in [*body, *copied, f"return {result}"]]
        named = ", ".join([f"{k!r}: {k}" for k in keywords])
        given = f"({''.join([p + ', ' for p in positions])}), _rest, {{{named}}}, _kw"
        all_given = " and ".join(["not (_rest or _kw)", *[f"{name} is not _M" for name in (*positions[-1:], *keywords)]])
        as_given = ", ".join([*positions, *[f"{k}={k}" for k in keywords]])
        lines += ["        except Exception as error:", "            _next = _partial(_failed, error)"]
        lines += ["        except BaseException as stop:", "            raise _interrupted(stop)"]
        lines += ["        else:", "            _next = _next_call", "    else:", "        _next = _next_call"]
        lines += ["    try:", f"        return _next({as_given}) if {all_given} else _again(_next, {given})"]
        lines += ["    finally:", "        del _next  # it may hold an error, whose traceback holds this frame"]
        return "\n".join(lines)

    def named(self, w: Place, table: Any, keywords: list[str]) -> str:
        """The comparison of a name with what it stood for; it raises where that is deleted."""
        if w.step == "has":
            return f"{w.key!r} not in {self.constant(table)}"
        if w.step == "cell":
            return f"{self.constant(table[w.key])}.cell_contents is {self.constant(w.known)}"
        is_name = table is self.table and _is_name(w.key) and w.key not in (*_OURS, *keywords)
        return f"{w.key if is_name else f'{self.constant(table)}[{w.key!r}]'} is {self.constant(w.known)}"

    def results(self) -> tuple[str, str, list[str]]:
        """The expression of the result, the outputs' names, and how to see that one of them needs `own_memory`."""
        if self.entry.paths is not None:  # a result of its own structure, which shares memory with nothing
            return "_o0", "_o0", []
        avals = self.entry.jaxpr.out_avals
        names = [f"_o{i}" for i in range(len(avals))]
        checks = []
        groups: dict[Any, list[str]] = {}
        orders = dict(self.entry.orders)
        for i, (name, aval) in enumerate(zip(names, avals)):
            if not aval.shape:
                checks.append(f"type({name}) is _nd")
            else:
                axes = orders.get(i)
                lies = "writeable" if axes is None else "carray" if axes == tuple(range(len(axes))) else "farray"
                checks.append(f"{name}.base is not None or not {name}.flags.{lies}")
                groups.setdefault((aval.shape, aval.dtype), []).append(name)
        for key, outputs in groups.items():
            inputs = [name for name, of in self.arrays if of == key]
            if len(outputs) * (len(outputs) + 2 * len(inputs)) > 16:
                checks.append(f"_clash(({', '.join(outputs)},), ({''.join([i + ', ' for i in inputs])}))")
                continue
            for i, o in enumerate(outputs):
                checks += [f"{o} is {other}" for other in [*inputs, *outputs[:i]]]
        return self.expression(self.entry.out_tree, iter(names)), ", ".join(names), checks

    def expression(self, part: Any, names: Any) -> str:
        """The output's structure as an expression of its leaves."""
        if part is LEAF:
            return str(next(names))
        kind = part._kind
        inner: Sequence[str] = [self.expression(child, names) for child in part._children]
        if kind is NONE:
            return "None"
        if kind is TUPLE:
            return f"({''.join([i + ', ' for i in inner])})"
        if kind is LIST:
            return f"[{', '.join(inner)}]"
        if kind is DICT and are_strings(map(type, part._meta)):
            items = [f"{key!r}: {i}" for key, i in zip(part._meta, inner)]
            return "{" + ", ".join(items if part._order is None else [items[i] for i in part._order]) + "}"
        return f"{self.constant(part.close, ('close', id(part)))}(({''.join([i + ', ' for i in inner])}))"


_MOST_ALIKE = 4  # written calls whose arguments look alike, most recent first
_nd = np.ndarray


def looks(args: tuple) -> tuple:
    """What arguments by position look like at a glance: shapes of arrays, types of other things."""
    return tuple([x.shape if type(x) is _nd else type(x) for x in args])


def linked(calls: Sequence[tuple[Any, tuple]], otherwise: Any) -> Any:
    """What a jitted function calls: the written calls, each with what its arguments look like, else the general way.

    One after another is asked of those that look alike. Where there are several looks, they are a table.
    """
    alike: dict[tuple, list[Any]] = {}
    for call, look in calls[:MAX_PROGRAMS]:
        alike.setdefault(look, []).append(call)
    table = {}
    for look, some in alike.items():
        table[look] = otherwise
        for call in reversed(some[:_MOST_ALIKE]):
            call.__globals__.update(_next_call=table[look], _look=look)
            table[look] = call
    if len(table) < 2:
        return table.popitem()[1] if table else otherwise
    get = table.get

    def call_of_look(*args: Any, **kwargs: Any) -> Any:
        return get(tuple([x.shape if type(x) is _nd else type(x) for x in args]), otherwise)(*args, **kwargs)

    call_of_look.table = table  # type: ignore[attr-defined]
    return call_of_look


def written_calls(owner: Any, without: Entry | None) -> list[tuple[Any, tuple]]:
    """The written calls of a jitted function, of those that look alike the latest first, except those of one entry."""
    calls = []
    for call in getattr(owner.__call__, "table", {None: owner.__call__}).values():
        while type(call) is FunctionType:
            scope = call.__globals__
            if scope["_entry"] is not without:
                calls.append((call, scope["_look"]))
            call = scope["_next_call"]
    return calls
