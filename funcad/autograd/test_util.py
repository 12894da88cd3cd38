"""`autograd.test_util`: derivatives compared with differences, along one random direction, as autograd does.

`funcad.testing.check_grads` looks at every element, and says which one differs. Directions are of NumPy's global generator, so
`np.random.seed(0)` repeats a check. Idea: with u random in the cotangents and v in the arguments, u J v is one number, which
reverse mode, forward mode and a central difference tell; second order is the same check of the function that one of them made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from funcad.api.border import name_of
from funcad.autograd.core import make_jvp, make_vjp, vspace
from funcad.autograd.wrap_util import unary_to_nary

__all__ = ["check_grads", "check_vjp", "check_jvp", "check_equivalent", "combo_check", "make_numerical_jvp", "scalar_close"]
EPS = RTOL = TOL = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """Are two numbers nearly the same?

    >>> scalar_close(1.0, 1.0 + 1e-12), scalar_close(1.0, 1.1)
    (True, False)
    """
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def make_numerical_jvp(f: Callable[[Any], Any], x: Any) -> Callable[[Any], Any]:
    """The function `v -> Jacobian times v` by a central difference.

    >>> round(float(make_numerical_jvp(lambda x: x**2, 3.0)(2.0)), 6)
    12.0
    """
    return lambda v: _difference(f, x, v, vspace(x))


def _difference(f: Callable[[Any], Any], x: Any, v: Any, space: Any, values: Any = None) -> Any:
    """`values`: the space of f's results, if it is known."""
    above, below = [f(space.add(x, space.scalar_mul(v, step))) for step in (EPS / 2, -EPS / 2)]
    values = vspace(above) if values is None else values
    return values.scalar_mul(values.add(above, values.scalar_mul(below, -1.0)), 1 / EPS)


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    """Compare reverse mode with differences.

    >>> import numpy as np
    >>> check_vjp(np.sin, np.array([0.1, 0.2]))
    """
    _check_vjp(f, x)


def _check_vjp(f: Callable[..., Any], x: Any) -> Any:
    """The value of f, whose pullback is right."""
    pullback, y = make_vjp(f, x)
    space, values = vspace(x), vspace(y)
    v, u = space.randn(), values.randn()
    pulled = space.covector(pullback(values.covector(u)))
    if vspace(pulled) != space:
        raise AssertionError(f"(VJP) check of {name_of(f)} failed: a cotangent of {vspace(pulled)} for an argument of {space}")
    exact, numeric = space.inner_prod(v, pulled), values.inner_prod(u, _difference(f, x, v, space, values))
    if not scalar_close(numeric, exact):
        raise AssertionError(
            f"(VJP) check of {name_of(f)} failed at {x}: along a random direction it gives {exact}, differences {numeric}"
        )
    return y


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    """Compare forward mode with differences.

    >>> import numpy as np
    >>> check_jvp(np.sin, np.array([0.1, 0.2]))
    """
    v = vspace(x).randn()
    try:
        check_equivalent(make_jvp(f, x)(v)[1], make_numerical_jvp(f, x)(v))
    except AssertionError as error:
        raise AssertionError(f"(JVP) check of {name_of(f)} failed at {x}: {error}") from None


def check_equivalent(x: Any, y: Any) -> None:
    """AssertionError unless x and y have the same space, and nearly the same product with a random vector.

    >>> check_equivalent([1.0], [1.0 + 1e-12])
    """
    space, other = vspace(x), vspace(y)
    if space != other:
        raise AssertionError(f"the spaces differ: {space} and {other}")
    v = space.randn()
    if not scalar_close(space.inner_prod(x, v), space.inner_prod(y, v)):
        raise AssertionError(f"the values differ: {x} and {y}")


@unary_to_nary
def check_grads(f: Callable[..., Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """`check_grads(f, argnum=0, modes=..., order=2)(*args)` compares the derivatives up to that order with differences.

    argnum is a position or a tuple of positions, as of `autograd.grad`. AssertionError if they differ, ValueError for a mode
    that is neither "fwd" nor "rev".

    >>> import numpy as np
    >>> check_grads(np.sin, modes=["rev"], order=2)(np.array([0.1, 0.2]))
    >>> check_grads(np.multiply, (0, 1))(2.0, 3.0)
    """
    if not {"fwd", "rev"}.issuperset(modes):
        raise ValueError(f"check_grads: modes are 'fwd' and 'rev', got {list(modes)!r}")
    derivatives: list[tuple[str, Callable[..., Any], Any]] = []  # of the point and of a direction, and what that is like
    if "fwd" in modes:
        check_jvp(f, x)
        derivatives.append(("jvp", lambda x, v: make_jvp(f, x)(v)[1], x))
    if "rev" in modes:
        derivatives.append(("vjp", lambda x, v: make_vjp(f, x)[0](v), _check_vjp(f, x)))
    for name, derivative, like in derivatives if order > 1 else ():
        derivative.__name__ = derivative.__qualname__ = f"{name}_{name_of(f)}"
        check_grads(derivative, (0, 1), modes=modes, order=order - 1)(x, vspace(like).randn())


def combo_check(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Callable[..., None]:
    """check_grads for every combination of the given lists of arguments and keyword arguments.

    >>> import numpy as np
    >>> combo_check(np.sum, modes=["rev"])([np.ones((2, 2))], axis=[None, 0])
    """
    check = check_grads(fun, *args, **kwargs)

    def check_all(*lists: Any, **named: Any) -> None:
        for values in product(*lists, *named.values()):
            check(*values[: len(lists)], **dict(zip(named, values[len(lists) :])))

    return check_all
