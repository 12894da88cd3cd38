"""When a loop of known length is run backwards with room for few of its states: which it keeps, and what it runs again.

Idea: binomial checkpointing. To go backwards through L blocks from the state in front of them, with s slots for states (one of
which holds that state), advance to the middle, keep the state there, go backwards through what is behind it with a slot
less, then through what is before it with the slot back. At most C(s + r, s) blocks can be reversed if none is advanced more
than r times; the middle is chosen by these numbers, and then no schedule advances fewer blocks in all. After A. Griewank and
A. Walther, "Algorithm 799: Revolve", ACM Trans. Math. Softw. 26 (2000).
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple


def _reach(slots: int, times: int) -> int:
    """How many blocks can be reversed if none is advanced more than so many times."""
    return comb(slots + times, slots) if times >= 0 and slots >= 0 else 0


def _times(length: int, slots: int) -> int:
    """How often a block is advanced at most."""
    if slots == 1:
        return length - 1
    times = 0
    while _reach(slots, times) < length:
        times += 1
    return times


def advances(length: int, slots: int) -> int:
    """How many blocks are advanced to reverse so many, at least."""
    times = _times(length, slots)
    return times * length - _reach(slots + 1, times - 1)


def _middle(length: int, slots: int) -> int:
    times = _times(length, slots)
    return max(1, _reach(slots, times - 2), length - _reach(slots - 1, times))


class Schedule(NamedTuple):
    """What to do in which order. Slots are numbered; the last one, beyond those that were counted, holds a passing state.

    `kept[i]` is where the state before block i goes on the way forward. To reverse block i, take for each j in
    range(first[i], last[i]) the state in slot source[j], advance it through block[j], and put it into slot target[j]; then
    reverse the block from the state in slot start[i].
    """

    kept: list[int]
    first: list[int]
    last: list[int]
    start: list[int]
    source: list[int]
    block: list[int]
    target: list[int]


def schedule(length: int, slots: int) -> Schedule:
    """For so many blocks; slot 0 holds the state before the first."""
    passing = slots
    free = list(range(slots - 1, 0, -1))
    first, last, start = [0] * length, [0] * length, [0] * length
    moves: list[tuple[int, int, int]] = []
    waiting = [(0, length, 0)]
    done = 0

    def advance(begin: int, end: int, slot: int, target: int) -> None:
        for i in range(begin, end):
            moves.append((slot, i, target if i == end - 1 else passing))
            slot = passing

    def reverse(i: int, slot: int) -> None:
        nonlocal done
        first[i], last[i], start[i] = done, len(moves), slot
        done = len(moves)

    while waiting:
        begin, n, slot = waiting.pop()
        if n == 1:
            reverse(begin, slot)
            free.append(slot)
        elif not free:
            for i in range(begin + n - 1, begin, -1):
                advance(begin, i, slot, passing)
                reverse(i, passing)
            waiting.append((begin, 1, slot))
        else:
            m, kept = _middle(n, 1 + len(free)), free.pop()
            advance(begin, begin + m, slot, kept)
            waiting += [(begin, m, slot), (begin + m, n - m, kept)]
    forward = last[-1]  # the first moves are made on the way forward
    kept = [0, *[target for _, _, target in moves[:forward]]]
    first, last = [max(0, i - forward) for i in first], [i - forward for i in last]
    source, block, target = [list(column) for column in zip(*moves[forward:])] or ([], [], [])
    return Schedule(kept, first, last, start, source, block, target)


def blocks_of(length: int, state: float, residuals: float, room: float) -> tuple[int, int] | None:
    """(turns of a block, slots) with which a loop is reversed in so much room; None if there is not enough for any.

    `state` is what the carry takes, `residuals` what a turn keeps when it is to be reversed. Of those that advance hardly
    more turns than the fewest, the way that needs the least memory, which also is the quickest.
    """
    found: list[tuple[float, float, int, int]] = []
    size = 1
    while True:
        number = -(-length // size)
        slots = min(number, int((room - size * residuals) // state) - 1 if state else number)
        if slots >= 1 and size * residuals <= room:
            slots_needed = slots
            found.append((size * advances(number, slots), (slots_needed + 1) * state + size * residuals, size, slots))
        if size >= length:
            break
        size = min(length, max(size + 1, size * 5 // 4))
    if not found:
        return None
    fewest = min(turns for turns, *_ in found)
    return min([(memory, size, slots) for turns, memory, size, slots in found if turns <= fewest + 0.02 * length])[1:]
