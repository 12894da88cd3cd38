"""Fused groups of kind "elementwise" as CUDA C++.

Idea: the element is a device function of its own; around it stand two loops that know how the arrays lie. Where all arrays that
are read element by element are adjacent and aligned, a thread takes packs of 16 bytes, whose rest is taken one by one; else the
number of an element is taken apart into the axes that `layout_of` leaves. A total is summed by each thread over its elements,
by a tree within the block, and the parts of the blocks by one more block: the order depends on the number of elements alone,
so the bits are the same at every run. Arguments of a kernel: inputs, full results, parts of totals, the number of elements,
then, of a strided one, the extents behind the first and the strides of each access.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from funcad.backends.cuda.elements import Elements, ElementValue, Unsupported, c_type, literal
from funcad.backends.cuda.prelude import PRELUDE
from funcad.backends.plans.element_plan import Group
from funcad.backends.plans.element_writer import identity_of
from funcad.ir.jaxpr import Literal, Var
from funcad.primitives.atoms import UFUNCS

__all__ = ["BLOCKS", "combined", "identity", "kernel_text", "pack_of"]

BLOCKS = 1024  # at most: the parts of a total, and enough to keep a GPU busy
PACK = 16  # bytes
_KERNEL = 'extern "C" __global__ void __launch_bounds__(FC_THREADS)'


def pack_of(group: Group) -> int:
    """How many elements a thread takes at once where it can."""
    return PACK // max([d.itemsize for d in group.dtypes])


def identity(kind: str, dtype: np.dtype) -> ElementValue:
    """What changes nothing in a total by this atom: NumPy's identity, or the least or greatest value of the dtype."""
    if dtype == np.float16:
        raise Unsupported("totals of float16, which NumPy adds up in float32")
    if dtype.kind == "b" and UFUNCS[kind].identity is None:
        raise Unsupported(f"no total of {dtype} by {kind}")
    return literal(identity_of(kind, dtype), dtype)


def combined(kind: str, dtype: np.dtype, a: str, b: str) -> str:
    """The statements that combine two parts of a total, the last of which is a value."""
    elements = Elements()
    elements.atom(kind, ElementValue(dtype, a), ElementValue(dtype, b))
    (line,) = elements.lines
    return line.partition(" = ")[2].rstrip(";")


