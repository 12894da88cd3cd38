"""Operations that are loops of their own in C: control flow, products, indices, running totals, sorting, linear algebra.

Each rule takes the program that is written, the equation, the values of its operands and its parameters, and gives the values
of the results, each held once. `REFUSED` names what has no C, and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcad.backends.export.c_elements import CValue, c_type, lane_type, literal
from funcad.backends.export.c_program import REFUSED, RULES, CArray, CProgram, collapsed
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr
from funcad.primitives.basic_indexing import _common_index, python_index
from funcad.primitives.convolution import dilated

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
INDEX, SINGULAR, INDEFINITE, NUMBER = [f"FC_{name}" for name in ("INDEX", "SINGULAR", "INDEFINITE", "NUMBER")]


def _refuse(why: str, names: str) -> None:
    REFUSED.update(dict.fromkeys(names.split(), why))


_refuse("it calls Python back", "debug_callback io_callback pure_callback")
_refuse("it draws from a generator of the host's", "random_draw")
_refuse("it reads what is outside of the program", "host_read")
_refuse("eigenvalues and singular values have no C", "eig eigh eigvalsh svd svdvals schur spectral pinv lstsq polar nuclear_norm")
_refuse("eigenvalues and singular values have no C", "polar_unitary sqrtm logm logm_linear sylvester gap_quotient")
_refuse("Fourier transforms have no C", "fft trigonometric")
_refuse("LAPACK's way to store Q has no C", "qr_raw")


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """This writes the primitives of these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return put


@rule("stop_gradient", "optimization_barrier", "name", "device_put", "broadcast_in_dim")
def _same(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
    if equation.primitive.name == "broadcast_in_dim":
        (v,) = equation.outputs
        x, strides = p.as_array(values[0]), [0] * len(v.aval.shape)
        for axis, n, s in zip(params["axes"], x.shape, x.strides):
            strides[axis] = s if n == v.aval.shape[axis] else 0
        if not v.aval.shape:
            return [values[0]]
        found = x._replace(shape=v.aval.shape, strides=tuple(strides))
        if v not in p.wanted:
            return [p.hold(found)]
        target = p.new(v)
        p.copy(found, target)
        return [target]
    return [p.hold(x) for x in values]


@rule("reshape")
def _reshape(p: CProgram, equation: Equation, values: list, *, shape: tuple) -> list:
    (x,), (v,) = values, equation.outputs
    if type(x) is not CArray:
        return [x] if not shape else [p.as_array(x, shape)._replace(shape=shape, strides=contiguous_strides(shape))]
    if not shape:
        return [p.e.load(x.dtype, x.at(["0"] * len(x.shape)))]
    if v in p.wanted:
        target = p.new(v)
        p.copy(x, target._replace(shape=x.shape, strides=contiguous_strides(x.shape)))
        return [target]
    x = p.contiguous(x)
    return [x._replace(shape=shape, strides=contiguous_strides(shape))]


# -- elements without a formula in atoms


def _elements(name: str, body: Callable[..., CValue]) -> None:
    def write(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
        return [p.elementwise(equation, values, lambda lanes: body(p.e, equation.outputs[0].aval.dtype, *lanes, **params))]

    RULES[name] = write


def _alike(e: Any, dtype: np.dtype, *lanes: CValue) -> list[CValue]:
    return [e.convert(x, dtype) for x in lanes]


def _bits(e: Any, out: np.dtype, x: CValue, *, dtype: np.dtype) -> CValue:
    name = e.fresh("b")
    e.line(f"{c_type(out)} {name};")
    e.line(f"memcpy(&{name}, &{x.text}, sizeof {name});")
    return CValue(out, name)


def _only_real(word: str) -> Callable[..., CValue]:
    def body(e: Any, dtype: np.dtype, *lanes: CValue) -> CValue:
        if dtype.kind != "f":
            raise Unsupported(f"{word} of {dtype}")
        found: CValue = e.atom(word, *_alike(e, dtype, *lanes))
        return found

    return body


def _heaviside(e: Any, dtype: np.dtype, x: CValue, at_zero: CValue) -> CValue:
    x, at_zero = _alike(e, dtype, x, at_zero)
    zero, one = e.like(x, 0), e.like(x, 1)
    return e.select(e.ne(x, x), x, e.select(e.eq(x, zero), at_zero, e.select(e.lt(x, zero), zero, one)))  # type: ignore


def _frexp(part: int) -> Callable[..., CValue]:
    def body(e: Any, dtype: np.dtype, x: CValue) -> CValue:
        if x.dtype.kind != "f":
            raise Unsupported(f"the mantissa of {x.dtype}")
        name, suffix = e.fresh("b"), "f" if x.dtype.itemsize == 4 else ""
        e.line(f"int {name} = 0;")
        mantissa = e.put(x.dtype, f"frexp{suffix}({x.text}, &{name})")
        if not part:
            e.line(f"(void){name};")
            return mantissa  # type: ignore[no-any-return]
        e.line(f"(void){mantissa.text};")
        return e.put(_INT32, f"{x.text} - {x.text} == 0 ? {name} : 0")  # type: ignore[no-any-return]

    return body


def _ldexp(e: Any, dtype: np.dtype, x: CValue, n: CValue) -> CValue:
    x = e.convert(x, dtype)
    if dtype.kind != "f":
        raise Unsupported(f"ldexp of {dtype}")
    n = e.put(_INT32, f"{n.text} > 100000 ? 100000 : {n.text} < -100000 ? -100000 : (int32_t){n.text}") if n.dtype.itemsize > 4 else n
    return e.put(dtype, f"ldexp{'f' if dtype.itemsize == 4 else ''}({x.text}, (int){n.text})")  # type: ignore[no-any-return]


def _spacing(e: Any, dtype: np.dtype, x: CValue) -> CValue:
    size = e.abs(x)
    return e.copysign(e.sub(e.atom("nextafter", size, e.like(x, np.inf)), size), x)  # type: ignore[no-any-return]


def _divisor(word: str) -> Callable[..., CValue]:
    """The largest common divisor, or the least common multiple."""

    def body(e: Any, dtype: np.dtype, a: CValue, b: CValue) -> CValue:
        if dtype.kind not in "iu":
            raise Unsupported(f"{word} of {dtype}")
        a, b = _alike(e, dtype, a, b)
        x, y, kind = e.fresh("b"), e.fresh("b"), c_type(dtype)
        e.line(f"{kind} {x} = {e.abs(a).text}, {y} = {e.abs(b).text};")
        e.line(f"while ({y} != 0) {{ const {kind} rest = ({kind})({x} % {y}); {x} = {y}; {y} = rest; }}")
        if word == "gcd":
            return CValue(dtype, x)
        one = e.put(dtype, f"{x} == 0 ? 1 : {x}")
        return e.mul(e.quotient(e.abs(a), one), e.abs(b))  # type: ignore[no-any-return]

    return body


def _bit_count(e: Any, dtype: np.dtype, x: CValue) -> CValue:
    rest, count = e.fresh("b"), e.fresh("b")
    e.line(f"uint64_t {rest} = (uint64_t){e.abs(x).text}; int {count} = 0;")
    if x.dtype.kind == "i":
        e.line(f"{rest} &= UINT64_C({2 ** (8 * x.dtype.itemsize) - 1});")
    e.line(f"for (; {rest} != 0; {rest} &= {rest} - 1) {count}++;")
    return e.put(dtype, f"({c_type(dtype)}){count}")  # type: ignore[no-any-return]


def _xlogy(word: str) -> Callable[..., CValue]:
    def body(e: Any, dtype: np.dtype, x: CValue, y: CValue) -> CValue:
        if dtype.kind != "f":
            raise Unsupported(f"x {word} y of {dtype}")
        x, y = _alike(e, dtype, x, y)
        plain = e.mul(x, e.atom(word, y))
        return e.select(e.and_(e.eq(x, e.like(x, 0)), e.eq(y, y)), e.like(x, 0), plain)  # type: ignore[no-any-return]

    return body


def _entr(e: Any, dtype: np.dtype, x: CValue) -> CValue:
    if dtype.kind != "f":
        raise Unsupported(f"the entropy of {dtype}")
    zero = e.like(x, 0)
    inside = e.neg(e.mul(x, e.log(x)))
    rest = e.select(e.eq(x, zero), zero, e.like(x, -np.inf))
    return e.select(e.ne(x, x), x, e.select(e.gt(x, zero), inside, rest))  # type: ignore[no-any-return]


_elements("real", lambda e, dtype, x: e.real(x))
_elements("imag", lambda e, dtype, x: e.imag(x) if x.dtype.kind == "c" else e.like(x, 0))
_elements("conj", lambda e, dtype, x: e.pair(e.real(x), e.neg(e.imag(x))) if x.dtype.kind == "c" else x)
_elements("make_complex", lambda e, dtype, re, im: e.pair(*_alike(e, np.dtype(f"f{dtype.itemsize // 2}"), re, im)))
_elements("bitcast", _bits)
_elements("nextafter", _only_real("nextafter"))
_elements("heaviside", _heaviside)
_elements("mantissa", _frexp(0))
_elements("exponent", _frexp(1))
_elements("ldexp", _ldexp)
_elements("spacing", _spacing)
_elements("gcd", _divisor("gcd"))
_elements("lcm", _divisor("lcm"))
_elements("bit_count", _bit_count)
_elements("xlogy", _xlogy("log"))
_elements("xlog1py", _xlogy("log1p"))
_elements("entr", _entr)


@rule("python_checked")
def _checked(p: CProgram, equation: Equation, values: list, *, function: str) -> list:
    """Where Python would refuse the numbers the function ends; of other arguments it would give what it gives here."""
    x = values[0]
    if type(x) is not CValue or x.dtype.kind != "f":
        raise Unsupported("only one number at a time is asked for what Python refuses")
    p.leave_if(f"!({x.text} - {x.text} == 0)", NUMBER)
    return [x]


# -- control flow


def _variables(p: CProgram, avals: Sequence[Any], variables: Sequence[Any] = ()) -> list[Any]:
    """Places that can be written again and again: of rank 0 a variable of C's."""
    found: list[Any] = []
    for i, aval in enumerate(avals):
        if aval.shape:
            found.append(p.new(variables[i] if variables else aval))
        else:
            name = p.fresh("s")
            p.line(f"{lane_type(aval.dtype)} {name};")
            found.append(CValue(aval.dtype, name))
    return found


def _assign(p: CProgram, place: Any, value: Any) -> None:
    if type(place) is CArray:
        p.copy(value, place)
    elif place.text != value.text:
        p.line(f"{place.text} = {p.e.convert(value, place.dtype).text};")


def _next(p: CProgram, carry: list[Any], new: list[Any]) -> None:
    """The carry of the next turn: what looks at another one is copied first."""
    names = {c.owner if type(c) is CArray else c.text for c in carry}
    bases = {c.base for c in carry if type(c) is CArray}
    moves, spares = [], []
    for c, v in zip(carry, new):
        if v == c:
            continue
        if type(v) is CArray and (v.owner in names or v.base in bases):
            spare = p.array(v.dtype, v.shape)
            p.copy(v, spare)
            spares.append(spare)
            v = spare
        elif type(v) is CValue and v.text in names:
            v = p.e.put(v.dtype, v.text)
        moves.append((c, v))
    for c, v in moves:
        _assign(p, c, v)
    for v in spares:
        p.release(v)
    for v in new:
        p.release(v)


def _start(p: CProgram, equation: Equation, avals: Sequence[Any], starts: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    carry = _variables(p, avals, variables)
    for c, start in zip(carry, starts):
        _assign(p, c, start)
        if type(c) is CArray:
            p.pin(c)
    return carry


def _turn(p: CProgram, body: Jaxpr, n_consts: int, consts: Sequence[Any], carry: Sequence[Any], rest: Sequence[Any], targets: Any) -> Any:
    owned = [False] * len(consts) + [type(c) is CArray and bool(c.owner) for c in carry] + [False] * len(rest)
    for c in carry:
        p.hold(c)
    # the loop's own hold is given away while the body runs, so that what writes elements of the carry may do so in place
    for c in carry:
        if type(c) is CArray and c.owner:
            p.holds[c.owner] -= 1
    found = p.program(body, [*consts, *carry, *rest], targets, owned)
    for c in carry:
        if type(c) is CArray and c.owner:
            p.holds[c.owner] += 1
    return found


@rule("scan", "rolled")
def _scan(p: CProgram, equation: Equation, values: list, *, loop: Any) -> list:
    if loop.length is None:
        raise Unsupported("a loop whose length depends on values")
    consts, starts, xs = loop.split(values)
    body, n = loop.body, loop.n_carry
    avals = [v.aval for v in equation.outputs]
    carry = _start(p, equation, avals[:n], starts, equation.outputs[:n])
    ys = [p.new(v) for v in equation.outputs[n:]]
    if loop.length:
        t = p.fresh("i")
        head = f"int64_t {t} = {loop.length - 1}; {t} >= 0; {t}--" if loop.reverse else f"int64_t {t} = 0; {t} < {loop.length}; {t}++"
        with p.block(f"for ({head})"):
            rows = [_row(p, x, t) if x.shape[1:] else p.e.load(x.dtype, x.at([t])) for x in map(p.as_array, xs)]
            places = [_row(p, y, t, "") if y.shape[1:] else None for y in ys]
            outs = _turn(p, body, loop.n_consts, consts, carry, rows, [*[None] * n, *places])
            for y, place, out in zip(ys, places, outs[n:]):
                if place is not None:
                    p.copy(out, place)
                    p.release(out)
                else:
                    p.line(f"{y.at([t])} = {p.e.convert(out, y.dtype).text};")
            _next(p, carry, outs[:n])
    for c in carry:
        if type(c) is CArray:
            p.unpin(c)
    return [*carry, *ys]


def _row(p: CProgram, x: CArray, t: str, const: str = "const ") -> CArray:
    """Row t of an array."""
    name = p.fresh("q")
    p.line(f"{const}{c_type(x.dtype)} *{name} = &{x.at([t])};")
    return x._replace(base=name, shape=x.shape[1:], strides=x.strides[1:], offset=0)


@rule("while_loop")
def _while(p: CProgram, equation: Equation, values: list, *, loop: Any) -> list:
    if loop.n_emitted:
        raise Unsupported("what a while loop keeps for its derivative, whose size depends on values")
    tested, consts, starts = loop.split(values)
    count, *carried = equation.outputs
    turns = p.fresh("s")
    p.line(f"{c_type(count.aval.dtype)} {turns} = 0;")
    carry = _start(p, equation, [v.aval for v in carried], starts, carried)
    with p.block("for (;;)"):
        (test,) = p.program(loop.cond, [*tested, *carry])
        p.line(f"if (!{test.text}) break;")
        outs = _turn(p, loop.body, loop.n_consts, consts, carry, [], [])
        _next(p, carry, outs)
        p.line(f"{turns}++;")
    for c in carry:
        if type(c) is CArray:
            p.unpin(c)
    return [CValue(count.aval.dtype, turns), *carry]


@rule("cond")
def _cond(p: CProgram, equation: Equation, values: list, *, branches: Sequence[Jaxpr]) -> list:
    index, *operands = values
    outs = _variables(p, [v.aval for v in equation.outputs], equation.outputs)
    chosen = index.text if index.dtype.kind != "b" else f"(int){index.text}"
    for i, branch in enumerate(branches):
        last = len(branches) - 1
        head = "" if not last else f"if ({chosen} <= 0)" if not i else "else" if i == last else f"else if ({chosen} == {i})"
        with p.block(head):
            found = p.program(branch, operands, [x if type(x) is CArray else None for x in outs])
            for place, value in zip(outs, found):
                _assign(p, place, value)
                p.release(value)
    return outs


# -- products


@rule("dot_general")
def _product(p: CProgram, equation: Equation, values: list, *, dimension_numbers: Any) -> list:
    (v,) = equation.outputs
    dtype = v.aval.dtype
    x, y = [p.as_array(a) for a in values]
    (cx, cy), (bx, by) = dimension_numbers
    fx = [i for i in range(len(x.shape)) if i not in (*cx, *bx)]
    fy = [i for i in range(len(y.shape)) if i not in (*cy, *by)]
    target = p.new(v) if v.aval.shape else None
    if target is not None and 0 in target.shape:
        return [target]
    place = target or p.array(dtype, ())
    so = place.strides
    nb = len(bx)
    if dtype.kind == "f" and x.dtype == y.dtype == dtype:
        taken = []
        parts = []
        for a, free, contracted in ((x, fx, cx), (y, fy, cy)):
            found = _two_axes(p, a, free, contracted)
            if found is None:
                a = p.contiguous(a._replace(
                    shape=tuple([a.shape[i] for i in (*(bx if a is x else by), *free, *contracted)]),
                    strides=tuple([a.strides[i] for i in (*(bx if a is x else by), *free, *contracted)]),
                ))
                taken.append(a)
                inner = prod(a.shape[nb + len(free) :])
                found = (inner, 1)
                batch = a.strides[:nb]
            else:
                batch = tuple([a.strides[i] for i in (bx if a is x else by)])
            parts.append((a, found, batch))
        (ax, (xm, xk), xb), (ay, (yn, yk), yb) = parts
        m, n, k = [prod(s) for s in ([x.shape[i] for i in fx], [y.shape[i] for i in fy], [x.shape[i] for i in cx])]
        with p.loops([x.shape[i] for i in bx]) as names:
            arguments = [
                m, n, k, f"&{ax.at(names, xb)}", xm, xk, f"&{ay.at(names, yb)}", yk, yn,
                f"&{place.at(names, so[:nb])}", n, 1,
            ]  # fmt: skip
            p.line(f"{p.helper('product', dtype)}({', '.join(map(str, arguments))});")
        for a in taken:
            p.release(a)
    else:
        with p.loops([*[x.shape[i] for i in bx], *[x.shape[i] for i in fx], *[y.shape[i] for i in fy]]) as names:
            total = p.total("add", dtype)
            with p.loops([x.shape[i] for i in cx]) as inner:
                places = []
                for a, b, f, c, of in ((x, bx, fx, cx, 0), (y, by, fy, cy, len(fx))):
                    own = [*names[:nb], *names[nb + of : nb + of + len(f)], *inner]
                    places.append(a.at(own, [a.strides[i] for i in (*b, *f, *c)]))
                lanes = [p.e.convert(p.e.load(a.dtype, q), dtype) for a, q in zip((x, y), places)]
                p.folded("add", total, p.e.mul(*lanes))
            p.line(f"{place.at(names, so)} = {total.text};")
    if target is not None:
        return [target]
    found = p.e.load(dtype, place.at(()))
    p.release(place)
    return [found]


def _two_axes(p: CProgram, x: CArray, free: Sequence[int], contracted: Sequence[int]) -> tuple[int, int] | None:
    """The strides of the free and of the contracted axes, if each are one."""
    found = []
    for axes in (free, contracted):
        extents, (row,) = collapsed([x.shape[i] for i in axes], [[x.strides[i] for i in axes]])
        if len(extents) > 1:
            return None
        found.append(row[0])
    return found[0], found[1]


@rule("conv")
def _conv(
    p: CProgram, equation: Equation, values: list, *, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any
) -> list:
    (v,) = equation.outputs
    x, kernel = values
    dtype, target = v.aval.dtype, p.new(v)
    groups, n, features, *out = v.aval.shape
    if 0 in v.aval.shape:
        return [target]
    spatial = len(out)
    with p.loops([groups, n, features, *out]) as (g, i, f, *o):
        total = p.total("add", dtype)
        with p.loops([x.shape[2], *kernel.shape[3:]]) as (c, *k):
            places, inside = [], []
            for axis in range(spatial):
                place = p.fresh("j")
                low, size, d = padding[axis][0], x.shape[3 + axis], x_dilation[axis]
                p.line(f"int64_t {place} = {o[axis]} * {strides[axis]} + {k[axis]} * {kernel_dilation[axis]} - ({low});")
                inside.append(f"{place} < 0 || {place} >= {max(dilated(size, d), 0)}" + (f" || {place} % {d} != 0" if d > 1 else ""))
                places.append(f"({place} / {d})" if d > 1 else place)
            if inside:
                p.line(f"if ({' || '.join(inside)}) continue;")
            lanes = [p.e.load(x.dtype, x.at([g, i, c, *places])), p.e.load(kernel.dtype, kernel.at([g, f, c, *k]))]
            p.folded("add", total, p.e.mul(*lanes))
        p.line(f"{target.at([g, i, f, *o])} = {total.text};")
    return [target]


# -- writes of some elements


def _over(p: CProgram, equation: Equation, x: Any) -> Any:
    """The first operand's elements in an array that may be written: its own, if nobody else needs it."""
    (v,) = equation.outputs
    if v not in p.wanted and p.writable(x):
        return p.hold(x)
    target = p.new(v)
    p.copy(x, target)
    return target


@rule("basic_update", "basic_add")
def _update(p: CProgram, equation: Equation, values: list, *, index: tuple) -> list:
    (v,) = equation.outputs
    if not v.aval.shape:
        x, u = values
        return [u if equation.primitive.name == "basic_update" else p.e.add(x, u)]
    target = _over(p, equation, values[0])
    _write(p, p.seen(target, lambda a: a[python_index(index)]), values[1], equation.primitive.name == "basic_add")
    return [target]


def _write(p: CProgram, part: CArray, u: Any, adds: bool) -> None:
    reads = [part, u] if adds else [u]
    p.sweep(part.shape, reads, [part], lambda lanes: [p.e.add(*lanes) if adds else lanes[0]])


@rule("place_sum")
def _place_sum(p: CProgram, equation: Equation, values: list, *, indices: tuple, shape: tuple) -> list:
    (v,) = equation.outputs
    target = p.new(v)
    p.fill(target, 0)
    common = _common_index(indices, shape) if v.aval.dtype.kind in "fc" else None
    if common is not None:
        p.fill(p.seen(target, lambda a: a[common]), complex(-0.0, -0.0) if v.aval.dtype.kind == "c" else -0.0)
    for x, index in zip(values, indices):
        _write(p, p.seen(target, lambda a, index=index: a[python_index(index)]), x, True)
    return [target]


def _window(p: CProgram, x: CArray, starts: Sequence[Any], sizes: Sequence[int], const: str) -> CArray:
    """The window of x at computed starts: wrapped once, then clamped."""
    terms = []
    for start, k, n, s in zip(starts, sizes, x.shape, x.strides):
        at = p.fresh("j")
        p.line(f"int64_t {at} = (int64_t){start.text};")
        p.line(f"{at} = {at} < 0 ? {at} + {n} : {at};")
        p.line(f"{at} = {at} < 0 ? 0 : {at} > {n - k} ? {n - k} : {at};")
        terms.append(f"{at} * {s}")
    name = p.fresh("q")
    p.line(f"{const}{c_type(x.dtype)} *{name} = {x.pointer} + {' + '.join(terms) or '0'};")
    return x._replace(base=name, shape=tuple(sizes), offset=0)


@rule("dynamic_slice")
def _dynamic_slice(p: CProgram, equation: Equation, values: list, *, sizes: tuple) -> list:
    x, *starts = values
    if type(x) is not CArray:
        return [x]
    part = _window(p, x, starts, sizes, "const ")
    (v,) = equation.outputs
    if v in p.wanted:
        target = p.new(v)
        p.copy(part, target)
        return [target]
    return [p.hold(part)]


@rule("dynamic_update_slice", "dynamic_add")
def _dynamic_update(p: CProgram, equation: Equation, values: list) -> list:
    x, u, *starts = values
    adds = equation.primitive.name == "dynamic_add"
    if type(x) is not CArray:
        return [p.e.add(x, u) if adds else u]
    target = _over(p, equation, x)
    if 0 not in target.shape:
        _write(p, _window(p, target, starts, u.shape, ""), u, adds)
    return [target]


# -- computed indices


def _checked_at(p: CProgram, index: CValue, n: int) -> str:
    """A computed index as a number in [0, n); elsewhere the function ends."""
    at = p.fresh("j")
    p.line(f"int64_t {at} = (int64_t){index.text};")
    high = f"{index.text} > UINT64_C({2**63 - 1}) || " if index.dtype == np.uint64 else ""
    p.leave_if(f"{high}{at} < -{n} || {at} >= {n}" if n else "1", INDEX)
    p.line(f"{at} = {at} < 0 ? {at} + {n} : {at};")
    return at


def _spread(x: Any, ndim: int) -> Any:
    """An array of indices with axes behind it along which it is the same."""
    return x._replace(strides=(*x.strides, *[0] * (ndim - len(x.shape)))) if type(x) is CArray else x


@rule("gather")
def _gather(p: CProgram, equation: Equation, values: list, *, batch_dims: int, unique: bool) -> list:
    x, *indices = values
    (v,) = equation.outputs
    shape = v.aval.shape
    if 0 in shape:
        return [p.new(v)]
    x = p.as_array(x)
    rank = len(equation.inputs[1].aval.shape) if indices else batch_dims
    target = p.new(v) if shape else None
    with p.loops(shape) as names:
        own = [_checked_at(p, _lane(p, i, names), n) for i, n in zip(indices, x.shape[batch_dims:])]
        lane = p.e.load(x.dtype, x.at([*names[:batch_dims], *own, *names[rank:]]))
        if target is not None:
            p.line(f"{target.at(names)} = {lane.text};")
    return [lane if target is None else target]


def _lane(p: CProgram, x: Any, names: Sequence[str]) -> CValue:
    """The element of an array at the first of these indices."""
    return p.e.load(x.dtype, x.at(names[: len(x.shape)])) if type(x) is CArray else x


@rule("scatter")
def _scatter(p: CProgram, equation: Equation, values: list, *, mode: str, batch_dims: int, unique: bool) -> list:
    x, u, *indices = values
    shape = equation.inputs[1].aval.shape
    rank = len(equation.inputs[2].aval.shape) if indices else batch_dims
    target = _over(p, equation, x) if type(x) is CArray else None
    if target is None:
        raise Unsupported("a scatter into a number")
    word = {"set": None, "add": "add", "mul": "mul", "min": "minimum", "max": "maximum"}[mode]
    if 0 not in shape:
        with p.loops(shape) as names:
            own = [_checked_at(p, _lane(p, i, names), n) for i, n in zip(indices, target.shape[batch_dims:])]
            place = target.at([*names[:batch_dims], *own, *names[rank:]])
            lane = _lane(p, u, names)
            if word is not None:
                lane = p.e.combine(word, p.e.load(target.dtype, place), lane)
            p.line(f"{place} = {lane.text};")
    return [target]


@rule("checked_index")
def _checked_index(p: CProgram, equation: Equation, values: list, *, shape: tuple, size: int, axis: int, dtype: np.dtype) -> list:
    (v,) = equation.outputs
    (x,) = values
    if not shape:
        at = _checked_at(p, _lane(p, x, ["0"] * 9), size)
        return [p.e.put(dtype, f"({c_type(dtype)}){at}")]
    x = p.contiguous(x)
    target = p.new(v)
    flat = x._replace(shape=shape, strides=contiguous_strides(shape))
    p.sweep(shape, [flat], [target], lambda l: [p.e.put(dtype, f"({c_type(dtype)}){_checked_at(p, l[0], size)}")])
    p.release(x)
    return [target]


@rule("positions")
def _positions(p: CProgram, equation: Equation, values: list, *, size: int, dtype: np.dtype) -> list:
    target = p.new(equation.outputs[0])
    with p.loops([size]) as (i,):
        p.line(f"{target.at([i])} = ({c_type(dtype)}){i};")
    return [target]


# -- along an axis


def _lanes(x: CArray, axis: int) -> tuple[tuple[int, ...], list[int], int, int]:
    """The other extents, their strides, and extent and stride of the axis."""
    others = [i for i in range(len(x.shape)) if i != axis]
    return tuple([x.shape[i] for i in others]), [x.strides[i] for i in others], x.shape[axis], x.strides[axis]


def _ends(n: int, reverse: bool) -> tuple[int, int]:
    return (n - 1, -1) if reverse else (0, 1)


def _running(word: str) -> Callable[..., list]:
    def write(p: CProgram, equation: Equation, values: list, *, axis: int, reverse: bool) -> list:
        (x,), target = values, p.new(equation.outputs[0])
        dtype = target.dtype
        shape, steps, n, s = _lanes(x, axis)
        _, into, _, t = _lanes(target, axis)
        first, step = _ends(n, reverse)
        if 0 in x.shape:
            return [target]
        with p.loops(shape) as names:
            total = p.fresh("t")
            start = p.e.load(dtype, _plus(x, names, steps, f"{first * s}"))
            p.line(f"{lane_type(dtype)} {total} = {start.text};")
            p.line(f"{_plus(target, names, into, f'{first * t}')} = {total};")
            with p.block(f"for (int64_t k = 1; k < {n}; k++)"):
                lane = p.e.load(dtype, _plus(x, names, steps, f"({first} + k * {step}) * {s}"))
                p.line(f"{total} = {p.e.combine(word, CValue(dtype, total), lane).text};")
                p.line(f"{_plus(target, names, into, f'({first} + k * {step}) * {t}')} = {total};")
        return [target]

    return write


def _plus(x: CArray, names: Sequence[str], strides: Sequence[int], more: str) -> str:
    return f"{x.at(names, strides)[:-1]} + {more}]"


for _name, _word in (("cumsum", "add"), ("cumprod", "mul"), ("cummax", "maximum"), ("cummin", "minimum"), ("cumlogsumexp", "logaddexp")):
    RULES[_name] = _running(_word)


@rule("linear_recurrence")
def _recurrence(p: CProgram, equation: Equation, values: list, *, axis: int, reverse: bool) -> list:
    b, a = values
    target = p.new(equation.outputs[0])
    if 0 in target.shape:
        return [target]
    dtype = target.dtype
    n = target.shape[axis]
    first, step = _ends(n, reverse)
    (shape, sb, _, tb), (_, sa, _, ta), (_, st, _, tt) = [_lanes(x, axis) for x in (b, a, target)]
    with p.loops(shape) as names:
        total = p.fresh("t")
        p.line(f"{lane_type(dtype)} {total} = {p.e.load(dtype, _plus(b, names, sb, f'{first * tb}')).text};")
        p.line(f"{_plus(target, names, st, f'{first * tt}')} = {total};")
        with p.block(f"for (int64_t k = 1; k < {n}; k++)"):
            at = f"({first} + k * {step})"
            factor, more = [p.e.load(dtype, _plus(x, names, s, f"{at} * {t}")) for x, s, t in ((a, sa, ta), (b, sb, tb))]
            p.line(f"{total} = {p.e.add(p.e.mul(factor, CValue(dtype, total)), more).text};")
            p.line(f"{_plus(target, names, st, f'{at} * {tt}')} = {total};")
    return [target]


@rule("argmax", "argmin")
def _position(p: CProgram, equation: Equation, values: list, *, axis: int) -> list:
    (v,), (x,) = equation.outputs, values
    shape, steps, n, s = _lanes(x, axis)
    target = p.new(v) if v.aval.shape else None
    if 0 in shape:
        return [target]
    best = p.fresh("s")
    if target is None:
        p.line(f"int64_t {best} = 0;")
    with p.loops(shape) as names:
        if target is not None:
            p.line(f"int64_t {best} = 0;")
        with p.block(f"for (int64_t k = 1; k < {n}; k++)"):
            old, new = [p.e.load(x.dtype, _plus(x, names, steps, f"{k} * {s}")) for k in (best, "k")]
            better = p.e.gt(new, old) if equation.primitive.name == "argmax" else p.e.lt(new, old)
            known = p.e.eq(old, old)
            p.line(f"if ({known.text} && ({better.text} || {p.e.ne(new, new).text})) {best} = k;")
        if target is not None:
            p.line(f"{target.at(names)} = {best};")
    return [CValue(_INT64, best) if target is None else target]


def _sorted_lane(p: CProgram, x: CArray, place: str, n: int, s: int, order: CArray, spare: CArray) -> None:
    """The order of n elements from a place on, stably, with the order that is there as a start."""
    p.line(f"{p.helper('argsort', x.dtype)}({n}, {place}, {s}, {order.base}, {spare.base});")


def _ordered(p: CProgram, keys: Sequence[CArray], axis: int, descending: bool, write: Callable[[list[str], CArray], None]) -> None:
    """For each lane: the positions that sort it by the first key, equal ones by the next ..."""
    shape, _, n, _ = _lanes(keys[0], axis)
    if 0 in keys[0].shape:
        return
    if any([k.dtype.kind == "c" for k in keys]):
        raise Unsupported("sorting complex numbers")
    order, spare = [p.array(_INT64, (n,)) for _ in range(2)]
    with p.loops(shape) as names:
        with p.loops([n]) as (i,):
            p.line(f"{order.base}[{i}] = {i};")
        for key in reversed(keys):
            _, steps, _, s = _lanes(key, axis)
            last = f" + {(n - 1) * s}" if descending else ""
            _sorted_lane(p, key, f"&{key.at(names, steps)}{last}", n, -s if descending else s, order, spare)
        write(names, order)
    p.release(order)
    p.release(spare)


@rule("argsort")
def _argsort(p: CProgram, equation: Equation, values: list, *, axis: int, stable: bool, descending: bool) -> list:
    return _argsort_many(p, equation, values, axis=axis, descending=descending)


@rule("argsort_many")
def _argsort_many(p: CProgram, equation: Equation, values: list, *, axis: int, descending: bool = False) -> list:
    target = p.new(equation.outputs[0])
    _, into, n, t = _lanes(target, axis)

    def write(names: list[str], order: CArray) -> None:
        with p.loops([n]) as (i,):
            place = f"{n - 1} - {order.base}[{n - 1} - {i}]" if descending else f"{order.base}[{i}]"
            p.line(f"{_plus(target, names, into, f'{i} * {t}')} = {place};")

    _ordered(p, values, axis, descending, write)
    return [target]


@rule("sort")
def _sort(p: CProgram, equation: Equation, values: list, *, axis: int) -> list:
    (x,), target = values, p.new(equation.outputs[0])
    (_, steps, n, s), (_, into, _, t) = _lanes(x, axis), _lanes(target, axis)

    def write(names: list[str], order: CArray) -> None:
        with p.loops([n]) as (i,):
            source = _plus(x, names, steps, f"{order.base}[{i}] * {s}")
            p.line(f"{_plus(target, names, into, f'{i} * {t}')} = {source};")

    _ordered(p, [x], axis, False, write)
    return [target]


@rule("top_k")
def _top_k(p: CProgram, equation: Equation, values: list, *, k: int) -> list:
    (x,), (best, where) = values, [p.new(v) for v in equation.outputs]
    axis = len(x.shape) - 1
    (_, steps, n, s), (_, into, _, t) = _lanes(x, axis), _lanes(best, axis)

    def write(names: list[str], order: CArray) -> None:
        with p.loops([k]) as (i,):
            at = p.fresh("j")
            p.line(f"const int64_t {at} = {n - 1} - {order.base}[{n - 1} - {i}];")
            p.line(f"{_plus(best, names, into, f'{i} * {t}')} = {_plus(x, names, steps, f'{at} * {s}')};")
            p.line(f"{_plus(where, names, into, f'{i} * {t}')} = {at};")

    if k:
        _ordered(p, [x], axis, True, write)
    return [best, where]


@rule("searchsorted")
def _searchsorted(p: CProgram, equation: Equation, values: list, *, side: str, lanes: int) -> list:
    table, x = values
    (v,) = equation.outputs
    if table.dtype.kind == "c":
        raise Unsupported("searching complex numbers")
    n, s = table.shape[-1], table.strides[-1]
    call = lambda lane, names: f"{p.helper('search', table.dtype)}({n}, &{table.at(names[:lanes])}, {s}, {lane.text}, {int(side == 'right')})"
    if not v.aval.shape:
        return [p.e.put(_INT64, call(x, []))]
    target = p.new(v)
    with p.loops(v.aval.shape) as names:
        p.line(f"{target.at(names)} = {call(_lane(p, x, names), names)};")
    return [target]


# -- linear algebra, matrix by matrix


def _matrices(p: CProgram, batch: Sequence[int], write: Callable[[list[str]], None]) -> None:
    """For each matrix of a stack."""
    if 0 not in batch:
        with p.loops(batch) as names:
            write(names)


def _copied(p: CProgram, x: CArray, target: CArray) -> None:
    p.sweep(x.shape, [x], [target], lambda lanes: lanes)


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
    _copied(p, _seen_one(a, names, p), factors)
    singular = p.fresh("s")
    p.line(f"const int {singular} = {p.helper('lu', a.dtype)}({n}, {m}, {factors.base}, {pivots.base});")
    return singular


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
        _copied(p, _seen_one(b, names, p), x)
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
        _copied(p, _seen_one(b, names, p), x)
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
    outs = _variables(p, [v.aval for v in equation.outputs], equation.outputs)

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
        _copied(p, _seen_one(b, names, p), x)
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
        _copied(p, _seen_one(a, names, p), factors)
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
        _copied(p, _seen_one(b, names, p), x)
        p.leave_if(f"{p.helper('banded', b.dtype)}({n}, {k}, {lower}, {upper}, {rows.base}, {x.base})", SINGULAR)

    if prod(b.shape):
        _matrices(p, b.shape[:-2], write)
    p.release(rows)
    return [target]
