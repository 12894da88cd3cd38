"""Programs over a batch of small examples, as `vmap` makes them: one loop over the examples.

Idea: in `vmap(grad(f))` over 100,000 points of four numbers, every value has the batch as its first axis and a few elements
behind it. Slices, placements and small products along those few elements keep fuse.py from making one loop of it, since an
array of three columns is not one of four. But per example they are nothing: which number is read. So what stays within an
example becomes a group of kind "batch" (primitives/fused.py), whose kernel keeps each number of an example in a register.

Invariants: nothing in a group reads what a later equation outside makes of its results; every value that the group computes
has the batch as its first axis. Trap: without such moves fuse.py makes the same loop, and joins sums over the batch to it, so
groups of element operations and reductions alone are left to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from math import prod
from typing import Any

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects
from funcad.passes.fuse import fuse, matrices
from funcad.passes.subprograms import kind_of, with_subprograms
from funcad.primitives.atoms import ELEMENTARY, atoms_of, fold_of
from funcad.primitives.fused import fused_p
from funcad.primitives.shape import transpose

# -- A batch along the last axis becomes the first axis
#
# Idea: `vmap` with `in_axes=1` begins with a transpose, and push.py moves it behind all element operations, where it costs less
# in general. A loop over examples (batch.py) wants it in front, where it costs nothing: numbers of a batch along the last axis
# are read as they lie. So a transpose that brings the last axis to the front is moved back through what made its operand.
# Invariant: nothing is computed twice; where somebody else reads what was made, the program stays as it is.


def turns(equation: Equation) -> bool:
    """Does a transpose bring the last axis to the front, and nothing else?"""
    perm = equation.params["perm"]
    last = len(perm) - 1
    return bool(last > 0 and perm == (last, *range(last)))


def lifted(jaxpr: Jaxpr, pays: Callable[[Any], bool]) -> Jaxpr:
    """The program with such transposes as early as they can be, where their results are what `pays` asks for."""
    wanted: dict[Var, Any] = {}  # what is needed with the last axis in front -> what stands for it
    for equation in reversed(jaxpr.equations):
        if equation.primitive is transpose and turns(equation):
            if type(equation.inputs[0]) is Var and pays(equation.outputs[0].aval):
                wanted[equation.inputs[0]] = None
        elif len(equation.outputs) == 1 and equation.outputs[0] in wanted and _movable(equation):
            wanted.update({a: None for a in equation.inputs if type(a) is Var and a.aval.shape})
    if not any([e.outputs[0] in wanted and _movable(e) for e in jaxpr.equations if len(e.outputs) == 1]):
        return jaxpr
    equations: list[Equation] = []
    names: dict[Any, Any] = {}
    gone: set[Var] = set()

    def front(a: Any, source: Any) -> Any:
        if type(a) is Literal or not a.aval.shape:
            return names.get(a, a)
        if wanted[a] is None:
            n = len(a.aval.shape)
            wanted[a] = _turned(a)
            equations.append(Equation(transpose, (names.get(a, a),), {"perm": (n - 1, *range(n - 1))}, (wanted[a],), source))
        return wanted[a]

    for equation in jaxpr.equations:
        out = equation.outputs[0] if len(equation.outputs) == 1 else None
        if equation.primitive is transpose and turns(equation) and equation.inputs[0] in wanted:
            names[out] = front(equation.inputs[0], equation.source)
        elif out in wanted and _movable(equation):
            inputs = tuple([front(a, equation.source) for a in equation.inputs])
            wanted[out] = _turned(out)
            gone.add(out)
            equations.append(Equation(equation.primitive, inputs, _params(equation), (wanted[out],), equation.source))
        else:
            inputs = tuple([names.get(a, a) for a in equation.inputs])
            equations.append(equation._replace(inputs=inputs))
    outputs = tuple([names.get(o, o) for o in jaxpr.outputs])
    if any([a in gone for e in equations for a in e.inputs]) or any([o in gone for o in outputs]):
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(equations), outputs)


def _movable(equation: Equation) -> bool:
    """Can the transpose go in front of it?"""
    shape, name, params = equation.outputs[0].aval.shape, equation.primitive.name, equation.params
    if any([type(v.aval) is not Aval or v.aval.weak for v in equation.outputs]) or len(shape) < 2 or equation.primitive.effect:
        return False
    if equation.primitive.emit is not None:
        return all([type(a) is Literal and not a.aval.shape or a.aval.shape == shape for a in equation.inputs])
    whole = (0, shape[-1], 1)
    if name in ("basic_index", "basic_place"):
        return bool(params["index"][-1] == whole and len(equation.inputs[0].aval.shape) > 1) and type(equation.inputs[0]) is Var
    if name == "place_sum":
        return all([i[-1] == whole for i in params["indices"]]) and all([len(a.aval.shape) > 1 for a in equation.inputs])
    return False


def _params(equation: Equation) -> dict[str, Any]:
    """The parameters for a batch along the first axis."""
    params, turn = dict(equation.params), lambda items: (items[-1], *items[:-1])
    if "index" in params:
        params["index"] = turn(params["index"])
    if "indices" in params:
        params["indices"] = tuple([turn(i) for i in params["indices"]])
    if "shape" in params and equation.primitive.emit is None:
        params["shape"] = turn(params["shape"])
    return params


def _turned(v: Any) -> Var:
    shape = v.aval.shape
    return Var(Aval((shape[-1], *shape[:-1]), v.aval.dtype))


# -- programs over a batch of small examples, as `vmap` makes them


LEAST = 32  # examples; more than MOST, so that the size tells which axis is the batch
MOST = 24  # elements of one example's value
WORK = 400  # numbers that are computed for one example, elementary functions counting for more
_KINDS = "biuf"
_MOVES = frozenset(
    "basic_index slice rev reshape transpose concatenate pad basic_place place_sum basic_update dot_general".split()
)
_ELEMENTARY = 12  # what an elementary function counts for, in other operations


def grouped(jaxpr: Jaxpr) -> Jaxpr:
    """The program in groups as the NumPy engine runs it, and as `jit(f).source()` writes it: both kinds of loops."""
    return fuse(batch(jaxpr))


def batch(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the work on small examples in one `fused` equation, in the programs inside, too."""
    if any([e.primitive.multiple and kind_of(e) is not None for e in jaxpr.equations]):
        found = tuple([with_subprograms(e, batch) for e in jaxpr.equations])
        if any([a is not b for a, b in zip(found, jaxpr.equations)]):
            jaxpr = Jaxpr(jaxpr.inputs, found, jaxpr.outputs)
    if not any([e.primitive.name in _MOVES for e in jaxpr.equations]):
        return jaxpr
    jaxpr = lifted(jaxpr, _small)
    sizes = Counter([v.aval.shape[0] for e in jaxpr.equations for v in e.outputs if _small(v.aval)])
    for size, count in sizes.most_common(1):
        if count > 1:
            return _Batch(jaxpr, size).result()
    return jaxpr


