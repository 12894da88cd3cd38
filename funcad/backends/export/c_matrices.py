"""Linear algebra in C, matrix by matrix of a stack: what LAPACK's routines do, with their choice of pivots and signs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod

import numpy as np

from funcad.backends.export.c_elements import c_type, literal
from funcad.backends.export.c_program import INDEFINITE, SINGULAR, CArray, CProgram, rule
from funcad.backends.export.c_rules import variables
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation

_INT32 = np.dtype(np.int32)


@contextmanager
def _each(
    p: CProgram, batch: Sequence[int], reads: Sequence[CArray], writes: Sequence[CArray]
) -> Iterator[tuple[list[str], list[CArray]]]:
    """For each matrix (or vector) of stacks: where it stands, and it in what is read and in what is written."""
    with p.loops(batch) as names:
        found = []
        for i, x in enumerate([*reads, *writes]):
            pointer, k = p.fresh("q"), len(names)
            const = "const " if i < len(reads) else ""
            place = "&" + x.at(names) if names else x.pointer
            p.line(f"{const}{c_type(x.dtype)} *{pointer} = {place};")
            found.append(x._replace(base=pointer, shape=x.shape[k:], strides=x.strides[k:], offset=0))
        yield names, found


# -- factors by LU, with pivots
#
# The function of a factorization says whether a pivot is zero; what that means is its caller's: an error for a system, NaN
# for a derivative that asks for an inverse, 0 for a determinant. Factors and pivots of one matrix lie in the workspace, for all
# matrices of a stack in turn; `lu` itself writes them into its results.


def _factored(p: CProgram, a: CArray, factors: CArray, pivots: CArray) -> str:
    """The LU factors of one matrix; a variable that says whether it is singular."""
    n, m = a.shape
    p.copy(a, factors)
    singular, call = p.fresh("s"), p.helper("lu", a.dtype)
    p.line(f"const int {singular} = {call}({n}, {m}, {factors.base}, {pivots.base});")
    return singular


def _solved(p: CProgram, factors: CArray, pivots: CArray, x: CArray, transposed: bool = False) -> None:
    """x by substitution with factors that are no singular ones."""
    n, k = x.shape
    call, exchange = p.helper("triangular", x.dtype), p.helper("exchanged", x.dtype)
    exchange += f"({n}, {k}, {pivots.base}, {x.base}, {int(transposed)});"
    if not transposed:
        p.line(exchange)
    for lower in ((1, 0), (0, 1))[transposed]:
        p.line(f"(void){call}({n}, {k}, {factors.base}, {x.base}, {lower}, {int(transposed)}, {lower});")
    if transposed:
        p.line(exchange)


def _permutation(p: CProgram, n: int, pivots: CArray, rows: CArray) -> None:
    """The numbers of rows after n exchanges."""
    p.each(rows, lambda i: f"(int32_t){i}")
    p.line(f"{p.helper('exchanged_rows')}({n}, {pivots.base}, {rows.base});")


@rule("solve")
def _solve(p: CProgram, equation: Equation, values: list) -> list:
    a, b = values
    target, n = p.new(equation.outputs[0]), b.shape[-2]
    factors, pivots = p.array(a.dtype, (n, n)), p.array(_INT32, (n,))
    with _each(p, b.shape[:-2], (a, b), (target,)) as (_, (m, right, x)):
        p.leave_if(_factored(p, m, factors, pivots), SINGULAR)
        p.copy(right, x)
        _solved(p, factors, pivots, x)
    p.release(factors, pivots)
    return [target]


@rule("factored_solve")
def _factored_solve(p: CProgram, equation: Equation, values: list, *, transposed: bool) -> list:
    _, b, factors, pivots = values
    target = p.new(equation.outputs[0])
    if not prod(b.shape):
        return [target]
    factors, pivots = p.contiguous(factors), p.contiguous(pivots)
    with _each(p, b.shape[:-2], (factors, pivots, b), (target,)) as (_, (f, order, right, x)):
        with p.loops(b.shape[-2:-1]) as (i,):
            p.leave_if(f"{f.at([i, i])} == 0", SINGULAR)
        p.copy(right, x)
        _solved(p, f, order, x, transposed)
    p.release(factors, pivots)
    return [target]


@rule("lu")
def _lu(p: CProgram, equation: Equation, values: list) -> list:
    (a,), results = values, [p.new(v) for v in equation.outputs]
    with _each(p, a.shape[:-2], (a,), results) as (_, (m, factors, pivots, rows)):
        p.line(f"(void){_factored(p, m, factors, pivots)};")
        _permutation(p, min(m.shape), pivots, rows)
    return results


@rule("pivot_permutation")
def _pivot_permutation(p: CProgram, equation: Equation, values: list) -> list:
    target = p.new(equation.outputs[0])
    if values[0].dtype != _INT32:
        raise Unsupported(f"pivots of {values[0].dtype}")
    pivots = p.contiguous(values[0])
    with _each(p, pivots.shape[:-1], (pivots,), (target,)) as (_, (order, rows)):
        _permutation(p, pivots.shape[-1], order, rows)
    p.release(pivots)
    return [target]


@rule("inv")
def _inv(p: CProgram, equation: Equation, values: list, *, strict: bool) -> list:
    (a,), target = values, p.new(equation.outputs[0])
    n = a.shape[-1]
    factors, pivots = p.array(a.dtype, (n, n)), p.array(_INT32, (n,))
    with _each(p, a.shape[:-2], (a,), (target,)) as (_, (m, x)):
        singular = _factored(p, m, factors, pivots)
        if strict:
            p.leave_if(singular, SINGULAR)
        p.each(x, lambda i, j: f"{i} == {j}")
        if strict:
            _solved(p, factors, pivots, x)
        else:
            with p.block(f"if ({singular})"):
                p.fill(x, np.nan)
            with p.block("else"):
                _solved(p, factors, pivots, x)
    p.release(factors, pivots)
    return [target]


@rule("det", "slogdet", "log_abs_det")
def _determinant(p: CProgram, equation: Equation, values: list) -> list:
    (a,) = values
    dtype, n = a.dtype, a.shape[-1]
    name = equation.primitive.name
    factors, pivots = p.array(dtype, (n, n)), p.array(_INT32, (n,))
    outs = variables(p, [v.aval for v in equation.outputs], equation.outputs)
    with _each(p, a.shape[:-2], (a,), ()) as (names, (m,)):
        p.line(f"(void){_factored(p, m, factors, pivots)};")
        sign, total = p.fresh("t"), p.fresh("t")
        p.line(f"{c_type(dtype)} {sign} = 1, {total} = {1 if name == 'det' else 0};")
        with p.loops([n]) as (i,):
            d = p.e.load(dtype, factors.at([i, i]))
            p.line(f"if ({pivots.base}[{i}] != {i}) {sign} = -{sign};")
            if name == "det":
                p.line(f"{total} *= {d.text};")
            else:
                p.line(f"{sign} = {d.text} == 0 ? 0 : {d.text} < 0 ? -{sign} : {sign};")
                p.line(f"{total} += {p.e.log(p.e.abs(d)).text};")
        found = {"det": [f"{sign} * {total}"], "slogdet": [sign, total], "log_abs_det": [total]}[name]
        if name != "det":
            p.line(f"(void){sign};")
        for place, text in zip(outs, found):
            p.line(f"{place.at(names) if type(place) is CArray else place.text} = {text};")
    p.release(factors, pivots)
    return outs


@rule("adjugate")
def _adjugate(p: CProgram, equation: Equation, values: list) -> list:
    """The determinant times the inverse; of a matrix that is singular, or nearly so, determinants of minors."""
    (a,), target = values, p.new(equation.outputs[0])
    n, dtype = a.shape[-1], a.dtype
    if not n:
        return [target]
    factors, pivots = p.array(dtype, (n, n)), p.array(_INT32, (n,))
    minor = p.array(dtype, (n - 1, n - 1))

    def determinant(matrix: CArray) -> tuple[str, str, str]:
        """Names of the determinant, of the least and of the largest pivot."""
        names = det, least, most = p.fresh("t"), p.fresh("t"), p.fresh("t")
        p.line(f"{c_type(dtype)} {det} = 1, {least} = INFINITY, {most} = 0;")
        with p.loops(matrix.shape[:1]) as (i,):
            pivot = p.e.load(dtype, matrix.at([i, i]))
            size = p.e.abs(pivot)
            p.line(f"{det} *= {pivots.base}[{i}] == {i} ? {pivot.text} : -{pivot.text};")
            p.line(f"if ({size.text} < {least}) {least} = {size.text};")
            p.line(f"if ({size.text} > {most}) {most} = {size.text};")
        return names

    with _each(p, a.shape[:-2], (a,), (target,)) as (_, (m, x)):
        singular = _factored(p, m, factors, pivots)
        det, least, most = determinant(factors)
        with p.block(f"if (!{singular} && {least} > {literal(np.finfo(dtype).eps ** 0.5, dtype).text} * {most})"):
            p.each(x, lambda i, j: f"{i} == {j} ? {det} : 0")
            _solved(p, factors, pivots, x)
        with p.block("else"), p.loops([n, n]) as (i, j):
            p.each(minor, lambda r, c: m.at([f"({r} + ({r} >= {j}))", f"({c} + ({c} >= {i}))"]))
            call = p.helper("lu", dtype)
            p.line(f"(void){call}({n - 1}, {n - 1}, {minor.base}, {pivots.base});")
            part, *_ = determinant(minor)
            p.line(f"{x.at([i, j])} = ({i} + {j}) % 2 == 0 ? {part} : -{part};")
    p.release(factors, minor, pivots)
    return [target]


# -- triangles, Cholesky, QR
#
# Only the lower triangle counts, as for LAPACK. Reflectors have LAPACK's signs: the diagonal of R has the other sign than what
# it came from, and a column that needs no reflector keeps its own.


@rule("cholesky")
def _cholesky(p: CProgram, equation: Equation, values: list) -> list:
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])
    with _each(p, a.shape[:-2], (a,), (target,)) as (_, (x, out)):
        p.leave_if(f"{p.helper('cholesky', a.dtype)}({a.shape[-1]}, {x.base}, {out.base})", INDEFINITE)
    p.release(a)
    return [target]


@rule("triangular_solve")
def _triangular(p: CProgram, equation: Equation, values: list, *, lower: bool, transposed: bool, unit_diagonal: bool) -> list:
    b = values[1]
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])
    n, k = b.shape[-2:]
    with _each(p, b.shape[:-2], (a, b), (target,)) as (_, (m, right, x)):
        p.copy(right, x)
        flags = f"{int(lower)}, {int(transposed)}, {int(unit_diagonal)}"
        call = p.helper("triangular", b.dtype)
        if prod(b.shape):
            p.leave_if(f"{call}({n}, {k}, {m.base}, {x.base}, {flags})", SINGULAR)
    p.release(a)
    return [target]


@rule("triangular_inverse")
def _triangular_inverse(p: CProgram, equation: Equation, values: list, *, lower: bool) -> list:
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])
    n, outside = a.shape[-1], "<" if lower else ">"
    with _each(p, a.shape[:-2], (a,), (target,)) as (_, (m, x)):
        p.each(x, lambda i, j: f"{i} == {j}")
        with p.block(f"if ({p.helper('triangular', a.dtype)}({n}, {n}, {m.base}, {x.base}, {int(lower)}, 0, 0))"):
            p.each(x, lambda i, j: f"{i} {outside} {j} ? 0 : NAN")
    p.release(a)
    return [target]


@rule("qr")
def _qr(p: CProgram, equation: Equation, values: list, *, full: bool) -> list:
    (a,), (q, r) = values, [p.new(v) for v in equation.outputs]
    m, n = a.shape[-2:]
    k, width = min(m, n), q.shape[-1]
    factors, tau = p.array(a.dtype, (m, n)), p.array(a.dtype, (k,))
    with _each(p, a.shape[:-2], (a,), (q, r)) as (_, (x, left, right)):
        p.copy(x, factors)
        p.line(f"{p.helper('reflect', a.dtype)}({m}, {n}, {factors.base}, {tau.base});")
        if width:
            p.line(f"{p.helper('orthogonal', a.dtype)}({m}, {n}, {width}, {k}, {factors.base}, {tau.base}, {left.base});")
        p.each(right, lambda i, j: f"{i} > {j} ? 0 : {factors.at([i, j])}")
    p.release(factors, tau)
    return [q, r]


@rule("banded_solve")
def _banded(p: CProgram, equation: Equation, values: list, *, lower: int, upper: int, positive: bool) -> list:
    ab, b = values
    target = p.new(equation.outputs[0])
    if positive:
        raise Unsupported("a positive definite band has no C; solve_banded has")
    n, k = b.shape[-2:]
    width = 2 * lower + upper + 1
    rows = p.array(b.dtype, (n, width))
    with _each(p, b.shape[:-2], (ab, b), (target,)) as (_, (band, right, x)):
        p.fill(rows, 0)
        with p.loops([lower + upper + 1, n]) as (r, j):
            i = p.fresh("j")
            p.line(f"const int64_t {i} = {j} + {r} - {upper};")
            p.line(f"if ({i} >= 0 && {i} < {n}) {rows.base}[{i} * {width} + {j} - {i} + {lower}] = {band.at([r, j])};")
        p.copy(right, x)
        call = p.helper("banded", b.dtype)
        if prod(b.shape):
            p.leave_if(f"{call}({n}, {k}, {lower}, {upper}, {rows.base}, {x.base})", SINGULAR)
    p.release(rows)
    return [target]
