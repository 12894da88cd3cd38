"""sum_over is the function on all of the data: values and all derivatives, wherever partitions are and whatever fails."""

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest

import funcad as fc
from funcad import distributed
from funcad.distributed import chunks, sum_over
from funcad.distributed.partition_tasks import Part, add_up
from funcad.errors import CollectiveError, CustomRuleClosureError, MissingRuleError, TracerBoolConversionError
from funcad.host import progress
from tests import standin
from tests.distributed import partition_programs as programs
from tests.forked import interruptible

pytestmark = pytest.mark.group("alone")  # of time, memory, threads or counts

DRAW = np.random.default_rng(0)
X, Y = DRAW.normal(size=(20, 3)), DRAW.normal(size=20)
PARTS = chunks((X, Y), 6)
W = {"a": DRAW.normal(size=3), "b": 1.5}
V = {"a": DRAW.normal(size=3), "b": np.float64(0.3)}
WS, VS = [fc.tree.map(lambda x: np.stack([x, 2 * np.asarray(x)]), t) for t in (W, V)]


def whole(w):
    return programs.loss(w, (X, Y))


def inner(a, b):
    return sum([np.sum(x * y) for x, y in zip(fc.tree.leaves(a), fc.tree.leaves(b))])


def close(found, wanted, rtol=1e-10):
    found, wanted = fc.tree.leaves(found), fc.tree.leaves(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted):
        assert np.shape(a) == np.shape(b) and type(a) is type(b) and a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-12)


def descent(f, w):
    def step(c, _):
        value, slope = fc.value_and_grad(f)(c)
        return fc.tree.map(lambda a, b: a - 0.01 * b, c, slope), value

    return fc.scan(step, fc.tree.map(np.asarray, w), None, length=3)[1].sum()


