"""distributed.minimize under mpirun: the minimum of one process, with equal bits on all."""

import pytest

from tests.distributed.test_mpi import pytestmark, run  # noqa: F401 the marks are this file's too

PROGRAM = """
import numpy as np, funcad as fc
from funcad import distributed
draw = np.random.default_rng(0)
x, y = draw.normal(size=(40, 3)), draw.normal(size=40)

def f(w, x, y):
    return np.mean((np.tanh(x @ w) - y) ** 2) + 0.1 * np.sum(w**2)

comm = distributed.current()
for method in ("l-bfgs", "newton-cg"):
    found = distributed.minimize(f, np.zeros(3), *distributed.shard((x, y)), method=method, tol=1e-9).x
    every = distributed.gather(found[None])
    assert all(row.tobytes() == every[0].tobytes() for row in every)
    wanted = fc.scipy.optimize.minimize(lambda w: f(w, x, y), np.zeros(3), method="bfgs", tol=1e-9).x
    np.testing.assert_allclose(found, wanted, atol=1e-4)
print("process", comm.rank, "is right")
"""


@pytest.mark.parametrize("n", [2, 4])
def test_all_processes_find_the_minimum(n):
    done = run(n, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split("\n"))[1:] == [f"process {r} is right" for r in range(n)]
