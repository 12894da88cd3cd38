"""Between users and interpreters: pytrees in and out, argnums, checks at the border, and tracebacks.

Interpreters see flat lists of values and `None` for zero tangents; users see pytrees, `float0` zeros for integer leaves, and
arrays of their own that nothing else aliases (`own_memory`).
"""

from __future__ import annotations

import dis
import functools
import inspect
import pickle
import re
import sys
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from importlib import import_module
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, cast

import numpy as np

from funcad.configuration import Function, OnDemand, nearest
from funcad.errors import FuncadError, TangentMismatchError
from funcad.host.conversions import begins_lending, lends_all, no_aval, plainly
from funcad.host.devices import device_in_use, namespace_of
from funcad.host.locks import root_of
from funcad.host.real_types import NUMBERS, contiguous, is_a, ordinary
from funcad.host.where import for_user, interrupted, state, tracing
from funcad.ir.aval import FLOAT0, SCALAR_AVALS, Aval, aval_of, is_inexact, is_labelled, said
from funcad.ir.trace import plain_values, stage_constants
from funcad.ir.tracer import Tracer, concrete_value, value_key
from funcad.memo import remembers
from funcad.primitives.conversion import convert_p
from funcad.primitives.placement import capture_as_inputs, on_device_of

tree = OnDemand("funcad.tree")
containers, objects = OnDemand("funcad.tree.containers"), OnDemand("funcad.tree.objects")
tree_functions = OnDemand("funcad.tree.functions")
tree_same = OnDemand("funcad.tree.same")
_ndarray = np.ndarray  # whose name may be a door, which costs a call
float0 = FLOAT0  # dtype of the tangents of integers and bools, as in JAX


def api(f: Function) -> Function:
    """A public function whose errors do not drown the user in our frames."""

    @functools.wraps(f)
    def boundary(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            raise for_user(_with_options(error, f))  # noqa: B904 the same error
        except BaseException as stop:
            raise interrupted(stop)  # noqa: B904 the same error

    return cast(Function, boundary)


def _with_options(error: Exception, f: Callable[..., Any]) -> Exception:
    """Where f was given an option that it does not have, name the one that was meant."""
    found = re.match(r".*got an unexpected keyword argument '(\w+)'", str(error)) if type(error) is TypeError else None
    inner = error.__traceback__.tb_next if error.__traceback__ is not None else None
    while inner is not None and inner.tb_frame.f_code in _BINDS:
        inner = inner.tb_next
    if found is None or inner is not None:  # the option of another function, which f called
        return error
    options = [p.name for p in inspect.signature(f).parameters.values() if p.kind is not p.VAR_POSITIONAL]
    near = nearest(found[1], options)
    remedy = f"Remedy: {f.__name__}(..., {near[0]}=...)." if near else f"Its arguments are {', '.join(options)}."
    error.args = (f"{found[0]}.\n{remedy}",)
    return error


def runs(f: Callable[..., Any]) -> Callable[..., Any]:
    """What is called in the place of a function of the user's: its twin, where somebody looks at it (reads/)."""
    if type(f) is FunctionType and f.__closure__ is None and id(f.__code__) in plainly:
        if state.lender is None and state.observer is None:
            return f  # which has been looked at before
    # where nothing is traced, as in a lane of vmap that runs alone, what f makes is NumPy's
    if state.lender is None and (state.running is not None and begins_lending(f) if state.observer is None else lends_all(f)):
        return tracing.lending(f)
    who = state.observer or state.lender
    return f if who is None else who.runs_as(f)


def runs_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    """The same of a rule, which runs when a derivative is made: jit does not look at what it reads."""
    return runs(f) if state.observer is None else f


def on_copies(
    what: str,
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any] = {},  # noqa: B006
) -> Any:
    """`f(*args, **kwargs)` of arguments that were put together again for the body of `what`.

    Un-jitted, f would have the caller's own: where it changes these, jit does not compile it.
    """
    observer = state.observer
    if observer is None:
        return f(*args, **kwargs)
    leaves, structure = tree.flatten((args, kwargs))
    before = list(map(value_key, leaves))
    result = f(*args, **kwargs)
    after, found = tree.flatten((args, kwargs))
    if found != structure or list(map(value_key, after)) != before:
        observer.refuse(f"{what} changes an argument")
    return result


