"""What is there twice, or for nothing: calls are spliced in, equal equations are one, dead ones go, values pass by.

What is run exactly once is spliced: jit's calls, functions with custom rules, the solver of an implicit solve, the chosen
branch of a `cond` whose index is a literal; in the bodies of loops and branches too. A primitive with `barrier=True`
(checkpoint) stays a call. Traps: the same body may come in twice, so its variables are renamed; bodies that call each other
repeatedly would grow exponentially, so a LARGE body that is called from several places stays a call; an operand may be a Python
scalar where the body was traced for a NumPy one.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

from funcad.ir.aval import Aval
from funcad.ir.jaxpr import Equation, Jaxpr, Literal, Var, equation_has_effects, params_key, split, stays
from funcad.passes.rewrite import Work, fits, recast, rewrite
from funcad.passes.subprograms import called, kind_of, program_key, with_subprograms
from funcad.primitives.basic_indexing import basic_index_p
from funcad.primitives.loop import Loop
from funcad.primitives.shape import broadcast_in_dim
from funcad.tree.same import same_key

LARGE = 1000  # equations of a body (its own calls spliced) beyond which it is spliced at one place only


def inline(jaxpr: Jaxpr) -> Jaxpr:
    """The program with its calls spliced in.

    >>> import numpy as np, funcad
    >>> from funcad.passes.redundancy import inline
    >>> f = funcad.jit(lambda x: funcad.jit(np.sin)(x))
    >>> print(inline(f.lower(np.ones(2)).jaxpr))
    { lambda a:f64[2] . let
        b:f64[2] = sin a
      in (b,) }
    """
    return _Inliner().run(jaxpr)


class _Inliner:
    def __init__(self) -> None:
        self.flat: dict[int, tuple[Jaxpr, Jaxpr]] = {}  # id of a body -> itself (kept alive) and the same with calls spliced
        self.calls: dict[int, int] = {}  # how often a body has been spliced

    def run(self, jaxpr: Jaxpr) -> Jaxpr:
        for equation in jaxpr.equations:
            if equation.primitive.multiple or equation.primitive.name == "name":
                return rewrite(jaxpr, self.step)
        return jaxpr

    def step(self, work: Work, equation: Equation) -> list[Any] | None:
        primitive = equation.primitive
        if not primitive.multiple:
            if primitive.name == "name" and equation.params.keys() == {"name"}:  # checkpoint_name: the identity
                (x,) = equation.inputs
                return [x] if fits(x.aval, equation.outputs[0].aval) else None
            return None
        found = None if primitive.barrier else called(equation)
        if found is None:
            return self.inside(work, equation)
        body, operands = self.flattened(found[0]), found[1]
        if len(body.equations) > LARGE:
            times = self.calls[id(body)] = self.calls.get(id(body), 0) + 1
            if times > 1:
                return None
        return splice(work, body, operands, equation) or self.inside(work, equation)

    def flattened(self, body: Jaxpr) -> Jaxpr:
        known = self.flat.get(id(body))
        if known is None:
            known = self.flat[id(body)] = body, self.run(body)
        return known[1]

    def inside(self, work: Work, equation: Equation) -> list[Any] | None:
        """The equation stays, with the calls in its programs spliced."""
        found = with_subprograms(equation, self.flattened)
        if found is equation:
            return None
        work.keep(found)
        return list(found.outputs)


def splice(work: Work, body: Jaxpr, operands: Any, equation: Equation) -> list[Any] | None:
    """Add the body's equations under new names; the atoms of its outputs, or None if something does not fit or comes out."""
    names: dict[Any, Any] = {}
    for v, atom in zip(body.inputs, operands):
        names[v] = recast(atom, v.aval)
        if names[v] is None:
            return None
    for o, v in zip(body.outputs, equation.outputs):
        if recast(names.get(o, o), v.aval) is None:
            return None
    read, keep = names.get, work.keep
    for primitive, inputs, params, outs, source in body.equations:
        mine = tuple([Var(v.aval) for v in outs])
        keep(Equation(primitive, tuple([read(a, a) for a in inputs]), params, mine, source or equation.source))
        names.update(zip(outs, mine))
    return [recast(read(o, o), v.aval) for o, v in zip(body.outputs, equation.outputs)]


