"""`call`: a program as one equation. What `jit` records, and what the other higher-order primitives lower their parts to.

Its rules derive a program (jvp, linear halves, transpose, batch), memoised on the source program, and call that. So the
second call of `grad(jit(f))` derives nothing and compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad.backends.backward_programs import Backward
from funcad.backends.engines import run_jaxpr
from funcad.ir.aval import aval_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.prune import prune
from funcad.ir.trace import trace_function
from funcad.masks.masked_rules import masked_push
from funcad.passes.together import APART
from funcad.primitives.arithmetic import exact_pow_p, integer_pow_p, mul, square_p
from funcad.primitives.squares import exact_square
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import masked_jvp
from funcad.transforms.linearize import linearize_jaxpr
from funcad.transforms.partial import partial_jaxpr, split_jaxpr, unknown_outputs
from funcad.transforms.transpose import masked_transpose, needs_of, transpose_jaxpr
from funcad.unjitted.structural import compile_with

__all__ = ["call_p", "call", "scatter", "compact", "partial_call", "turning", "square_of", "call_of"]

compile_with(Backward)
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
        for option in COMPILED_AS:
            if option in of.memo:
                jaxpr.memo.setdefault(option, of.memo[option])
    return call_p(*args, jaxpr=jaxpr, name=name)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    return masked_jvp(jaxpr, primals, tangents, lambda p, args: call(p, *args, name=name, of=jaxpr))


def _pushed(tangents: Sequence[Any], known: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> list[tuple[Any, bool]]:
    return masked_push(jaxpr, tangents, known, lambda p, args: call(p, *args, name=name, of=jaxpr))


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, name: str) -> tuple[list, list]:
    ts, nonzero = compact(tangents)
    lin = linearize_jaxpr(jaxpr, nonzero)
    outs = call(lin.forward, *lin.consts, *primals, name=name, of=jaxpr)
    if not any(lin.out_nonzero):
        return outs[: lin.n_outputs], [None] * lin.n_outputs
    touts = call(lin.linear, *lin.collect(primals, outs), *ts, name=name, of=jaxpr)
    return outs[: lin.n_outputs], scatter(touts, lin.out_nonzero)


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
    """The outputs whose square the program may know, see primitives/squares.py."""
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
    """Call a program, which learns what the squares of those arguments are that it takes powers of, see squares.py."""
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
    linearize=_linearize,
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