def call_as(how: str, f: Callable[..., Any], *args: Any) -> Any:
    """`f(*args)`, a function of the user's; where it does not take so many arguments, `how` says what it is called with."""
    try:
        return runs(f)(*args)
    except TypeError as error:
        traceback = error.__traceback__
        if traceback is not None and traceback.tb_next is None and "argument" in str(error):  # the call itself failed
            error.add_note(f"Remedy: {how}.")
        raise


def dress_as(wrapper: Any, f: Any, says: str = "") -> None:
    """Give an object that stands for f its name and docstring, after what `says` what it is.

    Of a callable object the other attributes are not copied: they could hide methods of the wrapper's own.
    """
    functools.update_wrapper(wrapper, f, updated=functools.WRAPPER_UPDATES if hasattr(f, "__code__") else ())
    if says:
        wrapper.__doc__ = f"{says}\n\n{f.__doc__}" if isinstance(f, Remade | FunctionType | MethodType) and f.__doc__ else says


def name_of(f: Any) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def called(f: Any) -> str:
    """What a transform is of, in its `repr`: "grad of loss", or the name of a plain function."""
    return repr(f)[1:-1] if isinstance(f, Remade) else name_of(f)


class OutTree:
    """The structure of a flattened function's output, known after it has run."""

    tree: Any = None


to_close_up: set[type] = set()  # what stands for an array, which a function gives as one: `closed_up`


def flat_values(value: Any) -> tuple[list[Any], Any]:
    """The leaves and the structure of what a user's function was given or gave, with the arrays behind buffers."""
    leaves, structure = tree.flatten(value if state.observer is None else state.observer.returned(value))
    if len(leaves) == 1:
        kind = type(leaves[0])
        if kind is _ndarray or kind is Tracer and leaves[0].owner.level:
            return leaves, structure
    kinds = set(map(type, leaves))
    if not to_close_up.isdisjoint(kinds):
        leaves = [x.closed_up() if type(x) in to_close_up else x for x in leaves]
    return (plain_values(leaves) if Tracer in kinds else leaves), structure


def flat_function(
    f: Callable[..., Any], in_tree: Any, store: OutTree, output_of: str = "", arrays: bool = False
) -> Callable[..., list]:
    """`flat(*leaves) -> leaves` for `f(*args, **kwargs)` whose `(args, kwargs)` has structure `in_tree`.

    `output_of` says whose output must be arrays and numbers, for functions that are traced into a program; `arrays`: the
    leaves are the arguments.
    """

    def flat(*leaves: Any) -> list[Any]:
        args, kwargs = (leaves, {}) if arrays else in_tree.unflatten(leaves)
        result = runs(f)(*args, **kwargs)
        out, store.tree = flat_values(result)
        if output_of:
            check_leaves(out, f"{output_of}: output", result)
            changed = "" if arrays else tree_functions.changed_object(in_tree, (args, kwargs), leaves, result)
            if changed:
                raise TypeError(
                    f"{output_of}: the function changed an argument and did not return it: {changed} It works on a copy, so "
                    "the caller's would stay as it is.\nRemedy: return the object, or a new one."
                )
        return out

    return flat


def with_truths(flat: Callable[..., list], leaves: Sequence[Any], batched: Sequence[bool] = ()) -> Callable[..., list]:
    """`flat`, but Python's True, False and, in a batch, integers reach it as they are, if they are not mapped: f may ask
    whether one `is True`."""
    mapped = batched or [False] * len(leaves)
    kinds = (bool, int) if batched else (bool,)
    truths = {i: x for i, x in enumerate(leaves) if type(x) in kinds and not mapped[i]}
    return (lambda *xs: flat(*[truths.get(i, x) for i, x in enumerate(xs)])) if truths else flat


def argument_aval(x: object) -> Any:
    """The aval of an argument, whose labels would be lost."""
    if is_labelled(type(x)):
        raise no_aval(x)
    return aval_of(x)


