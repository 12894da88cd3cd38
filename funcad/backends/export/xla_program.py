"""A program as calls of jax.numpy and lax, so that XLA compiles it: `run(jaxpr, values)` inside any function that JAX traces.

Idea: an operation with a formula in atoms is that formula, one with a `lowering` is those operations; what remains has an
entry in `RULES`, in terms of jax.numpy and lax (xla_rules, xla_matrices, xla_special), or runs by its own implementation, which
is written for any library with NumPy's names: `OWN` lists those that look at no values. Invariants: no callback, nothing on the
host; results have the avals' shapes, and dtypes as far as JAX has them (without `jax_enable_x64` it has no 64 bits). What has
none of these is refused with its name and the line. XLA raises nothing: what is an error in Python is NaN here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.plans.element_plan import Unsupported, operand_dtypes
from funcad.configuration import OnDemand
from funcad.host.real_types import is_a
from funcad.ir.aval import StackAval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal
from funcad.ir.trace import trace_function
from funcad.primitives.atoms import UFUNCS, formula_of
from funcad.show.pretty import shown_as

jax, jnp, lax = OnDemand("jax"), OnDemand("jax.numpy"), OnDemand("jax.lax")
special = OnDemand("jax.scipy.special")
linalg = OnDemand("jax.scipy.linalg")

Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}  # rule(equation, values, **params) -> the result, or the list of results


def rule(*names: str) -> Callable[[Rule], Rule]:
    def enter(f: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, f))
        return f

    return enter


def elements(name: str, f: Callable[..., Any]) -> None:
    """A rule of the operands in the result's dtype, without parameters."""
    RULES[name] = lambda equation, values: f(*alike(equation, values))


def alike(equation: Equation, values: Sequence[Any]) -> list[Any]:
    """The operands in one dtype, scalars as arrays."""
    return [as_dtype(x, d) for x, d in zip(values, operand_dtypes(equation))]


def is_jax_array(x: Any) -> bool:
    array = jax.Array  # traced values are such, too
    return isinstance(x, array)


def as_dtype(x: Any, dtype: Any) -> Any:
    """x in this dtype, or in the one that JAX has in its place; the real part of a complex number."""
    dtype = jax.dtypes.canonicalize_dtype(dtype)
    if getattr(x, "dtype", None) == dtype and is_jax_array(x):
        return x
    if type(x) in (bool, int, float, complex) or is_a(x, np.generic):
        return jnp.asarray(np.asarray(x).real if dtype.kind not in "cb" else x, dtype)
    x = jnp.asarray(x)
    return (x.real if x.dtype.kind == "c" and dtype.kind not in "cb" else x).astype(dtype)


# -- the walk


