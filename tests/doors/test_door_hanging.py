"""Doors are seen by threads that trace, and by nothing else: identity, pickle, imports, interrupts, settings."""

from __future__ import annotations

import copy
import functools
import gc
import importlib
import inspect
import math
import math as other_name_of_math
import os
import pickle
import sys
import threading
import types
import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.special

import funcad
from funcad.doors.answers import by_name
from funcad.doors.codes import python_function
from funcad.doors.door_table import IN_CODE, IN_MODULES
from funcad.doors.modules import PATIENCE
from funcad.errors import TracerArrayConversionError
from funcad.host.where import tracing
from funcad.numpy.dispatch import find
from tests.forked import in_a_process

ORIGINALS = {(m, n): f for m, names in IN_MODULES.items() for n, f in vars(importlib.import_module(m)).items() if n in names}


def in_thread(f):
    """What f gives in another thread."""
    found = []
    thread = threading.Thread(target=lambda: found.append(f()))
    thread.start()
    thread.join()
    return found[0]


def inside(f):
    """What f gives inside a trace of this thread."""
    found = []

    def traced(x):
        found.append(f())
        return x * 2.0

    assert funcad.grad(traced)(1.0) == 2.0
    return found[0]


def all_original():
    return [name for (m, name), f in ORIGINALS.items() if getattr(sys.modules[m], name) is not f] == []


def fresh(code, **environment):
    """Run a program in a new process."""
    return in_a_process(code, **environment)


def test_originals_are_seen_outside_traces():
    assert inside(lambda: np.array is not ORIGINALS["numpy", "array"] and math.sin is not ORIGINALS["math", "sin"])
    assert all_original()
    for _ in range(PATIENCE):
        assert np.array is ORIGINALS["numpy", "array"]
    assert type(np) is types.ModuleType and type(math) is types.ModuleType
    assert inside(lambda: np.array([1, 2]).tolist()) == [1, 2]


def test_what_a_door_shows_of_itself():
    def look():
        assert np.array is np.array and other_name_of_math.sin is math.sin
        assert np.array == ORIGINALS["numpy", "array"] and {ORIGINALS["numpy", "array"]: 1}[np.array] == 1
        assert np.array.__name__ == "array" and np.array.__module__ == "numpy" and np.array.__doc__.startswith("array(")
        assert repr(np.array) == repr(ORIGINALS["numpy", "array"]) and math.sin.__self__ is math
        assert inspect.signature(math.sin) == inspect.signature(ORIGINALS["math", "sin"])
        assert copy.copy(np.array) is copy.deepcopy(np.array) is np.array
        assert isinstance(math, type(np)) and isinstance(np.linalg, type(np)) and not isinstance(1, type(np))
        assert issubclass(types.ModuleType, type(np)) and isinstance(np, types.ModuleType)
        assert repr(np).startswith("<module 'numpy' from ")
        return True

    assert inside(look)


def test_untraced_calls_are_numpys():
    calls = [
        lambda: np.array([[1, 2], [3, 4]], dtype=np.float32, order="F"),
        lambda: np.array(["a", "b"]),
        lambda: np.asarray([None, 1]),
        lambda: np.fromiter((i * i for i in range(4)), dtype=np.int16, count=3),
        lambda: np.full((2, 2), 7, dtype=np.uint8),
        lambda: math.log(8, 2),
        lambda: math.hypot(3, 4, 12),
        lambda: math.floor(2.5),
        lambda: scipy.special.comb(5, 2, exact=True),
        lambda: scipy.linalg.block_diag([1, 2], 3),
    ]
    for call in calls:
        expected, found = call(), inside(call)
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)
    wrong = [lambda: np.array(), lambda: np.array([1], dtyp=int), lambda: math.sqrt(-1.0), lambda: math.sin("a")]
    wrong += [lambda: scipy.linalg.expm(np.ones(3)), lambda: scipy.linalg.solve(np.eye(2)), lambda: np.fromiter(3, float)]
    for call in wrong:
        messages = []
        for run in (lambda call=call: call(), lambda call=call: inside(call)):
            with pytest.raises((TypeError, ValueError)) as caught:
                run()
            messages.append((type(caught.value), str(caught.value)))
        assert messages[0] == messages[1]


