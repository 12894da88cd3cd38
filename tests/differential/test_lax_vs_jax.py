"""Every function of `funcad.lax` against `jax.lax`: value, dtype, vjp and vmap. One line per case, run by both."""

from __future__ import annotations

import numpy as np
import pytest

import funcad
from funcad import lax as flax

jax = pytest.importorskip("jax")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
jnp = jax.numpy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning"),
]

rng = np.random.default_rng(7)


def normal(*shape):
    return rng.standard_normal(shape)


def positive(*shape):
    return rng.uniform(0.1, 2.0, shape)


def unit(*shape):
    return rng.uniform(-0.9, 0.9, shape)


def cplx(*shape):
    return normal(*shape) + 1j * normal(*shape)


def ints(*shape, low=-9, high=9, dtype=int):
    return rng.integers(low, high, shape).astype(dtype)


X = normal(2, 3)
CASES = []


def case(name, fn, *args, grad=True, vmap=True):
    CASES.append(pytest.param(fn, args, grad, vmap, id=f"{len(CASES)}-{name}"))


EVERYWHERE = (
    "neg sign floor ceil exp exp2 expm1 tanh logistic sin cos tan sinh cosh asinh atan cbrt square abs is_finite erf erfc"
)
for name in EVERYWHERE.split():
    case(name, lambda l, x, n=name: getattr(l, n)(x), normal(2, 3))
for name in "log log1p sqrt rsqrt reciprocal lgamma digamma bessel_i0e bessel_i1e".split():
    case(name, lambda l, x, n=name: getattr(l, n)(x), positive(2, 3))
for name in "asin acos atanh erf_inv".split():
    case(name, lambda l, x, n=name: getattr(l, n)(x), unit(2, 3))
for name in "neg sign abs square exp sin cos tanh log sqrt real imag conj logistic reciprocal rsqrt".split():
    case(name + "-complex", lambda l, x, n=name: getattr(l, n)(x), cplx(3), grad=name != "sign")  # JAX: zero
for name in "neg sign abs square bitwise_not population_count clz".split():
    case(name + "-int", lambda l, x, n=name: getattr(l, n)(x), ints(5))
    case(name + "-int8", lambda l, x, n=name: getattr(l, n)(x), ints(5, dtype=np.int8))
case("acosh", lambda l, x: l.acosh(x), 1 + positive(3))
case("conj-real", lambda l, x: l.conj(x), normal(3), grad=False)
case("round", lambda l, x: l.round(x), np.array([0.5, 1.5, -0.5, -2.5, 0.49999999999999994, 3.2]))
case("round-even", lambda l, x: l.round(x, l.RoundingMethod.TO_NEAREST_EVEN), np.array([0.5, 1.5, -0.5, -2.5]))
for name in "add sub mul div max min atan2 rem nextafter eq ne lt le gt ge complex".split():
    case(name, lambda l, x, y, n=name: getattr(l, n)(x, y), normal(2, 3), normal(2, 3), grad=name not in ("rem", "nextafter"))
    case(name + "-scalar", lambda l, x, n=name: getattr(l, n)(x, 2.0), normal(2, 3), grad=name not in ("rem", "nextafter"))
case("rem-grad", lambda l, x: l.rem(x, 0.7), normal(4))
for name in "add sub mul div max min rem eq lt bitwise_and bitwise_or bitwise_xor".split():
    case(name + "-int", lambda l, x, y, n=name: getattr(l, n)(x, y), ints(9), ints(9, low=1))
for dtype in (np.int8, np.uint16, np.int32, np.int64, np.uint64):
    span = np.iinfo(dtype)
    case("mulhi", lambda l, x, y: l.mulhi(x, y), *[rng.integers(span.min, span.max, 9, dtype, True) for _ in "xy"])
for name in "shift_left shift_right_arithmetic shift_right_logical".split():
    case(name, lambda l, x, y, n=name: getattr(l, n)(x, y), ints(9), ints(9, low=0, high=20))
    case(
        name + "-u8",
        lambda l, x, y, n=name: getattr(l, n)(x, y),
        ints(9, low=0, high=99, dtype=np.uint8),
        ints(9, low=0, high=7, dtype=np.uint8),
    )
