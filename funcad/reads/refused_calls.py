"""Which functions of libraries can be neither read again nor replayed, and why: what calls one is not compiled.

Idea: a program calls no library, so what one does outside (a file, a process, a picture, a setting) would happen once, and what
one finds there would stay as it was. Functions are told by themselves, by their names where a program may never import their
module, or by the package that they are of, which is about nothing else; what such a package only computes is named, too.
Trap: the methods of objects that f found are judged by their objects, in calls.py.
"""

from __future__ import annotations

import builtins
import contextvars
import datetime
import os
import time
import types
from typing import Any

import numpy as np

from funcad.reads.code_reads import is_compiled

_READS = "reads what nobody can read again"
_DOES = "does something outside the program"
_REFUSED: dict[Any, str] = {
    **{f: f"np.{f.__name__} tells a setting" for f in (np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions)},
    builtins.eval: "eval runs code that cannot be seen",
    builtins.exec: "exec runs code that cannot be seen",
    builtins.input: "input reads what nobody can read again",
    builtins.breakpoint: "breakpoint stops at each call",
    builtins.open: "open reads or writes a file",
    contextvars.copy_context: "copy_context holds what all context variables are",
    os.urandom: "os.urandom gives other bytes at each call",
    os.getcwd: "os.getcwd may answer something else at each call",
    time.sleep: "time.sleep waits at each call",
    np.set_printoptions: "np.set_printoptions says how arrays are printed from now on",
    **{f: f"np.{f.__name__} reads a file" for f in (np.load, np.loadtxt, np.genfromtxt, np.fromfile)},
    **{f: f"np.{f.__name__} writes a file" for f in (np.save, np.savez, np.savez_compressed, np.savetxt)},
}
# the same, of modules that a program may never import
_BY_NAME = {
    ("pdb", "set_trace"): "pdb.set_trace stops at each call",
    ("numpy.random", "RandomState.set_state"): "np.random.set_state sets a generator",
    ("numpy", "memmap"): "np.memmap reads or writes a file",
    **{
        ("scipy.special._ufuncs", name): f"scipy.special.{name} says what SciPy's functions do at a singularity, when they run"
        for name in ("errstate", "seterr", "geterr")
    },
    **{("uuid", name): f"uuid.{name} gives another answer at each call" for name in ("uuid1", "uuid4")},
}


def _of(*names: str) -> dict[str, frozenset[str]]:
    """Names before a colon -> those behind it."""
    table = {}
    for line in names:
        before, _, behind = line.partition(":")
        table.update(dict.fromkeys(before.split(), frozenset(behind.split())))
    return table


_PACKAGES = _of(  # of which every function looks or works outside, but these
    "posix nt: fspath strerror cpu_count getpid",
    "os: fspath fsencode fsdecode getenv get items keys values copy __getitem__ __contains__ __iter__ __len__",
    "_thread: lock RLock allocate_lock",
    "secrets: compare_digest",
    "shutil subprocess socket tempfile glob urllib http ftplib smtplib sqlite3 multiprocessing concurrent signal",
    "atexit resource select selectors fcntl mmap zipfile tarfile gzip bz2 lzma shelve dbm getpass webbrowser",
    "asyncio ctypes _ctypes fileinput runpy",
    "requests httpx h5py psutil matplotlib seaborn plotly IPython rich click wandb mlflow",
)
_NAMES = _of(  # modules of which these do
    "posixpath ntpath genericpath: abspath realpath relpath ismount lexists islink expandvars expanduser exists"
    " isfile isdir getsize getmtime getatime getctime samefile sameopenfile samestat",
    "pathlib: cwd home stat lstat exists is_file is_dir is_mount is_symlink is_socket is_fifo is_block_device"
    " is_char_device iterdir glob rglob walk absolute resolve read_bytes read_text write_bytes write_text open"
    " touch mkdir chmod lchmod unlink rmdir rename replace symlink_to hardlink_to owner group samefile"
    " expanduser readlink copy move",
    "sys: getrecursionlimit getswitchinterval displayhook excepthook unraisablehook settrace setprofile"
    " setrecursionlimit setswitchinterval audit"
    " set_int_max_str_digits get_int_max_str_digits addaudithook getrefcount getallocatedblocks",
    "gc: get_objects get_count get_stats get_referrers get_threshold isenabled enable disable set_threshold collect"
    " freeze unfreeze",
    "threading: start join run current_thread active_count enumerate get_ident get_native_id settrace setprofile",
    "time: clock_settime clock_settime_ns tzset clock_gettime clock_gettime_ns",
    "pprint: pprint pp",
    "traceback: print_exc print_exception print_last print_list print_stack print_tb",
    "logging: setLevel addHandler removeHandler addFilter removeFilter disable basicConfig shutdown",
    "locale: setlocale getlocale localeconv",
    "decimal: getcontext setcontext localcontext",
)
_OF_ARRAYS = frozenset(["tofile", "dump"])
_OF_PANDAS = ("read_", "to_csv", "to_excel", "to_parquet", "to_pickle", "to_hdf", "to_feather", "to_sql", "to_stata")


def named(f: Any) -> tuple[Any, Any]:
    """By what a function is told from others whose module may never be imported."""
    return getattr(f, "__module__", None), getattr(f, "__qualname__", None)


def refusal_of(f: Any) -> str | None:
    """Why a call of this function of a library can be neither read again nor replayed; None if it can, or may be."""
    try:
        reason = _REFUSED.get(f) or _BY_NAME.get(named(f))
    except TypeError:  # what cannot be hashed
        return None
    if reason is not None or isinstance(f, type) and issubclass(f, BaseException):
        return reason
    if is_compiled(f):
        what = getattr(f, "__qualname__", None) or type(f).__qualname__
        return f"{what} is compiled (Cython, C), and nobody sees what it reads"
    owner, name = None if isinstance(f, type) else getattr(f, "__self__", None), getattr(f, "__name__", "")
    kind = None if owner is None or type(owner) is types.ModuleType else owner if isinstance(owner, type) else type(owner)
    if kind is not None and issubclass(kind, datetime.date):
        says_now = kind is owner and name in ("now", "today", "utcnow") and owner not in (datetime.date, datetime.datetime)
        return f"{kind.__name__}.{name} reads a clock" if says_now else None
    module = str(getattr(f, "__module__", None) or (kind or type(f)).__module__)
    package, _, rest = module.partition(".")
    if package == "numpy":
        return f"{name} of an array writes a file" if name in _OF_ARRAYS and kind is not None else None
    does = package in _PACKAGES and name not in _PACKAGES[package] and module != "os.path"
    if does or name in _NAMES.get(package, ()) or package == "pandas" and name.startswith(_OF_PANDAS):
        where = {"posix": "os", "nt": "os", "posixpath": "os.path", "genericpath": "os.path"}.get(package, package)
        return f"{where}.{name} {_READS if name.startswith(_QUESTIONS) else _DOES}"
    return None


_QUESTIONS = ("get", "is", "read", "list", "scan", "stat", "exists", "glob", "cwd", "times", "active", "current")
