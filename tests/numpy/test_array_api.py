"""The array API standard, revision 2024.12: names, keywords and behaviour of `x.__array_namespace__()` on traced values.

The names and calls below are the standard's; the values to compare with are NumPy's. `DEVIATIONS` are those that NumPy itself
has.
"""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from funcad import tree
from funcad.errors import TracerArrayConversionError
from funcad.ir.tracer import Tracer
from funcad.numpy import array_api as xp

X = np.array([[-1.3, 0.4, 2.1], [0.7, -0.2, 1.6]])
Y = np.array([[0.6, -1.7, 0.9], [1.2, 2.3, -0.5]])
P = np.array([[0.3, 1.4, 2.2], [0.8, 3.1, 0.45]])
U = np.array([[0.3, -0.4, 0.2], [-0.8, 0.1, 0.6]])
A = np.array([[2.0, 0.3, 0.1], [0.3, 1.5, 0.2], [0.1, 0.2, 1.2]])
V = np.array([0.5, -1.5, 2.5])
C = np.array([0.5 + 0.3j, -1.2 + 0.8j, 0.9 - 0.4j])
I = np.array([[3, 4, 7], [1, 2, 6]])
J = np.array([[2, 3, 1], [1, 4, 2]])
B = np.array([[True, False, True], [False, True, True]])

