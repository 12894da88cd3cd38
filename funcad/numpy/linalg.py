"""Linear algebra under NumPy's names, differentiable: decompositions, solvers, norms."""

from __future__ import annotations
