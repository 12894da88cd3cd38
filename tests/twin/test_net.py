"""The net sees what runs un-twinned in its thread, and disturbs no other tool."""

from __future__ import annotations

import cProfile
import dis
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from types import CodeType
from typing import Any

import pytest

from funcad.host.where import after_interrupts, state, unseen
from funcad.twin import net as net_module
from funcad.twin.net import Net
from funcad.twin.twins import Twins

MONITORED = sys.version_info >= (3, 12)


def is_here(code: CodeType, globals_: dict[str, Any]) -> bool:
    return code.co_filename == __file__ and code.co_name != "others"


def names(net: Net) -> list[str]:
    return [code.co_name for code in net.seen]


def helper(x: Any) -> Any:
    return x + 1


def calls(x: Any) -> Any:
    return helper(x)


def by_a_library(x: Any) -> Any:
    return sorted([x, 1], key=helper)


def numbers() -> Iterator[int]:
    yield 1
    yield 2


def others() -> list[Any]:
    """Who is a tool now."""
    return [sys.monitoring.get_tool(i) for i in range(6)] if MONITORED else [sys.getprofile()]  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def undisturbed() -> Iterator[None]:
    before = others()
    yield
    assert others() == before


def test_what_runs_as_it_is_is_seen() -> None:
    t = Twins().of(by_a_library)
    with Net(is_here) as net:
        t(1)
        assert others() != [None] * len(others())
    assert net.why is None and names(net) == ["helper"] and net.seen == [helper.__code__]
    with Net(is_here) as net:
        calls(1)
        calls(2)
    assert names(net) == ["calls", "helper"]


def test_twins_are_not_seen() -> None:
    def f() -> Any:
        k = 3
        return [g() for g in [lambda: k for _ in range(2)]], max([1, 2], key=lambda v: -v)

    t = Twins().of(f)
    with Net(is_here) as net:
        t()
    assert names(net) == []


def test_each_code_is_asked_about_once() -> None:
    asked = []

    def is_users(code: CodeType, globals_: dict[str, Any]) -> bool:
        if code.co_filename == __file__:
            asked.append((code.co_name, globals_ is globals()))
        return False

    with Net(is_users) as net:
        for _ in range(3):
            calls(1)
    assert ("calls", True) in asked and len(asked) == len(set(asked)) and net.seen == []


def test_a_generator_that_goes_on_is_seen() -> None:
    running = numbers()
    next(running)
    with Net(is_here) as net:
        next(running)
    assert names(net) == ["numbers"]


@pytest.mark.skipif(MONITORED, reason="a net costs next to nothing there, and is not lifted")
def test_where_it_is_lifted_nothing_is_seen_and_then_it_is_there_again() -> None:
    with Net(is_here) as net:
        with pytest.raises(ZeroDivisionError), unseen():
            assert sys.getprofile() is None
            with unseen():
                calls(1)
            raise ZeroDivisionError
        assert net.seen == []
        helper(1)
    assert names(net) == ["helper"] and state.told is None
    with unseen():
        assert sys.getprofile() is None


def test_other_threads_are_not_seen() -> None:
    begun, inside = threading.Event(), threading.Event()

    def other() -> None:
        begun.set()
        inside.wait(10)
        by_a_library(1)

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait(10)
    with Net(is_here) as net:
        inside.set()
        thread.join()
        calls(1)
    assert names(net) == ["calls", "helper"]


