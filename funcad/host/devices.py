"""Running one operation now: on which array library, and whose line its warnings name.

An operation runs on CuPy if any array among its arguments is a CuPy array. Scalars, 0-d NumPy arrays, literals and fills (one
number broadcast to a shape, as the zeros that rules make) follow, and what a trace captured is moved once (`on_device_of`);
another shaped NumPy argument meeting a CuPy argument raises, naming both. `NAMESPACES` maps array types to modules; CuPy's
type is added when the first CuPy array is seen (nothing here imports cupy), and tests add a stand-in.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from _thread import get_ident
from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from funcad.errors import FuncadError, PlacementError
from funcad.host.locks import is_constant
from funcad.host.real_types import NARROW, impl_of, is_a, narrow_among
from funcad.host.where import Source, after_interrupts, is_internal, outside, state
from funcad.memo import table

if TYPE_CHECKING:
    from typing import Protocol


# -- floating-point warnings: who is silent, and whose line is named
#
# Tangent, cotangent and masked work never warns, whatever `np.errstate` the user has set: `token = suppress_warnings()` ...
# `restore_warnings(token)`. Un-jitted primal operations warn as NumPy does, at the user's line rather than at the line of ours
# that calls NumPy (of one line Python shows a warning only once, so a second place would stay silent): `warn_at_user_line()`
# turns NumPy's modes "warn" into calls of `_warn`, which notes the line in `pending`, and whoever ran the operation says which
# it was (`deliver`); `user_line_mode(mode)` is the mode to enter for that, or None. A program that runs later than it was
# traced (vmap's) runs each operation in the mode that was set where the user wrote it: `error_mode()` when recording,
# `enter(mode)` when running.
#
# `np.errstate` costs more than most scalar operations, so NumPy's own context variable is set directly where this NumPy has it;
# the fallback is `np.errstate` itself, and NumPy's own idea of the line.


def _slow_enter(mode: Any) -> Any:
    context = np.errstate(**dict(mode))
    context.__enter__()
    return context


def _slow_suppress() -> Any:
    return _slow_enter({"all": "ignore"})


def _slow_restore(context: Any) -> None:
    context.__exit__(None, None, None)


def _slow_mode() -> Any:
    return tuple(np.geterr().items())


def _slow_user_line() -> Any:
    return None


def _fast() -> Any:
    """The same six on NumPy's context variable behind errstate (numpy >= 2.0), if it is there and does what we think."""
    try:
        from numpy._core.umath import _extobj_contextvar, _make_extobj

        silent = _make_extobj(all="ignore")
        token = _extobj_contextvar.set(silent)
        try:
            works = set(np.geterr().values()) == {"ignore"}
        finally:
            _extobj_contextvar.reset(token)
    except (ImportError, TypeError, AttributeError):
        return None
    if not works:
        return None
    get, enter, leave = _extobj_contextvar.get, _extobj_contextvar.set, _extobj_contextvar.reset
    last: Any = (None, None)  # a mode, and the same with _warn in the place of "warn"

    def user_line_mode(mode: Any) -> Any:
        nonlocal last
        known, found = last
        if mode is known:
            return found
        if mode is silent or mode is found:
            return None
        modes = np.geterr()
        found = None  # nothing to say, or the user's own handler has the place
        if "warn" in modes.values() and "call" not in modes.values() and "log" not in modes.values():
            modes_called: Any = {k: "call" if v == "warn" else v for k, v in modes.items()}
            found = _make_extobj(call=_warn, **modes_called)
        last = mode, found
        return found

    def warn_at_user_line() -> Any:
        mode = get()
        if mode is silent:
            return None
        known, found = last  # in one look: other threads set it
        found = found if mode is known else user_line_mode(mode)
        return None if found is None else enter(found)

    def recover() -> None:
        """Back to the user's mode, which is no object of ours."""
        known, found = last
        if known is not None and (get() is silent or get() is found):
            enter(known)

    after_interrupts.append(recover)
    return partial(enter, silent), leave, warn_at_user_line, get, enter, user_line_mode


suppress_warnings, restore_warnings, warn_at_user_line, error_mode, enter, user_line_mode = _fast() or (
    _slow_suppress, _slow_restore, _slow_user_line, _slow_mode, _slow_enter, lambda mode: None,
)  # fmt: skip

pending: list[tuple] = []  # what operations that run now were warned of: (thread, message, file, line, registry)
after_interrupts.append(pending.clear)  # or the next operation would be named in place of one that was broken off
_registry: dict[Any, Any] = {}  # what was warned of at lines whose function is not running any more
_OPERATORS = frozenset([np.add, np.subtract, np.multiply, np.divide])


