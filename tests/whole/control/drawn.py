"""Random programs with nested control flow: `drawn(seed)` gives one, with inputs that take different ways through it.

A program is a tree of lines and blocks, so that it can be made small by leaving parts out. It works on two numbers x and y, a
whole number n and an array v; writes into v and into an array of its own; says things; raises and catches. Each candidate is
run by plain Python first: what is not finite, warns, or takes another way when numbers move by 1e-7 is drawn again.
"""

from __future__ import annotations

import itertools
import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from tests.whole.control.judged import plain
from tests.whole.control.program import Program

__all__ = ["Drawn", "drawn", "smaller", "program_of"]

Node = Any  # a line, or a Block


class Block(NamedTuple):
    """Parts that begin with a header each: `if` and `else`, `try` and `except`."""

    parts: tuple[tuple[str, tuple[Node, ...]], ...]


class Drawn(NamedTuple):
    nodes: tuple[Node, ...]
    inputs: tuple[tuple, ...]

    def __repr__(self) -> str:
        return f"{source_of(self.nodes)}\n# inputs (x, y, n, v): " + ", ".join(
            [repr((*i[:3], i[3].tolist())) for i in self.inputs]
        )


_FIRST = "s = x\nt = 0.5 * y\nk = n\nm = 0\nw = v * 2.0\nflag = x > 0.2"
_LAST = "return s, t, k, m, w"
_HELPERS = """
def folded(a):
    return a if abs(a) < 0.3 else folded(0.5 * a)

def halves(a):
    while a > 0.1:
        yield a
        a = 0.5 * a

def checked(a):
    if a > 0.9:
        raise ValueError(f"large: {a:.4f}")
    return a * a
"""


def _items(text: str) -> list[str]:
    return [item for line in text.strip().splitlines() for item in line.strip().split("  ")]


NUMBERS = _items("""
    0.3  -0.4  1.0  x  y  s  t  s  t  v[0]  v[-1]  w[1]  v[k % 3]  w[m % 3]  np.sum(v)  np.max(w)  np.sin({a})  np.tanh({a})
    ({a} + {b})  ({a} - {b})  {a} * {b}  {a} / (2.0 + {b} ** 2)  0.1 * k  ({a} if {c} else {b})  abs({a})  max({a}, {b})
    min({a}, 0.7)  folded({a})  sum([z for z in v if z > {a}])  np.sum(w[w > {a}])  [s, t, x][k % 3]  np.cos({a} * k)
    sum(halves({a}), 0.0)  checked({a})  ({c} and {a} or {b})  np.where({a} > 0, {a}, {b})[()]  len(v[v > {a}]) * 0.25
""")
WHOLE = _items("""
    0  1  2  n  k  m  k + 1  m + 1  (k * 3 + 1) % 5  n % 3  k - m  int(np.floor(2.5 * {a}))  int(np.argmax(v))  np.sum(v > {a})
    len(np.unique(np.sign(w)))  (1 if {c} else 2)  len([z for z in w if z > {a}])  max(k, m)  len(np.nonzero(v > {a})[0])
    k // 2  abs(k) % 4
""")
CONDITIONS = _items("""
    {a} > {b}  {a} > {b}  {a} <= {b}  s > 0.3  v[0] < t  {i} < {j}  k % 2 == 0  {i} == {j}  np.any(v > {a})  (w < {a}).all()
    not {c}  ({c} and {d})  ({c} or {d})  flag  k  0 < {a} < 0.6  any([z < {a} for z in v])  np.isclose({a}, {b})  m in (1, 3)
    x * y > 0.2
""")
LINES = _items("""
    s = {a}  t = {a}  s = 0.5 * s + {a}  t -= 0.3 * {a}  k = {i}  m = {i}  m += 1  s, t = t, s  flag = {c}
    w[k % 3] = {a}  v[m % 3] += {a}  w[w > {a}] = {b}  w = 0.5 * w + v  v *= 0.7  w[{i} % 3:] = {a}  say('a', s)
    say('b', t)  say('c', k)  say('d')  s = s if {c} else t  w[1] = max(w[0], {a})  w = np.sort(w)  t = checked({a})
    assert {c}, f's is {{s:.3f}}'
""")
JUMPS = ("return s, t, k, m, w", "raise ValueError(f't is {t:.3f}, k is {k}')", "raise KeyError('no')", "say('e', s)", "m += 1")


