"""The design's acceptance test: every program of `tests/programs.py` under chains of transforms.

A chain ("grad", "vmap") means vmap(grad(f)). Each transform turns a function of arrays into another one: vmap stacks two
examples, jvp and linearize push a fixed direction, grad takes the gradient of a fixed weighted sum of the outputs. The result
is compared with a reference that takes another path: no jit, no checkpoint, Python loops in place of vmap, and only nested,
un-jitted forward mode in place of every derivative (which `test_first_derivatives_numerically` compares with differences).

By default every program runs under each transform alone, and every pair of transforms on a third of the programs, chosen by a
checksum of the names. `pytest -m slow` runs the other pairs and all of length 3; FUNCAD_SLOW_SHARD="k/n" the k-th of n parts.
"""

from __future__ import annotations

import functools
import itertools
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcad
from funcad import grad, jit, jvp, linearize, tree, vjp, vmap
from funcad.ir.aval import aval_of, is_inexact
from funcad.primitives.arithmetic import add, mul
from funcad.primitives.reduction import reduce_sum
from funcad.primitives.shape import concatenate, reshape, static_slice
from funcad.testing import _numeric, float0
from tests.agreement import assert_close
from tests.programs import MISSING, PROGRAMS, Program
from tests.shards import shard

TRANSFORMS = ("jit", "vmap", "jvp", "grad", "linearize", "checkpoint")
BY_NAME = {p.name: p for p in PROGRAMS}
STEP = 2.0**-17

Function = Callable[..., list[Any]]


# -- the arguments of a transformed function


def direction(x: Any) -> Any:
    """A fixed tangent for x (an array or a tracer)."""
    aval = aval_of(x)
    if not is_inexact(aval):
        return np.zeros(aval.shape, float0)
    return weights(aval, 1.0)


def weights(aval: Any, phase: float) -> Any:
    w = np.cos(phase + 0.7 * np.arange(aval.size)).reshape(aval.shape)
    if aval.dtype.kind == "c":
        w = w * (1.0 + 0.5j)
    return w.astype(aval.dtype)[()]


def mapped_axes(args: tuple, n_maps: int) -> tuple:
    """Even vmaps map all arguments, odd ones only the first."""
    return tuple(0 if i == 0 or n_maps % 2 == 0 else None for i in range(len(args)))


def two_examples(x: Any) -> np.ndarray:
    x = np.asarray(x)
    return np.stack([x, x * x.dtype.type(0.9) if x.dtype.kind in "fc" else np.maximum(x, 1) - 1 if x.dtype.kind in "iu" else x])


def stacked(args: tuple, axes: tuple) -> tuple:
    return tuple(tree.map(two_examples, x) if a == 0 else x for x, a in zip(args, axes))


def floats(values: Any) -> list[Any]:
    """The leaves with a derivative."""
    return [x for x in tree.leaves(values) if getattr(x, "dtype", None) != float0 and is_inexact(aval_of(x))]


# -- what is tested


def weighted_sum(outs: list[Any]) -> Any:
    total: Any = None
    for x in outs:
        aval = aval_of(x)
        term = reduce_sum(mul(weights(aval, 2.0), x), axes=tuple(range(aval.ndim)))
        if total is not None and aval_of(total).dtype != aval.dtype:
            total, term = [convert(real_part(t), np.dtype(float)) for t in (total, term)]
        total = term if total is None else add(total, term)
    return total


def apply(name: str, f: Function, axes: tuple, real: bool) -> Function:
    if name == "jit":
        return jit(f)
    if name == "checkpoint":
        return funcad.checkpoint(f)
    if name == "vmap":
        return vmap(f, in_axes=axes)
    if name == "jvp":
        return lambda *xs: floats(jvp(f, xs, tree.map(direction, xs))[1])
    if name == "linearize":
        return lambda *xs: floats(linearize(f, *xs)[1](*tree.map(direction, xs)))

    def gradient(*xs: Any) -> list[Any]:
        if real:
            return floats(grad(lambda *ys: weighted_sum(f(*ys)), argnums=tuple(range(len(xs))), allow_int=True)(*xs))
        outs, pullback = vjp(f, *xs)
        return floats(pullback([weights(aval_of(o), 2.0) for o in outs]))

    return gradient


@functools.cache
def is_real(name: str) -> bool:
    """Are all results and arguments real and of one precision, so that their sum is a loss?"""
    program = BY_NAME[name]
    args = program.make_args()
    return len({np.asarray(x).dtype for x in [*floats(program.f(*args)), *floats(args)]} - {np.dtype(float)}) == 0


