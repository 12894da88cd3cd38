"""funcad beside PyTorch, PyTensor, xarray, pandas, pint, astropy and scikit-learn, where they are installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, vmap
from funcad.interop import to_pytensor, to_torch
from funcad.testing import check_grads

X = np.array([0.1, 0.2, 0.3])
Y = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


def energy(x: Any, y: Any, c: Any = 2.0) -> Any:
    return np.sum(np.sin(x) ** 2 * y) * c


def square(x: Any) -> Any:
    return np.sum(x**2)


def thrice(f: Any) -> Any:
    """What a jitted function gives at its third call; all three must be equal."""

    def call(x: Any) -> Any:
        first, second, third = [f(x) for _ in range(3)]
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(second, third)
        return third

    return call


WAYS = {  # transforms of a function of an array that gives a number; the derivative or the value is compared
    "plain": lambda f: f,
    "grad": grad,
    "jvp": lambda f: lambda x: funcad.jacfwd(f)(x),
    "vmap": lambda f: lambda x: vmap(f)(np.stack([x, x]))[1],
    "jit": lambda f: thrice(jit(f)),
    "jit of grad": lambda f: thrice(jit(grad(f))),
}


def agrees(f: Any, way: str, value: Any, slope: Any) -> None:
    np.testing.assert_allclose(WAYS[way](f)(X), slope if "grad" in way or way == "jvp" else value)


class Foreign:
    """An array of an unknown library that hands over its memory."""

    shape, dtype = (3,), "float64 of its own"

    def __dlpack__(self, **options: Any) -> Any:
        return X.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return X.__dlpack_device__()


@pytest.mark.parametrize("use", [grad(square), jit(square), vmap(np.sin), funcad.hessian(square)])
def test_arrays_of_an_unknown_library_name_dlpack(use: Any) -> None:
    with pytest.raises(TypeError, match=r"Remedy: np\.from_dlpack\(x\)"):
        use(Foreign())
    np.testing.assert_array_equal(use(np.from_dlpack(Foreign())), use(X))


def test_torch_derivatives_of_both_orders() -> None:
    torch = pytest.importorskip("torch")
    f = to_torch(energy)
    x, y = torch.tensor(X, requires_grad=True), torch.tensor(Y, requires_grad=True)
    assert torch.autograd.gradcheck(f, (x, y, 3.0), nondet_tol=1e-10)
    assert torch.autograd.gradgradcheck(f, (x, y), nondet_tol=1e-10)
    z = torch.tensor(X + 1j, requires_grad=True)
    g = to_torch(lambda z: np.exp(z) * np.conj(z))
    assert torch.autograd.gradcheck(g, (z,), nondet_tol=1e-10)
    assert torch.autograd.gradgradcheck(g, (z,), nondet_tol=1e-10)


def test_torch_fifth_derivative_and_types() -> None:
    torch = pytest.importorskip("torch")
    t = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    out = to_torch(lambda x: x**5)(t)
    for expected in [80.0, 160.0, 240.0, 240.0, 120.0]:
        (out,) = torch.autograd.grad(out, t, create_graph=True)
        assert out.item() == pytest.approx(expected)
    single = torch.ones(3, requires_grad=True)
    to_torch(lambda x: np.sum(x * x))(single).backward()
    assert single.grad.dtype == torch.float32 and single.grad.tolist() == [2.0] * 3
    assert not to_torch(np.argsort)(single).requires_grad
    assert to_torch(np.sin)(torch.zeros(0, 3)).shape == (0, 3)


def test_torch_results_are_new_and_operands_stay() -> None:
    torch = pytest.importorskip("torch")
    x = torch.tensor(X)
    result = to_torch(lambda x: x)(x)
    result[0] = 9.0
    assert x[0] == 0.1

    def writes(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x)

    with pytest.raises(ValueError, match="read-only"):
        to_torch(writes)(x)
    assert x[0] == 0.1


def test_torch_refusals() -> None:
    torch = pytest.importorskip("torch")
    f = to_torch(square)
    with pytest.raises(TypeError, match=r"is a ndarray, no tensor.\nRemedy: torch.as_tensor"):
        f(X)
    with pytest.raises(TypeError, match=r"sparse_coo.*\n*Remedy: x.cpu\(\) or x.to_dense\(\)"):
        f(torch.ones(3).to_sparse())
    with pytest.raises(TypeError, match=r"on meta"):
        f(torch.ones(3, device="meta"))
    with pytest.raises(TypeError, match=r"to_torch: the function returned a tuple.*\nRemedy: make one function"):
        to_torch(lambda x: (x, x))(torch.ones(3))
    t = torch.tensor(X)
    for use in [grad(square), jit(square), vmap(np.sin), funcad.jacfwd(np.sin)]:
        with pytest.raises(TypeError, match=r"got a torch Tensor.*\nRemedy: np.from_dlpack"):
            use(t)
    for product in [lambda x: np.sum(x * t), lambda x: np.sum(t * x)]:
        for use in [grad(product), jit(product)]:
            with pytest.raises(TypeError, match=r"Remedy: np.from_dlpack"):
                use(X)
    np.testing.assert_array_equal(grad(square)(np.from_dlpack(t)), 2 * X)


def test_pytensor_derivatives_of_both_orders() -> None:
    pytensor = pytest.importorskip("pytensor")
    x, y = pytensor.tensor.vector("x", shape=(3,)), pytensor.tensor.matrix("y", shape=(2, 3))
    value = to_pytensor(energy)(x, y)
    assert value.type.shape == () and value.type.dtype == "float64"
    slopes = pytensor.grad(value, [x, y])
    mixed = pytensor.grad(slopes[0][0] * slopes[1].sum(), [x, y])
    run = pytensor.function([x, y], [value, *slopes, *mixed], mode="FAST_COMPILE")
    got = run(X, Y)

    def both(x: Any, y: Any) -> Any:
        a, b = grad(energy, (0, 1))(x, y)
        return a[0] * np.sum(b)

    for found, expected in zip(got, [energy(X, Y), *grad(energy, (0, 1))(X, Y), *grad(both, (0, 1))(X, Y)]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_pytensor_integers_writes_and_refusals() -> None:
    pytensor = pytest.importorskip("pytensor")
    pt = pytensor.tensor
    x, i = pt.vector("x", shape=(3,)), pt.as_tensor_variable(np.array([0, 0, 2]))
    slope = pytensor.grad(to_pytensor(lambda x, i: np.sum(x[i]))(x, i), x)
    assert pytensor.function([x], slope, mode="FAST_COMPILE")(X).tolist() == [2.0, 0.0, 1.0]

    def writes(x: Any) -> Any:
        x[0] = 5.0
        return np.sum(x)

    with pytest.raises(ValueError, match="read-only"):
        pytensor.function([x], to_pytensor(writes)(x), mode="FAST_COMPILE")(X)
    assert X[0] == 0.1
    with pytest.raises(TypeError, match=r"argument 0.*\nRemedy: pytensor.tensor.specify_shape"):
        to_pytensor(square)(pt.vector("u"))
    with pytest.raises(TypeError, match=r"to_pytensor: the function returned a tuple"):
        to_pytensor(lambda x: (x, x))(x)


def test_xarray() -> None:
    xr = pytest.importorskip("xarray")
    a = xr.DataArray(X, dims="x", coords={"x": [1, 2, 3]})
    for loss in [
        lambda x: (a * x).sum().data,
        lambda x: (x * a).sum("x").data,
        lambda x: (xr.DataArray(x, dims="x", coords=a.coords) * a).sum().data,
        lambda x: np.sum(xr.apply_ufunc(np.multiply, xr.DataArray(x, dims="x"), a).data),
    ]:
        np.testing.assert_allclose(grad(loss)(X), X)
        np.testing.assert_allclose(jit(grad(loss))(X), X)
    slope = xr.apply_ufunc(grad(square), a, input_core_dims=[["x"]], output_core_dims=[["x"]])
    assert slope.coords.equals(a.coords)
    np.testing.assert_allclose(slope.data, 2 * X)
    for use in [grad(square), jit(square), vmap(np.sin), jit(lambda x: x * a), funcad.jacrev(lambda x: x * a)]:
        with pytest.raises(TypeError, match=r"got a xarray DataArray.*\nRemedy: x.data"):
            use(a if use.__name__ != "<lambda>" else X)
    with pytest.raises(TypeError, match=r"Remedy: x\.data"):
        grad(lambda x: np.sum(x * a))(X)


def test_what_a_librarys_code_does_says_to_call_the_library_elsewhere(tmp_path: Any) -> None:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    source = "def f(x):\n    x.setflags(write=False)\n    return x.sum()\n"
    (folder / "locking.py").write_text(source)
    names: dict[str, Any] = {}
    exec(compile(source, str(folder / "locking.py"), "exec"), names)
    with pytest.raises(TypeError, match=r"Remedy: call the library in funcad\.debug\.callback"):
        grad(names["f"])(X)
    exec(compile(source, str(tmp_path / "own.py"), "exec"), names)
    with pytest.raises(TypeError, match=r"Remedy: leave it out"):
        grad(names["f"])(X)


class DataError(Exception):
    """pandas', which is no TypeError."""


