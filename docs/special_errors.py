"""Writes docs/special_functions.md: errors of derivatives by parameters against mpmath (which this script alone needs).

    python docs/special_errors.py

Each line: points drawn at random from the ranges given; the derivative of first and second order that funcad gives, against
mpmath's differentiation of its own function with 50 digits; the error relative to the derivative, its median and the largest.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

import funcad
from funcad.scipy import special

mp.mp.dps = 50
COUNT = 12


def _gammainc(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _betainc(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _student(v: Any, t: Any) -> Any:
    return _betainc(v / 2, mp.mpf(1) / 2, v / (v + t * t)) / 2


def _wright(a: Any, b: Any, x: Any) -> Any:
    return mp.nsum(lambda k: x**k / mp.factorial(k) * mp.rgamma(a * k + b), [0, mp.inf])


def _carlson(f: Any) -> Any:
    return lambda *args: f(*args)


# function, the reference, the position of the argument, the ranges of all arguments (counts are integers)
ROWS: list[tuple[str, Any, int, tuple]] = [
    ("gammainc", _gammainc, 0, ((0.2, 30.0), (0.2, 40.0))),
    ("betainc", _betainc, 0, ((0.3, 20.0), (0.3, 20.0), (0.05, 0.95))),
    ("betainc", _betainc, 1, ((0.3, 20.0), (0.3, 20.0), (0.05, 0.95))),
    ("stdtr", _student, 0, ((0.5, 30.0), (-6.0, -0.1))),
    ("zeta", mp.zeta, 0, ((1.1, 12.0), (0.2, 8.0))),
    ("jv", mp.besselj, 0, ((0.1, 12.0), (0.2, 30.0))),
    ("yv", mp.bessely, 0, ((0.1, 12.0), (0.2, 30.0))),
    ("iv", mp.besseli, 0, ((0.1, 12.0), (0.2, 30.0))),
    ("kv", mp.besselk, 0, ((0.1, 12.0), (0.2, 30.0))),
    ("struve", mp.struveh, 0, ((0.1, 8.0), (0.2, 30.0))),
    ("modstruve", mp.struvel, 0, ((0.1, 8.0), (0.2, 30.0))),
    ("hyp0f1", mp.hyp0f1, 0, ((0.3, 8.0), (-80.0, 80.0))),
    ("hyp1f1", mp.hyp1f1, 0, ((0.3, 8.0), (0.3, 8.0), (-20.0, 20.0))),
    ("hyp1f1", mp.hyp1f1, 1, ((0.3, 8.0), (0.3, 8.0), (-20.0, 20.0))),
    ("hyp2f1", mp.hyp2f1, 0, ((0.3, 6.0), (0.3, 6.0), (0.3, 6.0), (-3.0, 0.9))),
    ("hyp2f1", mp.hyp2f1, 2, ((0.3, 6.0), (0.3, 6.0), (0.3, 6.0), (-3.0, 0.9))),
    ("hyperu", mp.hyperu, 0, ((-4.0, 6.0), (-3.0, 5.0), (0.2, 20.0))),
    ("hyperu", mp.hyperu, 1, ((-4.0, 6.0), (-3.0, 5.0), (0.2, 20.0))),
    ("wright_bessel", _wright, 0, ((0.2, 3.0), (0.3, 4.0), (0.2, 20.0))),
    ("wright_bessel", _wright, 1, ((0.2, 3.0), (0.3, 4.0), (0.2, 20.0))),
    ("elliprf", mp.elliprf, 0, ((0.01, 5.0), (0.01, 5.0), (0.01, 5.0))),
    ("elliprd", mp.elliprd, 2, ((0.01, 5.0), (0.01, 5.0), (0.01, 5.0))),
    ("elliprg", mp.elliprg, 0, ((0.01, 5.0), (0.01, 5.0), (0.01, 5.0))),
    ("elliprj", mp.elliprj, 3, ((0.01, 5.0), (0.01, 5.0), (0.01, 5.0), (0.01, 5.0))),
    ("ellipkinc", mp.ellipf, 1, ((-4.0, 4.0), (-3.0, 0.95))),
    ("ellipeinc", mp.ellipe, 1, ((-4.0, 4.0), (-3.0, 0.95))),
    ("agm", mp.agm, 0, ((0.1, 5.0), (0.1, 5.0))),
    ("eval_gegenbauer", mp.gegenbauer, 1, (9, (0.3, 3.0), (-0.95, 0.95))),
    ("eval_genlaguerre", mp.laguerre, 1, (9, (0.3, 3.0), (0.1, 12.0))),
    ("eval_jacobi", mp.jacobi, 1, (9, (0.3, 3.0), (0.3, 3.0), (-0.95, 0.95))),
]


def errors(name: str, reference: Any, position: int, ranges: tuple) -> list[tuple[float, float]]:
    rng = np.random.default_rng(7)
    found = []
    f = getattr(special, name)
    for _ in range(COUNT):
        args = [r if type(r) is int else float(rng.uniform(*r)) for r in ranges]

        def ours(v: Any, args: Any = args) -> Any:
            return f(*args[:position], v, *args[position + 1 :])

        def exact(v: Any, args: Any = args) -> Any:
            return reference(*[mp.mpf(a) if type(a) is float else a for a in args[:position]], v, *[
                mp.mpf(a) if type(a) is float else a for a in args[position + 1 :]
            ])

        at = args[position]
        first, second = funcad.grad(ours)(at), funcad.grad(funcad.grad(ours))(at)
        theirs = [mp.diff(exact, mp.mpf(at), n) for n in (1, 2)]
        found.append(tuple([float(abs((mp.mpf(float(o)) - t) / t)) for o, t in zip((first, second), theirs)]))
    return found


def table() -> str:
    lines = ["| Function | Argument | First: median | largest | Second: median | largest |", "| --- " * 6 + "|"]
    for name, reference, position, ranges in ROWS:
        both = np.array(errors(name, reference, position, ranges))
        shown = [f"{statistic(both[:, k]):.0e}" for k in (0, 1) for statistic in (np.median, np.max)]
        lines.append(f"| `{name}` | {position + 1} | {' | '.join(shown)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    page = Path(__file__).parent / "special_functions.md"
    text = page.read_text(encoding="utf8")
    start, end = "<!-- errors -->\n", "\n<!-- end of errors -->"
    before, rest = text.split(start)
    page.write_text(before + start + table() + end + rest.split(end)[1], encoding="utf8")
