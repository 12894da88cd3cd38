"""Bars of progress in jitted functions: tqdm's, made inside or before, move at each call."""

from __future__ import annotations

import io
import warnings
from typing import Any

import pytest

from funcad import jit

tqdm = pytest.importorskip("tqdm")


def _looped(x: Any) -> Any:
    for i in tqdm.tqdm(range(3), desc="steps"):
        x = x * (1.5 + i)
    return x


def _by_hand(x: Any) -> Any:
    with tqdm.tqdm(total=4) as bar:
        for _ in range(4):
            x = x + 1.0
            bar.update(1)
            bar.set_postfix(loss=x)
    return x


@pytest.mark.parametrize("f", [_looped, _by_hand])
def test_bars_of_progress_move_at_each_call(f: Any, capsys: pytest.CaptureFixture[str]) -> None:
    ends = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is compiled
        for wrap in (lambda f: f, jit):
            made = wrap(f)
            results = [made(x) for x in (1.0, 2.0, 2.0, 3.0)]
            said = capsys.readouterr().err.split("\r")
            ends.append((results, sum([" 3/3 " in part or " 4/4 " in part for part in said]) > 3))
    assert ends[0] == ends[1]


def test_a_bar_that_was_there_before() -> None:
    file, bars = io.StringIO(), []
    for wrap in (lambda f: f, jit):
        bar = tqdm.tqdm(total=100, file=file)

        def f(x: Any, bar: Any = bar) -> Any:
            bar.update(2)
            bar.set_postfix(v=x)
            return x

        made = wrap(f)
        for _ in range(6):
            made(1.0)
        bars.append((bar.n, bar.postfix))
    assert bars[0] == bars[1] and made.cache_info().misses == 1
