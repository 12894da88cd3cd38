"""Which names a package shows to `dir` and tab completion: those that it has for users, not the files it consists of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

__all__ = ["public_names"]


def public_names(names: dict[str, Any], more: Iterable[str] = ()) -> Callable[[], list[str]]:
    """The `__dir__` of a module with these `globals()`: its `__all__` if it has one, else all that is no module and public.

    `more` are the modules and what is loaded when it is first used.
    """

    def __dir__() -> list[str]:
        own = [name for name, value in names.items() if not name.startswith("_") and type(value) is not ModuleType]
        return sorted({*names.get("__all__", own), *more})

    return __dir__
