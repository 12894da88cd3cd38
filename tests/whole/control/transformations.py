"""What every program must be under every transformation: what plain Python makes of each input, lane by lane.

Inputs come in orders in which a way is met for the first time, met again and compiled, and left in the middle for a new one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcad
from funcad import tree
from funcad.errors import TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError
from tests.unseen import Noted
from tests.whole.control.judged import (
    Recorder,
    by_differences,
    close,
    curvature,
    curved,
    directions,
    ended,
    loss_of,
    plain,
    same,
    slopes,
    stacked,
)
from tests.whole.control.program import Program, fresh

__all__ = ["TRANSFORMATIONS", "SLOPES", "LANES", "REFUSALS"]

REFUSALS = (TracerBoolConversionError, TracerIntegerConversionError, TracerArrayConversionError)
TRANSFORMATIONS: dict[str, Callable[[Program], None]] = {}
SLOPES: set[str] = set()  # those that need a floating argument and result
LANES: set[str] = set()  # those that give results of lanes in one array


def _transformation(*kinds: set[str]) -> Callable[[Callable], Callable]:
    def register(check: Callable[[Program], None]) -> Callable[[Program], None]:
        name = check.__name__.strip("_")
        TRANSFORMATIONS[name] = check
        for kind in kinds:
            kind.add(name)
        return check

    return register


def _orders(program: Program) -> list[int]:
    every = list(range(len(program.inputs)))
    between = [j for k in every[1:] for j in (k, 0, k)]
    return [0, 0, *between, *every[::-1], *every]


def _short(program: Program) -> list[int]:
    every = list(range(len(program.inputs)))
    return [*every, *every, *every[::-1]]


# ---------------------------------------------------------------- jit


@_transformation()
def jit(program: Program) -> None:
    """Values, exceptions with their messages, arguments afterwards, and all that is said."""
    recorder = Recorder()
    compiled = funcad.jit(program.call(recorder.debug))
    for turn, k in enumerate(_orders(program)):
        same(ended(compiled, program.inputs[k], recorder), plain(program, k), f"call {turn}, input {k}")


@_transformation()
def jit_in_each_order(program: Program) -> None:
    """Each input is once the first; effects are io_callbacks."""
    for first in range(len(program.inputs)):
        recorder = Recorder()
        compiled = funcad.jit(program.call(recorder.io))
        others = [k for k in range(len(program.inputs)) if k != first]
        for turn, k in enumerate([first, first, *others, first, *others[::-1], *others, first]):
            found = ended(compiled, program.inputs[k], recorder)
            same(found, plain(program, k), f"from input {first}, call {turn}, input {k}")


@_transformation()
def jit_inside_jit(program: Program) -> None:
    recorder = Recorder()
    inner = funcad.jit(program.call(recorder.debug))
    outer = funcad.jit(lambda *args: inner(*args))
    for turn, k in enumerate(_short(program)):
        same(ended(outer, program.inputs[k], recorder), plain(program, k), f"call {turn}, input {k}")


@_transformation()
def jit_is_warm(program: Program) -> None:
    """A way that has been met is no longer run by Python."""
    recorder, runs = Recorder(), Noted()
    f = program.call(recorder.debug)

    def counted(*args: Any) -> Any:
        runs.note()
        return f(*args)

    compiled = funcad.jit(counted)
    with funcad.config.set(jit_patience=0):  # else what costs much is waited for
        for _ in range(6):  # compiled code rounds in its own way, and may so meet a way of its own
            runs.clear()
            for k in range(len(program.inputs)):
                if plain(program, k).error is None:
                    ended(compiled, program.inputs[k], recorder)
    assert not runs, f"Python ran {len(runs)} times more"


@_transformation()
def jit_without_guards(program: Program) -> None:
    """The error of a trace without values, where values are asked for: nothing is said, nothing written."""
    recorder = Recorder()
    compiled = funcad.jit(program.call(recorder.debug), guards=False)
    for k, args in enumerate(program.inputs):
        found = ended(compiled, args, recorder)
        if not program.asks:
            if not program.catches or not isinstance(found.error, np.linalg.LinAlgError):
                same(found, plain(program, k), f"input {k}")
            continue
        if type(found.error) not in REFUSALS:
            raise AssertionError(f"input {k}: {found.error!r}, {found.value}") from found.error
        close(found.arguments, args, "an argument was written")
        assert not found.said


def _same_slopes(program: Program, gradient: Callable[..., Any], recorder: Recorder) -> None:
    for turn, k in enumerate(_short(program)):
        found, expected = ended(gradient, program.inputs[k], recorder), slopes(program, k)
        same(found, expected, f"call {turn}, input {k}", values=False)
        if found.error is None:
            close(found.value, expected.value, f"call {turn}, input {k}", rtol=1e-7)
            close(found.arguments, program.inputs[k], "grad wrote into its caller's arrays")


@_transformation(SLOPES)
def grad(program: Program) -> None:
    """Un-jitted, which all other gradients are compared with: what differences say, where they can tell."""
    for k, args in enumerate(program.inputs):
        found, expected = slopes(program, k), plain(program, k)
        same(found, expected, f"input {k}", values=False)
        slope = None if expected.error is not None or k in program.apart else by_differences(program, k)
        if slope is not None:
            along = [np.sum(g * v) for g, v in zip(tree.leaves(found.value), tree.leaves(directions(program, 0)))]
            assert abs(sum(along) - slope) <= 1e-5 * max(1.0, *np.abs(along)), f"{k}: {sum(along)}, by differences {slope}"
        close(found.arguments, args, "grad wrote into its caller's arrays")


@_transformation(SLOPES)
def grad_jit(program: Program) -> None:
    recorder = Recorder()
    gradient = funcad.grad(loss_of(funcad.jit(program.call(recorder.debug))), argnums=program.floating)
    _same_slopes(program, gradient, recorder)


@_transformation(SLOPES)
def jit_grad(program: Program) -> None:
    recorder = Recorder()
    gradient = funcad.jit(funcad.grad(loss_of(program.call(recorder.debug)), argnums=program.floating))
    _same_slopes(program, gradient, recorder)


@_transformation(SLOPES)
def jit_grad_jit(program: Program) -> None:
    recorder = Recorder()
    loss = loss_of(funcad.jit(program.call(recorder.debug)))
    _same_slopes(program, funcad.jit(funcad.grad(loss, argnums=program.floating)), recorder)


@_transformation(SLOPES)
def jvp_jit(program: Program) -> None:
    """Of all that is returned, and vjp likewise; a jitted jvp."""
    f = program.call(Recorder().debug)
    compiled = funcad.jit(f)

    def of(f: Callable[..., Any], k: int) -> Callable[..., Any]:
        def run(*floating: Any) -> Any:
            args = list(program.inputs[k])
            for i, x in zip(program.floating, floating):
                args[i] = x
            return [y for y in tree.leaves(f(*fresh(tuple(args)))) if np.result_type(y).kind == "f"]

        return run

    v = directions(program, 0)
    jitted = [funcad.jit(lambda *xs, k=k: funcad.jvp(of(f, k), xs, v)) for k in range(len(program.inputs))]
    for turn, k in enumerate(_short(program)):
        if plain(program, k).error is not None:
            continue
        xs = fresh(tuple([program.inputs[k][i] for i in program.floating]))
        expected = funcad.jvp(of(f, k), xs, v)
        close(funcad.jvp(of(compiled, k), xs, v), expected, f"call {turn}, input {k}", rtol=1e-7)
        close(jitted[k](*xs), expected, f"jitted, call {turn}, input {k}", rtol=1e-7)
        values, pullback = funcad.vjp(of(compiled, k), *xs)
        own, other = funcad.vjp(of(f, k), *xs)
        close(values, own, "values of vjp")
        ones = tree.map(np.ones_like, own)
        close(pullback(ones), other(ones), f"vjp, call {turn}, input {k}", rtol=1e-7)


@_transformation(SLOPES)
def hvp(program: Program) -> None:
    """Both nestings, around a jitted function and inside jit."""
    f = program.call(Recorder().debug)
    compiled = funcad.jit(f)
    for k in [*range(len(program.inputs)), 0]:
        if plain(program, k).error is not None:
            continue
        args = fresh(program.inputs[k])
        xs = tuple([args[i] for i in program.floating])
        for forward in (True, False):
            within, around = curved(compiled, args, program, forward), funcad.jit(curved(f, args, program, forward))
            for what, run in (("around jit", within), ("inside jit", around), ("again", around)):
                close(run(*xs), curvature(program, k), f"input {k}, forward {forward}, {what}", rtol=1e-6)


# ---------------------------------------------------------------- vmap


def _right(program: Program) -> list[int]:
    return [k for k in range(len(program.inputs)) if plain(program, k, as_lane=True).error is None]


def _stack(results: list[Any]) -> Any:
    return tree.map(lambda *xs: np.stack([np.asarray(x) for x in xs]), *results)


def _batches(program: Program) -> list[list[int]]:
    """All lanes, backwards with some twice, one lane, lanes that all agree."""
    every = _right(program)
    return [every, [*every[::-1], *every[::2]], every[:1], every[-1:] * 3] if every else []


def _spoken(program: Program, recorder: Recorder) -> Callable[..., Any]:
    """The program with its lane as first argument, which is noted with all that is said."""
    return lambda lane, *args: program.call(lambda what, *values: recorder.debug(what, lane, *values))(*args)


def _same_lanes(program: Program, mapped: Callable[..., Any], recorder: Recorder, which: list[int], what: str) -> None:
    expected = [plain(program, k, as_lane=True) for k in which]
    given = stacked(program, which)
    recorder.take()
    found = mapped(np.arange(len(which)), *given)
    close(found, _stack([e.value for e in expected]), what)
    close(given, stacked(program, which), f"{what}: vmap wrote into its caller's arrays")
    said = recorder.take()
    for n, e in enumerate(expected):  # in each lane the order is Python's
        own = [(line[0], *line[2:]) for line in said if line[1] == n]
        assert [line[0] for line in own] == [line[0] for line in e.said], f"{what}, lane {n}: says {own}, plain {e.said}"
        np.testing.assert_allclose([x for line in own for x in line[1:]], [x for line in e.said for x in line[1:]], rtol=1e-9)
    for word in {line[0] for line in said}:  # and a statement is said in the order of the lanes
        lanes = list(dict.fromkeys([line[1] for line in said if line[0] == word]))
        assert lanes == sorted(lanes), f"{what}: {word!r} is said by lanes {lanes}"


@_transformation(LANES)
def vmap(program: Program) -> None:
    recorder = Recorder()
    mapped = funcad.vmap(_spoken(program, recorder))
    for which in _batches(program):
        _same_lanes(program, mapped, recorder, which, f"lanes {which}")


@_transformation(LANES)
def vmap_jit(program: Program) -> None:
    recorder = Recorder()
    mapped = funcad.vmap(funcad.jit(_spoken(program, recorder)))
    for which in _batches(program):
        _same_lanes(program, mapped, recorder, which, f"lanes {which}")


@_transformation()
def vmap_raises(program: Program) -> None:
    """The exception of the first lane that has one; lanes of different shapes are refused; and it works again afterwards."""
    every = list(range(len(program.inputs)))
    mapped = funcad.vmap(program.call(Recorder().debug))
    for which in (every, every[::-1]):
        raising = [k for k in which if k not in _right(program)]
        if not raising and not program.ragged:
            return
        found = ended(mapped, stacked(program, which), Recorder())
        if program.ragged:
            assert isinstance(found.error, ValueError), f"{found.error!r}"
            continue
        expected = plain(program, raising[0], as_lane=True).error
        if type(found.error) is not type(expected) or str(found.error) != str(expected):
            raise AssertionError(f"lanes {which}: {found.error!r}, plain Python: {expected!r}") from found.error
        values = [plain(program, k, as_lane=True).value for k in _right(program)]
        close(mapped(*stacked(program, _right(program))), _stack(values), "after an error")


@_transformation(LANES)
def vmap_of_vmap(program: Program) -> None:
    f, every = program.call(Recorder().debug), _right(program)
    values = [plain(program, k, as_lane=True).value for k in every]
    twice = lambda given: tree.map(lambda x: np.stack([x, x[::-1]]), given)
    found = funcad.vmap(funcad.vmap(f))(*twice(stacked(program, every)))
    close(found, twice(_stack(values)), "vmap of vmap")
    across = funcad.vmap(funcad.vmap(f), in_axes=1)(*twice(stacked(program, every)))
    close(across, tree.map(lambda x: np.swapaxes(x, 0, 1), twice(_stack(values))), "along other axes")


@_transformation()
def jit_vmap(program: Program) -> None:
    """Right where no lane needs an answer of its own, else the error of a trace without values.

    What catches NumPy's own errors meets them when the program of all lanes runs, which is too late.
    """
    f = program.call(Recorder().debug)
    compiled = funcad.jit(funcad.vmap(f))
    which = _right(program)
    try:
        found = compiled(*stacked(program, which))
    except (*REFUSALS, np.linalg.LinAlgError):
        return
    close(found, _stack([plain(program, k, as_lane=True).value for k in which]), "jit of vmap")


def _expected(program: Program, which: list[int]) -> Any:
    return _stack([slopes(program, k, as_lane=True).value for k in which])


@_transformation(SLOPES)
def vmap_grad(program: Program) -> None:
    gradient = funcad.grad(loss_of(program.call(Recorder().debug)), argnums=program.floating)
    mapped = funcad.vmap(gradient)
    for which in _batches(program):
        close(mapped(*stacked(program, which)), _expected(program, which), f"lanes {which}", rtol=1e-7)


@_transformation(SLOPES)
def vmap_grad_jit(program: Program) -> None:
    gradient = funcad.grad(loss_of(funcad.jit(program.call(Recorder().debug))), argnums=program.floating)
    for which in _batches(program):
        close(funcad.vmap(gradient)(*stacked(program, which)), _expected(program, which), f"lanes {which}", rtol=1e-7)


@_transformation(SLOPES)
def grad_of_sum_of_vmap(program: Program) -> None:
    loss = loss_of(program.call(Recorder().debug))
    total = lambda *args: np.sum(funcad.vmap(loss)(*args))
    for which in _batches(program):
        found = funcad.grad(total, argnums=program.floating)(*stacked(program, which))
        close(found, _expected(program, which), f"lanes {which}", rtol=1e-7)


@_transformation(SLOPES)
def second_order_of_vmap(program: Program) -> None:
    """The gradient of a sum over lanes in the direction of all lanes at once, and a batch of Hessians times a direction."""
    f, which = program.call(Recorder().debug), _right(program)
    given = stacked(program, which)
    floating = tuple([given[i] for i in program.floating])
    expected = _stack([curvature(program, k) for k in which])

    def total(*xs: Any) -> Any:
        args = list(given)
        for i, x in zip(program.floating, xs):
            args[i] = x
        return np.sum(funcad.vmap(loss_of(f))(*args))

    gradient = funcad.grad(total, argnums=tuple(range(len(floating))))
    along = tree.map(lambda x: np.stack([x] * len(which)), directions(program, 1))
    close(funcad.jvp(gradient, floating, along)[1], expected, "jvp of grad of a sum", rtol=1e-6)
    for forward in (True, False):
        product = lambda *args, forward=forward: curved(f, args, program, forward)(*[args[i] for i in program.floating])
        close(funcad.vmap(product)(*given), expected, f"vmap of a product, forward {forward}", rtol=1e-6)
