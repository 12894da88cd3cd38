"""`config.audit`: what a memo table holds is computed again at each hit, and the two are compared (funcad/memo.py)."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import memo
from funcad.backends.interpreter import counters
from funcad.errors import CacheAuditError
from funcad.host.where import internal
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.jitted import first_calls
from funcad.memo import Table, WeakTable, alike, remembers
from funcad.passes import lower
from tests import test_readme, workers


@pytest.fixture
def audit() -> Iterator[None]:
    with funcad.config.set(audit=True):
        yield


def squared(x: Any) -> Any:
    return np.sum(x**2)


# -- tables


def asked(table: Any, key: Any, value: Any) -> Any:
    """As all code asks a table."""
    found = table.get(key)
    return table.setdefault(key, value) if found is None else found


def test_a_table_is_a_dict() -> None:
    table = Table("a table", "key: value", 2)
    assert asked(table, 1, "one") == "one" == asked(table, 1, "another")
    assert Table.get is dict.get and Table.setdefault is dict.setdefault
    assert (table.put(2, "two"), table.put(1, "another"), table) == ("two", "one", {1: "one", 2: "two"})
    assert (table.put(3, "three"), table) == ("three", {3: "three"})  # beyond its bound it begins anew


def test_a_key_that_forgets_is_found(audit: None) -> None:
    table = Table("a table", "number: its double")
    assert [asked(table, 1, np.array([2.0])) for _ in range(3)] == [np.array([2.0])] * 3
    assert (table.hits, table.misses) == (2, 1)
    with pytest.raises(CacheAuditError, match=r"(?s)the table 'a table' does not hold.*key\n1\n.*\[2\.\].*\[2\.5\]"):
        asked(table, 1, np.array([2.5]))
    found = [line for line in funcad.debug.caches() if line.name == "a table"]
    assert [(line.size, line.hits, line.differences) for line in found] == [(1, 3, 1)]
    del memo._differences["a table"]


def test_a_hit_gives_what_was_kept_first(audit: None) -> None:
    table = Table("a table", "key: value")
    first, second = [1.0], [1.0]
    assert asked(table, "a", first) is first is asked(table, "a", second) and table["a"] is first


def test_what_there_is_once_is_not_compared(audit: None) -> None:
    table = Table("a table", "key: value", same=None)
    assert asked(table, "a", "first") == "first" == asked(table, "a", "second")


def test_a_table_that_is_weak(audit: None) -> None:
    class Key:
        pass

    key, table = Key(), WeakTable("a weak table", "key: value")
    assert asked(table, key, 1.0) == asked(table, key, 1.0) == 1.0
    with pytest.raises(CacheAuditError, match="a weak table"):
        asked(table, key, -1.0)
    del key, memo._differences["a weak table"]
    gc.collect()
    assert not list(table)


def test_switching_leaves_no_trace() -> None:
    with funcad.config.set(audit=True):
        assert Table.get is not dict.get
    assert Table.get is dict.get is type(Jaxpr((), (), ()).memo).get and WeakTable.get is weakref.WeakKeyDictionary.get


# -- functions

CALLS: list[float] = []


@remembers(4)
def rounded(x: float) -> float:
    """A number: the nearest whole one."""
    CALLS.append(x)
    return np.copysign(float(round(x)), x)


def test_a_function_remembers() -> None:
    assert type(rounded).__name__ == "_lru_cache_wrapper"  # and no call of Python is between
    before = len(CALLS)
    assert rounded(2.25) == rounded(2.25) == 2.0 and len(CALLS) == before + 1


def test_functions_under_audit() -> None:
    plain: Any = lower._lowered
    with funcad.config.set(audit=True):
        assert lower._lowered is not plain and lower._lowered.__wrapped__ is plain.__wrapped__
    assert lower._lowered is plain


def test_a_function_whose_arguments_are_equal_but_not_the_same(audit: None) -> None:
    audited = next(memo.audited(*known) for known in memo._functions if known[0].endswith("rounded"))
    assert audited(0.0) == 0.0
    with pytest.raises(CacheAuditError, match="rounded"):  # -0.0 is the same key
        audited(-0.0)
    del memo._differences["tests.whole.test_caches.rounded"]


def test_a_function_inside_another_has_no_table_of_its_own() -> None:
    with pytest.raises(TypeError, match="give that a Table"):

        @remembers()
        def inner() -> None:
            pass


# -- what is compared


@pytest.mark.parametrize(("a", "b", "expected"), [
    (0.0, -0.0, False), (1, True, False), (1, 1.0, False), (float("nan"), float("nan"), True),
    (np.float32(1), np.float64(1), False), (np.zeros(2), np.zeros(2), True), (np.zeros(2), np.zeros((2, 1)), False),
    (np.zeros(2), -np.zeros(2), False), ([1, (2, {"a": 3.0})], [1, (2, {"a": 3.0})], True), ((1,), [1], False),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False), (np.sin, np.cos, False), (object(), object(), False),
    (lambda x: x + 1, lambda x: x + 2, False), (squared, squared, True), (frozenset([1]), frozenset([1]), True),
])  # fmt: skip
def test_what_is_alike(a: Any, b: Any, expected: bool) -> None:
    assert alike(a, b) is expected


def test_functions_are_alike_by_what_they_close_over() -> None:
    def made(k: Any) -> Any:
        return lambda x: x * k

    assert alike(made(2.0), made(2.0)) and not alike(made(2.0), made(2))


def test_objects_are_alike_by_their_parts_and_may_be_circular() -> None:
    class Node:
        def __init__(self, value: float):
            self.value, self.me = value, self

    assert alike(Node(1.0), Node(1.0)) and not alike(Node(1.0), Node(2.0))


def test_programs_are_alike_by_their_text() -> None:
    programs = [funcad.make_jaxpr(f)(1.0).jaxpr for f in (np.sin, np.sin, np.cos)]
    assert alike(programs[0], programs[1]) and not alike(programs[0], programs[2])
    weak, strong = (funcad.make_jaxpr(np.sin)(x).jaxpr for x in (1.0, np.float64(1.0)))
    assert not alike(weak, strong)


# -- programs


def test_derivatives_of_all_kinds(audit: None) -> None:
    x = np.array([0.5, 1.5, 2.5])
    for _ in range(4):
        np.testing.assert_allclose(funcad.grad(squared)(x), 2 * x)
        np.testing.assert_allclose(funcad.jit(funcad.grad(squared))(x), 2 * x)
        np.testing.assert_allclose(funcad.vmap(funcad.grad(squared))(np.stack([x, x])), np.stack([2 * x, 2 * x]))
        np.testing.assert_allclose(funcad.hessian(squared)(x), 2 * np.eye(3))


def test_what_hangs_on_a_program_is_computed_again(audit: None) -> None:
    jaxpr = funcad.make_jaxpr(squared)(np.ones(3)).jaxpr
    assert jaxpr.last_uses is jaxpr.last_uses
    dict.__setitem__(jaxpr.memo, "last_uses", [])
    with pytest.raises(CacheAuditError, match="of a program: last_uses"):
        jaxpr.last_uses  # noqa: B018
    jaxpr.memo["fast_math"] = True  # a note
    assert jaxpr.memo.get("fast_math") is True and "fast_math" in jaxpr.memo
    del memo._differences["of a program: last_uses"]


def changed(f: Any, other: Any) -> None:
    """Put the program of `other` into the cache of a jitted function that was called with a number."""
    (entry,) = f._core.cache.entries.values()
    entry.jaxpr = funcad.make_jaxpr(other)(2.0).jaxpr


def test_a_jitted_function_that_is_not_what_it_was(audit: None) -> None:
    f = funcad.jit(lambda x: x * 1.5)
    assert f(2.0) == f(2.0) == 3.0
    changed(f, lambda x: x * 2.5)
    with pytest.raises(CacheAuditError, match=r"(?s)jitted\.programs.*mul a 2\.5.*mul a 1\.5.*Remedy"):
        f(2.0)
    del memo._differences["jitted.programs"]


def test_calls_that_were_written_out_ask_again() -> None:
    f = funcad.jit(lambda x: x * 1.5)
    assert [f(2.0) for _ in range(6)] == [3.0] * 6
    changed(f, lambda x: x * 2.5)
    assert f(2.0) == 3.0  # what was written out is called
    with funcad.config.set(audit=True), pytest.raises(CacheAuditError):
        f(2.0)
    del memo._differences["jitted.programs"]
    changed(f, lambda x: x * 1.5)
    with funcad.config.set(audit=True):
        assert [f(2.0) for _ in range(6)] == [3.0] * 6
    assert [f(2.0) for _ in range(6)] == [3.0] * 6 and f.cache_info().misses == 1


def test_numbers_that_change_are_no_difference(audit: None) -> None:
    lengths = {"a": 1.0}
    f = funcad.jit(lambda x: x * lengths["a"])
    for value in (1.0, 2.0, 3.0, 4.0, 3.0, 2.0):
        lengths["a"] = value
        assert f(2.0) == f(2.0) == 2.0 * value


def test_threads_under_audit(audit: None) -> None:
    x, found = np.array([0.5, 1.5]), []

    def work() -> None:
        for _ in range(5):
            found.append(funcad.jit(funcad.grad(squared))(x))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 20 and all(np.array_equal(g, 2 * x) for g in found)


def test_tables_that_last_keep_no_code_of_the_user() -> None:
    """What rewrites programs was traced when the first of them came, which may be dropped."""
    funcad.jit(squared)(np.ones(3))
    rules = [e for n, cached, _ in memo._functions if n == "passes.algebra._table" for e in _equations(cached(False))]
    assert len(rules) > 20 and not any([e.source for e in rules])


def _equations(table: Any) -> list[Any]:
    return [e for patterns, _ in table.values() for p in patterns for e in p.definitions.values()]


# -- from outside


def test_caches_are_listed() -> None:
    funcad.jit(squared)(np.ones(3))
    funcad.grad(squared)(np.ones(3))
    lines = {line.name: line for line in funcad.debug.caches()}
    assert [*lines] == sorted(lines) and len(lines) > 60
    assert lines["jitted.programs"].size >= 1 and lines["host.internal"].size == len(internal)
    assert lines["primitives.contraction.dot_plan"].bound == 1024 and lines["unjitted.kinds"].bound == 4096
    assert any([name.startswith("of a program: ") for name in lines])
    assert "unjitted.kinds" in repr(funcad.debug.caches()) and "<table" in funcad.debug.caches()._repr_html_()
    assert not any([line.differences for line in lines.values()])


def test_the_environment_switches_it_on() -> None:
    code = """
