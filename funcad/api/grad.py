"""`grad` and `value_and_grad`.

The user's function runs once, on its real values (following.py), and the linear program recorded meanwhile is transposed at
once, letting every residual die as soon as it has been used. The border is strict: one real output of shape (), float inputs.
"""

from __future__ import annotations

import functools
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from funcad.configuration import OnDemand
from funcad.errors import NonDifferentiableInputError, NonScalarOutputError
from funcad.host.conversions import begins_plainly, conversion_of, plainly
from funcad.host.devices import NAMESPACES, device_in_use
from funcad.host.real_types import dtype_kind, is_a
from funcad.host.where import for_user, interrupted, outside, state
from funcad.ir.aval import aval_of, said
from funcad.ir.tracer import Tracer
from funcad.primitives.placement import each_on_device_of
from funcad.unjitted.backward import pull, transposed
from funcad.unjitted.linearizing import linearize_following
from funcad.unjitted.tape import Tape
from funcad.writes.plain import lent_to

from funcad.api.border import (  # isort: skip
    Remade, api, argument_aval, binds, called, check_function, check_leaves, check_second, checked_pair, derivative_of,
    dress_as, flat_values, is_method, is_of, name_of, normalize_argnums, of_method, positional_names, runs, seed_beside,
    to_close_up, unshared, with_compiled, zeros_for,
)

tree = OnDemand("funcad.tree")

_FLOATS = frozenset([float, np.float64])
_LEAVES = _FLOATS | {np.ndarray, Tracer}
_NO_TREE: Any = None  # where each argument is a leaf, and the module of trees need not be loaded
_ONE = np.float64(1.0)
_NUMBERS = _FLOATS | {np.float16, np.float32, np.longdouble}
_ALONE = [True]  # one leaf, which is differentiated
_NONE = type(None)
_F64 = np.dtype(np.float64)
_REAL = np.dtype(np.float32), _F64


@api
@binds
def value_and_grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function that returns the value of f and its gradient.

    The value costs nothing extra: it is computed on the way to the gradient.

    Parameters
    ----------
    f : callable
        As for `grad`: its output is one real number of shape ().
    argnums : int or sequence of ints, optional
        Which positional arguments to differentiate with respect to; 0 by default. A sequence gives a tuple of
        gradients.
    has_aux : bool
        f returns `(output, aux)`; the result is then `((value, aux), gradient)`.
    holomorphic, allow_int, argnames
        As for `grad`.

    Returns
    -------
    callable
        It takes the arguments of f and returns `(value, gradient)`, or `((value, aux), gradient)` with `has_aux`. The
        value is what f returns; the gradient has the structure, shapes and dtypes of the argument.

    Raises
    ------
    NonScalarOutputError, NonDifferentiableInputError
        When it is called, as for `grad`.

    Notes
    -----
    The order is JAX's: value first. `torch.func.grad_and_value` has it the other way round.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> value, g = funcad.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> float(value), g
    (5.0, array([2., 4.]))
    >>> (value, aux), g = funcad.value_and_grad(lambda x: (x**2, "any value"), has_aux=True)(3.0)
    >>> float(value), aux, float(g)
    (9.0, 'any value', 6.0)

    See also
    --------
    grad, jvp, vjp
    """
    return Gradient(f, argnums, argnames, has_aux, holomorphic, allow_int, True).dressed()


@api
@binds
def grad(
    f: Callable[..., Any],
    argnums: int | Sequence[int] | None = None,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    *,
    argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """The gradient of a function whose output is one number of shape ().

    Parameters
    ----------
    f : callable
        A function of arrays, numbers and containers of them (lists, dicts, dataclasses ...). Its output is one real number.
    argnums : int or sequence of ints, optional
        Which positional arguments to differentiate with respect to; 0 by default. A sequence gives a tuple of gradients.
    has_aux : bool
        f returns `(output, aux)`; the result is then `(gradient, aux)`, where `aux` is anything.
    holomorphic : bool
        f is complex-differentiable, with complex arguments and output.
    allow_int : bool
        Integer and boolean arguments are allowed; their gradients are zeros of the dtype `float0`.
    argnames : str or sequence of strs, optional
        Names of arguments to differentiate with respect to. A string gives that gradient, a sequence a dict of gradients; with
        `argnums` as well, the result is `(by position, by name)`.

    Returns
    -------
    callable
        It takes the arguments of f. The gradient has the structure, shapes and dtypes of the argument.

    Raises
    ------
    NonScalarOutputError
        When it is called, and the output of f has another shape than ().
    NonDifferentiableInputError
        When it is called with integers, or with complex output without `holomorphic`.

    Notes
    -----
    f runs once, on its values: Python's `if` and `while` on them work outside `jit` and `vmap`. For a real function of complex
    z = x + iy the gradient is df/dx - i df/dy, as in JAX; torch returns the conjugate. A UserWarning says once if the output
    does not depend on an argument. On a method, `@grad` differentiates with respect to the first argument after `self`.

    Examples
    --------
    >>> import numpy as np, funcad
    >>> funcad.grad(lambda x: np.sum(np.sin(x)))(np.zeros(2))
    array([1., 1.])
    >>> f = lambda x, y: x**2 * y
    >>> print(*funcad.grad(f, argnums=(0, 1))(3.0, 2.0), funcad.grad(f, argnames="y")(3.0, 2.0))
    12.0 9.0 9.0
    >>> print(*funcad.grad(lambda x: (x**2, "any value"), has_aux=True)(3.0))
    6.0 any value

    See also
    --------
    value_and_grad, jacobian, hessian, hvp
    """
    return Gradient(f, argnums, argnames, has_aux, holomorphic, allow_int, False).dressed()


def _array_behind(out: Any) -> Any:
    """The array that an object of a subclass of np.ndarray is, or what stands for one."""
    return out.array if hasattr(type(out), "stands_for") else out.closed_up() if type(out) in to_close_up else out


def _back(jaxpr: Any, residuals: list, outs: list, ends: bool) -> Iterator[Any]:
    """The gradients of the first output, or of its elements' sum, by the leaves that it depends on."""
    value = outs[0]
    one: Any = _ONE
    if type(value) not in _FLOATS:
        aval = aval_of(value)
        one = np.ones(aval.shape, aval.dtype)[()]
    if type(jaxpr) is Tape:
        seeds = [one] if type(value) in _NUMBERS or not device_in_use() else seed_beside(one, value)
        return iter(pull(jaxpr, seeds, ends=ends))
    return iter(transposed(jaxpr, residuals, seed_beside(one, value)))


