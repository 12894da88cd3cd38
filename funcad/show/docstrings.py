"""What several functions have in common is said once, and put into the docstring of each."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import cleandoc
from typing import Any

__all__ = ["REST", "also_says", "mirrors", "named_after"]

REST = "Else parameters, results and errors are those of"


def also_says(function: Any, text: str) -> None:
    """Put a paragraph, of lines without indentation, into the docstring of a function, before its example."""
    told, example, rest = cleandoc(function.__doc__ or "").partition(">>>")
    function.__doc__ = f"{told.rstrip()}\n\n{text}" + (f"\n\n{example}{rest}" if example else "")


def mirrors(functions: Iterable[Any], library: str) -> None:
    """Of functions that keep the name of one in a library, "scipy.optimize": what is not told here is as there."""
    for function in functions:
        if REST not in (function.__doc__ or ""):
            also_says(function, f"{REST} `{library}.{function.__name__}`.")


def named_after(namespace: dict[str, Any], library: str) -> list[Any]:
    """The functions of a module whose docstrings begin with the name that they have in the library."""
    return [f for f in namespace.values() if (getattr(f, "__doc__", None) or "").startswith(f"`{library}.{_name(f)}`")]


def _name(function: object) -> str:
    return getattr(function, "__name__", "")
