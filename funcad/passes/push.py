"""Work moves towards where it costs least: changes of shape to their readers, picks and signs past what is computed.

Idea: transposes, reshapes that only add or drop axes of size 1, and broadcasts are one thing, a *view*: each axis of a `base`
has its place in the view's shape, and the other axes repeat it. They are not computed where they stand. An element operation
whose operands are views of one kind works on their bases, once for every repeated element and without axes of size 1, and its
result is a view again; products take transposed and repeated operands by their dimension numbers, reductions and basic indices
by their axes. What cannot look through a view gets it as an array.

Invariants: no operation does more work than before; the base's axes have the sizes that they have in the shape. Traps: a sum
over repeated elements is not a multiple, bit for bit, and a sum over an axis of size 1 turns -0.0 into 0.0, so those axes are
put back before the sum; between literals alone an element operation would lose its shape; what has no elements raises nothing,
while its bases may have elements; NumPy's power takes short cuts for scalar exponents, which are not those for arrays, so it
keeps a repeated literal as an array.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from funcad.ir.aval import Aval, strip_literal
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.rewrite import Work, fits, rewrite, uses_of
from funcad.primitives.arithmetic import mul, neg, sub
from funcad.primitives.atoms import idempotent
from funcad.primitives.basic_indexing import basic_index_p, basic_place_p, gather_p
from funcad.primitives.contraction import dot_general_p
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, reshape, slice_p, transpose
from funcad.primitives.transcendental import pow_p


class _View(NamedTuple):
    """`base` with axis i at `axes[i]` of `shape`, repeated along the other axes."""

    base: Any
    axes: tuple
    shape: tuple


def _whole(v: Any) -> _View:
    return _View(v, tuple(range(len(v.aval.shape))), v.aval.shape)


class _Push:
    """The program under construction."""

    def __init__(self, jaxpr: Jaxpr):
        self.views: dict[Var, _View] = {v: _whole(v) for v in jaxpr.inputs}
        self.equations: list[Equation] = []
        self.arrays: dict[Any, Any] = {}  # views that have been computed
        self.old: dict[Any, Equation] = {}  # equations of the given program that compute a view
        self.reshaped: dict[Var, Var] = {}  # results of reshapes, and of what
        self.equation: Any = None  # the one that is being looked at

    # -- reading and writing

    def view(self, atom: Any) -> _View:
        return self.views[atom] if type(atom) is Var else _View(atom, (), ())

    def emit(self, primitive: Any, inputs: Sequence[Any], params: dict) -> Any:
        """The result of an operation; the equation is the given one if nothing about it has changed."""
        given = self.equation
        if primitive is given.primitive and params == given.params and all([a is b for a, b in zip(inputs, given.inputs)]):
            self.equations.append(given)
            return given.outputs[0]
        aval = primitive.abstract_eval(*[a.aval for a in inputs], **params)
        out = Var(strip_literal(aval))
        self.equations.append(Equation(primitive, tuple(inputs), params, (out,), given.source))
        return out

    def laid_out(self, view: _View, places: tuple) -> Any:
        """The variable (or literal) whose axes are these places of the view's shape, in this order."""
        base, axes, shape = view
        if axes == places and type(base) is Var:
            return base
        sizes = tuple([shape[p] for p in places])
        key = (base, axes, places, sizes)
        found = self.arrays.get(key)
        if found is None:
            old = self.old.get((base, axes, shape)) if len(places) == len(shape) else None
            if old is not None:
                self.equations.append(old)
                found = old.outputs[0]
            else:
                found = self.arranged(base, axes, places, sizes)
            self.arrays[key] = found
        return found

    def arranged(self, base: Any, axes: tuple, places: tuple, sizes: tuple) -> Any:
        if type(base) is Literal:
            return self.emit(broadcast_in_dim, [base], {"shape": sizes, "axes": ()}) if sizes else base
        kept = [i for i, a in enumerate(axes) if a in places]
        targets = [places.index(axes[i]) for i in kept]
        repeated = any([n != 1 for k, n in enumerate(sizes) if k not in targets])
        order = sorted(range(len(kept)), key=targets.__getitem__)
        if len(kept) < len(axes) and (repeated or order != list(range(len(kept)))):
            base = self.reshape(base, tuple([base.aval.shape[i] for i in kept]))
        if order != list(range(len(kept))):
            base = self.emit(transpose, [base], {"perm": tuple(order)})
        if repeated:
            return self.emit(broadcast_in_dim, [base], {"shape": sizes, "axes": tuple(sorted(targets))})
        return base if base.aval.shape == sizes else self.reshape(base, sizes)

    def reshape(self, x: Any, shape: tuple) -> Any:
        x = self.reshaped.get(x, x)
        if x.aval.shape == shape:
            return x
        out = self.emit(reshape, [x], {"shape": shape})
        self.reshaped[out] = x
        return out

    def array(self, atom: Any) -> Any:
        """The value itself, for operations that do not look through views."""
        if type(atom) is Literal:
            return atom
        view = self.views[atom]
        return self.laid_out(view, tuple(range(len(view.shape))))

    def without(self, view: _View, drop: Sequence[int]) -> tuple[Any, tuple]:
        """The base without the axes of size 1 at these places of the shape, and the places of the others."""
        if not any([a in drop for a in view.axes]):
            return view.base, view.axes
        rest = tuple([a for a in view.axes if a not in drop])
        return self.laid_out(view, rest), rest

    # -- the rules

    def visit(self, equation: Equation) -> None:
        self.equation = equation
        primitive = equation.primitive
        rule = _RULES.get(primitive)
        if rule is None and primitive.reduction is not None:
            rule = _Push.reduction
        if rule is None and primitive.emit is not None and not primitive.multiple and not primitive.effect:
            rule = _Push.element
        if rule is not None:
            view, out = rule(self, equation), equation.outputs[0]
            if view is not None and (view.shape or fits(view.base.aval, out.aval)):  # one repeated element may be a weak scalar
                self.views[out] = view
                return
        self.keep(equation)

    def keep(self, equation: Equation) -> None:
        inputs = tuple([self.array(a) for a in equation.inputs])
        if any([a is not b for a, b in zip(inputs, equation.inputs)]):
            equation = equation._replace(inputs=inputs)
        self.equations.append(equation)
        for v in equation.outputs:
            self.views[v] = _whole(v)

    def element(self, equation: Equation) -> _View | None:
        inputs, out = equation.inputs, equation.outputs[0].aval
        if all([type(a) is Var and self.views[a].base is a or type(a) is Literal for a in inputs]):
            self.equations.append(equation)  # the usual case, quickly
            return _whole(equation.outputs[0])
        views = [self.view(a) for a in inputs]
        shaped = [v for a, v in zip(inputs, views) if type(a) is Var and type(v.base) is Var]
        if not shaped or type(out) is not Aval:
            return None
        axes = shaped[0].axes
        if any([v.axes != axes for v in shaped]):
            covered = {a for v in shaped for a in v.axes}
            axes = tuple([a for a in sorted(covered) if out.shape[a] != 1]) or (max(covered),)
        if 0 in out.shape and all([out.shape[a] for a in axes]):
            axes = (*axes, out.shape.index(0))
        literals = equation.primitive is not pow_p
        operands = [
            a if type(a) is Literal else v.base if type(v.base) is Literal and literals else self.laid_out(v, axes)
            for a, v in zip(inputs, views)
        ]
        aval = equation.primitive.abstract_eval(*[a.aval for a in operands], **equation.params)
        if aval.dtype != out.dtype or aval.weak != out.weak:
            return None
        return _View(self.emit(equation.primitive, operands, equation.params), axes, out.shape)

    def same(self, equation: Equation) -> _View | None:
        (x,) = equation.inputs
        return self.views[x] if type(x) is Var else None

    def remember(self, equation: Equation, view: _View) -> _View:
        """A view that the given equation computes from the base itself."""
        if equation.inputs[0] is view.base:
            self.old.setdefault(view, equation)
        return view

    def broadcast(self, equation: Equation) -> _View | None:
        (x,), shape, axes = equation.inputs, equation.params["shape"], equation.params["axes"]
        if type(x) is Literal:
            if not shape:
                return None
            strong = x if not x.aval.weak else Literal(x.aval.dtype.type(x.value))
            view = _View(strong, (), shape)
            if strong is not x:
                self.old[view] = equation
            return self.remember(equation, view)
        view = self.views[x]
        grown = [p for p, a in enumerate(axes) if view.shape[p] != shape[a]]
        base, places = self.without(view, grown)
        result = _View(base, tuple([axes[p] for p in places]), shape)
        if grown and len(axes) == len(view.axes) and equation.inputs[0] is view.base:
            self.old.setdefault(result, equation)  # broadcasting itself grows axes of size 1
        return self.remember(equation, result)

    def transpose(self, equation: Equation) -> _View | None:
        (x,), perm = equation.inputs, equation.params["perm"]
        if type(x) is Literal:
            return None
        view = self.views[x]
        axes = tuple([perm.index(a) for a in view.axes])
        return self.remember(equation, _View(view.base, axes, equation.outputs[0].aval.shape))

    def reshaping(self, equation: Equation) -> _View | None:
        (x,), shape = equation.inputs, equation.params["shape"]
        if type(x) is Literal:
            return None
        view = self.views[x]
        old = [p for p, n in enumerate(view.shape) if n != 1]
        new = [p for p, n in enumerate(shape) if n != 1]
        if [view.shape[p] for p in old] == [shape[p] for p in new]:
            base, places = self.without(view, [p for p in view.axes if view.shape[p] == 1])
            result = _View(base, tuple([new[old.index(p)] for p in places]), shape)
            if base is not view.base and equation.inputs[0] is view.base and view.axes == tuple(range(len(view.shape))):
                self.old.setdefault(result, equation)
            return self.remember(equation, result)
        return _whole(self.reshape(self.array(x), shape))

    def index(self, equation: Equation) -> _View | None:
        (x,) = equation.inputs
        if type(x) is Literal:
            return None
        index = equation.params["index"] if equation.primitive is basic_index_p else _triples(equation)
        view = self.views[x]
        entries: dict[int, Any] = {}
        places: dict[int, int] = {}  # axis of x -> axis of the result
        axis = out = 0
        for entry in index:
            if entry is not None:
                entries[axis] = entry
                if type(entry) is tuple:
                    places[axis] = out
                axis += 1
            out += type(entry) is not int
        shape = equation.outputs[0].aval.shape
        whole = view == _whole(x)
        moved = any([entries[a] not in ((0, n, 1), 0 if n == 1 else None) for a, n in enumerate(view.shape) if a in view.axes])
        if moved and whole:
            params = {"index": index} if equation.primitive is basic_index_p else equation.params
            return _whole(self.emit(equation.primitive, [x], params))
        base, own = self.without(view, [a for a in view.axes if view.shape[a] == 1 and a not in places])
        axes = tuple([places[a] for a in own if a in places])
        if moved:
            base = self.emit(basic_index_p, [base], {"index": tuple([entries[a] for a in own])})
        return _View(base, axes, shape)

    def place(self, equation: Equation) -> _View | None:
        (x,), index, shape = equation.inputs, equation.params["index"], equation.params["shape"]
        if type(x) is Literal:
            return None
        view = self.views[x]
        if view == _whole(x) and 1 not in shape and 1 not in view.shape:
            return None
        entries: list[Any] = []  # of the base's own axes
        needed, places = [], []  # axes of x that the base must have; axes of the result that it has
        p = axis = 0
        for entry in index:
            n = None if entry is None else shape[axis]
            if type(entry) is int:
                if n != 1:
                    entries.append(entry)
                    places.append(axis)
            else:
                repeated = p not in view.axes or view.shape[p] == 1
                if entry is not None and not (repeated and entry == (0, n, 1)):
                    places.append(axis)
                    if repeated and entry[1] == 1:
                        entries.append(entry[0])
                    else:
                        entries.append(entry)
                        needed.append(p)
                p += 1
            axis += entry is not None
        base = self.laid_out(view, tuple(needed))
        if places:
            inner = {"index": tuple(entries), "shape": tuple([shape[a] for a in places])}
            base = self.emit(basic_place_p, [base], inner)
        return _View(base, tuple(places), shape)

    def reduction(self, equation: Equation) -> _View | None:
        (x,), reduced = equation.inputs, equation.params["axes"]
        primitive = equation.primitive
        if type(x) is Literal or not x.aval.size:
            return None
        view = self.views[x]
        axes = view.axes
        if not idempotent(primitive.reduction.ufunc):
            more = [a for a in reduced if a not in axes and view.shape[a] != 1]
            if primitive is reduce_sum_p and not more and not any([a in axes for a in reduced]):
                more = [*reduced][:1]
            if more:
                axes = tuple(sorted([*[a for a in axes if view.shape[a] != 1], *more]))
        inner = tuple([i for i, a in enumerate(axes) if a in reduced])
        if type(view.base) is Literal and not axes:
            return None
        base = self.laid_out(view, axes)
        if inner:
            base = self.emit(primitive, [base], {"axes": inner})
        elif base.aval.dtype != equation.outputs[0].aval.dtype:
            return None
        left = [a for a in range(len(view.shape)) if a not in reduced]
        return _View(base, tuple([left.index(a) for a in axes if a not in reduced]), equation.outputs[0].aval.shape)

    def product(self, equation: Equation) -> _View | None:
        if any([type(a) is Literal for a in equation.inputs]) or not all([a.aval.size for a in equation.inputs]):
            return None
        (cx, cy), (bx, by) = equation.params["dimension_numbers"]
        vx, vy = [self.views[a] for a in equation.inputs]
        if type(vx.base) is Literal or type(vy.base) is Literal:
            return None
        ux, uy = _operand(vx, cx), _operand(vy, cy)
        pairs = [(i, j) for i, j in zip(bx, by) if i in ux and j in uy]
        numbers = (
            (tuple([ux.index(i) for i in cx]), tuple([uy.index(j) for j in cy])),
            (tuple([ux.index(i) for i, _ in pairs]), tuple([uy.index(j) for _, j in pairs])),
        )
        out = self.emit(dot_general_p, [self.laid_out(vx, ux), self.laid_out(vy, uy)], {"dimension_numbers": numbers})
        free_x = [i for i in range(len(vx.shape)) if i not in cx and i not in bx]
        free_y = [j for j in range(len(vy.shape)) if j not in cy and j not in by]
        at_x = {i: k for k, i in enumerate([*bx, *free_x])}
        at_y = {**{j: k for k, j in enumerate(by)}, **{j: len(at_x) + k for k, j in enumerate(free_y)}}
        paired_x, paired_y = [i for i, _ in pairs], [j for _, j in pairs]
        places = [at_x[i] for i in paired_x]
        places += [at_x[i] for i in ux if i not in cx and i not in paired_x]
        places += [at_y[j] for j in uy if j not in cy and j not in paired_y]
        return _View(out, tuple(places), equation.outputs[0].aval.shape)


