"""Pulls: what takes the cotangent of a row's result to its operands, found by the kind of the operation.

A row of a recording is (pull, numbers of operands, what the pull reads). `pull_for` finds the pull by the kind: primitive and
rule, which operands are traced and which of them are one, dtypes, ranks and parameters where they matter; never sizes. Most
kinds stand in tables that were written ahead (writing.py), those of each family of primitives beside it. What is in no table is
derived at first use (deriving.py); what cannot be printed is the rule itself, run on the values (`pull_by_rule`).

    pull.keep(params, outs, operands)   what a row keeps, a tuple in the order of `pull.reads`
    pull.run(xp, ct, *kept)             the cotangent of the operand, or a tuple of those of `pull.which`
    pull.traced, pull.columns           the same for values of an outer tape, and for many cotangents along a leading axis
    pull.masked(ct, mask, kept, wanted) the same by the linear part of the rule, with masks in and out

Invariants: a text never depends on sizes that its kind does not tell; what a pull gives may be `ct` itself, so nobody writes in
it. With several results `ct` is a list that has None where nobody contributed. Trap: a rule that was replaced is another kind,
and what a table says of primitives of funcad counts only as long as their rules are funcad's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from sys import modules
from typing import Any, NamedTuple

import numpy as np

from funcad.ir.aval import Aval, LiteralAval, aval_of, shape_of
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr, Var
from funcad.ir.primitive import Primitive
from funcad.ir.tracer import Tracer
from funcad.masks.masked_rules import rule_of
from funcad.masks.masks import EVERY
from funcad.memo import remembers, table
from funcad.passes.subprograms import params_key
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.conversion import convert
from funcad.primitives.families import broadcast_in_dim, reduce_sum, reshape
from funcad.transforms.transpose import transpose_eval
from funcad.unjitted import deriving, pulls_core

from funcad.unjitted.deriving import (  # isort: skip
    LinearTrace, Text, Traced, Unprintable, function_of, is_elementwise, linear_of, plain, recording, text_of_pull,
)  # fmt: skip

_MOST = 4096
_UNKNOWN = object()
_READS = {"shapes": "shapes", "params": "params"}
SIZES = (  # in the place of an operation's own: of all residues, and no two pairs have the same sum
    (7, 11, 13, 17, 19, 23, 29, 31),
    (32, 45, 60, 77, 116, 165, 252, 400),
    (27, 36, 50, 69, 84, 125, 190, 311),
    (34, 52, 63, 75, 111, 130, 203, 344),
)
AXES = frozenset(["axes", "axis", "perm", "dimension_numbers", "batch_dims", "subscripts"])  # parameters that are no sizes
_pulls = table("unjitted.pulls", "kind of an operation: its pull, None if it has no tangent", _MOST, None)
_by_sizes = table("unjitted.pulls by sizes", "kind and sizes of an operation: its pull", _MOST, None)
_linear_parts = table("unjitted.linear parts", "pull and sizes: the linear program of the rule", _MOST, None)
FREE = {reshape: ("shape",), broadcast_in_dim: ("shape",), basic_index_p: ("index",)}  # parameters that are of no kind
BY_ONES = frozenset([broadcast_in_dim])  # primitives whose rule asks for axes of size 1


class Pull:
    """The vector-Jacobian product of a kind of operation."""

    __slots__ = (
        *("primitive", "params", "avals", "pattern", "reads", "which", "keep", "run", "begins", "multiple", "wide"),
        *("_traced", "_columns", "_traced_columns"),
    )

    def __init__(
        self, primitive: Primitive | None, params: dict, avals: Sequence[Any], pattern: Traced, reads: tuple, run: Any,
        begins: bool, wide: bool = False, which: tuple[int, ...] | None = None,
    ):  # fmt: skip
        self.primitive = primitive
        self.params = params
        self.avals = avals
        self.pattern = pattern
        self.which = tuple([i for i, first in enumerate(pattern) if first == i]) if which is None else which
        self.reads = (*reads, "sizes") if wide else reads
        self.keep = _keeper(self.reads, self.which, tuple([type(a) is LiteralAval for a in avals]))
        self.run: Any = _Fitting(run, 0) if wide else run
        self.begins = begins
        self.multiple = run.multiple if primitive is None else primitive.multiple
        self.wide = wide
        self._traced: Any = None
        self._columns: Any = None
        self._traced_columns: Any = None

    def __repr__(self) -> str:
        return f"<pull of {self.primitive}, {self.pattern}>"

    @property
    def traced(self) -> Any:
        """`run` where cotangents or what was kept are values of an outer tape: everything is recorded there."""
        if self._traced is None:
            self._traced = recorded(self.run)
        return self._traced

    @property
    def columns(self) -> Any:
        """`run` for many cotangents, along a leading axis."""
        if self._columns is None:
            self._columns = self._of_columns()
        return self._columns

    @property
    def traced_columns(self) -> Any:
        if self._traced_columns is None:
            self._traced_columns = recorded(self.columns)
        return self._traced_columns

    def _of_columns(self) -> Any:
        if self.multiple:
            return _BySizes(self, True)
        assert self.primitive is not None
        narrow = self.run.run if self.wide else self.run
        if is_elementwise(self.primitive) and "shapes" not in self.reads:
            return _Fitting(narrow, 1) if self.wide else narrow
        found = written_ahead(self.primitive, self.pattern, self.avals, self.params, (), key_of_results((), True))
        if found is not None and found.reads == self.reads:
            return found.function
        return _BySizes(self, True)

    def masked(self, ct: Any, mask: Any, kept: Sequence[Any], wanted: int = EVERY) -> list[tuple[Any, Any]]:
        """(cotangent, mask) of each operand of `which`, by the linear part; lists where there are several results."""
        cts, masks = (ct, mask) if self.multiple else ([ct], [mask])
        jaxpr, values, there = self.linear_part(cts, kept)
        n, count = len(values), len(self.which)
        flags = [False] * n + [True] * count
        cts, masks = [cts[i] for i in there], [masks[i] for i in there]
        found = transpose_eval(jaxpr, flags, [*values, *[None] * count], cts, True, masks, [wanted] * count)
        if self.wide:
            dtypes = [dtype for _, dtype in kept[-1]]
            return [(c if c is None else of_dtype(c, dtype), m) for (c, m), dtype in zip(found, dtypes)]
        return found

    def adds(self, xp: Any, buffer: Any, ct: Any, *kept: Any) -> bool:
        """Add the cotangent of what was read of an array to `buffer`, its cotangent, in place; False: it is no such read."""
        primitive = self.primitive
        if primitive is None or primitive.adds is None or self.which != (0,):
            return False
        known = dict(zip(self.reads, kept))
        others = [known.get(i) for i in range(1, len(self.avals))]
        x = Var(Aval(buffer.shape, buffer.dtype))
        adder, (_, *rest), where = primitive.adds(ct, x, *others, **known.get("params", self.params))
        if adder.over is None:
            return False
        adder.over(xp, buffer, ct, *rest, **where)
        return True

    def over(self, ct: Any, *kept: Any) -> tuple | None:
        """`run` of a write, in the caller's own `ct`, which becomes the first operand's cotangent; None: it is no write."""
        primitive = self.primitive
        if primitive is None or primitive.transpose_over is None or self.which[0] != 0 or type(ct) is not np.ndarray:
            return None
        shapes, params = self.sizes(ct.shape, kept)
        known = dict(zip(self.reads, kept))
        operands = [Var(aval) if i in self.which else known.get(i, aval) for i, aval in enumerate(self.avals_of(shapes))]
        found = primitive.transpose_over(ct, *operands, **params)
        return tuple([found[i] for i in self.which])

    def linear_part(self, cts: Sequence[Any], kept: Sequence[Any]) -> tuple[Jaxpr, list[Any], Sequence[int]]:
        """The tangent program of the operation, what it keeps, and the results that it gives tangents of."""
        if self.primitive is None:
            return self.params["jaxpr"], list(kept), self.run.there
        one = next(c for c in cts if c is not None)
        shapes, params = self.sizes(shape_of(one), kept)
        known = dict(zip(self.reads, kept))
        wide = shape_of(one) if self.wide else None
        dtype = getattr(one, "dtype", None) if self.wide else None
        key = self, tuple(shapes), wide, dtype, params_key(params) if "params" in known else None
        part = _linear_parts.get(key, _UNKNOWN)
        if part is _UNKNOWN:
            part = _linear_parts.put(key, self._part(shapes, wide, dtype, params))
        jaxpr, program, consts, codes, there = part
        values = [*consts, *[known[c] if c in known else None for c in codes]]
        return jaxpr, eval_jaxpr(program, values), there

    def sizes(self, shape: tuple[int, ...], kept: Sequence[Any]) -> tuple[list[tuple[int, ...]], dict]:
        """The shapes of the operands, and the parameters, of a row whose result has this shape."""
        known = dict(zip(self.reads, kept))
        shapes = list(known.get("shapes") or [shape] * len(self.avals))
        for position, (own, _) in zip(self.which, known.get("sizes", ())):
            shapes[position] = own
        for i in range(len(shapes)):
            if i in known:
                shapes[i] = shape_of(known[i])
        return shapes, known.get("params", self.params)

    def avals_of(self, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
        return [a if type(a) is LiteralAval else a.update(shape) for a, shape in zip(self.avals, shapes)]

    def _part(self, shapes: Sequence[tuple], wide: Any, dtype: Any, params: dict) -> tuple:
        avals = self.avals_of(shapes)
        primitive = self.primitive
        assert primitive is not None
        if wide is None:
            found = primitive.abstract_eval(*avals, **params)
        else:  # NumPy promotes operands where it broadcasts them
            avals = [a.update(dtype=dtype) if type(a) is not LiteralAval and a.dtype.kind in "fc" else a for a in avals]
            found = primitive.abstract_eval(*[a if type(a) is LiteralAval else a.update(wide) for a in avals], **params)
        linear = linear_of(primitive, avals, self.pattern, params, list(found) if primitive.multiple else [found], wide)
        assert linear is not None
        linear.outer.close()
        places = {t.atom: ~i for i, t in enumerate(linear.outs)} | {t.atom: i for i, t in enumerate(linear.values)}
        codes = [places[v] for v in linear.known.inputs[len(linear.consts) :]]
        return linear.jaxpr, linear.known, linear.consts, codes, linear.there

    @staticmethod
    def of_program(jaxpr: Jaxpr, which: Sequence[int], there: Sequence[int] | None = None, multiple: bool = True) -> Pull:
        """A program (kept, tangents of the operands `which`) -> tangents of the results `there`, linear in the tangents.

        `there` is all results if it is not given; with `multiple` cotangents are a list of those of all results.
        """
        positions = tuple(which)
        pattern = tuple([i if i in positions else None for i in range(max(positions, default=-1) + 1)])
        there = tuple(range(len(jaxpr.outputs)) if there is None else there)
        run = _Transposed(jaxpr, len(positions), there, multiple)
        return Pull(None, {"jaxpr": jaxpr}, (), pattern, (), run, deriving.mask_begins(jaxpr), which=positions)


# -- what runs


class _Transposed:
    """A linear program run backwards: for rows of programs, and of rules that have no text."""

    __slots__ = ("jaxpr", "count", "there", "multiple")

    def __init__(self, jaxpr: Jaxpr, count: int, there: Sequence[int], multiple: bool):
        self.jaxpr = jaxpr
        self.count = count
        self.there = there
        self.multiple = multiple

    def __call__(self, xp: Any, ct: Any, *kept: Any) -> Any:
        flags = [False] * len(kept) + [True] * self.count
        cts = [ct[i] for i in self.there] if self.multiple else [ct]
        found = transpose_eval(self.jaxpr, flags, [*kept, *[None] * self.count], cts, all_linear=True)
        return found[0] if self.count == 1 and not self.multiple else tuple(found)


class _Fitting:
    """A pull of operands that NumPy broadcast: each cotangent is summed to its operand's shape."""

    __slots__ = ("run", "lead")

    def __init__(self, run: Any, lead: int):
        self.run = run
        self.lead = lead

    def __call__(self, xp: Any, ct: Any, *kept: Any) -> Any:
        sizes: Sequence[tuple[tuple[int, ...], np.dtype]] = kept[-1]
        found = as_tuple(self.run(xp, ct, *kept[:-1]))
        fitted = [None if c is None else fit(xp, c, shape, dtype, self.lead) for c, (shape, dtype) in zip(found, sizes)]
        return fitted[0] if len(sizes) == 1 else tuple(fitted)


