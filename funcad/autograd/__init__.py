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

from funcad.autograd.builtins import dict as dict
from funcad.autograd.builtins import isinstance as isinstance
from funcad.autograd.builtins import list as list
from funcad.autograd.builtins import tuple as tuple
from funcad.autograd.builtins import type as type
from funcad.autograd.differential_operators import checkpoint as checkpoint
from funcad.autograd.differential_operators import deriv as deriv
from funcad.autograd.differential_operators import elementwise_grad as elementwise_grad
from funcad.autograd.differential_operators import grad as grad
from funcad.autograd.differential_operators import grad_and_aux as grad_and_aux
from funcad.autograd.differential_operators import grad_named as grad_named
from funcad.autograd.differential_operators import hessian as hessian
from funcad.autograd.differential_operators import hessian_tensor_product as hessian_tensor_product
from funcad.autograd.differential_operators import hessian_vector_product as hessian_vector_product
from funcad.autograd.differential_operators import holomorphic_grad as holomorphic_grad
from funcad.autograd.differential_operators import jacobian as jacobian
from funcad.autograd.differential_operators import make_ggnvp as make_ggnvp
from funcad.autograd.differential_operators import make_hvp as make_hvp
from funcad.autograd.differential_operators import make_jvp as make_jvp
from funcad.autograd.differential_operators import make_jvp_reversemode as make_jvp_reversemode
from funcad.autograd.differential_operators import make_vjp as make_vjp
from funcad.autograd.differential_operators import multigrad_dict as multigrad_dict
from funcad.autograd.differential_operators import tensor_jacobian_product as tensor_jacobian_product
from funcad.autograd.differential_operators import value_and_grad as value_and_grad
from funcad.autograd.differential_operators import vector_jacobian_product as vector_jacobian_product
from funcad.autograd.extend import primitive as primitive
from funcad.foreign_names import alias as _alias
from funcad.names import public_names as _public_names

# loaded when they are first used
_MODULES = ["builtins", "core", "misc", "numpy", "scipy", "test_util", "tracer", "util", "wrap_util"]


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
    from funcad.autograd import builtins as builtins
    from funcad.autograd import core as core
    from funcad.autograd import misc as misc
    from funcad.autograd import numpy as numpy
    from funcad.autograd import scipy as scipy
    from funcad.autograd import test_util as test_util
    from funcad.autograd import tracer as tracer
    from funcad.autograd import util as util
    from funcad.autograd import wrap_util as wrap_util


def _loaded(name: str) -> object:
    if name in _MODULES:
        return _importlib.import_module(f"funcad.autograd.{name}")
    raise AttributeError(f"module 'funcad.autograd' has no attribute {name!r}")


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _loaded

__dir__ = _public_names(globals(), _MODULES)
