"""`custom_vjp`: a function with the user's own reverse rule; forward mode is its transpose.

Idea: linearizing such a function runs `fwd` and leaves ONE linear equation, `custom_linear[residuals](tangents)`, whose
transpose is `bwd` (custom_linear.py); forward mode is the jvp rule, or else the transpose of `bwd`. So a function
with only a vjp rule still has forward mode and a Hessian, and with both rules forward mode uses one and reverse mode the
other. Outside jit and vmap `fwd` and `bwd` run on values (Python `if` works); elsewhere they are traced once.

Traps: residuals are any pytree; its arrays become operands, the rest (strings, Python numbers, functions) stays static. A
tangent that is zero arrives as known zeros in a linear position: its cotangent is dropped.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from funcad import tree
from funcad.configuration import OnDemand
from funcad.control.call import scatter
from funcad.control.rules import CustomCall, CustomRule, Target, is_following, on_values, recorder, refuse_outside, user_code
from funcad.custom.call_rows import CallRow, also_users, is_plain, tape_of, write_row
from funcad.custom.custom_linear import CustomLinear, custom_linear, transposed
from funcad.errors import TreeMismatchError
from funcad.host.where import state
from funcad.ir.aval import Aval, aval_of, is_inexact, said
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive, is_linear, not_linear
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.primitives.shape import zeros
from funcad.tree import LEAF

from funcad.api.border import (  # isort: skip
    OutTree, Remade, api, check_leaves, check_tangents, dress_as, flat_values, float0, name_of, runs, runs_rule, with_rules,
    zeros_for,
)  # fmt: skip
from funcad.custom.custom_jvp import (  # isort: skip
    apply_jvp, batch_body, batched_jvp_rule, call_plainly, jvp_on_values, jvp_rule, refuse_symbolic_zeros, traced_body,
)  # fmt: skip

batch_rules = OnDemand("funcad.transforms.batch")
engines = OnDemand("funcad.backends.engines")
host = OnDemand("funcad.primitives.host")

# ---------------------------------------------------------------- the linear equation of a call


def _linear_of(call: CustomCall, info: _Forward, residuals: Sequence[Any], bwd: Any, jvp: Any, eager: bool) -> CustomLinear:
    """The linear equation's knowledge, for residuals of these avals."""
    n = len(residuals)
    residual_avals = [aval_of(r) for r in residuals]
    ct_avals = [Aval(a.shape, a.dtype) for a in info.out_avals if is_inexact(a)]
    pull = CustomRule(f"bwd of {call.name}", _bwd_flat(call, info, n, bwd), [*residual_avals, *ct_avals], [bwd], eager=eager)
    n_leaves = len(call.avals)
    if jvp is None:
        push = CustomRule(
            f"forward mode of {call.name} by its bwd",
            lambda *values: transposed(pull, values[:n], ct_avals, values[n:]),
            [*residual_avals, *call.strong_avals()],
            [bwd],
            eager=eager,
        )
        return CustomLinear(pull, push, n, n, ct_avals)
    forward = jvp_rule(call, jvp)
    forward.eager = eager
    push = CustomRule(
        forward.what,
        lambda *values: forward(*values[n:])[len(info.out_avals) :],
        [*residual_avals, *call.avals, *call.strong_avals()],
        [jvp],
        eager=eager,
    )
    return CustomLinear(pull, push, n, n + n_leaves, ct_avals)


# ---------------------------------------------------------------- fwd and bwd as flat functions


class _Forward:
    """What is known after fwd has run: structures, static residuals, avals of the outputs."""

    __slots__ = ("out_tree", "out_avals", "residual_tree", "template")

    def __init__(self) -> None:
        self.out_tree = self.residual_tree = None
        self.out_avals: list[Any] = []
        self.template: list[Any] = []


_ARRAY: Any = object()  # stands in a template for an array, which is an operand


def _is_array(x: Any) -> bool:
    return type(x) is Tracer or hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)


