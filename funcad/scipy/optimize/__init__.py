"""`scipy.optimize`, differentiable: SciPy's own solvers, with funcad's derivatives inside and around them.

`minimizing` (with `constraints`), `roots`, `fitting`, `linear_problems` and `older_names` hold the functions; `implicit` what
they share.
"""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent

# isort: off
from funcad.scipy.optimize.linear_problems import (
    linear_sum_assignment as linear_sum_assignment, linprog as linprog, lsq_linear as lsq_linear, milp as milp, nnls as nnls,
)  # fmt: skip
from funcad.scipy.optimize.minimizing import (
    curve_fit as curve_fit, fsolve as fsolve, least_squares as least_squares, leastsq as leastsq, minimize as minimize,
    minimize_scalar as minimize_scalar,
)  # fmt: skip
from funcad.scipy.optimize.roots import (
    bisect as bisect, brenth as brenth, brentq as brentq, fixed_point as fixed_point, newton as newton, ridder as ridder,
    root as root, root_scalar as root_scalar, toms748 as toms748,
)  # fmt: skip
# isort: on

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.optimize")

__dir__ = _public_names(globals())
