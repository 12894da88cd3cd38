"""`jax.test_util`: numeric checks, by those of `funcad.testing`.

>>> import numpy as np
>>> check_grads(np.sin, (1.0,), order=2)
"""

from funcad.testing import check_grads as check_grads
from funcad.testing import check_jvp as check_jvp
from funcad.testing import check_vjp as check_vjp
