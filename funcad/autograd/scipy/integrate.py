"""`autograd.scipy.integrate`: funcad.scipy.integrate, and what that does not have from SciPy."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from funcad import tree
from funcad.foreign_names import mirror as _mirror
from funcad.ir.tracer import Tracer

__getattr__, __dir__ = _mirror(__name__, "funcad.scipy.integrate", "scipy.integrate")
_TOLERANCE = 1.49012e-8  # SciPy's


def odeint(func: Callable[..., Any], y0: Any, t: Any, args: Any = (), **options: Any) -> Any:
    """`scipy.integrate.odeint`, args in one tuple, with derivatives in y0, t and args (which are pytrees).

    Of plain arrays the result is SciPy's own. Traced ones are integrated by `funcad.scipy.integrate.odeint` to the same
    tolerances, and of the options rtol, atol, mxstep, hmax and tfirst are understood there; another raises TypeError.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> final = lambda rate: odeint(lambda y, t, rate: -rate * y, 1.0, np.array([0.0, 1.0]), args=(rate,))[-1, 0]
    >>> bool(np.isclose(grad(final)(2.0), -np.exp(-2.0)))
    True
    """
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if not any(type(x) is Tracer for x in tree.leaves((y0, t, args))):
        return importlib.import_module("scipy.integrate").odeint(func, y0, t, args, **options)
    known = {name: options.pop(name) for name in ("rtol", "atol", "mxstep", "hmax") if options.get(name)}
    first = options.pop("tfirst", False)
    unknown = [name for name, value in options.items() if value]
    if unknown:
        raise TypeError(f"odeint: {unknown[0]} has no meaning for the method that differentiates; leave it out")
    known = {"rtol": _TOLERANCE, "atol": _TOLERANCE, **known}
    f = (lambda y, t, *args: np.atleast_1d(func(t, y, *args))) if first else lambda *a: np.atleast_1d(func(*a))
    return importlib.import_module("funcad.scipy.integrate").odeint(f, np.atleast_1d(y0), t, *args, **known)
