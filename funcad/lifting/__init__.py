"""NumPy's and SciPy's functions by their own code, on funcad's functions."""
