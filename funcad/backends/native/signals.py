"""Signals wait until a stretch of code is through.

llvmlite passes the ownership of LLVM's objects on in several steps, in Python. An interrupt between two of them frees an object
twice or not at all; in a function that LLVM calls back it is printed and forgotten. Python runs handlers of signals in the main
thread only, so only there is anything to do.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def signals_held() -> Iterator[None]:
    """Handlers written in Python run when the block is left, however it is left, and may raise then (KeyboardInterrupt)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = sorted(signal.valid_signals(), key=lambda number: number != signal.SIGINT)  # the likeliest one: held longest
    handlers = {number: handler for number in numbers if callable(handler := signal.getsignal(number))}
    came: list[tuple[int, Any]] = []

    def later(number: int, frame: Any) -> None:
        came.append((number, frame))

    held = []
    try:
        for number in handlers:
            signal.signal(number, later)
            held.append(number)
        yield
    finally:
        for number in reversed(held):
            signal.signal(number, handlers[number])
        for number, frame in came:
            handlers[number](number, frame)