# (name, arguments, keywords): arrays are traced
ELEMENTWISE = [
    *[
        (n, (X,))
        for n in "abs acosh asinh atan ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan".split()
        if n != "acosh"
    ],
    *[(n, (X,)) for n in "negative positive real reciprocal round sign signbit sin sinh square tan tanh trunc".split()],
    *[(n, (P,)) for n in "log log1p log2 log10 sqrt".split()],
    *[(n, (U,)) for n in "acos asin atanh".split()],
    ("acosh", (P + 1.0,)),
    *[(n, (X, Y)) for n in "add atan2 copysign divide equal greater greater_equal hypot less less_equal".split()],
    *[(n, (X, Y)) for n in "logaddexp maximum minimum multiply nextafter not_equal subtract".split()],
    *[(n, (X, P)) for n in "floor_divide remainder".split()],
    ("pow", (P, Y)),
    *[(n, (I, J)) for n in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift floor_divide".split()],
    ("bitwise_invert", (I,)),
    *[(n, (B, B[::-1].copy())) for n in "logical_and logical_or logical_xor".split()],
    ("logical_not", (B,)),
    *[(n, (C,)) for n in "abs conj exp imag real sqrt isnan sign".split()],
]
CALLS = [
    *[(n, a, {}) for n, a in ELEMENTWISE],
    ("clip", (X,), {"min": -1.0, "max": 1.0}),
    ("clip", (X, None, 0.5), {}),
    ("clip", (X,), {"max": P}),
    ("asarray", (X,), {"dtype": np.float32, "device": None, "copy": None}),
    ("astype", (X, np.float32), {"copy": True, "device": None}),
    *[(n, (X,), {"dtype": None, "device": None}) for n in "ones_like zeros_like".split()],
    ("full_like", (X, 2.0), {"dtype": np.float32, "device": None}),
    ("linspace", (np.float64(0.5), np.float64(2.0), 5), {"dtype": None, "device": None, "endpoint": False}),
    ("meshgrid", (V, X[0]), {"indexing": "ij"}),
    ("tril", (A,), {"k": 1}),
    ("triu", (A,), {"k": -1}),
    ("matmul", (X, A), {}),
    ("matrix_transpose", (X,), {}),
    ("tensordot", (X, A), {"axes": ((1,), (0,))}),
    ("vecdot", (X, Y), {"axis": 0}),
    ("broadcast_arrays", (X, V), {}),
    ("broadcast_to", (V, (2, 3)), {}),
    ("concat", ([X, Y],), {"axis": 1}),
    ("concat", ((X, Y),), {"axis": None}),
    ("expand_dims", (X,), {"axis": (0, 2)}),
    ("flip", (X,), {"axis": None}),
    ("moveaxis", (X, 0, 1), {}),
    ("permute_dims", (X, (1, 0)), {}),
    ("repeat", (X, 2), {"axis": 1}),
    ("repeat", (X, np.array([1, 2])), {"axis": 0}),
    ("reshape", (X, (3, 2)), {"copy": None}),
    ("roll", (X, (1, 2)), {"axis": (0, 1)}),
    ("squeeze", (X[:, None], 1), {}),
    ("squeeze", (X[:, None],), {"axis": (1,)}),
    ("stack", ([X, Y],), {"axis": -1}),
    ("tile", (X, (2, 1)), {}),
    ("unstack", (X,), {"axis": 1}),
    ("searchsorted", (V[[1, 0, 2]], X), {"side": "right", "sorter": None}),
    ("searchsorted", (V, X), {"sorter": np.array([1, 0, 2])}),
    ("nonzero", (B,), {}),
    ("count_nonzero", (X,), {"axis": 1, "keepdims": True}),
    ("where", (B, X, Y), {}),
    *[(n, (X,), {"axis": 1, "keepdims": True}) for n in "argmax argmin".split()],
    *[(n, (np.array([2.0, 1.0, 2.5]),), {}) for n in "unique_all unique_counts unique_inverse unique_values".split()],
    ("isin", (I, np.array([1, 7])), {"invert": True}),
    *[(n, (X,), {"axis": 0, "stable": True}) for n in "sort argsort".split()],
    *[(n, (X,), {"axis": (0, 1), "keepdims": True}) for n in "max mean min prod sum".split()],
    *[(n, (X,), {"axis": 1, "correction": 1.0, "keepdims": True}) for n in "std var".split()],
    *[(n, (X,), {"axis": 1, "dtype": np.float64, "keepdims": False}) for n in "sum prod".split()],
    *[(n, (X,), {"axis": 1, "dtype": None, "include_initial": True}) for n in "cumulative_sum cumulative_prod".split()],
    *[(n, (B,), {"axis": (0,), "keepdims": True}) for n in "all any".split()],
    ("diff", (X,), {"axis": 0, "n": 1, "prepend": Y[:1], "append": Y[1:]}),
    ("take", (X, np.array([1, 0])), {"axis": 1}),
    ("take_along_axis", (X, J[:, :1] % 2), {"axis": 1}),
    ("linalg.cholesky", (A,), {"upper": True}),
    ("linalg.cross", (X, V), {"axis": -1}),
    *[(f"linalg.{n}", (A,), {}) for n in "det eigvalsh inv matrix_transpose slogdet svdvals".split()],
    ("linalg.diagonal", (A,), {"offset": 1}),
    ("linalg.trace", (A,), {"offset": 1, "dtype": None}),
    ("linalg.eigh", (A,), {}),
    ("linalg.matmul", (X, A), {}),
    ("linalg.matrix_norm", (A,), {"keepdims": True, "ord": "nuc"}),
    ("linalg.matrix_power", (A, 3), {}),
    ("linalg.matrix_rank", (A,), {"rtol": 1e-3}),
    ("linalg.outer", (V, V), {}),
    ("linalg.pinv", (X,), {"rtol": 1e-10}),
    ("linalg.qr", (A,), {"mode": "complete"}),
    ("linalg.solve", (A, V), {}),
    ("linalg.svd", (X,), {"full_matrices": False}),
    ("linalg.tensordot", (X, A), {"axes": 1}),
    ("linalg.vecdot", (X, Y), {"axis": 0}),
    ("linalg.vector_norm", (X,), {"axis": (0, 1), "keepdims": True, "ord": 3}),
    *[(f"fft.{n}", (C,), {"n": 4, "axis": -1, "norm": "ortho"}) for n in "fft ifft irfft hfft".split()],
    *[(f"fft.{n}", (V,), {"n": None, "axis": 0, "norm": "forward"}) for n in "rfft ihfft".split()],
    *[(f"fft.{n}", (A + 0j,), {"s": (2, 3), "axes": (0, 1), "norm": "backward"}) for n in "fftn ifftn irfftn".split()],
    ("fft.rfftn", (A,), {"s": None, "axes": (0, 1), "norm": "backward"}),
    *[(f"fft.{n}", (X,), {"axes": 1}) for n in "fftshift ifftshift".split()],
]
UNTRACED = [  # nothing in them can be traced
    ("arange", (1, 9), {"step": 2, "dtype": np.float32, "device": None}),
    ("empty", ((2, 0),), {"dtype": np.float32, "device": None}),
    ("eye", (3, 4), {"k": 1, "dtype": np.float32, "device": None}),
    *[(n, ((2, 3),), {"dtype": np.float32, "device": None}) for n in "ones zeros".split()],
    ("full", ((2, 3), 1.5), {"dtype": np.float32, "device": None}),
    ("broadcast_shapes", ((2, 1), (3,)), {}),
    ("can_cast", (np.float32, np.float64), {}),
    ("isdtype", (np.dtype("f4"), ("real floating", "bool")), {}),
    ("fft.fftfreq", (5,), {"d": 0.5, "device": None}),
    ("fft.rfftfreq", (5,), {"d": 0.5, "device": None}),
]
OTHERS = "empty_like finfo iinfo from_dlpack result_type __array_namespace_info__ __array_api_version__".split()
CONSTANTS = "e inf nan newaxis pi".split()
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
METHODS = """
    __abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __eq__ __float__ __floordiv__ __ge__ __getitem__ __gt__
    __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__
    __radd__ __rand__ __rfloordiv__ __rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__
    __rtruediv__ __rxor__ __setitem__ __sub__ __truediv__ __xor__ __dlpack__ __dlpack_device__ to_device
""".split()
DEVIATIONS = {
    "sort": "NumPy has no descending= before 2.5",
    "argsort": "NumPy has no descending= before 2.5",
    "fft.fftfreq": "NumPy has no dtype=",
    "fft.rfftfreq": "NumPy has no dtype=",
    "diff": "NumPy takes prepend=None for a value",
}


def find(module, path):
    for part in path.split("."):
        module = getattr(module, part)
    return module


def traced_arrays(args, kwargs):
    """(leaves of the arrays, function of them giving the arguments back)."""
    leaves, structure = tree.flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, (np.ndarray, np.float64))]

    def back(*values):
        full = list(leaves)
        for i, v in zip(places, values):
            full[i] = v
        return structure.unflatten(full)

    return [leaves[i] for i in places], back


