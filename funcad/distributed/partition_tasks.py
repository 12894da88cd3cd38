"""What is done with one partition, in whatever process: a function of the parameters, or what derives from it, and its part.

Idea: a `Task` is the user's function, the structure of its parameters, and a chain of derivations, each of which makes of a
function of flat values another one. It is small and pickles, so the derivative is taken where the data are. The function
travels by its name, or by value where cloudpickle is installed, and is kept by the process that got it: jitted, it compiles
there once.

Invariant: the parts are added up in pairs, always the same ones, so the sum has equal bits wherever the partitions are.
"""

from __future__ import annotations

import importlib
import os
import pickle
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import api, check_leaves, flat_values, name_of
from funcad.api.grad import value_and_grad
from funcad.api.vjp import jvp, vjp
from funcad.api.vmap import vmap
from funcad.control.rules import refuse_outside, refuse_tracers
from funcad.host.devices import namespace_of
from funcad.host.locks import read_only
from funcad.host.real_types import is_a
from funcad.host.where import for_user, setting
from funcad.ir.aval import Aval, aval_of, is_inexact, said
from funcad.ir.trace import trace_function
from funcad.memo import remembers

# -- partitions that are rows of files: opened where they are read, and closed before the next ones
#
# Idea: a partition is a pytree; a leaf of it may be a `FileRows`, which says where numbers stand, or the path of an .npy file.
# So a partition is as small as a name until its turn has come, travels to other processes as one, and its memory is a mapping
# that ends with it.


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
            raise TypeError(f"chunks takes arrays with rows and paths of .npy files, got {said(x)}")
    counts = sorted({len(x) for x in whole})
    if len(counts) != 1:
        raise ValueError(f"chunks: the arrays must have the same number of rows, got {counts}")
    cuts = [(start, min(start + rows, counts[0])) for start in range(0, counts[0], rows)]
    return [structure.unflatten([x.cut(i, j) if type(x) is FileRows else x[i:j] for x in kept]) for i, j in cuts]


# -- what is done with one partition, in whatever process


GROUP = 8  # parts that are added up at once where they come; a power of two, so that pairs stay pairs

Flat = Callable[..., list[Any]]
_NUMBER = tree.structure(0.0)
Avals = tuple[Aval, ...]


# ---------------------------------------------------------------- functions that travel


class Carried:
    """A function of the user's, which other processes get as bytes and keep."""

    __slots__ = ("f", "number", "both", "_bytes")

    def __init__(self, f: Callable[..., Any]):
        self.f = f
        self.number = False  # has it been seen to give one number, and no container of one?
        both: Any = value_and_grad(f)
        self.both = both if both.compiled is not None else None  # of a jitted function: one program, called at once
        self._bytes: bytes | None = None

    def __reduce__(self) -> Any:
        if self._bytes is None:
            self._bytes = _packed(self.f)
        return _unpacked, (self._bytes,)


def _packed(f: Any) -> bytes:
    try:
        return importlib.import_module("cloudpickle").dumps(f)  # by name what has one, as Dask does
    except ImportError:
        pass
    try:
        return pickle.dumps(f)
    except Exception as error:
        raise pickle.PicklingError(
            f"sum_over sends {name_of(f)} to other processes, and it does not pickle: {error}\nRemedy: define it at the top "
            "level of a module; or pip install cloudpickle, which sends lambdas and functions of notebooks, too."
        ) from error


_loading = threading.RLock()  # or two threads of a worker would each have, and compile, a function of their own


def _unpacked(data: bytes) -> Carried:
    with _loading:
        return _kept(data)


@remembers(32, same=None)
def _kept(data: bytes) -> Carried:
    found = Carried(pickle.loads(data))
    found._bytes = data
    return found


# ---------------------------------------------------------------- derivations: of functions of flat values, and of their avals
# (no tuples: these would be equal where they say the same of different kinds)


def _strong(avals: Iterable[Aval]) -> Avals:
    return tuple([a.update() for a in avals])


