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
    from funcad.configuration import config as config
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

_LAZY_NAMES = {  # public name -> the module that defines it
    **dict.fromkeys(["ShapeDtypeStruct", "eval_shape", "make_jaxpr", "named_scope", "rules", "stop_gradient"], "api.tools"),
    **dict.fromkeys(["gnvp", "hessian", "hvp", "jacfwd", "jacobian", "jacrev"], "api.jacobian"),
    **dict.fromkeys(["jvp", "linear_transpose", "linearize", "vjp"], "api.vjp"),
    "vmap": "api.vmap",
    **dict.fromkeys(["cond", "switch"], "control.cond"),
    **dict.fromkeys(["disable_jit", "jit"], "jitted.jit"),
    "clear_caches": "jitted.jit_cache",
    "load_c": "backends.export.loading",
    "explain_cache_misses": "jitted.jit_misses",
    "show_config": "backends.engines",  # which has lines in it
    "constant": "reads.refusals",
    "NotCompiledWarning": "errors",
    "UncertifiedDerivativeWarning": "errors",
    "scan": "control.scan",
    "while_loop": "control.while_loop",
    **dict.fromkeys(["fori_loop", "map"], "control.loops"),
    "associative_scan": "control.loops",
    **dict.fromkeys(["custom_linear_solve", "custom_root"], "control.solve"),
    **dict.fromkeys(["checkpoint", "checkpoint_name", "print_saved_residuals", "remat"], "control.checkpoint"),
    "custom_gradient": "custom.custom_vjp",
    "custom_jvp": "custom.custom_jvp",
    "custom_vjp": "custom.custom_vjp",
    "custom_vmap": "custom.custom_vmap",
    "closure_convert": "control.rules",
    **dict.fromkeys(["io_callback", "pure_callback"], "control.callback"),
    **dict.fromkeys(["debug_checks", "debug_infs", "debug_nans"], "debug"),
    **dict.fromkeys(["block_until_ready", "default_device", "device_get", "device_put", "devices"], "device"),
    **dict.fromkeys(
        ["all_gather", "all_to_all", "axis_index", "axis_size", "pmax", "pmean", "pmin", "ppermute", "pshuffle", "psum"],
        "primitives.collective",
    ),
    "psum_scatter": "primitives.collective",
    **dict.fromkeys(
        ["deriv", "elementwise_grad", "grad_and_aux", "grad_named", "hessian_tensor_product", "hessian_vector_product"],
        "autograd.differential_operators",
    ),
    **dict.fromkeys(
        ["holomorphic_grad", "make_ggnvp", "make_hvp", "make_jvp", "make_vjp", "multigrad_dict", "tensor_jacobian_product"],
        "autograd.differential_operators",
    ),
    "vector_jacobian_product": "autograd.differential_operators",
    **dict.fromkeys(
        ["def_linear", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums", "primitive"],
        "autograd.extend",
    ),
}
_LAZY_NAMES |= {"jet": "taylor.laplacian", "laplacian": "taylor.laplacian", "hessian_diagonal": "taylor.laplacian"}
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
    *_LAZY_MODULES,
]


def __getattr__(name: str) -> object:
    if name in _LAZY_MODULES:
        value: object = _importlib.import_module(f"funcad.{_LAZY_MODULES[name]}")
    elif name in _LAZY_NAMES:
        value = getattr(_importlib.import_module(f"funcad.{_LAZY_NAMES[name]}"), name)
    else:
        raise AttributeError(f"module 'funcad' has no attribute {name!r}")
    globals()[name] = value
    return value


_AUTOGRAD = {name for name, module in _LAZY_NAMES.items() if module.startswith("autograd.")}  # funcad.autograd shows them


def __dir__() -> list[str]:
    return sorted({*__all__} - _AUTOGRAD)
