"""Masks: which elements of a tangent or cotangent are zero because no path leads to them, whatever factors are on the way.

Idea: `np.where(x > 0, np.log(x), 0)` at 0 has the derivative 0, because `where` does not take what `log` gives there. As a
number that zero would meet the factor 1/0 and become NaN. So beside a value with elements that were not selected (`where`),
not read (a slice, an index) or not written (padding) goes a *mask*: True where a path leads to the element. A linear equation
hands the mask on, and what is masked stays zero. Reverse mode has masks of cotangents (transpose.py), forward mode masks of
tangents (jvp.py). Each follows every path from its own end, so both count the same paths and give the same numbers.

How an equation hands a mask on follows from one fact of its primitive, `reach`, which its family declares:

    "pointwise"  an element comes from the same element of each operand: the mask stays as it is
    "choice"     as pointwise, but of one of two operands, as the first one says: `select`, where masks begin
    "moves"      an element is one element of the operand, or zero; none goes to two places: the mask moves along
    "sums"       an element is the sum of elements of the operand; all are read, and no element is zero for lack of them
    "reads"      as sums, but elements of the operand may be left out or repeated, as other operands say
    "picks"      as reads, but elements of the result may be zero for lack of elements that go there
    None         anything else (products of matrices, solves, FFTs, loops): only the mask of a whole value goes on

Where sums, reads and picks lead, the operation says itself: what it makes of ones and zeros is zero where no path leads. (A
primitive whose parameters decide has a function of them as its `reach`.) In forward mode a rule is taken for the linear
program that it is: `_MaskTrace` runs its equations one by one on tangents and masks.

Invariants: a number that happens to be zero is no mask, so `sqrt(x)**2` at 0 and `0*log(x)` stay NaN; the mask of a sum is the
*or* of its terms' masks, and a term without a mask makes it all True. A value beside a mask may be *dirty*: what it holds at
masked elements is not zero yet, and nobody looks at it. `clean` selects the zeros before anything is added or read across
elements, so a chain of products costs one select, as it did when the transpose of `select` began it. Masks are lazy: bools are
computed when they are first asked for, and `needed` says beforehand where a later factor could be infinite; masks that would
end elsewhere do not begin. Trap: masks of masks of ... nest as deep as the program is long, hence `DEEP`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import product
from typing import Any

import numpy as np

from funcad.errors import MissingRuleError
from funcad.ir.aval import SCALAR_AVALS, Aval, StackAval, aval_of, is_inexact, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Literal, Var
from funcad.ir.place import near
from funcad.ir.quiet import hush, unhush
from funcad.ir.trace import Trace, bind
from funcad.ir.tracer import Tracer
from funcad.primitives.arithmetic import add, add_p, sub_p
from funcad.primitives.comparison import and_, ne, not_, or_, select
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_to, full

__all__ = ["CALM", "Mask", "Masked", "clean", "cleaned", "either", "masked_rule", "needed", "push", "rule_of", "transposed"]

WHOLE, EVERY = 1, 2  # what is needed of a mask: only whether the whole value is zero, or which elements
CALM = frozenset([None, "pointwise", "sums"])  # no mask begins here
FREE, FACTORS, OTHER, BEGINS = range(4)  # levels of a rule: pointwise sums; pointwise; others, but no mask begins; masks begin
LEVELS = {"pointwise": FACTORS, "sums": OTHER, "reads": OTHER, None: OTHER}
MOST = 1000  # entries of the table of levels
DEEP = 50  # lazy bools are computed when they would nest deeper


class _Bools:
    """Lazy bools: of the value's shape, or one for the whole of it."""

    __slots__ = ("made", "make", "depth")

    def __init__(self, make: Callable[[], Any], *of: _Bools | None):
        self.made: Any = None
        self.make: Callable[[], Any] | None = make
        self.depth: int = 1 + max([b.depth for b in of if b is not None and b.make is not None], default=0)
        if self.depth > DEEP:
            self.get()

    def get(self, shape: tuple | None = None) -> Any:
        """The bools; broadcast, if a shape is given."""
        if self.make is not None:
            self.made, self.make = self.make(), None
        return self.made if shape is None else broadcast_to(self.made, shape)


