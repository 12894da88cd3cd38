"""The program: `Jaxpr(inputs, equations, outputs)`.

A Jaxpr holds no arrays: what a traced function captures becomes leading inputs, so every interpreter is a loop over
equations with an environment of values and nothing else. Literals hold a Python scalar (weak) or a NumPy scalar (strong)
and compare by type, dtype and bit pattern, never by `==` (0.0 == -0.0, 1 == True, nan != nan). A Jaxpr is compared by
identity and carries `memo`: everything derived from it (its jvp, its transpose, its compiled program) hangs there and dies
with it.
"""

from __future__ import annotations

import importlib
import marshal
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, final

import numpy as np

from funcad.configuration import NamedTuple, OnDemand
from funcad.host.real_types import narrow_among
from funcad.ir.aval import AnyAval, Atom, LiteralAval, Location, Number, Params, aval_of
from funcad.memo import Derived, compared_by

if TYPE_CHECKING:
    from funcad.ir.primitive import Primitive
    from funcad.show.graph import Graph

same = OnDemand("funcad.tree.same")
pretty = OnDemand("funcad.show.pretty")
_Item = TypeVar("_Item")


@final
class Var:
    """A value that an equation computes or that the program receives."""

    __slots__ = ("aval",)

    def __init__(self, aval: AnyAval):
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var:{self.aval.short}"


compared_by[Var] = repr


@final
class Literal:
    """A scalar written into an equation."""

    __slots__ = ("value", "aval")

    def __init__(self, value: Number, aval: AnyAval | None = None):
        self.value = value
        self.aval = aval_of(value) if aval is None else aval
        if not isinstance(self.aval, LiteralAval):
            raise TypeError(f"a Literal is a scalar, got {self.aval:a}")

    def __repr__(self) -> str:
        return repr(self.value)


class Equation(NamedTuple):
    """outputs = primitive[params](inputs), written at `source` in the user's program."""

    primitive: Primitive
    inputs: tuple[Atom, ...]
    params: Params
    outputs: tuple[Var, ...]
    source: Location = None

    def __repr__(self) -> str:
        return str(pretty.format_equation(self))


_NO_MODES: dict[int, Any] = {}


class Jaxpr:
    """A program in single-assignment form; immutable after construction, compared by identity."""

    __slots__ = ("inputs", "equations", "outputs", "memo", "modes", "__weakref__")

    def __init__(self, inputs: tuple[Var, ...], equations: tuple[Equation, ...], outputs: tuple[Atom, ...]):
        self.inputs = inputs
        self.equations = equations
        self.outputs = outputs
        self.memo = Derived()
        self.modes: dict[int, Any] = _NO_MODES  # error modes of equations that run un-jitted, see host/devices.py

    @property
    def in_avals(self) -> list[AnyAval]:
        return [v.aval for v in self.inputs]

    @property
    def out_avals(self) -> list[AnyAval]:
        return [v.aval for v in self.outputs]

    @property
    def last_uses(self) -> list[tuple[Var, ...]]:
        """For each equation, the variables that nobody reads after it (so that values die early)."""
        uses = self.memo.get("last_uses")
        if uses is None:
            seen = {v for v in self.outputs if type(v) is Var}
            uses = []
            for equation in reversed(self.equations):
                dead = []
                for atom in (*equation.outputs, *equation.inputs):
                    if type(atom) is Var and atom not in seen:
                        seen.add(atom)
                        dead.append(atom)
                uses.append(tuple(dead))
            uses.reverse()
            uses = self.memo.setdefault("last_uses", uses)
        return uses

    @property
    def has_effects(self) -> bool:
        """Does running this program do something besides computing its outputs?"""
        return self._any("has_effects", equation_has_effects)

    @property
    def may_fail(self) -> bool:
        """May it refuse values, see `Primitive.fails`?"""
        return self._any("may_fail", lambda e: may_fail(e.primitive, e.params))

    @property
    def stays(self) -> bool:
        """Has it equations that are never removed?"""
        return self._any("stays", stays)

    @property
    def has_batch_rules(self) -> bool:
        """Are there functions in it with a batching rule of the user's?"""
        return self._any("batch_rules", has_batch_rule)

    def _any(self, name: str, of_equation: Callable[[Equation], bool]) -> bool:
        found = self.memo.get(name)
        return self.memo.setdefault(name, any(map(of_equation, self.equations))) if found is None else found

    @property
    def axis_names(self) -> frozenset[Any]:
        """Names of the mapped axes that collectives in this program (or in its sub-programs) act on."""
        return self._united("axis_names", equation_axis_names, "collective")

    @property
    def moves(self) -> frozenset[str]:
        """The devices to which equations of this program (or of its sub-programs) move arrays, "cpu" and "cuda"."""
        return self._united("moves", _equation_moves, "moves")

    @property
    def narrow(self) -> bool:
        """Has it values of narrow dtypes (host/real_types.py)? Then no engine writes it as one text."""
        found = self.memo.get("narrow")
        if found is None:
            avals = [v.aval for e in self.equations for v in (*e.inputs, *e.outputs)]
            own = narrow_among([*self.in_avals, *self.out_avals, *avals]) is not None
            found = self.memo.setdefault("narrow", own or any([j.narrow for e in self.equations for j in subjaxprs(e.params)]))
        return bool(found)

    def _united(self, name: str, of_equation: Callable[[Equation], frozenset[Any]], fact: str) -> frozenset[Any]:
        found = self.memo.get(name)
        if found is None:
            acts = [e for e in self.equations if e.primitive.multiple or getattr(e.primitive, fact) is not None]
            found = self.memo.setdefault(name, frozenset().union(*map(of_equation, acts)))
        return found

    def __str__(self) -> str:
        return str(pretty.format_jaxpr(self))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks; the module is loaded when something is shown."""
        return importlib.import_module("funcad.show.graph").jaxpr_html(self)

    def graph(self) -> Graph:
        """The program as a picture (`Graph`: shown by notebooks, `.svg`, `.save(path)`); ValueError if it is very long."""
        return importlib.import_module("funcad.show.graph").Graph(self)


compared_by[Jaxpr] = str


def without_sources(jaxpr: Jaxpr) -> Jaxpr:
    """A program to be kept for all who need it: it must not keep the code alive that needed it first."""
    return Jaxpr(jaxpr.inputs, tuple([e._replace(source=None) for e in jaxpr.equations]), jaxpr.outputs)


def equation_axis_names(equation: Equation) -> frozenset[Any]:
    name = equation.params.get("axis_name")
    own = () if name is None else name if isinstance(name, tuple) else (name,)
    return frozenset(own).union(*[jaxpr.axis_names for jaxpr in subjaxprs(equation.params)])


def _equation_moves(equation: Equation) -> frozenset[str]:
    moves = equation.primitive.moves
    own = () if moves is None else (moves(**equation.params),)
    return frozenset(own).union(*[jaxpr.moves for jaxpr in subjaxprs(equation.params)])


def equation_has_effects(equation: Equation) -> bool:
    primitive, _, params, _, _ = equation
    return primitive.effect or (primitive.multiple and any(j.has_effects for j in subjaxprs(params)))


def has_batch_rule(equation: Equation) -> bool:
    primitive, _, params, _, _ = equation
    own = primitive.name == "custom_vmap_call"
    return own or primitive.multiple and any(j.has_batch_rules for j in subjaxprs(params))


def stays(equation: Equation) -> bool:
    """Is it to run though nobody reads its results?"""
    primitive, _, params, _, _ = equation
    return primitive.effect or primitive.asserts or (primitive.multiple and any(j.stays for j in subjaxprs(params)))


def may_fail(primitive: Primitive, params: Params) -> bool:
    return primitive.fails or (primitive.multiple and any(j.may_fail for j in subjaxprs(params)))


def subjaxprs(params: Params) -> list[Jaxpr]:
    """The programs among an equation's parameters."""
    found = []
    for value in params.values() if params else ():
        for item in value if isinstance(value, tuple) else (value,):  # branches, or a loop
            if isinstance(item, Jaxpr):
                found.append(item)
    return found