class _ModuleText:
    """The parts of one module."""

    def __init__(self, group: Group, modes: Sequence[str]):
        self.group, self.modes, self.ndim = group, modes, len(modes[0]) if modes else 1
        self.outputs = group.jaxpr.outputs
        self.full = [k for k, v in enumerate(self.outputs) if v not in group.sums]
        self.totals = [k for k, v in enumerate(self.outputs) if v in group.sums]
        self.in_types = [c_type(group.jaxpr.inputs[i].aval.dtype) for i, _ in group.accesses]
        self.out_types = [c_type(v.aval.dtype) for v in self.outputs]

    def element(self) -> list[str]:
        """`element`: what is read, and the places of all results."""
        elements, env = Elements(), {}
        dtypes = [self.group.jaxpr.inputs[i].aval.dtype for i, _ in self.group.accesses]
        for v, k in self.group.reads.items():
            env[v] = ElementValue(dtypes[k], f"a{k}")

        def lane(atom: Literal | Var) -> ElementValue:
            return literal(atom.value, atom.aval.dtype) if isinstance(atom, Literal) else env[atom]

        for equation in self.group.equations:
            if equation.primitive.name == "broadcast_in_dim":  # of a number
                env[equation.outputs[0]] = lane(equation.inputs[0])
                continue
            env[equation.outputs[0]] = elements.apply(equation, [lane(a) for a in equation.inputs])
        parameters = [f"const {t} a{k}" for k, t in enumerate(self.in_types)]
        parameters += [f"{t}& r{k}" for k, t in enumerate(self.out_types)]
        results = []
        for k, v in enumerate(self.outputs):
            source = self.group.sums[v][1] if v in self.group.sums else v
            found = lane(source)
            if found.dtype != v.aval.dtype:
                raise Unsupported(f"a result of {found.dtype} is {v.aval.dtype} in the program")
            results.append(f"r{k} = {found.text};")
        body = [*elements.lines, *results]
        return [f"FC void element({', '.join(parameters)}) {{", *[f"  {line}" for line in body], "}"]

    def parameters(self, strided: bool) -> str:
        found = [f"const {t}* __restrict__ in{k}" for k, t in enumerate(self.in_types)]
        found += [f"{self.out_types[k]}* __restrict__ out{k}" for k in [*self.full, *self.totals]]
        found.append("const long long n")
        if strided:
            found += [f"const long long e{axis}" for axis in range(1, self.ndim)]
            found += [f"const long long s{k}_{i}" for k, row in enumerate(self.modes) for i, m in enumerate(row) if m == "s"]
        return ", ".join(found)

    def one(self, reads: Sequence[str], index: str) -> list[str]:
        """The statements for one element, which is written at `index`."""
        lines = [f"{self.out_types[k]} r{k};" for k in range(len(self.outputs))]
        lines.append(f"element({', '.join([*reads, *[f'r{k}' for k in range(len(self.outputs))]])});")
        lines += [f"out{k}[{index}] = r{k};" for k in self.full]
        return [*lines, *self.added()]

    def added(self) -> list[str]:
        found = []
        for k in self.totals:
            kind, dtype = self.group.sums[self.outputs[k]][0], self.outputs[k].aval.dtype
            found.append(f"total{k} = {combined(kind, dtype, f'total{k}', f'r{k}')};")
        return found

    def begin(self) -> list[str]:
        lines = ["const long long first = blockIdx.x * (long long)blockDim.x + threadIdx.x;"]
        lines.append("const long long step = (long long)gridDim.x * blockDim.x;")
        for k in self.totals:
            kind, dtype = self.group.sums[self.outputs[k]][0], self.outputs[k].aval.dtype
            lines.append(f"{self.out_types[k]} total{k} = {identity(kind, dtype).text};")
        return lines

    def end(self) -> list[str]:
        return [f"fc_block_{k}(total{k}, out{k});" for k in self.totals]

    def trees(self) -> list[str]:
        """For each total: the sum over a block, and the kernel that sums the parts of all blocks."""
        lines = []
        for k in self.totals:
            kind, dtype, t = self.group.sums[self.outputs[k]][0], self.outputs[k].aval.dtype, self.out_types[k]
            joined = combined(kind, dtype, "held[threadIdx.x]", "held[threadIdx.x + o]")
            step = combined(kind, dtype, "total", "part[i]")
            lines += [
                f"FC void fc_block_{k}(const {t} mine, {t}* parts) {{",
                f"  __shared__ {t} held[FC_THREADS];",
                "  held[threadIdx.x] = mine;",
                "  __syncthreads();",
                "  for (int o = FC_THREADS / 2; o > 0; o >>= 1) {",
                f"    if (threadIdx.x < o) held[threadIdx.x] = {joined};",
                "    __syncthreads();",
                "  }",
                "  if (threadIdx.x == 0) parts[blockIdx.x] = held[0];",
                "}",
                f"{_KERNEL} finish{k}(const {t}* part, {t}* out, const long long n) {{",
                f"  {t} total = {identity(kind, dtype).text};",
                f"  for (long long i = threadIdx.x; i < n; i += FC_THREADS) total = {step};",
                f"  fc_block_{k}(total, out);",
                "}",
            ]
        return lines

    def packed(self, width: int) -> list[str]:
        """The kernel for arrays of one axis that are adjacent, or one number."""
        whole = [k for k, row in enumerate(self.modes) if row == "1"]
        body = []
        for k in whole:
            t = f"fc_pack<{self.in_types[k]}, {width}>"
            body.append(f"const {t} p{k} = ((const {t}*)in{k})[i];")
        body += [f"fc_pack<{self.out_types[k]}, {width}> q{k};" for k in self.full]
        body += ["#pragma unroll", f"for (int j = 0; j < {width}; j++) {{"]
        reads = [f"p{k}.part[j]" if k in whole else f"c{k}" for k in range(len(self.in_types))]
        inner = [f"{self.out_types[k]} r{k};" for k in range(len(self.outputs))]
        inner.append(f"element({', '.join([*reads, *[f'r{k}' for k in range(len(self.outputs))]])});")
        inner += [f"q{k}.part[j] = r{k};" for k in self.full]
        body += [f"  {line}" for line in [*inner, *self.added()]] + ["}"]
        body += [f"((fc_pack<{self.out_types[k]}, {width}>*)out{k})[i] = q{k};" for k in self.full]
        single = [f"in{k}[i]" if k in whole else f"c{k}" for k in range(len(self.in_types))]
        return [
            *self.begin(),
            *[f"const {t} c{k} = in{k}[0];" for k, t in enumerate(self.in_types) if k not in whole],
            f"for (long long i = first; i < n / {width}; i += step) {{",
            *[line if line.startswith("#") else f"  {line}" for line in body],
            "}",
            f"for (long long i = n / {width} * {width} + first; i < n; i += step) {{",
            *[f"  {line}" for line in self.one(single, "i")],
            "}",
            *self.end(),
        ]

    def strided(self) -> list[str]:
        """The kernel for arrays that lie in any way."""
        body = ["long long rest = i;"] if self.ndim > 1 else []
        for axis in range(self.ndim - 1, 0, -1):
            body += [f"const long long x{axis} = rest % e{axis};", f"rest /= e{axis};"]
        body.append(f"const long long x0 = {'rest' if self.ndim > 1 else 'i'};")
        reads = []
        for k, row in enumerate(self.modes):
            terms = [f"x{i}" if m == "1" else f"x{i} * s{k}_{i}" for i, m in enumerate(row) if m != "0"]
            reads.append(f"in{k}[{' + '.join(terms) or '0'}]")
        return [
            *self.begin(),
            "for (long long i = first; i < n; i += step) {",
            *[f"  {line}" for line in [*body, *self.one(reads, "i")]],
            "}",
            *self.end(),
        ]


def kernel_text(group: Group, modes: Sequence[str], width: int) -> str:
    """The module of one layout: `kernel`, and `finish<k>` for result k if it is a total. `width` > 1: in packs.

    >>> import numpy as np, funcad
    >>> from funcad.backends.plans.element_plan import analyse
    >>> group = analyse(funcad.jit(lambda x: np.exp(-x) * 2.0).lower(np.ones(3)).jaxpr)
    >>> print(kernel_text(group, ["1"], 2).partition("fc_pack { T part[N]; };")[2].partition("extern")[0].strip())
    FC void element(const double a0, double& r0) {
      const double v0 = -a0;
      const double v1 = exp(v0);
      const double v2 = v1 * 0x1.0000000000000p+1;
      r0 = v2;
    }
    """
    text = _ModuleText(group, modes)
    body = text.packed(width) if width > 1 else text.strided()
    head = f"{_KERNEL} kernel({text.parameters(width == 1)}) {{"
    lines = [*text.element(), *text.trees(), head, *[f"  {line}" if line[0] != "#" else line for line in body], "}"]
    return PRELUDE + "\n".join(lines) + "\n"
