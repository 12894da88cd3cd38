"""sum_over on Dask: delayed objects, futures, blocks of arrays; errors, retries, workers that die. On the loopback only."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import funcad as fc
from funcad import distributed
from funcad.distributed import chunks, sum_over
from funcad.host import progress
from tests.distributed import partition_programs as programs
from tests.distributed.test_partitions import KINDS, PARTS, W, X, Y, close, whole
from tests.forked import interruptible

pytestmark = [
    pytest.mark.dask,
    pytest.mark.skipif(importlib.util.find_spec("distributed") is None, reason="needs distributed"),
    pytest.mark.filterwarnings("default"),  # Dask's own
]
ONES = np.ones(3)


@pytest.fixture(scope="module")
def client():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None) as cluster,
        Client(cluster) as found,
    ):
        yield found


@pytest.fixture
def log(tmp_path):
    """Where `fails_twice` counts."""
    return str(tmp_path / "log")


@pytest.mark.parametrize("name", ["value", "value_and_grad", "hvp", "hessian", "vmap of grad", "grad of vmap", "scan"])
def test_it_is_the_function_on_all_data(client, name):
    total = sum_over(fc.jit(programs.loss), PARTS, workers=client)
    close(KINDS[name](total), KINDS[name](whole))
    close(fc.jit(lambda: KINDS[name](total))(), KINDS[name](whole))


def test_what_partitions_may_be(client):
    import dask
    import dask.array as da

    delayed = [dask.delayed(lambda i: PARTS[i])(i) for i in range(4)]
    pairs = [(dask.delayed(np.array)(x), client.scatter(y)) for x, y in PARTS]
    arrays = da.from_array(X, chunks=(6, 3)), da.from_array(Y, chunks=6)
    for given in (delayed, pairs, client.compute(delayed), arrays):
        total = sum_over(programs.loss, given)  # on the current client
        for _ in range(2):
            close(fc.value_and_grad(total)(W), fc.value_and_grad(whole)(W))
    table = {"x": arrays[0], "scale": 2.0}  # what is no collection goes to each block
    found = fc.grad(sum_over(lambda w, p: np.sum(p["x"] @ w) * p["scale"], table))(ONES)
    close(found, 2.0 * X.sum(0))
    with pytest.raises(ValueError, match="rechunk"):
        sum_over(programs.loss, da.from_array(X, chunks=(6, 2)))
    with pytest.raises(ValueError, match="cut alike"):
        sum_over(programs.loss, (arrays[0], da.from_array(Y, chunks=5)))
    with pytest.raises(TypeError, match="workers is a Client"):
        sum_over(programs.loss, delayed, workers=2)


def test_a_partition_is_computed_once(client, tmp_path):
    import dask

    @dask.delayed
    def read(i):
        with open(tmp_path / str(i), "a") as f:
            f.write("x")
        return PARTS[i]

    total = sum_over(programs.loss, [read(i) for i in range(4)])
    for _ in range(3):
        fc.grad(total)(W)
    assert [(tmp_path / str(i)).read_text() for i in range(4)] == ["x"] * 4


def test_a_jitted_function_is_traced_once_by_each_worker(client):
    total = sum_over(programs.with_traces, chunks(X, 5), workers=client)
    counts = [int(total(ONES)["traces"]) for _ in range(3)]  # of four partitions alike, each on any of the workers
    assert 4 <= min(counts) and max(counts) <= 8  # each worker has run the function once, and traced it once


def test_more_partitions_than_a_group(client):
    values = list(np.random.default_rng(3).normal(size=100) * 10.0 ** np.arange(-50, 50))
    total, here = [sum_over(lambda w, v: np.sum(w * v), values, workers=w) for w in (client, None)]
    assert total(ONES).tobytes() == here(ONES).tobytes()


def test_errors_come_back_with_their_lines(client):
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        fc.grad(sum_over(programs.fails_at_row, [X, X + 200], workers=client, retries=0))(ONES)
    assert "in partition 1 of 2" in caught.value.__notes__
    assert caught.traceback[-1].name == "fails_at_row"
    with pytest.raises(Exception, match=r"Unpicklable|odd"):
        sum_over(programs.fails_oddly, [X], workers=client, retries=0)(ONES)
    close(sum_over(programs.fails_at_row, [X], workers=client)(ONES), np.sum(X @ ONES))


def test_what_fails_is_done_again(client, log):
    total = sum_over(programs.fails_twice, [(log, X)], workers=client, retries=2)
    close(total(ONES), np.sum(X @ ONES))


def test_a_worker_that_dies_loses_nothing(client, tmp_path):
    parts = [(str(tmp_path / "died"), p) for p in chunks(X, 3)]
    total = sum_over(programs.kills_once, parts, workers=client)
    close(total(ONES), np.sum(np.cos(X @ ONES)))
    assert (tmp_path / "died").exists()
    close(fc.grad(total)(ONES), fc.grad(lambda w: np.sum(np.cos(X @ w)))(ONES))
    first = client.run(lambda: None)  # end each of the workers, one after the other, with the partitions that it holds
    for address in first:
        client.run(programs.end_soon, workers=[address])
        close(fc.grad(total)(ONES), fc.grad(lambda w: np.sum(np.cos(X @ w)))(ONES))


def test_an_interrupt_cancels_what_has_not_begun(client, tmp_path):
    parts = [str(tmp_path / f"{i:02}") for i in range(100)]
    total = sum_over(programs.notes, parts, workers=client)
    sum_over(programs.notes, parts[:1], workers=client)(1.0)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        fc.grad(total)(1.0)
    assert sum_over(programs.notes, parts[:2], workers=client)(1.0) == 2.0
    assert len(list(tmp_path.iterdir())) < 100


@pytest.mark.parametrize("method", ["l-bfgs", "newton-cg"])
def test_minimize(client, method):
    f = lambda w, part: programs.loss(w, part) + 0.1 * len(part[1]) * (np.sum(w["a"] ** 2) + w["b"] ** 2)
    start = {"a": np.zeros(3), "b": 1.0}
    found = distributed.minimize(sum_over(f, PARTS, workers=client), start, method=method, tol=1e-9)
    wanted = fc.scipy.optimize.minimize(lambda w: f(w, (X, Y)), start, method="bfgs", tol=1e-9)
    close(found.x, wanted.x, rtol=1e-5)


def test_progress(client, monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "EVERY_LINE", 0.0)
    monkeypatch.setattr(progress, "_tqdm", lambda what, total: None)
    monkeypatch.setattr(fc.config, "progress", "on")
    sum_over(programs.loss, PARTS, workers=client)(W)
    assert "4 of 4" in capsys.readouterr().err


def test_a_jitted_function_of_a_notebook_travels_by_value():
    program = """
import numpy as np, cloudpickle, funcad as fc
@fc.jit
def f(w, x):
    return np.sum(w * x)
g = fc.grad(f)
print(cloudpickle.dumps((f, g)).hex())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    f, g = pickle.loads(bytes.fromhex(done.stdout.strip()))
    assert f(2.0, ONES) == 6.0 and g(2.0, ONES) == 3.0


def test_without_a_client():
    program = """
import dask
from funcad.distributed import sum_over
try:
    sum_over(lambda w, x: w * x, [dask.delayed(float)(1)])(2.0)
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "there is no client" in done.stdout and "Client()" in done.stdout
