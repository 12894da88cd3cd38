"""Loops written with `scan` and `while_loop`: `fori_loop`, `map`, `associative_scan`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, call_as, flat_values, name_of, own_memory
from funcad.api.vmap import vmap
from funcad.control.body import check_functions, check_structure, prepare
from funcad.control.scan import check_unroll, run_scan
from funcad.control.while_loop import run_while
from funcad.host.conversions import needs_buffers
from funcad.host.locks import read_only
from funcad.ir.aval import dtype_of, said, shape_of
from funcad.ir.tracer import Tracer, concrete_value, snapshot
from funcad.primitives.arithmetic import add
from funcad.primitives.comparison import lt
from funcad.primitives.conversion import convert
from funcad.primitives.shape import concatenate, reshape, rev, slice_p, static_slice


def _bound(x: Any, name: str) -> Any:
    """An integer bound: as Python's int if it has a value."""
    try:
        good = shape_of(x) == () and dtype_of(x).kind in "iu"
    except TypeError:
        good = False
    if not good:
        raise TypeError(f"fori_loop: {name} must be an integer of shape (), got {said(x)}.\nRemedy: int(n), or n.astype(int).")
    value = concrete_value(x)
    return x if type(value) is Tracer else int(value)


@api
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    policy: Any = None,
) -> Any:
    """`for i in range(lower, upper): val = body_fun(i, val)`.

    Parameters
    ----------
    lower, upper : int, or integer arrays of shape ()
        The bounds; they may be traced.
    body_fun : callable
        `body_fun(i, val)` returns the next value, with the same structure, shapes and dtypes.
    init_val : array, number or container of them
        The first value. Python scalars take the dtype that body_fun returns.
    unroll : int or bool, optional
        As for `scan`, where both bounds have values.
    policy : checkpoint policy, optional
        What reverse mode keeps, as for `scan`.

    Returns
    -------
    like init_val
        The last value.

    Raises
    ------
    TypeError
        The value changes its structure, shapes or dtypes; the message names the path.
    TracerBoolConversionError
        body_fun asks for a value: it is traced, with abstract values.

    Notes
    -----
    If both bounds have values it is a `scan`, otherwise a `while_loop`. Both have forward and reverse mode; JAX's has
    reverse mode with static bounds only. As in Python, i adapts to the dtype that it meets if `lower` is a Python
    integer.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.fori_loop(1, 5, lambda i, product: product * i, 1)
    24
    >>> power = funcad.jit(lambda x, n: funcad.fori_loop(0, n, lambda i, y: y * x, 1.0))  # one program for all n
    >>> float(power(2.0, 3)), float(power(2.0, 10))
    (8.0, 1024.0)

    See also
    --------
    scan, while_loop
    """
    check_functions("fori_loop", "fori_loop(lower, upper, body_fun, init_val)", body_fun)
    lower, upper = _bound(lower, "lower"), _bound(upper, "upper")
    leaves, structure = prepare("fori_loop", init_val, "init_val")
    returned = "the value returned by " + name_of(body_fun)

    def checked(i: Any, value: Any) -> Any:
        out = call_as("fori_loop calls body_fun(i, carry)", body_fun, i, value)
        check_structure("fori_loop", prepare("fori_loop", out, returned)[1], structure, returned, "init_val")
        return out

    if type(lower) is int and type(upper) is int:

        def step(carry: Any, _: Any) -> tuple[Any, None]:
            i, value = carry
            return (add(i, 1), checked(i, value)), None

        n = max(upper - lower, 0)
        steps = check_unroll("fori_loop", 1 if unroll is None else unroll, n)
        (_, result), _ = run_scan("fori_loop", step, (lower, init_val), None, n, False, steps, policy, staging=True)
        return result
    if unroll not in (None, False, 1):
        raise ValueError(
            "fori_loop: unroll needs bounds that have values, but here the number of iterations is known only when the "
            "program runs.\nRemedy: pass the bounds as static arguments of jit (static_argnums), or leave unroll out."
        )
    common = np.result_type(dtype_of(lower), dtype_of(upper))
    _, result = run_while(
        "fori_loop",
        lambda carry: lt(convert(carry[0], common), convert(upper, common)),
        lambda carry: (add(carry[0], 1), checked(*carry)),
        (lower, init_val),
        ("init_val", returned),
        policy,
    )
    return result


