"""Which memory a value lives in, and when it may be written again.

Idea: every value of a program being written out knows the blocks of memory (`Storage`) that it may share, and every block
knows the values that may see it. A block that the program itself allocated may be overwritten by an operation exactly when all
values that see it die with that operation. What an unknown operation gives may share the memory of all its operands. Nothing
of this is written into the IR. Invariants: inputs are never owned (unless donated); outputs never die, so what they see is
never written; a broadcast view is never a target.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

from funcad.configuration import NamedTuple
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Var
from funcad.ir.primitive import may_share
from funcad.primitives.fused import fused_p


class Storage:
    """One block of memory. `owned`: the program may write it; `scratch`: the name under which a loop keeps it."""

    __slots__ = ("owned", "users", "scratch", "key")

    def __init__(self, owned: bool, scratch: str | None = None, key: Any = None):
        self.owned = owned
        self.scratch = scratch
        self.key = key  # (shape, dtype) of the scratch array
        self.users: set[Value] = set()


class Value:
    """A variable while its program is written out.

    `text` names it; `shape` is the array's own shape, which is smaller than the aval's where a broadcast was left to the
    consumers; `whole` says that an operation may write its result into it, if the storage allows; `strided` that it is a
    part of an array whose rows lie apart, so that flattening copies it; `copy` is one that has the aval's own shape and order.
    """

    __slots__ = ("text", "aval", "shape", "storages", "whole", "alive", "strided", "copy")

    def __init__(self, text: str, aval: Any, storages: Iterable[Storage] = (), whole: bool = False, shape: Any = None):
        self.text = text
        self.aval = aval
        self.shape = aval.shape if shape is None else shape
        self.storages = tuple(dict.fromkeys(storages))
        self.whole = whole and len(self.storages) == 1
        self.alive, self.strided = True, False
        self.copy: Value | None = None
        for s in self.storages:
            s.users.add(self)


def let_go(value: Value) -> list[Storage]:
    """The value is dead; the storages that nobody sees any more."""
    gone = []
    for s in value.storages:
        s.users.discard(value)
        if not s.users:
            gone.append(s)
    return gone


def deaths(equations: Sequence[Any], keep: Iterable[Any]) -> list[tuple[Var, ...]]:
    """For each equation, the variables that nobody reads after it; those in `keep` never die."""
    seen = set(keep)
    result = []
    for equation in reversed(equations):
        dead = []
        for atom in (*equation.outputs, *equation.inputs):
            if type(atom) is Var and atom not in seen:
                seen.add(atom)
                dead.append(atom)
        result.append(tuple(dead))
    result.reverse()
    return result


def writable_operand(operands: Iterable[Value], dying: Iterable[Value], aval: Any) -> Value | None:
    """An operand into which an elementwise operation may write a result of this aval."""
    dead = set(dying)
    for v in operands:
        if v in dead and v.whole and v.shape == aval.shape and v.aval.dtype == aval.dtype and v.aval.shape == aval.shape:
            (storage,) = v.storages
            if storage.owned and storage.users <= dead:
                return v
    return None


class _Memory:
    """What some variables of a program may share. `owned`: nobody outside sees it; `of`: the input that came in it."""

    __slots__ = ("owned", "users", "of")

    def __init__(self, owned: bool, of: Var | None = None):
        self.owned = owned
        self.of = of
        self.users: set[Var] = set()


def writes_elements(equations: Iterable[Any]) -> bool:
    """Is there a write that may go over its first operand, or one in a loop or a branch?"""
    return any([e.primitive.over is not None or e.primitive.multiple and bool(handed_through(e)) for e in equations])


class WritePlan(NamedTuple):
    """How a program writes elements of arrays: which equations over their first operand, and what they need for that."""

    over: frozenset[int]
    copied: frozenset[Var]  # views that are read after the array was written: they are copies
    through: tuple[Var | None, ...]  # of each output, the owned input in whose memory it lies, with nothing else in it


def writes_of(
    inputs: Sequence[Var],
    equations: Sequence[Any],
    outputs: Sequence[Any],
    owned: Container[Var] | None = (),
    inside: bool = True,
) -> WritePlan:
    """The plan of a program that owns these inputs (None: all): writes go over what it owns and nobody reads any more.

    `inside`: so do those in loops and branches, which are written out with the program.
    """
    memory: dict[Var, tuple[_Memory, ...]] = {}
    over, copied, views = set(), set(), set()  # views: they see a part of the memory that one other value lies in
    whole = set(inputs)  # these are all that there is in their memory

    def lie(v: Var, places: Iterable[_Memory]) -> None:
        memory[v] = tuple(places) if type(v.aval) is StackAval or v.aval.shape else ()  # a number has none
        for place in memory[v]:
            place.users.add(v)

    keep = {o for o in outputs if type(o) is Var}
    for v in inputs:
        lie(v, [_Memory(owned is None or v in owned, v)])
    for i, (equation, dead) in enumerate(zip(equations, deaths(equations, keep))):
        primitive, atoms = equation.primitive, equation.inputs
        for k, j in (handed_through(equation) if inside and primitive.multiple else {}).items():
            a, v = atoms[j], equation.outputs[k]
            place, *more = memory[a] if a in whole and a in dead and atoms.count(a) == 1 else (_Memory(False),)
            lie(v, [place if not more and place.owned and place.users == {a} else _Memory(True)])
            whole.add(v)
        handed = {place for v in equation.outputs if v in memory for place in memory[v]}
        read = list(dict.fromkeys([place for a in atoms if type(a) is Var for place in memory[a]]))
        first = atoms[0] if primitive.over is not None else None
        if first in whole and first in dead and first.aval.shape and atoms.count(first) == 1:
            (place, *more) = memory[first]
            others = place.users - {first}
            if not more and place.owned and others <= views and sum([v.aval.size for v in others]) <= first.aval.size // 2:
                over.add(i)
                copied |= others
                views -= others
                for v in others:
                    place.users.discard(v)
                    lie(v, [_Memory(True)])
                    whole.add(v)
                lie(equation.outputs[0], [place])
                whole.add(equation.outputs[0])
        read = [place for place in read if place not in handed]
        shares = primitive is not fused_p and (primitive.multiple or may_share(equation))
        for v in equation.outputs:
            if v in memory:
                continue
            if type(v.aval) is not StackAval and not v.aval.shape:
                lie(v, [])
            elif shares:
                lie(v, read)
                if not primitive.multiple and len(read) == 1:
                    views.add(v)
            else:
                lie(v, [_Memory(True)])
                whole.add(v)
        if shares and not primitive.free and primitive.adds is None:
            for place in read:
                place.owned = False  # who knows who has seen it
        for v in dead:
            for place in memory[v]:
                place.users.discard(v)
    through: list[Var | None] = []
    for o in outputs:
        places = memory[o] if type(o) is Var and outputs.count(o) == 1 else ()
        alone = o in whole and len(places) == 1 and places[0].owned and places[0].users == {o}
        through.append(places[0].of if alone else None)
    return WritePlan(frozenset(over), frozenset(copied), tuple(through))


def carries_of(loop: Any, in_rows: Container[Any] = ()) -> Sequence[str]:
    """How each carry of a loop is kept from turn to turn; engines ask this, and nothing else.

    * "same": no turn changes it, it is what it was in front of the loop;
    * "number": it has no axes, so a variable holds it;
    * "row": the next one is among `in_rows`, which lie in arrays of rows anyway, so the carry goes on from there;
    * "place": a turn only writes elements of it, so one array serves all turns;
    * "pair": the next one is computed into a second array, and the two change places.
    """
    body, n = loop.body, loop.n_consts
    found: tuple[str, ...] | None = body.memo.get(("carries", n))
    if found is None:
        ins, outs = loop.carried(body.inputs), body.outputs
        through: Sequence[Var | None] = [None] * len(ins)
        if writes_elements(body.equations):
            through = writes_of(body.inputs, body.equations, outs, ins).through
        found = tuple([
            "same" if o is v else "number" if not v.aval.shape else "place" if t is v else "pair"
            for v, t, o in zip(ins, through, outs)
        ])  # fmt: skip
        found = body.memo.setdefault(("carries", n), found)
    if not in_rows:
        return found
    return ["row" if kind == "pair" and o in in_rows else kind for kind, o in zip(found, body.outputs)]


def handed_through(equation: Any) -> dict[int, int]:
    """Of a loop or a branch, the results that may lie in the memory of an operand, with elements written: its number."""
    params, name = equation.params, equation.primitive.name
    if name == "loop":
        loop = params["loop"]
        before = loop.n_counts + loop.n_consts
        return {k + loop.first: k + before for k, kind in enumerate(carries_of(loop)) if kind == "place"}
    if name != "cond":
        return {}
    found = [_lies_in(branch) for branch in params["branches"]]
    same = [ks[0] if len({*ks}) == 1 else None for ks in zip(*found)]
    changed = lambda i, k: any([b.outputs[i] is not b.inputs[k] for b in params["branches"]])
    return {i: k + 1 for i, k in enumerate(same) if k is not None and changed(i, k)}


def _lies_in(branch: Any) -> list[int | None]:
    found: list[int | None] | None = branch.memo.get("lies_in")
    if found is None:
        through = writes_of(branch.inputs, branch.equations, branch.outputs, None).through
        found = [None if v is None else branch.inputs.index(v) for v in through]
        found = branch.memo.setdefault("lies_in", found)
    return found
