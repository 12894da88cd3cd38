"""What a C library computes: every operation of the table, programs and their derivatives, random ones, as the engine does."""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, hessian, jit, jvp, scan, tree, value_and_grad, vmap, while_loop
from funcad.backends.export.c_library import write_function
from funcad.ir.aval import is_inexact
from tests import c_compiler
from tests.agreement import assert_close
from tests.programs import PROGRAMS, Program
from tests.random_programs import random_case, trace
from tests.rounding import bounds_of, disagreement, reference
from tests.specs import OpSpec, all_specs

pytestmark = [
    pytest.mark.skipif(not c_compiler.available(), reason="there is no gcc and g++"),
    pytest.mark.filterwarnings("ignore"),
]
SPECS = all_specs()
BLOCK = 60  # of specs, in one library

# refused of complex numbers alone
COMPLEX = frozenset(
    "adjugate arccos arccosh arcsin arcsinh arctan arctanh banded_solve cholesky cos cosh det exp2 expm1 "
    "factored_solve inv log10 log1p log2 lu pow qr sign sin sinc sinh slogdet solve tan tanh triangular_inverse "
    "triangular_solve".split()
)
# refused, or some of it
REFUSED = frozenset(
    # draws, which rewrite the bits of numbers or take as long as they take
    "draw fold_in random_binomial random_gamma random_gamma_grad random_poisson "
    # eigenvalues, singular values, what is made of them, transforms
    "eig eigh eigvalsh svd svdvals schur spectral pinv lstsq polar polar_unitary nuclear_norm gap_quotient stein sqrtm logm "
    "logm_linear sylvester qr_raw fft trigonometric spline_filter "
    # what looks at values while it runs: sizes, lanes that go on, the bits of a number
    "adjugate_linear expm expm_linear triangular_only python_checked python_fsum python_round reduce_precision "
    "stack_add stack_empty stack_lead stack_select stack_sum "
    # layouts that LAPACK alone has
    "banded_solve pivot_permutation "
    # special functions
    "beta beta_density betainc betainc_shape betaincc betainccinv betaincinv betaln binom boxcox boxcox1p "
    "carlson_moment cosm1 cosine_integral dawsn digamma ellipe ellipeinc ellipk ellipkinc ellipkm1 elliptic_d "
    "erfcinv erfcx erfi erfinv exp1 expi expn exprel fdtri fresnel_c fresnel_s gamma gamma_density gammainc "
    "gammainc_a gammaincc gammainccinv gammaincinv gammaln gammasgn hyp0f1 hyp1f1 hyp2f1 hyperbolic_cosine_integral "
    "hyperbolic_sine_integral hyperu i0 i0e i1 i1e inv_boxcox inv_boxcox1p iv iv_order ive ive_order j0 j1 jv "
    "jv_order jve k0 k0e k1 k1e kummer_slope kv kv_order kve kve_order lambertw log_ndtr loggamma modfresnelm "
    "modfresnelm_phase modfresnelp modfresnelp_phase modstruve ndtr_ratio ndtri ndtri_exp owens_t poch polygamma "
    "powm1 rgamma riemann_zeta riemann_zeta_s sine_integral sine_moment special_derivative special_function spence "
    "sph_harm_y stdtr stdtr_v stdtrit struve wofz wrightomega y0 y1 yv yv_order yve zeta zetac".split()
)


class _Found:
    """The functions of one library, with what they are to give."""

    def __init__(self) -> None:
        self.functions: list[Any] = []
        self.checks: list[Callable[[Any], None]] = []
        self.refused: set[str] = set()

    def add(self, jaxpr: Any, consts: list[Any], check: Callable[[Callable[..., Any]], None], name: str) -> bool:
        function = c_compiler.program(f"many_f{len(self.functions)}", jaxpr, consts)
        try:
            write_function(function, "frozen")
        except NotImplementedError as error:
            self.refused.add(f"{name}: {error}")
            return False
        self.functions.append(function)
        self.checks.append(check)
        return True

    def run(self, folder: Path, **options: Any) -> None:
        library = c_compiler.exported(folder, self.functions, **options)
        for function, check in zip(self.functions, self.checks):
            check(getattr(library, function.symbol))


