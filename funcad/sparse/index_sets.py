"""The pattern of a Jacobian: the program is run on index sets instead of numbers.

Idea: beside each element of a value stands the set of the inputs that it may depend on. The sets of one value are a Boolean
matrix, (elements, inputs), in SciPy's CSR format; an operation of the linearized program is a Boolean matrix too, and
multiplies it. Which matrix follows from facts of the primitive: "pointwise" operations unite the sets element by element,
those that move, select or add up elements (`reach`, see masks/masks.py) are asked by running their own implementation, or
their transpose, on an array of indices; products say their `paths`; programs that are called are run likewise. All others are
dense, along their axes if they have some.

Factors that do not depend on the inputs are known, and their zeros count: `mask * x`, `matrix @ x`. A factor that does depend
on them may be zero at this point and not at another, so the sets hold for every x. Invariant: the pattern may be too large,
never too small. Trap: in a loop of unknown length, and in one that is long, the carry's sets are united until they no longer
grow.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.errors import FuncadError
from funcad.ir.aval import AnyAval, Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, subjaxprs
from funcad.ir.trace import bind
from funcad.masks.masks import reach_of
from funcad.memo import Table
from funcad.primitives.loop import Loop
from funcad.transforms.partial import linearize_jaxpr

MOST = 2**28  # elements of a pattern that are still called sparse
SMALL = 2**20  # elements of an operation's matrix that is found column by column
COLUMNS = 2000  # of such an operation, at most
TURNS = 20_000  # turns of a loop that are followed one by one

Matrix = Any  # one of SciPy's CSR arrays of bools


class _Unknown:
    """A value that depends on the inputs by its numbers alone: a factor, an index."""

    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


class Sets:
    """The sets of a value's elements; of a stack, those of an element of any of its entries."""

    __slots__ = ("matrix",)

    def __init__(self, matrix: Matrix):
        self.matrix = matrix


def _sparse() -> Any:
    import scipy.sparse

    return scipy.sparse


def _size(aval: AnyAval) -> int:
    return _size(aval.element) if isinstance(aval, StackAval) else aval.size


def _empty(rows: int, columns: int) -> Matrix:
    return _sparse().csr_array((rows, columns), dtype=bool)


