"""What the custom rules share: rules as programs, calls as pairs of trees, closures that are refused or become arguments.

Idea: a user's rule is an ordinary function. Where the values exist (grad and jvp outside jit and vmap) it simply runs on them,
so Python `if` works in it. Where they do not, it is traced once into a program, in a staging trace, and the program is what
transforms transform: its batch is the batch of the program. A `CustomRule` is such a function together with that program, made
when it is first needed, with the axis environment of the moment when the rule was met.

Trap: a rule that closes over a value being traced would not know the derivative with respect to it; it is refused. In a
program it shows as a captured tracer; on values, as a result that belongs to a trace which none of the arguments belongs to.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from funcad import tree
from funcad.configuration import OnDemand
from funcad.errors import CustomRuleClosureError, UnexpectedTracerError
from funcad.host.locks import lent_to
from funcad.host.where import Source, setting, state
from funcad.ir.aval import Aval, aval_of, is_inexact, said
from funcad.ir.interpret import eval_jaxpr
from funcad.ir.jaxpr import Jaxpr
from funcad.ir.trace import plain_values, trace_function
from funcad.ir.tracer import Tracer, snapshot, tangent_of
from funcad.unjitted.following import FollowingTrace

from funcad.api.border import (  # isort: skip
    OutTree, api, check_leaves, check_tangents, flat_function, flat_values, float0, name_of, runs_rule, zeros_for,
)  # fmt: skip

axis_env = OnDemand("funcad.primitives.axis_env")
control_call = OnDemand("funcad.control.call")
interpreter = OnDemand("funcad.backends.interpreter")
masked_rules = OnDemand("funcad.masks.masked_rules")


def recorder(leaves: Sequence[Any]) -> Any:
    """The trace that would record an operation on these values, as `bind` decides it; None: it would compute."""
    top = None
    for x in leaves:
        if type(x) is Tracer and (top is None or x.owner.level > top.level):
            top = x.owner
    if top is None:
        return None
    inner = state.staging
    return inner if inner is not None and inner.level > top.level else top


def is_following(trace: Any) -> bool:
    return isinstance(trace, FollowingTrace)


def user_code(env: tuple, batching: Any = None) -> Any:
    """The state in which a user's rule runs, wherever in an interpreter we are when it is called."""
    if not env and not state.axis_env and state.source is None and state.batching is batching:
        return _AS_IT_IS
    return setting(source=None, axis_env=env, batching=batching)


_AS_IT_IS = nullcontext()


def on_values(what: str, env: tuple, f: Callable[..., Any], values: Sequence[Any]) -> Any:
    """`f(*values)`, where f runs a user's rule: in that state, on values that no write reaches."""
    if Tracer in map(type, values):
        values = list(map(snapshot, values))
    context = user_code(env)
    if context is _AS_IT_IS:
        return lent_to(what, f, values)
    with context:
        return lent_to(what, f, values)


# ---------------------------------------------------------------- closures


def _captured_values(f: Any, depth: int = 4, with_globals: bool = True) -> Iterator[tuple[str, Any]]:
    """(name, value) of everything that a function refers to: closure cells, globals, partials, bound objects."""
    if depth == 0:
        return
    for attribute in ("__wrapped__", "func", "f", "__func__"):
        inner = getattr(f, attribute, None)
        if callable(inner) and inner is not f:
            yield from _captured_values(inner, depth - 1, with_globals)
    if isinstance(f, functools.partial):
        yield from ((f"argument {i} of a partial", a) for i, a in enumerate(f.args))
        yield from ((name, a) for name, a in f.keywords.items())
    code = getattr(f, "__code__", None)
    if code is None:
        return
    named = []
    for name, cell in zip(code.co_freevars, f.__closure__ or ()):
        try:
            named.append((name, cell.cell_contents))
        except ValueError:  # a variable that is not assigned yet
            pass
    if with_globals:
        named += [(name, f.__globals__[name]) for name in code.co_names if name in f.__globals__]
    for name, value in named:
        yield name, value
        if callable(value) and hasattr(value, "__code__"):
            yield from _captured_values(value, depth - 1, with_globals)


