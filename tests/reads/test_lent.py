"""Arrays that a function makes, by whatever call, operator or index, take traced values when it writes them.

Also draws of a generator that the function seeds. Each program is compared with itself, un-jitted on plain numbers.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from numpy import array, empty, full, zeros, zeros_like

import funcad
import funcad.numpy as fnp
from funcad import custom_gradient, custom_jvp, custom_vjp, grad, hessian, hvp, jit, jvp, pure_callback, scan, vmap

pytestmark = pytest.mark.filterwarnings(
    "ignore:Setting the shape:DeprecationWarning",  # since NumPy 2.5
    "ignore:you are shuffling",  # NumPy's, of a vector as of a list
)

A0 = np.arange(12.0).reshape(3, 4) / 7
V0 = np.linspace(0.1, 1.0, 5)
X = np.array([0.7, 1.3, 0.4])
V = np.array([0.3, -0.2, 0.5])
ROWS = np.stack([X, X * 1.1, X + 0.05])
PROGRAMS: dict[str, Callable[[Any], Any]] = {}


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS[f.__name__] = f
    return f


def store(a: Any, x: Any) -> Any:
    a[0] = x[0] * x[1]
    a[1] = a[0] + np.sin(x[2])
    return (a * a).sum()


@program
def copy_method(x):
    return store(V0.copy(), x)


@program
def plus_zero(x):
    return store(V0 + 0, x)


@program
def fancy(x):
    return store(A0[[0, 1]], x)


@program
def deep(x):
    return store(copy.deepcopy(V0), x)


@program
def shallow(x):
    return store(copy.copy(A0), x)


@program
def concat(x):
    return store(np.concatenate([V0, V0]), x)


@program
def vstack(x):
    return store(np.vstack([V0, V0]), x)


@program
def hstack(x):
    return store(np.hstack([V0, V0]), x)


@program
def stack(x):
    return store(np.stack([V0, V0]), x)


@program
def tile(x):
    return store(np.tile(V0, 2), x)


@program
def outer(x):
    return store(np.outer(V0, V0), x)


@program
def where(x):
    return store(np.where(V0 > 0.5, V0, 0.0), x)


@program
def sort(x):
    return store(np.sort(V0), x)


@program
def cumsum(x):
    return store(np.cumsum(V0), x)


@program
def pad(x):
    return store(np.pad(V0, 2), x)


@program
def roll(x):
    return store(np.roll(V0, 2), x)


@program
def meshgrid(x):
    X, Y = np.meshgrid(V0, V0)
    X[0] = x[0]
    Y[:, 1] = X[:, 0] * x[1] + np.sin(x[2])
    return (X * Y).sum()


@program
def own_zeros(x):
    return store(fnp.zeros(5), x)


@program
def own_array(x):
    a = fnp.array(V0)
    a += x[0]
    return store(a, x)


@program
def own_concatenate(x):
    return store(fnp.concatenate([V0, V0]), x)


@program
def own_sin(x):
    a = fnp.sin(V0)
    fnp.copyto(a[:3], x)
    fnp.putmask(a, V0 > 0.9, x[1])
    return store(a, x)


@program
def given_to_numpy(x):
    def written(row):
        a = row.copy()
        a[1] = x[0] * x[1]
        return a * x[2]

    return np.apply_along_axis(written, 1, A0).sum()


@program
def rng_normal(x):
    return store(np.random.default_rng(3).normal(size=5), x)


@program
def rs_normal(x):
    return store(np.random.RandomState(3).normal(size=5), x)


@program
def seed_normal(x):
    np.random.seed(42)
    return store(np.random.normal(size=5), x)


@program
def nd(x):
    A = np.ndarray((5,))
    A[:] = 1.0
    return store(A, x)


@program
def nd_kw(x):
    A = np.ndarray(shape=(5,), dtype=np.float64)
    A[:] = 1.0
    return store(A, x)


@program
def byname_zeros(x):
    return store(zeros(5), x)


@program
def byname_array(x):
    return store(array([1.0, 2, 3]), x)


@program
def byname_empty(x):
    A = empty(3)
    A[2] = 1.0
    return store(A, x)


@program
def byname_full(x):
    return store(full(3, 2.0), x)


@program
def byname_zl(x):
    return store(zeros_like(V0), x)


@program
def shape_set(x):
    Z = np.arange(6.0)
    Z = Z * x[0]
    Z.shape = (2, 3)
    return (Z @ x).sum()


@program
def shape_set2(x):
    X, Y = np.mgrid[0:2, 0:3]
    Xi = X.astype(float)
    Yi = Y * 1.0
    Xi.shape = Yi.shape = 6
    Xi[0] = x[0]
    return (Xi * Yi).sum() + (Xi * x[1]).sum()


@program
def asarray_list(x):
    return store(np.asarray([1.0, 2.0, 3.0]), x)


@program
def ravel_new(x):
    return store((A0 * 2).ravel(), x)


@program
def reshape_new(x):
    return store((A0 * 2).reshape(4, 3), x)


@program
def transposed_new(x):
    return store((A0 * 2).T, x)


@program
def masked_pick(x):
    return store(V0[V0 > 0.15], x)


@program
def astype(x):
    return store(np.arange(5).astype(float), x)


@program
def arange(x):
    return store(np.arange(5.0), x)


@program
def linspace(x):
    return store(np.linspace(0, 1, 5), x)


@program
def iadd_copy(x):
    A = A0.copy()
    A[0, :3] += x
    A[:, 1] *= 2
    return (A**2).sum()


@program
def iadd_whole(x):
    A = V0[:3].copy()
    A += x
    A *= x
    return (A**2).sum()


@program
def iadd_expr(x):
    A = V0[:3] * 2
    A += x
    return (A**2).sum()


@program
def addat(x):
    A = V0 * 2
    np.add.at(A, [0, 1, 1], x)
    return (A**2).sum()


@program
def out_(x):
    A = V0[:3] * 2
    np.multiply(x, x, out=A)
    return (A**2).sum()


@program
def copyto(x):
    A = V0[:3] * 2
    np.copyto(A, x)
    return (A**2).sum()


@program
def fill_diag(x):
    A = np.dot(A0, A0.T)
    np.fill_diagonal(A, x)
    return (A @ A).sum()


@program
def flat_(x):
    A = A0 * 2
    A.flat[3] = x[0]
    return (A**2).sum() * x[1]


@program
def list_of(x):
    L = [V0.copy() for _ in range(3)]
    for i in range(3):
        L[i][i] = x[i] * (L[i - 1][1] if i else 1.0)
    return sum((l**2).sum() for l in L)


@program
def helper_loop(x):
    def init(n):
        return V0[:n] + 0

    s = 0.0
    for k in range(3):
        A = init(4)
        A[k] = x[k] ** 2
        A[3] = A[k] * x[0]
        s = s + (A**2).sum()
    return s


@program
def inverse(x):
    A = np.linalg.inv(np.eye(3) * 2 + 0.1)
    A[0, 0] = x[0]
    return (A @ x).sum()


@program
def default_rng_traced(x):
    rng = np.random.default_rng(np.random.SeedSequence(5))
    return store(rng.uniform(size=4), x)


@program
def eyecopy(x):
    A = np.eye(3).copy()
    A[0, 1] = x[0]
    return (A @ A @ x).sum()


@program
def class_(x):
    class S: ...

    s = S()
    s.a = V0.copy()
    s.a[1] = x[0]
    s.b = s.a + 0
    s.b[2] = x[1]
    return (s.a * s.b).sum()


@program
def view_of_copy(x):
    A = A0.copy()
    r = A[1]
    r[:3] = x
    A[0, 0] = r[0] * x[1]
    return (A**2).sum()


@program
def seed_draw(x):
    np.random.seed(42)
    return (np.random.randn(3) * x).sum() ** 2


@program
def seed_if(x):
    np.random.seed(42)
    e = np.random.randn(3)
    if x[0] > 0.75:
        return (e * x).sum() ** 2
    return (e * x * np.random.rand()).sum() ** 3


@program
def seed_loop(x):
    np.random.seed(1)
    s = 0.0
    for _ in range(4):
        s = s + (x * np.random.normal(size=3)).sum() ** 2
    return s


@program
def seed_write(x):
    np.random.seed(42)
    A = np.random.normal(size=5)
    A[0] = x[0]
    return (A**2).sum() + x[1]


@program
def seed_int(x):
    k = int(x[2] * 0) + 3
    np.random.seed(k)
    return (np.random.randn(3) * x).sum() ** 2


@program
def rng_int(x):
    k = np.floor(x[0] * 10 + 0.5).astype(int)
    rng = np.random.default_rng(k)
    return (rng.normal(size=3) * x).sum() ** 2


@program
def rs_int(x):
    k = np.floor(x[0] * 10 + 0.5).astype(int)
    rng = np.random.RandomState(k)
    return (rng.normal(size=3) * x).sum() ** 2


@program
def seq(x):
    rng = np.random.default_rng(np.random.SeedSequence(5).spawn(2)[1])
    return (rng.normal(size=3) * x).sum() ** 2


@program
def seq_int(x):
    k = np.floor(x[0] * 10 + 0.5).astype(int)
    rng = np.random.default_rng(np.random.SeedSequence(k))
    return (rng.normal(size=3) * x).sum() ** 2


@program
def pcg(x):
    rng = np.random.Generator(np.random.PCG64(7))
    return (rng.normal(size=3) * x).sum() ** 2


@program
def seed_shuffle(x):
    np.random.seed(0)
    i = np.arange(3)
    np.random.shuffle(i)
    return (x[i] * np.array([1.0, 2, 3])).sum() ** 2


@program
def seed_perm(x):
    np.random.seed(0)
    i = np.random.permutation(3)
    return (x[i] * np.array([1.0, 2, 3])).sum() ** 2


@program
def rng_shuffle(x):
    rng = np.random.default_rng(4)
    a = V0.copy()
    a[0] = x[0]
    rng.shuffle(a)
    return (a[:3] * x).sum()


@program
def seed_choice(x):
    np.random.seed(0)
    i = np.random.choice(3, 2, replace=False)
    return x[i].prod() ** 2


def slopes(f: Callable[[Any], Any], h: float = 1e-6) -> np.ndarray:
    return np.array([(f(X + h * e) - f(X - h * e)) / (2 * h) for e in np.eye(3)])


def second(f: Callable[[Any], Any], h: float = 1e-4) -> np.ndarray:
    steps = [(f(X + h * (V + e)) - f(X + h * (V - e)), f(X - h * (V - e)) - f(X - h * (V + e))) for e in np.eye(3)]
    return np.array([(near - far) / (4 * h * h) for near, far in steps])


cases = pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS)


@pytest.mark.share(3)
@cases
def test_derivatives(f: Callable[[Any], Any]) -> None:
    expected = slopes(f)
    assert grad(f)(X) == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert jvp(f, (X,), (V,))[1] == pytest.approx(expected @ V, rel=1e-6, abs=1e-6)
    assert funcad.hessian(f)(X) @ V == pytest.approx(second(f), rel=1e-3, abs=1e-3)


@pytest.mark.share(3)
@cases
def test_jit(f: Callable[[Any], Any]) -> None:
    compiled, slope = jit(f), jit(grad(f))
    for x in (X, X, X, X * 1.1, X):
        assert compiled(x) == pytest.approx(f(x), rel=1e-12)
        assert slope(x) == pytest.approx(grad(f)(x), rel=1e-12)


@pytest.mark.share(3)
@cases
def test_vmap(f: Callable[[Any], Any]) -> None:
    assert vmap(f)(ROWS) == pytest.approx(np.array([f(x) for x in ROWS]), rel=1e-12)
    assert vmap(grad(f))(ROWS) == pytest.approx(np.array([grad(f)(x) for x in ROWS]), rel=1e-12)


@pytest.mark.parametrize("transform", [lambda f: f, jit, vmap, lambda f: jit(vmap(f))], ids=["plain", "jit", "vmap", "both"])
def test_a_seed_leaves_the_generator_where_the_function_does(transform: Callable[..., Any]) -> None:
    def f(x: Any) -> Any:
        np.random.seed(3)
        return (x * np.random.randn(3)).sum()

    f(X)
    expected, g = np.random.rand(), transform(f)
    for _ in range(4):
        np.random.seed(9)
        g(ROWS)
        assert np.random.rand() == expected


def test_a_traced_seed_is_asked_for_its_value() -> None:
    def f(k: Any, x: Any) -> Any:
        return (np.random.default_rng(np.random.SeedSequence(k)).normal(size=3) * np.random.default_rng(k).normal() * x).sum()

    compiled = jit(f)
    for k in (1, 2, 3, 1, 2):
        assert compiled(k, X) == f(k, X)
    assert vmap(lambda k, x: np.random.default_rng(k).normal() * x)(np.arange(3), X) == pytest.approx(
        np.array([np.random.default_rng(k).normal() for k in range(3)]) * X
    )


def test_what_was_made_outside_stays_what_it_is() -> None:
    table = np.zeros(3)

    def f(x: Any) -> Any:
        table[0] = x[0]
        return table.sum()

    for _ in range(2):
        with pytest.raises(TypeError, match="K = np.array"):
            grad(f)(X)
    assert not table.any()


def test_a_view_of_what_was_made_outside_is_not_lent() -> None:
    table = np.zeros((3, 4))

    def f(x: Any) -> Any:
        part = np.asarray(table).reshape(4, 3)[1]
        part[:] = x
        return table.sum()

    with pytest.raises(TypeError, match="K = np.array"):
        grad(f)(X)
    assert not table.any()


def test_results_are_plain_arrays() -> None:
    def f(x: Any) -> Any:
        a, untouched = V0.copy(), V0 * 2.0
        a[0] = x[0]
        return (a * a).sum(), untouched

    slope, rest = grad(f, has_aux=True)(X)
    assert type(rest) is np.ndarray and rest == pytest.approx(V0 * 2.0)
    assert slope == pytest.approx([2 * X[0], 0.0, 0.0])


def test_functions_that_never_write_into_such_arrays_are_not_rewritten() -> None:
    seen = []

    def f(x: Any) -> Any:
        seen.append(f.__code__)
        a = V0.copy()
        return (a[:3] * x).sum()

    grad(f)(X)
    assert seen == [f.__code__]


def test_a_dtype_is_no_memory() -> None:
    def f(x: Any) -> Any:
        z = np.zeros(3, dtype=np.complex128)
        for k in range(2):
            if x[k] > 0.7:
                np.add(z, x, z)
        return z.real

    assert vmap(lambda x: f(x.copy()))(ROWS) == pytest.approx(np.array([f(x) for x in ROWS]))


@pytest.mark.parametrize("positions", [np.arange(3), np.arange(3.0)], ids=["whole", "real"])
def test_a_seeded_shuffle_in_each_lane(positions: np.ndarray) -> None:
    def f(x: Any) -> Any:
        np.random.seed(0)
        i = np.array(positions)
        np.random.shuffle(i)
        return x * i

    assert vmap(f)(ROWS) == pytest.approx(np.array([f(x) for x in ROWS]))


# -- rules


def _square(x: Any) -> Any:
    a = V0[:3].copy()
    a += x
    return (a * a).sum()


def _slope(x: Any) -> Any:
    a = V0[:3].copy()
    a[1] = a[1] + x[1]
    a[[0, 2]] += x[[0, 2]]
    return 2 * a


def _with_vjp() -> Any:
    f = custom_vjp(_square)
    f.defvjp(lambda x: (_square(x), x), lambda x, ct: (_slope(x) * ct,))
    return f


def _with_jvp() -> Any:
    f = custom_jvp(_square)
    f.defjvp(lambda primals, tangents: (_square(primals[0]), (_slope(primals[0]) * tangents[0]).sum()))
    return f


RULES = {
    "vjp": _with_vjp,
    "jvp": _with_jvp,
    "gradient": lambda: custom_gradient(lambda x: (_square(x), lambda ct: _slope(x) * ct)),
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: grad(f)(X),
    "hessian": lambda f: hessian(f)(X),
    "hvp": lambda f: hvp(f, (X,), (V,)),
    "vmap": lambda f: vmap(grad(f))(ROWS),
    "inner vmap": lambda f: grad(lambda x: vmap(f)(ROWS * x).sum())(X),
    "scan": lambda f: grad(lambda x: scan(lambda c, y: (c + f(x * y), None), 0.0, V)[0])(X),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("way", WAYS)
def test_what_rules_make(rule: str, way: str) -> None:
    """A rule runs when a derivative is made, which may be after the function has ended."""
    plain = WAYS[way](lambda x: ((V0[:3] + x) ** 2).sum())
    for _ in range(2):
        for a, b in zip(funcad.tree.leaves(WAYS[way](RULES[rule]())), funcad.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_buffers_go_where_no_traced_value_does() -> None:
    """A function of SciPy's in C, which has no rule, in a function that writes, and in what it calls back."""

    def f(x: Any) -> Any:
        a = store(V0.copy(), x)
        known = scipy.special.ellip_harm(5.0, 3.0, 1, 1, V0 + 1)
        back = pure_callback(lambda v: scipy.special.ellip_harm(5.0, 3.0, 1, 1, v + 1), V0, V0 * 2)
        same = (V0 + 0).tobytes() == V0.tobytes()
        return a + np.sum(known) + np.sum(back) + same

    assert grad(f)(X) == pytest.approx(grad(lambda x: store(np.array(V0), x))(X))
    assert jit(f)(X) == pytest.approx(f(X))


