"""What a test file leaves behind (programs, compiled code, tables) is not searched for garbage again during the later ones.

How tests are shared out among workers and ordered is in tests/workers.py.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from funcad import config as funcad_config
from funcad.doors import modules
from funcad.doors.door_table import IN_MODULES
from funcad.host import where
from funcad.jitted import first_calls
from funcad.jitted.account import COSTS
from funcad.reads import code_reads
from funcad.reads.refusals import given_reasons
from tests import workers

code_reads.LIBRARIES.add("tests.standin")  # it stands for CuPy

settings.register_profile("shared", deadline=None, suppress_health_check=[HealthCheck.too_slow])  # by how busy the machine is
settings.load_profile("shared")

DEFAULTS = type(where.state)
ACCOUNT = {name: COSTS[name] for name in ("free", "first look")}


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads them
def pytest_cmdline_main(config: Any) -> None:
    workers.seed()
    if workers.uses_the_cores(config):
        config.option.numprocesses = workers.cores()
        config.option.dist = "load"
        workers.settle_environment()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any) -> Any:
    return workers.InGroups(len(config.option.tx)) if config.option.dist == "load" else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: Any) -> None:
    workers.import_a_share(session.config)


def pytest_collection_finish() -> None:
    gc.freeze()  # a collection would look at each of the tests again
    gc.set_threshold(5000, 20, 20)  # programs are many small objects, and it took a tenth of the run


def pytest_terminal_summary(terminalreporter: Any) -> None:
    number = workers.seed()
    if number is not None:
        terminalreporter.write_line(f"tests in a random order: {workers.ORDER}={number}")


@pytest.hookimpl(tryfirst=True)  # before pytest looks at `slow`
def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    others = workers.left_out(items, pytest.mark.slow)
    if funcad_config.audit:
        others += [item for item in items if workers.counts(getattr(item, "function", None))]
    if others:
        config.hook.pytest_deselected(items=others)
        gone = set(map(id, others))
        items[:] = [item for item in items if id(item) not in gone]
    number = workers.seed()
    if number is not None:
        items[:] = workers.shuffled(items, number)


@pytest.fixture(scope="session", autouse=True)
def learning_fast() -> Iterator[None]:
    """Jitted functions are traced at their first call, which a test may be about; see tests/jitted/test_first_calls.py.

    However long they are, what is spent on their programs is not to be repaid first: a test of jit is one of programs.
    """
    with pytest.MonkeyPatch.context() as m:
        for free in ACCOUNT:
            m.setitem(COSTS, free, float("inf"))
        m.setattr(first_calls, "OBSERVES", False)
        for call in ("call", "stored"):
            m.setitem(COSTS, call, 0.0)
        yield


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What jit spends is repaid first, as outside of the tests."""
    for name, number in ACCOUNT.items():
        monkeypatch.setitem(COSTS, name, number)


@pytest.fixture(scope="module", autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """A test file leaves the state of tracing as it found it: no open trace, axis, or engine of its own; no count of memory."""
    before = dict(vars(where.state))
    engine = funcad_config.engine
    yield
    left = {name: value for name, value in vars(where.state).items() if value is not before.get(name, getattr(DEFAULTS, name))}
    assert not left and funcad_config.engine == engine, f"left open: {left}, engine {funcad_config.engine}"
    assert not where.open_traces, f"left open: {where.open_traces}"
    assert not tracemalloc.is_tracing(), "left on: the peaks of later tests would be those of all since then"


@pytest.fixture(scope="module", autouse=True)
def settled_heap() -> Iterator[None]:
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _says_again() -> None:
    """What one test was warned of is said to the next one as well."""
    given_reasons.clear()


@pytest.fixture
def no_doors(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests traced may have left doors in NumPy's modules, and learned more: each access through one is a call."""
    modules.take_down()
    for module, with_doors, _ in modules._hung:
        for name, entrance in [*vars(with_doors).items()]:
            if type(entrance) is modules.Entrance and name not in IN_MODULES[module.__name__]:
                monkeypatch.delattr(with_doors, name)


@pytest.fixture(scope="module")
def jax() -> Any:
    """JAX itself, with 64 bits, on the processor."""
    found = pytest.importorskip("jax")
    if "funcad" in found.__name__:
        pytest.skip("funcad stands for JAX in this process")
    found.config.update("jax_enable_x64", True)
    found.config.update("jax_platforms", "cpu")
    return found
