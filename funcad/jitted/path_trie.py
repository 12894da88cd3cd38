"""The trie of paths: what is known of a jitted function whose Python decides by values.

Idea: a path joins the trie when its recording has ended, under the lock, or not at all: its last link is made last. What a call
goes along are `PathStep`s, nodes made ready to run, with the positions of all values in one growing list.

Invariants: steps, which running threads hold, never change but for further `next`. A segment gives the values that some other
segment reads; when it must give more than it did, all steps are made anew (`generation`), and threads on older ones come to
their end by recording. Trap: a variable's place in the list depends on the segments before it alone, which are the same for
all paths that have it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from funcad.configuration import config
from funcad.host.devices import on_device
from funcad.ir.jaxpr import Jaxpr, Literal, Var, equation_has_effects, has_batch_rule, stays
from funcad.jitted.account import EQUATION_BYTES, Account, most_bytes
from funcad.jitted.path_recording import ANSWERS, Recorder
from funcad.jitted.path_segments import Leaf, Node, Segments
from funcad.passes.together import APART
from funcad.tree.treedef import LEAF


class _NeverFast:
    """Of the interpreter's programs, which have no native builtin."""

    fast = None


_NEVER_FAST = _NeverFast()


class PathStep:
    """A node made ready to run, with all positions worked out."""

    __slots__ = ("node", "program", "native", "take", "extra", "single", "at", "key", "next", "leaf", "parent", "via", "outs")
    __slots__ += ("start", "size", "generation", "outputs", "alone", "consts")

    node: Node
    leaf: Leaf | None


def _taker(places: Sequence[int]) -> Callable[[list], Sequence[Any]]:
    if not places:
        return lambda values: ()
    if len(places) == 1:
        return itemgetter(slice(places[0], places[0] + 1))
    return itemgetter(*places)


