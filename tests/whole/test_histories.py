"""Jitted functions whose surroundings change between calls do what they do in plain Python (tests/histories.py).

The slow tests make more than 20,000 calls.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import funcad
from tests import histories
from tests.histories import CALLS, differences, history
from tests.history_kinds import KINDS, PLAIN
from tests.shards import shard

FEW = 1  # histories of a kind
MANY = 26


def check(seed: int, kind: str, folder: Path) -> None:
    case = history(seed, kind)
    found = differences(case, folder)
    assert found is None, f"{found}\n{case}"


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", KINDS)
def test_jit_does_what_plain_python_does(kind: str, tmp_path: Path) -> None:
    for seed in range(FEW):
        check(seed, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", shard(range(100, 100 + MANY)))
def test_many_histories(seed: int, tmp_path: Path) -> None:
    assert MANY * CALLS * len(KINDS) >= 20_000
    for kind in KINDS:
        check(seed, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", shard(list(KINDS)))
def test_histories_under_audit(kind: str, tmp_path: Path) -> None:
    with funcad.config.set(audit=True):
        for seed in range(2):
            check(seed, kind, tmp_path)


# -- the generator itself


def test_a_history_follows_from_its_seed() -> None:
    assert history(3, "number") == history(3, "number") != history(4, "number")
    text = str(history(3, "number"))
    assert "def f(x):" in text and "call: np.array(" in text and "history(3, 'number')" in text


def test_every_line_of_a_kind_is_drawn() -> None:
    for name, kind in KINDS.items():
        sources = [history(seed, name, 1).source for seed in range(12)]
        assert len(set(sources)) > len(kind.lines), name
    assert set(PLAIN) <= set(KINDS)


def test_a_difference_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a function that is not the same: its results, its errors, its state and what it prints."""
    case = history(0, "number")
    for source in ("y = y + 1.0", "raise ValueError", "globals()['K0'] = 7.0", "print(3)", "x[0] = 3.5"):
        changed = case.source.removesuffix("return y\n") + f"{source}\n    return y\n"
        plain, other = histories.Run(case, tmp_path, _itself), histories.Run(case._replace(source=changed), tmp_path, _itself)
        step = "call", "np.array([1.0, 2.0, 3.0])"
        results = plain.step(*step), other.step(*step)
        assert not (histories.same(*results) and histories.same(plain.state(), other.state())), source
        assert histories.same(results[0], plain.step(*step))
        plain.close()
        other.close()


def _itself(f: object, **options: object) -> object:
    return f
