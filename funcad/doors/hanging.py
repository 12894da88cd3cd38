"""When doors are hung: when a module of the table has been imported; with funcad, if it was there before.

Those of names in modules wait for the first trace, but are made here, too, as every first gradient needs NumPy's. A finder
before all others sees which modules are about to be imported, also inside a traced function, and has their doors hung as soon
as they are complete: a module's functions are at hand then, and the first gradient need not go through all of SciPy. What
answers for most of these functions is loaded then, too.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from funcad.configuration import config
from funcad.doors.answers import Maker, of_lists, own_code, own_method
from funcad.doors.codes import hang_code, hang_method, is_door, methods_of, public_functions, python_function, restore_codes
from funcad.doors.door_table import BY_OWN_CODE, CLASSES_BY_OWN_CODE, IN_CODE, IN_MODULES, LEARNED
from funcad.doors.modules import hang_modules, hang_more, lock, make_entrances, take_down
from funcad.host.progress import collector
from funcad.host.where import after_interrupts, state, tracing
from funcad.numpy.dispatch import find, implementation_of, whole_table


def _recover() -> None:
    """Ctrl-C may come between a trace's last lines."""
    state.running = state.began = state.abstract = state.staging = state.observer = None
    tracing.threads.pop(get_ident(), None)
    collector.ends(get_ident(), 0)


after_interrupts.append(_recover)
_CODE = (*IN_CODE, *[name for name in BY_OWN_CODE if name not in IN_CODE])  # modules whose functions in Python have doors
_IMMUTABLE = 1 << 8  # a type's flag: its names cannot be set
_done: set[str] = set()  # modules whose functions have their doors
_waiting: set[str] = set()  # modules that were being imported when funcad was


def _hang_codes(name: str, module: ModuleType) -> None:
    named: dict[str, Maker] = IN_CODE.get(name, {})
    if name in BY_OWN_CODE:
        package = name.rpartition(".")[0]  # which gives a function its name, where both have it (scipy.stats.mstats.gmean)
        above = sys.modules.get(package) if package in BY_OWN_CODE else None
        for path, f in public_functions(module).items():
            if path not in named and python_function(getattr(above, path, None)) is not f:
                hang_code(f, own_code, name, path)
    for path, answer in named.items():
        found = find(module, path.split("."))
        f = python_function(found)
        if f is not None:  # this version of the library may not have it
            hang_code(f, answer, name, path)
        elif found is not None and not isinstance(found, ModuleType):
            owner = find(module, path.split(".")[:-1])
            if isinstance(owner, type) and not owner.__flags__ & _IMMUTABLE:
                hang_method(owner, path.rpartition(".")[2], answer, f"{name}.{path}")
    for part in CLASSES_BY_OWN_CODE.get(name, "").split():
        for path, f in methods_of(f"{name}.{part}"):
            hang_code(f, own_method, name, path)
    _done.add(name)


def _load_answering(name: str) -> None:
    """What most gradients through this module of SciPy's need of funcad is loaded with it, not by the first of them."""
    if name == "scipy.special":  # what likelihoods are made of
        import_module("funcad.scipy.special.special_ufuncs")
        import_module("funcad.scipy.special.softmaxes")
        import_module("funcad.primitives.pulls_activation")
        import_module("funcad.primitives.pulls_special_errors")
        import_module("funcad.primitives.pulls_special_gamma")
    elif name == "scipy.linalg":
        import_module("funcad.scipy.linalg.solving")
        import_module("funcad.primitives.pulls_linear_systems")
    elif name == "scipy.stats":
        import_module("funcad.doors.distribution_answers")
        import_module("funcad.scipy.stats.one_dimensional")


class _Arrivals:
    """Sees modules of the table being imported."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in _CODE and name not in IN_MODULES or name in _done or not config.doors:
            return None
        specs = (f.find_spec(name, path, target) for f in sys.meta_path if f is not self and hasattr(f, "find_spec"))
        spec = next((s for s in specs if s is not None), None)
        loader: Any = getattr(spec, "loader", None)
        if hasattr(loader, "exec_module") and hasattr(loader, "__dict__"):
            execute = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                execute(module)
                with lock:
                    if name in _CODE:
                        _hang_codes(name, module)
                    tracing.ready = False
                    if name in IN_MODULES and tracing.threads:
                        hang_modules({name: IN_MODULES[name]}, True)
                _load_answering(name)

            loader.exec_module = exec_module
        return spec


_arrivals = _Arrivals()


def _hang_first() -> None:
    """With funcad, or the first time since the setting was changed: what has been imported gets its doors, the rest will."""
    if _arrivals not in sys.meta_path:
        sys.meta_path.insert(0, _arrivals)
    _waiting.clear()
    for name in _CODE:
        module = sys.modules.get(name)
        if name in _done or module is None:
            continue
        if getattr(module.__spec__, "_initializing", False):
            _waiting.add(name)
        else:
            _hang_codes(name, module)


def hang_learned(found: Any) -> bool:
    """A function of the user's was found to need a door: of np.ndarray, or of this function of NumPy's, or its code.

    Was it not there yet? Then it helps to start again.
    """
    with lock:
        if not config.doors:
            return False
        if found is np.ndarray:
            return hang_more(LEARNED)
        if type(found) is CodeType:
            found = next((f for f in whole_table() if getattr(python_function(f), "__code__", None) is found), None)
        name = f"{getattr(found, '__module__', None) or 'numpy'}.{getattr(found, '__name__', '')}"
        if found is None or find(np, name.split(".")[1:]) is not found or is_door(found) or implementation_of(found) is None:
            return False
        code = python_function(found)
        if code is None:
            names = [n for n, x in vars(np).items() if x is found] or [name.removeprefix("numpy.")]
            return hang_more({"numpy": dict.fromkeys(names, of_lists)})  # by each name that it has there
        hang_code(code, of_lists, *name.rsplit(".", 1))
        return True


def hang() -> None:
    """Hang what is missing. Where doors are switched off, everything is as it was."""
    with lock:
        if config.doors:
            if _waiting or "numpy" not in _done:
                _hang_first()
            hang_modules(IN_MODULES)
            tracing.ready = True
        elif _arrivals in sys.meta_path:
            restore_codes()
            _done.clear()
            sys.meta_path.remove(_arrivals)
            take_down()


def switched() -> None:
    """The setting was changed: at once for threads that trace, else when a trace is opened."""
    with lock:
        tracing.ready = False
        if tracing.threads or not config.doors:
            hang()


with lock:
    if config.doors:
        _hang_first()
        make_entrances(IN_MODULES)
    else:
        sys.meta_path.insert(0, _arrivals)
