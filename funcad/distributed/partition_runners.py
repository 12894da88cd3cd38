"""Where partitions are worked on: in this process one after another, in an executor's, in processes of our own, on Dask.

Idea: a runner has partitions and answers two questions about a piece of work: what it gives on the first (`first`), and what it
gives on all, added up (`total`). Everything else is the same everywhere. Errors and interrupts give back what has not begun.
"""

from __future__ import annotations

import importlib
import signal
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from funcad import tree
from funcad.distributed.partition_tasks import GROUP, Part, PartitionWork, add_up, filed, note
from funcad.host.progress import meter
from funcad.host.real_types import is_a
from funcad.ir.aval import said

_PAUSE = 0.05  # seconds that a process takes to tell that it runs; starting one takes longer


class Here:
    """One partition after another, in the thread that asks."""

    def __init__(self, partitions: Sequence[Any]):
        self.partitions = partitions

    def first(self, work: PartitionWork) -> Part:
        return work(0, len(self.partitions), self.partitions[0])

    def total(self, work: PartitionWork) -> Part:
        n = len(self.partitions)
        with meter(lambda: f"sum over {n} partitions", n) as shows, closing(self.each(work)) as parts:
            return add_up(parts if shows is None else _told(parts, shows.step))

    def each(self, work: PartitionWork) -> Generator[Part, None, None]:
        """The parts, in the order of the partitions."""
        for i, partition in enumerate(self.partitions):
            yield work(i, len(self.partitions), partition)


def _told(parts: Iterable[Part], step: Callable[[], None]) -> Iterator[Part]:
    for part in parts:
        step()
        yield part


class InExecutor(Here):
    """An executor of concurrent.futures: threads, or processes, to which work and partitions are pickled."""

    def __init__(self, partitions: Sequence[Any], executor: Executor):
        super().__init__(partitions)
        self.executor = executor

    def first(self, work: PartitionWork) -> Part:
        return self._submitted(work, 0).result()

    def _submitted(self, work: PartitionWork, i: int) -> Any:
        run: Any = work if is_a(self.executor, ThreadPoolExecutor) else work.elsewhere
        return self.executor.submit(run, i, len(self.partitions), self.partitions[i])

    def each(self, work: PartitionWork) -> Generator[Part, None, None]:
        waiting = {i: self._submitted(work, i) for i in range(len(self.partitions))}
        try:
            for i in range(len(self.partitions)):
                yield self._result(work, waiting, i)
                del waiting[i]
        finally:
            for future in waiting.values():
                future.cancel()

    def _result(self, work: PartitionWork, waiting: dict[int, Any], i: int) -> Part:
        try:
            return waiting[i].result()
        except BrokenExecutor as error:
            error.add_note(
                f"funcad: while it waited for partition {i} of {len(self.partitions)}.\n"
                "Remedy: sum_over(..., workers=4) starts processes of its own, and others in the place of those that die."
            )
            raise


