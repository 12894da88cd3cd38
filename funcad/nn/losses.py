"""Loss functions: `loss(prediction, target, ..., reduction="mean" | "sum" | "none")`.

Both arguments are broadcast against each other and both are differentiable. "mean" divides by the number of elements
(the mean over nothing is 0, where NumPy's would be NaN); for the cross entropies by the number of slices, as PyTorch
does, while "elements" divides by the number of all elements. Clipped probabilities have derivative 0 on and outside the
clip points.
"""

from __future__ import annotations

from math import prod
from typing import Any

from funcad.configuration import also_says
from funcad.ir.aval import dtype_of, shape_of
from funcad.nn.activations import operands, real_operand
from funcad.nn.layers import one_hot
from funcad.numpy.promote import axis_of
from funcad.primitives import activation
from funcad.primitives.arithmetic import abs_, add, clamp, div, mul, neg, sqrt, square, sub
from funcad.primitives.basic_indexing import gather
from funcad.primitives.comparison import and_, eq, ge, gt, isinf, lt, select
from funcad.primitives.placement import on_device_of
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import transpose
from funcad.primitives.transcendental import exp, log

_REDUCTIONS = ("mean", "sum", "none")


def _sum(x: Any) -> Any:
    return reduce_sum(x, axes=tuple(range(len(shape_of(x)))))


def _reduced(what: str, x: Any, reduction: str, allowed: tuple = _REDUCTIONS, elements: int = 0) -> Any:
    if reduction not in allowed:
        raise ValueError(f"{what}: reduction must be one of {', '.join(map(repr, allowed))}, got {reduction!r}")
    if reduction == "none":
        return x
    if reduction == "sum":
        return _sum(x)
    count = elements if reduction == "elements" else prod(shape_of(x))
    return div(_sum(x), float(max(1, count)))


def _pair(what: str, prediction: Any, target: Any) -> Any:
    given = real_operand(prediction, what), real_operand(target, what)
    try:
        return operands(*given)
    except ValueError:
        of, by = [shape_of(x) for x in given]
        told = f"{what}: a target of shape {by} does not fit predictions of shape {of}"
        raise ValueError(f"{told}.\nRemedy: give both the same shape.") from None


def _positive(what: str, name: str, value: Any) -> float:
    if not value > 0:
        raise ValueError(f"{what}: {name} must be positive, got {value!r}")
    return float(value)


def mse_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of (prediction - target)**2.

    >>> import numpy as np; from funcad import nn
    >>> nn.mse_loss(np.array([1.0, 3.0]), 1.0)
    np.float64(2.0)
    """
    p, t = _pair("mse_loss", prediction, target)
    return _reduced("mse_loss", square(sub(p, t)), reduction)


def mae_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of |prediction - target|, whose derivative is 0 where they are equal.

    >>> import numpy as np; from funcad import nn
    >>> nn.mae_loss(np.array([1.0, 3.0]), 1.0)
    np.float64(1.0)
    """
    p, t = _pair("mae_loss", prediction, target)
    return _reduced("mae_loss", abs_(sub(p, t)), reduction)


def huber_loss(prediction: Any, target: Any, delta: float = 1.0, reduction: str = "mean") -> Any:
    """The mean of d**2 / 2 where |d| < delta, else delta * (|d| - delta / 2), with d = prediction - target.

    >>> import numpy as np; from funcad import nn
    >>> nn.huber_loss(np.array([1.0, 4.0]), 0.0, delta=2.0)
    np.float64(3.25)
    """
    delta = _positive("huber_loss", "delta", delta)
    p, t = _pair("huber_loss", prediction, target)
    d = sub(p, t)
    size = abs_(d)
    far = mul(delta, sub(size, delta / 2))
    return _reduced("huber_loss", select(lt(size, delta), mul(0.5, square(d)), far), reduction)


def smooth_l1_loss(prediction: Any, target: Any, beta: float = 1.0, reduction: str = "mean") -> Any:
    """`huber_loss(delta=beta) / beta`: d**2 / (2 * beta) where |d| < beta, else |d| - beta / 2.

    >>> import numpy as np; from funcad import nn
    >>> nn.smooth_l1_loss(np.array([1.0, 4.0]), 0.0, beta=2.0)
    np.float64(1.625)
    """
    beta = _positive("smooth_l1_loss", "beta", beta)
    p, t = _pair("smooth_l1_loss", prediction, target)
    d = sub(p, t)
    size = abs_(d)
    near = mul(0.5 / beta, square(d))
    return _reduced("smooth_l1_loss", select(lt(size, beta), near, sub(size, beta / 2)), reduction)


_CROSS = ("mean", "elements", "sum", "none")


