"""Helpers that write the rules which whole families of primitives share, and what they are made of.

`elementwise` (one output element from one element of each operand), `structural` (linear in its only operand: reshape,
reductions by sum, ...). They only build `Primitive`s; there is no registry. Below stand the few operations that these rules
and their transposes are made of: copies along an axis, sums over one, another shape, the sum of two. Trap: elementwise operands
match exactly in shape and dtype; only literals may be rank 0 beside shaped ones. Broadcasting and promotion are equations of
their own.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Unpack

import numpy as np

from funcad.host.real_types import is_a, keep, of_reduction, of_reshape, strided
from funcad.host.where import GENERATED
from funcad.ir.aval import Aval, LiteralAval, shape_of
from funcad.ir.primitive import Primitive, Reduction, Said, is_linear
from funcad.ir.tracer import Tracer
from funcad.memo import Table, remembers
from funcad.primitives.atoms import BITWISE, SCIPY, TRUTHS, UFUNCS, Formula, formula

# -- Python's operators as implementations
#
# NumPy and CuPy arrays overload them, on NumPy scalars they are several times quicker than ufuncs, and between Python's own
# scalars they give Python scalars (weak stays weak). Where Python's scalars behave unlike NumPy's (division by zero, overflow,
# a complex root of a negative number) the operation is redone by NumPy.


def operator_impl(python: Callable[..., Any], ufunc: np.ufunc, device: Any = None) -> Callable[..., Any]:
    """`impl(xp, *args)` by Python's operator, or by the ufunc where Python's own scalars would raise.

    `device(xp, theirs, *args)` computes it where CuPy's operator differs from NumPy's.
    """
    name = ufunc.__name__

    def impl(xp: Any, *args: Any) -> Any:
        if device is not None and xp is not np and not all([type(a) in (bool, int, float, complex) for a in args]):
            return device(xp, getattr(xp, name), *args)
        try:
            return python(*args)
        except (ZeroDivisionError, OverflowError, ValueError, TypeError):
            return ufunc(*args) if xp is np else getattr(xp, name)(*args)

    impl.on_arrays = python  # type: ignore[attr-defined]
    impl.namesake = device is None  # type: ignore[attr-defined]
    return impl


def with_ufunc(primitive: Any, ufunc: np.ufunc) -> Any:
    """The same primitive, with the ufunc that computes it (for dispatch and for results written in place)."""
    primitive.ufunc = primitive.inplace = ufunc
    primitive.label = ufunc.__name__
    return primitive


# -- squares of values whose slope turns: norms, absolute values, standard deviations
#
# `norm(x)` has no second derivative at 0, `norm(x)**2` has all: it is a sum of squares. Multiplied by itself, such a value
# would give 2 * 0 * NaN there. So a square asks the operation that made its operand: a primitive declares by `square(*operands,
# **params)` what the square of its result is, in operations whose derivatives are right everywhere; operations that only move
# numbers (reshape, indexing) hand the question on to their operand. The value is still the product; `exact_pow`
# (primitives/arithmetic.py) takes its derivatives from the answer.
#
# Invariant: the answer is recorded where the square is, so every transform finds it in the program and none needs to know of
# it. Trap: the operands are kept alive as long as the value that was made of them, hence `keeps_operands`.


def exact_square(x: Any) -> Any:
    """The square of a traced x in operations that have all derivatives, if what made x knows it; None otherwise."""
    if type(x) is not Tracer or not x.owner.turned:
        return None
    made = x.owner.made_by(x)
    if made is None:
        return None
    primitive, operands, params, i = made
    if primitive.multiple:
        return primitive.square(i, *operands, **params)
    return primitive.square(*operands, **params)


def moved_square(primitive: Any) -> Callable[..., Any]:
    """The fact `square` of a primitive that moves the elements of its first operand: the square moves with them."""

    def square(x: Any, *others: Any, **params: Any) -> Any:
        found = exact_square(x)
        return None if found is None else primitive(found, *others, **params)

    return square


def keeps_operands(primitive: Any, operands: Sequence[Any], params: dict[str, Any], i: int = 0) -> bool:
    """Must an un-jitted trace remember what the result (number i) is made of?"""
    if primitive.square is None:
        return False
    if primitive.multiple:
        return primitive.turns(i, params["jaxpr"])
    return primitive.turns or any([type(a) is Tracer and a.owner.made_by(a, True) is not None for a in operands])


# -- the formula of an element on whole arrays: the implementation of every operation that is composed of atoms
#
# Idea: `emit` says the formula once. Here it is written as a few lines of Python over NumPy or CuPy. Operators stand for what
# they can, since on NumPy's scalars they are several times quicker than ufuncs; large arrays of floats are computed atom by
# atom, and each result is written over one that nobody reads any more. Invariant: no operand is written. Trap: Python's own
# numbers raise where NumPy's do not, so NumPy divides what may be two of them.


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


class _Computing:
    """A writer that writes nothing: its atoms compute, by Python's operators where there are some."""

    def __init__(self, xp: Any):
        self.xp, self.pow, self.select = xp, partial(power, xp), partial(choose, xp)
        self.const = lambda value: value
        self.integer_pow = lambda x, n: integer_power(xp, x, n=n)

    def __getattr__(self, name: str) -> Any:
        if name not in UFUNCS:
            what = f"{name}, no atom that others are composed of" if name in SCIPY else f"{name!r}, which is no atom"
            raise AttributeError(f"an `emit` asks for {what}")
        found = getattr(operator, name) if name in TEXTS else getattr(self.xp, UFUNCS[name].__name__)
        setattr(self, name, found)
        return found