def as_tuple(found: Any) -> tuple:
    """Of what a pull gives, the cotangents."""
    return found if type(found) is tuple else (found,)


def fit(xp: Any, ct: Any, shape: tuple[int, ...], dtype: Any, lead: int = 0) -> Any:
    """The cotangent of an operand of this shape and dtype, which was broadcast; `lead`: axes of `ct` that stay."""
    given = ct.shape
    if len(given) != len(shape) + lead or given[lead:] != shape:
        extra = len(given) - lead - len(shape)
        grown = [i + extra for i, n in enumerate(shape, lead) if n == 1 != given[i + extra]]
        axes = (*range(lead, lead + extra), *grown)
        traced = type(ct) is Tracer
        ct = reduce_sum(ct, axes=axes) if traced or xp is not np else np.add.reduce(ct, axis=axes)
        if ct.shape[lead:] != shape:
            ct = reshape(ct, shape=(*given[:lead], *shape)) if traced else ct.reshape((*given[:lead], *shape))
    return of_dtype(ct, dtype)


def of_dtype(ct: Any, dtype: Any) -> Any:
    """The cotangent of an operand of this dtype, which NumPy promoted."""
    if ct.dtype is dtype or ct.dtype == dtype:
        return ct
    if ct.dtype.kind == "c" and dtype.kind != "c":
        ct = ct.real
    return convert(ct, dtype) if type(ct) is Tracer else ct.astype(dtype)


