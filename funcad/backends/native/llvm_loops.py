"""`scan`, `while_loop` and `cond` inside a whole program, as loops and branches of its code; they nest.

A carry of rank 0 stays in registers. A carried array is a pointer: the body computes the next one into a second buffer, then
the two change places; if the next carry is also an output of the step, it is computed into its row there and the pointer moves
on to that row. A carry of which the body only writes elements has one buffer, in which it does so. Nothing is copied either
way. Operands of products that do not change in a loop are put in order before it.

Long loops ask now and then whether Ctrl-C was pressed. Traps: the initial carry may be the user's array, so it is copied before
a buffer of it is written; a list that a loop fills may only be read by loops (growing.py).
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from funcad.backends.memory import handed_through
from funcad.backends.native import gemm
from funcad.backends.native.growing import Growing, Pile, entry_of, exact
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_cost import work_of
from funcad.backends.native.program_region import Region, rule
from funcad.backends.native.program_values import View, contiguous_strides, same_place, transposed
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, prune
from funcad.passes.subprograms import called
from funcad.primitives.loop import Loop

ASKING = 2e6  # nanoseconds of work, about, between two questions whether to stop


class _CarriedRegisters:
    """The carried values of a loop: registers of the loop's head, and what they stand for in the body."""

    def __init__(self, build: Build, first: Sequence[Any], avals: Sequence[Any]):
        self.build = build
        self.avals = avals
        self.start: list[tuple[str, str]] = []  # (type, first value) of the registers
        self.kinds: list[str] = []
        self.first = first
        self.own: list[tuple[View, ...]] = []  # memory of each

    def scalar(self, value: Any, aval: Any) -> None:
        lane = self.build.lane(value)
        if lane.dtype != aval.dtype:
            raise Unsupported(f"a carry begins as {lane.dtype} and goes on as {aval.dtype}")
        self.kinds.append("scalar")
        self.start += [(self.build.one.register(self.build.one.part(lane.dtype)), p) for p in lane.parts]
        self.own.append(())

    def constant(self, value: Any) -> None:
        self.kinds.append("same")
        self.own.append(())

    def row(self, value: Any) -> None:
        view = self.build.ordered(value)
        self.kinds.append("row")
        self.start.append(("ptr", self.build.pointer(view)))
        self.own.append((view,))

    def buffers(self, value: Any, aval: Any) -> None:
        now, then = self.build.in_order(value), self.build.new(aval.dtype, aval.shape)
        self.kinds.append("buffers")
        self.start += [("ptr", now.pointer), ("ptr", then.pointer)]
        self.own.append((now, then))

    def in_place(self, place: View) -> None:
        self.kinds.append("in place")
        self.own.append((place,))

    def values(self, names: Sequence[str]) -> tuple[list[Any], list[View | None]]:
        """What the registers stand for: the carry, and where the next one is to be computed."""
        it = iter(names)
        found: list[Any] = []
        free: list[View | None] = []
        for kind, first, aval, own in zip(self.kinds, self.first, self.avals, self.own):
            other = None
            if kind == "scalar":
                parts = tuple([next(it) for _ in range(2 if aval.dtype.kind == "c" else 1)])
                found.append(Lane(aval.dtype, parts))
            elif kind == "same":
                found.append(first)
            elif kind == "in place":
                found.append(self.build.lent(own[0]))
            else:
                found.append(View(next(it), aval.dtype, aval.shape, contiguous_strides(aval.shape)))
                if kind == "buffers":
                    other = View(next(it), aval.dtype, aval.shape, contiguous_strides(aval.shape))
            free.append(other)
        return found, free

    def following(self, outs: Sequence[Any], now: Sequence[Any], free: Sequence[Any], rows: dict[int, View]) -> list[str]:
        """The registers of the next iteration; `rows`: which carry lies in a row of an output."""
        build = self.build
        names: list[str] = []
        for i, (kind, out) in enumerate(zip(self.kinds, outs)):
            if kind == "scalar":
                names += build.lane(out).parts
            elif kind == "row":
                names.append(build.pointer(rows[i]))
            elif kind == "buffers":
                if not same_place(out, free[i]):
                    build.copy(out, free[i])
                names += [free[i].pointer, now[i].pointer]
            elif kind == "in place" and not same_place(out, now[i]):
                raise Unsupported("a carry that was to be written in place is read after it was written")
        return names

    def results(self, names: Sequence[str], rows: dict[int, View]) -> list[Any]:
        """The final carry, holding the memory that it may lie in."""
        found = []
        for i, value in enumerate(self.values(names)[0]):
            if self.kinds[i] == "same":
                value = self.build.hold(value)
            elif self.kinds[i] == "row":
                value = value._replace(buffers=(*self.own[i][0].buffers, *rows[i].buffers))
                self.build.hold(rows[i])
            elif self.kinds[i] == "in place":
                value = self.own[i][0]
            elif self.kinds[i] == "buffers":
                value = value._replace(buffers=(*self.own[i][0].buffers, *self.own[i][1].buffers))
            found.append(value)
        return found


