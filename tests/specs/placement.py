"""Moves between devices, as far as they can be tested without one."""

from __future__ import annotations

import numpy as np

from funcad.primitives.placement import device_put_p
from tests.specs import spec

SPECS = [
    spec(
        device_put_p,
        lambda x: device_put_p(x, device="cpu", number=None),
        [(np.array([0.5, -1.0]),), (np.float64(2.0),), (np.zeros((0, 2)),), (np.array([1 + 2j]),), (np.arange(3),)],
        reference=lambda x: x,
        backends=("numpy",),  # the point of the primitive is to leave the backend
    )
]
