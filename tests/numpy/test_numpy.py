"""Every function of funcad.numpy: values, result types, derivatives, jit and vmap against NumPy itself."""

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp
from tests import standin

_RNG = np.random.default_rng(0)
V = _RNG.normal(size=5)
W = _RNG.normal(size=5) + 0.05
P = _RNG.uniform(0.2, 0.9, size=5)
M = _RNG.normal(size=(3, 4))
N = _RNG.normal(size=(4, 3))
S = _RNG.normal(size=(3, 3))
T = _RNG.normal(size=(2, 3, 4))
Z = V + 1j * W
I5 = np.array([3, 1, 4, 1, 5])
MASK = np.array([True, False, True, True, False])
NANS = np.array([1.0, np.nan, -2.0, 4.0, np.nan])
NODES = np.array([-2.0, -1.0, 0.5, 1.0, 2.5])

# name -> list of (function of the traced arrays, arrays). Functions are written with plain NumPy.
UNARY_NAMES = """
    sin cos tan exp exp2 expm1 log log2 log10 log1p sinh cosh tanh arcsin arccos arctan arcsinh arctanh sqrt cbrt square
    reciprocal negative positive absolute fabs deg2rad rad2deg degrees radians sinc floor ceil trunc rint sign conjugate
    isnan isinf isfinite signbit logical_not real imag angle nan_to_num isreal iscomplex isposinf isneginf
"""
UNARY = dict.fromkeys(UNARY_NAMES.split(), P) | {"arccosh": P + 1.5}
BINARY = (
    "add subtract multiply divide power arctan2 maximum minimum fmax fmin hypot logaddexp logaddexp2 copysign fmod remainder "
    "floor_divide heaviside nextafter float_power equal not_equal less less_equal greater greater_equal logical_and logical_or "
    "logical_xor"
).split()

