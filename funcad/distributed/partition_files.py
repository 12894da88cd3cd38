"""Partitions that are rows of files: opened where they are read, and closed before the next ones.

Idea: a partition is a pytree; a leaf of it may be a `FileRows`, which says where numbers stand, or the path of an .npy file. So
a partition is as small as a name until its turn has come, travels to other processes as one, and its memory is a mapping that
ends with it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, shown
from funcad.host.real_types import is_a

__all__ = ["FileRows", "chunks", "filed", "loaded"]


class FileRows:
    """Rows `start` to `stop` of an array in a file, None: all.

    `layout`: (dtype, offset, shape, order) of a file without a header.
    """

    __slots__ = ("path", "layout", "start", "stop")

    def __init__(self, path: Any, layout: tuple | None = None, start: int | None = None, stop: int | None = None):
        self.path = os.path.abspath(path)
        self.layout = layout
        self.start = start
        self.stop = stop

    def __repr__(self) -> str:
        rows = "all rows" if self.start is None else f"rows {self.start} to {self.stop}"
        return f"<{rows} of {self.path}>"

    def open(self) -> np.ndarray:
        """A view of the file, which is mapped as long as somebody has it."""
        if self.layout is None:
            found = np.load(self.path, mmap_mode="r")
        else:
            dtype, offset, shape, order = self.layout
            found = np.memmap(self.path, dtype, "r", offset, shape, order)
        return found if self.start is None else found[self.start : self.stop]

    def cut(self, start: int, stop: int) -> FileRows:
        return FileRows(self.path, self.layout, start, stop)


def _is_file(leaf: Any) -> bool:
    return is_a(leaf, Path) or is_a(leaf, str) and leaf.endswith(".npy")


def filed(leaf: Any) -> Any:
    """A leaf of a partition as it is kept: what is in a file by its place there."""
    if _is_file(leaf):
        return FileRows(leaf)
    if not is_a(leaf, np.memmap) or leaf.mode == "c" or is_a(leaf.base, np.ndarray) or leaf.filename is None:
        return leaf  # numbers of our own, or a view of what is mapped
    order = "C" if leaf.flags.c_contiguous else "F"
    return FileRows(leaf.filename, (leaf.dtype, leaf.offset, leaf.shape, order))


def loaded(leaf: Any) -> Any:
    """A leaf of a partition as the function gets it."""
    if type(leaf) is FileRows:
        leaf = leaf.open()
    return np.asarray(leaf) if is_a(leaf, np.memmap) else leaf


@api
def chunks(data: Any, rows: int) -> list[Any]:
    """Cut arrays into partitions of `rows` rows each (the last may have fewer), for `sum_over`; a list.

    `data` is a pytree of arrays, np.memmap arrays and paths of .npy files, all with the same number of rows (axis 0). What lies
    in files is read when `sum_over` comes to it, and is mapped no longer than it needs it. Raises ValueError where numbers of
    rows differ, and TypeError for what has none.

    >>> import numpy as np
    >>> from funcad import distributed
    >>> distributed.chunks({"x": np.arange(5)}, 2)
    [{'x': array([0, 1])}, {'x': array([2, 3])}, {'x': array([4])}]
    """
    leaves, structure = tree.flatten(data)
    if rows < 1:
        raise ValueError(f"chunks: rows must be at least 1, got {rows}")
    kept = [filed(x) for x in leaves]
    whole = [x.open() if type(x) is FileRows else x for x in kept]
    for x in whole:
        if not np.ndim(x):
            raise TypeError(f"chunks takes arrays with rows and paths of .npy files, got {shown(x)}")
    counts = sorted({len(x) for x in whole})
    if len(counts) != 1:
        raise ValueError(f"chunks: the arrays must have the same number of rows, got {counts}")
    cuts = [(start, min(start + rows, counts[0])) for start in range(0, counts[0], rows)]
    return [structure.unflatten([x.cut(i, j) if type(x) is FileRows else x[i:j] for x in kept]) for i, j in cuts]
