"""`checkpoint`: keep less from the forward pass, compute it again in the backward pass.

Idea: the function is one equation, `checkpoint[jaxpr, policy](inputs)`, whose linearization is two of the same kind: a forward
one, which returns the outputs and the results that the policy keeps, and a linear one, which re-runs the program with those
results *given* (equations that nobody needs then are removed) and pushes tangents through it. Its transpose is again a
checkpoint, of the transposed program; so all orders of derivative recompute. The primitive carries `barrier=True`: CSE and
inlining would undo it.

Traps: effects happen once, in the forward pass: they are taken out of what is run again, and what they return is always kept
(below). A body is a staging trace: work on values that it closes over is done, and done again, inside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from funcad import tree
from funcad.backends.engines import estimate, run_jaxpr
from funcad.control.call import compact, inlined, interned, partial_call, scatter, square_of, turning
from funcad.control.policies import MemoryBudget
from funcad.control.rules import closes_over_tracer
from funcad.errors import FuncadError
from funcad.host.devices import Raising
from funcad.host.real_types import is_a, same
from funcad.host.where import is_tried, state
from funcad.ir.aval import Aval, aval_of, is_inexact
from funcad.ir.interpret import walk
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, may_fail, prune, subjaxprs, used_inputs
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import masked_push
from funcad.passes.subprograms import with_programs
from funcad.primitives.loop import Loop
from funcad.show.pretty import shown_as
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.jvp import jvp_eval, jvp_step, masked_jvp, no_rule
from funcad.transforms.partial import Halves, linearize_by_halves, linearize_jaxpr
from funcad.transforms.transpose import masked_transpose, needs_of, transpose_jaxpr
from funcad.unjitted.strides import Given

from funcad.api.border import (  # isort: skip
    OutTree, Transformed, api, binds, check_function, check_leaves, flat_function, flat_values, name_of, on_copies,
    positional_names, runs, unaliased, with_truths,
)

# -- what `checkpoint` makes of a body before it plans: calls expanded, effects taken out, loops with results of effects apart
#
# Idea: what happens once must not run again, so a loop, a branch or a rule in the body that holds a collective or an
# io_callback is not part of what does. The body is cut there into pieces: what lies between is a checkpoint each; the loop is
# linearized as it stands, but each of its turns is a checkpoint that keeps what the effects gave.


def quiet_params(params: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the effects of their programs taken out."""
    return {key: with_programs(value, without_effects) for key, value in params.items()}


def without_effects(jaxpr: Jaxpr) -> Jaxpr:
    """The program without the effects that return nothing."""
    if not jaxpr.has_effects:
        return jaxpr
    kept = [
        Equation(e.primitive, e.inputs, quiet_params(e.params) if e.primitive.multiple else e.params, e.outputs, e.source)
        for e in jaxpr.equations
        if not (e.primitive.effect and not e.outputs)
    ]
    return Jaxpr(jaxpr.inputs, tuple(kept), jaxpr.outputs)


def _must_stay(equation: Equation) -> bool:
    """Does a program that it runs hold an effect whose results are used?"""
    if equation.primitive.effect or not equation_has_effects(equation):
        return False
    return any([j.has_effects for j in subjaxprs(quiet_params(equation.params))])


def in_pieces(jaxpr: Jaxpr, piece: Callable[[Jaxpr, int], Equation]) -> Jaxpr | None:
    """The program with each stretch between such equations as `piece(program, how many there are)`; None if it has none."""
    if not jaxpr.has_effects:
        return None
    body = inlined(jaxpr)
    cuts = [i for i, e in enumerate(body.equations) if _must_stay(e)]
    if not cuts:
        return None
    n, start = len(cuts) + 1, 0
    equations: list[Equation] = []
    for stop in (*cuts, len(body.equations)):
        part = body.equations[start:stop]
        if part:
            equations.append(piece(_stretch(part, body, stop), n))
        if stop < len(body.equations):
            equations.append(_turn_by_turn(body.equations[stop], lambda j: piece(j, n)))
        start = stop + 1
    return Jaxpr(body.inputs, tuple(equations), body.outputs)


