"""What cannot be differentiated is refused with a remedy, and the remedy runs.

`refusals()` collects them from the package: each `raise` whose text speaks of traced values, or of what is not supported. Each
names a remedy, but for those that are NumPy's or SciPy's own words (`THEIRS`). `ROWS` are calls that are refused, and the same
with the remedy in it, whose derivative is compared with differences. A refusal that no row meets counts as unmet; the number
of these only falls.
"""

from __future__ import annotations

import ast
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import scipy
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.spatial
import scipy.special
import scipy.stats

import funcad
from funcad import grad
from funcad.primitives import special_rules
from tests.standin import registered, to_device, to_host
from tests.whole.test_mistakes import told

PACKAGE = Path(funcad.__file__).parent
FOLDERS = ("numpy", "scipy", "doors", "lifting", "primitives")
MARKS = ("traced", "not support", "unsupported")
THEIRS = {  # in the words of NumPy and SciPy, who raise it too; or an error of a class that somebody derives
    "gradient", "setitem", "pad", "common", "_subtract", "neg", "array_namespace", "i0", "Spline._pieces",
    "BSplines._coefficients", "check_mode", "Akima1DInterpolator.__init__", "_check_order", "spline_filter",
}  # fmt: skip
UNMET = 0


class Refusal(NamedTuple):
    where: str  # the function that raises
    text: str  # what it says, without what depends on the call
    parts: list[str]
    remedy: bool


def _refusal(node: ast.Raise, where: str, names: dict[str, str]) -> Refusal | None:
    parts = [n.value for n in ast.walk(node.exc) if isinstance(n, ast.Constant) and type(n.value) is str]
    told = [names.get(n.id, "") for n in ast.walk(node.exc) if isinstance(n, ast.Name)]
    text = "".join(parts)
    kind = ast.unparse(node.exc.func)
    if not any([mark in text for mark in MARKS]) and kind != "NotImplementedError":
        return None
    return Refusal(where, text, parts, "Remedy: " in text + "".join(told))


def refusals() -> list[Refusal]:
    found = []

    def visit(node: ast.AST, where: str, names: dict[str, str]) -> None:
        for child in ast.iter_child_nodes(node):
            inside = where
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                inside = f"{where}.{child.name}".lstrip(".")
            if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):  # of a remedy that has a name
                strings = [n.value for n in ast.walk(child.value) if isinstance(n, ast.Constant) and type(n.value) is str]
                names[child.targets[0].id] = "".join(strings)
            if isinstance(child, ast.Raise) and isinstance(child.exc, ast.Call):
                refusal = _refusal(child, inside, names)
                found.extend([] if refusal is None else [refusal])
            visit(child, inside, names)

    for folder in FOLDERS:
        for file in sorted((PACKAGE / folder).rglob("*.py")):
            visit(ast.parse(file.read_text()), "", {})
    return found


X = np.array([1.1, 2.3, 0.7])
A = np.array([[4.0, 1.0, 0.3], [0.9, 3.0, 0.2], [0.2, 0.6, 5.0]])


class Labels:
    """What looks as pandas' Series do: values with labels."""

    __pandas_priority__ = 3000

    def __init__(self, labels: str):
        self.index = self
        self.labels = tuple(labels)

    def __len__(self) -> int:
        return len(self.labels)

    def equals(self, other: Labels) -> bool:
        return self.labels == other.labels

    def difference(self, other: Labels, sort: Any = None) -> list[str]:
        return [v for v in self.labels if v not in other.labels]

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.arange(3.0)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented


def recorded(x: Any) -> Any:
    s = np.zeros(3, [("a", float)])
    s["a"] = x
    return s


def counted(x: Any, dtype: Any) -> Any:
    K = np.zeros(3, dtype)
    np.add.at(K, np.zeros(99, int), x[0])
    return K


def bvp(x: Any, **options: Any) -> Any:
    rate = lambda t, y: np.stack([y[1], -x[0] * y[0]])
    ends = lambda a, b: np.stack([a[0], b[0] - 1])
    return scipy.integrate.solve_bvp(rate, ends, SPACE["T"], np.zeros((2, 6)), **options).sol(0.4)


def called_back(f: Any, x: Any) -> Any:
    """f, elementwise, in a callback, with differences for its derivative: the remedy where funcad has no rule."""
    call = funcad.custom_jvp(lambda x: funcad.pure_callback(lambda v: np.asarray(f(v), float), np.zeros(np.shape(x)), x))
    slope = lambda x: funcad.pure_callback(lambda v: (f(v + 1e-6) - f(v - 1e-6)) / 2e-6, np.zeros(np.shape(x)), x)
    call.defjvp(lambda primals, tangents: (call(*primals), slope(*primals) * tangents[0]))
    return call(x)


