"""Images of any rank under SciPy's names, differentiable: interpolation, movements, linear filters and those by rank."""

import typing as _typing

from funcad.names import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.ndimage.geometric_images import affine_transform as affine_transform
from funcad.scipy.ndimage.geometric_images import rotate as rotate
from funcad.scipy.ndimage.geometric_images import shift as shift
from funcad.scipy.ndimage.geometric_images import zoom as zoom
from funcad.scipy.ndimage.image_filters import convolve as convolve
from funcad.scipy.ndimage.image_filters import convolve1d as convolve1d
from funcad.scipy.ndimage.image_filters import correlate as correlate
from funcad.scipy.ndimage.image_filters import correlate1d as correlate1d
from funcad.scipy.ndimage.image_filters import gaussian_filter as gaussian_filter
from funcad.scipy.ndimage.image_filters import gaussian_filter1d as gaussian_filter1d
from funcad.scipy.ndimage.image_filters import gaussian_gradient_magnitude as gaussian_gradient_magnitude
from funcad.scipy.ndimage.image_filters import gaussian_laplace as gaussian_laplace
from funcad.scipy.ndimage.image_filters import laplace as laplace
from funcad.scipy.ndimage.image_filters import prewitt as prewitt
from funcad.scipy.ndimage.image_filters import sobel as sobel
from funcad.scipy.ndimage.image_filters import uniform_filter as uniform_filter
from funcad.scipy.ndimage.image_filters import uniform_filter1d as uniform_filter1d
from funcad.scipy.ndimage.ranked_images import maximum_filter as maximum_filter
from funcad.scipy.ndimage.ranked_images import median_filter as median_filter
from funcad.scipy.ndimage.ranked_images import minimum_filter as minimum_filter
from funcad.scipy.ndimage.spline_images import map_coordinates as map_coordinates
from funcad.scipy.ndimage.spline_images import spline_filter as spline_filter
from funcad.scipy.ndimage.spline_images import spline_filter1d as spline_filter1d

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
    "laplace",
    "map_coordinates",
    "maximum_filter",
    "median_filter",
    "minimum_filter",
    "prewitt",
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
