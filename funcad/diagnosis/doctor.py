"""The doctor: what a recording shows, and the border at which it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import api, checked_pair, name_of, normalize_argnums, positional_names
from funcad.diagnosis.recording import Read, RecordedOperation, Recording, array, follow, same_bits
from funcad.host.devices import namespace_of, restore_warnings, suppress_warnings
from funcad.ir.aval import Stack, aval_of, is_inexact
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.host import HostCall
from funcad.show.pretty import shown_as

from funcad.diagnosis.report import (  # isort: skip
    READS, Argument, Cut, Diagnosis, NotFinite, Site, instead_of_cut, instead_of_slope, instead_of_value,
)

# -- what a recording shows: where values and cotangents stop being finite, what becomes of them, and where derivatives are cut
#
# Idea: nothing is known of particular operations. An operation is at fault if it made something that is not finite from finite
# operands. Whether that matters is found by *replaying* what follows it with a finite number in its place: where the change
# dies away is the mask. An operation cuts if its operand's tangent reaches none of its results.


REPLAYS = 40  # of which each runs the rest of the program again


def bad(x: Any) -> np.ndarray:
    """Which elements are not finite; none of what is no floating-point array."""
    x = array(x)
    return ~np.isfinite(x) if x.dtype.kind in "fc" else np.zeros(x.shape, bool)


def is_bad(x: Any) -> bool:
    return x is not None and bool(bad(x).any())


def _shape(x: Any) -> tuple[int, ...]:
    return array(x).shape


def _first(flags: np.ndarray) -> tuple[int, ...]:
    return tuple(map(int, np.unravel_index(int(np.argmax(flags)), flags.shape))) if flags.ndim else ()


def _at(x: Any, index: tuple[int, ...]) -> complex:
    value: complex = array(x)[index].item()
    return value


def _line(entry: Any) -> str:
    return entry.source.short() if entry.source is not None else ""


def _named(entry: RecordedOperation) -> str:
    return f"{shown_as(entry)} at {_line(entry)}" if entry.source is not None else shown_as(entry)


class _Grouped:
    """Findings of one operation at one line are one finding, with a count."""

    def __init__(self) -> None:
        self.found: dict[tuple, list[Any]] = {}

    def add(self, key: tuple, make: Callable[[], Any]) -> None:
        if key in self.found:
            self.found[key][1] += 1
        else:
            self.found[key] = [make(), 1]


# ---------------------------------------------------------------- replaying


def _replayable(entry: RecordedOperation) -> bool:
    """Can it be computed again, without anything else happening, from its operands alone?"""
    p = entry.primitive
    higher = p.primal_and_jvp is not None or p.linearize is not None
    odd = any(type(x) is Stack for x in (*entry.results, *[u.value for u in entry.uses]))
    return not (p.effect or p.collective or higher or odd or any(isinstance(v, HostCall) for v in entry.params.values()))


def fate(run: Recording, start: int, pairs: dict[int, tuple[Any, Any]]) -> tuple[bool, str, str]:
    """What becomes of values from operation `start` on: `pairs` has them by number, as they are and with the fault mended.

    (does it matter, why it is harmless if not, the line of the mask that hides it). All other faults are taken for mended, or
    of two that spoil one sum each would look harmless.
    """
    pairs = dict(pairs)
    # operations after which both are the same, or the faulty one is finite again
    ends: list[tuple[RecordedOperation, bool]] = []
    lost = False  # behind a cut nothing can be followed
    token = suppress_warnings()
    try:
        for entry in run.entries[start:]:
            hit = [u.node in pairs for u in entry.uses]
            live = [(n, old) for n, old in zip(entry.nodes, entry.results) if n >= 0]
            if not any(hit):
                continue
            if not _replayable(entry):
                pairs.update({n: (old, _mended(old)) for n, old in live})
                continue
            faulty, mended = _both(entry, [pairs.get(u.node) for u in entry.uses])
            different = {n: (x, y) for n, x, y in zip(entry.nodes, faulty, mended) if n >= 0 and not same_bits(x, y)}
            pairs.update(different)
            lost = lost or any(n < 0 and is_bad(x) for n, x in zip(entry.nodes, faulty))
            if not live:
                continue
            was_bad = any(is_bad(pairs[u.node][0]) for u, h in zip(entry.uses, hit) if h)
            if not different or (was_bad and not any(is_bad(x) for x, _ in different.values())):
                ends.append((entry, not different))
    finally:
        restore_warnings(token)
    reaches = any(is_bad(pairs[node][0]) for _, node in run.outputs if node in pairs)
    if reaches or lost and any(is_bad(v) for v, _ in run.outputs):
        return True, "", ""
    masks = [e for e, dies in ends if dies and _selects(e)]
    if masks:
        return False, f"hidden by the mask at {_line(masks[-1])}", _line(masks[-1])
    if ends:
        entry, dies = ends[-1]
        return False, f"{'without effect' if dies else 'finite again'} after {_named(entry)}", ""
    return False, "nothing of the result is made from it", ""


def _both(entry: RecordedOperation, pairs: Sequence[tuple[Any, Any] | None]) -> tuple[list[Any], list[Any]]:
    """The results with the faulty operands and with the mended ones; the operands without a pair are mended in both."""
    worlds = []
    for i in (0, 1):
        operands = [_mended(u.value) if pair is None else pair[i] for u, pair in zip(entry.uses, pairs)]
        out = entry.primitive.impl(np, *operands, **entry.params)
        worlds.append(list(out) if entry.primitive.multiple else [out])
    return worlds[0], worlds[1]


def _mended(x: Any) -> Any:
    """x with ones in place of what is not finite."""
    flags = bad(x)
    if not flags.any():
        return x
    new = np.array(x)
    new[flags] = 1.0
    return new if new.ndim else new[()]


def _selects(entry: RecordedOperation) -> bool:
    """Does it choose or move elements, by a mask or by position?"""
    by_mask = any(array(u.value).dtype.kind == "b" for u in entry.uses)
    return by_mask or entry.primitive.structural or entry.primitive.silent


# ---------------------------------------------------------------- forward


def forward_findings(run: Recording, paths: Sequence[str]) -> tuple[NotFinite, ...]:
    """Values that are not finite, each where it was made."""
    grouped = _Grouped()
    budget = iter(range(REPLAYS))
    for path, node in zip(paths, run.leaves):
        if node >= 0:
            value = run.values[node]
            if is_bad(value):
                grouped.add(("argument", path), lambda p=path, v=value, n=node: _argument(run, p, v, n, budget))  # type: ignore[misc]
    for i, entry in enumerate(run.entries):
        for u in entry.uses:
            if u.node < 0 and is_bad(u.value):
                key = ("outside", entry.primitive, entry.source)
                grouped.add(key, lambda e=entry, u=u, i=i: _from_outside(run, e, u, i, budget))  # type: ignore[misc]
        for j, result in enumerate(entry.results):
            flags = _own_fault(entry, result)
            if flags.any():
                key = ("made", entry.primitive, entry.source)
                grouped.add(key, lambda e=entry, i=i, j=j, f=flags: _made(run, e, i, j, f, budget))  # type: ignore[misc]
    found = [_counted(n, count) for n, count in grouped.found.values()]
    found = [n for n in found if n is not None]
    if all(n.harmless for n in found) and any(is_bad(v) for v, _ in run.outputs):  # none would have done it without another
        found = [n if n.harmless.startswith("hidden") else replace(n, harmless="") for n in found]
    return tuple(found)


def _counted(found: Any, count: int) -> Any:
    return found if count == 1 or found is None else replace(found, times=count)


def _own_fault(entry: RecordedOperation, result: Any) -> np.ndarray:
    """The elements of a result that are not finite though what they are made of is."""
    flags = bad(result)
    if not flags.any():
        return flags
    if entry.primitive.emit is None and entry.primitive.ufunc is None:  # an element depends on who knows which others
        return flags & (not any(is_bad(u.value) for u in entry.uses))
    for u in entry.uses:
        theirs = bad(u.value)
        if theirs.shape in (flags.shape, ()):
            flags = flags & ~theirs
        elif theirs.any():
            return np.zeros(flags.shape, bool)
    return flags


def _fate(run: Recording, start: int, pairs: dict[int, tuple[Any, Any]], budget: Iterator[int]) -> tuple[bool, str, str]:
    if next(budget, None) is None:  # too many to follow: the result tells
        matters = any(is_bad(v) for v, _ in run.outputs)
        return matters, "" if matters else "the result is finite", ""
    return fate(run, start, pairs)


def _made(run: Recording, entry: RecordedOperation, i: int, j: int, flags: np.ndarray, budget: Iterator[int]) -> NotFinite:
    index = _first(flags)
    result, node = entry.results[j], entry.nodes[j]
    harmless = mask = ""
    if node >= 0:
        _, harmless, mask = _fate(run, i + 1, {node: (result, _mended(result))}, budget)
    elif not any(is_bad(v) for v, _ in run.outputs):
        harmless = "the result is finite"
    given = tuple([_at(u.value, index if _shape(u.value) else ()) for u in entry.uses if _fits(u.value, flags.shape)])
    nan = "" if np.isnan(_at(result, index)) or harmless else _becomes_nan(run, i, node)
    instead = "" if harmless and mask else instead_of_value(Site(run, entry, mask))
    return NotFinite("forward", shown_as(entry), _line(entry), entry.inside, _at(result, index), index,
                     _culprit(entry, j, index), given, None, harmless, nan, instead, 1)  # fmt: skip


def _culprit(entry: RecordedOperation, j: int, index: tuple[int, ...]) -> int | None:
    """The operand that is to blame: with another number in its place the result is finite there."""
    if len(entry.uses) == 1:
        return 0
    if not _replayable(entry) or entry.primitive.emit is None and entry.primitive.ufunc is None:
        return None
    token = suppress_warnings()
    try:
        for i in reversed(range(len(entry.uses))):
            other = [array(u.value).dtype.type(1) if k == i else u.value for k, u in enumerate(entry.uses)]
            shape = array(entry.uses[i].value).shape
            other[i] = np.broadcast_to(other[i], shape) if shape else other[i]
            out = entry.primitive.impl(np, *other, **entry.params)
            if not bad(out[j] if entry.primitive.multiple else out)[index]:
                return i
    finally:
        restore_warnings(token)
    return None


def _fits(x: Any, shape: tuple[int, ...]) -> bool:
    x = array(x)
    return x.shape in (shape, ()) and x.dtype.kind in "biufc"


def _argument(run: Recording, path: str, value: Any, node: int, budget: Iterator[int]) -> NotFinite:
    flags = bad(value)
    index = _first(flags)
    _, harmless, _ = _fate(run, 0, {node: (value, _mended(value))}, budget)
    nan = "" if np.isnan(_at(value, index)) or harmless else _becomes_nan(run, -1, node)
    return NotFinite("forward", f"argument {path}", "", (), _at(value, index), index, None, (), None, harmless, nan, "", 1)


def _from_outside(run: Recording, entry: RecordedOperation, use: Any, i: int, budget: Iterator[int]) -> NotFinite | None:
    """A captured array or a number; None for a number that does no harm, such as the -inf of a mask."""
    flags = bad(use.value)
    index = _first(flags)
    harmless, nan = "", ""
    if _replayable(entry):
        token = suppress_warnings()
        try:
            given = (use.value, _mended(use.value))
            faulty, mended = _both(entry, [given if u is use else None for u in entry.uses])
        finally:
            restore_warnings(token)
        pairs = {n: (x, y) for n, x, y in zip(entry.nodes, faulty, mended) if n >= 0 and not same_bits(x, y)}
        harmless = _fate(run, i + 1, pairs, budget)[1] if pairs else f"without effect after {_named(entry)}"
    if harmless and not flags.ndim:
        return None
    if not harmless and not np.isnan(_at(use.value, index)):
        nan = _becomes_nan(run, i - 1, None, first=i)
    return NotFinite("forward", "value from outside", _line(entry), entry.inside, _at(use.value, index), index, None, (), None,
                     harmless, nan, "", 1)  # fmt: skip


def _becomes_nan(run: Recording, start: int, node: int | None, first: int = -1) -> str:
    """The first operation after `start`, of those that the value leads to, that makes a NaN of operands without one."""
    reached = set() if node is None else {node}
    for number, entry in enumerate(run.entries[start + 1 :], start + 1):
        if number != first and not any(u.node in reached for u in entry.uses):
            continue
        reached.update([n for n in entry.nodes if n >= 0])
        if any(_nan(r) for r in entry.results) and not any(_nan(u.value) for u in entry.uses):
            return _named(entry)
    return ""


def _nan(x: Any) -> bool:
    x = array(x)
    return x.dtype.kind in "fc" and bool(np.isnan(x).any())


# ---------------------------------------------------------------- backward


def backward_findings(run: Recording) -> tuple[NotFinite, ...]:
    """Cotangents that are not finite, each where it was made, last operation first; then slopes that masks kept away."""
    grouped, slopes = _Grouped(), _Grouped()
    budget = iter(range(REPLAYS))
    for i, entry in reversed(list(enumerate(run.entries))):
        incoming = [_incoming(run, n) for n in entry.nodes]
        wrong = [k for k, u in enumerate(entry.uses) if is_bad(run.cotangent(u))]
        key = (entry.primitive, entry.source)
        if wrong and not any(is_bad(ct) for ct in incoming):
            grouped.add(key, lambda e=entry, i=i, k=wrong[0], c=incoming: _passed_back(run, e, i, k, c, budget))  # type: ignore[misc]
        elif not wrong and entry.slopes and not any(is_bad(x) for x in (*entry.results, *[u.value for u in entry.uses])):
            for slope in entry.slopes:
                if is_bad(slope):
                    slopes.add(key, lambda e=entry, i=i, s=slope: _hidden_slope(run, e, i, s, budget))  # type: ignore[misc]
    found = [*grouped.found.values(), *slopes.found.values()]
    return tuple([_counted(n, count) for n, count in found])


def _incoming(run: Recording, node: int) -> Any:
    """The cotangent of a value: the sum of those of its uses."""
    total = run.seeds.get(node)
    for number, operand in run.users.get(node, []):
        ct = run.cotangent(run.entries[number].uses[operand])
        if ct is not None:
            total = ct if total is None else total + ct
    return total


def _passed_back(
    run: Recording, entry: RecordedOperation, i: int, k: int, incoming: list[Any], budget: Iterator[int]
) -> NotFinite:
    use = entry.uses[k]
    ct = run.cotangent(use)
    flags = bad(ct)
    index = _first(flags)
    came = incoming[0] if len(incoming) == 1 else None
    cotangent = _at(came, index if _shape(came) else ()) if came is not None and _fits(came, flags.shape) else None
    given = (_at(use.value, index),) if _shape(use.value) == flags.shape else ()
    mask = ""
    if cotangent == 0 and entry.nodes[0] >= 0 and _shape(entry.results[0]) == flags.shape:
        moved = np.array(entry.results[0])
        moved[index] = 1.0 if moved[index] != 1.0 else 2.0
        mask = _fate(run, i + 1, {entry.nodes[0]: (entry.results[0], moved if moved.ndim else moved[()])}, budget)[2]
    harmless = _ends_before_arguments(run, use.node)
    nan = "" if np.isnan(_at(ct, index)) or harmless else _becomes_nan_backward(run, i)
    instead = "" if harmless else instead_of_slope(Site(run, entry, mask))
    if instead and any(is_bad(u.value) for u in entry.uses):
        instead = "mend the forward values first: an operand is not finite here"
    return NotFinite("backward", shown_as(entry), _line(entry), entry.inside, _at(ct, index), index, k, given, cotangent,
                     harmless, nan, instead, 1)  # fmt: skip


def _hidden_slope(run: Recording, entry: RecordedOperation, i: int, slope: Any, budget: Iterator[int]) -> NotFinite:
    flags = bad(slope)
    index = _first(flags)
    harmless = "no cotangent that is not zero meets it"
    if entry.nodes[0] >= 0 and _shape(entry.results[0]) == flags.shape:
        moved = np.array(entry.results[0])
        moved[flags] = np.where(moved[flags] != 1.0, 1.0, 2.0)
        found = _fate(run, i + 1, {entry.nodes[0]: (entry.results[0], moved if moved.ndim else moved[()])}, budget)
        harmless = found[1] if found[2] else harmless
    given = tuple([_at(u.value, index) for u in entry.uses if _shape(u.value) == flags.shape])
    return NotFinite("slope", shown_as(entry), _line(entry), entry.inside, _at(slope, index), index, None, given, None,
                     harmless, "", "", 1)  # fmt: skip


def _ends_before_arguments(run: Recording, node: int) -> str:
    """Where cotangents that are not finite end on their way back from a value, if they reach no argument; empty if they do."""
    waiting, seen, end = [node], {node}, ""
    leaves = {n: g for n, g in zip(run.leaves, run.gradients) if n >= 0}
    while waiting:
        at = waiting.pop()
        if at in leaves:
            if is_bad(leaves[at]):
                return ""
            continue
        made = run.maker.get(at)
        if made is None:
            continue
        entry = run.entries[made[0]]
        on = [u.node for u in entry.uses if u.node >= 0 and is_bad(run.cotangent(u))]
        if not on:
            how = "hidden by the mask" if _selects(entry) else f"finite again after {shown_as(entry)}"
            end = f"{how} at {_line(entry)}"
        waiting += [n for n in on if n not in seen]
        seen.update(on)
    return end or "no argument's gradient is made from it"


def _becomes_nan_backward(run: Recording, start: int) -> str:
    for entry in reversed(run.entries[:start]):
        incoming = [_incoming(run, n) for n in entry.nodes]
        if any(is_bad(ct) for ct in incoming) and not any(_nan(ct) for ct in incoming if ct is not None):
            if any(_nan(run.cotangent(u)) for u in entry.uses if run.cotangent(u) is not None):
                return _named(entry)
    return ""


# ---------------------------------------------------------------- cuts


def arguments(
    run: Recording, paths: Sequence[str], leaves: Sequence[Any], shown: Sequence[bool]
) -> tuple[Argument, ...]:
    """Each leaf that is to be shown, with its cuts in the order of the program."""
    reaching: dict[int, frozenset[int]] = {n: frozenset([i]) for i, n in enumerate(run.leaves) if n >= 0}
    used: set[int] = set()
    for entry in run.entries:
        used = used.union(*[reaching.get(u.node, frozenset()) for u in entry.uses])
        for n, depends in zip(entry.nodes, entry.reached):
            if n >= 0:
                reaching[n] = frozenset().union(*[reaching.get(entry.uses[i].node, frozenset()) for i in depends])
    passed = _passed(run, reaching)
    cuts: list[_Grouped] = [_Grouped() for _ in paths]
    for entry in run.entries:
        for i, u in enumerate(entry.uses):
            if u.variable is None or any(i in r for r in entry.reached) or not entry.results or not array(u.value).size:
                continue
            for leaf in sorted(reaching.get(u.node, frozenset()) - passed.get(entry.call, frozenset())):
                cuts[leaf].add((entry.primitive, entry.source), lambda e=entry: _cut(run, e))  # type: ignore[misc]
    for read in run.reads:
        for leaf in sorted(reaching.get(read.node, ())):
            cuts[leaf].add((read.how, read.source), lambda r=read: _read(r))  # type: ignore[misc]
    arrived = frozenset().union(*[reaching.get(n, frozenset()) for _, n in run.outputs])
    result = []
    for i, (path, x, node) in enumerate(zip(paths, leaves, run.leaves)):
        if not shown[i]:
            continue
        found = tuple([_counted(c, count) for c, count in cuts[i].found.values()])
        part = "" if node < 0 else "in part" if i in arrived else "whole" if found else "unused"
        if part == "in part" and not [c for c in found if c.kind != "choice"]:
            part = ""
        result.append(Argument(path, aval_of(x).short.replace("*", ""), part, _gradient(run, i), found))
    return tuple(result)


def _passed(run: Recording, reaching: dict[int, frozenset[int]]) -> dict[int, frozenset[int]]:
    """By number of a call, the leaves whose derivative leaves it towards a result of the run.

    What such a call cuts is its own affair: `np.interp` searches the interval, but its result has the derivative all the same.
    """
    live = {node for _, node in run.outputs if node >= 0}
    passed: dict[int, frozenset[int]] = {}
    for entry in reversed(run.entries):
        for n, depends in zip(entry.nodes, entry.reached):
            if n not in live:
                continue
            live.update([entry.uses[i].node for i in depends])
            elsewhere = any(run.entries[k].call != entry.call for k, _ in run.users.get(n, []))
            if elsewhere or any(n == node for _, node in run.outputs):
                passed[entry.call] = passed.get(entry.call, frozenset()) | reaching[n]
    return passed


def _gradient(run: Recording, i: int) -> str:
    if run.leaves[i] < 0:
        return "none"
    gradient = run.gradients[i]
    if gradient is None:
        return "zero"
    flags = bad(gradient)
    if not flags.any():
        return "finite"
    index = _first(flags)
    value = "nan" if np.isnan(_at(gradient, index)) else "inf"
    return f"{value} at {list(index)}" if index else value


def _read(read: Read) -> Cut:
    return Cut(read.how, "read", _line(read), read.inside, READS[read.how], 1)


def _cut(run: Recording, entry: RecordedOperation) -> Cut:
    kinds = {array(r).dtype.kind for r in entry.results}
    kind = "choice" if kinds <= {"b"} else "integer" if kinds <= set("biu") else "step"
    if entry.primitive is stop_gradient:
        kind = "asked for"
    return Cut(shown_as(entry), kind, _line(entry), entry.inside, instead_of_cut(Site(run, entry)), 1)


# -- the border of the doctor: arguments in, one run, the report out


def diagnose(f: Callable[..., Any], argnums: int | Sequence[int] | None, has_aux: bool) -> Callable[..., Diagnosis]:
    """`funcad.debug.doctor`, which says what it does."""

    @api
    def examined(*args: Any, **kwargs: Any) -> Diagnosis:
        leaves, in_tree = tree.flatten((args, kwargs))
        paths = _paths(f, (args, kwargs))
        chosen = _chosen(args, kwargs, argnums)
        known = [_is_array(x) for x in leaves]
        if any(type(x) is Tracer for x in leaves):
            raise TypeError("doctor runs a function on values; call it outside of jit, grad and vmap, and let it look inside")
        if namespace_of([x for x, k in zip(leaves, known) if k]) is not np:
            raise TypeError("doctor looks at NumPy arrays; funcad.device_get(x) brings the arguments back from the device")
        differentiated = [k and c and is_inexact(aval_of(x)) for x, k, c in zip(leaves, known, chosen)]
        run = Recording()

        def flat(*xs: Any) -> list[Any]:
            given, keywords = in_tree.unflatten(xs)
            out = f(*given, **keywords)
            if has_aux:
                out = checked_pair(f, out)[0]
            return [x for x in tree.leaves(out) if _is_array(x)]

        try:
            with np.errstate(all="ignore"):
                follow(run, flat, leaves, differentiated)
        except Exception as error:
            _note(error, run, f, paths)
            raise
        return Diagnosis(
            name_of(f),
            _result(run),
            _remark(run, differentiated),
            len(run.entries),
            forward_findings(run, paths),
            backward_findings(run),
            arguments(run, paths, leaves, [k and c for k, c in zip(known, chosen)]),
        )

    return examined


def _is_array(x: Any) -> bool:
    try:
        aval_of(x)
    except TypeError:
        return False
    return True


def _paths(f: Any, example: tuple[tuple, dict]) -> list[str]:
    """How the user would write each leaf: `x`, `params['w'][0]`."""
    names = positional_names(f)
    result = []
    for path, _ in tree.flatten_with_path(example)[0]:
        kind, first, *rest = path
        if kind.idx == 1:
            name = str(first.key)
        else:
            name = names[first.idx] if first.idx < len(names) else f"args[{first.idx}]"
        result.append(name + tree.keystr(tuple(rest)))
    return result


def _chosen(args: tuple, kwargs: dict, argnums: Any) -> list[bool]:
    """Which leaves the report is about."""
    positions = range(len(args)) if argnums is None else normalize_argnums(argnums, len(args), "doctor")[0]
    flags: list[bool] = []
    for i, a in enumerate(args):
        flags += [i in positions] * tree.structure(a).num_leaves
    return flags + [argnums is None] * tree.structure(kwargs).num_leaves


def _result(run: Recording) -> str:
    texts = [aval_of(x).short.replace("*", "") for x, _ in run.outputs]
    if len(texts) == 1 and not np.shape(run.outputs[0][0]):
        return f"{texts[0]} = {np.asarray(run.outputs[0][0])[()]}"
    return f"({', '.join(texts)})" if len(texts) != 1 else texts[0]


def _remark(run: Recording, differentiated: Sequence[bool]) -> str:
    if not any(differentiated):
        return "no argument is of floating point, so there is nothing to differentiate; only NumPy saw the values"
    if len(run.outputs) == 1 and not np.shape(run.outputs[0][0]):
        return ""
    return "the result is not one number: the sum of all its elements is differentiated (a vjp with ones)"


def _note(error: Exception, run: Recording, f: Any, paths: Sequence[str]) -> None:
    """The report cannot be given, but what was seen before the error can."""
    found = forward_findings(run, paths)
    first = f"the first value that is not finite: {found[0]}  {found[0].place}".rstrip() if found else ""
    seen = first or "every value was finite"
    error.add_note(f"doctor: {name_of(f)} raised this after {len(run.entries)} operations; {seen}")
