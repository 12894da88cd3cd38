"""`scipy.linalg`, differentiable; SciPy's own results where nothing is traced.

Stacks of matrices (leading axes) are allowed everywhere when traced. `solving`, `bands`, `decompositions`, `matrix_equations`
and `lapack`, the solvers of band systems that LAPACK has, hold the functions; each is loaded when one of it is first used.
"""

import importlib as _importlib
import typing as _typing

from funcad.configuration import later as _later
from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.door import by_own_code as _by_own_code

fiedler = _by_own_code("linalg.fiedler")

_FILES = {  # file -> what is found in it
    "bands": (
        "cho_solve_banded cholesky_banded eig_banded eigvals_banded solve_banded "
        "solveh_banded"
    ),
    "decompositions": (
        "eig eigh eigh_tridiagonal eigvals eigvalsh eigvalsh_tridiagonal lstsq norm "
        "orthogonal_procrustes pinv pinvh polar qr qr_multiply rq schur svd svdvals"
    ),
    "lapack": "get_lapack_funcs",
    "matrix_equations": (
        "coshm cosm expm expm_frechet fractional_matrix_power logm null_space orth sinhm sinm solve_continuous_are "
        "solve_continuous_lyapunov solve_discrete_are solve_discrete_lyapunov solve_lyapunov "
        "solve_sylvester sqrtm tanhm tanm"
    ),
    "solving": (
        "block_diag cho_factor cho_solve cholesky circulant companion convolution_matrix det "
        "dft hadamard hankel helmert hilbert inv invhilbert invpascal khatri_rao leslie lu "
        "lu_factor lu_solve pascal solve solve_circulant solve_toeplitz solve_triangular "
        "toeplitz"
    ),
}
_FILE_OF, _value_of = _later(globals(), _FILES)


def _found(name: str) -> _typing.Any:
    if name == "lapack":
        return _importlib.import_module("funcad.scipy.linalg.lapack")
    if name == "funm_sym":
        return _importlib.import_module("funcad.numpy.linalg_seldom").funm_sym
    return _value_of(name) if name in _FILE_OF else None


if _typing.TYPE_CHECKING:  # isort: off
    from funcad.numpy.linalg_seldom import funm_sym as funm_sym
    from funcad.scipy.linalg.bands import (
        cho_solve_banded as cho_solve_banded, cholesky_banded as cholesky_banded, eig_banded as eig_banded,
        eigvals_banded as eigvals_banded, solve_banded as solve_banded, solveh_banded as solveh_banded,
    )  # fmt: skip
    from funcad.scipy.linalg.decompositions import (
        eig as eig, eigh as eigh, eigh_tridiagonal as eigh_tridiagonal, eigvals as eigvals,
        eigvalsh as eigvalsh, eigvalsh_tridiagonal as eigvalsh_tridiagonal, lstsq as lstsq, norm as norm,
        orthogonal_procrustes as orthogonal_procrustes, pinv as pinv, pinvh as pinvh, polar as polar, qr as qr,
        qr_multiply as qr_multiply, rq as rq, schur as schur, svd as svd, svdvals as svdvals,
    )  # fmt: skip
    from funcad.scipy.linalg.solving import (
        block_diag as block_diag, cho_factor as cho_factor, cho_solve as cho_solve, cholesky as cholesky,
        circulant as circulant, companion as companion, convolution_matrix as convolution_matrix, det as det,
        dft as dft, hadamard as hadamard, hankel as hankel, helmert as helmert, hilbert as hilbert, inv as inv,
        invhilbert as invhilbert, invpascal as invpascal, khatri_rao as khatri_rao, leslie as leslie, lu as lu,
        lu_factor as lu_factor, lu_solve as lu_solve, pascal as pascal, solve as solve,
        solve_circulant as solve_circulant, solve_toeplitz as solve_toeplitz,
        solve_triangular as solve_triangular, toeplitz as toeplitz,
    )  # fmt: skip
    from funcad.scipy.linalg import lapack as lapack
    from funcad.scipy.linalg.lapack import get_lapack_funcs as get_lapack_funcs
    from funcad.scipy.linalg.matrix_equations import (
        coshm as coshm, cosm as cosm, expm as expm, expm_frechet as expm_frechet,
        fractional_matrix_power as fractional_matrix_power, logm as logm, null_space as null_space, orth as orth,
        sinhm as sinhm, sinm as sinm, solve_continuous_are as solve_continuous_are,
        solve_continuous_lyapunov as solve_continuous_lyapunov, solve_discrete_are as solve_discrete_are,
        solve_discrete_lyapunov as solve_discrete_lyapunov, solve_lyapunov as solve_lyapunov,
        solve_sylvester as solve_sylvester, sqrtm as sqrtm, tanhm as tanhm, tanm as tanm,
    )  # fmt: skip
else:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.linalg", _found)

__dir__ = _public_names(globals(), ["funm_sym", "lapack", *_FILE_OF])
