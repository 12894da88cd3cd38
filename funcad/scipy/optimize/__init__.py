"""`scipy.optimize`, differentiable: SciPy's own solvers, with funcad's derivatives inside and around them.

`minimizing` (with `constraints`), `roots`, `fitting`, `linear_problems` and `older_names` hold the functions; `implicit` what
they share.
"""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.optimize.fitting import curve_fit as curve_fit
from funcad.scipy.optimize.fitting import least_squares as least_squares
from funcad.scipy.optimize.linear_problems import linear_sum_assignment as linear_sum_assignment
from funcad.scipy.optimize.linear_problems import linprog as linprog
from funcad.scipy.optimize.linear_problems import lsq_linear as lsq_linear
from funcad.scipy.optimize.linear_problems import milp as milp
from funcad.scipy.optimize.linear_problems import nnls as nnls
from funcad.scipy.optimize.minimizing import minimize as minimize
from funcad.scipy.optimize.older_names import fsolve as fsolve
from funcad.scipy.optimize.older_names import leastsq as leastsq
from funcad.scipy.optimize.older_names import minimize_scalar as minimize_scalar
from funcad.scipy.optimize.roots import bisect as bisect
from funcad.scipy.optimize.roots import brenth as brenth
from funcad.scipy.optimize.roots import brentq as brentq
from funcad.scipy.optimize.roots import fixed_point as fixed_point
from funcad.scipy.optimize.roots import newton as newton
from funcad.scipy.optimize.roots import ridder as ridder
from funcad.scipy.optimize.roots import root as root
from funcad.scipy.optimize.roots import root_scalar as root_scalar
from funcad.scipy.optimize.roots import toms748 as toms748

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.optimize")

__dir__ = _public_names(globals())