class Mask:
    """Where a path leads. `whole`: to all elements or to none; `dirty`: elsewhere the value is not zero yet."""

    __slots__ = ("bools", "whole", "dirty")

    def __init__(self, bools: _Bools, whole: bool, dirty: bool):
        self.bools = bools
        self.whole = whole
        self.dirty = dirty

    def with_dirt(self, dirty: bool) -> Mask:
        return self if dirty == self.dirty else Mask(self.bools, self.whole, dirty)

    def combined(self, operation: Callable[[Any, Any], Any], other: Mask, shape: tuple, dirty: bool) -> Mask:
        a, b = self.bools, other.bools
        if a is b:
            return self.with_dirt(dirty)
        whole = self.whole and other.whole
        wide = None if whole else shape
        return Mask(_Bools(lambda: operation(a.get(wide), b.get(wide)), a, b), whole, dirty)


def clean(value: Any, mask: Mask | None) -> Any:
    """The value with its masked elements zero."""
    if mask is None or not mask.dirty:
        return value
    bools = mask.bools.get(shape_of(value))
    if type(bools) is np.ndarray or type(bools) is np.bool_:
        if bools.all():
            return value
        (bools,) = near([bools], [value])
    return select(bools, value, 0.0)


def either(a: Mask | None, b: Mask | None, shape: tuple) -> Mask | None:
    """The mask of a sum of clean values."""
    return None if a is None or b is None else a.combined(or_, b, shape, False)


def reach_of(primitive: Any, params: dict[str, Any]) -> str | None:
    reach = primitive.reach
    return reach(**params) if callable(reach) else reach


# -- reverse mode


def needed(equations: Sequence[Any], known: Container[Any], wanted: dict[Var, int] | None = None) -> dict[Var, int] | None:
    """What is needed of the masks of cotangents, by variable; None if no mask begins in this program.

    `known`: variables that are not linear; `wanted`: what is needed of the linear inputs' masks.
    """
    if all([e.primitive.reach in CALM for e in equations]):
        return None
    need = wanted or {}
    begins = False
    for primitive, atoms, params, outputs, _ in equations:
        reach = reach_of(primitive, params)
        level = 0
        for a in atoms:
            if a in need:
                level = max(level, need[a])
            elif reach == "pointwise":
                if a in known or type(a) is Literal and not _harmless(a.value):
                    level = EVERY
            elif reach is None and a in known:
                level = level or WHOLE
        if level:
            begins = begins or reach not in CALM
            for v in outputs:
                if type(v.aval) is not StackAval:
                    need[v] = level if reach is not None else WHOLE
    return need if begins or wanted else None


def _harmless(x: Any) -> bool:
    """Is the product with this literal zero if the other factor is, and the quotient?"""
    return x - x == 0 != x


def transposed(
    equation: Any, inputs: Sequence[Any], ct: Any, given: Sequence[Mask | None], need: dict[Var, int]
) -> list[tuple[Any, Mask | None]]:
    """The transpose of an equation: each input's cotangent, and its mask where one is needed. `given`: the outputs' masks."""
    primitive, atoms, params, _, _ = equation
    if primitive.multiple:
        return [(c, None) for c in primitive.transpose([clean(c, m) for c, m in zip(ct, given)], *inputs, **params)]
    reach, (mask,), shape = reach_of(primitive, params), given, shape_of(ct)
    dirty, whole = mask is not None and mask.dirty, mask is not None and mask.whole
    masks: Sequence[Mask | None]

    def rule(ct: Any) -> Sequence[Any]:
        return primitive.transpose(ct, *inputs, **params)

    if reach == "choice" and all([type(x) is not Var or x.aval.shape == shape for x in inputs]):
        masks = _chosen(inputs, mask, shape)
        cts: Sequence[Any] = [None if m is None else ct for m in masks]
    elif mask is None and (reach in CALM or reach == "choice" or reach == "moves" and not _unread(inputs, ct)):
        return [(c, None) for c in rule(ct)]
    elif reach == "pointwise":
        factors = any([type(x) is not Var and not (type(a) is Literal and _harmless(x)) for a, x in zip(atoms, inputs)])
        if dirty and not factors and len(inputs) > 1:
            ct, dirty = clean(ct, mask), False  # once, before it goes to both
        masks = [mask and mask.with_dirt(dirty or factors)] * len(inputs)
        cts = rule(ct)
    elif whole and (reach in CALM or not _unread(inputs, ct)):
        masks = [mask and mask.with_dirt(True)] * len(inputs)
        cts = rule(ct)
    elif reach is None or reach == "choice":
        return [(c, None) for c in rule(clean(ct, mask))]
    elif reach == "moves":
        masks = _several(lambda: rule(_bools(mask, shape)), len(inputs), mask, dirty)
        cts = rule(ct)
    else:
        aval = Aval(shape, aval_of(ct).dtype)
        masks = _several(lambda: map(_nonzero, rule(_numbers(mask, aval))), len(inputs), mask, False)
        cts = rule(clean(ct, mask))
    return [_handed_on(x, c, m, need) for x, c, m in zip(inputs, cts, masks)]


