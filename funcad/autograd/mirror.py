"""Modules that stand for others: the names of HIPS autograd's modules, found where funcad has them.

A mirror hands every attribute on: to a submodule of its own, to funcad's module, and what that does not have to the library's
own (there it computes on plain arrays as ever, and refuses traced values, which it cannot take). Nothing is imported before an
attribute is asked for.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

__all__ = ["mirror"]


def _found(path: str) -> Any:
    """The module, or the object in a module, of that dotted name; None if there is none."""
    parts = path.split(".")
    for i in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for name in parts[i:]:
            value = getattr(value, name, None)
        return value
    return None


def mirror(own: str, *paths: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module named `own`, which looks into the modules or objects `paths`, in that order."""

    def get(name: str) -> Any:
        if not name.startswith("__") or name == "__version__":
            if hasattr(sys.modules[own], "__path__") and importlib.util.find_spec(f"{own}.{name}"):
                return importlib.import_module(f"{own}.{name}")  # which sets the attribute
            for path in paths:
                target = _found(path)
                if hasattr(target, name):
                    value = getattr(target, name)
                    setattr(sys.modules[own], name, value)  # found once: loops ask for np.tanh at every step
                    return value
        raise AttributeError(f"module {own!r} has no attribute {name!r} (looked for in {' and '.join(paths)})")

    def names() -> list[str]:
        return sorted({name for path in paths for name in dir(_found(path)) if not name.startswith("_")})

    return get, names