def test_two_threads_have_nets_at_once() -> None:
    barrier = threading.Barrier(2)
    found: dict[Any, list[list[str]]] = {}

    def work(f: Any) -> None:
        for _ in range(20):
            with Net(is_here) as net:
                barrier.wait(10)
                f(1)
                barrier.wait(10)
            found.setdefault(f, []).append(names(net))

    threads = [threading.Thread(target=work, args=[f]) for f in (calls, by_a_library)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {calls: [["calls", "helper"]] * 20, by_a_library: [["by_a_library", "helper"]] * 20}


def test_a_net_in_a_net() -> None:
    with Net(is_here) as outer:
        with Net(is_here) as inner:
            helper(1)
        calls(1)
    assert names(inner) == ["helper"] and names(outer) == ["helper", "calls"]


def test_what_comes_at_any_time_is_not_what_the_function_does() -> None:
    came = []

    def at_a_collection(phase: str, info: dict[str, Any]) -> None:
        came.append(phase)

    def at_a_signal(number: int, frame: Any) -> None:
        came.append("signal")

    before = signal.signal(signal.SIGUSR1, at_a_signal)
    gc.callbacks.append(at_a_collection)
    try:
        with Net(is_here) as net:
            gc.collect()
            signal.raise_signal(signal.SIGUSR1)
            calls(1)
    finally:
        gc.callbacks.remove(at_a_collection)
        signal.signal(signal.SIGUSR1, before)
    assert sorted(set(came)) == ["signal", "start", "stop"] and names(net) == ["calls", "helper"]
    with Net(is_here) as net:
        at_a_collection("start", {})
    assert names(net) == ["at_a_collection"]


def test_an_error_takes_the_net_away() -> None:
    with pytest.raises(ZeroDivisionError), Net(is_here):
        1 / 0  # noqa: B018


@pytest.mark.skipif(MONITORED, reason="profile functions matter to Python 3.11 alone")
def test_a_profiler_is_left_alone() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        set_before = sys.getprofile()
        with Net(is_here) as net:
            calls(1)
            assert sys.getprofile() is set_before
    finally:
        profiler.disable()
    assert net.why == "another profile function is set" and net.seen == []
    assert any("calls" in str(entry.code) for entry in profiler.getstats())


@pytest.mark.skipif(MONITORED, reason="profile functions matter to Python 3.11 alone")
def test_a_profiler_that_the_user_sets_inside_stays() -> None:
    def own(*args: object) -> None: ...

    with Net(is_here) as net:
        sys.setprofile(own)
        calls(1)
    assert net.seen == [] and sys.getprofile() is own
    sys.setprofile(None)


@pytest.mark.skipif(not MONITORED, reason="sys.monitoring is there from Python 3.12 on")
def test_a_profiler_and_a_net_together() -> None:
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        with Net(is_here) as net:
            calls(1)
    finally:
        profiler.disable()
    assert net.why is None and names(net) == ["calls", "helper"]
    assert any("calls" in str(entry.code) for entry in profiler.getstats())


@pytest.mark.skipif(not MONITORED, reason="sys.monitoring is there from Python 3.12 on")
def test_tools_that_are_there_are_left_alone() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    taken = [i for i in range(6) if monitoring.get_tool(i) is None]
    for number in taken:
        monitoring.use_tool_id(number, f"other {number}")
    try:
        with Net(is_here) as net:
            calls(1)
        assert net.why == "no number of a tool is free in sys.monitoring" and net.seen == []
        monitoring.free_tool_id(3)
        with Net(is_here) as net:
            calls(1)
        assert names(net) == ["calls", "helper"] and monitoring.get_tool(3) is None
    finally:
        for number in set(taken) - {3}:
            monitoring.free_tool_id(number)


@pytest.mark.skipif(not MONITORED, reason="sys.monitoring is there from Python 3.12 on")
def test_the_next_tool_of_the_number_is_told_of_everything() -> None:
    monitoring = sys.monitoring  # type: ignore[attr-defined]
    t = Twins().of(calls)
    with Net(is_here):
        t(1)
    told = []
    monitoring.use_tool_id(4, "next")
    monitoring.register_callback(4, monitoring.events.PY_START, lambda code, offset: told.append(code.co_name))
    monitoring.set_events(4, monitoring.events.PY_START)
    t(1)
    monitoring.set_events(4, 0)
    monitoring.free_tool_id(4)
    assert "calls" in told


def is_interrupted(before: int) -> bool:
    """Does Ctrl-C come while a net is opened, told or closed, if it comes where so many others could have come before?

    Python looks whether there is a signal where a function begins, where a call is over and where a loop turns.
    """
    left, looks = before, {}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != net_module.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= looks.get(frame, True)
            looks[frame] = dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith(("CALL", "RESUME", "JUMP_BACKWARD"))
        if left < 0:
            raise KeyboardInterrupt
        return trace

    set_before = sys.gettrace()
    sys.settrace(trace)
    try:
        with Net(is_here):
            calls(1)
        return False
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(set_before)
        looks.clear()


@pytest.mark.parametrize("recovers", [True, False])
def test_an_interrupt_anywhere_leaves_no_tool_and_no_blind_net(recovers: bool) -> None:
    free, came = others(), 0
    assert not is_interrupted(10**9)  # Python 3.12 tells of the first frames' lines alone
    while is_interrupted(came):
        came += 1
        if recovers:  # as where an interrupt leaves funcad
            for recover in after_interrupts:
                recover()
            assert others() == free
        with Net(is_here) as net:
            calls(1)
        assert net.why is None and names(net) == ["calls", "helper"] and others() == free
    assert came > 10
    found = []

    def in_another_thread() -> None:
        with Net(is_here) as net:
            calls(1)
        found.append(names(net))

    thread = threading.Thread(target=in_another_thread, daemon=True)
    thread.start()
    thread.join(30)
    assert found == [["calls", "helper"]]  # no lock is held either


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="a profile function is what Python 3.11 needs")
def test_nets_that_an_interrupt_left_open_blind_nobody() -> None:
    def users() -> None:
        pass

    left = Net()
    left.__enter__()
    del left
    users()
    sys.setprofile(None)  # as others do
    other = Net()
    other.__enter__()
    sys.setprofile(None)
    with Net() as net:
        users()
    assert users.__code__ in net.seen
    del other
    gc.collect()
    with Net() as net:
        users()
    assert users.__code__ in net.seen and sys.getprofile() is None
