"""The steps of paths in trees, and how they are spelled.

Apart from containers.py, as the first gradient of a list or a dict asks for no path.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; typing.TYPE_CHECKING would cost an import
if TYPE_CHECKING:
    from typing import Any

    KeyPath = tuple[Any, ...]


class Key:
    """One step of a path; `str` of it is the Python that takes the step."""

    __slots__ = ("_value",)
    __match_args__: tuple[str, ...] = ("key",)
    _value: Any

    def __init__(self, *value: Any, **named: Any) -> None:
        name = self.__match_args__[0]
        if len(value) + len(named) != 1 or not named.keys() <= {name}:
            raise TypeError(f"{type(self).__name__}({name}) takes one argument, got {len(value)} and {[*named]} by name")
        object.__setattr__(self, "_value", value[0] if value else named[name])

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._value,)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._value == other._value

    def __hash__(self) -> int:
        return hash((type(self), self._value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self._value!r})"


class DictKey(Key):
    """A key of a dict."""

    __slots__ = ()
    key = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[{self._value!r}]"


class SequenceKey(Key):
    """An index of a list or tuple."""

    __slots__ = ()
    __match_args__ = ("idx",)
    idx = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[{self._value}]"


class GetAttrKey(Key):
    """A field of a named tuple or dataclass."""

    __slots__ = ()
    __match_args__ = ("name",)
    name = property(lambda self: self._value)

    def __str__(self) -> str:
        return f".{self._value}"


class FlattenedIndexKey(Key):
    """The number of a child of a class that was registered without keys."""

    __slots__ = ()
    key = property(lambda self: self._value)

    def __str__(self) -> str:
        return f"[<flat index {self._value}>]"


class OwnArray(Key):
    """The array of an object of a subclass of np.ndarray, which is no step."""

    __slots__ = ()

    def __str__(self) -> str:
        return ""


def keystr(keys: KeyPath, *, simple: bool = False, separator: str = "") -> str:
    """The path as Python source; `simple` leaves out brackets, dots and quotes.

    >>> from funcad import tree
    >>> path = (tree.DictKey('w'), tree.SequenceKey(0))
    >>> tree.keystr(path), tree.keystr(path, simple=True, separator='/')
    ("['w'][0]", 'w/0')
    """
    return separator.join([str(key._value if simple and isinstance(key, Key) else key) for key in keys])
