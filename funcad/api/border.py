"""Between users and interpreters: pytrees in and out, argnums, checks at the border, and tracebacks.

Interpreters see flat lists of values and `None` for zero tangents; users see pytrees, `float0` zeros for integer leaves, and
arrays of their own that nothing else aliases (`own_memory`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from funcad import tree
from funcad.errors import FuncadError, TangentMismatchError
from funcad.host.devices import namespace_of
from funcad.host.layout import ordinary
from funcad.host.locks import root_of
from funcad.host.where import for_user, interrupted
from funcad.ir.aval import FLOAT0, SCALAR_AVALS, Aval, aval_of, is_inexact
from funcad.ir.trace import plain_values, stage_constants
from funcad.ir.tracer import Tracer, concrete_value
from funcad.ir.types import Function
from funcad.primitives.conversion import convert_p
from funcad.primitives.placement import capture_as_inputs, on_device_of
from funcad.tree.functions import changed_object
from funcad.tree.objects import is_static, registering

__all__ = [
    "api",
    "float0",
    "flat_function",
    "flat_values",
    "check_leaves",
    "own_memory",
    "unshared",
    "seed_beside",
    "to_close_up",
    "unaliased",
    "zeros_for",
    "check_tangents",
    "normalize_argnums",
]

float0 = FLOAT0  # dtype of the tangents of integers and bools, as in JAX


def api(f: Function) -> Function:
    """A public function whose errors do not drown the user in our frames."""

    @functools.wraps(f)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            raise for_user(error)  # noqa: B904 the same error
        except BaseException:
            interrupted()
            raise

    return cast(Function, boundary)


def dress_as(wrapper: Any, f: Any) -> None:
    """Give an object that stands for f its name and docstring.

    Of a callable object the other attributes are not copied: they could hide methods of the wrapper's own.
    """
    functools.update_wrapper(wrapper, f, updated=functools.WRAPPER_UPDATES if hasattr(f, "__code__") else ())


def name_of(f: Any) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


class OutTree:
    """The structure of a flattened function's output, known after it has run."""

    __slots__ = ("tree",)

    def __init__(self) -> None:
        self.tree: Any = None


to_close_up: set[type] = set()  # what stands for an array, which a function gives as one: `closed_up`


def flat_values(value: Any) -> tuple[list[Any], Any]:
    """The leaves and the structure of what a user's function was given or gave, with the arrays behind buffers."""
    leaves, structure = tree.flatten(value)
    kinds = set(map(type, leaves))
    if not to_close_up.isdisjoint(kinds):
        leaves = [x.closed_up() if type(x) in to_close_up else x for x in leaves]
    return (plain_values(leaves) if Tracer in kinds else leaves), structure


def flat_function(f: Callable[..., Any], in_tree: Any, store: OutTree, output_of: str = "") -> Callable[..., list]:
    """`flat(*leaves) -> leaves` for `f(*args, **kwargs)` whose `(args, kwargs)` has structure `in_tree`.

    `output_of` says whose output must be arrays and numbers, for functions that are traced into a program.
    """

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = in_tree.unflatten(leaves)
        result = f(*args, **kwargs)
        out, store.tree = flat_values(result)
        if output_of:
            check_leaves(out, f"{output_of}: output", result)
            changed = changed_object(in_tree, (args, kwargs), leaves, result)
            if changed:
                raise TypeError(
                    f"{output_of}: the function changed an argument and did not return it: {changed} It works on a copy, so "
                    "the caller's would stay as it is.\nRemedy: return the object, or a new one."
                )
        return out

    return flat


def check_leaves(leaves: Sequence[Any], what: str, example: Any = None, names: Sequence[str] | None = None) -> None:
    """Every leaf must be an array or a number; `names`: of positional arguments, where static ones are another way."""
    for i, x in enumerate(leaves):
        try:
            aval_of(x)
        except FuncadError:  # it says more than that x is no array
            raise
        except TypeError as error:
            paths = [] if example is None else tree.flatten_with_path(example)[0]
            steps = paths[i][0] if i < len(paths) else ()
            path = f" at {tree.keystr(steps)}" if steps else ""
            raise TypeError(f"{what}{path}: {error}{_other_ways(x, steps, names)}") from None