def _chosen(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    return [v for v, m in zip(values, mask) if m]


def _inexact(values: Sequence[Any]) -> list[Any]:
    return [v for v in values if is_inexact(aval_of(v))]


def _of_chosen(g: Flat, values: Sequence[Any], mask: Sequence[bool], all_outputs: bool = True) -> Flat:
    """g as a function of the values that the mask names, the others as they are."""

    def of_them(*given: Any) -> list[Any]:
        found = iter(given)
        outs = g(*[next(found) if m else v for v, m in zip(values, mask)])
        return outs if all_outputs else _inexact(outs)

    return of_them


@dataclass(frozen=True)
class Slope:
    """Of a function with one real result: [value, its gradient by the values that the mask names], in one pass."""

    mask: tuple[bool, ...]

    def of(self, g: Flat) -> Flat:
        def value_and_slope(*values: Any) -> list[Any]:
            (value,), pull = vjp(_of_chosen(g, values, self.mask), *_chosen(values, self.mask))
            return [value, *pull([aval_of(value).dtype.type(1)])]

        return value_and_slope

    def avals(self, given: Avals, of: Callable[[Avals], Avals]) -> Avals:
        return (*of(given), *_strong(_chosen(given, self.mask)))


@dataclass(frozen=True)
class Jvp:
    """(values, tangents of those that the mask names) -> the results and, of those that are inexact, the tangents."""

    mask: tuple[bool, ...]

    def of(self, g: Flat) -> Flat:
        def with_tangents(*given: Any) -> list[Any]:
            values, tangents = given[: len(self.mask)], given[len(self.mask) :]
            outs, touts = jvp(_of_chosen(g, values, self.mask), tuple(_chosen(values, self.mask)), tangents)
            return [*outs, *[t for o, t in zip(outs, touts) if is_inexact(aval_of(o))]]

        return with_tangents

    def avals(self, given: Avals, of: Callable[[Avals], Avals]) -> Avals:
        outs = of(given[: len(self.mask)])
        return (*outs, *_strong(_inexact(outs)))


@dataclass(frozen=True)
class Push:
    """The tangents of `Jvp` alone: linear in the tangents that go in."""

    mask: tuple[bool, ...]

    def of(self, g: Flat) -> Flat:
        def pushed(*given: Any) -> list[Any]:
            values, tangents = given[: len(self.mask)], given[len(self.mask) :]
            of_chosen = _of_chosen(g, values, self.mask, all_outputs=False)
            return jvp(of_chosen, tuple(_chosen(values, self.mask)), tangents)[1]

        return pushed

    def avals(self, given: Avals, of: Callable[[Avals], Avals]) -> Avals:
        return _strong(_inexact(of(given[: len(self.mask)])))


@dataclass(frozen=True)
class Vjp:
    """(values, cotangents of the inexact results) -> cotangents of the values that the mask names."""

    mask: tuple[bool, ...]

    def of(self, g: Flat) -> Flat:
        def pulled(*given: Any) -> list[Any]:
            values, cts = given[: len(self.mask)], given[len(self.mask) :]
            pull = vjp(_of_chosen(g, values, self.mask, all_outputs=False), *_chosen(values, self.mask))[1]
            return list(pull(list(cts)))

        return pulled

    def avals(self, given: Avals, of: Callable[[Avals], Avals]) -> Avals:
        return _strong(_chosen(given, self.mask))


@dataclass(frozen=True)
class Lanes:
    """The function for each of `size` examples; the values that the mask names have an axis 0 of them."""

    mask: tuple[bool, ...]
    size: int

    def of(self, g: Flat) -> Flat:
        axes = tuple([0 if m else None for m in self.mask])
        return lambda *values: vmap(g, in_axes=axes, axis_size=self.size)(*values)

    def avals(self, given: Avals, of: Callable[[Avals], Avals]) -> Avals:
        return tuple([a.batched(self.size) for a in of(tuple([a.unbatched() if m else a for a, m in zip(given, self.mask)]))])


# ---------------------------------------------------------------- one partition


class Part(NamedTuple):
    """What came of one partition, or of some: `made` is the structure of f's own results and their avals."""

    first: int
    made: tuple[Any, Avals]
    values: list[Any]


class Task(NamedTuple):
    """The user's function, the structure of its parameters, and what derives from it."""

    function: Carried
    structure: Any
    chain: tuple[Any, ...]

    def flat(self, partition: Any, made: list[Any]) -> Flat:
        """The derived function on this partition; `made` is filled as it runs, see `Part`."""
        f = self.function.f

        def of_leaves(*leaves: Any) -> list[Any]:
            result = f(self.structure.unflatten(leaves), partition)
            outs, structure = flat_values(result)
            what = f"sum_over of {name_of(f)}: output"
            check_leaves(outs, what, result)
            outs = [np.asarray(x)[()] if is_a(x, (bool, int, float, complex)) else x for x in outs]
            avals = tuple([Aval(a.shape, a.dtype) for a in map(aval_of, outs)])
            if any(a.dtype.kind == "b" for a in avals):
                raise TypeError(f"{what} is a truth value, which has no sum.\nRemedy: count it, with .astype(int).")
            made[:] = [structure, avals]
            self.function.number = structure == _NUMBER and not avals[0].shape
            return outs

        return reduce(lambda g, derivation: derivation.of(g), self.chain, of_leaves)


    def run(self, partition: Any, given: Sequence[Any], made: list[Any]) -> list[Any]:
        """The results on this partition."""
        function = self.function
        whole = len(self.chain) == 1 and isinstance(self.chain[0], Slope) and all(self.chain[0].mask)
        if not (whole and function.both is not None and function.number):
            return self.flat(partition, made)(*given)
        value, slope = function.both(self.structure.unflatten(given), partition)
        made[:] = [_NUMBER, (Aval((), aval_of(value).dtype),)]
        return [value, *flat_values(slope)[0]]


class PartitionWork(NamedTuple):
    """A task on values of its parameters; or on their avals (`abstract`), to see what it would give."""

    task: Task
    given: Sequence[Any]
    abstract: bool = False

    def __call__(self, index: int, count: int, partition: Any) -> Part:
        """In this process. An error gets a note with the number of the partition."""
        made: list[Any] = []
        try:
            # as in a process of its own: what a trace around us has set is none of f's concern
            with setting(staging=None, abstract=None, running=None, source=None, axis_env=(), batching=None):
                f, values, partition = self.task.function.f, [], tree.map(loaded, partition)
                what = f"sum_over of {name_of(f)}"
                if self.abstract:
                    flat = self.task.flat(partition, made)
                    refuse_tracers(what, [f], trace_function(flat, self.given, name="sum_over")[1])
                else:
                    values = self.task.run(partition, list(map(_lent, self.given)), made)
                    refuse_outside(what, [f], (), values)
        except Exception as error:
            raise note(error, index, count)  # noqa: B904 the same error
        return Part(index, (made[0], made[1]), [_plain(x) for x in values])

    def elsewhere(self, index: int, count: int, partition: Any) -> Part:
        """In another process, to which errors have to come back."""
        try:
            return self(index, count, partition)
        except Exception as error:
            raise _portable(error, index, count)  # noqa: B904 the same error, or one with its text


def _lent(x: Any) -> Any:
    return read_only(x) if type(x) is np.ndarray else x


def _plain(x: Any) -> Any:
    """A result that shares no memory with parameters or partitions, if only by being added to others."""
    return x if namespace_of([x]) is np else x.get()


def note(error: Exception, index: int, count: int) -> Exception:
    text = f"in partition {index} of {count}"
    if text not in getattr(error, "__notes__", ()):
        error.add_note(text)
    return error


def _portable(error: Exception, index: int, count: int) -> Exception:
    """The error, if it comes back from being pickled, else one that says the same."""
    if _comes_back(error):
        return error
    text = "".join(traceback.format_exception(for_user(error)))
    return note(RuntimeError(f"{type(error).__qualname__}, which does not pickle:\n{text}"), index, count)


def _comes_back(error: Exception) -> bool:
    try:
        return type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # whatever its own methods raise
        return False


# ---------------------------------------------------------------- the sum


def _pair(a: Part, b: Part) -> Part:
    if a.made != b.made:
        raise ValueError(
            f"the results of partitions {a.first} and {b.first} differ and cannot be added up:\n"
            f"  partition {a.first}: {_text(a)}\n  partition {b.first}: {_text(b)}\n"
            "Remedy: give the same structure, shapes and dtypes for each, whatever the number of its rows."
        )
    return Part(a.first, a.made, [x + y for x, y in zip(a.values, b.values)])


def _text(part: Part) -> str:
    structure, avals = part.made
    return f"{structure.unflatten([str(a) for a in avals])}"


def add_up(parts: Iterable[Part]) -> Part:
    """Neighbours first, then pairs of neighbours, and so on: whichever parts are added up beforehand in groups of GROUP."""
    waiting: list[tuple[int, Part]] = []  # sums of 2**height parts, heights falling
    for part in parts:
        height = 0
        while waiting and waiting[-1][0] == height:
            part, height = _pair(waiting.pop()[1], part), height + 1
        waiting.append((height, part))
        del part
    return reduce(lambda right, left: _pair(left, right), [p for _, p in reversed(waiting)])