def _run_fwd(call: CustomCall, fwd: Any, leaves: Sequence[Any], info: _Forward) -> tuple[list[Any], list[Any]]:
    """The user's fwd: (outputs, residual arrays)."""
    result = runs_rule(fwd)(*call.merged(leaves))
    if not (isinstance(result, (tuple, list)) and len(result) == 2):
        raise TypeError(
            f"fwd of {call.name} must return a pair (output, residuals); it returned {said(result)}.\n"
            "Remedy: return f(x), residuals; residuals may be any pytree, or None."
        )
    outs, info.out_tree = flat_values(result[0])
    check_leaves(outs, f"fwd of {call.name}: output", result[0])
    info.out_avals = list(map(aval_of, outs))
    residuals, info.residual_tree = flat_values(result[1])
    info.template = [_ARRAY if type(r) is np.ndarray or _is_array(r) else r for r in residuals]
    return outs, [r for r, t in zip(residuals, info.template) if t is _ARRAY]


def _one_each(n: int) -> str:
    """How a tuple of n cotangents is written."""
    return "(ct,)" if n == 1 else "(" + ", ".join([f"ct{i}" for i in range(n)]) + ")"


class _Shown:
    """A stand-in for a value in messages about cotangents: its aval."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


def _bwd_flat(call: CustomCall, info: _Forward, n_residuals: int, bwd: Any) -> Callable[..., list[Any]]:
    """`(residual arrays, cotangents of differentiable outputs) -> cotangents of differentiable leaves, or None`."""
    structure = call.in_tree
    avals, inexact = call.avals, call.inexact
    name = call.name

    def flat(*values: Any) -> list[Any]:
        arrays, cts = iter(values[:n_residuals]), iter(values[n_residuals:])
        residuals = info.residual_tree.unflatten([next(arrays) if t is _ARRAY else t for t in info.template])  # type: ignore[union-attr]
        full = [next(cts) if is_inexact(a) else np.zeros(a.shape, float0) for a in info.out_avals]
        static = call.static if call.nondiff else ()
        result = runs_rule(bwd)(*static, residuals, info.out_tree.unflatten(full))  # type: ignore[union-attr]
        children = structure.children()
        if not isinstance(result, (tuple, list)) or len(result) != len(children):
            raise TypeError(
                f"bwd of {name} must return a tuple with one cotangent (or None) per differentiable argument, here "
                f"{len(children)}; it returned {said(result)}.\n"
                f"Remedy: return {_one_each(len(children))}, in the order of the arguments."
            )
        parts: list[tuple[str, Any]] = []
        for i, (child, part) in enumerate(zip(children, result)):
            if child is LEAF and type(part) is np.ndarray:
                parts.append((f"[{i}]", part))
            else:
                _spread(child, part, f"[{i}]", parts)
        return _checked_cotangents(name, avals, inexact, parts)

    return flat


def _spread(structure: Any, given: Any, path: str, parts: list[tuple[str, Any]]) -> None:
    """(path, cotangent) per leaf of an argument; None stands for a whole part of it."""
    if given is None:
        parts += [(path, None)] * structure.num_leaves
        return
    if structure.is_array:
        leaves, found = tree.flatten(given)
        if found.is_array:
            parts.append((path, leaves[0]))
            return
    example = structure.unflatten(range(structure.num_leaves))
    inner, own = (tree.flatten(v, is_leaf=lambda x, root=v: x is not root) for v in (given, example))
    if inner[1] != own[1]:
        difference = tree.describe_difference(inner[1], own[1], f"cotangent{path}", f"argument{path}")
        raise TreeMismatchError(f"bwd must return cotangents with the structure of the arguments: {difference}")
    for keys, child, part in zip(own[1].paths(), structure.children(), inner[0]):
        _spread(child, part, path + tree.keystr(keys), parts)


def _checked_cotangents(
    name: str,
    avals: Sequence[Any],
    inexact: Sequence[bool],
    parts: Sequence[Any],
) -> list[Any]:
    result = []
    for aval, differentiable, (path, ct) in zip(avals, inexact, parts):
        fits = type(ct) is np.ndarray and ct.dtype is aval.dtype and ct.shape == aval.shape and state.abstract is None
        if ct is not None and not (fits and differentiable):
            what = f"bwd of {name}"
            _, (ct,), _ = check_tangents(_Shown(aval), ct, what, f"argument{path}", f"cotangent{path}")
        if differentiable:
            result.append(ct)
    return result


# ---------------------------------------------------------------- the recorded call


class _Vjp:
    """The rules of a recorded call: `fwd() -> (program, consts, linear)`, made when needed, and the jvp rule or None."""

    __slots__ = ("name", "make", "jvp", "_made")

    def __init__(self, name: str, make: Callable[[], tuple[CustomRule, Callable[[], CustomLinear]]], jvp: CustomRule | None):
        self.name = name
        self.make = make
        self.jvp = jvp
        self._made: Any = None

    def __repr__(self) -> str:
        return f"vjp rules of {self.name}"

    def forward(self) -> tuple[CustomRule, CustomLinear]:
        if self._made is None:
            self._made = self.make()
        return self._made


def _rules_of(
    call: CustomCall,
    fwd: Any,
    bwd: Any,
    jvp: Any,
) -> _Vjp:
    info = _Forward()
    n_out = 0

    def flat(*leaves: Any) -> list[Any]:
        nonlocal n_out
        outs, residuals = _run_fwd(call, fwd, leaves, info)
        n_out = len(outs)
        return [*outs, *residuals]

    forward = CustomRule(f"fwd of {call.name}", flat, call.avals, [fwd])
    env = state.axis_env  # the axes of the call: by the time the rules are needed a vmap may have been taken out

    def make() -> tuple[CustomRule, CustomLinear]:
        with user_code(env):
            jaxpr, _, _ = forward.program()
            residuals = [_Shown(a) for a in jaxpr.out_avals[n_out:]]
            linear = _linear_of(call, info, residuals, bwd, jvp, eager=False)
            linear.names = jaxpr.axis_names
        return forward, linear

    return _Vjp(call.name, make, jvp_rule(call, jvp) if jvp is not None else None)


def _batched_rules(rules: _Vjp, size: int, batched: Sequence[bool], in_avals: Sequence[Any], n_out: int) -> _Vjp:
    tangent_flags = [b for b, a in zip(batched, in_avals) if is_inexact(a)]
    env, batching = state.axis_env, state.batching

    def make() -> tuple[CustomRule, CustomLinear]:
        with user_code(env, batching):
            forward, linear = rules.forward()
            jaxpr, consts, present = forward.program()
            force = (*[True] * n_out, *[False] * (len(jaxpr.outputs) - n_out))
            mapped = (*[False] * len(consts), *batched)
            derived, more, flags = batch_rules.batch_jaxpr(jaxpr, size, mapped, force)
            new_forward = CustomRule(forward.what, derive=lambda: (derived, [*more, *consts], present))
            primal_flags = batched if linear.n_known > linear.n_residuals else ()
            return new_forward, linear.batched(size, [*flags[n_out:], *primal_flags, *tangent_flags])

    jvp = batched_jvp_rule(rules.jvp, size, batched, in_avals) if rules.jvp is not None else None
    return _Vjp(rules.name, make, jvp)


def _call_rule(linear_mode: bool) -> Callable[..., tuple[list, list]]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, rules: _Vjp, n_consts: int) -> tuple[list, list]:
        leaves, ts = primals[n_consts:], tangents[n_consts:]
        in_avals, out_avals = jaxpr.in_avals[n_consts:], jaxpr.out_avals
        if rules.jvp is not None and not linear_mode:
            return apply_jvp(rules.jvp, in_avals, out_avals, leaves, ts)
        forward, linear = rules.forward()
        results = forward(*leaves)
        outs, residuals = results[: len(out_avals)], results[len(out_avals) :]
        differentiable = [is_inexact(a) for a in in_avals]
        return outs, _linear_tangents(linear, residuals, leaves, ts, differentiable, linear_mode, out_avals)

    return rule


def _linear_tangents(
    linear: CustomLinear,
    residuals: Sequence[Any],
    leaves: Sequence[Any],
    tangents: Sequence[Any],
    differentiable: Sequence[bool],
    record: bool,
    out_avals: Sequence[Any],
) -> list[Any]:
    """Tangents of all outputs, by the recorded linear equation or by its value."""
    ts = [zeros_for(p) if t is None else t for p, t, d in zip(leaves, tangents, differentiable) if d]
    known = [*residuals, *leaves] if linear.n_known > linear.n_residuals else residuals
    if not linear.out_avals:
        return [None] * len(out_avals)
    touts = iter(custom_linear(linear, *known, *ts) if record else linear.push(*known, *ts))
    return [next(touts) if is_inexact(a) else None for a in out_avals]


def _batch(
    size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, rules: _Vjp, n_consts: int
) -> tuple[list, list]:
    derived, consts = batch_body(jaxpr, size, batched)
    new_rules = _batched_rules(rules, size, batched[n_consts:], jaxpr.in_avals[n_consts:], len(jaxpr.outputs))
    outs = custom_vjp_call_p(*consts, *args, jaxpr=derived, rules=new_rules, n_consts=len(consts) + n_consts)
    return outs, [True] * len(outs)


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, rules: _Vjp, n_consts: int) -> list[Any]:
    """Of a call that is linear in these operands, as the tangent of an integral: by its derivative, the same everywhere.

    Nobody sees what a callback does; whose rule calls it on tangents says that it is linear.
    """
    linear_ones = [is_linear(x) for x in inputs]
    seen = [e.primitive for e in jaxpr.equations if e.primitive is not host.pure_callback_p]
    if any([p.transpose is None for p in seen]) or any(linear_ones[:n_consts]):
        raise not_linear(rules.name)
    leaves = [zeros(x.aval) if lin else x for x, lin in zip(inputs, linear_ones)][n_consts:]
    forward, linear = rules.forward()
    residuals = forward(*leaves)[len(jaxpr.outputs) :]
    known = [*residuals, *leaves] if linear.n_known > linear.n_residuals else residuals
    moved = [is_inexact(a) for a in jaxpr.in_avals]
    ts = [x for x, m in zip(inputs[n_consts:], moved[n_consts:]) if m]
    given = [ct for ct, a in zip(cts, jaxpr.out_avals) if is_inexact(a)]
    found = linear.transpose(given, known, ts)
    return [None] * n_consts + scatter(found, moved[n_consts:])


custom_vjp_call_p = Primitive(
    "custom_vjp_call",
    lambda xp, *args, jaxpr, rules, n_consts: engines.run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, rules, n_consts: jaxpr.out_avals,
    primal_and_jvp=_call_rule(False),
    linearize=_call_rule(True),
    transpose=_transpose,
    batch=_batch,
    multiple=True,
    may_share=True,
)


# ---------------------------------------------------------------- the call on values


def _ran(call: CustomCall, fwd: Any, primals: Sequence[Any]) -> tuple[_Forward, list[Any], list[Any]]:
    info = _Forward()
    return info, *on_values(f"fwd of {call.name}", state.axis_env, lambda *xs: _run_fwd(call, fwd, xs, info), primals)


def _row(tape: Any, call: CustomCall, fwd: Any, bwd: Any) -> tuple[Any, Any]:
    """(the traced result of a call, or None, what fwd gave): one that is no float is for the general way."""
    values = call.leaves
    primals = [x.primal if type(x) is Tracer else x for x in values]
    ran = info, outs, residuals = _ran(call, fwd, primals)
    if len(outs) != 1 or not all(map(is_plain, (*outs, *residuals))):
        return None, ran
    pull = CustomRule(f"bwd of {call.name}", _bwd_flat(call, info, len(residuals), bwd), users=[bwd], eager=True)
    places = [i for i, x in enumerate(values) if type(x) is Tracer]

    def push(kept: Sequence[Any], ts: Sequence[Any]) -> Any:
        tangents: list[Any] = [None] * len(primals)
        for i, t in zip(places, ts):
            tangents[i] = t
        given = [zeros(a) if t is None else t for t, a in zip(tangents, call.avals)]
        return custom_linear(_linear_of(call, info, kept, bwd, None, eager=True), *kept, *given)[0]

    given = {id(p): x for p, x in zip(primals, values)}
    kept = [(r, given.get(id(r if getattr(r, "base", None) is None else r.base))) for r in residuals]  # they were lent
    operation = following_p, tuple(values), {}, None, None
    return write_row(tape, CallRow(pull, push, places), operation, outs[0], values, kept), ran


def _follow(linear_mode: bool) -> Callable[..., tuple[list, list]]:
    def rule(
        primals: Sequence[Any], tangents: Sequence[Any], *, call: CustomCall, rules: tuple, store: OutTree, ran: Any
    ) -> tuple[list, list]:
        fwd, bwd, jvp = rules
        if fwd is None or (jvp is not None and not linear_mode):
            outs, touts, store.tree = jvp_on_values(call, jvp, primals, tangents)
            return outs, touts
        info, outs, residuals = ran or _ran(call, fwd, primals)
        refuse_outside(f"fwd of {call.name}", [fwd], primals, [*outs, *residuals])
        store.tree = info.out_tree
        also_users(tangents, [*outs, *residuals])
        linear = _linear_of(call, info, residuals, bwd, jvp, eager=True)
        return outs, _linear_tangents(linear, residuals, primals, tangents, call.inexact, linear_mode, info.out_avals)

    return rule


def _never(*args: Any, **params: Any) -> Any:
    raise AssertionError("a following call is never recorded in a program")


following_p = Primitive("custom_vjp", _never, _never, primal_and_jvp=_follow(False), linearize=_follow(True), multiple=True)


class custom_vjp(Remade):
    """A function with a derivative rule of your own for reverse mode.

    Parameters
    ----------
    fun : callable
        The function.
    nondiff_argnums, nondiff_argnames : int, str or sequence of them
        Arguments that are ordinary Python values. `bwd` gets them first.

    Returns
    -------
    callable
        It takes the arguments of fun. `.defvjp(fwd, bwd)` gives it its rule: `fwd(*args)` returns `(output,
        residuals)`, and `bwd(residuals, cotangent)` returns a tuple with one cotangent for each argument, or None for
        zero. `.defjvp(rule)` may be given as well, for forward mode.

    Raises
    ------
    TypeError
        It is differentiated before there is a rule.
    TangentMismatchError
        A rule returns another structure, shape or dtype; the message names the path.
    CustomRuleClosureError
        A rule closes over a traced value: pass it as an argument.

    Notes
    -----
    Without `.defjvp`, forward mode is the transpose of bwd, so `jvp` and `hessian` work (JAX refuses). Residuals are
    any container. Outside `jit` and `vmap` fwd and bwd run on values, so Python's `if` works in them; inside they are
    traced. Otherwise as `jax.custom_vjp`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> @funcad.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))
    >>> float(funcad.grad(lambda x: 5.0 * clip_gradient(x))(2.0))
    1.0
    >>> power = funcad.custom_vjp(lambda x, n: x**n, nondiff_argnums=(1,))
    >>> power.defvjp(lambda x, n: (x**n, x), lambda n, x, ct: (ct * n * x ** (n - 1),))
    >>> float(funcad.grad(power)(2.0, 3))
    12.0

    See also
    --------
    custom_jvp, custom_gradient, vjp
    """

    shown = ("defjvp", "defvjp")
    defined = ("_fwd", "_bwd", "_jvp")

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Any = (), nondiff_argnames: Any = ()):
        dress_as(self, fun)
        self._target = Target(fun, "custom_vjp", nondiff_argnums, nondiff_argnames)
        self._fwd: Any = None
        self._bwd: Any = None
        self._jvp: Any = None

    def __repr__(self) -> str:
        return f"<custom_vjp of {name_of(self._target.f)}>"

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        options = {"nondiff_argnums": self._target.nums, "nondiff_argnames": self._target.names}
        rules = [self._fwd, self._bwd, self._jvp]
        return self._target.f, functools.partial(with_rules, type(self), options, rules)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def defvjp(
        self, fwd: Callable[..., Any], bwd: Callable[..., Any], symbolic_zeros: bool = False, optimize_remat: bool = False
    ) -> None:
        """Set the reverse rule: `fwd(*args)` and `bwd(*nondiff, residuals, cotangent)`."""
        refuse_symbolic_zeros(symbolic_zeros)
        if optimize_remat:
            raise NotImplementedError("optimize_remat=True is not supported; leave the option out: it changes no result")
        self._fwd, self._bwd = fwd, bwd

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Set a forward rule as well, `(*nondiff, primals, tangents) -> (output, output_tangent)`."""
        refuse_symbolic_zeros(symbolic_zeros)
        self._jvp = jvp
        return jvp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._fwd is None:
            raise TypeError(
                f"custom_vjp function {name_of(self._target.f)} has no reverse rule yet.\n"
                f"Remedy: give it one with {name_of(self._target.f)}.defvjp(fwd, bwd); docs/custom_rules has examples."
            )
        return _call(self._target, (self._fwd, self._bwd, self._jvp), args, kwargs)


