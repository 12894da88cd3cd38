"""Taylor mode: truncated power series travel through a program, one coefficient after the other.

Idea: if y = p(x), then y' = J(x) x', and the jvp rule of p says in other operations what that is. So coefficient k of y is
coefficient k - 1 of those operations on the series of x, x' and y, divided by k; and so on, down to values. Nothing else needs
to be known of an operation. Two kinds are cheaper, and are read off the rule's program, not off a list: where it reads tangents
and constants alone, the operation is linear, and coefficients go through it one by one; where it is the operation itself with a
tangent in one place, it is a product, whose coefficients are convolved. Only the quotient's recurrence is written down here.

Invariants: series are lazy, a coefficient is asked for after those before it, `None` is a zero one, but no value is. Equal
operations on the same series are one (`Taylor.known`): sin's rule asks for cos(x), whose rule asks for the sin(x) that is
there, so that the work for order n is quadratic. Traps: loops take all coefficients of their operands at once, so within a rule
they are no loops of series, but go by their own jvp rules; coefficients are Taylor's here, x^(k) / k!, those of `jet` are
derivatives.

Source: Griewank and Walther, "Evaluating Derivatives" (2008), chapter 13; the laziness is McIlroy's, "Squinting at power
series" (1990).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from funcad.control.call import call_p
from funcad.control.checkpoint import checkpoint_p
from funcad.control.cond import cond_p
from funcad.control.loop_rules import loop_p
from funcad.host.devices import restore_warnings, suppress_warnings
from funcad.host.where import note_source, state
from funcad.ir.aval import Aval, Params, StackAval, aval_of, is_inexact
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, params_key, prune, split, used_inputs
from funcad.ir.primitive import Primitive
from funcad.ir.trace import bind, trace_function
from funcad.masks.masked_rules import cleaned
from funcad.primitives.arithmetic import add, div, mul, neg, sub
from funcad.primitives.atoms import Formula, formula
from funcad.primitives.loop import Loop, zero_value
from funcad.primitives.placement import on_device_of
from funcad.transforms.jvp import no_rule
from funcad.tree.same import same_key

INLINED = (call_p, checkpoint_p)
_RATIONAL = {"add": add, "sub": sub, "mul": mul, "div": div, "neg": neg}


class Series:
    """A power series whose coefficients come when they are asked for: `make(k)`; without `make` it is a constant."""

    __slots__ = ("known", "make", "__weakref__")

    def __init__(self, first: Any = None, make: Callable[[int], Any] | None = None):
        self.known = [first] if make is None else []
        self.make = make

    @property
    def constant(self) -> bool:
        return self.make is None

    def __getitem__(self, k: int) -> Any:
        """Coefficient k; None is zero."""
        if self.make is None:
            return self.known[0] if k == 0 else None
        while len(self.known) <= k:
            self.known.append(self.make(len(self.known)))
        return self.known[k]


def inexact(aval: Any) -> bool:
    """May a value of this aval, or the entries of a stack, have coefficients behind the first?"""
    return inexact(aval.element) if type(aval) is StackAval else is_inexact(aval)


def strong(aval: Any) -> Any:
    """The aval of a coefficient: that of a Python number is NumPy's."""
    return aval if type(aval) is StackAval else Aval(aval.shape, aval.dtype)


def zeros_like(x: Any) -> Any:
    return on_device_of([zero_value(strong(aval_of(x)))], [x])[0]


@contextmanager
def written_at(equation: Equation) -> Iterator[None]:
    """A block that works on an equation of the user's: what it records, and its errors, are of the user's line."""
    saved = state.source
    state.source = equation.source or saved
    try:
        yield
    except Exception as error:
        note_source(error, state.source)
        raise
    finally:
        state.source = saved


def _slope(x: Series, k: int) -> Any:
    """Coefficient k of the derivative; the value is never None."""
    if x[k + 1] is None:
        return None if k else zeros_like(x[0])
    return mul(x[k + 1], float(k + 1)) if k else x[1]


def _sum(terms: Sequence[Any]) -> Any:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else add(total, term)
    return total


