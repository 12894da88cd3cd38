"""Jacobians and Hessians: maps of jvp and vjp over a basis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.grad import grad
from funcad.api.vjp import Linearized, jvp, linearize, linearized, pullback_of, pushforward_of, seed_of, vjp
from funcad.configuration import OnDemand
from funcad.errors import NonDifferentiableInputError
from funcad.host.devices import namespace_of, restore_warnings, suppress_warnings
from funcad.host.real_types import dtype_kind, is_a, without_nan
from funcad.ir.aval import aval_of, is_inexact, said
from funcad.ir.tracer import concrete_value
from funcad.primitives.placement import each_on_device_of
from funcad.primitives.shape import move_axis, reshape, static_slice
from funcad.unjitted import backward
from funcad.writes.plain import lent_to

from funcad.api.border import (  # isort: skip
    Transformed, api, binds, check_leaves, check_second, derivative_of, name_of, normalize_argnums, runs,
    seed_beside, unshared, with_compiled, zeros_for,
)


mapping = OnDemand("funcad.api.vmap")
masks = OnDemand("funcad.masks.masks")


def _basis(values: Any, first: int = 0, last: int | None = None) -> Any:
    """A pytree like `values` whose leaves have a new axis 0: together, the rows of the identity, or some of them."""
    leaves, structure = tree.flatten(values)
    rows = (sum(aval_of(x).size for x in leaves) if last is None else last) - first
    columns = []
    for x in leaves:
        aval = aval_of(x)
        column = np.eye(rows, aval.size, first, aval.dtype)
        first -= aval.size
        columns.append(namespace_of([concrete_value(x)]).asarray(column.reshape((rows, *aval.shape))))
    return structure.unflatten(columns)


def _split(stacked: Any, axis: int, values: Any) -> Any:
    """Split one leaf's mapped axis into a pytree like `values`, each part with its leaf's shape in place of the axis."""
    leaves, structure = tree.flatten(values)
    shape = aval_of(stacked).shape
    start, parts = 0, []
    front = move_axis(stacked, axis, 0)
    for x in leaves:
        aval = aval_of(x)
        part = static_slice(front, start, start + aval.size)
        start += aval.size
        rest = (*shape[:axis], *shape[axis + 1 :])
        part = move_axis(part, 0, axis)
        parts.append(reshape(part, shape=(*rest[:axis], *aval.shape, *rest[axis:])))
    return structure.unflatten(parts)


def _quietly(derivative: Callable[..., Any], basis: Any) -> Any:
    """The rows of the Jacobian: derivative work, which never warns."""
    token = suppress_warnings()
    try:
        return derivative(basis)
    finally:
        restore_warnings(token)


def _is_number(outs: Sequence[Any]) -> bool:
    return len(outs) == 1 and aval_of(outs[0]).shape == ()


def _gradient(f: Any, found: Linearized) -> Any:
    """The Jacobian of one number, without a basis: the structure of the arguments."""
    if found.results is None:
        (out,) = found.outs
        cotangent = seed_beside(seed_of(out), out)
        return _quietly(pullback_of(f, found), found.out_tree.unflatten(cotangent))
    given = iter(found.results)
    grads = [next(given) if d else None for d in found.differentiable]
    grads = [zeros_for(x) if g is None else g for g, x in zip(grads, found.leaves)]
    return found.in_tree.unflatten(unshared(each_on_device_of(grads, found.leaves), found.leaves))


_TOGETHER = 1 << 18  # elements of the widest array: more do not stay in a processor's caches from row to row


def _columns(found: Linearized) -> Any:
    """The Jacobian by passes back over the rows: of each argument, along axis 0 the elements of the outputs; or None."""
    if type(found.jaxpr) is not backward.Rows:
        return None
    found.locks.check()
    size = sum([aval_of(x).size for x in found.outs])
    step = max(_TOGETHER // max(1, size, *[aval_of(x).size for x in found.leaves]), 1)
    step = step if size >= 2 * step else max(size, 1)
    whole: list[Any] = []
    for first in range(0, max(size, 1), step):
        last = min(first + step, size)
        basis = tree.leaves(_basis(found.outs, first, last))
        if type(basis[0]) is not np.ndarray:
            return None
        seeds = [b for b, z in zip(basis, found.nonzero) if z]
        cts = backward.columns(found.jaxpr, found.residuals, last - first, seeds)
        if cts is None:
            return None
        if not whole:
            whole = cts if step >= size else [c if c is None else np.empty((size, *c.shape[1:]), c.dtype) for c in cts]
        for rows, c in zip(whole, cts):
            if rows is not c:
                rows[first:last] = c
    given = iter(whole)
    grads = [next(given) if d else None for d in found.differentiable]
    return found.in_tree.unflatten(unshared([_rows_of_zeros(x, size) if g is None else g for g, x in zip(grads, found.leaves)]))


def _few(found: Linearized) -> bool:
    """Are there no more outputs than inputs, or little more, of one real dtype? Then its rows cost no more than its columns."""
    sizes = [sum([aval_of(x).size for x in xs]) for xs in (found.outs, found.leaves)]
    dtypes = {aval_of(x).dtype for x in (*found.outs, *found.leaves)}
    return len(dtypes) == 1 and dtype_kind(dtypes.pop()) == "f" and sizes[0] <= 2 * sizes[1] + 8


def _by_rows(rows: Any, out: Any, single: bool) -> Any:
    """The Jacobian as users get it: `rows` have the elements of the outputs along axis 0."""
    leaves, in_tree = tree.flatten(rows[0] if single else rows)
    if not leaves:
        return tree.map(lambda _: in_tree.unflatten([]), out)
    per_leaf = [tree.flatten(_split(r, 0, out))[0] for r in leaves]
    return tree.structure(out).unflatten([in_tree.unflatten(column) for column in zip(*per_leaf)])


def _rows_of_zeros(x: Any, size: int) -> np.ndarray:
    zeros = zeros_for(x)
    return np.zeros((size, *zeros.shape), zeros.dtype)


def selected(f: Callable[..., Any], argnums: Any, args: tuple, kwargs: dict, what: str) -> tuple[Any, Any, bool]:
    """f as a function of the arguments that are chosen, these, and whether it is a single one."""
    positions, single = normalize_argnums(0 if argnums is None else argnums, len(args), what)
    if len(positions) == len(args) == 1 and not kwargs:
        return f, args, single

    def partial(*chosen: Any) -> Any:
        full, named = lent_to(f, [None if i in positions else a for i, a in enumerate(args)], kwargs)
        for i, v in zip(positions, chosen):
            full[i] = v
        return runs(f)(*full, **named)

    functools.update_wrapper(partial, f)
    return partial, tuple(args[i] for i in positions), single


def _check(
    f: Any, values: Any, holomorphic: bool, what: str, of: str, allow_int: bool = False, either: bool = False
) -> None:
    """NonDifferentiableInputError unless the leaves have a derivative; `either`: without holomorphic, complex ones have."""
    leaves, given = tree.leaves(values), of == "argument"
    check_leaves(leaves, f"{what}: {of} of", values, given=given, of=f)
    for i, x in enumerate(leaves):
        aval = aval_of(x)
        if not is_inexact(aval):
            if not allow_int:
                steps = tree.structure(values).paths()[i]
                path = tree.keystr(steps[given and len(values) == 1 :])
                number = f"{'pass' if given else 'return'} {float(x)!r}" if is_a(x, (int, bool)) else ""
                raise NonDifferentiableInputError(
                    f"{what} of {name_of(f)}: the {of}{' at ' + path if path else ''} must be float, got {said(x)}; "
                    f"integers and bools have no derivative.\nRemedy: {number or 'convert it with .astype(float)'}."
                )
        elif (aval.dtype.kind == "c") != holomorphic and (holomorphic or not either):
            if holomorphic:
                remedy = "holomorphic=True is for complex arguments and complex outputs: convert it to complex, or leave it out"
            else:
                other = "" if given else "jacfwd, if the arguments are real; or "
                other = "jacrev, if the outputs are real; or " if what == "jacfwd" else other
                remedy = f"{other}holomorphic=True, if both are complex and the function is holomorphic"
            found = f"{what} of {name_of(f)}: the {of} is {said(x)}"
            raise NonDifferentiableInputError(f"{found} with holomorphic={holomorphic}.\nRemedy: {remedy}.")
    if not leaves and not given:
        raise NonDifferentiableInputError(f"{what}: {name_of(f)} returned {said(values)}.\nRemedy: return the result.")


class _Compiled(Transformed):
    """The Jacobian of a jitted function."""

    __slots__ = ("compiled",)
    compiled: Any


with_compiled.add(_Compiled)


def _transformed(function: Callable[..., Any], f: Any, make: functools.partial) -> Transformed:
    options = sorted(make.keywords.items())
    compiled = derivative_of(f, (make.func.__name__, *[tuple(o) if type(o) is list else o for _, o in options]), make)
    if compiled is None:
        return Transformed(function, f, make)

    @api
    def compiled_function(*args: Any, **kwargs: Any) -> Any:
        found = compiled(*args, **kwargs)
        return function(*args, **kwargs) if found is NotImplemented else found

    made = _Compiled(compiled_function, f, make)
    made.compiled = compiled
    return made


def _forward(
    f: Any,
    what: str,
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    chunk_size: int | None,
) -> Transformed:
    @api
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, single = selected(f, argnums, args, kwargs, what)
        _check(f, chosen, holomorphic, what, "argument")
        found = linearized(partial, chosen, has_aux, what, True)
        out = found.out
        if found.leaves:  # else argnums=()
            _check(f, out, holomorphic, what, "output", either=True)
        rows = None if found.leaves else chosen
        if found.leaves and chunk_size is None and _few(found):
            rows = _columns(found)
        # a NaN may stand elsewhere in forward mode
        if rows is not None and all([without_nan(row) or masks.has_no_nan(row) for row in tree.leaves(rows)]):
            jacobian = _by_rows(rows, out, single)
            return (jacobian, *found.aux) if has_aux else jacobian
        push = pushforward_of(partial, chosen, found)
        rows = _quietly(mapping.vmap(lambda ts: push(*ts), out_axes=-1, chunk_size=chunk_size), _basis(chosen))
        example = chosen[0] if single else chosen
        jacobian = tree.map(lambda r: _split(r, len(aval_of(r).shape) - 1, example), rows)
        return (jacobian, *found.aux) if has_aux else jacobian

    again = functools.partial(
        jacfwd,
        argnums=argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
        chunk_size=chunk_size,
    )
    return _transformed(jacobian_function, f, again)


def _reverse(
    f: Any, what: str, argnums: Any, has_aux: bool, holomorphic: bool, allow_int: bool, chunk_size: int | None
) -> Transformed:
    @api
    def jacobian_function(*args: Any, **kwargs: Any) -> Any:
        partial, chosen, single = selected(f, argnums, args, kwargs, what)
        _check(f, chosen, holomorphic, what, "argument", allow_int, either=True)
        found = linearized(partial, chosen, has_aux, what, True, True)
        out = found.out
        _check(f, out, holomorphic, what, "output")
        if _is_number(found.outs):
            gradient = _gradient(partial, found)
            jacobian = found.out_tree.unflatten([gradient[0] if single else gradient])
            return (jacobian, *found.aux) if has_aux else jacobian
        rows = _columns(found) if chunk_size is None else None
        if rows is None:
            rows = _quietly(mapping.vmap(pullback_of(partial, found), chunk_size=chunk_size), _basis(out))
        jacobian = _by_rows(rows, out, single)
        return (jacobian, *found.aux) if has_aux else jacobian

    again = functools.partial(
        jacrev,
        argnums=argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
        allow_int=allow_int,
        chunk_size=chunk_size,
    )
    return _transformed(jacobian_function, f, again)


@api
@binds
def jacfwd(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian by forward mode, which is best for few inputs.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any real or complex output.
    argnums : int or sequence of ints, optional
        Which positional arguments to differentiate with respect to; 0 by default. A sequence gives a tuple in place of
        each leaf of the output.
    has_aux : bool
        f returns `(output, aux)`; the result is then `(jacobian, aux)`.
    holomorphic : bool
        f is complex-differentiable, with complex arguments.
    chunk_size : int, optional
        How many input elements to handle at a time; all by default. A small number needs less memory.

    Returns
    -------
    callable
        It takes the arguments of f. The result has the structure of the output; in place of each leaf of shape `out`
        stands the structure of the argument, with leaves of shape `out + in`.

    Raises
    ------
    NonDifferentiableInputError
        When it is called with integers, or with complex arguments without `holomorphic`.

    Notes
    -----
    It takes one `jvp` for each element of the input, all at once by `vmap`. As `jax.jacfwd`, which has no `chunk_size`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.jacfwd(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    >>> f = lambda t, x: {"y": t * x}
    >>> funcad.jacfwd(f, argnums=(0, 1))(2.0, np.array([1.0, 3.0]))
    {'y': (array([1., 3.]), array([[2., 0.],
           [0., 2.]]))}

    See also
    --------
    jacrev, jvp, hessian
    """
    check_second(f, argnums, "jacfwd", "argnums")
    return _forward(f, "jacfwd", argnums, has_aux, holomorphic, chunk_size)


