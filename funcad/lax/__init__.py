"""`jax.lax`'s names on NumPy and CuPy arrays.

Strict where `funcad.numpy` is lenient: operands must have equal dtypes and shapes (TypeError otherwise), nothing is promoted,
axes and sizes are given in full. On arrays the functions compute NumPy's results at once; under the transforms they are
recorded. Differences from JAX are said at each function; the common ones: positions are int64, the derivative of a maximum
is shared equally among tied elements, and a Python number adapts to the dtype of the array beside it.
"""

from funcad.configuration import public_names as _public_names

# isort: off
from funcad.api.tools import stop_gradient as stop_gradient
from funcad.control.cond import cond as cond, switch as switch
from funcad.control.loops import associative_scan as associative_scan, fori_loop as fori_loop, map as map
from funcad.control.scan import scan as scan
from funcad.control.solve import custom_linear_solve as custom_linear_solve, custom_root as custom_root
from funcad.control.while_loop import while_loop as while_loop
from funcad.lax.lax_bits import (
    bitcast_convert_type as bitcast_convert_type, clz as clz, convert_element_type as convert_element_type, mulhi as mulhi,
    population_count as population_count, reduce_precision as reduce_precision,
    shift_right_arithmetic as shift_right_arithmetic, shift_right_logical as shift_right_logical,
)  # fmt: skip
from funcad.lax.lax_elementwise import (
    RoundingMethod as RoundingMethod, abs as abs, acos as acos, acosh as acosh, add as add, asin as asin, asinh as asinh,
    atan as atan, atan2 as atan2, atanh as atanh, bessel_i0e as bessel_i0e, bessel_i1e as bessel_i1e, betainc as betainc,
    bitwise_and as bitwise_and, bitwise_not as bitwise_not, bitwise_or as bitwise_or, bitwise_xor as bitwise_xor, cbrt as cbrt,
    ceil as ceil, clamp as clamp, complex as complex, conj as conj, cos as cos, cosh as cosh, digamma as digamma, div as div,
    eq as eq, erf as erf, erf_inv as erf_inv, erfc as erfc, exp as exp, exp2 as exp2, expm1 as expm1, floor as floor, ge as ge,
    gt as gt, igamma as igamma, igamma_grad_a as igamma_grad_a, igammac as igammac, imag as imag, integer_pow as integer_pow,
    is_finite as is_finite, le as le, lgamma as lgamma, log as log, log1p as log1p, logistic as logistic, lt as lt, max as max,
    min as min, mul as mul, ne as ne, neg as neg, nextafter as nextafter, polygamma as polygamma, pow as pow,
    random_gamma_grad as random_gamma_grad, real as real, reciprocal as reciprocal, rem as rem, round as round, rsqrt as rsqrt,
    select as select, select_n as select_n, shift_left as shift_left, sign as sign, sin as sin, sinh as sinh, sqrt as sqrt,
    square as square, sub as sub, tan as tan, tanh as tanh, zeta as zeta,
)  # fmt: skip
from funcad.lax.lax_indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers, GatherScatterMode as GatherScatterMode,
    ScatterDimensionNumbers as ScatterDimensionNumbers, dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice as dynamic_slice, dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim, dynamic_update_slice as dynamic_update_slice,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim, gather as gather, index_take as index_take, scatter as scatter,
    scatter_add as scatter_add, scatter_max as scatter_max, scatter_min as scatter_min, scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
)  # fmt: skip
from funcad.lax.lax_reductions import (
    ConvDimensionNumbers as ConvDimensionNumbers, Precision as Precision, approx_max_k as approx_max_k,
    approx_min_k as approx_min_k, argmax as argmax, argmin as argmin, batch_matmul as batch_matmul, conv as conv,
    conv_dimension_numbers as conv_dimension_numbers, conv_general_dilated as conv_general_dilated,
    conv_general_dilated_patches as conv_general_dilated_patches, conv_transpose as conv_transpose,
    conv_with_general_padding as conv_with_general_padding, cumlogsumexp as cumlogsumexp, cummax as cummax, cummin as cummin,
    cumprod as cumprod, cumsum as cumsum, dot as dot, dot_general as dot_general, optimization_barrier as optimization_barrier,
    padtype_to_pads as padtype_to_pads, platform_dependent as platform_dependent, reduce as reduce, reduce_and as reduce_and,
    reduce_max as reduce_max, reduce_min as reduce_min, reduce_or as reduce_or, reduce_prod as reduce_prod,
    reduce_sum as reduce_sum, reduce_window as reduce_window, reduce_xor as reduce_xor, sort as sort,
    sort_key_val as sort_key_val, top_k as top_k,
)  # fmt: skip
from funcad.lax.shapes import (
    broadcast as broadcast, broadcast_in_dim as broadcast_in_dim, broadcast_like as broadcast_like,
    broadcast_shapes as broadcast_shapes, broadcast_to_rank as broadcast_to_rank, broadcasted_iota as broadcasted_iota,
    collapse as collapse, concatenate as concatenate, dtype as dtype, empty as empty, expand_dims as expand_dims, full as full,
    full_like as full_like, index_in_dim as index_in_dim, iota as iota, pad as pad, reshape as reshape, rev as rev,
    shape_as_value as shape_as_value, slice as slice, slice_in_dim as slice_in_dim, split as split, squeeze as squeeze,
    stack as stack, tile as tile, transpose as transpose, unstack as unstack,
)  # fmt: skip
from funcad.primitives.collective import (
    all_gather as all_gather, all_to_all as all_to_all, axis_index as axis_index, axis_size as axis_size, pmax as pmax,
    pmean as pmean, pmin as pmin, ppermute as ppermute, pshuffle as pshuffle, psum as psum, psum_scatter as psum_scatter,
)  # fmt: skip
# isort: on

__dir__ = _public_names(globals())
