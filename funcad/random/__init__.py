"""Random numbers from keys, as JAX has them: the same bits from the same key, jitted, mapped, on NumPy and on CuPy.

A key is a uint32 array of shape (2,). Drawing does not change it: the same key gives the same numbers, so split keys and use
each once. The generator is Threefry-2x32, with JAX's layout for `jax_threefry_partitionable=True` and 64-bit defaults.

>>> import funcad
>>> key = funcad.random.key(0)
>>> noise_key, choice_key = funcad.random.split(key)
>>> funcad.random.normal(noise_key, (2,)).round(6)
array([ 1.88003 , -0.481215])
"""

from funcad.names import public_names as _public_names
from funcad.primitives.rejection import random_gamma_p as random_gamma_p
from funcad.random.arrays import choice as choice
from funcad.random.arrays import multivariate_normal as multivariate_normal
from funcad.random.arrays import orthogonal as orthogonal
from funcad.random.arrays import permutation as permutation
from funcad.random.basic import bernoulli as bernoulli
from funcad.random.basic import bits as bits
from funcad.random.basic import normal as normal
from funcad.random.basic import rademacher as rademacher
from funcad.random.basic import randint as randint
from funcad.random.basic import truncated_normal as truncated_normal
from funcad.random.basic import uniform as uniform
from funcad.random.continuous import cauchy as cauchy
from funcad.random.continuous import double_sided_maxwell as double_sided_maxwell
from funcad.random.continuous import exponential as exponential
from funcad.random.continuous import gumbel as gumbel
from funcad.random.continuous import laplace as laplace
from funcad.random.continuous import logistic as logistic
from funcad.random.continuous import lognormal as lognormal
from funcad.random.continuous import maxwell as maxwell
from funcad.random.continuous import pareto as pareto
from funcad.random.continuous import rayleigh as rayleigh
from funcad.random.continuous import triangular as triangular
from funcad.random.continuous import wald as wald
from funcad.random.continuous import weibull_min as weibull_min
from funcad.random.discrete import binomial as binomial
from funcad.random.discrete import categorical as categorical
from funcad.random.discrete import geometric as geometric
from funcad.random.discrete import multinomial as multinomial
from funcad.random.discrete import poisson as poisson
from funcad.random.draw_operands import tell_what_draws_share as _tell_what_draws_share
from funcad.random.gammas import ball as ball
from funcad.random.gammas import beta as beta
from funcad.random.gammas import chisquare as chisquare
from funcad.random.gammas import dirichlet as dirichlet
from funcad.random.gammas import f as f
from funcad.random.gammas import gamma as gamma
from funcad.random.gammas import generalized_normal as generalized_normal
from funcad.random.gammas import loggamma as loggamma
from funcad.random.gammas import t as t
from funcad.random.keys import PRNGKey as PRNGKey
from funcad.random.keys import clone as clone
from funcad.random.keys import fold_in as fold_in
from funcad.random.keys import key as key
from funcad.random.keys import key_data as key_data
from funcad.random.keys import key_dtype as key_dtype
from funcad.random.keys import key_impl as key_impl
from funcad.random.keys import split as split
from funcad.random.keys import wrap_key_data as wrap_key_data

_tell_what_draws_share(list(globals().values()))

__dir__ = _public_names({name: value for name, value in globals().items() if name != "random_gamma_p"})  # JAX's, for its rules
