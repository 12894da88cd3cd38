"""`call`: a program as one equation; and programs rewired without tracing again.

What `jit` records, and what the other higher-order primitives lower their parts to.

Its rules derive a program (jvp, linear halves, transpose, batch), memoised on the source program, and call that. So the
second call of `grad(jit(f))` derives nothing and compiles nothing.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.engines import run_jaxpr
from funcad.backends.interpreter import compiling
from funcad.configuration import config
from funcad.host.locks import held_over_forks
from funcad.ir.aval import Aval, StackAval, aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, prune, stays
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import masked_push
from funcad.memo import compare, table
from funcad.passes.subprograms import program_key
from funcad.passes.together import APART
from funcad.primitives.arithmetic import exact_pow_p, integer_pow_p, mul, square_p
from funcad.primitives.conversion import convert_p
from funcad.primitives.families import exact_square
from funcad.primitives.loop import Loop, stack_empty_p
from funcad.primitives.shape import broadcast_in_dim
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import masked_jvp
from funcad.transforms.partial import (
    Halves,
    linearize_by_halves,
    linearize_jaxpr,
    partial_jaxpr,
    split_jaxpr,
    unknown_outputs,
)
from funcad.transforms.transpose import masked_transpose, needs_of, transpose_jaxpr

COMPILED_AS = ("fast_math", "siblings", "sizes", APART)  # what holds for the programs derived from one, too


def compact(values: Sequence[Any]) -> tuple[list[Any], tuple[bool, ...]]:
    """The entries that are not None, and the mask."""
    return [v for v in values if v is not None], tuple([v is not None for v in values])


def scatter(values: Sequence[Any], mask: Sequence[bool]) -> list[Any]:
    """The inverse of `compact`: None where the mask is false."""
    it = iter(values)
    return [next(it) if m else None for m in mask]


def call(jaxpr: Jaxpr, *args: Any, name: str = "call", of: Jaxpr | None = None) -> list[Any]:
    """Call a program; one derived from `of` is compiled as that is."""
    if of is not None:
        compiled_as(of, jaxpr)
    return call_p(*args, jaxpr=jaxpr, name=name)


def compiled_as(of: Jaxpr, *derived: Jaxpr) -> None:
    for option in COMPILED_AS:
        if option in of.memo:
            for jaxpr in derived:
                jaxpr.memo.setdefault(option, of.memo[option])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    return masked_jvp(jaxpr, primals, tangents, lambda p, args: call(p, *args, name=name, of=jaxpr))


def _pushed(tangents: Sequence[Any], known: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> list[tuple[Any, bool]]:
    return masked_push(jaxpr, tangents, known, lambda p, args: call(p, *args, name=name, of=jaxpr))


def _halves(nonzero: tuple[bool, ...], *, jaxpr: Jaxpr, name: str) -> Halves:
    halves = linearize_jaxpr(jaxpr, nonzero)
    compiled_as(jaxpr, halves.forward, halves.linear)
    return halves


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, name: str) -> list[Any]:
    linear = tuple([is_linear(x) for x in inputs])
    given, nonzero = compact(cts)
    derived, consts, in_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
    known = [x for x in inputs if not is_linear(x)]
    outs = call(derived, *consts, *known, *given, name=name, of=jaxpr)
    return scatter(scatter(outs, in_nonzero), linear)


def _masked(cts: Sequence[Any], masks: Any, wanted: Any, *inputs: Any, jaxpr: Jaxpr, name: str) -> list[Any]:
    return masked_transpose(jaxpr, cts, masks, wanted, inputs, lambda p, args: call(p, *args, name=name, of=jaxpr))


def partial_call(
    jaxpr: Jaxpr, linear: tuple[bool, ...], run: Callable[[Jaxpr, list[Any]], list[Any]]
) -> tuple[Sequence[bool], Callable[..., list[Any]]]:
    """The rule `partial_eval` of a program that runs once: `run(program, args)` runs the part without linear inputs."""
    out_linear = unknown_outputs(jaxpr, linear)

    def values(inputs: Sequence[Any]) -> list[Any]:
        derived, consts, _ = partial_jaxpr(jaxpr, linear)
        outs = run(derived, [*consts, *[x for x, lin in zip(inputs, linear) if not lin]])
        return scatter(outs, [not lin for lin in out_linear])

    return out_linear, values


def _partial_eval(linear: tuple[bool, ...], *, jaxpr: Jaxpr, name: str) -> tuple:
    return partial_call(jaxpr, linear, lambda program, args: call(program, *args, name=name, of=jaxpr))


def _split(linear: tuple[bool, ...], args: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> list[Any]:
    halves = split_jaxpr(jaxpr, linear)
    known = [x for x, lin in zip(args, linear) if not lin]
    outs = call(halves.forward, *halves.consts, *known, name=name, of=jaxpr)
    ts = [x for x, lin in zip(args, linear) if lin]
    touts = call(halves.linear, *halves.collect(known, outs), *ts, name=name, of=jaxpr)
    values, found = iter(outs), iter(touts)
    return [next(found) if lin else next(values) for lin in halves.out_nonzero]


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    derived, consts, out_batched = batch_jaxpr(jaxpr, size, tuple(batched))
    sizes = jaxpr.memo.setdefault("batched", {})
    derived.memo.setdefault("siblings", jaxpr.memo.get("siblings", 0) + sizes.setdefault(size, len(sizes)))
    return call(derived, *consts, *args, name=name, of=jaxpr), out_batched


def turning(jaxpr: Jaxpr) -> frozenset[int]:
    """The outputs whose square the program may know, see primitives/families.py."""
    found = jaxpr.memo.get("turning")
    if found is None:
        variables: set = set()
        for primitive, inputs, params, outputs, _ in jaxpr.equations:
            if primitive.square is None:
                continue
            if primitive.multiple:
                variables.update([v for i, v in enumerate(outputs) if primitive.turns(i, params["jaxpr"])])
            elif primitive.turns or not variables.isdisjoint([a for a in inputs if type(a) is Var]):
                variables.add(outputs[0])
        flags = frozenset([i for i, o in enumerate(jaxpr.outputs) if type(o) is Var and o in variables])
        found = jaxpr.memo.setdefault("turning", frozenset() if jaxpr.has_effects else flags)
    return found


def square_of(jaxpr: Jaxpr, i: int, run: Callable[[Jaxpr, list[Any]], list[Any]]) -> Any:
    """The square of output i, where the program knows it: `run(program, consts)` runs one that computes this alone."""
    if i not in turning(jaxpr):
        return None
    found = jaxpr.memo.get(("square", i))
    if found is None:

        def program(*values: Any) -> list[Any]:
            square = exact_square(eval_jaxpr(jaxpr, values)[i])
            return [] if square is None else [square]

        derived, consts = trace_function(program, jaxpr.in_avals, name="square", abstract=False)
        found = jaxpr.memo.setdefault(("square", i), (prune(derived), consts))
    derived, consts = found
    return run(derived, consts)[0] if derived.outputs else None


def _square(i: int, *args: Any, jaxpr: Jaxpr, name: str) -> Any:
    return square_of(jaxpr, i, lambda derived, consts: call(derived, *consts, *args, name=name, of=jaxpr))


def _squared(equation: Equation) -> int:
    """n, if the equation is a power v**n of its first operand for a whole n > 1, else 0."""
    primitive, inputs, params, _, _ = equation
    if primitive is mul:
        return 2 if inputs[0] is inputs[1] else 0
    return 2 if primitive is square_p else max(params["n"], 0) if primitive is integer_pow_p else 0


def _squared_inputs(jaxpr: Jaxpr) -> list[int]:
    """The inputs of which the program takes powers, also in the programs that it calls."""
    found = jaxpr.memo.get("squared_inputs")
    if found is None:
        variables = {e.inputs[0] for e in jaxpr.equations if _squared(e) > 1}
        for e in jaxpr.equations:
            if e.primitive is call_p:
                variables.update([e.inputs[i] for i in _squared_inputs(e.params["jaxpr"])])
        found = jaxpr.memo.setdefault("squared_inputs", [i for i, v in enumerate(jaxpr.inputs) if v in variables])
    return found


def _with_squares(jaxpr: Jaxpr, which: tuple[int, ...], avals: Sequence[Any]) -> Jaxpr:
    """The program with further inputs, the exact squares of some inputs, which it uses in their powers."""
    derived = jaxpr.memo.get(("with_squares", which))
    if derived is None:
        new = {jaxpr.inputs[i]: Var(aval) for i, aval in zip(which, avals)}
        equations = []
        for e in jaxpr.equations:
            n = _squared(e)
            if n > 1 and e.inputs[0] in new:
                e = e._replace(primitive=exact_pow_p, inputs=(e.inputs[0], new[e.inputs[0]]), params={"n": n})
            elif e.primitive is call_p:
                inner = e.params["jaxpr"]
                given = tuple([i for i in _squared_inputs(inner) if e.inputs[i] in new])
                if given:
                    squares = [new[e.inputs[i]] for i in given]
                    params = {**e.params, "jaxpr": _with_squares(inner, given, [v.aval for v in squares])}
                    e = e._replace(inputs=(*e.inputs, *squares), params=params)
            equations.append(e)
        program = Jaxpr((*jaxpr.inputs, *new.values()), tuple(equations), jaxpr.outputs)
        derived = jaxpr.memo.setdefault(("with_squares", which), program)
    return derived


def call_of(jaxpr: Jaxpr, args: Sequence[Any], name: str) -> list[Any]:
    """Call a program, which learns what the squares of those arguments are that it takes powers of, see families.py."""
    squares = {i: s for i in _squared_inputs(jaxpr) if (s := exact_square(args[i])) is not None}
    if not squares:
        return call_p(*args, jaxpr=jaxpr, name=name)
    derived = _with_squares(jaxpr, tuple(squares), [aval_of(s) for s in squares.values()])
    return call(derived, *args, *squares.values(), name=name, of=jaxpr)


call_p = Primitive(
    "call",
    lambda xp, *args, jaxpr, name: run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, name: jaxpr.out_avals,
    primal_and_jvp=_jvp,
    linearize=lambda primals, tangents, **params: linearize_by_halves(call_p, primals, tangents, params),
    halves=_halves,
    partial_eval=_partial_eval,
    split=_split,
    transpose=_transpose,
    needs=lambda linear, wanted, *, jaxpr, name: needs_of(jaxpr, linear, wanted),
    masked=_masked,
    push=_pushed,
    batch=_batch,
    square=_square,
    turns=lambda i, jaxpr: i in turning(jaxpr),
    multiple=True,
    may_share=True,
)


# -- rewiring programs: permute inputs, choose outputs, fill in zeros, without tracing again
#
# Control flow derives bodies from bodies; most of it is a matter of which variable is an input and which an output. A rewired
# program shares its variables and equations with the original, but is a Jaxpr of its own (with its own memo). `interned` gives
# back the Jaxpr of an earlier trace that is equal to a new one, so that everything derived from it, and its compiled program,
# is found again: un-jitted control flow traces its functions at every call, but derives and compiles once.


def rewire(jaxpr: Jaxpr, inputs: Sequence[Var], outputs: Sequence[Any], equations: Sequence[Equation] = ()) -> Jaxpr:
    """The program with other inputs and outputs, without the equations that are now dead; `equations` come last."""
    every = (*jaxpr.equations, *equations)
    live = {o for o in outputs if type(o) is Var}
    kept = []
    for equation in reversed(every):
        if any(o in live for o in equation.outputs) or stays(equation):
            kept.append(equation)
            live.update(a for a in equation.inputs if type(a) is Var)
    return Jaxpr(tuple(inputs), tuple(reversed(kept)), tuple(outputs))


def zero_atom(aval: Any) -> tuple[Any, list[Equation]]:
    """A zero inside a program (no array is captured for it)."""
    if type(aval) is StackAval:
        v = Var(aval)
        return v, [Equation(stack_empty_p, (), {"aval": aval}, (v,))]
    zero = Literal(aval.dtype.type(0))
    if not aval.shape:
        return zero, []
    v = Var(Aval(aval.shape, aval.dtype))
    return v, [Equation(broadcast_in_dim, (zero,), {"shape": aval.shape, "axes": ()}, (v,))]


def fill_zeros(atoms: Sequence[Any], avals: Sequence[Any]) -> tuple[list[Any], list[Equation]]:
    """The atoms with a zero in place of each None, and the equations that make the zeros."""
    filled, equations = [], []
    for atom, aval in zip(atoms, avals):
        if atom is None:
            atom, made = zero_atom(aval)
            equations += made
        filled.append(atom)
    return filled, equations


def coerce(jaxpr: Jaxpr, avals: Sequence[Any]) -> Jaxpr:
    """The program with its outputs converted to these avals (which have the right shapes)."""
    outputs, equations = [], []
    for atom, aval in zip(jaxpr.outputs, avals):
        found = atom.aval
        if type(found) is not StackAval and (found.dtype != aval.dtype or (found.weak and not aval.weak)):
            if type(atom) is Literal:
                atom = Literal(aval.dtype.type(atom.value))
            else:
                v = Var(Aval(aval.shape, aval.dtype))
                equations.append(Equation(convert_p, (atom,), {"dtype": aval.dtype}, (v,)))
                atom = v
        outputs.append(atom)
    if not equations and all(a is b for a, b in zip(outputs, jaxpr.outputs)):
        return jaxpr
    return Jaxpr(jaxpr.inputs, (*jaxpr.equations, *equations), tuple(outputs))


def inlined(jaxpr: Jaxpr) -> Jaxpr:
    """The program with jit's calls expanded, so that a policy sees the equations in them."""
    if not any(e.primitive is call_p for e in jaxpr.equations):
        return jaxpr
    equations: list[Equation] = []
    atoms: dict[Var, Any] = {}

    def expand(program: Jaxpr, names: dict[Var, Any]) -> list[Any]:
        def read(atom: Any) -> Any:
            return atom if type(atom) is Literal else names[atom]

        for e in program.equations:
            inputs = tuple([read(a) for a in e.inputs])
            if e.primitive is call_p:
                inner = e.params["jaxpr"]
                names.update(zip(e.outputs, expand(inner, dict(zip(inner.inputs, inputs)))))
                continue
            outputs = tuple([Var(v.aval) for v in e.outputs])
            names.update(zip(e.outputs, outputs))
            equations.append(Equation(e.primitive, inputs, e.params, outputs, e.source))
        return [read(o) for o in program.outputs]

    atoms.update((v, v) for v in jaxpr.inputs)
    outputs = expand(jaxpr, atoms)
    return Jaxpr(jaxpr.inputs, tuple(equations), tuple(outputs))


