"""`certify`: one function through every transformation, alone and in pairs, on every engine.

Idea: `jit`, `vmap`, `checkpoint` and the body of a `scan` leave a function as it is, `jvp` and `vjp` take a derivative. So of
every pair, one around the other, is known what it must give: the value, the first or the second derivative of the function,
which are compared with central differences once. What is refused with one of funcad's errors, which say what to do instead, is
told apart from what differs. Trap: differences mean nothing at a kink, and nothing of a function that draws or remembers.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from funcad import tree
from funcad.api.border import float0, name_of
from funcad.api.vjp import jvp, vjp
from funcad.api.vmap import vmap
from funcad.configuration import config
from funcad.control.checkpoint import checkpoint
from funcad.control.scan import scan
from funcad.errors import FuncadError
from funcad.ir.aval import aval_of, is_inexact
from funcad.jitted.jit import jit
from funcad.show.compile_log import html_table

ENGINES = ("native", "numpy", "interpreter")
AGREED = {2: 1e-2, 4: 1e-4, 8: 1e-9, 16: 1e-9}  # relative differences between nestings, by bytes of the narrowest number
SHOWN = 3  # nestings of which the same is to be said
STEPS = {2: (2.0**-4, 1e-1), 4: (2.0**-8, 5e-3), 8: (2.0**-17, 1e-6), 16: (2.0**-17, 1e-6)}  # of differences, and tolerance


class Check(NamedTuple):
    """One nesting: `status` is "ok", "refused" (by an error that says what to do), "differs" or "raises"."""

    nesting: str
    engine: str
    status: str
    detail: str


class Certificate:
    """What `certify` found: true if nothing differs and nothing raises; `checks` are all, `failures` and `refused` some."""

    def __init__(self, name: str, checks: Sequence[Check]):
        self.name = name
        self.checks = list(checks)

    @property
    def failures(self) -> list[Check]:
        return [c for c in self.checks if c.status in ("differs", "raises")]

    @property
    def refused(self) -> list[Check]:
        return [c for c in self.checks if c.status == "refused"]

    def __bool__(self) -> bool:
        return not self.failures

    def _head(self) -> str:
        n, lost, refused = len(self.checks), len(self.failures), len(self.refused)
        rest = f", {refused} refused" if refused else ""
        return f"{self.name}: {n - lost - refused} of {n} nestings hold{rest}{f', {lost} fail' if lost else ''}"

    def _rows(self) -> list[list[str]]:
        """What does not hold, those that fail first; nestings of which the same is to be said are together."""
        together: dict[tuple[str, str], list[Check]] = {}
        for c in [*self.failures, *self.refused]:
            together.setdefault((c.status, c.detail), []).append(c)
        rows = []
        for (status, detail), found in together.items():
            nestings = list(dict.fromkeys([c.nesting for c in found]))
            more = f" and {len(nestings) - SHOWN} more" if len(nestings) > SHOWN else ""
            rows.append([status, ", ".join(nestings[:SHOWN]) + more, detail])
        return rows

    def __repr__(self) -> str:
        rows = self._rows()
        return self._head() + "".join([f"\n{status}: {nestings}\n    {detail}" for status, nestings, detail in rows])

    def _repr_html_(self) -> str:
        rows = self._rows()
        return f"<p>{self._head()}</p>" + (html_table(["status", "nestings", "detail"], rows) if rows else "")


def _twice(h: Callable[..., Any]) -> Callable[..., Any]:
    """By vmap, as the first of two lanes, of which the other is somewhat different."""

    def mapped(*xs: Any) -> Any:
        beside = lambda x: np.stack([x, x * 1.001 if is_inexact(aval_of(x)) else x])
        return tree.map(lambda y: y[0], vmap(h)(*tree.map(beside, xs)))

    return mapped


def _in_scan(h: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *xs: tree.map(lambda y: y[0], scan(lambda carry, _: (carry, h(*carry)), xs, None, length=1)[1])


SAME: dict[str, Callable[[Any], Any]] = {"jit": jit, "vmap": _twice, "checkpoint": checkpoint, "scan": _in_scan}
DERIVATIVES = ("jvp", "vjp")


def _directions(values: Any, seed: tuple) -> Any:
    """Random ones for the values that have derivatives, the same for the same structure and seed."""
    rng = np.random.default_rng(seed)

    def direction(x: Any) -> Any:
        aval = aval_of(x)
        if not is_inexact(aval):
            return np.zeros(aval.shape, float0)
        t = rng.normal(size=aval.shape) + (1j * rng.normal(size=aval.shape) if aval.dtype.kind == "c" else 0)
        return np.asarray(t, aval.dtype)[()]

    return tree.map(direction, values)


def _derivative(kind: str, h: Callable[..., Any], level: int) -> Callable[..., Any]:
    """The first derivative of h in fixed directions: the leaves that have one."""
    moving = lambda values: [x for x in tree.leaves(values) if getattr(x, "dtype", None) != float0]
    if kind == "jvp":
        return lambda *xs: moving(jvp(h, xs, _directions(xs, (level, 0)))[1])

    def pulled(*xs: Any) -> Any:
        out, pull = vjp(h, *xs)
        return moving(pull(_directions(out, (level, 1))))

    return pulled


def _nested(f: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """f with these transformations around it, the first outermost."""
    h, level = f, 0
    for name in reversed(names):
        if name in DERIVATIVES:
            h, level = _derivative(name, h, level), level + 1
        else:
            h = SAME[name](h)
    return h


def _width(values: Any) -> int:
    avals = [aval_of(x) for x in tree.leaves(values)]
    return min([a.dtype.itemsize // (2 if a.dtype.kind == "c" else 1) for a in avals if is_inexact(a)], default=8)


def _difference(found: Any, wanted: Any, tolerance: float) -> str:
    """What differs, or nothing."""
    a, b = tree.leaves(found), tree.leaves(wanted)
    if len(a) != len(b):
        return f"{len(a)} results for {len(b)}"
    for x, y in zip(map(np.asarray, a), map(np.asarray, b)):
        if x.shape != y.shape:
            return f"shape {x.shape} for {y.shape}"
        if y.dtype.kind not in "fc":
            if not np.array_equal(x, y):
                return "other integers"
            continue
        if not np.array_equal(np.isfinite(x), np.isfinite(y)):
            return "NaN or infinity where there is a number, or the other way round"
        good = np.isfinite(y)
        scale = 1 + np.max(np.abs(y[good]), initial=0.0)
        far = float(np.max(np.abs(x[good] - y[good]), initial=0.0) / scale)
        if far > tolerance:
            return f"largest difference {far:.3g}, allowed {tolerance:.3g}"
    return ""


def _slope(h: Callable[..., Any], args: tuple, level: int) -> list[Any]:
    """The derivative of h in the direction that `jvp` takes on this level, by central differences."""
    eps, _ = STEPS[_width(args)]
    ts = _directions(args, (level, 0))
    moved = lambda sign: tree.map(lambda x, t: x if t.dtype == float0 else (x + sign * eps * t).astype(t.dtype), args, ts)
    up, down = tree.leaves(h(*moved(1))), tree.leaves(h(*moved(-1)))
    return [(np.asarray(u) - np.asarray(d)) / (2 * eps) for u, d in zip(up, down) if is_inexact(aval_of(u))]


def _pairing(cts: Any, slopes: Any) -> float:
    pairs = zip(tree.leaves(cts), tree.leaves(slopes))
    return float(sum([np.sum(np.asarray(c) * np.asarray(s)).real for c, s in pairs if np.asarray(c).dtype != float0]))


def certify(f: Callable[..., Any], *args: Any, depth: int = 2) -> Certificate:
    """Run `f(*args)` through every transformation and every nesting of two of them, on every engine, and say what held.

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them.
    *args : array, number or container of them
        Its arguments, away from kinks.
    depth : int
        1 leaves the pairs out.

    Returns
    -------
    Certificate
        It is true if nothing differs and nothing raises but funcad's own refusals, and prints what does: `assert
        certify(f, x)` is a test.

    Raises
    ------
    Exception
        What f raises on its own.

    Notes
    -----
    The transformations are jit (by each engine there is), vmap, checkpoint, the body of a scan, jvp and vjp. Values and
    first derivatives are compared with f's own, derivatives to second order with central differences. f is called some
    hundred times. JAX has no counterpart.

    Examples
    --------
    >>> import numpy as np
    >>> from funcad.testing import certify
    >>> found = certify(lambda x: {"y": np.sin(x) * x.sum()}, np.array([0.5, 1.5]))
    >>> bool(found), found.failures, len(found.checks) > 30
    (True, [], True)
    >>> len(certify(np.sin, 0.5, depth=1).checks) < len(found.checks)
    True

    See also
    --------
    check_grads
    """
    if depth not in (1, 2):
        raise ValueError(f"certify: depth must be 1 or 2, got {depth!r}")
    name = name_of(f)
    kinds = [*SAME, *DERIVATIVES]
    chains = [c for n in range(1, depth + 1) for c in itertools.product(kinds, repeat=n)]
    wanted: dict[tuple[str, ...], Any] = {}
    checks = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        wanted[()] = f(*args)
        inexact = any([is_inexact(aval_of(x)) for x in tree.leaves(args)])
        moves = inexact and any([is_inexact(aval_of(x)) for x in tree.leaves(wanted[()])])
        if not moves:
            chains = [c for c in chains if not set(c) & set(DERIVATIVES)]
        for chain in sorted(chains, key=lambda c: (len(c), not set(c) <= set(DERIVATIVES))):
            for engine in _engines() if "jit" in chain else ("",):
                checks.append(_checked(f, args, name, chain, engine, wanted))
    return Certificate(name, checks)


def _engines() -> list[str]:
    """Those that run here."""
    found = []
    for engine in ENGINES:
        try:
            with config.set(engine=engine):
                jit(lambda x: x + 1.0)(1.0)
        except ImportError:
            continue
        found.append(engine)
    return found


def _checked(
    f: Callable[..., Any], args: tuple, name: str, chain: tuple[str, ...], engine: str, wanted: dict[tuple[str, ...], Any]
) -> Check:
    title = "".join([f"{kind}(" for kind in chain]) + name + ")" * len(chain)
    plain = tuple([kind for kind in chain if kind in DERIVATIVES])
    try:
        with config.set(engine=engine) if engine else config.set():
            h = _nested(f, chain)
            found = h(*args)
            if engine:  # again: a path that is known, a program that is compiled
                found = h(*args)
        if plain == chain:
            wanted[chain] = found
            problem = _against_differences(f, args, chain, found)
        elif plain in wanted:
            problem = _difference(found, wanted[plain], AGREED[_width((args, wanted[()]))])
        else:
            return Check(title, engine, "refused", "the derivative itself is refused")
    except FuncadError as error:
        return Check(title, engine, "refused", f"{type(error).__name__}: {str(error).splitlines()[0]}")
    except Exception as error:
        return Check(title, engine, "raises", f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
    return Check(title, engine, "differs" if problem else "ok", problem)


def _against_differences(f: Callable[..., Any], args: tuple, chain: tuple[str, ...], found: Any) -> str:
    """Is the outermost derivative that of the function inside it?"""
    inner, level = _nested(f, chain[1:]), len(chain) - 1
    _, tolerance = STEPS[_width(args)]
    slopes = _slope(inner, args, level)
    if chain[0] == "jvp":
        return _difference(found, slopes, tolerance)
    out = inner(*args)
    cts = [c for c in tree.leaves(_directions(out, (level, 1))) if c.dtype != float0]
    ts = [t for t in tree.leaves(_directions(args, (level, 0))) if t.dtype != float0]
    return _difference(_pairing(found, ts), _pairing(cts, slopes), tolerance * (1 + len(ts)))
