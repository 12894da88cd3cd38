"""Functions of NumPy's and SciPy's by their own code: values, derivatives and refusals."""

from __future__ import annotations

import concurrent.futures as pool
import functools
import importlib
import linecache
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest
import scipy
from scipy import interpolate, ndimage, optimize, signal, special, stats

import funcad
from funcad import errors, grad, jit, vmap
from funcad.lifting import own_answers
from funcad.lifting.own_code import current, lifted
from funcad.numpy.dispatch import whole_table
from tests.lifting.own_code_calls import CALLS, NOT_COMPILED, NOT_MAPPED, Call, all_calls

ALL = all_calls()
X = np.random.default_rng(1).normal(size=20)
ids = [call.name for call in ALL]


def differences(call: Call, step: np.ndarray) -> tuple[float, float]:
    """The derivative along a step by central differences, and how far two of them are apart."""
    x = call.value
    near, far = [(call.of(x + k * step) - call.of(x - k * step)) / (2 * k) for k in (1, 2)]
    return near, abs(near - far)


@pytest.fixture(autouse=True)
def _calm() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", errors.UncertifiedDerivativeWarning)
        yield


@pytest.mark.share(4)
@pytest.mark.parametrize("call", ALL, ids=ids)
def test_value_and_derivative(call: Call) -> None:
    x = call.value
    step = np.random.default_rng(2).normal(size=np.shape(x)) * 1e-6 * max(1.0, np.max(np.abs(x)))
    value, slope = funcad.value_and_grad(call.of)(x)
    expected, apart = differences(call, step)
    assert value == pytest.approx(call.of(x), rel=1e-12, abs=1e-12)
    assert np.sum(slope * step) == pytest.approx(expected, rel=1e-5, abs=2 * apart + 1e-11)


@pytest.mark.share(14)
@pytest.mark.parametrize("call", [c for c in ALL if c.name.rpartition(".")[2] not in NOT_COMPILED], ids=lambda c: c.name)
def test_jit(call: Call) -> None:
    x, compiled = call.value, jit(call.of)
    expected, slope = call.of(x), grad(call.of)(x)
    for _ in range(2):
        assert compiled(x) == pytest.approx(expected, rel=1e-10, abs=1e-10)
    assert np.allclose(jit(grad(call.of))(x), slope, rtol=1e-8, atol=1e-10)


@pytest.mark.share(8)
@pytest.mark.parametrize("call", [c for c in ALL if c.name.rpartition(".")[2] not in NOT_MAPPED], ids=lambda c: c.name)
def test_vmap(call: Call) -> None:
    x = call.value
    two = np.stack([x, x * 1.01])
    assert np.allclose(vmap(call.of)(two), [call.of(v) for v in two], rtol=1e-10, atol=1e-10)


@pytest.mark.share(8)
@pytest.mark.parametrize("call", ALL, ids=ids)
def test_second_order(call: Call) -> None:
    x = call.value
    step = np.random.default_rng(3).normal(size=np.shape(x))
    step = step * 1e-6 * max(1.0, np.max(np.abs(x)))
    along = lambda v: np.sum(grad(call.of)(v) * step)
    expected = (along(x + step) - along(x - step)) / 2
    assert np.sum(grad(along)(x) * step) == pytest.approx(expected, rel=1e-4, abs=1e-16)


def test_the_table_is_that_of_the_calls() -> None:
    named = {(m, line.strip().partition("(")[0]) for m, lines in CALLS.items() for line in lines.strip().split("\n")}
    table = {(m, name) for m, names in own_answers.CERTIFIED.items() for name in names.split()}
    assert table == named
    assert all(getattr(importlib.import_module(m), name, None) not in whole_table() for m, name in named)


def test_versions_that_were_compared() -> None:
    """The suite runs on the versions that the table names."""
    for module in (np, scipy):
        assert ".".join(module.__version__.split(".")[:2]) in own_answers.VERSIONS[module.__name__]


def test_others_warn_once_when_they_are_differentiated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(own_answers.CERTIFIED, "scipy.stats", "")
    own_answers.is_certified.cache_clear()
    own_answers._warned.clear()
    f = lambda x: stats.skew(x)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            jit(f)(X)
            vmap(f)(np.stack([X, X]))
            assert caught == []
            grad(f)(X)
            grad(f)(X)
            jit(grad(f))(X)
        (warning,) = caught
        assert warning.category is funcad.UncertifiedDerivativeWarning
        assert "scipy.stats.skew of scipy" in str(warning.message) and scipy.__version__ in str(warning.message)
        assert warning.filename == __file__
        own_answers._warned.clear()
        with pytest.warns(funcad.UncertifiedDerivativeWarning, match=r"scipy\.stats\.skew"):
            grad(jit(f))(X)
    finally:
        own_answers.is_certified.cache_clear()
        own_answers._warned.clear()


