"""The cache of compiled kernels on disk, and the door to llvmlite: what is refused, what is repaired, what is said."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import funcad
from funcad.backends.native import cache, target
from funcad.backends.native.cache import is_object
from funcad.backends.native.target import signals_held
from tests.forked import in_a_process

llvmlite = pytest.importorskip("llvmlite")

KEY = hashlib.sha256(b"x").hexdigest()
POSIX = pytest.mark.skipif(not hasattr(os, "getuid"), reason="rights are not POSIX rights here")
ADD = """
define double @{name}(double %x) nounwind {{
entry:
  %y = fadd double %x, {number}
  ret double %y
}}
"""


@pytest.fixture
def place(tmp_path: Path) -> Any:
    with funcad.config.set(cache_dir=str(tmp_path)):
        yield tmp_path / "kernels"


def add(number: float, name: str = "add") -> str:
    return ADD.format(name=name, number=f"{number:e}")


def files(place: Path) -> list[str]:
    return sorted(p.name for p in place.iterdir())


# -- files


@POSIX
def test_folder_and_files_are_the_users_alone(place: Path) -> None:
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"
    assert place.stat().st_mode & 0o777 == 0o700
    assert (place / KEY).stat().st_mode & 0o777 == 0o600
    assert files(place) == [KEY]


def test_off_means_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with funcad.config.set(cache_dir="off"):
        cache.store(KEY, b"code")
        assert cache.load(KEY) is None and cache.folder() is None
        assert "off" in cache.describe()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="another standard there")
def test_default_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with funcad.config.set(cache_dir=None):
        assert cache.folder() == tmp_path / "funcad" / "kernels"
        monkeypatch.setenv("XDG_CACHE_HOME", "relative")
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert cache.folder() == tmp_path / "home" / ".cache" / "funcad" / "kernels"


@pytest.mark.parametrize(
    "damage", [lambda c: c[:-1], lambda c: c + b"x", lambda c: c[:90] + bytes([c[90] ^ 1]) + c[91:], lambda c: b""]
)
def test_damaged_files_are_none_and_are_replaced(place: Path, damage: Any) -> None:
    cache.store(KEY, b"code" * 20)
    (place / KEY).write_bytes(damage((place / KEY).read_bytes()))
    assert cache.load(KEY) is None
    cache.store(KEY, b"code" * 20)
    assert cache.load(KEY) == b"code" * 20


def test_a_file_under_another_key_is_none(place: Path) -> None:
    cache.store(KEY, b"code")
    other = hashlib.sha256(b"y").hexdigest()
    (place / KEY).rename(place / other)
    assert cache.load(other) is None


@POSIX
def test_folders_of_others_are_not_used(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place.mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: place.stat().st_uid + 1)
    cache.store(KEY, b"code")
    assert not files(place) and cache.load(KEY) is None
    assert "belongs to another user" in cache.describe()


@POSIX
@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_folders_that_others_may_write_to_are_not_used(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    cache.store(KEY, b"code")
    assert not files(place)
    assert "others may write" in cache.describe()


@POSIX
def test_files_of_others_and_links_are_not_read(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.store(KEY, b"code")
    (place / KEY).chmod(0o666)
    assert cache.load(KEY) is None
    (place / KEY).chmod(0o600)
    (place / KEY).rename(place / "elsewhere")
    (place / KEY).symlink_to(place / "elsewhere")
    assert cache.load(KEY) is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_full_and_read_only_disks_do_no_harm(place: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    def fails(*args: Any) -> None:
        raise OSError(number, os.strerror(number))

    assert cache.folder() == place
    monkeypatch.setattr(os, "replace", fails)
    cache.store(KEY, b"code")
    assert cache.load(KEY) is None and not files(place)
    assert os.strerror(number) in cache.describe()


def test_a_place_that_is_a_file_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with funcad.config.set(cache_dir=str(tmp_path / "file")):
        cache.store(KEY, b"code")
        assert cache.load(KEY) is None
        assert "memory only" in cache.describe()


def test_a_folder_that_vanishes_is_made_again(place: Path) -> None:
    cache.store(KEY, b"code")
    (place / KEY).unlink()
    place.rmdir()
    assert cache.load(KEY) is None
    cache.store(KEY, b"code")
    cache.store(KEY, b"code")
    assert cache.load(KEY) == b"code"


def test_many_writers_at_once(place: Path) -> None:
    wrong = []

    def write(seed: int) -> None:
        for _ in range(20):
            cache.store(KEY, b"code" * 1000)
            if cache.load(KEY) != b"code" * 1000:
                wrong.append(seed)

    writers = [threading.Thread(target=write, args=(i,)) for i in range(8)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    assert not wrong and files(place) == [KEY]


def test_what_is_unused_for_longest_goes(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT", 3000)
    monkeypatch.setattr(cache, "_OFTEN", 0)
    keys = [hashlib.sha256(bytes([i])).hexdigest() for i in range(5)]
    for age, key in enumerate(keys):
        cache.store(key, b"x" * 800)
        os.utime(place / key, (time.time() - 7200 + age,) * 2)
    (place / "left.tmp").write_text("")
    os.utime(place / "left.tmp", (0, 0))
    assert cache.load(keys[0])  # used now, so it is young
    monkeypatch.setattr(cache, "_OFTEN", 256)
    cache.store(hashlib.sha256(b"new").hexdigest(), b"x" * 800)  # now the size is looked at
    left = files(place)
    assert keys[0] in left and hashlib.sha256(b"new").hexdigest() in left
    assert "left.tmp" not in left and keys[1] not in left and keys[2] not in left
    assert sum((place / name).stat().st_size for name in left) <= 3000 + 1000


# -- code


def test_code_comes_from_the_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = add(1.25)
    address = target.compile_module(text, ["add"]).address["add"]
    assert address and len(files(place)) == 1
    monkeypatch.setattr(target, "_compile", lambda *args: pytest.fail("compiled again"))
    again = target.compile_module(text, ["add"])
    assert call(again, 2.0) == 3.25


def test_what_is_loaded_is_not_translated(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module is translated once, by the machine that serves all modules; the engine is handed the code."""
    made: list[bool] = []
    machine = target._target_machine("")

    class Counting:
        def emit_object(self, module: Any) -> bytes:
            made.append(True)
            return bytes(machine.emit_object(module))

    monkeypatch.setattr(target, "_target_machine", lambda override: Counting())
    assert call(target.compile_module(add(3.25), ["add"]), 2.0) == 5.25
    assert made == [True]
    assert call(target.compile_module(add(3.25), ["add"]), 2.0) == 5.25  # from the file
    assert made == [True] and len(files(place)) == 1


