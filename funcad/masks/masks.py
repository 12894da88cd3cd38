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
    "ends"       other processes have a part in it: what no path leads to here may be reached from there, so no mask goes on
    None         anything else (products of matrices, solves, FFTs, loops): only the mask of a whole value goes on

Where sums, reads and picks lead, the operation says itself: what it makes of ones and zeros is zero where no path leads. (A
primitive whose parameters decide has a function of them as its `reach`.) In forward mode a rule is taken for the linear
program that it is (masked_rules.py).

Invariants: a number that happens to be zero is no mask, so `sqrt(x)**2` at 0 and `0*log(x)` stay NaN; the mask of a sum is the
*or* of its terms' masks, and a term without a mask makes it all True. A value beside a mask may be *dirty*: what it holds at
masked elements is not zero yet, and nobody looks at it. `clean` selects the zeros before anything is added or read across
elements, so a chain of products costs one select, as it did when the transpose of `select` began it. Masks are lazy: bools are
computed when they are first asked for, and `needed` says beforehand where a later factor could be infinite; masks that would
end elsewhere do not begin. The mask of a stack (of a loop of unknown length) is a stack of bools; what is True for all of its
elements could not be written down, so there a stack has no mask. Trap: masks of masks of ... nest as deep as the program is
long, hence `DEEP`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from funcad.host.devices import device_in_use, namespace_of
from funcad.host.real_types import COMPUTED, without_nan
from funcad.ir.aval import AnyAval, Aval, Params, StackAval, Value, aval_of, shape_of
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.primitive import CALM, Primitive
from funcad.ir.tracer import Tracer, concrete_value, tangent_of
from funcad.primitives.comparison import and_, ne, not_, or_, select
from funcad.primitives.conversion import convert
from funcad.primitives.loop import add_values, is_stack, stack_empty, stack_select
from funcad.primitives.placement import on_device_of
from funcad.primitives.shape import broadcast_to

WHOLE, EVERY = 1, 2  # what is needed of a mask: only whether the whole value is zero, or which elements
NAN, ANY = 1, 2  # what a dirty value has where it is masked: zeros, of which a factor may have made NaN, or anything
DEEP = 50  # lazy bools are computed when they would nest deeper


class LazyBools:
    """Lazy bools: of the value's shape, or one for the whole of it."""

    __slots__ = ("made", "make", "depth", "fixed", "without", "partner")

    def __init__(self, make: Callable[[], Any], *of: LazyBools | None, fixed: bool = False, without: Any = None):
        self.made: Any = None
        self.fixed: bool = fixed  # by shapes and parameters alone
        self.partner: tuple[LazyBools, Mask | None] | None = None  # those of the other branch, and the mask of both together
        self.without = without  # the bools that these are the opposite of, if they have it
        self.make: Callable[[], Any] | None = make
        depth = 1
        for b in of:
            if b is not None:
                self.fixed = self.fixed and b.fixed
                if b.make is not None and b.depth >= depth:
                    depth = b.depth + 1
        self.depth: int = depth
        if depth > DEEP:
            self.get()

    def get(self, shape: tuple | None = None) -> Any:
        """The bools; broadcast, if a shape is given."""
        if self.make is not None:
            self.made, self.make = self.make(), None
        return self.made if shape is None or not shape and is_stack(self.made) else broadcast_to(self.made, shape)


class Mask:
    """Where a path leads. `whole`: to all elements or to none; `dirty` (NAN or ANY): elsewhere the value is not zero yet."""

    __slots__ = ("bools", "whole", "dirty")

    def __init__(self, bools: LazyBools, whole: bool, dirty: int):
        self.bools = bools
        self.whole = whole
        self.dirty = dirty

    def with_dirt(self, dirty: int) -> Mask:
        """The same of a value that is clean, or at least so dirty."""
        if dirty == self.dirty or 0 < dirty < self.dirty:
            return self
        return Mask(self.bools, self.whole, dirty)

    def combined(self, operation: Callable[[Any, Any], Any], other: Mask, shape: tuple, dirty: bool) -> Mask:
        a, b = self.bools, other.bools
        dirt = max(NAN, self.dirty, other.dirty) if dirty else 0
        if a is b:
            return self.with_dirt(dirt)
        whole = self.whole and other.whole
        wide = None if whole else shape
        return Mask(LazyBools(lambda: operation(*together(a.get(wide), b.get(wide))), a, b, fixed=True), whole, dirt)


