"""Comparisons with JAX (x64): slow, and skipped without it."""
