"""The names of HIPS autograd: replace `autograd` by `funcad.autograd` in a program's imports, and it runs.

`grad(fun, argnum=0)` and its relatives, `funcad.autograd.numpy`, `.scipy`, `.extend` (primitives with rules of your own),
`.misc` (optimizers, flatten, fixed points), `.test_util`, `.builtins`. `install()` does it for programs that stay as they are.
Functions made here are ordinary ones, so that `funcad.jit` and `funcad.vmap` apply to them. The names that mean nothing else
are in `funcad` too.

>>> import funcad.autograd.numpy as np
>>> from funcad.autograd import elementwise_grad
>>> elementwise_grad(np.sin)(np.zeros(2))
array([1., 1.])
"""

import importlib as _importlib
import typing as _typing

from funcad.configuration import public_names as _public_names
from funcad.foreign_names import alias as _alias

# isort: off
from funcad.autograd.builtins import dict as dict, isinstance as isinstance, list as list, tuple as tuple, type as type
from funcad.autograd.differential_operators import (
    checkpoint as checkpoint, deriv as deriv, elementwise_grad as elementwise_grad, grad as grad, grad_and_aux as grad_and_aux,
    grad_named as grad_named, hessian as hessian, hessian_tensor_product as hessian_tensor_product,
    hessian_vector_product as hessian_vector_product, holomorphic_grad as holomorphic_grad, jacobian as jacobian,
    make_ggnvp as make_ggnvp, make_hvp as make_hvp, make_jvp as make_jvp, make_jvp_reversemode as make_jvp_reversemode,
    make_vjp as make_vjp, multigrad_dict as multigrad_dict, tensor_jacobian_product as tensor_jacobian_product,
    value_and_grad as value_and_grad, vector_jacobian_product as vector_jacobian_product,
)  # fmt: skip
# isort: on

_MODULES = "builtins core extend misc numpy scipy test_util tracer util wrap_util".split()  # loaded when they are first used


def install() -> None:
    """Let `import autograd`, and the import of its submodules, find `funcad.autograd` from now on, in the whole process.

    For libraries and programs written for HIPS autograd that stay as they are: call it before they are imported. Calling it
    again does nothing. HIPS autograd need not be installed; if it is, it is hidden.

    Raises
    ------
    RuntimeError
        HIPS autograd, or a part of it, has been imported before.

    >>> import funcad.autograd
    >>> funcad.autograd.install()
    >>> import autograd.numpy as np
    >>> from autograd import elementwise_grad
    >>> elementwise_grad(np.tanh)(np.zeros(2))
    array([1., 1.])
    """
    _alias("autograd", "funcad.autograd")

if _typing.TYPE_CHECKING:
    # isort: off
    from funcad.autograd import (
        builtins as builtins, core as core, extend as extend, misc as misc, numpy as numpy, scipy as scipy,
        test_util as test_util, tracer as tracer, util as util, wrap_util as wrap_util,
    )  # fmt: skip
    from funcad.autograd.extend import primitive as primitive
    # isort: on


def _loaded(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f"funcad.autograd.{name}")
    if name == "primitive":
        return _importlib.import_module("funcad.autograd.extend").primitive
    raise AttributeError(f"module 'funcad.autograd' has no attribute {name!r}")


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _loaded

__dir__ = _public_names(globals(), [*_MODULES, "primitive"])