class JvpProgram:
    """What the jvp rule of an operation says, as a program: (results, operands that are no literals, tangents) -> tangents."""

    def __init__(
        self,
        primitive: Primitive,
        params: Params,
        operands: Sequence[Any],
        moving: Sequence[bool],
        outs: Sequence[Any],
        given: Sequence[bool] | None = None,
    ):
        """`operands` are values, of which those that are not `given`, numbers that do not move, become literals again."""
        self.primitive, self.params, self.moving = primitive, params, list(moving)
        self.given = [m or not is_number(x) for x, m in zip(operands, moving)] if given is None else list(given)
        avals = [strong(aval_of(o)) for o in outs]
        avals += [_plain(aval_of(x)) for x, g in zip(operands, self.given) if g]
        avals += [strong(aval_of(x)) for x, m in zip(operands, moving) if m]
        self.n_outs, self.n_given = len(outs), sum(self.given)
        self.present: list[bool] = []

        def program(*values: Any) -> list[Any]:
            first = iter(values[self.n_outs : self.n_outs + self.n_given])
            primals = [next(first) if g else x for x, g in zip(operands, self.given)]
            ts = iter(values[self.n_outs + self.n_given :])
            tangents = [next(ts) if m else None for m in moving]
            touts = self._tangents(list(values[: self.n_outs]), primals, tangents)
            self.present[:] = [t is not None for t in touts]
            return [t for t in touts if t is not None]

        jaxpr, self.captured = trace_function(program, avals, name="jet")
        self.jaxpr = prune(jaxpr)
        self.used = used_inputs(self.jaxpr)[len(self.captured) :]

    def _tangents(self, outs: list[Any], primals: list[Any], tangents: list[Any]) -> list[Any]:
        primitive = self.primitive
        if primitive.primal_and_jvp is not None:
            found = primitive.primal_and_jvp(primals, tangents, **self.params)[1]
        elif primitive.jvp is None:
            if any([inexact(aval_of(o)) for o in outs]):
                raise no_rule(primitive, primals)
            found = [None] * len(outs)
        elif primitive.multiple:
            found = primitive.jvp(tangents, outs, *primals, **self.params)
        else:
            found = [primitive.jvp(tangents, outs[0], *primals, **self.params)]
        return [cleaned(t) for t in found]

    def is_linear(self) -> bool:
        """Does it read tangents and constants only?"""
        moves = [m for m, g in zip(self.moving, self.given) if g]
        return not any(self.used[: self.n_outs]) and not any(
            [u and m for u, m in zip(self.used[self.n_outs : self.n_outs + self.n_given], moves)]
        )

    def is_itself(self, place: int) -> bool:
        """Is it the operation with the tangent in that place?"""
        if len(self.jaxpr.equations) != 1 or not all(self.given):
            return False
        equation, inputs = self.jaxpr.equations[0], self.jaxpr.inputs[len(self.captured) + self.n_outs :]
        wanted = [inputs[-1] if i == place else v for i, v in enumerate(inputs[: self.n_given])]
        read = [list(equation.inputs), list(equation.inputs)[::-1] if self.primitive.commutes else []]
        same = equation.primitive is self.primitive and equation.params == self.params and wanted in read
        return same and list(equation.outputs) == list(self.jaxpr.outputs)

    def inputs(self, outs: Sequence[Any], primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """Those of the program, of whatever stands for values."""
        given = [x for x, g in zip(primals, self.given) if g]
        return [*outs, *given, *[t for t, m in zip(tangents, self.moving) if m]]

    def placed(self, results: Sequence[Any], nothing: Any = None) -> list[Any]:
        """The results in their places among the tangents."""
        found = iter(results)
        return [next(found) if p else nothing for p in self.present]


def is_number(x: Any) -> bool:
    return type(x) in (bool, int, float, complex) or issubclass(type(x), np.generic)


def _plain(aval: Any) -> Any:
    return aval if type(aval) is StackAval else Aval(aval.shape, aval.dtype, aval.weak)


class Taylor:
    """Runs programs on series, up to coefficient `order`; `rules(run, operands, params)` are those of loops."""

    def __init__(self, order: int, rules: Mapping[Primitive, Callable[..., list[Series]]]):
        self.order, self.rules = order, rules
        self.known: dict[Any, Any] = {}  # operations by primitive, parameters and operands
        self.slopes: dict[int, Series] = {}  # derivatives by the identity of what they are of, which `kept` keeps
        self.literals: dict[Any, Series] = {}
        self.kept: list[Any] = []

    def run(self, jaxpr: Jaxpr, inputs: Sequence[Series], within: bool = False) -> list[Series]:
        """The series of its results; `within` a rule nothing is computed before it is asked for."""
        env: dict[Any, Series] = dict(zip(jaxpr.inputs, inputs))
        for equation in jaxpr.equations:
            operands = [self._literal(a.value) if type(a) is Literal else env[a] for a in equation.inputs]
            avals = [v.aval for v in equation.outputs]
            if within:
                outs = self._apply(equation.primitive, equation.params, operands, avals, within)
            else:
                with written_at(equation):
                    outs = self._apply(equation.primitive, equation.params, operands, avals, within)
                    self._compute(outs)
            env.update(zip(equation.outputs, outs))
        return [self._literal(o.value) if type(o) is Literal else env[o] for o in jaxpr.outputs]

    def _compute(self, outs: Sequence[Series]) -> None:
        """All coefficients: effects happen in their order, and none waits for a long row of others."""
        for out in outs:
            out[0]  # warns as the operation does, where derivatives never do
        token = suppress_warnings()
        try:
            for k in range(1, self.order + 1):
                for out in outs:
                    out[k]
        finally:
            restore_warnings(token)

    def slope(self, x: Series) -> Series:
        """Its derivative."""
        found = self.slopes.get(id(x))
        if found is None:
            found = Series(make=lambda k: _slope(x, k))
            self.slopes[id(x)] = found
            self.kept.append(x)
        return found

    def _literal(self, value: Any) -> Series:
        return self.literals.setdefault(same_key(value), Series(value))

    def _apply(
        self, primitive: Primitive, params: Params, operands: list[Series], avals: Sequence[Any], within: bool
    ) -> list[Series]:
        if primitive in INLINED:
            return self.run(params["jaxpr"], operands, within)
        try:
            key = (primitive, params_key(params, id), *map(id, operands))
            found = self.known.get(key)
        except TypeError:  # parameters that cannot be hashed
            key, found = None, None
        if found is None:
            rule = None if within else self.rules.get(primitive)
            calls = _rational(primitive, len(operands), params)
            if rule is not None and not all([x.constant for x in operands]):
                token = suppress_warnings()
                try:
                    found = rule(self, operands, params)
                finally:
                    restore_warnings(token)
            elif calls is not None:
                found = [self._by_formula(calls, operands)]
            else:
                found = _Operation(self, primitive, params, operands, avals).results
            self.kept.append((operands, params))
            if key is not None:
                self.known[key] = found
        return found


    def _by_formula(self, formula: Formula, operands: list[Series]) -> Series:
        found: list[Series] = []
        for name, reads, told in formula.calls:
            read = [operands[i] if i < 0 else found[i] for i in reads]
            if name == "const":
                found.append(self._literal(told[0]))
            else:
                found += self._apply(_RATIONAL[name], {}, read, [aval_of(operands[0][0])], within=True)
        return found[formula.result]


def _rational(primitive: Primitive, n: int, params: Params) -> Formula | None:
    """The formula of an operation that has one of several sums, products and quotients: its own rule has longer ways."""
    if primitive.emit is None or primitive in _RATIONAL.values():
        return None
    found = formula(primitive.emit, n, tuple(params.items()))
    return found if len(found.computed) > 1 and _RATIONAL.keys() >= set(found.computed) else None


class _Operation:
    """One operation on series."""

    def __init__(self, run: Taylor, primitive: Primitive, params: Params, operands: list[Series], avals: Sequence[Any]):
        self.run, self.primitive, self.params, self.operands = run, primitive, params, operands
        self.orders: list[list[Any]] = []
        self.step: Callable[[int], list[Any]] | None = None
        still = primitive.passive or all([x.constant for x in operands])
        moves = [not still and inexact(a) for a in avals]
        self.results = [Series(make=self._of(i)) if m else _Still(self._of(i)) for i, m in enumerate(moves)]

    def _of(self, i: int) -> Callable[[int], Any]:
        return lambda k: self.at(k)[i]

    def at(self, k: int) -> list[Any]:
        """Coefficient k of each result."""
        while len(self.orders) <= k:
            n = len(self.orders)
            if n == 0:
                out = bind(self.primitive, *[x[0] for x in self.operands], **self.params)
                self.orders.append(list(out) if self.primitive.multiple else [out])
                continue
            if self.step is None:
                self.step = self._step()
            self.orders.append(self.step(n))
        return self.orders[k]

    def _step(self) -> Callable[[int], list[Any]]:
        """What computes the coefficients behind the first."""
        values = [x[0] for x in self.operands]
        moving = [not x.constant and inexact(aval_of(v)) for x, v in zip(self.operands, values)]
        outs = self.orders[0]
        if not any(moving):
            return lambda k: [None] * len(outs)
        if self.primitive is div and moving[1]:
            return self._quotient
        rule = JvpProgram(self.primitive, self.params, values, moving, outs)
        if rule.is_linear():
            return lambda k: self._linear(rule, k)
        if sum(moving) == 2 and self._is_product(values, moving):
            return lambda k: self._product(moving, k)
        inputs = rule.inputs(self.results, self.operands, [self.run.slope(x) for x in self.operands])
        consts = [Series(c) for c in rule.captured]
        slopes = rule.placed(self.run.run(rule.jaxpr, [*consts, *inputs], within=True), Series())
        return lambda k: [None if s[k - 1] is None else div(s[k - 1], float(k)) if k > 1 else s[0] for s in slopes]

    def _linear(self, rule: JvpProgram, k: int) -> list[Any]:
        coefficients = [x[k] if m else None for x, m in zip(self.operands, rule.moving)]
        if all([c is None for c in coefficients]):
            return [None] * rule.n_outs
        values = [x[0] for x in self.operands]
        filled = [zeros_like(v) if m and c is None else c for c, v, m in zip(coefficients, values, rule.moving)]
        return rule.placed(eval_jaxpr(rule.jaxpr, [*rule.captured, *rule.inputs(self.orders[0], values, filled)]))

    def _is_product(self, values: list[Any], moving: list[bool]) -> bool:
        if self.primitive.transpose is None or self.primitive.multiple:
            return False
        for place in (i for i, m in enumerate(moving) if m):
            alone = [i == place for i in range(len(moving))]
            program = JvpProgram(self.primitive, self.params, values, alone, self.orders[0], [True] * len(values))
            if not program.is_itself(place):
                return False
        return True

    def _product(self, moving: list[bool], k: int) -> list[Any]:
        first, second = [i for i, m in enumerate(moving) if m]
        terms = []
        for j in range(k + 1):
            x, y = self.operands[first][j], self.operands[second][k - j]
            if x is not None and y is not None:
                values = [s[0] for s in self.operands]
                values[first], values[second] = x, y
                terms.append(bind(self.primitive, *values, **self.params))
        return [_sum(terms)]

    def _quotient(self, k: int) -> list[Any]:
        """Of x = y z: y_k = (x_k - sum over j > 0 of z_j y_(k-j)) / z_0."""
        x, z = self.operands
        terms = [
            mul(z[j], self.orders[k - j][0]) for j in range(1, k + 1) if z[j] is not None and self.orders[k - j][0] is not None
        ]
        total = _sum(terms)
        above = x[k] if total is None else neg(total) if x[k] is None else sub(x[k], total)
        return [None if above is None else div(above, z[0])]


class _Still(Series):
    """A value that does not move, computed when it is asked for."""

    __slots__ = ("first",)

    def __init__(self, first: Callable[[int], Any]):
        super().__init__()
        self.known = []
        self.first = first

    def __getitem__(self, k: int) -> Any:
        if k:
            return None
        if not self.known:
            self.known.append(self.first(0))
        return self.known[0]


# -- loops and branches on series: the same loop, whose carry has the coefficients beside the values
#
# Where a carry's value is a real or complex number all its coefficients are carried, zeros included, so that a body is traced
# once. A condition reads values alone.


def coefficients(x: Series, order: int) -> list[Any]:
    """Those behind the value, zeros included."""
    return [zeros_like(x[0]) if x[k] is None else x[k] for k in range(1, order + 1)]


def as_series(values: Sequence[Any], behind: Sequence[Sequence[Any]]) -> list[Series]:
    """Series of values and of the coefficients behind them; without any, constants."""
    return [_series(x, rest) if rest else Series(x) for x, rest in zip(values, behind)]


def _series(first: Any, rest: Sequence[Any]) -> Series:
    known = [first, *rest]
    return Series(make=lambda k: known[k] if k < len(known) else None)


class _PackedSeries:
    """A list of series as a list of values: first all values, then the coefficients of those that move."""

    def __init__(self, avals: Sequence[Any], moving: Sequence[bool], order: int):
        self.n, self.moving, self.order = len(avals), list(moving), order
        self.avals = [*avals, *[strong(a) for a, m in zip(avals, moving) if m for _ in range(order)]]

    def pack(self, series: Sequence[Series]) -> list[Any]:
        behind = [c for x, m in zip(series, self.moving) if m for c in coefficients(x, self.order)]
        return [*[x[0] for x in series], *behind]

    def unpack(self, values: Sequence[Any]) -> list[Series]:
        rest = iter(values[self.n :])
        return as_series(values[: self.n], [[next(rest) for _ in range(self.order)] if m else [] for m in self.moving])


def _moving(operands: Sequence[Series]) -> list[bool]:
    return [not x.constant and inexact(aval_of(x[0])) for x in operands]


def _program(
    run: Taylor, body: Jaxpr, groups: Sequence[_PackedSeries], results: Sequence[_PackedSeries]
) -> tuple[Jaxpr, list[Any]]:
    """The body on packed series; `results` say how its outputs are packed, one group after the other."""

    def program(*values: Any) -> list[Any]:
        at, series = 0, []
        for group in groups:
            series += group.unpack(values[at : at + len(group.avals)])
            at += len(group.avals)
        outs, start, packed = Taylor(run.order, run.rules).run(body, series), 0, []
        for group in results:
            packed += group.pack(outs[start : start + group.n])
            start += group.n
        return packed

    return trace_function(program, [a for group in groups for a in group.avals], name="jet")


def _inexact(avals: Sequence[Any]) -> list[bool]:
    return [inexact(a) for a in avals]


def _loop(run: Taylor, operands: list[Series], params: Params) -> list[Series]:
    loop: Loop = params["loop"]
    count, consts, carry, xs = loop.parts(operands)
    avals = loop.split([strong(a) for a in loop.body.in_avals])
    outs = [strong(a) for a in loop.body.out_avals]
    groups = [_PackedSeries(a, _moving(s), run.order) for a, s in ((avals[0], consts), (avals[2], xs))]
    carried = _PackedSeries(avals[1], _inexact(avals[1]), run.order)
    emitted = _PackedSeries(outs[loop.n_carry :], _inexact(outs[loop.n_carry :]), run.order)
    body, captured = _program(run, loop.body, [groups[0], carried, groups[1]], [carried, emitted])
    counting, cond = [x[0] for x in count], None
    if loop.cond is not None:

        def test(*values: Any) -> list[Any]:
            return eval_jaxpr(loop.cond, values[: len(count) + carried.n])

        cond, more = trace_function(test, [*map(strong, loop.cond.in_avals[: len(count)]), *carried.avals], name="jet")
        counting = [*more, *counting]
    given = [*captured, *groups[0].pack(consts)]
    first = carried.pack(carry)
    new = loop.with_body(body, len(given), len(first), cond)
    found = loop_p(*counting, *given, *first, *groups[1].pack(xs), loop=new)
    turns, carry_out, ys = split(found, loop.first, len(first))
    return [*map(Series, turns), *carried.unpack(carry_out), *emitted.unpack(ys)]


def _cond(run: Taylor, operands: list[Series], params: Params) -> list[Series]:
    index, *rest = operands
    branches: tuple[Jaxpr, ...] = params["branches"]
    given = _PackedSeries([strong(a) for a in branches[0].in_avals], _moving(rest), run.order)
    outs = [strong(a) for a in branches[0].out_avals]
    results = _PackedSeries(outs, _inexact(outs), run.order)
    found = [_program(run, branch, [given], [results]) for branch in branches]
    captured = [c for _, consts in found for c in consts]
    start, made = 0, []
    for jaxpr, consts in found:
        made.append(_with_others(jaxpr, start, len(consts), [*map(aval_of, captured), *given.avals], len(captured)))
        start += len(consts)
    values = [*captured, *given.pack(rest)]
    return results.unpack(cond_p(index[0], *values, branches=tuple(made)))


def _with_others(jaxpr: Jaxpr, start: int, n: int, avals: Sequence[Any], n_captured: int) -> Jaxpr:
    """The branch with the captured values of all branches as inputs, of which its own are n from `start` on."""

    def program(*values: Any) -> list[Any]:
        return eval_jaxpr(jaxpr, [*values[start : start + n], *values[n_captured:]])

    made, none = trace_function(program, [strong(a) for a in avals], name="jet")
    assert not none
    return made


series_rules: dict[Primitive, Callable[[Taylor, list[Series], Params], list[Series]]] = {
    loop_p: _loop,
    cond_p: _cond,
}
