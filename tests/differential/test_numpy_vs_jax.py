"""funcad.numpy against jax.numpy (x64): values and vector-Jacobian products of every function that both have.

Kept out of the quick run (`slow`); skipped without JAX. The conventions in which we differ from JAX on purpose (ties, |x| at 0,
std of constants) are not sampled here: they have tests of their own.
"""

from __future__ import annotations

import numpy as np
import pytest

import funcad
import funcad.numpy as fnp

jax = pytest.importorskip("jax")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

RNG = np.random.default_rng(7)
V = RNG.normal(size=5)
M = RNG.normal(size=(3, 4))
S = RNG.normal(size=(4, 4))
P = RNG.uniform(0.2, 0.9, size=(3, 4))
B = RNG.normal(size=(2, 3, 4))

UNARY = {
    "any": (
        "negative abs absolute fabs square sin cos tan sinh cosh tanh exp exp2 expm1 arctan arcsinh sinc cbrt conj "
        "real deg2rad rad2deg degrees radians positive sum mean max min prod var std cumsum cumprod median ravel "
        "transpose sort flip fliplr flipud nansum nanmean nanmax nanmin nanstd nanvar nanprod ptp amax amin squeeze "
        "atleast_1d atleast_2d atleast_3d trace tril triu diff gradient nan_to_num rot90 zeros_like ones_like sign "
        "floor ceil trunc rint argmax argmin argsort isnan isfinite isinf signbit count_nonzero any all diagonal copy "
        "angle imag round iscomplex isreal corrcoef cov nancumsum average "
    ),
    "positive": "sqrt log log1p log2 log10 reciprocal arcsin arccos arctanh",
}
BINARY = (
    "add subtract multiply divide true_divide maximum minimum arctan2 hypot logaddexp logaddexp2 fmax fmin copysign equal "
    "not_equal less less_equal greater greater_equal floor_divide mod remainder fmod heaviside float_power"
).split()

