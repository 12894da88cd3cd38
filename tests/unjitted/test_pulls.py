"""Pulls: the tables are what the rules say, and each entry gives what the rule gives."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.exceptions import ComplexWarning

import funcad
from funcad import grad
from funcad.ir.aval import aval_of
from funcad.ir.primitive import Primitive
from funcad.primitives.arithmetic import div, maximum, mul
from funcad.primitives.families import add, elementwise, reduce_sum_p, reshape
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted import derived_pulls, kinds, pulls, pulls_core, writing
from funcad.unjitted.deriving import WORDS, source_of, text_of_pull
from funcad.unjitted.kinds import RowCotangents, has_rows
from funcad.unjitted.pulls import Unprintable, is_elementwise
from tests import standin

MODULES = writing.families()
PRIMITIVES = {name: p for module in MODULES.values() for name, p in writing.declared(module).items() if has_rows(p)}
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


@pytest.mark.share(2)
@pytest.mark.parametrize("name", WRITTEN)
def test_an_entry_gives_what_the_rule_gives(name: str) -> None:
    assert agreeing(name, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("name", WRITTEN)
def test_every_entry_gives_what_the_rule_gives(name: str) -> None:
    assert agreeing(name, 1)


def by_rule(primitive: Primitive, params: dict, operands: list, outs: list, traced: tuple, given: list) -> list | None:
    """The cotangents by the rule itself, on these values; None if it gives no tangent. `given`: those of results, or None."""
    inner = derived_pulls.LinearTrace("linearize")
    tangents = {i: inner.new_input(aval_of(operands[i]).update()) for i in dict.fromkeys(traced) if i is not None}
    known = [None if i is None else tangents[i] for i in traced]
    found = derived_pulls.rule_of(primitive, operands, known, outs if primitive.multiple else outs[0], params, None)
    results = found if primitive.multiple else [found]
    there = [i for i, t in enumerate(results) if t is not None]
    if not there:
        return None
    jaxpr, kept = inner.jaxpr([results[i] for i in there])
    inner.closed = True
    n = len(tangents)
    flags = [False] * len(kept) + [True] * n
    return transpose_eval(jaxpr, flags, [*kept, *[None] * n], [given[i] for i in there], all_linear=True)


def written_pull(primitive: Primitive, params: dict, operands: list, out: Any, traced: tuple, wide: bool = False) -> Any:
    """The pull that rows of these operands have, and what they keep."""
    first = {n: i for i, n in reversed(list(enumerate([n for n in dict.fromkeys(traced) if n is not None])))}
    rows = [None if n is None else first[n] for n in traced]
    outs = out if type(out) is list else [out]
    pull = kinds._ahead(kinds._use(primitive, operands, rows, outs, params, None, None), wide)
    if pull is None:
        return None, []
    everything = [*operands, *outs]
    if type(pull) is kinds.RuleQuestion:
        everything += pull.part.computed(everything)
        if not np.all(everything[pull.number]):  # a tie, or a NaN: the rule says the rest
            return None, []
        pull = pull.ways[True]
        pull.answers = [(True, len(everything))]
    if pull.part is not None:
        everything += pull.part.computed(everything)
    outs = out if isinstance(out, (list, tuple)) else (out,)
    tail = (tuple([np.shape(x) for x in (*operands, *outs)]), params) if pull.tail else ()
    return pull, [*[everything[i] for i in pull.sources], *tail]


def run(pull: Any, way: str, ct: Any, kept: Any, n: int, *more: Any) -> list:
    """What it gives for the n operands that are traced."""
    cts = RowCotangents([None] * n)
    cts.own, cts.at = set(), -1
    getattr(pull, way)(cts, ct, range(n), tuple(kept), *more)
    return list(cts)


def agreeing(name: str, step: int) -> int:
    """How many cases of a primitive agree, all of which should; `step` leaves out others."""
    primitive, tried = PRIMITIVES[name], 0
    found = list(cases(primitive))
    for operands, params, outs, traced in found[len(name) % min(step, len(found)) :: step]:
        tried += 1
        with np.errstate(all="ignore"):
            try:
                pull, kept = written_pull(primitive, params, operands, outs if primitive.multiple else outs[0], traced)
            except (ComplexWarning, TypeError):  # a rule whose functions are those of real numbers
                continue
            if pull is None:
                continue
            for given in choices(cotangents(outs), pull.there):
                expected = by_rule(primitive, params, operands, outs, traced, given)
                assert expected is not None
                n = len(expected)
                dtype = next(operands[i].dtype for i in traced if i is not None)
                cts = [given[i] for i in pull.there]
                ct = cts if pull.many else cts[0]
                for got, right in zip(run(pull, "run", ct, kept, n), expected, strict=True):
                    assert same(got, right, dtype), (params, operands, traced, given, got, right)
                # by its linear part, and for many cotangents
                linear = run(pull.linear(kept), "run", ct, kept[: pull.n_kept], n)
                for got, right in zip(linear, expected, strict=True):
                    assert same(got, right, dtype), (params, operands, traced, given, got, right)
                many = run(pull, "columns", [c if c is None else np.stack([c, 0 * c]) for c in cts], kept, n, 2)
                for got, right in zip(many, expected, strict=True):
                    assert same(got if got is None else got[0], right, dtype), (params, operands, traced, given, got, right)
    return tried


def choices(cts: list, there: tuple[int, ...]) -> Iterator[list]:
    """The cotangents, of which some are absent: each choice of those of results that have tangents, but none at all."""
    for n in range(len(there), 0, -1):
        for chosen in itertools.combinations(there, n):
            yield [c if i in chosen else None for i, c in enumerate(cts)]


PAIRS = {"exact_pow_p"}  # its operands are a value and its square, of one shape


@pytest.mark.parametrize("name", [name for name in WRITTEN if is_elementwise(PRIMITIVES[name]) and name not in PAIRS])
def test_the_linear_part_is_there_beside_numbers(name: str) -> None:
    """Of what rules compute of a number alone, an array is combined: `jv(1, x)` with the orders 0 and 2."""
    primitive, x = PRIMITIVES[name], np.array([0.3, 0.6])
    for operands, params in samples_of(primitive):
        for i in range(len(operands) if len(operands) > 1 and "i" not in "".join(operands) else 0):
            given = [x if i == j else 0.5 for j in range(len(operands))]
            try:
                out = primitive.impl(np, *given, **params)
            except TypeError:  # of integers alone, or a function that wants arrays
                continue
            traced = tuple([0 if i == j else None for j in range(len(operands))])
            pull, kept = written_pull(primitive, params, given, out, traced)
            if isinstance(pull, kinds.WrittenPull):
                (expected,) = run(pull, "run", np.array([1.0, 2.0]), kept, 1)
                (got,) = run(pull.linear(kept), "run", np.array([1.0, 2.0]), kept[: pull.n_kept], 1)
                assert same(got, expected, float), (params, operands, i)


# -- kinds


def test_a_kind_has_one_text_for_all_sizes() -> None:
    def found(primitive: Primitive, x: Any, *others: Any, **params: Any) -> Any:
        operands = [x, *others]
        traced = tuple(range(len(operands)))
        return written_pull(primitive, params, operands, primitive.impl(np, *operands, **params), traced)[0].function

    assert len({found(mul, np.ones(n), np.ones(n)) for n in (0, 1, 5)}) == 1
    assert len({found(reduce_sum_p, np.ones((n, 3)), axes=(0,)) for n in (1, 2, 5)}) == 1
    assert len({found(reshape, np.ones(n), shape=(n, 1)) for n in (1, 2, 5)}) == 1


def test_a_row_keeps_what_its_pull_reads() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert written_pull(add, {}, [x, y], x + y, (0, 1))[1] == []
    (kept,) = written_pull(mul, {}, [x, y], x * y, (0, None))[1]
    assert kept is y
    out = x / y
    kept = written_pull(div, {}, [x, y], out, (0, 1))[1]
    assert {id(k) for k in kept} == {id(y), id(out)}
    assert written_pull(maximum, {}, [x, y], np.maximum(x, y), (0, 1)) == (None, []), "a mask is less than what a text reads"


def test_what_the_rule_computes_at_the_line_is_kept_in_the_place_of_operands() -> None:
    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    pull, kept = written_pull(div, {}, [x, y], x / y, (None, 1))
    assert pull.part is not None and len(kept) == 1
    np.testing.assert_array_equal(kept[0], -(x / y / y))
    np.testing.assert_array_equal(run(pull, "run", np.ones(2), kept, 1)[0], kept[0])


def test_one_operand_twice() -> None:
    x = np.array([1.0, 2.0])
    pull, kept = written_pull(mul, {}, [x, x], x * x, (5, 5))
    assert len(kept) == 1
    np.testing.assert_array_equal(run(pull, "run", np.ones(2), kept, 1)[0], 2 * x)
    assert written_pull(mul, {}, [x, x], x * x, (0, None))[0] is None, "tables know no more than that these are two"


@pytest.mark.parametrize(
    ("a", "b"), [((3, 2), (2,)), ((3, 1), (1, 2)), ((), (2,)), ((1,), (3,)), ((0, 2), (2,)), ((2, 1, 3), (4, 1))]
)
def test_wide_operands_are_summed_to_their_shapes(a: tuple, b: tuple) -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=a)[()], rng.normal(size=np.broadcast_shapes(a, b))

    def f(x: Any, y: Any) -> Any:
        return np.sum(np.real(x * y / (2.0 + y)) * weights)

    def of_y(y: Any) -> Any:
        return np.sin(x * y).ravel()

    for dtype in (np.float64, np.float32, np.complex128):
        y = rng.normal(size=b).astype(dtype)[()]
        expected = funcad.jit(funcad.grad(f, argnums=(0, 1)))(x, y)
        for got, want in zip(funcad.grad(f, argnums=(0, 1))(x, y), expected):
            assert np.shape(got) == np.shape(want) and got.dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-5)
        np.testing.assert_allclose(funcad.jacrev(of_y)(y.real), funcad.jit(funcad.jacfwd(of_y))(y.real), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["tanh", "arcsinh", "sin", "log1p", "sqrt", "reciprocal"])
def test_on_values_of_an_outer_tape_everything_is_recorded(name: str) -> None:
    x, f = np.array([0.3, 0.7]), getattr(np, name)
    first = funcad.grad(lambda x: np.sum(f(x) * f(x)))
    expected = funcad.jit(funcad.hessian(lambda x: np.sum(f(x) * f(x))))(x)
    np.testing.assert_allclose(funcad.jacobian(first)(x), expected, rtol=1e-12)
    np.testing.assert_allclose(funcad.hvp(lambda x: np.sum(f(x) * f(x)), (x,), (x,)), expected @ x, rtol=1e-12)


WIDE = {
    "x ** y": lambda x, y: x**y,
    "y ** x": lambda x, y: y**x,
    "quotients": lambda x, y: x / y - y / x,
    "maximum": np.maximum,
    "logaddexp": np.logaddexp,
    "hypot, arctan2": lambda x, y: np.hypot(x, y) * np.arctan2(y, x),
    "a number": lambda x, y: x ** y[0] + x / y[0],
}


@pytest.mark.parametrize("name", WIDE)
def test_wide_operands_on_an_outer_tape(name: str) -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.5, (3, 2))

    def f(x: Any) -> Any:
        return np.sum(np.sin(WIDE[name](x, x[0])))

    jitted = funcad.jit(funcad.jacfwd(funcad.jacfwd(f)))
    for _ in range(2):
        np.testing.assert_allclose(funcad.hessian(f)(x), jitted(x), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(
            funcad.grad(lambda x: np.sum(funcad.grad(f)(x) ** 2))(x),
            2 * np.tensordot(jitted(x), funcad.jit(funcad.grad(f))(x), 2),
            rtol=1e-9,
        )


def test_special_points() -> None:
    """A text is the rule, also where this chooses."""
    special = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan])
    for name in ("abs_", "sqrt", "log", "reciprocal", "tan"):
        primitive = PRIMITIVES[name]
        with np.errstate(all="ignore"):
            out = primitive(special)
            pull, kept = written_pull(primitive, {}, [special], out, (0,))
            (expected,) = by_rule(primitive, {}, [special], [out], (0,), [np.ones(7)]) or [None]
            (found,) = run(pull, "run", np.ones(7), kept, 1)
        np.testing.assert_array_equal(found, expected, err_msg=name)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), err_msg=name)


# -- what is in no table


def test_a_rule_that_was_replaced_is_in_no_table() -> None:
    """Another rule may not be answered from the table, whose text was written from the first one."""
    x = np.array([1.0, 2.0])
    exp = PRIMITIVES["exp"]
    rule = exp.jvp
    try:
        exp.jvp = lambda tangents, out, x: mul(tangents[0], add(out, out))
        assert written_pull(exp, {}, [x], np.exp(x), (0,))[0] is None
    finally:
        exp.jvp = rule
    assert written_pull(exp, {}, [x], np.exp(x), (0,))[0] is not None


def test_a_primitive_of_somebody_else_is_derived_at_first_use() -> None:
    mine = elementwise("exp", np.exp, [lambda t, out, x: mul(t, mul(3.0, out))])  # the name is another one's
    x = np.array([1.0, 2.0])
    np.testing.assert_allclose(funcad.grad(lambda x: np.sum(mine(x)))(x), 3 * np.exp(x))


# -- on a device


ON_A_DEVICE = "add mul div abs_ tanh exp log sin reduce_sum_p reshape transpose broadcast_in_dim concatenate_p"


@pytest.mark.parametrize("name", [*ON_A_DEVICE.split(), "dot_general_p"])
def test_texts_run_on_a_device(name: str) -> None:
    primitive = PRIMITIVES[name]
    with standin.registered() as xp:
        for operands, params, outs, traced in itertools.islice(cases(primitive), 12):
            pull, kept = written_pull(primitive, params, operands, outs[0], traced)
            if pull is None or type(pull) is kinds.LinearPull:  # which has no text
                continue
            (ct,) = cotangents(outs)
            kept = kept[: pull.n_read]
            expected = pull.function(np, ct, *kept)
            theirs = [standin.to_device(x) if type(x) is np.ndarray else x for x in (ct, *kept)]
            found = pull.function(xp, *theirs)
            for got, want in zip(*[x if type(x) is tuple else (x,) for x in (found, expected)]):
                np.testing.assert_allclose(standin.to_host(got), want, rtol=1e-5, equal_nan=True)


# -- the files


@pytest.mark.slow
def test_the_tables_are_what_the_rules_say() -> None:
    for path, text in writing.files().items():
        assert path.read_text(encoding="utf8") == text, f"{path}: run python -m funcad.unjitted.writing"


SOME = "mul tanh reduce_sum_p dot_general_p sin cholesky div logsumexp eigh_p slogdet"


@pytest.mark.parametrize("name", SOME.split())
def test_some_entries_are_what_the_rules_say(name: str) -> None:
    """All of them are compared by .ci/run."""
    primitive = PRIMITIVES[name]
    kinds = pulls._table_of(primitive)
    assert kinds
    found = {entry.key: entry for entry in writing.entries(primitive)}
    assert set(kinds) <= set(found)
    for key, functions in kinds.items():
        entry, parts = found[key], functions if type(functions) is tuple else (functions,)
        texts = entry.ways or {"": entry.text}
        written = parts[-1] if entry.ways else {"": parts[-1]}
        assert list(written) == list(texts) and (len(parts) == 2) == bool(entry.text.first)
        pairs = [(function, "pull", texts[way]) for way, function in written.items()]
        for function, called, text in [(parts[0], "first", entry.text), *pairs] if len(parts) == 2 else pairs:
            known = {**WORDS, **entry.text.calls}
            exec(source_of(text, called, entry.reads), known)
            derived = known[called]
            assert derived.__code__.co_code == function.__code__.co_code
            assert derived.__code__.co_names == function.__code__.co_names


def test_tables_name_what_is_there() -> None:
    assert len(pulls_core.PULLS) >= 60 and len(WRITTEN) > 80
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


USUAL: dict[str, Any] = {
    "sort": lambda x: np.sum(np.sort(x, axis=0) ** 2),
    "prod": lambda x: np.prod(x) + np.sum(np.prod(x, axis=0)),
    "cumprod": lambda x: np.sum(np.cumprod(x[0])),
    "a matrix times itself": lambda x: np.trace(x @ x),
    "stack": lambda x: np.sum(np.stack([x[0], x[1] ** 2]) ** 2) + np.sum(np.stack([x, x], axis=0)),
    "three parts": lambda x: np.sum(np.concatenate([x[0], x[1], 2.0 * x[2]]) ** 2),
    "tile": lambda x: np.sum(np.tile(x, 2) ** 2),
    "kron": lambda x: np.sum(np.kron(x, 2.0 * x)),
    "inv, det": lambda x: np.sum(np.linalg.inv(x)) * np.linalg.det(x),
    "median": lambda x: np.median(x),
    "standard deviations": lambda x: np.std(x) + np.sum(np.var(x, axis=0, ddof=1)) + np.sum(np.std(x[0])),
    "index arrays": lambda x: np.sum(x[[0, 2, 2]] ** 2) + np.sum(x[:, np.arange(3)] ** 3) + np.sum(np.take(x, [3, 4], 1)),
    "a mask": lambda x: np.sum(x[x > 0.3] ** 2),
    "pad": lambda x: np.sum(np.pad(x, 2) ** 2 * np.arange(41.0)) + np.sum(np.pad(x[0], 1, mode="wrap")),
    "convolve": lambda x: np.sum(np.convolve(x[0], x[1, :3], "same") ** 2),
    "real Fourier transform": lambda x: np.sum(np.abs(np.fft.rfft(x[0])) ** 2) + np.sum(np.fft.irfft(x[1]) ** 2),
    "joined with itself": lambda x: np.sum(np.concatenate([x, x], axis=1) ** 2) + np.sum(np.concatenate([x[0], x[0]])),
    "outer products by rows": lambda x: np.sum(np.einsum("bi,bj->bij", x, x**2)),
    "stacks of matrices": lambda x: np.sum(np.linalg.inv(np.stack([x, 2.0 * x]))) + np.sum(np.linalg.det(np.stack([x, x / 2]))),
    "the larger": lambda x: np.sum(np.maximum(x, 0.0) * np.minimum(0.5, x) ** 2) + np.sum(np.fmax(x[0], np.ones(37))),
    "pseudo-inverse": lambda x: np.sum(np.linalg.pinv(x) ** 2),
    "eigenvalues": lambda x: np.sum(np.linalg.eigh(x + x.T)[0] ** 3),
    "eigenvectors": lambda x: np.sum(np.linalg.eigh(x + x.T)[1][:, 3] ** 4),
    "eigenvalues and vectors": lambda x: of_eigh(*np.linalg.eigh(x[:7, :7] @ x[:7, :7].T)),
    "of stacks": lambda x: of_eigh(*np.linalg.eigh(np.stack([x[:5, :5] + x[:5, :5].T, x[5:10, 5:10] @ x[5:10, 5:10].T]))),
    "of complex matrices": lambda x: of_eigh(*np.linalg.eigh(x[:5, :5] + x[:5, :5].T + 1j * (x[:5, :5] - x[:5, :5].T))),
    "sign and logarithm of a complex determinant": lambda x: of_slogdet(*np.linalg.slogdet(x[:5, :5] + 1j * x[5:10, :5])),
}


def of_eigh(values: Any, vectors: Any) -> Any:
    return np.sum(np.abs(vectors) ** 4 * values[..., None, :])


def of_slogdet(sign: Any, logarithm: Any) -> Any:
    return np.real(sign) * logarithm + np.imag(sign) ** 2


@pytest.mark.parametrize("name", ["eigenvalues", "eigenvalues and vectors", "of complex matrices"])
def test_several_results_on_an_outer_tape(name: str) -> None:
    """Each choice of those that have cotangents is a text of its own, which is recorded where values are traced."""
    x = np.random.default_rng(0).normal(size=(7, 7)) / 5.0 + np.diag(np.arange(1.0, 8.0))
    v = np.random.default_rng(1).normal(size=x.shape)
    f = USUAL[name]
    expected = funcad.jit(lambda x, v: funcad.hvp(f, (x,), (v,)))(x, v)
    np.testing.assert_allclose(funcad.hvp(f, (x,), (v,)), expected, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(grad(lambda x: np.sum(grad(f)(x) * v))(x), expected, rtol=1e-7, atol=1e-9)
    few = funcad.jacrev(lambda x: np.linalg.eigh(x + x.T))(x[:3, :3])
    again = funcad.jit(funcad.jacfwd(lambda x: np.linalg.eigh(x + x.T)))(x[:3, :3])
    for got, want in zip(few, again):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", USUAL)
def test_a_new_size_derives_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What people write most is in the tables, whatever its size; the gradient is that of differences."""
    f = USUAL[name]
    asked: list[str] = []
    derive = derived_pulls.derived

    def derived(answers: Any, rule: Any, *more: Any) -> Any:
        asked.append(rule[0].name)
        return derive(answers, rule, *more)

    monkeypatch.setattr(derived_pulls, "derived", derived)
    x = np.random.default_rng(0).normal(size=(37, 37)) / 5.0 + np.eye(37)
    v = np.random.default_rng(1).normal(size=x.shape)
    found = np.sum(grad(f)(x) * v)
    assert asked == []
    h = 1e-6
    assert found == pytest.approx((f(x + h * v) - f(x - h * v)) / (2 * h), rel=1e-4)


