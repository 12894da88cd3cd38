"""What is said when a traced value is asked for what it does not have (its truth, an index, an array), and of what is no array.

Idea: the error names the user's line, why there is nothing to hand over, and one remedy: that for the spelling which asked.
Which one that was, `a[x]` or a function of NumPy's or of SciPy's, stands in the frames between the user's and ours. The texts
need a shape and a dtype (`what`), the name of the trace, and whether the function of that name exists in funcad: no more of
the tracer, which raises what these functions give.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from funcad.configuration import config
from funcad.errors import (
    BufferNeeded,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
    UnexpectedTracerError,
)
from funcad.host.needs import missed
from funcad.host.real_types import is_a
from funcad.host.state import tracing
from funcad.host.where import callee, caller, user_source, users_call, users_text

__all__ = ["no_truth", "no_integer", "no_array", "no_hash", "conversion_of", "their_say", "no_aval", "leaked_error"]

_REMEDIES = {
    "float": "keep x as it is instead of float(x)",
    "complex": "keep x as it is instead of complex(x)",
    "item": "keep x as it is instead of x.item(): a rank-0 value works as a number",
    "tolist": "keep x as it is, or iterate over it, instead of x.tolist()",
    "array": "call what needs a real array in funcad.pure_callback",
}

_IF = "np.where(condition, a, b) chooses between values, funcad.cond(condition, f, g, x) between computations"
_STATEMENTS = {  # how the user's line begins, and what to write instead
    "while": "funcad.while_loop(cond_fun, body_fun, carry) instead of `while`",
    "if": _IF,
    "elif": _IF,
    "assert": "assert in funcad.debug.callback(f, x), which calls f with the values when the program runs; or outside",
}
_STATIC = "make the argument static, jit(..., static_argnums=...): then it is Python's own number when f is traced"


def _where() -> str:
    source = user_source()
    return f" at {source}" if source is not None else ""


def _of_scipy(names: list[str], offers: Callable[[str], bool]) -> str:
    """What to write instead of a function of SciPy's that cannot take traced values."""
    if names and names[0].endswith(".__init__"):  # of a class whose name is in the user's line
        names = [names[0].removesuffix("__init__") + users_text()[1].partition("(")[0].rpartition(".")[2], *names[1:]]
    for name in names:
        if offers(f"scipy.{name}"):
            return f"call funcad.scipy.{name}, which takes traced values, instead of scipy.{name}"
    name = f"scipy.{names[0]}" if names else "it"
    return (
        f"call {name}, which funcad.scipy does not have, in funcad.pure_callback, and that in a "
        "funcad.custom_vjp function if it is to have a derivative (docs/implicit)"
    )


def _of_truth() -> str:
    """What to write instead of what asked for a truth."""
    before, part, behind = users_text()
    name, bracket, given = part.partition("(")
    if name in ("max", "min") and bracket:
        other = f"np.{name}imum(a, b) instead of {name}(a, b)"
        return other if "," in given else f"np.{name}(x) instead of {name}(x)"
    if name in ("any", "all", "sorted") and bracket:
        return f"np.{name.removesuffix('ed')}(x) instead of {name}(x)"
    if " in " in part and " for " not in part:
        return "np.any(a == x) instead of `x in a`"
    statement = (before or part).partition(" ")[0]
    if statement in _STATEMENTS:
        return _STATEMENTS[statement]
    for word in ("and", "or"):
        if f" {word} " in part or behind.startswith(f"{word} ") or before.endswith(f" {word}"):
            return f"np.logical_{word}(a, b) instead of `a {word} b`"
    if part.startswith("not "):
        return "np.logical_not(x) instead of `not x`"
    return _IF


def _of_index() -> str:
    """What to write instead of `a[x]`, where a is a NumPy array or a list."""
    part = users_text()[1]
    if not part.endswith("]"):
        part = ""
    start = next((i for i in range(len(part) - 1, 0, -1) if part[i] == "[" and part[i:].count("[") == part[i:].count("]")), 0)
    a, index = part[:start], part[start + 1 : -1]
    if ":" in index and "," not in index:
        new, old = f"funcad.lax.dynamic_slice_in_dim({a}, start, n)", part
    elif ":" in index:
        new, old = f"funcad.lax.dynamic_slice({a}, starts, lengths)", part
    elif "," in index:
        new, old = f"funcad.numpy.at({a})[{index}].get()", part
    else:
        new, old = (f"funcad.numpy.take({a}, {index}, 0)", part) if index else ("funcad.numpy.take(a, x, 0)", "a[x]")
    return f"{new} instead of {old}: NumPy's arrays and lists take no index that is only known when the program runs"