def test_errors_of_math_where_values_are_known():
    for f, error in [
        (lambda x: math.sqrt(-x), ValueError),
        (lambda x: math.log(x - 1.0), ValueError),
        (lambda x: math.exp(x * 1000.0), OverflowError),
        (lambda x: math.sin(x * np.ones(2)), TypeError),
    ]:
        with pytest.raises(error) as caught:
            funcad.grad(f)(1.0)
        assert type(caught.value) is error


def test_other_threads_see_the_originals_while_a_trace_is_open():
    values = []

    def f(x):
        assert in_thread(all_original)
        values.append(in_thread(lambda: pickle.dumps([functools.partial(np.zeros, 3), np.array, math.sin, np.full])))
        assert in_thread(lambda: type(np.array([1.0])) is np.ndarray)
        return np.array([x, x]).sum()

    assert funcad.grad(f)(1.0) == 2.0
    made, array, sin, full = pickle.loads(values[0])
    assert made().tolist() == [0.0] * 3 and array is np.array and sin is math.sin and full is np.full


def test_doors_and_originals_are_pickled_inside_a_trace():
    known = [f for (m, _), f in ORIGINALS.items() if m != "scipy.linalg.lapack"]  # which cannot be pickled
    everything = [np.array, math.sin, functools.partial(np.asarray, [1]), *known, len, scipy.linalg.expm, np]
    here = inside(lambda: pickle.loads(pickle.dumps([np.array, math.sin, *everything[2:-1]])))
    assert here[0] == np.array and here[1] == math.sin and here[2]().tolist() == [1] and here[-1] is scipy.linalg.expm
    text = inside(lambda: pickle.dumps([np.array, functools.partial(math.pow, 2.0), np]))
    array, power, module = pickle.loads(text)
    assert array is np.array and power(3.0) == 8.0 and module is np
    # a door that got into another thread
    door = inside(lambda: np.array)
    assert in_thread(lambda: pickle.loads(pickle.dumps(door))) is np.array
    assert door([1, 2]).tolist() == [1, 2]


def test_threads_that_trace_at_the_same_time():
    first_is_in, second_is_in, first_is_out = threading.Event(), threading.Event(), threading.Event()
    results = {}

    def first(x):
        first_is_in.set()
        assert second_is_in.wait(10)
        return math.sin(np.array([x, x])[0])

    def second(x):
        second_is_in.set()
        assert first_is_in.wait(10) and first_is_out.wait(10)
        for _ in range(2 * PATIENCE):
            in_order = np.array([x, 1.0])
        return in_order[0] * math.exp(x)

    def run(name, f):
        results[name] = funcad.grad(f)(1.0)
        (first_is_out if name == "first" else second_is_in).set()

    threads = [threading.Thread(target=run, args=pair) for pair in (("first", first), ("second", second))]
    for t in threads:
        t.start()
    assert first_is_out.wait(10)
    for _ in range(2 * PATIENCE):
        assert all_original()
    for t in threads:
        t.join()
    np.testing.assert_allclose([results["first"], results["second"]], [math.cos(1.0), 2 * math.e])


def test_many_threads_that_come_and_go():
    wrong = []

    def work():
        for i in range(150):
            try:
                if funcad.grad(lambda x, i=i: np.array([x, i]).sum() * math.exp(0.0 * x))(1.0) != 1.0:
                    wrong.append("value")
                if np.array is not ORIGINALS["numpy", "array"]:
                    wrong.append("identity")
                for _ in range(i % 80):
                    math.cos(1.0)
            except Exception as error:  # whatever it is, it is wrong
                wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(before)
    assert wrong == [] and not tracing.threads