def same(found, expected):
    a, b = tree.leaves(found), tree.leaves(expected)
    assert len(a) == len(b)
    for x, y in zip(map(np.asarray, a), map(np.asarray, b)):
        assert x.shape == y.shape and x.dtype == y.dtype, f"{x.dtype}{x.shape} instead of {y.dtype}{y.shape}"
        np.testing.assert_allclose(x, y, rtol=1e-6 if x.dtype.char in "fF" else 1e-12, atol=1e-12)


BUILTIN = {"can_cast", "broadcast_shapes", "isdtype"}  # NumPy's own, some of them written in C
VARIADIC = {"meshgrid", "broadcast_arrays"}  # by the standard
VALUES_NEEDED = {"nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"}


@pytest.mark.share(3)
@pytest.mark.parametrize("name,args,kwargs", [pytest.param(*c, id=c[0]) for c in CALLS])
def test_calls_of_the_standard(name, args, kwargs):
    leaves, back = traced_arrays(args, kwargs)
    expected = find(np, name)(*args, **kwargs)

    def call(*values):
        namespace = next(v for v in values if isinstance(v, Tracer)).__array_namespace__(api_version="2024.12")
        a, k = back(*values)
        return find(namespace, name)(*a, **k)

    if name not in VALUES_NEEDED and not (name == "repeat" and isinstance(args[1], np.ndarray)):
        same(funcad.jit(call)(*leaves), expected)
    floats = [i for i, x in enumerate(leaves) if x.dtype.kind in "fc"]
    if floats:

        def with_floats(*values):
            full = list(leaves)
            for i, v in zip(floats, values):
                full[i] = v
            return call(*full)

        chosen = tuple(leaves[i] for i in floats)
        same(funcad.jvp(with_floats, chosen, chosen)[0], expected)
    a, k = back(*leaves)
    same(find(xp, name)(*a, **k), expected)
    same(find(fnp, name)(*a, **k), expected)


@pytest.mark.parametrize("name,args,kwargs", [pytest.param(*c, id=c[0]) for c in UNTRACED])
def test_calls_without_arrays(name, args, kwargs):
    expected = find(np, name)(*args, **kwargs)
    for namespace in (fnp, xp):
        found = find(namespace, name)(*args, **kwargs)
        same(found, expected) if isinstance(expected, np.ndarray) else None
        assert isinstance(expected, np.ndarray) or found == expected


