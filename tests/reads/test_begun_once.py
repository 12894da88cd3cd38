"""What a function does outside itself happens once, though arrays that it makes must be lent to it to be written."""

from __future__ import annotations

import dis
import importlib
import importlib.util
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jacfwd, jit, jvp, make_jaxpr, value_and_grad, vjp, vmap
from funcad.host import acting, conversions

A0 = np.ones((3, 3))
LOG: list[float] = []
COUNTS = {"n": 0}
count = 0


def into_a_copy(x: Any, *others: Any) -> Any:
    b = A0.copy()
    b[0, 0] = x * x
    return b.sum()


def says(x: Any) -> Any:
    print("once")
    return into_a_copy(x)


def appends(x: Any) -> Any:
    LOG.append(1.0)
    return into_a_copy(x)


def counts_in_a_dict(x: Any) -> Any:
    COUNTS["n"] += 1
    return into_a_copy(x)


def counts_in_a_global(x: Any) -> Any:
    global count
    count += 1
    return into_a_copy(x)


def counts_in_an_array(x: Any) -> Any:
    A0[2, 2] += 1.0
    return into_a_copy(x)


def counts_by_another_name(x: Any) -> Any:
    row = A0[2]
    row[2] += 1.0
    return into_a_copy(x)


def _store(b: Any, x: Any) -> None:
    b[0, 0] = x * x


WRITERS = {"set": _store}


def writes_by_a_table(x: Any) -> Any:
    LOG.append(1.0)
    b = A0 + 0
    WRITERS["set"](b, x)
    return b.sum()


def zeros_by_a_table(x: Any) -> Any:
    LOG.append(1.0)
    b = np.zeros((3, 3))
    WRITERS["set"](b, x)
    return b.sum()


CASES = [says, appends, counts_in_a_dict, counts_in_a_global, counts_in_an_array, counts_by_another_name]
CASES += [writes_by_a_table, zeros_by_a_table]
WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(2.0),
    "value_and_grad": lambda f: value_and_grad(f)(2.0),
    "jvp": lambda f: jvp(f, (2.0,), (1.0,)),
    "vjp": lambda f: vjp(f, 2.0)[0],
    "hessian": lambda f: hessian(f)(2.0),
    "jacfwd": lambda f: jacfwd(f)(2.0),
    "make_jaxpr": lambda f: make_jaxpr(f)(2.0),
    "vmap": lambda f: vmap(f)(np.arange(3.0)),
    "vmap_grad": lambda f: vmap(grad(f))(np.arange(3.0)),
    "jit": lambda f: jit(f)(2.0),
}


