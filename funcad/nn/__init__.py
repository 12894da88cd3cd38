"""Neural-network functions: activations, total (safe) functions, losses, layers. Parameters are arguments."""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.configuration import public_names as _public_names

# isort: off
from funcad.nn.activations import (
    celu as celu, clamp as clamp, elu as elu, gelu as gelu, glu as glu, hard_sigmoid as hard_sigmoid, hard_silu as hard_silu,
    hard_swish as hard_swish, hard_tanh as hard_tanh, identity as identity, leaky_relu as leaky_relu, log1mexp as log1mexp,
    log_sigmoid as log_sigmoid, mish as mish, relu as relu, relu6 as relu6, safe_divide as safe_divide, safe_log as safe_log,
    safe_reciprocal as safe_reciprocal, safe_sqrt as safe_sqrt, selu as selu, shifted_log as shifted_log, sigmoid as sigmoid,
    silu as silu, smooth_abs as smooth_abs, soft_sign as soft_sign, softplus as softplus, sparse_plus as sparse_plus,
    sparse_sigmoid as sparse_sigmoid, squareplus as squareplus, swish as swish, tanh as tanh,
)  # fmt: skip
from funcad.nn.attention import (
    batch_norm as batch_norm, dot_product_attention as dot_product_attention, group_norm as group_norm,
    instance_norm as instance_norm, layer_norm as layer_norm, log_softmax as log_softmax, logmeanexp as logmeanexp,
    logsumexp as logsumexp, rms_norm as rms_norm, softmax as softmax, standardize as standardize,
)  # fmt: skip
from funcad.nn.layers import (
    avg_pool as avg_pool, bmm as bmm, conv as conv, conv_transpose as conv_transpose, dropout as dropout,
    embedding as embedding, linear as linear, max_pool as max_pool, min_pool as min_pool, one_hot as one_hot,
    slice_range as slice_range,
)  # fmt: skip
from funcad.nn.losses import (
    binary_cross_entropy as binary_cross_entropy, cosine_similarity_loss as cosine_similarity_loss,
    cross_entropy as cross_entropy, hinge_loss as hinge_loss, huber_loss as huber_loss, kl_div_loss as kl_div_loss,
    log_cosh_loss as log_cosh_loss, mae_loss as mae_loss, mse_loss as mse_loss, poisson_loss as poisson_loss,
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy, smooth_l1_loss as smooth_l1_loss,
    softmax_cross_entropy as softmax_cross_entropy,
)  # fmt: skip
# isort: on

if _typing.TYPE_CHECKING:
    from funcad.nn import initializers as initializers


def _loaded(name: str) -> _Any:
    if name == "initializers":  # loads funcad.random
        return _importlib.import_module("funcad.nn.initializers")
    raise AttributeError(f"module 'funcad.nn' has no attribute {name!r}")


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _loaded

__dir__ = _public_names(globals(), ["initializers"])
