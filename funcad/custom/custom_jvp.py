"""`custom_jvp`: a function with the user's own forward rule; reverse mode is its transpose.

Idea: outside jit and vmap the rule follows: it runs on the values of the call, so Python `if` works in it, and what it does
to a traced tangent is recorded. Inside, the function is traced into `custom_jvp_call[jaxpr, rule]`; differentiating that
equation puts the rule's program in its place, batching it batches both programs. With no traced argument the function is
called plainly. Trap: the rule must be linear in the tangents through operations that have a transpose, or grad cannot be
derived from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import (
    OutTree,
    Remade,
    api,
    dress_as,
    flat_values,
    float0,
    name_of,
    on_copies,
    runs,
    unaliased,
    with_rules,
    zeros_for,
)
from funcad.configuration import OnDemand
from funcad.custom.call_rows import all_users, also_users
from funcad.host.where import state
from funcad.ir.aval import is_inexact
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import plain_values, trace_function
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add
from funcad.unjitted.strides import Given

from funcad.control.rules import (  # isort: skip
    CustomCall, CustomRule, Target, is_following, on_values, recorder, refuse_outside, refuse_tracers,
)

batch_rules = OnDemand("funcad.transforms.batch")
engines = OnDemand("funcad.backends.engines")

# ---------------------------------------------------------------- the recorded call


def traced_body(call: CustomCall) -> tuple[Jaxpr, list[Any], Any]:
    """The function itself as a program, for traces that have no values: (jaxpr, consts, output structure)."""
    store = OutTree()
    f = call.target.f

    def flat(*leaves: Any) -> list[Any]:
        out, store.tree = flat_values(on_copies(what, runs(f), call.merged(leaves)))
        return out

    what = f"{call.target.kind} function {call.name}"
    given = Given(call.leaves)
    jaxpr, consts = trace_function(flat, call.avals, name=what, staging=True, errstate="refused", given=given)
    refuse_tracers(what, [f], consts)
    return jaxpr, consts, store.tree


def apply_jvp(
    rule: CustomRule, in_avals: Sequence[Any], out_avals: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list, list]:
    """Outputs and tangents by a jvp rule, which takes a tangent for every differentiable leaf."""
    ts = [zeros_for(p) if t is None else t for p, t, a in zip(primals, tangents, in_avals) if is_inexact(a)]
    results = rule(*primals, *ts)
    n = len(out_avals)
    found = iter(results[n:])
    return results[:n], [next(found) if is_inexact(a) else None for a in out_avals]


def batch_body(jaxpr: Jaxpr, size: int, batched: Sequence[bool]) -> tuple[Jaxpr, list[Any]]:
    """The function's program for `size` examples; every output is batched, as the rules' outputs are."""
    force = (True,) * len(jaxpr.outputs)
    derived, consts, _ = batch_rules.batch_jaxpr(jaxpr, size, tuple(batched), force)
    return derived, consts


def batched_jvp_rule(rule: CustomRule, size: int, batched: Sequence[bool], in_avals: Sequence[Any]) -> CustomRule:
    """The rule's program, batched as the primals are; a tangent is batched if its primal is."""
    flags = [*batched, *[b for b, a in zip(batched, in_avals) if is_inexact(a)]]

    def derive() -> tuple[Jaxpr, list, list[bool]]:
        jaxpr, consts, present = rule.program()
        mapped = (*[False] * len(consts), *flags)
        force = (True,) * len(jaxpr.outputs)
        derived, more, _ = batch_rules.batch_jaxpr(jaxpr, size, mapped, force)
        return derived, [*more, *consts], present

    return CustomRule(rule.what, derive=derive)


def _jvp(
    primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rule: CustomRule, n_consts: int
) -> tuple[list, list]:
    in_avals = jaxpr.in_avals[n_consts:]
    return apply_jvp(rule, in_avals, jaxpr.out_avals, primals[n_consts:], tangents[n_consts:])