def _leaves(value: Any) -> Iterator[Any]:
    """The leaves of a captured value, which need not be a tree: a graph may contain itself."""
    waiting, seen = [value], {}
    while waiting:
        part = waiting.pop()
        if not tree.is_tree_node(type(part)):
            yield part
        elif id(part) not in seen:
            seen[id(part)] = part  # kept alive, so that no id is used twice
            waiting += tree.flatten_one_level(part)[0]


def closes_over_tracer(f: Any) -> bool:
    """Is there a traced value in the closure of f?"""
    return any(type(leaf) is Tracer for _, v in _captured_values(f, with_globals=False) for leaf in _leaves(v))


def _variable_of(functions: Sequence[Any], wanted: Callable[[Tracer], bool]) -> str | None:
    for f in functions:
        for name, value in _captured_values(f):
            for leaf in _leaves(value):
                if type(leaf) is Tracer and wanted(leaf):
                    return name
    return None


def _closure_error(what: str, functions: Sequence[Any], tracer: Tracer) -> CustomRuleClosureError:
    name = _variable_of(functions, lambda t: t is tracer) or _variable_of(functions, lambda t: t.owner is tracer.owner)
    variable = f"the variable {name!r}" if name else "a value"
    made = f", made at {Source(*tracer.source)}" if tracer.source is not None else ""
    return CustomRuleClosureError(
        f"{what} closes over {variable}, which is being traced ({tracer.aval} in {tracer.owner.name}{made}): "
        "the derivative with respect to it would be lost.\n"
        "Remedy: make it an argument of the function and of its rules; for a function that closes over it, "
        "funcad.closure_convert turns such values into arguments."
    )


def refuse_tracers(what: str, functions: Sequence[Any], captured: Sequence[Any]) -> None:
    """A program of a rule must not have captured a tracer."""
    for c in captured:
        if type(c) is Tracer:
            raise _closure_error(what, functions, c)


def _traces_of(values: Sequence[Any]) -> set[int]:
    found: set[int] = set()
    todo = [v for v in values if type(v) is Tracer]
    while todo:
        x = todo.pop()
        found.add(int(x.owner.level))  # in front of a trace, that of what is written in place is half a level higher
        todo += [v for v in (x.primal, masked_rules.cleaned(tangent_of(x))) if type(v) is Tracer]
    return found


def refuse_outside(what: str, functions: Sequence[Any], given: Sequence[Any], results: Sequence[Any]) -> None:
    """A rule that ran on values must not return a tracer whose trace none of its arguments belongs to."""
    tracers = [r for r in plain_values(results) if type(r) is Tracer]
    if not tracers:
        return
    allowed = _traces_of(given) | _traces_of([index for _, _, index in state.axis_env])
    for r in tracers:
        if int(r.owner.level) not in allowed:
            raise _closure_error(what, functions, r)


# ---------------------------------------------------------------- rules


