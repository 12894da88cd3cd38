"""From an equation to base atoms: what the writers of all engines share.

Idea: an equation is its formula, atom by atom. A writer has `base`, the atoms that it writes as they are, or better than the
statement for all (`primitives/composite_atoms.py`), from which it derives the others. Invariant: what is written computes what
NumPy's ufunc computes, bit for bit for arithmetic and within 2 ulp for elementary functions; an operation that cannot is
`Unsupported`. A lane is an engine's value of one dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.backends.plans.element_plan import Unsupported, operand_dtypes
from funcad.primitives.atoms import ATOMS, UFUNCS, Formula, formula_of
from funcad.primitives.composite_atoms import COMPOSITES, WORDS, integer_power

BOOL, FLOAT32, FLOAT64 = np.dtype(bool), np.dtype(np.float32), np.dtype(np.float64)
_EXTREMES = {"maximum": (-np.inf, "min"), "minimum": (np.inf, "max"), "fmax": (np.nan, "min"), "fmin": (np.nan, "max")}

# -- texts of atoms in C: those of C99 and of CUDA C++ differ in how integers wrap
C_FUNCTIONS = {  # by the atom; those of float32 have an f behind the name
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "arctan2": "atan2", "abs": "fabs",
    **{n: n for n in "sqrt cbrt pow hypot fmod copysign floor ceil rint trunc exp exp2 expm1 log log2 log10 log1p".split()},
    **{n: n for n in "sin cos tan sinh cosh tanh erf erfc fma nextafter".split()},
}  # fmt: skip
C_COMPARED = {n: f"{{0}} {sign} {{1}}" for n, sign in zip("eq ne lt le gt ge".split(), "== != < <= > >=".split())}


def c_code(word: str, wrapped: Callable[[str, str], str], signbit: str) -> dict[str, dict[str, str]]:
    """By the kind of the dtype: `word` is {0} as the widest unsigned integer, `wrapped(name, sign)` a sum that wraps."""
    of_integers = {
        **{name: wrapped(name, sign) for name, sign in zip(("add", "sub", "mul"), "+-*")},
        "quotient": "{0} / {1}", "rest": "{0} % {1}", "and_": "{0} & {1}", "or_": "{0} | {1}", "xor": "{0} ^ {1}",
        "not_": "~{0}", "shifted_left": f"{word} << {{1}}", "shifted_right": "{0} >> {1}",
        "below": f"{word} < {word.replace('{0}', '{1}')}", **C_COMPARED,
    }  # fmt: skip
    return {
        "f": {
            "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}", "neg": "-{0}", "signbit": signbit,
            **C_COMPARED,
        },
        "i": of_integers,
        "u": of_integers,
        "b": {"and_": "{0} && {1}", "or_": "{0} || {1}", "xor": "{0} != {1}", "not_": "!{0}", **C_COMPARED},
        "c": {},
    }  # fmt: skip


def part_of(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of a complex dtype; any other dtype itself."""
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def identity_of(kind: str, dtype: np.dtype) -> Any:
    """What changes nothing in a total by this atom: NumPy's identity, or the least or greatest value of the dtype."""
    identity = UFUNCS[kind].identity
    if identity is not None:  # a sum of -0.0 alone is 0.0, as NumPy's
        return ~dtype.type(0) if identity == -1 else identity
    if kind not in _EXTREMES or dtype.kind == "c":
        raise Unsupported(f"no total of {dtype} by {kind}")
    of_floats, end = _EXTREMES[kind]
    if dtype.kind == "b":
        return end == "max"
    return of_floats if dtype.kind == "f" else getattr(np.iinfo(dtype), end)