def _handed_on(x: Any, ct: Any, mask: Mask | None, need: dict[Var, int]) -> tuple[Any, Mask | None]:
    """A cotangent and its mask, or the clean cotangent, if nobody needs the mask."""
    if ct is None or mask is None or type(x) is not Var:
        return ct, None
    if need.get(x, 0) < (WHOLE if mask.whole else EVERY):
        return clean(ct, mask), None
    return ct, mask


def _unread(inputs: Sequence[Any], ct: Any) -> bool:
    """May operands of this operation have elements that do not reach the result?"""
    return len(inputs) != 1 or inputs[0].aval.size > aval_of(ct).size


def _chosen(inputs: Sequence[Any], mask: Mask | None, shape: tuple) -> list[Mask | None]:
    pred = inputs[0]
    masks: list[Mask | None] = [None]
    for x, way in zip(inputs[1:], (lambda: pred, lambda: not_(pred))):
        own = Mask(_Bools(way), not shape, True) if type(x) is Var else None
        masks.append(own if own is None or mask is None else own.combined(and_, mask, shape, True))
    return masks


def _bools(mask: Mask | None, shape: tuple) -> Any:
    return np.broadcast_to(True, shape) if mask is None else mask.bools.get(shape)


def _numbers(mask: Mask | None, aval: Aval) -> Any:
    return full(aval, 1) if mask is None else convert(mask.bools.get(aval.shape), aval.dtype)


def _nonzero(x: Any) -> Any:
    return None if x is None else ne(x, 0.0)


def _several(compute: Callable[[], Iterable[Any]], n: int, of: Mask | None, dirty: bool) -> list[Mask]:
    """The masks of n operands, made of one mask, which `compute` gives all at once."""
    found: list[Any] = []

    def one(i: int) -> Any:
        found.extend(() if found else compute())
        return found[i]

    return [Mask(_Bools(partial(one, i), None if of is None else of.bools), False, dirty) for i in range(n)]


# -- forward mode


class Masked:
    """A tangent with its mask."""

    __slots__ = ("value", "mask")

    def __init__(self, value: Any, mask: Mask):
        self.value = value
        self.mask = mask


def cleaned(tangent: Any) -> Any:
    """A tangent without its mask."""
    return clean(tangent.value, tangent.mask) if type(tangent) is Masked else tangent