class Masked:
    """A tangent with its mask."""

    __slots__ = ("value", "mask")

    def __init__(self, value: Any, mask: Mask):
        self.value = value
        self.mask = mask


def has_no_nan(value: Any) -> bool:
    """Is it known to have none?"""
    if is_followed(value):
        t = tangent_of(value)
        return has_no_nan(value.primal) and has_no_nan(t.value if type(t) is Masked else t)
    return without_nan(value)


def is_followed(x: Any) -> bool:
    """Is it a value with a tangent in forward mode, both of which can be looked at?"""
    return type(x) is Tracer and not getattr(x.owner, "linear", True) and type(x.primal) in COMPUTED


def clean(value: Any, mask: Mask | None) -> Any:
    """The value with its masked elements zero."""
    if mask is None or not mask.dirty:
        return value
    if mask.dirty == NAN and has_no_nan(value):
        return value.owner.behind(value, mask) if type(value) is Tracer else value
    shape = shape_of(value)
    if not shape and is_stack(value):
        return stack_select(mask.bools.get(), value, stack_empty(aval_of(value)))
    without = mask.bools.without
    if without is not None:
        return select(broadcast_to(without, shape), 0.0, value)
    bools = mask.bools.get(shape)
    if type(bools) is np.ndarray or type(bools) is np.bool_:
        if bools.all():
            return value
        (bools,) = on_device_of([bools], [value])
    return select(bools, value, 0.0)


def mask_of(bools: Any, whole: bool) -> Mask:
    """The mask of a value that may be dirty, from another program."""
    made = LazyBools(lambda: bools)
    return Mask(made, whole, ANY)


def whole_of(masks: Sequence[Mask | None]) -> Mask | None:
    """The mask behind an operation of unknown reach: it is zero if all that it reads is, each as a whole."""
    given = [m for m in masks if m is not None and m.whole]
    if not given or len(given) < len(masks):
        return None
    return reduce(lambda a, b: a.combined(or_, b, (), True), given[1:], given[0].with_dirt(NAN))


def kinds_of(values: Sequence[Any], masks: Sequence[Mask | None]) -> tuple[tuple, list[Any]]:
    """What there is of each tangent or cotangent (None: nothing; 0: no mask; WHOLE or EVERY), and the masks' bools."""
    kinds = tuple([None if c is None else 0 if m is None else WHOLE if m.whole else EVERY for c, m in zip(values, masks)])
    given = [(v, m) for v, m in zip(values, masks) if v is not None and m is not None]
    return kinds, [m.bools.get(() if m.whole else shape_of(v)) for v, m in given]


def either(a: Mask | None, b: Mask | None, shape: tuple) -> Mask | None:
    """The mask of a sum of clean values."""
    if a is None or b is None:
        return None
    if a.bools.partner is not None and a.bools.partner[0] is b.bools:
        both = a.bools.partner[1]
        return both and both.with_dirt(False)
    return a.combined(either_bools, b, shape, False)


def either_bools(a: Value, b: Value) -> Any:
    return add_values(a, b) if is_stack(a) else or_(a, b)


def reach_of(primitive: Primitive, params: Params) -> str | None:
    reach = primitive.reach
    return reach(**params) if callable(reach) else reach


# -- reverse mode


def begins(equations: Sequence[Equation], known: dict[Var, Any]) -> bool:
    """May a mask of a cotangent begin in this program, and meet a factor, one of `known`, on the way to the inputs?"""
    if all([e.primitive.reach in CALM and e.primitive.needs is None for e in equations]):
        return False
    behind: set[Var] = set()  # variables with a factor between them and the inputs
    for primitive, atoms, params, outputs, _ in equations:
        if primitive.needs is not None:
            return True
        reach = primitive.reach
        if not behind.isdisjoint(atoms):
            if reach not in CALM:
                return True
        elif reach is not None and not primitive.multiple:
            if callable(reach):
                reach = reach(**params)
            for a in atoms if reach == "pointwise" else ():
                if a in known or type(a) is Literal and not harmless(a.value):
                    break
            else:
                if reach is not None:
                    continue
        behind.update(outputs)
    return False


def begins_within(jaxpr: Jaxpr) -> bool:
    """May a mask of a cotangent begin in this program, in what it calls or in the loops in it, whatever it meets?"""
    found = jaxpr.memo.get("begins")
    if found is None:
        found = jaxpr.memo.setdefault("begins", any(map(_begins_at, jaxpr.equations)))
    return bool(found)


