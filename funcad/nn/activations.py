"""Activation functions, and functions made total (safe_sqrt, safe_log ...).

Every function takes NumPy arrays, CuPy arrays, Python scalars and traced values, keeps the float dtype and turns
integers into float64. At kinks the derivative is the one of the flat side: 0 for relu at 0, `negative_slope` for
leaky_relu at 0. Masks select and never multiply, and the branch that is not taken is evaluated at a harmless point, so
it cannot make NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi
from math import sqrt as _sqrt
from typing import Any

import numpy as np

from funcad.host.real_types import dtype_kind
from funcad.ir.aval import aval_of, dtype_of, said, shape_of
from funcad.ir.tracer import Tracer
from funcad.numpy.promote import as_array, axis_of, broadcast, promote_dtype, result_dtype
from funcad.primitives import activation
from funcad.primitives.arithmetic import abs_, add, div, hypot, maximum, mul, neg, reciprocal, sqrt, square
from funcad.primitives.arithmetic import clamp as _clamp
from funcad.primitives.comparison import gt, lt, select
from funcad.primitives.conversion import stop_gradient
from funcad.primitives.shape import static_slice
from funcad.primitives.special import ndtr
from funcad.primitives.transcendental import exp, expm1, log, log1p, logistic
from funcad.primitives.transcendental import tanh as _tanh

# -- arguments of `funcad.nn` as its primitives take them: strong floats of one dtype and one shape


_FLOAT64 = np.dtype(np.float64)


def operand(x: Any) -> Any:
    """x as a strong float or complex value; integers and bools become float64, float32 stays float32."""
    if (type(x) is Tracer or type(x) is np.ndarray) and dtype_kind(dtype_of(x)) in "fc" and not aval_of(x).weak:
        return x
    x = as_array(x)
    aval = aval_of(x)
    if type(x) in (int, float, bool):
        return np.float64(x)
    return promote_dtype([x], aval.dtype if dtype_kind(aval.dtype) in "fc" else _FLOAT64)[0]


def real_operand(x: Any, what: str) -> Any:
    """As `operand`; complex numbers raise."""
    x = operand(x)
    if dtype_of(x).kind == "c":
        raise TypeError(f"{what} is not defined for complex numbers, got {said(x)}; take np.real or np.abs first")
    return x


def operands(*args: Any) -> Sequence[Any]:
    """The arguments in one float dtype and one shape (NumPy's promotion); Python scalars beside arrays stay scalars."""
    values = [as_array(a) for a in args]
    dtype, weak = result_dtype(values)
    if dtype_kind(dtype) not in "fc":
        dtype = _FLOAT64
    values = promote_dtype(values, dtype)
    if weak:  # Python scalars only: a function's result is strong
        values = [np.float64(v) if type(v) is float else operand(v) for v in values]
    return broadcast(values)


def same_dtype(*args: Any) -> list[Any]:
    """The arguments as floats of one dtype, each in its own shape."""
    values = [operand(a) for a in args]
    return promote_dtype(values, np.result_type(*[dtype_of(v) for v in values]))


def broadcasts(small: tuple, shape: tuple) -> bool:
    """Does an array of the first shape broadcast to the second?"""
    return len(small) <= len(shape) and all(n in (1, m) for n, m in zip(small[::-1], shape[::-1]))


# -- activations


def identity(x: Any) -> Any:
    """x itself.

    >>> import numpy as np; from funcad import nn
    >>> nn.identity(2.0)
    2.0
    """
    return x


def relu(x: Any) -> Any:
    """max(x, 0), element by element.

    Parameters
    ----------
    x : array or number
        Real.

    Returns
    -------
    array or number
        Of the shape and dtype of x.

    Raises
    ------
    TypeError
        x is complex, or no array or number.

    Notes
    -----
    The derivative at 0 is 0; NaN stays NaN. As `jax.nn.relu`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.relu(np.array([-1.0, 2.0]))
    array([0., 2.])

    See also
    --------
    gelu, softplus, leaky_relu
    """
    return activation.relu(real_operand(x, "relu"))


def relu6(x: Any) -> Any:
    """min(max(x, 0), 6). The derivative is 0 at 0 and at 6 (JAX: 0.5 at 6).

    >>> import numpy as np; from funcad import nn
    >>> nn.relu6(np.array([-1.0, 2.0, 9.0]))
    array([0., 2., 6.])
    """
    return _clamp(real_operand(x, "relu6"), 0.0, 6.0)


def leaky_relu(x: Any, negative_slope: Any = 0.01) -> Any:
    """x where x > 0, else negative_slope * x. The derivative at 0 is `negative_slope`, which may be traced.

    >>> import numpy as np; from funcad import nn
    >>> nn.leaky_relu(np.array([-1.0, 2.0]), 0.1)
    array([-0.1,  2. ])
    """
    x, slope = operands(real_operand(x, "leaky_relu"), negative_slope)
    return select(gt(x, 0.0), x, mul(slope, x))


def _negative_part(x: Any) -> Any:
    """x where it is not positive, else 0: keeps exp away from overflow in the branch that is not taken."""
    return select(gt(x, 0.0), 0.0, x)


def elu(x: Any, alpha: Any = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x) - 1). The derivative at 0 is `alpha`, which may be traced.

    >>> import numpy as np; from funcad import nn
    >>> nn.elu(np.array([-np.inf, 2.0]))
    array([-1.,  2.])
    """
    x, alpha = operands(real_operand(x, "elu"), alpha)
    return select(gt(x, 0.0), x, mul(alpha, expm1(_negative_part(x))))


def selu(x: Any) -> Any:
    """The self-normalising elu: 1.0507 * elu(x, 1.6733).

    >>> import numpy as np; from funcad import nn
    >>> nn.selu(np.array([0.0, 1.0]))
    array([0.        , 1.05070099])
    """
    return mul(1.0507009873554805, elu(x, 1.6732632423543772))


def celu(x: Any, alpha: Any = 1.0) -> Any:
    """x where x > 0, else alpha * (exp(x / alpha) - 1): continuous derivative for every alpha.

    >>> import numpy as np; from funcad import nn
    >>> nn.celu(np.array([-np.inf, 2.0]), 0.5)
    array([-0.5,  2. ])
    """
    x, alpha = operands(real_operand(x, "celu"), alpha)
    return select(gt(x, 0.0), x, mul(alpha, expm1(div(_negative_part(x), alpha))))


def gelu(x: Any, approximate: bool = True) -> Any:
    """x times the normal distribution function of x, element by element.

    Parameters
    ----------
    x : array or number
        Real.
    approximate : bool
        True, the default: the approximation by tanh. False: exactly, by erf.

    Returns
    -------
    array or number
        Of the shape of x; float64 for integers.

    Raises
    ------
    TypeError
        x is complex, or no array or number.

    Notes
    -----
    As `jax.nn.gelu`, whose default is the approximation, too; that of `torch.nn.GELU` is exact.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.gelu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8412])
    >>> nn.gelu(np.array([0.0, 1.0]), approximate=False).round(4)
    array([0.    , 0.8413])

    See also
    --------
    relu, silu, softplus
    """
    x = real_operand(x, "gelu")
    if not approximate:
        return mul(x, ndtr(x))
    near = _clamp(x, -16.0, 16.0)  # beyond, the tanh is 1 and the square could overflow
    inner = mul(_sqrt(2 / pi), mul(near, add(1.0, mul(0.044715, square(near)))))
    return mul(mul(0.5, x), add(1.0, _tanh(inner)))


def silu(x: Any) -> Any:
    """x * sigmoid(x); also named swish.

    >>> import numpy as np; from funcad import nn
    >>> nn.silu(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.7311])
    """
    x = operand(x)
    return mul(x, logistic(x))


swish = silu


def mish(x: Any) -> Any:
    """x * tanh(softplus(x)).

    >>> import numpy as np; from funcad import nn
    >>> nn.mish(np.array([0.0, 1.0])).round(4)
    array([0.    , 0.8651])
    """
    x = real_operand(x, "mish")
    return mul(x, _tanh(activation.softplus(x)))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), element by element.

    Parameters
    ----------
    x : array or number
        Real.

    Returns
    -------
    array or number
        Of the shape of x, between 0 and 1; float64 for integers.

    Raises
    ------
    TypeError
        x is no array or number.

    Notes
    -----
    It does not overflow, and tiny results keep their relative accuracy. As `jax.nn.sigmoid` and `scipy.special.expit`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.sigmoid(np.array([-1000.0, 0.0]))
    array([0. , 0.5])

    See also
    --------
    log_sigmoid, softmax, tanh
    """
    return logistic(operand(x))