@api
def _call(target: Target, rules: tuple, args: tuple, kwargs: dict) -> Any:
    if (kwargs or Tracer not in map(type, args)) and recorder(tree.flatten((args, kwargs) if kwargs else args)[0]) is None:
        return call_plainly(target, args, kwargs)
    call = CustomCall(target, target.positional(args, kwargs))
    leaves = call.leaves
    trace = recorder(leaves)
    if trace is None:  # only arrays that may be written had a trace: behind them are values
        return call_plainly(target, tuple(call.merged(leaves)), {})
    if is_following(trace):
        store, ran = OutTree(), None
        tape = tape_of(leaves) if rules[2] is None else None
        if tape is not None:
            out, ran = _row(tape, call, *rules[:2])
            if out is not None:
                call.detach()
                return ran[0].out_tree.unflatten([out])
        outs = trace.record(following_p, leaves, {"call": call, "rules": rules, "store": store, "ran": ran})
        call.detach()
        return store.tree.unflatten(outs)
    jaxpr, consts, out_tree = traced_body(call)
    call.detach()
    outs = custom_vjp_call_p(*consts, *leaves, jaxpr=jaxpr, rules=_rules_of(call, *rules), n_consts=len(consts))
    return out_tree.unflatten(outs)


# -- `custom_gradient`: a function that returns its output together with its own pullback
#
# Idea: what the pullback closes over are the residuals. Where that is all it may read, arrays and values that never change, it
# runs when cotangents come, with cells of its own, in which the residuals are. Any other is traced at once, for what it reads
# (a list, a global, a loop's variable in another function) may be something else by then.


