"""Masks in forward mode: the equations of a rule run one by one on tangents and their masks (see masks.py).

Idea: a rule is a linear program in the tangents. `_MaskTrace` is the trace that its tangents belong to, and runs each equation
as it is recorded: the result, and the result's mask by the equation's `reach`. A primitive whose rule begins no mask, met by
tangents without one, needs none of this, and most rules are of that kind; the *level* of a rule says so: what its equations
were when it ran here for the first time on operands of these kinds.

Trap: two tangents that are one object stay one tracer, since rules look (`x * x`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.host.locks import SMALL
from funcad.host.real_types import COMPUTED
from funcad.ir.aval import SCALAR_AVALS, Aval, Params, Value, aval_of, is_inexact, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.trace import Trace, bind, trace_function
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, sub
from funcad.primitives.comparison import and_, not_, or_
from funcad.primitives.loop import is_stack, stack_empty, stack_select
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_to, moves_within, rule_of

from funcad.masks.masks import (  # isort: skip
    CALM, NAN, WHOLE, LazyBools, Mask, Masked, bools_of, clean, constant, either, harmless, has_no_nan, kinds_of,
    mask_of, nonzero, numbers_of, reach_of, whole_of,
)

FREE, FACTORS, OTHER, BEGINS = range(4)  # levels of a rule: pointwise sums; pointwise; others, but no mask begins; masks begin
LEVELS = {"pointwise": FACTORS, "sums": OTHER, "reads": OTHER, None: OTHER}
_TYPED = frozenset([np.ndarray, Tracer])  # the type does not say the dtype
MOST = 100  # levels of one primitive, by kinds of operands


def cleaned(tangent: Any) -> Any:
    """A tangent without its mask."""
    return _clean(tangent.value, tangent.mask) if type(tangent) is Masked else tangent


def _clean(value: Any, mask: Mask | None) -> Any:
    """`clean` of a tangent: a masked element began as a zero, so that no factor has made it anything but a zero or NaN."""
    if mask is None or not mask.dirty or has_no_nan(value):
        return value
    return clean(value, mask)


def apart_of(tangents: Sequence[Any]) -> tuple[tuple, list[Any]]:
    """The kinds of tangents (see `kinds_of`), and all that there is of them: values, then bools."""
    values = [t.value if type(t) is Masked else t for t in tangents]
    kinds, bools = kinds_of(values, [t.mask if type(t) is Masked else None for t in tangents])
    return kinds, [*[v for v in values if v is not None], *bools]


def joined(kinds: Sequence[Any], given: Sequence[Any]) -> list[Any]:
    """The inverse of `apart_of`."""
    found = iter(given)
    values = [None if k is None else next(found) for k in kinds]
    return [Masked(v, mask_of(next(found), k == WHOLE)) if k else v for v, k in zip(values, kinds)]


def whole_mask_of(tangents: Sequence[Any]) -> Mask | None:
    return whole_of([t.mask if type(t) is Masked else None for t in tangents if t is not None])


def with_mask(value: Any, mask: Mask | None) -> Any:
    return value if mask is None or value is None else Masked(value, mask)


def with_whole(value: Any, mask: Mask | None) -> Any:
    """A tangent with the mask of its whole; stacks have masks of their elements only."""
    return clean(value, mask) if mask is not None and value is not None and is_stack(value) else with_mask(value, mask)


class _MaskTrace(Trace):
    """Runs linear equations on tangents and their masks: a tracer's primal is a tangent, and its tangent that one's mask."""

    __slots__ = ("most",)  # the highest level of its equations

    def __init__(self) -> None:
        super().__init__("jvp")
        self.most = FREE

    def record(self, primitive: Any, args: Sequence[Any], params: Params) -> Any:
        linear = [type(a) is Tracer and a.owner is self for a in args]
        masks = [a.tangent if lin else None for a, lin in zip(args, linear)]
        values = [a.primal if lin else a for a, lin in zip(args, linear)]
        level = FREE if primitive.reach == "pointwise" and all(linear) else LEVELS.get(primitive.reach, BEGINS)
        if level == BEGINS and len(args) > 1 and all(linear):  # as a concatenation: nothing is zero
            level = OTHER
        self.most = max(self.most, level)
        if not primitive.multiple:
            value, mask = _advanced(primitive, params, values, linear, masks)
            return Tracer(self, None, value, mask)
        if primitive.push is not None:
            tangents = [with_mask(v, m) if lin else None for v, m, lin in zip(values, masks, linear)]
            outs = primitive.push(tangents, [None if lin else v for v, lin in zip(values, linear)], **params)
            return [self.traced(o) if lin else o for o, lin in outs]
        whole = whole_of([m for m, lin in zip(masks, linear) if lin])
        outs = bind(primitive, *[_clean(v, m) for v, m in zip(values, masks)], **params)
        flags = [True] * len(outs) if primitive.partial_eval is None else primitive.partial_eval(tuple(linear), **params)[0]
        return [self.traced(with_whole(o, whole)) if lin else o for o, lin in zip(outs, flags)]

    def traced(self, t: Any) -> Tracer:
        return Tracer(self, None, t.value, t.mask) if type(t) is Masked else Tracer(self, None, t)

    def tangent_of(self, result: Any) -> Any:
        return with_mask(result.primal, result.tangent) if type(result) is Tracer and result.owner is self else result


def push(jaxpr: Jaxpr, residuals: Sequence[Value], tangents: Sequence[Any], derive: Callable[..., Any]) -> list[Any]:
    """The results of a linear program, whose leading inputs are `residuals`, for tangents; `derive` is `jvp_eval`."""
    n = len(residuals)
    if not _mask_meets_factor(jaxpr.equations, set(jaxpr.inputs[:n])):
        return eval_jaxpr(jaxpr, [*residuals, *tangents])
    if any([e.primitive.takes_masks and e.primitive.push is None for e in jaxpr.equations]):
        zeros = [constant(0, v.aval.shape, v.aval.dtype) for v in jaxpr.inputs[n:]]  # a linear program is its own derivative
        outs, touts = derive(jaxpr, [*residuals, *zeros], [*[None] * n, *tangents])
        return [o if t is None else t for o, t in zip(outs, touts)]
    trace = _MaskTrace()
    outs = eval_jaxpr(jaxpr, [*residuals, *[Tracer(trace, None, t) for t in tangents]])
    return [cleaned(trace.tangent_of(o)) for o in outs]


def masked_push(
    jaxpr: Jaxpr, tangents: Sequence[Any], known: Sequence[Any], run: Callable[[Jaxpr, list[Any]], list[Any]]
) -> list[tuple[Any, bool]]:
    """`Primitive.push` of a program that is called once: its results, and whether they are tangents."""
    kinds, given = apart_of(tangents)
    given = [*[x for x, k in zip(known, kinds) if k is None], *given]
    found = jaxpr.memo.get(("masked_push", kinds))
    if found is None:
        box: list[Any] = []

        def program(*values: Any) -> list[Any]:
            n = kinds.count(None)
            trace, rest = _MaskTrace(), iter(values[:n])
            args = [next(rest) if t is None else trace.traced(t) for t in joined(kinds, values[n:])]
            outs = eval_jaxpr(jaxpr, args)
            flags = [type(o) is Tracer and o.owner is trace for o in outs]
            results, parts = apart_of([trace.tangent_of(o) for o in outs])
            box[:] = results, flags
            return parts

        derived, consts = trace_function(program, list(map(aval_of, given)), name="push")
        found = jaxpr.memo.setdefault(("masked_push", kinds), (derived, consts, *box))
    derived, consts, results, flags = found
    return list(zip(joined(results, run(derived, [*consts, *given])), flags))


def _mask_meets_factor(equations: Sequence[Equation], known: set[Var]) -> bool:
    """Does the mask of a tangent begin in this linear program, and a factor, one of `known`, follow?"""
    masked: set[Var] = set()
    for primitive, atoms, params, outputs, _ in equations:
        reach = primitive.reach
        if primitive.push is not None:
            inner = params["jaxpr"]
            inputs = {v for v, a in zip(inner.inputs, atoms) if type(a) is Literal or a in known}
            if not masked.isdisjoint(atoms) or _mask_meets_factor(inner.equations, inputs):
                return True
            masked.update(outputs)  # it may begin there
        elif primitive.takes_masks:
            if not masked.isdisjoint(atoms) or any([_begins(program.equations) for program in subjaxprs(params)]):
                return True
        elif masked and not masked.isdisjoint(atoms):
            if reach in (None, "pointwise") and any([a in known or type(a) is Literal for a in atoms]):
                return True
            masked.update(outputs)
        elif reach not in CALM and reach != "reads":
            reach = reach_of(primitive, params)
            linear = [type(a) is Var and a not in known for a in atoms]
            if reach == "choice" or reach in ("moves", "picks") and _filled(reach, atoms, linear, outputs[0]):
                masked.update(outputs)
    return False


def _begins(equations: Sequence[Equation]) -> bool:
    """May the mask of a tangent begin in this program, or in those that it calls?"""
    for e in equations:
        if e.primitive.reach not in CALM and e.primitive.reach != "reads":
            reach = reach_of(e.primitive, e.params)
            if reach != "moves" or len(e.inputs) > 1 or _size(e.outputs[0]) > _size(e.inputs[0]):
                return True
        elif any([_begins(program.equations) for program in subjaxprs(e.params)]):
            return True
    return False


def masked_rule(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: Params, shape: Any = None
) -> Any:
    """The tangent by the primitive's rule, or the tangents, `Masked` where they have a mask; `shape` as in `rule_of`."""
    some: Masked | None = None
    for t in tangents:
        if type(t) is Masked:
            some = t
    reach = primitive.reach
    if primitive.calm:
        if some is None:
            return rule_of(primitive, primals, tangents, out, params, shape)
        if reach == "pointwise" and shape is None:
            found = _by_terms(primitive, primals, tangents, out, params, primitive is add or primitive is sub)
            if found is not None:
                return found
        elif not primitive.structural and any([_ends(t, reach) for t in tangents if t is not None]):
            value = rule_of(primitive, primals, [cleaned(t) for t in tangents], out, params, shape)
            if has_no_nan(value):  # no mask would have changed it
                return value
    if primitive.structural:
        (t,) = tangents
        if some is None:
            within = moves_within(primitive, primals, out) or reach not in ("moves", "picks")
            if within or not _filled(reach, primals, (True,), out):
                return primitive.jvp(tangents, out, *primals, **params)
        value, own = (t, None) if some is None else (some.value, some.mask)
        if reach not in ("moves", "sums") or own is not None and own.whole:
            return with_mask(*_advanced(primitive, params, [value], (True,), [own]))
        value = _clean(value, own) if reach == "sums" else value
        before, dtype = value.shape, value.dtype  # the mask keeps no tangent
        if reach == "moves":
            make = lambda: bind(primitive, bools_of(own, before), **params)
        else:
            make = lambda: nonzero(bind(primitive, numbers_of(own, Aval(before, dtype)), **params))
        dirty = reach == "moves" and own is not None and own.dirty
        mask = Mask(LazyBools(make, None if own is None else own.bools), False, dirty)
        return Masked(primitive.jvp((value,), out, *primals, **params), mask)
    if reach == "choice":
        _, t, u = tangents
        if t is not None and u is not None and type(t) is not Masked and type(u) is not Masked:
            return primitive.jvp(tangents, out, *primals, **params)
        masks = [t.mask if type(t) is Masked else None for t in tangents]
        if primitive is stack_select:
            value = rule_of(primitive, primals, list(map(cleaned, tangents)), out, params)
            return with_mask(value, _mask_of_stacks(primals[0], [t is not None for t in tangents], masks, ()))
        value = primitive.jvp([t.value if type(t) is Masked else t for t in tangents], out, *primals, **params)
        return with_mask(value, _mask_of_choice(primals[0], [t is not None for t in tangents], masks, shape_of(out)))
    key, level = level_of(primitive, primals, tangents, params, shape)
    if some is None and level < BEGINS:
        if shape is None:
            return primitive.jvp(tangents, out, *primals, **params)
        return rule_of(primitive, primals, tangents, out, params, shape)
    if level <= FACTORS and shape is None:
        found = _by_terms(primitive, primals, tangents, out, params, level == FREE)
        if found is not None:
            return found
    if reach == "pointwise" and key in primitive.levels and _is_small(out):
        if some is None:
            value = rule_of(primitive, primals, tangents, out, params, shape)
        elif shape is None and not some.mask.whole and all([t is None or t is some for t in tangents]):
            value = primitive.jvp([t and t.value for t in tangents], out, *primals, **params)
        else:
            value = None
        if value is not None and (some is None or has_no_nan(value)):  # what is masked began as a zero, and is one still
            rule = partial(_bools_of_rule, primitive, list(map(owned, primals)), tangents, out, params, shape)
            return Masked(value, Mask(LazyBools(rule, None if some is None else some.mask.bools), not out.shape, some is None))
    result, trace = _traced_rule(primitive, primals, tangents, out, params, shape)
    if key is not None:
        if len(primitive.levels) >= MOST:
            primitive.levels.clear()
        primitive.levels[key] = trace.most
    return [trace.tangent_of(t) for t in result] if primitive.multiple else trace.tangent_of(result)