def test_every_way_to_run_a_traced_function():
    f = lambda x: np.array([x, 2.0]).sum() * math.exp(x)
    g = lambda x: np.asarray(x) * math.cos(0.0)
    slope = 2 * math.e + 2 * math.e
    np.testing.assert_allclose(
        [
            funcad.grad(f)(1.0),
            funcad.jvp(f, (1.0,), (1.0,))[1],
            funcad.linearize(f, 1.0)[1](1.0),
            funcad.vjp(f, 1.0)[1](1.0)[0],
            funcad.jacfwd(f)(1.0),
            funcad.jacrev(f)(1.0),
            funcad.jit(funcad.grad(f))(1.0),
            funcad.grad(funcad.jit(f))(1.0),
            funcad.grad(funcad.checkpoint(f))(1.0),
            funcad.vmap(funcad.grad(f))(np.ones(1))[0],
            funcad.grad(lambda x: funcad.cond(x > 0, f, lambda x: x, x))(1.0),
            funcad.grad(lambda x: funcad.scan(lambda c, _: (f(x), None), 0.0 * x, None, length=1)[0])(1.0),
        ],
        slope,
    )
    assert funcad.grad(lambda x: funcad.fori_loop(0, 3, lambda i, c: g(c), x))(1.0) == 1.0
    np.testing.assert_allclose(funcad.hessian(f)(1.0), 2 * math.e + 4 * math.e - math.e)
    np.testing.assert_allclose(funcad.grad(funcad.grad(f))(1.0), 5 * math.e)
    assert "= exp " in str(funcad.make_jaxpr(f)(1.0)) and funcad.eval_shape(f, 1.0).shape == ()
    nested = lambda x: funcad.grad(f)(x) + f(x)
    assert "gradient finite" in str(funcad.debug.doctor(nested)(1.0))
    np.testing.assert_allclose([funcad.jit(nested)(1.0), funcad.vmap(nested)(np.ones(1))[0]], 7 * math.e)
    assert not tracing.threads


def test_generators_that_outlive_or_hold_a_trace():
    def parts(x):
        yield np.array([x, x]).sum()
        yield np.array([1.0, 2.0])

    kept = []

    def f(x):
        kept.append(parts(x))
        return next(kept[0])

    assert funcad.grad(f)(1.0) == 2.0
    assert type(next(kept[0])) is np.ndarray and all_original()

    def driver():  # its body opens and closes traces between its stops
        for x in (1.0, 2.0):
            yield funcad.grad(lambda v: math.sin(v) + np.asarray(v) ** 2)(x)

    steps = driver()
    next(steps)
    assert all_original()
    np.testing.assert_allclose(next(steps), math.cos(2.0) + 4.0)
    del steps
    gc.collect()
    assert not tracing.threads


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("transform", [funcad.grad, funcad.jit, funcad.vmap, lambda f: funcad.grad(funcad.jit(f))])
def test_nothing_is_left_after_an_error(error, transform):
    def f(x):
        funcad.grad(lambda y: np.array([y, x]).sum())(1.0)
        raise error("in the middle")

    with pytest.raises(error):
        transform(f)(np.ones(1)[0] if transform is not funcad.vmap else np.ones(2))
    assert not tracing.threads and all_original()
    assert funcad.grad(lambda x: np.array([x]).sum())(1.0) == 1.0


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
@pytest.mark.parametrize("inner", [funcad.grad, funcad.jit, lambda f: lambda x: funcad.jvp(f, (x,), (x,))])
@pytest.mark.parametrize("outer", [funcad.grad, funcad.jit, lambda f: funcad.grad(funcad.jit(f))])
def test_a_stop_that_ends_within_a_traced_function_ends_nothing_else(error, inner, outer):
    def stopped(y):
        raise error("in the middle")

    def f(x):
        try:
            inner(stopped)(x)
        except error:
            x = 2.0 * x
        return np.array([math.sin(x), 1.0])[0]  # by doors

    for _ in range(3):
        np.testing.assert_allclose(outer(f)(0.3), math.sin(0.6) if outer is funcad.jit else 2.0 * math.cos(0.6))
    assert not tracing.threads


