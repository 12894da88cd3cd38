"""Interpolators under SciPy's names, differentiable in the points of evaluation and in the values.

Built and called on plain arrays they give what SciPy's own give, and have the attributes of SciPy's. Where the places of the
samples may be traced too, the class says so.
"""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent

# isort: off
from funcad.scipy.interpolate.grid import (
    LinearNDInterpolator as LinearNDInterpolator, NearestNDInterpolator as NearestNDInterpolator,
    RBFInterpolator as RBFInterpolator, RegularGridInterpolator as RegularGridInterpolator, griddata as griddata,
    interp1d as interp1d, interpn as interpn,
)  # fmt: skip
from funcad.scipy.interpolate.splines import (
    Akima1DInterpolator as Akima1DInterpolator, BSpline as BSpline, CubicHermiteSpline as CubicHermiteSpline,
    CubicSpline as CubicSpline, InterpolatedUnivariateSpline as InterpolatedUnivariateSpline,
    LSQUnivariateSpline as LSQUnivariateSpline, PchipInterpolator as PchipInterpolator, UnivariateSpline as UnivariateSpline,
    make_interp_spline as make_interp_spline, make_lsq_spline as make_lsq_spline, splev as splev, splint as splint,
    splrep as splrep,
)  # fmt: skip
# isort: on

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CubicHermiteSpline",
    "CubicSpline",
    "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline",
    "LinearNDInterpolator",
    "NearestNDInterpolator",
    "PchipInterpolator",
    "RBFInterpolator",
    "RegularGridInterpolator",
    "UnivariateSpline",
    "griddata",
    "interp1d",
    "interpn",
    "make_interp_spline",
    "make_lsq_spline",
    "splev",
    "splint",
    "splrep",
]
__dir__ = _public_names(globals())

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.interpolate")
