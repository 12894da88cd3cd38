"""`vmap`: the border of batching. Axes are moved to 0 on the way in and to `out_axes` on the way out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.grad import Gradient
from funcad.api.split_batch import Asked, HeldOutput, Trial, asking, asks, learn, may_split, outer_trial, run_split
from funcad.errors import AxesMismatchError, FuncadError
from funcad.host.conversions import begins_plainly, plainly
from funcad.host.real_types import is_a, ordinary
from funcad.host.where import setting, state
from funcad.ir.aval import Aval, aval_of, said
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import plain_values, trace_function
from funcad.memo import remembers
from funcad.primitives.placement import capture_as_inputs, on_device_of
from funcad.primitives.shape import broadcast_leading, concatenate, move_axis, static_slice
from funcad.transforms.batch import batch_eval
from funcad.unjitted.strides import Given

from funcad.api.border import (  # isort: skip
    OutTree, Transformed, api, binds, check_leaves, check_second, flat_function, name_of, own_memory, unshared, with_truths,
)


@api
@binds
def vmap(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """Map a function of one example over an axis of its arguments, as one batched program.

    Parameters
    ----------
    f : callable
        A function of one example.
    in_axes : int, None or tuple
        Which axis of the arguments to map over; None passes an argument whole. A tuple has one entry for each
        positional argument: an int, None, or a container of them with the leading structure of the argument. Keyword
        arguments are mapped over axis 0.
    out_axes : int, None or container
        Where the mapped axis stands in the result; likewise. None is allowed where the output is the same for all
        examples.
    axis_name : hashable, optional
        A name of the axis for collectives in f (`psum`, `axis_index` ...).
    axis_size : int, optional
        The number of examples; needed only if nothing is mapped.
    chunk_size : int, optional
        How many examples to handle at a time; all by default. A small number needs less memory.

    Returns
    -------
    callable
        It takes the arguments of f with the mapped axis. Each leaf of the result has it, too.

    Raises
    ------
    AxesMismatchError
        When it is called, and the sizes of mapped axes differ; the message names the paths.
    TreeMismatchError, LanesError
        Examples that went other ways through f return other structures, or other shapes.

    Notes
    -----
    Outside `jit`, Python's `if`, `while`, `int(x)`, `range(n)`, `float(x)` and `try` see the values. Where examples
    disagree, the batch is split, and f runs once for each way through it; JAX raises. With such control flow,
    `debug.print` and `io_callback` happen for one example after the other, and Python's own side effects once for each
    run of f. A collective needs all examples (else LanesError). In `jit`, `if` on values raises
    TracerBoolConversionError.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.vmap(lambda x, y: x @ y, in_axes=(0, None))(np.eye(2), np.array([3.0, 4.0]))
    array([3., 4.])
    >>> funcad.vmap(lambda x: x if x > 0 else 0.0)(np.array([-1.0, 2.0]))
    array([0., 2.])
    >>> share = lambda row: row / funcad.psum(row, "rows")
    >>> funcad.vmap(share, axis_name="rows", out_axes=1)(np.array([[1.0, 3.0], [1.0, 1.0]]))
    array([[0.5 , 0.5 ],
           [0.75, 0.25]])

    See also
    --------
    map, jit, grad, psum
    """
    check_second(f, in_axes, "vmap", "in_axes")
    if chunk_size is not None and not hasattr(chunk_size, "__index__"):
        raise TypeError(f"vmap: chunk_size must be an int, got {said(chunk_size)}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size must be at least 1, got {chunk_size}")
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @api
    def mapped(*args: Any, **kwargs: Any) -> Any:
        if isinstance(in_axes, tuple) and len(in_axes) != len(args):
            raise AxesMismatchError(
                f"vmap of {name_of(f)}: in_axes={in_axes!r} has {len(in_axes)} entries, but the function was called with "
                f"{len(args)} positional argument(s).\n"
                f"Remedy: one entry per argument, as in_axes={_entries(in_axes, len(args))}; or a single int."
            )
        size = None if kwargs or axis_size is not None else _size_of_plain(args, in_axes)
        at_a_glance = size is not None  # the most common call
        if size is not None:
            leaves, in_tree = list(args), _tree_of(len(args))
            batched = [True] * len(args) if in_axes == 0 else [a is not None for a in in_axes]
        else:
            leaves, in_tree = tree.flatten((args, kwargs))
            check_leaves(leaves, f"vmap of {name_of(f)}: argument", (args, kwargs), given=True)
            args_tree, kwargs_tree = in_tree.children()
            axes = tree.flatten_axes("in_axes", args_tree, in_axes) + [0] * kwargs_tree.num_leaves
            axes = [_normalize(a, x, i, f, (args, kwargs)) for i, (a, x) in enumerate(zip(axes, leaves))]
            size = _mapped_size(f, leaves, axes, axis_size, (args, kwargs))
            leaves = [x if a is None else move_axis(x, a, 0) for x, a in zip(ordinary(plain_values(leaves)), axes)]
            batched = [a is not None for a in axes]
        run = functools.partial(_run, f, in_tree, out_axes, axis_name, at_a_glance)
        if chunk_size is None or chunk_size >= size:
            return run(leaves, batched, size)
        if axis_name is not None:
            raise ValueError("vmap: chunk_size cannot be combined with axis_name: a collective needs the whole axis at once")
        return _chunked(run, leaves, batched, size, chunk_size, out_axes)

    options = {"in_axes": in_axes, "out_axes": out_axes, "axis_name": axis_name, "axis_size": axis_size}
    return Transformed(mapped, f, functools.partial(vmap, **options, chunk_size=chunk_size))


_PLAIN = frozenset(map(np.dtype, "?bhilqBHILQfdFD"))


def _size_of_plain(args: tuple, in_axes: Any) -> int | None:
    """The size, of arrays of ordinary dtypes that are mapped over axis 0, or not at all; None: each has to be looked at."""
    size = None
    for x, a in zip(args, in_axes if type(in_axes) is tuple else (in_axes,) * len(args)):
        if type(x) is not np.ndarray or x.dtype not in _PLAIN:
            return None
        if a is not None:
            if type(a) is not int or a or not x.ndim or size is not None and x.shape[0] != size:
                return None
            size = x.shape[0]
    return size


@remembers(64)
def _tree_of(n: int) -> Any:
    """The structure of n leaves as arguments."""
    return tree.structure(((0,) * n, {}))


def _entries(in_axes: tuple, n: int) -> tuple:
    """in_axes with as many entries as there are arguments."""
    return (*in_axes, *[None] * n)[:n]


def _normalize(axis: Any, x: Any, i: int, f: Any, example: Any) -> int | None:
    if axis is None:
        return None
    ndim = len(aval_of(x).shape)
    if is_a(axis, bool) or not hasattr(axis, "__index__"):
        raise AxesMismatchError(f"vmap of {name_of(f)}: in_axes must hold ints and None, got {axis!r}.\nRemedy: in_axes=0.")
    if not -ndim <= axis < ndim:
        path = _argument_path(example, i)
        raise AxesMismatchError(
            f"vmap of {name_of(f)}: in_axes asks for axis {axis} of {path}, which is {said(x)}.\n"
            f"Remedy: {f'an axis below {ndim}, or ' if ndim else ''}None in in_axes, for an argument that is not mapped."
        )
    return axis.__index__() % ndim


def _argument_path(example: Any, i: int) -> str:
    path = tree.flatten_with_path(example)[0][i][0]
    is_keyword = path[0].idx == 1 if hasattr(path[0], "idx") else False
    return f"{'keyword argument' if is_keyword else 'argument'} {tree.keystr(path[1:])}"


def _mapped_size(f: Any, leaves: list, axes: list, axis_size: int | None, example: Any) -> int:
    sizes = {i: aval_of(x).shape[a] for i, (x, a) in enumerate(zip(leaves, axes)) if a is not None}
    if not sizes:
        if axis_size is None:
            raise AxesMismatchError(
                f"vmap of {name_of(f)}: no argument is mapped, so the size is unknown.\n"
                "Remedy: in_axes=0 for what is to be mapped; or axis_size=n, for n equal results."
            )
        return axis_size
    distinct = set(sizes.values())
    if axis_size is not None:
        distinct.add(axis_size)
    if len(distinct) > 1:
        lines = [f"  {_argument_path(example, i)} has size {n} along axis {axes[i]}" for i, n in sizes.items()]
        if axis_size is not None:
            lines.append(f"  axis_size={axis_size}")
        lines.append("Remedy: None in in_axes, for an argument that is not mapped.")
        raise AxesMismatchError(f"vmap of {name_of(f)}: mapped axes must have equal sizes, but\n" + "\n".join(lines))
    return distinct.pop()


def _run(
    f: Any, in_tree: Any, out_axes: Any, axis_name: Any, arrays: bool, leaves: list, batched: list, size: int
) -> Any:
    if state.lane is not None:  # inside, this batch is that of rules
        with setting(lane=None):
            return _run(f, in_tree, out_axes, axis_name, arrays, leaves, batched, size)
    store = OutTree()
    found: Any = None
    first = type(out_axes) is int and out_axes == 0
    # a gradient of arrays of what is a plain function is run on all lanes at a glance
    if arrays and type(f) is Gradient and axis_name is None and state.abstract is None and state.lender is state.observer:
        g = f.f
        plain = type(g) is FunctionType and (id(g.__code__) in plainly if g.__closure__ is None else begins_plainly(g))
        if plain and g.__code__ not in asking and not hasattr(g, "__wrapped__"):
            found = run_split(f, in_tree, None, store, leaves, batched, size, None, True)
            if found is not None and first and store.tree is tree.LEAF and found[1][0]:
                return unshared(found[0], leaves)[0]
    if found is None:
        flat = flat_function(f, in_tree, store, f"vmap of {name_of(f)}", arrays)
        if not arrays:
            flat = with_truths(flat, leaves, batched)
        outs, out_batched, consts = _outs(f, in_tree, flat, store, axis_name, leaves, batched, size)
    else:
        outs, out_batched = found
        consts = []
    axes = [0] * len(outs) if first else tree.flatten_axes("out_axes", store.tree, out_axes)
    result = []
    for i, (x, b, a) in enumerate(zip(outs, out_batched, axes)):
        result.append(x if first and b else _place_axis(x, b, a, size, f, store.tree, i))
    return store.tree.unflatten(own_memory(result, [*consts, *leaves]))


def _outs(
    f: Any, in_tree: Any, flat: Any, store: OutTree, axis_name: Any, leaves: list, batched: list, size: int
) -> tuple[list, list, list]:
    """Results of f, which of them are batched, and what it captured.

    f is traced without values, unless it is a gradient. Where Python's control flow asks for one, or an operation raises for
    some lanes, it runs again with values (split_batch.py). Nothing has happened by then.
    """
    if not may_split(leaves):
        return _traced(flat, axis_name, leaves, batched, size, outer_trial(leaves), lambda jaxpr: None)
    known, found = asks(f), None
    if known or type(f) is Gradient:  # whose rows are written of values, unless it has effects
        found = run_split(f, in_tree, flat, store, leaves, batched, size, axis_name, not known)
    if found is None:
        trial = Trial()
        with HeldOutput() as held:
            try:
                return _traced(flat, axis_name, leaves, batched, size, trial, trial.ends)
            except (Asked, Exception) as error:  # a `finally` of the user's may have raised after it had asked
                if isinstance(error, Asked) and error.trial is not trial:
                    raise
                if not trial.asked and (isinstance(error, FuncadError) or not trial.repeatable):
                    raise
                held.stands = False
                if trial.asked:
                    learn(f)
        found = run_split(f, in_tree, flat, store, leaves, batched, size, axis_name)
    return (*found, [])


def _traced(
    flat: Any, axis_name: Any, leaves: list, batched: list, size: int, trial: Trial | None, ends: Callable[[Jaxpr], None]
) -> tuple[list, list, list]:
    avals = [aval_of(x).unbatched() if b else aval_of(x) for x, b in zip(leaves, batched)]
    if axis_name is not None:
        return _run_named(flat, avals, axis_name, leaves, batched, size, trial, ends)
    jaxpr, consts = trace_function(flat, avals, name="vmap", errstate="kept", given=Given(leaves, batched), recorder=trial)
    ends(jaxpr)
    consts = capture_as_inputs(on_device_of(consts, leaves), leaves)
    return (*batch_eval(jaxpr, size, [*consts, *leaves], [False] * len(consts) + batched), consts)


def _run_named(
    flat: Any, avals: list, axis_name: Any, leaves: list, batched: list, size: int, trial: Any, ends: Callable[[Jaxpr], None]
) -> tuple[list, list, list]:
    """With a named axis, the index within the axis is a hidden batched input."""
    index = np.arange(size)
    outer = state.axis_env

    def with_index(i: Any, *xs: Any) -> list[Any]:
        with setting(axis_env=(*outer, (axis_name, size, i))):
            return flat(*xs)

    given = Given([index, *leaves], [True, *batched])
    avals = [Aval((), index.dtype), *avals]
    jaxpr, consts = trace_function(with_index, avals, name="vmap", errstate="kept", given=given, recorder=trial)
    ends(jaxpr)
    with setting(batching=axis_name):
        consts = capture_as_inputs(on_device_of([*consts, index], leaves), leaves)
        return (*batch_eval(jaxpr, size, [*consts, *leaves], [False] * (len(consts) - 1) + [True] + batched), consts)


def _place_axis(x: Any, is_batched: bool, axis: Any, size: int, f: Any, out_tree: Any, i: int) -> Any:
    shape = aval_of(x).shape
    ndim = len(shape) + (not is_batched)
    if axis is None:
        if is_batched:
            raise AxesMismatchError(
                f"vmap of {name_of(f)}: out_axes is None for the {_output(out_tree, i)}, but it depends on a mapped argument.\n"
                "Remedy: out_axes=0; or reduce over the axis with a collective, as funcad.psum."
            )
        return x
    if is_a(axis, bool) or not hasattr(axis, "__index__") or not -ndim <= axis < ndim:
        raise AxesMismatchError(
            f"vmap of {name_of(f)}: out_axes={axis!r} does not fit the {_output(out_tree, i)}, which has {ndim} axes with the "
            "mapped one.\n"
            f"Remedy: out_axes=0, or another int below {ndim}."
        )
    return move_axis(x if is_batched else broadcast_leading(x, size), 0, axis.__index__() % ndim)


def _output(out_tree: Any, i: int) -> str:
    path = tree.keystr(tree.flatten_with_path(out_tree.unflatten(range(out_tree.num_leaves)))[0][i][0])
    return f"output{' at ' + path if path else ''}"


def _chunked(run: Any, leaves: list, batched: list, size: int, chunk_size: int, out_axes: Any) -> Any:
    parts: list[Any] = []
    structure: Any = None
    for start in range(0, size, chunk_size):
        stop = min(size, start + chunk_size)
        chunk = [static_slice(x, start, stop) if b else x for x, b in zip(leaves, batched)]
        part, structure = tree.flatten(run(chunk, batched, stop - start))
        parts.append(part)
    axes = tree.flatten_axes("out_axes", structure, out_axes)
    joined = []
    for column, axis in zip(zip(*parts), axes):
        if axis is None:
            joined.append(column[0])
        else:
            joined.append(concatenate(column, axis=axis % len(aval_of(column[0]).shape)))
    return structure.unflatten(joined)
