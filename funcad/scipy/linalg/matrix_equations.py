"""Functions of matrices and matrix equations: expm, logm, sqrtm, trigonometric ones, Sylvester and Lyapunov."""

from __future__ import annotations

from typing import Any

from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives import frechet as m
from funcad.primitives.arithmetic import add, mul, neg, sub
from funcad.primitives.conversion import complex_dtype, convert, imag, real
from funcad.primitives.linear_systems import mH, mT, solve
from funcad.primitives.shape import broadcast_to, reshape
from funcad.scipy.door import implements
from funcad.scipy.linalg.matrix_operands import (
    check_square,
    conjugated,
    double,
    identity,
    inexact,
    is_complex,
    stacks,
    unsupported,
)


def _square(name: str, *arrays: Any) -> list[Any]:
    xs = inexact(*arrays)
    for x in xs:
        check_square(name, x)
    return xs


@implements("linalg.expm", lift=True)
def expm(A: Any) -> Any:
    """The exponential of square matrices (..., n, n).

    As SciPy's (ValueError for shapes that are not square). Its derivatives are Fréchet derivatives by block matrices, right at
    coinciding eigenvalues too. A traced matrix that is not finite gives NaN.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: funcad.scipy.linalg.expm(t * np.eye(2))[0, 0])(0.0)
    np.float64(1.0)
    """
    (a,) = _square("expm", A)
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


@implements("linalg.sqrtm", lift=True)
def sqrtm(A: Any, disp: Any = None, blocksize: Any = None) -> Any:
    """The principal square root of square matrices (..., n, n).

    As SciPy's, except that a traced real matrix gives a real root: ValueError, naming the remedy, if it has none (JAX always
    gives a complex one). Derivatives are right at coinciding eigenvalues.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda t: np.trace(funcad.scipy.linalg.sqrtm(t * np.eye(2))))(4.0)
    np.float64(0.5)
    """
    unsupported("sqrtm", disp=disp, blocksize=blocksize)
    (a,) = _square("sqrtm", A)
    return m.sqrtm(a)


@implements("linalg.logm", lift=True)
def logm(A: Any, disp: Any = None) -> Any:
    """The principal logarithm of square matrices; traced, stacks (..., n, n) are allowed.

    As SciPy's, except that a traced real matrix gives a real logarithm: ValueError, naming the remedy, if it has none.

    >>> import numpy as np, funcad
    >>> round(float(funcad.grad(lambda t: np.trace(funcad.scipy.linalg.logm(t * np.eye(2))))(4.0)), 6)
    0.5
    """
    unsupported("logm", disp=disp)
    (a,) = _square("logm", A)
    return m.logm(a)


# -- trigonometric functions


def _exponentials(name: str, A: Any) -> tuple[Any, Any, bool]:
    """(expm(i A), expm(-i A), is A complex?); of real matrices the second is not needed."""
    (a,) = _square(name, A)
    turned = mul(1j, convert(a, complex_dtype(dtype_of(a))))
    return m.expm(turned), m.expm(neg(turned)) if is_complex(a) else None, is_complex(a)


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