def test_the_public_name_goes_by_the_same_code() -> None:
    ours = funcad.scipy.stats.gmean
    p = np.exp(X)
    assert ours(p) == stats.gmean(p)
    assert np.array_equal(grad(ours)(p), grad(stats.gmean)(p))


def test_it_is_the_installed_code_in_memory() -> None:
    f = funcad.host.where.tracing.own_code
    run = lifted(signal.wiener)
    assert run.__code__ is f(signal.wiener) and run.__globals__ is not signal.wiener.__globals__


def test_a_patched_function_is_lifted_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("scipy.optimize._optimize")

    def rosen(x):
        return np.sum(x**4)

    before = grad(lambda x: funcad.scipy.optimize.rosen(x))(np.ones(3))
    own = module.rosen
    monkeypatch.setattr(own, "__code__", rosen.__code__)
    assert np.allclose(current(own)(np.array([1.0, 2.0])), 17.0)
    assert not np.allclose(before, 4.0)


def test_a_patched_helper_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("scipy.special._basic")
    run = current(module.diric)
    before = run(0.3, 5)
    monkeypatch.setattr(module, "sin", np.cos)
    assert current(module.diric)(0.3, 5) != before
    monkeypatch.undo()
    assert current(module.diric)(0.3, 5) == before


def test_a_store_to_a_global_is_refused() -> None:
    source = types.ModuleType("scipy.made_up")
    exec("import numpy as np\nlast = 0\ndef f(x):\n    global last\n    last = x\n    return np.sum(x)\n", source.__dict__)
    with pytest.raises(errors.TracerArrayConversionError, match=r"stores into scipy\.made_up\.last"):
        grad(current(source.f))(X)
    assert source.last == 0
    exec("import scipy.stats as s\ndef g(x):\n    s.last = x\n    return np.sum(x)\n", source.__dict__)
    with pytest.raises(errors.TracerArrayConversionError, match=r"stores into scipy\.stats\.last"):
        grad(current(source.g))(X)


def test_iteration_to_convergence_is_refused_and_its_remedy_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    source = types.ModuleType("scipy.made_up")
    text = "def root(x):\n    y = 1.0\n    while abs(y * y - x) > 1e-12:\n        y = (y + x / y) / 2\n    return y\n"
    exec(text, source.__dict__)
    assert current(source.root)(2.0) == pytest.approx(2**0.5)
    with pytest.raises(errors.TracerArrayConversionError, match="funcad.custom_root"):
        grad(current(source.root))(2.0)
    for other in ("def root(x):\n", "def other(x):\n    return x\n", "x = 1\n"):  # another source under its file's name
        monkeypatch.setitem(linecache.cache, f"<{other}>", (len(other), None, other.splitlines(True), f"<{other}>"))
        exec(compile(text, f"<{other}>", "exec"), source.__dict__)
        with pytest.raises(errors.TracerArrayConversionError, match="funcad.custom_root"):
            grad(current(source.root))(2.0)
    solve = lambda f, y0: source.root(funcad.stop_gradient(y0))
    exact = lambda x: funcad.custom_root(lambda y: y * y - x, 1.4, lambda f, y0: 2**0.5, lambda g, y: y / g(1.0))
    assert grad(exact)(2.0) == pytest.approx(0.5 / 2**0.5)
    assert solve(None, 2.0) == pytest.approx(2**0.5)


def test_compiled_code_is_named_and_the_remedies_run() -> None:
    warnings.simplefilter("ignore", errors.UncertifiedDerivativeWarning)
    f = lambda x: signal.symiirorder1(x, 1.0, 0.1)[3]
    with pytest.raises(errors.TracerArrayConversionError, match=r"scipy\.signal\.symiirorder1_ic is compiled code") as caught:
        grad(f)(X)
    assert any("scipy.signal.symiirorder1 runs by its own code" in note for note in caught.value.__notes__)
    plain = lambda x: np.sum(x) * f(funcad.stop_gradient(x))
    assert np.allclose(grad(plain)(X), f(X))

    @funcad.custom_jvp
    def smooth(x):
        return funcad.pure_callback(lambda v: np.asarray(f(v)), np.zeros(()), x)

    smooth.defjvp(lambda primals, tangents: (smooth(*primals), np.sum(tangents[0])))
    assert np.allclose(jit(grad(smooth))(X), 1.0)


