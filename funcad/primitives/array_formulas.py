"""The formula of an element on whole arrays: the implementation of every operation that is composed of atoms.

Idea: `emit` says the formula once. Here it is written as a few lines of Python over NumPy or CuPy. Operators stand for what
they can, since on NumPy's scalars they are several times quicker than ufuncs; large arrays of floats are computed atom by atom,
and each result is written over one that nobody reads any more. Invariant: no operand is written. Trap: Python's own numbers
raise where NumPy's do not, so NumPy divides what may be two of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from funcad.host.real_types import is_a
from funcad.host.where import GENERATED
from funcad.primitives.atoms import BITWISE, SCIPY, TRUTHS, UFUNCS, Formula, formula
from funcad.primitives.python_operators import operator_impl

__all__ = ["choose", "implementation", "integer_power", "power"]

MANY = 8192  # elements from which on memory costs more than a look at the operands
TEXTS = {  # Python's text of atoms; all others are calls of the ufunc
    "neg": "-{0}",
    "abs": "abs({0})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and_": "{0} & {1}",
    "or_": "{0} | {1}",
    "xor": "{0} ^ {1}",
    "pow": "power(xp, {0}, {1})",
    "integer_pow": "integer_power(xp, {0}, n={1})",
    "select": "choose(xp, {0}, {1}, {2})",
}
_python_pow = operator_impl(operator.pow, np.power)


def power(xp: Any, x: Any, y: Any) -> Any:
    """The atom `pow`."""
    out = _python_pow(xp, x, y)
    if type(out) is complex and type(x) is not complex and type(y) is not complex:
        return np.power(x, y)  # Python leaves the real line where NumPy says NaN
    return out


def integer_power(xp: Any, x: Any, *, n: int) -> Any:
    """The atom `integer_pow`."""
    return x * x if n == 2 else power(xp, x, n)


def choose(xp: Any, condition: Any, on_true: Any, on_false: Any) -> Any:
    """The atom `select`."""
    if xp is np and type(condition) is np.ndarray and condition.ndim:
        return np.where(condition, on_true, on_false)
    if type(condition) is np.bool_:  # between scalars Python chooses, ten times quicker than np.where
        chosen, other = (on_true, on_false) if condition else (on_false, on_true)
        if is_a(other, (np.generic, float)) and is_a(chosen, np.generic):
            return chosen
        if is_a(other, np.generic) and is_a(chosen, float):
            return type(other)(chosen)
    out = xp.where(condition, on_true, on_false)
    return out[()] if xp is np and not out.ndim else out


class _Parameter:
    """A parameter that the text names: the value of a constant, or one over it. An `emit` that asks for more gets its value."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __rtruediv__(self, number: float) -> _Parameter:
        return _Parameter(f"({number!r} / {self.text})")

    def __bool__(self) -> bool:
        raise TypeError(f"{self.text} is not known yet")

    def __eq__(self, other: object) -> bool:
        raise TypeError(f"{self.text} is not known yet")

    __hash__ = object.__hash__


def implementation(emit: Callable[..., Any]) -> Callable[..., Any]:
    """`impl(xp, *operands, **params)` of the operation whose element `emit` says."""
    code = emit.__code__
    names = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    try:
        return _compiled(emit, tuple([(name, _Parameter(name)) for name in names]), names)
    except TypeError:  # it branches on a parameter, or computes with it

        @lru_cache(maxsize=64)
        def compiled(params: tuple) -> Callable[..., Any]:
            return _compiled(emit, tuple([(name, value) for name, value, _ in params]), ())

        def impl(xp: Any, *operands: Any, **params: Any) -> Any:
            return compiled(tuple([(name, value, repr(value)) for name, value in params.items()]))(xp, *operands)

        impl.formula = emit  # type: ignore[attr-defined]
        return impl