def split(values: Sequence[_Item], *sizes: int) -> list[list[_Item]]:
    """Consecutive parts of these sizes, and the rest."""
    parts, start = [], 0
    for n in sizes:
        parts.append(list(values[start : start + n]))
        start += n
    parts.append(list(values[start:]))
    return parts


# -- dead code: drop the equations whose results nobody reads, and find the inputs that are then unused
#
# Effects are never dropped, except from a program that runs beside another which has them too. Used by transforms on the
# programs that they derive; the compiler's own pass builds on it.


def prune(jaxpr: Jaxpr, keep: Sequence[bool] | None = None, effects: bool = True) -> Jaxpr:
    """The program with only the outputs flagged in `keep` (default: all) and the equations that they need, or `effects`."""
    outputs = jaxpr.outputs if keep is None else tuple(o for o, k in zip(jaxpr.outputs, keep) if k)
    live = {o for o in outputs if type(o) is Var}
    kept = []
    for equation in reversed(jaxpr.equations):
        read = not live.isdisjoint(equation.outputs)
        if read or effects and stays(equation):
            kept.append(equation)
            live.update(a for a in equation.inputs if type(a) is Var)
    if len(kept) == len(jaxpr.equations) and len(outputs) == len(jaxpr.outputs):
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(reversed(kept)), outputs)


def used_inputs(jaxpr: Jaxpr) -> list[bool]:
    """Which inputs some equation or output reads."""
    used = {o for o in jaxpr.outputs if type(o) is Var}
    for equation in jaxpr.equations:
        used.update(a for a in equation.inputs if type(a) is Var)
    return [v in used for v in jaxpr.inputs]


# -- keys of parameters, for whoever looks up whether equal ones were met before; those of programs: passes/subprograms.py


_PLAIN = frozenset([int, str, bool, float, complex, tuple, type(None)])


def params_key(params: Params, program: Callable[[Jaxpr], Any] | None = None) -> object:
    """The key of an equation's parameters. Without `program` it is made fast, and None if they hold more than plain data."""
    if program is not None:
        known = lambda value: program(value) if isinstance(value, Jaxpr) else None
        return tuple([(name, same.same_key(value, known=known)) for name, value in sorted(params.items())])
    values = list(params.values())
    for i, v in enumerate(values):
        if type(v) not in _PLAIN:
            if not isinstance(v, np.dtype):
                return None
            values[i] = ("dtype", v.str)
    try:
        return marshal.dumps((*params, *values), 2)
    except ValueError:  # something else inside a tuple
        return None
