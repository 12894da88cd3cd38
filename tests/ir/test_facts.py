"""The facts that stand on primitives, each against what NumPy does over the table in `tests/specs`."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from funcad.backends.cost import NUMPY_NS
from funcad.backends.plans.element_plan import INSTRUCTIONS
from funcad.errors import MissingRuleError
from funcad.ir.aval import aval_of
from funcad.ir.jaxpr import Var
from funcad.ir.primitive import Primitive, may_share
from funcad.ir.trace import trace_function
from funcad.passes.lower import parts_of
from funcad.primitives.atoms import ATOMS, atoms_of
from funcad.primitives.families import elementwise, implementation
from funcad.unjitted.kinds import has_rows, pull_of
from tests.specs import all_specs

SPECS = all_specs()
PRIMITIVES = sorted({p for op in SPECS for p in op.primitives}, key=lambda p: p.name)
SPECIAL = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 5e-324, 1e308]


def having(fact: str) -> list[Primitive]:
    found = [p for p in PRIMITIVES if getattr(p, fact)]
    assert found
    return found


def results_of(equation: Any, operands: list[Any]) -> list[Any]:
    with np.errstate(all="ignore"):
        out = equation.primitive.impl(np, *operands, **equation.params)
    return list(out) if equation.primitive.multiple else [out]


def arrays(values: Any) -> list[np.ndarray]:
    return [x for x in values if isinstance(x, np.ndarray) and x.size]


def runs() -> Any:
    """(equation, operands) of every primitive of one sample each spec, higher-order ones left out."""
    for op in SPECS:
        for args in op.samples():
            program, values = op.program(args)
            env = dict(zip(program.inputs, values))
            for equation in program.equations:
                operands = [env[a] if a in env else a.value for a in equation.inputs]
                outs = results_of(equation, operands)
                yield equation, operands, outs
                env.update(zip(equation.outputs, outs))


def test_results_are_memory_of_their_own_unless_the_primitive_says_otherwise() -> None:
    sharing = set()
    for equation, operands, outs in runs():
        again = results_of(equation, operands)
        for a, b in itertools.product(arrays(outs), [*arrays(operands), *arrays(again)]):
            if np.shares_memory(a, b):
                assert may_share(equation), f"{equation.primitive}: {[x.aval for x in equation.inputs]}, {equation.params}"
                sharing.add(equation.primitive.name)
        for a, b in itertools.combinations(arrays(outs), 2):
            assert may_share(equation) or not np.shares_memory(a, b), equation.primitive
    assert sharing >= {"reshape", "transpose", "basic_index", "real", "pick_lanes"}


def test_free_primitives_give_views() -> None:
    seen = set()
    for equation, operands, outs in runs():
        if equation.primitive.free and equation.primitive.name != "reshape":  # which NumPy copies where strides do not fit
            seen.add(equation.primitive)
            for a in arrays(outs):
                assert not arrays(operands[:1]) or np.shares_memory(a, operands[0]), equation.primitive
    assert seen == {p for p in having("free") if p.name != "reshape"}


@pytest.mark.parametrize("primitive", having("commutes"), ids=lambda p: p.name)
def test_swapped_operands(primitive: Primitive) -> None:
    assert primitive.commutes in ("bits", "value")
    signs = set()
    for dtype in "?bBiIqQfdFD":
        with np.errstate(over="ignore"):
            values = np.array(SPECIAL if dtype in "fdFD" else [0, 1, 2, 3, 5, 100]).astype(dtype)
        x, y = (a.ravel() for a in np.meshgrid(values, values))
        with np.errstate(all="ignore"):
            try:
                one, other = primitive.impl(np, x, y), primitive.impl(np, y, x)
            except TypeError:  # bits of floats
                continue
        np.testing.assert_array_equal(one, other, strict=True)
        ok = np.ones(one.shape, bool) if one.dtype.kind not in "fc" else ~np.isnan(one)
        signs.add(bool(np.all(np.signbit(one.real[ok]) == np.signbit(other.real[ok]))) if one.dtype.kind in "fc" else True)
    assert signs and (primitive.commutes == "value" or signs == {True})


def test_reductions_are_folds_of_their_ufunc() -> None:
    for primitive in having("reduction"):
        reduction = primitive.reduction
        x = np.array([[3.0, -1.0, 0.0], [2.0, 5.0, 1.0]])
        for axes in ((0,), (1,), (0, 1)):
            elements = x if reduction.element is None else implementation(reduction.element)(np, x)
            expected = reduction.ufunc.reduce(elements, axis=axes)
            np.testing.assert_array_equal(primitive.impl(np, x, axes=axes), expected, strict=True)
        if reduction.identity is not None:
            np.testing.assert_array_equal(primitive.impl(np, np.ones((0, 2)), axes=(0,)), np.full(2, reduction.identity))
        else:
            with pytest.raises(ValueError, match="no identity"):
                primitive.abstract_eval(aval_of(np.ones((0, 2))), axes=(0,))


def test_labels_are_the_names_in_numpys_warnings() -> None:
    labels = {p.name: p.label for p in PRIMITIVES}
    assert (labels["mul"], labels["div"], labels["mod"], labels["and"]) == ("multiply", "divide", "remainder", "bitwise_and")
    assert (labels["reduce_sum"], labels["dot_general"], labels["convert"]) == ("reduce", "matmul", "cast")


def test_atoms_are_a_closed_list() -> None:
    """Every `emit` asks for atoms only; each engine has a price for each."""
    assert set(INSTRUCTIONS) == set(NUMPY_NS) == set(ATOMS)
    seen: set[str] = set()
    for equation, _, _ in runs():
        seen.update(atoms_of(equation))  # raises if `emit` asks for anything else
    assert seen >= {"sin", "mul", "select", "exp", "and_", "maximum"}
    with pytest.raises(AttributeError, match="no atom"):
        atoms_of(np_equation(elementwise("bad", np.sin, emit=lambda e, x: e.no_such_atom(x))))


def np_equation(primitive: Primitive) -> Any:
    return trace_function(lambda x: [primitive(x)], [aval_of(np.ones(2))], name="one")[0].equations[0]


def test_parts_compute_what_the_implementation_computes() -> None:
    """The formula of an element, atom by atom, gives the implementation's bits, on special values, too."""
    special = np.array([0.0, -0.0, 0.3, 1.0, -1.0, -2.5, 40.0, -800.0, 1e308, 5e-324, np.inf, -np.inf, np.nan])
    seen = set()
    for equation, operands, _ in runs():
        if parts_of(equation) is None:
            continue
        seen.add(equation.primitive.name)
        with np.errstate(all="ignore"):
            rows = [np.roll(special, 3 * i).astype(a.aval.dtype) for i, a in enumerate(equation.inputs)]
        rows = [x if isinstance(a, Var) else old for x, a, old in zip(rows, equation.inputs, operands)]
        for values in (operands, rows if equation.inputs[0].aval.dtype.kind == "f" else operands):
            inputs = [Var(aval_of(v)) if isinstance(v, np.ndarray) else a for v, a in zip(values, equation.inputs)]
            out = Var(equation.primitive.abstract_eval(*[a.aval for a in inputs], **equation.params))
            own = equation._replace(inputs=tuple(inputs), outputs=(out,))
            env = dict(zip(inputs, values))
            for part in parts_of(own):
                (env[part.outputs[0]],) = results_of(part, [env[a] if a in env else a.value for a in part.inputs])
            (expected,) = results_of(own, values)
            np.testing.assert_array_equal(env[out], expected, strict=True)
            same = np.signbit(env[out].real) == np.signbit(expected.real)
            assert np.all(same | np.isnan(expected.real)), own
    assert seen >= {"logistic", "softplus", "safe_log", "tanh_linear", "mul_add", "clamp", "integer_pow"}


