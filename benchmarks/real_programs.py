"""Real programs, un-jitted, beside HIPS autograd and torch: value_and_grad, Hessian products and Hessians.

Idea: small benchmarks are what a library was tuned for; these programs (`benchmarks/real`) are written as users of HIPS
autograd write theirs, and nothing is jitted. Where a library has several ways to a derivative, each is tried and the fastest
is measured. Besides the median a row has what a user meets first: the first and second call, the worst of the calls after the
first (and which it was), and the peak of the Python heap. Traps: on a busy machine a call may be interrupted at any time, so
time is the processor's, of all threads, not the clock's; the objects of all peers in one process would make each garbage
collection take 0.15 s, so they are frozen out of it; tracemalloc slows everything, so peaks are measured last; torch
allocates where Python cannot see it.
"""

from __future__ import annotations

import datetime
import gc
import itertools
import time
import tracemalloc
from collections.abc import Callable, Iterable
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import numpy

import funcad
import funcad.scipy.special
from benchmarks import harness, per_operation
from benchmarks.harness import Row, Target
from benchmarks.real import PROGRAMS
from benchmarks.real.program import Library, Program

__all__ = ["results", "run"]

EARLY = 40  # calls that are timed one by one: by then everything that compiles in time has compiled
LIMITS = {"value_and_grad": (0.65, 1.0), "hvp": (0.35, 0.6), "hessian": (0.35, 0.6)}  # median and worst, of autograd's time
Call = Callable[[], Any]


class Early(NamedTuple):
    """The first calls of a candidate, one by one: seconds, and the number of the slowest after the first.

    `lost`: what the calls before that one took over the usual time. If that is no less than what this call took over it, what
    it compiled has been shown to be repaid: to have gone on as before would have cost as much again.
    """

    first: float
    second: float
    worst: float
    number: int
    usual: float
    lost: float


class Result(NamedTuple):
    """One row: seconds of each library's usual call, its first calls, bytes at the peak."""

    what: str
    derivative: str
    seconds: dict[str, float]
    early: dict[str, Early]
    peaks: dict[str, int]


def _map(g: Callable[[Any], Any], tree: Any) -> Any:
    """g of each leaf of dictionaries, lists and tuples."""
    if isinstance(tree, dict):
        return {k: _map(g, v) for k, v in tree.items()}
    return type(tree)(_map(g, v) for v in tree) if isinstance(tree, (tuple, list)) else g(tree)


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [leaf for k in sorted(tree) for leaf in _leaves(tree[k])]
    return [leaf for v in tree for leaf in _leaves(v)] if isinstance(tree, (tuple, list)) else [tree]


def direction(start: Any) -> Any:
    """What a Hessian is multiplied by: like `start`, with other numbers."""
    random = numpy.random.default_rng(11)
    return _map(lambda a: random.normal(size=numpy.shape(a)), start)


def own_ways(program: Program, derivative: str) -> dict[str, Call]:
    library = Library(numpy, funcad.scipy.special, numpy.stack)
    f, x, v = program.function(library), program.start, direction(program.start)
    if derivative == "hvp":
        return {"hvp": lambda: funcad.hvp(f, (x,), (v,))}
    g = getattr(funcad, derivative)(f)
    return {derivative: lambda: g(x)}


def autograd_ways(module: Any, program: Program, derivative: str) -> dict[str, Call]:
    """The ways of autograd's users; not all of them take dictionaries."""
    from autograd import numpy as anp
    from autograd.scipy import special

    library = Library(anp, special, anp.array)
    f, x, v = program.function(library), program.start, direction(program.start)
    if derivative == "value_and_grad":
        g = module.value_and_grad(f)
        return {"value_and_grad": lambda: g(x)}
    gradient = module.grad(f)
    if derivative == "hvp":
        forward, reverse = module.make_jvp(gradient), module.make_hvp(f)
        ways = {"make_hvp": lambda: reverse(x)[0](v)}
        if isinstance(x, numpy.ndarray):
            of_product = module.hessian_vector_product(f)
            ways |= {"make_jvp": lambda: forward(x)(v)[1], "hessian_vector_product": lambda: of_product(x, v)}
        return ways
    hessian, rows = module.hessian(f), module.jacobian(gradient)
    return {"hessian": lambda: hessian(x), "jacobian of grad": lambda: rows(x)}


