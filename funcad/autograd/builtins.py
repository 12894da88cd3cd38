"""`autograd.builtins`: Python's own, which traced values need no replacement for.

The classes of autograd's traced containers exist for annotations and isinstance: containers are never wrapped in funcad, only
the arrays inside them, so nothing is an instance of these.

>>> from funcad.autograd.builtins import tuple
>>> tuple([1.0, 2.0])
(1.0, 2.0)
"""

from builtins import dict as dict
from builtins import isinstance as isinstance
from builtins import list as list
from builtins import tuple as tuple
from builtins import type as type
from operator import getitem as container_take  # noqa: F401
from typing import Any, NoReturn

from funcad.foreign_names import mirror as _mirror

__getattr__, __dir__ = _mirror(__name__, "funcad.autograd.vspaces")
__all__ = [
    *("DictBox", "ListBox", "SequenceBox", "TupleBox", "container_take", "dict", "isinstance", "list", "make_sequence"),
    *("tuple", "type"),
]


def make_sequence(seq_type: Any, *args: Any) -> Any:
    """The list or the tuple of these.

    >>> make_sequence(list, 1.0, 2.0)
    [1.0, 2.0]
    """
    return seq_type(args)


class SequenceBox:
    """Stands for autograd's traced sequences, of which funcad has none.

    >>> from funcad import grad
    >>> grad(lambda pair: 2 * pair[0] if type(pair) is tuple and not isinstance(pair, SequenceBox) else 0.0)((1.0, 2.0))
    (np.float64(2.0), np.float64(0.0))
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(f"{cls.__name__}: containers are not wrapped while they are traced; use the tuple, list or dict itself")


class TupleBox(SequenceBox):
    """Stands for autograd's traced tuples, of which funcad has none."""


class ListBox(SequenceBox):
    """Stands for autograd's traced lists, of which funcad has none."""


class DictBox:
    """Stands for autograd's traced dictionaries, of which funcad has none."""

    __new__ = SequenceBox.__new__
