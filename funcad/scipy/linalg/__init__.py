"""`scipy.linalg`, differentiable; SciPy's own results where nothing is traced.

Stacks of matrices (leading axes) are allowed everywhere when traced. `solving`, `bands`, `decompositions` and
`matrix_equations` hold the functions; the last is loaded when a function of it is first used, since equations need solvers,
and these `jit`; so is `lapack`, the solvers of band systems that LAPACK has.
"""

import importlib as _importlib
import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.door import by_own_code as _by_own_code

# isort: off
from funcad.numpy.linalg import funm_sym as funm_sym
from funcad.scipy.linalg.bands import (
    cho_solve_banded as cho_solve_banded, cholesky_banded as cholesky_banded, eig_banded as eig_banded,
    eigvals_banded as eigvals_banded, solve_banded as solve_banded, solveh_banded as solveh_banded,
)  # fmt: skip
from funcad.scipy.linalg.decompositions import (
    eig as eig, eigh as eigh, eigh_tridiagonal as eigh_tridiagonal, eigvals as eigvals, eigvalsh as eigvalsh,
    eigvalsh_tridiagonal as eigvalsh_tridiagonal, lstsq as lstsq, norm as norm, orthogonal_procrustes as orthogonal_procrustes,
    pinv as pinv, pinvh as pinvh, polar as polar, qr as qr, qr_multiply as qr_multiply, rq as rq, schur as schur, svd as svd,
    svdvals as svdvals,
)  # fmt: skip
from funcad.scipy.linalg.solving import (
    block_diag as block_diag, cho_factor as cho_factor, cho_solve as cho_solve, cholesky as cholesky, circulant as circulant,
    companion as companion, convolution_matrix as convolution_matrix, det as det, dft as dft,
    hadamard as hadamard, hankel as hankel, helmert as helmert, hilbert as hilbert, inv as inv, invhilbert as invhilbert,
    invpascal as invpascal, khatri_rao as khatri_rao, leslie as leslie, lu as lu, lu_factor as lu_factor, lu_solve as lu_solve,
    pascal as pascal, solve as solve, solve_circulant as solve_circulant, solve_toeplitz as solve_toeplitz,
    solve_triangular as solve_triangular, toeplitz as toeplitz,
)  # fmt: skip
# isort: on

fiedler = _by_own_code("linalg.fiedler")

_EQUATIONS = (  # of matrix_equations.py
    "coshm cosm expm expm_frechet logm null_space orth sinhm sinm solve_continuous_are solve_continuous_lyapunov "
    "solve_discrete_are solve_discrete_lyapunov solve_lyapunov solve_sylvester sqrtm tanhm tanm"
).split()


_LAPACK = ["get_lapack_funcs", "lapack"]  # of lapack.py


def _later(name: str) -> _typing.Any:
    if name == "lapack":
        return _importlib.import_module("funcad.scipy.linalg.lapack")
    if name not in (*_EQUATIONS, *_LAPACK):
        return None
    module = "matrix_equations" if name in _EQUATIONS else "lapack"
    value = globals()[name] = getattr(_importlib.import_module(f"funcad.scipy.linalg.{module}"), name)
    return value


if _typing.TYPE_CHECKING:  # isort: off
    from funcad.scipy.linalg import lapack as lapack
    from funcad.scipy.linalg.lapack import get_lapack_funcs as get_lapack_funcs
    from funcad.scipy.linalg.matrix_equations import (
        coshm as coshm, cosm as cosm, expm as expm, expm_frechet as expm_frechet, logm as logm, null_space as null_space,
        orth as orth, sinhm as sinhm, sinm as sinm, solve_continuous_are as solve_continuous_are,
        solve_continuous_lyapunov as solve_continuous_lyapunov, solve_discrete_are as solve_discrete_are,
        solve_discrete_lyapunov as solve_discrete_lyapunov, solve_lyapunov as solve_lyapunov,
        solve_sylvester as solve_sylvester, sqrtm as sqrtm, tanhm as tanhm, tanm as tanm,
    )  # fmt: skip
else:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.linalg", _later)

__dir__ = _public_names(globals(), [*_EQUATIONS, *_LAPACK])