# -- common subexpressions: what is computed twice from the same operands is computed once
#
# Two equations are the same if they apply the same primitive, with parameters equal by type and bits (1, 1.0, True differ; 0.0
# and -0.0 too), to the same variables and to literals equal by type and bits. Sub-programs are the same if they are the same
# object or the same equations, wired alike. Effects are never merged, nor is anything with `barrier=True`: a checkpoint is
# meant to compute again, and its body is a program of its own, which shares nothing with what is around it.


def cse(jaxpr: Jaxpr) -> Jaxpr:
    """The program in which equal equations are one.

    >>> import numpy as np, funcad
    >>> from funcad.passes.redundancy import cse
    >>> print(cse(funcad.make_jaxpr(lambda x, y: np.sin(x * y) - np.sin(y * x))(1.0, 2.0).jaxpr))
    { lambda a:f64*[] b:f64*[] . let
        c:f64*[] = mul a b
        d:f64[] = sin c
        e:f64[] = sub d d
      in (e,) }
    """
    seen: dict[tuple, tuple] = {}
    keys = Keys()

    def step(work: Work, equation: Equation) -> Any:
        primitive, inputs, params, outputs, _ = equation
        if primitive.effect or primitive.barrier or primitive.multiple and equation_has_effects(equation):
            return None
        for a in inputs:
            if type(a) is Literal:
                inputs = tuple([keys.atom(a) for a in inputs])
                break
        if primitive.commutes == "bits" and hash(inputs[0]) > hash(inputs[1]):
            inputs = (inputs[1], inputs[0])
        try:
            key = (primitive, inputs, keys.params(params)) if params else (primitive, inputs)
            found = seen.setdefault(key, outputs)
        except TypeError:  # a parameter that cannot be compared
            return None
        return None if found is outputs else found

    return rewrite(jaxpr, step)


class Keys:
    """Keys of equations' parts; programs among the parameters get numbers, the same if they are equal."""

    def __init__(self) -> None:
        self.numbers: dict[int, tuple[int, Jaxpr]] = {}  # id -> number, and the program itself to keep it alive
        self.programs: dict[Any, int] = {}

    def atom(self, atom: Any) -> Any:
        return same_key(atom.value) if type(atom) is Literal else atom

    def params(self, params: dict[str, Any]) -> tuple:
        return params_key(params, self.program)  # type: ignore[no-any-return]

    def program(self, jaxpr: Jaxpr) -> int:
        """A number that equal programs share."""
        known = self.numbers.get(id(jaxpr))
        if known is None:
            try:
                number = self.programs.setdefault(program_key(jaxpr, self.program), len(self.programs))
            except TypeError:
                number = -id(jaxpr)
            known = self.numbers[id(jaxpr)] = number, jaxpr
        return known[0]


# -- dead code: what nobody needs is removed, through sub-programs and around loops
#
# Idea: mark what is live, starting from the outputs and the effects, then keep only that. An equation that holds programs has
# live and dead results of its own: the rule of its kind cuts its programs down to the live results and says which operands
# these still need. In a loop a carry is live if its final value is, or if a live value of the body reads it: marking follows
# the carry around the loop, so it ends at the smallest set. Residuals that the backward loop does not read thus disappear from
# the forward loop, with all that computes them.
#
# Invariants: effects stay, in their order; the program's own inputs stay. Trap: the rule of a nested equation is asked again
# when another of its results turns out to be live, so it answers from scratch; to ask rarely, plain equations are marked first.


