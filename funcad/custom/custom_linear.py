"""`custom_linear`: the one linear equation that a function with a custom reverse rule leaves behind.

Idea: it has all rules. Its transpose is the user's `bwd`; its value is the tangent by the user's jvp rule if there is one, else
by the transpose of `bwd`, which is linear in the cotangent; its batch is the batch of `bwd`, with the cotangents of unbatched
arguments summed. So whatever transforms do with it, the two modes agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.configuration import OnDemand
from funcad.control.rules import CustomRule
from funcad.errors import MissingRuleError
from funcad.host.where import state
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import zeros

batch_rules = OnDemand("funcad.transforms.batch")
mask = OnDemand("funcad.masks.masks")
jvp_rules = OnDemand("funcad.transforms.jvp")
transposing = OnDemand("funcad.transforms.transpose")


class CustomLinear:
    """What `custom_linear` knows: `bwd(residuals, cotangents)` and `push(residuals, primals, tangents)`.

    Operands of the equation: the residuals, the primals if there is a jvp rule (it needs them), the tangents.
    """

    __slots__ = ("bwd", "push", "n_residuals", "n_known", "out_avals", "names")

    def __init__(
        self,
        bwd: CustomRule,
        push: CustomRule,
        n_residuals: int,
        n_known: int,
        out_avals: Sequence[Any],
        names: frozenset = frozenset(),
    ):
        self.bwd = bwd
        self.push = push
        self.n_residuals = n_residuals
        self.n_known = n_known
        self.out_avals = out_avals  # of the differentiable outputs
        self.names = names  # axes that the function's collectives act on; bwd's may too, so vmap must not pass it by

    def __repr__(self) -> str:
        return self.bwd.what

    def batched(self, size: int, flags: Sequence[bool]) -> CustomLinear:
        residual_flags, tangent_flags = list(flags[: self.n_residuals]), flags[self.n_known :]
        bwd, push, n_cotangents = self.bwd, self.push, len(self.out_avals)

        def derive_bwd() -> tuple[Jaxpr, list, list[bool]]:
            jaxpr, consts, present = bwd.program()
            mask = (*[False] * len(consts), *residual_flags, *[True] * n_cotangents)
            derived, more, _ = batch_rules.batch_jaxpr(jaxpr, size, mask, (True,) * len(jaxpr.outputs))
            keep = [b for b, p in zip(tangent_flags, present) if p]

            def summed(*values: Any) -> list[Any]:
                cts = eval_jaxpr(derived, values)
                return [ct if b else reduce_sum(ct, axes=(0,)) for ct, b in zip(cts, keep)]

            total, extra = trace_function(summed, derived.in_avals, name=bwd.what)
            return total, [*extra, *more, *consts], present

        def derive_push() -> tuple[Jaxpr, list, list[bool]]:
            jaxpr, consts, present = push.program()
            mask = (*[False] * len(consts), *flags)
            derived, more, _ = batch_rules.batch_jaxpr(jaxpr, size, mask, (True,) * len(jaxpr.outputs))
            return derived, [*more, *consts], present

        return CustomLinear(
            CustomRule(bwd.what, derive=derive_bwd),
            CustomRule(push.what, derive=derive_push),
            self.n_residuals,
            self.n_known,
            [a.batched(size) for a in self.out_avals],
            self.names - {state.batching},
        )

    def transpose(self, cts: Sequence[Any], known: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        """The cotangents of the linear ones among the tangents."""
        beside = [ct for ct in cts if ct is not None]
        nothing = lambda aval: on_device_of([zeros(aval)], beside)[0]
        full = [nothing(a) if ct is None else ct for ct, a in zip(cts, self.out_avals)]
        found = self.bwd(*known[: self.n_residuals], *full)
        return [ct if is_linear(t) else None for ct, t in zip(found, ts)]

    def tangents(self, values: Sequence[Any]) -> list[Any]:
        """The value of the equation, without None."""
        return [on_device_of([zeros(a)], values)[0] if t is None else t for t, a in zip(self.push(*values), self.out_avals)]


def _linear_jvp(linear_mode: bool) -> Callable[..., tuple[list, list]]:
    def rule(primals: Sequence[Any], tangents: Sequence[Any], *, linear: CustomLinear, axis_name: Any) -> tuple[list, list]:
        jaxpr, consts, present = linear.push.program()
        known = [None] * len(consts)
        outs, touts = jvp_rules.jvp_eval(jaxpr, [*consts, *primals], [*known, *tangents], linear_mode)
        found = iter(zip(outs, touts))
        pairs = [next(found) if p else (zeros(a), None) for p, a in zip(present, linear.out_avals)]
        return [o for o, _ in pairs], [t for _, t in pairs]

    return rule


def _linear_transpose(cts: Sequence[Any], *inputs: Any, linear: CustomLinear, axis_name: Any) -> list[Any]:
    n = linear.n_known
    return [None] * n + linear.transpose(cts, inputs[:n], inputs[n:])


def _linear_masked(
    cts: Sequence[Any], masks: Sequence[Any], wanted: Sequence[int], *inputs: Any, linear: CustomLinear, axis_name: Any
) -> list[tuple[Any, Any]]:
    """Only the mask of a whole value goes on, and none if bwd may call collectives: other processes have a part in it."""
    given = [m for c, m in zip(cts, masks) if c is not None]
    beyond = None if linear.bwd.over_processes else mask.whole_of(given)
    clear = [mask.clean(c, m) for c, m in zip(cts, masks)]
    found = _linear_transpose(clear, *inputs, linear=linear, axis_name=axis_name)
    return [mask.handed_on(x, c, beyond, {x: level} if is_linear(x) else {}) for x, c, level in zip(inputs, found, wanted)]


def _linear_batch(
    size: int, args: Sequence[Any], batched: Sequence[bool], *, linear: CustomLinear, axis_name: Any
) -> tuple[list, list]:
    outs = custom_linear(linear.batched(size, batched), *args)
    return outs, [True] * len(outs)


custom_linear_p = Primitive(
    "custom_linear",
    lambda xp, *args, linear, axis_name: linear.tangents(args),
    lambda *avals, linear, axis_name: linear.out_avals,
    primal_and_jvp=_linear_jvp(False),
    linearize=_linear_jvp(True),
    transpose=_linear_transpose,
    masked=_linear_masked,
    batch=_linear_batch,
    multiple=True,
    may_share=True,
)


def custom_linear(linear: CustomLinear, *args: Any) -> list[Any]:
    """Record or compute the equation."""
    return custom_linear_p(*args, linear=linear, axis_name=tuple(linear.names) or None)


def transposed(bwd: CustomRule, residuals: Sequence[Any], ct_avals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The tangents of the outputs: bwd is linear in the cotangents, and this is its transpose."""
    if bwd.eager:  # the residuals have values: only the cotangents are abstract
        present: list[bool] = []

        def of_cotangents(*cts: Any) -> list[Any]:
            found = bwd(*residuals, *cts)
            present[:] = [c is not None for c in found]
            return [c for c in found if c is not None]

        jaxpr, consts = trace_function(of_cotangents, ct_avals, name=bwd.what)
    else:
        jaxpr, consts, present = bwd.program()
        consts = [*consts, *residuals]
    n = len(consts)
    linear = [False] * n + [True] * len(ct_avals)
    given = [t for t, p in zip(tangents, present) if p]
    try:
        return transposing.transpose_eval(jaxpr, linear, [*consts, *[None] * len(ct_avals)], given)
    except MissingRuleError as error:
        error.add_note(
            f"funcad: {bwd.what} is not linear in the cotangent, but without a jvp rule forward mode is its transpose; "
            "give the function a jvp rule too, with .defjvp"
        )
        raise