_computing = remembers(8, None)(_Computing)
_FIRST = 100  # calls before an implementation is compiled, which takes what these save


class Composed:
    """`impl(xp, *operands, **params)` of the operation whose element `emit` says.

    The first calls compute atom by atom; `function` is compiled when calls are many, or arrays large.
    """

    def __init__(self, emit: Callable[..., Any]):
        self.formula = emit
        self.calls = 0

    @cached_property
    def function(self) -> Callable[..., Any]:
        self.calls = _FIRST
        return implementation(self.formula)

    def __call__(self, xp: Any, *operands: Any, **params: Any) -> Any:
        x = operands[0]
        if self.calls >= _FIRST or type(x) is np.ndarray and x.size > MANY:
            return self.function(xp, *operands, **params)
        self.calls += 1
        return self.formula(_computing(xp), *operands, **params)


def implementation(emit: Callable[..., Any]) -> Callable[..., Any]:
    """The function of an operation whose element `emit` says."""
    code = emit.__code__
    names = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    try:
        return _compiled(emit, tuple([(name, _Parameter(name)) for name in names]), names)
    except TypeError:  # it branches on a parameter, or computes with it
        compiled = Table(
            "primitives.families.implementation",
            "parameters: the function of arrays",
            64,
        )

        def impl(xp: Any, *operands: Any, **params: Any) -> Any:
            key = tuple([(name, value, repr(value)) for name, value in params.items()])
            run = compiled.get(key)
            if run is None:
                run = compiled.put(key, _compiled(emit, tuple(params.items()), ()))
            return run(xp, *operands)

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
    impl.text = text  # a program that is exported as source takes the text
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


# -- rules of families


SAME = None
BOOL = np.dtype(bool)
_asarray, _ndarray = np.asarray, np.ndarray  # in the module each may be a door, which costs a call of Python (doors/)
_REAL_OF = {8: np.dtype(np.float32), 16: np.dtype(np.float64), 32: np.dtype(np.longdouble)}  # of complex numbers


def REAL(dtype: np.dtype) -> np.dtype:
    """The dtype of the absolute value."""
    return _REAL_OF.get(dtype.itemsize, dtype) if dtype.kind == "c" else dtype


def native_order(x: Any) -> Any:
    """The array in the machine's byte order, for implementations that look at its bytes or hand it to SciPy.

    Avals do not tell byte orders apart, so any operand may be in the other one; most of NumPy does not mind.
    """
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))


def avals_text(avals: Sequence[Any]) -> str:
    return " and ".join([f"{a:a}" for a in avals])


@remembers(64)
def _of_number(dtype: np.dtype, weak: bool) -> Aval:
    """The aval of a number, which long programs share."""
    return Aval((), dtype, weak)