@pytest.mark.parametrize("name,args,kwargs", [pytest.param(*c, id=c[0]) for c in CALLS + UNTRACED if c[0] not in BUILTIN])
def test_signatures_name_the_arguments(name, args, kwargs):
    """What an editor and `inspect` see takes the standard's call, by name, without a catch-all."""
    for namespace in (fnp, xp):
        signature = inspect.signature(find(namespace, name))
        signature.bind(*args, **kwargs)
        catch_all = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
        assert not catch_all or name == "meshgrid", f"{name}{signature}"
        assert name in VARIADIC or not [p for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL]


def test_finfo_and_iinfo_take_arrays_and_give_pythons_numbers():
    for dtype in ("float32", "float64", "complex64", "complex128"):
        x = np.zeros(2, dtype)
        real = x.real.dtype
        for asked in (dtype, x.dtype, x.dtype.type, x, x[0]):
            info = xp.finfo(asked)
            assert info.dtype == real and type(info.bits) is int and info.bits == 8 * real.itemsize
            for name in ("eps", "max", "min", "smallest_normal"):
                value = getattr(info, name)
                assert type(value) is float and value == getattr(np.finfo(real), name)
        assert funcad.jit(lambda x: x.real * x.__array_namespace__().finfo(x).eps)(x).dtype == real
    for dtype in ("int8", "uint16", "int64", "uint64"):
        x = np.zeros(2, dtype)
        for asked in (dtype, x.dtype, x.dtype.type, x, x[0]):
            info = xp.iinfo(asked)
            assert info.dtype == x.dtype and (info.bits, info.max, info.min) == (
                8 * x.itemsize, int(np.iinfo(dtype).max), int(np.iinfo(dtype).min)
            )  # fmt: skip
            assert {type(v) for v in (info.bits, info.max, info.min)} == {int}
        assert funcad.jit(lambda x: x - x.__array_namespace__().iinfo(x).min)(x).dtype == x.dtype
    assert "eps=" in repr(xp.finfo(float)) and xp.finfo(float).tiny == np.finfo(float).tiny
    with pytest.raises(ValueError, match="not inexact|not compatible with finfo"):
        xp.finfo(np.int64)
    with pytest.raises(ValueError, match="nvalid integer"):
        xp.iinfo(V)
    with pytest.raises(AttributeError, match="no_such"):
        xp.finfo(float).no_such  # noqa: B018 the lookup is what is tested


def test_lists_where_the_standard_says_lists():
    def f(x):
        namespace = x.__array_namespace__()
        lists = [namespace.meshgrid(x, x), namespace.broadcast_arrays(x, x[:, None])]
        assert [type(value) for value in lists] == [list, list]
        assert type(namespace.unstack(x)) is tuple and type(namespace.nonzero(np.ones(2))) is tuple
        return lists

    for outs in (funcad.jit(f)(np.arange(3.0)), [xp.meshgrid(V, V), xp.broadcast_arrays(V, A)]):
        assert [len(out) for out in outs] == [2, 2] and all(isinstance(out, list) for out in outs)
    assert type(fnp.broadcast_arrays(V, A)) is tuple and type(fnp.meshgrid(V, V)) is tuple  # as NumPy's


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_have_the_dtype_asked_for(name):
    ours, theirs = getattr(fnp.fft, name), getattr(np.fft, name)
    for dtype in (np.float32, "float64", None):
        for n in (1, 4, 5):
            found = ours(n, d=0.1, dtype=dtype)
            assert found.dtype == (dtype or np.float64)
            np.testing.assert_array_equal(found, theirs(n, d=0.1).astype(dtype or np.float64))
        traced = funcad.jit(lambda d, dtype=dtype: ours(4, d=d, dtype=dtype))(0.1)
        assert traced.dtype == (dtype or np.float64)
        np.testing.assert_allclose(traced, theirs(4, d=0.1), rtol=1e-6)
    assert funcad.jit(lambda x: ours(4, dtype=x.dtype) * x[0])(np.ones(3, np.float32)).dtype == np.float32
    with pytest.raises(ValueError, match="real floating-point"):
        ours(4, dtype=np.int64)