class InProcesses(InExecutor):
    """`count` processes of our own, started at the first use; where one dies, what was not done is done again by others.

    Trap: a pool in which a process dies while another is being started may wait for that one for ever, so all are started, by
    pauses that each takes, before there is work that could end one.
    """

    def __init__(self, partitions: Sequence[Any], count: int, retries: int):
        Here.__init__(self, partitions)
        self.count = min(count, len(partitions))
        self.retries = retries
        self._pool: Any = None
        self._end: Any = None
        self._starting = threading.Lock()  # threads share the processes

    @property
    def executor(self) -> Executor:  # type: ignore[override]
        with self._starting:
            return self._started()

    def _started(self) -> Executor:
        if self._pool is None:
            ways = importlib.import_module("multiprocessing")  # a browser has none
            context = ways.get_context("forkserver" if "forkserver" in ways.get_all_start_methods() else "spawn")
            pool = importlib.import_module("concurrent.futures").ProcessPoolExecutor
            made = pool(self.count, context, initializer=_leave_interrupts)
            self._end = weakref.finalize(self, made.shutdown, wait=False, cancel_futures=True)
            self._pool = made
            try:
                for pause in [made.submit(time.sleep, _PAUSE) for _ in range(self.count)]:
                    pause.result()
            except BrokenExecutor as error:
                self._pool = None
                error.add_note("Remedy: a script whose work starts processes does it under `if __name__ == '__main__':`.")
                raise
        return self._pool

    def _renewed(self, broken: Any) -> None:
        """The next work goes to other processes, if this pool is the one in use."""
        with self._starting:
            if self._pool is broken:
                self._end.detach()
                self._pool = None
                broken.shutdown(wait=False)

    def _submitted(self, work: PartitionWork, i: int) -> Any:
        for _ in range(self.retries):
            pool = self.executor
            try:
                return self._in(pool, work, i)
            except BrokenExecutor:
                self._renewed(pool)
        return self._in(self.executor, work, i)

    def _in(self, pool: Executor, work: PartitionWork, i: int) -> Any:
        future = pool.submit(work.elsewhere, i, len(self.partitions), self.partitions[i])
        future.pool = pool  # type: ignore[attr-defined]
        return future

    def first(self, work: PartitionWork) -> Part:
        return self._result(work, {0: self._submitted(work, 0)}, 0)

    def _result(self, work: PartitionWork, waiting: dict[int, Any], i: int) -> Part:
        for _ in range(self.retries + 1):
            try:
                return waiting[i].result()
            except BrokenExecutor as error:
                died, broken = error, waiting[i].pool
                self._renewed(broken)
                for j, future in waiting.items():
                    if future.pool is broken and not (future.done() and future.exception() is None):
                        waiting[j] = self._submitted(work, j)
        died.add_note(f"funcad: workers died {self.retries + 1} times while they did partition {i} or others beside it")
        raise note(died, i, len(self.partitions))


def _leave_interrupts() -> None:
    """Ctrl+C is for the process that asks, which cancels what has not begun."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# ---------------------------------------------------------------- Dask


def is_dask(x: Any) -> bool:
    """Is it one of Dask's objects? Without importing it."""
    return type(x).__module__.partition(".")[0] in ("dask", "distributed")


def is_collection(x: Any) -> bool:
    """Is it an array, a table or a bag of Dask's, made of blocks?"""
    return is_dask(x) and hasattr(type(x), "to_delayed")


def _is_lazy(x: Any) -> bool:
    return type(x).__module__.partition(".")[0] == "dask"


def _blocks(x: Any) -> list[Any]:
    """The blocks of a collection along its axis 0, as delayed objects."""
    if getattr(x, "ndim", 1) > 1 and hasattr(x, "numblocks") and any([n != 1 for n in x.numblocks[1:]]):
        raise ValueError(
            f"sum_over takes Dask arrays that are cut along axis 0 alone, got blocks {x.numblocks}.\n"
            "Remedy: x.rechunk({1: -1})."
        )
    found = x.to_delayed()
    return found.ravel().tolist() if hasattr(found, "ravel") else list(found)


