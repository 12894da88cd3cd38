"""Fusion: which equations run together as one loop.

Idea: every equation gets a *level*, such that a value of a lower level is there before a group of a higher level starts. An
element operation has the level of its operands if they live in the same *space*, an index set `(level, shape)`, and the next
level otherwise; all equations of one space form one group, so groups cannot wait for each other in a circle, and one look at
each equation is enough. A space of rows joins the space of the matrix that it was reduced from, or is broadcast to: map,
reduce, map over one read of the matrix. A group is then cut into connected parts, and what is alone stays as it was, unless
NumPy computes it one element after the other.

Broadcasts belong to their readers: each group has its own copy. An operation whose readers are all in one later group moves
there. Invariants: the normal form of `fused` (primitives/fused.py); effects keep their order. Traps: an accumulated value (a
sum over rows) is complete only after the loop, so its readers are on the next level; a matrix product joins only if the loop
saves a second read of a large matrix, since BLAS is better at a single one.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects
from funcad.ir.primitive import may_share
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.atoms import ELEMENTARY, atoms_of, fold_of
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.fused import fused_p
from funcad.primitives.shape import broadcast_in_dim, reshape

# -- A group of equations in the normal form of `fused`: broadcasts copied in, axes collapsed to rows and columns
#
# Trap: variables of the group are new ones, since those of a group of rows have other shapes than outside; reshapes around the
# group, which cost nothing for contiguous arrays, translate.


class Member(NamedTuple):
    """An equation of a group: its index in the program, and element, total (reduced to a scalar), row or column."""

    index: int
    role: str


class _Builder:
    """The group under construction."""

    def __init__(self, shape: tuple, split: int | None):
        self.shape = shape
        self.split = split  # None: any shape, else rows and columns
        self.inside: dict[Any, Var] = {}  # variables outside (and broadcasts of them) -> inside
        self.inputs: list[tuple[Var, Var]] = []  # (outside, inside)
        self.equations: list[Equation] = []

    def collapsed(self, shape: tuple) -> tuple:
        """The shape that a value of this shape has inside."""
        if self.split is None or not shape:
            return shape
        rows, columns = self.shape[: self.split], self.shape[self.split :]
        if shape == self.shape:
            return math.prod(rows), math.prod(columns)
        return (math.prod(shape),)

    def input(self, v: Var, column: bool = False) -> Var:
        """The variable that stands for v; in a square group a vector may be one as rows and another as columns."""
        found = self.inside.get(v)
        if found is not None and not column:
            return found
        key = (v, column) if column else v
        found = self.inside.get(key)
        if found is None:
            found = self.inside[key] = Var(Aval(self.collapsed(v.aval.shape), v.aval.dtype))
            self.inputs.append((v, found))
        return found

    def add(self, equation: Equation, inputs: list[Any], params: dict, shape: tuple) -> Var:
        out = Var(Aval(shape, equation.outputs[0].aval.dtype))
        self.equations.append(Equation(equation.primitive, tuple(inputs), params, (out,), equation.source))
        return out

    def view(self, equation: Equation) -> Var:
        """The group's own copy of a broadcast; what rows and columns cannot say is an input, broadcast outside."""
        v, source, axes = equation.outputs[0], equation.inputs[0], equation.params["axes"]
        found = self.inside.get(v)
        if found is not None:
            return found
        shape = equation.params["shape"]
        target = self.collapsed(shape)
        if self.split is None:
            params = {"shape": shape, "axes": axes}
        elif not axes:
            params = {"shape": target, "axes": ()}
        elif shape == self.shape and axes == tuple(range(self.split)) and source.aval.shape == shape[: self.split]:
            params = {"shape": target, "axes": (0,)}
        elif shape == self.shape and axes == tuple(range(self.split, len(shape))) and source.aval.shape == shape[self.split :]:
            params = {"shape": target, "axes": (1,)}
        else:
            return self.input(v)
        inner = self.input(source, params["axes"] == (1,))
        out = Var(Aval(target, v.aval.dtype))
        self.equations.append(Equation(broadcast_in_dim, (inner,), params, (out,), equation.source))
        self.inside[v] = out
        return out


