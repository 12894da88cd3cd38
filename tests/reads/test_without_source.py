"""Functions whose source cannot be read: what the walk over their bytecode can place is compared, the rest runs un-jitted."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import jit
from tests.jitted.captured_cases import module

X = np.array([1.0, 2.0, 3.0])

PLACED = {  # the text of f, what changes between the calls
    "global": ("k = 1.0\ndef f(x):\n    return x * k", "made.k += 1.0"),
    "attribute": ("class O:\n    k = 1.0\no = O()\ndef f(x):\n    return x * o.k", "made.o.k += 1.0"),
    "list": ("t = [1.0, 2.0]\ndef f(x):\n    return x * t[1]", "made.t[1] += 1.0"),
    "word in a list": ("t = ['a']\ndef f(x):\n    return x * len(t[0])", "made.t[0] += 'a'"),
    "word in a dict": ("t = {'mode': 'a'}\ndef f(x):\n    return x * len(t['mode'])", "made.t['mode'] += 'a'"),
    "helper": ("k = 1.0\ndef h(x):\n    return x * k\ndef f(x):\n    return h(x) + 1.0", "made.k += 1.0"),
    "contents": ("import numpy as np\nw = np.ones(3)\ndef f(x):\n    return x * np.exp(w) + w[0]", "made.w[0] += 1.0"),
    "set of pairs": ("t = {(1, 2)}\ndef f(x):\n    return x * sum([a * b for a, b in t])", "made.t.add((3, len(made.t)))"),
    "key": ("class O:\n    k = 1.0\nt = {O(): 2.0}\ndef f(x):\n    return x * sum([o.k for o in t])", "[*made.t][0].k += 1.0"),
    "absent": ("import types\no = types.SimpleNamespace()\ndef f(x):\n    return x * getattr(o, 'k', 1.0)", "made.o.k = 5.0"),
    "asked": ("import types\no = types.SimpleNamespace()\ndef f(x):\n    return x * (1 + hasattr(o, 'k'))", "made.o.k = 5.0"),
    "all": (
        "import types\no = types.SimpleNamespace(a=1.0)\ndef f(x):\n    return x * sum(vars(o).values())",
        "setattr(made.o, 'k' * len(vars(made.o)), 5.0)",
    ),
    "all of an object": (
        "class O: pass\no = O()\no.a = 1.0\ndef f(x):\n    return x * sum(vars(o).values())",
        "setattr(made.o, 'k' * len(vars(made.o)), 5.0)",
    ),
    "caught": (
        "import types\no = types.SimpleNamespace()\ndef f(x):\n try:\n  return x * o.k\n except AttributeError:\n  return x",
        "made.o.k = 5.0",
    ),
    "caught of an object": (
        "class O: pass\no = O()\ndef f(x):\n    try:\n        return x * o.k\n    except Exception:\n        return x",
        "made.o.k = 5.0",
    ),
    "no name": ("ns = {}\nexec('class O: k = 1.0', ns)\nO = ns['O']\ndef f(x):\n    return x * O.k", "made.O.k += 1.0"),
    "of no name": ("ns = {}\nexec('class O: k = 1.0', ns)\no = ns['O']()\ndef f(x):\n    return x * o.k", "made.o.k += 1.0"),
    "array": ("import numpy as np\nw = np.ones(3)\ndef f(x):\n    return x * w", "made.w[0] += 1.0"),
}
REFUSED = {
    "stored array": ("class O: pass\no = O()\ndef f(x):\n    o.w = x * 2.0\n    return x", "", "is stored"),
    "count": ("class O: n = 0\no = O()\ndef f(x):\n    o.n += 1\n    return x / o.n", "", "is stored"),
    "swap": ("t = [1.0, 2.0]\ndef f(x):\n    t[0], t[1] = t[1], t[0]\n    return x * t[0]", "", "is stored"),
    "popped": ("t = [1.0, 2.0, 3.0, 4.0, 5.0]\ndef f(x):\n    return x * t.pop()", "", "is stored"),
    "class": ("class O: n = 0\ndef f(x):\n    O.n += 1\n    return x / O.n", "", "is stored"),
    "by name": ("class O: n = 1.0\no = O()\ndef f(x):\n    setattr(o, 'n', o.n + 1.0)\n    return x / o.n", "", "is stored"),
    "long list": ("t = [1.0] * 300\ndef f(x):\n    return x * t[7]", "made.t[7] += 1.0", "holds more than is compared"),
    "iterator": ("it = iter(range(9))\ndef f(x):\n    return x * next(it)", "", "it is an iterator"),
    "method of one": ("it = iter(range(9)).__next__\ndef f(x):\n    return x * it()", "", "it is an iterator"),
    "loop": ("it = iter(range(9))\ndef f(x, t=[it]):\n    for v in t[0]:\n        return x * v", "", "is an iterator"),
    "file": ("import io\nh = io.StringIO('1 \\n' * 9)\ndef f(x):\n    return x * h.tell() + len(h.readline())", "", "h is a"),
    "environment": (
        "import os\nos.environ['K_27'] = '1'\ndef f(x):\n    return x * float(os.environ['K_27'])",
        "made.os.environ['K_27'] += '1'",
        "os.environ",
    ),
    "context": (
        "import contextvars\nc = contextvars.ContextVar('c')\nc.set(1)\ndef f(x):\n    return x * c.get()",
        "",
        "c is a",
    ),
    "stored attribute": ("class O:\n    n = 0\no = O()\ndef f(x):\n    o.n += 1\n    return x * o.n", "", "o.n is stored"),
    "class attribute": ("class O:\n    n = 0\ndef f(x):\n    O.n += 1\n    return x * O.n", "", "O.n is stored"),
    "its own attribute": ("def f(x):\n    f.n += 1\n    return x * f.n\nf.n = 0", "", "n is stored"),
    "setattr": (
        "class O:\n    n = 0\no = O()\ndef f(x):\n    setattr(o, 'n', o.n + 1)\n    return x * o.n",
        "",
        "o.n is stored",
    ),
    "stored global": ("n = 0\ndef f(x):\n    global n\n    n += 1\n    return x * n", "", "global n is stored"),
    "stored cell": (
        "def make(n):\n  def f(x):\n    nonlocal n\n    n += 1\n    return x * n\n  return f\nf = make(0)",
        "",
        "closure variable n is stored",
    ),
    "default": ("def f(x, h=[]):\n    h.append(1)\n    return x * len(h)", "", "is stored"),
    "dict": ("d = {}\ndef f(x):\n    d['a'] = d.get('a', 0) + 1\n    return x * d['a']", "", r"d\['a'\] is stored"),
    "set": ("s = set()\ndef f(x):\n    s.add(len(s))\n    return x * len(s)", "", "s is stored"),
    "deque": (
        "import collections\nq = collections.deque([1., 2.] * 9)\ndef f(x):\n    return x * q.popleft()",
        "",
        "is stored",
    ),
    "in place": ("import numpy as np\nb = np.zeros(2)\ndef f(x):\n    b[0] += 1\n    return x * b[0]", "", "b is stored"),
    "by a ufunc": (
        "import numpy as np\nb = np.ones(3)\ndef f(x):\n    np.add.at(b, 0, 1.)\n    return x * b",
        "",
        "b is stored",
    ),
    "print": ("def f(x):\n    print('said')\n    return x", "", "print"),
    "clock": ("import time\ndef f(x):\n    return x * (time.perf_counter() > 0.0)", "", "in a function without a source"),
    "imported clock": ("from time import time as now\ndef f(x):\n    return x * (now() > 0.0)", "", "without a source"),
    "recorded": (
        "import warnings, numpy as np\ndef f(x):\n    with warnings.catch_warnings(record=True) as w:\n"
        "        warnings.simplefilter('always')\n        np.log(-x)\n    return x * len(w)",
        "",
        "catch_warnings in a function without a source",
    ),
    "caught warning": (
        "import numpy as np\ndef f(x):\n    try:\n        return np.log(x)\n    except RuntimeWarning:\n        return x",
        "",
        "are caught, in a function without a source",
    ),
    "generator": ("import numpy as np\nr = np.random.default_rng(3)\ndef f(x):\n    return x * r.normal()", "", "generator"),
}


@pytest.mark.parametrize("name", PLACED)
def test_what_can_be_placed_is_compared(name: str) -> None:
    text, change = PLACED[name]
    made, plain = module(text, source=False), module(text, source=False)
    program = jit(made.f)
    for _ in range(6):
        np.testing.assert_array_equal(program(X), plain.f(X))
        exec(change), exec(change.replace("made", "plain"))
    assert program.cache_info().currsize >= 1


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_runs_un_jitted(name: str) -> None:
    text, change, reason = REFUSED[name]
    made, plain = module(text, source=False), module(text, source=False)
    with pytest.warns(funcad.NotCompiledWarning, match=reason):
        program = jit(made.f)
        for _ in range(4):
            np.testing.assert_array_equal(program(X), plain.f(X))
            exec(change), exec(change.replace("made", "plain"))


@pytest.mark.parametrize("name", [*PLACED, *REFUSED])
def test_a_function_with_a_source_that_calls_one_without(name: str) -> None:
    text, change = {**PLACED, **REFUSED}[name][:2]
    made, plain = module(text, source=False), module(text, source=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", funcad.NotCompiledWarning)
        program = jit(lambda x: np.sin(made.f(x)) * 2.0)
        for _ in range(5):
            np.testing.assert_allclose(program(X), np.sin(plain.f(X)) * 2.0, rtol=1e-14)
            exec(change), exec(change.replace("made", "plain"))
    assert name not in PLACED or program.cache_info().currsize >= 1


_PROGRAM = """
import numpy as np, funcad
k = 1.0
class O: n = 0
o = O()
def f(x):
    return x * k + len(o.__class__.__name__)

