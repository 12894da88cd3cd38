"""Every operation and the programs of the composition test on every engine, against the reference.

Each sample of the table of operations runs in every layout of memory, and in all its dtypes in some of them; results must agree
as tests/agreement.py says: bit for bit for exact operations, 2 units in the last place for transcendental functions, up to the
rounding of the sum of absolute values for reductions and products. The programs of tests/programs.py run under chains of
transforms with the engine set by `config`, through jit as users call it, several times each so that the compiled form runs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcad
from funcad.backends.native import target
from funcad.ir.aval import is_inexact
from funcad.ir.jaxpr import Jaxpr
from funcad.passes.lower import lower
from tests.agreement import assert_agree, assert_close
from tests.fuzzing import ENGINES, NATIVE, check, compiled
from tests.programs import PROGRAMS
from tests.random_programs import layouts
from tests.rounding import reference
from tests.specs import OpSpec, all_specs
from tests.whole import test_composition as composition

pytestmark = pytest.mark.filterwarnings("ignore:.*does not depend on")
SPECS = all_specs()
native_only = pytest.mark.skipif(not target.available(), reason=str(target.why_not()))
DEFAULT = ("numpy", "native")  # the others, which force tiles and kernels, are slow: they meet small programs in the fuzz, too
engines = pytest.mark.parametrize(
    "engine",
    [
        pytest.param(e, marks=[*([native_only] if e in NATIVE else []), *([] if e in DEFAULT else [pytest.mark.slow])])
        for e in ENGINES
    ],
)

# Operations of several roundings: how many units in the last place two ways to compute them may be apart.
ULPS = {"pow": 4, "logistic_linear": 8, "tanh_linear": 8, "safe_log": 4, "log_cosh": 8, "softplus": 4, "integer_pow": 8}
ULPS["erfc"] = 12  # SciPy is up to 9 off (it has 1 - erf(x) below 1); where there is no FMA, the C library serves, up to 3 off
# Of these, whether a result that is 0 is -0.0 depends on the order in which LAPACK, or a loop, adds up what cancels.
ZERO_OF_SUMS = ("solve", "inv", "triangular_solve", "triangular_inverse")


# ---------------------------------------------------------------- operations


class Case(NamedTuple):
    """A program's arguments in a layout of memory, and what the reference gives: the results, or an error."""

    layout: str
    values: list[Any]
    expected: list[Any] | Exception
    scale: float


def variants(op: OpSpec, args: tuple) -> Iterator[tuple]:
    """The sample, in float64 and in the other dtypes that the operation takes."""
    yield args
    if any([np.asarray(x).dtype == np.float64 for x in args]):
        for dtype in dict.fromkeys(map(np.dtype, [*op.dtypes, "f4"])):
            if dtype != np.float64:
                yield tuple([np.asarray(x, dtype)[()] if np.asarray(x).dtype == np.float64 else x for x in args])


def shaped(op: OpSpec, args: tuple, turn: int) -> Iterator[tuple[str, tuple]]:
    """The arguments in every layout, and their first elements alone in an array of size 1.

    After the first `turn` of a sample, which is float64's, two of the layouts in turn.
    """
    positions = [i for i in op.variables(args) if isinstance(args[i], np.ndarray) and args[i].ndim]
    made = {i: layouts(args[i]) for i in positions}
    names = list(made[positions[0]]) if positions else ["contiguous"]
    for name in names if not turn else dict.fromkeys(["contiguous", *[names[(2 * turn + i) % len(names)] for i in range(2)]]):
        if name not in ("contiguous", "Fortran") and op.primitives[0].name.startswith("logm"):
            continue  # SciPy takes seconds
        yield name, tuple([made[i][name] if i in made else x for i, x in enumerate(args)])
    yield "0-d", tuple([np.asarray(x) if i in op.variables(args) else x for i, x in enumerate(args)])


@functools.lru_cache(2)  # one engine comes after the other
def cases(op: OpSpec) -> list[tuple[Jaxpr, list[Case]]]:
    """Programs of the operation, one for each dtype of a sample, and their cases."""
    found = []
    turn = 0
    for sample in op.samples():
        for i, args in enumerate(variants(op, sample)):
            variables = op.variables(args)
            given = [args[v] for v in variables]
            try:
                with np.errstate(all="ignore"):
                    lowered = funcad.jit(op.of_variables(args)).lower(*given)
                    jaxpr, consts = lowered.jaxpr, lowered._entry.consts
                    reference(jaxpr, [*consts, *given])
            except (TypeError, ValueError, np.linalg.LinAlgError):  # not in this dtype
                continue
            turn += i > 0
            here = []
            for name, moved in shaped(op, args, turn if i else 0):
                values = [*consts, *[moved[v] for v in variables]]
                expected: list[Any] | Exception
                try:
                    expected = reference(jaxpr, values)
                except Exception as error:  # "repeated" made a matrix singular
                    expected = error
                here.append(Case(name, values, expected, scale_of(jaxpr, values)))
            found.append((jaxpr, here))
    return found


