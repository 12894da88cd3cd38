"""`np.nditer`, `np.broadcast` and `statistics` of traced numbers, beside NumPy and Python."""

import statistics

import numpy as np
import pytest

from funcad import grad, hessian, jit, jvp, vmap
from funcad.jitted import first_calls

X = np.random.default_rng(3).uniform(0.5, 2.0, size=(2, 3))
D = np.random.default_rng(4).normal(size=(2, 3))


def read(x):
    total = 0.0
    for v in np.nditer(x):
        total = total * 0.9 + v * v
    return total


def written(x):
    y = x.T.copy()
    for v in np.nditer(y, op_flags=["readwrite"]):
        v[...] = 2 * v * v
    return (y * np.arange(y.size).reshape(y.shape)).sum()


def allocated(x):
    with np.nditer([x, None], op_flags=[["readonly"], ["writeonly", "allocate"]]) as it:
        for a, b in it:
            b[...] = a * 3 + a**2
        return (it.operands[1] * x).sum()


def indexed(x):
    it, total = np.nditer(x.T, flags=["multi_index", "f_index"], order="F"), 0.0
    while not it.finished:
        total = total + it[0] * it.multi_index[0] + it.index * it[0] ** 2
        it.iternext()
    return total


def rows(x):
    total = 0.0
    for i, row in enumerate(np.nditer(x, flags=["external_loop"], order="F")):
        total = total + (i + 1) * (row * np.arange(row.size)).sum()
    return total


def written_rows(x):
    y = x.copy()
    for row in np.nditer(y, flags=["external_loop"], op_flags=["readwrite"]):
        row *= 2
        row[0] = row[1]
    return (y**2).sum()


def beside(x):
    y = np.zeros(x.shape)
    for a, b, c in np.nditer([x, x[0], y], op_flags=[["readonly"], ["readonly"], ["writeonly"]]):
        c[...] = a * b
    return (y**2).sum()


def reduced(x):
    it = np.nditer([x, np.zeros(())], flags=["reduce_ok"], op_flags=[["readonly"], ["readwrite"]])
    for a, b in it:
        b[...] += a * a
    return it.operands[1] * 1.0


def backwards(x):
    y, total = x[::-1, ::-1], 0.0
    for order in "KCF":
        for i, v in enumerate(np.nditer(y, order=order)):
            total = total + i * v ** (1 + ord(order) % 3)
    return total


def again(x):
    it, total = np.nditer(x, flags=["c_index"]), 0.0
    for v in it:
        total = total + v * it.index
    it.reset()
    for v in it:
        total = total + v**2
    it.iterindex = 2
    return total + it.value + it[0] + len(it) + it.itersize


def together(x):
    b, total = np.broadcast(x, x[:, :1]), 0.0
    for p, q in b:
        total = total + p * q
    return total * b.nd + b.shape[1] * x[0, 0]


ITERATED = [
    read,
    written,
    allocated,
    indexed,
    rows,
    written_rows,
    beside,
    reduced,
    backwards,
    again,
    together,
]
EVEN = [1.0, 2.0, 4.0, 8.0, 3.0, 5.0]
SUMMARIES = {
    "mean": statistics.mean,
    "mean of a generator": lambda x: statistics.mean(v * v for v in x),
    "fmean": lambda x: statistics.fmean(x, weights=EVEN) + statistics.fmean(tuple(x)),
    "geometric": statistics.geometric_mean,
    "harmonic": lambda x: statistics.harmonic_mean(x) + statistics.harmonic_mean(x, weights=EVEN),
    "variance": lambda x: statistics.variance(x) + statistics.variance(x, xbar=x[0]),
    "pvariance": lambda x: statistics.pvariance(data=x) + statistics.pvariance(x, mu=x[1]),
    "deviations": lambda x: statistics.stdev(x) * statistics.pstdev(x),
    "covariance": lambda x: statistics.covariance(x, EVEN),
    "correlation": lambda x: statistics.correlation(EVEN, x),
    "a line": lambda x: (
        statistics.linear_regression(EVEN, x).slope + statistics.linear_regression(x, EVEN)[1]
    ),
    "through 0": lambda x: statistics.linear_regression(x, EVEN, proportional=True).slope,
    "order": lambda x: statistics.median(x) + statistics.median_high(x) + sum(statistics.quantiles(x)),
}


