"""Neural-network functions: activations, total (safe) functions, losses, layers. Parameters are arguments."""

import importlib as _importlib
import typing as _typing
from typing import Any as _Any

from funcad.names import public_names as _public_names
from funcad.nn.activations import celu as celu
from funcad.nn.activations import clamp as clamp
from funcad.nn.activations import elu as elu
from funcad.nn.activations import gelu as gelu
from funcad.nn.activations import glu as glu
from funcad.nn.activations import hard_sigmoid as hard_sigmoid
from funcad.nn.activations import hard_silu as hard_silu
from funcad.nn.activations import hard_swish as hard_swish
from funcad.nn.activations import hard_tanh as hard_tanh
from funcad.nn.activations import identity as identity
from funcad.nn.activations import leaky_relu as leaky_relu
from funcad.nn.activations import log1mexp as log1mexp
from funcad.nn.activations import log_sigmoid as log_sigmoid
from funcad.nn.activations import mish as mish
from funcad.nn.activations import relu as relu
from funcad.nn.activations import relu6 as relu6
from funcad.nn.activations import safe_divide as safe_divide
from funcad.nn.activations import safe_log as safe_log
from funcad.nn.activations import safe_reciprocal as safe_reciprocal
from funcad.nn.activations import safe_sqrt as safe_sqrt
from funcad.nn.activations import selu as selu
from funcad.nn.activations import shifted_log as shifted_log
from funcad.nn.activations import sigmoid as sigmoid
from funcad.nn.activations import silu as silu
from funcad.nn.activations import smooth_abs as smooth_abs
from funcad.nn.activations import soft_sign as soft_sign
from funcad.nn.activations import softplus as softplus
from funcad.nn.activations import sparse_plus as sparse_plus
from funcad.nn.activations import sparse_sigmoid as sparse_sigmoid
from funcad.nn.activations import squareplus as squareplus
from funcad.nn.activations import swish as swish
from funcad.nn.activations import tanh as tanh
from funcad.nn.attention import dot_product_attention as dot_product_attention
from funcad.nn.convolution_layers import conv as conv
from funcad.nn.convolution_layers import conv_transpose as conv_transpose
from funcad.nn.exponentials import log_softmax as log_softmax
from funcad.nn.exponentials import logmeanexp as logmeanexp
from funcad.nn.exponentials import logsumexp as logsumexp
from funcad.nn.exponentials import softmax as softmax
from funcad.nn.layers import bmm as bmm
from funcad.nn.layers import dropout as dropout
from funcad.nn.layers import embedding as embedding
from funcad.nn.layers import linear as linear
from funcad.nn.layers import one_hot as one_hot
from funcad.nn.layers import slice_range as slice_range
from funcad.nn.losses import binary_cross_entropy as binary_cross_entropy
from funcad.nn.losses import cosine_similarity_loss as cosine_similarity_loss
from funcad.nn.losses import cross_entropy as cross_entropy
from funcad.nn.losses import hinge_loss as hinge_loss
from funcad.nn.losses import huber_loss as huber_loss
from funcad.nn.losses import kl_div_loss as kl_div_loss
from funcad.nn.losses import log_cosh_loss as log_cosh_loss
from funcad.nn.losses import mae_loss as mae_loss
from funcad.nn.losses import mse_loss as mse_loss
from funcad.nn.losses import poisson_loss as poisson_loss
from funcad.nn.losses import sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy
from funcad.nn.losses import smooth_l1_loss as smooth_l1_loss
from funcad.nn.losses import softmax_cross_entropy as softmax_cross_entropy
from funcad.nn.nn_norms import batch_norm as batch_norm
from funcad.nn.nn_norms import group_norm as group_norm
from funcad.nn.nn_norms import instance_norm as instance_norm
from funcad.nn.nn_norms import layer_norm as layer_norm
from funcad.nn.nn_norms import rms_norm as rms_norm
from funcad.nn.nn_norms import standardize as standardize
from funcad.nn.pooling import avg_pool as avg_pool
from funcad.nn.pooling import max_pool as max_pool
from funcad.nn.pooling import min_pool as min_pool

if _typing.TYPE_CHECKING:
    from funcad.nn import initializers as initializers


def _loaded(name: str) -> _Any:
    if name == "initializers":  # loads funcad.random
        return _importlib.import_module("funcad.nn.initializers")
    raise AttributeError(f"module 'funcad.nn' has no attribute {name!r}")


if not _typing.TYPE_CHECKING:  # seen by a checker, it would give every misspelt name a type
    __getattr__ = _loaded

__dir__ = _public_names(globals(), ["initializers"])
