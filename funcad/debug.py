"""`funcad.debug`: printing, callbacks and breakpoints inside transformed functions; the doctor; checks of values and bounds.

Effects happen when the program runs, in program order, once per execution, iteration and lane; never when it is traced. They
are not differentiated and are not removed. Outside jit and vmap they happen at once.
"""

from __future__ import annotations

import builtins
import cmath
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import Transformed, name_of
from funcad.diagnosis.doctor import diagnose
from funcad.diagnosis.report import Diagnosis
from funcad.errors import InfError, NanError
from funcad.host.devices import namespace_of
from funcad.host.locks import locked_arrays, read_only
from funcad.host.real_types import dtype_kind, impl_of
from funcad.host.where import setting, state, user_source, users_frame
from funcad.ir.tracer import Tracer
from funcad.memo import CacheLine, all_lines
from funcad.primitives.basic_indexing import gather_p, scatter_p
from funcad.primitives.host import HostCall, debug_callback
from funcad.show.compile_log import CompileEvent, CompileLog, compile_log, html_table, text_table

__all__ = ["print", "callback", "breakpoint", "doctor", "debug_nans", "debug_infs", "debug_checks", "locked_arrays"]


def __dir__() -> list[str]:
    return sorted(__all__)
__all__ += ["compile_log", "CompileEvent", "CompileLog", "caches", "CacheLine", "CacheList"]


# ---------------------------------------------------------------- effects


def _effect(name: str, function: Callable[..., Any], args: tuple, kwargs: dict) -> None:
    """Call `function(*args, **kwargs)` when the program runs; only traced leaves are operands, the rest is kept as it is."""
    leaves, structure = tree.flatten((args, kwargs))
    traced = [type(x) is Tracer for x in leaves]

    def flat(*values: Any) -> list[Any]:
        found = iter(values)
        given, keywords = structure.unflatten([next(found) if t else x for t, x in zip(traced, fixed)])
        function(*given, **keywords)
        return []

    fixed = [None if t else read_only(x) if type(x) is np.ndarray else x for t, x in zip(traced, leaves)]
    call = HostCall(name, flat, (), ())
    debug_callback(call, *[x for x, t in zip(leaves, traced) if t])


