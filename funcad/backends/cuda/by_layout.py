"""Kernels of which there is a variant for each way in which a call's arrays lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["ByLayout"]

VARIANTS = 64  # layouts of one group that are known at a time


class ByLayout:
    """`given(arrays)` has numbers of the host as arrays, `variant_for(given)` what `made(given)` has made for their strides."""

    xp: Any
    avals: Sequence[Any]
    variants: dict[tuple, Any]

    def given(self, arrays: Sequence[Any]) -> list[Any]:
        kind = self.xp.ndarray
        return [a if type(a) is kind else self.xp.full((), a, v.dtype) for a, v in zip(arrays, self.avals)]

    def variant_for(self, given: Sequence[Any]) -> Any:
        key = tuple([a.strides for a in given])
        found = self.variants.get(key)
        if found is None:
            if len(self.variants) >= VARIANTS:
                self.variants.clear()
            found = self.variants.setdefault(key, self.made(given))
        return found

    def made(self, given: Sequence[Any]) -> Any:
        raise NotImplementedError