def check_leaves(
    leaves: Sequence[Any], what: str, example: Any = None, names: Sequence[str] | None = None, given: bool = False,
    of: Any = None,
) -> None:  # fmt: skip
    """Every leaf must be an array or a number; `names`: of positional arguments, where static ones are another way.

    `given`: they are arguments, where what has labels is refused. `of`: a function, whose name follows `what` in messages.
    """
    for i, x in enumerate(leaves):
        kind = type(x)
        if kind is _ndarray and x.dtype.num in NUMBERS or kind is np.float64 or kind is Tracer or kind is AbstractOutput:
            continue
        if of is not None:
            what, of = f"{what} {name_of(of)}", None
        try:
            (argument_aval if given else aval_of)(x)
        except FuncadError:  # it says more than that x is no array
            raise
        except TypeError as error:
            paths = (example.tree if type(example) is OutTree else tree.structure(example)).paths()
            steps = paths[i] if i < len(paths) else ()
            path = f" at {tree.keystr(steps)}" if steps else ""
            if names is not None:  # of all arguments: (args, kwargs)
                path = f" {_argument_name(steps, names)}{tree.keystr(steps[2:])}"
            more = "" if "\nRemedy" in str(error) else _other_ways(x, what, steps, names, given)
            raise TypeError(f"{what}{path}: {error}{more}") from None


def _argument_name(steps: tuple[Any, ...], names: Sequence[str]) -> str:
    return str(steps[1].key if steps[0].idx else names[steps[1].idx])


def _other_ways(x: Any, what: str, steps: tuple[Any, ...], names: Sequence[str] | None, given: bool) -> str:
    """How x, which was refused, can be handed over all the same."""
    lines = objects.registering(x)
    if lines:
        return f"\nRemedy: make its class a pytree, so that its arrays are seen (docs/pytrees):\n{lines}"
    if isinstance(x, Iterator):
        return "\nRemedy: pass a list, list(x): a generator can be read only once."
    if type(x) in (set, frozenset):
        return "\nRemedy: pass a sorted list: a set has no order that a derivative could keep."
    if given and (names is None or not objects.is_static(x)):
        return _BIND
    if names is None:
        return "\nRemedy: return numbers and arrays; make text of them outside." if "output" in what and type(x) is str else ""
    if len(steps) > 2:
        return (
            "\nRemedy: pass it as an argument of its own, named by jit(..., static_argnames=...); or put it into a field of a "
            "dataclass or a SimpleNamespace, where it is part of the structure."
        )
    name = _argument_name(steps, names)
    option = f"static_argnames={name!r}" if name.isidentifier() else "static_argnums=..."
    return f"\nRemedy: jit(..., {option}) makes it part of the signature; it must be hashable."


_BIND = (
    "\nRemedy: leave it out of the arguments, in a closure: lambda x: f(x, option). If it holds arrays, its class must be a "
    "pytree: funcad.tree_util.register_pytree_node, docs/pytrees."
)


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


_UNSHARED = frozenset([Tracer, float, np.float64])
_FREE = 1 << 16  # bytes: a copy of so few takes no time beside a call


def own_memory(values: list[Any], outside: Sequence[Any] = (), orders: Sequence[Any] = ()) -> list[Any]:
    """Results for the user: `unshared`, in the machine's byte order, whatever was captured."""
    if _UNSHARED.issuperset(map(type, values)):
        return list(values)
    return unshared(ordinary(values), outside, orders)


