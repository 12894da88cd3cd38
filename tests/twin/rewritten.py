"""`python -m tests.twin.rewritten NAME`: runs a test module of Python's own with all its functions replaced by twins."""

from __future__ import annotations

import importlib
import io
import sys
import types
import unittest
from typing import Any

from funcad.twin.templates import Untwinnable
from funcad.twin.twins import Twins

DEPTH = 4  # of classes in classes


class Rewriting:
    """Replaces the functions of a module, and of the classes that it has made, in place."""

    def __init__(self, module: types.ModuleType) -> None:
        self.module, self.twins, self.made = module, Twins(), 0
        self.reasons: dict[str, str] = {}
        self._classes: set[type] = set()
        self._replace(vars(module), vars(module).__setitem__, DEPTH)

    def _twin(self, f: Any) -> Any:
        if type(f) is not types.FunctionType or f.__module__ != self.module.__name__:
            return f
        try:
            twin = self.twins.of(f)
        except Untwinnable as error:
            self.reasons[f.__qualname__] = str(error)
            return f
        self.made += 1
        return twin

    def _replace(self, space: Any, put: Any, depth: int) -> None:
        for name, value in list(space.items()):
            if type(value) is types.FunctionType:
                put(name, self._twin(value))
            elif type(value) in (staticmethod, classmethod):
                put(name, type(value)(self._twin(value.__func__)))
            elif isinstance(value, type) and value.__module__ == self.module.__name__ and depth and value not in self._classes:
                self._classes.add(value)
                self._replace(vars(value), lambda n, v, value=value: setattr(value, n, v), depth - 1)


def run(name: str, rewrite: bool) -> tuple[int, list[str], Rewriting | None]:
    """How many tests ran, and which failed."""
    module = importlib.import_module(f"test.{name}")
    rewriting = Rewriting(module) if rewrite else None
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
    return result.testsRun, sorted({test.id() for test, _ in result.failures + result.errors}), rewriting


if __name__ == "__main__":
    ran, failed, rewriting = run(sys.argv[1], "--plain" not in sys.argv)
    made = rewriting.made if rewriting is not None else 0
    print(f"ran {ran}, failed {failed}, twins {made}")