class _TracedPullback:
    """The pullback as a program, a static residual; what it captured are the others."""

    __slots__ = ("jaxpr", "in_tree")

    def __init__(self, jaxpr: Jaxpr, in_tree: Any):
        self.jaxpr = jaxpr
        self.in_tree = in_tree

    def __call__(self, consts: Sequence[Any], ct: Any) -> Any:
        return self.in_tree.unflatten(eval_jaxpr(self.jaxpr, [*consts, *tree.leaves(ct)]))


class _HeldPullback:
    """The pullback as it is, a static residual; the arrays in its cells are the others."""

    __slots__ = ("function", "cells")

    def __init__(self, function: FunctionType, cells: Sequence[Any]):
        self.function = function
        self.cells = cells  # what they hold, `_ARRAY` for an array

    def __call__(self, arrays: Sequence[Any], ct: Any) -> Any:
        f, given = self.function, iter(arrays)
        cells = tuple([CellType(next(given) if x is _ARRAY else x) for x in self.cells])
        return runs_rule(FunctionType(f.__code__, f.__globals__, f.__name__, None, cells))(ct)


# types whose values never change
_LASTING = frozenset([int, float, complex, bool, str, type(None), np.float64, np.float32, object])
_ASSIGNS = frozenset(map(dis.opmap.__getitem__, ["STORE_DEREF", "DELETE_DEREF", "STORE_GLOBAL", "DELETE_GLOBAL"]))
_FOREIGN = ModuleType, BuiltinFunctionType, FunctionType, np.ufunc, type(np.where)


