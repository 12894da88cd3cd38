"""Random programs that write: `drawn(seed)` draws the text of a function and arguments for it, line by line.

Each line is tried by plain NumPy when it is drawn. One that NumPy refuses is left out, put into `try`, or kept as the last one:
then the program is one that raises. One that makes numbers huge or not finite is left out. Views of views, aliases,
helpers that write, buffers, masks and repeated indices meet as they come. The survey makes what fails small.
"""

from __future__ import annotations

import itertools
import linecache
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Drawn", "drawn", "function_of", "without_lines"]

SHAPES = [((4,), (4,)), ((5,), ()), ((3, 4), (4,)), ((3, 3), (3, 3)), ((2, 3), (2, 3)), ((4, 4), (4, 1)), ((2, 3, 2), (3, 2))]


def _items(text: str) -> list[str]:
    return [item for line in text.strip().splitlines() for item in line.strip().split("  ")]


INDICES = _items("""
    0  -1  1:  :-1  ::2  ::-1  1:3  ...  ..., 0  ..., 1:  ..., ::-1  None  :, 1  0, 1  1, ..., :2  [0, 2]  [1, 0, 1]
    [-1, 0]  ..., [0, 1]  [0, 1], [1, 0]  [[0], [1]], [0, 2]  np.array([2, 0, 0])  1, [0, 2]  :, None  [True, False, True]
    np.array([True, False, True, True])  ..., None, :
""")
VIEWS = _items("""
    {u}.T  {u}.reshape(-1)  {u}.ravel()  {u}[{i}]  {u}[{i}]  {u}[{i}]  np.einsum('ii->i', {u})  {u}[::-1].T  {u}
    np.swapaxes({u}, 0, -1)  np.squeeze({u})  {u}[None]  np.atleast_2d({u})  {u}.reshape(2, -1)  {u}.real  {u}.view()
    np.split({u}, 2)[1]  np.moveaxis({u}, 0, -1)  np.asarray({u})  np.transpose({u})  next(iter({u}))  np.flip({u}, 0)
    np.broadcast_to({u}, (2,) + {u}.shape)  np.diagonal({u})  {u}.reshape(3, -1, order='F')  np.hsplit({u}, 2)[0]
    np.expand_dims({u}, -1)  np.rot90({u})  np.ravel({u}, order='F')  np.ascontiguousarray({u})
""")
MADE = _items("""
    {u}.copy()  +{u}  np.array({u})  {u}.flatten()  np.concatenate([{u}, {u}])  {u}.astype(float)  np.zeros({u}.shape)
    np.zeros_like({u})  np.ones(4)  np.full((3,), 0.5)  np.zeros(())  np.array(0.0)  np.zeros((2, 3), order='F')
    np.arange(4.0)  np.eye(3)  np.cumsum({u}, axis=0)  np.tile({u}, 2)  np.repeat({u}, 2)  np.outer({u}, {w})
    np.ones_like({u}.T)  np.full_like({u}, 0.25)  np.stack([{u}, {u}])  np.diag({u})  np.tril({u})
    np.pad({u}, 1)  np.linspace(0.0, 1.0, 3)  {u}.copy(order='F')  np.take({u}, [1, 0], axis=0)
""")
VALUES = _items("""
    0.5  2.0  {w}  {w}  np.sin({w})  {u} * {w}  {u} + 0.3 * {w}  {w}[{i}]  {u}[{j}]  np.sum({w})  {w}.mean(axis=0)
    np.tanh({u}) - {w}  np.where({u} > 0.2, {u}, {w})  np.maximum({u}, {w})  {w}.T  -{u}  {u} @ {w}  {w}.max()  3
    [0.5, 1.5, 2.5]  np.cos({u}[{i}])  {u} / (2.0 + {w} ** 2)  {u}[::-1]  abs({w})  np.dot({u}, {u})
""")
WRITES = _items("""
    {u}[{i}] = {e}  {u}[{i}] = {e}  {u}[{i}] = {e}  {u}[{i}] {o} {e}  {u}[{i}] {o} {e}  {u}[{i}] {o} {e}  {u} {o} {e}
    {u} {o} {e}  {u}[...] = {e}  {u}[{w} > 0.1] = {c}  {u}[{u} < 0.4] {o} {c}  {u}.fill({c})  {u}.sort()
    np.add.at({u}, [0, 1, 0], {e})  np.multiply.at({u}, [0, 0], {e})  np.subtract.at({u}, (0,), {e})  np.copyto({u}, {e})
    np.copyto({u}, {e}, where={u} > 0.3)  np.put({u}, [1, 0, 1], {e})  np.fill_diagonal({u}, {c})  {u}.flat[2] = {c}
    np.add({u}, {w}, out={u})  np.multiply({w}, {c}, {u})  np.sin({w}, out={u})  np.sqrt({u}, out={u}, where={u} > 0.2)
    np.sum({w}, axis=0, out={u})  np.cumsum({u}, axis=0, out={u})  np.dot({u}, {w}, out={u})  np.matmul({w}, {u}, out={u})
    np.clip({u}, -0.5, 0.5, out={u})  np.putmask({u}, {u} > 0.3, {w})  {u}[{i}], {w}[{j}] = {w}[{j}], {u}[{i}]
    {u}, {w} = {w}, {u}  {u}[[0, 1]] = {u}[[1, 0]]  add_into({u}, {w})  shift({u})  add_into({u}[{i}], {w}[{j}])
    {u}.put([0], {c})  {u}.partition(1)  np.exp({u} - 2.0, {u})  {u}.flat[:] = {c}  {u}.imag[...] = 0.5  {u}.shape = (-1,)
    np.maximum({u}, {w}, out={u})  np.take({w}, [0, 1], axis=0, out={u})  {u}.resize(3)
    np.place({u}, {u} > 0.5, [{c}, 0.1])  np.put_along_axis({u}, np.argsort({u}, axis=0)[:1], {c}, axis=0)
    np.einsum('i,i->i', {u}, {u}, out={u})
""")
BLOCKS = """
for r in {u}:
    r {o} {c}

for k in range(len({u}) - 1):
    {u}[k + 1] {o} {u}[k]

for a, b in zip({u}, {w}):
    a {o} b

for k in range(2):
    {u}[k] = {w}[k] * {u}[k]
    {u}, {w} = {w}, {u}

for k in range(3):
    {u} = {u} * 0.5
    {u}[0] = {e}

z = {u} + 1j * {w}
z.real {o} {u}
z.imag[...] = {e}
{n} = abs(z + 3.0)

m = {u} > {c}
m[0] = True
{u}[m] = {c}

k = np.arange(3)
k[1] = 2
{u}[k] {o} {e}

t = {u}[{i}]
t {o} {e}
{n} = t * {c}

with np.errstate(all='ignore'):
    {u} {o} {c}

{n} = Holder({u})
{n}.double()
{n} = {n}.kept

{n} = [{u}, {w}]
{n}[0] {o} {c}
{n} = {n}[1]

i = np.zeros(3, int)
i += 2
{u} *= i[0]

{n} = np.zeros(({u}.shape[0],))
for k in range({u}.shape[0]):
    {n}[k] = np.sum({u}[k])
""".strip().split("\n\n")
OPERATORS, CONSTANTS = _items("+=  -=  *=  /=  **=  %=  //="), _items("0.5  -0.7  2.0  {w}.sum()  {w}.ravel()[0]  1")
_HELPERS = """
def add_into(a, b):
    a += b

def shift(a):
    a[1:] = a[:-1] * 0.5

class Holder:
    def __init__(self, x):
        self.kept = x

    def double(self):
        self.kept *= 2.0
"""
_numbers = itertools.count()