def _other_ways(x: Any, steps: tuple[Any, ...], names: Sequence[str] | None) -> str:
    """How x, which was refused, can be handed over all the same."""
    lines = registering(x)
    if lines:
        return f"\nRemedy: make its class a pytree, so that its arrays are seen:\n{lines}"
    if names is None or not is_static(x):
        return ""
    if len(steps) > 2:
        return (
            "\nRemedy: pass it as an argument of its own, named by jit(..., static_argnames=...); or put it into a field of a "
            "dataclass or a SimpleNamespace, where it is part of the structure."
        )
    name = steps[1].key if steps[0].idx else names[steps[1].idx]
    given = f"static_argnames={name!r}" if name.isidentifier() else "static_argnums=..."
    return f"\nRemedy: jit(..., {given}) makes it part of the signature; it must be hashable."


def zeros_for(x: Any) -> Any:
    """A zero tangent for the border: same shape, dtype and device as x; float0 for integers and bools."""
    aval = aval_of(x)
    if not is_inexact(aval):
        return np.zeros(aval.shape, float0)
    if not aval.shape and namespace_of([concrete_value(x)]) is np:
        return aval.dtype.type(0)
    return namespace_of([concrete_value(x)]).zeros(aval.shape, aval.dtype)


def seed_beside(one: Any, value: Any) -> list[Any]:
    """A number as the cotangent of `value`: an operation of the abstract program that `value` belongs to, if any."""
    stage = stage_constants([value])
    seed = one if stage is None else stage.record(convert_p, [one], {"dtype": aval_of(one).dtype})
    return on_device_of([seed], [value], scalars=True)