def _lasts(f: Any, depth: int = 3) -> bool:
    """Does a function of Python's read its arguments, its cells and functions like itself, or NumPy's, alone?"""
    code = f.__code__
    if f.__defaults__ or f.__kwdefaults__ or CodeType in map(type, code.co_consts):
        return False
    if not _ASSIGNS.isdisjoint(code.co_code[::2]):
        return False
    for name in code.co_names:
        x = f.__globals__.get(name, np)
        home = getattr(x, "__name__" if isinstance(x, ModuleType) else "__module__", None)
        if isinstance(x, _FOREIGN) and str(home).partition(".")[0] in ("numpy", "math"):
            continue
        if type(x) is not FunctionType or x.__closure__ or not depth or not _lasts(x, depth - 1):
            return False
    return True


def _held(pullback: Any) -> tuple[list[Any], _HeldPullback] | None:
    """What its cells hold, arrays apart; None if it may read something else."""
    if type(pullback) is not FunctionType or not _lasts(pullback):
        return None
    try:
        values = [cell.cell_contents for cell in pullback.__closure__ or ()]
    except ValueError:  # a variable that is not assigned yet
        return None
    arrays, cells = [], []
    for x in values:
        if type(x) is np.ndarray or type(x) is Tracer:
            arrays.append(x)
            x = _ARRAY
        if not _LASTING.issuperset(map(type, x if type(x) is tuple else (x,))):
            return None
        cells.append(x)
    return arrays, _HeldPullback(pullback, cells)