class Drawn(NamedTuple):
    """A program's text, sample arguments, and the class of the error that it ends with."""

    source: str
    x: np.ndarray
    y: np.ndarray
    error: type | None

    def __repr__(self) -> str:
        return f"\n{self.source}\n# x = {self.x.tolist()}\n# y = {self.y.tolist()}\n# NumPy raises {self.error}"


def function_of(source: str) -> Callable[..., Any]:
    """The function f of a text, with lines that tracebacks can show."""
    name = f"<drawn {next(_numbers)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "__name__": "drawn_programs"}
    exec(compile(source + _HELPERS, name, "exec"), space)
    return space["f"]


def _text(lines: list[str], names: list[str]) -> str:
    body = "".join([f"    {part}\n" for line in lines for part in line.split("\n")])
    return f"def f(x, y):\n{body}    return {', '.join(names)},\n"


def _numpys(source: str, x: np.ndarray, y: np.ndarray) -> tuple[type | None, bool]:
    """The class of NumPy's error; whether all numbers stay moderate, without a warning."""
    x, y = x.copy(), y.copy()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = function_of(source)(x, y)
    except Warning:
        return None, False
    except Exception as error:  # the classes are what is asked for
        return type(error), True
    numbers = [z for z in (*found, x, y) if np.size(z)]
    return None, all([np.isfinite(z).all() and np.max(np.abs(z)) < 50 for z in numbers])


