"""`autograd.scipy.signal`: funcad.scipy.signal, and what that does not have from SciPy."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcad.foreign_names import mirror as _mirror
from funcad.lax import conv_general_dilated

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.signal", "scipy.signal")


def convolve(
    A: Any,
    B: Any,
    axes: Sequence[Sequence[int]] | None = None,
    dot_axes: Sequence[Sequence[int]] = ((), ()),
    mode: str = "full",
) -> Any:
    """The convolution of A and B along the axes `axes[0]` of A and `axes[1]` of B, summed over the pairs of `dot_axes`.

    The axes of the result are those of A and then those of B that were not named, and the convolved ones. mode is "full",
    "valid" or "same": the middle of "full", as long as A. Without axes and dot_axes it is `funcad.scipy.signal.convolve`.

    >>> import numpy as np
    >>> images, kernels = np.ones((5, 3, 8, 8)), np.ones((3, 4, 2, 2))
    >>> convolve(images, kernels, axes=([2, 3], [2, 3]), dot_axes=([1], [0]), mode="valid").shape
    (5, 4, 7, 7)
    """
    if axes is None and not (len(dot_axes[0]) or len(dot_axes[1])):
        return importlib.import_module("funcad.scipy.signal").convolve(A, B, mode)
    if mode not in ("full", "valid", "same"):
        raise ValueError(f'convolve: mode must be "full", "valid" or "same", got {mode!r}')
    dots = [[i % np.ndim(x) for i in d] for x, d in zip((A, B), dot_axes)]
    if axes is None:
        axes = [[i for i in range(np.ndim(x)) if i not in d] for x, d in zip((A, B), dots)]
    moving = [[i % np.ndim(x) for i in a] for x, a in zip((A, B), axes)]
    if len(moving[0]) != len(moving[1]) or len(dots[0]) != len(dots[1]):
        raise ValueError(f"convolve: axes={axes} and dot_axes={dot_axes} must name as many axes of A as of B")
    rest = [[i for i in range(np.ndim(x)) if i not in m + d] for x, m, d in zip((A, B), moving, dots)]
    if mode == "valid" and moving[0] and all(np.shape(A)[i] < np.shape(B)[j] for i, j in zip(*moving)):
        swapped = convolve(B, A, moving[::-1], dots[::-1], mode)
        of_a, of_b = len(rest[0]), len(rest[1])
        return np.moveaxis(swapped, range(of_b), range(of_a, of_a + of_b))
    sizes = [[[np.shape(x)[i] for i in group] for group in (r, d)] for x, r, d in zip((A, B), rest, dots)]
    images, kernels = [
        np.reshape(np.transpose(x, r + d + m), [*[math.prod(n) for n in size], *[np.shape(x)[i] for i in m]])
        for x, r, d, m, size in zip((A, np.flip(B, tuple(moving[1]))), rest, dots, moving, sizes)
    ]
    width = [0 if mode == "valid" else np.shape(B)[j] - 1 for j in moving[1]]
    result = conv_general_dilated(images, kernels, (1,) * len(width), [(n, n) for n in width])
    if mode == "same":
        result = result[(..., *[slice(n // 2, n // 2 + np.shape(A)[i]) for n, i in zip(width, moving[0])])]
    return np.reshape(result, [*sizes[0][0], *sizes[1][0], *np.shape(result)[2:]])
