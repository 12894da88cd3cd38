"""Polynomials that need linear algebra: fits and roots."""

from __future__ import annotations
