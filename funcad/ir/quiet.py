"""Silence: tangent, cotangent and masked work never warns, whatever `np.errstate` the user has set.

`np.errstate` costs more than most scalar operations, so NumPy's own context variable is set directly where this NumPy has it;
the fallback is `np.errstate` itself. Use as `token = hush()` ... `finally: unhush(token)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["hush", "unhush"]


def _slow_hush() -> Any:
    context = np.errstate(all="ignore")
    context.__enter__()
    return context


def _slow_unhush(context: Any) -> None:
    context.__exit__(None, None, None)


def _fast_pair() -> Any:
    """NumPy's context variable behind errstate (numpy >= 2.0), if it is there and does what we think."""
    try:
        from numpy._core.umath import _extobj_contextvar, _make_extobj

        silent = _make_extobj(all="ignore")
        token = _extobj_contextvar.set(silent)
        try:
            works = set(np.geterr().values()) == {"ignore"}
        finally:
            _extobj_contextvar.reset(token)
    except (ImportError, TypeError, AttributeError):
        return None
    return (lambda: _extobj_contextvar.set(silent), _extobj_contextvar.reset) if works else None


hush, unhush = _fast_pair() or (_slow_hush, _slow_unhush)