class Trie:
    """The known paths of one signature."""

    __slots__ = ("inputs", "root", "lock", "segments", "has_effects", "has_batch_rules", "cuts", "written", "stores", "consts")
    __slots__ += ("on_device", "n_bytes", "full", "_home", "_read", "_places", "_steps", "first", "_generation", "engine")

    def __init__(self, fast_math: bool, account: Account):
        self.inputs: tuple[Var, ...] = ()
        self.root: Node | None = None
        self.lock = threading.RLock()
        self.segments = Segments({APART: True, "fast_math": True} if fast_math else {APART: True}, account)
        self.has_effects = self.has_batch_rules = False
        self.cuts = False  # does Python ask for numbers, which have no derivative?
        self.written: frozenset[int] = frozenset()  # leaves that some path writes
        self.stores = False  # does some path store in what was there before?
        self.consts: list[Any] = []
        self.on_device = False  # are some of them there?
        self.n_bytes = 0  # that the recordings take, roughly
        self.full = False  # is there no room for more?
        self._home: dict[Var, Node] = {}
        self._read: set[Var] = set()  # variables that are read outside their segment
        self._places: dict[Var, int] = {}  # of inputs and captured values
        self._steps: dict[Node, PathStep] = {}
        self.first: PathStep | None = None
        self._generation = 0
        self.engine = config.engine

    # -- paths join

    def keep(self, recorder: Recorder, end: Node) -> bool:
        """Let a path join the trie; was it known?"""
        with self.lock:
            if recorder.anew:
                self.forget()
            if not self.inputs:
                self.inputs = tuple(recorder.inputs or ())
                self._places.update([(v, i) for i, v in enumerate(self.inputs)])
            new: list[tuple[Node | None, Any, Node]] = []
            before: Node | None = None
            key: Any = None
            for node, next_key, _ in [*recorder.chain, (end, None, None)]:
                known = self.root if before is None else before.children.get(key)
                if known is not None and known is not node:
                    return True  # another thread came by meanwhile
                if known is None:
                    new.append((before, key, node))
                self.cuts = self.cuts or node.kind == "success" and next_key is not True  # the whole path would raise
                before, key = node, next_key
            n_bytes = EQUATION_BYTES * sum([1 + len(node.equations) for _, _, node in new])
            if self.n_bytes + n_bytes > most_bytes():
                self.full = True
                return False
            stale = False
            for before, _, node in new:
                node.parent = before
                stale = self._adopt(node) or stale
            for before, key, node in reversed(new):  # the first link, which makes all of them visible, comes last
                if before is None:
                    self.root = node
                else:
                    before.children[key] = node
            self.n_bytes += n_bytes
            if stale:
                self._renew()
            return not new

    def _adopt(self, node: Node) -> bool:
        """Note what a new node makes and reads; must an older one give more than it did?"""
        stale = False
        self._home.update(dict.fromkeys([v for e in node.equations for v in e.outputs], node))
        for v, value in node.consts:
            self._places[v] = len(self.inputs) + len(self.consts)
            self.consts.append(value)
            self.on_device = self.on_device or on_device([value])
            stale = self.first is not None
        for v in [*node.reads, *node.ends]:
            home = self._home.get(v)
            if home is not None and home is not node and v not in self._read:
                self._read.add(v)
                stale = stale or home in self._steps
        self.has_effects = self.has_effects or node.has_effects
        self.has_batch_rules = self.has_batch_rules or any(map(has_batch_rule, node.equations))
        self.cuts = self.cuts or node.kind in ("float", "complex", "item")
        if node.leaf is not None:
            self.written |= set(node.leaf.written)
            self.stores = self.stores or bool(node.leaf.stores)
        return stale

    def forget(self) -> None:
        self.root, self.consts, self.n_bytes, self.inputs = None, [], 0, ()
        self._home, self._read, self._places = {}, set(), {}
        self._renew()

    def _renew(self) -> None:
        self._generation += 1
        self.first = None
        self._steps = {}
        self.engine = config.engine

    def whole(self, node: Node) -> tuple[Jaxpr, list[Any]]:
        """The path that ends in this node as one program, and what it captured."""
        leaf: Any = node.leaf
        if leaf.whole is None:
            nodes = [node]
            while nodes[-1].parent is not None:
                nodes.append(nodes[-1].parent)
            nodes.reverse()
            consts = [c for n in nodes for c in n.consts]
            equations = tuple([e for n in nodes for e in n.equations])
            jaxpr = Jaxpr((*[v for v, _ in consts], *self.inputs), equations, tuple(leaf.outputs))
            jaxpr.memo.update(self.segments.memo)
            leaf.whole = jaxpr, [x for _, x in consts]
        found: tuple[Jaxpr, list[Any]] = leaf.whole
        return found

    @staticmethod
    def extent(node: Node) -> tuple[int, int]:
        """How many equations and questions there are on the way to the end of this node."""
        n, questions, at = len(node.equations), 0, node.parent
        while at is not None:
            n, questions, at = n + len(at.equations), questions + 1, at.parent
        return n, questions

    # -- steps

    def prepare(self) -> PathStep | None:
        with self.lock:
            if self.engine is not config.engine:
                self._renew()
            if self.first is None and self.root is not None:
                self.first = self._step(None, None, self.root)
            return self.first

    def following(self, step: PathStep, values: list[Any]) -> PathStep | None:
        """The next step of a run with these values, if it is known; None also if to ask raises."""
        try:
            return self.branch(step, step.key(values[step.at]))
        except (TypeError, ValueError, OverflowError):
            return None

    def branch(self, step: PathStep, key: Any) -> PathStep | None:
        """The next step after this answer, if it is known."""
        with self.lock:
            node = step.node.children.get(key)
            if node is None or step.generation != self._generation or node.leaf is not None and node.leaf.raises:
                return None
            if key not in step.next:
                step.next[key] = self._step(step, key, node)
            found: PathStep = step.next[key]
            return found

    def _step(self, parent: PathStep | None, via: Any, node: Node) -> PathStep:
        step = PathStep()
        step.node, step.parent, step.via, step.leaf, step.next = node, parent, via, node.leaf, {}
        step.generation = self._generation
        step.consts = tuple(self.consts) if parent is None else ()
        ends, read, acts = set(node.ends), self._read, node.has_effects
        step.outs = tuple(
            [v for e in node.equations for v in e.outputs if v in read or v in ends or acts and equation_has_effects(e)]
        )
        step.start = len(self.inputs) + len(self.consts) if parent is None else parent.start + parent.size
        step.size = len(step.outs)
        step.single = step.size == 1
        step.program, step.native, step.extra = None, _NEVER_FAST, ()
        step.take = _taker([self._place(v) for v in node.reads])
        if step.outs or any(map(stays, node.equations)):
            step.program, extra = self.segments.program(node, step.outs)
            step.extra = tuple(extra)
            if hasattr(step.program, "fast"):
                step.native = step.program
        self._steps[node] = step
        if node.leaf is None:
            step.at = self._place(node.guard)
            step.key = ANSWERS[node.kind][1]
        else:
            step.alone = -1
            step.outputs = [(-1, a.value) if type(a) is Literal else (self._place(a), None) for a in node.leaf.outputs]
            made = step.outputs[0][0] >= len(self.inputs) + len(self.consts) if node.leaf.out_tree is LEAF else False
            if made and not (node.leaf.written or node.leaf.stores or node.leaf.orders):
                step.alone = step.outputs[0][0]
        return step

    def _place(self, v: Var) -> int:
        """Where a value stands among those of a run."""
        place = self._places.get(v)
        if place is None:
            step = self._steps[self._home[v]]
            place = step.start + step.outs.index(v)
        return place
