"""`python -m tests.mutations`: sixty planted bugs, drawn by a seed, and which test finds each.

`draw` reads funcad/ and writes tests/mutations.json: a wrong sign, factor, mask, shape, key, dtype or end of a loop, so many
for each part of the package (`PARTS`). `run` plants one at a time in a copy of a checkout and runs pytest with `-x`, the tests
that mirror the changed folder first, then wider (`STAGES`); each answer is appended to a file of JSON lines, and what stands
there is not run again. `together` plants all that nothing has found at once, for one run of everything. `check` runs the tests
that found something on the code as it is, where they must pass. `compare` makes a table of two such files: nothing is lost if
what was found before is found after.

    python -m tests.mutations draw --seed 26
    python -m tests.mutations run --out before.jsonl
    python -m tests.mutations run --tree ../other/checkout --tests ../other/checkout/tests --out after.jsonl
    python -m tests.mutations check --out after.jsonl
    python -m tests.mutations compare before.jsonl after.jsonl

A mutation names the function (or the assignment at module level) and an expression in it, not a line, so it is found again
after files were moved or joined, and after a primitive lost its `_p`. `plant` says where each would stand. If one is not found,
`now` beside it in the list says the `path`, `name`, `old`, `new` and `ordinal` that hold today; `words` are further names by
which its tests are found sooner, `tests` is what pytest is given in the stage "chosen". `passed` lists what was drawn and left
out, and why: it changes no result.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.mutation_kinds import Site, draw, modulo, sites_of

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutations.json"

STAGES = ("chosen", "own", "near", "mirrored", "likely", "core", "whole")
CORE = ("ir", "primitives", "numpy", "whole")
MIRRORS = {"primitives": ("primitives", "ir"), "transforms": ("transforms", "ir"), "autograd": ("autograd",)}
COMMON = frozenset("run init value loop key call batch body program derived user named ends table".split())  # say nothing
TABLES = ("ir/test_every_primitive.py", "numpy/test_surface.py")  # one test for each line and check: chosen by name


# ---------------------------------------------------------------- planting


def planted(m: dict[str, Any], root: Path) -> tuple[Path, str]:
    """The file under `root` in which the mutation has its place, and its text with the mutation; LookupError if none has it."""
    m = {**m, **m.get("now", {})}
    old, last = modulo(m["old"]), modulo(m["name"]).rsplit(".", 1)[-1]
    ways = (  # the first that finds anything
        lambda path, name: path == m["path"] and name == modulo(m["name"]),
        lambda path, name: name == modulo(m["name"]),
        lambda path, name: name.rsplit(".", 1)[-1] == last,
    )
    found: list[tuple[str, Site]] = []
    for path in sorted((root / "funcad").rglob("*.py"), key=lambda p: (p != root / m["path"], p)):
        if last in path.read_text(encoding="utf8"):
            for s in sites_of(path):
                if modulo(s.name).rsplit(".", 1)[-1] == last and modulo(ast.unparse(s.node)) == old:
                    found.append((path.relative_to(root).as_posix(), s))
        if any(ways[0](path, modulo(s.name)) for path, s in found):
            break
    for way in ways:
        chosen = [(path, s) for path, s in found if way(path, modulo(s.name))]
        if chosen:
            break
    else:
        raise LookupError(f"{m['number']}: no {m['name']} with {m['old']!r}")
    files = sorted({path for path, _ in chosen}, key=lambda p: -difflib.SequenceMatcher(None, p, m["path"]).ratio())
    here = [s for path, s in chosen if path == files[0]]
    if len(files) > 1 and {modulo(s.name) for s in here} != {modulo(m["name"])}:
        raise LookupError(f"{m['number']}: {m['name']} with {m['old']!r} is in {', '.join(files)}")
    path = root / files[0]
    node = here[min(m["ordinal"], len(here) - 1)].node
    return path, _replaced(path.read_text(encoding="utf8"), node, _in_words_of(node, m["old"], m["new"]))


def _in_words_of(node: ast.expr, old: str, new: str) -> str:
    """What is planted, with the names that the place has now."""
    before = ast.parse(old, mode="eval").body
    for a, b in zip(ast.walk(before), ast.walk(node)):
        for field in ("id", "attr"):
            if getattr(a, field, None) != getattr(b, field, None):
                new = re.sub(rf"\b{getattr(a, field)}\b", str(getattr(b, field)), new)
    return new


def _replaced(source: str, node: ast.expr, new: str) -> str:
    lines = source.encode().splitlines(keepends=True)
    assert node.end_lineno is not None and node.end_col_offset is not None
    start, end = (sum(map(len, lines[: n - 1])) for n in (node.lineno, node.end_lineno))
    data = source.encode()
    text = (data[: start + node.col_offset] + f"({new})".encode() + data[end + node.end_col_offset :]).decode()
    compile(text, "planted", "exec")
    return text


# ---------------------------------------------------------------- running


def words_of(m: dict[str, Any], path: Path) -> list[str]:
    """By which the tests that concern it may be known: its own name, those of what uses it in its file, and the file's."""
    users, names = {m["name"].split(".")[0]}, [m["name"].rsplit(".", 1)[-1], m["name"].split(".")[0]]
    for _ in range(3):
        for node in ast.parse(path.read_text(encoding="utf8")).body:
            read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
            if read & users and not isinstance(node, (ast.Import, ast.ImportFrom)):
                made = [t.id for t in getattr(node, "targets", ()) if isinstance(t, ast.Name)]
                names += made + [node.name for node in [node] if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        users |= set(names)
    shared = r"_(p|jvp|transpose|batch|abstract|impl|tangents?|rule|emit|kernel|linear)$"
    words = [re.sub(shared, "", re.sub(shared, "", n)).strip("_") for n in names]
    words = [w for w in [*m.get("words", ()), *words, Path(m["path"]).stem] if len(w) > 2 and w not in COMMON]
    return list(dict.fromkeys(words))[:16]


def selection(m: dict[str, Any], stage: str, tests: Path, path: Path) -> list[str]:
    """What pytest is given in one stage; nothing if the stage has nothing of its own."""
    folder = m["path"].split("/")[1]
    mirrors = [tests / f for f in MIRRORS.get(folder, (folder,)) if (tests / f).is_dir()]
    mirrored = [p for f in mirrors for p in sorted(f.rglob("test_*.py"))]
    words = words_of(m, path)
    table = {"rules": TABLES[0], "primitives": TABLES[0], "functions": TABLES[1]}.get(m["part"])

    def rank(path: Path) -> int:
        text = path.read_text(encoding="utf8")
        parts = set(re.split(r"[_/]", m["path"].removesuffix(".py"))) & set(path.stem.split("_"))
        named = 1000 * any(w in path.stem for w in words) + 100 * len(parts)
        return named + sum(len(re.findall(rf"\b_?{w}(?:_p)?\b", text)) for w in words)

    best = sorted(filter(rank, mirrored), key=rank, reverse=True)
    if stage == "chosen":  # by hand
        return list(m.get("tests", ()))
    if stage == "own" and table:
        return [str(tests / table), "-k", " or ".join(words)]
    if stage == "own":
        return list(map(str, best[:2]))
    if stage == "near" and table:
        tables = [str(tests / t) for t in TABLES]
        return [*tables, *map(str, best[:4]), "-k", " or ".join(words)]
    if stage == "near":
        return list(map(str, best[2:8]))
    if stage == "mirrored":
        return list(map(str, sorted(mirrored, key=lambda p: (-rank(p), p))))
    if stage == "likely":
        others = [p for p in sorted(tests.rglob("test_*.py")) if p not in mirrored]
        return list(map(str, sorted(filter(rank, others), key=rank, reverse=True)[:12]))
    return [str(tests / f) for f in CORE] if stage == "core" else [str(tests)]


class Copy:
    """A copy of a checkout, in which mutations stand for a while; the checkout itself is never written."""

    def __init__(self, tree: Path, tests: Path | None):
        self.root = Path(tempfile.mkdtemp(prefix="mutations-"))
        unwanted = shutil.ignore_patterns(".git", "__pycache__", "*.egg-info", ".hypothesis", ".mypy_cache", ".venv", "_build")
        for p in sorted(tree.iterdir()):
            if p.name in (".git", ".venv") or tests is not None and p.name == "tests":
                continue
            (shutil.copytree(p, self.root / p.name, ignore=unwanted) if p.is_dir() else shutil.copy(p, self.root / p.name))
        if tests is not None:
            shutil.copytree(tests, self.root / "tests", ignore=unwanted)

    def write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf8")
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def pytest(self, arguments: list[str], limit: float, prefix: str, cache: Path) -> dict[str, Any]:
        """What a run says: the test that failed, or that all passed, or that time was up; and its seconds."""
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"XDG_CACHE_HOME": str(cache), "HYPOTHESIS_STORAGE_DIRECTORY": str(cache / "hypothesis")}
        command = [*shlex.split(prefix), "timeout", "-k", "5", str(limit), sys.executable, "-m", "pytest", "-x", "-vv"]
        command += ["--tb=line", "-p", "no:cacheprovider", *arguments]
        start = time.time()
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        seconds = round(time.time() - start, 1)
        lines = done.stdout.splitlines()
        own = re.search(r"in (\d+\.\d+)s", lines[-1]) if lines else None
        answer = {"seconds": float(own.group(1)) if own else seconds, "code": done.returncode}
        summary = done.stdout[done.stdout.rfind("short test summary") :]
        failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$", summary, re.M)
        if failed and done.returncode in (1, 2):
            how = "collection" if done.returncode == 2 else "test"
            return {**answer, "by": how, "test": failed.group(1), "says": (failed.group(2) or "")[:160]}
        if done.returncode in (0, 4, 5):  # 4: a file of tests has another name now; 5: no test has that name
            return {**answer, "by": None}
        last = "".join([s for s in lines if "::" in s][-1:])[:200]
        answer |= {"by": "limit" if done.returncode in (124, 137) else "crash", "test": last.strip()}
        unfinished = answer["by"] == "limit" and last and not re.search(r"(PASSED|SKIPPED|XFAIL)\s*(\[.*\])?$", last)
        if unfinished and arguments != [last.strip()]:  # is it only slow?
            alone = self.pytest([last.strip()], 100, prefix, cache)
            answer["by"] = "hang" if alone["by"] in ("limit", "test", "crash") else "limit"
        return answer