def _batch(
    size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, rule: CustomRule, n_consts: int
) -> tuple[list, list]:
    derived, consts = batch_body(jaxpr, size, batched)
    new_rule = batched_jvp_rule(rule, size, batched[n_consts:], jaxpr.in_avals[n_consts:])
    outs = custom_jvp_call_p(*consts, *args, jaxpr=derived, rule=new_rule, n_consts=len(consts) + n_consts)
    return outs, [True] * len(outs)


custom_jvp_call_p = Primitive(
    "custom_jvp_call",
    lambda xp, *args, jaxpr, rule, n_consts: engines.run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, rule, n_consts: jaxpr.out_avals,
    primal_and_jvp=_jvp,
    batch=_batch,
    multiple=True,
    may_share=True,
)


# ---------------------------------------------------------------- the call on values


def jvp_on_values(call: CustomCall, user_rule: Any, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list, Any]:
    """The user's rule, run on the values of a following trace: (outputs, tangents, output structure)."""
    ts = call.tangents(primals, tangents)
    n = len(primals)
    with np.errstate(all="ignore"):
        outs, touts, out_tree = on_values(
            f"the jvp rule of {call.name}",
            state.axis_env,
            lambda *xs: call.run_jvp(user_rule, xs[:n], xs[n:]),
            [*primals, *ts],
        )
    outs, touts = plain_values(outs), plain_values(touts)
    refuse_outside(f"jvp rule of {call.name}", [user_rule], [*primals, *ts], [*outs, *touts])
    return outs, touts, out_tree


def _follow(
    primals: Sequence[Any], tangents: Sequence[Any], *, call: CustomCall, rule: Any, store: OutTree
) -> tuple[list, list]:
    with all_users(tangents):
        outs, touts, store.tree = jvp_on_values(call, rule, primals, tangents)
    also_users(tangents, outs)
    return outs, touts


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a following call is never recorded in a program")


_following_p = Primitive("custom_jvp", _never, _never, primal_and_jvp=_follow, multiple=True)


def jvp_rule(call: CustomCall, user_rule: Any) -> CustomRule:
    """The user's rule as flat values: (leaves, tangents of the differentiable ones) -> (outputs, their tangents)."""
    n = len(call.avals)

    def flat(*values: Any) -> list[Any]:
        outs, touts, _ = call.run_jvp(user_rule, values[:n], values[n:])
        kept = [zeros_for(o) if t is None else t for o, t in zip(outs, touts)]
        return [*outs, *[t for t in kept if getattr(t, "dtype", None) != float0]]

    return CustomRule(f"jvp rule of {call.name}", flat, [*call.avals, *call.strong_avals()], [user_rule])


def call_plainly(target: Target, args: tuple, kwargs: dict) -> Any:
    """No argument is traced: call the function, but do not let a closed-over tracer pass."""
    out = runs(target.f)(*args, **kwargs)
    if type(out) is not np.ndarray and Tracer in map(type, leaves := tree.leaves(out)):
        refuse_outside(f"{target.kind} function {name_of(target.f)}", [target.f], (), leaves)
    return unaliased(out, (*args, *kwargs.values()), target.f)