case("add-complex", lambda l, x, y: l.add(x, y), cplx(3), cplx(3))
case("div-complex", lambda l, x, y: l.div(x, y), cplx(3), cplx(3))
case("rank-one-broadcast", lambda l, x, y: l.mul(x, y), normal(2, 3), normal(2, 1))
case("scalar-array", lambda l, x, y: l.mul(x, y), normal(2, 3), np.array(2.5))
case("pow", lambda l, x, y: l.pow(x, y), positive(3), normal(3))
case("pow-int", lambda l, x: l.pow(x, 3), normal(3))
case("pow-int-array", lambda l, x, y: l.pow(x, y), normal(3), np.array([0, 1, 3]))
case("integer_pow", lambda l, x: l.integer_pow(x, -2), positive(3))
case("integer_pow-int", lambda l, x: l.integer_pow(x, 3), ints(3))
case("igamma", lambda l, a, x: l.igamma(a, x), positive(3), positive(3), grad=False)
case("igammac-x", lambda l, x: l.igammac(np.array([0.5, 1.0, 2.0]), x), positive(3))
case("zeta", lambda l, x, q: l.zeta(x, q), 1.5 + positive(3), positive(3), grad=False)
case("polygamma", lambda l, x: l.polygamma(np.full(3, 2.0), x), positive(3), vmap=False)
case("betainc", lambda l, x: l.betainc(np.full(3, 0.7), np.full(3, 1.7), x), rng.uniform(0.1, 0.9, 3))
case("clamp", lambda l, a, x, b: l.clamp(a, x, b), np.full(4, -1.0), np.array([-2.0, 0.0, 0.5, 3.0]), np.full(4, 1.0))
case("clamp-scalars", lambda l, x: l.clamp(-1.0, x, 1.0), np.array([-2.0, 0.0, 0.5, 3.0]))
case("select", lambda l, x, y: l.select(np.array([True, False, True]), x, y), normal(3), normal(3))
case("select-scalar", lambda l, x, y: l.select(False, x, y), normal(3), normal(3))
case("select_n", lambda l, x, y, z: l.select_n(np.array([2, 0, 1]), x, y, z), normal(3), normal(3), normal(3))
case("select_n-bool", lambda l, x, y: l.select_n(np.array([True, False, True]), x, y), normal(3), normal(3))
for new in (np.float32, int, np.complex128, bool, np.int8):
    case(f"convert-{np.dtype(new)}", lambda l, x, t=new: l.convert_element_type(x, t), 3 * normal(4))
case("convert-complex-to-real", lambda l, x: l.convert_element_type(x, np.float64), cplx(3))
case("bitcast", lambda l, x: l.bitcast_convert_type(x, np.int64), normal(3))
case("bitcast-narrow", lambda l, x: l.bitcast_convert_type(x, np.uint8), normal(3), grad=False)
case("bitcast-wide", lambda l, x: l.bitcast_convert_type(x, np.float32), ints(3, 4, low=0, high=99, dtype=np.uint8))
case("reduce_precision", lambda l, x: l.reduce_precision(x, 8, 7), normal(5))

