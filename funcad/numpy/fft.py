"""Discrete Fourier transforms under NumPy's names, differentiable."""

from __future__ import annotations
