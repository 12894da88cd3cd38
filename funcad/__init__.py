"""funcad: JAX's way of working on NumPy and CuPy arrays."""

from funcad import errors as errors

from funcad.control.jit import clear_caches as clear_caches
from funcad.control.jit import disable_jit as disable_jit
from funcad.control.jit import jit as jit
from funcad import numpy as _numpy
from funcad.transforms.jacobian import gnvp as gnvp
from funcad.transforms.jacobian import hessian as hessian
from funcad.transforms.jacobian import hvp as hvp
from funcad.transforms.jacobian import jacfwd as jacfwd
from funcad.transforms.jacobian import jacobian as jacobian
from funcad.transforms.jacobian import jacrev as jacrev
from funcad.transforms.plumbing import float0 as float0
from funcad.transforms.grad import grad as grad
from funcad.transforms.forward import jvp as jvp
from funcad.transforms.forward import linear_transpose as linear_transpose
from funcad.transforms.forward import linearize as linearize
from funcad.transforms.grad import value_and_grad as value_and_grad
from funcad.transforms.vjp import vjp as vjp
from funcad.transforms.vmap import vmap as vmap