def level_of(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], params: Params, shape: Any
) -> tuple[Any, int]:
    """Which operation it is, as the rule of its primitive sees it (None: that cannot be said), and the level of the rule."""
    if len(primals) == 2 and not params:  # the common cases without a loop
        (p, q), (t, u) = primals, tangents
        key: Any = type(p), type(q), t is None, u is None, shape is None, p.dtype.char if type(p) in _TYPED else None
    elif len(primals) == 1 and not params:
        p = primals[0]
        key = p.dtype.char if type(p) in _TYPED else type(p)
    else:
        key = (*map(type, primals), *[t is None for t in tangents], getattr(primals[0], "dtype", None), *params.values())
    try:
        level = primitive.levels.get(key, BEGINS)
    except TypeError:  # parameters that cannot be compared
        key, level = None, BEGINS
    return key, level


def _by_terms(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any], free: bool
) -> Any:
    """Of a pointwise rule without choices, the common cases: the tangents have one mask, or one has none; None: neither.

    `free`: the rule has no factors.
    """
    masks = [t.mask if type(t) is Masked else None for t in tangents if t is not None]
    first = masks[0]
    if first is not None and all([m is not None and m.bools is first.bools for m in masks]):
        value = primitive.jvp([t and t.value for t in tangents], out, *primals, **params)
        return with_mask(value, first if free else first.with_dirt(NAN))
    if None not in masks and (not free or len(masks) > 2):
        return None
    value = primitive.jvp([cleaned(t) for t in tangents], out, *primals, **params)
    if None not in masks:
        return with_mask(value, either(masks[0], masks[1], shape_of(out)))
    return value if free or value is None or has_no_nan(value) else None  # no mask would have changed it


