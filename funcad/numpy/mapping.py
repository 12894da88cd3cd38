"""Python functions applied along axes, and positions in arrays: vectorize, apply_along_axis, unravel_index ..."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad.api.border import Transformed
from funcad.api.vmap import vmap
from funcad.host.conversions import needs_buffers
from funcad.host.devices import namespace_of
from funcad.host.real_types import is_a
from funcad.ir.aval import aval_of, shape_of
from funcad.ir.tracer import Tracer, concrete_value, has_value
from funcad.numpy import indexing
from funcad.numpy.dispatch import anew, implements, is_traced
from funcad.numpy.promote import array_of, as_array, axis_of, beside, fresh, result_dtype, shape_argument
from funcad.primitives.conversion import convert
from funcad.primitives.shape import broadcast_to, move_axis, reshape

_ARGUMENT = re.compile(r"\(([^()]*)\)")


def _core_names(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    sides = signature.replace(" ", "").split("->")
    if len(sides) != 2:
        raise ValueError(f"not a valid gufunc signature: {signature!r}")
    names = [[[d for d in inner.split(",") if d] for inner in _ARGUMENT.findall(side)] for side in sides]
    return names[0], names[1]


def vectorize(
    pyfunc: Any = None,
    otypes: Any = None,
    doc: str | None = None,
    excluded: Any = None,
    cache: bool = False,
    signature: str | None = None,
) -> Callable[..., Any]:
    """A function that broadcasts its arguments and maps `pyfunc` over their elements (or cores, given a gufunc signature).

    Unlike `numpy.vectorize` it calls `pyfunc` once, with traced values, by `vmap`: it is fast and differentiable, and `cache`
    has nothing to do. `excluded`: positions and names of arguments passed as they are; `otypes`: dtypes of the results.
    Also a decorator: `@vectorize`, `@vectorize(signature="(n)->()")`.
    `doc` is its docstring.

    >>> import numpy as np, funcad.numpy as fnp
    >>> fnp.vectorize(lambda a, b: a * b + 1.0)(np.arange(3.0), 2.0)
    array([1., 3., 5.])
    """
    if pyfunc is None:
        return functools.partial(vectorize, otypes=otypes, doc=doc, excluded=excluded, cache=cache, signature=signature)
    left_out = set(excluded or ())
    dtypes = None if otypes is None else [np.dtype(t) for t in otypes]

    def mapped(*args: Any, **kwargs: Any) -> Any:
        return cast(*broadcast_over(*args, **kwargs))

    def cast(result: Any, dtypes: Any) -> Any:
        if dtypes is None:
            return result
        results = result if isinstance(result, tuple) else (result,)
        if len(results) != len(dtypes):
            raise ValueError(f"vectorize: otypes has {len(dtypes)} entries, the function gives {len(results)} results")
        for r, t in zip(results, dtypes):
            if aval_of(array_of(r)).dtype.kind == "c":
                np.array(1j, t)  # NumPy's TypeError where t is real
        made = tuple([convert(array_of(r), t) for r, t in zip(results, dtypes)])
        return made if isinstance(result, tuple) else made[0]

    def broadcast_over(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        names = [k for k in kwargs if k not in left_out]  # keyword arguments are mapped too, as NumPy's
        kept = {k: v for k, v in kwargs.items() if k in left_out}
        fixed = {i: a for i, a in enumerate(args) if i in left_out}
        arrays = [array_of(a) for i, a in enumerate(args) if i not in left_out]
        arrays += [array_of(kwargs[k]) for k in names]
        ranks = [0] * len(arrays)
        if signature is not None:
            cores = _core_names(signature)[0]
            if len(cores) != len(arrays):
                raise TypeError(f"wrong number of positional arguments: expected {len(cores)}, got {len(arrays)}")
            ranks = [len(c) for c in cores]
        shapes = [shape_of(a) for a in arrays]
        loop = np.broadcast_shapes(*[s[: len(s) - r] for s, r in zip(shapes, ranks)])
        flat = []
        for a, s, r in zip(arrays, shapes, ranks):
            core = s[len(s) - r :]
            flat.append(reshape(broadcast_to(a, (*loop, *core)), shape=(int(np.prod(loop, dtype=np.int64)), *core)))

        def call(*values: Any) -> Any:
            it = iter(values)
            positional = [fixed[i] if i in fixed else next(it) for i in range(len(args))]
            found = pyfunc(*positional, **{k: next(it) for k in names}, **kept)
            seen.add(tuple([getattr(r, "dtype", type(r)) for r in (found if isinstance(found, tuple) else (found,))]))
            return found

        seen: set[tuple] = set()
        if not loop:
            found = call(*arrays)
            return tuple(map(fresh, found)) if type(found) is tuple else fresh(found), dtypes
        result, kinds = vmap(call)(*flat), dtypes
        if len(seen) > 1 and kinds is None:  # branches that differ: the first element says it
            first = call(*[a[0] for a in flat])
            kinds = [aval_of(array_of(r)).dtype for r in (first if isinstance(first, tuple) else (first,))]
        if isinstance(result, tuple):
            return tuple([anew(np.reshape(r, (*loop, *shape_of(r)[1:]))) for r in result]), kinds
        return anew(np.reshape(result, (*loop, *shape_of(result)[1:]))), kinds

    options = {"otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature}
    found = Transformed(mapped, pyfunc, functools.partial(vectorize, **options))
    if doc is not None:
        found.__doc__ = doc
    return found


@implements("apply_along_axis")
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    x = array_of(arr)
    axis = axis_of(axis, len(shape_of(x)))
    outer = (*shape_of(x)[:axis], *shape_of(x)[axis + 1 :])
    if type(x) is Tracer and not has_value(x) and not needs_buffers(func1d):
        lines = move_axis(x, axis, len(shape_of(x)) - 1)
        lines = reshape(lines, shape=(int(np.prod(outer, dtype=np.int64)), shape_of(lines)[-1]))
        result = vmap(lambda line: func1d(line, *args, **kwargs))(lines)
    else:  # the function may write into what it gets, which are views
        results = []
        for i in np.ndindex(*outer):
            line = indexing.getitem(arr if type(arr) is Tracer else x, (*i[:axis], slice(None), *i[axis:]))
            results.append(func1d(line, *args, **kwargs))
        if not results:
            raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
        result = np.stack(results)
    inner = shape_of(result)[1:]
    result = anew(np.reshape(result, (*outer, *inner)))  # NumPy fills a buffer, whose axes it moves
    return np.moveaxis(result, range(len(outer), len(outer) + len(inner)), range(axis, axis + len(inner)))


@implements("apply_over_axes", alias="same")
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Any:
    x = array_of(a)
    ndim = len(shape_of(x))
    for axis in np.atleast_1d(axes):
        result = func(x, int(axis) % ndim)
        x = result if len(shape_of(result)) == ndim else np.expand_dims(result, int(axis) % ndim)
    return x


@implements("diag_indices_from")
def diag_indices_from(arr: Any) -> tuple:
    shape = shape_of(array_of(arr))
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) != 1:
        raise ValueError("All dimensions of input must be of equal length")
    return np.diag_indices(shape[0], len(shape))


def _triangle(name: str) -> Any:
    def implementation(arr: Any, k: int = 0) -> tuple:
        shape = shape_of(array_of(arr))
        if len(shape) != 2:
            raise ValueError("input array must be 2-d")
        return getattr(np, name)(shape[0], k, shape[1])

    implementation.__name__ = name
    return implements(f"{name}_from")(implementation)


tril_indices_from, triu_indices_from = _triangle("tril_indices"), _triangle("triu_indices")


class _Joiner:
    """`r_[...]` and `c_[...]`: rows or columns put together by an index expression, traced values among them.

    NumPy rearranges positions instead of the elements, which are then taken: every directive string means what it means there.
    """

    def __init__(self, numpys: Any):
        self._numpys = numpys

    def __getitem__(self, key: Any) -> Any:
        entries = key if isinstance(key, tuple) else (key,)
        if not is_traced(entries) and namespace_of(entries) is np:
            return self._numpys[key]
        parts: list[Any] = []
        places: list[Any] = []
        at = 0
        for e in entries:
            if isinstance(e, str):
                places.append(e)
                continue
            part = self._numpys[e].reshape(-1) if isinstance(e, slice) else as_array(e)
            n = int(np.prod(shape_of(part), dtype=np.int64))
            places.append((at + np.arange(n)).reshape(shape_of(part)) if shape_of(part) else at)
            parts.append(part)
            at += n
        order = self._numpys[tuple(places)]
        if is_a(order, np.matrix):
            raise TypeError(
                "np.r_['r', ...] and np.r_['c', ...] make matrices, which cannot be traced.\nRemedy: leave the letter out."
            )
        dtype = result_dtype(parts)[0]
        shaped = next((p for p in parts if shape_of(p) and namespace_of([concrete_value(p)]) is not np), None)
        flat = [reshape(convert(array_of(p), dtype), shape=(aval_of(p).size,)) for p in parts]
        joined = np.concatenate([f if shaped is None else beside(f, shaped) for f in flat])
        return indexing.getitem(joined, beside(order, joined))

    def __len__(self) -> int:
        return 0


r_, c_ = _Joiner(np.r_), _Joiner(np.c_)


@implements("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple:
    """`numpy.unravel_index`; inside jit, positions out of bounds are not noticed."""
    index = array_of(indices)
    if aval_of(index).dtype.kind not in "iu":
        raise TypeError("only int indices permitted")
    index = convert(index, np.dtype(np.intp))
    sizes = shape_argument(shape)
    places = []
    for n in sizes[::-1] if order == "C" else sizes:
        places.append(np.remainder(index, n))
        index = np.floor_divide(index, n)
    return tuple(places[::-1] if order == "C" else places)


@implements("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """`numpy.ravel_multi_index`; inside jit, positions out of bounds are not noticed (mode="raise")."""
    sizes = shape_argument(dims)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    result: Any = 0
    entries = [array_of(m) for m in multi_index]
    if any(aval_of(m).dtype.kind not in "iu" for m in entries):
        raise TypeError("only int indices permitted")
    entries = [convert(m, np.dtype(np.intp)) for m in entries]
    steps = list(zip(entries, sizes, modes))
    for index, n, how in steps if order == "C" else steps[::-1]:
        if how == "wrap":
            index = np.remainder(index, n)
        elif how == "clip":
            index = np.clip(index, 0, n - 1)
        result = result * n + index
    return result