class CustomRule:
    """A function of flat values, `function(*values) -> [value or None]`; or, derived from others, a program only.

    `eager` rules run their function on whatever they are given; the others run their program.
    """

    __slots__ = ("what", "function", "users", "avals", "derive", "eager", "env", "batching", "_program")

    def __init__(
        self,
        what: str,
        function: Callable[..., Sequence[Any]] | None = None,
        avals: Sequence[Any] = (),
        users: Sequence[Any] = (),
        *,
        derive: Callable[[], tuple[Jaxpr, list, list[bool]]] | None = None,
        eager: bool = False,
    ):
        self.what = what
        self.function = function
        self.avals = avals
        self.users = users
        self.derive = derive
        self.eager = eager
        self.env = state.axis_env
        self.batching = state.batching if derive is not None else None
        self._program: Any = None

    def __repr__(self) -> str:
        return self.what

    @property
    def __name__(self) -> str:
        return self.what

    @property
    def over_processes(self) -> bool:
        """May it call collectives between processes?"""
        return any([isinstance(index, axis_env.ProcessAxis) for _, _, index in self.env])

    def program(self) -> tuple[Jaxpr, list, list[bool]]:
        """`(jaxpr, consts, present)`: (consts, values) -> the results that are not None."""
        if self._program is None:
            with user_code(self.env, self.batching):
                try:
                    self._program = self.derive() if self.derive is not None else self._trace()
                except UnexpectedTracerError as error:
                    raise self._closed_over(error) from None
        return self._program

    def _trace(self) -> tuple[Jaxpr, list, list[bool]]:
        present: list[bool] = []
        function: Any = self.function  # by a name of its own: so it is found that the user's is behind this one

        def flat(*values: Any) -> list[Any]:
            results = function(*values)
            present[:] = [r is not None for r in results]
            return [r for r in results if r is not None]

        jaxpr, consts = trace_function(flat, self.avals, name=self.what, staging=True, errstate="refused")
        refuse_tracers(self.what, self.users, consts)
        return jaxpr, consts, present

    def __call__(self, *values: Any) -> list[Any]:
        if self.eager:
            try:
                return list(on_values(self.what, self.env, self.function, values))  # type: ignore[arg-type]
            except UnexpectedTracerError as error:
                raise self._closed_over(error) from None
        jaxpr, consts, present = self.program()
        found = iter(eval_jaxpr(jaxpr, [*consts, *values]))
        return [next(found) if p else None for p in present]

    def _closed_over(self, error: Exception) -> Exception:
        """A leaked tracer in a rule that runs late is a closure of the rule's, if we find it there."""
        for f in self.users:
            for _, value in _captured_values(f):
                for leaf in _leaves(value):
                    if type(leaf) is Tracer and leaf.owner.closed:
                        return _closure_error(self.what, self.users, leaf)
        return error


# ---------------------------------------------------------------- calls


class Target:
    """The signature side of a function with custom rules: keywords resolved, non-differentiable arguments apart."""

    __slots__ = ("f", "kind", "nums", "names", "_signature")

    def __init__(self, f: Any, kind: str, nondiff_argnums: Any, nondiff_argnames: Any):
        if not callable(f):
            raise TypeError(f"{kind} takes a function, got {said(f)}")
        self.f = f
        self.kind = kind
        self.nums = tuple(nondiff_argnums) if isinstance(nondiff_argnums, (tuple, list, range)) else (nondiff_argnums,)
        self.names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        self._signature: Any = None
        for i in self.nums:
            if not hasattr(i, "__index__"):
                raise TypeError(f"{kind}: nondiff_argnums must hold ints, got {i!r}")

    def signature(self) -> Any:
        if self._signature is None:
            try:
                self._signature = not isinstance(self.f, np.ufunc) and inspect.signature(self.f)  # theirs has out=, where= ...
            except (TypeError, ValueError):  # some builtins have none
                self._signature = False
        return self._signature

    def positional(self, args: tuple, kwargs: dict) -> tuple:
        """All arguments by position, defaults filled in, as rules receive them."""
        code = getattr(self.f, "__code__", None)
        if not kwargs and code is not None and code.co_kwonlyargcount == 0:
            if code.co_argcount == len(args) or (code.co_argcount < len(args) and code.co_flags & inspect.CO_VARARGS):
                return args  # all are given already
        signature = self.signature()
        if signature is False:
            if kwargs:
                raise TypeError(f"{self.kind} of {name_of(self.f)}: the function has no signature; pass arguments by position")
            return args
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        if bound.kwargs:
            raise TypeError(
                f"{self.kind} of {name_of(self.f)}: rules receive arguments by position, but {sorted(bound.kwargs)} can be "
                "given by keyword only.\nRemedy: make them positional parameters, or bind them with functools.partial."
            )
        return bound.args

    def nondiff(self, n: int) -> tuple[int, ...]:
        """Positions of the non-differentiable arguments."""
        positions = set()
        for i in self.nums:
            if not -n <= i < n:
                raise ValueError(f"{self.kind} of {name_of(self.f)}: nondiff_argnums={self.nums} for {n} argument(s)")
            positions.add(i % n)
        if self.names:
            parameters = list(self.signature().parameters) if self.signature() else []
            for name in self.names:
                if name not in parameters:
                    raise ValueError(f"{self.kind} of {name_of(self.f)}: nondiff_argnames names {name!r}, not a parameter")
                positions.add(parameters.index(name))
        return tuple(sorted(positions))