class Dask:
    """Partitions that are delayed objects, futures, blocks of collections or values, worked on where Dask keeps them.

    They are asked for once, and stay with the workers. Dask runs again what fails, and what a worker that dies had.
    """

    def __init__(self, partitions: Any, client: Any, retries: int):
        leaves, structure = tree.flatten(partitions)
        if any(map(is_collection, leaves)):
            columns = [_blocks(x) if is_collection(x) else None for x in leaves]
            counts = {len(c) for c in columns if c is not None}
            rows = {tuple(x.chunks[0]) for x in leaves if is_collection(x) and hasattr(x, "chunks")}
            if len(counts) != 1 or len(rows) > 1:
                raise ValueError(
                    f"sum_over: Dask collections that belong together must be cut alike, got {sorted(rows or counts)}.\n"
                    "Remedy: rechunk them; lengths that Dask does not know, x.compute_chunk_sizes() finds."
                )
            n = counts.pop()
            self.partitions = [([x if c is None else c[i] for x, c in zip(leaves, columns)], structure) for i in range(n)]
        else:
            self.partitions = [tree.flatten(p) for p in partitions]
        self.given = client
        self.retries = retries
        self._held: tuple[Any, list[Any]] | None = None

    def _client(self) -> Any:
        if self.given is not None:
            return self.given
        try:
            return importlib.import_module("distributed").get_client()
        except ValueError as error:
            raise ValueError(
                "sum_over: these partitions are Dask's, and there is no client.\n"
                "Remedy: client = dask.distributed.Client(), before; or sum_over(..., workers=client)."
            ) from error

    def _kept(self, client: Any) -> list[Any]:
        """The partitions as this client's futures: they are computed, or sent, once."""
        if self._held is None or self._held[0] is not client:
            lazy = [x for leaves, _ in self.partitions for x in leaves if _is_lazy(x)]
            found = iter(client.compute(lazy, retries=self.retries) if lazy else ())
            kept = []
            for leaves, structure in self.partitions:
                leaves = [next(found) if _is_lazy(x) else x for x in leaves]
                if not any(map(is_dask, leaves)):  # Dask keeps what it was sent as the recipe, so that no worker is missed
                    leaves = [client.submit(_same, x, pure=False) for x in leaves]
                kept.append((leaves, structure))
            self._held = client, kept
        return self._held[1]

    def first(self, work: PartitionWork) -> Part:
        client = self._client()
        return self._finished(client, self._submitted(client, work, self._kept(client)[:1]))

    def _submitted(self, client: Any, work: PartitionWork, partitions: Sequence[Any]) -> list[Any]:
        shared = client.submit(_same, work, pure=False)
        n = len(self.partitions)
        return [
            client.submit(_run, shared, i, n, leaves, structure, pure=False, retries=self.retries)
            for i, (leaves, structure) in enumerate(partitions)
        ]

    def _finished(self, client: Any, futures: list[Any]) -> Part:
        made = futures
        while len(futures) > 1:
            groups = [futures[i : i + GROUP] for i in range(0, len(futures), GROUP)]
            futures = [client.submit(add_up, group, pure=False) for group in groups]
            made = [*made, *futures]
        try:
            return futures[0].result()
        except BaseException:
            client.cancel(made)
            raise

    def total(self, work: PartitionWork) -> Part:
        client = self._client()
        parts = self._submitted(client, work, self._kept(client))
        with meter(lambda: f"sum over {len(parts)} partitions", len(parts)) as shows:
            if shows is not None:
                self._watched(client, parts, shows.step)
            return self._finished(client, parts)

    def _watched(self, client: Any, parts: list[Any], step: Callable[[], None]) -> None:
        try:
            for _ in importlib.import_module("distributed").as_completed(parts):
                step()
        except BaseException:
            client.cancel(parts)
            raise


def _same(x: Any) -> Any:
    return x


def _run(work: PartitionWork, index: int, count: int, leaves: Sequence[Any], structure: Any) -> Part:
    return work.elsewhere(index, count, structure.unflatten(leaves))


def runner_of(partitions: Any, workers: Any, retries: int) -> Any:
    """The runner for these partitions, see `sum_over`."""
    if is_a(retries, bool) or not is_a(retries, int) or retries < 0:
        raise ValueError(f"sum_over: retries must be a number of times, got {retries!r}")
    leaves = tree.leaves(partitions)
    if not any(map(is_collection, leaves)):
        partitions = _as_list(partitions)
    partitions = tree.map(filed, partitions)
    if is_dask(workers) or any(map(is_dask, leaves)):
        if workers is not None and not hasattr(workers, "submit"):
            raise TypeError(f"sum_over: partitions on Dask are worked on there; workers is a Client, got {said(workers)}")
        return Dask(partitions, workers, retries)
    if workers is None:
        return Here(partitions)
    if is_a(workers, int) and not is_a(workers, bool) and workers > 0:
        return InProcesses(partitions, workers, retries)
    if isinstance(workers, Executor):
        return InExecutor(partitions, workers)
    raise TypeError(
        "sum_over: workers is a number of processes, an executor of concurrent.futures or a Client of Dask, "
        f"got {said(workers)}"
    )


def _as_list(partitions: Any) -> list[Any]:
    if is_a(partitions, (np.ndarray, str, Path, dict)) or not is_a(partitions, Iterable):
        raise TypeError(
            f"sum_over takes a list of partitions, got {said(partitions)}.\n"
            "Remedy: distributed.chunks(data, rows) cuts arrays and files into partitions."
        )
    found = list(partitions)
    if not found:
        raise ValueError(
            "sum_over: there are no partitions, and what shape the sum of none has is not known.\n"
            "Remedy: give at least one; it may have no rows."
        )
    return found
