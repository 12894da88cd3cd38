"""`autograd.extend`: operations with derivative rules of your own.

`@primitive` makes a function one operation to every transform; `defvjp` and `defjvp` give it rules, with autograd's
conventions (a vjp maker `(ans, *args, **kwargs) -> (g -> cotangent)`, a jvp `(g, ans, *args, **kwargs) -> tangent`). Idea: a
call with traced arguments is a `custom_vjp` or `custom_jvp` call over exactly those arguments; all others are constants of that
call, of any type. Reverse mode takes the vjps, forward mode the jvps; where only one of the two is given the other is derived
from it. Containers are pytrees (`funcad.tree` registers classes); `vspace` describes them, nothing here needs it.

Trap: outside jit and vmap the function and the rules run on plain arrays, so they may call anything. Inside they are traced: a
function that calls foreign code (C, files) goes through `funcad.pure_callback` there.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np

from funcad import tree
from funcad.api.border import dress_as, float0, name_of, zeros_for
from funcad.configuration import OnDemand
from funcad.control.rules import on_values
from funcad.custom.call_rows import NUMBERS, CallRow, is_plain, tape_of, write_row
from funcad.custom.custom_jvp import custom_jvp
from funcad.custom.custom_vjp import custom_vjp, following_p
from funcad.errors import MissingRuleError
from funcad.host.where import state
from funcad.ir.aval import aval_of, is_inexact
from funcad.ir.tracer import Tracer
from funcad.primitives.conversion import convert, stop_gradient
from funcad.unjitted.linearizing import LinearizingTrace
from funcad.unjitted.outside import Protector

# isort: off
from funcad.autograd.nodes import JVPNode as JVPNode, VJPNode as VJPNode
from funcad.autograd.user_boxes import Box as Box, boxed, unboxed
from funcad.autograd.vspaces import SparseObject as SparseObject, VSpace as VSpace, dense, vspace as vspace
# isort: on

pullbacks = OnDemand("funcad.api.vjp")

__all__ = [
    "primitive",
    "Box",
    "JVPNode",
    "SparseObject",
    "VJPNode",
    "notrace_primitive",
    "register_notrace",
    "defvjp",
    "defvjp_argnum",
    "defvjp_argnums",
    "defjvp",
    "defjvp_argnum",
    "defjvp_argnums",
    "def_linear",
    "VSpace",
    "vspace",
]


class _Rules:
    """Rules of one mode: a function of all the arguments that are differentiated, and which it covers (None: all)."""

    __slots__ = ("make", "argnums", "__weakref__")

    def __init__(self, make: Callable[..., Any], argnums: Iterable[int] | None = None):
        self.make = make
        self.argnums = None if argnums is None else frozenset(argnums)

    def covers(self, argnum: int) -> bool:
        return self.argnums is None or argnum in self.argnums


class primitive:
    """A function as one operation, which gets its derivatives from `defvjp` and `defjvp`.

    With no traced argument it is the function itself. Arguments may be of any type; those that carry a derivative need a rule
    (MissingRuleError, a NotImplementedError, names what is missing). Keyword arguments are constants.
    `fun` is a function of arrays.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import primitive, defvjp
    >>> @primitive
    ... def logsumexp(x):
    ...     top = np.max(x)
    ...     return top + np.log(np.sum(np.exp(x - top)))
    >>> defvjp(logsumexp, lambda ans, x: lambda g: g * np.exp(x - ans))
    >>> grad(logsumexp)(np.zeros(2))
    array([0.5, 0.5])
    """

    defined = ("vjps", "jvps")  # see `Remade`

    def __init__(self, fun: Callable[..., Any]):
        dress_as(self, fun)
        self.fun = fun
        self.vjps: _Rules | None = None
        self.jvps: _Rules | None = None

    def __repr__(self) -> str:
        return f"<primitive {name_of(self.fun)}>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for name, value in kwargs.items():
            if _is_traced(value):
                raise TypeError(
                    f"primitive {name_of(self.fun)}: the keyword argument {name!r} is traced, and keyword arguments have no "
                    "rules.\nRemedy: make it a positional argument, or pass funcad.stop_gradient(value)."
                )
        args = tuple(map(unboxed, args))
        traced = [i for i, a in enumerate(args) if _is_traced(a)]
        return boxed(_TracedCall(self, args, kwargs, traced).run()) if traced else self.fun(*args, **kwargs)


def _is_traced(x: Any) -> bool:
    if type(x) is Tracer:
        return True
    holds = isinstance(x, (list, tuple, dict)) or type(x) in VSpace.mappings
    return holds and any(type(leaf) is Tracer for leaf in tree.leaves(x))


def _is_differentiable(x: Any) -> bool:
    if type(x) is Tracer or type(x) is np.ndarray:
        return is_inexact(aval_of(x))
    return any(is_inexact(aval_of(leaf)) for leaf in tree.leaves(x))


_UNKNOWN: Any = object()


class _TracedCall:
    """A call with traced arguments, as custom rules over those arguments."""

    def __init__(self, f: primitive, args: tuple, kwargs: dict, traced: Sequence[int], known: Any = _UNKNOWN):
        self.f, self.args, self.kwargs, self.traced = f, args, kwargs, traced
        self.known = known  # the result, if the function has been called

    def full(self, values: Sequence[Any]) -> tuple:
        result = list(self.args)
        for i, v in zip(self.traced, values):
            result[i] = v
        return tuple(result)

    def plain(self, *values: Any) -> Any:
        return self.f.fun(*self.full(values), **self.kwargs)

    def again(self, *values: Any) -> Any:
        """The primitive itself, in whatever trace the values belong to: derivatives of derivatives find the rules again."""
        known, self.known = self.known, _UNKNOWN
        return unboxed(self.f(*self.full(values), **self.kwargs)) if known is _UNKNOWN else known

    def run(self) -> Any:
        f, values = self.f, [self.args[i] for i in self.traced]
        needed = [i for i, v in zip(self.traced, values) if _is_differentiable(v)]
        vjps = f.vjps is not None and all([f.vjps.covers(i) for i in needed])
        jvps = f.jvps is not None and all([f.jvps.covers(i) for i in needed])
        if not vjps and not jvps:  # those without a rule may be constants of a jitted function: refused when differentiated
            rules = f.vjps or f.jvps
            values = [v if rules and rules.covers(i) else _guarded(f, i, v) for i, v in zip(self.traced, values)]
            vjps, jvps = f.vjps is not None, f.vjps is None and f.jvps is not None
        tape = tape_of(values) if vjps and needed else None
        if tape is not None:
            out = self._row(
                tape, values, lambda known: _TracedCall(f, self.args, self.kwargs, self.traced, known)._rule(True, jvps)
            )
            if out is not None:
                return out
        return self._rule(vjps, jvps)(*values)

    def _row(self, tape: Any, values: Sequence[Any], again: Callable[[Any], Any]) -> Any:
        """The result of a call on values: a row of the tape, and None of what is no float, which is for the general way.

        `again(ans)` is the call as a function with a custom rule, whose result is known.
        """
        primals, what = [x.primal for x in values], name_of(self.f.fun)
        ans = on_values(what, state.axis_env, self.plain, primals)
        if not is_plain(ans):
            self.known = ans
            return None

        def pull(*known: Any) -> Sequence[Any]:
            ans, *xs, ct = known
            if Tracer not in map(type, known):
                found = on_values(what, state.axis_env, lambda ans, g, *xs: self.backward((ans, xs), g), (ans, ct, *xs))
                if all(map(_fits, found, xs)):
                    return [c if c is None or type(c) is np.ndarray else np.float64(c) for c in found]
            return pullbacks.vjp(again(ans), *xs)[1](ct)  # type: ignore[no-any-return]

        def push(kept: Sequence[Any], ts: Sequence[Any]) -> Any:
            ans, *xs = kept
            owner = LinearizingTrace(what)
            owner.protector, owner.recording = Protector(xs), next(t for t in ts if t is not None).owner
            out = again(ans)(*[x if t is None else Tracer(owner, None, x, t) for x, t in zip(xs, ts)])
            return out.tangent if type(out) is Tracer and out.owner is owner else None

        kept = [(ans, None), *zip(primals, values)]
        operation = following_p, tuple(values), {}, None, None
        return write_row(tape, CallRow(pull, push, range(len(values))), operation, ans, values, kept)

    def _rule(self, vjps: bool, jvps: bool) -> Any:
        """The call as a function of the traced arguments, with its rules."""
        if vjps:
            rule: Any = custom_vjp(self.plain_function())
            rule.defvjp(lambda *xs: self.forward(*xs), lambda residuals, g: self.backward(residuals, g))
            if jvps:
                rule.defjvp(lambda primals, tangents: self.push(primals, tangents))
        elif jvps:
            rule = custom_jvp(self.plain_function())
            rule.defjvp(lambda primals, tangents: self.push(primals, tangents))
        else:
            rule = self.plain
        return rule

    def plain_function(self) -> Callable[..., Any]:
        """`plain` under the name of the user's function, but with its own signature."""

        def plain(*values: Any) -> Any:
            return self.plain(*values)

        plain.__name__ = plain.__qualname__ = name_of(self.f.fun)
        return plain

    def forward(self, *values: Any) -> tuple[Any, Any]:
        ans = self.again(*values)
        return ans, (ans, values)

    def backward(self, residuals: Any, g: Any) -> tuple:
        ans, values = residuals
        rules = self.f.vjps
        assert rules is not None
        wanted = [i for i, v in zip(self.traced, values) if rules.covers(i) and _is_differentiable(v)]
        found = dict(zip(wanted, map(dense, rules.make(tuple(wanted), ans, self.full(values), self.kwargs)(g))))
        return tuple([_in_dtypes(found.get(i), v) for i, v in zip(self.traced, values)])

    def push(self, primals: tuple, tangents: tuple) -> tuple[Any, Any]:
        ans = self.again(*primals)
        rules = self.f.jvps
        assert rules is not None
        given = [(i, t) for i, t in zip(self.traced, tangents) if rules.covers(i) and not _is_float0(t)]
        if not given:
            return ans, tree.map(zeros_for, ans)
        argnums, gs = tuple([i for i, _ in given]), tuple([t for _, t in given])
        return ans, _in_dtypes(rules.make(argnums, gs, ans, self.full(primals), self.kwargs), ans)