def run(options: argparse.Namespace) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a run in the background ignores it, and so would the tests
    known = {(r["number"], r["stage"]): r for r in read(options.out)}
    found = {number for (number, _), r in known.items() if r["by"] not in (None, "limit")}
    mine = Copy(options.tree, options.tests)
    caches = Path(tempfile.mkdtemp(prefix="mutations-cache-"))
    try:
        for stage in options.stages.split(","):
            for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
                if m["number"] in found or (m["number"], stage) in known or options.only and m["number"] not in options.only:
                    continue
                record: dict[str, Any] = {"number": m["number"], "of": told(m), "stage": stage}
                try:
                    path, text = planted(m, mine.root)
                except LookupError as error:
                    print(f"not planted: {error}", file=sys.stderr)
                    continue
                chosen = selection(m, stage, mine.root / "tests", path)
                if chosen:
                    before = path.read_text(encoding="utf8")
                    cache = caches / (str(m["number"]) if m["part"] in ("native", "cuda", "backends") else "shared")
                    cache.mkdir(exist_ok=True)
                    mine.write(path, text)
                    try:
                        relative = [a.removeprefix(f"{mine.root}/") for a in chosen]
                        record |= mine.pytest([*relative, *options.pytest], options.limit, options.prefix, cache)
                    finally:
                        mine.write(path, before)
                    if record["by"] not in (None, "limit"):
                        found.add(m["number"])
                    with options.out.open("a", encoding="utf8") as file:
                        file.write(json.dumps(record) + "\n")
                    print(json.dumps(record), flush=True)
    finally:
        shutil.rmtree(mine.root, ignore_errors=True)
        shutil.rmtree(caches, ignore_errors=True)