def _small(aval: Any) -> bool:
    """Could this be a value of a batch?"""
    if type(aval) is not Aval or not aval.shape or aval.shape[0] < LEAST or aval.weak:
        return False
    return aval.dtype.kind in _KINDS and aval.dtype.itemsize <= 8 and 0 < prod(aval.shape[1:]) <= MOST


class _Batch:
    """The search for the members of one group."""

    def __init__(self, jaxpr: Jaxpr, size: int):
        self.jaxpr = jaxpr
        self.size = size
        self.matrices = matrices(jaxpr)  # whose products fuse.py joins
        self.members: list[Equation] = []
        self.inside: set[Var] = set()
        self.views: dict[Var, Equation] = {}  # broadcasts of what all examples share, copied to their readers

    def result(self) -> Jaxpr:
        later: set[Var] = set()  # made outside, of what the group computes
        work = 0
        before, after = [], []
        for equation in self.jaxpr.equations:
            read = [a for a in equation.inputs if type(a) is Var]
            waits = any([a in later for a in read])
            if not waits and self._belongs(equation):
                out = equation.outputs[0]
                if equation.primitive.name == "broadcast_in_dim" and not self._batched(equation.inputs[0]):
                    self.views[out] = equation
                    before.append(equation)
                    continue
                own = self._work(equation)
                if work + own <= WORK:
                    work += own
                    self.members.append(equation)
                    self.inside.add(out)
                    continue
            if waits or any([a in self.inside for a in read]) or equation_has_effects(equation):
                later.update(equation.outputs)
                after.append(equation)
            else:
                before.append(equation)
        if len(self.members) < 2 or not any([self._moves(e) for e in self.members]):
            return self.jaxpr
        return self._with_group(before, after)

    def _batched(self, a: Any) -> bool:
        """Does the operand have the batch as its first axis? Anything of its size that is read at its own place has."""
        return type(a) is Var and a not in self.views and _small(a.aval) and a.aval.shape[0] == self.size

    def _moves(self, equation: Equation) -> bool:
        """Is it what fuse.py cannot put into a loop? A product with one matrix for all is as well off alone."""
        name = equation.primitive.name
        return name in _MOVES and (name != "dot_general" or bool(equation.params["dimension_numbers"][1][0]))

    def _work(self, equation: Equation) -> int:
        primitive, (out,) = equation.primitive, equation.outputs
        name, count = primitive.name, prod(out.aval.shape[1:])
        if name == "dot_general":
            (cx, _), _ = equation.params["dimension_numbers"]
            return count * prod([equation.inputs[0].aval.shape[i] for i in cx])
        if fold_of(primitive) is not None:
            return prod(equation.inputs[0].aval.shape[1:])
        if name in _MOVES or name == "broadcast_in_dim":
            return count * (len(equation.inputs) - 1)
        return count * sum([_ELEMENTARY if atom in ELEMENTARY else 1 for atom in atoms_of(equation)])

    def _belongs(self, equation: Equation) -> bool:
        """Can one example's result be computed from that example alone?"""
        primitive, params, n = equation.primitive, equation.params, self.size
        if len(equation.outputs) != 1 or primitive.effect or primitive.multiple:
            return False
        out, name = equation.outputs[0].aval, primitive.name
        if not _small(out) or out.shape[0] != n:
            return False
        operands = equation.inputs
        if any([type(a) is Literal and a.aval.shape for a in operands]):
            return False
        if primitive.emit is not None:
            alike = all([type(a) is Literal or a.aval.shape == out.shape and _small(a.aval) for a in operands])
            return alike and any([self._batched(a) for a in operands])
        if name == "broadcast_in_dim":
            (x,), axes = operands, params["axes"]
            if type(x) is Literal or not x.aval.shape:
                return type(x) is Literal or x.aval.dtype.kind in _KINDS
            if x.aval.shape[0] == n and axes[0] == 0:
                return self._batched(x)
            return 0 not in axes and x.aval.size <= MOST and x.aval.dtype.kind in _KINDS and x not in self.inside
        if name == "transpose" and turns(equation):
            return type(operands[0]) is Var
        batched = [self._batched(a) for a in operands]
        if name == "dot_general":
            return self._product(equation, batched)
        if not all([self._batched(a) or a in self.views for a in operands]) or not any(batched):
            return False
        shape = operands[0].aval.shape
        whole = (0, n, 1)
        if fold_of(primitive) is not None:
            return 0 not in params["axes"] and len(params["axes"]) > 0 and operands[0].aval.dtype == out.dtype
        if name == "reshape":
            return True
        if name == "transpose":
            return params["perm"][0] == 0
        if name == "concatenate":
            return params["axis"] != 0
        if name == "rev":
            return 0 not in params["axes"]
        if name == "pad":
            return params["low"][0] == params["high"][0] == params["interior"][0] == 0
        if name == "slice":
            return (
                params["start"][0] == 0 and params["limit"][0] == n and (params["strides"] or (1,))[0] == 1 and len(shape) > 1
            )
        if name == "place_sum":
            return all([i[0] == whole for i in params["indices"]])
        if name in ("basic_index", "basic_place", "basic_update"):
            return bool(params["index"][0] == whole)
        return False

    def _product(self, equation: Equation, batched: list[bool]) -> bool:
        """A product along axes of the examples, with the batch as the first axis of the result."""
        (cx, cy), (bx, by) = equation.params["dimension_numbers"]
        x, y = equation.inputs
        if x in self.matrices or y in self.matrices:
            return False
        if x.aval.dtype != y.aval.dtype or x.aval.dtype.kind not in "iuf" or x in self.views or y in self.views:
            return False
        if all(batched):
            return bool(bx[:1] == (0,) == by[:1])
        if not batched[0] or type(y) is Literal or y.aval.size > MOST or y in self.inside or bx:
            return False
        return 0 not in cx

    def _with_group(self, before: list[Equation], after: list[Equation]) -> Jaxpr:
        """The equations before, the group, and those after it."""
        ordered: dict[Var, Equation] = {}  # by what they compute
        for e in self.members:
            ordered.update({a: self.views[a] for a in e.inputs if a in self.views})
            ordered[e.outputs[0]] = e
        equations = list(ordered.values())
        made = {e.outputs[0] for e in equations}
        used = {a for e in after for a in e.inputs} | set(self.jaxpr.outputs)
        inputs = tuple(dict.fromkeys([a for e in equations for a in e.inputs if type(a) is Var and a not in made]))
        outputs = tuple([e.outputs[0] for e in self.members if e.outputs[0] in used])
        if not outputs:
            return self.jaxpr
        new = {v: Var(Aval(v.aval.shape, v.aval.dtype)) for v in (*inputs, *made)}
        inner = [
            Equation(e.primitive, tuple([new.get(a, a) for a in e.inputs]), e.params, (new[e.outputs[0]],), e.source)
            for e in equations
        ]
        group = Jaxpr(tuple([new[v] for v in inputs]), tuple(inner), tuple([new[o] for o in outputs]))
        params = {"jaxpr": group, "kind": "batch", "shape": (self.size,)}
        source = next((e.source for e in self.members if e.source is not None), None)
        fused = Equation(fused_p, inputs, params, outputs, source)
        needed = {a for e in after for a in e.inputs} | set(self.jaxpr.outputs) | set(inputs)
        for e in reversed(before):
            needed.update(e.inputs)
        kept = [e for e in before if e.outputs[0] not in self.views or e.outputs[0] in needed]
        return Jaxpr(self.jaxpr.inputs, (*kept, fused, *after), self.jaxpr.outputs)


def layouts(jaxpr: Jaxpr) -> list[str]:
    """Where a group's inputs have the batch: as the "first" axis, as the "last", or nowhere: "shared" by all examples."""
    found: dict[Any, str] = {}
    for equation in jaxpr.equations:
        name, params = equation.primitive.name, equation.params
        if name == "transpose" and turns(equation):
            found[equation.inputs[0]] = "last"
        elif name == "broadcast_in_dim" and params["axes"][:1] != (0,):
            found[equation.inputs[0]] = "shared"
        elif name == "dot_general" and not params["dimension_numbers"][1][0]:
            found[equation.inputs[1]] = "shared"
    return [found.get(v, "first") for v in jaxpr.inputs]
