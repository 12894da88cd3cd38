"""`custom_vmap`: a function with the user's own batching rule.

Idea: the function is recorded as one equation that keeps its program and the rule; when `vmap` meets it, the rule runs on the
batched values. Forward mode differentiates the program and the rule alike, so the rule still decides under vmap of jvp. A lane
of un-jitted vmap that runs as plain Python is a batch of one to the rule (`_Work.meets_rule`, api/split_batch.py).
Trap: reverse mode differentiates the program itself, since residuals of the program and of the rule need not correspond;
under vmap of grad the derived programs are batched as usual.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from funcad import tree
from funcad.configuration import OnDemand
from funcad.control.call import call_p, compact, partial_call, scatter
from funcad.control.rules import Target, on_values, refuse_tracers
from funcad.errors import AxesMismatchError
from funcad.host.where import setting, state
from funcad.ir.aval import aval_of, said
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer, has_value
from funcad.primitives.shape import broadcast_leading, zeros
from funcad.transforms.jvp import jvp_eval, jvp_jaxpr
from funcad.unjitted.pushes import follow
from funcad.unjitted.strides import Given

from funcad.api.border import (  # isort: skip
    OutTree, Remade, api, dress_as, flat_function, flat_values, name_of, on_copies, runs, unaliased, with_rules,
)

engines = OnDemand("funcad.backends.engines")
FlatRule = Callable[[int, Sequence[bool], Sequence[Any]], "tuple[list[Any], list[bool]]"]


class _Rule:
    """A batching rule on flat values: `(size, batched, values) -> (outputs, which of them are batched)`."""

    __slots__ = ("name", "run", "env")

    def __init__(self, name: str, run: FlatRule):
        self.name = name
        self.run = run
        self.env = state.axis_env

    def __repr__(self) -> str:
        return f"vmap rule of {self.name}"

    @property
    def __name__(self) -> str:
        return repr(self)

    def __call__(self, size: int, batched: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        return on_values(repr(self), self.env, lambda *xs: self.run(size, batched, xs), values)  # type: ignore[no-any-return]


def _user_rule(name: str, rule: Any, in_tree: Any, out_tree: Any) -> _Rule:
    def run(size: int, batched: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        result = rule(size, list(in_tree.unflatten(batched)), *in_tree.unflatten(values))
        if not (isinstance(result, (tuple, list)) and len(result) == 2):
            raise TypeError(f"the vmap rule of {name} must return a pair (output, out_batched); it returned {result!r:.80}")
        outs, found = flat_values(result[0])
        if found != out_tree:
            difference = tree.describe_difference(found, out_tree, "the rule's output", "the function's output")
            raise AxesMismatchError(f"the vmap rule of {name} must return what the function returns: {difference}")
        flags = [bool(b) for b in tree.flatten_axes("out_batched", out_tree, result[1])]
        for o, b in zip(outs, flags):
            shape = aval_of(o).shape
            if b and (not shape or shape[0] != size):
                raise AxesMismatchError(
                    f"the vmap rule of {name} marks an output as batched, but it is {said(o)}: axis 0 must have size {size}"
                )
        return outs, flags

    return _Rule(name, run)


def _jvp_of(rule: _Rule, nonzero: Sequence[bool], out_nonzero: Sequence[bool]) -> _Rule:
    """The rule of the derived function (primals, tangents) -> (outputs, tangents): the jvp of the rule."""
    n = len(nonzero)

    def run(size: int, batched: Sequence[bool], values: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        primals, primal_batched = list(values[:n]), list(batched[:n])
        tangents = scatter(values[n:], nonzero)
        tangent_batched = scatter(batched[n:], nonzero)
        for i, (t, b) in enumerate(zip(tangents, tangent_batched)):  # a primal and its tangent are batched together
            if t is not None and b and not primal_batched[i]:
                primals[i], primal_batched[i] = broadcast_leading(primals[i], size), True
            elif t is not None and primal_batched[i] and not b:
                tangents[i] = broadcast_leading(t, size)
        flags: list[bool] = []

        def through(*xs: Any) -> list[Any]:
            outs, flags[:] = rule(size, primal_batched, xs)
            return outs

        outs, touts = follow(through, primals, tangents)
        kept = [t for t, z in zip(touts, out_nonzero) if z]
        avals = [aval_of(o) for o, z in zip(outs, out_nonzero) if z]
        kept = [zeros(a) if t is None else t for t, a in zip(kept, avals)]
        return [*outs, *kept], [*flags, *[f for f, z in zip(flags, out_nonzero) if z]]

    return _Rule(rule.name, run)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rule: _Rule, n_consts: int) -> tuple[list, list]:
    ts, nonzero = compact(tangents)
    derived, consts, out_nonzero = jvp_jaxpr(jaxpr, nonzero)
    new_rule = _jvp_of(rule, nonzero[n_consts:], out_nonzero)
    args = [*consts, *primals, *ts]
    outs = custom_vmap_call_p(*args, jaxpr=derived, rule=new_rule, n_consts=len(consts) + n_consts)
    n = len(jaxpr.outputs)
    return outs[:n], scatter(outs[n:], out_nonzero)


def _linearize(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rule: _Rule, n_consts: int
) -> tuple[list, list]:
    return jvp_eval(jaxpr, primals, tangents, linear=True)


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, rule: _Rule, n_consts: int) -> list[Any]:
    return call_p.transpose(cts, *inputs, jaxpr=jaxpr, name=rule.name)


def _batch(
    size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, rule: _Rule, n_consts: int
) -> tuple[list, list]:
    return rule(size, batched[n_consts:], args[n_consts:])


custom_vmap_call_p = Primitive(
    "custom_vmap_call",
    lambda xp, *args, jaxpr, rule, n_consts: engines.run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, rule, n_consts: jaxpr.out_avals,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    partial_eval=lambda linear, *, jaxpr, rule, n_consts: partial_call(jaxpr, linear, eval_jaxpr),
    split=lambda linear, args, *, jaxpr, rule, n_consts: eval_jaxpr(jaxpr, args),
    transpose=_transpose,
    batch=_batch,
    multiple=True,
    may_share=True,
)


class custom_vmap(Remade):
    """A function with a batching rule of your own.

    Parameters
    ----------
    fun : callable
        The function. Values that it closes over are not mapped: pass them as arguments.

    Returns
    -------
    callable
        It takes the arguments of fun. `.def_vmap(rule)` gives it its rule (also as a decorator): `rule(axis_size,
        in_batched, *args)` gets for each argument a container of bools that say what is mapped, and the arguments, with
        the mapped axis first; it returns the output, and a container of bools that say what of it is mapped.

    Raises
    ------
    TypeError
        It is mapped and has no rule, or the rule does not return a pair.

    Notes
    -----
    The rule also serves `vmap` of `jvp`; under `vmap` of `grad` the function itself is differentiated and batched. As
    `jax.custom_batching.custom_vmap`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> @funcad.custom_vmap
    ... def f(x):
    ...     return np.sin(x)
    >>> @f.def_vmap
    ... def _(axis_size, in_batched, x):
    ...     return 10.0 * x, in_batched[0]
    >>> funcad.vmap(f)(np.array([1.0, 2.0]))
    array([10., 20.])

    See also
    --------
    vmap, custom_jvp
    """

    shown = ("def_vmap",)
    defined = ("_rule",)

    def __init__(self, fun: Callable[..., Any]):
        dress_as(self, fun)
        self._target = Target(fun, "custom_vmap", (), ())
        self._rule: Any = None

    def __repr__(self) -> str:
        return f"<custom_vmap of {name_of(self._target.f)}>"

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._target.f, functools.partial(with_rules, type(self), {}, [self._rule])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def def_vmap(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule `(axis_size, in_batched, *args) -> (output, out_batched)`."""
        self._rule = rule
        return rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._rule is None:
            raise TypeError(f"custom_vmap function {name_of(self._target.f)} has no rule yet.\nRemedy: .def_vmap(rule).")
        return _call(self._target, self._rule, args, kwargs)