def _fits(c: Any, x: Any) -> bool:
    """Is this cotangent of x as it is, or none?"""
    if type(c) is type(x) is np.ndarray:
        return c.dtype == x.dtype and c.shape == x.shape
    return c is None or type(c) in NUMBERS and type(x) in NUMBERS


def _is_float0(tangent: Any) -> bool:
    leaves = tree.leaves(tangent)
    return all(getattr(leaf, "dtype", None) == float0 for leaf in leaves)


def _in_dtypes(given: Any, like: Any) -> Any:
    """What a rule returned, in the dtypes of what it belongs to: a float64 result for a float32 argument is converted."""

    def fit(x: Any, y: Any) -> Any:
        dtype = aval_of(y).dtype
        if dtype.kind not in "fc" or aval_of(x).dtype == dtype or aval_of(x).dtype.kind == "c" != dtype.kind:
            return x
        return convert(x, dtype)

    if given is None or _fits(given, like):
        return given
    return given if tree.structure(given) != tree.structure(like) else tree.map(fit, given, like)


def _guarded(f: primitive, argnum: int, value: Any) -> Any:
    """The value, which may be used but not differentiated."""
    if not _is_differentiable(value):
        return value

    def refuse(primals: Any, tangents: Any) -> Any:
        raise MissingRuleError(
            f"primitive {name_of(f.fun)} has no derivative rule for argument {argnum}.\n"
            f"Remedy: give it one with defvjp(..., argnums=[..., {argnum}]) or defjvp; None as the rule means zero."
        )

    guard = custom_jvp(lambda x: x)
    guard.defjvp(refuse)
    return guard(value)


