"""Integrals of samples and functions, and ordinary differential equations, under SciPy's names, differentiable.

`odeint` has JAX's signature, `odeint(func, y0, t, *args)`; derivatives in y0, t and args by the adjoint and the tangent
equations.
"""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.integrate.boundary_values import solve_bvp as solve_bvp
from funcad.scipy.integrate.initial_values import solve_ivp as solve_ivp
from funcad.scipy.integrate.ode import odeint as odeint
from funcad.scipy.integrate.quadrature import fixed_quad as fixed_quad
from funcad.scipy.integrate.quadrature import quad as quad
from funcad.scipy.integrate.samples import cumulative_simpson as cumulative_simpson
from funcad.scipy.integrate.samples import cumulative_trapezoid as cumulative_trapezoid
from funcad.scipy.integrate.samples import romb as romb
from funcad.scipy.integrate.samples import simpson as simpson
from funcad.scipy.integrate.samples import trapezoid as trapezoid
from funcad.scipy.integrate.several_variables import dblquad as dblquad
from funcad.scipy.integrate.several_variables import nquad as nquad
from funcad.scipy.integrate.several_variables import quad_vec as quad_vec
from funcad.scipy.integrate.several_variables import tplquad as tplquad

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