def _carried(
    region: Region, equation: Equation, loop: Loop, first: Sequence[Any], body: Jaxpr, in_rows: Container
) -> tuple[_CarriedRegisters, dict[Any, int]]:
    """The carry with its first values, and which of its buffers the body may compute an output into."""
    build, outs, computed = region.build, body.outputs, _computed(body)
    ins = body.inputs[loop.n_consts : loop.n_consts + loop.n_carry]
    carry = _CarriedRegisters(build, first, [v.aval for v in ins])
    claimed: dict[Any, int] = {}
    written = handed_through(equation)
    before = loop.first
    for i, (value, v, o) in enumerate(zip(first, ins, outs)):
        if not v.aval.shape:
            carry.scalar(value, v.aval)
        elif o is v:
            carry.constant(value)
        elif o in in_rows:
            carry.row(value)
        elif before + i in written:
            if region.writable(equation, value, written[before + i]):
                carry.in_place(build.hold(value))
                continue
            place = region.target(equation.outputs[before + i])
            place = place if place.contiguous else build.new(v.aval.dtype, v.aval.shape)
            if not same_place(value, place):
                build.copy(value, place)
            carry.in_place(place)
        else:
            carry.buffers(value, v.aval)
            if o in computed:
                claimed.setdefault(o, i)
    return carry, claimed


def _computed(jaxpr: Jaxpr) -> set[Any]:
    return {v for e in jaxpr.equations for v in e.outputs}


def _checked(values: Sequence[Any], inputs: Sequence[Var]) -> None:
    for value, v in zip(values, inputs):
        dtype, shape = value.dtype, () if type(value) is Lane else value.shape
        if type(v.aval) is StackAval or dtype != v.aval.dtype or shape != v.aval.shape:
            raise Unsupported(f"an operand {dtype}{list(shape)} of a loop that was traced for {v.aval}")


def _prepack(build: Build, jaxpr: Jaxpr, consts: Sequence[Any]) -> list[tuple]:
    """Copy what products in the body would copy at each step; the keys of the copies."""
    known = {v: x for v, x in zip(jaxpr.inputs, consts) if type(x) is View}
    made = []
    for equation in jaxpr.equations:
        name, params = equation.primitive.name, equation.params
        if name == "transpose" and equation.inputs[0] in known:
            known[equation.outputs[0]] = transposed(known[equation.inputs[0]], params["perm"])
        if name != "dot_general" or equation.inputs[1] not in known or equation.inputs[0] in known:
            continue
        (cx, cy), (bx, by) = params["dimension_numbers"]
        y = known[equation.inputs[1]]
        x = equation.inputs[0].aval
        if len(cx) != 1 or bx or len(y.shape) != 2 or y.dtype.kind != "f" or len(x.shape) not in (1, 2):
            continue
        y = transposed(y, (cy[0], 1 - cy[0]))
        steps = contiguous_strides(x.shape)
        m, row = (1, 0) if len(x.shape) == 1 else (x.shape[1 - cx[0]], steps[1 - cx[0]])
        key = gemm.key_of(y)
        if gemm.packs(m, y.shape[1], (row, steps[cx[0]]), y.strides, (y.shape[1], 1)) and key not in build.packed:
            build.packed[key] = build.in_order(y)
            made.append(key)
    return made


def _unpack(build: Build, keys: Sequence[tuple]) -> None:
    for key in keys:
        build.drop(build.packed.pop(key))