def test_scipys_own_search_for_a_root_leaves_the_doors_open():
    """Its closure turns out to be traced, and what SciPy had begun is broken off."""
    import scipy.optimize
    import scipy.stats

    def f(p):
        root = scipy.optimize.root_scalar(lambda t: t**3 + t - p, bracket=[-9.0, 9.0]).root
        return scipy.stats.binom.logpmf(2, 5, root)

    numeric = (f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(funcad.grad(f)(0.3), numeric, rtol=1e-6)


def test_tables_kept_from_a_trace():
    @functools.lru_cache
    def table(n):
        return np.array([math.sin(i) for i in range(n)])

    assert funcad.grad(lambda x: (table(3) * x).sum())(1.0) == table(3).sum()
    assert type(table(3)) is np.ndarray


def test_modules_imported_inside_a_trace(tmp_path, monkeypatch):
    (tmp_path / "imported_inside.py").write_text(
        "import math\nimport numpy as np\nfrom numpy import array\nfrom math import sin\n"
        "KEPT = [np.asarray, math.cos]\nTABLE = {np.array: 1}\n\n"
        "def collect():\n    return [np.fromiter, math.tan]\n\nMORE = collect()\n\n"
        "def f(x):\n    return np.array([x, 1.0]).sum() + math.exp(x)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    assert funcad.grad(lambda x: __import__("imported_inside").f(x))(0.0) == 2.0
    module = sys.modules.pop("imported_inside")
    kept = [module.array, module.sin, *module.KEPT, *module.MORE]
    assert kept == list(map(vars(np).get, ["array"])) + [ORIGINALS["math", "sin"], np.asarray, math.cos, np.fromiter, math.tan]
    assert all(type(f) is type(len) for f in kept)


@pytest.mark.slow
def test_modules_of_scipy_imported_inside_a_trace():
    code = """
import sys, numpy as np, funcad
assert "scipy" not in sys.modules
funcad.grad(lambda x: np.array([x]).sum())(1.0)
assert "scipy" not in sys.modules
def f(x):
    from scipy.special import logsumexp
    import scipy.linalg as la
    return logsumexp(x) + la.expm(np.diag(x))[0, 0] + la.norm(np.eye(2))
print(funcad.grad(f)(np.zeros(2)).tolist())
from scipy.stats import norm
print(funcad.jit(funcad.grad(lambda x: norm.logpdf(x)))(2.0))
assert not [m for m in sys.meta_path if type(m).__name__ == "_Arrivals" and m is not sys.meta_path[0]]
import scipy.linalg
assert "exec_module" not in vars(scipy.linalg.__spec__.loader)
"""
    assert fresh(code).split("\n") == ["[1.5, 0.5]", "-2.0"]


def test_importing_funcad_and_tracing_loads_no_scipy():
    code = """
import sys, math, numpy as np, funcad
funcad.grad(lambda x: math.sin(x) + np.array([x]).sum())(1.0)
print(sorted({m.split(".")[0] for m in sys.modules} & {"scipy", "pandas", "numba", "inspect_"}))
"""
    assert fresh(code) == "[]"


def test_doors_of_scipy_are_hung_when_it_is_imported():
    code = """
import sys, numpy as np, funcad
import scipy.special
behind = lambda: scipy.special.logsumexp.__code__.co_filename
assert "a door of funcad" in behind()
print(scipy.special.logsumexp([0.0, 0.0]) == np.log(2))
funcad.config.doors = False
assert "a door of funcad" not in behind() and not [m for m in sys.meta_path if type(m).__name__ == "_Arrivals"]
funcad.config.doors = True
print(funcad.grad(scipy.special.logsumexp)(np.zeros(2)).tolist())
assert "a door of funcad" in behind()
"""
    assert fresh(code).split("\n") == ["True", "[0.5, 0.5]"]


def test_what_answers_for_scipy_is_loaded_with_it():
    """So that the first gradient does not load it; without doors nobody does, and funcad alone loads none of SciPy's."""
    code = """
import sys, numpy as np, funcad
ours = lambda: {m for m in sys.modules if m.startswith("funcad.scipy.") and m != "funcad.scipy.door"}
assert not ours()
funcad.config.doors = DOORS
import scipy.special
assert not DOORS or {"funcad.scipy.special.special_ufuncs", "funcad.scipy.special.softmaxes"} <= ours()
assert DOORS or not ours()
before = set(sys.modules)
print(funcad.grad(lambda x: scipy.special.logsumexp(x) + scipy.special.exprel(x[0]))(np.zeros(2)).tolist())
print(bool([m for m in set(sys.modules) - before if m.startswith("funcad.scipy.")]))
"""
    assert fresh(code.replace("DOORS", "True")).split("\n") == ["[1.0, 0.5]", "False"]
    alone = code.replace("DOORS", "False").replace("scipy.special.logsumexp(x)", "x[0] + x[1]")
    assert fresh(alone).split("\n") == ["[1.5, 1.0]", "True"]


@pytest.mark.slow
def test_functions_in_python_keep_what_they_were():
    code = """
import inspect, pickle, scipy.linalg, scipy.special, scipy.stats, scipy.signal, numpy as np
fs = [scipy.linalg.expm, scipy.special.logsumexp, scipy.signal.welch, scipy.stats.rv_continuous.logpdf, np.full]
fs.append(scipy.stats.sem)
def look(f):
    return str(inspect.signature(f)), inspect.getsource(f), f.__doc__, f.__defaults__, f.__qualname__, pickle.dumps(f)
def seen():
    return list(map(look, fs))
before, codes = seen(), [f.__code__ for f in fs]
import funcad
funcad.grad(lambda x: x * x)(1.0)
assert seen() == before
assert all(f.__code__ is not c for f, c in zip(fs, codes))
funcad.config.doors = False
funcad.grad(lambda x: x * x)(1.0)
assert seen() == before and [f.__code__ for f in fs] == codes and "__wrapped__" not in vars(scipy.linalg.expm)
"""
    fresh(code)


def test_warnings_name_the_callers_line():
    funcad.grad(lambda x: x * x)(1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scipy.linalg.solve(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-17 + 2e-16]]), np.ones(2))
    theirs = scipy._lib._util.__file__ if OLD else __file__  # without funcad, too
    assert [w.filename for w in caught] == [theirs]


