"""`jax.custom_batching`: `custom_vmap`."""

from funcad.custom.custom_vmap import custom_vmap as custom_vmap
