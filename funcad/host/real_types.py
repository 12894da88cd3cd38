"""Types that values really have, whatever they answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = ["is_a"]

_Kind = TypeVar("_Kind")


def is_a(x: Any, kinds: type[_Kind] | tuple[type[_Kind], ...]) -> TypeIs[_Kind]:
    """`isinstance` by the type that x really has.

    A traced value answers `isinstance` as the array or number that it stands for, so funcad itself asks here. What tells
    containers, strings and its own classes apart may go on using `isinstance`: no traced value stands for one of these.
    """
    return issubclass(type(x), kinds)
