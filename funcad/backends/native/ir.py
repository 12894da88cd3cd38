"""LLVM text, built line by line: the lowest layer of the native engine.

Idea: an instruction is its text. `put` gives the name of the value that an instruction computes, and the same text in the same
or an enclosing scope gives the same name (value numbering), so emitters need not look for common subexpressions. Loops and
conditionals are `with` blocks, which open a scope. Invariant: a value named inside a loop or a conditional is not used after
it; what must survive goes through `carried` values or memory. Trap: instructions that read or write memory must not be
numbered: `load` and `do` are for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

# attributes of a function that only hands work on to others: LLVM translates it as it stands, which is sooner done
RUNS_ONCE = "nounwind noinline optnone"


class Module:
    """Functions and what they declare, as the text of one LLVM module.

    `contracts`: may a product that is added be rounded once, with the sum? Of the user's arithmetic, under fast_math only.
    """

    def __init__(self, contracts: bool = False) -> None:
        self.contracts = contracts
        self.functions: dict[str, str] = {}  # name -> its text; helpers shared by several kernels are here once
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, str] = {}  # "@name" -> its definition: tables
        self.pools: dict[str, dict[str, int]] = {}  # type -> constants of that type that are in memory, and their places

    def declare(self, name: str, returns: str, arguments: Sequence[str]) -> str:
        """An intrinsic or an external function; gives its name with the @."""
        self.declarations[name] = f"declare {returns} @{name}({', '.join(arguments)})"
        return f"@{name}"

    def add(self, function: Function) -> None:
        self.functions[function.name] = function.text()

    def text(self) -> str:
        declared = [t for n, t in self.declarations.items() if n not in self.functions]
        return "\n".join([*self.constants.values(), *self._pool_lines(), *declared, *self.functions.values(), ""])

    def _pool_lines(self) -> list[str]:
        lines = ["!1998 = !{}"] if self.pools else []
        for i, (kind, pool) in enumerate(self.pools.items()):
            values = ", ".join([f"{kind} {value}" for value in pool])
            lines += [
                f"@pool{i} = internal constant [{len(pool)} x {kind}] [{values}]",
                f"@pool{i}_at = internal global ptr @pool{i}",
            ]
        return lines


class EmittedLoop:
    """A loop under construction: `index`, and the carried values at the top of an iteration."""

    __slots__ = ("index", "values", "results", "following")

    def __init__(self, index: str, values: list[str]):
        self.index = index
        self.values = values  # at the top of an iteration; after the loop, the final ones
        self.results = values  # the same names: the header dominates what comes after the loop
        self.following: list[str] | None = None

    def next(self, *values: str) -> None:
        """The carried values of the next iteration."""
        self.following = list(values)


class Function:
    """One function under construction; parameters are (type, "%name") pairs."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[tuple[str, str]],
        returns: str = "void",
        attributes: str = "nounwind",
    ):
        self.module = module
        self.name = name
        self.parameters = list(parameters)
        self.returns = returns
        self.attributes = attributes
        self.lines: list[str] = ["entry:"]
        self.block = "entry"  # the label of the block that is being written
        self._scopes: list[dict[str, str]] = [{}]
        self._count = 0
        self._pools: set[int] = set()  # whose constants it reads

    @property
    def once(self) -> bool:
        """Does what is written now stand outside all loops and conditionals?"""
        return len(self._scopes) == 1

    def beside(self, name: str, parameters: Sequence[tuple[str, str]], returns: str) -> Function:
        """Another function, of the same module once it is added to it."""
        return Function(self.module, name, parameters, returns)

    def fresh(self, prefix: str = "v") -> str:
        self._count += 1
        return f"%{prefix}{self._count}"

    def label(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, instruction: str) -> str:
        """The value of an instruction without effect; equal instructions give one value."""
        for scope in self._scopes:
            found = scope.get(instruction)
            if found is not None:
                return found
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        self._scopes[-1][instruction] = name
        return name

    def constant(self, kind: str, value: str) -> str:
        """A constant that is read from memory, whence the instruction that needs it takes it without another one.

        The address of the memory is loaded: if LLVM knew it, it would write it out in full before every constant.
        """
        pool = self.module.pools.setdefault(kind, {})
        number = list(self.module.pools).index(kind)
        self._pools.add(number)
        place = self.put(f"getelementptr {kind}, ptr %pool{number}, i64 {pool.setdefault(value, len(pool))}")
        return self.put(f"load {kind}, ptr {place}, !invariant.load !1998")

    def word(self, pointer: str, index: int, kind: str = "i64") -> str:
        """One of the words of 64 bits at a pointer."""
        return self.load(f"load {kind}, ptr {self.put(f'getelementptr i64, ptr {pointer}, i64 {index}')}")

    def run_parts(self, runner: str, pool: tuple[str, int], extent: str, size: str, cut: bool, arena: str = "%arena") -> None:
        """`part` for all of an extent: by the runner of threads, if there is one; else here, at once or `cut` in such parts."""
        serial = self.put(f"icmp eq ptr {runner}, null")
        with self.when(serial):
            if cut:
                with self.loop(0, extent, size) as loop:
                    stop = self.put(f"add i64 {loop.index}, {size}")
                    stop = self.intrinsic("llvm.smin.i64", "i64", ("i64", stop), ("i64", extent))
                    self.do(f"call void @part(ptr %slots, i64 {loop.index}, i64 {stop}, ptr {arena})")
            else:
                self.do(f"call void @part(ptr %slots, i64 0, i64 {extent}, ptr {arena})")
        with self.when(self.put(f"xor i1 {serial}, true")):
            threads = self.word(*pool, "ptr")
            self.do(f"call void {runner}(ptr {threads}, ptr @part, ptr %slots, i64 {extent}, i64 {size}, ptr {arena}, i64 0)")

    def load(self, instruction: str) -> str:
        """The value of an instruction that depends on memory (a load, a call with effects)."""
        name = self.fresh()
        self.lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """An instruction without value: store, call void, ret."""
        self.lines.append(f"  {instruction}")

    def intrinsic(self, name: str, returns: str, *arguments: tuple[str, str]) -> str:
        """A call of a pure function, with (type, value) arguments; declared on the way."""
        target = self.module.declare(name, returns, [t for t, _ in arguments])
        return self.put(f"call {returns} {target}({', '.join([f'{t} {v}' for t, v in arguments])})")

    def open(self, label: str) -> None:
        """Begin the block `label`; the one before it must have been left."""
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    @contextmanager
    def loop(
        self, start: Any, stop: Any, step: Any = 1, carried: Sequence[tuple[str, str]] = (), down: bool = False
    ) -> Iterator[EmittedLoop]:
        """`for index in range(start, stop, step)` over i64; `carried` are (type, first value) pairs, see `EmittedLoop.next`.

        With `down` the index goes from stop - 1 to start, by ones. A `stop` that is a function writes whether to go on, an i1,
        of the carried values at the top of an iteration.
        """
        head, body, done = self.label("head"), self.label("body"), self.label("done")
        before = self.block
        index = self.fresh("i")
        values = [self.fresh("c") for _ in carried]
        if down:
            last = self.put(f"sub i64 {stop}, 1")
        self.do(f"br label %{head}")
        self.open(head)
        place = len(self.lines)  # the phis are written when the loop is complete
        if callable(stop):
            condition = stop(values)
        else:
            condition = self.fresh()
            test = f"sge i64 {index}, {start}" if down else f"slt i64 {index}, {stop}"
            self.lines.append(f"  {condition} = icmp {test}")
        self.do(f"br i1 {condition}, label %{body}, label %{done}")
        self.open(body)
        loop = EmittedLoop(index, values)
        with self._scope():
            yield loop
        following = self.fresh("n")
        self.lines.append(f"  {following} = {'sub' if down else 'add'} i64 {index}, {step}")
        end = self.block
        self.do(f"br label %{head}")
        self.open(done)
        nexts = loop.following if loop.following is not None else []
        assert len(nexts) == len(values), "every carried value needs a next one"
        phis = [f"  {index} = phi i64 [{last if down else start}, %{before}], [{following}, %{end}]"]
        for name, (kind, first), after in zip(values, carried, nexts):
            phis.append(f"  {name} = phi {kind} [{first}, %{before}], [{after}, %{end}]")
        self.lines[place:place] = phis

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The block runs if `condition` (an i1) holds."""
        inside, done = self.label("then"), self.label("done")
        self.do(f"br i1 {condition}, label %{inside}, label %{done}")
        self.open(inside)
        with self._scope():
            yield
        self.do(f"br label %{done}")
        self.open(done)

    def text(self) -> str:
        parameters = ", ".join([f"{t} {n}" for t, n in self.parameters])
        first, *rest = self.lines
        pools = [f"  %pool{number} = load ptr, ptr @pool{number}_at" for number in sorted(self._pools)]
        lines = [f"define {self.returns} @{self.name}({parameters}) {self.attributes} {{", first, *pools, *rest, "}"]
        return "\n".join(lines)
