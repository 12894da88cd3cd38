"""Loops and branches as Python's, and the stacks that loops of unknown length fill.

Idea: rows of the scanned arrays come from iterating over them, results go straight into the rows of the stacked arrays, and
the temporaries of a body live in scratch arrays that every turn uses again. A carry has a buffer of its own: an operation may
write the next carry over the last one when that dies, otherwise it writes into a second buffer and the two names are exchanged
at the end of the turn. What a turn need not do is not in it: a scalar that no turn changes is made an array in front of the
loop, for the ufuncs that read it, and what is collected of a carry as it comes in is copied afterwards from where it is
collected as it goes out. Invariants: the buffer that a carry starts from is a copy, or memory that the program owns and nobody
else sees (which a carry of which only elements are written takes over); at the end of a turn every carry is in memory of its
own, unless nobody writes into it. What goes on stacks is in this file. Traps: a carry that is also a row of the output, or on a
stack, must not be written again; a name is exchanged only with one whose array has the same shape and dtype.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from funcad.backends import number_lines
from funcad.backends.memory import Storage, Value, carries_of, handed_through, writable_operand
from funcad.backends.text import Block, Line, dtype_text, shape_text
from funcad.ir.aval import Aval, Stack, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, subjaxprs
from funcad.ir.primitive import may_share
from funcad.primitives.loop import Loop

# -- stacks in the text: the lists that loops of unknown length fill, and that the loops of their derivatives read
#
# Idea: what a turn puts on a stack is computed into a new array, which is appended at the end of the turn; a carry that is kept
# as it comes in is handed over as it is, and the next one is computed into a new array. Invariants: nobody writes into an entry
# once it is on a stack, nor can the user reach it; an empty stack may stand for zeros, so it is replaced by as many of them,
# unless a loop of this text filled it.


_WRITTEN = ("loop", "cond", "stack_empty", "optimization_barrier")


def read_by_loops_alone(jaxpr: Jaxpr) -> bool:
    """Are all stacks of the program filled and read by lines, by no operation that asks for the kind of their entries?"""
    for equation in jaxpr.equations:
        if equation.primitive.name not in _WRITTEN and not subjaxprs(equation.params):
            if any([is_stack(a.aval) for a in (*equation.inputs, *equation.outputs)]):
                return False
    return all([read_by_loops_alone(j) for equation in jaxpr.equations for j in subjaxprs(equation.params)])


def is_stack(aval: Any) -> bool:
    return type(aval) is StackAval


def empty(e: Any, aval: StackAval) -> str:
    """The text of an empty stack; where only loops read stacks, Python's own lists do."""
    if e.lists:
        return "[]"
    kind = e.w.constant("Stack", Stack, key=Stack)
    return f"{kind}([], {e.w.constant('entries', aval, key=aval)})"