def several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


def spec_check(op: OpSpec, given: list[Any], expected: list[Any]) -> Callable[[Callable[..., Any]], None]:
    def check(function: Callable[..., Any]) -> None:
        found = several(function(*given))
        assert len(found) == len(expected)
        for a, b in zip(found, expected):
            assert type(a) is type(b) and a.dtype == b.dtype, f"{op.id}: {a!r} and {b!r}"
            assert_close(a, b, rtol=1e-5 if a.dtype in (np.float32, np.complex64) else 1e-12, what=f"{op.id} of {given}")

    return check


@pytest.mark.share(5)
@pytest.mark.parametrize("first", range(0, len(SPECS), BLOCK))
def test_every_operation_is_equal_or_listed(first: int, tmp_path: Path) -> None:
    found, equal, refused = _Found(), set(), set()
    for op in SPECS[first : first + BLOCK]:
        for args in op.samples():
            given = [args[i] for i in op.variables(args)]
            f = jit(op.of_variables(args))
            entry = f.lower(*given)._entry
            name = op.primitives[0].name
            complex_ = any(
                [v.aval.dtype.kind == "c" for e in entry.jaxpr.equations for v in e.outputs if hasattr(v.aval, "dtype")]
            )
            if found.add(entry.jaxpr, entry.consts, spec_check(op, given, several(f(*given))), op.id):
                equal.add(name)
            else:
                assert name in REFUSED or complex_ and name in COMPLEX, f"{op.id} is refused"
                refused.add(name)
    idle = {op.primitives[0].name for op in SPECS[first : first + BLOCK]} & REFUSED - refused
    assert not idle, f"{idle} are not refused"
    found.run(tmp_path)
    assert equal or first >= 360


@pytest.mark.share(40)
@pytest.mark.parametrize("first", range(0, 1000, 25))
def test_random_programs(first: int, tmp_path: Path) -> None:
    """All dtypes, special values, loops and branches: within what rounding explains, NaN and signs of zero the same."""
    found = _Found()
    for seed in range(first, first + 25):
        try:
            jaxpr, values = trace(random_case(seed))
            expected = reference(jaxpr, values)
        except (TypeError, ValueError, IndexError):  # a derivative that does not exist, say
            continue
        if "stable=False" in str(jaxpr):  # ties are in any order
            continue

        def check(function: Callable[..., Any], jaxpr=jaxpr, values=values, expected=expected, seed=seed) -> None:
            bounds = bounds_of(jaxpr, values, expected)
            for k, (a, b, bound) in enumerate(zip(several(function(*values)), expected, bounds)):
                why = disagreement(a, b, bound, loose=True)
                assert why is None, f"seed {seed}, result {k}: {why}"

        found.add(jaxpr, [], check, str(seed))
    assert len(found.functions) > 12
    assert all([re.search("float16|complex|on values|of u?int", why) for why in found.refused]), found.refused
    found.run(tmp_path)


WAYS: dict[str, Callable[[Any], Any]] = {
    "value": lambda p: p.f,
    "grad": lambda p: lambda *args: grad(lambda *a: total(p.f(*a)), floats(args))(*args),
    "jvp": lambda p: (
        lambda *args: grad(lambda s: total(p.f(*[x * s if i in floats(args) else x for i, x in enumerate(args)])))(1.0)
    ),
}
NO_C = {  # of tests/programs.py, with what they say
    "printing": "calls Python back", "ordered_callback": "calls Python back", "callback": "calls Python back",
    "matrix_functions": "no code in C", "random_draw": "no code in C", "complex_numbers": "of complex128",
}  # fmt: skip


def floats(args: tuple) -> tuple[int, ...]:
    leaves = [tree.leaves(x) for x in args]
    return tuple(
        [i for i, found in enumerate(leaves) if found and all([is_inexact(funcad.eval_shape(lambda y: y, x)) for x in found])]
    )


def total(out: Any) -> Any:
    return sum([np.sum(np.real(x) * np.real(x)) for x in tree.leaves(out) if np.asarray(x).dtype.kind in "fc" or True])