def no_truth(what: Any, trace: str, offers: Callable[[str], bool]) -> TracerBoolConversionError:
    library, names = caller()
    remedy = _of_scipy(names, offers) if library == "scipy" else _of_truth()
    if trace.startswith("jit(") and library != "scipy":  # of guards=False, or a program that is asked for without values
        remedy += "; or call jit without guards=False, on values"
    return TracerBoolConversionError(
        f"the truth of a traced {what} was asked for{_where()}, but inside {trace} it has no value.\n"
        f"Remedy: {remedy}."
    )


def no_integer(how: str, what: Any, trace: str, offers: Callable[[str], bool]) -> TracerIntegerConversionError:
    library, names = caller()
    remedy = {"range": "funcad.fori_loop(0, n, body_fun, carry) instead of a loop over range(n)",
              "int": "x.astype(int) instead of int(x)"}.get(callee()[0], _STATIC)  # fmt: skip
    if library == "scipy":
        remedy = _of_scipy(names, offers)
    if library == "subscript":
        remedy = _of_index()
    problem = f"{how} of a traced {what} was asked for{_where()}, but inside {trace} it has no value"
    return TracerIntegerConversionError(f"{problem}.\nRemedy: {remedy}.")


def _handed_over(function: Any) -> str:
    """The name of math's function that was itself given to a transformation, as in `grad(math.sin)(x)`; "" of others."""
    whole = getattr(function, "__wrapped__", None)  # of `slope = grad(math.sin)`
    if isinstance(whole, BuiltinFunctionType):
        name = whole.__name__
    else:
        found = re.search(r"([\w.]+)[,)]", users_text()[1]) if _is_ours(function) else None
        name = found[1].rpartition(".")[2] if found else ""
    return name if hasattr(math, name) else ""


def _is_ours(function: Any) -> bool:
    return (getattr(function, "__module__", None) or "").partition(".")[0] == "funcad"


def _of_call(how: str, called: str, function: Any) -> str:
    """What to write instead of a function in C that was called with a traced value, if it is known which."""
    if how not in ("float", "array"):
        return ""
    if isinstance(function, type) and issubclass(function, np.generic):
        return f"write x.astype({called}) instead of {called}(x)"
    if function is np.arange:
        return "make n a static argument, jit(..., static_argnums=...): the length of np.arange(n) is needed when f is traced"
    module = getattr(function, "__module__", None)
    if module in ("math", "numpy") and isinstance(function, BuiltinFunctionType):
        name = f"{module}.{function.__name__}"
        if not config.doors:
            return f"set funcad.config.doors to True, so that {name} takes traced values"
        return f"import {module} and write {name}(x): a function that was imported by its name does not see traced values"
    if not called or _is_ours(function) or function is float or function is None and how == "float":
        return ""
    return f"call {called} in funcad.pure_callback: it needs a real array or number"


def no_array(
    how: str, what: Any, reason: str, has_value: bool, offers: Callable[[str], bool]
) -> TracerArrayConversionError:
    """`how`: a key of `_REMEDIES`. With a value, the derivative may be given up."""
    called, function = callee()
    whole = _handed_over(function) if how == "float" else ""
    if whole or _is_ours(function):
        called, function = f"math.{whole}" if whole else "", None
    spelled = {
        "float": f"{called or 'float'}(x)",
        "complex": "complex(x)",
        "item": "x.item()",
        "tolist": "x.tolist()",
    }.get(how, "conversion to a NumPy array")
    library, names = caller()
    name = names[0].rpartition(".")[2] if names else ""
    remedy = _of_scipy(names, offers) if library == "scipy" else _of_call(how, called, function) or _REMEDIES[how]
    if library == "subscript" and how == "array":
        remedy = _of_index()
    elif whole:
        new = f"np.{whole}" if hasattr(np, whole) else f"lambda *args: math.{whole}(*args)"
        remedy = f"write {new} instead of math.{whole}, which does not look for traced values when transformed itself"
    elif called.startswith("np.testing.") and not has_value:
        remedy = f"funcad.debug.callback({called}, x, ...), which calls it with the values when the program runs"
    elif called.startswith("np.testing."):
        remedy = f"{called}(funcad.stop_gradient(x), ...)"
        has_value = False
    elif how == "float" and users_text()[1][:1] in ("'", '"'):
        remedy = "funcad.debug.print('{:.3f}', x), which prints the value when the program runs, instead of '%.3f' % x"
    elif library == "numpy" and how == "array" and name[0] != "_" and offers(f"numpy.{name}"):
        remedy = f"call funcad.numpy.{name} instead of np.{name}, which does not look for traced values there"
    elif library == "store":
        remedy = "K = np.array(K) inside the traced function makes a copy that takes traced values"
    if has_value:
        remedy += "; or take funcad.stop_gradient(x) first if no derivative is wanted"
    if library == "store":
        text = f"a traced {what} was written into a plain NumPy array{_where()}: {reason}.\nRemedy: {remedy}."
        return missed(BufferNeeded(text))
    error = TracerArrayConversionError(f"{spelled} of a traced {what}{_where()}: {reason}.\nRemedy: {remedy}.")
    if how == "array" and tracing.threads and tracing.learned(users_call()):  # from now on that function takes traced values
        error.learned = True
        missed(error)
    return error