class Kept:
    """Holds arrays that functions advance."""

    def __init__(self) -> None:
        self.own, self.rows = np.ones(3), [np.ones(3)]
        self.named: dict[str, Any] = {"a": np.ones(3), "b": (np.ones(3), 1)}

    def advanced(self, x: Any) -> Any:
        self.own = self.own * 0.5 + 0.1
        self.rows[0] = self.rows[0] * 0.5 + 0.1
        self.named["a"] = self.named["a"] * 0.5 + 0.1
        self.named["b"] = self.named["b"][0] * 0.5 + 0.1, 1
        out = x * 1.0
        out[0] = x[1]  # so that what it makes is lent to it
        return np.sum(out)


READS_OF_KEPT: dict[str, Callable[[Kept, Any], Any]] = {
    "an attribute": lambda k, x: x * k.own,
    "an item": lambda k, x: x * k.rows[0],
    "an item of a dict": lambda k, x: x * k.named["a"],
    "an item of a tuple": lambda k, x: x * k.named["b"][0],
    "all items": lambda k, x: x * sum(k.rows),
    "an element": lambda k, x: x * float(k.own[1]),
    "a choice": lambda k, x: x if k.own[0] > 0.5 else 2.0 * x,
}


RUNS = {"grad": grad, "lanes": lambda f: lambda x: vmap(f)(np.stack([x, x])), "jvp": lambda f: lambda x: jvp(f, (x,), (x,))}