def _stretch(part: tuple[Equation, ...], body: Jaxpr, stop: int) -> Jaxpr:
    made = {v: None for e in part for v in e.outputs}
    read = {a: None for e in part for a in e.inputs if type(a) is not Literal and a not in made}
    later = {a for e in body.equations[stop:] for a in e.inputs if type(a) is not Literal}
    later.update([o for o in body.outputs if type(o) is not Literal])
    return Jaxpr(tuple(read), part, tuple([v for v in made if v in later]))


def _turn_by_turn(equation: Equation, piece: Callable[[Jaxpr], Equation]) -> Equation:
    """A loop or a choice of programs, each of which is one piece; a rule of the user's as it is."""

    def alone(program: Jaxpr) -> Jaxpr:
        if not program.has_effects:
            return program
        made = piece(program)
        outputs = tuple([Var(a) for a in program.out_avals])
        return Jaxpr(program.inputs, (made._replace(inputs=program.inputs, outputs=outputs),), outputs)

    params = equation.params
    changed = {key: with_programs(params[key], alone) for key in ("loop", "branches") if key in params}
    return equation._replace(params={**params, **changed})


# -- `checkpoint`


# ---------------------------------------------------------------- names


name_p = Primitive(
    "name",
    lambda xp, x, *, name: x,
    lambda x, *, name: Aval(x.shape, x.dtype, x.weak),
    jvp=lambda tangents, out, x, *, name: tangents[0],
    transpose=lambda ct, x, *, name: [ct],
    batch=lambda size, args, batched, *, name: (name_p(args[0], name=name), True),
    layout=same,
    reach="pointwise",
    may_share=True,
)


@api
def checkpoint_name(x: Any, name: str) -> Any:
    """x, with a name by which checkpoint policies know it.

    Parameters
    ----------
    x : array, number or container of them
        The value.
    name : str
        The name that policies such as `save_only_these_names` refer to.

    Returns
    -------
    like x
        x itself.

    Raises
    ------
    TypeError
        The name is no string.

    Notes
    -----
    As `jax.ad_checkpoint.checkpoint_name`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> def f(x):
    ...     return np.sin(funcad.checkpoint_name(np.sin(x), "hidden"))
    >>> keep = funcad.checkpoint_policies.save_only_these_names("hidden")
    >>> float(funcad.grad(funcad.checkpoint(f, policy=keep))(0.0))
    1.0

    See also
    --------
    checkpoint, print_saved_residuals
    """
    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name: the name must be a string, got {type(name).__name__}")
    return tree.map(lambda leaf: name_p(leaf, name=name), x)


# ---------------------------------------------------------------- the two programs of a linearization


def _halves(nonzero: tuple[bool, ...], *, jaxpr: Jaxpr, policy: Any) -> Halves | None:
    """`forward` returns what the policy keeps, too, and `linear` computes the rest of what it needs again."""
    if _pieces(jaxpr, policy) is not None:
        return None
    key = ("checkpoint", nonzero, policy)
    found = jaxpr.memo.get(key)
    if found is None:
        body = inlined(jaxpr) if policy is not None or jaxpr.has_effects else jaxpr
        if type(policy) is MemoryBudget:
            body, accepted = _within(body, nonzero, policy.size)
        else:
            accepted = [_is_kept(e, policy) for e in body.equations]
        found = jaxpr.memo.setdefault(key, _make_plan(body, nonzero, accepted))
    return found  # type: ignore[no-any-return]


def _within(body: Jaxpr, nonzero: tuple[bool, ...], room: float) -> tuple[Jaxpr, list[bool]]:
    """The program with its share of a memory budget for each loop, and which equations' results to keep for the rest.

    Of what reverse mode would read, those come first that take longest to compute again for their size.
    """
    loops = sum(map(_can_share, body.equations))
    if loops:
        room = int(room) // (loops + 1)
        body = _shared(body, room)
    accepted = [_is_kept(e, None) for e in body.equations]
    read = set(_make_plan(body, nonzero, [True] * len(accepted)).forward.outputs[len(body.outputs) :])
    found = []
    for i, e in enumerate(body.equations):
        size = sum([v.aval.size * v.aval.dtype.itemsize for v in e.outputs if v in read])
        if size and not accepted[i]:
            found.append((-estimate(Jaxpr((), (e,), e.outputs)) / size, i, size))
    for _, i, size in sorted(found):
        if size <= room:
            accepted[i], room = True, room - size
    return body, accepted


