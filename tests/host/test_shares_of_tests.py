"""How tests are shared out (tests/workers.py): each runs once, groups stay together, and an order has a number."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import workers

ALONE = ["tests/host/test_interrupts.py::test_time", "tests/ir/test_linear_cost.py::test_threads[x@y]"]
NAMES = [*[f"a.py::test[{i}]" for i in range(100)], ALONE[0], "b.py::test_it", ALONE[1]]


class Node:
    def __init__(self) -> None:
        self.given: list[int] = []
        self.shutting_down = False

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_groups_stay_together_and_the_long_one_is_first() -> None:
    groups = workers.groups_of(NAMES)
    assert groups[0] == [100, 102] and sorted(sum(groups, [])) == list(range(103))
    assert all([len(group) <= workers.BLOCK for group in groups])


def test_the_marks_of_files_are_read() -> None:
    found = {name: workers.group_of(workers.ROOT / "tests" / name) for name in GROUPS}
    assert found == GROUPS and workers.group_of(Path("nowhere.py")) is None


GROUPS = {"test_architecture.py": "house", "typing/test_checked_programs.py": "checkers", "test_smoke.py": None}


@pytest.mark.parametrize("dies", [False, True])
def test_each_test_runs_once(dies: bool) -> None:
    scheduler, nodes = workers.InGroups(2), [Node(), Node()]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, NAMES)
    scheduler.schedule()
    ran = []
    if dies:
        first = nodes.pop(0)
        lost = scheduler.remove_node(first)
        assert lost == NAMES[first.given[0]]
        ran.append(first.given[0])
    done = {id(node): 0 for node in nodes}
    while any([done[id(node)] < len(node.given) for node in nodes]):
        for node in nodes:
            if done[id(node)] < len(node.given):
                index = node.given[done[id(node)]]
                done[id(node)] += 1
                ran.append(index)
                scheduler.mark_test_complete(node, index)
    assert sorted(ran) == list(range(103)) and scheduler.tests_finished and not scheduler.has_pending


def test_workers_that_collect_other_tests_are_an_error() -> None:
    scheduler = workers.InGroups(2)
    scheduler.add_node_collection(Node(), NAMES)
    with pytest.raises(RuntimeError, match="collected other tests"):
        scheduler.add_node_collection(Node(), NAMES[1:])


def test_an_order_has_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    items: list[Any] = [SimpleNamespace(nodeid=name) for name in NAMES]
    orders = [[x.nodeid for x in workers.shuffled(items, number)] for number in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == sorted(NAMES)
    monkeypatch.setenv(workers.ORDER, "random")
    assert workers.seed() == workers.seed() is not None
    monkeypatch.setenv(workers.ORDER, "")
    assert workers.seed() is None


def test_the_shards_share_the_slow_tests_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Item:
        def __init__(self, number: int, marks: dict[str, Any]) -> None:
            self.nodeid, self.marks = f"a.py::test[{number}]", dict(marks)

        def get_closest_marker(self, name: str) -> Any:
            return self.marks.get(name)

        def add_marker(self, mark: Any) -> None:
            self.marks["slow"] = mark

    kept: list[str] = []
    share = SimpleNamespace(args=(3,))
    for shard in range(1, 6):
        monkeypatch.setenv(workers.SHARD, f"{shard}/5")
        items = [Item(i, {"share": share}) for i in range(200)]
        others = workers.left_out(items, True)
        slow = [item for item in items if "slow" in item.marks]
        assert "slow" not in items[0].marks and 100 < len(slow) < 160
        kept += [item.nodeid for item in slow if item not in others]
    assert sorted(kept) == sorted([item.nodeid for item in slow])


def test_what_is_kept_between_runs_is_where_nobody_else_writes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = workers.own_folder()
    if folder is None:  # a system without users' numbers
        return
    assert folder.parent == tmp_path and not folder.stat().st_mode & 0o077
    monkeypatch.setattr(sys, "pycache_prefix", None)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    workers.settle_environment()
    assert "PYTHONPYCACHEPREFIX" not in os.environ
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    workers.settle_environment()
    assert os.environ["PYTHONPYCACHEPREFIX"].startswith(str(folder)) and "PYTHONDONTWRITEBYTECODE" not in os.environ
    folder.chmod(0o777)
    assert workers.own_folder() is None