def run(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    """The outputs of a program, of JAX's arrays."""
    values = dict(zip(jaxpr.inputs, args))
    read = lambda a: as_dtype(a.value, a.aval.dtype) if type(a) is Literal else values[a]
    for equation, dead in zip(jaxpr.equations, jaxpr.last_uses):
        found = computed(equation, [read(a) for a in equation.inputs])
        for v, x in zip(equation.outputs, found):
            values[v] = x
        for v in dead:
            del values[v]
    return [as_dtype(read(o), o.aval.dtype) for o in jaxpr.outputs]


def computed(equation: Equation, values: list[Any]) -> list[Any]:
    """The results of an equation; NotImplementedError, which names it and its line, where XLA has no code for it."""
    primitive, _, params, outputs, source = equation
    try:
        if any([type(v.aval) is StackAval for v in outputs]):
            raise Unsupported("what a while loop keeps for its derivative, whose size depends on values")
        found = lowered(equation, values)
        several = list(found) if primitive.multiple else [found]
        return [_fitted(x, v.aval) for x, v in zip(several, outputs, strict=True)]
    except Unsupported as error:
        where = f" at {source.short()}" if source is not None else ""
        raise NotImplementedError(
            f"to_jax: {shown_as(equation)}{where}: {error}.\n"
            "Remedy: compute that part outside, and give its result as an argument; or take jax.pure_callback of that part, "
            "which runs it on the host."
        ) from None


def _fitted(x: Any, aval: Any) -> Any:
    x = as_dtype(x, aval.dtype)
    return x if x.shape == aval.shape else jnp.broadcast_to(x, aval.shape)


def lowered(equation: Equation, values: list[Any]) -> Any:
    primitive, params = equation.primitive, equation.params
    found = RULES.get(primitive.name)
    if found is not None:
        return found(equation, values, **params)
    if primitive.emit is not None:
        return by_formula(equation, values)
    if primitive.lowering is not None:
        return by_lowering(equation, values)
    if primitive.effect or primitive.fresh:
        raise Unsupported("it calls Python back, or draws without a key")
    raise Unsupported("there is no code for XLA")


def by_lowering(equation: Equation, values: list[Any]) -> Any:
    primitive, params = equation.primitive, equation.params

    shaped = [i for i, a in enumerate(equation.inputs) if type(a) is not Literal]
    given = [a.value if type(a) is Literal else None for a in equation.inputs]

    def of_variables(*operands: Any) -> Any:
        out = primitive.lowering(*[operands[shaped.index(i)] if i in shaped else x for i, x in enumerate(given)], **params)
        return [] if out is None else list(out) if primitive.multiple else [out]

    program, consts = trace_function(of_variables, [equation.inputs[i].aval for i in shaped], name="lowering")
    if not program.outputs:  # of such operands it has none
        return own(equation, values, **params)
    found = run(program, [*[as_dtype(c, c.dtype) for c in consts], *[values[i] for i in shaped]])
    return found if primitive.multiple else found[0]


# -- formulas of elements


def _whole(f: Callable[..., Any]) -> Callable[..., Any]:
    """Division of integers as NumPy's: by zero it gives zero."""

    def divide(x: Any, y: Any) -> Any:
        if x.dtype.kind not in "iu":
            return f(x, y)
        return jnp.where(y == 0, 0, f(x, jnp.where(y == 0, 1, y)))

    return divide


def _of_reals(f: Callable[..., Any], name: str) -> Callable[..., Any]:
    """For complex numbers NumPy's order, which compares the real parts first."""

    def extreme(x: Any, y: Any) -> Any:
        if x.dtype.kind != "c":
            return f(x, y)
        first = (x.real > y.real) | (x.real == y.real) & (x.imag >= y.imag)
        found = jnp.where(first == (name in ("maximum", "fmax")), x, y)
        if name in ("fmax", "fmin"):
            return jnp.where(jnp.isnan(x), y, jnp.where(jnp.isnan(y), x, found))
        return jnp.where(jnp.isnan(x), x, jnp.where(jnp.isnan(y), y, found))

    return extreme


_ATOMS: dict[str, Callable[..., Any]] = {
    "floor_divide": lambda x, y: _whole(jnp.floor_divide)(x, y),
    "mod": lambda x, y: _whole(jnp.remainder)(x, y),
    "fmod": lambda x, y: _whole(jnp.fmod)(x, y),
    "maximum": lambda x, y: _of_reals(jnp.maximum, "maximum")(x, y),
    "minimum": lambda x, y: _of_reals(jnp.minimum, "minimum")(x, y),
    "fmax": lambda x, y: _of_reals(jnp.fmax, "fmax")(x, y),
    "fmin": lambda x, y: _of_reals(jnp.fmin, "fmin")(x, y),
    "erf": lambda x: lax.erf(x),
    "erfc": lambda x: lax.erfc(x),
    "select": lambda c, x, y: jnp.where(c, x, y),
    "integer_pow": lambda x, n: lax.integer_pow(x, int(n)),
}


def atom(name: str) -> Callable[..., Any]:
    found = _ATOMS.get(name)
    return found if found is not None else getattr(jnp, UFUNCS[name].__name__)


def by_formula(equation: Equation, values: list[Any]) -> Any:
    formula, out = formula_of(equation), equation.outputs[0].aval.dtype
    texts: dict[int, Any] = dict(enumerate(alike(equation, values), -len(values)))
    consts = {i: call.told[0] for i, call in enumerate(formula.calls) if call.name == "const"}
    for i, (name, reads, told) in enumerate(formula.calls):
        if name == "const":
            continue
        first = 1 if name == "select" else 0
        dtype = next((texts[a].dtype for a in reads[first:] if a not in consts), out)
        operands = [as_dtype(consts[a], dtype) if a in consts else texts[a] for a in reads]
        texts[i] = as_dtype(operands[0], told[0]) if name == "convert" else atom(name)(*operands, *told)
    return consts[formula.result] if formula.result in consts else texts[formula.result]


# -- implementations of our own, with JAX's functions under NumPy's names
#
# They may write into arrays that they have made: such an array is a `Cell`, whose value is replaced. What they call takes and
# gives cells, and knows the words that NumPy's functions take and JAX's do not.


class Cell:
    """An array of JAX's that can be written while a program is traced."""

    __array_priority__ = 1000
    __array_ufunc__ = None
    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.value, name)
        return _giving_cells(found) if callable(found) else cells(found)

    def __setattr__(self, name: str, x: Any) -> None:
        if name == "value":
            object.__setattr__(self, name, x)
        else:  # a part of a complex number
            re, im = (self.value.real, plain(x)) if name == "imag" else (plain(x), self.value.imag)
            self.value = lax.complex(*jnp.broadcast_arrays(re, as_dtype(im, re.dtype)))

    def __getitem__(self, index: Any) -> Any:
        return Cell(self.value if self.masks(index) else self.value[plain(index)])

    def __setitem__(self, index: Any, x: Any) -> None:
        x = as_dtype(plain(x), self.value.dtype)
        if self.masks(index):
            self.value = jnp.where(index.value, x, self.value)
        else:
            self.value = self.value.at[plain(index)].set(x)

    def masks(self, index: Any) -> bool:
        """Is it a mask of its elements? What is done with some of them is done with all, and the others are thrown away."""
        return type(index) is Cell and index.dtype == bool and index.ndim > 0

    def any(self, *args: Any, **words: Any) -> Any:
        """Of all axes: work for some elements is done, whether there are any or not."""
        return cells(self.value.any(*args, **words)) if args or words else True

    def all(self, *args: Any, **words: Any) -> Any:
        """Of all axes: no short way is taken where it holds for all elements."""
        return cells(self.value.all(*args, **words)) if args or words else False

    def __bool__(self) -> bool:
        raise Unsupported("its implementation looks at values")

    __float__ = __int__ = __index__ = __bool__

    def __len__(self) -> int:
        return len(self.value)