class custom_jvp(Remade):
    """A function with a derivative rule of your own for forward mode, from which reverse mode follows.

    Parameters
    ----------
    fun : callable
        The function.
    nondiff_argnums, nondiff_argnames : int, str or sequence of them
        Arguments that are ordinary Python values. The rule gets them first, one by one.

    Returns
    -------
    callable
        It takes the arguments of fun. `.defjvp(rule)` gives it its rule (also as a decorator): `rule(primals,
        tangents)` takes two tuples with one entry for each argument, and returns `(output, output_tangent)`. `.defjvps`
        takes for each argument a rule `(tangent, output, *primals) -> tangent`, or None.

    Raises
    ------
    TypeError
        A derivative is asked for before there is a rule.
    TangentMismatchError
        The rule returns another structure, shape or dtype; the message names the path.
    CustomRuleClosureError
        The function or the rule closes over a traced value: pass it as an argument.

    Notes
    -----
    The rule must be linear in the tangents. `None` as a tangent means zero; integers have float0 tangents. Outside
    `jit` and `vmap` the rule runs on values, inside it is traced. As `jax.custom_jvp`, without `symbolic_zeros`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> @funcad.custom_jvp
    ... def f(x):
    ...     return np.sin(x)
    >>> @f.defjvp
    ... def _(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> float(funcad.grad(f)(0.0))
    10.0
    >>> product = funcad.custom_jvp(lambda x, y: x * y)
    >>> product.defjvps(lambda t, out, x, y: t * y, None)  # as if y were constant
    >>> float(funcad.grad(product)(2.0, 3.0)), float(funcad.grad(lambda x: product(x, x))(3.0))
    (3.0, 3.0)

    See also
    --------
    custom_vjp, custom_gradient, stop_gradient
    """

    shown = ("defjvp", "defjvps")
    defined = ("_rule",)

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()):
        dress_as(self, fun)
        self._target = Target(fun, "custom_jvp", nondiff_argnums, nondiff_argnames)
        self._rule: Any = None

    def __repr__(self) -> str:
        return f"<custom_jvp of {name_of(self._target.f)}>"

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        options = {"nondiff_argnums": self._target.nums, "nondiff_argnames": self._target.names}
        return self._target.f, functools.partial(with_rules, type(self), options, [self._rule])

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set the rule `(*nondiff, primals, tangents) -> (output, output_tangent)`."""
        refuse_symbolic_zeros(symbolic_zeros)
        self._rule = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule `(tangent, output, *primals) -> output_tangent` per argument; None: the derivative is zero."""
        if self._target.nums or self._target.names:
            raise TypeError("defjvps cannot be combined with nondiff_argnums; use defjvp")
        self._rule = _sum_of(self, jvps)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        target = self._target
        if self._rule is None:
            raise TypeError(
                f"custom_jvp function {name_of(target.f)} has no rule yet.\n"
                f"Remedy: give it one with {name_of(target.f)}.defjvp(rule) or .defjvps(...); docs/custom_rules has examples."
            )
        return _call(target, self._rule, args, kwargs)


@api
def _call(target: Target, rule: Any, args: tuple, kwargs: dict) -> Any:
    if recorder(tree.leaves((args, kwargs) if kwargs else args)) is None:
        return call_plainly(target, args, kwargs)
    call = CustomCall(target, target.positional(args, kwargs))
    leaves = call.leaves
    trace = recorder(leaves)
    if trace is None:  # only arrays that may be written had a trace: behind them are values
        return call_plainly(target, tuple(call.merged(leaves)), {})
    if is_following(trace):
        store = OutTree()
        outs = trace.record(_following_p, leaves, {"call": call, "rule": rule, "store": store})
        call.detach()
        return store.tree.unflatten(outs)
    jaxpr, consts, out_tree = traced_body(call)
    call.detach()
    outs = custom_jvp_call_p(*consts, *leaves, jaxpr=jaxpr, rule=jvp_rule(call, rule), n_consts=len(consts))
    return out_tree.unflatten(outs)




def refuse_symbolic_zeros(symbolic_zeros: bool) -> None:
    if symbolic_zeros:
        raise NotImplementedError(
            "symbolic_zeros=True is not supported: rules receive instantiated zeros, and may return None for a zero tangent "
            "or cotangent.\nRemedy: leave the option out."
        )


def _sum_of(f: custom_jvp, rules: Sequence[Any]) -> Callable[..., Any]:
    def rule(primals: tuple, tangents: tuple) -> tuple[Any, Any]:
        if len(rules) != len(primals):
            raise TypeError(f"defjvps of {name_of(f)}: {len(rules)} rule(s) for {len(primals)} argument(s)")
        out = runs(f)(*primals)
        total = None
        for one, t in zip(rules, tangents):
            if one is not None and getattr(t, "dtype", None) != float0:
                term = one(t, out, *primals)
                total = term if total is None else tree.map(add, total, term)
        return out, tree.map(zeros_for, out) if total is None else total

    return rule
