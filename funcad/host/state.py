"""What tracing remembers per thread.

Idea: tracing is synchronous, so everything "currently open" is a field of one `threading.local`, which costs one attribute
read on the hot path. Invariant: whoever sets a field restores it in a `finally`, so an exception inside a traced function
leaves the thread as it was. Trap: never keep a value of this object across a call into user code without restoring it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["state", "setting", "open_traces", "tracing"]

# Whatever a call without tracers must heed, in any thread: levels of the user functions being traced abstractly, and settings
# below that are not as usual. While it is empty, nothing needs to be looked up.
open_traces: set[Any] = set()


class _State(threading.local):
    staging: Any = None  # innermost open staging trace: bodies of cond, while, checkpoint, custom rules
    abstract: Any = None  # innermost open abstract trace: where effects are recorded
    source: Any = None  # location that derived equations inherit; None means "look at the stack"
    axis_env: tuple = ()  # ((name, size, index), ...), innermost last
    batching: Any = None  # name of the axis that batch_eval is removing now
    jit_disabled: bool = False
    running: Any = None  # the trace whose function runs now
    before_effect: Any = None  # is called before an effect happens: by whom effects must not happen yet (api/lanes.py)
    scope: tuple = ()  # named_scope names
    engine: Any = None  # the engine that a program is being optimised for; None: the one that is set
    debug_nans: bool = False
    debug_infs: bool = False
    checked: Any = None  # how operations run while one of these two is set: checked(primitive, xp, args, params)
    debug_checks: bool = False
    default_device: str = "cpu"
    unread: tuple = ()  # variables that stand for Python's numbers, of which f must not make texts (jitted/substitutes.py)
    identities: bool = False  # may Python compare truths by identity (`x is True`)? Then they are read, as `if` reads them
    explain_misses: Any = None  # whom explain_cache_misses tells


class _Tracing:
    """The threads in which a function of the user's runs on traced values, and what is made ready before it does."""

    __slots__ = ("threads", "ready", "prepare", "learned", "lend")

    def __init__(self) -> None:
        self.threads: dict[int, dict] = {}  # identity -> what is noted until its outermost trace closes
        self.ready = True  # False: `prepare` is called when the next trace is opened
        self.prepare: Callable[[], None] = lambda: None
        self.learned: Callable[[Any], bool] = lambda found: False  # hangs a door that a function turned out to need, if it can
        self.lend: Callable[[Any], Any] = lambda x: x  # makes an array one that can be written with traced values

    @contextmanager
    def here(self) -> Iterator[None]:
        """This thread runs a function of the user's on traced values. Where every microsecond counts, it is written out."""
        thread = threading.get_ident()
        outermost = thread not in self.threads
        try:
            if outermost:
                self.threads[thread] = {}
                if not self.ready:
                    self.prepare()
            yield
        finally:
            if outermost:
                self.threads.pop(thread, None)


tracing = _Tracing()
state = _State()
_HEEDED = frozenset(["axis_env", "jit_disabled", "checked", "debug_checks", "default_device"])


@contextmanager
def setting(**fields: Any) -> Iterator[None]:
    """Set fields of the thread's state for the duration of a `with` block."""
    saved = {name: getattr(state, name) for name in fields}
    unusual = object() if any([name in _HEEDED and fields[name] != getattr(_State, name) for name in fields]) else None
    try:
        for name, value in fields.items():
            setattr(state, name, value)
        if unusual is not None:
            open_traces.add(unusual)
        yield
    finally:
        for name, value in saved.items():
            setattr(state, name, value)
        open_traces.discard(unusual)
