"""A program as the body of a C function: values, loops over arrays, and where results lie.

Idea: the equations are those of the optimised program in its fused groups, walked once. A value of rank 0 is a `CValue`, a
variable of C's; any other one is a `CArray`, a place in memory with strides, so that what only moves elements (slices,
transposes, broadcasts) is another way to look at them: its NumPy implementation runs on the numbers of the places, and what
comes out says where each element comes from. `c_rules.RULES` has the other operations by name; what has no rule there is
*opened*: its implementation is traced on funcad's own functions, and the program that comes out is written.

Invariants: a result of the program is written where the caller wants it; a loop's body is written once. Each value holds the
buffer that it lies in, and a buffer whose last holder is gone is free, so that the workspace is as large as what lives at one
time. Buffers of several types never share memory: compilers may assume so. Trap: what is written in place must be the last
holder of a buffer that no loop pins, for the next turn would read it again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcad.backends.export.c_elements import CElements, CValue, c_type, initial, lane_type, literal
from funcad.backends.export.c_functions import BITS, OWN, function_text
from funcad.backends.export.c_helpers import HELPERS
from funcad.backends.export.c_nest import CMemory, CNest
from funcad.backends.export.c_shapes import boxes_of, collapsed, line_of, operand_of
from funcad.backends.loops.nest import ONES, VECTORS, Fold, For, Into, Let, Put, Total, loaded, nested, strided
from funcad.backends.plans.element_plan import Unsupported, contiguous_strides, seen
from funcad.backends.plans.element_writer import identity_of
from funcad.ir.aval import Aval, StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var
from funcad.ir.trace import trace_function
from funcad.ir.tracer import Tracer
from funcad.passes.fuse import fuse
from funcad.passes.pipeline import pipeline_end
from funcad.passes.subprograms import called
from funcad.primitives.atoms import fold_of

ALIGNED = 64  # bytes: where buffers of the workspace begin
SMALL, STACK = 512, 16 * 1024  # bytes of an array that lies on the stack, and of all of these
PIECES = 48  # moves of one operation that are loops; more are a table
LONG = 32  # elements from which on a loop tells the compiler that its arrays do not overlap
LARGEST = 16 << 20  # bytes of all numbers in a file
_GAP = 1_000_003  # between the numbers of places of several operands, so that no line goes from one into the next


INDEX, SINGULAR, INDEFINITE, NUMBER = "FC_INDEX", "FC_SINGULAR", "FC_INDEFINITE", "FC_NUMBER"
_NO_EIGENVALUES = "eigenvalues and singular values have no C"
# -- what has no C, with the reason; other operations without a rule, a formula or a readable implementation have none either
#
# Values that Python computes, or that the host keeps, cannot be in a file. Decompositions whose iterations end when they end,
# and transforms, are what libraries of C's are for: compute them outside, and hand the factors in as arguments.

REFUSED: dict[str, str] = {
    **dict.fromkeys("debug_callback io_callback pure_callback".split(), "it calls Python back"),
    "random_draw": "it draws from a generator of the host's",
    "host_read": "it reads what is outside of the program",
    **dict.fromkeys("eig eigh eigvalsh svd svdvals schur spectral pinv".split(), _NO_EIGENVALUES),
    **dict.fromkeys("lstsq polar polar_unitary nuclear_norm gap_quotient stein".split(), _NO_EIGENVALUES),
    **dict.fromkeys("sqrtm logm logm_linear sylvester".split(), _NO_EIGENVALUES),
    **dict.fromkeys("fft trigonometric".split(), "Fourier transforms have no C"),
    "qr_raw": "LAPACK's way to store Q has no C",
}
_BYTE = Aval((), np.dtype(np.int8))
Sizes = Sequence[int]  # or strides


# -- how implementations of NumPy's are traced
#
# An implementation that makes an array and writes into it would write traced values into NumPy's memory, which has no place for
# them. So what makes arrays gives traced ones: a zero that is an input of the trace, spread. The pipeline folds it away.


class _WritableNumpy:
    """funcad.numpy, whose new arrays are traced, so that an implementation may write into them."""

    def __init__(self, numpy: Any, zero: Any):
        self._numpy, self._zero = numpy, zero

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    def full(self, shape: Any, value: Any, dtype: Any = np.float64) -> Any:
        start = self._numpy.where(self._zero == 0, np.dtype(dtype).type(value), np.dtype(dtype).type(0))
        return self._numpy.array(self._numpy.broadcast_to(start, shape))

    def zeros(self, shape: Any, dtype: Any = np.float64) -> Any:
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = np.float64) -> Any:
        return self.full(shape, 1, dtype)

    empty = zeros


# -- values and buffers
#
# A view keeps the name of the buffer that it lies in (`owner`), so that holds are counted per buffer, whoever looks at it. What
# the caller gave has no owner: nobody writes there. Small arrays are on the stack, where compilers keep them in registers; the
# others have places in the workspace, given when all lifetimes are known: the largest first, each at the lowest free place.


class CArray(NamedTuple):
    """Elements in memory: `base[offset + sum of index * stride]`, strides in elements."""

    dtype: np.dtype
    base: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0
    owner: str = ""  # the buffer that it is part of; "" if that is not ours to write

    @property
    def whole(self) -> bool:
        return not self.offset and self.strides == contiguous_strides(self.shape)

    def at(self, names: Sequence[str], strides: Sequence[int] | None = None) -> str:
        """The element at these indices."""
        strides = self.strides if strides is None else strides
        terms = [name if s == 1 else f"{name} * {s}" for name, s in zip(names, strides) if s]
        terms += [str(self.offset)] if self.offset or not terms else []
        return f"{self.base}[{' + '.join(terms)}]"

    @property
    def pointer(self) -> str:
        return f"{self.base} + {self.offset}" if self.offset else self.base

    @property
    def places(self) -> np.ndarray:
        """The number of the place of each element."""
        found = np.full(self.shape, self.offset, np.int64)
        for axis, (n, s) in enumerate(zip(self.shape, self.strides)):
            found += (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(len(self.shape))])
        return found


class Workspace:
    """Buffers, each with the time from its first use to its last one."""

    def __init__(self) -> None:
        self.time = 0
        self.buffers: dict[str, list[Any]] = {}  # begin, end, bytes, type

    def begin(self, name: str, size: int, kind: str) -> None:
        self.time += 1
        self.buffers[name] = [self.time, None, -(-max(size, 1) // ALIGNED) * ALIGNED, kind]

    def end(self, name: str) -> None:
        self.time += 1
        self.buffers[name][1] = self.time

    def placed(self) -> tuple[dict[str, int], int]:
        """Where each buffer begins, the large ones first, and how many bytes there are."""
        found: dict[str, int] = {}
        total = 0
        for name, (begin, end, size, kind) in sorted(self.buffers.items(), key=lambda item: -item[1][2]):
            taken = []
            for other, at in found.items():
                b, e, n, k = self.buffers[other]
                if k != kind or (end is None or b <= end) and (e is None or begin <= e):
                    taken.append((at, at + n))
            at = 0
            for low, high in sorted(taken):
                if low - at >= size:
                    break
                at = max(at, high)
            found[name] = at
            total = max(total, at + size)
        return found, total


class CProgram:
    """Writes the lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 1
        self.count: Counter[str] = Counter()
        self.memory = Workspace()
        self.types: dict[str, np.dtype] = {}  # of buffers of the workspace
        self.on_stack = 0
        self.holds: Counter[str] = Counter()
        self.pinned: Counter[str] = Counter()
        self.dying: set[str] = set()  # buffers whose last reader is this equation
        self.wanted: dict[Var, CArray] = {}  # where results are to lie
        self.tables: list[str] = []
        self.table_bytes = 0
        self.helpers: dict[str, str] = {}
        self.statuses: set[str] = set()
        self.opening: list[str] = []
        self.equations: list[Equation] = []  # that are being written, the outer ones first
        self.e = CElements(self.line, self.fresh, self.elementary)

    # -- text

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def fresh(self, letter: str) -> str:
        self.count[letter] += 1
        return f"{letter}{self.count[letter]}"

    @contextmanager
    def block(self, head: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, extents: Sequence[int]) -> Iterator[list[str]]:
        """Loops in loops; their counters."""
        names = [self.fresh("i") for _ in extents]
        for name, n in zip(names, extents):
            self.line(f"for (int64_t {name} = 0; {name} < {n}; {name}++) {{")
            self.depth += 1
        yield names
        for _ in names:
            self.depth -= 1
            self.line("}")

    def helper(self, name: str, dtype: Any = None) -> str:
        """The name of a function that the file needs, of elements of a dtype."""
        floats = dtype is None or np.dtype(dtype).name in ("float32", "float64")
        if not floats and name not in ("argsort", "search"):
            raise Unsupported(f"{name.replace('_', ' ')} of {np.dtype(dtype)}")
        key = name if dtype is None else f"{name}_{c_type(dtype)}"
        if key not in self.helpers:
            self.helpers[key] = HELPERS[name].replace("@T", "" if dtype is None else c_type(dtype))
            if dtype is not None:
                single = np.dtype(dtype) == np.float32
                self.helpers[key] = (
                    self.helpers[key].replace("@f", "f" if single else "").replace("@blas", "s" if single else "d")
                )
                floats = np.dtype(dtype).kind == "f"
                below = "(a < b || (b != b && a == a))" if floats else "(a < b)"
                self.helpers[key] = self.helpers[key].replace("@BELOW", below)
        return f"fc_{key}"

    def elementary(self, name: str, dtype: np.dtype) -> str | None:
        """The name of our own elementary function for an atom; None if it is libm's."""
        if name not in OWN.get(dtype, ()):
            return None
        bits = BITS.replace("@N", str(8 * dtype.itemsize)).replace("@T", c_type(dtype))
        self.helpers[f"bits_{c_type(dtype)}"] = bits
        self.helpers[f"{name}_{c_type(dtype)}"] = function_text(name, dtype)
        return f"fc_{name}_{c_type(dtype)}"

    def leave_if(self, condition: str, status: str) -> None:
        """The function ends here with this status."""
        self.statuses.add(status)
        self.line(f"if ({condition}) return {status};")

    # -- buffers

    def new(self, v: Any) -> CArray:
        """A place for a variable (where it is wanted, if it is), or for what has an aval."""
        if type(v) is Var and v in self.wanted:
            found = self.wanted[v]
            self.hold(found)
            return found
        aval = v.aval if type(v) is Var else v
        return self.array(aval.dtype, aval.shape)

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> CArray:
        name, size = self.fresh("a"), prod(shape) * dtype.itemsize
        kind = c_type(dtype)
        if size <= SMALL and self.on_stack + size <= STACK:
            self.on_stack += size
            self.line(f"{kind} {name}[{max(prod(shape), 1)}];")
        else:
            self.memory.begin(name, size, kind)
            self.types[name] = dtype
        self.holds[name] += 1
        return CArray(dtype, name, tuple(shape), contiguous_strides(tuple(shape)), 0, name)

    def hold(self, value: Any) -> Any:
        if type(value) is CArray and value.owner:
            self.holds[value.owner] += 1
        return value

    def release(self, *values: Any) -> None:
        for x in values:
            if type(x) is CArray and x.owner:
                self.holds[x.owner] -= 1
                if not self.holds[x.owner] and not self.pinned[x.owner] and x.owner in self.memory.buffers:
                    self.memory.end(x.owner)

    def pin(self, x: CArray) -> None:
        self.pinned[x.owner] += 1

    def unpin(self, x: CArray) -> None:
        self.pinned[x.owner] -= 1

    def writable(self, x: Any) -> bool:
        """May this equation write over its operand?"""
        return type(x) is CArray and x.owner in self.dying and self.holds[x.owner] == 1 and x.whole

    def table(self, values: np.ndarray) -> CArray:
        """Numbers of the file's."""
        name, kind = self.fresh("k"), c_type(values.dtype)
        self.table_bytes += values.nbytes
        if self.table_bytes > LARGEST:
            raise Unsupported(f"it holds more than {LARGEST >> 20} MB of numbers")
        flat = values.ravel()
        texts = [initial(x) for x in flat] or ["0"]
        rows = [", ".join(texts[i : i + 8]) for i in range(0, len(texts), 8)]
        numbers = ",\n    ".join(rows)
        self.tables.append(f"static const {kind} @{name}[{len(texts)}] = {{\n    {numbers}\n}};")
        return CArray(values.dtype, f"@{name}", values.shape, contiguous_strides(values.shape))

    def index_table(self, values: np.ndarray) -> CArray:
        small = not values.size or int(np.abs(values).max()) < 2**31
        return self.table(values.astype(np.int32 if small else np.int64))

    # -- programs

    def read(self, env: dict[Any, Any], atom: Any) -> Any:
        return literal(atom.value, atom.aval.dtype) if type(atom) is Literal else env[atom]

    def program(
        self, jaxpr: Jaxpr, values: Sequence[Any], targets: Sequence[CArray | None] = (), owned: Sequence[bool] = ()
    ) -> list[Any]:
        """The results, each held once. `targets`: where they are to lie; `owned`: operands whose hold is given away."""
        env: dict[Any, Any] = {}
        for i, (v, value) in enumerate(zip(jaxpr.inputs, values)):
            env[v] = value if owned and owned[i] else self.hold(value)
        inside = {v for e in jaxpr.equations for v in e.outputs}
        for o, target in zip(jaxpr.outputs, targets):
            if target is not None and o in inside and o not in self.wanted and jaxpr.outputs.count(o) == 1:
                self.wanted[o] = target
        for v in set(jaxpr.inputs) - {a for e in jaxpr.equations for a in e.inputs} - set(jaxpr.outputs):
            self.release(env.pop(v))
        for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
            operands = [self.read(env, a) for a in equation.inputs]
            self.dying = {x.owner for v, x in zip(equation.inputs, operands) if type(x) is CArray and v in dead}
            self.equations.append(equation)
            outs = self.equation(equation, operands)
            self.equations.pop()
            env.update(zip(equation.outputs, outs, strict=True))
            for v in dead:
                self.release(env.pop(v))
        results = [self.hold(self.read(env, o)) for o in jaxpr.outputs]
        self.release(*env.values())
        for o in jaxpr.outputs:
            self.wanted.pop(o, None)
        return results

    def equation(self, equation: Equation, values: list[Any]) -> list[Any]:
        primitive = equation.primitive
        for a in (*equation.inputs, *equation.outputs):
            if type(a.aval) is StackAval:
                raise Unsupported("what a loop of unknown length keeps for its derivative: its size depends on values")
        inside = called(equation)
        if inside is not None:
            env = dict(zip(equation.inputs, values))
            return self.program(
                inside[0], [self.read(env, a) for a in inside[1]], [self.wanted.get(v) for v in equation.outputs]
            )
        rule = RULES.get(primitive.name)
        if rule is not None:
            found: list[Any] = rule(self, equation, values, **equation.params)
            return found
        if primitive.name in REFUSED or primitive.effect:
            raise Unsupported(REFUSED.get(primitive.name, "it does something besides computing its results"))
        if primitive.emit is not None:
            return [self.elementwise(equation, values, lambda lanes: self.e.apply(equation, lanes))]
        if primitive.reduction is not None:
            return [self.reduced(equation, values[0], equation.params["axes"])]
        if primitive.reach == "moves":
            return [self.moved(equation, values)]
        return self.opened(equation, values)

    def opened(self, equation: Equation, values: list[Any]) -> list[Any]:
        """The operation as the program that its implementation is when it runs on funcad's functions."""
        primitive = equation.primitive
        if primitive.name in self.opening:
            raise Unsupported("no code in C")
        variables = [(a, x) for a, x in zip(equation.inputs, values) if type(a) is Var]

        implementation = getattr(primitive.impl, "__wrapped__", primitive.impl)

        def run(zero: Any, *given: Any) -> list[Any]:
            rest = iter(given)
            operands = [next(rest) if type(a) is Var else a.value for a in equation.inputs]
            out = implementation(_WritableNumpy(Tracer.namespace.numpy, zero), *operands, **equation.params)
            return list(out) if primitive.multiple else [out]

        try:
            jaxpr, consts = trace_function(run, [_BYTE, *[a.aval for a, _ in variables]], name=primitive.name)
            if [(a.shape, a.dtype) for a in jaxpr.out_avals] != [(v.aval.shape, v.aval.dtype) for v in equation.outputs]:
                raise Unsupported("no code in C")
        except Unsupported:
            raise
        except Exception:  # the implementation looks at values, or calls what is no function of funcad's
            raise Unsupported("no code in C") from None
        self.opening.append(primitive.name)
        constants = [self.given(np.asarray(c, v.aval.dtype)) for c, v in zip(consts, jaxpr.inputs)]
        found = self.program(
            fuse(pipeline_end(jaxpr)),
            [*constants, literal(0, _BYTE.dtype), *[x for _, x in variables]],
            [self.wanted.get(v) for v in equation.outputs],
        )
        self.opening.pop()
        return found

    def given(self, x: np.ndarray) -> Any:
        """A known array or number as a value."""
        return self.table(x) if x.shape else literal(x[()], x.dtype)

    # -- loops over arrays
    #
    # A sweep over long arrays is a block in which they have names that say that they do not overlap: compilers compute several
    # elements at once only if they know. Where a result is written over an operand, element by element, nothing is said.

    def as_array(self, x: Any, shape: tuple[int, ...] = ()) -> CArray:
        """A number as an array of this shape, an array as it is."""
        if type(x) is CArray:
            return x
        name = self.fresh("n")
        self.line(f"const {c_type(x.dtype)} {name}[1] = {{{x.text}}};")
        return CArray(x.dtype, name, shape, (0,) * len(shape))

    def nest(
        self,
        loops: Sequence[Any],
        given: dict[Any, Any],
        written: dict[Any, Any],
        along: dict[Any, dict[str, int]],
        names: dict[str, int] | None = None,
    ) -> None:
        """A loop nest on numbers and arrays by their names in it, these with their strides `along` its indices."""
        reads, writes = [[x for x in some.values() if type(x) is CArray] for some in (given, written)]
        size = max([prod(x.shape) for x in (*reads, *writes)], default=0)
        apart = size >= LONG and not {x.base for x in reads} & {x.base for x in writes}
        with self.apart(reads if apart else [], writes if apart else []) as renamed:
            memory = {**given, **written}
            for key, x in memory.items():
                if type(x) is CArray:
                    memory[key] = CMemory(renamed.get(x.base, x.base), along[key], x.offset)
            CNest(self, memory, names or {}).write(loops)

    def sweep(
        self,
        shape: Sequence[int],
        reads: Sequence[Any],
        writes: Sequence[CArray],
        body: Callable[[list[CValue]], Sequence[CValue]],
    ) -> None:
        """For each element: what is read goes into `body`, what it gives is written. All arrays have this shape."""
        given = {("in", k): x for k, x in enumerate(reads)}
        written = {("out", k): x for k, x in enumerate(writes)}
        arrays = {key: x for key, x in {**given, **written}.items() if type(x) is CArray}
        extents, rows = collapsed(shape, [x.strides for x in arrays.values()])
        loops = [For(f"i{axis}", 0, n, ONES, ()) for axis, n in enumerate(extents)]
        steps = dict(zip(arrays, rows))
        inside: list[Any] = [Let(tuple(written), tuple(given), lambda e, lanes: body(lanes))]
        inside += [Put(strided(key, loops, x.dtype, steps[key]), key, x.dtype) for key, x in written.items()]
        self.walk(loops, given, written, steps, inside)

    def walk(
        self,
        loops: Sequence[For],
        given: dict[Any, Any],
        written: dict[Any, Any],
        rows: dict[Any, Sequence[int]],
        inside: Sequence[Any],
        after: Sequence[Sequence[Any]] = (),
    ) -> None:
        """The loops, in which what is given is loaded where it changes; `rows`: the strides of arrays along the loops."""
        bodies = loaded(loops, [(key, x.dtype, rows.get(key, ())) for key, x in given.items()])
        bodies[-1] += inside
        along = {key: {loop.index: s for loop, s in zip(loops, row)} for key, row in rows.items()}
        self.nest(nested(loops, bodies, after), given, written, along)

    def fold(
        self, kind: str, kept: Sizes, gone: Sizes, factors: Sequence[tuple[Any, Sizes]], to: Any, steps: Sizes
    ) -> None:
        """The products of one or two arrays folded over the axes that go, into an array with these strides or a variable."""
        outer, own = collapsed(kept, [*[strides[: len(kept)] for _, strides in factors], steps])
        inner, others = collapsed(gone, [strides[len(kept) :] for _, strides in factors])
        given = {("in", k): x for k, (x, _) in enumerate(factors)}
        rows = {key: [*a, *b] for key, a, b in zip(given, own, others)}
        total = Total("total", to.dtype, kind)
        loops = [For(f"i{axis}", 0, n, ONES, ()) for axis, n in enumerate(outer)]
        loops += [For(f"g{axis}", 0, n, ONES, (), totals=[total]) for axis, n in enumerate(inner)]
        loops[-1] = loops[-1]._replace(how=VECTORS)
        after: list[list[Any]] = [[] for _ in range(len(outer) + 1)]
        after[-1].append(Put(strided("out", loops, to.dtype, own[-1]), "total", to.dtype))
        self.walk(loops, given, {"out": to}, {**rows, "out": own[-1]}, [Fold("total", *given)], after)

    @contextmanager
    def apart(self, reads: Sequence[CArray], writes: Sequence[CArray]) -> Iterator[dict[str, str]]:
        """A block in which arrays have names that say that they do not overlap."""
        names: dict[str, str] = {}
        if not writes:
            yield names
            return
        with self.block():
            for x in (*reads, *writes):
                if x.base not in names:
                    names[x.base] = self.fresh("p")
                    const = "" if any([w.base == x.base for w in writes]) else "const "
                    self.line(f"{const}{c_type(x.dtype)} *FC_RESTRICT {names[x.base]} = {x.base};")
            yield names

    def elementwise(self, equation: Equation, values: Sequence[Any], body: Callable[[list[CValue]], CValue]) -> Any:
        (v,) = equation.outputs
        if not v.aval.shape:
            return body(list(values))
        if v not in self.wanted:
            for x in values:  # its place is free after this
                if self.writable(x) and x.dtype == v.aval.dtype and x.shape == v.aval.shape:
                    self.sweep(v.aval.shape, values, [x], lambda lanes: [body(lanes)])
                    return self.hold(x)
        target = self.new(v)
        self.sweep(v.aval.shape, values, [target], lambda lanes: [body(lanes)])
        return target

    def each(self, target: CArray, text: Callable[..., str]) -> None:
        """Elements by their indices."""
        with self.loops(target.shape) as names:
            self.line(f"{target.at(names)} = {text(*names)};")

    def fill(self, target: CArray, value: Any) -> None:
        self.sweep(target.shape, [], [target], lambda _: [literal(value, target.dtype)])

    def copy(self, x: Any, target: CArray) -> None:
        if type(x) is CArray and (x.base, x.offset, x.strides) == (target.base, target.offset, target.strides):
            return  # it was written there
        if type(x) is CArray and x.whole and target.whole and prod(x.shape) >= LONG:
            self.line(f"memcpy({target.base}, {x.base}, sizeof({c_type(x.dtype)}) * {prod(x.shape)});")
        else:
            self.sweep(target.shape, [x], [target], lambda lanes: [self.e.convert(lanes[0], target.dtype)])

    def contiguous(self, x: Any) -> CArray:
        """The array in C's order, held once."""
        x = self.as_array(x)
        if x.strides == contiguous_strides(x.shape):
            return self.hold(x)
        target = self.array(x.dtype, x.shape)
        self.copy(x, target)
        return target

    def total(self, kind: str, dtype: np.dtype) -> CValue:
        """A variable for a fold, with what changes nothing."""
        name = self.fresh("t")
        self.line(f"{lane_type(dtype)} {name} = {literal(identity_of(kind, dtype), dtype).text};")
        return CValue(dtype, name)

    def variable(self, dtype: np.dtype) -> CValue:
        """One that is written later."""
        name = self.fresh("t")
        self.line(f"{lane_type(dtype)} {name};")
        return CValue(dtype, name)

    def folded(self, kind: str, total: CValue, x: CValue) -> None:
        self.line(f"{total.text} = {self.e.combine(kind, total, self.e.convert(x, total.dtype)).text};")

    def reduced(self, equation: Equation, x: Any, axes: Sequence[int]) -> Any:
        (v,) = equation.outputs
        kind, dtype = fold_of(equation.primitive), v.aval.dtype
        reduction = equation.primitive.reduction
        if kind is None and reduction.element is None:
            raise Unsupported("a reduction that has no atom")
        if kind is None:
            return self.opened(equation, [x])[0]
        if type(x) is not CArray:
            return self.e.convert(x, dtype)
        shape, axes = x.shape, sorted(axes)
        kept = [i for i in range(len(shape)) if i not in axes]
        target = self.new(v) if v.aval.shape else None
        inner = not kept or bool(axes) and min([x.strides[i] for i in axes], key=abs) <= min([x.strides[i] for i in kept])
        if target is not None and not inner:  # rows are added up
            self.fill(target, identity_of(kind, dtype))
            strides = iter(target.strides)
            along = [next(strides) if i in kept else 0 for i in range(len(shape))]
            extents, (row, own) = collapsed(shape, [x.strides, along])
            loops = [For(f"i{axis}", 0, n, ONES, ()) for axis, n in enumerate(extents)]
            into = Into(strided("out", loops, dtype, own), dtype, kind, "in")
            self.walk(loops, {"in": x}, {"out": target}, {"in": row, "out": own}, [into])
            return target
        found = self.variable(dtype) if target is None else target
        steps = () if target is None else target.strides
        order = [*kept, *axes]
        extents = [[shape[i] for i in some] for some in (kept, axes)]
        self.fold(kind, *extents, [(x, [x.strides[i] for i in order])], found, steps)
        return found

    # -- movements
    #
    # NumPy's own implementation is asked where each element comes from. A view costs nothing, and is copied only where a result
    # is wanted at a place of its own.

    def moved(self, equation: Equation, values: list[Any]) -> Any:
        """By the implementation itself, on the numbers of places: 0 is a zero."""
        (v,), primitive, params = equation.outputs, equation.primitive, equation.params
        aval, arrays = v.aval, [self.as_array(x) for x in values]
        look = lambda *given: primitive.impl(np, *given, **params)
        if primitive.free:
            return self.viewed(v, seen(arrays[0], look))
        numbers, starts = [], [_GAP]
        for i, x in enumerate(arrays):
            places = x.places
            numbers.append(places + (starts[-1] + 1) if x.shape else np.int64(places + starts[-1] + 1))
            starts.append(starts[-1] + (int(places.max()) + 1 if places.size else 0) + _GAP * (i + 1))
        where = np.asarray(look(*numbers), np.int64).reshape(aval.shape)
        limits = np.array(starts[1:])
        line = line_of(where)
        if line is not None and v not in self.wanted or not aval.shape:
            k = operand_of(where, limits)
            if k is not None:
                assert line is not None
                found = arrays[k]._replace(shape=where.shape, offset=line[0] - 1 - starts[k], strides=line[1])
                if not where.shape:
                    return self.e.load(found.dtype, found.at(()))
                return self.hold(found)
            if not where.shape:
                return literal(0, aval.dtype)
        target = self.new(v)
        if not where.size:
            return target
        boxes = list(boxes_of(where, limits, [PIECES]))
        if len(boxes) <= PIECES:
            for origin, shape, (start, strides) in boxes:
                offset = target.offset + sum([o * s for o, s in zip(origin, target.strides)])
                part = target._replace(shape=shape, offset=offset)
                if start == 0:
                    self.fill(part, 0)
                else:
                    k = int(np.searchsorted(limits, start - 1, "right"))
                    self.copy(arrays[k]._replace(shape=shape, offset=start - 1 - starts[k], strides=strides), part)
            return target
        if (where == 0).any():
            self.fill(target, 0)
        flat, into = where.ravel(), target.places.ravel()
        for k, x in enumerate(arrays):
            (chosen,) = np.nonzero((flat > starts[k]) & (flat <= starts[k + 1]))
            if len(chosen):
                to, source = [self.index_table(t) for t in (into[chosen], flat[chosen] - 1 - starts[k])]
                with self.loops([len(chosen)]) as names:
                    self.line(f"{target.base}[{to.at(names)}] = {x.base}[{source.at(names)}];")
        return target

    def viewed(self, v: Var, x: CArray) -> Any:
        """A result that is part of an operand: copied where it is wanted elsewhere."""
        if not x.shape:
            return self.e.load(x.dtype, x.at(()))
        if v not in self.wanted:
            return self.hold(x)
        target = self.new(v)
        self.copy(x, target)
        return target

    def text(self, inputs: Sequence[str], prefix: str) -> tuple[list[str], int]:
        """The lines of the function, with its buffers, and the bytes of the workspace."""
        offsets, total = self.memory.placed()
        heads = [
            f"    {kind} *const {name} = ({kind} *)((char *)fc_work + {at});"
            for name, at in offsets.items()
            if (kind := c_type(self.types[name]))
        ]
        lines = without_unused([*heads, *self.lines])
        used = set(re.findall(r"\b\w+\b", "\n".join(lines)))
        idle = [name for name in inputs if name not in used]
        return [*[f"    (void){name};" for name in idle], *lines], total