def hard_sigmoid(x: Any) -> Any:
    """relu6(x + 3) / 6.

    >>> import numpy as np; from funcad import nn
    >>> nn.hard_sigmoid(np.array([-4.0, 0.0, 4.0]))
    array([0. , 0.5, 1. ])
    """
    return div(relu6(add(real_operand(x, "hard_sigmoid"), 3.0)), 6.0)


def hard_silu(x: Any) -> Any:
    """x * hard_sigmoid(x); also named hard_swish.

    >>> import numpy as np; from funcad import nn
    >>> nn.hard_silu(np.array([-4.0, 1.0, 4.0])).round(4)
    array([-0.    ,  0.6667,  4.    ])
    """
    x = real_operand(x, "hard_silu")
    return mul(x, hard_sigmoid(x))


hard_swish = hard_silu


def sparse_plus(x: Any) -> Any:
    """0 for x <= -1, (x + 1)**2 / 4 between, x for x >= 1: a softplus that is exactly 0 and exactly x far out.

    >>> import numpy as np; from funcad import nn
    >>> nn.sparse_plus(np.array([-2.0, 0.0, 3.0]))
    array([0.  , 0.25, 3.  ])
    """
    x = real_operand(x, "sparse_plus")
    inside = mul(0.25, square(_clamp(add(x, 1.0), 0.0, 2.0, boundary_grad=1.0)))
    return select(gt(x, 1.0), x, inside)


