"""Random programs with a history: a jitted function and the same one in plain Python go through the same changes of state.

`history(seed, kind)` writes a module with a function `f`, and what happens to it: calls with arguments that change,
statements that change what f reads, redefinitions, other engines, calls from threads. `differences(history)` makes the module
twice, jits f in one of them, lets both go through it, and gives the first difference: a result, an error, what is printed, or
the state that is left behind. Everything follows from the seed; `str(history)` is the program and what happens to it. The
kinds of surroundings are those of tests/history_kinds.py.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
import random
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import funcad
from tests.history_kinds import KINDS, PLAIN

__all__ = ["ENGINES", "CALLS", "Difference", "History", "Run", "differences", "history", "same"]

HEAD = """
import collections, contextvars, dataclasses, functools, itertools, math, operator, os, random, threading, types, weakref
import numpy as np

class Box:
    k = 1.5
    def __init__(self, w):
        self.w = w
    @property
    def double(self):
        return 2.0 * self.w
    def scaled(self, y):
        return y * self.w
"""
ENGINES = ["native", "numpy", "interpreter"]
CALLS = 24  # of a history


# -- a history


class History(NamedTuple):
    seed: int
    kinds: list[str]
    source: str
    static: bool  # is an argument n static?
    steps: list[tuple[str, str]]  # "call" or "threads" and the arguments, "do" and a statement, "engine" and its name

    def __str__(self) -> str:
        steps = "\n".join([f"{what}: {text}" for what, text in self.steps])
        return f"# history({self.seed}, {self.kinds[0]!r}) of {self.kinds}\n{self.source}\n{steps}"


def _drawn(rng: np.random.Generator, text: str) -> str:
    text = re.sub(r"\bNUM\b", lambda _: repr(float(np.round(rng.uniform(0.3, 2.5), 2))), text)
    text = re.sub(r"\bINT\b", lambda _: str(rng.integers(1, 4)), text)
    return re.sub(r"\bBOOL\b", lambda _: str(bool(rng.integers(2))), text)


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r"(?<![\w.])[A-Za-z_]\w*", lambda m: names.get(m[0], m[0]), text)


def history(seed: int, kind: str, calls: int = CALLS) -> History:
    """The history of a seed, with this kind and some of PLAIN."""
    rng = np.random.default_rng([seed, *kind.encode()])
    others = [k for k in rng.permutation(PLAIN)[: rng.integers(0, 4)].tolist() if k != kind]
    kinds = [kind, *others]
    declared, lines, changes, arguments = [], [], [], []
    for number, name in enumerate(kinds):  # what two kinds declare has two names
        k = KINDS[name]
        found = re.findall(r"^(?:def |class )?(\w+)(?:, (\w+))?(?: = |\()", k.declared, re.M)
        names = {n: f"{n}{number}" for pair in found for n in pair if n}
        declared.append(_renamed(_drawn(rng, k.declared), names))
        lines.append(_renamed(_drawn(rng, str(rng.choice(k.lines))), names))
        changes.append([_renamed(change, names) for change in k.changes])
        arguments += [_renamed(a, names) for a in k.static + k.arguments]
    body = "\n".join([lines[i] for i in rng.permutation(len(lines))]).replace("\n", "\n    ")
    head = "def f(x, n):" if arguments else "def f(x):"
    source = "\n".join([HEAD, *declared, f"{head}\n    y = x * 1.0\n    {body}\n    return y\n"])

    def given() -> str:
        x = [float(v) for v in np.round(rng.normal(size=3), 2)]
        return f"np.array({x})" + (f", {rng.choice(arguments)}" if arguments else "")

    steps = [("engine", str(rng.choice(ENGINES)))]
    done = 0
    while done < calls:
        if rng.random() < 0.35:
            which = 0 if rng.random() < 0.7 else int(rng.integers(len(kinds)))
            steps.append(("do", _drawn(rng, str(rng.choice(changes[which])))))
        elif rng.random() < 0.03:
            steps.append(("engine", str(rng.choice(ENGINES))))
        n = 4 if KINDS[kind].threads and rng.random() < 0.4 else 1
        steps.append(("threads" if n > 1 else "call", " | ".join([given() for _ in range(n)])))
        done += n
    return History(seed, kinds, source, bool(KINDS[kind].static), steps)


# -- going through it


class Run:
    """A module made of the source, in which f is `wrap` of it."""

    def __init__(self, case: History, folder: Path, wrap: Callable[..., Any]):
        path = folder / f"history_{next(_numbers)}.py"
        path.write_text(case.source)
        self.module = types.ModuleType(path.stem)
        self.folder = folder
        sys.modules[path.stem] = self.module  # as data classes ask for it
        exec(compile(case.source, str(path), "exec"), self.module.__dict__)
        options = {"static_argnums": 1} if case.static else {}
        self.module.__dict__["f"] = wrap(self.module.__dict__["f"], **options)

    def close(self) -> None:
        del sys.modules[self.module.__name__]

    def step(self, what: str, text: str) -> Any:
        """What comes of a step, to be compared: values or errors, the arguments after it, what was printed."""
        names = self.module.__dict__
        if what == "do":
            path = self.folder / f"history_{next(_numbers)}.py"
            path.write_text(text)
            exec(compile(text, str(path), "exec"), names)
            return None
        texts = text.split(" | ")
        arguments = [eval(f"({t},)", names) for t in texts]
        results: list[Any] = [None] * len(texts)

        def call(i: int) -> None:
            try:
                results[i] = names["f"](*arguments[i])
            except Exception as error:
                results[i] = error

        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if what == "threads":
                threads = [threading.Thread(target=call, args=(i,)) for i in range(len(texts))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            else:
                call(0)
        return results, [a[0] for a in arguments], printed.getvalue()

    def state(self) -> dict[str, Any]:
        """What the module holds beside functions, classes and modules."""
        held = {name: v for name, v in vars(self.module).items() if not name.startswith("__") and not callable(v)}
        return {name: _plain(v) for name, v in held.items() if not isinstance(v, types.ModuleType)}


_numbers = itertools.count()


def _plain(v: Any) -> Any:
    """A copy whose parts can be compared."""
    if isinstance(v, np.ndarray):
        return v.copy()
    if isinstance(v, (list, tuple)):
        return [*map(_plain, v)]
    if isinstance(v, dict):
        return {k: _plain(x) for k, x in v.items()}
    if type(v).__name__ in ("Box", "SimpleNamespace"):
        return {k: _plain(x) for k, x in vars(v).items() if not callable(x)}
    return v if isinstance(v, (int, float, str, set)) else type(v).__name__


def same(a: Any, b: Any) -> bool:
    """Equal up to rounding, and of the same kind."""
    if isinstance(a, Exception) or isinstance(b, Exception):
        return isinstance(a, Exception) and isinstance(b, type(a))
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        x, y = np.asarray(a), np.asarray(b)
        return x.shape == y.shape and x.dtype == y.dtype and np.allclose(x, y, rtol=1e-10, atol=1e-12, equal_nan=True)
    if isinstance(a, (list, tuple)):
        return isinstance(b, (list, tuple)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and [*a] == [*b] and all(map(same, a.values(), b.values()))
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-10, abs_tol=1e-12) or (a != a and b != b)
    return type(a) is type(b) and bool(a == b)


class Difference(NamedTuple):
    at: int
    what: str
    plain: Any
    jitted: Any

    def __str__(self) -> str:
        return f"step {self.at}, {self.what}: plain Python has\n{self.plain!r}\nand jit\n{self.jitted!r}"


def differences(case: History, folder: Path) -> Difference | None:
    """The first step after which the jitted module is not as the plain one; None if there is none."""
    engine, environment = funcad.config.engine, dict(os.environ)
    plain, jitted = Run(case, folder, lambda f, **_: f), Run(case, folder, funcad.jit)
    state = random.getstate()  # what is drawn by the one is drawn by the other
    try:
        for at, (what, text) in enumerate(case.steps):
            if what == "engine":
                funcad.config.engine = text
                continue
            random.setstate(state)
            expected = plain.step(what, text)
            after = random.getstate()
            random.setstate(state)
            found = jitted.step(what, text)
            state = after
            if not same(expected, found):
                return Difference(at, f"{what} {text}", expected, found)
            if not same(plain.state(), jitted.state()):
                return Difference(at, f"the state after {what} {text}", plain.state(), jitted.state())
    finally:
        funcad.config.engine = engine
        os.environ.clear()
        os.environ.update(environment)
        plain.close()
        jitted.close()
    return None
