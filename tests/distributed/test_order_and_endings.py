"""What is found before results are wrong, and how those who wait learn that nobody comes."""

import threading
import time
import warnings

import numpy as np
import pytest

import funcad as fc
from funcad import distributed, lax
from funcad.configuration import config
from funcad.distributed import on_threads, spmd
from funcad.distributed.communicator import Threads
from funcad.errors import CollectiveError
from tests.distributed.test_spmd import N, line_of, threads

WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, fc.jit], ids=["un-jitted", "jitted"])


# ---------------------------------------------------------------- the order


def swapped(x):
    if lax.axis_index("i") == 1:
        b = lax.psum(2.0 * x, "i") * 3.0
        a = lax.psum(x, "i")
    else:
        a = lax.psum(x, "i")
        b = lax.psum(2.0 * x, "i") * 3.0
    return a + b


@WRAPS
def test_two_sums_of_one_shape_in_swapped_order_are_warned_of_once_with_both_lines(wrap):
    def process(r):
        f = wrap(spmd(lambda x: lax.pmax(swapped(x * lax.pmax(x, "i")), "i"), "i"))
        return [f(np.ones(3)) for _ in range(3)]

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads(process)
    texts = [str(w.message) for w in seen if "different lines" in str(w.message)]
    assert 1 <= len(texts) <= 2 and len(set(texts)) == len(texts), texts  # each pair of lines once, however often it is called
    for text in texts:
        assert "process 0: collective" in text and line_of(swapped, 3 if line_of(swapped, 3) in text else 2) in text
        assert "comm.strict = True" in text


@WRAPS
def test_strict_raises_where_lines_differ(wrap):
    def process(r):
        distributed.current().strict = True
        return wrap(spmd(swapped, "i"))(np.ones(3))

    with pytest.raises(CollectiveError, match="from different lines") as info:
        threads(process)
    assert line_of(swapped, 5) in str(info.value) and line_of(swapped, 2) in str(info.value)


def test_strict_lets_one_program_for_all_pass():
    def process(r):
        distributed.current().strict = True
        f = fc.jit(fc.grad(spmd(lambda w, x: lax.pmean(np.sum(w * x) ** 2, "i"), "i", in_axes=(None, 0), out_axes=None)))
        return [float(f(2.0, np.arange(3.0))) for _ in range(3)]

    assert threads(process) == [[36.0] * 3] * N


def turns(x, n):
    return fc.scan(lambda c, t: (c + lax.psum(c * t, "i"), None), x, np.ones(n))[0]


def nested(x, n):
    return fc.scan(lambda c, t: (turns(c, n), None), x, np.ones(2))[0]


@pytest.mark.parametrize("loop", [turns, nested])
@WRAPS
def test_loops_of_other_lengths_are_found_before_they_begin(wrap, loop):
    counts = {}

    def process(r):
        f = wrap(spmd(lambda x: lax.pmax(loop(lax.psum(x, "i"), 5 if r == 1 else 4), "i"), "i"))
        try:
            return f(1.0)
        finally:
            counts[r] = distributed.current().count

    with pytest.raises(CollectiveError, match=r"a loop with collectives whose length differs, \[4, 5\] turns"):
        threads(process)
    assert max(counts.values()) <= 1


# ---------------------------------------------------------------- endings


def test_a_process_that_sleeps_is_left_behind_and_named():
    woken = threading.Event()

    def process(r):
        total = spmd(lambda v: lax.psum(v, "i"), "i")
        total(1.0)
        if r == 2:
            woken.wait(60)
        return total(2.0)

    began = time.monotonic()
    with pytest.raises(CollectiveError, match="waited 0.3 s in sum of float64") as info:
        on_threads(N, process, timeout=0.3)
    woken.set()
    for thread in threading.enumerate():
        if thread.name == "process 2":
            thread.join(60)
    assert time.monotonic() - began < 30.0
    assert "process 2, last in sum of float64[]" in str(info.value)
    assert any("left behind: process 2, last in sum" in note for note in info.value.__notes__)


def test_one_line_says_who_is_waited_for_and_where_it_was_last(monkeypatch, capsys):
    monkeypatch.setattr(Threads, "remind", 0.2)

    def process(r):
        lax_sum, lax_max = spmd(lambda v: lax.psum(v, "i"), "i"), spmd(lambda v: lax.pmax(v, "i"), "i")
        lax_max(1.0)
        if r == 1:
            time.sleep(0.7)
        return lax_sum(1.0)

    assert threads(process) == [3.0] * N
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 4
    for line in lines:
        assert line.startswith(("process 0 of 3 has waited 0.", "process 2 of 3 has waited 0."))
        assert "in sum of float64[]" in line
        assert "for process 1, last in max of float64[]" in line


def test_the_deadline_is_a_setting():
    over = threading.Event()

    def process(r):
        if r:
            return over.wait(60)
        try:
            return spmd(lambda v: lax.psum(v, "i"), "i")(1.0)
        finally:
            over.set()

    with config.set(timeout=0.2), pytest.raises(CollectiveError, match="waited 0.2 s .*process 1, last in no collective"):
        on_threads(2, process)
    assert config.timeout == 600.0
    with pytest.raises(ValueError, match="timeout must be a number of seconds above 0"):
        config.update("timeout", "soon")


def test_a_part_learns_of_who_has_ended():
    def process(r):
        part = distributed.current().split(r // 2)
        if r == 3:
            raise ZeroDivisionError("mine")
        return spmd(lambda v: lax.psum(v, "i"), "i", comm=part)(float(r))

    with pytest.raises(ZeroDivisionError):
        on_threads(4, process, timeout=60.0)
