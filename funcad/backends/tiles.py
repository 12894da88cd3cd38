"""Fused groups as blocks of rows that stay in the processor's cache.

Idea: a large group (primitives/fused.py has the normal form) becomes a function `fused(low, high, inputs, outputs)`, whose
loop cuts tiles of some 32 thousand elements out of its inputs and outputs and runs the group's lines on them, with scratch
arrays for the temporaries. Elementwise groups run over flattened arrays, or over slices of one axis where an input broadcasts;
groups of kind "rows" over blocks of rows. Sums over all elements are collected tile by tile and added at the end; sums that
are columns are added block by block. Groups rich in transcendental functions share their tiles among threads. Small groups are
plain lines. Invariants: a tile is read and written at the same place only; the last, shorter tile uses the front of the
scratch arrays. Trap: in a square group the shape does not say whether a vector is a row value or a column value, so roles are
inferred.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.batches import parallel
from funcad.backends.blas_threads import SHORT
from funcad.backends.cost import numpy_ns
from funcad.backends.memory import Storage, Value, deaths, writable_operand
from funcad.backends.text import Block, dtype_text, shape_text
from funcad.backends.text_rules import ones_of
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.primitives.basic_indexing import attains_p

# -- operations that a tile of a group writes otherwise than a plain line does
#
# Idea: in a tile every result has its place, scratch memory or a piece of an output, so nothing may allocate. A conversion is
# written into its place. A choice is made of bits: the mask, widened to 0 or -1, is combined with the bits of both operands,
# which keeps every bit of the chosen one (signs of zero and NaN too) and takes the same time for every mask, where `np.where`
# waits for each element that it did not foresee. A mask that holds once in every row, as where rows attain their extrema, is
# asked for: then counting it and choosing by it concern one element of each row. A sum along the rows is `np.einsum`'s, whose
# inner loop uses whole vectors, also where rows are short. Invariant: an output's tile may be the memory of an operand, so it
# is written by the last line only.


LONG_ROW = 64  # elements from which on a sum of squares is one product
LONGEST_ROW = 4096  # elements up to which a sum has few enough terms for each of einsum's 32 (or 16) partial sums


def bits_of(x: Any) -> Any:
    """The numbers of an array as signed integers of the same width and byte order.

    >>> import numpy as np
    >>> from funcad.backends.tiles import bits_of
    >>> bits_of(np.array([0.0, 2.0], ">f8")).tolist()
    [0, 4611686018427387904]
    """
    dtype = x.dtype
    return x.view(f"{dtype.byteorder}i{dtype.itemsize}")


def attained(x: Any, top: Any, out: Any) -> None:
    """Where the rows attain their extrema: NaN attains it, for then the extremum is NaN too, which few tiles hold.

    >>> import numpy as np
    >>> from funcad.backends.tiles import attained
    >>> x, out = np.array([[1.0, 2.0], [np.nan, 3.0]]), np.empty((2, 2), bool)
    >>> attained(x, np.max(x, axis=1)[:, None], out)
    >>> out.tolist()
    [[False, True], [True, False]]
    """
    np.equal(x, top, out)
    if np.isnan(top[:, :1]).any():
        np.logical_or(out, np.isnan(x), out)


def single(mask: Any) -> tuple | None:
    """Rows and columns of the elements that hold, if each row has exactly one, as where it attains its extremum; else None.

    >>> import numpy as np
    >>> from funcad.backends.tiles import single
    >>> [columns.tolist() for columns in single(np.array([[False, True], [True, False]]))]
    [[0, 1], [1, 0]]
    >>> single(np.array([[True, True], [False, False]])) is None
    True
    """
    n = len(mask)
    if np.count_nonzero(mask) != n:
        return None
    place = np.arange(n), mask.argmax(1)
    return place if mask[place].all() else None


def folded(equations: list[Equation], outputs: Any, masks: bool) -> list[Equation]:
    """The equations of a group of rows: a sum takes both factors of a square; with `masks`, which changes no bit, also a mask
    without its conversion, and `x == max(x) or isnan(x)` is one operation."""
    made = {q.outputs[0]: q for q in equations}
    reads = Counter([a for q in equations for a in q.inputs if type(a) is Var] + [o for o in outputs if type(o) is Var])
    gone: set[Var] = set()
    result = []
    for q in equations:
        if masks and q.primitive.name == "or":
            same, nan = [made.get(a) for a in q.inputs]
            x = _attaining(same, nan, made)
            if x is not None and all([reads[a] == 1 for a in q.inputs]):
                gone.update(q.inputs)
                q = Equation(attains_p, same.inputs, {}, q.outputs, q.source)  # type: ignore[union-attr]
        elif q.primitive.name == "reduce_sum" and q.params["axes"] == (1,) and q.outputs[0].aval.dtype.char in "fd":
            term = made.get(q.inputs[0])
            if term is not None and reads[q.inputs[0]] == 1 and _summed_otherwise(term, made, masks):
                gone.add(q.inputs[0])
                q = q._replace(inputs=term.inputs)
        result.append(q)
    return [q for q in result if q.outputs[0] not in gone]


def _summed_otherwise(term: Equation, made: dict[Var, Equation], masks: bool) -> bool:
    """Is it a converted mask, or the square of a matrix of long rows? Only squares are summed as they are multiplied: BLAS
    may add a product that it has not rounded, whose overflow a term of the other sign could undo."""
    x = term.inputs[0]
    if type(x) is not Var:
        return False
    if term.primitive.name == "mul":
        spread = x in made and made[x].primitive.name == "broadcast_in_dim"
        return term.inputs[1] is x and not spread and LONG_ROW <= x.aval.shape[1] <= LONGEST_ROW
    return masks and term.primitive.name == "convert" and x.aval.dtype.kind == "b" and x in made


def _attaining(same: Equation | None, nan: Equation | None, made: dict[Var, Equation]) -> Any:
    """x if the two are `x == extremum` and `isnan(x)`, where the extremum is that of x's own rows, spread over them."""
    if same is None or nan is None or (same.primitive.name, nan.primitive.name) != ("eq", "isnan"):
        return None
    x, spread = same.inputs
    top = made.get(spread)
    top = made.get(top.inputs[0]) if top is not None and top.primitive.name == "broadcast_in_dim" else None
    known = top is not None and top.primitive.name in ("reduce_max", "reduce_min") and top.params["axes"] == (1,)
    return x if known and top.inputs[0] is x is nan.inputs[0] else None  # type: ignore[union-attr]