def test_plain_arrays_beside_traced_ones_answer_with_their_methods() -> None:
    weights = np.linspace(1.0, 2.0, 20)
    f = lambda x: stats.wasserstein_distance(weights, x)
    step = 1e-6 * np.cos(np.arange(20.0))
    assert np.sum(grad(f)(X) * step) == pytest.approx((f(X + step) - f(X - step)) / 2, rel=1e-5)
    assert np.array_equal(weights, np.linspace(1.0, 2.0, 20))


def test_warnings_name_the_users_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        grad(lambda x: stats.skew(x[:0]) + x.sum())(X)
    assert [w.filename for w in caught if "too small" in str(w.message)] == [__file__]


def test_programs_say_so() -> None:
    assert "scipy.optimize.rosen by its own code" in str(jit(lambda x: optimize.rosen(x)).explain(X))


@pytest.mark.share(3)
@pytest.mark.parametrize("kind", ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"])
def test_classes_of_polynomials(kind: str) -> None:
    make, c = getattr(np.polynomial, kind), np.array([1.1, 2.0, 0.6])
    programs = {
        "value": lambda c: make(c)(0.3),
        "product": lambda c: (make(c) * make(c[::-1]) + 1.0)(0.5),
        "derivative": lambda c: make(c).deriv()(2.0),
        "integral": lambda c: make(c, domain=[0, 2]).integ(lbnd=0.1)(1.5),
        "fit": lambda c: np.sum(make.fit(X, np.sin(X) * c[0] + c[1], 2)(X) ** 2),
        "roots": lambda c: np.sum(np.abs(make(c).roots())),
        "quotient": lambda c: (make(c) // make([1.0, 2.0]))(0.4),
        "points": lambda x: np.sum(make([0.5, -1.0, 2.0])(x)),
    }
    step = np.array([3e-6, -1e-6, 2e-6])
    for name, f in programs.items():
        expected = (f(c + step) - f(c - step)) / 2
        for g in (grad(f), jit(grad(f))):
            assert np.sum(g(c) * step) == pytest.approx(expected, rel=1e-5, abs=1e-12), name
    assert type(jit(lambda c: make(c).coef)(c)) is np.ndarray


def test_objects_that_come_back_are_the_librarys() -> None:
    kept = []
    grad(lambda c: kept.append(interpolate.lagrange(X[:3], c)) or c.sum())(X[:3])
    assert type(kept[0]) is np.poly1d


def test_threads_and_exceptions_leave_nothing_behind() -> None:
    f = lambda x: special.diric(x, 5).sum()
    with pytest.raises(ZeroDivisionError):
        grad(lambda x: f(x) + 1 / 0)(X)
    with funcad.debug_nans():
        assert np.isfinite(grad(f)(X)).all()
    with pool.ThreadPoolExecutor(4) as workers:
        for found in workers.map(functools.partial(grad(f)), [X] * 8):
            assert np.array_equal(found, grad(f)(X))


def test_a_function_of_two_modules_has_the_packages_name() -> None:
    """`scipy.stats.mstats` has some of scipy.stats' functions, and is there first where a trace came before the import."""
    text = "import funcad as fc; fc.grad(lambda x: x * x)(1.0)\nfrom scipy import stats; import numpy as np\n"
    text += "print(fc.grad(stats.gmean)(np.array([1.0, 4.0])).tolist())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", text], capture_output=True, text=True)
    assert done.stdout == "[1.0, 0.25]\n", done.stderr


IMAGE = np.array([[0.3, 1.2, -0.4], [0.8, -0.9, 0.2], [1.5, 0.6, 0.1]])
OUTPUTS = {
    "an array that the function makes": lambda x, o: ndimage.grey_erosion(x, 2, output=o),
    "by the user's function": lambda x, o: ndimage.generic_filter(x, np.sum, 2, output=o),
    "an array that holds a traced value": lambda x, o: (o.__setitem__((0, 0), x[0, 0]), ndimage.black_tophat(x, 2, output=o)),
    "the input itself": lambda x, o: (np.copyto(o, x), ndimage.grey_dilation(o, 2, output=o)),
    "lines": lambda x, o: ndimage.maximum_filter1d(x, 2, output=o),
}