def torch_ways(torch: Any, program: Program, derivative: str) -> dict[str, Call]:
    """torch's tape, twice for second derivatives, or torch.func."""
    assert program.torch is not None
    f = program.torch(torch)
    tensor = lambda a: torch.from_numpy(numpy.array(a))
    x, v = _map(tensor, program.start), _map(tensor, direction(program.start))

    def gradient(create_graph: bool) -> tuple[Any, list[Any], Any]:
        leaves: list[Any] = []

        def leaf(a: Any) -> Any:
            leaves.append(a.detach().requires_grad_())
            return leaves[-1]

        given = _map(leaf, x)
        value = f(given)
        return value, leaves, torch.autograd.grad(value, leaves, create_graph=create_graph)

    def like(grads: Iterable[Any]) -> Any:
        rest = iter(grads)
        return _map(lambda a: next(rest), x)

    def value_and_grad() -> Any:
        value, _, grads = gradient(False)
        return value.detach(), like(grads)

    def twice() -> Any:
        _, leaves, grads = gradient(True)
        vectors: list[Any] = []
        _map(vectors.append, v)
        return like(torch.autograd.grad(grads, leaves, vectors))

    def rows() -> Any:
        _, (leaf,), (grad,) = gradient(True)
        return torch.stack([torch.autograd.grad(g, leaf, retain_graph=True)[0] for g in grad.unbind()])

    if derivative == "value_and_grad":
        return {"tape": value_and_grad}
    if derivative == "hvp":
        return {"twice": twice}
    hessian = torch.func.hessian(f)
    return {"rows": rows, "torch.func": lambda: hessian(x)}


def clean() -> None:
    """No garbage of others is collected in what follows, and no object of others is looked at."""
    gc.collect()
    gc.freeze()


def early_calls(call: Call) -> Early:
    """Times of the first calls. The clock is the processor's, so that an interruption does not count."""
    clean()
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < 8 or len(times) < EARLY and time.perf_counter() - start < 4.0:
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    worst, usual = max(times[1:]), median(times[2:])
    number = times.index(worst, 1)
    lost = sum([max(0.0, t - usual) for t in times[:number]])
    return Early(times[0], times[1], worst, number + 1, usual, lost)


def fastest(ways: dict[str, Call]) -> tuple[Call, Early]:
    """The way with the lowest median, and its first calls."""
    found = []
    for call in ways.values():
        try:
            found.append((call, early_calls(call)))
        except NotImplementedError:  # autograd has no forward rule of solve or gammaln: its users take another way
            continue
    return min(found, key=lambda pair: pair[1].usual)


def peak(call: Call) -> int:
    """Bytes of the Python heap during one call, over those before."""
    gc.collect()
    tracemalloc.start()
    call()
    _, top = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return top


def check(what: str, calls: dict[str, Call]) -> None:
    """All results equal, but for rounding."""
    expected = [numpy.asarray(a) for a in _leaves(calls["funcad"]())]
    for name, call in calls.items():
        found = [numpy.asarray(a) for a in _leaves(call())]
        assert len(found) == len(expected), f"{what}: {name} gives {len(found)} results, funcad {len(expected)}"
        for a, b in zip(found, expected):
            scale = float(numpy.max(numpy.abs(b), initial=1e-30))
            numpy.testing.assert_allclose(a, b, rtol=0, atol=1e-7 * scale, err_msg=f"{what}: {name}")


def measured(program: Program, derivative: str, rounds: int) -> Result:
    ways = {"funcad": own_ways(program, derivative)}
    autograd, torch = harness.peer("autograd"), harness.peer("torch")
    if autograd:
        ways["autograd"] = autograd_ways(autograd, program, derivative)
    if torch and program.torch is not None:
        torch.set_num_threads(1)  # as the others' BLAS; on arrays as small as these a second one only costs
        ways["torch"] = torch_ways(torch, program, derivative)
    what = f"{program.what}, {derivative}"
    calls, early = {}, {}
    for name, some in ways.items():
        calls[name], early[name] = fastest(some)
    check(what, calls)
    clean()
    seconds = harness.interleaved(dict(calls), rounds, time.process_time)
    return Result(what, derivative, seconds, early, {n: peak(c) for n, c in calls.items() if n != "torch"})


