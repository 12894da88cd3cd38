"""When things go wrong under mpirun: the job ends with the reason, and what was saved goes on with equal bits."""

import re

import numpy as np
import pytest

from funcad import tree
from tests.distributed.test_mpi import pytestmark, run

__all__ = ["pytestmark"]

ORDER = """
from funcad import distributed, lax
distributed.spmd(lambda x: (lax.psum(x, "i"), lax.pmax(x, "i"))[0] if x else lax.pmax(x, "i"), "i")(
    float(distributed.current().rank))
"""
LATER = """
import funcad as fc
from funcad import distributed, lax
r = distributed.current().rank
def f(x):
    return fc.cond(x > 5.0, lambda v: lax.psum(v, "i"), lambda v: lax.pmin(v, "i"), lax.psum(x, "i") + lax.pmax(x, "i") + x)
g = fc.jit(distributed.spmd(f, "i"))
for i in range(9):
    g(-9.0 + i * 3 * r)
"""
ALONE = """
from funcad import distributed, lax
comm = distributed.current()
comm.timeout = 1.0
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
total(1.0)
if comm.rank:
    import time; time.sleep(60)
distributed.spmd(lambda x: lax.pmax(x, "i"), "i")(1.0)
"""
FAILS = """
from funcad import distributed, lax
def mine():
    raise ZeroDivisionError("mine")
if distributed.current().rank:
    mine()
distributed.spmd(lambda x: lax.psum(x, "i"), "i")(1.0)
"""
OWN = """
from mpi4py import MPI
from funcad import distributed, lax
comm = distributed.Mpi(MPI.COMM_WORLD)
if comm.rank:
    raise ZeroDivisionError("mine")
distributed.spmd(lambda x: lax.psum(x, "i"), "i", comm=comm)(1.0)
"""
LEAVES = """
import sys
from funcad import distributed, lax
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
total(1.0)
if distributed.current().rank == 1:
    sys.exit(3)
total(2.0)
"""
RETURNS = """
from funcad import distributed, lax
def main():
    total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
    total(1.0)
    if distributed.current().rank == distributed.current().size - 1:
        return
    total(2.0)
main()
"""
THREAD = """
import threading
from funcad import distributed, lax
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
total(1.0)
def work():
    if distributed.current().rank:
        raise ZeroDivisionError("mine")
    total(2.0)
thread = threading.Thread(target=work)
thread.start()
thread.join()
total(3.0)
"""
PART = """
from funcad import distributed, lax
comm = distributed.current()
pair = comm.split(comm.rank // 2)
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i", comm=pair)
total(1.0)
if comm.rank != 3:
    total(2.0)
"""
PART_EXITS = PART.replace("if comm.rank != 3:", "if comm.rank == 3:\n    __import__('sys').exit(3)\nif comm.rank == 2:")
CHILDREN = """
import multiprocessing, os, sys
from funcad import distributed, lax
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
total(1.0)
if os.fork() == 0:
    try:
        raise ZeroDivisionError("a child's")
    except ZeroDivisionError:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)
with multiprocessing.get_context("fork").Pool(1) as pool:
    assert pool.map(abs, [-1]) == [1]
assert os.waitpid(-1, 0)[1] == 0 and total(1.0) == 2.0
print("all done")
"""
LATE = """
import time
from funcad import distributed, lax
comm = distributed.current()
distributed.Mpi.remind = 1.0
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
total(1.0)
if comm.rank == 1:
    time.sleep(3.0)
total(2.0)
print("all done")
"""
KILLED = """
import os, signal
from funcad import distributed, lax
total = distributed.spmd(lambda x: lax.psum(x, "i"), "i")
for i in range(1000):
    if i == 5 and distributed.current().rank:
        os.kill(os.getpid(), signal.SIGKILL)
    total(1.0)
print("all done")
"""


