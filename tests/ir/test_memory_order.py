"""order="K" and order="A": traced values are read as NumPy would read them, or refused; never in another order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import lax

pytestmark = pytest.mark.share(2)  # of its tables of cases

RNG = np.random.default_rng(5)
C = RNG.normal(size=(2, 3))
F = np.asfortranarray(C)
WEIGHTS = np.arange(6.0)

LAYOUTS = {
    "C": C,
    "Fortran": F,
    "Fortran, rank 3": np.asfortranarray(RNG.normal(size=(2, 3, 4))),
    "axes in another order": RNG.normal(size=(3, 4, 2)).transpose(2, 0, 1),
    "every second": np.asfortranarray(RNG.normal(size=(4, 6)))[::2, ::2],
    "backwards": np.asfortranarray(RNG.normal(size=(3, 3)))[::-1],
}
ONE = {
    name: getattr(np, name)
    for name in (
        "sin abs square negative conjugate real imag sign floor cumsum sort flip fliplr rot90 tril triu nan_to_num round copy "
        "zeros_like ones_like transpose squeeze atleast_3d diff gradient sinc angle median ptp positive median isfinite "
        "unwrap trunc matrix_transpose diagonal ediff1d nancumsum cov"
    ).split()
}
MADE: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: np.sum(x, axis=0),
    "sum over two axes": lambda x: np.sum(x[..., None], axis=(0, -1)),
    "mean, kept": lambda x: x - x.mean(axis=-1, keepdims=True),
    "maximum, kept": lambda x: np.max(x, axis=0, keepdims=True) * x,
    "std": lambda x: (x - x.mean(0)) / x.std(0),
    "any": lambda x: np.any(x > 0.0, axis=0),
    "argsort": lambda x: np.argsort(x, axis=0),
    "percentile": lambda x: np.percentile(x, 30, axis=0),
    "roll": lambda x: np.roll(x, 1, axis=0),
    "repeat": lambda x: np.repeat(x, 2, axis=0),
    "repeat of one": lambda x: np.repeat(x[..., :1], 3, axis=-1),
    "tile of one": lambda x: np.tile(x[..., :1], 3),
    "take": lambda x: np.take(x, [0, 0, 1], axis=1),
    "delete": lambda x: np.delete(x, 0, axis=1),
    "insert": lambda x: np.insert(x, 1, 7.0, axis=1),
    "append": lambda x: np.append(x, x, axis=0),
    "concatenate": lambda x: np.concatenate([x, x], axis=1),
    "concatenate one": lambda x: np.concatenate([x]),
    "stack": lambda x: np.stack([x, x], axis=1),
    "stack one": lambda x: np.stack([x]),
    "split": lambda x: np.split(x, [1], axis=-1)[1],
    "pad": lambda x: np.pad(x, 1),
    "pad with the edge": lambda x: np.pad(x, 1, mode="edge"),
    "kron": lambda x: np.kron(x, x),
    "outer": lambda x: np.outer(x, x),
    "times C": lambda x: x * np.ones(x.shape),
    "C times": lambda x: np.ones(x.shape) * x,
    "times F": lambda x: np.asfortranarray(np.ones(x.shape)) + x,
    "times a row": lambda x: x * np.ones(x.shape[-1]),
    "times a column": lambda x: x * np.ones((*x.shape[:-1], 1)),
    "rows by columns": lambda x: x[..., :1, :] * x[..., :, :1],
    "scalars": lambda x: 2 * x + 1 - x / 3.0,
    "powers": lambda x: x**2 + x**3.0 + x**0,
    "where": lambda x: np.where(x > 0, x, 0.0),
    "where of C": lambda x: np.where(np.ones(x.shape) > 0, x, x),
    "where of a row": lambda x: np.where(x > 0, x, x.mean(0)),
    "maximum": lambda x: np.maximum(x, np.ones(x.shape[-1])),
    "clip": lambda x: np.clip(x, x - 1, np.ones(x.shape)),
    "hypot": lambda x: np.hypot(x, np.ones(x.shape)),
    "select": lambda x: np.select([x > 0], [x], 0.0),
    "choose": lambda x: np.choose((x > 0).astype(int), [x, 2 * x]),
    "piecewise": lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda y: -y, lambda y: y]),
    "matmul": lambda x: x @ np.swapaxes(x, -1, -2),
    "dot": lambda x: np.dot(x, np.ones((x.shape[-1], 4))),
    "einsum of one": lambda x: np.einsum("...ij->...ji", x),
    "einsum": lambda x: np.einsum("...ij,jk->...ki", x, np.ones((x.shape[-1], 2))),
    "solve": lambda x: np.linalg.solve(np.eye(x.shape[-2]), x),
    "row": lambda x: x[0],
    "columns": lambda x: x[..., ::2],
    "new axis": lambda x: x[None, :, None],
    "reversed": lambda x: x[::-1] * 2.0,
    "integers": lambda x: x[:, [1, 0]],
    "mask": lambda x: x[np.array([True] * x.shape[0])],
    "transposed": lambda x: x.T + 1.0,
    "swapped": lambda x: np.swapaxes(x, 0, 1),
    "reshape": lambda x: x.reshape(-1, x.shape[0]),
    "reshape of a transpose": lambda x: x.T.reshape(-1, x.shape[0]),
    "reshape to itself": lambda x: x.reshape(x.shape),
    "reshape in F": lambda x: np.reshape(x, (-1, x.shape[0]), order="F"),
    "reshape in A": lambda x: np.reshape(x, (-1, x.shape[0]), order="A"),
    "expand": lambda x: np.expand_dims(x, 1),
    "broadcast": lambda x: np.broadcast_to(x, (2, *x.shape)),
    "broadcast together": lambda x: np.broadcast_arrays(x, x[0])[1] * 1.0,
    "meshgrid": lambda x: np.meshgrid(x.reshape(-1), [1.0, 2.0])[0],
    "copy": lambda x: x.copy(),
    "copy in K": lambda x: x.copy("K"),
    "copy in F": lambda x: x.copy("F"),
    "copy in A": lambda x: np.copy(x, order="A"),
    "copy backwards": lambda x: np.copy(x[::-1]),
    "astype": lambda x: x.astype("f4"),
    "astype in C": lambda x: x.astype("f4", order="C"),
    "astype in F": lambda x: x.astype(float, order="F"),
    "array": lambda x: fnp.array(x),
    "array in F": lambda x: fnp.array(x, order="F"),
    "asarray in A": lambda x: fnp.asarray(x, order="A"),
    "asfortranarray": lambda x: fnp.asfortranarray(x),
    "ascontiguousarray": lambda x: fnp.ascontiguousarray(x),
    "like": lambda x: np.zeros_like(x) + x,
    "like, in F": lambda x: np.ones_like(x, order="F") * x,
    "full_like": lambda x: np.full_like(x, x.reshape(-1)[0]),
    "full": lambda x: fnp.full(x.shape, x.reshape(-1)[0]),
    "polyval": lambda x: np.polyval([1, 2, 3], x),
    "complex": lambda x: (x + 1j * x).real,
    "astype complex": lambda x: np.abs(x.astype(complex)),
    "stop_gradient": lambda x: funcad.stop_gradient(x),
    "round": lambda x: np.round(x, 1),
    "linspace": lambda x: np.linspace(x[0], x[1], 4),
    "F and C": lambda x: x.copy("F") + np.ones(x.shape),
    "vectorize": lambda x: np.vectorize(lambda t: 2.0 * t)(x),
    "vectorize of rows": lambda x: np.vectorize(lambda t: 2.0 * t, signature="(n)->(n)")(x),
    "frompyfunc": lambda x: np.frompyfunc(lambda t: 2.0 * t, 1, 1)(x).astype(float),
    "along an axis": lambda x: np.apply_along_axis(lambda t: 2.0 * t, 0, x),
    "isin": lambda x: np.isin(x, [1.0]) * 1.0,
}
FUNCTIONS = ONE | MADE


def ravelled(x: Any, how: str) -> Any:
    if how == "beside F":  # shows where strides are 0 that are not so in NumPy, or the other way round
        return np.ravel(x * np.asfortranarray(np.ones(x.shape)), order="K")
    return np.ravel(x, order=how)


@pytest.mark.share(12)
@pytest.mark.parametrize("how", ["K", "A", "beside F"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_read_as_numpys_are_or_refused(name: str, how: str) -> None:
    def f(x: Any) -> list[Any]:
        found = FUNCTIONS[name](x)
        return [ravelled(y, how) for y in (found if isinstance(found, (tuple, list)) else [found]) if np.ndim(y) > 1]

    for x in LAYOUTS.values():
        try:
            wanted = f(x)
        except ValueError:  # not for this rank
            continue
        for transformed in (funcad.jit(f), lambda x: funcad.vjp(f, x)[0], lambda x: funcad.jvp(f, (x,), (x,))[0]):
            try:
                found = transformed(x)
            except TypeError as error:
                assert "as it lies in memory, and how NumPy would lay it out is not known here" in str(error)
            else:
                assert len(found) == len(wanted)
                assert all(np.allclose(a, b, equal_nan=True) for a, b in zip(found, wanted))


KNOWN = ["abs", "times C", "rows by columns", "mean, kept", "where", "transposed", "reshape", "copy in F", "like"]


@pytest.mark.parametrize("name", KNOWN)
def test_what_is_computed_element_by_element_is_known(name: str) -> None:
    for x in LAYOUTS.values():
        f = lambda x: FUNCTIONS[name](x).ravel(order="K")
        for found in (funcad.jit(f)(x), funcad.vjp(f, x)[0], funcad.jvp(f, (x,), (x,))[0], funcad.vmap(f)(x[None])[0]):
            np.testing.assert_allclose(found, f(x))


def in_memory(x: Any) -> Any:
    return np.sum(np.sin(x.ravel(order="K")) * WEIGHTS)


def through_flatten(x: Any) -> Any:
    return np.sum(np.sin(x.flatten("A")) * WEIGHTS)


def through_reshape(x: Any) -> Any:
    return np.sum(np.sin(x.T.reshape(6, order="A")) * WEIGHTS)


def lanes(x: np.ndarray) -> np.ndarray:
    """Two examples that lie as x does."""
    both = np.empty((2, 6))
    axes = np.argsort([-s for s in x.strides], kind="stable")
    views = both.reshape(2, *[x.shape[i] for i in axes]).transpose(0, *[int(i) + 1 for i in np.argsort(axes)])
    views[:] = [x, x + 1.0]
    return views


@pytest.mark.share(4)
@pytest.mark.parametrize("f", [in_memory, through_flatten, through_reshape], ids=lambda f: f.__name__)
@pytest.mark.parametrize("x", [C, F], ids=["C", "F"])
def test_transformations(f: Any, x: np.ndarray) -> None:
    order = "K" if f is in_memory else "A"
    places = np.empty(x.shape)
    for i in range(6):
        one = np.zeros_like(x)
        one.reshape(-1, order="A")[i] = 1.0  # as it lies in memory
        places[one == 1.0] = i
    if f is not in_memory:
        assert order == "A" and np.array_equal(places, WEIGHTS.reshape(x.shape, order="F" if x.flags.f_contiguous else "C"))
    slope, bend = np.cos(x) * places, -np.sin(x) * places
    ones = np.ones(x.shape)
    grad, jit, vmap, jvp = funcad.grad, funcad.jit, funcad.vmap, funcad.jvp
    for g in (grad(f), jit(grad(f)), grad(jit(f)), funcad.jacfwd(f), funcad.jacrev(f), grad(funcad.checkpoint(f))):
        for _ in range(3):
            np.testing.assert_allclose(g(x), slope)
    for g in (
        lambda x: jvp(grad(f), (x,), (ones,))[1],
        lambda x: grad(lambda y: jvp(f, (y,), (ones,))[1])(x),
        grad(lambda y: np.sum(grad(f)(y))),
        lambda x: np.einsum("ijij->ij", funcad.hessian(f)(x)),
        jit(lambda x: np.einsum("ijij->ij", funcad.hessian(f)(x))),
    ):
        np.testing.assert_allclose(g(x), bend)
    both = lanes(x)
    wanted = np.cos(both) * places
    for g in (vmap(grad(f)), jit(vmap(grad(f))), vmap(jit(grad(f))), grad(lambda z: np.sum(vmap(f)(z)))):
        np.testing.assert_allclose(g(both), wanted)
    np.testing.assert_allclose(vmap(f, in_axes=2)(np.moveaxis(both, 0, 2)), [f(y) for y in both])
    np.testing.assert_allclose(vmap(f, axis_name="i", chunk_size=None)(both), [f(y) for y in both])


@pytest.mark.parametrize("x", [C, F], ids=["C", "F"])
def test_bodies_know_arguments_and_captured_arrays_but_no_carry(x: np.ndarray) -> None:
    wanted = x.ravel(order="K")
    read = lambda y: y.ravel(order="K")
    bodies = [
        lambda y: lax.scan(lambda c, a: (c + read(y), None), np.zeros(6), np.arange(2))[0] / 2.0,
        lambda y: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] + read(y)), (0, np.zeros(6)))[1],
        lambda y: lax.cond(y[0, 0] < 99.0, read, lambda z: 0.0 * z.ravel(), y),
        lambda y: lax.cond(y[0, 0] < 99.0, lambda: read(y), lambda: y.ravel()),
        lambda y: read(y * x) / read(x),
        lambda y: funcad.jit(read)(y),
        funcad.checkpoint(read),
    ]
    for body in bodies:
        np.testing.assert_allclose(body(x), wanted)
        np.testing.assert_allclose(funcad.jit(body)(x), wanted)
        np.testing.assert_allclose(funcad.vjp(body, x)[0], wanted)
    with pytest.raises(TypeError, match=r"(?s)ravel with order='K' at .*test_memory_order.py:\d+ .*order='C' or order='F'"):
        lax.scan(lambda c, a: (c, c.ravel(order="K")), x, np.arange(2))
    with pytest.raises(TypeError, match="is not known here"):
        funcad.jit(lambda y: read(np.sort(y)))(x)
    assert np.array_equal(funcad.jit(lambda y: np.sort(y).ravel(order="F"))(x), np.sort(x).ravel(order="F"))


def test_strides_are_part_of_the_signature_where_they_were_asked_for() -> None:
    asking = funcad.jit(lambda x, y: (x.ravel(order="K"), y * 2.0))
    plain = funcad.jit(lambda x: x.ravel() * 2.0)
    for x in (C, F, C, F[:, ::-1], F) * 3:
        assert np.array_equal(asking(x, C)[0], x.ravel(order="K"))
        assert np.array_equal(asking(x, F)[0], x.ravel(order="K"))
        assert np.array_equal(plain(x), 2.0 * x.ravel())
    assert asking.cache_info().currsize == 3 and plain.cache_info().currsize == 1
    reports: list[str] = []
    with funcad.explain_cache_misses(reports.append):
        asking(np.ones((2, 6))[:, ::2], C)
    assert "the memory order of arguments, which the function asks for (order='K' or 'A'), is another" in reports[0]
    compiled = funcad.jit(lambda x: x.ravel(order="K")).lower(F).compile()
    assert np.array_equal(compiled(F), F.ravel(order="K"))
    with pytest.raises(TypeError, match="was lowered for another one"):
        compiled(C)


def test_wrong_orders_are_refused_as_numpy_does() -> None:
    for f in (lambda x: x.ravel("X"), lambda x: x.reshape(6, order="K"), lambda x: x.flatten(order="CF")):
        for call in (f, funcad.grad(lambda x, f=f: np.sum(f(x)))):
            with pytest.raises(ValueError):
                call(C)
    assert np.array_equal(funcad.vjp(lambda x: x.ravel("f"), C)[0], C.ravel("F"))


def test_vectors_and_scalars_have_one_order_only() -> None:
    f = lambda x: np.sort(x).ravel(order="K") * 2.0
    x = np.array([3.0, 1.0, 2.0])
    assert np.array_equal(funcad.jit(f)(x), f(x)) and np.array_equal(funcad.jit(f)(x[None]), f(x[None]))
    assert np.array_equal(funcad.vjp(f, x[:, None])[0], f(x[:, None]))
    assert funcad.jit(lambda x: x.ravel(order="K"))(1.0) == np.ones(1)
    empty = np.zeros((2, 0, 3))
    assert funcad.jit(lambda x: np.flip(x).ravel(order="K"))(empty).shape == (0,)


STEPS: list[Callable[[Any, np.ndarray, int], Any]] = [
    lambda y, w, a: np.sin(y),
    lambda y, w, a: y.T,
    lambda y, w, a: np.swapaxes(y, a % y.ndim, (a // 7) % y.ndim),
    lambda y, w, a: y * w if y.shape == w.shape else y,
    lambda y, w, a: w.T + y if y.shape == w.T.shape else y,
    lambda y, w, a: y[::-1],
    lambda y, w, a: y[..., None],
    lambda y, w, a: y.reshape(-1, y.shape[0]),
    lambda y, w, a: y - y.mean(axis=a % y.ndim, keepdims=True),
    lambda y, w, a: y.copy("CFAK"[a % 4]),
    lambda y, w, a: np.where(y > 0.0, y, 0.5 * y),
    lambda y, w, a: y.sum(axis=a % y.ndim) if y.ndim > 2 else y,
    lambda y, w, a: np.zeros_like(y) + y,
    lambda y, w, a: np.broadcast_to(y, (2, *y.shape)),
    lambda y, w, a: y.astype(complex).real,
]


def any_layout(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    axes = rng.permutation(len(shape))
    steps = [int(rng.choice([1, 1, 1, -1, 2])) for _ in shape]
    whole = rng.normal(size=[shape[i] * abs(step) for i, step in zip(axes, steps)])
    part = whole[tuple([slice(None, None, step) for step in steps])]
    return part.transpose([int(i) for i in np.argsort(axes)])


@pytest.mark.share(4)
@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple([int(n) for n in rng.integers(1, 4, size=rng.integers(2, 4))])
    x, w = any_layout(rng, shape), any_layout(rng, shape)
    steps = [(STEPS[int(rng.integers(len(STEPS)))], int(rng.integers(100))) for _ in range(rng.integers(1, 6))]
    order = str(rng.choice(["K", "A"]))

    def f(x: Any) -> Any:
        for step, a in steps:
            x = step(x, w, a)
        return x.ravel(order=order)

    wanted = f(x)
    twice = np.lib.stride_tricks.as_strided(x, (2, *x.shape), (0, *x.strides))
    np.testing.assert_allclose(funcad.jit(f)(x), wanted)
    np.testing.assert_allclose(funcad.vjp(f, x)[0], wanted)
    np.testing.assert_allclose(funcad.jvp(f, (x,), (x,))[0], wanted)
    np.testing.assert_allclose(funcad.jit(lambda x: funcad.vjp(f, x)[0])(x), wanted)
    np.testing.assert_allclose(funcad.vmap(f)(twice), [wanted, wanted])
    np.testing.assert_allclose(funcad.jit(funcad.vmap(f))(twice), [wanted, wanted])


@pytest.mark.parametrize("lay", [np.ascontiguousarray, np.asfortranarray])
def test_arrays_that_may_be_written_lie_beside_traced_ones_as_numpys(lay: Any) -> None:
    def f(x: Any) -> Any:
        z = np.zeros(3)
        z[0] = x[0, 0]
        y = x * np.ones((2, 1))
        return np.ravel(y * np.asfortranarray(np.ones(x.shape)), order="K") + z[0]

    x = lay(np.arange(6.0).reshape(2, 3))
    jitted = funcad.jit(f)
    for found in (*[jitted(x) for _ in range(3)], funcad.vjp(f, x)[0], funcad.jvp(f, (x,), (x,))[0]):
        np.testing.assert_array_equal(found, f(x))


ASKED: dict[str, Callable[[Any], Any]] = {
    "ascontiguousarray": lambda x: np.ascontiguousarray(x.T),
    "copy": lambda x: x.T.copy(),
    "array in C": lambda x: np.array(x.T, order="C"),
    "astype in C": lambda x: x.T.astype("f4", order="C"),
    "of what was computed": lambda x: np.ascontiguousarray((x * 2.0).T),
    "of swapped axes": lambda x: np.copy(np.swapaxes(x * 2.0, 0, 1), order="C"),
    "asfortranarray": lambda x: np.asfortranarray(x * 2.0),
    "copy in F": lambda x: (x * 2.0).copy("F"),
    "and what follows": lambda x: np.sin(np.asfortranarray(x)) * x[0, 0] + 1.0,
    "zeros like it": lambda x: np.zeros_like(np.asfortranarray(x)),
    "ones like it": lambda x: np.ones_like(np.asfortranarray(x)) * x[0, 0],
    "running sums": lambda x: np.cumsum(x.copy("F"), axis=0),
    "running products": lambda x: np.cumprod(np.asfortranarray(x), axis=1),
    "written": lambda x: put_first(x.copy("F")),
    "two": lambda x: (np.ascontiguousarray(x.T), np.asfortranarray(x), x * 2.0),
    "rank 3": lambda x: np.stack([x, x]).copy("F").transpose(1, 0, 2) * 2.0,
    "a path": lambda x: np.ascontiguousarray(x.T) if x[0, 0] < 99.0 else np.asfortranarray(x),
}


def put_first(x: Any) -> Any:
    x[0] = 1.0
    return x


@pytest.mark.share(2)
@pytest.mark.parametrize("engine", ["auto", "numpy"])
@pytest.mark.parametrize("name", ASKED)
def test_results_lie_as_the_function_asked_at_each_call(name: str, engine: str) -> None:
    f = ASKED[name]
    for x in (C, F):
        jitted, wanted = funcad.jit(f), f(x)
        for _ in range(5):
            with funcad.config.set(engine=engine):
                found = jitted(x)
            for y, z in zip(found, wanted, strict=True) if type(wanted) is tuple else [(found, wanted)]:
                assert y.strides == z.strides
                np.testing.assert_allclose(y, z)


class Kept:
    a: Any
    b: Any


def test_what_is_stored_lies_as_the_function_asked() -> None:
    kept = Kept()

    def f(x: Any) -> Any:
        kept.a, kept.b = np.ascontiguousarray(x.T), np.asfortranarray(x * 2.0)
        return np.asfortranarray(x + 1.0)

    jitted = funcad.jit(f)
    for _ in range(5):
        result = jitted(C)
        assert kept.a.flags.c_contiguous and kept.b.flags.f_contiguous and result.flags.f_contiguous


def test_results_of_programs_that_write_or_were_compiled_lie_as_asked() -> None:
    def writes(x: Any) -> Any:
        x[0, 0] += 1.0
        return np.ascontiguousarray(x.T), np.asfortranarray(x)

    def both(x: Any) -> Any:
        return np.ascontiguousarray(x.T), np.asfortranarray(x * 2.0)

    donated, compiled = funcad.jit(both, donate_argnums=0), funcad.jit(both).lower(C).compile()
    for call in (funcad.jit(writes), donated, compiled):
        for _ in range(4):
            first, second = call(C.copy())
            assert first.flags.c_contiguous and second.flags.f_contiguous
    turned = funcad.jit(lambda x: np.ascontiguousarray(x.T))  # a program for each layout
    assert all([turned(x).flags.c_contiguous for x in (C, F, C, F, C, F)])


@pytest.mark.parametrize("f", [np.cumsum, np.cumprod, np.maximum.accumulate], ids=["sums", "products", "maxima"])
@pytest.mark.parametrize("seed", range(10))
def test_what_is_accumulated_lies_as_its_operand(f: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple([int(n) for n in rng.integers(2, 4, size=rng.integers(2, 4))])
    x = any_layout(rng, shape)
    g = lambda x: f(x, axis=0).ravel(order="K")
    for found in (funcad.jit(g)(x), funcad.jit(g).lower(x).compile()(x), funcad.vjp(g, x)[0], funcad.jvp(g, (x,), (x,))[0]):
        np.testing.assert_allclose(found, g(x))