def _ends(t: Any, reach: str | None) -> bool:
    """Has a sum with this term no mask?"""
    return type(t) is not Masked or reach is None and not t.mask.whole


def _traced_rule(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: Params, shape: Any
) -> tuple[Any, _MaskTrace]:
    trace = _MaskTrace()
    traced: dict[int, Tracer] = {}
    for t in tangents:
        if t is not None and id(t) not in traced:  # rules look whether two tangents are one
            traced[id(t)] = trace.traced(t)
    given = [None if t is None else traced[id(t)] for t in tangents]
    return rule_of(primitive, primals, given, out, params, shape), trace


def _is_small(x: Any) -> bool:
    return type(x) in COMPUTED and x.nbytes <= SMALL


def owned(x: Any) -> Any:
    """An operand as a lazy mask may keep it: the user may write into the array meanwhile."""
    return x.copy("K") if type(x) is np.ndarray else x


def _bools_of_rule(*rule: Any) -> Any:
    """The bools of a mask that begins in a rule, when they are asked for after all."""
    result, trace = _traced_rule(*rule)
    tangent = trace.tangent_of(result)
    shape = shape_of(rule[3])
    return tangent.mask.bools.get(shape) if type(tangent) is Masked else constant(True, shape)


def _advanced(
    primitive: Any, params: Params, values: list[Any], linear: Sequence[bool], masks: Sequence[Mask | None]
) -> tuple[Any, Mask | None]:
    """A linear equation: its result for these operands, and the result's mask. Other operands in linear positions are zeros."""
    reach = reach_of(primitive, params)
    of = [m for m, lin in zip(masks, linear) if lin]
    given = [m for m in of if m is not None]

    def rule(*values: Any) -> Any:
        return bind(primitive, *values, **params)

    if reach == "ends" or reach is None and not (len(given) == len(of) and all([m.whole for m in given])):
        return rule(*[_clean(v, m) for v, m in zip(values, masks)]), None
    if reach == "pointwise" and given and not all([m is not None and m.bools is given[0].bools for m in of]):
        return _sum_of_terms(primitive, params, values, linear, masks)
    if (reach in ("sums", "reads", "picks") or primitive is stack_select) and given:
        values = [_clean(v, m) for v, m in zip(values, masks)]
    out = rule(*values)
    if reach == "choice":
        of_choice = _mask_of_stacks if is_stack(out) else _mask_of_choice
        return out, of_choice(values[0], linear, masks, shape_of(out))
    filled = reach in ("moves", "picks") and _filled(reach, values, linear, out)
    if not given and (not filled or is_stack(out)):
        return out, None
    factors = not all([lin or type(v) in SCALAR_AVALS and harmless(v) for lin, v in zip(linear, values)])
    if reach == "pointwise":
        return out, given[0].with_dirt(given[0].dirty or factors)
    if len(given) == len(of) and all([m.whole for m in given]) and not filled:
        mask = given[0]
        for m in given[1:]:
            mask = mask.combined(or_, m, (), True)
        return out, mask.with_dirt(True)
    if reach == "moves" and len(values) == 1:
        bools = LazyBools(lambda: rule(bools_of(masks[0], shape_of(values[0]))), *[m.bools for m in given])
        return out, Mask(bools, False, bool(given) and given[0].dirty)
    kept: list[Any] = [aval_of(v) if lin else owned(v) for v, lin in zip(values, linear)]
    known = [v for v, lin in zip(kept, linear) if not lin]
    numbers = lambda: on_device_of([numbers_of(m, v) if lin else v for v, m, lin in zip(kept, masks, linear)], known)
    return out, Mask(LazyBools(lambda: nonzero(rule(*numbers())), *[m.bools for m in given]), False, False)


