"""Mutable buffers: how a NumPy array that the user can still write is kept safely.

Idea: NumPy arrays change in place, pure programs must not notice. An array that a trace captures is made read-only while
the trace is open; an array that a derivative keeps as a residual is copied when small (64 KiB) and made read-only otherwise,
until the derivative dies. So NumPy raises at the user's line, instead of a gradient being silently wrong. Locks are counted
per block of memory: of two views of one array, each locked by another derivative, neither becomes writeable before both are
gone (NumPy allows no writeable view of a read-only array). Memory that something else than an array owns (a bytearray, ctypes,
shared memory) has writers that no flag reaches: there the derivative keeps a copy; also of what un-jitted operations have
`handed` to the user as plain arrays, whatever their size: masks, positions, `np.floor(x)` may be written as without funcad.
Rules and callbacks of the user's are lent read-only views.

Trap: a view that the user made *before* has its own writeable flag, which no lock on its base reaches, and NumPy cannot say
whether there is one; and a user can make an array writeable again. So a derivative notes a sample of the elements that it
keeps, and looks at them and at the flags before it uses them (`check`). What can still go unnoticed is a write through an
earlier view that leaves all of the sample as it was.
"""

from __future__ import annotations

import os
import weakref
from _thread import RLock, _local  # which `threading` hands on
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from funcad.configuration import NamedTuple
from funcad.host.real_types import is_a

# -- locks and `os.fork`: a forked child has one thread, and a lock that another thread held would never be released there
#
# Idea: a fork waits until the locks are free and holds them while it happens, so that in the child what they protect is whole.
# After LOCK_TIMEOUT seconds it goes on without a lock, which the child then has anew: whoever holds it for so long may wait for
# the child. Trap: handlers run in the reverse order of their registration, and locks must be taken in the order in which
# programs nest them: the modules that are imported later, which lie above, hold the outer locks. Where that does not fit, all
# of the locks are given together, the outer ones first.


LOCK_TIMEOUT = 5.0


def held_over_forks(*locks: Any) -> None:
    """Let every fork of this process from now on wait for these locks, outer ones first."""
    mine = _local()  # `taken`: missing if another thread registered these locks amid a fork

    def take() -> None:
        mine.taken = [lock for lock in locks if lock.acquire(timeout=LOCK_TIMEOUT)]

    def give_back() -> list[Any]:
        taken: list[Any] = mine.__dict__.pop("taken", [])
        for lock in reversed(taken):
            lock.release()
        return taken

    def in_child() -> None:
        taken = give_back()
        for lock in locks:
            if lock not in taken:
                lock._at_fork_reinit()  # as the locks of Python's own library are renewed

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=take, after_in_parent=give_back, after_in_child=in_child)


# -- mutable buffers


SMALL = 64 * 1024
NOTED = 1 << 20  # bytes of a captured array of which a copy is kept while its function is traced; of larger ones
SUMMED = 1 << 30  # sums, which cost a tenth of a second at most; of what is larger a sample


class _Record:
    """Locks on one block of memory: how many, and which arrays they made read-only."""

    __slots__ = ("root", "count", "changed", "first")

    def __init__(self, root: np.ndarray, first: tuple[Any, bool]):
        self.root = root
        self.count = 0
        self.changed: list[np.ndarray] = []
        self.first = first  # the line that used the array first, and whether a derivative keeps it

    def restore(self) -> None:
        """Make the arrays writeable again: a view can be so only while the owner of its memory is."""
        if not self.changed:
            return
        keep_root = self.root.flags.writeable or any(x is self.root for x in self.changed)
        self.root.flags.writeable = True
        for x in self.changed:
            x.flags.writeable = True
        self.root.flags.writeable = keep_root


_records: dict[int, _Record] = {}  # by id of the root; the record keeps the root alive, so the id stays its own


def locked_arrays() -> list[str]:
    """The arrays that are read-only because a derivative needs their values, each with the line that used it.

    Returns
    -------
    list of strs
        One text for each array: its shape, its dtype and the line.

    Notes
    -----
    Reverse mode keeps large arrays as they are, not copies of them; until it is done, writing into one raises
    ValueError. `del` the pullback, or write into a copy. JAX's arrays can never be written into. It raises nothing.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> x = np.ones((200, 200))
    >>> value, pullback = funcad.vjp(lambda x: np.sum(x * x * x), x)
    >>> [text.partition(", used at")[0] for text in funcad.debug.locked_arrays()]
    ['an array of shape (200, 200) and dtype float64']
    >>> del pullback
    >>> funcad.debug.locked_arrays()
    []

    See also
    --------
    funcad.vjp, doctor
    """
    with _guard:
        held = [(r.root, *r.first) for r in _records.values()]
    return [
        f"an array of shape {x.shape} and dtype {x.dtype}" + ("" if source is None else f", used at {source}")
        for x, source, kept in held
        if kept
    ]


