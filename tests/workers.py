"""Which tests run where and when: groups of them on the workers of pytest-xdist, in their order or in a random one.

A plain `python -m pytest` uses the cores if pytest-xdist is there, and so does a run of many files; a run of a few files starts
no workers, and `-n 0` keeps any run in one process. Files that are marked `group("alone")` measure time, memory or counts of
what the process does, or change what belongs to all of it, so they are one group: one worker runs them one after another. The
others go in blocks of their file. Of the cases of a function that is marked `share(n)` one of n is in the default run; the
others are slow. `FUNCAD_SLOW_SHARD=3/20`: of the slow tests the third of twenty shares. `FUNCAD_TEST_ORDER=7`, any number, or
`random`: files, and the tests of each, in that order; the last lines say the seed. The scheduler is our own, since those of
pytest-xdist that know groups take time quadratic in the number of tests, and ask for parts of pytest that are not public.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import re
import stat
import sys
import tempfile
import zlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

__all__ = [
    "ORDER",
    "InGroups",
    "cores",
    "counts",
    "group_of",
    "import_a_share",
    "left_out",
    "name_of",
    "own_folder",
    "seed",
    "settle_environment",
    "shuffled",
    "uses_the_cores",
]

ORDER = "FUNCAD_TEST_ORDER"
SHARD = "FUNCAD_SLOW_SHARD"
OWN_SHARES = (  # these take their share themselves
    "::test_many_programs",
    "::test_programs_under_all_short_chains",
    "test_control_fuzz.py::test_random_programs",
)
COUNTING = frozenset(["counters", "cache_info", "explain_cache_misses", "caches", "Noted", "is_short", "_target_machine"])
ROOT = Path(__file__).resolve().parent.parent
BLOCK = 40  # tests of a file that go to a worker together
MANY = 20  # files, from which on workers are repaid
MOST = 16  # workers: each imports and collects everything


def cores() -> int:
    """Those that this process may use, hyper-threads among them."""
    return min(MOST, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def uses_the_cores(config: Any) -> bool:
    """Is this a run of the whole suite, or of many files, about which nothing else was said?"""
    option = config.option
    if getattr(option, "numprocesses", 0) is not None or option.dist != "no" or cores() < 2:  # 0: no pytest-xdist
        return False
    if option.collectonly or option.usepdb or option.keyword or getattr(option, "lf", False) or hasattr(config, "workerinput"):
        return False
    if option.markexpr not in ("not slow", "slow"):  # a GPU, MPI and the like are there once
        return False
    named = [Path(a.partition("::")[0]) for a in config.args]
    return sum([len(list(path.rglob("test_*.py"))) if path.is_dir() else 1 for path in named]) >= MANY


def settle_environment() -> None:
    """What workers and the processes of tests inherit: a thread of BLAS, since each has one core, and where byte code is kept.

    Where Python may not write byte code beside the files, each worker would compile all tests anew, and each process funcad: it
    goes into a folder of this user's for temporary files.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    folder = own_folder()
    if sys.dont_write_bytecode and sys.pycache_prefix is None and folder is not None:
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def own_folder() -> Path | None:
    """What one run of the tests keeps for the next: a folder of this user's, where nobody else may write."""
    if not hasattr(os, "getuid"):
        return None
    folder = Path(tempfile.gettempdir()) / f"funcad-tests-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError:  # nowhere to write
        return None
    return folder if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077 else None


def import_a_share(config: Any) -> None:
    """A worker imports its share of the test files before it collects them all.

    Asserts are rewritten, and the code kept, by the worker that imports a file first. Since all workers collect the files in
    one order, each would rewrite every one of them at the same time.
    """
    given = getattr(config, "workerinput", None)
    if given is None:
        return
    files = [path for a in config.args for path in sorted(Path(a.partition("::")[0]).resolve().rglob("test_*.py"))]
    for path in files[int(given["workerid"].removeprefix("gw")) :: given["workercount"]]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # when it collects the file, it says so
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


def seed() -> int | None:
    """Of the random order that was asked for, if one was. One that is drawn is left where the workers find it."""
    asked = os.environ.get(ORDER, "")
    if asked == "random":
        asked = os.environ[ORDER] = str(random.SystemRandom().randrange(1_000_000))
    return int(asked) if asked else None


def left_out(items: Sequence[Any], slow: Any) -> list[Any]:
    """The slow tests that belong to other shards.

    Of the cases of a function that is marked `share(n)`, one of n stays in the default run, and the first: the others are slow.
    """
    seen = set()
    found = []
    shard, shards = map(int, os.environ.get(SHARD, "1/1").split("/"))
    for item in items:
        mark, number = item.get_closest_marker("share"), zlib.crc32(item.nodeid.encode())
        function = item.nodeid.partition("[")[0]
        if mark is not None:
            if function in seen and number % mark.args[0]:
                item.add_marker(slow)
            seen.add(function)
        own = function.endswith(OWN_SHARES) or hasattr(getattr(item, "module", None), "shard")  # a list was cut already
        if item.get_closest_marker("slow") and not own and number // 60 % shards != shard - 1:  # 60: whatever n is
            found.append(item)
    return found