def _sum_of_terms(
    primitive: Any, params: Params, values: Sequence[Any], linear: Sequence[bool], masks: Sequence[Mask | None]
) -> tuple[Any, Mask | None]:
    """A linear equation by terms, one per operand, each clean where its own mask says so."""
    total: Any = None
    mask: Mask | None = None
    for i, (v, m, lin) in enumerate(zip(values, masks, linear)):
        if lin:
            alone = [v if j == i else None for j in range(len(values))]
            term = _clean(primitive.jvp(alone, None, *values, **params), m and m.with_dirt(True))
            mask = m and m.with_dirt(False) if total is None else either(mask, m, shape_of(term))
            total = term if total is None else add(total, term)
    return total, mask


def _mask_of_choice(
    pred: Value, linear: Sequence[bool], masks: Sequence[Mask | None], shape: tuple
) -> Mask | None:
    if linear[1] is not linear[2]:  # the common case without a loop
        only, of, kept = linear[1], masks[1] if linear[1] else masks[2], owned(pred)

        def mine() -> Any:
            way = broadcast_to(kept if only else not_(kept), shape)
            return way if of is None else and_(way, of.bools.get(shape))

        return Mask(LazyBools(mine, None if of is None else of.bools), not shape, of is not None and of.dirty)
    ways = [(w, m) for w, lin, m in zip((lambda: pred, lambda: not_(pred)), linear[1:], masks[1:]) if lin]
    given = [m for _, m in ways if m is not None]
    if not given:
        return None
    pred = owned(pred)

    def bools() -> Any:
        terms = [w() if m is None else and_(broadcast_to(w(), shape), m.bools.get(shape)) for w, m in ways]
        return or_(*[broadcast_to(t, shape) for t in terms])

    return Mask(LazyBools(bools, *[m.bools for m in given]), not shape, any([m.dirty for m in given]))


