"""`np.nditer` and `np.broadcast` of traced arrays.

Idea: NumPy's own iterator runs over arrays of places: for each operand an array of whole numbers in the same memory order,
each of which says where in the operand its element stands. So order, broadcasting, flags and errors are NumPy's, and only the
elements are looked up: views without dimensions, which can be written where the operand is asked for to be written.

Trap: what would be converted on the way is refused: it would be a copy, into which a function writes in vain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.doors.asking import holds_traced
from funcad.doors.codes import Answer
from funcad.errors import WriteError
from funcad.ir.tracer import Tracer
from funcad.numpy.dispatch import where_am_i
from funcad.writes.plain import buffer

_OF_ARRAYS = (
    "common_dtype",
    "copy_if_overlap",
    "delay_bufalloc",
    "refs_ok",
)  # flags of no use where places are read


def _places(x: Any) -> np.ndarray:
    """For each element its place in C's order, in an array of x's memory order."""
    x = x if type(x) is Tracer else np.asarray(x)
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    turned = (
        *[slice(None, None, -1 if step < 0 else 1) for step in x.strides],
        ...,
    )  # stays an array without dimensions, too
    places = np.arange(x.size).reshape(x.shape)[turned].transpose(order)
    in_order: np.ndarray = (
        np.ascontiguousarray(places).reshape(places.shape).transpose(np.argsort(order))
    )
    return in_order[turned]


def _element(x: Any, place: np.ndarray, written: bool) -> Any:
    """The element at a place, or those at a row of places; a view if it may be written."""
    if place.ndim == 0:
        at = np.unravel_index(int(place), np.shape(x))
        return x[at] if type(x) is Tracer and not written else x[(*at, ...)]
    if not written:
        return np.reshape(x, -1)[place]
    order = sorted(range(x.ndim), key=lambda axis: -abs(x.strides[axis]))
    lying = np.transpose(x, order)  # in the order of its memory
    at = np.unravel_index(place, x.shape)
    row = np.ravel_multi_index([at[axis] for axis in order], lying.shape)
    step = int(row[1] - row[0]) if len(row) > 1 else 1
    if step <= 0 or lying.strides != np.empty(lying.shape, x.dtype).strides:
        raise WriteError(
            f"np.nditer writes rows of elements of a {x.dtype} array of shape {x.shape}, which lies with gaps or backwards.\n"
            "Remedy: leave flags=['external_loop'] out: the elements come one by one."
        )
    return np.reshape(lying, -1)[int(row[0]) : int(row[-1]) + 1 : step]


class _Iterated:
    """An iterator of NumPy's over places, and what it iterates over: attributes are the iterator's."""

    def __init__(self, real: Any, operands: Sequence[Any]):
        vars(self).update(_real=real, operands=tuple(operands))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._real, name, value)

    def __iter__(self) -> Any:
        return self


class TracedBroadcast(_Iterated):
    """`np.broadcast` of operands some of which are traced."""

    def __init__(self, *operands: Any):
        super().__init__(np.broadcast(*[_places(x) for x in operands]), operands)

    def __next__(self) -> tuple:
        return tuple(
            [
                x[np.unravel_index(place, np.shape(x))]
                for x, place in zip(self.operands, next(self._real))
            ]
        )

    def __getattr__(self, name: str) -> Any:
        if name == "iters":
            raise AttributeError(
                f"np.broadcast of traced arrays, asked{where_am_i()} for its iters: it has none.\n"
                "Remedy: iterate over it, or over np.broadcast_arrays(x, y)."
            )
        return super().__getattr__(name)


class TracedNditer(_Iterated):
    """`np.nditer` of operands some of which are traced."""

    def __init__(
        self,
        op: Any,
        flags: Any = (),
        op_flags: Any = None,
        op_dtypes: Any = None,
        order: Any = "K",
        **rest: Any,
    ):
        operands = list(op) if type(op) in (tuple, list) else [op]
        flags = list(flags or ())
        if op_flags is None:
            op_flags = [
                ["writeonly", "allocate"] if x is None else ["readonly"] for x in operands
            ]
        elif op_flags and type(op_flags[0]) is str:
            op_flags = [op_flags] * len(operands)
        places = [None if x is None else _places(x) for x in operands]
        like = [
            x if p is None else p.astype(x.dtype) if type(x) is Tracer else x
            for x, p in zip(operands, places)
        ]
        asked = np.nditer(
            like, flags, op_flags, op_dtypes, order, **rest
        )  # raises what NumPy has to say
        for k, (x, made) in enumerate(zip(operands, asked.operands)):
            if x is None:
                operands[k], places[k] = buffer(np.zeros_like(made), 0), _places(made)
            elif asked.dtypes[k] != made.dtype:
                raise TypeError(
                    f"np.nditer would convert operand {k}, {made.dtype}, to {asked.dtypes[k]} while it iterates, and a part of "
                    f"it is traced.\nRemedy: give x.astype(np.{asked.dtypes[k]}) as the operand."
                )
        kept = [flag for flag in flags if flag not in _OF_ARRAYS]
        rest.pop("casting", None)
        super().__init__(
            np.nditer(places, kept, [["readonly"]] * len(places), None, order, **rest), operands
        )
        written = [not {"readwrite", "writeonly"}.isdisjoint(words) for words in op_flags]
        vars(self).update(_written=written, _started=False, dtypes=asked.dtypes)

    def __getitem__(self, k: Any) -> Any:
        if type(k) is slice:
            return tuple([self[i] for i in range(*k.indices(len(self)))])
        return _element(self.operands[k], self._real[k], self._written[k])

    def __setitem__(self, k: int, value: Any) -> None:
        if not self._written[k]:
            raise ValueError(
                f"np.nditer: operand {k} is not to be written.\nRemedy: op_flags=['readwrite']."
            )
        self[k][...] = value

    def __len__(self) -> int:
        return len(self.operands)

    @property
    def value(self) -> Any:
        """What the iterator gives at the place where it is."""
        return self[0] if len(self.operands) == 1 else self[:]

    def __next__(self) -> Any:
        if self._real.finished or self._started and not self._real.iternext():
            raise StopIteration
        vars(self)["_started"] = True
        return self.value

    def reset(self) -> None:
        """Start again."""
        self._real.reset()
        vars(self)["_started"] = False

    def __enter__(self) -> TracedNditer:
        return self

    def __exit__(self, *error: object) -> None:
        self._real.close()


def iterating(name: str, original: Callable[..., Any]) -> Answer:
    """The doors of `np.nditer` and `np.broadcast`."""
    return holds_traced, {"nditer": TracedNditer, "broadcast": TracedBroadcast}[
        name.rpartition(".")[2]
    ]