def agrees(f, x, d):
    value, step = f(x), 1e-6
    slope = (f(x + step * d) - f(x - step * d)) / (2 * step)
    gradient = grad(f)(x)
    assert np.sum(gradient * d) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert jvp(f, (x,), (d,))[1] == pytest.approx(slope, rel=1e-6, abs=1e-8)
    compiled = jit(f)
    for _ in range(3):
        assert compiled(x) == pytest.approx(value, rel=1e-13)
    assert type(compiled(x)) is type(value)
    np.testing.assert_allclose(vmap(jit(grad(f)))(np.stack([x, 2 * x]))[1], grad(f)(2 * x), rtol=1e-12)
    curved = np.tensordot(hessian(f)(x), d, x.ndim)
    there = (grad(f)(x + step * d) - grad(f)(x - step * d)) / (2 * step)
    np.testing.assert_allclose(curved, there, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("f", ITERATED, ids=lambda f: f.__name__)
def test_iterators(f):
    agrees(f, X, D)


@pytest.mark.parametrize("name", SUMMARIES)
def test_statistics(name):
    agrees(SUMMARIES[name], X.ravel(), D.ravel())


def test_what_statistics_raises_is_raised():
    with pytest.raises(statistics.StatisticsError, match="at least two"):
        grad(lambda x: statistics.variance(x[:1]))(X[0])
    with pytest.raises(statistics.StatisticsError, match="constant"):
        grad(lambda a: statistics.correlation([0 * a, 0 * a, 0 * a], [1.0, 2.0, 3.0]))(2.0)


def test_conversion_on_the_way_is_refused():
    def f(x):
        return sum(
            v for v in np.nditer(x, flags=["buffered"], op_dtypes=[np.float32], casting="same_kind")
        )

    with pytest.raises(
        TypeError, match=r"convert operand 0, float64, to float32(.|\n)*x\.astype\(np\.float32\)"
    ):
        grad(f)(X)
    assert (
        grad(lambda x: float(0) + sum(v for v in np.nditer(x.astype(np.float32))))(X).tolist()
        == np.ones((2, 3)).tolist()
    )


@pytest.mark.parametrize("order", "CFK")
@pytest.mark.parametrize("axes", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_rows_are_written_in_any_order_of_memory(axes, order):
    def f(x):
        y = x.transpose(axes).copy(order="K")
        with np.nditer(y, flags=["external_loop"], op_flags=["readwrite"], order=order) as rows:
            for row in rows:
                row[...] = row**2 * np.arange(1, len(row) + 1)
        return np.sum(y * np.arange(24).reshape(y.shape))

    x, step = np.random.default_rng(0).normal(size=(2, 3, 4)), np.full((2, 3, 4), 1e-6)
    assert np.sum(grad(f)(x) * step) == pytest.approx((f(x + step) - f(x - step)) / 2, rel=1e-6)
    assert [program(x) for program in [jit(f)] for _ in range(3)] == pytest.approx([f(x)] * 3, rel=1e-13)
    assert vmap(f)(np.stack([x, 2 * x])) == pytest.approx([f(x), f(2 * x)], rel=1e-13)


def test_rows_with_gaps_are_not_written(monkeypatch):
    def f(x, flags):
        y = x.copy()[:, ::2]
        for row in np.nditer(y, flags=flags, op_flags=["readwrite"], order="F"):
            row *= 2
        return y.sum()

    monkeypatch.setattr(first_calls, "OBSERVES", True)
    program = jit(lambda x: f(x, ["external_loop"]), not_compiled="ignore")
    assert [program(X) for _ in range(3)] == [2 * X[:, ::2].sum()] * 3
    with pytest.raises(ValueError, match=r"Remedy: leave flags=\['external_loop'\] out"):
        grad(f)(X, ["external_loop"])
    assert grad(f)(X, []).tolist() == [[2.0, 0.0, 2.0]] * 2
    with pytest.raises(
        AttributeError, match=r"Remedy: iterate over it, or over np\.broadcast_arrays\(x, y\)"
    ):
        grad(lambda x: next(np.broadcast(x, x).iters[0]))(X)
    with pytest.raises(ValueError, match="not to be written"):
        grad(lambda x: np.nditer([x, x]).__setitem__(0, x[0, 0]))(X)
