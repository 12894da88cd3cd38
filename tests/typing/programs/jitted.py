"""What a jitted function offers besides a call."""

import os
import tempfile
from typing import assert_type

import numpy as np

from funcad import ShapeDtypeStruct, clear_caches, disable_jit, explain_cache_misses, jit


@jit
def energy(x: np.ndarray, scale: float = 1.0) -> float:
    return np.sum(x * x) * scale


@jit(static_argnames="power", donate_argnums=0)
def powers(x: np.ndarray, *, power: int) -> np.ndarray:
    return x**power


x = np.arange(3.0)
assert_type(energy(x), float)
assert_type(energy(x, scale=2.0), float)
assert_type(powers(x.copy(), power=3), np.ndarray)
shape = ShapeDtypeStruct((3,), np.float64)
assert_type(energy.source(shape), str)
assert_type(energy.cuda(shape), str)
print(energy.lower(shape).as_text()[:1], energy.lower(shape).cost_analysis()["flops"] > 0, energy.__name__)
print(energy.explain(shape).engine in ("native", "numpy", "interpreter"))
print(energy.profile(x).seconds > 0, energy.cache_info().hits, energy.cache_info().currsize)
print(energy.lower(x).compile()(x))
with tempfile.TemporaryDirectory() as folder:
    print([os.path.basename(p) for p in energy.export(os.path.join(folder, "energy.py"), x)])
with disable_jit(), explain_cache_misses(print):
    print(energy(x))
energy.clear_cache()
clear_caches()