class _BySizes:
    """A pull that is derived for the cotangents and the sizes that come: of several results, or of many cotangents."""

    __slots__ = ("pull", "columns", "recorded")

    def __init__(self, pull: Pull, columns: bool = False, recorded: bool = False):
        self.pull = pull
        self.columns = columns
        self.recorded = recorded

    def __call__(self, xp: Any, ct: Any, *kept: Any) -> Any:
        pull = self.pull
        given = tuple([c is not None for c in ct]) if pull.multiple else ()
        one = next(c for c in ct if c is not None) if given else ct
        shapes, params = pull.sizes(shape_of(one)[self.columns :], kept)
        key = pull, given, self.columns, self.recorded, tuple(shapes), params_key(params)
        run = _by_sizes.get(key)
        if run is None:
            run = self._found(given, shapes, params)
            run = _by_sizes.put(key, recorded(run) if self.recorded else run)
        return run(xp, ct, *kept)

    def _found(self, given: tuple[bool, ...], shapes: Sequence[tuple], params: dict) -> Any:
        pull, primitive = self.pull, self.pull.primitive
        if primitive is not None:
            text, reads = key_of_results(given, self.columns), pull.reads
            found = written_ahead(primitive, pull.pattern, pull.avals, params, (), text)
            if found is not None and found.reads == reads:
                return found.function
            try:
                avals = pull.avals_of(shapes)
                derived = text_of_pull(primitive, avals, pull.pattern, params, given=given, columns=self.columns, exact=True)
                if derived is not None:
                    return function_of(derived, reads)
            except Unprintable:
                pass
        if self.columns:
            return partial(_one_by_one, _BySizes(pull) if pull.multiple else pull.run)
        return partial(_by_linear_part, pull)