def test_doors_can_be_switched_off_and_on():
    f = funcad.grad(lambda x: np.array([x, 1.0]).sum())
    try:
        funcad.config.doors = False
        for g in (lambda x: np.array([x, 1.0]).sum(), math.sin, scipy.special.logsumexp, lambda x: np.full(2, x).sum()):
            with pytest.raises(TracerArrayConversionError):
                funcad.grad(g)(1.0)
        assert inside(all_original)
        assert not [f for f in sys.meta_path if type(f).__name__ == "_Arrivals"]
    finally:
        funcad.config.doors = True
    assert f(1.0) == 1.0 and funcad.grad(scipy.special.logsumexp)(np.zeros(1)) == 1.0
    with funcad.config.set(doors=False), pytest.raises(TracerArrayConversionError):
        f(1.0)
    assert f(1.0) == 1.0


def test_names_set_by_others_are_theirs(monkeypatch):
    def f(x):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "asarray", lambda v: v * 3.0)
            y = np.asarray(x)
        return y + np.asarray(x)

    assert funcad.grad(f)(1.0) == 4.0
    monkeypatch.setattr(math, "sin", lambda v: v * 5.0)
    assert funcad.grad(lambda x: math.sin(x))(1.0) == 5.0
    monkeypatch.undo()
    assert all_original() and "asarray" in vars(np)


def test_a_child_process_after_a_fork():
    code = """
import os, threading, numpy as np, funcad
inside, go = threading.Event(), threading.Event()
def f(x):
    inside.set()
    go.wait(10)
    return np.array([x]).sum()
thread = threading.Thread(target=lambda: funcad.grad(f)(1.0))
thread.start()
inside.wait(10)
child = os.fork()
if not child:
    ok = funcad.grad(lambda x: np.array([x, x]).sum())(1.0) == 2.0 and type(np.array) is type(len)
    os._exit(0 if ok else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go.set()
"""
    if hasattr(os, "fork"):
        assert fresh(f"import warnings; warnings.simplefilter('ignore')\n{code}") == "0"


@pytest.mark.slow
def test_namespaces_of_arrays_in_scipy():
    """With SCIPY_ARRAY_API=1 SciPy asks arrays for their namespace: traced values have one, and doors are there besides."""
    code = """
import numpy as np, math, funcad, scipy.special, scipy.stats, scipy.linalg, scipy.signal, scipy.integrate
x = np.array([0.3, 1.2, 0.7])
for f in (scipy.special.logsumexp, lambda x: scipy.special.softmax(x)[0], lambda x: scipy.stats.norm.logpdf(x).sum(),
          lambda x: scipy.linalg.expm(np.diag(x)).sum(), lambda x: scipy.signal.fftconvolve(x, x).sum(),
          lambda x: scipy.integrate.simpson(np.array([x[0], 1.0, x[1] * x[2]]))):
    slopes = [(f(x + 1e-5 * e) - f(x - 1e-5 * e)) / 2e-5 for e in np.eye(3)]
    np.testing.assert_allclose(funcad.grad(f)(x), slopes, rtol=1e-5)
    np.testing.assert_allclose(funcad.jit(funcad.grad(f))(x), slopes, rtol=1e-5)
"""
    fresh(code, SCIPY_ARRAY_API="1")


