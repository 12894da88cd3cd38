"""What the first derivative costs of a function that refers to large libraries or much data: `benchmarks.surroundings`.

Idea: before a function runs for the first time, funcad looks at what it may do, and that is what its library and its data lead
to. Here are functions of three lines whose surroundings are large: one of each kind, each in a process of its own, in which
another derivative has been taken before. A figure is the processor's time of the second call of the function itself (NumPy),
of its first gradient, and of its second; the minimum of the rounds. Libraries that are not installed are left out.

autograd is optional, as a column of first gradients, and so is a checkout beside this one (`--beside FOLDER`).
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


def measured(name: str, checkouts: dict[str, str], rounds: int, cache: str) -> dict[str, list[float]]:
    """Milliseconds of each checkout: the function, its first gradient, its second."""
    found: dict[str, list[float]] = {}
    for turn in range(rounds + 1):  # the first compiles
        answers = set()
        for column, checkout in checkouts.items():
            _, before, factor = PROGRAMS[name]
            imports = IMPORTS.get(column, IMPORTS["funcad"])
            *times, answer = printed(RUN.format(imports=imports, before=before, made=MADE, factor=factor), checkout, cache)
            answers.add(round(answer, 9))
            if turn:
                found[column] = [min(a, 1e3 * b) for a, b in zip(found.get(column, [float("inf")] * 3), times)]
        if len(answers) > 1:
            raise RuntimeError(f"{name}: the columns disagree: {answers}")
    return found


def main() -> None:
    options, checkouts = asked(__doc__)
    lines = [["ms", "the function", "second gradient", *[f"first gradient: {column}" for column in checkouts]]]
    with tempfile.TemporaryDirectory() as cache:
        for name, (library, _, _) in PROGRAMS.items():
            if importlib.util.find_spec(library) is None or options.words and not any(w in name for w in options.words):
                continue
            found = measured(name, checkouts, max(options.rounds, 1), cache)
            plain, _, second = found["funcad"]
            lines.append([name, *[f"{t:.2f}" for t in (plain, second, *[times[1] for times in found.values()])]])
            print(lines[-1], file=sys.stderr, flush=True)
    table = markdown(lines)
    print(table)
    if options.results:
        about = f"{datetime.date.today()}, {versions()}.\n\n`python -m benchmarks.surroundings --rounds {options.rounds}`: "
        about += "milliseconds of the processor; autograd looks at nothing, and refuses what funcad looks for (writes)."
        title = "# The first derivative of a function with large surroundings"
        Path(options.results).write_text(f"{title}\n\n{about}\n\n{table}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
