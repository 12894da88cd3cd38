"""`cond` and `switch`: of several functions, run one.

When the predicate has a value, only the chosen function is called, directly, untraced: recursion works and the others may
raise. Otherwise all are traced, as staging traces, so that an operation on outer values stays in its branch; the captured
values of all branches are operands of one `cond_p(index, captured, operands)`, and at run time only the chosen branch runs.
Its derivative is a `cond` on the same index: branches hand over their residuals in shared slots, zeros in those of the others.
Under vmap with a batched index each branch runs if some lane takes it, on borrowed inputs for the lanes that do not (see
primitives/lanes.py), so a branch that is not taken can neither fail nor poison a derivative; a branch with effects is run lane
by lane instead.

Trap: branches that return other kinds of numbers (1 and 1.5, a float32 and 0.1) adapt to each other in a program, and un-jitted
each returns its own. So jit decides by the value there, as for Python's `if`, if it can tell it. A float beside a float64
adapts all the same: the number stays the same, and one program is much faster.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from funcad.api.border import api, call_as, name_of, on_copies, own_memory, unaliased
from funcad.api.value_reads import asked
from funcad.backends.engines import program_of
from funcad.control.backward_bodies import joined_tangents, kinds_of_tangents, masked_branch, masked_branches, parts_of
from funcad.control.body import check_functions, check_structure, leaf_path, prepare, to_agree, unified
from funcad.control.call import coerce, compact, fill_zeros, interned, memoised, rewire, scatter
from funcad.control.loop_rules import lane_by_lane
from funcad.host.where import noted, state
from funcad.ir.aval import StackAval, aval_of, dtype_of, said, shape_of, strip_literal
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var, split
from funcad.ir.primitive import Primitive, is_linear
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer, concrete_value, value_key
from funcad.masks.masks import EVERY, kinds_of, mask_of
from funcad.primitives.comparison import eq, ge, le
from funcad.primitives.conversion import convert
from funcad.primitives.lanes import any_lane, pick_lanes, select_lanes
from funcad.primitives.placement import on_device_of
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.partial import Halves, linearize_jaxpr, partial_jaxpr, split_jaxpr, unknown_outputs
from funcad.transforms.transpose import needs_of, transpose_jaxpr
from funcad.unjitted.strides import Given

_INDEX = np.dtype(np.int64)
_CALLED = "cond(pred, f, g, *operands) and switch(i, [f, g], *operands) call a branch with the operands"


def _impl(xp: Any, index: Any, *operands: Any, branches: tuple[Jaxpr, ...]) -> list:
    i = min(max(int(index), 0), len(branches) - 1)
    return program_of(branches[i]).run(operands)


def _abstract(index: Any, *avals: Any, branches: tuple[Jaxpr, ...]) -> list:
    return [strip_literal(o.aval) for o in branches[0].outputs]


# ---------------------------------------------------------------- branches derived together


class _BranchOperands:
    """The operands that several branches share: each value once, in the order of its first use."""

    def __init__(self, values: Sequence[Any] = ()) -> None:
        self.values: list[Any] = list(values)
        self.places: dict[object, int] = {value_key(v): i for i, v in enumerate(self.values)}

    def place(self, value: Any) -> int:
        i = self.places.get(value_key(value))
        if i is None:
            i = self.places[value_key(value)] = len(self.values)
            self.values.append(value)
        return i


def _placed(jaxpr: Jaxpr, places: Sequence[int], avals: Sequence[Any]) -> Jaxpr:
    """The branch as a function of all operands, of which it reads those at `places`."""
    inputs: list[Any] = [None] * len(avals)
    for v, i in zip(jaxpr.inputs, places):
        inputs[i] = v
    return rewire(jaxpr, [v or Var(strip_literal(a)) for v, a in zip(inputs, avals)], jaxpr.outputs)


def _with_captured(derived: Sequence[tuple[Jaxpr, list[Any]]]) -> tuple[tuple[Jaxpr, ...], list[Any]]:
    """Branches whose leading inputs are the captured values of all of them."""
    captured = [c for _, consts in derived for c in consts]
    branches, start = [], 0
    for jaxpr, consts in derived:
        own, rest = split(jaxpr.inputs, len(consts))
        others = [Var(strip_literal(aval_of(c))) for c in captured]
        others[start : start + len(consts)] = own
        branches.append(rewire(jaxpr, [*others, *rest], jaxpr.outputs))
        start += len(consts)
    return tuple(branches), captured


def _with_zeros(jaxpr: Jaxpr, found: Sequence[bool], wanted: Sequence[bool], avals: Sequence[Any], n_first: int) -> Jaxpr:
    """The branch with a zero for each output that is wanted but was not found; the first n_first outputs stay."""
    first, rest = split(jaxpr.outputs, n_first)
    full = scatter(rest, found)
    atoms, equations = fill_zeros([a for a, w in zip(full, wanted) if w], [a for a, w in zip(avals, wanted) if w])
    return rewire(jaxpr, jaxpr.inputs, [*first, *atoms], equations)


def _union(masks: Sequence[Sequence[bool]]) -> tuple[bool, ...]:
    return tuple([any(column) for column in zip(*masks)])


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, branches: tuple[Jaxpr, ...]) -> tuple[list, list]:
    index, *operands = primals
    kinds = kinds_of_tangents(tangents[1:])
    n = len(branches[0].outputs)

    def make() -> tuple[tuple[Jaxpr, ...], list[Any], tuple]:
        derived = [masked_branch(b, kinds, None) for b in branches]
        wanted = tuple(map(_common, branches[0].out_avals, zip(*[found for _, _, found in derived])))
        if any([found != wanted for _, _, found in derived]):
            derived = [masked_branch(b, kinds, wanted) for b in branches]
        return (*_with_captured([(program, consts) for program, consts, _ in derived]), wanted)

    derived, captured, wanted = memoised(branches[0], ("cond_jvp", branches[1:], kinds), make)
    ts, bools = parts_of(kinds, tangents[1:], branches[0].in_avals)
    outs = cond_p(index, *captured, *operands, *ts, *bools, branches=derived)
    return outs[:n], joined_tangents(wanted, iter(outs[n:]))


def _common(aval: Any, kinds: Sequence[Any]) -> Any:
    """What a tangent is if the branches give these kinds: a branch without one leads nowhere."""
    given = [k for k in kinds if k is not None]
    if not given:
        return None
    if type(aval) is StackAval:  # how many elements there are is not known here
        return min(given)
    return EVERY if EVERY in given or len(given) < len(kinds) else 0


def _linearize(primals: Sequence[Any], tangents: Sequence[Any], *, branches: tuple[Jaxpr, ...]) -> tuple[list, list]:
    index, operands = primals[0], list(primals[1:])
    ts, nonzero = compact(tangents[1:])

    def make() -> tuple:
        t_avals = [a for a, z in zip(branches[0].in_avals, nonzero) if z]
        avals = branches[0].out_avals
        return _halves([linearize_jaxpr(b, nonzero) for b in branches], branches[0].in_avals, avals, t_avals, avals)

    halves = memoised(branches[0], ("cond_linearize", branches[1:], nonzero), make)
    return _run_halves(halves, index, operands, ts, len(branches[0].outputs))


def _run_halves(halves: tuple, index: Any, operands: list[Any], ts: list[Any], n: int) -> tuple[list, list]:
    """The n outputs of the forward branches, and the outputs of the linear ones (None: zero)."""
    forward, captured, linear, sources, wanted = halves
    outs = cond_p(index, *captured, *operands, branches=forward)
    if not any(wanted):
        return outs[:n], [None] * len(wanted)
    where = {"in": operands, "out": outs[:n], "new": outs[n:]}
    residuals = [s if kind == "const" else where[kind][s] for kind, s in sources]
    touts = cond_p(index, *residuals, *ts, branches=linear)
    return outs[:n], scatter(touts, wanted)


def _halves(
    lins: Sequence[Halves],
    in_avals: Sequence[Any],
    out_avals: Sequence[Any],
    t_avals: Sequence[Any],
    tout_avals: Sequence[Any],
) -> tuple:
    """(forward branches, captured, linear branches, sources of the linear branches' residuals, nonzero outputs).

    New residuals of equal aval share a slot: a branch fills its own slots and puts zeros into the others.
    """
    n = len(out_avals)
    wanted = _union([lin.out_nonzero for lin in lins])
    slots: list[Any] = []  # avals of the new residuals
    sources: list[tuple[str, Any]] = []
    places: dict[Any, int] = {}
    filled, per_branch = [], []

    def place(kind: str, source: Any) -> int:
        key = (kind, value_key(source) if kind == "const" else source)
        if key not in places:
            places[key] = len(sources)
            sources.append((kind, source))
        return places[key]

    for lin in lins:
        first, new = split(lin.forward.outputs, n)
        free = list(range(len(slots)))
        own: dict[int, int] = {}
        for k, atom in enumerate(new):
            aval = strip_literal(atom.aval)
            slot = next((s for s in free if slots[s] == aval), None)
            if slot is None:
                slot = len(slots)
                slots.append(aval)
            else:
                free.remove(slot)
            own[k] = slot
        filled.append((lin, first, {slot: new[k] for k, slot in own.items()}))
        per_branch.append([place(kind, own[s] if kind == "new" else s) for kind, s in lin.residuals])

    forward = []
    for lin, first, by_slot in filled:
        atoms, equations = fill_zeros([by_slot.get(s) for s in range(len(slots))], slots)
        forward.append((rewire(lin.forward, lin.forward.inputs, [*first, *atoms], equations), lin.consts))
    where = {"in": in_avals, "out": out_avals, "new": slots}
    avals = [*[aval_of(s) if kind == "const" else where[kind][s] for kind, s in sources], *map(strip_literal, t_avals)]
    linear = []
    for lin, mine in zip(lins, per_branch):
        program = _with_zeros(lin.linear, lin.out_nonzero, wanted, tout_avals, 0)
        linear.append(_placed(program, [*mine, *range(len(sources), len(avals))], avals))
    joined, captured = _with_captured(forward)
    return joined, captured, tuple(linear), sources, wanted


def _partial_eval(linear: tuple[bool, ...], *, branches: tuple[Jaxpr, ...]) -> tuple:
    """The outputs that no branch makes of a linear operand."""
    n = len(branches[0].outputs)
    if linear[0]:
        return (True,) * n, None
    out_linear = _union([unknown_outputs(b, linear[1:]) for b in branches]) if n else ()

    def run(args: Sequence[Any]) -> list[Any]:
        def make() -> tuple[tuple[Jaxpr, ...], list[Any]]:
            return _with_captured([partial_jaxpr(b, linear[1:], out_linear)[:2] for b in branches])

        derived, captured = memoised(branches[0], ("cond_known", branches[1:], linear), make)
        index, *known = [x for x, lin in zip(args, linear) if not lin]
        outs = cond_p(index, *captured, *known, branches=derived)
        return scatter(outs, [not lin for lin in out_linear])

    return out_linear, run


def _split(linear: tuple[bool, ...], args: Sequence[Any], *, branches: tuple[Jaxpr, ...]) -> list[Any]:
    flags = linear[1:]
    in_avals, out_avals = branches[0].in_avals, branches[0].out_avals

    def make() -> tuple:
        out_linear = _union([unknown_outputs(b, flags) for b in branches])
        known, tangents = [[a for a, lin in zip(in_avals, flags) if lin is wanted] for wanted in (False, True)]
        known_outs = [a for a, lin in zip(out_avals, out_linear) if not lin]
        return _halves([split_jaxpr(b, flags, out_linear) for b in branches], known, known_outs, tangents, out_avals)

    halves = memoised(branches[0], ("cond_split", branches[1:], flags), make)
    out_linear = halves[-1]
    known, tangents = [[x for x, lin in zip(args[1:], flags) if lin is wanted] for wanted in (False, True)]
    outs, touts = _run_halves(halves, args[0], known, tangents, out_linear.count(False))
    values = iter(outs)
    return [t if lin else next(values) for t, lin in zip(touts, out_linear)]


def _transpose(cts: Sequence[Any], index: Any, *inputs: Any, branches: tuple[Jaxpr, ...]) -> list[Any]:
    linear = tuple([is_linear(x) for x in inputs])
    given, nonzero = compact(cts)
    avals = [a for a, is_lin in zip(branches[0].in_avals, linear) if is_lin]

    def make() -> tuple[tuple[Jaxpr, ...], list[Any], tuple[bool, ...]]:
        derived = [transpose_jaxpr(b, linear, nonzero) for b in branches]
        wanted = _union([found for _, _, found in derived])
        filled = [(_with_zeros(j, found, wanted, avals, 0), consts) for j, consts, found in derived]
        return (*_with_captured(filled), wanted)

    derived, captured, wanted = memoised(branches[0], ("cond_transpose", branches[1:], linear, nonzero), make)
    known = [x for x in inputs if not is_linear(x)]
    outs = cond_p(index, *captured, *known, *given, branches=derived)
    return [None, *scatter(scatter(outs, wanted), linear)]


def _needs(linear: tuple[bool, ...], wanted: tuple[int, ...], *, branches: tuple[Jaxpr, ...]) -> tuple[int, ...]:
    return tuple([max(column) for column in zip(*[needs_of(b, linear[1:], wanted[1:]) for b in branches])])


def _masked(
    cts: Sequence[Any], masks: Any, wanted: Any, index: Any, *inputs: Any, branches: tuple[Jaxpr, ...]
) -> list[Any]:
    """A branch that does not lead to an operand masks all of its cotangent."""
    linear = tuple([is_linear(x) for x in inputs])
    kinds, bools = kinds_of(cts, masks)
    of_linear = tuple([n for n, lin in zip(wanted[1:], linear) if lin])

    def make() -> tuple:
        derived, found, masked = masked_branches(branches, linear, kinds, of_linear)
        return (*_with_captured(derived), found, masked)

    key = ("cond_masked", branches[1:], linear, kinds, of_linear)
    derived, captured, found, masked = memoised(branches[0], key, make)
    values = [*[x for x in inputs if not is_linear(x)], *[c for c in cts if c is not None], *bools]
    outs = cond_p(index, *captured, *values, branches=derived)
    n = found.count(True)
    pairs = zip(scatter(outs[:n], found), scatter([mask_of(b, False) for b in outs[n:]], masked))
    return [(None, None), *[next(pairs) if lin else (None, None) for lin in linear]]


# ---------------------------------------------------------------- batching


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, branches: tuple[Jaxpr, ...]) -> tuple[list, list]:
    index, operands = args[0], list(args[1:])
    flags = tuple(batched[1:])
    n = len(branches[0].outputs)
    if not batched[0]:

        def make() -> tuple[tuple[Jaxpr, ...], list[Any], tuple[bool, ...]]:
            wanted = _union([batch_jaxpr(b, size, flags)[2] for b in branches]) if n else ()
            return (*_with_captured([batch_jaxpr(b, size, flags, wanted)[:2] for b in branches]), wanted)

        key = ("cond_batch", branches[1:], size, flags, state.batching)
        derived, captured, wanted = memoised(branches[0], key, make)
        return cond_p(index, *captured, *operands, branches=derived), list(wanted)
    if any(b.has_effects for b in branches):
        outs = lane_by_lane(size, args, batched, cond_p, {"branches": branches})
        return outs, [True] * n
    result: list[Any] = []
    for i, branch in enumerate(branches):
        compare = le if i == 0 else ge if i == len(branches) - 1 else eq
        mask = compare(index, i)
        outs = _run_lanes(size, mask, branch, operands, flags)
        result = [select_lanes(mask, new, old) for new, old in zip(outs, result)] if result else outs
    return result, [True] * n


def _run_lanes(size: int, mask: Any, branch: Jaxpr, operands: list[Any], flags: tuple[bool, ...]) -> list[Any]:
    """The batched branch, if any lane takes it; what idle lanes get from it is not to be used."""
    every = (True,) * len(branch.outputs)
    derived, captured, _ = batch_jaxpr(branch, size, flags, every)
    if state.batching is not None and state.batching in branch.axis_names:  # a collective reads the real inputs of every lane
        return eval_jaxpr(derived, [*on_device_of(captured, operands), *operands])

    def make() -> tuple[tuple[Jaxpr, Jaxpr], list[Any]]:
        m = len(captured)

        def taken(mask: Any, *values: Any) -> list[Any]:
            mine, inputs = split(values, m)
            inputs = [pick_lanes(x, mask) if b else x for x, b in zip(inputs, flags)]
            return eval_jaxpr(derived, [*mine, *inputs])

        avals = [strip_literal(a) for a in (aval_of(mask), *derived.in_avals)]
        jaxpr, consts = trace_function(taken, avals, name="vmap", abstract=False)
        atoms, equations = fill_zeros([None] * len(every), [strip_literal(o.aval) for o in jaxpr.outputs])
        idle = Jaxpr(tuple(Var(v.aval) for v in jaxpr.inputs), tuple(equations), tuple(atoms))
        return (idle, jaxpr), consts

    branches, consts = memoised(derived, ("lanes", flags), make)
    return cond_p(convert(any_lane(mask), _INDEX), *consts, mask, *captured, *operands, branches=branches)


cond_p = Primitive(
    "cond",
    _impl,
    _abstract,
    primal_and_jvp=_jvp,
    linearize=_linearize,
    partial_eval=_partial_eval,
    split=_split,
    transpose=_transpose,
    needs=_needs,
    masked=_masked,
    takes_masks=True,
    batch=_batch,
    multiple=True,
    may_share=True,
)


# ---------------------------------------------------------------- the user's functions


@api
def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """`true_fun(*operands) if pred else false_fun(*operands)`, also where pred has no value yet.

    Parameters
    ----------
    pred : bool or number, or an array of shape ()
        A number counts as true when it is not zero.
    true_fun, false_fun : callable
        Functions of the operands. They may close over traced values.
    *operands : array, number or container of them
        What the chosen function is called with.

    Returns
    -------
    array or container
        What the chosen function returns.

    Raises
    ------
    TypeError
        Both functions are traced, and return other structures, shapes or dtypes; the message names the path. Python
        scalars adapt.

    Notes
    -----
    If pred has a value, only the chosen function is called, directly. Otherwise (inside `jit`, `vmap`, `scan`) both are
    traced, and only the chosen one runs. `jit` goes by the value, as for `if`, where they return other kinds of numbers
    (1 and 1.5); with `guards=False`, in `vmap` and in `scan` these adapt. Under `vmap` with a mapped pred, each example gets
    its own branch. As `jax.lax.cond`, except that with a known pred the other function is never traced.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> root = lambda x: funcad.cond(x > 0.0, np.sqrt, lambda x: 0.0 * x, x)
    >>> funcad.vmap(funcad.grad(root))(np.array([4.0, -1.0]))
    array([0.25, 0.  ])
    >>> funcad.cond(True, lambda a, b: {"sum": a + b}, lambda a, b: {"sum": a - b}, 1.0, 2.0)
    {'sum': 3.0}

    See also
    --------
    switch, while_loop
    """
    how = "np.where(pred, a, b) chooses between values, cond(pred, lambda: a, lambda: b) between computations"
    check_functions("cond", how, true_fun, false_fun)
    if _scalar_shape("cond: the predicate", pred) != ():
        raise TypeError(
            f"cond: the predicate must have shape (), got {said(pred)}.\n"
            "Remedy: np.where chooses element by element; np.all or np.any make one answer of them."
        )
    value = concrete_value(pred)
    if type(value) is not Tracer:
        f = true_fun if value else false_fun
        return unaliased(call_as(_CALLED, f, *operands), operands, f)
    return _traced("cond", pred, [true_fun, false_fun], ["true_fun", "false_fun"], operands)


@api
def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """`branches[index](*operands)`, also where the index has no value yet.

    Parameters
    ----------
    index : int, or an integer array of shape ()
        Which branch; it is clamped into the range.
    branches : sequence of callables
        Functions of the operands.
    *operands : array, number or container of them
        What the chosen function is called with.

    Returns
    -------
    array or container
        What the chosen function returns.

    Raises
    ------
    TypeError
        As `cond`; also for an index that is no integer.

    Notes
    -----
    With a known index only that function is called. As `jax.lax.switch`. A list in Python raises for an index beyond
    its end, and counts negative ones from there: this does neither.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.switch(7, [lambda x: x, lambda x: 10 * x], 3)
    30
    >>> pick = lambda i, x: funcad.switch(i, [np.sin, np.cos, np.exp], x)
    >>> funcad.vmap(pick)(np.array([0, 1, 2]), np.zeros(3))
    array([0., 1., 1.])

    See also
    --------
    cond
    """
    how = "switch(index, [f, g], *operands), with lambda: value for a value"
    if callable(branches):
        raise TypeError(f"switch: branches is a list of functions, got {said(branches)}.\nRemedy: {how}.")
    functions = list(branches)
    if not functions:
        raise ValueError("switch: branches is empty; give at least one function")
    check_functions("switch", how, *functions)
    if _scalar_shape("switch: the index", index) != () or dtype_of(index).kind not in "iu":
        raise TypeError(f"switch: the index must be an integer of shape (), got {said(index)}.\nRemedy: index.astype(int).")
    value = concrete_value(index)
    if len(functions) == 1 or type(value) is not Tracer:
        f = functions[0] if len(functions) == 1 else functions[_clamped(value, functions)]
        return unaliased(call_as(_CALLED, f, *operands), operands, f)
    names = [f"branches[{i}]" for i in range(len(functions))]
    return _traced("switch", index, functions, names, operands)


def _scalar_shape(what: str, x: Any) -> tuple:
    try:
        return shape_of(x)
    except TypeError as error:
        raise TypeError(f"{what}: {error}") from None


def _clamped(index: Any, functions: list) -> int:
    return min(max(int(index), 0), len(functions) - 1)


def _changes(given: Any, aval: Any) -> bool:
    """Is the number another one, or of another kind, once it has adapted? A float that becomes a float64 is the same."""
    return given.dtype != aval.dtype or aval.dtype.kind == "b" and given.weak != aval.weak


def _chosen(what: str, index: Any, functions: list) -> Any:
    """The function that is run un-jitted, if jit can tell; lanes of vmap do not part."""
    value = concrete_value(index)
    if getattr(value.owner.recorder, "of_lanes", False):
        return None
    found = asked(value, "bool()" if what == "cond" else "int()")
    if type(found) is Tracer:
        return None
    return functions[not found if what == "cond" else _clamped(found, functions)]


def _traced(what: str, index: Any, functions: list, names: list[str], operands: tuple) -> Any:
    leaves, structure = prepare(what, operands, "operands")
    traces, trees, adapted = [], [], noted.adapted
    for f, name in zip(functions, names):
        jaxpr, captured, out_tree = _trace_branch(what, f, name, leaves, structure)
        traces.append((jaxpr, captured))
        trees.append(out_tree)
    for out_tree, name in zip(trees[1:], names[1:]):
        check_structure(what, out_tree, trees[0], f"the output of {name}", f"the output of {names[0]}")
    avals = _common_avals(what, [j for j, _ in traces], names, trees[0])
    changed = any([_changes(o.aval, a) for jaxpr, _ in traces for o, a in zip(jaxpr.outputs, avals)])
    if changed or noted.adapted != adapted:
        f = _chosen(what, index, functions)
        if f is not None:
            return unaliased(call_as(_CALLED, f, *operands), operands, f)
        noted.adapted += 1
    values = _BranchOperands()
    places = [[values.place(c) for c in captured] for _, captured in traces]
    n = len(values.values)
    all_avals = [strip_literal(aval_of(x)) for x in (*values.values, *leaves)]
    branches = tuple(
        interned(_placed(coerce(jaxpr, avals), [*mine, *range(n, n + len(leaves))], all_avals))
        for (jaxpr, _), mine in zip(traces, places)
    )
    if what == "cond":
        index, branches = convert(index, np.dtype(bool)), branches[::-1]  # false is 0
    index = convert(index, _INDEX)
    inputs = [*values.values, *leaves]
    return trees[0].unflatten(own_memory(cond_p(index, *inputs, branches=branches), inputs))


def _trace_branch(what: str, f: Any, name: str, leaves: list, structure: Any) -> tuple[Jaxpr, list[Any], Any]:
    found: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        out = on_copies(f"{name} of {what}", functools.partial(call_as, _CALLED, f), structure.unflatten(values))
        outs, out_tree = prepare(what, out, f"the output of {name}")
        found[:] = [out_tree]
        return outs

    avals = [strip_literal(aval_of(x)) for x in leaves]
    says = f"{name} of {what} ({name_of(f)})"
    with nullcontext() if state.observer is None else state.observer.stores.none_in(says):
        jaxpr, captured = trace_function(flat, avals, name=says, staging=True, errstate="refused", given=Given(leaves))
    return jaxpr, captured, found[0]


def _common_avals(what: str, jaxprs: list[Jaxpr], names: list[str], structure: Any) -> list[Any]:
    avals = [strip_literal(o.aval) for o in jaxprs[0].outputs]
    for jaxpr, name in zip(jaxprs[1:], names[1:]):
        for i, atom in enumerate(jaxpr.outputs):
            both = unified(avals[i], atom.aval)
            if both is None:
                path = leaf_path(structure, i)
                where, both = f" at {path}" if path else "", f"{avals[i]:a} and {strip_literal(atom.aval):a}"
                raise TypeError(
                    f"{what}: the outputs of {names[0]} and {name} differ{where}: {both}.\n"
                    f"All branches must return the same shapes and dtypes.\nRemedy: {to_agree(avals[i], atom.aval)}."
                )
            avals[i] = both
    return avals
