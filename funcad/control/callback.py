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
    check_leaves(leaves, f"{what} of {name}: argument", (args, kwargs), given=True)
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

    Parameters
    ----------
    callback : callable
        It gets containers of NumPy arrays, which are read-only. It may be called any number of times, or never, if
        nothing reads the result.
    result_shape_dtypes : ShapeDtypeStruct, array or container of them
        The structure, shapes and dtypes of what it returns.
    *args, **kwargs : array, number or container of them
        What it is called with.
    vmap_method : {"sequential", "expand_dims", "broadcast_all"}, optional
        "sequential" calls it once for each example, the others once for all. None refuses `vmap`.

    Returns
    -------
    array or container
        What the function returned.

    Raises
    ------
    TypeError
        The function returns another structure, shape or dtype; the message names the path.
    MissingRuleError
        It is mapped, and `vmap_method` is None; or it is differentiated: wrap it in `custom_jvp` or `custom_vjp`.

    Notes
    -----
    As `jax.pure_callback`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: funcad.pure_callback(np.cumsum, x, x))
    >>> f(np.array([1.0, 2.0]))
    array([1., 3.])
    >>> g = lambda x: funcad.pure_callback(np.cumsum, x, x, vmap_method="sequential")
    >>> funcad.vmap(g)(np.ones((2, 2)))
    array([[1., 2.],
           [1., 2.]])

    See also
    --------
    io_callback, custom_jvp, funcad.debug.callback
    """
    vmap_method = "sequential" if vmap_method == "sequential_unrolled" else vmap_method  # JAX's
    if vmap_method not in VMAP_METHODS:
        raise ValueError(f"pure_callback: vmap_method must be one of {VMAP_METHODS}, got {vmap_method!r}")
    call, leaves, out_tree = _host_call("pure_callback", callback, result_shape_dtypes, args, kwargs)
    return out_tree.unflatten(pure_callback_p(*leaves, call=call, vmap_method=vmap_method))


@api
def io_callback(
    callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, ordered: bool = False, **kwargs: Any
) -> Any:
    """Call a Python function with side effects, exactly once for each run, in the order of the program.

    Parameters
    ----------
    callback : callable
        It gets containers of NumPy arrays, which are read-only.
    result_shape_dtypes : ShapeDtypeStruct, array, container of them, or None
        The structure, shapes and dtypes of what it returns; None for nothing.
    *args, **kwargs : array, number or container of them
        What it is called with.
    ordered : bool
        For JAX's sake: programs run in order, so it changes nothing.

    Returns
    -------
    array or container
        What the function returned.

    Raises
    ------
    TypeError
        The function returns another structure, shape or dtype than declared.
    Exception
        What the function raises, where the program runs.

    Notes
    -----
    It is never left out, doubled or moved. Under `vmap` it is called once for each example, in order. As
    `jax.experimental.io_callback`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> seen = []
    >>> funcad.jit(lambda x: funcad.io_callback(lambda v: seen.append(float(v)), None, x))(2.0)
    >>> seen
    [2.0]
    >>> numbers = iter([0.5, 0.25])
    >>> draw = funcad.jit(lambda x: x * funcad.io_callback(lambda: next(numbers), funcad.ShapeDtypeStruct((), float)))
    >>> float(draw(2.0)), float(draw(2.0))
    (1.0, 0.5)

    See also
    --------
    pure_callback, funcad.debug.callback
    """
    call, leaves, out_tree = _host_call("io_callback", callback, result_shape_dtypes, args, kwargs)
    return out_tree.unflatten(io_callback_p(*leaves, call=call))