case("broadcast", lambda l, x: l.broadcast(x, (2, 4)), X)
case("broadcast_in_dim", lambda l, x: l.broadcast_in_dim(x, (2, 5, 3), (0, 2)), X)
case("broadcast_in_dim-grow", lambda l, x: l.broadcast_in_dim(x, (2, 5, 3), (1, 2)), normal(1, 3))
case("broadcast_to_rank", lambda l, x: l.broadcast_to_rank(x, 4), X)
case("reshape", lambda l, x: l.reshape(x, (3, 2)), X)
case("reshape-dimensions", lambda l, x: l.reshape(x, (6,), (1, 0)), X)
case("transpose", lambda l, x: l.transpose(x, (2, 0, 1)), normal(2, 3, 4))
case("expand_dims", lambda l, x: l.expand_dims(x, (0, -1)), X)
case("squeeze", lambda l, x: l.squeeze(x, (0, 2)), normal(1, 3, 1))
case("collapse", lambda l, x: l.collapse(x, 1, 3), normal(2, 3, 4))
case("collapse-all", lambda l, x: l.collapse(x, -2), normal(2, 3, 4))
case("concatenate", lambda l, x, y: l.concatenate([x, y, x], 1), X, normal(2, 1))
case("stack", lambda l, x, y: l.stack([x, y], 1), X, normal(2, 3))
case("unstack", lambda l, x: l.unstack(x, 1)[1], X)
case("split", lambda l, x: l.split(x, (1, 2), 1)[1], X)
case("tile", lambda l, x: l.tile(x, (2, 3)), X)
case("rev", lambda l, x: l.rev(x, (0, 1)), X)
case("pad", lambda l, x, v: l.pad(x, v, [(1, 2, 0), (-1, 2, 1)]), X, np.array(0.5))
case("pad-inf", lambda l, x: l.pad(x, -np.inf, [(1, 2, 0), (0, 0, 0)]), X)
case("pad-crop", lambda l, x, v: l.pad(x, v, [(-1, -2, 2), (-2, 3, 1)]), normal(3, 4), np.array(0.5))
case("slice", lambda l, x: l.slice(x, (0, 1), (2, 3), (1, 2)), X)
case("slice_in_dim", lambda l, x: l.slice_in_dim(x, -2, None, axis=1), X)
case("index_in_dim", lambda l, x: l.index_in_dim(x, -1, 1), X)
case("index_in_dim-drop", lambda l, x: l.index_in_dim(x, 1, 0, False), X)
case("full_like", lambda l, x: l.full_like(x, 2), X)
case("iota", lambda l, x: l.add(x, l.iota(np.float64, 3)), normal(3))
case("broadcasted_iota", lambda l, x: l.add(x, l.broadcasted_iota(np.float64, (2, 3), 1)), X)

case("dynamic_slice", lambda l, x, i: l.dynamic_slice(x, (i, 1), (2, 2)), normal(4, 3), np.array(5))
case("dynamic_slice-array", lambda l, x, i: l.dynamic_slice(x, i, (2, 2)), normal(4, 3), np.array([-2, 0]))
case(
    "dynamic_slice-clip",
    lambda l, x, i: l.dynamic_slice(x, i, (2, 2), allow_negative_indices=False),
    normal(4, 3),
    np.array([3, 0]),
    vmap=False,
)
case("dynamic_slice_in_dim", lambda l, x, i: l.dynamic_slice_in_dim(x, i, 2, 1), normal(2, 5), np.array(2))
case("dynamic_index_in_dim", lambda l, x, i: l.dynamic_index_in_dim(x, i, 1, False), normal(2, 5), np.array(-1))
case("dynamic_update_slice", lambda l, x, u, i: l.dynamic_update_slice(x, u, (i, 1)), normal(4, 3), normal(2, 2), np.array(1))
case(
    "dynamic_update_slice_in_dim",
    lambda l, x, u, i: l.dynamic_update_slice_in_dim(x, u, i, 1),
    normal(2, 4),
    normal(2, 2),
    np.array(1),
)
case(
    "dynamic_update_index_in_dim",
    lambda l, x, u, i: l.dynamic_update_index_in_dim(x, u, i, 1),
    normal(2, 4),
    normal(2),
    np.array(1),
)
case("index_take", lambda l, x, i, j: l.index_take(x, (i, j), (0, 2)), normal(3, 2, 4), np.array([0, 2]), np.array([3, 1]))


def dn(l, *fields):
    return l.GatherDimensionNumbers(*fields)


def sdn(l, *fields):
    return l.ScatterDimensionNumbers(*fields)


IX = np.array([[0], [2], [2], [1]])
OUT = np.array([[0], [7], [2], [-1]])
IX2 = np.array([[[0, 1], [2, 2]], [[1, 0], [3, 1]]])
for mode in ("clip", "fill", None, "promise_in_bounds"):
    case(
        f"gather-rows-{mode}", lambda l, x, i, m=mode: l.gather(x, i, dn(l, (1,), (0,), (0,)), (1, 3), mode=m), normal(4, 3), IX
    )
    case(
        f"gather-windows-{mode}",
        lambda l, x, i, m=mode: l.gather(x, i, dn(l, (0, 2), (), (0, 1)), (2, 2), mode=m),
        normal(5, 4),
        np.array([[0, 1], [2, 2], [3, 0]]),
        vmap=False,
    )
