"""Integrals of samples and functions, and ordinary differential equations, under SciPy's names, differentiable.

`odeint` has JAX's signature, `odeint(func, y0, t, *args)`; derivatives in y0, t and args by the adjoint and the tangent
equations.
"""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.door import by_own_code as _by_own_code

# isort: off
from funcad.scipy.integrate.initial_values import solve_bvp as solve_bvp, solve_ivp as solve_ivp
from funcad.scipy.integrate.ode import odeint as odeint
from funcad.scipy.integrate.quadrature import (
    cumulative_simpson as cumulative_simpson, cumulative_trapezoid as cumulative_trapezoid, dblquad as dblquad,
    fixed_quad as fixed_quad, nquad as nquad, quad as quad, quad_vec as quad_vec, simpson as simpson,
    tplquad as tplquad, trapezoid as trapezoid,
)  # fmt: skip
# isort: on

romb = _by_own_code("integrate.romb")

__all__ = [
    "cumulative_simpson",
    "cumulative_trapezoid",
    "dblquad",
    "fixed_quad",
    "nquad",
    "odeint",
    "quad",
    "quad_vec",
    "romb",
    "simpson",
    "solve_bvp",
    "solve_ivp",
    "tplquad",
    "trapezoid",
]
__dir__ = _public_names(globals())

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.integrate")