KINDS = {
    "value": lambda f: f(W),
    "grad": lambda f: fc.grad(f)(W),
    "value_and_grad": lambda f: fc.value_and_grad(f)(W),
    "vjp": lambda f: fc.vjp(f, W)[1](2.0),
    "jvp": lambda f: fc.jvp(f, (W,), (V,)),
    "linearize": lambda f: fc.linearize(f, W)[1](V),
    "hvp": lambda f: fc.hvp(f, (W,), (V,)),
    "reverse over reverse": lambda f: fc.grad(lambda u: inner(fc.grad(f)(u), V))(W),
    "reverse over forward": lambda f: fc.grad(lambda u: fc.jvp(f, (u,), (V,))[1])(W),
    "gradient by the direction": lambda f: fc.grad(lambda v: fc.jvp(f, (W,), (v,))[1])(V),
    "hessian": lambda f: fc.hessian(f)(W),
    "third": lambda f: fc.jvp(lambda u: fc.hvp(f, (u,), (V,)), (W,), (V,)),
    "third by reverse": lambda f: fc.grad(lambda u: inner(fc.hvp(f, (u,), (V,)), V))(W),
    "jacfwd": lambda f: fc.jacfwd(f)(W),
    "vmap": lambda f: fc.vmap(f)(WS),
    "vmap of one leaf": lambda f: fc.vmap(lambda a: f({"a": a, "b": 1.5}))(WS["a"]),
    "vmap of grad": lambda f: fc.vmap(fc.grad(f))(WS),
    "grad of vmap": lambda f: fc.grad(lambda ws: np.sum(fc.vmap(f)(ws) ** 2))(WS),
    "vmap of hvp": lambda f: fc.vmap(lambda w, v: fc.hvp(f, (w,), (v,)))(WS, VS),
    "vmap of vmap": lambda f: fc.vmap(fc.vmap(f))(fc.tree.map(lambda x: np.stack([x, x + 1, -x]), WS)),
    "checkpoint": lambda f: fc.grad(fc.checkpoint(f))(W),
    "scan": lambda f: fc.grad(lambda w: descent(f, w))(fc.tree.map(np.asarray, W)),
    "cond": lambda f: fc.grad(lambda w: fc.cond(w["b"] > 0, f, lambda w: 2.0 * f(w), w))(W),
    "beside others": lambda f: fc.grad(lambda w: np.sin(f(w)) * np.sum(w["a"]))(W),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", KINDS)
def test_it_is_the_function_on_all_data(name):
    of = KINDS[name]
    total = sum_over(programs.loss, PARTS)
    close(of(total), of(whole))
    close(of(fc.jit(total)), of(fc.jit(whole)))
    compiled = fc.jit(lambda: of(total))
    close(compiled(), of(whole))
    close(compiled(), of(whole))
    close(of(sum_over(fc.jit(programs.loss), PARTS)), of(whole))


def passes(f, of):
    """How often the sum runs over the first partition."""
    seen = []

    def counted(w, part):
        seen.append(None)
        return f(w, part)

    total = sum_over(counted, PARTS)
    of(total)  # the first time it sees what comes out of the first partition
    seen.clear()
    of(total)
    return len(seen) / len(PARTS)


@pytest.mark.parametrize("name", ["value", "grad", "value_and_grad", "jvp", "hvp", "vmap", "vmap of grad"])
def test_one_pass(name):
    assert passes(programs.loss, KINDS[name]) == 1


def moments(w, part):
    """More than one result: arrays, a complex number, a count."""
    x, y = part
    outer = (x * y[:, None]).T @ x * w["b"]
    return {"n": len(y), "second": [outer, x.sum(0) * w["a"] ** 2], "c": np.sum(np.exp(1j * (x @ w["a"])))}


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "of",
    [
        lambda f: f(W),
        lambda f: fc.jvp(lambda w: (f(w)["second"], f(w)["c"]), (W,), (V,)),
        lambda f: fc.jacrev(lambda w: f(w)["second"])(W),
        lambda f: fc.jacfwd(lambda w: f(w)["second"])(W),
        lambda f: fc.grad(lambda w: np.sum(f(w)["second"][0] ** 2) + np.abs(f(w)["c"]) ** 2)(W),
        lambda f: fc.hvp(lambda w: np.sum(f(w)["second"][1] ** 2), (W,), (V,)),
        lambda f: fc.vjp(lambda w: f(w)["second"], W)[1]([np.ones((3, 3)), np.ones(3)]),
    ],
)
def test_results_of_several_kinds(of):
    total = sum_over(moments, PARTS)
    wanted = of(lambda w: fc.tree.map(lambda x: np.int64(x) if type(x) is int else x, moments(w, (X, Y))))
    close(of(total), wanted)
    close(fc.jit(lambda: of(total))(), wanted)


def test_products_with_a_jacobian_and_its_transpose_are_two_things():
    m, w, v = np.arange(9.0).reshape(3, 3) / 9, np.ones(3), np.array([1.0, 2.0, 3.0])

    def both(f):
        return fc.jvp(f, (w,), (v,))[1], fc.vjp(f, w)[1](v)[0], fc.jvp(fc.vmap(f), (w[None],), (v[None],))[1]

    total = sum_over(lambda w, part: np.sin(part @ w), [m, 2 * m])
    wanted = both(lambda w: np.sin(m @ w) + np.sin(2 * m @ w))
    close(both(total), wanted)
    close(fc.jit(lambda: both(total))(), wanted)
    close(fc.jit(lambda w, v: (fc.jvp(total, (w,), (v,))[1], fc.vjp(total, w)[1](v)[0]))(w, v), wanted[:2])


def test_parameters_of_several_kinds():
    def f(w, x):
        k, scale, z = w
        return np.sum(x[:, k] * scale + np.abs(x[:, 0] * z) ** 2)

    args = np.int64(1), np.float32(2.0), np.array(1.0 + 2.0j)
    total, direct = sum_over(f, chunks(X, 7)), lambda w: f(w, X)
    found, wanted = fc.grad(total, allow_int=True)(args), fc.grad(direct, allow_int=True)(args)
    assert found[0].dtype == wanted[0].dtype == fc.float0
    close(found[1:], wanted[1:], rtol=1e-5)
    close(fc.jit(fc.grad(lambda z: total((*args[:2], z))))(args[2]), wanted[2])
    assert found[1].dtype == np.float32


