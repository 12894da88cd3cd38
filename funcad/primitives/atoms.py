"""Atoms: what one element of an operation is made of, and hence what it costs.

Idea: `emit` says the one formula of an element by calling methods of a writer (`e.mul(t, e.exp(x))`). Here the writer writes
nothing: it records the calls, each once. Whoever has to guess what a program costs adds up atoms, with a price list
of its own engine, and knows a new operation as soon as it is declared. Invariant: the list of atoms is closed; each is a ufunc
of NumPy's, or one of `select`, `convert`, `const` and `integer_pow`, a power whose exponent is known, or one of the ufuncs of
SciPy's for which the native engine has code; those are operations of their own and no part of a composition. Trap: operations
that work element by element, but have no formula (most special functions), count as one elementary function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.memo import remembers

UFUNCS: dict[str, np.ufunc] = {
    "neg": np.negative, "abs": np.absolute, "sign": np.sign, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.true_divide, "floor_divide": np.floor_divide, "mod": np.remainder, "fmod": np.fmod, "reciprocal": np.reciprocal,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "pow": np.power, "hypot": np.hypot, "maximum": np.maximum, "minimum": np.minimum,
    "fmax": np.fmax, "fmin": np.fmin, "copysign": np.copysign, "floor": np.floor, "ceil": np.ceil, "rint": np.rint,
    "trunc": np.trunc, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor, "not_": np.invert,
    "shift_left": np.left_shift, "shift_right": np.right_shift, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "isnan": np.isnan, "isinf": np.isinf,
    "isfinite": np.isfinite, "signbit": np.signbit, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log,
    "log2": np.log2, "log10": np.log10, "log1p": np.log1p, "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos, "arctan": np.arctan,
    "arctan2": np.arctan2, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh,
}  # fmt: skip
RUNNING = {"cumsum": "add", "cumprod": "mul", "cummax": "maximum", "cummin": "minimum", "cumlogsumexp": "logaddexp"}
_NAMES = {ufunc: name for name, ufunc in UFUNCS.items()}
SCIPY = frozenset(["erf", "erfc"])
ATOMS = frozenset([*UFUNCS, *SCIPY, "select", "convert", "const", "integer_pow"])
BITWISE = frozenset(["and_", "or_", "xor", "not_"])  # of bools and of integers
_READ = {"const": 0, "convert": 1, "integer_pow": 1}  # how many operands are values; of all others, all are
TRUTHS = frozenset("eq ne lt le gt ge logical_and logical_or logical_xor logical_not isnan isinf isfinite signbit".split())
ELEMENTARY = frozenset([name for name in UFUNCS if name[:3] in ("exp", "log", "sin", "cos", "tan", "arc")])
ELEMENTARY = ELEMENTARY - {name for name in UFUNCS if name.startswith("logical")} | {"pow", "cbrt", "hypot"} | SCIPY


class AtomCall(NamedTuple):
    """An atom, the numbers of what it reads, and what else it is told: the value, dtype or exponent of those in `_READ`.

    What it reads is the number of an earlier call, or minus the number of operands of the equation that follow it, itself
    included (-1 is the last one).
    """

    name: str
    reads: tuple[int, ...]
    told: tuple


class Formula(NamedTuple):
    """One element of a result: calls of atoms, in order, and the number of the one that is the result."""

    calls: list[AtomCall]
    result: int

    @property
    def computed(self) -> list[str]:
        """The atoms, constants left out."""
        return [call.name for call in self.calls if call.name != "const"]

    def last_reads(self) -> dict[int, int]:
        """Of each call that is read, the number of the last one that reads it."""
        return {a: i for i, call in enumerate(self.calls) for a in call.reads}

    def read_often(self) -> set[int]:
        """The calls that are read more than once."""
        uses = Counter([a for call in self.calls for a in call.reads])
        return {a for a, n in uses.items() if n > 1}


class _Recorder:
    """A writer that writes the calls down: a value is its number among the calls that differ."""

    def __init__(self) -> None:
        self.calls: dict[tuple, int] = {}  # by name, operands and their types: 1 and 1.0 differ

    def call(self, name: str, *args: Any) -> int:
        return self.calls.setdefault((name, args, tuple(map(type, args))), len(self.calls))

    def __getattr__(self, name: str) -> Any:
        if name not in ATOMS:
            raise AttributeError(f"an `emit` asks for {name!r}, which is no atom; see funcad/primitives/atoms.py")
        return lambda *args: self.call(name, *args)

    def integer_pow(self, x: int, n: int) -> int:
        return self.call("mul", x, x) if type(n) is int and n == 2 else self.call("integer_pow", x, n)


def formula(emit: Callable[..., Any], operands: int, params: tuple) -> Formula:
    """What an `emit` with so many operands says."""
    recorder = _Recorder()
    result = emit(recorder, *range(-operands, 0), **dict(params))
    calls = []
    for name, args, _ in recorder.calls:
        read = _READ.get(name, len(args))
        calls.append(AtomCall(name, args[:read], args[read:]))
    return Formula(calls, result)


_formula = remembers(1024)(formula)


def formula_of(equation: Any) -> Formula:
    """The formula of an element of an equation's result; its primitive has an `emit`."""
    return _formula(equation.primitive.emit, len(equation.inputs), tuple(equation.params.items()))


def atoms_of(equation: Any) -> tuple[str, ...]:
    """The atoms of one element of an equation's result; none of what has no formula of an element.

    >>> import numpy as np, funcad
    >>> from funcad.primitives.atoms import atoms_of
    >>> [atoms_of(e) for e in funcad.make_jaxpr(lambda x: np.exp(-x * x))(1.0).jaxpr.equations]
    [('neg',), ('mul',), ('exp',)]
    """
    if equation.primitive.emit is None:
        return ()
    return tuple(formula_of(equation).computed)


def fold_of(primitive: Any) -> str | None:
    """The atom by which a reduction combines elements; None for other operations."""
    reduction = primitive.reduction
    return None if reduction is None or reduction.element is not None else _NAMES.get(reduction.ufunc)


def idempotent(ufunc: np.ufunc) -> bool:
    """May a fold by this ufunc take an element twice?"""
    once = ufunc(2, 2)
    return bool(ufunc(once, 2) == once)


def is_elementary(equation: Any) -> bool:
    """Does an element take an elementary function?"""
    primitive = equation.primitive
    if primitive.emit is None:
        return primitive.reach == "pointwise" and primitive.ufunc is None and primitive.transpose is None
    return any([atom in ELEMENTARY for atom in atoms_of(equation)])