def _can_share(equation: Equation) -> bool:
    """Is it a loop that keeps what it is told to, or has one of its branches such a loop?"""
    loop = equation.params.get("loop")
    branches = equation.params.get("branches", ())
    return type(loop) is Loop and loop.keeps or any([_can_share(e) for b in branches for e in b.equations])


def _shared(jaxpr: Jaxpr, share: int) -> Jaxpr:
    """The program whose loops may keep so much each; of branches one runs."""

    def with_budget(equation: Equation) -> Equation:
        if not _can_share(equation):
            return equation
        params, loop = equation.params, equation.params.get("loop")
        if loop is None:
            return equation._replace(params={**params, "branches": tuple([_shared(b, share) for b in params["branches"]])})
        return equation._replace(params={**params, "loop": loop._replace(budget=max(1, min(share, loop.budget or share)))})

    return Jaxpr(jaxpr.inputs, tuple(map(with_budget, jaxpr.equations)), jaxpr.outputs)


def _make_plan(body: Jaxpr, nonzero: tuple[bool, ...], accepted: Sequence[bool]) -> Halves:
    residuals = [v for e, a in zip(body.equations, accepted) if a for v in e.outputs]
    n, m = len(body.inputs), len(residuals)
    out_nonzero: list[bool] = []

    def tangents_only(*values: Any) -> list[Any]:
        ts = iter(values[n + m :])
        given = dict(zip(residuals, values[n : n + m]))
        touts = _push(body, values[:n], [next(ts) if z else None for z in nonzero], given)
        out_nonzero[:] = [t is not None for t in touts]
        return [t for t in touts if t is not None]

    avals = [*body.in_avals, *[v.aval for v in residuals], *[v.aval for v, z in zip(body.inputs, nonzero) if z]]
    avals = [_strong(a) if i >= n + m else a for i, a in enumerate(avals)]
    program, consts = trace_function(tangents_only, avals, name="checkpoint")
    program = prune(program)
    n_known = len(consts) + n + m
    used = used_inputs(program)[:n_known]
    sources: list[tuple[str, Any]] = [("const", c) for c in consts] + [("in", i) for i in range(n)]
    needed: list[Var] = []
    known = [s for s, u in zip(sources, used) if u]
    for v, u in zip(residuals, used[len(sources) :]):
        if u:
            known.append(("new", len(needed)))
            needed.append(v)
    inputs = (*[v for v, u in zip(program.inputs, used) if u], *program.inputs[n_known:])
    linear = Jaxpr(inputs, program.equations, program.outputs)
    forward = Jaxpr(body.inputs, body.equations, (*body.outputs, *needed)) if needed else body
    return Halves(forward, [], linear, known, out_nonzero, len(body.outputs))


def _strong(aval: Any) -> Any:
    return Aval(aval.shape, aval.dtype) if isinstance(aval, Aval) else aval


def _is_kept(equation: Equation, policy: Any) -> bool:
    if equation_has_effects(equation):  # they must not happen twice, so what they return is kept
        return True
    return policy is not None and bool(policy(equation.primitive, *[a.aval for a in equation.inputs], **equation.params))


def _push(body: Jaxpr, primals: Sequence[Any], tangents: Sequence[Any], given: dict[Var, Any]) -> list[Any]:
    """Tangents of the outputs, where the results in `given` are known beforehand."""
    beside = {v: t for v, t in zip(body.inputs, tangents) if t is not None}

    def step(e: Equation, ps: list[Any]) -> Any:
        ts = [beside.get(a) for a in e.inputs]
        known = [given[v] for v in e.outputs if v in given]
        moved = any([t is not None for t in ts])
        if e.primitive.effect and e.primitive.jvp is None and moved and any([is_inexact(v.aval) for v in e.outputs]):
            raise no_rule(e.primitive, ps)
        if (e.primitive.effect and e.primitive.jvp is None) or (len(known) == len(e.outputs) and not moved):
            return known
        params = quiet_params(e.params) if e.primitive.multiple and equation_has_effects(e) else e.params
        outs, touts = _step(e.primitive, ps, ts, params, known)
        beside.update([(v, t) for v, t in zip(e.outputs, touts) if t is not None])
        return outs

    walk(body, list(primals), step, None, beside)
    return [beside.get(o) for o in body.outputs]