for mode in ("clip", "fill", None):  # by default JAX reads as "clip" but drops the cotangents, which is not its derivative
    case(
        f"gather-out-{mode}",
        lambda l, x, i, m=mode: l.gather(x, i, dn(l, (1,), (0,), (0,)), (1, 3), mode=m),
        normal(4, 3),
        OUT,
        grad=mode is not None,
    )
    case(
        f"gather-windows-out-{mode}",
        lambda l, x, i, m=mode: l.gather(x, i, dn(l, (1, 2), (), (0, 1)), (2, 2), mode=m),
        normal(5, 4),
        np.array([[0, 1], [4, 2], [3, -1]]),
        grad=mode is not None,
    )
case("gather-points", lambda l, x, i: l.gather(x, i, dn(l, (), (0, 1), (1, 0)), (1, 1)), normal(3, 4), IX2[..., ::-1] % 3)
case("gather-column", lambda l, x, i: l.gather(x, i, dn(l, (0,), (1,), (1,)), (3, 1)), normal(3, 4), IX)
case("gather-partial", lambda l, x, i: l.gather(x, i, dn(l, (1, 2), (1,), (0,)), (2, 1, 3)), normal(4, 1, 5), IX % 2)
case(
    "gather-batching",
    lambda l, x, i: l.gather(x, i, dn(l, (2,), (1,), (1,), (0,), (0,)), (1, 1, 3)),
    normal(2, 4, 3),
    ints(2, 5, 1, low=0, high=4),
)
case("gather-int", lambda l, x, i: l.gather(x, i, dn(l, (), (0,), (0,)), (1,), mode="fill"), ints(4), OUT)
case("gather-fill", lambda l, x, i: l.gather(x, i, dn(l, (), (0,), (0,)), (1,), mode="fill", fill_value=-1.0), normal(4), OUT)
for how in ("scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter_sub"):
    many = how != "scatter"
    rows = IX if many else np.array([[0], [2], [3], [1]])
    unique = {"unique_indices": True} if how in ("scatter_mul",) else {}
    for mode in ("clip", "fill", None, "promise_in_bounds"):
        case(
            f"{how}-rows-{mode}",
            lambda l, x, i, u, h=how, m=mode: getattr(l, h)(x, i, u, sdn(l, (1,), (0,), (0,)), mode=m),
            normal(4, 3),
            rows,
            normal(4, 3),
            grad=how not in ("scatter_mul", "scatter"),
            vmap=how != "scatter_sub",
        )
    case(
        f"{how}-dropped",
        lambda l, x, i, u, h=how: getattr(l, h)(x, i, u, sdn(l, (1,), (0,), (0,))),
        normal(4, 3),
        OUT,
        normal(4, 3),
        grad=how not in ("scatter_mul", "scatter"),
        vmap=how != "scatter_sub",
    )
    # JAX's derivative of a clipped scatter_min or scatter_max differs from central differences
    case(
        f"{how}-clipped",
        lambda l, x, i, u, h=how: getattr(l, h)(x, i, u, sdn(l, (0, 1), (), (0, 1)), mode="clip"),
        normal(4, 3),
        np.array([3, -5]),
        normal(2, 2),
        grad=how not in ("scatter_mul", "scatter_min", "scatter_max"),
        vmap=how != "scatter_sub",
    )
    case(
        f"{how}-windows",
        lambda l, x, i, u, h=how: getattr(l, h)(x, i, u, sdn(l, (0, 2), (), (0, 1))),
        normal(5, 4),
        np.array([[0, 1], [3, 2]]),
        normal(2, 2, 2),
        grad=how not in ("scatter_mul", "scatter"),
        vmap=how != "scatter_sub",
    )
case(
    "scatter-batching",
    lambda l, x, i, u: l.scatter_add(x, i, u, sdn(l, (2,), (1,), (1,), (0,), (0,))),
    normal(2, 4, 3),
    ints(2, 5, 1, low=0, high=4),
    normal(2, 5, 3),
)
case(
    "scatter-unique-grad",
    lambda l, x, i, u: l.scatter(x, i, u, sdn(l, (1,), (0,), (0,))),
    normal(4, 3),
    np.array([[1], [3]]),
    normal(2, 3),
)
case(
    "scatter-mul-unique-grad",
    lambda l, x, i, u: l.scatter_mul(x, i, u, sdn(l, (1,), (0,), (0,)), unique_indices=True),
    normal(4, 3),
    np.array([[1], [3]]),
    normal(2, 3),
)