def check(options: argparse.Namespace) -> None:
    """The tests that found something, on the code as it is: one that fails here found nothing."""
    tests = sorted({r["test"] for r in read(options.out) if r["by"] == "test"})
    mine = Copy(options.tree, options.tests)
    for at in range(0, len(tests), 20):  # -x stops at the first of them
        print(json.dumps(mine.pytest(tests[at : at + 20], 600, options.prefix, mine.root)), flush=True)
    shutil.rmtree(mine.root, ignore_errors=True)


def together(options: argparse.Namespace) -> None:
    """All that nothing has found yet at once, through the whole suite without `-x`: one long run instead of many.

    What fails is to be given to each of them as its `tests`, for the stage "chosen"; if nothing fails, none is found.
    """
    found = {r["number"] for r in read(options.out) if r["by"] not in (None, "limit")}
    mine = Copy(options.tree, options.tests)
    changed: dict[Path, int] = {}
    for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
        if m["number"] not in found and (not options.only or m["number"] in options.only):
            path, text = planted(m, mine.root)
            assert path not in changed, f"{m['number']} and {changed[path]} are in one file: choose by --only"
            changed[path] = m["number"]
            mine.write(path, text)
    print("planted:", *changed.values(), flush=True)
    command = [*shlex.split(options.prefix), sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=line"]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"XDG_CACHE_HOME": str(mine.root / "cache")}
    subprocess.run([*command, "-o", "faulthandler_timeout=300", *options.pytest], cwd=mine.root, env=environment, check=False)
    shutil.rmtree(mine.root, ignore_errors=True)


def told(m: dict[str, Any]) -> str:
    """What a result is of: a list that was drawn anew may have another mutation under a number."""
    return f"{m['path']} {m['name']}: {m['new']}"


def read(path: Path) -> list[dict[str, Any]]:
    """The results that are of mutations in the list."""
    current = {m["number"]: told(m) for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]}
    lines = path.read_text(encoding="utf8").splitlines() if path.exists() else []
    return [r for r in map(json.loads, lines) if current.get(r["number"]) == r["of"]]


