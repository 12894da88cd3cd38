"""Derivatives of functions that are not compiled: recording them while they run, and the programs derived from recordings."""