def no_hash(what: Any) -> TypeError:
    return TypeError(
        f"unhashable type: a traced {what} was used as a key of a dict, in a set or in a cache{_where()}.\n"
        "Remedy: take its name or position as the key; leave functools.cache away from functions of traced values."
    )


def leaked_error(what: Any, trace: str, made_at: str, has_value: bool) -> UnexpectedTracerError:
    made = f" It was made at {made_at}." if made_at else ""
    return UnexpectedTracerError(
        f"a traced {what} was used after the function that it belongs to ({trace}) had returned."
        f"{made}\nRemedy: return the value from the function instead of keeping it in a global, an attribute or a closure"
        f"{'; np.asarray(x) and float(x) give its value' if has_value else ''}."
    )


def _as_numbers(x: Any) -> str:
    """How an array of something else becomes one of numbers."""
    kind = getattr(getattr(x, "dtype", None), "kind", "")
    remedy = {
        "O": "x.astype(float)",
        "U": "np.unique(x, return_inverse=True)[1], which numbers the strings",
        "S": "np.unique(x, return_inverse=True)[1], which numbers the strings",
        "M": "x.astype('datetime64[ns]').astype(float)",
        "m": "x.astype('timedelta64[ns]').astype(float)",
        "V": "pass the fields one by one, {name: x[name] for name in x.dtype.names}",
    }.get(kind, "")
    return f".\nRemedy: {remedy}." if remedy else ""


# Arrays with labels or units, which funcad's rules would drop, and those of other engines: how they are handed over
_CONVERSIONS = {
    "xarray": "x.data. xarray.apply_ufunc hands plain arrays to a function, also to a gradient or a jitted function, and "
    "labels the result; inside the function xarray computes with traced values, and .data of the last result is what to return",
    "pint": "x.magnitude, or x.to(unit).magnitude; inside the function make it a quantity again, and return the magnitude",
}
_APART = {  # the libraries that compute nothing with traced values, although these are operands of theirs
    "astropy": "x.to_value(unit); the result has no unit, write result * unit",
    "torch": "np.from_dlpack(x.detach().cpu()), which shares its memory, and torch.from_dlpack(result); or make a node of "
    "torch's graph of the function, funcad.interop.to_torch(f)",
    "jaxlib": "np.asarray(x); jax.numpy.asarray(result) makes JAX's array of the result",
}


def conversion_of(kind: type) -> str | None:
    """How an array of another library, with labels or units or of an engine of its own, is handed over; None of all others."""
    libraries = [k.__module__.partition(".")[0] for k in kind.__mro__]
    return next((text for name in libraries for text in [_CONVERSIONS.get(name) or _APART.get(name)] if text), None)


def their_say(*operands: Any) -> Any:
    """NotImplemented, so that operands of other libraries have their say; raises where these cannot compute with traces."""
    for x in operands:
        if any([k.__module__.partition(".")[0] in _APART for k in type(x).__mro__]):
            raise no_aval(x)
    return NotImplemented


def no_aval(x: Any) -> TypeError:
    """Of an argument that is no array and no number, or none that funcad computes with."""
    kind, dtype = type(x), getattr(x, "dtype", None)
    conversion = conversion_of(kind)
    if conversion is None and not is_a(x, (np.ndarray, np.generic)) and hasattr(kind, "__dlpack__"):
        conversion = "np.from_dlpack(x)"
    if conversion is not None or getattr(x, "aval", None) is not None:
        return TypeError(
            f"got a {kind.__module__.partition('.')[0]} {kind.__name__}; funcad computes with NumPy's and CuPy's arrays.\n"
            f"Remedy: {conversion or 'np.asarray(x) of it'}."
        )
    if is_a(x, np.ndarray) and kind.__name__ in ("MaskedArray", "matrix"):
        return TypeError(
            f"funcad computes with plain arrays; a {kind.__name__} means something else by its operators.\n"
            "Remedy: np.asarray(x) of a matrix; x.filled(value) of a masked array, with np.where on x.mask in the function."
        )
    if is_a(x, np.ndarray) or dtype is not None:
        return TypeError(f"funcad computes with bool, int, float and complex arrays; got dtype {dtype}{_as_numbers(x)}")
    return TypeError(f"expected an array or a number, got {kind.__name__}: {x!r:.60}")
