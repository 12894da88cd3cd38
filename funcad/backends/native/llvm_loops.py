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

from funcad.backends.memory import carries_of, handed_through
from funcad.backends.native import gemm
from funcad.backends.native.growing import Growing, Pile, entry_of, exact
from funcad.backends.native.lane_types import Lane
from funcad.backends.native.program_build import Build
from funcad.backends.native.program_cost import work_of
from funcad.backends.native.program_region import Region, rule
from funcad.backends.native.program_values import View, moved_by, same_place, viewed
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Var, prune
from funcad.passes.subprograms import called
from funcad.primitives.loop import Loop

ASKING = 2e6  # nanoseconds of work, about, between two questions whether to stop


class _CarriedRegisters:
    """The carried values of a loop: registers of the loop's head, and what they stand for in the body."""

    def __init__(
        self,
        region: Region,
        equation: Equation,
        loop: Loop,
        first: Sequence[Any],
        in_rows: Container[Any],
        computed: set[Any],
    ):
        self.build = build = region.build
        self.avals = [v.aval for v in loop.carried(loop.body.inputs)]
        self.kinds = carries_of(loop, in_rows)
        self.first = first
        self.start: list[tuple[str, str]] = []  # (type, first value) of the registers
        self.own: list[tuple[View, ...]] = []  # memory of each
        self.claimed: dict[Any, int] = {}  # which of its buffers the body may compute an output into
        for i, (kind, value, aval, o) in enumerate(zip(self.kinds, first, self.avals, loop.body.outputs)):
            views: tuple[View, ...] = ()
            if kind == "number":
                lane = build.lane(value)
                if lane.dtype != aval.dtype:
                    raise Unsupported(f"a carry begins as {lane.dtype} and goes on as {aval.dtype}")
                self.start += [(build.one.register(build.one.part(lane.dtype)), p) for p in lane.parts]
            elif kind == "row":
                views = (build.ordered(value),)
                self.start.append(("ptr", build.pointer(views[0])))
            elif kind == "place":
                views = (self._place(region, equation, loop.first + i, value),)
            elif kind == "pair":
                views = build.in_order(value), build.new(aval.dtype, aval.shape)
                self.start += [("ptr", view.pointer) for view in views]
                if o in computed:
                    self.claimed.setdefault(o, i)
            self.own.append(views)

    def _place(self, region: Region, equation: Equation, i: int, value: Any) -> View:
        """Where elements of the carry are written, which is result i at last."""
        build, v = self.build, equation.outputs[i]
        if region.writable(equation, value, handed_through(equation)[i]):
            return build.hold(value)
        place = region.target(v)
        place = place if place.contiguous else build.new(v.aval.dtype, v.aval.shape)
        if not same_place(value, place):
            build.copy(value, place)
        return place

    def values(self, names: Sequence[str]) -> tuple[list[Any], list[View | None]]:
        """What the registers stand for: the carry, and where the next one is to be computed."""
        it = iter(names)
        found: list[Any] = []
        free: list[View | None] = []
        for kind, first, aval, own in zip(self.kinds, self.first, self.avals, self.own):
            other = None
            if kind == "number":
                parts = tuple([next(it) for _ in range(2 if aval.dtype.kind == "c" else 1)])
                found.append(Lane(aval.dtype, parts))
            elif kind == "same":
                found.append(first)
            elif kind == "place":
                found.append(self.build.lent(own[0]))
            else:
                found.append(View(next(it), aval.dtype, aval.shape, contiguous_strides(aval.shape)))
                if kind == "pair":
                    other = View(next(it), aval.dtype, aval.shape, contiguous_strides(aval.shape))
            free.append(other)
        return found, free

    def following(self, outs: Sequence[Any], now: Sequence[Any], free: Sequence[Any], rows: dict[int, View]) -> list[str]:
        """The registers of the next iteration; `rows`: which carry lies in a row of an output."""
        build = self.build
        names: list[str] = []
        for i, (kind, out) in enumerate(zip(self.kinds, outs)):
            if kind == "number":
                names += build.lane(out).parts
            elif kind == "row":
                names.append(build.pointer(rows[i]))
            elif kind == "pair":
                if not same_place(out, free[i]):
                    build.copy(out, free[i])
                names += [free[i].pointer, now[i].pointer]
            elif kind == "place" and not same_place(out, now[i]):
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
            elif self.kinds[i] == "place":
                value = self.own[i][0]
            elif self.kinds[i] == "pair":
                value = value._replace(buffers=(*self.own[i][0].buffers, *self.own[i][1].buffers))
            found.append(value)
        return found


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
            known[equation.outputs[0]] = moved_by(equation.primitive, known[equation.inputs[0]], **params)
        if name != "dot_general" or equation.inputs[1] not in known or equation.inputs[0] in known:
            continue
        (cx, cy), (bx, by) = params["dimension_numbers"]
        y = known[equation.inputs[1]]
        x = equation.inputs[0].aval
        if len(cx) != 1 or bx or len(y.shape) != 2 or y.dtype.kind != "f" or len(x.shape) not in (1, 2):
            continue
        y = viewed(y, lambda a, first=cy[0]: a.swapaxes(0, first))
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


