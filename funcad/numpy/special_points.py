"""What derivatives are where a function has none, or an infinite one: ties, kinks, ends of domains.

THE TABLE says it once, for the docstrings of the functions, which print it, and for the tests, which compute it: arguments, the
slope in each argument that has one, and the second derivative in the first. The two rules behind it: where a slope turns, the
first derivative is 0 (times the outer slope) and the next NaN; at ties, whoever is equal has an equal share.
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, NamedTuple

import numpy as np

from funcad.show.docstrings import REST

__all__ = ["POINTS", "Point", "documented"]

_INF, _NAN = np.inf, np.nan


class Point(NamedTuple):
    """`second` is None where there is none to tell."""

    args: tuple[Any, ...]
    slopes: tuple[Any, ...]
    second: Any = None

    def __str__(self) -> str:
        at, slopes = (", ".join([str(x).replace("nan", "NaN") for x in given]) for given in (self.args, self.slopes))
        words = ["derivative", "derivatives"][len(self.slopes) > 1] if not isinstance(self.slopes[0], list) else "gradient"
        more = "" if self.second is None else f", the second derivative {str(self.second).replace('nan', 'NaN')}"
        return f"at ({at}) the {words} {'are' if words[-1] == 's' else 'is'} {slopes}{more}"


_ABS = (Point((0.0,), (0.0,), 0.0),)
_STEP = (Point((1.0,), (0.0,), 0.0),)
_TIE = (Point((1.0, 1.0), (0.5, 0.5), 0.0),)
_LOG = (Point((0.0,), (_INF,), -_INF),)
_REST = (Point((2.0, 1.0), (1.0, -2.0), 0.0),)
_QUOTIENT = (Point((1.0, 0.0), (_INF, -_INF), 0.0),)
_NORM = (Point(([0.0, 0.0],), ([0.0, 0.0],), [[_NAN, _NAN], [_NAN, _NAN]]),)
_MIDDLE = (Point(([1.0, 1.0, 3.0],), ([0.0, 1.0, 0.0],)),)
_LARGEST = (Point(([1.0, 1.0, 0.0],), ([0.5, 0.5, 0.0],)),)
_SMALLEST = (Point(([0.0, 0.0, 1.0],), ([0.5, 0.5, 0.0],)),)
_SPREAD = (Point(([1.0, 1.0],), ([0.0, 0.0],), [[_NAN, _NAN], [_NAN, _NAN]]),)
_OF_ALL = (Point(([0.0, 2.0, 3.0],), ([6.0, 0.0, 0.0],)), Point(([0.0, 0.0, 3.0],), ([0.0, 0.0, 0.0],)))
_SKIPPED = (Point(([_NAN, 1.0],), ([0.0, 1.0],)),)

POINTS: dict[str, tuple[Point, ...]] = {
    **dict.fromkeys(["numpy.abs", "numpy.absolute", "numpy.fabs", "numpy.sign"], _ABS),
    **dict.fromkeys(["numpy.floor", "numpy.ceil", "numpy.trunc", "numpy.rint", "numpy.round", "numpy.fix"], _STEP),
    **dict.fromkeys(["numpy.maximum", "numpy.minimum", "numpy.fmax", "numpy.fmin"], _TIE),
    **dict.fromkeys(["numpy.log", "numpy.log2", "numpy.log10", "scipy.special.logit", "scipy.special.ndtri"], _LOG),
    **dict.fromkeys(["numpy.mod", "numpy.remainder", "numpy.fmod"], _REST),
    **dict.fromkeys(["numpy.divide", "numpy.true_divide"], _QUOTIENT),
    **dict.fromkeys(["numpy.linalg.norm", "numpy.linalg.vector_norm"], _NORM),
    **dict.fromkeys(["numpy.max", "numpy.amax"], _LARGEST),
    **dict.fromkeys(["numpy.min", "numpy.amin"], _SMALLEST),
    **dict.fromkeys(["numpy.nansum", "numpy.nanprod", "numpy.nanmean"], _SKIPPED),
    **dict.fromkeys(["scipy.special.psi", "scipy.special.digamma"], (Point((0.0,), (_INF,), -_INF),)),
    **dict.fromkeys(["scipy.special.rel_entr", "scipy.special.kl_div"], (Point((0.0, 1.0), (-_INF,), _INF),)),
    "numpy.sqrt": (Point((0.0,), (_INF,), -_INF),),
    "numpy.cbrt": (Point((0.0,), (_INF,)),),
    "numpy.reciprocal": (Point((0.0,), (-_INF,), _INF),),
    "numpy.hypot": (Point((0.0, 0.0), (0.0, 0.0), _NAN),),
    "numpy.log1p": (Point((-1.0,), (_INF,), -_INF),),
    "numpy.arcsin": (Point((1.0,), (_INF,), _INF),),
    "numpy.arccos": (Point((1.0,), (-_INF,), -_INF),),
    "numpy.arccosh": (Point((1.0,), (_INF,), -_INF),),
    "numpy.arctanh": (Point((1.0,), (_INF,), _INF),),
    "numpy.arctan2": (Point((0.0, 0.0), (_NAN, _NAN), _NAN),),
    "numpy.angle": (Point((0.0,), (_NAN,), _NAN),),
    "numpy.power": (
        Point((0.0, 2.0), (0.0, 0.0), 2.0),
        Point((0.0, 0.5), (_INF, 0.0), -_INF),
        Point((0.0, 0.0), (0.0, -_INF), 0.0),
    ),
    "numpy.logaddexp": (Point((-_INF, -_INF), (0.5, 0.5), 0.25),),
    "numpy.sinc": (Point((0.0,), (0.0,), -(np.pi**2) / 3),),
    "numpy.heaviside": (Point((0.0, 0.5), (0.0, 1.0), 0.0),),
    "numpy.floor_divide": (Point((2.0, 1.0), (0.0, 0.0), 0.0),),
    "numpy.copysign": (Point((0.0, 1.0), (1.0, 0.0), 0.0),),
    "numpy.clip": (Point((1.0, 0.0, 1.0), (0.5, 0.0, 0.5), 0.0),),
    "numpy.nan_to_num": (Point((_NAN,), (0.0,), 0.0),),
    "numpy.ptp": (Point(([1.0, 1.0, 0.0],), ([0.5, 0.5, -1.0],)),),
    "numpy.nanmax": (Point(([_NAN, 1.0, 1.0],), ([0.0, 0.5, 0.5],)),),
    "numpy.nanmin": (Point(([_NAN, 1.0, 1.0],), ([0.0, 0.5, 0.5],)),),
    "numpy.prod": _OF_ALL,
    "numpy.cumprod": (Point(([0.0, 2.0],), ([3.0, 0.0],)),),
    "numpy.std": _SPREAD,
    "numpy.nanstd": _SPREAD,
    "numpy.median": _MIDDLE,
    "numpy.linalg.det": (Point(([[1.0, 1.0], [1.0, 1.0]],), ([[1.0, -1.0], [-1.0, 1.0]],)),),
    "numpy.linalg.slogdet": (Point(([[1.0, 1.0], [1.0, 1.0]],), ([[_NAN, _NAN], [_NAN, _NAN]],)),),
    "numpy.linalg.eigvalsh": (Point(([[1.0, 0.0], [0.0, 1.0]],), ([[1.0, 0.0], [0.0, 1.0]],)),),
    "numpy.linalg.svdvals": (Point(([[1.0, 0.0], [0.0, 1.0]],), ([[1.0, 0.0], [0.0, 1.0]],)),),
    "scipy.special.xlogy": (Point((0.0, 0.0), (-_INF, 0.0), 0.0),),
    "scipy.special.xlog1py": (Point((0.0, -1.0), (-_INF, 0.0), 0.0),),
    "scipy.special.entr": (Point((0.0,), (_INF,), -_INF),),
    "scipy.special.erfinv": (Point((1.0,), (_INF,), _INF),),
    "scipy.special.gamma": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.gammaln": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.exp1": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.spence": (Point((0.0,), (-_INF,)),),
    "scipy.special.huber": (Point((1.0, 1.0), (0.0, 1.0), 0.0),),
    "scipy.special.logsumexp": (Point(([-_INF, -_INF],), ([0.5, 0.5],)),),
    "scipy.special.k0": (Point((0.0,), (-_INF,), _INF),),
    "scipy.special.y0": (Point((0.0,), (_INF,)),),
    "scipy.special.ellipk": (Point((1.0,), (_INF,)),),
}

_RESULTS = {
    "copy": "Of traced values the result is a new array.",
    "view": "Of traced values the result is a view where {library}'s is one: writing it writes the argument.",
    "same": "Of traced values the result is the argument itself where {library} gives that.",
}


def documented(name: str, own: str | None, alias: str = "copy") -> str:
    """The docstring of funcad's function for "numpy.sum" or "scipy.special.gamma", with the text that it has of its own."""
    library = "NumPy" if name.startswith("numpy") else "SciPy"
    if own is None:
        text = (
            f"`{name}`: the same arguments, results and errors, on traced values too.\n\n"
            f"Parameters, shapes, dtypes, what it returns and raises are {library}'s: where nothing is traced, this is\n"
            f"`{name}` itself. {_RESULTS[alias].format(library=library)}"
        )
    else:
        text = f"{cleandoc(own)}\n\n{REST} `{name}`."
    if name not in POINTS:
        return text
    points = ";\n".join(map(str, POINTS[name]))
    return f"{text}\n\nSpecial points: {points}."