g = funcad.jit(f)
for i in range(4):
    k += 1.0
    assert g(2.0) == f(2.0), (g(2.0), f(2.0))

print("the same")
"""
_TEST = """
import numpy as np, funcad
table = {"k": 1.0}

def test_f():
    def f(x):
        assert table["k"] > 0.0, "no rate"
        return x * table["k"]
    g = funcad.jit(f)
    for i in range(4):
        table["k"] += 1.0
        assert g(2.0) == f(2.0)
    table["k"] = -1.0
    for h in (f, g, g):
        try:
            h(2.0)
        except AssertionError as error:
            assert "no rate" in str(error)
        else:
            assert False
"""


def command_of(how: str, folder: Path) -> list[str]:
    """What runs the program as Python has it without a file of its source that it could read, or with another."""
    (folder / "program.py").write_text(_PROGRAM)
    if how == "a compiled file":
        py_compile.compile(str(folder / "program.py"), str(folder / "program.pyc"))
        (folder / "program.py").unlink()
        return [str(folder / "program.pyc")]
    if how == "a frozen module":  # as tools make programs of it: code without a file
        code = f"import marshal, types; code = compile({_PROGRAM!r}, '<frozen program>', 'exec')\n"
        return ["-c", f"{code}module = types.ModuleType('program'); exec(marshal.loads(marshal.dumps(code)), vars(module))"]
    if how == "an archive":
        with zipfile.ZipFile(folder / "program.zip", "w") as archive:
            archive.writestr("__main__.py", _PROGRAM)
        return [str(folder / "program.zip")]
    if how == "an edited file":
        (folder / "program.py").write_text(_PROGRAM.replace("g = funcad", "open(__file__, 'w').write('pass')\ng = funcad"))
        return [str(folder / "program.py")]
    return {"-c": ["-c", _PROGRAM], "-O": ["-O", "-c", _PROGRAM], "the prompt": ["-i", "-q", "-"]}.get(how, ["-"])


WAYS = ["-c", "stdin", "-O", "the prompt", "a compiled file", "a frozen module", "an archive", "an edited file"]


@pytest.mark.parametrize("how", WAYS)
def test_in_a_process_of_its_own(how: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {"input": _PROGRAM} if how in ("stdin", "the prompt") else {}
    command = [sys.executable, "-W", "error", *command_of(how, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **given)
    assert done.stdout == "the same\n", done.stderr


def test_assertions_that_pytest_rewrites(tmp_path: Path) -> None:
    (tmp_path / "test_f.py").write_text(_TEST)
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_f.py"]
    alone = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path, env=alone)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
