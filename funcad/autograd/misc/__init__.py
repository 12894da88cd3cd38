"""`autograd.misc`: flatten, optimizers, fixed points."""

from funcad.autograd.misc import fixed_points as fixed_points
from funcad.autograd.misc import optimizers as optimizers
from funcad.autograd.misc.flatten import flatten as flatten