def _elementwise_abstract(name: str, result: Any, weak: bool) -> Callable[..., Aval]:
    def abstract_eval(*avals: Aval, **params: Any) -> Aval:
        first = avals[0]
        if result is None and type(first) is Aval and not first.weak:  # the common case, without building anything
            for a in avals:
                if a is first or a.dtype is first.dtype and a.shape == first.shape and not a.weak:
                    continue
                if type(a) is LiteralAval and (a.weak or a.dtype == first.dtype):
                    continue
                break
            else:
                return first
        shaped = [a for a in avals if not isinstance(a, LiteralAval)]
        shape = shaped[0].shape if shaped else ()
        strong = [a.dtype for a in avals if not a.weak]
        dtype = strong[0] if strong else np.result_type(*[a.dtype for a in avals])
        for a in shaped:
            if a.shape != shape:
                raise TypeError(
                    f"{name}: operands must have equal shapes, got {avals_text(avals)}; broadcast them explicitly"
                )
        for d in strong:
            if d != dtype:
                raise TypeError(f"{name}: operands must have equal dtypes, got {avals_text(avals)}; convert them explicitly")
        dtype = dtype if result is None else result(dtype) if callable(result) else result
        if not shaped:  # of a rule that is looked at: what it computes of numbers alone stands beside arrays as they do
            return LiteralAval((), dtype, weak and not strong)
        return Aval(shape, dtype, weak and not strong) if shape else _of_number(dtype, weak and not strong)

    return abstract_eval


def sum_tangents(terms: Sequence[Any], add: Callable[[Any, Any], Any]) -> Any:
    total = None
    for t in terms:
        if t is not None:
            total = t if total is None else add(total, t)
    return total


def _elementwise_jvp(rules: Sequence[Any]) -> Callable[..., Any]:
    if len(rules) == 1:
        (rule,) = rules
        return lambda tangents, out, *primals, **params: rule and rule(tangents[0], out, *primals, **params)
    if len(rules) == 2:
        return _binary_jvp(*rules)

    def jvp(tangents: Sequence[Any], out: Any, *primals: Any, **params: Any) -> Any:
        total = None
        for t, rule in zip(tangents, rules):
            if t is not None and rule is not None:
                term = rule(t, out, *primals, **params)
                total = term if total is None else add(total, term)
        return total

    return jvp


def _binary_jvp(first: Any, second: Any) -> Callable[..., Any]:
    """The loop of `_elementwise_jvp` unrolled: un-jitted gradients spend their time here."""

    def jvp(tangents: Sequence[Any], out: Any, x: Any, y: Any, **params: Any) -> Any:
        tx, ty = tangents
        if ty is None or second is None:
            return first(tx, out, x, y, **params) if tx is not None and first is not None else None
        term = second(ty, out, x, y, **params)
        if tx is None or first is None:
            return term
        return add(first(tx, out, x, y, **params), term)

    return jvp


def align_batched(size: int, args: Sequence[Any], batched: Sequence[bool]) -> list[Any]:
    """Operands of one elementwise operation, all with the batch axis; scalars stay (they become literals)."""
    result = []
    for a, b in zip(args, batched):
        if not b and (isinstance(a, Tracer) or hasattr(a, "ndim") and not is_a(a, np.generic)):
            shape = shape_of(a)
            a = broadcast_in_dim(a, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))
        result.append(a)
    return result


def _ufunc_impl(ufunc: np.ufunc, device: Callable[..., Any] | None) -> Callable[..., Any]:
    name = ufunc.__name__

    def impl(xp: Any, *args: Any) -> Any:
        if xp is np:
            return ufunc(*args)
        return getattr(xp, name)(*args) if device is None else device(xp, getattr(xp, name), *args)

    impl.on_numpy = ufunc  # type: ignore[attr-defined]
    impl.namesake = device is None  # type: ignore[attr-defined]
    return impl


