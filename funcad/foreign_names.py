"""Modules that stand for others: the names of HIPS autograd's and JAX's modules, found where funcad has them.

A mirror hands every attribute on: to a submodule of its own, to funcad's module, and what that does not have to the library's
own (there it computes on plain arrays as ever, and refuses traced values, which it cannot take). Nothing is imported before an
attribute is asked for. An alias makes `import autograd` find funcad.autograd, for programs that stay as they are: a finder
before all others on `sys.meta_path`, whose loader hands out funcad's modules, so that a module has one object under all names.

Trap: a module that was imported from the other library before holds its functions, which know nothing of funcad's tracers; so
`alias` refuses when that library is loaded already.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import pkgutil
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def _found(path: str) -> Any:
    """The module, or the object in a module, of that dotted name; None if there is none."""
    parts = path.split(".")
    for i in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:i]))
        except ModuleNotFoundError:
            continue
        for name in parts[i:]:
            value = getattr(value, name, None)
        return value
    return None


def mirror(
    own: str, *paths: str, dress: Callable[[Any], Any] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of the module named `own`, which looks into the modules or objects `paths`, in that order.

    `dress` makes of what was found what is handed out.
    """

    def get(name: str) -> Any:
        if not name.startswith("__") or name == "__version__":
            if name in vars(sys.modules[own]):  # found before: a copy of the module asks, as twins have (reads/)
                return vars(sys.modules[own])[name]
            if hasattr(sys.modules[own], "__path__") and importlib.util.find_spec(f"{own}.{name}"):
                return importlib.import_module(f"{own}.{name}")  # which sets the attribute
            for path in paths:
                target = _found(path)
                if hasattr(target, name):
                    value = getattr(target, name)
                    value = dress(value) if dress else value
                    setattr(sys.modules[own], name, value)  # found once: loops ask for np.tanh at every step
                    return value
        raise AttributeError(f"module {own!r} has no attribute {name!r} (looked for in {' and '.join(paths)})")

    def names() -> list[str]:
        module = sys.modules[own]
        found = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == own}
        found.update(getattr(module, "__all__", ()))
        for path in paths:
            found.update(_shown(_found(path)))
        return sorted([name for name in found if not name.startswith("_")])

    return get, names


def _shown(target: Any) -> list[str]:
    """What `dir` tells of a module that a mirror looks into, without the files that it consists of."""
    if "__dir__" in getattr(target, "__dict__", ()):  # it says itself what it shows
        return dir(target)
    files = {file.name for file in pkgutil.iter_modules(getattr(target, "__path__", ()))}
    return [name for name in getattr(target, "__all__", dir(target)) if name not in files]


def _as_module(path: str) -> ModuleType | None:
    """What has that dotted name, if anything; an object that another library keeps as a module (`scipy.stats.norm`) as one."""
    value = _found(path)
    if value is None or isinstance(value, ModuleType):
        return value
    module = ModuleType(path)
    vars(module)["__getattr__"] = functools.partial(getattr, value)
    return module


class _Alias:
    """Finds and loads `library...` as `package...`, and what that has not as `fallback...`."""

    def __init__(self, library: str, packages: tuple[str, ...]):
        self.library, self.packages = library, packages

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != self.library:
            return None
        for package in self.packages:
            module = _as_module(package + name.removeprefix(self.library))
            if module is not None:
                return ModuleSpec(name, self, origin=getattr(module, "__file__", None), loader_state=module)
        raise ModuleNotFoundError(  # a finder further down would find the library itself
            f"{name} is not among the modules of {self.packages[0]}, which stands for {self.library}", name=name
        )

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module: ModuleType = spec.loader_state
        if not hasattr(module, "__path__"):
            module.__path__ = []  # `import jax.numpy.linalg` asks whether jax.numpy is a package
        spec.loader_state = module.__spec__  # the import machinery is about to overwrite it
        return module

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def alias(library: str, *packages: str) -> None:
    """Let `import library`, and the import of its submodules, find the first of these packages that has them, from now on."""
    if any([type(finder) is _Alias and finder.library == library for finder in sys.meta_path]):
        return
    if library in sys.modules:
        raise RuntimeError(
            f"{packages[0]}.install(): {library} has been imported already, from {sys.modules[library].__file__}, and what "
            f"was taken from it stays its own.\nRemedy: call install() first, before any module that imports {library}."
        )
    sys.meta_path.insert(0, _Alias(library, packages))  # type: ignore[arg-type]