def cross_entropy(prediction: Any, target: Any, axis: int = -1, eps: float = 1e-6, reduction: str = "mean") -> Any:
    """-sum(target * log(clip(prediction, eps, 1 - eps))) along the class axis; both hold probabilities.

    "mean" is per slice, "elements" over all elements, "none" gives the slices. On and outside the clip points the
    derivative with respect to the prediction is 0. For logits take `softmax_cross_entropy`.

    >>> import numpy as np; from funcad import nn
    >>> nn.cross_entropy(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(4)
    np.float64(0.6931)
    """
    p, t = _pair("cross_entropy", prediction, target)
    axis = axis_of(axis, len(shape_of(p)))
    terms = mul(t, log(clamp(p, eps, 1.0 - eps)))
    return _reduced("cross_entropy", neg(reduce_sum(terms, axes=(axis,))), reduction, _CROSS, prod(shape_of(p)))


def softmax_cross_entropy(logits: Any, target: Any, axis: int = -1, reduction: str = "mean") -> Any:
    """-sum(target * log_softmax(logits)) along the axis of the classes.

    Parameters
    ----------
    logits : array
        Real, with an axis of the classes.
    target : array
        Probabilities, of the shape of logits; or integer classes without that axis, which count as one-hot. A class
        that there is not counts as zeros.
    axis : int
        The axis of the classes.
    reduction : {"mean", "sum", "elements", "none"}
        "mean" over the slices, "elements" over all elements; "none" gives the slices.

    Returns
    -------
    number or array
        A number, or with "none" an array of the shape of logits without the axis.

    Raises
    ------
    ValueError
        There is no such reduction, or shapes do not fit.

    Notes
    -----
    The probabilities of a slice need not sum to 1. It takes logits, as `torch.nn.functional.cross_entropy` does (whose
    axis is 1); for probabilities there is `cross_entropy`.

    Examples
    --------
    >>> import numpy as np; from funcad import nn
    >>> nn.softmax_cross_entropy(np.array([[0.0, 0.0]]), np.array([1])).round(4)
    np.float64(0.6931)
    >>> nn.softmax_cross_entropy(np.zeros((2, 2)), np.array([[0.0, 1.0], [0.5, 0.5]]), reduction="none").round(4)
    array([0.6931, 0.6931])

    See also
    --------
    log_softmax, cross_entropy, binary_cross_entropy
    """
    logits = real_operand(logits, "softmax_cross_entropy")
    ndim = len(shape_of(logits))
    axis = axis_of(axis, ndim)
    if dtype_of(target).kind in "iu" and len(shape_of(target)) == ndim - 1:
        shape = shape_of(logits)
        if ndim > 1 and shape[axis] and shape_of(target) == (*shape[:axis], *shape[axis + 1 :]):
            return _reduced("softmax_cross_entropy", _of_classes(logits, target, axis), reduction, _CROSS, prod(shape))
        target = one_hot(target, shape_of(logits)[axis], axis=axis, dtype=dtype_of(logits))
    z, t = _pair("softmax_cross_entropy", logits, target)
    log_p = activation.log_softmax(z, axis=axis)
    impossible = and_(eq(t, 0.0), isinf(log_p))  # a class of no weight: 0 * -inf is 0 here
    terms = mul(t, select(impossible, 0.0, log_p))
    return _reduced("softmax_cross_entropy", neg(reduce_sum(terms, axes=(axis,))), reduction, _CROSS, prod(shape_of(z)))


def _of_classes(logits: Any, classes: Any, axis: int) -> Any:
    """The slices' cross entropies: one element of each is picked, for the others count nothing."""
    n, last = shape_of(logits)[axis], len(shape_of(logits)) - 1
    known = and_(ge(classes, 0), lt(classes, n))
    log_p = activation.log_softmax(logits, axis=axis)
    if axis != last:
        log_p = transpose(log_p, perm=(*[i for i in range(last + 1) if i != axis], axis))
    picked = gather(log_p, *on_device_of((select(known, classes, 0),), (log_p,)), batch_dims=last)
    return select(known, neg(picked), 0.0)


def binary_cross_entropy(prediction: Any, target: Any, eps: float = 1e-6, reduction: str = "mean") -> Any:
    """The mean of -(t * log(p) + (1 - t) * log(1 - p)), with p = clip(prediction, eps, 1 - eps).

    >>> import numpy as np; from funcad import nn
    >>> nn.binary_cross_entropy(np.array([0.5, 0.5]), np.array([0.0, 1.0])).round(4)
    np.float64(0.6931)
    """
    p, t = _pair("binary_cross_entropy", prediction, target)
    p = clamp(p, eps, 1.0 - eps)
    terms = add(mul(t, log(p)), mul(sub(1.0, t), log(sub(1.0, p))))
    return _reduced("binary_cross_entropy", neg(terms), reduction)