_MADE = re.compile(r"^( *)(?:const )?\w+ \*?(?:const |FC_RESTRICT )?([abnpqstvz]\d+)(?:\[\d+\])?(?: = .*)?;$")
_SET = re.compile(r"^ *([abst]\d+)(\[.*?\])? [+*]?= (.*);$")


def without_unused(lines: list[str]) -> list[str]:
    """The lines but those of names that nobody reads; what is only written is said to be so, as compilers ask for it."""
    while True:
        reads: Counter[str] = Counter()
        for text in lines:
            made, put = _MADE.match(text), _SET.match(text)
            rest = f"{put[2]} {put[3]}" if put else text[made.end(2) :] if made else text
            reads.update(re.findall(r"\b[abnpqstvz]\d+\b", rest))
        written = {put[1] for text in lines if (put := _SET.match(text))}
        kept = []
        for text in lines:
            made = _MADE.match(text)
            if made and not reads[made[2]] and made[2] not in written:
                continue
            kept.append(text)
            if made and not reads[made[2]]:
                kept.append(f"{made[1]}(void){made[2]};")
        if kept == lines:
            return kept
        lines = kept


RULES: dict[str, Callable[..., list[Any]]] = {}  # by the names of primitives


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """This writes the primitives of these names."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        RULES.update(dict.fromkeys(names, function))
        return function

    return put
