"""A test's check in a forked child, or its code in a process of its own.

Idea: to start Python and to import NumPy takes longer than what most such code does. So one process, the template, has done
that, and forks a child for each code: `fresh` is `python -c code` in a new process to all that does not look at how it began.
Where that is what is tested (the environment that NumPy reads, options of Python), a test calls subprocess itself.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

__all__ = ["fresh", "in_a_child", "in_a_process", "interruptible", "needs_fork"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
PATIENCE = 60.0
CHECKOUT = str(Path(__file__).parents[1])


def in_a_process(code: str, *, strict: bool = False, **environment: str) -> str:
    """What the code prints in a new Python, which has to end without an error; `strict`: warnings are errors."""
    code = f"import sys, warnings; sys.warnoptions.append('error'); warnings.simplefilter('error')\n{code}" if strict else code
    done = fresh(code, environment)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


# What the template runs. A child leaves the loop and ends as Python does, with what was registered for that.
_TEMPLATE = """
import json, os, sys, traceback, types
import numpy

def code_of(request):
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for number, name in enumerate((os.devnull, request["out"], request["err"])):
        file = os.open(name, os.O_RDONLY if not number else os.O_WRONLY)
        os.dup2(file, number)
        os.close(file)
    sys.argv[:], sys.path[0] = ["-c"], ""
    sys.path[1:1] = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p not in sys.path]
    return request["code"]

code = None
for line in iter(sys.stdin.readline, ""):
    request = json.loads(line)
    child = os.fork()
    if not child:
        code = code_of(request)
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
if code is not None:
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    del json, traceback, types, code_of, request, line, child
    exec(compile(code, "<string>", "exec"), main.__dict__)
"""
_template: list[subprocess.Popen[str]] = []


def fresh(code: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`python -c code` in the folder of the checkout, with this process's environment and what is given besides."""
    everything = {**os.environ, **(environment or {})}
    if not hasattr(os, "fork"):
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=everything, cwd=CHECKOUT)
    if not _template or _template[0].poll() is not None:
        command = [sys.executable, "-c", _TEMPLATE]
        _template[:] = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)]
        atexit.register(_template[0].kill)
    server = _template[0]
    assert server.stdin is not None and server.stdout is not None
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        request = {"code": code, "environment": everything, "folder": CHECKOUT, "out": out.name, "err": err.name}
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], 2 * PATIENCE)[0]:
            server.kill()
            raise subprocess.TimeoutExpired(code, 2 * PATIENCE)
        ended = server.stdout.readline()
        return subprocess.CompletedProcess(code, int(ended), out.read(), err.read())


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