def _compiled(emit: Callable[..., Any], params: tuple, keywords: tuple[str, ...]) -> Callable[..., Any]:
    count = emit.__code__.co_argcount - 1
    names = [f"x{i}" for i in range(count)]
    lines = _written(formula(emit, count, params), names)
    scope: dict[str, Any] = {"choose": choose, "power": power, "integer_power": integer_power, "ndarray": np.ndarray}
    head = f"def impl({', '.join(['xp', *names, *(['*', *keywords] if keywords else [])])}):"
    text = "\n    ".join([head, *lines])
    exec(compile(text, GENERATED, "exec"), scope)
    impl: Any = scope["impl"]
    impl.formula, impl.text = emit, text  # a program that is exported as source takes the text
    return impl  # type: ignore[no-any-return]


def _written(formula: Formula, names: list[str]) -> list[str]:
    lines: list[str] = []
    computed = formula.computed
    if not SCIPY.isdisjoint(computed):
        raise AttributeError(f"an `emit` asks for {', '.join(SCIPY & set(computed))}, no atom that others are composed of")
    if len(computed) > 1 and all([name in UFUNCS or name == "select" for name in computed]):
        first, *others = names
        alike = "".join([f" and type({x}) is ndarray and {x}.shape == {first}.shape" for x in others])
        kinds = "f" if "abs" in computed else "fc"  # the size of a complex number is a real one
        lines.append(f"if type({first}) is ndarray and {first}.size > {MANY} and {first}.dtype.kind in {kinds!r}{alike}:")
        lines += [f"    {line}" for line in _over_one_another(formula, names)]
    return lines + _plainly(formula, names)


def _over_one_another(formula: Formula, names: list[str]) -> list[str]:
    """A line for each atom, whose result takes the memory of one that was computed before and is not read again."""
    calls, last = formula.calls, formula.last_reads()
    texts: dict[int, str] = dict(enumerate(names, -len(names)))
    lines = []
    for i, (name, reads, told) in enumerate(calls):
        if name == "const":
            texts[i] = _number(*told)
            continue
        operands = ", ".join([texts[a] for a in reads])
        over = [a for a in reads if a >= 0 and last[a] == i and _keeps_dtype(name, calls[a].name)]
        texts[i] = texts[over[0]] if over else f"v{i}"
        if name == "select":
            text = f"xp.where({operands})"
            if i != formula.result and reads[2] in texts and calls[reads[2]].name != "const":
                text = f"{text} if {texts[reads[0]]}.any() else {texts[reads[2]]}"
        else:
            text = f"xp.{UFUNCS[name].__name__}({operands}{f', out={texts[i]}' if over else ''})"
        lines.append(f"{texts[i]} = {text}")
    return [*lines, f"return {texts[formula.result]}"]


def _keeps_dtype(name: str, operand: str) -> bool:
    """Has the atom's result the dtype of the operand that this other atom has given?"""
    if name == "select" or operand in ("const", "select"):  # what was selected may be an operand itself
        return False
    if name in BITWISE:
        return True
    return name not in TRUTHS and operand not in TRUTHS and operand not in BITWISE


def _plainly(formula: Formula, names: list[str]) -> list[str]:
    """One expression; only what is read more than once has a line of its own."""
    texts: dict[int, str] = dict(enumerate(names, -len(names)))
    often = formula.read_often()
    numpys: set[int] = set()  # what is NumPy's own, whatever the operands are
    lines = []
    for i, (name, reads, told) in enumerate(formula.calls):
        if name == "const":
            texts[i] = _number(*told)
            continue
        known = bool(numpys.intersection(reads))
        text = "{0} / {1}" if name == "div" and known else TEXTS.get(name)
        if text is None:
            text = f"xp.{UFUNCS[name].__name__}({', '.join([f'{{{k}}}' for k in range(len(reads))])})"
        if known or text.startswith("xp."):
            numpys.add(i)
        text = text.format(*[texts[a] for a in reads], *told)
        if i in often:
            lines.append(f"v{i} = {text}")
            text = f"v{i}"
        texts[i] = text if i == formula.result or text.isidentifier() else f"({text})"
    return [*lines, f"return {texts[formula.result]}"]


def _number(value: Any) -> str:
    return f"({value!r})" if type(value) is _Parameter or np.isfinite(value) else f"float({str(value)!r})"
