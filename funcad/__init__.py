"""funcad: JAX's way of working on the NumPy and CuPy arrays you already have.

`grad`, `jvp`, `vjp`, `vmap`, `jit` and the rest transform pure Python functions on NumPy arrays; plain `np.*` calls are
traced. What a first gradient does not need (control flow, custom rules, `funcad.lax`, `funcad.nn` ...) is imported when it is
first used.

>>> import numpy as np, funcad
>>> funcad.grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
array([2., 4.])
"""

import gc as _gc
import importlib as _importlib
import sys as _sys

# what an import makes stays, and twenty collections of it took a sixth of the time
_collects = _gc.isenabled()
_gc.disable()
try:
    # isort: off
    from funcad.ir.tracer import Tracer as _Tracer
    from funcad import errors as errors, numpy as numpy
    from funcad.api.border import float0 as float0
    from funcad.api.grad import grad as grad, value_and_grad as value_and_grad
    from funcad.configuration import config as config, later as _later
    # isort: on

    _importlib.import_module("funcad.doors")  # which makes itself known to those who open traces
    _importlib.import_module("funcad.numpy.linear")  # which most first gradients of arrays need, for np.dot
finally:
    if _collects:
        if not _gc.get_freeze_count():  # together: what there is counts as old, without a look at it
            _gc.freeze()
            _gc.unfreeze()
        _gc.enable()
__version__ = "0.1.0"
_Tracer.namespace = _sys.modules[__name__]

_FILES = {  # file -> the public names that it defines, when they are first used
    "api.tools": "ShapeDtypeStruct eval_shape make_jaxpr named_scope rules stop_gradient",
    "api.jacobian": "gnvp hessian hvp jacfwd jacobian jacrev",
    "api.vjp": "jvp linear_transpose linearize vjp",
    "api.vmap": "vmap",
    "control.cond": "cond switch",
    "jitted.jit": "disable_jit jit",
    "jitted.jit_cache": "clear_caches",
    "backends.export.loading": "load_c",
    "jitted.jit_misses": "explain_cache_misses",
    "backends.engines": "show_config",
    "reads.refusals": "constant",
    "errors": "NotCompiledWarning UncertifiedDerivativeWarning",
    "control.scan": "scan",
    "control.while_loop": "while_loop",
    "control.loops": "fori_loop map associative_scan",
    "control.solve": "custom_linear_solve custom_root",
    "control.checkpoint": "checkpoint checkpoint_name print_saved_residuals remat",
    "custom.custom_vjp": "custom_gradient custom_vjp",
    "custom.custom_jvp": "custom_jvp",
    "custom.custom_vmap": "custom_vmap",
    "control.rules": "closure_convert",
    "control.callback": "io_callback pure_callback",
    "debug": "debug_checks debug_infs debug_nans",
    "device": "block_until_ready default_device device_get device_put devices",
    "primitives.collective": "all_gather all_to_all axis_index axis_size pmax pmean pmin ppermute pshuffle psum psum_scatter",
    "autograd.differential_operators": (
        "deriv elementwise_grad grad_and_aux grad_named hessian_tensor_product hessian_vector_product holomorphic_grad "
        "make_ggnvp make_hvp make_jvp make_vjp multigrad_dict tensor_jacobian_product vector_jacobian_product"
    ),
    "autograd.extend": "def_linear defjvp defjvp_argnum defjvp_argnums defvjp defvjp_argnum defvjp_argnums primitive",
    "taylor.laplacian": "jet laplacian hessian_diagonal",
}
_LAZY_NAMES, _lazily = _later(globals(), _FILES)
_LAZY_MODULES = {
    "autograd": "autograd",
    "checkpoint_policies": "control.policies",
    "debug": "debug",
    "distributed": "distributed",
    "flatten_util": "flatten_util",
    "image": "image",
    "interop": "interop",
    "jax": "jax",
    "lax": "lax",
    "nn": "nn",
    "ops": "ops",
    "optimize": "optimize",
    "random": "random",
    "scipy": "scipy",
    "sparse": "sparse",
    "stats": "stats",
    "testing": "testing",
    "tree": "tree",
    "tree_util": "tree_util",
}

__all__ = [  # what is imported above, and what is imported when it is used
    *[n for n, v in globals().items() if not n.startswith("_") and type(v) is not type(_importlib)],
    *["errors", "numpy"],
    *_LAZY_NAMES,
    *[n for n in _LAZY_MODULES if n != "jax"],  # in a module that has it, `x += y` makes a new array
]


def __getattr__(name: str) -> object:
    if name in _LAZY_MODULES:
        globals()[name] = _importlib.import_module(f"funcad.{_LAZY_MODULES[name]}")
        return globals()[name]
    return _lazily(name)


_AUTOGRAD = {name for name, module in _LAZY_NAMES.items() if module.startswith("autograd.")}  # funcad.autograd shows them


def __dir__() -> list[str]:
    return sorted({*__all__, "jax"} - _AUTOGRAD)