def matrix_of(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Matrix:
    """The Boolean matrix with these elements, each of which may be named several times."""
    return _sparse().csr_array((np.ones(len(rows), bool), (rows, columns)), shape=shape)


def _choice(index: np.ndarray, n: int) -> Matrix:
    """Row i of the result is row index[i] of the operand, or empty where that is -1."""
    kept = index >= 0
    pointers = np.concatenate([[0], np.cumsum(kept)])
    columns = index[kept]
    return _sparse().csr_array((np.ones(len(columns), bool), columns, pointers), shape=(len(index), n))


def _limited(count: int, equation: Equation) -> None:
    if count > MOST:
        raise FuncadError(
            f"funcad.sparse: behind {equation.primitive.name} the Jacobian is no longer sparse, it has {count} elements.\n"
            "Remedy: give the pattern that you know, sparsity=, or use jacfwd or jacrev."
        )


def _union(matrix: Matrix) -> np.ndarray:
    """Which columns occur at all."""
    return np.unique(matrix.indices)


def _dense(matrix: Matrix, rows: int, equation: Equation) -> Matrix:
    """Every row is the union of all rows."""
    columns = _union(matrix)
    _limited(rows * len(columns), equation)
    pointers = np.arange(rows + 1) * len(columns)
    return _sparse().csr_array((np.ones(rows * len(columns), bool), np.tile(columns, rows), pointers), (rows, matrix.shape[1]))


def _along(matrix: Matrix, shape: tuple[int, ...], axes: Sequence[int], equation: Equation) -> Matrix:
    """Dense along some axes, on its own along the others."""
    kept = [n for i, n in enumerate(shape) if i not in axes]
    numbers = np.arange(prod(kept)).reshape([1 if i in axes else n for i, n in enumerate(shape)])
    group = np.broadcast_to(numbers, shape).reshape(-1)
    united = _choice(group, prod(kept)).T.tocsr() @ matrix
    _limited(int(np.diff(united.indptr)[group].sum()), equation)
    return united[group]


# -- one operation


def _one_source(apply: Callable[[np.ndarray], Any], n: int) -> np.ndarray | None:
    """For an operation with weights that are not negative: which element each element of the result comes from (-1: from none).

    None if one comes from several: weights and indices have a variance then.
    """
    if n > 2**24:  # the squares would no longer be exact
        return None
    numbers = np.arange(1.0, n + 1)
    weights, first, second = [np.asarray(apply(v), float).reshape(-1) for v in (np.ones(n), numbers, numbers * numbers)]
    there = weights != 0
    mean = np.divide(first, weights, out=np.zeros_like(first), where=there)
    index = np.rint(mean)
    if (weights < 0).any() or (abs(mean - index) > 1e-6).any():
        return None
    square = np.divide(second, weights, out=np.zeros_like(first), where=there)
    if (abs(square - index * index) > 0.4).any():
        return None
    return index.astype(np.intp) - 1


def _operation(equation: Equation, values: Sequence[Any], position: int) -> Matrix | None:
    """The matrix of an equation of one result in one of its linear operands, if the others are known."""
    primitive, atoms, params, (out,), _ = equation
    aval = atoms[position].aval
    if any(v is UNKNOWN for v in values) or isinstance(out.aval, StackAval) or isinstance(aval, StackAval):
        return None

    def filled(i: int, v: Any, x: Any) -> Any:
        if i == position:
            return x
        if type(v) is Sets or reach is not None and np.asarray(v).dtype.kind in "fc":  # a known zero
            return np.zeros(atoms[i].aval.shape)
        return v

    def apply(x: np.ndarray) -> Any:
        given = [filled(i, v, x.reshape(aval.shape)) for i, v in enumerate(values)]
        return primitive.impl(np, *given, **params)

    def transposed(ct: np.ndarray) -> Any:
        wide = Aval(aval.shape, np.dtype(float))
        given = [Var(wide) if i == position else filled(i, v, None) for i, v in enumerate(values)]
        return primitive.transpose(ct.reshape(out.aval.shape), *given, **params)[position]

    reach, n, m = reach_of(primitive, params), aval.size, out.aval.size
    with np.errstate(all="ignore"):
        if reach is not None:
            index = _one_source(apply, n)
            if index is not None:
                return _choice(index, n)
            index = _one_source(transposed, m) if primitive.transpose is not None and len(atoms) == 1 else None
            if index is not None:
                return _choice(index, m).T.tocsr()
        if n * m > SMALL or n > COLUMNS or any(np.asarray(v).dtype.kind == "c" for v in values if type(v) is not Sets):
            return None
        rows, columns = [], []
        for i in range(n):
            one = np.zeros(n, aval.dtype if reach is None else float)
            one[i] = 1
            found = np.asarray(apply(one)).reshape(-1).nonzero()[0]
            rows.append(found)
            columns.append(np.full(len(found), i))
    return matrix_of(np.concatenate(rows), np.concatenate(columns), (m, n)) if rows else _empty(m, n)


def _pointwise(equation: Equation, values: Sequence[Any], position: int) -> Matrix | None:
    """Which elements get through: those whose factor is not zero, if that is known."""
    primitive, atoms, params, (out,), _ = equation
    factors = [v for v in values if type(v) is not Sets]
    if not factors or any(v is UNKNOWN for v in factors) or isinstance(out.aval, StackAval):
        return None
    if atoms[position].aval.dtype.kind == "c" and out.aval.dtype.kind != "c":  # imaginary tangents may get through
        return None
    given = [
        v if type(v) is not Sets else np.full(a.aval.shape, i == position, a.aval.dtype)
        for i, (v, a) in enumerate(zip(values, atoms))
    ]
    with np.errstate(all="ignore"):
        there = np.broadcast_to(primitive.impl(np, *given, **params), out.aval.shape).reshape(-1) != 0
    return None if there.all() else _choice(np.where(there, np.arange(there.size), -1), there.size)


def _product(equation: Equation, values: Sequence[Any], position: int) -> Matrix:
    """The sets of a product with one linear factor."""
    primitive, atoms, params, (out,), _ = equation
    shape, other = atoms[position].aval.shape, values[1 - position]
    matrix, whole = values[position].matrix, atoms[1 - position].aval
    if whole.size > MOST:
        return _dense(matrix, out.aval.size, equation)
    factor = np.ones(whole.shape, bool) if other is UNKNOWN else np.asarray(other) != 0
    if np.sqrt(float(out.aval.size) * prod(shape) / max(1, whole.size)) * np.count_nonzero(factor) > MOST // 4:  # about as many
        return _dense(matrix, out.aval.size, equation)
    paths: Any = primitive.paths
    return matrix_of(*paths(position, factor, shape, **params), (out.aval.size, prod(shape))) @ matrix


def _result(equation: Equation, values: Sequence[Any], memo: Table) -> Matrix:
    """The sets of the one result of an equation; `memo` has the matrices that depend on no value, for a loop's next turn."""
    primitive, atoms, params, (out,), _ = equation
    reach = reach_of(primitive, params)
    linear = [i for i, v in enumerate(values) if type(v) is Sets]
    size, total = _size(out.aval), None
    if primitive.paths is not None and len(linear) == 1:
        return _product(equation, values, linear[0])
    for i in linear:
        matrix = values[i].matrix
        if reach in ("pointwise", "choice"):
            through = _pointwise(equation, values, i)
            found = matrix if through is None else through @ matrix
            if found.shape[0] != size:  # a scalar beside shaped operands
                found = _dense(found, size, equation)
        else:
            if len(linear) < len(values):
                operation = _operation(equation, values, i)
            else:
                key = (out, i)
                operation = memo.get(key)
                if operation is None:
                    operation = memo.put(key, _operation(equation, values, i))
            found = _through_axes(equation, i, matrix) if operation is None else operation @ matrix
        total = found if total is None else total + found
    return total


def _through_axes(equation: Equation, position: int, matrix: Matrix) -> Matrix:
    """The sets behind an operation of which only its axes are known, or not even these."""
    _, atoms, params, (out,), _ = equation
    aval, axes = out.aval, params.get("axes", params.get("axis"))
    alike = all([a.aval.shape in (aval.shape, ()) for a in atoms]) if not isinstance(aval, StackAval) else False
    whole = axes is None or not alike or "axis_name" in params
    if whole or matrix.shape[0] != aval.size:  # a scalar reaches all elements
        return _dense(matrix, _size(aval), equation)
    return _along(matrix, aval.shape, [a % aval.ndim for a in (axes if isinstance(axes, tuple) else (axes,))], equation)


# -- programs


def _united(a: Any, b: Any, rows: int, n: int) -> Any:
    """What is known of a value that is the one or the other."""
    if type(a) is Sets or type(b) is Sets:
        matrices = [v.matrix if type(v) is Sets else _empty(rows, n) for v in (a, b)]
        return Sets(matrices[0] + matrices[1])
    if a is UNKNOWN or b is UNKNOWN:
        return UNKNOWN
    x, y = np.asarray(a), np.asarray(b)
    return a if x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes() else UNKNOWN


def _row(value: Any, i: int, rows: int) -> Any:
    """Entry i of what a loop reads."""
    if type(value) is Sets:
        return Sets(value.matrix[i * rows : (i + 1) * rows])
    return value if value is UNKNOWN else value[i]


def _loop(loop: Loop, values: Sequence[Any], equation: Equation, n: int) -> list[Any]:
    count, args = loop.counted(values)
    consts, carry, xs = loop.split(args)
    body, sizes = loop.body, [_size(a) for a in loop.body.in_avals]
    out_sizes = [_size(a) for a in body.out_avals]
    if loop.length is None or loop.length > TURNS and any([type(c) is Sets for c in carry]):
        return _long_loop(loop, consts, carry, xs, out_sizes, n, equation)
    ys: list[list[Any]] = [[] for _ in range(loop.n_ys)]
    turns = range(loop.length)
    for i in reversed(turns) if loop.reverse else turns:
        items = [_row(x, i, s) for x, s in zip(xs, loop.split(sizes)[2])]
        outs = run_sets(body, [*consts, *carry, *items], n)
        carry = outs[: loop.n_carry]
        for y, v in zip(ys, outs[loop.n_carry :]):
            y.append(v)
    return [*carry, *[_stacked(y[::-1] if loop.reverse else y, s, n) for y, s in zip(ys, out_sizes[loop.n_carry :])]]


def _stacked(entries: list[Any], rows: int, n: int) -> Any:
    if any([type(v) is Sets for v in entries]):
        return Sets(_sparse().vstack([v.matrix if type(v) is Sets else _empty(rows, n) for v in entries], format="csr"))
    return UNKNOWN if not entries or any([v is UNKNOWN for v in entries]) else np.stack(entries)


def _long_loop(
    loop: Loop, consts: list[Any], carry: list[Any], xs: list[Any], sizes: list[int], n: int, equation: Equation
) -> list[Any]:
    """The sets after any number of turns, whichever entries they read."""

    def any_entry(x: Any, rows: int) -> Any:
        if type(x) is not Sets or loop.length is None:
            return x if type(x) is Sets else UNKNOWN
        return Sets(_choice(np.tile(np.arange(rows), loop.length), rows).T.tocsr() @ x.matrix)

    items = [any_entry(x, _size(a)) for x, a in zip(xs, loop.split(loop.body.in_avals)[2])]
    while True:
        outs = run_sets(loop.body, [*consts, *carry, *items], n)
        grown = [_united(c, o, s, n) for c, o, s in zip(carry, outs, sizes)]
        if all([_as_large(c, g) for c, g in zip(carry, grown)]):
            break
        carry = grown
    ys = outs[loop.n_carry :]
    if loop.length is not None:
        _limited(sum([loop.length * y.matrix.nnz for y in ys if type(y) is Sets]), equation)
        ys = [_stacked([y] * loop.length, s, n) for y, s in zip(ys, sizes[loop.n_carry :])]
    return [*carry, *[y if type(y) is Sets else UNKNOWN for y in ys]]


def _as_large(a: Any, b: Any) -> bool:
    return a.matrix.nnz == b.matrix.nnz if type(a) is Sets and type(b) is Sets else type(a) is type(b)


def _called(equation: Equation, values: Sequence[Any], n: int) -> list[Any] | None:
    """The results of the program `jaxpr` that the equation calls with all operands, or of one of its `branches`."""
    jaxpr, branches = equation.params.get("jaxpr"), equation.params.get("branches")
    if branches is None:
        return None if jaxpr is None else run_sets(jaxpr, values, n)
    sizes = [_size(v.aval) for v in equation.outputs]
    found, *others = [run_sets(branch, values[1:], n) for branch in branches]  # the first operand says which
    for outs in others:
        found = [_united(a, b, s, n) for a, b, s in zip(found, outs, sizes)]
    return found


def _several(equation: Equation, values: Sequence[Any], n: int) -> list[Any]:
    """The results of an equation with several, or with programs."""
    loop = equation.params.get("loop")
    if isinstance(loop, Loop) and loop.cond is None:
        return _loop(loop, values, equation, n)
    found = _called(equation, values, n)
    if found is not None:
        return found
    linear = [v.matrix for v in values if type(v) is Sets]
    if not linear:
        return [UNKNOWN] * len(equation.outputs)
    columns = _sparse().vstack(linear, format="csr")
    return [Sets(_dense(columns, _size(v.aval), equation)) if _inexact(v.aval) else UNKNOWN for v in equation.outputs]


def _inexact(aval: AnyAval) -> bool:
    return isinstance(aval, StackAval) or aval.dtype.kind in "fc"


def run_sets(jaxpr: Jaxpr, inputs: Sequence[Any], n: int) -> list[Any]:
    """The outputs of a program for arrays (known), UNKNOWN and `Sets` of n inputs."""
    values: dict[Var, Any] = dict(zip(jaxpr.inputs, inputs))
    matrices = Table(
        "sparse.index sets",
        "operation: its matrix, where that depends on no value",
    )
    memo = jaxpr.memo.setdefault("index_sets", matrices)

    def read(atom: Any) -> Any:
        return atom.value if type(atom) is Literal else values[atom]

    for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
        primitive = equation.primitive
        given = [read(a) for a in equation.inputs]
        known = not any([v is UNKNOWN or type(v) is Sets for v in given])
        if known and not primitive.effect and not jaxpr_effects(equation):
            with np.errstate(all="ignore"):
                out = bind(primitive, *given, **equation.params)
            outs = out if primitive.multiple else [out]
        elif primitive.multiple:
            outs = _several(equation, given, n)
        elif any([type(v) is Sets for v in given]) and _inexact(equation.outputs[0].aval):
            outs = [Sets(_result(equation, given, memo))]
        else:
            outs = [UNKNOWN]
        values.update(zip(equation.outputs, outs))
        for v in dead:
            del values[v]
    return [read(o) for o in jaxpr.outputs]


def jaxpr_effects(equation: Equation) -> bool:
    return equation.primitive.multiple and any([j.has_effects for j in subjaxprs(equation.params)])


def pattern_of(jaxpr: Jaxpr, consts: Sequence[Any]) -> Matrix:
    """The pattern, (outputs, inputs), of a program (consts, other values, x) -> y on vectors, whatever the other values are."""
    n, m = _size(jaxpr.inputs[-1].aval), _size(jaxpr.outputs[0].aval)
    halves = linearize_jaxpr(jaxpr, (*[False] * (len(jaxpr.inputs) - 1), True))
    if not halves.out_nonzero[0]:
        return _empty(m, n)
    known = [c if type(c) is np.ndarray else UNKNOWN for c in [*halves.consts, *consts]]
    inputs = [*known[len(halves.consts) :], *[UNKNOWN] * (len(jaxpr.inputs) - len(consts))]
    outs = run_sets(halves.forward, [*known[: len(halves.consts)], *inputs], n)
    residuals = halves.collect(inputs, outs)
    identity = _choice(np.arange(n), n)
    residuals = [r if r is UNKNOWN or type(r) is np.ndarray or np.isscalar(r) else UNKNOWN for r in residuals]
    (found,) = run_sets(halves.linear, [*residuals, Sets(identity)], n)
    if type(found) is not Sets:
        return _empty(m, n)
    found.matrix.sum_duplicates()
    found.matrix.sort_indices()
    return found.matrix
