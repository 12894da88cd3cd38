"""Operations that are written into memory that is there.

np.where, np.concatenate of numbers and their like make a new array in each turn, and take longer to start than small arrays
take to be written element by element. Here a choice is a copy and a masked copy, an array of numbers is one assignment per
number, and a placement is zeros with the operand in them. A number in place of the masked elements of an array that dies is a
masked copy everywhere, and what writes some elements of an array that dies writes them there: `a[i, 2:5] += v`. Invariant: the
bits are those of the operation's own text. Trap: np.putmask repeats values that are too few, so only scalars and arrays of the
full shape are given to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from funcad.backends.interpreter import over_on
from funcad.backends.memory import Storage, Value, writable_operand
from funcad.backends.text import Writer, dtype_text, index_text, shape_text
from funcad.backends.text_rules import as_array
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.primitives.basic_indexing import basic_add_p, basic_update_p, common_index, python_index, scatter_p
from funcad.primitives.reduction import accumulate_into
from funcad.primitives.shape import pad_index, pad_p

# -- values put into their places in an array of zeros (`basic_place`, `place_sum`), written piece by piece
#
# Idea: the indices cut the array into boxes, and within a box the same values meet. So one line computes each box, in the
# memory of the result, where zeros, then sums with them would pass over all of it again and again. Invariant: the bits are
# those of the primitive: where not every value is placed, the zero of one that is not makes -0.0 into 0.0.


MOST = 8  # boxes, beyond which the lines take longer than what they save
CLEARED = 32 * 1024  # bytes that take no longer to clear than three boxes of them
MANY = 1 << 20  # bytes: zeros for so many come from the system, which clears what is touched, when it is


def write_places(e: Any, equation: Equation, operands: list[Value], env: dict, rows: dict) -> bool:
    """Write the equation box by box if that pays; `e` is the Emission."""
    name, params = equation.primitive.name, equation.params
    if name not in ("basic_place", "place_sum") or e.w.np != "np":
        return False
    (var,) = equation.outputs
    indices = params["indices"] if name == "place_sum" else (params["index"],)
    arrays = all([type(v.aval) is Aval and v.shape == v.aval.shape for v in operands])
    boxes = boxes_of(indices, params["shape"]) if arrays else None
    if boxes is None:
        return arrays and name == "place_sum" and _write_sum(e, equation, operands, env, rows)
    wanted = rows.get(var, [])
    direct = bool(wanted) and wanted[0].whole
    aval: Any = var.aval
    sparse = not direct and e.frame is None and aval.size * aval.dtype.itemsize >= MANY
    sparse = sparse and 8 * sum([v.aval.size for v in operands]) <= aval.size
    target, storage = (wanted[0].text, Storage(False)) if direct else _memory(e, aval, sparse)
    zero = aval.dtype.kind in "fc"
    idle = [box for box, sources in boxes if not sources]
    cleared = len(idle) > 2 and aval.size * aval.dtype.itemsize <= CLEARED
    if cleared:
        e.w.line(f"{target}[...] = 0")
    for box, sources in boxes:
        if (sparse or cleared) and not sources:
            continue
        texts = [operands[k].text + (f"[{', '.join(part)}]" if part else "") for k, part in sources]
        if not box or len(box) == len(params["shape"]) and not [part for part in box if ":" in part]:
            box = [*box, "..."]  # an array, not an element
        _write_box(e.w, f"{target}[{', '.join(box)}]", texts, zero and 0 < len(texts) < len(indices))
    env[var] = e.value(target, var.aval, [storage], whole=not direct)
    for row in wanted[direct:]:
        e.w.line(row.statement(target))
    return True


def _write_sum(e: Any, equation: Equation, operands: list[Value], env: dict, rows: dict) -> bool:
    """As the primitive does it: zeros, to which the arrays are added in turn."""
    (var,), params = equation.outputs, equation.params
    aval: Any = var.aval
    if e.frame is None or not aval.shape or aval.dtype.kind not in "iuf":
        return False
    found = _target(e, var, rows)
    e.w.line(f"{found.text}[...] = 0")
    common = common_index(params["indices"], params["shape"]) if aval.dtype.kind == "f" else None
    if common is not None:
        e.w.line(f"{found.text}[{index_text(common)}] = -0.0")
    for v, index in zip(operands, params["indices"]):
        e.w.line(f"{found.text}[{index_text(python_index(index))}] += {v.text}")
    return _written(e, var, found, env, rows)


def _memory(e: Any, aval: Aval, zeros: bool) -> tuple[str, Storage]:
    found: tuple[str, Storage] | None = e.scratch(aval)
    if found is not None:
        return found
    name = e.w.name()
    fresh = f"np.zeros({shape_text(aval.shape)}, {dtype_text(e.w, aval.dtype)})" if zeros else e.empty(aval.shape, aval.dtype)
    e.w.line(f"{name} = {fresh}")
    return name, Storage(True)


def _write_box(w: Any, target: str, texts: list[str], zero: bool) -> None:
    terms = [*texts, "0.0"] if zero else texts
    if len(terms) < 2:
        w.line(f"{target} = {terms[0] if terms else 0}")
        return
    w.line(f"{w.np}.add({terms[0]}, {terms[1]}, {target})")
    for term in terms[2:]:
        w.line(f"{w.np}.add({target}, {term}, {target})")


def boxes_of(indices: Sequence[tuple], shape: tuple) -> list[tuple[list[str], list[tuple[int, list[str]]]]] | None:
    """[(index of a box, [(which operand, the index of its part)])]; None if there are too many, or steps other than 1.

    >>> boxes_of([((0, 3, 1),), ((1, 3, 1),)], (4,))
    [(['0:1'], [(0, ['0:1'])]), (['1:3'], [(0, ['1:3']), (1, ['0:2'])]), (['3:4'], [(1, ['2:3'])])]
    """
    spans: list[list[tuple[int, int]]] = []  # of each operand, (first, end) along each axis
    for index in indices:
        if any([entry is None or type(entry) is tuple and entry[2] != 1 for entry in index]):
            return None
        spans.append([(x, x + 1) if type(x) is int else (x[0], x[0] + x[1]) for x in index])
    cuts = [sorted({0, n, *[c for s in spans for c in s[axis]]}) for axis, n in enumerate(shape)]
    pairs = [list(zip(c, c[1:])) for c in cuts]
    if not shape or 0 in shape or len([None for _ in product(*pairs)]) > MOST:
        return None
    found = []
    for box in product(*pairs):
        here = [k for k, s in enumerate(spans) if all([a <= low and high <= b for (low, high), (a, b) in zip(box, s)])]
        single = [any([type(indices[k][axis]) is int for k in here]) for axis in range(len(shape))]
        whole = _text(box, single, shape)
        found.append((whole, [(k, _part(box, single, indices[k], spans[k])) for k in here]))
    return found


def _text(box: Sequence[tuple[int, int]], single: list[bool], shape: tuple) -> list[str]:
    """The index of a box, whose entries along the axes `single` are integers; without the axes at the end that are whole."""
    found = [str(a) if one else ":" if (a, b) == (0, n) else f"{a}:{b}" for (a, b), one, n in zip(box, single, shape)]
    while found and found[-1] == ":":
        found.pop()
    return found


def _part(box: Sequence[tuple[int, int]], single: list[bool], index: tuple, spans: list[tuple[int, int]]) -> list[str]:
    """Where the box is in an operand, which lacks the axes along which its index is an integer."""
    axes = [axis for axis, entry in enumerate(index) if type(entry) is not int]
    own = [(box[axis][0] - spans[axis][0], box[axis][1] - spans[axis][0]) for axis in axes]
    return _text(own, [single[axis] for axis in axes], tuple([index[axis][1] for axis in axes]))


# -- operations that are written into memory that is there, in more than one line; most of them in the bodies of loops


SMALL = 4096  # bytes up to which starting an operation costs more than its work


def write_in_place(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """Write the equation if it is one of these; `e` is the Emission."""
    rule = _over if equation.primitive.over is not None else None
    if rule is None and not e.w.device:  # there, each line is a call that takes as long to start as the operation's own
        rule = (_IN_LOOPS if e.in_loop() else _ANYWHERE).get(equation.primitive.name)
    aval: Any = equation.outputs[0].aval if rule is not None else None
    if rule is None or not aval.shape or 0 in aval.shape or aval.dtype.kind not in "biufc":
        return False
    return bool(rule(e, equation, operands, env, dying, rows))


def _masked(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """A number put over the masked elements of an array that dies, if that is what the equation comes to."""
    (out,), (mask, _, x) = equation.outputs, operands
    aval: Any = out.aval
    number = equation.inputs[1]
    if e.w.np != "np" or out in rows or type(number) is not Literal or mask.shape != aval.shape:
        return False
    array = as_array(number, aval.dtype)
    target = writable_operand([x], dying, aval)
    if array is None or target is None:
        return False
    name = e.w.constant("k", array, key=("array", array.dtype.str, array.tobytes()))
    e.w.line(f"np.putmask({target.text}, {mask.text}, {name})")
    env[out] = e.value(target.text, aval, target.storages, whole=True)
    return True


def _target(e: Any, var: Var, rows: dict, other: Value | None = None) -> Value:
    """Where the result goes: the row that collects it, the operand that it may be written over, or scratch memory."""
    wanted = rows.get(var, [])
    if wanted and wanted[0].whole:
        return e.value(wanted[0].text, var.aval, [Storage(False)])
    if other is not None:
        return e.value(other.text, var.aval, other.storages, whole=True)
    target, storage = e.scratch(var.aval)
    return e.value(target, var.aval, [storage], whole=True)


def _written(e: Any, var: Var, found: Value, env: dict, rows: dict) -> bool:
    """The result is there; other rows that collect it get copies."""
    for row in rows.get(var, ()):
        if row.text != found.text:
            e.w.line(row.statement(found.text))
    env[var] = found
    return True


def _over(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    """Some elements of an array written: over the array if it dies, else in a copy."""
    (var,), (x, *others) = equation.outputs, operands
    shared = any([s in v.storages for v in others for s in x.storages])
    found = None if shared else writable_operand([x], dying, var.aval)
    if found is not None:
        found = e.value(found.text, var.aval, found.storages, whole=True)
    elif e.frame is None and not (rows.get(var) and rows[var][0].whole):
        name = e.fresh_name(var)
        e.w.line(f"{name} = {e.w.np}.array({x.text}{', order=' + repr('C') if len(x.aval.shape) > 1 else ''})")
        found = e.value(name, var.aval, [Storage(True)], whole=True)
    else:
        found = _target(e, var, rows)
        e.w.line(f"{found.text}[...] = {x.text}")
    e.w.line(_statement(e.w, equation, found.text, [v.text for v in others]))
    return _written(e, var, found, env, rows)


def _statement(w: Writer, equation: Equation, target: str, others: list[str]) -> str:
    """The line that writes elements of `target`."""
    primitive, params = equation.primitive, equation.params
    if primitive is basic_update_p or primitive is basic_add_p:
        index = index_text(python_index(params["index"]))
        return f"{target}[{index}] {'+=' if primitive is basic_add_p else '='} {others[0]}"
    if primitive is scatter_p and not params["batch_dims"]:
        assigned = {"set": "=", "add": "+=", "mul": "*="}.get(params["mode"])
        if w.np != "np" and assigned == "=" and not params["unique"] and equation.inputs[2].aval.shape:
            assigned = None  # of updates of one element any may win on a device
        if assigned == "=" or assigned is not None and not equation.inputs[2].aval.shape:
            return f"{target}[{', '.join(others[1:])}] {assigned} {others[0]}"
    name = w.callee(equation, over_on(w.library, equation), "over")
    return f"{name}({', '.join([target, *others])})"


def _select(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    var, (mask, chosen, other) = equation.outputs[0], operands
    aval: Any = var.aval
    others = [v for v in (chosen, other) if v.aval.dtype != aval.dtype and not v.aval.weak]
    if not mask.shape and not others:
        found = _target(e, var, rows)
        e.w.line(f"{found.text}[...] = {chosen.text} if {mask.text} else {other.text}")
        return _written(e, var, found, env, rows)
    large = aval.size * aval.dtype.itemsize > SMALL
    if large or mask.shape != aval.shape or chosen.shape not in ((), aval.shape):
        return _masked(e, equation, operands, env, dying, rows)
    if others:
        return _masked(e, equation, operands, env, dying, rows)
    found = _target(e, var, rows, writable_operand([other], dying, aval))
    if found.text != other.text:
        e.w.line(f"{found.text}[...] = {other.text}")
    e.w.line(f"{e.w.np}.putmask({found.text}, {mask.text}, {e.boxed(chosen, aval.dtype)})")
    return _written(e, var, found, env, rows)


def unmade_reshapes(equations: Sequence[Equation], keep: set[Var]) -> dict[Var, tuple]:
    """Numbers as arrays of one element that only `_concatenate` reads: the number itself will do."""
    readers: dict[Var, list[Equation]] = {}
    for equation in equations:
        for a in equation.inputs:
            if type(a) is Var:
                readers.setdefault(a, []).append(equation)
    found: dict[Var, tuple] = {}
    for equation in equations:
        if equation.primitive.name in ("reshape", "broadcast_in_dim"):
            (x,), (v,) = equation.inputs, equation.outputs
            if type(x) is Var and not x.aval.shape and v.aval.shape == (1,) and v not in keep:
                if all([r.primitive.name == "concatenate" for r in readers.get(v, ())]):
                    found[v] = ()
    return found


def _concatenate(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    if not any([v.shape != v.aval.shape for v in operands]):
        return False
    var = equation.outputs[0]
    found = _target(e, var, rows)
    start = 0
    for v in operands:
        end = start + v.aval.shape[0]
        if end > start:
            e.w.line(f"{found.text}[{start if v.shape != v.aval.shape else f'{start}:{end}'}] = {v.text}")
        start = end
    return _written(e, var, found, env, rows)


def _place(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    var, (x,), params = equation.outputs[0], operands, equation.params
    index = pad_index(x.aval.shape, **params) if equation.primitive is pad_p else python_index(params["index"])
    if x.aval.dtype != var.aval.dtype or x.shape != x.aval.shape:
        return False
    found = _target(e, var, rows)
    e.w.line(f"{found.text}[...] = 0")
    e.w.line(f"{found.text}[{index_text(index)}] = {x.text}")
    return _written(e, var, found, env, rows)


def _roll(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    var, (x,), shift = equation.outputs[0], operands, equation.params["shift"]
    if x.shape != x.aval.shape:
        return False
    axis, back = equation.params["axis"], var.aval.shape[equation.params["axis"]] - shift
    found, before = _target(e, var, rows), ":, " * axis
    edges = [(f"{before}{shift}:", f"{before}:{-shift}"), (f"{before}:{shift}", f"{before}{-shift}:")]
    if e.w.np == "np" and 0 < axis == len(var.aval.shape) - 1 and x.whole and found.whole:
        # all elements a place further in one piece, which takes a third of the time, then the edge that they do not come to
        whole = [(f"{shift}:", f":{-shift}"), (f":{-back}", f"{back}:")][shift > back]
        e.w.line(f"{found.text}.reshape(-1)[{whole[0]}] = {x.text}.reshape(-1)[{whole[1]}]")
        del edges[shift > back]
    for there, here in edges:
        e.w.line(f"{found.text}[{there}] = {x.text}[{here}]")
    return _written(e, var, found, env, rows)


def _accumulated(e: Any, equation: Equation, operands: list[Value], env: dict, dying: list[Value], rows: dict) -> bool:
    var, (x,), axis = equation.outputs[0], operands, equation.params["axis"]
    if e.w.np != "np" or x.shape != x.aval.shape or x.aval.dtype.kind not in "fc":
        return False
    wanted = rows.get(var, [])
    direct = bool(wanted) and wanted[0].whole
    target, storage = (wanted[0].text, Storage(False)) if direct else _memory(e, var.aval, False)
    back = f"[{':, ' * axis}::-1]" if equation.params["reverse"] else ""
    ufunc = "add" if equation.primitive.name == "cumsum" else "multiply"
    into = e.w.helper("accumulate_into", accumulate_into)
    e.w.line(f"{into}(np.{ufunc}, {x.text}{back}, {axis}, {target}{back})")
    return _written(e, var, e.value(target, var.aval, [storage], whole=not direct), env, rows)


_ANYWHERE = {"select": _masked, "cumsum": _accumulated, "cumprod": _accumulated}
_IN_LOOPS = {
    **_ANYWHERE, "select": _select, "concatenate": _concatenate, "basic_place": _place, "pad": _place, "roll": _roll
}  # fmt: skip