@pytest.mark.parametrize("write", OUTPUTS.values(), ids=OUTPUTS)
def test_what_a_lifted_function_writes_is_there(write) -> None:
    warnings.simplefilter("ignore", errors.UncertifiedDerivativeWarning)

    def f(x):
        o = np.zeros((3, 3))
        write(x, o)
        return np.sum(np.sin(o) * IMAGE)

    along = np.cos(np.arange(9.0)).reshape(3, 3)
    slope = (f(IMAGE + 1e-6 * along) - f(IMAGE - 1e-6 * along)) / 2e-6
    jitted = jit(grad(f))
    for derivative in (grad(f), jitted, jitted, lambda x: vmap(grad(f))(np.stack([x, x]))[1]):
        assert np.sum(derivative(IMAGE) * along) == pytest.approx(slope, rel=1e-6)


def test_a_plain_array_that_a_lifted_function_writes_is_named() -> None:
    warnings.simplefilter("ignore", errors.UncertifiedDerivativeWarning)
    outside = np.zeros((3, 3))
    with pytest.raises(errors.BufferNeeded, match=r"grey_erosion writes a traced value.*plain NumPy array"):
        grad(lambda x: np.sum(ndimage.grey_erosion(x, 2, output=outside)))(IMAGE)
    assert not outside.any()


PEAKS = [
    {"height": (-1.0, 2.0)},
    {"threshold": (None, 3.0), "distance": 2, "height": -3.0},
    {"prominence": (0.2, None), "wlen": 9, "rel_height": 0.7, "width": 0.5},
    {"plateau_size": 1},
]


@pytest.mark.parametrize("options", PEAKS, ids=["_".join(options) for options in PEAKS])
def test_peaks_that_properties_choose(options) -> None:
    """SciPy combines masks in place, `keep &= height <= properties`, which inside a program are traced."""
    warnings.simplefilter("ignore", errors.UncertifiedDerivativeWarning)
    signal_of = np.cumsum(np.cos(7.0 * np.arange(30.0) ** 1.3))

    def f(x):
        peaks, found = signal.find_peaks(x, **options)
        return np.sum(np.sin(x[peaks])) + sum(np.sum(found[name] * 0.3) for name in sorted(found))

    along = np.sin(np.arange(30.0))
    slope = (f(signal_of + 1e-6 * along) - f(signal_of - 1e-6 * along)) / 2e-6
    jitted = jit(grad(f)) if len(options) == 1 else grad(f)  # which peaks several properties leave no program can say
    mapped = lambda x: vmap(grad(f))(np.stack([x, x]))[1]
    for derivative in (grad(f), jitted, jitted, jitted, mapped, grad(f)):
        assert np.sum(derivative(signal_of) * along) == pytest.approx(slope, rel=1e-5)


LAID_OUT = {
    "turned": lambda x: x[::-1],
    "column": lambda x: np.stack([x, x], 1)[:, 0],
    "filtered": lambda x: signal.filtfilt([0.6, 0.4], [1.0, -0.1], x),
}


@pytest.mark.parametrize("laid_out", LAID_OUT.values(), ids=LAID_OUT)
def test_peaks_of_what_is_not_contiguous(laid_out) -> None:
    warnings.simplefilter("ignore", errors.UncertifiedDerivativeWarning)
    x = np.cumsum(np.cos(7.0 * np.arange(30.0) ** 1.3))

    def f(x):
        x = laid_out(x)
        peaks = signal.find_peaks(x)[0]
        return np.sum(x[peaks]) + np.sum(signal.peak_widths(x, peaks)[0]) + np.sum(signal.peak_prominences(x, peaks)[0])

    slope, along = grad(f)(x), np.sin(np.arange(30.0))
    assert np.sum(slope * along) == pytest.approx((f(x + 1e-6 * along) - f(x - 1e-6 * along)) / 2e-6, rel=1e-5)
    assert funcad.jvp(f, (x,), (along,))[1] == pytest.approx(np.sum(slope * along))
    mapped = vmap(f)
    for way in (jit(f), lambda x: mapped(np.stack([x, x]))[1]):
        assert [way(x) for _ in range(3)] == pytest.approx([f(x)] * 3)
    jitted = jit(grad(f))
    for derivative in (jitted, jitted, jitted, lambda x: vmap(grad(f))(np.stack([x, x]))[1]):
        np.testing.assert_allclose(derivative(x), slope, rtol=1e-9, atol=1e-12)
