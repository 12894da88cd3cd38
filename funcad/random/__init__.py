"""Random numbers from keys, as JAX has them: the same bits from the same key, jitted, mapped, on NumPy and on CuPy.

A key is a uint32 array of shape (2,). Drawing does not change it: the same key gives the same numbers, so split keys and use
each once. The generator is Threefry-2x32, with JAX's layout for `jax_threefry_partitionable=True` and 64-bit defaults.

>>> import funcad
>>> key = funcad.random.key(0)
>>> noise_key, choice_key = funcad.random.split(key)
>>> funcad.random.normal(noise_key, (2,)).round(6)
array([ 1.88003 , -0.481215])
"""

from funcad.configuration import public_names as _public_names
from funcad.random.keys import tell_what_draws_share as _tell_what_draws_share

# isort: off
from funcad.primitives.rejection import random_gamma_p as random_gamma_p
from funcad.random.distributions import (
    ball as ball, beta as beta, binomial as binomial, categorical as categorical, cauchy as cauchy, chisquare as chisquare,
    choice as choice, dirichlet as dirichlet, double_sided_maxwell as double_sided_maxwell, exponential as exponential, f as f,
    gamma as gamma, generalized_normal as generalized_normal, geometric as geometric, gumbel as gumbel, laplace as laplace,
    loggamma as loggamma, logistic as logistic, lognormal as lognormal, maxwell as maxwell, multinomial as multinomial,
    multivariate_normal as multivariate_normal, orthogonal as orthogonal, pareto as pareto, permutation as permutation,
    poisson as poisson, rayleigh as rayleigh, t as t, triangular as triangular, wald as wald, weibull_min as weibull_min,
)  # fmt: skip
from funcad.random.keys import (
    PRNGKey as PRNGKey, bernoulli as bernoulli, bits as bits, clone as clone, fold_in as fold_in, key as key,
    key_data as key_data, key_dtype as key_dtype, key_impl as key_impl, normal as normal, rademacher as rademacher,
    randint as randint, split as split, truncated_normal as truncated_normal, uniform as uniform,
    wrap_key_data as wrap_key_data,
)  # fmt: skip
# isort: on

_tell_what_draws_share(list(globals().values()))

__dir__ = _public_names({name: value for name, value in globals().items() if name != "random_gamma_p"})  # JAX's, for its rules
