"""Cases of funcad.numpy.fft and funcad.scipy.fft, whose values SciPy's own code computes: rounded otherwise than NumPy's."""

import numpy as np

from tests.surface import case

X = np.array([[-1.3, 0.4, 2.1, 0.6], [0.7, -0.2, 1.6, -0.9], [0.3, 1.1, -0.5, 1.9]])
C = X + 1j * X[::-1, ::-1]
I = np.array([3, -4, 7, 2])
ONE = "fft ifft rfft irfft hfft ihfft".split()
REAL = ("rfft", "ihfft")


def of(name):
    """The operand that a transform takes."""
    return X if name.startswith(REAL) else C


CASES = [
    *[case(f"{m}.fft.{name}", of(name)) for m in ("numpy", "scipy") for name in ONE],
    *[case(f"{m}.fft.{name}", X) for m in ("numpy", "scipy") for name in ("fft", "ifft", "irfft", "hfft")],
    *[case(f"{m}.fft.{name}", I) for m in ("numpy", "scipy") for name in ONE],
    *[
        case(f"{m}.fft.{name}", of(name), kwargs=dict(n=n, axis=0, norm=norm))
        for m in ("numpy", "scipy")
        for name in ONE
        for n, norm in ((2, "ortho"), (5, "forward"))
    ],
    *[case(f"numpy.fft.{name}{d}", of(name)) for name in ONE[:4] for d in "2n"],
    *[case(f"scipy.fft.{name}{d}", of(name)) for name in ONE for d in "2n"],
    *[case(f"numpy.fft.{name}n", of(name), kwargs=dict(s=(4, 2), axes=(1, 0), norm="ortho")) for name in ONE[:4]],
    *[case(f"scipy.fft.{name}n", of(name), kwargs=dict(s=(4, 2), axes=(1, 0), norm="forward")) for name in ONE],
    *[
        case(f"{m}.fft.{name}", C, kwargs=dict(axes=axes))
        for m in ("numpy", "scipy")
        for name in ("fftshift", "ifftshift")
        for axes in (None, 1)
    ],
    *[case(f"{m}.fft.{name}", 5, 0.3) for m in ("numpy", "scipy") for name in ("fftfreq", "rfftfreq")],
    *[case(f"scipy.fft.{name}_fast_len", 97) for name in ("next", "prev")],
    *[
        case(f"scipy.fft.{name}", X, kwargs=dict(type=type, norm=norm))
        for name in ("dct", "idct", "dst", "idst")
        for type, norm in ((1, None), (2, "ortho"), (3, "forward"), (4, "backward"))
    ],
    case("scipy.fft.dct", X, kwargs=dict(n=3, axis=0)),
    case("scipy.fft.idct", C),
    case("scipy.fft.dst", X, kwargs=dict(norm="ortho", orthogonalize=False)),
    *[case(f"scipy.fft.{name}n", X) for name in ("dct", "idct", "dst", "idst")],
    *[case(f"scipy.fft.{name}n", X, kwargs=dict(s=(5, 2), norm="ortho", type=3)) for name in ("dct", "idct", "dst", "idst")],
]
for c in CASES:
    if c.name.startswith("scipy."):
        c.agreement = 1e-13
