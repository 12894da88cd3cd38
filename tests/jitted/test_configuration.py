"""Settings, the environment variables that give their first values, and `show_config()`."""

from __future__ import annotations

import copy
import pickle
from collections import namedtuple
from pathlib import Path

import pytest

import funcad
from funcad.configuration import SETTINGS, Config, NamedTuple
from tests.forked import in_a_process


def configured(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> Config:
    for name, *_ in SETTINGS.values():
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, value)
    return Config()


@pytest.mark.parametrize("name", SETTINGS)
def test_an_empty_variable_is_as_good_as_none(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable, default = SETTINGS[name][:2]
    config = configured(monkeypatch, variable, "")
    assert getattr(config, name) == default


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("pool_bytes", "1e9", 10**9),
        ("pool_bytes", " 1000 ", 1000),
        ("pool_bytes", "0", 0),
        ("threads", "2.0", 2),
        ("engine", "numpy", "numpy"),
        ("cache_dir", "off", "off"),
        ("print", "passes", "passes"),
        ("explain_cache_misses", "1", True),
        ("explain_cache_misses", "Off", False),
    ],
)
def test_what_variables_mean(name: str, text: str, value: object, monkeypatch: pytest.MonkeyPatch) -> None:
    found = getattr(configured(monkeypatch, SETTINGS[name][0], text), name)
    assert found == value and type(found) is type(value)


WRONG = [
    ("engine", "nativ"),
    ("threads", "-1"),
    ("threads", "two"),
    ("pool_bytes", "1.5"),
    ("pool_bytes", "inf"),
    ("pool_bytes", "nan"),
    ("pool_bytes", "1 GiB"),
    ("print", "pass"),
    ("explain_cache_misses", "maybe"),
]


@pytest.mark.parametrize(("name", "text"), WRONG)
def test_what_is_not_understood_is_named(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variable = SETTINGS[name][0]
    with pytest.raises(ValueError, match=f"{variable} is '{text}': config: {name} must be"):
        configured(monkeypatch, variable, text)
    before = getattr(funcad.config, name)
    with pytest.raises(ValueError, match=f"config: {name} must be"), funcad.config.set(cache_dir="elsewhere", **{name: text}):
        pass
    assert getattr(funcad.config, name) == before and funcad.config.cache_dir != "elsewhere"


def test_numbers_that_are_integers_are_taken() -> None:
    with funcad.config.set(pool_bytes=1e6, threads=True):
        assert funcad.config.pool_bytes == 10**6 and funcad.config.threads == 1
    for wrong in (2.5, -1, "", [1]):
        if wrong != "":
            with pytest.raises(ValueError, match="config: threads must be a whole number"):
                funcad.config.update("threads", wrong)


def shown(engine: str, before: str = "") -> str:
    code = f"{before}\nimport funcad\nfuncad.show_config()"
    return in_a_process(code, strict=True, FUNCAD_ENGINE=engine)


def test_show_config_names_the_engine_before_anything_ran() -> None:
    for engine in ("numpy", "interpreter"):
        assert f"engine in use: {engine}, as set" in shown(engine)
    without = shown("", "import sys; sys.modules['llvmlite'] = None")
    assert "engine in use: numpy\nnative engine: not in use: llvmlite is not installed (pip install llvmlite)" in without
    pytest.importorskip("llvmlite")
    assert "engine in use: native\nnative engine: llvmlite" in shown("auto")


class Pair(NamedTuple):
    """Two values, of which one may be left out."""

    left: int
    right: int = 3

    def total(self) -> int:
        return self.left + self.right


def test_records_are_those_of_namedtuple() -> None:
    """Of classes that `import funcad` makes, no constructor is compiled; they do what those of `typing` do."""
    theirs = namedtuple("Pair", ["left", "right"])
    pair, other = Pair(1), theirs(1, 3)
    assert pair == other and repr(pair) == repr(other) and pair.total() == 4 and Pair(right=1, left=2) == (2, 1)
    assert pair._fields == other._fields and pair._asdict() == other._asdict() and Pair._make([4, 5]) == (4, 5)
    assert pair._replace(right=7) == other._replace(right=7) and Pair._field_defaults == {"right": 3}
    assert pickle.loads(pickle.dumps(pair)) == pair and type(copy.deepcopy(pair)) is Pair and not hasattr(pair, "__dict__")
    match pair:
        case Pair(left, right):
            assert (left, right) == (1, 3)
    with pytest.raises(ValueError, match="middle"):
        pair._replace(middle=1)
    for wrong in ((), (1, 2, 3)):
        with pytest.raises(TypeError):
            Pair(*wrong)


@pytest.mark.parametrize("wrong", [3, 1.5, True, ["a"], b"a"])
def test_a_folder_is_text_or_a_path(wrong: object, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="config: cache_dir must be the path of a folder"):
        funcad.config.update("cache_dir", wrong)
    with funcad.config.set(cache_dir=tmp_path):
        assert funcad.config.cache_dir == str(tmp_path)