@pytest.mark.parametrize(
    "program, words",
    [
        (ORDER, ["different collectives", "process 0: collective 1, max", "process 1: collective 1, sum", "<string>:3"]),
        (LATER, ["different collectives", "process 0: collective", "min of float64[]", "sum of float64[]", "<string>:6"]),
        (
            ALONE,
            [
                "process 0 of 2 waited 1 s in max of float64[] at <string>:9 (<lambda>) for the others",
                "process 0 of 2 raised CollectiveError; the job ends",
                "process 1 of 2 was ended at <string>:8; its collective 1 was the last: sum of float64[] at <string>:5",
            ],
        ),
        (FAILS, ["in mine", "ZeroDivisionError: mine", "process 1 of 2 raised ZeroDivisionError; the job ends"]),
        (OWN, ["ZeroDivisionError: mine", "process 1 of 2 raised ZeroDivisionError; the job ends"]),
        (KILLED, ["exited on signal 9 (Killed)"]),
    ],
    ids=["order", "order of a compiled program", "deadline", "error", "error with an own communicator", "killed"],
)
def test_the_job_ends_with_the_reason(program, words):
    done = run(2, program, timeout=50)
    assert done.returncode != 0 and "all done" not in done.stdout
    has(done, words)


def has(done, words):
    text = re.sub(r"[ \n]+", " ", done.stderr)
    for each in words:
        assert each in text, done.stderr


ENDED = "waits in sum of float64[] at <string>:{}, but process {} has ended"
LAST = "; its collective 1 was the last: sum of float64[] at <string>:{} (<lambda>)"


@pytest.mark.parametrize(
    "n, program, status, words",
    [
        (2, LEAVES, 3, [ENDED.format("4 (<lambda>)", 1) + " by sys.exit(3) at <string>:7" + LAST.format(4)]),
        (3, LEAVES, 3, [ENDED.format("4 (<lambda>)", 1) + " by sys.exit(3) at <string>:7" + LAST.format(4)]),
        (2, LEAVES.replace("sys.exit", "exit"), 3, [ENDED.format("4 (<lambda>)", 1) + " by sys.exit(3) at <string>:7"]),
        (2, RETURNS, 1, [ENDED.format("4 (<lambda>)", 1) + LAST.format(4)]),
        (4, RETURNS, 1, [ENDED.format("4 (<lambda>)", 3) + LAST.format(4)]),
        (2, THREAD, 1, ["ZeroDivisionError: mine", "process 1 of 2 raised ZeroDivisionError in a thread; the job ends"]),
        (4, PART, 1, ["process 0 of 2 waits in sum of float64[] at <string>:5 (<lambda>), but process 1 has ended"]),
        (4, PART_EXITS, 3, ["of float64[] at <string>:5 (<lambda>), but process 1 has ended by sys.exit(3)"]),
    ],
    ids=["sys.exit", "one of three", "exit", "early return", "return of one of four", "a thread", "a part", "exit in a part"],
)
def test_who_waits_for_a_process_that_ended_raises_at_once(n, program, status, words):
    """Long before the deadline of 600 s, and the job has the status of the process that left."""
    done = run(n, program, timeout=60)
    assert done.returncode == status, done.stderr
    has(done, words)


def test_children_that_a_process_forks_do_not_speak_for_it():
    done = run(2, CHILDREN, timeout=60)
    assert done.returncode == 0 and done.stdout.count("all done") == 2, done.stderr
    assert "the job ends" not in done.stderr and "was ended" not in done.stderr, done.stderr
    assert done.stderr.count("ZeroDivisionError") == 2, done.stderr


def test_who_is_waited_for_is_said_and_the_job_goes_on():
    done = run(2, LATE, timeout=60)
    assert done.returncode == 0 and done.stdout.count("all done") == 2, done.stderr
    lines = [line for line in done.stderr.split("\n") if "has waited" in line]
    assert 1 <= len(lines) <= 3, done.stderr
    for line in lines:
        assert line.startswith("process 0 of 2 has waited "), line
        assert line.endswith(
            "s in sum of float64[] at <string>:6 (<lambda>) for process 1, last in sum of float64[] at <string>:6 (<lambda>)"
        ), line


