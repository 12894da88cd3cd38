"""Embedded Runge-Kutta methods with step control and dense output, on a state that is one vector.

Idea: the methods, the control of the steps and the interpolation are those of SciPy's RK45 and RK23 (Dormand-Prince with
Shampine's interpolant, Bogacki-Shampine), so results agree step by step. One attempted step is one turn of `while_loop`; a scan
over the times reads the interpolant off. Time runs upwards inside, by its sign. What cannot be integrated (the step shrinks to
nothing, `mxstep` is exceeded, the derivative is NaN) gives NaN from there on. The step's size comes from the state alone and
carries no derivative: the derivatives of this solver are the equations of ode.py, not those of its arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from funcad.control.scan import scan
from funcad.control.while_loop import while_loop
from funcad.ir.aval import dtype_of, shape_of
from funcad.primitives.families import REAL
from funcad.primitives.runge_kutta import advance, control_p
from funcad.scipy.constants import constant

__all__ = ["solve", "Options", "Tableau", "RK45", "RK23"]


class Tableau(NamedTuple):
    """The last stage of each method is the derivative at the new state, which starts the next step."""

    order: int  # of the error estimate
    nodes: tuple
    stages: tuple  # weights of the earlier stages, per stage from the second on
    new: tuple
    error: tuple
    dense: tuple  # per stage, the coefficients of the powers 1, 2, ... of the step's fraction


RK45 = Tableau(
    order=4,
    nodes=(1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0),
    stages=(
        (1 / 5,),
        (3 / 40, 9 / 40),
        (44 / 45, -56 / 15, 32 / 9),
        (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
        (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    ),
    new=(35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
    error=(-71 / 57600, 0.0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40),
    dense=(
        (1.0, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
        (0.0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
        (0.0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
        (0.0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
        (0.0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423),
    ),
)
RK23 = Tableau(
    order=2,
    nodes=(1 / 2, 3 / 4),
    stages=((1 / 2,), (0.0, 3 / 4)),
    new=(2 / 9, 1 / 3, 4 / 9),
    error=(5 / 72, -1 / 12, -1 / 9, 1 / 8),
    dense=((1.0, -4 / 3, 5 / 9), (0.0, 1.0, -2 / 3), (0.0, 4 / 3, -8 / 9), (0.0, -1.0, 1.0)),
)


class Options(NamedTuple):
    rtol: float
    atol: Any
    mxstep: float
    hmax: float
    tableau: Tableau
    first: Any = None  # the first step's size
    sign: Any = None  # 1.0 for increasing times, -1.0 for decreasing ones, None if that is not known
    by_scipy: str | None = None  # the name of SciPy's method that makes the steps, instead of the tableau

    @property
    def is_stiff(self) -> bool:
        """Is the method for equations that cannot be integrated backwards?"""
        return self.by_scipy in ("Radau", "BDF", "LSODA")


def _size(x: Any, scale: Any) -> Any:
    """The root of the mean square, relative to a scale."""
    return np.sqrt(np.mean(np.square(np.abs(x) / scale)))


def _first_step(rate: Callable[..., Any], t: Any, y: Any, f: Any, end: Any, options: Options) -> Any:
    """Hairer, Norsett and Wanner, section II.4."""
    scale = options.atol + np.abs(y) * options.rtol
    d0, d1 = _size(y, scale), _size(f, scale)
    flat = np.logical_or(d0 < 1e-5, d1 < 1e-5)
    h0 = np.minimum(np.where(flat, 1e-6, 0.01 * d0 / np.where(flat, 1.0, d1)), end - t)
    still = h0 <= 0.0
    guess = np.where(still, 1e-6, h0)
    d2 = _size(rate(y + guess.astype(dtype_of(y)) * f, t + guess) - f, scale) / guess
    largest = np.maximum(d1, d2)
    tiny = largest <= 1e-15
    h1 = np.where(
        tiny, np.maximum(1e-6, guess * 1e-3), (0.01 / np.where(tiny, 1.0, largest)) ** (1.0 / (options.tableau.order + 1))
    )
    return np.minimum(np.minimum(np.minimum(100.0 * guess, h1), end - t), options.hmax)


def _attempt(rate: Callable[..., Any], y: Any, f: Any, t: Any, h: Any, tableau: Tableau) -> tuple[Any, list[Any]]:
    """One step: the new state, and the slopes of all stages."""
    slopes = [f]
    for weights, node in zip(tableau.stages, tableau.nodes):
        slopes.append(rate(advance(y, h, slopes, weights), t + h if node == 1.0 else t + node * h))
    new = advance(y, h, slopes, tableau.new)
    slopes.append(rate(new, t + h))
    return new, slopes


def solve(rate: Callable[..., Any], y0: Any, times: Any, options: Options) -> Any:
    """The states (m, n) at `times` (m,), not decreasing, of dy/dt = rate(y, t), y(times[0]) = y0."""
    if shape_of(times)[0] == 1 or not shape_of(y0)[0]:
        return np.broadcast_to(y0, (shape_of(times)[0], *shape_of(y0)))
    tableau = options.tableau
    dtype, n = dtype_of(y0), shape_of(y0)[0]
    end = times[-1]
    f0 = rate(y0, times[0])
    h = _first_step(rate, times[0], y0, f0, end, options) if options.first is None else options.first + 0.0 * end
    h = h.astype(dtype_of(times))
    powers = np.arange(1, len(tableau.dense[0]) + 1)
    limits = dict(rtol=options.rtol, atol=options.atol, hmax=options.hmax, order=tableau.order, error=tableau.error)

    def unfinished(state: Any) -> Any:
        count, target, (t, h, *_), _ = state
        more = np.logical_and(t < target, h > 0.0)
        return more if options.mxstep == np.inf else np.logical_and(more, count < options.mxstep)

    def step(state: Any) -> Any:
        count, target, ends, kept = state
        t, h, y = ends[0], ends[1], ends[4]
        used = np.minimum(h, end - t)
        new, tried = _attempt(rate, y, kept[-1], t, used, tableau)
        out = control_p(*ends, used, end, new, *kept, *tried, **limits)
        return count if options.mxstep == np.inf else count + 1, target, tuple(out[:6]), tuple(out[6:])

    def reach(state: Any, target: Any) -> tuple[Any, Any]:
        _, _, ends, kept = while_loop(unfinished, step, (0, target, *state))
        t, _, _, t_old, y, y_old = ends
        width = t - t_old
        fraction = np.where(width > 0.0, (target - t_old) / np.where(width > 0.0, width, 1.0), 0.0).astype(REAL(dtype))
        weights = np.matmul(constant(tableau.dense, y), fraction ** constant(powers, y))
        between = y_old + width.astype(dtype) * np.matmul(weights.astype(dtype), np.stack(kept))
        at_target = np.where(target == t, y, between)
        return (ends, kept), np.where(t >= target, at_target, np.nan)

    start = ((times[0], h, False, times[0], y0, y0), (*[np.zeros_like(y0)] * (len(tableau.error) - 1), f0))
    _, found = scan(reach, start, times[1:])
    return np.concatenate([np.reshape(y0, (1, n)), found])