def own_memory(values: list[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """Results for the user: `unshared`, in the machine's byte order, whatever was captured."""
    return unshared(ordinary(values), foreign)


def unshared(values: Sequence[Any], foreign: Sequence[Any] = ()) -> list[Any]:
    """Results for the user: arrays that are writeable and share no memory with each other or with `foreign` arrays."""
    ndarray = np.ndarray
    if ndarray not in map(type, values):
        return list(values)
    roots = set()
    for a in foreign:
        if type(a) is Tracer:
            a = concrete_value(a)
        if type(a) is ndarray:
            roots.add(id(a if a.base is None else root_of(a)))
    result = []
    for x in values:
        if type(x) is ndarray:
            root = x if x.base is None else root_of(x)
            if id(root) in roots or not x.flags.writeable:
                x = root = x.copy()
            roots.add(id(root))
            if not x.ndim:
                x = x[()]
        result.append(x)
    return result


def unaliased(result: Any, given: Sequence[Any], f: Any) -> Any:
    """The result of f, which was called plainly on `given`, as a program would give it: what the caller writes into it later
    reaches no operand, nor an array that f refers to."""
    kind = type(result)
    if kind is Tracer or kind in SCALAR_AVALS:
        return result
    foreign = [*given, *_arrays_referred_to(f)]
    if kind is np.ndarray and result.base is None and result.ndim and result.flags.writeable:  # the common case, at a glance
        for x in foreign:
            if type(x) is np.ndarray and (x if x.base is None else root_of(x)) is result:
                return result.copy()
            if type(x) is not np.ndarray and type(x) is not Tracer and type(x) not in SCALAR_AVALS:
                break
        else:
            return result
    leaves, structure = flat_values(result)
    if np.ndarray not in map(type, leaves):
        return result
    outs = unshared(leaves, tree.leaves(foreign))
    return result if all([o is x for o, x in zip(outs, leaves)]) else structure.unflatten(outs)


def _arrays_referred_to(f: Any) -> list[Any]:
    """Arrays among the closure cells, the defaults and the globals of a function."""
    code = getattr(f, "__code__", None)
    if code is None:
        return []
    found = list(getattr(f, "__defaults__", None) or ())
    for cell in getattr(f, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # a variable that is not assigned yet
            continue
    names = getattr(f, "__globals__", {})
    found += [names.get(name) for name in code.co_names]
    return [x for x in found if type(x) is np.ndarray]


def tangent_aval(x: Any) -> Aval:
    aval = aval_of(x)
    return Aval(aval.shape, aval.dtype)


def check_tangents(
    primals: Any, tangents: Any, what: str, primal_name: str, tangent_name: str, beside: Sequence[Any] | None = None
) -> tuple[list, list, Any]:
    """Flatten both; check structure, shapes and dtypes. Integer primals take float0 (or are given as such): tangent None.

    Scalar tangents are moved to where the primals are, or the arrays in `beside`.
    """
    p_leaves, p_tree = tree.flatten(primals)
    t_leaves, t_tree = tree.flatten(tangents)
    if p_tree != t_tree:
        raise TangentMismatchError(
            f"{what}: {tangent_name} must have the structure of {primal_name}.\n"
            + tree.describe_difference(p_tree, t_tree, primal_name, tangent_name)
        )
    check_leaves(p_leaves, f"{what}: {primal_name}", primals)
    result = []
    for i, (p, t) in enumerate(zip(p_leaves, t_leaves)):
        result.append(_checked_tangent(p, t, what, functools.partial(_path, primals, i), primal_name, tangent_name))
    beside = p_leaves if beside is None else beside
    return p_leaves, capture_as_inputs(on_device_of(result, beside, scalars=True), beside), p_tree


def _path(example: Any, i: int) -> str:
    return tree.keystr(tree.flatten_with_path(example)[0][i][0])


def _checked_tangent(p: Any, t: Any, what: str, path: Callable[[], str], primal_name: str, tangent_name: str) -> Any:
    if type(p) is type(t) is np.ndarray and p.dtype is t.dtype and p.shape == t.shape and p.dtype.kind in "fc":
        return t
    aval = aval_of(p)
    if not is_inexact(aval):
        dtype = getattr(t, "dtype", None)
        if dtype == float0 and t.shape == aval.shape:
            return None
        raise TangentMismatchError(
            f"{what}: {primal_name}{path()} is {aval}, which has no derivative, so {tangent_name}{path()} must be "
            f"np.zeros({aval.shape}, funcad.float0); got {_describe(t)}."
        )
    try:
        found = aval_of(t)
    except TypeError:
        found = None
    if found is None or found.shape != aval.shape:
        raise TangentMismatchError(
            f"{what}: {tangent_name}{path()} must have the shape of {primal_name}{path()}, {aval.shape}; got {_describe(t)}."
        )
    if found.weak and np.can_cast(found.dtype, aval.dtype, "same_kind"):
        return aval.dtype.type(t) if not isinstance(t, Tracer) else convert_p(t, dtype=aval.dtype)  # tangents are strong
    if found.weak and found.dtype.kind in "iub" and not isinstance(t, Tracer):
        return aval.dtype.type(t)
    if found.dtype != aval.dtype:
        raise TangentMismatchError(
            f"{what}: {tangent_name}{path()} must have the dtype of {primal_name}{path()}, {aval.dtype}; got {_describe(t)}."
        )
    return t


def _describe(t: Any) -> str:
    try:
        return str(aval_of(t))
    except TypeError:
        dtype = getattr(t, "dtype", None)
        if dtype == float0:
            return f"float0[{','.join(map(str, t.shape))}]"
        return f"{type(t).__name__} {t!r:.40}"


def normalize_argnums(argnums: Any, n_args: int, what: str) -> tuple[tuple[int, ...], bool]:
    """Non-negative positions and whether the user gave a single int."""
    single = not isinstance(argnums, (tuple, list, range))
    positions = []
    for i in (argnums,) if single else argnums:
        try:
            i = i.__index__()
        except AttributeError:
            raise TypeError(f"{what}: argnums must be an int or a sequence of ints, got {argnums!r}") from None
        if not -n_args <= i < n_args:
            raise ValueError(f"{what}: argnums={argnums!r} is out of range for {n_args} positional argument(s)")
        positions.append(i % n_args)
    if len(set(positions)) != len(positions):
        raise ValueError(f"{what}: argnums={argnums!r} names an argument twice")
    return tuple(positions), single


def positional_names(f: Any) -> tuple[str, ...]:
    """Names of the positional parameters of f; empty when f has no signature."""
    code = getattr(f, "__code__", None)
    if code is not None and not hasattr(f, "__wrapped__"):
        return code.co_varnames[hasattr(f, "__self__") : code.co_argcount]  # a bound method has its first argument
    try:
        parameters = inspect.signature(f).parameters.values()
    except (ValueError, TypeError):
        return ()
    return tuple([p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)])


def with_aux(f: Callable[..., Any], has_aux: bool, box: dict) -> Callable[..., Any]:
    """f returning its output and, behind it, its auxiliary output (a pytree of anything)."""
    if not has_aux:
        return f

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        out = f(*args, **kwargs)
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(
                f"with has_aux=True, {name_of(f)} must return a pair (output, aux); it returned {type(out).__name__}"
            )
        box["n"] = tree.structure(out[0]).num_leaves
        return out

    return both


class AbstractOutput:
    """Shape and dtype of an output, kept by the pullback in place of the output itself."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval
