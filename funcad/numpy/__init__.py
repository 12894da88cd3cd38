"""`import funcad.numpy as fnp`: NumPy's names, traced."""

from funcad.ir.tracer import Tracer
from funcad.numpy import operators as _operators

Tracer.namespace = _operators
