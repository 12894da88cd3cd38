"""Operations that are kernels of their own: loops that go round on the device, and draws.

Idea: a turn of a small loop is a few calls that wait for each other, some microseconds each. In one block they are stages
between barriers: each writes one value of the body into shared memory, thread t its elements t, t + 256 ... Views (slices,
transposes, broadcasts) are no stages, but other strides of what they look at. Rows of the xs are read where they lie, rows of
the ys written where they are wanted; `while_loop` tests its condition there, too.

Invariant: between a write and a read by another thread there is a barrier: `_Turn.fresh` knows what has been written since the
last one, and a thread that reads its own element needs none. Trap: new carries may be old ones in another order, so they are
written over after the turn, those that look at carries from copies. What would take one block longer than the whole device's
calls, more than `WORK` multiplications a turn or `SHARED` bytes, is left to the lines, and so is what has no stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.cuda.cuda_text import BLOCKS, combined, identity
from funcad.backends.cuda.elements import PRELUDE, THREADS, Elements, ElementValue, c_type, literal
from funcad.backends.memory import carries_of
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides, seen
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.passes.subprograms import with_subprograms
from funcad.primitives.atoms import fold_of
from funcad.primitives.fused import fused_p
from funcad.primitives.loop import Loop, loop_p
from funcad.primitives.random_bits import MANTISSA, PARITY, ROTATIONS, draw_p, polynomials
from funcad.show.pretty import shown_as

# -- random numbers as CUDA C++: a draw is one kernel, a thread hashes the numbers of its elements
#
# Idea: element i of a draw is a function of the key and of i alone (primitives/random_bits.py), so no thread needs another.
# Invariant: bits, and floats in [0, 1), are NumPy's bit for bit; normal numbers are the same polynomials with CUDA's logarithm.
# Trap: a float in [0, 1) is not made by its bits, as there, but by a product with a power of two, which is the same number.


def _hash() -> list[str]:
    """The function that hashes the counts a and b."""
    lines = [
        "FC unsigned fc_rotated(unsigned x, int by) { return x << by | x >> (32 - by); }",
        "FC void fc_threefry(const unsigned k0, const unsigned k1, unsigned& a, unsigned& b) {",
        f"  const unsigned k2 = k0 ^ k1 ^ {PARITY:#x}u;",
        "  a += k0; b += k1;",
    ]
    for i in range(5):
        lines += [f"  a += b; b = fc_rotated(b, {r}) ^ a;" for r in ROTATIONS[i & 1]]
        lines.append(f"  a += k{(i + 1) % 3}; b += k{(i + 2) % 3} + {i + 1}u;")
    return [*lines, "}"]


def _horner(name: str, coefficients: tuple, dtype: np.dtype) -> str:
    """total = c0; total = total * name + c ..."""
    first, *rest = [literal(dtype.type(c), dtype).text for c in coefficients]
    return " ".join([f"total = {first};", *[f"total = total * {name} + {c};" for c in rest]])


def _inverse(dtype: np.dtype) -> list[str]:
    """The function that is the inverse of the error function."""
    t, suffix = c_type(dtype), "f" if dtype.itemsize == 4 else ""
    number = lambda x: literal(dtype.type(x), dtype).text
    (begin, centre, middle), tails = polynomials(dtype.itemsize)
    lines = [
        f"FC {t} fc_erfinv(const {t} x) {{",
        f"  {t} w = -log{suffix}({number(1)} - x * x), total;",
        f"  if (!(w >= {number(begin)})) {{ w -= {number(centre)}; {_horner('w', middle, dtype)} return x * total; }}",
        f"  if (isinf(w)) return x * {t}(fc_infinity());",
        f"  const {t} root = sqrt{suffix}(w);",
    ]
    for i, (_, middle_of, coefficients) in enumerate(tails):
        last = i + 1 == len(tails)
        condition = "" if last else f"if (w < {number(tails[i + 1][0])}) "
        lines.append(f"  {condition}{{ const {t} r = root - {number(middle_of)}; {_horner('r', coefficients, dtype)} }}")
        lines[-1] += "" if last else " else"
    return [*lines, "  return x * total;", "}"]


def draw_text(kind: str, dtype: np.dtype) -> str:
    """The module of a draw: `kernel(keys, out, numbers of a key, numbers in all)`."""
    size = dtype.itemsize
    if kind in ("unit", "normal") and size < 4:
        raise Unsupported(f"draws of {dtype}")
    t, words = c_type(dtype), f"unsigned {'long long' if size == 8 else 'int'}"
    bits = f"({words})a << 32 | b" if size == 8 else "a ^ b"
    unit = f"{t}(bits >> {8 * size - MANTISSA.get(size, 0)}) * {literal(dtype.type(2.0 ** -MANTISSA.get(size, 0)), dtype).text}"
    value = {"bits": f"({t})bits", "unit": unit}.get(kind, "")
    if kind == "normal":
        below = literal(np.nextafter(dtype.type(-1), dtype.type(0)), dtype).text
        two, root = literal(dtype.type(2), dtype).text, literal(dtype.type(np.sqrt(2)), dtype).text
        value = f"fc_erfinv({unit} * {two} + {below}) * {root}"
    stored = ["out[2 * i] = a;", "out[2 * i + 1] = b;"]
    if kind != "keys":
        stored = [f"const {words} bits = {bits};", f"out[i] = {value};"]
    lines = [
        *_hash(),
        *(_inverse(dtype) if kind == "normal" else []),
        'extern "C" __global__ void __launch_bounds__(FC_THREADS) kernel(const unsigned int* __restrict__ keys, '
        f"{t}* __restrict__ out, const long long n, const long long all) {{",
        "  const long long step = (long long)gridDim.x * blockDim.x;",
        "  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < all; i += step) {",
        "    const long long lane = i / n;",
        "    const fc_word count = i - lane * n;",
        "    unsigned a = (unsigned)(count >> 32), b = (unsigned)count;",
        "    fc_threefry(keys[2 * lane], keys[2 * lane + 1], a, b);",
        *[f"    {line}" for line in stored],
        "  }",
        "}",
    ]
    return PRELUDE + "\n".join(lines) + "\n"


class Draw:
    """The kernel of one draw."""

    def __init__(self, jaxpr: Jaxpr, xp: Any, module: Callable[[str], Any]):
        (equation,) = jaxpr.equations
        kind, self.dtype, shape = [equation.params[name] for name in ("kind", "dtype", "shape")]
        self.xp, self.shape = xp, equation.outputs[0].aval.shape
        self.of_key = prod(shape)
        self.count = prod(equation.inputs[0].aval.shape[:-1]) * self.of_key
        self.kernel: Any = None
        self._made = lambda: module(draw_text(kind, self.dtype)).get_function("kernel")
        draw_text(kind, self.dtype)  # may be Unsupported

    def __call__(self, keys: Any) -> list[Any]:
        if self.kernel is None:
            self.kernel = self._made()
        if any([s != n for s, n in zip(keys.strides[::-1], np.cumprod([4, *keys.shape[:0:-1]]))]):
            keys = self.xp.ascontiguousarray(keys)
        out = self.xp.empty(self.shape, self.dtype)
        blocks = min(-(-self.count // THREADS), BLOCKS)
        self.kernel((blocks,), (THREADS,), (keys, out, np.int64(self.of_key), np.int64(self.count)))
        return [out]


# -- loops as CUDA C++: one kernel of one block that goes round on the device, where all values of a turn fit into its memory


SHARED = 40 * 1024  # bytes of all values of a turn: a block has 48 KiB without asking, and sums need some
WORK = 1 << 20  # multiplications a turn: what a block does while the device starts two or three kernels


class _KernelView(NamedTuple):
    """Elements of an array of the kernel's: `base[offset + sum of index * stride]`, strides in elements."""

    base: str
    dtype: np.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    local: bool = True  # is it in shared memory?

    @property
    def whole(self) -> bool:
        """Element i is where thread i wrote it."""
        return not self.offset and self.strides == contiguous_strides(self.shape)