def test_what_pandas_says_of_traced_windows() -> None:
    def f(x: Any) -> Any:
        raise DataError("No numeric types to aggregate")

    with pytest.raises(DataError) as raised:
        grad(f)(X)
    assert "sliding_window_view(x, n).mean(-1)" in raised.value.__notes__[0]


class Holder:
    """An object of xarray's that holds an array, as NumPy sees it."""

    __module__ = "xarray.stand_in"

    def __init__(self, x: Any):
        self.data = x

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.data


@pytest.mark.parametrize("way", WAYS)
def test_namespaces_have_numpys_modules(way: str) -> None:
    def windows(x: Any) -> Any:
        xp = x.__array_namespace__() if hasattr(x, "__array_namespace__") else np
        return xp.lib.stride_tricks.sliding_window_view(x, 2).sum()

    agrees(windows, way, X.sum() + X[1], [1, 2, 1])
    for name in "char dtypes emath exceptions lib ma polynomial random rec strings testing typing".split():
        assert getattr(funcad.numpy, name) is getattr(np, name)


@pytest.mark.parametrize("way", WAYS)
def test_an_order_by_objects_beside_traced_values(way: str) -> None:
    order = np.array([2.0, 0.0, 1.0])
    agrees(lambda x: x[np.lexsort((Holder(order), np.zeros_like(x) * x))][0] * 2.0, way, 2 * X[1], [0, 2, 0])


