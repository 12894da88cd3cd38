"""What a loop is: `Loop`, the one parameter of `scan`, and `WhileLoop`, that of `while_loop`.

Their primitives are declared in control/; what they are stands here, where passes and engines find it. Both are immutable and
compared by content, the programs in them by identity, as programs are.

`rolled` is what passes/roll.py makes of a program that repeats itself: a `scan` of known length, which engines run as one. It
is made after everything has been differentiated and mapped, so it has no rules for either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, split
from funcad.ir.primitive import Primitive

__all__ = ["Loop", "WhileLoop", "LOOPS", "rolled_p"]

LOOPS = frozenset(["scan", "rolled", "while_loop"])  # names of the primitives with the parameter `loop`


class Loop(NamedTuple):
    """A body `(consts, carry, xs) -> (carry, ys)` that runs once for each entry of the xs.

    With `length=None` a leading operand counts the turns, and xs and ys are stacks (see primitives/stack.py). `budget` is how
    many bytes reverse mode may keep of the turns (control/budgeted_scan.py); None: all that it reads.
    """

    body: Jaxpr
    n_consts: int
    n_carry: int
    length: int | None = None
    reverse: bool = False
    unroll: int = 1
    budget: int | None = None

    @property
    def n_ys(self) -> int:
        return len(self.body.outputs) - self.n_carry

    def counted(self, values: Sequence[Any]) -> tuple[Sequence[Any], Sequence[Any]]:
        """The count in front of the operands of a loop of unknown length, and the other operands."""
        n = 1 if self.length is None else 0
        return values[:n], values[n:]

    def split(self, values: Sequence[Any]) -> list[list[Any]]:
        """What is said of the consts, of the carry and of the xs, among what is said of each operand (but the count)."""
        return split(values, self.n_consts, self.n_carry)

    def carried(self, values: Sequence[Any]) -> Any:
        """The carry's part of it."""
        return values[self.n_consts : self.n_consts + self.n_carry]

    def with_body(self, body: Jaxpr, n_consts: int, n_carry: int) -> Loop:
        """As many turns of another body."""
        return self._replace(body=body, n_consts=n_consts, n_carry=n_carry)


class WhileLoop(NamedTuple):
    """A body `(consts, carry) -> (carry, what goes on stacks)` that runs as long as `cond(cond consts, carry)` holds.

    `budget` as of a `Loop` (control/budgeted_while.py).
    """

    cond: Jaxpr
    body: Jaxpr
    n_cond: int
    n_consts: int
    budget: int | None = None

    length = None  # as that of a `Loop`: nobody knows it before it has run

    @property
    def steps(self) -> Loop:
        """The loop over stacks, one entry for each turn, that has this body: what its derivatives are."""
        return Loop(self.body, self.n_consts, self.n_carry)

    @property
    def n_carry(self) -> int:
        return len(self.body.inputs) - self.n_consts

    @property
    def n_emitted(self) -> int:
        return len(self.body.outputs) - self.n_carry

    def split(self, values: Sequence[Any]) -> list[list[Any]]:
        """What is said of the condition's consts, of the body's and of the carry, among what is said of each operand."""
        return split(values, self.n_cond, self.n_consts)


def _rolled(xp: Any, *args: Any, loop: Loop) -> list[Any]:
    assert loop.length is not None
    consts, carry, xs = loop.split(args)
    turns = range(loop.length)
    ys: list[list[Any]] = [[] for _ in range(loop.n_ys)]
    for i in reversed(turns) if loop.reverse else turns:
        outs = eval_jaxpr(loop.body, [*consts, *carry, *[x[i] for x in xs]])
        carry = outs[: loop.n_carry]
        for y, value in zip(ys, outs[loop.n_carry :]):
            y.append(value)
    return [*carry, *[xp.stack(y[::-1] if loop.reverse else y) for y in ys]]


def _rolled_abstract(*avals: Any, loop: Loop) -> list[Any]:
    outs = loop.body.out_avals
    rows = [Aval((loop.length, *a.shape), a.dtype) for a in outs[loop.n_carry :]]
    return [*[Aval(a.shape, a.dtype) for a in outs[: loop.n_carry]], *rows]


rolled_p = Primitive("rolled", _rolled, _rolled_abstract, multiple=True)