def test_what_partitions_may_be():
    f = lambda w, p: np.sum(p["x"] * w) * len(p["name"])
    parts = [{"x": X[:0], "name": "a"}, {"x": X[:1], "name": "bb"}, {"x": X, "name": "c"}]  # none, one, many rows
    assert np.isclose(sum_over(f, parts)(2.0), 2 * (2 * X[:1].sum() + X.sum()))
    assert sum_over(lambda w, k: w * k, range(4))(2.0) == 12 and sum_over(lambda w, k: w * k, (v for v in (1, 2)))(2.0) == 6
    assert np.isnan(sum_over(lambda w, k: w * k, [1.0, np.nan, 2.0])(1.0))
    assert np.isnan(fc.grad(sum_over(lambda w, k: w * k, [1.0, np.nan, 2.0]))(1.0))
    for given, words in [
        ([], "no partitions"),
        (X, "chunks"),
        ({"x": X}, "chunks"),
        ("data.npy", "chunks"),
        (3, "chunks"),
    ]:
        with pytest.raises((TypeError, ValueError), match=words):
            sum_over(f, given)
    with pytest.raises(TypeError, match="workers"):
        sum_over(f, parts, workers=0)
    with pytest.raises(ValueError, match="retries"):
        sum_over(f, parts, retries=-1)
    with pytest.raises(TypeError, match="takes a function"):
        sum_over(3.0, parts)


def test_results_that_differ_are_refused():
    with pytest.raises(ValueError, match=r"partitions 0 and 1 differ(.|\n)*shape \(6,\)(.|\n)*shape \(2,\)"):
        sum_over(lambda w, x: x[:, 0] * w, [X[:6], X[:2]])(1.0)
    with pytest.raises(ValueError, match="float32"):
        sum_over(lambda w, x: x.sum(), [X, X.astype(np.float32)])(1.0)
    with pytest.raises(TypeError, match="truth value"):
        sum_over(lambda w, x: x.sum() > w, [X])(1.0)
    with pytest.raises(TypeError, match="output"):
        sum_over(lambda w, x: "text", [X])(1.0)


def test_nothing_is_shared_with_the_caller():
    w, kept = np.ones(3), np.ones(3)
    total = sum_over(lambda w, x: (w, x, kept), [np.zeros(3)])
    for out in total(w):
        assert out.flags.writeable
        out[:] = 7.0
    assert all(v.tolist() == wanted for v, wanted in zip((w, kept, *total(w)), ([1.0] * 3, [1.0] * 3, [1.0] * 3, [0.0] * 3)))

    def writes(w, x):
        w[0] = 5.0
        return np.sum(w * x)

    with pytest.raises(ValueError, match="read-only"):
        sum_over(writes, [np.ones(3)])(w)
    assert w[0] == 1.0


def test_the_order_of_the_sum_is_fixed():
    values = DRAW.normal(size=100) * 10.0 ** DRAW.integers(-8, 8, 100)
    parts = [Part(i, None, [v]) for i, v in enumerate(values)]
    for n in range(1, 101):
        direct = add_up(parts[:n]).values[0]
        level = parts[:n]
        while len(level) > 1:
            level = [add_up(level[i : i + 8]) for i in range(0, len(level), 8)]
        assert level[0].values[0] == direct


def test_control_flow_on_values():
    def f(w, x):
        return np.sum(x * w) if w > 0 else np.sum(x**2) * w

    total = sum_over(f, chunks(X, 7))
    for w in (2.0, -3.0):
        close([total(w), *fc.value_and_grad(total)(w)], [f(w, X), *fc.value_and_grad(f)(w, X)])
        assert fc.hvp(total, (w,), (1.0,)) == 0
    with pytest.raises(TracerBoolConversionError):
        fc.jit(sum_over(f, chunks(X, 7)))(2.0)


