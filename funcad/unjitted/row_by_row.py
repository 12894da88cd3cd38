"""The backward pass of rows one by one, on values: what chunks do that have no program.

Idea: a row says which operation it was, so its cotangent goes to its operands at once, by the transpose of the operation
itself where its rule looks at tangents alone, and no linear program is recorded. The rule of an operation element by element
is one for arrays of all sizes: it is transposed once for operands of some kinds (`_of_elements`). All others go by a program of
one row. What was read of an array is added up in one buffer, and a write clears a part of it, as in transforms/cotangents.py.

Invariants: sums are added in the order in which a program would add them; cotangents are written only in a buffer that was
allocated here. Limit: there are no masks, so that a structural zero times an infinite slope is NaN: whoever finds a NaN in the
results goes the other way, with masks. If there is none, no mask would have changed anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from funcad.backends.interpreter import Program
from funcad.host.where import Source, state, user_source
from funcad.ir.aval import SCALAR_AVALS, Aval, aval_of, shape_of
from funcad.ir.jaxpr import Jaxpr, Literal, Var, prune
from funcad.ir.trace import AbstractTrace
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.memo import remembers, table
from funcad.primitives.arithmetic import add, div, mul, sub
from funcad.primitives.basic_indexing import basic_index_p, basic_update_p, python_index
from funcad.primitives.contraction import dot_general_p
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted.tape_plans import BILINEAR, linear
from funcad.unjitted.tape_program import LinearTrace, input_like
from funcad.unjitted.tape_steps import INNER, RESULT, SPLIT, STEP, Recorded, operands_of, params_of, steps_of

_MOST = 4096
_pointwise = table(
    "unjitted.pointwise",
    "kinds of operands: the transposed rule, or None if it is not by elements",
    _MOST,
)
_UNKNOWN = object()
_SCALARS = {kind: Var(aval.update()) for kind, aval in SCALAR_AVALS.items()}
_float64 = np.float64
_FEW = (2,)  # the shape that stands for all


def one_by_one(steps: Sequence[Any]) -> bool:
    """Has each of these rows one result, and an operation of its own?"""
    alone = [kind == ((None,), (0,)) if p is SPLIT else p is not RESULT and p is not INNER for p, *_, kind in steps_of(steps)]
    return all(alone)


def reads_parts(step: tuple) -> bool:
    """Does it read some elements of an array?"""
    if step[0] is SPLIT:
        return any([e.primitive.adds is not None for e in step[1].rest.equations])
    return step[0].adds is not None


class RowByRow:
    """Cotangents by the numbers of the rows of a recording, and which of them nobody else holds."""

    __slots__ = ("rows", "values", "cts", "own")

    def __init__(self, rows: Recorded):
        self.rows = rows
        self.values = rows.values
        self.cts: dict[int, Any] = {}
        self.own: set[int] = set()

    def add(self, number: int, ct: Any) -> None:
        cts = self.cts
        old = cts.get(number)
        if old is None:
            cts[number] = ct
        elif number in self.own and type(ct) is np.ndarray and old.dtype == ct.dtype:
            np.add(old, ct, out=old)
        else:
            cts[number] = total = old + ct
            if type(total) is np.ndarray:
                self.own.add(number)

    def pull(self, numbers: Iterable[int]) -> None:
        """The cotangents of these rows go to what they were made of. Warnings are suppressed by the caller."""
        (first, places, _, all_params, steps, values), cts, own = self.rows, self.cts, self.own
        for n in numbers:
            ct = cts.pop(n, None)
            if ct is None:
                continue
            mine = n in own
            if mine:
                own.discard(n)
            i = STEP * (n - first)
            primitive, bits, shape, a, b, kind = steps[i : i + STEP]
            if type(a) is int and a != b:  # common cases, with few calls
                if type(bits) is tuple:
                    if self._at_index(primitive, bits, a, b, ct, mine):
                        continue
                elif kind is _float64 and shape is None and self._number(primitive, places[n], a, b, ct):
                    continue
            if primitive is SPLIT:
                self._split(bits, operands_of(a, b), places[n] - bits.many, ct)
                continue
            params = params_of(all_params, n, primitive, bits)
            place, primals, named = places[n], list[Any](), list[int | None]()
            operands, again = operands_of(a, b), False
            for a in reversed(operands):  # their own values end before the result
                if type(a) is int:
                    named.append(a)
                    primals.append(values[places[a]])
                    continue
                named.append(a[0] if type(a) is tuple else None)
                if type(a) is tuple and type(a[-1]) is int:
                    again = True
                    primals.append(None)
                else:
                    place -= 1
                    primals.append(values[place])
            named.reverse()
            primals.reverse()
            if again:
                for k, a in enumerate(operands):
                    if type(a) is tuple and type(a[-1]) is int:
                        primals[k] = primals[a[1]]
            if primitive.adds is not None:
                self._read(primitive, named[0], _like(primals[0]), primals[1:], params, ct)
            elif primitive.emit is not None and self._by_elements(
                primitive, bits, primals, named, params, shape, places[n], ct
            ):
                pass
            elif shape is None and linear(primitive):
                over = mine and primitive.transpose_over is not None and named[0] is not None and type(ct) is np.ndarray
                self._transposed(primitive, primals, named, params, ct, over)
            elif shape is None and primitive in BILINEAR:
                for k in (1, 0):
                    if named[k] is not None:
                        one = [None if j != k else m for j, m in enumerate(named)]
                        self._transposed(primitive, primals, one, params, ct)
            else:
                self._by_rule(primitive, primals, named, params, shape, n, ct)

    def _at_index(self, primitive: Any, index: tuple, x: int, u: Any, ct: Any, mine: bool) -> bool:
        """Of elements that were read at a basic index, or written; `mine`: nobody else holds the cotangent."""
        cts, own = self.cts, self.own
        where = python_index(index)
        if primitive is basic_index_p:
            buffer = cts.get(x)
            if buffer is None:
                cts[x] = buffer = np.zeros(self.values[self.rows.places[x]].shape, ct.dtype)
                own.add(x)
                buffer[where] = ct
            elif x not in own or buffer.dtype is not ct.dtype:
                return False
            else:
                buffer[where] += ct
            return True
        if not mine or primitive is not basic_update_p or type(u) is tuple:
            return False
        if type(u) is int:
            c = ct[where]
            self.add(u, c.copy() if type(c) is np.ndarray else c)
        ct[where] = 0
        self.add(x, ct)
        if cts[x] is ct:
            own.add(x)
        return True

    def _number(self, primitive: Any, place: int, a: int, b: Any, ct: Any) -> bool:
        """Of an operation of two numbers, or a product of two vectors, whose result is a number."""
        values, places = self.values, self.rows.places
        p, q = values[places[a]], values[places[b]] if type(b) is int else values[place - 1]
        if primitive is dot_general_p:
            if type(b) is not int or p.ndim != 1 or q.ndim != 1:
                return False
            for n, c in ((b, p * ct), (a, ct * q)):
                if n in self.cts:
                    self.add(n, c)
                else:
                    self.cts[n] = c
                    self.own.add(n)
            return True
        if type(p) is not _float64 or type(b) is int and type(q) is not _float64 or type(b) is tuple:
            return False
        if primitive is sub or primitive is add:
            self.add(a, ct)
            if type(b) is int:
                self.add(b, ct if primitive is add else -ct)
        elif primitive is mul:
            self.add(a, ct * q)
            if type(b) is int:
                self.add(b, p * ct)
        elif primitive is div:
            ct = ct / q
            self.add(a, ct)
            if type(b) is int:
                self.add(b, values[place] * -ct)
        else:
            return False
        return True

    def _read(self, primitive: Any, number: Any, x: Var, others: Sequence[Any], params: dict, ct: Any) -> None:
        """Elements of an array were read: their cotangents are added where they were."""
        operands = [x, *others]
        old = self.cts.get(number)
        if old is None:
            self.cts[number] = primitive.transpose(ct, *operands, **params)[0]
        else:
            adds, (_, *rest), where = primitive.adds(ct, *operands, **params)
            if number in self.own and old.dtype == ct.dtype:
                adds.over(np, old, ct, *rest, **where)
                return
            self.cts[number] = adds(old, ct, *rest, **where)
        if type(self.cts[number]) is np.ndarray:
            self.own.add(number)

    def _transposed(
        self, primitive: Any, primals: Sequence[Any], numbers: Sequence[int | None], params: dict, ct: Any, over: bool = False
    ) -> None:
        """By the transpose of the operation, which is linear in these operands; `over`: it may be written in ct."""
        operands = [p if n is None else _like(p) for p, n in zip(primals, numbers)]
        found = (primitive.transpose_over if over else primitive.transpose)(ct, *operands, **params)
        for n, c in zip(numbers, found):
            if n is not None and c is not None:
                self.add(n, c)
        n, c = numbers[0], found[0]
        if primitive.transpose_over is not None and n is not None and self.cts[n] is c and (over or c is not ct):
            if type(c) is np.ndarray:
                self.own.add(n)

    def _by_elements(
        self, primitive: Any, bits: Any, primals: list[Any], numbers: Sequence[int | None], params: dict, shape: Any,
        place: int, ct: Any,
    ) -> bool:  # fmt: skip
        """By the rule of an operation element by element; False if that is not one for arrays of all shapes."""
        key: tuple = (primitive, bits, shape is None, *[p.dtype.char if type(p) is np.ndarray else type(p) for p in primals])
        if len(primals) == 2:
            (p, q), (m, n) = primals, numbers
            key = *key, m is None, n is None, m == n, p is q
        elif len(primals) > 2:
            ids = list(map(id, primals))
            key = *key, *[None if n is None else numbers.index(n) for n in numbers], *map(ids.index, ids)
        found = _pointwise.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            wide = shape is not None
            found = _of_elements(primitive, primals, numbers, params, self.values[place], wide)
            found = _pointwise.put(key, found)
        if found is None:
            return False
        program, reads, which = found
        known = [*primals, self.values[place], ct]
        if shape is not None:
            known = [np.broadcast_to(known[j], shape) if j in reads else None for j in range(len(known))]
        run = program.function or program.consume  # the caller has silenced warnings
        for j, c in zip(which, run([known[j] for j in reads])):
            n = numbers[j]
            assert n is not None
            self.add(n, c if shape is None else _summed(c, shape_of(primals[j])))
        return True

    def _by_rule(
        self, primitive: Any, primals: list[Any], numbers: Sequence[int | None], params: dict, shape: Any, row: int, ct: Any
    ) -> None:
        """By the rule of the operation, for these values alone."""
        inner = LinearTrace("linearize")
        source, out = self.rows.sources[row - self.rows.first], self.values[self.rows.places[row]]
        saved, state.source = state.source, source and Source(*source)
        try:
            tangents = {n: inner.new_input(aval_of(p).update()) for n, p in zip(numbers, primals) if n is not None}
            given = [None if n is None else tangents[n] for n in numbers]
            found = rule_of(primitive, primals, given, out, params, shape)
            if found is None:
                return
            program, kept = inner.jaxpr([found])
            self._of_program(program, kept, list(tangents), ct)
        finally:
            inner.close()
            state.source = saved

    def _split(self, split: Any, numbers: Sequence[int], place: int, ct: Any) -> None:
        self._of_program(split.rest, self.values[place : place + split.many], numbers, ct)

    def _of_program(self, program: Any, kept: list[Any], numbers: Sequence[int], ct: Any) -> None:
        n, known, equations = len(numbers), dict(zip(program.inputs, kept)), program.equations
        if len(equations) == 1 and equations[0].primitive.adds is not None:
            primitive, (x, *rest), params, *_ = equations[0]
            if x not in known and all([type(a) is Literal or a in known for a in rest]):
                others = [a.value if type(a) is Literal else known[a] for a in rest]
                return self._read(primitive, numbers[0], x, others, params, ct)
        flags = [False] * len(kept) + [True] * n
        for number, c in zip(numbers, transpose_eval(program, flags, [*kept, *[None] * n], [ct], all_linear=True)):
            if c is not None:
                self.add(number, c)


def _like(x: Any) -> Var:
    return _variable(x.shape, x.dtype) if type(x) is np.ndarray else _SCALARS[type(x)]


@remembers(_MOST)
def _variable(shape: tuple[int, ...], dtype: np.dtype) -> Var:
    return Var(Aval(shape, dtype if dtype.isnative else dtype.newbyteorder("=")))


def _summed(ct: Any, shape: tuple[int, ...]) -> Any:
    """The cotangent of what was broadcast."""
    extra = ct.ndim - len(shape)
    axes = (*range(extra), *[i + extra for i, n in enumerate(shape) if n == 1 != ct.shape[i + extra]])
    return np.add.reduce(ct, axis=axes).reshape(shape)[()] if axes else ct


def _of_elements(
    primitive: Any, primals: Sequence[Any], numbers: Sequence[int | None], params: dict, out: Any, wide: bool
) -> tuple[Program, list[int], list[int]] | None:
    """(program, what it reads of operands, result and cotangent, the operands whose cotangents it gives): for small arrays in
    place of the values; None if it is not made of operations element by element. `wide`: NumPy broadcast the operands."""
    outer, inner = AbstractTrace("the backward pass"), LinearTrace("linearize")
    saved, state.source = state.source, state.source or user_source()  # what is derived has no lines
    try:

        def like(x: Any) -> Tracer:
            return outer.new_input(Aval(_FEW, aval_of(x).dtype)) if wide or type(x) is np.ndarray else input_like(outer, x)

        values: list[Tracer] = []
        tangents: dict[int, Tracer] = {}
        for j, (p, n) in enumerate(zip(primals, numbers)):  # rules look whether two are one
            same = [v for v, q in zip(values, primals) if q is p]
            values.append(same[0] if same else like(p))
            if n is not None and n not in tangents:
                tangents[n] = inner.new_input(values[j].aval.update())
        known = like(out)
        result = rule_of(primitive, values, [None if n is None else tangents[n] for n in numbers], known, params)
        program, kept = inner.jaxpr([result])
        seed = outer.new_input(program.outputs[0].aval)
        flags = [False] * len(kept) + [True] * len(tangents)
        found = transpose_eval(program, flags, [*kept, *[None] * len(tangents)], [seed], all_linear=True)
        derived, consts = outer.jaxpr([c for c in found if c is not None])
    except Exception:  # whatever it is, it happens again by the rule itself
        return None
    finally:
        state.source = saved
        inner.close()
        outer.close()
    derived = prune(derived)
    shape = seed.shape
    if consts or not all([e.primitive.emit is not None and e.outputs[0].aval.shape == shape for e in derived.equations]):
        return None
    places: dict[Any, int] = {seed.atom: len(primals) + 1, known.atom: len(primals)}
    for j, v in enumerate(values):
        places.setdefault(v.atom, j)
    used = {a for e in derived.equations for a in e.inputs} | set(derived.outputs)
    inputs = [v for v in derived.inputs if v in used]
    plain = Jaxpr(tuple(inputs), tuple([e._replace(source=None) for e in derived.equations]), derived.outputs)
    which = [numbers.index(n) for n, c in zip(tangents, found) if c is not None]
    return Program(plain), [places[v] for v in inputs], which