def invariant_part(jaxpr: Jaxpr, inputs: Sequence[Var]) -> tuple[set, list[Equation]]:
    """The variables that depend on these inputs alone, and the equations that compute them."""
    known: set = set(inputs)
    equations = []
    for equation in jaxpr.equations:
        if all(type(a) is Literal or a in known for a in equation.inputs) and not equation_has_effects(equation):
            known.update(equation.outputs)
            equations.append(equation)
    return known, equations


def fixpoint(flags: tuple, n_consts: int, n_carry: int, step: Callable[[tuple], Sequence[bool]]) -> tuple:
    """The smallest set of flagged inputs, from the given one up, that a loop's body maps into itself.

    `step(flags)` tells which outputs of the body are flagged, the carry first.
    """
    while True:
        out = step(flags)
        carry = flags[n_consts : n_consts + n_carry]
        grown = tuple([a or b for a, b in zip(carry, out[:n_carry])])
        if grown == carry:
            return flags
        flags = (*flags[:n_consts], *grown, *flags[n_consts + n_carry :])


# ---------------------------------------------------------------- interning

MOST_INTERNED = 512
_interned = table(
    "control.interned",
    "operations and their places in the source: the first program that is so",
    MOST_INTERNED,
)
_guard = threading.RLock()  # re-entrant: the collector may run anything meanwhile
held_over_forks(compiling, _guard)


