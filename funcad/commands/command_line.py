"""`python -m funcad COMMAND`: the commands, what each takes, and what it prints.

Idea: one table of commands, from which the help is written. A command is a function of the words that follow it and gives the
exit status. Functions of the user's are named `module:function` or `file.py:function`, with their arguments as Python
expressions; a mistake in these is told in one line, errors of the function itself are shown as Python shows them.

Trap: nothing is imported for a command that does not need it, so that the help comes at once and the tour's packages are asked
for by the tour alone.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import funcad
from funcad.commands import manual, porting
from funcad.ir.aval import said

TOUR = {"sklearn": "scikit-learn", "threadpoolctl": "threadpoolctl", "matplotlib": "matplotlib", "tqdm": "tqdm"}
HELP = ("help", "--help", "-h")


class Wrong(Exception):
    """What was typed cannot be done; the text says why and what to type."""


class Command(NamedTuple):
    """One command: what follows its name, what it does, and the function that does it."""

    takes: str
    does: str
    run: Callable[[Sequence[str]], int]


# -- commands


def _tour(words: Sequence[str]) -> int:
    """Run the tour, or that of several processes."""
    module = "funcad.distributed.processes_tour" if "--distributed" in words else "funcad.tour"
    missing = [] if "--distributed" in words else [TOUR[name] for name in TOUR if importlib.util.find_spec(name) is None]
    if missing:
        several = "which is not installed" if len(missing) == 1 else "which are not installed"
        raise Wrong(f"The tour needs {' and '.join(missing)}, {several}: pip install {' '.join(missing)}")
    sys.argv = [f"{Path(sys.argv[0]).name} tour", *words]  # which the tour's own parser reads
    given: Any = importlib.import_module("funcad.tour" if module == "funcad.tour" else "funcad.distributed.processes_tour")
    return int(given.main() or 0)


def _show_settings(words: Sequence[str]) -> int:
    _nothing_more("config", words)
    funcad.show_config()
    return 0


def _ask_doctor(words: Sequence[str]) -> int:
    f, args = _call("doctor", words)
    print(funcad.debug.doctor(f)(*args))
    return 0


def _explain(words: Sequence[str]) -> int:
    f, args = _call("explain", words)
    jitted = f if hasattr(f, "explain") else funcad.jit(f)
    try:
        print(jitted.explain(*args))
    except funcad.errors.TracerBoolConversionError:  # it branches on values, and calls find its paths
        jitted(*args), jitted(*args)
        print(jitted.explain(*args))
    return 0


def _show_cache(words: Sequence[str]) -> int:
    """Say where kernels are kept and how many there are, or remove them."""
    disk: Any = importlib.import_module("funcad.backends.native.cache")
    folder = disk.folder()
    if words not in ([], ["clear"]):
        raise Wrong(f"cache takes nothing, or `clear`, not {' '.join(words)!r}")
    if folder is None:
        print(f"no kernels are kept on disk: {disk.describe()}")
        return 0
    files = [path for path in folder.glob("*") if path.is_file()] if folder.exists() else []
    size = sum([path.stat().st_size for path in files]) / 2**20
    if not words:
        print(f"{folder}: {len(files)} kernels, {size:.1f} MB; `python -m funcad cache clear` removes them")
        return 0
    for path in files:
        path.unlink(missing_ok=True)
    print(f"{folder}: removed {len(files)} kernels, {size:.1f} MB")
    return 0


def _show_help(words: Sequence[str]) -> int:
    width = max([len(f"{name} {command.takes}") for name, command in COMMANDS.items()])
    print(f"funcad {funcad.__version__}: derivatives, batching and compilation of NumPy functions\n")
    print("python -m funcad COMMAND\n")
    for name, command in COMMANDS.items():
        print(f"  {f'{name} {command.takes}':{width}}  {command.does}")
    print("\nFUNCTION is module:name or file.py:name; each ARGUMENT is a Python expression that knows np, funcad and the")
    print('module\'s names, such as "np.ones(3)". An example: python -m funcad doctor model.py:loss "np.zeros(3)"')
    return 0


def _show_version(words: Sequence[str]) -> int:
    print(funcad.__version__)
    return 0


COMMANDS = {
    "tour": Command("[--quick]", "a network learns to read digits: jit, vmap, grad and hvp at work, and a plot", _tour),
    "docs": Command("[PAGE or WORDS]", "the manual: its pages, one page, or the pages about these words", manual.show),
    "config": Command("", "the settings, the engine in use, and why it is not another", _show_settings),
    "doctor": Command("FUNCTION [ARGUMENT ...]", "where values or gradients stop being finite, or are lost", _ask_doctor),
    "explain": Command("FUNCTION [ARGUMENT ...]", "what jit makes of the function: what runs together, what alone", _explain),
    "cache": Command("[clear]", "where compiled kernels are kept on disk; clear removes them", _show_cache),
    "port": Command("[--check] FILE ...", "rewrite a JAX or autograd program, and list what is left to do", porting.port_files),
    "help": Command("", "this text; also --help", _show_help),
    "version": Command("", "the version; also --version", _show_version),
}


def main(words: Sequence[str]) -> int:
    """Run the command that the words name."""
    name, rest = (words[0], list(words[1:])) if words else ("help", [])
    name = "help" if name in HELP else "version" if name in ("--version", "-V") else name
    if name not in COMMANDS:
        print(f"There is no command {name!r}. The commands are {', '.join(COMMANDS)}.", file=sys.stderr)
        return 2
    if name != "tour" and any([word in HELP[1:] for word in rest]):  # the tour has options of its own
        command = COMMANDS[name]
        print(f"python -m funcad {name} {command.takes}".rstrip() + f"\n  {command.does}")
        return 0
    try:
        return COMMANDS[name].run(rest)
    except Wrong as error:
        print(error, file=sys.stderr)
        return 1


# -- functions and arguments, as they are typed


def _nothing_more(name: str, words: Sequence[str]) -> None:
    if words:
        raise Wrong(f"{name} takes nothing more, not {' '.join(words)!r}")


def _call(name: str, words: Sequence[str]) -> tuple[Any, list[Any]]:
    """The function that was named, and its arguments."""
    if not words or ":" not in words[0]:
        raise Wrong(f"{name} needs a function: python -m funcad {name} module:function, or file.py:function")
    path, _, attribute = words[0].rpartition(":")
    sys.path.insert(0, str(Path.cwd()))
    module = _module(path)
    found = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise Wrong(f"{path} has no {attribute}")
        found = getattr(found, part)
    known = {**vars(module), "np": np, "funcad": funcad}
    args = []
    for word in words[1:]:
        try:
            args.append(eval(word, known))
        except Exception as error:
            raise Wrong(f"The argument {word!r} is no Python expression: {type(error).__name__}: {error}") from None
    if not callable(found):
        raise Wrong(f"{words[0]} is no function, it is {said(found)}")
    try:
        inspect.signature(found).bind(*args)
    except TypeError as error:
        raise Wrong(
            f"{attribute}{inspect.signature(found)} takes other arguments: {error}. Give them as Python expressions, as in\n"
            f'  python -m funcad {name} {words[0]} "np.ones(3)"'
        ) from None
    except ValueError:  # a function in C that does not say what it takes
        return found, args
    return found, args


def _module(path: str) -> Any:
    if path.endswith(".py"):
        if not Path(path).is_file():
            raise Wrong(f"There is no file {path}")
        spec = importlib.util.spec_from_file_location(Path(path).stem, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules.setdefault(spec.name, module)
        spec.loader.exec_module(module)
        return module
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        raise Wrong(f"There is no module {error.name}; a file is named as file.py:function") from None
