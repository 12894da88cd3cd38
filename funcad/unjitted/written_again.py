"""What a watched call wrote on a tape, as a function that writes it for other operands of the same kinds (remembered.py).

The function is lines of Python, without a look at what is the same for all such operands: most rows are written as
`Tape.row` would write them, but in place.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.host.devices import deliver, enter, error_mode, on_numpy, pending, restore_warnings
from funcad.host.real_types import impl_of
from funcad.host.where import internal, state, user_source
from funcad.ir.aval import aval_of
from funcad.ir.tracer import Tracer
from funcad.unjitted.following import with_value
from funcad.unjitted.kinds import Pull, compiled, everywhere, known_of
from funcad.unjitted.remembered import FLOATS, flat, remember

_NUMBERS = frozenset([bool, int, float, complex])  # a constant of NumPy's type might be a value of an operand's
_COMPUTED = frozenset([np.ndarray, np.float64, np.float32])  # of other types one object may stand for many values


class _Step(NamedTuple):
    """A row that is to be written: its operands have places among operands, strong operands, constants and results."""

    primitive: Any
    operands: Sequence[Any]
    params: dict
    bits: Any
    shape: Any
    places: Any
    turned: bool  # had a slope turned before: then squares may be known
    row: Any  # (pull, numbers, what it keeps beside values, does nobody else hold the result); None: no derivative


class _Call(NamedTuple):
    rows: int
    again: Callable[[Any, Sequence[Any]], Any]  # writes them


def watch(key: tuple, trace: Any, operands: list[Any], function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call the function, and remember what it wrote; not if one object is a traced value's and a constant, which may differ."""
    primals = {id(a.primal) for a in operands if type(a) is Tracer}
    if not primals.isdisjoint([id(a) for a in flat((*args, *kwargs.values())) if type(a) is not Tracer]):
        return function(*args, **kwargs)
    tape = trace.tape
    n, doubtful = len(tape.pulls), trace.doubtful
    try:
        tape.notes = {}
        state.checked = functools.partial(_noted, tape.notes)
        result = function(*args, **kwargs)
        if trace.tape is tape:  # otherwise the tape was given up, which says nothing of the next call
            plain = trace.doubtful is doubtful and "looked" not in tape.notes
            remember(key, plain and _call_of(tape, n, operands, result))
    finally:
        tape.notes = state.checked = None
    return result


def _noted(notes: dict, primitive: Any, xp: Any, args: Sequence[Any], params: dict) -> Any:
    """`compute`, of which a note is made: the result may have no derivative, and be an operand of a row."""
    out = impl_of(primitive, args, params)(xp, *args, **params)
    if type(out) in _COMPUTED:
        notes["computed", id(out)] = primitive, args, params, out
    return out


def _call_of(tape: Any, n: int, operands: list[Any], result: Any) -> Any:
    """What rows from the n-th on say that a call on these operands does; False if it may be another thing next time."""
    rows = range(n, len(tape.pulls))
    if not rows or type(result) is not Tracer or result.tangent != tape.first + rows[-1]:
        return False
    reading = _Reading(tape, operands)
    for row in rows:
        number = tape.first + row
        if number not in tape.notes or tape.pulls[row] is None:
            return False
        primitive, given, params, bits, shape, out = tape.notes[number]
        places = [reading.place(x) for x in given]
        if None in places:
            return False
        pull = tape.pulls[row]
        about = pull, tape.numbers[row], tape.kept[row][len(pull.sources) :], tape.own[number]
        reading.add(_Step(primitive, given, params, bits, shape, places, tape.trace.turned, about), number, out)
    if result.primal is not tape.notes[result.tangent][-1]:
        return False
    firsts = {id(a): k for k, a in reversed(list(enumerate(operands)))}
    if not reading.used.issuperset(firsts.values()):
        return False
    start = {"operand": 0, "strong": len(operands), "constant": len(operands) + len(reading.strong)}
    start["result"] = start["constant"] + len(reading.constants)
    steps = [s._replace(places=[start[where] + k for where, k in s.places]) for s in reading.steps]
    return _Call(len(rows), _written(steps, operands, reading.strong, reading.constants))