@pytest.mark.share(2)
@pytest.mark.parametrize("way", WAYS)
def test_programs_and_their_derivatives(way: str, tmp_path: Path) -> None:
    found, refused = _Found(), {}

    def check_of(p: Program, leaves: list[Any], expected: list[Any]) -> Callable[[Callable[..., Any]], None]:
        def check(function: Callable[..., Any]) -> None:
            for a, b in zip(several(function(*leaves)), expected, strict=True):
                assert_close(a, b, rtol=1e-10 if np.asarray(b).dtype != np.float32 else 1e-5, what=p.name)

        return check

    for p in PROGRAMS:
        args = p.make_args()
        if p.following or way != "value" and (p.order < 1 or not floats(args)):
            continue
        f = jit(WAYS[way](p))
        try:
            entry = f.lower(*args)._entry
            expected = tree.leaves(f(*args))
        except funcad.errors.FuncadError:  # no derivative of this kind
            continue
        except TypeError:
            continue
        if not found.add(entry.jaxpr, entry.consts, check_of(p, tree.leaves(args), expected), p.name):
            refused[p.name] = max(found.refused, key=lambda why: why.startswith(f"{p.name}:"))
    assert len(found.functions) > 25
    for name, why in refused.items():
        assert name in NO_C and NO_C[name] in why or "depends on values" in why, why
    found.run(tmp_path)


# -- how elements move and add up, in odd shapes


def coll(x: Any) -> Any:
    return while_loop(lambda c: np.sum(c * c) > 0.1, lambda c: c * 0.7 - 0.01, x)


def factors(a: Any) -> Any:
    a = a[:, :5] + 5 * np.eye(5)
    for k in range(4):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a


OF_MATRICES: list[Callable[[Any], Any]] = [  # of a (5, 6)
    lambda a: a[::-2, ::3].T,
    lambda a: np.roll(a, (1, 2), (0, 1)),
    lambda a: np.pad(a, 2, mode="reflect"),
    lambda a: np.pad(a, ((1, 2), (0, 1))),
    lambda a: np.tile(a, (2, 3)),
    lambda a: np.flip(np.stack([a, a * 2, a.copy()], 1), 2),
    lambda a: np.concatenate([a[:0], a, a[::-1]], axis=0),
    lambda a: np.zeros((0, 3)) @ a[:3] + a[0, 0],
    lambda a: a[:, :0] @ a[:0] + a[0, 0],
    lambda a: a.reshape(1, 30, 1) + a[0, :5],
    lambda a: np.kron(a, a[:2, :2]),
    lambda a: np.einsum("ij,kj,k->i", a, a, a[:, 0]),
    lambda a: np.einsum("ijk,ljk->il", a.reshape(5, 2, 3), a.reshape(5, 2, 3)[:, :, ::-1]),
    lambda a: np.einsum("ijk,jlk->il", a.reshape(5, 2, 3), a.reshape(2, 5, 3)),
    lambda a: np.einsum("bij,bjk->bik", a[None].repeat(3, 0), a.T[None].repeat(3, 0)),
    lambda a: (a * 1j + a).conj() @ (a.T * (2 - 1j)),
    lambda a: [np.sum(a.reshape(5, 2, 3), axis=axis) for axis in (0, 1, 2, (0, 2), (0, 1, 2))],
    lambda a: [np.max(a.T, axis=1), np.any(a > 0, axis=0), np.sum(a > 0), np.sum(a[:0]), np.prod(a, axis=1)],
    lambda a: [np.cumsum(a[:, ::-1], axis=0)[::-1], np.cumprod(a, axis=1).T, np.median(a, axis=0)],
    lambda a: [np.argmax(a, axis=0), np.argmin(a), np.argsort(-a, axis=1, kind="stable"), np.sort(a, axis=0)[::-1]],
    lambda a: a[np.array([[0, -1], [3, 2]]), np.array([1, 5])],
    lambda a: np.searchsorted(np.sort(a[0]), a[1]),
    lambda a: np.mean(a.astype(np.float32), axis=0),
    lambda a: [a, a, 1.0, 2, True],
    lambda a: grad(lambda a: np.sum(factors(a) ** 2))(a),
    lambda a: grad(lambda a: np.linalg.det(a[:, 1:]))(np.outer(a[:, 0], a[0])),  # of a singular matrix
    lambda a: [*np.linalg.qr(a.T), *np.linalg.qr(a.T, mode="complete"), *np.linalg.slogdet(a[:, 1:])],
    lambda a: grad(lambda a: np.sum(funcad.nn.softmax(a) ** 2 + funcad.nn.layer_norm(a) ** 3))(a),
    lambda a: grad(lambda a: np.sum(np.convolve(a[0], a[1, :3]) ** 2))(a),
    lambda a: grad(lambda a: np.sum(np.tanh((a - a.mean(1, keepdims=True)) / a.std(1, keepdims=True)) * a))(a),
    vmap(coll),
    vmap(lambda x: funcad.cond(x[0] > 0, lambda x: np.log(x[0]) + x, lambda x: -2 * x, x)),
    lambda a: scan(lambda c, _: ((c[1], c[0]), c[0][0]), (a, 2 * a), None, length=3),
    lambda a: scan(lambda c, r: (c * r[0], r[::-1]), a[0], a[:0]),
]


