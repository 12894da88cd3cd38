"""Atoms: what one element of an operation is made of, and hence what it costs.

Idea: `emit` says the one formula of an element by calling methods of a writer (`e.mul(t, e.exp(x))`). Here the writer writes
nothing: it records the calls, each once. Whoever has to guess what a program costs adds up atoms, with a price list
of its own engine, and knows a new operation as soon as it is declared. Invariant: the list of atoms is closed; each is a ufunc
of NumPy's, or one of `select`, `convert` and `const`. Trap: operations that work element by element, but have no formula
(special functions), count as one elementary function.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.primitive import Primitive

__all__ = ["ATOMS", "ELEMENTARY", "UFUNCS", "Formula", "atoms_of", "formula_of", "is_elementary"]

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
ATOMS = frozenset([*UFUNCS, "select", "convert", "const"])
ELEMENTARY = frozenset([name for name in UFUNCS if name[:3] in ("exp", "log", "sin", "cos", "tan", "arc")])
ELEMENTARY = ELEMENTARY - {name for name in UFUNCS if name.startswith("logical")} | {"pow", "cbrt", "hypot"}


class Formula(NamedTuple):
    """One element of a result: calls of atoms, `(name, *operands)`, in order, and the number of the one that is the result.

    An operand is the number of an earlier call, or minus the number of operands of the equation that follow it, itself
    included (-1 is the last one). A `const` has a Python number instead, the second operand of a `convert` is a dtype.
    """

    calls: list[tuple]
    result: int


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

    def integer_pow(self, x: Any, n: int) -> int:
        """Repeated squaring."""
        power, rest = None, abs(n)
        while rest:
            if rest & 1:
                power = x if power is None else self.call("mul", power, x)
            rest >>= 1
            x = self.call("mul", x, x) if rest else x
        power = self.call("const", 1.0) if power is None else power
        return self.call("reciprocal", power) if n < 0 else power


@lru_cache(maxsize=1024)
def _recorded(primitive: Primitive, operands: int, params: tuple) -> Formula:
    recorder = _Recorder()
    result = primitive.emit(recorder, *range(-operands, 0), **dict(params))  # type: ignore[misc]
    return Formula([(name, *args) for name, args, _ in recorder.calls], result)


def formula_of(equation: Any) -> Formula:
    """The formula of an element of an equation's result; its primitive has an `emit`."""
    return _recorded(equation.primitive, len(equation.inputs), tuple(equation.params.items()))


def atoms_of(equation: Any) -> tuple[str, ...]:
    """The atoms of one element of an equation's result; none of what has no formula of an element.

    >>> import numpy as np, funcad
    >>> from funcad.primitives.atoms import atoms_of
    >>> [atoms_of(e) for e in funcad.make_jaxpr(lambda x: np.exp(-x * x))(1.0).jaxpr.equations]
    [('neg',), ('mul',), ('exp',)]
    """
    if equation.primitive.emit is None:
        return ()
    return tuple([name for name, *_ in formula_of(equation).calls if name != "const"])


def is_elementary(equation: Any) -> bool:
    """Does an element take an elementary function?"""
    primitive = equation.primitive
    if primitive.emit is None:
        return primitive.reach == "pointwise" and primitive.ufunc is None and primitive.transpose is None
    return any([atom in ELEMENTARY for atom in atoms_of(equation)])
