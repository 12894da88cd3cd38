"""Operations that are loops of their own in C: elements without a formula in atoms, control flow, products, fused groups.

Each rule takes the program that is written, the equation, the values of its operands and its parameters, and gives the values
of the results, each held once. `c_places.py` has those that write or look up elements, `c_matrices.py` linear algebra.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from operator import mul
from typing import Any

import numpy as np

from funcad.backends.export.c_elements import CValue, c_type, lane_type
from funcad.backends.export.c_program import NUMBER, RULES, SMALL, CArray, CProgram, rule
from funcad.backends.export.c_shapes import collapsed
from funcad.backends.loops.batch_loops import batch_loops
from funcad.backends.loops.element_loops import element_loops
from funcad.backends.loops.row_loops import row_loops
from funcad.backends.memory import carries_of
from funcad.backends.plans.element_plan import Unsupported, analyse, contiguous_strides, seen
from funcad.backends.plans.element_writer import part_of
from funcad.backends.plans.row_plan import RowPlan
from funcad.ir.jaxpr import Equation, Jaxpr, split
from funcad.passes.example_loops import layouts
from funcad.passes.fuse import fuse
from funcad.primitives.convolution import phases_of, placement
from funcad.primitives.loop import Loop

_INT32 = np.dtype(np.int32)


@rule("stop_gradient", "optimization_barrier", "name", "device_put")
def _same(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
    return [p.hold(x) for x in values]


@rule("broadcast_in_dim")
def _broadcast(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
    return [p.moved(equation, values)] if params["shape"] else values


@rule("reshape")
def _reshape(p: CProgram, equation: Equation, values: list, *, shape: tuple) -> list:
    (x,), (v,) = values, equation.outputs
    if v in p.wanted and type(x) is CArray:
        target = p.new(v)
        p.copy(x, target._replace(shape=x.shape, strides=contiguous_strides(x.shape)))
        return [target]
    look = lambda a: a.reshape(shape)
    found = seen(p.as_array(x), look)
    if found is not None:
        return [p.viewed(v, found) if shape or type(x) is CArray else x]
    return [seen(p.contiguous(x), look)]


# -- elements without a formula in atoms
#
# NumPy and SciPy compute these by functions of C's own, which engines of ours call as they are. Here they are formulas: of
# parts of complex numbers, of bits, of libm's functions; each as accurate as the original, to some units in the last place.


def _elements(name: str, body: Callable[..., CValue]) -> None:
    def write(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
        dtype = equation.outputs[0].aval.dtype
        return [p.elementwise(equation, values, lambda lanes: body(p.e, dtype, *lanes, **params))]

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
    found = e.select(e.eq(x, zero), at_zero, e.select(e.lt(x, zero), zero, one))
    return e.select(e.ne(x, x), x, found)


def _frexp(part: int) -> Callable[..., CValue]:
    def body(e: Any, dtype: np.dtype, x: CValue) -> CValue:
        if x.dtype.kind != "f":
            raise Unsupported(f"the mantissa of {x.dtype}")
        name, suffix = e.fresh("b"), "f" if x.dtype.itemsize == 4 else ""
        e.line(f"int {name} = 0;")
        mantissa = e.put(x.dtype, f"frexp{suffix}({x.text}, &{name})")
        if not part:
            e.line(f"(void){name};")
            return mantissa
        e.line(f"(void){mantissa.text};")
        return e.put(_INT32, f"{x.text} - {x.text} == 0 ? {name} : 0")

    return body


def _ldexp(e: Any, dtype: np.dtype, x: CValue, n: CValue) -> CValue:
    x = e.convert(x, dtype)
    if dtype.kind != "f":
        raise Unsupported(f"ldexp of {dtype}")
    n = (
        e.put(_INT32, f"{n.text} > 100000 ? 100000 : {n.text} < -100000 ? -100000 : (int32_t){n.text}")
        if n.dtype.itemsize > 4
        else n
    )
    return e.put(dtype, f"ldexp{'f' if dtype.itemsize == 4 else ''}({x.text}, (int){n.text})")


def _spacing(e: Any, dtype: np.dtype, x: CValue) -> CValue:
    size = e.abs(x)
    return e.copysign(e.sub(e.atom("nextafter", size, e.like(x, np.inf)), size), x)


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
        return e.mul(e.quotient(e.abs(a), one), e.abs(b))

    return body


def _bit_count(e: Any, dtype: np.dtype, x: CValue) -> CValue:
    rest, count = e.fresh("b"), e.fresh("b")
    e.line(f"uint64_t {rest} = (uint64_t){e.abs(x).text}; int {count} = 0;")
    if x.dtype.kind == "i":
        e.line(f"{rest} &= UINT64_C({2 ** (8 * x.dtype.itemsize) - 1});")
    e.line(f"for (; {rest} != 0; {rest} &= {rest} - 1) {count}++;")
    return e.put(dtype, f"({c_type(dtype)}){count}")


def _of_floats(name: str, formula: Callable[..., CValue]) -> None:
    """A function of real floats that has no `emit`, as a formula in atoms; NaN gives NaN."""

    def body(e: Any, dtype: np.dtype, *lanes: CValue) -> CValue:
        if dtype.kind != "f":
            raise Unsupported(f"{name} of {dtype}")
        lanes = tuple(_alike(e, dtype, *lanes))
        number = lambda x: e.like(lanes[0], x)
        found = formula(e, number, *lanes)
        for x in lanes:
            found = e.select(e.ne(x, x), x, found)
        return found

    _elements(name, body)


def _ndtr(e: Any, number: Any, x: CValue) -> CValue:
    scaled = e.mul(x, number(0.5**0.5))
    size = e.abs(scaled)
    near = e.add(number(0.5), e.mul(number(0.5), e.erf(scaled)))
    far = e.mul(number(0.5), e.erfc(size))
    far = e.select(e.gt(scaled, number(0)), e.sub(number(1), far), far)
    return e.select(e.lt(size, number(0.5**0.5)), near, far)


def _logit(e: Any, number: Any, x: CValue) -> CValue:
    twice = e.mul(number(2), e.sub(x, number(0.5)))
    near = e.sub(e.log1p(twice), e.log1p(e.neg(twice)))
    middle = e.and_(e.ge(x, number(0.3)), e.le(x, number(0.65)))
    return e.select(middle, near, e.log(e.div(x, e.sub(number(1), x))))


def _log_expit(e: Any, number: Any, x: CValue) -> CValue:
    rest = e.log1p(e.exp(e.neg(e.abs(x))))
    return e.sub(e.select(e.lt(x, number(0)), x, number(0)), rest)


def _entropy(of_zero: Callable[..., Any], inside: Callable[..., Any]) -> Callable[..., CValue]:
    """Of x and y: a formula for positive ones, what x = 0 gives, infinity elsewhere."""

    def formula(e: Any, number: Any, x: CValue, y: CValue) -> CValue:
        zero = number(0)
        edge = e.select(e.and_(e.eq(x, zero), e.ge(y, zero)), of_zero(e, y), number(np.inf))
        both = e.and_(e.gt(x, zero), e.gt(y, zero))
        return e.select(both, inside(e, x, y), edge)

    return formula


def _relative(e: Any, x: CValue, y: CValue) -> CValue:
    return e.mul(x, e.log(e.div(x, y)))


def _huber(e: Any, number: Any, delta: CValue, r: CValue) -> CValue:
    size, half = e.abs(r), number(0.5)
    far = e.mul(delta, e.sub(size, e.mul(half, delta)))
    found = e.select(e.le(size, delta), e.mul(half, e.mul(r, r)), far)
    return e.select(e.lt(delta, number(0)), number(np.inf), found)


def _pseudo_huber(e: Any, number: Any, delta: CValue, r: CValue) -> CValue:
    ratio = e.div(r, delta)
    grown = e.expm1(e.mul(number(0.5), e.log1p(e.mul(ratio, ratio))))
    nothing = e.or_(e.eq(delta, number(0)), e.eq(r, number(0)))
    found = e.select(nothing, number(0), e.mul(e.mul(delta, delta), grown))
    return e.select(e.lt(delta, number(0)), number(np.inf), found)


def _times_log(word: str) -> Callable[..., CValue]:
    return lambda e, number, x, y: e.select(e.eq(x, number(0)), number(0), e.mul(x, e.atom(word, y)))


def _entr(e: Any, number: Any, x: CValue) -> CValue:
    rest = e.select(e.eq(x, number(0)), number(0), number(-np.inf))
    return e.select(e.gt(x, number(0)), e.neg(e.mul(x, e.log(x))), rest)


_elements("real", lambda e, dtype, x: e.real(x))
_elements("imag", lambda e, dtype, x: e.imag(x) if x.dtype.kind == "c" else e.like(x, 0))
_elements("conj", lambda e, dtype, x: e.atom("conj", x) if x.dtype.kind == "c" else x)
_elements("make_complex", lambda e, dtype, re, im: e.pair(*_alike(e, part_of(dtype), re, im)))
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
_of_floats("xlogy", _times_log("log"))
_of_floats("xlog1py", _times_log("log1p"))
_of_floats("entr", _entr)
_of_floats("rel_entr", _entropy(lambda e, y: e.like(y, 0), _relative))
_of_floats("kl_div", _entropy(lambda e, y: y, lambda e, x, y: e.add(e.sub(_relative(e, x, y), x), y)))
_of_floats("huber", _huber)
_of_floats("pseudo_huber", _pseudo_huber)
_of_floats("ndtr", _ndtr)
_of_floats("logit", _logit)
_of_floats("log_expit", _log_expit)
_of_floats("exp10", lambda e, number, x: e.pow(number(10), x))


@rule("python_checked")
def _checked(p: CProgram, equation: Equation, values: list, *, function: str) -> list:
    """Where Python would refuse the numbers the function ends; of other arguments it would give what it gives here."""
    x = values[0]
    if type(x) is not CValue or x.dtype.kind != "f":
        raise Unsupported("only one number at a time is asked for what Python refuses")
    p.leave_if(f"!({x.text} - {x.text} == 0)", NUMBER)
    return [x]


# -- control flow
#
# A carry lies where the loop's result is wanted, and is pinned there while the loop runs. Its hold is given away for the turn:
# if the body's last reader of it writes elements, they are written in place, and the new carry is the old one. All other new
# carries are copied when the turn is over, those that look at another carry from a copy, which is made before one is written.
# Rows of the xs are pointers to where they lie, rows of the ys are where the body writes its results.


def variables(p: CProgram, avals: Sequence[Any], places: Sequence[Any] = ()) -> list[Any]:
    """Places that can be written again and again: of rank 0 a variable of C's."""
    found: list[Any] = []
    for i, aval in enumerate(avals):
        if aval.shape:
            found.append(p.new(places[i] if places else aval))
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