@api
def _call(target: Target, rule: Any, args: tuple, kwargs: dict) -> Any:
    args = target.positional(args, kwargs)
    leaves, args_tree = flat_values(args)
    what = f"custom_vmap function {name_of(target.f)}"
    lane = state.lane
    if lane is not None:
        lane.meets_rule(what, Tracer not in map(type, leaves))
    elif all(has_value(x) for x in leaves):  # nothing that vmap could be mapping
        return unaliased(runs(target.f)(*args), args, target.f)
    store = OutTree()
    flat = flat_function(lambda *xs: on_copies(what, runs(target.f), xs), tree.structure((args, {})), store)
    with setting(lane=None):
        jaxpr, consts = trace_function(flat, [aval_of(x) for x in leaves], name=what, staging=True, given=Given(leaves))
        refuse_tracers(what, [target.f], consts)
        new_rule = _user_rule(name_of(target.f), rule, args_tree, store.tree)
        if lane is not None:  # a batch of one; which values depend on the lane is not known here
            outs, batched = new_rule(1, [True] * len(leaves), [broadcast_leading(x, 1) for x in leaves])
            return store.tree.unflatten([x[0] if b else x for x, b in zip(outs, batched)])
    return store.tree.unflatten(custom_vmap_call_p(*consts, *leaves, jaxpr=jaxpr, rule=new_rule, n_consts=len(consts)))
