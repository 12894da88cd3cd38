"""The table in `tests/specs` is complete: every primitive has a line, and every rule that it lacks has a reason."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest

import funcad.control
import funcad.custom
import funcad.primitives
from funcad.diagnosis.recording import check_jaxpr
from funcad.ir.aval import Aval, Stack, StackAval, is_inexact
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.primitive import Primitive
from funcad.ir.trace import trace_function
from funcad.primitives.loop import stack_lead_p, stack_sum_p
from funcad.transforms.batch import batch_jaxpr
from funcad.transforms.transpose import transpose_jaxpr
from tests.ir.test_every_primitive import traced
from tests.programs import PROGRAMS
from tests.specs import all_specs
from tests.whole.test_composition import apply, build, runs

SPECS = all_specs()

# Primitives whose parameters are programs or host functions, and those that only such primitives bind: whole programs test
# them (tests/programs.py under every chain of transforms; `test_programs_reach_the_rest` sees to it that they do).
COVERED_BY_PROGRAMS = set(
    """call checkpoint name cond root linear_solve custom_jvp custom_jvp_call custom_linear custom_vjp
    custom_vjp_call custom_vmap_call debug_callback io_callback pure_callback psum pmax pmin ppermute
    all_gather all_to_all psum_scatter""".split()
)

DRAWS = {"random_draw", "host_read"}  # whose results differ from run to run: test_random_draws.py, reads/test_replays.py
OVER_PROCESSES = ("broadcast", "exchange", "extremum", "gather", "permute", "reduce", "scatter", "sum")
ELSEWHERE = {  # made by one transformation of one kind of program, which has tests of its own
    "jax_call": "tests/whole/test_interop_jax.py",
    "partition_sum": "tests/distributed/test_partitions.py",
    "recomputed": "tests/control/test_memory_budget.py",
    **dict.fromkeys(
        ["enter_checked", "enter_replicated", "leave_replicated", *[f"{how}_over_processes" for how in OVER_PROCESSES]],
        "tests/distributed/test_spmd.py",
    ),
    **dict.fromkeys(["gather_to_process", "scatter_from_process"], "tests/distributed/test_exchanges.py"),
    **dict.fromkeys(["agree_on_collectives", "sums_over_processes"], "tests/distributed/test_what_is_sent.py"),
    **dict.fromkeys([f"{what}_sums_over_processes" for what in ("start", "finish")], "tests/distributed/test_overlap.py"),
}

# Rules that a primitive does without although it would seem to need them: (primitive, rule) -> reason. Not listed: jvp of
# primitives whose results are all integer or bool (they have no derivative), transpose of primitives that are linear in no
# argument (reverse mode transposes what their jvp is made of).
ABSENT_RULES: dict[tuple[str, str], str] = {
    ("agree_on_collectives", "batch"): "made when a program is made ready to run, after everything has been mapped",
    ("start_sums_over_processes", "batch"): "made when a program is made ready to run, after everything has been mapped",
    ("finish_sums_over_processes", "batch"): "made when a program is made ready to run, after everything has been mapped",
    ("stop_gradient", "transpose"): "its tangent is zero, so reverse mode never meets it",
    ("custom_jvp", "batch"): "runs on values at once; a program holds custom_jvp_call instead",
    ("custom_vjp", "batch"): "runs on values at once; a program holds custom_vjp_call instead",
    ("pure_callback", "jvp"): "nothing is known of a Python function; the error says to give it a custom_jvp",
    ("host_read", "batch"): "it has no operand that could be mapped, and is read once for all examples",
    ("io_callback", "jvp"): "nothing is known of a Python function; the error says to give it a custom_jvp",
    ("stack_empty", "batch"): "it has no operand that could be mapped",
    ("advance", "jvp"): "only odeint and solve_ivp take steps; they have derivative rules of their own",
    ("control", "jvp"): "only odeint and solve_ivp take steps; they have derivative rules of their own",
    ("fused", "jvp"): "programs are transformed before they are optimised",
    ("fused", "batch"): "programs are transformed before they are optimised",
    ("table", "jvp"): "it has no operand",
    ("table", "batch"): "it has no operand that could be mapped",
}

FLOATING = {"pure_callback", "io_callback"}  # without a line in the table, but with float operands and results


def every_primitive() -> dict[str, Primitive]:
    found: dict[int, Primitive] = {}
    for package in (funcad.primitives, funcad.control, funcad.custom):
        for module in pkgutil.iter_modules(package.__path__):
            namespace = vars(importlib.import_module(f"{package.__name__}.{module.name}"))
            found |= {id(p): p for p in namespace.values() if isinstance(p, Primitive)}
    named = {p.name: p for p in found.values()}
    assert len(named) == len(found), "two primitives have the same name"
    return named


def test_every_primitive_is_in_the_table() -> None:
    known = every_primitive()
    covered = {p.name for s in SPECS for p in s.primitives}
    missing = sorted(set(known) - covered - COVERED_BY_PROGRAMS - DRAWS - set(ELSEWHERE))
    assert not missing, f"primitives without a line in tests/specs: {missing}"
    stale = sorted(COVERED_BY_PROGRAMS - set(known))
    assert not stale, f"COVERED_BY_PROGRAMS names primitives that do not exist: {stale}"


@pytest.mark.slow
def test_programs_reach_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: set[str] = set()

    def noting(name: str, rule: Any) -> Any:
        def noted(*args: Any, **params: Any) -> Any:
            reached.add(name)
            return rule(*args, **params)

        return noted

    for name in COVERED_BY_PROGRAMS:
        p = every_primitive()[name]
        for rule in ("impl", "abstract_eval", "primal_and_jvp", "linearize", "transpose", "batch", "collective"):
            if getattr(p, rule) is not None:
                monkeypatch.setattr(p, rule, noting(name, getattr(p, rule)))
    for program in PROGRAMS:
        for chain in [(), ("jit",), ("grad",), ("vmap", "jit"), ("vmap", "grad"), ("grad", "vmap"), ("grad", "grad", "grad")]:
            if runs(program, chain):
                f, args = build(program, chain, apply)
                f(*args)
    missing = sorted(COVERED_BY_PROGRAMS - reached - {p.name for s in SPECS for p in s.primitives})
    assert not missing, f"no program of tests/programs.py reaches {missing}"


def test_specs_call_the_primitives_that_they_name() -> None:
    for op in SPECS:
        reached: set[str] = set()
        for args in op.samples():
            reached |= {e.primitive.name for e in traced(op, args)[0].equations}
        name = op.primitives[0].name  # these have no operand that could be traced
        alone = name in ("stack_empty", "table", "positions")
        assert name in reached or alone, f"the spec {op.id} never reaches {name}; it reaches {reached}"


def test_copies_and_sums_of_stacks() -> None:
    """What loops need of stacks: copies along a batch axis, and the transpose of that."""
    entry = StackAval(Aval((2,), np.dtype(float)))
    wide = StackAval(Aval((3, 2), np.dtype(float)))
    x = Stack([np.array([1.0, 2.0]), np.array([3.0, 4.0])], entry)
    y = Stack([np.arange(6.0).reshape(3, 2), np.ones((3, 2))], wide)
    copies, sums = stack_lead_p(x, size=3, axis=0), stack_sum_p(y, axis=0, size=3)
    assert (copies.aval, sums.aval) == (wide, entry)
    np.testing.assert_array_equal(sums[0], [6.0, 9.0])
    assert sum(np.sum(a * b) for a, b in zip(copies, y)) == sum(np.sum(a * b) for a, b in zip(x, sums))
    for primitive, operand, params in ((stack_lead_p, x, {"size": 3}), (stack_sum_p, y, {"size": 3})):
        jaxpr, _ = trace_function(lambda s, p=primitive, k=params: [p(s, axis=0, **k)], [operand.aval], name="test")
        check_jaxpr(jaxpr)
        transposed, _, _ = transpose_jaxpr(jaxpr, (True,), (True,))
        assert [transposed.in_avals, transposed.out_avals] == [jaxpr.out_avals, jaxpr.in_avals]
        batched, _, _ = batch_jaxpr(jaxpr, 4, (True,))
        lanes = stack_lead_p(operand, size=4, axis=0)
        (found,) = eval_jaxpr(batched, [lanes])
        (expected,) = eval_jaxpr(jaxpr, [operand])
        for a, b in zip(found, expected):
            np.testing.assert_array_equal(a, np.stack([b] * 4))


def test_absent_rules_are_on_the_list() -> None:
    has_derivative: dict[str, bool] = {}  # has it float operands and float results, in some sample?
    for op in SPECS:
        for args in op.samples():
            for e in traced(op, args)[0].equations:
                inexact = any(is_inexact(a.aval) for a in e.inputs) and any(is_inexact(v.aval) for v in e.outputs)
                has_derivative[e.primitive.name] = has_derivative.get(e.primitive.name, False) or inexact
    absent = []
    for name, p in every_primitive().items():
        if p.jvp is None and p.primal_and_jvp is None and has_derivative.get(name, name in FLOATING):
            absent.append((name, "jvp"))
        if p.batch is None and p.collective is None:
            absent.append((name, "batch"))
    unexplained = sorted(set(absent) - set(ABSENT_RULES))
    assert not unexplained, f"absent rules that ABSENT_RULES does not explain: {unexplained}"


def test_absent_rules_that_exist_are_taken_off_the_list() -> None:
    known = every_primitive()
    for name, rule in ABSENT_RULES:
        assert name in known and getattr(known[name], rule) is None, f"{name} has a {rule} rule: remove it from ABSENT_RULES"


def test_an_unknown_word_is_named_beside_the_nearest_known_one():
    with pytest.raises(TypeError, match="primitive f: nothing is called 'transposed'; did you mean 'transpose'"):
        Primitive("f", np.sin, np.sin, transposed=None)