STEPS = """
import os, signal, sys
import numpy as np, funcad as fc
from funcad import distributed, lax, tree
comm = distributed.current()
n, r = comm.size, comm.rank
folder, until, dies = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
x = np.random.default_rng(r).normal(size=(50, 3))

def loss(w, x, key):
    own = fc.random.fold_in(key, lax.axis_index("i"))
    noise = fc.random.normal(own, x.shape)
    return lax.pmean(np.mean(np.tanh((x + 0.1 * noise) @ w) ** 2 - np.sin(w) @ w), "i")

wrap = {"jit": fc.jit, "un-jitted": lambda f: f}[sys.argv[4]]
slope = wrap(fc.grad(distributed.spmd(loss, "i", in_axes=(None, 0, None), out_axes=None)))
path = os.path.join(folder, "state.npz")
axes = {"w": None, "v": None, "step": None, "seen": 0}
state = {"w": np.ones(3), "v": np.zeros(3), "step": 0, "seen": np.zeros(50)}
if dies < 0:
    state = tree.load(os.path.join(folder, "%d.npz" % -dies), shard=(r, n))
while state["step"] < until:
    step = state["step"] + 1
    v = 0.9 * state["v"] - 0.1 * slope(state["w"], x, fc.random.fold_in(fc.random.key(7), step))
    state = {"w": state["w"] + v, "v": v, "step": step, "seen": state["seen"] + np.abs(x @ v)}
    tree.save(os.path.join(folder, "%d.npz" % step), state, shard=(r, n), axes=axes)
    if step == dies and r:
        os.kill(os.getpid(), signal.SIGKILL)
tree.save(os.path.join(folder, "end.npz"), state, shard=(r, n), axes=axes)
"""


@pytest.mark.parametrize("wrap", ["jit", "un-jitted"])
def test_a_killed_job_goes_on_from_what_it_saved_with_equal_bits(tmp_path, wrap):
    for name in ("whole", "again"):
        (tmp_path / name).mkdir()
    whole = run(2, STEPS, 60, str(tmp_path / "whole"), "6", "0", wrap)
    assert whole.returncode == 0, whole.stderr
    killed = run(2, STEPS, 60, str(tmp_path / "again"), "6", "3", wrap)
    assert killed.returncode != 0 and not list((tmp_path / "again").glob("end*"))
    again = run(2, STEPS, 60, str(tmp_path / "again"), "6", "-3", wrap)
    assert again.returncode == 0, again.stderr
    first, second = [tree.load(tmp_path / name / "end.npz") for name in ("whole", "again")]
    assert first["step"] == second["step"] == 6 and first["seen"].shape == (100,)
    for name in ("w", "v", "seen"):
        assert first[name].tobytes() == second[name].tobytes()


READ = """
import sys, numpy as np
from funcad import distributed, tree
comm = distributed.current()
part = tree.load(sys.argv[1], shard=(comm.rank, comm.size))
whole = distributed.gather(part["x"])
assert part["step"] == 3 and np.array_equal(whole, np.arange(14.0).reshape(7, 2)), whole
assert np.array_equal(part["x"], distributed.shard(np.arange(14.0).reshape(7, 2)))
if len(sys.argv) > 2:
    tree.save(sys.argv[2], part, shard=(comm.rank, comm.size), axes={"x": 0, "step": None})
"""


def test_one_file_a_process_is_read_by_another_number_of_processes(tmp_path):
    path, again = tmp_path / "a.npz", tmp_path / "b.npz"
    tree.save(path, {"x": np.arange(14.0).reshape(7, 2), "step": 3}, shard=(0, 1), axes={"x": 0, "step": None})
    for n, given in ((3, [str(path), str(again)]), (2, [str(again)]), (1, [str(again)])):
        done = run(n, READ, 60, *given)
        assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("b*"))) == 3


def test_who_is_ended_while_it_waits_names_the_user_s_line():
    done = run(3, LEAVES.replace("sys.exit(3)", "__import__('os')._exit(3)"), timeout=60)
    assert done.returncode == 3, done.stderr
    assert re.search(r"process [02] of 3 was ended at <string>:4; its collective 2 was the last: sum", done.stderr), done.stderr