def print(fmt: str, *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Print `fmt.format(*args, **kwargs)` whenever the program runs.

    Parameters
    ----------
    fmt : str
        A format string: "x = {x}".
    *args, **kwargs : array, number or container of them
        What is put into it; traced values are there as NumPy arrays.
    ordered : bool
        For JAX's sake: programs run in order, so it changes nothing.

    Returns
    -------
    None

    Raises
    ------
    IndexError, KeyError
        The string asks for what is not given, as `str.format`.

    Notes
    -----
    Python's `print` inside a jitted function works, too: it is replayed at each call. Under `vmap` this one prints once
    for each example. As `jax.debug.print`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> from funcad import debug
    >>> funcad.jit(lambda x: debug.print("x = {}", x))(2.0)
    x = 2.0
    >>> y = funcad.vmap(lambda row: debug.print("sum = {total}", total=np.sum(row)))(np.array([[1.0, 2.0], [3.0, 4.0]]))
    sum = 3.0
    sum = 7.0

    See also
    --------
    callback, breakpoint, doctor
    """
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print takes a format string first, as in debug.print('x = {{}}', x); got {type(fmt).__name__}")
    fmt.format(*[_Anything()] * len(args), **dict.fromkeys(kwargs, _Anything()))  # mistakes show here, at the user's line
    _effect("print", lambda *values, **named: builtins.print(fmt.format(*values, **named)), args, kwargs)


class _Anything:
    """Takes part in `str.format` as any value would."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: Any) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return ""


def callback(callback: Callable[..., Any], *args: Any, ordered: bool = False, **kwargs: Any) -> None:
    """Call a Python function whenever the program runs, and ignore its result.

    Parameters
    ----------
    callback : callable
        It is called with NumPy arrays, which are read-only.
    *args, **kwargs : array, number or container of them
        What it is called with.
    ordered : bool
        For JAX's sake: programs run in order, so it changes nothing.

    Returns
    -------
    None

    Raises
    ------
    Exception
        What the function raises, where the program runs.

    Notes
    -----
    Under `vmap` it is called once for each example. As `jax.debug.callback`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> from funcad import debug
    >>> seen = []
    >>> funcad.jit(lambda x: debug.callback(lambda v: seen.append(float(v)), x))(2.0)
    >>> seen
    [2.0]
    >>> keep = lambda name, value: seen.append((name, value.shape))
    >>> funcad.jit(lambda x: debug.callback(keep, "x", value=x, ordered=True))(np.ones(3))
    >>> seen[-1]
    ('x', (3,))

    See also
    --------
    print, funcad.io_callback, funcad.pure_callback
    """
    if not callable(callback):
        raise TypeError(f"debug.callback takes a function first, got {type(callback).__name__}")
    _effect(name_of(callback), callback, args, kwargs)


def breakpoint() -> None:
    """Stop here, in the debugger that Python's `breakpoint()` would start (`PYTHONBREAKPOINT`); the caller is one frame up.

    Inside jit and vmap it stops whenever the program runs, lane by lane, with the caller's local variables as they are then in
    the dict `variables`. As jax.debug.breakpoint.
    """
    frame = users_frame(1)
    if state.abstract is None:
        builtins.breakpoint()
        return
    names = {k: v for k, v in frame.f_locals.items() if k.isidentifier()}

    def stop(**variables: Any) -> None:
        builtins.breakpoint()

    _effect("breakpoint", stop, (), names)


# ---------------------------------------------------------------- the doctor


def doctor(
    f: Callable[..., Any], argnums: int | Sequence[int] | None = None, has_aux: bool = False
) -> Callable[..., Diagnosis]:
    """A function that runs f and its derivative once, and reports where values stop being finite and derivatives are lost.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them. An output that is not one number is differentiated as the
        sum of its elements, and the report says so.
    argnums : int or sequence of ints, optional
        Which positional arguments to report on; all by default, keywords too.
    has_aux : bool
        f returns `(output, aux)`.

    Returns
    -------
    callable
        It takes the arguments of f and returns a `Diagnosis`: `print` it, show it in a notebook, or read its fields.

    Raises
    ------
    Exception
        What f raises, with a note of what was seen before.

    Notes
    -----
    The report tells, with your lines:

    * the values and the cotangents that are not finite, each where it was made from finite ones: an infinity before the NaN
      that it becomes; whether it matters, or which mask hides it;
    * for each argument where its derivative is cut, as a whole or in part: by rounding, integers, comparisons, `stop_gradient`,
      `int(x)`. What cuts follows from the derivative rules: a cut gives no tangent;
    * what to write instead.

    f runs once, as `grad` would run it, on its values: Python's control flow works, effects happen once. Jitted
    functions, loops and branches are looked into, turn by turn, so keep long loops short; everything is kept until the
    report is done. Nothing is followed beyond a cut, since `grad` does not either: whether the result needs what was
    cut is for you to say. Plain NumPy calls on plain arrays are NumPy's alone: they are not seen. JAX has no
    counterpart.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> def loss(x):
    ...     return np.sum(np.round(3 * x)) + np.sum(x)
    >>> report = funcad.debug.doctor(loss)(np.array([0.2, 0.7]))
    >>> cut = report.arguments[0].cuts[0]
    >>> report.arguments[0].cut, cut.operation, cut.instead
    ('in part', 'rint', 'for its value with the slope of x (straight-through): x + stop_gradient(np.round(x) - x)')
    >>> report = funcad.debug.doctor(lambda x, n: x**2 * int(n), argnums=0)(3.0, 2.0)
    >>> len(report.arguments), report.arguments[0].cut
    (1, '')

    See also
    --------
    debug_nans, debug_infs, print
    """
    if not callable(f):
        raise TypeError(f"doctor takes a function, got {type(f).__name__}: write doctor(f)(x), not doctor(f(x))")
    return Transformed(diagnose(f, argnums, has_aux), f, functools.partial(doctor, argnums=argnums, has_aux=has_aux))


# ---------------------------------------------------------------- what is remembered


class CacheList(list[CacheLine]):
    """Tables, by name. Text for a reader; notebooks show a table."""

    _head = ("size", "bound", "hits", "misses", "differences", "name", "holds")

    def _rows(self) -> Sequence[Sequence[str]]:
        numbers = [(x.size, x.bound, x.hits, x.misses, x.differences) for x in self]
        texts = [["-" if n is None else f"{n:,}" for n in row] for row in numbers]
        return [(*row, x.name, x.holds) for row, x in zip(texts, self)]

    def __repr__(self) -> str:
        return text_table(self._head, self._rows(), right=5)

    def _repr_html_(self) -> str:
        return html_table(self._head, self._rows(), right=5)


def caches() -> CacheList:
    """All tables of what funcad remembers in this process, so as not to compute it again.

    Returns a list of tuples `(name, holds, size, bound, hits, misses, differences)`, whose text is a table; it raises nothing.
    Tables of the same kind, and what hangs on programs, are added up. Hits and misses of tables are counted while
    `config.audit` is on, since counting would slow them; those of functions and of jit's programs are counted always. None:
    there is no bound, or nothing was counted. `differences` is how often the audit has raised. JAX has no counterpart.

    >>> import numpy as np, funcad
    >>> f = funcad.jit(lambda x: 2.0 * x)
    >>> with funcad.config.set(audit=True):  # what is remembered is computed again, and compared
    ...     y = f(np.ones(3)), f(np.ones(3))
    >>> sum([line.differences for line in funcad.debug.caches()])
    0
    """
    return CacheList(all_lines())


# ---------------------------------------------------------------- checks


def _has_nan(x: Any) -> bool:
    kind = type(x)
    if kind is float or kind is complex:
        return x != x
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype_kind(dtype) in "fc" and bool((x != x).any())


def _has_inf(x: Any) -> bool:
    kind = type(x)
    if kind is float or kind is complex:
        return cmath.isinf(x)
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype_kind(dtype) in "fc" and bool(namespace_of([x]).isinf(x).any())


def _checked(primitive: Any, xp: Any, args: Any, params: dict[str, Any]) -> Any:
    """`impl`, refusing what is looked for: an index out of bounds, a NaN or an infinity that no operand had."""
    if state.debug_checks and xp is not np and primitive in (gather_p, scatter_p):
        _check_bounds(args[0].shape[params["batch_dims"] :], args[1:] if primitive is gather_p else args[2:])
    out = impl_of(primitive, args, params)(xp, *args, **params)
    for o in out if primitive.multiple else (out,):
        if state.debug_nans and _has_nan(o) and not any(_has_nan(a) for a in args):
            raise NanError(f"{primitive.name} made a NaN from operands without one", user_source())
        if state.debug_infs and _has_inf(o) and not any(_has_inf(a) for a in args):
            raise InfError(f"{primitive.name} made an infinity from operands without one", user_source())
    return out


def _check_bounds(dims: Sequence[int], indices: Sequence[Any]) -> None:
    """What NumPy does by itself."""
    for axis, (index, n) in enumerate(zip(indices, dims)):
        for bad in (int(index.min()), int(index.max())) if index.size else ():
            if not -n <= bad < n:
                raise IndexError(f"index {bad} is out of bounds for axis {axis} with size {n} (found by debug_checks)")


def _looking(**fields: bool) -> Any:
    """The context with these of the three switched."""
    now = {name: fields.get(name, getattr(state, name)) for name in ("debug_nans", "debug_infs", "debug_checks")}
    return setting(**now, checked=_checked if any(now.values()) else None)


def debug_nans(enabled: bool = True) -> Any:
    """A context in which the first operation that makes a NaN raises, and names your line.

    Parameters
    ----------
    enabled : bool
        False switches it off inside.

    Returns
    -------
    context manager

    Raises
    ------
    NanError
        In the context, an operation makes a NaN from operands without one.

    Notes
    -----
    It works forward and backward, jitted or not; a NaN in a derivative names the line of the operation whose derivative
    it is. An operation whose operands have a NaN already passes. Plain NumPy calls on plain arrays are NumPy's alone:
    they are not seen. As `jax.debug_nans`, which names no line.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> with funcad.debug_nans():
    ...     funcad.jit(np.log)(-1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    NanError: log made a NaN from operands without one
    >>> with funcad.debug_nans(), funcad.debug_nans(False):
    ...     funcad.jit(lambda x: x - x)(np.inf)
    nan

    See also
    --------
    debug_infs, funcad.debug.doctor
    """
    return _looking(debug_nans=bool(enabled))


def debug_infs(enabled: bool = True) -> Any:
    """A context in which the first operation that makes an infinity raises, and names your line.

    Parameters
    ----------
    enabled : bool
        False switches it off inside.

    Returns
    -------
    context manager

    Raises
    ------
    InfError
        In the context, an operation makes an infinity from operands without one.

    Notes
    -----
    An infinity is often the cause of a NaN a few lines later: `inf - inf`, `0 * inf`. It may be combined with
    `debug_nans`. As `jax.debug_infs`, which names no line.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> with funcad.debug_infs():
    ...     funcad.grad(np.sqrt)(0.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    InfError: div made an infinity from operands without one
    >>> with funcad.debug_infs(), funcad.debug_infs(False):
    ...     float(funcad.grad(np.sqrt)(0.0))
    inf

    See also
    --------
    debug_nans, funcad.debug.doctor
    """
    return _looking(debug_infs=bool(enabled))


def debug_checks(enabled: bool = True) -> Any:
    """A context in which computed indices are checked on every backend.

    Parameters
    ----------
    enabled : bool
        False switches the checks off inside.

    Returns
    -------
    context manager

    Raises
    ------
    IndexError
        In the context, an index is out of bounds.

    Notes
    -----
    NumPy checks at all times, so on the CPU it changes nothing; CuPy does not check, and JAX clamps and has no such
    context.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> with funcad.debug_checks():
    ...     funcad.jit(lambda x, i: x[i])(np.arange(3.0), 1)
    np.float64(1.0)
    >>> with funcad.debug_checks(enabled=False):
    ...     pass

    See also
    --------
    debug_nans
    """
    return _looking(debug_checks=bool(enabled))