def test_movements_and_sums(tmp_path: Path) -> None:
    """Small arrays, and long ones, whose loops differ."""
    found, rng = _Found(), np.random.default_rng(0)

    def check_of(f: Any, a: Any, expected: list[Any], number: int) -> Callable[[Callable[..., Any]], None]:
        def check(function: Callable[..., Any]) -> None:
            for x, y in zip(several(function(a)), expected, strict=True):
                assert x.dtype == np.asarray(y).dtype
                assert_close(x, y, rtol=1e-6 if x.dtype == np.float32 else 1e-9, what=f"function {number}")

        return check

    small = rng.normal(size=(5, 6))
    long = [lambda b: np.sum(np.exp(b - np.max(b, axis=1, keepdims=True)), axis=0), lambda b: (b - b.mean(0)) / b.std(0)]
    long += [
        lambda b: b @ b.T @ b,
        lambda b: [np.sum(b), np.sum(b * b), np.linalg.norm(b, axis=1)],
        grad(lambda b: np.sum(b**3)),
    ]
    for number, (f, a) in enumerate([*[(f, small) for f in OF_MATRICES], *[(f, rng.normal(size=(300, 43))) for f in long]]):
        g = jit(f)
        entry = g.lower(a)._entry
        assert found.add(entry.jaxpr, entry.consts, check_of(g, a, tree.leaves(g(a)), number), str(number)), found.refused
    found.run(tmp_path)


# -- loops, derivatives and several functions


