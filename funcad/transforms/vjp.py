"""Reverse mode for users: vjp, grad, value_and_grad; and linearize, linear_transpose, jvp.

Outside jit all of them *follow* (following.py): the user's function runs once, on its real values. The linear program that
was recorded meanwhile is transposed when the pullback is called; `grad` calls it at once and lets every residual die as soon
as it has been used.
"""

from __future__ import annotations

import functools
import warnings
from typing import Any, Callable, Sequence

from funcad import tree
from funcad.errors import NonDifferentiableInputError, NonScalarOutputError
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.source import strip_traceback
from funcad.ir.trace import trace_function
from funcad.transforms.following import follow, linearize_following
from funcad.transforms.plumbing import (
    OutTree,
    api,
    check_leaves,
    check_tangents,
    export,
    flat_function,
    name_of,
    normalize_argnums,
    positional_names,
    tangent_aval,
    zeros_for,
)
from funcad.transforms.transpose import transpose_eval

__all__ = ["jvp", "vjp", "linearize", "linear_transpose", "grad", "value_and_grad"]


def _with_aux(f: Callable[..., Any], has_aux: bool, box: dict) -> Callable[..., Any]:
    """f returning its output and, behind it, its auxiliary output (a pytree of anything)."""
    if not has_aux:
        return f

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(
                f"with has_aux=True, {name_of(f)} must return a pair (output, aux); it returned {type(out).__name__}"
            )
        box["n"] = tree.structure(out[0]).num_leaves
        return out

    return both


@api
def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    """Value of f and its derivative along a direction (forward mode).

    `primals` and `tangents` are tuples or lists of pytrees of equal structure, shapes and dtypes; integer and bool leaves
    take `np.zeros(shape, funcad.float0)`. Returns `(output, output_tangent)`, and `(output, output_tangent, aux)` with
    has_aux. Raises TangentMismatchError naming the path that does not fit. As JAX's, but Python `if` and `while` on values
    work.

    >>> import numpy as np, funcad
    >>> y, dy = funcad.jvp(np.sin, (0.0,), (1.0,))
    >>> float(dy)
    1.0
    """
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)):
        raise TypeError(
            f"jvp: primals and tangents must be tuples or lists with one entry per argument, got "
            f"{type(primals).__name__} and {type(tangents).__name__}"
        )
    p_leaves, t_leaves, _ = check_tangents(tuple(primals), tuple(tangents), "jvp", "primals", "tangents")
    in_tree = tree.structure((tuple(primals), {}))
    store, box = OutTree(), {}
    outs, touts = follow(flat_function(_with_aux(f, has_aux, box), in_tree, store), p_leaves, t_leaves)
    n = box.get("n", len(outs))
    check_leaves(outs[:n], f"jvp: output of {name_of(f)}")
    touts = [zeros_for(o) if t is None else t for o, t in zip(outs[:n], touts)]
    outs = [*export(outs[:n], p_leaves), *outs[n:]]
    touts = export(touts, [*p_leaves, *[t for t in t_leaves if t is not None], *outs])
    if not has_aux:
        return store.tree.unflatten(outs), store.tree.unflatten(touts)
    out_tree, _ = store.tree.children()
    out, aux = store.tree.unflatten(outs)
    return out, out_tree.unflatten(touts), aux