def by(records: list[dict[str, Any]], number: int) -> str:
    """By which test it was found, or how far it was looked for."""
    mine = [r for r in records if r["number"] == number]
    for r in mine:
        if r["by"] not in (None, "limit"):
            return f"`{r['test'].removeprefix('tests/')}`" + (f" ({r['by']})" if r["by"] != "test" else "")
    return f"not found in {', '.join(r['stage'] for r in mine)}" if mine else "not run"


def compare(options: argparse.Namespace) -> None:
    before, after = read(options.before), read(options.after)
    print("| mutation | kind | where | what | found before by | found after by |\n|---|---|---|---|---|---|")
    for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
        what = f"`{m['old']}` → `{m['new']}`".replace("|", "\\|").replace("\n", " ")
        where = f"{m['path'].removeprefix('funcad/')} {m['name']}"
        print(f"| {m['number']} | {m['kind']} | {where} | {what} | {by(before, m['number'])} | {by(after, m['number'])} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("draw").add_argument("--seed", type=int, default=26)
    for name in ("run", "check", "plant", "together"):
        command = commands.add_parser(name)
        command.add_argument("--tree", type=Path, default=ROOT, help="a checkout, whose funcad/ is changed in a copy")
        command.add_argument("--tests", type=Path, help="a folder that takes the place of its tests/")
        command.add_argument("--out", type=Path, default=Path("mutations.jsonl"))
        command.add_argument("--prefix", default="", help="a command that runs the command after it: nice, a queue")
        command.add_argument("--limit", type=float, default=150, help="seconds for one mutation in one stage")
        command.add_argument("--stages", default="own,near,mirrored,likely", help=f"of {','.join(STAGES)}")
        command.add_argument("--only", type=int, nargs="*", help="numbers of mutations")
        command.add_argument("--pytest", type=shlex.split, default=[], help="further arguments for pytest, as one text")
    both = commands.add_parser("compare")
    both.add_argument("before", type=Path)
    both.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "draw":
        before = json.loads(LIST.read_text(encoding="utf8")) if LIST.exists() else {"mutations": [], "passed": []}
        mutations = [  # with what was said by hand of the same ones
            next((b for b in before["mutations"] if m.items() <= b.items()), m) for m in draw(options.seed, before["passed"])
        ]
        drawn = {"seed": options.seed, "mutations": mutations, "passed": before["passed"]}
        LIST.write_text(json.dumps(drawn, indent=1, ensure_ascii=False) + "\n", encoding="utf8")
    elif options.command == "plant":
        for m in json.loads(LIST.read_text(encoding="utf8"))["mutations"]:
            try:
                print(m["number"], planted(m, options.tree)[0].relative_to(options.tree))
            except (LookupError, SyntaxError) as error:
                print(m["number"], "not planted:", error)
    else:
        {"run": run, "check": check, "compare": compare, "together": together}[options.command](options)


if __name__ == "__main__":
    main()