class CustomCall:
    """One call of a function with custom rules: its leaves, and how the arguments are put together again."""

    __slots__ = ("target", "name", "args", "nondiff", "leaves", "in_tree", "avals", "inexact")

    def __init__(self, target: Target, args: tuple):
        self.target, self.name = target, name_of(target.f)
        self.nondiff = target.nondiff(len(args)) if target.nums or target.names else ()
        self.args = args
        dynamic = tuple([a for i, a in enumerate(args) if i not in self.nondiff]) if self.nondiff else args
        self.leaves, self.in_tree = flat_values(dynamic)
        for i in self.nondiff:
            for leaf in tree.leaves(args[i]):
                if type(leaf) is Tracer:
                    raise CustomRuleClosureError(
                        f"{target.kind} of {self.name}: argument {i} is in nondiff_argnums, but it is being traced "
                        f"({leaf.aval} in {leaf.owner.name}).\n"
                        "Remedy: make it an ordinary argument; its rule may return None (bwd) or ignore its tangent (jvp)."
                    )
        self.avals = list(map(aval_of, self.leaves))
        self.inexact = list(map(is_inexact, self.avals))

    def detach(self) -> None:
        """Forget the arguments' values, once the call is recorded: a program must not keep its tracers alive."""
        self.leaves = []
        self.args = tuple([a if i in self.nondiff else None for i, a in enumerate(self.args)])

    @property
    def static(self) -> list[Any]:
        return [self.args[i] for i in self.nondiff]

    def merged(self, leaves: Sequence[Any]) -> list[Any]:
        """The arguments in their order, with these leaves."""
        dynamic, places = iter(self.in_tree.unflatten(leaves)), self.nondiff
        return [a if i in places else next(dynamic) for i, a in enumerate(self.args)] if places else list(dynamic)

    def strong_avals(self) -> list[Any]:
        """Avals of the tangents of the differentiable leaves."""
        return [Aval(a.shape, a.dtype) for a, inexact in zip(self.avals, self.inexact) if inexact]

    def tangents(self, primals: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
        """One tangent per differentiable leaf: zeros where it is None."""
        return [zeros_for(p) if t is None else t for p, t, d in zip(primals, tangents, self.inexact) if d]

    def run_jvp(self, rule: Callable[..., Any], leaves: Sequence[Any], tangents: Sequence[Any]) -> tuple[list, list, Any]:
        """Run the user's jvp rule: (outputs, tangents or None, output structure). `tangents`: as `tangents()` gives them."""
        found = iter(tangents)
        full = [next(found) if d else np.zeros(a.shape, float0) for a, d in zip(self.avals, self.inexact)]
        primals = tuple(self.in_tree.unflatten(leaves))
        result = runs_rule(rule)(*self.static, primals, tuple(self.in_tree.unflatten(full)))
        what = f"jvp rule of {self.name}"
        if not (isinstance(result, (tuple, list)) and len(result) == 2):
            raise TypeError(
                f"the {what} must return a pair (output, output_tangent); it returned {said(result)}.\n"
                "Remedy: return f(*primals), tangent."
            )
        out, tangent = result
        outs, out_tree = flat_values(out)
        parts = out_tree.parts_of(tangent, "output_tangent", "output")
        given = out_tree.unflatten([zeros_for(o) if p is None else p for o, p in zip(outs, parts)])
        _, checked, _ = check_tangents(out, given, what, "output", "output_tangent")
        return outs, [None if p is None else t for p, t in zip(parts, checked)], out_tree


# -- `closure_convert`: values that a function closes over become arguments


@api
def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Any]]:
    """Turn the traced values that fun closes over into arguments.

    Parameters
    ----------
    fun : callable
        The function; it is traced with abstract values.
    *example_args : array, number or container of them
        Examples of its arguments, of which only structure, shapes and dtypes matter.

    Returns
    -------
    converted : callable
        `converted(*args, *values)` is `fun(*args)`, for arguments like the examples.
    values : list
        What fun closed over. Arrays that are not being traced stay inside.

    Raises
    ------
    TypeError
        An example is no array or number.

    Notes
    -----
    So a function can be handed to `custom_vjp` and its rules as a non-differentiable argument, with the values beside
    it as ordinary ones. As `jax.closure_convert`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> def f(a):
    ...     converted, values = funcad.closure_convert(lambda x: a * x, 1.0)
    ...     return converted(3.0, *values) + len(values)
    >>> float(funcad.grad(f)(2.0))
    3.0

    See also
    --------
    custom_vjp, custom_jvp
    """
    leaves, in_tree = flat_values((example_args, {}))
    check_leaves(leaves, f"closure_convert of {name_of(fun)}: argument", example_args, given=True)
    store = OutTree()
    avals = [aval_of(x) for x in leaves]
    jaxpr, captured = trace_function(
        flat_function(fun, in_tree, store), avals, name=f"closure_convert({name_of(fun)})", staging=True
    )
    hoisted = [type(c) is Tracer for c in captured]
    fixed = [None if h else c for c, h in zip(captured, hoisted)]
    values = [c for c, h in zip(captured, hoisted) if h]
    n_args = len(example_args)

    @functools.wraps(fun)
    @api
    def converted(*args: Any) -> Any:
        if len(args) != n_args + len(values):
            raise TypeError(
                f"{name_of(fun)}, converted by closure_convert, takes {n_args} argument(s) and the {len(values)} value(s) that "
                f"closure_convert returned; got {len(args)}"
            )
        given, given_tree = flat_values((args[:n_args], {}))
        if given_tree != in_tree:
            raise TypeError(
                f"{name_of(fun)}, converted by closure_convert: "
                + tree.describe_difference(given_tree, in_tree, "the arguments", "the example arguments")
            )
        found = iter(args[n_args:])
        consts = [next(found) if h else c for c, h in zip(fixed, hoisted)]
        return store.tree.unflatten(eval_jaxpr(jaxpr, [*consts, *given]))

    converted.traced = jaxpr, fixed, store.tree  # type: ignore[attr-defined]
    return converted, values


def by_points(converted: Callable[..., Any], compiled: bool = False) -> Callable[..., Any]:
    """`converted(*args, *values)` of `closure_convert`, whose arguments are one array each, for NumPy's arrays and numbers.

    For solvers, which ask one point after the other. Unless `compiled`, each bit is NumPy's, as differences want it.
    """
    jaxpr, fixed, structure = converted.traced  # type: ignore[attr-defined]
    program = control_call.interned(control_call.inlined(jaxpr))
    run = functools.partial(control_call.run_jaxpr, program) if compiled else interpreter.program_of(program).run
    places = [i for i, c in enumerate(fixed) if c is None]
    n_args = len(jaxpr.inputs) - len(fixed)

    def at(*args: Any) -> Any:
        operands = [*fixed, *args[:n_args]]
        for i, value in zip(places, args[n_args:]):
            operands[i] = value
        return structure.unflatten(run(operands))

    return at