def build_group(
    jaxpr: Jaxpr, part: list[Member], shape: tuple, split: int | None, views: dict[Var, Equation], readers: dict[Var, list[int]]
) -> list[Equation]:
    """The equations that replace the members: reshapes of inputs, one `fused`, reshapes of outputs."""
    shape, split = _kind(jaxpr, part, shape, split)
    builder = _Builder(shape, split)
    indices = {m.index for m in part}
    outputs = []
    for m in part:
        equation = jaxpr.equations[m.index]
        inputs = []
        if "dimension_numbers" not in equation.params:
            read = lambda a: a if type(a) is Literal else builder.view(views[a]) if a in views else builder.input(a)
            inputs = [read(a) for a in equation.inputs]
        out = equation.outputs[0]
        inner = _member(builder, m.role, equation, inputs)
        builder.inside[out] = inner
        if any([r not in indices for r in readers.get(out, ())]):
            outputs.append((out, inner))
    inside = Jaxpr(tuple([v for _, v in builder.inputs]), tuple(builder.equations), tuple([v for _, v in outputs]))
    around: list[Equation] = []
    operands = []
    for v, inner in builder.inputs:
        operands.append(v)
        if v.aval.shape != inner.aval.shape:
            operands[-1] = Var(inner.aval)
            around.append(Equation(reshape, (v,), {"shape": inner.aval.shape}, (operands[-1],)))
    after = []
    results = []
    for v, inner in outputs:
        results.append(v)
        if v.aval.shape != inner.aval.shape:
            results[-1] = Var(inner.aval)
            after.append(Equation(reshape, (results[-1],), {"shape": v.aval.shape}, (v,)))
    kind = "elementwise" if split is None else "rows"
    params = {"jaxpr": inside, "kind": kind, "shape": builder.collapsed(shape)}
    source = jaxpr.equations[part[0].index].source
    return [*around, Equation(fused_p, tuple(operands), params, tuple(results), source), *after]


def _kind(jaxpr: Jaxpr, part: list[Member], shape: tuple, split: int | None) -> tuple[tuple, int | None]:
    """Shape and split of a part of a group: without anything that needs rows, it is element by element."""
    if split is None:
        return shape, None
    if all([m.role in ("element", "total") for m in part]):
        shapes = {
            (e.outputs[0] if m.role == "element" else e.inputs[0]).aval.shape for m in part for e in [jaxpr.equations[m.index]]
        }
        if len(shapes) == 1:
            return shapes.pop(), None
    return shape, split


def _member(builder: _Builder, role: str, equation: Equation, inputs: list[Any]) -> Var:
    """The member's equation inside the group."""
    if role == "element":
        return builder.add(equation, inputs, equation.params, builder.collapsed(equation.outputs[0].aval.shape))
    if builder.split is None:
        return builder.add(equation, inputs, equation.params, ())
    if "dimension_numbers" in equation.params:
        inputs = [builder.input(a, column=role == "row" and len(a.aval.shape) == 1) for a in equation.inputs]
        x, v = inputs if len(inputs[0].aval.shape) == 2 else inputs[::-1]
        numbers = (((1,), (0,)), ((), ())) if role == "row" else (((0,), (0,)), ((), ()))
        shape = x.aval.shape[:1] if role == "row" else x.aval.shape[1:]
        return builder.add(equation, [x, v], {"dimension_numbers": numbers}, shape)
    (x,) = inputs
    if len(x.aval.shape) == 1:  # rows are summed up
        return builder.add(equation, inputs, {"axes": (0,)}, ())
    if role == "column":
        return builder.add(equation, inputs, {"axes": (0,)}, x.aval.shape[1:])
    row = builder.add(equation, inputs, {"axes": (1,)}, x.aval.shape[:1])
    return row if role == "row" else builder.add(equation, [row], {"axes": (0,)}, ())


# -- fusion


