"""What libraries do outside a program, and find there, happens at each call: their functions are not compiled."""

from __future__ import annotations

import glob
import logging
import os
import pathlib
import pprint
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from funcad import NotCompiledWarning, jit
from funcad.reads.refused_calls import refusal_of

W = np.ones(2)
# each leaves a file, a folder or a line
WRITING: list[Callable[[Any], Any]] = [
    lambda x: np.save("a.npy", W), lambda x: np.savetxt("a.txt", W), lambda x: np.savez("a.npz", a=W),
    lambda x: W.dump("a.pkl"),
    lambda x: np.ones(2).tofile("a.bin"), lambda x: Path("a.txt").write_text("a"),
    lambda x: Path("a.bin").write_bytes(b"a"), lambda x: Path("a").mkdir(), lambda x: os.mkdir("a"),
    lambda x: Path("a").touch(), lambda x: os.makedirs("a/b"), lambda x: os.symlink("b", "a"),
    lambda x: shutil.copy(__file__, "a.py"),
    lambda x: subprocess.run([sys.executable, "-c", "open('a', 'w').close()"], check=True), lambda x: os.system("echo a > a"),
    lambda x: tempfile.mkdtemp(dir="."), lambda x: print(open("a", "w").close()),
]  # fmt: skip
SAYING: list[Callable[[Any], Any]] = [
    lambda x: pprint.pprint([1]), lambda x: pprint.pp({"a": 1}), lambda x: sys.displayhook(3),
    lambda x: traceback.print_tb(None) or sys.displayhook(4),
]  # fmt: skip
# what is asked of the folder "there", which has another answer when it is changed
ASKING: list[Callable[[], Any]] = [
    lambda: Path("there").exists(), lambda: Path("there").is_dir(), lambda: os.path.exists("there"),
    lambda: os.path.isdir("there"), lambda: len(glob.glob("there")), lambda: len(list(Path(".").iterdir())),
    lambda: len(os.listdir(".")), lambda: len(list(os.walk("."))), lambda: os.access("there", os.R_OK),
]  # fmt: skip


@pytest.mark.parametrize("act", WRITING, ids=range(len(WRITING)))
def test_files_are_written_at_each_call(act: Callable[[Any], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        act(x)
        return x * 2.0

    g = jit(f)
    with pytest.warns(NotCompiledWarning) as said:
        for i in range(4):
            folder = tmp_path / str(i)
            folder.mkdir()
            monkeypatch.chdir(folder)
            assert g(1.0) == 2.0 and len(os.listdir(folder)) == 1
    assert len(said) == 1


@pytest.mark.parametrize("act", SAYING, ids=range(len(SAYING)))
def test_libraries_say_it_at_each_call(act: Callable[[Any], Any], capsys: pytest.CaptureFixture[str]) -> None:
    g = jit(lambda x: (act(x), x * 2.0)[1])
    with pytest.warns(NotCompiledWarning, match="does something outside the program"):
        assert [g(1.0) for _ in range(3)] == [2.0] * 3
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3 and len(set(lines)) == 1


@pytest.mark.parametrize("ask", ASKING, ids=range(len(ASKING)))
def test_files_are_looked_for_at_each_call(ask: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    g, found = jit(lambda x: x * ask()), []
    with pytest.warns(NotCompiledWarning, match="reads what nobody can read again|does something outside"):
        for there in (False, False, False, True, False):
            (Path("there").mkdir if there else lambda: None)()
            found.append(g(1.0) == float(ask()))
            shutil.rmtree("there", ignore_errors=True)
    assert found == [True] * 5


def test_threads_and_clocks_of_the_system() -> None:
    done: list[int] = []

    def starts(x: Any) -> Any:
        thread = threading.Thread(target=lambda: done.append(1))
        thread.start()
        thread.join()
        return x

    g, names = jit(starts), jit(lambda x: x * len(threading.current_thread().name))
    clock = jit(lambda x: x + time.clock_gettime(time.CLOCK_MONOTONIC))
    with pytest.warns(NotCompiledWarning):
        assert [g(1.0) for _ in range(3)] == [1.0] * 3 and len(done) == 3
        assert [names(1.0) for _ in range(3)] == [len(threading.current_thread().name)] * 3
        assert clock(0.0) < clock(0.0) < clock(0.0)


def test_what_only_computes_is_compiled() -> None:
    def f(x: Any) -> Any:
        path = Path("a") / "b.txt"
        n = len(os.path.join("a", "b")) + len(path.suffix) + len(os.fspath(path)) + len(path.with_suffix(".c").name)
        logging.getLogger("funcad.tests.outside").debug("n = %s", n)
        return x * n + len(pprint.pformat([1])) + len(traceback.format_exc(limit=1))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g = jit(f)
        assert [g(v) for v in (1.0, 2.0)] == [f(v) for v in (1.0, 2.0)] and g.cache_info().misses == 1


def test_the_table_is_told_by_names() -> None:
    assert refusal_of(pathlib.Path.cwd) == "pathlib.cwd reads what nobody can read again"
    assert refusal_of(os.remove) == "os.remove does something outside the program"
    assert refusal_of(os.path.getsize) == "os.path.getsize reads what nobody can read again"
    computing = (os.path.join, os.fspath, np.sum, len, subprocess.CalledProcessError, threading.Lock, logging.getLogger, Path)
    assert [refusal_of(f) for f in computing] == [None] * len(computing)
