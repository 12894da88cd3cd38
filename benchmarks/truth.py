"""What it costs that a jitted function is right: `python -m benchmarks.truth OLD_CHECKOUT` writes RESULTS_TRUTH.md.

Idea: a process of each checkout measures the same things in turns, by the processor's time of all threads; a figure is the
least of its rounds, which other work on the machine can only raise. A guard is what a warm call costs more for each of 200
numbers that the function reads. A first call is measured in a process that has not seen the function, with the kernels of both
checkouts on disk: of this one, that which observes and that which traces and compiles; of the old one, that which traces.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

HERE = Path(__file__).resolve()
GUARDS, OPERATIONS = 200, 1_000
MODULES = ("statistics", "argparse", "json.decoder", "fractions", "textwrap", "tempfile", "zipfile", "configparser", "shutil")


# -- a checkout's side


def least(f: Callable[[], Any], rounds: int = 40, number: int = 1) -> float:
    """The least processor's time of a call."""
    found = []
    gc.collect()
    for _ in range(rounds):
        start = time.process_time()
        for _ in range(number):
            f()
        found.append((time.process_time() - start) / number)
    return min(found)


def module_of(source: str, folder: str) -> types.ModuleType:
    """A module whose functions have a source."""
    path = Path(folder) / f"truth_{len(os.listdir(folder))}.py"
    path.write_text(source)
    made = types.ModuleType(path.stem)
    exec(compile(source, str(path), "exec"), vars(made))
    return made


def guards(folder: str) -> dict[str, float]:
    """What a warm call costs more for each number of a kind."""
    import funcad

    names = [f"k{i}" for i in range(GUARDS)]
    read = "def f(x):\n    for v in ({},):\n        if v < 0.0:\n            return -x\n    return x * 2.0\n"
    kinds = {
        "a global": ("\n".join([f"{n} = 1.5" for n in names]), ", ".join(names)),
        "an attribute": (
            "import types\no = types.SimpleNamespace(" + ", ".join([f"{n}=1.5" for n in names]) + ")",
            ", ".join([f"o.{n}" for n in names]),
        ),
        "an item of a dict": (
            "d = {" + ", ".join([f"'{n}': 1.5" for n in names]) + "}",
            ", ".join([f"d['{n}']" for n in names]),
        ),
        "an item of a list": ("l = [1.5] * 200", ", ".join([f"l[{i}]" for i in range(GUARDS)])),
    }
    x = np.ones(3)
    found: dict[str, float] = {}

    def warm(f: Any) -> float:
        jitted = funcad.jit(f)
        for _ in range(60):
            jitted(x)
        return least(lambda: jitted(x), number=2_000)

    bare = warm(module_of("def f(x):\n    return x * 2.0\n", folder).f)
    for kind, (declared, values) in kinds.items():
        found[kind] = (warm(module_of(f"{declared}\n\n\n{read.format(values)}", folder).f) - bare) / GUARDS
    found["a call with nothing captured"] = bare
    return found