def _by_linear_part(pull: Pull, xp: Any, cts: Any, *kept: Any) -> Any:
    """By the rule itself."""
    cts = cts if pull.multiple else [cts]
    jaxpr, values, there = pull.linear_part(cts, kept)
    n, count = len(values), len(pull.which)
    flags = [False] * n + [True] * count
    found = transpose_eval(jaxpr, flags, [*values, *[None] * count], [cts[i] for i in there], all_linear=True)
    return found[0] if count == 1 and not pull.multiple else tuple(found)


def _one_by_one(run: Any, xp: Any, cts: Any, *kept: Any) -> Any:
    """Many cotangents, each by itself."""
    if type(cts) is list:
        n = len(next(c for c in cts if c is not None))
        rows = [run(xp, [None if c is None else c[i] for c in cts], *kept) for i in range(n)]
    else:
        rows = [run(xp, c, *kept) for c in cts]
    if type(rows[0]) is not tuple:
        return xp.stack(rows)
    return tuple([None if column[0] is None else xp.stack(column) for column in zip(*rows)])


def recorded(run: Any) -> Any:
    """What runs, for traced values."""
    if type(run) is _Fitting:
        return _Fitting(recorded(run.run), run.lead)
    if type(run) is _BySizes:
        return _BySizes(run.pull, run.columns, True)
    return recording(run) if hasattr(run, "__code__") else run


