"""Sparse Jacobians and Hessians: the pattern found by running the program on index sets, the numbers by few derivatives.

`jacobian(f)(x)` and `hessian(f)(x)` give SciPy's CSR arrays. index_sets.py finds the pattern, colouring.py says which columns
are computed together, compressed.py computes them.
"""

from funcad.configuration import public_names as _public_names
from funcad.sparse.compressed import Prepared as Prepared
from funcad.sparse.compressed import hessian as hessian
from funcad.sparse.compressed import jacobian as jacobian

__all__ = ["Prepared", "hessian", "jacobian"]

__dir__ = _public_names(globals())
