"""Reading the arguments of `einsum`: ellipses, implicit outputs and the interleaved form are made canonical here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.aval import shape_of

__all__ = ["canonical_einsum", "fresh_letters"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def fresh_letters(used: Any, count: int) -> str:
    """Letters that do not occur in `used`, in alphabetical order."""
    free = [c for c in _LETTERS if c not in used]
    if len(free) < count:
        raise ValueError("einsum: more than 52 different subscripts are needed")
    return "".join(free[len(free) - count :])


def canonical_einsum(*operands: Any) -> tuple[str, list[Any]]:
    """NumPy's arguments of `einsum` (subscripts first, or operands and lists alternating) in canonical form.

    `("ab,bc->ac", [x, y])`: no ellipsis, no blanks, the output always given. ValueError where NumPy raises it.
    """
    if not operands:
        raise ValueError("einsum: must specify the subscripts and at least one operand")
    if isinstance(operands[0], str):
        text, xs = operands[0].replace(" ", ""), list(operands[1:])
    else:
        text, xs = _from_lists(operands)
    inputs, arrow, output = text.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(xs):
        raise ValueError(f"einsum: subscripts {text!r} name {len(terms)} operands, but {len(xs)} were given")
    for part in (*terms, output):
        if any(c not in _LETTERS for c in part.replace("...", "")) or part.count("...") > 1:
            raise ValueError(f"einsum: subscripts {text!r} may hold letters, ',', '->' and one '...' per operand")
    hidden = []
    for term, x in zip(terms, xs):
        ndim, named = len(shape_of(x)), len(term.replace("...", ""))
        if named > ndim or ("..." not in term and named != ndim):
            raise ValueError(f"einsum: an operand of shape {shape_of(x)} does not have the axes that {term!r} names")
        hidden.append(ndim - named if "..." in term else 0)
    letters = fresh_letters(text, max(hidden))
    terms = [t.replace("...", letters[len(letters) - h :]) for t, h in zip(terms, hidden)]
    if arrow:
        if letters and "..." not in output:
            raise ValueError(f"einsum: the output of {text!r} has no '...', but {len(letters)} axes of the operands do")
        output = output.replace("...", letters)
    else:
        joined = "".join(terms)
        output = letters + "".join(sorted([c for c in set(joined) - set(letters) if joined.count(c) == 1]))
    if len(set(output)) != len(output) or not set(output) <= set("".join(terms)):
        raise ValueError(f"einsum: output subscripts of {text!r} must be different and occur among the operands'")
    return f"{','.join(terms)}->{output}", xs


def _from_lists(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    def term(subscripts: Any) -> str:
        try:
            return "".join(["..." if s is Ellipsis else _LETTERS[int(s)] for s in subscripts])
        except (TypeError, IndexError):
            raise ValueError(f"einsum: subscripts are integers below 52 and Ellipsis, got {subscripts!r}") from None

    xs, lists = list(operands[0::2]), list(operands[1::2])
    output = None
    if len(operands) % 2:
        output = term(xs.pop())
    text = ",".join([term(s) for s in lists])
    return (text if output is None else f"{text}->{output}"), xs