CASES = [
    *[(name, getattr(np, name), (x,)) for name, x in UNARY.items()],
    *[(name, getattr(np, name), (P, np.abs(W) + 0.1)) for name in BINARY],
    ("sum", lambda x: np.sum(x), (M,)),
    ("sum axis", lambda x: np.sum(x, axis=1), (M,)),
    ("sum axes", lambda x: np.sum(x, axis=(0, -1), keepdims=True), (T,)),
    ("sum where", lambda x: np.sum(x, where=MASK, initial=2.0), (V,)),
    ("sum dtype", lambda x: np.sum(x, dtype=np.float32), (V,)),
    ("prod", lambda x: np.prod(x, axis=0), (M,)),
    ("prod all", lambda x: np.prod(x), (V,)),
    ("max", lambda x: np.max(x), (V,)),
    ("amax", lambda x: np.amax(x, axis=1, keepdims=True), (M,)),
    ("min initial", lambda x: np.min(x, axis=0, initial=-0.1), (M,)),
    ("max where", lambda x: np.max(x, where=MASK, initial=-9.0), (V,)),
    ("ptp", lambda x: np.ptp(x, axis=1), (M,)),
    ("mean", lambda x: np.mean(x, axis=0), (M,)),
    ("mean where", lambda x: np.mean(x, where=MASK), (V,)),
    ("any", lambda x: np.any(x > 0.5, axis=0), (M,)),
    ("all", lambda x: np.all(x > -9.0), (M,)),
    ("argmax", lambda x: np.argmax(x), (M,)),
    ("argmin", lambda x: np.argmin(x, axis=1, keepdims=True), (M,)),
    ("count_nonzero", lambda x: np.count_nonzero(x > 0, axis=0), (V,)),
    ("cumsum", lambda x: np.cumsum(x), (M,)),
    ("cumsum axis", lambda x: np.cumsum(x, axis=1), (M,)),
    ("cumprod", lambda x: np.cumprod(x, axis=0), (M,)),
    ("add.reduce", lambda x: np.add.reduce(x), (M,)),
    ("multiply.reduce", lambda x: np.multiply.reduce(x, axis=1), (M,)),
    ("maximum.reduce", lambda x: np.maximum.reduce(x, axis=None), (M,)),
    ("minimum.accumulate", lambda x: np.minimum.accumulate(x), (V,)),
    ("maximum.accumulate", lambda x: np.maximum.accumulate(x, axis=1), (M,)),
    ("add.accumulate", lambda x: np.add.accumulate(x), (V,)),
    ("multiply.accumulate", lambda x: np.multiply.accumulate(x), (V,)),
    ("logical_and.reduce", lambda x: np.logical_and.reduce(x > 0, axis=0), (M,)),
    ("logical_or.reduce", lambda x: np.logical_or.reduce(x > 0, axis=0), (M,)),
    ("subtract.outer", lambda x, y: np.subtract.outer(x, y), (V, W)),
    ("multiply.outer", lambda x, y: np.multiply.outer(x, y), (M, W)),
    ("var", lambda x: np.var(x, axis=1, ddof=1), (M,)),
    ("var complex", lambda x: np.var(x + 1j * x**2), (V,)),
    ("var where", lambda x: np.var(x, where=MASK), (V,)),
    ("std", lambda x: np.std(x), (V,)),
    ("std axis", lambda x: np.std(x, axis=0, keepdims=True), (M,)),
    ("average", lambda x, w: np.average(x, weights=w), (V, P)),
    ("average axis", lambda x, w: np.average(x, axis=0, weights=w), (N, P[:4])),
    ("median", lambda x: np.median(x), (V,)),
    ("median axis", lambda x: np.median(x, axis=1, keepdims=True), (M,)),
    ("median axes", lambda x: np.median(x, axis=(0, 2)), (T,)),
    ("quantile", lambda x: np.quantile(x, 0.3), (V,)),
    ("quantile vector", lambda x: np.quantile(x, [0.1, 0.5, 0.9], axis=1), (M,)),
    ("quantile hazen", lambda x: np.quantile(x, 0.3, method="hazen"), (V,)),
    ("quantile lower", lambda x: np.quantile(x, 0.3, method="lower"), (V,)),
    ("quantile higher", lambda x: np.quantile(x, 0.3, method="higher"), (V,)),
    ("quantile nearest", lambda x: np.quantile(x, 0.3, method="nearest"), (V,)),
    ("quantile midpoint", lambda x: np.quantile(x, 0.3, method="midpoint"), (V,)),
    ("percentile", lambda x: np.percentile(x, 40, axis=0, keepdims=True), (M,)),
    ("quantile q", lambda q: np.quantile(V, q), (np.array([0.3, 0.8]),)),
    ("nansum", lambda x: np.nansum(x), (NANS,)),
    ("nanprod", lambda x: np.nanprod(x), (NANS,)),
    ("nanmax", lambda x: np.nanmax(x), (NANS,)),
    ("nanmin", lambda x: np.nanmin(x), (NANS,)),
    ("nanmean", lambda x: np.nanmean(x), (NANS,)),
    ("nanvar", lambda x: np.nanvar(x), (NANS,)),
    ("nanstd", lambda x: np.nanstd(x, ddof=1), (NANS,)),
    ("nanmedian", lambda x: np.nanmedian(x), (NANS,)),
    ("nanquantile", lambda x: np.nanquantile(x, 0.3), (NANS,)),
    ("nanquantile axis", lambda x: np.nanquantile(x, 0.3, axis=1), (np.array([[1.0, np.nan, 3.0], [4.0, 5.0, 7.0]]),)),
    ("nanpercentile", lambda x: np.nanpercentile(x, 30), (NANS,)),
    ("nancumsum", lambda x: np.nancumsum(x), (NANS,)),
    ("nancumprod", lambda x: np.nancumprod(x), (NANS,)),
    ("nanargmax", lambda x: np.nanargmax(x), (NANS,)),
    ("nanargmin", lambda x: np.nanargmin(x), (NANS,)),
    ("cov", lambda x: np.cov(x), (M,)),
    ("cov two", lambda x, y: np.cov(x, y, ddof=0), (V, W)),
    ("cov weights", lambda x: np.cov(x, aweights=[1.0, 2.0, 3.0, 1.0]), (M,)),
    ("corrcoef", lambda x: np.corrcoef(x), (M,)),
    ("where", lambda x, y: np.where(x > 0, x, y), (V, W)),
    ("where scalar", lambda x: np.where(x > 0, x, 0.0), (V,)),
    ("clip", lambda x: np.clip(x, -0.5, 0.5), (V,)),
    ("clip bounds", lambda x, lo: np.clip(x, lo, None), (V, W)),
    ("round", lambda x: np.round(x, 1), (V,)),
    ("select", lambda x: np.select([x > 1, x > 0], [x, x**2], 7.0), (V,)),
    ("choose", lambda x: np.choose(np.array([0, 1, 0, 1, 1]), [x, 2 * x]), (V,)),
    ("dot", lambda x, y: np.dot(x, y), (V, W)),
    ("dot matrix", lambda x, y: np.dot(x, y), (T, N)),
    ("dot scalar", lambda x: np.dot(x, 2.0), (V,)),
    ("matmul", lambda x, y: np.matmul(x, y), (M, N)),
    ("matmul stacked", lambda x, y: x @ y, (T, N)),
    ("matmul vector", lambda x, y: x @ y, (M, P[:4])),
    ("vdot", lambda x, y: np.vdot(x, y), (M, M + 1)),
    ("inner", lambda x, y: np.inner(x, y), (M, T)),
    ("outer", lambda x, y: np.outer(x, y), (M, W)),
    ("tensordot", lambda x, y: np.tensordot(x, y, axes=1), (T, N)),
    ("tensordot axes", lambda x, y: np.tensordot(x, y, axes=([1, 2], [1, 0])), (T, N)),
    ("einsum", lambda x, y: np.einsum("ij,jk->ik", x, y), (M, N)),
    ("einsum trace", lambda x: np.einsum("ii", x), (S,)),
    ("einsum three", lambda x, y, z: np.einsum("ij,jk,k", x, y, z), (M, N, V[:3])),
    ("einsum lists", lambda x, y: np.einsum(x, [0, 1], y, [1, 2], [2, 0]), (M, N)),
    ("kron", lambda x, y: np.kron(x, y), (M, V)),
    ("cross", lambda x, y: np.cross(x, y), (S, S.T)),
    ("cross axis", lambda x, y: np.cross(x, y, axis=0), (S, S.T + 1)),
    ("vecdot", lambda x, y: np.vecdot(x, y), (T, M)),
    ("linalg.multi_dot", lambda x, y, z: np.linalg.multi_dot([x, y, z]), (M, N, S)),
    ("linalg.trace", lambda x: np.linalg.trace(x), (S,)),
    ("trace", lambda x: np.trace(x, offset=1), (M,)),
    ("diag", lambda x: np.diag(x), (V,)),
    ("diag k", lambda x: np.diag(x, k=-2), (V,)),
    ("diag of matrix", lambda x: np.diag(x, k=1), (M,)),
    ("diagonal", lambda x: np.diagonal(x, offset=-1, axis1=2, axis2=1), (T,)),
    ("diagflat", lambda x: np.diagflat(x, 1), (S,)),
    ("reshape", lambda x: np.reshape(x, (2, -1)), (M,)),
    ("reshape F", lambda x: np.reshape(x, (2, 6), order="F"), (M,)),
    ("ravel", lambda x: np.ravel(x), (M,)),
    ("ravel F", lambda x: np.ravel(x, order="F"), (M,)),
    ("transpose", lambda x: np.transpose(x, (2, 0, 1)), (T,)),
    ("swapaxes", lambda x: np.swapaxes(x, 0, -1), (T,)),
    ("moveaxis", lambda x: np.moveaxis(x, [0, 1], [-1, 0]), (T,)),
    ("rollaxis", lambda x: np.rollaxis(x, 2, 1), (T,)),
    ("matrix_transpose", lambda x: np.matrix_transpose(x), (T,)),
    ("expand_dims", lambda x: np.expand_dims(x, (0, 2)), (M,)),
    ("squeeze", lambda x: np.squeeze(x[None, :, None]), (V,)),
    ("broadcast_to", lambda x: np.broadcast_to(x, (2, 3, 4)), (M,)),
    ("broadcast_arrays", lambda x, y: np.broadcast_arrays(x, y)[1], (M, P[:4])),
    ("atleast_1d", lambda x: np.atleast_1d(x), (np.float64(2.0),)),
    ("atleast_2d", lambda x: np.atleast_2d(x), (V,)),
    ("atleast_3d", lambda x: np.atleast_3d(x), (M,)),
    ("concatenate", lambda x, y: np.concatenate([x, y], axis=1), (M, M)),
    ("concatenate none", lambda x, y: np.concatenate([x, y], axis=None), (M, V)),
    ("stack", lambda x, y: np.stack([x, y], axis=-1), (V, W)),
    ("vstack", lambda x, y: np.vstack([x, y]), (V, W)),
    ("hstack", lambda x, y: np.hstack([x, y]), (V, W)),
    ("dstack", lambda x, y: np.dstack([x, y]), (M, M)),
    ("column_stack", lambda x, y: np.column_stack([x, y]), (V, W)),
    ("append", lambda x, y: np.append(x, y), (M, V)),
    ("block", lambda x, y: np.block([[x, y], [y, x]]), (S, S + 1)),
    ("split", lambda x: np.split(x, 2, axis=1)[1], (M,)),
    ("array_split", lambda x: np.array_split(x, 3)[0], (V,)),
    ("split at", lambda x: np.split(x, [1, 3])[1], (V,)),
    ("hsplit", lambda x: np.hsplit(x, 2)[0], (M,)),
    ("vsplit", lambda x: np.vsplit(x, 3)[0], (M,)),
    ("dsplit", lambda x: np.dsplit(x, 2)[0], (T,)),
    ("tile", lambda x: np.tile(x, (2, 1, 3)), (M,)),
    ("repeat", lambda x: np.repeat(x, 2, axis=1), (M,)),
    ("repeat each", lambda x: np.repeat(x, [0, 2, 1, 0, 3]), (V,)),
    ("resize", lambda x: np.resize(x, (3, 3)), (V,)),
    ("roll", lambda x: np.roll(x, 2), (M,)),
    ("roll axes", lambda x: np.roll(x, (1, -1), axis=(0, 1)), (M,)),
    ("flip", lambda x: np.flip(x), (M,)),
    ("fliplr", lambda x: np.fliplr(x), (M,)),
    ("flipud", lambda x: np.flipud(x), (M,)),
    ("rot90", lambda x: np.rot90(x), (M,)),
    ("rot90 3", lambda x: np.rot90(x, 3, axes=(1, 2)), (T,)),
    ("tril", lambda x: np.tril(x, -1), (T,)),
    ("triu", lambda x: np.triu(x, 1), (M,)),
    ("pad", lambda x: np.pad(x, 2), (V,)),
    ("pad value", lambda x: np.pad(x, ((1, 2), (0, 1)), constant_values=3.0), (M,)),
    ("pad edge", lambda x: np.pad(x, 2, mode="edge"), (M,)),
    ("pad reflect", lambda x: np.pad(x, (1, 3), mode="reflect"), (V,)),
    ("pad symmetric", lambda x: np.pad(x, (1, 3), mode="symmetric"), (V,)),
    ("pad wrap", lambda x: np.pad(x, (2, 1), mode="wrap"), (V,)),
    ("pad maximum", lambda x: np.pad(x, (2, 1), mode="maximum"), (M,)),
    ("pad mean", lambda x: np.pad(x, (0, 1), mode="mean"), (M,)),
    ("insert", lambda x: np.insert(x, 1, 7.0), (V,)),
    ("insert several", lambda x: np.insert(x, [1, 3], [7.0, 8.0]), (V,)),
    ("insert rows", lambda x: np.insert(x, 1, np.arange(4.0), axis=0), (M,)),
    ("insert columns", lambda x: np.insert(x, 1, np.arange(3.0), axis=1), (M,)),
    ("delete", lambda x: np.delete(x, [0, 2], axis=1), (M,)),
    ("take", lambda x: np.take(x, [[0, 2], [2, -1]], axis=1), (M,)),
    ("take flat", lambda x: np.take(x, 5), (M,)),
    ("take wrap", lambda x: np.take(x, [7, -9], mode="wrap"), (V,)),
    ("take clip", lambda x: np.take(x, [7, -9], mode="clip"), (V,)),
    ("take_along_axis", lambda x: np.take_along_axis(x, np.argsort(x, axis=0), axis=0), (M,)),
    ("compress", lambda x: np.compress(MASK, x), (V,)),
    ("extract", lambda x: np.extract(MASK, x), (V,)),
    ("sort", lambda x: np.sort(x, axis=0), (M,)),
    ("sort flat", lambda x: np.sort(x, axis=None), (M,)),
    ("argsort", lambda x: np.argsort(x), (M,)),
    ("partition", lambda x: np.sort(np.partition(x, 2)), (V,)),
    ("lexsort", lambda x: np.lexsort((x, np.array([1, 0, 1, 0, 1]))), (V,)),
    ("searchsorted", lambda x: np.searchsorted(NODES, x), (V,)),
    ("digitize", lambda x: np.digitize(x, NODES), (V,)),
    ("digitize falling", lambda x: np.digitize(x, NODES[::-1], right=True), (V,)),
    ("isin", lambda x: np.isin(x, V[:2]), (V,)),
    ("diff", lambda x: np.diff(x, n=2, axis=1), (M,)),
    ("diff prepend", lambda x: np.diff(x, prepend=0.0), (V,)),
    ("ediff1d", lambda x: np.ediff1d(x, to_begin=1.0), (V,)),
    ("gradient", lambda x: np.gradient(x), (V,)),
    ("gradient 2", lambda x: np.gradient(x, 0.5, edge_order=2), (V,)),
    ("gradient spaced", lambda x: np.gradient(x, NODES), (V,)),
    ("gradient spaced 2", lambda x: np.gradient(x, NODES, edge_order=2), (V,)),
    ("gradient axes", lambda x: np.gradient(x)[1], (M,)),
    ("trapezoid", lambda x: np.trapezoid(x, NODES), (V,)),
    ("trapezoid dx", lambda x: np.trapezoid(x, dx=0.1, axis=0), (M,)),
    ("unwrap", lambda x: np.unwrap(4 * x), (V,)),
    ("interp", lambda x, y: np.interp(x, NODES, y), (V, W)),
    ("interp ends", lambda x: np.interp(x, NODES, W, left=-1.0, right=5.0), (3 * V,)),
    ("interp period", lambda x: np.interp(x, NODES, W, period=4.0), (3 * V,)),
    ("convolve", lambda x, y: np.convolve(x, y), (V, P[:3])),
    ("convolve same", lambda x, y: np.convolve(x, y, mode="same"), (P[:2], V)),
    ("convolve valid", lambda x, y: np.convolve(x, y, mode="valid"), (V, P[:3])),
    ("correlate", lambda x, y: np.correlate(x, y), (V, P[:3])),
    ("correlate full", lambda x, y: np.correlate(x, y, mode="full"), (P[:2], V)),
    ("correlate same", lambda x, y: np.correlate(x, y, mode="same"), (P[:4], V)),
    ("polyval", lambda p, x: np.polyval(p, x), (V, W)),
    ("polyadd", lambda p, x: np.polyadd(p, x), (V, W[:3])),
    ("polysub", lambda p, x: np.polysub(p, x), (V[:2], W)),
    ("polymul", lambda p, x: np.polymul(p, x), (V, W[:3])),
    ("polyder", lambda p: np.polyder(p, 2), (V,)),
    ("polyint", lambda p: np.polyint(p), (V,)),
    ("vander", lambda x: np.vander(x, 4), (V,)),
    ("linspace", lambda x: np.linspace(x, 3.0, 5), (np.float64(0.5),)),
    ("linspace rows", lambda x: np.linspace(x, 3.0, 4, axis=1, endpoint=False), (V,)),
    ("logspace", lambda x: np.logspace(x, 2.0, 5), (np.float64(0.5),)),
    ("geomspace", lambda x: np.geomspace(x, 3.0, 5), (np.float64(0.5),)),
    ("meshgrid", lambda x, y: np.meshgrid(x, y)[0], (V, W)),
    ("meshgrid ij", lambda x, y: np.meshgrid(x, y, indexing="ij")[1], (V, W)),
    ("zeros_like", lambda x: np.zeros_like(x) + x, (V,)),
    ("ones_like", lambda x: np.ones_like(x) * x, (V,)),
    ("full_like", lambda x: fnp.full_like(V, x), (np.float64(2.0),)),
    ("copy", lambda x: np.copy(x), (V,)),
    ("astype", lambda x: x.astype(np.float32), (V,)),
    ("isclose", lambda x: np.isclose(x, V), (V,)),
    ("piecewise", lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v**2, lambda v: 3 * v]), (V,)),
    ("apply_along_axis", lambda x: np.apply_along_axis(np.cumsum, 0, x), (M,)),
    ("modf", lambda x: np.modf(x)[0], (V,)),
    ("divmod", lambda x: np.divmod(x, 0.3)[1], (V,)),
    ("frexp", lambda x: np.frexp(x)[0], (V,)),
    ("ldexp", lambda x: np.ldexp(x, 3), (V,)),
    ("histogram", lambda w: np.histogram(V, bins=3, range=(-2, 2), weights=w)[0], (P,)),
    ("bincount", lambda w: np.bincount(I5, weights=w), (P,)),
    ("cumulative_sum", lambda x: fnp.cumulative_sum(x, include_initial=True), (V,)),
    ("unstack", lambda x: fnp.unstack(x, axis=1)[2], (M,)),
    ("fnp.array", lambda x: fnp.array([[x[0], 1.0], [2.0, x[1]]]), (V,)),
    ("fnp.full", lambda x: fnp.full((2, 2), x), (np.float64(1.5),)),
    ("fnp.vectorize", lambda x, y: fnp.vectorize(lambda a, b: a * b + a)(x, y), (M, P[:4])),
    ("fill_diagonal", lambda x: fnp.fill_diagonal(x, 2.0, inplace=False), (S,)),
    ("put_along_axis", lambda x: fnp.put_along_axis(x, np.array([[0], [1], [0]]), 9.0, 1, inplace=False), (M,)),
    ("nonzero", lambda x: x[np.nonzero(x > 0)], (V,)),
    ("boolean mask", lambda x: x[x > 0], (V,)),
    ("where positions", lambda x: x[np.where(x > 0)], (V,)),
    ("unique", lambda x: np.unique(x), (V,)),
    ("union1d", lambda x: np.union1d(x, W), (V,)),
    ("setdiff1d", lambda x: np.setdiff1d(x, V[:2] + 0.5), (V,)),
    ("float32", lambda x: np.mean(np.sin(x) * 2.0 + 1, axis=0), (M.astype(np.float32),)),
    ("complex", lambda x: np.abs(np.exp(1j * x)) * np.angle(x + 2j), (V,)),
    ("float16 mean", lambda x: np.mean(x), (V.astype(np.float16),)),
]
VALUES_NEEDED = {"nonzero", "boolean mask", "where positions", "unique", "union1d", "setdiff1d"}