class _Pullback:
    """The transposed linear program of one call: cotangents of the output in, cotangents of the arguments out."""

    __slots__ = ("name", "outs", "out_tree", "nonzero", "jaxpr", "residuals", "locks", "primals", "differentiable", "in_tree")

    def __init__(self, name, outs, out_tree, nonzero, jaxpr, residuals, locks, primals, differentiable, in_tree):
        self.name = name
        self.outs = outs
        self.out_tree = out_tree
        self.nonzero = nonzero
        self.jaxpr = jaxpr
        self.residuals = residuals
        self.locks = locks
        self.primals = primals
        self.differentiable = differentiable
        self.in_tree = in_tree

    def flat(self, cts: Sequence[Any], residuals: list) -> list[Any]:
        """Cotangents (None: zero) of the differentiated leaves."""
        n = len(residuals)
        linear = [False] * n + [True] * (len(self.jaxpr.inputs) - n)
        values = residuals + [None] * (len(self.jaxpr.inputs) - n)
        residuals.clear()
        return transpose_eval(self.jaxpr, linear, values, [c for c, z in zip(cts, self.nonzero) if z], all_linear=True)

    @property
    def __name__(self) -> str:
        return f"vjp of {self.name}"

    def __call__(self, cotangent: Any) -> tuple:
        return _pull(self, cotangent)


@api
def _pull(pullback: _Pullback, cotangent: Any) -> tuple:
    outs = pullback.out_tree.unflatten(pullback.outs)
    _, cts, _ = check_tangents(outs, cotangent, pullback.__name__, "output", "cotangent")
    found = iter(pullback.flat(cts, list(pullback.residuals)))
    grads = []
    for p, d in zip(pullback.primals, pullback.differentiable):
        ct = next(found) if d else None
        grads.append(zeros_for(p) if ct is None else ct)
    grads = export(grads, [*cts, *pullback.primals, *pullback.residuals])
    return pullback.in_tree.unflatten(grads)


class _AbstractOutput:
    """Shape and dtype of an output, kept by the pullback in place of the output itself."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


@api
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of f and a function that pulls cotangents of the output back to the arguments (reverse mode).

    Returns `(output, pullback)`, and `(output, pullback, aux)` with has_aux. `pullback(ct)` takes a pytree like the output
    and returns a tuple with one pytree per argument (float0 zeros for integer leaves); it may be called many times and may
    itself be differentiated. Raises TangentMismatchError naming the path that does not fit. As JAX's.

    >>> import numpy as np, funcad
    >>> y, pullback = funcad.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [float(g) for g in pullback(1.0)]
    [3.0, 2.0]
    """
    leaves, in_tree = tree.flatten((primals, {}))
    check_leaves(leaves, "vjp: argument", primals)
    differentiable = [is_inexact(aval_of(x)) for x in leaves]
    store, box = OutTree(), {}
    flat = flat_function(_with_aux(f, has_aux, box), in_tree, store)
    outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, "vjp", box)
    n = box.get("n", len(outs))
    check_leaves(outs[:n], f"vjp: output of {name_of(f)}")
    outs = [*export(outs[:n], leaves + residuals), *outs[n:]]
    out_tree = store.tree.children()[0] if has_aux else store.tree
    pullback = _Pullback(
        name_of(f),
        [_AbstractOutput(aval_of(o)) for o in outs[:n]],
        out_tree,
        nonzero[:n],
        jaxpr,
        residuals,
        locks,
        leaves,
        differentiable,
        in_tree.children()[0],
    )
    if has_aux:
        out, aux = store.tree.unflatten(outs)
        return out, pullback, aux
    return store.tree.unflatten(outs), pullback