def call(compiled: Any, x: float) -> float:
    import ctypes

    return float(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(compiled.address["add"])(x))


def test_code_without_the_functions_is_made_again(place: Path) -> None:
    target.compile_module(add(2.25, "other"), ["other"])
    (other,) = files(place)
    target.compile_module(add(2.25), ["add"])
    (name,) = set(files(place)) - {other}
    cache.store(name, cache.load(other) or b"")
    assert call(target.compile_module(add(2.25), ["add"]), 2.0) == 4.25
    assert cache.load(name) != cache.load(other)


def test_text_with_addresses_goes_to_no_file(place: Path) -> None:
    target.compile_module(add(3.25), ["add"], keep=False)
    assert not place.exists() or not files(place)


def test_processors_do_not_share_code(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two = ("x86-64-v2", "x86-64-v3") if "sse2" in target.host().features else ("generic", "generic:neon")
    for processor in two:
        monkeypatch.setenv(target.OVERRIDE, processor)
        target.compile_module(add(4.25), ["add"])
    assert len(files(place)) == 2


def test_equal_text_is_compiled_once(place: Path) -> None:
    assert target.compile_module(add(5.25), ["add"]) is not None
    first = target.compile_module(add(5.25), ["add"])
    assert target.compile_module(add(5.25), ["add"]) is first


@pytest.mark.parametrize(
    ("text", "names", "reason"),
    [
        ("define double @add(double %x) {\nentry:\n  ret float %x\n}\n", ["add"], "type"),
        ("define double @add(double %x) {\n", ["add"], "found end of file"),
        (add(6.25), ["subtract"], "not all of subtract are defined"),
        (add(6.5) + "declare double @no_such_function(double)\n", ["add"], "no function no_such_function"),
    ],
)
def test_code_that_does_not_compile_says_where_it_is(place: Path, text: str, names: list[str], reason: str) -> None:
    with pytest.raises(target.CompilationError, match=reason) as caught:
        target.compile_module(text, names)
    saved = Path(re.search(r"The code is in (.*); please report it", str(caught.value)).group(1))  # type: ignore[union-attr]
    assert saved.read_text() == text
    saved.unlink()


def test_threads_may_compile_at_once(place: Path) -> None:
    found: list[float] = []

    def work(i: int) -> None:
        for j in range(5):
            found.append(call(target.compile_module(add(100.0 + (i + j) % 7), ["add"]), -100.0))

    workers = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert sorted(found) == sorted(float((i + j) % 7) for i in range(8) for j in range(5))


# -- whether it works here


def python(code: str, **environment: str) -> str:
    return in_a_process(code, strict=True, **environment)


def test_without_llvmlite(tmp_path: Path) -> None:
    text = python(
        "import sys; sys.modules['llvmlite'] = None\n"
        "import funcad\nfrom funcad.backends.native import target\n"
        "assert not target.available()\nfuncad.show_config()"
    )
    assert "native engine: not in use: llvmlite is not installed (pip install llvmlite)" in text


def test_an_old_llvmlite_is_refused() -> None:
    text = python(
        "import llvmlite; llvmlite.__version__ = '0.43.0'\nfrom funcad.backends.native import target\nprint(target.why_not())"
    )
    assert "llvmlite 0.43.0 is too old" in text


def test_a_wrong_result_of_the_start_up_test_turns_it_off() -> None:
    text = python(
        "from funcad.backends.native import target\n"
        "target.probes.append(lambda: '2 + 2 came out as 5')\nprint(target.why_not(), target.available())\n"
        "from funcad.backends.native import kernels\nassert not target.available()"
    )
    assert text.strip() == "the start-up test failed: 2 + 2 came out as 5 False"


def test_a_wrong_result_of_a_later_test_turns_it_off() -> None:
    text = python(
        "from funcad.backends.native import target\nassert target.available()\n"
        "def fails(): raise ValueError('no good')\n"
        "target.probes.append(fails)\nprint(target.why_not(), target.available())"
    )
    assert text.strip() == "the start-up test failed: ValueError: no good False"


def test_it_works_and_says_what_it_uses(tmp_path: Path) -> None:
    code = (
        "import funcad, sys\nfrom funcad.backends.native import target\nassert 'llvmlite' not in sys.modules\n"
        "assert target.available(), target.why_not()\nfuncad.show_config()"
    )
    for _ in range(2):  # the second process finds the first one's code
        text = python(code, FUNCAD_CACHE_DIR=str(tmp_path))
        assert f"llvmlite {llvmlite.__version__}" in text and str(tmp_path) in text
        assert files(tmp_path / "kernels")


def test_forked_children_compile() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    text = python(
        "import os, threading\nfrom funcad.backends.native import target\nfrom funcad.host import locks\n"
        "locks.LOCK_TIMEOUT = 0.05\ntarget.available()\nlock = target._lock\n"
        "holder = threading.Thread(target=lambda: (lock.acquire(), ready.set(), done.wait(), lock.release()))\n"
        "ready, done = threading.Event(), threading.Event()\nholder.start(); ready.wait()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    target.compile_module('define void @f() {\\nentry:\\n  ret void\\n}\\n', ['f'])\n"
        "    os._exit(0)\n"
        "status = os.waitpid(pid, 0)[1]\ndone.set(); print('child', status)"
    )
    assert text.strip() == "child 0"


def test_vectors_of_processors() -> None:
    for name, bits in (("x86-64", 128), ("x86-64-v2", 128), ("x86-64-v3", 256), ("x86-64-v4", 512), ("thing:neon", 128)):
        machine, features = target._processor(name)
        assert machine.vector_bits == bits and machine.name == name.split(":")[0]
        assert all(f.startswith("+") for f in features.split(","))
        assert target.lanes_of(machine, ["f8"]) == bits // 64
        assert target.lanes_of(machine, ["f4", "?"]) == bits // 32
        assert target.lanes_of(machine, ["c16"]) == bits // 64
        assert target.lanes_of(machine, ["?"]) == bits // 8


# -- what is handed to LLVM


@pytest.mark.slow
def test_only_whole_objects_for_this_machine_are_loaded(place: Path) -> None:
    text = add(7.0)
    target.compile_module(text, ["add"])
    stored = next(p for p in place.iterdir() if p.suffix != ".tmp")
    good = cache.load(stored.name)
    assert good is not None and is_object(good, target._sample(""))
    rng = random.Random(0)
    bad = [b"", b"no object " * 100, good[:2], good[:10], bytes(64) + good[64:], bytes([good[0] ^ 1]) + good[1:]]
    if good.startswith(b"\x7fELF"):
        bad += [good[:64], good[: len(good) // 2], good[:-1], good[:40] + (1 << 40).to_bytes(8, "little") + good[48:]]
        bad += [good[:18] + b"\x00\xf0" + good[20:], good[:16] + b"\x02\x00" + good[18:], good[:4] + b"\x01" + good[5:]]
        bad += [good[:58] + rng.randbytes(6) + good[64:] for _ in range(20)]
    for data in bad:
        assert not is_object(data, good)
        cache.store(stored.name, data)  # with a right checksum
        code = (
            "import ctypes\nfrom funcad.backends.native import target\n"
            f"code = target.compile_module({text!r}, ['add'])\n"
            "print(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(code.address['add'])(1.0))"
        )
        if data in bad[:6] or data is bad[-1]:  # processes take their time
            assert python(code, FUNCAD_CACHE_DIR=str(place.parent)).strip() == "8.0"
            assert cache.load(stored.name) == good


def test_handlers_of_signals_run_when_llvm_is_left() -> None:
    seen: list[str] = []
    saved = signal.signal(signal.SIGINT, lambda *args: seen.append("handled"))
    try:
        with signals_held():
            signal.raise_signal(signal.SIGINT)
            assert not seen
        assert seen == ["handled"]
        with pytest.raises(ZeroDivisionError), signals_held():
            signal.raise_signal(signal.SIGINT)
            raise ZeroDivisionError
        assert seen == ["handled"] * 2
        inside = threading.Thread(target=lambda: signals_held().__enter__())
        inside.start()
        inside.join()
        signal.raise_signal(signal.SIGINT)
        assert seen == ["handled"] * 3
    finally:
        signal.signal(signal.SIGINT, saved)