class _Reading:
    """Steps of a call as they are read off the rows; a place is a pair (of what kind, its number)."""

    def __init__(self, tape: Any, operands: list[Any]):
        self.tape = tape
        self.operands = operands
        self.by_value = any([type(a) in FLOATS for a in operands])  # a constant might have been made of them
        self.used: set[int] = set()
        self.strong: list[int] = []
        self.constants: list[Any] = []
        self.steps: list[_Step] = []
        self.made: dict[int, tuple[str, int]] = {}  # by a row's number, or the id of what a free step computes
        traced = [(a, k) for k, a in enumerate(operands) if type(a) is Tracer]
        self.values: dict[int, tuple[str, int]] = {id(a.primal): ("operand", k) for a, k in traced}

    def add(self, step: _Step, row: int, value: Any) -> tuple[str, int]:
        """Take a step that writes the row of this value, or computes that without one: then `row` is its id."""
        place = self.made[row] = "result", len(self.steps)
        if step.row is not None:
            self.values[id(value)] = place
        self.steps.append(step)
        return place

    def place(self, x: Any) -> tuple[str, int] | None:
        """Where a row's operand comes from; None if that is not known."""
        for k, a in enumerate(self.operands):
            if a is x:
                self.used.add(k)
                return "operand", k
        if type(x) is Tracer:
            made = self.made.get(x.tangent)
            if made is not None:
                return made if self.tape.notes[x.tangent][-1] is x.primal else None
            for k, a in enumerate(self.operands):
                if type(a) is Tracer and a.tangent == x.tangent and type(a.primal) is float and type(x.primal) is np.float64:
                    self.used.add(k)
                    self.strong.append(k)
                    return "strong", len(self.strong) - 1
            return None
        if type(x) in _NUMBERS and not self.by_value:
            self.constants.append(x)
            return "constant", len(self.constants) - 1
        return self.made.get(id(x)) or self._computed(x)

    def _computed(self, x: Any) -> tuple[str, int] | None:
        """The place of what a primitive computed of values alone."""
        found = self.tape.notes.get(("computed", id(x)))
        if found is None or id(x) in self.values:
            return None
        primitive, args, params, _ = found
        places = []
        for a in args:
            place = self.values.get(id(a))
            if place is not None and place[0] == "operand":
                self.used.add(place[1])
            place = place or self.place(a)
            if place is None:
                return None
            places.append(place)
        return self.add(_Step(primitive, args, params, None, None, places, False, None), id(x), x)


_START = """def again(tape, operands):
 here, trace = tape.here, tape.trace
 source = here['source']
 if source is None:
  frame, inside = getframe(2), None
  while frame is not None and (inside := internal(frame.f_code.co_filename)):
   frame = frame.f_back
  if inside is False and here['observer'] is None:
   source = frame.f_code, frame.f_lasti, here['scope']
  else:
   source = user_source(3)""".split("\n")


def _written(steps: Sequence[_Step], operands: Sequence[Any], strong: Sequence[int], constants: Sequence[Any]) -> Callable:
    """A function of a tape and of operands of the same kinds that writes these rows: as lines of Python, without a look."""
    scope: dict[str, Any] = {
        "user_source": user_source,
        "getframe": sys._getframe,
        "internal": internal.get,
        "error_mode": error_mode,
        "enter": enter,
        "restore_warnings": restore_warnings,
        "pending": pending,
        "deliver": deliver,
        "with_value": with_value,
        "float64": np.float64,
        "known_of": known_of,
        "Tracer": Tracer,
        "new": object.__new__,
    }
    scope |= {f"c{i}": c for i, c in enumerate(constants)}
    names = [(f"x{k}", f"p{k}", f"t{k}") if type(a) is Tracer else (f"x{k}", f"x{k}", "None") for k, a in enumerate(operands)]
    lines = [*_START, f" {''.join([f'{x}, ' for x, *_ in names])}= operands"]
    lines += [f" {p}, {t} = {x}.primal, {x}.tangent" for x, p, t in names if p != x]
    for i, k in enumerate(strong):
        lines += [f" s{i} = with_value(x{k}, float64(p{k}))", f" q{i} = s{i}.primal"]
        names.append((f"s{i}", f"q{i}", f"t{k}"))
    names += [(f"c{i}", f"c{i}", "None") for i in range(len(constants))]
    for i, step in enumerate(steps):
        primitive, given, params, shape = step.primitive, step.operands, step.params, step.shape
        run = on_numpy(primitive, list(map(aval_of, given)), params)
        scope |= {f"primitive{i}": primitive, f"run{i}": run, f"params{i}": params, f"bits{i}": step.bits, f"shape{i}": shape}
        xs, ps, ts = map(list, zip(*[names[place] for place in step.places]))
        for k, x in enumerate(given):
            if shape is not None and type(x) is Tracer and type(x.primal) is float:  # rules ask for its shape
                lines.append(f" n{i}_{k} = float64({ps[k]})")
                ps[k] = f"n{i}_{k}"
        operation = f"o{i} = run{i}({', '.join(ps)})"
        if primitive.silent:
            lines.append(f" {operation}")
        else:
            lines += [" mode = error_mode()", " token = enter(tape.user_line_mode) if mode is tape.mode else tape._enter()"]
            lines += [" try:", f"  {operation}", " finally:", "  if token is not None:"]
            lines += ["   restore_warnings(token)", "   if pending:", f"    deliver(primitive{i}, ({', '.join(ps)},))"]
        if step.row is None:
            names.append((f"o{i}", f"o{i}", "None"))
            continue
        lines += _row_lines(i, step, xs, ps, ts, scope)
        names.append((f"r{i}", f"o{i}", f"r{i}.tangent"))
    lines.append(f" return {names[-1][0]}")
    exec(compiled("\n".join(lines)), scope)
    return scope["again"]


