"""Images of any rank under SciPy's names, differentiable: interpolation, movements, linear filters and those by rank."""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent

# isort: off
from funcad.scipy.ndimage.image_filters import (
    convolve as convolve, convolve1d as convolve1d, correlate as correlate, correlate1d as correlate1d,
    gaussian_filter as gaussian_filter, gaussian_filter1d as gaussian_filter1d,
    gaussian_gradient_magnitude as gaussian_gradient_magnitude, gaussian_laplace as gaussian_laplace, label as label,
    laplace as laplace, maximum_filter as maximum_filter, median_filter as median_filter, minimum_filter as minimum_filter,
    percentile_filter as percentile_filter, prewitt as prewitt, rank_filter as rank_filter, sobel as sobel,
    uniform_filter as uniform_filter, uniform_filter1d as uniform_filter1d,
)  # fmt: skip
from funcad.scipy.ndimage.spline_images import (
    affine_transform as affine_transform, map_coordinates as map_coordinates, rotate as rotate, shift as shift,
    spline_filter as spline_filter, spline_filter1d as spline_filter1d, zoom as zoom,
)  # fmt: skip
# isort: on

__all__ = [
    "affine_transform",
    "convolve",
    "convolve1d",
    "correlate",
    "correlate1d",
    "gaussian_filter",
    "gaussian_filter1d",
    "gaussian_gradient_magnitude",
    "gaussian_laplace",
    "label",
    "laplace",
    "map_coordinates",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "percentile_filter",
    "prewitt",
    "rank_filter",
    "rotate",
    "shift",
    "sobel",
    "spline_filter",
    "spline_filter1d",
    "uniform_filter",
    "uniform_filter1d",
    "zoom",
]
__dir__ = _public_names(globals())

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.ndimage")