def _operand(view: _View, summed: tuple) -> tuple:
    """The axes that a product needs of an operand: those that are summed, and those of more than one element it has."""
    kept = tuple([a for a in view.axes if a in summed or view.shape[a] != 1])
    missing = [a for a in summed if a not in kept]
    return kept if not missing else tuple(sorted([*kept, *missing]))


def _triples(equation: Equation) -> tuple:
    """The index of a slice: (start, count, step) per axis."""
    start, strides = equation.params["start"], equation.params["strides"]
    counts = equation.outputs[0].aval.shape
    return tuple([(s, n, k) for s, n, k in zip(start, counts, strides or (1,) * len(start))])


_RULES: dict[Any, Any] = {
    broadcast_in_dim: _Push.broadcast,
    transpose: _Push.transpose,
    reshape: _Push.reshaping,
    basic_index_p: _Push.index,
    slice_p: _Push.index,
    basic_place_p: _Push.place,
    dot_general_p: _Push.product,
    stop_gradient: _Push.same,
}


def push(jaxpr: Jaxpr) -> Jaxpr:
    """The program with views moved to their readers."""
    state = _Push(jaxpr)
    for equation in jaxpr.equations:
        state.visit(equation)
    outputs = tuple([state.array(o) for o in jaxpr.outputs])
    if len(state.equations) == len(jaxpr.equations) and _unchanged(state.equations, jaxpr, outputs):
        return jaxpr
    return Jaxpr(jaxpr.inputs, tuple(state.equations), outputs)