def _mask_of_stacks(pred: Value, linear: Sequence[bool], masks: Sequence[Mask | None], shape: tuple) -> Mask | None:
    given = [m for m, lin in zip(masks, linear) if lin]
    if None in given:  # how many elements there are is not known here, unless the predicate says so
        chosen = is_stack(pred) and linear[1] and not linear[2]
        return Mask(LazyBools(lambda: pred), False, False) if chosen else None

    def bools() -> Any:
        found: Any = [m and m.bools.get() for m in masks[1:]]
        empty = stack_empty(next(aval_of(b) for b in found if b is not None))
        return stack_select(pred, *[empty if b is None else b for b in found])

    return Mask(LazyBools(bools), False, False)


def _filled(reach: str | None, operands: Sequence[Any], linear: Sequence[bool], out: Any) -> bool:
    """May elements of the result be zero for lack of tangents that go there? Takes values or variables."""
    if len(operands) == 1:
        return reach == "picks" or _size(out) > _size(operands[0])
    return any([not lin and is_inexact(_aval(x)) for x, lin in zip(operands, linear)])


def _size(x: Any) -> int:
    return x.aval.size if type(x) is Var else getattr(x, "size", 1)


def _aval(x: Any) -> Any:
    return x.aval if type(x) is Var or type(x) is Literal else aval_of(x)