class _MaskTrace(Trace):
    """Runs linear equations on tangents and their masks: a tracer's primal is a tangent, and its tangent that one's mask."""

    __slots__ = ("most",)  # the highest level of its equations

    def __init__(self) -> None:
        super().__init__("jvp")
        self.most = FREE

    def record(self, primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
        linear = [type(a) is Tracer and a.owner is self for a in args]
        masks = [a.tangent if lin else None for a, lin in zip(args, linear)]
        values = [a.primal if lin else a for a, lin in zip(args, linear)]
        level = FREE if primitive.reach == "pointwise" and all(linear) else LEVELS.get(primitive.reach, BEGINS)
        self.most = max(self.most, level)
        if not primitive.multiple:
            value, mask = _advanced(primitive, params, values, linear, masks)
            return Tracer(self, None, value, mask)
        outs = bind(primitive, *[clean(v, m) for v, m in zip(values, masks)], **params)
        flags = [True] * len(outs) if primitive.known is None else primitive.known(tuple(linear), **params)[0]
        return [Tracer(self, None, o) if lin else o for o, lin in zip(outs, flags)]

    def tangent_of(self, result: Any) -> Any:
        return _with_mask(result.primal, result.tangent) if type(result) is Tracer and result.owner is self else result


def push(jaxpr: Jaxpr, residuals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
    """The results of a linear program, whose leading inputs are `residuals`, for tangents."""
    if not _mask_meets_factor(jaxpr.equations, set(jaxpr.inputs[len(residuals) :])):
        return eval_jaxpr(jaxpr, [*residuals, *tangents])
    trace = _MaskTrace()
    outs = eval_jaxpr(jaxpr, [*residuals, *[Tracer(trace, None, t) for t in tangents]])
    return [cleaned(trace.tangent_of(o)) for o in outs]


def _mask_meets_factor(equations: Sequence[Any], linear: set[Var]) -> bool:
    """Does the mask of a tangent begin in this linear program, and a factor follow?"""
    masked: set[Var] = set()
    for primitive, atoms, params, outputs, _ in equations:
        reach = reach_of(primitive, params)
        flags = [a in linear for a in atoms]
        if any([a in masked for a in atoms]):
            if reach in (None, "pointwise") and not all(flags):
                return True
            masked.update(outputs)
        elif reach == "choice" or reach in ("moves", "picks") and _filled(reach, atoms, flags, outputs[0]):
            masked.update(outputs)
        linear.update(outputs)
    return False


def masked_rule(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any], shape: Any = None
) -> Any:
    """The tangent by the primitive's rule, or the tangents, `Masked` where they have a mask; `shape` as in `rule_of`."""
    mask: Any = None  # the one mask of all tangents; False if they differ
    masked = False
    for t in tangents:
        if type(t) is Masked:
            mask = t.mask if not masked or mask and mask.bools is t.mask.bools else False
            masked = True
    level = primitive.level
    key: Any = None
    if level is None:
        if primitive.structural or primitive.reach == "pointwise" and not params:
            level = primitive.level = _level(primitive, len(primals))
        else:  # parameters may decide: seen once, known for operands of these kinds
            try:
                key = (primitive, *params.values(), *[t is None for t in tangents], *map(type, primals), aval_of(primals[0]).dtype)
                level = _seen.get(key, BEGINS)
            except TypeError:  # parameters that cannot be compared
                key, level = None, BEGINS
    if not masked and level < BEGINS:
        if shape is None:
            return primitive.jvp(tangents, out, *primals, **params)
        return rule_of(primitive, primals, tangents, out, params, shape)
    if primitive.structural:
        if not masked and not _filled(primitive.reach, primals, (True,), out):
            return primitive.jvp(tangents, out, *primals, **params)
        t = tangents[0]
        return _with_mask(*_advanced(primitive, params, [t.value if masked else t], (True,), [t.mask if masked else None]))
    if level <= FACTORS and shape is None:
        for t in tangents:
            if t is not None and type(t) is not Masked:
                mask = False
        if mask:
            value = primitive.jvp([t and t.value for t in tangents], out, *primals, **params)
            return _with_mask(value, mask.with_dirt(mask.dirty or level == FACTORS))
        if level == FREE:
            value = primitive.jvp([cleaned(t) for t in tangents], out, *primals, **params)
            masks = [t.mask if type(t) is Masked else None for t in tangents if t is not None]
            return _with_mask(value, reduce(partial(either, shape=shape_of(out)), masks))
    trace = _MaskTrace()
    traced: dict[int, Tracer] = {}
    for t in tangents:
        if t is not None and id(t) not in traced:  # rules look whether two tangents are one
            traced[id(t)] = Tracer(trace, None, t.value, t.mask) if type(t) is Masked else Tracer(trace, None, t)
    result = rule_of(primitive, primals, [None if t is None else traced[id(t)] for t in tangents], out, params, shape)
    if key is not None:
        if len(_seen) >= MOST:
            _seen.clear()
        _seen[key] = trace.most
    return [trace.tangent_of(t) for t in result] if primitive.multiple else trace.tangent_of(result)


_seen: dict[tuple, int] = {}


def _level(primitive: Any, n: int) -> int:
    """What the equations of a rule do, at most, whatever the n operands are."""
    if primitive.structural:
        return LEVELS.get(primitive.reach, BEGINS)
    token = hush()
    try:
        return max(_levels_of_samples(primitive, n), default=BEGINS)
    finally:
        unhush(token)


def _levels_of_samples(primitive: Any, n: int) -> Iterator[int]:
    """The same for operands of each kind, arrays and literals, real and complex, with tangents or without."""
    kinds: list[Any] = [np.float64, np.complex128]
    if primitive.abstract_eval(*[Aval((2,), np.dtype(float))] * n).dtype.kind == "c":
        del kinds[1]  # it makes complex numbers of real ones
    for kind in kinds:
        for literal in product((False, True), repeat=n):
            primals = [kind(0.5) if lit else np.full(2, 0.5, kind) for lit in literal]
            for linear in product((False, True), repeat=n):
                if any(linear) and not any([a and b for a, b in zip(literal, linear)]):
                    trace = _MaskTrace()
                    tangents = [Tracer(trace, None, x) if lin else None for x, lin in zip(primals, linear)]
                    try:
                        primitive.jvp(tangents, primitive.impl(np, *primals), *primals)
                    except (TypeError, MissingRuleError):  # not for complex numbers, or bools are asked for
                        continue
                    yield trace.most


def _with_mask(value: Any, mask: Mask | None) -> Any:
    return value if mask is None or value is None else Masked(value, mask)


def rule_of(
    primitive: Any, primals: Sequence[Any], tangents: Sequence[Any], out: Any, params: dict[str, Any], shape: Any = None
) -> Any:
    """The tangent by the primitive's rule; `shape`: of the result, where NumPy broadcast the primals itself."""
    if shape is not None:
        if primitive is not add_p and primitive is not sub_p:  # their rules read tangents only
            primals = [p if p.shape == shape else broadcast_to(p, shape) for p in primals]
        tangents = [t if t is None or t.shape == shape else broadcast_to(t, shape) for t in tangents]
    return primitive.jvp(tangents, out, *primals, **params)


def _advanced(
    primitive: Any, params: dict[str, Any], values: list[Any], linear: Sequence[bool], masks: Sequence[Mask | None]
) -> tuple[Any, Mask | None]:
    """A linear equation: its result for these operands, and the result's mask. Other operands in linear positions are zeros."""
    reach = reach_of(primitive, params)
    of = [m for m, lin in zip(masks, linear) if lin]
    given = [m for m in of if m is not None]

    def rule(*values: Any) -> Any:
        return bind(primitive, *values, **params)

    if reach is None and not (len(given) == len(of) and all([m.whole for m in given])):
        return rule(*[clean(v, m) for v, m in zip(values, masks)]), None
    if reach == "pointwise" and given and not all([m is not None and m.bools is given[0].bools for m in of]):
        return _sum_of_terms(primitive, params, values, linear, masks)
    if reach in ("sums", "reads", "picks") and given:
        values = [clean(v, m) for v, m in zip(values, masks)]
    out = rule(*values)
    if reach == "choice":
        return out, _mask_of_choice(values[0], linear, masks, shape_of(out))
    filled = reach in ("moves", "picks") and _filled(reach, values, linear, out)
    if not given and not filled:
        return out, None
    factors = not all([lin or type(v) in SCALAR_AVALS and _harmless(v) for lin, v in zip(linear, values)])
    if reach == "pointwise":
        return out, given[0].with_dirt(given[0].dirty or factors)
    if len(given) == len(of) and all([m.whole for m in given]) and not filled:
        mask = given[0]
        for m in given[1:]:
            mask = mask.combined(or_, m, (), True)
        return out, mask.with_dirt(True)
    if reach == "moves" and len(values) == 1:
        bools = _Bools(lambda: rule(_bools(masks[0], shape_of(values[0]))), *[m.bools for m in given])
        return out, Mask(bools, False, bool(given) and given[0].dirty)
    numbers = lambda: [_numbers(m, aval_of(v)) if lin else v for v, m, lin in zip(values, masks, linear)]
    return out, Mask(_Bools(lambda: _nonzero(rule(*numbers())), *[m.bools for m in given]), False, False)


def _sum_of_terms(
    primitive: Any, params: dict[str, Any], values: Sequence[Any], linear: Sequence[bool], masks: Sequence[Mask | None]
) -> tuple[Any, Mask | None]:
    """A linear equation by terms, one per operand, each clean where its own mask says so."""
    total: Any = None
    mask: Mask | None = None
    for i, (v, m, lin) in enumerate(zip(values, masks, linear)):
        if lin:
            alone = [v if j == i else None for j in range(len(values))]
            term = clean(primitive.jvp(alone, None, *values, **params), m and m.with_dirt(True))
            mask = m and m.with_dirt(False) if total is None else either(mask, m, shape_of(term))
            total = term if total is None else add(total, term)
    return total, mask


def _mask_of_choice(
    pred: Any, linear: Sequence[bool], masks: Sequence[Mask | None], shape: tuple
) -> Mask | None:
    ways = [(w, m) for w, lin, m in zip((lambda: pred, lambda: not_(pred)), linear[1:], masks[1:]) if lin]
    given = [m for _, m in ways if m is not None]
    if len(ways) == 2 and not given:
        return None

    def bools() -> Any:
        terms = [w() if m is None else and_(broadcast_to(w(), shape), m.bools.get(shape)) for w, m in ways]
        return broadcast_to(terms[0], shape) if len(terms) == 1 else or_(*[broadcast_to(t, shape) for t in terms])

    return Mask(_Bools(bools, *[m.bools for m in given]), not shape, any([m.dirty for m in given]))


def _filled(reach: str | None, operands: Sequence[Any], linear: Sequence[bool], out: Any) -> bool:
    """May elements of the result be zero for lack of tangents that go there? Takes values or variables."""
    if len(operands) == 1:
        return reach == "picks" or _aval(out).size > _aval(operands[0]).size
    return any([not lin and is_inexact(_aval(x)) for x, lin in zip(operands, linear)])


def _aval(x: Any) -> Any:
    return x.aval if type(x) is Var or type(x) is Literal else aval_of(x)