def _rules_of(fun: Any, what: str) -> Any:
    """Where the rules of the function are kept. Those of one that is no primitive are not asked, as in autograd."""
    if isinstance(fun, primitive):
        return fun
    if not callable(fun):
        raise TypeError(f"{what} takes a function, got {fun!r}")
    if (getattr(fun, "__module__", None) or "").partition(".")[0] != "funcad":
        warnings.warn(
            f"{what}: the rules have no effect, as {name_of(fun)} is not decorated with @primitive: its derivative is that of "
            "the operations that it is made of.\nRemedy: give the rules to what `primitive(fun)` returns, and call that.",
            stacklevel=3,
        )
    return primitive(fun)


def defvjp_argnums(fun: primitive, vjpmaker: Callable[..., Any]) -> None:
    """The reverse rule for all arguments at once: `vjpmaker(argnums, ans, args, kwargs)` gives `g -> cotangents`.

    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function.
    Returns nothing. As autograd's.

    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import primitive, defvjp_argnums
    >>> f = primitive(lambda x, y: x * y)
    >>> defvjp_argnums(f, lambda argnums, ans, args, kwargs: lambda g: [10.0 * g for _ in argnums])
    >>> float(grad(f)(2.0, 3.0))
    10.0
    """
    _rules_of(fun, "defvjp_argnums").vjps = _Rules(vjpmaker)


