# funcad.numpy's names, and of NumPy's own those that it does not have

from numpy import *  # noqa: F403

from funcad.numpy import *  # noqa: F403
from funcad.numpy import array_api as array_api
from funcad.numpy import fft as fft
from funcad.numpy import linalg as linalg
