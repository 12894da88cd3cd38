"""The same programs under mpirun, on the loopback: equal to vmap; errors and mismatches end the job."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MPIRUN = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(MPIRUN is None or importlib.util.find_spec("mpi4py") is None, reason="needs mpi4py and mpirun"),
]

COMPARED = """
import numpy as np, funcad as fc
from funcad import distributed
from tests.distributed.programs_over_processes import *
from tests.distributed.random_over_processes import random_program
comm = distributed.current()
n, r = comm.size, comm.rank

def close(found, wanted):
    for a, b in zip(fc.tree.leaves(found), fc.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-12)

xs = data(n, (n, 2 * n))
for name, f in operations(n).items():
    found = distributed.spmd(f, "i")(xs[r])
    assert not np.shares_memory(found, xs), name
    close(found, fc.vmap(f, axis_name="i")(xs)[r])
for i, program in enumerate((*compositions(n).values(), *[random_program(seed, n) for seed in range(20)])):
    kinds = list(derivatives(len))
    for kind in [kinds[(5 * i + k) % len(kinds)] for k in range(5)]:
        close(over_processes(program, kind)(W, data(n)[r]), expected(program, kind, n)[r])
equal = distributed.gather(fc.grad(distributed.spmd(program, "i", in_axes=(None, 0), out_axes=None))(W, data(n)[r])[None])
assert all(row.tobytes() == equal[0].tobytes() for row in equal)
print("process", r, "is right")
"""


IN_PIECES = """
import numpy as np, funcad as fc
from funcad import distributed, lax
from funcad.distributed import communicator
from tests.distributed.programs_over_processes import *
comm = distributed.current()
n, r = comm.size, comm.rank
xs = data(n, (n, 2 * n))
ops = {**operations(n), **{kind: lambda x, kind=kind: 1.0 * lax.psum(x.astype(kind), "i") for kind in ("float16", "int16")}}
for name, f in ops.items():
    for piece, small in ((1 << 30, 1 << 15), (40, 0), (8, 0)):
        distributed.Mpi.piece, communicator.SMALL = piece, small
        for a, b in zip(fc.vjp(distributed.spmd(f, "i"), xs[r]), fc.vjp(fc.vmap(f, axis_name="i"), xs)):
            if callable(a):
                a, b = a(np.ones_like(value))[0], b(np.ones_like(whole))[0]
            else:
                value, whole = a, b
            np.testing.assert_allclose(a, b[r], rtol=1e-2 if name == "float16" else 1e-9, atol=1e-12, err_msg=name)
print("process", r, "is right")
"""
OVERLAPPED = """
import numpy as np, funcad as fc
from funcad import distributed
from funcad.passes import together
comm = distributed.current()
together.FIRST, together.FULL, together.SMALL = 1000, 2000, 100
rng = np.random.default_rng(0)
p, xs = [rng.normal(size=(16, 16)) for _ in range(5)], rng.normal(size=(comm.size, 8, 16))

def loss(p, x):
    for w in p:
        x = np.tanh(x @ w)
    return np.mean(x**2)

f = fc.jit(distributed.value_and_grad(loss))
def bits():
    return b"".join([np.asarray(v).tobytes() for v in fc.tree.leaves(f(p, xs[comm.rank]))])
found = []
for comm.helped in (False, True):
    found += [bits() for _ in range(10)]
events = []
comm.events = lambda what, where: events.append(what)
found.append(bits())
assert events[:5] == ["start"] * 5 and events[5:] == ["wait", "done"] * 5, events
start_sum = distributed.Mpi.start_sum
distributed.Mpi.start_sum = lambda self, x, where: (lambda total: lambda: total)(start_sum(self, x, where)())
found.append(bits())
assert len(set(comm.comm.allgather(found[0]))) == 1 and len(set(found)) == 1
print("process", comm.rank, "is right")
"""


def run(n, program, timeout=300, *arguments):
    """A launcher that failed itself after a process had it end the job (Open MPI's can, seldom): the job runs again.

    What ends by a signal is mpirun then, not a process of the job, for which mpirun would return a positive status. Or it never
    ends, though MPI_Abort has been called and said so: what was to be shown of the process has been shown by then.
    """
    environment = {**os.environ, "OMPI_MCA_btl": "self,sm", "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [MPIRUN, "-n", str(n), "--oversubscribe", "--allow-run-as-root", sys.executable, "-c", program, *arguments]
    for again in (True, True, False):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
        except subprocess.TimeoutExpired as late:
            if not again or b"MPI_ABORT was invoked" not in (late.stderr or b""):
                raise
        else:
            if done.returncode >= 0:
                break
    return done


@pytest.mark.parametrize("n", [2, 4])
def test_programs_are_vmap_on_the_stacked_arguments(n):
    done = run(n, COMPARED)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"process {r} is right" for r in range(n)]


@pytest.mark.parametrize("n", [2, 3, 4])
def test_what_is_longer_than_a_message_goes_in_pieces(n):
    """And what MPI has no sum for, in parts; with derivatives."""
    done = run(n, IN_PIECES)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"process {r} is right" for r in range(n)]


@pytest.mark.parametrize("n", [2, 4])
def test_sums_that_overlap_with_work_have_the_same_bits(n):
    done = run(n, OVERLAPPED)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"process {r} is right" for r in range(n)]


LONG = """
import numpy as np
from funcad import distributed, lax
r, n = distributed.current().rank, 2_200_000_000
def marked(own):
    x = np.full(n, 1 + own, np.int8)
    x[[0, 2**31 - 1, 2**31, -1]] = 10 + own
    return x
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")(marked(r))
at = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, -2, -1]
assert total.dtype == np.int8 and total[at].tolist() == [21, 3, 3, 21, 21, 3, 3, 21]
del total
every = distributed.spmd(lambda x: lax.all_gather(x, "i"), "i")(marked(r))
assert every.shape == (2, n) and every[:, at].tolist() == [[10, 1, 1, 10, 10, 1, 1, 10], [11, 2, 2, 11, 11, 2, 2, 11]]
assert every.sum(axis=1, dtype=np.int64).tolist() == [n + 36, 2 * n + 36]
print("process", r, "is right")
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "sysconf") or os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") < 18 << 30,
    reason="needs 18 GB of free memory",
)
def test_messages_of_more_than_two_gigabytes():
    done = run(2, LONG, timeout=900)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"process {r} is right" for r in range(2)]


MANY = """
from funcad import distributed, lax
for i in range(3000):
    comm = distributed.Mpi()
    if i % 500 == 0:
        assert distributed.spmd(lambda x: lax.psum(x, "i"), "i", comm=comm)(1.0) == 2.0
    comm.free()
print("all done")
"""


def test_communicators_are_given_back():
    done = run(2, MANY)
    assert done.returncode == 0 and done.stdout.count("all done") == 2, done.stderr


def test_the_tour():
    done = run(2, "import sys; from funcad.distributed.processes_tour import main; sys.exit(main())")
    assert done.returncode == 0, done.stderr
    assert "2 processes, 2000 rows" in done.stdout and "equal bits on all processes: True" in done.stdout
