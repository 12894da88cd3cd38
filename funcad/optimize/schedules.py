"""Schedules: functions of the number of steps done, which optimisers take as learning rate.

All of them work on traced counts, and on counts as arrays. Names, arguments and values are optax's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi
from typing import Any

import funcad.numpy as fnp
from funcad.optimize.optimizers import where

Schedule = Callable[[Any], Any]


def _positive(what: str, name: str, steps: Any) -> None:
    if not steps > 0:
        raise ValueError(f"{what}: {name} must be positive, got {steps!r}")


def constant_schedule(value: Any) -> Schedule:
    """Always `value`.

    >>> constant_schedule(0.1)(5)
    0.1
    """
    return lambda count: value


def polynomial_schedule(
    init_value: Any, end_value: Any, power: Any, transition_steps: int, transition_begin: int = 0
) -> Schedule:
    """From init_value to end_value as (1 - t)**power, t going from 0 to 1 in `transition_steps` from `transition_begin` on.

    Without steps (0, or fewer) it stays init_value, as optax's.

    >>> polynomial_schedule(1.0, 0.0, 2, 4)(2)
    np.float64(0.25)
    """
    if transition_steps <= 0:
        return constant_schedule(init_value)

    def schedule(count: Any) -> Any:
        left = 1.0 - fnp.clip(count - transition_begin, 0, transition_steps) / transition_steps
        return (init_value - end_value) * left**power + end_value

    return schedule


def linear_schedule(init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0) -> Schedule:
    """From init_value to end_value on a straight line, constant before and after.

    It takes `transition_steps` steps from the count `transition_begin` on; without steps (0, or fewer) it stays init_value.
    Returns a function of the count; as optax's.

    >>> linear_schedule(0.0, 1.0, 4)(1)
    np.float64(0.25)
    """
    return polynomial_schedule(init_value, end_value, 1, transition_steps, transition_begin)


def exponential_decay(
    init_value: Any,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Schedule:
    """A learning rate that falls by a factor: init_value * decay_rate**(count / transition_steps).

    Parameters
    ----------
    init_value : float
        The rate at the start.
    transition_steps : int
        In how many steps it falls by `decay_rate`.
    decay_rate : float
        The factor.
    transition_begin : int
        From which step on it falls.
    staircase : bool
        Fall in jumps, at each multiple of transition_steps.
    end_value : float, optional
        A bound that is not crossed: from below if decay_rate < 1, else from above.

    Returns
    -------
    callable
        A function of the count of steps: give it to an optimiser as its learning rate.

    Raises
    ------
    ValueError
        transition_steps is not positive, or decay_rate is 0.

    Notes
    -----
    As `optax.exponential_decay`, which gives init_value at every count in the place of the two errors.

    Examples
    --------
    >>> from funcad import optimize
    >>> float(optimize.exponential_decay(1.0, 2, 0.25)(1))
    0.5
    >>> schedule = optimize.exponential_decay(1.0, 2, 0.25, staircase=True, end_value=0.1)
    >>> [float(schedule(count)) for count in (0, 1, 2, 9)]
    [1.0, 1.0, 0.25, 0.1]

    See also
    --------
    cosine_decay_schedule, warmup_cosine_decay_schedule, sgd
    """
    _positive("exponential_decay", "transition_steps", transition_steps)
    if type(decay_rate) in (int, float) and decay_rate == 0:
        raise ValueError(
            "exponential_decay: a decay_rate of 0 leaves nothing after the start.\n"
            "Remedy: piecewise_constant_schedule(init_value, {count: 0.0}), or constant_schedule(init_value)."
        )

    def schedule(count: Any) -> Any:
        done = fnp.maximum(count - transition_begin, 0) / transition_steps
        value = init_value * fnp.power(decay_rate, fnp.floor(done) if staircase else done)
        if end_value is None:
            return value
        return where(decay_rate < 1.0, fnp.maximum(value, end_value), fnp.minimum(value, end_value))

    return schedule


def cosine_decay_schedule(init_value: Any, decay_steps: int, alpha: Any = 0.0, exponent: float = 1.0) -> Schedule:
    """A learning rate that falls along half a cosine (Loshchilov and Hutter, 2017).

    Parameters
    ----------
    init_value : float
        The rate at the start.
    decay_steps : int
        When it ends; it is constant from there.
    alpha : float
        It ends at alpha * init_value.
    exponent : float
        The power to which the cosine is raised.

    Returns
    -------
    callable
        A function of the count of steps: give it to an optimiser as its learning rate.

    Raises
    ------
    ValueError
        decay_steps is not positive.

    Notes
    -----
    As `optax.cosine_decay_schedule`.

    Examples
    --------
    >>> from funcad import optimize
    >>> float(optimize.cosine_decay_schedule(2.0, 10)(5).round(12))
    1.0
    >>> schedule = optimize.cosine_decay_schedule(2.0, 10, alpha=0.1)
    >>> [float(schedule(count).round(3)) for count in (0, 10, 20)]
    [2.0, 0.2, 0.2]

    See also
    --------
    warmup_cosine_decay_schedule, exponential_decay, adam
    """
    _positive("cosine_decay_schedule", "decay_steps", decay_steps)

    def schedule(count: Any) -> Any:
        wave = 0.5 * (1.0 + fnp.cos(pi * (fnp.minimum(count, decay_steps) / decay_steps)))
        return init_value * ((1.0 - alpha) * wave**exponent + alpha)

    return schedule


def warmup_cosine_decay_schedule(
    init_value: Any, peak_value: Any, warmup_steps: int, decay_steps: int, end_value: Any = 0.0, exponent: float = 1.0
) -> Schedule:
    """A learning rate that rises along a straight line, and then falls along half a cosine.

    Parameters
    ----------
    init_value, peak_value : float
        The rates at the start, and after `warmup_steps`.
    warmup_steps, decay_steps : int
        When it has risen, and when it ends, both counted from the start.
    end_value : float
        The rate from `decay_steps` on.
    exponent : float
        The power to which the cosine is raised.

    Returns
    -------
    callable
        A function of the count of steps: give it to an optimiser as its learning rate.

    Raises
    ------
    ValueError
        decay_steps is not larger than warmup_steps.

    Notes
    -----
    As `optax.warmup_cosine_decay_schedule`.

    Examples
    --------
    >>> from funcad import optimize
    >>> schedule = optimize.warmup_cosine_decay_schedule(0.0, 1.0, 10, 30)
    >>> [float(round(schedule(i), 3)) for i in (0, 5, 10, 20, 30)]
    [0.0, 0.5, 1.0, 0.5, 0.0]
    >>> schedule = optimize.warmup_cosine_decay_schedule(0.0, 1.0, 10, 30, end_value=0.1)
    >>> float(round(schedule(40), 3))
    0.1

    See also
    --------
    cosine_decay_schedule, join_schedules, adam
    """
    if not decay_steps > warmup_steps:
        raise ValueError(
            f"warmup_cosine_decay_schedule: decay_steps={decay_steps} must be larger than warmup_steps={warmup_steps}, "
            "which it includes"
        )
    alpha = 0.0 if type(peak_value) in (int, float) and peak_value == 0.0 else end_value / peak_value
    rise = linear_schedule(init_value, peak_value, warmup_steps)
    fall = cosine_decay_schedule(peak_value, decay_steps - warmup_steps, alpha, exponent)
    return join_schedules([rise, fall], [warmup_steps])


def piecewise_constant_schedule(init_value: Any, boundaries_and_scales: dict[int, Any] | None = None) -> Schedule:
    """init_value, multiplied by each scale once the count has reached its boundary.

    `boundaries_and_scales` is a dict from counts to scales. Returns a function of the count; as optax's.

    >>> schedule = piecewise_constant_schedule(1.0, {10: 0.5, 20: 0.1})
    >>> [float(schedule(i)) for i in (9, 10, 20)]
    [1.0, 0.5, 0.05]
    """
    steps = sorted((boundaries_and_scales or {}).items())

    def schedule(count: Any) -> Any:
        value = init_value
        for boundary, factor in steps:
            value = value * where(count >= boundary, factor, 1.0)
        return value

    return schedule


def join_schedules(schedules: Sequence[Schedule], boundaries: Sequence[int]) -> Schedule:
    """One schedule after the other; each begins at its boundary, and counts from there.

    `schedules` are functions of the count, `boundaries` the counts where the next one begins: one fewer than schedules.

    >>> schedule = join_schedules([constant_schedule(1.0), linear_schedule(1.0, 0.0, 2)], [10])
    >>> [float(schedule(i)) for i in (9, 10, 11)]
    [1.0, 1.0, 0.5]
    """
    if len(schedules) != len(boundaries) + 1:
        raise ValueError(f"join_schedules: {len(schedules)} schedules need one boundary less, got {len(boundaries)}")

    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for boundary, following in zip(boundaries, schedules[1:]):
            value = where(count < boundary, value, following(count - boundary))
        return value

    return schedule