@remembers(1024, None)
def _keeper(reads: tuple, which: tuple[int, ...], scalars: tuple[bool, ...]) -> Any:
    """What a row keeps, as a function."""

    def shape(i: int) -> str:
        return "()" if scalars[i] else f"operands[{i}].shape"

    items = []
    for read in reads:
        if read == "shapes":
            items.append("(" + "".join([shape(i) + ", " for i in range(len(scalars))]) + ")")
        elif read == "sizes":
            items.append("(" + "".join([f"({shape(i)}, dtype_of(operands[{i}])), " for i in which]) + ")")
        elif read == "params":
            items.append("params")
        else:
            items.append(f"operands[{read}]" if read >= 0 else f"outs[{~read}]")
    text = f"lambda params, outs, operands: ({''.join([item + ', ' for item in items])})"
    return eval(text, {"dtype_of": _dtype_of})


def _dtype_of(x: Any) -> np.dtype:
    return x.dtype if hasattr(x, "dtype") else aval_of(x).dtype


# -- which pull


def pull_for(
    primitive: Primitive, params: dict, operands: Sequence[Any], outs: Sequence[Any], traced: Sequence[int | None],
    wide: Any = None,
) -> Pull | None | bool:  # fmt: skip
    """The pull of an operation on such operands; None if it has no tangent, False if only `pull_by_rule` gives it.

    `traced` has a number for each operand that has a tangent, the same for the same tangent; `wide` is the shape of the result
    where NumPy broadcast the operands itself.
    """
    if not params and len(operands) < 3 and primitive.emit is not None:  # the common cases with few calls
        p, q = operands[0], operands[-1]
        quick = primitive, primitive.jvp, wide is None, _kind(p), _kind(q), len(traced) == 1 or _pair(*traced)
        found = _pulls.get(quick, _UNKNOWN)
        if found is _UNKNOWN:
            found = _pull_for(primitive, params, operands, outs, traced, wide)
            if type(p) is not Tracer and type(q) is not Tracer:
                _pulls.put(quick, found)
        return found
    return _pull_for(primitive, params, operands, outs, traced, wide)


def _kind(p: Any) -> Any:
    return p.dtype.char if type(p) is np.ndarray else type(p)


def _pair(a: Any, b: Any) -> int:
    """Which of two operands are traced, and are they one?"""
    return 2 * (a is None) + 3 * (b is None) + (a == b)


