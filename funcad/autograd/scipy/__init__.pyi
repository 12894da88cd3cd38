# funcad.scipy's modules

from funcad.autograd.scipy import integrate as integrate
from funcad.autograd.scipy import linalg as linalg
from funcad.autograd.scipy import signal as signal
from funcad.autograd.scipy import special as special
from funcad.autograd.scipy import stats as stats
from funcad.scipy import fft as fft
from funcad.scipy import interpolate as interpolate
from funcad.scipy import ndimage as ndimage
from funcad.scipy import optimize as optimize
from funcad.scipy import sparse as sparse