def unshared(values: Sequence[Any], outside: Sequence[Any] = (), orders: Sequence[Any] = ()) -> list[Any]:
    """Results for the user: arrays that are writeable and share no memory with each other or with `outside` arrays.

    None keeps an array alive that is more than twice as large; a part of a small array is always a copy. `orders`: how some
    of them are to lie in memory, see `orders_of` in unjitted/strides.py.
    """
    if _ndarray not in map(type, values):
        return list(values)
    if orders:
        values = list(values)
        for i, axes in orders:
            x = values[i]
            if type(x) is _ndarray and not x.transpose(axes).flags.c_contiguous:
                if sorted(axes) == [*axes]:
                    values[i] = x.copy("C")
                else:
                    values[i] = np.empty_like(contiguous(x.shape, x.dtype, axes))
                    values[i][...] = x
    roots = set()
    for a in outside:
        if type(a) is Tracer:
            a = concrete_value(a)
        if type(a) is _ndarray:
            roots.add(id(a if a.base is None else root_of(a)))
    result = []
    for x in values:
        if type(x) is _ndarray:
            root = x if x.base is None else root_of(x)
            more = root.nbytes > x.nbytes and (root.nbytes <= _FREE or root.nbytes > 2 * x.nbytes)
            if id(root) in roots or not x.flags.writeable or more:
                x = root = x.copy("K")
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
    if kind is _ndarray:
        made, simple = [result], True
    else:
        made = []
        simple = _collect((result,), made)
        if simple and not made:
            return result
    outside = [*given, *_arrays_referred_to(f)]
    theirs: list[np.ndarray] = []
    if simple and _collect(outside, theirs):
        roots = {id(x) for x in made if x.base is None and x.ndim and x.flags.writeable}
        if len(roots) == len(made) and roots.isdisjoint([id(x if x.base is None else root_of(x)) for x in theirs]):
            return result  # the common case, at a glance
    leaves, structure = flat_values(result)
    if _ndarray not in map(type, leaves):
        return result
    outs = unshared(leaves, tree.leaves(outside))
    return result if all([o is x for o, x in zip(outs, leaves)]) else structure.unflatten(outs)


def _collect(items: Iterable[Any], arrays: list[np.ndarray], deepest: int = 8) -> bool:
    """Put the arrays in the items into a list; False if there is anything but arrays, numbers and Python's own containers."""
    for x in items:
        kind = type(x)
        if kind is _ndarray:
            arrays.append(x)
        elif kind in SCALAR_AVALS or x is None:
            continue
        elif not (kind is tuple or kind is list or kind is dict) or not deepest:
            return False
        elif not _collect(x.values() if kind is dict else x, arrays, deepest - 1):
            return False
    return True


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
    found += map(names.get, code.co_names)
    return [x for x in found if type(x) is _ndarray]


def tangent_aval(x: Any) -> Aval:
    aval = aval_of(x)
    return Aval(aval.shape, aval.dtype)


def check_tangents(
    primals: Any, tangents: Any, what: str, primal_name: str, tangent_name: str, beside: Sequence[Any] | None = None,
    given: bool = False,
) -> tuple[list, list, Any]:  # fmt: skip
    """Flatten both; check structure, shapes and dtypes. Integer primals take float0 (or are given as such): tangent None.

    Scalar tangents are moved to where the primals are, or the arrays in `beside`.
    """
    leaves, structure = tree.flatten(primals)
    check_leaves(leaves, f"{what}: {primal_name}", primals, given=given)
    found = check_flat(leaves, structure, tangents, what, primal_name, tangent_name, leaves if beside is None else beside)
    return leaves, found, structure


def check_flat(
    leaves: Sequence[Any], structure: Any, tangents: Any, what: str, primal_name: str, tangent_name: str, beside: Sequence[Any]
) -> list:
    """The leaves of the tangents of primals that are known to be arrays: what `check_tangents` does with them."""
    t_leaves, t_tree = tree.flatten(tangents)
    if structure is not t_tree and structure.fitting(tangents, t_leaves, t_tree) is None:
        raise TangentMismatchError(
            f"{what}: {tangent_name} must have the structure of {primal_name}.\n"
            + tree.describe_difference(structure, t_tree, primal_name, tangent_name)
        )
    result = []
    for i, (p, t) in enumerate(zip(leaves, t_leaves)):
        a = p.aval if type(p) is AbstractOutput or type(p) is Tracer else p
        b = t.aval if type(t) is Tracer else t
        if type(b) is Aval and not b.weak or type(b) is _ndarray and b.dtype.num in NUMBERS:  # the common case, at a glance
            fits = (type(a) is Aval or type(a) is _ndarray) and a.dtype is b.dtype and a.shape == b.shape
            if fits and b.dtype.kind in "fc":
                result.append(t)
                continue
        path = functools.partial(_path, structure, i)
        result.append(_checked_tangent(p, t, what, path, primal_name, tangent_name))
    if device_in_use():
        result = on_device_of(result, beside, scalars=True)
    return capture_as_inputs(result, beside)


def _path(structure: Any, i: int) -> str:
    return tree.keystr(structure.paths()[i])