def loaded_anew() -> Any:
    """This module, with functions whose codes nobody knows yet."""
    spec = importlib.util.spec_from_file_location("begun_once_anew", __file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore::funcad.errors.NotCompiledWarning")  # an array of the module's is written
@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_once_in_the_first_call_and_in_later_ones(way, capsys):
    anew = loaded_anew()
    done = 0.0
    for f in anew.CASES:
        for _ in range(2):
            way(f)
            said = capsys.readouterr().out.count("once") + len(anew.LOG) + anew.COUNTS["n"] + anew.count + anew.A0[2, 2] - 1.0
            assert said - done == 1.0, f.__name__
            done = said - (f.__name__ == "says")


@pytest.mark.share(3)
@pytest.mark.parametrize("f", CASES, ids=lambda f: f.__name__)
def test_right(f):
    assert grad(f)(3.0) == 6.0
    assert hessian(f)(3.0) == 2.0


def test_draws_are_those_that_plain_python_draws():
    def noisy(x, rng):
        b = A0.copy()
        b[0, 0] = x * rng.normal()
        return b.sum()

    def of_the_module(x):
        b = A0.copy()
        b[0, 0] = x * np.random.normal()
        return b.sum()

    expected = np.random.default_rng(5).normal()
    rng = np.random.default_rng(5)
    assert grad(lambda x: noisy(x, rng))(2.0) == expected
    np.random.seed(5)
    first = np.random.normal()
    np.random.seed(5)
    assert grad(of_the_module)(2.0) == first


def test_a_nonlocal_and_a_generator_move_once():
    n, numbers = 0, iter(range(10))

    def f(x):
        nonlocal n
        n += 1
        b = A0.copy()
        b[0, 0] = x * next(numbers)
        return b.sum()

    assert grad(f)(2.0) == 0 and n == 1
    assert grad(f)(2.0) == 1 and n == 2


def test_a_file_is_written_once(tmp_path):
    def f(x):
        with open(tmp_path / "log", "a") as file:
            file.write("line\n")
        b = A0.copy()
        b[0, 0] = x
        return b.sum()

    assert grad(f)(2.0) == 1.0
    assert (tmp_path / "log").read_text() == "line\n"


def test_callbacks_run_once():
    seen = []

    def f(x):
        funcad.debug.callback(lambda v: seen.append(float(v)), x)
        b = A0.copy()
        b[0, 0] = x
        return b.sum()

    assert grad(f)(2.0) == 1.0
    assert seen == [2.0]


class Layer:
    def __init__(self, w: float) -> None:
        self.w, self.calls = w, 0

    def forward(self, x: Any) -> Any:
        self.calls += 1
        out = A0[[0, 1]]
        out[0, 0] = self.w * x
        return out


class Model:
    def __init__(self) -> None:
        self.layers = [Layer(2.0), Layer(3.0)]

    def loss(self, x: Any) -> Any:
        return np.mean([layer.forward(x)[0, 0] for layer in self.layers]) + math.sin(x)


@pytest.mark.share(3)
@pytest.mark.parametrize("way", WAYS.values(), ids=list(WAYS))
def test_methods(way):
    model = Model()
    way(model.loss)
    assert [layer.calls for layer in model.layers] == [1, 1]
    assert grad(model.loss)(2.0) == pytest.approx(2.5 + math.cos(2.0))


def test_who_acts_and_was_not_seen_to_write_is_not_started_again():
    calls = []
    hidden = iter([_store] * 3)

    def f(x):
        calls.append(x)
        b = A0.copy()
        next(hidden)(b, x)
        return b.sum()

    with pytest.raises(funcad.errors.BufferNeeded, match="was written into a plain NumPy array"):
        grad(f)(2.0)
    assert len(calls) == 1
    assert grad(f)(2.0) == 4.0 and len(calls) == 2


def test_who_does_not_act_begins_as_it_is():
    from funcad.host.acting import acts
    from funcad.host.conversions import makers, plainly

    a = np.ones((3, 3))

    def f(x, k=(1.0, 2.0)):
        out = np.zeros(3)
        for i in range(3):
            out[i] = a[i, i] * x + np.dot(a[i], a[0]) * k[0]
        return out.sum()

    assert not acts(f) and grad(f)(2.0) == 3.0
    assert id(f.__code__) in plainly and id(f.__code__) not in makers


def test_who_acts_in_a_long_loop_and_calls_numpy_by_name_begins_as_it_is():
    from funcad.host.acting import acts
    from funcad.host.conversions import makers, plainly

    steps = "\n".join(["        x = np.dot(x, 1.0)"] * 40)  # over which Python's jump back takes more than a byte
    space = {"np": np, "rows": np.ones(2)}
    exec(f"def f(x):\n    for y in rows:\n{steps}\n        x = x + y\n    return x", space)
    f = space["f"]
    assert acts(f) and grad(f)(2.0) == 1.0
    assert id(f.__code__) in plainly and id(f.__code__) not in makers


def test_what_is_found_is_compared_by_identity_when_a_function_is_looked_at():
    masked = np.ma.masked_array([1.0, 2.0, 3.0])  # whose `==` goes element by element

    def f(p):
        total = np.sum(np.array([p[0], p[1]]) * masked[0])
        masked[2]
        return total

    np.testing.assert_array_equal(grad(f)(np.ones(3)), [1.0, 1.0, 0.0])


LARGE = """
import numpy as np

class Entry:
    def __init__(self, n):
        self.n = n

REGISTRY = {str(n): Entry(n) for n in range(300)}
STATE = Entry(0)

def last(x):
    STATE.n = STATE.n + 1
    return np.mean([x, x * x])
""" + "".join(
    [
        f"""
def f{n}(x):
    parts = [x, REGISTRY]
    STATE.n += 1
    return {f"f{n - 1}" if n else "last"}(x)
"""
        for n in range(300)
    ]
)


def test_a_large_library_is_not_disassembled(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds of functions that act the first is enough, and lists count where NumPy gets them."""
    package = tmp_path / "site-packages" / "large_library.py"
    package.parent.mkdir()
    package.write_text(LARGE)
    monkeypatch.syspath_prepend(str(package.parent))
    large, read, looked = importlib.import_module("large_library"), [], []
    monkeypatch.setattr(acting.dis, "get_instructions", lambda code, real=dis.get_instructions: read.append(code) or real(code))
    contained = conversions._contained
    monkeypatch.setattr(conversions, "_contained", lambda x: looked.append(x) or contained(x))
    f = lambda x: large.f299(x) * 2.0
    assert grad(f)(2.0) == 5.0 and large.STATE.n == 300 + 1
    assert len({id(code) for code in read}) <= 10
    assert len([x for x in looked if x is large.REGISTRY]) <= 2
    read.clear()
    assert grad(lambda x: large.f299(x))(2.0) == 2.5 and len(read) <= 10


def test_data_in_lists_are_not_walked_through() -> None:
    """A function that refers to many numbers costs no call for each of them the first time."""
    numbers = [float(i) for i in range(100_000)]
    rows = {"pairs": [(float(i), i) for i in range(5_000)], "more": {"numbers": numbers, "by": WRITERS}}
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    def f(x: Any) -> Any:
        LOG.append(numbers[1])
        b = A0.copy()
        rows["more"]["by"]["set"](b, x)
        return b.sum() * rows["pairs"][1][0]

    sys.setprofile(count)
    try:
        slope = grad(f)(3.0)
    finally:
        sys.setprofile(None)
    assert slope == 6.0 and calls < 60_000


NUMBERS = [1.0]


def stores(x):
    K = A0.copy()
    K[0, 0] = NUMBERS[0]
    return x * K.sum()


def puts(x):
    K = [A0.copy()]
    for k in K:
        np.put(k, 0, NUMBERS[0])
    return x * K[0].sum()


def into_objects(x):
    o = np.array([1.0, 2.0], object)
    o[0] = NUMBERS[0]
    return x * o.astype(float).sum()


def of_a_list(x):
    return x * np.sum(np.square([1.0, NUMBERS[0]]))


def of_a_compiled_call(x):
    return x * np.sum(np.frompyfunc(lambda a: a * NUMBERS[0], 1, 1)(A0).astype(float))


INPUTS_OF = {"jit": (lambda f: f, 1.0), "grad": (grad, 1.0), "vmap": (vmap, np.ones(2))}


@pytest.mark.parametrize("way", INPUTS_OF)
@pytest.mark.parametrize("f", [stores, puts, into_objects, of_a_list, of_a_compiled_call], ids=lambda f: f.__name__)
def test_a_number_that_is_read_is_an_input_also_where_the_trace_starts_again(f, way):
    transform, x = INPUTS_OF[way]
    jitted = jit(transform(f))
    for value in (1.0, 2.0, 3.0, 5.0, 8.0, 13.0):  # from the fourth call on it is no constant
        NUMBERS[0] = value
        np.testing.assert_allclose(jitted(x), f(x), rtol=1e-14)