def _pull_for(
    primitive: Primitive, params: dict, operands: Sequence[Any], outs: Sequence[Any], traced: Sequence[int | None], wide: Any
) -> Pull | None | bool:
    bits = None
    if params:
        bits = params_key(params if primitive not in FREE else _kept_parameters(primitive, params))
        if bits is None:
            return False
    kinds: list[Any] = []
    if is_elementwise(primitive):
        for p in operands:
            kinds.append(p.dtype.char if type(p) is np.ndarray else type(p) if type(p) is not Tracer else str(p.aval))
    else:
        for p in operands:
            kinds += (p.dtype.char, p.ndim) if hasattr(p, "ndim") else (type(p),)
    pattern = pattern_of(traced)
    ones = ones_of([shape_of(x) for x in (*operands, *outs)]) if primitive in BY_ONES else None
    key = primitive, primitive.jvp, bits, pattern, wide is not None, ones, *kinds
    found = _pulls.get(key, _UNKNOWN)
    if found is _UNKNOWN:
        found = _pulls.put(key, _found(primitive, params, operands, outs, pattern, wide is not None))
    if found is _BySizes:
        rule = primitive, params, avals_of(operands), pattern, wide is not None
        found = _by_sizes_of(key if primitive not in FREE else (*key, params_key(params)), rule)
    return found


def _by_sizes_of(key: tuple, rule: tuple) -> Any:
    """The pull of a kind that is in no table: for all sizes of which the same are equal, or 1; else for these sizes."""
    avals = rule[2]
    shapes = tuple([a.shape for a in avals])
    sizes = sizes_of(shapes)
    found = _by_sizes.get((key, "sizes", sizes), _UNKNOWN)
    if found is _UNKNOWN:
        found = _by_sizes.put((key, "sizes", sizes), _for_all_sizes(*rule))
    if found is _BySizes:
        found = _by_sizes.get((key, "shapes", shapes), _UNKNOWN)
        if found is _UNKNOWN:
            found = _by_sizes.put((key, "shapes", shapes), _derived(*rule))
    return found


def sizes_of(shapes: Sequence[tuple[int, ...]]) -> tuple:
    """Which sizes are the same, or 0 or 1: -1 - n for these, else the place of the first that is the same."""
    known: dict[int, int] = {}
    return tuple([tuple([-1 - n if n < 2 else known.setdefault(n, len(known)) for n in shape]) for shape in shapes])


def pattern_of(traced: Sequence[int | None]) -> Traced:
    """For each operand: None, or the position of the first with the same number."""
    if len(traced) == 1:
        return (0,)
    if len(traced) == 2:
        a, b = traced
        return None if a is None else 0, None if b is None else 0 if a == b else 1
    return tuple([None if n is None else traced.index(n) for n in traced])


def avals_of(operands: Sequence[Any]) -> list[Any]:
    return [aval_of(p) for p in operands]


def _kept_parameters(primitive: Primitive, params: dict) -> dict:
    return {key: value for key, value in params.items() if key not in FREE[primitive]}


def ones_of(shapes: Sequence[tuple[int, ...]]) -> tuple:
    """Which axes have the size 1."""
    return tuple(["".join(["01"[n == 1] for n in shape]) for shape in shapes])


def has_pull(primitive: Primitive) -> bool:
    """Is it an operation by kinds? Programs and effects are not."""
    if primitive.primal_and_jvp is not None or primitive.linearize is not None:
        return False
    return primitive.jvp is not None and not primitive.passive and not primitive.effect and not primitive.barrier


def _found(
    primitive: Primitive, params: dict, operands: Sequence[Any], outs: Sequence[Any], pattern: Traced, wide: bool
) -> Any:
    """What the table of pulls holds for a kind: a pull, None, False, or `_BySizes` where sizes matter."""
    if not has_pull(primitive):
        return False
    avals = avals_of(operands)
    ones = ones_of([shape_of(x) for x in (*operands, *outs)]) if primitive in BY_ONES else ()
    results = key_of_results((True,) * len(outs) if primitive.multiple else ())
    written = written_ahead(primitive, pattern, avals, params, ones, results)
    if written is not None and not (wide and "shapes" in written.reads):
        return _pull(primitive, params, avals, pattern, written.reads, written.function, written.begins, wide)
    if not is_elementwise(primitive) or primitive.multiple:
        return _BySizes
    small = [_of_rank_one(a, wide and first is not None) for a, first in zip(avals, pattern)]
    found = _derived(primitive, params, small, pattern, wide, avals)
    return _BySizes if found is False and not wide else found


