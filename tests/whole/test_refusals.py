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
from tests.whole.test_mistakes import told

PACKAGE = Path(funcad.__file__).parent
FOLDERS = ("numpy", "scipy", "doors", "lifting", "primitives")
MARKS = ("traced", "not support", "unsupported")
THEIRS = {  # in the words of NumPy and SciPy, who raise it too; or an error of a class that somebody derives
    "gradient", "setitem", "pad", "common", "_subtract", "neg", "array_namespace", "i0", "Spline._pieces", "check_mode",
    "Akima1DInterpolator.__init__", "_check_order", "spline_filter",
}  # fmt: skip
UNMET = 75


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
SPACE: dict[str, Any] = {
    "np": np, "scipy": scipy, "funcad": funcad, "A": A, "T": np.linspace(0.0, 1.0, 6), "Y": np.array([0.2, 0.9, 0.4]),
    "P": np.array([[0.0, 0.0], [1.0, 0.1], [0.9, 1.0], [0.1, 0.8], [0.5, 0.45]]),
    "sparse": lambda x: scipy.sparse.csr_array((x, ([0, 1, 2], [0, 1, 2])), shape=(3, 3)),
    "band": lambda x: np.stack([x + 4.0, x * 0.1]),
}  # fmt: skip

# what is refused, and the same with the remedy in it: of a traced vector x
ROWS: list[tuple[str, str]] = [
    ("np.pad(x, 1, lambda v, w, i, k: v)", "np.concatenate([x[:1], x, x[-1:]])"),
    ("np.pad(x, 1, 'edge', stat_length=2)", "np.pad(x, 1, 'edge')"),
    ("np.cross(x[:2], Y[:2])", "x[0] * Y[1] - x[1] * Y[0]"),
    ("np.r_['r', x, Y]", "np.r_[x, Y]"),
    ("x.to_device('cpu', stream=1)", "x.to_device('cpu')"),
    ("np.frombuffer(x, np.float32)", "np.frombuffer(x, x.dtype)"),
    ("scipy.fft.fft(x, plan=1)", "scipy.fft.fft(x)"),
    ("scipy.linalg.eigh_tridiagonal(x, Y[:2], select='v', select_range=(0, 9))[0]",
     "scipy.linalg.eigh_tridiagonal(x, Y[:2], select='i', select_range=(0, 2))[0]"),
    ("scipy.linalg.qr(A * x, mode='raw')[1]", "scipy.linalg.qr(A * x, mode='economic')[1]"),
    ("scipy.linalg.qr(A * x, pivoting=True)[1]", "scipy.linalg.qr((A * x)[:, [2, 0, 1]])[1]"),
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
    ("scipy.signal.resample(x, 5, window='hann')", "scipy.signal.resample(x, 5)"),
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
    ("scipy.integrate.quad_vec(lambda t: x * np.exp(1j * t), 0, 1)[0]",
     "scipy.integrate.quad_vec(lambda t: np.stack([x * np.cos(t), x * np.sin(t)]), 0, 1)[0]"),
    ("sparse(x).sum(dtype=float)", "sparse(x).astype(float).sum()"),
    ("sparse(x).tolil().data", "sparse(x).tocsr().data"),
    ("sparse(x).rows", "sparse(x).toarray()"),
    ("scipy.sparse.linalg.splu(sparse(x).tocsc()).L", "scipy.linalg.lu(sparse(x).toarray())[1] * x"),
    ("scipy.sparse.linalg.svds(sparse(x), k=1, return_singular_vectors='u')[1]", "scipy.sparse.linalg.svds(sparse(x), k=1)[1]"),
    ("scipy.sparse.linalg.expm_multiply(scipy.sparse.linalg.aslinearoperator(A), x)",
     "scipy.sparse.linalg.expm_multiply(A, x)"),
    ("scipy.sparse.linalg.lgmres(sparse(x), Y)[0]", "scipy.sparse.linalg.gmres(sparse(x), Y, rtol=1e-12)[0]"),
    ("scipy.sparse.linalg.bicg(A * x, Y)[0]", "scipy.sparse.linalg.bicgstab(A * x, Y, rtol=1e-12)[0]"),
    ("scipy.sparse.linalg.eigs(sparse(x), k=1)[0]", "np.linalg.eig(sparse(x).toarray())[0]"),
    ("scipy.sparse.linalg.inv(sparse(x).tocsc())", "scipy.sparse.linalg.spsolve(sparse(x).tocsc(), np.eye(3))"),
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
    ("scipy.optimize.leastsq(lambda p: p - x, Y, factor=10)[0]",
     "scipy.optimize.least_squares(lambda p: p - x, Y, x_scale=2.0).x"),
]  # fmt: skip


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
    with pytest.raises(Exception) as caught:
        grad(lambda x: of(wrong, x))(X)
    text = told(caught.value)
    assert text.count("Remedy: ") == 1, text
    step = np.array([3e-6, -1e-6, 2e-6])
    expected = (of(right, X + step) - of(right, X - step)) / 2
    assert np.sum(grad(lambda x: of(right, x))(X) * step) == pytest.approx(expected, rel=1e-4, abs=1e-10)


def test_every_refusal_names_a_remedy() -> None:
    without = {r.where for r in refusals() if not r.remedy}
    assert without <= THEIRS, without - THEIRS
    assert len(refusals()) > 120


def test_how_many_refusals_no_call_meets() -> None:
    """Those whose text no row has brought about."""
    texts = []
    for wrong, _ in ROWS:
        with pytest.raises(Exception) as caught:
            grad(lambda x, wrong=wrong: of(wrong, x))(X)
        texts.append(told(caught.value))
    longest = [(r.where, max(r.parts, key=len)) for r in refusals() if r.where not in THEIRS]
    unmet = [where for where, part in longest if not any([part in text for text in texts])]
    assert len(unmet) <= UNMET, f"{len(unmet)} are unmet: {unmet}"