def _unchanged(equations: list[Equation], jaxpr: Jaxpr, outputs: tuple) -> bool:
    """Are these the program's equations, but for the names of variables or for where the views among them stand?"""
    if {*map(id, equations)} == {*map(id, jaxpr.equations)}:
        return all([a is b for a, b in zip(outputs, jaxpr.outputs)])
    names: dict[Any, Any] = {}
    for new, old in zip(equations, jaxpr.equations):
        if new is old:
            continue
        if new.primitive is not old.primitive or new.params != old.params:
            return False
        if any([names.get(a, a) is not b for a, b in zip(new.inputs, old.inputs)]):
            return False
        names.update(zip(new.outputs, old.outputs))
    return all([names.get(a, a) is b for a, b in zip(outputs, jaxpr.outputs)])


# -- A few elements are picked before they are worked on, not after
#
# Idea: `log_softmax(z)[rows, labels]` reads one number of each row of an array that nobody else needs. What makes that array,
# element by element, is done to the picked elements of its operands instead; values that were repeated to its shape are picked
# from where they were not. The array itself is not made then. Invariants: an index out of bounds raises as before, since one
# operand at least is read at all of the indices; more work is never done, for what is picked is a small part.


PART = 8  # the picked elements are at most this part of the array
LONGEST = 12  # operations that are moved