_TOLERANCE = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 1e-5}


def _same(actual, expected, exact=True):
    assert type(actual) is type(expected), (type(actual), type(expected))
    if isinstance(expected, np.ndarray | np.generic):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape
    tolerance = (
        2e-3 if np.asarray(expected).dtype == np.float16 else 1e-5 if np.asarray(expected).dtype == np.float32 else 1e-13
    )
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name, f, args", CASES, ids=[c[0] for c in CASES])
def test_value(name, f, args):
    """The same value, dtype and type as NumPy's, un-jitted under differentiation and jitted."""
    expected = np.asarray(f(*args))[()]
    tangents = tuple(np.ones_like(a) for a in args)
    value, tangent = funcad.jvp(f, args, tangents)
    _same(value, expected)
    if name not in VALUES_NEEDED:
        _same(funcad.jit(f)(*args), expected)


@pytest.mark.share(3)
@pytest.mark.parametrize("name, f, args", CASES, ids=[c[0] for c in CASES])
def test_derivative(name, f, args):
    """Forward mode against differences, reverse mode against forward mode, vmap against a loop."""
    rng = np.random.default_rng(1)
    tangents = tuple(np.asarray(rng.normal(size=np.shape(a)), np.asarray(a).dtype)[()] for a in args)
    value, tangent = funcad.jvp(f, args, tangents)
    if np.asarray(value).dtype.kind not in "fc":
        return
    double = np.asarray(value).dtype in (np.float64, np.complex128) and all(np.asarray(a).dtype == np.float64 for a in args)
    if double and name not in ("nextafter",):
        step = 1e-6
        high = f(*[a + step * t for a, t in zip(args, tangents)])
        low = f(*[a - step * t for a, t in zip(args, tangents)])
        np.testing.assert_allclose(tangent, (high - low) / (2 * step), rtol=1e-5, atol=1e-6)
    value, pullback = funcad.vjp(f, *args)
    ct = np.asarray(rng.normal(size=np.shape(value)), np.asarray(value).dtype)[()]
    cts = pullback(ct)
    left = np.sum(np.real(ct * tangent))
    right = sum(np.sum(c * t) for c, t in zip(cts, tangents))
    np.testing.assert_allclose(left, right, rtol=1e-4 if not double else 1e-9, atol=1e-3 if not double else 1e-9)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "name, f, args", [c for c in CASES if c[0] not in VALUES_NEEDED], ids=lambda c: c if isinstance(c, str) else ""
)
def test_vmap(name, f, args):
    stacked = tuple(np.stack([a, np.asarray(a * 0.9).astype(a.dtype)]) for a in args)
    expected = np.stack([f(*[a[i] for a in stacked]) for i in range(2)])
    result = funcad.vmap(f)(*stacked)
    tolerance = _TOLERANCE.get(expected.dtype, 1e-12)
    np.testing.assert_allclose(result, expected, rtol=tolerance, atol=tolerance)


