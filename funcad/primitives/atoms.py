"""Atoms: what one element of an operation is made of, and hence what it costs.

Idea: `emit` says the one formula of an element by calling methods of a writer (`e.mul(t, e.exp(x))`). Here the writer writes
nothing and counts: each different call is an atom. Whoever has to guess what a program costs adds up atoms, with a price list
of its own engine, and knows a new operation as soon as it is declared. Invariant: the list of atoms is closed; each is a ufunc
of NumPy's, or one of `select`, `convert` and `const`. Trap: operations that work element by element, but have no formula
(special functions), count as one elementary function.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from funcad.ir.primitive import Primitive

__all__ = ["ATOMS", "ELEMENTARY", "atoms_of", "is_elementary"]

ELEMENTARY = frozenset(  # the functions that are not arithmetic
    "exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan arctan2 sinh cosh tanh arcsinh arccosh arctanh "
    "logaddexp logaddexp2 pow cbrt hypot".split()
)
ATOMS = ELEMENTARY | frozenset(
    "neg abs sign add sub mul div floor_divide mod fmod reciprocal sqrt maximum minimum fmax fmin copysign floor ceil rint "
    "trunc eq ne lt le gt ge and_ or_ xor not_ shift_left shift_right logical_and logical_or logical_xor logical_not isnan "
    "isinf isfinite signbit select convert const".split()
)


class _Counter:
    """A writer that writes nothing: a value is its number among the calls that differ."""

    def __init__(self) -> None:
        self.calls: dict[tuple, int] = {}

    def call(self, name: str, *args: Any) -> int:
        return self.calls.setdefault((name, *args), len(self.calls))

    def __getattr__(self, name: str) -> Any:
        if name not in ATOMS:
            raise AttributeError(f"an `emit` asks for {name!r}, which is no atom; see funcad/primitives/atoms.py")
        return lambda *args: self.call(name, *args)

    def integer_pow(self, x: Any, n: int) -> int:
        """Repeated squaring."""
        for step in range(abs(n).bit_length() + 1):
            x = self.call("mul", x, step)
        return self.call("reciprocal", x) if n < 0 else x


@lru_cache(maxsize=1024)
def _counted(primitive: Primitive, operands: int, params: tuple) -> tuple[str, ...]:
    counter = _Counter()
    primitive.emit(counter, *range(-operands, 0), **dict(params))  # type: ignore[misc]
    return tuple([name for name, *_ in counter.calls if name != "const"])


def atoms_of(equation: Any) -> tuple[str, ...]:
    """The atoms of one element of an equation's result; none of what has no formula of an element.

    >>> import numpy as np, funcad
    >>> from funcad.primitives.atoms import atoms_of
    >>> [atoms_of(e) for e in funcad.make_jaxpr(lambda x: np.exp(-x * x))(1.0).jaxpr.equations]
    [('neg',), ('mul',), ('exp',)]
    """
    primitive = equation.primitive
    return () if primitive.emit is None else _counted(primitive, len(equation.inputs), tuple(equation.params.items()))


def is_elementary(equation: Any) -> bool:
    """Does an element take an elementary function?"""
    primitive = equation.primitive
    if primitive.emit is None:
        return primitive.reach == "pointwise" and primitive.ufunc is None and primitive.transpose is None
    return any([atom in ELEMENTARY for atom in atoms_of(equation)])
