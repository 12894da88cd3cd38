"""The one exception of the engines that write code: what they cannot compile exactly as NumPy computes it stays with NumPy.

Every layer raises it while it *emits* code, never while compiled code runs; whoever asked for a kernel catches it and takes
the lines of NumPy (of CuPy, on a device) for that group. The reason is a sentence for the user, shown by explanations of what
was compiled.
"""

from __future__ import annotations

__all__ = ["Unsupported"]


class Unsupported(Exception):
    """This cannot be compiled here, for the reason given; NumPy (on a device CuPy) runs it.

    >>> from funcad.backends.plans.unsupported import Unsupported
    >>> str(Unsupported("float16 has no vector arithmetic"))
    'float16 has no vector arithmetic'
    """