def gains(A: Any, B: Any, wanted: Any) -> Any:
    """Of a system with as many inputs as states, that of the equation which the result solves."""
    equation = lambda K: B @ K - (A - wanted)
    found = lambda f, K: np.linalg.solve(funcad.stop_gradient(B), funcad.stop_gradient(A - wanted))
    return funcad.custom_root(equation, np.zeros((3, 3)), found, lambda g, y: np.linalg.solve(B, y))


SPACE: dict[str, Any] = {
    "Labels": Labels, "recorded": recorded, "counted": counted, "bvp": bvp, "called_back": called_back, "gains": gains,
    "to_device": to_device, "to_host": to_host, "K": scipy.sparse.lil_array((3, 3)),
    "np": np, "scipy": scipy, "funcad": funcad, "A": A, "T": np.linspace(0.0, 1.0, 6), "Y": np.array([0.2, 0.9, 0.4]),
    "P": np.array([[0.0, 0.0], [1.0, 0.1], [0.9, 1.0], [0.1, 0.8], [0.5, 0.45]]),
    "sparse": lambda x: scipy.sparse.csr_array((x, ([0, 1, 2], [0, 1, 2])), shape=(3, 3)),
    "band": lambda x: np.stack([x + 4.0, x * 0.1]),
}  # fmt: skip