@pytest.mark.parametrize("way", [name for name in WAYS if name != "plain"])
def test_objects_that_hold_traced_values(way: str) -> None:
    with pytest.raises(ValueError, match="not producing an array") as caught:
        WAYS[way](lambda x: np.sum(np.asarray(Holder(x)) * 2.0))(X)
    assert "x.data" in caught.value.__notes__[0]


@pytest.mark.parametrize("way", WAYS)
def test_xarray_inside(way: str) -> None:
    xr = pytest.importorskip("xarray")
    field = lambda x: xr.DataArray(x, dims="t", coords={"t": [0, 1, 2]})
    agrees(lambda x: field(x).rolling(t=2).mean().sum().data, way, 0.4, [0.5, 1, 0.5])
    agrees(lambda x: field(x).sortby("t", ascending=False)[0].data, way, X[2], [0, 0, 1])


def test_pint() -> None:
    pint = pytest.importorskip("pint")
    registry = pint.UnitRegistry()
    q = registry.Quantity(X, "m")
    loss = lambda x: np.sum((registry.Quantity(x, "m") ** 2).to("cm^2").magnitude)
    np.testing.assert_allclose(grad(loss)(X), 2e4 * X)
    np.testing.assert_allclose(jit(grad(loss))(X), 2e4 * X)
    np.testing.assert_allclose(grad(lambda x: np.sum(q * x).magnitude)(X), X)
    with pytest.raises(pint.DimensionalityError):
        grad(lambda x: np.sum(np.sin(registry.Quantity(x, "m"))).magnitude)(X)
    for use in [lambda: grad(square)(q), lambda: jit(square)(q), lambda: grad(lambda x: np.sum(x * q))(X)]:
        with pytest.raises(TypeError, match=r"Remedy: x\.magnitude"):  # a zero gradient and a traced value, before
            use()
    with pytest.raises(TypeError, match=r"Remedy: x\.magnitude"):
        jit(lambda x: x * q)(X)


