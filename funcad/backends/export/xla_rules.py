"""Operations that are functions of jax.numpy and lax by themselves: shapes, indices, along an axis, control flow, draws.

Traps: where Python raises IndexError, a computed index out of bounds reads NaN (or the largest integer), and writes nothing;
`dynamic_slice` clamps, as in funcad. Loops are lax's, so a length must be known where they count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcad.backends.export.xla_program import NUMPY, RULES, Cell, as_dtype, elements, jax, jnp, lax, own, rule, run
from funcad.backends.memory import carries_of
from funcad.backends.plans.element_plan import Unsupported
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Equation, split
from funcad.ir.trace import trace_function
from funcad.primitives.basic_indexing import python_index
from funcad.primitives.convolution import highest, lowest
from funcad.primitives.random_bits import erf_inverse

# -- by their own implementations, which look at no values

OWN = (
    "argsort_many basic_index bit_count careful_mul checked_index cumlogsumexp cummax cummin cumprod cumsum "
    "erf_inverse exponent extremum_weights fold_in gap_quotient gcd heaviside imag inner_diagonal lcm ldexp mantissa "
    "nextafter one_minus outer_sum positions real reduce_precision searchsorted segments shift sinc sort spacing "
    "spectral random_permutation top_k trigonometric triangle unit_lower variance weighted window_indices window_mean "
    "window_spread "
    "reduce_all reduce_any reduce_max reduce_min reduce_prod reduce_sum broadcast_in_dim reshape rev roll slice transpose"
).split()
RULES.update(dict.fromkeys(OWN, own))

# -- elements

elements("conj", lambda x: jnp.conj(x))


@rule("make_complex")
def _make_complex(equation: Equation, values: list) -> Any:
    dtype = equation.outputs[0].aval.dtype
    return lax.complex(*jnp.broadcast_arrays(*[as_dtype(x, np.empty(0, dtype).real.dtype) for x in values]))


@rule("bitcast")
def _bitcast(equation: Equation, values: list, *, dtype: np.dtype) -> Any:
    return lax.bitcast_convert_type(values[0], dtype)


@rule("python_checked", "device_put", "name", "optimization_barrier")
def _as_it_is(equation: Equation, values: list, **params: Any) -> Any:
    """XLA raises nothing, and has one device."""
    return values if equation.primitive.multiple else values[0]


# -- places


@rule("pad")
def _pad(equation: Equation, values: list, *, low: tuple, high: tuple, interior: tuple) -> Any:
    return lax.pad(values[0], np.zeros((), values[0].dtype), list(zip(low, high, interior)))


@rule("concatenate")
def _concatenate(equation: Equation, values: list, *, axis: int) -> Any:
    return lax.concatenate(values, axis)


@rule("stack")
def _stack(equation: Equation, values: list, *, axis: int) -> Any:
    return jnp.stack(values, axis)


@rule("basic_place")
def _basic_place(equation: Equation, values: list, *, index: tuple, shape: tuple) -> Any:
    return jnp.zeros(shape, values[0].dtype).at[python_index(index)].set(values[0])


@rule("place_sum")
def _place_sum(equation: Equation, values: list, *, indices: tuple, shape: tuple) -> Any:
    total = jnp.zeros(shape, values[0].dtype)
    for x, index in zip(values, indices):
        total = total.at[python_index(index)].add(x)
    return total


@rule("basic_update")
def _basic_update(equation: Equation, values: list, *, index: tuple) -> Any:
    return values[0].at[python_index(index)].set(values[1])


@rule("basic_add")
def _basic_add(equation: Equation, values: list, *, index: tuple) -> Any:
    return values[0].at[python_index(index)].add(values[1])


def _with_lanes(indices: Sequence[Any], shape: tuple, batch_dims: int) -> tuple:
    """The indices behind those of the leading axes that they share with the operand."""
    ndim = indices[0].ndim
    iotas = [jnp.arange(n).reshape((n, *[1] * (ndim - i - 1))) for i, n in enumerate(shape[:batch_dims])]
    return (*iotas, *indices)


@rule("gather")
def _gather(equation: Equation, values: list, *, batch_dims: int, unique: bool) -> Any:
    x, *indices = values
    return x.at[_with_lanes(indices, x.shape, batch_dims)].get(mode="fill", unique_indices=unique)


@rule("scatter")
def _scatter(equation: Equation, values: list, *, mode: str, batch_dims: int, unique: bool) -> Any:
    x, u, *indices = values
    index = _with_lanes(indices, x.shape, batch_dims)
    if mode == "set" and not unique and u.size > 1:  # of repeated indices the last one wins
        last = _is_last(equation, indices, dims=x.shape[: batch_dims + len(indices)])
        nowhere = x.shape[batch_dims]
        index = (*index[:batch_dims], jnp.where(last, index[batch_dims], nowhere), *index[batch_dims + 1 :])
    place = x.at[index]
    return getattr(place, {"mul": "multiply"}.get(mode, mode))(u, mode="drop", unique_indices=unique)


@rule("is_last")
def _is_last(equation: Equation, values: Sequence[Any], *, dims: tuple) -> Any:
    index = _with_lanes(values, dims, len(dims) - len(values))
    position = jnp.arange(values[0].size).reshape(values[0].shape)
    return jnp.zeros(dims, position.dtype).at[index].max(position)[index] == position


def _starts(x: Any, starts: Sequence[Any]) -> list[Any]:
    wrapped = lambda s, n: jnp.where(s < 0, s + np.asarray(n, s.dtype), s)
    return [wrapped(s, n) if s.dtype.kind == "i" else s for s, n in zip(starts, x.shape)]


@rule("dynamic_slice")
def _dynamic_slice(equation: Equation, values: list, *, sizes: tuple) -> Any:
    x, *starts = values
    return lax.dynamic_slice(x, _alike_starts(_starts(x, starts)), sizes)


def _alike_starts(starts: list[Any]) -> list[Any]:
    return list(jnp.broadcast_arrays(*[s.astype(jnp.int_) for s in starts])) if starts else []


@rule("dynamic_update_slice")
def _dynamic_update_slice(equation: Equation, values: list) -> Any:
    x, u, *starts = values
    return lax.dynamic_update_slice(x, u, _alike_starts(_starts(x, starts)))


@rule("dynamic_add")
def _dynamic_add(equation: Equation, values: list) -> Any:
    x, u, *starts = values
    at = _alike_starts(_starts(x, starts))
    return lax.dynamic_update_slice(x, lax.dynamic_slice(x, at, u.shape) + u, at)


@rule("pick_lanes")
def _pick_lanes(equation: Equation, values: list) -> Any:
    """Lanes where the mask does not hold are the first one where it does; as they are, if there is none."""
    x, mask = values
    flat = mask.reshape(-1)
    if not flat.size:
        return x
    source = jnp.where(flat | ~flat.any(), jnp.arange(flat.size), jnp.argmax(flat))
    return x.reshape((flat.size, *x.shape[mask.ndim :]))[source].reshape(x.shape)


# -- along an axis


@rule("argmax", "argmin")
def _position(equation: Equation, values: list, *, axis: int) -> Any:
    return getattr(jnp, equation.primitive.name)(values[0], axis)


@rule("argsort")
def _argsort(equation: Equation, values: list, *, axis: int, stable: bool, descending: bool) -> Any:
    return jnp.argsort(values[0], axis, stable=True, descending=descending)


@rule("linear_recurrence")
def _recurrence(equation: Equation, values: list, *, axis: int, reverse: bool) -> Any:
    b, a = values
    if not b.shape[axis]:
        return b

    def step(h: Any, row: Any) -> Any:
        h = row[1] * h + row[0]
        return h, h

    b, a = jnp.moveaxis(b, axis, 0), jnp.moveaxis(a, axis, 0)
    first, rest = (-1, slice(None, -1)) if reverse else (0, slice(1, None))
    _, later = lax.scan(step, b[first], (b[rest], a[rest]), reverse=reverse)
    both = [later, b[first][None]] if reverse else [b[first][None], later]
    return jnp.moveaxis(jnp.concatenate(both), 0, axis)


@rule("all_pole")
def _all_pole(equation: Equation, values: list) -> Any:
    v, a = values
    order = a.shape[1] - 1
    factors = a[:, None, 1:] / a[:, None, :1]

    def step(past: Any, x: Any) -> Any:
        y = x / a[:, :1] - (factors * past).sum(-1)
        return jnp.concatenate([y[..., None], past], -1)[..., :order], y

    past = jnp.zeros((*v.shape[:2], order), v.dtype)
    return jnp.moveaxis(lax.scan(step, past, jnp.moveaxis(v, 2, 0))[1], 0, 2)


# -- products, convolutions, windows, transforms


@rule("dot_general")
def _product(equation: Equation, values: list, *, dimension_numbers: Any) -> Any:
    kind = equation.outputs[0].aval.dtype.kind
    x, y = [v.astype(np.int32) for v in values] if kind == "b" else values
    return lax.dot_general(x, y, dimension_numbers, precision=lax.Precision.HIGHEST)


@rule("conv")
def _conv(
    equation: Equation, values: list, *, strides: Any, padding: Any, x_dilation: Any, kernel_dilation: Any
) -> Any:
    def one(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, strides, padding, x_dilation, kernel_dilation, precision=lax.Precision.HIGHEST
        )

    out = equation.outputs[0].aval
    if not out.size or not all([x.size for x in values]):
        return jnp.zeros(out.shape, out.dtype)
    x, kernel = values
    if out.dtype.kind in "biu":  # XLA's convolutions of integers are slow, and rare
        return jax.vmap(one)(x.astype(np.float64), kernel.astype(np.float64)).astype(out.dtype)
    return jax.vmap(one)(x, kernel)


def _windows(f: str, start: Callable[[np.dtype], Any]) -> Callable[..., Any]:
    def reduce(
        equation: Equation, values: list, *, window: Any, strides: Any, padding: Any, base_dilation: Any, window_dilation: Any
    ) -> Any:
        (x,) = values
        first = np.asarray(start(x.dtype), x.dtype)
        return lax.reduce_window(x, first, getattr(lax, f), window, strides, padding, base_dilation, window_dilation)

    return reduce


RULES["reduce_window_sum"] = _windows("add", lambda dtype: 0)
RULES["reduce_window_max"] = _windows("max", lowest)
RULES["reduce_window_min"] = _windows("min", highest)


@rule("fft")
def _fft(equation: Equation, values: list, *, kind: str, axes: tuple, n: int, norm: str) -> Any:
    (x,) = values
    if kind in ("rfft", "irfft"):
        return getattr(jnp.fft, kind)(x, n, axis=axes[0], norm=norm)
    for axis in axes:
        x = getattr(jnp.fft, kind)(x, axis=axis, norm=norm)
    return x


@rule("spline_filter")
def _spline_filter(equation: Equation, values: list, *, order: int, axis: int, mode: str, transposed: bool) -> Any:
    """The matrix of the filter, which is known, times the lines."""
    n = values[0].shape[axis]
    wide = np.dtype(np.float64)
    matrix = np.asarray(
        equation.primitive.impl(np, np.eye(n, dtype=wide), order=order, axis=0, mode=mode, transposed=transposed)
    )
    (x,), precision = values, lax.Precision.HIGHEST
    return jnp.moveaxis(jnp.tensordot(as_dtype(matrix, x.dtype), x, (1, axis), precision=precision), 0, axis)


# -- draws: funcad's numbers are JAX's own


@rule("draw")
def _draw(equation: Equation, values: list, *, kind: str, dtype: np.dtype, shape: tuple) -> Any:
    if kind != "normal":
        return own(equation, values, kind=kind, dtype=dtype, shape=shape)
    unit, scalar = own(equation, values, kind="unit", dtype=dtype, shape=shape), dtype.type
    inside = unit * scalar(2) + np.nextafter(scalar(-1), scalar(0))
    return erf_inverse.impl(NUMPY, Cell(inside)).value * np.sqrt(scalar(2))


def _keyed(draw: Callable[..., Any], keys: Any, *arrays: Any) -> Any:
    """draw(key, *arrays) for each lane of the keys."""
    for _ in range(keys.ndim - 1):
        draw = jax.vmap(draw)
    return draw(keys, *arrays)


@rule("random_gamma")
def _random_gamma(equation: Equation, values: list, *, log_space: bool) -> Any:
    draw = jax.random.loggamma if log_space else jax.random.gamma
    return _keyed(lambda key, a: draw(key, a, dtype=a.dtype), *values)


@rule("random_poisson")
def _random_poisson(equation: Equation, values: list, *, dtype: np.dtype) -> Any:
    return _keyed(lambda key, rate: jax.random.poisson(key, rate, rate.shape, as_dtype(0, dtype).dtype), *values)


@rule("random_binomial")
def _random_binomial(equation: Equation, values: list, *, dtype: np.dtype) -> Any:
    draw = lambda key, n, p: jax.random.binomial(key, n, p, p.shape, as_dtype(0, dtype).dtype)
    return _keyed(draw, *values)


# -- programs


@rule("jax_call")
def _jax_call(equation: Equation, values: list, *, node: Any) -> Any:
    return node.function(*values)


@rule("call", "checkpoint", "custom_jvp_call", "custom_vjp_call", "custom_vmap_call", "fused", "recomputed")
def _call(equation: Equation, values: list, *, jaxpr: Any, **params: Any) -> Any:
    return run(jaxpr, values)


@rule("custom_linear")
def _custom_linear(equation: Equation, values: list, *, linear: Any, axis_name: Any) -> Any:
    avals = [a.aval for a in equation.inputs]
    program, consts = trace_function(lambda *xs: linear.tangents(xs), avals, name="custom_linear")
    return run(program, [*[as_dtype(c, aval_of(c).dtype) for c in consts], *values])


@rule("linear_solve", "root")
def _solved(equation: Equation, values: list, *, solve: Any, n_consts: tuple, **params: Any) -> Any:
    rest = values[sum(n_consts) :]
    return run(solve, [*values[n_consts[0] : n_consts[0] + n_consts[1]], *rest])


@rule("cond")
def _cond(equation: Equation, values: list, *, branches: Sequence[Any]) -> Any:
    index, *operands = values
    avals = [v.aval for v in equation.outputs]

    def taken(branch: Any) -> Callable[..., Any]:
        return lambda *xs: [as_dtype(x, a.dtype) for x, a in zip(run(branch, xs), avals)]

    which = jnp.clip(index.astype(jnp.int32), 0, len(branches) - 1)
    return lax.switch(which, list(map(taken, branches)), *operands)


@rule("loop")
def _loop(equation: Equation, values: list, *, loop: Any) -> Any:
    count, consts, first, xs = loop.parts(values)
    if loop.n_ys and loop.cond is not None:
        raise Unsupported("what a while loop keeps for its derivative, whose size depends on values")
    if loop.length is None and (xs or loop.n_ys):
        raise Unsupported("a loop over what another one kept, whose length depends on values")
    kinds = carries_of(loop)
    moving = [v.aval.dtype for kind, v in zip(kinds, loop.carried(loop.body.inputs)) if kind != "same"]

    def carried(values: Sequence[Any]) -> list[Any]:
        return list(map(as_dtype, [x for kind, x in zip(kinds, values) if kind != "same"], moving))

    def whole(state: Sequence[Any]) -> list[Any]:
        given = iter(state)
        return [x if kind == "same" else next(given) for kind, x in zip(kinds, first)]

    def step(state: Any, row: Any) -> Any:
        carry, ys = split(run(loop.body, [*consts, *whole(state), *row]), loop.n_carry)
        return carried(carry), ys

    if loop.length is not None:
        unroll = max(1, min(loop.unroll, loop.length))
        state, ys = lax.scan(step, carried(first), list(xs), loop.length, loop.reverse, unroll)
        return [*whole(state), *ys]

    def goes_on(state: Any) -> Any:
        return state[0] < count[0] if loop.cond is None else run(loop.cond, [*count, *whole(state[1])])[0]

    start = jnp.zeros_like(count[0]) if loop.cond is None else as_dtype(0, equation.outputs[0].aval.dtype)
    turn = lambda state: (state[0] + 1, step(state[1], [])[0])
    turns, state = lax.while_loop(goes_on, turn, (start, carried(first)))
    return [*[turns] * loop.first, *whole(state)]