class _Writer:
    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.count = itertools.count()

    def text(self, kind: str, depth: int) -> str:
        table = {"a": NUMBERS, "b": NUMBERS, "c": CONDITIONS, "d": CONDITIONS, "i": WHOLE, "j": WHOLE}[kind]
        while True:
            item = self.random.choice(table)
            if depth or "{" not in item:
                return self.filled(item, depth - 1)

    def filled(self, item: str, depth: int) -> str:
        return item.format_map({k: self.text(k, depth) for k in "abcdij" if "{" + k + "}" in item})

    def condition(self) -> str:
        return self.text("c", 2)

    def body(self, depth: int, loop: bool) -> tuple[Node, ...]:
        found = tuple([self.node(depth, loop) for _ in range(self.random.randint(1, 3))])
        if self.random.random() < 0.2:
            found += (self.random.choice([*JUMPS, *(["break", "continue"] * 3 if loop else [])]),)
        return found

    def node(self, depth: int, loop: bool) -> Node:
        if not depth or self.random.random() < 0.45:
            return self.filled(self.random.choice(LINES), 2)
        kind = self.random.choice(["if", "if", "else", "elif", "while", "for", "values", "try", "finally", "match", "forelse"])
        body = lambda inside=loop: self.body(depth - 1, inside)
        if kind == "if":
            return Block(((f"if {self.condition()}:", body()),))
        if kind == "else":
            return Block(((f"if {self.condition()}:", body()), ("else:", body())))
        if kind == "elif":
            return Block(((f"if {self.condition()}:", body()), (f"elif {self.condition()}:", body()), ("else:", body())))
        if kind == "while":
            q = f"q{next(self.count)}"
            first = f"{q} += 1", Block(((f"if {q} > 4:", ("break",)),))
            return Block(((f"{q} = 0\nwhile {self.condition()}:", (*first, *body(True))),))
        if kind == "for":
            return Block(((f"for i{next(self.count)} in range({self.text('i', 1)} % 4):", body(True)),))
        if kind == "values":
            header = self.random.choice(
                ["for z in v:", "for z in w:", "for z in halves({a}):", "for z in np.nonzero(v > {a})[0]:"]
            )
            return Block(
                ((self.filled(header, 1), (self.random.choice(["s = 0.5 * s + 0.3 * z", "say('z', z)"]), *body(True))),)
            )
        if kind == "try":
            caught = self.random.choice(["ValueError", "(ValueError, KeyError)", "Exception", "AssertionError"])
            return Block((("try:", (*body(), self.filled("s = checked({a})", 1))), (f"except {caught}:", body())))
        if kind == "finally":
            return Block((("try:", body()), ("finally:", (self.filled(self.random.choice(LINES), 1),))))
        if kind == "match":
            return Block((("match k % 4:", ()), ("    case 0:", body()), ("    case 1 | 2:", body()), ("    case _:", body())))
        return Block(((f"for i{next(self.count)} in range(3):", body(True)), ("else:", body())))


def _lines(nodes: tuple[Node, ...], indent: str) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, str):
            yield from [indent + line for line in node.split("\n")]
            continue
        for header, body in node.parts:
            yield from [indent + line for line in header.split("\n")]
            deeper = indent + "    " + "    " * header.startswith(" ")
            if body:
                yield from _lines(body, deeper)
            elif not header.startswith("match"):
                yield deeper + "pass"