# -- the reference


def element(x: Any, i: int) -> Any:
    return reshape(static_slice(x, i, i + 1), shape=aval_of(x).shape[1:])


def stack(xs: list[Any]) -> Any:
    return concatenate([reshape(x, shape=(1, *aval_of(x).shape)) for x in xs], axis=0)


def unit(aval: Any, i: int, value: complex) -> Any:
    e = np.zeros(aval.size, aval.dtype)
    e[i] = value
    return e.reshape(aval.shape)[()]


def reference(name: str, f: Function, axes: tuple, real: bool = True) -> Function:
    if name == "vmap":

        def loop(*xs: Any) -> list[Any]:
            results = []
            for i in range(2):
                results.append(f(*[tree.map(functools.partial(element, i=i), x) if a == 0 else x for x, a in zip(xs, axes)]))
            return [stack(list(column)) for column in zip(*results)]

        return loop
    if name == "jvp":
        return lambda *xs: floats(jvp(f, xs, tree.map(direction, xs))[1])

    def by_forward_mode(*xs: Any) -> list[Any]:
        leaves, structure = tree.flatten(xs)
        zero = [weights(aval_of(x), 0.0) * 0 if is_inexact(aval_of(x)) else direction(x) for x in leaves]

        def along(position: int, t: Any) -> Any:
            tangents = structure.unflatten([t if j == position else z for j, z in enumerate(zero)])
            return weighted_sum(jvp(f, xs, tangents)[1])

        result = []
        for position, x in enumerate(leaves):
            aval = aval_of(x)
            if not is_inexact(aval):
                continue
            parts = [along(position, unit(aval, i, 1.0)) for i in range(aval.size)]
            parts = [real_part(p) for p in parts]
            if aval.dtype.kind == "c":
                imaginary = [real_part(along(position, unit(aval, i, 1j))) for i in range(aval.size)]
                parts = [make_complex(p, i) for p, i in zip(parts, imaginary)]
            flat = stack([convert(p, aval.dtype) for p in parts]) if parts else np.zeros(0, aval.dtype)
            result.append(reshape(flat, shape=aval.shape))
        return result

    return by_forward_mode


def real_part(x: Any) -> Any:
    return funcad.primitives.conversion.real(x) if aval_of(x).dtype.kind == "c" else x


def make_complex(x: Any, y: Any) -> Any:
    """x - i y."""
    return funcad.primitives.conversion.make_complex(x, mul(-1.0, y))


def convert(x: Any, dtype: np.dtype) -> Any:
    return funcad.primitives.conversion.convert(x, dtype)


def build(program: Program, chain: tuple[str, ...], how: Callable[..., Function]) -> tuple[Function, tuple]:
    """The transformed function and its arguments."""
    f: Function = lambda *xs: floats(program.f(*xs))
    args, n_maps = program.make_args(), 0
    for name in chain:
        axes = mapped_axes(args, n_maps)
        f = how(name, f, axes, is_real(program.name))
        if name == "vmap":
            args = stacked(args, axes)
            n_maps += 1
    return f, args


@functools.cache
def expected(name: str, chain: tuple[str, ...]) -> list[Any]:
    f, args = build(BY_NAME[name], chain, reference)
    return [np.asarray(x) for x in f(*args)]


def plain(chain: tuple[str, ...]) -> tuple[str, ...]:
    """The chain as the reference sees it."""
    return tuple("jvp" if name == "linearize" else name for name in chain if name not in ("jit", "checkpoint"))


def order(chain: tuple[str, ...]) -> int:
    return sum(name in ("jvp", "linearize", "grad") for name in chain)


def runs(program: Program, chain: tuple[str, ...]) -> bool:
    if "checkpoint" in chain and not hasattr(funcad, "checkpoint"):
        return False
    if program.following and not set(chain) <= {"jvp", "grad", "linearize"}:
        return False  # Python control flow on values works outside the abstract transforms
    return order(chain) <= program.order


def check(name: str, chain: tuple[str, ...]) -> None:
    program = BY_NAME[name]
    f, args = build(program, chain, apply)
    found, right = f(*args), expected(name, plain(chain))
    assert len(found) == len(right)
    for a, b in zip(found, right):
        assert np.asarray(a).dtype == b.dtype, f"{a.dtype} instead of {b.dtype}"
        assert_close(a, b, rtol=program.tolerance, what=f"{'('.join(reversed(chain))}({name}")