OLD = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
OF_NUMBERS = {  # what funcad.scipy has, of arguments that are no arrays
    *("dft", "hadamard", "helmert", "hilbert", "invhilbert", "invpascal", "pascal", "choose_conv_method", "correlation_lags"),
    *("get_window", "fftfreq", "rfftfreq", "bernoulli", "sinc"),  # which is NumPy's
}


@pytest.mark.parametrize(
    "name", ["fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "special", "stats"]
)
def test_the_table_has_what_funcad_has(name):
    theirs, ours = importlib.import_module(f"scipy.{name}"), importlib.import_module(f"funcad.scipy.{name}")
    missing = [
        n
        for n in dir(ours)
        if n[0] != "_" and python_function(getattr(theirs, n, None)) is not None and n not in IN_CODE[f"scipy.{name}"]
    ]
    assert set(missing) <= OF_NUMBERS


@pytest.mark.parametrize("module", IN_CODE)
def test_the_table_names_what_exists(module):
    found = pytest.importorskip(module)
    inside(lambda: None)  # doors are hung: methods that are compiled have functions in their place
    for path, answer in IN_CODE[module].items():
        if OLD and path.startswith(("Rotation.", "Slerp.", "expand_dims", "permute_dims", "swapaxes")):
            continue  # compiled there, so they have doors by name; or not there
        assert python_function(find(found, path.split("."))) is not None, path
        if answer is by_name:
            assert callable(find(funcad, f"{module}.{path}".split("."))), path


def test_the_variables_of_a_doors_frame_can_be_read() -> None:
    """A debugger and pytest read them; a door of a function with a closure has its cells too."""
    from scipy.linalg import get_lapack_funcs

    with pytest.raises(ValueError, match="could not be found") as raised:
        funcad.grad(lambda x: get_lapack_funcs(("nosuch",), (x,)))(np.ones(2))
    frames = [entry.frame.raw.f_locals for entry in raised.traceback]
    assert any("_kwargs" in variables for variables in frames)


def test_an_estimate_of_a_density_is_at_hand_in_a_new_process() -> None:
    """Whatever of funcad's modules has been loaded."""
    code = """
import numpy as np, scipy.stats, funcad
x, h = np.array([0.1, 0.2]), 1e-6
f = lambda x: np.sum(scipy.stats.gaussian_kde(np.linspace(-1, 1, 8))(x))
print(np.allclose(funcad.grad(f)(x).sum(), (f(x + h) - f(x - h)) / (2 * h), rtol=1e-5))
"""
    assert in_a_process(code).strip() == "True"


OF_LISTS = """
import numpy as np
from funcad import grad, jit, vmap

for name in {names!r}:
    given = "[x, x], [2.0, x]" if getattr(np, name).nin == 2 else "[x, x]"
    space = dict(np=np)
    exec(f"def f(x): return np.sum(np.{{name}}({{given}}))", space)  # which has no source
    f, of = space["f"], getattr(np, name)
    slope = (f(0.5 + 1e-6) - f(0.5 - 1e-6)) / 2e-6
    for way in (grad(f), jit(grad(f)), grad(jit(f)), lambda x: vmap(grad(f))(np.array([x]))[0]):
        np.testing.assert_allclose(way(0.5), slope, rtol=1e-5, err_msg=name)
    assert getattr(np, name) is of
"""


def test_lists_of_traced_numbers_for_ufuncs_by_each_of_their_names() -> None:
    names = "abs absolute acos asin asinh atan atan2 atanh conj mod pow true_divide exp sin hypot".split()
    in_a_process(OF_LISTS.format(names=names))


def test_sorted_lists_of_traced_numbers() -> None:
    for f in (lambda x: np.sort([x, 0.1])[1] * x, lambda x: np.partition([x, 0.1], 0)[1] * x):
        np.testing.assert_allclose(funcad.grad(f)(0.5), 1.0)
        np.testing.assert_allclose(funcad.jit(funcad.grad(f))(0.5), 1.0)