def _row_lines(i: int, step: _Step, xs: list[str], ps: list[str], ts: list[str], scope: dict[str, Any]) -> list[str]:
    """The lines that write a row of the same pull."""
    pull, numbers, rest, own = step.row
    given, primals, rows = [f"({', '.join(each)},)" for each in (xs, ps, ts)]
    otherwise = f"r{i} = tape.written(primitive{i}, {given}, {primals}, {rows}, params{i}, bits{i}, shape{i}, o{i}, source)"
    asked = isinstance(pull, Pull) and pull.asked
    if asked and pull.question is None:  # the pull is another one if an answer is
        return [f" {otherwise}"]
    scope |= {f"pull{i}": pull, f"rest{i}": rest}
    tangents = [x.tangent if type(x) is Tracer else None for x in step.operands]
    numbers = "".join([f"{ts[tangents.index(m)]}, " for m in numbers])
    kept, lines = None if asked else _kept(i, step, xs, ps, ts), []
    if kept is None:
        known, indent = "", " "
        if asked:
            question, answer = pull.question
            scope |= {f"part{i}": question.part, "everywhere": everywhere}
            lines = [f" k{i} = [*{primals}, o{i}]", f" k{i} += part{i}.computed(k{i})"]
            lines += [f" if everywhere(k{i}[{question.number}]) is not {answer}:", f"  {otherwise}", " else:"]
            known, indent = f", known_of(pull{i}, k{i})", "  "
        elif isinstance(pull, Pull) and pull.part is not None:
            known = f", known_of(pull{i}, [*{primals}, o{i}])"
        operation = f"(primitive{i}, {given}, params{i}, bits{i}, shape{i})"
        row = f"pull{i}, ({numbers}), rest{i}, {operation}, o{i}, {bool(own)}, source, {primals}"
        return [*lines, f"{indent}r{i} = tape.row({row}{known})"]
    lines = [f" r{i} = new(Tracer)", f" r{i}.owner, r{i}.primal, r{i}.tangent = trace, o{i}, len(tape.own)"]
    lines.append(f" r{i}.source, r{i}.atom, r{i}.box = source, None, None")
    if pull.begins:
        lines.append(f" tape.begins = tape.begins or max(({numbers})) >= tape.first")
    values = {"pulls": f"pull{i}", "numbers": f"({numbers})", "kept": kept, "sources": "source", "own": str(bool(own))}
    return [*lines, *[f" tape.{column}.append({value})" for column, value in values.items()]]


def _kept(i: int, step: _Step, xs: list[str], ps: list[str], ts: list[str]) -> str | None:
    """What the row keeps, as text; None where `Tape.row` is to look at it."""
    pull, _, _, own = step.row
    if step.turned or step.primitive.turns or step.primitive.multiple or getattr(pull, "part", None) is not None:
        return None
    kept = []
    for k in pull.sources:
        if k >= len(ps):
            if not own:
                return None
            kept.append(f"o{i}, ")
            continue
        x = step.operands[k]
        safe = f"tape.safe({ps[k]}, {xs[k]})"
        if type(x) is Tracer:
            safe = f"{ps[k]} if tape.own[{ts[k]}] else {safe}"
        kept.append(f"{safe if type(x.primal if type(x) is Tracer else x) is np.ndarray else ps[k]}, ")
    return f"({''.join(kept)}*rest{i},)"