def interned(jaxpr: Jaxpr) -> Jaxpr:
    """An equal program that was seen before (same operations at the same places of the source), else this one."""
    try:
        key = program_key(jaxpr, lambda inner: inner, sources=True)
        with _guard:
            found = _interned[key] = _interned.pop(key, jaxpr)
            if len(_interned) > MOST_INTERNED:
                del _interned[next(iter(_interned))]
    except TypeError:  # a parameter that cannot be compared
        return jaxpr
    if config.audit:
        compare(_interned.name, key, found, jaxpr)
    return found  # type: ignore[no-any-return]


def forget_interned() -> None:
    """Drop every program that `interned` keeps."""
    with _guard:
        _interned.clear()


def memoised(jaxpr: Jaxpr, key: Any, make: Callable[[], Any]) -> Any:
    """What was derived from a program under this key, made at first use."""
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo.setdefault(key, make())
    return found


def memoised_on_body(make: Callable[..., Any]) -> Callable[..., Any]:
    """For what is derived from a loop's body, the sizes of its consts and its carry and further arguments: made at first use.

    `make(loop, *args)` reads nothing else of the loop: neither how long it is nor in which direction it runs.
    """

    @functools.wraps(make)
    def derived(loop: Loop, *args: Any) -> Any:
        return memoised(loop.body, (make, loop.n_consts, loop.n_carry, *args), lambda: make(loop, *args))

    return derived
