"""Structural zeros: which elements of tangents and cotangents are zero because no path leads to them."""