def counts(function: Any) -> bool:
    """Does a test, or a function of a test file that it calls, count what was traced, compiled or found again?

    Under the audit everything is made again, so there is more of it.
    """
    todo, seen = [function], set()
    while todo:
        f = todo.pop()
        code = getattr(f, "__code__", None)
        if code is None or code in seen:
            continue
        seen.add(code)
        codes = [code]
        for c in codes:  # and the functions in it
            codes += [k for k in c.co_consts if type(k) is type(code)]
            if not COUNTING.isdisjoint(c.co_names):
                return True
        reached = [f.__globals__.get(name) for c in codes for name in c.co_names]
        todo += [g for g in reached if str(getattr(g, "__module__", "")).startswith("tests.")]
    return False


def shuffled(items: Sequence[Any], number: int) -> list[Any]:
    """Files in a random order, and so the tests of each: its fixtures are made once."""
    files: dict[str, list[Any]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    draw = random.Random(number)
    found = list(files.values())
    draw.shuffle(found)
    for tests in found:
        draw.shuffle(tests)
    return [item for tests in found for item in tests]


def groups_of(names: Sequence[str]) -> list[list[int]]:
    """The numbers of the tests in each group: a file's blocks, or the files that say the same group."""
    found: dict[tuple[str, int], list[int]] = {}
    many: dict[str, int] = {}
    said: dict[str, str | None] = {}
    for number, name in enumerate(names):
        file = name.partition("::")[0]
        if file not in said:
            said[file] = group_of(ROOT / file)
        many[file] = many.get(file, 0) + 1
        group = said[file]
        found.setdefault((file, many[file] // BLOCK) if group is None else (group, -1), []).append(number)
    return [found[key] for key in sorted(found, key=lambda key: key[1] >= 0)]  # the long ones first, the rest in its order


def group_of(path: Path) -> str | None:
    """The group that a file says it is of: the process that shares the tests out has not imported it."""
    said = re.search(r'\bmark\.group\("(\w+)"\)', path.read_text(encoding="utf8")) if path.exists() else None
    return None if said is None else said[1]


class InGroups:
    """A scheduler of pytest-xdist: a worker that has almost nothing left gets the next group."""

    def __init__(self, workers: int):
        self.workers = workers
        self.left: dict[Any, dict[int, None]] = {}  # of each worker, the tests that it was given and has not run
        self.collected: dict[Any, list[str]] = {}
        self.names: list[str] | None = None
        self.waiting: deque[list[int]] = deque()

    @property
    def nodes(self) -> list[Any]:
        return list(self.left)

    @property
    def collection_is_completed(self) -> bool:
        return len(self.collected) >= self.workers

    @property
    def tests_finished(self) -> bool:
        """Has each worker at most the one test left that it begins when it hears that no other comes?"""
        return self.names is not None and not self.waiting and all([len(left) < 2 for left in self.left.values()])

    @property
    def has_pending(self) -> bool:
        return bool(self.waiting) or any(self.left.values())

    def add_node(self, node: Any) -> None:
        self.left[node] = {}

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self.collected[node] = list(collection)
        first = self.names or next(iter(self.collected.values()))
        for a, b in zip(first, collection):
            if a != b:
                raise RuntimeError(f"two workers collected other tests: {a} and {b}")
        if len(first) != len(collection):
            raise RuntimeError(f"two workers collected other tests: {len(first)} and {len(collection)}")

    def schedule(self) -> None:
        if self.names is None:
            self.names = next(iter(self.collected.values()))
            self.waiting.extend(groups_of(self.names))
        for node in self.nodes:
            self._give(node)

    def _give(self, node: Any) -> None:
        if node.shutting_down:
            return
        left = self.left[node]
        while self.waiting and len(left) < 3:  # it begins a test when it knows the next one
            group = self.waiting.popleft()
            left.update(dict.fromkeys(group))
            node.send_runtest_some(group)
        if not self.waiting:
            node.shutdown()  # when it has run what it has

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        del self.left[node][item_index]
        self._give(node)

    def remove_node(self, node: Any) -> str | None:
        """The test that a worker died of, if it did; the others of its tests wait for the next worker."""
        left = list(self.left.pop(node))
        self.collected.pop(node, None)
        if not left or self.names is None:
            return None
        self.waiting.appendleft(left[1:])
        return self.names[left[0]]

    def mark_test_pending(self, item: str) -> None:
        raise NotImplementedError

    def remove_pending_tests_from_node(self, node: Any, indices: Sequence[int]) -> None:
        raise NotImplementedError


def name_of(x: object) -> str:
    """What a case is called after, in every process: its repr without addresses; sets are sorted."""
    if isinstance(x, (set, frozenset)):
        return repr(sorted(x, key=repr))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(x))
