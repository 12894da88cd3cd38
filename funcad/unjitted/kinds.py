"""What rows of one kind have in common: what they keep, and the pull that takes a cotangent to their operands.

Idea: a kind is looked up by the primitive and what matters of its operands (`pull_of`). Of most kinds the pull was written
ahead (pulls.py, `WrittenPull`); of the others it is derived from the rule (derived_pulls.py, which is loaded then). A rule that
asks whether a condition holds everywhere is cut there: the first part computes the condition, and each answer has a part of its
own.

Invariants: what is kept is what the rule would keep if it ran on the values. Of an operation element by element the kind has no
shapes in it: the same pull serves all sizes, also where NumPy broadcast the operands (`wide`); then the cotangents are summed
at the end.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import GENERATED, state
from funcad.ir.aval import SCALAR_AVALS, Aval, StackAval, aval_of, shape_of
from funcad.ir.jaxpr import Var, params_key
from funcad.ir.primitive import CALM
from funcad.ir.tracer import Tracer, concrete_value
from funcad.memo import compared_by, remembers, table
from funcad.primitives.families import add, reduce_sum
from funcad.primitives.shape import broadcast_to, reshape

from funcad.unjitted.pulls import (  # isort: skip
    BY_ONES, FIRST, FREE, WrittenAhead, is_elementwise, ones_of, own_rule, reads_of, recording, written_ahead,
)

derived_pulls = OnDemand("funcad.unjitted.derived_pulls")
loop = OnDemand("funcad.primitives.loop")
_MOST = 4096
kinds = table(
    "unjitted.kinds",
    "primitive and kinds of operands: what its rows keep, and their pull",
    _MOST,
)
linear_parts = table(
    "unjitted.linear parts",
    "pull, shapes and parameters: its linear part, by the rule",
    1024,
)
free_of = FREE.get  # the parameters of a primitive that are of no kind
UNKNOWN: Any = object()
SIZED: Any = object()  # what a key without sizes says of a kind that has them
_F64 = np.dtype(np.float64)
_NOTHING = frozenset([type(None)])


@remembers(_MOST)
def compiled(text: str) -> Any:  # the same for all shapes
    return compile(text, GENERATED, "exec")


@remembers(1000)
def has_rows(primitive: Any) -> bool:
    """Has it a rule that can be split for operands of a kind? Not what calls programs, nor what has effects."""
    if primitive.primal_and_jvp is not None or primitive.linearize is not None:
        return False
    if primitive.effect or primitive.barrier or primitive.collective is not None:
        return False
    return primitive.jvp is not None and not primitive.passive


# -- cotangents by the numbers of the rows


class RowCotangents(list):
    """One for each row, or None; `own` are the numbers of those in buffers that nobody else holds.

    `at` is the number of the row that is being pulled.
    """

    __slots__ = ("own", "at")
    own: set[int]
    at: int

    def add(self, n: int, ct: Any) -> None:
        old = self[n]
        if old is None:
            self[n] = ct
            return
        kind = type(old)
        same = kind is type(ct) and (kind is np.float64 or kind is np.ndarray and old.dtype is ct.dtype)
        if same and n in self.own and kind is np.ndarray:
            np.add(old, ct, out=old)
            return
        if same and not state.checked and (kind is np.float64 or old.dtype is _F64):
            total = old + ct
        else:
            traced = old if kind is Tracer else ct
            short = traced.owner.short if type(traced) is Tracer else None
            total = None if short is None else short.binary(add, operator.add, old, ct)
            if total is None:
                stacks = kind is not np.ndarray and type(aval_of(old)) is StackAval
                total = loop.stack_add_p(old, ct) if stacks else add(old, ct)
        self[n] = total
        if type(total) is np.ndarray and total.ndim:
            self.own.add(n)

    def several(self, last: Any, m: int) -> list[Any] | None:
        """The cotangents of an operation with m results, which are taken, `last` has been; None if there is none."""
        start = len(self) - m + 1
        found = [*self[start:], last]
        if _NOTHING.issuperset(map(type, found)):
            return None
        self[start:] = [None] * (m - 1)
        return found


def fit(ct: Any, shape: tuple[int, ...], many: int = 0) -> Any:
    """The cotangent of what was broadcast; there are `many` axes of several cotangents before all others."""
    given = ct.shape
    if given == shape:
        return ct
    start = len(given) - len(shape)
    ones = [i + start for i, n in enumerate(shape) if n == 1 != given[i + start]]
    axes = (*range(many, start), *ones)
    if not axes:
        return ct
    if type(ct) is Tracer:
        rest = reduce_sum(ct, axes=axes)
        return reshape(rest, shape=shape) if ones else rest
    total = np.add.reduce(ct, axis=axes)
    return total.reshape((*given[:many], *shape))[()]


def add_read(
    cts: RowCotangents, ct: Any, number: int, primitive: Any, x: Any, others: Sequence[Any], params: dict[str, Any]
) -> None:
    """Elements of an array were read: their cotangents are added where they were."""
    old = cts[number]
    operands = [x, *others]
    if old is None:
        cts[number] = primitive.transpose(ct, *operands, **params)[0]
    else:
        adds, (_, *rest), where = primitive.adds(ct, *operands, **params)
        if number in cts.own and type(old) is np.ndarray and old.dtype == ct.dtype:
            adds.over(np, old, ct, *rest, **where)
            return
        cts[number] = adds(old, ct, *rest, **where)
    if type(cts[number]) is np.ndarray:
        cts.own.add(number)


# -- pulls
#
# A pull is a function of the cotangent and of what a row keeps, for plain arrays (`run`), for values of outer traces (`traced`:
# each call is an operation there) and for many cotangents at once (`columns`), each made when it is first wanted.


class Pull:
    """Of rows of one kind: `run(cts, ct, numbers, kept)` adds to the cotangents of the operands.

    `ct` is the cotangent of the result, or a list of those of the results if there are `many`.
    """

    run: Any
    begins: bool  # may a mask begin behind it?
    alone = False  # is it of one row?
    stacks = False  # does a row keep stacks of loops?
    direct: Any = None  # what gives the cotangents as `run` adds them, if it is a function of what the row keeps alone
    tail = False  # does a row keep the shapes of operands and result, and the parameters, after the values?
    plain = False  # do results lie in memory as NumPy's would?
    free = False  # of shapes: element by element, so that it serves lanes
    asked = False  # did the rule ask whether a condition holds everywhere?
    question: Any = None  # if it was one: (the question, the answer)
    over: Any = None  # `run` for many cotangents at once, once `columns` has found it

    def __init__(self, part: Any, sources: Sequence[int], there: Sequence[int], wide: bool = False):
        self.part = part  # what computes a part of what is kept, or None
        self.sources = tuple(sources)  # the numbers of what is kept, among operands, results, and what the parts computed
        self.n_kept = len(self.sources)
        self.there = tuple(there)  # the results that have tangents
        self.wide = wide  # NumPy broadcast the operands
        self.many = len(there) > 1

    def traced(self, cts: RowCotangents, given: Sequence[Any], numbers: Sequence[int], kept: Sequence[Any]) -> None:
        """The same where outer traces have a part in the values: the operations are recorded there."""
        if self.alone or Tracer not in map(type, given) and Tracer not in map(type, kept):
            self.run(cts, given if self.many else given[0], numbers, kept)
            return
        run, one_shape = self._recording(given, len(numbers))
        if self.wide and one_shape:
            n = self.n_kept
            kept = [*[broadcast_to(k, kept[n]) for k in kept[:n]], *kept[n:]]
        run(cts, [c for c in given if c is not None] if self.many else given[0], numbers, kept)

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        """What `run` is for traced values, with m operands; is what it records to have operands of one shape?"""
        raise NotImplementedError


class _WrittenPart:
    """What a table has for the place where an operation stands: it computes what the row keeps."""

    __slots__ = ("function", "n", "reads", "words", "params", "masks")

    def __init__(self, function: Any, n: int, params: dict[str, Any]):
        reads = reads_of(function, 1)
        self.function = function
        self.n = n  # how many operands there are
        self.reads = [r if r >= 0 else n + ~r for r in reads if type(r) is int]
        self.words = [r for r in reads if type(r) is str]
        self.params = params
        self.masks: bool | None = None  # are these masks, which have no derivative? None: nobody has seen them yet

    def computed(self, known: Sequence[Any], outer: bool = False) -> list[Any]:
        values = list(map(known.__getitem__, self.reads))
        bound = {"shapes": tuple(map(shape_of, known[: self.n])), "params": self.params} if self.words else {}
        words = [*map(bound.__getitem__, self.words)]
        token = suppress_warnings()
        try:
            # masks of known values are computed beside outer traces, which would record nothing of them
            if outer and self.masks is not False and not state.checked:
                behind = list(map(concrete_value, values))
                if Tracer not in map(type, behind):
                    found = _listed(self.function(np, *behind, *words))
                    if self.masks is None:
                        self.masks = all([aval_of(x).dtype.kind == "b" for x in found])
                    if self.masks:
                        return found
            function = recording(self.function) if outer else self.function
            return _listed(function(np, *values, *words))
        finally:
            restore_warnings(token)


def _listed(found: Any) -> list[Any]:
    return list(found) if type(found) is tuple else [found]


class WrittenPull(Pull):
    """A pull that a table has; the linear part of its rule is derived where masks or linear programs ask for it."""

    recorded = by_rule = None
    answers: Any = ()

    def __init__(self, found: WrittenAhead, use: tuple, pattern: tuple, ones: tuple, wide: bool):
        primitive, avals, _, rows, outs, params, _ = use
        n = len(avals)
        there = (0,) if found.ways is None else tuple(map(int, next(iter(found.ways))))
        part = None if found.first is None else _WrittenPart(found.first, n, params)
        sources = []
        for r in found.reads:
            if type(r) is int:
                sources.append(r if 0 <= r < FIRST else n + ~r if r < 0 else n + len(outs) + r - FIRST)
        super().__init__(part, sources, there, wide)
        whole = "shapes" not in found.reads and (part is None or not part.words)
        self.begins, self.free = found.begins, whole and primitive.emit is not None
        self.tail = not (wide or self.free)
        self.plain = primitive.layout is not None
        self.function: Any = found.function
        self.direct = None if wide or found.ways is not None else found.function
        self.n_read = len(found.reads)  # of what is kept: values, then shapes and parameters
        alike = [n if i is None else i for n, i in enumerate(pattern)]  # to a table operands of one row are one
        self.rule: Any = primitive, avals, alike, rows, outs, params, None
        self.kind: Any = pattern, ones, found.reads

    def run(self, cts: RowCotangents, ct: Any, numbers: Any, kept: Any, function: Any = None, many: int = 0) -> None:
        """What the function gives is added to the cotangents."""
        n, function = self.n_read, function or self.function
        found = function(np, ct, kept[0]) if n == 1 else function(np, ct, *kept[:n])
        if self.wide:
            for number, shape, c in zip(numbers, kept[n + 1 :], (found,) if len(numbers) == 1 else found):
                if c is not None:
                    cts.add(number, fit(c, shape, many))
        else:
            for number, c in zip(numbers, (found,) if len(numbers) == 1 else found):
                if cts[number] is None:
                    cts[number] = c
                elif c is not None:
                    cts.add(number, c)

    def linear(self, kept: Sequence[Any]) -> Any:
        """The pull by the rule, which reads the same values; it may know their sizes, which this does not."""
        keeps = None if self.part else self.sources
        if self.tail:
            shapes, params = kept[self.n_kept :]
            key = self, shapes, params_key(params)
            found = linear_parts.get(key)
            if found is None:
                primitive, avals, alike, rows, outs, _, _ = self.rule
                avals, outs = [
                    [a if a.shape == shape else Aval(shape, a.dtype, a.weak) for a, shape in zip(each, known)]
                    for each, known in ((avals, shapes), (outs, shapes[len(avals) :]))
                ]
                use = primitive, avals, alike, rows, outs, params, None
                found = linear_parts.put(key, derived_pulls.derived(self.answers, use, False, keeps))
            return found
        if self.by_rule is None:
            found = self.by_rule = derived_pulls.derived(self.answers, self.rule, self.wide, keeps)
            found.free = self.free
        return self.by_rule

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        if self.recorded is None:
            self.recorded = partial(self.run, function=recording(self.function))
        return self.recorded, "impl" in self.function.__code__.co_names

    def columns(
        self,
        cts: RowCotangents,
        given: Sequence[Any],
        numbers: Sequence[int],
        kept: Sequence[Any],
        size: int,
    ) -> None:
        function: Any = self.function
        if not self.free:
            function = None
            if self.kind is not None:
                pattern, ones, reads = self.kind
                found = written_ahead(self.rule[0], pattern, self.rule[1], self.rule[5], ones, True)
                function = found.function if found is not None and found.reads == reads else None
        if function is None:
            self.kind = None
            self.linear(kept).columns(cts, given, numbers, kept[: self.n_kept] if self.tail else kept, size)
        else:
            self.over = partial(self.run, function=function, many=1)
            self.over(cts, given[0], numbers, kept)

    def tangents(self, kept: Sequence[Any], ts: Sequence[Any]) -> list[Any]:
        return self.linear(kept).tangents(kept[: self.n_kept] if self.tail else kept, ts)


class WrittenSeveral(WrittenPull):
    """Of several results that have tangents: a function for each choice of those that have cotangents."""

    def __init__(self, found: WrittenAhead, use: tuple, pattern: tuple, ones: tuple):
        super().__init__(found, use, pattern, ones, False)
        self.ways: Any = found.ways

    def _way(self, given: Sequence[Any]) -> Any:
        way = ""
        for i, c in zip(self.there, given):
            if c is not None:
                way += str(i)
        return self.ways[way]

    def run(self, cts: RowCotangents, ct: Any, numbers: Any, kept: Any, function: Any = None, many: int = 0) -> None:
        if function is None:  # or `ct` is without those that are absent
            function, ct = self._way(ct), [c for c in ct if c is not None]
        super().run(cts, ct, numbers, kept, function, many)

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        return partial(self.run, function=recording(self._way(given))), True


class LinearPull(WrittenPull):
    """Of an operation that is linear in its one traced operand, the first: its own transpose, which needs no table.

    Elements that are read are added where they were, in one buffer.
    """

    def __init__(self, use: tuple, pattern: tuple):
        primitive, avals, _, _, _, _, _ = use
        begins = primitive.reach not in CALM or primitive.needs is not None
        found = WrittenAhead(primitive.transpose, tuple(range(1, len(avals))), begins, None)
        super().__init__(found, use, pattern, (), False)
        self.of, self.direct = Var(avals[0]), None

    def run(
        self, cts: Any, ct: Any, numbers: Any, kept: Any, function: Any = None, many: int = 0, recorded: bool = False
    ) -> None:
        if function is not None:
            super().run(cts, ct, numbers, kept, function, many)
            return
        primitive, x, n = self.rule[0], self.of, self.n_kept
        shapes, params = kept[n:]
        if shapes[0] != x.aval.shape:  # the kind has no sizes
            x = Var(Aval(shapes[0], x.aval.dtype, x.aval.weak))
        if primitive.adds is None or recorded:
            found = primitive.transpose(ct, x, *kept[:n], **params)[0]
            if found is not None:
                cts.add(numbers[0], found)
        else:
            add_read(cts, ct, numbers[0], primitive, x, kept[:n], params)

    def _recording(self, given: Sequence[Any], m: int) -> tuple[Any, bool]:
        return partial(self.run, recorded=True), False


compared_by[WrittenPull] = lambda pull: (pull.function, pull.sources, pull.tail)
compared_by[LinearPull] = compared_by[WrittenSeveral] = compared_by[WrittenPull]


# -- how they are found


class RuleQuestion:
    """Where a rule asks whether a condition holds everywhere."""

    __slots__ = ("part", "number", "ways", "free")

    def __init__(self, part: Any, number: int):
        self.part = part
        self.number = number  # of the condition
        self.ways: dict[bool, Any] = {}
        self.free = False


def everywhere(condition: Any) -> bool:
    return bool(condition.all() if type(condition) is np.ndarray else np.all(condition))


compared_by[_WrittenPart] = lambda part: (part.function, part.reads, part.words, part.params)
compared_by[RuleQuestion] = lambda question: (question.part, question.number)


def pull_of(
    key: tuple,
    primitive: Any,
    primals: Sequence[Any],
    rows: Sequence[Any],
    outs: Sequence[Any],
    params: dict,
    shape: Any,
    outer: bool = False,
    wide: bool | None = None,
) -> tuple[Any, list[Any]]:
    """(the pull of operands of the kind that the key says, what it keeps of these).

    In place of the pull None: the rule gives no tangent; False: it raises, or it cannot be said without shapes. `rows`, for
    tangents: None, or a number for each. `outer`: outer traces have a part in the values. `wide`: of an operation element by
    element, whether NumPy broadcast the operands. No key has sizes: where the pull depends on them, they are added here.
    """
    known = [*primals, *outs]
    if wide is None and primitive in BY_ONES:
        key = key, ones_of(list(map(shape_of, known)))
    node = kinds.get(key, UNKNOWN)
    if wide and outer and node is not False:  # what is recorded has operands of one shape
        known = [broadcast_to(x, outs[0].shape) for x in known]
    use: Any = None
    if wide is None:
        if node is UNKNOWN:
            use = _use(primitive, primals, rows, outs, params, shape, wide)
            found = _ahead(use, False)
            shared = isinstance(found, WrittenPull) and found.tail
            shared = shared and (len(primals) == 1 or not is_elementwise(primitive))  # several may be broadcast
            node = kinds.put(key, found if shared else SIZED)
        if node is SIZED:
            key = key, shape, params_key(params), *map(kind_of, primals)
            node = kinds.get(key, UNKNOWN)
    if node is UNKNOWN:
        use = use or _use(primitive, primals, rows, outs, params, shape, wide)
        found = _ahead(use, bool(wide)) or derived_pulls.derived([], use, bool(wide))
        node = kinds.put(key, _usable(found, wide))
    answers: list[tuple[bool, int]] = []
    while type(node) is RuleQuestion:
        known += node.part.computed(known, outer)
        condition: Any = concrete_value(known[node.number])
        # of values that nobody knows the rule says what holds always
        if type(condition) is Tracer:
            answer = condition.owner.decide is not None and condition.owner.decide(condition)
        else:
            answer = everywhere(condition)
        answers.append((answer, len(known)))
        found = node.ways.get(answer, UNKNOWN)
        if found is UNKNOWN:
            use = use or _use(primitive, primals, rows, outs, params, shape, wide)
            found = node.ways[answer] = _usable(derived_pulls.derived(answers, use, bool(wide)), wide)
        if isinstance(found, Pull) and not found.asked:
            found.asked, found.question = True, (node, answer) if len(answers) == 1 else None
            if isinstance(found, WrittenPull):
                found.answers = answers
        node = found
    if not node:
        return node, []
    return node, known_of(node, known, outer)


def _use(
    primitive: Any, primals: Sequence[Any], rows: Sequence[Any], outs: Sequence[Any], params: dict, shape: Any, wide: Any
) -> tuple:
    """What a rule is asked about: (primitive, avals of the operands, which of these are one, rows, avals of results ...)."""
    same: dict[int, int] = {}
    alike = [same.setdefault(id(p), i) for i, p in enumerate(primals)]
    if wide is None:
        return primitive, list(map(aval_of, primals)), alike, rows, list(map(aval_of, outs)), params, shape
    # arrays of one size stand for all; a traced scalar stands beside arrays of rank 0 alone, unless NumPy broadcast it
    values = list(map(concrete_value, primals)) if Tracer in map(type, primals) else primals
    size: tuple = (2,)
    for v, row in zip(values, rows):
        if row is not None and not wide and type(v) is not np.ndarray and (type(v) is not Tracer or not v.aval.shape):
            size = ()
    avals = []
    for v in values:
        array = type(v) is np.ndarray
        a: Any = v if array else aval_of(v)
        avals.append(Aval(size, a.dtype) if array or wide or type(v) is Tracer and a.shape else a)
    of_out: Any = outs[0] if type(outs[0]) is np.ndarray else aval_of(outs[0])
    of_outs = [Aval(size, of_out.dtype) if Aval in map(type, avals) else aval_of(outs[0])]
    return primitive, avals, alike, rows, of_outs, params, None


def _usable(found: Any, wide: bool | None) -> Any:
    """What was found, if the key says all that it depends on."""
    return found if wide is None or not found or found.free else False


def known_of(pull: Any, known: Sequence[Any], outer: bool = False) -> list[Any]:
    """What a row keeps, of operands, results and what was computed of them."""
    if pull.part is not None:
        known = [*known, *pull.part.computed(known, outer)]
    return list(map(known.__getitem__, pull.sources))


@remembers(_MOST)
def _pattern(rows: tuple, alike: tuple[int, ...]) -> Any:
    """For each operand None, or the first that has the same row; None instead, if one value has two rows."""
    first: dict[Any, int] = {}
    pattern = tuple([None if row is None else first.setdefault(row, i) for i, row in enumerate(rows)])
    return None if any([pattern[i] != pattern[n] for n, i in enumerate(alike)]) else pattern


def _ahead(use: tuple, wide: bool) -> Any:
    """The pull of a table, if it reads no more than the rule would keep; None: it is to be derived."""
    primitive, avals, alike, rows, outs, params, shape = use
    if shape is not None:
        return None
    pattern = _pattern(tuple(rows), tuple(alike))
    if pattern is None:  # one value, of which tables know no more than that it is two operands
        return None
    if is_elementwise(primitive) and not wide:  # what NumPy would have to broadcast is refused by the rule
        for row, a in zip(rows, avals):
            if row is not None and a.shape != outs[0].shape:
                return None
    ones = ones_of([a.shape for a in (*avals, *outs)]) if primitive in BY_ONES else ()
    found = None if primitive.adds is not None else written_ahead(primitive, pattern, avals, params, ones)
    if found is None and primitive.multiple:
        return None
    if found is None:
        linear = primitive.adds is not None or primitive.structural and primitive.emit is None
        alone = pattern[0] == 0 and pattern.count(None) == len(pattern) - 1
        return LinearPull(use, pattern) if linear and alone and own_rule(primitive.jvp) else None
    # what NumPy computes of Python's numbers has 64 bits
    if found.first is not None and any([a.weak for a in avals]) and outs[0].dtype.char not in "dD":
        return None
    if found.ways is not None and len(found.ways) > 1:
        return WrittenSeveral(found, use, pattern, ones)
    pull = WrittenPull(found, use, pattern, ones, wide)
    if not found.asks:
        return pull
    question = RuleQuestion(pull.part, -1)
    question.ways[True], question.free, pull.part = pull, pull.free, None
    return question


def kind_of(x: Any) -> Any:
    """What a key says of an operand, with its size."""
    if type(x) is np.ndarray:
        return x.shape, x.dtype.char
    if type(x) in SCALAR_AVALS:
        return type(x)
    aval = aval_of(x)
    return aval.shape, aval.dtype.char, aval.weak


def looked_at(values: Sequence[Any]) -> tuple[tuple, tuple, tuple]:
    """The shapes of operands and result, and what keys say of the operands: without sizes, and without ranks.

    Without ranks, for operations element by element, a lane is an array.
    """
    shapes: list[Any] = []
    classes: list[Any] = []
    chars: list[Any] = []
    for p in values:
        kind = type(p)
        if kind is np.ndarray:
            shapes.append(p.shape)
            chars.append(p.dtype.char)
            classes.append((len(p.shape), chars[-1]))
        elif kind in SCALAR_AVALS:
            shapes.append(())
            chars.append(kind)
            classes.append(kind)
        else:
            shapes.append(shape_of(p))
            said, p = kind_of(p), concrete_value(p)
            classes.append(said if type(said) is type else (len(said[0]), *said[1:]))
            chars.append(p.dtype.char if type(p) is np.ndarray or type(p) is Tracer and p.aval.shape else kind_of(p))
    return tuple(shapes), tuple(classes[:-1]), tuple(chars[:-1])