def _operator(name: str) -> Callable[..., Any]:
    return lambda self, *others: cells(getattr(self.value, name)(*map(plain, others)))


for _name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split():
    for _side in ("", "r"):
        setattr(Cell, f"__{_side}{_name}__", _operator(f"__{_side}{_name}__"))
for _name in "lt le gt ge eq ne neg invert abs".split():
    setattr(Cell, f"__{_name}__", _operator(f"__{_name}__"))


def plain(x: Any) -> Any:
    """Without cells."""
    if type(x) is Cell:
        return x.value
    return type(x)([plain(y) for y in x]) if type(x) in (tuple, list) else x


def cells(x: Any) -> Any:
    """Arrays as cells, also those of a tuple."""
    if isinstance(x, (tuple, list)):
        found = [cells(y) for y in x]
        return tuple(found) if type(x) is tuple else found
    return Cell(x) if is_jax_array(x) else x


_IGNORED = frozenset("kind overwrite_a overwrite_b check_finite casting overwrite_x workers subok copy order".split())


def _giving_cells(f: Callable[..., Any]) -> Callable[..., Any]:
    takes = getattr(getattr(np, getattr(f, "__name__", ""), None), "nin", None)

    def call(*args: Any, out: Any = None, where: Any = None, **words: Any) -> Any:
        if takes is not None and len(args) > takes:
            *args, out = args  # type: ignore[assignment]
        for word in _IGNORED & words.keys():
            if word != "copy" or f is not jnp.array:
                del words[word]
        if type(words.get("dtype")) in (np.dtype, type):
            words["dtype"] = jax.dtypes.canonicalize_dtype(words["dtype"])
        found = f(*map(plain, args), **{k: plain(x) for k, x in words.items()})
        if where is not None:
            found = jnp.where(plain(where), found, 0 if out is None else out.value)
        if out is not None:
            out.value = as_dtype(found, out.value.dtype)
            return out
        return cells(found)

    return call


class Library:
    """jax.numpy, or another module of JAX's, for implementations that are written for any library with NumPy's names."""

    def __init__(self, module: Any):
        self._module = module

    def companion(self, name: str) -> Any:
        """What scipy.special or scipy.linalg is beside NumPy."""
        return COMPANIONS[name]

    def __getattr__(self, name: str) -> Any:
        if name == "ndarray":
            return Cell
        if name in ("linalg", "fft") and self is NUMPY:
            return Library(getattr(self._module, name))
        name = {"ascontiguousarray": "asarray", "asfortranarray": "asarray"}.get(name, name)
        found = getattr(self._module, name, None)
        if found is None:
            raise Unsupported(f"JAX has no {name}")
        if not callable(found) or isinstance(found, type) and not hasattr(np.ufunc, name):
            return found
        return _giving_cells(found)


NUMPY = Library(jnp)
COMPANIONS = {"linalg": Library(linalg), "special": Library(special)}


def own(equation: Equation, values: list[Any], **params: Any) -> Any:
    """By the primitive's own implementation."""
    operands = [a.value if type(a) is Literal else Cell(x) for a, x in zip(equation.inputs, values)]
    implementation = getattr(equation.primitive.impl, "__wrapped__", equation.primitive.impl)
    found = implementation(NUMPY, *operands, **params)
    return [plain(x) for x in found] if equation.primitive.multiple else plain(found)