@pytest.mark.parametrize("by", RUNS.values(), ids=RUNS.keys())
@pytest.mark.parametrize("name", READS_OF_KEPT)
def test_what_a_run_has_left_is_read_as_it_is_at_each_call(name: str, by: Any) -> None:
    """An array that was lent to an un-jitted run and that this has stored: jit looks at it as at any other."""
    kept, x = Kept(), np.arange(1.0, 4.0)
    read = lambda x: READS_OF_KEPT[name](kept, x)
    jitted, run = jit(read), by(kept.advanced)
    for change in (None, lambda: kept.own.fill(4.0), None, lambda: setattr(kept, "own", np.full(3, 0.2)), kept.rows.reverse):
        if change is None:
            run(x)
        else:
            change()
            kept.rows[0][1], kept.named["a"][2] = 7.0, 5.0
        for _ in range(3):
            np.testing.assert_array_equal(jitted(x), read(x))


JITTED = {"jit of grad": lambda f: jit(grad(f)), "grad of jit": lambda f: grad(jit(f)), "jit": jit}


@pytest.mark.parametrize("by", JITTED.values(), ids=JITTED.keys())
def test_what_un_jitted_runs_have_left_is_advanced_by_jitted_ones(by: Any) -> None:
    kept, plain, x = Kept(), Kept(), np.arange(1.0, 4.0)
    step, derived = by(kept.advanced), grad(kept.advanced)
    for k in range(9):
        (derived if k in (0, 4, 5) else step)(x)
        plain.advanced(x)
        np.testing.assert_allclose(kept.own, plain.own, rtol=1e-15)
        np.testing.assert_allclose(kept.rows[0], plain.rows[0], rtol=1e-15)
        np.testing.assert_allclose(kept.named["a"], plain.named["a"], rtol=1e-15)
        np.testing.assert_allclose(kept.named["b"][0], plain.named["b"][0], rtol=1e-15)