def without_lines(drawn: Drawn) -> Iterator[Drawn]:
    """The same program without one of its statements, or one of its results, where NumPy ends in the same way."""
    head, *body, last = drawn.source.rstrip("\n").split("\n")
    starts = [i for i, line in enumerate(body) if not line.startswith("     ") and not line.startswith("    except")]
    for begin, end in reversed(list(zip(starts, [*starts[1:], len(body)]))):
        rest = [*body[:begin], *body[end:]]
        gone = body[begin].strip().split(" = ")[0]
        results = [n for n in last.strip().removeprefix("return ").rstrip(",").split(", ") if n != gone]
        source = "\n".join([head, *rest, f"    return {', '.join(results)},", ""])
        if rest and _numpys(source, drawn.x, drawn.y) == (drawn.error, True):
            yield Drawn(source, drawn.x, drawn.y, drawn.error)


def drawn(seed: int, least: int = 5, most: int = 16) -> Drawn:
    """The program of a seed."""
    draw = random.Random(seed)
    rng = np.random.default_rng(seed)
    x, y = [np.array(rng.uniform(-1.0, 1.0, shape)) for shape in draw.choice(SHAPES)]
    lines: list[str] = []
    names = ["x", "y"]
    fresh = 0
    for _ in range(draw.randint(least, most)):
        kind = draw.choice(["view", "view", "made", "write", "write", "write", "block"])
        u = draw.choice(names)
        words = {"u": u, "n": f"v{fresh}", "o": draw.choice(OPERATORS)}
        words["w"] = draw.choice(names)
        words["i"], words["j"] = draw.choice(INDICES), draw.choice(INDICES)
        words["c"] = draw.choice(CONSTANTS).format(**words)
        words["e"] = draw.choice(VALUES).format(**words)
        line = draw.choice({"view": VIEWS, "made": MADE, "write": WRITES, "block": BLOCKS}[kind]).format(**words)
        if kind in ("view", "made"):
            line = f"{words['n']} = {line}"
        new = [*names, words["n"]] if line.startswith(f"{words['n']} = ") or f"\n{words['n']} = " in line else names
        error, moderate = _numpys(_text([*lines, line], new), x, y)
        if error is not None:
            ending = draw.choice(["leave out"] * 6 + ["try", "raise"])
            if ending == "raise":
                return Drawn(_text([*lines, line], new), x, y, error)
            if ending == "leave out" or new is not names:
                continue
            inner = line.replace("\n", "\n    ")
            line = f"try:\n    {inner}\nexcept (TypeError, ValueError, IndexError):\n    {u}[...] = 0.25"
            error, moderate = _numpys(_text([*lines, line], new), x, y)
        if moderate and error is None:
            lines.append(line)
            fresh += new is not names
            names = new
    return Drawn(_text(lines, names) if lines else _text(["x += 1.0"], names), x, y, None)