MATRIX = 1 << 15  # elements from which two products with one matrix are worth a common loop
DEAR = 1 << 12  # elements from which an elementary function alone is worth a loop of its own
LONGEST = 2000  # equations of one group: beyond, its code is more than the processor's cache of instructions takes


class _Group:
    """Spaces that are looped over together: a full one, and possibly that of its rows."""

    __slots__ = ("full", "row", "split", "members")

    def __init__(self, full: _Space):
        self.full = full
        self.row: _Space | None = None
        self.split: int | None = None  # axes before it are rows, once something says so
        self.members: list[Member] = []


class _Space:
    """The values of one shape that one group computes."""

    __slots__ = ("level", "shape", "group")

    def __init__(self, level: int, shape: tuple):
        self.level = level
        self.shape = shape
        self.group = _Group(self)


class _Fusion:
    """The state of one pass over one program."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.views: dict[Var, Equation] = {}  # results of broadcasts, which cost nothing
        self.spaces: dict[tuple[int, tuple], _Space] = {}
        self.space: dict[Var, _Space] = {}  # of the values that later members of the group may read
        self.ready: dict[Var, int] = dict.fromkeys(jaxpr.inputs, 0)  # the level on which others may read a value
        self.placed: list[tuple[_Space, Member] | None] = []  # for each equation
        self.effects = 0  # level of the last effect
        self.matrices = matrices(jaxpr)
        self.lasting = set(jaxpr.inputs)  # what is there to the end in any case: arguments and parts of them

    # -- levels

    def assign(self) -> None:
        for i, equation in enumerate(self.jaxpr.equations):
            place = None
            primitive = equation.primitive
            if primitive is broadcast_in_dim and type(equation.inputs[0]) is Var:
                self.views[equation.outputs[0]] = equation
            if not primitive.multiple and self.lasting.intersection(equation.inputs[:1]) and may_share(equation):
                self.lasting.add(equation.outputs[0])
            if not primitive.effect and not primitive.multiple:
                if primitive.emit is not None:
                    place = self.element(i, equation)
                elif fold_of(primitive) is not None:
                    place = self.reduction(i, equation)
                elif primitive is dot_general_p and self.matrices:
                    place = self.product(i, equation)
            if place is None:
                self.alone(equation)
            else:
                place[0].group.members.append(place[1])
            self.placed.append(place)

    def alone(self, equation: Equation) -> None:
        """An equation that no group takes."""
        level = max([self.after(a) for a in equation.inputs if type(a) is Var], default=0)
        if equation_has_effects(equation):
            level = self.effects = max(level, self.effects)
        for v in equation.outputs:
            self.ready[v] = level

    def after(self, v: Var) -> int:
        return self.ready[v]

    def at(self, level: int, shape: tuple) -> _Space:
        space = self.spaces.get((level, shape))
        if space is None:
            space = self.spaces[level, shape] = _Space(level, shape)
        return space

    def result(self, v: Var, space: _Space | None, level: int) -> None:
        """v is computed by a group of this level; members may read it if it belongs to a space."""
        if space is not None:
            self.space[v] = space
        self.ready[v] = level + 1

    def element(self, i: int, equation: Equation) -> tuple[_Space, Member] | None:
        out = equation.outputs[0]
        shape = out.aval.shape
        if not shape or not out.aval.size or type(out.aval) is not Aval:
            return None
        level, rows = 0, []
        for a in equation.inputs:
            if type(a) is Literal:
                continue
            view = self.views.get(a)
            if view is None:
                own = self.space.get(a)
                level = max(level, own.level if own is not None and own.shape == shape else self.after(a))
                continue
            source = view.inputs[0]
            own = self.space.get(source)
            axes = view.params["axes"]
            leading = 0 < len(axes) < len(shape) and axes == tuple(range(len(axes)))
            if own is not None and leading and source.aval.shape == shape[: len(axes)]:
                rows.append((own, len(axes)))
                level = max(level, own.level)
            else:
                level = max(level, self.after(source))
        for own, k in rows:
            if own.level == level and not _unify(self.at(level, shape), own, k):
                level += 1
                break
        space = self.at(level, shape)
        self.result(out, space, level)
        return space, Member(i, "element")

    def reduction(self, i: int, equation: Equation) -> tuple[_Space, Member] | None:
        x, out = equation.inputs[0], equation.outputs[0]
        if type(x) is Literal or x in self.views or not x.aval.size or x.aval.dtype != out.aval.dtype:
            return None
        shape, axes = x.aval.shape, equation.params["axes"]
        own = self.space.get(x)
        level = self.after(x) if own is None else own.level
        space = self.at(level, shape)
        n, count = len(shape), len(axes)
        if count == n:
            self.result(out, None, level)
            return space, Member(i, "total")
        if axes == tuple(range(n - count, n)):
            row = self.at(level, shape[: n - count])
            if not _unify(space, row, n - count):
                return None
            self.result(out, row, level)
            return space, Member(i, "row")
        if axes == tuple(range(count)):
            group = space.group
            if group.full is not space or group.split not in (None, count):
                return None
            group.split = count
            self.result(out, None, level)
            return space, Member(i, "column")
        return None

    def product(self, i: int, equation: Equation) -> tuple[_Space, Member] | None:
        """A large matrix times a vector, if another product reads the same matrix."""
        found = _matrix_and_vector(equation)
        if found is None or found[0] not in self.matrices:
            return None
        x, v, along_rows = found
        own = self.space.get(x)
        level = self.after(x) if own is None else own.level
        if along_rows:
            level = max(level, self.after(v))
            space = self.at(level, x.aval.shape)
            row = self.at(level, x.aval.shape[:1])
            if not _unify(space, row, 1):
                return None
            self.result(equation.outputs[0], row, level)
            return space, Member(i, "row")
        vector = self.space.get(v)
        level = max(level, self.after(v) if vector is None else vector.level)
        space = self.at(level, x.aval.shape)
        if vector is not None and vector.level == level and not _unify(space, vector, 1):
            return None
        group = space.group
        if group.full is not space or group.split not in (None, 1):
            return None
        group.split = 1
        self.result(equation.outputs[0], None, level)
        return space, Member(i, "column")

    # -- moving to the readers

    def sink(self) -> None:
        """Element operations whose readers are all later move to the first group that reads them."""
        equations = self.jaxpr.equations
        readers: dict[Var, list[int]] = {}
        kept = {o for o in self.jaxpr.outputs if type(o) is Var}
        last: dict[Var, int] = {}  # the highest level on which a value is read
        for i in range(len(equations) - 1, -1, -1):
            place, equation = self.placed[i], equations[i]
            out = equation.outputs[0] if equation.outputs else None
            if place is not None and place[1].role == "element" and out not in kept:
                place = self.placed[i] = self.moved(place, equation, readers.get(out, []), last)
            level = place[0].level if place is not None else max([self.ready[v] for v in equation.outputs], default=0)
            for a in equation.inputs:
                if type(a) is Var:
                    readers.setdefault(a, []).append(i)
                    last[a] = max(last.get(a, 0), level)

    def moved(self, place: Any, equation: Equation, readers: list[int], last: dict[Var, int]) -> Any:
        space, member = place
        places = [self.placed[r] for r in readers]
        if not places or any([p is None or p[0].level <= space.level or p[0].shape != space.shape for p in places]):
            return place
        target = min([p[0] for p in places], key=lambda s: s.level)
        full = {a for a in equation.inputs if type(a) is Var and a not in self.views and a not in self.lasting}
        if sum([last.get(a, -1) < target.level for a in full]) > 1:
            return place  # its operands would have to be kept in its place
        space.group.members.remove(member)
        target.group.members.append(member)
        return target, member


def _unify(full: _Space, row: _Space, split: int) -> bool:
    """Loop over both together, `row` holding the rows of `full`; False if one of them is taken otherwise."""
    group, other = full.group, row.group
    if group is other:
        return group.full is full and group.row is row and group.split == split
    if group.full is not full or group.split not in (None, split) or group.row is not None:
        return False
    if other.full is not row or other.split is not None or other.row is not None:
        return False
    group.split, group.row = split, row
    group.members += other.members
    row.group = group
    return True


def _matrix_and_vector(equation: Equation) -> tuple[Var, Var, bool] | None:
    """(matrix, vector, does it run along the rows) of a product of the two."""
    (cx, cy), (bx, _) = equation.params["dimension_numbers"]
    x, y = equation.inputs
    if bx or len(cx) != 1 or type(x) is Literal or type(y) is Literal or x.aval.dtype.kind not in "fiu":
        return None
    if (x.aval.ndim, y.aval.ndim) == (2, 1):
        return x, y, cx[0] == 1
    if (x.aval.ndim, y.aval.ndim) == (1, 2):
        return y, x, cy[0] == 1
    return None


def matrices(jaxpr: Jaxpr) -> frozenset:
    """Large matrices that at least two products with vectors read, one of them along the rows."""
    uses: dict[Var, list[bool]] = {}
    for equation in jaxpr.equations:
        if equation.primitive is dot_general_p:
            found = _matrix_and_vector(equation)
            if found is not None and found[0].aval.size >= MATRIX:
                uses.setdefault(found[0], []).append(found[2])
    return frozenset([x for x, along in uses.items() if len(along) > 1 and any(along)])


def _parts(group: _Group, jaxpr: Jaxpr, views: dict[Var, Equation]) -> list[list[Member]]:
    """The members, in order, in connected parts: those that read or compute a common value of more than one element."""
    members = sorted(group.members, key=lambda m: m.index)
    parent: dict[Any, Any] = {}

    def root(x: Any) -> Any:
        while parent.setdefault(x, x) is not x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for m in members:
        equation = jaxpr.equations[m.index]
        own = root(equation.outputs[0])
        for a in equation.inputs:
            if type(a) is Var:
                view = views.get(a)
                source = a if view is None else view.inputs[0]
                if source.aval.shape:
                    parent[root(source)] = own
    parts: dict[Any, list[Member]] = {}
    for m in members:
        parts.setdefault(root(jaxpr.equations[m.index].outputs[0]), []).append(m)
    return list(parts.values())


def _short(part: list[Member], jaxpr: Jaxpr) -> list[list[Member]]:
    """A part, cut if it is too long for one loop, each time where the fewest bytes cross in the second half of what fits."""
    if len(part) <= LONGEST:
        return [part]
    made: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for i, m in enumerate(part):
        equation = jaxpr.equations[m.index]
        for a in equation.inputs:
            if type(a) is Var:
                made.setdefault(a, i)  # of an operand from outside: read at first, and again behind a cut
                last[a] = i
        made[equation.outputs[0]] = i
    steps = [0] * (len(part) + 1)
    for v, i in made.items():
        if last.get(v, i) > i:
            size = v.aval.size * v.aval.dtype.itemsize
            steps[i + 1] += size
            steps[last[v] + 1] -= size
    crossing = list(accumulate(steps))  # [k]: between members k - 1 and k
    found, start = [], 0
    while len(part) - start > LONGEST:
        stop = min(range(start + LONGEST, start + LONGEST // 2, -1), key=crossing.__getitem__)
        found.append(part[start:stop])
        start = stop
    return [*found, part[start:]]


def fuse(jaxpr: Jaxpr) -> Jaxpr:
    """The program with `fused` equations in the place of groups of two equations or more, in the programs inside too."""
    found: Jaxpr | None = jaxpr.memo.get("fused")
    if found is None:
        found = jaxpr.memo.setdefault("fused", _fused(_with_fused_bodies(jaxpr)))
    return found


def _with_fused_bodies(jaxpr: Jaxpr) -> Jaxpr:
    if not any([e.primitive.multiple and kind_of(e) is not None for e in jaxpr.equations]):
        return jaxpr
    equations = tuple([with_subprograms(e, fuse) for e in jaxpr.equations])
    return Jaxpr(jaxpr.inputs, equations, jaxpr.outputs)


def _fused(jaxpr: Jaxpr) -> Jaxpr:
    if len(jaxpr.equations) < 2 and not any([_dear(e) for e in jaxpr.equations]):
        return jaxpr
    fusion = _Fusion(jaxpr)
    fusion.assign()
    fusion.sink()
    units: list[Any] = list(jaxpr.equations)  # each equation, or the list of equations of the group that it belongs to
    readers = _readers(jaxpr, fusion.views)
    cut: dict[Jaxpr, str] = {}
    for group in {id(s.group): s.group for s in fusion.spaces.values()}.values():
        for whole in _parts(group, jaxpr, fusion.views):
            parts = _short(whole, jaxpr)
            for number, part in enumerate(parts, 1):
                if len(part) > 1 or _dear(jaxpr.equations[part[0].index]):
                    together = build_group(jaxpr, part, group.full.shape, group.split, fusion.views, readers)
                    for m in part:
                        units[m.index] = together
                    if len(parts) > 1:
                        text = f"part {number} of {len(parts)} of {len(whole)} operations, cut where the fewest bytes cross"
                        cut.update([(e.params["jaxpr"], text) for e in together if e.primitive is fused_p])
    alone = all([type(u) is Equation for u in units])
    result = jaxpr if alone else Jaxpr(jaxpr.inputs, tuple(_ordered(units, jaxpr)), jaxpr.outputs)
    result.memo["cut"] = cut  # for who asks why it is not one loop
    return result


def _dear(equation: Equation) -> bool:
    """Is this, alone, worth a loop? NumPy computes most elementary functions one element after the other."""
    if equation.primitive.emit is None or equation.outputs[0].aval.size < DEAR:
        return False
    return any([atom in ELEMENTARY for atom in atoms_of(equation)])


def _readers(jaxpr: Jaxpr, views: dict[Var, Equation]) -> dict[Var, list[int]]:
    """Who reads a value, directly or through a broadcast: indices of equations, -1 for the program's outputs."""
    readers: dict[Var, list[int]] = {}

    def note(a: Any, i: int) -> None:
        readers.setdefault(a, []).append(i)
        view = views.get(a)
        if view is not None:
            note(view.inputs[0], i)

    for i, equation in enumerate(jaxpr.equations):
        if equation.outputs and equation.outputs[0] in views:
            continue
        for a in equation.inputs:
            if type(a) is Var:
                note(a, i)
    for o in jaxpr.outputs:
        if type(o) is Var:
            note(o, -1)
    return readers