def test_what_a_run_has_left_is_an_array_where_nothing_is_traced() -> None:
    """A table that a method builds when it is first wanted is written by the method, so it was lent to that."""

    class Lazy:
        table: Any = None

        def loss(self, x: Any) -> Any:
            if self.table is None:
                self.table = np.zeros(3)
                self.table[1:] = [2.0, 3.0]
            return np.sum(self.table * x * x)

    lazy = Lazy()
    np.testing.assert_array_equal(grad(lazy.loss)(np.ones(3)), [0.0, 4.0, 6.0])
    table, b = lazy.table, np.ones(3)
    b += table
    np.testing.assert_array_equal(np.add(b, table, out=b), [1.0, 5.0, 7.0])
    np.multiply.at(b, [0, 1, 2], table)
    np.testing.assert_array_equal(np.einsum("i,i->i", b, table, out=np.zeros(3)), [0.0, 20.0, 63.0])
    np.copyto(b, table)
    np.put(b, [0], table[2:])
    np.testing.assert_array_equal(np.dot(np.diag(b), table, out=np.zeros(3)), [0.0, 4.0, 9.0])
    assert type(table * 2.0) is type(np.exp(table)) is type(np.stack([table, b])) is np.ndarray
    np.savez(io.BytesIO(), table=table)
    views = table[1:], table.reshape(3, 1)[1:, 0], np.flip(table)[:2][::-1]
    table[1] = 7.0
    views[0][1] = 9.0
    assert [v.tolist() for v in views] == [[7.0, 9.0]] * 3 and table.tolist() == [0.0, 7.0, 9.0]
    np.testing.assert_array_equal(grad(lazy.loss)(np.ones(3)), [0.0, 14.0, 18.0])
