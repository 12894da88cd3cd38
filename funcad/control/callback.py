"""`pure_callback` and `io_callback`: Python functions on NumPy arrays, called by programs while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import api, check_leaves, flat_values, name_of
from funcad.errors import TreeMismatchError
from funcad.ir.aval import Aval, aval_of
from funcad.primitives.host import VMAP_METHODS, HostCall, io_callback_p, pure_callback_p


def _host_call(what: str, callback: Callable[..., Any], result_shape_dtypes: Any, args: tuple, kwargs: dict) -> tuple:
    """(HostCall, operands, structure of the result)."""
    name = name_of(callback)
    leaves, in_tree = flat_values((args, kwargs))
    check_leaves(leaves, f"{what} of {name}: argument", (args, kwargs))
    declared, out_tree = flat_values(result_shape_dtypes)
    check_leaves(declared, f"{what} of {name}: result_shape_dtypes", result_shape_dtypes)
    avals = [Aval(a.shape, a.dtype) for a in map(aval_of, declared)]
    labels = [f"{what} of {name}: result{tree.keystr(path)}" for path in out_tree.paths()]

    def flat(*values: Any) -> list[Any]:
        given, keywords = in_tree.unflatten(values)
        result = callback(*given, **keywords)
        try:
            return out_tree.parts_of(result, "result", "result_shape_dtypes")
        except TreeMismatchError as error:
            raise TreeMismatchError(f"{what} of {name}: {error}") from None

    return HostCall(name, flat, avals, labels), leaves, out_tree


@api
def pure_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, vmap_method: str | None = None, **kwargs: Any
) -> Any:
    """Call a Python function without side effects from inside any transformed function.

    `callback(*args, **kwargs)` receives pytrees of NumPy arrays (read-only) and returns a pytree with the structure, shapes and
    dtypes of `result_shape_dtypes` (ShapeDtypeStructs or arrays); anything else raises, naming the path. It may be called any
    number of times, also never, if nothing reads the result. `vmap_method`: "sequential" calls it once per lane,
    "expand_dims" and "broadcast_all" once for all lanes; None refuses vmap. It has no derivative: wrap it in `custom_jvp` or
    `custom_vjp`. As JAX's.

    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: funcad.pure_callback(np.cumsum, x, x))
    >>> f(np.array([1.0, 2.0]))
    array([1., 3.])
    """
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"pure_callback: vmap_method must be one of {VMAP_METHODS}, got {vmap_method!r}")
    call, leaves, out_tree = _host_call("pure_callback", callback, result_shape_dtypes, args, kwargs)
    return out_tree.unflatten(pure_callback_p(*leaves, call=call, vmap_method=vmap_method))


@api
def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any:
    """Call a Python function with side effects, exactly once per execution, in program order.

    As `pure_callback`, but never removed, duplicated or reordered; under vmap it is called once per lane of its mapped
    arguments, in order. Programs run in order, so `ordered` changes nothing. `result_shape_dtypes` may be None. As JAX's.
    `callback(*args, **kwargs)` gets NumPy arrays, and what it returns has the shapes and dtypes declared, else TypeError;
    what it raises is raised where the program runs.

    >>> import numpy as np, funcad
    >>> seen = []
    >>> funcad.jit(lambda x: funcad.io_callback(lambda v: seen.append(float(v)), None, x))(2.0)
    >>> seen
    [2.0]
    """
    call, leaves, out_tree = _host_call("io_callback", callback, result_shape_dtypes, args, kwargs)
    return out_tree.unflatten(io_callback_p(*leaves, call=call))