CREATION = {
    "arange": ["3", "1, 5", "1, 9, 2", "5, step=2", "stop=3", "1, stop=4, step=2", "1, 5, 1, 'f4'", "5, None", "5, None, 2"]
    + ["0.5, 3", "3, 0, -1", "start=1, stop=4", "np.int8(3)"],
    "linspace": ["0, 1", "0, 1, 3", "0, 1, 3, False", "0, 1, 3, True, True", "[0, 1], 2, 3, axis=1", "0, 1, num=4, dtype='f4'"]
    + ["start=0, stop=2, num=2"],
    "zeros": ["3", "(2, 1), int", "(2, 1), 'f4', 'F'", "shape=2, dtype=bool"],
    "ones": ["3", "(2, 1), int, 'F'"],
    "eye": ["2", "2, 3", "2, 3, 1, int", "2, k=-1, order='F'", "2, None, 1"],
    "identity": ["2", "2, int"],
    "tri": ["2", "2, 3, -1, int"],
    "indices": ["(2, 3)", "(2, 3), np.int8", "(2, 3), sparse=True"],
}


@pytest.mark.parametrize("name,arguments", [(name, text) for name, texts in CREATION.items() for text in texts])
def test_creation_functions_take_every_call_that_numpys_take(name, arguments):
    found, expected = [eval(f"{module}.{name}({arguments})", {"np": np, "fnp": fnp}) for module in ("fnp", "np")]
    same(found, expected)
    for x, y in zip(tree.leaves(found), tree.leaves(expected)):
        np.testing.assert_array_equal(x, y)
        assert np.asarray(x).strides == np.asarray(y).strides


def test_a_range_needs_a_bound():
    with pytest.raises(TypeError):
        fnp.arange()


