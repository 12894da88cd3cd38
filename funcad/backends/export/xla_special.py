"""Special functions that jax.scipy.special lacks."""
