"""Functions of matrices and matrix equations."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcad.api.tools import ShapeDtypeStruct
from funcad.control.callback import pure_callback
from funcad.ir.aval import dtype_of, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import array_of
from funcad.primitives import matrix_functions as m
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.conversion import complex_dtype, convert, imag, real, stop_gradient
from funcad.primitives.linear_systems import mH, mT, solve
from funcad.primitives.shape import broadcast_to, reshape
from funcad.scipy.door import implements, scipy_function
from funcad.scipy.linalg.decompositions import pinv, svd, svdvals
from funcad.scipy.optimize.implicit import implicit_root

from funcad.scipy.linalg.matrix_operands import (  # isort: skip
    at_least_a_matrix, check_square, conjugated, double, identity, inexact, is_complex, matrices, stacks, unsupported,
)


def _square(name: str, *arrays: Any, error: type[ValueError] = ValueError) -> list[Any]:
    xs = inexact(*arrays)
    for x in xs:
        check_square(name, x, error)
    return xs


@implements("linalg.expm", lift=True)
def expm(A: Any) -> Any:
    """The exponential of square matrices (..., n, n).

    As SciPy's (LinAlgError for shapes that are not square). Its derivatives are Fréchet derivatives by block matrices, right at
    coinciding eigenvalues too. A traced matrix that is not finite gives NaN.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: funcad.scipy.linalg.expm(t * np.eye(2))[0, 0])(0.0)
    np.float64(1.0)
    """
    (a,) = _square("expm", at_least_a_matrix(array_of(A)), error=np.linalg.LinAlgError)
    return m.expm(a)


@implements("linalg.expm_frechet", lift=True)
def expm_frechet(A: Any, E: Any, method: Any = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """`scipy.linalg.expm_frechet`: (expm(A), its derivative at A along E); traced, stacks of matrices are allowed.

    >>> import numpy as np, funcad
    >>> funcad.scipy.linalg.expm_frechet(np.zeros((1, 1)), np.ones((1, 1)))[1]
    array([[1.]])
    """
    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"Unknown implementation {method}")
    a, e = stacks(*double(*_square("expm_frechet", A, E)))
    along = m.expm_linear(a, e)
    return (m.expm(a), along) if compute_expm else along


def _real_or_complex(function: Any, a: Any, turned_back: Any) -> Any:
    """Of a real matrix a complex one where there is no real one, as SciPy gives it, if there is a value to tell by.

    SciPy's roots of negative numbers are those above the cut. The matrix is turned so that no eigenvalue is near the cut, and
    none comes across it: rounding would choose the side, in the blocks of a derivative above all.
    """
    try:
        return function(a)
    except ValueError:
        if is_complex(a):
            raise
    lowest = np.min(np.angle(np.linalg.eigvals(stop_gradient(a))), axis=-1)
    angle = 0.5 * (lowest + np.pi)[..., None, None]
    return turned_back(function(np.exp(-1j * angle) * a), angle)


@implements("linalg.sqrtm", lift=True)
def sqrtm(A: Any, disp: Any = None, blocksize: Any = None) -> Any:
    """The principal square root of square matrices (..., n, n).

    As SciPy's; where a program is traced, a real matrix gives a real root: ValueError, naming the remedy, if it has none (JAX
    always gives a complex one). Derivatives are right at coinciding eigenvalues.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: np.trace(funcad.scipy.linalg.sqrtm(t * np.eye(2))))(4.0)
    np.float64(0.5)
    """
    unsupported("sqrtm", disp=disp, blocksize=blocksize)
    (a,) = _square("sqrtm", A, error=np.linalg.LinAlgError)
    return _real_or_complex(m.sqrtm, a, lambda root, angle: root * np.exp(0.5j * angle))


@implements("linalg.logm", lift=True)
def logm(A: Any, disp: Any = None) -> Any:
    """The principal logarithm of square matrices; traced, stacks (..., n, n) are allowed.

    As SciPy's; where a program is traced, a real matrix gives a real logarithm: ValueError, naming the remedy, if it has none.

    >>> import numpy as np, funcad
    >>> round(float(funcad.grad(lambda t: np.trace(funcad.scipy.linalg.logm(t * np.eye(2))))(4.0)), 6)
    0.5
    """
    unsupported("logm", disp=disp)
    (a,) = _square("logm", A)
    return _real_or_complex(m.logm, a, lambda log, angle: log + 1j * angle * identity(a))


# -- trigonometric functions


def _exponentials(name: str, A: Any) -> tuple[Any, Any, bool]:
    """(expm(i A), expm(-i A), is A complex?); of real matrices the second is not needed."""
    (a,) = _square(name, A)
    turned = mul(1j, convert(a, complex_dtype(dtype_of(a))))
    return m.expm(turned), m.expm(neg(turned)) if is_complex(a) else None, is_complex(a)


@implements("linalg.fractional_matrix_power")
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """The power t of a square matrix, exp(t log A), and a product of matrices where t is a whole number.

    >>> import numpy as np, funcad
    >>> power = lambda a: np.trace(funcad.scipy.linalg.fractional_matrix_power(a * np.eye(2), 0.5))
    >>> round(float(funcad.grad(power)(4.0)), 6)
    0.5
    """
    (a,) = _square("fractional_matrix_power", A)
    if type(t) is not Tracer and t == int(t):
        return np.linalg.matrix_power(a, int(t))
    return expm(t * logm(a))


@implements("linalg.cosm", lift=True)
def cosm(A: Any) -> Any:
    forth, back, is_c = _exponentials("cosm", A)
    return mul(0.5, add(forth, back)) if is_c else real(forth)


@implements("linalg.sinm", lift=True)
def sinm(A: Any) -> Any:
    forth, back, is_c = _exponentials("sinm", A)
    return mul(-0.5j, sub(forth, back)) if is_c else imag(forth)


@implements("linalg.tanm", lift=True)
def tanm(A: Any) -> Any:
    forth, back, is_c = _exponentials("tanm", A)
    if is_c:
        return mul(-1j, solve(add(forth, back), sub(forth, back)))
    return solve(real(forth), imag(forth))


def _hyperbolic(name: str, A: Any) -> tuple[Any, Any]:
    (a,) = _square(name, A)
    forth, back = m.expm(a), m.expm(neg(a))
    return add(forth, back), sub(forth, back)


@implements("linalg.coshm", lift=True)
def coshm(A: Any) -> Any:
    return mul(0.5, _hyperbolic("coshm", A)[0])


@implements("linalg.sinhm", lift=True)
def sinhm(A: Any) -> Any:
    return mul(0.5, _hyperbolic("sinhm", A)[1])


@implements("linalg.tanhm", lift=True)
def tanhm(A: Any) -> Any:
    return solve(*_hyperbolic("tanhm", A))


# -- matrix equations


@implements("linalg.solve_sylvester", lift=True)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """x with a x + x b = q, by SciPy; traced, stacks of matrices are allowed.

    Where nothing is traced the result is SciPy's, whose versions up to 1.17 are wrong if one of a and b is complex and the
    other real; traced, all are converted first.

    >>> import numpy as np, funcad
    >>> one = np.ones((1, 1))
    >>> funcad.grad(lambda q: funcad.scipy.linalg.solve_sylvester(one, one, q)[0, 0])(one)
    array([[0.5]])
    """
    return m.sylvester(*stacks(*inexact(a, b, q)))


@implements("linalg.solve_continuous_lyapunov", lift=True)
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """x with a x + x a^H = q, by SciPy; traced, stacks of matrices are allowed."""
    a, q = stacks(*_square("solve_continuous_lyapunov", a, q))
    return m.sylvester(a, _adjoint(a), q)


solve_lyapunov = solve_continuous_lyapunov


@implements("linalg.solve_discrete_lyapunov", lift=True)
def solve_discrete_lyapunov(a: Any, q: Any, method: Any = None) -> Any:
    """x with a x a^H - x + q = 0; "direct" (default below n = 10) or "bilinear", as SciPy; stacks are allowed."""
    a, q = stacks(*double(*_square("solve_discrete_lyapunov", a, q)))
    n = shape_of(a)[-1]
    if method is None:
        method = "bilinear" if n >= 10 else "direct"
    if method == "direct":
        return _direct(a, q, n)
    if method != "bilinear":
        raise ValueError(f"Unknown solver {method}")
    one = identity(a)
    plus, minus = add(a, one), sub(a, one)
    left = solve(plus, minus)  # left x + x left^H = -2 (a + 1)^-1 q (a^H + 1)^-1
    right = _adjoint(solve(plus, _adjoint(solve(plus, q))))
    return m.sylvester(left, _adjoint(left), mul(-2.0, right))


def _adjoint(a: Any) -> Any:
    return mH(a) if is_complex(a) else mT(a)


def _direct(a: Any, q: Any, n: int) -> Any:
    shape = shape_of(a)
    lead = shape[:-2]
    rows = reshape(a, shape=(*lead, n, 1, n, 1))
    columns = reshape(conjugated(a), shape=(*lead, 1, n, 1, n))
    whole = (*lead, n, n, n, n)
    kron = reshape(mul(broadcast_to(rows, whole), broadcast_to(columns, whole)), shape=(*lead, n * n, n * n))
    return reshape(solve(sub(identity(kron), kron), reshape(q, shape=(*lead, n * n, 1))), shape=shape)


# -- Riccati's equations, differentiated implicitly, and bases of a matrix's null space and range


_DENSE = 2500  # n² of a matrix up to which the linear system of its derivative is formed


def _solution(name: str, equation: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any, balanced: bool) -> Any:
    """The x with equation(x, ...) = 0 that SciPy chooses."""
    given = dict(zip("abqres", (a, b, q, r, e, s)))
    names = [k for k in given if given[k] is not None]
    parts = dict(zip(names, double(*inexact(*[given[k] for k in names]))))
    n = shape_of(parts["a"])[-1]
    if any(len(shape_of(x)) != 2 for x in parts.values()):
        raise ValueError(f"{name} takes matrices; use funcad.vmap for stacks of them")
    dtype = np.result_type(*[dtype_of(x) for x in parts.values()])

    def host(start: Any, *operands: Any) -> tuple[Any, dict]:
        known = dict(zip(names, operands))
        x = scipy_function(f"linalg.{name}")(
            *[known[k] for k in "abqr"], e=known.get("e"), s=known.get("s"), balanced=balanced
        )
        return np.asarray(x, dtype).ravel(), {}

    def residual(z: Any) -> Any:
        x = reshape(z, shape=(n, n))
        a, b, q, r = [parts[k] for k in "abqr"]
        e, s = parts.get("e", np.eye(n)), parts.get("s", np.zeros(shape_of(b)))
        return reshape(equation(x, a, b, q, r, e, s), shape=(n * n,))

    z, _ = implicit_root(residual, np.zeros(n * n, dtype), host, list(parts.values()), {}, dense=_DENSE)
    return reshape(z, shape=(n, n))


@implements("linalg.solve_continuous_are")
def solve_continuous_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The x with a^H x e + e^H x a - (e^H x b + s) r^-1 (b^H x e + s^H) + q = 0, by SciPy; differentiable in all of them.

    >>> import numpy as np, funcad
    >>> one = np.ones((1, 1))
    >>> cost = lambda q: funcad.scipy.linalg.solve_continuous_are(0.0 * one, one, q, one)[0, 0]
    >>> funcad.grad(cost)(4.0 * one).round(6)  # x = sqrt(q)
    array([[0.25]])
    """

    def equation(x: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
        xe = np.matmul(x, e)
        gain = np.matmul(_adjoint(b), xe) + _adjoint(s)
        left = np.matmul(_adjoint(a), xe)
        right = np.matmul(np.matmul(_adjoint(e), x), a)
        pull = np.matmul(np.matmul(_adjoint(e), np.matmul(x, b)) + s, solve(r, gain))
        return left + right - pull + q

    return _solution("solve_continuous_are", equation, a, b, q, r, e, s, balanced)


@implements("linalg.solve_discrete_are")
def solve_discrete_are(a: Any, b: Any, q: Any, r: Any, e: Any = None, s: Any = None, balanced: bool = True) -> Any:
    """The x with a^H x a - e^H x e - (a^H x b + s) (r + b^H x b)^-1 (b^H x a + s^H) + q = 0, by SciPy; differentiable.

    >>> import numpy as np, funcad
    >>> one = np.ones((1, 1))
    >>> cost = lambda q: funcad.scipy.linalg.solve_discrete_are(one, one, q, one)[0, 0]
    >>> funcad.grad(cost)(one).round(6)  # x = (q + sqrt(q² + 4 q)) / 2
    array([[1.17082]])
    """

    def equation(x: Any, a: Any, b: Any, q: Any, r: Any, e: Any, s: Any) -> Any:
        xa = np.matmul(x, a)
        xb = np.matmul(x, b)
        gain = np.matmul(_adjoint(b), xa) + _adjoint(s)
        pull = np.matmul(np.matmul(_adjoint(a), xb) + s, solve(r + np.matmul(_adjoint(b), xb), gain))
        return np.matmul(_adjoint(a), xa) - np.matmul(_adjoint(e), np.matmul(x, e)) - pull + q

    return _solution("solve_discrete_are", equation, a, b, q, r, e, s, balanced)


# -- bases


def _rank(A: Any, rcond: Any) -> int:
    """The number of singular values that count, asked for as `int` asks: jit finds a path by it, vmap goes lane by lane."""
    s = svdvals(stop_gradient(A))
    rcond = np.finfo(s.dtype).eps * max(shape_of(A)) if rcond is None else rcond
    return int(np.sum(s > np.max(s, initial=0.0) * rcond))


@implements("linalg.null_space")
def null_space(A: Any, rcond: Any = None, **options: Any) -> Any:
    """`scipy.linalg.null_space`: an orthonormal basis N of the x with A x = 0, differentiable while the rank of A stays.

    A basis can be turned within its space; this one moves without turning (N^H dN = 0), which is the only part of its
    derivative that does not depend on how SciPy chooses it. The rank is asked for: jit has a program for each.

    >>> import numpy as np, funcad
    >>> line = lambda a: (lambda n: np.outer(n, n))(funcad.scipy.linalg.null_space(np.stack([a, np.ones(2)])[:1])[:, 0])
    >>> funcad.jvp(line, (np.array([1.0, 0.0]),), (np.array([0.0, 1.0]),))[1].round(6) + 0.0
    array([[ 0., -1.],
           [-1.,  0.]])
    """
    (A,) = matrices("null_space", A)
    m, n = shape_of(A)
    rank = _rank(A, rcond)
    host = lambda A: scipy_function("linalg.null_space")(A, rcond, **options)
    basis = pure_callback(host, ShapeDtypeStruct((n, n - rank), dtype_of(A)), stop_gradient(A), vmap_method="sequential")
    moved = basis - np.matmul(pinv(A, rtol=rcond), np.matmul(A, basis))
    if not n - rank:
        return moved
    # (1 + E)^(-1/2), where E is 0 and its first derivative too: these terms are exact to the fifth derivative
    error = np.matmul(_adjoint(moved), moved) - np.eye(n - rank)
    return np.matmul(moved, np.eye(n - rank) - 0.5 * error + 0.375 * np.matmul(error, error))


@implements("linalg.orth")
def orth(A: Any, rcond: Any = None) -> Any:
    """`scipy.linalg.orth`: an orthonormal basis of what A x can be, the left singular vectors; differentiable as `svd`'s.

    The rank is asked for: jit has a program for each.

    >>> import numpy as np, funcad
    >>> direction = lambda a: abs(funcad.scipy.linalg.orth(np.stack([a, 2 * a], axis=1))[0, 0])
    >>> round(float(funcad.jvp(direction, (np.array([3.0, 4.0]),), (np.array([1.0, 0.0]),))[1]), 6)
    0.128
    """
    (A,) = matrices("orth", A)
    return svd(A, full_matrices=False)[0][:, : _rank(A, rcond)]
