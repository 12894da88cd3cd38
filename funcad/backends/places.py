"""Values put into their places in an array of zeros (`basic_place`, `place_sum`), written piece by piece.

Idea: the indices cut the array into boxes, and within a box the same values meet. So one line computes each box, in the memory
of the result, where zeros, then sums with them would pass over all of it again and again. Invariant: the bits are those of the
primitive: where not every value is placed, the zero of one that is not makes -0.0 into 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

from funcad.backends.memory import Storage, Value
from funcad.backends.text import dtype_text, shape_text
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation

__all__ = ["write"]

MOST = 8  # boxes, beyond which the lines take longer than what they save
MANY = 1 << 20  # bytes: zeros for so many come from the system, which clears what is touched, when it is


def write(e: Any, equation: Equation, operands: list[Value], env: dict, rows: dict) -> bool:
    """Write the equation box by box if that pays; `e` is the Emission."""
    name, params = equation.primitive.name, equation.params
    if name not in ("basic_place", "place_sum") or e.w.np != "np":
        return False
    (var,) = equation.outputs
    indices = params["indices"] if name == "place_sum" else (params["index"],)
    arrays = all([type(v.aval) is Aval and v.shape == v.aval.shape for v in operands])
    boxes = boxes_of(indices, params["shape"]) if arrays else None
    if boxes is None:
        return False
    wanted = rows.get(var, [])
    direct = bool(wanted) and wanted[0].whole
    aval: Any = var.aval
    sparse = not direct and e.frame is None and aval.size * aval.dtype.itemsize >= MANY
    sparse = sparse and 8 * sum([v.aval.size for v in operands]) <= aval.size
    target, storage = (wanted[0].text, Storage(False)) if direct else _memory(e, aval, sparse)
    zero = aval.dtype.kind in "fc"
    for box, sources in boxes:
        if sparse and not sources:
            continue
        texts = [operands[k].text + (f"[{', '.join(part)}]" if part else "") for k, part in sources]
        if not box or len(box) == len(params["shape"]) and not [part for part in box if ":" in part]:
            box = [*box, "..."]  # an array, not an element
        _write_box(e.w, f"{target}[{', '.join(box)}]", texts, zero and 0 < len(texts) < len(indices))
    env[var] = e.value(target, var.aval, [storage], whole=not direct)
    for row in wanted[direct:]:
        e.w.line(row.statement(target))
    return True


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