class _Turn:
    """Writes the stages of a program into `lines`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.arrays: list[tuple[str, np.dtype, int]] = []  # in shared memory: name, dtype, elements
        self.fresh: set[str] = set()  # of them: written since the last barrier
        self.work = 0

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> _KernelView:
        name = f"s{len(self.arrays)}"
        self.arrays.append((name, dtype, prod(shape)))
        if sum([d.itemsize * max(n, 1) for _, d, n in self.arrays]) > SHARED:
            raise Unsupported(f"the values of a turn take more than {SHARED} bytes")
        return _KernelView(name, dtype, shape, contiguous_strides(shape))

    def barrier(self) -> None:
        self.lines.append("__syncthreads();")
        self.fresh.clear()

    def element(self, view: _KernelView, shape: tuple[int, ...], names: Sequence[str]) -> str:
        """The element of a view at the coordinates `names` (of `shape`), or at i."""
        if view.whole and view.shape == shape:
            return f"{view.base}[i]"
        terms = [f"{n} * {s}" if s != 1 else n for n, s in zip(names, view.strides) if s]
        return f"{view.base}[{' + '.join([*([str(view.offset)] if view.offset else []), *terms]) or '0'}]"

    def reads(self, views: Sequence[_KernelView], shape: tuple[int, ...] | None) -> None:
        """Before a stage over `shape` that reads these: a barrier, if another thread wrote what it reads."""
        if any([v.base in self.fresh and not (v.whole and v.shape == shape) for v in views]):
            self.barrier()

    def stage(self, shape: tuple[int, ...], target: Callable[[str], str], body: Sequence[str], value: str) -> None:
        """For each element i of `shape`: the statements, then the value is stored."""
        self.lines.append(f"for (int i = threadIdx.x; i < {prod(shape)}; i += FC_THREADS) {{")
        self.lines += [f"  {line}" for line in (*body, f"{target('i')} = {value};")]
        self.lines.append("}")

    def coordinates(self, shape: tuple[int, ...]) -> tuple[list[str], list[str]]:
        """(statements that take i apart, the names of its coordinates)."""
        if len(shape) < 2:
            return [], ["i"] * len(shape)
        lines, names = ["int rest = i;"], [f"x{k}" for k in range(len(shape))]
        for k in range(len(shape) - 1, 0, -1):
            lines += [f"const int x{k} = rest % {shape[k]};", f"rest /= {shape[k]};"]
        return [*lines, "const int x0 = rest;"], names

    def copied(self, view: _KernelView) -> _KernelView:
        """The same elements in an array of their own."""
        found = self.array(view.dtype, view.shape)
        self.store(view, lambda i: f"{found.base}[{i}]")
        self.fresh.add(found.base)
        return found

    def store(self, view: _KernelView | ElementValue, target: Callable[[str], str], shape: tuple[int, ...] = ()) -> None:
        if type(view) is ElementValue:
            return self.stage(shape, target, [], view.text)
        assert type(view) is _KernelView
        self.reads([view], view.shape)
        body, names = ([], []) if view.whole else self.coordinates(view.shape)
        self.stage(view.shape, target, body, self.element(view, view.shape, names))

    def program(self, jaxpr: Jaxpr, values: Sequence[Any]) -> list[Any]:
        """Views of the results, or numbers, if those of the inputs are given."""
        env: dict[Any, Any] = dict(zip(jaxpr.inputs, values))
        known = lambda a: literal(a.value, a.aval.dtype) if type(a) is Literal else env[a]
        for equation in jaxpr.equations:
            given = [known(a) for a in equation.inputs]
            if equation.primitive is fused_p:
                env.update(zip(equation.outputs, self.program(equation.params["jaxpr"], given)))
                continue
            if len(equation.outputs) != 1:
                raise Unsupported(f"{equation.primitive.name} in the body of a loop")
            env[equation.outputs[0]] = self.value(equation, given)
        return [known(o) for o in jaxpr.outputs]

    def value(self, equation: Equation, given: Sequence[Any]) -> Any:
        aval, primitive = equation.outputs[0].aval, equation.primitive
        if primitive.free and type(given[0]) is _KernelView:
            look = lambda a: primitive.impl(np, a, **equation.params)
            return seen(given[0], look) or seen(self.copied(given[0]), look)
        if primitive.name == "broadcast_in_dim":
            return self.elementwise(aval, [], lambda elements, lanes: given[0])
        if primitive.emit is not None:
            return self.elementwise(aval, given, lambda elements, lanes: elements.apply(equation, lanes))
        if fold_of(primitive) is not None:
            return self.reduced(equation, given[0])
        if primitive.name == "dot_general":
            return self.product(equation, given)
        raise Unsupported(f"{primitive.name} in the body of a loop")

    def elementwise(
        self, aval: Any, given: Sequence[Any], write: Callable[[Elements, list[ElementValue]], ElementValue]
    ) -> _KernelView:
        views = [g for g in given if type(g) is _KernelView]
        self.reads(views, aval.shape)
        apart, names = ([], []) if all([v.whole and v.shape == aval.shape for v in views]) else self.coordinates(aval.shape)
        found, elements = self.array(aval.dtype, aval.shape), Elements()
        lanes, loads = [], []
        for k, g in enumerate(given):
            if type(g) is _KernelView:
                loads.append(f"const {c_type(g.dtype)} a{k} = {self.element(g, aval.shape, names)};")
            lanes.append(ElementValue(g.dtype, f"a{k}") if type(g) is _KernelView else g)
        lane = write(elements, lanes)
        self.stage(aval.shape, lambda i: f"{found.base}[{i}]", [*apart, *loads, *elements.lines], lane.text)
        self.fresh.add(found.base)
        return found

    def reduced(self, equation: Equation, x: Any) -> _KernelView:
        """A reduction by an atom along axes: a tree over the block for one result, else a thread for each."""
        if type(x) is not _KernelView:
            raise Unsupported("a sum of a number")
        aval, axes, kind = equation.outputs[0].aval, equation.params["axes"], fold_of(equation.primitive)
        assert kind is not None
        if x.dtype != aval.dtype or aval.dtype == np.dtype(np.float16):
            raise Unsupported(f"a total of {x.dtype} in {aval.dtype}")
        t, first = c_type(aval.dtype), identity(kind, aval.dtype).text
        found = self.array(aval.dtype, aval.shape)
        step = f"total = {combined(kind, aval.dtype, 'total', 'one')};"
        if not aval.shape:
            self.reads([x], x.shape)
            apart, names = ([], []) if x.whole else self.coordinates(x.shape)
            joined = combined(kind, aval.dtype, "held[threadIdx.x]", "held[threadIdx.x + o]")
            self.lines += [
                "{",
                f"  __shared__ {t} held[FC_THREADS];",
                f"  {t} total = {first};",
                f"  for (int i = threadIdx.x; i < {prod(x.shape)}; i += FC_THREADS) {{",
                *[f"    {line}" for line in apart],
                f"    const {t} one = {self.element(x, x.shape, names)};",
                f"    {step}",
                "  }",
                "  held[threadIdx.x] = total;",
                "  __syncthreads();",
                "  for (int o = FC_THREADS / 2; o > 0; o >>= 1) {",
                f"    if (threadIdx.x < o) held[threadIdx.x] = {joined};",
                "    __syncthreads();",
                "  }",
                f"  if (threadIdx.x == 0) {found.base}[0] = held[0];",
                "}",
            ]
            self.fresh = {found.base}
            return found
        self.reads([x], None)
        apart, names = self.coordinates(aval.shape)
        kept = iter(names)
        inner = [f"r{k}" if k in axes else next(kept) for k in range(len(x.shape))]
        loops = [f"for (int r{k} = 0; r{k} < {x.shape[k]}; r{k}++)" for k in sorted(axes)]
        body = [*apart, f"{t} total = {first};", f"{' '.join(loops)} {{"]
        body += [f"  const {t} one = {self.element(x, (), inner)};", f"  {step}", "}"]
        self.stage(aval.shape, lambda i: f"{found.base}[{i}]", body, "total")
        self.fresh.add(found.base)
        return found

    def product(self, equation: Equation, given: Sequence[Any]) -> _KernelView:
        (lhs_axes, rhs_axes), batch = equation.params["dimension_numbers"]
        aval = equation.outputs[0].aval
        if any(batch) or not all([type(g) is _KernelView and g.dtype == aval.dtype for g in given]):
            raise Unsupported("a product of stacks in the body of a loop")
        if aval.dtype.kind != "f" or aval.dtype.itemsize < 4:
            raise Unsupported(f"a product of {aval.dtype} in the body of a loop")
        x, y = given
        self.work += prod(aval.shape) * prod([x.shape[k] for k in lhs_axes])
        if self.work > WORK:
            raise Unsupported(f"more than {WORK:,} multiplications a turn")
        self.reads(given, None)
        found, t = self.array(aval.dtype, aval.shape), c_type(aval.dtype)
        apart, names = self.coordinates(aval.shape)
        kept = iter(names)
        left = [f"r{lhs_axes.index(k)}" if k in lhs_axes else next(kept) for k in range(len(x.shape))]
        right = [f"r{rhs_axes.index(k)}" if k in rhs_axes else next(kept) for k in range(len(y.shape))]
        loops = [f"for (int r{n} = 0; r{n} < {x.shape[k]}; r{n}++)" for n, k in enumerate(lhs_axes)]
        body = [*apart, f"{t} total = 0;"]
        body.append(f"{' '.join(loops)} total += {self.element(x, (), left)} * {self.element(y, (), right)};")
        self.stage(aval.shape, lambda i: f"{found.base}[{i}]", body, "total")
        self.fresh.add(found.base)
        return found


def _given(atom: Any, names: dict[Any, str]) -> Any:
    """An operand of the loop: a number, or an array where it lies."""
    if type(atom) is Literal:
        return literal(atom.value, atom.aval.dtype)
    shape = atom.aval.shape
    return _KernelView(names[atom], atom.aval.dtype, shape, contiguous_strides(shape), local=False)


def _carried(turn: _Turn, start: Sequence[Any], loop: Loop) -> list[_KernelView]:
    """Arrays for the carry, with what it begins with; what no turn changes stays where it lies."""
    carry = []
    for kind, given, v in zip(carries_of(loop), start, loop.carried(loop.body.inputs)):
        if given.dtype != v.aval.dtype:
            raise Unsupported("a carry whose dtype changes")
        if kind == "same" and type(given) is _KernelView:
            carry.append(given)
            continue
        place = turn.array(given.dtype, v.aval.shape)
        turn.store(given, lambda i, place=place: f"{place.base}[{i}]", place.shape)
        carry.append(place)
    turn.barrier()
    return carry


def _written_over(turn: _Turn, carry: Sequence[_KernelView], new: Sequence[Any]) -> None:
    """The carry of the next turn."""
    names = {c.base for c in carry}
    new = [turn.copied(v) if type(v) is _KernelView and v.base in names and v != c else v for v, c in zip(new, carry)]
    turn.barrier()
    for place, value in zip(carry, new):
        if value.dtype != place.dtype:
            raise Unsupported("a carry whose dtype changes")
        if value != place:
            turn.store(value, lambda i, place=place: f"{place.base}[{i}]", place.shape)
    turn.barrier()


def loop_text(equation: Equation, inputs: Sequence[Any]) -> str:
    """The module of a loop; the arguments of `kernel` are the arrays of `inputs`, then those of the results."""
    turn = _Turn()
    loop: Loop = equation.params["loop"]
    names = {v: f"in{k}" for k, v in enumerate(inputs)}
    given = [_given(a, names) for a in equation.inputs]
    if loop.length is None and (loop.cond is None or loop.n_ys):
        raise Unsupported("a loop over stacks" if loop.cond is None else "a while loop that keeps its turns")
    tested, consts, start, xs = loop.parts(given)
    carry = _carried(turn, start, loop)
    begin, turn.lines = turn.lines, []
    at = f"{loop.length - 1} - turn" if loop.reverse else "turn"
    head, ends = [f"for (long long turn = 0; turn < {loop.length}; turn++) {{", f"  const long long at = {at};"], []
    if loop.cond is not None:
        (holds,) = turn.program(loop.cond, [*tested, *carry])
        if type(holds) is not _KernelView:
            raise Unsupported("a while loop whose condition is a number")
        turn.barrier()
        turn.lines.append(f"if (!{holds.base}[{holds.offset}]) break;")
        begin.append("long long turn = 0;")
        head, ends = ["for (;; turn++) {"], ["if (threadIdx.x == 0) out0[0] = turn;"]
    rows = []
    for k, x in enumerate(xs):
        if type(x) is not _KernelView:
            raise Unsupported("xs that are a number")
        turn.lines.append(f"const {c_type(x.dtype)}* const row{k} = {x.base} + at * {prod(x.shape[1:])};")
        rows.append(_KernelView(f"row{k}", x.dtype, x.shape[1:], contiguous_strides(x.shape[1:]), local=False))
    results = turn.program(loop.body, [*consts, *carry, *rows])
    for k, value in enumerate(results[loop.n_carry :], loop.n_carry):
        aval = loop.body.outputs[k].aval
        if value.dtype != equation.outputs[k].aval.dtype:
            raise Unsupported("ys whose dtype changes")
        size = prod(aval.shape)
        turn.store(value, lambda i, k=k, size=size: f"out{k}[at * {size} + {i}]", aval.shape)
    _written_over(turn, carry, results[: loop.n_carry])
    for k, place in enumerate(carry, loop.first):
        ends.append(f"for (int i = threadIdx.x; i < {prod(place.shape)}; i += FC_THREADS) out{k}[i] = {place.base}[i];")
    arguments = [f"const {c_type(v.aval.dtype)}* __restrict__ {names[v]}" for v in inputs]
    arguments += [f"{c_type(v.aval.dtype)}* __restrict__ out{k}" for k, v in enumerate(equation.outputs)]
    body = [f"__shared__ {c_type(d)} {name}[{max(n, 1)}];" for name, d, n in turn.arrays] + begin
    lines = [
        f'extern "C" __global__ void __launch_bounds__(FC_THREADS) kernel({", ".join(arguments)}) {{',
        *[f"  {line}" for line in (*body, *head, *[f"  {line}" for line in turn.lines], "}", *ends)],
        "}",
    ]
    return PRELUDE + "\n".join(lines) + "\n"


class LoopKernel:
    """The kernel of one loop."""

    def __init__(self, jaxpr: Jaxpr, xp: Any, module: Callable[[str], Any]):
        (equation,) = jaxpr.equations
        self.xp, self.avals = xp, [v.aval for v in equation.outputs]
        self.inputs = [v.aval for v in jaxpr.inputs]
        text = loop_text(equation, jaxpr.inputs)
        self._made = lambda: module(text).get_function("kernel")
        self.kernel: Any = None

    def __call__(self, *arrays: Any) -> list[Any]:
        xp = self.xp
        if self.kernel is None:
            self.kernel = self._made()
        given = []
        for a, aval in zip(arrays, self.inputs):
            if type(a) is not xp.ndarray:
                a = xp.full((), a, aval.dtype)
            elif a.strides != tuple([s * aval.dtype.itemsize for s in contiguous_strides(aval.shape)]):
                a = xp.ascontiguousarray(a)
            given.append(a)
        results = [xp.empty(v.shape, v.dtype) for v in self.avals]
        self.kernel((1,), (THREADS,), (*given, *results))
        return results


# -- operations that are kernels of their own on a device: a draw, and a loop that fits one block, each a group of one equation
#
# Invariant: a group's program is the equation itself, so where its kernel is not there yet, or never, its lines run.


def with_device_groups(jaxpr: Jaxpr, note: Callable[[str], None]) -> Jaxpr:
    """The program with these as groups, of kinds "draw" and "loop"; `note` hears why a loop is none."""
    found = tuple([_grouped(e, note) for e in jaxpr.equations])
    same = all([a is b for a, b in zip(found, jaxpr.equations)])
    return jaxpr if same else Jaxpr(jaxpr.inputs, found, jaxpr.outputs)


def _grouped(equation: Equation, note: Callable[[str], None]) -> Equation:
    inputs = tuple(dict.fromkeys([a for a in equation.inputs if type(a) is Var]))
    if equation.primitive is draw_p and inputs:
        return _alone(equation, inputs, "draw", equation.outputs[0].aval.shape)
    if equation.primitive is loop_p:
        try:
            loop_text(equation, inputs)
        except Unsupported as reason:
            note(f"{shown_as(equation)} at {equation.source}: {reason}")
        else:
            length = equation.params["loop"].length
            return _alone(equation, inputs, "loop", () if length is None else (length,))
    if equation.primitive.multiple:
        return with_subprograms(equation, partial(with_device_groups, note=note))
    return equation


def _alone(equation: Equation, inputs: tuple[Var, ...], kind: str, shape: tuple[int, ...]) -> Equation:
    group = Jaxpr(inputs, (equation,), equation.outputs)
    return Equation(fused_p, inputs, {"jaxpr": group, "kind": kind, "shape": shape}, equation.outputs, equation.source)
