"""Interpolators under SciPy's names, differentiable in the points of evaluation and in the values.

Built and called on plain arrays they give what SciPy's own give, and have the attributes of SciPy's. Where the places of the
samples may be traced too, the class says so.
"""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.interpolate.b_splines import BSpline as BSpline
from funcad.scipy.interpolate.b_splines import InterpolatedUnivariateSpline as InterpolatedUnivariateSpline
from funcad.scipy.interpolate.b_splines import LSQUnivariateSpline as LSQUnivariateSpline
from funcad.scipy.interpolate.b_splines import UnivariateSpline as UnivariateSpline
from funcad.scipy.interpolate.b_splines import make_lsq_spline as make_lsq_spline
from funcad.scipy.interpolate.b_splines import splev as splev
from funcad.scipy.interpolate.b_splines import splint as splint
from funcad.scipy.interpolate.b_splines import splrep as splrep
from funcad.scipy.interpolate.grid import RegularGridInterpolator as RegularGridInterpolator
from funcad.scipy.interpolate.grid import interp1d as interp1d
from funcad.scipy.interpolate.grid import interpn as interpn
from funcad.scipy.interpolate.scattered import RBFInterpolator as RBFInterpolator
from funcad.scipy.interpolate.scattered import griddata as griddata
from funcad.scipy.interpolate.splines import Akima1DInterpolator as Akima1DInterpolator
from funcad.scipy.interpolate.splines import CubicHermiteSpline as CubicHermiteSpline
from funcad.scipy.interpolate.splines import CubicSpline as CubicSpline
from funcad.scipy.interpolate.splines import PchipInterpolator as PchipInterpolator
from funcad.scipy.interpolate.splines import make_interp_spline as make_interp_spline

__all__ = [
    "Akima1DInterpolator",
    "BSpline",
    "CubicHermiteSpline",
    "CubicSpline",
    "InterpolatedUnivariateSpline",
    "LSQUnivariateSpline",
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
