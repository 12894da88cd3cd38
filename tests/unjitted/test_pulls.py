"""Pulls: the tables are what the rules say, and each entry gives what the rule gives."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import funcad
from funcad.errors import MissingRuleError
from funcad.ir.aval import aval_of
from funcad.ir.primitive import Primitive
from funcad.masks.masks import clean
from funcad.primitives.arithmetic import div, maximum, mul
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.families import add, elementwise, reduce_sum_p, reshape
from funcad.primitives.shape import transpose
from funcad.unjitted import pulls, pulls_core, writing
from funcad.unjitted.deriving import Unprintable, function_of, is_elementwise, source_of, text_of_pull
from funcad.unjitted.pulls import Pull, as_tuple, pull_by_rule, pull_for
from tests import standin

MODULES = writing.families()
PRIMITIVES = {name: p for module in MODULES.values() for name, p in writing.declared(module).items() if pulls.has_pull(p)}
STACKS = {"stack_add_p"}  # its operands are loops' stacks
WRITTEN = sorted([name for name, p in PRIMITIVES.items() if pulls._table_of(p) and name not in STACKS])
FEW = 5  # of the cases, which stand for all in the default run
SMALL = (2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 1, 3, 1, 1, 1, 1), (3, 3, 3, 3, 3, 3, 3, 3), (0, 2, 3, 1, 1, 1, 1, 1)
DTYPES = {"n": "dfDF", "f": "df", "c": "DF", "i": "li", "b": "?"}


def samples_of(primitive: Primitive) -> list[tuple[list[str], dict]]:
    listed = writing._elementwise(primitive) if is_elementwise(primitive) else writing.SAMPLES.get(primitive.name, ())
    return [(operands.split(" ") if operands else [""], params) for operands, params in listed]


def operands_of(primitive: Primitive, operands: list[str], params: dict, sizes: tuple, dtypes: str) -> tuple[list, dict]:
    """Random operands in (.2, .8), square ones well-conditioned, and the parameters."""
    rng = np.random.default_rng(7)
    drawn: list[Any] = []
    for x, dtype in zip(operands, dtypes):
        letters, _, kind = x.partition(":")
        shape = tuple([int(c) if c.isdigit() else sizes["abcdefgh".index(c)] for c in letters])
        if dtype in "li":
            values = rng.integers(0, max(1, sizes[0]), shape)
        elif dtype == "?":
            values = rng.random(shape) < 0.5
        else:
            values = rng.uniform(0.2, 0.8, shape) + (1j * rng.uniform(0.2, 0.8, shape) if dtype in "DF" else 0)
            if letters == "aa":
                values = values @ np.conj(values.T) + 2 * np.eye(len(values))
        drawn.append(np.asarray(values).astype(dtype)[()])
    words = dict(params)
    if type(words.get("shape")) is str:
        words["shape"] = tuple([int(c) if c.isdigit() else sizes["abcdefgh".index(c)] for c in words["shape"]])
    return drawn, words


def cases(primitive: Primitive) -> Iterator[tuple[list, dict, list, tuple]]:
    """Operands, parameters, results, and who is traced, of all kinds that are written."""
    for operands, params in samples_of(primitive):
        classes = [x.partition(":")[2] or "n" for x in operands]
        if is_elementwise(primitive):
            classes = ["n" if c in "fc" else c for c in classes]
        for k in range(4):
            dtypes = "".join([DTYPES[c][k % len(DTYPES[c])] for c in classes])
            for sizes in SMALL if k == 0 else SMALL[:1]:
                drawn, words = operands_of(primitive, operands, params, sizes, dtypes)
                try:
                    predicted = primitive.abstract_eval(*map(aval_of, drawn), **words)
                    with np.errstate(all="ignore"), warnings.catch_warnings():
                        warnings.simplefilter("error")
                        out = primitive(*drawn, **words)
                except (TypeError, ValueError, LookupError, Warning, np.linalg.LinAlgError):  # no such dtypes or sizes
                    continue
                outs = list(out) if primitive.multiple else [out]
                if not primitive.multiple and out.dtype != predicted.dtype:  # the function has no loop for them
                    continue
                inexact = [i for i, c in enumerate(dtypes) if c in "dfDF"]
                for n in range(1, len(inexact) + 1) if len(inexact) < 4 else ():
                    for chosen in itertools.combinations(inexact, n):
                        yield drawn, words, outs, tuple([i if i in chosen else None for i in range(len(drawn))])


def cotangents(outs: list, n: int = 0) -> list:
    """One for each result, or `n` along a leading axis."""
    rng, found = np.random.default_rng(3), []
    for o in outs:
        shape = (n, *np.shape(o)) if n else np.shape(o)
        values = rng.normal(size=shape) + (1j * rng.normal(size=shape) if o.dtype.kind == "c" else 0)
        found.append(np.asarray(values).astype(o.dtype)[()])
    return found


def same(got: Any, want: Any, dtype: Any) -> bool:
    if got is None or want is None:
        return got is want or (got is None and not np.any(want)) or (want is None and not np.any(got))
    if np.shape(got) != np.shape(want) or got.dtype != want.dtype:
        return False
    tolerance = 1e-3 if np.dtype(dtype).itemsize in (4, 8) and np.dtype(dtype).char in "fF" else 1e-9
    return bool(np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True))


@pytest.mark.parametrize("name", WRITTEN)
def test_an_entry_gives_what_the_rule_gives(name: str) -> None:
    assert agreeing(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_every_entry_gives_what_the_rule_gives(name: str) -> None:
    assert agreeing(name, 1)


def agreeing(name: str, step: int) -> int:
    """How many cases of a primitive agree, all of which should; `step` leaves out others."""
    primitive, tried = PRIMITIVES[name], 0
    found = list(cases(primitive))
    for operands, params, outs, traced in found[len(name) % min(step, len(found)) :: step]:
        tried += 1
        with np.errstate(all="ignore"):
            pull = pull_for(primitive, params, operands, outs, traced)
            try:
                rule = pull_by_rule(primitive, params, operands, outs, traced)
            except (MissingRuleError, KeyError, TypeError, Warning):  # as the rule has it, for these dtypes
                assert pull is False or any([np.iscomplexobj(p) for p in operands])
                continue
            if rule is None or not isinstance(pull, Pull):
                assert rule is None or pull is not None, (params, operands, traced)
                continue
            want, residuals = rule
            cts = cotangents(outs)
            cts = [c if i in want.run.there else None for i, c in enumerate(cts)] if primitive.multiple else cts
            ct = cts if primitive.multiple else cts[0]
            kept = pull.keep(params, outs, operands)
            expected = as_tuple(want.run(np, ct, *residuals))
            dtype = next(operands[i].dtype for i in want.which)
            for got, right in zip(as_tuple(pull.run(np, ct, *kept)), expected, strict=True):
                assert same(got, right, dtype), (params, operands, traced, got, right)
            for (got, mask), right in zip(pull.masked(ct, [None] * len(outs) if primitive.multiple else None, kept), expected):
                assert same(got if got is None else clean(got, mask), right, dtype), (params, operands, traced)
            many: Any = [None if c is None else np.stack([c, 0 * c]) for c in cts]
            for got, right in zip(as_tuple(pull.columns(np, many if primitive.multiple else many[0], *kept)), expected):
                assert same(got if got is None else got[0], right, dtype), (params, operands, traced, got, right)
    return tried


# -- kinds


def pull_of(primitive: Primitive, *operands: Any, traced: tuple, wide: Any = None, **params: Any) -> tuple[Pull, Any, tuple]:
    """The pull, the result, and what its row keeps."""
    with np.errstate(all="ignore"):
        out = primitive.impl(np, *operands, **params)
    pull = pull_for(primitive, params, operands, [out], traced, wide)
    assert isinstance(pull, Pull)
    return pull, out, pull.keep(params, [out], operands)


def test_a_kind_has_one_pull_for_all_sizes() -> None:
    pulls_found = {pull_of(mul, np.ones(n), np.ones(n), traced=(0, 1))[0] for n in (0, 1, 5)}
    assert len(pulls_found) == 1
    assert len({pull_of(reduce_sum_p, np.ones((n, 3)), traced=(4,), axes=(0,))[0] for n in (1, 2, 5)}) == 1
    by_index = {pull_of(basic_index_p, np.ones(9), traced=(4,), index=((n, 2, 1),))[0] for n in (1, 2, 5)}
    assert len(by_index) == 1, "an index is of no kind"


def test_a_row_keeps_what_its_pull_reads() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert pull_of(add, x, y, traced=(0, 1))[2] == ()
    (kept,) = pull_of(mul, x, y, traced=(0, None))[2]
    assert kept is y
    pull, out, kept = pull_of(div, x, y, traced=(0, 1))
    assert set(pull.reads) == {1, -1}
    assert all([k is {1: y, -1: out}[code] for code, k in zip(pull.reads, kept)])
    assert pull_of(reshape, x, traced=(0,), shape=(2, 1))[2] == (((2,),), {"shape": (2, 1)})


def test_one_operand_twice() -> None:
    x = np.array([1.0, 2.0])
    pull, _, kept = pull_of(mul, x, x, traced=(5, 5))
    assert pull.which == (0,) and len(kept) == 1
    np.testing.assert_array_equal(pull.run(np, np.ones(2), *kept), 2 * x)


@pytest.mark.parametrize(
    ("a", "b"), [((3, 2), (2,)), ((3, 1), (1, 2)), ((), (2,)), ((1,), (3,)), ((0, 2), (2,)), ((2, 1, 3), (4, 1))]
)
def test_wide_operands_are_summed_to_their_shapes(a: tuple, b: tuple) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=a)[()], rng.normal(size=b).astype(np.float32)[()]
    shape = np.broadcast_shapes(a, b)
    pull, out, kept = pull_of(mul, x, y, traced=(0, 1), wide=shape)
    ct = rng.normal(size=shape)
    expected = funcad.vjp(lambda x, y: x * y, x, y)[1](ct)
    found = pull.run(np, ct, *kept)
    for got, want in zip(found, expected):
        assert np.shape(got) == np.shape(want) and got.dtype == np.asarray(want).dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
    for got, want in zip(pull.columns(np, np.stack([ct, 2 * ct]), *kept), expected):
        np.testing.assert_allclose(got[1], 2 * np.asarray(want), rtol=1e-6)
    for (got, mask), want in zip(pull.masked(ct, None, kept), expected):
        np.testing.assert_allclose(clean(got, mask), want, rtol=1e-6)


@pytest.mark.parametrize("name", ["tanh", "arcsinh"])
def test_on_values_of_an_outer_tape_everything_is_recorded(name: str) -> None:
    x, ct, f = np.array([0.3, 0.7]), np.array([1.0, 2.0]), getattr(np, name)
    pull = pull_for(PRIMITIVES[name], {}, [x], [f(x)], (0,))
    assert isinstance(pull, Pull)

    def first(x: Any) -> Any:
        return pull.traced(np, ct, *pull.keep({}, [f(x)], [x]))

    second = np.diag(funcad.hessian(lambda x: np.sum(f(x)))(x))
    np.testing.assert_allclose(funcad.jacobian(first)(x), np.diag(ct * second))


def test_special_points() -> None:
    """Of a pull that is written for all values, where the rule on values chooses (see KINKS)."""
    x = np.array([0.0, 1.0, 2.0, np.inf, -np.inf, 1.0])
    y = np.array([0.0, 2.0, 1.0, np.inf, np.inf, np.nan])
    pull, out, kept = pull_of(maximum, x, y, traced=(0, 1))
    found = pull.run(np, np.ones(6), *kept)
    np.testing.assert_array_equal(found, [[0.5, 0, 1, 0.5, 0, np.nan], [0.5, 1, 0, 0.5, 1, np.nan]])
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    for name in ("abs_", "sqrt", "log", "arccosh", "cbrt"):
        primitive = PRIMITIVES[name]
        pull, out, kept = pull_of(primitive, special, traced=(0,))
        with np.errstate(all="ignore"):
            rule = pull_by_rule(primitive, {}, [special], [out], (0,))
            assert rule is not None
            found, expected = pull.run(np, np.ones(7), *kept), rule[0].run(np, np.ones(7), *rule[1])
        np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), err_msg=name)


def test_masks_go_on_through_the_linear_part() -> None:
    """Of log(x)[1:], the first element is structurally zero."""
    x = np.array([0.0, 1.0, 2.0])
    log = PRIMITIVES["log"]
    reads, part, kept = pull_of(basic_index_p, np.log(np.maximum(x, 1e-9)), traced=(0,), index=((1, 2, 1),))
    assert reads.begins
    ((ct, mask),) = reads.masked(np.ones(2), None, kept)
    assert mask is not None
    pull, _, kept = pull_of(log, x, traced=(0,))
    ((found, mask),) = pull.masked(ct, mask, kept)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(clean(found, mask), [0, 1, 0.5])
        assert np.isnan(pull.run(np, np.array([0.0, 1.0, 1.0]), *pull_of(log, x, traced=(0,))[2])[0])


def test_a_read_is_added_where_it_was_read_and_a_write_is_cleared() -> None:
    x = np.arange(5.0)
    pull, out, kept = pull_of(basic_index_p, x, traced=(0,), index=((1, 2, 1),))
    buffer = np.ones(5)
    assert pull.adds(np, buffer, np.array([2.0, 3.0]), *kept)
    np.testing.assert_array_equal(buffer, [1, 3, 4, 1, 1])
    assert not pull_of(mul, x, x, traced=(0, 1))[0].adds(np, buffer, x)
    update = MODULES["basic_indexing"].basic_update_p
    pull, out, kept = pull_of(update, x, np.array([7.0, 8.0]), traced=(0, 1), index=((1, 2, 1),))
    ct = np.arange(5.0)
    first, second = pull.over(ct, *kept) or (None, None)
    assert first is ct
    np.testing.assert_array_equal(ct, [0, 0, 0, 3, 4])
    np.testing.assert_array_equal(second, [1, 2])


# -- what is in no table


def test_a_rule_that_was_replaced_is_another_kind() -> None:
    """Another rule may not be answered from the table, whose text was written from the first one."""
    x = np.array([1.0, 2.0])
    exp = PRIMITIVES["exp"]
    pull, _, kept = pull_of(exp, x, traced=(0,))
    rule = exp.jvp
    try:
        exp.jvp = lambda tangents, out, x: mul(tangents[0], add(out, out))
        other, out, kept = pull_of(exp, x, traced=(0,))
        np.testing.assert_allclose(other.run(np, np.ones(2), *kept), 2 * np.exp(x))
    finally:
        exp.jvp = rule
    again, _, kept = pull_of(exp, x, traced=(0,))
    assert again is pull


def test_a_primitive_of_somebody_else_is_derived_at_first_use() -> None:
    mine = elementwise("exp", np.exp, [lambda t, out, x: mul(t, mul(3.0, out))])  # the name is another one's
    x = np.array([1.0, 2.0])
    pull, out, kept = pull_of(mine, x, traced=(0,))
    assert pull.reads == (-1,)
    np.testing.assert_allclose(pull.run(np, np.ones(2), *kept), 3 * np.exp(x))
    assert pull_of(mine, np.ones((3, 2)), traced=(0,))[0] is pull


def test_sizes_that_a_text_cannot_name_are_of_the_kind() -> None:
    variance = MODULES["reduction"].variance_p
    for n in (4, 5):
        x = np.random.default_rng(n).normal(size=(3, n))
        pull, out, kept = pull_of(variance, x, traced=(0,), axes=(1,), ddof=0)
        expected = funcad.grad(lambda x: np.sum(np.var(x, axis=1)))(x)
        np.testing.assert_allclose(pull.run(np, np.ones(3), *kept), expected)
        many = pull.columns(np, np.stack([np.ones(3), np.zeros(3)]), *kept)
        np.testing.assert_allclose(many, [expected, 0 * expected])


def test_no_pull_where_there_is_no_tangent_or_no_text() -> None:
    x = np.array([1.0, 2.0])
    assert pull_for(MODULES["arithmetic"].floor_divide, {}, [x, x], [x], (0, 1)) in (None, False)
    spectral = next(p for p in PRIMITIVES.values() if p.name == "spectral")
    assert pull_for(spectral, {"function": len}, [x], [x], (0,)) is False


def test_a_program_is_a_pull() -> None:
    """Rows of jitted calls, loops and rules without a text: transposed as they are."""
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    out = transpose(x, perm=(1, 0))
    rule = pull_by_rule(transpose, {"perm": (1, 0)}, [x], [out], (9,))
    assert rule is not None
    pull, kept = rule
    ct = np.array([[1.0, 0.0], [5.0, 0.0]])
    np.testing.assert_array_equal(pull.run(np, ct, *kept), ct.T)
    ((found, mask),) = pull.masked(ct, None, kept)
    np.testing.assert_array_equal(clean(found, mask), ct.T)
    program = Pull.of_program(pull.params["jaxpr"], [0])
    assert program.multiple
    np.testing.assert_array_equal(program.run(np, [ct], *kept)[0], ct.T)


# -- on a device


ON_A_DEVICE = "add mul div abs_ tanh exp log maximum reduce_sum_p reshape transpose broadcast_in_dim concatenate_p gather_p"


@pytest.mark.parametrize("name", [*ON_A_DEVICE.split(), "basic_index_p", "dot_general_p"])
def test_texts_run_on_a_device(name: str) -> None:
    primitive = PRIMITIVES[name]
    with standin.registered() as xp:
        for operands, params, outs, traced in itertools.islice(cases(primitive), 12):
            pull = pull_for(primitive, params, operands, outs, traced)
            if not isinstance(pull, Pull):
                continue
            (ct,) = cotangents(outs)
            expected = as_tuple(pull.run(np, ct, *pull.keep(params, outs, operands)))
            theirs = [standin.to_device(x) if type(x) is np.ndarray else x for x in (*operands, outs[0], ct)]
            *given, out, ct = theirs
            found = as_tuple(pull.run(xp, ct, *pull.keep(params, [out], given)))
            for got, want in zip(found, expected):
                np.testing.assert_allclose(standin.to_host(got), want, rtol=1e-5, equal_nan=True)


# -- the files


@pytest.mark.slow
def test_the_tables_are_what_the_rules_say() -> None:
    for path, text in writing.files().items():
        assert path.read_text(encoding="utf8") == text, f"{path}: run python -m funcad.unjitted.writing"


@pytest.mark.parametrize("name", ["mul", "tanh", "reduce_sum_p", "dot_general_p", "maximum", "cholesky"])
def test_some_entries_are_what_the_rules_say(name: str) -> None:
    """All of them are compared by .ci/run."""
    primitive = PRIMITIVES[name]
    kinds = pulls._table_of(primitive)
    assert kinds
    found = {entry.key: entry for entry in writing.entries(primitive)}
    assert set(kinds) <= set(found)
    for key, function in kinds.items():
        derived = function_of(found[key].text, found[key].reads)
        assert derived.__code__.co_code == function.__code__.co_code
        assert derived.__code__.co_names == function.__code__.co_names


def test_tables_name_what_is_there() -> None:
    assert len(pulls_core.PULLS) > 60 and len(WRITTEN) > 150
    for path in [writing.CORE, *writing.PRIMITIVES.glob("pulls_*.py")]:
        assert path.read_text(encoding="utf8").startswith(writing.FIRST)
    assert sorted(pulls_core.FAMILIES) == sorted([p.stem.removeprefix("pulls_") for p in writing.PRIMITIVES.glob("pulls_*.py")])


def test_a_text_names_no_size() -> None:
    from_text = text_of_pull(
        PRIMITIVES["concatenate_p"], [aval_of(np.ones((2, 7))), aval_of(np.ones((3, 7)))], (0, 1), {"axis": 0}
    )
    assert from_text is not None
    source = source_of(from_text, "pull")
    assert "shapes[0][0]" in source and "7" not in source
    with pytest.raises(Unprintable):
        source_of(from_text, "pull", ())