@rule("loop")
def _loop(region: Region, equation: Equation, values: list, *, loop: Loop) -> list:
    if any([type(v.aval) is StackAval for v in (*loop.body.inputs, *loop.body.outputs)]):
        raise Unsupported("a loop over lists of lists of unknown length (the derivative of a while_loop in it)")
    build, f, n_carry = region.build, region.build.f, loop.n_carry
    body, cond = prune(loop.body), None if loop.cond is None else prune(loop.cond)
    counts, consts, first, xs = loop.parts(values)
    _checked([*consts, *first], body.inputs)
    outs, filled = body.outputs, equation.outputs[loop.first + n_carry :]
    computed = {v for e in body.equations for v in e.outputs}
    length: Any = loop.length
    results: list[Any]
    if cond is not None:
        _checked([*counts, *first], cond.inputs)
        growing = Growing(build, [v.aval for v in filled])
        rows_at, lying = growing.rows, [True] * len(filled)
    else:
        if length is None:
            length = build.one.convert(build.lane(counts[0]), np.dtype(np.int64)).name
        results = [exact(build, v.aval, length) if counts else region.target(v) for v in filled]
        ys = [y.entries if counts else y for y in results]
        rows_at, lying = lambda index: [entry_of(build, y, index) for y in ys], [y.contiguous for y in ys]
    row_of: dict[Any, int] = {}  # variable -> the output that has it as its rows
    for j, o in enumerate(outs[n_carry:]):
        if o in computed and lying[j]:
            row_of.setdefault(o, j)
    xs_views = [x if type(x) is Pile else build.hold(x) if type(x) is View else build.in_memory(x) for x in xs]
    in_rows = row_of if cond is None else {}  # the memory of lists that grow moves
    carry = _CarriedRegisters(region, equation, loop, first, in_rows, computed)
    packed = _prepack(build, body, consts)

    def goes_on(names: Sequence[str]) -> str:
        (test,) = Region(build, cond, [*counts, *carry.values(names)[0]]).run()
        return build.one.convert(build.lane(test), np.dtype(bool)).name

    with f.loop(0, length if cond is None else goes_on, carried=carry.start, down=loop.reverse) as turn:
        index = turn.index
        now, free = carry.values(turn.values)
        items = [x.entry(build, index) if type(x) is Pile else entry_of(build, x, index) for x in xs_views]
        rows = rows_at(index)
        targets: dict[Any, Any] = {o: rows[j] for o, j in row_of.items() if o.aval.shape}
        targets |= {o: free[i] for o, i in carry.claimed.items()}
        found = Region(build, body, [*consts, *now, *items], targets).run()
        for row, value in zip(rows, found[n_carry:]):
            if not same_place(value, row):
                build.copy(value, row)
        kept = {i: rows[row_of[o]] for i, o in enumerate(outs[:n_carry]) if carry.kinds[i] == "row"}
        following = carry.following(found, now, free, kept)
        for value in found:
            build.drop(value)
        if loop.length is None or length * work_of(body).nanoseconds > 4 * ASKING:
            _ask_sometimes(build, body, index)
        turn.next(*following)
    _unpack(build, packed)
    for x in xs_views:
        build.drop(x)
    if cond is not None:
        count = Lane(equation.outputs[0].aval.dtype, (turn.index,))
        return [count, *carry.results(turn.results, {}), *growing.piles(turn.index)]
    whole = {i: ys[row_of[o]] for i, o in enumerate(outs[:n_carry]) if carry.kinds[i] == "row"}
    return [*carry.results(turn.results, whole), *results]


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
            computed = {v for e in branch.equations for v in e.outputs}
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