def results(rounds: int, names: Iterable[str] = ()) -> list[Result]:
    """All programs, or those whose names contain one of `names`."""
    chosen = [p for p in PROGRAMS if not names or any(n in p.what for n in names)]
    for name in ("autograd", "torch"):
        if harness.peer(name) is None:
            print(f"{name} is not installed: left out")
    return [measured(p, d, rounds) for p in chosen for d in p.derivatives]


def run(rounds: int) -> list[Row]:
    """The medians as rows of the harness, each with the target of its kind, and what an operation costs."""
    limits = {d: Target("autograd", None, limit) for d, (_, limit) in LIMITS.items()}
    rows = [Row(r.what, r.seconds, target=limits[r.derivative]) for r in results(rounds)]
    return [*rows, *per_operation.run(rounds)]


def _time(seconds: float | None) -> str:
    return "" if seconds is None else harness.formatted(seconds, "s")


def _ratio(result: Result, name: str) -> str:
    return f"{result.seconds['funcad'] / result.seconds[name]:.2f}" if name in result.seconds else ""


def table(found: list[Result]) -> str:
    """A line for each row: medians and ratios, then first, second and worst call and the peak, funcad's and autograd's."""
    lines = [["", "funcad", "autograd", "torch", "/ autograd", "/ torch"]]
    lines[0] += ["first", "second", "worst (which)", "peak KiB", "autograd: first", "worst", "peak KiB"]
    for r in found:
        own, theirs = r.early["funcad"], r.early.get("autograd")
        line = [r.what, *[_time(r.seconds.get(n)) for n in lines[0][1:4]], _ratio(r, "autograd"), _ratio(r, "torch")]
        line += [_time(own.first), _time(own.second), f"{_time(own.worst)} ({own.number})", f"{r.peaks['funcad'] / 1024:.0f}"]
        if theirs is not None:
            line += [_time(theirs.first), _time(theirs.worst), f"{r.peaks['autograd'] / 1024:.0f}"]
        lines.append(line + [""] * (len(lines[0]) - len(line)))
    return harness.markdown(lines)


def summary(found: list[Result]) -> str:
    """Median and worst ratio to each peer, and how many rows are slower, of first and of second derivatives."""
    lines = [["funcad's time / the peer's", "rows", "median", "mean (geometric)", "best", "worst", "slower than it"]]
    lines[0] += ["target: median", "worst"]
    for peer, (what, kinds) in itertools.product(
        ("autograd", "torch"), {"value_and_grad": ("value_and_grad",), "hvp and hessian": ("hvp", "hessian")}.items()
    ):
        ratios = [r.seconds["funcad"] / r.seconds[peer] for r in found if r.derivative in kinds and peer in r.seconds]
        if ratios:
            figures = median(ratios), geometric_mean(ratios), min(ratios), max(ratios)
            line = [f"{what} / {peer}", str(len(ratios)), *[f"{x:.2f}" for x in figures], str(sum(x > 1.0 for x in ratios))]
            lines.append([*line, *([str(x) for x in LIMITS[kinds[0]]] if peer == "autograd" else ["", ""])])
    text = harness.markdown(lines)
    late = [(r, r.early["funcad"]) for r in found if r.early["funcad"].worst > 10.0 * r.seconds["funcad"]]
    hasty = [r.what for r, early in late if early.worst - early.usual > early.lost]
    text += f"\n\nRows of which a call after the first takes more than ten medians: {len(late)} of {len(found)}; "
    text += f"of these, rows where the calls before it had not lost as much: {len(hasty)}{'' if not hasty else f' {hasty}'}."
    peaks = [r.peaks["funcad"] / r.peaks["autograd"] for r in found if "autograd" in r.peaks]
    if peaks:
        text += f"\nPeak of the Python heap / autograd's: median {median(peaks):.2f}, worst {max(peaks):.2f}."
    return text


if __name__ == "__main__":
    options = harness.arguments((__doc__ or "").partition("\n")[0])
    print(f"{datetime.date.today()}, {harness.versions()}", end="\n\n", flush=True)
    everything = results(options.rounds)
    print(summary(everything), table(everything), sep="\n\n", flush=True)
    print("", harness.table(per_operation.run(options.rounds)), sep="\n")
