"""When a loop is run backwards with room for few of its states: which it keeps, and what it runs again.

Idea: binomial checkpointing. To go backwards through L blocks from the state in front of them, with s slots for states (one of
which holds that state), advance to the middle, keep the state there, go backwards through what is behind it with a slot
less, then through what is before it with the slot back. At most C(s + r, s) blocks can be reversed if none is advanced more
than r times; the middle is chosen by these numbers, and then no schedule advances fewer blocks in all. After A. Griewank and
A. Walther, "Algorithm 799: Revolve", ACM Trans. Math. Softw. 26 (2000).
"""

from __future__ import annotations

from math import comb


def _reach(slots: int, times: int) -> int:
    """How many blocks can be reversed if none is advanced more than so many times."""
    return comb(slots + times, slots) if times >= 0 and slots >= 0 else 0


def most_times(length: int, slots: int) -> int:
    """How often a block is advanced at most, to reverse so many."""
    if slots == 1:
        return length - 1
    times = 0
    while _reach(slots, times) < length:
        times += 1
    return times


def advances(length: int, slots: int) -> int:
    """How many blocks are advanced to reverse so many, at least."""
    times = most_times(length, slots)
    return times * length - _reach(slots + 1, times - 1)


def _middle(length: int, slots: int) -> int:
    times = most_times(length, slots)
    return max(1, _reach(slots, times - 2), length - _reach(slots - 1, times))


def kept_ahead(length: int, slots: int) -> list[int]:
    """In front of which of so many blocks a state is kept on the way forward."""
    kept, free = [0], slots - 1
    while free and kept[-1] < length - 1:
        kept.append(kept[-1] + _middle(length - kept[-1], 1 + free))
        free -= 1
    return kept


def reach_table(slots: int, times: int) -> list[list[int]]:
    """How many blocks can be reversed with 0, 1, ... slots if none is advanced more than -2, -1, 0, ... times."""
    return [[0, 0, *[min(_reach(s, r), 2**60) for r in range(times)]] for s in range(slots + 1)]


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