def test_astropy() -> None:
    units = pytest.importorskip("astropy.units")
    q = X * units.m
    for use in [lambda: grad(square)(q), lambda: jit(square)(q), lambda: vmap(square)(q)]:
        with pytest.raises(TypeError, match=r"Remedy: x.to_value\(unit\)"):  # the unit was lost, before
            use()
    for product in [lambda x: x * q, lambda x: q * x, lambda x: np.multiply(q, x)]:
        with pytest.raises(TypeError, match=r"Remedy: x.to_value\(unit\)"):
            grad(lambda x: np.sum(product(x)))(X)  # noqa: B023 called here
    np.testing.assert_allclose(grad(lambda x: np.sum(x * q.to_value("cm")))(X), 100 * X)


def test_pandas() -> None:
    pd = pytest.importorskip("pandas")
    s, frame = pd.Series(X, index=list("abc")), pd.DataFrame({"a": X, "b": X})
    for loss in [lambda x: np.sum(x * s), lambda x: np.sum(s * x)]:
        np.testing.assert_allclose(grad(loss)(X), X)
        np.testing.assert_allclose(jit(grad(loss))(X), X)
    np.testing.assert_allclose(grad(lambda x: np.sum(frame.T @ x))(X), 2 * X)
    np.testing.assert_allclose(grad(square)(s.to_numpy()), 2 * X)
    for use in ARGUMENTS:
        with pytest.raises(TypeError, match=r"got a pandas \w+.*\nRemedy: x.to_numpy\(\)"):
            use(s)


@pytest.mark.parametrize("change", [
    lambda frame: frame.__setitem__("x", [7.0, 7.0, 7.0]),
    lambda frame: frame.__setitem__("x", frame["x"] * 10.0),
    lambda frame: frame.isetitem(0, [8.0, 8.0, 9.0]),
    lambda frame: frame.loc.__setitem__((0, "x"), 100.0),
    lambda frame: frame.iloc.__setitem__((slice(None), 0), [5.0, 5.0, 6.0]),
    lambda frame: setattr(frame, "x", [3.0, 3.0, 9.0]),
])  # fmt: skip
def test_columns_of_a_frame_are_exchanged(change: Any) -> None:
    """pandas keeps them in compiled fields of what stands behind a frame."""
    pd = pytest.importorskip("pandas")
    for read in (lambda frame: frame["x"].sum(), lambda frame: frame.x.to_numpy().sum(), lambda frame: frame.values.sum()):
        frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": [4.0, 5.0, 6.0]})
        f = lambda w: w * read(frame)  # noqa: B023 called here
        jitted, slope = jit(f), jit(grad(f))
        for changed in (False, True):
            if changed:
                change(frame)
            for _ in range(4):
                assert jitted(2.0) == pytest.approx(2.0 * read(frame)) and slope(2.0) == pytest.approx(read(frame))


class Labelled(Holder):
    """What funcad sees of a Series of pandas."""

    __module__ = "pandas.stand_in"
    __pandas_priority__ = 3000

    def __init__(self) -> None:
        super().__init__(X)
        self.shape, self.dtype = X.shape, X.dtype