class _OwnPullback(custom_vjp):
    """What `custom_gradient` returns: rules that are made of the function itself."""

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._target.f.__wrapped__, custom_gradient


@api
def custom_gradient(fun: Callable[..., Any]) -> custom_vjp:
    """A function that computes its output and its own pullback.

    Parameters
    ----------
    fun : callable
        `fun(*args)` returns `(output, pullback)`, where `pullback(ct)` returns a tuple with one cotangent for each
        argument, or the cotangent itself if there is one argument.

    Returns
    -------
    callable
        It takes the arguments of fun and returns the output.

    Raises
    ------
    TypeError
        fun does not return such a pair, or the pullback another number of cotangents.

    Notes
    -----
    The pullback runs when a cotangent comes, if arrays and numbers that it closes over are all that it may read; else it is
    traced before, with an abstract cotangent. Forward mode works, too. As `jax.custom_gradient` and `tf.custom_gradient`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> square = funcad.custom_gradient(lambda x: (x * x, lambda ct: 3.0 * ct * x))
    >>> float(funcad.grad(square)(2.0))
    6.0

    See also
    --------
    custom_vjp, custom_jvp
    """

    @functools.wraps(fun)
    def value(*args: Any) -> Any:
        return runs(fun)(*args)[0]

    def fwd(*args: Any) -> tuple[Any, Any]:
        found = runs_rule(fun)(*args)
        if not (isinstance(found, (tuple, list)) and len(found) == 2):
            raise TypeError(f"custom_gradient: {name_of(fun)} must return a pair (output, pullback), not {said(found)}.")
        out, pullback = found
        held = _held(pullback)
        if held is not None:
            return out, (*held, len(args))
        outs, out_tree = flat_values(out)
        store = OutTree()

        def flat(*cts: Any) -> list[Any]:
            leaves, store.tree = flat_values(runs_rule(pullback)(out_tree.unflatten(cts)))
            return leaves

        avals = [Aval(aval_of(o).shape, aval_of(o).dtype) for o in outs]
        jaxpr, consts = trace_function(flat, avals, name=f"pullback of {name_of(fun)}")
        return out, (consts, _TracedPullback(jaxpr, store.tree), len(args))

    def bwd(residuals: tuple, ct: Any) -> tuple:
        arrays, pullback, n = residuals
        result = pullback(arrays, ct)
        if n == 1 and not (isinstance(result, tuple) and len(result) == 1):
            return (result,)
        return tuple(result)

    wrapped = _OwnPullback(value)
    wrapped.defvjp(fwd, bwd)
    return wrapped