def source_of(nodes: tuple[Node, ...]) -> str:
    return "\n".join(["def f(say, x, y, n, v):", *_lines((_FIRST, *nodes, _LAST), "    "), ""])


_numbers = itertools.count()


def program_of(d: Drawn) -> Program:
    """As one of the programs that are written by hand."""
    source = source_of(d.nodes)
    name = f"<drawn {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)  # tracebacks show its lines
    space: dict[str, Any] = {"np": np, "__name__": "drawn_programs"}
    exec(compile(_HELPERS, "<helpers of drawn programs>", "exec"), space)
    exec(compile(source, name, "exec"), space)
    return Program(name, space["f"], d.inputs, (), True, False, False, True, {})


_EXPECTED = (ValueError, KeyError, AssertionError)


def _way(program: Program, k: int) -> tuple | None:
    """What differs where another way is taken; None where the numbers are no good."""
    end = plain(program, k)
    if end.error is not None:
        return (type(end.error), len(end.said)) if isinstance(end.error, _EXPECTED) else None
    numbers = [*end.value, *end.arguments]
    if not all([np.all(np.isfinite(z)) and np.max(np.abs(z)) < 100 for z in numbers]):
        return None
    return tuple([int(z) for z in end.value[2:4]]) + tuple([line[0] for line in end.said])


def ways(d: Drawn) -> list[tuple] | None:
    """The ways of the inputs; None where the program is no good."""
    nearby = tuple([(x + 1e-7, y - 1e-7, n, v * (1.0 + 1e-7)) for x, y, n, v in d.inputs])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [
                _way(program_of(d._replace(inputs=inputs)), k) for inputs in (d.inputs, nearby) for k in range(len(inputs))
            ]
    except Exception:  # no program: a name without a value, a `break` outside of a loop
        return None
    half = len(d.inputs)
    return None if None in found or found[:half] != found[half:] else [w for w in found[:half] if w is not None]


def drawn(seed: int) -> Drawn:
    """The first good one of those that follow from the seed, which has inputs of at least two ways."""
    for again in itertools.count():
        writer = _Writer(1000 * seed + again)
        rng = np.random.default_rng((seed, again))
        inputs = [(*rng.uniform(-1, 1, 2).tolist(), int(rng.integers(-1, 5)), rng.uniform(-1, 1, 3)) for _ in range(5)]
        nodes = tuple([writer.node(3, False) for _ in range(writer.random.randint(2, 6))])
        found = Drawn(nodes, tuple(inputs))
        different = set(ways(found) or ())
        if (
            any([isinstance(node, Block) for node in nodes])
            and len(different) > 1
            and any([way[0] not in _EXPECTED for way in different])
        ):
            return found
    raise AssertionError("there is always another one")


# ---------------------------------------------------------------- making small


def _shorter(nodes: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """The same with one part less."""
    for i, node in enumerate(nodes):
        before, after = nodes[:i], nodes[i + 1 :]
        yield before + after
        if isinstance(node, Block):
            for j, (header, body) in enumerate(node.parts):
                yield before + body + after
                if j:
                    yield (*before, Block(node.parts[:j] + node.parts[j + 1 :]), *after)
                for inner in _shorter(body):
                    yield (*before, Block((*node.parts[:j], (header, inner), *node.parts[j + 1 :])), *after)


def smaller(d: Drawn, wrong: Callable[[Drawn], bool]) -> Drawn:
    """A program that is wrong as well, of fewer lines and inputs."""
    for inputs in [d.inputs[:i] + d.inputs[i + 1 :] for i in range(len(d.inputs)) if len(d.inputs) > 1]:
        if ways(d._replace(inputs=inputs)) is not None and wrong(d._replace(inputs=inputs)):
            return smaller(d._replace(inputs=inputs), wrong)
    for nodes in _shorter(d.nodes):
        if ways(d._replace(nodes=nodes)) is not None and wrong(d._replace(nodes=nodes)):
            return smaller(d._replace(nodes=nodes), wrong)
    return d
