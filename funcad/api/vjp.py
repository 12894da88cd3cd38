"""Forward and reverse mode for users: jvp, linearize, linear_transpose, vjp.

Outside jit it *follows* (following.py): the user's function runs once, on its real values. The linear program that was
recorded meanwhile is transposed when the pullback is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.grad import Gradient
from funcad.configuration import NamedTuple, OnDemand
from funcad.errors import NonDifferentiableInputError
from funcad.host.locks import Locks
from funcad.ir.aval import Aval, aval_of, is_inexact, said
from funcad.ir.trace import trace_function
from funcad.primitives.placement import each_on_device_of
from funcad.unjitted import backward
from funcad.unjitted.linearizing import linearize_following
from funcad.unjitted.pushes import follow
from funcad.unjitted.tape import Tape

from funcad.api.border import (  # isort: skip
    AbstractOutput, OutTree, api, check_flat, check_leaves, check_tangents, derivative_of, flat_function, flat_values, name_of,
    own_memory, runs, tangent_aval, with_aux, zeros_for,
)

masked_rules = OnDemand("funcad.masks.masked_rules")
jvp_rules = OnDemand("funcad.transforms.jvp")
transposing = OnDemand("funcad.transforms.transpose")
strides = OnDemand("funcad.unjitted.strides")

# -- the first half of `vjp`, `linearize`, `jacfwd` and `jacrev`: f has run, and its tangent program was recorded, or found
#
# f runs once, on its real values (following.py). Where a Jacobian is wanted, a tape may have found the program that computes
# it: `results` are its.


class Linearized(NamedTuple):
    """One call of f."""

    leaves: list[Any]
    in_tree: Any  # of the tuple of arguments
    differentiable: list[bool]
    outs: list[Any]  # the differentiated outputs
    out_tree: Any
    aux: list[Any]  # the auxiliary output, if f has one
    nonzero: list[bool]  # which outputs depend on the arguments
    jaxpr: Any
    residuals: list[Any]
    locks: Locks
    results: Any  # of the program that was found; None: there is `jaxpr`

    @property
    def out(self) -> Any:
        return self.out_tree.unflatten(self.outs)


def seed_of(out: Any) -> Any:
    """The cotangent of a number, of which the gradient is wanted."""
    return aval_of(out).dtype.type(1)


def linearized(
    f: Callable[..., Any],
    primals: Sequence[Any],
    has_aux: bool,
    name: str,
    rows: bool = False,
    number: bool = False,
) -> Linearized:
    """With `rows`, these may come in place of the program (`Rows`); with `number`, the gradient if the output is one number."""
    leaves, in_tree = flat_values(tuple(primals))
    check_leaves(leaves, f"{name}: argument", primals, given=True)
    differentiable = [type(x) is np.ndarray and x.dtype.kind in "fc" or is_inexact(aval_of(x)) for x in leaves]
    store = OutTree()
    box: dict[str, Any] = {}
    flat = _flat(f, has_aux, box, in_tree, store)
    outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, name, box, rows)
    n, results = box.get("n", len(outs)), None
    check_leaves(outs[:n], f"{name}: output of", store, of=f)
    if type(jaxpr) is Tape:
        if number and n == 1 and aval_of(outs[0]).shape == ():
            locks.check()
            results = backward.pull(jaxpr, [seed_of(outs[0])] if nonzero[0] else [])
            locks.release()
        else:
            jaxpr, residuals = backward.rows_of(jaxpr)
    outs = own_memory(outs, leaves + residuals)
    out_tree, aux = store.tree, []
    if has_aux:
        out_tree = store.tree.children()[0]
        aux = [store.tree.unflatten(outs)[1]]
    return Linearized(
        leaves,
        in_tree,
        differentiable,
        outs[:n],
        out_tree,
        aux,
        nonzero[:n],
        jaxpr,
        residuals,
        locks,
        results,
    )


def _flat(
    f: Callable[..., Any],
    has_aux: bool,
    box: dict[str, Any],
    in_tree: Any,
    store: OutTree,
) -> Callable[..., list[Any]]:
    """f as a function of the leaves of its positional arguments, that gives leaves."""
    g = with_aux(f, box) if has_aux else f

    def flat(*leaves: Any) -> list[Any]:
        out, store.tree = flat_values(runs(g)(*in_tree.unflatten(leaves)))
        return out

    return flat


# -- forward mode for users: jvp and linearize; and linear_transpose
#
# Outside jit they *follow* (following.py): the user's function runs once, on its real values.


@api
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """The value of f and its derivative along one direction (forward mode).

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any output.
    primals : tuple or list
        The point: one entry for each positional argument of f.
    tangents : tuple or list
        The direction: one entry for each argument, with the structure, shapes and dtypes of `primals`. Integers and
        booleans take `np.zeros(shape, funcad.float0)`.
    has_aux : bool
        f returns `(output, aux)`, where `aux` is anything and has no derivative.

    Returns
    -------
    output, output_tangent : like the output of f
        Both have the structure, shapes and dtypes of the output. With `has_aux` it is `(output, output_tangent, aux)`.

    Raises
    ------
    TangentMismatchError
        A tangent has another structure, shape or dtype than its primal; the message names the path.
    TypeError
        `primals` or `tangents` is no tuple or list: one argument is `(x,)`.

    Notes
    -----
    The cost is two to three times that of f, for any number of outputs; the whole Jacobian needs one call for each
    input element (`jacfwd`). f runs once, on its values. As `jax.jvp`, where Python's `if` and `while` on values work,
    too.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> y, dy = funcad.jvp(np.sin, (0.0,), (1.0,))
    >>> float(dy)
    1.0
    >>> funcad.jvp(lambda x, y: x * y, (np.array([1.0, 2.0]), 3.0), (np.array([1.0, 0.0]), 0.0))[1]
    array([3., 0.])
    >>> y, dy, aux = funcad.jvp(lambda x: (x**2, "any value"), (3.0,), (1.0,), has_aux=True)
    >>> float(dy), aux
    (6.0, 'any value')

    See also
    --------
    vjp, linearize, jacfwd
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp: primals and tangents must be tuples or lists with one entry per argument, got "
            f"{type(primals).__name__} and {type(tangents).__name__}.\nRemedy: jvp(f, (x,), (v,)) instead of jvp(f, x, v)."
        )
    compiled = None
    if type(f) is not FunctionType:
        compiled = derivative_of(f, ("jvp", has_aux), lambda g: lambda ps, ts: jvp(g, ps, ts, has_aux), same=False)
    if compiled is not None:
        found = compiled(tuple(primals), tuple(tangents))
        if found is not NotImplemented:
            return found
    return pushed(f, primals, tangents, has_aux)