_guard = RLock()  # re-entrant: the collector may release a dead derivative's locks while this thread holds it
held_over_forks(_guard)


private_memory: set[type] = set()  # classes of memory that is reached through one array and its views only


def _base_of(x: np.ndarray) -> Any:
    """The array that x is a view of, or else whatever owns its memory."""
    base = x.base
    if base is None or is_a(base, np.ndarray):
        return base
    if type(base).__name__ == "DummyArray" and is_a(getattr(base, "base", None), np.ndarray):  # of as_strided
        return base.base
    return base


def root_of(x: np.ndarray) -> Any:
    """The outermost array over the memory of x: of any class, a memmap, say."""
    base = x.base
    while base is not None:
        if type(base) is not np.ndarray:
            base = _base_of(x)
            if not is_a(base, np.ndarray):
                break
        x, base = base, base.base
    return x


_handed: dict[int, weakref.ref] = {}  # by id: large arrays that a trace computed and gave to the user's code as they are


def handed(x: Any) -> Any:
    """x, a plain result of traced values (a mask, positions): the user may write into it, so who keeps it copies it."""
    if type(x) is np.ndarray and x.nbytes > SMALL:
        root = root_of(x)
        key = id(root)
        _handed[key] = weakref.ref(root, partial(_handed.pop, key))
    return x


def was_handed(x: np.ndarray) -> bool:
    found = _handed.get(id(root := root_of(x)))
    return found is not None and found() is root


def is_constant(x: Any) -> bool:
    """Is this an array that nobody can write to, as it is: read-only with all that it views, and not by a lock of ours?"""
    while type(x) is np.ndarray:
        if x.flags.writeable:
            return False
        if x.base is None:
            return bool(x.flags.owndata) and id(x) not in _records
        x = x.base
    return type(x) is bytes


def read_only(x: np.ndarray) -> np.ndarray:
    """A view of x for code that must not write into it."""
    x = x.view()
    x.flags.writeable = False
    return x


def lent_to(what: str, f: Callable[..., Any], values: Sequence[Any]) -> Any:
    """`f(*values)`, a user's rule, which gets the arrays read-only.

    They are the caller's own, or what a derivative keeps: a rule that wrote into them would change what it is given next time,
    or a number of its caller's. NumPy's error says that, and this adds what to write instead.
    """
    try:
        return f(*[read_only(x) if type(x) is np.ndarray and x.flags.writeable else x for x in values])
    except ValueError as error:
        if "read-only" in str(error) and not hasattr(error, "__notes__"):
            error.add_note(
                f"funcad: the arrays that {what} is given belong to its caller or are needed again, so they are "
                "read-only.\nRemedy: r = r * 2 instead of r *= 2; or write into a copy, r = r.copy()."
            )
        raise


def _can_be_restored(x: np.ndarray) -> bool:
    """Would NumPy make x writeable again, while what it is a view of is so?"""
    if x.flags.owndata or is_a(x.base, np.ndarray):
        return True
    try:
        return not memoryview(x.base).readonly  # type: ignore[arg-type]
    except TypeError:  # memory from C, some of SciPy's results
        return False


def _reach(root: np.ndarray) -> str:
    """Who can write into the memory of a root: "arrays" alone, "nobody", or "others" too."""
    if root.flags.owndata or is_a(root, np.memmap) or type(root.base) in private_memory:
        return "arrays"
    try:
        return "nobody" if memoryview(root.base).readonly else "others"  # type: ignore[arg-type]
    except TypeError:
        return "others"


_SAMPLE = 128