# what is refused, and the same with the remedy in it: of a traced vector x
ROWS: list[tuple[str, str]] = [
    ("np.pad(x, 1, lambda v, w, i, k: v)", "np.concatenate([x[:1], x, x[-1:]])"),
    ("np.pad(x, 1, 'edge', stat_length=2)", "np.pad(x, 1, 'edge')"),
    ("np.r_['r', x, Y]", "np.r_[x, Y]"),
    ("x * len(x.tobytes())", "x * len(funcad.stop_gradient(x).tobytes())"),
    ("x.to_device('cpu', stream=1)", "x.to_device('cpu')"),
    ("np.frombuffer(x, np.float32)", "np.frombuffer(x, x.dtype)"),
    ("scipy.fft.fft(x, plan=1)", "scipy.fft.fft(x)"),
    ("scipy.linalg.eigh_tridiagonal(x, Y[:2], select='v', select_range=(0, 9))[0]",
     "scipy.linalg.eigh_tridiagonal(x, Y[:2], select='i', select_range=(0, 2))[0]"),
    ("scipy.linalg.qr(A * x, mode='raw')[1]", "scipy.linalg.qr(A * x, mode='economic')[1]"),
    ("scipy.linalg.qr_multiply(A * x, Y, pivoting=True)[0]", "scipy.linalg.qr_multiply((A * x)[:, [2, 0, 1]], Y)[0]"),
    ("scipy.linalg.solve_circulant(x, Y, singular='lstsq')", "scipy.linalg.solve(scipy.linalg.circulant(x), Y)"),
    ("scipy.linalg.companion(A * x)", "funcad.vmap(scipy.linalg.companion)(A * x)"),
    ("scipy.linalg.eigh(A + A.T + np.diag(x), subset_by_value=(0, 9))[0]", "scipy.linalg.eigh(A + A.T + np.diag(x))[0]"),
    ("scipy.signal.filtfilt(x[:2], [1.0, 0.2], T, method='gust', padlen=2)",
     "scipy.signal.filtfilt(x[:2], [1.0, 0.2], T, padlen=2)"),
    ("scipy.signal.sosfiltfilt(np.concatenate([x, [1.0, 0.1, 0.2]])[None], T)",
     "scipy.signal.sosfiltfilt(np.concatenate([x, [1.0, 0.1, 0.2]])[None], T, padlen=2)"),
    ("scipy.signal.savgol_filter(np.tile(x, 3), 4, 2)", "scipy.signal.savgol_filter(np.tile(x, 3), 5, 2)"),
    ("scipy.signal.resample(x, 5, domain='freq')", "scipy.signal.resample(np.fft.ifft(x), 5)"),
    ("funcad.scipy.signal.get_window(('kaiser', x[0]), 5)", "scipy.signal.get_window(('kaiser', x[0]), 5)"),
    ("funcad.scipy.signal.correlation_lags(x, Y)", "np.arange(len(x)) * x"),
    ("scipy.special.eval_legendre(2, x + 1j)", "np.polynomial.Legendre([0.0, 0.0, 1.0])(x + 1j)"),
    ("scipy.special.legendre_p_all(2, x / 9)", "np.stack([scipy.special.eval_legendre(n, x / 9) for n in range(3)])"),
    ("scipy.special.sph_legendre_p(2, 1, x)", "scipy.special.sph_harm_y(2, 1, x, 0.0).real"),
    ("scipy.special.sph_harm_y(2, 1, x, 0.2, diff_n=1)",
     "funcad.jvp(lambda x: scipy.special.sph_harm_y(2, 1, x, 0.2), (x,), (Y,))[1]"),
    ("scipy.special.sph_harm_y(x, 1, 0.3, 0.2)", "scipy.special.sph_harm_y(2, 1, x, 0.2)"),
    ("scipy.special.comb(x + 3, 2, exact=True)", "scipy.special.comb(x + 3, 2)"),
    ("scipy.special.perm(x + 3, 2, exact=True)", "scipy.special.perm(x + 3, 2)"),
    ("scipy.special.factorial(x, extend='complex')", "scipy.special.factorial(x)"),
    ("scipy.special.zeta(x + 1, out=Y)", "scipy.special.zeta(x + 1)"),
    ("scipy.special.polygamma(x, 2.0)", "scipy.special.polygamma(1, x)"),
    ("scipy.special.softmax(x + 1j)", "scipy.special.softmax(np.real(x + 1j))"),
    ("funcad.jvp(scipy.special.psi, (x + 1j,), (Y + 0j,))[1]", "funcad.jvp(scipy.special.psi, (x,), (Y,))[1]"),
    ("scipy.ndimage.zoom(T, x[0])", "scipy.ndimage.affine_transform(T, x[:1] / 3)"),
    ("scipy.ndimage.median_filter(x, 3, output=np.zeros(3))", "scipy.ndimage.median_filter(x, 3)"),
    ("scipy.interpolate.splrep(T, np.tile(x, 2), per=1)",
     "scipy.interpolate.make_interp_spline(T, np.r_[x, x[1], 0.3, x[0]], bc_type='periodic')(0.4)"),
    ("scipy.interpolate.RBFInterpolator(P, np.r_[x, 1.0, 2.0], neighbors=3)([[0.2, 0.3]])",
     "scipy.interpolate.RBFInterpolator(P, np.r_[x, 1.0, 2.0])([[0.2, 0.3]])"),
    ("scipy.interpolate.NearestNDInterpolator(P, np.r_[x, 1.0, 2.0], tree_options={'leafsize': 3})([[0.2, 0.3]])",
     "scipy.interpolate.NearestNDInterpolator(P, np.r_[x, 1.0, 2.0])([[0.2, 0.3]])"),
    ("scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, lband=1).y[:, -1]",
     "scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y).y[:, -1]"),
    ("scipy.integrate.odeint(lambda y, t: -x * y, Y, T, rtol=x[0] * 1e-9)[-1]",
     "scipy.integrate.odeint(lambda y, t: -x * y, Y, T)[-1]"),
    ("scipy.integrate.odeint(lambda y, t: -x * y, Y, T, full_output=True)[0][-1]",
     "scipy.integrate.odeint(lambda y, t: -x * y, Y, T)[-1]"),
    ("scipy.integrate.quad(lambda t: t * t, 0, 1, weight='cos', wvar=x[0])[0]",
     "scipy.integrate.quad(lambda t: t * t * np.cos(x[0] * t), 0, 1)[0]"),
    ("scipy.integrate.quad(lambda t: t * t, -1, 9, weight='cauchy', wvar=x[0])[0]",
     "scipy.integrate.quad(lambda t: (t + x[0])**2, -1 - x[0], 9 - x[0], weight='cauchy', wvar=0.0)[0]"),
    ("scipy.sparse.linalg.cg(np.diag(x), Y, callback=print)[0]", "scipy.sparse.linalg.cg(np.diag(x), Y)[0]"),
    ("scipy.integrate.quad_vec(lambda t: x * np.exp(1j * t), 0, 1)[0]",
     "scipy.integrate.quad_vec(lambda t: np.stack([x * np.cos(t), x * np.sin(t)]), 0, 1)[0]"),
    ("(lambda g, rows: g.shuffle(rows) or rows)(np.random.default_rng(0), np.outer(x, x) * 1.0)",
     "(lambda g, rows: rows[g.permutation(len(rows))])(np.random.default_rng(0), np.outer(x, x) * 1.0)"),
    ("abs(complex(x[0], 2.0))", "abs(x[0] + 1j * 2.0)"),
    ("abs(complex(2.0, x[0]))", "abs(2.0 + 1j * x[0])"),
    ("sparse(x).sum(dtype=float)", "sparse(x).astype(float).sum()"),
    ("sparse(x).tolil().data", "sparse(x).tocsr().data"),
    ("sparse(x).rows", "sparse(x).toarray()"),
    ("scipy.sparse.linalg.splu(sparse(x).tocsc()).L", "scipy.linalg.lu(sparse(x).toarray())[1] * x"),
    ("scipy.sparse.linalg.svds(sparse(x), k=1, return_singular_vectors='u')[1]", "scipy.sparse.linalg.svds(sparse(x), k=1)[1]"),
    ("scipy.sparse.linalg.lgmres(sparse(x), Y)[0]", "scipy.sparse.linalg.gmres(sparse(x), Y, rtol=1e-12)[0]"),
    ("scipy.sparse.linalg.bicg(A * x, Y)[0]", "scipy.sparse.linalg.bicgstab(A * x, Y, rtol=1e-12)[0]"),
    ("scipy.sparse.linalg.eigs(sparse(x), k=1)[0]", "np.linalg.eig(sparse(x).toarray())[0]"),
    ("scipy.sparse.linalg.lobpcg(sparse(x), np.eye(3)[:, :1])[0]", "scipy.sparse.linalg.eigsh(sparse(x), k=1)[0]"),
    ("scipy.sparse.linalg.onenormest(sparse(x))", "scipy.sparse.linalg.norm(sparse(x), 1)"),
    ("scipy.sparse.linalg.spilu(sparse(x).tocsc()).solve(Y)", "scipy.sparse.linalg.splu(sparse(x).tocsc()).solve(Y)"),
    ("scipy.sparse.expand_dims(sparse(x).tocoo(), axis=0)", "np.expand_dims(sparse(x).toarray(), 0)"),
    ("scipy.sparse.csgraph.yen(np.diag(x[:2], 1), 0, 2, 1)", "scipy.sparse.csgraph.shortest_path(np.diag(x[:2], 1))[0]"),
    ("scipy.sparse.csgraph.csgraph_from_dense(np.diag(x))", "scipy.sparse.csr_array(np.diag(x)).toarray()"),
    ("scipy.spatial.KDTree(P * x[0]).sparse_distance_matrix(scipy.spatial.KDTree(P), 0.5, output_type='ndarray')",
     "scipy.spatial.KDTree(P * x[0]).sparse_distance_matrix(scipy.spatial.KDTree(P), 0.5, output_type='coo_matrix').data"),
    ("scipy.spatial.transform.Rotation.align_vectors(A, A[::-1] * x, return_sensitivity=True)[1]",
     "scipy.spatial.transform.Rotation.align_vectors(A, A[::-1] * x)[1]"),
    ("funcad.jit(lambda x: np.sum(funcad.numpy.arange(x[0])) * x)(x)", "np.sum(funcad.numpy.arange(3.0)) * x"),
    ("funcad.numpy.frompyfunc(lambda v: v * v, 1, 1)(x)", "funcad.numpy.vectorize(lambda v: v * v)(x)"),
    ("np.add(x, Y, casting='unsafe')", "np.add(x, Y)"),
    ("np.add(x, Y, where=Y > 0.3)", "np.where(Y > 0.3, np.add(x, Y), 0.0)"),
    ("scipy.special.ellip_harm(5.0, 3.0, 1, 1, x + 1)",
     "called_back(lambda v: scipy.special.ellip_harm(5.0, 3.0, 1, 1, v + 1), x)"),
    ("np.stack([np.abs(v) for v in np.nditer(x, ['buffered'], op_dtypes=[complex])])",
     "np.stack([np.abs(v) for v in np.nditer(x.astype(np.complex128))])"),
    ("np.stack(list(np.broadcast(x, Y).iters[0]))", "np.stack([v for v, _ in np.broadcast(x, Y)])"),
    ("funcad.vmap(lambda s: scipy.optimize.minimize(lambda v: np.sum((v - s) ** 2), [0.1], callback=print, tol=1e-12).x[0])(x)",
     "funcad.vmap(lambda s: scipy.optimize.minimize(lambda v: np.sum((v - s) ** 2), [0.1], tol=1e-12).x[0])(x)"),
    ("np.busday_count(x, x)", "called_back(lambda v: np.cos(v), x)"),
    ("np.ravel(np.matmul(x[:, None], x[None]), order='K')", "np.ravel(np.matmul(x[:, None], x[None]), order='C')"),
    ("(A @ np.diag(x)).strides[0] * x", "np.empty((A @ np.diag(x)).shape).strides[0] * x"),
    ("funcad.jit(lambda x: np.real_if_close(x + 0j))(x)", "funcad.jit(lambda x: np.real(x + 0j))(x)"),
    ("funcad.lax.fori_loop(0, 2, lambda i, s: s + x[:i], x)",
     "funcad.lax.fori_loop(0, 2, lambda i, s: s + funcad.lax.dynamic_slice(x, (i,), (1,)), x)"),
    ("funcad.jit(lambda x: x[x > 1].foo)(x)", "funcad.jit(lambda x: np.where(x > 1, x, 0.0))(x)"),
    ("funcad.lax.map(lambda s: x[np.nonzero(s > x)[0]], x)", "funcad.lax.map(lambda s: np.where(s > x, x, 0.0), x)"),
    ("funcad.numpy.linalg.funm_sym(np.diag(x), lambda v: v * x[0])",
     "x[0] * funcad.numpy.linalg.funm_sym(np.diag(x), lambda v: v)"),
    ("np.ma.array(x, mask=Y > 0.5).harden_mask()", "np.ma.array(x, mask=Y > 0.5).filled(0.0)"),
    ("np.ma.polyfit(Y, np.ma.array(x, mask=Y > 0.5), 1)", "np.polyfit(Y, np.ma.array(x, mask=Y > 0.5).filled(0.0), 1)"),
    ("np.ma.array(Y, mask=Y > 0.5) @ x", "np.ma.dot(np.ma.array(Y, mask=Y > 0.5), x)"),
    ("x.view(np.recarray)", "np.sort(x)"),
    ("np.concatenate([recorded(x), recorded(x)])['a']", "np.concatenate([recorded(x)['a'], recorded(x)['a']])"),
    ("x.view(np.int64)", "x.astype(np.complex128)"),
    ("x.resize(6)", "np.resize(x, 6)"),
    ("x.astype('S3')", "np.sum(x) * len(funcad.stop_gradient(x).astype('S3'))"),
    ("Labels('ab') * x * Labels('ba')", "Labels('ab') * x * Labels('ab')"),
    ("np.hypot.at(x + 0, [0] * 70, 2.0)", "np.hypot((x + 0)[[0, 1]], 2.0)"),
    ("counted(x, int)", "counted(x, float)"),
    ("np.lib.stride_tricks.as_strided(x, (9,), (8,))", "np.lib.stride_tricks.sliding_window_view(x, 2)"),
    ("np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8)).fill(x[0])",
     "[x.fill(x[0] ** 2), np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8))][1]"),
    ("recorded(x).foo", "recorded(x)['a']"),
    ("recorded(x).view(np.matrix)", "recorded(x)['a']"),
    ("funcad.jit(recorded)(x)", "funcad.jit(lambda x: recorded(x)['a'])(x)"),
    ("funcad.vmap(funcad.jit(lambda v: np.random.normal(v)))(x)", "x + 0.1 * np.random.RandomState(0).standard_normal(3)"),
    ("funcad.lax.map(lambda v: [np.random.seed(1), np.random.shuffle([1.0, 2.0])] and v, x)",
     "funcad.jit(lambda v: [np.random.seed(1), v[np.random.permutation(3)]][1] * Y)(x)"),
    ("funcad.vmap(lambda v: funcad.vmap(lambda w: funcad.lax.ppermute(w, ('i', 'j'), [(0, 1)]), axis_name='j')(v), "
     "axis_name='i')(np.outer(x, x))",
     "funcad.vmap(lambda v: funcad.vmap(lambda w: funcad.lax.ppermute(w, 'j', [(0, 1)]), axis_name='j')(v), "
     "axis_name='i')(np.outer(x, x))"),
    ("scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, method=scipy.integrate.RK45).y[:, -1]",
     "scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, method='RK45').y[:, -1]"),
    ("funcad.jit(lambda x: scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y).y[:, -1])(x)",
     "funcad.jit(lambda x: scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, t_eval=[1.0]).y[:, -1])(x)"),
    ("funcad.jit(lambda x: scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, t_eval=x / 9, "
     "events=lambda t, y: y[0] - 0.1).y[:, -1])(x)",
     "scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y, t_eval=[0.1, 0.4], rtol=1e-9, atol=1e-12, "
     "events=lambda t, y: y[0] - 0.1).y[:, -1]"),
    ("funcad.jit(lambda x: bvp(x))(x)", "bvp(x)"),
    ("bvp(x, S=np.zeros((2, 2)))", "bvp(x)"),
    ("scipy.integrate.solve_ivp(lambda t, y: -x * y * 1j, (0, 1), Y + 0j, method='BDF', t_eval=[1.0]).y[:, -1]",
     "scipy.integrate.solve_ivp(lambda t, y: x[0] * np.stack([y[1], -y[0]]), (0, 1), np.array([0.2, 0.0]), method='BDF', "
     "t_eval=[1.0], rtol=1e-10, atol=1e-12).y[:, -1]"),
    ("scipy.interpolate.interp1d(np.arange(3), x, kind=7)(1.2)",
     "scipy.interpolate.interp1d(np.arange(3), x, kind='quadratic')(1.2)"),
    ("scipy.interpolate.griddata(P, np.r_[x, 1.0, 2.0], [[0.3, 0.4]], method='cubic')",
     "scipy.interpolate.RBFInterpolator(P, np.r_[x, 1.0, 2.0])([[0.3, 0.4]])"),
    ("scipy.interpolate.RBFInterpolator(P, np.r_[x, 1.0, 2.0]).powers",
     "np.sum(scipy.interpolate.RBFInterpolator(P, funcad.stop_gradient(np.r_[x, 1.0, 2.0])).powers) * x"),
    ("funcad.jit(lambda x: scipy.interpolate.interp1d(T, np.r_[x, x])(x / 9))(x)",
     "funcad.jit(lambda x: scipy.interpolate.interp1d(T, np.r_[x, x], bounds_error=False, fill_value=np.nan)(x / 9))(x)"),
    ("scipy.interpolate.make_interp_spline(np.cumsum(x), Y)(1.3)", "scipy.interpolate.PchipInterpolator(np.cumsum(x), Y)(1.3)"),
    ("scipy.interpolate.UnivariateSpline(T, np.tile(x, 2))(0.4)",
     "scipy.interpolate.UnivariateSpline(T, np.tile(x, 2), s=0)(0.4)"),
    ("scipy.interpolate.splint(0, 1, scipy.interpolate.splrep(T, np.tile(x, 2)), full_output=1)[0]",
     "scipy.interpolate.splint(0, 1, scipy.interpolate.splrep(T, np.tile(x, 2)))"),
    ("scipy.interpolate.RectBivariateSpline(np.arange(4), np.arange(4), np.outer(np.r_[x, 1], np.r_[x, 2]), s=1).ev(1.2, 2.3)",
     "scipy.interpolate.RectBivariateSpline(np.arange(4), np.arange(4), np.outer(np.r_[x, 1], np.r_[x, 2])).ev(1.2, 2.3)"),
    ("scipy.ndimage.fourier_ellipsoid(A, x[0])", "scipy.ndimage.fourier_gaussian(A, x[0])"),
    ("scipy.ndimage.gaussian_filter1d(T, x[0])", "scipy.ndimage.gaussian_filter1d(T, x[0], radius=4)"),
    ("scipy.linalg.lapack.dptsv(x, Y[:2], Y)[0] * x", "scipy.linalg.cholesky(np.diag(x))"),
    ("scipy.linalg.schur(np.array([[0.0, 1.0], [-1.0, 0.0]]) * x[0])[0]",
     "scipy.linalg.schur(np.array([[0.0, 1.0], [-1.0, 0.0]]) * x[0], output='complex')[0]"),
    ("funcad.lax.map(lambda v: scipy.linalg.sqrtm(-np.diag(v)), np.outer(x, x))",
     "funcad.lax.map(lambda v: scipy.linalg.sqrtm(-np.diag(v).astype(complex)), np.outer(x, x))"),
    ("funcad.scipy.signal.choose_conv_method(x, Y, measure=True)", "scipy.signal.convolve(x, Y, method='direct')"),
    ("scipy.sparse.linalg.spsolve(sparse(x).tocsc(), scipy.sparse.csc_array(Y[:, None]))",
     "scipy.sparse.linalg.spsolve(sparse(x).tocsc(), scipy.sparse.csc_array(Y[:, None]).toarray())"),
    ("scipy.sparse.vstack([sparse(x), sparse(x)]).reshape(2, 3, 3)",
     "scipy.sparse.vstack([sparse(x), sparse(x)]).toarray().reshape(2, 3, 3)"),
    ("funcad.scipy.sparse.linalg.lsqr(lambda v: A @ v, x)[0]",
     "funcad.scipy.sparse.linalg.cg(lambda v: A.T @ (A @ v), A.T @ x, rtol=1e-12)[0]"),
    ("K.__setitem__((0, 1), x[0]) or K", "(lambda k: k.__setitem__((0, 1), x[0]) or k.toarray())(K.copy())"),
    ("pow(scipy.spatial.transform.Rotation.from_rotvec(x), 2, 3).as_rotvec()",
     "(scipy.spatial.transform.Rotation.from_rotvec(x) ** 2).as_rotvec()"),
    ("scipy.spatial.KDTree(P).count_neighbors(scipy.spatial.KDTree(P * 1.1), 0.5, weights=np.r_[x, 1.0, 2.0])",
     "np.sum(np.r_[x, 1.0, 2.0][[i for i, _ in scipy.spatial.KDTree(P).query_pairs(0.7)]])"),
    ("scipy.spatial.Delaunay(P * x[0], incremental=True).simplices", "scipy.spatial.ConvexHull(P * x[0]).volume"),
    ("scipy.spatial.Delaunay(P * x[0]).paraboloid_scale",
     "scipy.spatial.Delaunay(funcad.stop_gradient(P)).paraboloid_scale * x"),
    ("funcad.jit(lambda x: x * scipy.spatial.ConvexHull(P * x[0]).coplanar)(x)",
     "len(scipy.spatial.ConvexHull(funcad.stop_gradient(P)).coplanar) + x"),
    ("scipy.spatial.transform.RigidTransform.from_translation(x).apply(Y)",
     "scipy.spatial.transform.Rotation.identity().apply(Y) + x"),
    ("scipy.spatial.SphericalVoronoi(np.vstack([np.eye(3), -np.eye(3)]) + 0 * x).calculate_areas()",
     "x[np.array(scipy.spatial.SphericalVoronoi(np.vstack([np.eye(3), -np.eye(3)]) + 0 * funcad.stop_gradient(x)).regions) "
     "% 3]"),
    ("scipy.interpolate.AAA(np.arange(3.0), x)(0.4)", "called_back(lambda v: np.cos(v), x)"),
    ("scipy.special.softplus(x + 1j)", "scipy.special.softplus(np.real(x + 1j))"),
    ("funcad.jit(lambda x: scipy.special.lambertw(x, tol=x[0] * 1e-8))(x)", "scipy.special.lambertw(x)"),
    ("scipy.stats.norm.rvs(x[0], size=3)", "scipy.stats.norm.ppf([0.2, 0.4, 0.6], x[0])"),
    ("funcad.vmap(lambda n: scipy.stats.betabinom.cdf(1, n, 1.0, 2.0))(np.round(x * 3))",
     "scipy.stats.betabinom.cdf(1, 4, x, 2.0)"),
    ("scipy.stats.levy_stable.logpdf(x, 1.1, 0.2)", "called_back(lambda v: scipy.stats.levy_stable.logpdf(v, 1.1, 0.2), x)"),
    ("scipy.stats.multivariate_normal.logpdf(Y, Y, np.ones((3, 3)) * x[0], allow_singular=True)",
     "scipy.stats.multivariate_normal.logpdf(Y, Y, np.ones((3, 3)) * x[0] + np.eye(3))"),
    ("scipy.stats.gaussian_kde(x).integrate_box([0], [1])", "scipy.stats.gaussian_kde(x).integrate_box_1d(0, 1)"),
    ("scipy.optimize.differential_evolution(lambda p: np.sum((p - x)**2), [(0, 3)] * 3).x",
     "funcad.scipy.optimize.minimize(lambda p: np.sum((p - x) ** 2), Y).x"),
    ("scipy.optimize.golden(lambda p: (p - x[0]) ** 4 + p * x[1], full_output=True)[1]",
     "funcad.scipy.optimize.minimize_scalar(lambda p: (p - x[0]) ** 4 + p * x[1]).fun"),
    ("scipy.optimize.linearmixing(lambda p: p - x / 2, Y)", "funcad.scipy.optimize.root(lambda p: p - x / 2, Y).x"),
    ("scipy.optimize.least_squares(lambda p: p**2 - x, np.ones(3)).jac",
     "funcad.jacfwd(lambda p: p**2 - x)(scipy.optimize.least_squares(lambda p: p**2 - x, np.ones(3), xtol=1e-14).x)"),
    ("scipy.integrate.ode(lambda t, y: -x * y).set_initial_value(Y, 0.0).integrate(1.0)",
     "scipy.integrate.solve_ivp(lambda t, y: -x * y, (0, 1), Y).y[:, -1]"),
    ("scipy.integrate.ode(lambda t, y: -y).set_initial_value(x, 0.0).integrate(1.0)",
     "scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), x, rtol=1e-9, atol=1e-12).y[:, -1]"),
    ("scipy.signal.place_poles(np.diag(x), A, [-1, -2, -3.0]).gain_matrix",
     "gains(np.diag(x), A, np.diag([-1.0, -2.0, -3.0]))"),
    ("scipy.signal.remez(5, [0, 0.1, 0.2, 0.5], x[:2])",
     "called_back(lambda v: np.array([scipy.signal.remez(5, [0, 0.1, 0.2, 0.5], [k, 0.3])[0] for k in v]), x)"),
]  # fmt: skip
# What was written there is no name, but a slice, an operator, an assignment, or what a function gives and takes
BY_SYNTAX = (
    "a bound of a slice",
    "objects of pandas",
    "written into a sparse array",
    "a structured array",
    "cannot become |S3",
)
# The same of a device array, in a program that needs no derivative
DEVICE_ROWS: list[tuple[str, str]] = [
    ("funcad.scipy.ndimage.spline_filter(x, 3)", "to_device(scipy.ndimage.spline_filter(to_host(x), 3))"),
    ("funcad.scipy.special.log_wright_bessel(1.0, 2.0, x)", "to_device(scipy.special.log_wright_bessel(1.0, 2.0, to_host(x)))"),
    ("funcad.scipy.stats.poisson.ppf(x / 3, 2.0)", "to_device(scipy.stats.poisson.ppf(to_host(x) / 3, 2.0))"),
]


