"""Functions whose source cannot be read: what the walk over their bytecode can place is compared, the rest runs un-jitted."""

from __future__ import annotations

import subprocess
import sys
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
    "helper": ("k = 1.0\ndef h(x):\n    return x * k\ndef f(x):\n    return h(x) + 1.0", "made.k += 1.0"),
    "contents": ("import numpy as np\nw = np.ones(3)\ndef f(x):\n    return x * np.exp(w) + w[0]", "made.w[0] += 1.0"),
    "set of pairs": ("t = {(1, 2)}\ndef f(x):\n    return x * sum([a * b for a, b in t])", "made.t.add((3, len(made.t)))"),
    "key": ("class O:\n    k = 1.0\nt = {O(): 2.0}\ndef f(x):\n    return x * sum([o.k for o in t])", "[*made.t][0].k += 1.0"),
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


@pytest.mark.parametrize("how", ["-c", "stdin", "-O"])
def test_in_a_process_of_its_own(how: str) -> None:
    given: dict[str, Any] = {"input": _PROGRAM} if how == "stdin" else {}
    command = [sys.executable, *({"-c": ["-c", _PROGRAM], "-O": ["-O", "-c", _PROGRAM]}.get(how, ["-"]))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **given)
    assert done.stdout == "the same\n", done.stderr