def test_a_sum_in_a_sum():
    weights = [1.0, 2.0, -0.5]

    def outer(w, x):
        return np.sum(x) * sum_over(lambda v, k: np.sum(np.sin(k * v)), weights)(w) ** 2

    direct = lambda w: np.sum(X) * sum([np.sum(np.sin(k * w)) for k in weights]) ** 2
    total = sum_over(outer, chunks(X, 7))
    w = np.array([0.3, 0.4])
    for of in (lambda f: f(w), lambda f: fc.grad(f)(w), lambda f: fc.hessian(f)(w), lambda f: fc.jit(fc.grad(f))(w)):
        close(of(total), of(direct))


def test_errors_name_the_partition():
    total = sum_over(programs.fails_at_row, [X, X + 200, X])
    one, two = np.ones(3), np.ones((2, 3))
    for of, w in ((total, one), (fc.grad(total), one), (fc.jit(total), one), (fc.vmap(total), two)):
        with pytest.raises(ZeroDivisionError, match="mine") as caught:
            of(w)
        assert "in partition 1 of 3" in caught.value.__notes__
    with pytest.raises(MissingRuleError, match="not linear"):
        fc.linear_transpose(total, np.ones(3))(1.0)
    assert sum_over(programs.fails_at_row, [X])(np.ones(3)) == np.sum(X @ np.ones(3))


def test_what_f_closes_over_is_no_parameter():
    def of(a):
        return sum_over(lambda w, x: a * np.sum(x * w), chunks(X, 7))(2.0)

    for g, a in ((fc.grad(of), 3.0), (fc.jit(of), 3.0), (fc.vmap(of), np.ones(2)), (fc.grad(fc.jit(of)), 3.0)):
        with pytest.raises(CustomRuleClosureError, match="closes over the variable 'a'"):
            g(a)


def test_an_interrupt_leaves_it_usable():
    stop = [True]

    def f(w, x):
        if stop:
            raise KeyboardInterrupt
        return np.sum(x * w)

    total = sum_over(f, chunks(X, 7))
    for of in (total, fc.grad(total)):
        with pytest.raises(KeyboardInterrupt):
            of(2.0)
    stop.clear()
    close(fc.value_and_grad(total)(2.0), (np.float64(2 * X.sum()), X.sum()))


@pytest.mark.parametrize("method", ["l-bfgs", "newton-cg"])
def test_minimize_over_partitions(method):
    start = {"a": np.zeros(3), "b": 1.0}
    f = lambda w, part: programs.loss(w, part) + 0.1 * len(part[1]) * inner(w, w)
    found = distributed.minimize(sum_over(f, PARTS), start, method=method, tol=1e-9)
    wanted = fc.scipy.optimize.minimize(lambda w: f(w, (X, Y)), start, method="bfgs", tol=1e-9)
    close(found.x, wanted.x, rtol=1e-5)
    jitted = distributed.minimize(sum_over(fc.jit(f), PARTS), start, method=method, tol=1e-9)
    close(jitted.x, wanted.x, rtol=1e-5)


@pytest.mark.parametrize("method", ["l-bfgs", "newton-cg"])
def test_minimize_over_processes(method):
    start = {"a": np.zeros(3), "b": 1.0}
    f = lambda w, x, y: programs.loss(w, (x, y)) / 5 + 0.1 * inner(w, w)

    def process(rank):
        own = distributed.shard((X, Y))
        return distributed.minimize(f, start, *own, method=method, tol=1e-9)

    results = distributed.on_threads(4, process, timeout=60.0)
    wanted = fc.scipy.optimize.minimize(
        lambda w: programs.loss(w, (X, Y)) / 20 + 0.1 * inner(w, w), start, method="bfgs", tol=1e-9
    )
    bits = [[np.asarray(x).tobytes() for x in fc.tree.leaves((r.x, r.fun, r.jac))] for r in results]
    assert all(b == bits[0] for b in bits)
    close(results[0].x, wanted.x, rtol=1e-5)