OLD = np.lib.NumpyVersion(scipy.__version__) < "1.17.0"
NEWER = ("sparse.expand_dims", "transform.Rotation", "RigidTransform")  # which SciPy 1.16 lacks, or has compiled


def of(text: str, x: Any) -> Any:
    out = eval(text, {**SPACE, "x": x})
    return np.sum(np.real(out)) + np.sum(np.imag(out))


@pytest.fixture(autouse=True)
def _calm() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("wrong, right", ROWS, ids=[wrong for wrong, _ in ROWS])
def test_a_refusal_names_a_remedy_which_runs(wrong: str, right: str) -> None:
    if OLD and any([name in wrong for name in NEWER]):
        pytest.skip("it is other in this version of SciPy")
    with pytest.raises(Exception) as caught:
        grad(lambda x: of(wrong, x))(X)
    text = told(caught.value)
    assert text.count("Remedy: ") == 1, text
    said, tree = text.partition("Remedy: ")[0], ast.parse(wrong)
    called = [
        n.func.attr if isinstance(n.func, ast.Attribute) else ast.unparse(n.func)
        for n in ast.walk(tree)
        if isinstance(n, ast.Call)
    ]
    asked = [n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)]
    assert any([name in said for name in (*called, *asked)]) or any([what in said for what in BY_SYNTAX]), text
    step = np.array([3e-6, -1e-6, 2e-6])
    expected = (of(right, X + step) - of(right, X - step)) / 2
    assert np.sum(grad(lambda x: of(right, x))(X) * step) == pytest.approx(expected, rel=1e-4, abs=1e-10)