class ElementWriter:
    """A writer's atoms are its methods: `e.maximum(x, y)` is `e.atom("maximum", x, y)`.

    An engine has `base(name, dtype, operands)`, its own code of an atom of operands of this dtype, None if it is to be
    composed; `choice(condition, x, y)`, `convert(x, dtype)`, `literal(value, dtype)`; and `power(x, n)` of floats, and of
    complex numbers where products would be too many.
    """

    base: Callable[..., Any]
    choice: Callable[..., Any]
    convert: Callable[..., Any]
    literal: Callable[..., Any]
    power: Callable[..., Any]

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def apply(self, equation: Any, operands: Sequence[Any]) -> Any:
        """The code of one elementwise equation; a lane in another dtype than the equation's is converted if it is weak."""
        primitive = equation.primitive
        if primitive.emit is None:
            raise Unsupported(f"{primitive.name} has no code for one element")
        result = equation.outputs[0].aval.dtype
        if result.kind == "b" and primitive.name == "square":
            raise Unsupported("square of bool: NumPy computes it in int8")
        lanes = []
        for lane, dtype, atom in zip(operands, operand_dtypes(equation), equation.inputs, strict=True):
            if lane.dtype != dtype:
                if not atom.aval.weak:
                    raise Unsupported(f"{primitive.name}: an operand is {lane.dtype}, the equation computes in {dtype}")
                lane = self.convert(lane, dtype)
            if lane.dtype.kind == "i" and result.kind in "fc" and atom.aval.weak and not atom.aval.shape:
                if primitive.name == "convert":
                    lane = self.convert(lane, FLOAT64)  # as Python does with its integers, before it is rounded once more
            lanes.append(lane)
        lane = self._element(formula_of(equation), lanes, result)
        if lane.dtype != result:
            raise Unsupported(f"{primitive.name} of {lanes[0].dtype} gives {lane.dtype}, the program has {result}")
        return lane

    def _element(self, formula: Formula, operands: Sequence[Any], result: np.dtype) -> Any:
        """The atoms of a formula, in order; a constant has the dtype of what it meets, or of the result."""
        lanes = dict(enumerate(operands, -len(operands)))
        constants = {i: call.told[0] for i, call in enumerate(formula.calls) if call.name == "const"}

        def lane(a: int, dtype: np.dtype) -> Any:
            return self.const(constants[a], dtype) if a in constants else lanes[a]

        for i, (name, reads, told) in enumerate(formula.calls):
            if i not in constants:
                alike = [lanes[a].dtype for a in reads[name == "select" :] if a not in constants]
                lanes[i] = self.combine(name, *[lane(a, alike[0] if alike else result) for a in reads], *told)
        return lane(formula.result, result)

    def const(self, value: Any, dtype: np.dtype) -> Any:
        """A constant of a formula."""
        if dtype.kind in "biu" and not float(value).is_integer():
            raise Unsupported(f"{value} is no {dtype}")
        return self.literal(value, dtype)

    def combine(self, name: str, *operands: Any) -> Any:
        """An atom of the user's own arithmetic, such as a step of a reduction."""
        return self.atom(name, *operands)

    def atom(self, name: str, *operands: Any) -> Any:
        """The code of one atom: the engine's own, or composed."""
        if name == "convert":
            return self.convert(operands[0], np.dtype(operands[1]))
        if name == "integer_pow":
            return self._integer_pow(*operands)
        alike = operands[1:] if name == "select" else operands
        dtype = alike[0].dtype
        for x in alike:
            if x.dtype is not dtype and x.dtype != dtype:
                raise Unsupported(f"{name} of {dtype} and {x.dtype}")
        if name == "select":
            return self.choice(self.convert(operands[0], BOOL), *alike)
        if name == "div" and dtype.kind in "biu":
            return self.atom(name, *[self.convert(x, FLOAT64) for x in operands])
        found = self.base(name, dtype, operands)
        if found is None:
            composite = COMPOSITES.get((name, dtype.kind))
            if composite is None:
                raise Unsupported(f"{name} of {dtype}")
            found = composite(self, *operands)
        return found

    def _integer_pow(self, a: Any, n: int) -> Any:
        """a**n for a known integer, as `x ** n` with a Python int computes it."""
        kind = a.dtype.kind
        if kind == "b":
            raise Unsupported("a power of bool: NumPy computes it in int8")
        if kind in "iu" and n < 0:
            raise Unsupported("NumPy raises for integers to negative powers")
        if n in (0, 1):
            return a if n else self.like(a, 1)
        if n == 2:
            return self.mul(a, a)
        return integer_power(self, a, n) if kind in "iu" or kind == "c" and abs(n) < 100 else self.power(a, n)

    # -- words of composites besides the atoms
    def kind(self, x: Any) -> str:
        return x.dtype.kind  # type: ignore[no-any-return]

    def like(self, x: Any, value: Any) -> Any:
        """A constant beside x."""
        return self.literal(value, x.dtype)

    def sized(self, x: Any, double: float, single: float) -> Any:
        """A constant beside x that depends on its precision."""
        return self.like(x, double if x.dtype == FLOAT64 else single)

    def width(self, x: Any) -> Any:
        """The number of bits of an integer."""
        return self.like(x, 8 * x.dtype.itemsize)


def _method(name: str) -> Callable[..., Any]:
    return lambda self, *operands: self.atom(name, *operands)


for _name in {*ATOMS, *WORDS} - vars(ElementWriter).keys():
    setattr(ElementWriter, _name, _method(_name))