def _begins_at(equation: Equation) -> bool:
    primitive = equation.primitive
    if primitive.needs is None:
        return primitive.reach not in CALM
    programs = subjaxprs(equation.params)
    return len(programs) != 1 or begins_within(programs[0])


def needed(
    equations: Sequence[Equation], linear: set[Var], wanted: dict[Var, int], given: bool = False
) -> dict[Var, int] | None:
    """What is needed of the masks of cotangents, by variable; None if there are none, because no mask begins in this program.

    `linear`: the linear inputs, to which results are added; `wanted`: what is needed of their masks; `given`: are there masks
    of the outputs' cotangents?
    """
    some = given or bool(wanted)
    need: dict[Any, int] = dict(wanted)
    for primitive, atoms, params, outputs, _ in equations:
        if linear.isdisjoint(atoms):
            continue
        linear.update(outputs)
        if primitive.needs is not None:
            flags = tuple([a in linear for a in atoms])
            levels = primitive.needs(flags, tuple([need.get(a, 0) for a in atoms]), **params)
            need.update([(v, n) for v, n in zip(outputs, levels) if n])
            some = some or any([a in need for a in atoms])
            continue
        reach = reach_of(primitive, params)
        level = WHOLE if primitive.multiple else 0  # a rule may hold factors of its own
        for a in atoms:
            if a in linear:
                level = max(level, need.get(a, 0))
            elif reach == "pointwise":
                if type(a) is not Literal or not harmless(a.value):
                    level = EVERY
            elif reach is None:
                level = level or WHOLE
        if level and reach != "ends":
            some = some or reach not in CALM
            for v in outputs:
                need[v] = level if reach is not None else WHOLE
    return need if some else None


def harmless(x: Any) -> bool:
    """Is the product with this literal zero if the other factor is, and the quotient?"""
    return x - x == 0 != x


def transposed(
    equation: Any, inputs: Sequence[Any], ct: Any, given: Sequence[Mask | None], need: dict[Var, int], at_once: bool
) -> list[tuple[Any, Mask | None]]:
    """The transpose of an equation: each input's cotangent, and its mask where one is needed. `given`: the outputs' masks.

    `at_once`: a choice begins with zeros where it did not choose, because it costs more to select them later.
    """
    primitive, atoms, params, _, _ = equation
    if primitive.masked is not None:
        wanted = [need.get(x, 0) if type(x) is Var else 0 for x in inputs]
        if any(given) or any(wanted):
            return primitive.masked(ct, given, wanted, *inputs, **params)
    reach = reach_of(primitive, params)
    if primitive.multiple:
        beyond = None if reach == "ends" else whole_of([m for c, m in zip(ct, given) if c is not None])
        found = primitive.transpose([clean(c, m) for c, m in zip(ct, given)], *inputs, **params)
        return [handed_on(x, c, beyond, need) for x, c in zip(inputs, found)]
    (mask,), shape = given, shape_of(ct)
    if reach == "ends":
        return [(c, None) for c in primitive.transpose(clean(ct, mask), *inputs, **params)]
    if mask is not None and mask.bools.fixed and not mask.dirty and mask.bools.get().all():
        mask = None  # the parts that were read are all
    dirty, whole = mask is not None and mask.dirty, mask is not None and mask.whole
    masks: Sequence[Mask | None]
    cts: Sequence[Any]

    def rule(ct: Any) -> Sequence[Any]:
        return primitive.transpose(ct, *inputs, **params)

    there = namespace_of([concrete_value(ct)]) if device_in_use() else np

    def of_mask(x: Any) -> Sequence[Any]:
        return rule(x if there is np or type(x) is not np.ndarray else there.asarray(x))

    if not shape and is_stack(ct):
        masks, cts = _masks_of_stacks(reach, inputs, mask, rule), rule(clean(ct, mask))
    elif reach == "choice" and all([type(x) is not Var or x.aval.shape == shape for x in inputs]):
        masks = _chosen(inputs, mask, shape)
        cts = rule(ct) if at_once else [None if m is None else ct for m in masks]
        masks = [m and m.with_dirt(dirty if at_once else ANY) for m in masks]
    elif mask is None and (reach in CALM or reach == "choice" or reach == "moves" and not _unread(inputs, ct)):
        return [(c, None) for c in rule(ct)]
    elif reach == "pointwise":
        factors = any([type(x) is not Var and not (type(a) is Literal and harmless(x)) for a, x in zip(atoms, inputs)])
        if dirty and not factors and len(inputs) > 1:
            ct, dirty = clean(ct, mask), False  # once, before it goes to both
        masks = [mask and mask.with_dirt(dirty or (NAN if factors else 0))] * len(inputs)
        cts = rule(ct)
    elif whole and (reach in CALM or not _unread(inputs, ct)):
        masks = [mask and mask.with_dirt(NAN)] * len(inputs)
        cts = rule(ct)
    elif reach is None or reach == "choice":
        return [(c, None) for c in rule(clean(ct, mask))]
    elif reach == "moves":
        masks = _several(lambda: of_mask(bools_of(mask, shape)), len(inputs), mask, dirty, primitive.structural)
        cts = rule(ct)
    else:
        aval = Aval(shape, aval_of(ct).dtype)
        masks = _several(lambda: map(nonzero, of_mask(numbers_of(mask, aval))), len(inputs), mask, False, False)
        cts = rule(clean(ct, mask))
    return [handed_on(x, c, m, need) for x, c, m in zip(inputs, cts, masks)]