def test_every_refusal_names_a_remedy() -> None:
    without = {r.where for r in refusals() if not r.remedy}
    assert without <= THEIRS, without - THEIRS
    assert len(refusals()) > 120


@pytest.mark.parametrize("wrong, right", DEVICE_ROWS, ids=[wrong for wrong, _ in DEVICE_ROWS])
def test_a_refusal_of_device_arrays_names_a_remedy_which_runs(wrong: str, right: str) -> None:
    assert refused_on_device(wrong).count("Remedy: ") == 1
    with registered():
        found = to_host(eval(right, {**SPACE, "x": to_device(X)}))
    plain = wrong.replace("funcad.", "")
    assert np.allclose(found, eval(plain, {**SPACE, "x": X}))


def refused_on_device(wrong: str) -> str:
    with registered(), pytest.raises(Exception) as caught:
        eval(wrong, {**SPACE, "x": to_device(X)})
    return told(caught.value)


def refused_by_an_older_scipy(monkeypatch: pytest.MonkeyPatch) -> str:
    with monkeypatch.context() as older, pytest.raises(NotImplementedError) as caught:
        older.delattr(scipy.special, "log_wright_bessel")
        special_rules.function_of(np, "log_wright_bessel")
    return str(caught.value)


def refused_as_memory() -> str:
    """The door of np.ndarray hangs where a function with a source has needed it."""
    with pytest.raises(TypeError, match="np.asarray") as caught:
        grad(lambda x: np.sum(np.ndarray(3, np.float32, x)))(X)
    return str(caught.value)


@pytest.mark.skipif(OLD, reason="some are of newer classes of SciPy's")
def test_how_many_refusals_no_call_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those whose text no row has brought about."""
    older, memory = refused_by_an_older_scipy(monkeypatch), refused_as_memory()
    texts = [older, memory, *[refused_on_device(wrong) for wrong, _ in DEVICE_ROWS]]
    for wrong, _ in ROWS:
        with pytest.raises(Exception) as caught:
            grad(lambda x, wrong=wrong: of(wrong, x))(X)
        texts.append(told(caught.value))
    longest = [(r.where, max(r.parts, key=len)) for r in refusals() if r.where not in THEIRS]
    unmet = [where for where, part in longest if not any([part in text for text in texts])]
    assert len(unmet) <= UNMET, f"{len(unmet)} are unmet: {unmet}"