X = np.random.default_rng(3).normal(size=(5, 6)) / 3.0
LINEAR: dict[str, Any] = {  # of operations that are linear in what is traced: their own transposes
    "index arrays": lambda x: x[[0, 2, 2]],
    "both indices": lambda x: x[np.arange(5), [1, 1, 0, 5, 5]],
    "pad": lambda x: np.pad(x, ((1, 0), (2, 3))),
    "real Fourier transform": lambda x: np.abs(np.fft.rfft(x)),
    "window": lambda x: np.lib.stride_tricks.sliding_window_view(x[0], 3),
}


@pytest.mark.parametrize("name", LINEAR)
def test_what_is_linear_has_its_own_transpose(name: str) -> None:
    """First and second derivatives, many cotangents at once, and masks, as by the rules."""
    read = LINEAR[name]
    v = np.random.default_rng(4).normal(size=X.shape)

    def f(x: Any) -> Any:
        return np.sum(np.sin(read(x)) * read(x**2))

    h = 1e-5
    assert np.sum(grad(f)(X) * v) == pytest.approx((f(X + h * v) - f(X - h * v)) / (2 * h), rel=1e-5)
    second = (grad(f)(X + h * v) - grad(f)(X - h * v)) / (2 * h)
    np.testing.assert_allclose(funcad.hvp(f, (X,), (v,)), second, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(np.tensordot(funcad.hessian(f)(X), v), second, rtol=1e-4, atol=1e-6)
    rows = funcad.jacrev(lambda x: read(x**2))(X)
    np.testing.assert_allclose(rows, funcad.jacfwd(lambda x: read(x**2))(X), rtol=1e-12, atol=1e-12)
    hidden = grad(lambda x: np.sum(read(np.where(X > 0, np.sqrt(np.where(X > 0, x, -1.0 * x * 0)), 0.0)) ** 2))(X)
    assert np.all(np.isfinite(hidden))


def test_reads_add_up_in_one_buffer() -> None:
    x = np.arange(12.0)

    def f(x: Any) -> Any:
        return sum([np.sum(x[[i, i + 1, i]] ** 2) for i in range(10)])

    expected = np.zeros(12)
    for i in range(10):
        np.add.at(expected, [i, i + 1, i], 2 * x[[i, i + 1, i]])
    np.testing.assert_array_equal(grad(f)(x), expected)
