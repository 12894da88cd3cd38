"""Groups of small examples (kind "batch") on NumPy: a block of examples at a time, the examples along the last axis.

Idea: NumPy is slow on arrays whose last axis is a few elements long, since that axis is its inner loop. So a block of examples
is copied with the batch as the last axis, the group's program is rewritten for such arrays (`turned`), and what it computes
stays in the processor's cache until the results are copied back. Invariants: the last block overlaps the one before it, and
writes the same bits again; blocks are the same whatever the number of threads. Trap: a product becomes a sum of products in
the order of the axes, not a call of BLAS, which has nothing to gain from a few elements.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import Any

import numpy as np

from funcad.backends.memory import Storage, Value
from funcad.backends.text import Block
from funcad.configuration import config
from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Var
from funcad.passes.example_loops import layouts, turns
from funcad.primitives.arithmetic import mul
from funcad.primitives.reduction import reduce_sum_p
from funcad.primitives.shape import broadcast_in_dim, transpose

# -- threads that share the tiles of one large loop
#
# Idea: NumPy releases the interpreter's lock inside its loops, so two threads halve the time of transcendental tiles. The
# threads are made at the first use, kept, and made anew in a forked child, which has none of them. Each task runs in a copy of
# the caller's context, because NumPy's floating-point error mode is a context variable. Invariant: the parts are those of one
# thread, in the same order, so results that are collected tile by tile do not depend on the number of threads. Trap: a task
# that itself asks for threads would wait for a free one for ever; it gets its own.


_pool: list[Any] = []  # [executor, its threads]
_guard = threading.Lock()
_inside = threading.local()


def thread_count() -> int:
    """Threads that one program may use: `funcad.config.threads`, by default the cores of this process.

    >>> from funcad.backends.batches import thread_count
    >>> thread_count() >= 1
    True
    """
    if config.threads is not None:
        return max(config.threads, 1)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def _executor(threads: int) -> Any:
    with _guard:
        if not _pool or _pool[1] < threads:
            _pool[:] = [ThreadPoolExecutor(threads, thread_name_prefix="funcad"), threads]
        return _pool[0]


def parallel(run: Callable[..., Any], count: int, step: int, *args: Any) -> list[Any]:
    """`[run(0, m, *args), run(m, 2 * m, *args), ...]` over `count` items, in threads; shares are multiples of `step`.

    A share that its thread has not begun when the first one is done is done here: on a crowded machine threads get no core.

    >>> from funcad.backends.batches import parallel
    >>> sum(parallel(lambda low, high: high - low, 1000, 10))
    1000
    """
    tiles = -(-count // step)
    threads = 1 if getattr(_inside, "busy", False) else min(thread_count(), tiles)
    if threads <= 1:
        return [run(0, count, *args)]
    bounds = [min(count, step * (tiles * k // threads)) for k in range(threads)] + [count]

    def task(low: int, high: int) -> Any:
        _inside.busy = True
        try:
            return run(low, high, *args)
        finally:
            _inside.busy = False

    pool = _executor(threads - 1)
    try:
        futures = [pool.submit(contextvars.copy_context().run, task, bounds[k], bounds[k + 1]) for k in range(1, threads)]
    except RuntimeError:  # the interpreter is shutting down: no new threads
        return [run(0, count, *args)]
    found: list[Any] = [None] * threads
    try:
        found[0] = run(bounds[0], bounds[1], *args)
        for k, future in enumerate(futures, 1):
            if future.cancel():
                found[k] = run(bounds[k], bounds[k + 1], *args)
    finally:
        for future in futures:  # also if a share failed: the others write into the caller's arrays
            if not future.cancel():
                future.exception()
    return [found[0], *[found[k] if future.cancelled() else future.result() for k, future in enumerate(futures, 1)]]


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    _pool.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


# -- groups of small examples (kind "batch") on NumPy


BLOCK_BYTES = 384 * 1024  # of the largest value of a block
LEAST = 1 << 14  # elements of the largest value of the whole batch, below which blocks do not pay
THREADED = 300_000  # elements that are computed, from which on threads pay


def write(e: Any, equation: Equation, operands: list[Value], env: dict, rows: dict) -> bool:
    """Write the group as a loop over blocks, unless it is too small for them; `e` is the Emission."""
    w, params = e.w, equation.params
    group, (size,) = params["jaxpr"], params["shape"]
    widest = max([prod(v.aval.shape[1:]) * v.aval.dtype.itemsize for q in group.equations for v in q.outputs])
    if widest * size < 8 * LEAST:
        return False
    block = min(size, max(64, BLOCK_BYTES // widest))
    name, arrays, results = w.reserve("examples"), [w.name("a") for _ in group.inputs], [w.name("o") for _ in group.outputs]
    saved = e.frame, e.depth, w.block, e.doomed
    function = Block(0)
    w.functions.append(function)
    w.block, e.depth, e.doomed = function, 1, []
    w.line(f"def {name}(low, high, {', '.join([*arrays, *results])}):")
    with w.within(w.inner()):
        e.frame = e.new_frame(w.aside())
        w.line(f"for i in range(low, high, {block}):")
        with w.within(w.inner()):
            if size % block:
                w.line(f"i = min(i, {size - block})")
            w.line(f"j = i + {block}")
            _write_block(e, group, turned(group, block), arrays, results)
    e.frame, e.depth, w.block, e.doomed = saved
    found = [w.name() for _ in group.outputs]
    for text, v in zip(found, group.outputs):
        w.line(f"{text} = {e.empty(v.aval.shape, v.aval.dtype)}")
    rest = ", ".join([*[v.text for v in operands], *found])
    computed = sum([prod(q.outputs[0].aval.shape) for q in group.equations if q.primitive.emit is not None])
    if computed >= THREADED and w.np == "np":
        w.line(f"{w.helper('parallel', parallel)}({name}, {size}, {block}, {rest})")
    else:
        w.line(f"{name}(0, {size}, {rest})")
    for v, text in zip(equation.outputs, found):
        env[v] = e.value(text, v.aval, [Storage(True)], whole=True)
    e.store(equation.outputs, env, rows)
    return True


def _write_block(e: Any, group: Jaxpr, inside: Jaxpr, arrays: list[str], results: list[str]) -> None:
    """The body of the loop: copies of the inputs, the program, whose results go where they belong."""
    w, env, rows = e.w, {}, {}
    for name, v, outer, layout in zip(arrays, inside.inputs, group.inputs, layouts(group)):
        ndim = len(outer.aval.shape)
        if layout == "first" and ndim > 1:
            text, storage = e.scratch(v.aval)
            w.line(f"{text}[...] = {_block_of(name, ndim)}")
            env[v] = e.value(text, v.aval, [storage], whole=True)
            continue
        text = name
        if layout == "shared":
            e.counts[text] += 1  # the next block reads it, too
        else:
            text = w.name("x")
            w.line(f"{text} = {name}[{'..., ' if layout == 'last' else ''}i:j]")
        env[v] = e.value(text, v.aval, [Storage(False)])
    for name, o in zip(results, inside.outputs):
        tile = w.name("t")
        w.line(f"{tile} = {_block_of(name, len(o.aval.shape))}")
        e.counts[tile] += 1
        rows.setdefault(o, []).append(e.row(tile, True))
    e.equations(e.lowered(inside), env, inside.outputs, rows)
    e.drop_none()


def _block_of(name: str, ndim: int) -> str:
    """A block of examples, the examples along the last axis."""
    return f"{name}[i:j]" + ("" if ndim == 1 else ".T" if ndim == 2 else f".transpose({(*range(1, ndim), 0)})")


def turned(jaxpr: Jaxpr, size: int) -> Jaxpr:
    """A group for `size` examples, all values having the batch as their last axis."""
    new: dict[Any, Any] = {}
    equations: list[Equation] = []
    for v, layout in zip(jaxpr.inputs, layouts(jaxpr)):
        inner = v.aval.shape[1:] if layout == "first" else v.aval.shape[:-1]
        new[v] = v if layout == "shared" else _var((*inner, size), v.aval.dtype)
    for equation in jaxpr.equations:
        (out,) = equation.outputs
        if equation.primitive.name == "transpose" and turns(equation):
            new[out] = new[equation.inputs[0]]
            continue
        new[out] = _var((*out.aval.shape[1:], size), out.aval.dtype)
        inputs = [new.get(a, a) for a in equation.inputs]
        if equation.primitive.name == "dot_general":
            equations += _product(equation, inputs, new[out], size)
            continue
        params = _params(equation, size)
        equations.append(Equation(equation.primitive, tuple(inputs), params, (new[out],), equation.source))
    return Jaxpr(tuple([new[v] for v in jaxpr.inputs]), tuple(equations), tuple([new[o] for o in jaxpr.outputs]))


def _var(shape: tuple, dtype: np.dtype) -> Var:
    return Var(Aval(shape, dtype))


def _turn(items: tuple, last: Any = None) -> tuple:
    """The first item as the last, or `last` in its place."""
    return (*items[1:], items[0] if last is None else last)


def _params(equation: Equation, size: int) -> dict[str, Any]:
    """An equation's params with the batch as the last axis."""
    name, params = equation.primitive.name, dict(equation.params)
    if equation.primitive.emit is not None:
        return params
    whole = (0, size, 1)
    end = len(equation.outputs[0].aval.shape) - 1
    if name == "broadcast_in_dim":
        params["shape"] = _turn(params["shape"], size)
        axes = tuple([axis - 1 if axis else end for axis in params["axes"]])
        params["axes"] = (*axes[1:], end) if params["axes"][:1] == (0,) else axes
    elif name == "reshape":
        params["shape"] = _turn(params["shape"], size)
    elif name == "transpose":
        params["perm"] = tuple([axis - 1 if axis else end for axis in _turn(params["perm"])])
    elif name in ("basic_index", "basic_place", "basic_update"):
        params["index"] = _turn(params["index"], whole)
    elif name == "place_sum":
        params["indices"] = tuple([_turn(index, whole) for index in params["indices"]])
    elif name == "slice":
        params["start"], params["limit"] = _turn(params["start"]), _turn(params["limit"], size)
        params["strides"] = params["strides"] and _turn(params["strides"])
    elif name == "pad":
        params |= {key: _turn(params[key]) for key in ("low", "high", "interior")}
    elif name == "concatenate":
        params["axis"] -= 1
    else:  # rev and the reductions
        params["axes"] = tuple([axis - 1 for axis in params["axes"]])
    if name in ("basic_place", "place_sum"):
        params["shape"] = _turn(params["shape"], size)
    return params


