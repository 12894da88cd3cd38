"""`scipy.linalg`, differentiable; SciPy's own results where nothing is traced.

Stacks of matrices (leading axes) are allowed everywhere when traced. `solving`, `decompositions`, `functions` and
`special_matrices` hold the functions.
"""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.numpy.funm import funm_sym as funm_sym
from funcad.scipy.door import absent as _absent
from funcad.scipy.linalg.decompositions import eig as eig
from funcad.scipy.linalg.decompositions import eigh as eigh
from funcad.scipy.linalg.decompositions import eigh_tridiagonal as eigh_tridiagonal
from funcad.scipy.linalg.decompositions import eigvals as eigvals
from funcad.scipy.linalg.decompositions import eigvalsh as eigvalsh
from funcad.scipy.linalg.decompositions import eigvalsh_tridiagonal as eigvalsh_tridiagonal
from funcad.scipy.linalg.decompositions import lstsq as lstsq
from funcad.scipy.linalg.decompositions import norm as norm
from funcad.scipy.linalg.decompositions import orthogonal_procrustes as orthogonal_procrustes
from funcad.scipy.linalg.decompositions import pinv as pinv
from funcad.scipy.linalg.decompositions import pinvh as pinvh
from funcad.scipy.linalg.decompositions import polar as polar
from funcad.scipy.linalg.decompositions import qr as qr
from funcad.scipy.linalg.decompositions import rq as rq
from funcad.scipy.linalg.decompositions import schur as schur
from funcad.scipy.linalg.decompositions import svd as svd
from funcad.scipy.linalg.decompositions import svdvals as svdvals
from funcad.scipy.linalg.matrix_equations import coshm as coshm
from funcad.scipy.linalg.matrix_equations import cosm as cosm
from funcad.scipy.linalg.matrix_equations import expm as expm
from funcad.scipy.linalg.matrix_equations import expm_frechet as expm_frechet
from funcad.scipy.linalg.matrix_equations import logm as logm
from funcad.scipy.linalg.matrix_equations import sinhm as sinhm
from funcad.scipy.linalg.matrix_equations import sinm as sinm
from funcad.scipy.linalg.matrix_equations import solve_continuous_lyapunov as solve_continuous_lyapunov
from funcad.scipy.linalg.matrix_equations import solve_discrete_lyapunov as solve_discrete_lyapunov
from funcad.scipy.linalg.matrix_equations import solve_lyapunov as solve_lyapunov
from funcad.scipy.linalg.matrix_equations import solve_sylvester as solve_sylvester
from funcad.scipy.linalg.matrix_equations import sqrtm as sqrtm
from funcad.scipy.linalg.matrix_equations import tanhm as tanhm
from funcad.scipy.linalg.matrix_equations import tanm as tanm
from funcad.scipy.linalg.riccati import null_space as null_space
from funcad.scipy.linalg.riccati import orth as orth
from funcad.scipy.linalg.riccati import solve_continuous_are as solve_continuous_are
from funcad.scipy.linalg.riccati import solve_discrete_are as solve_discrete_are
from funcad.scipy.linalg.solving import cho_factor as cho_factor
from funcad.scipy.linalg.solving import cho_solve as cho_solve
from funcad.scipy.linalg.solving import cholesky as cholesky
from funcad.scipy.linalg.solving import det as det
from funcad.scipy.linalg.solving import inv as inv
from funcad.scipy.linalg.solving import lu as lu
from funcad.scipy.linalg.solving import lu_factor as lu_factor
from funcad.scipy.linalg.solving import lu_solve as lu_solve
from funcad.scipy.linalg.solving import solve as solve
from funcad.scipy.linalg.solving import solve_banded as solve_banded
from funcad.scipy.linalg.solving import solve_circulant as solve_circulant
from funcad.scipy.linalg.solving import solve_toeplitz as solve_toeplitz
from funcad.scipy.linalg.solving import solve_triangular as solve_triangular
from funcad.scipy.linalg.solving import solveh_banded as solveh_banded
from funcad.scipy.linalg.special_matrices import block_diag as block_diag
from funcad.scipy.linalg.special_matrices import circulant as circulant
from funcad.scipy.linalg.special_matrices import companion as companion
from funcad.scipy.linalg.special_matrices import convolution_matrix as convolution_matrix
from funcad.scipy.linalg.special_matrices import dft as dft
from funcad.scipy.linalg.special_matrices import fiedler as fiedler
from funcad.scipy.linalg.special_matrices import hadamard as hadamard
from funcad.scipy.linalg.special_matrices import hankel as hankel
from funcad.scipy.linalg.special_matrices import helmert as helmert
from funcad.scipy.linalg.special_matrices import hilbert as hilbert
from funcad.scipy.linalg.special_matrices import invhilbert as invhilbert
from funcad.scipy.linalg.special_matrices import invpascal as invpascal
from funcad.scipy.linalg.special_matrices import khatri_rao as khatri_rao
from funcad.scipy.linalg.special_matrices import leslie as leslie
from funcad.scipy.linalg.special_matrices import pascal as pascal
from funcad.scipy.linalg.special_matrices import toeplitz as toeplitz

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.linalg")

__dir__ = _public_names(globals())
