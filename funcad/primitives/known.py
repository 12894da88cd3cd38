"""An operation that is a program found elsewhere (unjitted/mapped.py), which knows itself how it runs and how it is batched."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from funcad.ir.primitive import Primitive

__all__ = ["known_program_p"]


def _impl(xp: Any, *values: Any, program: Any) -> list[Any]:
    return program.run(values)  # type: ignore[no-any-return]


def _abstract(*avals: Any, program: Any) -> list[Any]:
    return program.out_avals  # type: ignore[no-any-return]


def _batch(size: int, args: Sequence[Any], batched: Sequence[bool], *, program: Any) -> tuple[list[Any], list[bool]]:
    return program.batch(size, args, batched)  # type: ignore[no-any-return]


known_program_p = Primitive("known_program", _impl, _abstract, batch=_batch, multiple=True)
