"""Curves of what an optimisation wrote down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from funcad.show.pictures import axes_of

__all__ = ["plot_loss"]


def plot_loss(record: Any, ax: Any = None, *, log: bool = True, label: str | None = None) -> Any:
    """Draw losses by step, on matplotlib's axes `ax` or new ones, which are returned.

    record: a sequence of numbers, one a step, as a loop collects or `scan` stacks them; an array (steps, runs); or a dict of
        such records by name, a curve each.
    ax: matplotlib's axes; None: those of a new figure.
    log: a logarithmic scale, where all numbers that are finite are positive.
    label: the name of the curve, where the record is no dict.

    Raises ImportError where matplotlib is not installed, ValueError for what is no record. optax has no such function.

    >>> import funcad
    >>> axes = funcad.optimize.plot_loss({"sgd": [3.0, 2.0, 1.5], "adam": [3.0, 1.0, 0.4]})  # doctest: +SKIP
    """
    curves = dict(record) if isinstance(record, Mapping) else {label: record}
    found = {}
    for name, values in curves.items():
        losses = np.asarray(values, float)
        if losses.ndim not in (1, 2) or not losses.size:
            raise ValueError(
                f"plot_loss: a record is a sequence of numbers, one a step, or an array (steps, runs); got shape {losses.shape}"
                f"{f' for {name!r}' if name is not None else ''}.\nRemedy: collect float(value) at each step."
            )
        found[name] = losses
    ax = axes_of(ax, "plot_loss")
    for name, losses in found.items():
        ax.plot(np.arange(len(losses)), losses, linewidth=0.9, label=name)
    finite = np.concatenate([losses[np.isfinite(losses)] for losses in found.values()])
    if log and finite.size and finite.min() > 0:
        ax.set_yscale("log")
    ax.set(xlabel="step", ylabel="loss")
    if any([name is not None for name in found]):
        ax.legend()
    return ax
