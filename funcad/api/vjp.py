"""Reverse mode for users: vjp.

Outside jit it *follows* (following.py): the user's function runs once, on its real values. The linear program that was
recorded meanwhile is transposed when the pullback is called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from funcad import tree
from funcad.api.border import AbstractOutput, api, check_tangents, name_of, own_memory, zeros_for
from funcad.api.linearized import Linearized, linearized
from funcad.ir.aval import Aval, aval_of
from funcad.primitives.placement import each_on_device_of
from funcad.unjitted.structural import pull

__all__ = ["pullback_of", "vjp"]


class _Pullback:
    """The transposed linear program of one call: cotangents of the output in, cotangents of the arguments out."""

    __slots__ = (
        "name",
        "outs",
        "out_tree",
        "nonzero",
        "jaxpr",
        "residuals",
        "locks",
        "primals",
        "differentiable",
        "in_tree",
        "kept",
    )

    def __init__(self, f: Any, found: Linearized):
        self.name = name_of(f)
        self.outs: list[Any] = [AbstractOutput(aval_of(o)) for o in found.outs]
        self.out_tree = found.out_tree
        self.nonzero = found.nonzero
        self.jaxpr = found.jaxpr
        self.residuals = found.residuals
        self.locks = found.locks
        self.primals = found.leaves
        self.differentiable = found.differentiable
        self.in_tree = found.in_tree
        self.kept: _StaticPart | None = None  # once it has been taken apart, as a container

    def flat(self, cts: Sequence[Any], residuals: list) -> list[Any]:
        """Cotangents (None: zero) of the differentiated leaves."""
        self.locks.check()
        return pull(self.jaxpr, residuals, [c for c, z in zip(cts, self.nonzero) if z])

    @property
    def __name__(self) -> str:
        return f"vjp of {self.name}"

    def __call__(self, cotangent: Any) -> tuple:
        return _pull(self, cotangent)

    def __copy__(self) -> _Pullback:
        return self  # it is never changed, and holds locks

    def __deepcopy__(self, memo: Any) -> _Pullback:
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.__name__} is not pickled: it holds the program and the values of one call.\n"
            "Remedy: pickle the function and its arguments, and call vjp where they are loaded."
        )


class _StaticPart:
    """What a pullback is besides the arrays that it keeps: static, and equal to itself alone."""

    __slots__ = ("rest", "kinds")

    def __init__(self, pullback: _Pullback):
        self.rest = {name: getattr(pullback, name) for name in _Pullback.__slots__ if name not in _PARTS}
        self.kinds = _kinds(pullback)


_PARTS = ("residuals", "primals", "kept")


def _kinds(pullback: _Pullback) -> list[Any]:
    """The shapes and dtypes of the arrays that it keeps."""
    avals = map(aval_of, (*pullback.residuals, *pullback.primals))
    return [(a.shape, a.dtype) if isinstance(a, Aval) else a for a in avals]


def _flat_pullback(pullback: _Pullback) -> tuple[list, _StaticPart]:
    if pullback.kept is None:
        pullback.kept = _StaticPart(pullback)
    return [pullback.residuals, pullback.primals], pullback.kept


def _pullback_again(kept: _StaticPart, parts: Sequence[Any]) -> _Pullback:
    made = object.__new__(_Pullback)
    for name, value in kept.rest.items():
        setattr(made, name, value)
    made.residuals, made.primals = map(list, parts)
    made.kept = kept
    return made


# what a custom rule keeps of another function
tree.register_pytree_node(_Pullback, _flat_pullback, _pullback_again)


@api
def _pull(pullback: _Pullback, cotangent: Any) -> tuple:
    if pullback.kept is not None and pullback.kept.kinds != _kinds(pullback):
        raise ValueError(
            f"{pullback.__name__}: the values that it keeps have other shapes or dtypes than when it was made, as vmap or a "
            "map over its leaves leaves them.\n"
            "Remedy: call it inside the mapped function, or map it itself: vmap(lambda p, ct: p(ct))."
        )
    outs = pullback.out_tree.unflatten(pullback.outs)
    _, cts, _ = check_tangents(outs, cotangent, pullback.__name__, "output", "cotangent", pullback.primals)
    found = iter(pullback.flat(cts, list(pullback.residuals)))
    grads = []
    for p, d in zip(pullback.primals, pullback.differentiable):
        ct = next(found) if d else None
        grads.append(zeros_for(p) if ct is None else ct)
    grads = own_memory(each_on_device_of(grads, pullback.primals), [*cts, *pullback.primals, *pullback.residuals])
    return pullback.in_tree.unflatten(grads)


@api
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Value of f and a function that pulls cotangents of the output back to the arguments (reverse mode).

    Returns `(output, pullback)`, and `(output, pullback, aux)` with has_aux. `pullback(ct)` takes a pytree like the output
    and returns a tuple with one pytree per argument (float0 zeros for integer leaves); it may be called many times and may
    itself be differentiated. Raises TangentMismatchError naming the path that does not fit. As JAX's.

    >>> import numpy as np, funcad
    >>> y, pullback = funcad.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> [float(g) for g in pullback(1.0)]
    [3.0, 2.0]
    """
    found = linearized(f, primals, has_aux, "vjp")
    return found.out, pullback_of(f, found), *found.aux


def pullback_of(f: Any, found: Linearized) -> _Pullback:
    return _Pullback(f, found)
