"""`sum_over`: the sum of a function of the parameters over partitions of data, wherever these are, with all derivatives.

Idea: a `PartitionSum` says what is summed: a function, partitions, and the chain of derivations that the rules of the operation
(primitives/collective.py) asked for. It knows what comes out by looking at the first partition once, and hands the work to
whoever has the partitions (partition_runners.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad.api.border import Transformed, api, check_leaves, flat_values, name_of
from funcad.distributed.partition_runners import runner_of
from funcad.distributed.partition_tasks import Avals, Carried, Jvp, Lanes, Part, PartitionWork, Push, Slope, Task, Vjp
from funcad.ir.aval import said
from funcad.primitives.partition_sums import avals_of, numbers_behind, partition_sum


class Partitions:
    """A function and partitions of data, and what is known of its results by the avals of its parameters."""

    __slots__ = ("function", "runner", "known", "__weakref__")

    def __init__(self, f: Callable[..., Any], runner: Any):
        self.function = Carried(f)
        self.runner = runner
        self.known: dict[Any, tuple[Any, Avals]] = {}

    def __repr__(self) -> str:
        return name_of(self.function.f)


class PartitionSum(NamedTuple):
    """What is summed: see the module's text. Chains are compared by what they say, sources by which they are."""

    source: Partitions
    structure: Any
    chain: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        return ".".join([repr(self.source), *[type(d).__name__.lower() for d in self.chain]])

    def _then(self, derivation: Any) -> PartitionSum:
        return self._replace(chain=(*self.chain, derivation))

    def slope(self, mask: tuple[bool, ...]) -> PartitionSum:
        return self._then(Slope(mask))

    def jvp(self, mask: tuple[bool, ...]) -> PartitionSum:
        return self._then(Jvp(mask))

    def push(self, mask: tuple[bool, ...]) -> PartitionSum:
        return self._then(Push(mask))

    def pull(self, mask: tuple[bool, ...]) -> PartitionSum:
        return self._then(Vjp(mask))

    def lanes(self, mask: tuple[bool, ...], size: int) -> PartitionSum:
        return self._then(Lanes(mask, size))

    @property
    def pushed(self) -> tuple[bool, ...]:
        """Which values have tangents, if this is what pushes them forward; else empty."""
        last = self.chain[-1] if self.chain else None
        return last.mask if isinstance(last, Push) else ()

    @property
    def before(self) -> PartitionSum:
        """What the last derivation is of."""
        return self._replace(chain=self.chain[:-1])

    def made(self, avals: Avals, values: Sequence[Any] = ()) -> tuple[Any, Avals]:
        """(structure, avals) of f's results for parameters of these avals, as the first partition gives them.

        With values f runs on them, so that it may look at them; without, it is traced.
        """
        key = self.structure, self.structure.orders, avals
        found = self.source.known.get(key)
        if found is None:
            task = Task(self.source.function, self.structure, ())
            part: Part = self.source.runner.first(PartitionWork(task, values or avals, abstract=not values))
            found = self.source.known.setdefault(key, part.made)
        return found

    def out_avals(self, avals: Avals, values: Sequence[Any] = ()) -> Avals:
        if not self.chain:
            return self.made(avals, values)[1]
        return self.chain[-1].avals(avals, self.before.out_avals)

    def run(self, values: Sequence[Any]) -> list[Any]:
        part = self.source.runner.total(PartitionWork(Task(self.source.function, self.structure, self.chain), values))
        if not self.chain:
            self.source.known.setdefault((self.structure, self.structure.orders, avals_of(values)), part.made)
        return [_owned(x) for x in part.values]


def _owned(x: Any) -> Any:
    """A result that is nobody's parameter or partition, and can be written; Dask's come read-only."""
    if type(x) is not np.ndarray:
        return x
    return x.copy("K") if x.ndim else x[()]


# ---------------------------------------------------------------- what users call


@api
def sum_over(
    f: Callable[[Any, Any], Any], partitions: Any, workers: Any = None, retries: int = 2
) -> Callable[[Any], Any]:
    """A function of the parameters: the sum of `f(parameters, partition)` over partitions of data, with all derivatives.

    `parameters` and f's result are pytrees of arrays and numbers; the result has the same structure, shapes and dtypes for each
    partition (ValueError otherwise). grad, hvp, jvp, vjp, hessian, jit, vmap and what is built on them, `distributed.minimize`
    say, take the function as any other; f is differentiated beside the data, and what comes back is as large as the
    parameters. The order of summation does not depend on where partitions are, nor on how many workers there are.

    `partitions` is one of:

    * a list of pytrees: arrays, numbers, whatever f takes. Paths of .npy files and np.memmap arrays in them are mapped while
      f works on them, one after another; `distributed.chunks` cuts large ones into such partitions;
    * a list of Dask's delayed objects or futures, or pytrees of them;
    * a Dask array, or a pytree of Dask's collections that are cut alike: its blocks along axis 0.

    `workers`: None works on them in this process, one after another, or on Dask's current client where they are Dask's; a
    number starts so many processes at the first use; an executor of concurrent.futures and a Client of Dask are used as they
    are. To other processes f goes by its name, and by value where cloudpickle is installed; a jitted f compiles once in each.
    Partitions that are arrays are sent with each call (to Dask once): give files where they are large. A worker that dies loses
    nothing on Dask and in processes started here: what it had is done again, `retries` times at most; Dask runs again what
    raised, too.

    What f raises is raised here, with the partition's number in a note; traced (under jit), it runs abstractly once, on the
    first partition. A list without partitions raises ValueError. JAX has none.

    >>> import numpy as np, funcad
    >>> from funcad import distributed
    >>> total = distributed.sum_over(lambda w, x: np.sum((w - x) ** 2), [np.array([1.0, 2.0]), np.array([6.0])])
    >>> float(total(0.0)), float(funcad.grad(total)(0.0)), float(funcad.hessian(total)(0.0))
    (41.0, -18.0, 6.0)
    """
    if not callable(f):
        raise TypeError(f"sum_over takes a function, got {said(f)}.\nRemedy: sum_over(f, partitions)(parameters).")
    source = Partitions(f, runner_of(partitions, workers, retries))

    @api
    def total(parameters: Any) -> Any:
        leaves, structure = flat_values(parameters)
        check_leaves(leaves, f"sum_over of {name_of(f)}: parameters", parameters)
        call = PartitionSum(source, structure)
        outs = partition_sum(call, leaves)
        return call.made(avals_of(leaves), numbers_behind(leaves))[0].unflatten(outs)

    options = {"partitions": partitions, "workers": workers, "retries": retries}
    return Transformed(total, f, functools.partial(sum_over, **options))