def test_minimize_from_other_starts_is_refused():
    with pytest.raises(CollectiveError, match="differs between the processes"):
        distributed.on_threads(2, lambda rank: distributed.minimize(lambda w, x: (w - x) ** 2, float(rank), 3.0), timeout=60.0)


def test_threads_share_one():
    total, found = sum_over(fc.jit(programs.loss), PARTS), []
    wanted = fc.grad(whole)(W)
    threads = [threading.Thread(target=lambda: found.append(fc.grad(total)(W))) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4
    for f in found:
        close(f, wanted)


@pytest.mark.parametrize("name", ["grad", "jit", "hessian", "jacrev"])
def test_parameters_on_a_device(name):
    total = sum_over(lambda w, x: np.sum(np.sin(x @ w)), chunks(X, 6))
    several = sum_over(lambda w, x: np.sin(x @ w)[:2], [X[:6], X[6:12]])
    ways = {"grad": fc.grad(total), "jit": fc.jit(fc.grad(total)), "hessian": fc.hessian(total), "jacrev": fc.jacrev(several)}
    of = ways[name]
    with standin.registered():
        found = of(standin.to_device(np.ones(3)))
        assert type(found) is standin.DeviceArray
        close(standin.to_host(found), of(np.ones(3)))


# ---------------------------------------------------------------- files


def test_files_are_mapped_one_after_another(tmp_path):
    x = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float64, (1000, 3))
    x[:] = DRAW.normal(size=x.shape)
    raw = np.memmap(tmp_path / "y.bin", np.float32, "w+", 16, (1000,))
    raw[:] = 2.0
    fortran = np.memmap(tmp_path / "z.bin", np.float64, "w+", shape=(1000, 2), order="F")
    fortran[:] = DRAW.normal(size=(1000, 2))
    wanted = np.sum((np.array(x) @ np.ones(3)) * 2.0 * fortran[:, 1])

    def f(w, part):
        a, b, c = part
        assert type(a) is type(b) is type(c) is np.ndarray
        with open("/proc/self/maps", encoding="utf8") if os.path.exists("/proc/self/maps") else open(os.devnull) as maps:
            opened.append(sum(str(tmp_path / "own.npy") in line for line in maps))
        return np.sum((a @ w) * b * c[:, 1])

    np.save(tmp_path / "own.npy", x)
    for given in (tmp_path / "own.npy", str(tmp_path / "own.npy"), x):
        opened = []
        parts = chunks((given, raw, fortran), 300)
        assert len(parts) == 4 and len(pickle.dumps(parts)) < 3000  # they travel as names
        close(sum_over(f, parts)(np.ones(3)), np.float64(wanted))
        assert max(opened) <= 1
    close(sum_over(lambda w, p: np.sum(p * w), [str(tmp_path / "own.npy"), tmp_path / "own.npy"])(1.0), np.float64(2 * x.sum()))
    view = chunks(x[10:], 500)  # of what is mapped: it is not asked for again
    close(sum_over(lambda w, p: np.sum(p * w), view)(1.0), np.float64(x[10:].sum()))
    with pytest.raises(ValueError, match="same number of rows"):
        chunks((x, raw[:5]), 10)
    with pytest.raises(TypeError, match="rows"):
        chunks((x, 3.0), 10)
    with pytest.raises(ValueError, match="at least 1"):
        chunks(x, 0)
    with pytest.raises(FileNotFoundError):
        sum_over(f, [tmp_path / "none.npy"])(1.0)


# ---------------------------------------------------------------- processes


def compare(total, rtol=1e-10):
    for name in ("value_and_grad", "hvp", "vmap of grad"):
        close(KINDS[name](total), KINDS[name](whole), rtol)
    close(fc.jit(fc.grad(total))(W), fc.grad(whole)(W), rtol)


@pytest.fixture(scope="module")
def pool():
    """One process, which starts afresh, for all tests that do not end it."""
    with ProcessPoolExecutor(1, get_context("spawn")) as found:
        yield found


def test_processes_of_our_own():
    compare(sum_over(fc.jit(programs.loss), PARTS, workers=2))


