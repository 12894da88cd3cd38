"""A test's check in a forked child, or its code in a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import pytest

__all__ = ["in_a_child", "in_a_process", "interruptible", "needs_fork"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
PATIENCE = 60.0


def in_a_process(code: str) -> str:
    """What the code prints in a new Python, which has to end without an error."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def in_a_child(check: Callable[[], object]) -> Callable[[], None]:
    """Fork; the child runs `check`, which must not raise. The function that is returned waits for it and fails if it did."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: of forking with threads
        child = os.fork()
    if not child:
        code = 1
        try:
            check()
            code = 0
        except BaseException as error:  # it goes no further than this process
            os.write(2, f"in the child: {error!r}\n".encode())
        finally:
            os._exit(code)

    def ended() -> None:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                assert os.waitstatus_to_exitcode(status) == 0, "the check failed in the forked child"
                return
            time.sleep(0.01)
        os.kill(child, 9)
        os.waitpid(child, 0)
        raise AssertionError("the forked child hangs")

    return ended


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """SIGINT is a KeyboardInterrupt, also where tests run in the background and it is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