def pushed(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """What `jvp` returns for a function that is not jitted."""
    p_leaves, t_leaves, in_tree = check_tangents(tuple(primals), tuple(tangents), "jvp", "primals", "tangents", given=True)
    store = OutTree()
    box: dict[str, Any] = {}
    f = f.ending() if type(f) is Gradient else f
    outs, touts = follow(_flat(f, has_aux, box, in_tree, store), p_leaves, t_leaves)
    n = box.get("n", len(outs))
    check_leaves(outs[:n], "jvp: output of", store, of=f)
    touts = each_on_device_of([zeros_for(o) if t is None else t for o, t in zip(outs[:n], touts)], outs[:n])
    count = len(outs)
    both = own_memory([*outs, *touts], [*p_leaves, *t_leaves])
    outs, touts = both[:count], both[count:]
    if not has_aux:
        return store.tree.unflatten(outs), store.tree.unflatten(touts)
    out_tree, _ = store.tree.children()
    out, aux = store.tree.unflatten(outs)
    return out, out_tree.unflatten(touts), aux


@api
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of f and its derivative at one point as a function, to be applied to many directions.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any output.
    *primals : array, number or container of them
        The point: the positional arguments of f.
    has_aux : bool
        f returns `(output, aux)`, where `aux` is anything.

    Returns
    -------
    output : like the output of f
        The value of f.
    f_jvp : callable
        `f_jvp(*tangents)` takes one tangent for each argument and returns the tangent of the output. It may be called
        many times, and does not run f again. With `has_aux` the result is `(output, f_jvp, aux)`.

    Raises
    ------
    TangentMismatchError
        When `f_jvp` is called with a tangent that does not have the structure, shape and dtype of its primal.

    Notes
    -----
    `f_jvp` keeps what f computed, as reverse mode does; for one direction `jvp` needs less memory. As `jax.linearize`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> y, f_jvp = funcad.linearize(np.exp, 0.0)
    >>> float(f_jvp(2.0)), float(f_jvp(3.0))
    (2.0, 3.0)
    >>> y, f_jvp, aux = funcad.linearize(lambda x: (x**2, "any value"), 3.0, has_aux=True)
    >>> float(f_jvp(1.0)), aux
    (6.0, 'any value')

    See also
    --------
    jvp, vjp, linear_transpose
    """
    found = linearized(f, primals, has_aux, "linearize")
    return found.out, pushforward_of(f, primals, found), *found.aux


def pushforward_of(f: Any, primals: Sequence[Any], linear: Linearized) -> Callable[..., Any]:
    """The derivative as a function of tangents."""
    outs, jaxpr, residuals, locks = linear.outs, linear.jaxpr, linear.residuals, linear.locks
    if type(jaxpr) is backward.Rows:
        jaxpr, residuals = jaxpr.linear(residuals)

    @api
    def f_jvp(*tangents: Any) -> Any:
        """The tangent of the output at this point, for one tangent of each argument."""
        held = locks  # the residuals stay locked as long as this function lives
        held.check()
        _, ts, _ = check_tangents(tuple(primals), tangents, f"derivative of {name_of(f)}", "primals", "tangents", given=True)
        given = [t for t, d in zip(ts, linear.differentiable) if d]
        found = iter(masked_rules.push(jaxpr, residuals, given, jvp_rules.jvp_eval))
        touts = each_on_device_of([next(found) if z else zeros_for(o) for o, z in zip(outs, linear.nonzero)], outs)
        del held
        return linear.out_tree.unflatten(own_memory(touts, [t for t in ts if t is not None] + residuals))

    return f_jvp


@api
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple]:
    """The transpose of a linear function: cotangents of the output in, cotangents of the arguments out.

    Parameters
    ----------
    f : callable
        A function that is linear in all its arguments together.
    *primals : array, number or ShapeDtypeStruct
        Examples of its arguments. Only their shapes and dtypes are read.

    Returns
    -------
    callable
        It takes a cotangent with the structure, shapes and dtypes of the output, and returns a tuple with one cotangent
        for each argument.

    Raises
    ------
    MissingRuleError
        An operation of f is not linear in the arguments.
    TangentMismatchError
        When the result is called with a cotangent that does not fit the output.

    Notes
    -----
    f is traced, not run, so Python's `if` on values raises TracerBoolConversionError. Complex numbers are not
    conjugated. As `jax.linear_transpose`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> transposed = funcad.linear_transpose(lambda x: 3.0 * x, np.ones(2))
    >>> transposed(np.array([1.0, 2.0]))
    (array([3., 6.]),)
    >>> a = np.array([[1.0, 2.0], [0.0, 1.0], [0.0, 0.0]])
    >>> (x,) = funcad.linear_transpose(lambda v: a @ v, funcad.ShapeDtypeStruct((2,), float))(np.ones(3))
    >>> x, a.T @ np.ones(3)
    (array([1., 3.]), array([1., 3.]))

    See also
    --------
    linearize, vjp, custom_linear_solve
    """
    leaves, in_tree = flat_values((primals, {}))
    for x in leaves:
        if not is_inexact(aval_of(x)):
            raise NonDifferentiableInputError(f"linear_transpose: arguments must be float or complex, got {said(x)}")
    store = OutTree()
    jaxpr, consts = trace_function(
        flat_function(f, in_tree, store, f"linear_transpose of {name_of(f)}"),
        [tangent_aval(x) for x in leaves],
        name="linear_transpose",
        given=strides.Given(leaves),
    )
    n = len(consts)
    linear = [False] * n + [True] * len(leaves)

    @api
    def transposed(cotangent: Any) -> tuple:
        outs = store.tree.unflatten([AbstractOutput(a) for a in jaxpr.out_avals])
        _, cts, _ = check_tangents(outs, cotangent, f"linear_transpose of {name_of(f)}", "output", "cotangent")
        found = transposing.transpose_eval(jaxpr, linear, [*consts, *[None] * len(leaves)], cts)
        grads = [zeros_for(x) if ct is None else ct for x, ct in zip(leaves, found)]
        return in_tree.children()[0].unflatten(own_memory(grads, [*cts, *consts]))

    return transposed


# -- reverse mode for users: vjp


class _Pullback:
    """The transposed linear program of one call: cotangents of the output in, cotangents of the arguments out."""

    __slots__ = (
        "name",
        "outs",
        "out_tree",
        "nonzero",
        "jaxpr",
        "residuals",
        "locks",
        "primals",
        "differentiable",
        "in_tree",
        "kept",
    )

    def __repr__(self) -> str:
        return f"<pullback of vjp of {self.name}: takes the cotangent of the output, gives a tuple of cotangents>"

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name.startswith("__")]

    def __init__(self, f: Any, found: Linearized):
        self.name = name_of(f)
        self.outs: list[Any] = [AbstractOutput(aval_of(o)) for o in found.outs]
        self.out_tree = found.out_tree
        self.nonzero = found.nonzero
        self.jaxpr = found.jaxpr
        self.residuals = found.residuals
        self.locks = found.locks
        self.primals = found.leaves
        self.differentiable = found.differentiable
        self.in_tree = found.in_tree
        self.kept: _StaticPart | None = None  # once it has been taken apart, as a container

    def flat(self, cts: Sequence[Any], residuals: list) -> list[Any]:
        """Cotangents (None: zero) of the differentiated leaves."""
        self.locks.check()
        given = [c for c, z in zip(cts, self.nonzero) if z]
        if type(self.jaxpr) is backward.Rows:
            return self.jaxpr.pull(residuals, given)
        return backward.transposed(self.jaxpr, residuals, given)

    @property
    def __name__(self) -> str:
        return f"vjp of {self.name}"

    @api
    def __call__(self, cotangent: Any) -> tuple:
        if self.kept is not None and self.kept.kinds != _kinds(self):
            raise ValueError(
                f"{self.__name__}: the values that it keeps have other shapes or dtypes than when it was made, as vmap or a "
                "map over its leaves leaves them.\n"
                "Remedy: call it inside the mapped function, or map it itself: vmap(lambda p, ct: p(ct))."
            )
        cts = check_flat(self.outs, self.out_tree, cotangent, self.__name__, "output", "cotangent", self.primals)
        found = iter(self.flat(cts, list(self.residuals)))
        grads = []
        for p, d in zip(self.primals, self.differentiable):
            ct = next(found) if d else None
            grads.append(zeros_for(p) if ct is None else ct)
        grads = own_memory(each_on_device_of(grads, self.primals), [*cts, *self.primals, *self.residuals])
        return self.in_tree.unflatten(grads)

    def __copy__(self) -> _Pullback:
        return self  # it is never changed, and holds locks

    def __deepcopy__(self, memo: Any) -> _Pullback:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.__name__} is not pickled: it holds the program and the values of one call.\n"
            "Remedy: pickle the function and its arguments, and call vjp where they are loaded."
        )


class _StaticPart:
    """What a pullback is besides the arrays that it keeps: static, and equal to itself alone."""

    __slots__ = ("rest", "kinds")

    def __init__(self, pullback: _Pullback):
        self.rest = {name: getattr(pullback, name) for name in _Pullback.__slots__ if name not in _PARTS}
        self.kinds = _kinds(pullback)


_PARTS = ("residuals", "primals", "kept")


def _kinds(pullback: _Pullback) -> list[Any]:
    """The shapes and dtypes of the arrays that it keeps."""
    avals = map(aval_of, (*pullback.residuals, *pullback.primals))
    return [(a.shape, a.dtype) if isinstance(a, Aval) else a for a in avals]


def _flat_pullback(pullback: _Pullback) -> tuple[list, _StaticPart]:
    if pullback.kept is None:
        pullback.kept = _StaticPart(pullback)
    return [pullback.residuals, pullback.primals], pullback.kept


def _pullback_again(kept: _StaticPart, parts: Sequence[Any]) -> _Pullback:
    made = object.__new__(_Pullback)
    for name, value in kept.rest.items():
        setattr(made, name, value)
    made.residuals, made.primals = map(list, parts)
    made.kept = kept
    return made


# what a custom rule keeps of another function
tree.register_pytree_node(_Pullback, _flat_pullback, _pullback_again)


@api
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of f and a function that pulls cotangents of the output back to the arguments (reverse mode).

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them, with any output.
    *primals : array, number or container of them
        The point: the positional arguments of f.
    has_aux : bool
        f returns `(output, aux)`, where `aux` is anything and has no derivative.

    Returns
    -------
    output : like the output of f
        The value of f.
    pullback : callable
        `pullback(ct)` takes a cotangent with the structure, shapes and dtypes of the output. It returns a tuple with
        one cotangent for each argument; integer leaves get zeros of dtype `float0`. With `has_aux` the result is
        `(output, pullback, aux)`.

    Raises
    ------
    TangentMismatchError
        When `pullback` is called with a cotangent that does not fit the output; the message names the path.

    Notes
    -----
    `grad(f)` is the pullback of 1. The cost of a pullback is two to four times that of f, for any number of inputs. It
    may be called many times and may itself be differentiated. What f computed is kept as long as the pullback is:
    arrays that it needs are read-only meanwhile (`funcad.debug.locked_arrays()` lists them). As `jax.vjp`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> y, pullback = funcad.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [float(g) for g in pullback(1.0)]
    [3.0, 2.0]
    >>> y, pullback, aux = funcad.vjp(lambda x: (x**2, "any value"), np.array([1.0, 2.0]), has_aux=True)
    >>> pullback(np.array([1.0, 10.0])), aux
    ((array([ 2., 40.]),), 'any value')

    See also
    --------
    grad, jvp, jacrev, linear_transpose
    """
    found = linearized(f, primals, has_aux, "vjp", True)
    return found.out, pullback_of(f, found), *found.aux


def pullback_of(f: Any, found: Linearized) -> _Pullback:
    return _Pullback(f, found)