def elementwise(
    name: str,
    impl: Any = None,
    jvp: Sequence[Any] | Callable[..., Any] | None = None,
    /,
    *,
    dtype: Any = SAME,
    weak: bool = False,
    abstract_eval: Callable[..., Any] | None = None,
    device: Callable[..., Any] | None = None,
    **said: Unpack[Said],
) -> Primitive:
    """A primitive that works element by element.

    `impl` is a NumPy ufunc, or `impl(xp, *arrays)`, or None if `emit` composes it of atoms; `jvp` has one rule
    `(t, out, *primals) -> tangent` per operand, or None where the derivative is zero, or is one rule for all operands together,
    as `Primitive` takes it; `dtype` is the result's (SAME, BOOL, REAL or a function of the operands' dtype); `weak` says that
    Python scalars give Python scalars. `device` is for a ufunc whose namesake in CuPy differs, see placement.py.
    """
    if impl is None:
        impl = Composed(said.get("emit"))  # type: ignore[arg-type]
    ufunc = impl if isinstance(impl, np.ufunc) else None

    def batch(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        return primitive(*align_batched(size, args, batched), **params), True

    said.setdefault("layout", keep)
    primitive = Primitive(
        name,
        _ufunc_impl(ufunc, device) if ufunc is not None else impl,
        abstract_eval or _elementwise_abstract(name, dtype, weak),
        jvp=jvp if jvp is None or callable(jvp) else _elementwise_jvp(jvp),
        batch=batch,
        ufunc=ufunc,
        inplace=ufunc,
        reach="pointwise",
        passive=isinstance(jvp, Sequence) and not any(jvp),
        **said,
    )
    return primitive


def structural(
    name: str,
    impl: Callable[..., Any] | None,
    abstract_eval: Callable[..., Any],
    transpose: Callable[..., Any],
    batch: Callable[..., Any],
    lowering: Callable[..., Any] | None = None,
    /,
    **said: Unpack[Said],
) -> Primitive:
    """A primitive that is linear in its one array operand: its jvp is itself.

    `transpose(ct, aval, **params)` gives the operand's cotangent; `batch(size, x, **params)` the batched result; `reach`, if
    elements only move or add up, says so (masks/masks.py). `impl` is None where `lowering` says it in other operations.
    """
    if impl is None:
        impl = lambda xp, x, **params: lowering(x, **params)  # type: ignore[misc]

    def jvp(tangents: Sequence[Any], out: Any, x: Any, **params: Any) -> Any:
        return primitive(tangents[0], **params)

    def transpose_rule(ct: Any, x: Any, **params: Any) -> list[Any]:
        return [transpose(ct, x.aval, **params)]

    def batch_rule(size: int, args: Sequence[Any], batched: Sequence[bool], **params: Any) -> tuple[Any, bool]:
        return batch(size, args[0], **params), True

    primitive = Primitive(
        name, impl, abstract_eval, jvp=jvp, transpose=transpose_rule, batch=batch_rule, lowering=lowering, structural=True,
        **said,
    )
    if primitive.silent:  # it only moves numbers
        primitive.square = moved_square(primitive)
    return primitive


# -- the operations that rules are made of


def _broadcast_impl(xp: Any, x: Any, *, shape: tuple, axes: tuple) -> Any:
    if xp is not np:
        x = xp.asarray(x)
        inner = [1] * len(shape)
        for axis, n in zip(axes, x.shape):
            inner[axis] = n
        return xp.broadcast_to(x.reshape(inner), shape)
    if not shape:
        return x
    x = _asarray(x)
    strides = [0] * len(shape)
    for axis, n, s in zip(axes, x.shape, x.strides):
        if n != 1 or shape[axis] == 1:
            strides[axis] = s
    # of contiguous x this is eight times quicker than `np.broadcast_to`
    view = _ndarray(shape, x.dtype, x, 0, strides) if x.flags.c_contiguous and x.size else strided(x, shape, strides)
    view.flags.writeable = False
    return view


def _broadcast_abstract(x: Aval, *, shape: tuple, axes: tuple) -> Aval:
    if len(axes) != len(x.shape) or any(n not in (1, shape[a]) for n, a in zip(x.shape, axes)):
        raise ValueError(f"broadcast_in_dim: {x} does not broadcast to {shape} along axes {axes}")
    return Aval(shape, x.dtype)


def _broadcast_transpose(ct: Any, x: Aval, *, shape: tuple, axes: tuple) -> Any:
    added = tuple(i for i in range(len(shape)) if i not in axes)
    grown = tuple(a for n, a in zip(x.shape, axes) if n == 1 and shape[a] != 1)
    ct = reduce_sum(ct, axes=tuple(sorted(added + grown)))
    return reshape(ct, shape=x.shape) if grown else ct


def _broadcast_batch(size: int, x: Any, *, shape: tuple, axes: tuple) -> Any:
    return broadcast_in_dim(x, shape=(size, *shape), axes=(0, *[a + 1 for a in axes]))


broadcast_in_dim = structural(
    "broadcast_in_dim", _broadcast_impl, _broadcast_abstract, _broadcast_transpose, _broadcast_batch,
    silent=True,
    layout=lambda x, **params: _broadcast_impl(np, np.empty(()) if x is None else x, **params),
    reach="sums",
    free=True,
)


def _reshape_impl(xp: Any, x: Any, *, shape: tuple) -> Any:
    if type(x) is np.ndarray:
        return x.reshape(shape) if shape else x.reshape(shape)[()]
    return xp.reshape(x, shape) if shape or xp is not np else np.reshape(x, shape)[()]


def _reshape_ready(x: Aval, *, shape: tuple) -> Any:
    return (lambda x: x.reshape(shape)) if shape and x.shape else partial(_reshape_impl, np, shape=shape)


reshape = structural(
    "reshape",
    _reshape_impl,
    lambda x, *, shape: _reshape_abstract(x, shape),
    lambda ct, x, *, shape: reshape(ct, shape=x.shape),
    lambda size, x, *, shape: reshape(x, shape=(size, *shape)),
    silent=True,
    ready=_reshape_ready,
    layout=of_reshape,
    reach="moves",
    free=True,
)


def _reshape_abstract(x: Aval, shape: tuple) -> Aval:
    result = Aval(shape, x.dtype)
    if result.size != x.size:
        raise ValueError(f"cannot reshape array of size {x.size} into shape {shape}")
    return result


def reduced_aval(x: Aval, axes: tuple, dtype: Any = None) -> Aval:
    shape = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    return Aval(shape, x.dtype if dtype is None else dtype)


def kept_axes(ndim: int, axes: tuple) -> tuple:
    return tuple([i for i in range(ndim) if i not in axes])


def _sum_impl(xp: Any, x: Any, *, axes: tuple) -> Any:
    dtype = x.dtype
    if xp is np:
        return np.add.reduce(x, axis=axes, dtype=dtype.type) if axes else x  # the type: no byte order
    return xp.sum(x, axis=axes, dtype=dtype) if axes else x


def _sum_transpose(ct: Any, x: Aval, *, axes: tuple) -> Any:
    return broadcast_in_dim(ct, shape=x.shape, axes=kept_axes(len(x.shape), axes))


reduce_sum_p = structural(
    "reduce_sum",
    _sum_impl,
    lambda x, *, axes: reduced_aval(x, axes),
    _sum_transpose,
    lambda size, x, *, axes: reduce_sum(x, axes=tuple([a + 1 for a in axes])),
    ready=lambda x, *, axes: partial(np.add.reduce, axis=axes, dtype=x.dtype),
    layout=of_reduction,
    reach="sums",
    reduction=Reduction(np.add, 0),
    label="reduce",
)


def reduce_sum(x: Any, *, axes: tuple) -> Any:
    """Sum over axes in the operand's own dtype (the public `sum` converts small integers first)."""
    return reduce_sum_p(x, axes=axes) if axes else x


add = elementwise(
    "add",
    operator_impl(operator.add, np.add),
    lambda tangents, out, x, y: add_tangents(*tangents),
    transpose=lambda ct, x, y: [ct if is_linear(x) else None, ct if is_linear(y) else None],
    emit=lambda e, x, y: e.add(x, y),
    commutes="bits",  # except for which NaN comes out of two
    weak=True,
    calm=True,
)
with_ufunc(add, np.add)


def add_tangents(tx: Any, ty: Any) -> Any:
    return ty if tx is None else tx if ty is None else add(tx, ty)
