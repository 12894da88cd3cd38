"""`autograd.core`'s tables of rules and its deprecated ways to give them: all of it looks at the rules that primitives hold.

A rule is kept in its primitive, and nowhere else: `primitive_vjps[fun]` reads and writes it there. Functions of funcad's and
NumPy's have no rule of their own that could be taken or exchanged; `make_vjp` and `make_jvp` are their derivatives.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

from funcad import tree
from funcad.api.border import name_of, zeros_for
from funcad.autograd.extend import _check_rules, _Rules, defvjp, primitive
from funcad.autograd.vspaces import SparseObject, dense, vspace

_MISSING = object()


class _Table:
    """The rules of one mode as autograd's dictionary `{primitive: maker}`."""

    def __init__(self, name: str, mode: str):
        self.name, self.mode = name, mode

    def _rules(self, fun: Any) -> Any:
        return getattr(fun, self.mode) if isinstance(fun, primitive) else None

    def __contains__(self, fun: Any) -> bool:
        return self._rules(fun) is not None

    def __getitem__(self, fun: Any) -> Callable[..., Any]:
        rules = self._rules(fun)
        if rules is None:
            raise KeyError(
                f"{self.name}[{name_of(fun)}]: it holds no rule; only primitives that were given one do.\n"
                "Remedy: `autograd.core.make_vjp(fun, x)` and `make_jvp(fun, x)` differentiate whatever is a function."
            )
        return rules.make  # type: ignore[no-any-return]

    def get(self, fun: Any, default: Any = None) -> Any:
        return self[fun] if fun in self else default

    def __setitem__(self, fun: Any, maker: Callable[..., Any]) -> None:
        if not isinstance(fun, primitive):
            raise TypeError(
                f"{self.name}[{name_of(fun)}]: rules are for what `primitive` made.\n"
                "Remedy: f = primitive(fun), and call f instead of it."
            )
        setattr(fun, self.mode, _Rules(maker))

    def __delitem__(self, fun: Any) -> None:
        self.pop(fun)

    def pop(self, fun: Any, default: Any = _MISSING) -> Any:
        if fun not in self and default is not _MISSING:
            return default
        maker = self[fun]
        setattr(fun, self.mode, None)
        return maker


primitive_vjps = _Table("primitive_vjps", "vjps")
primitive_jvps = _Table("primitive_jvps", "jvps")


def translate_vjp(vjpfun: Any, fun: Any, argnum: int) -> Callable[..., Any]:
    """A rule as a function: None means zeros.

    >>> translate_vjp(None, len, 0)(7.0, 3.0)(1.0)
    np.float64(0.0)
    """
    _check_rules({argnum: vjpfun}, fun, "vjp")
    return (lambda ans, *args, **kwargs: lambda g: tree.map(zeros_for, args[argnum])) if vjpfun is None else vjpfun


def translate_jvp(jvpfun: Any, fun: Any, argnum: int) -> Callable[..., Any]:
    """A rule as a function: None means zeros, "same" that fun is linear in this argument.

    >>> translate_jvp("same", lambda x, y: x * y, 0)(5.0, 6.0, 2.0, 3.0)
    15.0
    """
    _check_rules({argnum: jvpfun}, fun, "jvp")
    if jvpfun is None:
        return lambda g, ans, *args, **kwargs: tree.map(zeros_for, ans)
    if jvpfun == "same":
        return lambda g, ans, *args, **kwargs: fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)
    return jvpfun  # type: ignore[no-any-return]


def add_outgrads(prev_g_flagged: tuple[Any, bool] | None, g: Any) -> tuple[Any, bool]:
    """(the sum so far and g, whether that may be written into): cotangents are added, never in place.

    >>> add_outgrads(add_outgrads(None, 1.0), 2.0)
    (3.0, False)
    """
    g = dense(g)
    return (g if not prev_g_flagged else vspace(g).add(prev_g_flagged[0], g)), False


def sum_outgrads(gs: Iterable[Any]) -> Any:
    """The sum of cotangents.

    >>> sum_outgrads([1.0, 2.0, 4.0])
    7.0
    """
    total: Any = reduce(add_outgrads, gs, None)
    return total[0]


def sparse_add(vs: Any, x_prev: Any, x_new: SparseObject) -> Any:
    """The sum of a cotangent and a sparse one; None is zero."""
    return x_new.mut_add(vs.zeros() if x_prev is None else x_prev)


def identity_vjp(argnums: Any, *args: Any) -> Callable[[Any], Any]:
    return lambda g: g


def identity_jvp(g: Any, *args: Any, **kwargs: Any) -> Any:
    return g


class OldPrimitive(primitive):
    """`autograd.extend.primitive` with the deprecated methods `defvjp`, `defgrad` and `defvjp_is_zero`.

    >>> import warnings
    >>> from funcad.autograd import grad
    >>> cube = OldPrimitive(lambda x: x**3)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     cube.defgrad(lambda ans, x: lambda g: 3 * x**2 * g)
    >>> float(grad(cube)(2.0))
    12.0
    """

    def __init__(self, fun: Callable[..., Any]):
        super().__init__(fun)
        self.given: dict[int, Any] = {}

    def _give(self, what: str, makers: dict[int, Any]) -> None:
        warnings.warn(f"the method {what} of primitives is deprecated: use autograd.extend.defvjp", stacklevel=3)
        self.given |= makers
        defvjp(self, *self.given.values(), argnums=self.given)

    def defgrad(self, gradfun: Callable[..., Any], argnum: int = 0) -> None:
        self._give("defgrad", {argnum: gradfun})

    def defvjp(self, vjpmaker: Callable[..., Any], argnum: int = 0) -> None:
        def staged(ans: Any, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
            return lambda g: vjpmaker(g, ans, vspace(args[argnum]), vspace(g), *args, **kwargs)

        self._give("defvjp", {argnum: staged})

    def defvjp_is_zero(self, argnums: Iterable[int] = (0,)) -> None:
        self._give("defvjp_is_zero", dict.fromkeys(argnums))