class Gradient(Remade):
    """What `grad` and `value_and_grad` return: a function, with the options it was made with."""

    ends = False  # is it all that a derivative is of, so that nothing is computed of what it gives?

    def __init__(
        self, f: Any, argnums: Any, argnames: Any, has_aux: bool, holomorphic: bool, allow_int: bool, with_value: bool
    ):
        what = "value_and_grad" if with_value else "grad"
        check_function(f, what)
        if type(argnums) is not int and argnums is not None:
            check_second(f, argnums, what, "argnums")
        self.f = f
        self.owners = (type,) if is_method(f) else ()  # @classmethod hands a class over and says nothing before
        self.given = argnums
        if argnums is None and argnames is None:
            argnums = 0
        self.argnums = argnums
        self.alone = argnums if type(argnums) is int and argnums >= 0 and argnames is None else None
        if has_aux or holomorphic:
            self.alone = None
        self.argnames = argnames
        self.has_aux = has_aux
        self.holomorphic = holomorphic
        self.allow_int = allow_int
        self.with_value = with_value
        self.warned: set = set()
        self.compiled = None
        if type(f) is not FunctionType:
            options = (with_value, has_aux, holomorphic, allow_int, argnums, argnames)
            key = ("grad", *[tuple(o) if type(o) is list else o for o in options])
            self.compiled = derivative_of(f, key, self.remaking()[1])

    def dressed(self) -> Gradient:
        """This, under the name of its function, as users get it."""
        what = "Value and gradient" if self.with_value else "Gradient"
        dress_as(self, self.f, f"{what} of {called(self.f)} with respect to {_chosen(self.f, self.given, self.argnames)}.")
        return self

    def __repr__(self) -> str:
        return f"<{'value_and_grad' if self.with_value else 'grad'} of {called(self.f)}>"

    def ending(self) -> Gradient:
        """The same, as the whole function that is pushed forward."""
        found = object.__new__(Gradient)
        found.__dict__.update(self.__dict__, ends=True)
        return found

    def remaking(self) -> tuple[Any, Callable[[Any], Any]]:
        options = {"argnums": self.given, "argnames": self.argnames, "has_aux": self.has_aux, "allow_int": self.allow_int}
        return self.f, functools.partial(value_and_grad if self.with_value else grad, **options, holomorphic=self.holomorphic)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.owners and args and is_of(args[0], self.owners):
            bound = of_method(self, args[0])
            if bound is not None:
                return bound(*args[1:], **kwargs)
        if self.compiled is not None:
            found = self.compiled(*args, **kwargs)
            if found is not NotImplemented:
                return found
        try:
            at = self.alone
            if at is not None and at < len(args):
                x = args[at]
                if state.abstract is None:
                    plain = type(x) in _FLOATS or type(x) in (np.ndarray, Tracer) and x.dtype in _REAL
                else:  # lanes of an un-jitted vmap
                    lane = type(x) is Tracer and x.owner is state.abstract and getattr(x.owner.recorder, "of_lanes", False)
                    plain = lane and x.atom.aval.dtype in _REAL
                if plain:
                    return self._of_leaf(x, at, args, kwargs)
            return self._call(args, kwargs)
        except Exception as error:
            raise for_user(error)  # noqa: B904 the same error
        except BaseException as stop:
            raise interrupted(stop)  # noqa: B904 the same error

    def _of_leaf(self, x: Any, at: int, args: tuple, kwargs: dict) -> Any:
        """What the call returns for an argument that is an array or a number: the most common call, in few steps."""
        f = self.f

        def flat(x: Any) -> list[Any]:
            if len(args) == 1 and not kwargs:
                known = type(f) is FunctionType and (id(f.__code__) in plainly if f.__closure__ is None else begins_plainly(f))
                out = f(x) if known and state.lender is state.observer else runs(f)(x)
            else:
                others, named = lent_to(f, [*args[:at], None, *args[at + 1 :]], kwargs)
                out = runs(f)(*others[:at], x, *others[at + 1 :], **named)
            p = out.primal if type(out) is Tracer else None
            lane = p.atom.aval if type(p) is Tracer and p.atom is not None else None
            if type(p) in _NUMBERS or lane is not None and lane.shape == () and lane.dtype in _REAL:
                return [out]
            out = _array_behind(out)
            number = self._number(out)
            return [out] if number is out else [number, out]

        outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, [x], _ALONE, "grad", {"n": 1}, True)
        if locks.held:
            locks.check()
        value, gradient = outs[-1], None
        if nonzero[0]:
            number = outs[0]
            lane = type(number) is Tracer and number.owner is state.abstract and number.atom.aval.dtype is _F64
            if type(jaxpr) is Tape and (lane or type(number) in _FLOATS):
                gradient = pull(jaxpr, [_ONE], ends=self.ends)[0]
            else:
                gradient = next(_back(jaxpr, residuals, outs, self.ends))
        if gradient is None:  # f does not depend on x, or a rule says that its derivative is zero
            self._warn_if_independent([None], tree.structure([x]), (at,), ())
            gradient = zeros_for(x)
        if NAMESPACES or "cupy" in sys.modules:  # `device_in_use`, without a call
            gradient = each_on_device_of([gradient], [x])[0]
        if type(value) is np.ndarray and self.with_value:
            (value,) = unshared((value,), (x,))
        if type(gradient) is np.ndarray:
            (gradient,) = unshared((gradient,), (x, value))
        if locks.held:
            locks.release()
        return (value, gradient) if self.with_value else gradient

    def _selection(self, args: tuple, kwargs: dict) -> tuple[tuple[int, ...], bool, tuple[tuple[str, int | None], ...]]:
        if self.argnames is None:
            if type(self.argnums) is int and 0 <= self.argnums < len(args):
                return (self.argnums,), True, ()
            return *normalize_argnums(self.argnums, len(args), "grad"), ()
        names = (self.argnames,) if isinstance(self.argnames, str) else tuple(self.argnames)
        keywords, extra = [], []
        for name in names:
            if name in kwargs:
                keywords.append(name)
                continue
            known = positional_names(self.f)
            if name not in known or known.index(name) >= len(args):
                raise ValueError(
                    f"grad: argnames={self.argnames!r} names {name!r}, which {name_of(self.f)} was not given.\n"
                    f"Remedy: pass it, or name one of {', '.join([*known[: len(args)], *kwargs]) or 'its arguments'}."
                )
            extra.append((known.index(name), name))
        positions, single = ((), False) if self.argnums is None else normalize_argnums(self.argnums, len(args), "grad")
        self_named = {name: i for i, name in extra}
        for i in self_named.values():
            if i in positions:
                raise ValueError(f"grad: argument {i} is named by both argnums={self.argnums!r} and argnames={self.argnames!r}")
        return positions, single, tuple((name, self_named.get(name)) for name in names)

    def _call(self, args: tuple, kwargs: dict) -> Any:
        f = self.f
        positions, single, names = self._selection(args, kwargs)
        box: dict[str, Any] = {}
        selected = [args[i] for i in positions] + [kwargs[n] if i is None else args[i] for n, i in names]
        plain = _LEAVES.issuperset(map(type, selected))  # each argument is a leaf
        leaves, in_tree = (selected, _NO_TREE) if plain else tree.flatten(selected)

        def flat(*xs: Any) -> list[Any]:
            rest, named = list(args), dict(kwargs)
            for i in (*positions, *[position for _, position in names if position is not None]):
                rest[i] = None
            named.update([(name, None) for name, position in names if position is None])
            rest, named = lent_to(f, rest, named)
            values = xs if plain else in_tree.unflatten(xs)
            for i, v in zip(positions, values):
                rest[i] = v
            for (name, position), v in zip(names, values[len(positions) :]):
                if position is None:
                    named[name] = v
                else:
                    rest[position] = v
            out = runs(f)(*rest, **named)
            rest.clear()
            named.clear()
            aux_leaves: list[Any] = []
            if self.has_aux:
                out, aux = checked_pair(f, out)
                aux_leaves, box["aux"] = flat_values(aux)
            out = _array_behind(out)
            number = self._number(out)
            box["n"] = 1
            return [number, *aux_leaves] if number is out else [number, out]

        build = None if plain else in_tree.unflatten
        return self._differentiated(flat, selected, leaves, build, positions, names, single, box)

    def _differentiated(
        self, flat: Any, selected: list, leaves: list, build: Any, positions: tuple, names: tuple, single: bool, box: dict
    ) -> Any:
        """What the call returns; `build(leaves)` gives a list like `selected`, None: each selected argument is a leaf."""
        differentiable = self._check_inputs(leaves, selected)
        outs, nonzero, jaxpr, residuals, locks = linearize_following(flat, leaves, differentiable, "grad", box, True)
        if locks.held:
            locks.check()
        found = _back(jaxpr, residuals, outs, self.ends) if nonzero[0] else itertools.repeat(None)
        grads = [next(found) if d else None for d in differentiable]
        if _NONE in map(type, grads):
            self._warn_if_independent(grads, tree.structure(selected), positions, names)
            grads = [zeros_for(x) if g is None else g for g, x in zip(grads, leaves)]
        theirs = leaves
        if self.has_aux:
            outs = unshared(outs, leaves)
            theirs = leaves + outs
        grads = unshared(each_on_device_of(grads, leaves), theirs)
        locks.release()
        return self._result(outs, box, grads if build is None else build(grads), len(positions), single)

    def _result(self, outs: list, box: dict, grads: Any, n_positions: int, single: bool) -> Any:
        by_position = grads[0] if single else tuple(grads[:n_positions])
        if self.argnames is None:
            gradient = by_position
        else:
            if isinstance(self.argnames, str):
                by_name = grads[n_positions]
            else:
                by_name = dict(zip(self.argnames, grads[n_positions:]))
            gradient = by_name if self.argnums is None else (by_position, by_name)
        if not self.with_value:
            return (gradient, box["aux"].unflatten(outs[1:])) if self.has_aux else gradient
        value = unshared(outs[:1] if self.has_aux else outs[-1:])[0]
        return ((value, box["aux"].unflatten(outs[1:])), gradient) if self.has_aux else (value, gradient)

    def _check_inputs(self, leaves: list, selected: Any) -> list[bool]:
        differentiable = []
        for i, x in enumerate(leaves):
            if not self.holomorphic and (type(x) in _FLOATS or type(x) is np.ndarray and x.dtype in _REAL):
                differentiable.append(True)
                continue
            try:
                aval = argument_aval(x)
            except TypeError:
                if list(positional_names(self.f))[:1] == ["self"]:
                    raise TypeError(
                        f"grad of {name_of(self.f)}: argument 0 is self, {said(x)}, which has no derivative.\n"
                        f"Remedy: argnums counts self: the argument after it is argnums=1."
                    ) from None
                check_leaves(leaves, "grad: argument", selected, given=True)
                raise
            kind = dtype_kind(aval.dtype)
            if kind in "biu" and not self.allow_int:
                steps = tree.flatten_with_path(selected)[0][i][0][1:]
                path = tree.keystr(steps)
                remedy = f"pass {float(x)!r} instead of {x!r}" if is_a(x, (int, bool)) else "convert it with .astype(float)"
                others = [leaf for leaf in leaves if leaf is not x]  # of integers alone there is an integer
                zeros = "; or allow_int=True for float0 zeros" if others else ""
                if any([type(step) is tree.GetAttrKey for step in steps]):
                    remedy += "; or make the field static, field(metadata={'static': True})"
                raise NonDifferentiableInputError(
                    f"grad of {name_of(self.f)}: the argument{' at ' + path if path else ''} is {said(x)}, and integers and "
                    f"bools have no derivative.\nRemedy: {remedy}{zeros}."
                )
            if self.holomorphic and kind == "f":
                raise NonDifferentiableInputError(
                    f"grad of {name_of(self.f)} with holomorphic=True needs complex arguments, got {said(x)}.\n"
                    "Remedy: convert it with .astype(complex), or leave holomorphic out."
                )
            differentiable.append(kind in "fc")
        return differentiable

    def _number(self, out: Any) -> Any:
        """What is differentiated of an output of f, which is checked."""
        self._check_output(out)
        return out

    def _check_output(self, out: Any) -> None:
        if type(out) is Tracer and type(out.primal) in _NUMBERS and not self.holomorphic:
            return
        name = name_of(self.f)
        try:
            aval = aval_of(out)
        except TypeError:
            remedy = "return the loss" + ("" if out is None else " alone, or (loss, aux) with has_aux=True")
            remedy = "call what it returns, as in x.sum()" if callable(out) else remedy
            raise NonScalarOutputError(
                f"grad needs a function whose output is one number, but {name} returned {said(out)}.\n"
                f"Remedy: {conversion_of(type(out)) or remedy}."
            ) from None
        if aval.shape != ():
            remedy = (
                "Remedy: return out.sum() or out[0]."
                if aval.shape == (1,)
                else "Remedy: return out.sum(); or funcad.jacrev(f), for the derivative of each output."
            )
            raise NonScalarOutputError(
                f"grad needs a function whose output has shape (), but {name} returned {said(out)}.\n{remedy}"
            )
        kind = dtype_kind(aval.dtype)
        if kind not in "fc" or (kind == "c") != self.holomorphic:
            if kind == "c":
                remedy = "return a real number (np.real, np.abs), or holomorphic=True for complex-differentiable functions"
            elif self.holomorphic:
                remedy = "holomorphic=True is for functions with complex output; leave it out"
            else:
                remedy = "return a float: integers and bools have no derivative"
            raise NonDifferentiableInputError(f"grad of {name}: the output is {said(out)}.\nRemedy: {remedy}.")

    def _warn_if_independent(self, grads: list, in_tree: Any, positions: tuple, names: tuple) -> None:
        labels = [f"argnums={i}" for i in positions] + [f"argnames={n!r}" for n, _ in names]
        start = 0
        for label, sub in zip(labels, in_tree.children()):
            part = grads[start : start + sub.num_leaves]
            start += sub.num_leaves
            if part and all(g is None for g in part) and label not in self.warned and not self.allow_int:
                self.warned.add(label)
                warnings.warn(
                    f"grad: the output of {name_of(self.f)} does not depend on the argument {label}; its gradient is zero",
                    UserWarning,
                    stacklevel=outside(2),
                )


def _chosen(f: Any, argnums: Any, argnames: Any) -> str:
    """The arguments that a gradient is with respect to, in words."""
    if argnames is not None:
        return ", ".join([argnames] if isinstance(argnames, str) else map(str, argnames))
    given = 0 if argnums is None else argnums
    numbers, known = given if isinstance(given, (tuple, list, range)) else [given], positional_names(f)
    named = [known[i] if type(i) is int and -len(known) <= i < len(known) else f"argument {i}" for i in numbers]
    return ", ".join(named)


with_compiled.add(Gradient)
