"""`jax.typing`: what may stand for an array, and for a dtype."""

from numpy.typing import ArrayLike as ArrayLike
from numpy.typing import DTypeLike as DTypeLike
