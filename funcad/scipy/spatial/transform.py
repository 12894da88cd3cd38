"""Rotations under the names of `scipy.spatial.transform`, made of traced values.

`Rotation` and `Slerp` are funcad's own classes: SciPy's keep NumPy's numbers. RotationSpline and RigidTransform are not here.
"""

import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.scipy.door import absent as _absent
from funcad.scipy.spatial.rotations import Rotation as Rotation
from funcad.scipy.spatial.rotations import Slerp as Slerp

__all__ = ["Rotation", "Slerp"]
__dir__ = _public_names(globals())

if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _absent("funcad.scipy.spatial.transform")
