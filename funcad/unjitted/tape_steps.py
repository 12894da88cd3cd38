"""What the rows of a tape say: steps, which are elements of one list, so that they can be a part of a key.

Idea: see `Rows` for what an operand in a step is. Whoever asks what a row does gets its step with operands told by the
places of their values and the numbers of their rows (`wiring`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

STEP = 6  # of how many elements of `steps` a step is made
WIDE = object()  # in the place of the second operand: the first is a tuple of all, not two of them


def operands_of(a: Any, b: Any) -> Sequence[Any]:
    """The operands in a step."""
    return a if b is WIDE else (a,) if b is None else (a, b)


def in_step(operands: Sequence[Any]) -> tuple[Any, Any]:
    """The same as a step has them."""
    n = len(operands)
    return (operands[0], operands[1] if n == 2 else None) if 0 < n < 3 else (tuple(operands), WIDE)


def steps_of(steps: Sequence[Any]) -> Iterator[tuple]:
    """(primitive, bits, shape, first operand, second, kind) of each step."""
    return zip(*[iter(steps)] * STEP)


def params_of(params: Mapping[int, dict], number: int, primitive: Any, bits: Any) -> dict:
    """The parameters of a row's operation; of a basic index the bits are the index, and nothing more is kept."""
    return {"index": bits} if type(bits) is tuple and primitive is not READ else params.get(number, {})


class Recorded(NamedTuple):
    """What a tape that has been forgotten knew."""

    first: int
    places: list[int]
    sources: list[Any]
    params: dict[int, dict]
    steps: list[Any]
    values: list[Any]


class Mark:
    """In the place of a primitive: `RESULT`, one more result of the step before; `INNER`, an inner gradient (nested.py);
    `SPLIT`, a rule of which what it keeps has been computed (split_rules.py); `READ`, a read whose own cotangent is asked for
    in place of that of the array (chunks.py)."""

    __slots__ = ("multiple",)
    square = layout = None

    def __init__(self, multiple: bool = True):
        self.multiple = multiple


RESULT, INNER, SPLIT, READ = Mark(), Mark(), Mark(), Mark(False)


class Step(NamedTuple):
    """What a row says, in terms of numbers of rows and places in the values of the tape."""

    primitive: Any
    shape: Any
    operands: list[tuple[int, int | None]]  # where it is, the number of its row or None
    result: int  # where it is
    params: dict
    first: int  # where the operation's first result is
    many: int  # how many it has
    inner: Any  # of `INNER` and `SPLIT`: what it is


def wiring(tape: Any) -> list[Step]:
    """Of each row, what it says."""
    places, free = tape.places, tape.first
    found: list[Step] = []
    for number, (primitive, bits, shape, a, b, kind) in enumerate(steps_of(tape.steps), tape.first):
        operands: list[tuple[int, int | None]] = []
        if primitive is RESULT:
            found.append(found[-1]._replace(primitive=RESULT, operands=[], result=places[number]))
            continue
        steps, params = operands_of(a, b), params_of(tape.params, number, primitive, bits)
        inner = None
        if primitive is INNER:
            inner = bits
            operands += [(free + place, n) for place, n in zip(inner.lifted, steps)]
            free += inner.n_values
        elif primitive is SPLIT:
            inner = params["rule"] if type(bits) is int else bits  # of an operation apart, and how much it keeps
            operands += [(free + i, None) for i in range(inner.many)]
            operands += [(places[n], n) for n in steps]
            free += inner.many
        else:
            operands, free = wired(steps, places, free)
        many = len(kind[0]) if primitive.multiple else 1
        found.append(Step(primitive, shape, operands, places[number], params, free, many, inner))
        free += many
    return found


def wired(steps: Sequence[Any], places: Sequence[int], free: int) -> tuple[list[tuple[int, int | None]], int]:
    """Of each operand in a step, where it is, and the number of its row or None; then the first place after its own."""
    operands: list[tuple[int, int | None]] = []
    for a in steps:
        if type(a) is int:
            operands.append((places[a], a))
        elif type(a) is tuple and type(a[-1]) is int:
            operands.append((operands[a[1]][0], a[0]))
        else:
            operands.append((free, a[0] if type(a) is tuple else None))
            free += 1
    return operands, free


def inputs_of(tape: Any) -> list[int]:
    """The numbers of what the linear program depends on."""
    return [*range(tape.first), *[tape.first + i for i, p in enumerate(tape.steps[::STEP]) if p is READ]]