TWICE = [
    c
    for c in CASES
    if all(np.asarray(a).dtype == np.float64 for a in c[2])
    and np.asarray(c[1](*c[2])).dtype.kind in "fc"
    and c[0] not in ("sum dtype", "astype")
]


@pytest.mark.share(4)
@pytest.mark.filterwarnings("ignore:grad.*does not depend")
@pytest.mark.parametrize("name, f, args", TWICE, ids=[c[0] for c in TWICE])
def test_second_derivative(name, f, args):
    """Forward over reverse against differences of the gradient, and against reverse over reverse."""
    rng = np.random.default_rng(2)
    weights = rng.normal(size=np.shape(f(*args)))
    tangents = tuple(np.asarray(rng.normal(size=np.shape(a)))[()] for a in args)

    def loss(*xs):
        y = f(*xs)
        return np.sum(weights * np.real(y * y))

    gradient = funcad.grad(loss, argnums=tuple(range(len(args))))
    forward = funcad.jvp(lambda *xs: gradient(*xs), args, tangents)[1]
    step = 1e-6
    high = gradient(*[a + step * t for a, t in zip(args, tangents)])
    low = gradient(*[a - step * t for a, t in zip(args, tangents)])

    def directional(*xs):
        return sum(np.sum(g * t) for g, t in zip(gradient(*xs), tangents))

    backward = funcad.grad(directional, argnums=tuple(range(len(args))))(*args)
    for f2, p, m, b in zip(forward, high, low, backward):
        np.testing.assert_allclose(f2, (p - m) / (2 * step), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(f2, b, rtol=1e-9, atol=1e-9)


MIXED = ("lexsort", "interp", "isclose", "union1d", "setdiff1d")  # their functions bring NumPy arrays in by themselves
PLACED = [c for c in CASES if not c[0].startswith(MIXED)]


@pytest.mark.share(4)
@pytest.mark.parametrize("name, f, args", PLACED, ids=[c[0] for c in PLACED])
def test_on_a_device(name, f, args):
    """On the stand-in for CuPy: the same values, and results stay on the device."""
    expected = np.asarray(f(*args))
    with standin.registered():
        placed = tuple(standin.to_device(np.asarray(a)) for a in args)
        values = [funcad.jvp(f, placed, placed)[0]]
        if name not in VALUES_NEEDED:
            values.append(funcad.jit(f)(*placed))
        for value in values:
            assert type(value) is standin.DeviceArray
            tolerance = _TOLERANCE.get(expected.dtype, 1e-12)
            np.testing.assert_allclose(standin.to_host(value), expected, rtol=tolerance, atol=tolerance)


_HALF = np.array([0.5, 2.25, -1.5], np.float16)
_COMPLEX = np.array([complex(np.nan, 1.26), complex(-0.0, -0.04), complex(np.inf, 0.0)])


@pytest.mark.parametrize(
    "f, x",
    [
        (np.deg2rad, np.array([1.0, 33.0], np.longdouble)),
        (np.rad2deg, np.array([1.0, 33.0], np.longdouble)),
        (lambda x: np.quantile(x, 0.3), _HALF),
        (np.nanmedian, _HALF),
        (np.nanmedian, np.zeros(0)),
        (np.sinc, np.array([0, 1], np.int8)),
        (np.vander, _HALF),
        (np.trapezoid, np.zeros(0)),
        (lambda x: np.round(x, 1), _COMPLEX),
        (lambda x: np.sum(x, axis=0), np.float64(2.0)),
        (lambda x: np.max(x, axis=-1), np.float64(2.0)),
    ],
)
@pytest.mark.filterwarnings("ignore:All-NaN|Mean of empty:RuntimeWarning")
def test_edges_of_dtype_and_shape(f, x):
    expected = f(x)
    for result in (funcad.jit(f)(x), funcad.vmap(f)(x[None])[0]):
        assert result.dtype == expected.dtype
        np.testing.assert_array_max_ulp(result.view(float), expected.view(float), 2) if x.dtype.kind == "c" else (
            np.testing.assert_allclose(result, expected, rtol=4 * np.finfo(expected.dtype).eps, atol=1e-15)
        )


def test_set_operations_keep_the_dtype():
    seen = []
    funcad.grad(lambda x: (seen.append(np.setdiff1d(x, [1.0])), np.sum(x))[1])(_HALF)
    assert seen[0].dtype == np.float16


# matvec and vecmat came with NumPy 2.2
@pytest.mark.parametrize("f", [getattr(np, n) for n in ("matvec", "vecmat", "vecdot") if hasattr(np, n)])
def test_products_need_their_dimensions(f):
    x = np.ones(3)
    y = np.float64(1.0) if f is np.vecdot else x
    with pytest.raises(ValueError, match="does not have enough dimensions") as theirs:
        f(x, y)
    with pytest.raises(ValueError) as ours:
        funcad.jit(f)(x, y)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize("sizes", [(300, 70), (70, 300), (90, 91), (1, 3000), (50, 50)])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("function", [np.convolve, np.correlate])
def test_convolutions_of_long_vectors(function, mode, sizes):
    """By NumPy's own sums, which do not multiply what is outside: 0 * inf would be NaN."""
    rng, f = np.random.default_rng(3), lambda x, y: function(x, y, mode)
    draw = lambda dtype: [(10.0 * rng.normal(size=n)).astype(dtype) for n in sizes]
    for x, y in (draw(float), draw(np.float32), [z + 1j * z[::-1] for z in draw(float)], draw(int)):
        expected = f(x, y)
        near = {"rtol": 1e-3, "atol": 1e-2} if x.dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-9}
        recorded = funcad.vjp(f, x, y)[0] if x.dtype != int else expected
        for found in (funcad.jit(f)(x, y), funcad.vmap(f)(x[None], y[None])[0], recorded):
            assert found.dtype == expected.dtype
            np.testing.assert_allclose(found, expected, **near)
    (x, y), (u, v) = draw(float), draw(float)
    weights = np.sin(np.arange(f(x, y).size))
    loss = lambda x, y: np.sum(weights * f(x, y))
    slope = sum([np.sum(g * d) for g, d in zip(funcad.grad(loss, argnums=(0, 1))(x, y), (u, v))])
    np.testing.assert_allclose(slope, loss(u, y) + loss(x, v), rtol=1e-9, atol=1e-7)  # it is linear in both
    x[-1] = np.inf
    for found in (funcad.jit(f)(x, abs(y)), funcad.vjp(f, x, abs(y))[0]):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(f(x, abs(y))))