def _of_rank_one(aval: Any, traced: bool) -> Any:
    """An operand of an operation element by element, whatever its shape; numbers stay numbers unless they are broadcast."""
    return aval if type(aval) is LiteralAval and not traced else Aval((SIZES[0][0],), aval.dtype)


def _for_all_sizes(primitive: Primitive, params: dict, avals: Sequence[Any], pattern: Traced, wide: bool) -> Any:
    """The pull, if its text is the same for other sizes; `_BySizes` if it is not."""
    if primitive.multiple or wide or not all([key in AXES or type(v) in (bool, str, float) for key, v in params.items()]):
        return _BySizes
    texts = []
    for primes in SIZES:
        sizes = sizes_of([a.shape for a in avals])
        shapes = [tuple([-1 - n if n < 0 else primes[n % len(primes)] * (1 + n // len(primes)) for n in s]) for s in sizes]
        others = [a if type(a) is LiteralAval else a.update(shape) for a, shape in zip(avals, shapes)]
        try:
            texts.append(text_of_pull(primitive, others, pattern, params))
        except Exception:  # these sizes do not fit the parameters, or the rule has no text: it happens again for its own sizes
            return _BySizes
    if texts[0] is None or texts.count(texts[0]) != len(texts):
        return _BySizes
    return _made(primitive, params, avals, pattern, texts[0])


def _derived(
    primitive: Primitive, params: dict, avals: Sequence[Any], pattern: Traced, wide: bool, own: Sequence[Any] = ()
) -> Any:
    """The pull for these avals; None if there is no tangent, False if it has no text. `own`: what the avals stand for."""
    try:
        text = text_of_pull(primitive, avals, pattern, params, exact=not is_elementwise(primitive))
    except Exception:  # whatever it is, it happens again where the rule itself runs
        return False
    if text is None:
        return None
    if wide and not text.elementwise:
        return False
    if own and not text.elementwise:
        return False
    return _made(primitive, params, own or avals, pattern, text, wide)


def _made(primitive: Primitive, params: dict, avals: Sequence[Any], pattern: Traced, text: Text, wide: bool = False) -> Pull:
    return _pull(primitive, params, avals, pattern, text.reads, function_of(text), text.begins, wide)


def _pull(
    primitive: Primitive, params: dict, avals: Sequence[Any], pattern: Traced, reads: tuple, function: Any, begins: bool,
    wide: bool,
) -> Pull:  # fmt: skip
    pull = Pull(primitive, params, avals, pattern, reads, function, begins, wide)
    if primitive.multiple:
        pull.run = _BySizes(pull)
    return pull


# -- what was written ahead

_tables = table("unjitted.written pulls", "family of primitives: what was written ahead, once it was asked for", None, None)
_CLASSES = {"f": "f", "c": "c", "i": "i", "u": "i", "b": "b"}


class WrittenAhead(NamedTuple):
    """What a table has of a kind: `function(xp, ct, *reads)`."""

    function: Any
    reads: tuple  # if `plain`, what the rule's linear program keeps, in its order, and then "shapes" or "params"
    begins: bool
    plain: bool


def written_ahead(
    primitive: Primitive, pattern: Traced, avals: Sequence[Any], params: dict, ones: tuple = (), results: str = ""
) -> WrittenAhead | None:
    """The pull of a kind that a table has, if the primitive has the rule that it was written from.

    `ones` is `ones_of` the shapes of operands and results for the primitives of BY_ONES.
    """
    kinds = _table_of(primitive)
    if kinds is None:
        return None
    ranks = [len(a.shape) for a in avals]
    classes = [_CLASSES[a.dtype.kind] for a in avals]
    for precise in range(3):  # all inexact dtypes are one, or real and complex, or each its own
        if precise == 0:
            of = ["n" if c in "fc" else c for c in classes]
        else:
            of = classes if precise == 1 else [a.dtype.name if c in "fc" else c for a, c in zip(avals, classes)]
        try:
            key = key_of_kind(primitive, pattern, of, ranks, params, ones) + results
        except Unprintable:
            return None
        for marks in ("", "~", "!", "!~"):
            found = kinds.get(key + marks)
            if found is not None:
                return WrittenAhead(found, reads_of(found), "!" in marks, "~" not in marks)
    return None


def _table_of(primitive: Primitive) -> dict[str, Any] | None:
    found = pulls_core.PULLS.get(primitive)
    if found is None:
        for family in pulls_core.FAMILIES:
            module = modules.get(f"funcad.primitives.{family}")
            if family not in _tables and module is not None and any([x is primitive for x in vars(module).values()]):
                _tables.put(family, import_module(f"funcad.primitives.pulls_{family}").PULLS)
            if primitive in _tables.get(family, ()):
                found = _tables[family][primitive]
    return found if _own_rule(primitive.jvp) else None


def _own_rule(jvp: Any) -> bool:
    """Is it a rule of funcad's? Another one was put into its place."""
    while type(jvp) is partial:
        jvp = jvp.func
    return str(getattr(jvp, "__module__", "")).startswith("funcad.")


def key_of_kind(
    primitive: Primitive, pattern: Traced, classes: Sequence[str], ranks: Sequence[int], params: dict, ones: tuple
) -> str:
    """The kind of an operation as tables have it: which operands are traced, their classes of dtypes, and what else matters."""
    elementwise = is_elementwise(primitive)
    traced = "".join(["-" if i is None else str(i) for i in pattern])
    operands = ",".join([c if elementwise else f"{c}{rank}" for c, rank in zip(classes, ranks)])
    free = FREE.get(primitive, ())
    words = "".join([f" {key}={plain(value)}" for key, value in sorted(params.items()) if key not in free])
    return f"{traced} {operands}{words}{' ' * bool(ones)}{'|'.join(ones)}".replace('"', "'")


def key_of_results(given: tuple[bool, ...], columns: bool = False) -> str:
    """What a kind says of the cotangents: which results have one, and whether it is many."""
    return "".join([" " + "".join(["01"[g] for g in given])] * bool(given)) + " columns" * columns


def reads_of(function: Any) -> tuple:
    """What a written function reads, by the names of its parameters."""
    code = function.__code__
    return tuple([_READS.get(name) or deriving.code_of(name) for name in code.co_varnames[2 : code.co_argcount]])


# -- by the rule itself


def pull_by_rule(
    primitive: Primitive, params: dict, operands: Sequence[Any], outs: Sequence[Any], traced: Sequence[int | None],
    wide: Any = None,
) -> tuple[Pull, list[Any]] | None:  # fmt: skip
    """The rule of an operation, run on these values: a pull of the linear program that is left, and what it keeps.

    None if it gives no tangent. Equations and errors have the line where the caller stands.
    """
    inner = LinearTrace("linearize")
    try:
        pattern = pattern_of(traced)
        tangents = {i: inner.new_input(aval_of(operands[i]).update()) for i, first in enumerate(pattern) if first == i}
        given = [None if first is None else tangents[first] for first in pattern]
        found = rule_of(primitive, operands, given, list(outs) if primitive.multiple else outs[0], params, wide)
        results = found if primitive.multiple else [found]
        there = [i for i, t in enumerate(results) if t is not None]
        if not there:
            return None
        jaxpr, kept = inner.jaxpr([results[i] for i in there])
    finally:
        inner.close()
    return Pull.of_program(jaxpr, list(tangents), there, primitive.multiple), kept
