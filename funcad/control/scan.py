"""`scan`: a loop whose body is traced once, over the leading axis of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from funcad import tree
from funcad.api.border import api, call_as, name_of, own_memory
from funcad.control.body import check_functions, check_structure, prepare, strengthened, trace_carry
from funcad.control.checkpoint import kept_by
from funcad.control.loop_rules import loop_p
from funcad.host.real_types import is_a
from funcad.ir.aval import Aval, aval_of, said, shape_of
from funcad.ir.jaxpr import split
from funcad.primitives.loop import Loop


def _length_of(what: str, xs: Any, leaves: list[Any], length: Any) -> int:
    paths = tree.structure(xs).paths() if leaves else []
    sizes = []
    for path, x in zip(paths, leaves):
        shape = shape_of(x)
        if not shape:
            raise ValueError(f"{what}: xs{tree.keystr(path)} is {said(x)}; it needs a leading axis to loop over")
        sizes.append(shape[0])
    if length is not None:
        try:
            length = length.__index__()
        except AttributeError:
            raise TypeError(f"{what}: length must be an int, got {length!r}") from None
        if length < 0:
            raise ValueError(f"{what}: length must not be negative, got {length}")
    if not sizes:
        if length is None:
            raise ValueError(f"{what}: nothing says how long the loop is; give length= where xs is None or has no leaves")
        return length
    if len(set(sizes)) > 1:
        lines = "\n".join(f"  xs{tree.keystr(p)} has {n}" for p, n in zip(paths, sizes))
        raise ValueError(f"{what}: the leading axes of xs must have equal lengths, but\n{lines}")
    if length is not None and length != sizes[0]:
        raise ValueError(f"{what}: length={length} differs from the length of the leading axes of xs, {sizes[0]}")
    return sizes[0]


def check_unroll(what: str, unroll: Any, length: int) -> int:
    if is_a(unroll, bool):
        return max(length, 1) if unroll else 1
    if not hasattr(unroll, "__index__") or unroll.__index__() < 1:
        raise ValueError(f"{what}: unroll must be a positive int or a bool, got {unroll!r}")
    return unroll.__index__()


@api
def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    policy: Any = None,
) -> tuple[Any, Any]:
    """`carry, y = f(carry, x)` over the leading axis of xs: the last carry, and the stacked ys.

    Parameters
    ----------
    f : callable
        `f(carry, x)` returns `(carry, y)`. The carry keeps its structure, shapes and dtypes.
    init : array, number or container of them
        The first carry. A Python scalar takes the dtype that f returns.
    xs : array or container of arrays, optional
        What is looped over, along axis 0.
    length : int, optional
        The number of steps, needed where `xs` is None.
    reverse : bool
        Go from the end to the start; ys stay in their places.
    unroll : int or bool
        How many steps one turn runs; True for all. It changes the speed, not the result.
    policy : checkpoint policy, optional
        What reverse mode keeps: a `funcad.checkpoint_policies.memory_budget`, or a policy of `checkpoint`.

    Returns
    -------
    carry : like init
        The last carry.
    ys : array or container
        The y of each step, stacked along a new axis 0.

    Raises
    ------
    TypeError
        f returns a carry of another structure, shape or dtype; the message names the path.
    ValueError
        The lengths of xs differ, or none is given.
    TracerBoolConversionError
        f asks for a value: it is traced once, with abstract values.

    Notes
    -----
    In reverse mode all steps' residuals are kept, unless `policy` says otherwise. As `jax.lax.scan`, which has no
    policy; integers in a carry of Python scalars stay Python integers. Outside `jit`, a Python `for` works as well, and
    is differentiated.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> total, running = funcad.scan(lambda c, x: (c + x, c + x), 0.0, np.array([1.0, 2.0, 3.0]))
    >>> float(total), running
    (6.0, array([1., 3., 6.]))
    >>> state, history = funcad.scan(lambda c, _: ((c[1], c[0] + c[1]), c[0]), (0, 1), length=7)  # without xs
    >>> history
    array([0, 1, 1, 2, 3, 5, 8])
    >>> funcad.scan(lambda c, x: (c + x, c), 0.0, np.array([1.0, 2.0, 3.0]), reverse=True)[1]
    array([5., 3., 0.])

    See also
    --------
    fori_loop, while_loop, associative_scan, map, checkpoint
    """
    check_functions("scan", "scan(f, init, xs)", f)
    return run_scan("scan", f, init, xs, length, reverse, unroll, policy, staging=False)


def run_scan(
    what: str,
    f: Callable[..., Any],
    init: Any,
    xs: Any,
    length: Any,
    reverse: bool,
    unroll: Any,
    policy: Any = None,
    *,
    staging: bool,
) -> tuple[Any, Any]:
    """`scan` under the name of the function that the user called."""
    budget, f = kept_by(policy, f)
    carry, carry_tree = prepare(what, init, "init")
    x_leaves, x_tree = prepare(what, xs, "xs")
    n = _length_of(what, xs, x_leaves, length)
    ys_tree: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        c, x = split(values, len(carry))
        out = call_as("scan calls f(carry, x)", f, carry_tree.unflatten(c), x_tree.unflatten(x))
        if not (isinstance(out, tuple) and len(out) == 2):
            raise TypeError(
                f"{what}: {name_of(f)} must return a pair (carry, y); it returned {said(out)}.\n"
                "Remedy: return carry, y; or carry, None where there is nothing to stack."
            )
        c_leaves, c_tree = prepare(what, out[0], "carry")
        check_structure(what, c_tree, carry_tree, "carry", "init")
        y_leaves, y_tree = prepare(what, out[1], "y")
        ys_tree[:] = [y_tree]
        return [*c_leaves, *y_leaves]

    rows = [Aval(a.shape[1:], a.dtype) for a in map(aval_of, x_leaves)]
    inputs = [*carry, *x_leaves]
    jaxpr, consts, avals = trace_carry(what, flat, [aval_of(c) for c in carry], rows, carry_tree, staging, inputs)
    inputs = [*consts, *strengthened(carry, avals), *x_leaves]
    loop = Loop(jaxpr, len(consts), len(carry), n, bool(reverse), check_unroll(what, unroll, n), budget)
    outs = loop_p(*inputs, loop=loop)
    outs = own_memory(outs, inputs)
    return carry_tree.unflatten(outs[: len(carry)]), ys_tree[0].unflatten(outs[len(carry) :])