def dce(jaxpr: Jaxpr) -> Jaxpr:
    """The program without what neither its outputs nor its effects need.

    >>> import numpy as np, funcad
    >>> from funcad.passes.redundancy import dce
    >>> loop = lambda x: funcad.scan(lambda c, v: ((c[0] + v, c[1] * v), c[1]), (0.0, 1.0), x)[0][0]
    >>> print(dce(funcad.make_jaxpr(loop)(np.ones(3)).jaxpr).equations[0].params["loop"].body)
    { lambda a:f64[] b:f64[] . let
        c:f64[] = add a b
      in (c,) }
    """
    return _Cutter().cut(jaxpr, [o for o in jaxpr.outputs if type(o) is Var], {}).program(jaxpr, jaxpr.inputs, jaxpr.outputs)


class _Cut(NamedTuple):
    """What is live in a program: variables, and the equations, cut down, that are left (None: all, as they are)."""

    live: set[Any]
    equations: tuple[Equation, ...] | None

    def program(self, jaxpr: Jaxpr, inputs: Sequence[Any], outputs: Sequence[Any]) -> Jaxpr:
        """The program with these inputs and outputs; the same object if nothing is different."""
        if self.equations is None and len(inputs) == len(jaxpr.inputs) and len(outputs) == len(jaxpr.outputs):
            return jaxpr
        equations = jaxpr.equations if self.equations is None else self.equations
        return Jaxpr(tuple(inputs), equations, tuple(outputs))

    def alive(self, variables: Sequence[Any]) -> list[bool]:
        return [v in self.live for v in variables]