def sparse_sigmoid(x: Any) -> Any:
    """min(max((x + 1) / 2, 0), 1): the derivative of sparse_plus. Its own derivative on the bounds is 0 (JAX: 0.25).

    >>> import numpy as np; from funcad import nn
    >>> nn.sparse_sigmoid(np.array([-2.0, 0.0, 3.0]))
    array([0. , 0.5, 1. ])
    """
    return mul(0.5, _clamp(add(real_operand(x, "sparse_sigmoid"), 1.0), 0.0, 2.0))


def log_sigmoid(x: Any) -> Any:
    """log(sigmoid(x)) = -softplus(-x).

    >>> import numpy as np; from funcad import nn
    >>> nn.log_sigmoid(np.array([-1000.0, 0.0])).round(4)
    array([-1.000e+03, -6.931e-01])
    """
    return neg(activation.softplus(neg(real_operand(x, "log_sigmoid"))))


def tanh(x: Any) -> Any:
    """The hyperbolic tangent.

    `x` is a real or complex array. The derivative is 1 - tanh(x)**2.

    >>> import numpy as np; from funcad import nn
    >>> nn.tanh(np.array([0.0]))
    array([0.])
    """
    return _tanh(operand(x))


def hard_tanh(x: Any) -> Any:
    """min(max(x, -1), 1). The derivative on the bounds is 0 (JAX: 1).

    >>> import numpy as np; from funcad import nn
    >>> nn.hard_tanh(np.array([-3.0, 0.5]))
    array([-1. ,  0.5])
    """
    return _clamp(real_operand(x, "hard_tanh"), -1.0, 1.0)


def softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow.

    >>> import numpy as np; from funcad import nn
    >>> nn.softplus(np.array([0.0, 1000.0])).round(4)
    array([6.931e-01, 1.000e+03])
    """
    return activation.softplus(real_operand(x, "softplus"))


def squareplus(x: Any, b: Any = 4.0) -> Any:
    """(x + sqrt(x**2 + b)) / 2.

    >>> import numpy as np; from funcad import nn
    >>> nn.squareplus(np.array([0.0, 1.5]))
    array([1., 2.])
    """
    x, b = operands(real_operand(x, "squareplus"), b)
    return mul(0.5, add(x, sqrt(add(square(x), b))))


def soft_sign(x: Any) -> Any:
    """x / (1 + |x|).

    >>> import numpy as np; from funcad import nn
    >>> nn.soft_sign(np.array([-1.0, 3.0]))
    array([-0.5 ,  0.75])
    """
    x = real_operand(x, "soft_sign")
    return div(x, add(1.0, abs_(x)))


def glu(x: Any, axis: int = -1) -> Any:
    """The first half of x along an axis, times the sigmoid of the second half.

    >>> import numpy as np; from funcad import nn
    >>> nn.glu(np.array([1.0, 0.0]))
    array([0.5])
    """
    x = operand(x)
    axis = axis_of(axis, len(shape_of(x)))
    n = shape_of(x)[axis]
    if n % 2:
        raise ValueError(f"glu: axis {axis} of an array of shape {shape_of(x)} cannot be halved")
    return mul(static_slice(x, 0, n // 2, axis), logistic(static_slice(x, n // 2, n, axis)))


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) for x > 0, accurate everywhere.

    >>> import numpy as np; from funcad import nn
    >>> nn.log1mexp(np.array([1e-20])).round(4)
    array([-46.0517])
    """
    x = real_operand(x, "log1mexp")
    small = lt(x, 0.6931471805599453)
    near = log(neg(expm1(neg(select(small, x, 0.5)))))
    return select(small, near, log1p(neg(exp(neg(select(small, 1.0, x))))))


def smooth_abs(x: Any, eps: float = 1e-6) -> Any:
    """sqrt(x**2 + eps): smooth, its value at 0 is sqrt(eps).

    >>> import numpy as np; from funcad import nn
    >>> nn.smooth_abs(np.array([0.0, 3.0]), eps=16.0)
    array([4., 5.])
    """
    return hypot(real_operand(x, "smooth_abs"), _sqrt(eps))


def safe_sqrt(x: Any) -> Any:
    """sqrt(max(x, 0)), whose derivative is exactly 0 for x <= 0. NaN stays NaN, with derivative 0.

    >>> import numpy as np; from funcad import nn
    >>> nn.safe_sqrt(np.array([-1.0, 0.0, 4.0]))
    array([0., 0., 2.])
    """
    x = real_operand(x, "safe_sqrt")
    positive = gt(x, 0.0)
    return select(positive, sqrt(select(positive, x, 1.0)), maximum(stop_gradient(x), 0.0))


def safe_log(x: Any, eps: float = 1e-6) -> Any:
    """log(softplus(x) + eps): total and smooth, about log(x) for large x, log(eps) for x -> -inf.

    >>> import numpy as np; from funcad import nn
    >>> nn.safe_log(np.array([-np.inf, 1e6])).round(4)
    array([-13.8155,  13.8155])
    """
    return activation.safe_log(real_operand(x, "safe_log"), eps=eps)


def shifted_log(x: Any, eps: float = 1e-6) -> Any:
    """log(x + eps).

    >>> import numpy as np; from funcad import nn
    >>> nn.shifted_log(np.array([0.0]), eps=1.0)
    array([0.])
    """
    return log(add(operand(x), float(eps)))


def safe_reciprocal(x: Any, eps: float = 1e-6) -> Any:
    """1 / (x + eps): eps is added whatever x's sign, so the pole moves to -eps.

    >>> import numpy as np; from funcad import nn
    >>> nn.safe_reciprocal(np.array([0.0]), eps=0.5)
    array([2.])
    """
    return reciprocal(add(operand(x), float(eps)))


def safe_divide(x: Any, y: Any, eps: float = 1e-6) -> Any:
    """x / (y + eps), broadcast; eps is added whatever y's sign.

    >>> import numpy as np; from funcad import nn
    >>> nn.safe_divide(1.0, np.array([0.0]), eps=0.5)
    array([2.])
    """
    x, y = operands(x, y)
    return div(x, add(y, float(eps)))


def clamp(x: Any, lo: Any, hi: Any, boundary_grad: float = 0.0) -> Any:
    """min(hi, max(lo, x)), broadcast. The derivative is 1 strictly inside, 0 outside, `boundary_grad` on the bounds.

    `lo > hi` gives `hi`; NaN stays NaN with derivative 0. `funcad.numpy.clip` has a derivative of 0.5 on the bounds.

    >>> import numpy as np; from funcad import nn
    >>> nn.clamp(np.array([-2.0, 0.5, 2.0]), -1.0, 1.0)
    array([-1. ,  0.5,  1. ])
    """
    x, lo, hi = operands(real_operand(x, "clamp"), lo, hi)
    return _clamp(x, lo, hi, boundary_grad=boundary_grad)
