"""`jax.example_libraries`: `optimizers` and `stax`, the small libraries that many tutorials of JAX's use."""
