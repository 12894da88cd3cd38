"""A new size of a jitted function's arguments: the same answers as ever, and nothing compiled where only sizes differ."""

import itertools
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import funcad as fc
from funcad.backends import sizes
from funcad.backends.emission import Generated
from funcad.backends.engines import made
from funcad.backends.interpreter import counters
from tests.agreement import places_of

pytestmark = pytest.mark.share(2)  # of its tables of cases

ENGINES = ["numpy", "auto"]
SIZES = [40, 50, 33, 45, 21, 12, 64, 63, 65, 7, 10, 11, 128, 100, 3, 2, 1, 0, 250, 350, 450, 150, 48, 5, 31, 16, 17]
W = np.linspace(-1.0, 1.0, 640).reshape(64, 10)


def mlp(x):
    hidden = np.tanh(x @ W[: x.shape[1]] + 0.5)
    return np.mean((hidden @ W[:10] - 1.0) ** 2) if x.shape[0] else 0.0 * np.sum(x)


def slices(x):
    return np.sum((x[1:] - x[:-1]) ** 2) + np.sum(x[::2] * 3.0) + np.sum(x[-3:]) + np.sum(x[: x.shape[0] // 2])


def scaled(x):
    n = x.shape[0]
    return np.sum(x) * (1.0 / (n + 1)) + np.sum(x * x) * math.log2(n + 1) + np.sum(np.sin(x)) * (n // 100)


def softmax(x):
    e = np.exp(x - 1.0)
    return np.sum(e / (1.0 + np.sum(e, axis=0)) * np.arange(x.shape[1]))


def counted(x):
    n = x.shape[0]
    return np.sum(x * np.arange(n)[:, None]) + np.sum(np.where(np.arange(n) < n // 3, x[:, 0], 0.5)) * n


def reshaped(x):
    n = x.shape[0] // 2 * 2
    return np.sum(np.sum(x[:n].reshape(n // 2, 2, x.shape[1]), axis=1) ** 3)


def products(x):
    gram = x @ x.T
    return np.sum(np.tril(gram)) + np.sum(x.T @ x + x.shape[0] * np.eye(x.shape[1])) + np.sum(np.diagonal(gram))


def beside(x):
    """n meets an equal extent by chance."""
    y = np.linspace(0.0, 1.0, 12)
    return np.sum(np.cos(x[:, :1] * y[None, :])) + np.sum(y) * x.shape[0]


def joined(x):
    n = x.shape[0]
    return np.sum(np.cumsum(np.concatenate([x, 2.0 * x, np.ones((n, x.shape[1]))]), axis=0) / (3 * n + 1))


def rolled(x):
    return np.sum(np.roll(x, x.shape[0] // 2, axis=0) * x) + np.sum(np.sort(x, axis=0)[: x.shape[0] // 3])


def scanned(x):
    return fc.scan(lambda c, row: (c * 0.5 + np.sum(row), c), 1.0, x)[0]


def looped(x):
    total = 0.0
    for i in range(min(x.shape[0], 6)):
        total = total + x[i, 0] * i
    return total + np.sum(x)


def solved(x):
    return np.sum(np.linalg.solve(x.T @ x + (x.shape[0] + 1.0) * np.eye(x.shape[1]), x.T @ np.ones(x.shape[0])))


def single(x):
    y = x.astype(np.float32)
    return np.sum(y / (x.shape[0] + 1) - np.float32(0.1) * y)


def spread(x):
    return np.sum(np.broadcast_to(np.sum(x, axis=0), x.shape) * x) + np.sum(np.pad(x, ((1, 2), (0, 0))) ** 2)


def taken(x):
    rows = np.arange(10) % max(x.shape[0], 1)
    return np.sum(np.take(np.concatenate([x, x[:0]]), rows, axis=0)) if x.shape[0] else np.sum(x)


PROGRAMS = [mlp, slices, scaled, softmax, counted, reshaped, products, beside, joined, rolled, scanned, looped, solved, single]
PROGRAMS += [spread, taken]


def arrays(n, columns=64):
    return np.sin(np.arange(n * columns, dtype=float)).reshape(n, columns)


def same(found, expected, narrow):
    for a, b in zip(fc.tree.leaves(found), fc.tree.leaves(expected)):
        np.testing.assert_allclose(a, b, rtol=2e-4 if narrow else 1e-9, atol=1e-3 if narrow else 1e-9)
        assert np.shape(a) == np.shape(b)


@pytest.mark.share(4)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_every_size_gives_what_the_function_gives(f, engine):
    columns = 4 if f in (solved, scanned, looped, beside, products) else 64
    both = fc.jit(lambda x: (f(x), fc.grad(f)(x)))
    with fc.config.set(engine=engine):
        for n in (SIZES[:12] if f in (solved, scanned, looped) else SIZES)[:: 1 + 2 * (engine == "numpy")]:
            x = arrays(n, columns)
            expected = f(x), fc.grad(f)(x)
            for _ in range(3):
                same(both(x), expected, f is single)


PIECES = {
    "affine": lambda x: x * 0.5 + 1.0,
    "tanh": np.tanh,
    "mean": lambda x: x - np.mean(x, axis=0),
    "reversed": lambda x: x[::-1] * x,
    "shifted": lambda x: np.concatenate([x[1:], x[:1]]),
    "half": lambda x: x[: (x.shape[0] + 1) // 2],
    "doubled": lambda x: np.concatenate([x, x], axis=0),
    "counted": lambda x: x + np.arange(x.shape[0])[:, None] / (x.shape[0] + 1),
    "masked": lambda x: np.where(np.arange(x.shape[0])[:, None] % 3 == 0, x, -x),
    "gram": lambda x: (x @ x.T) @ x / (1.0 + x.shape[0]),
    "flat": lambda x: (x.reshape(-1) * 2.0).reshape(x.shape),
    "scaled": lambda x: x * math.sqrt(x.shape[0]),
    "summed": lambda x: x + np.cumsum(x, axis=0) / (x.shape[0] + 1),
    "largest": lambda x: x / (1.0 + np.max(np.abs(x), axis=0)),
    "picked": lambda x: x + x[min(x.shape[0] - 1, 4)],
}


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", [*range(8), *[pytest.param(n, marks=pytest.mark.slow) for n in range(8, 24)]])
def test_random_programs_of_random_sizes(seed):
    rng = np.random.default_rng(seed)
    chosen = [PIECES[name] for name in rng.choice(list(PIECES), 4)]

    def f(x):
        for piece in chosen:
            x = piece(x)
        return np.sum(x)

    both = fc.jit(lambda x: (f(x), fc.grad(f)(x)))
    with fc.config.set(engine=ENGINES[seed % 2]):
        for n in [*rng.integers(9, 90, 8), 1, 2, 3, 4, 8, 16, 32, 64]:
            x = rng.normal(size=(n, 3))
            expected = f(x), fc.grad(f)(x)
            for _ in range(2):
                same(both(x), expected, False)


def compiled_by(f, *ns, columns=64):
    """How many programs a function compiles for these sizes, called three times each."""
    before, traced = made["compiled"], counters["traces"]
    for n in ns:
        for _ in range(3):
            f(arrays(n, columns))
    assert counters["traces"] - traced == len(ns)
    return made["compiled"] - before


@pytest.mark.parametrize("engine", ENGINES)
def test_a_new_size_compiles_nothing(engine):
    step = fc.jit(fc.value_and_grad(mlp))
    with fc.config.set(engine=engine):
        first = 3 if engine == "numpy" else compiled_by(step, 40)  # native code of the first is no text to learn from
        assert compiled_by(step, *([40] if engine == "numpy" else []), 50, 33, *([] if engine == "numpy" else [35])) == 3
        assert first in (1, 3)
        assert compiled_by(step, 45, 21, 39, 11 * 5) == 0
        assert compiled_by(step, 64) == 1  # equal to another extent
        assert compiled_by(step, 1) == 1
        assert compiled_by(step, 44, 38) == 0
        assert compiled_by(step, 300) == 1  # on the other side of 64


DERIVED = {
    "grad": (fc.grad, lambda f: f, mlp),
    "jvp": (lambda f: lambda x: fc.jvp(f, (x,), (x,))[1], lambda f: lambda x: fc.jvp(f, (x,), (x,))[1], mlp),
    "vmap": (fc.vmap, fc.vmap, lambda row: np.sum(np.tanh(row @ W[: row.shape[0]] + 0.5) ** 2)),
    "vmap of grad": (lambda f: fc.vmap(fc.grad(f)), fc.vmap, lambda row: np.sum(np.tanh(row @ W[: row.shape[0]] + 0.5) ** 2)),
    "grad of a scan": (fc.grad, lambda f: f, scanned),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", DERIVED)
def test_programs_derived_from_a_jitted_one_compile_nothing_for_a_new_size(kind, engine):
    transform, around, f = DERIVED[kind]
    inside = fc.grad(f) if kind == "vmap of grad" else f
    transformed, plain = around(fc.jit(inside)) if around is fc.vmap else transform(fc.jit(f)), transform(f)
    with fc.config.set(engine=engine):
        for n in (40, 50, 33, 45, 35):
            for _ in range(4):
                transformed(arrays(n))
        expected = {n: plain(arrays(n)) for n in (37, 49, 44)}
        before = made["compiled"]
        for n in expected:
            for _ in range(4):
                same(transformed(arrays(n)), expected[n], False)
        assert made["compiled"] == before


@pytest.mark.share(4)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("f", [mlp, slices, scaled, reshaped, joined, rolled, taken], ids=lambda f: f.__name__)
def test_derived_programs_of_every_size(f, engine):
    jitted, pushed = fc.jit(f), lambda g, x: fc.jvp(g, (x,), (np.cos(x),))[1]
    with fc.config.set(engine=engine):
        for n in SIZES[:18]:
            x = arrays(n)
            expected = fc.grad(f)(x), pushed(f, x)
            for _ in range(3):
                same((fc.grad(jitted)(x), pushed(jitted, x)), expected, False)


@pytest.mark.parametrize("count", [lambda n: math.log2(n), lambda n: 1.0 / n, lambda n: n // 7, lambda n: n * n, float])
def test_literals_are_those_of_the_size(count):
    f = fc.jit(lambda x: np.sum(np.tanh(x) * count(x.shape[0])))
    with fc.config.set(engine="numpy"):
        for n in (80, 85, 91, 100, 101, 120, 77):
            for _ in range(3):
                np.testing.assert_allclose(f(arrays(n, 3)), np.sum(np.tanh(arrays(n, 3)) * count(n)), rtol=1e-12)


EXPONENTS = [[3, 3, 3, 3], [5, 7, 9, 11], [101, 103, 105, 107], [0.3, 0.7, 0.2, 0.9], [3.5, 4.5, 5.5, 6.5]]


@pytest.mark.parametrize("known", EXPONENTS)
def test_exponents_decide_on_operations(known):
    def f(x, k):
        return np.sum(x**k), np.sum((-x) ** int(k)), fc.grad(lambda x: np.sum(x**k))(x)

    jitted = fc.jit(f, static_argnums=1)
    with fc.config.set(engine="numpy"):
        for n, k in [*zip((30, 40, 50, 60), known), *itertools.product((45, 55), (3, 4, 5, 6, 104, 0.5, 1.5, 3.0, 4.0, -2, 1))]:
            x = np.linspace(0.9, 1.1, n)
            for _ in range(3):
                for a, b in zip(jitted(x, k), f(x, k)):
                    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_divisions_keep_their_bits():
    f = fc.jit(lambda x: x / x.shape[0] + np.sin(x))
    with fc.config.set(engine="numpy"):
        for n in (16, 32, 64, 128, 17, 33, 49, 100, 256, 77):
            x = np.linspace(0.1, 7.7, n)
            for _ in range(3):
                np.testing.assert_array_equal(f(x) - np.sin(x), x / n + np.sin(x) - np.sin(x))


def test_an_index_that_is_out_of_bounds_in_a_small_array_raises_there():
    f = fc.jit(lambda x, i: x[np.arange(10) + i][0] * np.sum(x))
    with fc.config.set(engine="numpy"):
        for n in (30, 40, 50, 60):
            for _ in range(3):
                np.testing.assert_allclose(f(arrays(n, 2), 1), arrays(n, 2)[1] * np.sum(arrays(n, 2)))
        for _ in range(3):
            with pytest.raises(IndexError):
                f(arrays(5, 2), 1)


def test_taken_over_programs_are_explained_donated_and_named_in_errors():
    f = fc.jit(lambda x: np.sum(np.exp(x) * x.shape[0], axis=0), donate_argnums=0)
    g = fc.jit(lambda x: np.linalg.cholesky(x @ x.T - 1e9 * np.eye(x.shape[0])))
    with fc.config.set(engine="numpy"):
        for n in (30, 40, 50, 60, 70):
            for _ in range(3):
                np.testing.assert_allclose(f(arrays(n, 3)), np.sum(np.exp(arrays(n, 3)) * n, axis=0))
                with pytest.raises(np.linalg.LinAlgError) as info:
                    g(arrays(n, 3))
                assert __file__ in places_of(info.value)
        assert f.explain(arrays(60, 3)).engine == "numpy"
        assert f.profile(arrays(70, 3)).seconds > 0
        f.clear_cache()
        np.testing.assert_allclose(f(arrays(60, 3)), np.sum(np.exp(arrays(60, 3)) * 60, axis=0))


# ---------------------------------------------------------------- the laws


def generated(text, **scope):
    text = f"def run(values):\n    return {text}"
    exec(text, scope)
    return Generated(scope["run"], text, {}, scope)


def foretold(*programs):
    """The program that is taken over for the numbers that come last; those before are (numbers, text, scope)."""
    *known, values = programs
    family = sizes.Family()
    for numbers, text, scope in known:
        sizes.SizedProgram(family, numbers, standing(numbers)).learn(generated(text, **scope))
    return sizes.SizedProgram(family, values, standing(values)).taken_over()


def standing(numbers, powers=()):
    return sizes.Standing(tuple(sorted(range(len(numbers)), key=numbers.__getitem__)), powers)


FOUND = [lambda n: n, lambda n: 3 * n, lambda n: n - 1, lambda n: n + 7, lambda n: 1.0 / n, lambda n: 2.0 / n]
FOUND += [lambda n: 5.0 * n, lambda n: n * n, lambda n: 1000 - n, lambda n: np.full(n, 2.0), lambda n: np.float32(1.0 / n)]
FOUND += [lambda n: (n, 4), lambda n: slice(0, n), lambda n: {"shape": (n, n)}]


@pytest.mark.parametrize("law", FOUND)
def test_laws_that_are_found(law):
    programs = [([0, 1, 2, 5, n, 1000], "k", {"k": law(n)}) for n in (17, 40, 101)]
    for n in (6, 23, 999):
        found = foretold(*programs, [0, 1, 2, 5, n, 1000]).function([])
        assert type(found) is type(law(n))
        np.testing.assert_equal(found, law(n))
        if isinstance(law(n), (int, float)):
            texts = [(numbers, repr(scope["k"]), {}) for numbers, _, scope in programs]
            assert foretold(*texts, [0, 1, 2, 5, n, 1000]).function([]) == law(n)


NO_LAWS = [lambda n: n**3, lambda n: n // 3, math.log2, lambda n: np.arange(n), lambda n: object(), str]


@pytest.mark.parametrize("law", NO_LAWS)
def test_what_follows_no_law_is_left_alone(law):
    programs = [([0, 1, 2, n, 1000], "k", {"k": law(n)}) for n in (17, 40, 101)]
    assert foretold(*programs, [0, 1, 2, 23, 1000]) is None


def test_laws_that_disagree_are_not_trusted():
    known = [([0, 1, 2, n, 2 * n], "k", {"k": 2 * n}) for n in (10, 12, 14)]
    assert foretold(*known, [0, 1, 2, 15, 30]).function([]) == 30  # twice the one, or the other
    assert foretold(*known, [0, 1, 2, 15, 31]) is None
    deciding = ([0, 1, 2, 15, 31], "k", {"k": 31})
    assert foretold(*known, deciding, [0, 1, 2, 16, 37]).function([]) == 37


def test_two_programs_are_not_enough():
    def rounded(n):
        return ([0, 1, 2, n], f"{(n + 15) // 16 * 16} + values[0]", {})

    assert foretold(rounded(32), rounded(48), [0, 1, 2, 80]) is None
    assert foretold(rounded(32), rounded(48), rounded(17), [0, 1, 2, 80]) is None
    assert foretold(rounded(32), rounded(48), rounded(64), [0, 1, 2, 80]).function([1]) == 81


def test_the_form_of_the_nearest_members_is_taken():
    def chosen(n):
        return ([0, 1, 2, n], f"{n} + abs(7)" if n < 50 else f"abs(7) + {n}", {})

    known = [chosen(n) for n in (10, 90, 20, 80, 30, 100)]
    for n in (12, 95):
        found = foretold(*known, [0, 1, 2, n])
        assert found.function([]) == n + 7 and found.text.endswith("+ abs(7)") is (n < 50)


def test_larger_programs_of_new_sizes_wait_for_native_code():
    pytest.importorskip("llvmlite")
    from funcad.backends.native import target

    if not target.available():
        pytest.skip("no native engine")
    f = fc.jit(lambda x: np.sum(np.tanh(x @ W) ** 2))
    with fc.config.set(engine="auto"):
        f(arrays(600)), f(arrays(600))
        for n in (400, 2000):  # native as a whole, and in groups
            assert "native code is made after" in f.explain(arrays(n)).why
            for _ in range(35):
                np.testing.assert_allclose(f(arrays(n)), np.sum(np.tanh(arrays(n) @ W) ** 2), rtol=1e-10)
            found = f.explain(arrays(n))
            assert "after" not in found.why and "native" in {found.engine, *[group["engine"] for group in found.groups]}
        assert "native code is made" not in f.explain(fc.ShapeDtypeStruct((1_000_000, 64), np.float64)).why  # earned at once


def test_what_may_be_asked_of_numbers_keeps_programs_apart():
    def member(n, scale):
        f = fc.jit(lambda x: np.sum(x[:, :8] * scale(n)))  # 8 and 9 are extents too
        jaxpr = f.lower(np.ones((n, 9))).jaxpr
        jaxpr.memo["sizes"] = table
        return sizes.member_of(jaxpr)

    table = {}
    ns = [20, 30, 9, 8, 5, 2, 1]
    found = {n: member(n, float) for n in ns}
    apart = lambda a, b: a.family is not b.family or not a.standing.may_be(b.standing)
    assert not apart(found[20], found[30])
    for a, b in itertools.permutations([n for n in ns if n != 30], 2):
        assert apart(found[a], found[b])
    power = member(32, float)
    assert not apart(power, found[20]) and apart(found[20], power)  # what is right for all divisors is right for 2**k
    assert apart(member(20, lambda n: 0.0), member(30, float))
    assert sizes.member_of(SimpleNamespace(memo={})) is None


def test_one_member_in_another_order_is_enough_where_all_its_numbers_follow_by_the_same_laws():
    known = [([0, 1, 2, n, 10], f"{n} + values[0]", {}) for n in (5, 6, 7)]
    assert foretold(*known, [0, 1, 2, 20, 10]) is None
    assert foretold(*known, ([0, 1, 2, 20, 10], "20 + values[0]", {}), [0, 1, 2, 30, 10]).function([1]) == 31
    least = lambda n: ([0, 1, 2, n, 10], f"{min(n, 10)} + values[0]", {})
    assert foretold(*known, least(20), [0, 1, 2, 30, 10]) is None
    both = [least(n) for n in (20, 5, 30, 6, 40, 7)]
    for n in (8, 35):
        assert foretold(*both, [0, 1, 2, n, 10]).function([1]) == min(n, 10) + 1


def test_a_text_that_uses_a_power_of_two_is_for_powers_of_two():
    family = sizes.Family()
    for n in (8, 16, 32):
        sizes.SizedProgram(family, [0, 1, 2, n], standing([0, 1, 2, n], (True,))).learn(generated(f"values[0] * {1 / n!r}"))
    for n, powers, taken in ((64, True, True), (48, False, False)):
        found = sizes.SizedProgram(family, [0, 1, 2, n], standing([0, 1, 2, n], (powers,))).taken_over()
        assert (found is not None) is taken


def convolved(params, x, y):
    w, b = params
    rows = np.stack([x[:, i : i + 3] @ w[:3] for i in range(4)], axis=1)
    return np.mean((np.max(np.tanh(rows + b), axis=1) - y) ** 2) + np.var(x @ w)


def normalized(params, x, y):
    w, b = params
    z = (x - np.mean(x, axis=1, keepdims=True)) / np.sqrt(np.var(x, axis=1, keepdims=True) + 1e-5) @ w + b
    z = z - np.max(z, axis=1, keepdims=True)
    return -np.mean(np.sum(y * (z - np.log(np.sum(np.exp(z), axis=1, keepdims=True))), axis=1))


def layered(params, x, y):
    w, b = params
    return np.sum(np.abs(np.where(x @ w + b > 0, x @ w + b, 0.1 * (x @ w)) - y)) / x.shape[0] if x.shape[0] else np.sum(y)


NETWORKS = [convolved, normalized, layered]
BATCHES = [*range(20, 85), 0, 1]


@pytest.mark.share(3)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("f", NETWORKS, ids=lambda f: f.__name__)
def test_67_batch_sizes_of_a_network(f, dtype):
    """What takes over a text gives what is compiled for that size alone, to the last bit, and NaN where un-jitted has it."""
    rng = np.random.default_rng(0)
    params = rng.normal(size=(6, 5)).astype(dtype), rng.normal(size=5).astype(dtype)

    def step(params, x, y):
        value, slopes = fc.value_and_grad(f)(params, x, y)
        return [p - dtype(0.1) * s for p, s in zip(params, slopes)], value

    shared, compiled = fc.jit(step), 0
    with fc.config.set(engine="numpy", jit_patience=0), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a mean of nothing
        for n in BATCHES:
            x, y = rng.normal(size=(n, 6)).astype(dtype), rng.normal(size=(n, 5)).astype(dtype)
            if n % 7 == 3:
                x[n // 2, 1] = np.nan
            expected = step(params, x, y)
            before = made["compiled"]
            for _ in range(2):
                found = shared(params, x, y)
            compiled += made["compiled"] - before
            alone = fc.jit(lambda params, x, y: step(params, x, y))(params, x, y)
            for a, b, c in zip(*map(fc.tree.leaves, (found, alone, expected))):
                assert a.tobytes() == b.tobytes() and a.dtype == c.dtype
                np.testing.assert_array_equal(np.isnan(a), np.isnan(c))
                np.testing.assert_allclose(a, c, rtol=1e-3 if dtype is np.float32 else 1e-10, atol=1e-5)
    assert compiled <= 7  # three of a form; what is equal to 0, 1 or another extent; what stands on its other side