def _steps_between(jaxpr: Jaxpr) -> int:
    """A power of two of iterations that take about as long as may pass between two questions."""
    each = max(work_of(jaxpr).nanoseconds, 1.0)
    return 1 << max(0, min(24, int(ASKING / each).bit_length() - 1))


def _ask_sometimes(build: Build, jaxpr: Jaxpr, index: str) -> None:
    mask = _steps_between(jaxpr) - 1
    f = build.f
    with f.when(f.put(f"icmp eq i64 {f.put(f'and i64 {index}, {mask}')}, {mask}")):
        build.ask()


@rule("scan", "rolled")
def _scan(region: Region, equation: Equation, values: list, *, loop: Loop) -> list:
    n_carry = loop.n_carry
    if any([type(v.aval) is StackAval for v in (*loop.body.inputs, *loop.body.outputs)]):
        raise Unsupported("a loop over lists of lists of unknown length (the derivative of a while_loop in it)")
    build, body = region.build, prune(loop.body)
    counted, values = loop.counted(values)
    length: Any = build.one.convert(build.lane(counted[0]), np.dtype(np.int64)).name if counted else loop.length
    consts, first, xs = loop.split(values)
    _checked([*consts, *first], body.inputs)
    outs = body.outputs
    computed = _computed(body)
    filled = equation.outputs[n_carry:]
    results: list[Any] = [exact(build, v.aval, length) if counted else region.target(v) for v in filled]
    ys = [y.entries if counted else y for y in results]
    row_of: dict[Any, int] = {}  # variable -> the output that has it as its rows
    for j, o in enumerate(outs[n_carry:]):
        if o in computed and ys[j].contiguous and o not in row_of:
            row_of[o] = j
    xs_views = [x if type(x) is Pile else build.hold(x) if type(x) is View else build.in_memory(x) for x in xs]
    carry, claimed = _carried(region, equation, loop, first, body, row_of)
    packed = _prepack(build, body, consts)
    f = build.f
    with f.loop(0, length, carried=carry.start, down=loop.reverse) as turn:
        index = turn.index
        now, free = carry.values(turn.values)
        items = [x.entry(build, index) if type(x) is Pile else entry_of(build, x, index) for x in xs_views]
        rows = [entry_of(build, y, index) for y in ys]
        targets: dict[Any, Any] = {o: free[i] for o, i in claimed.items()}
        targets |= {o: rows[j] for o, j in row_of.items() if o.aval.shape}
        found = Region(build, body, [*consts, *now, *items], targets).run()
        for row, value in zip(rows, found[n_carry:]):
            if not same_place(value, row):
                build.copy(value, row)
        in_rows = {i: rows[row_of[o]] for i, o in enumerate(outs[:n_carry]) if carry.kinds[i] == "row"}
        following = carry.following(found, now, free, in_rows)
        for value in found:
            build.drop(value)
        if counted or length * work_of(body).nanoseconds > 4 * ASKING:
            _ask_sometimes(build, body, index)
        turn.next(*following)
    _unpack(build, packed)
    for x in xs_views:
        build.drop(x)
    whole = {i: ys[row_of[o]] for i, o in enumerate(outs[:n_carry]) if carry.kinds[i] == "row"}
    return [*carry.results(turn.results, whole), *results]