def defvjp_argnum(fun: primitive, vjpmaker: Callable[..., Any]) -> None:
    """One reverse rule for every argument: `vjpmaker(argnum, ans, args, kwargs)` gives `g -> cotangent`.

    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function.
    Returns nothing. As autograd's.

    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import primitive, defvjp_argnum
    >>> f = primitive(lambda x, y: x * y)
    >>> defvjp_argnum(f, lambda argnum, ans, args, kwargs: lambda g: g * args[1 - argnum])
    >>> float(grad(f, 1)(2.0, 3.0))
    2.0
    """

    def make(argnums: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        pullbacks = [vjpmaker(i, ans, args, kwargs) for i in argnums]
        return lambda g: [pullback(g) for pullback in pullbacks]

    _rules_of(fun, "defvjp_argnum").vjps = _Rules(make)


def defvjp(fun: primitive, *vjpmakers: Callable[..., Any] | None, argnums: Iterable[int] | None = None) -> None:
    """Reverse rules `maker(ans, *args, **kwargs)` giving `g -> cotangent`, one per argument, or for those in `argnums`.

    None means that the derivative is zero. An argument that has no rule cannot be differentiated. Rules for a function of
    funcad's own (`funcad.autograd.scipy.special.expit`) change nothing: it has its derivatives.
    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function;
    `vjpmakers` are the rules. Returns nothing. As autograd's.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import primitive, defvjp
    >>> f = primitive(lambda x, n: x**n)
    >>> defvjp(f, lambda ans, x, n: lambda g: g * n * x ** (n - 1), None)
    >>> float(grad(f)(3.0, 2))
    6.0
    """
    target = _rules_of(fun, "defvjp")
    makers = dict(zip(count() if argnums is None else argnums, vjpmakers))
    _check_rules(makers, fun, "vjp")

    def make(wanted: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        pullbacks = [None if makers[i] is None else makers[i](ans, *args, **kwargs) for i in wanted]  # type: ignore[misc]
        return lambda g: [None if pullback is None else pullback(g) for pullback in pullbacks]

    target.vjps = _Rules(make, makers)


def _check_rules(rules: dict[int, Any], fun: Any, what: str) -> None:
    for i, rule in rules.items():
        if not (rule is None or callable(rule) or what == "jvp" and rule == "same"):
            name = name_of(getattr(fun, "fun", fun))
            raise TypeError(f"bad {what} {rule!r} for argument {i} of {name}: it must be a function or None")


def defjvp_argnums(fun: primitive, jvpmaker: Callable[..., Any]) -> None:
    """The forward rule for all arguments at once: `jvpmaker(argnums, gs, ans, args, kwargs)` is the output's tangent.

    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function.
    Returns nothing. As autograd's.

    >>> from funcad import jvp
    >>> from funcad.autograd.extend import primitive, defjvp_argnums
    >>> f = primitive(lambda x, y: x * y)
    >>> defjvp_argnums(f, lambda argnums, gs, ans, args, kwargs: 10.0 * sum(gs))
    >>> float(jvp(f, (2.0, 3.0), (1.0, 1.0))[1])
    20.0
    """
    _rules_of(fun, "defjvp_argnums").jvps = _Rules(jvpmaker)


def defjvp_argnum(fun: primitive, jvpmaker: Callable[..., Any]) -> None:
    """One forward rule for every argument: `jvpmaker(argnum, g, ans, args, kwargs)`; the tangents are added.

    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function.
    Returns nothing. As autograd's.

    >>> from funcad import jvp
    >>> from funcad.autograd.extend import primitive, defjvp_argnum
    >>> f = primitive(lambda x, y: x * y)
    >>> defjvp_argnum(f, lambda argnum, g, ans, args, kwargs: g * args[1 - argnum])
    >>> float(jvp(f, (2.0, 3.0), (1.0, 1.0))[1])
    5.0
    """
    _rules_of(fun, "defjvp_argnum").jvps = _Rules(
        lambda argnums, gs, ans, args, kwargs: _total([jvpmaker(i, g, ans, args, kwargs) for i, g in zip(argnums, gs)], ans)
    )


def defjvp(fun: primitive, *jvpfuns: Callable[..., Any] | str | None, argnums: Iterable[int] | None = None) -> None:
    """Forward rules `(g, ans, *args, **kwargs) -> tangent`, one per argument, or for those in `argnums`.

    None means zero; "same" that the function is linear in this argument, so that it is applied to g.
    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function;
    `jvpfuns` are the rules. Returns nothing. As autograd's.

    >>> from funcad import jvp
    >>> from funcad.autograd.extend import primitive, defjvp
    >>> f = primitive(lambda x, y: x * y)
    >>> defjvp(f, "same", lambda g, ans, x, y: x * g)
    >>> float(jvp(f, (2.0, 3.0), (1.0, 1.0))[1])
    5.0
    """
    target = _rules_of(fun, "defjvp")
    rules = dict(zip(count() if argnums is None else argnums, jvpfuns))
    _check_rules(rules, fun, "jvp")

    def one(i: int, g: Any, ans: Any, args: Any, kwargs: Any) -> Any:
        rule: Any = rules[i]
        if rule is None:
            return None
        return _same(fun, i, g, args, kwargs) if rule == "same" else rule(g, ans, *args, **kwargs)

    target.jvps = _Rules(
        lambda argnums, gs, ans, args, kwargs: _total([one(i, g, ans, args, kwargs) for i, g in zip(argnums, gs)], ans), rules
    )


def _total(tangents: Sequence[Any], ans: Any) -> Any:
    total = None
    for t in tangents:
        if t is not None:
            total = t if total is None else tree.map(lambda a, b: a + b, total, t)
    return tree.map(zeros_for, ans) if total is None else total


def def_linear(fun: primitive) -> None:
    """The function is linear in each of its arguments: the tangent is the function of g in place of that argument.

    For reverse mode it must be made of traceable operations; otherwise give it `defvjp` too.
    `fun` is made by `primitive`, else they have no effect, with a warning, and TypeError for what is no function.
    Returns nothing. As autograd's.

    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import primitive, def_linear
    >>> f = primitive(lambda x, y: x * y)
    >>> def_linear(f)
    >>> float(grad(f)(2.0, 3.0))
    3.0
    """
    defjvp_argnum(fun, lambda i, g, ans, args, kwargs: _same(fun, i, g, args, kwargs))


def _same(fun: primitive, i: int, g: Any, args: tuple, kwargs: dict) -> Any:
    """The function itself, not as one operation: reverse mode transposes what it is made of."""
    return fun.fun(*args[:i], g, *args[i + 1 :], **kwargs)


def notrace_primitive(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The function without derivatives: it gets the values of its arguments, and its result is a constant.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> from funcad.autograd.extend import notrace_primitive
    >>> float(grad(lambda x: x * notrace_primitive(np.floor)(x))(2.5))
    2.0
    """

    @functools.wraps(fun)
    def constant(*args: Any, **kwargs: Any) -> Any:
        values = tree.map(lambda leaf: stop_gradient(leaf) if type(leaf) is Tracer else leaf, list(args))
        return fun(*values, **kwargs)

    return constant


class _Untraced(set[primitive]):
    """The primitives without derivatives in one mode: `add` gives them rules that say zero."""

    def __init__(self, mode: str):
        super().__init__()
        self.mode = mode

    def add(self, fun: Any) -> None:
        if not isinstance(fun, primitive):
            raise TypeError(
                f"register_notrace({name_of(fun)}): only what `primitive` made can lose its derivatives.\n"
                "Remedy: call `notrace_primitive(fun)` in its place."
            )
        super().add(fun)
        if self.mode == "vjps":
            fun.vjps = _Rules(lambda argnums, ans, args, kwargs: lambda g: [None] * len(argnums))
        else:
            fun.jvps = _Rules(lambda argnums, gs, ans, args, kwargs: tree.map(zeros_for, ans))


notrace_primitives = {VJPNode: _Untraced("vjps"), JVPNode: _Untraced("jvps")}


def register_notrace(trace_type: type, primitive_fun: primitive) -> None:
    """Let reverse mode (`VJPNode`) or forward mode (`JVPNode`) take what the primitive returns for constant.

    >>> import numpy as np
    >>> from funcad.autograd import grad
    >>> rounded = primitive(np.round)
    >>> register_notrace(VJPNode, rounded)
    >>> float(grad(lambda x: x * rounded(x))(2.2))
    2.0
    """
    if trace_type not in notrace_primitives:
        raise TypeError(f"register_notrace takes VJPNode or JVPNode, got {trace_type!r}: there are no nodes of other classes")
    notrace_primitives[trace_type].add(primitive_fun)