def _step(primitive: Any, primals: list, tangents: list, params: dict, known: list) -> tuple[Sequence[Any], Sequence[Any]]:
    simple = primitive.jvp is not None and not (primitive.linearize or primitive.primal_and_jvp)
    if known and simple:
        out = known if primitive.multiple else known[0]
        tangent = primitive.jvp(tangents, out, *primals, **params)
        return known, tangent if primitive.multiple else [tangent]
    outs, touts = jvp_step(primitive, primals, tangents, params, True)
    return known or outs, touts


# ---------------------------------------------------------------- the primitive


def _again(jaxpr: Jaxpr, args: Sequence[Any], policy: Any) -> list[Any]:
    return checkpoint_p(*args, jaxpr=jaxpr, policy=policy)


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, policy: Any) -> tuple[list, list]:
    return masked_jvp(jaxpr, primals, tangents, lambda p, args: _again(p, args, policy))


def _pushed(tangents: Sequence[Any], known: Sequence[Any], *, jaxpr: Jaxpr, policy: Any) -> list[tuple[Any, bool]]:
    return masked_push(jaxpr, tangents, known, lambda p, args: _again(p, args, policy))


_NOT_ASKED = object()


def _pieces(jaxpr: Jaxpr, policy: Any) -> Jaxpr | None:
    """The program cut where an effect of a loop, a branch or a rule gives results, which must not run again."""
    key = ("checkpoint in pieces", policy)
    found = jaxpr.memo.get(key, _NOT_ASKED)
    if found is _NOT_ASKED:
        found = jaxpr.memo.setdefault(key, in_pieces(jaxpr, lambda part, n: _piece(part, policy, n)))
    return found  # type: ignore[no-any-return]


def _piece(part: Jaxpr, policy: Any, n: int) -> Equation:
    own = MemoryBudget(policy.size // n) if type(policy) is MemoryBudget else policy
    return Equation(checkpoint_p, part.inputs, {"jaxpr": part, "policy": own}, part.outputs, None)  # type: ignore[arg-type]


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, jaxpr: Jaxpr, policy: Any) -> tuple[list, list]:
    pieces = _pieces(jaxpr, policy)
    if pieces is not None:
        return jvp_eval(pieces, primals, tangents, True)
    return linearize_by_halves(checkpoint_p, primals, tangents, {"jaxpr": jaxpr, "policy": policy})


def _transpose(cts: Sequence[Any], *inputs: Any, jaxpr: Jaxpr, policy: Any) -> list[Any]:
    linear = tuple([is_linear(x) for x in inputs])
    given, nonzero = compact(cts)
    derived, consts, in_nonzero = transpose_jaxpr(jaxpr, linear, nonzero)
    pruned = derived.memo.get("pruned")
    if pruned is None:
        pruned = derived.memo.setdefault("pruned", prune(derived))
    outs = _again(pruned, [*consts, *[x for x in inputs if not is_linear(x)], *given], policy)
    return scatter(scatter(outs, in_nonzero), linear)


def _masked(cts: Sequence[Any], masks: Any, wanted: Any, *inputs: Any, jaxpr: Jaxpr, policy: Any) -> list[Any]:
    return masked_transpose(jaxpr, cts, masks, wanted, inputs, lambda p, args: _again(p, args, policy))


def _partial_eval(linear: tuple[bool, ...], *, jaxpr: Jaxpr, policy: Any) -> tuple:
    return partial_call(jaxpr, linear, lambda program, args: _again(program, args, policy))


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, jaxpr: Jaxpr, policy: Any) -> tuple[list, list]:
    derived, consts, out_batched = batch_jaxpr(jaxpr, size, tuple(batched))
    return _again(derived, [*consts, *args], policy), out_batched


checkpoint_p = Primitive(
    "checkpoint",
    lambda xp, *args, jaxpr, policy: run_jaxpr(jaxpr, args),
    lambda *avals, jaxpr, policy: jaxpr.out_avals,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    halves=_halves,
    partial_eval=_partial_eval,
    transpose=_transpose,
    needs=lambda linear, wanted, *, jaxpr, policy: needs_of(jaxpr, linear, wanted),
    masked=_masked,
    push=_pushed,
    batch=_batch,
    square=lambda i, *args, jaxpr, policy: square_of(
        jaxpr, i, lambda derived, consts: checkpoint_p(*consts, *args, jaxpr=derived, policy=policy)
    ),
    turns=lambda i, jaxpr: i in turning(jaxpr),
    multiple=True,
    barrier=True,
    may_share=True,
)


