"""JAX's transformations, whose results have `x.at[i].set(v)`: funcad's own, with NumPy arrays handed out as `Array`s.

Idea: a transformation of `funcad.jax` is funcad's, whose function stands behind a `Handing`: calls hand their arrays out with
an `at`, everything else asked of it is the function's own. A transformation of a transformed function is given what stands
behind, so that funcad knows it as ever. Traced values have an `at` anyway and stay as they are.
"""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

from funcad import tree
from funcad.host.real_types import HALVES
from funcad.jax.jax_arrays import halved, handed
from funcad.jax.sharding import PartitionSpec, Sharding

__all__ = ["Handing", "transforming", "with_arrays"]

_MAKERS = "grad hessian jacfwd jacobian jacrev jit linear_transpose value_and_grad vectorize vmap".split()
_CALLS = "io_callback jvp linearize pure_callback ravel_pytree vjp".split()
_WITH_FUNCTION = ("linearize", "ravel_pytree", "vjp")  # a function is the second of their results
_MEANINGLESS = ("in_shardings", "out_shardings", "keep_unused", "device", "backend", "compiler_options")  # in one process


def with_arrays(out: Any) -> Any:
    """The same with the NumPy arrays in it as `Array`s, without copies.

    >>> with_arrays((np.ones(1), 2.0))
    (Array([1.]), 2.0)
    """
    kind = type(out)
    if kind is np.ndarray:
        return handed(out)
    return out if kind is float or kind is np.float64 and not HALVES else tree.map(handed, out)


class Handing:
    """A function that a transformation made, whose arrays have `at`; what else is asked of it is the function's."""

    def __init__(self, made: Any):
        self.made = made
        functools.update_wrapper(self, made, updated=())
        self.__wrapped__ = getattr(made, "__wrapped__", made)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if HALVES:
            args, kwargs = tree.map(halved, (args, kwargs))
        return with_arrays(self.made(*args, **kwargs))

    def __getattr__(self, name: str) -> Any:
        if name == "made":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.made, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        own = self.made.__get__(instance, owner) if hasattr(type(self.made), "__get__") else self.made
        return self if own is self.made else Handing(own)

    def __set_name__(self, owner: type, name: str) -> None:
        if hasattr(type(self.made), "__set_name__"):
            self.made.__set_name__(owner, name)

    def __repr__(self) -> str:
        return repr(self.made)


def _behind(f: Any) -> Any:
    return f.made if type(f) is Handing else f


def _strong(leaf: Any) -> Any:
    """A leaf of a tree that is to be one vector, of 32 bits."""
    return halved(np.asarray(leaf) if type(leaf) in (int, float) else leaf)


def _without_shardings(options: dict[str, Any]) -> None:
    """Take out what is said about devices, of which there is one. TypeError for what is no sharding."""
    for name in _MEANINGLESS:
        given = options.pop(name, None)
        if name.endswith("shardings"):
            for leaf in tree.leaves(given, is_leaf=lambda part: isinstance(part, (PartitionSpec, Sharding))):
                if not isinstance(leaf, (PartitionSpec, Sharding)):
                    raise TypeError(f"jit: {name} takes shardings and PartitionSpecs, got {type(leaf).__name__}")


def transforming(name: str, transform: Any) -> Any:
    """funcad's transformation of that name as JAX's programs call it.

    >>> import funcad
    >>> transforming("grad", funcad.grad)(lambda x: (x**2).sum())(np.ones(2)).at[0].set(5.0)
    Array([5., 2.])
    """
    if name == "flatten_util":
        module = types.ModuleType(transform.__name__, transform.__doc__)
        vars(module).update(ravel_pytree=transforming("ravel_pytree", transform.ravel_pytree), __file__=transform.__file__)
        return module
    if name in _CALLS:

        @functools.wraps(transform)
        def call(f: Any, *args: Any, **kwargs: Any) -> Any:
            if HALVES:
                f, args = f if callable(f) else tree.map(_strong, f), tree.map(halved, args)
            found = transform(_behind(f), *args, **kwargs)
            if name in _WITH_FUNCTION:
                return (with_arrays(found[0]), Handing(found[1]), *map(with_arrays, found[2:]))
            return with_arrays(found)

        return call
    if name not in _MAKERS:
        return transform

    @functools.wraps(transform)
    def make(*args: Any, **kwargs: Any) -> Any:
        if name == "jit":
            _without_shardings(kwargs)
        made = transform(*map(_behind, args), **kwargs)
        return Handing(made) if args else lambda f: Handing(made(_behind(f)))

    return make
