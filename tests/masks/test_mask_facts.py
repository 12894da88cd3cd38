"""`reach`, the one fact by which masks find their way through a primitive (masks/masks.py), against its derivative."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from funcad import jacfwd
from funcad.ir.aval import Stack, aval_of
from funcad.ir.jaxpr import Literal
from funcad.ir.trace import bind, trace_function
from funcad.masks.masked_rules import BEGINS, _traced_rule
from funcad.masks.masks import reach_of
from tests.specs import OpSpec, all_specs

SPECS = [s for s in all_specs() if s.order > 0 and any(p.reach is not None and not p.multiple for p in s.primitives)]


def equations_of(op: OpSpec, args: tuple) -> list[tuple[Any, list[Any], dict[str, Any]]]:
    """(primitive, operands, parameters) of each operation that the call makes, with values."""
    positions = op.variables(args)
    jaxpr, consts = trace_function(op.of_variables(args, positions), [aval_of(args[i]) for i in positions], name="test")
    values = dict(zip(jaxpr.inputs, [*consts, *[args[i] for i in positions]]))
    found = []
    for e in jaxpr.equations:
        operands = [a.value if type(a) is Literal else values[a] for a in e.inputs]
        found.append((e.primitive, operands, e.params))
        out = bind(e.primitive, *operands, **e.params)
        values.update(zip(e.outputs, out if e.primitive.multiple else [out]))
    return found


def differences(f, x):
    """The derivative by a stack: what is done with stacks is affine."""
    start, zero = np.array(x), np.asarray(f(x))
    columns = []
    for i in range(start.size):
        moved = start.copy()
        moved.flat[i] += 1.0
        columns.append(np.asarray(f(Stack(list(moved), x.aval))) - zero)
    return np.stack(columns, -1)


def looked_at(op: OpSpec) -> set[str]:
    """The reaches of the operations of a spec, checked."""
    checked: set[str] = set()
    for args in op.samples():
        for primitive, operands, params in equations_of(op, args):
            reach = reach_of(primitive, params)
            if primitive not in op.primitives or reach is None or primitive.jvp is None:
                continue
            for i, x in enumerate(operands):
                numbers = np.array(x) if isinstance(x, Stack) else x
                if not isinstance(numbers, np.ndarray) or numbers.dtype.kind != "f" or numbers.size == 0 or i in op.nondiff:
                    continue

                def f(x, i=i, operands=operands, primitive=primitive, params=params):
                    return bind(primitive, *operands[:i], x, *operands[i + 1 :], **params)

                with np.errstate(all="ignore"):
                    out = np.asarray(f(x))
                    if out.dtype.kind != "f" or out.size == 0:
                        continue
                    rows = differences(f, x) if isinstance(x, Stack) else np.asarray(jacfwd(f)(x))
                    rows = rows.reshape(out.size, numbers.size)
                led = rows != 0
                if reach in ("pointwise", "choice"):
                    assert out.shape == numbers.shape and not led[~np.eye(numbers.size, dtype=bool)].any()
                elif reach == "moves":
                    assert set(np.unique(rows)) <= {0.0, 1.0} and led.sum(0).max() <= 1 and led.sum(1).max() <= 1
                elif reach == "sums":
                    assert led.any(0).all() and led.any(1).all()
                elif reach == "reads" and i == 0:
                    assert led.any(1).all()
                checked.add(f"{primitive} {reach}")
    return checked


@pytest.mark.share(3)
@pytest.mark.parametrize("op", SPECS, ids=lambda op: op.id)
def test_elements_reach_the_result_as_declared(op):
    looked_at(op)


def test_every_kind_of_reach_is_looked_at():
    linear = {p for s in SPECS for p in s.primitives if p.reach not in (None, "pointwise") and p.transpose is not None}
    found = set().union(*[looked_at(s) for s in SPECS if linear.intersection(s.primitives)])
    assert {f.split()[1] for f in found} == {"choice", "moves", "sums", "reads", "picks"}
    assert {p.name for p in linear} - {f.split()[0] for f in found} == set()


def test_rules_of_calm_primitives_begin_no_masks():
    """Whatever the operands are: un-jitted forward mode does not look."""
    seen = set()
    for op in [s for s in all_specs() if s.order > 0]:
        for args in op.samples():
            for primitive, operands, params in equations_of(op, args):
                if not primitive.calm or primitive.structural or all(np.asarray(x).dtype.kind not in "fc" for x in operands):
                    continue
                with np.errstate(all="ignore"):
                    out = bind(primitive, *operands, **params)
                for given in itertools.product([False, True], repeat=len(operands)):
                    tangents = [np.ones_like(x) if g else None for x, g in zip(operands, given)]
                    if any(given):
                        with np.errstate(all="ignore"):
                            _, trace = _traced_rule(primitive, operands, tangents, out, params, None)
                        assert trace.most < BEGINS
                        seen.add(primitive.name)
    assert {"add", "mul", "div", "exp", "dot_general", "integer_pow"} <= seen