def sigmoid_binary_cross_entropy(logits: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of -(t * log(p) + (1 - t) * log(1 - p)) with p = sigmoid(logits), without clipping and without overflow.

    >>> import numpy as np; from funcad import nn
    >>> nn.sigmoid_binary_cross_entropy(np.array([0.0, -1000.0]), np.array([1.0, 0.0])).round(4)
    np.float64(0.3466)
    """
    z, t = _pair("sigmoid_binary_cross_entropy", logits, target)
    terms = sub(activation.softplus(z), mul(t, z))
    return _reduced("sigmoid_binary_cross_entropy", terms, reduction)


def kl_div_loss(log_prediction: Any, target: Any, axis: int = -1, reduction: str = "mean") -> Any:
    """sum(target * (log(target) - log_prediction)) along the class axis: the divergence of the prediction from the target.

    The prediction is given by its logarithms (of `log_softmax`); a class of target 0 counts 0. "mean" is per slice, "elements"
    over all elements, "none" gives the slices.

    >>> import numpy as np; from funcad import nn
    >>> nn.kl_div_loss(np.log([[0.5, 0.5]]), np.array([[1.0, 0.0]])).round(4)
    np.float64(0.6931)
    """
    q, t = _pair("kl_div_loss", log_prediction, target)
    axis = axis_of(axis, len(shape_of(q)))
    absent = eq(t, 0.0)
    entropy = mul(t, log(select(absent, 1.0, t)))
    terms = sub(entropy, mul(t, select(and_(absent, isinf(q)), 0.0, q)))
    return _reduced("kl_div_loss", reduce_sum(terms, axes=(axis,)), reduction, _CROSS, prod(shape_of(q)))


def _norm(x: Any, eps: float) -> Any:
    """max(|x|, eps) over the whole array, with derivative 0 where the norm is at most eps."""
    total = _sum(square(x))
    large = gt(total, eps * eps)
    return select(large, sqrt(select(large, total, 1.0)), eps)


def cosine_similarity_loss(prediction: Any, target: Any, eps: float = 1e-6) -> Any:
    """1 - the cosine between prediction and target, as two long vectors; their norms are at least eps.

    One number for the whole arrays; map it over rows with `funcad.vmap`.

    >>> import numpy as np; from funcad import nn
    >>> nn.cosine_similarity_loss(np.array([1.0, 0.0]), np.array([0.0, 2.0]))
    np.float64(1.0)
    """
    p, t = _pair("cosine_similarity_loss", prediction, target)
    return sub(1.0, div(_sum(mul(p, t)), mul(_norm(p, eps), _norm(t, eps))))


def hinge_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of max(0, 1 - target * prediction), the target being -1 or 1; exactly on the margin the derivative is 0.

    >>> import numpy as np; from funcad import nn
    >>> nn.hinge_loss(np.array([0.5, 3.0]), np.array([1.0, 1.0]))
    np.float64(0.25)
    """
    p, t = _pair("hinge_loss", prediction, target)
    return _reduced("hinge_loss", activation.relu(sub(1.0, mul(t, p))), reduction)


def poisson_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of exp(prediction) - target * prediction: the prediction is the logarithm of the rate.

    >>> import numpy as np; from funcad import nn
    >>> nn.poisson_loss(np.array([0.0]), np.array([2.0]))
    np.float64(1.0)
    """
    p, t = _pair("poisson_loss", prediction, target)
    return _reduced("poisson_loss", sub(exp(p), mul(t, p)), reduction)


def log_cosh_loss(prediction: Any, target: Any, reduction: str = "mean") -> Any:
    """The mean of log(cosh(prediction - target)), without overflow.

    >>> import numpy as np; from funcad import nn
    >>> nn.log_cosh_loss(np.array([1000.0]), np.array([0.0])).round(4)
    np.float64(999.3069)
    """
    p, t = _pair("log_cosh_loss", prediction, target)
    return _reduced("log_cosh_loss", activation.log_cosh(sub(p, t)), reduction)


for _loss in (
    mse_loss, mae_loss, huber_loss, smooth_l1_loss, cross_entropy, softmax_cross_entropy, binary_cross_entropy,
    sigmoid_binary_cross_entropy, kl_div_loss, cosine_similarity_loss, hinge_loss, poisson_loss, log_cosh_loss,
):  # fmt: skip
    also_says(
        _loss,
        "The first two arguments are real arrays, a prediction and a target, which broadcast. `reduction` is 'mean', 'sum' or\n"
        "'none' (of the cross entropies 'elements' too), else ValueError. Returns a number, or with 'none' an array.",
    )
