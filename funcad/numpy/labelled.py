"""pandas' Series, DataFrames and Indexes beside traced values: they are the arrays of their values.

A traced value has no labels, so elements are taken by position, where pandas would align two Series by their labels. That is
the same unless one has the labels of the other in another order: which raises, once both were met in one trace.
"""

from __future__ import annotations

from _thread import get_ident
from typing import Any

import numpy as np

from funcad.host.state import tracing
from funcad.host.where import user_source
from funcad.ir.tracer import Tracer

__all__ = ["is_labelled", "values_of"]


def is_labelled(kind: type) -> bool:
    """Is it a class of pandas' that has labels?"""
    return hasattr(kind, "__pandas_priority__") and kind is not Tracer


def values_of(x: Any) -> np.ndarray:
    """The values of a Series, a DataFrame or an Index, whose labels are as those that were met before."""
    met = tracing.threads.get(get_ident())
    if met is not None:
        for labels in (getattr(x, "index", None), getattr(x, "columns", None)):
            if labels is not None:
                _compare(labels, met.setdefault(len(labels), []))
    return np.asarray(x)


def _compare(labels: Any, met: list[Any]) -> None:
    for known in met:
        if known is labels or known.equals(labels):
            return
        if len(known.difference(labels, sort=False)) == 0 and len(labels.difference(known, sort=False)) == 0:
            source = user_source()
            raise ValueError(
                f"two objects of pandas{'' if source is None else f' at {source}'} have the same labels in another order, and "
                "a traced value, which has none, stands between them: pandas would align them.\n"
                "Remedy: b = b.reindex(a.index) before the traced function, or .to_numpy() if positions are meant."
            )
    met.append(labels)
