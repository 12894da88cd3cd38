"""A few elements are picked before they are worked on, not after.

Idea: `log_softmax(z)[rows, labels]` reads one number of each row of an array that nobody else needs. What makes that array,
element by element, is done to the picked elements of its operands instead; values that were repeated to its shape are picked
from where they were not. The array itself is not made then. Invariants: an index out of bounds raises as before, since one
operand at least is read at all of the indices; more work is never done, for what is picked is a small part.
"""

from __future__ import annotations

from math import prod
from typing import Any

from funcad.ir.jaxpr import Equation, Jaxpr, Literal
from funcad.passes.rewrite import Work, fits, rewrite
from funcad.primitives.scatter import gather_p
from funcad.primitives.shape import broadcast_in_dim, reshape

__all__ = ["picks"]

PART = 8  # the picked elements are at most this part of the array
LONGEST = 12  # operations that are moved


def picks(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the element operations whose results are picked from moved behind that."""
    if not any([e.primitive is gather_p for e in jaxpr.equations]):
        return jaxpr
    return rewrite(jaxpr, _step)


def _step(work: Work, equation: Equation) -> Any:
    if equation.primitive is not gather_p or type(equation.inputs[0]) is Literal:
        return None
    x, (out,) = equation.inputs[0], equation.outputs
    if work.shared(x) or not equation.inputs[1].aval.shape or PART * prod(out.aval.shape) > prod(x.aval.shape):
        return None
    if _element(work, x) is None:
        return None
    pick = _Pick(work, equation)
    if not pick.reaches(x) or len(pick.moved) > LONGEST:
        return None
    for operand in pick.whole:  # first, for the errors that they raise are those of the given program
        pick.moved[operand] = pick.gather(operand, equation.inputs[1:], equation.params)
    found = pick.of(x)
    return [found] if fits(found.aval, out.aval) else None


def _element(work: Work, x: Any) -> Equation | None:
    """The equation that makes each element of x of the elements of its operands at that place."""
    found = work.definitions.get(x)
    if found is None or found.primitive.emit is None or found.primitive.multiple or found.primitive.effect:
        return None
    return found if all([type(a) is Literal or a.aval.shape == x.aval.shape for a in found.inputs]) else None


class _Pick:
    """What one gather does, done to the operands of what makes its array."""

    def __init__(self, work: Work, equation: Equation):
        self.work, self.equation = work, equation
        self.moved: dict[Any, Any] = {}  # array -> what is picked of it
        self.whole: dict[Any, None] = {}  # operands that have all of the elements
        self.shape = equation.outputs[0].aval.shape

    def reaches(self, x: Any) -> bool:
        """Is an operand read that has all of the elements? Notes what is moved on the way."""
        if type(x) is Literal or x in self.moved or len(self.moved) > LONGEST:
            return False
        made = _element(self.work, x)
        if made is None:
            whole = self.work.definition(x, broadcast_in_dim) is None
            if whole:
                self.whole[x] = None
            return whole
        self.moved[x] = None
        return any([self.reaches(a) for a in made.inputs])

    def of(self, x: Any) -> Any:
        if type(x) is Literal:
            return x
        if self.moved.get(x) is None:
            self.moved[x] = self._made(x)
        return self.moved[x]

    def _made(self, x: Any) -> Any:
        made, view = _element(self.work, x), self.work.definition(x, broadcast_in_dim)
        if made is not None:
            return self.work.add(made.primitive, [self.of(a) for a in made.inputs], made.params, made.source)
        repeated = None if view is None else self._of_repeated(view)
        return self.gather(x, self.equation.inputs[1:], self.equation.params) if repeated is None else repeated

    def gather(self, x: Any, indices: Any, params: dict) -> Any:
        return self.work.add(gather_p, [x, *indices], params, self.equation.source)

    def _of_repeated(self, view: Equation) -> Any:
        """Picked from what was repeated, by the indices along its own axes; None if it has some of the leading axes only."""
        (base,), shape, source = view.inputs, view.params["shape"], self.equation.source
        _, *indices = self.equation.inputs
        lead, rank = self.equation.params["batch_dims"], len(indices[0].aval.shape)
        if type(base) is Literal:
            return self.work.add(broadcast_in_dim, [base], {"shape": self.shape, "axes": ()}, source)
        own = [a for a, n in zip(view.params["axes"], base.aval.shape) if n == shape[a] and n != 1]
        sizes = tuple([shape[a] for a in own])
        picked = [index for axis, index in enumerate(indices, lead) if axis in own]
        behind = [rank + a - lead - len(indices) for a in own if a >= lead + len(indices)]
        if picked and not all([a in own for a in range(lead)]) or own != sorted(own):
            return None
        if base.aval.shape != sizes:
            base = self.work.add(reshape, [base], {"shape": sizes}, source)
        places = (*[a for a in own if a < lead], *behind)
        if picked:
            base, places = self.gather(base, picked, {"batch_dims": lead, "unique": False}), (*range(rank), *behind)
        if base.aval.shape == self.shape:
            return base
        return self.work.add(broadcast_in_dim, [base], {"shape": self.shape, "axes": places}, source)
