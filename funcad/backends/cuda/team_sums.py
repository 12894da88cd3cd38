"""How parts of a sum are combined: within a team of threads, over the teams of a block, and over all blocks.

Idea: each is a function of the module, written once for each atom and dtype. `fc_team_...` exchanges registers within a warp,
and beyond it one word of shared memory for each warp; every thread gets the result. `fc_fold_...` is a tree over the teams of a
block, `fc_finish_...` sums the parts of all blocks in a fixed order. Invariant: of two equal parts that differ in their bits
(0.0 and -0.0, two NaNs) every thread takes the same one, that of the lower thread.
"""

from __future__ import annotations

import numpy as np

from funcad.backends.cuda.cuda_text import combined, identity
from funcad.backends.cuda.elements import c_type
from funcad.backends.cuda.prelude import THREADS
from funcad.backends.cuda.row_ways import WARP

__all__ = ["TeamSums"]


class TeamSums:
    """The functions that one module needs, in `made`: `sums("team", "add", dtype)` is the name of one of them."""

    def __init__(self, team: int):
        self.team = team
        self.functions: set[tuple[str, str, str]] = set()
        self.made: list[str] = []

    def __call__(self, what: str, kind: str, dtype: np.dtype) -> str:
        """The name of a function that combines parts of a sum: of a `team`, of the teams of a block (`fold`), of all blocks."""
        key, t = (what, kind, dtype.str), c_type(dtype)
        name = f"fc_{what}_{kind}_{dtype.name}"
        if key in self.functions:
            return name
        self.functions.add(key)
        pair = combined(kind, dtype, "v", "w")
        if kind not in ("add", "mul") or dtype.kind == "b":  # of two equal values the left one: 0.0 and -0.0, NaNs
            pair = f"threadIdx.x & o ? {combined(kind, dtype, 'w', 'v')} : {pair}"

        def exchange(size: int) -> list[str]:
            loop = f"  for (int o = {size // 2}; o > 0; o >>= 1) {{ const {t} w = fc_shuffle(v, o); v = {pair}; }}"
            return ["#pragma unroll", loop] if size > 1 else []

        if what == "team":
            team = self.team
            self.made += [f"FC {t} {name}({t} v{f', {t}* held' if team > WARP else ''}) {{", *exchange(min(team, WARP))]
            if team > WARP:
                self.made += [
                    f"  if (threadIdx.x % {WARP} == 0) held[threadIdx.x / {WARP}] = v;",
                    "  __syncthreads();",
                    f"  v = held[threadIdx.x % {team // WARP}];",
                    *exchange(team // WARP),
                ]
            self.made += ["  return v;", "}"]
        elif what == "fold":
            joined = combined(kind, dtype, "fold[threadIdx.x]", "fold[threadIdx.x + o * width]")
            self.made += [
                f"FC {t} {name}({t} v, {t}* fold, const int teams, const int width) {{",
                "  fold[threadIdx.x] = v;",
                "  __syncthreads();",
                "  for (int o = teams / 2; o > 0; o >>= 1) {",
                f"    if (threadIdx.x < o * width) fold[threadIdx.x] = {joined};",
                "    __syncthreads();",
                "  }",
                "  v = fold[threadIdx.x % width];",
                "  __syncthreads();",
                "  return v;",
                "}",
            ]
        else:
            fold, step = self("fold", kind, dtype), combined(kind, dtype, "v", "part[p * columns + c]")
            self.made += [
                f"FC void {name}(const {t}* part, {t}* out, const long long n, const long long block, {t}* fold,"
                " const long long columns, const int width) {",
                "  const long long c = block * width + threadIdx.x % width;",
                f"  {t} v = {identity(kind, dtype).text};",
                f"  if (c < columns) for (long long p = threadIdx.x / width; p < n; p += {THREADS} / width) v = {step};",
                f"  v = {fold}(v, fold, {THREADS} / width, width);",
                "  if (threadIdx.x < width && c < columns) out[c] = v;",
                "}",
            ]
        return name