ARGUMENTS = [
    *[grad(square), funcad.value_and_grad(square), vmap(np.sin), vmap(jit(np.sin))],
    *[funcad.jacfwd(np.sin), funcad.jacrev(np.sin), funcad.hessian(square)],
    *[lambda x: funcad.jvp(square, (x,), (X,)), lambda x: funcad.vjp(square, x), lambda x: funcad.linearize(square, x)],
    lambda x: grad(lambda tree: square(tree["x"]))({"x": x, "y": X}),
]


@pytest.mark.parametrize("use", ARGUMENTS)
def test_series_are_no_arguments(use: Any) -> None:
    for _ in range(3):
        with pytest.raises(TypeError, match=r"got a pandas Labelled.*\nRemedy: x.to_numpy\(\)"):
            use(Labelled())


@pytest.mark.parametrize("way", WAYS)
def test_series_are_operands(way: str) -> None:
    labelled = Labelled()
    agrees(lambda x: np.sum(x * np.asarray(labelled) if isinstance(x, np.ndarray) else x * labelled), way, X @ X, X)


def test_minimize_takes_value_and_grad() -> None:
    scipy_optimize = pytest.importorskip("scipy.optimize")
    found = scipy_optimize.minimize(funcad.value_and_grad(lambda x: np.sum((x - Y[0]) ** 2)), np.zeros(3), jac=True)
    np.testing.assert_allclose(found.x, Y[0], rtol=1e-6)


def test_numpys_copy_mode() -> None:
    """array_api_compat writes `copy=` so; it was asked for its truth, which it refuses."""
    for mode in np._CopyMode.IF_NEEDED, np._CopyMode.ALWAYS:
        np.testing.assert_array_equal(grad(lambda x: square(np.array(x, copy=mode)))(X), 2 * X)  # noqa: B023


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_scikit_learns_array_api_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn", "1.8")
    pytest.importorskip("scipy", "1.17")
    # scikit-learn asks SciPy, which read the environment when it was imported, whether dispatch is wanted there too
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    monkeypatch.setattr("scipy._lib._array_api_override.SCIPY_ARRAY_API", True, raising=False)
    import sklearn.preprocessing as preprocessing

    data, weights = np.random.default_rng(0).normal(size=(6, 2)), np.arange(1.0, 13).reshape(6, 2)
    with __import__("sklearn").config_context(array_api_dispatch=True):
        for name in ["StandardScaler", "MinMaxScaler", "MaxAbsScaler", "Normalizer"]:
            scale = getattr(preprocessing, name)().fit_transform
            check_grads(lambda x: np.sum(scale(x) ** 3 * weights), (data,), order=1, modes=("rev",))  # noqa: B023


def test_scikit_learn_estimator() -> None:
    base = pytest.importorskip("sklearn.base")
    from sklearn.model_selection import cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    class Regression(base.RegressorMixin, base.BaseEstimator):  # type: ignore[misc, name-defined]
        def __init__(self, alpha: float = 1e-6) -> None:
            self.alpha = alpha

        def fit(self, x: Any, y: Any) -> Any:
            def loss(w: Any) -> Any:
                return np.mean(np.log1p((y - x @ w[1:] - w[0]) ** 2)) + self.alpha * np.sum(w[1:] ** 2)

            minimize = pytest.importorskip("scipy.optimize").minimize
            self.weights_ = minimize(jit(funcad.value_and_grad(loss)), np.zeros(x.shape[1] + 1), jac=True).x
            return self

        def predict(self, x: Any) -> Any:
            return x @ self.weights_[1:] + self.weights_[0]

    draws = np.random.default_rng(0)
    x = draws.normal(size=(60, 2))
    y = x @ [2.0, -1.0] + 0.5 + draws.normal(scale=0.1, size=60)
    assert cross_val_score(make_pipeline(StandardScaler(), Regression()), x, y, cv=3).min() > 0.9
    assert base.clone(Regression(alpha=0.5)).alpha == 0.5
