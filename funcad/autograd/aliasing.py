"""`install()`: `import autograd` finds funcad.autograd, for programs that cannot be edited.

Idea: a finder before all others on `sys.meta_path` answers for `autograd` and what is below it; its loader hands out funcad's
modules, so that a module has one object under both names. Trap: a module that was imported from HIPS autograd before holds its
functions, which know nothing of funcad's tracers; so `install` refuses when autograd is loaded already.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["install"]

_HERE = __name__.rpartition(".")[0]


class _Alias(MetaPathFinder, Loader):
    """Finds and loads `autograd...` as `funcad.autograd...`."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "autograd":
            return None
        try:
            module = importlib.import_module(self.own(name))
        except ModuleNotFoundError as error:
            if error.name is None or not error.name.startswith(_HERE):
                raise
            return None  # nothing further down answers for a part of the alias: ModuleNotFoundError under the name asked for
        return ModuleSpec(name, self, origin=module.__file__, is_package=hasattr(module, "__path__"))

    @staticmethod
    def own(name: str) -> str:
        return _HERE + name.removeprefix("autograd")

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.own(spec.name))
        spec.loader_state = module.__spec__  # the import machinery is about to overwrite it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def install() -> None:
    """Let `import autograd`, and the import of its submodules, find `funcad.autograd` from now on, in the whole process.

    For libraries and programs written for HIPS autograd that stay as they are: call it before they are imported. Calling it
    again does nothing. HIPS autograd need not be installed; if it is, it is hidden.

    Raises
    ------
    RuntimeError
        HIPS autograd, or a part of it, has been imported before.

    >>> import funcad.autograd
    >>> funcad.autograd.install()
    >>> import autograd.numpy as np
    >>> from autograd import elementwise_grad
    >>> elementwise_grad(np.tanh)(np.zeros(2))
    array([1., 1.])
    """
    if any(type(finder) is _Alias for finder in sys.meta_path):
        return
    if "autograd" in sys.modules:
        raise RuntimeError(
            f"funcad.autograd.install(): autograd has been imported already, from {sys.modules['autograd'].__file__}, and what "
            "was taken from it stays its own.\nRemedy: call install() first, before any module that imports autograd."
        )
    sys.meta_path.insert(0, _Alias())