def lorenz(p: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        x, y, z = s
        return s + 0.01 * np.array([p[0] * (y - x), x * (p[1] - z) - y, x * y - p[2] * z]), s

    last, path = scan(step, np.ones(3), None, length=50)
    return np.sum(last**2) + 1e-3 * np.sum(path)


def export(folder: Path, f: Any, *args: Any, name: str = "model", **options: Any) -> Any:
    """The library of one function, and further ones."""
    jit(f).export_c(folder / name, *args, overwrite=True, **options)
    return c_compiler.loaded(folder / name, flags=["-O2"])


def test_a_loop_and_its_derivatives_in_one_library(tmp_path: Path) -> None:
    p = np.array([10.0, 28.0, 8 / 3])
    also = {
        "gradient": grad(lorenz),
        "both": value_and_grad(lorenz),
        "hessian": hessian(lorenz),
        "push": (lambda p, t: jvp(lorenz, (p,), (t,)), p, np.ones(3)),
        "many": (vmap(grad(lorenz)), np.stack([p, p + 1])),
    }
    library = export(tmp_path, lorenz, p, also=also)
    assert sorted(library.functions) == ["model", *[f"model_{name}" for name in sorted(also)]]
    assert_close(library.model(p), lorenz(p), rtol=1e-12)
    for name, given in also.items():
        f, *args = given if type(given) is tuple else (given, p)
        for a, b in zip(several(getattr(library, f"model_{name}")(*args)), tree.leaves(f(*args)), strict=True):
            assert_close(a, b, rtol=1e-9)


def test_a_while_loop_and_branches(tmp_path: Path) -> None:
    def f(x: Any, i: Any) -> Any:
        _, y = while_loop(lambda c: c[0] > 1e-3, lambda c: (c[0] * 0.5, np.sin(c[1]) + c[0]), (np.sum(x * x), x))
        return funcad.lax.switch(i, [lambda y: y, lambda y: y * 2, lambda y: y[::-1]], y)

    x = np.array([0.3, -1.2, 2.0])
    library = export(tmp_path, f, x, 1)
    for i in (-3, 0, 1, 2, 7):
        assert_close(library.model(x, i), jit(f)(x, i), rtol=1e-13)


def test_carries_that_change_places_and_are_written(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, i: Any) -> Any:
            a, b, n, m = carry
            new = a.copy()
            new[i] = b[0] + n
            return (b[::-1], new, m, n + 1), a[i]

        return scan(step, (x, 2 * x, 0.0, 1.0), np.arange(4))

    x = np.arange(5.0)
    for a, b in zip(export(tmp_path, f, x).model(x), tree.leaves(jit(f)(x)), strict=True):
        assert np.array_equal(a, b)


def test_elements_of_a_carry_are_written_in_place(tmp_path: Path) -> None:
    """A turn costs what it writes, not the whole array."""

    def f(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            x = x.copy()
            x[i + 1] = np.sin(x[i]) + x[i + 1]
            return x

        return funcad.fori_loop(0, 999, turn, x)

    x = np.linspace(0.0, 1.0, 1000)
    jit(f).export_c(tmp_path / "model", x)
    text = (tmp_path / "model.c").read_text()
    loop = text[text.rindex("for (int64_t i") if "for (;;)" not in text else text.index("for (;;)") :]
    assert "memcpy" not in loop and "< 1000" not in loop
    assert_close(c_compiler.loaded(tmp_path / "model").model(x), jit(f)(x), rtol=1e-13)


def test_the_workspace_holds_what_lives_at_one_time(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = np.cumsum(np.sort(x))[::-1] / 3
        return x

    library = export(tmp_path, f, np.linspace(0.0, 1.0, 1000))
    header = (tmp_path / "model.h").read_text()
    assert 8000 < int(re.search(r"MODEL_WORK INT64_C\((\d+)\)", header)[1]) < 6 * 8064
    x = np.random.default_rng(0).normal(size=1000)
    assert_close(library.model(x), jit(f)(x), rtol=1e-12)


def test_functions_may_run_in_several_threads(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return np.linalg.solve(x @ x.T + np.eye(40), np.cumsum(np.sort(x[0])))

    library, rng = export(tmp_path, f, np.zeros((40, 40))), np.random.default_rng(0)
    given = [rng.normal(size=(40, 40)) for _ in range(8)]
    expected, wrong = [library.model(x) for x in given], []

    def run(i: int) -> None:
        for _ in range(50):
            if not np.array_equal(library.model(given[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_statuses_are_the_errors_of_python(tmp_path: Path) -> None:
    also = {
        "solve": (np.linalg.solve, np.eye(2), np.ones(2)),
        "cholesky": (np.linalg.cholesky, np.eye(2)),
        "inverse": (np.linalg.inv, np.eye(3)),
    }
    library = export(tmp_path, lambda x, i: x[i], np.arange(3.0), 1, also=also)
    assert library.model(np.arange(3.0), -1) == 2.0
    for i in (3, -4, 2**62):
        with pytest.raises(IndexError):
            library.model(np.arange(3.0), i)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        library.model_solve(np.ones((2, 2)), np.ones(2))
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        library.model_inverse(np.zeros((3, 3)))
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        library.model_cholesky(-np.eye(2))
    assert np.array_equal(library.model_solve(2 * np.eye(2), np.ones(2)), [0.5, 0.5])


def test_arithmetic_is_numpys_bit_for_bit(tmp_path: Path) -> None:
    """No product and sum is rounded once; NaN, infinities and zeros are NumPy's."""

    def f(x: Any, n: Any) -> Any:
        return np.sqrt(x * x - x * x), x * x + x, x % 0.3, x // 0.7, np.maximum(x, -0.0), n // 3, n % -3, n << 40, n * n, -n

    x = np.array([0.1, -0.0, 1e300, np.inf, np.nan, -7.3])
    n = np.array([-(2**63), 2**63 - 1, 7, -7, 0, 3])
    found = export(tmp_path, f, x, n).model(x, n)
    with np.errstate(all="ignore"):
        for a, b in zip(found, f(x, n), strict=True):
            assert a.dtype == b.dtype and np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("flags", [("-O1",), ("-O3", "-march=native")], ids=["libm", "native"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_elementary_functions(dtype: Any, flags: tuple[str, ...], tmp_path: Path) -> None:
    """libm's, or our polynomials where the processor has a fused multiply-add: within 2 units in the last place."""
    names = "exp exp2 expm1 log log1p log2 log10 tanh sin cos sinh arctan".split()
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, np.finfo(dtype).tiny, np.finfo(dtype).max, 88.7, 709.7, -745.0]
    x = np.concatenate([rng.normal(size=3000) * 10.0 ** rng.uniform(-20, 3, 3000), 1 + 1e-3 * rng.normal(size=3000), special])
    x = x.astype(dtype)
    f = jit(lambda x: [getattr(np, name)(x) for name in names])
    f.export_c(tmp_path / "model", x)
    found = c_compiler.loaded(tmp_path / "model", flags=flags).model(x)
    wide = x.astype(np.longdouble)
    for name, out in zip(names, found, strict=True):
        expected = getattr(np, name)(wide)
        rounded = expected.astype(dtype)
        assert out.dtype == dtype and np.array_equal(np.isnan(out), np.isnan(rounded)), name
        assert np.array_equal(np.isinf(out), np.isinf(rounded)), name
        zero = rounded == 0
        assert not out[zero].any() and np.array_equal(np.signbit(out[zero]), np.signbit(rounded[zero])), name
        finite = np.isfinite(rounded)
        assert np.all(np.abs(out[finite] - expected[finite]) <= 2 * np.spacing(np.abs(rounded[finite]))), name


def test_products_by_blas_are_the_same(tmp_path: Path) -> None:
    """The calls of CBLAS, by one of our own that says that it was asked."""
    jit(lambda a, b, v: (a @ b, a.T @ b, a @ b.T, (a @ v), a[::2] @ b[:, 1:])).export_c(
        tmp_path / "model", np.ones((12, 12)), np.ones((12, 12)), np.ones(12)
    )
    (tmp_path / "cblas.h").write_text(_CBLAS)
    library = tmp_path / "libblas.so"
    c_compiler.run(
        "gcc", "-std=c99", "-O2", "-DFC_BLAS", f"-I{tmp_path}", *c_compiler.FLAGS, "-Wno-unused-variable", "-shared", "-fPIC",
        tmp_path / "model.c", "-o", library, "-lm",
    )  # fmt: skip
    model = funcad.load_c(library, tmp_path / "model.h")
    rng = np.random.default_rng(0)
    a, b, v = rng.normal(size=(12, 12)), rng.normal(size=(12, 12)), rng.normal(size=12)
    for x, y in zip(model.model(a, b, v), (a @ b, a.T @ b, a @ b.T, a @ v, a[::2] @ b[:, 1:]), strict=True):
        assert_close(x, y, rtol=1e-13)
    assert ctypes.c_int.in_dll(ctypes.CDLL(os.fspath(library)), "calls_of_blas").value >= 3


_CBLAS = """enum { CblasRowMajor = 101, CblasNoTrans = 111, CblasTrans = 112 };
int calls_of_blas = 0;
static void cblas_dgemm(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
    int ldb, double beta, double *c, int ldc) {
    calls_of_blas += order == CblasRowMajor && beta == 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < n; j++) {
            double t = 0;
            for (int l = 0; l < k; l++)
                t += a[ta == CblasTrans ? l * lda + i : i * lda + l] * b[tb == CblasTrans ? j * ldb + l : l * ldb + j];
            c[i * ldc + j] = alpha * t;
        }
}
"""