def rules_that_need_values() -> dict[str, set[tuple]]:
    """Primitives with a derivative whose rules cannot be split into what to keep and a linear rest: by which operands."""
    found: dict[str, set[tuple]] = {}
    for equation, operands, outs in runs():
        primitive, kinds = equation.primitive, [a.aval for a in equation.inputs]
        places = [i for i, a in enumerate(equation.inputs) if isinstance(a, Var) and a.aval.dtype.kind in "fc"]
        if primitive.name == "factored_solve":
            places.remove(2)  # the factors: they come from operand 0, which has the tangent
        if not has_rows(primitive):
            continue
        out = outs if primitive.multiple else outs[0]
        for some in itertools.chain(*[itertools.combinations(places, k + 1) for k in range(len(places))]):
            tangents = [operands[i] if i in some else None for i in range(len(operands))]
            key = primitive, repr((sorted(equation.params.items()), kinds)), some
            rows = [i if i in some else None for i in range(len(operands))]
            with np.errstate(all="ignore"):
                if pull_of(key, primitive, operands, rows, list(outs), equation.params, None)[0] is not False:
                    continue
                try:
                    primitive.jvp(tangents, out, *operands, **equation.params)
                except MissingRuleError:
                    continue
            found.setdefault(primitive.name, set()).add(some)
    return found


@pytest.mark.slow
def test_rules_can_be_split() -> None:
    """So an un-jitted gradient is written down, whatever operations it takes, beside scalars too."""
    assert rules_that_need_values() == {}