@rule("while_loop")
def _while(region: Region, equation: Equation, values: list, *, loop: Loop) -> list:
    build, f = region.build, region.build.f
    assert loop.cond is not None
    cond_consts, consts, first, _ = loop.parts(values)
    growing = Growing(build, [v.aval for v in equation.outputs[1 + loop.n_carry :]])
    cond, body = prune(loop.cond), prune(loop.body)
    _checked([*cond_consts, *first], cond.inputs)
    _checked([*consts, *first], body.inputs)
    carry, claimed = _carried(region, equation, loop, first, body, ())
    packed = _prepack(build, body, consts)
    head, inside, done = f.label("head"), f.label("body"), f.label("done")
    start = [("i64", "0"), *carry.start]
    names = [f.fresh("c") for _ in start]
    before = f.block
    f.do(f"br label %{head}")
    f.open(head)
    place = len(f.lines)  # the phis are written when the loop is complete
    now, free = carry.values(names[1:])
    (test,) = Region(build, cond, [*cond_consts, *now]).run()
    f.do(f"br i1 {build.one.convert(build.lane(test), np.dtype(bool)).name}, label %{inside}, label %{done}")
    f.open(inside)
    with f._scope():
        places: dict[Any, Any] = {o: free[i] for o, i in claimed.items()}
        rows = growing.rows(names[0])
        computed = _computed(body)
        places = {o: row for o, row in zip(body.outputs[loop.n_carry :], rows) if o in computed and o.aval.shape} | places
        found = Region(build, body, [*consts, *now], places).run()
        for row, value in zip(rows, found[loop.n_carry :]):
            if not same_place(value, row):
                build.copy(value, row)
        following = carry.following(found, now, free, {})
        for value in found:
            build.drop(value)
        _ask_sometimes(build, body, names[0])
        following = [f.put(f"add i64 {names[0]}, 1"), *following]
    end = f.block
    f.do(f"br label %{head}")
    f.lines[place:place] = [
        f"  {name} = phi {kind} [{initial}, %{before}], [{after}, %{end}]"
        for name, (kind, initial), after in zip(names, start, following)
    ]
    f.open(done)
    _unpack(build, packed)
    count = Lane(equation.outputs[0].aval.dtype, (names[0],))
    return [count, *carry.results(names[1:], {}), *growing.piles(names[0])]


@rule("cond")
def _cond(region: Region, equation: Equation, values: list, *, branches: tuple[Jaxpr, ...]) -> list:
    build, f = region.build, region.build.f
    index, operands = build.lane(values[0]), values[1:]
    if index.dtype.kind == "f":
        raise Unsupported("a branch chosen by a float")
    if any([type(v.aval) is StackAval for v in equation.outputs]):
        raise Unsupported("a branch that fills a list of unknown length (the derivative of a while_loop in it)")
    wide = build.one.convert(index, np.dtype(np.int64)).name
    handed = {k: j for k, j in handed_through(equation).items() if region.writable(equation, values[j], j)}
    operands = [build.lent(v) if j in handed.values() else v for j, v in enumerate(operands, 1)]
    targets = [
        build.hold(values[handed[k]]) if k in handed else region.target(v) if v.aval.shape else build.new(v.aval.dtype, ())
        for k, v in enumerate(equation.outputs)
    ]
    done = f.label("done")
    last = len(branches) - 1
    chosen = [f.put(f"icmp sle i64 {wide}, {i}") for i in range(last)]  # here, where they come before every use
    for i, branch in enumerate(branches):
        _checked(operands, branch.inputs)
        branch = prune(branch)
        inside, other = f.label("branch"), f.label("next")
        if i < last:
            f.do(f"br i1 {chosen[i]}, label %{inside}, label %{other}")
        else:
            f.do(f"br label %{inside}")
        f.open(inside)
        with f._scope():
            computed = _computed(branch)
            places: dict[Any, View] = {}
            for k, (o, target) in enumerate(zip(branch.outputs, targets)):
                if o in computed and o.aval.shape and k not in handed:
                    places.setdefault(o, target)
            found = Region(build, branch, operands, places).run()
            for k, (value, o, target) in enumerate(zip(found, branch.outputs, targets)):
                if o.aval.dtype != target.dtype:
                    raise Unsupported("branches that give different dtypes")
                if k in handed and not same_place(value, target):
                    raise Unsupported("an array that was to be written in place is read after it was written")
                if not same_place(value, target):
                    build.copy(value, target)
                build.drop(value)
        f.do(f"br label %{done}")
        if i < last:
            f.open(other)
    f.open(done)
    results: list[Any] = []
    for v, target in zip(equation.outputs, targets):
        if v.aval.shape:
            results.append(target)
        else:
            results.append(build.lane(target))
            build.drop(target)
    return results


@rule("call", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "linear_solve", "root")
def _call(region: Region, equation: Equation, values: list, **params: Any) -> list:
    found = called(equation)
    if found is None:
        raise Unsupported(f"{equation.primitive.name} has no native code")
    body, atoms = found
    by_atom = dict(zip(map(id, equation.inputs), values))
    operands = [by_atom[id(a)] for a in atoms]
    _checked(operands, body.inputs)
    return Region(region.build, prune(body), operands).run()


@rule("fused")
def _fused(region: Region, equation: Equation, values: list, *, jaxpr: Jaxpr, kind: str, shape: tuple) -> list:
    return Region(region.build, jaxpr, values).run()