def picks(jaxpr: Jaxpr) -> Jaxpr:
    """The program with the element operations whose results are picked from moved behind that."""
    if not any([e.primitive is gather_p for e in jaxpr.equations]):
        return jaxpr
    return rewrite(jaxpr, _step)


def _step(work: Work, equation: Equation) -> Any:
    if equation.primitive is not gather_p or type(equation.inputs[0]) is Literal:
        return None
    x, (out,) = equation.inputs[0], equation.outputs
    if work.shared(x) or not equation.inputs[1].aval.shape or PART * prod(out.aval.shape) > prod(x.aval.shape):
        return None
    if _element(work, x) is None:
        return None
    pick = _Pick(work, equation)
    if not pick.reaches(x) or len(pick.moved) > LONGEST:
        return None
    for operand in pick.whole:  # first, for the errors that they raise are those of the given program
        pick.moved[operand] = pick.gather(operand, equation.inputs[1:], equation.params)
    found = pick.of(x)
    return [found] if fits(found.aval, out.aval) else None


def _element(work: Work, x: Any) -> Equation | None:
    """The equation that makes each element of x of the elements of its operands at that place."""
    found = work.definitions.get(x)
    if found is None or found.primitive.emit is None or found.primitive.multiple or found.primitive.effect:
        return None
    return found if all([type(a) is Literal or a.aval.shape == x.aval.shape for a in found.inputs]) else None


