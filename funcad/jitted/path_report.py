"""What a jitted function with guards tells of its paths: `explain`, `profile`, and why there is no one program to show.

Idea: a path is told by what Python asked, where, and the answer; a loop asks the same again and again, which is counted.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.errors import PathError
from funcad.ir.trace import any_tracer
from funcad.jitted.jit_cache import Entry
from funcad.jitted.path_segments import Leaf, Node
from funcad.tree.same import value_of
from funcad.unjitted.strides import Given

MOST_SHOWN = 20


class Condition(NamedTuple):
    """What Python asked at a line of the user's, how often in a row, and the answer."""

    source: Any
    kind: str  # "bool()", "int()", "an index", "float", ...
    answer: Any
    times: int

    def __str__(self) -> str:
        times = f", {self.times} times" if self.times > 1 else ""
        return f"{self.kind} is {self.answer!r}{times} at {self.source}"


class Path(NamedTuple):
    """One path: its conditions, in order, how often it was taken, and the name of the error if it raises one."""

    conditions: list[Condition]
    taken: int
    raises: str


def outside(entry: Entry) -> list[dict[str, str]]:
    """What the program reads beside its arguments and stores there: what, how, and the line."""
    found = entry.watched.listed() if entry.watched is not None else []
    return as_data([*found, *dict.fromkeys([(store.label, "stored", "") for store in entry.stores])])


def as_data(found: Sequence[tuple[str, str, str]]) -> list[dict[str, str]]:
    return [dict(zip(("what", "how", "line"), one)) for one in found]


class PathsExplanation:
    """The paths of a jitted function for one signature, those taken most often first: `.paths`, `.segments`; `.outside`."""

    def __init__(self, entry: Entry, name: str):
        trie = entry.paths.trie
        self.name = name
        with trie.lock:
            leaves = list(_leaves(trie.root))
            self.segments = len({trie.segments.number(node) for node in _nodes(trie.root)})
            self.paths = sorted([_path(node, leaf) for node, leaf in leaves], key=lambda path: -path.taken)
        self.recorded = entry.paths.unknown
        self.outside = outside(entry)
        self.cost: Any = None  # what jit has spent on the function

    def __str__(self) -> str:
        n = len(self.paths)
        lines = [f"jit of {self.name}: {n} path{'' if n == 1 else 's'} of {self.segments} different segments"]
        for i, path in enumerate(self.paths[:MOST_SHOWN]):
            end = f", raises {path.raises}" if path.raises else ""
            lines.append(f"path {i + 1}, taken {path.taken} time{'' if path.taken == 1 else 's'}{end}:")
            lines += [f"  {condition}" for condition in path.conditions]
        if n > MOST_SHOWN:
            lines.append(f"and {n - MOST_SHOWN} more")
        lines += importlib.import_module("funcad.backends.explain").outside_lines(self.outside)
        lines += [] if self.cost is None else str(self.cost).splitlines()
        return "\n".join(lines)

    __repr__ = __str__


class UnjittedExplanation:
    """Why the calls of a jitted function run un-jitted: `.reason`, with the line; what it read before that, `.outside`."""

    def __init__(self, name: str, reason: str, read: Sequence[tuple[str, str, str]]):
        self.name, self.reason, self.outside = name, reason, as_data(read)

    def __str__(self) -> str:
        lines = importlib.import_module("funcad.backends.explain").outside_lines(self.outside)
        return "\n".join([f"jit of {self.name} is not compiled, its calls run un-jitted: {self.reason}", *lines])

    __repr__ = __str__


def _nodes(root: Node | None) -> Iterator[Node]:
    todo = [] if root is None else [root]
    while todo:
        node = todo.pop()
        yield node
        todo += node.children.values()


def _leaves(root: Node | None) -> Iterator[tuple[Node, Leaf]]:
    return ((node, node.leaf) for node in _nodes(root) if node.leaf is not None)


def _path(node: Node, leaf: Leaf) -> Path:
    asked = []
    while node.parent is not None:
        before = node.parent
        key = next(key for key, child in before.children.items() if child is node)
        if before.kind == "indices":
            key = str(np.frombuffer(key, before.guard.aval.dtype).reshape(before.guard.aval.shape))
        asked.append((before.source, before.kind, key))
        node = before
    asked.reverse()
    conditions = [Condition(*what, len(list(group))) for what, group in itertools.groupby(asked)]
    return Path([c._replace(answer=_answer(c.answer)) for c in conditions], leaf.visits, leaf.raises)


def _answer(key: Any) -> Any:
    """The answer that a key stands for, or what was raised."""
    refused = type(key) is tuple and isinstance(key[0], type) and issubclass(key[0], Exception)
    return key[0](*key[1]) if refused else value_of(key)


def one_program(entry: Entry, what: str, name: str) -> Entry:
    """The entry, or an error if it holds paths."""
    if entry.paths is None:
        return entry
    found = PathsExplanation(entry, name)
    asked = next((f" ({path.conditions[0].source})" for path in found.paths if path.conditions), "")
    n = len(found.paths)
    raise PathError(
        f"{what} of jit of {name}: there is no one program, because its Python asks for values{asked}; {n} "
        f"path{' is' if n == 1 else 's are'} known, which explain(...) lists.\nRemedy: np.where, funcad.cond or "
        "funcad.while_loop in the place of `if` and `while` there, or static arguments."
    )


def path_taken(entry: Entry, leaves: Sequence[Any], name: str) -> Entry:
    """The path of these arguments as an entry of one program, to be looked at."""
    paths = entry.paths
    if paths is None:
        return entry
    end = None if any_tracer(leaves) or paths.trie.has_effects else paths.known_end(leaves)
    if end is None:
        raise PathError(
            f"profile of jit of {name}: the path of these arguments is not known yet, or has effects.\n"
            "Remedy: call it with them first; take the effects away."
        )
    jaxpr, consts = paths.trie.whole(end.node)
    found = Entry(jaxpr, consts, entry.in_tree, end.leaf.out_tree, Given(leaves))
    return found