case("dot-matrix", lambda l, x, y: l.dot(x, y), X, normal(3, 4))
case("dot-vector", lambda l, x, y: l.dot(x, y), normal(3), normal(3))
case("dot_general", lambda l, x, y: l.dot_general(x, y, (((2,), (1,)), ((0,), (0,)))), normal(2, 3, 4), normal(2, 4, 5))
case(
    "dot_general-preferred",
    lambda l, x, y: l.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.int32),
    ints(2, 3, dtype=np.int8),
    ints(3, 4, dtype=np.int8),
)
case("dot_general-complex", lambda l, x, y: l.dot_general(x, y, (((1,), (0,)), ((), ()))), cplx(2, 3), cplx(3, 4))
case("batch_matmul", lambda l, x, y: l.batch_matmul(x, y), normal(2, 3, 4), normal(2, 4, 5))
case("conv", lambda l, x, k: l.conv(x, k, (1, 2), "SAME"), normal(2, 3, 5, 6), normal(4, 3, 3, 2))
case(
    "conv_with_general_padding",
    lambda l, x, k: l.conv_with_general_padding(x, k, (1, 2), [(1, 0), (-1, 2)], (2, 1), (1, 2)),
    normal(2, 3, 5, 6),
    normal(4, 3, 3, 2),
)
case(
    "conv-groups",
    lambda l, x, k: l.conv_general_dilated(x, k, (1,), "SAME", feature_group_count=2),
    normal(2, 4, 6),
    normal(6, 2, 3),
)
case(
    "conv-batch-groups",
    lambda l, x, k: l.conv_general_dilated(x, k, (1,), "SAME", batch_group_count=2),
    normal(4, 3, 6),
    normal(6, 3, 3),
)
case(
    "conv-nhwc",
    lambda l, x, k: l.conv_general_dilated(x, k, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    normal(2, 5, 6, 3),
    normal(3, 2, 3, 4),
)
case(
    "conv-3d",
    lambda l, x, k: l.conv_general_dilated(x, k, (1, 2, 1), "SAME_LOWER"),
    normal(1, 2, 3, 4, 3),
    normal(2, 2, 2, 2, 2),
)
for padding in ("SAME", "VALID", [(1, 2), (0, 1)]):
    for transpose_kernel in (False, True):
        shape = (3, 2, 4, 3) if transpose_kernel else (3, 2, 3, 4)
        for strides in ((1, 2), (3, 2)):
            case(
                f"conv_transpose-{padding}-{transpose_kernel}-{strides}",
                lambda l, x, k, p=padding, t=transpose_kernel, s=strides: l.conv_transpose(x, k, s, p, transpose_kernel=t),
                normal(2, 4, 5, 3),
                normal(*shape),
            )
case(
    "conv_transpose-dilated",
    lambda l, x, k: l.conv_transpose(x, k, (2,), "SAME", rhs_dilation=(2,)),
    normal(2, 4, 3),
    normal(3, 3, 2),
)
case("conv-patches", lambda l, x: l.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME"), normal(2, 3, 4, 5))
case(
    "conv-patches-nhwc",
    lambda l, x: l.conv_general_dilated_patches(x, (2, 3), (1, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    normal(2, 4, 5, 3),
)

for name in "reduce_sum reduce_prod reduce_max reduce_min".split():
    case(name, lambda l, x, n=name: getattr(l, n)(x, (0, 2)), normal(2, 3, 4))
    case(name + "-int", lambda l, x, n=name: getattr(l, n)(x, (1,)), ints(2, 3))
for name in "reduce_and reduce_or reduce_xor".split():
    case(name, lambda l, x, n=name: getattr(l, n)(x, (1,)), ints(3, 5))
for name in "reduce_and reduce_or".split():
    case(name + "-bool", lambda l, x, n=name: getattr(l, n)(x, (1,)), ints(3, 2, low=0, high=2).astype(bool))
case("reduce", lambda l, x: l.reduce(x, 1.5, l.add, (1,)), X)
case("reduce-max", lambda l, x: l.reduce(x, 0.1, l.max, (0, 1)), X)
case("reduce-mul", lambda l, x: l.reduce(x, 2.0, l.mul, (0,)), normal(3, 2))
case("reduce-general", lambda l, x: l.reduce(x, 1.0, lambda a, b: a * b + 0.0, (0,)), normal(5, 2), grad=False)
case("reduce-empty", lambda l, x: l.reduce(x, 2.5, l.add, (0,)), normal(0, 2))
case(
    "reduce-pair",
    lambda l, x, y: l.reduce((x, y), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (1,))[1],
    X,
    normal(2, 3),
    grad=False,
)
case("argmax", lambda l, x: l.argmax(x, 1, np.int32), X)
case("argmin", lambda l, x: l.argmin(x, 0, int), X)
for name, init in (("add", 0.0), ("max", -np.inf), ("min", np.inf), ("mul", 1.0)):
    for options in (
        {},
        {"window_strides": (2, 1)},
        {"padding": "SAME", "window_strides": (2, 2)},
        {"padding": [(1, 0), (0, 2)], "base_dilation": (2, 1)},
    ):
        case(
            f"reduce_window-{name}-{len(CASES)}",
            lambda l, x, n=name, i=init, o=options: l.reduce_window(x, i, getattr(l, n), (2, 3), **o),
            normal(4, 5),
            grad=name != "mul",
        )
    case(
        f"reduce_window-{name}-dilated",
        lambda l, x, n=name, i=init: l.reduce_window(
            x, i, getattr(l, n), (2, 3), window_strides=(1, 1), window_dilation=(2, 1), padding="SAME"
        ),
        normal(4, 5),
        grad=name == "add",
    )
for size in (2, 5):
    same = lambda l, x: l.reduce_window(x, 0.0, l.add, (3,), (2,), "SAME", (2,))
    case(f"reduce_window-same-base-{size}", same, normal(size))
case(
    "reduce_window-init", lambda l, x: l.reduce_window(x, 0.5, l.max, (2, 2), (1, 1), padding="SAME"), normal(4, 5), grad=False
)
case(
    "reduce_window-init-add",
    lambda l, x: l.reduce_window(x, 0.5, l.add, (2, 2), (1, 1), padding="SAME"),
    normal(4, 5),
    grad=False,
)
case(
    "reduce_window-general",
    lambda l, x: l.reduce_window(x, 0.0, lambda a, b: a + b + a * b, (2, 2), (1, 1), padding="SAME"),
    normal(4, 5),
    grad=False,
)
case("reduce_window-int", lambda l, x: l.reduce_window(x, np.int64(0), l.add, (2,)), ints(6))
for name in "cumsum cumprod cummax cummin cumlogsumexp".split():
    for axis in (0, 1):
        for reverse in (False, True):
            case(f"{name}-{axis}-{reverse}", lambda l, x, n=name, a=axis, r=reverse: getattr(l, n)(x, a, r), normal(3, 4))
case("sort", lambda l, x: l.sort(x), normal(3, 4))
case("sort-axis", lambda l, x: l.sort(x, 0), normal(3, 4))
case("sort-two", lambda l, x, y: l.sort((x, y), dimension=1)[1], normal(3, 4), normal(3, 4))
case("sort-keys", lambda l, x, y, z: l.sort((x, y, z), num_keys=2)[2], ints(9, high=0, low=-3), normal(9), normal(9))
case("sort_key_val", lambda l, x, y: l.sort_key_val(x, y, 0)[1], normal(3, 4), normal(3, 4))
case("top_k", lambda l, x: l.top_k(x, 2)[0], normal(3, 4))
case("approx_min_k", lambda l, x: l.approx_min_k(x, 2)[0], normal(3, 4))
case("top_k-axis", lambda l, x: l.top_k(x, 2, axis=0)[0], normal(3, 4))
case("top_k-positions", lambda l, x: l.convert_element_type(l.top_k(x, 2)[1], np.int64), normal(3, 4))
case("optimization_barrier", lambda l, x, y: l.mul(*l.optimization_barrier((x, y))), X, normal(2, 3))
case("platform_dependent", lambda l, x: l.platform_dependent(x, cpu=lambda x: x * 2.0, cuda=lambda x: x), X)
case("stop_gradient", lambda l, x: l.mul(x, l.stop_gradient(x)), X)
case("cond", lambda l, x: l.cond(True, l.sin, l.cos, x), X)
case("switch", lambda l, x: l.switch(1, [l.sin, l.cos, l.tan], x), X)
case("scan", lambda l, x: l.scan(lambda c, y: (l.mul(c, l.sin(y)), l.add(c, y)), 0.5, x)[1], normal(4), vmap=False)
case("while_loop", lambda l, x: l.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, l.sin(c[1])), (0, x))[1], X, grad=False)
if hasattr(flax, "fori_loop"):
    case("fori_loop", lambda l, x: l.fori_loop(0, 3, lambda i, c: l.sin(c), x), X)
    case("map", lambda l, x: l.map(l.sin, x), X)
    case("associative_scan", lambda l, x: l.associative_scan(l.mul, x), normal(5))


def floats(args):
    return [i for i, a in enumerate(args) if a.dtype.kind in "fc"]


def close(actual, expected, what):
    expected = np.asarray(expected)
    assert np.asarray(actual).dtype == expected.dtype, (what, np.asarray(actual).dtype, expected.dtype)
    assert np.shape(actual) == expected.shape, what
    tolerance = 2e-5 if expected.dtype in (np.float32, np.complex64) else 1e-9
    np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance, err_msg=what)


@pytest.mark.parametrize("fn, args, grad, vmap", CASES)
def test_against_jax(fn, args, grad, vmap):
    ours, theirs = (lambda *a: fn(flax, *a)), (lambda *a: fn(jax.lax, *a))
    expected = theirs(*[jnp.asarray(a) for a in args])
    close(ours(*args), expected, "value")
    close(funcad.jit(ours)(*args), expected, "jit")
    which = floats(args)
    if grad and which and expected.dtype.kind in "fc":

        def on_floats(f, values):
            full = list(args)
            for i, v in zip(which, values):
                full[i] = v
            return f(*full)

        values = [args[i] for i in which]
        weights = np.random.default_rng(1).standard_normal(expected.shape).astype(expected.dtype)
        got = funcad.vjp(lambda *v: on_floats(ours, v), *values)[1](weights if weights.ndim else weights[()])
        want = jax.vjp(lambda *v: on_floats(theirs, v), *[jnp.asarray(v) for v in values])[1](jnp.asarray(weights))
        for a, b in zip(got, want):
            close(a, b, "vjp")
    if vmap and args:
        batch = [np.stack([a, a[..., ::-1] if a.ndim else a]) for a in args]
        close(funcad.vmap(ours)(*batch), jax.vmap(theirs)(*[jnp.asarray(b) for b in batch]), "vmap")


def rejected(call, kinds=(TypeError,)):
    with pytest.raises(kinds):
        call(flax)
    with pytest.raises((TypeError, ValueError)):
        call(jax.lax)


def test_both_reject():
    x, y = np.ones(3, np.float32), np.ones(3)
    rejected(lambda l: l.add(x, y))
    rejected(lambda l: l.add(x, 1))
    rejected(lambda l: l.add(y, np.ones(2)))
    rejected(lambda l: l.add(y, np.ones((2, 3))))
    rejected(lambda l: l.sin(np.arange(3)))
    rejected(lambda l: l.bitwise_and(y, y))
    rejected(lambda l: l.real(y))
    rejected(lambda l: l.concatenate([x, y], 0))
    rejected(lambda l: l.reshape(y, (-1, 1)))
    rejected(lambda l: l.transpose(y, (1, 0)))
    rejected(lambda l: l.pad(x, np.float64(0), [(0, 0, 0)]))
    rejected(lambda l: l.slice(y, (0,), (4,)))
    rejected(lambda l: l.integer_pow(np.arange(3), -1))
    rejected(lambda l: l.add([1.0], [2.0]))
    rejected(lambda l: l.squeeze(y, (0,)), (ValueError,))
    rejected(lambda l: l.dot(2.0, y), (ValueError,))
