"""What `export_c` writes, through compilers: C99 by gcc and C++11 by g++, without a warning, and as a library for `load_c`."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import funcad
from funcad.backends.export.c_library import Exported, write_library

__all__ = ["available", "built", "exported", "loaded", "program"]

FLAGS = ["-ffp-contract=off", "-Wall", "-Wextra"]
_numbers = itertools.count()  # a library that a process has loaded stays loaded, whatever the file is now


def available() -> bool:
    return shutil.which("gcc") is not None and shutil.which("g++") is not None


def run(*command: Any) -> str:
    """What a command prints; AssertionError if it fails, or says anything on the side."""
    found = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    assert not found.returncode and not found.stderr, found.stderr[:4000]
    return found.stdout


def built(path: Path, flags: Sequence[str] = ("-O1",), cpp: bool = True) -> Path:
    """The library of `path`.h and `path`.c, compiled as C; as C++ it must compile, too."""
    library = path.with_name(f"lib{path.name}_{next(_numbers)}.so")
    run("gcc", "-std=c99", "-pedantic", *flags, *FLAGS, "-shared", "-fPIC", f"{path}.c", "-o", library, "-lm")
    if cpp:
        run("g++", "-std=c++11", "-fsyntax-only", *FLAGS, "-x", "c++", f"{path}.c")
    return library


def loaded(path: Path, **options: Any) -> Any:
    return funcad.load_c(built(path, **options), f"{path}.h")


def program(symbol: str, jaxpr: Any, consts: Sequence[Any] = ()) -> Exported:
    """A program under this name."""
    n = len(jaxpr.inputs) - len(consts)
    return Exported(symbol, jaxpr, consts, [f"x{i}" for i in range(n)], [f"y{i}" for i in range(len(jaxpr.outputs))])


def exported(folder: Path, functions: Sequence[Exported], **options: Any) -> Any:
    """One library of these programs."""
    write_library(folder / "many", functions, True, "frozen")
    return loaded(folder / "many", **options)