import numpy as np, funcad
slope = funcad.jit(funcad.grad(lambda x: np.sum(x ** 3)))
print(funcad.config.audit, slope(np.ones(2)), slope(np.ones(2)))
lines = funcad.debug.caches()
print(sum(line.hits or 0 for line in lines) > 10, sum(line.differences for line in lines))
"""
    switched = {**os.environ, "FUNCAD_AUDIT": "1"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=switched)
    assert done.stdout == "True [3. 3.] [3. 3.]\nTrue 0\n"


@pytest.mark.slow
@pytest.mark.parametrize("block", test_readme.BLOCKS, ids=[f"block-{i}" for i in range(len(test_readme.BLOCKS))])
def test_the_readme_under_audit(audit: None, patient: None, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    monkeypatch.setattr(first_calls, "OBSERVES", True)
    for _ in range(2):
        test_readme.test_block_prints_what_it_says(block)


def test_variables_are_alike_by_what_they_stand_for() -> None:
    jaxpr = funcad.make_jaxpr(squared)(np.ones(3)).jaxpr
    assert alike(jaxpr.inputs[0], Var(jaxpr.inputs[0].aval)) and not alike(jaxpr.inputs[0], Var(jaxpr.outputs[0].aval))


def test_tests_that_count_are_left_out_of_the_audit() -> None:
    def counts_misses() -> None:
        assert funcad.jit(lambda x: x).cache_info().misses == 0

    def by_a_helper() -> None:
        assert _helper() == 0

    def compares() -> None:
        assert funcad.grad(lambda x: x * x)(1.0) == 2.0

    assert [workers.counts(f) for f in (counts_misses, by_a_helper, compares, len, None)] == [True, True, False, False, False]


def _helper() -> int:
    return sum(counters.values()) * 0
