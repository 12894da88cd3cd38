"""How the primitives are written as calls of NumPy's, and of CuPy's where all arrays are a device's.

A rule takes the writer, the equation and its operands (`Value`s) and returns a `TextCall`, which may be given `out=`, or an
`Expression`, or None where there is no text for this case: then the implementation itself is called. Invariant: a text
computes what the implementation computes, bit for bit (reductions and contractions within their usual bound). Primitives with
a ufunc need no rule, compositions were taken apart (emission.py). Trap: a rank-0 result is a NumPy scalar, or a Python one
if it is weak; texts that would give a 0-d array end in `[()]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np

from funcad.backends.buffers import LARGE, empty
from funcad.backends.memory import Value
from funcad.backends.text import TEXTS, Writer, dtype_text, index_text, shape_text
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Literal, Var
from funcad.memo import remembers
from funcad.primitives.atoms import formula_of
from funcad.primitives.basic_indexing import basic_index_p, gather_p, python_index
from funcad.primitives.comparison import select
from funcad.primitives.contraction import dot_general_p, dot_plan
from funcad.primitives.reduction import fold_on_device
from funcad.primitives.shape import _slice_index, broadcast_in_dim, reshape

_FLOAT64 = np.dtype(np.float64)
_ARITHMETIC = frozenset(["const", "neg", "add", "sub", "mul", "div"])
KEYWORD_ONLY = ("maximum", "minimum", "reduce")  # of these `out` is not the next parameter, or by name only


class TextCall:
    """`function(*args, extra)`; `elementwise`: its result may be written over an operand.

    Without `out`, `alone` stands in the place of the function, or `operator` between the operands. `method` is one of the first
    argument that computes the same, called more quickly.
    """

    __slots__ = ("function", "args", "extra", "operator", "elementwise", "out", "alone", "method")

    def __init__(
        self,
        function: str,
        args: Sequence[str],
        extra: str = "",
        operator: str = "",
        elementwise: bool = False,
        out: bool = True,
        alone: str = "",
        method: str = "",
    ):
        self.function = function
        self.alone = alone or function
        self.args = list(args)
        self.extra = extra
        self.operator = operator
        self.elementwise = elementwise
        self.out = out
        self.method = method

    def text(self, target: str | None = None, positional: bool = False, quickly: bool = False) -> str:
        """The call, its result in `target`; `positional`: `out` without its name; `quickly`: as in the body of a loop."""
        if quickly and self.method:  # a third of the time that the function and the operator take to start
            return f"{self.args[0]}.{self.method}({', '.join([*self.args[1:], *([target] if target else [])])})"
        if target is None and self.operator:
            if len(self.args) == 1:
                return f"{self.operator}{self.args[0]}"
            return f"{self.args[0]} {self.operator} {self.args[1]}"
        args = [*self.args, *([self.extra] if self.extra else [])]
        if target is not None:
            bare = positional and not self.extra and self.function.rpartition(".")[2] not in KEYWORD_ONLY
            args.append(target if bare else f"out={target}")
        return f"{self.alone if target is None else self.function}({', '.join(args)})"


class Expression:
    """Any text; `shares` are the operands whose memory the result may share, `fresh` says that it shares none."""

    __slots__ = ("text", "shares", "fresh", "whole")

    def __init__(self, text: str, shares: Sequence[Value] = (), fresh: bool = False, whole: bool = True):
        self.text = text
        self.shares = shares
        self.fresh = fresh
        self.whole = whole


OPERATORS = {
    "neg": "-", "add": "+", "sub": "-", "mul": "*", "div": "/", "floor_divide": "//", "mod": "%", "pow": "**",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
    "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip

_FIXED = ("pow",)  # their loops look at the exponent's stride: operands stay as they are
_OTHERWISE = ("pow", "shift_left", "shift_right", "ldexp")  # a number beside an array is more to these than its value

_SAFE = frozenset("neg add sub mul eq ne lt le gt ge".split())  # Python's operators never raise between ints, or floats

FEW = 4096  # elements of a matrix that a product with a vector takes less time over than its call
FEW_BEHIND = 8  # elements behind a new axis, up to which a broadcast is written out,
MOST_REPEATED = 1 << 17  # if it has no more elements: a view takes no memory
BY_BLAS = "fdFD"  # dtypes of which NumPy multiplies matrices by BLAS
_KIND_RANK = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}


def ufunc_name(primitive: Any) -> str | None:
    """The name in NumPy of the ufunc that computes it."""
    ufunc = primitive.ufunc
    name = getattr(ufunc, "__name__", None)
    return name if name is not None and getattr(np, name, None) is ufunc else None


def broadcasts(primitive: Any) -> bool:
    """Does its text broadcast operands, so that no broadcast need be made for it?"""
    return (ufunc_name(primitive) is not None and primitive.name not in _FIXED) or primitive is select


def text_of(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | Expression | None:
    """How to write this equation, or None."""
    primitive = equation.primitive
    if primitive.multiple:
        return None
    aval = equation.outputs[0].aval
    name = ufunc_name(primitive)
    if name is not None and not equation.params:
        return _ufunc(w, equation, operands, name)
    reduction = primitive.reduction
    rule = RULES.get(primitive.name) if reduction is None else _reduction(reduction.ufunc.__name__)
    if rule is None and not aval.shape and primitive.emit is not None and not equation.params:
        return _formula(w, equation, operands)
    if rule is None or not isinstance(aval, Aval) or not all([isinstance(v.aval, Aval) for v in operands]):
        return None
    return rule(w, equation, operands)


def _formula(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    """What operators alone compute of numbers is quicker than a call of the implementation."""
    if any([v.aval.dtype != _FLOAT64 or v.aval.weak for v in [*operands, equation.outputs[0]]]):
        return None
    formula = formula_of(equation)
    texts = dict(enumerate([v.text for v in operands], -len(operands)))
    if any([a >= 0 for a in formula.read_often()]) or not _ARITHMETIC.issuperset([call.name for call in formula.calls]):
        return None
    for i, call in enumerate(formula.calls):
        own = [texts[a] for a in call.reads]
        texts[i] = w.literal(float(call.told[0])) if call.name == "const" else f"({TEXTS[call.name].format(*own)})"
    return Expression(texts[formula.result])


def _ufunc(w: Writer, equation: Equation, operands: list[Value], name: str) -> TextCall | None:
    aval = equation.outputs[0].aval
    operator = OPERATORS.get(equation.primitive.name, "")
    if not aval.shape:
        if aval.weak or all([v.aval.weak for v in operands]):
            kinds = {v.aval.dtype.kind for v in operands}
            if equation.primitive.name not in _SAFE or len(kinds) > 1 or not kinds <= {"i", "f"}:
                return None  # Python's own scalars: their operators raise where NumPy's do not
        if operator and equation.primitive.name == "pow":
            return None  # Python would leave the real line
    elif operator in ("**",):
        operator = "**" if all([v.shape == aval.shape or type(v.aval) is not Aval for v in operands]) else ""
    return TextCall(f"{w.np}.{name}", _texts(w, equation, operands), operator=operator, elementwise=True, out=_fits(equation))


def _texts(w: Writer, equation: Equation, operands: list[Value]) -> list[str]:
    """The operands; numbers among arrays as arrays of rank 0, which NumPy need not convert at every call."""
    texts = [v.text for v in operands]
    numbers = [i for i, a in enumerate(equation.inputs) if type(a) is Literal]
    aval = equation.outputs[0].aval
    if not numbers or w.np != "np" or not aval.shape or equation.primitive.name in _OTHERWISE:
        return texts
    first = 1 if equation.primitive is select else 0
    dtypes = {a.aval.dtype for a in equation.inputs[first:] if type(a) is Var and type(a.aval) is Aval}
    if len(dtypes) != 1:
        return texts
    (dtype,) = dtypes
    for i in numbers:
        array = as_array(equation.inputs[i], dtype)
        if array is not None:
            texts[i] = w.constant("k", array, key=("array", array.dtype.str, array.tobytes()))
    return texts


def as_array(number: Literal, dtype: np.dtype) -> np.ndarray | None:
    """A number as NumPy converts it beside arrays of this dtype; None where that is another matter."""
    kind, value = number.aval.dtype.kind, number.value
    if kind not in "iufc" or dtype.kind not in "iufc" or _KIND_RANK[kind] > _KIND_RANK[dtype.kind]:
        return None
    if not number.aval.weak and number.aval.dtype != dtype:
        return None
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return None
    with np.errstate(all="ignore"):
        array = np.asarray(value).astype(dtype)
    array.flags.writeable = False
    return array


def _fits(equation: Equation) -> bool:
    """Can the result be given `out=` of its own dtype without a cast?"""
    out = equation.outputs[0].aval.dtype
    if out.kind == "b":
        return True
    for a in equation.inputs:
        kind, dtype = a.aval.dtype.kind, a.aval.dtype
        if type(a) is Literal and a.aval.weak:
            if _KIND_RANK[kind] > _KIND_RANK[out.kind]:
                return False
        elif dtype != out and not (equation.primitive.name == "ldexp" or np.can_cast(dtype, out, "same_kind")):
            return False
    return True


# ---------------------------------------------------------------- rules, in the order of the table


def _axes(x: Aval, axes: tuple) -> str:
    if len(axes) == len(x.shape):
        return "axis=None" if len(axes) > 1 else ""
    return f"axis={axes[0] if len(axes) == 1 else axes}"


def _reduction(ufunc: str) -> Callable[..., Any]:
    def rule(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | None:
        (x,) = operands
        axes = equation.params["axes"]
        if not axes or not x.aval.shape:
            return None
        if equation.params.get("by_product"):
            return _sum_by_product(w, x, axes)
        extra = _axes(x.aval, axes)
        kind, itemsize = x.aval.dtype.kind, x.aval.dtype.itemsize
        out = equation.outputs[0].aval.dtype  # another one where a mask is counted
        if ufunc in ("add", "multiply") and (kind == "b" or kind in "iu" and itemsize < 8):
            extra += f"{', ' if extra else ''}dtype={dtype_text(w, out)}"
        elif w.np == "np" and extra:  # by position it is read more quickly
            return TextCall(f"{w.np}.{ufunc}.reduce", [x.text, extra.partition("=")[2]])
        function = f"{ufunc}.reduce" if w.np == "np" else fold_on_device(ufunc)
        return TextCall(f"{w.np}.{function}", [x.text], extra) if function is not None else None

    return rule


def _sum_by_product(w: Writer, x: Value, axes: tuple) -> TextCall:
    """A small sum (see emission.py)."""
    shape, dtype = x.aval.shape, x.aval.dtype
    ones = ones_of(w, prod([shape[a] for a in axes]), dtype)
    if len(axes) == 2:
        return TextCall(f"{w.np}.dot", [f"{x.text}.reshape(-1)", ones], method="dot")
    args = [ones, x.text] if len(shape) > 1 and axes == (len(shape) - 2,) else [x.text, ones]
    if len(shape) > 2 or x.aval.size > FEW:  # np.dot would copy a part of another array
        return TextCall(f"{w.np}.matmul", args)
    return TextCall(f"{w.np}.matmul", args, alone=f"{w.np}.dot", method="dot")


def ones_of(w: Writer, n: int, dtype: np.dtype) -> str:
    if w.np != "np":
        return f"{w.np}.ones({n}, {dtype_text(w, dtype)})"
    array = np.ones(n, dtype)
    array.flags.writeable = False
    return w.constant("ones", array, key=("ones", n, dtype.str))


def _position(name: str) -> Callable[..., Any]:
    return lambda w, equation, operands: (
        Expression(f"{operands[0].text}.{name}(axis={equation.params['axis']})", fresh=True) if operands[0].aval.shape else None
    )


def _dot_general(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | Expression | None:
    x, y = operands
    if not x.aval.shape or not y.aval.shape:
        return None
    plan = dot_plan(len(x.aval.shape), len(y.aval.shape), equation.params["dimension_numbers"])
    out = equation.outputs[0].aval
    if plan[0] == "flat":
        args = [f"{v.text}.T" if flipped else v.text for v, flipped in zip(operands, plan[1:])]
        if plan[1:] in ((True, False), (False, True)) and len(x.aval.shape) + len(y.aval.shape) == 3:
            args = [y.text, x.text]  # a vector multiplies a matrix from its other side, too: no view is needed
        matrices = len(x.aval.shape) == len(y.aval.shape) == 2
        single = x.aval.size == 1 or y.aval.size == 1  # np.dot scales by a number, and 0 times NaN is 0 to it
        large = not matrices and max(x.aval.size, y.aval.size) > FEW  # np.dot would copy a matrix that is a part of another
        method = "dot" if out.dtype.kind in "fc" and not single and not large else ""
        if x.aval.dtype.char in BY_BLAS and not single and not large and not (matrices and x.text == y.text):
            quick = f"{w.np}.dot"  # the same product, called more quickly; it writes to contiguous memory only
            return TextCall(quick if matrices else f"{w.np}.matmul", args, alone=quick, method=method)
        return TextCall(f"{w.np}.matmul", args, operator="@", method=method)
    if plan[0] == "outer":
        _, px, py, fx, fy, n_batch = plan
        sx, sy = _permuted(x.aval.shape, px), _permuted(y.aval.shape, py)
        left = _reshaped(x.text, px, (*sx, *[1] * len(fy)), sx)
        right = _reshaped(y.text, py, (*sy[:n_batch], *[1] * len(fx), *sy[n_batch:]), sy)
        return TextCall(f"{w.np}.multiply", [left, right], operator="*")
    if not out.shape and x.aval.dtype.char in "fd" and equation.params["dimension_numbers"][0] == (_all(x), _all(y)):
        return Expression(f"{w.np}.vdot({x.text}, {y.text})", fresh=True)
    if plan[0] == "general":
        return _general_dot(w, plan, x, y, out)
    return None


def _all(x: Value) -> tuple:
    return tuple(range(len(x.aval.shape)))


def _permuted(shape: tuple, perm: tuple | None) -> tuple:
    return shape if perm is None else tuple([shape[i] for i in perm])


def _reshaped(text: str, perm: tuple | None, shape: tuple, own: tuple) -> str:
    if perm is not None:
        text = f"{text}.T" if perm == tuple(range(len(perm)))[::-1] else f"{text}.transpose({perm})"
    return text if shape == own else f"{text}.reshape({shape_text(shape)})"


def _general_dot(w: Writer, plan: Any, x: Value, y: Value, out: Aval) -> Expression:
    _, px, flip_x, py, flip_y, n_batch, n_x, n_sum, n_y = plan
    sx, sy = _permuted(x.aval.shape, px), _permuted(y.aval.shape, py)
    cut_x = n_batch + (n_sum if flip_x else n_x)
    cut_y = n_batch + (n_y if flip_y else n_sum)
    lead = (prod(sx[:n_batch]),) if n_batch else ()
    left = _reshaped(x.text, px, (*lead, prod(sx[n_batch:cut_x]), prod(sx[cut_x:])), sx)
    right = _reshaped(y.text, py, (*lead, prod(sy[n_batch:cut_y]), prod(sy[cut_y:])), sy)
    left += ".swapaxes(-1, -2)" if flip_x else ""
    right += ".swapaxes(-1, -2)" if flip_y else ""
    a = prod(sx[cut_x:] if flip_x else sx[n_batch:cut_x])
    b = prod(sy[n_batch:cut_y] if flip_y else sy[cut_y:])
    memory, same = "", x.aval.dtype == y.aval.dtype == out.dtype
    if same and w.np == "np" and out.size * out.dtype.itemsize >= LARGE:
        new = w.helper("empty", empty)
        memory = f", {new}({shape_text((*lead, a, b))}, {dtype_text(w, out.dtype)})"
    text = f"{w.np}.matmul({left}, {right}{memory})"
    text += "" if (*lead, a, b) == out.shape else f".reshape({shape_text(out.shape)})"
    return Expression(text if out.shape else f"{text}[()]", fresh=True)


def _reshape(w: Writer, equation: Equation, operands: list[Value]) -> Expression:
    (x,) = operands
    shape = equation.params["shape"]
    if not x.aval.shape:
        if not shape:
            return Expression(x.text, [x])
        return Expression(f"{w.np}.reshape({x.text}, {shape_text(shape)})", [x], whole=False)
    text = f"{x.text}.reshape({shape_text(shape) if len(shape) != 1 else shape[0]})"
    return Expression(text if shape else f"{text}[()]", [x], whole=x.whole)


def _transpose(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    (x,) = operands
    perm = equation.params["perm"]
    if not perm:
        return None
    text = f"{x.text}.T" if perm == tuple(range(len(perm)))[::-1] else f"{x.text}.transpose({perm})"
    return Expression(text, [x], whole=x.whole)


def _view(index: tuple, x: Value, out: Aval) -> Expression:
    return Expression(f"{x.text}[{index_text(index)}]", [x] if out.shape else (), whole=x.whole)


def _slice(w: Writer, equation: Equation, operands: list[Value]) -> Expression:
    (x,) = operands
    params = equation.params
    index = []
    for s, n in zip(_slice_index(params["start"], params["limit"], params["strides"]), x.aval.shape):
        whole = s.start == 0 and s.stop == n
        index.append(slice(None, None, s.step) if whole else slice(s.start or None, s.stop, s.step))
    return _view(_short(index), x, equation.outputs[0].aval)


def _short(index: list) -> tuple:
    """Without the trailing entries that take everything."""
    while len(index) > 1 and index[-1] in (slice(None), slice(None, None, 1)):
        index.pop()
    return tuple(index)


def _basic_index(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    (x,) = operands
    index = python_index(equation.params["index"])
    if not index or not x.aval.shape:
        return None
    out = equation.outputs[0].aval
    if not out.shape and any([i is None or type(i) is slice for i in index]):
        return None
    return _view(index, x, out)


def _rev(w: Writer, equation: Equation, operands: list[Value]) -> Expression:
    (x,) = operands
    axes = equation.params["axes"]
    index = [slice(None, None, -1) if i in axes else slice(None) for i in range(len(x.aval.shape))]
    return _view(_short(index), x, equation.outputs[0].aval)


def _broadcast(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    (x,) = operands
    shape, axes = equation.params["shape"], equation.params["axes"]
    if not shape:
        return Expression(x.text, [x])
    if w.np == "np":  # the implementation is quicker than np.broadcast_to
        return repeated(x, shape, axes)
    inner = [1] * len(shape)
    for axis, n in zip(axes, x.aval.shape):
        inner[axis] = n
    text = f"{w.np}.reshape({x.text}, {shape_text(tuple(inner))})"
    if not x.aval.shape:
        text = f"{w.np}.asarray({x.text}, {dtype_text(w, x.aval.dtype)})"
    return Expression(f"{w.np}.broadcast_to({text}, {shape_text(shape)})", [x], whole=False)


def repeated(x: Value, shape: tuple, axes: tuple) -> Expression | None:
    """A new axis with few elements behind it, written out: readers of the broadcast begin a loop for each few of them."""
    new = [i for i in range(len(shape)) if i not in axes]
    if len(new) != 1 or not new[0] or x.shape != tuple([shape[i] for i in axes]):
        return None
    (axis,) = new
    if prod(shape[axis + 1 :]) > FEW_BEHIND or not FEW < prod(shape) <= MOST_REPEATED:
        return None
    text = f"{x.text}.repeat({shape[axis]}, {axis - 1})"
    return Expression(f"{text}.reshape({shape_text(shape)})", fresh=True)


def _concatenate(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | Expression:
    axis, parts = equation.params["axis"], []
    for number, run in groupby(operands, lambda v: v.shape != v.aval.shape):
        texts = [v.text for v in run]
        dtype = dtype_text(w, equation.outputs[0].aval.dtype)
        parts += [f"{w.np}.array([{', '.join(texts)}], {dtype})"] if number else texts
    if len(parts) == 1 and number:
        return Expression(parts[0], fresh=True)
    comma = "," if len(parts) == 1 else ""
    return TextCall(f"{w.np}.concatenate", [f"({', '.join(parts)}{comma})"], f"axis={axis}")


def _select(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    if not equation.outputs[0].aval.shape:
        return _select_number(w, equation, operands)
    kinds = {v.aval.dtype for v in operands[1:] if not v.aval.weak}
    if kinds != {equation.outputs[0].aval.dtype}:
        return None
    return Expression(f"{w.np}.where({', '.join(_texts(w, equation, operands))})", fresh=True)


def _select_number(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    out, texts = equation.outputs[0].aval, []
    for a, v in zip(equation.inputs[1:], operands[1:]):
        array = as_array(a, out.dtype) if type(a) is Literal else None
        if array is None and v.aval != out:
            return None
        texts.append(v.text if array is None else w.literal(array[()]))
    if out.weak or w.np != "np":
        return None
    return Expression(f"{texts[0]} if {operands[0].text} else {texts[1]}", operands[1:])


def _convert(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    (x,) = operands
    dtype = equation.params["dtype"]
    weak = equation.params.get("weak")
    if not x.aval.shape and x.aval.weak and x.aval.dtype.kind in "bif" and dtype.kind in "bif" and not weak:
        if x.aval.dtype.kind == "f" and dtype.kind in "iu":  # as arrays do, which never raise
            return Expression(f"{w.np}.float64({x.text}).astype({dtype_text(w, dtype)})")
        return Expression(f"{dtype_text(w, dtype)}({x.text})")
    if not x.aval.shape or weak or x.shape != x.aval.shape:
        return None
    if x.aval.dtype == dtype:
        return None
    text = x.text
    if x.aval.dtype.kind == "c" and dtype.kind != "c":
        if dtype.kind == "b":
            return Expression(f"{text} != 0", fresh=True)
        text = f"{text}.real"
        if np.empty(0, x.aval.dtype).real.dtype == dtype:
            return Expression(text, [x])
    return Expression(f"{text}.astype({dtype_text(w, dtype)})", fresh=True)


def _same(w: Writer, equation: Equation, operands: list[Value]) -> Expression:
    return Expression(operands[0].text, [operands[0]], whole=operands[0].whole)


def _part(name: str) -> Callable[..., Any]:
    def rule(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
        (x,) = operands
        if not x.aval.shape or x.aval.dtype.kind != "c":
            return None
        return Expression(f"{x.text}.{name}", [x], whole=x.whole)

    return rule


def _gather(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
    x, *indices = operands
    if not indices[0].aval.shape:  # the index of a row
        return Expression(f"{x.text}[{', '.join([i.text for i in indices])}]", [x] if equation.outputs[0].aval.shape else ())
    if len(indices) != 1 or equation.params["batch_dims"] or not indices[0].aval.shape or w.np == "np":
        return None
    return Expression(f"{x.text}[{indices[0].text}]", fresh=True)


def _accumulate(ufunc: str, name: str) -> Callable[..., Any]:
    def rule(w: Writer, equation: Equation, operands: list[Value]) -> Expression | None:
        (x,) = operands
        params = equation.params
        if params["reverse"] or x.aval.dtype.kind not in "fc" or not x.aval.shape:
            return None
        function = f"{ufunc}.accumulate" if w.np == "np" else name  # the same in more calls, but CuPy has it
        return Expression(f"{w.np}.{function}({x.text}, axis={params['axis']})", fresh=True)

    return rule


def _erf(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | None:
    (x,) = operands
    few = x.aval.size < MANY or x.shape != x.aval.shape
    if w.np != "np" or x.aval.dtype != _FLOAT64 or few:
        return None
    return TextCall(w.helper("erf", erf), [x.text], elementwise=True)


RULES: dict[str, Callable[..., Any]] = {
    "erf": _erf,
    "argmax": _position("argmax"),
    "argmin": _position("argmin"),
    "dot_general": _dot_general,
    "reshape": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "basic_index": _basic_index,
    "rev": _rev,
    "broadcast_in_dim": _broadcast,
    "concatenate": _concatenate,
    "select": _select,
    "convert": _convert,
    "stop_gradient": _same,
    "real": _part("real"),
    "imag": _part("imag"),
    "gather": _gather,
    "cumsum": _accumulate("add", "cumsum"),
    "cumprod": _accumulate("multiply", "cumprod"),
}


# -- `erf` of many numbers by NumPy's own functions
#
# Idea: SciPy's takes twelve nanoseconds a number, as it branches at each; NumPy's arithmetic takes a tenth of one. So the
# range is cut into cells of 1/512, erf and its slope at the lower end c of each are in tables, and within a cell, where erf(c
# + d) = erf(c) + slope(c) d (1 + d s), four terms of the Taylor series s suffice, whose coefficients are polynomials in c.
# Blocks stay in the second level cache. Invariants: within 1.25 units in the last place (SciPy's: 2.2); erf(-x) is -erf(x) to
# the last bit, the sign of zero and NaN included; the result may be written over the operand. Trap: c is never above the size
# of x, so that nothing cancels: near 0 the table's value is 0 and the series alone is the result.


MANY = 4096  # numbers from which on it is quicker
BLOCK = 16384
CELLS = 512  # in a unit
TOP = 6.0  # from here on it is 1

_TOP, _CELLS, _CELL = np.array(TOP), np.array(float(CELLS)), np.array(1.0 / CELLS)
# of the series in d, whose coefficients are -c, (2 c**2 - 1) / 3, c (3 - 2 c**2) / 6 and (4 c**4 - 12 c**2 + 3) / 30
_SECOND = np.array(2 / 3), np.array(-1 / 3)
_THIRD = np.array(-1 / 3), np.array(0.5)
_FOURTH = np.array(4 / 30), np.array(-12 / 30), np.array(0.1)


@remembers()
def erf_tables() -> tuple[np.ndarray, np.ndarray]:
    """erf and its slope at the lower ends of all cells; the last one has all that is larger, and no slope.

    >>> from funcad.backends.text_rules import erf_tables
    >>> [float(table[0]) for table in erf_tables()]
    [0.0, 1.1283791670955126]
    """
    ends = np.arange(int(TOP * CELLS) + 1) / CELLS
    slopes = 2.0 / math.sqrt(math.pi) * np.exp(-ends * ends)
    slopes[-1] = 0.0
    return np.array([math.erf(c) for c in ends.tolist()]), slopes


def erf(x: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    """erf of float64 numbers, into `out` if it is given.

    >>> import numpy as np
    >>> from funcad.backends.text_rules import erf
    >>> erf(np.array([-0.0, 0.5, np.inf, np.nan])).tolist()
    [-0.0, 0.5204998778130465, 1.0, nan]
    """
    if out is None:
        out = empty(x.shape, np.float64)
    if not out.flags.c_contiguous:
        out[...] = erf(x)
        return out
    values, slopes = erf_tables()
    given, made = x.reshape(-1), out.reshape(-1)
    memory = empty((5, min(BLOCK, given.size)), np.float64)
    places = np.empty(memory.shape[1], np.intp)
    for i in range(0, given.size, BLOCK):
        part, result = given[i : i + BLOCK], made[i : i + BLOCK]
        d, c, square, series, term = memory[:, : part.size]
        place = places[: part.size]
        np.absolute(part, d)
        np.multiply(np.fmin(d, _TOP, c), _CELLS, c)  # the place of NaN is some place
        np.minimum(d, _TOP, out=d)
        place[...] = c
        c[...] = place
        np.multiply(c, _CELL, c)
        np.subtract(d, c, d)
        np.multiply(c, c, square)
        _polynomial(square, _FOURTH, series)
        np.multiply(series, d, series)
        np.multiply(_polynomial(square, _THIRD, term), c, term)
        np.multiply(np.add(series, term, series), d, series)
        np.multiply(np.add(series, _polynomial(square, _SECOND, term), series), d, series)
        np.multiply(np.subtract(series, c, series), d, series)
        np.multiply(slopes.take(place, None, term, "clip"), d, term)
        np.add(np.multiply(series, term, series), term, series)
        np.add(series, values.take(place, None, term, "clip"), series)
        np.copysign(series, part, result)
    return out


def _polynomial(x: np.ndarray, coefficients: tuple[Any, ...], out: np.ndarray) -> np.ndarray:
    np.multiply(x, coefficients[0], out)
    for coefficient in coefficients[1:-1]:
        np.multiply(np.add(out, coefficient, out), x, out)
    return np.add(out, coefficients[-1], out)


# -- how the primitives are written as calls of CuPy's, where all arrays are a device's
#
# Idea: the texts are those for NumPy (below) wherever the primitive's implementation calls the namesake in CuPy, too,
# with the same arguments; what has a way of its own on devices keeps it, so a program computes what its operations compute one
# by one. Invariant: no text asks a device for a value. Traps: a value without axes is an array there, or a number of the host,
# which has no methods and which CuPy's functions of whole arrays refuse; one that a text takes out of an array is a view of it.


_COMPARED = frozenset(["eq", "ne", "lt", "le", "gt", "ge"])
_TAKE_NUMBERS = frozenset([basic_index_p, select, gather_p, broadcast_in_dim])  # their texts do, as operands or indices


def text_on_device(w: Writer, equation: Equation, operands: list[Value]) -> TextCall | Expression | None:
    """How to write this equation for a device, or None: then its implementation is called."""
    primitive = equation.primitive
    if primitive.multiple:
        return None
    if ufunc_name(primitive) is not None and not equation.params:
        found = text_of(w, equation, operands) if getattr(primitive.impl, "namesake", False) else None
        scalar = type(equation.inputs[0]) is Literal and not equation.inputs[0].aval.weak
        if type(found) is TextCall and (scalar or primitive.name in _COMPARED):
            found.operator = ""  # a scalar of NumPy's would be asked first, and compares as an array, which CuPy refuses
        return found
    if primitive is reshape and not operands[0].aval.shape:
        return _reshaped_number(w, equation, operands[0])
    if primitive is broadcast_in_dim and type(equation.inputs[0]) is Literal and not equation.inputs[0].aval.weak:
        return _filled(w, equation, operands[0])
    if primitive is dot_general_p and operands[0].aval.dtype.kind == "b":
        return None
    if primitive is select and not operands[0].shape and _may_be_host(operands[:1]):
        return None
    if primitive not in _TAKE_NUMBERS and _may_be_host(operands):
        return None
    return text_of(w, equation, operands)


def _filled(w: Writer, equation: Equation, x: Value) -> Expression:
    """A number everywhere: it goes with the call that fills, where an array of it would be copied to the device."""
    shape, dtype = equation.params["shape"], dtype_text(w, x.aval.dtype)
    return Expression(f"{w.np}.broadcast_to({w.np}.full((), {x.text}, {dtype}), {shape_text(shape)})", [], whole=False)


def _may_be_host(operands: Sequence[Value]) -> bool:
    """Is there a value without axes, which may be a number of the host?"""
    return any([not v.aval.shape for v in operands])


def _reshaped_number(w: Writer, equation: Equation, x: Value) -> Expression | None:
    shape: Any = equation.params["shape"]
    if x.aval.weak:
        return None
    text = f"{w.np}.asarray({x.text}, {dtype_text(w, x.aval.dtype)})"
    return Expression(f"{text}.reshape({shape_text(shape)})" if shape else text, [x], whole=False)