def scale_of(jaxpr: Jaxpr, values: Sequence[Any]) -> float:
    """n * sum |x| over the operands of a program that adds numbers up; 0 for one that does not."""
    sums = (
        "reduce",
        "fused",
        "dot",
        "einsum",
        "sum",
        "conv",
        "cum",
        "softmax",
        "norm",
        "mean",
        "fft",
        "solve",
        "inv",
        "det",
        "cholesky",
        "linear",
        "logsumexp",
    )
    names = [e.primitive.name for e in (*jaxpr.equations, *lower(jaxpr).equations)]
    is_complex = any([np.asarray(x).dtype.kind == "c" for x in values])
    if not is_complex and len(jaxpr.equations) < 2 and not any([s in name for name in names for s in sums]):
        return 0.0
    arrays = [np.abs(x[np.isfinite(x)]) for x in map(np.asarray, values) if x.dtype.kind in "fc"]
    return float(sum([max(x.size, 1) * x.sum() * max(1.0, x.max(initial=0.0)) for x in arrays]))


@engines
@pytest.mark.parametrize("op", [pytest.param(s, id=s.id) for s in SPECS])
@pytest.mark.share(16)  # of those on each engine; what jit gives by itself, tests/ir/test_every_primitive.py asks of all
def test_every_operation(op: OpSpec, engine: str) -> None:
    for jaxpr, here in cases(op):
        once = compiled(jaxpr, engine)
        for name, values, expected, scale in here:
            if isinstance(expected, Exception):
                with pytest.raises(type(expected)):
                    once.run(list(values))
                continue
            found = once.run(list(values))
            assert len(found) == len(expected)
            for a, b in zip(found, expected):
                if isinstance(b, funcad.ir.aval.Stack):
                    assert len(a) == len(b)
                    continue
                a, b = [x[()] if isinstance(x, np.ndarray) and not x.ndim else x for x in (a, b)]
                ulps = ULPS.get(op.primitives[0].name, 2)
                a, b = [x.astype(x.dtype.newbyteorder("=")) for x in (a, b)]  # an argument handed through keeps its order
                if op.primitives[0].name in ZERO_OF_SUMS:
                    a, b = a + 0.0, b + 0.0
                what = f"{op.id}, {name}, {[np.asarray(x).dtype for x in values]}"
                if op.primitives[0].name == "reduce_prod" and b.dtype.kind == "c":  # the order decides signs of zero
                    assert_close(a, b, rtol=1e-5 if b.dtype == np.complex64 else 1e-13, what=what)
                else:
                    assert_agree(a, b, ulps=ulps, scale=scale, what=what)


def test_layouts_are_what_they_are_called() -> None:
    x = np.arange(12.0).reshape(3, 4)
    found = layouts(x)
    assert found["Fortran"].flags.f_contiguous and not found["read-only"].flags.writeable
    assert found["reversed"].strides == (-32, -8) and 0 in found["repeated"].strides
    assert not found["unaligned"].flags.aligned and not found["swapped bytes"].dtype.isnative
    assert all([np.array_equal(v, x) for name, v in found.items() if name != "repeated"])


# ---------------------------------------------------------------- programs under chains of transforms


def run(name: str, chain: tuple[str, ...], engine: str) -> None:
    """The chain, jitted, on an engine: three calls, all of which agree with the composition test's reference."""
    program = composition.BY_NAME[name]
    f, args = composition.build(program, chain, composition.apply)
    right = composition.expected(name, composition.plain(chain))
    with funcad.config.set(engine=engine):
        jitted = funcad.jit(f)
        for _ in range(3):
            found = jitted(*args)
            assert len(found) == len(right)
            for a, b in zip(found, right):
                assert np.asarray(a).dtype == b.dtype
                composition.assert_close(a, b, rtol=program.tolerance, what=f"{'('.join(reversed(chain))}({name} on {engine}")


CHAINS = [
    (p.name, c) for p in PROGRAMS if not p.following for n in range(3) for c in composition.chains(n) if composition.runs(p, c)
]
FEW = [case for i, case in enumerate(CHAINS) if len(case[1]) < 2 and "jit" not in case[1] or i % 12 == 0]
config_engines = pytest.mark.parametrize("engine", ["numpy", pytest.param("native", marks=native_only)])


@pytest.mark.share(12)
@config_engines
@composition.parametrize(FEW)
def test_programs_under_transforms(name: str, chain: tuple[str, ...], engine: str) -> None:
    run(name, chain, engine)


@pytest.mark.slow
@config_engines
@composition.parametrize(composition.shard(CHAINS))
def test_programs_under_all_short_chains(name: str, chain: tuple[str, ...], engine: str) -> None:
    run(name, chain, engine)


@pytest.mark.share(4)
@engines
@pytest.mark.parametrize(
    "p", [p for p in PROGRAMS if not p.following and "callback" not in p.name and p.name != "printing"], ids=lambda p: p.name
)
def test_programs_several_times(p: Any, engine: str) -> None:
    """Bounds by noise; results, arguments and earlier results stay as they are."""
    args = p.make_args()
    lowered = funcad.jit(p.f).lower(*args)
    check(lowered.jaxpr, [*lowered._entry.consts, *funcad.tree.leaves(args)], engine)
    floats = tuple(
        [i for i, x in enumerate(args) if all([is_inexact(funcad.ir.aval.aval_of(v)) for v in funcad.tree.leaves(x)])]
    )
    if p.order and floats and composition.is_real(p.name):
        total = lambda *xs: composition.weighted_sum(composition.floats(p.f(*xs)))
        lowered = funcad.jit(funcad.grad(total, argnums=floats)).lower(*args)
        check(lowered.jaxpr, [*lowered._entry.consts, *funcad.tree.leaves(args)], engine)