def _warn(error: str, flag: int) -> None:
    """NumPy's call in the middle of an operation: notes the user's line."""
    frame: Any = sys._getframe(1)
    source, user = state.source, None
    while frame is not None:
        code = frame.f_code
        if code is source.code if type(source) is Source else not is_internal(code.co_filename):
            user = frame
            break
        frame = frame.f_back
    if type(source) is Source:
        filename, line = source.code.co_filename, source.line
    elif user is not None:
        filename, line = user.f_code.co_filename, user.f_lineno
    else:
        filename, line = "<unknown>", 0
    registry = _registry if user is None else user.f_globals.setdefault("__warningregistry__", {})
    pending.append((get_ident(), error, filename, line, registry))


def deliver(primitive: Any, args: Sequence[Any]) -> None:
    """NumPy's RuntimeWarnings of this operation, which has just run in this thread."""
    thread = get_ident()
    own = [entry for entry in pending if entry[0] == thread]
    for entry in own:  # one by one: other threads append meanwhile
        pending.remove(entry)
    if state.before_effect is not None and own and _is_heard():
        state.before_effect(None, True)
    for _, error, filename, line, registry in own:
        text = f"{error} encountered in {_label(primitive, args)}"
        warnings.warn_explicit(text, RuntimeWarning, filename, line, registry=registry)


def _is_heard() -> bool:
    """Is the next RuntimeWarning shown or recorded, as far as its category tells?"""
    for action, message, category, module, _ in warnings.filters:
        if message is None and module is None and issubclass(RuntimeWarning, category):
            return action not in ("ignore", "error")
    return True


def _label(primitive: Any, args: Any) -> str:
    """The name that NumPy gives to the operation."""
    if primitive.ufunc in _OPERATORS and not any([is_a(a, np.ndarray) for a in args]):
        return f"scalar {primitive.label}"
    return str(primitive.label)


# -- which array library runs an operation, and what may be moved there


if TYPE_CHECKING:

    class DeviceArray(Protocol):
        """What is known of an array of another library than NumPy."""

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def dtype(self) -> np.dtype: ...
        @property
        def ndim(self) -> int: ...


NAMESPACES: dict[type, Any] = {}  # array types other than numpy.ndarray -> their module


def _discover(kind: type) -> Any:
    if kind.__module__.partition(".")[0] == "cupy" and kind.__name__ == "ndarray":
        module = NAMESPACES[kind] = sys.modules["cupy"]
        return module
    return None


def is_device(kind: type) -> bool:
    """Is this the type of a device's arrays?"""
    return kind in NAMESPACES or _discover(kind) is not None


def device_in_use() -> bool:
    """Could any array of this process be elsewhere than in NumPy?

    A cheap question before `namespace_of`, never an answer: who has imported cupy computes with NumPy's arrays all the same.
    """
    return bool(NAMESPACES) or "cupy" in sys.modules


def namespace_of(args: Sequence[Any]) -> ModuleType | Any:
    """numpy, or the module of the first device array among the arguments."""
    if not NAMESPACES and "cupy" not in sys.modules:
        return np
    for a in args:
        kind = type(a)
        if kind is np.ndarray:
            continue
        found = NAMESPACES.get(kind) or _discover(kind)
        if found is None and kind is not list and issubclass(kind, list) and a:  # what a loop has kept (Stack of ir/aval.py)
            found = namespace_of(a[-1:])
            found = None if found is np else found
        if found is not None:
            return found
    return np


def on_device(args: Sequence[Any]) -> bool:
    """Is any array among the arguments elsewhere than in NumPy?"""
    return (bool(NAMESPACES) or "cupy" in sys.modules) and namespace_of(args) is not np


class Raising(FuncadError, RuntimeError):
    """An operation was to raise where NumPy warns, in a program that runs later."""


def raising_later(name: str, mode: Any, source: Any) -> Raising | None:
    """The error if the user's `np.errstate` is to raise, which is over when the program runs, in `mode`; else None."""
    token = enter(mode)
    before: dict[str, Any] = {**np.geterr()}
    restore_warnings(token)
    if not any([how in ("raise", "call") and before[kind] != how for kind, how in np.geterr().items()]):
        return None
    return Raising(
        f"{name} has an operation inside np.errstate(...='raise' or 'call'), at {source}, which is over when it runs: it is "
        "traced once, for all values.\n"
        "Remedy: funcad.cond(c, f, g, x), by a c that says beforehand which way to go; or np.errstate around the call."
    )