def chains(length: int) -> list[tuple[str, ...]]:
    return list(itertools.product(TRANSFORMS, repeat=length))


def label(chain: tuple[str, ...]) -> str:
    return "-".join(chain) or "none"


def in_the_third(name: str, chain: tuple[str, ...]) -> bool:
    """Does the pair run by default on this program? The same in every process: no `hash`."""
    return zlib.crc32(f"{name} {label(chain)}".encode()) % 3 == 0


SHORT = [(p.name, c) for p in PROGRAMS for n in range(2) for c in chains(n) if runs(p, c)]
PAIRS = [(p.name, c) for p in PROGRAMS for c in chains(2) if runs(p, c)]
LONG = [(p.name, c) for p in PROGRAMS for c in chains(3) if runs(p, c)]


def parametrize(cases: list[Any]) -> Any:
    return pytest.mark.parametrize("name,chain", [pytest.param(n, c, id=f"{n}-{label(c)}") for n, c in cases])


@pytest.mark.share(3)
@parametrize(SHORT)
def test_every_transform(name: str, chain: tuple[str, ...]) -> None:
    check(name, chain)


@pytest.mark.share(8)
@parametrize([(n, c) for n, c in PAIRS if in_the_third(n, c)])
def test_pairs_on_a_third_of_the_programs(name: str, chain: tuple[str, ...]) -> None:
    check(name, chain)


def grouped(cases: list[tuple[str, tuple[str, ...]]]) -> Any:
    """Parametrize over the programs and the innermost transforms of a shard of the cases: few tests to collect."""
    groups: dict[tuple[str, str], list[tuple[str, ...]]] = {}
    for name, chain in shard(cases):
        groups.setdefault((name, chain[0]), []).append(chain)
    return pytest.mark.parametrize("name,chains", [pytest.param(n, c, id=f"{n}-{t}") for (n, t), c in groups.items()])


def check_all(name: str, chains: list[tuple[str, ...]]) -> None:
    """All chains on one program; an error names its chain."""
    errors: list[Exception] = []
    for chain in chains:
        try:
            check(name, chain)
        except Exception as error:
            error.add_note(f"{name} under {label(chain)}")
            errors.append(error)
    if errors:
        raise ExceptionGroup(name, errors)


@pytest.mark.slow
@grouped([(n, c) for n, c in PAIRS if not in_the_third(n, c)])
def test_pairs_on_the_other_programs(name: str, chains: list[tuple[str, ...]]) -> None:
    check_all(name, chains)


@pytest.mark.slow
@grouped(LONG)
def test_all_chains_of_length_three(name: str, chains: list[tuple[str, ...]]) -> None:
    check_all(name, chains)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", [p.name for p in PROGRAMS if p.differences])
def test_first_derivatives_numerically(name: str) -> None:
    """The reference itself: forward mode of the program, and of its forward mode, against central differences."""
    program = BY_NAME[name]
    for chain in [(), ("jvp",)][: program.order]:
        f, args = build(program, chain, reference)
        tangents = tree.map(direction, args)
        numeric = _numeric(f, args, tangents, program.step or STEP)
        for n, t in zip(numeric, jvp(f, args, tangents)[1]):
            assert_close(t, n, rtol=max(1e-6, 20 * program.tolerance), what=f"jvp of {name} after {chain}")


def test_no_program_is_left_out() -> None:
    """Programs join the chains by themselves as soon as what they need exists."""
    assert not MISSING


def test_there_is_a_chain_for_every_pair_of_transforms() -> None:
    pairs = {c for n, c in PAIRS if in_the_third(n, c)}
    assert pairs == set(chains(2)) or not hasattr(funcad, "checkpoint")


def test_second_call_derives_nothing() -> None:
    """Derived programs are memoised on their source: the second call of grad(jit(f)), hvp, vmap(jit(f)) traces nothing."""
    from funcad.backends.interpreter import counters

    f = jit(lambda x: weighted_sum([mul(x, x)]))
    x = np.arange(3.0)
    calls = [
        lambda: grad(f)(x),
        lambda: jvp(grad(f), (x,), (x,)),
        lambda: vmap(f)(np.stack([x, x])),
        lambda: grad(lambda y: add(f(y), 1.0))(x),
    ]
    for call in calls:
        call()
        before = dict(counters)
        call()
        assert counters == before
