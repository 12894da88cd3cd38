"""Checks, callbacks, configuration, errors."""

from typing import assert_type

import numpy as np

import funcad
from funcad import ShapeDtypeStruct, config, debug, debug_nans, errors, eval_shape, jit, make_jaxpr, pure_callback, testing

with config.set(engine="numpy"), debug_nans():
    print(jit(np.sin)(1.0).round(3))
testing.check_grads(lambda x: np.sin(x), (1.0,), order=2)
try:
    funcad.grad(lambda x: x)(np.ones(2))
except errors.NonScalarOutputError as error:
    print(len(str(error)) > 0)


@jit
def shown(x: float) -> float:
    debug.print("x is {}", x)
    return x


assert_type(shown(1.0), float)
print(eval_shape(np.sin, ShapeDtypeStruct((2,), np.float64)).shape, str(make_jaxpr(np.sin)(1.0))[:1])
print(pure_callback(lambda x: np.asarray(x) * 2.0, ShapeDtypeStruct((2,), np.float64), np.ones(2)))
print(funcad.devices(), funcad.device_put(np.ones(2), "cpu").shape, funcad.block_until_ready(np.ones(2)).shape)
print(funcad.debug.doctor(lambda x: np.sum(np.log(x)))(np.ones(2)) is not None)
