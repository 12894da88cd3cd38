"""Tests of Python's own, rewritten: what they check of the language holds for twins."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = """
asyncgen augassign class collections compare contextlib coroutines dataclasses decorators descr dictcomps enum except_star
exceptions extcall fstring funcattrs generator_stop generators genexps global grammar itertools keywordonlyarg listcomps
named_expressions opcodes patma positional_only_arg pow raise scope setcomps slice string_literals super traceback type_aliases
type_params types unary unpack unpack_ex with yield_from
""".split()  # fmt: skip
# It gives a function a table of lines by hand, for just as many instructions as the compiler makes of it.
OF_BYTECODE = {"test.test_exceptions.PEP626Tests.test_missing_lineno_shows_as_none"}
ROOT = Path(__file__).parents[2]


def ran(*arguments: str) -> tuple[int, str, int]:
    """How many tests ran, which failed, and how many functions were twins."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.twin.rewritten", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    found = re.search(r"^ran (\d+), failed (.*), twins (\d+)$", done.stdout, re.M)
    assert found is not None, done.stdout[-2000:] + done.stderr[-2000:]
    return int(found[1]), found[2], int(found[3])


def is_there(name: str) -> bool:
    try:
        return importlib.util.find_spec(f"test.test_{name}") is not None
    except ModuleNotFoundError:
        return False


def check(name: str) -> None:
    if not is_there(name):
        pytest.skip(f"this Python has no test.test_{name}")
    n, failed, twins = ran(f"test_{name}")
    assert n > 0 and twins >= 1
    if set(ast.literal_eval(failed)) - OF_BYTECODE:
        assert (n, failed) == ran(f"test_{name}", "--plain")[:2]


@pytest.mark.share(4)
@pytest.mark.parametrize("name", ["grammar", "patma", "scope"])
def test_a_few_of_them(name: str) -> None:
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_all_of_them(name: str) -> None:
    check(name)