@api
@binds
def jacrev(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The Jacobian by reverse mode, which is best for few outputs. `jacobian` is the same function.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with a real output.
    argnums, has_aux
        As for `jacfwd`.
    holomorphic : bool
        f is complex-differentiable, with complex output.
    allow_int : bool
        Integer arguments are allowed, and get zeros of dtype `float0`.
    chunk_size : int, optional
        How many output elements to handle at a time; all by default. A small number needs less memory.

    Returns
    -------
    callable
        It takes the arguments of f. The result has the structure of the output; in place of each leaf of shape `out`
        stands the structure of the argument, with leaves of shape `out + in`.

    Raises
    ------
    NonDifferentiableInputError
        When it is called with integers without `allow_int`, or when the output is complex without `holomorphic`.

    Notes
    -----
    It takes one `vjp` for each element of the output, all at once by `vmap`. For complex arguments the convention is
    that of `grad`. As `jax.jacrev`, which has no `chunk_size`; `autograd.jacobian` loops in Python.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.jacrev(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    >>> jacobian, aux = funcad.jacrev(lambda x: (np.cumsum(x), "any value"), has_aux=True, chunk_size=1)(np.ones(2))
    >>> jacobian, aux
    (array([[1., 0.],
           [1., 1.]]), 'any value')

    See also
    --------
    jacfwd, vjp, hessian
    """
    check_second(f, argnums, "jacrev", "argnums")
    return _reverse(f, "jacrev", argnums, has_aux, holomorphic, allow_int, chunk_size)


jacobian = jacrev


@api
@binds
def hessian(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The matrix of second derivatives.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them; its output is usually one number.
    argnums, has_aux, holomorphic, chunk_size
        As for `jacfwd`.

    Returns
    -------
    callable
        It takes the arguments of f. The result has the structure of the output; in place of each leaf of shape `out`
        stands the structure of the argument twice, with leaves of shape `out + in + in`.

    Raises
    ------
    NonDifferentiableInputError
        As for `jacfwd`.

    Notes
    -----
    It is `jacfwd(jacrev(f))`: forward mode over reverse mode. A product with a vector needs no matrix (`hvp`), a
    diagonal neither (`hessian_diagonal`). With two arguments in `argnums` the result is a tuple of tuples: all blocks.
    As `jax.hessian`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    >>> blocks = funcad.hessian(lambda x, y: x**2 * y, argnums=(0, 1))(3.0, 2.0)
    >>> [[float(number) for number in row] for row in blocks]
    [[4.0, 6.0], [6.0, 0.0]]

    See also
    --------
    hvp, hessian_diagonal, laplacian, jacfwd
    """
    check_second(f, argnums, "hessian", "argnums")
    inner = _reverse(f, "hessian", argnums, has_aux, holomorphic, False, chunk_size)
    return _forward(inner, "hessian", argnums, has_aux, holomorphic, chunk_size)


@api
def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """The product of the Hessian of f with a vector, without the Hessian.

    Parameters
    ----------
    f : callable
        A function whose output is one real number of shape ().
    primals : tuple or list
        The point: one entry for each positional argument of f.
    tangents : tuple or list
        The vector: one entry for each argument, with the structure, shapes and dtypes of `primals`.

    Returns
    -------
    array or container
        For one argument, a value like it; for several, a tuple with one entry for each.

    Raises
    ------
    NonScalarOutputError
        The output of f has another shape than ().
    TangentMismatchError
        A tangent does not fit its primal.

    Notes
    -----
    The cost is about twice that of `grad` in a jitted function, and three to four times that of an un-jitted one. JAX and
    torch have no such function: it is `jvp(grad(f), primals, tangents)[1]`. autograd's is `hessian_vector_product(f)(x, v)`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 0.0]),))
    array([6., 0.])
    >>> [float(part) for part in funcad.hvp(lambda x, y: x**2 * y, (3.0, 2.0), (1.0, 0.0))]
    [4.0, 6.0]

    See also
    --------
    gnvp, hessian, jvp, grad
    """
    _check_pair("hvp", primals, tangents)
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    compiled = derivative_of(f, ("hvp", argnums), lambda g: lambda ps, ts: jvp(grad(g, argnums=argnums), ps, ts)[1], same=False)
    if compiled is not None:
        found = compiled(tuple(primals), tuple(tangents))
        if found is not NotImplemented:
            return found
    return jvp(grad(f, argnums=argnums), primals, tangents)[1]


@api
def gnvp(
    f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], outer: Callable[..., Any] | None = None
) -> Any:
    """The product of the Gauss-Newton matrix with a vector: J^T H J v, without forming a matrix.

    J is the Jacobian of f, and H is the Hessian of `outer` at the output of f.

    Parameters
    ----------
    f : callable
        The model: its output is an array or a container of arrays.
    primals : tuple or list
        The point: one entry for each positional argument of f.
    tangents : tuple or list
        The vector: one entry for each argument, with the structure, shapes and dtypes of `primals`.
    outer : callable, optional
        The loss of the output of f: one real number. Without it H is the identity, as for half the sum of squares.

    Returns
    -------
    array or container
        As `hvp`.

    Raises
    ------
    TypeError
        `primals` or `tangents` is no tuple or list.
    TangentMismatchError
        A tangent does not fit its primal.

    Notes
    -----
    One `jvp` and one `vjp` of f form the product (Schraudolph, 2002). If `outer` is convex, the matrix has no negative
    eigenvalue. JAX has no such function.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> x, v = np.array([1.0, 2.0]), np.array([1.0, 1.0])
    >>> funcad.gnvp(lambda x: x**2, (x,), (v,))
    array([ 4., 16.])
    >>> funcad.gnvp(lambda x: x**2, (x,), (v,), lambda y: np.sum(y**3))
    array([ 24., 384.])

    See also
    --------
    hvp, hessian, jvp, vjp
    """
    _check_pair("gnvp", primals, tangents)
    out, push = linearize(f, *primals)
    _, pullback = vjp(f, *primals)
    direction = push(*tangents)
    if outer is not None:
        direction = hvp(outer, (out,), (direction,))
    product = pullback(direction)
    return product[0] if len(product) == 1 else product


def _check_pair(what: str, primals: Any, tangents: Any) -> None:
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"{what} takes tuples with one entry per argument of f, got {type(primals).__name__} and "
            f"{type(tangents).__name__}: write {what}(f, (x,), (v,))"
        )