def test_every_name_of_the_standard_is_called():
    strict = pytest.importorskip("array_api_strict", reason="array_api_strict, whose names are compared, is not installed")
    covered = {c[0] for c in CALLS + UNTRACED} | set(OTHERS) | set(CONSTANTS) | set(DTYPES) | {"eig", "eigvals"}
    before = strict.get_array_api_strict_flags()
    try:
        strict.set_array_api_strict_flags(api_version="2024.12")
        for prefix, module in (("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft)):
            own = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_") and "flags" not in n.lower()]
            functions = [n for n in own if inspect.isfunction(getattr(module, n)) and not n.startswith(("requires", "device"))]
            functions = [n for n in functions if prefix == "" or getattr(module, n).__module__.endswith(prefix[:-1])]
            missing = [prefix + n for n in functions if prefix + n not in covered and n not in ("eig", "eigvals")]
            assert not missing, missing
    finally:
        strict.set_array_api_strict_flags(**before)


def test_names_and_info():
    assert fnp.__array_api_version__ == "2024.12"
    for name in [*OTHERS, *CONSTANTS, *DTYPES, *[c[0] for c in CALLS + UNTRACED]]:
        find(fnp, name)
    for dtype in DTYPES:
        assert np.dtype(getattr(fnp, dtype)).name == dtype
    info = fnp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"] and info.default_device() == "cpu" and "cpu" in info.devices()
    assert info.default_dtypes()["real floating"] == np.float64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert fnp.finfo(np.float32).eps == np.finfo(np.float32).eps and fnp.iinfo("int8").max == 127


def test_namespace_versions():
    def f(x):
        for version in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
            assert x.__array_namespace__(api_version=version) is xp
        with pytest.raises(ValueError, match="2019.01"):
            x.__array_namespace__(api_version="2019.01")
        return x

    funcad.jit(f)(1.0)


def test_attributes_and_methods():
    def f(x):
        assert (x.shape, x.ndim, x.size, x.dtype) == (X.shape, 2, 6, X.dtype)
        assert x.T.shape == (3, 2) and x.mT.shape == (3, 2) and x.device == "cpu"
        assert all(hasattr(x, m) for m in METHODS), [m for m in METHODS if not hasattr(x, m)]
        assert x.to_device("cpu").shape == x.shape
        with pytest.raises(ValueError, match="device"):
            x.to_device("moon")
        with pytest.raises(ValueError, match="stream"):
            x.to_device("cpu", stream=1)
        y = x * 1.0
        y += 1.0
        y *= 2.0
        y /= 3.0
        y -= x
        y **= 2
        return y.sum()

    expected = (((X + 1.0) * 2.0 / 3.0 - X) ** 2).sum()
    assert np.allclose(funcad.jit(f)(X), expected)
    assert np.allclose(funcad.grad(f)(X), -2.0 / 3.0 * ((X + 1.0) * 2.0 / 3.0 - X))


def test_memory_is_not_handed_over():
    for call in (lambda x: np.from_dlpack(x), lambda x: x.__dlpack__(), lambda x: x.__dlpack_device__()):
        with pytest.raises(TracerArrayConversionError, match="Remedy: "):
            funcad.grad(call)(X)
        with pytest.raises(TracerArrayConversionError, match="Remedy: "):
            funcad.jit(call)(X)
    funcad.grad(lambda x: np.from_dlpack(funcad.stop_gradient(x)).sum() * x.sum())(X)


def test_what_numpy_deviates_in_works():
    t = np.array([2.0, 1.0, 2.0, 3.0])
    for f in (fnp.sort, funcad.jit(lambda x: fnp.sort(x, descending=True))):
        out = f(t, descending=True) if f is fnp.sort else f(t)
        assert out.tolist() == [3.0, 2.0, 2.0, 1.0]
    assert fnp.argsort(t, descending=True).tolist() == [3, 0, 2, 1]
    holes = [np.array([[1.0, np.nan, 3.0, 1.0, -0.0, 0.0]]), np.array([[1 + 1j, np.nan, 2, 1 + 2j, complex(1, np.nan)]])]
    holes += [np.array([[3, -(2**63), 2**63 - 1, 3]]), np.array([[0, 255, 3, 255]], np.uint8), np.array([[True, False, True]])]
    for x in holes:  # NaN last, as in NumPy 2.5, in traces as outside
        order = np.argsort(~x if x.dtype.kind in "biu" else -x, kind="stable")
        wanted = np.take_along_axis(x, order, -1)
        if np.lib.NumpyVersion(np.__version__) >= "2.5.0":
            np.testing.assert_array_equal(np.sort(x, descending=True), wanted)
            np.testing.assert_array_equal(np.argsort(x, descending=True, stable=True), order)
        for m in (fnp, np) if np.lib.NumpyVersion(np.__version__) >= "2.5.0" else (fnp,):
            for transform in (lambda f: f, funcad.jit, funcad.vmap):
                np.testing.assert_array_equal(transform(functools.partial(m.sort, descending=True))(x), wanted)
                np.testing.assert_array_equal(transform(functools.partial(m.argsort, descending=True))(x), order)
    slope = funcad.grad(lambda v: np.sum(fnp.sort(v, descending=True) * np.arange(4.0)))
    assert slope(np.array([1.0, 3.0, 2.0, np.nan])).tolist() == [2.0, 0.0, 1.0, 3.0]
    assert funcad.jit(lambda x: fnp.argsort(x, axis=0, descending=True))(t).tolist() == [3, 0, 2, 1]
    assert funcad.jit(lambda x: fnp.diff(x, prepend=None, append=None))(t).tolist() == [-1.0, 1.0, 1.0]
    assert set(DEVIATIONS) <= {c[0] for c in CALLS + UNTRACED}


def test_arrays_have_what_numpys_have_or_say_why_not():
    def f(x):
        for name in dir(np.ndarray):
            if name.startswith("_") or name in (
                "sort",
                "partition",
                "fill",
                "put",
                "resize",
                "setflags",
                "setfield",
                "getfield",
            ):
                continue
            try:
                getattr(x, name)
            except AttributeError as error:
                assert "traced" in str(error) and ":" in str(error), name
        for name, args in (("resize", (3,)), ("setflags", ())):
            with pytest.raises(TypeError, match="Remedy: "):
                getattr(x, name)(*args)
        x.flags.writeable = x.flags["W"] = True  # as it is
        with pytest.raises(TypeError, match="setflags.*\n*.*Remedy: "):
            x.flags.writeable = False
        with pytest.raises(TypeError, match="setflags.*\n*.*Remedy: "):
            x.flags["WRITEABLE"] = False
        return x

    funcad.jit(f)(X)
    funcad.grad(lambda x: f(x).sum())(X)