def place(xp: Any, args: Sequence[Any], what: str) -> list[Any]:
    """The arguments as `xp` can take them: scalars, 0-d arrays and fills moved, another shaped NumPy array refused."""
    placed = []
    for a in args:
        if type(a) is np.ndarray:
            if any(a.strides) and a.size:
                device = next(b for b in args if type(b) in NAMESPACES)
                raise PlacementError(
                    f"{what} got a NumPy array of shape {a.shape} and dtype {a.dtype} together with a {xp.__name__} array "
                    f"of shape {device.shape} and dtype {device.dtype}.\nRemedy: move one of them: funcad.device_put(x) puts a "
                    "NumPy array on the GPU, funcad.device_get(x) brings a GPU array back."
                )
            a = xp.broadcast_to(xp.asarray(a[(0,) * a.ndim]), a.shape) if a.ndim and a.size else xp.asarray(a)
        placed.append(a)
    return placed


# (id of a NumPy array, device) -> the array, its copy there, and its contents if they may change
_resident = table(
    "host.resident",
    "id of a NumPy array, and device: its copy there",
    same=None,
)
_copied: dict[int, weakref.ref] = {}  # large arrays that were copied, by id
LARGE = 1 << 20  # bytes
_warned = [False]


def resident(xp: Any, x: np.ndarray, lent: bool = False) -> Any:
    """A captured NumPy array on the device. Of one that is read-only the copy is kept as long as the array lives.

    Others may change before the next call, so they are copied at each; of the first large one that is, a warning tells. Who
    only borrows the copy (`lent`) gets the same of one that is not large while its contents are the same.
    """
    key = id(x), xp.cuda.runtime.getDevice() if hasattr(xp, "cuda") else 0
    if (constant := is_constant(x)) or lent and x.nbytes <= LARGE:
        contents = None if constant else (x.dtype.str, x.shape, x.tobytes())
        entry = _resident.get(key)
        if entry is None or entry[0]() is not x or entry[2] != contents:
            entry = weakref.ref(x, partial(_resident.pop, key)), xp.asarray(x), contents
            if hasattr(xp, "cuda"):
                xp.cuda.get_current_stream().synchronize()  # programs on other streams read it, too
            _resident[key] = entry
        return entry[1]
    _resident.pop(key, None)  # it can be written again
    if x.nbytes > LARGE and not _warned[0]:
        seen = _copied.get(key[0])
        if seen is not None and seen() is x:
            _warned[0] = True
            warn_again(x, xp.__name__)
        else:
            _copied[key[0]] = weakref.ref(x, partial(_copied.pop, key[0]))
    return xp.asarray(x)


def warn_again(x: np.ndarray, library: str) -> None:
    warnings.warn(
        f"a NumPy array of shape {x.shape} and dtype {x.dtype} ({x.nbytes / 1e6:.1f} MB), captured by a program on {library} "
        "arrays, is copied to the device at each call.\nRemedy: capture funcad.device_put(array) instead, or make it read-only "
        "(array.flags.writeable = False): then its copy is kept.",
        UserWarning,
        stacklevel=outside(2),
    )


# -- running one operation on arrays, now: what every computation that nobody records ends in
#
# Idea: a primitive's `impl` computes with the library that the arrays belong to. Around it stand three services for the user:
# an array that may not be moved raises, `debug_nans` and its like look at the result, and NumPy's warnings name the user's
# line.


def compute(primitive: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive on arrays, now, on numpy or on the arrays' device."""
    xp: Any = np
    if NAMESPACES or "cupy" in sys.modules:
        xp = namespace_of(args)
        if xp is not np and primitive.primal_and_jvp is None:  # programs move what they captured themselves
            args = place(xp, args, primitive.name)
    token = None if primitive.silent else warn_at_user_line()
    try:
        if state.checked:
            return state.checked(primitive, xp, args, params)
        return (impl_of(primitive, args, params) if NARROW else primitive.impl)(xp, *args, **params)
    finally:
        if token is not None:
            restore_warnings(token)
            if pending:
                deliver(primitive, args)


def on_numpy(primitive: Any, avals: Sequence[Any], params: dict[str, Any]) -> Any:
    """The operation as a function of NumPy arrays of these avals alone."""
    if NARROW and narrow_among(avals) is not None:
        return partial(impl_of(primitive, avals, params), np, **params)
    if primitive.ready is not None:
        return primitive.ready(*avals, **params)
    direct = getattr(primitive.impl, "on_numpy", None)
    if direct is None and any([a.shape for a in avals]):
        direct = getattr(primitive.impl, "on_arrays", None)
    return partial(primitive.impl, np, **params) if direct is None or params else direct
