"""What the first derivative costs of a function that refers to large libraries or much data: `benchmarks.surroundings`.

Idea: before a function runs for the first time, funcad looks at what it may do, and that is what its library and its data lead
to. Here are functions of three lines whose surroundings are large: one of each kind, each in a process of its own, in which
another derivative has been taken before. A figure is the processor's time of the second call of the function itself (NumPy),
of its first gradient, and of its second; the minimum of the rounds. Libraries that are not installed are left out.

autograd is optional, as a column of first gradients, and so is a checkout beside this one (`--beside FOLDER`).

The second table is of jitted functions that read data as a whole, of which each call tells whether it is what it was: the first
three calls together, in which the program is made, a later call, and the call after a number has changed for the first time.
"""

from __future__ import annotations

import datetime
import importlib.util
import sys
import tempfile
from pathlib import Path

from benchmarks.cold import asked, printed
from benchmarks.harness import markdown, versions

MADE = "def f(x):\n    STATE.append(1)\n    return np.sum(x**2) * "  # it acts, as most programs do
PROGRAMS = {  # name -> (the library, what is there before the function, what its value is multiplied with)
    "NumPy alone": ("numpy", "", "2.0"),
    "SymPy, a class": ("sympy", "from sympy import Float", "float(Float(2.0))"),
    "PyTorch, a class": ("torch", "from torch import nn, tensor", "float(tensor([1.0]).sum() if nn.Module else 0.0)"),
    "xarray, a class": ("xarray", "import xarray", "float(xarray.DataArray(np.ones(3), dims=('t',)).sum())"),
    "scikit-learn, a function": (
        "sklearn",
        "from sklearn.metrics import mean_squared_error\na = np.ones(3)",
        "(1.0 + mean_squared_error(a, a))",
    ),
    "statsmodels, a class": (
        "statsmodels",
        "from statsmodels.regression.linear_model import OLS\na, y = np.ones((5, 1)), np.arange(5.0)",
        "OLS(y, a).fit().params[0]",
    ),
    "a list of a million numbers": ("numpy", "rows = [float(i) for i in range(10**6)]", "rows[3]"),
    "a dictionary of 200,000 lists": ("numpy", "rows = {i: [1.0, 2.0] for i in range(200_000)}", "rows[3][0]"),
    "an object with 100,000 records": (
        "types",
        "import types\nrows = types.SimpleNamespace(all=[{'a': 1.0, 'b': (2.0, 3)} for _ in range(100_000)])",
        "rows.all[3]['b'][0]",
    ),
}
NUMBERS, ROWS = "[float(i) for i in range(20_000)]", "[[float(i), 1.0, 2.0] for i in range(20_000)]"
JITTED = {  # name -> (what is there before, what the value is multiplied with, what changes)
    "sum(numbers)": (f"t = {NUMBERS}", "sum(t)", "t[7] += 0.5"),
    "3.0 in numbers": (f"t = {NUMBERS}", "(3.0 in t)", "t[7] += 0.5"),
    "np.asarray(numbers)": (f"t = {NUMBERS}", "np.asarray(t).sum()", "t[7] += 0.5"),
    "np.asarray(rows)": (f"t = {ROWS}", "np.asarray(t).sum()", "t[7][0] += 0.5"),
    "sum(mapping.values())": ("t = {str(i): float(i) for i in range(20_000)}", "sum(t.values())", "t['7'] += 0.5"),
    "rows[7][0]": (f"t = {ROWS}", "t[7][0]", "t[7][0] += 0.5"),
}
RUN_JITTED = """
import json, linecache, time
import numpy as np
from funcad import jit
{before}
text = "def f(x):\\n    return x * {factor}\\n"  # which is found as in a file
linecache.cache["f.py"] = len(text), None, text.splitlines(True), "f.py"
exec(compile(text, "f.py", "exec"))
warm = jit(lambda x: x * 2.0)
warm(1.0), warm(1.0), warm(1.0)
f(2.0)
g, marks = jit(f), []
calls = [lambda: f(2.0), lambda: (g(2.0), g(2.0), g(2.0)), *[lambda: g(2.0)] * 4]
for i, call in enumerate(calls):
    if i == len(calls) - 1:
        {change}
    begun = time.process_time()
    out = call()
    marks.append(time.process_time() - begun)
print(json.dumps([*marks[:2], min(marks[2:-1]), marks[-1], float(out)]))
"""
RUN = """
import json, time
{imports}
STATE = []
{before}
{made}{factor}
grad(lambda x: np.sum(x**2))(np.ones(3))
marks, calls = [], [lambda: f(np.ones(3)), lambda: f(np.ones(3)), *[lambda: grad(f)(np.ones(3))] * 2]
for call in calls:
    begun = time.process_time()
    out = call()
    marks.append(time.process_time() - begun)
print(json.dumps([*marks[1:], float(np.sum(out))]))
"""
IMPORTS = {
    "funcad": "import numpy as np\nfrom funcad import grad",
    "autograd": "import autograd.numpy as np\nfrom autograd import grad",
}