@api
def linearize(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of f and its derivative at `primals` as a function of tangents, to be applied to many of them.

    Returns `(output, f_jvp)`, and `(output, f_jvp, aux)` with has_aux; f runs once. `f_jvp(*tangents)` takes one pytree per
    argument and returns the output's tangent. As JAX's.

    >>> import numpy as np, funcad
    >>> y, f_jvp = funcad.linearize(np.exp, 0.0)
    >>> float(f_jvp(2.0))
    2.0
    """
    leaves, in_tree = tree.flatten((primals, {}))
    check_leaves(leaves, "linearize: argument", primals)
    differentiable = [is_inexact(aval_of(x)) for x in leaves]
    store, box = OutTree(), {}
    flat = flat_function(_with_aux(f, has_aux, box), in_tree, store)
    outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, "linearize", box)
    n = box.get("n", len(outs))
    check_leaves(outs[:n], f"linearize: output of {name_of(f)}")
    out_tree = store.tree.children()[0] if has_aux else store.tree
    outs = [*export(outs[:n], leaves + residuals), *outs[n:]]

    @api
    def f_jvp(*tangents: Any) -> Any:
        held = locks  # the residuals stay locked as long as this function lives
        _, ts, _ = check_tangents(primals, tangents, f"derivative of {name_of(f)}", "primals", "tangents")
        found = iter(eval_jaxpr(jaxpr, [*residuals, *[t for t, d in zip(ts, differentiable) if d]]))
        touts = [next(found) if z else zeros_for(o) for o, z in zip(outs[:n], nonzero)]
        del held
        return out_tree.unflatten(export(touts, [t for t in ts if t is not None] + residuals))

    if has_aux:
        out, aux = store.tree.unflatten(outs)
        return out, f_jvp, aux
    return store.tree.unflatten(outs), f_jvp


@api
def linear_transpose(f: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple]:
    """The transpose of a linear function: output cotangents in, a tuple of argument cotangents out.

    Only shapes and dtypes of `primals` are read (ShapeDtypeStructs will do). f is traced, not run; an operation that is not
    linear in the arguments raises MissingRuleError. As JAX's; complex numbers are not conjugated.

    >>> import numpy as np, funcad
    >>> transposed = funcad.linear_transpose(lambda x: 3.0 * x, np.ones(2))
    >>> transposed(np.array([1.0, 2.0]))
    (array([3., 6.]),)
    """
    leaves, in_tree = tree.flatten((primals, {}))
    for x in leaves:
        if not is_inexact(aval_of(x)):
            raise NonDifferentiableInputError(f"linear_transpose: arguments must be float or complex, got {aval_of(x)}")
    store = OutTree()
    jaxpr, consts = trace_function(
        flat_function(f, in_tree, store), [tangent_aval(x) for x in leaves], name="linear_transpose"
    )
    n = len(consts)
    linear = [False] * n + [True] * len(leaves)

    @api
    def transposed(cotangent: Any) -> tuple:
        outs = store.tree.unflatten([_AbstractOutput(a) for a in jaxpr.out_avals])
        _, cts, _ = check_tangents(outs, cotangent, f"linear_transpose of {name_of(f)}", "output", "cotangent")
        found = transpose_eval(jaxpr, linear, [*consts, *[None] * len(leaves)], cts)
        grads = [zeros_for(x) if ct is None else ct for x, ct in zip(leaves, found)]
        return in_tree.children()[0].unflatten(export(grads, [*cts, *consts]))

    return transposed


@api
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function that returns both f's value and its gradient: `(value, gradient)`, or `((value, aux), gradient)`.

    Options as `grad`.

    >>> import numpy as np, funcad
    >>> value, g = funcad.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), g
    (5.0, array([2., 4.]))
    """
    return _Gradient(f, argnums, argnames, has_aux, holomorphic, allow_int, True)


@api
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """The gradient of a function whose output is one number of shape ().

    `argnums` (default 0) is an int, or a sequence giving a tuple of gradients. `argnames` names arguments instead: a string
    gives that gradient, a sequence a dict; with both, the result is `(by position, by name)`. With `has_aux`, f returns
    `(output, aux)` and the result is `(gradient, aux)`. `holomorphic=True` is for complex-differentiable f with complex
    arguments and output; otherwise the output must be real, and the gradient with respect to complex z = x + iy is
    df/dx - i df/dy, as in JAX (torch returns the conjugate). Integer arguments raise NonDifferentiableInputError;
    `allow_int=True` gives float0 zeros. Gradients have their argument's structure, shapes and dtypes. Python control flow on
    values works outside `jit` and `vmap`. Warns once if the output does not depend on an argument.

    >>> import numpy as np, funcad
    >>> funcad.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([1., 1.])
    """
    return _Gradient(f, argnums, argnames, has_aux, holomorphic, allow_int, False)


class _Gradient:
    """What `grad` and `value_and_grad` return: a function, with the options it was made with."""

    def __init__(self, f, argnums, argnames, has_aux, holomorphic, allow_int, with_value):
        if not callable(f):
            raise TypeError(f"grad takes a function, got {type(f).__name__}: write grad(f)(x), not grad(f(x))")
        functools.update_wrapper(self, f)
        self.f = f
        if argnums is None and argnames is None:
            argnums = 0
        self.argnums = argnums
        self.argnames = argnames
        self.has_aux = has_aux
        self.holomorphic = holomorphic
        self.allow_int = allow_int
        self.with_value = with_value
        self.warned: set = set()

    def __repr__(self) -> str:
        return f"<{'value_and_grad' if self.with_value else 'grad'} of {name_of(self.f)}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self._call(args, kwargs)
        except Exception as error:
            raise error.with_traceback(strip_traceback(error.__traceback__))

    def _selection(self, args: tuple, kwargs: dict) -> tuple[tuple[int, ...], bool, tuple[str, ...]]:
        names = () if self.argnames is None else (self.argnames,) if isinstance(self.argnames, str) else tuple(self.argnames)
        keywords, extra = [], []
        for name in names:
            if name in kwargs:
                keywords.append(name)
                continue
            known = positional_names(self.f)
            if name not in known or known.index(name) >= len(args):
                raise ValueError(f"grad: argnames={self.argnames!r} names {name!r}, which {name_of(self.f)} was not given")
            extra.append((known.index(name), name))
        positions, single = ((), False) if self.argnums is None else normalize_argnums(self.argnums, len(args), "grad")
        self_named = {name: i for i, name in extra}
        for i in self_named.values():
            if i in positions:
                raise ValueError(f"grad: argument {i} is named by both argnums={self.argnums!r} and argnames={self.argnames!r}")
        return positions, single, tuple((name, self_named.get(name)) for name in names)  # type: ignore[misc]

    def _call(self, args: tuple, kwargs: dict) -> Any:
        f = self.f
        positions, single, names = self._selection(args, kwargs)
        selected = [args[i] for i in positions] + [kwargs[n] if i is None else args[i] for n, i in names]  # type: ignore[misc]
        leaves, in_tree = tree.flatten(selected)
        differentiable = self._check_inputs(leaves, selected)
        box: dict[str, Any] = {}
        rest, named = list(args), dict(kwargs)

        def flat(*xs: Any) -> list[Any]:
            values = in_tree.unflatten(xs)
            for i, v in zip(positions, values):
                rest[i] = v
            for (n, i), v in zip(names, values[len(positions) :]):  # type: ignore[misc]
                if i is None:
                    named[n] = v
                else:
                    rest[i] = v
            out = f(*rest, **named)
            rest.clear()
            named.clear()
            aux_leaves: list[Any] = []
            if self.has_aux:
                if not (isinstance(out, tuple) and len(out) == 2):
                    raise TypeError(
                        f"with has_aux=True, {name_of(f)} must return a pair (output, aux); it returned {type(out).__name__}"
                    )
                out, aux = out
                aux_leaves, box["aux"] = tree.flatten(aux)
            self._check_output(out)
            box["n"] = 1
            return [out, *aux_leaves]

        outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, "grad", box)
        value = outs[0]
        n = len(residuals)
        n_linear = len(jaxpr.inputs) - n
        if nonzero[0]:
            seed = [aval_of(value).dtype.type(1)]
            values = residuals + [None] * n_linear
            residuals.clear()
            found = iter(transpose_eval(jaxpr, [False] * n + [True] * n_linear, values, seed, all_linear=True))
        else:
            found = iter([None] * n_linear)
        grads = [next(found) if d else None for d in differentiable]
        self._warn_if_independent(grads, in_tree, positions, names)
        grads = export([zeros_for(x) if g is None else g for g, x in zip(grads, leaves)], leaves)
        locks.release()
        return self._result(outs, box, in_tree.unflatten(grads), len(positions), single)

    def _result(self, outs: list, box: dict, grads: Any, n_positions: int, single: bool) -> Any:
        by_position = grads[0] if single else tuple(grads[:n_positions])
        if self.argnames is None:
            gradient = by_position
        else:
            if isinstance(self.argnames, str):
                by_name = grads[n_positions]
            else:
                by_name = dict(zip(self.argnames, grads[n_positions:]))
            gradient = by_name if self.argnums is None else (by_position, by_name)
        value = export(outs[:1])[0]
        if self.has_aux:
            aux = box["aux"].unflatten(outs[1:])
            return ((value, aux), gradient) if self.with_value else (gradient, aux)
        return (value, gradient) if self.with_value else gradient

    def _check_inputs(self, leaves: list, selected: Any) -> list[bool]:
        check_leaves(leaves, "grad: argument", selected)
        differentiable = []
        for i, x in enumerate(leaves):
            aval = aval_of(x)
            kind = aval.dtype.kind
            if kind in "biu" and not self.allow_int:
                path = tree.keystr(tree.flatten_with_path(selected)[0][i][0][1:])
                remedy = f"pass {float(x)!r} instead of {x!r}" if isinstance(x, (int, bool)) else "convert it with .astype(float)"
                raise NonDifferentiableInputError(
                    f"grad of {name_of(self.f)}: the argument{' at ' + path if path else ''} is {aval}, and integers and bools "
                    f"have no derivative.\nRemedy: {remedy}; or allow_int=True for float0 zeros."
                )
            if self.holomorphic and kind == "f":
                raise NonDifferentiableInputError(
                    f"grad of {name_of(self.f)} with holomorphic=True needs complex arguments, got {aval}.\n"
                    "Remedy: convert it with .astype(complex), or leave holomorphic out."
                )
            differentiable.append(kind in "fc")
        return differentiable

    def _check_output(self, out: Any) -> None:
        name = name_of(self.f)
        try:
            aval = aval_of(out)
        except TypeError:
            raise NonScalarOutputError(
                f"grad needs a function whose output is one number, but {name} returned {type(out).__name__}.\n"
                "Remedy: return the loss alone, or (loss, aux) with has_aux=True."
            ) from None
        if aval.shape != ():
            remedy = (
                "Remedy: return out.sum() or out[0]."
                if aval.shape == (1,)
                else "Remedy: return out.sum(), or use funcad.jacrev, funcad.vmap(grad(f)) or funcad.vjp."
            )
            raise NonScalarOutputError(f"grad needs a function whose output has shape (), but {name} returned {aval}.\n{remedy}")
        kind = aval.dtype.kind
        if kind not in "fc" or (kind == "c") != self.holomorphic:
            if kind == "c":
                remedy = "return a real number (np.real, np.abs), or holomorphic=True for complex-differentiable functions"
            elif self.holomorphic:
                remedy = "holomorphic=True is for functions with complex output; leave it out"
            else:
                remedy = "return a float: integers and bools have no derivative"
            raise NonDifferentiableInputError(f"grad of {name}: the output is {aval}.\nRemedy: {remedy}.")

    def _warn_if_independent(self, grads: list, in_tree: Any, positions: tuple, names: tuple) -> None:
        labels = [f"argnums={i}" for i in positions] + [f"argnames={n!r}" for n, _ in names]
        start = 0
        for label, sub in zip(labels, in_tree.children()):
            part = grads[start : start + sub.num_leaves]
            start += sub.num_leaves
            if part and all(g is None for g in part) and label not in self.warned and not self.allow_int:
                self.warned.add(label)
                warnings.warn(
                    f"grad: the output of {name_of(self.f)} does not depend on the argument {label}; its gradient is zero",
                    UserWarning,
                    stacklevel=4,
                )