def _checked_tangent(p: Any, t: Any, what: str, path: Callable[[], str], primal_name: str, tangent_name: str) -> Any:
    aval = aval_of(p)
    if not is_inexact(aval):
        dtype = getattr(t, "dtype", None)
        if dtype == float0 and t.shape == aval.shape:
            return None
        raise TangentMismatchError(
            f"{what}: {primal_name}{path()} is {aval:a}, which has no derivative, so {tangent_name}{path()} must be "
            f"{'None, or ' if what.startswith('bwd') else ''}np.zeros({aval.shape}, funcad.float0); got {said(t)}."
        )
    try:
        found = aval_of(t)
    except TypeError:
        found = None
    if found is None or found.shape != aval.shape:
        raise TangentMismatchError(
            f"{what}: {tangent_name}{path()} must have the shape of {primal_name}{path()}, {aval.shape}; got {said(t)}.\n"
            "Remedy: make it from that value, with np.ones_like or np.zeros_like, say."
        )
    if found.weak and np.can_cast(found.dtype, aval.dtype, "same_kind"):
        return aval.dtype.type(t) if not isinstance(t, Tracer) else convert_p(t, dtype=aval.dtype)  # tangents are strong
    if found.weak and found.dtype.kind in "iub" and not isinstance(t, Tracer):
        return aval.dtype.type(t)
    if found.dtype != aval.dtype:
        raise TangentMismatchError(
            f"{what}: {tangent_name}{path()} must have the dtype of {primal_name}{path()}, {aval.dtype}; got {said(t)}.\n"
            f"Remedy: .astype(np.{aval.dtype}); or make it from that value, with np.ones_like or np.zeros_like, say."
        )
    return t


def _which_argument(n_args: int, what: str) -> str:
    if n_args:
        return f"argnums counts from 0: the last one here is argnums={n_args - 1}"
    return f"pass the argument by position, as in {what}(f)(x); grad takes argnames='x' for one that is passed by name"


def check_function(f: Any, what: str) -> None:
    if not callable(f):
        raise TypeError(f"{what} takes a function, got {said(f)}.\nRemedy: {what}(f)(x) instead of {what}(f(x)).")


def check_second(f: Any, given: Any, what: str, option: str) -> None:
    """Is `what(f, x)` written for `what(f)(x)`? Then the option that comes second is an array, or a number with a fraction."""
    check_function(f, what)
    if type(given) in (float, complex, _ndarray, Tracer, dict) or is_a(given, np.inexact):
        raise TypeError(
            f"{what} takes a function and the option {option}, which cannot be {said(given)}; the arguments of the function "
            f"come in a call of their own.\nRemedy: {what}(f)(x) instead of {what}(f, x)."
        )


def normalize_argnums(argnums: Any, n_args: int, what: str) -> tuple[tuple[int, ...], bool]:
    """Non-negative positions and whether the user gave a single int."""
    single = not isinstance(argnums, (tuple, list, range))
    positions = []
    for i in (argnums,) if single else argnums:
        try:
            i = i.__index__()
        except AttributeError:
            remedy = f"argnames={i!r} names an argument" if isinstance(i, str) else "argnums=0 is the first argument"
            raise TypeError(
                f"{what}: argnums must be an int or a sequence of ints, got {argnums!r}.\nRemedy: {remedy}."
            ) from None
        if not -n_args <= i < n_args:
            raise ValueError(
                f"{what}: argnums={argnums!r} is out of range for {n_args} positional argument(s).\n"
                f"Remedy: {_which_argument(n_args, what)}."
            )
        positions.append(i % n_args)
    if len(set(positions)) != len(positions):
        raise ValueError(f"{what}: argnums={argnums!r} names an argument twice.\nRemedy: name each once.")
    return tuple(positions), single


def sees_order(f: Any) -> bool:
    """Can f tell in which order it was given keyword arguments?"""
    code = getattr(f, "__code__", None)
    return code is None or bool(code.co_flags & inspect.CO_VARKEYWORDS)


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


def with_aux(f: Callable[..., Any], box: dict) -> Callable[..., Any]:
    """f returning its output and, behind it, its auxiliary output (a pytree of anything)."""

    @functools.wraps(f)
    def both(*args: Any, **kwargs: Any) -> Any:
        out = checked_pair(f, runs(f)(*args, **kwargs))
        box["n"] = tree.structure(out[0]).num_leaves
        return out

    return both