# ---------------------------------------------------------------- the public functions


@api
@binds
def checkpoint(
    fun: Callable[..., Any] | None = None,
    *,
    prevent_cse: bool = True,
    policy: Callable[..., bool] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """Trade time for memory: reverse mode keeps the inputs of fun, and runs it again in the backward pass. Also `remat`.

    Parameters
    ----------
    fun : callable
        The function. Without it the result is a decorator.
    prevent_cse : bool
        For JAX's sake: funcad never merges what is computed again with the first time.
    policy : checkpoint policy, optional
        Which results to keep all the same, or how many bytes (`funcad.checkpoint_policies`).
    static_argnums, static_argnames : int, str or sequence of them
        Arguments that are ordinary Python values.

    Returns
    -------
    callable
        It takes the arguments of fun and returns the same values.

    Raises
    ------
    TracerBoolConversionError
        It is differentiated, and fun asks for a value: it is traced, with abstract values.

    Notes
    -----
    Values and derivatives are those of fun, bit for bit. Effects in fun happen once. Where an operation raises, or could under
    jit and vmap in a `try`, fun runs as it is, once more, so that the `try` sees the error. As `jax.checkpoint`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> layer = funcad.checkpoint(lambda x: np.sin(np.sin(x)))
    >>> float(funcad.grad(layer)(0.0))
    1.0
    >>> @funcad.checkpoint(policy=funcad.checkpoint_policies.dots_saveable)
    ... def dense(w, x):
    ...     return np.sum(np.tanh(w @ x))
    >>> funcad.grad(dense)(np.zeros((1, 2)), np.array([1.0, 2.0]))
    array([[1., 2.]])

    See also
    --------
    checkpoint_name, print_saved_residuals, scan
    """
    options = {"policy": policy, "static_argnums": static_argnums, "static_argnames": static_argnames}
    if fun is None:
        return functools.partial(checkpoint, **options)
    check_function(fun, "checkpoint")
    if policy is not None and not callable(policy):
        raise TypeError(f"checkpoint: policy must be a function of an equation, see funcad.checkpoint_policies; got {policy!r}")
    nums = (static_argnums,) if is_a(static_argnums, int) else tuple(static_argnums)
    names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    positional = positional_names(fun)
    named = [positional[i] for i in nums if -len(positional) <= i < len(positional)]
    nums, names = (*nums, *[positional.index(n) for n in names if n in positional]), (*names, *named)

    @api
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        n = len(args)
        fixed = {i % n for i in nums if -n <= i < n}
        dynamic = tuple([a for i, a in enumerate(args) if i not in fixed])
        keywords = {k: v for k, v in kwargs.items() if k not in names}
        leaves, in_tree = flat_values((dynamic, keywords))
        if not any(type(x) is Tracer for x in leaves) and not closes_over_tracer(fun):
            return unaliased(runs(fun)(*args, **kwargs), leaves, fun)
        check_leaves(leaves, f"checkpoint of {name_of(fun)}: argument", (dynamic, keywords), given=True)

        def merged(*values: Any, **named: Any) -> Any:
            it = iter(values)
            full = [a if i in fixed else next(it) for i, a in enumerate(args)]
            named = {k: named.get(k, v) for k, v in kwargs.items()}
            return on_copies(f"checkpoint of {name_of(fun)}", runs(fun), full, named)

        store = OutTree()
        flat = with_truths(flat_function(merged, in_tree, store), leaves)
        avals = [aval_of(x) for x in leaves]
        name = f"checkpoint({name_of(fun)})"
        try:
            jaxpr, consts = trace_function(flat, avals, name=name, staging=True, errstate="refused", given=Given(leaves))
        except Raising:
            return runs(fun)(*args, **kwargs)
        if state.abstract is not None and state.abstract.recorder is not None and any(map(_is_caught, jaxpr.equations)):
            return runs(fun)(*args, **kwargs)  # in whose trace a `try` makes paths
        try:
            return store.tree.unflatten(_again(interned(jaxpr), [*consts, *leaves], policy))
        except Exception as error:
            if isinstance(error, FuncadError) or jaxpr.has_effects:
                raise
        return runs(fun)(*args, **kwargs)  # on the values that raised: a `try` in it sees the error

    return Transformed(checkpointed, fun, functools.partial(checkpoint, **options))


def _is_caught(e: Equation) -> bool:
    """Does a `try` stand around an operation that may fail?"""
    return may_fail(e.primitive, e.params) and e.source is not None and is_tried(e.source)


remat = checkpoint


def kept_by(policy: Any, body: Callable[..., Any]) -> tuple[int | None, Callable[..., Any]]:
    """What the policy of a loop says: how many bytes may be kept, and the body, which takes other policies itself."""
    if type(policy) is MemoryBudget:
        return policy.size, body
    return None, body if policy is None else checkpoint(body, policy=policy)


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[Any, str]]:
    """(aval, where it comes from) of every value that reverse mode keeps from the forward pass of f."""
    leaves, in_tree = flat_values((args, kwargs))
    check_leaves(leaves, f"saved_residuals of {name_of(f)}: argument", (args, kwargs), given=True)
    store = OutTree()
    flat, avals = flat_function(f, in_tree, store), [aval_of(x) for x in leaves]
    jaxpr, consts = trace_function(flat, avals, name=f"saved_residuals({name_of(f)})", given=Given(leaves))
    labels = [f"from the argument {_argument(f, path)}" for path in in_tree.paths()]
    labels = ["from a captured value"] * len(consts) + labels
    nonzero = tuple([False] * len(consts) + [is_inexact(aval_of(x)) for x in leaves])
    lin = linearize_jaxpr(jaxpr, nonzero)
    found: list[tuple[Any, str]] = []
    for kind, spec in lin.residuals:
        if kind == "in":
            found.append((jaxpr.inputs[spec].aval, labels[spec]))
        elif kind == "const":
            found.append((aval_of(spec), "from a constant"))
        else:
            i = spec if kind == "out" else lin.n_outputs + spec
            all_labels = [*["from a constant"] * len(lin.consts), *labels]
            found.append((lin.forward.outputs[i].aval, _producer(lin.forward, i, all_labels)))
    return found


def _argument(f: Any, path: Sequence[Any]) -> str:
    """`x['w']` for the path of a leaf in (args, kwargs)."""
    is_keyword, which, rest = path[0].idx == 1, path[1], path[2:]
    if is_keyword:
        return f"{which.key}{tree.keystr(rest)}"
    names = positional_names(f)
    return f"{names[which.idx] if which.idx < len(names) else which.idx}{tree.keystr(rest)}"


def _producer(jaxpr: Jaxpr, i: int, labels: Sequence[str]) -> str:
    """How output i of a program was computed, looking into the programs that it calls."""
    atom = jaxpr.outputs[i]
    if type(atom) is Literal:
        return "from a constant"
    for v, label in zip(jaxpr.inputs, labels):
        if v is atom:
            return label
    for e in jaxpr.equations:
        if atom in e.outputs:
            programs = subjaxprs(e.params)
            if len(programs) == 1 and len(programs[0].outputs) == len(e.outputs):
                return _producer(programs[0], e.outputs.index(atom), ["an input of the program"] * len(programs[0].inputs))
            name = f"named {e.params['name']!r}" if e.primitive is name_p else f"output of {shown_as(e)}"
            return name + (f" from {e.source}" if e.source is not None else "")
    return "an input of the program"


@api
def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Print the shape, dtype and origin of every value that reverse mode keeps from the forward pass of f.

    Parameters
    ----------
    f : callable
        The function; it is traced, not run.
    *args, **kwargs : array, number or ShapeDtypeStruct
        Its arguments, of which only shapes and dtypes matter.

    Returns
    -------
    None

    Raises
    ------
    TracerBoolConversionError
        f asks for a value; other errors are those of f.

    Notes
    -----
    Use it to see what a `checkpoint` saves. As `jax.ad_checkpoint.print_saved_residuals`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.print_saved_residuals(funcad.checkpoint(lambda x: np.sin(np.sin(x))), 1.0)
    float from the argument x

    See also
    --------
    checkpoint, checkpoint_name
    """
    for aval, text in saved_residuals(f, *args, **kwargs):
        print(aval, text)