@api
def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f of each example along the leading axis, one after the other, with the results stacked.

    Parameters
    ----------
    f : callable
        A function of one example.
    xs : array or container of arrays
        The examples, along axis 0.
    batch_size : int, optional
        How many examples to handle at a time, by `vmap`.

    Returns
    -------
    array or container
        What f returns, stacked along a new axis 0.

    Raises
    ------
    ValueError
        The leading axes differ.
    TracerBoolConversionError
        f asks for a value: it is traced once, with abstract values.

    Notes
    -----
    The result is that of `vmap(f)(xs)`, in more time and less memory. As `jax.lax.map`; Python's `map` knows no arrays.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.map(lambda x: x * x, np.array([1.0, 2.0, 3.0]))
    array([1., 4., 9.])
    >>> funcad.map(lambda row: row["a"] @ row["b"], {"a": np.eye(2), "b": np.ones((2, 2))}, batch_size=2)
    array([1., 1.])

    See also
    --------
    vmap, scan
    """
    check_functions("map", "map(f, xs)", f)
    leaves, structure = prepare("map", xs, "xs")
    if not leaves:
        raise ValueError("map: xs has no arrays, so nothing says how often to call the function")
    if batch_size is None:
        return run_scan("map", lambda carry, x: (carry, f(x)), (), xs, None, False, 1, staging=False)[1]
    if batch_size < 1:
        raise ValueError(f"map: batch_size must be at least 1, got {batch_size}")
    sizes = {shape_of(x)[0] if shape_of(x) else None for x in leaves}
    if len(sizes) != 1 or None in sizes:  # let scan's own check name the paths
        return run_scan("map", lambda carry, x: (carry, f(x)), (), xs, None, False, 1, staging=False)[1]
    n = sizes.pop()
    n_chunks = n // batch_size
    whole = n_chunks * batch_size
    results = []
    if n_chunks or not n:
        chunks = [
            reshape(static_slice(x, 0, whole), shape=(n_chunks, batch_size, *shape_of(x)[1:])) for x in leaves
        ]
        out = run_scan(
            "map", lambda carry, x: (carry, vmap(f)(x)), (), structure.unflatten(chunks), None, False, 1, staging=False
        )[1]
        parts, out_tree = flat_values(out)
        results.append([reshape(y, shape=(whole, *shape_of(y)[2:])) for y in parts])
    if whole < n:
        rest = [static_slice(x, whole, n) for x in leaves]
        parts, out_tree = flat_values(vmap(f)(structure.unflatten(rest)))
        results.append(parts)
    joined = results[0] if len(results) == 1 else [concatenate(pair, axis=0) for pair in zip(*results)]
    return out_tree.unflatten(own_memory(joined, leaves))


# -- `associative_scan`: all prefixes of an associative operation, in a number of steps that grows like the logarithm
#
# Idea: combine neighbours, scan the half as long result, which gives every second prefix, and combine those with the elements
# in between for the others.
#
# Trap: of the arrays that `fn` is given many are views of the caller's, or are read again. It writes into copies of its own.


def _lent(values: list[Any], writes: bool) -> list[Any]:
    """The values for fn, which `writes` into copies; where one that does not seem to does so all the same, NumPy says it."""
    own = (lambda x: x.copy()) if writes else lambda x: read_only(x) if type(x) is np.ndarray else x
    return [snapshot(x) if type(x) is Tracer else own(x) for x in values]


def _every_second(x: Any, start: int, stop: int, axis: int) -> Any:
    """x[start:stop:2] along an axis."""
    shape = shape_of(x)
    return slice_p(
        x,
        start=tuple([start if i == axis else 0 for i in range(len(shape))]),
        limit=tuple([stop if i == axis else n for i, n in enumerate(shape)]),
        strides=tuple([2 if i == axis else 1 for i in range(len(shape))]),
    )


def _interleave(even: Any, odd: Any, axis: int) -> Any:
    """even[0], odd[0], even[1], ...; `even` may have one element more."""
    shape = shape_of(odd)
    n = shape[axis]
    paired = (*shape[: axis + 1], 1, *shape[axis + 1 :])
    both = [reshape(static_slice(even, 0, n, axis), shape=paired), reshape(odd, shape=paired)]
    woven = reshape(concatenate(both, axis=axis + 1), shape=(*shape[:axis], 2 * n, *shape[axis + 1 :]))
    last = shape_of(even)[axis]
    return woven if last == n else concatenate([woven, static_slice(even, n, last, axis)], axis=axis)


@api
def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """Prefixes `e0, fn(e0, e1), fn(fn(e0, e1), e2), ...` along an axis, for an associative fn.

    Parameters
    ----------
    fn : callable
        `fn(a, b)` takes two values like elems, with any length along the axis, and combines them element by element.
    elems : array or container of arrays
        What is combined.
    reverse : bool
        Combine from the end: suffixes.
    axis : int
        The axis of all leaves.

    Returns
    -------
    like elems
        The prefixes, with the same structure, shapes and dtypes.

    Raises
    ------
    ValueError
        The lengths along the axis differ.

    Notes
    -----
    The work is done in about 2 log2(n) calls of fn, on many elements at once; a `scan` takes n steps, and its fn need
    not be associative. Sums are rounded in another order than those of `np.cumsum`. As `jax.lax.associative_scan`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.associative_scan(np.multiply, np.array([1.0, 2.0, 3.0, 4.0]))
    array([ 1.,  2.,  6., 24.])
    >>> funcad.associative_scan(np.maximum, np.array([[1.0, 5.0, 2.0]]), reverse=True, axis=1)
    array([[5., 5., 2.]])

    See also
    --------
    scan
    """
    leaves, structure = prepare("associative_scan", elems, "elems")
    axes, lengths = [], []
    for path, x in zip(structure.paths(), leaves):
        ndim = len(shape_of(x))
        if not -ndim <= axis < ndim:
            where = f"elems{tree.keystr(path)}, which is {said(x)}"
            raise ValueError(f"associative_scan: axis {axis} is out of bounds for {where}")
        axes.append(axis % ndim)
        lengths.append(shape_of(x)[axis])
    if len(set(lengths)) > 1:
        lines = "\n".join(f"  elems{tree.keystr(p)} has {n}" for p, n in zip(structure.paths(), lengths))
        raise ValueError(f"associative_scan: lengths along axis {axis} must be equal, but\n{lines}")

    is_ufunc = type(fn) is np.ufunc
    writes = type(fn) is not FunctionType or needs_buffers(fn)

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        first, second = [structure.unflatten(x if is_ufunc else _lent(x, writes)) for x in (a, b)]
        out = call_as("associative_scan calls fn(a, b)", fn, first, second)
        result, found = prepare("associative_scan", out, f"the value returned by {name_of(fn)}")
        check_structure("associative_scan", found, structure, f"the value returned by {name_of(fn)}", "elems")
        for path, x, y in zip(structure.paths(), a, result):
            if shape_of(x) != shape_of(y):
                raise TypeError(
                    f"associative_scan: {name_of(fn)} returned {said(y)} for elems{tree.keystr(path)}, where it was given "
                    f"{said(x)}; it must keep shapes"
                )
        return result

    def prefixes(values: list[Any]) -> list[Any]:
        n = shape_of(values[0])[axes[0]]
        if n < 2:
            return values
        firsts = [_every_second(x, 0, n - 1, a) for x, a in zip(values, axes)]
        seconds = [_every_second(x, 1, n, a) for x, a in zip(values, axes)]
        odd = prefixes(combine(firsts, seconds))
        before = [static_slice(x, 0, (n - 1) // 2, a) for x, a in zip(odd, axes)]
        even = [static_slice(x, 0, 1, a) for x, a in zip(values, axes)]
        if n > 2:
            rest = combine(before, [_every_second(x, 2, n, a) for x, a in zip(values, axes)])
            even = [concatenate([x, y], axis=a) for x, y, a in zip(even, rest, axes)]
        return [_interleave(x, y, a) for x, y, a in zip(even, odd, axes)]

    if not leaves:
        return elems
    values = [rev(x, axes=(a,)) for x, a in zip(leaves, axes)] if reverse else leaves
    found = prefixes(values)
    if reverse:
        found = [rev(x, axes=(a,)) for x, a in zip(found, axes)]
    return structure.unflatten(own_memory(found, leaves))
