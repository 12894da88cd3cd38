"""Operations that a tile of a group writes otherwise than a plain line does.

Idea: in a tile every result has its place, scratch memory or a piece of an output, so nothing may allocate. A conversion is
written into its place. A choice is made of bits: the mask, widened to 0 or -1, is combined with the bits of both operands,
which keeps every bit of the chosen one (signs of zero and NaN too) and takes the same time for every mask, where `np.where`
waits for each element that it did not foresee. A mask that holds once in every row, as where rows attain their extrema, is
asked for: then counting it and choosing by it concern one element of each row. A sum along the rows is `np.einsum`'s, whose
inner loop uses whole vectors, also where rows are short. Invariant: an output's tile may be the memory of an operand, so it is
written by the last line only.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from funcad.backends.memory import Storage, Value, writable_operand
from funcad.backends.text import dtype_text
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.primitives.scatter import attains_p

__all__ = ["folded", "write", "bits_of", "attained", "single"]

LONG_ROW = 64  # elements from which on a sum of squares is one product
LONGEST_ROW = 4096  # elements up to which a sum has few enough terms for each of einsum's 32 (or 16) partial sums


def bits_of(x: Any) -> Any:
    """The numbers of an array as signed integers of the same width and byte order.

    >>> import numpy as np
    >>> from funcad.backends.tile_rules import bits_of
    >>> bits_of(np.array([0.0, 2.0], ">f8")).tolist()
    [0, 4611686018427387904]
    """
    dtype = x.dtype
    return x.view(f"{dtype.byteorder}i{dtype.itemsize}")


def attained(x: Any, top: Any, out: Any) -> None:
    """Where the rows attain their extrema: NaN attains it, for then the extremum is NaN too, which few tiles hold.

    >>> import numpy as np
    >>> from funcad.backends.tile_rules import attained
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
    >>> from funcad.backends.tile_rules import single
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


def write(e: Any, q: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
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