class _Cutter:
    """The rules, and what they found: the same body cut in the same way is one object."""

    def __init__(self) -> None:
        self.cuts: dict[Any, Any] = {}

    # ------------------------------------------------------------ marking

    def cut(self, jaxpr: Jaxpr, roots: Sequence[Var], around: dict[Var, Any]) -> _Cut:
        """Mark from `roots` and the effects; a live input in `around` makes the atom there live (the way around a loop)."""
        equations = jaxpr.equations
        live: set[Any] = set()
        stack: list[Any] = list(roots)
        makers: dict[Var, int] = {}
        nested: dict[int, str] = {}
        seen = bytearray(len(equations))
        for i, equation in enumerate(equations):
            primitive = equation.primitive
            for v in equation.outputs:
                makers[v] = i
            if primitive.multiple:
                kind = kind_of(equation)
                if kind is not None and kind in _CUTS:
                    nested[i] = kind
            if stays(equation):
                seen[i] = 1
                if i not in nested:
                    stack += equation.inputs
        pending = [-i for i in nested if seen[i]]  # a heap, the last equation first
        heapify(pending)
        asked = set(pending)
        smaller: dict[int, tuple[Equation, list[bool]]] = {}
        while True:
            while stack:
                v = stack.pop()
                if v in live or type(v) is Literal:
                    continue
                live.add(v)
                i = makers.get(v, -1)
                if i < 0:
                    if v in around:
                        stack.append(around[v])
                elif i in nested:
                    seen[i] = 1
                    if -i not in asked:
                        asked.add(-i)
                        heappush(pending, -i)
                elif not seen[i]:
                    seen[i] = 1
                    stack += equations[i].inputs
            if not pending:
                break
            i = -heappop(pending)  # the last one: whoever reads its results has been asked before
            asked.discard(-i)
            equation = equations[i]
            flags = tuple([v in live for v in equation.outputs])
            found, needed = smaller[i] = _CUTS[nested[i]](self, equation, flags)
            stack += [a for a, n in zip(equation.inputs, needed) if n]
        if all(seen) and all([found is equations[i] for i, (found, _) in smaller.items()]):
            return _Cut(live, None)
        kept = [smaller[i][0] if i in smaller else e for i, e in enumerate(equations) if seen[i]]
        return _Cut(live, tuple(kept))

    # ------------------------------------------------------------ the kinds of equations

    def call(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        jaxpr = equation.params["jaxpr"]

        def make() -> tuple[Jaxpr, list[bool]]:
            outputs = _chosen(jaxpr.outputs, flags)
            cut = self.cut(jaxpr, outputs, {})
            needed = cut.alive(jaxpr.inputs)
            return cut.program(jaxpr, _chosen(jaxpr.inputs, needed), outputs), needed

        program, needed = self.once(("call", jaxpr, flags), make)
        return _smaller(equation, needed, flags, {"jaxpr": program}), needed

    def cond(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        branches = equation.params["branches"]

        def make() -> tuple[tuple[Jaxpr, ...], list[bool]]:
            cuts = [self.cut(b, _chosen(b.outputs, flags), {}) for b in branches]
            needed = [any(column) for column in zip(*[c.alive(b.inputs) for c, b in zip(cuts, branches)])]
            programs = [c.program(b, _chosen(b.inputs, needed), _chosen(b.outputs, flags)) for c, b in zip(cuts, branches)]
            return tuple(programs), needed

        programs, operands = self.once(("cond", *branches, flags), make)
        needed = [True, *operands]
        return _smaller(equation, needed, flags, {"branches": programs}), needed

    def loop(self, equation: Equation, flags: tuple[bool, ...]) -> tuple[Equation, list[bool]]:
        loop: Loop = equation.params["loop"]
        jaxpr, cond, n_carry = loop.body, loop.cond, loop.n_carry
        flags = flags[loop.first :]

        def make() -> tuple[Jaxpr, Jaxpr | None, list[bool], list[bool], list[bool]]:
            counts, wanted, test = [True] * loop.n_counts, list(flags), None
            if cond is not None:
                test = self.cut(cond, _chosen(cond.outputs, (True,)), {})
                counts, read = map(list, loop.counted(test.alive(cond.inputs)))
                wanted[:n_carry] = [f or r for f, r in zip(flags, read)]
            consts, carry, xs = loop.split(jaxpr.inputs)
            cut = self.cut(jaxpr, _chosen(jaxpr.outputs, wanted), dict(zip(carry, jaxpr.outputs)))
            carried = [a or w for a, w in zip(cut.alive(carry), wanted)]
            needed = [*cut.alive(consts), *carried, *cut.alive(xs)]
            kept = [*carried, *wanted[n_carry:]]
            program = cut.program(jaxpr, _chosen(jaxpr.inputs, needed), _chosen(jaxpr.outputs, kept))
            if cond is None or test is None:
                return program, None, counts, needed, kept
            return program, test.program(cond, _chosen(cond.inputs, [*counts, *carried]), cond.outputs), counts, needed, kept

        key = ("loop", jaxpr, cond, loop.n_consts, n_carry, loop.n_counts, flags)
        program, test, counts, needed, kept = self.once(key, make)
        smaller = loop.with_body(program, sum(needed[: loop.n_consts]), sum(kept[:n_carry]), test)
        needed = [*counts, *needed]
        return _smaller(equation, needed, [*[True] * loop.first, *kept], {"loop": smaller}), needed

    def once(self, key: tuple, make: Any) -> Any:
        found = self.cuts.get(key)
        if found is None:
            found = self.cuts[key] = make()
        return found


_CUTS = {"call": _Cutter.call, "cond": _Cutter.cond, "loop": _Cutter.loop}


def _chosen(values: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    return [v for v, f in zip(values, flags) if f]


def _smaller(equation: Equation, needed: Sequence[bool], kept: Sequence[bool], params: dict[str, Any]) -> Equation:
    """The equation with these operands, results and parameters; the same object if nothing is different."""
    old = equation.params
    if all(needed) and all(kept) and all([old[k] == v for k, v in params.items()]):
        return equation
    inputs, outputs = tuple(_chosen(equation.inputs, needed)), tuple(_chosen(equation.outputs, kept))
    return Equation(equation.primitive, inputs, {**old, **params}, outputs, equation.source)


# -- forwarding: what goes into a sub-program unchanged, and what comes out of it unchanged
#
# A literal operand is written into the body; an operand given twice is given once; a row of an array that is one value
# broadcast is that value, and rows that are broadcasts are broadcast in the body. A carry that the body hands on as it is is
# no carry; an output that is an input, a literal or another output is that. So bodies learn what is constant, loops write and
# read less, and equal values outside are equal inside, where CSE then sees them. Invariant: the same equations run, on the
# same values, as often as before. Trap: stacks (loops of unknown length) may be shorter than the loop, so what is stored in
# them is forwarded from output to output only.


def forward(jaxpr: Jaxpr) -> Jaxpr:
    """The program with values handed past its sub-programs instead of through them.

    >>> import numpy as np, funcad
    >>> from funcad.passes.redundancy import forward
    >>> loop = lambda x: funcad.scan(lambda c, v: ((c[0] * v, c[1]), (v, c[1])), (1.0, 2.0), x)
    >>> program = forward(funcad.make_jaxpr(loop)(np.ones(3)).jaxpr)
    >>> print(program.equations[-1].params["loop"].body)
    { lambda a:f64[] b:f64[] . let
        c:f64[] = mul a b
      in (c,) }
    """
    for equation in jaxpr.equations:
        if equation.primitive.multiple:
            return rewrite(jaxpr, _step)
    return jaxpr


def _step(work: Work, equation: Equation) -> list[Any] | None:
    kind = kind_of(equation)
    rule = _FORWARDS.get(kind) if kind is not None else None
    return None if rule is None else rule(work, equation)


class _Operands:
    """The operands of a sub-program that are the same at each run, and the inputs that stand for them, without repetitions."""

    def __init__(self, names: dict[Var, Any]):
        self.names = names  # what replaces an input inside
        self.atoms: list[Any] = []
        self.inputs: list[Var] = []
        self.seen: dict[Any, Var] = {}
        self.of: dict[Any, Any] = {}  # the operand that an input stands for

    def give(self, atom: Any, v: Var, literals: bool = True) -> None:
        if type(atom) is Literal:
            literal = recast(atom, v.aval) if literals else None
            if literal is not None:
                self.names[v] = literal
                return
        else:
            first = self.seen.setdefault(atom, v)
            if first is not v and fits(first.aval, v.aval):
                self.names[v] = first
                return
        self.atoms.append(atom)
        self.inputs.append(v)
        self.of[v] = atom


def _renamed(jaxpr: Jaxpr, names: dict[Var, Any], inputs: Sequence[Var], outputs: Sequence[Any]) -> Jaxpr:
    """The program with these inputs and outputs, in which `names` are replaced."""
    equations = jaxpr.equations
    if names:
        equations = tuple([
            e._replace(inputs=tuple([names.get(a, a) for a in e.inputs])) if any([a in names for a in e.inputs]) else e
            for e in equations
        ])  # fmt: skip
    return Jaxpr(tuple(inputs), equations, tuple([names.get(o, o) for o in outputs]))


def _row(work: Work, x: Any, source: Any) -> Any:
    """What each row of x is, if x is one value broadcast along its leading axis."""
    made = work.definition(x, broadcast_in_dim)
    if made is None or 0 in made.params["axes"]:
        return None
    (y,) = made.inputs
    shape, axes = made.params["shape"][1:], tuple([a - 1 for a in made.params["axes"]])
    if type(y) is Literal and not shape:
        return Literal(x.aval.dtype.type(y.value))
    if y.aval.shape == shape and axes == tuple(range(len(shape))) and not y.aval.weak:
        return y
    return work.add(broadcast_in_dim, (y,), {"shape": shape, "axes": axes}, source) if shape else None


def row_of(work: Work, x: Any, entry: Any, source: Any) -> Var:
    """What this entry of an index selects along the leading axis."""
    rest = [(0, n, 1) for n in x.aval.shape[1:]]
    return work.add(basic_index_p, [x], {"index": (entry, *rest)}, source)


def _narrow(work: Work, x: Any, source: Any) -> tuple[Any, tuple] | None:
    """What the rows of x repeat, and along which axes its rows lie in them, if x, or what it is the first or last rows of, is
    broadcast along other axes than the leading one."""
    part = work.definition(x, basic_index_p)
    index = part.params["index"] if part is not None else ((),)
    whole = tuple([(0, n, 1) for n in x.aval.shape[1:]])
    if type(index[0]) is not tuple or part is not None and index[1:] != whole:
        return None
    made = work.definition(part.inputs[0] if part is not None else x, broadcast_in_dim)
    if made is None or type(made.inputs[0]) is not Var:
        return None
    (y,), axes = made.inputs, made.params["axes"]
    if y.aval.size == made.outputs[0].aval.size:
        return None
    if axes[:1] != (0,) or y.aval.weak or y.aval.shape[0] != made.params["shape"][0]:
        return None
    if part is not None:
        y = row_of(work, y, index[0], source)
    return y, tuple([k - 1 for k in axes[1:]])


def _repeated(work: Work, x: Any, aval: Aval, source: Any) -> Any:
    """x once per iteration, as an array of this aval."""
    if type(x) is Literal:
        x = Literal(aval.dtype.type(x.value))
    axes = tuple(range(1, len(aval.shape)))
    return work.add(broadcast_in_dim, (x,), {"shape": aval.shape, "axes": axes}, source)


def _loop(work: Work, equation: Equation) -> list[Any] | None:
    loop: Loop = equation.params["loop"]
    length, cond = loop.length, loop.cond
    count, consts, carry, xs = loop.parts(equation.inputs)
    const_vars, carry_vars, x_vars = loop.split(loop.body.inputs)
    test_vars, test_carry = ([], carry_vars) if cond is None else loop.counted(cond.inputs)
    carry_outs, y_outs = split(loop.body.outputs, loop.n_carry)
    turns, carry_results, y_results = split(equation.outputs, loop.first, loop.n_carry)
    names: dict[Var, Any] = {}
    test_names: dict[Var, Any] = {}
    results: dict[Var, Any] = {}
    fixed, rows, tested = _Operands(names), _Operands(names), _Operands(test_names)
    for a, v in zip(consts, const_vars):
        fixed.give(a, v)
    for a, v in zip(count, test_vars):
        tested.give(a, v)
    moving = []
    for a, v, t, o, r in zip(carry, carry_vars, test_carry, carry_outs, carry_results):
        final = recast(a, r.aval) if o is v else None
        if final is None:
            moving.append((a, v, t, o, r))
        else:
            results[r] = final
            fixed.give(a, v)
            if cond is not None:
                tested.give(a, t)
    spread: list[Equation] = []
    for a, v in zip(xs, x_vars):
        row = None if length is None else _row(work, a, equation.source)
        narrow = None
        if length is not None and row is None:
            narrow = _narrow(work, a, equation.source)
        if row is not None:
            fixed.give(row, v)
        elif narrow is not None:
            y, axes = narrow
            each = Var(Aval(y.aval.shape[1:], v.aval.dtype))
            rows.give(y, each, literals=False)
            params = {"shape": v.aval.shape, "axes": axes}
            made = Equation(broadcast_in_dim, (each,), params, (v,), equation.source)
            spread.append(made)
        else:
            rows.give(a, v, literals=False)
    kept = []
    first: dict[Any, Var] = {}
    for o, r in zip(y_outs, y_results):
        o = names.get(o, o)
        found: Any = None
        if type(o) is Literal:
            found = None if length is None else _repeated(work, o, r.aval, equation.source)
        else:
            known = first.setdefault(o, r)
            if known is not r:
                found = results.get(known, known)
            elif length is not None:
                x = rows.of.get(o)
                if x is not None:
                    found = x if fits(x.aval, r.aval) else None
                elif o in fixed.of:
                    found = _repeated(work, fixed.of[o], r.aval, equation.source)
        if found is None:
            kept.append((o, r))
        else:
            results[r] = found
    if not names and not test_names and not results and not spread and len(rows.atoms) == len(xs):
        return None
    outs = [*[o for *_, o, _ in moving], *[o for o, _ in kept]]
    body = loop.body
    if spread:
        body = Jaxpr(body.inputs, (*spread, *body.equations), body.outputs)
    body = _renamed(body, names, [*fixed.inputs, *[v for _, v, *_ in moving], *rows.inputs], outs)
    if cond is not None:
        count = tested.atoms
        cond = _renamed(cond, test_names, [*tested.inputs, *[t for _, _, t, _, _ in moving]], cond.outputs)
    new = {"loop": loop.with_body(body, len(fixed.atoms), len(moving), cond)}
    inputs = (*count, *fixed.atoms, *[a for a, *_ in moving], *rows.atoms)
    outputs = (*turns, *[r for *_, r in moving], *[r for _, r in kept])
    work.keep(Equation(equation.primitive, inputs, new, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _cond(work: Work, equation: Equation) -> list[Any] | None:
    found = _common(equation, equation.params["branches"], equation.inputs[1:])
    if found is None:
        return None
    branches, operands, outputs, results = found
    inputs = (equation.inputs[0], *operands)
    work.keep(Equation(equation.primitive, inputs, {"branches": branches}, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _call(work: Work, equation: Equation) -> list[Any] | None:
    found = _common(equation, (equation.params["jaxpr"],), equation.inputs)
    if found is None:
        return None
    (jaxpr,), operands, outputs, results = found
    work.keep(Equation(equation.primitive, tuple(operands), {**equation.params, "jaxpr": jaxpr}, outputs, equation.source))
    return [results.get(r, r) for r in equation.outputs]


def _common(equation: Equation, programs: tuple[Jaxpr, ...], operands: Sequence[Any]) -> tuple | None:
    """Programs of the same operands and results: (new programs, operands, outputs, what replaces the other outputs)."""
    names: list[dict[Var, Any]] = [{} for _ in programs]  # apart: programs may share variables, at different places
    places: dict[Any, int] = {}
    kept: list[int] = []
    for i, a in enumerate(operands):
        if type(a) is Literal:
            literals = [recast(a, p.inputs[i].aval) for p in programs]
            if all([x is not None for x in literals]):
                for mine, p, x in zip(names, programs, literals):
                    mine[p.inputs[i]] = x
                continue
        else:
            j = places.setdefault(a, i)
            if j != i and all([fits(p.inputs[i].aval, p.inputs[j].aval) for p in programs]):
                for mine, p in zip(names, programs):
                    mine[p.inputs[i]] = p.inputs[j]
                continue
        kept.append(i)
    given: list[dict[Any, Any]] = [dict(zip(p.inputs, operands)) for p in programs]
    results: dict[Var, Any] = {}
    outs: list[int] = []
    first: dict[tuple, Var] = {}
    for j, r in enumerate(equation.outputs):
        atoms = [p.outputs[j] for p in programs]
        sources = [g.get(o) for g, o in zip(given, atoms)]
        found: Any = None
        if sources[0] is not None and all([s is sources[0] for s in sources]):
            found = recast(sources[0], r.aval)
        elif all([type(o) is Var for o in atoms]):
            known = first.setdefault(tuple(atoms), r)
            found = None if known is r else known
        if found is None:
            outs.append(j)
        else:
            results[r] = found
    if not names[0] and not results:
        return None
    new = [_renamed(p, mine, [p.inputs[i] for i in kept], [p.outputs[j] for j in outs]) for p, mine in zip(programs, names)]
    return tuple(new), [operands[i] for i in kept], tuple([equation.outputs[j] for j in outs]), results


_FORWARDS = {"loop": _loop, "cond": _cond, "call": _call}
