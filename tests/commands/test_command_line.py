"""`python -m funcad`: the help, and what each command does and says when it is typed wrongly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import funcad
from funcad.commands.command_line import COMMANDS, main

ROOT = Path(funcad.__file__).parent.parent


def typed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(words)
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with functions of somebody's, in the folder where the command is typed."""
    text = (
        "import numpy as np\nfrom funcad import jit\n\n\ndef loss(x, scale=1.0):\n    return np.sum(np.log(x)) * scale\n\n\n"
        "@jit\ndef jitted(x):\n    return np.exp(-x) * x\n\n\n"
        "class Model:\n    @staticmethod\n    def f(x):\n        return x * 2.0\n"
    )
    (tmp_path / "my_model.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "my_model", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.mark.parametrize("words", [(), ("help",), ("--help",), ("-h",)])
def test_help_is_short_and_names_all_commands(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    status, printed, _ = typed(capsys, *words)
    assert status == 0 and funcad.__version__ in printed
    assert all(f"\n  {name} " in printed for name in COMMANDS)
    assert len(printed.splitlines()) <= 20 and max(map(len, printed.splitlines())) <= 128


@pytest.mark.parametrize("words", [("version",), ("--version",), ("-V",)])
def test_version(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    assert typed(capsys, *words) == (0, f"{funcad.__version__}\n", "")


def test_each_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in COMMANDS.keys() - {"tour"}:
        status, printed, _ = typed(capsys, name, "--help")
        assert status == 0 and f"python -m funcad {name}" in printed and COMMANDS[name].does in printed


def test_from_an_empty_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "funcad"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0 and done.stderr == "" and "tour" in done.stdout


def test_config(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = typed(capsys, "config")
    assert status == 0 and "engine = " in printed
    assert typed(capsys, "config", "x")[0] == 1


@pytest.mark.parametrize("place", ["my_model:loss", "my_model.py:loss"])
def test_doctor(capsys: pytest.CaptureFixture[str], model: Path, place: str) -> None:
    status, printed, _ = typed(capsys, "doctor", place, "np.array([1.0, 0.0])")
    assert status == 0 and "my_model.py:6" in printed and "log" in printed


@pytest.mark.parametrize("place", ["my_model:jitted", "my_model.py:loss", "my_model:Model.f"])
def test_explain(capsys: pytest.CaptureFixture[str], model: Path, place: str) -> None:
    status, printed, _ = typed(capsys, "explain", place, "funcad.ShapeDtypeStruct((1000,), np.float64)")
    assert status == 0 and printed.startswith(f"jit of {place.rpartition(':')[2].rpartition('.')[2]}: engine")


def test_explain_calls_what_branches_on_values(capsys: pytest.CaptureFixture[str], model: Path) -> None:
    with (model / "my_model.py").open("a") as text:
        text.write("\n\ndef branches(x):\n    return x if x > 0 else -x\n")
    status, printed, _ = typed(capsys, "explain", "my_model.py:branches", "1.0")
    assert status == 0 and "path 1" in printed


@pytest.mark.parametrize(("words", "said"), [
    (("nothing",), "There is no command 'nothing'. The commands are tour"),
    (("doctor",), "doctor needs a function: python -m funcad doctor module:function"),
    (("explain", "my_model"), "explain needs a function"),
    (("explain", "my_model:missing", "1.0"), "my_model has no missing"),
    (("explain", "nowhere:f", "1.0"), "There is no module nowhere"),
    (("explain", "nowhere.py:f", "1.0"), "There is no file nowhere.py"),
    (("doctor", "my_model:loss"), "loss(x, scale=1.0) takes other arguments: missing a required argument: 'x'"),
    (("explain", "my_model:loss", "1.0", "2.0", "3.0"), "loss(x, scale=1.0) takes other arguments: too many"),
    (("doctor", "my_model:np.pi", "1.0"), "my_model:np.pi is no function, it is the float 3.14"),
    (("doctor", "my_model:loss", "np.ons(3)"), "The argument 'np.ons(3)' is no Python expression: AttributeError"),
    (("cache", "remove"), "cache takes nothing, or `clear`"),
    (("docs", "qqqqq"), "No page is about 'qqqqq'"),
    (("port",), "port needs files"),
    (("port", "nowhere.py"), "nowhere.py: "),
])  # fmt: skip
def test_mistakes(capsys: pytest.CaptureFixture[str], model: Path, words: tuple[str, ...], said: str) -> None:
    status, printed, error = typed(capsys, *words)
    assert status in (1, 2) and printed == "" and error.startswith(said)


def test_errors_of_the_function_are_its_own(model: Path) -> None:
    with pytest.raises(TypeError, match="unsupported|must be|ufunc"):
        main(["doctor", "my_model:loss", "object()"])


def test_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    kernels.mkdir(mode=0o700)
    with funcad.config.set(cache_dir=str(tmp_path)):
        from_disk = [path for path in (tmp_path, kernels) if path.is_dir()]
        status, printed, _ = typed(capsys, "cache")
        assert status == 0 and "0 kernels" in printed and from_disk
        folder = Path(printed.partition(": ")[0])
        (folder / "one").write_bytes(b"1234")
        assert "1 kernels" in typed(capsys, "cache")[1]
        assert typed(capsys, "cache", "clear")[0] == 0
        assert [path for path in folder.iterdir() if path.is_file()] == []
    with funcad.config.set(cache_dir="off"):
        assert "no kernels are kept on disk" in typed(capsys, "cache")[1]


def test_docs(capsys: pytest.CaptureFixture[str]) -> None:
    status, printed, _ = typed(capsys, "docs")
    assert status == 0 and "\njit " in printed and "gallery/orbit" in printed
    status, printed, _ = typed(capsys, "docs", "jit")
    assert status == 0 and printed.startswith("# ") and "{code-cell}" not in printed and "kernelspec" not in printed
    assert typed(capsys, "docs", "docs/jit.md")[1] == printed
    assert typed(capsys, "docs", "traced", "again")[1].splitlines()[0].startswith("jit ")


@pytest.mark.parametrize("name", ["", "another-name"])
def test_the_distribution_has_a_name_of_one_s_choice(name: str) -> None:
    pytest.importorskip("setuptools")
    environment = {**os.environ, "FUNCAD_DISTRIBUTION": name}
    command = [sys.executable, "-W", "ignore", "setup.py", "--name"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, env=environment)
    assert done.stdout.splitlines()[-1] == (name or "funcad"), done.stderr