CASES = [(name, lambda m, n=name: getattr(m, n), (M,)) for name in UNARY["any"].split()]
CASES += [(name, lambda m, n=name: getattr(m, n), (P,)) for name in UNARY["positive"].split()]
CASES += [(name, lambda m, n=name: getattr(m, n), (M, P)) for name in BINARY]
CASES += [(f"{name}-broadcast", lambda m, n=name: getattr(m, n), (M, P[0])) for name in BINARY[:8]]
CASES += [
    ("power", lambda m: m.power, (P, M)),
    ("arccosh", lambda m: m.arccosh, (P + 1.5,)),
    ("sum-axis", lambda m: lambda x: m.sum(x, axis=1), (B,)),
    ("sum-axes-keepdims", lambda m: lambda x: m.sum(x, axis=(0, 2), keepdims=True), (B,)),
    ("sum-where", lambda m: lambda x: m.sum(x, where=M > 0), (M,)),
    ("mean-axis", lambda m: lambda x: m.mean(x, axis=-1), (B,)),
    ("max-axis", lambda m: lambda x: m.max(x, axis=1, keepdims=True), (B,)),
    ("min-initial", lambda m: lambda x: m.min(x, axis=0, initial=0.1), (M,)),
    ("var-ddof", lambda m: lambda x: m.var(x, axis=0, ddof=1), (M,)),
    ("std-axis", lambda m: lambda x: m.std(x, axis=1), (M,)),
    ("prod-axis", lambda m: lambda x: m.prod(x, axis=1), (M,)),
    ("cumsum-axis", lambda m: lambda x: m.cumsum(x, axis=0), (M,)),
    ("cumprod-axis", lambda m: lambda x: m.cumprod(x, axis=1), (M,)),
    ("median-axis", lambda m: lambda x: m.median(x, axis=1), (M,)),
    ("percentile", lambda m: lambda x: m.percentile(x, 30.0, axis=0), (M,)),
    ("quantile", lambda m: lambda x: m.quantile(x, 0.7), (M,)),
    ("sort-axis", lambda m: lambda x: m.sort(x, axis=0), (M,)),
    ("clip", lambda m: lambda x: m.clip(x, -0.5, 0.5), (M,)),
    ("where", lambda m: lambda x, y: m.where(M > 0, x, y), (M, P)),
    ("dot", lambda m: m.dot, (M, S)),
    ("dot-vectors", lambda m: m.dot, (V, V)),
    ("matmul", lambda m: m.matmul, (B, S)),
    ("matmul-vector", lambda m: m.matmul, (B, S[0])),
    ("vdot", lambda m: m.vdot, (M, P)),
    ("inner", lambda m: m.inner, (M, P)),
    ("outer", lambda m: m.outer, (V, M)),
    ("tensordot", lambda m: lambda x, y: m.tensordot(x, y, axes=([1, 2], [0, 1])), (B, P)),
    ("einsum", lambda m: lambda x, y: m.einsum("bij,jk,b->ik", x, y, np.ones(2)), (B, S)),
    ("einsum-trace", lambda m: lambda x: m.einsum("ii", x), (S,)),
    ("kron", lambda m: m.kron, (M, P[:2, :2])),
    ("cross", lambda m: m.cross, (M[:, :3], P[:, :3])),
    ("trace-offset", lambda m: lambda x: m.trace(x, offset=1), (M,)),
    ("diag", lambda m: m.diag, (V,)),
    ("diag-matrix", lambda m: lambda x: m.diag(x, 1), (S,)),
    ("diagonal", lambda m: lambda x: m.diagonal(x, axis1=0, axis2=2), (B,)),
    ("reshape", lambda m: lambda x: m.reshape(x, (4, -1)), (B,)),
    ("reshape-F", lambda m: lambda x: m.reshape(x, (4, 6), order="F"), (B,)),
    ("transpose", lambda m: lambda x: m.transpose(x, (2, 0, 1)), (B,)),
    ("swapaxes", lambda m: lambda x: m.swapaxes(x, 0, 2), (B,)),
    ("moveaxis", lambda m: lambda x: m.moveaxis(x, 0, -1), (B,)),
    ("expand_dims", lambda m: lambda x: m.expand_dims(x, (0, 2)), (M,)),
    ("concatenate", lambda m: lambda x, y: m.concatenate([x, y], axis=1), (M, P)),
    ("stack", lambda m: lambda x, y: m.stack([x, y], axis=-1), (M, P)),
    ("vstack", lambda m: lambda x, y: m.vstack([x, y]), (M, P)),
    ("hstack", lambda m: lambda x, y: m.hstack([x, y]), (M, P)),
    ("dstack", lambda m: lambda x, y: m.dstack([x, y]), (M, P)),
    ("column_stack", lambda m: lambda x, y: m.column_stack([x, y]), (M, P)),
    ("split", lambda m: lambda x: m.split(x, 2, axis=1), (M,)),
    ("array_split", lambda m: lambda x: m.array_split(x, 3, axis=1), (M,)),
    ("tile", lambda m: lambda x: m.tile(x, (2, 3)), (M,)),
    ("repeat", lambda m: lambda x: m.repeat(x, 2, axis=1), (M,)),
    ("broadcast_to", lambda m: lambda x: m.broadcast_to(x, (2, 3, 4)), (M,)),
    ("pad", lambda m: lambda x: m.pad(x, ((1, 0), (2, 1))), (M,)),
    ("pad-reflect", lambda m: lambda x: m.pad(x, 1, mode="reflect"), (M,)),
    ("pad-edge", lambda m: lambda x: m.pad(x, 2, mode="edge"), (M,)),
    ("pad-wrap", lambda m: lambda x: m.pad(x, 2, mode="wrap"), (M,)),
    ("roll", lambda m: lambda x: m.roll(x, 2, axis=1), (M,)),
    ("take", lambda m: lambda x: m.take(x, np.array([0, 2, 2]), axis=1), (M,)),
    ("take_along_axis", lambda m: lambda x: m.take_along_axis(x, np.argsort(M, axis=1), axis=1), (M,)),
    ("index-mixed", lambda m: lambda x: x[:, np.array([0, 2]), 1:3], (B,)),
    ("index-none", lambda m: lambda x: x[..., None, ::-1], (M,)),
    ("meshgrid", lambda m: lambda x, y: m.meshgrid(x, y), (V, V[:3])),
    ("interp", lambda m: lambda x, y: m.interp(x, np.linspace(-2.0, 2.0, 5), y), (V, RNG.normal(size=5))),
    ("linspace", lambda m: lambda a, b: m.linspace(a, b, 6), (np.float64(0.3), np.float64(2.1))),
    ("convolve", lambda m: m.convolve, (V, V[:3])),
    ("correlate", lambda m: m.correlate, (V, V[:3])),
    ("polyval", lambda m: m.polyval, (V[:3], M)),
    ("vander", lambda m: lambda x: m.vander(x, 3), (V,)),
    ("trapezoid", lambda m: m.trapezoid, (V,)),
    ("average-weights", lambda m: lambda x, w: m.average(x, axis=1, weights=w), (M, P)),
    ("select", lambda m: lambda x: m.select([M > 1, M > 0], [x, 2 * x], 0.0), (M,)),
    ("append", lambda m: lambda x, y: m.append(x, y, axis=0), (M, P)),
    ("insert", lambda m: lambda x: m.insert(x, 1, 0.5), (V,)),
    ("delete", lambda m: lambda x: m.delete(x, 2), (V,)),
    ("ediff1d", lambda m: m.ediff1d, (V,)),
    ("unwrap", lambda m: m.unwrap, (3 * V,)),
    ("diff-n", lambda m: lambda x: m.diff(x, n=2, axis=0), (S,)),
    ("block", lambda m: lambda x, y: m.block([[x, y], [y, x]]), (M, P)),
    ("partition", lambda m: lambda x: m.partition(x, 2)[2], (V,)),
    ("logspace", lambda m: lambda a: m.logspace(a, 1.0, 4), (np.float64(0.2),)),
    ("searchsorted", lambda m: lambda x: m.searchsorted(np.array([-1.0, 0.0, 1.0]), x), (V,)),
    ("digitize", lambda m: lambda x: m.digitize(x, np.array([-1.0, 0.0, 1.0])), (V,)),
]