class _Pick:
    """What one gather does, done to the operands of what makes its array."""

    def __init__(self, work: Work, equation: Equation):
        self.work, self.equation = work, equation
        self.moved: dict[Any, Any] = {}  # array -> what is picked of it
        self.whole: dict[Any, None] = {}  # operands that have all of the elements
        self.shape = equation.outputs[0].aval.shape

    def reaches(self, x: Any) -> bool:
        """Is an operand read that has all of the elements? Notes what is moved on the way."""
        if type(x) is Literal or x in self.moved or len(self.moved) > LONGEST:
            return False
        made = _element(self.work, x)
        if made is None:
            whole = self.work.definition(x, broadcast_in_dim) is None
            if whole:
                self.whole[x] = None
            return whole
        self.moved[x] = None
        return any([self.reaches(a) for a in made.inputs])

    def of(self, x: Any) -> Any:
        if type(x) is Literal:
            return x
        if self.moved.get(x) is None:
            self.moved[x] = self._made(x)
        return self.moved[x]

    def _made(self, x: Any) -> Any:
        made, view = _element(self.work, x), self.work.definition(x, broadcast_in_dim)
        if made is not None:
            return self.work.add(made.primitive, [self.of(a) for a in made.inputs], made.params, made.source)
        repeated = None if view is None else self._of_repeated(view)
        return self.gather(x, self.equation.inputs[1:], self.equation.params) if repeated is None else repeated

    def gather(self, x: Any, indices: Any, params: dict) -> Any:
        return self.work.add(gather_p, [x, *indices], params, self.equation.source)

    def _of_repeated(self, view: Equation) -> Any:
        """Picked from what was repeated, by the indices along its own axes; None if it has some of the leading axes only."""
        (base,), shape, source = view.inputs, view.params["shape"], self.equation.source
        _, *indices = self.equation.inputs
        lead, rank = self.equation.params["batch_dims"], len(indices[0].aval.shape)
        if type(base) is Literal:
            return self.work.add(broadcast_in_dim, [base], {"shape": self.shape, "axes": ()}, source)
        own = [a for a, n in zip(view.params["axes"], base.aval.shape) if n == shape[a] and n != 1]
        sizes = tuple([shape[a] for a in own])
        picked = [index for axis, index in enumerate(indices, lead) if axis in own]
        behind = [rank + a - lead - len(indices) for a in own if a >= lead + len(indices)]
        if picked and not all([a in own for a in range(lead)]) or own != sorted(own):
            return None
        if base.aval.shape != sizes:
            base = self.work.add(reshape, [base], {"shape": sizes}, source)
        places = (*[a for a in own if a < lead], *behind)
        if picked:
            base, places = self.gather(base, picked, {"batch_dims": lead, "unique": False}), (*range(rank), *behind)
        if base.aval.shape == self.shape:
            return base
        return self.work.add(broadcast_in_dim, [base], {"shape": self.shape, "axes": places}, source)


