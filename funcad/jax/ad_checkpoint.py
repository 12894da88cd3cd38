"""`jax.ad_checkpoint`: `checkpoint`, the names that its policies choose by, and what is kept."""

from funcad.control.checkpoint import checkpoint as checkpoint
from funcad.control.checkpoint import checkpoint_name as checkpoint_name
from funcad.control.checkpoint import print_saved_residuals as print_saved_residuals