def measured(texts: dict[str, str], checkouts: dict[str, str], rounds: int, cache: str) -> dict[str, list[float]]:
    """Milliseconds that each checkout's text prints, the least of the rounds; all print one answer after them."""
    found: dict[str, list[float]] = {}
    for turn in range(rounds + 1):  # the first compiles
        answers = set()
        for column, checkout in checkouts.items():
            *times, answer = printed(texts[column], checkout, cache)
            answers.add(round(answer, 9))
            if turn:
                found[column] = [min(a, 1e3 * b) for a, b in zip(found.get(column, [float("inf")] * len(times)), times)]
        if len(answers) > 1:
            raise RuntimeError(f"the columns disagree: {answers}")
    return found


def _text(name: str, column: str) -> str:
    _, before, factor = PROGRAMS[name]
    return RUN.format(imports=IMPORTS.get(column, IMPORTS["funcad"]), before=before, made=MADE, factor=factor)


def main() -> None:
    options, checkouts = asked(__doc__)
    wanted = lambda name: not options.words or any(w in name for w in options.words)
    lines = [["ms", "the function", "second gradient", *[f"first gradient: {column}" for column in checkouts]]]
    ours = {column: checkout for column, checkout in checkouts.items() if column != "autograd"}
    heads = [f"{what}: {column}" for what in ("three calls", "a later call", "after a change") for column in ours]
    jitted = [["ms", "the function", *heads]]
    with tempfile.TemporaryDirectory() as cache:
        for name in filter(wanted, PROGRAMS):
            if importlib.util.find_spec(PROGRAMS[name][0]) is None:
                continue
            texts = {column: _text(name, column) for column in checkouts}
            found = measured(texts, checkouts, max(options.rounds, 1), cache)
            plain, _, second = found["funcad"]
            lines.append([name, *[f"{t:.2f}" for t in (plain, second, *[times[1] for times in found.values()])]])
            print(lines[-1], file=sys.stderr, flush=True)
        for name in filter(wanted, JITTED):
            text = RUN_JITTED.format(**dict(zip(("before", "factor", "change"), JITTED[name])))
            found = measured(dict.fromkeys(ours, text), ours, max(options.rounds, 1), cache)
            times = [found["funcad"][0], *[found[column][i] for i in (1, 2, 3) for column in ours]]
            jitted.append([name, *[f"{t:.2f}" for t in times]])
            print(jitted[-1], file=sys.stderr, flush=True)
    table = f"{markdown(lines)}\n\nJitted functions that read data as a whole:\n\n{markdown(jitted)}"
    print(table)
    if options.results:
        about = f"{datetime.date.today()}, {versions()}.\n\n`python -m benchmarks.surroundings --rounds {options.rounds}`: "
        about += "milliseconds of the processor; autograd looks at nothing, and refuses what funcad looks for (writes)."
        title = "# The first derivative of a function with large surroundings"
        Path(options.results).write_text(f"{title}\n\n{about}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