def checked_pair(f: Any, out: Any, what: str = "output") -> tuple[Any, Any]:
    """What f has returned with has_aux=True: a tuple of two, or a list."""
    if not (isinstance(out, (tuple, list)) and len(out) == 2):
        raise TypeError(
            f"with has_aux=True, {name_of(f)} must return a pair ({what}, aux); it returned {said(out)}.\n"
            f"Remedy: return {what}, aux; more than one auxiliary value is one tuple, ({what}, (a, b))."
        )
    return out[0], out[1]


class AbstractOutput:
    """Shape and dtype of an output, kept by the pullback in place of the output itself."""

    __slots__ = ("aval",)

    def __init__(self, aval: Any):
        self.aval = aval


# -- pickling and copying what transforms return: by name where it has one, else as the transform of its function
#
# A function that `@jit` or `@vmap` decorates is found in its module under its own name, as plain functions are, and so are
# methods in their classes. `g = vmap(f)` becomes `vmap(f)` again in the process that loads it; programs are not pickled. So the
# function in it must pickle: lambdas and functions made inside others do not, and are refused here with the remedy, unless a
# pickler that copies functions by value (cloudpickle, dill) is at work; it copies those of `__main__` too, which is another
# module elsewhere. Trap: what holds values of one call (a pullback, the function that `linearize` returns) is no transform of a
# function and is not pickled.


_BY_VALUE = ("cloudpickle", "dill")


class Remade:
    """A function made of another one: it pickles, copies and binds to instances as `make(f)` made it."""

    __slots__ = ()
    shown: tuple[str, ...] = ()  # methods for users, which completion offers
    owners: tuple[type, ...] = ()  # the classes of which it is a method; `type`: it may be under @classmethod
    binds = True  # as a method it is the transform of the bound method
    defined: tuple[str, ...] = ()  # attributes with rules of the user's, who may define them again

    def __dir__(self) -> list[str]:
        return [name for name in object.__dir__(self) if name.startswith("__")] + [*self.shown]

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        """The function, and what makes this of it."""
        raise NotImplementedError

    def __reduce__(self) -> Any:
        copied = _copies_functions(sys._getframe(1))
        if _found_by_name(self) and not (copied and getattr(self, "__module__", None) == "__main__"):
            return self.__qualname__  # type: ignore[attr-defined]
        problem = "" if copied else _problem(self)
        if problem:
            raise pickle.PicklingError(
                f"a transformed function is pickled as its function, and {problem}.\nRemedy: define the function at the top "
                "level of a module; give it what it captured by functools.partial, or as arguments."
            )
        f, make = self.remaking()
        return make, (f,)

    def __copy__(self) -> Any:
        f, make = self.remaking()
        return make(f)

    def __deepcopy__(self, memo: Any) -> Any:
        f, make = self.remaking()
        return make(import_module("copy").deepcopy(f, memo))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        f = self.remaking()[0]
        if instance is None or not hasattr(type(f), "__get__") or f.__get__(instance, owner) is f:
            return self  # as f, which binds to nothing
        if not is_of(instance, self.owners):
            self.__set_name__(instance if isinstance(instance, type) else type(instance), "")
        return MethodType(self, instance)  # type: ignore[arg-type]

    def __set_name__(self, owner: type, name: str) -> None:
        """From now on `self(instance, x)` is the transform of the method, whoever calls it so."""
        self.owners += (owner,)  # type: ignore[misc]
        f = self.remaking()[0]
        if isinstance(f, Remade):
            f.__set_name__(owner, name)


def binds(transform: Function) -> Function:
    """A transform that is a decorator above @classmethod, @staticmethod and @property, too."""

    @functools.wraps(transform)
    def above(*args: Any, **kwargs: Any) -> Any:
        f = args[0] if args else None
        if type(f) is property and f.fget is not None:
            return property(transform(f.fget, *args[1:], **kwargs), f.fset, f.fdel, f.__doc__)
        if type(f) is classmethod or type(f) is staticmethod:
            return type(f)(transform(f.__func__, *args[1:], **kwargs))
        return transform(*args, **kwargs)

    return cast(Function, above)