def _next(p: CProgram, carry: list[Any], spares: list[Any], new: list[Any]) -> None:
    """The carry of the next turn: what looks at another one is copied first."""
    names = {c.owner if type(c) is CArray else c.text for c in carry}
    bases = {c.base for c in carry if type(c) is CArray}
    moves, copies, changed = [], [], []
    for c, other, v in zip(carry, spares, new):
        if v == c:
            continue
        if other is not None:
            p.copy(v, other)
            changed.append((c, other))
            continue
        if type(v) is CArray and (v.owner in names or v.base in bases):
            copied = p.array(v.dtype, v.shape)
            p.copy(v, copied)
            copies.append(copied)
            v = copied
        elif type(v) is CValue and v.text in names:
            v = p.e.put(v.dtype, v.text)
        moves.append((c, v))
    for c, v in moves:
        _assign(p, c, v)
    for c, other in changed:
        t = p.fresh("t")
        p.line(f"{c_type(c.dtype)} *{t} = {c.base}; {c.base} = {other.base}; {other.base} = {t};")
    p.release(*copies, *new)


def _start(p: CProgram, loop: Loop, starts: Sequence[Any], places: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The carry, and where the next one is computed, of what has two places; small arrays have one, for C's own registers."""
    carry: list[Any] = []
    spares: list[Any] = []
    for kind, v, start, place in zip(carries_of(loop), loop.carried(loop.body.inputs), starts, places):
        aval, other = v.aval, None
        if kind == "same":
            c = p.hold(start)
        elif kind == "pair" and (n := prod(aval.shape)) * aval.dtype.itemsize > SMALL:
            both = p.array(aval.dtype, (2, n))
            names = [p.fresh("c"), p.fresh("c")]
            p.line(f"{c_type(aval.dtype)} *{names[0]} = {both.base}, *{names[1]} = {both.base} + {n};")
            strides = contiguous_strides(aval.shape)
            c, other = [CArray(aval.dtype, name, aval.shape, strides, 0, both.owner) for name in names]
        else:
            (c,) = variables(p, [aval], [place])
        if kind != "same":
            _assign(p, c, start)
        if type(c) is CArray:
            p.pin(c)
        carry.append(c)
        spares.append(other)
    return carry, spares


def _turn(p: CProgram, loop: Loop, consts: Sequence[Any], carry: Sequence[Any], rest: Sequence[Any], targets: Any) -> Any:
    # the loop's own hold is given away while the body runs: what writes elements of the carry may do so in place
    lent = [type(c) is CArray and bool(c.owner) and kind != "same" for c, kind in zip(carry, carries_of(loop))]
    owned = [*[False] * len(consts), *lent, *[False] * len(rest)]
    found = p.program(loop.body, [*consts, *carry, *rest], targets, owned)
    for c, is_lent in zip(carry, lent):
        if is_lent:
            p.hold(c)
    return found


@rule("loop")
def _loop(p: CProgram, equation: Equation, values: list, *, loop: Loop) -> list:
    if loop.length is None and loop.cond is None:
        raise Unsupported("a loop whose length depends on values")
    if loop.n_ys and loop.cond is not None:
        raise Unsupported("what a while loop keeps for its derivative, whose size depends on values")
    tested, consts, starts, xs = loop.parts(values)
    turns, carried, filled = split(equation.outputs, loop.first, loop.n_carry)
    t = p.fresh("s" if turns else "i")
    for v in turns:
        p.line(f"{c_type(v.aval.dtype)} {t} = 0;")
    carry, spares = _start(p, loop, starts, carried)
    ys = [p.new(v) for v in filled]
    ends = f"{t} = {loop.length}; {t}-- > 0;" if loop.reverse else f"{t} = 0; {t} < {loop.length}; {t}++"
    if loop.length != 0:
        with p.block("for (;;)" if turns else f"for (int64_t {ends})"):
            if loop.cond is not None:
                (test,) = p.program(loop.cond, [*tested, *carry])
                p.line(f"if (!{test.text}) break;")
            rows = [_row(p, x, t) if x.shape[1:] else p.e.load(x.dtype, x.at([t])) for x in map(p.as_array, xs)]
            places = [_row(p, y, t, "") if y.shape[1:] else None for y in ys]
            outs = _turn(p, loop, consts, carry, rows, [*spares, *places])
            for y, place, out in zip(ys, places, outs[loop.n_carry :]):
                if place is not None:
                    p.copy(out, place)
                    p.release(out)
                else:
                    p.line(f"{y.at([t])} = {p.e.convert(out, y.dtype).text};")
            _next(p, carry, spares, outs[: loop.n_carry])
            if turns:
                p.line(f"{t}++;")
    for c in carry:
        if type(c) is CArray:
            p.unpin(c)
    return [*[CValue(v.aval.dtype, t) for v in turns], *carry, *ys]


def _row(p: CProgram, x: CArray, t: str, const: str = "const ") -> CArray:
    """Row t of an array."""
    name = p.fresh("q")
    p.line(f"{const}{c_type(x.dtype)} *{name} = &{x.at([t])};")
    return x._replace(base=name, shape=x.shape[1:], strides=x.strides[1:], offset=0)


@rule("cond")
def _cond(p: CProgram, equation: Equation, values: list, *, branches: Sequence[Jaxpr]) -> list:
    index, *operands = values
    outs = variables(p, [v.aval for v in equation.outputs], equation.outputs)
    chosen = index.text if index.dtype.kind != "b" else f"(int){index.text}"
    for i, branch in enumerate(branches):
        last = len(branches) - 1
        test = f"if ({chosen} <= 0)" if not i else f"else if ({chosen} == {i})"
        head = "" if not last else "else" if i == last else test
        with p.block(head):
            found = p.program(branch, operands, [x if type(x) is CArray else None for x in outs])
            for place, value in zip(outs, found):
                _assign(p, place, value)
                p.release(value)
    return outs


# -- products
#
# Every product of matrices is one function with two strides for each operand, so that transposes and slices need no copy; axes
# that are not one axis in memory do. It adds up in four chains, or row by row where rows of the second operand are adjacent.
# Other kinds of numbers are loops, written element by element.


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
                a = p.contiguous(
                    a._replace(
                        shape=tuple([a.shape[i] for i in (*(bx if a is x else by), *free, *contracted)]),
                        strides=tuple([a.strides[i] for i in (*(bx if a is x else by), *free, *contracted)]),
                    )
                )
                taken.append(a)
                inner = prod(a.shape[nb + len(free) :])
                found = (inner, 1)
                batch = a.strides[:nb]
            else:
                batch = tuple([a.strides[i] for i in (bx if a is x else by)])
            parts.append((a, found, batch))
        (ax, (xm, xk), xb), (ay, (yn, yk), yb) = parts
        extents = [[a.shape[i] for i in axes] for a, axes in ((x, fx), (y, fy), (x, cx))]
        m, n, k = map(prod, extents)
        with p.loops([x.shape[i] for i in bx]) as names:
            arguments = [
                m, n, k, f"&{ax.at(names, xb)}", xm, xk, f"&{ay.at(names, yb)}", yk, yn,
                f"&{place.at(names, so[:nb])}", n, 1,
            ]  # fmt: skip
            p.line(f"{p.helper('product', dtype)}({', '.join(map(str, arguments))});")
        p.release(*taken)
    else:
        kept = [*[x.shape[i] for i in (*bx, *fx)], *[y.shape[i] for i in fy]]
        left, right = [[a.strides[i] for i in (*b, *f)] for a, b, f in ((x, bx, fx), (y, by, fy))]
        left += [0] * len(fy)
        right[len(by) : len(by)] = [0] * len(fx)
        factors = [(x, [*left, *[x.strides[i] for i in cx]]), (y, [*right, *[y.strides[i] for i in cy]])]
        p.fold("add", kept, [x.shape[i] for i in cx], factors, place, so)
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
def _conv(p: CProgram, equation: Equation, values: list, **params: Any) -> list:
    target = p.new(equation.outputs[0])
    _windows(p, *map(p.as_array, values), target, **params)
    return [target]


def _windows(
    p: CProgram,
    x: CArray,
    kernel: CArray,
    target: CArray,
    strides: Any,
    padding: Any,
    x_dilation: Any,
    kernel_dilation: Any,
) -> None:
    """The products of the windows of x, padded with zeros, with the kernel."""
    phases = phases_of(x.shape, kernel.shape, target.shape[3:], strides, padding, x_dilation, kernel_dilation)
    if phases:
        p.fill(target, 0)
        for to, some, *holes in phases:
            part = seen(kernel, lambda a, some=some: a[some])
            results = seen(target, lambda a, to=to: a[to])
            _windows(p, x, part, results, strides, *holes, kernel_dilation)
        return
    shape, into, taken = placement(x.shape, padding, x_dilation, 3)
    x = p.hold(seen(x, lambda a: a[taken]))
    if x.shape != shape:
        some, x = x, p.array(x.dtype, shape)
        p.fill(x, 0)
        p.copy(some, seen(x, lambda a: a[into]))
        p.release(some)
    (g, n, c, *steps), (kg, kf, kc, *inner) = x.strides, kernel.strides
    own = [g, n, 0, *map(mul, steps, strides), c, *map(mul, steps, kernel_dilation)]
    theirs = [kg, 0, kf, *[0] * len(steps), kc, *inner]
    p.fold("add", target.shape, kernel.shape[2:], [(x, own), (kernel, theirs)], target, target.strides)
    p.release(x)


# -- fused groups: the loops of `element_loops` and `row_loops`, on the arrays of a program
#
# How a group is looped over is what the native engine does, too; here its arrays have strides, and its totals are variables. A
# group of rows takes one row after the other, so that its elements are read again while the cache still has them. What is
# broadcast in a group is read with strides of 0, so the loops run over the fewest axes that all arrays agree on. Totals begin
# with what changes nothing: a sum over no elements is right, and so is one that a loop around it asks for again.


@rule("fused")
def _fused(p: CProgram, equation: Equation, values: list[Any], *, jaxpr: Jaxpr, kind: str, shape: tuple[int, ...]) -> list[Any]:
    """A group as one loop, where its kind has one; else equation by equation."""
    if kind == "elementwise":
        return _elements(p, equation, jaxpr, shape, values)
    if kind == "rows" and 0 not in shape:
        try:
            plan = RowPlan(jaxpr, shape)
        except Unsupported:
            plan = None
        if plan is not None:
            return _rows(p, equation, plan, values)
    targets = [p.wanted.get(v) for v in equation.outputs]
    if kind == "batch":
        ordered = all([x is None or x.strides == contiguous_strides(x.shape) for x in targets])
        if ordered and not any([shares(e) for e in jaxpr.equations]):
            return _examples(p, equation, jaxpr, shape[0], values)
        jaxpr = fuse(jaxpr)
    return p.program(jaxpr, values, targets)


def shares(equation: Equation) -> bool:
    """Is it a product with a matrix of all examples? Such a product of the whole batch is quicker."""
    return equation.primitive.name == "dot_general" and not equation.params["dimension_numbers"][1][0]


def _examples(p: CProgram, equation: Equation, jaxpr: Jaxpr, size: int, values: list[Any]) -> list[Any]:
    """One small example after the other, whose numbers are variables."""
    given = {("in", i): p.contiguous(x) for i, x in enumerate(values)}
    written = {("out", k): p.new(v) for k, v in enumerate(equation.outputs)}
    ways = dict(zip(given, layouts(jaxpr))) | dict.fromkeys(written, "first")
    along: dict[Any, dict[str, int]] = {}
    for key, x in {**given, **written}.items():
        steps = {"first": {"n": prod(x.shape[1:]), "k": 1}, "last": {"n": 1, "k": size}, "shared": {"k": 1}}
        along[key] = steps[ways[key]]
    p.nest(batch_loops(jaxpr), given, written, along, {"begin": 0, "end": size})
    p.release(*given.values())
    return list(written.values())


def _elements(p: CProgram, equation: Equation, jaxpr: Jaxpr, shape: tuple[int, ...], values: list[Any]) -> list[Any]:
    """Element operations in one loop, and totals."""
    group = analyse(jaxpr)
    given: dict[Any, Any] = {}
    for k, (i, axes) in enumerate(group.accesses):
        x = values[i]
        if type(x) is CArray and axes is not None:
            strides = [0] * len(shape)
            for axis, n, s in zip(axes, x.shape, x.strides):
                strides[axis] = s if n == shape[axis] else 0
            x = x._replace(shape=shape, strides=tuple(strides))
        given["in", k] = x
    results: list[Any] = []
    for o, v in zip(jaxpr.outputs, equation.outputs):
        results.append(p.variable(o.aval.dtype) if o in group.sums else p.new(v))
    written = {("out", k): x for k, x in enumerate(results)}
    arrays = {key: x for key, x in {**given, **written}.items() if type(x) is CArray}
    extents, rows = collapsed(shape, [x.strides for x in arrays.values()])
    steps = {key: {f"i{axis}": s for axis, s in enumerate(row)} for key, row in zip(arrays, rows)}
    along = {key: steps.get(key, {}) for key in (*given, *written)}
    names = [f"i{axis}" for axis in range(len(extents))]
    modes = ["".join(["s" if along[key].get(name) else "0" for name in names]) for key in given]
    ends = {"begin": 0, "end": extents[0], **{f"e{axis}": n for axis, n in enumerate(extents)}}
    p.nest(element_loops(group, modes, len(extents), 1), given, written, along, ends)
    return results


def _rows(p: CProgram, equation: Equation, plan: RowPlan, values: list[Any]) -> list[Any]:
    """Row by row; a result that is a sum over the rows adds up in the result itself."""
    n, m = plan.shape
    order = dict(zip(equation.params["jaxpr"].inputs, values))
    given = {("in", i): order[v] for i, v in enumerate(plan.jaxpr.inputs)}
    kinds = {("in", i): plan.kind[v] for i, v in enumerate(plan.jaxpr.inputs)}
    results = [p.new(v) if v.aval.shape else p.variable(v.aval.dtype) for v in equation.outputs]
    written: dict[Any, Any] = {}
    for name, equations in (("scalar", plan.scalars), ("column", plan.columns)):
        written |= {(name, i): results[plan.outputs[q.outputs[0]][0]] for i, q in enumerate(equations)}
        kinds |= {(name, i): name for i in range(len(equations))}
    sums = {q.outputs[0] for q in (*plan.scalars, *plan.columns)}
    for o, places in plan.outputs.items():
        written |= {("out", k): results[k] for k in places if o not in sums}
        kinds |= {("out", k): plan.kind[o] for k in places}
    buffers = {("kept", v): p.array(v.aval.dtype, (m,)) for v in plan.kept}
    kinds |= dict.fromkeys(buffers, "column")
    slots = {("slot", v): p.variable(v.aval.dtype) for v in plan.slots}
    indices = {"full": "bc", "row": "b", "column": "c", "scalar": ""}  # that of rows within a block is always 0
    arrays = {key: x for key, x in {**given, **written, **buffers}.items() if type(x) is CArray}
    along = {key: dict(zip(indices[kinds[key]], x.strides)) for key, x in arrays.items()}
    names = {"begin": 0, "end": n, "block": 1, "columns": m}
    p.nest(row_loops(plan, 1), given, {**written, **buffers, **slots}, along, names)
    for first, *others in [plan.outputs[o] for o in sums]:
        for k in others:  # the same sum once more
            if type(results[k]) is CArray:
                p.copy(results[first], results[k])
            else:
                results[k] = results[first]
    p.release(*buffers.values())
    return results