def _product(equation: Equation, inputs: list[Any], out: Var, size: int) -> list[Equation]:
    """A product as a sum of products: axes of both, of the first, of the second, summed ones, batch."""
    (cx, cy), (bx, by) = equation.params["dimension_numbers"]
    x, y = equation.inputs
    free_x = [i for i in range(1, x.aval.ndim) if i not in (*cx, *bx)]
    batch_y = bool(by)
    free_y = [i for i in range(batch_y, y.aval.ndim) if i not in (*cy, *by)]
    order_x = [*bx[1:], *free_x, *cx]
    shape = [x.aval.shape[i] for i in [*bx[1:], *free_x]] + [y.aval.shape[i] for i in free_y]
    n = len(shape)
    shape += [x.aval.shape[i] for i in cx] + [size]
    place_x = dict(zip(order_x, [*range(n - len(free_y)), *range(n, len(shape) - 1)]))
    place_y = dict(zip([*by[1:], *free_y, *cy], [*range(len(by[1:])), *range(n - len(free_y), len(shape) - 1)]))
    axes_x = [place_x[i] for i in range(1, x.aval.ndim)] + [len(shape) - 1]
    axes_y = [place_y[i] for i in range(batch_y, y.aval.ndim)] + [len(shape) - 1] * batch_y
    equations, terms = [], []
    for v, axes in zip(inputs, (axes_x, axes_y)):
        order = sorted(range(len(axes)), key=axes.__getitem__)
        if order != list(range(len(axes))):  # broadcast_in_dim keeps the order of axes
            turned_v = _var(tuple([v.aval.shape[i] for i in order]), v.aval.dtype)
            equations.append(Equation(transpose, (v,), {"perm": tuple(order)}, (turned_v,), equation.source))
            v = turned_v
        term = _var(tuple(shape), v.aval.dtype)
        params = {"shape": tuple(shape), "axes": tuple(sorted(axes))}
        equations.append(Equation(broadcast_in_dim, (v,), params, (term,), equation.source))
        terms.append(term)
    product = _var(tuple(shape), out.aval.dtype)
    equations.append(Equation(mul, tuple(terms), {}, (product,), equation.source))
    axes_sum = tuple(range(n, len(shape) - 1))
    return [*equations, Equation(reduce_sum_p, (product,), {"axes": axes_sum}, (out,), equation.source)]
