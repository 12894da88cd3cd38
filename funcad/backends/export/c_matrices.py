"""Linear algebra in C, matrix by matrix of a stack: what LAPACK's routines do, with their choice of pivots and signs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from funcad.backends.export.c_elements import c_type, literal
from funcad.backends.export.c_program import INDEFINITE, SINGULAR, CArray, CProgram, rule
from funcad.backends.export.c_rules import variables
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.jaxpr import Equation

_INT32 = np.dtype(np.int32)


def _matrices(p: CProgram, batch: Sequence[int], write: Callable[[list[str]], None]) -> None:
    """For each matrix of a stack."""
    if 0 not in batch:
        with p.loops(batch) as names:
            write(names)


def _one(x: CArray, names: Sequence[str], p: CProgram) -> CArray:
    """One matrix (or vector) of a stack."""
    pointer, k = p.fresh("q"), len(names)
    p.line(f"{c_type(x.dtype)} *{pointer} = {'&' + x.at(names) if names else x.pointer};")
    return x._replace(base=pointer, shape=x.shape[k:], strides=x.strides[k:], offset=0)


def _seen_one(x: CArray, names: Sequence[str], p: CProgram) -> CArray:
    pointer, k = p.fresh("q"), len(names)
    p.line(f"const {c_type(x.dtype)} *{pointer} = {'&' + x.at(names) if names else x.pointer};")
    return x._replace(base=pointer, shape=x.shape[k:], strides=x.strides[k:], offset=0)


def _factored(p: CProgram, a: CArray, names: Sequence[str], factors: CArray, pivots: CArray) -> str:
    """The LU factors of one matrix; a variable that says whether it is singular."""
    n, m = a.shape[-2:]
    p.copy(_seen_one(a, names, p), factors)
    singular = p.fresh("s")
    p.line(f"const int {singular} = {p.helper('lu', a.dtype)}({n}, {m}, {factors.base}, {pivots.base});")
    return singular


# -- factors by LU, with pivots
#
# The function of a factorization says whether a pivot is zero; what that means is its caller's: an error for a system, NaN
# for a derivative that asks for an inverse, 0 for a determinant. Factors and pivots of one matrix lie in the workspace, for all
# matrices of a stack in turn; `lu` itself writes them into its results.


@rule("solve")
def _solve(p: CProgram, equation: Equation, values: list) -> list:
    a, b = values
    target = p.new(equation.outputs[0])
    n, k = b.shape[-2:]
    factors, pivots = p.array(a.dtype, (n, n)), p.array(_INT32, (n,))

    def write(names: list[str]) -> None:
        singular = _factored(p, a, names, factors, pivots)
        p.leave_if(singular, SINGULAR)
        x = _one(target, names, p)
        p.copy(_seen_one(b, names, p), x)
        _solved(p, factors, pivots.base, x, False)

    _matrices(p, b.shape[:-2], write)
    p.release(factors)
    p.release(pivots)
    return [target]


def _solved(p: CProgram, factors: CArray, pivots: str, x: CArray, transposed: bool) -> None:
    """x by substitution with factors that are no singular ones."""
    n, k = x.shape[-2:]
    call = p.helper("triangular", x.dtype)
    exchange = f"{p.helper('exchanged', x.dtype)}({n}, {k}, {pivots}, {x.base}, {int(transposed)});"
    if not transposed:
        p.line(exchange)
    for lower in ((1, 0), (0, 1))[transposed]:
        p.line(f"(void){call}({n}, {k}, {factors.base}, {x.base}, {lower}, {int(transposed)}, {lower});")
    if transposed:
        p.line(exchange)


@rule("factored_solve")
def _factored_solve(p: CProgram, equation: Equation, values: list, *, transposed: bool) -> list:
    _, b, factors, pivots = values
    target = p.new(equation.outputs[0])
    if not prod(b.shape):
        return [target]
    factors, pivots = p.contiguous(factors), p.contiguous(pivots)
    n = b.shape[-2]

    def write(names: list[str]) -> None:
        f, x, order = _seen_one(factors, names, p), _one(target, names, p), _seen_one(pivots, names, p)
        with p.loops([n]) as (i,):
            p.leave_if(f"{f.at([i, i])} == 0", SINGULAR)
        p.copy(_seen_one(b, names, p), x)
        _solved(p, f, order.base, x, transposed)

    _matrices(p, b.shape[:-2], write)
    p.release(factors)
    p.release(pivots)
    return [target]


@rule("lu")
def _lu(p: CProgram, equation: Equation, values: list) -> list:
    (a,) = values
    lu, pivots, permutation = [p.new(v) for v in equation.outputs]
    m, n = a.shape[-2:]

    def write(names: list[str]) -> None:
        factors, order, rows = [_one(x, names, p) for x in (lu, pivots, permutation)]
        singular = _factored(p, a, names, factors, order)
        p.line(f"(void){singular};")
        with p.loops([m]) as (i,):
            p.line(f"{rows.at([i])} = (int32_t){i};")
        p.line(f"{p.helper('exchanged_rows')}({min(m, n)}, {order.base}, {rows.base});")

    _matrices(p, a.shape[:-2], write)
    return [lu, pivots, permutation]


@rule("pivot_permutation")
def _pivot_permutation(p: CProgram, equation: Equation, values: list) -> list:
    (pivots,) = values
    target, n = p.new(equation.outputs[0]), pivots.shape[-1]
    if pivots.dtype != _INT32:
        raise Unsupported(f"pivots of {pivots.dtype}")
    pivots = p.contiguous(pivots)

    def write(names: list[str]) -> None:
        order, rows = _seen_one(pivots, names, p), _one(target, names, p)
        with p.loops([n]) as (i,):
            p.line(f"{rows.at([i])} = (int32_t){i};")
        p.line(f"{p.helper('exchanged_rows')}({n}, {order.base}, {rows.base});")

    _matrices(p, pivots.shape[:-1], write)
    p.release(pivots)
    return [target]


@rule("inv")
def _inv(p: CProgram, equation: Equation, values: list, *, strict: bool) -> list:
    (a,) = values
    target = p.new(equation.outputs[0])
    n = a.shape[-1]
    factors, pivots = p.array(a.dtype, (n, n)), p.array(_INT32, (n,))

    def write(names: list[str]) -> None:
        singular = _factored(p, a, names, factors, pivots)
        if strict:
            p.leave_if(singular, SINGULAR)
        x = _one(target, names, p)
        with p.loops([n, n]) as (i, j):
            p.line(f"{x.at([i, j])} = {i} == {j};")
        if strict:
            _solved(p, factors, pivots.base, x, False)
            return
        with p.block(f"if ({singular})"):
            p.fill(x, np.nan)
        with p.block("else"):
            _solved(p, factors, pivots.base, x, False)

    _matrices(p, a.shape[:-2], write)
    p.release(factors)
    p.release(pivots)
    return [target]


@rule("det", "slogdet", "log_abs_det")
def _determinant(p: CProgram, equation: Equation, values: list) -> list:
    (a,) = values
    dtype, n = a.dtype, a.shape[-1]
    name = equation.primitive.name
    factors, pivots = p.array(dtype, (n, n)), p.array(_INT32, (n,))
    outs = variables(p, [v.aval for v in equation.outputs], equation.outputs)

    def write(names: list[str]) -> None:
        singular = _factored(p, a, names, factors, pivots)
        p.line(f"(void){singular};")
        sign, total = [p.fresh("t") for _ in range(2)]
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

    _matrices(p, a.shape[:-2], write)
    p.release(factors)
    p.release(pivots)
    return outs


@rule("adjugate")
def _adjugate(p: CProgram, equation: Equation, values: list) -> list:
    """The determinant times the inverse; of a matrix that is singular, or nearly so, determinants of minors."""
    (a,), target = values, p.new(equation.outputs[0])
    n, dtype = a.shape[-1], a.dtype
    factors, minor, pivots = p.array(dtype, (n, n)), p.array(dtype, (n, n)), p.array(_INT32, (n,))
    kind = c_type(dtype)

    def determinant(matrix: CArray, m: int) -> tuple[str, str, str]:
        """Names of the determinant, of the least and of the largest pivot."""
        names = det, least, most = p.fresh("t"), p.fresh("t"), p.fresh("t")
        p.line(f"{kind} {det} = 1, {least} = INFINITY, {most} = 0;")
        with p.loops([m]) as (i,):
            pivot = p.e.load(dtype, f"{matrix.base}[{i} * {m} + {i}]")
            size = p.e.abs(pivot)
            p.line(f"{det} *= {pivots.base}[{i}] == {i} ? {pivot.text} : -{pivot.text};")
            p.line(f"if ({size.text} < {least}) {least} = {size.text};")
            p.line(f"if ({size.text} > {most}) {most} = {size.text};")
        return names

    def write(names: list[str]) -> None:
        singular, x, m = _factored(p, a, names, factors, pivots), _one(target, names, p), _seen_one(a, names, p)
        det, least, most = determinant(factors, n)
        with p.block(f"if (!{singular} && {least} > {literal(np.finfo(dtype).eps ** 0.5, dtype).text} * {most})"):
            with p.loops([n, n]) as (i, j):
                p.line(f"{x.at([i, j])} = {i} == {j} ? {det} : 0;")
            _solved(p, factors, pivots.base, x, False)
        with p.block("else"), p.loops([n, n]) as (i, j):
            with p.loops([n - 1, n - 1]) as (r, c):
                place = m.at([f"({r} + ({r} >= {j}))", f"({c} + ({c} >= {i}))"])
                p.line(f"{minor.base}[{r} * {n - 1} + {c}] = {place};")
            call = f"{p.helper('lu', dtype)}({n - 1}, {n - 1}, {minor.base}, {pivots.base})"
            p.line(f"(void){call};")
            part, *_ = determinant(minor, n - 1)
            p.line(f"{x.at([i, j])} = ({i} + {j}) % 2 == 0 ? {part} : -{part};")

    if n:
        _matrices(p, a.shape[:-2], write)
    for x in (factors, minor, pivots):
        p.release(x)
    return [target]


# -- triangles, Cholesky, QR
#
# Only the lower triangle counts, as for LAPACK. Reflectors have LAPACK's signs: the diagonal of R has the other sign than what
# it came from, and a column that needs no reflector keeps its own.


@rule("cholesky")
def _cholesky(p: CProgram, equation: Equation, values: list) -> list:
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])

    def write(names: list[str]) -> None:
        x, out = _seen_one(a, names, p), _one(target, names, p)
        p.leave_if(f"{p.helper('cholesky', a.dtype)}({a.shape[-1]}, {x.base}, {out.base})", INDEFINITE)

    _matrices(p, a.shape[:-2], write)
    p.release(a)
    return [target]


@rule("triangular_solve")
def _triangular(p: CProgram, equation: Equation, values: list, *, lower: bool, transposed: bool, unit_diagonal: bool) -> list:
    b = values[1]
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])
    n, k = b.shape[-2:]

    def write(names: list[str]) -> None:
        m, x = _seen_one(a, names, p), _one(target, names, p)
        p.copy(_seen_one(b, names, p), x)
        flags = f"{int(lower)}, {int(transposed)}, {int(unit_diagonal)}"
        p.leave_if(f"{p.helper('triangular', b.dtype)}({n}, {k}, {m.base}, {x.base}, {flags})", SINGULAR)

    if prod(b.shape):
        _matrices(p, b.shape[:-2], write)
    p.release(a)
    return [target]


@rule("triangular_inverse")
def _triangular_inverse(p: CProgram, equation: Equation, values: list, *, lower: bool) -> list:
    target, a = p.new(equation.outputs[0]), p.contiguous(values[0])
    n = a.shape[-1]

    def write(names: list[str]) -> None:
        m, x = _seen_one(a, names, p), _one(target, names, p)
        with p.loops([n, n]) as (i, j):
            p.line(f"{x.at([i, j])} = {i} == {j};")
        with p.block(f"if ({p.helper('triangular', a.dtype)}({n}, {n}, {m.base}, {x.base}, {int(lower)}, 0, 0))"):
            outside = "<" if lower else ">"
            with p.loops([n, n]) as (i, j):
                p.line(f"{x.at([i, j])} = {i} {outside} {j} ? 0 : NAN;")

    _matrices(p, a.shape[:-2], write)
    p.release(a)
    return [target]


@rule("qr")
def _qr(p: CProgram, equation: Equation, values: list, *, full: bool) -> list:
    (a,) = values
    q, r = [p.new(v) for v in equation.outputs]
    m, n = a.shape[-2:]
    k, width = min(m, n), q.shape[-1]
    factors, tau = p.array(a.dtype, (m, n)), p.array(a.dtype, (k,))

    def write(names: list[str]) -> None:
        p.copy(_seen_one(a, names, p), factors)
        p.line(f"{p.helper('reflect', a.dtype)}({m}, {n}, {factors.base}, {tau.base});")
        left, right = _one(q, names, p), _one(r, names, p)
        if width:
            p.line(f"{p.helper('orthogonal', a.dtype)}({m}, {n}, {width}, {k}, {factors.base}, {tau.base}, {left.base});")
        with p.loops([width, n]) as (i, j):
            p.line(f"{right.at([i, j])} = {i} > {j} ? 0 : {factors.at([i, j])};")

    _matrices(p, a.shape[:-2], write)
    p.release(factors)
    p.release(tau)
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

    def write(names: list[str]) -> None:
        band, x = _seen_one(ab, names, p), _one(target, names, p)
        p.fill(rows, 0)
        with p.loops([lower + upper + 1, n]) as (r, j):
            i = p.fresh("j")
            p.line(f"const int64_t {i} = {j} + {r} - {upper};")
            p.line(f"if ({i} >= 0 && {i} < {n}) {rows.base}[{i} * {width} + {j} - {i} + {lower}] = {band.at([r, j])};")
        p.copy(_seen_one(b, names, p), x)
        p.leave_if(f"{p.helper('banded', b.dtype)}({n}, {k}, {lower}, {upper}, {rows.base}, {x.base})", SINGULAR)

    if prod(b.shape):
        _matrices(p, b.shape[:-2], write)
    p.release(rows)
    return [target]