_BINDS = binds.__code__.co_consts  # among them the code that stands before a transform


def is_method(f: Any) -> bool:
    """Was f defined in the body of a class?"""
    around = getattr(f, "__qualname__", "").rpartition(".")[0]
    return bool(around) and not around.endswith("<locals>")


def is_no_argument(x: Any, f: Any) -> bool:
    """Is x, on which the method f is called, an object of its own, whose attributes f reads and stores? Then programs know it
    by identity. Pytrees are arguments, but dataclasses in which f stores: a program would store in a copy."""
    cls = type(x)
    if cls is _ndarray or cls is Tracer or cls in SCALAR_AVALS:
        return False
    kind = containers.kind_of(cls)
    if kind is not None:
        while hasattr(f, "__wrapped__"):
            f = f.__wrapped__
        code = getattr(f, "__code__", None)
        if kind is not containers.OBJECT or code is None:
            return False
        return not _stored_by(code).isdisjoint(tree_same.held_by(x, tree_same.slots_of(cls)))
    try:
        aval_of(x)
    except TypeError:
        return True
    return False


@remembers(512)
def _stored_by(code: CodeType) -> frozenset[str]:
    """The names of the attributes that the code sets."""
    return frozenset([found.argval for found in dis.get_instructions(code) if found.opname == "STORE_ATTR"])


def is_of(x: Any, owners: tuple[type, ...]) -> bool:
    """Is x what a method of these classes is called on: an instance, or for class methods a class?"""
    return isinstance(x, owners) or isinstance(x, type) and issubclass(x, owners)


def of_method(wrapper: Remade, instance: Any) -> Any:
    """The transform of the method that f is for this instance; None if f is no method, or an option chooses the instance."""
    f, make = wrapper.remaking()
    if not isinstance(make, functools.partial) or make.args or not wrapper.binds:
        return None
    options = _without_self(make.keywords)
    binds = options is not None and hasattr(type(f), "__get__")
    bound = f.__get__(instance, type(instance)) if binds else f
    return None if bound is f else functools.partial(make.func, **options)(bound)  # type: ignore[arg-type]


def _without_self(given_options: dict[str, Any]) -> dict[str, Any] | None:
    """Options that count the parameters of a function as those of its method count them."""
    options: dict[str, Any] = dict(given_options)
    for name in ("argnums", "argnum", "static_argnums"):
        given: Any = options.get(name)
        if given is None:
            continue
        single = not isinstance(given, (tuple, list, range))
        numbers: list[Any] = [given] if single else list(given)
        if name == "static_argnums":  # a method's self is as it is
            single, numbers = False, [i for i in numbers if i != 0]
        elif 0 in numbers:
            return None
        shifted = [i - 1 if hasattr(i, "__index__") and i > 0 else i for i in numbers]
        options[name] = shifted[0] if single else tuple(shifted)
    axes = options.get("in_axes")
    if isinstance(axes, tuple):
        if not axes or axes[0] is not None:
            return None
        options["in_axes"] = axes[1:]
    return options


def with_rules(cls: Any, options: dict[str, Any], rules: list[Any], f: Any) -> Any:
    """A function of a class of custom rules, which are set after it has been made."""
    made = cls(f, **options)
    for name, rule in zip(cls.defined, rules):
        setattr(made, name, rule)
    return made


_SAYS = {  # the first line of what `help` says
    "vmap": "{}, mapped over an axis of its arguments.",
    "jacfwd": "Jacobian of {}, by forward mode.",
    "jacrev": "Jacobian of {}, by reverse mode.",
    "hessian": "Hessian of {}.",
    "make_jaxpr": "The program of {}, for arguments like those it is called with.",
    "doctor": "A report on the values and the derivatives of {}.",
    "laplacian": "Laplacian of {}.",
    "hessian_diagonal": "Diagonal of the Hessian of {}.",
}


