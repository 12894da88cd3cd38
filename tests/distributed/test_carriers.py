"""A carrier is a class that gives `swap`; buffers go to it as they are."""

import threading
from types import SimpleNamespace

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.distributed import Communicator, Mpi, mpi_carrier, spmd
from tests import standin
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
    whole = [f for name, f in operations(N).items() if "groups" not in name]
    wanted = [fc.vmap(f, axis_name="i")(xs) for f in whole]
    found, comms = on_barrier(lambda c: [spmd(f, "i", comm=c)(xs[c.rank]) for f in whole])
    with pytest.raises(NotImplementedError, match="a Barrier cannot be split"):
        comms[0].divided(0, 0)
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


class AloneInMpi:
    """mpi4py's communicator of one process, which writes down what is handed to it and refuses what CuPy would."""

    def __init__(self):
        self.got = []

    def Dup(self):
        return self

    Split_type = lambda self, kind: self
    Get_size = lambda self: 1
    Get_rank = lambda self: 0
    Free = lambda self: None

    def _moved(self, sent, came):
        sent, came = [x[0] if isinstance(x, list) else x for x in (sent, came)]
        assert sent.nbytes == came.nbytes and sent.flags.c_contiguous
        self.got.append(type(sent))
        came.reshape(-1)[...] = sent.reshape(-1)
        return SimpleNamespace(Test=lambda: True)

    Iallgather = Ialltoall = _moved
    Iallreduce = lambda self, sent, came, op: self._moved(sent, came)
    Ibcast = lambda self, buffer, root: self._moved(buffer, buffer)

    def Irecv(self, buffer, source):
        self.waiting = buffer
        return SimpleNamespace(Test=lambda: True)

    def Isend(self, buffer, destination):
        return self._moved(buffer, self.waiting)


@pytest.mark.parametrize("on_device", [True, False])
@pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["un-jitted", "jitted"])
def test_arrays_of_a_device_go_to_a_cuda_aware_mpi_as_they_are(on_device, wrap, monkeypatch):
    """Else by the host; by the stand-in for CuPy."""
    mpi = SimpleNamespace(BYTE=1, SUM=2, MAX=3, COMM_TYPE_SHARED=4, THREAD_MULTIPLE=3, Query_thread=lambda: 0)
    monkeypatch.setattr(mpi_carrier, "_module", lambda: mpi)
    monkeypatch.setattr(Communicator, "run", lambda self, call, x: self._made(call, x, self._begin(call, x)))  # of one, too
    given = np.arange(6.0).reshape(1, 6)
    f = lambda x: (
        lax.psum(x, "i"),
        lax.psum_scatter(x, "i"),
        lax.all_gather(x, "i"),
        lax.ppermute(x, "i", [(0, 0)]),
        lax.all_to_all(x, "i", 0, 0),
        distributed.broadcast(x, "i"),
        lax.pmax(x, "i"),
    )
    wanted = fc.vmap(f, axis_name="i")(given[None])
    with standin.registered():
        comm = Mpi(AloneInMpi(), on_device=on_device)
        found = wrap(spmd(f, "i", comm=comm))(standin.to_device(given))
        assert all(type(x) is standin.DeviceArray for x in found)
        close([standin.to_host(x) for x in found], [w[0] for w in wanted])
        slope = fc.grad(lambda x: spmd(lambda x: lax.psum(np.sum(x**3), "i"), "i", comm=comm)(x))(standin.to_device(given))
        close(standin.to_host(slope), 3 * given**2)
    large = [kind for kind in comm.comm.got if kind is standin.DeviceArray]
    assert len(large) >= 6 if on_device else not large