def test_an_executor_of_processes(pool):
    compare(sum_over(fc.jit(programs.loss), PARTS, workers=pool))
    total = sum_over(programs.with_traces, chunks(X, 5), workers=pool)
    assert [int(total(np.ones(3))["traces"]) for _ in range(2)] == [7, 8]  # 1 + 2 + 2 + 2: it ran, and was traced once
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        sum_over(programs.fails_at_row, [X, X + 200], workers=pool)(np.ones(3))
    assert "in partition 1 of 2" in caught.value.__notes__ and "in fails_at_row" in str(caught.value.__cause__)
    with pytest.raises(RuntimeError, match="Unpicklable, which does not pickle(.|\n)*in fails_oddly"):
        sum_over(programs.fails_oddly, [X], workers=pool)(np.ones(3))


def test_an_executor_of_threads():
    with ThreadPoolExecutor(2) as threads:
        compare(sum_over(lambda w, p: programs.loss(w, p), PARTS, workers=threads))
        with pytest.raises(programs.Unpicklable):
            sum_over(programs.fails_oddly, [X], workers=threads)(np.ones(3))


@pytest.mark.slow
def test_a_process_that_dies_loses_nothing(tmp_path):
    parts = [(str(tmp_path / "died"), p) for p in chunks(X, 3)]
    total = sum_over(programs.kills_once, parts, workers=2)
    close(total(np.ones(3)), np.sum(np.cos(X @ np.ones(3))))
    assert (tmp_path / "died").exists()
    close(fc.grad(total)(np.ones(3)), fc.grad(lambda w: np.sum(np.cos(X @ w)))(np.ones(3)))


@pytest.mark.slow
def test_processes_that_die_again_and_again():
    with pytest.raises(Exception, match="abruptly") as caught:
        sum_over(programs.kills_always, [X, X], workers=2, retries=1)(np.ones(3))
    assert any("workers died 2 times" in note for note in caught.value.__notes__)
    with ProcessPoolExecutor(1, get_context("spawn")) as given:
        with pytest.raises(Exception, match="abruptly") as caught:
            sum_over(programs.kills_always, [X], workers=given)(np.ones(3))
        assert any("workers=4" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_script_without_its_guard_is_told(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import math\nfrom funcad import distributed\nprint(distributed.sum_over(math.pow, [1, 2], workers=1)(2.0))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=Path(fc.__file__).parents[1])
    assert done.returncode and "if __name__ == '__main__'" in done.stderr


def test_an_interrupt_cancels_what_has_not_begun(tmp_path, pool):
    parts = [str(tmp_path / f"{i:02}") for i in range(60)]
    total = sum_over(programs.notes, parts, workers=pool)
    sum_over(programs.notes, parts[:1], workers=pool)(1.0)
    with interruptible(), pytest.raises(KeyboardInterrupt):
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        fc.grad(total)(1.0)
    assert sum_over(programs.notes, parts[:2], workers=pool)(1.0) == 2.0
    assert len(list(tmp_path.iterdir())) < 60


def test_progress(monkeypatch, capsys):
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "EVERY_LINE", 0.0)
    monkeypatch.setattr(progress, "_tqdm", lambda what, total: None)
    monkeypatch.setattr(fc.config, "progress", "on")
    fc.grad(sum_over(programs.loss, PARTS))(W)
    assert "sum over 4 partitions" in (said := capsys.readouterr().err) and "4 of 4" in said


def test_functions_that_do_not_travel(monkeypatch, pool):
    if importlib.util.find_spec("cloudpickle") is not None:
        compare(sum_over(lambda w, p: programs.loss(w, p), PARTS, workers=pool))
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(pickle.PicklingError, match="top level of a module"):
        sum_over(lambda w, p: 2 * programs.loss(w, p), PARTS, workers=pool)(W)


def test_the_function_itself_pickles():
    again = pickle.loads(pickle.dumps(sum_over(programs.loss, PARTS)))
    close(fc.grad(again)(W), fc.grad(whole)(W))


def test_public_names():
    assert {"sum_over", "chunks"} <= set(dir(distributed))