def write_empty(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    (v,) = equation.outputs
    name = e.w.name("stack")
    e.w.line(f"{name} = {empty(e, equation.params['aval'])}")
    env[v] = e.value(name, v.aval, [Storage(False)])
    return True


def entries(e: Any, stack: Value, length: str) -> str:
    """What a loop of this length reads: the name of a list with so many entries."""
    if stack.text in e.filled:
        return str(stack.text)
    element, w = stack.aval.element, e.w
    if is_stack(element):
        zero = empty(e, element)
    else:  # without axes: a number with NumPy, an array on a device
        zero = f"{w.np}.zeros({shape_text(element.shape)}, {dtype_text(w, element.dtype)}){'' if element.shape else '[()]'}"
    name = w.name("stack")
    w.line(f"{name} = {stack.text} or [{zero}] * {length}")
    return str(name)


def entry_storages(aval: Any) -> list[Storage]:
    """Of an entry that is read: nobody may write it; a number may be a 0-d array."""
    return [] if aval.weak and not aval.shape else [Storage(False)]


class Filling:
    """The stacks that a loop fills, one for each variable, with the body's values `atoms`."""

    def __init__(self, e: Any, variables: Sequence[Var], atoms: Sequence[Any], carries: Sequence[Var], outs: Sequence[Any]):
        w = e.w
        self.e = e
        self.variables = variables
        self.atoms = atoms
        self.names = [w.name("stack") for _ in variables]
        for v, name in zip(variables, self.names):
            e.counts[name] += 1
            e.filled.add(name)
            w.line(f"{name} = {empty(e, v.aval)}")
        self.single = [a for a in atoms if not a.aval.shape]  # numbers and stacks
        kept = {a for a in atoms if a.aval.shape}
        # carries whose memory goes on a stack: the next one is somewhere else
        self.handed = {v for v, o in zip(carries, outs) if v in kept and type(o) is Var and o is not v}
        fresh = [a for a in atoms if a in kept and a not in self.handed]
        fresh += [o for v, o in zip(carries, outs) if v in self.handed]
        self.arrays = {a: w.name("y") for a in dict.fromkeys(fresh)}  # what is computed into a new array in each turn
        for name in self.arrays.values():
            e.counts[name] += 1

    def rows(self) -> dict[Var, list]:
        return {a: [self.e.row(name, True)] for a, name in self.arrays.items()}

    def begin_turn(self, carries: dict[Var, str]) -> None:
        """New arrays; `carries`: the names of the carries as they come in."""
        for a, name in self.arrays.items():
            self.e.w.line(f"{name} = {self.e.empty(a.aval.shape, a.aval.dtype)}")
        self.handed_over = {v: carries[v] for v in self.handed}

    def end_turn(self, single: Sequence[Value]) -> None:
        """The lines that append; `single`: the values of `self.single`."""
        values = iter(single)
        for a, name in zip(self.atoms, self.names):
            if a.aval.shape:
                text = self.handed_over.get(a) or self.arrays[a]
            else:
                v = next(values)
                handed = v.storages and isinstance(v.aval, Aval) and not v.aval.weak  # it may be a 0-d array of the user's
                text = f"{self.e.w.np}.array({v.text})[()]" if handed else v.text
            self.e.w.line(f"{name}.append({text})")

    def finish(self, env: dict, reverse: bool = False) -> None:
        for v, name in zip(self.variables, self.names):
            if reverse:
                self.e.w.line(f"{name}.reverse()")
            env[v] = self.e.value(name, v.aval, [Storage(False)])
            self.e.counts[name] -= 1
        for name in self.arrays.values():
            self.e.counts[name] -= 1


# -- `scan`, `while` and `cond` written out as Python's own `for`, `while` and `if`, bodies in place


MAX_DEPTH = 12  # Python refuses more than twenty nested blocks
SHIFTED = 2048  # bytes up to which starting to copy a row costs more than copying it


def write(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """Write the equation if it is a loop or a conditional that can be; `e` is the Emission."""
    rule = _RULES.get(equation.primitive.name)
    if rule is _loop and e.depth < MAX_DEPTH and number_lines.write(e, equation, operands, env, rows):
        return True
    return rule is not None and e.depth < MAX_DEPTH and rule(e, equation, operands, env, dying, rows)


class _LoopCarry:
    """One carried value: its name, and what its memory may be used for."""

    __slots__ = ("name", "aval", "mode", "storages", "start", "row")

    def __init__(self, name: str, aval: Any, mode: str, storages: Sequence[Storage], start: Value, row: str = ""):
        self.name = name
        self.aval = aval
        self.mode = mode  # as `carries_of` says; "own" is what has an array of its own, in a "place" or in one of a "pair"
        self.storages = storages
        self.start = start
        self.row = row  # of a "row": the name of that which holds the next carry


def _begin_carries(
    e: Any, starts: list[Value], loop: Loop, rows: dict[Var, str], taken: Collection[int], handed: Collection[Var]
) -> list[_LoopCarry]:
    """The lines that set the carries up; `rows`: the rows that new carries are written to as well; `taken`: the results in the
    memory of their operands, which is the carry's from now on; `handed`: the carries whose memory goes on a stack."""
    w, carries = e.w, []
    inner, outer, modes = loop.carried(loop.body.inputs), loop.body.outputs, carries_of(loop, rows)
    for k, (start, v, o, mode) in enumerate(zip(starts, inner, outer, modes), loop.first):
        aval, take = v.aval if is_stack(v.aval) else Aval(v.aval.shape, v.aval.dtype, v.aval.weak), k in taken
        if mode == "same":
            carries.append(_LoopCarry(start.text, aval, mode, start.storages, start))
            continue
        name = start.text if take else w.name("c")
        e.counts[name] += 1
        if take:
            e.release(start)
            carries.append(_LoopCarry(name, aval, "own", start.storages, start))
            continue
        if mode == "number":
            storages, text = list(start.storages), start.text
            if w.device and not is_stack(aval) and not aval.weak and text in e.settled:  # a number of the host's
                text = f"{w.np}.full((), {text}, {dtype_text(w, aval.dtype)})"
        elif mode == "row":
            storages, text = [Storage(False)], _copied(e, start, aval) if v in handed else start.text
        else:
            mode, storages, text = "own", [Storage(True)], _copied(e, start, aval)
        w.line(f"{name} = {text}")
        row = rows[o] if mode == "row" else ""
        carries.append(_LoopCarry(name, aval, mode, storages, start, row))
    return carries


def _taken(operands: Sequence[Value], dying: Sequence[Value], equation: Equation) -> dict[int, int]:
    """The results that are written in the memory of an operand, which nobody else needs, by the operand's number."""
    found = {}
    for k, j in handed_through(equation).items():
        v, aval = operands[j], equation.outputs[k].aval
        alone = operands.count(v) == 1 and v.text.isidentifier() and all([s.scratch is None for s in v.storages])
        if alone and writable_operand([v], [d for d in dying if d is v], aval) is v:
            found[k] = j
    return found


def _copied(e: Any, v: Value, aval: Any) -> str:
    """A C-contiguous copy: scratch arrays, which carries are exchanged with, are so."""
    return f"{e.w.np}.array({v.text}{', order=' + repr('C') if len(aval.shape) > 1 else ''})"


def seen(e: Any, equation: Equation, operands: list[Value]) -> list[str]:
    """What an operation reads that may be a callback: in loops copies: the next turn writes there, or the user, into rows."""
    kept = e.in_loop() and equation.primitive.multiple and may_share(equation)
    copies = [kept and isinstance(v.aval, Aval) and v.shape and v.text not in e.frame.fixed for v in operands]
    return [_copied(e, v, v.aval) if copy else v.text for v, copy in zip(operands, copies)]


def _inner_carries(e: Any, carries: list[_LoopCarry]) -> list[Value]:
    return [e.value(c.name, c.aval, c.storages, whole=c.mode == "own") for c in carries]


def _end_carries(e: Any, carries: list[_LoopCarry], outs: list[Value]) -> None:
    """The line at the end of a turn that makes the new carries the old ones."""
    left, right, used = [], [], set()
    own = {c.storages[0]: c for c in carries if c.mode == "own"}
    for c, v in zip(carries, outs):
        if c.mode == "same":
            continue
        if c.mode == "own":
            storage = v.storages[0] if v.whole and v.storages[0].owned and v.storages[0] not in used else None
            if storage is None:
                text = _copied(e, v, c.aval)
            elif storage.scratch is None and storage not in own:  # the operation allocated it
                used.add(storage)
                text = v.text if len(c.aval.shape) == 1 else f"{e.w.np}.ascontiguousarray({v.text})"
            elif v.text in (storage.scratch, own[storage].name if storage in own else None):
                used.add(storage)
                text = v.text
            else:  # a view of a scratch array or of a carry, whose name cannot be exchanged
                text = _copied(e, v, c.aval)
        elif c.mode == "row":
            text = c.row
        else:
            text = v.text if not v.storages or is_stack(c.aval) else f"{e.w.np}.array({v.text})[()]"
        if text != c.name:
            left.append(c.name)
            right.append(text)
    idle = [c for s, c in own.items() if s not in used]
    for v in outs:
        s = v.storages[0] if v.whole else None
        if s is None or s not in used or s.scratch is None:
            continue
        shape, dtype = s.key
        spare = next((c for c in idle if c.aval.shape == shape and c.aval.dtype == dtype), None)
        left.append(s.scratch)
        if spare is not None:
            idle.remove(spare)
            right.append(spare.name)
        else:
            right.append(e.empty(shape, dtype))
    if left:
        e.w.line(f"{', '.join(left)} = {', '.join(right)}")


def _final_carries(e: Any, carries: list[_LoopCarry], ys: Sequence[Storage] = ()) -> list[Value]:
    """The values of the carries after the loop."""
    found = []
    for c in carries:
        if c.mode == "own":
            taken = c.storages is c.start.storages
            found.append(e.value(c.name, c.aval, c.storages if taken else [Storage(True)], whole=True))
        elif c.mode == "row":
            found.append(e.value(c.name, c.aval, [*c.start.storages, *ys]))
        else:
            found.append(e.value(c.name, c.aval, [*c.start.storages, *c.storages]))
    return found


class _Loop:
    """Entering and leaving a loop: its scratch arrays belong to the outermost one."""

    def __init__(self, e: Any, consts: Sequence[Value], owned: Sequence[str] = ()):
        self.e = e
        self.consts = consts
        self.owned = owned  # the names of the carries that have arrays of their own

    def __enter__(self) -> None:
        e = self.e
        self.outermost = e.frame is None
        if self.outermost:
            e.frame = e.new_frame(e.w.aside())
            e.frame.boxes = {}
            e.frame.fixed = {c.text for c in self.consts}
            e.settled.update([c.text for c in self.consts if not c.shape])
        e.depth += 1

    def __exit__(self, *exception: Any) -> None:
        e = self.e
        e.depth -= 1
        if self.outermost:
            names = [name for name, *_ in e.frame.names]
            views = _Views(e.w, e.frame.block, names, self.owned, e.frame.fixed).written() if e.w.np == "np" else []
            if e.frame.bytes >= 64 * 1024 or views:
                e.w.line(" = ".join([*names, *views, "None"]))
            e.frame = None


# -- views are made once, in front of the loop
#
# A part of an array takes as long to name as a small operation to start. Where the name of the array is given once, whatever
# is written into it, its parts, too, are the same memory in every turn; where the turn ends by exchanging names, their parts
# are exchanged with them. Traps: a name that is given in the turn otherwise, or let go, may be any array; a reshaped part that
# does not lie in order is a copy, which stays what it was.

_PART = r"\[(?:[-\d:, ]|None)*:(?:[-\d:, ]|None)*\]|\.T\b"
_PART += r"|\.reshape\((?:\([-\d, ]*\)|[-\d, ]+)\)|\.transpose\((?:\([\d, ]*\)|[\d, ]+)\)"
_VIEW = re.compile(rf"(?<![\w.])([a-z]\w*)({_PART})(?![\w(])")
_ALONE = re.compile(rf"(\w+) = ([a-z]\w*)((?:{_PART})+)")
_GIVEN = re.compile(r"(?<![\w.])([A-Za-z_]\w*)(?![\w(\[.])")
_EXCHANGE = re.compile(r"(\w+(?:, \w+)+) = (\w+(?:, \w+)+)")


class _Views:
    """The views of a loop's arrays, made where `front` ends."""

    def __init__(self, w: Any, front: Block, scratch: Sequence[str], carries: Sequence[str], fixed: Iterable[str]):
        self.w, self.front = w, front
        behind = w.block.parts[w.block.parts.index(front) + 1 :]
        self.blocks = [part for part in behind if type(part) is Block]
        self.lines = [line for block in self.blocks for line in block.lines()]
        self.given: Counter[str] = Counter()
        exchanges: dict[str, tuple[str, Line]] = {}
        for line in self.lines:
            exchange = _EXCHANGE.fullmatch(line.text)
            head = re.split(r" \+?= ", line.text)[:-1]
            if line.text.startswith("for "):
                head = line.text[4:].partition(" in ")[:1]
            for text in head:
                self.given.update(_GIVEN.findall(text))
            if exchange is not None:
                left, right = [part.split(", ") for part in exchange.groups()]
                exchanges.update({one: (other, line) for one, other in zip(left, right)})
        self.fixed = {*fixed}
        self.in_order = {*scratch, *fixed}  # what may be reshaped; a copy of what is fixed stays what it is
        known = {name for name in (*scratch, *carries, *fixed) if name.isidentifier() and self.given[name] <= 1}
        self.next = {name: name for name in known if not self.given[name]}  # what a name stands for in the next turn
        for name in known & exchanges.keys():
            cycle = [name]
            while (following := exchanges.get(cycle[-1], ("",))[0]) in known and following != name:
                cycle.append(following)
            if following == name:
                self.next.update(dict(zip(cycle, [*cycle[1:], name])))
        self.line_of = {name: line for name, (_, line) in exchanges.items()}
        self.found: dict[str, str] = {}  # the text of a view -> its name

    def written(self) -> list[str]:
        """Move them there; gives their names."""
        gone = set()
        for line in self.lines:
            alone = _ALONE.fullmatch(line.text)
            if alone is not None and alone[2] in self.next and self.given[alone[1]] == 1 and self.is_view(alone[2], alone[3]):
                self.name_of(alone[2], alone[3], alone[1])
                gone.add(line)
                continue
            before, first = "", line.text
            while before != line.text:
                before = line.text
                line.text = _VIEW.sub(self.replaced, before)
            written = re.match(r"(\w+) = ", line.text)
            if written is not None and written[1] in self.next and not first.startswith(written[0]):
                line.text = f"{written[1]}[...]{line.text[len(written[1]) :]}"
        for block in self.blocks if gone else ():
            _without(block, gone)
        return list(self.found.values())

    def replaced(self, view: re.Match) -> str:
        if view[1] not in self.next or not self.is_view(view[1], view[2]):
            return str(view[0])
        return self.name_of(view[1], view[2])

    def cycle_of(self, name: str) -> list[str]:
        cycle = [name]
        while self.next[cycle[-1]] != name:
            cycle.append(self.next[cycle[-1]])
        return cycle

    def is_view(self, name: str, part: str) -> bool:
        """Is that part of an array, and of those that it is exchanged with, their memory in every turn?"""
        cycle = self.cycle_of(name)
        in_order, fixed = self.in_order.issuperset(cycle), self.fixed.issuperset(cycle)
        reshaped = [one.startswith(".reshape") for one in re.findall(_PART, part)]
        return fixed or not any(reshaped) or in_order and all(reshaped)

    def name_of(self, name: str, part: str, chosen: str = "") -> str:
        """The name of this part of the array; `chosen`: that it has."""
        cycle = self.cycle_of(name)
        if chosen or name + part not in self.found:
            views = [chosen or self.w.name("w"), *[self.w.name("w") for _ in cycle[1:]]]
            with self.w.within(self.front):
                for one, view in zip(cycle, views):
                    self.found[one + part] = view
                    self.w.line(f"{view} = {one}{part}")
            if self.fixed.issuperset(cycle):
                self.fixed.update(views)
            if self.in_order.issuperset(cycle) and all([one.startswith(".reshape") for one in re.findall(_PART, part)]):
                self.in_order.update(views)
            following = [*views[1:], views[0]]
            self.next.update(dict(zip(views, following)))
            if len(views) > 1:
                line = self.line_of[name]
                self.line_of.update(dict.fromkeys(views, line))
                left, right = line.text.split(" = ")
                line.text = f"{left}, {', '.join(views)} = {right}, {', '.join(following)}"
        return self.found[name + part]


def _without(block: Block, gone: set[Line]) -> None:
    for part in block.parts:
        if type(part) is Block:
            _without(part, gone)
    block.parts = [part for part in block.parts if part not in gone]
    if not block.parts:
        block.parts = [Line(block.depth, "pass", None)]


def _loop(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    loop: Loop = equation.params["loop"]
    body, cond, n_carry, length = loop.body, loop.cond, loop.n_carry, loop.length
    w = e.w
    counts, consts, starts, xs = loop.parts(operands)
    times = str(length) if cond is not None or length is not None else f"int({counts[0].text})"
    outs, y_atoms = body.outputs[:n_carry], body.outputs[n_carry:]
    carry_vars = loop.carried(body.inputs)
    ys = list(zip(equation.outputs[loop.first + n_carry :], y_atoms))
    filled = [(v, o) for v, o in ys if is_stack(v.aval)]
    filling = Filling(e, [v for v, _ in filled], [o for _, o in filled], carry_vars, outs)
    ys = [(v, o) for v, o in ys if not is_stack(v.aval)]
    y_atoms = [o for _, o in ys]

    stacked = []  # (name, storage, row or element, atom)
    loops: list[tuple[str, str]] = []  # (loop variable, what it runs over)
    back = "[::-1]" if loop.reverse else ""
    index = None
    shifted = _shifted(carry_vars, outs, y_atoms) if length else {}
    if any([not o.aval.shape and o not in shifted for o in y_atoms]):
        index = w.name("i")
        loops.append((index, f"range({length - 1}, -1, -1)" if back else f"range({length})"))
    row_lists: dict[Var, list] = filling.rows()
    arrays: dict[Any, str] = {}  # what is collected -> the array that it is collected in
    plain_stores, shifts = [], []
    for v, o in ys:
        wanted = rows.get(v, [])
        direct = next((r for r in wanted if r.whole), None)
        storage = Storage(direct is None)
        if direct is not None and type(v) is Var:
            name = direct.text
        else:
            name = e.fresh_name(v)
            w.line(f"{name} = {e.empty(v.aval.shape, v.aval.dtype)}")
        e.counts[name] += 1
        stacked.append((v, name, storage, direct))
        if o in shifted:
            shifts.append((name, o))
            continue
        arrays[o] = name
        if o.aval.shape:
            row = w.name("y")
            loops.append((row, name + back))
            place = e.row(row, True)
        else:
            place = e.row(f"{name}[{index}]", False)
        e.counts[place.text] += 1
        if type(o) is Var:
            row_lists.setdefault(o, []).append(place)
        else:
            plain_stores.append((place, o))
    names = {o: places[0].text for o, places in row_lists.items() if o.aval.shape}
    taken = _taken(operands, dying, equation)
    carries = _begin_carries(e, starts, loop, names, taken, filling.handed)
    x_values = []
    for v, x in zip(loop.split(body.inputs)[2], xs):
        name = w.name("x")
        e.counts[name] += 1
        if is_stack(x.aval):
            text = entries(e, x, times)
            loops.append((name, f"reversed({text})" if back else text))
            x_values.append((name, v.aval, entry_storages(v.aval)))
        else:
            loops.append((name, x.text + back))
            x_values.append((name, v.aval, x.storages))
    turns = w.name("n") if cond is not None else ""
    if turns:
        w.line(f"{turns} = 0")
    owned = [c.name for c in carries if c.mode == "own"]
    with _Loop(e, [*(counts if turns else ()), *consts], owned):
        over: str | None
        if turns:
            over = None
        elif not loops:
            over = f"range({times})"
        elif len(loops) == 1:
            over = loops[0][1]
        else:
            strict = ", strict=True" if any([is_stack(x.aval) for x in xs]) else ""
            over = f"zip({', '.join([b for _, b in loops])}{strict})"
        w.loop(", ".join([a for a, _ in loops]) or "_", over, equation if e.depth == 1 else None, times)
        with w.within(w.inner()) as block:
            if cond is not None:
                test = _read_only([e.alias(c) for c in counts])
                (go_on,) = e.program(cond, [*test, *_read_only(_inner_carries(e, carries))])
                w.line(f"if not {go_on.text}:")
                with w.within(w.inner()):
                    w.line("break")
                e.release(go_on)
            filling.begin_turn({v: c.name for v, c in zip(carry_vars, carries)})
            items = [e.value(n, a, s) for n, a, s in x_values]
            values = [*_read_only([e.alias(c) for c in consts]), *_inner_carries(e, carries), *items]
            found = e.equations(e.shortened(body), dict(zip(body.inputs, values)), [*outs, *filling.single], row_lists)
            for place, o in plain_stores:
                w.line(place.statement(e.literal(o).text))
            filling.end_turn(found[n_carry:])
            _end_carries(e, carries, found[:n_carry])
            if turns:
                w.line(f"{turns} += 1")
            if not block.lines():
                w.line("pass")
            for v in found:
                e.release(v)
            e.drop_none()
    for name, o in shifts:
        start, rest, ahead = ("-1", ":-1", "1:") if back else ("0", "1:", ":-1")
        w.line(f"{name}[{start}] = {starts[carry_vars.index(o)].text}")
        if length > 1:
            w.line(f"{name}[{rest}] = {arrays[shifted[o]]}[{ahead}]")
    if turns:
        w.line(f"{turns} = {w.np}.int64({turns})")
        env[equation.outputs[0]] = e.value(turns, equation.outputs[0].aval)
    filling.finish(env, loop.reverse)
    shared = [*[storage for _, _, storage, _ in stacked], *([Storage(False)] if filled else [])]
    results = equation.outputs[: loop.first + n_carry]
    env.update(zip(results[loop.first :], _final_carries(e, carries, shared)))
    for v, name, storage, _ in stacked:
        env[v] = e.value(name, v.aval, [storage], whole=storage.owned)
    e.store(results, env, rows)
    for v, name, _, direct in stacked:
        for row in rows.get(v, ()):
            if row is not direct:
                w.line(row.statement(name))
    _unpin(e, carries, [name for _, name, *_ in stacked])
    return True


def _shifted(carry_vars: Sequence[Var], outs: Sequence[Any], y_atoms: Sequence[Any]) -> dict[Any, Var]:
    """Carries that are collected as they come in, with what the same carry goes out as, if that is collected, too.

    One array is the other then, a step later: it is copied after the loop, where a copy does not cost a call in each turn.
    """
    found = {}
    for v, o in zip(carry_vars, outs):
        if type(o) is Var and o in y_atoms and o not in carry_vars and v in y_atoms:
            if v.aval.size * v.aval.dtype.itemsize <= SHIFTED and o.aval.dtype == v.aval.dtype:
                found[v] = o
    return found


def _unpin(e: Any, carries: list[_LoopCarry], names: Sequence[str]) -> None:
    """The names may be cleared again when their values die."""
    for c in carries:
        if c.mode != "same":
            e.counts[c.name] -= 1
    for name in names:
        e.counts[name] -= 1


def _read_only(values: list[Value]) -> list[Value]:
    for v in values:
        v.whole = False
    return values


def _cond(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    branches = equation.params["branches"]
    w = e.w
    index, values = operands[0], operands[1:]
    taken = _taken(operands, dying, equation)
    names = [operands[taken[k]].text if k in taken else e.fresh_name(v) for k, v in enumerate(equation.outputs)]
    for name in names:
        e.counts[name] += 1
    for j in taken.values():
        e.release(operands[j])
    merged: list[list[Storage]] = [[] for _ in names]
    held: list[Value] = []  # until all branches are written, none of their memory is free
    chosen = index.text
    if w.device and len(branches) > 1:
        chosen = w.name("i")
        w.line(f"{chosen} = int({index.text})")  # waits for the device, once
    e.depth += 1  # what dies in a branch is dropped after it
    for i, branch in enumerate(branches):
        last = i == len(branches) - 1
        compare = "<=" if i == 0 else "=="
        if len(branches) > 1:
            w.line("else:" if last else f"{'if' if i == 0 else 'elif'} {chosen} {compare} {i}:")
        else:
            w.line("if True:")
        with w.within(w.inner()) as block:
            inner = [e.alias(v) for v in values]
            _read_only([v for j, v in enumerate(inner, 1) if j not in taken.values()])
            found = e.program(branch, inner)
            texts = [_copied(e, v, v.aval) if k in taken else v.text for k, v in enumerate(found)]
            pairs = [(name, text) for name, text, v in zip(names, texts, found) if name != v.text]
            if pairs:
                w.line(f"{', '.join([name for name, _ in pairs])} = {', '.join([text for _, text in pairs])}")
            if not block.lines():
                w.line("pass")
            for storages, v in zip(merged, found):
                storages += v.storages
            held += [e.value(name, v.aval, v.storages) for k, (name, v) in enumerate(zip(names, found)) if k not in taken]
            for v in found:
                e.release(v)
            e.drop_none()
    e.depth -= 1
    for k, (v, name, storages) in enumerate(zip(equation.outputs, names, merged)):
        if k in taken:
            env[v] = e.value(name, v.aval, operands[taken[k]].storages, whole=True)
            continue
        env[v] = e.value(name, v.aval, storages or ([Storage(False)] if v.aval.shape or is_stack(v.aval) else []))
    for v in held:
        e.release(v)
    for name in names:
        e.counts[name] -= 1
    e.store(equation.outputs, env, rows)
    return True


_RULES = {"loop": _loop, "cond": _cond, "stack_empty": write_empty}
