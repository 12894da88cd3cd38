"""Where a program repeats itself: stretches of equations that look like those one period before.

Idea: an equation looks like another if it applies the same primitive and its result has the same shape. The last place where
the next few equations looked as they do here suggests a period, and the stretch is followed in both directions as far as it
goes. Shorter periods are met first, so inner loops come before the loops around them. Invariants: stretches do not overlap, and
time is linear in the length of the program: a period that has failed is not tried again where it was followed, and the work is
bounded. Trap: looking alike is not being alike; turns.py compares all else, in these stretches only.
"""

from __future__ import annotations

from collections.abc import Sequence

from funcad.ir.jaxpr import Equation, equation_has_effects

__all__ = ["Stretch", "looks", "stretches", "TURNS", "LEAST"]

TURNS = 8  # a loop has at least so many
LEAST = 64  # equations of a stretch
FEW = 6  # equations that suggest a period
STEPS = 40  # comparisons for each equation, after which the search ends

Stretch = tuple[int, int, int]  # start, period, end


def looks(equations: Sequence[Equation]) -> list[int]:
    """A number for each equation, equal for those that look alike; what has effects looks like nothing else."""
    known: dict[object, int] = {}
    found = []
    for i, equation in enumerate(equations):
        primitive, outputs = equation.primitive, equation.outputs
        key: object = (primitive, outputs[0].aval.shape) if outputs else i
        if primitive.effect or primitive.multiple and equation_has_effects(equation):
            key = i
        found.append(known.setdefault(key, len(known)))
    return found


def stretches(words: Sequence[int]) -> list[Stretch]:
    """The stretches of at least TURNS equal periods, in order."""
    found: list[Stretch] = []
    last: dict[tuple[int, ...], int] = {}
    failed: dict[int, int] = {}  # period -> where it ended
    floor, i, n = 0, 0, len(words)
    steps = STEPS * n
    while i + FEW <= n and steps > 0:
        few = tuple(words[i : i + FEW])
        j = last.get(few)
        last[few] = i
        if j is not None and failed.get(i - j, 0) <= i:
            period, start, end = i - j, j, i + FEW
            while end < n and words[end] == words[end - period]:
                end += 1
            while start > floor and words[start - 1] == words[start - 1 + period]:
                start -= 1
            steps -= end - start
            if end - start >= max(TURNS * period, LEAST):
                found.append((start, period, end))
                floor = i = end
                last.clear()
                failed.clear()
                continue
            failed[period] = end
        i += 1
    return found