def _sample(x: np.ndarray) -> bytes:
    """Some of the elements, spread over x: nearly every write of more than a few elements changes one of them."""
    flags = x.flags
    if flags.c_contiguous or flags.f_contiguous:
        flat = x.reshape(-1) if flags.c_contiguous else x.T.reshape(-1)
        return flat[:: flat.size // _SAMPLE | 1].tobytes()  # an odd step meets all columns in turn
    each = max(2, round(_SAMPLE ** (1 / x.ndim)))
    return x[tuple([slice(None, None, max(1, n // each)) for n in x.shape])].tobytes()


_COLUMNS = 509


def _sums(x: np.ndarray) -> bytes:
    """Sums of all the words of an array, by columns: no single write leaves them as they were. Of very large ones a sample."""
    flags = x.flags
    if x.nbytes > SUMMED or x.dtype.hasobject or not (flags.c_contiguous or flags.f_contiguous):
        return _sample(x)
    flat = (x if flags.c_contiguous else x.T).reshape(-1).view(np.uint8)
    end = flat.size - flat.size % (8 * _COLUMNS)
    return np.add.reduce(flat[:end].view(np.uint64).reshape(-1, _COLUMNS)).tobytes() + flat[end:].tobytes()


class _Noted:
    """An array that is guarded, its elements as they were when it was met first, and how often it has been met since."""

    __slots__ = ("array", "copy", "sample", "sums", "met")

    def __init__(self, array: np.ndarray):
        self.array, self.sample, self.met = array, _sample(array), 0
        self.copy = array.copy(order="K") if array.nbytes <= NOTED else None
        self.sums = _sums(array) if self.copy is None else b""

    def is_same(self, whole: bool) -> bool:
        self.met += not whole
        if whole:
            return _sums(self.array) == self.sums if self.copy is None else self.array.tobytes() == self.copy.tobytes()
        return _sample(self.array) == self.sample


class _DerivativeLock(NamedTuple):
    """One lock of one derivative."""

    record: _Record
    array: np.ndarray
    sample: bytes
    source: Any


class Locks:
    """The read-only locks that one trace or one pullback holds; released by `release` or when it dies."""

    __slots__ = ("held", "noted")

    def __init__(self) -> None:
        self.held: list[_DerivativeLock] = []
        self.noted: dict[int, _Noted] = {}  # the arrays that are guarded, by id

    def lock(self, x: np.ndarray, source: Any = None, keep: bool = True) -> bool:
        """Make x, and every array whose memory it views, read-only; False if something else could write there all the same.

        With `keep` x is a residual, which `check` looks at again; `source` says where it was used. Otherwise it is locked as
        well as can be. What could not be made writeable again is left alone.
        """
        chain = [x]
        while is_a(base := _base_of(chain[-1]), np.ndarray):
            chain.append(base)
        root = chain[-1]
        reach = _reach(root)
        if reach == "nobody" and not any([view.flags.writeable for view in chain]):
            return True
        if keep and reach != "arrays" or not all([_can_be_restored(v) for v in chain if v.flags.writeable]):
            return False
        with _guard:
            record = _records.get(id(root))
            if record is None:
                record = _records[id(root)] = _Record(root, (source, keep))
            record.count += 1
            self.held.append(_DerivativeLock(record, x, _sample(x) if keep else b"", source))
            for view in reversed(chain):
                if view.flags.writeable:
                    record.changed.append(view)
                    view.flags.writeable = False
        return True

    def guard(self, x: Any) -> Any:
        """x as programs compute with it; an array (of a memmap, the plain one) locked as well as can be.

        No lock reaches the views that were made before: `as_it_was` says what it was.
        """
        if not is_a(x, np.ndarray):
            return x
        plain = x if type(x) is np.ndarray else x.view(np.ndarray)
        self.noted[id(plain)] = _Noted(plain)
        self.lock(plain, keep=False)
        return plain

    def as_it_was(self, x: Any, whole: bool = False) -> Any:
        """x, an array that is guarded; if it has been written meanwhile, a copy of what it was then.

        Of what is not small only a sample is looked at, each time that x is met again; at the end, once, the `whole`.
        """
        noted = self.noted.get(id(x)) if type(x) is np.ndarray else None
        if noted is None or noted.is_same(whole or x.nbytes <= SMALL):
            return x
        if noted.copy is None or whole and noted.met and x.nbytes > SMALL:  # another value may have been read in between
            raise ValueError(
                f"an array of shape {x.shape} and dtype {x.dtype}, which a traced function has read, was written before the "
                "function returned, through a view of it that was made before.\n"
                "Remedy: write into a copy, w = w.copy(); or make the views after the write."
            )
        return noted.copy

    def check(self) -> None:
        """Raise if an array that is kept as a residual has been changed all the same."""
        for record, x, sample, source in self.held:
            unlocked = record.root.flags.writeable or x.flags.writeable
            if unlocked or _sample(x) != sample:
                how = "made writeable again" if unlocked else "written, through a view that was made before"
                where = f", which was used at {source}," if source is not None else ""
                raise ValueError(
                    f"an array of shape {x.shape} and dtype {x.dtype}{where} was {how}, but a derivative still needs its "
                    "values; funcad had made it read-only.\nRemedy: write into a copy, w = w.copy(), or give the function one."
                )

    def release(self) -> None:
        self.noted = {}
        if not self.held:
            return
        held, self.held = self.held, []
        with _guard:
            for record, *_ in held:
                record.count -= 1
                if record.count == 0:
                    del _records[id(record.root)]
                    record.restore()

    def __del__(self) -> None:
        if getattr(self, "held", None):  # an interrupt may come before the first line of `__init__`
            self.release()


NO_LOCKS = Locks()  # of traces and derivatives that have none yet