class Transformed(Remade):
    """What a transform returns in place of a closure: `call`, under the name of f; `make(f)` is the transform again.

    `like` gives it its name and signature, if that is not f.
    """

    __slots__ = ("__call__", "_f", "_make", "__dict__", "__weakref__")
    __call__: Callable[..., Any]

    def __init__(self, call: Callable[..., Any], f: Any, make: functools.partial, like: Any = None):
        self.__call__ = call
        self._f = f
        self._make = make
        what, inner = self.parts()
        dress_as(self, f if like is None else like, _SAYS.get(what, "").format(inner))
        if type(f) is not MethodType and is_method(f):
            self.__set_name__(type, "")  # @classmethod hands a class over and says nothing before

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        if len(self.owners) > 1:
            return
        call, of = self.__call__, weakref.ref(self)

        def method(*args: Any, **kwargs: Any) -> Any:
            own: Any = of()
            bound = of_method(own, args[0]) if args and is_of(args[0], own.owners) else None
            return call(*args, **kwargs) if bound is None else bound(*args[1:], **kwargs)

        self.__call__ = method

    def __repr__(self) -> str:
        return "<{} of {}>".format(*self.parts())

    def parts(self) -> tuple[str, str]:
        """The name of the transform and what it is of; forward over reverse mode is the Hessian."""
        what, inner = name_of(self._make.func), self._f
        if what == "jacfwd" and isinstance(inner, Transformed) and name_of(inner._make.func) == "jacrev":
            return "hessian", called(inner._f)
        return what, called(inner)

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        return self._f, self._make


def _found_by_name(x: Any) -> bool:
    """Is x what its module has under its name?"""
    name = getattr(x, "__qualname__", None)
    found: Any = sys.modules.get(getattr(x, "__module__", None) or "")
    if found is None or not isinstance(name, str):
        return False
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is x


def _problem(f: Any) -> str:
    """Why pickle would refuse f; empty if it is not known to."""
    if isinstance(f, Remade):
        return "" if _found_by_name(f) else next(filter(None, map(_problem, f.remaking())), "")
    if isinstance(f, functools.partial):
        parts = tree.leaves((f.func, f.args, f.keywords))
        return next(filter(None, [_problem(x) for x in parts if callable(x)]), "")
    if type(f) is MethodType:
        owner = f.__self__ if isinstance(f.__self__, type) else type(f.__self__)
        known = _found_by_name(owner)
        return "" if known else f"the class {owner.__qualname__} of the method {f.__name__} is not found by its name"
    if type(f) is not FunctionType:
        return ""
    if _found_by_name(f):
        return ""
    if f.__name__ == "<lambda>":
        return "lambdas have no name to find them by"
    place = f"{f.__module__}.{f.__qualname__}"
    if "<locals>" in f.__qualname__:
        return f"{place} is made when another function runs"
    return f"{place} is now something else than the function of that name"


def _copies_functions(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BY_VALUE:
            return True
        frame = frame.f_back
    return False


# -- derivatives of jitted functions: `grad(jit(f))` is called as `jit(grad(f))`
#
# Idea: outside of other traces the two mean the same, and the second is one program, where the first is a recording around one
# that runs its function twice where Python decides by values (once to see which way). So what a transform returns for a jitted
# function has a jitted function of its own behind it, made when it is first wanted and kept by the jitted function, and asks
# that first. Where it must not be (a trace is open, an argument is no array or number, jit is disabled), that gives
# NotImplemented, and the transform goes on as for any function. Arguments may carry derivatives: to an outer derivative it is
# one operation.
#
# Trap: what is kept here must not refer to the jitted function that keeps it, or arrays that a dead function had captured would
# wait for the collector. So `make` is given the function that was jitted.


_makers: dict[type, Callable[..., Any]] = {}
with_compiled: set[type] = set()  # classes whose attribute `compiled` is what this gave for them


def derivatives_by(maker: Callable[..., Any], kind: type) -> None:
    """`maker(f, key, make, same)` is `derivative_of` for jitted functions of this type."""
    _makers[kind] = maker


def derivative_of(f: Any, key: Hashable, make: Callable[[Any], Any], same: bool = True) -> Any:
    """A jitted function for `make` of the function behind f; None if f is neither jitted nor the gradient of what is.

    `key` tells the transform and its options; `same`: does what `make` returns take the same arguments as f?
    """
    if type(f) in with_compiled:
        f = f.compiled
    maker = _makers.get(type(f))
    return None if maker is None else maker(f, key, make, same)