def handed_on(x: Any, ct: Any, mask: Mask | None, need: dict[Var, int]) -> tuple[Any, Mask | None]:
    """A cotangent and its mask, or the clean cotangent, if nobody needs the mask."""
    if ct is None or mask is None or type(x) is not Var:
        return ct, None
    if need.get(x, 0) < (WHOLE if mask.whole else EVERY) or mask.whole and type(x.aval) is StackAval:
        return clean(ct, mask), None
    return ct, mask


def _unread(inputs: Sequence[Any], ct: Any) -> bool:
    """May operands of this operation have elements that do not reach the result?"""
    return sum([(x.aval if type(x) is Var else aval_of(x)).size for x in inputs]) > aval_of(ct).size


def _chosen(inputs: Sequence[Any], mask: Mask | None, shape: tuple) -> list[Mask | None]:
    pred = inputs[0]
    masks: list[Mask | None] = [None]
    for x, bools in zip(inputs[1:], (LazyBools(lambda: pred), LazyBools(lambda: not_(pred), without=pred))):
        own = Mask(bools, not shape, False) if type(x) is Var else None
        masks.append(own if own is None or mask is None else own.combined(and_, mask, shape, True))
    first, second = masks[1:]
    if first is not None and second is not None:
        first.bools.partner, second.bools.partner = (second.bools, mask), (first.bools, mask)
    return masks


def _masks_of_stacks(reach: str | None, inputs: Sequence[Any], mask: Mask | None, rule: Callable) -> Sequence[Mask | None]:
    if mask is not None and reach is not None:
        return _several(lambda: rule(mask.bools.get()), len(inputs), mask, False, False)
    if reach == "choice" and is_stack(inputs[0]):  # where no element is chosen the cotangent is an empty stack
        return [None, Mask(LazyBools(lambda: inputs[0]), False, False), None]
    return [None] * len(inputs)


def constant(value: Any, shape: tuple, dtype: Any = np.bool_) -> Any:
    """The same everywhere; of rank 0 a scalar, which programs take as a literal."""
    scalar = np.dtype(dtype).type(value)
    return np.broadcast_to(scalar, shape) if shape else scalar


def together(a: Any, b: Any) -> list[Any]:
    """Two masks where one of them is: on the device, if there is one."""
    return on_device_of([a, b], [a, b])


def bools_of(mask: Mask | None, shape: tuple) -> Any:
    return constant(True, shape) if mask is None else mask.bools.get(shape)


def numbers_of(mask: Mask | None, aval: AnyAval) -> Value:
    if mask is not None and type(aval) is StackAval:
        return mask.bools.get()  # sums of bools say the same
    return constant(1, aval.shape, aval.dtype) if mask is None else convert(mask.bools.get(aval.shape), aval.dtype)


def nonzero(x: Any) -> Any:
    return x if x is None or is_stack(x) else ne(x, 0.0)


def _several(compute: Callable[[], Iterable[Any]], n: int, of: Mask | None, dirty: int, fixed: bool) -> list[Mask]:
    """The masks of n operands, made of one mask, which `compute` gives all at once."""
    found: list[Any] = []

    def one(i: int) -> Any:
        found.extend(() if found else compute())
        return found[i]

    return [Mask(LazyBools(partial(one, i), None if of is None else of.bools, fixed=fixed), False, dirty) for i in range(n)]