def write_by_rule(e: Any, q: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """Write this equation's lines in a tile; False: a plain line does. `e` is the Emission."""
    rule = _RULES.get(q.primitive.name)
    if e.w.np != "np" and rule is not _row_sum:  # the other rules are quicker, bit for bit the same, and harder to read
        return False
    return rule is not None and rule(_Place(e, q, env, rows), q, operands, dying)


class _Place:
    """Where the result of an equation goes."""

    def __init__(self, e: Any, q: Equation, env: dict, rows: dict):
        self.e, self.w, self.env = e, e.w, env
        self.var: Var = q.outputs[0]
        self.aval: Any = self.var.aval
        wanted = rows.get(self.var)
        self.direct: str | None = wanted[0].text if wanted else None

    def scratch(self, dtype: Any = None) -> tuple[str, Storage] | None:
        return self.e.scratch(self.aval if dtype is None else Aval(self.aval.shape, np.dtype(dtype)))

    def single(self, mask: Any, text: str) -> str:
        """The name of where the rows of a mask have their only element that holds."""
        frame = self.e.frame
        found: str | None = frame.views.get(("single", mask))
        if found is None:
            found = frame.views["single", mask] = self.w.name("at")
            self.w.line(f"{found} = {self.w.helper('single', single)}({text})")
        return found

    def give_back(self, storage: Storage) -> None:
        self.e.frame.free.setdefault(storage.key, []).append(storage.scratch)

    def result(self, text: str, storage: Storage | None) -> None:
        storage = Storage(False) if storage is None else storage
        self.env[self.var] = self.e.value(text, self.aval, [storage], whole=storage.owned)

    def bits(self, text: str, dtype: np.dtype) -> str:
        """Memory of the loop as integers; of a whole scratch array the view is made once, in front of the loop."""
        frame = self.e.frame
        found: str | None = frame.views.get((text, dtype))
        if found is None:
            view = f"{text}.view({dtype_text(self.w, dtype)})"
            shape = next((shape for name, shape, _ in frame.names if name == text), None)
            if shape is None:
                return view
            found = frame.views[text, dtype] = self.w.name("b")
            with self.w.within(frame.block):
                self.w.line(f"{found} = {view}")
            frame.names.append((found, shape, dtype))
        return found


# ---------------------------------------------------------------- conversions and sums


def _convert(place: _Place, q: Equation, operands: list[Value], dying: list[Value]) -> bool:
    (x,) = operands
    kinds = x.aval.dtype.kind + place.aval.dtype.kind
    if q.params.get("weak") or x.shape != place.aval.shape or "c" in kinds or x.aval.dtype == place.aval.dtype:
        return False
    return _statement(place, "{target}[...] = " + x.text)


def _row_sum(place: _Place, q: Equation, operands: list[Value], dying: list[Value]) -> bool:
    x = operands[0]
    if len(operands) == 2:
        if place.w.np == "np":
            return _statement(place, f"np.vecdot({x.text}, {x.text}, {{target}})")
        exported = f"np.vecdot({x.text}, {x.text}) if xp is np else xp.sum({x.text} * {x.text}, axis=1)"
        return _statement(place, "{target}[...] = " + exported)
    if x.aval.dtype.kind == "b" and place.aval.dtype.kind == "f":
        return _count(place, q, x)
    if q.params["axes"] != (1,) or x.aval.dtype.char not in "fd" or x.shape != x.aval.shape or x.shape[1] > LONGEST_ROW:
        return False
    if place.w.np == "np" and x.shape[1] <= SHORT:
        ones = ones_of(place.w, x.shape[1], x.aval.dtype)
        return _statement(place, f"np.matmul({x.text}, {ones}, {{target}})")
    if place.w.np == "np":
        return _statement(place, f'np.einsum("ij->i", {x.text}, out={{target}})')
    return _statement(place, f'{{target}}[...] = {place.w.np}.einsum("ij->i", {x.text})')  # CuPy's has no `out`


def _count(place: _Place, q: Equation, mask: Value) -> bool:
    """How many elements of each row hold, most often one, which needs no sum."""
    w, dtype = place.w, place.aval.dtype
    wide, storage = place.e.scratch(Aval(mask.aval.shape, dtype), place.e.frame.full)
    target, own = (place.direct, None) if place.direct is not None else place.scratch()  # type: ignore[misc]
    w.line(f"if {place.single(q.inputs[0], mask.text)} is None:")
    with w.within(w.inner()):
        w.line(f"{wide}[...] = {mask.text}")
        w.line(f'{w.np}.einsum("ij->i", {wide}, out={target})')
    w.line("else:")
    with w.within(w.inner()):
        w.line(f"{target}.fill(1.0)")
    place.give_back(storage)
    place.result(target, own)
    return True


def _attains(place: _Place, q: Equation, operands: list[Value], dying: list[Value]) -> bool:
    x, top = operands
    if len(place.aval.shape) != 2:
        return False
    return _statement(place, f"{place.w.helper('attained', attained)}({x.text}, {top.text}, {{target}})")


def _statement(place: _Place, text: str) -> bool:
    """One line that writes the result into its place."""
    target, storage = place.direct, None
    if target is None:
        found = place.scratch()
        if found is None:
            return False
        target, storage = found
    place.w.line(text.format(target=target))
    place.result(target, storage)
    return True


# ---------------------------------------------------------------- choices


def _select(place: _Place, q: Equation, operands: list[Value], dying: list[Value]) -> bool:
    """`mask & x` where the other choice is zero, else `mask & (x ^ y) ^ y`, of integers as wide as the elements."""
    w, dtype = place.w, place.aval.dtype
    mask, *chosen = operands
    integer = np.dtype(f"i{dtype.itemsize}") if dtype.kind in "fiu" and dtype.itemsize in (2, 4, 8) else None
    if integer is None or mask.shape != place.aval.shape or type(q.inputs[0]) is not Var:
        return False
    constants = [_constant(a, dtype) for a in q.inputs[1:]]
    if any([k is None and (v.aval.dtype != dtype or not v.shape) for k, v in zip(constants, chosen)]):
        return False
    found, narrow = place.scratch(), place.scratch(np.int8)
    if found is None or narrow is None:
        return False
    (text, storage), (small, small_storage) = found, narrow
    wide = place.bits(text, integer)
    target = wide if place.direct is None else f"{w.helper('bits_of', bits_of)}({place.direct})"
    x, y = [_operand(place, k, v, integer) for k, v in zip(constants, chosen)]
    held = place.bits(small, np.dtype(bool))
    shape = place.aval.shape
    each = _is_zero(constants[1]) and len(shape) == 2 and 1 not in shape and chosen[0].shape == (shape[0], 1)
    if each:
        at = place.single(q.inputs[0], mask.text)
        w.line(f"if {at} is None:")
    with w.within(w.inner() if each else w.block):
        w.line(f"{w.np}.not_equal({place.bits(mask.text, np.dtype(np.int8))}, 0, {held})")  # True may be another byte than 1
        if _is_zero(constants[0]) and not _is_zero(constants[1]):
            w.line(f"{w.np}.subtract({small}, 1, {small})")  # the mask of what is not chosen
            x, y = y, None
        else:
            w.line(f"{w.np}.negative({small}, {small})")
            y = None if _is_zero(constants[1]) else y
        w.line(f"{wide}[...] = {small}")
        place.give_back(small_storage)
        if y is None:
            w.line(f"{w.np}.bitwise_and({wide}, {x}, {target})")
        else:
            alone = not set(chosen[0].storages).intersection(chosen[1].storages)  # y is read once more after that
            _mix(place, wide, x, y, target, integer, writable_operand(chosen[:1], dying, place.aval) if alone else None)
    if each:
        w.line("else:")
        with w.within(w.inner()):
            w.line(f"{place.direct or text}.fill(0)")
            w.line(f"{place.direct or text}[{at}] = {chosen[0].text}[:, 0]")
    if place.direct is None:
        place.result(text, storage)
    else:
        place.give_back(storage)
        place.result(place.direct, None)
    return True


def _mix(place: _Place, wide: str, x: str, y: str, target: str, integer: np.dtype, dead: Value | None) -> None:
    """The lines of `wide & (x ^ y) ^ y`; the bits in which they differ replace those of x if nobody needs them any more."""
    w, storage = place.w, None
    if dead is not None and dead.text != place.direct:
        differ = place.bits(dead.text, integer)
    else:
        text, storage = place.scratch()  # type: ignore[misc]  # there was scratch memory of this shape before
        differ = place.bits(text, integer)
    w.line(f"{w.np}.bitwise_xor({x}, {y}, {differ})")
    w.line(f"{w.np}.bitwise_and({wide}, {differ}, {wide})")
    w.line(f"{w.np}.bitwise_xor({wide}, {y}, {target})")
    if storage is not None:
        place.give_back(storage)


def _constant(atom: Any, dtype: np.dtype) -> np.ndarray | None:
    """A literal as an array of no axes; None for a variable."""
    return np.array(atom.value, dtype) if type(atom) is Literal else None


def _is_zero(constant: np.ndarray | None) -> bool:
    return constant is not None and not any(constant.tobytes())


def _operand(place: _Place, constant: np.ndarray | None, x: Value, integer: np.dtype) -> str:
    """The operand's bits."""
    if constant is None and any([s.scratch is None for s in x.storages]):
        return f"{place.w.helper('bits_of', bits_of)}({x.text})"  # an input, which may be in the other byte order
    if constant is None:
        return place.bits(x.text, integer)
    w, value = place.w, constant.view(integer)
    spelled = f"{w.np}.array({int(value)}, {dtype_text(w, integer)})"
    return w.constant("k", value, spelled, key=("bits", integer.str, value.tobytes()))


_RULES = {"convert": _convert, "reduce_sum": _row_sum, "select": _select, "attains": _attains}


# -- groups of fused equations, tile by tile: the intermediate arrays of a tile stay in the processor's cache


SMALL = 256 * 1024  # bytes of a full array, below which a group is plain lines
TILE_BYTES = 256 * 1024  # of one full array's tile
MANY_ALIVE = 8  # full arrays, from which on tiles are half as large: all that is alive at once is to stay in the cache
WIDEST = 64 * 1024  # elements of one slice, beyond which a group is not cut along that axis
THREADED_NS = 300_000  # estimated time from which on threads pay


def write(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """Write the group as a tiled loop if that pays; `e` is the Emission."""
    params = equation.params
    jaxpr, kind, shape = params["jaxpr"], params["kind"], params["shape"]
    if kind == "batch":
        return False
    equations = e.lowered(jaxpr)
    if kind == "rows":
        equations = folded(equations, jaxpr.outputs, e.w.np == "np")
    widest = max([a.aval.dtype.itemsize for q in equations for a in q.outputs], default=8)
    if prod(shape) * widest < SMALL or len(equations) < 2:
        return False
    whole = len(shape) < 2 or not any([x.strided and x.aval.shape == shape for x in operands])
    plan = _plan(jaxpr, kind, shape, widest, whole)
    if plan is None or kind == "rows" and shape[0] == shape[1] and _contradicts(jaxpr, equations, shape):
        return False
    _TiledGroup(e, equation, equations, operands, env, dying, plan).write()
    e.store(equation.outputs, env, rows)
    return True


def _contradicts(jaxpr: Jaxpr, equations: Sequence[Equation], shape: tuple) -> bool:
    """Is a vector of a square group read both as a row value and as a column value?"""
    roles = roles_of(jaxpr, equations, shape)
    for q in equations:
        name, params, x, out = q.primitive.name, q.params, q.inputs[0], q.outputs[0]
        if name == "broadcast_in_dim":
            wanted = {(0,): "row", (1,): "column"}.get(params["axes"]) if len(params["shape"]) == 2 else None
            pairs = [(x, wanted)] if wanted else []
        elif q.primitive.reduction is not None:
            rows = params["axes"] == (1,)
            pairs = [(out, "row" if rows else "column")] if len(x.aval.shape) == 2 else [(x, "row")]
        elif name == "dot_general":
            along = params["dimension_numbers"][0] == ((1,), (0,))
            pairs = [(q.inputs[1], "column" if along else "row"), (out, "row" if along else "column")]
        else:
            pairs = [(a, roles[out]) for a in q.inputs]
        if any([type(a) is Var and roles[a] != role for a, role in pairs]):
            return True
    return False


class _TilePlan:
    """How a group is cut: along `axis` of its shape into pieces of `step`; `flat`: as one-dimensional arrays."""

    __slots__ = ("flat", "axis", "step", "count", "shape", "kind")

    def __init__(self, kind: str, shape: tuple, flat: bool, axis: int, step: int):
        self.kind = kind
        self.shape = shape
        self.flat = flat
        self.axis = axis
        self.count = prod(shape) if flat else shape[axis]
        self.step = min(step, self.count)


def _plan(jaxpr: Jaxpr, kind: str, shape: tuple, itemsize: int, whole: bool) -> _TilePlan | None:
    """`whole`: are all its full operands in one piece, so that they can be flattened without a copy?"""
    elements = TILE_BYTES // itemsize // (2 if _alive(jaxpr, shape) > MANY_ALIVE else 1)
    size = prod(shape)
    if kind == "rows":
        full = [v for v in (*jaxpr.inputs, *[o for e in jaxpr.equations for o in e.outputs]) if v.aval.shape == shape]
        # calls on the vectors cost as much as for whole rows; one matrix, and products: its rows pass by, and nothing else
        elements *= 8 if len(full) == 1 else 2
        return _TilePlan(kind, shape, False, 0, max(1, elements // shape[1])) if shape[1] <= WIDEST else None
    if whole and all([v.aval.shape == shape or v.aval.size == 1 for v in jaxpr.inputs]):
        return _TilePlan(kind, shape, True, 0, elements)
    axes = [k for k in range(len(shape)) if size // shape[k] <= WIDEST]
    if not axes:
        return None
    axis = 0 if 0 in axes else axes[0]
    return _TilePlan(kind, shape, False, axis, max(1, elements // (size // shape[axis])))


def _alive(jaxpr: Jaxpr, shape: tuple) -> int:
    """How many full arrays are needed at once, at most."""
    count = lambda variables: sum([v.aval.shape == shape for v in variables])
    full = most = count(jaxpr.inputs)
    kept = {*jaxpr.inputs, *jaxpr.outputs}
    for q, dead in zip(jaxpr.equations, deaths(jaxpr.equations, kept)):
        full += count(q.outputs)
        most = max(most, full)
        full -= count(dead)
    return most


def _inner_shape(q: Equation) -> tuple:
    """The operand's shape among full ones: of full rank, 1 along the axes that it lacks."""
    inner = [1] * len(q.params["shape"])
    for axis, n in zip(q.params["axes"], q.inputs[0].aval.shape):
        inner[axis] = n
    return tuple(inner)


def roles_of(jaxpr: Jaxpr, equations: Sequence[Equation], shape: tuple) -> dict[Var, str]:
    """"full", "row", "column" or "scalar" of every variable of a group of kind "rows"."""
    roles: dict[Var, str] = {}

    def note(atom: Any, role: str) -> bool:
        if type(atom) is not Var or atom in roles:
            return False
        roles[atom] = "full" if atom.aval.shape == shape and len(shape) == 2 else role if atom.aval.shape else "scalar"
        return True

    changed = True
    while changed:
        changed = False
        for q in equations:
            name, params, (out,) = q.primitive.name, q.params, q.outputs
            if name == "broadcast_in_dim" and len(params["shape"]) == 2:
                changed |= note(out, "full")
                if params["axes"] != ():
                    changed |= note(q.inputs[0], "row" if params["axes"] == (0,) else "column")
                else:
                    changed |= note(q.inputs[0], "scalar")
            elif name == "broadcast_in_dim":
                changed |= note(q.inputs[0], "scalar")
            elif q.primitive.reduction is not None and len(q.inputs[0].aval.shape) == 2:
                changed |= note(q.inputs[0], "full") | note(out, "row" if params["axes"] == (1,) else "column")
            elif q.primitive.reduction is not None:
                changed |= note(q.inputs[0], "row") | note(out, "scalar")
            elif name == "dot_general":
                along = params["dimension_numbers"][0] == ((1,), (0,))
                changed |= note(q.inputs[0], "full") | note(q.inputs[1], "column" if along else "row")
                changed |= note(out, "row" if along else "column")
            else:
                known = {roles[a] for a in (*q.inputs, out) if type(a) is Var and a in roles}
                if len(known) == 1:
                    (role,) = known
                    for a in (*q.inputs, out):
                        changed |= note(a, role)
                elif out.aval.shape == shape:
                    for a in (*q.inputs, out):
                        changed |= note(a, "full")
    for v in [*jaxpr.inputs, *[o for q in equations for o in q.outputs]]:
        if v not in roles:  # nothing tells: both readings give the same program unless the group is square
            note(v, "row" if v.aval.shape == shape[:1] else "column")
    return roles


class _TiledGroup:
    """One group being written."""

    def __init__(
        self, e: Any, equation: Equation, equations: list, operands: list[Value], env: dict, dying: list[Value], plan: _TilePlan
    ):
        self.e, self.w, self.equation, self.equations = e, e.w, equation, equations
        self.operands, self.env, self.dying, self.plan = operands, env, dying, plan
        self.jaxpr: Jaxpr = equation.params["jaxpr"]
        self.roles = roles_of(self.jaxpr, equations, plan.shape) if plan.kind == "rows" else {}
        self.role = "full"
        self.accumulated: list[tuple[Var, str, str]] = []  # (variable, ufunc, name of the list or of the sum)

    # -- shapes of tiles

    def role_of(self, v: Var) -> str:
        if self.plan.kind == "rows":
            return self.roles[v]
        return "full" if v.aval.shape == self.plan.shape else "scalar"

    def scratch_shape(self, aval: Any) -> tuple | None:
        plan = self.plan
        if self.role == "full":
            return (plan.step,) if plan.flat else tuple([plan.step if k == plan.axis else n for k, n in enumerate(plan.shape)])
        return (plan.step,) if self.role == "row" else None

    def cut(self, name: str) -> str:
        return f"{name}[{':, ' * self.plan.axis}i:j]"

    # -- writing

    def write(self) -> None:
        e, w, plan = self.e, self.w, self.plan
        name = w.reserve("fused")
        saved = e.frame, e.depth, w.block, e.doomed
        function = Block(0)
        w.functions.append(function)
        w.block, e.depth, e.doomed = function, 1, []
        parameters, arguments = self._inputs()
        outputs = self._outputs()
        w.line(f"def {name}(low, high, {', '.join([*parameters, *[o[1] for o in outputs.values()]])}):")
        with w.within(w.inner()):
            e.frame = e.new_frame(w.aside())
            e.frame.shape = self.scratch_shape
            e.frame.full = self.scratch_shape(None)
            starts = w.aside()
            w.line(f"for i in range(low, high, {plan.step}):")
            with w.within(w.inner()):
                w.line(f"j = min(i + {plan.step}, high)")
                trim = w.aside()
                self._body(self._cut_inputs(), outputs, starts)
            if plan.count % plan.step:
                with w.within(trim):
                    self._trim(e.frame.names)
            w.line(f"return {', '.join([text for *_, text in self.accumulated]) or 'None'}")
        e.frame, e.depth, w.block, e.doomed = saved
        self._call(name, arguments, outputs)

    def _inputs(self) -> tuple[list[str], list[str]]:
        """Parameters of the function and the arguments of its call; a vector that broadcasts in two ways is two parameters."""
        self.parameters: list[tuple[str, Var, tuple]] = []  # (name, input, its shape among the others)
        arguments = []
        for v, x in zip(self.jaxpr.inputs, self.operands):
            for shape in self._shapes(v):
                self.parameters.append((self.w.name("a"), v, shape))
                arguments.append(self._argument(v, x, shape))
        return [name for name, *_ in self.parameters], arguments

    def _shapes(self, v: Var) -> list[tuple]:
        plan = self.plan
        if plan.kind == "rows" or plan.flat or v.aval.shape == plan.shape:
            return [v.aval.shape]
        found = [_inner_shape(q) for q in self.equations if v in q.inputs and q.primitive.name == "broadcast_in_dim"]
        return list(dict.fromkeys(found)) or [v.aval.shape]

    def _argument(self, v: Var, x: Value, shape: tuple) -> str:
        plan, own = self.plan, v.aval.shape
        if plan.flat and own == plan.shape:
            return x.text if len(own) == 1 else f"{x.text}.reshape(-1)"
        if plan.flat and own:
            return f"{x.text}.reshape(())[()]"
        if shape == own or not own:
            return x.text
        return f"{x.text}.reshape({shape_text(shape)})"

    def _cut_inputs(self) -> dict[tuple, Value]:
        e, w, plan = self.e, self.w, self.plan
        found: dict[tuple, Value] = {}
        for name, v, shape in self.parameters:
            if plan.kind == "rows":
                sliced = self.roles[v] in ("full", "row")
            elif plan.flat:
                sliced = v.aval.shape == plan.shape
            else:
                sliced = len(shape) == len(plan.shape) and shape[plan.axis] != 1
            text = name
            if sliced:
                text = w.name("x")
                w.line(f"{text} = {self.cut(name)}")
            e.counts[text] += 1
            found[v, shape] = e.value(text, v.aval, [Storage(False)])
        return found

    def _outputs(self) -> dict[Var, tuple[str, str, str]]:
        """Of every output that is an array cut into tiles: the array, the function's parameter, the tile."""
        found: dict[Var, tuple[str, str, str]] = {}
        made = {q.outputs[0]: q for q in self.equations}
        for o in self.jaxpr.outputs:
            if o not in found and not self._accumulates(made[o]):
                found[o] = (self.w.name(), self.w.name("o"), self.w.name("t"))
        return found

    def _accumulates(self, q: Equation) -> bool:
        if q.primitive.reduction is not None:
            return self.plan.kind == "elementwise" or q.params["axes"] == (0,)
        return q.primitive.name == "dot_general" and q.params["dimension_numbers"][0] == ((0,), (0,))

    def _body(self, inner: dict[tuple, Value], outputs: dict[Var, tuple[str, str, str]], starts: Block) -> None:
        e, w = self.e, self.w
        env = {v: x for (v, _), x in reversed(inner.items())}
        keep = set(outputs)
        lazy = e.unmade_broadcasts(self.equations, keep)
        reads = Counter([a for q in self.equations for a in q.inputs if type(a) is Var])
        # NumPy spreads a vector row by row, which takes as long as to make the broadcast: what is read twice is made
        lazy = {v: shape for v, shape in lazy.items() if reads[v] < 2 or prod(shape) == 1}
        rows = {}
        for v, (_, parameter, tile) in outputs.items():
            w.line(f"{tile} = {self.cut(parameter) if self.role_of(v) == 'full' else f'{parameter}[i:j]'}")
            e.counts[tile] += 1
            rows[v] = [e.row(tile, True)]
        for q, dead in zip(self.equations, deaths(self.equations, keep)):
            w.equation = q if q.source is not None else self.equation
            operands = [e.literal(a) if type(a) is Literal else env[a] for a in q.inputs]
            ends = [env[v] for v in dead if v in env]
            (var,) = q.outputs
            self.role = self.role_of(var)
            if self._accumulates(q):
                self._accumulate(q, operands, starts)
                dead = tuple([v for v in dead if v is not var])
            elif q.primitive.name == "broadcast_in_dim":
                own = inner.get((q.inputs[0], _inner_shape(q))) if self.plan.kind == "elementwise" else None
                env[var] = self._broadcast(q, own or operands[0], lazy, rows, starts)
            elif not write_by_rule(e, q, operands, env, ends, rows):
                e.operation(q, operands, env, ends, rows)
            for v in dead:
                e.release(env.pop(v))
            e.drop_none()
        w.equation = self.equation

    def _broadcast(self, q: Equation, x: Value, lazy: dict[Var, tuple], rows: dict, starts: Block) -> Value:
        e, w = self.e, self.w
        (var,) = q.outputs
        text = x.text
        shape = lazy.get(var)
        if self.plan.kind == "rows" and self.role == "full" and type(q.inputs[0]) is Var and self.roles[q.inputs[0]] == "row":
            text = w.name()
            w.line(f"{text} = {x.text}[:, None]")
        if shape is not None:
            return e.value(text, var.aval, x.storages, shape=shape)
        wanted = rows.get(var)
        if wanted:
            w.line(wanted[0].statement(text))
            return e.value(wanted[0].text, var.aval, [Storage(False)])
        (source,) = q.inputs
        always = type(source) is Var and source in self.jaxpr.inputs and self.roles.get(source) == "column"
        free = e.frame.free
        e.frame.free = {} if always else free  # made once, in memory that no other line writes
        found = e.scratch(var.aval)
        e.frame.free = free
        if found is None:  # a column value
            name = w.name()
            w.line(f"{name} = {w.np}.broadcast_to({text}, {shape_text(var.aval.shape)})")
            return e.value(name, var.aval, [Storage(False)])
        target, storage = found
        with w.within(starts if always else w.block):
            w.line(f"{target}[...] = {text}")
        return e.value(target, var.aval, [Storage(False) if always else storage], whole=not always)

    def _accumulate(self, q: Equation, operands: list[Value], starts: Block) -> None:
        w, (var,) = self.w, q.outputs
        if q.primitive.name == "dot_general":
            x, v = operands
            blas = {x.aval.dtype.char, v.aval.dtype.char} in ({"f"}, {"d"})  # called more quickly
            ufunc, text = "add", f"{v.text}.dot({x.text})" if blas else f"{w.np}.matmul({x.text}.T, {v.text})"
        else:
            ufunc = q.primitive.reduction.ufunc.__name__
            full = self.plan.kind == "elementwise" and not self.plan.flat
            axis = ", axis=None" if full else ", axis=0" if self.plan.kind == "rows" and not self._is_vector(q) else ""
            text = f"{w.np}.{ufunc}.reduce({operands[0].text}{axis}{self._dtype(ufunc, var)})"
        if not var.aval.shape:
            name = w.name("p")
            with w.within(starts):
                w.line(f"{name} = []")
            w.line(f"{name}.append({text})")
        else:
            name, part = w.name("p"), w.name("q")
            with w.within(starts):
                w.line(f"{name} = None")
            w.line(f"{part} = {text}")
            w.line(f"{name} = {part} if {name} is None else {w.np}.{ufunc}({name}, {part}, {name})")
        self.accumulated.append((var, ufunc, name))

    def _is_vector(self, q: Equation) -> bool:
        return len(q.inputs[0].aval.shape) == 1

    def _dtype(self, ufunc: str, var: Var) -> str:
        dtype = var.aval.dtype
        small = ufunc in ("add", "multiply") and (dtype.kind == "b" or dtype.kind in "iu" and dtype.itemsize < 8)
        return f", dtype={dtype_text(self.w, dtype)}" if small else ""

    def _trim(self, names: list[tuple[str, tuple, Any]]) -> None:
        """The last tile is shorter: so are its scratch arrays."""
        if not names:
            return
        w, plan = self.w, self.plan
        w.line(f"if j - i < {plan.step}:")
        with w.within(w.inner()):
            for name, shape, _ in names:
                axis = 0 if plan.flat or len(shape) != len(plan.shape) else plan.axis
                w.line(f"{name} = {name}[{':, ' * axis}:j - i]")

    # -- the call

    def _call(self, name: str, arguments: list[str], outputs: dict[Var, tuple[str, str, str]]) -> None:
        e, w, plan = self.e, self.w, self.plan
        w.equation = self.equation
        reused = self._reusable(outputs)
        flat = plan.flat and len(plan.shape) > 1
        for v, (array, *_) in outputs.items():
            given = reused.get(v)
            w.line(f"{array} = {given.text if given is not None else e.empty(v.aval.shape, v.aval.dtype)}")
        given = [f"{array}.reshape(-1)" if flat else array for array, *_ in outputs.values()]
        threaded = self._threads_pay()
        parts = w.name("p") if self.accumulated else ""
        rest = ", ".join([*arguments, *given])
        if threaded:
            helper = w.helper("parallel", parallel)
            w.line(f"{parts + ' = ' if parts else ''}{helper}({name}, {plan.count}, {plan.step}, {rest})")
        elif parts:
            w.line(f"{parts} = {name}(0, {plan.count}, {rest})")
            w.line(f"{parts} = [{parts}]")
        else:
            w.line(f"{name}(0, {plan.count}, {rest})")
        results: dict[Var, tuple[str, bool]] = {v: (array, True) for v, (array, *_) in outputs.items()}
        for k, (v, ufunc, _) in enumerate(self.accumulated):
            results[v] = (self._total(v, ufunc, parts, k), False)
        for out, o in zip(self.equation.outputs, self.jaxpr.outputs):
            text = results[o][0]
            same = [self.env[p] for p, q in zip(self.equation.outputs, self.jaxpr.outputs) if q is o and p in self.env]
            storages = same[0].storages if same else reused[o].storages if o in reused else [Storage(True)]
            self.env[out] = e.value(text, out.aval, storages if out.aval.shape else (), whole=bool(out.aval.shape))

    def _total(self, v: Var, ufunc: str, parts: str, k: int) -> str:
        """The line that combines what the tiles gave."""
        w, name = self.w, self.w.name()
        part = "part" if len(self.accumulated) == 1 else f"part[{k}]"
        if not v.aval.shape:
            dtype = self._dtype(ufunc, v)
            w.line(f"{name} = {w.np}.{ufunc}.reduce({w.np}.array([x for part in {parts} for x in {part}]){dtype})")
        else:
            w.line(f"{name} = {part.replace('part', f'{parts}[0]', 1)}")
            if self._threads_pay():
                w.line(f"for part in {parts}[1:]:")
                with w.within(w.inner()):
                    w.line(f"{w.np}.{ufunc}({name}, {part}, {name})")
        return name

    def _reusable(self, outputs: dict[Var, tuple[str, str, str]]) -> dict[Var, Value]:
        """Outputs that may be written over a dying operand, tile by tile."""
        found: dict[Var, Value] = {}
        if self.plan.flat and len(self.plan.shape) > 1:
            return found  # flattened, an array that is not contiguous is a copy
        place = {q.outputs[0]: i for i, q in enumerate(self.equations)}
        last = {a: i for i, q in enumerate(self.equations) for a in q.inputs if type(a) is Var}
        for o in outputs:
            for v, x in zip(self.jaxpr.inputs, self.operands):
                fits = v.aval.shape == o.aval.shape and v.aval.dtype == o.aval.dtype and self.role_of(v) == self.role_of(o)
                alone = sum([y is x for y in self.operands]) == 1 and x not in found.values()
                if fits and alone and x in self.dying and x.whole and last.get(v, -1) <= place[o]:
                    (storage,) = x.storages
                    if storage.owned and storage.users <= {x}:
                        found[o] = x
                        break
        return found

    def _threads_pay(self) -> bool:
        if self.w.np != "np":
            return False
        heavy = light = 0.0
        for q in self.equations:
            if self.role_of(q.outputs[0]) != "full":
                continue
            more = numpy_ns(q)
            heavy, light = heavy + more[0], light + more[1]
        return heavy >= light and (heavy + light) * prod(self.plan.shape) >= THREADED_NS
