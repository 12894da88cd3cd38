"""Compiled kernels on disk: machine code by the hash of all that it depends on.

Idea: one file per kernel in a folder that belongs to the user alone, written beside its place and renamed into it, so that any
number of processes may read and write at once. A file carries its key, length and checksum; one that is damaged is as good as
none and is replaced. Invariant: nothing here fails a program: without a folder, without rights, on a full disk, kernels are
compiled anew, and `describe()`, which show_config() prints, says why. Trap: what lies here is executed, so neither folders nor
files of other users, nor folders that others may write to, are touched.
"""

from __future__ import annotations

import hashlib
import os
import stat
import struct
import sys
import threading
import time
from pathlib import Path

from funcad.backends.interpreter import compiling
from funcad.configuration import config
from funcad.host.locks import held_over_forks
from funcad.memo import table

LIMIT = 128 << 20  # bytes of all files; beyond it the ones unused for longest go
_MAGIC = b"funcad kernel 1\n"
_OPEN = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_OFTEN = 2  # of 256 stores, of all processes, look at the size of the folder, which may hold tens of thousands of files

_lock = threading.Lock()
held_over_forks(compiling, _lock)
_checked = table(
    "native.folders",
    "folder: why it is not used, nothing if it is; asked once",
    same=None,
)


def folder() -> Path | None:
    """Where kernels are kept; None if nowhere."""
    path = _place()
    return path if path is not None and not _reason(path) else None


def describe() -> str:
    """The folder, or why there is none."""
    if config.cache_dir == "off":
        return "memory only (cache_dir is 'off')"
    path = _place()
    if path is None:
        return "memory only (no home folder)"
    reason = _reason(path)
    return f"memory only ({reason})" if reason else str(path)


def _place() -> Path | None:
    setting = config.cache_dir
    if setting == "off":
        return None
    if setting is not None:
        return Path(setting).expanduser() / "kernels"
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "")
        return Path(base) / "funcad" / "kernels" if base else None
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # a relative one is to be ignored, says the standard
        return Path(base) / "funcad" / "kernels"
    home = os.path.expanduser("~")
    if not os.path.isabs(home) or home == "/":
        return None
    return Path(home) / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "funcad" / "kernels"


def _reason(path: Path) -> str:
    """Why the folder is not used, "" if it is; it is made at the first question."""
    name = str(path)
    reason = _checked.get(name)
    if reason is None:
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            reason = _distrust(os.stat(path), name)
        except OSError as error:
            reason = f"{name}: {error.strerror or error}"
        _checked[name] = reason
    return reason


def _distrust(status: os.stat_result, name: str) -> str:
    if not hasattr(os, "getuid"):
        return ""  # rights on Windows are inherited from the user's own folder
    if status.st_uid != os.getuid():
        return f"{name} belongs to another user"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others may write to {name}"
    return ""


def _header(key: str, data: bytes) -> bytes:
    return b"".join([_MAGIC, key.encode(), len(data).to_bytes(8, "little"), hashlib.sha256(data).digest()])


def load(key: str) -> bytes | None:
    """The machine code that was stored under a key; None if there is none, or none that is whole and ours."""
    path = folder()
    if path is None:
        return None
    name = os.path.join(path, key)
    try:
        handle = os.open(name, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | _OPEN)
    except OSError:
        return None
    try:
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode) or _distrust(status, name):
                return None
            content = file.read()
        if time.time() - status.st_mtime > 3600:
            os.utime(name)  # used lately; by the hour is exact enough, and spares the disk
    except OSError:
        return None
    start = len(_header(key, b""))
    data = content[start:]
    return data if content[:start] == _header(key, data) else None


def store(key: str, data: bytes) -> None:
    """Keep machine code under a key, in place of what may be there."""
    path = folder()
    if path is None:
        return
    temporary = os.path.join(path, f"{key}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_header(key, data) + data)
            os.replace(temporary, os.path.join(path, key))
        except OSError:
            os.unlink(temporary)
            raise
        if os.urandom(1)[0] < _OFTEN:
            _trim(path)
    except FileNotFoundError:
        _checked.pop(str(path), None)  # the folder was removed: made again at the next store
    except OSError as error:
        _checked[str(path)] = f"{path}: {error.strerror or error}"


def _trim(path: Path) -> None:
    """Remove what interrupted writers left, and the files unused for longest, down to three quarters of the limit."""
    files = []
    now = time.time()
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            if entry.name.endswith(".tmp"):
                if now - status.st_mtime > 3600:
                    _remove(entry.path)
            else:
                files.append((status.st_mtime, status.st_size, entry.path))
    total = sum(size for _, size, _ in files)
    if total > LIMIT:
        for _, size, name in sorted(files):
            _remove(name)
            total -= size
            if total <= LIMIT * 3 // 4:
                break


def _remove(name: str) -> None:
    try:
        os.unlink(name)
    except FileNotFoundError:
        return  # another process was faster


# -- is this machine code, as LLVM writes it for this machine?
#
# LLVM loads objects on trust: bytes that are no object, or whose tables point outside of it, end the process. So what comes
# from a file is looked at first: it must begin as every object for this machine begins, and its sections must lie inside it.

_ELF, _MACH_O = b"\x7fELF", b"\xcf\xfa\xed\xfe"
_NO_BITS = 8  # type of an ELF section that takes no room in the file


def is_object(data: bytes, sample: bytes) -> bool:
    """Could LLVM load this? `sample` is any object for this machine."""
    same = 20 if sample.startswith(_ELF) else 16 if sample.startswith(_MACH_O) else 2  # format, kind of file, processor
    if len(data) < same or data[:same] != sample[:same]:
        return False
    return not sample.startswith(_ELF) or _sections_fit(data)


def _sections_fit(data: bytes) -> bool:
    """Do the sections of an ELF object, and the table of them, lie inside it?"""
    order = "<" if data[5] == 1 else ">"
    if data[4] != 2 or len(data) < 64:  # not of 64 bits, or no whole header
        return False
    (table,) = struct.unpack_from(f"{order}Q", data, 40)
    size, count, names = struct.unpack_from(f"{order}HHH", data, 58)
    if size != 64 or not 0 < names < count or table + size * count > len(data):
        return False
    for i in range(count):
        kind, _, _, start, length = struct.unpack_from(f"{order}IQQQQ", data, table + size * i + 4)
        if kind != _NO_BITS and start + length > len(data):
            return False
    return True
