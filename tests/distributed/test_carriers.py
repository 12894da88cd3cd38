"""A carrier is a class that gives `swap`; buffers go to it as they are."""

import threading

import numpy as np

import funcad as fc
from funcad import lax
from funcad.distributed import Communicator, spmd
from tests.distributed.programs_over_processes import operations
from tests.distributed.test_spmd import close

N = 2


class Barrier(Communicator):
    """Two threads that leave their arrays on a table: all that a carrier needs."""

    __slots__ = ("table", "barrier", "got")

    def __init__(self, rank, table, barrier):
        super().__init__(N, rank)
        self.table, self.barrier, self.got = table, barrier, []

    def swap(self, x, where):
        self.got.append(x)
        self.barrier.wait(60)
        self.table[self.rank] = x
        self.barrier.wait(60)
        return np.stack(self.table)


def on_barrier(f):
    table, barrier, results = [None] * N, threading.Barrier(N), [None] * N
    comms = [Barrier(r, table, barrier) for r in range(N)]
    threads = [threading.Thread(target=lambda r=r: results.__setitem__(r, f(comms[r]))) for r in range(N)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results, comms


def test_a_new_carrier_is_one_class():
    xs = np.random.default_rng(0).normal(size=(N, N, 2 * N))
    wanted = [fc.vmap(f, axis_name="i")(xs) for f in operations(N).values()]
    found, _ = on_barrier(lambda c: [spmd(f, "i", comm=c)(xs[c.rank]) for f in operations(N).values()])
    for r in range(N):
        close(found[r], [w[r] for w in wanted])


def test_contiguous_arrays_are_sent_without_a_copy():
    xs = [np.arange(6.0).reshape(2, 3) + r for r in range(N)]
    total = lambda v: lax.psum(v, "i")
    for wrap in (lambda f: f, fc.jit):
        _, comms = on_barrier(lambda c, wrap=wrap: wrap(spmd(total, "i", comm=c))(xs[c.rank]))
        for c in comms:
            sent = [x for x in c.got if x.dtype == np.float64]
            assert len(sent) == 1 and np.shares_memory(sent[0], xs[c.rank])


def test_what_is_not_contiguous_or_in_another_byte_order_is_sent_as_numbers():
    for given in (np.arange(12.0).reshape(3, 4).T, np.arange(10)[::-2], np.arange(4.0).astype(">f8"), np.empty((0, 3))):
        found, comms = on_barrier(lambda c, x=given: spmd(lambda v: lax.psum(v, "i"), "i", comm=c)(x))
        assert all(np.array_equal(out, 2 * given) for out in found)
        assert all(x.flags.c_contiguous and x.dtype.isnative for c in comms for x in c.got)