# -- signs move out of sums: the sum of -x is 0 - the sum of x, and of x * -y it is 0 - the sum of x * y
#
# A negation inside a sum is a pass over an array; behind it, an operation on what is left of the axes. Not a bit changes:
# rounding knows no direction, and NumPy's sums start at +0, so none is -0. Trap: 0 - 0 is +0, as the sum of negative zeros is,
# but -(0) is not. Only what the sum alone reads is rewritten, so nothing is computed twice.


def signs(jaxpr: Jaxpr) -> Jaxpr:
    """The program with negations behind the sums that alone read them.

    >>> import numpy as np, funcad
    >>> from funcad.passes.push import signs
    >>> print(signs(funcad.make_jaxpr(lambda x: np.sum(-x))(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
        b:f64[2] = neg a
        c:f64[] = reduce_sum[axes=(0,)] a
        d:f64[] = sub 0.0 c
      in (d,) }
    """
    present = {e.primitive for e in jaxpr.equations}
    if reduce_sum_p not in present or neg not in present:
        return jaxpr
    uses = uses_of(jaxpr)

    def step(work: Work, equation: Equation) -> Any:
        if equation.primitive is not reduce_sum_p or not equation.params["axes"]:
            return None
        x = _positive(work, equation.inputs[0], uses)
        if x is None:
            return None
        total = work.add(reduce_sum_p, (x,), equation.params, equation.source)
        found = work.add(sub, (Literal(0.0), total), {}, equation.source)
        uses[found] = uses.get(equation.outputs[0], 0)
        return [found]

    return rewrite(jaxpr, step)


def _positive(work: Work, x: Any, uses: dict[Any, int]) -> Any:
    """-x, if x is for one reader and a negation, or a product with one."""
    if type(x) is not Var or type(x.aval) is not Aval or x.aval.dtype.kind != "f" or uses.get(x) != 1:
        return None
    made = work.definition(x, neg)
    if made is not None:
        return made.inputs[0]
    made = work.definition(x, mul)
    if made is None:
        return None
    for k, a in enumerate(made.inputs):
        inner = work.definition(a, neg) if uses.get(a) == 1 else None
        if inner is not None and inner.inputs[0].aval == x.aval:
            inputs = [inner.inputs[0] if i == k else b for i, b in enumerate(made.inputs)]
            return work.add(mul, tuple(inputs), {}, made.source)
    return None