def tracing(folder: str) -> dict[str, float]:
    """Seconds for the program of a function of 1,000 operations, made anew each time."""
    import funcad

    line = "    x = np.sin(x) * 0.5 + x * 1.01\n"
    written = "import numpy as np\n\n\ndef f(x):\n" + line * (OPERATIONS // 4) + "    return x\n"
    looped = f"import numpy as np\n\n\ndef f(x):\n    for _ in range(250):\n    {line}    return x\n"
    held = "\nimport types\no = types.SimpleNamespace(a=0.5, b=1.01)\n\n\ndef"
    attributes = looped.replace("0.5", "o.a").replace("1.01", "o.b").replace("\n\n\ndef", held)
    x = np.ones(3)
    texts = {"written out": written, "in a loop": looped, "with attributes": attributes}
    found = {}
    for what, text in texts.items():
        jitted = funcad.jit(module_of(text, folder).f)

        def again(jitted: Any = jitted) -> None:
            jitted.clear_cache()
            jitted.lower(x)

        again()
        found[what] = least(again, rounds=8)
        new = [funcad.jit(module_of(text, folder).f) for _ in range(4)]
        found[f"{what}, the first time"] = least(lambda new=new: new.pop().lower(x), rounds=4)  # type: ignore[misc]
    return found


def programs() -> dict[str, Callable[[], tuple[Any, tuple]]]:
    import funcad
    from benchmarks.jitted import PROGRAMS
    from benchmarks.jitted.program import Library

    special = importlib.import_module("scipy.special")
    library = Library(np, funcad.lax, special, funcad, funcad.ops.segment_sum, funcad.tree.map)

    def of(program: Any) -> Callable[[], tuple[Any, tuple]]:
        def made() -> tuple[Any, tuple]:
            f = program.function(library)
            return funcad.jit(funcad.grad(f) if program.gradient else f), program.data(np.float64)

        return made

    return {program.what: of(program) for program in PROGRAMS}


def first_calls() -> dict[str, list[float]]:
    """Seconds of the calls of each program, up to the second that runs what is compiled."""
    import funcad

    found = {}
    for what, made in programs().items():
        call, arguments = made()
        seconds = []
        for _ in range(4):
            gc.collect()
            start = time.process_time()
            call(*arguments)
            seconds.append(time.process_time() - start)
        observed = getattr(call.cache_info(), "observed", 0) if hasattr(call, "cache_info") else 0
        found[what] = [*seconds, float(bool(observed))]
        funcad.config.engine = "native"
    return found


def twins() -> dict[str, float]:
    """Seconds for the twin of a function; of modules, for reading them."""
    from funcad.twin.templates import Untwinnable, rewritten_code

    first, later = [], []
    for name in MODULES:
        module = importlib.import_module(name)
        functions = [f for f in vars(module).values() if type(f) is types.FunctionType and f.__module__ == name]
        methods = [m for c in vars(module).values() if isinstance(c, type) and c.__module__ == name for m in vars(c).values()]
        functions += [m for m in methods if type(m) is types.FunctionType]
        for i, f in enumerate(functions):
            start = time.process_time()
            try:
                rewritten_code(f.__code__, f.__globals__)
            except Untwinnable:
                continue
            (later if i else first).append(time.process_time() - start)
    return {"median": median(later), "worst": max(later), "functions": len(later), "a module": median(first)}


def side(what: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = {"guards": guards, "tracing": tracing}[what](folder) if what in ("guards", "tracing") else globals()[what]()
    print(json.dumps(found))


# -- both sides


def asked(checkout: Path, what: str, cache: str) -> dict[str, Any]:
    """What a process of a checkout says."""
    environment = dict(os.environ, PYTHONPATH=str(checkout), FUNCAD_CACHE_DIR=f"{cache}/{checkout.name}", OMP_NUM_THREADS="1")
    command = [sys.executable, "-W", "ignore", "-c", f"import runpy; runpy.run_path({str(HERE)!r})['side']({what!r})"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def lowest(checkouts: list[Path], what: str, rounds: int, cache: str) -> list[dict[str, Any]]:
    """The least figure of the rounds, for each checkout; they take turns."""
    found: list[dict[str, Any]] = [{} for _ in checkouts]
    for _ in range(rounds):
        for checkout, known in zip(checkouts, found):
            for name, value in asked(checkout, what, cache).items():
                if isinstance(value, list):
                    known[name] = [min(a, b) for a, b in zip(value, known.get(name, value))]
                else:
                    known[name] = min(value, known.get(name, value))
    return found


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(["| " + " | ".join(line) + " |" for line in lines]) + "\n"


def page(old: Path, rounds: int) -> str:
    checkouts = [HERE.parent.parent, old]
    with tempfile.TemporaryDirectory() as cache:
        guard = lowest(checkouts, "guards", rounds, cache)
        trace = lowest(checkouts, "tracing", rounds, cache)
        asked(checkouts[0], "first_calls", cache), asked(old, "first_calls", cache)  # kernels go to the disk
        first = lowest(checkouts, "first_calls", rounds, cache)
        twin = lowest(checkouts[:1], "twins", rounds, cache)[0]
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, llvmlite {metadata.version('llvmlite')}"
    git = [["git", "-C", str(c), "rev-parse", "--short", "HEAD"] for c in checkouts]
    commits = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() for command in git]
    day, busy = time.strftime("%Y-%m-%d"), "the machine was busy"
    ns = lambda s: f"{s * 1e9:.0f} ns"
    ms = lambda s: f"{s * 1e3:.2f} ms"
    text = f"""# What it costs that a jitted function is right

{day}, {versions}; {platform.machine()}, two cores. This checkout is {commits[0]}, the old one {commits[1]}.

`python -m benchmarks.truth OLD_CHECKOUT --rounds {rounds}`: least processor's times of {rounds} rounds, in turns; {busy}.
The old checkout looked at less: what it did not see, it took for constant. Before Python 3.12 the first trace of a function
also pays for a profile function, which sees what of the user's code runs without a twin.

## A guard, and a warm call

"""
    text += table(
        ["a number that is read", "this checkout", "the old one"],
        [[what, ns(guard[0][what]), ns(guard[1][what])] for what in guard[0]],
    )
    text += f"\n## Tracing {OPERATIONS:,} operations\n\n"
    text += table(
        ["", "this checkout", "the old one", "ratio"],
        [[w, ms(trace[0][w]), ms(trace[1][w]), f"{trace[0][w] / trace[1][w]:.2f}"] for w in trace[0]],
    )
    rows, observed, compiled = [], [], []
    for what in first[1]:
        if what not in first[0]:
            continue
        new, before = first[0][what], first[1][what][0]
        seen = bool(new[4])
        traced = new[1] if seen else new[0]
        observed.append(new[0] / before)
        compiled.append(traced / before)
        rows.append([what, ms(new[0]) if seen else "", ms(traced), ms(before), f"{compiled[-1]:.2f}"])
    text += f"""
## First calls of the jitted programs

The first call over that of the old checkout: median {median(observed):.2f}, worst {max(observed):.2f}. The call that traces
and compiles over it: median {median(compiled):.2f}, worst {max(compiled):.2f}. Where the first column is empty, the first call
traces.

"""
    text += table(["program", "observes", "traces and compiles", "the old one", "ratio"], rows)
    text += f"""
## A twin

Of {twin["functions"]:.0f} functions in {len(MODULES)} modules of Python: median {ms(twin["median"])}, worst
{ms(twin["worst"])}. The first function of a module pays for reading the module as well: median {ms(twin["a module"])}.
"""
    return text


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("old", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each checkout for each figure")
    options = parser.parse_args()
    text = page(options.old.resolve(), options.rounds)
    (HERE.parent / "RESULTS_TRUTH.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    run()
