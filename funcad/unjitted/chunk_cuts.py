"""Where a long recording is cut: such that the turns of its loops make equal chunks, however many there are.

Idea: a line that comes again and again is in a loop. Of those that the first loop ahead repeats the rarest are lines of its
body, not of loops in it, and the first of these begins a turn. Equal turns go into one chunk, by powers of two, so that loops
of all lengths are made of few kinds of chunks. Invariant: any cut is right, since a chunk has a key of its own; what is decided
here is only how often chunks are alike. So a line is told by one number, which two lines may share.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

SHORTEST = 24  # rows of a chunk, if it is not the last
USUAL = 128  # of a chunk of several turns
LONGEST = 512  # of one turn, and where nothing repeats
AHEAD = 1024  # rows among which lines are counted


def line_of(source: tuple | None) -> int:
    """A number for the place in the user's code."""
    return id(source[0]) + source[1] if source else 0


def cuts(lines: Sequence[int]) -> Iterator[int]:
    """Where the chunks end."""
    start = 0
    for end in _pieces(lines):
        if end - start >= SHORTEST or end == len(lines):
            yield end
            start = end


def _pieces(lines: Sequence[int]) -> Iterator[int]:
    start, stop = 0, len(lines)
    while start < stop:
        begin = start + _first_turn(lines[start : start + AHEAD])
        if begin > start:
            start = min(start + LONGEST, begin)
            yield start
            continue
        for end in _turns(lines, start):
            start = end
            yield end


def _first_turn(lines: Sequence[int]) -> int:
    """Where the first loop begins; their number if there is none."""
    n = len(lines)
    first, last = dict(zip(reversed(lines), range(n - 1, -1, -1))), dict(zip(lines, range(n)))
    looping = [m for m in first if last[m] - first[m] >= SHORTEST]
    if not looping:
        return n
    until = last[min(looping, key=first.__getitem__)]
    looping = [m for m in looping if first[m] <= until]
    far = max([last[m] - first[m] for m in looping]) // 2
    counts = Counter(lines)
    looping = [m for m in looping if last[m] - first[m] >= far]
    few = min([counts[m] for m in looping]) + 1  # these rows may end within a turn
    return min([first[m] for m in looping if counts[m] <= few])


def _turns(lines: Sequence[int], start: int) -> Iterator[int]:
    """Ends of pieces of a loop whose first turn begins at `start`."""
    line, starts = lines[start], [start]
    try:
        while True:
            starts.append(lines.index(line, starts[-1] + 1, starts[-1] + LONGEST + 1))
    except ValueError:  # no more
        pass
    last = starts[-1]
    length = last - starts[-2] if len(starts) > 1 else LONGEST
    alike = lines[last : last + length] == lines[last - length : last]
    starts.append(last + length if alike else min(last + LONGEST, len(lines)))
    i, n = 0, len(starts) - 1
    while i < n:
        length = starts[i + 1] - starts[i]
        turn = lines[starts[i] : starts[i + 1]]
        end, size = i + 1, 1
        while end < n and lines[starts[end] : starts[end + 1]] == turn:
            end += 1
        while 2 * size * length <= USUAL:
            size *= 2
        while i < end:
            while i + size > end:
                size //= 2
            i += size
            yield starts[i]