def _ordered(units: list[Any], jaxpr: Jaxpr) -> list[Equation]:
    """Every unit once, after what it reads and otherwise as late as its last equation was; unread broadcasts are dropped."""
    makers: dict[Var, Any] = {}
    needed: set[Var] = {o for o in jaxpr.outputs if type(o) is Var}
    lists = {id(u): u for u in units}
    for u in lists.values():
        for equation in (u,) if type(u) is Equation else u:
            for v in equation.outputs:
                makers[v] = u
            needed.update([a for a in equation.inputs if type(a) is Var])
    place = {id(u): i for i, u in enumerate(units)}  # of its last equation
    done: set[int] = set()
    result: list[Equation] = []
    for start in sorted(lists.values(), key=lambda u: place[id(u)]):
        stack = [(start, False)]
        while stack:
            unit, complete = stack.pop()
            if id(unit) in done:
                continue
            equations = (unit,) if type(unit) is Equation else unit
            if complete:
                done.add(id(unit))
                view = type(unit) is Equation and unit.primitive is broadcast_in_dim
                if not view or unit.outputs[0] in needed:
                    result += equations
                continue
            stack.append((unit, True))
            waiting = {
                id(m): m
                for e in equations
                for a in e.inputs
                if type(a) is Var and (m := makers.get(a)) is not None and m is not unit and id(m) not in done
            }
            stack += [(m, False) for m in sorted(waiting.values(), key=lambda m: -place[id(m)])]
    return result
