"""Points in space under SciPy's names: distances, neighbours, hulls and triangulations, rotations.

Which points are neighbours is asked of SciPy at the values; distances, volumes and weights are formulas with derivatives, in
every transformation. Called on plain arrays the functions are SciPy's own.
"""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.door import by_own_code as _by_own_code
from funcad.scipy.spatial import distance as distance
from funcad.scipy.spatial import transform as transform

# isort: off
from funcad.scipy.spatial.point_sets import (
    geometric_slerp as geometric_slerp, minkowski_distance as minkowski_distance,
    minkowski_distance_p as minkowski_distance_p, procrustes as procrustes, tsearch as tsearch,
)  # fmt: skip
from funcad.scipy.spatial.structures import (
    ConvexHull as ConvexHull, Delaunay as Delaunay, KDTree as KDTree, Voronoi as Voronoi, cKDTree as cKDTree,
)  # fmt: skip
# isort: on

distance_matrix = _by_own_code("spatial.distance_matrix")

__all__ = [
    "ConvexHull",
    "Delaunay",
    "KDTree",
    "Voronoi",
    "cKDTree",
    "distance",
    "distance_matrix",
    "geometric_slerp",
    "minkowski_distance",
    "minkowski_distance_p",
    "procrustes",
    "transform",
    "tsearch",
]
__dir__ = _public_names(globals())

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.spatial")