def leaves(tree):
    return [np.asarray(x) for x in jax.tree_util.tree_leaves(tree)]


@pytest.mark.parametrize("name, make, args", CASES, ids=[c[0] for c in CASES])
def test_values_and_vjps(name, make, args):
    with jax.enable_x64(True):
        theirs, our = make(jax.numpy), make(fnp)
        expected, jax_pullback = jax.vjp(theirs, *map(jax.numpy.asarray, args))
        got, pullback = funcad.vjp(our, *args)
        plain = make(np)(*args)
        assert len(leaves(got)) == len(leaves(expected))
        for a, b, c in zip(leaves(got), leaves(expected), leaves(plain)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
            np.testing.assert_allclose(a, c, rtol=1e-14, atol=1e-15)  # traced, it agrees with NumPy itself
        cts = [np.random.default_rng(1).normal(size=x.shape) for x in leaves(expected)]
        if not all(x.dtype.kind == "f" for x in leaves(expected)):
            return
        structure = jax.tree_util.tree_structure(expected)
        wanted = jax_pullback(jax.tree_util.tree_unflatten(structure, [jax.numpy.asarray(c) for c in cts]))
        given = funcad.tree.unflatten(funcad.tree.structure(got), cts)
        for a, b in zip(leaves(pullback(given)), leaves(wanted)):
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
        jitted = funcad.jit(our)(*args)
        for a, b in zip(leaves(jitted), leaves(expected)):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
